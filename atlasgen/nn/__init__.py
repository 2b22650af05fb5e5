"""Memory rules as torch modules: a layer, a block, a small language model.

layer = MemoryLayer("omeganet_linear", hidden_size=256, num_heads=4); y = layer(x)
"""

from atlasgen.nn.block import MemoryBlock, SwiGLU
from atlasgen.nn.classes import class_name, layer_class
from atlasgen.nn.convolution import ShortConvolution
from atlasgen.nn.layer import MemoryLayer
from atlasgen.nn.model import MemoryLanguageModel, ModelState
from atlasgen.nn.norms import RMSNorm
from atlasgen.nn.state import LayerState

__all__ = [
    "LayerState",
    "MemoryBlock",
    "MemoryLanguageModel",
    "MemoryLayer",
    "ModelState",
    "RMSNorm",
    "ShortConvolution",
    "SwiGLU",
    "class_name",
    "layer_class",
]

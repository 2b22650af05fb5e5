"""A small language model over bytes (or any vocabulary): a stack of memory blocks."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils import _pytree

from atlasgen.errors import ArgumentError
from atlasgen.nn.block import MemoryBlock
from atlasgen.nn.layer import MemoryLayer
from atlasgen.nn.masking import masked_rows
from atlasgen.nn.norms import RMSNorm
from atlasgen.nn.state import LayerState
from atlasgen.spec.rule import MemoryRule

Rule = MemoryRule | str | os.PathLike[str]


@dataclass(eq=False)
class ModelState:
    """The LayerState of every block of a model, first to last; a pytree."""

    layers: list[LayerState]

    def map(self, function: Callable[[Tensor], Tensor]) -> ModelState:
        """A state whose every tensor is `function` of this one's."""
        return ModelState([layer.map(function) for layer in self.layers])

    def detach(self) -> ModelState:
        """The same values, cut from the autograd graph (truncated backpropagation through time)."""
        return self.map(lambda tensor: tensor.detach())

    def __getitem__(self, index: Any) -> ModelState:
        """The state of some of the sequences, as LayerState's."""
        return ModelState([layer[index] for layer in self.layers])

    def __len__(self) -> int:
        """The number of sequences."""
        return len(self.layers[0])


_pytree.register_dataclass(ModelState, serialized_type_name="atlasgen.ModelState")


class MemoryLanguageModel(nn.Module):
    """Next-token model: embedding, num_layers memory blocks, RMSNorm, logits.

    layer: a rule (MemoryRule, path or shipped name) or a layer class of a generated package.
    hidden_size, num_heads and layer_options (key_size, conv, backend, ...) go to each layer.
    vocabulary_size 256 reads bytes. tie_weights: the logits use the embedding's weights.
    """

    def __init__(
        self,
        layer: Rule | type[MemoryLayer],
        hidden_size: int = 128,
        num_layers: int = 2,
        num_heads: int = 4,
        *,
        vocabulary_size: int = 256,
        mlp_size: int | None = None,
        tie_weights: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **layer_options: Any,
    ) -> None:
        super().__init__()
        if num_layers < 1:
            raise ArgumentError("num_layers", "too small", value=num_layers, allowed="from 1")
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        options = {**layer_options, **factory}

        def make_layer() -> MemoryLayer:
            if isinstance(layer, type):
                return layer(hidden_size=hidden_size, num_heads=num_heads, **options)  # type: ignore[call-arg]
            return MemoryLayer(layer, hidden_size, num_heads, **options)

        self.vocabulary_size = vocabulary_size
        self.embedding = nn.Embedding(vocabulary_size, hidden_size, **factory)
        self.blocks = nn.ModuleList(MemoryBlock(make_layer(), mlp_size, **factory) for _ in range(num_layers))
        self.norm = RMSNorm(hidden_size, **factory)
        # Tied weights are read from the embedding: a second reference to a parameter would be cut
        # by to_empty and by wrappers that replace parameters.
        self.head = None if tie_weights else nn.Linear(hidden_size, vocabulary_size, bias=False, **factory)
        self._scale_down()

    def reset_parameters(self) -> None:
        """Draws all parameters anew, e.g. after `to_empty` on a model made on the meta device."""
        for module in self.modules():
            reset = getattr(module, "reset_parameters", None)
            if module is not self and reset is not None:
                reset()
        self._scale_down()

    def _scale_down(self) -> None:
        """Small logits at the start, and a residual stream that does not grow with depth."""
        nn.init.normal_(self.embedding.weight, std=0.02)
        if self.head is not None:
            nn.init.normal_(self.head.weight, std=0.02)
        with torch.no_grad():
            for block in self.blocks:
                assert isinstance(block, MemoryBlock)
                for linear in (block.layer.output, block.mlp.narrow):
                    linear.weight.mul_(1 / math.sqrt(2 * len(self.blocks)))

    def forward(
        self,
        tokens: Tensor,
        state: ModelState | None = None,
        *,
        output_state: bool = False,
        cu_seqlens: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Any:
        """tokens int [B, T] -> logits [B, T, vocabulary_size], or (logits, ModelState).

        state, cu_seqlens and mask as those of MemoryLayer.forward; padded rows give zero logits.
        """
        if tokens.dim() != 2:
            raise ArgumentError("tokens", "wrong shape", value=list(tokens.shape), allowed="[B, T]")
        x = self.embedding(tokens)
        # Padding is taken out once for all layers: each new set of borders is read by the host.
        rows = None if mask is None else masked_rows(mask, x, cu_seqlens)
        if rows is not None:
            x, cu_seqlens = rows.pack(x), rows.borders
        after = []
        for index, block in enumerate(self.blocks):
            before = None if state is None else state.layers[index]
            x = block(x, before, output_state=output_state, cu_seqlens=cu_seqlens)
            if output_state:
                x, layer_state = x
                after.append(layer_state)
        weight = self.embedding.weight if self.head is None else self.head.weight
        logits = functional.linear(self.norm(x), weight)
        if rows is not None:
            logits = rows.unpack(logits, tokens.shape[0])
        return (logits, ModelState(after)) if output_state else logits

    @torch.no_grad()
    def generate(
        self,
        prompt: Tensor,
        count: int,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        state: ModelState | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """int64 [B, count]: tokens drawn after `prompt` int [B, T], T from 1, one step at a time.

        temperature 0 takes the likeliest token; top_k draws among the likeliest only. Costs and
        memory per step do not depend on how much came before. Raises ArgumentError for an empty
        prompt.
        """
        if prompt.dim() != 2 or prompt.shape[1] < 1:
            raise ArgumentError("prompt", "wrong shape", value=list(prompt.shape), allowed="[B, T], T >= 1")
        drawn: list[Tensor] = []
        tokens = prompt
        for _ in range(count):
            logits, state = self(tokens, state, output_state=True)
            tokens = _drawn(logits[:, -1].to(torch.float32), temperature, top_k, generator)
            drawn.append(tokens)
        return torch.cat(drawn, dim=1) if drawn else prompt[:, :0].to(torch.int64)


def _drawn(
    logits: Tensor, temperature: float, top_k: int | None, generator: torch.Generator | None
) -> Tensor:
    """One token [B, 1] per row of logits [B, vocabulary]."""
    if temperature <= 0:
        return logits.argmax(dim=-1, keepdim=True)
    if top_k is not None and top_k < logits.shape[-1]:
        least = logits.topk(top_k, dim=-1).values[:, -1:]
        logits = logits.masked_fill(logits < least, -math.inf)
    chances = torch.softmax(logits / temperature, dim=-1)
    return torch.multinomial(chances, 1, generator=generator)

"""The state of a layer between two calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils import _pytree

from atlasgen.runtime.state import OperatorState


@dataclass(eq=False)
class LayerState:
    """All that a MemoryLayer remembers of the tokens it has read: any split equals one call.

    conv: [B, width - 1, channels], the last inputs of the short convolution, newest last, 0 before
        the sequence's start; in the dtype of the layer's activations.
    memory: the OperatorState of the rule, float32.

    A state is a pytree; no call changes one that it is given.
    """

    conv: Tensor
    memory: OperatorState

    def map(self, function: Callable[[Tensor], Tensor]) -> LayerState:
        """A state whose every tensor is `function` of this one's."""
        return LayerState(function(self.conv), self.memory.map(function))

    def detach(self) -> LayerState:
        """The same values, cut from the autograd graph (truncated backpropagation through time)."""
        return self.map(lambda tensor: tensor.detach())

    def clone(self) -> LayerState:
        """A differentiable copy that shares no memory with this state."""
        return self.map(lambda tensor: tensor.clone())

    def to(self, device: torch.device | str, non_blocking: bool = False) -> LayerState:
        """The state on another device. Raises TypeError for a dtype: the memory stays float32."""
        memory = self.memory.to(device, non_blocking)
        return LayerState(self.conv.to(device, non_blocking=non_blocking), memory)

    def __getitem__(self, index: int | slice | Tensor | Sequence[int]) -> LayerState:
        """The state of some of the sequences; an int keeps a batch of one, ready for a next call."""
        memory = self.memory[index]
        if isinstance(index, int):
            first = index % len(self)
            return LayerState(self.conv[first : first + 1], memory)
        if isinstance(index, (list, tuple)):
            index = torch.tensor(index, dtype=torch.int64, device=self.conv.device)
        return LayerState(self.conv[index], memory)

    def __len__(self) -> int:
        """The number of sequences."""
        return self.conv.shape[0]


_pytree.register_dataclass(LayerState, serialized_type_name="atlasgen.LayerState")

"""The state of a sequence between two calls of an operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields

import torch
from torch import Tensor
from torch.utils import _pytree

from atlasgen.errors import ArgumentError

Part = dict[str, Tensor]

PARTS = ("memory", "momentum", "normaliser", "window", "block", "origin")


@dataclass(eq=False)
class OperatorState:
    """All that a rule remembers of the tokens it has read: any split of a sequence equals one call.

    B sequences, H memory heads, K keys, F features, V values, c the window's length. Everything but
    `position` is float32, whatever the dtype of the call; parts that a rule lacks are empty dicts.
    A weight is [B, H, in, out], a bias [B, H, out]; a matrix memory has the one weight M [B, H, F, V].

    memory: the weights by name, "M" or "W1", ...
    momentum: likewise, where the rule has momentum.
    normaliser: "z" [B, H, F] (and "momentum" [B, H, F]), where the read is normalised.
    window: the last c - 1 tokens, newest last, 0 before the sequence's start: "k" [B, c-1, H, K],
        "v" [B, c-1, H, V], "gamma" [B, c-1, H] for one gate per token, and the rule's own token
        inputs by name, [B, c-1, H] or [B, c-1, H, ...].
    block: what the open block needs, one entry per weight: "anchor.W1", or "anchor" for M alone.
        anchor: the memory at the last block border, where inner gradients depend on it. previous: the one
        before, where a window carries its old errors. update: the sum of the block's updates, where
        they are written when it is full, or scaled by a row's factor. pool_alpha, pool_theta, pool_lr
        [B, H] (and pool_lr_W1, ...): sums of gates, where a block's write takes their mean.
    position: int64 [B], the tokens seen since the sequence's start.
    origin: the weights at the sequence's start, where the rule decays towards them or keeps their norms.

    A state is a pytree; no call changes one that it is given, nor returns memory shared with it.
    """

    memory: Part
    momentum: Part
    normaliser: Part
    window: Part
    block: Part
    position: Tensor
    origin: Part = field(default_factory=dict)

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> OperatorState:
        """The state whose `tensors()` are these, by their full names."""
        parts: dict[str, Part] = {part: {} for part in PARTS}
        for name, tensor in tensors.items():
            part, _, entry = name.partition(".")
            if entry:
                parts[part][entry] = tensor
        return cls(position=tensors["position"], **parts)

    def map(self, function: Callable[[Tensor], Tensor]) -> OperatorState:
        """A state whose every tensor is `function` of this one's."""

        return OperatorState.of({name: function(tensor) for name, tensor in self.tensors().items()})

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor under its full name: "memory.M", "window.k", "position", ..."""
        found: dict[str, Tensor] = {}
        for entry in fields(self):
            value = getattr(self, entry.name)
            if isinstance(value, dict):
                found.update({f"{entry.name}.{name}": part for name, part in value.items()})
            else:
                found[entry.name] = value
        return found

    def copy_(self, other: OperatorState) -> OperatorState:
        """Writes the other's values into this one's tensors, which keep their place; returns self.

        Raises ArgumentError where the two have not the same tensors.
        """
        own, new = self.tensors(), other.tensors()
        shapes = [{name: tuple(tensor.shape) for name, tensor in state.items()} for state in (own, new)]
        if shapes[0] != shapes[1]:
            raise ArgumentError(
                "other",
                "a state of other tensors",
                value=shapes[1],
                allowed=str(shapes[0]),
                suggestion="copy between states of one rule, batch and size",
            )
        for name, tensor in own.items():
            tensor.copy_(new[name])
        return self

    def detach(self) -> OperatorState:
        """The same values, cut from the autograd graph (truncated backpropagation through time)."""
        return self.map(lambda tensor: tensor.detach())

    def clone(self) -> OperatorState:
        """A differentiable copy that shares no memory with this state."""
        return self.map(lambda tensor: tensor.clone())

    def to(self, device: torch.device | str, non_blocking: bool = False) -> OperatorState:
        """The state on another device; its dtypes are part of its meaning and never change.

        Raises TypeError for a dtype: a state is float32 whatever the dtype of the calls.
        """
        if isinstance(device, torch.dtype):
            raise TypeError(
                f"OperatorState.to takes a device, got {device}: a state is float32 for calls of "
                "every dtype; cast a copy of one tensor instead: state.memory['M'].bfloat16()"
            )
        return self.map(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def __getitem__(self, index: int | slice | Tensor | Sequence[int]) -> OperatorState:
        """The state of some of the sequences; an int keeps a batch of one, ready for a next call.

        Raises IndexError for an int outside the batch.
        """
        if isinstance(index, int):
            size = self.position.shape[0]
            if not -size <= index < size:
                raise IndexError(f"sequence {index} of a state that holds {size} sequences")
            first = index % size
            return self.map(lambda tensor: tensor[first : first + 1])
        if isinstance(index, (list, tuple)):
            index = torch.tensor(index, dtype=torch.int64, device=self.position.device)
        return self.map(lambda tensor: tensor[index])

    def __len__(self) -> int:
        """The number of sequences."""
        return self.position.shape[0]

    @staticmethod
    def cat(states: Sequence[OperatorState]) -> OperatorState:
        """One state of all the sequences of several, in order.

        Raises ValueError for an empty list or states of different rules.
        """
        if not states:
            raise ValueError("OperatorState.cat needs at least one state")
        first = states[0].tensors()
        for state in states[1:]:
            if state.tensors().keys() != first.keys():
                raise ValueError(
                    f"states of different rules: one holds {', '.join(first)}; "
                    f"another {', '.join(state.tensors())}"
                )

        tensors = [state.tensors() for state in states]
        return OperatorState.of({name: torch.cat([own[name] for own in tensors]) for name in first})

    def __repr__(self) -> str:
        """Names and shapes, no values."""
        shown = ", ".join(f"{name}: {list(tensor.shape)}" for name, tensor in self.tensors().items())
        memory = next(iter(self.memory.values()))
        return f"OperatorState({shown}; {memory.dtype}, {memory.device})"


_pytree.register_dataclass(OperatorState, serialized_type_name="atlasgen.OperatorState")

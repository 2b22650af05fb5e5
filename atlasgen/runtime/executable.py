"""What the runtime asks of a compiled program, whichever backend made it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from atlasgen.spec.rule import MemoryRule

Tensors = Mapping[str, Tensor | None]
SavedShapes = dict[str, tuple[tuple[int, ...], torch.dtype]]


@runtime_checkable
class Executable(Protocol):
    """A rule's forward and backward over whole sequences, heads already expanded.

    Input names, in the order of `inputs`, of which a program lists those that it reads: q, k, v
    (all of one dtype; [B, T, H, K] and [B, T, H, V]); lr, log_alpha, log_theta, gamma and the
    rule's own inputs (float32); memory, momentum [B, H, F, V] and normaliser, normaliser_momentum
    [B, H, F], the initial carries, None for zero; origin [B, H, F, V]; anchor, previous, window_k,
    window_v, window_gamma, window_<input> and position, the resume set, all given or all None;
    length int64 [B] or None, the tokens of each row that exist (rows beyond are the identity and y
    is 0 there).

    Output names: y [B, T, H, V] in the dtype of v, then those of memory, momentum, normaliser,
    normaliser_momentum, anchor, previous that the rule has, float32.
    """

    rule: MemoryRule
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def forward(self, tensors: Tensors, save: bool) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Outputs by name, and what the backward needs (empty unless `save`)."""
        ...

    def backward(
        self, tensors: Tensors, saved: Mapping[str, Tensor], gradients: Tensors
    ) -> dict[str, Tensor]:
        """Gradients of the differentiable inputs by name; a missing name means zero.

        `gradients` holds one contiguous tensor or None (zero) per output name.
        """
        ...

    def saved_shapes(self, sizes: dict[str, int]) -> SavedShapes:
        """Shape and dtype of every saved tensor, in order, from sizes B, T, H, K, V, F, resume.

        Sizes may be symbolic: arithmetic only, no branch on them. `resume` is 1 where the resume
        set is given.
        """
        ...

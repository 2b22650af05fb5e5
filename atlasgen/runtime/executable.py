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
    (all of one dtype; [B, T, H, K] and [B, T, H, V]); the gates, inputs and learned constants of the
    rule's signature (float32; None for an optional one that was not given: the program takes its
    default); the initial carries, None for zero, under the names of `carries.carry_name`: memory,
    momentum [B, H, F, V] of a matrix memory, memory_W1, momentum_W1, ... of others, normaliser,
    normaliser_momentum [B, H, F], origin or origin_W1, ...; the resume set, all given or all None:
    anchor, previous, update (or anchor_W1, ...), pool_alpha, ... [B, H], window_k, window_v,
    window_gamma, window_<input> and position; length int64 [B] or None, the tokens of each row that
    exist (rows beyond are the identity and y is 0 there).

    Of a rule with n micro-steps it is all that of the rule of rows (spec.micro_steps.of_rows): T, positions
    and lengths count n rows for each token.

    Output names: y [B, T, H, V] in the dtype of v, then those of the initial carries and of the resume
    set but for window, position and origin, float32.
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

        Sizes may be symbolic: arithmetic only, no branch on them; those of hidden layers follow from K,
        V and F by the rule's size expressions (`spec.shapes.extent`). `resume` is 1 where the resume set
        is given.
        """
        ...

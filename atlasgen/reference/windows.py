"""Which tokens an update counts, with which weight, and where their gradients are taken."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from atlasgen.spec.rule import MemoryRule


@dataclass(frozen=True)
class Counts:
    """The newest tokens that one update counts: `inside` taken at M*, `before` (older) at the block
    before.
    """

    inside: int
    before: int

    @property
    def total(self) -> int:
        return self.inside + self.before


def window_length(rule: MemoryRule) -> int:
    """c; rules whose window has no end are refused before this is asked."""
    assert isinstance(rule.window.length, int)
    return rule.window.length


def counted(rule: MemoryRule, position: int) -> Counts:
    """The window of the token at `position` (0 at the sequence's start), cut at a block's border.

    Borders matter only where gradients depend on the point at which they are taken.
    """
    existing = min(window_length(rule), position + 1)
    in_block = position % rule.block.size + 1
    if not rule.depends_on_memory or rule.window.boundary == "halo" or existing <= in_block:
        return Counts(existing, 0)
    if rule.window.boundary == "truncate":
        return Counts(in_block, 0)
    return Counts(in_block, existing - in_block)


def window_weights(rule: MemoryRule, gate: Tensor | None, token: int, count: int) -> Tensor | None:
    """gamma_{t,i} of the `count` newest tokens, oldest first, [B or 1, H, count]; None where all
    are one.

    gate: what `window.gate` names, head first: token [B, H, N] (N: history and call; `token`
    indexes it), pair [B, H, T', c] (`token` indexes T'), position [1, H, c].
    """
    kind = rule.window.gate.kind
    if kind == "none":
        return None
    assert gate is not None
    if kind == "token":
        return gate[:, :, token - count + 1 : token + 1]
    ages = gate if kind == "position" else gate[:, :, token]
    return ages[:, :, :count].flip(-1)


def normalised(rule: MemoryRule, weights: Tensor) -> Tensor:
    """weights [B, H, n], divided by their sum where the rule takes the mean; a zero sum gives
    zeros.
    """
    if rule.window.normalise == "sum":
        return weights
    total = weights.sum(-1, keepdim=True)
    there = total != 0
    return torch.where(there, weights / torch.where(there, total, 1.0), 0.0)

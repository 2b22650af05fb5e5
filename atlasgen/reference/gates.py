"""Multipliers of the rule (lr, alpha, theta) as one tensor per token, shaped to act on a weight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from atlasgen.reference.expressions import head_values
from atlasgen.spec.rule import Gate, MemoryRule


@dataclass(frozen=True)
class Multiplier:
    """A gate's values. Exactly one of `fixed` [1, H, 1, 1] and `tokens` [B, T, H, ., .] is set, or
    none.
    """

    fixed: Tensor | None = None
    tokens: Tensor | None = None

    def at(self, token: int) -> Tensor | None:
        """One token's factor, broadcasting to [B, H, in, out]; None where the gate is neutral."""
        return self.fixed if self.tokens is None else self.tokens[:, token]


@dataclass(frozen=True)
class Factors:
    """What multiplies one weight at one token: lr, alpha and theta, each [B or 1, H, ., .], None for
    one.
    """

    lr: Tensor | None
    alpha: Tensor | None
    theta: Tensor | None


def times(factor: Tensor | None, weight: Tensor) -> Tensor:
    """factor * weight for a weight [B, H, in, out] or [B, H, out]; a factor of None is one."""
    if factor is None:
        return weight
    if factor.ndim > weight.ndim:  # a bias has no axis of inputs
        factor = factor.squeeze(-2)
    return factor * weight


def constant(gate: Gate, heads: Tensor) -> Tensor:
    """The number or the expression in `head` of a constant gate, [H]; heads: the heads' indices."""
    if gate.kind == "zero":
        return torch.zeros_like(heads)
    if gate.expression is not None:
        return head_values(gate.expression, heads)
    assert gate.value is not None
    return torch.full_like(heads, gate.value)


def multiplier(gate: Gate, argument: Tensor | None, heads: Tensor, log: bool) -> Multiplier:
    """The multiplier of a gate.

    argument: the caller's tensor (its logarithm where `log`) for the kinds head [H], token [B, T,
    H], channel and key [B, T, H, K], value [B, T, H, V]; heads: [H], their indices in the
    reference's dtype.
    """
    if gate.kind == "none":
        return Multiplier()
    if not gate.is_argument:
        return Multiplier(fixed=constant(gate, heads)[None, :, None, None])
    assert argument is not None
    values = argument.exp() if log else argument
    if gate.kind == "head":
        return Multiplier(fixed=values[None, :, None, None])
    if gate.kind == "token":
        return Multiplier(tokens=values[..., None, None])
    on_value = gate.kind == "value" or (gate.kind == "channel" and gate.axis == "value")
    return Multiplier(tokens=values[..., None, :] if on_value else values[..., :, None])


def factors_at(rule: MemoryRule, gates: Mapping[str, Multiplier], token: int) -> dict[str, Factors]:
    """lr, alpha and theta of every weight at one token of the call."""
    found = {}
    for weight in rule.memory.weight_names:
        names = rule.gates_of(weight)
        lr, alpha, theta = (gates[names[kind][0]].at(token) for kind in ("lr", "log_alpha", "log_theta"))
        found[weight] = Factors(lr, alpha, theta)
    return found

"""Updates that wait for their block to be full: block.write = "block", and row factors.

Until then the memory stays at the border's value M*, and the open block's sum A is in the state:

    row_scale      A_t = A_{t-1} + [lr_t] S_t            M_t = M* - row_t A_t
    write block    A_t = A_{t-1} + [lr_t] G_t            M_t = M*

At the block's last token M* <- M* - row A, or S <- theta S + A and M* <- alpha M* - [lr] U(S).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from atlasgen.reference.gates import Factors, Multiplier, factors_at, times
from atlasgen.reference.memories import Weights
from atlasgen.reference.state import Carry, pooled_gates, sums_steps
from atlasgen.reference.updates import accumulated, scaled_gradient, written
from atlasgen.spec.rule import MemoryRule

Gates = Mapping[str, Multiplier]


def row_factor(rule: MemoryRule, gate: Multiplier, position: int, token: int) -> Tensor | None:
    """The factor of the row at `position` of its sequence, `token` of its call.

    Factors per position are [1, H, b, 1]: entry i is the one of a block's token i.
    """
    if rule.block.row_scale == "position":
        assert gate.fixed is not None
        index = position % rule.block.size
        return gate.fixed[:, :, index : index + 1]
    return gate.at(token)


def memory_of_row(carry: Carry, row: Tensor | None) -> dict[str, Tensor]:
    """M* - row A: the memory of a token inside the open block."""
    return {name: weight - times(row, carry.update[name]) for name, weight in carry.memory.items()}


def hold_scaled(
    rule: MemoryRule, carry: Carry, gradient: Weights, factors: Mapping[str, Factors], row: Tensor | None
) -> dict[str, Tensor]:
    """One token under a row factor: updates `carry` but for its position, returns M_t."""
    steps = scaled_gradient(rule, gradient, factors)
    if rule.optimizer.kind == "momentum":
        steps = carry.momentum = accumulated(carry.momentum, steps, factors)
    if rule.optimizer.lr_at == "update":
        steps = {name: times(factors[name].lr, entry) for name, entry in steps.items()}
    carry.update = {name: carry.update[name] + entry for name, entry in steps.items()}
    memory = memory_of_row(carry, row)
    if _is_full(rule, carry):
        carry.memory, carry.update = memory, _zeros(carry.update)
    return memory


def hold_block(
    rule: MemoryRule,
    carry: Carry,
    gradient: Weights,
    factors: Mapping[str, Factors],
    gates: Gates,
    token: int,
) -> dict[str, Tensor]:
    """One token of a block that is written once: updates `carry` but for its position, returns
    M_t, which is the border's memory until the block is full.
    """
    gradient = scaled_gradient(rule, gradient, factors)
    if sums_steps(rule):
        carry.update = {name: carry.update[name] + entry for name, entry in gradient.items()}
    else:
        carry.momentum = accumulated(carry.momentum, gradient, factors)
    pools = pooled_gates(rule)
    for argument, name in pools.items():
        value = gates[argument].at(token)
        assert value is not None
        carry.pool[name] = carry.pool[name] + value[..., 0, 0]
    if not _is_full(rule, carry):
        return carry.memory
    means = {
        argument: Multiplier(fixed=(carry.pool[name] / rule.block.size)[..., None, None])
        for argument, name in pools.items()
    }
    pooled = factors_at(rule, {**gates, **means}, token)
    if rule.block.momentum == "block":
        carry.momentum = accumulated(carry.momentum, carry.update, pooled)
    steps = carry.momentum if rule.optimizer.kind == "momentum" else carry.update
    carry.memory = written(rule, carry.memory, steps, carry.origin, pooled)
    carry.update, carry.pool = _zeros(carry.update), _zeros(carry.pool)
    return carry.memory


def _is_full(rule: MemoryRule, carry: Carry) -> bool:
    """True at the last token of a block."""
    return (carry.position + 1) % rule.block.size == 0


def _zeros(tensors: Weights) -> dict[str, Tensor]:
    return {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}

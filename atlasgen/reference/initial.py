"""The state at a sequence's start."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from atlasgen.errors import ArgumentError
from atlasgen.reference.arguments import Call
from atlasgen.reference.state import (
    State,
    keeps_block,
    keeps_origin,
    keeps_previous,
    map_tensors,
    packed,
    pooled_gates,
    sums_steps,
)
from atlasgen.reference.windows import window_length
from atlasgen.spec.rule import MemoryRule
from atlasgen.spec.sizes import weight_shapes


def _given(
    rule: MemoryRule, call: Call, initial: Mapping[str, Tensor] | Tensor, rows: int
) -> dict[str, Tensor]:
    """The caller's initial memory, one copy per row, [rows, H, ...] by weight."""
    weights = {"M": initial} if isinstance(initial, Tensor) else dict(initial)
    shapes = weight_shapes(rule.memory, call.sizes)
    if set(weights) != set(shapes):
        raise ArgumentError(
            "initial_memory",
            "does not name the memory's weights",
            value=sorted(weights),
            allowed=", ".join(shapes),
        )
    result = {}
    for name, inner in shapes.items():
        shape = (rows, len(call.heads), *inner)
        if tuple(weights[name].shape) not in (shape, shape[1:]):
            raise ArgumentError(
                "initial_memory",
                f"{name} has shape {tuple(weights[name].shape)}",
                allowed=f"[H, {_inner(inner)}] = {shape[1:]} or [N, H, {_inner(inner)}] = {shape}",
            )
        result[name] = weights[name].expand(shape)
    return result


def _inner(shape: tuple[int, ...]) -> str:
    return "in, out" if len(shape) == 2 else "out"


def _zero(rule: MemoryRule, call: Call, rows: int) -> dict[str, Tensor]:
    shapes = weight_shapes(rule.memory, call.sizes)
    if rule.memory.initial != "zero":
        raise ArgumentError(
            "initial_memory",
            f'required, because memory.initial = "{rule.memory.initial}"',
            allowed=", ".join(f"{name} [H, {_inner(inner)}]" for name, inner in shapes.items()),
        )
    values = call.per_token["v"]
    return {name: values.new_zeros(rows, len(call.heads), *inner) for name, inner in shapes.items()}


def first_state(
    rule: MemoryRule,
    call: Call,
    initial: Mapping[str, Tensor] | Tensor | None,
    rows: int,
    dtype: torch.dtype,
) -> State:
    """The state before the first token of `rows` sequences, in the layout of state.py."""
    memory = _zero(rule, call, rows) if initial is None else _given(rule, call, initial, rows)
    memory = {name: weight.to(dtype) for name, weight in memory.items()}
    values = call.per_token["v"]
    has_momentum = rule.optimizer.kind == "momentum"
    normaliser = {}
    if rule.read.normaliser == "sum":
        normaliser["z"] = values.new_zeros(rows, len(call.heads), call.sizes["F"])
        if has_momentum:
            normaliser["momentum"] = torch.zeros_like(normaliser["z"])
    history = window_length(rule) - 1
    window = {}
    if history:
        for name in call.streams:
            window[name] = values.new_zeros(rows, history, *call.per_token[name].shape[2:])
    block: State = {"anchor": packed(memory)} if keeps_block(rule) else {}
    if keeps_previous(rule):
        block["previous"] = map_tensors(torch.zeros_like, packed(memory))  # no block yet
    if sums_steps(rule):
        block["update"] = map_tensors(torch.zeros_like, packed(memory))
    for name in pooled_gates(rule).values():
        block[name] = values.new_zeros(rows, len(call.heads))
    return {
        "memory": memory,
        "momentum": {name: torch.zeros_like(weight) for name, weight in memory.items()}
        if has_momentum
        else {},
        "normaliser": normaliser,
        "window": window,
        "block": block,
        "position": torch.zeros(rows, dtype=torch.int64, device=values.device),
        "origin": dict(memory) if keeps_origin(rule) else {},
    }

"""The state at a sequence's start."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from atlasgen.errors import ArgumentError
from atlasgen.reference.arguments import Call
from atlasgen.reference.memories import weight_names
from atlasgen.reference.state import State, keeps_block, keeps_previous
from atlasgen.spec.rule import MemoryRule


def _given(
    rule: MemoryRule, call: Call, initial: Mapping[str, Tensor] | Tensor, rows: int
) -> dict[str, Tensor]:
    """The caller's initial memory, one copy per row, [rows, H, ...] by weight."""
    weights = {"M": initial} if isinstance(initial, Tensor) else dict(initial)
    names = weight_names(rule.memory)
    if set(weights) != set(names):
        raise ArgumentError(
            "initial_memory", "does not name the memory's weights", value=sorted(weights),
            allowed=", ".join(names),
        )  # fmt: skip
    heads = len(call.heads)
    result = {}
    for name in names:
        weight = weights[name]
        inner = 1 if name.startswith("b") else 2
        if weight.ndim == inner + 1:
            weight = weight.expand(rows, *weight.shape)
        if weight.ndim != inner + 2 or weight.shape[:2] != (rows, heads):
            raise ArgumentError(
                "initial_memory",
                f"{name} has shape {tuple(weights[name].shape)}",
                allowed=f"[{heads}, ...] or [{rows}, {heads}, ...] with {inner} sizes of its own",
            )
        result[name] = weight
    _check_matrix(rule, call, result)
    return result


def _check_matrix(rule: MemoryRule, call: Call, weights: Mapping[str, Tensor]) -> None:
    value_size = call.per_token["v"].shape[-1]
    if rule.memory.kind == "matrix" and weights["M"].shape[2:] != (call.features, value_size):
        raise ArgumentError(
            "initial_memory",
            f"M has sizes {tuple(weights['M'].shape[2:])}",
            allowed=f"[features, values] = ({call.features}, {value_size})",
        )


def _zero(rule: MemoryRule, call: Call, rows: int) -> dict[str, Tensor]:
    if rule.memory.kind != "matrix" or rule.memory.initial != "zero":
        raise ArgumentError(
            "initial_memory",
            f'required: memory.initial = "{rule.memory.initial}" of a {rule.memory.kind} memory '
            "comes from outside the rule",
            allowed="weights " + ", ".join(weight_names(rule.memory)),
        )
    values = call.per_token["v"]
    heads, value_size = values.shape[2:]
    weights = {"M": values.new_zeros(rows, heads, call.features, value_size)}
    if rule.memory.bias:
        weights["bias"] = values.new_zeros(rows, heads, value_size)
    return weights


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
        normaliser["z"] = values.new_zeros(rows, len(call.heads), call.features)
        if has_momentum:
            normaliser["momentum"] = torch.zeros_like(normaliser["z"])
    assert isinstance(rule.window.length, int)
    history = rule.window.length - 1
    window = {}
    if history:
        for name in call.streams:
            window[name] = values.new_zeros(rows, history, *call.per_token[name].shape[2:])
    anchor = memory["M"] if set(memory) == {"M"} else memory
    block = {"anchor": anchor} if keeps_block(rule) else {}
    if keeps_previous(rule):
        block["previous"] = anchor
    return {
        "memory": memory,
        "momentum": {name: torch.zeros_like(weight) for name, weight in memory.items()}
        if has_momentum
        else {},
        "normaliser": normaliser,
        "window": window,
        "block": block,
        "position": torch.zeros(rows, dtype=torch.int64, device=values.device),
        "origin": dict(memory) if rule.retention.toward == "initial" else {},
    }

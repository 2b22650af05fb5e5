"""A call's tensors, checked against the rule and sorted by what they depend on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from atlasgen.errors import ArgumentError
from atlasgen.reference.features import apply_features
from atlasgen.reference.windows import window_length
from atlasgen.spec.expression import evaluate_number
from atlasgen.spec.rule import Gate, MemoryRule

_DIMENSIONS = {
    "token": "BTH",
    "head": "H",
    "head_key": "HK",
    "key": "BTHK",
    "value": "BTHV",
    "pair": "BTHc",
    "position": "Hc",
}
"""Shapes of gates and inputs by kind; `channel` is that of its axis."""


@dataclass(frozen=True)
class Call:
    """One call. Everything is in the reference's dtype and has the memory's H heads, queries R * H
    of them.

    per_token: [B, T, H, ...] by name, with "q", "k" and "v"; per_head: [H, ...] by name; heads [H]:
    their indices; streams: the names whose rows a window must remember; features: F; scale: the
    read's factor.
    """

    per_token: dict[str, Tensor]
    per_head: dict[str, Tensor]
    heads: Tensor
    streams: tuple[str, ...]
    sizes: dict[str, int]
    scale: float

    def part(self, rows: slice, times: slice) -> Call:
        """The same call for some batch rows and times."""
        return replace(self, per_token={name: entry[rows, times] for name, entry in self.per_token.items()})


def _shape(name: str, tensor: Tensor, dimensions: str, sizes: Mapping[str, int]) -> None:
    expected = tuple(sizes[letter] for letter in dimensions)
    if tuple(tensor.shape) != expected:
        letters = ", ".join(dimensions)
        raise ArgumentError(
            name,
            f"shape {tuple(tensor.shape)} does not fit the other arguments",
            allowed=f"[{letters}] = {expected}",
        )


def _declared(name: str, tensor: Tensor | None, declared: bool, where: str) -> Tensor | None:
    """The argument where the rule reads it; raises where it is missing, or not declared."""
    if declared and tensor is None:
        raise ArgumentError(name, f"required, because the rule's {where} reads it")
    if not declared and tensor is not None:
        raise ArgumentError(
            name, f"not read by this rule, whose {where} declares no such argument",
            suggestion="Leave it out, or change the rule",
        )  # fmt: skip
    return tensor


def _sizes(q: Tensor, k: Tensor, v: Tensor) -> dict[str, int]:
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.ndim != 4:
            raise ArgumentError(name, f"{tensor.ndim} dimensions", allowed="4: [batch, time, heads, size]")
    batch, length, heads, value_size = v.shape
    key_size = k.shape[-1]
    for name, tensor in (("q", q), ("k", k)):
        if tensor.shape[:2] != v.shape[:2] or tensor.shape[-1] != key_size:
            raise ArgumentError(
                name,
                f"shape {tuple(tensor.shape)} does not fit those of k and v",
                allowed=f"[{batch}, {length}, heads, {key_size}]",
            )
    if heads % k.shape[2] or max(q.shape[2], heads) % min(q.shape[2], heads):
        raise ArgumentError(
            "q, k, v",
            f"{q.shape[2]} query, {k.shape[2]} key and {heads} value heads do not group",
            allowed="one memory per value head; key heads divide them, query heads divide or are a "
            "multiple of them",
        )
    return {"B": batch, "T": length, "H": heads, "K": key_size, "V": value_size}


def _gates(rule: MemoryRule) -> list[tuple[str, Gate, str]]:
    return [
        ("lr", rule.optimizer.lr, "optimizer.lr"),
        ("log_alpha", rule.retention.alpha, "retention"),
        ("log_theta", rule.optimizer.theta, "optimizer.theta"),
        ("gamma", rule.window.gate, "window.gate"),
    ]


def _loss_names(rule: MemoryRule) -> set[str]:
    """Per-token inputs that a loss term may read; its expression may read every scalar one."""
    names: set[str] = {entry.name for entry in rule.inputs if entry.shape == "token"}
    for term in rule.loss:
        names |= {name for name in (term.key, term.target, term.write, term.lr) if name}
    return names


def checked_call(
    rule: MemoryRule,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    gates: Mapping[str, Tensor | None],
    inputs: Mapping[str, Tensor],
    head_offset: int,
    dtype: torch.dtype,
) -> Call:
    """The call's tensors in `dtype`, sorted; ArgumentError names the one that is missing or does
    not fit.
    """
    sizes = _sizes(q, k, v) | {"c": window_length(rule)}
    heads = sizes["H"]
    queries = q.repeat_interleave(heads // q.shape[2], 2) if q.shape[2] < heads else q
    per_token = {"q": queries, "k": k.repeat_interleave(heads // k.shape[2], 2), "v": v}
    per_head: dict[str, Tensor] = {}

    def keep(name: str, tensor: Tensor, kind: str) -> None:
        dimensions = _DIMENSIONS[kind]
        _shape(name, tensor, dimensions, sizes)
        (per_token if "T" in dimensions else per_head)[name] = tensor

    for name, gate, where in _gates(rule):
        tensor = _declared(name, gates[name], gate.is_argument, where)
        if tensor is not None:
            keep(name, tensor, gate.axis if gate.kind == "channel" else gate.kind)
    declared = {entry.name: entry.shape for entry in rule.inputs}
    if rule.features.kind == "poly" and rule.features.coefficients == "learned":
        per_head["coefficients"] = _coefficients(rule, inputs)
    for name in {*declared, *inputs} - set(per_head):
        tensor = _declared(name, inputs.get(name), name in declared, "inputs")
        if tensor is not None:
            keep(name, tensor, declared[name])
    per_token = {name: tensor.to(dtype) for name, tensor in per_token.items()}
    read = {"k", "v", *_loss_names(rule)} & set(per_token)
    gamma = ["gamma"] if rule.window.gate.kind == "token" else []
    zero = v.new_zeros(1, sizes["K"], dtype=dtype)
    features = apply_features(rule.features, zero, "k", per_head.get("coefficients")).shape[-1]
    inner = {"K": sizes["K"], "F": features, "V": sizes["V"]}
    return Call(
        per_token=per_token,
        per_head={name: tensor.to(dtype) for name, tensor in per_head.items()},
        heads=torch.arange(head_offset, head_offset + heads, dtype=dtype, device=v.device),
        streams=("k", "v", *gamma, *sorted(read - {"k", "v"})),
        sizes=inner,
        scale=evaluate_number(rule.read.scale, inner, field="read.scale"),
    )


def _coefficients(rule: MemoryRule, inputs: Mapping[str, Tensor]) -> Tensor:
    tensor = inputs.get("coefficients")
    expected = (rule.features.degree + 1,)
    if tensor is None or tuple(tensor.shape) != expected:
        raise ArgumentError(
            "coefficients",
            "learned feature coefficients are an input, one positive number per degree",
            allowed=f"inputs={{'coefficients': tensor of shape {expected}}}",
        )
    return tensor

"""A call's tensors, checked against the rule and sorted by what they depend on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from atlasgen.errors import ArgumentError
from atlasgen.reference.windows import window_length
from atlasgen.spec.expression import evaluate_number
from atlasgen.spec.rule import MemoryRule
from atlasgen.spec.sizes import check_sizes, feature_size

_DIMENSIONS: dict[str, tuple[str, ...]] = {
    "token": ("B", "T", "H"),
    "head": ("H",),
    "head_key": ("H", "K"),
    "head_value": ("H", "V"),
    "key": ("B", "T", "H", "K"),
    "value": ("B", "T", "H", "V"),
    "pair": ("B", "T", "H", "c"),
    "position": ("H", "c"),
    "row": ("H", "b"),
    "degree": ("H", "degree + 1"),
}
"""Shapes of arguments by kind; `channel` is that of its axis. One by micro-step has n rows per token."""


@dataclass(frozen=True)
class _Expected:
    """An argument that the rule reads: the kind of its shape, and the field that reads it."""

    kind: str
    field: str
    required: bool = True


@dataclass(frozen=True)
class Call:
    """One call. Everything is in the reference's dtype and has the memory's H heads, queries R * H
    of them.

    per_token: [B, T, H, ...] by name, with "q", "k" and "v"; per_head: [H, ...] by name; heads [H]:
    their indices; streams: the names whose rows a window must remember; features: F; scale: the
    read's factor. by_step: the names of those per token that are [B, T, n, H, ...], a row for each of
    n micro-steps.
    """

    per_token: dict[str, Tensor]
    per_head: dict[str, Tensor]
    heads: Tensor
    streams: tuple[str, ...]
    sizes: dict[str, int]
    scale: float
    by_step: frozenset[str] = frozenset()

    def of_step(self, step: int) -> Call:
        """The call with the rows that one micro-step of every token reads."""
        own = {name: entry[:, :, step] for name, entry in self.per_token.items() if name in self.by_step}
        return replace(self, per_token=self.per_token | own, by_step=frozenset())

    def part(self, rows: slice, times: slice) -> Call:
        """The same call for some batch rows and times."""
        return replace(self, per_token={name: entry[rows, times] for name, entry in self.per_token.items()})


def _check_shape(name: str, tensor: Tensor, dimensions: tuple[str, ...], sizes: Mapping[str, int]) -> None:
    expected = tuple(sizes[letter] for letter in dimensions)
    if tuple(tensor.shape) != expected:
        letters = ", ".join(dimensions)
        raise ArgumentError(
            name,
            f"shape {tuple(tensor.shape)} does not fit the other arguments",
            allowed=f"[{letters}] = {expected}",
        )


def _check_names(expected: Mapping[str, _Expected], given: Mapping[str, Tensor | None]) -> dict[str, Tensor]:
    """The arguments that were given; raises where the rule does not read one, or misses one."""
    tensors = {name: tensor for name, tensor in given.items() if tensor is not None}
    for name, entry in expected.items():
        if entry.required and name not in tensors:
            raise ArgumentError(name, f"required, because the rule's {entry.field} reads it")
    for name in tensors:
        if name not in expected:
            raise ArgumentError(
                name, "not read by this rule, which declares no such argument",
                allowed=", ".join(expected) or "no arguments besides q, k and v",
                suggestion="Leave it out, or change the rule",
            )  # fmt: skip
    return tensors


def _sizes(rule: MemoryRule, q: Tensor, k: Tensor, v: Tensor) -> dict[str, int]:
    rows = {name: [rule.optimizer.micro_steps] if rule.by_step(name) else [] for name in "qkv"}
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.ndim != 4 + len(rows[name]):
            words = ", ".join(["batch", "time", *["micro-steps"] * len(rows[name]), "heads", "size"])
            allowed = f"{4 + len(rows[name])}: [{words}]"
            raise ArgumentError(name, f"{tensor.ndim} dimensions", allowed=allowed)
    (batch, length), (heads, value_size), key_size = v.shape[:2], v.shape[-2:], k.shape[-1]
    for name, tensor, size in (("q", q, key_size), ("k", k, key_size), ("v", v, value_size)):
        leading = [batch, length, *rows[name]]
        if [*tensor.shape[:-2]] != leading or tensor.shape[-1] != size:
            raise ArgumentError(
                name,
                f"shape {tuple(tensor.shape)} does not fit those of k and v",
                allowed=f"[{', '.join(str(entry) for entry in leading)}, heads, {size}]",
            )
    query_heads, key_heads = q.shape[-2], k.shape[-2]
    if heads % key_heads or max(query_heads, heads) % min(query_heads, heads):
        raise ArgumentError(
            "q, k, v",
            f"{query_heads} query, {key_heads} key and {heads} value heads do not group",
            allowed="one memory per value head; key heads divide them, query heads divide or are a "
            "multiple of them",
        )
    return {"B": batch, "T": length, "H": heads, "K": key_size, "V": value_size}


_FIELDS = {
    "lr": "optimizer.lr",
    "log_alpha": "retention",
    "log_theta": "optimizer.theta",
    "gamma": "window.gate",
}
_OVERRIDES = {"lr": "lr", "log_alpha": "retention", "log_theta": "theta"}


def _expected(rule: MemoryRule) -> dict[str, _Expected]:
    """Everything besides q, k and v that a call of this rule takes, by name."""
    fields = dict(_FIELDS)
    for weight in rule.memory.weight_names:
        for name, (argument, _) in rule.gates_of(weight).items():
            if argument != name:
                fields[argument] = f"weights.{weight}.{_OVERRIDES[name]}"
    found = {
        name: _Expected(gate.axis if gate.kind == "channel" else gate.kind, fields[name])
        for name, gate in rule.gates.items()
        if gate.is_argument
    }
    if rule.block.row_scale == "token":
        found["row_scale"] = _Expected("token", "block.row_scale")
    elif rule.block.row_scale == "position":
        found["row_scale"] = _Expected("row", "block.row_scale", required=False)
    if rule.norm != "none":
        found["norm_gain"] = _Expected("head_value", "memory.norm", required=False)
    if rule.norm == "layer":
        found["norm_bias"] = _Expected("head_value", "memory.norm", required=False)
    if rule.features.kind == "poly" and rule.features.coefficients == "learned":
        found["coefficients"] = _Expected("degree", "features.coefficients")
    return found | {entry.name: _Expected(entry.shape, "inputs") for entry in rule.inputs}


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
    given: Mapping[str, Tensor | None],
    head_offset: int,
    dtype: torch.dtype,
) -> Call:
    """The call's tensors in `dtype`, sorted.

    given: every other argument by name, None for absent. ArgumentError names the one that is
    missing or does not fit.
    """
    sizes = _sizes(rule, q, k, v)
    heads = sizes["H"]
    inner = {"K": sizes["K"], "F": feature_size(rule.features, sizes["K"]), "V": sizes["V"]}
    check_sizes(rule, inner)
    sizes |= {"c": window_length(rule), "b": rule.block.size, "degree + 1": rule.features.degree + 1}
    sizes["n"] = rule.optimizer.micro_steps
    queries = q.repeat_interleave(heads // q.shape[2], 2) if q.shape[2] < heads else q
    per_token = {"q": queries, "k": k.repeat_interleave(heads // k.shape[-2], -2), "v": v}
    per_head: dict[str, Tensor] = {}
    expected = _expected(rule)
    for name, tensor in _check_names(expected, given).items():
        dimensions = _DIMENSIONS[expected[name].kind]
        if rule.by_step(name):
            dimensions = ("B", "T", "n", *dimensions[2:])
        _check_shape(name, tensor, dimensions, sizes)
        (per_token if "T" in dimensions else per_head)[name] = tensor
    per_token = {name: tensor.to(dtype) for name, tensor in per_token.items()}
    read = {"k", "v", *_loss_names(rule)} & set(per_token)
    gamma = ["gamma"] if rule.window.gate.kind == "token" else []
    return Call(
        per_token=per_token,
        per_head={name: tensor.to(dtype) for name, tensor in per_head.items()},
        heads=torch.arange(head_offset, head_offset + heads, dtype=dtype, device=v.device),
        streams=("k", "v", *gamma, *sorted(read - {"k", "v"})),
        sizes=inner,
        scale=evaluate_number(rule.read.scale, inner, field="read.scale"),
        by_step=frozenset(name for name in per_token if rule.by_step(name)),
    )

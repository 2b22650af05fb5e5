"""Random arguments for any rule, and ways to take results apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from atlasgen import reference
from atlasgen.spec.rule import Gate, MemoryRule
from atlasgen.spec.sizes import feature_size, weight_shapes

TOKEN = Gate("token")
HEAD = Gate("head")

_PER_TOKEN = ("q", "k", "v")


def make_arguments(
    rule: MemoryRule,
    rows: int = 1,
    length: int = 8,
    heads: int = 2,
    key_size: int = 3,
    value_size: int = 4,
    seed: int = 0,
    query_heads: int | None = None,
    key_heads: int | None = None,
) -> dict[str, Any]:
    """float64 arguments of `reference.run` for a rule, all gates that it declares included."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    def unit(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    per_token = (rows, length, heads)
    window = rule.window.length
    shapes = {
        "token": per_token,
        "head": (heads,),
        "key": (*per_token, key_size),
        "value": (*per_token, value_size),
        "pair": (*per_token, window),
        "position": (heads, window),
    }

    def by_step(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape[:2], rule.optimizer.micro_steps, *shape[2:]) if rule.by_step(name) else shape

    def gate(name: str, kind: Gate) -> Tensor:
        return unit(*by_step(name, shapes[kind.axis if kind.kind == "channel" else kind.kind]))

    arguments: dict[str, Any] = {
        "q": normal(rows, length, query_heads or heads, key_size),
        "k": normal(*by_step("k", (rows, length, key_heads or heads, key_size))) / key_size**0.5,
        "v": normal(*by_step("v", (*per_token, value_size))),
    }
    for name, kind in rule.gates.items():
        if kind.is_argument:
            low, high = next(span for start, span in _RANGES.items() if name.startswith(start))
            arguments[name] = low + (high - low) * gate(name, kind)
    if rule.block.row_scale != "none":
        shape = per_token if rule.block.row_scale == "token" else (heads, rule.block.size)
        arguments["row_scale"] = 0.2 + unit(*shape)
    if rule.norm != "none":
        arguments["norm_gain"] = 1 + 0.3 * normal(heads, value_size)
    if rule.norm == "layer":
        arguments["norm_bias"] = 0.3 * normal(heads, value_size)
    if rule.features.coefficients == "learned":
        arguments["coefficients"] = 0.3 + unit(heads, rule.features.degree + 1)
    if rule.inputs:
        own = {entry.name: by_step(entry.name, shapes[entry.shape]) for entry in rule.inputs}
        arguments["inputs"] = {name: 0.3 + unit(*shape) for name, shape in own.items()}
    return arguments


_RANGES = {"lr": (0.1, 0.5), "log_alpha": (-0.51, -0.01), "log_theta": (-1.0, -0.1), "gamma": (0.2, 1.2)}


def initial_memory(
    rule: MemoryRule, heads: int = 2, key_size: int = 3, value_size: int = 4, seed: int = 0
) -> dict[str, Tensor]:
    """A random memory of the rule, [H, in, out] by weight, entries N(0, 1 / in)."""
    generator = torch.Generator().manual_seed(seed)
    sizes = {"K": key_size, "V": value_size, "F": feature_size(rule.features, key_size)}
    return {
        name: torch.randn(heads, *shape, generator=generator, dtype=torch.float64) / shape[0] ** 0.5
        for name, shape in weight_shapes(rule.memory, sizes).items()
    }


def _time_part(name: str, value: Any, rule: MemoryRule, times: slice) -> Any:
    if name == "inputs":
        per_token = {e.name for e in rule.inputs if e.shape in ("token", "key", "value", "pair")}
        return {n: x[:, times] if n in per_token else x for n, x in value.items()}
    gates = rule.gates
    gate_per_token = name in gates and gates[name].kind not in ("head", "position")
    row_per_token = name == "row_scale" and rule.block.row_scale == "token"
    return value[:, times] if name in _PER_TOKEN or gate_per_token or row_per_token else value


def time_part(rule: MemoryRule, arguments: Mapping[str, Any], times: slice) -> dict[str, Any]:
    """The same arguments for some times of the sequence."""
    return {name: _time_part(name, value, rule, times) for name, value in arguments.items()}


def run_in_pieces(
    rule: MemoryRule, arguments: Mapping[str, Any], borders: list[int], **more: Any
) -> tuple[Tensor, Any]:
    """One call per piece between borders, each with the state of the one before."""
    reads, state = [], None
    for start, stop in zip(borders, borders[1:]):
        begin = more if state is None else {"initial_state": state}
        piece = time_part(rule, arguments, slice(start, stop))
        y, state = reference.run(rule, **piece, **begin)
        reads.append(y)
    return torch.cat(reads, 1), state


def rows_of(arguments: Mapping[str, Any], head: int) -> dict[str, Tensor]:
    """One head's rows of the first sequence, and its own tensors per head."""
    per_token = {name: t[0, :, head] for name, t in arguments.items() if t.ndim >= 3}
    return per_token | {name: t[head] for name, t in arguments.items() if t.ndim < 3}


def leaves(tree: Any, prefix: str = "") -> dict[str, Tensor]:
    """Every tensor of a nested dict by dotted name."""
    if isinstance(tree, Tensor):
        return {prefix.rstrip("."): tree}
    found: dict[str, Tensor] = {}
    for name, entry in tree.items():
        found |= leaves(entry, f"{prefix}{name}.")
    return found


def error(value: Tensor, expected: Tensor) -> float:
    """rms(value - expected) / rms(expected), the project's measure; 0 / 0 is 0."""
    if value.shape != expected.shape:
        raise AssertionError(f"shapes {tuple(value.shape)} and {tuple(expected.shape)}")
    difference = (value - expected).square().mean().sqrt()
    return (
        0.0 if value.numel() == 0 or difference == 0 else float(difference / expected.square().mean().sqrt())
    )


def assert_same_state(state: Any, expected: Any, bar: float = 1e-13) -> None:
    """Both states have the same tensors, equal up to rounding."""
    left, right = leaves(state), leaves(expected)
    assert set(left) == set(right)
    for name, tensor in left.items():
        if tensor.is_floating_point():
            assert error(tensor, right[name]) < bar, name
        else:
            assert torch.equal(tensor, right[name]), name

"""Steps by channel of keys or values, and implicit ones: factors of what a token writes.

Where one differs by value channel, the errors of an exact rule solve a system for each channel; the rules
whose properties meet it are those of test_exact_rules.py with "step" in their names.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from atlasgen.emit.tile_library import unit_solve
from atlasgen.runtime import blocks
from atlasgen.schedules.serve import admitted, schedule
from atlasgen.spec import rule_from_table
from tests.rules.compare import Shape, check, error, make_case
from tests.rules.test_exact_rules import MOMENTUM, each_backend, exact, repeated

# Steps by channel that are no factor of a key or an error, or that no one system of a channel holds.
NOT_OF_PAIRS: dict[str, tuple[dict[str, Any], str]] = {
    "momentum": ({"optimizer": {**MOMENTUM, "lr": "value"}}, "optimizer.lr"),
    "map": ({"optimizer": {"lr": "value", "transform": [{"kind": "sign"}]}}, "optimizer.lr"),
    "link": (
        {"optimizer": {"lr": "value"}, "memory": {"kind": "matrix", "link": {"kind": "softmax"}}},
        "optimizer.lr",
    ),
    "window": ({"optimizer": {"lr": "value"}, "window": 2}, "optimizer.lr"),
    "decays by value channel": (
        {"optimizer": {"lr": "value"}, "retention": {"kind": "channel", "axis": "value"}},
        "retention.kind",
    ),
    "bias of its own": (
        {
            "optimizer": {"lr": "value"},
            "memory": {"kind": "matrix", "bias": True},
            "weights": {"b": {"lr": "token"}},
        },
        "optimizer.lr",
    ),
}


@pytest.mark.parametrize("name", NOT_OF_PAIRS)
def test_steps_by_channel_that_blocks_of_rows_do_not_take(name):
    more, field = NOT_OF_PAIRS[name]
    rule = exact("delta", **more)
    assert field in [entry.field for entry in admitted(rule)["wy"]]
    assert schedule(rule).schedule == "recurrent"
    check(make_case(rule, Shape(B=1, T=9, H=2, K=4, V=3), seed=14, start="state"), "torch", [(), (4,)])


BY_CHANNEL: dict[str, dict[str, Any]] = {
    "blocks, key": {"loss": "l2", "optimizer": {"lr": "key"}, "block": 4, "retention": "token"},
    "blocks, value": {"loss": "l2", "optimizer": {"lr": "value"}, "block": 4, "retention": "token"},
    "blocks, robust": {"loss": "huber", "optimizer": {"lr": "value"}, "block": 4},
    "no prediction": {"loss": "dot", "optimizer": {"lr": "value"}, "retention": {"kind": "channel"}},
    "momentum": {"loss": "dot", "optimizer": {**MOMENTUM, "lr": "key", "lr_at": "gradient"}},
    "clipped": {
        "loss": "l2",
        "block": 4,
        "optimizer": {"lr": "value", "clip": {"norm": 0.4, "of": "token"}},
    },
}


@each_backend
@pytest.mark.parametrize("name", BY_CHANNEL)
def test_steps_by_channel_in_blocks_of_one_memory(name, backend):
    rule = rule_from_table({"rule": "steps", **BY_CHANNEL[name]})
    assert schedule(rule).schedule == "dual"
    T = 70 if backend == "torch" else 9
    case = make_case(rule, Shape(B=1, T=T, H=2, K=6, V=5), seed=15, start="state")
    check(case, backend, [(), (5,)])


@each_backend
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_runs_of_repeated_keys_with_steps_by_value_channel(backend, noise, dtype):
    case = repeated(128 if backend == "torch" else 70, noise, 16, dtype, "value")
    check(case, backend)


@each_backend
def test_channels_with_steps_far_apart(backend):
    """A channel whose step is 0 keeps nothing of the run, one with a step of 2 keeps turning its sign."""
    case = repeated(128 if backend == "torch" else 70, 3.0, 16, torch.float32, "value")
    steps = torch.tensor([0.0, 1e-3, 0.5, 1.0, 2.0], dtype=torch.float64)
    case.arguments["lr"] = steps.float().double().expand_as(case.arguments["lr"]).clone()
    check(case, backend, [(), (37,)])


def systems_by_channel(rows: int, equal: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A strictly lower matrix, a factor and what is given for each of 16 channels."""
    system = torch.ones(rows, rows).tril(-1) if equal else 0.3 * torch.randn(rows, rows).tril(-1)
    factor = torch.ones(rows, 16) if equal else torch.rand(rows, 16)
    return system, factor, torch.randn(rows, 16)


def by_definition(
    system: torch.Tensor, factor: torch.Tensor, given: torch.Tensor, adjoint: bool
) -> torch.Tensor:
    """The float64 solution, channel by channel."""
    columns = []
    for own, right in zip(factor.double().T, given.double().T, strict=True):
        lower = own[:, None] * system.double()
        whole = torch.eye(len(own), dtype=torch.float64) + (lower.T if adjoint else lower)
        columns.append(torch.linalg.solve(whole, right))
    return torch.stack(columns, 1)


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 16, 17, 64])
def test_each_channel_has_a_solution_of_its_own(rows, adjoint):
    for equal in (False, True):
        case = systems_by_channel(rows, equal)
        found = blocks.unit_solve(*case, adjoint)
        assert error(found, by_definition(*case, adjoint))[0] <= 1e-5


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize("rows", [16, 32, 64, 128])
def test_the_kernels_solutions_keep_float32s_digits(rows, equal, adjoint):
    case = systems_by_channel(rows, equal)
    found = torch.empty_like(case[2])
    solution_kernel[(1,)](*case, found, rows, 16, adjoint)
    assert error(found, by_definition(*case, adjoint))[0] <= 1e-5


@triton.jit
def solution_kernel(
    system, factor, given, found, rows: tl.constexpr, columns: tl.constexpr, adjoint: tl.constexpr
):
    row, column = tl.arange(0, rows), tl.arange(0, columns)
    matrix = tl.load(system + row[:, None] * rows + row[None, :])
    place = row[:, None] * columns + column[None, :]
    solution = unit_solve(
        matrix, tl.load(factor + place), tl.load(given + place), adjoint, tl.float32, "ieee"
    )
    tl.store(found + place, solution)

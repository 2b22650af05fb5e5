"""Links by block: memories that are read through a map of the state, on both backends."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import atlasgen
from atlasgen.derive.memory import Weight
from atlasgen.emit.axes import walkable_axes
from atlasgen.emit.plan import Structure
from atlasgen.emit.planner import make_plan
from atlasgen.emit.refusals import kernel_refusals, kernel_schedule
from atlasgen.errors import CompileError
from atlasgen.reference.memories import apply_link
from atlasgen.runtime.configuration import default_configuration
from atlasgen.schedules.links import pulled
from atlasgen.schedules.serve import refused, schedule
from atlasgen.spec.load import rule_from_table
from atlasgen.spec.rule import Link, MemoryRule
from tests.ir.evaluate import arrays_of, token, value_of
from tests.rules.compare import Shape, check, make_case

ROW, COLUMN = {"kind": "softmax", "axis": "row"}, {"kind": "softmax", "axis": "column", "total": 3.0}
NORM, TANH = {"kind": "qnorm", "q": 4}, {"kind": "expr", "expression": "tanh(A)"}
MOMENTUM = {"kind": "momentum", "lr": "token", "theta": "token"}


def memory(link: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"kind": "matrix", "initial": "learned", **more, "link": link}


def deep(link: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"kind": "mlp", "hidden": "2*K", "initial": "learned", **more, "link": link}


RULES: dict[str, dict[str, Any]] = {
    "softmax of columns": {"memory": memory(COLUMN, initial="zero")},
    "norm, two terms": {"memory": memory(NORM), "loss": ["l2", "dot"], "retention": "token"},
    "norm of zero": {"memory": memory(NORM, initial="zero"), "retention": "token"},
    "expression, no error": {"memory": memory(TANH), "loss": "dot", "window": 3, "retention": "head"},
    "momentum": {"memory": memory(NORM), "optimizer": MOMENTUM, "window": 4, "retention": "token"},
    "momentum toward the start": {
        "memory": memory(COLUMN),
        "optimizer": {**MOMENTUM, "lr_at": "gradient"},
        "retention": {"kind": "token", "toward": "initial"},
    },
    "window by pair": {
        "memory": memory({"kind": "qnorm", "q": 3}),
        "window": {"length": 3, "gate": "pair", "normalise": "mean"},
        "retention": {"kind": "constant", "value": 0.95},
    },
    "errors that a window keeps": {
        "memory": memory(ROW),
        "window": {"length": 4, "boundary": "carry"},
        "retention": "token",
    },
    "read before": {"memory": memory(ROW), "read": {"at": "pre"}, "retention": "token"},
    "read of the border": {"memory": memory(ROW), "read": {"at": "block"}, "retention": "token"},
    "normalised read": {
        "memory": memory(ROW),
        "loss": "dot",
        "features": "elu1",
        "read": {"normaliser": "sum"},
        "retention": "token",
    },
    "one write a block": {
        "memory": memory(ROW),
        "block": {"size": 8, "write": "block"},
        "optimizer": {**MOMENTUM, "transform": [{"kind": "frobenius", "at": "block"}]},
    },
    "two layers": {"memory": deep(ROW, bias=True, norm="layer"), "retention": "token"},
    "a gated memory": {"memory": {**deep(TANH), "kind": "swiglu"}, "window": 2},
}
# A map of the update beside a link: two matrices per token, one made of the others.
BOTH = {
    "memory": memory(ROW),
    "optimizer": {**MOMENTUM, "transform": [{"kind": "newton_schulz", "steps": 3}]},
}
INTERPRETED = ("norm, two terms", "momentum toward the start", "window by pair", "read before", "two layers")


def rule_of(table: dict[str, Any]) -> MemoryRule:
    return rule_from_table(
        {"rule": "linked", "loss": "l2", "block": 8, "optimizer": {"lr": "token"}, **table}
    )


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize(("T", "start"), [(1, "fresh"), (19, "fresh"), (19, "state")])
def test_torch(name, T, start):
    shape = Shape(B=1, T=T, H=2, K=5, V=3)
    check(make_case(rule_of(RULES[name]), shape, seed=T, start=start), "torch", [(), (T // 3, T // 3)])


def test_a_mapped_update_beside_a_link():
    shape = Shape(B=1, T=19, H=2, K=5, V=3)
    check(make_case(rule_of(BOTH), shape, seed=3, start="state"), "torch", [(), (6,)])


@pytest.mark.parametrize("name", INTERPRETED)
def test_interpreted_kernels(name):
    shape = Shape(B=1, T=11, H=1, K=5, V=3)
    check(make_case(rule_of(RULES[name]), shape, seed=4, start="state"), "triton", [(3,)])


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in RULES if name not in INTERPRETED])
def test_interpreted_kernels_of_all(name):
    shape = Shape(B=2, T=19, H=2, K=5, V=3)
    check(make_case(rule_of(RULES[name]), shape, seed=4, start="state"), "triton", [(), (3,)])


@pytest.mark.parametrize("link", [Link("softmax"), Link("softmax", axis="column", total=2.0), Link("qnorm")])
@pytest.mark.parametrize("rows", ["", "j"])
def test_a_gradient_passes_through_the_link_at_its_point(link, rows):
    """J^T gradient by torch's own derivative of the definition's link: of one matrix, and of one per row."""
    weight = Weight("M", ("K", "V"), ("F", "V"))
    point, gradient = token("point", "KV"), token("gradient", f"{rows}KV")
    node = pulled(link, weight, point, gradient)
    arrays = arrays_of([point, gradient])
    state = arrays["point"].flatten(0, 1).requires_grad_()  # [B H, N, K, V]
    seen = apply_link(link, {"M": state})["M"]
    cotangents = arrays["gradient"].flatten(0, 1)
    each = cotangents.unbind(2) if rows else [cotangents]
    expected = [torch.autograd.grad(seen, state, one, retain_graph=True)[0] for one in each]
    found = value_of(node, arrays).flatten(0, 1)
    torch.testing.assert_close(found, torch.stack(expected, 2) if rows else expected[0])


def test_kernels_take_a_mapped_update_beside_a_link_one_token_at_a_time():
    rule = rule_of(BOTH)
    (found,) = kernel_refusals(schedule(rule).forward)
    assert found.field == "memory.link" and "transform" in found.nearest
    with pytest.raises(CompileError, match="memory.link"):
        atlasgen.compile(rule, "triton", schedule="dual")
    assert kernel_schedule(rule) == default_configuration(rule).structure.schedule == "recurrent"
    check(make_case(rule, Shape(B=1, T=7, H=2, K=5, V=4), start="state"), "triton", [(), (3,)])


@pytest.mark.parametrize(
    ("table", "field"),
    [
        ({"memory": memory({**ROW, "where": "block"})}, "memory.link.where"),
        ({"memory": memory(ROW), "block": {"size": 8, "row_scale": "token"}}, "block.row_scale"),
        (
            {"memory": memory(ROW), "optimizer": {"lr": "token", "clip": {"norm": 1.0, "of": "token"}}},
            "optimizer.clip.of",
        ),
    ],
)
def test_refusals(table, field):
    assert field in {entry.field for entry in refused(rule_of(table))}


def test_no_kernel_has_tiles_of_an_axis_that_a_softmax_takes_whole():
    rows = rule_of(
        {"memory": memory(ROW), "features": {"kind": "poly"}, "block": {"size": 8, "write": "block"}}
    )
    plain = rule_of({"features": {"kind": "poly"}, "block": {"size": 8, "write": "block"}})
    assert "F" in walkable_axes(schedule(plain).forward)
    assert "F" not in walkable_axes(schedule(rows).forward)
    for link, tiled in ((COLUMN, False), (TANH, True)):
        found = schedule(rule_of({"memory": memory(link), "block": 1}))
        plan = make_plan(found.forward, found.backward, Structure("split", "all", True, 4))
        assert any(kernel.values == "parallel" for kernel in plan.kernels) is tiled

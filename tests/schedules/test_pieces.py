"""Blocks in pieces: each token as in the whole block, on both backends."""

from __future__ import annotations

from typing import Any

import pytest

import atlasgen
from atlasgen.emit.refusals import kernel_refusals, kernel_schedule
from atlasgen.errors import CompileError
from atlasgen.runtime.configuration import default_configuration
from atlasgen.schedules.pieces import LONGEST, rows_of_piece
from atlasgen.schedules.refusals import refusals
from atlasgen.schedules.serve import schedule
from atlasgen.spec import load_rule, rule_from_table
from atlasgen.spec.rule import MemoryRule
from tests.rules.compare import Shape, check, make_case
from tests.rules.forced import forced

MOMENTUM = {"kind": "momentum", "lr": "token", "theta": "token"}
NEWTON_SCHULZ = {"kind": "newton_schulz", "steps": 2}
DEEP = {"kind": "mlp", "hidden": "2*K", "residual": "x", "initial": "learned", "norm": "layer"}
AT_BLOCK = {"size": 6, "write": "block", "gate_pool": "mean", "partial": "skip"}

RULES: dict[str, dict[str, Any]] = {
    "matrix": {"block": 6, "retention": "token"},
    "momentum and a window": {
        "block": 6,
        "optimizer": MOMENTUM,
        "window": {"length": 5, "gate": "token"},
        "retention": "token",
    },
    "cut windows": {
        "block": 8,
        "window": {"length": 6, "gate": "pair", "boundary": "truncate", "normalise": "mean"},
    },
    "deep": {"block": 8, "memory": DEEP, "retention": {"kind": "token", "toward": "initial"}},
    "read of the border": {"block": 6, "read": {"at": "block"}, "retention": "token"},
    "read of the border, no error": {"block": 6, "read": {"at": "block"}, "loss": "dot"},
    "read before": {"block": 6, "read": {"at": "pre"}, "retention": "token"},
    "link": {"block": 4, "memory": {"link": {"kind": "qnorm", "q": 3}}, "retention": "token"},
    "mapped updates": {
        "block": 4,
        "optimizer": {**MOMENTUM, "transform": [NEWTON_SCHULZ]},
        "window": {"length": 3},
    },
    "one write": {
        "block": AT_BLOCK,
        "optimizer": {**MOMENTUM, "transform": [{**NEWTON_SCHULZ, "at": "block"}]},
        "retention": "token",
    },
    "one write of the last gate": {"block": {**AT_BLOCK, "gate_pool": "last"}, "retention": "token"},
    "one write, momentum by token": {"block": {**AT_BLOCK, "momentum": "token"}, "optimizer": MOMENTUM},
    "factor by row": {"block": {"size": 6, "row_scale": "token"}, "optimizer": MOMENTUM},
    "micro-steps": {"block": 4, "optimizer": {"lr": "token", "micro_steps": 2}, "retention": "token"},
}


def rule_of(name: str) -> MemoryRule:
    return rule_from_table({"rule": "cut", "loss": "l2", "optimizer": {"lr": "token"}, **RULES[name]})


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("start", ["state", "fresh"])
def test_torch(name, start):
    """Calls of several blocks that start and end anywhere in pieces."""
    case = make_case(rule_of(name), Shape(B=2, T=19, H=2, K=6, V=6), seed=4, start=start)
    check(case, forced("pieces", "torch"), [(), (4,), (6, 13), (17, 18)])


@pytest.mark.parametrize("name", RULES)
def test_interpreted(name):
    case = make_case(rule_of(name), Shape(B=1, T=10, H=1, K=4, V=4), seed=3, start="state")
    check(case, forced("pieces", "triton"), [(), (5,)])


def test_rows_of_a_piece_divide_the_block():
    def rows(size: int, write: str) -> int:
        block = {"size": size, "write": write, "partial": "skip" if write == "block" else "update"}
        return rows_of_piece(rule_from_table({"rule": "cut", "loss": "l2", "block": block}))

    sizes = (2, 7, 16, 120, 509, 512, 768)
    assert [rows(size, "token") for size in sizes] == [1, 1, 8, 60, 1, 64, 64]
    assert [rows(size, "block") for size in sizes] == [1, 1, 8, 60, 1, 256, 256]


def test_long_blocks_prefer_pieces_where_rows_weigh_rows():
    def chosen(**block: Any) -> str:
        return schedule(rule_from_table({"rule": "long", "loss": "l2", "block": block})).schedule

    assert chosen(size=64) == chosen(size=127) == chosen(size=131) == "dual"
    assert chosen(size=128) == chosen(size=1024) == "pieces"
    assert chosen(size=1024, write="block", partial="skip") == "dual"


def test_kernels_take_long_blocks_in_pieces():
    """Blocks that no kernel holds: calls over a border, one begins inside a piece."""
    block = {"size": LONGEST + 4, "write": "block", "partial": "skip"}
    rule = rule_from_table({"rule": "long", "loss": "l2", "block": block, "retention": "token"})
    assert kernel_refusals(schedule(rule).forward)[0].field == "block.size"
    assert kernel_schedule(rule) == default_configuration(rule).structure.schedule == "pieces"
    case = make_case(rule, Shape(B=1, T=LONGEST + 14, H=1, K=3, V=3), seed=2, start="fresh")
    check(case, "triton", [(150,)])


def test_lact_has_kernels_for_its_own_blocks():
    rule = load_rule("lact")
    assert rule.block.size == 2048 and kernel_schedule(rule) == "pieces"
    assert schedule(rule, "pieces").chunk == LONGEST
    atlasgen.compile(rule, "triton")


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"block": 1}, "block.size"),
        ({"block": 7}, "block.size"),
        ({"block": 8, "loss": "dot"}, "block.size"),
        ({"block": {"size": 8, "row_scale": "position"}}, "block.row_scale"),
        ({"block": 8, "window": {"length": 3, "boundary": "carry"}}, "window.boundary"),
    ],
)
def test_refusals(more, field):
    rule = rule_from_table({"rule": "refused", "loss": "l2", "optimizer": {"lr": "token"}, **more})
    assert field in [entry.field for entry in refusals(rule, "pieces")]
    with pytest.raises(CompileError, match="pieces"):
        atlasgen.compile(rule, "torch", schedule="pieces")

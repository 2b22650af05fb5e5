"""Kernels of rules that hold their update until a block is full agree with the float64 definition."""

from __future__ import annotations

from dataclasses import replace

import pytest

from atlasgen.emit.plan import Structure
from atlasgen.emit.planner import make_plan
from atlasgen.errors import CompileError
from atlasgen.runtime.configuration import default_configuration, emitted_module
from atlasgen.runtime.cross_compile import compile_many
from atlasgen.runtime.launch import CallSizes, own_extents
from atlasgen.runtime.resources import jobs
from atlasgen.schedules.serve import schedule
from atlasgen.spec import load_rule, rule_from_table
from atlasgen.spec.rule import MemoryRule
from tests.emit.test_structures import backend_of
from tests.rules.compare import Shape, check, check_random, make_case

SPLIT = Structure("split", "all", True, 4)
INLINE = Structure()
FUSED = Structure("fused")
WALKED = Structure("split", "all", False, 4, "D1")
MUON = {"kind": "newton_schulz", "steps": 4, "at": "block"}
ONE_WRITE = {"size": 4, "write": "block"}
MOMENTUM = {"kind": "momentum", "lr": "token", "theta": "token"}
MLP = {"kind": "mlp", "depth": 2, "hidden": "2*K", "act": "gelu", "initial": "given"}
# What a rule holds, and how it is written when the block is full.
RULES = {
    "one plain write": {"optimizer": {"lr": "token"}},
    "the mean of the gates": {
        "block": {**ONE_WRITE, "gate_pool": "mean"},
        "optimizer": {"lr": "token", "lr_at": "update"},
        "retention": {"kind": "token", "toward": "initial"},
        "memory": {"initial": "given"},
    },
    "momentum of tokens": {"optimizer": MOMENTUM, "retention": "token"},
    "momentum of blocks, muon": {
        "block": {**ONE_WRITE, "momentum": "block"},
        "optimizer": {**MOMENTUM, "transform": [MUON]},
    },
    "a window, unit norm": {
        "window": {"length": 3, "gate": "token"},
        "optimizer": {"lr": "token", "transform": [{"kind": "frobenius", "at": "block"}]},
    },
    "restored norms": {
        "optimizer": {"lr": "token"},
        "memory": {"initial": "learned"},
        "retention": {"kind": "token", "project": {"kind": "row_norm", "to": "initial"}},
    },
    "a factor per row, momentum": {
        "block": {"size": 4, "row_scale": "position"},
        "optimizer": MOMENTUM,
    },
    "two layers": {"optimizer": {"lr": "token"}, "memory": MLP},
}
SHIPPED = ("ttt_linear", "ttt_linear_fla", "ttt_mlp", "atlas_chunk", "lact")
NAMES = ("one plain write", "momentum of blocks, muon", "a factor per row, momentum")


def rule_of(name: str) -> MemoryRule:
    table = {"rule": "held_" + "".join(filter(str.isalpha, name)), "loss": "l2", "block": ONE_WRITE}
    return rule_from_table(table | RULES[name])


def shipped(name: str, size: int) -> MemoryRule:
    """A shipped rule in blocks of another size."""
    rule = load_rule(name)
    return replace(rule, block=replace(rule.block, size=size))


@pytest.mark.parametrize(
    "structure", [FUSED, pytest.param(SPLIT, marks=pytest.mark.slow)], ids=lambda s: s.label
)
@pytest.mark.parametrize("name", RULES)
def test_rules_agree_with_the_definition(name, structure):
    case = make_case(rule_of(name), Shape(B=2, T=9, H=1, K=3, V=5), seed=3, start="state")
    assert check_random(case, backend_of(structure), [(), (3, 8)]) != "grows"


@pytest.mark.parametrize("structure", [INLINE, SPLIT], ids=lambda structure: structure.label)
@pytest.mark.parametrize("name", NAMES)
def test_cut_kernels_agree_with_the_definition(name, structure):
    case = make_case(rule_of(name), Shape(B=1, T=7, H=1, K=4, V=3), seed=5)
    assert check_random(case, backend_of(structure), [(5,)]) != "grows"


@pytest.mark.parametrize("name", ["one plain write", "momentum of blocks, muon"])
def test_a_call_below_a_block_writes_nothing(name):
    check(make_case(rule_of(name), Shape(B=1, T=3, H=1, K=4, V=4), seed=6), backend_of(SPLIT))


@pytest.mark.parametrize(("rows", "T"), [(1, 3), (5, 7)])
def test_blocks_of_other_sizes_and_what_is_learned_per_row(rows, T):
    rule = shipped("ttt_linear", rows)
    check(make_case(rule, Shape(B=1, T=T, H=2, K=8, V=8), seed=rows), backend_of(FUSED), [(2,)])


def test_hidden_units_are_walked_where_an_update_waits():
    case = make_case(shipped("ttt_mlp", 4), Shape(B=1, T=6, H=1, K=3, V=3), seed=7, start="state")
    check(case, backend_of(WALKED), [(3,)])


@pytest.mark.slow
@pytest.mark.parametrize("structure", [INLINE, SPLIT, FUSED], ids=lambda structure: structure.label)
@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_rules_in_small_blocks(name, structure):
    for size, T, start in ((4, 11, "fresh"), (8, 19, "state"), (8, 5, "fresh")):
        case = make_case(shipped(name, 4), Shape(B=2, T=T, H=1, K=size, V=size), seed=size, start=start)
        assert check_random(case, backend_of(structure), [(), (3, 8)]) != "grows"


def test_one_entry_of_a_learned_table():
    features = {"kind": "poly", "degree": 2, "basis": "powers", "coefficients": "learned"}
    rule = rule_from_table(
        {"rule": "learned", "loss": "l2", "block": 4, "features": features, "optimizer": {"lr": "token"}}
    )
    case = make_case(rule, Shape(B=2, T=6, H=2, K=4, V=3), seed=8, start="state")
    for structure in (FUSED, SPLIT):
        check(case, backend_of(structure), [(5,)])


def test_whole_matrices_have_no_axis_in_tiles():
    scheduled = schedule(load_rule("atlas_chunk"))
    with pytest.raises(CompileError) as caught:
        make_plan(scheduled.forward, scheduled.backward, WALKED)
    assert (caught.value.field, caught.value.value) == ("structure.walk", "D1")
    structure = default_configuration(load_rule("atlas_chunk")).structure
    assert structure.walk is None
    plan = make_plan(scheduled.forward, scheduled.backward, structure)
    state = {kernel.name: kernel for kernel in plan.kernels}["state"]
    assert state.values == "whole" and state.carries


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", ["ttt_linear", "ttt_linear_fla", "ttt_mlp"])
def test_default_kernels_compile(name, target):
    """K = V = 64, bfloat16, the rule's own block: no errors, and shared memory that the card has."""
    rule = load_rule(name)
    program = schedule(rule).forward
    configuration = default_configuration(rule, target)
    own = tuple(own_extents(rule, program, 64, 64).items())
    rows = rule.block.size
    sizes = CallSizes(2, 256, 2, 64, 64, rows, 256 // rows, program.halo, program.window, own)
    module = emitted_module(rule, configuration.structure)
    found = jobs(module, sizes, configuration.tiles, "bfloat16", target)
    results = dict(zip(found, compile_many(found.values(), time_limit=300), strict=True))
    assert {name: result.error for name, result in results.items() if result.error} == {}
    assert max(result.shared_bytes for result in results.values()) <= 160 * 1024

"""Kernels of deep memories: held whole or walked in tiles, they compute the float64 definition's function."""

from __future__ import annotations

from dataclasses import replace

import pytest

from atlasgen.emit.plan import Structure
from atlasgen.emit.triton_module import emit_module
from atlasgen.runtime.configuration import default_configuration, emitted_module
from atlasgen.runtime.cross_compile import compile_many
from atlasgen.runtime.launch import CallSizes, KernelTiles, Tiles, own_extents
from atlasgen.runtime.resources import jobs
from atlasgen.schedules.serve import schedule
from atlasgen.spec import rule_from_table
from tests.emit.test_structures import backend_of
from tests.rules.compare import Shape, check, make_case

WHOLE = Structure("split", "all", True, 4)
WALKED = Structure("split", "all", False, 4, "D1")
FUSED = Structure("fused")
MLP = {"kind": "mlp", "depth": 2, "hidden": "6*K", "act": "gelu", "initial": "given"}
MEMORIES = {
    "bias": {**MLP, "bias": True},
    "depth_3": {**MLP, "depth": 3, "hidden": "3*K"},
    "gated": {"kind": "gated_mlp", "hidden": "6*K", "act": "silu", "initial": "given"},
    "normed": {**MLP, "norm": "layer", "residual": "x"},
}


# Block-parallel kernels that no tiles of the default structure bring below the register file, by some bytes.
SPILLING = {"sm_80": {"gates_gradient"}, "sm_89": {"output"}}


# The interpreter takes as long as a kernel has operations: each kind of rule runs walked in tiles once with
# short calls; the other memories do so among the slow tests.
SMALL = Shape(B=1, T=11, H=1, K=3, V=2)
SLOW_MEMORIES = [pytest.param(name, marks=pytest.mark.slow) for name in ("bias", "depth_3", "normed")]


def rule_of(name: str, memory: dict, **fields):
    table = {
        "rule": name,
        "memory": memory,
        "features": "identity",
        "loss": "l2",
        "window": {"length": 3, "gate": "token"},
        "block": 4,
        "optimizer": {"kind": "momentum", "lr": "token", "theta": "token"},
        "retention": "token",
    }
    return rule_from_table(table | fields)


def check_small(rule, structure: Structure, splits, seed: int, **sizes):
    case = make_case(rule, replace(SMALL, **sizes), seed=seed, start="state")
    check(case, backend_of(structure), splits)


@pytest.mark.parametrize("structure", [WHOLE, WALKED, FUSED], ids=lambda s: s.label)
@pytest.mark.parametrize("tokens", [1, 6])
def test_lengths_below_and_above_blocks(tokens, structure):
    check_small(rule_of("two_layers", MLP), structure, [()], seed=1, T=tokens)


@pytest.mark.slow
@pytest.mark.parametrize("structure", [WHOLE, WALKED, FUSED], ids=lambda s: s.label)
def test_many_blocks(structure):
    check_small(rule_of("two_layers", MLP), structure, [(), (7,)], seed=1, T=37, K=5)


@pytest.mark.parametrize(
    "structure", [pytest.param(WHOLE, marks=pytest.mark.slow), FUSED], ids=lambda s: s.label
)
@pytest.mark.parametrize("name", MEMORIES)
def test_memories_agree_with_the_definition(name, structure):
    # The norm of three values can divide by nearly nothing, where float32 itself is at the bar.
    sizes = {"K": 8, "V": 8} if "norm" in MEMORIES[name] else {"V": 3}
    check_small(rule_of(name, MEMORIES[name]), structure, [(3,)], seed=2, B=2, **sizes)


@pytest.mark.parametrize("name", ["gated", *SLOW_MEMORIES])
def test_walked_memories_agree_with_the_definition(name):
    check_small(rule_of(name, MEMORIES[name], optimizer={"lr": "token"}), WALKED, [(3,)], seed=2, T=6, V=3)


@pytest.mark.slow
@pytest.mark.parametrize("boundary", ["halo", "carry"])
def test_decay_towards_the_initial_memory_streams_too(boundary):
    fields = {
        "retention": {"kind": "token", "toward": "initial"},
        "window": {"length": 3, "gate": "token", "boundary": boundary},
    }
    check_small(rule_of("towards", MLP, **fields), WALKED, [(), (7,)], seed=3)


@pytest.mark.slow
def test_tiles_of_hidden_units_do_not_change_the_result():
    tiles = dict.fromkeys(("state", "sources", "output", "state_gradient"), KernelTiles(block_hidden=32))
    case = make_case(rule_of("tiles", MLP), replace(SMALL, K=10), seed=4)
    check(case, backend_of(WALKED, Tiles(tiles), "_32"))


@pytest.mark.slow
def test_unwritten_rows_and_slots_show(monkeypatch):
    monkeypatch.setenv("ATLASGEN_POISON", "1")
    check_small(rule_of("poisoned", MLP), WALKED, [(1,)], seed=5, B=2)


def test_a_streamed_state_is_no_value_of_a_loop():
    kernels = {
        kernel.name: kernel for kernel in emit_module(schedule(rule_of("m", MLP)), WALKED).plan.kernels
    }
    for name in ("state", "state_gradient"):
        assert not kernels[name].carries and len(kernels[name].streams) == 4
    assert all(kernel.walk == "D1" for kernel in kernels.values() if kernel.values != "none")


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_90", "sm_100", "gfx942"])
def test_a_wide_memory_with_momentum_compiles_without_spills(target):
    """64-256-64, bfloat16 inputs, blocks of 64, window 16: registers suffice, and 99 KiB of shared memory.

    The sequential kernels, which stream the state, never spill.
    """
    rule = rule_of("wide", MLP, block=64, window={"length": 16, "gate": "token"})
    program = schedule(rule).forward
    configuration = default_configuration(rule, target)
    own = tuple(own_extents(rule, program, 64, 64).items())
    sizes = CallSizes(8, 4096, 16, 64, 64, 64, 64, program.halo, program.window, own)
    module = emitted_module(rule, configuration.structure)
    found = jobs(module, sizes, configuration.tiles, "bfloat16", target)
    results = dict(zip(found, compile_many(found.values(), time_limit=300), strict=True))
    assert {name: result.error for name, result in results.items() if result.error} == {}
    spilled = {name: result.spill_bytes for name, result in results.items() if result.spill_bytes}
    assert set(spilled) <= SPILLING.get(target, set()) and sum(spilled.values()) <= 64
    assert max(result.shared_bytes for result in results.values()) <= 99 * 1024

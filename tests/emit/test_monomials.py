"""Polynomial features in kernels: made in tiles from single entries, they are the float64 definition's."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from atlasgen.emit.axes import walked_axis
from atlasgen.emit.monomials import with_monomials
from atlasgen.emit.plan import Structure
from atlasgen.emit.triton_module import emit_module
from atlasgen.ir.node import DIMS
from atlasgen.runtime import launch, triton_backend
from atlasgen.runtime.configuration import default_configuration, emitted_module
from atlasgen.runtime.cross_compile import compile_many
from atlasgen.runtime.interpreter import count
from atlasgen.runtime.launch import CallSizes, KernelTiles, Tiles, own_extents
from atlasgen.runtime.resources import jobs
from atlasgen.schedules.serve import schedule
from atlasgen.spec import load_rule, rule_from_table
from atlasgen.spec.sizes import feature_size
from tests.emit.test_structures import backend_of
from tests.rules.compare import Shape, check, compiled, make_case

WHOLE = Structure("split", "all", True, 4)
WALKED = Structure("split", "all", False, 4, "F")
FUSED = Structure("fused")
POLY = {"kind": "poly", "degree": 2, "basis": "symmetric", "coefficients": "learned"}
STEPS = {"optimizer": {"lr": "token"}}
LINEAR = {"loss": "dot", "block": 1, **STEPS}
MLP = {"kind": "mlp", "depth": 2, "hidden": "4*K", "act": "gelu", "residual": "key", "initial": "learned"}
TOWARD = {"kind": "token", "toward": "initial"}
SKIP = {
    "kind": "graph",
    "f": "A @ x + W1 @ (x + gelu(W2 @ x))",
    "weights": {"A": ["V", "F"], "W1": ["V", "F"], "W2": ["F", "F"]},
    "initial": "learned",
}
# Momentum, a window with halo and blocks are those of `rule_of`; F by the number of entries K.
RULES = {
    "taylor": {"features": {**POLY, "coefficients": "taylor"}},
    "kronecker": {"features": {**POLY, "basis": "kronecker"}},
    "degree_3": {"features": {**POLY, "degree": 3}, **STEPS},
    "kronecker_3": {"features": {**POLY, "basis": "kronecker", "degree": 3}, **STEPS},
    "some_degrees": {"features": {**POLY, "degree": 3, "coefficients": [0.5, 0, 0, 0.2]}, **STEPS},
    "one_degree": {"features": {**POLY, "coefficients": [0.5, 0, 0]}, **STEPS},
    "normalised": {**LINEAR, "read": {"normaliser": "sum"}},
    "dot": LINEAR,
    "carried": {"window": {"length": 3, "gate": "token", "boundary": "carry"}},
    "clipped": {"optimizer": {"lr": "token", "clip": {"norm": 0.5}}},
    "by_row": {"loss": {"kind": "huber", "per": "row", "delta": 0.7}},
    "toward": {"memory": {"kind": "matrix", "initial": "given"}, "retention": TOWARD},
    "deep": {"memory": MLP, "retention": TOWARD, **STEPS},
    "joined": {"memory": SKIP, **STEPS},
    "powers": {"features": {**POLY, "basis": "powers"}},
}
FAST = ("kronecker", "degree_3", "normalised", "deep")
EACH_RULE = [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in RULES]


def rule_of(name: str, **fields):
    table = {
        "rule": name,
        "features": POLY,
        "loss": "l2",
        "window": {"length": 3, "gate": "token"},
        "block": 4,
        "optimizer": {"kind": "momentum", "lr": "token", "theta": "token"},
        "retention": "token",
    }
    return rule_from_table(table | fields)


def check_small(rule, structure: Structure, splits=((3,),), seed: int = 1, dtype=torch.float32, **sizes):
    shape = Shape(**{"B": 1, "T": 6, "H": 2, "K": 5, "V": 3} | sizes)
    case = make_case(rule, shape, seed=seed, dtype=dtype, start="state")
    check(case, backend_of(structure), splits)


# -- the definition's values and gradients ---------------------------------------------------------
@pytest.mark.parametrize(
    "structure", [pytest.param(WHOLE, marks=pytest.mark.slow), WALKED, FUSED], ids=lambda s: s.label
)
@pytest.mark.parametrize("tokens", [1, 9])
def test_lengths_below_and_above_blocks(tokens, structure):
    """21 features of 5 entries: two tiles where they are walked."""
    check_small(rule_of("learned"), structure, [(tokens // 2,)], T=tokens)


@pytest.mark.parametrize("structure", [WALKED, FUSED], ids=lambda s: s.label)
@pytest.mark.parametrize("name", EACH_RULE)
def test_rules_agree_with_the_definition(name, structure):
    structure = WHOLE if name == "powers" and structure is WALKED else structure
    check_small(rule_of(name, **RULES[name]), structure, H=1, K=4)


@pytest.mark.slow
@pytest.mark.parametrize("structure", [WHOLE, WALKED, FUSED], ids=lambda s: s.label)
@pytest.mark.parametrize("name", ["taylor", "kronecker", "degree_3"])
@pytest.mark.parametrize(("K", "V"), [(3, 3), (3, 5), (4, 3), (4, 5), (8, 3), (8, 5)])
def test_sizes(K, V, name, structure):
    for tokens in (2, 9):
        check_small(rule_of(name, **RULES[name]), structure, [(), (1,)], T=tokens, H=1, K=K, V=V)


@pytest.mark.parametrize(
    "name", ["carried", *(pytest.param(name, marks=pytest.mark.slow) for name in ("toward", "dot"))]
)
def test_programs_that_share_a_memory_by_tiles_of_values(name):
    tiles = Tiles({}, KernelTiles(block_v=16))
    rule = rule_of(name, **RULES[name])
    values = {kernel.name: kernel.values for kernel in emit_module(schedule(rule), WALKED).plan.kernels}
    assert values["state"] == values["state_gradient"] == "parallel"
    case = make_case(rule, Shape(B=1, T=6, H=1, K=5, V=20), seed=3, start="state")
    check(case, backend_of(WALKED, tiles, "_v16"), [(3,)])


@pytest.mark.slow
@pytest.mark.parametrize("block_hidden", [32, 64])
def test_tiles_of_features_do_not_change_the_result(block_hidden):
    tiles = Tiles({}, KernelTiles(block_hidden=block_hidden))
    case = make_case(rule_of("learned"), Shape(B=1, T=9, H=1, K=8, V=3), seed=4, start="state")
    check(case, backend_of(WALKED, tiles, f"_f{block_hidden}"), [(3,)])


@pytest.mark.parametrize(
    "structure", [pytest.param(WALKED, marks=pytest.mark.slow), FUSED], ids=lambda s: s.label
)
def test_bfloat16(structure):
    check_small(rule_of("half"), structure, [(5,)], 3, torch.bfloat16, T=9, K=8, V=8)


@pytest.mark.slow
def test_unwritten_rows_and_slots_show(monkeypatch):
    monkeypatch.setenv("ATLASGEN_POISON", "1")
    check_small(rule_of("poisoned"), WALKED, [(1,)], seed=5, B=2)


@pytest.mark.parametrize("features", ["identity", POLY], ids=["entries", "monomials"])
def test_an_axis_whose_lanes_another_takes_is_not_walked(features):
    """x + W x: what has the lanes of x is as long as x, in whole tiles."""
    rule = rule_of("joined", memory=SKIP, features=features, window=1, **STEPS)
    assert walked_axis(schedule(rule).forward) is None
    entries = 18 if features == "identity" else 5
    check_small(rule, default_configuration(rule).structure, [()], T=5, H=1, K=entries)


# -- features stay in registers --------------------------------------------------------------------
@pytest.mark.parametrize("name", ["omeganet_linear_poly2", "swla", "omeganet"])
def test_no_kernel_stores_a_row_of_features(name):
    rule = load_rule(name)
    plan = emitted_module(rule, default_configuration(rule).structure).plan
    assert plan.structure.walk == "F"
    stores = [store for kernel in plan.kernels for store in kernel.stores]
    rows = set(DIMS[: DIMS.index("K")])
    assert any("F" in store.axes for store in stores)  # the state
    assert not [store.target for store in stores if "F" in store.axes and rows & set(store.axes)]


def test_no_buffer_has_features_by_token(monkeypatch):
    """Interpreted forward and backward: no allocation of rows of features, and no more bytes than the state's
    tiles and rows as long as values take."""
    rule, shape = load_rule("omeganet_linear_poly2"), Shape(B=1, T=128, H=1, K=8, V=8)
    size, shapes = feature_size(rule.features, 8), []

    def allocated(own, dtype, device, zero):
        shapes.append(own)
        return launch.allocate(own, dtype, device, zero)

    monkeypatch.setattr(triton_backend, "allocate", allocated)
    operator: Any = compiled(rule, backend_of(WALKED))
    leaves = make_case(rule, shape, seed=1).leaves("kernels")
    with count() as both:
        y, _ = operator(**leaves)
        torch.autograd.grad(y, list(leaves.values()), torch.randn_like(y))
    found = [own for own in shapes if size in own]
    assert found and all(own[-2:] == (size, 8) for own in found)  # memories: [.., F, V]
    # Two blocks: the memory, its gradient and the open block's copy, each a few times; and 64 floats of
    # values, errors and weights of each token a few times. Rows of features alone would be 2 * 128 * 45.
    assert both.bytes_stored <= 4 * (10 * size * 8 + 128 * 64 * 8)


def test_a_rule_without_monomials_stays_as_it_is():
    scheduled = schedule(load_rule("omeganet_linear"))
    assert with_monomials(scheduled) is scheduled
    expanded = with_monomials(schedule(rule_of("once")))
    assert with_monomials(expanded) is expanded
    assert {node.op for node in expanded.forward.nodes()}.isdisjoint({"polynomial"})


# -- compiled --------------------------------------------------------------------------------------
# Bytes of registers that block-parallel kernels may keep in memory, at 64 entries and degree 2.
SPILLS = {"sm_80": 640, "sm_90": 128}


@pytest.mark.parametrize("target", ["sm_80", pytest.param("sm_90", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", [pytest.param("omeganet_linear_poly2", marks=pytest.mark.slow), "swla"])
def test_2145_features_compile(name, target):
    """Keys and values of 64 entries, bfloat16: the kernels that stream the state never spill."""
    rule = load_rule(name)
    program, chunk = schedule(rule).forward, schedule(rule).chunk
    own = tuple(own_extents(rule, program, 64, 64).items())
    sizes = CallSizes(8, 4096, 16, 64, 64, chunk, 4096 // chunk, program.halo, program.window, own)
    configuration = default_configuration(rule, target)
    module = emitted_module(rule, configuration.structure)
    found = jobs(module, sizes, configuration.tiles, "bfloat16", target)
    results = dict(zip(found, compile_many(found.values(), time_limit=300), strict=True))
    assert {name: result.error for name, result in results.items() if result.error} == {}
    assert not results["state"].spill_bytes and not results["state_gradient"].spill_bytes
    assert max(result.spill_bytes for result in results.values()) <= SPILLS[target]
    assert max(result.shared_bytes for result in results.values()) <= 48 * 1024

"""Interpreted kernels of rules with a matrix per token agree with the float64 definition.

One program walks the tokens of a block ("tokens"), or the maps of all tokens of a block have a program each
("token_grid"). The interpreter takes as long as a kernel has operations: Newton-Schulz runs with two steps,
other maps stand for what has nothing to do with it, and wider memories are among the slow tests.
"""

from dataclasses import replace

import pytest

from atlasgen.emit.plan import Structure
from atlasgen.emit.planner import make_plan
from atlasgen.errors import CompileError
from atlasgen.runtime.configuration import default_configuration, emitted_module, forms
from atlasgen.schedules.serve import schedule
from atlasgen.spec import rule_from_table
from tests.emit.test_deep_memories import backend_of
from tests.rules.compare import Shape, check, make_case

TOKENS, GRID = Structure("tokens", "all"), Structure("token_grid", "all")
MUON = {"kind": "newton_schulz", "steps": 2, "at": "token"}
UNIT = {"kind": "frobenius", "at": "token"}
MATRIX = {"kind": "matrix", "initial": "given"}
MLP = {"kind": "mlp", "depth": 2, "hidden": "2*K", "act": "gelu", "initial": "given"}
SMALL = Shape(B=1, T=6, H=1, K=3, V=2)


def rule_of(memory=MATRIX, transform=UNIT, **fields):
    optimizer = {"kind": "momentum", "lr": "token", "theta": "token", "lr_at": "update"}
    optimizer |= fields.pop("optimizer", {}) | {"transform": [transform]}
    table = {
        "rule": "mapped",
        "memory": memory,
        "features": "identity",
        "loss": "l2",
        "window": {"length": 3, "gate": "token"},
        "block": 4,
        "optimizer": optimizer,
        "retention": "token",
    }
    return rule_from_table(table | fields)


def check_small(rule, structure=TOKENS, splits=((), (3,)), **sizes):
    case = make_case(rule, replace(SMALL, **sizes), seed=1, start="state")
    check(case, backend_of(structure), splits)


@pytest.mark.parametrize("structure", [TOKENS, GRID], ids=lambda s: s.label)
@pytest.mark.parametrize("tokens", [1, 6])
def test_newton_schulz_of_a_matrix(structure, tokens):
    check_small(rule_of(transform=MUON), structure, [(tokens // 2,)], T=tokens)


@pytest.mark.parametrize(
    "structure", [pytest.param(TOKENS, marks=pytest.mark.slow), GRID], ids=lambda s: s.label
)
def test_newton_schulz_of_two_layers(structure):
    check_small(rule_of(MLP, MUON), structure, [(3,)])


RULES = {
    "two_layers": {"memory": MLP},
    "bias": {"memory": {**MLP, "bias": True}, "optimizer": {"lr_at": "gradient", "lr": "head"}},
    "towards_the_initial_memory": {"retention": {"kind": "token", "toward": "initial"}},
    "no_decay": {"retention": "none", "window": {"length": 3, "gate": "position"}},
    "read_before": {"read": "pre"},
    "window_carried": {"window": {"length": 3, "gate": "token", "boundary": "carry"}},
    "sign": {"transform": {"kind": "sign", "at": "token"}},
    "expression": {"transform": {"kind": "expr", "expression": "S / (1 + abs(S))", "at": "token"}},
    "weights_differ": {"memory": MLP, "weights": {"W2": {"transform": []}}},
    "normed": {"memory": {**MLP, "norm": "rms", "residual": "x"}},
}


@pytest.mark.parametrize("name", RULES)
def test_maps_of_every_token(name):
    square = name in ("normed",)
    check_small(rule_of(**RULES[name]), K=4 if square else 3, V=4 if square else 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", RULES)
def test_newton_schulz_with_every_field(name):
    fields = {**RULES[name], "transform": MUON} if name not in ("sign", "expression") else RULES[name]
    square = name in ("normed",)
    for structure in forms(rule_of(**fields)).values():
        check_small(rule_of(**fields), structure, [(), (5,)], T=11, B=2, K=4, V=4 if square else 5)


@pytest.mark.slow
def test_unwritten_scratch_shows(monkeypatch):
    monkeypatch.setenv("ATLASGEN_POISON", "1")
    check_small(rule_of(MLP, MUON), GRID, [(1,)], T=9, B=2)


@pytest.mark.parametrize("structure", [TOKENS, GRID], ids=lambda s: s.label)
def test_no_value_of_a_kernel_has_three_axes(structure):
    plan = emitted_module(rule_of(MLP, MUON), structure).plan
    widest = {len(node.dims) for kernel in plan.kernels for node in kernel.nodes()}
    assert max(widest) == 2


def test_the_scratch_holds_the_matrices_of_one_block():
    plan = emitted_module(rule_of(MLP, MUON), GRID).plan
    stores = {store.target: store for kernel in plan.kernels for store in kernel.stores}
    assert [name for name, store in stores.items() if store.place == "token"] == [
        "updates_0_rows",
        "updates_1_rows",
        "update_gradients_0_rows",
        "update_gradients_1_rows",
    ]


def test_the_form_follows_from_the_rule():
    muon, unit, plain = (
        rule_of(transform=MUON),
        rule_of(),
        rule_of(optimizer={"lr_at": "gradient"}, transform=UNIT),
    )
    assert list(forms(muon)) == ["token_grid", "tokens"]
    assert list(forms(unit)) == list(forms(plain)) == ["tokens"]
    assert default_configuration(muon).structure == GRID
    for rule, structure, nearest in (
        (muon, Structure("split"), "tokens"),
        (unit, GRID, "tokens"),
        (rule_from_table({"rule": "plain", "loss": "l2", "block": 4}), TOKENS, "split"),
    ):
        scheduled = schedule(rule)
        with pytest.raises(CompileError) as caught:
            make_plan(scheduled.forward, scheduled.backward, structure)
        assert (caught.value.field, caught.value.nearest) == ("structure.form", nearest)

"""The printed step bound against the reference: errors shrink below it and grow above it."""

import math

import pytest
import torch

from atlasgen.reference import run
from atlasgen.spec import load_rule, rule_from_table
from atlasgen.verify.stability import curvature, feature_norm, step_bound

RULES = {
    "exact": {"optimizer": {"lr": "head"}},
    "block": {"block": 8, "optimizer": {"lr": "head"}},
    "window": {"block": 8, "window": {"length": 4}, "optimizer": {"lr": "head"}},
    "mean": {"block": 8, "window": {"length": 4, "normalise": "mean"}, "optimizer": {"lr": "head"}},
    "truncate": {"block": 8, "window": {"length": 4, "boundary": "truncate"}, "optimizer": {"lr": "head"}},
    "row huber": {
        "block": 8,
        "loss": {"kind": "huber", "delta": 1e9, "per": "row"},
        "optimizer": {"lr": "head"},
    },
}


def error_after(rule, rate: float, blocks: int) -> float:
    """|M k - v| after some blocks of one repeated unit key, from an error of 1 in steady state."""
    size = rule.block.size
    tokens = size * blocks
    k = torch.zeros(1, tokens, 1, 4, dtype=torch.float64)
    k[..., 1] = 1.0
    v = torch.zeros(1, tokens, 1, 2, dtype=torch.float64)
    memory = torch.zeros(1, 4, 2, dtype=torch.float64)
    memory[0, 1, 0] = 1.0
    _, state = run(rule, k, k, v, lr=torch.tensor([rate], dtype=torch.float64), initial_memory=memory)
    assert state is not None
    return abs(float(state["memory"]["M"][0, 0, 1, 0]))


@pytest.mark.parametrize("name", RULES)
def test_the_bound_is_where_a_repeated_key_stops_shrinking(name: str) -> None:
    rule = rule_from_table({**RULES[name], "memory": {"initial": "given"}})
    bound = step_bound(rule, 4)
    assert bound is not None
    assert error_after(rule, 0.97 * bound.stable, 60) < 1.0
    assert error_after(rule, 1.03 * bound.stable, 60) > 1.0
    assert error_after(rule, bound.smooth, 12) < 1e-3


def test_the_shipped_rules_keep_their_gates_inside() -> None:
    for name, gate_max in (("omeganet_linear", 0.0009), ("logcosh_omega", 0.03)):
        bound = step_bound(load_rule(name))
        assert bound is not None and gate_max < bound.smooth
    assert step_bound(load_rule("simple_gla")) is None


def test_slopes() -> None:
    assert curvature(load_rule("omeganet_linear")) == 1.0
    assert curvature(load_rule("simple_gla")) == 0.0
    assert curvature(load_rule("logcosh_omega")) == pytest.approx(1.0, abs=1e-4)
    quartic = rule_from_table({"loss": {"kind": "lp", "p": 4}, "block": 4})
    assert curvature(quartic) == pytest.approx(3 * 16, rel=1e-3)  # 3 d^2 at |d| = 4


def test_feature_norms() -> None:
    assert feature_norm(load_rule("omeganet_linear"), 64) == 1.0
    elu = load_rule("linear_attention")
    diagonal = 64 * (1 + 1 / 8) ** 2  # all entries 1/8
    assert feature_norm(elu, 64) == pytest.approx(diagonal)
    assert math.isclose(feature_norm(rule_from_table({"features": "relu"}), 16), 1.0)

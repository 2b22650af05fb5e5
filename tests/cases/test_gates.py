"""Decay extremes: what other kernels overflowed on, lost digits in, or turned to NaN."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from torch import Tensor

from atlasgen.spec import load_rule, rule_from_table
from tests.rules.compare import BACKENDS, Case, Shape, bounded, check, compiled, error, make_case, run_case

each_backend = pytest.mark.parametrize("backend", BACKENDS)
GATED = ("simple_gla", "titans_linear", "omeganet_linear", "logcosh_omega", "titans_exact")
each_gated = pytest.mark.parametrize("name", GATED)


def gated_case(name: str, T: int, log_alpha: float | Tensor, dtype: torch.dtype = torch.float32) -> Case:
    """A call of a rule with one decay everywhere, or with a decay for each token."""
    case = make_case(load_rule(name), Shape(B=1, T=T, H=2, K=16, V=16), seed=T, dtype=dtype)
    case.arguments["log_alpha"] = torch.zeros_like(case.arguments["log_alpha"]) + log_alpha
    return case


def reset_at(T: int, token: int, value: float) -> Tensor:
    gates = torch.full((1, T, 2), -0.1, dtype=torch.float64)
    gates[:, token] = value
    return gates


@each_backend
@each_gated
@pytest.mark.parametrize("token", [0, 31, 63])
def test_one_strong_decay_spoils_no_gradient(name, backend, token):
    gates = reset_at(64, token, -50.0)
    gates[gates > -1] = -0.01
    check(gated_case(name, 64, gates.float().double()), backend)


@each_backend
@pytest.mark.parametrize("name", ["simple_gla", "omeganet_linear", "titans_linear"])
@pytest.mark.parametrize("value", [0.0, -1.0, -1.4, -6.0, -20.0, -100.0, -1000.0, -math.inf])
def test_one_decay_everywhere(name, backend, value):
    check(gated_case(name, 70, value), backend)


@each_backend
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_forgetting_everything_leaves_the_token_itself(backend, dtype):
    case = gated_case("simple_gla", 40, -1000.0, dtype)
    y = run_case(case, backend).values["y"]
    q, k, v = (case.arguments[name] for name in "qkv")
    assert error(y, (q * k).sum(-1, keepdim=True) * v)[0] <= 6e-3


@each_backend
@each_gated
@pytest.mark.parametrize("value", [-100.0, -1e4, -3.4e37, -math.inf])
@pytest.mark.parametrize("T", [8, 70])
def test_a_reset_is_exact_and_keeps_later_decays(name, backend, value, T):
    """Packing by a huge negative gate: the definition forgets, and later gates keep their digits."""
    case = gated_case(name, T, reset_at(T, T // 2, value))
    found, expected = run_case(case, backend), run_case(case, "definition")
    assert error(found.values["y"], expected.values["y"])[0] <= 1e-5
    assert error(found.values["memory.M"], expected.values["memory.M"])[0] <= 1e-5
    for gradient, tensor in found.gradients.items():
        assert torch.isfinite(tensor).all(), gradient
        other = expected.gradients[gradient]
        if gradient == "log_alpha" and math.isinf(value):
            # d exp(x) at -inf is 0; float64 finds the same.
            assert not tensor[:, T // 2].any()
        assert error(tensor, other)[0] <= 1e-5, gradient


@each_backend
def test_after_a_reset_comes_a_fresh_run(backend):
    T = 128 if backend == "torch" else 40
    case = gated_case("simple_gla", T, reset_at(T, T // 2, -math.inf))
    y = run_case(case, backend).values["y"][:, T // 2 :]
    later = {name: value[:, T // 2 :] for name, value in case.arguments.items()}
    half = dataclasses.replace(case, shape=dataclasses.replace(case.shape, T=T - T // 2), arguments=later)
    fresh = run_case(half, backend).values["y"]
    assert error(y, fresh)[0] <= 1e-6


def test_no_drift_over_a_long_sequence():
    """Sums of log decays are local to a block: the digits of a decay do not depend on how long ago."""
    T = 43_884
    op = compiled(load_rule("simple_gla"), "torch")
    q, k, v = (torch.randn(1, T, 1, 16) for _ in range(3))
    gate = torch.full((1, T, 1), -0.1)
    y, _ = op(q, k, v, log_alpha=gate)
    tail = slice(T - 1024, T)
    case = Case(
        load_rule("simple_gla"), Shape(B=1, T=1024, H=1, K=16, V=16), torch.float32,
        {"q": q[:, tail].double(), "k": k[:, tail].double(), "v": v[:, tail].double(),
         "log_alpha": gate[:, tail].double()},
    )  # fmt: skip
    expected = run_case(case, "definition").values["y"]
    assert torch.isfinite(y).all()
    assert error(y[:, -64:], expected[:, -64:])[0] <= 1e-5


@each_backend
def test_a_float16_read_beyond_its_range(backend):
    """o_t = K t leaves float16's range at t = 1024: an inf is fp16's own, a NaN would be ours."""
    T = 1040 if backend == "torch" else 70
    K = 64 if backend == "torch" else 1024
    ones = torch.ones(1, T, 1, K, dtype=torch.float16)
    values = torch.ones(1, T, 1, 4, dtype=torch.float16)
    op = compiled(rule_from_table({"rule": "sums", "loss": "dot"}), backend)
    y, state = op(ones, ones, values, output_final_state=True)
    expected = K * torch.arange(1, T + 1, dtype=torch.float64)
    assert not torch.isnan(y).any()
    assert torch.equal(torch.isinf(y[0, :, 0, 0]), expected > 65519)
    kept = expected <= 65504
    assert error(y[0, kept, 0, 0], expected[kept])[0] <= 2e-3
    assert state.memory["M"].dtype == torch.float32
    assert torch.equal(state.memory["M"], torch.full_like(state.memory["M"], T))


@each_backend
@pytest.mark.parametrize("scale", [0.0, 2.0, 3.0])
def test_gradients_of_decay_parameters_under_strong_decay(backend, scale):
    """The gradient of exp(A) softplus(x), through decays from weak to strong, in bfloat16."""
    T = 128 if backend == "torch" else 33
    case = make_case(load_rule("simple_gla"), Shape(B=1, T=T, H=2, K=16, V=16), dtype=torch.bfloat16)
    x = torch.randn(1, T, 2, dtype=torch.float64)
    case.arguments["log_alpha"] = (-math.exp(scale) * torch.nn.functional.softplus(x)).float().double()
    found, expected = run_case(case, backend), run_case(case, "definition")
    assert error(found.gradients["log_alpha"], expected.gradients["log_alpha"])[0] <= 1e-2


@each_backend
def test_a_small_log_decay_keeps_its_digits_with_bfloat16_keys(backend):
    """Gates are computed in float32 whatever the dtype of q, k and v; bfloat16 gates are widened."""
    T = 512 if backend == "torch" else 70
    case = gated_case("simple_gla", T, -0.001, torch.bfloat16)
    found, expected = run_case(case, backend), run_case(case, "definition")
    assert error(found.values["memory.M"], expected.values["memory.M"])[0] <= 6e-3
    op = compiled(case.rule, backend)
    q, k, v = (case.arguments[name].bfloat16() for name in "qkv")
    gate = torch.full((1, T, 2), -0.03, dtype=torch.bfloat16)
    narrow, _ = op(q, k, v, log_alpha=gate)
    wide, _ = op(q, k, v, log_alpha=gate.float())
    assert torch.equal(narrow, wide)


def test_keys_that_repeat_within_and_beyond_the_stable_step():
    """Frozen block points: lr c b |k|^2 < 2 stays bounded; far beyond it the definition itself grows,
    and the backend grows with it."""
    rule = rule_from_table(
        {"rule": "deltas", "loss": "l2", "block": 16, "optimizer": {"lr": "token"}, "window": 4}
    )
    for lr, stable in ((0.01, True), (0.5, False)):
        case = make_case(rule, Shape(B=1, T=96, H=1, K=8, V=4))
        case.arguments["k"] = case.arguments["k"][:, :1].expand_as(case.arguments["k"]).clone()
        case.arguments["lr"] = torch.full_like(case.arguments["lr"], lr).float().double()
        expected = run_case(case, "definition")
        assert bounded(expected) == stable
        found = run_case(case, "torch")
        assert error(found.values["memory.M"], expected.values["memory.M"])[0] <= 1e-4


@each_backend
def test_steps_and_keys_of_zero_change_nothing(backend):
    rule = rule_from_table(
        {"rule": "unit", "loss": "l2", "features": "l2norm", "block": 8, "optimizer": {"lr": "token"}}
    )
    case = make_case(rule, Shape(B=1, T=20, H=1, K=4, V=3), start="state")
    case.arguments["lr"][:, ::2] = 0.0
    case.arguments["k"][:, ::3] = 0.0
    case.arguments["q"][:, ::4] = 0.0
    check(case, backend, [(), (9,)])
    still = dataclasses.replace(case, arguments={**case.arguments, "lr": case.arguments["lr"] * 0})
    found = run_case(still, backend)
    assert torch.equal(found.values["memory.M"], still.state["memory.M"].float())


@each_backend
@pytest.mark.parametrize("scale", [3.0, 30.0])
def test_one_token_of_large_float16_inputs(backend, scale):
    for name in ("simple_gla", "titans_linear", "linear_attention"):
        case = make_case(load_rule(name), Shape(B=1, T=1, H=2, K=16, V=16), dtype=torch.float16)
        for letter in "qkv":
            case.arguments[letter] = (scale * case.arguments[letter]).half().double()
        found = run_case(case, backend)
        for what, tensor in {**found.values, **found.gradients}.items():
            assert torch.isfinite(tensor).all(), (name, what)

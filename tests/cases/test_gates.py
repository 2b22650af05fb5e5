"""Decay extremes: what other kernels overflowed on, lost digits in, or turned to NaN."""

from __future__ import annotations

import dataclasses
import itertools
import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from atlasgen.runtime.signature import signature_of
from atlasgen.spec import load_rule, rule_from_table, shipped_specs
from tests.rules.compare import BACKENDS, Case, Shape, bounded, check, compiled, error, make_case, run_case

each_backend = pytest.mark.parametrize("backend", BACKENDS)
# Every shipped rule whose decay is an argument.
GATED = [n for n in shipped_specs() if "log_alpha" in [e.name for e in signature_of(load_rule(n)).tensors]]
# Of each way a decay enters a schedule one rule, for every value; interpreted kernels are slow.
KINDS = ("simple_gla", "titans_linear", "omeganet_linear", "gated_deltanet", "gla", "rwkv7")
INTERPRETED = ("simple_gla", "titans_linear", "omeganet_linear", "gated_deltanet", "titans_exact", "gla")

ALL_WAYS = ("simple_gla", "gla", "gated_deltanet", "kda", "omeganet_linear")


def each_gated(values: tuple[float, ...], some: tuple[float, ...]) -> pytest.MarkDecorator:
    """All values for one rule of each kind, some for every rule, by torch; and some interpreted."""
    found = [(n, "torch", value) for n in GATED for value in (values if n in KINDS else some)]
    found += [(n, "triton", value) for n in INTERPRETED for value in some]
    return pytest.mark.parametrize(("name", "backend", "value"), found)


def gated_case(
    name: str, T: int, log_alpha: float | Tensor, dtype: torch.dtype = torch.float32, size: int = 4
) -> Case:
    """A call of a rule with one decay everywhere, or with a decay [T] for each token."""
    case = make_case(load_rule(name), Shape(B=1, T=T, H=2, K=size, V=size), seed=T, dtype=dtype)
    gates = case.arguments["log_alpha"]
    decays = torch.as_tensor(log_alpha, dtype=torch.float64).expand(T)
    case.arguments["log_alpha"] = decays.reshape(1, T, *[1] * (gates.ndim - 2)).expand_as(gates).clone()
    return case


def reset_at(T: int, token: int, value: float, others: float = -0.1) -> Tensor:
    """A decay [T] for each token: one value at a token, another at all others, both as float32 has them."""
    gates = torch.full((T,), others)
    gates[token] = value
    return gates.double()


@each_gated((-50.0,), (-50.0,))
def test_one_strong_decay_spoils_no_gradient(name, backend, value):
    T = 64 if backend == "torch" else 18
    for token in (0, T // 2 - 1, T - 1):
        check(gated_case(name, T, reset_at(T, token, value, -0.01)), backend)


@each_gated((0.0, -1.0, -1.4, -6.0, -20.0, -100.0, -1000.0, -math.inf), (-1.4, -20.0, -math.inf))
def test_one_decay_everywhere(name, backend, value):
    """Blocks of 64 rows and a tail; interpreted kernels of other rules are tried in tests/rules."""
    check(gated_case(name, 70 if backend == "torch" else 18, value), backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["simple_gla", "gla", "gated_deltanet", "kda"])
def test_strong_decays_beside_bfloat16_keys(name, backend):
    for value in (-1.4, -20.0, -1000.0) if backend == "torch" else (-20.0,):
        check(gated_case(name, 128 if backend == "torch" else 18, value, torch.bfloat16, 8), backend)


@pytest.mark.parametrize("name", ["gla", "kda", "rwkv7", "gated_deltanet_2"])
def test_strong_decays_by_channel_over_several_blocks(name):
    check(gated_case(name, 256, -5.0, size=8), "torch")


@each_backend
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["simple_gla", "gla", "gated_deltanet", "kda"])
def test_forgetting_everything_leaves_the_token_itself(name, backend, dtype):
    """y_t = lr_t (q_t . k_t) v_t in closed form: whatever the rule's error, the memory it sees is zero."""
    case = gated_case(name, 40 if backend == "torch" else 18, -1000.0, dtype, 16)
    y = run_case(case, backend).values["y"]
    q, k, v = (case.arguments[name] for name in "qkv")
    lr = case.arguments["lr"][..., None] if "lr" in case.arguments else 1.0
    assert error(y, lr * (q * k).sum(-1, keepdim=True) * v)[0] <= 6e-3


@each_gated((-100.0, -1e4, -3.4e37, -math.inf), (-1e4, -math.inf))
def test_a_reset_is_exact_and_keeps_later_decays(name, backend, value):
    """Packing by a huge negative gate: the definition forgets, and later gates keep their digits."""
    for T in (8, 70) if backend == "torch" and name in KINDS else (18,):
        case = gated_case(name, T, reset_at(T, T // 2, value))
        check(case, backend)
        if math.isinf(value):
            # d exp(x) at -inf is 0, and float64 finds the same; by channel it is so up to rounding.
            gradient = run_case(case, backend).gradients["log_alpha"]
            rounding = 1e-6 * float(gradient.abs().max()) if gradient.ndim > 3 else 0.0
            assert float(gradient[:, T // 2].abs().max()) <= rounding


@each_backend
@pytest.mark.parametrize("name", ["simple_gla", "gla", "gated_deltanet", "kda"])
def test_after_a_reset_comes_a_fresh_run(name, backend):
    T = 128 if backend == "torch" else 36
    case = gated_case(name, T, reset_at(T, T // 2, -math.inf))
    y = run_case(case, backend).values["y"][:, T // 2 :]
    later = {name: value[:, T // 2 :] for name, value in case.arguments.items()}
    half = dataclasses.replace(case, shape=dataclasses.replace(case.shape, T=T - T // 2), arguments=later)
    fresh = run_case(half, backend).values["y"]
    assert error(y, fresh)[0] <= 1e-6


@pytest.mark.parametrize("name", ["simple_gla", "gla", "gated_deltanet", "kda"])
def test_no_drift_over_a_long_sequence(name):
    """Sums of log decays are local to a block: the digits of a decay do not depend on how long ago."""
    T, tail = 43_884, 1024  # what is older than the tail has decayed to e^-90
    case = gated_case(name, tail, float(torch.tensor(-0.1)), size=16)
    ahead = T // tail + 1
    call = {n: x.float().repeat(1, ahead, *[1] * (x.ndim - 2))[:, -T:] for n, x in case.arguments.items()}
    with torch.no_grad():
        y, _ = compiled(case.rule, "torch")(**call)
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


@pytest.mark.parametrize(
    ("name", "backend", "scale"),
    [
        *itertools.product(ALL_WAYS, ("torch",), (0.0, 2.0, 3.0)),
        *itertools.product(("simple_gla", "gla", "gated_deltanet"), ("triton",), (3.0,)),
    ],
)
def test_gradients_of_decay_parameters_under_strong_decay(name, backend, scale):
    """exp(A) softplus(x + 5) of decays from weak to strong: in bfloat16, and the chain to A and the bias."""
    T = 65 if backend == "torch" else 17
    for dtype in (torch.bfloat16, torch.float32):
        case = gated_case(name, T, 0.0, dtype, 8)
        x = 4 * torch.randn(case.arguments["log_alpha"].shape, dtype=torch.float64) - 5
        case.arguments["log_alpha"] = (-math.exp(scale) * functional.softplus(x + 5)).float().double()
        results = (run_case(case, kind) for kind in (backend, "definition"))
        found, expected = (result.gradients["log_alpha"].double() for result in results)
        assert error(found, expected)[0] <= (1e-2 if dtype == torch.bfloat16 else 1e-5)
    rates = -math.exp(scale) * torch.sigmoid(x + 5)
    for slope in (case.arguments["log_alpha"], rates):
        # Against the sum without signs: the definition's own may cancel.
        size = float((expected * slope).abs().sum())
        assert abs(float((found * slope).sum() - (expected * slope).sum())) <= 1e-4 * size


@each_backend
@pytest.mark.parametrize("name", ["simple_gla", "gla", "gated_deltanet"])
def test_a_small_log_decay_keeps_its_digits_with_bfloat16_keys(name, backend):
    """Gates are computed in float32 whatever the dtype of q, k and v; bfloat16 gates are widened."""
    T = 512 if backend == "torch" else 20
    case = gated_case(name, T, float(torch.tensor(-0.001)), torch.bfloat16, 8)
    found, expected = run_case(case, backend), run_case(case, "definition")
    assert error(found.values["memory.M"], expected.values["memory.M"])[0] <= 6e-3
    op = compiled(case.rule, backend)
    call = {n: x.bfloat16() if n in "qkv" else x.float() for n, x in case.arguments.items()}
    gate = torch.full_like(call["log_alpha"], -0.03, dtype=torch.bfloat16)
    narrow, _ = op(**{**call, "log_alpha": gate})
    wide, _ = op(**{**call, "log_alpha": gate.float()})
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
@pytest.mark.parametrize("block", [1, 8])
def test_steps_and_keys_of_zero_change_nothing(backend, block):
    rule = rule_from_table(
        {"rule": "unit", "loss": "l2", "features": "l2norm", "block": block, "optimizer": {"lr": "token"}}
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

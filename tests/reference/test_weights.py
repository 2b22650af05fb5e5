"""Gates and transforms of single weights, norms with gains, learned coefficients, sizes that must agree."""

import pytest
import torch

from atlasgen import reference
from atlasgen.errors import ArgumentError
from atlasgen.reference.features import apply_features
from atlasgen.reference.transforms import newton_schulz
from atlasgen.spec import rule_from_table
from atlasgen.spec.rule import Features, Transform
from tests.reference.support import (
    assert_same_state,
    error,
    initial_memory,
    make_arguments,
    run_in_pieces,
)

BAR = 1e-12


def normal(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def rule_of(**table):
    return rule_from_table({"rule": "weights", **table})


TWO = rule_of(
    memory={"kind": "graph", "f": "A @ x + B @ x", "weights": {"A": ["V", "F"], "B": ["V", "F"]}},
    loss="l2",
    weights={
        "A": {"lr": "token", "retention": "token"},
        "B": {"lr": "head", "retention": {"kind": "constant", "value": 0.9}},
    },
)


def test_two_weights_with_their_own_time_scales():
    """One error moves both; each has its own step and decay."""
    arguments = make_arguments(TWO, length=6, heads=1)
    assert {"lr_A", "lr_B", "log_alpha_A"} == arguments.keys() - {"q", "k", "v"}
    y, state = reference.run(TWO, **arguments)
    q, k, v, lr, log_alpha = (arguments[n][0, :, 0] for n in ("q", "k", "v", "lr_A", "log_alpha_A"))
    a = b = torch.zeros(3, 4, dtype=torch.float64)
    for t in range(6):
        gradient = torch.outer(k[t], k[t] @ (a + b) - v[t])
        a = log_alpha[t].exp() * a - lr[t] * gradient
        b = 0.9 * b - arguments["lr_B"][0] * gradient
        assert error(y[0, t, 0], q[t] @ (a + b)) < BAR
    assert error(state["memory"]["B"][0, 0], b) < BAR
    pieces, last = run_in_pieces(TWO, arguments, [0, 2, 3, 6])
    assert error(pieces, y) < BAR
    assert_same_state(last, state)


def test_muon_on_matrices_and_descent_on_biases():
    """One-dimensional weights take plain steps; a weight's own transforms replace the rule's."""
    muon = {"kind": "momentum", "theta": "token", "lr": 0.1, "transform": [{"kind": "newton_schulz"}]}
    memory = {"kind": "mlp", "hidden": "2*K", "bias": True, "initial": "learned"}
    rule = rule_of(memory=memory, loss="l2", optimizer=muon, weights={"W2": {"transform": [], "theta": 0.5}})
    arguments = make_arguments(rule, length=3, heads=1)
    start = initial_memory(rule, heads=1)
    _, before = reference.run(
        rule, **{n: t[:, :2] if t.ndim > 1 else t for n, t in arguments.items()}, initial_memory=start
    )
    _, after = reference.run(
        rule, **{n: t[:, 2:] if t.ndim > 1 else t for n, t in arguments.items()}, initial_state=before
    )
    coefficients = Transform("newton_schulz").coefficients
    for name, weight in before["memory"].items():
        moved = (weight - after["memory"][name]) / 0.1
        momentum = after["momentum"][name]
        expected = newton_schulz(momentum, coefficients) if name == "W1" else momentum
        assert error(moved, expected) < BAR, name
    with pytest.raises(ArgumentError, match="log_theta"):
        reference.run(rule, **{n: t for n, t in arguments.items() if n != "log_theta"}, initial_memory=start)


def test_a_common_gate_that_no_weight_uses_is_refused():
    arguments = make_arguments(TWO, length=2)
    with pytest.raises(ArgumentError, match="not read by this rule") as caught:
        reference.run(TWO, **arguments, lr=torch.ones(1, 2, 2))
    assert caught.value.argument == "lr" and "lr_A" in str(caught.value)


@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_gains_of_the_memorys_norm(kind):
    """A read before any write: norm(M q) * gain + bias, by itself or inside the rule's own read."""
    arguments = {}
    for read in ({"at": "pre"}, {"at": "pre", "f": "z - norm(2 * z)"}):
        rule = rule_of(memory={"norm": kind, "initial": "given"}, loss="l2", read=read)
        arguments = make_arguments(rule, length=1, heads=2)
        assert ("norm_bias" in arguments) == (kind == "layer")
        memory = initial_memory(rule)
        y, _ = reference.run(rule, **arguments, initial_memory=memory["M"])
        z = torch.einsum("hk,hkv->hv", arguments["q"][0, 0], memory["M"])
        inner = z if "f" not in read else 2 * z
        centred = inner - inner.mean(-1, keepdim=True) if kind == "layer" else inner
        normed = centred / (centred.square().mean(-1, keepdim=True) + 1e-6).sqrt()
        normed = normed * arguments["norm_gain"] + arguments.get("norm_bias", 0)
        assert error(y[0, 0], normed if "f" not in read else z - normed) < BAR
    with pytest.raises(ArgumentError, match="norm_shift"):
        reference.run(rule, **arguments, norm_shift=torch.ones(2, 4), initial_memory=memory)


def test_gains_of_a_read_that_normalises_a_plain_memory():
    rule = rule_of(loss="l2", optimizer={"lr": "token"}, read={"f": "norm(z)"})
    arguments = make_arguments(rule, length=3)
    assert {"norm_gain", "norm_bias"} < arguments.keys()
    plain = rule_of(loss="l2", optimizer={"lr": "token"})
    z, _ = reference.run(plain, **{n: t for n, t in arguments.items() if "norm" not in n})
    y, _ = reference.run(rule, **arguments)
    expected = torch.nn.functional.layer_norm(z, (4,), eps=1e-6)
    assert error(y, expected * arguments["norm_gain"] + arguments["norm_bias"]) < BAR


@pytest.mark.parametrize("basis", ["symmetric", "kronecker", "powers"])
def test_coefficients_of_each_head(basis):
    """phi(q) . phi(k) = sum a_p (q . k)^p with the head's own a; powers: sum a_p x^p."""
    features = Features("poly", degree=3, basis=basis, coefficients="learned")
    a = 0.3 + torch.rand(2, 4, dtype=torch.float64)
    q, k = normal(1, 2, 5, 3), normal(1, 2, 6, 3)
    phi_q, phi_k = (apply_features(features, x, side, a) for x, side in ((q, "q"), (k, "k")))
    for head in range(2):
        powers = [a[head, p] for p in range(4)]
        if basis == "powers":
            assert error(phi_q[0, head], sum(w * q[0, head] ** p for p, w in enumerate(powers))) < BAR
            continue
        product = q[0, head] @ k[0, head].T
        expected = sum(w * product**p for p, w in enumerate(powers))
        assert error(phi_q[0, head] @ phi_k[0, head].T, expected) < BAR
    a.requires_grad_()
    total = apply_features(features, q, "q", a).sum()
    assert torch.autograd.grad(total, a)[0].abs().min() > 0


def test_symmetric_monomials_stand_in_order():
    features = Features("poly", degree=2, coefficients=(0.0, 0.0, 0.5))
    x = torch.tensor([[2.0, 3.0, 5.0]], dtype=torch.float64)
    root = 2**0.5
    expected = torch.tensor([[4, 6 * root, 10 * root, 9, 15 * root, 25]], dtype=torch.float64) * 0.5**0.5
    assert error(apply_features(features, x, "k"), expected) < BAR


def test_learned_coefficients_reach_keys_and_queries():
    rule = rule_of(
        features={"kind": "poly", "coefficients": "learned"},
        loss="l2",
        window=2,
        block=2,
        optimizer={"lr": "token"},
    )
    arguments = make_arguments(rule, length=5)
    assert arguments["coefficients"].shape == (2, 3)
    y, state = reference.run(rule, **arguments)
    assert state["memory"]["M"].shape == (1, 2, 10, 4)
    pieces, last = run_in_pieces(rule, arguments, [0, 1, 3, 5])
    assert error(pieces, y) < BAR
    assert_same_state(last, state)
    for head in range(2):  # the other head's coefficients do not matter
        one = {
            n: t[:, :, head : head + 1] if t.ndim > 2 else t[head : head + 1] for n, t in arguments.items()
        }
        assert error(reference.run(rule, **one)[0][:, :, 0], y[:, :, head]) < BAR


def test_a_normal_memory_is_drawn_by_the_layer_and_passed():
    rule = rule_of(memory={"kind": "mlp", "initial": "normal"}, loss="l2", optimizer={"lr": "token"})
    arguments = make_arguments(rule, length=2)
    with pytest.raises(ArgumentError, match='memory.initial = "normal"') as caught:
        reference.run(rule, **arguments)
    assert "W1 [H, in, out]" in str(caught.value)
    reference.run(rule, **arguments, initial_memory=initial_memory(rule))


@pytest.mark.parametrize(
    ("table", "name"),
    [
        ({"memory": {"residual": "x"}}, "memory.residual"),
        ({"loss": {"target": "v - k"}}, "loss.target"),
        ({"memory": {"kind": "graph", "f": "x + A @ x", "weights": {"A": ["V", "F"]}}}, "memory.f"),
    ],
)
def test_values_of_another_size_than_keys_are_named(table, name):
    rule = rule_of(**table)
    reference.run(rule, **make_arguments(rule, length=1, value_size=3))
    with pytest.raises(ArgumentError, match=name) as caught:
        reference.run(rule, **make_arguments(rule, length=1, value_size=1))
    assert caught.value.argument == "v"


@pytest.mark.parametrize("scale", [1e-30, 1e-15, 1e15, 1e30])
def test_newton_schulz_in_float32_neither_floors_nor_overflows(scale):
    coefficients = Transform("newton_schulz").coefficients
    matrix = normal(6, 4)
    found = newton_schulz((scale * matrix).float(), coefficients)
    assert error(found.double(), newton_schulz(matrix, coefficients)) < 1e-5


def test_newton_schulz_of_some_zero_matrices_of_a_batch():
    matrix = normal(3, 4, 5)
    matrix[1] = 0
    matrix.requires_grad_()
    mapped = newton_schulz(matrix, Transform("newton_schulz").coefficients)
    assert mapped[1].abs().max() == 0
    gradient = torch.autograd.grad(mapped.square().sum(), matrix)[0]
    assert torch.isfinite(gradient).all() and gradient[1].abs().max() == 0
    assert torch.isnan(newton_schulz(matrix.detach() * torch.nan, ((1.0, 0.0, 0.0),))).all()

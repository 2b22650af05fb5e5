"""Outer derivatives by finite differences, and inner errors against their closed forms."""

import dataclasses

import pytest
import torch

from atlasgen import reference
from atlasgen.reference.losses import token_losses
from atlasgen.spec.rule import (
    Block,
    Features,
    Gate,
    Input,
    LossTerm,
    MemoryRule,
    Optimizer,
    Read,
    Retention,
    Window,
)
from tests.reference.support import HEAD, TOKEN, leaves, make_arguments

BASE = MemoryRule(
    "base",
    loss=(LossTerm("l2"),),
    window=Window(2, TOKEN),
    block=Block(2),
    optimizer=Optimizer("momentum", lr=TOKEN, theta=TOKEN),
    retention=Retention(TOKEN, toward="initial"),
)
INPUT = (Input("delta", "token"),)
CURVE = "log(cosh(pred - v)) + delta * (pred - v)**2"

RULES = {
    "l2": BASE,
    "huber_row": dataclasses.replace(BASE, loss=(LossTerm("huber", per="row", delta="delta"),), inputs=INPUT),
    "huber_element": dataclasses.replace(BASE, loss=(LossTerm("huber", delta=0.4),)),
    "lp": dataclasses.replace(BASE, loss=(LossTerm("lp", p=2.5),)),
    "lp_row": dataclasses.replace(BASE, loss=(LossTerm("lp", p=1.5, eps=0.2, per="row"),)),
    "expression": dataclasses.replace(BASE, loss=(LossTerm("expr", expression=CURVE),), inputs=INPUT),
    "expression_row": dataclasses.replace(
        BASE, loss=(LossTerm("expr", per="row", expression="log(1 + norm**2 / 2)"),)
    ),
    "gates": dataclasses.replace(
        BASE,
        window=Window(2, Gate("pair"), "carry", "mean"),
        optimizer=Optimizer(lr=HEAD),
        retention=Retention(HEAD),
    ),
    "normalised": dataclasses.replace(
        BASE,
        features=Features("elu1"),
        window=Window(2, Gate("position"), "truncate"),
        read=Read(normaliser="sum", scale="K**-0.5"),
    ),
    "features": dataclasses.replace(
        BASE, features=Features("expr", expression="x + 0.3 * tanh(x)**2"), read=Read("pre")
    ),
    "l2norm": dataclasses.replace(BASE, features=Features("l2norm")),
}


@pytest.mark.parametrize("name", RULES)
def test_gradients_against_finite_differences(name):
    """Every argument, to y and every tensor of the final state."""
    rule = RULES[name]
    arguments = make_arguments(rule, length=3, heads=1, key_size=2, value_size=2)
    arguments["initial_memory"] = torch.randn(1, 2, 2, dtype=torch.float64)
    inputs = leaves(arguments)

    def function(*tensors):
        given = dict(zip(inputs, tensors))
        extra = {n.split(".")[1]: given.pop(n) for n in list(given) if n.startswith("inputs.")}
        y, state = reference.run(rule, **given, inputs=extra)
        return (y, *(t for t in leaves(state).values() if t.is_floating_point()))

    tensors = [tensor.requires_grad_() for tensor in inputs.values()]
    assert torch.autograd.gradcheck(function, tensors)


@pytest.mark.parametrize("boundary", ["halo", "carry"])
def test_gradients_of_an_initial_state(boundary):
    rule = dataclasses.replace(BASE, window=Window(2, TOKEN, boundary))
    arguments = make_arguments(rule, length=4, heads=1, key_size=2, value_size=2)
    start = {name: tensor[:, :1] for name, tensor in arguments.items()}
    rest = {name: tensor[:, 1:] for name, tensor in arguments.items()}
    _, state = reference.run(rule, **start)
    places = {n: t for n, t in leaves(state).items() if t.is_floating_point()}

    def function(*tensors):
        nested = {part: {} for part in state} | {"position": state["position"]}
        for place, tensor in zip(places, tensors):
            part, name = place.split(".")
            nested[part][name] = tensor
        y, after = reference.run(rule, **rest, initial_state=nested)
        return (y, *(t for t in leaves(after).values() if t.is_floating_point()))

    tensors = [tensor.detach().requires_grad_() for tensor in places.values()]
    assert torch.autograd.gradcheck(function, tensors)


def test_reset_gates_keep_gradients_finite():
    """log_alpha = -inf is legal: everything older is gone."""
    rule = dataclasses.replace(BASE, retention=Retention(TOKEN), block=Block(1))
    arguments = make_arguments(rule, length=6)
    arguments["log_alpha"][:, 3] = -torch.inf
    for tensor in arguments.values():
        tensor.requires_grad_()
    y, _ = reference.run(rule, **arguments)
    y[:, 4].sum().backward()
    assert all(torch.isfinite(tensor.grad).all() for tensor in arguments.values())


def derivative(term, prediction, target, **values):
    prediction = prediction.detach().requires_grad_()
    loss = token_losses(term, prediction, target, values)
    first = torch.autograd.grad(loss.sum(), prediction, create_graph=True)[0]
    if not first.requires_grad:  # a loss linear in pred
        return first, torch.zeros_like(first)
    return first.detach(), torch.autograd.grad(first.sum(), prediction)[0]


def test_errors_in_closed_form():
    torch.manual_seed(0)
    prediction, target = torch.randn(2, 5, 4, dtype=torch.float64)
    delta = torch.linspace(0.1, 3, 5, dtype=torch.float64)
    d = prediction - target
    norm = d.norm(dim=-1, keepdim=True)
    ratio = delta[:, None]
    closed = [
        (LossTerm("dot"), -target),
        (LossTerm("l2"), d),
        (LossTerm("lp", p=3), d.abs() * d),
        (LossTerm("lp", p=1.5, eps=0.1), d * (d * d + 0.1) ** -0.25),
        (LossTerm("lp", p=3, per="row"), norm * d),
        (LossTerm("huber", delta=0.5), d.clamp(-0.5, 0.5)),
        (LossTerm("huber", delta="delta"), d * (ratio / d.abs()).clamp(max=1)),
        (LossTerm("huber", delta="delta", per="row"), d * (ratio / norm).clamp(max=1)),
        (LossTerm("expr", expression="sqrt(1 + (pred - v)**2)"), d / (1 + d * d).sqrt()),
        (LossTerm("expr", expression="delta * norm**2", per="row"), 2 * ratio * d),
    ]
    for term, expected in closed:
        first, _ = derivative(term, prediction, target, delta=delta)
        assert torch.allclose(first, expected, rtol=1e-13, atol=1e-15), term


@pytest.mark.parametrize(
    ("term", "curvature"),
    [
        (LossTerm("l2"), 1.0),
        (LossTerm("lp", p=2), 1.0),
        (LossTerm("lp", p=2, per="row"), 1.0),
        (LossTerm("lp", p=3), 0.0),
        (LossTerm("lp", p=3, per="row"), 0.0),
        (LossTerm("lp", p=2.5), 0.0),
        (LossTerm("huber", delta=0.5), 1.0),
        (LossTerm("huber", delta=0.5, per="row"), 1.0),
    ],
)
def test_a_hit_target_has_no_error_and_the_right_curvature(term, curvature):
    zero = torch.zeros(3, 4, dtype=torch.float64)
    first, second = derivative(term, zero, zero)
    assert torch.equal(first, zero)
    assert torch.equal(second, zero + curvature)


def test_a_zero_key_stays_zero_under_l2norm():
    rule = MemoryRule("unit", features=Features("l2norm"), loss=(LossTerm("l2"),))
    arguments = make_arguments(rule, length=4)
    arguments["k"][:, 1] = 0
    arguments["k"].requires_grad_()
    y, state = reference.run(rule, **arguments)
    (y.sum() + state["memory"]["M"].sum()).backward()
    assert arguments["k"].grad[:, 1].abs().max() == 0
    assert torch.isfinite(arguments["k"].grad).all()


def test_float32_is_computed_in_float32_and_close():
    arguments = make_arguments(BASE, length=20)
    exact, _ = reference.run(BASE, **arguments)
    single, state = reference.run(BASE, **arguments, dtype=torch.float32)
    assert single.dtype == state["memory"]["M"].dtype == torch.float32
    assert 0 < (single - exact).abs().max() < 1e-5 * exact.abs().max()


def test_no_graph_is_made_without_gradients():
    arguments = make_arguments(BASE, length=5)
    arguments["k"].requires_grad_()
    traced, _ = reference.run(BASE, **arguments)
    with torch.no_grad():
        y, state = reference.run(BASE, **arguments)
    assert traced.requires_grad and not y.requires_grad
    assert not any(tensor.requires_grad for tensor in leaves(state).values())
    assert torch.equal(y, traced)

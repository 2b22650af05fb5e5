"""The layer in training: memory over 256 tokens, stable steps, gradients for every parameter."""

import dataclasses

import pytest
import torch

from atlasgen.nn import MemoryBlock, MemoryLayer
from atlasgen.spec.load import load_rule
from tests.nn.support import OWN, SHIPPED, gradients, layer_of

FADING = ("simple_gla", "swla", "titans_linear", "omeganet_linear", "logcosh_omega", "plain_omega")


def influence(layer: MemoryLayer, tokens: tuple[int, ...]) -> list[float]:
    """The norm of the derivative of a random projection of y_t by x_0, for each t of `tokens`."""
    x = torch.randn(4, max(tokens) + 1, layer.hidden_size, requires_grad=True)
    y = layer(x)
    found = []
    for token in tokens:
        total = (y[:, token] * torch.randn(4, layer.hidden_size)).sum()
        gradient = torch.autograd.grad(total, x, retain_graph=True)[0]
        found.append(float(gradient[:, 0].norm()))
    return found


@pytest.mark.parametrize("name", FADING)
def test_it_remembers_over_256_tokens(name: str) -> None:
    early, late = influence(layer_of(name, hidden=32), (64, 280))
    assert late > 0.05 * early


def forgetful() -> MemoryLayer:
    """omeganet_linear's layer with a retention of one half at the start."""
    rule = load_rule("omeganet_linear")
    gates = tuple(
        dataclasses.replace(gate, init=0.5) if gate.name == "alpha" else gate for gate in rule.layer.gates
    )
    rule = dataclasses.replace(rule, layer=dataclasses.replace(rule.layer, gates=gates))
    return MemoryLayer(rule, 32, 2, backend="torch")


def test_a_memory_that_starts_at_one_half_forgets_everything() -> None:
    early, late = influence(forgetful(), (64, 280))
    assert late <= 1e-20 * early


def recalled(layer: MemoryLayer) -> float:
    """How often a linear probe of y_260 of an untrained layer tells the sign that token 0 had.

    Between are 256 tokens of weak noise, then four equal ones that ask.
    """
    signal, question = torch.randn(32), torch.randn(32)
    sign = torch.randint(2, (128,)) * 2.0 - 1
    x = torch.randn(128, 261, 32) * 0.02
    x[:, 0] = sign[:, None] * signal
    x[:, -4:] = question
    with torch.no_grad():
        y = torch.cat([layer(part)[:, -1] for part in x.split(32)])
    y = torch.cat([y, torch.ones(128, 1)], 1).double()
    train, test = y[:64], y[64:]
    ridge = 1e-6 * train.square().mean() * torch.eye(33, dtype=torch.float64)
    probe = torch.linalg.solve(train.T @ train + ridge, train.T @ sign[:64].double())
    return float(((test @ probe) * sign[64:] > 0).double().mean())


def test_a_probe_recalls_a_token_after_256_others() -> None:
    assert recalled(layer_of("omeganet_linear", hidden=32)) > 0.95
    assert recalled(forgetful()) < 0.75


@pytest.mark.parametrize("name", ["omeganet_linear", "titans_linear", "deltaproduct", "every_gate"])
@pytest.mark.parametrize("rate", [3e-4, 3e-3])
def test_200_steps_stay_finite(name: str, rate: float) -> None:
    block = MemoryBlock(layer_of(name))
    optimizer = torch.optim.AdamW(block.parameters(), lr=rate)
    generator = torch.Generator().manual_seed(1)
    losses = []
    for _ in range(200):
        x = torch.randn(2, 140, 16, generator=generator)
        loss = (block(x)[:, 2:] - x[:, :-2]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        assert all(torch.isfinite(gradient).all() for gradient in gradients(block).values())
    assert all(map(torch.isfinite, map(torch.tensor, losses)))
    assert sum(losses[-20:]) < sum(losses[:20])


@pytest.mark.parametrize("name", (*SHIPPED, *OWN))
def test_every_parameter_gets_a_finite_gradient(name: str) -> None:
    layer = layer_of(name)
    layer(torch.randn(2, 100, 16)).square().sum().backward()
    for parameter, gradient in gradients(layer).items():
        assert torch.isfinite(gradient).all(), parameter
        assert float(gradient.abs().max()) > 0, parameter


def test_gradients_agree_with_finite_differences() -> None:
    """One random direction through all parameters at once, on the float64 reference."""
    layer = MemoryLayer(OWN["every_gate"], 8, 2, backend="reference")
    x, cotangent = torch.randn(1, 12, 8), torch.randn(1, 12, 8)
    parameters = list(layer.parameters())
    directions = [torch.randn_like(parameter) * parameter.std().nan_to_num(1.0) for parameter in parameters]

    def value(step: float) -> float:
        with torch.no_grad():
            for parameter, direction in zip(parameters, directions):
                parameter.add_(step * direction)
            result = float((layer(x).double() * cotangent).sum())
            for parameter, direction in zip(parameters, directions):
                parameter.sub_(step * direction)
        return result

    slope = (value(1e-3) - value(-1e-3)) / 2e-3
    fast = MemoryLayer(OWN["every_gate"], 8, 2, backend="torch")
    fast.load_state_dict(layer.state_dict())
    (fast(x) * cotangent).sum().backward()
    found = sum(
        float((gradients(fast)[name] * direction.detach()).sum())
        for (name, _), direction in zip(fast.named_parameters(), directions)
    )
    assert found == pytest.approx(slope, rel=2e-2, abs=2e-2)

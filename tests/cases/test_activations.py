"""Activations far out, in kernels and of a layer's gates: float64's formulas say what is right."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from atlasgen.nn.gates import TokenGate
from atlasgen.spec import rule_from_table
from atlasgen.spec.rule import LayerGate
from tests.rules.compare import BACKENDS, compiled

SMALL = (0.0, -0.0, 1e-45, -1e-45, 1e-38, -1e-38, 1e-4, -1e-4)


def softplus(x: Tensor) -> Tensor:
    """Without a threshold: torch's own is off by 2e-9 beyond 20, and without one it overflows."""
    return torch.logaddexp(x, torch.zeros_like(x))


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sigmoid(x)": torch.sigmoid,
    "softplus(x)": softplus,
    "silu(x)": functional.silu,
    "gelu(x)": functional.gelu,
    "tanh(x)": torch.tanh,
    "log(cosh(x))": lambda x: x.abs() + softplus(-2 * x.abs()) - math.log(2),
}


def numbers(count: int) -> Tensor:
    """Signed float32 numbers of every size up to 1e4, [count]; the first are zeros and denormals."""
    generator = torch.Generator().manual_seed(0)
    sizes = 10 ** (torch.rand(count, generator=generator) * 12 - 8)
    signs = torch.randn(count, generator=generator).sign()
    return torch.cat([torch.tensor(SMALL), (sizes * signs)[len(SMALL) :]])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("expression", FUNCTIONS)
def test_features_far_out(expression, backend):
    """y = phi(q) where the memory is 1 and nothing is written."""
    table = {"rule": "far", "loss": "dot", "features": {"kind": "expr", "expression": expression}}
    rule = rule_from_table({**table, "memory": {"initial": "given"}})
    T = 20_000 if backend == "torch" else 200
    q = numbers(T).reshape(1, T, 1, 1).requires_grad_()
    k, v = torch.zeros_like(q), torch.zeros_like(q)
    y, _ = compiled(rule, backend)(q, k, v, initial_memory=torch.ones(1, 1, 1))
    y.sum().backward()
    exact = q.detach().double().requires_grad_()
    expected = FUNCTIONS[expression](exact)
    expected.sum().backward()
    for found, other in ((y, expected), (q.grad, exact.grad)):
        assert found is not None and other is not None
        torch.testing.assert_close(found.double(), other, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize(
    ("entry", "in_log", "function"),
    [
        (LayerGate("alpha", "sigmoid"), True, lambda z: -softplus(-z)),
        (LayerGate("lr", "sigmoid", max=0.8), False, lambda z: 0.8 * torch.sigmoid(z)),
        (LayerGate("lr", "softplus"), False, softplus),
    ],
    ids=["log_sigmoid", "sigmoid", "softplus"],
)
def test_gates_far_out(entry, in_log, function):
    """Of a million projections, and of infinite ones; a bfloat16 layer's gates are float32 too."""
    gate = TokenGate(entry, in_log, (1,), (0.5,), hidden_size=1)
    with torch.no_grad():
        gate.down.weight.fill_(1.0)
        gate.up.fill_(1.0)
        assert gate.bias is not None
        gate.bias.zero_()
        z = torch.cat([numbers(1_000_000), torch.tensor([math.inf, -math.inf])])
        found = gate(z[None, :, None])[0, :, 0]
    torch.testing.assert_close(found.double(), function(z.double()), rtol=2e-6, atol=2e-6)

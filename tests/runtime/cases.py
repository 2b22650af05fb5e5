"""Rules and calls that the tests of the runtime share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import atlasgen
from atlasgen import MemoryRule
from atlasgen.reference.run import run
from atlasgen.runtime.operator import MemoryOperator
from atlasgen.runtime.signature import resolve, signature_of
from atlasgen.spec.rule import (
    Block,
    Gate,
    Input,
    LossTerm,
    Optimizer,
    Read,
    Retention,
    Window,
)
from tests.runtime.naive import NaiveExecutable

atlasgen.register_backend("naive", NaiveExecutable)

TOKEN = Gate("token")
RULES = {
    "gated": MemoryRule("gated", loss=(LossTerm("dot"),), retention=Retention(TOKEN)),
    "normalised": MemoryRule(
        "normalised",
        loss=(LossTerm("dot"),),
        window=Window(3, Gate("position")),
        read=Read(normaliser="sum"),
        optimizer=Optimizer("momentum", theta=Gate("head")),
        retention=Retention(Gate("constant", expression="1 - 2**(-5 - head)")),
    ),
    "windowed": MemoryRule(
        "windowed",
        loss=(LossTerm("l2"),),
        window=Window(3, TOKEN),
        block=Block(4),
        optimizer=Optimizer("momentum", lr=TOKEN, theta=TOKEN),
        retention=Retention(TOKEN),
        read=Read(scale="K**-0.5"),
    ),
    "carried": MemoryRule(
        "carried",
        loss=(LossTerm("huber", per="row", delta="delta"),),
        inputs=(Input("delta", "token", "positive"),),
        window=Window(3, Gate("pair"), boundary="carry", normalise="mean"),
        block=Block(4),
        optimizer=Optimizer(lr=Gate("head"), lr_at="gradient"),
        retention=Retention(TOKEN, toward="initial"),
    ),
    "stepped": MemoryRule(
        "stepped",
        loss=(LossTerm("huber", per="row", delta="delta"),),
        inputs=(Input("delta", "token", "positive"),),
        block=Block(3),
        optimizer=Optimizer(lr=TOKEN, micro_steps=2),
        retention=Retention(Gate("head"), toward="initial"),
    ),
}

BACKENDS = ("naive", "torch", "triton")


def operator(rule: MemoryRule, backend: str) -> MemoryOperator:
    """The operator of a rule on a backend."""
    return atlasgen.compile(rule, backend)


@dataclass
class Call:
    """Arguments of one call by name, q, k and v included."""

    arguments: dict[str, Tensor]

    def __call__(self, operator: MemoryOperator, **options: Any) -> Any:
        return operator(**self.arguments, **options)

    def leaves(self) -> Call:
        """The same values as leaves that ask for gradients."""
        return Call({n: t.detach().clone().requires_grad_() for n, t in self.arguments.items()})

    def rows(self, rule: MemoryRule, rows: slice) -> Call:
        """The same call for some of the tokens."""
        per_token = {"q", "k", "v"} | {
            entry.name for entry in signature_of(rule).tensors if entry.shape[:2] == ("B", "T")
        }
        cut = {n: t[:, rows] if n in per_token else t for n, t in self.arguments.items()}
        return Call(cut)

    def reference(self, rule: MemoryRule, **options: Any) -> Any:
        """y and the state dict by the definition, in float64."""
        names = {entry.name for entry in rule.inputs}
        own = {name: tensor for name, tensor in self.arguments.items() if name in names}
        rest = {name: tensor for name, tensor in self.arguments.items() if name not in names}
        return run(rule, **rest, inputs=own, **options)


def call_of(
    rule: MemoryRule,
    batch: int = 2,
    tokens: int = 7,
    heads: int = 2,
    key: int = 4,
    value: int = 6,
    query_heads: int | None = None,
    key_heads: int | None = None,
    dtype: torch.dtype = torch.float32,
) -> Call:
    """A random call, gates in stable ranges; q and k positive, so that sums of them are not 0."""
    symbols = {"B": batch, "T": tokens, "H": heads, "K": key, "V": value, "F": key}
    symbols |= {"Hq": query_heads or heads, "Hk": key_heads or heads}
    shapes = {name: resolve(signature_of(rule).shape_of(name), symbols) for name in "qkv"}
    q = torch.rand(shapes["q"]) + 0.1
    k = torch.rand(shapes["k"]) * 0.5 + 0.1
    v = torch.randn(shapes["v"])
    arguments = {"q": q.to(dtype), "k": k.to(dtype), "v": v.to(dtype)}
    for entry in signature_of(rule).tensors:
        values = torch.rand(resolve(entry.shape, symbols))
        arguments[entry.name] = -values if entry.role == "log_gate" else 0.1 + 0.4 * values
    return Call(arguments)


def rms(tensor: Tensor) -> float:
    """Root of the mean square, 0 for no entries."""
    return float(tensor.detach().double().norm()) / max(tensor.numel(), 1) ** 0.5


def error(found: Tensor, expected: Tensor, neighbours: float = 0.0) -> float:
    """rms(found - expected) / rms(expected); an rms below 1e-9 counts as that, it is rounding.

    neighbours: the largest rms of the tensors beside it. A reference below 1e-12 of them is terms that
    cancel in float64, as is the gradient of a window's only gate; the size of those terms stands in for it.
    """
    assert found.shape == expected.shape
    difference = (found.detach().double() - expected.detach().double()).norm()
    size = rms(expected)
    scale = max(neighbours if size <= 1e-12 * neighbours else size, 1e-9) * found.numel() ** 0.5
    return float(difference) / scale if found.numel() else 0.0


def close(found: Any, expected: Any, bar: float = 1e-5, neighbours: float = 0.0) -> None:
    """Asserts that two tensors, or two states, agree to the bar of float32; neighbours as in `error`."""
    if isinstance(found, Tensor):
        assert torch.isfinite(found).all()
        assert error(found, expected, neighbours) <= bar
        return
    expected = expected.tensors() if hasattr(expected, "tensors") else flat(expected)
    found = found.tensors()
    assert found.keys() == expected.keys()
    for name, tensor in found.items():
        assert error(tensor, expected[name]) <= bar, name


def flat(state: dict[str, Any]) -> dict[str, Tensor]:
    """A nested state dict under full names."""
    found = {}
    for name, part in state.items():
        inner = part if isinstance(part, dict) else {"": part}
        found.update({f"{name}.{key}" if key else name: tensor for key, tensor in inner.items()})
    return found


def loss_of(y: Tensor, state: Any, seed: int = 1) -> Tensor:
    """A scalar of y and of every tensor of the state, with random cotangents."""
    generator = torch.Generator().manual_seed(seed)

    def weighed(tensor: Tensor) -> Tensor:
        cotangent = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
        return (tensor.double() * cotangent).sum()

    total = weighed(y)
    if state is not None:
        tensors = flat(state) if isinstance(state, dict) else state.tensors()
        for name in sorted(tensors):
            if tensors[name].is_floating_point():
                total = total + weighed(tensors[name])
    return total

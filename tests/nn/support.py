"""Rules and helpers that the tests of the layers share."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree

from atlasgen.nn import MemoryLayer
from atlasgen.spec.rule import (
    Block,
    Gate,
    Input,
    LossTerm,
    Memory,
    MemoryRule,
    Optimizer,
    Read,
    Retention,
    Window,
)

TOKEN = Gate("token")
SHIPPED = (
    "linear_attention",
    "retnet",
    "simple_gla",
    "swla",
    "titans_linear",
    "omeganet_linear",
    "logcosh_omega",
    "gated_deltanet",
    "comba",
    "deltaproduct",
)
# Rules without [layer.gates], so that the layer's own defaults are used; every kind of gate.
OWN = {
    "plain_omega": MemoryRule(
        "plain_omega",
        window=Window(4, TOKEN),
        block=Block(16),
        optimizer=Optimizer("momentum", lr=TOKEN, theta=TOKEN),
        retention=Retention(TOKEN),
    ),
    "every_gate": MemoryRule(
        "every_gate",
        memory=Memory(initial="learned"),
        loss=(LossTerm("huber", per="row", delta="delta"),),
        inputs=(Input("delta", "token", "positive"),),
        window=Window(3, Gate("pair"), normalise="mean", boundary="carry"),
        block=Block(8),
        optimizer=Optimizer("momentum", lr=Gate("head"), theta=Gate("head"), lr_at="gradient"),
        retention=Retention(TOKEN, toward="initial"),
    ),
    "offsets": MemoryRule(
        "offsets",
        loss=(LossTerm("dot"),),
        window=Window(5, Gate("position")),
        optimizer=Optimizer(lr=TOKEN),
        retention=Retention(Gate("head")),
        read=Read(at="pre", scale="K**-0.5"),
    ),
}


def rule_of(name: str) -> MemoryRule | str:
    """A rule of OWN, or the name of a shipped one."""
    return OWN.get(name, name)


def layer_of(name: str, hidden: int = 16, heads: int = 2, **options: Any) -> MemoryLayer:
    """A small layer on the torch backend."""
    return MemoryLayer(rule_of(name), hidden, heads, backend="torch", **options)


def close(found: Any, expected: Any, bar: float = 2e-5) -> None:
    """Asserts that two tensors, or trees of them, agree: rms of the difference over rms expected."""
    left, right = _pytree.tree_leaves(found), _pytree.tree_leaves(expected)
    assert len(left) == len(right)
    for one, other in zip(left, right):
        assert one.shape == other.shape and one.dtype == other.dtype
        difference = (one.detach().double() - other.detach().double()).norm()
        assert float(difference) <= bar * max(float(other.detach().double().norm()), 1e-6)


def gradients(module: torch.nn.Module) -> dict[str, Tensor]:
    """Gradients of all parameters by name; zeros for those without one."""
    return {
        name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
        for name, parameter in module.named_parameters()
    }

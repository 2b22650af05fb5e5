"""How much one step along an inner gradient moves a memory's prediction: its gain.

For a prediction f(M, x) and an error e, a step of size s along the gradient of M changes f by
-s J J^T e, J the derivative of f in all weights. The gain is the size of J J^T: |x|^2 of a matrix memory,
more of a deep one, whose layers move together. Estimated for weights drawn from N(0, 1/in), vectors taken
as random ones of their length.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from atlasgen.reference.expressions import NORM_EPSILON
from atlasgen.reference.memories import ACTIVATIONS, apply_link
from atlasgen.spec.expression import interpret, parse_tree
from atlasgen.spec.rule import Link, Memory
from atlasgen.spec.shapes import extent, weight_expressions

_REACH, _POINTS = 6.0, 121  # of the sums that stand for means over a normal distribution


@dataclass(frozen=True)
class _Vector:
    """A vector of the memory: its size, its squared length, and the gain of all weights behind it."""

    size: float
    length: float
    gain: float = 0.0

    @property
    def variance(self) -> float:
        """The mean square of an entry."""
        return self.length / self.size

    def _sum(self, other: Any) -> _Vector:
        if isinstance(other, (int, float)):
            return _Vector(self.size, self.length + other**2 * self.size, self.gain)
        return _Vector(self.size, self.length + other.length, self.gain + other.gain)

    def _product(self, other: Any) -> _Vector:
        if isinstance(other, (int, float)):
            return _Vector(self.size, self.length * other**2, self.gain * other**2)
        length = self.size * self.variance * other.variance
        gain = self.gain * other.variance + other.gain * self.variance
        # The largest entries of a factor count where its gain is one direction's.
        return _Vector(self.size, length, 2 * gain)

    def __truediv__(self, other: float) -> _Vector:
        return self._product(1 / other)

    def __neg__(self) -> _Vector:
        return self

    __add__ = __sub__ = __radd__ = __rsub__ = _sum
    __mul__ = __rmul__ = _product


@dataclass(frozen=True)
class _Layer:
    """A weight matrix, with or without a bias; what it multiplies by is a link's map of it."""

    inputs: int
    outputs: int
    bias: bool = False
    link: Link = Link()

    def __matmul__(self, x: _Vector) -> _Vector:
        seen = _seen(self.link, self.inputs, self.outputs)
        length = x.length * self.outputs / self.inputs * seen.square
        return _Vector(self.outputs, length, seen.slope * x.length + self.bias + seen.largest * x.gain)


@dataclass(frozen=True)
class _Seen:
    """What a link makes of a weight: mean square of an entry and largest singular value, squared, beside
    those of the weight; slope: the square of its derivative."""

    square: float
    largest: float
    slope: float


@functools.lru_cache(maxsize=256)
def _seen(link: Link, inputs: int, outputs: int) -> _Seen:
    if link.kind == "none":
        return _Seen(1.0, (1 + math.sqrt(outputs / inputs)) ** 2, 1.0)
    generator = torch.Generator().manual_seed(0)
    weight, direction = (
        torch.randn(1, 1, inputs, outputs, generator=generator, dtype=torch.float64, device="cpu")
        for _ in range(2)
    )
    with torch.enable_grad():
        weight = (weight * initial_scale(link, inputs)).requires_grad_()
        value = apply_link(link, {"M": weight})["M"]
        (pulled,) = torch.autograd.grad((value * direction).sum(), weight, allow_unused=True)
    slope = 0.0 if pulled is None else float(pulled.square().mean())
    value = value.detach()[0, 0]
    return _Seen(float(value.square().mean()) * inputs, float(torch.linalg.matrix_norm(value, 2)) ** 2, slope)


def initial_scale(link: Link, inputs: int) -> float:
    """The deviation of a weight's entries at the start: 1/sqrt(in), but one of a softmax's logits.

    Smaller logits give every output the same mean of its inputs, and a norm magnifies what differs.
    """
    return 1.0 if link.kind == "softmax" else inputs**-0.5


def memory_gain(memory: Memory, sizes: Mapping[str, int], length: float) -> float:
    """The gain at features of squared length `length`; sizes: K, F and V."""
    shapes = weight_expressions(memory)
    layers = {
        name: _Layer(*(extent(size).at(sizes) for size in shape), _bias(name) in shapes, memory.link)  # type: ignore[arg-type]
        for name, shape in shapes.items()
        if len(shape) == 2
    }
    functions: dict[str, Callable[[_Vector], _Vector]] = {
        name: functools.partial(_activated, name) for name in ACTIVATIONS
    }
    functions |= {"layer_norm": _normed, "rms_norm": _normed}
    tree = parse_tree(
        _formula(memory), ["x", *layers], dict.fromkeys(functions, 1), field="memory.f", matrix_product=True
    )
    out = interpret(tree, {"x": _Vector(sizes["F"], length), **layers}, functions)
    return (out if memory.norm == "none" else _normed(out)).gain


def _formula(memory: Memory) -> str:
    """f(M, x) as a formula over the weights, biases apart."""
    act = "silu" if memory.kind == "swiglu" else memory.act
    if memory.kind == "graph":
        assert memory.f is not None
        return memory.f
    if memory.kind == "matrix":
        return "M @ x"
    if memory.kind == "mlp":
        text = "W1 @ x"
        for layer in range(2, memory.depth + 1):
            text = f"W{layer} @ {act}({text})"
        return text
    return f"W1 @ ({act}(W2 @ x) * (W3 @ x))"


def _bias(weight: str) -> str:
    return "b" if weight == "M" else weight.replace("W", "b")


def _activated(name: str, x: _Vector) -> _Vector:
    square, slope = _means(name, math.sqrt(x.variance))
    return _Vector(x.size, x.size * square, x.gain * slope)


@functools.lru_cache(maxsize=256)
def _means(name: str, deviation: float) -> tuple[float, float]:
    """Means of s(z)^2 and s'(z)^2 for z of this standard deviation."""
    points = torch.linspace(-_REACH, _REACH, _POINTS, dtype=torch.float64, device="cpu")
    weights = torch.softmax(-points.square() / 2, 0)
    with torch.enable_grad():
        z = (points * deviation).requires_grad_()
        values = ACTIVATIONS[name](z)
        (slopes,) = torch.autograd.grad(values.sum(), z)
    return float(weights @ values.detach().square()), float(weights @ slopes.square())


def _normed(x: _Vector) -> _Vector:
    return _Vector(x.size, x.size, x.gain / (x.variance + NORM_EPSILON))

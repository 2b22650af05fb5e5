"""Memories f(M, x) of the reference, as functions of a dict of weights.

Weights are stored [B, H, in, out] (biases [B, H, out]); inputs are rows [B, H, N, F], outputs [B,
H, N, V].
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from atlasgen.reference.expressions import evaluate, normed
from atlasgen.spec.expression import interpret, parse_tree
from atlasgen.spec.rule import Link, Memory

Weights = Mapping[str, Tensor]

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "silu": functional.silu,
    "relu": torch.relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "softplus": functional.softplus,
    "sin": torch.sin,
    "exp": torch.exp,
    "identity": lambda x: x,
}


def _affine(weights: Weights, layer: str, x: Tensor) -> Tensor:
    out = x @ weights[f"W{layer}"]
    return out + weights[f"b{layer}"].unsqueeze(-2) if f"b{layer}" in weights else out


def _matrix(memory: Memory, weights: Weights, x: Tensor) -> Tensor:
    out = x @ weights["M"]
    return out + weights["b"].unsqueeze(-2) if memory.bias else out


def _mlp(memory: Memory, weights: Weights, x: Tensor) -> Tensor:
    """W_depth s(... s(W_1 x))."""
    for layer in range(1, memory.depth + 1):
        x = _affine(weights, str(layer), x)
        if layer < memory.depth:
            x = ACTIVATIONS[memory.act](x)
    return x


def _gated(memory: Memory, weights: Weights, x: Tensor) -> Tensor:
    """W1 (s(W2 x) * W3 x): the paper's Eq. 43 without its residual; swiglu takes s = silu."""
    act = ACTIVATIONS["silu" if memory.kind == "swiglu" else memory.act]
    hidden = act(_affine(weights, "2", x)) * _affine(weights, "3", x)
    return _affine(weights, "1", hidden)


@dataclass(frozen=True)
class _Applied:
    """A weight of a formula: `W @ x` on columns is x @ W on rows, with W stored [in, out]."""

    weight: Tensor

    def __matmul__(self, x: Tensor) -> Tensor:
        return x @ self.weight


_GRAPH_FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    **ACTIVATIONS,
    "layer_norm": functools.partial(normed, "layer"),
    "rms_norm": functools.partial(normed, "rms"),
}


@functools.lru_cache(maxsize=64)
def _formula(text: str, names: tuple[str, ...]) -> ast.expr:
    counts = dict.fromkeys(_GRAPH_FUNCTIONS, 1)
    return parse_tree(text, ["x", *names], counts, field="memory.f", matrix_product=True)


def _graph(memory: Memory, weights: Weights, x: Tensor) -> Tensor:
    assert memory.f is not None
    names = tuple(name for name, _ in memory.weights)
    values = {name: _Applied(weights[name]) for name in names}
    return interpret(_formula(memory.f, names), {"x": x, **values}, _GRAPH_FUNCTIONS)


_FORWARD: dict[str, Callable[[Memory, Weights, Tensor], Tensor]] = {
    "matrix": _matrix,
    "mlp": _mlp,
    "gated_mlp": _gated,
    "swiglu": _gated,
    "graph": _graph,
}


@dataclass(frozen=True)
class Norm:
    """The norm of a memory's output rows [B, H, N, V], with gain and bias [H, V] or without."""

    kind: str
    gain: Tensor | None = None
    bias: Tensor | None = None

    def __call__(self, z: Tensor) -> Tensor:
        """norm(z) * gain + bias."""
        out = normed(self.kind, z)
        if self.gain is not None:
            out = out * self.gain.unsqueeze(-2)
        return out if self.bias is None else out + self.bias.unsqueeze(-2)


def memory_output(memory: Memory, weights: Weights, x: Tensor) -> Tensor:
    """z: the memory's output [B, H, N, V] for rows x [B, H, N, F], before its norm and residual."""
    return _FORWARD[memory.kind](memory, weights, x)


def read_memory(memory: Memory, weights: Weights, x: Tensor, raw: Tensor, norm: Norm) -> Tensor:
    """f(M, x) with the memory's norm and residual.

    x: [B, H, N, F], the features; raw: [B, H, N, K], what the features were made of (residual
    "key"); norm: used where the memory has one. Returns [B, H, N, V].
    """
    out = memory_output(memory, weights, x)
    if memory.norm != "none":
        out = norm(out)
    if memory.residual == "none":
        return out
    return out + (x if memory.residual == "x" else raw)


def _linked(link: Link, weight: Tensor) -> Tensor:
    """The map of one matrix [B, H, in, out]; axis "row" runs over the input dimension."""
    axis = -2 if link.axis == "row" else -1
    if link.kind == "softmax":
        return link.total * torch.softmax(weight, axis)
    if link.kind == "qnorm":
        norm = weight.abs().pow(link.q).sum((-2, -1), keepdim=True)
        positive = norm > 0
        norm = torch.where(positive, norm, 1.0) ** (1 / link.q)
        return torch.where(positive, weight / norm ** (link.q - 2), weight)
    assert link.expression is not None
    return evaluate(link.expression, {"A": weight}).expand(weight.shape)


def apply_link(link: Link, weights: Weights) -> Weights:
    """link(M): what predictions and reads see. One-dimensional weights pass unchanged."""
    if link.kind == "none":
        return weights
    return {name: _linked(link, weight) if weight.ndim == 4 else weight for name, weight in weights.items()}

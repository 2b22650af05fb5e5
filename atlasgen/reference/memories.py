"""Memories f(M, x) of the reference, as functions of a dict of weights.

Weights are stored [B, H, in, out] (biases [B, H, out]); inputs are rows [B, H, N, F], outputs [B,
H, N, V].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn import functional

from atlasgen.reference.expressions import evaluate
from atlasgen.spec.rule import Link, Memory

Weights = Mapping[str, Tensor]

NORM_EPSILON = 1e-6
"""Added to the variance (layer) or mean square (rms) of a memory's output before the root."""

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "silu": functional.silu,
    "relu": torch.relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "identity": lambda x: x,
}


def _affine(weights: Weights, name: str, bias: str, x: Tensor) -> Tensor:
    out = x @ weights[name]
    return out + weights[bias].unsqueeze(-2) if bias in weights else out


def _matrix(memory: Memory, weights: Weights, x: Tensor) -> Tensor:
    return _affine(weights, "M", "bias", x)


def _mlp(memory: Memory, weights: Weights, x: Tensor) -> Tensor:
    """W_depth s(... s(W_1 x)): weights W1, W2, ... and biases b1, b2, ..."""
    for layer in range(1, memory.depth + 1):
        x = _affine(weights, f"W{layer}", f"b{layer}", x)
        if layer < memory.depth:
            x = ACTIVATIONS[memory.act](x)
    return x


def _gated_mlp(memory: Memory, weights: Weights, x: Tensor) -> Tensor:
    """W1 (s(W2 x) * W3 x), the paper's Eq. 43 without its residual."""
    return (ACTIVATIONS[memory.act](x @ weights["W2"]) * (x @ weights["W3"])) @ weights["W1"]


def _swiglu(memory: Memory, weights: Weights, x: Tensor) -> Tensor:
    """W1 (silu(W0 x) * W2 x)."""
    return (functional.silu(x @ weights["W0"]) * (x @ weights["W2"])) @ weights["W1"]


_FORWARD: dict[str, Callable[[Memory, Weights, Tensor], Tensor]] = {
    "matrix": _matrix,
    "mlp": _mlp,
    "gated_mlp": _gated_mlp,
    "swiglu": _swiglu,
}


def weight_names(memory: Memory) -> tuple[str, ...]:
    """The names of a memory's weights, in the order of its forward pass."""
    if memory.kind == "matrix":
        return ("M", "bias") if memory.bias else ("M",)
    if memory.kind == "mlp":
        layers = range(1, memory.depth + 1)
        biases = [f"b{layer}" for layer in layers] if memory.bias else []
        return tuple([f"W{layer}" for layer in layers] + biases)
    return ("W2", "W3", "W1") if memory.kind == "gated_mlp" else ("W0", "W2", "W1")


def _norm(kind: str, x: Tensor) -> Tensor:
    if kind == "layer":
        x = x - x.mean(-1, keepdim=True)
    return x * (x.square().mean(-1, keepdim=True) + NORM_EPSILON).rsqrt()


def read_memory(memory: Memory, weights: Weights, x: Tensor, raw: Tensor) -> Tensor:
    """f(M, x) with the memory's norm and residual.

    x: [B, H, N, F], the features; raw: [B, H, N, K], what the features were made of (residual
    "key"). Returns [B, H, N, V].
    """
    out = _FORWARD[memory.kind](memory, weights, x)
    if memory.norm != "none":
        out = _norm(memory.norm, out)
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
    return {
        name: _linked(link, weight) if weight.ndim == 4 else weight
        for name, weight in weights.items()
    }

"""Rule expressions evaluated on tensors, straight from their checked syntax trees.

No symbolic algebra takes part: what the compiler derives with sympy is compared with torch here.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from atlasgen.spec.expression import (
    ELEMENTWISE_FUNCTIONS,
    evaluate_number,
    interpret,
    parse_tree,
)

NORM_EPSILON = 1e-6
"""Added to the variance (layer) or mean square (rms) of a memory's output before the root."""


def normed(kind: str, x: Tensor) -> Tensor:
    """Layer ("layer") or root mean square ("rms") norm over the last dimension, without gains."""
    if kind == "layer":
        x = x - x.mean(-1, keepdim=True)
    return x * (x.square().mean(-1, keepdim=True) + NORM_EPSILON).rsqrt()


def _functions(like: Tensor) -> dict[str, Callable[..., Any]]:
    """The torch meaning of every elementwise function; numbers become tensors like `like`."""

    def lifted(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def call(*arguments: Any) -> Tensor:
            tensors = [torch.as_tensor(a, device=like.device) for a in arguments]
            return function(*[a if a.dtype == torch.bool else a.to(like.dtype) for a in tensors])

        return call

    table: dict[str, Callable[..., Tensor]] = {
        "exp": torch.exp,
        "log": torch.log,
        "sqrt": torch.sqrt,
        "tanh": torch.tanh,
        "sigmoid": torch.sigmoid,
        "relu": torch.relu,
        "silu": functional.silu,
        "gelu": functional.gelu,
        "softplus": functional.softplus,
        "abs": torch.abs,
        "sign": torch.sign,
        "sinh": torch.sinh,
        "cosh": torch.cosh,
        "sin": torch.sin,
        "cos": torch.cos,
        "erf": torch.erf,
        "min": torch.minimum,
        "max": torch.maximum,
        "where": torch.where,
    }
    return {name: lifted(function) for name, function in table.items()}


@functools.lru_cache(maxsize=256)
def _tree(text: str, names: tuple[str, ...]) -> ast.expr:
    return parse_tree(text, names, ELEMENTWISE_FUNCTIONS)


def evaluate(text: str, values: Mapping[str, Tensor]) -> Tensor:
    """The value of an elementwise expression.

    text: as the rule holds it; values: one tensor for each name, broadcasting together and of one
    dtype. Returns a tensor of that dtype (a scalar where the text names nothing). Raises SpecError
    for a text outside the grammar.
    """
    like = next(iter(values.values()))
    tree = _tree(text, tuple(sorted(values)))
    result = interpret(tree, values, _functions(like))
    return torch.as_tensor(result, dtype=like.dtype, device=like.device)


def evaluate_read(text: str, z: Tensor, q: Tensor, norm: Callable[[Tensor], Tensor]) -> Tensor:
    """The rule's own read: z the memory's output before norm and residual, q the raw query."""
    counts = {**ELEMENTWISE_FUNCTIONS, "norm": 1}
    tree = parse_tree(text, ["z", "q"], counts, field="read.f")
    return interpret(tree, {"z": z, "q": q}, {**_functions(z), "norm": norm})


def head_values(text: str, heads: Tensor) -> Tensor:
    """An expression in `head` at each of `heads` [H]; returns [H] in their dtype."""
    numbers = [evaluate_number(text, {"head": head}) for head in heads.tolist()]
    return torch.tensor(numbers, dtype=heads.dtype, device=heads.device)

"""Feature maps as nodes over the feature axis."""

from __future__ import annotations

import sympy

from atlasgen.ir import build
from atlasgen.ir.node import Node
from atlasgen.ir.scalar import inverse_root, placeholder
from atlasgen.spec.expression import parse_expression, sigmoid, symbol
from atlasgen.spec.rule import Features

ELEMENTWISE = ("relu", "silu", "elu1", "expr")


def elementwise_feature(features: Features) -> sympy.Expr:
    """phi as a scalar expression in x0, for the kinds in `ELEMENTWISE`."""
    x = placeholder(0)
    if features.kind == "relu":
        return sympy.Piecewise((x, x > 0), (0, True))
    if features.kind == "silu":
        return x * sigmoid(x)
    if features.kind == "elu1":
        # exp(min(x, 0)) keeps the branch that is not taken finite.
        return sympy.Piecewise((x + 1, x > 0), (sympy.exp(sympy.Min(x, 0)), True))
    expression = parse_expression(features.expression or "", ("x",), field="features.expression")
    return expression.subs(symbol("x"), x)


def apply_features(features: Features, x: Node, side: str) -> Node:
    """phi(x) for a [rows, K] node; `side` is "q" or "k"."""
    if features.on not in ("qk", side) or features.kind == "identity":
        return x
    if features.kind in ELEMENTWISE:
        return build.map_(elementwise_feature(features), x)
    if features.kind == "l2norm":
        square = build.sum_(build.mul(x, x), "K")
        return build.mul(x, build.map_(inverse_root(placeholder(0)), square))
    if features.kind == "softmax":
        return build.softmax(x, "K")
    raise ValueError(f"features.kind {features.kind!r} has no finite elementwise form")

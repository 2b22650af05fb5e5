"""Feature maps as nodes over the feature axis."""

from __future__ import annotations

import math
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Featured:
    """phi(x) as a node [rows, F], and for polynomial features what makes products of two of them cheap.

    raw: x [rows, K], or None where F = K. coefficients: a_p by degree: phi(q) . phi(k) = sum a_p (q . k)^p.
    """

    node: Node
    raw: Node | None = None
    coefficients: tuple[Node, ...] = ()
    degrees: tuple[int, ...] = ()


def feature_axis(features: Features) -> str:
    """The axis of phi(x): "K" where the map keeps the number of entries, else "F"."""
    return "F" if features.kind == "poly" and features.basis != "powers" else "K"


def similarity(left: Featured, right: Featured, axis: str) -> Node:
    """phi(q) . phi(k) for all pairs of rows: a polynomial in q . k, or a product over `axis`."""
    if left.raw is None or right.raw is None:
        return build.dot(left.node, right.node, axis)
    score = build.dot(left.raw, right.raw, "K")
    terms = [placeholder(i + 1) * placeholder(0) ** degree for i, degree in enumerate(left.degrees)]
    return build.map_(sympy.Add(*terms), score, *left.coefficients)


def _coefficients(features: Features) -> list[tuple[int, Node]]:
    """(degree, a_p) of the degrees that a polynomial map uses."""
    if features.coefficients == "learned":
        return [
            (degree, build.leaf("coefficients", (), kind="head", index=degree))
            for degree in range(features.degree + 1)
        ]
    given = features.coefficients
    if given == "taylor":
        given = tuple(1 / math.factorial(degree) for degree in range(features.degree + 1))
    return [(degree, build.const(value)) for degree, value in enumerate(given) if value != 0]


def _polynomial(features: Features, x: Node) -> Featured:
    used = _coefficients(features)
    degrees, coefficients = tuple(d for d, _ in used), tuple(c for _, c in used)
    if features.basis == "powers":
        powers = [placeholder(i + 1) * placeholder(0) ** degree for i, degree in enumerate(degrees)]
        return Featured(build.map_(sympy.Add(*powers), x, *coefficients))
    node = build.polynomial(x, coefficients, degrees, features.basis)
    return Featured(node, x, coefficients, degrees)


def apply_features(features: Features, x: Node, side: str) -> Featured:
    """phi(x) for a [rows, K] node; `side` is "q" or "k"."""
    if features.on not in ("qk", side) or features.kind == "identity":
        return Featured(x)
    if features.kind == "poly":
        return _polynomial(features, x)
    if features.kind in ELEMENTWISE:
        return Featured(build.map_(elementwise_feature(features), x))
    if features.kind == "l2norm":
        square = build.sum_(build.mul(x, x), "K")
        return Featured(build.mul(x, build.map_(inverse_root(placeholder(0)), square)))
    if features.kind == "softmax":
        return Featured(build.softmax(x, "K"))
    raise ValueError(f"features.kind {features.kind!r} has no finite elementwise form")

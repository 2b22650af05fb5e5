"""Rewrites that keep derived expressions finite where their textbook form overflows."""

from __future__ import annotations

import sympy

from atlasgen.spec.expression import sigmoid


def tidy(expression: sympy.Expr) -> sympy.Expr:
    """Write hyperbolic quotients as tanh and logistic quotients as sigmoid."""
    if expression.has(sympy.DiracDelta):
        expression = expression.replace(sympy.DiracDelta, lambda *_: sympy.Integer(0))
    if expression.has(sympy.Heaviside):  # the slope of min and max
        expression = expression.replace(sympy.Heaviside, lambda x, *_: sympy.Piecewise((1, x > 0), (0, True)))
    x = sympy.Wild("x")
    if expression.has(sympy.sinh, sympy.cosh):
        expression = sympy.simplify(expression)
        expression = expression.replace(sympy.sinh(x) / sympy.cosh(x), sympy.tanh(x))
    if expression.has(sympy.exp):
        expression = expression.replace(1 / (1 + sympy.exp(-x)), sigmoid(x))
        expression = expression.replace(sympy.exp(x) / (1 + sympy.exp(x)), sigmoid(x))
    return expression

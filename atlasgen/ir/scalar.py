"""Scalar expressions of elementwise nodes: sympy trees over placeholders x0, x1, ...

Some functions are ours because sympy's derivative of the plain form is not what a kernel may compute: `root`
is the square root whose derivative at zero is zero; sigmoid, softplus and logcosh (of the spec language)
stay finite for any argument.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import sympy


class root(sympy.Function):  # noqa: N801 - printed as a function
    """sqrt(x) for x >= 0 with derivative 0 at x = 0."""

    nargs = 1

    @classmethod
    def eval(cls, x: sympy.Expr) -> sympy.Expr | None:
        return sympy.S.Zero if x.is_zero else None

    def fdiff(self, argindex: int = 1) -> sympy.Expr:
        return inverse_root(self.args[0]) / 2

    def _eval_evalf(self, prec: int) -> sympy.Expr:
        return sympy.sqrt(self.args[0])._eval_evalf(prec)

    def _eval_is_real(self) -> bool:
        return True


class inverse_root(sympy.Function):  # noqa: N801
    """x**-0.5 for x > 0, and 0 at x = 0."""

    nargs = 1

    @classmethod
    def eval(cls, x: sympy.Expr) -> sympy.Expr | None:
        return sympy.S.Zero if x.is_zero else None

    def fdiff(self, argindex: int = 1) -> sympy.Expr:
        return -(inverse_root(self.args[0]) ** 3) / 2

    def _eval_evalf(self, prec: int) -> sympy.Expr:
        return (1 / sympy.sqrt(self.args[0]))._eval_evalf(prec)

    def _eval_is_real(self) -> bool:
        return True


class power(sympy.Function):  # noqa: N801
    """|x|**a, and 0 at x = 0 for any a; derivative a * signed_power(x, a - 1)."""

    nargs = 2

    @classmethod
    def eval(cls, x: sympy.Expr, exponent: sympy.Expr) -> sympy.Expr | None:
        return sympy.Integer(0) if x.is_zero else None

    def fdiff(self, argindex: int = 1) -> sympy.Expr:
        x, exponent = self.args
        return exponent * signed_power(x, exponent - 1)

    def _eval_is_real(self) -> bool:
        return True


class signed_power(sympy.Function):  # noqa: N801
    """sign(x) |x|**a, and 0 at x = 0 for any a; derivative a * power(x, a - 1)."""

    nargs = 2

    @classmethod
    def eval(cls, x: sympy.Expr, exponent: sympy.Expr) -> sympy.Expr | None:
        return sympy.Integer(0) if x.is_zero else None

    def fdiff(self, argindex: int = 1) -> sympy.Expr:
        x, exponent = self.args
        return exponent * power(x, exponent - 1)

    def _eval_is_real(self) -> bool:
        return True


@cache
def placeholder(index: int) -> sympy.Symbol:
    """The symbol that stands for argument `index` of an elementwise node."""
    return sympy.Symbol(f"x{index}", real=True)


@cache
def derivative(expression: sympy.Expr, index: int) -> sympy.Expr:
    """d expression / d x_index; kinks get the value of the flat side (no Dirac terms)."""
    result = sympy.diff(expression, placeholder(index))
    if result.has(sympy.DiracDelta):
        result = result.replace(sympy.DiracDelta, lambda *_: sympy.Integer(0))
    if result.has(sympy.Heaviside):
        result = result.replace(sympy.Heaviside, lambda x, *_: sympy.Piecewise((1, x > 0), (0, True)))
    if result.has(sympy.Derivative) or result.has(sympy.Subs):
        raise ValueError(f"cannot differentiate {expression}")
    return result


def vanishes(expression: sympy.Expr, zero: list[int]) -> bool:
    """True if the expression is 0 wherever the arguments `zero` are 0 (padding stays padding)."""
    value = expression.subs({placeholder(index): 0 for index in zero})
    return bool(value.is_zero) or value == 0


def finite_at_zero(expression: sympy.Expr, zero: list[int]) -> bool:
    """True if the expression and its derivatives are finite where the arguments `zero` are 0."""
    point = {placeholder(index): 0 for index in zero}
    parts = [expression, *(derivative(expression, index) for index in arity(expression))]
    bad = (sympy.nan, sympy.zoo, sympy.oo, -sympy.oo)
    return not any(part.subs(point).has(*bad) for part in parts)


def arity(expression: sympy.Expr) -> set[int]:
    """The indices of the placeholders that occur."""
    return {int(str(symbol)[1:]) for symbol in expression.free_symbols}


def shift(expression: sympy.Expr, mapping: dict[int, int]) -> sympy.Expr:
    """Renumber placeholders."""
    return expression.xreplace({placeholder(old): placeholder(new) for old, new in mapping.items()})


def constant(value: Any) -> sympy.Expr:
    """A number as a sympy number: integers stay exact."""
    return sympy.Integer(int(value)) if float(value).is_integer() else sympy.Float(value)

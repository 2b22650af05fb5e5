"""From an inner loss to its error e = dl/dpred, by sympy."""

from __future__ import annotations

from dataclasses import dataclass

import sympy

from atlasgen.derive.simplify import tidy
from atlasgen.ir.scalar import inverse_root, placeholder, power, root, signed_power
from atlasgen.spec.expression import parse_expression, symbol
from atlasgen.spec.rule import LossTerm, MemoryRule


@dataclass(frozen=True)
class ErrorForm:
    """The error of one loss term.

    kind "target": e = -v (linear in pred). kind "element": e = expression(pred, v, inputs...) with
    placeholders in that order. kind "row": e = expression(n2, inputs...) * (pred - v), n2 the squared norm
    of pred - v over V. `inputs` names the rule's inputs that the expression takes.
    """

    kind: str
    expression: sympy.Expr
    inputs: tuple[str, ...] = ()


def error_form(rule: MemoryRule, term: LossTerm) -> ErrorForm:
    """The error of a loss term, each derived from the loss itself."""
    if term.kind == "dot":
        return ErrorForm("target", sympy.Integer(-1))
    inputs = tuple(entry.name for entry in rule.inputs)
    symbols = {name: symbol(name) for name in inputs}
    if term.per == "row" and term.kind != "l2":
        norm = sympy.Symbol("norm", positive=True)
        loss = _row_loss(term, norm, symbols)
        expression = _of_square(_row_slope(loss, norm), norm, placeholder(0))
        return _with_inputs("row", expression, inputs, symbols, 1)
    pred, v = symbol("pred"), symbol("v")
    difference = symbol("difference")
    if term.kind == "expr":
        loss = parse_expression(term.expression or "", ("pred", "v", *inputs), field="loss.expression")
        expression = tidy(sympy.diff(loss, pred))
    else:
        error = _element_error(term, difference, symbols)
        expression = error.subs(difference, pred - v)
    expression = expression.subs({pred: placeholder(0), v: placeholder(1)})
    return _with_inputs("element", expression, inputs, symbols, 2)


def error_slope(rule: MemoryRule, term: LossTerm) -> tuple[sympy.Expr, tuple[str, ...]] | None:
    """d error / d pred where it is one number per token, in inputs named with it; None where it is not.

    A number that differs by value channel would make another linear system for each channel.
    """
    form = error_form(rule, term)
    if form.kind == "target":
        return sympy.Integer(0), ()
    if form.kind != "element":
        return None
    slope = sympy.simplify(sympy.diff(form.expression, placeholder(0)))
    if slope.free_symbols & {placeholder(0), placeholder(1)}:
        return None
    rest = sympy.simplify(form.expression - slope * placeholder(0))
    if placeholder(0) in rest.free_symbols:  # a step: its slope is a number, but it sees the memory
        return None
    shifted = {placeholder(index + 2): placeholder(index) for index in range(len(form.inputs))}
    return slope.xreplace(shifted), form.inputs


def coupled_terms(rule: MemoryRule) -> list[LossTerm]:
    """The terms whose errors see the memory: all but those of slope zero in pred."""
    slopes = {term: error_slope(rule, term) for term in rule.loss}
    return [term for term, slope in slopes.items() if slope is None or slope[0] != 0]


def _with_inputs(
    kind: str,
    expression: sympy.Expr,
    inputs: tuple[str, ...],
    symbols: dict[str, sympy.Symbol],
    first: int,
) -> ErrorForm:
    used = tuple(name for name in inputs if symbols[name] in expression.free_symbols)
    renamed = {symbols[name]: placeholder(first + index) for index, name in enumerate(used)}
    return ErrorForm(kind, expression.subs(renamed), used)


def _threshold(term: LossTerm, symbols: dict[str, sympy.Symbol]) -> sympy.Expr:
    return symbols[term.delta] if isinstance(term.delta, str) else sympy.Float(term.delta)


def _element_error(term: LossTerm, difference: sympy.Symbol, symbols: dict[str, sympy.Symbol]) -> sympy.Expr:
    """dl/d(pred - v) of the named losses; kinks as the grammar says (exact sign, 0 at 0)."""
    if term.kind == "l2":
        return difference
    if term.kind == "huber":
        delta = _threshold(term, symbols)
        return sympy.Piecewise(
            (difference, sympy.Abs(difference) <= delta), (delta * sympy.sign(difference), True)
        )
    if term.kind == "lp" and term.eps > 0:
        smooth = difference**2 + sympy.Float(term.eps)
        return difference * smooth ** sympy.Float((term.p - 2) / 2)
    if term.p == 2:
        return difference
    exponent = sympy.nsimplify(term.p)
    if exponent.is_Integer:
        return sympy.Abs(difference) ** (exponent - 2) * difference
    return signed_power(difference, exponent - 1)


def _row_slope(loss: sympy.Expr, norm: sympy.Symbol) -> sympy.Expr:
    """l'(norm) / norm, divided inside each case and each term, where most of them cancel the norm."""
    if isinstance(loss, sympy.Piecewise):
        cases = [(_row_slope(value, norm), condition) for value, condition in loss.args]
        return sympy.Piecewise(*cases, evaluate=False)
    if isinstance(loss, sympy.Add):
        return sympy.Add(*(_row_slope(part, norm) for part in loss.args))
    factor, rest = loss.as_independent(norm, as_Add=False)
    if factor != 1 and rest != loss:
        return factor * _row_slope(rest, norm)
    return tidy(sympy.expand_mul(sympy.diff(loss, norm) / norm))


def _of_square(slope: sympy.Expr, norm: sympy.Symbol, square: sympy.Symbol) -> sympy.Expr:
    """A slope in the norm as one in its square, finite at 0 with its derivative wherever it can be."""

    def converted(exponent: sympy.Expr) -> sympy.Expr:
        if not exponent.is_Integer:
            return power(square, exponent / 2)
        if exponent < 0:
            return inverse_root(square) ** -exponent
        return square ** (exponent / 2) if exponent % 2 == 0 else root(square) ** exponent

    powers = {
        entry: converted(entry.exp)
        for entry in slope.atoms(sympy.Pow)
        if entry.base == norm and entry.exp.is_number
    }
    return slope.xreplace(powers).subs(norm, root(square))


def _row_loss(term: LossTerm, norm: sympy.Symbol, symbols: dict[str, sympy.Symbol]) -> sympy.Expr:
    if term.kind == "huber":
        delta = _threshold(term, symbols)
        return sympy.Piecewise((norm**2 / 2, norm <= delta), (delta * (norm - delta / 2), True))
    if term.kind == "lp":
        exponent = sympy.nsimplify(term.p)
        smooth = norm**2 + (sympy.Float(term.eps) if term.eps > 0 else 0)
        return smooth ** (exponent / 2) / exponent
    loss = parse_expression(term.expression or "", ("norm", *symbols), field="loss.expression")
    return loss.subs(symbol("norm"), norm)

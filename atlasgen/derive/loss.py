"""From an inner loss to its error e = dl/dpred, by sympy."""

from __future__ import annotations

from dataclasses import dataclass

import sympy

from atlasgen.derive.simplify import tidy
from atlasgen.ir.scalar import placeholder, root
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
        square = placeholder(0)
        slope = tidy(sympy.diff(loss, norm) / norm)
        expression = tidy(slope.subs(norm, root(square)))
        return _with_inputs("row", expression, inputs, symbols, 1)
    pred, v = symbol("pred"), symbol("v")
    difference = symbol("difference")
    if term.kind == "expr":
        loss = parse_expression(term.expression, ("pred", "v", *inputs), field="loss.expression")
        expression = tidy(sympy.diff(loss, pred))
    else:
        error = _element_error(term, difference, symbols)
        expression = error.subs(difference, pred - v)
    expression = expression.subs({pred: placeholder(0), v: placeholder(1)})
    return _with_inputs("element", expression, inputs, symbols, 2)


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


def _element_error(
    term: LossTerm, difference: sympy.Symbol, symbols: dict[str, sympy.Symbol]
) -> sympy.Expr:
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
    power = sympy.nsimplify(term.p - 1)
    return sympy.Abs(difference) ** (power - 1) * difference


def _row_loss(term: LossTerm, norm: sympy.Symbol, symbols: dict[str, sympy.Symbol]) -> sympy.Expr:
    if term.kind == "huber":
        delta = _threshold(term, symbols)
        return sympy.Piecewise((norm**2 / 2, norm <= delta), (delta * (norm - delta / 2), True))
    if term.kind == "lp":
        smooth = (norm**2 + sympy.Float(term.eps)) if term.eps > 0 else norm**2
        return smooth ** (sympy.nsimplify(term.p) / 2) / sympy.nsimplify(term.p)
    loss = parse_expression(term.expression, ("norm", *symbols), field="loss.expression")
    return loss.subs(symbol("norm"), norm)

"""Links: a memory that is read through a map of the state that the rule moves (MIRAS, arXiv 2504.13173).

    W = link(A)        dl/dA = J^T dl/dW, J the link's derivative at A*

The state A moves linearly; predictions and reads see W. J is the same for all rows that share a point A*, so
the gradient of a sum of rows is J^T of their sum of outer products, one matrix per token: the link's own
derivative, applied to a matrix with a row axis.
"""

from __future__ import annotations

import sympy

from atlasgen.derive.memory import Weight
from atlasgen.ir import build
from atlasgen.ir.differentiate import backpropagate
from atlasgen.ir.node import Node
from atlasgen.ir.replace import replaced
from atlasgen.ir.scalar import placeholder, power
from atlasgen.spec.expression import parse_expression, symbol
from atlasgen.spec.rule import Link

x0 = placeholder(0)


def linked(link: Link, weight: Weight, value: Node) -> Node:
    """link(A) of one weight; biases are read as they are.

    Args:
        value: A [in, out], or the values of rows [row, in, out].
    """
    if link.kind == "none" or not weight.is_matrix:
        return value
    rows, columns = weight.axes
    if link.kind == "softmax":
        axis = rows if link.axis == "row" else columns
        return build.mul(build.const(link.total), build.softmax(value, axis))
    if link.kind == "qnorm":
        size = build.map_(power(x0, sympy.Float(link.q)), value)
        total = build.sum_(build.sum_(size, rows), columns)
        exponent = sympy.Float((2 - link.q) / link.q)
        scale = sympy.Piecewise((x0**exponent, x0 > 0), (1, True))
        return build.mul(value, build.map_(scale, total))
    expression = parse_expression(link.expression or "", ("A",), field="memory.link.expression")
    return build.map_(expression.subs(symbol("A"), x0), value)


def pulled(link: Link, weight: Weight, point: Node, gradient: Node) -> Node:
    """J^T gradient, J the link's derivative at `point` [in, out].

    Args:
        gradient: with respect to link(point), [in, out] or one per row [row, in, out].
    """
    if link.kind == "none" or not weight.is_matrix:
        return gradient
    own = build.leaf("point", gradient.dims, kind="invariant")
    reached = backpropagate({linked(link, weight, own): gradient}, (own,))
    return replaced(reached.get(own, build.const(0.0)), {own: point})

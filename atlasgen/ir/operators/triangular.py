"""The inverse of a unit lower triangular matrix between the rows of a block.

It is what errors become that see the errors of the rows before them: E = R - A E, with A strictly lower,
is E = (I + A)^-1 R. The inverse is made by substitution, never as a power series: with repeated keys the
powers of A grow far beyond their sum.
"""

from __future__ import annotations

from atlasgen.ir import build
from atlasgen.ir.node import Node
from atlasgen.ir.operators.base import Operator, TileContext

SPARE = "j"  # an axis of rows that neither reads nor writes


class UnitInverse(Operator):
    """N = (I + A)^-1 of a strictly lower A [row, column]; solutions along `column`, givens along `row`."""

    name = "unit_inverse"

    def derivative(self, node: Node, gradient: Node, index: int) -> Node | None:
        # dA[t, s] = -sum over k, l of N[k, t] dN[k, l] N[s, l]
        row, column = node["row"], node["column"]
        inner = build.magnitude(gradient)
        if inner.op == "dot" and inner["dim"] not in (row, column):
            total = _of_solutions(node, inner)
        else:
            left = build.dot(build.rename(inner, {row: SPARE}), node, column)
            total = build.dot(left, build.rename(node, {row: SPARE}), SPARE)
        total = total if inner is not gradient else build.neg(total)
        return build.mask(total, row, column, 1, None)

    def torch(self, node: Node, args: list[str]) -> str:
        by_row = node.dims == (node["row"], node["column"])
        return f"blocks.unit_inverse({args[0]}, {by_row})"

    def triton(self, node: Node, args: list[str], tile: TileContext) -> str:
        by_row = node.dims == (node["row"], node["column"])
        lower = args[0] if by_row else f"tl.trans({args[0]})"
        inverse = f"unit_inverse({lower})"
        return f"tl.trans({inverse})" if by_row else inverse

    def flops(self, node: Node, extent: dict[str, int]) -> int:
        return extent[node["row"]] ** 3 // 3

    def keeps_zero(self, node: Node, dim: str) -> bool:
        return False  # rows without a token solve E = R


def _of_solutions(node: Node, gradient: Node) -> Node:
    """N^T (dE R^T) N^T = (N^T dE) (N R)^T: products with the narrow factors, which the program has anyway."""
    row, column, dim = node["row"], node["column"], gradient["dim"]
    given, error = gradient.args if row in gradient.args[0].dims else reversed(gradient.args)
    return build.dot(build.dot(error, node, column), build.dot(node, given, row), dim)

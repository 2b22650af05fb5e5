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
        left = build.dot(node, build.rename(gradient, {row: SPARE}), column)
        right = build.rename(node, {row: SPARE})
        return build.mask(build.neg(build.dot(left, right, SPARE)), row, column, 1, None)

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

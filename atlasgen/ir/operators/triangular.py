"""Systems between the rows of a block, unit lower triangular: their inverse, and their solution by channel.

They are what errors become that see the errors of the rows before them: E = R - A E, with A strictly lower,
is E = (I + A)^-1 R. Where the errors of each value channel count by a factor of their own, g [rows, V], no
one inverse serves all channels, and E = R - g (A E) is solved for them together. Both go by substitution,
never by a power series: with repeated keys the powers of A grow far beyond their sum.
"""

from __future__ import annotations

from atlasgen.ir import build
from atlasgen.ir.node import Node
from atlasgen.ir.operators.base import Operator, TileContext, size

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


class UnitSolve(Operator):
    """E [column, V] of E + g (A E) = R; adjoint: D [row, V] of D + A^T (g D) = R. See `build.unit_solve`.

    Arguments: a strictly lower A [row, column], g [row, V], and R, [row, V] or adjoint [column, V].
    """

    name = "unit_solve"

    def derivative(self, node: Node, gradient: Node, index: int) -> Node | None:
        # With D of the other system for dE: dR = D, dA = -(g D) E^T, dg = -D (A E).
        matrix, factor, _ = node.args
        row, column, adjoint = node["row"], node["column"], node["adjoint"]
        found = build.unit_solve(matrix, factor, gradient, row, column, not adjoint)
        if index == 2:
            return found
        by_row, by_column = (node, found) if adjoint else (found, node)
        if index == 1:
            return build.neg(build.mul(by_row, build.dot(matrix, by_column, column)))
        total = build.dot(build.mul(factor, by_row), by_column, "V")
        return build.neg(build.mask(total, row, column, 1, None))

    def torch(self, node: Node, args: list[str]) -> str:
        lower = args[0] if _is_by_row(node) else f"{args[0]}.mT"
        return f"blocks.unit_solve({lower}, {args[1]}, {args[2]}, {node['adjoint']})"

    def triton(self, node: Node, args: list[str], tile: TileContext) -> str:
        lower = args[0] if _is_by_row(node) else f"tl.trans({args[0]})"
        precision = tile.precision(node)
        return f"unit_solve({lower}, {args[1]}, {args[2]}, {node['adjoint']}, {precision})"

    def flops(self, node: Node, extent: dict[str, int]) -> int:
        return extent[node["row"]] * size((node["column"], "V"), extent)

    def keeps_zero(self, node: Node, dim: str) -> bool:
        return dim == "V"


def _is_by_row(node: Node) -> bool:
    return node.args[0].dims == (node["row"], node["column"])


def _of_solutions(node: Node, gradient: Node) -> Node:
    """N^T (dE R^T) N^T = (N^T dE) (N R)^T: products with the narrow factors, which the program has anyway."""
    row, column, dim = node["row"], node["column"], gradient["dim"]
    given, error = gradient.args if row in gradient.args[0].dims else reversed(gradient.args)
    return build.dot(build.dot(error, node, column), build.dot(node, given, row), dim)

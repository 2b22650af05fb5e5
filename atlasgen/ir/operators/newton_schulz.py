"""The Newton-Schulz map of a matrix, or of one matrix per row, and its derivative.

Both are one operator each, not the thirty products that they consist of: so a program holds one value per
map, its derivative computes the iterates again, and a backend may choose the side on which the products are
small, which depends on sizes that are known when a call is made.
"""

from __future__ import annotations

from atlasgen.ir.node import Node
from atlasgen.ir.operators.base import Operator, TileContext, size


def _products(node: Node, extent: dict[str, int]) -> tuple[int, int]:
    """Multiply-adds of the products [m, n] x [n, m] and [m, m] x [m, m], all matrices together."""
    rows, columns = extent[node["rows"]], extent[node["columns"]]
    small, matrices = min(rows, columns), size(node.dims, extent) // (rows * columns)
    return 2 * matrices * small * rows * columns, 2 * matrices * small**3


def _is_wide(node: Node, tile: TileContext) -> str:
    """Text that is true where a matrix has no more rows than columns."""
    return f"{tile.extent(node['rows'])} <= {tile.extent(node['columns'])}"


class NewtonSchulz(Operator):
    """x <- a x + (b A + c A A) x, A = x x^T, from x = S / |S|; a zero matrix stays zero."""

    name = "newton_schulz"

    def derivative(self, node: Node, gradient: Node, index: int) -> Node | None:
        if node["straight"]:
            return gradient
        attrs = {key: node[key] for key in ("rows", "columns", "coefficients")}
        return Node("newton_schulz_gradient", (node.args[0], gradient), node.dims, **attrs)

    def torch(self, node: Node, args: list[str]) -> str:
        return f"blocks.newton_schulz.forward({args[0]}, {node['coefficients']})"

    def triton(self, node: Node, args: list[str], tile: TileContext) -> str:
        return f"newton_schulz({args[0]}, {node['coefficients']}, {_is_wide(node, tile)})"

    def flops(self, node: Node, extent: dict[str, int]) -> int:
        wide, square = _products(node, extent)
        return 2 * wide + (4 * len(node["coefficients"]) - 3) * square


class NewtonSchulzGradient(Operator):
    """The gradient of S from S and the gradient of its Newton-Schulz map."""

    name = "newton_schulz_gradient"

    def derivative(self, node: Node, gradient: Node, index: int) -> Node | None:
        raise NotImplementedError("a block program is differentiated once")

    def torch(self, node: Node, args: list[str]) -> str:
        return f"blocks.newton_schulz.backward({args[0]}, {args[1]}, {node['coefficients']})"

    def triton(self, node: Node, args: list[str], tile: TileContext) -> str:
        return f"newton_schulz_gradient({args[0]}, {args[1]}, {node['coefficients']}, {_is_wide(node, tile)})"

    def flops(self, node: Node, extent: dict[str, int]) -> int:
        wide, square = _products(node, extent)
        return 4 * wide + (12 * len(node["coefficients"]) - 10) * square

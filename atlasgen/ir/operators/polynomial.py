"""Polynomial features, whose number differs from that of the entries they are made of.

Programs for tensors have them as one operator; kernels make them in tiles from single entries (`take`).
phi(x) holds the monomials of some degrees, each times the root of its degree's coefficient and of its number
of orderings, so that phi(q) . phi(k) = sum_p a_p (q . k)^p.
"""

from __future__ import annotations

import sympy

from atlasgen.ir import build
from atlasgen.ir.node import Node
from atlasgen.ir.operators.base import Operator, TileContext, size
from atlasgen.ir.scalar import placeholder

_IN_TILES = "a kernel makes features in tiles: expand them into products of entries first"


class Take(Operator):
    """Entries of x [rows, K] by codes [F]: [rows, F]; i + 1 is entry i, 0 the number 0, -1 the number 1."""

    name = "take"

    def derivative(self, node: Node, gradient: Node, index: int) -> Node | None:
        x, entries = node.args
        (axis,) = entries.dims
        place = build.leaf("place", ("K",), kind="lane")
        same = sympy.Piecewise((1, sympy.Eq(placeholder(0), placeholder(1))), (0, True))
        return build.dot(gradient, build.map_(same, entries, place), axis) if index == 0 else None

    def torch(self, node: Node, args: list[str]) -> str:
        return f"blocks.polynomial.take({args[0]}, {args[1]})"

    def triton(self, node: Node, args: list[str], tile: TileContext) -> str:
        function = "take" if len(node.args[0].dims) > 1 else "take_entries"
        return f"{function}({args[0]}, {args[1]})"

    def keeps_zero(self, node: Node, dim: str) -> bool:
        return dim in node.args[1].dims  # a code 0; a row of zeros has ones where codes are -1


class Polynomial(Operator):
    """phi(x) [rows, F] of x [rows, K] and one coefficient per degree."""

    name = "polynomial"

    def derivative(self, node: Node, gradient: Node, index: int) -> Node | None:
        x, *coefficients = node.args
        attrs = dict(node.attrs)
        if index == 0:
            return Node("polynomial_gradient", (*node.args, gradient), x.dims, **attrs)
        # phi is proportional to the root of the coefficient: d phi / d a = phi / (2 a).
        product = build.mul(gradient, node)
        dims = tuple(dim for dim in product.dims if dim != "F")
        part = Node("degree_sum", (x, product), dims, index=index - 1, **attrs)
        return build.mul(build.map_(1 / (2 * placeholder(0)), coefficients[index - 1]), part)

    def torch(self, node: Node, args: list[str]) -> str:
        return f"blocks.polynomial.features({args[0]}, {_coefficients(args[1:])}, {_form(node)})"

    def triton(self, node: Node, args: list[str], tile: TileContext) -> str:
        raise NotImplementedError(_IN_TILES)

    def flops(self, node: Node, extent: dict[str, int]) -> int:
        return size(node.dims, extent) * (max(node["degrees"]) + 1)

    def keeps_zero(self, node: Node, dim: str) -> bool:
        return False  # degree 0 is one everywhere, degree 1 has a slope at zero


class PolynomialGradient(Operator):
    """The gradient of x from x, the coefficients and the gradient of phi(x)."""

    name = "polynomial_gradient"

    def derivative(self, node: Node, gradient: Node, index: int) -> Node | None:
        raise NotImplementedError("a block program is differentiated once")

    def torch(self, node: Node, args: list[str]) -> str:
        x, *coefficients, gradient = args
        return f"blocks.polynomial.gradient({x}, {_coefficients(coefficients)}, {gradient}, {_form(node)})"

    def triton(self, node: Node, args: list[str], tile: TileContext) -> str:
        raise NotImplementedError(_IN_TILES)

    def flops(self, node: Node, extent: dict[str, int]) -> int:
        degree = max(node["degrees"])
        return size(node.args[-1].dims, extent) * degree * (degree + 1)

    def keeps_zero(self, node: Node, dim: str) -> bool:
        return False  # degree 0 is one everywhere, degree 1 has a slope at zero


class DegreeSum(Operator):
    """The sum over the features of one degree; x [rows, K] says how many there are."""

    name = "degree_sum"

    def derivative(self, node: Node, gradient: Node, index: int) -> Node | None:
        raise NotImplementedError("a block program is differentiated once")

    def torch(self, node: Node, args: list[str]) -> str:
        return f"blocks.polynomial.degree_sum({args[0]}, {args[1]}, {node['index']}, {_form(node)})"

    def triton(self, node: Node, args: list[str], tile: TileContext) -> str:
        raise NotImplementedError(_IN_TILES)

    def flops(self, node: Node, extent: dict[str, int]) -> int:
        return size(node.args[1].dims, extent)


def _form(node: Node) -> str:
    return f'{node["degrees"]}, "{node["basis"]}"'


def _coefficients(texts: list[str]) -> str:
    return f"({', '.join(texts)},)"

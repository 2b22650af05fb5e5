"""Sums of products."""

from __future__ import annotations

from atlasgen.ir import build
from atlasgen.ir.node import Node, ordered
from atlasgen.ir.operators.base import Operator, TileContext, size, spread


class Dot(Operator):
    """sum over `dim` of left * right; axes that both have and are not summed are a batch."""

    name = "dot"

    def derivative(self, node: Node, gradient: Node, index: int) -> Node | None:
        wanted, other = node.args[index], node.args[1 - index]
        extra = [d for d in ordered(gradient.dims + other.dims) if d not in wanted.dims]
        if not extra:
            return build.mul(gradient, other)
        return build.sum_to(_contracted(gradient, other, extra), wanted.dims)

    def torch(self, node: Node, args: list[str]) -> str:
        left, right = node.args
        dim = node["dim"]
        only_left = [d for d in left.dims if d not in right.dims]
        only_right = [d for d in right.dims if d not in left.dims]
        if len(left.dims) == len(right.dims) == 2 and only_left and only_right:
            pairs = [(args[0], left), (args[1], right)]
            if node.dims != (only_left[0], only_right[0]):
                pairs.reverse()
            (a, first), (b, second) = pairs
            a = a if first.dims[1] == dim else f"{a}.mT"
            b = b if second.dims[0] == dim else f"{b}.mT"
            return f"torch.matmul({a}, {b})"
        if len(left.dims) > 2 or len(right.dims) > 2:
            return _einsum(node, args)
        every = ordered(left.dims + right.dims)
        aligned = [spread(text, argument, every) for text, argument in zip(args, node.args, strict=True)]
        return f"({aligned[0]} * {aligned[1]}).sum({every.index(dim) - len(every)})"

    def triton(self, node: Node, args: list[str], tile: TileContext) -> str:
        return tile.product(node, args)

    def flops(self, node: Node, extent: dict[str, int]) -> int:
        return 2 * size(node.dims, extent) * extent[node["dim"]]


class Contract(Operator):
    """sum over several axes of left * right; axes that both have and are not summed are a batch."""

    name = "contract"

    def derivative(self, node: Node, gradient: Node, index: int) -> Node | None:
        wanted, other = node.args[index], node.args[1 - index]
        extra = [d for d in ordered(gradient.dims + other.dims) if d not in wanted.dims]
        if not extra:
            return build.mul(gradient, other)
        return build.sum_to(_contracted(gradient, other, extra), wanted.dims)

    def torch(self, node: Node, args: list[str]) -> str:
        return _einsum(node, args)

    def triton(self, node: Node, args: list[str], tile: TileContext) -> str:
        return tile.product(node, args)

    def flops(self, node: Node, extent: dict[str, int]) -> int:
        return 2 * size(node.dims, extent) * size(node["summed"], extent)


def _contracted(gradient: Node, other: Node, extra: list[str]) -> Node:
    """The sum of gradient * other over the axes `extra`, those that both have at once."""
    both = [dim for dim in extra if dim in gradient.dims and dim in other.dims]
    if len(both) > 1:
        return build.contract(gradient, other, both)
    return build.dot(gradient, other, both[0] if both else extra[0])


def _einsum(node: Node, args: list[str]) -> str:
    """torch text of a product with a batch of matrices in it."""
    every = ordered(node.args[0].dims + node.args[1].dims)
    letters = {dim: "abcdefgh"[index] for index, dim in enumerate(every)}

    def indices(dims: tuple[str, ...]) -> str:
        return "..." + "".join(letters[dim] for dim in dims)

    left, right = node.args
    equation = f"{indices(left.dims)},{indices(right.dims)}->{indices(node.dims)}"
    return f'torch.einsum("{equation}", {args[0]}, {args[1]})'


class Sum(Operator):
    """The sum over `dim`."""

    name = "sum"

    def derivative(self, node: Node, gradient: Node, index: int) -> Node | None:
        return gradient  # broadcasts back by name

    def torch(self, node: Node, args: list[str]) -> str:
        (argument,) = node.args
        return f"{args[0]}.sum({argument.dims.index(node['dim']) - len(argument.dims)})"

    def triton(self, node: Node, args: list[str], tile: TileContext) -> str:
        return f"tl.sum({args[0]}, {node.args[0].dims.index(node['dim'])})"

    def flops(self, node: Node, extent: dict[str, int]) -> int:
        return size(node.args[0].dims, extent)

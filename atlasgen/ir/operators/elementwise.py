"""Leaves, numbers and elementwise operators."""

from __future__ import annotations

from atlasgen.ir import build
from atlasgen.ir.node import Node
from atlasgen.ir.operators.base import Operator, TileContext, size, spread
from atlasgen.ir.printing import torch_text, triton_text
from atlasgen.ir.scalar import derivative, vanishes


class Leaf(Operator):
    """An input; emitters load it."""

    name = "leaf"

    def flops(self, node: Node, extent: dict[str, int]) -> int:
        return 0


class Const(Operator):
    """A number."""

    name = "const"

    def torch(self, node: Node, args: list[str]) -> str:
        return repr(node["value"])

    def triton(self, node: Node, args: list[str], tile: TileContext) -> str:
        return repr(node["value"])

    def flops(self, node: Node, extent: dict[str, int]) -> int:
        return 0

    def keeps_zero(self, node: Node, dim: str) -> bool:
        return node["value"] == 0.0


class Map(Operator):
    """A scalar expression (sympy) of aligned arguments."""

    name = "map"

    def derivative(self, node: Node, gradient: Node, index: int) -> Node | None:
        slope = build.map_(derivative(node["expression"], index), *node.args)
        return build.mul(gradient, slope)

    def torch(self, node: Node, args: list[str]) -> str:
        aligned = [spread(text, argument, node.dims) for text, argument in zip(args, node.args, strict=True)]
        return torch_text(node["expression"], aligned)

    def triton(self, node: Node, args: list[str], tile: TileContext) -> str:
        aligned = [
            tile.align(text, argument.dims, node.dims) for text, argument in zip(args, node.args, strict=True)
        ]
        return triton_text(node["expression"], aligned)

    def flops(self, node: Node, extent: dict[str, int]) -> int:
        return size(node.dims, extent) * max(1, node["expression"].count_ops())

    def keeps_zero(self, node: Node, dim: str) -> bool:
        zero = [index for index, argument in enumerate(node.args) if dim in argument.dims]
        return vanishes(node["expression"], zero)


class Add(Operator):
    """A signed sum of terms."""

    name = "add"

    def derivative(self, node: Node, gradient: Node, index: int) -> Node | None:
        return gradient if node["signs"][index] > 0 else build.neg(gradient)

    def _text(self, node: Node, aligned: list[str]) -> str:
        text = ""
        for sign, term in zip(node["signs"], aligned, strict=True):
            term = term if _is_atom(term) else f"({term})"
            text += (" + " if sign > 0 else " - ") + term
        return text[3:] if text.startswith(" + ") else "-" + text[3:]

    def torch(self, node: Node, args: list[str]) -> str:
        aligned = [spread(text, argument, node.dims) for text, argument in zip(args, node.args, strict=True)]
        return self._text(node, aligned)

    def triton(self, node: Node, args: list[str], tile: TileContext) -> str:
        aligned = [
            tile.align(text, argument.dims, node.dims) for text, argument in zip(args, node.args, strict=True)
        ]
        return self._text(node, aligned)

    def flops(self, node: Node, extent: dict[str, int]) -> int:
        return size(node.dims, extent) * (len(node.args) - 1)

    def keeps_zero(self, node: Node, dim: str) -> bool:
        return all(dim in argument.dims for argument in node.args)


def _is_atom(text: str) -> bool:
    depth = 0
    for position, character in enumerate(text):
        depth += (character in "([") - (character in ")]")
        if depth == 0 and character in "+-*/ " and position:
            return False
    return not text.startswith("-")


class Rename(Operator):
    """The same rows under another axis name."""

    name = "rename"

    def derivative(self, node: Node, gradient: Node, index: int) -> Node | None:
        back = dict(zip(node.dims, node.args[0].dims, strict=True))
        return build.rename(gradient, back)

    def torch(self, node: Node, args: list[str]) -> str:
        return args[0]

    def triton(self, node: Node, args: list[str], tile: TileContext) -> str:
        return args[0]

    def flops(self, node: Node, extent: dict[str, int]) -> int:
        return 0


class Softmax(Operator):
    """exp(x) / sum exp(x) along `dim`."""

    name = "softmax"

    def derivative(self, node: Node, gradient: Node, index: int) -> Node | None:
        weighted = build.sum_(build.mul(gradient, node), node["dim"])
        return build.mul(node, build.sub(gradient, weighted))

    def torch(self, node: Node, args: list[str]) -> str:
        return f"torch.softmax({args[0]}, {node.dims.index(node['dim']) - len(node.dims)})"

    def triton(self, node: Node, args: list[str], tile: TileContext) -> str:
        dim = node["dim"]
        lanes = tile.lanes(dim) or "True"
        lanes = tile.align(lanes, (dim,), node.dims) if lanes != "True" else lanes
        return f"softmax({args[0]}, {lanes}, {node.dims.index(dim)})"

    def flops(self, node: Node, extent: dict[str, int]) -> int:
        return 4 * size(node.dims, extent)

    def keeps_zero(self, node: Node, dim: str) -> bool:
        return dim == node["dim"]  # its own padding lanes are masked inside

"""Running sums and products of decays.

Products of decays are differences of running sums of log decays inside one block, exponentiated after
masking, so no exponent is positive. A log decay below `RESET` is an exact reset: it is left out of the
sums and counted instead, and a product over a range with a reset in it is zero. So -inf is legal and a
large negative gate does not swallow the digits of the gates after it.
"""

from __future__ import annotations

from atlasgen.ir import build
from atlasgen.ir.node import Node
from atlasgen.ir.operators.base import Operator, TileContext


class Cumsum(Operator):
    """The running sum along `dim`."""

    name = "cumsum"

    def derivative(self, node: Node, gradient: Node, index: int) -> Node | None:
        return build.cumsum(gradient, node["dim"], not node["reverse"], node["exclusive"])

    def torch(self, node: Node, args: list[str]) -> str:
        axis = node.dims.index(node["dim"]) - len(node.dims)
        return f"blocks.cumsum({args[0]}, {axis}, {node['reverse']}, {node['exclusive']})"

    def triton(self, node: Node, args: list[str], tile: TileContext) -> str:
        if node["exclusive"] and len(node.dims) == 1:
            # A sum of the others: subtracting an entry that dwarfs those before it would lose them.
            rows, order = tile.position(node["dim"]), "<" if node["reverse"] else ">"
            others = f"tl.where(({rows})[:, None] {order} ({rows})[None, :], ({args[0]})[None, :], 0.0)"
            return f"tl.sum({others}, 1)"
        text = f"tl.cumsum({args[0]}, {node.dims.index(node['dim'])}"
        text += ", reverse=True)" if node["reverse"] else ")"
        return f"{text} - {args[0]}" if node["exclusive"] else text


class Decay(Operator):
    """D[t, s] = product of decays over s < r <= t, lower triangular."""

    name = "decay"

    def derivative(self, node: Node, gradient: Node, index: int) -> Node | None:
        # d log_j = sum over t >= j > s of G[t, s], G = dD * D: prefix sums along s of entries left of
        # the diagonal, never a difference of large sums.
        row, column = node["row"], node["column"]
        strict = 2 if node["exclusive"] else 1
        weighted = build.mask(build.mul(gradient, node), row, column, strict, None)
        before = build.cumsum(weighted, column, exclusive=True)
        return build.sum_(build.mask(before, row, column, strict - 1, None), row)

    def torch(self, node: Node, args: list[str]) -> str:
        text = f"blocks.decay({args[0]}, {node['exclusive']})"
        return text if node.dims == (node["row"], node["column"]) else f"{text}.mT"

    def triton(self, node: Node, args: list[str], tile: TileContext) -> str:
        row, column = node["row"], node["column"]
        total, resets = args[0], args[1]

        def pair(vector: str, operator: str) -> str:
            rows = tile.align(vector, (row,), node.dims)
            columns = tile.align(vector, (column,), node.dims)
            return f"{rows} {operator} {columns}"

        difference = pair(total, "-")
        same = pair(resets, "==")
        rows = tile.align(tile.position(row), (row,), node.dims)
        columns = tile.align(tile.position(column), (column,), node.dims)
        if node["exclusive"]:
            gate, reset = args[2], args[3]
            difference += f" - {tile.align(gate, (row,), node.dims)}"
            same = f"{tile.align(resets, (row,), node.dims)} - "
            same += f"{tile.align(reset, (row,), node.dims)} == "
            same += tile.align(resets, (column,), node.dims)
        order = ">" if node["exclusive"] else ">="
        keep = f"({rows} {order} {columns}) & ({same})"
        return f'tl.exp(tl.where({keep}, {difference}, float("-inf")))'

    def flops(self, node: Node, extent: dict[str, int]) -> int:
        return 3 * extent[node["row"]] * extent[node["column"]]


class DecayFromStart(Operator):
    """The product of decays over r <= t (exclusive: r < t)."""

    name = "decay_from_start"

    def derivative(self, node: Node, gradient: Node, index: int) -> Node | None:
        return build.cumsum(build.mul(gradient, node), node["row"], reverse=True, exclusive=node["exclusive"])

    def torch(self, node: Node, args: list[str]) -> str:
        return f"blocks.decay_from_start({args[0]}, {node['exclusive']})"

    def triton(self, node: Node, args: list[str], tile: TileContext) -> str:
        total, resets = args[0], args[1]
        if node["exclusive"]:
            total, resets = f"{total} - {args[2]}", f"{resets} - {args[3]}"
        return f'tl.exp(tl.where({resets} == 0.0, {total}, float("-inf")))'


class DecayToEnd(Operator):
    """The product of decays over r > s: the last row of the decay matrix."""

    name = "decay_to_end"

    def derivative(self, node: Node, gradient: Node, index: int) -> Node | None:
        return build.cumsum(build.mul(gradient, node), node["row"], exclusive=True)

    def torch(self, node: Node, args: list[str]) -> str:
        return f"blocks.decay_to_end({args[0]})"

    def triton(self, node: Node, args: list[str], tile: TileContext) -> str:
        total, resets = args[0], args[1]
        difference = f"tl.sum({args[2]}, 0) - {total}"
        return f'tl.exp(tl.where(tl.sum({args[3]}, 0) == {resets}, {difference}, float("-inf")))'


class DecayWhole(Operator):
    """The product of all decays of the block."""

    name = "decay_whole"

    def derivative(self, node: Node, gradient: Node, index: int) -> Node | None:
        return build.mul(gradient, node)

    def torch(self, node: Node, args: list[str]) -> str:
        return f"blocks.decay_whole({args[0]})"

    def triton(self, node: Node, args: list[str], tile: TileContext) -> str:
        difference = f"tl.sum({args[2]}, 0)"
        return f'tl.exp(tl.where(tl.sum({args[3]}, 0) == 0.0, {difference}, float("-inf")))'


class AtStart(Operator):
    """`initial` in the first block of a call that resumes inside a block, else `carried`."""

    name = "at_start"

    def derivative(self, node: Node, gradient: Node, index: int) -> Node | None:
        return Node("when_start", (gradient,), gradient.dims, first=index == 0)

    def torch(self, node: Node, args: list[str]) -> str:
        return f"blocks.at_start({args[0]}, {args[1]}, resumed, block)"

    def triton(self, node: Node, args: list[str], tile: TileContext) -> str:
        return f"tl.where(block == 0, {args[0]}, {args[1]}) if RESUME else {args[1]}"

    def flops(self, node: Node, extent: dict[str, int]) -> int:
        return 0


class WhenStart(Operator):
    """The value in the resumed first block and zero elsewhere (first), or the opposite."""

    name = "when_start"

    def derivative(self, node: Node, gradient: Node, index: int) -> Node | None:
        return Node("when_start", (gradient,), gradient.dims, first=node["first"])

    def torch(self, node: Node, args: list[str]) -> str:
        return f"blocks.when_start({args[0]}, {node['first']}, resumed, block)"

    def triton(self, node: Node, args: list[str], tile: TileContext) -> str:
        if node["first"]:
            return f"tl.where(block == 0, {args[0]}, 0.0)"
        return f"tl.where(block == 0, 0.0, {args[0]}) if RESUME else {args[0]}"

    def flops(self, node: Node, extent: dict[str, int]) -> int:
        return 0

"""Running sums and products of decays.

Products of decays are differences of running sums of log decays inside one block, exponentiated after
masking, so no exponent is positive. A log decay below `RESET` is an exact reset: it is left out of the
sums and counted instead, and a product over a range with a reset in it is zero. So -inf is legal and a
large negative gate does not swallow the digits of the gates after it. In kernels the sums are kept in two
parts, an exact coarse one and a small fine one, so that their differences keep float32's digits too.
"""

from __future__ import annotations

from atlasgen.ir import build
from atlasgen.ir.node import ROWS, Node
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
        if node["exclusive"] and set(node.dims) - ROWS - {"h"}:
            return f"sum_of_others({args[0]}, {node['reverse']})"  # rows of channels: as above
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
        coarse, fine, resets = args[:3]
        until = args[:3]
        if node["exclusive"]:
            until = [f"({total} - {own})" for total, own in zip(args[:3], args[3:])]

        def rows(vector: str) -> str:
            return tile.align(vector, (row,), node.dims)

        def columns(vector: str) -> str:
            return tile.align(vector, (column,), node.dims)

        difference = f"({rows(until[0])} - {columns(coarse)}) + ({rows(until[1])} - {columns(fine)})"
        order = ">" if node["exclusive"] else ">="
        keep = f"({rows(tile.position(row))} {order} {columns(tile.position(column))})"
        keep += f" & ({rows(until[2])} == {columns(resets)})"
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
        coarse, fine, resets = args[:3]
        if node["exclusive"]:
            own_coarse, own_fine, own_reset = args[3:]
            coarse, fine = f"({coarse} - {own_coarse})", f"({fine} - {own_fine})"
            resets = f"{resets} - {own_reset}"
        return f'tl.exp(tl.where({resets} == 0.0, {coarse} + {fine}, float("-inf")))'

    def keeps_zero(self, node: Node, dim: str) -> bool:
        return dim == node["row"]  # a channel without a decay keeps all


class DecayToEnd(Operator):
    """The product of decays over r > s: the last row of the decay matrix."""

    name = "decay_to_end"

    def derivative(self, node: Node, gradient: Node, index: int) -> Node | None:
        return build.cumsum(build.mul(gradient, node), node["row"], exclusive=True)

    def torch(self, node: Node, args: list[str]) -> str:
        return f"blocks.decay_to_end({args[0]})"

    def triton(self, node: Node, args: list[str], tile: TileContext) -> str:
        coarse, fine, resets, own_coarse, own_fine, own_reset = args
        difference = f"(tl.sum({own_coarse}, 0) - {coarse}) + (tl.sum({own_fine}, 0) - {fine})"
        return f'tl.exp(tl.where(tl.sum({own_reset}, 0) == {resets}, {difference}, float("-inf")))'

    def keeps_zero(self, node: Node, dim: str) -> bool:
        return dim == node["row"]  # a channel without a decay keeps all


class DecayWhole(Operator):
    """The product of all decays of the block."""

    name = "decay_whole"

    def derivative(self, node: Node, gradient: Node, index: int) -> Node | None:
        return build.mul(gradient, node)

    def torch(self, node: Node, args: list[str]) -> str:
        return f"blocks.decay_whole({args[0]})"

    def triton(self, node: Node, args: list[str], tile: TileContext) -> str:
        coarse, fine, reset = args[3:]
        total = f"tl.sum({coarse}, 0) + tl.sum({fine}, 0)"
        return f'tl.exp(tl.where(tl.sum({reset}, 0) == 0.0, {total}, float("-inf")))'

    def keeps_zero(self, node: Node, dim: str) -> bool:
        return dim == node["row"]  # a channel without a decay keeps all


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

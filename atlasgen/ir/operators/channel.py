"""Products between rows of a block whose decay differs by channel.

    scores   A[t, s] = sum over c of q[t, c] x[s, c] D[t, s, c]     for s < t, else 0
    mix      Y[t, c] = sum over s < t of A[t, s] x[s, c] D[t, s, c]  (or of the later rows t, for each s)

D[t, s, c] is the product of the decays of channel c over s < r <= t (exclusive: r < t). It never exists as a
whole: pairs of rows in the two halves of a range meet at an anchor, the lower half's last row, where both
factors decay, so that no exponent is positive; only ranges of 16 rows are taken pair by pair. The diagonal,
which does not decay, is left to the caller: the gradient of a decay is then no difference of large sums.
"""

from __future__ import annotations

from atlasgen.ir import build
from atlasgen.ir.node import Node
from atlasgen.ir.operators.base import Operator, TileContext


class ChannelScores(Operator):
    """[row, column] of left [row, axis], right [column, axis] and the log decays [.., axis]."""

    name = "channel_scores"

    def derivative(self, node: Node, gradient: Node, index: int) -> Node | None:
        left, right, log = node.args
        attrs = {key: node[key] for key in ("row", "column", "axis", "exclusive")}
        to_left = build.channel_mix(gradient, right, log, node["row"], **attrs)
        to_right = build.channel_mix(gradient, left, log, node["column"], **attrs)
        if index < 2:
            return (to_left, to_right)[index]
        return _of_decays(node, build.mul(left, to_left), build.mul(right, to_right))

    def torch(self, node: Node, args: list[str]) -> str:
        return _transposed(node, f"blocks.channels.scores({', '.join(args)}, {node['exclusive']})")

    def triton(self, node: Node, args: list[str], tile: TileContext) -> str:
        text = f"channel_scores({', '.join(args)}, {node['exclusive']})"
        return text if node.dims[0] == node["row"] else f"tl.trans({text})"

    def flops(self, node: Node, extent: dict[str, int]) -> int:
        return _flops(node, extent)

    def keeps_zero(self, node: Node, dim: str) -> bool:
        return True


class ChannelMix(Operator):
    """[row, axis] from a matrix [row, column] and [column, axis]; or [column, axis] from [row, axis]."""

    name = "channel_mix"

    def derivative(self, node: Node, gradient: Node, index: int) -> Node | None:
        matrix, rows, log = node.args
        attrs = {key: node[key] for key in ("row", "column", "axis", "exclusive")}
        if node["row"] not in node.dims:
            raise NotImplementedError("a block program is differentiated once")
        if index == 0:
            return build.channel_scores(gradient, rows, log, **attrs)
        to_rows = build.channel_mix(matrix, gradient, log, node["column"], **attrs)
        if index == 1:
            return to_rows
        return _of_decays(node, build.mul(gradient, node), build.mul(rows, to_rows))

    def torch(self, node: Node, args: list[str]) -> str:
        matrix, rows, log = args
        matrix = matrix if node.args[0].dims[0] == node["row"] else f"{matrix}.mT"
        to_row = node["row"] in node.dims
        return f"blocks.channels.mix({matrix}, {rows}, {log}, {node['exclusive']}, {to_row})"

    def triton(self, node: Node, args: list[str], tile: TileContext) -> str:
        matrix, rows, log = args
        matrix = matrix if node.args[0].dims[0] == node["row"] else f"tl.trans({matrix})"
        function = "channel_mix" if node["row"] in node.dims else "channel_mix_back"
        return f"{function}({matrix}, {rows}, {log}, {node['exclusive']})"

    def flops(self, node: Node, extent: dict[str, int]) -> int:
        return _flops(node, extent)


def _of_decays(node: Node, readers: Node, sources: Node) -> Node:
    """d log[j] = sum over pairs s < j <= t (exclusive: j < t) of the products: by row, by source."""
    (dim,) = [own for own in node.args[2].dims if own != node["axis"]]
    readers, sources = build.rename(readers, {node["row"]: dim}), build.rename(sources, {node["column"]: dim})
    after = build.cumsum(readers, dim, reverse=True, exclusive=node["exclusive"])
    return build.sub(after, build.cumsum(sources, dim, reverse=True))


def _transposed(node: Node, text: str) -> str:
    return text if node.dims[0] == node["row"] else f"{text}.mT"


def _flops(node: Node, extent: dict[str, int]) -> int:
    return 2 * extent[node["row"]] * extent[node["column"]] * extent[node["axis"]]

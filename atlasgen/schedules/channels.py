"""Decays that differ by channel, in the dual form: what is a row factor or a matrix P elsewhere.

    W' = diag(a_C) W - (p_C u)^T E          p_C[s, c] = lr_s times the decays of channel c after row s
    z W_t = (diag(a) z) W - A E              A[t, s] = sum over c of z[t, c] u[s, c] D[t, s, c] lr_s

for channels of the key; for channels of the value D stays beside E, by column. No momentum, no window: then
every source counts in one row, and D is a product of decays between two rows.

Pairs of rows between which nothing decays are plain products: a reader and its own write, and, where the
reader's decay has not acted, the write of the row before. Among the others they would enter the gradient of
every decay twice, with opposite signs, and strong decays would drown in their rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

from atlasgen.ir import build
from atlasgen.ir.node import Node


@dataclass(frozen=True)
class Reach:
    """Which writes a reader sees: own: that of its own row. decayed: its own row's decay has acted."""

    own: bool
    decayed: bool


POST = Reach(own=True, decayed=True)
PRE = Reach(own=False, decayed=False)
DECAYED = Reach(own=False, decayed=True)  # the memory before a token, decayed first


@dataclass(frozen=True)
class Channels:
    """The log decays of a weight's channels, a leaf [.., axis], and their axis."""

    log: Node
    axis: str

    def scores(self, left: Node, right: Node, reach: Reach) -> Node:
        """[r, s]: left [r, axis] times right [s, axis], with the decays between."""
        result = build.channel_scores(left, right, self.log, "r", "s", self.axis, not reach.decayed)
        if not reach.decayed:
            before = build.mask(build.dot(left, right, self.axis), "r", "s", 1, 1)
            result = build.add(build.mask(result, "r", "s", 2, None), before)
        if not reach.own:
            return result
        same = build.sum_(build.mul(left, build.relabel(right, {"s": "r"})), self.axis)
        return build.add(result, build.mask(same, "r", "s", 0, 0))

    def mixed(self, matrix: Node, rows: Node, reach: Reach) -> Node:
        """[r, axis]: the matrix [r, s] times rows [s, axis], with the decays between."""
        exclusive = not reach.decayed
        decaying = build.mask(matrix, "r", "s", 2, None) if exclusive else matrix
        result = build.channel_mix(decaying, rows, self.log, "r", "r", "s", self.axis, exclusive)
        if exclusive:
            result = build.add(result, build.dot(build.mask(matrix, "r", "s", 1, 1), rows, "s"))
        if not reach.own:
            return result
        same = build.sum_(build.mask(matrix, "r", "s", 0, 0), "s")
        return build.add(result, build.mul(same, build.relabel(rows, {"s": "r"})))

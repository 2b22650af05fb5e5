"""Blocks in pieces: programs whose blocks are parts of the rule's own.

Each token is computed as in the whole block, but a program holds only the rows of a piece, whose number
divides the rule's block: M*, the memory that the rule's block began with, is carried from piece to piece
beside the memory that its rows move. So kernels, which hold the weights between all rows of a block, take
blocks of any length; with pieces of one row it is how a rule with blocks goes token by token.
"""

from __future__ import annotations

from collections.abc import Mapping

from atlasgen.derive.memory import Weight
from atlasgen.ir import build
from atlasgen.ir.node import Node
from atlasgen.ir.program import Capture, Carry
from atlasgen.schedules.dual import DualForm
from atlasgen.schedules.gates import closes, opens, where, within_block
from atlasgen.schedules.held import HeldForm
from atlasgen.schedules.row_weights import RowWeights
from atlasgen.spec.rule import MemoryRule

LONGEST = 256  # rows: their [rows, rows] weights are one tile of a kernel
USUAL = 64  # rows: the products of rows with rows are then about as many as those with the memory


def rows_of_piece(rule: MemoryRule) -> int:
    """Rows of a piece: the largest proper divisor of the block's size up to `USUAL`; up to `LONGEST` where a
    block is written at once, since no row weighs another there, and each piece takes the map of the write."""
    block = rule.block.size
    most = LONGEST if rule.block.write == "block" else USUAL
    return next((rows for rows in range(min(block // 2, most), 1, -1) if block % rows == 0), 1)


def prefers_pieces(rule: MemoryRule) -> bool:
    """True where the products between all rows of a block would cost more than twice those of its pieces."""
    return rule.block.size >= 2 * USUAL and rule.block.write == "token" and 2 * rows_of_piece(rule) >= USUAL


class RowsOfPiece(RowWeights):
    """The window's weights where the rule's block begins before the program's."""

    def exists(self, source: str) -> Node:
        """1 in source rows that windows reach: those of the reader's own block, where it cuts them."""
        if self.rule.window.boundary == "truncate" and source == "h" and self.rule.depends_on_memory:
            return within_block(source, self.rule.block.size)
        return super().exists(source)


class InPieces(DualForm):
    """The dual form over pieces of blocks."""

    @property
    def block(self) -> int | None:
        """Rows of a piece."""
        return rows_of_piece(self.rule)

    @property
    def bordered(self) -> bool:
        """True where M* is the memory before the rule's own block."""
        return super().anchored

    @property
    def anchored(self) -> bool:
        """Never: M* is a carry, not something that an open block captures."""
        return False

    def reach(self) -> int:
        """Rows before a piece that its windows reach; `RowsOfPiece` leaves out those of other blocks."""
        return super().reach() if self.rule.block.size == 1 else self.window - 1

    def weights_of(self, weight: Weight) -> RowWeights:
        """P and B of one weight."""
        return RowsOfPiece(self.rule, weight, self.gates[weight.name], self.sources, self.labels)

    def points(self) -> dict[str, Node]:
        """M*: in the first piece of a block the memory itself, else the one that is carried."""
        if not self.bordered:
            return super().points()
        first = opens(self.rule.block.size)
        points = {}
        for weight in self.graph.weights:
            point = where(first, self.states[weight.name], self._anchor(weight))
            points[weight.name] = self.give(
                point, weight.tensor("anchor_point"), "M*: the memory at the last border"
            )
        return points

    def _carries(self, points: Mapping[str, Node], previous: Mapping[str, Node]) -> list[Carry]:
        carries = super()._carries(points, previous)
        return [*carries, *self._borders(carries, points, previous)]

    def _borders(
        self, carries: list[Carry], points: Mapping[str, Node], previous: Mapping[str, Node]
    ) -> list[Carry]:
        """M* as the next piece finds it: after a block's last token the memory; and the M* before it."""
        if not self.bordered:
            return []
        full, found = closes(self.rule.block.size), []
        after = {carry.name: carry.next for carry in carries}
        for weight in self.graph.weights:
            own, before = points[weight.name], previous[weight.name]
            value = where(full, after[weight.tensor("memory")], own)
            found.append(Carry(weight.tensor("anchor"), self._anchor(weight), value))
            if self.keeps:
                found.append(Carry(weight.tensor("previous"), before, where(full, own, before)))
        return found

    def _captures(self, points: Mapping[str, Node], previous: Mapping[str, Node]) -> tuple[Capture, ...]:
        return ()

    def _anchor(self, weight: Weight) -> Node:
        return build.leaf(weight.tensor("anchor"), weight.axes, kind="carry")


class HeldInPieces(InPieces, HeldForm):
    """Rules that hold their update until a block is full, over pieces of blocks."""

    @property
    def bordered(self) -> bool:
        """Never: M* is the memory itself."""
        return False

    def full(self, dim: str | None = None) -> Node:
        """1 where a row is the last one of a full block of the rule."""
        return closes(self.rule.block.size, dim)

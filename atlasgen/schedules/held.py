"""Rules that hold their update until a block is full: one write per block, or a factor per row.

The memory in the state is the border's, M*, until the block's last token; what the open block has gathered is
a carry of its own, A. So a call may end anywhere in a block.

    row_scale            y_t reads M* - row_t A_t, A_t the updates of the block so far; a full block
                         moves M* by its last row's
    write = "block"      S' = theta S + A, M' = alpha M - lr map(S'), with gates pooled over the block
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import sympy

from atlasgen.derive.memory import Weight
from atlasgen.ir import build
from atlasgen.ir.node import Node
from atlasgen.ir.program import Capture, Carry
from atlasgen.ir.scalar import inverse_root, placeholder, root
from atlasgen.schedules.dual import DualForm, retained
from atlasgen.schedules.gates import border, gate, live, where
from atlasgen.schedules.links import linked
from atlasgen.schedules.token_maps import mapped
from atlasgen.spec.rule import Gate, MemoryRule

x0 = placeholder(0)
ZERO = build.const(0.0)


def is_held(rule: MemoryRule) -> bool:
    """True where the memory waits for its block to be full."""
    return rule.block.write == "block" or rule.block.row_scale != "none"


class HeldForm(DualForm):
    """The dual form with the memory of the last border as its state."""

    def __init__(self, rule: MemoryRule) -> None:
        super().__init__(rule)
        self.updates = {w.name: self.leaf("update", w) for w in self.graph.weights}
        self.pools: dict[str, Carry] = {}
        self.by_block = rule.block.write == "block"
        self.nexts: dict[str, Node] = {}

    @property
    def anchored(self) -> bool:
        """Never: M* is the memory itself."""
        return False

    @property
    def reader(self) -> str:
        """Always r: what is read changes at borders."""
        return "r"

    @property
    def aligned(self) -> bool:
        """Always: a block's end is when the memory changes."""
        return True

    def full(self, dim: str | None = None) -> Node:
        """1 where a row is the last one of a full block (of no axis: where the block is full), else 0."""
        return border(dim)

    def _carries(self, points: Mapping[str, Node], previous: Mapping[str, Node]) -> list[Carry]:
        carries = []
        for weight in self.graph.weights:
            carries += self._of_block(weight) if self.by_block else self._of_rows(weight)
        if self.keeps:
            carries += [
                Carry(
                    w.tensor("previous"),
                    previous[w.name],
                    where(self.full(), self.states[w.name], previous[w.name]),
                )
                for w in self.graph.weights
            ]
        return [*carries, *self.pools.values()]

    def _captures(self, points: Mapping[str, Node], previous: Mapping[str, Node]) -> tuple[Capture, ...]:
        return ()

    # -- a factor per row ----------------------------------------------------------------------------
    def _of_rows(self, weight: Weight) -> list[Carry]:
        """M* and A after the block, and the momentum, which moves at every token."""
        rows, state, update = self.rows[weight.name], self.states[weight.name], self.updates[weight.name]
        lost, weights = rows.written()
        terms = [(1, update), (1, build.mul(lost, self.speeds[weight.name]))]
        for source in self.sources:
            terms += [(1, term) for term in self.gradients(weight, source, weights[source])]
        total = self.give(
            build.add(*terms), weight.tensor("update") + "_total", "A: the block's update so far"
        )
        moved = build.sub(state, build.mul(self._last_row_scale(), total))
        self.give(moved, weight.tensor("memory") + "_next", "M at the end")
        full = self.full()
        carries = [
            Carry(weight.tensor("memory"), state, where(full, moved, state)),
            Carry(weight.tensor("update"), update, where(full, ZERO, total)),
        ]
        if self.momentum:
            speed = self.speeds[weight.name]
            moved = self._moved(rows, speed, partial(self.gradients, weight), weight.tensor("momentum_next"))
            carries.append(Carry(weight.tensor("momentum"), speed, moved))
        return carries

    def _row_scale(self, dim: str) -> Node:
        if self.rule.block.row_scale == "token":
            return build.leaf("row_scale", (dim,), kind="token", segment="block")
        return build.leaf("row_scale", (dim,), kind="head", default="1 / (row + 1)")

    def _last_row_scale(self) -> Node:
        if self.rule.block.row_scale == "token":
            return build.sum_(build.mul(self._row_scale("j"), self.full("j")), "j")
        last = self.rule.block.size - 1
        return build.leaf("row_scale", (), kind="head", index=last, default="1 / (row + 1)")

    # -- one write per block -------------------------------------------------------------------------
    def _of_block(self, weight: Weight) -> list[Carry]:
        rows, state, speed = self.rows[weight.name], self.states[weight.name], self.speeds[weight.name]
        full, carries = self.full(), []
        if self.momentum and self.rule.block.momentum == "token":
            moved = self._moved(rows, speed, partial(self.gradients, weight), weight.tensor("momentum_next"))
            carries.append(Carry(weight.tensor("momentum"), speed, moved))
        else:
            total = self._gathered(weight)
            moved = total
            update = self.updates[weight.name]
            carries.append(Carry(weight.tensor("update"), update, where(full, ZERO, total)))
            if self.momentum:
                theta = self._pooled("theta", *rows.gates.theta)
                moved = build.add(build.mul(theta, speed), total)
                self.give(moved, weight.tensor("momentum") + "_next", "S at the end of the block")
                carries.append(Carry(weight.tensor("momentum"), speed, where(full, moved, speed)))
        written = where(full, self._block_write(weight, moved), state)
        self.nexts[weight.name] = written
        return [Carry(weight.tensor("memory"), state, written), *carries]

    def _gathered(self, weight: Weight) -> Node:
        """A: the sum of the block's windowed gradients so far."""
        weights = self.rows[weight.name].windowed(build.const(1.0))
        terms: list[Node] = [self.updates[weight.name]]
        for source in self.sources:
            terms += self.gradients(weight, source, weights[source])
        name = weight.tensor("update") + "_total"
        return self.give(build.add(*terms), name, "A: the block's gradients so far")

    def _block_write(self, weight: Weight, momentum: Node) -> Node:
        """M' = alpha M (+ (1 - alpha) M_0) - lr map(S'), then the projection."""
        rows, state = self.rows[weight.name], self.states[weight.name]
        straight = self.rule.gradient.newton_schulz == "straight_through"
        update = momentum
        for transform in rows.gates.transform:
            update = mapped(transform, update, weight, straight)
        if self.rule.optimizer.lr_at == "update":
            update = build.mul(self._pooled("lr", *rows.gates.lr), update)
        alpha = self._pooled("alpha", *rows.gates.alpha)
        origin = self.leaf("origin", weight) if self.rule.retention.toward == "initial" else None
        written = build.add(*retained(alpha, state, origin), (-1, update))
        if self.rule.retention.project.kind == "row_norm" and weight.is_matrix:
            written = self._restored(weight, written)
        return self.give(written, weight.tensor("memory") + "_next", "M at the end")

    def _restored(self, weight: Weight, written: Node) -> Node:
        """Each output unit's weights with the norm that they had in the initial memory."""
        axis = weight.axes[0]

        def square(matrix: Node) -> Node:
            return build.sum_(build.mul(matrix, matrix), axis)

        origin = build.map_(root(x0), square(self.leaf("origin", weight)))
        inverse = build.map_(inverse_root(x0), square(written))
        return build.mul(written, build.mul(origin, inverse))

    def _pooled(self, kind: str, name: str, choice: Gate) -> Node:
        """One value for the block of a gate (not of its log): the last token's, or the mean."""
        is_log = name.startswith("log_")
        if choice.kind == "constant" and choice.expression is None:
            return build.const(choice.value or 0.0)
        value = gate(name, choice, "j", 0.0 if is_log else 1.0)
        value = build.map_(sympy.exp(x0), value) if is_log else value
        if choice.kind != "token":
            return value
        if self.rule.block.gate_pool == "last":
            return build.sum_(build.mul(value, self.full("j")), "j")
        own = name.removeprefix("log_").partition("_")[2]
        pool = f"pool_{kind}_{own}" if own else f"pool_{kind}"
        sum_so_far = build.leaf(pool, (), kind="carry")
        total = build.add(sum_so_far, build.sum_(build.mul(value, live("j")), "j"))
        self.pools[pool] = Carry(pool, sum_so_far, where(self.full(), ZERO, total))
        return build.mul(build.const(1 / self.rule.block.size), total)

    # -- the read ------------------------------------------------------------------------------------
    def _read(self, points: Mapping[str, Node]) -> Node:
        if self.by_block:
            for weight in self.graph.weights:
                self._of_block(weight)
        return super()._read(points)

    def _read_weight(self, weight: Weight, bias: Weight | None, value: Node) -> Node:
        result = self._read_held(weight, value)
        return result if bias is None else build.add(result, self._read_held(bias, None))

    def _read_held(self, weight: Weight, value: Node | None) -> Node:
        """What a row reads: the border's memory, less the scaled update so far; the last row of a full
        block of one write reads what that wrote."""

        def through(state: Node) -> Node:
            state = linked(self.rule.memory.link, weight, state)
            return state if value is None else build.dot(value, state, weight.axes[0])

        state = through(self.states[weight.name])
        if self.by_block:
            if self.rule.read.at == "pre":
                return state
            return where(self.full("r"), through(self.nexts[weight.name]), state)
        _, lost, weights = self.rows[weight.name].read(False)
        terms = [
            (1, through(self.updates[weight.name])),
            (1, build.mul(lost, through(self.speeds[weight.name]))),
        ]
        for source in self.sources:
            for pair in self.pairs[source][weight.name]:
                attention = self._attention(weight, value, pair.rows, weights[source], source)
                terms.append((1, build.dot(attention, pair.error, source)))
        return build.sub(state, build.mul(self._row_scale("r"), build.add(*terms)))

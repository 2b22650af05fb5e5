"""A map at every token, of the momentum (Newton-Schulz, sign, ...) or of what is read (a link): one matrix
per token and weight.

    S_t = cumprod theta S + sum over sources of B[t, s] u_s (x) E_s        U_t = map(S_t)
    W_t = a_t W - sum over j <= t of D(alpha)[t, j] lr_j U_j

A map that is not linear leaves no sum of outer products to read through, so these matrices exist, for one
block at a time.
"""

from __future__ import annotations

from collections.abc import Callable

import sympy

from atlasgen.derive.memory import Weight
from atlasgen.ir import build
from atlasgen.ir.node import Node
from atlasgen.ir.scalar import inverse_root, placeholder
from atlasgen.schedules.gates import Names
from atlasgen.schedules.row_weights import RowWeights
from atlasgen.spec.expression import parse_expression, symbol
from atlasgen.spec.rule import MemoryRule, Transform

x0 = placeholder(0)


class TokenMap:
    """The updates U_t of one weight and what reads them."""

    def __init__(self, rule: MemoryRule, weight: Weight, rows: RowWeights, labels: Names) -> None:
        self.rule, self.weight, self.rows, self.labels = rule, weight, rows, labels
        self.updates: Node = build.const(0.0)

    def build(self, momentum: Node, gradients: Callable[[str, Node], list[Node]]) -> None:
        """U_t [j, in, out] of every row; gradients: (source, weights [j, source]) -> terms [j, in, out]."""
        since = build.decay_from_start(self.rows.log_theta("j"), "j")
        weights = self.rows.windowed(build.decay(self.rows.log_theta("i"), "j", "i"))
        terms = [(1, build.mul(since, momentum))]
        for source, matrix in weights.items():
            terms += [(1, term) for term in gradients(source, matrix)]
        total = build.add(*terms)
        self.labels.give(total, self.weight.tensor("momentum") + "_rows", "S_t of every token")
        straight = self.rule.gradient.newton_schulz == "straight_through"
        for transform in self.rows.gates.transform:
            total = mapped(transform, total, self.weight, straight)
        name = "updates" if self.weight.name == "M" else f"updates_{self.weight.name}"
        self.updates = self.labels.give(total, name, "U_t: the map of S_t")

    def written(self, state: Node, origin: Node | None) -> Node:
        """W' = a_C W - sum over j of D(alpha)[C, j] lr_j U_j (+ (1 - a_C) W_0)."""
        weight = self.rows.step(build.decay_to_end(self.rows.log_alpha("j"), "j"))
        return self._kept(self.rows.kept(), state, origin, weight)

    def at_reads(self, state: Node, origin: Node | None, pre: bool) -> Node:
        """W_t [r, in, out] of every row."""
        left = self.rows.step(build.decay(self.rows.log_alpha("j"), "r", "j", exclusive=pre))
        kept = build.decay_from_start(self.rows.log_alpha("r"), "r", exclusive=pre)
        result = self._kept(kept, state, origin, left)
        return self.labels.give(result, self.weight.tensor("memory") + "_rows", "W_t of every token")

    def _kept(self, kept: Node, state: Node, origin: Node | None, weight: Node) -> Node:
        update = build.dot(weight, self.updates, "j")
        if origin is None or build.is_const(kept, 1.0):
            return build.add((1, build.mul(kept, state)), (-1, update))
        return build.add((1, build.mul(kept, build.sub(state, origin))), (1, origin), (-1, update))


def mapped(transform: Transform, matrix: Node, weight: Weight, straight: bool) -> Node:
    """One transform of a matrix, or of the matrices of all rows."""
    rows, columns = weight.axes
    if transform.kind == "newton_schulz":
        return build.newton_schulz(matrix, rows, columns, transform.coefficients, straight)
    if transform.kind == "sign":
        return build.map_(sympy.sign(x0), matrix)
    if transform.kind == "frobenius":
        square = build.sum_(build.sum_(build.mul(matrix, matrix), rows), columns)
        return build.mul(matrix, build.map_(inverse_root(x0), square))
    expression = parse_expression(transform.expression or "", ("S",), field="optimizer.transform")
    return build.map_(expression.subs(symbol("S"), x0), matrix)

"""Steps that are factors of what a token writes, where they are no weights of rows.

    u_s (x) E_s  ->  (lr_s u_s) (x) E_s  for channels of the key
                     u_s (x) (lr_s E_s)  for channels of the value

P holds one number for a pair of rows, so a step that differs by channel stands beside it, and one that
depends on the token's key (the implicit one) with it. That takes writes that each have the step of their own
token: no window, no momentum before the step, no map of the update.
"""

from __future__ import annotations

from dataclasses import dataclass

from atlasgen.derive.features import similarity
from atlasgen.derive.memory import Weight
from atlasgen.ir import build
from atlasgen.ir.node import Node
from atlasgen.ir.scalar import placeholder
from atlasgen.schedules.gates import gate
from atlasgen.schedules.inner_gradient import InnerGradient, Outer
from atlasgen.spec.rule import Gate, MemoryRule

BY_CHANNEL = ("key", "value")
x0, x1 = placeholder(0), placeholder(1)


def steps_pairs(rule: MemoryRule, choice: Gate) -> bool:
    """True where a weight's step is a factor of keys or errors."""
    return choice.kind in BY_CHANNEL or rule.optimizer.kind == "implicit"


def implicit_step(rate: Node, square: Node) -> Node:
    """lr / (1 + lr |phi(k)|^2), the step that solves one token's l2 loss with the old memory's pull."""
    if build.is_const(rate, 1.0):
        return build.map_(1 / (1 + x0), square)
    return build.map_(x0 / (1 + x0 * x1), rate, square)


@dataclass(frozen=True)
class PairStep:
    """The step of one weight, with the name of its argument."""

    inner: InnerGradient
    weight: Weight
    name: str
    choice: Gate

    def of_errors(self, source: str) -> Node:
        """The factor of errors along the rows of a segment: 1 where there is none."""
        return build.const(1.0) if self._of_keys else self._rate(source)

    def of_rows(self, source: str) -> Node:
        """The factor of the rows that errors are written along: 1 where there is none."""
        return self._rate(source) if self._of_keys else build.const(1.0)

    def pair(self, pair: Outer, source: str) -> Outer:
        """A pair of factors times the step."""
        rows = None if pair.rows is None else build.mul(pair.rows, self.of_rows(source))
        return Outer(rows, build.mul(pair.error, self.of_errors(source)))

    @property
    def _of_keys(self) -> bool:
        return self.choice.kind == "key"

    def _rate(self, source: str) -> Node:
        rule = self.inner.rule
        if not steps_pairs(rule, self.choice):
            return build.const(1.0)
        if self.choice.kind in BY_CHANNEL:
            axis = self.weight.axes[0 if self._of_keys else -1]
            rate = self.inner.row(self.name, source, axis)
        else:
            rate = gate(self.name, self.choice, source, 1.0)
        if rule.optimizer.kind != "implicit":
            return rate
        x = self.inner.features(source)
        return implicit_step(rate, similarity(x, x, self.inner.graph.weights[0].axes[0]))

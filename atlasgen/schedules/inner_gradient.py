"""The inner gradient of any memory, as sums of outer products over source rows.

Forward and backward of the memory's graph at the block's point M* are ordinary block program nodes; the
gradient of a weight is sum over sources of u_s (x) delta_s, u the rows that entered it and delta the error
that reached its output. Only these two factors exist, never a gradient matrix per token.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sympy

from atlasgen.derive.features import Featured, apply_features
from atlasgen.derive.loss import ErrorForm, error_form
from atlasgen.derive.memory import MemoryGraph, Weight, normed, to_axis
from atlasgen.ir import build
from atlasgen.ir.differentiate import backpropagate
from atlasgen.ir.node import Node
from atlasgen.ir.scalar import finite_at_zero, placeholder
from atlasgen.schedules.gates import SEGMENTS, Names, exists, live, suffix
from atlasgen.spec.rule import MemoryRule

x0, x1 = placeholder(0), placeholder(1)


@dataclass(frozen=True)
class Outer:
    """One gradient factor pair: u [source, in] (None for a bias: ones) and delta [source, out]."""

    rows: Node | None
    error: Node


class InnerGradient:
    """Evaluates the memory and its gradient on the source rows of one segment."""

    def __init__(self, rule: MemoryRule, graph: MemoryGraph, labels: Names) -> None:
        self.rule, self.graph, self.labels = rule, graph, labels
        self.window = int(rule.window.length)
        self.forms = [error_form(rule, term) for term in rule.loss]

    def features(self, source: str) -> Featured:
        """phi(k) of one segment."""
        k = build.leaf("k", (source, "K"), kind="token", segment=SEGMENTS[source])
        featured = apply_features(self.rule.features, k, "k")
        self.labels.give(featured.node, f"features{suffix(source)}", "X = phi(k)")
        return featured

    def pairs(self, source: str, points: Mapping[str, Node]) -> dict[str, list[Outer]]:
        """The factors of every weight's gradient; points: each weight at M*."""
        uses: dict[Node, tuple[Weight, Weight | None, Node]] = {}

        def linear(weight: Weight, bias: Weight | None, rows: Node) -> Node:
            value = build.dot(rows, points[weight.name], weight.axes[0])
            if bias is not None:
                value = build.add(value, points[bias.name])
            uses[value] = (weight, bias, rows)
            return value

        x = self.features(source)
        k = build.leaf("k", (source, "K"), kind="token", segment=SEGMENTS[source])
        pred = self.finished(self.graph.output(x.node, linear), x.node, k)
        formula = "phi(k) M*" if self.rule.memory.kind == "matrix" else "f(M*, phi(k))"
        self.labels.give(pred, f"predictions{suffix(source)}", f"pred = {formula}")
        error = self.errors(source, pred)
        reached = backpropagate({pred: error}, tuple(points.values()))
        pairs: dict[str, list[Outer]] = {weight.name: [] for weight in self.graph.weights}
        for value, (weight, bias, rows) in uses.items():
            if value not in reached:
                continue
            delta = reached[value]
            if weight.name != "M":
                name = f"errors_{weight.name}{suffix(source)}"
                self.labels.give(delta, name, f"the error that reaches the output of {weight.name}")
            pairs[weight.name].append(Outer(rows, delta))
            if bias is not None:
                pairs[bias.name].append(Outer(None, delta))
        return {name: self._clipped(found) for name, found in pairs.items()}

    def finished(self, output: Node, x: Node, raw: Node) -> Node:
        """The memory's value from its output: norm with gains, then residual."""
        memory = self.rule.memory
        if memory.norm != "none":
            output = self.normed(output)
        if memory.residual == "none":
            return output
        return build.add(output, to_axis(x if memory.residual == "x" else raw, "V"))

    def normed(self, value: Node) -> Node:
        """The memory's norm over V (a layer norm where it has none), with its gains."""
        kind = "rms" if self.rule.memory.norm == "rms" else "layer"
        value = normed(kind, value, "V", self.graph.extents)
        value = build.mul(value, build.leaf("norm_gain", ("V",), kind="head", default="1"))
        if kind == "layer":
            value = build.add(value, build.leaf("norm_bias", ("V",), kind="head", default="0"))
        return value

    # -- errors --------------------------------------------------------------------------------------
    def errors(self, source: str, pred: Node) -> Node:
        """E = dl/dpred for the rows of one segment."""
        terms = zip(self.forms, self.rule.loss, strict=True)
        total = [self._error(form, term.target, source, pred) for form, term in terms]
        return self.labels.give(
            build.add(*total), f"errors{suffix(source)}", "E = dl/dpred at the block's M*"
        )

    def _error(self, form: ErrorForm, target: str, source: str, pred: Node) -> Node:
        segment = SEGMENTS.get(source, "block")
        v = build.leaf("v", (source, "V"), kind="token", segment=segment)
        if target == "v - k":
            k = build.leaf("k", (source, "K"), kind="token", segment=segment)
            v = build.sub(v, to_axis(k, "V"))
        if form.kind == "target":
            return build.neg(v)
        inputs = [self.loss_input(name, source, segment) for name in form.inputs]
        if form.kind == "element":
            return self._only_in_tokens(form.expression, source, pred, v, *inputs)
        difference = build.sub(pred, v)
        square = build.sum_(build.mul(difference, difference), "V")
        slope = self._only_in_tokens(form.expression, source, square, *inputs)
        return build.mul(slope, difference)

    def _only_in_tokens(self, expression: sympy.Expr, source: str, *args: Node) -> Node:
        """The expression, 0 in rows without a token where it has no value or slope at zeros.

        Rows without a token read as zeros; 0/0 there would spread through products with zero.
        """
        zero = [index for index, argument in enumerate(args) if source in argument.dims]
        if finite_at_zero(expression, zero):
            return build.map_(expression, *args)
        flag = exists(source) if self.window > 1 else live(source)
        guarded = sympy.Piecewise((expression, placeholder(len(args)) > 0), (0, True), evaluate=False)
        return build.map_(guarded, *args, flag)

    def loss_input(self, name: str, source: str, segment: str) -> Node:
        """A parameter of the loss: one number per head, or one per row."""
        declared = self.rule.input_named(name)
        if declared is not None and declared.shape == "head":
            return build.leaf(name, (), kind="head")
        return build.leaf(name, (source,), kind="token", segment=segment)

    # -- clipping ------------------------------------------------------------------------------------
    def _clipped(self, pairs: list[Outer]) -> list[Outer]:
        """Each token's gradient scaled to a norm of at most clip.norm: |u||delta| where it has rank one."""
        clip = self.rule.optimizer.clip
        if clip is None or clip.of != "token" or not pairs:
            return pairs
        parts = []
        for first in pairs:
            for second in pairs:
                along = build.const(1.0)
                if first.rows is not None and second.rows is not None:
                    along = _inner(first.rows, second.rows)
                parts.append(build.mul(along, _inner(first.error, second.error)))
        square = build.add(*parts)
        limit = sympy.Float(clip.norm)
        scale = sympy.Piecewise((limit * x0 ** sympy.Rational(-1, 2), x0 > limit**2), (1, True))
        factor = self.labels.give(build.map_(scale, square), "clipping", "min(1, norm / |gradient|)")
        return [Outer(pair.rows, build.mul(pair.error, factor)) for pair in pairs]


def _inner(left: Node, right: Node) -> Node:
    """The product of two rows, summed over their feature axis."""
    (axis,) = [dim for dim in left.dims if dim not in SEGMENTS]
    return build.sum_(build.mul(left, right), axis)

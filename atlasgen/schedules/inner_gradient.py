"""The inner gradient of any memory, as sums of outer products over source rows.

Forward and backward of the memory's graph at the block's point M* are ordinary block program nodes; the
gradient of a weight is sum over sources of u_s (x) delta_s, u the rows that entered it and delta the error
that reached its output. Only these two factors exist, never a gradient matrix per token.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import sympy

from atlasgen.derive.features import Featured, apply_features
from atlasgen.derive.loss import error_form
from atlasgen.derive.memory import MemoryGraph, Weight, normed, to_axis
from atlasgen.ir import build
from atlasgen.ir.differentiate import backpropagate
from atlasgen.ir.node import Node
from atlasgen.ir.scalar import finite_at_zero, placeholder
from atlasgen.schedules.gates import SEGMENTS, Names, exists, live, suffix
from atlasgen.spec.rule import LossTerm, MemoryRule

x0, x1 = placeholder(0), placeholder(1)


@dataclass(frozen=True)
class Outer:
    """One gradient factor pair: u [source, in] (None for a bias: ones) and delta [source, out]."""

    rows: Node | None
    error: Node


class InnerGradient:
    """Evaluates the memory and its gradient on the source rows of one segment.

    Each term of the loss predicts from the features of its own key, and its error is written along the
    rows of its own write key. featured: the rows that have features, by their explicit node.
    """

    def __init__(self, rule: MemoryRule, graph: MemoryGraph, labels: Names) -> None:
        self.rule, self.graph, self.labels = rule, graph, labels
        self.window = int(rule.window.length)
        self.forms = {term: error_form(rule, term) for term in rule.loss}
        self.featured: dict[Node, Featured] = {}

    # -- rows ----------------------------------------------------------------------------------------
    def row(self, name: str, source: str, axis: str) -> Node:
        """A tensor of rows: k, v or an input of the rule per key or value channel."""
        return build.leaf(name, (source, axis), kind="token", segment=SEGMENTS.get(source, "block"))

    def features(self, source: str, key: str = "k") -> Featured:
        """phi of the keys of that name in one segment."""
        found = apply_features(self.rule.features, self.row(key, source, "K"), "k")
        name = named("features", key) + suffix(source)
        self.labels.give(found.node, name, f"phi({key})" if key != "k" else "X = phi(k)")
        self.featured[found.node] = found
        return found

    def written_rows(self, term: LossTerm, source: str) -> Node:
        """The rows that a term's error is written along, times its step per key channel."""
        rows = self.features(source, term.write or term.key).node
        if term.lr is not None and self._shape(term.lr) == "key":
            rows = build.mul(rows, self.row(term.lr, source, "K"))
        return rows

    def _shape(self, name: str) -> str:
        declared = self.rule.input_named(name)
        return "token" if declared is None else declared.shape

    # -- pairs ---------------------------------------------------------------------------------------
    def pairs(self, source: str, points: Mapping[str, Node]) -> dict[str, list[Outer]]:
        """The factors of every weight's gradient, all terms together; points: each weight at M*."""
        found: dict[str, list[Outer]] = {weight.name: [] for weight in self.graph.weights}
        for key in dict.fromkeys(term.key for term in self.rule.loss):
            for name, some in self._pairs_of_key(key, source, points).items():
                found[name] += some
        return {name: self._clipped(merged(some)) for name, some in found.items()}

    def _pairs_of_key(self, key: str, source: str, points: Mapping[str, Node]) -> dict[str, list[Outer]]:
        """The factors of the terms that predict from one key, by weight: one pass through the memory."""
        uses: dict[Node, tuple[Weight, Weight | None, Node]] = {}

        def linear(weight: Weight, bias: Weight | None, rows: Node) -> Node:
            value = build.dot(rows, points[weight.name], weight.axes[0])
            if bias is not None:
                value = build.add(value, points[bias.name])
            uses[value] = (weight, bias, rows)
            return value

        x = self.features(source, key)
        pred = self.finished(self.graph.output(x.node, linear), x.node, self.row(key, source, "K"))
        formula = f"phi({key}) M*" if self.rule.memory.kind == "matrix" else f"f(M*, phi({key}))"
        self.labels.give(pred, named("predictions", key) + suffix(source), f"pred = {formula}")
        terms = [term for term in self.rule.loss if term.key == key]
        gradients = [term for term in terms if is_gradient(self.rule, term)]
        error = self.errors(source, pred, gradients)
        end = named("", key) + suffix(source)
        self.labels.give(error, f"errors{end}", "E = dl/dpred at the block's M*")
        pairs: dict[str, list[Outer]] = {weight.name: [] for weight in self.graph.weights}
        reached = backpropagate({pred: error}, tuple(points.values())) if gradients else {}
        for value, (weight, bias, rows) in uses.items():
            if value not in reached:
                continue
            delta = reached[value]
            if weight.name != "M":
                name = f"errors_{weight.name}{end}"
                self.labels.give(delta, name, f"the error that reaches the output of {weight.name}")
            pairs[weight.name].append(Outer(rows, delta))
            if bias is not None:
                pairs[bias.name].append(Outer(None, delta))
        for term in terms:
            if term not in gradients:  # the memory is one matrix: its input is replaced
                written = self.written_rows(term, source)
                pairs["M"].append(Outer(written, self.errors(source, pred, [term])))
        return pairs

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
    def errors(self, source: str, pred: Node, terms: Iterable[LossTerm]) -> Node:
        """E = dl/dpred of some terms that share a prediction, for the rows of one segment."""
        return build.add(*(self._error(term, source, pred) for term in terms))

    def _error(self, term: LossTerm, source: str, pred: Node) -> Node:
        """The error of one term, times its step where that is none of the key's channels."""
        return self.stepped(self._plain_error(term, source, pred), term, source)

    def stepped(self, error: Node, term: LossTerm, source: str) -> Node:
        """A term's error, or its slope, times the step per head, token or value channel."""
        if term.lr is None or self._shape(term.lr) == "key":
            return error
        if self._shape(term.lr) == "value":
            return build.mul(error, self.row(term.lr, source, "V"))
        return build.mul(error, self.loss_input(term.lr, source))

    def _target(self, term: LossTerm, source: str) -> Node:
        if term.target == "0":
            return build.const(0.0)
        if term.target == "v - k":
            return build.sub(self.row("v", source, "V"), to_axis(self.row("k", source, "K"), "V"))
        return self.row(term.target, source, "V")

    def _plain_error(self, term: LossTerm, source: str, pred: Node) -> Node:
        form, v = self.forms[term], self._target(term, source)
        if form.kind == "target":
            return build.neg(v)
        inputs = [self.loss_input(name, source) for name in form.inputs]
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

    def loss_input(self, name: str, source: str) -> Node:
        """A parameter of the loss: one number per head, or one per row."""
        if self._shape(name) == "head":
            return build.leaf(name, (), kind="head")
        return build.leaf(name, (source,), kind="token", segment=SEGMENTS.get(source, "block"))

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


def is_gradient(rule: MemoryRule, term: LossTerm) -> bool:
    """True where a term's update is the gradient of its loss: no write key, no step per channel."""
    rate = rule.input_named(term.lr) if term.lr is not None else None
    by_channel = rate is not None and rate.shape in ("key", "value")
    return term.write in (None, term.key) and not by_channel


def named(base: str, key: str) -> str:
    """A name that tells the values of another key from those of k."""
    return base if key == "k" else f"{base}_{key}"


def merged(pairs: Iterable[Outer]) -> list[Outer]:
    """The pairs with one error, the sum, for all that share their rows; none for an error of zero."""
    errors: dict[Node | None, list[Node]] = {}
    for pair in pairs:
        if not build.is_const(pair.error, 0.0):
            errors.setdefault(pair.rows, []).append(pair.error)
    return [Outer(rows, build.add(*some)) for rows, some in errors.items()]


def _inner(left: Node, right: Node) -> Node:
    """The product of two rows, summed over their feature axis."""
    (axis,) = [dim for dim in left.dims if dim not in SEGMENTS]
    return build.sum_(build.mul(left, right), axis)

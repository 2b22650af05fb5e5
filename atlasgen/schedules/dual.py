"""The dual form of a memory, as one block program.

For block n with rows t, j, i (readers and steps of the recursions) and sources s (rows of the block) and h
(halo rows before it), W and S a weight and its momentum at the block's start and M* the point of the inner
gradients:

    u, E  the inner gradient's factors: sum over sources of u_s (x) E_s, taken at M*
    P  = D(alpha) diag(lr) D(theta) Gamma                         weight of source s in the read of row t
    z W_t = diag(a) z W - diag(b) z S - ((z u^T) * P) E           what a row z reads from a weight
    W' = a_C W - b_C S - (p_C u)^T E                              p_C: the last row of P
    S' = theta_C S + (B_C u)^T E                                  B_C: the last row of D(theta) Gamma

(lr stands before D(theta) where lr_at = "gradient".) A matrix memory is one such read, u the keys' features
and E the loss's errors; a deep memory nests them, one per weight. The formula is written once for all rules;
what a rule does not use becomes zero, one or an identity matrix and vanishes in the constructors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import sympy

from atlasgen.derive.features import Featured, apply_features, feature_axis, similarity
from atlasgen.derive.memory import Weight, memory_graph
from atlasgen.derive.reads import read_expression
from atlasgen.ir import build
from atlasgen.ir.node import Node, leaves, walk
from atlasgen.ir.program import BlockProgram, Capture, Carry
from atlasgen.ir.scalar import placeholder
from atlasgen.schedules.channels import POST, PRE, Reach
from atlasgen.schedules.gates import Names, live, suffix
from atlasgen.schedules.inner_gradient import InnerGradient, Outer
from atlasgen.schedules.links import linked, pulled
from atlasgen.schedules.pair_steps import PairStep
from atlasgen.schedules.row_weights import RowWeights, weight_gates
from atlasgen.schedules.token_maps import TokenMap
from atlasgen.spec.rule import MemoryRule

x0, x1 = placeholder(0), placeholder(1)
Pairs = Mapping[str, list[Outer]]
Gradients = Callable[[str, Node], list[Node]]
"""(segment, weights [.., source]) -> terms of the sum over its rows of weight times gradient."""
Through = Callable[..., Node]
"""(state, what it is multiplied by or None) -> what is read of it."""


class DualForm:
    """Builds the program of one rule; each method is one line of the algebra above."""

    def __init__(self, rule: MemoryRule) -> None:
        self.rule = rule
        self.depends = rule.depends_on_memory
        self.window = int(rule.window.length)
        self.halo = self.reach()
        self.sources = ("s", "h") if self.halo else ("s",)
        self.labels = Names({}, {})
        self.give = self.labels.give
        self.momentum = rule.optimizer.kind == "momentum"
        self.input_axis = feature_axis(rule.features)
        self.graph = memory_graph(rule.memory, self.input_axis)
        self.inner = InnerGradient(rule, self.graph, self.labels)
        self.gates = {weight.name: weight_gates(rule, weight) for weight in self.graph.weights}
        self.rows = {weight.name: self.weights_of(weight) for weight in self.graph.weights}
        self.steps = {
            weight.name: PairStep(self.inner, weight, *self.gates[weight.name].lr)
            for weight in self.graph.weights
        }
        self.totals = self.rows[self.graph.weights[0].name]  # of what a normalised read divides by
        self.features = self.inner.featured  # rows with cheap products, by their explicit node
        self.pairs: dict[str, Pairs] = {}  # by source
        self.points_of: dict[str, Mapping[str, Node]] = {}  # by source: where its gradients are taken
        self.states = {w.name: self.leaf("memory", w) for w in self.graph.weights}
        self.speeds = {w.name: self.leaf("momentum", w) for w in self.graph.weights}
        self.maps: dict[str, TokenMap] = {}

    def leaf(self, kind: str, weight: Weight) -> Node:
        """A tensor of one weight."""

        place = "carry" if kind in ("memory", "momentum", "previous", "update") else "invariant"
        return build.leaf(weight.tensor(kind), weight.axes, kind=place)

    def reach(self) -> int:
        """Rows before a block that its windows reach."""
        truncated = self.depends and self.rule.window.boundary == "truncate"
        return 0 if truncated else self.window - 1

    def weights_of(self, weight: Weight) -> RowWeights:
        """P and B of one weight."""
        return RowWeights(self.rule, weight, self.gates[weight.name], self.sources, self.labels)

    @property
    def anchored(self) -> bool:
        """True where a call that resumes inside a block needs the memory of the block's start."""
        return self.rule.block.size > 1 and (self.depends or self.rule.read.at == "block")

    @property
    def aligned(self) -> bool:
        """True where it matters at which tokens blocks end."""
        return self.depends or self.anchored

    @property
    def block(self) -> int | None:
        """Rows of a block, None where any number gives the same."""
        return self.rule.block.size if self.aligned else None

    @property
    def keeps(self) -> bool:
        """True where halo rows keep the errors of the memory before."""
        return self.halo > 0 and self.depends and self.rule.window.boundary == "carry"

    def points(self) -> dict[str, Node]:
        """M*: each weight at the last border."""
        if not self.anchored:
            return dict(self.states)
        points = {}
        for weight in self.graph.weights:
            point = build.at_start(self.leaf("anchor", weight), self.states[weight.name])
            points[weight.name] = self.give(
                point, weight.tensor("anchor_point"), "M*: the memory at the last border"
            )
        return points

    # -- the program ---------------------------------------------------------------------------------
    def build(self) -> BlockProgram:
        """The block program with only the carries that the rule uses."""
        points = self.points()
        previous = {w.name: self.leaf("previous", w) for w in self.graph.weights}
        for source in self.sources:
            self.points_of[source] = previous if source == "h" and self.keeps else points
        self._find_pairs(points, previous)
        self._map_tokens()
        outputs = {"y": self._read(points)}
        carries = self._carries(points, previous)
        captures = self._captures(points, previous)
        captured = [capture.value for capture in captures]  # read only when a call resumes
        used = set(leaves([*outputs.values(), *(carry.next for carry in carries), *captured]))
        return BlockProgram(
            name=self.rule.name,
            outputs=outputs,
            carries=tuple(carry for carry in carries if carry.leaf in used),
            captures=captures,
            window=self.window,
            halo=self.halo,
            block=self.block,
            names=self.labels.names,
            equations=self.labels.equations,
            extents=self.graph.extents,
        )

    def _find_pairs(self, points: Mapping[str, Node], previous: Mapping[str, Node]) -> None:
        """The factors of every weight's gradient, by source, at M*."""
        for source in self.sources:
            found = self.inner.pairs(source, self._linked(self.points_of[source]))
            self.pairs[source] = {name: self._stepped(name, source, some) for name, some in found.items()}

    def _stepped(self, weight: str, source: str, pairs: list[Outer]) -> list[Outer]:
        """A weight's pairs times the step, where that is a factor of them."""
        return [self.steps[weight].pair(pair, source) for pair in pairs]

    def _map_tokens(self) -> None:
        """U_t of every token, of the weights whose momentum is mapped before it is written."""
        for weight in self.graph.weights:
            if self.gates[weight.name].transform:
                self.maps[weight.name] = TokenMap(self.rule, weight, self.rows[weight.name], self.labels)
                terms = partial(self.gradients, weight)
                self.maps[weight.name].build(self.speeds[weight.name], terms)

    def is_linked(self, weight: Weight) -> bool:
        """True where predictions and reads see a map of the weight."""
        return self.rule.memory.link.kind != "none" and weight.is_matrix

    @property
    def reader(self) -> str:
        """The axis of reads: r, or j, that of values with a matrix per token where links alone give one."""
        linked = any(self.is_linked(weight) for weight in self.graph.weights)
        mapped = any(self.gates[weight.name].transform for weight in self.graph.weights)
        return "j" if linked and not mapped and self.rule.read.at != "block" else "r"

    def _linked(self, values: Mapping[str, Node]) -> dict[str, Node]:
        """What predictions and reads see of each weight."""
        link = self.rule.memory.link
        return {w.name: linked(link, w, values[w.name]) for w in self.graph.weights}

    def gradients(self, weight: Weight, source: str, weights: Node) -> list[Node]:
        """Terms of sum over the rows of a segment of weights[.., source] u (x) E, through the link there."""
        return self._terms(weight, source, weights, self.pairs[source], self.points_of[source])

    def _terms(
        self, weight: Weight, source: str, weights: Node, pairs: Pairs, points: Mapping[str, Node]
    ) -> list[Node]:
        """The same of given factors, which were taken at given points."""
        terms = [outer_sum(weights, pair, source) for pair in pairs[weight.name]]
        if not self.is_linked(weight):
            return terms
        return [pulled(self.rule.memory.link, weight, points[weight.name], build.add(*terms))]

    def _carries(self, points: Mapping[str, Node], previous: Mapping[str, Node]) -> list[Carry]:
        """What passes from block to block; `build` drops what nothing reads."""
        weights = self.graph.weights
        carries = [Carry(w.tensor("memory"), self.states[w.name], self._written(w)) for w in weights]
        carries += self._sums()
        if self.keeps:
            carries += [Carry(w.tensor("previous"), previous[w.name], points[w.name]) for w in weights]
        return carries

    def _captures(self, points: Mapping[str, Node], previous: Mapping[str, Node]) -> tuple[Capture, ...]:
        """What the state keeps of a block that is still open: M*, and the one before for halo rows."""
        found = []
        for weight in self.graph.weights if self.anchored else ():
            found.append(Capture(weight.tensor("anchor"), points[weight.name], weight.tensor("memory")))
        for weight in self.graph.weights if self.keeps else ():
            name = weight.tensor("previous")
            found.append(Capture(name, previous[weight.name], name))
        return tuple(found)

    def _factors(self, weight: Weight) -> dict[str, list[Outer]]:
        """The gradient's factors of one weight by source."""
        return {source: self.pairs[source][weight.name] for source in self.sources}

    def _sums(self) -> list[Carry]:
        """The carries besides the memory: momentum, and the normaliser with its own."""

        def ones(source: str, weights: Node) -> list[Node]:
            return [outer_sum(weights, Outer(self._keys(source), build.const(-1.0)), source)]

        rows, carries, normaliser = self.totals, [], []
        if self.rule.read.normaliser == "sum":
            total = build.leaf("normaliser", (self.input_axis,), kind="carry")
            speed = build.leaf("normaliser_momentum", (self.input_axis,), kind="carry")
            written = self._next(rows, total, speed, ones, None)
            carries.append(Carry("normaliser", total, self.give(written, "normaliser_next", "M at the end")))
            moved = self._moved(rows, speed, ones, "")
            normaliser.append(Carry("normaliser_momentum", speed, moved))
        if self.momentum:
            for weight in self.graph.weights:
                speed = self.speeds[weight.name]
                rows, terms = self.rows[weight.name], partial(self.gradients, weight)
                moved = self._moved(rows, speed, terms, weight.tensor("momentum_next"))
                carries.append(Carry(weight.tensor("momentum"), speed, moved))
            carries.extend(normaliser)
        return carries

    def _keys(self, source: str) -> Node:
        return self.inner.features(source).node

    # -- the state -----------------------------------------------------------------------------------
    def _written(self, weight: Weight) -> Node:
        """W' = a_C W - b_C S - (p_C u)^T E (+ (1 - a_C) W_0)."""
        rows, state = self.rows[weight.name], self.states[weight.name]
        origin = self.leaf("origin", weight) if self.rule.retention.toward == "initial" else None
        if weight.name in self.maps:
            result = self.maps[weight.name].written(state, origin)
        else:
            terms = partial(self.gradients, weight)
            result = self._next(rows, state, self.speeds[weight.name], terms, origin)
        return self.give(result, weight.tensor("memory") + "_next", "M at the end")

    def _next(
        self,
        rows: RowWeights,
        state: Node,
        momentum: Node,
        gradients: Gradients,
        origin: Node | None,
    ) -> Node:
        kept = rows.kept()
        lost, weights = rows.written()
        terms = [*retained(kept, state, origin), (-1, build.mul(lost, momentum))]
        for source in self.sources:
            terms += [(-1, term) for term in gradients(source, weights[source])]
        return build.add(*terms)

    def _moved(self, rows: RowWeights, momentum: Node, gradients: Gradients, name: str) -> Node:
        """S' = theta_C S + (B_C u)^T E."""
        kept, weights = rows.moved()
        terms = [(1, build.mul(kept, momentum))]
        for source in self.sources:
            terms += [(1, term) for term in gradients(source, weights[source])]
        return self.give(build.add(*terms), name or "momentum_next", "S at the end of the block")

    # -- the read ------------------------------------------------------------------------------------
    def _read(self, points: Mapping[str, Node]) -> Node:
        """y = scale * f(M, phi(q)) / normaliser, every product with a weight read through its sources."""
        q = build.leaf("q", (self.reader, "K"), kind="token", segment="block")
        query = apply_features(self.rule.features, q, "q")
        self.features[query.node] = query
        self.give(query.node, "queries", "phi(q)")

        borders = self._linked(points)

        def at_border(weight: Weight, bias: Weight | None, rows: Node) -> Node:
            value = build.dot(rows, borders[weight.name], weight.axes[0])
            return value if bias is None else build.add(value, borders[bias.name])

        linear = at_border if self.rule.read.at == "block" else self._read_weight
        output = self.graph.output(query.node, linear)
        expression = self.rule.read.f
        if expression is None:
            read = self.inner.finished(output, query.node, q)
        else:
            read = read_expression(expression, output, q, self.inner.normed)
        self.give(read, "reads", "diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E")
        if self.rule.read.normaliser == "sum":
            read = build.mul(read, self._inverse_total(query))
        if self.rule.read.scale != "1":
            read = build.mul(build.leaf("scale", (), kind="host", expression=self.rule.read.scale), read)
        return self.give(read, "y", "the block's reads")

    def _read_weight(self, weight: Weight, bias: Weight | None, value: Node) -> Node:
        """z W_t (+ b_t) for rows z of the block."""
        if weight.name in self.maps:
            result = self._read_map(weight, value)
        elif self.is_linked(weight):
            result = build.dot(value, self._rows_of(weight), weight.axes[0])
        else:
            result = self._read_factors(weight, value)
        if bias is not None:
            result = build.add(result, self._read_factors(bias, None))
        return result

    def _weights_of_reads(self, rows: RowWeights, pre: bool) -> tuple[Node, Node, dict[str, Node]]:
        """a, b and P along the axis of reads."""
        kept, lost, weights = rows.read(pre)
        by_source = {source: self._by_reader(value) for source, value in weights.items()}
        return self._by_reader(kept), self._by_reader(lost), by_source

    def _by_reader(self, value: Node) -> Node:
        """A value of rows r along the axis of reads."""
        if self.reader == "r" or "r" not in value.dims:
            return value
        names = {"r": self.reader}
        inner = any(self.reader in node.dims for node in walk([value]))
        return build.rename(value, names) if inner else build.relabel(value, names)

    def _rows_of(self, weight: Weight) -> Node:
        """link(W_t) [reader, in, out] of every row."""
        kept, lost, weights = self._weights_of_reads(self.rows[weight.name], self.rule.read.at == "pre")
        origin = self.leaf("origin", weight) if self.rule.retention.toward == "initial" else None
        terms = retained(kept, self.states[weight.name], origin)
        terms.append((-1, build.mul(lost, self.speeds[weight.name])))
        for source in self.sources:
            terms += [(-1, term) for term in self.gradients(weight, source, weights[source])]
        rows = self.give(build.add(*terms), weight.tensor("memory") + "_rows", "M of every token")
        return linked(self.rule.memory.link, weight, rows)

    def _read_map(self, weight: Weight, value: Node) -> Node:
        origin = self.leaf("origin", weight) if self.rule.retention.toward == "initial" else None
        memory = self.maps[weight.name].at_reads(self.states[weight.name], origin, self.rule.read.at == "pre")
        return build.dot(value, linked(self.rule.memory.link, weight, memory), weight.axes[0])

    def _read_factors(self, weight: Weight, value: Node | None) -> Node:
        """diag(a) z W - diag(b) z S - ((z u^T) * P) E; a bias is read with z = u = 1."""
        reach = PRE if self.rule.read.at == "pre" else POST
        kept, lost, weights = self._weights_of_reads(self.rows[weight.name], not reach.decayed)
        terms = self._state_terms(weight, value, kept, lost)
        for source in self.sources:
            for pair in self.pairs[source][weight.name]:
                attention = self._attention(weight, value, pair.rows, weights[source], source, reach)
                terms.append((-1, self._mixed(weight, attention, pair.error, source, reach)))
        return build.add(*terms)

    def _mixed(self, weight: Weight, attention: Node, error: Node, source: str, reach: Reach) -> Node:
        """Attention times errors; with the decays of the value's channels where they differ."""
        channels = self.rows[weight.name].channels
        if channels is not None and channels.axis in error.dims:
            return channels.mixed(attention, error, reach)
        return build.dot(attention, error, source)

    def _state_terms(
        self, weight: Weight, value: Node | None, kept: Node, lost: Node
    ) -> list[tuple[int, Node]]:
        """diag(a) z W - diag(b) z S, of the states at the block's start."""
        axis = weight.axes[0]

        def through(state: Node, factor: Node | None = None) -> Node:
            if value is None:
                return state if factor is None else build.mul(factor, state)
            if factor is not None and axis in factor.dims and weight.is_matrix:
                return build.dot(build.mul(factor, value), state, axis)
            read = build.dot(value, state, axis)
            return read if factor is None else build.mul(factor, read)

        origin = self.leaf("origin", weight) if self.rule.retention.toward == "initial" else None
        terms = retained(kept, self.states[weight.name], origin, through)
        return [*terms, (-1, build.mul(lost, through(self.speeds[weight.name])))]

    def _attention(
        self,
        weight: Weight,
        value: Node | None,
        rows: Node | None,
        weights: Node,
        source: str,
        reach: Reach = POST,
    ) -> Node:
        """(z u^T) * P."""
        channels = self.rows[weight.name].channels
        end = suffix(source) if weight.name == "M" else f"_{weight.name}{suffix(source)}"
        if value is None or rows is None:
            return weights
        if channels is not None and channels.axis == weight.axes[0]:
            scores = channels.scores(value, rows, reach)
        else:
            left = self.features.get(value) or Featured(value)
            scores = similarity(left, self.features.get(rows) or Featured(rows), weight.axes[0])
        self.give(scores, f"scores{end}", "Q X^T")
        return self.give(build.mul(scores, weights), f"attention{end}", "(Q X^T) * P")

    def _inverse_total(self, query: Featured) -> Node:
        """1 / (z . phi(q))."""
        first = self.graph.weights[0]
        kept, lost, weights = self._weights_of_reads(self.totals, self.rule.read.at == "pre")
        total = build.leaf("normaliser", (self.input_axis,), kind="carry")
        speed = build.leaf("normaliser_momentum", (self.input_axis,), kind="carry")
        terms = [
            (1, build.mul(kept, build.dot(query.node, total, self.input_axis))),
            (-1, build.mul(lost, build.dot(query.node, speed, self.input_axis))),
        ]
        for source in self.sources:
            matrix = self._attention(first, query.node, self._keys(source), weights[source], source)
            terms.append((1, build.sum_(matrix, source)))
        return self._inverse(self.give(build.add(*terms), "total_weight", "z . phi(q)"))

    def _inverse(self, weight: Node) -> Node:
        """1 / weight; padding rows divide by one."""
        inverse = sympy.Piecewise((1 / x0, x1 > 0), (1, True))
        return self.give(build.map_(inverse, weight, live(self.reader)), "inverse_total")


def outer_sum(weight: Node, pair: Outer, source: str) -> Node:
    """(weight * u)^T E, summed over the rows of a segment."""
    rows = weight if pair.rows is None else build.mul(weight, pair.rows)
    return build.dot(rows, pair.error, source)


def retained(
    kept: Node, state: Node, origin: Node | None, through: Through | None = None
) -> list[tuple[int, Node]]:
    """Terms of a W (+ (1 - a) W_0), as a (W - W_0) + W_0: so the gradient of a is no difference of sums."""
    through = through or _itself
    if origin is None or build.is_const(kept, 1.0):
        return [(1, through(state, kept))]
    return [(1, through(build.sub(state, origin), kept)), (1, through(origin))]


def _itself(state: Node, factor: Node | None = None) -> Node:
    return state if factor is None else build.mul(factor, state)

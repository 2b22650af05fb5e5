"""The dual form of a matrix memory, as one block program.

For block n with rows t, j, i (readers and steps of the recursions) and sources s (rows of the block) and h
(halo rows before it), M and S the states at the block's start and A the point of the inner gradients:

    E  = dl/dpred at pred = X A                                   errors, for block and halo
    P  = D(alpha) diag(lr) D(theta) Gamma                         weight of source s in the read of row t
    Y  = diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    M' = a_C M - b_C S - (p_C X)^T E                              p_C: the last row of P
    S' = theta_C S + (B_C X)^T E                                  B_C: the last row of D(theta) Gamma

(lr stands before D(theta) where lr_at = "gradient".) The formula is written once for all rules; what a rule
does not use becomes zero, one or an identity matrix and vanishes in the constructors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import sympy

from atlasgen.derive.features import apply_features
from atlasgen.derive.loss import ErrorForm, error_form
from atlasgen.ir import build
from atlasgen.ir.node import Node, leaves
from atlasgen.ir.program import BlockProgram, Capture, Carry
from atlasgen.ir.scalar import finite_at_zero, placeholder
from atlasgen.spec.rule import Gate, MemoryRule

x0, x1 = placeholder(0), placeholder(1)
SEGMENTS = {"s": "block", "h": "halo"}


@dataclass
class Names:
    """Names and equations that a reader of the emitted code sees, collected while building."""

    names: dict[Node, str]
    equations: dict[Node, str]

    def give(self, node: Node, name: str, equation: str = "") -> Node:
        """Name a node (leaves and numbers keep theirs; the first name wins)."""
        if node.op not in ("leaf", "const"):
            self.names.setdefault(node, name)
            if equation:
                self.equations.setdefault(node, equation)
        return node


def gate(name: str, choice: Gate, dim: str, neutral: float) -> Node:
    """A multiplier along a row axis: a number, one per head, or one per token."""
    if choice.kind == "none":
        return build.const(neutral)
    if choice.kind == "constant" and choice.expression is None:
        return build.const(choice.value or 0.0)
    if choice.kind in ("constant", "head"):
        return build.leaf(name, (), kind="head")
    return build.leaf(name, (dim,), kind="token", segment="block")


def live(dim: str) -> Node:
    """1 in rows that hold a token of the call, 0 in padding: padding is the identity on the state."""
    return build.leaf("live", (dim,), kind="live")


def log_gate(name: str, choice: Gate, dim: str) -> Node:
    """A log decay along a row axis, 0 in padding rows."""
    if choice.kind == "constant" and choice.expression is None:
        value = build.const(math.log(choice.value) if choice.value else -math.inf)
    else:
        value = gate(name, choice, dim, 0.0)
    if build.is_const(value, 0.0) or value.op == "leaf" and value["kind"] == "token":
        return value  # loads already give 0 in padding rows
    if value.op == "const":
        return build.mul(value, live(dim))
    # Not a product: the log may be -inf.
    return build.map_(sympy.Piecewise((x0, x1 > 0), (0, True)), value, live(dim))


class DualForm:
    """Builds the program of one rule; each method is one line of the algebra above."""

    def __init__(self, rule: MemoryRule) -> None:
        self.rule = rule
        self.depends = rule.depends_on_memory
        self.window = int(rule.window.length)
        truncated = self.depends and rule.window.boundary == "truncate"
        self.halo = 0 if truncated else self.window - 1
        self.sources = ("s", "h") if self.halo else ("s",)
        self.labels = Names({}, {})
        self.give = self.labels.give
        self.momentum = rule.optimizer.kind == "momentum"

    # -- gates ---------------------------------------------------------------------------------------
    def window_gates(self) -> dict[str, Node]:
        """Gamma[i, source] for block and halo: the band of ages 0..c-1, padding rows empty."""
        choice = self.rule.window.gate
        matrices: dict[str, Node] = {}
        for source in self.sources:
            value = self._window_gate(choice, source)
            if self.window > 1:
                value = build.mul(value, self._exists(source))
            value = build.mul(live("i"), value)
            matrices[source] = build.mask(value, "i", source, 0, self.window - 1)
        if self.rule.window.normalise == "mean":
            total = build.add(*(build.sum_(m, s) for s, m in matrices.items()))
            safe = sympy.Piecewise((1 / x0, sympy.Ne(x0, 0)), (0, True))
            inverse = self.give(build.map_(safe, total), "window_mean", "1 / sum over the window of gamma")
            matrices = {source: build.mul(m, inverse) for source, m in matrices.items()}
        for source, matrix in matrices.items():
            self.give(matrix, f"window{_suffix(source)}", "Gamma: window gates by reader and source")
        return matrices

    def _window_gate(self, choice: Gate, source: str) -> Node:
        if choice.kind == "none":
            return build.const(1.0)
        if choice.kind == "token":
            return build.leaf("gamma", (source,), kind="token", segment=SEGMENTS[source])
        if choice.kind == "pair":
            table = build.leaf("gamma", ("i", "c"), kind="token", segment="block")
        else:
            table = build.leaf("gamma", ("c",), kind="position")
        if self.window == 1:
            return build.sum_(table, "c")
        return build.expand_age(table, "i", source)

    def source_weights(self, left: Node) -> dict[str, Node]:
        """left @ diag(lr) D(theta) Gamma by source; `left` is D(alpha) or its last row."""
        left = build.dot(self.step(left), build.decay(self.log_theta("i"), "j", "i"), "j")
        return self.windowed(left)

    def step(self, left: Node) -> Node:
        """left[.., j] @ diag(step size of the write).

        Momentum goes on in padding rows, so they must not write; without it their gradient is zero.
        """
        optimizer = self.rule.optimizer
        rate = gate("lr", optimizer.lr, "j", 1.0)
        if optimizer.lr_at == "update":
            left = build.mul(left, rate)
            if rate.op == "leaf" and rate["kind"] == "token":
                return left  # loads already give 0 in padding rows
        return build.mul(left, live("j")) if self.momentum else left

    def windowed(self, left: Node) -> dict[str, Node]:
        """left[.., i] @ diag(lr if lr_at = "gradient") Gamma by source."""
        optimizer = self.rule.optimizer
        if optimizer.lr_at == "gradient":
            left = build.mul(left, gate("lr", optimizer.lr, "i", 1.0))
        return {source: build.dot(left, matrix, "i") for source, matrix in self.window_gates().items()}

    def log_theta(self, dim: str) -> Node:
        """The momentum's log decay; -inf without momentum: nothing older than the token stays."""
        if not self.momentum:
            return build.const(-math.inf)
        return log_gate("log_theta", self.rule.optimizer.theta, dim)

    def log_alpha(self, dim: str) -> Node:
        """The memory's log decay."""
        return log_gate("log_alpha", self.rule.retention.alpha, dim)

    def momentum_weight(self, left: Node) -> Node:
        """left @ (lr * cumprod theta): the weight of the block's initial momentum."""
        weight = build.decay_from_start(self.log_theta("j"), "j")
        if build.is_const(weight, 0.0):
            return weight
        return build.dot(self.step(left), weight, "j")

    # -- errors --------------------------------------------------------------------------------------
    def errors(self, form: list[ErrorForm], source: str, point: Node) -> Node:
        """E = dl/dpred for the rows of one segment, at the memory `point`."""
        segment = SEGMENTS[source]
        v = build.leaf("v", (source, "V"), kind="token", segment=segment)
        total = [self._error(entry, source, point, v, segment) for entry in form]
        return self.give(build.add(*total), f"errors{_suffix(source)}", "E = dl/dpred at the block's M*")

    def _error(self, form: ErrorForm, source: str, point: Node, v: Node, segment: str) -> Node:
        if form.kind == "target":
            return build.neg(v)
        pred = build.dot(self.keys(source), point, "K")
        self.give(pred, f"predictions{_suffix(source)}", "pred = phi(k) M*")
        inputs = [self._loss_input(name, source, segment) for name in form.inputs]
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
        flag = self._exists(source) if self.window > 1 else live(source)
        guarded = sympy.Piecewise((expression, placeholder(len(args)) > 0), (0, True), evaluate=False)
        return build.map_(guarded, *args, flag)

    def _exists(self, source: str) -> Node:
        """1 in source rows that hold a token of the sequence, else 0."""
        return build.leaf("exists", (source,), kind="exists", segment=SEGMENTS[source])

    def _loss_input(self, name: str, source: str, segment: str) -> Node:
        declared = self.rule.input_named(name)
        if declared is not None and declared.shape == "head":
            return build.leaf(name, (), kind="head")
        return build.leaf(name, (source,), kind="token", segment=segment)

    def keys(self, source: str) -> Node:
        """X = phi(k) of one segment."""
        k = build.leaf("k", (source, "K"), kind="token", segment=SEGMENTS[source])
        x = apply_features(self.rule.features, k, "k")
        return self.give(x, f"features{_suffix(source)}", "X = phi(k)")

    # -- the program ---------------------------------------------------------------------------------
    def build(self) -> BlockProgram:
        """The block program with only the carries that the rule uses."""
        state = build.leaf("memory", ("K", "V"), kind="carry")
        momentum = build.leaf("momentum", ("K", "V"), kind="carry")
        previous = build.leaf("previous", ("K", "V"), kind="carry")
        anchored = self.depends and self.rule.block.size > 1
        anchor = build.leaf("anchor", ("K", "V"), kind="invariant")
        point = build.at_start(anchor, state) if anchored else state
        self.give(point, "anchor_point", "M*: the memory at the last border")
        keeps = self.halo > 0 and self.depends and self.rule.window.boundary == "carry"
        points = {"s": point, "h": previous if keeps else point}
        form = [error_form(self.rule, term) for term in self.rule.loss]
        errors = {source: self.errors(form, source, points[source]) for source in self.sources}
        ones = {source: build.const(-1.0) for source in self.sources}

        outputs = {"y": self._read(state, momentum, errors)}
        carries = [Carry("memory", state, self._written(state, momentum, errors, "K"))]
        normaliser = ()
        if self.rule.read.normaliser == "sum":
            total = build.leaf("normaliser", ("K",), kind="carry")
            speed = build.leaf("normaliser_momentum", ("K",), kind="carry")
            carries.append(Carry("normaliser", total, self._written(total, speed, ones, "")))
            normaliser = (Carry("normaliser_momentum", speed, self._moved(speed, ones)),)
        if self.momentum:
            carries.append(Carry("momentum", momentum, self._moved(momentum, errors)))
            carries.extend(normaliser)
        if keeps:
            carries.append(Carry("previous", previous, point))
        captures = [Capture("anchor", point, "memory")] if anchored else []
        captures += [Capture("previous", previous, "previous")] if keeps else []
        used = set(leaves([*outputs.values(), *(carry.next for carry in carries)]))
        return BlockProgram(
            name=self.rule.name,
            outputs=outputs,
            carries=tuple(carry for carry in carries if carry.leaf in used),
            captures=tuple(captures),
            window=self.window,
            halo=self.halo,
            block=self.rule.block.size if self.depends else None,
            names=self.labels.names,
            equations=self.labels.equations,
        )

    def _written(self, state: Node, momentum: Node, errors: dict[str, Node], mode: str) -> Node:
        """M' = a_C M - b_C S - (p_C X)^T E (+ (1 - a_C) M_0)."""
        left = build.decay_to_end(self.log_alpha("j"), "j")
        kept = build.decay_whole(self.log_alpha("j"), "j")
        self.give(kept, "kept", "a_C: decay of the memory over the block")
        lost = self.momentum_weight(left)
        self.give(lost, "momentum_written", "b_C: weight of the block's initial momentum")
        weights = self.source_weights(left)
        terms = [(1, build.mul(kept, state)), (-1, build.mul(lost, momentum))]
        if mode == "K" and self.rule.retention.toward == "initial":
            terms.append((1, build.mul(self._one_minus(kept), self._origin())))
        for source, error in errors.items():
            name = f"last_weights{_suffix(source)}"
            weight = self.give(weights[source], name, "p_C: last row of P")
            terms.append((-1, self._outer(weight, source, error)))
        return self.give(build.add(*terms), "memory_next" if mode else "normaliser_next", "M at the end")

    def _moved(self, momentum: Node, errors: dict[str, Node]) -> Node:
        """S' = theta_C S + (B_C X)^T E."""
        kept = build.decay_whole(self.log_theta("i"), "i")
        weights = self.windowed(build.decay_to_end(self.log_theta("i"), "i"))
        terms = [(1, build.mul(self.give(kept, "momentum_kept", "decay of S over the block"), momentum))]
        for source, error in errors.items():
            name = f"momentum_weights{_suffix(source)}"
            weight = self.give(weights[source], name, "B_C: last row of D(theta) Gamma")
            terms.append((1, self._outer(weight, source, error)))
        return self.give(build.add(*terms), "momentum_next", "S at the end of the block")

    def _outer(self, weight: Node, source: str, error: Node) -> Node:
        """(weight * X)^T E, summed over the rows of a segment."""
        return build.dot(build.mul(weight, self.keys(source)), error, source)

    def _read(self, state: Node, momentum: Node, errors: dict[str, Node]) -> Node:
        """Y = scale * (diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E) / normaliser."""
        pre = self.rule.read.at == "pre"
        q = build.leaf("q", ("r", "K"), kind="token", segment="block")
        query = self.give(apply_features(self.rule.features, q, "q"), "queries", "phi(q)")
        left = build.decay(self.log_alpha("j"), "r", "j", exclusive=pre)
        weights = self.source_weights(left)
        kept = build.decay_from_start(self.log_alpha("r"), "r", exclusive=pre)
        self.give(kept, "read_decay", "a: decay of the memory since the block's start")
        lost = self.give(self.momentum_weight(left), "momentum_read", "b: weight of S in each read")
        attention: dict[str, Node] = {}
        for source in self.sources:
            weight = self.give(weights[source], f"weights{_suffix(source)}", "P: source weights by read")
            scores = build.dot(query, self.keys(source), "K")
            self.give(scores, f"scores{_suffix(source)}", "Q X^T")
            masked = build.mul(scores, weight)
            attention[source] = self.give(masked, f"attention{_suffix(source)}", "(Q X^T) * P")
        terms = [
            (1, build.mul(kept, build.dot(query, state, "K"))),
            (-1, build.mul(lost, build.dot(query, momentum, "K"))),
        ]
        if self.rule.retention.toward == "initial":
            origin = build.dot(query, self._origin(), "K")
            terms.append((1, build.mul(self._one_minus(kept), origin)))
        terms += [(-1, build.dot(attention[s], errors[s], s)) for s in self.sources]
        read = self.give(build.add(*terms), "reads", "diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E")
        if self.rule.read.normaliser == "sum":
            read = build.mul(read, self._inverse_total(query, kept, lost, attention))
        if self.rule.read.scale != "1":
            read = build.mul(build.leaf("scale", (), kind="host"), read)
        return self.give(read, "y", "the block's reads")

    def _inverse_total(self, query: Node, kept: Node, lost: Node, attention: dict[str, Node]) -> Node:
        """1 / (z . phi(q)); padding rows divide by one."""
        total = build.leaf("normaliser", ("K",), kind="carry")
        speed = build.leaf("normaliser_momentum", ("K",), kind="carry")
        terms = [
            (1, build.mul(kept, build.dot(query, total, "K"))),
            (-1, build.mul(lost, build.dot(query, speed, "K"))),
        ]
        terms += [(1, build.sum_(matrix, source)) for source, matrix in attention.items()]
        weight = self.give(build.add(*terms), "total_weight", "z . phi(q)")
        inverse = sympy.Piecewise((1 / x0, x1 > 0), (1, True))
        return self.give(build.map_(inverse, weight, live("r")), "inverse_total")

    def _origin(self) -> Node:
        return build.leaf("origin", ("K", "V"), kind="invariant")

    def _one_minus(self, kept: Node) -> Node:
        return build.map_(1 - x0, kept)


def _suffix(source: str) -> str:
    return "" if source == "s" else "_halo"

"""How much each source token counts in each read and in the next state: P and B of the dual form.

    B = D(theta) Gamma        P = D(alpha) diag(lr) B        (lr before D(theta) where lr_at = "gradient")

One object per weight of the memory: a rule may give a weight its own step size, decay and momentum. What a
rule does not use becomes zero, one or an identity matrix and vanishes in the constructors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import sympy

from atlasgen.derive.memory import Weight
from atlasgen.ir import build
from atlasgen.ir.node import Node
from atlasgen.ir.scalar import placeholder
from atlasgen.schedules.channels import Channels
from atlasgen.schedules.gates import SEGMENTS, Names, exists, gate, live, log_gate, suffix
from atlasgen.schedules.pair_steps import steps_pairs
from atlasgen.spec.rule import Gate, MemoryRule, Transform

x0 = placeholder(0)


@dataclass(frozen=True)
class WeightGates:
    """The gates of one weight: choices, and the names of their arguments."""

    lr: tuple[str, Gate]
    theta: tuple[str, Gate]
    alpha: tuple[str, Gate]
    transform: tuple[Transform, ...]


def weight_gates(rule: MemoryRule, weight: Weight) -> WeightGates:
    """The weight's gates: the rule's, or its own where a section weights.NAME gives them."""
    own = next((entry for entry in rule.weights if entry.name == weight.name), None)

    def chosen(name: str, common: Gate, special: Gate | None) -> tuple[str, Gate]:
        return (name, common) if special is None else (f"{name}_{weight.name}", special)

    transform = rule.optimizer.transform
    if own is not None and own.transform is not None:
        transform = own.transform
    return WeightGates(
        chosen("lr", rule.optimizer.lr, own and own.lr),
        chosen("log_theta", rule.optimizer.theta, own and own.theta),
        chosen("log_alpha", rule.retention.alpha, own and own.retention),
        transform if weight.is_matrix else (),
    )


class RowWeights:
    """The weights of rows for one weight of the memory."""

    def __init__(
        self,
        rule: MemoryRule,
        weight: Weight,
        gates: WeightGates,
        sources: tuple[str, ...],
        labels: Names,
    ) -> None:
        self.rule, self.weight, self.gates, self.sources, self.labels = rule, weight, gates, sources, labels
        self.momentum = rule.optimizer.kind == "momentum"
        self.window = int(rule.window.length)

    # -- windows -------------------------------------------------------------------------------------
    def window_gates(self) -> dict[str, Node]:
        """Gamma[i, source] for block and halo: the band of ages 0..c-1, padding rows empty."""
        matrices: dict[str, Node] = {}
        for source in self.sources:
            value = self._window_gate(source)
            if self.window > 1:
                value = build.mul(value, self.exists(source))
            value = build.mul(live("i"), value)
            matrices[source] = build.mask(value, "i", source, 0, self.window - 1)
        if self.rule.window.normalise == "mean":
            total = build.add(*(build.sum_(m, s) for s, m in matrices.items()))
            safe = sympy.Piecewise((1 / x0, sympy.Ne(x0, 0)), (0, True))
            inverse = build.map_(safe, total)
            self.labels.give(inverse, "window_mean", "1 / sum over the window of gamma")
            matrices = {source: build.mul(m, inverse) for source, m in matrices.items()}
        for source, matrix in matrices.items():
            name = f"window{suffix(source)}"
            self.labels.give(matrix, name, "Gamma: window gates by reader and source")
        return matrices

    def exists(self, source: str) -> Node:
        """1 in source rows that windows reach."""
        return exists(source)

    def _window_gate(self, source: str) -> Node:
        choice = self.rule.window.gate
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

    # -- products ------------------------------------------------------------------------------------
    def by_source(self, left: Node) -> dict[str, Node]:
        """left @ diag(lr) D(theta) Gamma by source; `left` is D(alpha) or its last row."""
        left = build.dot(self.step(left), build.decay(self.log_theta("i"), "j", "i"), "j")
        return self.windowed(left)

    def step(self, left: Node) -> Node:
        """left[.., j] @ diag(step size of the write).

        Momentum goes on in padding rows and a map of the gradient may give zero a value, so padding must not
        write; without them the gradient is zero there.
        """
        left, is_zero = self._stepped(left)
        needed = self.momentum or bool(self.gates.transform)
        return build.mul(left, live("j")) if needed and not is_zero else left

    def _stepped(self, left: Node) -> tuple[Node, bool]:
        """left @ diag(lr where lr_at = "update"), and whether loads give it 0 in padding rows."""
        if self.rule.optimizer.lr_at != "update":
            return left, False
        rate = self.rate("j")
        return build.mul(left, rate), rate.op == "leaf" and rate["kind"] == "token"

    def rate(self, dim: str) -> Node:
        """The step size along a row axis; 1 where it is a factor of keys or errors."""
        name, choice = self.gates.lr
        if steps_pairs(self.rule, choice):
            return build.const(1.0)
        return gate(name, choice, dim, 1.0)

    def windowed(self, left: Node) -> dict[str, Node]:
        """left[.., i] @ diag(lr if lr_at = "gradient") Gamma by source."""
        left = self.rated(left)
        return {source: build.dot(left, matrix, "i") for source, matrix in self.window_gates().items()}

    def rated(self, left: Node) -> Node:
        """left[.., i] @ diag(lr if lr_at = "gradient")."""
        return build.mul(left, self.rate("i")) if self.rule.optimizer.lr_at == "gradient" else left

    def log_theta(self, dim: str) -> Node:
        """The momentum's log decay; -inf without momentum: nothing older than the token stays."""
        if not self.momentum:
            return build.const(-math.inf)
        name, choice = self.gates.theta
        return log_gate(name, choice, dim)

    def log_alpha(self, dim: str) -> Node:
        """The memory's log decay, along the rows and, where it differs by channel, the channels."""
        name, choice = self.gates.alpha
        if choice.kind == "channel":
            return build.leaf(name, (dim, self._channel_axis), kind="token", segment="block")
        return log_gate(name, choice, dim)

    @property
    def _channel_axis(self) -> str:
        """The axis of the weight whose channels have decays of their own."""
        return self.weight.axes[-1] if self.gates.alpha[1].axis == "value" else self.weight.axes[0]

    @property
    def channels(self) -> Channels | None:
        """The decays by channel, None where one decay acts on the whole weight."""
        if self.gates.alpha[1].kind != "channel":
            return None
        return Channels(self.log_alpha("j"), self._channel_axis)

    def decay_of_row(self, dim: str) -> Node:
        """alpha of each row."""
        log = self.log_alpha(dim)
        return build.const(1.0) if build.is_const(log, 0.0) else build.map_(sympy.exp(x0), log)

    def momentum_weight(self, left: Node) -> Node:
        """left @ (lr * cumprod theta): the weight of the block's initial momentum."""
        weight = build.decay_from_start(self.log_theta("j"), "j")
        if build.is_const(weight, 0.0):
            return weight
        return build.dot(self.step(left), weight, "j")

    # -- the two ends of a block ---------------------------------------------------------------------
    def kept(self) -> Node:
        """a_C: the decay of the memory over the block."""
        kept = build.decay_whole(self.log_alpha("j"), "j")
        return self.labels.give(kept, "kept", "a_C: decay of the memory over the block")

    def written(self) -> tuple[Node, dict[str, Node]]:
        """b_C and p_C: the weights of the block's momentum and sources in the next memory."""
        left = build.decay_to_end(self.log_alpha("j"), "j")
        lost = self.momentum_weight(left)
        self.labels.give(lost, "momentum_written", "b_C: weight of the block's initial momentum")
        weights = self.by_source(left)
        for source, weight in weights.items():
            self.labels.give(weight, f"last_weights{suffix(source)}", "p_C: last row of P")
        return lost, weights

    def moved(self) -> tuple[Node, dict[str, Node]]:
        """theta_C and B_C: the weights of momentum and sources in the next momentum."""
        kept = build.decay_whole(self.log_theta("i"), "i")
        self.labels.give(kept, "momentum_kept", "decay of S over the block")
        weights = self.windowed(build.decay_to_end(self.log_theta("i"), "i"))
        for source, weight in weights.items():
            self.labels.give(weight, f"momentum_weights{suffix(source)}", "B_C: last row of D(theta) Gamma")
        return kept, weights

    def read(self, pre: bool) -> tuple[Node, Node, dict[str, Node]]:
        """a, b and P: the weights of memory, momentum and sources in each read.

        Where decays differ by channel, P is only the step of each source: the products of rows hold them.
        """
        if self.channels is None:
            left = build.decay(self.log_alpha("j"), "r", "j", exclusive=pre)
        else:
            left = live("j")
        weights = self.by_source(left)
        kept = build.decay_from_start(self.log_alpha("r"), "r", exclusive=pre)
        self.labels.give(kept, "read_decay", "a: decay of the memory since the block's start")
        lost = self.momentum_weight(left)
        self.labels.give(lost, "momentum_read", "b: weight of S in each read")
        for source, weight in weights.items():
            self.labels.give(weight, f"weights{suffix(source)}", "P: source weights by read")
        return kept, lost, weights


class GradientWeights(RowWeights):
    """The weights of whole gradients G_i [.., i], by row, not of the tokens that the window of row i sums."""

    def windowed(self, left: Node) -> dict[str, Node]:
        """left[.., i] @ diag(lr if lr_at = "gradient"), the same for all sources."""
        return dict.fromkeys(self.sources, self.rated(left))

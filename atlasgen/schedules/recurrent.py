"""One token at a time: blocks of one row, for every rule whose step is a formula in the memory's weights.

    M* = W, or its decayed value (decay_first)          G = sum over the window of gamma_i u_i (x) E_i at M*
    S' = theta S + G                                     U = a map of S' (theta S' + G with nesterov)
    W' = projection of alpha W (+ (1 - alpha) W_0) - lr U          y = f(link(W'), phi(q))

(DESIGN.md, section 1; lr stands before G where lr_at = "gradient".) The memory of each token exists, so
nothing has to be a sum of outer products: gates may differ by channel, the update may be clipped, mapped and
projected, and the memory read through a link. Where the rule has blocks, M* is the memory that the block
began with, a carry beside W.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import sympy

from atlasgen.derive.features import Featured
from atlasgen.derive.memory import Weight
from atlasgen.ir import build
from atlasgen.ir.node import ROWS, Node
from atlasgen.ir.outer import read_through, scaled
from atlasgen.ir.program import Carry
from atlasgen.ir.scalar import placeholder
from atlasgen.schedules.dual import Gradients, Pairs, outer_sum, retained
from atlasgen.schedules.gates import gate, live, where, within_block
from atlasgen.schedules.inner_gradient import Outer
from atlasgen.schedules.pair_steps import implicit_step
from atlasgen.schedules.pieces import InPieces
from atlasgen.schedules.token_maps import mapped
from atlasgen.spec.rule import Gate, MemoryRule, Transform

x0 = placeholder(0)


@dataclass(frozen=True)
class Factors:
    """What multiplies one weight at the token: a number, or a vector along one of the weight's axes."""

    lr: Node
    alpha: Node
    theta: Node


@dataclass(frozen=True)
class Moved:
    """A weight and its momentum after the token."""

    weight: Node
    momentum: Node


class RecurrentForm(InPieces):
    """A program whose blocks have one row."""

    def __init__(self, rule: MemoryRule) -> None:
        super().__init__(rule)
        self.factors = {weight.name: self._gates_of(weight) for weight in self.graph.weights}
        self.moved: dict[str, Moved] = {}
        self.total: Moved | None = None
        self.read_from: dict[str, Node] = {}
        self.own_pairs: Pairs = {}  # of rows before the token in its own block, where older ones keep errors
        self.own_points: Mapping[str, Node] = {}

    @property
    def block(self) -> int | None:
        """One row."""
        return 1

    @property
    def reader(self) -> str:
        """r: the one row."""
        return "r"

    def points(self) -> dict[str, Node]:
        """M*: each weight before the token, decayed where the rule says so, or before the token's block."""
        if self.bordered or self.rule.retention.order != "decay_first":
            return super().points()
        return {weight.name: self._kept(weight, self.states[weight.name]) for weight in self.graph.weights}

    # -- gates ---------------------------------------------------------------------------------------
    def _gates_of(self, weight: Weight) -> Factors:
        own = self.gates[weight.name]
        rate = self._factor(*own.lr, weight)
        if self.rule.optimizer.kind == "implicit":
            x = self.inner.features("s").node
            rate = implicit_step(rate, only_row(build.sum_(build.mul(x, x), self.input_axis)))
        theta = self._decay(*own.theta, weight) if self.momentum else build.const(0.0)
        return Factors(rate, self._decay(*own.alpha, weight), theta)

    def _factor(self, name: str, choice: Gate, weight: Weight) -> Node:
        """A gate at the token: of no axis, or along the input or output axis of a weight."""
        if choice.kind not in ("channel", "key", "value"):
            return only_row(gate(name, choice, "j", 1.0))
        on_value = choice.kind == "value" or choice.kind == "channel" and choice.axis == "value"
        axis = weight.axes[-1] if on_value else weight.axes[0]
        return only_row(build.leaf(name, ("j", axis), kind="token", segment="block"))

    def _decay(self, name: str, choice: Gate, weight: Weight) -> Node:
        """exp of a log gate; 1 in a row without a token."""
        if choice.kind == "none":
            return build.const(1.0)
        if choice.kind == "zero" or choice.kind == "constant" and choice.expression is None:
            return self._while_live(build.const(choice.value or 0.0), build.const(1.0))
        log = self._factor(name, choice, weight)
        value = build.map_(sympy.exp(x0), log)
        return self._while_live(value, build.const(1.0)) if choice.kind in ("constant", "head") else value

    def _while_live(self, value: Node, otherwise: Node) -> Node:
        return where(only_row(live("j")), value, otherwise)

    def _stepped(self, weight: str, source: str, pairs: list[Outer]) -> list[Outer]:
        """The pairs as they are: every step is one of the update."""
        return pairs

    # -- the update ----------------------------------------------------------------------------------
    def _find_pairs(self, points: Mapping[str, Node], previous: Mapping[str, Node]) -> None:
        """The memory and its momentum after the token."""
        super()._find_pairs(points, previous)
        if self.keeps:
            self.own_pairs, self.own_points = self.inner.pairs("h", self._linked(points)), points
        for weight in self.graph.weights:
            gradient = self._gradient(weight, partial(self.gradients, weight))
            self.give(gradient, weight.tensor("gradient"), "G: the window's gradient at M*")
            self.moved[weight.name] = self._advanced(
                weight, self.states[weight.name], self.speeds[weight.name], self._clipped(weight, gradient)
            )
        if self.rule.read.normaliser == "sum":
            self.total = self._advanced_total()

    def gradients(self, weight: Weight, source: str, weights: Node) -> list[Node]:
        """Terms of a weighted sum; rows before the token are of its own block, or keep older errors."""
        if source != "h" or not self.keeps:
            return super().gradients(weight, source, weights)
        own = within_block(source, self.rule.block.size)
        older = super().gradients(weight, source, build.mul(weights, build.sub(build.const(1.0), own)))
        kept = self._terms(weight, source, build.mul(weights, own), self.own_pairs, self.own_points)
        return [*older, *kept]

    def _map_tokens(self) -> None:
        """Nothing: a map of the momentum is part of the step."""

    def _gradient(self, weight: Weight, gradients: Gradients) -> Node:
        """G = sum over sources of gamma_i u_i (x) E_i."""
        gates = self.rows[weight.name].window_gates()
        parts = (gradients(source, build.sum_(matrix, "i")) for source, matrix in gates.items())
        return build.add(*(term for part in parts for term in part))

    def _clipped(self, weight: Weight, gradient: Node) -> Node:
        clip = self.rule.optimizer.clip
        if clip is None or clip.of != "window":
            return gradient
        return self._inside_ball(weight, gradient, clip.norm)

    def _inside_ball(self, weight: Weight, value: Node, radius: float) -> Node:
        """The value scaled to a norm of at most `radius`."""
        square = build.mul(value, value)
        for axis in weight.axes:
            square = build.sum_(square, axis)
        limit = sympy.Float(radius)
        scale = sympy.Piecewise((limit * x0 ** sympy.Rational(-1, 2), x0 > limit**2), (1, True))
        return build.mul(value, build.map_(scale, square))

    def _advanced(self, weight: Weight, state: Node, speed: Node, gradient: Node) -> Moved:
        """W' and S' from W, S and G."""
        update, moved = self._update(weight, speed, gradient, self.gates[weight.name].transform)
        written = build.sub(self._kept(weight, state), update)
        return Moved(self._projected(weight, written, state), moved)

    def _update(
        self, weight: Weight, speed: Node, gradient: Node, transforms: tuple[Transform, ...]
    ) -> tuple[Node, Node]:
        """lr U and S' from S and G."""
        factors = self.factors[weight.name]
        at_update = self.rule.optimizer.lr_at == "update"
        if not at_update:
            gradient = scaled(factors.lr, gradient)
        moved = build.add(build.mul(factors.theta, speed), gradient) if self.momentum else gradient
        update = moved
        if self.momentum and self.rule.optimizer.nesterov:
            update = build.add(build.mul(factors.theta, moved), gradient)
        straight = self.rule.gradient.newton_schulz == "straight_through"
        for transform in transforms:
            update = mapped(transform, update, weight, straight)
        rate = factors.lr if at_update else build.const(1.0)
        if self.momentum or transforms:  # without them the gradient is zero in a row without a token
            rate = build.mul(only_row(live("j")), rate)
        return scaled(rate, update), moved

    def _kept(self, weight: Weight, state: Node) -> Node:
        """alpha W (+ (1 - alpha) W_0)."""
        origin = self.leaf("origin", weight) if self.rule.retention.toward == "initial" else None
        return build.add(*retained(self.factors[weight.name].alpha, state, origin))

    def _projected(self, weight: Weight, written: Node, state: Node) -> Node:
        project = self.rule.retention.project
        if project.kind == "none":
            return written
        assert project.radius is not None
        if project.kind == "ball":
            inside = self._inside_ball(weight, written, project.radius)
        else:
            limit = sympy.Float(project.radius)
            inside = build.map_(
                sympy.Piecewise((limit, x0 > limit), (-limit, x0 < -limit), (x0, True)), written
            )
        return self._while_live(inside, state)

    def _advanced_total(self) -> Moved:
        """The normaliser's sum, which moves as the matrix does under a dot loss to the target one."""
        total = Weight("M", (self.input_axis,), ("F",))

        def ones(source: str, weights: Node) -> list[Node]:
            return [outer_sum(weights, Outer(self._keys(source), build.const(-1.0)), source)]

        state = build.leaf("normaliser", total.axes, kind="carry")
        speed = build.leaf("normaliser_momentum", total.axes, kind="carry")
        update, moved = self._update(total, speed, self._gradient(total, ones), ())
        return Moved(build.sub(build.mul(self.factors[total.name].alpha, state), update), moved)

    # -- the program's ends --------------------------------------------------------------------------
    def _carries(self, points: Mapping[str, Node], previous: Mapping[str, Node]) -> list[Carry]:
        carries = []
        for weight in self.graph.weights:
            moved = self.moved[weight.name]
            written = self.give(moved.weight, weight.tensor("memory") + "_next", "M after the token")
            carries.append(Carry(weight.tensor("memory"), self.states[weight.name], written))
        carries += self._borders(carries, points, previous)
        if self.total is not None:
            state = build.leaf("normaliser", (self.input_axis,), kind="carry")
            carries.append(Carry("normaliser", state, self.give(self.total.weight, "normaliser_next")))
        for weight in self.graph.weights if self.momentum else ():
            moved = self.give(
                self.moved[weight.name].momentum, weight.tensor("momentum_next"), "S after the token"
            )
            carries.append(Carry(weight.tensor("momentum"), self.speeds[weight.name], moved))
        if self.momentum and self.total is not None:
            speed = build.leaf("normaliser_momentum", (self.input_axis,), kind="carry")
            carries.append(Carry("normaliser_momentum", speed, self.total.momentum))
        return carries

    def _read(self, points: Mapping[str, Node]) -> Node:
        """The read of link(W'), of link(W) where the rule reads before it writes, or of the border's."""
        after = {name: moved.weight for name, moved in self.moved.items()}
        values = {"post": after, "pre": self.states, "block": points}[self.rule.read.at]
        self.read_from = self._linked(values)
        return super()._read(values)

    def _read_weight(self, weight: Weight, bias: Weight | None, value: Node) -> Node:
        result = read_through(value, self.read_from[weight.name], weight.axes[0])
        return result if bias is None else build.add(result, self.read_from[bias.name])

    def _inverse_total(self, query: Featured) -> Node:
        """1 / (z . phi(q)); padding rows divide by one."""
        assert self.total is not None
        weight = build.dot(query.node, self.total.weight, self.input_axis)
        return self._inverse(self.give(weight, "total_weight", "z . phi(q)"))


def only_row(node: Node) -> Node:
    """The value of the block's one row, without the row axis."""
    for axis in ROWS & set(node.dims):
        node = build.sum_(node, axis)
    return node

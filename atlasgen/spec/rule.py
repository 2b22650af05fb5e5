"""The memory rule: what every later stage reads, frozen and fully defaulted.

A :class:`MemoryRule` is the validated content of one spec file (GRAMMAR of the project; symbols and
semantics in docs). Nothing in it is a tensor and nothing depends on torch: it can be hashed, compared and
printed. Field names are the grammar's own; where the grammar allows several spellings of a value (a
number or a word), the rule holds one normal form.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field
from typing import Any, Literal

from atlasgen.spec.expression import names_in
from atlasgen.spec.graph import is_linear_graph

GateKind = Literal["none", "constant", "head", "token", "channel", "key", "value", "pair", "position", "zero"]


@dataclass(frozen=True)
class Gate:
    """Where a multiplier of the rule comes from.

    kind "none": the neutral value (1, or for theta and window gates: absent); "zero": exactly 0;
    "constant": the number `value` or the expression `expression` in `head` (0, 1, ... H-1), exactly one
    of them set; "head": an argument of shape [H]; "token": [B, T, H]; "channel": [B, T, H, K] (or V,
    see `axis`); "key": [B, T, H, K]; "value": [B, T, H, V]; "pair": [B, T, H, c], entry j is age j;
    "position": [H, c], entry j is age j.
    """

    kind: GateKind = "none"
    value: float | None = None
    expression: str | None = None
    axis: Literal["key", "value"] = "key"

    @property
    def is_argument(self) -> bool:
        """True where the caller of the operator passes the gate as a tensor."""
        return self.kind not in ("none", "zero", "constant")


@dataclass(frozen=True)
class Link:
    """A map applied to the accumulated state before it is read (Memora: softmax, Moneta: q-norm)."""

    kind: Literal["none", "softmax", "qnorm", "expr"] = "none"
    axis: Literal["row", "column"] = "row"
    total: float = 1.0
    q: float = 4.0
    expression: str | None = None
    where: Literal["token", "block"] = "token"


@dataclass(frozen=True)
class Memory:
    """The associative memory f(M, x). kind "graph" is described by `f` and `weights`."""

    kind: Literal["matrix", "mlp", "gated_mlp", "swiglu", "graph"] = "matrix"
    depth: int = 2
    hidden: str = "4*K"
    act: str = "gelu"
    bias: bool = False
    residual: Literal["none", "x", "key"] = "none"
    norm: Literal["none", "layer", "rms"] = "none"
    initial: Literal["zero", "learned", "given", "normal"] = "zero"
    link: Link = field(default_factory=Link)
    f: str | None = None
    weights: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def weight_names(self) -> tuple[str, ...]:
        """The weights in the order of the state: matrices first, then their biases."""
        if self.kind == "graph":
            return tuple(name for name, _ in self.weights)
        if self.kind == "matrix":
            return ("M", "b") if self.bias else ("M",)
        layers = range(1, (self.depth if self.kind == "mlp" else 3) + 1)
        biases = [f"b{layer}" for layer in layers] if self.bias else []
        return (*(f"W{layer}" for layer in layers), *biases)

    @property
    def is_linear(self) -> bool:
        """True where f(M, x) is linear (or affine) in the weights: no layer, norm or link bends it."""
        if self.norm != "none" or self.link.kind != "none":
            return False
        if self.kind == "graph":
            return self.f is not None and is_linear_graph(self.f, self.weights)
        return self.kind == "matrix" or (self.kind == "mlp" and self.depth == 1)


@dataclass(frozen=True)
class Features:
    """The feature map phi. `expression` (kind "expr") is in x, elementwise."""

    kind: Literal["identity", "relu", "silu", "elu1", "l2norm", "softmax", "poly", "exp", "expr"] = "identity"
    degree: int = 2
    basis: Literal["symmetric", "kronecker", "powers", "projected"] = "symmetric"
    out_dim: int | None = None
    coefficients: Literal["taylor", "learned"] | tuple[float, ...] = "taylor"
    on: Literal["qk", "q", "k"] = "qk"
    expression: str | None = None


@dataclass(frozen=True)
class LossTerm:
    """One term of the inner loss l(pred, v); several terms add up.

    "dot": -<pred, v>. "l2": 0.5 |pred - v|^2. "lp": sum |pred - v|^p / p (eps > 0 smooths it:
    ((pred - v)^2 + eps)^(p/2) / p). "huber": threshold `delta` (a number, or the name of an input).
    "expr": `expression`. per = "element": the expression is in `pred` and `v` (scalars) and is summed
    over V; per = "row": in `norm`, the Euclidean norm of pred - v. Both may name the rule's inputs.
    `lr` names an input that scales the term, `key`, `write` and `target` name other inputs (RWKV-7).
    """

    kind: Literal["dot", "l2", "lp", "huber", "expr"] = "l2"
    p: float = 3.0
    eps: float = 0.0
    delta: float | str = 1.0
    per: Literal["element", "row"] = "element"
    key: str = "k"
    target: str = "v"
    write: str | None = None
    lr: str | None = None
    expression: str | None = None


@dataclass(frozen=True)
class Window:
    """The Omega window: the last `length` tokens count in each update."""

    length: int | Literal["all"] = 1
    gate: Gate = field(default_factory=Gate)
    boundary: Literal["halo", "carry", "truncate"] = "halo"
    normalise: Literal["sum", "mean"] = "sum"


@dataclass(frozen=True)
class Block:
    """Inner gradients are taken at the memory of the last border of a block of `size` tokens.

    write "block": the memory changes when a block is full, and momentum "block" with it; gates that
    act then are those of the block's last token, or the mean of its tokens' (gate_pool). row_scale:
    inside a block the memory is M* less a factor of the row times the sum of the block's updates.
    """

    size: int = 1
    write: Literal["token", "block"] = "token"
    momentum: Literal["token", "block"] = "token"
    row_scale: Literal["none", "position", "token"] = "none"
    gate_pool: Literal["last", "mean"] = "last"
    partial: Literal["update", "skip"] = "update"


@dataclass(frozen=True)
class Transform:
    """A map of the momentum (or gradient) before it is written, in the order of the list."""

    kind: Literal["newton_schulz", "sign", "frobenius", "expr"]
    coefficients: tuple[tuple[float, float, float], ...] = ((3.4445, -4.7750, 2.0315),) * 5
    steps: int = 5
    at: Literal["token", "block"] = "token"
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    expression: str | None = None


@dataclass(frozen=True)
class Clip:
    """Norm clipping of one token's, window's or block's gradient per weight."""

    norm: float
    of: Literal["token", "window", "block"] = "token"


@dataclass(frozen=True)
class Optimizer:
    """How gradients become updates. lr multiplies the whole windowed gradient G_t (the reader's row).

    eps: the number of that name in `step`. micro_steps: the steps that a token takes one after another,
    each with a key, a value and a step size of its own.
    """

    kind: Literal["gd", "momentum", "implicit", "least_squares"] = "gd"
    lr: Gate = field(default_factory=Gate)
    lr_at: Literal["update", "gradient"] = "update"
    theta: Gate = field(default_factory=Gate)
    nesterov: bool = False
    second: Gate = field(default_factory=Gate)
    transform: tuple[Transform, ...] = ()
    step: str | None = None
    eps: float = 1e-6
    clip: Clip | None = None
    micro_steps: int = 1
    solver: str | None = None
    steps: int | None = None
    ridge: str | None = None


@dataclass(frozen=True)
class Project:
    """A projection of the memory after the update."""

    kind: Literal["none", "row_norm", "ball", "clamp"] = "none"
    to: Literal["initial"] | None = None
    radius: float | None = None


@dataclass(frozen=True)
class Retention:
    """alpha: gate kind none (1), constant, zero, head, token or channel; argument name `log_alpha`."""

    alpha: Gate = field(default_factory=Gate)
    order: Literal["error_first", "decay_first"] = "error_first"
    toward: Literal["zero", "initial"] = "zero"
    project: Project = field(default_factory=Project)


@dataclass(frozen=True)
class Read:
    """y_t = scale * f(M, phi(q_t)) / normaliser; `scale` is an expression in K (and F, V).

    normaliser "sum": the memory's total weight z_t . phi(q_t), where z follows the memory's recursion
    with the gradient -phi(k) of a dot loss to a target of one.
    """

    at: Literal["post", "pre", "block"] = "post"
    normaliser: Literal["none", "sum", "softmax", "max1"] = "none"
    scale: str = "1"
    f: str | None = None


@dataclass(frozen=True)
class WeightOverride:
    """Per-weight choices (section `weights.NAME`); None means: as the rule's own section says."""

    name: str
    lr: Gate | None = None
    theta: Gate | None = None
    retention: Gate | None = None
    transform: tuple[Transform, ...] | None = None


@dataclass(frozen=True)
class Gradient:
    """Which outer derivatives flow."""

    newton_schulz: Literal["full", "straight_through"] = "full"
    state: Literal["full"] | int = "full"
    inner: Literal["full", "first_order"] = "full"


@dataclass(frozen=True)
class Input:
    """An extra tensor argument. Shapes: token [B,T,H], head [H], head_key [H,K], key [B,T,H,K],
    value [B,T,H,V], pair [B,T,H,c]."""

    name: str
    shape: Literal["token", "head", "head_key", "key", "value", "pair"]
    range: Literal["any", "positive", "unit", "log_decay"] = "any"


@dataclass(frozen=True)
class LayerGate:
    """How the layer makes a gate from its input: activation(low-rank projection + bias) * max."""

    name: str
    activation: Literal["sigmoid", "softplus", "identity"] = "sigmoid"
    bias: bool = True
    init: float | None = None
    rank: int | None = None
    max: float | None = None


@dataclass(frozen=True)
class Layer:
    """The projections and norms around the memory; not part of the rule's hash."""

    conv: int = 4
    qk_norm: Literal["l2", "rms", "none"] = "l2"
    activation: Literal["silu", "none"] = "silu"
    output_gate: bool = True
    key_size: int | None = None
    value_size: int | None = None
    gates: tuple[LayerGate, ...] = ()


@dataclass(frozen=True)
class MemoryRule:
    """One rule, complete. Equality is by content; `hash` ignores name, doc and layer."""

    name: str
    schema: int = 1
    doc: str = ""
    memory: Memory = field(default_factory=Memory)
    features: Features = field(default_factory=Features)
    loss: tuple[LossTerm, ...] = (LossTerm(),)
    window: Window = field(default_factory=Window)
    block: Block = field(default_factory=Block)
    optimizer: Optimizer = field(default_factory=Optimizer)
    retention: Retention = field(default_factory=Retention)
    read: Read = field(default_factory=Read)
    weights: tuple[WeightOverride, ...] = ()
    gradient: Gradient = field(default_factory=Gradient)
    inputs: tuple[Input, ...] = ()
    layer: Layer = field(default_factory=Layer)
    source: str | None = field(default=None, compare=False)  # the file it came from, for messages

    def canonical(self) -> dict[str, Any]:
        """Plain nested dict of everything that changes the result (no name, doc, layer, source)."""
        content = dataclasses.asdict(self)
        for key in ("name", "doc", "layer", "source"):
            del content[key]
        if self.optimizer.step is None:  # nothing else reads it
            del content["optimizer"]["eps"]
        return content

    @property
    def hash(self) -> str:
        """Twelve hex digits that change when, and only when, the computed function may change."""
        text = json.dumps(self.canonical(), sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def depends_on_memory(self) -> bool:
        """True where the inner gradient depends on the point M* at which it is taken.

        Only a loss linear in pred (dot) over a memory linear in M is free of M*; then every block
        size is the same rule. A bias or a residual changes nothing in that, a norm or a layer does.
        """
        return not (self.memory.is_linear and all(term.kind == "dot" for term in self.loss))

    @property
    def held(self) -> bool:
        """True where the memory stays at the border's value until its block is full.

        The open block's sum is then part of the state, and M* is the memory itself.
        """
        return self.block.write == "block" or self.block.row_scale != "none"

    @property
    def norm(self) -> Literal["none", "layer", "rms"]:
        """The norm whose gain (and, of a layer norm, bias) are arguments of the operator.

        It is the memory's; where only the read's f normalises, a layer norm.
        """
        if self.memory.norm == "none" and self.read.f is not None and "norm" in names_in(self.read.f):
            return "layer"
        return self.memory.norm

    def gates_of(self, weight: str) -> dict[str, tuple[str, Gate]]:
        """What moves one weight: lr, log_alpha and log_theta -> (the argument's name, the gate).

        A weight with a gate of its own has an argument of its own, `lr_W1`.
        """
        own = self._override(weight)
        gates: dict[str, tuple[str, Gate]] = {}
        for name, common, override in (
            ("lr", self.optimizer.lr, own.lr),
            ("log_alpha", self.retention.alpha, own.retention),
            ("log_theta", self.optimizer.theta, own.theta),
        ):
            gates[name] = (name, common) if override is None else (f"{name}_{weight}", override)
        return gates

    def transform_of(self, weight: str) -> tuple[Transform, ...]:
        """The transforms of one weight: its own, or the rule's."""
        own = self._override(weight).transform
        return self.optimizer.transform if own is None else own

    def _override(self, weight: str) -> WeightOverride:
        return next((item for item in self.weights if item.name == weight), WeightOverride(weight))

    @property
    def gates(self) -> dict[str, Gate]:
        """Every gate that some weight or the window uses, by the name that its argument has.

        lr, then those of single weights; log_alpha and log_theta the same way; gamma. Constants are
        among them: `is_argument` tells.
        """
        found: dict[str, Gate] = {}
        for name in ("lr", "log_alpha", "log_theta"):
            used = dict(self.gates_of(weight)[name] for weight in self.memory.weight_names)
            found |= {argument: used[argument] for argument in sorted(used, key=lambda a: a != name)}
        return found | {"gamma": self.window.gate}

    def by_step(self, name: str) -> bool:
        """True where a token has a row of that argument for each of its micro-steps, [B, T, n, ...].

        Those are keys, values, steps and what else the loss reads per token: a token decays and is read once.
        """
        if self.optimizer.micro_steps == 1:
            return False
        declared, gate = self.input_named(name), self.gates.get(name)
        if declared is not None:
            return declared.shape in ("token", "key", "value")
        if gate is not None:
            is_step = name == "lr" or name.startswith("lr_")
            return is_step and gate.kind in ("token", "key", "value")
        return name in ("k", "v")

    def input_named(self, name: str) -> Input | None:
        """The declared extra input of that name, or None."""
        return next((entry for entry in self.inputs if entry.name == name), None)

    def stands_for(self, name: str) -> Literal["key", "value"] | None:
        """What rows an input takes the place of: keys that a term predicts from or writes at, or values
        that it aims at; None for gates, steps and parameters."""
        if self.input_named(name) is None:
            return None
        if any(name in (term.key, term.write) for term in self.loss):
            return "key"
        return "value" if any(name == term.target for term in self.loss) else None

"""The arguments of an operator and the parts of its state, from its rule: names, and shapes in symbols."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from atlasgen.errors import ArgumentError
from atlasgen.spec.refusal import keeps_size
from atlasgen.spec.rule import MemoryRule
from atlasgen.spec.shapes import Extent, extent, is_only_matrix, weight_expressions
from atlasgen.spec.sizes import check_sizes, feature_extent

Shape = tuple[str | int | Extent, ...]
Role = Literal["projection", "gate", "log_gate", "input", "constant", "state", "option"]

SYMBOLS = (
    "B batch, T tokens, H memory (value) heads, Hq query heads, Hk key heads, K key size, "
    "V value size, F feature size, N sequences"
)


@dataclass(frozen=True)
class Argument:
    """One argument of an operator: its name, shape in symbols, and what it means.

    role "constant": a number that the rule learns and that no token changes (a gain, a coefficient).
    """

    name: str
    shape: Shape
    role: Role
    required: bool
    meaning: str
    range: str = "any"

    def __str__(self) -> str:
        shape = symbolic(self.shape) if self.shape else ""
        need = "required" if self.required else "optional"
        return f"{self.name:<20} {shape:<14} {self.dtypes:<26} {need}: {self.meaning}"

    @property
    def dtypes(self) -> str:
        """The dtypes that are accepted, in words."""
        if self.role == "projection":
            return "float32, bfloat16, float16"
        if self.role == "option":
            return ""
        return "floating point, to float32"

    @property
    def per_token(self) -> bool:
        """True where the tensor has a row for each token: [B, T, ...]."""
        return self.shape[:2] == ("B", "T")


@dataclass(frozen=True)
class Signature:
    """All arguments of a rule's operator, in the order in which they are documented.

    features: F by K, None where a rule's features have no number. joins: the rule adds keys to values, so
    K = V. steps: micro-steps of a token.
    """

    rule: str
    arguments: tuple[Argument, ...]
    features: Extent | None = None
    joins: bool = False
    steps: int = 1

    def __str__(self) -> str:
        equal = "; K = V" if self.joins else ""
        lines = [f"{self.rule}: y [B, T, max(Hq, H), V] in v's dtype; {SYMBOLS}{equal}"]
        return "\n".join(lines + [f"  {argument}" for argument in self.arguments])

    def __repr__(self) -> str:
        return str(self)

    def named(self, name: str) -> Argument | None:
        """The argument of that name, or None."""
        return next((entry for entry in self.arguments if entry.name == name), None)

    def shape_of(self, name: str) -> Shape:
        """The shape in symbols of an argument that the rule has."""
        return next(entry.shape for entry in self.arguments if entry.name == name)

    @property
    def tensors(self) -> tuple[Argument, ...]:
        """The rule's own tensor arguments besides q, k, v: its gates, inputs and learned constants."""
        roles = ("gate", "log_gate", "input", "constant")
        return tuple(entry for entry in self.arguments if entry.role in roles)


class Sizes(NamedTuple):
    """The sizes of one call; `sequences` is B, or with cu_seqlens the number of packed ones."""

    batch: int
    tokens: int
    query_heads: int
    key_heads: int
    heads: int
    key: int
    value: int
    features: int
    sequences: int

    @property
    def symbols(self) -> dict[str, int]:
        """Sizes by the letters of shapes in symbols."""
        return {
            "B": self.batch,
            "T": self.tokens,
            "Hq": self.query_heads,
            "Hk": self.key_heads,
            "H": self.heads,
            "K": self.key,
            "V": self.value,
            "F": self.features,
            "N": self.sequences,
        }


_GATE_MEANINGS = {
    "lr": "step size",
    "log_alpha": "log of the retention, <= 0; -inf forgets everything",
    "log_theta": "log of the momentum's decay, <= 0; -inf means zero",
    "gamma": "weight of the window's tokens",
}


def _gate_shape(kind: str, axis: str, window: int | str) -> Shape:
    """Shape in symbols of a gate or input of that kind."""
    channel = "K" if axis == "key" else "V"
    return {
        "head": ("H",),
        "token": ("B", "T", "H"),
        "channel": ("B", "T", "H", channel),
        "key": ("B", "T", "H", "K"),
        "value": ("B", "T", "H", "V"),
        "head_key": ("H", "K"),
        "pair": ("B", "T", "H", window),
        "position": ("H", window),
    }[kind]


def _by_step(rule: MemoryRule, name: str, shape: Shape) -> Shape:
    """The shape of an argument per token, with a row for each micro-step where the rule takes some."""
    return (*shape[:2], rule.optimizer.micro_steps, *shape[2:]) if rule.by_step(name) else shape


def signature_of(rule: MemoryRule) -> Signature:
    """The arguments of the operator of `rule`."""
    keys, values = (_by_step(rule, name, ("B", "T", *own)) for name, own in
                    (("k", ("Hk", "K")), ("v", ("H", "V"))))  # fmt: skip
    return Signature(
        rule.name,
        (
            Argument("q", ("B", "T", "Hq", "K"), "projection", True, "queries"),
            Argument("k", keys, "projection", True, "keys"),
            Argument("v", values, "projection", True, "values"),
            *_gates(rule),
            *_inputs(rule),
            *_constants(rule),
            _initial_memory(rule),
            *_options(),
        ),
        None if rule.features.kind == "exp" else feature_extent(rule.features),
        _joins(rule),
        rule.optimizer.micro_steps,
    )


def _joins(rule: MemoryRule) -> bool:
    """True where keys and values are added, tried at sizes that no fraction or multiple makes equal."""
    key, value, features = 9 << 20, 25 << 20, 49 << 20
    try:
        check_sizes(rule, {"K": key, "V": value, "F": key if keeps_size(rule) else features})
    except ArgumentError:
        return True
    return False


def _gates(rule: MemoryRule) -> list[Argument]:
    found = []
    for name, gate in rule.gates.items():
        if not gate.is_argument:
            continue
        common = next(known for known in _GATE_MEANINGS if name == known or name.startswith(f"{known}_"))
        meaning = _GATE_MEANINGS[common]
        if name != common:
            meaning = f"that of the weight {name.removeprefix(f'{common}_')}: {meaning}"
        role: Role = "log_gate" if common.startswith("log_") else "gate"
        shape = _by_step(rule, name, _gate_shape(gate.kind, gate.axis, rule.window.length))
        found.append(Argument(name, shape, role, True, meaning))
    if rule.block.row_scale == "token":
        meaning = "what the sum of the block's updates is multiplied by where this token reads"
        found.append(Argument("row_scale", ("B", "T", "H"), "gate", True, meaning))
    return found


def _inputs(rule: MemoryRule) -> list[Argument]:
    found = []
    for entry in rule.inputs:
        shape = _by_step(rule, entry.name, _gate_shape(entry.shape, "key", rule.window.length))
        meaning = f"input of the rule, range {entry.range}"
        found.append(Argument(entry.name, shape, "input", True, meaning, entry.range))
    return found


def _constants(rule: MemoryRule) -> list[Argument]:
    """What the rule learns besides its memory, one set for each head."""
    found = []
    if rule.features.kind == "poly" and rule.features.coefficients == "learned":
        shape: Shape = ("H", rule.features.degree + 1)
        meaning = "factor of each degree in phi(q).phi(k), from degree 0"
        found.append(Argument("coefficients", shape, "constant", True, meaning, "positive"))
    if rule.norm != "none":
        found.append(Argument("norm_gain", ("H", "V"), "constant", False, "gain of the norm, default 1"))
    if rule.norm == "layer":
        found.append(Argument("norm_bias", ("H", "V"), "constant", False, "bias of the norm, default 0"))
    if rule.block.row_scale == "position":
        meaning = "what the sum of the block's updates is multiplied by at position i, default 1 / (i + 1)"
        found.append(Argument("row_scale", ("H", rule.block.size), "constant", False, meaning))
    return found


def _initial_memory(rule: MemoryRule) -> Argument:
    weights = weight_shapes(rule)
    batched = "or each with sequences first, [N, H, ..]; not with initial_state"
    if is_only_matrix(rule.memory):
        shape: Shape = ("H", *weights["M"])
        what = "memory before the first token, or [N, H, F, V], or {'M': ..}; not with initial_state"
    else:
        shape = ()
        entries = ", ".join(f"'{name}': {symbolic(('H', *own))}" for name, own in weights.items())
        what = f"weights before the first token, {{{entries}}}, {batched}"
    return Argument("initial_memory", shape, "state", rule.memory.initial != "zero", what)


def _options() -> list[Argument]:
    return [
        Argument(name, (), "option", False, meaning)
        for name, meaning in (
            ("initial_state", "OperatorState of a former call of this rule"),
            ("output_final_state", "True to return the OperatorState after the last token"),
            (
                "cu_seqlens",
                "int32 or int64 [N + 1] on v's device: borders of sequences packed in one row",
            ),
            ("debug", "True to check values too (synchronises with the device)"),
        )
    ]


# --------------------------------------------------------------------------------------------------
# state


def weight_shapes(rule: MemoryRule) -> dict[str, Shape]:
    """The shape of each of the memory's weights in symbols, (in, out) or (out,) of a bias."""
    return {
        name: tuple(size if size in ("K", "V", "F") else extent(size) for size in shape)
        for name, shape in weight_expressions(rule.memory).items()
    }


def state_shapes(rule: MemoryRule) -> dict[str, Shape]:
    """Shapes in symbols of the rule's OperatorState, by full names ("window.k", ...)."""
    weights = weight_shapes(rule)
    bare = is_only_matrix(rule.memory)

    def of_weights(part: str) -> dict[str, Shape]:
        return {f"{part}.{name}": ("N", "H", *shape) for name, shape in weights.items()}

    def of_block(entry: str) -> dict[str, Shape]:
        return {f"block.{entry}": ("N", "H", *weights["M"])} if bare else of_weights(f"block.{entry}")

    momentum = rule.optimizer.kind == "momentum"
    shapes = of_weights("memory")
    if momentum:
        shapes |= of_weights("momentum")
    if rule.read.normaliser == "sum":
        shapes["normaliser.z"] = ("N", "H", "F")
        if momentum:
            shapes["normaliser.momentum"] = ("N", "H", "F")
    shapes |= _window_shapes(rule)
    if _keeps_anchor(rule):
        shapes |= of_block("anchor")
    if _keeps_previous(rule):
        shapes |= of_block("previous")
    if _keeps_update(rule):
        shapes |= of_block("update")
    shapes |= {f"block.{name}": ("N", "H") for name in _pools(rule)}
    shapes["position"] = ("N",)
    if rule.retention.toward == "initial" or rule.retention.project.kind == "row_norm":
        shapes |= of_weights("origin")
    return shapes


def _window_shapes(rule: MemoryRule) -> dict[str, Shape]:
    """The last c - 1 rows of what a window reads of its tokens."""
    kept = window_rows(rule)
    if not kept:
        return {}
    shapes: dict[str, Shape] = {"window.k": ("N", kept, "H", "K"), "window.v": ("N", kept, "H", "V")}
    own = {"key": ("K",), "value": ("V",)}
    kinds = {entry.name: own.get(entry.shape, ()) for entry in rule.inputs}
    for name in window_gates(rule):
        shapes[f"window.{name}"] = ("N", kept, "H", *kinds.get(name, ()))
    return shapes


def _keeps_anchor(rule: MemoryRule) -> bool:
    """M* of the open block; a held memory is its own M*."""
    used = rule.depends_on_memory or rule.read.at == "block"
    return used and rule.block.size > 1 and not rule.held


def _keeps_previous(rule: MemoryRule) -> bool:
    """M* of the block before, at which a window keeps its errors."""
    carries = window_rows(rule) > 0 and rule.window.boundary == "carry"
    return carries and rule.block.size > 1 and rule.depends_on_memory


def _keeps_update(rule: MemoryRule) -> bool:
    """The open block's sum of updates; momentum per token takes its place where a block is written."""
    block = rule.block
    in_momentum = rule.optimizer.kind == "momentum" and block.momentum == "token"
    return rule.held and not (block.write == "block" and in_momentum)


def _pools(rule: MemoryRule) -> list[str]:
    """Sums of gates per token whose mean over the block acts when it is full."""
    block, optimizer = rule.block, rule.optimizer
    if block.write != "block" or block.gate_pool != "mean":
        return []
    used = {"log_alpha": True, "lr": optimizer.lr_at == "update", "log_theta": block.momentum == "block"}
    found = []
    for weight in rule.memory.weight_names:
        for gate, (name, kind) in rule.gates_of(weight).items():
            if used[gate] and kind.kind == "token":
                found.append(f"pool_{name.removeprefix('log_')}")
    return list(dict.fromkeys(found))


def window_rows(rule: MemoryRule) -> int:
    """Tokens that the state's window holds: c - 1."""
    return rule.window.length - 1 if isinstance(rule.window.length, int) else 0


def window_gates(rule: MemoryRule) -> tuple[str, ...]:
    """Per-token arguments that a window carries with its keys and values."""
    gamma = ("gamma",) if rule.window.gate.kind == "token" else ()
    return gamma + tuple(entry.name for entry in rule.inputs if entry.shape in ("token", "key", "value"))


# --------------------------------------------------------------------------------------------------
# shapes


def resolve(shape: Shape, symbols: Mapping[str, int]) -> tuple[int, ...]:
    """A shape in symbols as numbers; symbols: the letters' sizes, K, V and F for expressions in them."""
    return tuple(
        symbols[size] if isinstance(size, str) else size if isinstance(size, int) else size.at(symbols)
        for size in shape
    )


def symbolic(shape: Shape) -> str:
    """A shape in symbols as text: [B, T, H]."""
    return f"[{', '.join(str(size) for size in shape)}]"

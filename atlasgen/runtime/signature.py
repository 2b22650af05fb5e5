"""The arguments of an operator, from its rule, and the checks of a call against them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from atlasgen.errors import ArgumentError
from atlasgen.spec.rule import Gate, MemoryRule

Shape = tuple[str | int, ...]
Role = Literal["projection", "gate", "log_gate", "input", "state", "option"]

PROJECTION_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
GATE_DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
SYMBOLS = (
    "B batch, T tokens, H memory (value) heads, Hq query heads, Hk key heads, K key size, "
    "V value size, F feature size, N sequences"
)
LAYOUT = "the layout is [batch, tokens, heads, size]; from [B, H, T, K] call transpose(1, 2)"


@dataclass(frozen=True)
class Argument:
    """One argument of an operator: its name, shape in symbols, and what it means."""

    name: str
    shape: Shape
    role: Role
    required: bool
    meaning: str
    range: str = "any"

    def __str__(self) -> str:
        shape = f"[{', '.join(str(size) for size in self.shape)}]" if self.shape else ""
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


@dataclass(frozen=True)
class Signature:
    """All arguments of a rule's operator, in the order in which they are documented."""

    rule: str
    arguments: tuple[Argument, ...]

    def __str__(self) -> str:
        lines = [f"{self.rule}: y [B, T, max(Hq, H), V] in v's dtype; {SYMBOLS}"]
        return "\n".join(lines + [f"  {argument}" for argument in self.arguments])

    def __repr__(self) -> str:
        return str(self)

    def named(self, name: str) -> Argument | None:
        """The argument of that name, or None."""
        return next((entry for entry in self.arguments if entry.name == name), None)

    @property
    def tensors(self) -> tuple[Argument, ...]:
        """The rule's own tensor arguments besides q, k, v: its gates, then its inputs."""
        return tuple(entry for entry in self.arguments if entry.role in ("gate", "log_gate", "input"))


class Sizes(NamedTuple):
    """The sizes of one call; `sequences` is B, or with cu_seqlens the number of packed ones."""

    batch: int
    tokens: int
    query_heads: int
    key_heads: int
    heads: int
    key: int
    value: int
    sequences: int

    @property
    def symbols(self) -> dict[str, int]:
        """Sizes by the letters of shapes in symbols; elementwise features have F = K."""
        return {
            "B": self.batch,
            "T": self.tokens,
            "Hq": self.query_heads,
            "Hk": self.key_heads,
            "H": self.heads,
            "K": self.key,
            "V": self.value,
            "F": self.key,
            "N": self.sequences,
        }


def rule_gates(rule: MemoryRule) -> dict[str, Gate]:
    """The rule's four gates by the names of their arguments."""
    return {
        "lr": rule.optimizer.lr,
        "log_alpha": rule.retention.alpha,
        "log_theta": rule.optimizer.theta,
        "gamma": rule.window.gate,
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


def signature_of(rule: MemoryRule) -> Signature:
    """The arguments of the operator of `rule`."""
    window = rule.window.length
    found = [
        Argument("q", ("B", "T", "Hq", "K"), "projection", True, "queries"),
        Argument("k", ("B", "T", "Hk", "K"), "projection", True, "keys"),
        Argument("v", ("B", "T", "H", "V"), "projection", True, "values"),
    ]
    for name, gate in rule_gates(rule).items():
        if gate.is_argument:
            role: Role = "log_gate" if name.startswith("log_") else "gate"
            shape = _gate_shape(gate.kind, gate.axis, window)
            found.append(Argument(name, shape, role, True, _GATE_MEANINGS[name]))
    for entry in rule.inputs:
        shape = _gate_shape(entry.shape, "key", window)
        meaning = f"input of the rule, range {entry.range}"
        found.append(Argument(entry.name, shape, "input", True, meaning, entry.range))
    found.append(
        Argument(
            "initial_memory",
            ("H", "F", "V"),
            "state",
            rule.memory.initial in ("learned", "given"),
            "memory before the first token, or [N, H, F, V], or {'M': ..}; not with initial_state",
        )
    )
    for name, meaning in (
        ("initial_state", "OperatorState of a former call of this rule"),
        ("output_final_state", "True to return the OperatorState after the last token"),
        (
            "cu_seqlens",
            "int32 or int64 [N + 1] on v's device: borders of sequences packed in one row",
        ),
        ("debug", "True to check values too (synchronises with the device)"),
    ):
        found.append(Argument(name, (), "option", False, meaning))
    return Signature(rule.name, tuple(found))


def state_shapes(rule: MemoryRule) -> dict[str, Shape]:
    """Shapes in symbols of the rule's OperatorState, by full names ("window.k", ...)."""
    momentum = rule.optimizer.kind == "momentum"
    shapes: dict[str, Shape] = {"memory.M": ("N", "H", "F", "V")}
    if momentum:
        shapes["momentum.M"] = ("N", "H", "F", "V")
    if rule.read.normaliser == "sum":
        shapes["normaliser.z"] = ("N", "H", "F")
        if momentum:
            shapes["normaliser.momentum"] = ("N", "H", "F")
    kept = window_rows(rule)
    if kept:
        shapes["window.k"] = ("N", kept, "H", "K")
        shapes["window.v"] = ("N", kept, "H", "V")
        shapes.update({f"window.{name}": ("N", kept, "H") for name in window_gates(rule)})
    if rule.block.size > 1 and rule.depends_on_memory:
        shapes["block.anchor"] = ("N", "H", "F", "V")
        if kept and rule.window.boundary == "carry":
            shapes["block.previous"] = ("N", "H", "F", "V")
    shapes["position"] = ("N",)
    if rule.retention.toward == "initial":
        shapes["origin.M"] = ("N", "H", "F", "V")
    return shapes


def window_rows(rule: MemoryRule) -> int:
    """Tokens that the state's window holds: c - 1."""
    return rule.window.length - 1 if isinstance(rule.window.length, int) else 0


def window_gates(rule: MemoryRule) -> tuple[str, ...]:
    """Per-token arguments that a window carries with its keys and values."""
    gamma = ("gamma",) if rule.window.gate.kind == "token" else ()
    return gamma + tuple(entry.name for entry in rule.inputs if entry.shape == "token")


def check_call(
    signature: Signature,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    arguments: Mapping[str, Tensor | None],
    cu_seqlens: Tensor | None,
) -> Sizes:
    """Sizes of a call whose names, ranks, dtypes, shapes and devices agree with the rule.

    `arguments` are the gates and inputs by name, None for not given. Raises ArgumentError for the
    first disagreement; reads no values.
    """
    _check_names(signature, arguments)
    for name, tensor in (("v", v), ("q", q), ("k", k)):
        _check_tensor(name, tensor, 4, PROJECTION_DTYPES, v)
    sizes = _projection_sizes(q, k, v, cu_seqlens)
    symbols = sizes.symbols
    for entry in signature.tensors:
        tensor = arguments[entry.name]
        assert tensor is not None
        _check_tensor(entry.name, tensor, len(entry.shape), GATE_DTYPES, v)
        if tuple(tensor.shape) != resolve(entry.shape, symbols):
            raise _shape_error(entry, tensor, symbols, q, v)
    return sizes


def _shape_error(
    entry: Argument, tensor: Tensor, symbols: Mapping[str, int], q: Tensor, v: Tensor
) -> ArgumentError:
    swapped = tuple(tensor.shape[:3]) == (q.shape[0], q.shape[2], q.shape[1])
    advice = f"q, k and v look transposed: {LAYOUT}" if swapped else "op.signature lists all shapes"
    return ArgumentError(
        entry.name,
        f"its shape disagrees with q {list(q.shape)} and v {list(v.shape)}",
        value=list(tensor.shape),
        allowed=f"{symbolic(entry.shape)} = {list(resolve(entry.shape, symbols))}",
        suggestion=advice,
    )


def _check_names(signature: Signature, arguments: Mapping[str, Tensor | None]) -> None:
    """Every declared gate is given and no other is."""
    declared = [entry.name for entry in signature.tensors]
    listed = ", ".join(declared) or "no gates or inputs"
    for name, tensor in arguments.items():
        if tensor is not None and name not in declared:
            raise ArgumentError(
                name,
                f"the rule {signature.rule} declares no such gate or input",
                allowed=listed,
                suggestion="leave it out, or declare it in the rule's spec",
            )
    for entry in signature.tensors:
        if arguments.get(entry.name) is None:
            raise ArgumentError(
                entry.name,
                f"missing; the rule {signature.rule} needs {listed}",
                allowed=f"a tensor {symbolic(entry.shape)}: {entry.meaning}",
                suggestion="op.signature lists all arguments",
            )


def _check_tensor(
    name: str, tensor: Tensor, rank: int, dtypes: tuple[torch.dtype, ...], like: Tensor
) -> None:
    """Type, rank, dtype and device of one argument."""
    if not isinstance(tensor, Tensor):
        raise ArgumentError(name, f"a {type(tensor).__name__}, not a tensor", allowed="a torch.Tensor")
    if tensor.dim() != rank:
        raise ArgumentError(
            name,
            f"{tensor.dim()} dimensions instead of {rank}",
            value=list(tensor.shape),
            suggestion=LAYOUT if name in ("q", "k", "v") else "op.signature lists all shapes",
        )
    if tensor.dtype not in dtypes:
        raise ArgumentError(
            name,
            "this dtype is not served",
            value=tensor.dtype,
            allowed=", ".join(str(dtype).removeprefix("torch.") for dtype in dtypes),
            suggestion="cast it; atlasgen.reference.run(op.rule, q, k, v, ..) computes in float64"
            if tensor.is_floating_point()
            else "cast it",
        )
    if tensor.device != like.device:
        raise ArgumentError(
            name,
            f"on {tensor.device}, while v is on {like.device}",
            suggestion="move all arguments to one device",
        )


def _projection_sizes(q: Tensor, k: Tensor, v: Tensor, cu_seqlens: Tensor | None) -> Sizes:
    """Sizes that q, k and v agree on, their heads in whole ratios."""
    batch, tokens, heads, value = v.shape
    query_heads, key_heads = q.shape[2], k.shape[2]
    if q.shape[:2] != v.shape[:2] or k.shape[:2] != v.shape[:2]:
        raise _disagreement(q, k, v, "batch and tokens of q, k and v differ")
    if q.shape[3] != k.shape[3]:
        raise _disagreement(q, k, v, "the last sizes of q and k differ; both are K")
    if min(heads, key_heads, query_heads, q.shape[3], value) < 1:
        raise _disagreement(q, k, v, "heads, K and V must be at least 1")
    if heads % key_heads:
        raise _disagreement(
            q, k, v, f"v's {heads} heads are not a multiple of k's {key_heads}: each key head "
            "serves the same number of value heads"
        )  # fmt: skip
    if query_heads % heads and heads % query_heads:
        raise _disagreement(
            q, k, v, f"q's {query_heads} heads and v's {heads}: one must be a multiple of the other"
        )
    sequences = batch if cu_seqlens is None else _check_borders(cu_seqlens, v)
    return Sizes(batch, tokens, query_heads, key_heads, heads, q.shape[3], value, sequences)


def _disagreement(q: Tensor, k: Tensor, v: Tensor, reason: str) -> ArgumentError:
    shapes = f"q {list(q.shape)}, k {list(k.shape)}, v {list(v.shape)}"
    return ArgumentError(
        "q, k, v",
        f"{reason}; shapes are {shapes}",
        allowed="q [B, T, Hq, K], k [B, T, Hk, K], v [B, T, H, V]",
        suggestion=LAYOUT,
    )


def _check_borders(cu_seqlens: Tensor, v: Tensor) -> int:
    """Number of sequences of cu_seqlens, its type, shape and device checked (not its values)."""
    allowed = "an int32 or int64 tensor [N + 1] on v's device, ascending from 0"
    if not isinstance(cu_seqlens, Tensor):
        raise ArgumentError("cu_seqlens", f"a {type(cu_seqlens).__name__}", allowed=allowed)
    if cu_seqlens.dtype not in (torch.int32, torch.int64):
        raise ArgumentError("cu_seqlens", "wrong dtype", value=cu_seqlens.dtype, allowed=allowed)
    if cu_seqlens.dim() != 1 or cu_seqlens.shape[0] < 1:
        raise ArgumentError("cu_seqlens", "wrong shape", value=list(cu_seqlens.shape), allowed=allowed)
    if cu_seqlens.device != v.device:
        raise ArgumentError(
            "cu_seqlens",
            f"on {cu_seqlens.device}, while v is on {v.device}",
            allowed=allowed,
            suggestion="move it once, outside the training loop",
        )
    if v.shape[0] != 1:
        raise ArgumentError(
            "cu_seqlens",
            f"its sequences are packed in one row, batch 1, but v has batch {v.shape[0]}",
            suggestion="reshape [B, T, ...] to [1, B * T, ...] and give every sequence's borders",
        )
    return cu_seqlens.shape[0] - 1


def check_values(
    signature: Signature, q: Tensor, k: Tensor, v: Tensor, arguments: Mapping[str, Tensor | None]
) -> None:
    """No NaN in q, k, v, gates and inputs, and their ranges: log gates <= 0, what the rule declares.

    Warns where tokens and heads look exchanged. Reads values, which makes the host wait for a GPU:
    for debugging. Raises ArgumentError.
    """
    if 1 < v.shape[1] < v.shape[2]:
        warnings.warn(
            f"v {list(v.shape)} has fewer tokens than heads: {LAYOUT}", RuntimeWarning, stacklevel=3
        )
    for name, tensor in (("q", q), ("k", k), ("v", v), *arguments.items()):
        found = 0 if tensor is None else int(tensor.isnan().sum())
        if tensor is not None and found:
            raise ArgumentError(
                name,
                f"{found} of its {tensor.numel()} values are NaN",
                suggestion="look for the operation that made them, before this call",
            )
    for entry in signature.tensors:
        tensor = arguments[entry.name]
        assert tensor is not None
        if tensor.numel() == 0:
            continue
        low, high = float(tensor.min()), float(tensor.max())
        kind = "log_decay" if entry.role == "log_gate" else entry.range
        allowed, holds = {
            "any": ("any number", True),
            "log_decay": ("values <= 0, the log of a factor in [0, 1]", high <= 0),
            "positive": ("values > 0", low > 0),
            "unit": ("values in [0, 1]", low >= 0 and high <= 1),
        }[kind]
        if not holds:
            raise ArgumentError(
                entry.name,
                f"values range from {low:.6g} to {high:.6g}",
                allowed=allowed,
                suggestion="e.g. logsigmoid or -softplus of the raw gate" if kind == "log_decay" else None,
            )


def resolve(shape: Shape, symbols: Mapping[str, int]) -> tuple[int, ...]:
    """A shape in symbols as numbers."""
    return tuple(symbols[size] if isinstance(size, str) else size for size in shape)


def symbolic(shape: Shape) -> str:
    """A shape in symbols as text: [B, T, H]."""
    return f"[{', '.join(str(size) for size in shape)}]"

"""The checks of a call against the signature of its operator."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import torch
from torch import Tensor

from atlasgen.errors import ArgumentError
from atlasgen.runtime.signature import Argument, Shape, Signature, Sizes, resolve, symbolic
from atlasgen.runtime.state import OperatorState

PROJECTION_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
GATE_DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
LAYOUT = "the layout is [batch, tokens, heads, size]; from [B, H, T, K] call transpose(1, 2)"


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
        _check_tensor(name, tensor, signature.shape_of(name), PROJECTION_DTYPES, v)
    sizes = _projection_sizes(signature, q, k, v, cu_seqlens)
    symbols = sizes.symbols
    for entry in signature.tensors:
        tensor = arguments.get(entry.name)
        if tensor is None:
            continue
        _check_tensor(entry.name, tensor, entry.shape, GATE_DTYPES, v)
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
    """Every gate and input that is required is given, and none that the rule does not declare."""
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
        if entry.required and arguments.get(entry.name) is None:
            needed = ", ".join(other.name for other in signature.tensors if other.required)
            raise ArgumentError(
                entry.name,
                f"missing; the rule {signature.rule} needs {needed}",
                allowed=f"a tensor {symbolic(entry.shape)}: {entry.meaning}",
                suggestion="op.signature lists all arguments",
            )


def _check_tensor(
    name: str, tensor: Tensor, shape: Shape, dtypes: tuple[torch.dtype, ...], like: Tensor
) -> None:
    """Type, rank, dtype and device of one argument."""
    if not isinstance(tensor, Tensor):
        raise ArgumentError(name, f"a {type(tensor).__name__}, not a tensor", allowed="a torch.Tensor")
    if tensor.dim() != len(shape):
        raise ArgumentError(
            name,
            f"{tensor.dim()} dimensions instead of {len(shape)}",
            value=list(tensor.shape),
            allowed=symbolic(shape),
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


def _projection_sizes(
    signature: Signature, q: Tensor, k: Tensor, v: Tensor, cu_seqlens: Tensor | None
) -> Sizes:
    """Sizes that q, k and v agree on, their heads in whole ratios."""
    (batch, tokens), (heads, value) = v.shape[:2], v.shape[-2:]
    query_heads, key_heads, key = q.shape[-2], k.shape[-2], q.shape[-1]

    def disagreement(reason: str) -> ArgumentError:
        shapes = f"q {list(q.shape)}, k {list(k.shape)}, v {list(v.shape)}"
        allowed = ", ".join(f"{name} {symbolic(signature.shape_of(name))}" for name in "qkv")
        return ArgumentError("q, k, v", f"{reason}; shapes are {shapes}", allowed=allowed, suggestion=LAYOUT)

    if q.shape[:2] != v.shape[:2] or k.shape[:2] != v.shape[:2]:
        raise disagreement("batch and tokens of q, k and v differ")
    if key != k.shape[-1]:
        raise disagreement("the last sizes of q and k differ; both are K")
    if min(heads, key_heads, query_heads, key, value) < 1:
        raise disagreement("heads, K and V must be at least 1")
    _check_steps(signature, k, v)
    if heads % key_heads:
        raise disagreement(
            f"v's {heads} heads are not a multiple of k's {key_heads}: each key head "
            "serves the same number of value heads"
        )  # fmt: skip
    if query_heads % heads and heads % query_heads:
        raise disagreement(f"q's {query_heads} heads and v's {heads}: one must be a multiple of the other")
    if signature.joins and key != value:
        raise disagreement(
            f"the rule {signature.rule} adds keys to values (in memory.residual, memory.f, "
            f"loss.target or read.f), but K is {key} and V is {value}"
        )  # fmt: skip
    sequences = batch if cu_seqlens is None else _check_borders(cu_seqlens, v)
    features = key if signature.features is None else signature.features.at({"K": key})
    return Sizes(batch, tokens, query_heads, key_heads, heads, key, value, features, sequences)


def _check_steps(signature: Signature, k: Tensor, v: Tensor) -> None:
    """k and v have a row for each micro-step of a token, where the rule takes several."""
    for name, tensor in (("k", k), ("v", v)) if signature.steps > 1 else ():
        if tensor.shape[2] != signature.steps:
            raise ArgumentError(
                name,
                f"{tensor.shape[2]} micro-steps of each token instead of the rule's {signature.steps}",
                value=list(tensor.shape),
                allowed=symbolic(signature.shape_of(name)),
                suggestion="op.signature lists all shapes",
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
    if 1 < v.shape[1] < v.shape[-2]:
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
        tensor = arguments.get(entry.name)
        if tensor is None or tensor.numel() == 0:
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


def check_update(
    initial_state: OperatorState | None, arguments: Mapping[str, Tensor | None]
) -> OperatorState:
    """The state that a call writes its final state into.

    Raises ArgumentError where there is none, or where autograd would need the values before.
    """
    if initial_state is None:
        raise ArgumentError(
            "update_state",
            "True, without an initial_state to write into",
            suggestion="pass the state of the call before (its first: output_final_state=True)",
        )
    tensors = {**arguments, **initial_state.tensors()}
    recorded = [name for name, tensor in tensors.items() if tensor is not None and tensor.requires_grad]
    if recorded and torch.is_grad_enabled():
        raise ArgumentError(
            "update_state",
            f"True, while autograd records {recorded[0]}",
            suggestion="call under torch.no_grad(), or take the final state as a new one",
        )
    return initial_state

"""From a state to a program's initial carries, and from its final carries to the next state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from atlasgen.errors import ArgumentError
from atlasgen.runtime.layout import expand_heads, first_of_group, last_rows
from atlasgen.runtime.signature import (
    GATE_DTYPES,
    Shape,
    Sizes,
    resolve,
    symbolic,
)
from atlasgen.runtime.state import OperatorState
from atlasgen.spec.rule import MemoryRule

# The tensor of a program that holds each part of a state; window parts are window_<name>.
CARRIES = {
    "memory.M": "memory",
    "momentum.M": "momentum",
    "normaliser.z": "normaliser",
    "normaliser.momentum": "normaliser_momentum",
    "block.anchor": "anchor",
    "block.previous": "previous",
    "position": "position",
    "origin.M": "origin",
}


def initial_carries(
    rule: MemoryRule,
    shapes: Mapping[str, Shape],
    sizes: Sizes,
    initial_memory: Tensor | Mapping[str, Tensor] | None,
    initial_state: OperatorState | None,
    like: Tensor,
) -> dict[str, Tensor]:
    """The initial carries that a call gives, by the program's names, with the memory's H heads.

    shapes: those of the rule's state. like: a tensor on the call's device. Raises ArgumentError
    where the state or memory does not fit.
    """
    if initial_state is not None:
        if initial_memory is not None:
            raise ArgumentError(
                "initial_memory",
                "given together with initial_state, which holds the memory already",
                suggestion="pass initial_memory at a sequence's start, initial_state to go on",
            )
        return _from_state(rule, shapes, sizes, initial_state, like)
    if initial_memory is None:
        if rule.memory.initial in ("learned", "given"):
            raise ArgumentError(
                "initial_memory",
                f"missing; the rule {rule.name} starts from a {rule.memory.initial} memory",
                allowed="a tensor [H, F, V] or [N, H, F, V], or an initial_state",
            )
        return {}
    memory = _initial_memory(sizes, initial_memory, like)
    toward_initial = rule.retention.toward == "initial"
    return {"memory": memory, "origin": memory} if toward_initial else {"memory": memory}


def _initial_memory(sizes: Sizes, given: Any, like: Tensor) -> Tensor:
    """The memory before the first token, float32 [N, H, F, V]."""
    if isinstance(given, Mapping):
        if set(given) != {"M"}:
            raise ArgumentError(
                "initial_memory", "wrong weight names", value=sorted(given), allowed="{'M': tensor}"
            )
        given = given["M"]
    if not isinstance(given, Tensor) or given.dtype not in GATE_DTYPES:
        came = given.dtype if isinstance(given, Tensor) else type(given).__name__
        raise ArgumentError(
            "initial_memory", f"{came}", allowed="a floating point tensor [H, F, V] or [N, H, F, V]"
        )
    shape = resolve(("N", "H", "F", "V"), sizes.symbols)
    if tuple(given.shape) not in (shape, shape[1:]):
        raise ArgumentError(
            "initial_memory",
            "wrong shape",
            value=list(given.shape),
            allowed=f"[H, F, V] = {list(shape[1:])} or [N, H, F, V] = {list(shape)}",
        )
    _same_device("initial_memory", given, like)
    return given.to(torch.float32).expand(shape)


def _from_state(
    rule: MemoryRule,
    shapes: Mapping[str, Shape],
    sizes: Sizes,
    state: OperatorState,
    like: Tensor,
) -> dict[str, Tensor]:
    """The tensors of a state that fits the rule and the call."""
    check_state_type(state)
    tensors = state.tensors()
    if tensors.keys() != shapes.keys():
        raise ArgumentError(
            "initial_state",
            f"it holds {', '.join(tensors)}: the state of another rule",
            allowed=f"for {rule.name}: {', '.join(shapes)}",
        )
    found = {}
    for name, shape in shapes.items():
        tensor = tensors[name]
        expected = resolve(shape, sizes.symbols)
        dtype = torch.int64 if name == "position" else torch.float32
        if tuple(tensor.shape) != expected or tensor.dtype != dtype:
            raise ArgumentError(
                f"initial_state.{name}",
                f"it is {tensor.dtype} of shape {list(tensor.shape)}",
                allowed=f"{dtype} {symbolic(shape)} = {list(expected)}",
            )
        _same_device(f"initial_state.{name}", tensor, like)
        found[CARRIES.get(name) or name.replace(".", "_")] = tensor
    return found


def check_state_type(state: Any) -> None:
    """Raises ArgumentError for a state that no call of an operator returns."""
    if not isinstance(state, OperatorState):
        raise ArgumentError(
            "initial_state",
            f"a {type(state).__name__}",
            allowed="an OperatorState, as a call with output_final_state=True returns it",
        )


def _same_device(name: str, tensor: Tensor, like: Tensor) -> None:
    if tensor.device != like.device:
        raise ArgumentError(
            name,
            f"on {tensor.device}, while v is on {like.device}",
            suggestion="move it there: state.to(device) moves a whole state",
        )


def expanded_carries(carries: Mapping[str, Tensor], ratio: int) -> dict[str, Tensor]:
    """The carries with every memory head `ratio` times, for query heads that share a memory."""
    if ratio == 1:
        return dict(carries)

    def expanded(name: str, tensor: Tensor) -> Tensor:
        if name == "position":
            return tensor
        return expand_heads(tensor, ratio, 2 if name.startswith("window_") else 1)

    return {name: expanded(name, tensor) for name, tensor in carries.items()}


def final_state(
    shapes: Mapping[str, Shape],
    initial: Mapping[str, Tensor],
    tokens: Mapping[str, Tensor],
    outputs: Mapping[str, Tensor],
    length: Tensor | None,
    ratio: int,
) -> OperatorState:
    """The state after the call; differentiable, and none of its memory is another tensor's.

    shapes: those of the rule's state. initial: the carries given, H heads. tokens: k, v and the
    gates and inputs per token, [N, T, H, ..].
    outputs: the program's, with `ratio` equal memories per head. length: int64 [N] or None.
    """
    keys = tokens["k"]
    batch, count = keys.shape[:2]
    parts: dict[str, dict[str, Tensor]] = {
        part: {} for part in ("memory", "momentum", "normaliser", "window", "block", "origin")
    }
    for name, symbols in shapes.items():
        part, _, entry = name.partition(".")
        if part == "window":
            source = tokens[entry]
            before = initial.get(f"window_{entry}")
            if before is None:
                shape = (batch, int(symbols[1]), *source.shape[2:])
                before = source.new_zeros(shape, dtype=torch.float32)
            parts[part][entry] = last_rows(before, source, length)
        elif name == "origin.M":
            origin = initial.get("origin")
            memory = first_of_group(outputs["memory"], ratio, 1)
            parts[part][entry] = torch.zeros_like(memory) if origin is None else origin.clone()
        elif name != "position":
            parts[part][entry] = first_of_group(outputs[CARRIES[name]], ratio, 1)
    seen = torch.full((batch,), count, dtype=torch.int64, device=keys.device)
    seen = seen if length is None else length
    position = initial["position"] + seen if "position" in initial else seen.clone()
    return OperatorState(position=position, **parts)

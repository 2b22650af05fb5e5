"""From a state to a program's initial carries, and from its final carries to the next state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from atlasgen.errors import ArgumentError
from atlasgen.runtime.arguments import GATE_DTYPES
from atlasgen.runtime.layout import expand_heads, first_of_group, last_rows
from atlasgen.runtime.signature import (
    Shape,
    Sizes,
    resolve,
    state_shapes,
    symbolic,
)
from atlasgen.runtime.state import OperatorState
from atlasgen.spec.rule import MemoryRule


def carry_name(name: str) -> str:
    """The tensor of a program that holds a part of a state, by the part's full name.

    memory.W1 -> memory_W1, block.anchor.W1 -> anchor_W1, window.k -> window_k; the weight M is not named:
    memory.M -> memory, block.anchor.M and block.anchor -> anchor.
    """
    part, _, entry = name.partition(".")
    if part in ("window", "normaliser"):
        return part if name == "normaliser.z" else f"{part}_{entry}"
    if part == "block":
        part, _, entry = entry.partition(".")
    return part if entry in ("", "M") else f"{part}_{entry}"


def carry_shapes(rule: MemoryRule) -> dict[str, Shape]:
    """Shapes in symbols of the tensors that programs carry from token to token, by their names.

    The rows of a window and the position, which the runtime keeps itself, are not among them.
    """
    return {
        carry_name(name): shape
        for name, shape in state_shapes(rule).items()
        if name != "position" and not name.startswith("window.")
    }


def fresh_source(name: str) -> str:
    """The carry that another equals before a sequence's first token: the anchor of a weight is the weight.

    Other carries are their own; they start at zero where nothing is given.
    """
    return f"memory{name.removeprefix('anchor')}" if name.split("_")[0] == "anchor" else name


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
    weights = {
        name.removeprefix("memory."): shape[2:]
        for name, shape in shapes.items()
        if name.startswith("memory.")
    }
    if initial_memory is None:
        if rule.memory.initial != "zero":
            raise ArgumentError(
                "initial_memory",
                f"missing; the rule {rule.name} starts from a {rule.memory.initial} memory",
                allowed=f"{_allowed(weights)}, or an initial_state",
            )
        return {}
    found = {}
    for name, weight in _initial_memory(weights, sizes, initial_memory, like).items():
        found[carry_name(f"memory.{name}")] = weight
        if f"origin.{name}" in shapes:
            found[carry_name(f"origin.{name}")] = weight
    return found


def _initial_memory(
    weights: Mapping[str, Shape], sizes: Sizes, given: Any, like: Tensor
) -> dict[str, Tensor]:
    """The weights before the first token, float32 [N, H, in, out] or [N, H, out]."""
    if isinstance(given, Tensor) and list(weights) == ["M"]:
        given = {"M": given}
    if not isinstance(given, Mapping):
        raise ArgumentError("initial_memory", f"a {type(given).__name__}", allowed=_allowed(weights))
    if given.keys() != weights.keys():
        raise ArgumentError(
            "initial_memory", "wrong weight names", value=sorted(given), allowed=_allowed(weights)
        )
    found = {}
    for name, symbols in weights.items():
        weight, argument = given[name], "initial_memory" if name == "M" else f"initial_memory[{name!r}]"
        if not isinstance(weight, Tensor) or weight.dtype not in GATE_DTYPES:
            came = weight.dtype if isinstance(weight, Tensor) else type(weight).__name__
            allowed = f"a floating point tensor {_either(symbols)}"
            raise ArgumentError(argument, f"{came}", allowed=allowed)
        shape = resolve(("N", "H", *symbols), sizes.symbols)
        if tuple(weight.shape) not in (shape, shape[1:]):
            raise ArgumentError(
                argument,
                "wrong shape",
                value=list(weight.shape),
                allowed=f"{symbolic(('H', *symbols))} = {list(shape[1:])} or "
                f"{symbolic(('N', 'H', *symbols))} = {list(shape)}",
            )
        _same_device(argument, weight, like)
        found[name] = weight.to(torch.float32).expand(shape)
    return found


def _allowed(weights: Mapping[str, Shape]) -> str:
    """The initial memories that a rule takes, in words."""
    if list(weights) == ["M"]:
        return f"a tensor {_either(weights['M'])}, or {{'M': tensor}}"
    entries = ", ".join(f"'{name}': {symbolic(('H', *shape))}" for name, shape in weights.items())
    return f"tensors by name, {{{entries}}}, or each with sequences first, [N, H, ..]"


def _either(shape: Shape) -> str:
    return f"{symbolic(('H', *shape))} or {symbolic(('N', 'H', *shape))}"


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
        found[carry_name(name)] = tensor
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
    found: dict[str, Tensor] = {}
    for name, symbols in shapes.items():
        part, _, entry = name.partition(".")
        if part == "window":
            source = tokens[entry]
            before = initial.get(carry_name(name))
            if before is None:
                shape = (batch, int(symbols[1]), *source.shape[2:])  # type: ignore[arg-type]
                before = source.new_zeros(shape, dtype=torch.float32)
            found[name] = last_rows(before, source, length)
        elif part == "origin":
            origin = initial.get(carry_name(name))
            memory = first_of_group(outputs[carry_name(f"memory.{entry}")], ratio, 1)
            found[name] = torch.zeros_like(memory) if origin is None else origin.clone()
        elif name == "position":
            seen = torch.full((batch,), count, dtype=torch.int64, device=keys.device)
            seen = seen if length is None else length
            found[name] = initial["position"] + seen if "position" in initial else seen.clone()
        else:
            found[name] = first_of_group(outputs[carry_name(name)], ratio, 1)
    return OperatorState.of(found)

"""The entry of the reference: arguments, sequences and states around the recurrence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from atlasgen.errors import ArgumentError
from atlasgen.reference.arguments import Call, checked_call
from atlasgen.reference.initial import first_state
from atlasgen.reference.recurrence import connected, run_rows
from atlasgen.reference.refusals import refuse_unserved
from atlasgen.reference.state import State, check_state, concatenated, map_tensors, read_state
from atlasgen.spec.rule import MemoryRule
from atlasgen.spec.sizes import weight_shapes


def _borders(cu_seqlens: Tensor, batch: int, length: int) -> list[int]:
    borders = cu_seqlens.tolist()
    if batch != 1:
        raise ArgumentError("cu_seqlens", f"needs a batch of one packed row, not {batch}")
    if cu_seqlens.ndim != 1 or not borders or borders[0] != 0 or borders[-1] > length:
        raise ArgumentError(
            "cu_seqlens", "does not mark sequences of this row", value=borders,
            allowed=f"a vector that starts at 0 and ends at or before {length}",
        )  # fmt: skip
    if any(left > right for left, right in zip(borders, borders[1:], strict=False)):
        raise ArgumentError("cu_seqlens", "must not decrease", value=borders)
    return borders


def _packed(rule: MemoryRule, call: Call, state: State, borders: list[int]) -> tuple[Tensor, State]:
    """Sequences one after the other in a single row; rows past the last border read as zero."""
    reads, states = [], []
    for index, (start, stop) in enumerate(zip(borders, borders[1:], strict=False)):
        own = map_tensors(lambda tensor, i=index: tensor[i : i + 1], state)
        y, after = run_rows(rule, call.part(slice(0, 1), slice(start, stop)), own)
        reads.append(y)
        states.append(after)
    values, queries = call.per_token["v"], call.per_token["q"]
    rest = values.new_zeros(1, values.shape[1] - borders[-1], queries.shape[2], values.shape[-1])
    y = torch.cat([*reads, rest], 1)
    return (y, concatenated(states)) if states else connected(call, y, state)


def _batched(rule: MemoryRule, call: Call, state: State) -> tuple[Tensor, State]:
    """All rows together where they stand at one position, else row by row."""
    positions = state["position"].tolist()
    if len(set(positions)) <= 1:
        return run_rows(rule, call, state)
    results = []
    for index in range(len(positions)):
        row = slice(index, index + 1)
        own = map_tensors(lambda tensor, row=row: tensor[row], state)
        results.append(run_rows(rule, call.part(row, slice(None)), own))
    return torch.cat([y for y, _ in results], 0), concatenated([after for _, after in results])


def _expected_state(rule: MemoryRule, call: Call, rows: int, dtype: torch.dtype) -> State:
    """A state of this rule and call, whose names and shapes any given one must have."""
    shapes = weight_shapes(rule.memory, call.sizes)
    values, heads = call.per_token["v"], len(call.heads)
    zeros = {name: values.new_zeros(heads, *inner) for name, inner in shapes.items()}
    return first_state(rule, call, zeros, rows, dtype)


def run(
    rule: MemoryRule,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    lr: Tensor | None = None,
    log_alpha: Tensor | None = None,
    log_theta: Tensor | None = None,
    gamma: Tensor | None = None,
    inputs: Mapping[str, Tensor] | None = None,
    initial_memory: Mapping[str, Tensor] | Tensor | None = None,
    initial_state: Any = None,
    output_final_state: bool = True,
    cu_seqlens: Tensor | None = None,
    head_offset: int = 0,
    dtype: torch.dtype = torch.float64,
    **arguments: Tensor | None,
) -> tuple[Tensor, State | None]:
    """The rule's definition, executed token by token.

    q: [B, T, Hq, K]; k: [B, T, Hk, K]; v: [B, T, H, V], one memory per value head: Hk divides H, Hq
    divides it or is a multiple of it. Gates as the rule declares them: token [B, T, H], head [H],
    channel and key [B, T, H, K], value [B, T, H, V], pair [B, T, H, c], position [H, c]; arguments:
    what else the rule reads, by name: gates of single weights (lr_W1, log_alpha_W1, log_theta_W1),
    row_scale ([B, T, H], or [H, b] with the default 1 / (i + 1)), norm_gain and norm_bias [H, V]
    (default 1 and 0), coefficients [H, degree + 1], the rule's inputs; inputs: the same as a mapping.
    With n micro-steps k, v and what else the rule has by step (MemoryRule.by_step) are [B, T, n, ...].
    initial_memory: weight name -> [H, in, out] or [B, H, in, out] (a tensor
    means a matrix memory's "M"); initial_state: a state of an earlier call of the same rule.
    cu_seqlens: [N + 1] borders of sequences packed in one row (B = 1); states then have N rows.
    head_offset: the index of the first head, for expressions in `head`.

    Everything is computed in `dtype`. Returns y [B, T, max(Hq, H), V] and the state (see state.py;
    None if not asked for), both differentiable by autograd in every tensor argument and in the
    initial state. Raises CompileError naming a field that the reference does not execute,
    ArgumentError naming an argument.
    """
    refuse_unserved(rule)
    given = {"lr": lr, "log_alpha": log_alpha, "log_theta": log_theta, "gamma": gamma, **arguments}
    for name, tensor in (inputs or {}).items():
        if given.get(name) is not None:
            raise ArgumentError(name, "passed twice, by name and in inputs", suggestion="Pass it once")
        given[name] = tensor
    call = checked_call(rule, q, k, v, given, head_offset, dtype)
    batch, length = v.shape[:2]
    borders = None if cu_seqlens is None else _borders(cu_seqlens, batch, length)
    rows = batch if borders is None else len(borders) - 1
    if initial_state is not None and initial_memory is not None:
        raise ArgumentError(
            "initial_memory", "passed together with initial_state, which holds the memory",
            suggestion="Pass one of them",
        )  # fmt: skip
    if initial_state is None:
        state = first_state(rule, call, initial_memory, rows, dtype)
    else:
        state = read_state(initial_state, dtype)
        check_state(rule, state, _expected_state(rule, call, rows, dtype))
    if borders is None:
        y, after = _batched(rule, call, state)
    else:
        y, after = _packed(rule, call, state, borders)
    return y, after if output_final_state else None

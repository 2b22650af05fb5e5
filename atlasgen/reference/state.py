"""The state of a sequence: what makes any split into calls equal one call.

Outside, a state is a nested dict of tensors whose first dimension is the batch row (layout: the
names of `STATE_PARTS`). Inside the recurrence it is a :class:`Carry`, whose rows share one
position.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from atlasgen.errors import ArgumentError
from atlasgen.spec.rule import MemoryRule

STATE_PARTS = ("memory", "momentum", "normaliser", "window", "block", "position", "origin")
"""memory, momentum, origin: weight name -> [B, H, ...]; normaliser: z and momentum [B, H, F];
window: stream name -> [B, c-1, H, ...], newest last; position: int64 [B]; block: anchor, previous
(0 in a sequence's first block) and update, each the tensor itself where the only weight is M, else
weight name -> tensor; pool_alpha, pool_theta, pool_lr [B, H]. A border moves them at its last token:
where the position is a multiple of the block's size, the anchor is the memory and sums are 0.
"""

State = dict[str, Any]


@dataclass
class Carry:
    """What goes from token to token.

    Weights are [B, H, in, out], the normaliser's z [B, H, F, 1]. anchor: M* of the open block;
    previous: M* of the block before it; update: the open block's sum, and pool: its sums of gates
    [B, H], where the rule holds its updates; origin: the memory at the sequence's start, for
    retention toward it and for its norms; window: as in the state.
    """

    memory: dict[str, Tensor]
    momentum: dict[str, Tensor]
    normaliser: dict[str, Tensor]
    normaliser_momentum: dict[str, Tensor]
    anchor: dict[str, Tensor]
    previous: dict[str, Tensor]
    update: dict[str, Tensor]
    pool: dict[str, Tensor]
    origin: dict[str, Tensor]
    position: int
    window: dict[str, Tensor] = field(default_factory=dict)


def keeps_block(rule: MemoryRule) -> bool:
    """True where the open block's start is part of the state; a held rule's memory is that start."""
    return not rule.held and rule.block.size > 1 and (rule.depends_on_memory or rule.read.at == "block")


def keeps_previous(rule: MemoryRule) -> bool:
    """True where a window reaches into the block before and keeps its errors."""
    window = rule.window
    return (
        rule.block.size > 1 and rule.depends_on_memory and (window.boundary == "carry" and window.length != 1)
    )


def keeps_origin(rule: MemoryRule) -> bool:
    """True where the memory at the sequence's start is asked for later."""
    return rule.retention.toward == "initial" or rule.retention.project.kind == "row_norm"


def sums_steps(rule: MemoryRule) -> bool:
    """True where a held rule sums the open block's updates; per-token momentum is such a sum itself."""
    per_token_momentum = rule.optimizer.kind == "momentum" and rule.block.momentum == "token"
    return rule.held and not (rule.block.write == "block" and per_token_momentum)


def pooled_gates(rule: MemoryRule) -> dict[str, str]:
    """Gates whose mean over the block acts when it is written: argument -> its sum's name."""
    if rule.block.write != "block" or rule.block.gate_pool != "mean":
        return {}
    acting = ["log_alpha"]
    if rule.block.momentum == "block":
        acting.append("log_theta")
    if rule.optimizer.lr_at == "update":
        acting.append("lr")
    gates = [rule.gates_of(weight)[name] for name in acting for weight in rule.memory.weight_names]
    return {
        argument: f"pool_{argument.removeprefix('log_')}" for argument, gate in gates if gate.kind == "token"
    }


def map_tensors(function: Callable[[Tensor], Tensor], tree: Any) -> Any:
    """The same nested dict with `function` applied to every tensor."""
    if isinstance(tree, Mapping):
        return {name: map_tensors(function, entry) for name, entry in tree.items()}
    return function(tree)


def concatenated(states: Sequence[State]) -> State:
    """States of several batch rows as one."""

    def join(parts: Sequence[Any]) -> Any:
        if isinstance(parts[0], Mapping):
            return {name: join([part[name] for part in parts]) for name in parts[0]}
        return torch.cat(list(parts), 0)

    return join(states)


def read_state(state: Any, dtype: torch.dtype) -> State:
    """A caller's state (nested mapping, or an object with these attributes) in the reference's
    dtype.
    """
    parts: State = {}
    for name in STATE_PARTS:
        missing = object()
        part = state.get(name, missing) if isinstance(state, Mapping) else getattr(state, name, missing)
        if part is missing or (part is None and name in ("memory", "position")):
            raise ArgumentError(
                "initial_state",
                f'it has no "{name}"',
                allowed="a state returned by a call of the same rule, with " + ", ".join(STATE_PARTS),
            )
        parts[name] = {} if part is None else part
    parts["block"] = _nested(parts["block"])
    return map_tensors(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor, parts)


def _nested(block: Mapping[str, Any]) -> State:
    """{"anchor.W1": ...} as {"anchor": {"W1": ...}}; a nested dict stays as it is."""
    found: State = {}
    for name, entry in block.items():
        part, _, weight = name.partition(".")
        if weight:
            found.setdefault(part, {})[weight] = entry
        else:
            found[part] = entry
    return found


def check_state(rule: MemoryRule, state: State, expected: State) -> None:
    """Raises ArgumentError where a state's parts or shapes are not those of `expected`, one of this
    call's.
    """
    found, wanted = flat(state), flat(expected)
    if found.keys() != wanted.keys():
        raise ArgumentError(
            "initial_state",
            f"it holds {', '.join(found)}: the state of another rule",
            allowed=f"for {rule.name}: {', '.join(wanted)}",
        )
    for name, tensor in found.items():
        like = wanted[name]
        if tensor.shape != like.shape:
            raise ArgumentError(
                f"initial_state.{name}",
                "wrong shape",
                value=list(tensor.shape),
                allowed=str(list(like.shape)),
            )
        if tensor.is_floating_point() != like.is_floating_point():
            raise ArgumentError(f"initial_state.{name}", "wrong dtype", value=tensor.dtype)
        if tensor.device != like.device:
            raise ArgumentError(f"initial_state.{name}", f"on {tensor.device}, while v is on {like.device}")


def flat(state: State, before: str = "") -> dict[str, Tensor]:
    """Every tensor under its full name: "memory.M", "position", ..."""
    found: dict[str, Tensor] = {}
    for name, entry in state.items():
        if isinstance(entry, Mapping):
            found.update(flat(dict(entry), f"{before}{name}."))
        else:
            found[before + name] = entry
    return found


def packed(weights: Mapping[str, Tensor]) -> Any:
    """A block entry: the tensor itself for a matrix memory, a dict by weight for others."""
    return weights["M"] if set(weights) == {"M"} else dict(weights)


def _unpacked(entry: Any) -> dict[str, Tensor]:
    return dict(entry) if isinstance(entry, Mapping) else {"M": entry}


def open_carry(rule: MemoryRule, state: State) -> Carry:
    """The carry of rows that share one position."""
    memory = dict(state["memory"])
    block = state["block"]
    anchor = _unpacked(block["anchor"]) if "anchor" in block else memory
    positions = state["position"]
    return Carry(
        memory=memory,
        momentum=dict(state["momentum"]),
        normaliser={"z": state["normaliser"]["z"].unsqueeze(-1)} if state["normaliser"] else {},
        normaliser_momentum={"z": state["normaliser"]["momentum"].unsqueeze(-1)}
        if "momentum" in state["normaliser"]
        else {},
        anchor=anchor,
        previous=_unpacked(block["previous"]) if "previous" in block else anchor,
        update=_unpacked(block["update"]) if "update" in block else {},
        pool={name: tensor for name, tensor in block.items() if name.startswith("pool_")},
        origin=dict(state["origin"]),
        position=int(positions[0]) if len(positions) else 0,
        window=dict(state["window"]),
    )


def close_carry(rule: MemoryRule, carry: Carry, rows: int, device: torch.device) -> State:
    """The state after the last token, in the layout of STATE_PARTS; no tensor is shared with
    another.
    """
    normaliser = {name: weight.squeeze(-1) for name, weight in carry.normaliser.items()}
    if carry.normaliser_momentum:
        normaliser["momentum"] = carry.normaliser_momentum["z"].squeeze(-1)
    block = {}
    if keeps_block(rule):
        block["anchor"] = packed(carry.anchor)
    if keeps_previous(rule):
        block["previous"] = packed(carry.previous)
    if carry.update:
        block["update"] = packed(carry.update)
    block |= carry.pool
    state: State = {
        "memory": carry.memory,
        "momentum": carry.momentum,
        "normaliser": normaliser,
        "window": carry.window,
        "block": block,
        "origin": carry.origin,
    }
    state = map_tensors(torch.clone, state)
    state["position"] = torch.full((rows,), carry.position, dtype=torch.int64, device=device)
    return {name: state[name] for name in STATE_PARTS}

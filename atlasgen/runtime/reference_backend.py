"""The reference as a backend: slow, float64, differentiable to any order by torch itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from atlasgen.reference.refusals import refuse_unserved
from atlasgen.reference.run import run
from atlasgen.reference.state import flat
from atlasgen.runtime.carries import check_state_type
from atlasgen.runtime.state import PARTS, OperatorState
from atlasgen.spec.rule import MemoryRule

GATES = ("lr", "log_alpha", "log_theta", "gamma")  # the rest of a call's tensors are inputs


class ReferenceProgram:
    """Runs a rule's definition token by token, in place of a compiled program.

    Raises CompileError at construction for a field that the reference does not execute.
    """

    def __init__(self, rule: MemoryRule) -> None:
        refuse_unserved(rule)
        self.rule = rule

    def __repr__(self) -> str:
        return f"ReferenceProgram({self.rule.name})"

    def call(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        arguments: Mapping[str, Tensor | None],
        initial_memory: Any,
        initial_state: OperatorState | None,
        output_final_state: bool,
        cu_seqlens: Tensor | None,
    ) -> tuple[Tensor, OperatorState | None]:
        """An operator's call, its arguments checked: y in the dtype of v, state in float32."""
        given = {name: tensor for name, tensor in arguments.items() if tensor is not None}
        gates = {name: given.pop(name) for name in GATES if name in given}
        y, state = run(
            self.rule,
            q,
            k,
            v,
            **gates,  # type: ignore[arg-type]
            inputs=given,
            initial_memory=initial_memory,
            initial_state=None if initial_state is None else to_reference(initial_state),
            output_final_state=output_final_state,
            cu_seqlens=cu_seqlens,
        )
        if state is None:
            return y.to(v.dtype), None
        return y.to(v.dtype), from_reference(state).map(
            lambda tensor: tensor.to(torch.float32) if tensor.is_floating_point() else tensor
        )


def to_reference(state: OperatorState) -> dict[str, Any]:
    """A state in the reference's layout, whose block entries are dicts by weight.

    Raises ArgumentError for what is no OperatorState.
    """
    check_state_type(state)
    parts: dict[str, Any] = {part: dict(getattr(state, part)) for part in PARTS}
    block: dict[str, Any] = {}
    for name, tensor in parts["block"].items():
        entry, _, weight = name.partition(".")
        if weight:
            block.setdefault(entry, {})[weight] = tensor
        else:
            block[entry] = tensor
    return {**parts, "block": block, "position": state.position}


def from_reference(state: Mapping[str, Any]) -> OperatorState:
    """The inverse of `to_reference`: the same tensors."""
    return OperatorState.of(flat(dict(state)))

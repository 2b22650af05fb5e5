"""The reference as a backend: slow, float64, differentiable to any order by torch itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from atlasgen.reference.refusals import refuse_unserved
from atlasgen.reference.run import run
from atlasgen.runtime.carries import check_state_type
from atlasgen.runtime.state import OperatorState
from atlasgen.spec.rule import MemoryRule


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
        if initial_state is not None:
            check_state_type(initial_state)
        given = {name: tensor for name, tensor in arguments.items() if tensor is not None}
        inputs = {entry.name: given.pop(entry.name) for entry in self.rule.inputs}
        y, state = run(
            self.rule,
            q,
            k,
            v,
            **given,  # type: ignore[arg-type]
            inputs=inputs,
            initial_memory=initial_memory,
            initial_state=initial_state,
            output_final_state=output_final_state,
            cu_seqlens=cu_seqlens,
        )
        if state is None:
            return y.to(v.dtype), None
        found = OperatorState(**state)
        return y.to(v.dtype), found.map(
            lambda tensor: tensor.to(torch.float32) if tensor.is_floating_point() else tensor
        )

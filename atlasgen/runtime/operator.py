"""The callable that a rule compiles to."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from atlasgen.errors import ArgumentError, SpecError
from atlasgen.runtime.arguments import check_call, check_update, check_values
from atlasgen.runtime.carries import expanded_carries, final_state, initial_carries
from atlasgen.runtime.layout import expand_heads, packing_of, projections
from atlasgen.runtime.micro_steps import MicroSteps
from atlasgen.runtime.signature import (
    Signature,
    Sizes,
    signature_of,
    state_shapes,
    window_gates,
)
from atlasgen.runtime.state import OperatorState
from atlasgen.spec.expression import evaluate_number
from atlasgen.spec.rule import MemoryRule

# Constants that are expressions in `head` are computed once, for this many heads: an expression
# cannot be read while torch.compile traces a call.
_MOST_HEADS = 256


class MemoryOperator:
    """A memory rule as a differentiable function of tensors; made by `atlasgen.compile`.

    Stateless and cheap to copy: copies and pickles hold the rule and the backend's name only.
    `signature` lists the arguments, `rule` is the rule, `backend` the word asked for.
    """

    def __init__(self, rule: MemoryRule, backend: str, programs: Any, options: Any) -> None:
        self.rule = rule
        self.backend = backend
        self.options = options
        self.signature: Signature = signature_of(rule)
        self._programs = programs
        self._state_shapes = state_shapes(rule)
        self._kept = ("k", "v", *window_gates(rule))
        self._per_token = {entry.name for entry in self.signature.tensors if entry.per_token}
        self._constants = _constants(rule, _MOST_HEADS)
        self._steps = MicroSteps(rule)

    def __repr__(self) -> str:
        chosen = {name: value for name, value in self.options.arguments.items() if value is not None}
        words = (f"{name}={value!r}" for name, value in {"backend": self.backend, **chosen}.items())
        return f"MemoryOperator({', '.join((self.rule.name, *words))})"

    def __copy__(self) -> MemoryOperator:
        return self  # nothing in it ever changes

    def __deepcopy__(self, memo: Any) -> MemoryOperator:
        return self

    def __reduce__(self) -> Any:
        from atlasgen.runtime.compile import compile

        return partial(compile, **self.options.arguments), (self.rule, self.backend)

    def __call__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        lr: Tensor | None = None,
        log_alpha: Tensor | None = None,
        log_theta: Tensor | None = None,
        gamma: Tensor | None = None,
        initial_memory: Tensor | Mapping[str, Tensor] | None = None,
        initial_state: OperatorState | None = None,
        output_final_state: bool = False,
        update_state: bool = False,
        cu_seqlens: Tensor | None = None,
        debug: bool | None = None,
        **inputs: Tensor,
    ) -> tuple[Tensor, OperatorState | None]:
        """Reads a sequence into the memory and answers its queries.

        q [B, T, Hq, K], k [B, T, Hk, K], v [B, T, H, V] in float32, bfloat16 or float16 (of a rule with n
        micro-steps k and v are [B, T, n, ...]); gates, single weights' own (lr_W1, ...), the rule's inputs
        and what it learns (norm_gain, ...) as `signature` lists them, any floating dtype, computed in
        float32.
        Returns y [B, T, max(Hq, H), V] in the dtype of v (also under autocast) and, with
        output_final_state, the OperatorState of the B sequences, else None.

        With cu_seqlens [N + 1] the batch is one row that packs N sequences; states have N of them;
        rows after the last border give 0. With update_state the final state is written into the tensors
        of initial_state, which is returned: a decode step whose state keeps its place in memory, for calls
        without gradients. Gradients flow to every floating tensor, in its dtype.
        debug: check values too; default is whether the environment has ATLASGEN_DEBUG=1.
        Raises ArgumentError, naming the argument, for a call that does not fit the rule.
        """
        arguments = {
            "lr": lr,
            "log_alpha": log_alpha,
            "log_theta": log_theta,
            "gamma": gamma,
            **inputs,
        }
        if update_state:
            kept = check_update(initial_state, {"q": q, "k": k, "v": v, **arguments})
            options = {"initial_memory": initial_memory, "cu_seqlens": cu_seqlens, "debug": debug}
            y, state = self(
                q, k, v, **arguments, **options, initial_state=initial_state, output_final_state=True
            )
            assert state is not None
            return y, kept.copy_(state)
        sizes = check_call(self.signature, q, k, v, arguments, cu_seqlens)
        debug = _debug_wanted() if debug is None else debug
        if debug:
            check_values(self.signature, q, k, v, arguments)
        if self._programs.reference is not None:
            return self._programs.reference.call(
                q, k, v, arguments, initial_memory, initial_state, output_final_state, cu_seqlens
            )
        carries = initial_carries(self.rule, self._state_shapes, sizes, initial_memory, initial_state, v)
        given = {name: tensor for name, tensor in arguments.items() if tensor is not None}
        return self._run(sizes, q, k, v, given, carries, output_final_state, cu_seqlens, debug)

    def _run(
        self,
        sizes: Sizes,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        given: dict[str, Tensor],
        carries: dict[str, Tensor],
        output_final_state: bool,
        cu_seqlens: Tensor | None,
        debug: bool,
    ) -> tuple[Tensor, OperatorState | None]:
        """A call that was checked: brought to the program's layout, run, and brought back."""
        rows = dict(zip("qkv", projections(q, k, v)))
        gates = {name: tensor.to(torch.float32) for name, tensor in given.items()}
        rows.update({name: gates.pop(name) for name in self._per_token})
        packing = None
        if cu_seqlens is not None:
            packing = packing_of(cu_seqlens, sizes.tokens, debug)
            rows = {name: packing.pad(tensor) for name, tensor in rows.items()}
        rows["k"] = expand_heads(rows["k"], sizes.heads // sizes.key_heads, k.dim() - 2)
        gates.update(self._constant_gates(sizes.heads, v))

        length = None if packing is None else packing.length
        ratio = max(sizes.query_heads // sizes.heads, 1)
        laid_out = self._steps.laid_out(rows, gates, carries, length)
        outputs = self._programs.for_tensor(v)(self._expanded(sizes, ratio, *laid_out))

        y = self._steps.reads(outputs["y"])
        y = y if packing is None else packing.unpad(y)
        y = y.to(v.dtype)
        if not output_final_state:
            return y, None
        tokens = {name: rows[name] for name in self._kept}
        return y, final_state(self._state_shapes, carries, tokens, outputs, length, ratio)

    def _expanded(
        self,
        sizes: Sizes,
        ratio: int,
        rows: Mapping[str, Tensor],
        gates: Mapping[str, Tensor],
        carries: Mapping[str, Tensor],
        length: Tensor | None,
    ) -> dict[str, Tensor | None]:
        """The program's tensors, contiguous: at least as many memories as query heads."""
        heads = sizes.heads * ratio
        tensors: dict[str, Tensor | None] = {"length": length}
        for name, tensor in rows.items():
            repeat = heads // tensor.shape[2]
            tensors[name] = expand_heads(tensor, repeat, 2).contiguous()
        for name, tensor in gates.items():
            tensors[name] = expand_heads(tensor, ratio, 0).contiguous()
        for name, tensor in expanded_carries(carries, ratio).items():
            tensors[name] = tensor.contiguous()
        return tensors

    def _constant_gates(self, heads: int, like: Tensor) -> dict[str, Tensor]:
        """The rule's constants that differ by head, float32 [H] on the call's device."""
        found = {}
        for name, values in self._constants.items():
            if heads > len(values):
                raise ArgumentError(
                    "v",
                    f"the rule's {name}, an expression in `head`, has values for heads up to "
                    f"{len(values)} only",
                    value=f"{heads} heads",
                    suggestion="pass fewer heads, or declare the gate per head",
                )
            found[name] = torch.tensor(values[:heads], dtype=torch.float32, device=like.device)
        return found


def _debug_wanted() -> bool:
    """The environment's wish; under torch.compile values cannot be read."""
    return not torch.compiler.is_compiling() and os.environ.get("ATLASGEN_DEBUG", "") == "1"


def _constants(rule: MemoryRule, heads: int) -> dict[str, tuple[float, ...]]:
    """Values of the gates that are expressions in `head`, for heads 0, 1, ...; log gates as logs.

    Stops before the first head for which an expression has no finite value.
    """
    found = {}
    for name, gate in rule.gates.items():
        if gate.kind != "constant" or gate.expression is None:
            continue
        values: list[float] = []
        for head in range(heads):
            try:
                value = evaluate_number(gate.expression, {"head": head})
            except SpecError:
                break
            if name.startswith("log_"):
                value = math.log(value) if value > 0 else -math.inf
            values.append(value)
        found[name] = tuple(values)
    return found

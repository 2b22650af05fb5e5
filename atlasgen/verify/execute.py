"""One case on the reference and on a backend: results, final state and every gradient."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from atlasgen.reference import run
from atlasgen.runtime.operator import MemoryOperator
from atlasgen.runtime.state import OperatorState
from atlasgen.spec.rule import MemoryRule
from atlasgen.verify.cases import Case
from atlasgen.verify.inputs import Arguments, flat_state, initial_memory, nested_state, split_names


@dataclass
class Outcome:
    """What a run gives: y and "state.<name>" by name, and "d <argument>" for every floating argument."""

    results: dict[str, Tensor]
    gradients: dict[str, Tensor]


def run_reference(rule: MemoryRule, arguments: Arguments, case: Case, dtype: torch.dtype) -> Outcome:
    """The case in float64, token by token, its cotangents rounded to the tested dtype."""
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in arguments.leaves().items()}
    own, state = _parted(leaves, arguments)
    gates, inputs = split_names(rule, own)
    borders = torch.tensor(case.borders) if case.borders else None
    y, after = run(
        rule,
        own["q"],
        own["k"],
        own["v"],
        **gates,
        inputs=inputs,
        initial_state=nested_state(state) if state else None,
        cu_seqlens=borders,
    )
    return _outcome(y, flat_state(after), leaves, dtype)


def run_operator(
    operator: MemoryOperator,
    arguments: Arguments,
    case: Case,
    dtype: torch.dtype,
    device: torch.device | str = "cpu",
) -> Outcome:
    """The case on a compiled operator, cut where the case says."""
    leaves = {
        name: tensor.to(device, dtype if name in ("q", "k", "v") else torch.float32).requires_grad_()
        for name, tensor in arguments.leaves().items()
    }
    own, flat = _parted(leaves, arguments)
    flat = {name: tensor.to(device) for name, tensor in flat.items()}
    state = OperatorState.of(flat) if flat else None
    memory = initial_memory(own)
    own = {name: tensor for name, tensor in own.items() if not name.startswith("initial_memory")}
    per_token = {entry.name for entry in operator.signature.arguments if entry.shape[:2] == ("B", "T")}
    reads = []
    borders = (0, *case.splits, case.tokens)
    for start, stop in zip(borders, borders[1:], strict=False):
        cut = {name: x[:, start:stop] if name in per_token else x for name, x in own.items()}
        packed = torch.tensor(case.borders, device=device) if case.borders else None
        y, state = operator(
            cut.pop("q"),
            cut.pop("k"),
            cut.pop("v"),
            **cut,  # type: ignore[arg-type]
            initial_memory=memory if state is None else None,
            initial_state=state,
            output_final_state=True,
            cu_seqlens=packed,
        )
        reads.append(y)
    return _outcome(torch.cat(reads, 1), flat_state(state), leaves, dtype)


def _parted(
    leaves: Mapping[str, Tensor], arguments: Arguments
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Arguments and state from leaves; what has no gradient (a position) comes as it is."""
    own = {name: tensor for name, tensor in leaves.items() if not name.startswith("state.")}
    state = {name: leaves.get(f"state.{name}", tensor) for name, tensor in arguments.state.items()}
    return own, state


def _outcome(y: Tensor, state: dict[str, Tensor], leaves: dict[str, Tensor], dtype: torch.dtype) -> Outcome:
    results = {"y": y, **{f"state.{name}": tensor for name, tensor in state.items()}}
    loss: Any = 0.0
    for name, tensor in results.items():
        if tensor.is_floating_point() and tensor.requires_grad:
            cotangent = _cotangent(name, tensor, dtype if name == "y" else torch.float32)
            loss = loss + (tensor.double() * cotangent).sum()
    gradients: dict[str, Tensor] = {}
    if isinstance(loss, Tensor):
        found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
        for (name, leaf), gradient in zip(leaves.items(), found, strict=True):
            gradients[f"d {name}"] = torch.zeros_like(leaf) if gradient is None else gradient
    return Outcome({name: tensor.detach() for name, tensor in results.items()}, gradients)


def _cotangent(name: str, tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """The same random numbers for the same name and shape, rounded as the gradient will be."""
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    random = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
    return random.to(dtype).to(tensor.device, torch.float64)


Progress = Callable[[str], None]

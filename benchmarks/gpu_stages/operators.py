"""Operators and arguments on the device under test."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from atlasgen.emit.planner import make_plan
from atlasgen.ir.operators import OPERATORS
from atlasgen.runtime.compile import compile as compile_rule
from atlasgen.runtime.compile import register_backend
from atlasgen.runtime.configuration import DEFAULT, Configuration, choose
from atlasgen.runtime.operator import MemoryOperator
from atlasgen.runtime.triton_backend import TritonProgram
from atlasgen.schedules.serve import schedule
from atlasgen.spec.rule import MemoryRule
from atlasgen.verify.backends import operator_of, structure_of
from benchmarks.gpu_stages.plan import Shape, is_dry

FUSED = "triton:fused"
CHOSEN = "triton"  # whatever the look-up gives: what users get


def device() -> str:
    """Where the kernels run."""
    return "cpu" if is_dry() else "cuda"


def structures() -> tuple[str, ...]:
    """The backends under test: the default split kernels, and the fused ones."""
    return (f"triton:{DEFAULT.structure.label}", FUSED)


def looked_up(rule: MemoryRule, shape: Shape) -> Configuration:
    """The configuration that users get at a shape."""
    return choose(rule, torch.device(device()), torch.bfloat16, shape.key, shape.value)


def backends_for(rule: MemoryRule, shape: Shape) -> tuple[str, ...]:
    """Those of `structures`, and the look-up's own configuration where it is another one."""
    chosen = looked_up(rule, shape)
    plain = [Configuration(DEFAULT.structure), Configuration(structure_of("fused", rule))]
    known = [configuration.to_table() for configuration in plain]
    return structures() if chosen.to_table() in known else (*structures(), CHOSEN)


def operator_for(
    rule: MemoryRule, backend: str, configuration: Mapping[str, Any] | None = None
) -> tuple[MemoryOperator, str]:
    """The operator on a backend, or on Triton kernels of one configuration; and the backend's own name."""
    if configuration is None:
        return operator_of(rule, backend), backend
    text = json.dumps(configuration, sort_keys=True)
    name = "candidate_" + hashlib.sha256(text.encode()).hexdigest()[:12]
    register_backend(name, _Candidate(text))
    return compile_rule(rule, backend=name), name


class _Candidate:
    """Makes executables of one configuration; equal ones compare equal, as the register asks."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Candidate) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __call__(self, rule: MemoryRule) -> TritonProgram:
        return TritonProgram(rule, Configuration.from_table(json.loads(self.text)))


def timed_arguments(rule: MemoryRule, operator: MemoryOperator, shape: Shape) -> dict[str, Tensor]:
    """Random arguments of a call, made on the device: bfloat16 q, k, v, float32 gates, all with gradients.

    Decays lie near one and steps below where a block would overshoot, so that all values stay finite.
    """
    generator = torch.Generator(device()).manual_seed(0)
    dtype = torch.bfloat16

    def normal(size: int) -> Tensor:
        full = (shape.batch, shape.tokens, shape.heads, size)
        return torch.randn(full, generator=generator, device=device(), dtype=torch.float32)

    k = normal(shape.key)
    found = {
        "q": (normal(shape.key) / shape.key**0.5).to(dtype),
        "k": (k / k.norm(dim=-1, keepdim=True)).to(dtype),
        "v": normal(shape.value).to(dtype),
    }
    length = rule.window.length if isinstance(rule.window.length, int) else 1
    block = rule.block.size if rule.depends_on_memory else 1
    step = 0.1 / (length * max(block, 1))
    ranges = {"lr": (0.3 * step, step), "log_alpha": (-0.1, 0.0), "log_theta": (-1.5, -0.2)}
    symbols = {"B": shape.batch, "T": shape.tokens, "H": shape.heads, "K": shape.key, "V": shape.value}
    for entry in operator.signature.tensors:
        size = [symbols[axis] if isinstance(axis, str) else axis for axis in entry.shape]
        low, high = ranges.get(entry.name, (0.2, 1.0))
        random = torch.rand(size, generator=generator, device=device(), dtype=torch.float32)
        found[entry.name] = low + (high - low) * random
    return {name: tensor.requires_grad_() for name, tensor in found.items()}


def least_bytes(arguments: Mapping[str, Tensor], y: Tensor) -> dict[str, int]:
    """Bytes of a pass that reads and writes each tensor once; the backward reads the arguments again."""
    given = sum(tensor.nbytes for tensor in arguments.values())
    return {"forward": given + y.nbytes, "forward+backward": 3 * given + 2 * y.nbytes}


def dot_flops(rule: MemoryRule, backend: str, shape: Shape) -> dict[str, int]:
    """Operations of the matrix products of the kernels' plan, unpadded."""
    scheduled = schedule(rule)
    if backend == CHOSEN:
        structure = looked_up(rule, shape).structure
    else:
        structure = structure_of(backend.partition(":")[2], rule)
    plan = make_plan(scheduled.forward, scheduled.backward, structure)
    program, rows = scheduled.forward, scheduled.chunk
    axes = dict.fromkeys("rjis", rows) | {"h": program.halo, "c": program.window}
    axes |= {"K": shape.key, "V": shape.value}
    blocks = shape.batch * shape.heads * -(-shape.tokens // rows)
    each = {
        passes: sum(
            OPERATORS["dot"].flops(node, axes)
            for kernel in kernels
            for node in kernel.nodes()
            if node.op == "dot" and node not in kernel.loaded
        )
        for passes, kernels in (("forward", plan.forward), ("backward", plan.backward))
    }
    forward = blocks * each["forward"]
    return {"forward": forward, "forward+backward": forward + blocks * each["backward"]}

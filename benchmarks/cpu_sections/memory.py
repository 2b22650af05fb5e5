"""Peak memory of forward and backward, each case in a process of its own."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import atlasgen
from benchmarks.cpu_sections import deep, omega
from benchmarks.cpu_sections.measure import measured_peak, status

FLOAT = 4  # bytes


def print_peak(case: str, tokens: int) -> None:
    """Print the bytes that forward and backward of `tokens` take above what the process holds before.

    Inputs and gradients count; what a first call leaves behind (code, a library's buffers) does not.
    """
    _run(case, 2 * omega.BLOCK)
    gc.collect()
    start = status("VmRSS")
    _run(case, tokens)
    print(status("VmHWM") - start)


def _run(case: str, tokens: int) -> None:
    """Forward and backward of one case, gradients kept until the end."""
    function, inputs = _case(case, tokens)
    y = function()
    gradients = torch.autograd.grad(y, inputs, torch.ones_like(y))
    assert len(gradients) == len(inputs)


def _case(case: str, tokens: int) -> tuple[Callable[[], Tensor], list[Tensor]]:
    """A case's function and its inputs: "omega", or NAME-SIZE[-SPACING] of checkpoints."""
    if case == "omega":
        operator, inputs = atlasgen.compile(omega.RULE, backend="torch"), omega.problem(tokens)
        return lambda: operator(**inputs)[0], list(inputs.values())
    name, size, *spacing = case.split("-")
    rule = "titans" if name == "titans" else "atlas"
    given, memory = deep.problem(rule, tokens, int(size)), deep.memory_of(int(size))
    some = deep.wanted(given, memory)
    if name == "plain":
        return lambda: deep.plain_atlas(**given, initial_memory=memory), some
    every = int(spacing[0]) if spacing else None
    deep_operator = deep.operator_of(deep.TITANS if rule == "titans" else deep.ATLAS, every)
    return lambda: deep_operator(**given, initial_memory=memory)[0], some


def length_section(quick: bool) -> dict[str, Any]:
    """Peak memory of a process per token."""
    lengths = (512, 1024) if quick else (8192, 16384, 32768)
    found = {}
    for tokens in lengths:
        each = measured_peak("omega", tokens) / tokens / omega.HEADS
        found[str(tokens)] = each
        print(f"  T={tokens:6}: {each:8.0f} bytes per token and head at the peak of forward + backward")
    return found


def deep_section(quick: bool) -> dict[str, Any]:
    """The peak of Titans with an MLP 64-256-64 and momentum, against what no program can do without."""
    tokens, size, spacings = (512, 64, (4,)) if quick else (8192, 64, (8, 1))
    rows = tokens * deep.HEADS * deep.BATCH
    # q, k, v and three gates with their gradients, y and its cotangent
    tensors = FLOAT * rows * (2 * (3 * size + 3) + 2 * size)
    state = FLOAT * deep.BATCH * deep.HEADS * 2 * 2 * 4 * size * size
    print(f"  T={tokens}: inputs, outputs and gradients {_mebibytes(tensors)}, a state {_mebibytes(state)}")
    found: dict[str, Any] = {"tensors": tensors, "state": state}
    for spacing in spacings:
        peak, count = measured_peak(f"titans-{size}-{spacing}", tokens), tokens // deep.BLOCK // spacing
        allowed = 1.2 * (tensors + count * state)
        found[str(spacing)] = {"peak": peak, "of_allowed": peak / allowed}
        print(
            f"  a checkpoint every {spacing} blocks: peak {_mebibytes(peak)}, {peak / allowed:.2f} of "
            f"tensors, {count} states and 20% ({_mebibytes(allowed)})"
        )
    return found


def atlas_section(quick: bool) -> dict[str, Any]:
    """The peak of ATLAS against that of the plain torch program under autograd."""
    tokens, sizes = (128, (16,)) if quick else (1024, (64, 16))
    found = {}
    for size in sizes:
        ours, plain = (measured_peak(f"{name}-{size}", tokens) for name in ("atlas", "plain"))
        found[deep.title_of(size)] = {"atlasgen": ours, "plain torch": plain}
        print(
            f"  {deep.title_of(size)}, T={tokens}: atlasgen {_mebibytes(ours)}, plain torch "
            f"{_mebibytes(plain)}: 1/{plain / ours:.1f}"
        )
    return found


def _mebibytes(count: float) -> str:
    return f"{count / 2**20:.1f} MiB"

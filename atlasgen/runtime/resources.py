"""What a rule's kernels need on a GPU that need not be there: compile jobs for whole plans.

The kernels are compiled as a training step launches them: nothing resumed, checkpoints saved, rows of whole
16-byte multiples.
"""

from __future__ import annotations

from typing import Any

from atlasgen.emit.triton_memory import Argument
from atlasgen.emit.triton_module import EmittedKernel, EmittedModule
from atlasgen.runtime.cross_compile import Job
from atlasgen.runtime.launch import CallSizes, Tiles, constants_of

POINTER = {"float32": "*fp32", "bfloat16": "*bf16", "float16": "*fp16"}
DOT = {"float32": "dtype:fp32", "bfloat16": "dtype:bf16", "float16": "dtype:fp32"}
PRECISION = {"float32": "ieee", "bfloat16": "ieee", "float16": "tf32"}
TRAINING = {
    "RESUME": False,
    "HAS_INITIAL": False,
    "HAS_LENGTH": False,
    "SAVE": True,
    "STORE_FINAL": True,
    "GRAD_FINAL": False,
    "GRAD_INITIAL": False,
}
PROJECTIONS = ("q", "k", "v", "y", "d_q", "d_k", "d_v", "d_y")


def _given(argument: Argument) -> bool:
    """True if a training step passes the tensor."""
    name = argument.tensor
    if argument.kind in ("window", "sequence"):
        return False
    if argument.kind != "state":
        return True
    part = name.removeprefix("d_").partition("_")[0]  # of the state, without the weight's name
    if name.startswith("d_"):
        return part == "origin"  # not the gradients of initial and final states
    return name.endswith("_final") or part == "origin"


def signature(kernel: EmittedKernel, dtype: str) -> tuple[dict[str, str], dict[str, Any]]:
    """Types of the run-time arguments, and the constants that stand for those not given."""
    types: dict[str, str] = {"tokens": "i32", "heads": "i32", "blocks": "i32"}
    if kernel.kernel.of_one_block:
        types["block"] = "i32"
    constants: dict[str, Any] = {}
    for argument in kernel.arguments:
        if argument.kind == "stride":
            aligned = argument.tensor in PROJECTIONS
            types[argument.name] = "i32:16" if aligned else "i32"
        elif argument.kind == "number":
            types[argument.name] = "fp32"
        elif argument.kind == "codes":
            types[argument.name] = "*i32"
        elif not _given(argument):
            constants[argument.name] = None
        else:
            rows = argument.kind == "rows" and argument.tensor in PROJECTIONS
            types[argument.name] = POINTER[dtype] if rows else "*fp32"
    return types, constants


def jobs(module: EmittedModule, sizes: CallSizes, tiles: Tiles, dtype: str, target: str) -> dict[str, Job]:
    """One compile job per kernel of a plan.

    dtype: "float32", "bfloat16" or "float16" (of q, k, v). target: a name of targets.toml.
    """
    found = {}
    for name, kernel in module.kernels.items():
        types, absent = signature(kernel, dtype)
        chosen = tiles.of(name)
        constants = constants_of(kernel, sizes, chosen, DOT[dtype], PRECISION[dtype])
        constants |= absent | {flag: TRAINING[flag] for flag in kernel.flags}
        found[name] = Job(module.source, name, types, constants, target, chosen.warps, chosen.stages)
    return found

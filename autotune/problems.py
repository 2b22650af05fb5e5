"""Problems of tuning from rules: the kernels of a structure and a call that stands for many."""

from __future__ import annotations

from atlasgen.autotune.objective import Problem
from atlasgen.emit.plan import Structure
from atlasgen.runtime.configuration import emitted_module
from atlasgen.runtime.launch import CallSizes, own_extents
from atlasgen.runtime.targets import find_target
from atlasgen.schedules.serve import Scheduled, schedule
from atlasgen.spec.rule import MemoryRule

# A training step: launches of many programs in block-parallel kernels, few in sequential ones.
BATCH, HEADS, TOKENS = 8, 16, 4096


def call_sizes(scheduled: Scheduled, key: int, value: int) -> CallSizes:
    """The representative call with keys of size `key` and values of size `value`."""
    program, rows = scheduled.forward, scheduled.chunk
    blocks, own = -(-TOKENS // rows), own_extents(scheduled.rule, program, key, value)
    common = (BATCH, TOKENS, HEADS, key, value, rows, blocks, program.halo, program.window)
    return CallSizes(*common, tuple(own.items()))


def make_problem(
    rule: MemoryRule, structure: Structure, dtype: str, key: int, value: int, target: str
) -> Problem:
    """The problem of one structure. Raises CompileError for a rule that is not served, ValueError for a
    target that targets.toml lacks."""
    find_target(target)
    return Problem(emitted_module(rule, structure), call_sizes(schedule(rule), key, value), dtype, target)

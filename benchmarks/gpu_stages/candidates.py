"""Stage D: a few configurations of launch constants, measured kernel by kernel."""

from __future__ import annotations

import time
from functools import partial
from statistics import median
from typing import Any

import torch

from atlasgen.emit.triton_module import emit_module
from atlasgen.runtime.configuration import DEFAULT, Configuration
from atlasgen.runtime.launch import KernelTiles, Tiles
from atlasgen.schedules.serve import schedule
from atlasgen.spec import load_rule
from atlasgen.spec.rule import MemoryRule
from atlasgen.verify.backends import structure_of
from benchmarks.gpu_stages import clock
from benchmarks.gpu_stages.operators import operator_for, timed_arguments
from benchmarks.gpu_stages.plan import Shape, is_dry, sizes, training_job
from benchmarks.gpu_stages.pool import Pool
from benchmarks.gpu_stages.rows import RowWriter
from benchmarks.gpu_stages.speed import guarded, release

# Launch constants that all kernels of a structure get at once; each kernel is timed alone.
TILES = (
    KernelTiles(64, 16, 4, 1),
    KernelTiles(64, 16, 8, 1),
    KernelTiles(32, 16, 4, 1),
    KernelTiles(64, 32, 4, 1),
    KernelTiles(64, 16, 4, 2),
    KernelTiles(128, 16, 8, 1),
)
REPETITIONS = 5


def configurations(rule: MemoryRule) -> list[Configuration]:
    """The default structure and the fused one, each with every choice of tiles."""
    scheduled = schedule(rule)
    found = []
    for structure in (DEFAULT.structure, structure_of("fused", rule)):
        names = emit_module(scheduled, structure).kernels
        for tiles in TILES[:1] if is_dry() else TILES:
            found.append(Configuration(structure, Tiles(dict.fromkeys(names, tiles))))
    return found


def candidates(rows: RowWriter, pool: Pool, deadline: float) -> None:
    """Check each configuration against the reference, then time each of its kernels at full size."""
    shape = sizes().shapes[0]
    for name in sizes().candidate_rules:
        rule = load_rule(name)
        tables = [configuration.to_table() for configuration in configurations(rule)]
        jobs = [training_job(name, "configuration", shape) | {"configuration": table} for table in tables]
        right: list[dict[str, Any]] = []

        def answered(job: dict[str, Any], answer: dict[str, Any], right: list[Any] = right) -> None:
            rows.add("check", **job, **answer)
            if answer.get("passed"):
                right.append(job["configuration"])

        pool.run(jobs, answered, sizes().job_seconds, deadline)
        for table in (table for table in tables if table in right):
            if time.monotonic() > deadline:
                rows.add("skipped", rule=name, shape=str(shape), reason="the stage's time was up")
                return
            label = _label(table)
            guarded(rows, rule, label, shape, partial(measure, rows, rule, table, label, shape))
            release()


def measure(rows: RowWriter, rule: MemoryRule, table: dict[str, Any], label: str, shape: Shape) -> None:
    """Median times of every kernel in training steps under one configuration."""
    operator, _ = operator_for(rule, "configuration", table)
    arguments = timed_arguments(rule, operator, shape)

    def step() -> None:
        y, _ = operator(**arguments)  # type: ignore[arg-type]
        torch.autograd.grad(y, list(arguments.values()), torch.ones_like(y))

    step()
    with clock.kernel_times() as found:
        for _ in range(1 if is_dry() else REPETITIONS):
            step()
    times = {name: median(values) for name, values in found.items()}
    rows.add("kernels", rule=rule.name, configuration=label, shape=str(shape), ms=times)


def _label(table: dict[str, Any]) -> str:
    structure = Configuration.from_table(table).structure.label
    tiles = next(iter(table["kernels"].values()))
    words = [f"{name} {value}" for name, value in tiles.items()]
    return f"{structure}, {', '.join(words)}"

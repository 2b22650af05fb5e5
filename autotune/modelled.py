"""The modelled objective: compile for the target, and estimate a launch's time. No GPU is needed.

The estimate is a roofline with occupancy. With R resident programs on a multiprocessor (as registers, shared
memory and threads allow, at most as many as the grid gives each), one block of one program needs

    alone   = LATENCY + max(bytes / memory rate, dot flops / tensor rate, other flops / scalar rate)

where a program has the whole multiprocessor, but no more than WARP_SHARE of its rates per warp, and R
programs together need at least

    shared  = R * max(bytes / memory share, dot flops / tensor share, other flops / scalar share)

with even shares of the device's rates. A wave takes steps * max(alone, shared); a launch takes LAUNCH plus
ceil(programs / (R * multiprocessors)) waves. Kernels that walk the blocks pay LATENCY at each step, which is
what makes them slow; pipelining (stages) and resident programs hide it. Spilled registers are traffic to the
first cache, at SPILL_RATE bytes a second for a multiprocessor. The figures rank; they do not predict.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from atlasgen.autotune.count import Counts, KernelCounter
from atlasgen.autotune.objective import Evaluation, Point
from atlasgen.autotune.sources import kernel_job
from atlasgen.runtime.cross_compile import Resources, compile_many
from atlasgen.runtime.targets import Target, find_target

LAUNCH = 3e-6  # seconds from one launch to the next
LATENCY = 1.5e-6  # seconds: a load from device memory and the chain of products that waits for it
PER_PRODUCT = 2e-8  # seconds: one tensor-core instruction that waits for the one before
WARP_SHARE = 0.125  # of a multiprocessor's rates that one warp can use
SPILL_RATE = 6e10
BURST = 2.0  # times its even share of the bandwidth that one multiprocessor can draw
MOST_PROGRAMS = 32  # resident on one multiprocessor


def resident_programs(resources: Resources, warps: int, target: Target) -> int:
    """Programs that fit on one multiprocessor at once; at least 1."""
    threads = warps * target.warp_size
    by_registers = target.register_file // max(1, resources.registers * threads)
    by_threads = target.threads // threads
    by_shared = target.shared_bytes // resources.shared_bytes if resources.shared_bytes else MOST_PROGRAMS
    return max(1, min(by_registers, by_threads, by_shared, MOST_PROGRAMS))


def estimate(
    counts: Counts, resources: Resources, warps: int, stages: int, target: Target, dtype: str
) -> float:
    """Seconds of one launch."""
    units = target.multiprocessors
    resident = min(resident_programs(resources, warps, target), -(-counts.programs // units))
    waves = -(-counts.programs // (resident * units))
    blocks = counts.programs * counts.steps
    product_rate = target.bf16_flops if dtype == "bfloat16" else target.float32_flops
    work = (counts.bytes / blocks, counts.dot_flops / blocks, counts.other_flops / blocks)
    rates = (target.bandwidth, product_rate, target.float32_flops)
    even = [rate / units for rate in rates]
    used = min(1.0, WARP_SHARE * warps)
    reach = [even[0] * BURST, even[1] * used, even[2] * used]
    spilled = 4.0 * resources.spill_instructions * warps * target.warp_size / SPILL_RATE
    chain = PER_PRODUCT * resources.tensor_core_instructions
    latency = LATENCY / min(stages, 2) + chain
    alone = latency + spilled + max(amount / rate for amount, rate in zip(work, reach, strict=True))
    shared = resident * (spilled + max(amount / rate for amount, rate in zip(work, even, strict=True)))
    return LAUNCH + waves * counts.steps * max(alone, shared)


class Modelled:
    """The objective; `workers` compilers run at once (by default one per core)."""

    name = "modelled"

    def __init__(self, workers: int | None = None, time_limit: float = 120.0) -> None:
        self.workers, self.time_limit = workers, time_limit

    def evaluate(
        self, points: Sequence[Point], on_done: Callable[[int, Evaluation], None] | None = None
    ) -> list[Evaluation]:
        """Compile every point and estimate its time; figures are cached by source on disk."""
        jobs = [
            kernel_job(
                point.problem.module,
                point.kernel,
                point.problem.sizes,
                point.tiles,
                point.problem.dtype,
                point.problem.target,
            )
            for point in points
        ]

        def report(index: int, resources: Resources) -> None:
            if on_done is not None:
                on_done(index, judge(points[index], resources))

        found = compile_many(jobs, self.workers, self.time_limit, report)
        return [judge(point, resources) for point, resources in zip(points, found, strict=True)]


def judge(point: Point, resources: Resources) -> Evaluation:
    """The figures of a compiled point."""
    problem, target = point.problem, find_target(point.problem.target)
    figures = dataclasses.asdict(resources)
    for name in ("seconds", "error"):
        del figures[name]
    if resources.error is not None:
        return Evaluation(float("inf"), reason=resources.error)
    if not resources.fits(target.name):
        limit = f"shared memory {resources.shared_bytes} bytes, {target.name} has {target.shared_bytes}"
        return Evaluation(float("inf"), resources.spill_bytes, figures, limit)
    kernel = problem.module.kernels[point.kernel].kernel
    counts = KernelCounter(kernel, problem.sizes, point.tiles, problem.dtype).counts()
    tiles = point.tiles
    seconds = estimate(counts, resources, tiles.warps, tiles.stages, target, problem.dtype)
    return Evaluation(seconds, resources.spill_bytes, figures)

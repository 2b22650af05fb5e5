"""Compile kernels for GPUs that need not be there, and report what they use.

    python -m atlasgen.runtime.cross_compile < jobs.json > results.json

compiles a list of jobs (the fields of :class:`Job`) into a list of :class:`Resources`, as
:func:`compile_many` does in Python. Compilation runs in child processes: kernels of this process
may be interpreted, which cannot be compiled, and a compiler that aborts must not take it along.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import triton

from atlasgen.runtime.cache import DiskCache, cache_key
from atlasgen.runtime.targets import find_target
from atlasgen.runtime.worker_process import WorkerProcess

# A change of what is compiled or read from the result makes older cache entries useless.
_CACHE_VERSION = 1
_CONSTANT_TYPES = (bool, int, float, str, type(None))


@dataclass(frozen=True)
class Job:
    """One kernel to compile.

    source: the text of a self-contained Python file with the kernel in it.
    kernel: the name of the @triton.jit function.
    signature: triton type by parameter, e.g. {"q": "*bf16", "T": "i32", "scale": "fp32"};
        pointers are promised to be 16-byte aligned, nothing is promised of integers.
    constants: value by constexpr parameter (bool, int, float, str, None).
    target: a name of targets.toml.
    """

    source: str
    kernel: str
    signature: Mapping[str, str]
    constants: Mapping[str, Any]
    target: str
    num_warps: int = 4
    num_stages: int = 1

    def __post_init__(self) -> None:
        find_target(self.target)
        for name, value in self.constants.items():
            if not isinstance(value, _CONSTANT_TYPES):
                raise TypeError(
                    f"constants[{name!r}]: got a {type(value).__name__}, allowed are bool, int, "
                    "float, str and None"
                )

    def request(self) -> dict[str, Any]:
        """What the worker reads."""
        target = find_target(self.target)
        place = {"backend": target.backend, "arch": target.arch, "warp_size": target.warp_size}
        return dataclasses.asdict(self) | place

    def key(self) -> str:
        """Equal for jobs that compile to the same code: the source's bytes count, not its path."""
        content = dataclasses.asdict(self)
        # 1, 1.0 and True compile to different code and must not share a key.
        content["constants"] = {name: [type(value).__name__, value] for name, value in self.constants.items()}
        content["versions"] = [_CACHE_VERSION, triton.__version__]
        return cache_key(content)


@dataclass(frozen=True)
class Resources:
    """What a compiled kernel uses; registers, spills and instructions are those of one thread.

    spill_bytes: bytes of registers kept in memory. spill_instructions: loads and stores of them.
    shared_bytes: of one program. tensor_core_instructions, global_loads, global_stores, fma: static
    counts of instructions. seconds: what compiling took. error: None, or why there are no figures.
    """

    registers: int = 0
    spill_bytes: int = 0
    spill_instructions: int = 0
    shared_bytes: int = 0
    tensor_core_instructions: int = 0
    global_loads: int = 0
    global_stores: int = 0
    fma: int = 0
    seconds: float = 0.0
    error: str | None = None

    def fits(self, target: str) -> bool:
        """Whether it compiled and its shared memory is within the target's limit."""
        return self.error is None and self.shared_bytes <= find_target(target).shared_bytes


@dataclass
class _Batch:
    """The state that the threads of one :func:`compile_many` share."""

    jobs: Sequence[Job]
    cache: DiskCache
    time_limit: float
    report: Callable[[int, Resources], None]
    pending: SimpleQueue[int] = field(default_factory=SimpleQueue)
    results: dict[int, Resources] = field(default_factory=dict)

    def finish(self, index: int, result: Resources) -> None:
        self.results[index] = result
        self.report(index, result)

    def look_up(self) -> None:
        """Finish what the cache knows; the rest becomes pending."""
        for index, job in enumerate(self.jobs):
            stored = self.cache.load(job.key())
            if stored is None:
                self.pending.put(index)
            else:
                self.finish(index, Resources(**stored))

    def _next(self) -> int | None:
        try:
            return self.pending.get_nowait()
        except Empty:
            return None

    def abandon(self) -> None:
        """Leave what no thread has begun."""
        while self._next() is not None:
            pass

    def work(self) -> None:
        """One thread: a worker process and jobs for it until none are left."""
        with WorkerProcess("atlasgen.runtime.compile_worker") as worker:
            while (index := self._next()) is not None:
                reply = worker.ask(self.jobs[index].request(), self.time_limit)
                result = Resources(**reply["result"])
                if reply["lasting"]:
                    self.cache.store(self.jobs[index].key(), dataclasses.asdict(result))
                self.finish(index, result)


def compile_many(
    jobs: Iterable[Job],
    workers: int | None = None,
    time_limit: float = 120.0,
    on_done: Callable[[int, Resources], None] | None = None,
) -> list[Resources]:
    """Compile jobs in parallel child processes; results in the jobs' order, errors as text.

    workers: processes, by default one per core. time_limit: seconds for one job. on_done(index,
    resources) is called as each job ends, from several threads, for progress displays. Results are
    cached on disk (ATLASGEN_CACHE_DIR) by source, constants, signature, target and Triton version.
    """
    batch = _Batch(list(jobs), DiskCache("resources"), time_limit, on_done or (lambda *_: None))
    batch.look_up()
    size = min(batch.pending.qsize(), workers or len(os.sched_getaffinity(0)))
    if size:
        with ThreadPoolExecutor(size) as pool:
            try:
                for thread in [pool.submit(batch.work) for _ in range(size)]:
                    thread.result()
            finally:
                # After an interrupt the pool's end would wait for every job that is still there.
                batch.abandon()
    return [batch.results[index] for index in range(len(batch.jobs))]


def compile_for(
    source: str | Path,
    kernel: str,
    signature: Mapping[str, str],
    constants: Mapping[str, Any],
    target: str,
    num_warps: int = 4,
    num_stages: int = 1,
    time_limit: float = 120.0,
) -> Resources:
    """Compile one kernel of a self-contained file (a Path) or of source text (a str); see Job."""
    text = source.read_text("utf-8") if isinstance(source, Path) else source
    job = Job(text, kernel, dict(signature), dict(constants), target, num_warps, num_stages)
    return compile_many([job], workers=1, time_limit=time_limit)[0]


def main() -> None:
    """Jobs as a JSON list on standard input, results as a JSON list on standard output."""
    jobs = [Job(**fields) for fields in json.load(sys.stdin)]
    results = [dataclasses.asdict(result) for result in compile_many(jobs)]
    json.dump(results, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()

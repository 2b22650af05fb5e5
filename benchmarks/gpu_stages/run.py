"""The process that runs stages one after the other; benchmarks/gpu.py starts it and watches its time."""

from __future__ import annotations

import argparse
import os
import platform
import signal
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.gpu_stages.plan import is_dry

if is_dry():
    os.environ["TRITON_INTERPRET"] = "1"
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")

import torch
import triton

from benchmarks.gpu_stages import plan
from benchmarks.gpu_stages.candidates import candidates
from benchmarks.gpu_stages.operators import device, structures
from benchmarks.gpu_stages.pool import Pool
from benchmarks.gpu_stages.rows import RowWriter, read_rows, same_kernels
from benchmarks.gpu_stages.speed import speed


def machine() -> dict[str, Any]:
    """Card, versions, and what the card's compiler is known to get wrong."""
    content: dict[str, Any] = {
        "card": "CPU, interpreted" if is_dry() else torch.cuda.get_device_name(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": triton.__version__,
    }
    if not is_dry():
        properties = torch.cuda.get_device_properties(0)
        content |= {"capability": list(torch.cuda.get_device_capability()), "memory": properties.total_memory}
        content["l2_bytes"] = getattr(properties, "L2_cache_size", None)
    return content


def checks(rows: RowWriter, pool: Pool, jobs: list[dict[str, Any]], deadline: float) -> None:
    """Run checking jobs; every answer is a row."""

    def answered(job: dict[str, Any], answer: dict[str, Any]) -> None:
        rows.add("check", **job, **answer)

    unreached = pool.run(jobs, answered, plan.sizes().job_seconds, deadline)
    if unreached:
        rows.add("skipped", reason=f"{unreached} of {len(jobs)} checks: the stage's time was up")


def known_checks(rows: list[dict[str, Any]]) -> dict[tuple[Any, ...], bool]:
    """Which kernels of training steps were compared, and whether every check of theirs passed."""
    checked = [row for row in rows if row["kind"] == "check" and row["stage"] == "B"]
    known = {same_kernels(row): True for row in checked if row["check"] == "training"}
    return known | {same_kernels(row): False for row in checked if not row["passed"]}


def run_stage(stage: str, rows: RowWriter, path: Path, pool: Pool, deadline: float) -> None:
    """One stage, until its deadline of time.monotonic."""
    if stage == "A":
        checks(rows, pool, plan.selftest_jobs(structures()[0]), deadline)
    elif stage == "B":
        checks(rows, pool, plan.correctness_jobs(structures()), deadline)
    elif stage == "C":
        speed(rows, pool, known_checks(read_rows(path)), deadline)
    else:
        candidates(rows, pool, deadline)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--stage", action="append", required=True, help="letter=seconds")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    rows = RowWriter(chosen.rows)
    rows.add("machine", **machine(), device=device())
    with Pool(plan.sizes().workers) as pool:
        for entry in chosen.stage:
            stage, _, seconds = entry.partition("=")
            rows.stage = stage
            rows.add("begin", limit=float(seconds))
            deadline = time.monotonic() + float(seconds)
            run_stage(stage, rows, chosen.rows, pool, deadline)
            rows.add("end")


if __name__ == "__main__":
    main()

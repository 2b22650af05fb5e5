"""Timing of contenders that take turns, and peak memory of processes of their own."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

Run = Callable[[], Any]
CLOCKS = {"wall": time.perf_counter, "process": time.process_time}
SCRIPT = Path(__file__).resolve().parents[1] / "cpu.py"
clock = "wall"  # which of them; set by the command line


def forward_of(function: Callable[[], Tensor]) -> Run:
    """A run without gradients."""

    def run() -> None:
        with torch.no_grad():
            function()

    return run


def both_of(function: Callable[[], Tensor], wanted: list[Tensor]) -> Run:
    """A run forward and backward."""
    cotangent = torch.randn(function().shape)
    return lambda: torch.autograd.grad(function(), wanted, cotangent)


def interleaved(runs: dict[str, Run], rounds: int, unmeasured: int = 2) -> dict[str, list[float]]:
    """Seconds of each run by round; all runs take a turn in each round, after unmeasured rounds."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(rounds + unmeasured):
        for name, run in runs.items():
            start = CLOCKS[clock]()
            run()
            if turn >= unmeasured:
                seconds[name].append(CLOCKS[clock]() - start)
    return seconds


def compared(title: str, ours: str, runs: dict[str, Run], rounds: int, unmeasured: int = 2) -> dict[str, Any]:
    """Print how many times faster `ours` is than each of the other runs."""
    seconds = interleaved(runs, rounds, unmeasured)
    found: dict[str, Any] = {"milliseconds": {}, "times_faster_than": {}}
    for name, own in seconds.items():
        found["milliseconds"][name] = 1e3 * statistics.median(own)
        print(
            f"  {title:20} {name:34} {found['milliseconds'][name]:9.2f} ms, fastest {1e3 * min(own):.2f} ms"
        )
    for name, other in seconds.items():
        if name != ours:
            ratio = statistics.median(b / a for a, b in zip(seconds[ours], other))
            fastest = min(other) / min(seconds[ours])
            found["times_faster_than"][name] = ratio
            print(f"  {title:20} {ours} is {ratio:.2f}x as fast as {name} (fastest runs: {fastest:.2f}x)")
    return found


def agree(names: tuple[str, str], values: tuple[Tensor, Tensor], bar: float) -> None:
    """Exit where two contenders do not compute the same."""
    ours, other = values
    distance = float((ours - other).norm() / other.norm())
    if not distance <= bar:
        raise SystemExit(f"{names[0]} and {names[1]} disagree: relative distance {distance:.1e}")


# -- memory ----------------------------------------------------------------------------------------


def status(entry: str) -> int:
    """Bytes of an entry of this process's status: VmRSS (in memory now), VmHWM (at the peak)."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if f"{entry}:" in line)
    return 1024 * int(line.split()[1])


def measured_peak(name: str, tokens: int) -> int:
    """Peak bytes that a case takes, above what its process holds before, in a process of its own."""
    command = [sys.executable, str(SCRIPT), "--threads", str(torch.get_num_threads())]
    command += ["--peak", name, str(tokens)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout)

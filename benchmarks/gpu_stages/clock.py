"""Times of calls on the device, and the two ceilings that they are compared with."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import torch

from atlasgen.runtime.launch import Launcher
from benchmarks.gpu_stages.operators import device
from benchmarks.gpu_stages.plan import is_dry, sizes

FEWEST, MOST = 5, 50


class Span:
    """The time between two moments of the device's stream; of the wall clock in a dry run."""

    def __init__(self) -> None:
        self._marks: list[Any] = []
        self.mark()

    def mark(self) -> None:
        """The start, or the end."""
        if is_dry():
            self._marks.append(time.perf_counter())
            return
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        self._marks.append(event)

    def milliseconds(self) -> float:
        """Valid once the device has reached the end."""
        start, end = self._marks
        return (end - start) * 1e3 if is_dry() else start.elapsed_time(end)


def synchronize() -> None:
    """Wait for the device."""
    if not is_dry():
        torch.cuda.synchronize()


def times(call: Callable[[], Any]) -> list[float]:
    """Milliseconds of repeated calls after two that warm up."""
    for _ in range(2):
        call()
    synchronize()
    started = time.perf_counter()
    call()
    synchronize()
    once = max((time.perf_counter() - started) * 1e3, 1e-3)
    count = int(min(max(sizes().milliseconds / once, FEWEST), MOST))
    spans = []
    for _ in range(count):
        span = Span()
        call()
        span.mark()
        spans.append(span)
    synchronize()
    return [span.milliseconds() for span in spans]


def summary(values: list[float]) -> dict[str, float]:
    """Median, extremes and number of measured times."""
    return {"ms": median(values), "ms_min": min(values), "ms_max": max(values), "repetitions": len(values)}


def copy_ceiling() -> float:
    """Bytes a second, read and written, of a copy that is far larger than the caches."""
    source = torch.randn(sizes().copy // 4, device=device())
    target = torch.empty_like(source)
    return 2 * source.nbytes / (median(times(lambda: target.copy_(source))) / 1e3)


def product_ceiling() -> float:
    """Operations a second of a large bfloat16 matrix product on random data."""
    rows = sizes().matmul
    a, b = (torch.randn(rows, rows, device=device()).to(torch.bfloat16) for _ in range(2))
    target = torch.empty_like(a)
    return 2 * rows**3 / (median(times(lambda: torch.matmul(a, b, out=target))) / 1e3)


@contextmanager
def kernel_times() -> Iterator[dict[str, list[float]]]:
    """Times of each launch of emitted kernels inside the context, by kernel name; filled at its end."""
    spans: dict[str, list[Span]] = {}
    found: dict[str, list[float]] = {}
    original = Launcher.launch

    def launch(self: Launcher, name: str, *arguments: Any, **named: Any) -> None:
        span = Span()
        original(self, name, *arguments, **named)
        span.mark()
        spans.setdefault(name, []).append(span)

    Launcher.launch = launch  # type: ignore[method-assign]
    try:
        yield found
    finally:
        Launcher.launch = original  # type: ignore[method-assign]
        synchronize()
        found.update({name: [span.milliseconds() for span in some] for name, some in spans.items()})

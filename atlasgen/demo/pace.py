"""Time: how many threads, and how many steps fit."""

from __future__ import annotations

import contextlib
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator

import torch


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    """Runs torch's own parallel loops on that many threads, then as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def quickest_threads(step: Callable[[], None], most: int = 2, repeats: int = 4) -> int:
    """How many threads, 1 or `most`, make `step` quickest on this machine as it is now.

    Where other programs share the cores, torch's threads wait for each other at the end of every
    small operation: two can then be many times slower than one.
    """
    if min(most, os.cpu_count() or 1) < 2:
        return 1
    alone = _duration(step, 1, repeats, math.inf)
    together = _duration(step, most, repeats, alone)
    return most if together < alone else 1


def _duration(step: Callable[[], None], count: int, repeats: int, limit: float) -> float:
    """Seconds of `repeats` steps after a first one, on `count` threads; no step begins after `limit`."""
    with threads(count):
        step()
        start = time.monotonic()
        for _ in range(repeats):
            step()
            if time.monotonic() - start > limit:
                break
        return time.monotonic() - start


class Plan:
    """How many of the wanted steps fit into the seconds; all of them on a machine that is quick enough.

    Looked at again every ten steps by the median of the last twenty durations, so that one slow step
    changes nothing; where all steps fit, the run depends on its seed alone.
    """

    def __init__(self, steps: int, seconds: float, elapsed: float = 0.0) -> None:
        self.steps, self.seconds, self.planned = steps, seconds, steps
        self._before, self._start = elapsed, time.monotonic()
        self._durations: list[float] = []
        self._last = self._start

    @property
    def elapsed(self) -> float:
        """Seconds of training, those before a resumption included."""
        return self._before + time.monotonic() - self._start

    def made(self, done: int) -> int:
        """Takes note of a step; `done` were made in all. Returns how many there will be."""
        now = time.monotonic()
        self._durations = [*self._durations[-19:], now - self._last]
        self._last = now
        left = self.seconds - self.elapsed
        if left <= 0:
            self.planned = done
        elif done % 10 == 0 and len(self._durations) == 20:
            fitting = done + int(left / max(statistics.median(self._durations), 1e-9))
            self.planned = min(self.steps, fitting)
        return self.planned

"""What an objective of tuning is: points in, figures out. `modelled` is one; timing on a device another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from atlasgen.emit.triton_module import EmittedModule
from atlasgen.runtime.launch import CallSizes, KernelTiles


@dataclass(frozen=True)
class Problem:
    """What is tuned: the kernels of one structure, for calls of one kind on one target.

    sizes: a representative call. dtype: of q, k, v. target: a name of targets.toml.
    """

    module: EmittedModule
    sizes: CallSizes
    dtype: str
    target: str


@dataclass(frozen=True)
class Point:
    """One kernel with launch constants."""

    problem: Problem
    kernel: str
    tiles: KernelTiles


@dataclass(frozen=True)
class Evaluation:
    """One point's figures.

    seconds: time of one launch, measured or modelled. spill_bytes: of one thread. figures: evidence, for the
    results file. reason: why the point cannot be used, None where it can.
    """

    seconds: float
    spill_bytes: int = 0
    figures: dict[str, Any] | None = None
    reason: str | None = None

    @property
    def rank(self) -> tuple[bool, bool, float]:
        """Smaller is better: what works, then what does not spill, then what is fast."""
        return (self.reason is not None, self.spill_bytes > 0, self.seconds)

    @property
    def constraints(self) -> tuple[float, ...]:
        """For samplers: positive where a limit is exceeded."""
        return (1.0 if self.reason else 0.0, float(self.spill_bytes))


class Objective(Protocol):
    """Judges points; `name` keys what was found out."""

    name: str

    def evaluate(
        self, points: Sequence[Point], on_done: Callable[[int, Evaluation], None] | None = None
    ) -> list[Evaluation]:
        """Figures of all points, in order; a point that fails has a reason, it never raises."""
        ...

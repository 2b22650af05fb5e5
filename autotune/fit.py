"""Launch constants that do not spill: the first of a short ladder that fits, kernel by kernel.

This chooses the shipped configurations. It compiles one or two points per kernel where a full search compiles
dozens; `study` searches the whole space.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from atlasgen.autotune.objective import Evaluation, Objective, Point, Problem
from atlasgen.autotune.space import ladder
from atlasgen.runtime.launch import KernelTiles


@dataclass
class KernelFit:
    """One kernel's way up the ladder; `best` is the best point so far."""

    problem: Problem
    kernel: str
    pending: list[KernelTiles]
    best: tuple[KernelTiles, Evaluation] | None = None
    tried: dict[KernelTiles, Evaluation] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        """True if nothing is left to try, or the best point works without spills."""
        fits = self.best is not None and self.best[1].reason is None and not self.best[1].spill_bytes
        return fits or not self.pending

    def take(self, tiles: KernelTiles, evaluation: Evaluation) -> None:
        """Note what a point gave."""
        self.tried[tiles] = evaluation
        if self.best is None or _order(evaluation) < _order(self.best[1]):
            self.best = (tiles, evaluation)


def _order(evaluation: Evaluation) -> tuple[bool, int, float]:
    """The fewest spilled bytes first: here a little is better than a lot."""
    return (evaluation.reason is not None, evaluation.spill_bytes, evaluation.seconds)


def start_fits(problem: Problem, first: dict[str, KernelTiles] | None = None) -> list[KernelFit]:
    """One fit per kernel of a problem; `first` holds tiles to try before the ladder."""
    found = []
    for name, kernel in problem.module.kernels.items():
        steps = ladder(kernel, problem.sizes)
        known = [first[name]] if first and name in first else []
        found.append(KernelFit(problem, name, list(dict.fromkeys([*known, *steps]))))
    return found


def climb(
    fits: Sequence[KernelFit],
    objective: Objective,
    on_done: Callable[[KernelFit, KernelTiles, Evaluation], None] | None = None,
) -> None:
    """Try the next point of every fit that is not done, all at once, until all are."""
    while True:
        open_fits = [fit for fit in fits if not fit.done]
        if not open_fits:
            return
        points = [Point(fit.problem, fit.kernel, fit.pending.pop(0)) for fit in open_fits]
        found = objective.evaluate(points, _reporter(open_fits, points, on_done))
        for fit, point, evaluation in zip(open_fits, points, found, strict=True):
            fit.take(point.tiles, evaluation)


def _reporter(
    fits: list[KernelFit],
    points: list[Point],
    on_done: Callable[[KernelFit, KernelTiles, Evaluation], None] | None,
) -> Callable[[int, Evaluation], None]:
    def report(index: int, evaluation: Evaluation) -> None:
        if on_done is not None:
            on_done(fits[index], points[index].tiles, evaluation)

    return report

"""Objectives that need no compiler, and a problem that is made once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from atlasgen.autotune.objective import Evaluation, Point, Problem
from atlasgen.autotune.problems import make_problem
from atlasgen.emit.plan import Structure
from atlasgen.runtime.launch import KernelTiles
from atlasgen.spec import load_rule

STRUCTURE = Structure("split", "all", True, 4)


def problem(size: int = 64) -> Problem:
    """simple_gla's kernels on sm_90."""
    return make_problem(load_rule("simple_gla"), STRUCTURE, "bfloat16", size, size, "sm_90")


class Formula:
    """An objective by a function of tiles; `asked` holds every point in order."""

    name = "formula"

    def __init__(self, function: Callable[[KernelTiles], Evaluation]) -> None:
        self.function = function
        self.asked: list[KernelTiles] = []

    def evaluate(
        self, points: Sequence[Point], on_done: Callable[[int, Evaluation], None] | None = None
    ) -> list[Evaluation]:
        found = []
        for index, point in enumerate(points):
            self.asked.append(point.tiles)
            found.append(self.function(point.tiles))
            if on_done is not None:
                on_done(index, found[-1])
        return found


def cost(tiles: KernelTiles) -> Evaluation:
    """Fastest at V-tiles of 32, two warps, two stages."""
    distance = (
        abs(tiles.block_v - 32) + 16 * abs(tiles.warps - 2) + 8 * abs(tiles.stages - 2) + tiles.tile_rows
    )
    return Evaluation(1e-6 * (1 + distance), 0, {"registers": 100, "shared_bytes": 1024, "spill_bytes": 0})

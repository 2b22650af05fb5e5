"""The points that tuning may try: structures of kernels and, for each kernel, its launch constants.

Given the structure, kernels do not depend on each other: each has a space of its own.
"""

from __future__ import annotations

import functools
import itertools
import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from importlib import resources
from typing import Any

from atlasgen.emit.plan import Structure
from atlasgen.emit.triton_module import EmittedKernel
from atlasgen.runtime.launch import CallSizes, KernelTiles, padded

EXHAUSTIVE = 64  # spaces of at most this many points are tried whole


@functools.cache
def space_table() -> dict[str, Any]:
    """The content of space.toml."""
    text = resources.files("atlasgen.autotune").joinpath("space.toml").read_text("utf-8")
    return tomllib.loads(text)


def structures(walk: str | None = None) -> list[Structure]:
    """Every structure, the default's neighbours first.

    walk: the axis of the state that kernels walk in tiles (`walked_axis`); the split forms do so, rows whole.
    """
    every = [
        Structure(entry["form"], entry["gates"], entry["walk_rows"], pieces)
        for entry in space_table()["structure"]
        for pieces in entry["pieces"]
    ]
    if walk is None:
        return every
    split = (replace(entry, walk_rows=False, walk=walk) for entry in every if entry.form == "split")
    return list(dict.fromkeys(split))


@dataclass(frozen=True)
class KernelSpace:
    """The launch constants of one kernel: allowed values by name (a field of KernelTiles)."""

    kernel: str
    axes: dict[str, tuple[int, ...]]

    @property
    def size(self) -> int:
        """The number of points."""
        total = 1
        for values in self.axes.values():
            total *= len(values)
        return total

    def points(self) -> Iterator[KernelTiles]:
        """All points, the last axis fastest."""
        for values in itertools.product(*self.axes.values()):
            yield KernelTiles(**dict(zip(self.axes, values, strict=True)))

    def nearest(self, tiles: KernelTiles) -> KernelTiles:
        """The point of the space that is nearest to given tiles: what they mean for this kernel."""
        wanted = asdict(tiles)
        chosen = {
            name: min(values, key=lambda value: abs(value - wanted[name]))
            for name, values in self.axes.items()
        }
        return KernelTiles(**chosen)


def kernel_space(kernel: EmittedKernel, sizes: CallSizes) -> KernelSpace:
    """The space of a kernel for calls of given sizes; a constant that it does not have has one value."""
    table, plain = space_table()["tiles"], KernelTiles()
    tiled, loops = _has_value_tiles(kernel), _has_loop(kernel)
    axes = {
        "block_v": _within(table["block_v"], padded(sizes.value)) if tiled else (plain.block_v,),
        "tile_rows": _within(table["tile_rows"], padded(sizes.rows))
        if kernel.kernel.walk_rows
        else (plain.tile_rows,),
        "warps": tuple(table["warps"]),
        "stages": tuple(table["stages"]) if loops else (plain.stages,),
        "block_hidden": _within(table["block_hidden"], _walked_extent(kernel, sizes))
        if kernel.kernel.walk and not kernel.kernel.single_rows
        else (plain.block_hidden,),
    }
    return KernelSpace(kernel.kernel.name, axes)


def ladder(kernel: EmittedKernel, sizes: CallSizes) -> list[KernelTiles]:
    """Points to try in turn until one does not spill; each distinct point once."""
    tiled, most = _has_value_tiles(kernel), padded(sizes.value)
    found = []
    for entry in space_table()["ladder"]:
        block_v = min(entry["block_v"], most) if tiled else KernelTiles().block_v
        if entry["stages"] == 1 or _has_loop(kernel):
            found.append(KernelTiles(block_v, warps=entry["warps"], stages=entry["stages"]))
    return list(dict.fromkeys(found))


def _has_value_tiles(kernel: EmittedKernel) -> bool:
    return kernel.kernel.values in ("parallel", "walked")


def _has_loop(kernel: EmittedKernel) -> bool:
    """True if there is a loop whose loads a compiler may move ahead."""
    plan = kernel.kernel
    loops = plan.loop != "grid" or plan.walked is not None
    return loops and not plan.streams  # a streamed value was written by the turn before


def _walked_extent(kernel: EmittedKernel, sizes: CallSizes) -> int:
    """The padded length of the axis of the state, or of keys, that a kernel walks."""
    return padded(({"K": sizes.key} | dict(sizes.own))[kernel.kernel.walk or ""])


def _within(values: list[int], most: int) -> tuple[int, ...]:
    return tuple(value for value in values if value <= most)

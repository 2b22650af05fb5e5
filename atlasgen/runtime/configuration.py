"""Which kernels with which tiles serve a call: tuned results where there are some, else defaults.

A configuration never changes a result beyond rounding. Looking one up never times or compiles anything and
always has an answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from atlasgen.emit.plan import Structure
from atlasgen.runtime.launch import KernelTiles, Tiles
from atlasgen.spec.rule import MemoryRule


@dataclass(frozen=True)
class Configuration:
    """A structure of kernels with the launch constants of each."""

    structure: Structure = field(default_factory=Structure)
    tiles: Tiles = field(default_factory=Tiles)

    def to_table(self) -> dict[str, Any]:
        """Plain JSON content."""
        kernels = {name: asdict(tiles) for name, tiles in sorted(self.tiles.kernels.items())}
        return {"structure": asdict(self.structure), "kernels": kernels}

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Configuration:
        """The inverse of `to_table`; TypeError for unknown keys."""
        kernels = {name: KernelTiles(**tiles) for name, tiles in table["kernels"].items()}
        return cls(Structure(**table["structure"]), Tiles(kernels))


DEFAULT = Configuration(Structure("split", "all", True, 4))


def choose(rule: MemoryRule, device: torch.device, dtype: torch.dtype, key: int, value: int) -> Configuration:
    """The configuration of a call: never fails, never measures."""
    return DEFAULT

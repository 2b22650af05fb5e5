"""Launch emitted kernels: source to module, buffers to arguments, grids."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from atlasgen.emit.triton_memory import Argument
from atlasgen.emit.triton_module import EmittedKernel, EmittedModule
from atlasgen.ir.program import BlockProgram
from atlasgen.runtime.cache import cache_folder
from atlasgen.spec.rule import MemoryRule
from atlasgen.spec.shapes import extent
from atlasgen.spec.sizes import feature_size

SMALLEST_TILE = 16  # tl.dot takes no smaller extent


@dataclass(frozen=True)
class KernelTiles:
    """Launch constants of one kernel: they change its speed, never its result beyond rounding."""

    block_v: int = 64
    tile_rows: int = 16
    warps: int = 4
    stages: int = 1
    block_hidden: int = 16

    def to_table(self) -> dict[str, int]:
        """Plain content; the tile of the walked axis is left out where it is the default."""
        table = asdict(self)
        if self.block_hidden == KernelTiles().block_hidden:
            del table["block_hidden"]
        return table


@dataclass(frozen=True)
class Tiles:
    """Launch constants of all kernels, by kernel name; others: of the kernels that are not named."""

    kernels: Mapping[str, KernelTiles] = field(default_factory=dict, hash=False)
    others: KernelTiles = field(default_factory=KernelTiles)

    def of(self, kernel: str) -> KernelTiles:
        """The tiles of a kernel."""
        return self.kernels.get(kernel, self.others)


def padded(extent: int) -> int:
    """The power of two, at least 16, that holds an extent."""
    return max(SMALLEST_TILE, triton.next_power_of_2(extent))


@lru_cache(maxsize=256)
def load_module(source: str, name: str) -> ModuleType:
    """Import emitted source: the shipped file that holds it, or one in the cache folder.

    Triton reads kernels from files.
    """
    digest = hashlib.sha256(source.encode()).hexdigest()[:16]
    path = shipped_file(source, name) or _cached_file(source, f"{name}_{digest}.py")
    title = f"atlasgen_kernels_{name}_{digest}"
    spec = importlib.util.spec_from_file_location(title, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot import emitted kernels from {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[title] = module
    spec.loader.exec_module(module)
    return module


def shipped_file(source: str, name: str) -> Path | None:
    """The file of a shipped package with exactly this source; None for own rules and other structures.

    name: begins with the rule's name.
    """
    package = importlib.util.find_spec("atlasgen.generated")
    for folder in (package and package.submodule_search_locations) or ():
        for path in sorted(Path(folder).glob("*/kernels_*.py")):
            if name.startswith(path.parent.name) and path.read_text("utf-8") == source:
                return path
    return None


def _cached_file(source: str, name: str) -> Path:
    try:
        return _write_once(cache_folder() / "kernels", name, source)
    except OSError:
        return _write_once(Path(tempfile.mkdtemp(prefix="atlasgen")), name, source)


def _write_once(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    if path.exists() and path.read_text("utf-8") == text:
        return path
    folder.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=folder, suffix=".new")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary, path)
    return path


def poisoned() -> bool:
    """True where allocations are filled with NaN, so that an unwritten entry shows."""
    return os.environ.get("ATLASGEN_POISON") == "1"


def allocate(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device, zero: bool) -> Tensor:
    """A buffer: zeros where not every entry is written, else uninitialised."""
    if zero:
        return torch.zeros(shape, dtype=dtype, device=device)
    if poisoned():
        return torch.full(shape, float("nan"), dtype=dtype, device=device)
    return torch.empty(shape, dtype=dtype, device=device)


@dataclass(frozen=True)
class CallSizes:
    """The sizes of one call; own: the axes that are neither K nor V, with their lengths."""

    batch: int
    tokens: int
    heads: int
    key: int
    value: int
    rows: int
    blocks: int
    halo: int
    window: int
    own: tuple[tuple[str, int], ...] = ()


def own_extents(rule: MemoryRule, program: BlockProgram, key: int, value: int) -> dict[str, int]:
    """The lengths of a program's axes that are neither K nor V, for keys and values of these sizes."""
    sizes = {"K": key, "V": value, "F": feature_size(rule.features, key)}
    found = {axis: extent(text).at(sizes) for axis, text in program.extents.items()}
    wide = {dim for node in program.nodes() for dim in node.dims}
    return found | ({"F": sizes["F"]} if "F" in wide else {})


def constants_of(
    kernel: EmittedKernel, sizes: CallSizes, tiles: KernelTiles, dot: Any, precision: str
) -> dict[str, Any]:
    """Compile-time constants of a kernel for a call."""
    whole, by_key = kernel.kernel.values == "whole", kernel.kernel.walk == "K"
    block_v = padded(sizes.value) if whole else min(tiles.block_v, padded(sizes.value))
    table = {
        "ROWS": sizes.rows,
        "HALO": sizes.halo,
        "SOURCES": sizes.rows + sizes.halo,
        "HELD": sizes.window - 1,
        "WINDOW": sizes.window,
        "K": sizes.key,
        "V": sizes.value,
        "BLOCK_ROWS": padded(sizes.rows),
        "BLOCK_HALO": padded(sizes.halo),
        "BLOCK_SOURCES": padded(sizes.rows + sizes.halo),
        "BLOCK_K": min(padded(tiles.block_hidden), padded(sizes.key)) if by_key else padded(sizes.key),
        "BLOCK_V": block_v,
        "BLOCK_AGES": triton.next_power_of_2(sizes.window),
        "TILE_ROWS": min(tiles.tile_rows, padded(sizes.rows)),
        "DOT": dot,
        "PRECISION": precision,
        **_of_rows(dot, precision),
    }
    for axis, length in sizes.own:
        most = tiles.block_hidden if axis == kernel.kernel.walk else length
        table |= {axis: length, f"BLOCK_{axis}": min(padded(most), padded(length))}
    return {name: table[name] for name in kernel.constants}


def _of_rows(dot: Any, precision: str) -> dict[str, Any]:
    """The precision of sums over rows that solve a system: tf32 at least, which tensor cores have too."""
    wide = "dtype:fp32" if isinstance(dot, str) else tl.float32
    return {"ROW_DOT": wide, "ROW_PRECISION": precision if dot == wide else "tf32"}


class Launcher:
    """Runs the kernels of one emitted module."""

    def __init__(self, emitted: EmittedModule, name: str, tiles: Tiles) -> None:
        self.emitted, self.tiles = emitted, tiles
        self.module = load_module(emitted.source, name)

    def grid(self, kernel: EmittedKernel, sizes: CallSizes, constants: Mapping[str, Any]) -> int:
        """The number of programs."""
        programs = sizes.batch * sizes.heads
        if kernel.kernel.loop == "grid":
            programs *= sizes.blocks
        if kernel.kernel.loop == "row":
            programs *= sizes.rows
        if kernel.kernel.values == "parallel":
            programs *= -(-sizes.value // constants["BLOCK_V"])
        return programs

    def launch(
        self,
        name: str,
        tensors: Mapping[str, Any],
        flags: Mapping[str, bool],
        sizes: CallSizes,
        dot: Any,
        precision: str,
        block: int | None = None,
    ) -> None:
        """Run one kernel on the tensors of a call, by name; on one `block` where it takes one at a time."""
        kernel = self.emitted.kernels[name]
        tiles = self.tiles.of(name)
        constants = constants_of(kernel, sizes, tiles, dot, precision)
        grid = self.grid(kernel, sizes, constants)
        if grid == 0:
            return
        arguments = {argument.name: _value(argument, tensors) for argument in kernel.arguments}
        getattr(self.module, name)[(grid,)](
            **arguments,
            tokens=sizes.tokens,
            heads=sizes.heads,
            blocks=sizes.blocks,
            **({} if block is None else {"block": block}),
            **{flag: flags[flag] for flag in kernel.flags},
            **constants,
            num_warps=tiles.warps,
            num_stages=1 if kernel.kernel.streams else tiles.stages,  # what is read was just written
        )


_STRIDES = {"_row": 1, "_head": 2, "_columns": 0}


def _value(argument: Argument, tensors: Mapping[str, Any]) -> Any:
    value = tensors.get(argument.tensor)
    if argument.kind != "stride":
        return value
    suffix = argument.name[len(argument.tensor) :]
    return 0 if value is None else value.stride(_STRIDES[suffix])

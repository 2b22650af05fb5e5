"""Which kernels with which tiles serve a call: tuned results where there are some, else defaults.

A configuration never changes a result beyond rounding. Looking one up never times or compiles anything and
always has an answer: results of the rule for the device, the nearest size where the exact one is not there;
then the device's defaults; then those of the nearest device; then `DEFAULT`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import torch
import triton

from atlasgen.emit.axes import WALKS, state_axis, walked_axis
from atlasgen.emit.plan import Structure
from atlasgen.emit.refusals import kernel_schedule
from atlasgen.emit.single_rows import TOKEN_FORMS, has_token_matrices
from atlasgen.emit.triton_module import EmittedModule, emit_module
from atlasgen.runtime.launch import KernelTiles, Tiles, padded
from atlasgen.runtime.plain_source import plain_source
from atlasgen.runtime.results import DEFAULTS, Entry, read_entries
from atlasgen.runtime.targets import all_targets
from atlasgen.schedules.serve import schedule
from atlasgen.spec.rule import MemoryRule


@dataclass(frozen=True)
class Configuration:
    """A structure of kernels with the launch constants of each."""

    structure: Structure = field(default_factory=Structure)
    tiles: Tiles = field(default_factory=Tiles)

    def to_table(self) -> dict[str, Any]:
        """Plain JSON content."""
        kernels = {name: tiles.to_table() for name, tiles in sorted(self.tiles.kernels.items())}
        table: dict[str, Any] = {"structure": self.structure.to_table(), "kernels": kernels}
        if self.tiles.others != KernelTiles():
            table["others"] = self.tiles.others.to_table()
        return table

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Configuration:
        """The inverse of `to_table`; TypeError for unknown keys."""
        kernels = {name: KernelTiles(**tiles) for name, tiles in table["kernels"].items()}
        others = KernelTiles(**table.get("others", {}))
        return cls(Structure(**table["structure"]), Tiles(kernels, others))


DEFAULT = Configuration(Structure("split", "all", True, 4))
_WIDE, _THIN = KernelTiles(block_v=32, warps=8), KernelTiles(block_v=16, warps=8)
# Rules whose rows solve a system or decay by channel: found by compiling for every target. What keeps a state
# or sums over V takes thin tiles of V; what makes rows of values alone takes wider ones.
_TIES = {"unit_inverse", "unit_solve", "channel_scores"}
_ROWS_OF_VALUES = ("errors", "read_gradients", "output", "output_gradient_v")
_OWN_TILES = {
    **dict.fromkeys(_ROWS_OF_VALUES, _WIDE),
    "inverse": KernelTiles(warps=4),
    "coupling": KernelTiles(warps=4),
    # Its one product, 64 x 64, is too small for eight warps: they spill on sm_89.
    "value_sums_d_memory_next": KernelTiles(block_v=16, warps=4),
}
_TIED = Configuration(DEFAULT.structure, Tiles(_OWN_TILES, _THIN))
# Where channels are systems of their own, beside the values' gradients are those of the factors.
_BY_CHANNEL = Configuration(DEFAULT.structure, Tiles(_OWN_TILES | {"output_gradient_v": _THIN}, _THIN))
# Rules whose rows are walked: all rows' errors of a tile of V stay in the registers.
_WALKED = Configuration(Structure("split", "all", False, 4), Tiles(others=KernelTiles(block_v=16, warps=8)))
_NO_LIMIT = 1 << 30


def default_configuration(
    rule: MemoryRule, target: str | None = None, name: str | None = None
) -> Configuration:
    """What serves a rule without any result: a state with an axis of its own is walked along it.

    Where a map takes whole matrices of that axis, the kernels hold it whole.

    target: a name of targets.toml, None for a CPU. name: a schedule, None: the first that serves the rule
    and has kernels.
    """
    name = kernel_schedule(rule) if name is None else name
    if name is not None:
        found = _default_configuration(rule, target, name)
        return replace(found, structure=replace(found.structure, schedule=name))
    return _default_configuration(rule, target, None)


def _default_configuration(rule: MemoryRule, target: str | None, name: str | None) -> Configuration:
    program = schedule(rule, name).forward
    if has_token_matrices(program):
        iterated = any(node.op == "newton_schulz" for node in program.nodes())
        form = "token_grid" if iterated else "tokens"
        return Configuration(structure_of_form(form), Tiles(others=KernelTiles(warps=8)))
    if program.block == 1 and walked_axis(program) != "F":
        # Every kernel reads the state, and of one row nothing else is worth more than a read of that.
        return Configuration(structure_of_form("fused"), Tiles(others=KernelTiles(warps=8)))
    walks = any(node.op in WALKS for node in program.nodes())
    if walks:
        return replace(_WALKED, structure=replace(_WALKED.structure, walk=walked_axis(program)))
    if state_axis(program) is None:
        operators = {node.op for node in program.nodes()}
        tied = _BY_CHANNEL if "unit_solve" in operators else _TIED
        return tied if operators & _TIES else DEFAULT
    axis = walked_axis(program)
    if axis is None:
        return Configuration(DEFAULT.structure, Tiles(others=KernelTiles(warps=8)))
    structure = replace(DEFAULT.structure, walk_rows=False, walk=axis)
    # Found by compiling a memory of 64-256-64 for every target.
    state = KernelTiles(warps=4 if target is not None and all_targets()[target].backend == "hip" else 8)
    return Configuration(structure, Tiles({"state": state}, KernelTiles(warps=8)))


def forms(rule: MemoryRule) -> dict[str, Structure]:
    """The forms that a rule's kernels have, each with a structure; the default's first."""
    default = default_configuration(rule).structure
    pairs = {"split": ["fused"], "fused": ["split"], "token_grid": ["tokens"]}
    others = pairs.get(default.form, [])
    own = {form: replace(structure_of_form(form), schedule=default.schedule) for form in others}
    return {default.form: default} | own


def structure_of_form(form: str) -> Structure:
    """The plainest structure of a form."""
    return Structure(form, "all" if form in TOKEN_FORMS else "inline")  # type: ignore[arg-type]


@lru_cache(maxsize=256)
def emitted_module(rule: MemoryRule, structure: Structure) -> EmittedModule:
    """The kernels of a rule under one structure. Raises CompileError for a rule that is not served."""
    return emit_module(schedule(rule, structure.schedule), structure)


@lru_cache(maxsize=256)
def source_key(rule: MemoryRule, structure: Structure) -> str:
    """Sixteen hex digits of the kernels' code: a result for other code is stale."""
    code = plain_source(emitted_module(rule, structure).source)
    return hashlib.sha256(code.encode()).hexdigest()[:16]


def choose(
    rule: MemoryRule,
    device: torch.device,
    dtype: torch.dtype,
    key: int,
    value: int,
    schedule: str | None = None,
) -> Configuration:
    """The configuration of a call: never fails, never measures.

    schedule: one that was asked for; results are of the rule's own.

    device: where the tensors are. dtype: of q, k, v. key, value: the sizes K and V.
    """
    target, shared = _target_of(device.type, device.index)
    if schedule is not None:
        return default_configuration(rule, target, schedule)
    name = str(dtype).removeprefix("torch.")
    return _chosen(rule, target, shared, name, padded(key), padded(value))


@lru_cache(maxsize=1024)
def _chosen(
    rule: MemoryRule, target: str | None, shared: int, dtype: str, key: int, value: int
) -> Configuration:
    default = default_configuration(rule, target)
    if target is None:
        return default
    for place in nearest_targets(target):
        limit = min(shared, all_targets()[target].shared_bytes)
        # The devices' defaults were found for memories that one kernel holds.
        for file in (rule.name, DEFAULTS) if default is DEFAULT else (rule.name,):
            usable = [entry for entry in read_entries(place, file) if entry.shared_bytes <= limit]
            ranked = sorted(usable, key=lambda entry: _distance(entry, dtype, key, value))
            for entry in ranked:
                found = _configuration(entry)
                if found is not None and (
                    file == DEFAULTS or source_key(rule, found.structure) == entry.source
                ):
                    return found
    return default


def _configuration(entry: Entry) -> Configuration | None:
    """What an entry holds; None where a file was written by another version."""
    try:
        return Configuration.from_table(entry.configuration)
    except (KeyError, TypeError):
        return None


def _distance(entry: Entry, dtype: str, key: int, value: int) -> tuple[float, ...]:
    """How far an entry is from a call: dtype, Triton's version, sizes; of two as near the larger."""
    # Products of float16 run in tf32, on tiles as large as float32's.
    like = {"float16": ("float16", "float32", "bfloat16")}.get(dtype, (dtype, "float32", "bfloat16"))
    order = like.index(entry.dtype) if entry.dtype in like else len(like)
    steps = abs(entry.key.bit_length() - key.bit_length()) + abs(
        entry.value.bit_length() - value.bit_length()
    )
    return (order, not entry.serves(triton.__version__), steps, -entry.key, -entry.value)


@lru_cache(maxsize=64)
def nearest_targets(target: str) -> tuple[str, ...]:
    """All targets of one vendor, the given one first, then the nearest architecture below, then above."""
    targets = all_targets()
    own = targets[target]
    same = [other for other in targets.values() if other.backend == own.backend]
    if own.backend == "hip":
        return tuple(dict.fromkeys((target, *(other.name for other in same))))

    def distance(arch: int | str) -> tuple[bool, int]:
        gap = int(own.arch) - int(arch)
        return (gap < 0, abs(gap))

    return tuple(other.name for other in sorted(same, key=lambda other: distance(other.arch)))


@lru_cache(maxsize=64)
def _target_of(kind: str, index: int | None) -> tuple[str | None, int]:
    """The target that a device is nearest to, and its shared memory per program; None for a CPU."""
    if kind != "cuda" or not torch.cuda.is_available():
        return None, _NO_LIMIT
    properties = torch.cuda.get_device_properties(torch.cuda.current_device() if index is None else index)
    shared = int(getattr(properties, "shared_memory_per_block_optin", 0)) or _NO_LIMIT
    if torch.version.hip:
        architecture = str(getattr(properties, "gcnArchName", "")).partition(":")[0]
        return architecture if architecture in all_targets() else "gfx942", shared
    return target_of_capability(properties.major, properties.minor), shared


def target_of_capability(major: int, minor: int) -> str:
    """The CUDA target of a compute capability: the newest that is not newer, else the oldest."""
    known = {int(target.arch): name for name, target in all_targets().items() if target.backend == "cuda"}
    older = [arch for arch in known if arch <= 10 * major + minor]
    return known[max(older)] if older else known[min(known)]


def forget_results() -> None:
    """Read result files again at the next look-up: for a process that has just tuned."""
    read_entries.cache_clear()
    _chosen.cache_clear()

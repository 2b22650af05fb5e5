"""The devices that kernels are compiled for: what targets.toml says, as frozen data."""

from __future__ import annotations

import difflib
import functools
import tomllib
from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True)
class Target:
    """Limits and peak rates of one device; units as at the top of targets.toml."""

    name: str
    card: str
    source: str
    backend: str
    arch: int | str
    warp_size: int
    multiprocessors: int
    shared_bytes: int
    registers: int
    register_file: int
    threads: int
    bandwidth: float
    bf16_flops: float
    float32_flops: float
    l2_bytes: int


@functools.cache
def all_targets() -> dict[str, Target]:
    """Every target by name, in the file's order."""
    text = resources.files("atlasgen.runtime").joinpath("targets.toml").read_text("utf-8")
    return {name: Target(name=name, **fields) for name, fields in tomllib.loads(text).items()}


def find_target(name: str) -> Target:
    """The target of that name; ValueError names the ones there are."""
    targets = all_targets()
    if name in targets:
        return targets[name]
    near = difflib.get_close_matches(name, targets, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise ValueError(f"target: got {name!r}, allowed are {', '.join(targets)}{hint}")

"""Compile jobs of single kernels, from text that holds one kernel and its helpers.

A kernel's job does not mention its siblings, so a changed kernel leaves what is known of the others valid.
"""

from __future__ import annotations

import dataclasses
import hashlib
from functools import lru_cache

from atlasgen.emit.triton_module import EmittedModule
from atlasgen.runtime.cross_compile import Job
from atlasgen.runtime.launch import CallSizes, KernelTiles, Tiles
from atlasgen.runtime.plain_source import plain_source
from atlasgen.runtime.resources import jobs


@lru_cache(maxsize=512)
def _plain(source: str, name: str) -> str:
    return plain_source(source, name)


def kernel_source(module: EmittedModule, name: str) -> str:
    """The text of one kernel and its helpers, in canonical layout."""
    return _plain(module.source, name)


@lru_cache(maxsize=64)
def source_hash(source: str) -> str:
    """Sixteen hex digits that name a source text."""
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def kernel_job(
    module: EmittedModule, name: str, sizes: CallSizes, tiles: KernelTiles, dtype: str, target: str
) -> Job:
    """The compile job of one kernel with given tiles.

    dtype: "float32", "bfloat16" or "float16" (of q, k, v). target: a name of targets.toml.
    """
    alone = dataclasses.replace(module, kernels={name: module.kernels[name]})
    job = jobs(alone, sizes, Tiles({name: tiles}), dtype, target)[name]
    return dataclasses.replace(job, source=kernel_source(module, name))

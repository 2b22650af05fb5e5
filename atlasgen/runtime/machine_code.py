"""Reading compiled kernels: resources and instruction counts from the tools' text."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterable
from typing import Any

# "/*0a30*/   @!P0 LDG.E.128 R4, ..." -> LDG
_SASS_LINE = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+\{?\s*(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9]*)", re.M)
# Warp-wide (HMMA), warp-group (HGMMA) and fifth-generation (UTCHMMA) forms, of every dtype.
_SASS_TENSOR = re.compile(r"(?:[A-Z]G?|UTC[A-Z])MMA")
_SASS_USAGE = re.compile(r"REG:(\d+) STACK:(\d+)")
_AMD_LINE = re.compile(r"^\s+([a-z]+_\w+)", re.M)
_AMD_TENSOR = re.compile(r"v_s?mfma")
_AMD_FMA = re.compile(r"v_(?:pk_)?fma(?:c|mk|ak)?_f32")


def _run_tool(tool: str, *arguments: str) -> str:
    finished = subprocess.run([tool, *arguments], capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        raise RuntimeError(f"{tool} {' '.join(arguments)} failed: {finished.stderr.strip()}")
    return finished.stdout


def _sum_of(counts: Counter[str], names: Iterable[str]) -> int:
    return sum(counts[name] for name in names)


def read_sass(usage: str, listing: str) -> dict[str, int]:
    """Figures of one NVIDIA kernel from `cuobjdump -res-usage` and `nvdisasm -c`.

    spill_bytes is the thread's stack frame: nothing else of ours lives there.
    """
    found = _SASS_USAGE.search(usage)
    if found is None:
        raise RuntimeError(f"no REG and STACK figures in the resource usage: {usage.strip()!r}")
    counts = Counter(_SASS_LINE.findall(listing))
    return {
        "registers": int(found[1]),
        "spill_bytes": int(found[2]),
        "spill_instructions": _sum_of(counts, ("LDL", "STL")),
        "tensor_core_instructions": sum(
            number for name, number in counts.items() if _SASS_TENSOR.fullmatch(name)
        ),
        # LDGSTS copies straight to shared memory, UTMA is the tensor memory accelerator.
        "global_loads": _sum_of(counts, ("LDG", "LDGSTS", "UTMALDG")),
        "global_stores": _sum_of(counts, ("STG", "UTMASTG")),
        "fma": _sum_of(counts, ("FFMA", "FFMA2")),
    }


def _amd_field(text: str, name: str) -> int:
    found = re.search(rf"^\s*\.{name}:\s*(\d+)", text, re.M)
    if found is None:
        raise RuntimeError(f"no .{name} in the assembly's metadata")
    return int(found[1])


def read_amdgcn(text: str) -> dict[str, int]:
    """Figures of one AMD kernel from its assembly; a spilled vector register is 4 bytes a lane."""
    counts = Counter(_AMD_LINE.findall(text))

    def matching(*prefixes: str) -> int:
        return sum(number for name, number in counts.items() if name.startswith(prefixes))

    return {
        "registers": _amd_field(text, "vgpr_count"),
        "spill_bytes": 4 * _amd_field(text, "vgpr_spill_count"),
        "spill_instructions": matching("scratch_load", "scratch_store"),
        "tensor_core_instructions": sum(number for name, number in counts.items() if _AMD_TENSOR.match(name)),
        "global_loads": matching("global_load", "buffer_load"),
        "global_stores": matching("global_store", "buffer_store"),
        "fma": sum(number for name, number in counts.items() if _AMD_FMA.match(name)),
    }


def read_kernel(compiled: Any, scratch_path: str) -> dict[str, int]:
    """Figures of a kernel that triton.compile returned; writes its binary to `scratch_path`."""
    if "amdgcn" in compiled.asm:
        figures = read_amdgcn(compiled.asm["amdgcn"])
    else:
        from triton import knobs

        with open(scratch_path, "wb") as file:
            file.write(compiled.asm["cubin"])
        usage = _run_tool(knobs.nvidia.cuobjdump.path, "-res-usage", scratch_path)
        listing = _run_tool(knobs.nvidia.nvdisasm.path, "-c", scratch_path)
        figures = read_sass(usage, listing)
    return figures | {"shared_bytes": int(compiled.metadata.shared)}

"""CPU speed and memory of the torch backend, side by side with peers in one process.

    python benchmarks/cpu.py            all sections, about ten minutes
    python benchmarks/cpu.py --quick    tiny shapes and few rounds: does it still run?
    python benchmarks/cpu.py operator decode

Sections: `operator` (omeganet_linear against a plain torch dual form under torch autograd), `layer`
(MemoryLayer against titans-pytorch's NeuralMemory, if it is installed), `length` (time per token of a long
sequence against a short one), `memory` (peak memory against the length), `decode` (one-token calls of
several rules after 1 to 100,000 tokens); of deep memories `titans` (a two-layer MLP against NeuralMemory),
`atlas` (Newton-Schulz at every token against a plain torch program that holds a matrix per token under torch
autograd), `atlas_memory` (their peaks) and `memory_deep` (peak of a long sequence against its inputs,
outputs and checkpoints).

`layer` also runs the layer's matrix products with weights alone: no layer with these projections is faster.
`--clock process` counts processor time instead of elapsed time: on a shared machine with `--threads 1` the
figures hold still.

Contenders take turns, so that a busy machine slows all of them; a ratio is the median over rounds of the
ratio within a round, and the ratio of the fastest runs stands beside it.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import sys
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.cpu_sections import decode, deep, layers, measure, memory, omega

SECTIONS = {
    "operator": omega.operator_section,
    "layer": layers.matrix_section,
    "length": omega.length_section,
    "memory": memory.length_section,
    "decode": decode.section,
    "titans": layers.titans_section,
    "atlas": deep.atlas_section,
    "atlas_memory": memory.atlas_section,
    "memory_deep": memory.deep_section,
}


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    """Run the sections named on the command line and print their figures."""
    parser = argparse.ArgumentParser(description="CPU speed and memory of the torch backend against peers.")
    parser.add_argument("sections", nargs="*", help=f"which of {', '.join(SECTIONS)}; all by default")
    parser.add_argument("--quick", action="store_true", help="tiny shapes, few rounds")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--clock", choices=measure.CLOCKS, default="wall", help="elapsed or processor time")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--peak", nargs=2, metavar=("CASE", "TOKENS"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    unknown = set(options.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    torch.set_num_threads(options.threads)
    measure.clock = options.clock
    if options.peak is not None:
        memory.print_peak(options.peak[0], int(options.peak[1]))
        return {}
    print(
        f"float32, B={omega.BATCH} H={omega.HEADS} K=V={omega.SIZE}, window {omega.WINDOW}, block "
        f"{omega.BLOCK}, {options.threads} threads, {options.clock} time; torch {torch.__version__}, "
        f"titans-pytorch {_version('titans-pytorch')}, "
        f"python {platform.python_version()}, {platform.machine()}"
    )
    found = {}
    for name in options.sections or SECTIONS:
        print(name, flush=True)
        found[name] = SECTIONS[name](options.quick)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    return found


if __name__ == "__main__":
    main()

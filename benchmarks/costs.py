"""What a rule's choices cost: window, Newton-Schulz steps, degree of the features, block.

    python benchmarks/costs.py               writes docs/costs.md and docs/costs.png, some minutes
    python benchmarks/costs.py --quick       tiny sizes and one round: does it still run?

Each curve changes one field of a rule. Flops, bytes and states are counted, of the block programs; the time
is that of the torch backend, forward and backward, all points of a curve taking turns in one process, as a
ratio to the curve's first choice (the median over rounds of the ratio within a round).
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import atlasgen
from atlasgen.cli.facts import costs, state_bytes
from atlasgen.schedules.serve import schedule
from atlasgen.spec.load import rule_from_table
from atlasgen.spec.rule import MemoryRule
from atlasgen.verify.cases import Case
from atlasgen.verify.inputs import draw, initial_memory
from benchmarks.cpu_sections.measure import Run, both_of, interleaved

ROOT = Path(__file__).resolve().parents[1]
BATCH, HEADS, TOKENS, SIZE = 1, 4, 512, 32
TRIPLE = [3.4445, -4.775, 2.0315]


def of_window(length: int) -> dict[str, Any]:
    return {"extends": "omeganet_linear", "window": {"length": length}}


def of_steps(steps: int) -> dict[str, Any]:
    maps = [{"kind": "newton_schulz", "at": "token", "coefficients": [TRIPLE] * steps}] if steps else []
    return {"extends": "atlas", "optimizer": {"transform": maps}}


def of_degree(degree: int) -> dict[str, Any]:
    features = {"kind": "poly", "degree": degree, "basis": "symmetric", "coefficients": "taylor"}
    return {"extends": "omeganet_linear", "features": features if degree > 1 else "identity"}


def of_block(size: int) -> dict[str, Any]:
    return {"extends": "omeganet_linear", "block": size}


def of_deep_block(size: int) -> dict[str, Any]:
    return {"extends": "titans", "block": size}


@dataclass(frozen=True)
class Curve:
    """One field of a rule, its values, and the table of the rule at each."""

    name: str
    title: str
    values: tuple[int, ...]
    table: Callable[[int], dict[str, Any]]


CURVES = (
    Curve("window", "window c of omeganet_linear", (1, 2, 4, 8, 16, 32), of_window),
    Curve("steps", "Newton-Schulz steps per token of atlas", (0, 1, 2, 3, 4, 5), of_steps),
    Curve("degree", "degree of the features of omeganet_linear", (1, 2, 3), of_degree),
    Curve("block", "block of omeganet_linear", (16, 32, 64, 128), of_block),
    Curve("deep_block", "block of titans", (16, 32, 64, 128), of_deep_block),
)


@dataclass(frozen=True)
class Point:
    """One choice. flops and least bytes of both passes, per token and head; state in bytes per head."""

    value: int
    flops: float
    bytes: float
    state: int
    time: float


def run_of(rule: MemoryRule, tokens: int, size: int) -> Run:
    """A call forward and backward on the torch backend, every argument with a gradient."""
    drawn = draw(rule, Case(BATCH, tokens, HEADS, size, size)).tensors
    leaves = {name: tensor.float().requires_grad_() for name, tensor in drawn.items()}
    given: dict[str, Any] = {n: t for n, t in leaves.items() if not n.startswith("initial_memory")}
    operator, memory = atlasgen.compile(rule, backend="torch"), initial_memory(leaves)
    return both_of(lambda: operator(**given, initial_memory=memory)[0], list(leaves.values()))


def points(curve: Curve, tokens: int, size: int, rounds: int) -> list[Point]:
    """All points of a curve."""
    rules = {v: rule_from_table({"rule": f"{curve.name}_{v}", **curve.table(v)}) for v in curve.values}
    seconds = interleaved({str(v): run_of(rule, tokens, size) for v, rule in rules.items()}, rounds, 1)
    shape = {"B": BATCH, "T": tokens, "H": HEADS, "K": size, "V": size}
    first, found = seconds[str(curve.values[0])], []
    for value, rule in rules.items():
        counted = costs(schedule(rule), shape, "float32")
        found.append(
            Point(
                value,
                sum(cost.flops for cost in counted),
                sum(cost.bytes for cost in counted),
                sum(state_bytes(rule, size, size).values()),
                statistics.median(own / base for own, base in zip(seconds[str(value)], first)),
            )
        )
    return found


def table(curve: Curve, found: list[Point]) -> list[str]:
    """Markdown of one curve."""
    lines = [f"## {curve.title[0].upper()}{curve.title[1:]}", ""]
    lines += [f"| {curve.title.split(' of ')[0]} | flops per token | flops per byte | state, KiB | time |"]
    lines += ["|---:|---:|---:|---:|---:|"]
    lines += [
        f"| {p.value} | {p.flops:,.0f} | {p.flops / p.bytes:,.0f} | {p.state / 1024:,.1f} | {p.time:.2f} |"
        for p in found
    ]
    return [*lines, ""]


def plot(path: Path, curves: dict[Curve, list[Point]]) -> None:
    """Flops and time of every curve, each relative to its first point."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.2 * len(curves), 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (curve, found) in zip(
        figure.subplots(1, len(curves), squeeze=False)[0], curves.items(), strict=True
    ):
        values = [str(point.value) for point in found]
        axes.plot(values, [point.flops / found[0].flops for point in found], "o-", label="flops")
        axes.plot(values, [point.time for point in found], "s--", label="time")
        axes.set_title(curve.title, fontsize=9)
        axes.set_ylim(bottom=0)
        axes.legend(fontsize=8)
    figure.savefig(path, dpi=110, metadata={"Software": None})


def page(curves: dict[Curve, list[Point]], tokens: int, size: int, rounds: int) -> str:
    """The whole page."""
    intro = [
        "# What choices cost",
        "",
        "Written by `python benchmarks/costs.py`. Every row is a rule that differs from the row above in one",
        "field; the rest is as in the shipped spec. Flops are those of the block programs, forward and",
        "backward, per token and head; flops per byte divide them by the least traffic (each argument read",
        "once, each result written once); the state is one head's. The time is that of the torch backend",
        "on a CPU, forward and backward, relative to the table's first row: "
        f"B = {BATCH}, T = {tokens}, H = {HEADS},",
        f"K = V = {size}, float32, {torch.get_num_threads()} threads, medians of {rounds} rounds "
        "in which all rows take turns.",
        "",
        "![flops and time along each choice](costs.png)",
        "",
    ]
    return "\n".join(intro + [line for curve, found in curves.items() for line in table(curve, found)])


def main(arguments: list[str] | None = None) -> None:
    """Measure all curves and write the page and its plot."""
    parser = argparse.ArgumentParser(description="Cost of a rule's choices, counted and timed on the CPU.")
    names = [curve.name for curve in CURVES]
    parser.add_argument(
        "curves", nargs="*", metavar="CURVE", help=f"which of {', '.join(names)}; all by default"
    )
    parser.add_argument("--quick", action="store_true", help="tiny sizes, one round")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=ROOT / "docs", help="folder of costs.md and costs.png")
    options = parser.parse_args(arguments)
    unknown = set(options.curves) - set(names)
    if unknown:
        parser.error(f"no curve {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    chosen = [curve for curve in CURVES if curve.name in (options.curves or names)]
    torch.set_num_threads(options.threads)
    tokens, size, rounds = (32, 4, 1) if options.quick else (TOKENS, SIZE, options.rounds)
    curves = {}
    for curve in chosen:
        print(curve.title, flush=True)
        curves[curve] = points(curve, tokens, size, rounds)
        for point in curves[curve]:
            print(f"  {point.value:4} {point.flops:14,.0f} flops a token   time {point.time:.2f}", flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "costs.md").write_text(page(curves, tokens, size, rounds).rstrip() + "\n", "utf-8")
    plot(options.out / "costs.png", curves)


if __name__ == "__main__":
    main()

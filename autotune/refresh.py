"""Renew the shipped results: `python -m atlasgen.autotune.refresh`.

Every shipped rule that has kernels of one tile per axis, each target, dtype and size has an entry whose
kernels do not spill; deep memories are served by the defaults. An entry whose source is
still the same stays; a stale one is compiled again, its own tiles first, then up the ladder of space.toml.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import triton

from atlasgen.autotune.fit import KernelFit, climb, start_fits
from atlasgen.autotune.modelled import Modelled
from atlasgen.autotune.objective import Evaluation, Objective
from atlasgen.autotune.problems import make_problem
from atlasgen.autotune.proof import Proof, prove
from atlasgen.emit.axes import state_axis
from atlasgen.emit.refusals import kernel_refusals
from atlasgen.emit.single_rows import has_token_matrices
from atlasgen.runtime.configuration import DEFAULT, Configuration, source_key
from atlasgen.runtime.launch import KernelTiles, Tiles
from atlasgen.runtime.results import (
    DEFAULTS,
    Entry,
    read_file,
    shipped_folder,
    version_range,
    write_entries,
)
from atlasgen.schedules.serve import schedule
from atlasgen.spec import load_rule, shipped_specs
from atlasgen.spec.rule import MemoryRule

TARGETS = ("sm_80", "sm_90", "sm_100", "gfx942")
SIZES = (64, 128)
DTYPES = ("bfloat16", "float32")
# Rules without results of their own get these rules' tiles, kernel by kernel; the first that has it gives it.
MODEL_RULES = ("omeganet_linear", "titans_linear", "linear_attention")


@dataclass(frozen=True)
class Slot:
    """One entry to be."""

    target: str
    dtype: str
    size: int


def make_entry(
    rule: MemoryRule,
    configuration: Configuration,
    dtype: str,
    sizes: tuple[int, int],
    evaluations: dict[str, Evaluation],
    objective: str,
    proof: Proof,
) -> Entry:
    """An entry from what was found out about a configuration; sizes: (K, V)."""
    figures = {name: evaluation.figures or {} for name, evaluation in evaluations.items()}
    kept = ("registers", "spill_bytes", "shared_bytes", "tensor_core_instructions")
    evidence = {
        "objective": objective,
        "triton": triton.__version__,
        "microseconds": {name: round(1e6 * e.seconds, 1) for name, e in evaluations.items()},
        "kernels": {name: {key: own[key] for key in kept if key in own} for name, own in figures.items()},
        "checked": asdict(proof),
    }
    return Entry(
        source_key(rule, configuration.structure),
        dtype,
        *sizes,
        version_range(triton.__version__),
        max(own.get("shared_bytes", 0) for own in figures.values()),
        configuration.to_table(),
        evidence,
    )


def refresh_rule(
    rule: MemoryRule, slots: Sequence[Slot], objective: Objective, force: bool = False
) -> list[str]:
    """Renew the entries of one rule; a sentence for each one that changed or that still spills."""
    structure = DEFAULT.structure
    fits: dict[Slot, list[KernelFit]] = {}
    for slot in slots:
        old = _entry_of(rule, slot)
        if old is not None and not force and old.source == source_key(rule, structure):
            continue
        problem = make_problem(rule, structure, slot.dtype, slot.size, slot.size, slot.target)
        known = Configuration.from_table(old.configuration).tiles.kernels if old is not None else {}
        fits[slot] = start_fits(problem, dict(known))
    climb([fit for own in fits.values() for fit in own], objective)
    said = []
    for slot, own in fits.items():
        said.append(_write(rule, slot, own, objective.name))
    return said


def tuned_rules() -> list[MemoryRule]:
    """The shipped rules that results are shipped for: in blocks, a matrix that every token writes to.

    The others (exact rules, decays by channel among them) run with their targets' defaults.
    """
    rules = [load_rule(name) for name in shipped_specs()]
    dual = {
        rule: schedule(rule) for rule in rules if not rule.held and rule.retention.alpha.kind != "channel"
    }
    programs = {rule: own.forward for rule, own in dual.items() if own.schedule == "dual"}
    return [
        rule
        for rule, program in programs.items()
        if not kernel_refusals(program) and state_axis(program) is None and not has_token_matrices(program)
    ]


def _path(slot: Slot, name: str) -> Path:
    return shipped_folder() / slot.target / f"{name}.json"


def _entry_of(rule: MemoryRule, slot: Slot) -> Entry | None:
    return _find(slot, rule.name)


def _find(slot: Slot, name: str) -> Entry | None:
    wanted = (slot.dtype, slot.size, slot.size)
    return next((entry for entry in read_file(_path(slot, name)) if entry.slot == wanted), None)


def write_defaults(slot: Slot) -> None:
    """The tiles of rules without results of their own, from the entries of the model rules."""
    models = [entry for name in MODEL_RULES if (entry := _find(slot, name)) is not None]
    if not models:
        return
    kernels: dict[str, KernelTiles] = {}
    for entry in models:
        own = Configuration.from_table(entry.configuration).tiles.kernels
        kernels = {**own, **kernels}
    table = Configuration(DEFAULT.structure, Tiles(kernels)).to_table()
    shared = max(entry.shared_bytes for entry in models)
    evidence = {"taken from": list(MODEL_RULES)}
    entry = replace(models[0], source="", shared_bytes=shared, configuration=table, evidence=evidence)
    write_entries(_path(slot, DEFAULTS), DEFAULTS, slot.target, [entry])


def _write(rule: MemoryRule, slot: Slot, fits: list[KernelFit], objective: str) -> str:
    chosen: dict[str, KernelTiles] = {}
    evaluations: dict[str, Evaluation] = {}
    for fit in fits:
        assert fit.best is not None
        chosen[fit.kernel], evaluations[fit.kernel] = fit.best
    label = f"{rule.name} {slot.target} {slot.dtype} {slot.size}"
    failed = [f"{name}: {e.reason}" for name, e in evaluations.items() if e.reason is not None]
    if failed:
        return f"{label}: not written, {'; '.join(failed)}"
    configuration = Configuration(DEFAULT.structure, Tiles(chosen))
    proof = prove(rule, configuration)
    if proof.problem is not None:
        return f"{label}: not written, {proof.problem}"
    entry = make_entry(rule, configuration, slot.dtype, (slot.size, slot.size), evaluations, objective, proof)
    write_entries(_path(slot, rule.name), rule.name, slot.target, [entry])
    spilled = [f"{name} {e.spill_bytes} bytes" for name, e in evaluations.items() if e.spill_bytes]
    return f"{label}: {'spills: ' + ', '.join(spilled) if spilled else 'no spills'}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Renew the shipped tuning results.")
    parser.add_argument("--rules", default="", help="names, separated by commas; all where it is empty")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--sizes", default=",".join(str(size) for size in SIZES))
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--force", action="store_true", help="entries that are not stale too")
    chosen = parser.parse_args()
    slots = [
        Slot(target, dtype, int(size))
        for dtype in chosen.dtypes.split(",")
        for size in chosen.sizes.split(",")
        for target in chosen.targets.split(",")
    ]
    rules = [load_rule(name) for name in chosen.rules.split(",")] if chosen.rules else tuned_rules()
    objective = Modelled(chosen.workers)
    for rule in rules:
        for sentence in refresh_rule(rule, slots, objective, chosen.force):
            print(sentence, flush=True)
    for slot in slots:
        write_defaults(slot)


if __name__ == "__main__":
    main()

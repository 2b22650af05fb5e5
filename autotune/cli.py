"""What `atlasgen tune` does: search every kernel of the structures, check the winner, store it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from atlasgen.autotune.modelled import Modelled
from atlasgen.autotune.objective import Evaluation, Objective, Point, Problem
from atlasgen.autotune.problems import make_problem
from atlasgen.autotune.proof import Proof, prove
from atlasgen.autotune.refresh import make_entry
from atlasgen.autotune.space import kernel_space
from atlasgen.autotune.study import Budget, Found, KernelStudy, Store
from atlasgen.emit.plan import Structure
from atlasgen.errors import ArgumentError
from atlasgen.runtime.configuration import Configuration, default_configuration, forget_results
from atlasgen.runtime.launch import KernelTiles, Tiles, padded
from atlasgen.runtime.results import tuned_folder, write_entries
from atlasgen.runtime.targets import all_targets
from atlasgen.spec.rule import MemoryRule

DTYPES = ("float32", "bfloat16", "float16")
_FIRST = KernelTiles(block_v=64, warps=4)


@dataclass
class Outcome:
    """The result of tuning for one target. problem: why nothing was stored."""

    target: str
    configuration: Configuration | None = None
    found: dict[str, Found] = field(default_factory=dict)
    proof: Proof | None = None
    path: Path | None = None
    interrupted: bool = False
    problem: str | None = None

    @property
    def seconds(self) -> float:
        """Of one training step: every kernel launched once (the prologue twice where there is one)."""
        return sum(found.evaluation.seconds for found in self.found.values())

    @property
    def spills(self) -> bool:
        """True if a kernel of the configuration spills."""
        return any(found.evaluation.spill_bytes for found in self.found.values())

    @property
    def new(self) -> int:
        """Trials that were made, not remembered."""
        return sum(found.new for found in self.found.values())


def tune(
    rule: MemoryRule,
    targets: Sequence[str] = ("sm_90",),
    key_size: int = 64,
    value_size: int = 64,
    dtype: str = "bfloat16",
    objective: str | Objective = "modelled",
    trials: int | None = None,
    seconds: float | None = None,
    storage: str | None = None,
    structures: Sequence[Structure] | None = None,
    folder: Path | None = None,
    console: Console | None = None,
) -> list[Outcome]:
    """Search the launch constants of a rule's kernels for each target and store the best.

    targets: names of targets.toml. key_size, value_size: K and V. dtype: of q, k, v. objective: "modelled",
    or any Objective. trials: points per kernel at most, remembered ones included; seconds: of the search for
    one target at most (None: no limit; small spaces end by themselves). storage: an Optuna storage URL (None:
    a journal in the cache). structures: those to compare (None: the default one). folder: where results go
    (None: the user's, which look-ups read first). An interrupt (Ctrl-C) keeps the best so far. Raises
    ArgumentError for an unknown target, dtype or objective, CompileError for a rule that is not served.
    """
    for name in targets:
        if name not in all_targets():
            raise ArgumentError("target", "unknown", value=name, allowed=", ".join(all_targets()))
    if dtype not in DTYPES:
        raise ArgumentError("dtype", "unknown", value=dtype, allowed=", ".join(DTYPES))
    chosen = _objective(objective)
    shown = console or Console(stderr=True)
    outcomes = []
    for name in targets:
        budget, store = Budget(seconds, trials), Store(storage)
        search = Search(rule, name, (key_size, value_size), dtype, chosen, store, budget)
        compared = structures or (default_configuration(rule, name).structure,)
        outcome = search.run(compared, folder or tuned_folder(), shown)
        _show(shown, rule, outcome)
        outcomes.append(outcome)
        if outcome.interrupted:
            break
    forget_results()
    return outcomes


def _objective(objective: str | Objective) -> Objective:
    if not isinstance(objective, str):
        return objective
    if objective == "modelled":
        return Modelled()
    raise ArgumentError(
        "objective", "not available", value=objective, allowed="modelled", suggestion="use modelled"
    )


@dataclass
class Search:
    """One rule on one target."""

    rule: MemoryRule
    target: str
    sizes: tuple[int, int]
    dtype: str
    objective: Objective
    store: Store
    budget: Budget

    def run(self, structures: Sequence[Structure], folder: Path, console: Console) -> Outcome:
        """Search all structures, check candidates from the best on until one is right, and store it."""
        candidates: list[Outcome] = []
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        interrupted = False
        with Progress(*columns, console=console, transient=True) as progress:
            for structure in structures:
                outcome = self._structure(structure, progress)
                interrupted |= outcome.interrupted
                candidates.append(outcome)
                if interrupted or self.budget.is_spent(0) and len(candidates) < len(structures):
                    break
        usable = [outcome for outcome in candidates if outcome.configuration is not None]
        for best in sorted(usable, key=lambda outcome: (outcome.spills, outcome.seconds)):
            assert best.configuration is not None
            best.interrupted = interrupted
            best.proof = proof = prove(self.rule, best.configuration)
            if proof.problem is None:
                self._store(best, folder)
                return best
            best.problem = f"wrong results: {proof.problem}"
        problem = "; ".join(str(outcome.problem) for outcome in candidates)
        return Outcome(self.target, interrupted=interrupted, problem=problem)

    def _structure(self, structure: Structure, progress: Progress) -> Outcome:
        problem = make_problem(self.rule, structure, self.dtype, *self.sizes, self.target)
        outcome = Outcome(self.target)
        names = list(problem.module.kernels)
        try:
            self._try_first_points(problem)
        except KeyboardInterrupt:
            outcome.interrupted = True
        task = progress.add_task(f"{self.target} {structure.label}", total=None)
        for name in names:
            study = KernelStudy(problem, name, self.objective, self.store, self.budget)
            total = study.space.size if self.budget.trials is None else self.budget.trials
            words = f"{self.target} {structure.label} {name}"
            progress.reset(task, description=words, total=min(total, study.space.size))
            try:
                if outcome.interrupted or self.budget.is_spent(0):
                    found = self._default_point(problem, name)
                else:
                    found = study.run(_FIRST, lambda: progress.advance(task))
            except KeyboardInterrupt:
                outcome.interrupted = True
                outcome.problem = "interrupted before every kernel had a point"
                return outcome
            except RuntimeError as error:
                outcome.problem = str(error)
                return outcome
            outcome.found[name] = found
            outcome.interrupted |= found.interrupted
        tiles = Tiles({name: found.tiles for name, found in outcome.found.items()})
        outcome.configuration = Configuration(structure, tiles)
        return outcome

    def _try_first_points(self, problem: Problem) -> None:
        """All kernels' first points at once: objectives remember, so that each search begins at once."""
        spaces = [kernel_space(kernel, problem.sizes) for kernel in problem.module.kernels.values()]
        self.objective.evaluate([Point(problem, space.kernel, space.nearest(_FIRST)) for space in spaces])

    def _default_point(self, problem: Problem, name: str) -> Found:
        """What stands in for a kernel that the budget does not reach: its first point, and nothing new."""
        study = KernelStudy(problem, name, self.objective, self.store, Budget(trials=1))
        return study.run(_FIRST)

    def _store(self, outcome: Outcome, folder: Path) -> None:
        assert outcome.configuration is not None and outcome.proof is not None
        evaluations: dict[str, Evaluation] = {name: found.evaluation for name, found in outcome.found.items()}
        sizes = (padded(self.sizes[0]), padded(self.sizes[1]))
        entry = make_entry(
            self.rule,
            outcome.configuration,
            self.dtype,
            sizes,
            evaluations,
            self.objective.name,
            outcome.proof,
        )
        path = folder / self.target / f"{self.rule.name}.json"
        try:
            write_entries(path, self.rule.name, self.target, [entry])
            outcome.path = path
        except OSError as error:
            outcome.problem = f"the result could not be written: {error}"


def _show(console: Console, rule: MemoryRule, outcome: Outcome) -> None:
    if not outcome.found:
        console.print(f"{rule.name} on {outcome.target}: nothing stored. {outcome.problem}")
        return
    assert outcome.configuration is not None
    title = f"{rule.name} on {outcome.target}: {outcome.configuration.structure.label}"
    table = Table(title=title, title_justify="left")
    for name in ("kernel", "V, rows, warps, stages", "registers", "spills", "µs", "new"):
        table.add_column(name, justify="left" if name == "kernel" else "right", no_wrap=name == "kernel")
    for name, found in outcome.found.items():
        tiles, figures = found.tiles, found.evaluation.figures or {}
        constants = f"{tiles.block_v} {tiles.tile_rows} {tiles.warps} {tiles.stages}"
        spills, microseconds = found.evaluation.spill_bytes, f"{1e6 * found.evaluation.seconds:.0f}"
        row = (constants, figures.get("registers", ""), spills, microseconds, found.new)
        table.add_row(name, *(str(entry) for entry in row))
    console.print(table)
    if outcome.interrupted:
        console.print("interrupted: the best so far")
    if outcome.proof is not None:
        checked = f"checked against the reference at {outcome.proof.case} in {outcome.proof.dtype}"
        console.print(f"{checked}: largest error {outcome.proof.worst:g} of what is allowed")
    console.print(f"stored in {outcome.path}" if outcome.path else f"not stored: {outcome.problem}")


__all__ = ["Outcome", "tune"]

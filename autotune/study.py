"""Search the space of one kernel with Optuna: ask, evaluate many at once, tell.

The default point is enqueued first. Spaces of at most `EXHAUSTIVE` points are tried whole, larger ones with
TPE. A point that was told before is never tried again, by this process or another: studies are kept in a
journal file, or in any storage whose URL is given, under a name that changes with the kernel's text.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import optuna
import triton
from filelock import FileLock
from optuna.storages import BaseStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

from atlasgen.autotune.objective import Evaluation, Objective, Point, Problem
from atlasgen.autotune.sources import kernel_source, source_hash
from atlasgen.autotune.space import EXHAUSTIVE, KernelSpace, kernel_space
from atlasgen.runtime.cache import cache_folder
from atlasgen.runtime.launch import KernelTiles

TPE_TRIALS = 48  # of a space that is too large to be tried whole
AT_ONCE = 8  # points that are asked for before the first is told


@dataclass
class Budget:
    """What a search may use: seconds in all, and trials per kernel, old ones included; None: no limit."""

    seconds: float | None = None
    trials: int | None = None
    started: float = field(default_factory=time.monotonic)

    def is_spent(self, trials: int) -> bool:
        """True if no further trial may begin after `trials` of a kernel."""
        late = self.seconds is not None and time.monotonic() - self.started >= self.seconds
        return late or (self.trials is not None and trials >= self.trials)


@dataclass(frozen=True)
class Found:
    """The best point of one kernel. new: trials of this search. failed: reasons by point."""

    tiles: KernelTiles
    evaluation: Evaluation
    new: int
    total: int
    failed: dict[str, str]
    interrupted: bool = False


class Store:
    """Where studies are kept: a journal file (the default), or an Optuna storage URL.

    A folder that cannot be written makes a store that lasts as long as the process.
    """

    def __init__(self, url: str | None = None, folder: Path | None = None) -> None:
        self.folder = folder or cache_folder() / "studies"
        self.local = url is None
        self.storage: BaseStorage | str = url if url is not None else self._journal()

    def _journal(self) -> BaseStorage:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.folder):
                pass
        except OSError:
            self.local = False
            return optuna.storages.InMemoryStorage()
        return JournalStorage(JournalFileBackend(str(self.folder / "journal.log")))

    @contextlib.contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """One process at a time searches a study of the local store: the next one finds its trials."""
        if not self.local:
            yield
            return
        with FileLock(self.folder / f"{name}.lock"):
            yield


class KernelStudy:
    """The search for one kernel of a problem."""

    def __init__(
        self, problem: Problem, kernel: str, objective: Objective, store: Store, budget: Budget
    ) -> None:
        self.problem, self.kernel, self.objective = problem, kernel, objective
        self.store, self.budget = store, budget
        self.space: KernelSpace = kernel_space(problem.module.kernels[kernel], problem.sizes)
        source = source_hash(kernel_source(problem.module, kernel))
        sizes = f"{problem.sizes.key}x{problem.sizes.value}"
        self.name = f"{objective.name}-{problem.target}-{problem.dtype}-{sizes}-{kernel}-{source}"
        self.name += f"-triton{triton.__version__}"

    def run(self, first: KernelTiles, on_trial: Callable[[], None] | None = None) -> Found:
        """Search until the space, the budget or the user ends it; the best point so far comes back.

        first: the point to begin with. Raises RuntimeError where no point works, with the reasons.
        """
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        with self.store.locked(self.name):
            study = self._study()
            new, interrupted = 0, False
            try:
                new = self._search(study, self.space.nearest(first), on_trial)
            except KeyboardInterrupt:
                interrupted = True
            return self._best(study, new, interrupted)

    def _study(self) -> optuna.Study:
        sampler = optuna.samplers.TPESampler(seed=0, constant_liar=True)
        return optuna.create_study(
            storage=self.store.storage, sampler=sampler, study_name=self.name, load_if_exists=True
        )

    def _search(self, study: optuna.Study, first: KernelTiles, on_trial: Callable[[], None] | None) -> int:
        whole = self.space.size <= EXHAUSTIVE
        known = {_tiles(trial) for trial in _finished(study)}
        queue = [point for point in dict.fromkeys([first, *self.space.points()]) if point not in known]
        new, wanted = 0, (self.space.size if whole else min(TPE_TRIALS, self.space.size))
        if self.budget.trials is not None:
            wanted = min(wanted, self.budget.trials)
        while not self.budget.is_spent(len(known)) and len(known) < wanted:
            room = wanted - len(known)
            count = 1 if first not in known else min(AT_ONCE, room)
            fixed = queue[:count] if whole or first not in known else []
            trials = self._ask(study, fixed, count, known)
            if not trials:
                break
            self._tell(study, trials, on_trial)
            known |= set(trials.values())
            queue = [point for point in queue if point not in known]
            new += len(trials)
        return new

    def _ask(
        self, study: optuna.Study, fixed: list[KernelTiles], count: int, known: set[KernelTiles]
    ) -> dict[optuna.Trial, KernelTiles]:
        """New trials: of given points, else of the sampler's choice. A point asked twice is not a trial."""
        trials: dict[optuna.Trial, KernelTiles] = {}
        for point in fixed:
            study.enqueue_trial(asdict(point))
        for _ in range(4 * count):
            trial = study.ask()
            point = KernelTiles(
                **{name: trial.suggest_categorical(name, values) for name, values in self.space.axes.items()}
            )
            if point in known or point in trials.values():
                study.tell(trial, state=TrialState.PRUNED)
            else:
                trials[trial] = point
            if len(trials) >= (len(fixed) or count):
                break
        return trials

    def _tell(
        self,
        study: optuna.Study,
        trials: dict[optuna.Trial, KernelTiles],
        on_trial: Callable[[], None] | None,
    ) -> None:
        points = [Point(self.problem, self.kernel, tiles) for tiles in trials.values()]
        found = self.objective.evaluate(points, lambda *_: on_trial() if on_trial else None)
        for trial, evaluation in zip(trials, found, strict=True):
            _constrain(trial, evaluation.constraints)
            if evaluation.reason is not None:
                trial.set_user_attr("reason", evaluation.reason[:500])
                study.tell(trial, state=TrialState.FAIL)
                continue
            trial.set_user_attr("figures", evaluation.figures)
            trial.set_user_attr("spill_bytes", evaluation.spill_bytes)
            study.tell(trial, evaluation.seconds)

    def _best(self, study: optuna.Study, new: int, interrupted: bool) -> Found:
        finished = _finished(study)
        failed = {str(_tiles(t)): str(t.user_attrs.get("reason")) for t in finished if t.values is None}
        working = [(_tiles(trial), _evaluation(trial)) for trial in finished if trial.values is not None]
        if not working:
            if interrupted:
                raise KeyboardInterrupt
            reasons = "; ".join(dict.fromkeys(failed.values())) or "the budget allows no trial"
            raise RuntimeError(
                f"no launch constants of {self.kernel} work on {self.problem.target}: {reasons}"
            )
        # Ties go to the point that comes first in the space: every process chooses the same.
        order = {point: place for place, point in enumerate(self.space.points())}
        tiles, evaluation = min(working, key=lambda entry: (entry[1].rank, order.get(entry[0], len(order))))
        return Found(tiles, evaluation, new, len(finished), failed, interrupted)


def _constrain(trial: optuna.Trial, values: tuple[float, ...]) -> None:
    """Tell the sampler how far limits are exceeded (from Optuna 5 on, trials take it)."""
    if hasattr(trial, "set_constraint"):
        for name, value in zip(("fails", "spills"), values, strict=True):
            trial.set_constraint(name, value)


def _finished(study: optuna.Study) -> list[FrozenTrial]:
    return study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.FAIL))


def _tiles(trial: FrozenTrial) -> KernelTiles:
    return KernelTiles(**trial.params)


def _evaluation(trial: FrozenTrial) -> Evaluation:
    attributes: dict[str, Any] = trial.user_attrs
    assert trial.value is not None
    return Evaluation(trial.value, attributes.get("spill_bytes", 0), attributes.get("figures"))


__all__ = ["Budget", "Found", "KernelStudy", "Store"]

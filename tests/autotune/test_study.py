"""Searches: what is tried, what is remembered, what is never chosen."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from atlasgen.autotune.objective import Evaluation
from atlasgen.autotune.space import kernel_space, ladder, structures
from atlasgen.autotune.study import Budget, Found, KernelStudy, Store
from atlasgen.runtime.configuration import DEFAULT
from atlasgen.runtime.launch import KernelTiles
from tests.autotune.support import Formula, cost, problem

FIRST = KernelTiles(64, 16, 4, 1)
BEST = KernelTiles(32, 16, 2, 2)


def search(
    folder: Path, objective: Formula, budget: Budget | None = None, kernel: str = "output_gradient_q"
) -> Found:
    store = Store(folder=folder)
    return KernelStudy(problem(), kernel, objective, store, budget or Budget()).run(FIRST)


def test_a_small_space_is_tried_whole_with_the_default_first(tmp_path: Path) -> None:
    objective = Formula(cost)
    found = search(tmp_path, objective)
    space = kernel_space(problem().module.kernels["output_gradient_q"], problem().sizes)
    assert objective.asked[0] == FIRST
    assert sorted(map(str, objective.asked)) == sorted(map(str, space.points()))
    assert found.tiles == BEST and found.new == found.total == space.size


def test_a_second_search_tries_nothing_again(tmp_path: Path) -> None:
    search(tmp_path, Formula(cost))
    again = Formula(cost)
    found = search(tmp_path, again)
    assert (found.new, again.asked, found.tiles) == (0, [], BEST)


def test_what_fails_is_recorded_with_its_reason_and_never_chosen(tmp_path: Path) -> None:
    def function(tiles: KernelTiles) -> Evaluation:
        if tiles.block_v == 32:
            return Evaluation(float("inf"), reason="shared memory 999999 bytes")
        return cost(tiles)

    found = search(tmp_path, Formula(function))
    assert found.tiles.block_v != 32
    assert set(found.failed.values()) == {"shared memory 999999 bytes"}
    assert all("block_v=32" in point for point in found.failed)


def test_a_point_that_spills_loses_to_a_slower_one_that_does_not(tmp_path: Path) -> None:
    def function(tiles: KernelTiles) -> Evaluation:
        return Evaluation(cost(tiles).seconds, 64 if tiles.warps == 2 else 0)

    assert search(tmp_path, Formula(function)).tiles.warps == 4


def test_where_all_fail_the_error_names_kernel_target_and_reasons(tmp_path: Path) -> None:
    objective = Formula(lambda tiles: Evaluation(float("inf"), reason="the compiler gave up"))
    with pytest.raises(RuntimeError, match="output_gradient_q.* sm_90: the compiler gave up"):
        search(tmp_path, objective)


def test_an_interrupt_keeps_the_best_so_far(tmp_path: Path) -> None:
    objective = Formula(cost)

    def function(tiles: KernelTiles) -> Evaluation:
        if len(objective.asked) > 9:
            raise KeyboardInterrupt
        return cost(tiles)

    objective.function = function
    found = search(tmp_path, objective)
    assert found.interrupted and found.total == 9
    told = objective.asked[:9]
    assert found.tiles == min(told, key=lambda tiles: cost(tiles).seconds)


def test_budgets_of_trials_and_seconds_end_a_search(tmp_path: Path) -> None:
    assert search(tmp_path / "a", Formula(cost), Budget(trials=5)).total == 5
    with pytest.raises(RuntimeError, match="budget allows no trial"):
        search(tmp_path / "b", Formula(cost), Budget(seconds=0.0))


def test_a_space_above_the_limit_is_sampled_and_no_point_is_tried_twice(tmp_path: Path) -> None:
    objective = Formula(cost)
    store = Store(folder=tmp_path)
    study = KernelStudy(problem(128), "state", objective, store, Budget())
    assert study.space.size > 64
    found = study.run(FIRST)
    assert objective.asked[0] == FIRST
    assert len(set(objective.asked)) == len(objective.asked) == found.total < study.space.size


def test_a_folder_that_cannot_be_written_makes_a_search_without_memory(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    assert search(blocked / "studies", Formula(cost)).tiles == BEST


def test_an_optuna_storage_url_is_taken(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path}/study.db")
    study = KernelStudy(problem(), "gates", Formula(cost), store, Budget())
    assert study.run(FIRST).new == study.space.size
    assert study.run(FIRST).new == 0


_PROCESS = """
import sys
from pathlib import Path
from tests.autotune.test_study import *
objective = Formula(cost)
found = search(Path(sys.argv[1]), objective, kernel="gates")
print(len(objective.asked), found.tiles)
"""


def test_processes_that_share_a_store_try_each_point_once_and_agree(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", _PROCESS, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=root)
        for _ in range(2)
    ]
    said = [process.communicate(timeout=300)[0].strip().partition(" ") for process in running]
    assert all(process.returncode == 0 for process in running)
    counts = sorted(int(count) for count, _, _ in said)
    assert counts[0] == 0 and counts[1] > 0
    assert len({tiles for _, _, tiles in said}) == 1


def test_constants_that_a_kernel_lacks_have_one_value() -> None:
    kernels, sizes = problem().module.kernels, problem().sizes
    gates = kernel_space(kernels["gates"], sizes)
    assert gates.axes["block_v"] == (64,) and gates.axes["stages"] == (1,) and gates.size == 3
    state = kernel_space(kernels["state"], sizes)
    assert len(state.axes["tile_rows"]) == 2 and max(state.axes["block_v"]) == 64
    assert all(step.stages == 1 for step in ladder(kernels["gates"], sizes))


def test_the_default_structure_comes_first_and_none_twice() -> None:
    found = structures()
    assert found[0] == DEFAULT.structure and len(set(found)) == len(found) > 10

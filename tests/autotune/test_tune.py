"""`tune` from search to file: checked before stored, wrong candidates passed over."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from atlasgen.autotune import cli
from atlasgen.autotune.objective import Evaluation
from atlasgen.autotune.proof import DTYPE, Proof, prove
from atlasgen.emit.plan import Structure
from atlasgen.errors import ArgumentError
from atlasgen.runtime.configuration import DEFAULT, Configuration
from atlasgen.runtime.launch import KernelTiles
from atlasgen.runtime.results import read_file
from atlasgen.spec import load_rule
from atlasgen.spec.load import shipped_specs
from atlasgen.spec.refusal import keeps_size
from atlasgen.spec.sizes import check_sizes
from atlasgen.verify.cases import LONG_BLOCK, proof_case, rows_of
from tests.autotune.support import Formula, cost

RULE = load_rule("simple_gla")
CASE = proof_case(RULE)
PASSED = Proof(str(CASE), DTYPE, 0.1)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATLASGEN_CACHE_DIR", str(tmp_path / "cache"))


def tune(folder: Path, objective: Formula, **more) -> tuple[list[cli.Outcome], str]:
    written = io.StringIO()
    console = Console(file=written, width=120)
    outcomes = cli.tune(RULE, ["sm_90"], objective=objective, folder=folder, console=console, **more)
    return outcomes, written.getvalue()


def test_the_winner_is_checked_and_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Configuration] = []
    monkeypatch.setattr(cli, "prove", lambda rule, own: asked.append(own) or PASSED)
    (outcome,), text = tune(tmp_path, Formula(cost), trials=4)
    (entry,) = read_file(tmp_path / "sm_90" / "simple_gla.json")
    assert Configuration.from_table(entry.configuration).to_table() == asked[0].to_table()
    assert entry.evidence["checked"]["case"] == str(CASE) and entry.evidence["objective"] == "formula"
    assert outcome.path is not None and "stored in" in text
    (again,), _ = tune(tmp_path, Formula(cost), trials=4)
    assert again.new == 0


def test_a_candidate_with_wrong_results_never_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fused = Structure("fused")

    def wrong_when_fused(rule, own: Configuration) -> Proof:
        return Proof(str(CASE), DTYPE, 9.0, "y: error") if own.structure == fused else PASSED

    monkeypatch.setattr(cli, "prove", wrong_when_fused)
    (outcome,), _ = tune(tmp_path, Formula(cost), structures=[fused, DEFAULT.structure], trials=2)
    assert outcome.configuration is not None and outcome.configuration.structure == DEFAULT.structure
    (none,), text = tune(tmp_path / "other", Formula(cost), structures=[fused], trials=2)
    assert none.path is None and "wrong results" in text
    assert not (tmp_path / "other").exists()


def test_where_nothing_works_nothing_is_stored_and_the_reason_is_said(tmp_path: Path) -> None:
    objective = Formula(lambda tiles: Evaluation(float("inf"), reason="the compiler gave up"))
    (outcome,), text = tune(tmp_path, objective, trials=3)
    assert outcome.path is None and "the compiler gave up" in text
    assert not list(tmp_path.glob("sm_90/*"))


def test_an_interrupt_stores_the_best_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "prove", lambda rule, own: PASSED)
    objective = Formula(cost)
    stopped = []

    def function(tiles: KernelTiles) -> Evaluation:
        if len(objective.asked) == 20 and not stopped:
            stopped.append(True)
            raise KeyboardInterrupt
        return cost(tiles)

    objective.function = function
    (outcome,), text = tune(tmp_path, objective, trials=6)
    assert outcome.interrupted and outcome.path is not None and "best so far" in text
    assert read_file(outcome.path)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [({"targets": ["sm_91"]}, "target"), ({"dtype": "int8"}, "dtype"), ({"objective": "guess"}, "objective")],
)
def test_unknown_words_are_refused_by_name(arguments: dict, field: str) -> None:
    with pytest.raises(ArgumentError, match=field):
        cli.tune(RULE, **arguments)


@pytest.mark.parametrize("name", shipped_specs())
def test_the_check_calls_every_rule_at_sizes_that_it_takes(name: str) -> None:
    rule = load_rule(name)
    case = proof_case(rule)
    features = case.key if keeps_size(rule) else None
    check_sizes(rule, {"K": case.key, "V": case.value, "F": features or 7})
    assert case.resumed + case.tokens > min(rows_of(rule), LONG_BLOCK)  # it crosses a border


def test_the_check_runs_the_candidates_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    assert prove(RULE, DEFAULT).problem is None
    from atlasgen.runtime.triton_backend import TritonProgram

    forward = TritonProgram.forward

    def wrong(self, tensors, save):
        outputs, saved = forward(self, tensors, save)
        outputs["y"][0, -1, 0, -1] += 0.1
        return outputs, saved

    monkeypatch.setattr(TritonProgram, "forward", wrong)
    other = Configuration(Structure("split", "inline", False, 1))
    problem = prove(RULE, other).problem
    assert problem is not None and problem.startswith("y: error")

"""Random rules of the served space agree with the definition, or are refused with a reason.

The first rules of the list hold every pair of field values, the rest are drawn by hypothesis with a
fixed seed. HYPOTHESIS_PROFILE=explore looks for new ones and shrinks what fails. Deep memories,
polynomial features, maps of the update and held updates are drawn from a space of their own. Kernels come in
several forms: the rules take them in turn.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

import atlasgen
from atlasgen.emit.refusals import refuse_without_kernels
from atlasgen.errors import CompileError, SpecError
from atlasgen.runtime.configuration import emitted_module, forms
from atlasgen.schedules.serve import schedule
from atlasgen.spec import rule_from_table
from atlasgen.spec.rule import MemoryRule
from tests.emit.test_structures import backend_of
from tests.rules.compare import BACKENDS, Shape, check, check_random, compiled, make_case, refused
from tests.rules.exact_strategies import EXACT_FIELDS, drawn_exact_calls, exact_table
from tests.rules.strategies import (
    LENGTHS,
    Choice,
    Drawn,
    all_pairs,
    calls,
    choices,
    drawn_calls,
    pairs_of,
    possible_pairs,
    table_of,
)
from tests.rules.wide_strategies import WIDE_FIELDS, drawn_wide_calls, wide_table

COUNT = 300
CHUNKS = 6
# Interpreted kernels are slow: `make test` tries some rules on short calls, --full all of them.
INTERPRETED = 40
SECONDS = 15.0
WIDE_COUNT, WIDE_CHUNKS = 200, 4
EXACT_COUNT = 120
LONGEST_INTERPRETED = 11  # tokens of an interpreted call of a wide rule

_drawn = lru_cache(drawn_calls)


def outcome(
    drawn: Drawn,
    backend: str | Callable[[MemoryRule], str],
    write: Callable[[Choice], dict[str, Any]] = table_of,
) -> str:
    """Tries one drawn call, whose rule `write` writes: "refused", or what `check_random` says.

    backend: its name, or what names that of a rule.
    """
    table = write(drawn.fields)
    try:
        rule = rule_from_table(table, source="drawn.toml")
        name = backend if isinstance(backend, str) else backend(rule)
        compiled(rule, name)
    except (SpecError, CompileError) as error:
        assert refused(error), f"{table}: refused without a reason: {error}"
        return "refused"
    shape = Shape(B=drawn.B, T=drawn.T, H=drawn.H, K=drawn.K, V=drawn.V)
    case = make_case(rule, shape, seed=drawn.seed, start=drawn.start)
    splits = [(), drawn.splits] if drawn.splits else [()]
    try:
        return check_random(case, name, splits)
    except Exception as error:
        error.add_note(f"rule: {table}\ncall: {drawn}\nbackend: {name}")
        raise


def _tried(
    backend: str | Callable[[MemoryRule], str],
    drawn: list[Drawn],
    seconds: float,
    write: Callable[[Choice], dict[str, Any]] = table_of,
) -> Counter[str]:
    """Outcomes of all, or of those that could be tried within the time; failures together."""
    counts: Counter[str] = Counter()
    failed = []
    end = time.monotonic() + seconds
    for member in drawn:
        if time.monotonic() > end:
            counts["not tried"] += 1
            continue
        try:
            counts[outcome(member, backend, write)] += 1
        except Exception as error:
            failed.append("\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])]))
    name = backend if isinstance(backend, str) else "kernels"
    print(f"{name}: {dict(counts)}, {len(failed)} failed")
    assert not failed, f"{len(failed)} of {len(drawn)} rules fail:\n" + "\n\n".join(failed)
    return counts


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_rules_on_torch(chunk):
    drawn = _drawn(COUNT, max(LENGTHS))[chunk::CHUNKS]
    counts = _tried("torch", drawn, seconds=600.0)
    served = len(drawn) - counts["refused"]
    assert counts["agrees"] >= 0.8 * served and counts["grows"] <= 0.1 * served, counts
    assert counts["refused"] <= 0.1 * len(drawn), counts


@pytest.mark.parametrize("chunk", range(WIDE_CHUNKS))
def test_random_wide_rules_on_torch(chunk):
    drawn = drawn_wide_calls(WIDE_COUNT)[chunk::WIDE_CHUNKS]
    counts = _tried("torch", drawn, 600.0, wide_table)
    served = len(drawn) - counts["refused"]
    assert served >= 0.85 * len(drawn), counts
    # Maps of the update lift rounding, and norms of few entries do: more rules are ill-conditioned.
    assert counts["agrees"] >= 0.8 * served and counts["grows"] <= 0.05 * served, counts


def test_random_exact_rules_on_torch():
    drawn = drawn_exact_calls(EXACT_COUNT)
    counts = _tried("torch", drawn, 600.0, exact_table)
    served = len(drawn) - counts["refused"]
    assert served >= 0.85 * len(drawn), counts
    assert counts["agrees"] >= 0.8 * served and counts["grows"] <= 0.05 * served, counts


def test_every_exact_value_occurs_in_served_rules():
    seen: Counter[tuple[str, str]] = Counter()
    for member in drawn_exact_calls(EXACT_COUNT):
        try:
            schedule(rule_from_table(exact_table(member.fields)))
        except (SpecError, CompileError) as error:
            assert refused(error)
            continue
        seen.update(member.fields.items())
    wanted = {(name, value) for name, values in EXACT_FIELDS.items() for value in values}
    wanted -= {("boundary", "carry")}  # served without a window alone
    assert min(seen[entry] for entry in wanted) >= 2, sorted(wanted, key=lambda entry: seen[entry])[:5]


def test_every_wide_value_occurs_in_served_rules():
    seen: Counter[tuple[str, str]] = Counter()
    for member in drawn_wide_calls(WIDE_COUNT):
        try:
            schedule(rule_from_table(wide_table(member.fields)))
        except (SpecError, CompileError) as error:
            assert refused(error)
            continue
        seen.update(member.fields.items())
    wanted = {(name, value) for name, values in WIDE_FIELDS.items() for value in values}
    assert min(seen[entry] for entry in wanted) >= 2, sorted(wanted, key=lambda entry: seen[entry])[:5]


@pytest.mark.parametrize(
    "table",
    [
        {"memory": {"initial": "learned"}, "block": {"size": 4, "write": "block"}},
        {"block": {"size": 4, "row_scale": "position"}, "optimizer": {"lr": "token"}},
        {
            "memory": {"kind": "mlp", "bias": True, "initial": "learned"},
            "block": 4,
            "optimizer": {"lr": "token"},
        },
        {
            "memory": {
                "kind": "graph",
                "f": "A @ x + W1 @ (x + gelu(W2 @ x))",
                "weights": {"A": ["V", "F"], "W1": ["V", "F"], "W2": ["F", "F"]},
                "initial": "learned",
            },
            "window": {"length": 2, "boundary": "carry"},
            "block": 4,
            "optimizer": {"lr": "token"},
        },
    ],
    ids=["block", "rows", "bias", "carried errors that one weight does not need"],
)
def test_dot_losses_in_blocks(table):
    """The loss asks for no block, but the update does; and gradients that no block changes."""
    rule = rule_from_table({"rule": "dot", "loss": "dot", **table})
    for start in ("fresh", "state"):
        check(make_case(rule, Shape(B=2, T=9, H=1, K=3, V=3), start=start), "torch", [(), (3,)])


@pytest.mark.slow
@pytest.mark.parametrize("number", range(8))
def test_random_wide_rules_all(number):
    counts = _tried("torch", drawn_wide_calls(WIDE_COUNT, 100 + number), 3600.0, wide_table)
    assert counts["agrees"] >= 0.5 * WIDE_COUNT, counts


@pytest.mark.parametrize("chunk", range(2))
def test_random_rules_interpreted(chunk):
    drawn = _drawn(INTERPRETED, 17)[chunk::2]
    counts = _tried("triton", drawn, seconds=SECONDS)
    assert counts["agrees"] >= 1, counts


def _forms_in_turn() -> Callable[[MemoryRule], str]:
    """Names the backend of a rule's kernels in one of their forms: another one for each rule that asks."""
    turns = itertools.count()

    def backend(rule: MemoryRule) -> str:
        structures = list(forms(rule).values())
        return backend_of(structures[next(turns) % len(structures)])

    return backend


def _short(drawn: Drawn) -> Drawn:
    """The call with few tokens and memories: interpreted kernels are slow."""
    T = min(drawn.T, LONGEST_INTERPRETED)
    splits = tuple(min(split, T) for split in drawn.splits[:1])
    return replace(drawn, T=T, splits=splits, H=1 if drawn.B > 1 else drawn.H)


@pytest.mark.parametrize("chunk", range(2))
def test_random_wide_rules_interpreted(chunk):
    drawn = [_short(member) for member in drawn_wide_calls(WIDE_COUNT)[chunk::2]]
    counts = _tried(_forms_in_turn(), drawn, SECONDS, wide_table)
    assert counts["agrees"] >= 1, counts


def test_random_exact_rules_interpreted():
    drawn = [_short(member) for member in drawn_exact_calls(EXACT_COUNT)]
    counts = _tried(_forms_in_turn(), drawn, SECONDS, exact_table)
    assert counts["agrees"] >= 1, counts


@pytest.mark.slow
def test_random_exact_rules_interpreted_all():
    drawn = [_short(member) for member in drawn_exact_calls(EXACT_COUNT)]
    counts = _tried(_forms_in_turn(), drawn, 3600.0, exact_table)
    assert counts["not tried"] == 0, counts
    assert counts["agrees"] >= 0.8 * (len(drawn) - counts["refused"]), counts


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(WIDE_CHUNKS))
def test_random_wide_rules_interpreted_all(chunk):
    drawn = [_short(member) for member in drawn_wide_calls(WIDE_COUNT)[chunk::WIDE_CHUNKS]]
    counts = _tried(_forms_in_turn(), drawn, 3600.0, wide_table)
    assert counts["not tried"] == 0, counts
    assert counts["agrees"] >= 0.8 * (len(drawn) - counts["refused"]), counts


def _with_forms(drawn: list[Drawn]) -> list[tuple[Drawn, MemoryRule, list]]:
    """The rules that have kernels, with the structures of their forms; the others say why they have none."""
    served = []
    for member in drawn:
        try:
            rule = rule_from_table(wide_table(member.fields))
            structures = forms(rule)
            for name in {structure.schedule for structure in structures.values()}:
                refuse_without_kernels(schedule(rule, name).forward)
            served.append((member, rule, list(structures.items())))
        except (SpecError, CompileError) as error:
            assert refused(error), f"{member}: refused without a reason: {error}"
    return served


def _emitted(drawn: list[Drawn], seconds: float) -> Counter[str]:
    """Writes the kernels of rules in every form, as many as the time allows: by form how many, and how
    many of all the rules were refused."""
    served = _with_forms(drawn)
    counts = Counter(refused=len(drawn) - len(served))
    end = time.monotonic() + seconds
    for member, rule, structures in served:
        if time.monotonic() > end:
            counts["not tried"] += 1
            continue
        try:
            for form, structure in structures:
                assert emitted_module(rule, structure).kernels
                counts[form] += 1
        except Exception as error:
            error.add_note(f"call: {member}")
            raise
    print(dict(counts))
    return counts


def test_kernels_of_random_wide_rules_are_written():
    counts = _emitted(drawn_wide_calls(WIDE_COUNT), SECONDS)
    assert counts["split"] >= 1 and counts["tokens"] >= 1, counts
    assert counts["refused"] <= 0.15 * WIDE_COUNT, counts


@pytest.mark.slow
def test_kernels_of_random_wide_rules_are_written_in_every_form():
    counts = _emitted(drawn_wide_calls(WIDE_COUNT), 3600.0)
    assert counts["not tried"] == 0 and counts["refused"] <= 0.15 * WIDE_COUNT, counts
    assert min(counts[form] for form in ("split", "fused", "tokens", "token_grid")) >= 5, counts


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_rules_all(backend, chunk):
    drawn = _drawn(COUNT, max(LENGTHS), 3)[chunk::CHUNKS]
    counts = _tried(backend, drawn, seconds=3600.0)
    served = len(drawn) - counts["refused"]
    assert counts["agrees"] >= 0.8 * served and counts["grows"] <= 0.1 * served, counts


def test_every_pair_of_served_values_occurs_and_compiles(capsys):
    drawn = _drawn(COUNT, max(LENGTHS))
    seen: Counter[tuple] = Counter()
    compiles, within, refusals = 0, 0, Counter()
    for member in drawn:
        rule = rule_from_table(table_of(member.fields))
        served = member.fields["window"] != "beyond"
        within += served
        try:
            schedule(rule)
        except CompileError as error:
            assert refused(error)
            refusals[error.field] += 1
            assert not served or error.field, error
            continue
        compiles += served
        seen.update(pairs_of(member.fields))
    possible = possible_pairs()
    missing = {pair for pair in possible if not seen[pair]}
    with capsys.disabled():
        print(
            f"\n{len(drawn)} random rules: {compiles} of {within} within the served fields compile, "
            f"refused {dict(refusals)}; {len(possible) - len(missing)} of {len(possible)} pairs of "
            f"values occur ({len(all_pairs())} rules hold them all)"
        )
    assert compiles >= 0.95 * within
    assert not missing, sorted(missing)[:5]


def test_a_window_beyond_its_block_is_taken_token_by_token():
    """No block's rows reach over two borders: `dual` says so, and the state of one token needs no more."""
    rule = rule_from_table({"rule": "beyond", "loss": "l2", "window": 5, "block": 4})
    assert schedule(rule).schedule == "recurrent"
    with pytest.raises(CompileError, match=r"window\.length = 5: .* at most one border.* 4 tokens"):
        atlasgen.compile(rule, backend="torch", schedule="dual")
    assert schedule(rule_from_table({"rule": "beyond", "loss": "dot", "window": 5})).schedule == "dual"


@pytest.mark.slow
@settings(max_examples=300, suppress_health_check=list(HealthCheck))
@given(calls(max(LENGTHS), choices()))
def test_exploring(drawn):
    outcome(drawn, "torch")

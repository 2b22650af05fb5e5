"""Random lists of loss terms over random memories, windows, updates and reads, against the definition.

Memories and updates are those of the wide random rules, and one in two is one matrix, where terms may have
write keys and steps per channel; exact rules are drawn apart, for few of the wide ones are.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from atlasgen.errors import CompileError, SpecError
from atlasgen.spec import rule_from_table
from tests.rules.compare import Shape, check_random, compiled, make_case, refused
from tests.rules.wide_strategies import WIDE_FIELDS, mended, wide_table

STEPS = {"per_token": "token", "per_head": "head", "per_key": "key", "per_value": "value"}
SHAPES = {"p": "key", "u": "key", "w": "value", **STEPS}
EXACT = {
    "memory": "matrix", "norm": "none", "block": "1", "update": "token", "window": "1", "transform": "none",
    "clip": "none", "first": "as rule", "last": "as rule", "project": "none", "read": "plain",
}  # fmt: skip
DRAWS = 60


def _term(numbers: random.Random) -> dict[str, Any]:
    """One term; each field has its default or another value."""
    drawn = {
        "kind": numbers.choice(["dot", "l2", "l2", "huber"]),
        "key": numbers.choice(["k", "p", "u"]),
        "write": numbers.choice([None, None, None, "k", "p"]),
        "target": numbers.choice(["v", "v", "0", "w", "v - k"]),
        "lr": numbers.choice([None, None, None, *STEPS]),
    }
    return {name: value for name, value in drawn.items() if value is not None}


def _table(numbers: random.Random, exact: bool) -> dict[str, Any]:
    choice = {name: numbers.choice(values) for name, values in WIDE_FIELDS.items()}
    if exact:
        choice |= EXACT | {"at": numbers.choice(["post", "pre"])}
    elif numbers.random() < 0.5:
        choice |= {"memory": "matrix", "bias": "no", "norm": "none"}
    table = wide_table(mended(choice))
    if exact and numbers.random() < 0.5:
        table["retention"] = {"kind": "token", "order": "decay_first"}
    terms = [_term(numbers) for _ in range(numbers.choice([1, 2, 2, 3]))]
    used = {str(value) for term in terms for value in term.values()}
    return table | {"loss": terms, "inputs": {name: s for name, s in SHAPES.items() if name in used}}


@pytest.mark.parametrize("exact", [False, True], ids=["any", "exact"])
def test_random_terms(exact):
    """Refused by field, or as the definition has it; most that are served grow nowhere and are compared."""
    numbers, found = random.Random(3), list[str]()
    for index in range(DRAWS):
        table = _table(numbers, exact)
        T, start = numbers.choice([1, 5, 9, 13]), numbers.choice(["fresh", "state"])
        try:
            rule = compiled(rule_from_table(table), "torch").rule
        except (SpecError, CompileError) as caught:
            assert refused(caught)
            continue
        case = make_case(rule, Shape(B=2, T=T, H=2, K=3, V=5), seed=index, start=start)
        found.append(check_random(case, "torch", ((), (T // 2,))))
    assert found.count("agrees") > max(DRAWS // 5, 0.7 * len(found)), found

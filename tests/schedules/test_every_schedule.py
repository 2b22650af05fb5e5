"""Every shipped rule by every schedule that serves it, against the float64 definition, on both backends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from atlasgen.emit.refusals import kernel_refusals
from atlasgen.schedules.serve import SCHEDULES, admitted, schedule
from atlasgen.spec import load_rule, shipped_specs
from atlasgen.spec.rule import MemoryRule
from tests.rules.compare import Shape, check_random, make_case
from tests.rules.forced import forced


def short(name: str) -> MemoryRule:
    """The rule; with blocks of 4 tokens, and windows no longer, where it has blocks."""
    rule = load_rule(name)
    if rule.block.size == 1:
        return rule
    window = replace(rule.window, length=min(int(rule.window.length), 4))
    return replace(rule, block=replace(rule.block, size=4), window=window)


def others(rule: MemoryRule) -> list[str]:
    """The schedules that serve a rule beside its own."""
    own = schedule(rule).schedule
    return [name for name, refusals in admitted(rule).items() if not refusals and name != own]


CASES = [(name, other) for name in shipped_specs() for other in others(short(name))]
KERNELS = [case for case in CASES if not kernel_refusals(schedule(short(case[0]), case[1]).forward)]


def test_every_schedule_serves_some_shipped_rule_beside_its_own():
    served = {other for _, other in CASES} | {schedule(load_rule(name)).schedule for name in shipped_specs()}
    assert served == set(SCHEDULES)


@pytest.mark.parametrize(("name", "other"), CASES)
def test_torch(name, other):
    case = make_case(short(name), Shape(B=2, T=11, H=2, K=5, V=5), seed=5, start="state")
    assert check_random(case, forced(other, "torch"), [(), (6,)]) != "grows"


@pytest.mark.parametrize(("name", "other"), KERNELS)
def test_interpreted(name, other):
    case = make_case(short(name), Shape(B=1, T=6, H=1, K=4, V=4), seed=5, start="state")
    assert check_random(case, forced(other, "triton"), [(3,)]) != "grows"

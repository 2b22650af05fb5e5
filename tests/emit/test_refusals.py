"""Rules without kernels are refused in one sentence that names the field and what has kernels."""

import pytest

from atlasgen.emit.plan import Structure
from atlasgen.emit.planner import make_plan
from atlasgen.errors import CompileError
from atlasgen.runtime.triton_backend import make_executable
from atlasgen.schedules.serve import schedule
from atlasgen.spec import rule_from_table

CASES = {
    "block.size = 257": ({"block": 257}, {"block": 256}),
    "window.length = 258": (
        {"loss": "dot", "window": 258},
        {"loss": "dot", "window": 257},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_refusal_names_the_field_and_the_nearest_that_has_kernels(case):
    refused, nearest = CASES[case]
    base = {"rule": "asked", "loss": "l2", "block": 4}
    scheduled = schedule(rule_from_table({**base, **refused}))
    with pytest.raises(CompileError) as caught:
        make_plan(scheduled.forward, scheduled.backward, Structure())
    error = caught.value
    assert f"{error.field} = {error.value}" == case
    assert error.rule == "asked" and 'backend = "torch"' in error.nearest
    (key, value), *_ = [entry for entry in nearest.items() if entry[0] != "loss"]
    assert str(value) in error.nearest
    with pytest.raises(CompileError, match="no kernel|a kernel holds"):
        make_executable(scheduled.rule)
    accepted = schedule(rule_from_table({**base, **nearest}))
    assert make_plan(accepted.forward, accepted.backward, Structure()).kernels


def test_a_deep_memory_is_planned():
    memory = {"kind": "mlp", "depth": 2, "hidden": "2*K", "initial": "learned"}
    deep = schedule(rule_from_table({"rule": "deep", "loss": "l2", "block": 4, "memory": memory}))
    assert make_plan(deep.forward, deep.backward, Structure(walk="D1")).kernels

"""A decode step costs the same after one token and after 100,000: counted, not timed."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

import atlasgen
from atlasgen.runtime.operator import MemoryOperator
from atlasgen.runtime.state import OperatorState
from atlasgen.spec import load_rule
from atlasgen.verify.inputs import initial_memory
from tests.rules.compare import Shape, make_case

HISTORIES = (1, 1000, 100_000)
# By blocks of rows, by forward substitution, by channel, with a window, momentum, an open block, a deep
# memory, and token by token.
RULES = (
    "linear_attention", "gated_deltanet", "kda", "omeganet_linear", "titans_linear", "ttt_linear", "titans",
    "omeganet_exact",
)  # fmt: skip


class Step(NamedTuple):
    """What one decode step does: its torch operations, the bytes that they allocate, its state's tensors."""

    operations: Counter[str]
    allocated: int
    state: tuple[tuple[str, torch.dtype, tuple[int, ...]], ...]


def counted(operator: MemoryOperator, token: dict[str, Tensor], state: OperatorState) -> Step:
    """One decode step, counted by torch's profiler: it sees operations inside of custom operators too."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        _, after = operator(**token, initial_state=state, output_final_state=True)
    assert after is not None
    events = profiler.events()
    assert events
    allocated = sum(max(event.self_cpu_memory_usage, 0) for event in events)
    tensors = tuple((name, x.dtype, tuple(x.shape)) for name, x in after.tensors().items())
    return Step(Counter(event.name for event in events), allocated, tensors)


@pytest.mark.parametrize("name", RULES)
def test_the_step_does_not_depend_on_the_history(name):
    rule, tokens = load_rule(name), HISTORIES[-1] + 1
    case = make_case(rule, Shape(B=1, T=tokens, H=1, K=2, V=2))
    operator = atlasgen.compile(rule, "torch")
    call = {n: x.float() for n, x in case.arguments.items() if not n.startswith("initial_memory")}
    memory = initial_memory({n: x.float() for n, x in case.arguments.items()})

    def rows(begin: int, end: int) -> dict[str, Tensor]:
        return {n: x[:, begin:end] if x.ndim > 2 and x.shape[1] == tokens else x for n, x in call.items()}

    state, steps, begin = None, [], 0
    with torch.no_grad():
        for history in HISTORIES:
            start = {"initial_memory": memory} if state is None else {"initial_state": state}
            _, state = operator(**rows(begin, history), **start, output_final_state=True)
            assert state is not None and state.tensors()["position"].item() == history
            assert all(torch.isfinite(x).all() for x in state.tensors().values())
            counted(operator, rows(history, history + 1), state)  # what a first call sets up
            steps.append(counted(operator, rows(history, history + 1), state))
            begin = history
    assert steps[0].allocated > 0 and all(step == steps[0] for step in steps[1:])

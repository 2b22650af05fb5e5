"""One-token calls with a state, after histories of several lengths."""

from __future__ import annotations

import statistics
from typing import Any

import torch
from torch import Tensor

import atlasgen
from atlasgen.runtime.operator import MemoryOperator
from atlasgen.runtime.state import OperatorState
from atlasgen.spec.load import load_rule
from atlasgen.verify.cases import Case
from atlasgen.verify.inputs import draw, initial_memory
from benchmarks.cpu_sections.measure import Run, interleaved

BATCH, HEADS, SIZE = 1, 4, 64
RULES = ("gated_deltanet", "kda", "omeganet_linear", "titans_linear", "omeganet_exact")
HISTORIES = (1, 1000, 100_000)
PIECE = 1000  # tokens of a prefill's call: the inputs of a long history need not exist at once


def inputs_of(name: str, tokens: int) -> dict[str, Any]:
    """Float32 arguments of a call of a shipped rule, the initial memory among them where it has one."""
    tensors = draw(load_rule(name), Case(BATCH, tokens, HEADS, SIZE, SIZE)).tensors
    found: dict[str, Any] = {n: x.float() for n, x in tensors.items() if not n.startswith("initial_memory")}
    memory = initial_memory(tensors)
    return found if memory is None else {**found, "initial_memory": {n: x.float() for n, x in memory.items()}}


def states_of(operator: MemoryOperator, histories: tuple[int, ...]) -> dict[int, OperatorState]:
    """The state after each history, in one pass over the longest: the same tokens over and over."""
    inputs = inputs_of(operator.rule.name, PIECE)
    start, state, position, found = inputs.pop("initial_memory", None), None, 0, {}

    def rows(x: Tensor, count: int) -> Tensor:
        return x[:, :count] if x.ndim > 2 and x.shape[1] == PIECE else x

    for history in sorted(histories):
        while position < history:
            count = min(PIECE, history - position)
            call: dict[str, Any] = {n: rows(x, count) for n, x in inputs.items()}
            call |= {"initial_memory": start} if state is None else {"initial_state": state}
            _, state = operator(**call, output_final_state=True)
            position += count
        assert state is not None
        found[history] = state
    return found


def section(quick: bool) -> dict[str, Any]:
    """Microseconds of a decode step of each rule by the tokens before it."""
    histories, rounds = ((1, 100, 1100), 3) if quick else (HISTORIES, 200)
    print("  microseconds per token after" + "".join(f"{history:>10,}" for history in histories))
    found = {}
    for name in RULES:
        operator = atlasgen.compile(name, backend="torch")
        with torch.no_grad():
            states, token = states_of(operator, histories), inputs_of(name, 1)
            token.pop("initial_memory", None)

            def call(history: int, operator=operator, states=states, token=token) -> Run:
                return lambda: operator(**token, initial_state=states[history], output_final_state=True)

            seconds = interleaved({str(history): call(history) for history in histories}, rounds)
        found[name] = {history: 1e6 * statistics.median(own) for history, own in seconds.items()}
        print(f"  {name:28}" + "".join(f"{figure:10.0f}" for figure in found[name].values()))
    return found

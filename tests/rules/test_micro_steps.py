"""Tokens of several micro-steps: every schedule and backend agrees with the definition, whatever the rule.

The compiler makes rows of micro-steps; the definition takes them one by one. Rules of many kinds, calls cut
and packed, decays that are constants, resets, steps that reflect, and members of the random spaces.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

import atlasgen
from atlasgen import ArgumentError, CompileError
from atlasgen.emit.refusals import kernel_refusals
from atlasgen.schedules.serve import admitted, schedule
from atlasgen.spec import load_rule, rule_from_table
from atlasgen.spec.micro_steps import of_rows
from atlasgen.spec.rule import MemoryRule
from tests.rules.compare import Shape, check, error, make_case
from tests.rules.exact_strategies import drawn_exact_calls, exact_table, mended_exact
from tests.rules.strategies import Choice
from tests.rules.test_random_rules import outcome
from tests.rules.wide_strategies import drawn_wide_calls, mended, wide_table

Write = Callable[[Choice], dict[str, Any]]
FIRST = {"kind": "token", "order": "decay_first"}
STEPS = {"lr": "token", "micro_steps": 3}
DEEP = {"kind": "mlp", "depth": 2, "hidden": "K + 1", "initial": "learned"}
RULES: dict[str, dict[str, Any]] = {
    "decay first": {"retention": FIRST},
    "decay by key channel": {"retention": {"kind": "channel", "order": "decay_first"}},
    "decay by head": {"retention": "head"},
    "decay by an expression": {"retention": {"kind": "constant", "value": "1 - 2**(-2 - head)"}},
    "decay by a number": {
        "retention": {"kind": "constant", "value": 0.9, "toward": "initial"}, "memory": {"initial": "given"},
    },
    "nothing is kept": {"retention": "zero"},
    "one step for all": {"optimizer": {"lr": 0.3, "micro_steps": 2}},
    "implicit steps": {"optimizer": {"kind": "implicit", "lr": "value", "micro_steps": 2}},
    "read before": {"retention": "token", "read": "pre"},
    "read at the border": {"retention": "token", "read": "block"},
    "block": {"block": 4, "retention": "head"},
    "block, read before": {"block": 4, "loss": {"kind": "huber", "delta": 0.7}, "read": "pre"},
    "block, read at the border": {"block": 3, "loss": "dot", "retention": "token", "read": "block"},
    "deep": {"block": 4, "memory": DEEP, "retention": "token"},
    "gates of one weight": {
        "memory": {"kind": "matrix", "bias": True}, "weights": {"b": {"lr": "head", "retention": "head"}},
    },
    "terms with rows of their own": {
        "loss": [{"kind": "l2", "key": "erased", "target": "0", "lr": "rate"}, "dot"],
        "inputs": {"erased": "key", "rate": {"shape": "key", "range": "unit"}},
        "optimizer": {"micro_steps": 2},
        "retention": "channel",
    },
    "projected after each step": {"retention": {"kind": "token", "project": {"kind": "ball", "radius": 0.7}}},
    "clipped steps": {"block": 4, "optimizer": {**STEPS, "clip": {"norm": 0.4}}},
    "mapped steps": {"optimizer": {**STEPS, "transform": [{"kind": "frobenius"}]}},
}  # fmt: skip


def rule_of(name: str, **more: Any) -> MemoryRule:
    """A rule of `RULES`: one l2 loss and three steps per token where it does not say otherwise."""
    common = {"rule": "several_steps", "loss": "l2", "optimizer": STEPS}
    return rule_from_table({**common, **RULES[name], **more})


def serving(rule: MemoryRule, backend: str = "torch") -> list[str]:
    """The schedules that serve a rule on a backend."""
    found = [name for name, refusals in admitted(rule).items() if not refusals]
    return [own for own in found if backend != "triton" or not kernel_refusals(schedule(rule, own).forward)]


@pytest.mark.parametrize("name", RULES)
def test_torch(name):
    rule = rule_of(name)
    assert serving(rule)
    for T, start in ((9, "fresh"), (5, "state")):
        case = make_case(rule, Shape(B=2, T=T, H=2, K=4, V=5), seed=T, start=start)
        check(case, "torch", [(), (T // 3, T - 1)])


@pytest.mark.parametrize("name", RULES)
def test_interpreted(name):
    case = make_case(rule_of(name), Shape(B=1, T=5, H=2, K=4, V=5), seed=3, start="state")
    check(case, "triton")


@pytest.mark.parametrize("name", ["decay first", "decay by key channel", "decay by a number", "read before"])
@pytest.mark.parametrize("backend", ["torch", "triton"])
def test_schedules_agree(name, backend):
    """Each that serves the rule gives what the definition gives."""
    rule = rule_of(name)
    assert serving(rule)[:2] == ["wy", "recurrent"]
    case = make_case(rule, Shape(B=1, T=6, H=1, K=4, V=5), seed=5, start="state")
    tensors = {n: x.float() for n, x in case.arguments.items() if not n.startswith("initial_memory")}
    memory = case.state["memory.M"].float()
    if rule.retention.toward == "initial":
        memory = case.state["origin.M"].float()
    expected, _ = atlasgen.compile(rule, "reference")(**tensors, initial_memory=memory)
    for schedule_name in serving(rule, backend):
        y, _ = atlasgen.compile(rule, backend, schedule=schedule_name)(**tensors, initial_memory=memory)
        assert error(y, expected)[0] < 1e-5, schedule_name


@pytest.mark.parametrize("backend", ["torch", "triton"])
@pytest.mark.parametrize("name", ["decay first", "block", "implicit steps"])
def test_one_token_after_any_prefix(name, backend):
    """prefill(n) + decode(1) = forward(n + 1); a state counts tokens."""
    T, rule = 34 if backend == "torch" else 5, rule_of(name)
    case = make_case(rule, Shape(B=1, T=T, H=2, K=4, V=5), seed=6)
    arguments = {n: value.float() for n, value in case.arguments.items()}
    operator = atlasgen.compile(rule, backend)
    per_token = {"q", "k", "v"} | {entry.name for entry in operator.signature.tensors if entry.per_token}
    whole, _ = operator(**arguments)
    for n in range(1, T):
        parts = [
            {name: x[:, rows] if name in per_token else x for name, x in arguments.items()}
            for rows in (slice(0, n), slice(n, n + 1))
        ]
        _, state = operator(**parts[0], output_final_state=True)
        assert state.position.tolist() == [n]
        y, _ = operator(**parts[1], initial_state=state)
        assert error(y, whole[:, n : n + 1].double())[0] <= 1e-5, n


@pytest.mark.parametrize("schedule_name", ["wy", "recurrent"])
@pytest.mark.parametrize("backend", ["torch", "triton"])
def test_a_reset_in_the_middle_and_steps_that_reflect(backend, schedule_name):
    """The first step of a token forgets all there was, once; steps reach 2 along equal keys."""
    rule = rule_of("decay first")
    case = make_case(rule, Shape(B=1, T=7, H=1, K=4, V=5), seed=8)
    case.arguments["log_alpha"][:, 3] = -math.inf
    case.arguments["lr"] = 2.0 - 0.1 * case.arguments["lr"].float().double()
    case.arguments["k"][:, 4:] = case.arguments["k"][:, 4:5, :1]
    tensors = {name: x.float() for name, x in case.arguments.items()}
    operator = atlasgen.compile(rule, backend, schedule=schedule_name)
    y, state = operator(**tensors, output_final_state=True)
    expected, wanted = atlasgen.compile(rule, "reference")(**tensors, output_final_state=True)
    assert error(y, expected)[0] < 1e-5
    assert error(state.memory["M"], wanted.memory["M"])[0] < 1e-5
    alone, _ = operator(**{name: x[:, 3:] for name, x in tensors.items()})
    assert error(y[:, 3:], alone)[0] < 1e-5


def test_a_step_of_size_zero_is_none():
    """With the later steps of each token at zero the rule is that of one step per token."""
    rule = load_rule("deltaproduct")
    case = make_case(rule, Shape(B=2, T=70, H=2, K=8, V=5), seed=2)
    tensors = {name: x.float() for name, x in case.arguments.items()}
    tensors["lr"][:, :, 1] = 0.0
    first = {name: x[:, :, 0] if name in ("k", "v", "lr") else x for name, x in tensors.items()}
    y, _ = atlasgen.compile(rule, "torch")(**tensors)
    expected, _ = atlasgen.compile("gated_deltanet", "torch")(**first)
    assert error(y, expected)[0] < 1e-5


def test_the_program_is_that_of_the_rule_of_rows():
    rule, other = rule_of("decay first"), rule_of("block")
    program = schedule(rule).forward
    assert program.steps == 3 and schedule(rule).schedule == "wy" and program.block is None
    assert schedule(other).forward.block == 12 and schedule(other).tokens == 4
    single = of_rows(rule)
    assert single.optimizer.micro_steps == 1 and of_rows(single) is single
    assert [node.op for node in program.nodes()] == [node.op for node in schedule(single).forward.nodes()]


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("k", lambda x: x[:, :, :2], r"2 micro-steps.*rule's 3.*\[B, T, 3, Hk, K\]"),
        ("v", lambda x: x[:, :, :1], r"1 micro-steps.*rule's 3.*\[B, T, 3, H, V\]"),
        ("k", lambda x: x[:, :, 0], r"4 dimensions instead of 5.*\[B, T, 3, Hk, K\]"),
        ("lr", lambda x: x[:, :, :2], r"\[1, 4, 2, 2\].*\[B, T, 3, H\] = \[1, 4, 3, 2\]"),
        ("log_alpha", lambda x: x[:, :, None].expand(-1, -1, 3, -1), r"4 dimensions instead of 3"),
    ],
)
def test_rows_that_do_not_fit_are_named(name, change, message):
    rule = rule_of("decay first")
    case = make_case(rule, Shape(B=1, T=4, H=2, K=4, V=5))
    tensors = {n: value.float() for n, value in case.arguments.items()}
    with pytest.raises(ArgumentError, match=message) as caught:
        atlasgen.compile(rule, "torch")(**{**tensors, name: change(tensors[name])})
    assert caught.value.argument == name


def test_a_normalised_read_is_refused_by_name():
    """The definition never divides between a token's steps, a program of rows would."""
    rule = rule_of("block", loss="dot", features="elu1", read={"normaliser": "sum"})
    with pytest.raises(CompileError, match=r"read\.normaliser.*micro-steps"):
        atlasgen.compile(rule, "torch")
    atlasgen.compile(rule_of("block", block=100), "triton")  # 300 rows, in pieces


ALONE = {"window": "1", "gate": "none", "optimizer": "gd", "update": "token", "nesterov": "no"}


def stepped(mended: Callable[[Choice], Choice], write: Callable[[Choice], dict[str, Any]]) -> Write:
    """Writes a choice as a rule whose tokens take two steps, without what then has no meaning."""

    def written(choice: Choice) -> dict[str, Any]:
        table = write(mended({**choice, **ALONE}))
        return {**table, "optimizer": {**table["optimizer"], "micro_steps": 2}}

    return written


@pytest.mark.parametrize(
    ("drawn", "write"),
    [
        (drawn_exact_calls(24, 21), stepped(mended_exact, exact_table)),
        (drawn_wide_calls(24, 21), stepped(mended, wide_table)),
    ],
    ids=["exact", "wide"],
)
@pytest.mark.parametrize("backend", ["torch", "triton"])
def test_random_rules(drawn, write, backend):
    short = [replace(member, T=min(member.T, 3), splits=()) for member in drawn[:4]]
    members = drawn if backend == "torch" else short
    counts = Counter(outcome(member, backend, write) for member in members)
    print(dict(counts))
    served = len(members) - counts["refused"]
    assert served >= len(members) // 2 and counts["agrees"] >= (served + 1) // 2, counts


def test_packed_sequences_and_gradients_of_every_step():
    """Sequences of one row, a rest that belongs to none, and an empty one: each as it is alone."""
    rule = rule_of("block")
    case = make_case(rule, Shape(B=1, T=12, H=2, K=4, V=5), seed=4)
    tensors = {name: x.float().requires_grad_() for name, x in case.arguments.items()}
    operator, borders = atlasgen.compile(rule, "torch"), [0, 5, 5, 10]
    y, state = operator(**tensors, cu_seqlens=torch.tensor(borders), output_final_state=True)
    assert state.position.tolist() == [5, 0, 5] and not y[:, 10:].any()
    d_y = torch.randn(y.shape, generator=torch.Generator().manual_seed(0))
    found = torch.autograd.grad((y * d_y).sum(), list(tensors.values()))
    total = torch.zeros(())
    for start, stop in ((0, 5), (5, 10)):
        cut = {n: x[:, start:stop] if n in ("q", "k", "v", "lr") else x for n, x in tensors.items()}
        alone, _ = operator(**cut)
        assert error(y[:, start:stop].detach(), alone.detach())[0] < 1e-5
        total = total + (alone * d_y[:, start:stop]).sum()
    for name, one, other in zip(tensors, found, torch.autograd.grad(total, list(tensors.values()))):
        assert error(one, other)[0] < 1e-5, name


def test_compiled_without_breaks():
    rule = load_rule("deltaproduct")
    operator = atlasgen.compile(rule, "torch")
    case = make_case(rule, Shape(B=2, T=9, H=2, K=4, V=5), seed=7)
    tensors = {name: x.float().requires_grad_() for name, x in case.arguments.items()}
    torch._dynamo.reset()
    compiled = torch.compile(operator, fullgraph=True, dynamic=True, backend="aot_eager")
    results = []
    for call in (compiled, operator):
        y, state = call(**tensors, output_final_state=True)
        loss = y.square().sum() + state.memory["M"].sum()
        results.append((y, *torch.autograd.grad(loss, list(tensors.values()))))
    assert all(torch.equal(one, other) for one, other in zip(*results))


def test_fake_shapes():
    rule = load_rule("deltaproduct")
    case = make_case(rule, Shape(B=2, T=9, H=2, K=4, V=5))
    tensors = {name: x.float().to("meta") for name, x in case.arguments.items()}
    y, state = atlasgen.compile(rule, "torch")(**tensors, output_final_state=True)
    assert tuple(y.shape) == (2, 9, 2, 5) and tuple(state.memory["M"].shape) == (2, 2, 4, 5)

"""Tokens of several micro-steps: the reference against loops by hand, and against rules of one step."""

import dataclasses

import pytest
import torch

from atlasgen import ArgumentError, SpecError, reference
from atlasgen.spec import load_rule
from atlasgen.spec.rule import (
    Block,
    Features,
    Gate,
    Input,
    LossTerm,
    Memory,
    MemoryRule,
    Optimizer,
    Read,
    Retention,
    Window,
)
from tests.reference.support import TOKEN, assert_same_state, error, initial_memory, make_arguments

BAR = 1e-13
STEPS = Optimizer(lr=TOKEN, micro_steps=3)
DELTA = MemoryRule("delta", optimizer=STEPS, retention=Retention(TOKEN))


def by_hand(rule, arguments):
    """y [T, V] and M [K, V] of one head of a matrix memory under the l2 loss."""
    q, log_alpha = arguments["q"][0, :, 0], arguments["log_alpha"][0, :, 0]
    k, v, lr = (arguments[name][0, :, :, 0] for name in ("k", "v", "lr"))
    memory = torch.zeros(k.shape[-1], v.shape[-1], dtype=torch.float64)
    anchor, reads = memory, []
    for t in range(len(q)):
        before, border = memory, anchor
        if rule.retention.order == "decay_first":
            memory = log_alpha[t].exp() * memory
        for j in range(k.shape[1]):
            point = memory if rule.block.size == 1 else anchor
            gradient = torch.outer(k[t, j], point.T @ k[t, j] - v[t, j])
            if j == 0 and rule.retention.order == "error_first":
                memory = log_alpha[t].exp() * memory
            memory = memory - lr[t, j] * gradient
        if (t + 1) % rule.block.size == 0:
            anchor = memory
        reads.append({"post": memory, "pre": before, "block": border}[rule.read.at].T @ q[t])
    return torch.stack(reads), memory


@pytest.mark.parametrize("at", ["post", "pre", "block"])
@pytest.mark.parametrize(("size", "order"), [(1, "decay_first"), (1, "error_first"), (4, "error_first")])
def test_a_loop_by_hand(size, order, at):
    rule = dataclasses.replace(DELTA, block=Block(size), retention=Retention(TOKEN, order), read=Read(at))
    arguments = make_arguments(rule, length=10, heads=1)
    y, state = reference.run(rule, **arguments)
    expected, memory = by_hand(rule, arguments)
    assert error(y[0, :, 0], expected) < BAR
    assert error(state["memory"]["M"][0, 0], memory) < BAR
    assert state["position"].tolist() == [10]


OTHERS = {
    "plain": DELTA,
    "deep": dataclasses.replace(
        DELTA, memory=Memory("mlp", 2, "2*K", "gelu", initial="given"), block=Block(4), retention=Retention()
    ),
    "step per channel": dataclasses.replace(
        DELTA, optimizer=Optimizer(lr=Gate("value"), micro_steps=3), retention=Retention(Gate("channel"))
    ),
    "implicit": dataclasses.replace(DELTA, optimizer=Optimizer("implicit", lr=TOKEN, micro_steps=3)),
    "terms": dataclasses.replace(
        DELTA,
        loss=(LossTerm("l2", key="erased", target="0", lr="rate"), LossTerm("huber", delta="edge")),
        inputs=(Input("erased", "key"), Input("rate", "token", "unit"), Input("edge", "token", "positive")),
    ),
    "normalised": dataclasses.replace(
        DELTA, features=Features("elu1"), loss=(LossTerm("dot"),), read=Read(normaliser="sum")
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_micro_steps_are_steps_of_tokens_that_keep_the_memory(name):
    """The same rule with one step per token: more tokens, of which the first decays and the last is read."""
    rule, n, T = OTHERS[name], 3, 7
    single = dataclasses.replace(
        rule,
        block=Block(rule.block.size * n if rule.block.size > 1 else 1),
        optimizer=dataclasses.replace(rule.optimizer, micro_steps=1),
    )
    arguments = make_arguments(rule, rows=2, length=T)
    inputs = arguments.pop("inputs", {})
    start = None if rule.memory.initial == "zero" else initial_memory(rule)

    def laid_out(name, tensor):
        if rule.by_step(name):
            return tensor.flatten(1, 2)
        repeated = tensor.repeat_interleave(n, 1)
        if name == "log_alpha":
            repeated[:, torch.arange(n * T) % n > 0] = 0.0
        return repeated

    rows = {name: laid_out(name, tensor) for name, tensor in {**arguments, **inputs}.items()}
    expected, last = reference.run(single, **rows, initial_memory=start)
    y, state = reference.run(rule, **arguments, inputs=inputs, initial_memory=start)
    assert error(y, expected[:, n - 1 :: n]) < BAR
    assert_same_state(state | {"position": state["position"] * n}, last)


def test_one_micro_step_is_the_rule_without():
    rule, single = load_rule("deltaproduct"), load_rule("gated_deltanet")
    one = dataclasses.replace(rule, optimizer=dataclasses.replace(rule.optimizer, micro_steps=1))
    assert one.hash == single.hash


@pytest.mark.parametrize(
    ("name", "change", "allowed"),
    [
        ("k", lambda x: x[:, :, :2], r"\[1, 4, 3, heads, 3\]"),
        ("v", lambda x: x[:, :, 0], "micro-steps, heads"),
        ("lr", lambda x: x[:, :, 0], r"B, T, n, H"),
        ("log_alpha", lambda x: x.unsqueeze(2), r"B, T, H"),
    ],
)
def test_rows_that_are_missing_are_named(name, change, allowed):
    arguments = make_arguments(DELTA, length=4)
    with pytest.raises(ArgumentError, match=allowed) as caught:
        reference.run(DELTA, **{**arguments, name: change(arguments[name])})
    assert caught.value.argument == name


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"window": Window(2)}, "window.length"),
        ({"window": Window(1, TOKEN)}, "window.gate"),
        ({"optimizer": Optimizer("momentum", lr=TOKEN, theta=TOKEN, micro_steps=3)}, "optimizer.kind"),
        ({"block": Block(4, "block")}, "block.write"),
        ({"block": Block(4, row_scale="token"), "retention": Retention()}, "block.row_scale"),
    ],
)
def test_what_has_no_one_meaning_is_refused_by_field(fields, field):
    with pytest.raises(SpecError, match="micro_steps = 3") as caught:
        load_rule(dataclasses.replace(DELTA, **fields))
    assert caught.value.field == field

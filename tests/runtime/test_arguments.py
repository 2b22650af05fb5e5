"""Signatures, and calls that do not fit the rule."""

import dataclasses
import re
import warnings

import pytest
import torch

import atlasgen
from atlasgen import ArgumentError
from atlasgen.runtime.signature import state_shapes
from tests.runtime.cases import RULES, Call, call_of, operator


def refused(rule_name, message, changes=None, **options):
    """Asserts that the changed call is refused with a message that matches."""
    rule = RULES[rule_name]
    call = call_of(rule)
    arguments = {**call.arguments, **(changes(call.arguments) if changes else {})}
    with pytest.raises(ArgumentError, match=message) as caught:
        operator(rule, "naive")(**{n: t for n, t in arguments.items() if t is not None}, **options)
    return caught.value


def test_signature_lists_what_the_rule_reads():
    signature = operator(RULES["carried"], "naive").signature
    shapes = {entry.name: entry.shape for entry in signature.tensors}
    assert shapes == {
        "lr": ("H",),
        "log_alpha": ("B", "T", "H"),
        "gamma": ("B", "T", "H", 3),
        "delta": ("B", "T", "H"),
    }
    text = str(signature)
    for entry in signature.arguments:
        assert re.search(rf"^  {entry.name} .*{re.escape(entry.meaning)}", text, re.MULTILINE)


def test_state_shapes_are_those_of_a_state():
    for rule in RULES.values():
        _, state = call_of(rule)(operator(rule, "naive"), output_final_state=True)
        sizes = {"N": 2, "H": 2, "F": 4, "K": 4, "V": 6}
        for name, shape in state_shapes(rule).items():
            expected = [sizes.get(size, size) for size in shape]
            assert list(state.tensors()[name].shape) == expected


def test_missing_gate():
    error = refused("windowed", r"lr.*missing.*\[B, T, H\]", lambda a: {"lr": None})
    assert error.argument == "lr"


def test_undeclared_gate_and_input():
    gate = torch.zeros(2, 7, 2)
    refused("gated", "gamma.*declares no such gate.*log_alpha", lambda a: {"gamma": gate})
    refused("gated", "delta.*declares no such gate", lambda a: {"delta": gate})


def test_heads_before_tokens():
    def swapped(arguments):
        return {n: arguments[n].transpose(1, 2) for n in "qkv"}

    refused("windowed", r"lr.*look transposed.*\[batch, tokens, heads, size\]", swapped)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (lambda a: {"q": a["q"][0]}, "q .*3 dimensions instead of 4"),
        (lambda a: {"lr": a["lr"][..., None]}, "lr .*4 dimensions instead of 3"),
        (lambda a: {"lr": a["lr"][:, :-1]}, r"lr .*\[2, 6, 2\].*\[B, T, H\] = \[2, 7, 2\]"),
        (lambda a: {"k": a["k"][:, :-1]}, "batch and tokens of q, k and v differ"),
        (lambda a: {"k": a["k"][..., :-1]}, "last sizes of q and k differ"),
        (lambda a: {"k": a["k"][:, :, [0, 1, 1]]}, "not a multiple of k's 3"),
        (lambda a: {"q": a["q"][:, :, [0, 1, 1]]}, "one must be a multiple of the other"),
        (lambda a: {"q": a["q"].double()}, "q .*float64.*float32, bfloat16, float16"),
        (lambda a: {"v": a["v"].double()}, r"v .*float64.*atlasgen\.reference\.run\("),
        (lambda a: {"lr": a["lr"].long()}, "lr .*int64"),
        (lambda a: {"k": a["k"].to("meta")}, "k.*on meta, while v is on cpu"),
        (lambda a: {"lr": 0.5}, "lr.*a float, not a tensor"),
        (lambda a: {"v": a["v"][..., :0]}, "at least 1"),
    ],
)
def test_tensors_that_disagree(changes, message):
    refused("windowed", message, changes)


@pytest.mark.parametrize(
    ("memory", "message"),
    [
        (torch.zeros(2, 4, 5), r"\[2, 4, 5\].*\[H, F, V\] = \[2, 4, 6\]"),
        ({"W": torch.zeros(2, 4, 6)}, r"weight names.*\{'M': tensor\}"),
        (torch.zeros(2, 4, 6, dtype=torch.int64), "int64"),
        (torch.zeros(2, 4, 6, device="meta"), "on meta"),
    ],
)
def test_initial_memories_that_do_not_fit(memory, message):
    refused("gated", f"initial_memory.*{message}", initial_memory=memory)


def test_an_initial_memory_that_the_rule_needs():
    base = RULES["gated"]
    given = dataclasses.replace(base.memory, initial="given")
    rule = dataclasses.replace(base, name="given", memory=given)
    op = atlasgen.compile(rule, "naive")
    with pytest.raises(ArgumentError, match="initial_memory.*starts from a given memory"):
        call_of(rule)(op)
    call_of(rule)(op, initial_memory=torch.zeros(2, 4, 6))


def test_states_that_do_not_fit():
    def state_of(name, **sizes):
        rule = RULES[name]
        return call_of(rule, **sizes)(operator(rule, "naive"), output_final_state=True)[1]

    state = state_of("windowed")
    refused("windowed", "initial_state.*OperatorState", initial_state=state.memory)
    refused("gated", "initial_state.*another rule", initial_state=state)
    refused("windowed", r"memory.M.*\[2, 3, 4, 6\]", initial_state=state_of("windowed", heads=3))
    half = state.map(lambda t: t.bfloat16() if t.is_floating_point() else t)
    refused("windowed", "memory.M.*bfloat16", initial_state=half)
    refused("windowed", "on meta", initial_state=state.to("meta"))
    memory = torch.zeros(2, 4, 6)
    refused("windowed", "together", initial_state=state, initial_memory=memory)


def test_states_that_do_not_fit_the_reference():
    def state_of(name, **sizes):
        rule = RULES[name]
        return call_of(rule, **sizes)(operator(rule, "reference"), output_final_state=True)[1]

    def refused_by_reference(name, message, state):
        with pytest.raises(ArgumentError, match=message):
            call_of(RULES[name])(operator(RULES[name], "reference"), initial_state=state)

    state = state_of("windowed")
    refused_by_reference("gated", "initial_state.*another rule.*for gated: memory.M, position", state)
    refused_by_reference("windowed", "initial_state.*another rule", state_of("gated"))
    refused_by_reference("windowed", r"memory.M.*\[2, 3, 4, 6\]", state_of("windowed", heads=3))
    refused_by_reference("windowed", r"\[3, 2, 4, 6\]", state_of("windowed", batch=3))
    refused_by_reference("windowed", "initial_state.*OperatorState", state.memory)
    refused_by_reference("windowed", "on meta", state.to("meta"))


def test_values_are_checked_in_debug_only(monkeypatch):
    rule = RULES["carried"]
    op = operator(rule, "naive")
    wrong = {
        "log_alpha": (0.1, "values <= 0.*logsigmoid"),
        "delta": (0.0, "values > 0"),
        "lr": (float("nan"), "1 of its 2 values are NaN"),
    }
    for name, (value, message) in wrong.items():
        call = call_of(rule)
        call.arguments[name].view(-1)[1] = value
        call(op)
        with pytest.raises(ArgumentError, match=f"{name}.*{message}"):
            call(op, debug=True)
        monkeypatch.setenv("ATLASGEN_DEBUG", "1")
        with pytest.raises(ArgumentError, match=name):
            call(op)
        monkeypatch.delenv("ATLASGEN_DEBUG")
    call = call_of(rule)
    call.arguments["log_alpha"].view(-1)[1] = -float("inf")
    call(op, debug=True)


@pytest.mark.parametrize("name", ["q", "k", "v", "log_alpha", "delta"])
def test_nan_is_named_in_debug(name):
    call = call_of(RULES["carried"])
    call.arguments[name].view(-1)[1] = float("nan")
    with pytest.raises(ArgumentError, match=f"{name}: 1 of its .* values are NaN"):
        call(operator(RULES["carried"], "naive"), debug=True)


def test_fewer_tokens_than_heads_warn_in_debug_only():
    op = operator(RULES["gated"], "naive")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call_of(RULES["gated"], tokens=2, heads=3)(op)
        for tokens in (1, 3):
            call_of(RULES["gated"], tokens=tokens, heads=3)(op, debug=True)
    with pytest.warns(RuntimeWarning, match=r"\[2, 2, 3, 6\].*fewer tokens than heads.*transpose") as caught:
        call_of(RULES["gated"], tokens=2, heads=3)(op, debug=True)
    assert len(caught) == 1


def test_backends_by_name():
    with pytest.raises(ArgumentError, match="backend.*cuda.*auto, torch, triton, reference"):
        atlasgen.compile(RULES["gated"], "cuda")
    for name in ("torch", "auto", "naive", "not a name"):
        with pytest.raises(ArgumentError, match="name"):
            atlasgen.register_backend(name, lambda rule: None)


def test_a_call_by_position_is_the_same():
    rule = RULES["gated"]
    op = operator(rule, "naive")
    call: Call = call_of(rule)
    q, k, v = (call.arguments[name] for name in "qkv")
    y, _ = op(q, k, v, log_alpha=call.arguments["log_alpha"])
    assert torch.equal(y, call(op)[0])

"""A user's function against a rule: the first difference, and the rule it equals."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import pytest
import torch

from atlasgen.errors import ArgumentError
from atlasgen.reference import run
from atlasgen.spec import load_rule, rule_from_table
from atlasgen.verify.against import compare_with, first_difference, load_function
from atlasgen.verify.cases import Case
from tests.verify.support import omega, two_layers

RULE = rule_from_table(
    {
        "rule": "small_omega",
        "loss": "l2",
        "window": {"length": 3, "gate": "token"},
        "block": 4,
        "optimizer": {"lr": "token"},
        "retention": "token",
    }
)


def test_the_same_rule() -> None:
    verdict = compare_with(RULE, omega)
    assert verdict.difference is None and not verdict.equal


@pytest.mark.parametrize(
    ("options", "label"),
    [
        ({"pre": True}, "read = pre"),
        ({"factor": 2.0}, "lr doubled"),
        ({"scale": 8**-0.5}, "scale = K**-0.5"),
        ({"boundary": "truncate"}, "boundary = truncate"),
        ({"boundary": "carry"}, "boundary = carry"),
        ({"mean": True}, "normalise = mean"),
        ({"decay": False}, "no decay"),
        ({"decay_last": True}, "decay after the step"),
        ({"decay_last": True, "pre": True}, "decay after the step"),
        ({"block": 1}, "block = 1"),
        ({"block": 8}, "block = 8"),
        ({"window": 4}, "window = 4"),
        ({"window": 1}, "window = 1"),
        ({"pre": True, "scale": 8**-0.5}, "read = pre and scale = K**-0.5"),
        ({"boundary": "truncate", "factor": 2.0}, "lr doubled"),
    ],
)
def test_each_usual_difference_is_named(options: dict, label: str) -> None:
    verdict = compare_with(RULE, functools.partial(omega, **options))
    assert verdict.difference is not None and verdict.difference.tensor == "y"
    assert verdict.equal and any(label in variant.label for variant in verdict.equal)
    if len(options) == 2:
        assert any(" and " in variant.label for variant in verdict.equal)


def test_the_first_difference_is_placed() -> None:
    def from_the_fifth_token(q, k, v, lr, gamma, log_alpha):
        y, state = omega(q, k, v, lr, gamma, log_alpha)
        y[:, 5:, 1, 2] += 1.0
        return y, state

    verdict = compare_with(RULE, from_the_fifth_token, seconds=0.5)
    assert verdict.difference is not None
    assert verdict.difference.place == "batch 0, token 5, head 1, position 2"
    assert verdict.difference.yours - verdict.difference.wanted == pytest.approx(1.0)
    assert not verdict.equal


def test_a_difference_in_the_state_alone() -> None:
    def half(q, k, v, lr, gamma, log_alpha):
        y, memory = omega(q, k, v, lr, gamma, log_alpha)
        return y, {"M": memory / 2}

    verdict = compare_with(RULE, half, seconds=0.5)
    assert verdict.difference is not None and verdict.difference.tensor == "state.memory.M"


def test_lr_at_and_momentum() -> None:
    table = {"loss": "dot", "optimizer": {"kind": "momentum", "lr": "token", "theta": "token"}}
    rule = rule_from_table(table)
    inside = rule_from_table({**table, "optimizer": {**table["optimizer"], "lr_at": "gradient"}})

    def yours(q, k, v, **gates):
        return run(inside, q, k, v, **gates)

    verdict = compare_with(rule, yours)
    assert "lr_at = gradient" in [variant.label for variant in verdict.equal]


def test_order_of_decay_and_prediction() -> None:
    rule = rule_from_table({"optimizer": {"lr": "token"}, "retention": "token"})
    other = rule_from_table(
        {"optimizer": {"lr": "token"}, "retention": {"kind": "token", "order": "decay_first"}}
    )
    verdict = compare_with(rule, lambda q, k, v, **gates: run(other, q, k, v, **gates))
    assert [variant.label for variant in verdict.equal] == ["order = decay_first"]


def test_decay_after_the_step_of_a_rule_without_a_rate() -> None:
    rule = load_rule("simple_gla")

    def yours(q, k, v, log_alpha):
        memory, reads = torch.zeros(*v.shape[:1], *v.shape[2:3], k.shape[-1], v.shape[-1], dtype=v.dtype), []
        for t in range(v.shape[1]):
            written = memory + torch.einsum("bhk,bhv->bhkv", k[:, t], v[:, t])
            memory = log_alpha[:, t].exp()[..., None, None] * written
            reads.append(torch.einsum("bhk,bhkv->bhv", q[:, t], memory))
        return torch.stack(reads, 1)

    verdict = compare_with(rule, yours)
    assert [variant.label for variant in verdict.equal] == ["decay after the step, M = alpha (M - lr G)"]


def test_a_normaliser_that_is_missing() -> None:
    plain = rule_from_table({"features": "elu1", "loss": "dot"})
    verdict = compare_with(load_rule("linear_attention"), lambda q, k, v: run(plain, q, k, v)[0])
    assert "normaliser = none" in [variant.label for variant in verdict.equal]


def test_float32_functions_are_compared_in_float32() -> None:
    def single(q, k, v, **gates):
        if q.dtype != torch.float32:
            raise RuntimeError("expected Float but found Double")
        return omega(q, k, v, **gates)

    assert compare_with(RULE, single).difference is None


def test_what_no_difference_explains_is_said_with_the_nearest() -> None:
    rule = load_rule("simple_gla")

    def late(q, k, v, log_alpha):
        y, _ = run(rule, q, k, v, log_alpha=2 * log_alpha)
        y[:, 9:] = 3.0
        return y

    verdict = compare_with(rule, late)
    assert not verdict.equal and verdict.complete and verdict.tried > 50
    assert verdict.nearest is not None
    variant, difference = verdict.nearest
    assert variant.label == "alpha squared" and difference.token == 9


def test_a_function_that_returns_nan_equals_nothing() -> None:
    verdict = compare_with(RULE, lambda q, k, v, **gates: torch.full_like(v, torch.nan))
    assert verdict.difference is not None and verdict.difference.error == float("inf")
    assert verdict.difference.place == "batch 0, token 0, head 0, position 0"
    assert not verdict.equal and verdict.nearest is None


@pytest.mark.parametrize("value", [torch.nan, torch.inf, 1e200])
def test_a_variant_that_diverges_equals_nothing(value: float) -> None:
    reads = torch.ones(1, 6, 2, 4, dtype=torch.float64)
    wanted = reads.clone()
    wanted[:, 4:] = value
    found = first_difference({"y": reads}, {"y": wanted})
    assert found is not None and found.place == "batch 0, token 4, head 0, position 0" and found.error >= 1
    wanted[:, 2] += 0.1  # not hidden by what comes after
    found = first_difference({"y": reads}, {"y": wanted})
    assert found is not None and found.token == 2
    found = first_difference({"y": wanted}, {"y": reads})
    assert found is not None and found.token == 2
    same = first_difference({"y": wanted}, {"y": wanted.clone()})
    assert (same is None) == (value == value)


DEEP = rule_from_table(
    {
        "rule": "two_layers",
        "memory": {"kind": "mlp", "hidden": "2*K", "residual": "x", "initial": "learned"},
        "loss": "l2",
        "block": 4,
        "optimizer": {"lr": "token"},
    }
)


@pytest.mark.parametrize(
    ("options", "label"),
    [
        ({}, None),
        ({"act": torch.nn.functional.silu}, "act = silu"),
        ({"residual": False}, "residual = none"),
        ({"block": 8}, "block = 8"),
    ],
)
def test_a_function_of_a_deep_memory_gets_and_returns_its_weights(options: dict, label: str | None) -> None:
    verdict = compare_with(DEEP, functools.partial(two_layers, **options))
    if label is None:
        assert verdict.difference is None
    else:
        assert verdict.difference is not None
        assert [variant.label for variant in verdict.equal] == [label]


def test_weights_that_differ_are_named() -> None:
    def yours(*arguments, **gates):
        y, weights = two_layers(*arguments, **gates)
        return y, {**weights, "W2": weights["W2"] + 1e-2}

    difference = compare_with(DEEP, yours, seconds=0.0).difference
    assert difference is not None and difference.tensor == "state.memory.W2"
    assert difference.place.startswith("batch 0, head 0, row 0")


def test_a_mistake_that_no_difference_explains_is_not_explained() -> None:
    rule = load_rule("omeganet_linear")  # long enough for variants that diverge

    def yours(q, k, v, **gates):
        y, _ = run(rule, q, k, v, **gates)
        y[:, 20:, 0, 3] += 1e-2
        return y

    verdict = compare_with(rule, yours, Case(1, 160, 1, 8, 8), seconds=15.0)
    assert verdict.difference is not None
    assert verdict.difference.place == "batch 0, token 20, head 0, position 3"
    assert not verdict.equal


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda q, k, v, lr: v, "cannot take the rule's arguments"),
        (lambda q, k, v, **gates: v.transpose(1, 2), "transpose"),
        (lambda q, k, v, **gates: [v], "returned a list"),
        (lambda q, k, v, **gates: v @ v, r"your function raised RuntimeError.*test_against\.py, line \d+"),
        (lambda q, k, v, **gates: {}["M"], r"your function raised KeyError: 'M' \(.*test_against\.py, line"),
        (lambda q, k, v, **gates: sys.exit(3), "your function raised SystemExit"),
    ],
)
def test_functions_that_do_not_fit(function, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        compare_with(RULE, function)


def test_loading_a_function(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("def twice(x):\n    return 2 * x\n")
    path = tmp_path / "mine.py"
    path.write_text("from helper import twice\n\ndef fn(q, k, v):\n    return twice(v)\n")
    assert load_function(f"{path}:fn")(0, 0, 3) == 6
    with pytest.raises(ArgumentError, match="no function other.*fn"):
        load_function(f"{path}:other")
    with pytest.raises(ArgumentError, match=r"not FILE\.py:FUNCTION"):
        load_function("mine")

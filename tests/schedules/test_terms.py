"""Loss terms with keys, write keys, targets and steps of their own, against the float64 definition.

Each table has one property or a few that meet: another key, another row to write along, a target that is an
input or zero, a step per token, head, key channel or value channel; in blocks, exact (the WY schedule),
with windows, momentum, decays, biases, features, deep memories, maps and held updates.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

import atlasgen
from atlasgen.errors import CompileError
from atlasgen.schedules.serve import admitted, schedule
from atlasgen.spec import rule_from_table
from atlasgen.spec.rule import MemoryRule
from tests.rules import compare
from tests.rules.compare import Shape, check, make_case

FIRST = {"kind": "token", "order": "decay_first"}
MOMENTUM = {"kind": "momentum", "lr": "token", "theta": "token"}
MLP = {"kind": "mlp", "hidden": "K + 1", "initial": "learned"}
POLY = {"kind": "poly", "degree": 2, "basis": "symmetric"}

EXACT: dict[str, dict[str, Any]] = {
    "written_along_k": {
        "loss": {"kind": "l2", "key": "p", "write": "k"}, "retention": FIRST, "inputs": {"p": "key"},
    },
    "erase_and_write": {
        "loss": [{"kind": "l2", "key": "kk", "target": "0", "lr": "a"}, "dot"],
        "retention": "token", "inputs": {"kk": "key", "a": "key"},
    },
    "own_target": {
        "loss": {"kind": "l2", "key": "bk", "write": "k", "target": "wv"}, "retention": FIRST,
        "inputs": {"bk": "key", "wv": "value"},
    },
    "step_per_value": {
        "loss": ["l2", {"kind": "dot", "key": "p", "lr": "b"}], "retention": FIRST,
        "inputs": {"p": "key", "b": "value"},
    },
    "l2_step_per_value": {"loss": {"kind": "l2", "lr": "b"}, "inputs": {"b": "value"}},
    "steps_of_terms_and_of_all_per_value": {
        "loss": [{"kind": "l2", "lr": "b"}, "l2", {"kind": "dot", "key": "p", "lr": "a"}], "retention": FIRST,
        "optimizer": {**MOMENTUM, "lr": "value", "lr_at": "gradient"},
        "inputs": {"p": "key", "a": "value", "b": "value"},
    },
    "two_terms_of_one_key": {
        "loss": [{"kind": "l2", "lr": "a"}, {"kind": "l2", "target": "w"}],
        "inputs": {"a": "head", "w": "value"},
    },
    "steps_per_token_and_head": {
        "loss": [{"kind": "l2", "lr": "a"}, {"kind": "dot", "key": "p", "write": "k", "lr": "h"}],
        "inputs": {"p": "key", "a": "token", "h": "head"},
    },
    "with_momentum": {
        "loss": [{"kind": "l2", "key": "p", "target": "0", "lr": "a"}, "dot"],
        "optimizer": MOMENTUM, "inputs": {"p": "key", "a": "key"},
    },
    "with_bias": {
        "memory": {"kind": "matrix", "bias": True}, "retention": FIRST,
        "loss": ["l2", {"kind": "dot", "key": "p", "target": "w"}], "inputs": {"p": "key", "w": "value"},
    },
    "with_features": {
        "features": POLY, "loss": [{"kind": "l2", "key": "p", "write": "k"}, {"kind": "dot", "key": "p"}],
        "inputs": {"p": "key"},
    },
    "read_before": {
        "loss": [{"kind": "l2", "key": "p", "target": "v - k"}, "dot"], "retention": "token",
        "read": {"at": "pre"}, "inputs": {"p": "key"},
    },
}  # fmt: skip

BLOCKS: dict[str, dict[str, Any]] = {
    "many_dots": {
        "loss": [{"kind": "dot", "key": "p", "lr": "a"}, {"kind": "dot", "write": "p", "target": "w"}],
        "block": 1, "retention": "token", "inputs": {"p": "key", "a": "token", "w": "value"},
    },
    "windowed": {
        "loss": [{"kind": "l2", "key": "p", "write": "k", "lr": "a"}, {"kind": "dot", "key": "u", "lr": "b"}],
        "window": {"length": 3, "gate": "token"}, "optimizer": MOMENTUM, "retention": "token",
        "inputs": {"p": "key", "a": "key", "u": "key", "b": "value"},
    },
    "kept_errors": {
        "loss": [{"kind": "l2", "key": "p", "target": "w"}, {"kind": "huber", "per": "row", "lr": "h"}],
        "window": {"length": 2, "boundary": "carry"}, "inputs": {"p": "key", "w": "value", "h": "head"},
    },
    "deep": {
        "memory": MLP, "loss": [{"kind": "l2", "lr": "a"}, {"kind": "l2", "key": "p", "target": "w"}],
        "inputs": {"p": "key", "a": "token", "w": "value"},
    },
    "deep_with_residual": {
        "memory": {**MLP, "residual": "key", "norm": "layer", "bias": True},
        "loss": [{"kind": "l2", "key": "p"}, "dot"], "retention": "token", "inputs": {"p": "key"},
    },
    "with_features": {
        "features": POLY, "loss": {"kind": "l2", "key": "p", "write": "k"}, "inputs": {"p": "key"},
    },
    "clipped": {
        "loss": [{"kind": "l2", "key": "p", "write": "k"}, {"kind": "dot", "lr": "a"}],
        "optimizer": {"lr": "token", "clip": {"norm": 0.4, "of": "token"}},
        "inputs": {"p": "key", "a": "key"},
    },
    "mapped": {
        "loss": [{"kind": "l2", "key": "p"}, {"kind": "dot", "lr": "b"}],
        "optimizer": {**MOMENTUM, "transform": [{"kind": "newton_schulz", "steps": 3}]},
        "inputs": {"p": "key", "b": "value"},
    },
    "held": {
        "loss": [{"kind": "l2", "key": "p", "write": "k"}, {"kind": "dot", "key": "p", "target": "w"}],
        "block": {"size": 4, "write": "block"}, "retention": "token", "inputs": {"p": "key", "w": "value"},
    },
}  # fmt: skip


def _rule(name: str, table: dict[str, Any], block: int) -> MemoryRule:
    return rule_from_table({"rule": name, "optimizer": {"lr": "token"}, "block": block, **table})


RULES = {f"exact_{name}": _rule(f"exact_{name}", table, 1) for name, table in EXACT.items()}
RULES |= {f"block_{name}": _rule(f"block_{name}", table, 4) for name, table in BLOCKS.items()}
# What no block of rows solves at once: token by token.
TOKEN_BY_TOKEN: dict[str, dict[str, Any]] = {
    "two_keys": {"loss": ["l2", {"kind": "l2", "key": "p"}], "inputs": {"p": "key"}},
    "two_write_keys": {"loss": ["l2", {"kind": "l2", "write": "p"}], "inputs": {"p": "key"}},
}  # fmt: skip
CHANNELS: dict[str, dict[str, Any]] = {
    "rwkv7": {**EXACT["erase_and_write"], "retention": {"kind": "channel", "axis": "key"}},
    "gated_deltanet_2": {
        **EXACT["own_target"], "retention": {"kind": "channel", "axis": "key", "order": "decay_first"},
    },
}  # fmt: skip
RULES |= {f"channel_{name}": _rule(f"channel_{name}", table, 1) for name, table in CHANNELS.items()}
RULES |= {f"token_{name}": _rule(f"token_{name}", table, 1) for name, table in TOKEN_BY_TOKEN.items()}
# Interpreted kernels take seconds each: those of more than one property.
INTERPRETED = (
    "exact_erase_and_write", "exact_own_target", "exact_with_momentum", "exact_with_bias", "block_many_dots",
    "block_windowed", "block_deep_with_residual", "block_clipped", "block_held",
)  # fmt: skip


def _shape(rule: MemoryRule, T: int) -> Shape:
    return Shape(B=2, T=T, H=2, K=4, V=4 if rule.memory.residual != "none" else 3)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize(("T", "start"), [(9, "fresh"), (1, "state"), (13, "state"), (130, "fresh")])
def test_torch(name, T, start):
    rule = RULES[name]
    splits = ((), (T // 3,), (T // 2, T // 2, T)) if T < 100 else ((), (65,))
    check(make_case(rule, _shape(rule, T), seed=T, start=start), "torch", splits)


@pytest.mark.parametrize("name", [name for name in RULES if name.startswith("exact_")])
def test_exact_rules_token_by_token(name, monkeypatch):
    """The recurrent schedule takes what is solved by blocks of rows too, with the same result."""
    monkeypatch.setattr(
        compare, "compiled", lambda rule, backend: atlasgen.compile(rule, backend, schedule="recurrent")
    )
    rule = RULES[name]
    check(make_case(rule, _shape(rule, 9), seed=2, start="state"), "torch", ((), (5,)))


@pytest.mark.parametrize("name", TOKEN_BY_TOKEN)
def test_the_rest_is_served_token_by_token(name):
    assert schedule(RULES[f"token_{name}"]).schedule == "recurrent"


@pytest.mark.parametrize("name", INTERPRETED)
def test_interpreted(name):
    rule = RULES[name]
    check(make_case(rule, _shape(rule, 9), seed=3, start="state"), "triton", ((5,),))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_terms_beside_half_precision_projections(dtype):
    """Inputs stay float32 where q, k and v do not."""
    rule = RULES["block_windowed"]
    case = make_case(rule, _shape(rule, 6), seed=5, dtype=dtype)
    for backend in ("torch", "triton"):
        check(case, backend)


@pytest.mark.parametrize("name", [name for name in RULES if name.startswith("exact_")])
def test_exact_rules_are_solved_by_blocks_of_rows(name):
    assert not admitted(RULES[name])["wy"]


def test_terms_that_share_their_rows_are_written_at_once():
    """Two errors along one key are one product: the program of two terms has as many as that of one."""

    def products(loss: list[Any]) -> int:
        rule = rule_from_table({"rule": "some", "loss": loss, "block": 4, "optimizer": {"lr": "token"}})
        return sum(node.op == "dot" for node in schedule(rule).forward.nodes())

    assert products(["l2", {"kind": "huber"}]) == products(["l2"])


@pytest.mark.parametrize(
    ("table", "field"),
    [
        (TOKEN_BY_TOKEN["two_keys"], "loss"),
        (TOKEN_BY_TOKEN["two_write_keys"], "loss"),
    ],
)
def test_what_is_no_linear_system(table, field):
    found = admitted(_rule("some", table, 1))["wy"]
    assert [entry.field for entry in found] == [field]


@pytest.mark.parametrize(
    ("table", "field"),
    [
        ({"memory": MLP, "loss": {"write": "p"}, "inputs": {"p": "key"}}, "loss.write"),
        ({"memory": MLP, "loss": {"lr": "a"}, "inputs": {"a": "key"}}, "loss.lr"),
        (
            {"memory": {"kind": "matrix", "bias": True}, "loss": {"lr": "b"}, "inputs": {"b": "value"}},
            "loss.lr",
        ),
        ({"features": POLY, "loss": {"lr": "a"}, "inputs": {"a": "key"}}, "loss.lr"),
    ],
)
def test_what_needs_a_plain_matrix(table, field):
    with pytest.raises(CompileError) as caught:
        schedule(_rule("some", table, 4))
    assert caught.value.field == field

"""Checkpoints: what the backward keeps changes memory and time, never a value."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

import atlasgen
from atlasgen.errors import ArgumentError
from atlasgen.runtime import torch_backend, torch_call
from atlasgen.spec.load import load_rule, rule_from_table

MEMORY = {"kind": "mlp", "depth": 2, "hidden": "2*K", "initial": "learned"}
RULES = {
    "deep": {"memory": MEMORY, "window": 3, "optimizer": {"kind": "momentum", "lr": "token", "theta": 0.5}},
    "matrix": {"window": 3, "optimizer": {"lr": "token"}},
    "newton_schulz": {"memory": MEMORY, "optimizer": {"lr": "token", "transform": ["newton_schulz"]}},
    "held": {"memory": MEMORY, "block": {"size": 8, "write": "block"}, "optimizer": {"lr": "token"}},
}


def results(rule, every):
    """y, the final state and all gradients of one call of 5 blocks and 3 tokens."""
    generator = torch.Generator().manual_seed(0)
    shape = (2, 43, 2, 4)
    tensors = [torch.randn(*shape, generator=generator) / 2 for _ in range(3)]
    tensors.append(0.1 * torch.rand(*shape[:3], generator=generator))
    weights = {"W1": (2, 4, 8), "W2": (2, 8, 4)} if rule.memory.kind == "mlp" else {}
    memory = {name: torch.randn(size, generator=generator) / 2 for name, size in weights.items()}
    leaves = [tensor.requires_grad_() for tensor in (*tensors, *memory.values())]
    q, k, v, lr = tensors
    operator = atlasgen.compile(rule, "torch", checkpoint_every=every)
    y, state = operator(q, k, v, lr=lr, initial_memory=memory or None, output_final_state=True)
    values = [y, *(x for x in state.tensors().values() if x.is_floating_point())]
    loss = sum((value * torch.cos(torch.arange(value.numel()).view(value.shape))).sum() for value in values)
    return [*values, *torch.autograd.grad(loss, leaves)]


@pytest.mark.parametrize("name", RULES)
def test_the_result_does_not_depend_on_checkpoints(name):
    table = {"rule": f"{name}_checkpoints", "loss": "l2", "block": 8, **RULES[name]}
    rule = rule_from_table(table)
    expected = results(rule, 1)
    for every in (2, 4, 100, None):
        for found, wanted in zip(results(rule, every), expected, strict=True):
            assert torch.isfinite(wanted).all() and wanted.abs().max() > 0
            torch.testing.assert_close(found, wanted, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("name", RULES)
def test_spans_shorter_than_the_distance_change_nothing(name, monkeypatch):
    rule = rule_from_table({"rule": f"{name}_spans", "loss": "l2", "block": 8, **RULES[name]})
    expected = results(rule, None)
    monkeypatch.setattr(torch_call, "CACHED_BYTES", 1)
    monkeypatch.setattr(torch_backend, "KEPT_BYTES", 0)
    for every in (2, 4, 100, None):
        for found, wanted in zip(results(rule, every), expected, strict=True):
            torch.testing.assert_close(found, wanted, rtol=2e-4, atol=1e-5)


def test_a_long_sequence_is_computed_again():
    program = torch_backend.make_executable(load_rule("titans"))
    sizes = {"B": 1, "T": 1024, "H": 4, "K": 64, "V": 64, "F": 64, "resume": 0}
    assert program.spacing(sizes) is None
    every = program.spacing({**sizes, "T": 8192})
    assert every is not None and every > 1


def test_copies_keep_the_distance():
    operator = atlasgen.compile("titans_linear", "torch", checkpoint_every=3)
    assert pickle.loads(pickle.dumps(operator)).options == operator.options
    assert copy.deepcopy(operator).options.checkpoint_every == 3


@pytest.mark.parametrize("value", [0, -1, 2.0, True])
def test_a_wrong_distance_is_refused(value):
    with pytest.raises(ArgumentError, match="checkpoint_every"):
        atlasgen.compile("titans_linear", "torch", checkpoint_every=value)

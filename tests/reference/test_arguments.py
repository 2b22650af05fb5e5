"""Heads in groups, arguments that do not fit, rules that the reference refuses."""

import dataclasses

import pytest
import torch

from atlasgen import reference
from atlasgen.errors import ArgumentError, CompileError
from atlasgen.spec import load_rule
from atlasgen.spec.load import shipped_specs
from atlasgen.spec.rule import (
    Block,
    Clip,
    Features,
    Gate,
    LossTerm,
    Memory,
    MemoryRule,
    Optimizer,
    Project,
    Read,
    Retention,
    Transform,
    Window,
)
from tests.reference.support import TOKEN, error, initial_memory, leaves, make_arguments

RULE = MemoryRule(
    "omega",
    loss=(LossTerm("l2"),),
    window=Window(3, TOKEN),
    block=Block(2),
    optimizer=Optimizer(lr=TOKEN),
    retention=Retention(TOKEN),
)


@pytest.mark.parametrize(("query_heads", "key_heads"), [(8, 4), (2, 2), (4, 1), (1, 2)])
def test_heads_in_groups(query_heads, key_heads):
    """Four memories; each key head serves four / key_heads of them, queries share or repeat."""
    arguments = make_arguments(RULE, rows=2, length=7, heads=4, query_heads=query_heads, key_heads=key_heads)
    y, state = reference.run(RULE, **arguments)
    wide = max(query_heads, 4)
    assert y.shape == (2, 7, wide, 4)
    assert state["memory"]["M"].shape == (2, 4, 3, 4)
    for head in range(wide):
        memory = head // (wide // 4)
        single = {
            name: tensor[:, :, memory : memory + 1]
            for name, tensor in arguments.items()
            if name not in ("q", "k")
        }
        key, query = memory // (4 // key_heads), head // (wide // query_heads)
        single["k"] = arguments["k"][:, :, key : key + 1]
        single["q"] = arguments["q"][:, :, query : query + 1]
        assert error(y[:, :, head], reference.run(RULE, **single)[0][:, :, 0]) < 1e-13


def test_gradients_reach_shared_heads():
    arguments = make_arguments(RULE, length=5, heads=4, query_heads=8, key_heads=2)
    for tensor in arguments.values():
        tensor.requires_grad_()
    y, _ = reference.run(RULE, **arguments)
    y.square().sum().backward()
    assert all(tensor.grad.shape == tensor.shape for tensor in arguments.values())
    assert all(tensor.grad.abs().max() > 0 for tensor in arguments.values())


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"lr": None}, "lr"),
        ({"log_theta": torch.zeros(1, 4, 2)}, "log_theta"),
        ({"gamma": torch.zeros(1, 4, 3)}, "gamma"),
        ({"inputs": {"delta": torch.zeros(2)}}, "delta"),
        ({"q": torch.zeros(1, 4, 2, 5)}, "q"),
        ({"k": torch.zeros(1, 4, 3, 3)}, "q, k, v"),
        ({"v": torch.zeros(4, 2, 4)}, "v"),
        ({"initial_memory": torch.zeros(2, 4, 3)}, "initial_memory"),
        ({"initial_memory": {"W": torch.zeros(2, 3, 4)}}, "initial_memory"),
        ({"cu_seqlens": torch.tensor([0, 9])}, "cu_seqlens"),
        ({"cu_seqlens": torch.tensor([0, 3, 2])}, "cu_seqlens"),
        ({"initial_state": {"memory": {}}}, "initial_state"),
        ({"lr_M": torch.zeros(1, 4, 2)}, "lr_M"),
        ({"row_scale": torch.zeros(1, 4, 2)}, "row_scale"),
        ({"norm_gain": torch.zeros(2, 4)}, "norm_gain"),
        ({"coefficients": torch.zeros(2, 3)}, "coefficients"),
        ({"inputs": {"lr": torch.zeros(1, 4, 2)}}, "lr"),
    ],
)
def test_wrong_arguments_are_named(change, named):
    arguments = make_arguments(RULE, length=4) | change
    with pytest.raises(ArgumentError) as caught:
        reference.run(RULE, **arguments)
    assert caught.value.argument == named


def test_state_and_memory_together_are_refused():
    arguments = make_arguments(RULE, length=4)
    _, state = reference.run(RULE, **arguments)
    with pytest.raises(ArgumentError, match="initial_memory"):
        reference.run(RULE, **arguments, initial_state=state, initial_memory=state["memory"]["M"][0])


def test_packed_rows_need_a_batch_of_one():
    arguments = make_arguments(RULE, rows=2, length=4)
    with pytest.raises(ArgumentError, match="cu_seqlens"):
        reference.run(RULE, **arguments, cu_seqlens=torch.tensor([0, 4]))


def test_a_learned_memory_must_be_given():
    rule = dataclasses.replace(RULE, memory=Memory(initial="learned"))
    with pytest.raises(ArgumentError, match="learned"):
        reference.run(rule, **make_arguments(rule, length=2))


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"features": Features("exp")}, "features.kind"),
        ({"window": Window("all")}, "window.length"),
        ({"window": Window(3, boundary="carry")}, "window.boundary"),
        ({"features": Features("poly", basis="projected", out_dim=2)}, "features.basis"),
        ({"block": Block(2, "block"), "read": Read(normaliser="sum")}, "read.normaliser"),
        ({"block": Block(2, row_scale="token"), "retention": Retention(), "read": Read("pre")}, "read.at"),
        ({"block": Block(2, row_scale="token")}, "block.row_scale"),
        ({"block": Block(2, "block", row_scale="token"), "retention": Retention()}, "block.row_scale"),
        (
            {
                "block": Block(2, row_scale="position"),
                "retention": Retention(project=Project("ball", radius=1.0)),
            },
            "block.row_scale",
        ),
        ({"block": Block(2, momentum="block")}, "block.momentum"),
        ({"retention": Retention(TOKEN, project=Project("row_norm", "initial"))}, "retention.project"),
        (
            {"block": Block(2, "block", gate_pool="mean"), "retention": Retention(Gate("channel"))},
            "block.gate_pool",
        ),
        (
            {
                "block": Block(2, "block"),
                "optimizer": Optimizer("momentum", theta=TOKEN, nesterov=True),
            },
            "optimizer.nesterov",
        ),
        ({"optimizer": Optimizer(lr=TOKEN, clip=Clip(1.0, "block"))}, "optimizer.clip.of"),
        ({"optimizer": Optimizer(lr=TOKEN, step="lr / (eps + kk)")}, "optimizer.step"),
        ({"optimizer": Optimizer("least_squares", lr=TOKEN)}, "optimizer.kind"),
        (
            {"optimizer": Optimizer(lr=TOKEN, transform=(Transform("sign", at="block"),))},
            "optimizer.transform.at",
        ),
    ],
)
def test_refused_fields_are_named(fields, field):
    rule = dataclasses.replace(RULE, **fields)
    assert field in [entry[0] for entry in reference.refusals(rule)]
    with pytest.raises(CompileError) as caught:
        reference.run(rule, **make_arguments(RULE, length=2))
    assert caught.value.field == field


SERVED = [name for name in shipped_specs() if not reference.refusals(load_rule(name))]


@pytest.mark.parametrize("name", SERVED)
def test_shipped_rules_run(name):
    rule = load_rule(name)
    start = None if rule.memory.initial == "zero" else initial_memory(rule, value_size=3)
    arguments = make_arguments(rule, length=9, value_size=3)
    y, state = reference.run(rule, **arguments, initial_memory=start)
    tensors = [y, *leaves(state).values()]
    assert all(torch.isfinite(tensor).all() for tensor in tensors)
    assert y.abs().max() > 0


def test_the_spines_rules_are_served():
    spine = """
        linear_attention retnet simple_gla swla titans_linear omeganet_linear logcosh_omega
    """
    assert set(spine.split()) <= set(SERVED)


def test_no_state_unless_asked_for():
    assert reference.run(RULE, **make_arguments(RULE, length=2), output_final_state=False)[1] is None

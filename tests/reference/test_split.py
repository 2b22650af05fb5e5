"""Any split of a sequence into calls equals one call: outputs, states and gradients."""

import dataclasses

import pytest
import torch

from atlasgen import reference
from atlasgen.spec import load_rule, shipped_specs
from atlasgen.spec.rule import (
    Block,
    Features,
    Gate,
    Input,
    LossTerm,
    MemoryRule,
    Optimizer,
    Read,
    Retention,
    Window,
)
from tests.reference.support import (
    HEAD,
    TOKEN,
    assert_same_state,
    error,
    initial_memory,
    leaves,
    make_arguments,
    run_in_pieces,
)

LENGTH = 11
SPLITS = [[0, 1, 11], [0, 2, 3, 11], [0, 4, 8, 11], [0, 5, 5, 7, 11], [0, 10, 11], list(range(12))]

OMEGA = MemoryRule(
    "omega",
    loss=(LossTerm("l2"),),
    window=Window(4, TOKEN),
    block=Block(4),
    optimizer=Optimizer("momentum", lr=TOKEN, lr_at="gradient", theta=TOKEN),
    retention=Retention(TOKEN),
)


def changed(**fields):
    return dataclasses.replace(OMEGA, **fields)


RULES = {
    "halo": OMEGA,
    "carry": changed(window=Window(4, TOKEN, "carry")),
    "truncate": changed(window=Window(4, TOKEN, "truncate")),
    "halo_mean": changed(window=Window(4, TOKEN, "halo", "mean")),
    "carry_mean_pair": changed(window=Window(4, Gate("pair"), "carry", "mean")),
    "truncate_mean_position": changed(window=Window(4, Gate("position"), "truncate", "mean")),
    "mean_of_counts": changed(window=Window(4, Gate("none"), "halo", "mean")),
    "short_blocks_long_window": changed(window=Window(6, TOKEN), block=Block(2)),
    "toward_initial": changed(retention=Retention(TOKEN, toward="initial")),
    "read_pre": changed(read=Read("pre")),
    "read_block": changed(read=Read("block")),
    "dot_read_block": changed(loss=(LossTerm("dot"),), read=Read("block")),
    "exact": changed(block=Block(1)),
    "decay_first": changed(
        block=Block(1),
        window=Window(3, Gate("pair")),
        optimizer=Optimizer(lr=HEAD),
        retention=Retention(Gate("channel"), "decay_first", "initial"),
    ),
    "huber_delta_of_the_token": changed(
        loss=(LossTerm("huber", per="row", delta="delta"),),
        inputs=(Input("delta", "token"),),
        window=Window(4, Gate("none"), "carry"),
    ),
    "normaliser": changed(
        loss=(LossTerm("lp", p=3, eps=0.1),),
        features=Features("softmax"),
        read=Read(normaliser="sum"),
    ),
    "two_terms": changed(
        block=Block(1),
        optimizer=Optimizer(),
        retention=Retention(Gate("channel")),
        loss=(LossTerm("l2", key="kk", target="0", lr="a"), LossTerm("dot")),
        inputs=(Input("kk", "key"), Input("a", "key")),
    ),
}


@pytest.mark.parametrize("borders", SPLITS, ids=str)
@pytest.mark.parametrize("name", RULES)
def test_pieces_equal_one_call(name, borders):
    rule = RULES[name]
    arguments = make_arguments(rule, rows=2, length=LENGTH)
    memory = torch.randn(2, 3, 4, dtype=torch.float64)
    y, state = reference.run(rule, **arguments, initial_memory=memory)
    pieces, last = run_in_pieces(rule, arguments, borders, initial_memory=memory)
    assert error(pieces, y) < 1e-13
    assert_same_state(last, state)


@pytest.mark.parametrize("name", ["halo", "carry_mean_pair", "toward_initial", "normaliser"])
def test_gradients_of_pieces_equal_those_of_one_call(name):
    """From y and every tensor of the final state, through the states in between."""
    rule = RULES[name]
    gradients = []
    for borders in ([0, LENGTH], [0, 2, 6, 9, LENGTH]):
        torch.manual_seed(1)
        arguments = make_arguments(rule, length=LENGTH)
        arguments["initial_memory"] = torch.randn(2, 3, 4, dtype=torch.float64)
        inputs = leaves(arguments)
        for tensor in inputs.values():
            tensor.requires_grad_()
        memory = arguments.pop("initial_memory")
        y, state = run_in_pieces(rule, arguments, borders, initial_memory=memory)
        outputs = [y, *(t for t in leaves(state).values() if t.is_floating_point())]
        loss = sum((output * torch.randn_like(output)).sum() for output in outputs)
        gradients.append(torch.autograd.grad(loss, list(inputs.values())))
    for tensor, whole, parts in zip(inputs, *gradients):
        assert whole.abs().max() > 0, tensor
        assert error(parts, whole) < 1e-12, tensor


def test_rows_at_different_positions_go_on_where_they_stood():
    arguments = make_arguments(OMEGA, rows=2, length=LENGTH)
    starts = []
    for row, seen in ((0, 3), (1, 6)):
        part = {name: tensor[row : row + 1, :seen] for name, tensor in arguments.items()}
        starts.append(reference.run(OMEGA, **part)[1])
    joined = {
        part: torch.cat([start[part] for start in starts])
        if part == "position"
        else {n: torch.cat([start[part][n] for start in starts]) for n in starts[0][part]}
        for part in starts[0]
    }
    rest = {name: torch.cat([tensor[:1, 3:8], tensor[1:, 6:11]]) for name, tensor in arguments.items()}
    y, state = reference.run(OMEGA, **rest, initial_state=joined)
    whole, _ = reference.run(OMEGA, **arguments)
    assert error(y[0], whole[0, 3:8]) < 1e-13
    assert error(y[1], whole[1, 6:11]) < 1e-13
    assert state["position"].tolist() == [8, 11]


def test_no_tokens_return_the_initial_state_as_a_copy():
    arguments = make_arguments(OMEGA, length=5)
    _, state = reference.run(OMEGA, **arguments)
    nothing = {name: tensor[:, :0] for name, tensor in arguments.items()}
    y, after = reference.run(OMEGA, **nothing, initial_state=state)
    assert y.shape == (1, 0, 2, 4)
    assert_same_state(after, state)
    kept = leaves(state)
    assert all(t.data_ptr() != kept[name].data_ptr() for name, t in leaves(after).items())


def test_state_layout():
    """The names and shapes that other parts of the project convert."""
    _, state = reference.run(RULES["carry"], **make_arguments(RULES["carry"], rows=2, length=6))
    assert {name: tuple(tensor.shape) for name, tensor in leaves(state).items()} == {
        "memory.M": (2, 2, 3, 4),
        "momentum.M": (2, 2, 3, 4),
        "window.k": (2, 3, 2, 3),
        "window.v": (2, 3, 2, 4),
        "window.gamma": (2, 3, 2),
        "block.anchor": (2, 2, 3, 4),
        "block.previous": (2, 2, 3, 4),
        "position": (2,),
    }
    assert state["origin"] == {} and state["normaliser"] == {}
    assert state["position"].tolist() == [6, 6]


def test_window_rows_before_the_sequence_are_zero():
    arguments = make_arguments(OMEGA, length=2)
    _, state = reference.run(OMEGA, **arguments)
    assert state["window"]["k"][:, 0].abs().max() == 0
    assert torch.equal(state["window"]["k"][:, 1:], arguments["k"])


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_packed_sequences_equal_separate_runs(dtype):
    arguments = make_arguments(OMEGA, length=13)
    borders = [0, 0, 5, 5, 11]
    y, state = reference.run(OMEGA, **arguments, cu_seqlens=torch.tensor(borders, dtype=dtype))
    assert y[:, 11:].abs().max() == 0
    for index, (start, stop) in enumerate(zip(borders, borders[1:])):
        part = {name: tensor[:, start:stop] for name, tensor in arguments.items()}
        expected, own = reference.run(OMEGA, **part)
        assert torch.equal(y[:, start:stop], expected)
        row = {n: t[index : index + 1] for n, t in leaves(state).items()}
        assert_same_state(row, leaves(own), bar=1e-15)


def test_anchors_move_at_the_last_token_of_a_block():
    rule = RULES["carry"]
    arguments = make_arguments(rule, length=9)
    initial = torch.randn(2, 3, 4, dtype=torch.float64)
    states = [
        reference.run(rule, **{n: t[:, :seen] for n, t in arguments.items()}, initial_memory=initial)[1]
        for seen in range(10)
    ]
    zero = torch.zeros(1, 2, 3, 4, dtype=torch.float64)
    memories = [state["memory"]["M"] for state in states]
    for seen, state in enumerate(states):
        border = seen - seen % 4
        assert torch.equal(state["block"]["anchor"], memories[border])
        assert torch.equal(state["block"]["previous"], memories[border - 4] if border else zero)


def _small(name):
    """A shipped rule with blocks of 4, where it has blocks, and windows of at most 3."""
    rule = load_rule(name)
    exact = rule.block.size == 1 and rule.depends_on_memory
    window = dataclasses.replace(rule.window, length=min(rule.window.length, 3))
    return dataclasses.replace(
        rule, window=window, block=dataclasses.replace(rule.block, size=1 if exact else 4)
    )


@pytest.mark.parametrize("name", shipped_specs())
def test_pieces_of_shipped_rules_equal_one_call(name):
    rule = _small(name)
    arguments = make_arguments(rule, rows=2, length=10, value_size=3)
    start = None if rule.memory.initial == "zero" else initial_memory(rule, value_size=3)
    y, state = reference.run(rule, **arguments, initial_memory=start)
    for borders in ([0, 1, 10], [0, 4, 7, 8, 10]):
        pieces, last = run_in_pieces(rule, arguments, borders, initial_memory=start)
        assert error(pieces, y) < 1e-13
        assert_same_state(last, state, 1e-12)


@pytest.mark.parametrize("name", shipped_specs())
def test_every_argument_of_a_shipped_rule_matters(name):
    rule = _small(name)
    arguments = make_arguments(rule, length=9, value_size=3)
    if rule.memory.initial != "zero":
        arguments["initial_memory"] = initial_memory(rule, value_size=3)
    inputs = leaves(arguments)
    if all(term.target != "v" for term in rule.loss):
        del inputs["v"]  # gives the number of value channels alone
    for tensor in inputs.values():
        tensor.requires_grad_()
    y, _ = reference.run(rule, **arguments)
    gradients = torch.autograd.grad((y * torch.randn_like(y)).sum(), list(inputs.values()))
    for argument, gradient in zip(inputs, gradients):
        assert torch.isfinite(gradient).all() and gradient.abs().max() > 0, argument

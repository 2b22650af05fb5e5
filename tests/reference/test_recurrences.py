"""The reference against recurrences written by hand from the papers, one rule at a time."""

import pytest
import torch

from atlasgen import reference
from atlasgen.spec.rule import (
    Block,
    Features,
    Gate,
    LossTerm,
    MemoryRule,
    Optimizer,
    Read,
    Retention,
    Window,
)
from tests.reference.support import TOKEN, error, make_arguments

DOT, L2 = (LossTerm("dot"),), (LossTerm("l2"),)
BAR = 1e-13


def per_head(arguments, name):
    """Rows of one head of the first batch row."""
    return arguments[name][0].transpose(0, 1)


def test_linear_attention_with_sum_normaliser():
    rule = MemoryRule("linear", features=Features("elu1"), loss=DOT, read=Read(normaliser="sum"))
    arguments = make_arguments(rule, length=9)
    y, state = reference.run(rule, **arguments)
    for head in range(2):
        q, k, v = (per_head(arguments, name)[head] for name in "qkv")
        fq, fk = torch.where(q > 0, q + 1, q.exp()), torch.where(k > 0, k + 1, k.exp())
        scores = torch.tril(fq @ fk.T)
        assert error(y[0, :, head], (scores / scores.sum(1, keepdim=True)) @ v) < BAR
        assert error(state["memory"]["M"][0, head], fk.T @ v) < BAR
        assert error(state["normaliser"]["z"][0, head], fk.sum(0)) < BAR


def test_retnet_decays_by_head_and_counts_heads_from_the_offset():
    alpha = Gate("constant", expression="1 - 2**(-5 - head)")
    rule = MemoryRule("retnet", loss=DOT, retention=Retention(alpha=alpha), read=Read(scale="K**-0.5"))
    arguments = make_arguments(rule, length=12)
    y, _ = reference.run(rule, **arguments, head_offset=3)
    times = torch.arange(12, dtype=torch.float64)
    for head in range(2):
        q, k, v = (per_head(arguments, name)[head] for name in "qkv")
        decay = (1 - 2.0 ** (-5 - 3 - head)) ** (times[:, None] - times)
        expected = torch.tril((q @ k.T) * decay) @ v / 3**0.5
        assert error(y[0, :, head], expected) < BAR


def test_deltanet_with_one_token_blocks():
    rule = MemoryRule("deltanet", loss=L2, optimizer=Optimizer(lr=TOKEN))
    arguments = make_arguments(rule, length=10)
    y, state = reference.run(rule, **arguments)
    for head in range(2):
        q, k, v, lr = (per_head(arguments, name)[head] for name in ("q", "k", "v", "lr"))
        memory = torch.zeros(4, 3, dtype=torch.float64)  # here it acts on columns
        for t in range(10):
            memory = memory - lr[t] * torch.outer(memory @ k[t] - v[t], k[t])
            assert error(y[0, t, head], memory @ q[t]) < BAR
        assert error(state["memory"]["M"][0, head], memory.T) < BAR


@pytest.mark.parametrize(("order", "expected"), [("decay_first", 0.25), ("error_first", 0.0)])
def test_gated_delta_rule_in_both_orders(order, expected):
    """Public case 16: (k, v, beta, a) = (1, 1, 1, 1), then (1, 0, 0.5, 0.5)."""
    rule = MemoryRule("gated", loss=L2, optimizer=Optimizer(lr=TOKEN), retention=Retention(TOKEN, order))

    def column(*values):
        return torch.tensor(values, dtype=torch.float64).reshape(1, -1, 1)

    k, v = column(1, 1).unsqueeze(-1), column(1, 0).unsqueeze(-1)
    _, state = reference.run(rule, k, k, v, lr=column(1, 0.5), log_alpha=column(1, 0.5).log())
    assert state["memory"]["M"].item() == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("order", ["decay_first", "error_first"])
def test_gated_delta_rule_with_channel_decay(order):
    """KDA's and RWKV-7's order: the decay sits on key channels."""
    rule = MemoryRule(
        "kda",
        loss=L2,
        optimizer=Optimizer(lr=TOKEN),
        retention=Retention(Gate("channel"), order),
    )
    arguments = make_arguments(rule, length=7)
    y, _ = reference.run(rule, **arguments)
    q, k, v, lr = (per_head(arguments, name)[1] for name in ("q", "k", "v", "lr"))
    alpha = per_head(arguments, "log_alpha")[1].exp()
    memory = torch.zeros(3, 4, dtype=torch.float64)
    for t in range(7):
        decayed = alpha[t][:, None] * memory
        seen = decayed if order == "decay_first" else memory
        memory = decayed + lr[t] * torch.outer(k[t], v[t] - k[t] @ seen)
        assert error(y[0, t, 1], q[t] @ memory) < BAR


def decay_matrix(a):
    """D(a)[t, s] = prod of a over s+1..t, lower triangular."""
    size = len(a)
    rows = [[a[s + 1 : t + 1].prod() if s <= t else a[0] * 0 for s in range(size)] for t in range(size)]
    return torch.stack([torch.stack(row) for row in rows])


def dual_form(arguments, head, block, window, theta=None, lr_at="update"):
    """Whole blocks by the explicit matrices of the dual form: halo, l2, token gates."""
    q, k, v = (per_head(arguments, name)[head] for name in "qkv")
    lr, gamma = (per_head(arguments, name)[head] for name in ("lr", "gamma"))
    alpha = per_head(arguments, "log_alpha")[head].exp()
    theta = torch.zeros_like(alpha) if theta is None else theta[head]
    memory = torch.zeros(v.shape[1], k.shape[1], dtype=torch.float64)
    momentum = torch.zeros_like(memory)
    reads = []
    for start in range(0, len(q), block):
        stop = min(start + block, len(q))
        first = max(0, start - window + 1)
        x, errors = k[first:stop], k[first:stop] @ memory.T - v[first:stop]
        tokens = torch.arange(start, stop)[:, None] - torch.arange(first, stop)
        band = torch.where((tokens >= 0) & (tokens < window), gamma[first:stop], 0.0)
        own = slice(start, stop)
        if lr_at == "update":
            b_matrix = decay_matrix(theta[own]) @ band
            p_matrix = decay_matrix(alpha[own]) @ (lr[own, None] * b_matrix)
            step = lr[own]
        else:
            b_matrix = decay_matrix(theta[own]) @ (lr[own, None] * band)
            p_matrix = decay_matrix(alpha[own]) @ b_matrix
            step = torch.ones_like(lr[own])
        a = alpha[own].cumprod(0)
        b = decay_matrix(alpha[own]) @ (step * theta[own].cumprod(0))
        y = a[:, None] * (q[own] @ memory.T) - b[:, None] * (q[own] @ momentum.T)
        reads.append(y - ((q[own] @ x.T) * p_matrix) @ errors)
        memory, momentum = (
            a[-1] * memory - b[-1] * momentum - (p_matrix[-1, :, None] * errors).T @ x,
            theta[own].prod() * momentum + (b_matrix[-1, :, None] * errors).T @ x,
        )
    return torch.cat(reads), memory, momentum


@pytest.mark.parametrize("length", [16, 13])
def test_omega_with_halo_equals_its_dual_form(length):
    rule = MemoryRule(
        "omega",
        loss=L2,
        window=Window(3, TOKEN),
        block=Block(4),
        optimizer=Optimizer(lr=TOKEN),
        retention=Retention(TOKEN),
    )
    arguments = make_arguments(rule, length=length)
    y, state = reference.run(rule, **arguments)
    for head in range(2):
        reads, memory, _ = dual_form(arguments, head, 4, 3)
        assert error(y[0, :, head], reads) < BAR
        assert error(state["memory"]["M"][0, head], memory.T) < BAR


@pytest.mark.parametrize("lr_at", ["update", "gradient"])
def test_momentum_with_both_places_of_lr(lr_at):
    rule = MemoryRule(
        "titans_omega",
        loss=L2,
        window=Window(4, TOKEN),
        block=Block(4),
        optimizer=Optimizer("momentum", lr=TOKEN, lr_at=lr_at, theta=TOKEN),
        retention=Retention(TOKEN),
    )
    arguments = make_arguments(rule, length=14)
    y, state = reference.run(rule, **arguments)
    theta = per_head(arguments, "log_theta").exp()
    for head in range(2):
        reads, memory, momentum = dual_form(arguments, head, 4, 4, theta, lr_at)
        assert error(y[0, :, head], reads) < BAR
        assert error(state["memory"]["M"][0, head], memory.T) < BAR
        assert error(state["momentum"]["M"][0, head], momentum.T) < BAR


@pytest.mark.parametrize("boundary", ["halo", "carry", "truncate"])
@pytest.mark.parametrize("gate", ["none", "pair", "position"])
@pytest.mark.parametrize("normalise", ["sum", "mean"])
def test_windows_at_block_borders(boundary, gate, normalise):
    """Every error is kept with the border memory at which it was made, and counted by hand."""
    window, block, length = 3, 4, 11
    rule = MemoryRule(
        "window",
        loss=L2,
        window=Window(window, Gate(gate), boundary, normalise),
        block=Block(block),
        optimizer=Optimizer(lr=TOKEN),
    )
    arguments = make_arguments(rule, length=length)
    y, _ = reference.run(rule, **arguments)
    q, k, v, lr = (per_head(arguments, name)[1] for name in ("q", "k", "v", "lr"))
    memory = torch.zeros(3, 4, dtype=torch.float64)
    borders = []
    for t in range(length):
        if t % block == 0:
            borders.append(memory)
        update, total = torch.zeros_like(memory), 0.0
        for age in range(min(window, t + 1)):
            i = t - age
            if i // block != t // block and boundary == "truncate":
                continue
            border = borders[i // block] if boundary == "carry" else borders[-1]
            weight = 1.0
            if gate == "pair":
                weight = arguments["gamma"][0, t, 1, age]
            if gate == "position":
                weight = arguments["gamma"][1, age]
            update = update + weight * torch.outer(k[i], k[i] @ border - v[i])
            total = total + weight
        memory = memory - lr[t] * (update / total if normalise == "mean" else update)
        assert error(y[0, t, 1], q[t] @ memory) < BAR


def test_blocks_do_not_matter_where_the_loss_is_linear():
    window = Window(3, TOKEN, "truncate", "mean")
    results = []
    for size in (1, 4):
        rule = MemoryRule("dot", loss=DOT, window=window, block=Block(size), retention=Retention(TOKEN))
        results.append(reference.run(rule, **make_arguments(rule, length=10))[0])
    assert torch.equal(*results)


@pytest.mark.parametrize("at", ["post", "pre", "block"])
def test_read_positions(at):
    rule = MemoryRule("read", loss=L2, block=Block(3), optimizer=Optimizer(lr=TOKEN), read=Read(at))
    arguments = make_arguments(rule, length=8)
    post = MemoryRule("post", loss=L2, block=Block(3), optimizer=Optimizer(lr=TOKEN))
    y, _ = reference.run(rule, **arguments)
    q = arguments["q"]
    for t in range(8):
        seen = {"post": t + 1, "pre": t, "block": t - t % 3}[at]
        part = {name: tensor[:, :seen] for name, tensor in arguments.items()}
        _, state = reference.run(post, **part)
        expected = torch.einsum("bhk,bhkv->bhv", q[:, t], state["memory"]["M"])
        assert error(y[:, t], expected) < BAR


def test_retention_toward_the_initial_memory():
    rule = MemoryRule("toward", loss=DOT, retention=Retention(TOKEN, toward="initial"))
    arguments = make_arguments(rule, length=6)
    initial = torch.randn(2, 3, 4, dtype=torch.float64)
    _, state = reference.run(rule, **arguments, initial_memory=initial)
    memory = initial
    for t in range(6):
        alpha = arguments["log_alpha"][0, t].exp()[:, None, None]
        write = arguments["k"][0, t].unsqueeze(-1) * arguments["v"][0, t].unsqueeze(-2)
        memory = alpha * memory + (1 - alpha) * initial + write
    assert error(state["memory"]["M"][0], memory) < BAR
    assert torch.equal(state["origin"]["M"][0], initial)


def test_normaliser_follows_the_memorys_recursion():
    """z is the column that a memory of ones would write: momentum, window, lr and decay alike."""
    rule = MemoryRule(
        "normalised",
        features=Features("softmax"),
        loss=DOT,
        window=Window(3, TOKEN, normalise="mean"),
        optimizer=Optimizer("momentum", lr=TOKEN, theta=TOKEN),
        retention=Retention(TOKEN),
        read=Read(normaliser="sum"),
    )
    arguments = make_arguments(rule, length=9)
    arguments["v"] = torch.ones_like(arguments["v"])
    y, state = reference.run(rule, **arguments)
    assert error(y, torch.ones_like(y)) < BAR
    assert error(state["normaliser"]["z"], state["memory"]["M"][..., 0]) < BAR
    assert error(state["normaliser"]["momentum"], state["momentum"]["M"][..., 0]) < BAR

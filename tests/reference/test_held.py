"""Updates that wait for their block, against direct loops over blocks written from the papers."""

import pytest
import torch
from torch.nn import functional

from atlasgen import reference
from atlasgen.reference.transforms import newton_schulz
from atlasgen.spec import rule_from_table
from tests.reference.support import (
    assert_same_state,
    error,
    initial_memory,
    leaves,
    make_arguments,
    rows_of,
    run_in_pieces,
)

BAR = 1e-12
MUON = ((3.4445, -4.7750, 2.0315),) * 5


def lact_table(**changes):
    block = {"size": 4, "write": "block", "momentum": "block", "gate_pool": "mean", "partial": "skip"}
    graph = {"W0": ["2*K", "F"], "W1": ["V", "2*K"], "W2": ["2*K", "F"]}
    return {
        "rule": "lact_rule",
        "memory": {
            "kind": "graph",
            "f": "W1 @ (silu(W0 @ x) * (W2 @ x))",
            "weights": graph,
            "initial": "learned",
        },
        "loss": "dot",
        "block": block,
        "optimizer": {
            "kind": "momentum",
            "theta": "token",
            "lr_at": "gradient",
            "transform": [{"kind": "newton_schulz", "at": "block"}],
        },
        "weights": {name: {"lr": "token"} for name in graph},
        "retention": {"project": {"kind": "row_norm", "to": "initial"}},
        "read": "block",
    } | changes


def test_lact_by_its_own_block_update():
    rule = rule_from_table(lact_table())
    arguments = make_arguments(rule, length=10)
    start = initial_memory(rule)
    y, state = reference.run(rule, **arguments, initial_memory=start)
    for head in range(2):
        rows = rows_of(arguments, head)
        w = {name: tensor[head] for name, tensor in start.items()}  # [in, out]
        norms = {name: tensor.norm(dim=0) for name, tensor in w.items()}
        momentum = {name: torch.zeros_like(tensor) for name, tensor in w.items()}
        for first in (0, 4, 8):
            part = slice(first, min(first + 4, 10))
            q, k, v = (rows[name][part] for name in "qkv")
            lr = {name: rows[f"lr_{name}"][part, None] for name in w}
            out = (functional.silu(q @ w["W0"]) * (q @ w["W2"])) @ w["W1"]
            assert error(y[0, part, head], out) < BAR
            if len(q) < 4:
                break
            gate, up = k @ w["W0"], k @ w["W2"]
            hidden = functional.silu(gate) * up
            d_hidden = v @ w["W1"].T
            slope = torch.sigmoid(gate) * (1 + gate * (1 - torch.sigmoid(gate)))
            steps = {
                "W0": (lr["W0"] * k).T @ (d_hidden * up * slope),
                "W1": (lr["W1"] * hidden).T @ v,
                "W2": (lr["W2"] * k).T @ (d_hidden * functional.silu(gate)),
            }
            theta = rows["log_theta"][part].exp().mean()
            for name in w:
                momentum[name] = theta * momentum[name] + steps[name]
                moved = w[name] + newton_schulz(momentum[name], MUON)
                w[name] = moved / moved.norm(dim=0) * norms[name]
        for name in w:
            assert error(state["memory"][name][0, head], w[name]) < BAR, name
            assert error(-state["momentum"][name][0, head], momentum[name]) < BAR, name


def atlas_chunk_table(**changes):
    return {
        "rule": "atlas_by_chunks",
        "memory": {"kind": "mlp", "hidden": "2*K", "act": "tanh", "residual": "x", "initial": "learned"},
        "features": {"kind": "poly", "basis": "powers", "coefficients": "learned"},
        "loss": "l2",
        "window": {"length": 3, "gate": "token"},
        "block": {"size": 4, "write": "block", "momentum": "block"},
        "optimizer": {
            "kind": "momentum",
            "theta": "token",
            "lr": "token",
            "transform": [{"kind": "newton_schulz", "at": "block"}],
        },
        "retention": {"kind": "token", "toward": "initial"},
    } | changes


@pytest.mark.parametrize("pool", ["last", "mean"])
def test_atlas_by_chunks(pool):
    """Windows of 3 tokens with a halo, one Newton-Schulz per block, gates of the block at its end."""
    block = {"size": 4, "write": "block", "momentum": "block", "gate_pool": pool}
    rule = rule_from_table(atlas_chunk_table(block=block))
    arguments = make_arguments(rule, length=10, heads=1, value_size=3)
    start = initial_memory(rule, heads=1, value_size=3)
    y, state = reference.run(rule, **arguments, initial_memory=start)
    rows = rows_of(arguments, 0)
    a = rows["coefficients"]

    def features(x):
        return a[0] + a[1] * x + a[2] * x**2

    def f(w, x):
        x = features(x)
        return x + torch.tanh(x @ w["W1"]) @ w["W2"]

    def window_loss(w, t):
        inside = range(max(0, t - 2), t + 1)
        return sum(rows["gamma"][i] * (f(w, rows["k"][i]) - rows["v"][i]).square().sum() / 2 for i in inside)

    def pooled(values, first):
        part = values[first : first + 4]
        return part.mean() if pool == "mean" else part[-1]

    w0 = {name: tensor[0] for name, tensor in start.items()}
    w, momentum = w0, {name: torch.zeros_like(tensor) for name, tensor in w0.items()}
    for first in (0, 4, 8):
        at = {name: tensor.detach().requires_grad_() for name, tensor in w.items()}
        times = range(first, min(first + 4, 10))
        loss = sum(window_loss(at, t) for t in times)
        total = dict(zip(at, torch.autograd.grad(loss, list(at.values())), strict=True))
        before = w
        if len(times) == 4:
            alpha = pooled(rows["log_alpha"].exp(), first)
            theta = pooled(rows["log_theta"].exp(), first)
            lr = pooled(rows["lr"], first)
            momentum = {name: theta * momentum[name] + total[name] for name in w}
            w = {
                name: alpha * w[name] + (1 - alpha) * w0[name] - lr * newton_schulz(momentum[name], MUON)
                for name in w
            }
        for t in times:  # only the last token of a full block sees the new memory
            seen = w if t == first + 3 else before
            assert error(y[0, t, 0], f(seen, rows["q"][t])) < BAR, t
    for name in w:
        assert error(state["memory"][name][0, 0], w[name]) < BAR
        assert error(state["momentum"][name][0, 0], momentum[name]) < BAR
        assert error(state["block"]["update"][name][0, 0], total[name]) < BAR


def matrix_table(**changes):
    return {
        "rule": "blocks",
        "loss": "l2",
        "block": {"size": 3, "write": "block"},
        "optimizer": {"kind": "momentum", "theta": "token", "lr": "token"},
        "retention": "token",
    } | changes


@pytest.mark.parametrize("lr_at", ["update", "gradient"])
def test_momentum_of_tokens_is_written_by_blocks(lr_at):
    optimizer = {"kind": "momentum", "theta": "token", "lr": "token", "lr_at": lr_at}
    rule = rule_from_table(matrix_table(optimizer=optimizer))
    arguments = make_arguments(rule, length=7, heads=1)
    y, state = reference.run(rule, **arguments)
    q, k, v, lr, log_alpha, log_theta = (
        rows_of(arguments, 0)[name] for name in ("q", "k", "v", "lr", "log_alpha", "log_theta")
    )
    memory = momentum = torch.zeros(3, 4, dtype=torch.float64)
    for t in range(7):
        gradient = torch.outer(k[t], k[t] @ memory - v[t])
        momentum = log_theta[t].exp() * momentum + (lr[t] if lr_at == "gradient" else 1) * gradient
        if t % 3 == 2:
            memory = log_alpha[t].exp() * memory - (lr[t] if lr_at == "update" else 1) * momentum
        assert error(y[0, t, 0], q[t] @ memory) < BAR
    assert error(state["memory"]["M"][0, 0], memory) < BAR
    assert error(state["momentum"]["M"][0, 0], momentum) < BAR
    assert state["block"] == {}


def test_plain_descent_by_blocks_with_mean_gates():
    rule = rule_from_table(
        matrix_table(
            optimizer={"lr": "token"}, block={"size": 3, "write": "block", "gate_pool": "mean"}, loss="dot"
        )
    )
    arguments = make_arguments(rule, length=8, heads=1)
    _, state = reference.run(rule, **arguments)
    rows = rows_of(arguments, 0)
    memory = torch.zeros(3, 4, dtype=torch.float64)
    for first in (0, 3):
        k, v, lr, log_alpha = (rows[n][first : first + 3] for n in ("k", "v", "lr", "log_alpha"))
        memory = log_alpha.exp().mean() * memory + lr.mean() * k.T @ v
    assert error(state["memory"]["M"][0, 0], memory) < BAR
    sums = state["block"]
    assert set(sums) == {"update", "pool_alpha", "pool_lr"}
    assert error(sums["update"][0, 0], -rows["k"][6:].T @ rows["v"][6:]) < BAR
    assert error(sums["pool_lr"][0, 0], rows["lr"][6:].sum()) < BAR
    assert error(sums["pool_alpha"][0, 0], rows["log_alpha"][6:].exp().sum()) < BAR


@pytest.mark.parametrize("row_scale", ["none", "position"])
def test_the_three_reads_of_a_held_memory(row_scale):
    """pre is the memory after the token before; block the one of the border that precedes the token."""
    reads, states = {}, None
    for at in ("post", "pre", "block"):
        block = {"size": 3, "write": "token" if row_scale == "position" else "block", "row_scale": row_scale}
        rule = rule_from_table(
            {"rule": "reads", "loss": "l2", "optimizer": {"lr": "token"}, "block": block, "read": at}
        )
        arguments = make_arguments(rule, length=8)
        arguments["q"] = arguments["q"][:, :1].expand_as(arguments["q"])  # one question to all memories
        reads[at], states = reference.run(rule, **arguments)
    later = reads["post"][:, :-1]
    assert reads["pre"][:, 0].abs().max() == reads["block"][:, :3].abs().max() == 0
    assert error(reads["pre"][:, 1:], later) < BAR
    borders = reads["post"][:, [2, 2, 2, 5, 5]]
    assert error(reads["block"][:, 3:], borders) < BAR
    assert set(states["block"]) == {"update"}


def test_one_token_blocks_are_the_plain_rule():
    """With blocks of one token everything is written at once."""
    tables = [
        {"loss": "l2", "optimizer": {"lr": "token"}, "retention": "token", "block": block}
        for block in (1, {"size": 1, "write": "block"})
    ]
    plain, held = (rule_from_table(table) for table in tables)
    arguments = make_arguments(plain, length=6)
    left, right = (reference.run(rule, **arguments) for rule in (plain, held))
    assert error(right[0], left[0]) < BAR
    assert error(right[1]["memory"]["M"], left[1]["memory"]["M"]) < BAR
    assert right[1]["block"]["update"].abs().max() == 0


def test_column_norms_are_those_of_the_start():
    rule = rule_from_table(lact_table(window={"length": 2, "boundary": "carry"}))
    arguments = make_arguments(rule, length=9)
    start = initial_memory(rule)
    start["W1"][1, :, 2] = 0  # this output of this head is asked to have norm zero
    _, state = reference.run(rule, **arguments, initial_memory=start)
    for name, weight in state["memory"].items():
        assert error(weight.norm(dim=-2), start[name].norm(dim=-2)[None]) < BAR
        assert torch.equal(state["origin"][name][0], start[name])
    assert state["memory"]["W1"][0, 1, :, 2].abs().max() == 0


def test_a_zero_column_stays_zero_and_has_no_derivative():
    """The key's channel 0 is never written, the value's channel 1 is always zero."""
    table = {
        "rule": "columns",
        "memory": {"initial": "given"},
        "loss": "dot",
        "block": {"size": 2, "write": "block"},
        "retention": {"project": {"kind": "row_norm", "to": "initial"}},
    }
    rule = rule_from_table(table)
    arguments = make_arguments(rule, length=4)
    arguments["v"][..., 1] = 0
    start = initial_memory(rule)["M"]
    start[:, :, 1] = 0
    for tensor in (*arguments.values(), start):
        tensor.requires_grad_()
    y, state = reference.run(rule, **arguments, initial_memory=start)
    assert state["memory"]["M"][..., 1].abs().max() == 0
    gradients = torch.autograd.grad(y.sum() + state["memory"]["M"].sum(), [*arguments.values(), start])
    assert all(torch.isfinite(gradient).all() for gradient in gradients)


HELD = {
    "ttt_position": {
        "memory": {"bias": True, "norm": "layer", "residual": "x", "initial": "learned"},
        "block": {"size": 4, "row_scale": "position"},
        "optimizer": {"lr": "token"},
    },
    "row_token_momentum_window": {
        "block": {"size": 4, "row_scale": "token"},
        "optimizer": {"kind": "momentum", "theta": "token", "lr": "token", "lr_at": "gradient"},
        "window": {"length": 3, "gate": "token", "boundary": "carry"},
        "memory": {"kind": "mlp", "hidden": "2*K", "act": "tanh", "bias": True, "initial": "given"},
        "read": "block",
    },
    "row_position_pre": {
        "block": {"size": 4, "row_scale": "position"},
        "optimizer": {"lr": "head"},
        "read": "pre",
    },
    "lact": lact_table(),
    "lact_mean_update": lact_table(
        optimizer={"kind": "momentum", "theta": "token", "lr_at": "update"},
        weights={"W0": {"lr": "token"}, "W2": {"retention": "token", "theta": "head"}},
    ),
    "atlas_chunk": atlas_chunk_table(),
    "token_momentum": matrix_table(window={"length": 3, "boundary": "truncate"}),
}
SPLITS = [[0, 1, 11], [0, 3, 4, 11], [0, 4, 8, 11], [0, 5, 5, 7, 11], list(range(12))]


@pytest.mark.parametrize("name", HELD)
def test_pieces_equal_one_call_with_their_gradients(name):
    rule = rule_from_table({"rule": name, **HELD[name]})
    results = []
    for borders in ([0, 11], *SPLITS):
        arguments = make_arguments(rule, length=11, value_size=3, heads=1)
        if rule.memory.initial != "zero":
            arguments["initial_memory"] = initial_memory(rule, heads=1, value_size=3)
        inputs = leaves(arguments)
        for tensor in inputs.values():
            tensor.requires_grad_()
        start = {n: arguments.pop(n) for n in ("initial_memory",) if n in arguments}
        y, state = run_in_pieces(rule, arguments, borders, **start)
        outputs = [y, *(t for t in leaves(state).values() if t.is_floating_point())]
        torch.manual_seed(2)
        loss = sum((output * torch.randn_like(output)).sum() for output in outputs)
        results.append((y, state, torch.autograd.grad(loss, list(inputs.values()))))
    y, state, gradients = results[0]
    for other, last, parts in results[1:]:
        assert error(other, y) < 1e-13
        assert_same_state(last, state, 1e-12)
        for tensor, whole, part in zip(inputs, gradients, parts, strict=True):
            assert whole.abs().max() > 0, tensor
            assert error(part, whole) < 1e-11, tensor


@pytest.mark.parametrize("name", ["ttt_position", "lact_mean_update", "atlas_chunk"])
def test_outer_derivatives_against_finite_differences(name):
    rule = rule_from_table({"rule": name, **HELD[name]})
    arguments = make_arguments(rule, length=rule.block.size + 1, heads=1, key_size=2, value_size=2)
    arguments["initial_memory"] = initial_memory(rule, heads=1, key_size=2, value_size=2)
    inputs = leaves(arguments)

    def function(*tensors):
        given = dict(zip(inputs, tensors, strict=True))
        start = {n.split(".")[1]: given.pop(n) for n in list(given) if "." in n}
        y, state = reference.run(rule, **given, initial_memory=start)
        total = sum((t * t).sum() for t in leaves(state).values() if t.is_floating_point())
        return y.square().sum() + total

    tensors = [tensor.requires_grad_() for tensor in inputs.values()]
    assert torch.autograd.gradcheck(function, tensors, fast_mode=True)


@pytest.mark.parametrize(("rows", "position"), [(2, 0), (2, 6)])
def test_no_tokens_keep_a_held_state(rows, position):
    rule = rule_from_table(lact_table())
    start = initial_memory(rule)
    arguments = make_arguments(rule, rows=rows, length=position)
    _, state = reference.run(rule, **arguments, initial_memory=start)
    nothing = make_arguments(rule, rows=rows, length=0)
    y, after = reference.run(rule, **nothing, initial_state=state)
    assert y.shape == (rows, 0, 2, 4)
    assert leaves(after).keys() == leaves(state).keys()
    for name, tensor in leaves(after).items():
        assert torch.equal(tensor, leaves(state)[name]), name


def test_state_layout_of_many_weights():
    rule = rule_from_table(
        lact_table(
            optimizer={"kind": "momentum", "theta": "token", "lr_at": "update"},
            weights={"W0": {"lr": "token"}, "W1": {"theta": "token", "lr": "head"}},
        )
    )
    _, state = reference.run(rule, **make_arguments(rule, length=5), initial_memory=initial_memory(rule))
    weights = {"W0": (1, 2, 3, 6), "W1": (1, 2, 6, 4), "W2": (1, 2, 3, 6)}
    expected = {
        f"{part}.{name}": shape
        for part in ("memory", "momentum", "origin", "block.update")
        for name, shape in weights.items()
    }
    pools = ("pool_lr_W0", "pool_theta", "pool_theta_W1")  # W1's lr is per head, W2's is none
    expected |= {f"block.{name}": (1, 2) for name in pools} | {"position": (1,)}
    assert {name: tuple(tensor.shape) for name, tensor in leaves(state).items()} == expected


def test_a_state_with_flat_names_of_its_block_is_read():
    rule = rule_from_table(lact_table())
    arguments = make_arguments(rule, length=6)
    _, state = reference.run(rule, **arguments, initial_memory=initial_memory(rule))
    flat = {name.removeprefix("block."): t for name, t in leaves(state).items() if name.startswith("block.")}
    assert "update.W0" in flat and "pool_theta" in flat
    results = [
        reference.run(rule, **arguments, initial_state={**state, "block": block})[0]
        for block in (state["block"], flat)
    ]
    assert torch.equal(*results)

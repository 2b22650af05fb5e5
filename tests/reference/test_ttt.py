"""TTT: updates inside a block scaled by their row, against direct loops written from the papers."""

import pytest
import torch
from torch.nn import functional

from atlasgen import reference
from atlasgen.spec import rule_from_table
from tests.reference.support import error, initial_memory, make_arguments, rows_of

BAR = 1e-12


def layer_norm(z):
    centred = z - z.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-6).sqrt()


def layer_norm_l2_gradient(z, target, gain, bias):
    """d/dz of |norm(z) gain + bias - target|^2 / 2, the closed form that TTT's own code has."""
    size = z.shape[-1]
    deviation = (z.var(-1, unbiased=False, keepdim=True) + 1e-6).sqrt()
    unit = layer_norm(z)
    g = (unit * gain + bias - target) * gain
    return (size * g - g.sum(-1, keepdim=True) - unit * (g * unit).sum(-1, keepdim=True)) / (size * deviation)


TTT = {
    "rule": "ttt",
    "memory": {"bias": True, "norm": "layer", "residual": "x", "initial": "learned"},
    "loss": "l2",
    "block": {"size": 4, "row_scale": "position"},
    "optimizer": {"lr": "token"},
}


@pytest.mark.parametrize("given", [True, False])
def test_ttt_linear_as_published(given):
    """W_t = W_0 - row_t sum lr_i g_i inside a block of 4; the residual is on the query."""
    rule = rule_from_table(TTT)
    arguments = make_arguments(rule, length=11, value_size=3)
    if not given:
        for name in ("row_scale", "norm_gain", "norm_bias"):
            del arguments[name]
    start = initial_memory(rule, value_size=3)
    y, state = reference.run(rule, **arguments, initial_memory=start)
    for head in range(2):
        rows = rows_of(arguments, head)
        q, k, v, lr = (rows[name] for name in ("q", "k", "v", "lr"))
        factor = rows.get("row_scale", 1 / torch.arange(1, 5, dtype=torch.float64))
        gain, bias = rows.get("norm_gain", torch.ones(3)), rows.get("norm_bias", torch.zeros(3))
        w, b = start["M"][head], start["b"][head]
        for first in range(0, 11, 4):
            sum_w, sum_b = torch.zeros_like(w), torch.zeros_like(b)
            for t in range(first, min(first + 4, 11)):
                g = layer_norm_l2_gradient(k[t] @ w + b, v[t] - k[t], gain, bias)
                sum_w, sum_b = sum_w + lr[t] * torch.outer(k[t], g), sum_b + lr[t] * g
                row = factor[t - first]
                z = q[t] @ (w - row * sum_w) + b - row * sum_b
                assert error(y[0, t, head], q[t] + layer_norm(z) * gain + bias) < BAR
            if t - first == 3:
                w, b = w - row * sum_w, b - row * sum_b
        assert error(state["memory"]["M"][0, head], w) < BAR
        assert error(state["memory"]["b"][0, head], b) < BAR
        assert error(state["block"]["update"]["M"][0, head], sum_w) < BAR
        assert error(state["block"]["update"]["b"][0, head], sum_b) < BAR


def test_ttt_linear_as_flash_linear_attention_has_it():
    """Its dual form: the row factor is the reader's eta, the residual is on z and at the read only."""
    rule = rule_from_table(
        {
            "rule": "ttt_fla",
            "memory": {"bias": True, "norm": "layer", "initial": "learned"},
            "loss": {"kind": "l2", "target": "v - k"},
            "block": {"size": 4, "row_scale": "token"},
            "read": {"f": "z + norm(z)"},
        }
    )
    arguments = make_arguments(rule, length=8, value_size=3)
    start = initial_memory(rule, value_size=3)
    y, state = reference.run(rule, **arguments, initial_memory=start)
    for head in range(2):
        rows = rows_of(arguments, head)
        gain, bias = rows["norm_gain"], rows["norm_bias"]
        h, hb = start["M"][head], start["b"][head]
        for first in (0, 4):
            q, k, v, eta = (rows[name][first : first + 4] for name in ("q", "k", "v", "row_scale"))
            eta = eta[:, None]
            v_new = layer_norm_l2_gradient(k @ h + hb, v - k, gain, bias)
            scores = torch.tril(q @ k.T)
            o = q @ h - (eta * scores) @ v_new + hb - torch.tril(eta.expand(4, 4)) @ v_new
            h, hb = h - (eta[-1] * k).T @ v_new, hb - (eta[-1] * v_new).sum(0)
            assert error(y[0, first : first + 4, head], o + layer_norm(o) * gain + bias) < BAR
        assert error(state["memory"]["M"][0, head], h) < BAR
        assert error(state["memory"]["b"][0, head], hb) < BAR


def test_ttt_mlp_by_autograd():
    """The same with two layers and a GELU; gradients at the block's start, by torch's autograd."""
    memory = TTT["memory"] | {"kind": "mlp", "hidden": "2*K"}
    rule = rule_from_table(TTT | {"rule": "ttt_mlp", "memory": memory})
    arguments = make_arguments(rule, length=7, heads=1, value_size=3)
    start = initial_memory(rule, heads=1, value_size=3)
    y, _ = reference.run(rule, **arguments, initial_memory=start)
    rows = rows_of(arguments, 0)

    def f(w, x):
        hidden = functional.gelu(x @ w["W1"] + w["b1"])
        return x + layer_norm(hidden @ w["W2"] + w["b2"]) * rows["norm_gain"] + rows["norm_bias"]

    weights = {name: tensor[0] for name, tensor in start.items()}
    for first in (0, 4):
        sums = {name: torch.zeros_like(w) for name, w in weights.items()}
        for t in range(first, min(first + 4, 7)):
            at = {name: w.detach().requires_grad_() for name, w in weights.items()}
            loss = (f(at, rows["k"][t]) - rows["v"][t]).square().sum() / 2
            gradients = torch.autograd.grad(loss, list(at.values()))
            for name, g in zip(at, gradients, strict=True):
                sums[name] = sums[name] + rows["lr"][t] * g
            row = rows["row_scale"][t - first]
            now = {name: w - row * sums[name] for name, w in weights.items()}
            assert error(y[0, t, 0], f(now, rows["q"][t])) < BAR
        weights = now

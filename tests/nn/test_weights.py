"""Layers of rules with many weights: what is learned, what is drawn once, states and training."""

from __future__ import annotations

import math

import pytest
import torch

from atlasgen.nn import MemoryLayer
from atlasgen.spec import rule_from_table

DEEP = ("atlas", "omeganet", "titans", "ttt_linear", "ttt_mlp", "dla")


@pytest.mark.parametrize("name", DEEP)
def test_every_parameter_learns_and_pieces_equal_the_whole(name):
    layer = MemoryLayer(name, 32, num_heads=2, key_size=8, value_size=8, backend="torch")
    x = torch.randn(2, 70, 32)
    whole, _ = layer(x, output_state=True)
    first, state = layer(x[:, :33], output_state=True)
    second, _ = layer(x[:, 33:], state, output_state=True)
    torch.testing.assert_close(torch.cat([first, second], 1), whole, rtol=1e-4, atol=1e-5)
    whole.square().sum().backward()
    unmoved = [n for n, p in layer.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert unmoved == []
    weights = [n for n, _ in layer.named_parameters() if n.startswith("initial_memory.")]
    assert len(weights) == len(layer.operator.rule.memory.weight_names)


def test_learned_constants_start_at_their_defaults():
    layer = MemoryLayer("omeganet", 32, num_heads=2, backend="torch")
    found = layer.constants()["coefficients"]
    expected = torch.tensor([1 / math.factorial(degree) for degree in range(found.shape[1])])
    torch.testing.assert_close(found, expected.expand_as(found))
    ttt = MemoryLayer("ttt_linear", 32, num_heads=2, backend="torch").constants()
    torch.testing.assert_close(ttt["row_scale"][0], 1 / torch.arange(1.0, 17.0))
    assert torch.equal(ttt["norm_gain"], torch.ones(2, 16)) and not ttt["norm_bias"].any()


def test_a_drawn_memory_is_a_buffer_in_the_state_dict():
    memory = {"kind": "mlp", "depth": 2, "hidden": "2*K", "initial": "normal"}
    rule = rule_from_table({"rule": "drawn", "memory": memory, "block": 16, "optimizer": {"lr": "token"}})
    layer = MemoryLayer(rule, 16, num_heads=2, backend="torch")
    assert not any(name.startswith("initial_memory") for name, _ in layer.named_parameters())
    drawn = layer.state_dict()["initial_memory.W1"]
    assert drawn.shape == (2, 8, 16) and 0.5 < float(drawn.std()) * 8**0.5 < 1.5
    other = MemoryLayer(rule, 16, num_heads=2, backend="torch")
    other.load_state_dict(layer.state_dict())
    x = torch.randn(1, 20, 16)
    torch.testing.assert_close(other(x), layer(x))


@pytest.mark.parametrize("rate", [3e-4, 3e-3])
@pytest.mark.parametrize("name", ["atlas", "titans", "omeganet"])
def test_training_steps_stay_finite(name, rate):
    layer = MemoryLayer(name, 16, num_heads=2, backend="torch")
    optimizer = torch.optim.AdamW(layer.parameters(), lr=rate)
    x, wanted = torch.randn(2, 65, 16), torch.randn(2, 65, 16)
    losses = []
    for _ in range(12):
        optimizer.zero_grad()
        loss = (layer(x) - wanted).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert all(math.isfinite(loss) for loss in losses) and losses[-1] < losses[0]

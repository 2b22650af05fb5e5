"""Layers of rules with many weights: what is learned, what is drawn once, states and training."""

from __future__ import annotations

import math

import pytest
import torch

from atlasgen import ArgumentError
from atlasgen.nn import MemoryLayer
from atlasgen.spec import rule_from_table
from tests.runtime.wide_rules import WIDE

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


@pytest.mark.parametrize("name", WIDE)
def test_layers_of_every_kind_of_memory(name):
    """Splits, one token at a time, packing and training of rules whose specs say nothing of their layer."""
    layer = MemoryLayer(WIDE[name], 16, num_heads=2, backend="torch")
    x = torch.randn(2, 11, 16)
    whole = layer(x)
    state, steps = None, []
    with torch.no_grad():
        for token in x.split(1, dim=1):
            step, state = layer(token, state, output_state=True)
            steps.append(step)
    torch.testing.assert_close(torch.cat(steps, 1), whole, rtol=1e-4, atol=1e-5)
    packed = layer(x.reshape(1, 22, 16), cu_seqlens=torch.tensor([0, 11, 22]))
    torch.testing.assert_close(packed.reshape(2, 11, 16), whole, rtol=1e-4, atol=1e-5)
    whole.square().sum().backward()
    unmoved = [n for n, p in layer.named_parameters() if p.grad is None or not torch.isfinite(p.grad).all()]
    assert unmoved == []


@pytest.mark.parametrize("name", WIDE)
def test_default_gates_of_every_kind_of_memory_train(name):
    layer = MemoryLayer(WIDE[name], 16, num_heads=2, backend="torch")
    optimizer = torch.optim.AdamW(layer.parameters(), lr=1e-2)
    x, wanted = torch.randn(4, 40, 16), torch.randn(4, 40, 16)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = (layer(x) - wanted).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert all(math.isfinite(loss) for loss in losses) and losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize("name", [*DEEP, "atlas_pp", "atlas_chunk", "lact", "ttt_linear_fla", "titans_gd"])
def test_a_memory_neither_grows_nor_fades_over_many_tokens(name):
    """Noise, longer than any block, at the gates' starting values: weights keep about their size."""
    layer = MemoryLayer(name, 32, num_heads=2, backend="torch")
    with torch.no_grad():
        _, state = layer(torch.randn(1, 2100, 32), output_state=True)
    for weight, parameter in layer.initial_memory().items():
        start = parameter.detach()
        if start.dim() == 3 and start.any():
            ratio = float(state.memory.memory[weight].norm() / start.norm())
            assert 0.2 < ratio < 5, (weight, ratio)


@pytest.mark.parametrize("name", ["ttt_linear", "omeganet", "atlas_pp"])
def test_a_layer_compiles_without_breaks(name):
    layer = MemoryLayer(name, 16, num_heads=2, backend="torch")
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend="aot_eager")
    for tokens in (19, 23):
        x = torch.randn(2, tokens, 16)
        torch.testing.assert_close(compiled(x), layer(x), rtol=1e-4, atol=1e-5)


def test_weights_with_names_that_modules_have_themselves():
    graph = {"kind": "graph", "f": "half @ tanh(forward @ x)", "initial": "learned"}
    graph["weights"] = {"half": ["V", "2*K"], "forward": ["2*K", "F"]}
    rule = rule_from_table({"rule": "named", "memory": graph, "block": 8, "optimizer": {"lr": "token"}})
    layer = MemoryLayer(rule, 16, num_heads=2, backend="torch")
    assert set(layer.initial_memory()) == {"half", "forward"}
    layer.half()
    layer.float()(torch.randn(1, 5, 16)).sum().backward()


def test_memories_and_constants_stay_float32_when_the_layer_is_cast():
    layer = MemoryLayer("ttt_linear", 16, num_heads=2, backend="torch").to(torch.bfloat16)
    assert layer.projection.weight.dtype == torch.bfloat16
    kept = [*layer.initial_memory.parameters(), *layer.constants.parameters()]
    assert len(kept) == 5 and all(parameter.dtype == torch.float32 for parameter in kept)
    y = layer(torch.randn(1, 20, 16, dtype=torch.bfloat16))
    assert y.dtype == torch.bfloat16 and torch.isfinite(y).all()


def test_a_matrix_starts_at_zero_unless_a_norm_divides_by_what_it_gives():
    def first(**memory):
        table = {"rule": "one", "memory": {"initial": "learned", **memory}, "optimizer": {"lr": "token"}}
        return MemoryLayer(rule_from_table(table), 16, num_heads=2, backend="torch").initial_memory()["M"]

    assert not first().any() and not first(bias=True).any()
    assert 0.5 < float(first(norm="layer").std()) * 8**0.5 < 1.5
    assert first(initial="normal").any()


def test_row_factors_and_coefficients_stay_positive():
    layer = MemoryLayer("ttt_linear", 16, num_heads=2, backend="torch")
    with torch.no_grad():
        for parameter in layer.constants.parameters():
            parameter.sub_(3.0)
    assert (layer.constants()["row_scale"] > 0).all()
    layer.constants.reset_parameters()
    torch.testing.assert_close(layer.constants()["row_scale"][0], 1 / torch.arange(1.0, 17.0))


def test_a_gate_of_one_weight_is_made_like_that_of_all():
    def gates(**layer):
        table = {
            "rule": "own",
            "memory": {"kind": "mlp", "initial": "learned"},
            "block": 8,
            "optimizer": {"lr": "token"},
            "weights": {"W1": {"lr": "token"}},
            "layer": {"gates": layer},
        }
        made = MemoryLayer(rule_from_table(table), 16, num_heads=2, backend="torch").gates
        return {name: float(gate(torch.zeros(1, 1, 16)).mean().detach()) for name, gate in made.items()}

    both = gates(lr={"activation": "sigmoid", "init": 0.01, "max": 0.02})
    assert both == pytest.approx({"lr": 0.01, "lr_W1": 0.01})
    own = gates(lr={"init": 0.01, "max": 0.02}, lr_W1={"init": 0.03, "max": 0.05})
    assert own == pytest.approx({"lr": 0.01, "lr_W1": 0.03})
    default = gates()
    assert default["lr"] == default["lr_W1"] and 0.001 < default["lr"] < 1 / 8


def test_values_of_another_size_than_keys_are_refused_when_the_layer_is_made():
    with pytest.raises(ArgumentError, match=r"value_size.*titans adds keys to values.*key_size, 8"):
        MemoryLayer("titans", 32, num_heads=2, key_size=8, value_size=16)


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

"""Layers of rules whose loss terms have keys, values and steps of their own."""

from __future__ import annotations

import pytest
import torch

from atlasgen.nn import MemoryLayer
from atlasgen.spec import load_rule, rule_from_table
from atlasgen.spec.rule import MemoryRule
from tests.rules.compare import error

TABLES = {
    "other_key": {
        "loss": {"kind": "l2", "key": "p", "write": "k"},
        "retention": {"kind": "token", "order": "decay_first"}, "optimizer": {"lr": "token"},
        "inputs": {"p": "key"},
    },
    "erase_and_write": {
        "loss": [{"kind": "l2", "key": "kk", "target": "0", "lr": "a"}, {"kind": "dot", "target": "w"}],
        "retention": "token",
        "inputs": {"kk": "key", "a": {"shape": "key", "range": "unit"}, "w": "value"},
    },
    "in_blocks": {
        "loss": {"kind": "l2", "key": "p", "target": "w"}, "block": 4, "window": {"length": 3},
        "optimizer": {"lr": "token"}, "inputs": {"p": "key", "w": "value"},
    },
    "several_steps": {
        "loss": {"kind": "l2", "key": "p", "target": "w", "write": "k"},
        "optimizer": {"lr": "token", "micro_steps": 3}, "inputs": {"p": "key", "w": "value"},
    },
}  # fmt: skip
RULES = {name: rule_from_table({"rule": name, **table}) for name, table in TABLES.items()}


def _layer(rule: MemoryRule, **options) -> MemoryLayer:
    torch.manual_seed(0)
    sizes = {"key_size": 6, "value_size": 5, **options}
    return MemoryLayer(rule, 24, 2, backend="torch", **sizes)


@pytest.mark.parametrize("name", RULES)
def test_pieces_give_what_the_whole_gives(name):
    layer, x = _layer(RULES[name]), torch.randn(2, 11, 24)
    whole = layer(x)
    first, state = layer(x[:, :4], output_state=True)
    second, _ = layer(x[:, 4:], state, output_state=True)
    assert error(torch.cat([first, second], 1).detach(), whole.detach())[0] < 1e-5


@pytest.mark.parametrize("name", RULES)
def test_every_parameter_learns(name):
    layer = _layer(RULES[name])
    layer(torch.randn(2, 9, 24)).square().sum().backward()
    for parameter_name, parameter in layer.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, parameter_name


@pytest.mark.parametrize("name", RULES)
def test_padding_changes_nothing(name):
    layer, x = _layer(RULES[name]), torch.randn(1, 8, 24)
    mask = torch.tensor([[0, 1, 1, 1, 0, 1, 1, 0]])
    packed = layer(x[:, mask[0].bool()])
    assert error(layer(x, mask=mask)[:, mask[0].bool()].detach(), packed.detach())[0] < 1e-5


@pytest.mark.parametrize(("norm", "length"), [("l2", 1.0), ("rms", 6**0.5)])
def test_own_keys_are_normalised_as_k_is(norm, length, monkeypatch):
    layer = _layer(RULES["other_key"], qk_norm=norm)
    seen = _seen(layer, monkeypatch)
    for name in ("k", "p"):
        lengths = seen[name].norm(dim=-1)
        assert torch.allclose(lengths, torch.full_like(lengths, length), rtol=1e-3), name


def _seen(layer: MemoryLayer, monkeypatch: pytest.MonkeyPatch) -> dict[str, torch.Tensor]:
    """What the layer gives its operator for one random sequence."""
    seen = {}

    def recorded(q, k, v, **arguments):
        seen.update(q=q, k=k, v=v, **arguments)
        return torch.zeros(*v.shape[:2], *v.shape[-2:]), None

    monkeypatch.setattr(layer, "operator", recorded)
    layer(torch.randn(2, 7, 24))
    return seen


@pytest.mark.parametrize("heads", [1, 3])
def test_a_layer_makes_a_row_of_each_micro_step(heads, monkeypatch):
    """Keys of length 1, values and steps from weights of their own; a gate's start is that of all steps."""
    layer = MemoryLayer(load_rule("deltaproduct"), 24, 3, num_key_heads=heads, key_size=6, value_size=5)
    torch.nn.init.zeros_(layer.gates["lr"].up)
    seen = _seen(layer, monkeypatch)
    assert seen["q"].shape == (2, 7, heads, 6) and seen["log_alpha"].shape == (2, 7, 3)
    assert seen["k"].shape == (2, 7, 2, heads, 6) and seen["v"].shape == (2, 7, 2, 3, 5)
    assert torch.allclose(seen["lr"], torch.ones(2, 7, 2, 3))
    lengths = seen["k"].norm(dim=-1)
    assert torch.allclose(lengths, torch.ones_like(lengths), rtol=1e-3)
    assert not torch.allclose(seen["k"][:, :, 0], seen["k"][:, :, 1])
    assert not torch.allclose(seen["v"][:, :, 0], seen["v"][:, :, 1])


@pytest.mark.parametrize("steps", [1, 2])
def test_a_gate_of_the_layer_scales_k_or_v(steps, monkeypatch):
    """Comba's p = b k, Gated DeltaNet-2's b * k and w * v: the spec names the gate. Key heads are shared."""
    gates = {"p": {"activation": "sigmoid", "init": 0.75}, "w": {"activation": "softplus", "init": 2.0}}
    table = TABLES["in_blocks" if steps == 1 else "several_steps"] | {"layer": {"gates": gates}}
    layer = _layer(rule_from_table({"rule": "some", **table}), num_key_heads=1)
    torch.nn.init.zeros_(layer.gates["p"].up)
    torch.nn.init.zeros_(layer.gates["w"].up)
    seen = _seen(layer, monkeypatch)
    assert torch.allclose(seen["p"], 0.75 * seen["k"].expand(seen["p"].shape))
    assert torch.allclose(seen["w"], 2.0 * seen["v"])


def test_an_input_with_a_range_is_a_gate():
    """A key that must lie in (0, 1) comes out of a sigmoid, not out of the keys' projection."""
    table = TABLES["other_key"] | {"inputs": {"p": {"shape": "key", "range": "unit"}}}
    layer = _layer(rule_from_table({"rule": "some", **table}))
    p = layer.gates["p"](torch.randn(2, 7, 24))
    assert p.shape == (2, 7, 2, 6) and p.min() > 0 and p.max() < 1

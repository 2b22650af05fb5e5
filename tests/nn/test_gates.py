"""Gates start where the spec says, or inside safe ranges; their arithmetic is float32."""

import dataclasses
import math

import pytest
import torch

from atlasgen import ArgumentError, SpecError
from atlasgen.nn import MemoryLayer
from atlasgen.nn.defaults import horizons, largest_key_energy, largest_step
from atlasgen.nn.gates import Gate
from atlasgen.spec.rule import Block, Features, Layer, LayerGate, LossTerm, MemoryRule, Window
from tests.nn.support import OWN, layer_of


def starts(layer: MemoryLayer) -> dict[str, torch.Tensor]:
    """Every gate at projection 0, without logs, [H, ...]."""
    found = {}
    for name, gate in layer.gates.items():
        assert isinstance(gate, Gate)
        value = gate(torch.zeros(1, 1, layer.hidden_size))
        value = value.exp() if gate.in_log else value
        found[name] = (value[0, 0] if value.dim() > len(gate.shape) else value).detach()
    return found


@pytest.mark.parametrize("name", ["omeganet_linear", "titans_linear", "logcosh_omega", "simple_gla"])
def test_gates_start_as_the_spec_says(name: str) -> None:
    layer = layer_of(name)
    found = starts(layer)
    assert found, "the rule has gates"
    for entry in layer.rule.layer.gates:
        value = found["log_alpha" if entry.name == "alpha" else entry.name.replace("theta", "log_theta")]
        torch.testing.assert_close(value, torch.full_like(value, entry.init), rtol=2e-6, atol=0)


def test_defaults_are_safe() -> None:
    found = starts(layer_of("plain_omega", hidden=64, heads=4))
    lasting = -1 / found["log_alpha"].log()
    assert 10 <= float(lasting.min()) < 50 and 500 < float(lasting.max()) <= 1000
    assert float((1 / (1 - found["log_theta"])).max()) <= 10
    assert ((found["gamma"] >= 0.5) & (found["gamma"] <= 1)).all()
    # lr c b / (1 - theta) of a repeated unit key, with the window of 4 and the blocks of 16.
    full = found["lr"] * found["gamma"] * 4 * 16 / (1 - found["log_theta"])
    assert (full > 0.05).all() and (full < 1).all()


def test_the_largest_step_follows_the_rule() -> None:
    rule = MemoryRule("own", window=Window(4), block=Block(16))
    assert largest_step(rule, 1.0) == pytest.approx(1 / 64)
    mean = dataclasses.replace(rule, window=Window(4, normalise="mean"))
    assert largest_step(mean, 1.0) == pytest.approx(1 / 16)
    assert largest_step(rule, 8.0) == pytest.approx(1 / 512)
    assert largest_step(OWN["plain_omega"], 1.0) == pytest.approx(0.1 / 64)
    assert largest_step(MemoryRule("dot", loss=(LossTerm("dot"),), block=Block(16)), 1.0) == 1.0


@pytest.mark.parametrize("kind", ["identity", "relu", "silu", "elu1", "l2norm", "softmax", "expr"])
@pytest.mark.parametrize("norm", ["l2", "rms"])
def test_the_key_energy_bounds_the_features(kind: str, norm: str) -> None:
    size = 16
    expression = "x**2 + 0.5*x" if kind == "expr" else None
    rule = MemoryRule("own", features=Features(kind, expression=expression))  # type: ignore[arg-type]
    energy = largest_key_energy(rule, norm, size)
    functions = {
        "identity": lambda x: x,
        "relu": torch.relu,
        "silu": torch.nn.functional.silu,
        "elu1": lambda x: torch.nn.functional.elu(x) + 1,
        "l2norm": lambda x: torch.nn.functional.normalize(x, dim=-1),
        "softmax": lambda x: x.softmax(-1),
        "expr": lambda x: x**2 + 0.5 * x,
    }
    keys = torch.nn.functional.normalize(torch.randn(2000, size), dim=-1)
    keys = torch.cat([keys, torch.eye(size), -torch.eye(size), torch.ones(1, size) / math.sqrt(size)])
    keys = keys * (1 if norm == "l2" else math.sqrt(size))
    largest = float(functions[kind](keys).square().sum(-1).max())
    assert largest <= energy * 1.0001
    assert energy <= 3 * largest


def test_horizons_reach_the_longest() -> None:
    assert horizons(1) == [pytest.approx(1000)]
    assert horizons(2) == [pytest.approx(100), pytest.approx(1000)]


def test_casting_leaves_the_gates_alone() -> None:
    layer = layer_of("every_gate").to(torch.bfloat16)
    assert layer.projection.weight.dtype == torch.bfloat16
    assert layer.gates["log_alpha"].down.weight.dtype == torch.bfloat16
    for gate in layer.gates.values():
        own = dict(gate.named_parameters(recurse=False))
        assert own and all(parameter.dtype == torch.float32 for parameter in own.values())
        assert gate(torch.randn(1, 3, 16, dtype=torch.bfloat16)).dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        for gate in layer_of("every_gate").gates.values():
            assert gate(torch.randn(1, 3, 16)).dtype == torch.float32
    expected = starts(layer_of("omeganet_linear"))["log_alpha"]
    cast = layer_of("omeganet_linear").bfloat16()
    value = cast.gates["log_alpha"](torch.zeros(1, 1, 16, dtype=torch.bfloat16))[0, 0].exp()
    assert torch.equal(value, expected), "0.996 would be 0.9961 after rounding to bfloat16"


def test_a_parameter_cast_is_still_the_same_object() -> None:
    layer = layer_of("every_gate")
    before = {name: parameter for name, parameter in layer.named_parameters()}
    layer.to(torch.float32).bfloat16().float()
    assert all(before[name] is parameter for name, parameter in layer.named_parameters())


@pytest.mark.parametrize(
    "entry",
    [LayerGate("alpha", "softplus"), LayerGate("alpha", "identity"), LayerGate("alpha", max=2.0)],
)
def test_a_factor_that_could_exceed_one_is_refused(entry: LayerGate) -> None:
    rule = dataclasses.replace(OWN["plain_omega"], layer=Layer(gates=(entry,)))
    with pytest.raises(SpecError, match=r"layer\.gates\.alpha"):
        MemoryLayer(rule, 16, 2)


@pytest.mark.parametrize(
    "entry, value",
    [
        (LayerGate("lr", "softplus", init=0.3), 0.3),
        (LayerGate("lr", "softplus", init=0.3, max=0.01), 0.3),
        (LayerGate("lr", "identity", init=0.2), 0.2),
        (LayerGate("lr", "sigmoid", max=0.4, bias=False), 0.2),
        (LayerGate("lr", "sigmoid", max=0.4), 0.2),
        (LayerGate("lr", "softplus", bias=False), math.log(2)),
    ],
)
def test_activations_bias_and_maximum(entry: LayerGate, value: float) -> None:
    rule = dataclasses.replace(OWN["plain_omega"], layer=Layer(gates=(entry,)))
    found = starts(MemoryLayer(rule, 16, 2))["lr"]
    torch.testing.assert_close(found, torch.full((2,), value), rtol=2e-6, atol=0)


def test_the_rank_is_the_specs() -> None:
    rule = dataclasses.replace(OWN["plain_omega"], layer=Layer(gates=(LayerGate("lr", rank=3),)))
    layer = MemoryLayer(rule, 64, 2)
    assert layer.gates["lr"].down.weight.shape == (3, 64)
    assert layer.gates["gamma"].down.weight.shape == (16, 64)


def test_inputs_may_have_any_name() -> None:
    rule = OWN["every_gate"]
    entry = dataclasses.replace(rule.inputs[0], name="pop")
    loss = (dataclasses.replace(rule.loss[0], delta="pop"),)
    layer = MemoryLayer(dataclasses.replace(rule, inputs=(entry,), loss=loss), 16, 2, backend="torch")
    layer(torch.randn(1, 4, 16)).sum().backward()


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(ArgumentError, match="backend"):
        MemoryLayer("simple_gla", 16, 2, backend="none")

"""What a rule says about itself: its weights and their gates, its sizes, what its gradient depends on."""

from typing import Any

import pytest

from atlasgen.errors import ArgumentError
from atlasgen.spec import MemoryRule, SpecError, gate_arguments, load_rule, rule_from_table, shipped_specs
from atlasgen.spec.rule import Gate
from atlasgen.spec.sizes import check_sizes, feature_size, weight_shapes

GATED = {
    "kind": "graph",
    "f": "W1 @ (silu(W0 @ x) * (W2 @ x))",
    "weights": {"W0": ["2*K", "F"], "W1": ["V", "2*K"], "W2": ["2*K", "F"]},
    "initial": "learned",
}


def rule(**table: Any) -> MemoryRule:
    return rule_from_table(table)


def graph(f: str, **weights: list[str]) -> dict[str, Any]:
    return {"kind": "graph", "f": f, "weights": weights, "initial": "learned"}


@pytest.mark.parametrize(
    ("memory", "depends"),
    [
        ("matrix", False),
        ({"kind": "matrix", "bias": True, "residual": "x"}, False),
        ({"kind": "matrix", "norm": "layer"}, True),
        ({"kind": "matrix", "link": "softmax"}, True),
        ({"kind": "mlp", "depth": 1, "initial": "zero"}, False),
        ({"kind": "mlp", "depth": 2, "initial": "learned"}, True),
        ({"kind": "gated_mlp", "initial": "learned"}, True),
        (graph("A @ x + B @ gelu(x) - x", A=["V", "F"], B=["V", "F"]), False),
        (graph("tanh(A @ x)", A=["V", "F"]), True),
        (graph("layer_norm(A @ x)", A=["V", "F"]), True),
        (graph("A @ (B @ x)", A=["V", "K"], B=["K", "F"]), True),
        (graph("(A @ x) * (B @ x)", A=["V", "F"], B=["V", "F"]), True),
    ],
)
def test_a_dot_loss_depends_on_the_memory_where_the_memory_is_not_linear(memory: Any, depends: bool) -> None:
    assert rule(memory=memory, loss="dot").depends_on_memory is depends
    assert rule(memory=memory, loss="l2").depends_on_memory
    assert rule(memory=memory, loss=[{"kind": "dot"}, {"kind": "l2"}]).depends_on_memory


def test_a_rule_is_held_where_the_memory_waits_for_its_block() -> None:
    assert not rule(block=8).held and not rule(block=8, read="block").held
    assert rule(block={"size": 8, "write": "block"}).held
    assert rule(block={"size": 8, "row_scale": "token"}).held


def test_weights_with_gates_of_their_own_have_arguments_of_their_own() -> None:
    momentum = {"kind": "momentum", "theta": 0.5, "lr": "token"}
    found = rule(
        memory=GATED,
        optimizer=momentum,
        retention="token",
        window={"length": 4, "gate": "pair"},
        weights={
            "W0": {"lr": "head", "theta": "token"},
            "W2": {"retention": {"kind": "constant", "value": 0.9}, "lr": 0.1},
        },
        block={"row_scale": "none"},
    )
    assert list(found.gates) == [
        "lr", "lr_W0", "lr_W2", "log_alpha", "log_alpha_W2", "log_theta", "log_theta_W0", "gamma",
    ]  # fmt: skip
    assert found.gates_of("W0") == {
        "lr": ("lr_W0", Gate("head")),
        "log_alpha": ("log_alpha", Gate("token")),
        "log_theta": ("log_theta_W0", Gate("token")),
    }
    assert found.gates_of("W1")["lr"] == ("lr", Gate("token"))
    assert gate_arguments(found) == ["lr", "lr_W0", "alpha", "theta_W0", "gamma"]


def test_a_gate_that_no_weight_uses_is_no_argument() -> None:
    every = {name: {"lr": "token"} for name in ("W0", "W1", "W2")}
    found = rule(memory=GATED, optimizer={"lr": "token"}, weights=every)
    assert gate_arguments(found) == ["lr_W0", "lr_W1", "lr_W2"]


def test_a_row_factor_per_token_is_a_gate_of_the_layer() -> None:
    assert gate_arguments(rule(block={"size": 4, "row_scale": "token"})) == ["row_scale"]
    assert gate_arguments(rule(block={"size": 4, "row_scale": "position"})) == []


def test_transforms_of_single_weights() -> None:
    muon = {"transform": [{"kind": "newton_schulz"}]}
    found = rule(memory={"bias": True}, optimizer=muon, weights={"b": {"transform": []}})
    assert found.transform_of("b") == () and len(found.transform_of("M")) == 1


@pytest.mark.parametrize(
    ("memory", "read", "norm"),
    [("none", None, "none"), ("rms", None, "rms"), ("rms", "z + norm(z)", "rms"),
     ("none", "z + norm(z)", "layer"), ("none", "z + q", "none")],
)  # fmt: skip
def test_the_norm_that_has_gains(memory: str, read: str | None, norm: str) -> None:
    found = rule(memory={"norm": memory}, read={} if read is None else {"f": read})
    assert found.norm == norm


@pytest.mark.parametrize(
    ("features", "size"),
    [
        ({"kind": "relu"}, 64),
        ({"kind": "poly", "basis": "powers"}, 64),
        ({"kind": "poly", "degree": 2}, 2145),
        ({"kind": "poly", "degree": 3}, 47905),
        ({"kind": "poly", "degree": 2, "coefficients": [0, 0, 1]}, 2080),
        ({"kind": "poly", "degree": 2, "basis": "kronecker", "coefficients": [1, 0, 1]}, 4097),
        ({"kind": "poly", "degree": 2, "basis": "projected", "out_dim": 100}, 100),
    ],
)
def test_feature_sizes(features: dict[str, Any], size: int) -> None:
    assert feature_size(rule(features=features).features, 64) == size


def test_shapes_of_weights() -> None:
    sizes = {"K": 4, "V": 5, "F": 6}
    memory = rule(memory=GATED).memory
    assert weight_shapes(memory, sizes) == {"W0": (6, 8), "W1": (8, 5), "W2": (6, 8)}
    memory = rule(memory={"kind": "mlp", "depth": 3, "hidden": 7, "bias": True, "initial": "given"}).memory
    shapes = weight_shapes(memory, sizes)
    assert shapes == {"W1": (6, 7), "W2": (7, 7), "W3": (7, 5), "b1": (7,), "b2": (7,), "b3": (5,)}
    assert tuple(shapes) == memory.weight_names


@pytest.mark.parametrize(
    ("table", "field"),
    [
        ({"memory": {"residual": "x"}}, "memory.residual"),
        ({"memory": {"residual": "key"}, "features": "poly"}, "memory.residual"),
        ({"loss": {"target": "v - k"}}, "loss.target"),
        ({"read": {"f": "q + z"}}, "read.f"),
        ({"memory": graph("x + A @ x", A=["V", "F"])}, "memory.f"),
    ],
)
def test_keys_and_values_that_are_added_have_one_size(table: dict[str, Any], field: str) -> None:
    found = rule(**table)
    check_sizes(found, {"K": 4, "V": 4, "F": feature_size(found.features, 4)})
    with pytest.raises(ArgumentError, match=field) as caught:
        check_sizes(found, {"K": 4, "V": 1, "F": feature_size(found.features, 4)})
    assert caught.value.argument == "v"


def test_exponential_features_have_no_size() -> None:
    with pytest.raises(SpecError, match="infinitely many"):
        feature_size(rule(features="exp").features, 4)


def test_eps_counts_only_beside_a_step() -> None:
    step = {"step": "lr / (eps + kk)", "eps": 1e-3}
    small, large = rule(optimizer=step), rule(optimizer={**step, "eps": 1e-2})
    assert small.optimizer.eps == 1e-3 and small.hash != large.hash
    assert "eps" not in rule().canonical()["optimizer"]


@pytest.mark.parametrize("name", shipped_specs())
def test_gates_of_shipped_rules(name: str) -> None:
    found = load_rule(name)
    assert found.held == (found.block.write == "block" or found.block.row_scale != "none")
    assert {"log_alpha", "log_theta", "gamma"} <= set(found.gates)
    rates = {f"lr_{entry.name}" for entry in found.weights if entry.lr is not None} or {"lr"}
    assert rates <= set(found.gates)

"""The estimated gain of a memory against the true one, and the steps that follow from it."""

from __future__ import annotations

import functools
import math

import pytest
import torch

from atlasgen.reference import run
from atlasgen.reference.expressions import normed
from atlasgen.reference.memories import read_memory
from atlasgen.spec import rule_from_table
from atlasgen.spec.rule import Memory
from atlasgen.spec.sizes import weight_shapes
from atlasgen.verify.gain import memory_gain
from atlasgen.verify.stability import feature_norm, first_coefficients, step_bound

MEMORIES = {
    "matrix": {"kind": "matrix"},
    "normed matrix": {"kind": "matrix", "bias": True, "norm": "layer"},
    "one layer": {"kind": "mlp", "depth": 1},
    "two layers": {"kind": "mlp", "depth": 2},
    "four layers": {"kind": "mlp", "depth": 4, "act": "silu"},
    "normed layers": {"kind": "mlp", "depth": 2, "norm": "rms"},
    "exponential": {"kind": "mlp", "act": "exp", "hidden": "2*K"},
    "gated": {"kind": "gated_mlp"},
    "swiglu": {"kind": "swiglu", "hidden": "K/2"},
    "graph": {
        "kind": "graph",
        "f": "0.5 * x - B @ sin(A @ x) / 2",
        "weights": (("A", ("3*K", "F")), ("B", ("V", "3*K"))),
    },
}


def true_gain(memory: Memory, sizes: dict[str, int], length: float, seed: int) -> float:
    """The largest eigenvalue of J J^T for drawn weights and features."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    weights = {
        name: normal(1, 1, *shape) / math.sqrt(shape[0]) if len(shape) == 2 else 0 * normal(1, 1, *shape)
        for name, shape in weight_shapes(memory, sizes).items()
    }
    x = normal(1, 1, 1, sizes["F"])
    x = x * math.sqrt(length) / x.norm()

    norm = functools.partial(normed, memory.norm)

    def read(*values: torch.Tensor) -> torch.Tensor:
        return read_memory(memory, dict(zip(weights, values)), x, x, norm).flatten()

    parts = torch.func.jacrev(read, argnums=tuple(range(len(weights))))(*weights.values())
    jacobian = torch.cat([part.reshape(sizes["V"], -1) for part in parts], 1)
    return float(torch.linalg.eigvalsh(jacobian @ jacobian.T).max())


@pytest.mark.parametrize("name", MEMORIES)
@pytest.mark.parametrize(("key", "length"), [(16, 1.0), (32, 4.0)])
def test_the_estimate_is_near_the_true_gain(name: str, key: int, length: float) -> None:
    memory = Memory(**MEMORIES[name], initial="learned")  # type: ignore[arg-type]
    sizes = {"K": key, "F": key, "V": key}
    found = memory_gain(memory, sizes, length)
    true = [true_gain(memory, sizes, length, seed) for seed in range(3)]
    # Every layer is taken to pass on what its largest singular value does: too much, in a row of them.
    assert max(true) / 3 <= found <= 6 * min(true), (found, true)


def test_the_gain_of_a_matrix_is_the_length_of_its_features() -> None:
    assert memory_gain(Memory(), {"K": 8, "F": 8, "V": 5}, 2.5) == pytest.approx(2.5)
    assert memory_gain(Memory(bias=True), {"K": 8, "F": 8, "V": 5}, 2.5) == pytest.approx(3.5)


@pytest.mark.parametrize(
    "memory",
    [
        {"kind": "mlp", "depth": 2, "hidden": "4*K"},
        {"kind": "mlp", "depth": 3, "hidden": "2*K"},
        {"kind": "mlp", "depth": 2, "hidden": "2*K", "norm": "layer"},
    ],
    ids=lambda memory: f"{memory['depth']} layers, norm {memory.get('norm', 'none')}",
)
def test_a_deep_memory_learns_a_key_inside_the_bound_and_swings_beyond(memory: dict) -> None:
    table = {
        "memory": {**memory, "initial": "given"},
        "loss": "l2",
        "block": 8,
        "optimizer": {"lr": "head"},
    }
    rule, key = rule_from_table(table), 8
    bound = step_bound(rule, key)
    assert bound is not None and bound.features >= 1
    generator = torch.Generator().manual_seed(0)
    sizes = {"K": key, "F": key, "V": key}
    weights = {
        name: torch.randn(1, *shape, generator=generator, dtype=torch.float64) / math.sqrt(shape[0])
        for name, shape in weight_shapes(rule.memory, sizes).items()
    }
    k = torch.nn.functional.one_hot(torch.zeros(1, 256, 1, dtype=torch.int64), key).double()
    v = torch.tensor([1.0, -1.0] * (key // 2), dtype=torch.float64).expand_as(k)

    def errors(rate: float) -> torch.Tensor:
        """The size of the error at every token, against that of the first."""
        lr = torch.tensor([rate], dtype=torch.float64)
        y, _ = run(rule, k, k, v, lr=lr, initial_memory=weights)
        size = (y - v).square().mean(-1)[0, :, 0]
        return size / size[0]

    inside, beyond = errors(bound.smooth), errors(20 * bound.stable)
    assert float(inside.max()) < 1.2 and float(inside[-1]) < 0.1
    assert not float(beyond.max()) < 2.0


def test_no_bound_where_a_map_sets_the_size_or_the_loss_is_linear() -> None:
    deep = {"kind": "mlp", "initial": "learned"}
    muon = {"kind": "momentum", "theta": "token", "transform": [{"kind": "newton_schulz"}]}
    assert step_bound(rule_from_table({"memory": deep, "loss": "l2", "optimizer": muon})) is None
    assert step_bound(rule_from_table({"memory": deep, "loss": "dot"})) is None


def test_one_write_of_many_tokens_counts_them_all_and_a_row_factor_one() -> None:
    def tokens(**block: object) -> int:
        bound = step_bound(rule_from_table({"loss": "l2", "block": block, "optimizer": {"lr": "head"}}), 8)
        assert bound is not None
        return bound.tokens

    assert tokens(size=8) == tokens(size=8, write="block") == tokens(size=8, row_scale="token") == 8
    assert tokens(size=8, row_scale="position") == 1


@pytest.mark.parametrize("basis", ["symmetric", "kronecker", "powers"])
def test_the_length_of_polynomial_features(basis: str) -> None:
    rule = rule_from_table({"features": {"kind": "poly", "degree": 3, "basis": basis}})
    assert first_coefficients(rule.features) == pytest.approx((1, 1, 1 / 2, 1 / 6))
    norm = feature_norm(rule, 16)
    if basis == "powers":
        assert norm == pytest.approx(16 * (1 + 1 / 4 + 1 / 32 + 1 / 384) ** 2)  # all entries 1/4
    else:
        assert norm == pytest.approx(1 + 1 + 1 / 2 + 1 / 6)

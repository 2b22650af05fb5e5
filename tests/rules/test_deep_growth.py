"""Deep memories whose steps are too large: equal to the definition for as long as that stays finite."""

from __future__ import annotations

import pytest
import torch

import atlasgen
from atlasgen.reference.run import run
from atlasgen.spec.load import rule_from_table

LIMIT = 1e4  # what the definition may reach before the two are no longer compared


def deep_rule(depth: int, rate: float):
    memory = {"kind": "mlp", "depth": depth, "hidden": "2*K", "act": "gelu", "initial": "learned"}
    table = {"rule": "deep", "memory": memory, "loss": "l2", "block": 16, "optimizer": {"lr": rate}}
    return rule_from_table(table)


def draw(rule, tokens: int):
    generator = torch.Generator().manual_seed(tokens)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    q, k, v = (normal(1, tokens, 2, 4) / 2 for _ in range(3))
    widths = [4, *[8] * (rule.memory.depth - 1), 4]
    memory = {
        f"W{layer + 1}": normal(2, widths[layer], widths[layer + 1]) / widths[layer] ** 0.5
        for layer in range(rule.memory.depth)
    }
    return q, k, v, memory


@pytest.mark.parametrize("rate", [0.1, 1.0])
@pytest.mark.parametrize("depth", [1, 2, 3, 4])
@pytest.mark.parametrize("tokens", [192, pytest.param(4096, marks=pytest.mark.slow)])
def test_equal_until_the_definition_leaves_its_range(depth, rate, tokens):
    """Reads agree up to the first that passes 1e4 (or up to the end), and none before it is NaN.

    The step error of float32 grows with the memory, so the bar is relative to what the reads have reached,
    and where the definition itself is chaotic its own evaluation in float32 sets it.
    """
    rule = deep_rule(depth, rate)
    q, k, v, memory = draw(rule, tokens)
    expected, _ = run(rule, q, k, v, initial_memory=memory, dtype=torch.float64)
    single, _ = run(rule, q, k, v, initial_memory=memory, dtype=torch.float32)
    memory32 = {name: weight.float() for name, weight in memory.items()}
    operator = atlasgen.compile(rule, "torch")
    found, _ = operator(q.float(), k.float(), v.float(), initial_memory=memory32)
    sizes = expected.abs().amax((0, 2, 3)).nan_to_num(nan=torch.inf)
    beyond = (sizes > LIMIT).nonzero().flatten()
    last = int(beyond[0]) if len(beyond) else tokens
    assert last > 16
    assert torch.isfinite(found[:, :last]).all()
    reached = sizes[:last].cummax(0).values[None, :, None, None]
    errors = ((found[:, :last].double() - expected[:, :last]) / reached).abs().amax((0, 2, 3))
    own = ((single[:, :last].double() - expected[:, :last]) / reached).abs().amax((0, 2, 3))
    allowed = torch.maximum(torch.full_like(own, 3e-5), 8 * own.cummax(0).values)
    assert (errors <= allowed).all(), (float(errors.max()), float(own.max()))

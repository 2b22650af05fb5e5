"""Exact rules agree with the naive references of flash-linear-attention: reads, memory and gradients.

The package (fla-core) is optional: its references are plain torch. Those compute in float32, so the
bar of float32 holds for the difference of the two. RWKV-7 is compared with DPLR, of which it is a case.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import atlasgen
from atlasgen.spec import rule_from_table
from atlasgen.verify.measure import BARS
from tests.rules.compare import error

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("fla") is None,
    reason="flash-linear-attention's references are not installed: pip install fla-core",
)
B, T, H, K, V = 2, 70, 2, 16, 12  # two blocks of rows
STEPS = 3  # micro-steps of a token, where it takes several
FIRST = {"kind": "token", "order": "decay_first"}
CHANNEL = {"kind": "channel", "axis": "key"}
Tensors = dict[str, Tensor]
Result = tuple[Tensor, Tensor]


def naive(module: str, name: str) -> Callable[..., Any]:
    """A reference function of the package."""
    return getattr(importlib.import_module(f"fla.ops.{module}.naive"), name)


def heads_first(*tensors: Tensor) -> list[Tensor]:
    """[B, T, H, ..] -> [B, H, T, ..]."""
    return [tensor.transpose(1, 2) for tensor in tensors]


def delta_rule(x: Tensors) -> Result:
    y, state = naive("delta_rule", "delta_rule_recurrence")(*heads_first(x["q"], x["k"], x["v"], x["lr"]))
    return y.transpose(1, 2), state


def gated_delta_rule(x: Tensors) -> Result:
    call = naive("gated_delta_rule", "naive_recurrent_gated_delta_rule")
    return call(x["q"], x["k"], x["v"], x["lr"], x["log_alpha"], output_final_state=True)


def comba(x: Tensors) -> Result:
    call = naive("comba", "naive_recurrent_comba")
    return call(x["q"], x["k"], x["v"], x["p"], x["lr"], x["log_alpha"], output_final_state=True)


def rwkv7(x: Tensors) -> Result:
    erase = -x["a"] * x["kk"]
    rows = heads_first(x["q"], x["k"], x["v"], x["kk"], erase, x["log_alpha"])
    y, state = naive("generalized_delta_rule.dplr", "dplr_recurrence")(*rows)
    return y.transpose(1, 2), state


def gated_deltanet_2(x: Tensors) -> Result:
    """The rule's key is the product of a gate and k, its target that of a gate and v."""
    gate, target = x["bk"] / x["k"], x["wv"]
    call = naive("gdn2", "naive_recurrent_gdn2")
    ones = torch.ones_like(target)
    return call(x["q"], x["k"], target, x["log_alpha"], gate, ones, output_final_state=True)


def gated_delta_product(x: Tensors) -> Result:
    """Its keys, values and steps are rows of n T tokens."""
    call = naive("gated_delta_product", "naive_recurrent_gated_delta_product")
    k, v, lr = (x[name].flatten(1, 2) for name in ("k", "v", "lr"))
    return call(x["q"], k, v, x["log_alpha"], lr, K**-0.5, output_final_state=True, num_householder=STEPS)


RULES: dict[str, tuple[dict[str, Any], Callable[[Tensors], Result]]] = {
    "deltanet": ({"loss": "l2", "optimizer": {"lr": "token"}}, delta_rule),
    "gated_deltanet": (
        {"loss": "l2", "optimizer": {"lr": "token"}, "retention": FIRST}, gated_delta_rule,
    ),
    "comba": (
        {
            "loss": {"kind": "l2", "key": "p", "write": "k"}, "optimizer": {"lr": "token"},
            "retention": FIRST, "inputs": {"p": "key"},
        },
        comba,
    ),
    "rwkv7": (
        {
            "loss": [{"kind": "l2", "key": "kk", "target": "0", "lr": "a"}, "dot"],
            "retention": CHANNEL, "inputs": {"kk": "key", "a": "key"},
        },
        rwkv7,
    ),
    "gated_deltanet_2": (
        {
            "loss": {"kind": "l2", "key": "bk", "write": "k", "target": "wv"},
            "retention": {**CHANNEL, "order": "decay_first"}, "inputs": {"bk": "key", "wv": "value"},
        },
        gated_deltanet_2,
    ),
    "deltaproduct": (
        {"loss": "l2", "optimizer": {"lr": "token", "micro_steps": STEPS}, "retention": FIRST},
        gated_delta_product,
    ),
}  # fmt: skip


def _arguments(by_channel: bool) -> Tensors:
    """Every tensor that some rule reads: unit keys, steps and gates in (0, 1), decays near 1."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    def keys() -> Tensor:
        return torch.nn.functional.normalize(normal(B, T, H, K), dim=-1)

    k, v = keys(), normal(B, T, H, V)
    channels = [K] if by_channel else []
    return {
        "q": keys(), "k": k, "v": v, "p": keys(), "kk": keys(), "a": normal(B, T, H, K).sigmoid(),
        "lr": normal(B, T, H).sigmoid(), "log_alpha": -0.1 * normal(B, T, H, *channels).sigmoid(),
        "bk": k * normal(B, T, H, K).sigmoid(), "wv": v * normal(B, T, H, V).sigmoid(),
    }  # fmt: skip


def _several_steps() -> Tensors:
    """Keys, values and steps of a token's micro-steps; the steps in (0, 2)."""
    generator = torch.Generator().manual_seed(2)
    shape = (B, T, STEPS, H)
    k = torch.randn(*shape, K, generator=generator)
    return {
        "k": torch.nn.functional.normalize(k, dim=-1),
        "v": torch.randn(*shape, V, generator=generator),
        "lr": 2 * torch.rand(shape, generator=generator),
    }


@pytest.mark.parametrize("name", RULES)
def test_agrees(name):
    table, reference = RULES[name]
    operator = atlasgen.compile(
        rule_from_table({"rule": name, "read": {"scale": "K**-0.5"}, **table}), "torch"
    )
    read = {"q", "k", "v", *(entry.name for entry in operator.signature.tensors)}
    arguments = _arguments(operator.rule.retention.alpha.kind == "channel")
    if operator.rule.optimizer.micro_steps > 1:
        arguments |= _several_steps()
    found, expected = ({key: x.clone().requires_grad_() for key, x in arguments.items()} for _ in range(2))
    y, state = operator(**{key: found[key] for key in read}, output_final_state=True)
    assert state is not None
    wanted, memory = reference(expected)
    generator = torch.Generator().manual_seed(1)
    d_y, d_state = (torch.randn(x.shape, generator=generator) for x in (wanted, memory))
    ((y * d_y).sum() + (state.memory["M"] * d_state).sum()).backward()
    ((wanted * d_y).sum() + (memory * d_state).sum()).backward()
    values, gradients = BARS[torch.float32]
    assert error(y.detach(), wanted.detach())[0] < values
    assert error(state.memory["M"].detach(), memory.detach())[0] < values
    for key in sorted(read & set(expected)):
        if expected[key].grad is None:
            continue
        assert found[key].grad is not None, key
        assert error(found[key].grad, expected[key].grad)[0] < gradients, key

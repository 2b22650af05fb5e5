"""Rules agree with the naive references of flash-linear-attention: reads, memory and gradients.

The package (fla-core) is optional: its references are plain torch. Those compute in float32, so the
bar of float32 holds for the difference of the two. RWKV-7 is compared with DPLR, of which it is a case.
TTT's reference scales the queries, not the read, which its norm makes another rule: it runs unscaled.
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
from atlasgen.runtime.signature import signature_of
from atlasgen.spec import rule_from_table
from atlasgen.spec.rule import MemoryRule
from atlasgen.verify.measure import BARS
from tests.rules.compare import error

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("fla") is None,
    reason="flash-linear-attention's references are not installed: pip install fla-core",
)
B, T, H, K, V = 2, 80, 2, 16, 12  # two blocks of rows, and five whole ones of TTT's 16
STEPS = 3  # micro-steps of a token, where it takes several
FIRST = {"kind": "token", "order": "decay_first"}
CHANNEL = {"kind": "channel", "axis": "key"}
Tensors = dict[str, Tensor]
Result = tuple[Tensor, ...]  # y, then each weight of the final memory where the reference returns it


def naive(module: str, name: str) -> Callable[..., Any]:
    """A reference function of the package."""
    return getattr(importlib.import_module(f"fla.ops.{module}.naive"), name)


def heads_first(*tensors: Tensor) -> list[Tensor]:
    """[B, T, H, ..] -> [B, H, T, ..]."""
    return [tensor.transpose(1, 2) for tensor in tensors]


def retention(x: Tensors) -> Result:
    """Its reference returns no state."""
    return (naive("retention", "naive_retention")(*heads_first(x["q"], x["k"], x["v"])).transpose(1, 2),)


def simple_gla(x: Tensors) -> Result:
    call = naive("simple_gla", "naive_recurrent_simple_gla")
    return call(x["q"], x["k"], x["v"], x["log_alpha"], output_final_state=True)


def gla(x: Tensors) -> Result:
    call = naive("gla", "naive_recurrent_gla")
    return call(x["q"], x["k"], x["v"], x["log_alpha"], output_final_state=True)


def kda(x: Tensors) -> Result:
    call = naive("kda", "naive_recurrent_kda")
    return call(x["q"], x["k"], x["v"], x["log_alpha"], x["lr"], output_final_state=True)


def ttt_linear(x: Tensors) -> Result:
    """It scales its queries in place, so it gets a copy."""
    y, memory, bias = naive("ttt", "chunk_ttt_linear_ref")(
        x["q"].clone(), x["k"], x["v"], x["norm_gain"], x["norm_bias"], x["row_scale"][..., None], scale=1.0,
        initial_state=x["M"], initial_state_bias=x["b"][:, :, None], output_final_state=True,
    )  # fmt: skip
    return y, memory, bias.squeeze(2)


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
    "retnet": ({"extends": "retnet"}, retention),
    "simple_gla": ({"extends": "simple_gla"}, simple_gla),
    "gla": ({"extends": "gla"}, gla),
    "kda": ({"extends": "kda"}, kda),
    "ttt_linear": ({"extends": "ttt_linear_fla", "read": {"scale": 1}}, ttt_linear),
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


def _arguments(rule: MemoryRule) -> Tensors:
    """Every tensor that some rule reads: unit keys, steps and gates in (0, 1), decays near 1."""
    generator = torch.Generator().manual_seed(0)
    value = K if signature_of(rule).joins else V

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    def keys() -> Tensor:
        return torch.nn.functional.normalize(normal(B, T, H, K), dim=-1)

    k, v = keys(), normal(B, T, H, value)
    channels = [K] if rule.retention.alpha.kind == "channel" else []
    return {
        "q": keys(), "k": k, "v": v, "p": keys(), "kk": keys(), "a": normal(B, T, H, K).sigmoid(),
        "lr": normal(B, T, H).sigmoid(), "log_alpha": -0.1 * normal(B, T, H, *channels).sigmoid(),
        "bk": k * normal(B, T, H, K).sigmoid(), "wv": v * normal(B, T, H, value).sigmoid(),
        "row_scale": 0.1 * normal(B, T, H).sigmoid(), "norm_gain": 1 + 0.1 * normal(H, value),
        "norm_bias": 0.1 * normal(H, value), "M": normal(B, H, K, value), "b": normal(B, H, value),
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
    rule = rule_from_table({"read": {"scale": "K**-0.5"}, **table, "rule": name})
    operator = atlasgen.compile(rule, "torch")
    read = {"q", "k", "v", *(entry.name for entry in operator.signature.tensors)}
    start = rule.memory.weight_names if rule.memory.initial == "learned" else ()
    arguments = _arguments(rule)
    if rule.optimizer.micro_steps > 1:
        arguments |= _several_steps()
    found, expected = ({key: x.clone().requires_grad_() for key, x in arguments.items()} for _ in range(2))
    memory = {"initial_memory": {weight: found[weight] for weight in start}} if start else {}
    y, state = operator(**{key: found[key] for key in read}, **memory, output_final_state=True)
    assert state is not None
    wanted = reference(expected)
    values = (y, *(state.memory[weight] for weight in rule.memory.weight_names))[: len(wanted)]
    generator = torch.Generator().manual_seed(1)
    cotangents = [torch.randn(x.shape, generator=generator) for x in wanted]
    bar, gradient_bar = BARS[torch.float32]
    for value, other in zip(values, wanted, strict=True):
        assert error(value.detach(), other.detach())[0] < bar
    torch.autograd.backward(values, cotangents)
    torch.autograd.backward(wanted, cotangents)
    for key in sorted({*read, *start}):
        gradient, other = found[key].grad, expected[key].grad
        assert gradient is not None, key
        if other is None:  # such as v, where the target is another input
            other = torch.zeros_like(gradient)
        assert error(gradient, other)[0] < gradient_bar, key

"""Steps and keys at which the delta rule's solution is hard: repeated keys, large steps, steps by channel.

The order of decay and error, the inverse itself, and steps up to two are in tests/rules/test_exact_rules.py.
"""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from torch.nn import functional

from atlasgen.runtime.signature import signature_of
from atlasgen.schedules.serve import schedule
from atlasgen.spec import load_rule, rule_from_table, shipped_specs
from tests.rules.compare import BACKENDS, Case, Shape, check, compiled, deviations, error, make_case, run_case

each_backend = pytest.mark.parametrize("backend", BACKENDS)
SOLVED = [name for name in shipped_specs() if schedule(load_rule(name)).schedule == "wy"]


def repeated_keys(name: str, T: int, noise: float, dtype: torch.dtype) -> Case:
    """One unit key over and over, up to noise, at every place where the rule reads one; whole steps."""
    rule = load_rule(name)
    case = make_case(rule, Shape(B=1, T=T, H=1, K=16, V=5), seed=7, dtype=dtype)
    generator = torch.Generator().manual_seed(7)
    counts = (1, T * rule.optimizer.micro_steps)
    key, other = (torch.randn(1, n, 1, 16, generator=generator, dtype=torch.float64) for n in counts)
    keys = functional.normalize(key + noise * other, dim=-1).to(dtype).double()
    keys = keys.view(case.arguments["k"].shape)
    read = {"k", *(term.key for term in rule.loss), *(term.write or "k" for term in rule.loss)}
    steps = {"lr", *(term.lr for term in rule.loss if term.lr is not None)}
    for entry in case.arguments:
        if entry in read:
            case.arguments[entry] = keys.clone()
        elif entry in steps:
            case.arguments[entry] = torch.ones_like(case.arguments[entry])
        elif entry == "log_alpha":
            case.arguments[entry] = torch.full_like(case.arguments[entry], -0.01).float().double()
    return case


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("name", [n for n in SOLVED if n != "titans_exact"])  # its momentum grows from them
def test_runs_of_repeated_keys(name, noise, dtype):
    case = repeated_keys(name, 128, noise, dtype)
    found, expected = run_case(case, "torch"), run_case(case, "definition")
    for entry in deviations(found, expected, case).values():
        if entry.outside:
            # Whole steps along one key overwrite all that has decayed: decays have no gradient but rounding.
            assert noise == 0.0 and entry.name == "d_log_alpha", str(entry)
            largest = float(expected.gradients["v"].abs().max())
            assert float(found.gradients["log_alpha"].abs().max()) <= 1e-5 * largest


@pytest.mark.parametrize("name", ["gated_deltanet", "comba"])
def test_runs_of_repeated_keys_in_kernels(name):
    check(repeated_keys(name, 36, 0.1, torch.float32), "triton")


@pytest.mark.parametrize("rate", ["token", "value"])
def test_steps_get_their_gradients(rate):
    """A step per token, or per value channel; one that is expanded gets the sum over its copies."""
    table = {"rule": "delta", "loss": "l2", "optimizer": {"lr": rate}}
    case = make_case(rule_from_table(table), Shape(B=1, T=70, H=3, K=8, V=6))
    check(case, "torch", [(), (64,)])
    op = compiled(case.rule, "torch")
    call = {n: x.float() for n, x in case.arguments.items()}
    shape = call["lr"].shape
    one = call["lr"][:, :, :1].mean(-1, keepdim=True) if rate == "value" else call["lr"][:, :, :1]
    one = one.clone().requires_grad_()
    op(**{**call, "lr": one.expand(shape)})[0].sum().backward()
    full = one.detach().expand(shape).clone().requires_grad_()
    op(**{**call, "lr": full})[0].sum().backward()
    assert full.grad is not None and one.grad is not None
    copies = [dim for dim, size in enumerate(one.shape) if size != shape[dim]]
    assert error(one.grad, full.grad.sum(copies, keepdim=True))[0] <= 1e-5


@each_backend
def test_steps_beyond_the_stable_ones_grow_as_the_definition_does(backend):
    """Keys that are no unit vectors: lr |k|^2 of about 8 grows by definition, which is no kernel's fault."""
    case = make_case(load_rule("deltanet"), Shape(B=1, T=18, H=1, K=16, V=4))
    case.arguments["k"] = torch.randn(1, 18, 1, 16).double()
    case.arguments["lr"] = torch.full_like(case.arguments["lr"], 0.5)
    found, expected = run_case(case, backend), run_case(case, "definition")
    assert float(expected.values["memory.M"].abs().max()) > 1e3
    assert error(found.values["memory.M"], expected.values["memory.M"])[0] <= 1e-4


@pytest.mark.parametrize("name", SOLVED)
def test_no_step_changes_nothing_but_by_decay(name):
    """Steps of zero, and keys of zero: what is left of a memory are its decays."""
    rule = load_rule(name)
    case = make_case(rule, Shape(B=1, T=20, H=1, K=6, V=6), start="state")
    steps = {"lr", *(term.lr for term in rule.loss if term.lr is not None)}
    keys = {entry.name for entry in signature_of(rule).tensors if entry.shape[-1] == "K"} - {"log_alpha"}
    for entry in case.arguments:
        if entry in steps or entry in keys | {"k"}:
            case.arguments[entry][:, ::2] = 0.0
            if entry in steps:
                case.arguments[entry][:, 1::4] = 0.0
    check(case, "torch", [(), (9,)])
    still = dict.fromkeys((*keys, "k"), 0.0) | dict.fromkeys(steps & set(case.arguments), 0.0)
    still |= {"log_alpha": 0.0} if "log_alpha" in case.arguments else {}
    zeros = {n: torch.zeros_like(case.arguments[n]) for n in still}
    without = dataclasses.replace(case, arguments={**case.arguments, **zeros})
    without.state = {n: x if n.startswith("memory") else torch.zeros_like(x) for n, x in case.state.items()}
    after = run_case(without, "torch").values["memory.M"]
    assert math.isfinite(float(after.sum())) and torch.equal(after, case.state["memory.M"].float())

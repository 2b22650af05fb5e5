"""Exact rules: errors at the memory of the token before, all rows of a block at once or one by one.

Each property of the rule that the triangular system has to know is a rule of its own here, with all
gradients, final states and splits, on blocks of 64 rows and a tail. Inputs on which inverses by power series
or by unscaled decays fail are cases.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import atlasgen
from atlasgen.emit.plan import Structure
from atlasgen.emit.tile_library import unit_inverse
from atlasgen.errors import ArgumentError, CompileError
from atlasgen.runtime import blocks
from atlasgen.schedules.serve import admitted, refused, schedule
from atlasgen.spec import rule_from_table
from atlasgen.spec.rule import MemoryRule
from tests.emit.test_structures import backend_of
from tests.rules.compare import BACKENDS, Case, Shape, check, deviations, error, make_case, run_case
from tests.rules.forced import forced

FIRST = {"kind": "token", "order": "decay_first"}
MOMENTUM = {"kind": "momentum", "lr": "token", "theta": "token"}
RULES: dict[str, dict[str, Any]] = {
    "delta": {},
    "error first": {"retention": "token"},
    "decay first": {"retention": FIRST},
    "decay per head": {"retention": {"kind": "head", "order": "decay_first"}},
    "constant decay": {"retention": {"kind": "constant", "value": 0.9, "order": "decay_first"}},
    "toward initial": {"retention": {"kind": "token", "toward": "initial"}, "memory": {"initial": "learned"}},
    "momentum": {"optimizer": MOMENTUM, "retention": "token"},
    "momentum, decay first": {"optimizer": MOMENTUM, "retention": FIRST},
    "rate in the gradient": {"optimizer": {**MOMENTUM, "lr_at": "gradient"}},
    "bias": {"memory": {"kind": "matrix", "bias": True}, "retention": "token"},
    "residual": {"memory": {"kind": "matrix", "residual": "x"}},
    "target without key": {"loss": {"kind": "l2", "target": "v - k"}},
    "read before": {"read": {"at": "pre"}, "retention": "token"},
    "scaled read": {"read": {"scale": "K**-0.5"}},
    "gate of the token": {"window": {"length": 1, "gate": "token"}},
    "elementwise features": {"features": "elu1"},
    "polynomial features": {"features": {"kind": "poly", "degree": 2}, "retention": FIRST},
    "learned coefficients": {
        "features": {"kind": "poly", "degree": 2, "basis": "powers", "coefficients": "learned"}
    },
    "decay per channel": {"retention": {"kind": "channel", "axis": "key"}},
    "decay per channel first": {"retention": {"kind": "channel", "axis": "key", "order": "decay_first"}},
    "two terms": {"loss": ["l2", "dot"], "retention": FIRST},
    "step by key channel": {"optimizer": {"lr": "key"}, "retention": FIRST},
    "step by value channel": {"optimizer": {"lr": "value"}, "retention": "token"},
    "step by value channel, decay first": {"optimizer": {"lr": "value"}, "retention": FIRST},
    "step by value channel in the gradient": {
        "optimizer": {**MOMENTUM, "lr": "value", "lr_at": "gradient"},
        "retention": FIRST,
    },
    "step by value channel, bias": {
        "optimizer": {"lr": "value"},
        "retention": "token",
        "memory": {"kind": "matrix", "bias": True},
    },
    "step by value channel, decay per channel": {
        "optimizer": {"lr": "value"},
        "retention": {"kind": "channel", "axis": "key"},
    },
    "step by value channel of a term": {
        "loss": [{"kind": "l2", "lr": "b"}, "l2", {"kind": "dot", "key": "p", "lr": "b"}],
        "inputs": {"b": {"shape": "value", "range": "unit"}, "p": "key"},
        "optimizer": MOMENTUM,
        "retention": FIRST,
    },
    "implicit step": {"optimizer": {"kind": "implicit"}},
    "implicit step by value channel": {"optimizer": {"kind": "implicit", "lr": "value"}},
    "implicit step, polynomial features": {
        "optimizer": {"kind": "implicit", "lr": "value"},
        "features": {"kind": "poly", "degree": 2},
        "retention": FIRST,
    },
    "weighted loss": {
        "loss": {"kind": "expr", "expression": "0.5 * weight * (pred - v)**2 + 0.1 * pred"},
        "inputs": {"weight": {"shape": "token", "range": "positive"}},
    },
}
STRUCTURES = (
    Structure("fused"),
    Structure("split", "inline", False, 1),
    Structure("split", "vectors", True, 3),
    Structure("split", "all", False, 4),
)
each_rule = pytest.mark.parametrize("name", RULES)
each_backend = pytest.mark.parametrize("backend", BACKENDS)
# Interpreted, one within what a tile bears, one beyond it, and a reset.
DECAYS = (0.0, -1.0, -1.4, -6.0, -20.0, -100.0, -1000.0, -math.inf)
each_decay = pytest.mark.parametrize(
    ("backend", "value"),
    [*(("torch", value) for value in DECAYS), ("triton", -1.4), ("triton", -20.0), ("triton", -math.inf)],
)


def exact(name: str, **more: Any) -> MemoryRule:
    """A rule of `RULES`: one l2 loss and a step per token where it does not say otherwise."""
    common = {"rule": "exact", "loss": "l2", "optimizer": {"lr": "token"}}
    return rule_from_table({**common, **RULES[name], **more})


def sizes_of(rule: MemoryRule, T: int, B: int = 1) -> Shape:
    joined = rule.memory.residual != "none" or rule.loss[0].target != "v"
    return Shape(B=B, T=T, H=2, K=6, V=6 if joined else 5)


@each_rule
@pytest.mark.parametrize(("T", "start"), [(1, "state"), (70, "state"), (130, "fresh")])
def test_torch(name, T, start):
    rule = exact(name)
    assert schedule(rule).schedule == "wy"
    check(make_case(rule, sizes_of(rule, T, B=2), seed=T, start=start), "torch", [(), (T // 3, min(T, 64))])


@each_rule
def test_interpreted(name):
    """In pieces: of less than a block, and of one with a tail; slow ones (decays by channel) of less."""
    rule = exact(name)
    T = 40 if "channel" in name else 70
    check(make_case(rule, sizes_of(rule, T), seed=3, start="state"), "triton", [(5,)])


@pytest.mark.parametrize("structure", STRUCTURES, ids=lambda structure: structure.label)
@pytest.mark.parametrize(
    "name",
    [
        "decay first",
        "momentum, decay first",
        "bias",
        "step by value channel",
        "implicit step by value channel",
    ],
)
def test_every_form_of_kernels(name, structure):
    rule = exact(name)
    check(make_case(rule, sizes_of(rule, 70), seed=4, start="state"), backend_of(structure))


@each_rule
def test_every_schedule_that_serves_a_rule_agrees(name):
    rule = exact(name)
    case = make_case(rule, sizes_of(rule, 40), seed=5, start="state")
    serving = [own for own, refusals in admitted(rule).items() if not refusals]
    assert "wy" in serving
    for own in serving:
        check(case, forced(own), [(), (7,)])


@pytest.mark.parametrize("name", ["decay first", "momentum"])
def test_one_token_after_any_prefix(name):
    """prefill(n) + decode(1) = forward(n + 1)."""
    rule = exact(name)
    case = make_case(rule, sizes_of(rule, 131), seed=6, start="fresh")
    arguments = {n: value.float() for n, value in case.arguments.items()}
    operator = atlasgen.compile(rule, "torch")
    whole, _ = operator(**arguments)
    for n in range(1, 131):
        _, state = operator(**cut(arguments, 0, n), output_final_state=True)
        y, _ = operator(**cut(arguments, n, n + 1), initial_state=state)
        assert error(y, whole[:, n : n + 1].double())[0] <= 1e-5, n


def cut(arguments: dict[str, torch.Tensor], start: int, stop: int) -> dict[str, torch.Tensor]:
    """The tokens start .. stop - 1 of a call's arguments."""
    return {n: value[:, start:stop] if value.ndim > 2 else value for n, value in arguments.items()}


def repeated(T: int, noise: float, K: int, dtype: torch.dtype, rate: str = "token") -> Case:
    """A run of (nearly) equal unit keys with a step of 1 each."""
    rule = exact("delta", optimizer={"lr": rate})
    case = make_case(rule, Shape(B=1, T=T, H=1, K=K, V=5), seed=7, dtype=dtype, start="fresh")
    torch.manual_seed(7)
    keys = torch.randn(1, 1, 1, K, dtype=torch.float64) + noise * torch.randn(1, T, 1, K, dtype=torch.float64)
    case.arguments["k"] = torch.nn.functional.normalize(keys, dim=-1).to(dtype).double()
    case.arguments["lr"] = torch.ones_like(case.arguments["lr"])
    return case


@each_backend
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_runs_of_repeated_keys(backend, noise, dtype):
    """Powers of the system's matrix reach 3e17 here, its inverse stays at 1: a series loses every digit.

    Where all keys are one and products are rounded to tf32, the gradient of a step is a sum over readers that
    cancels: 1.1e-2 was found, the bar is 1e-2.
    """
    case = repeated(128 if backend == "torch" else 70, noise, 16, dtype)
    found = deviations(run_case(case, backend), run_case(case, "definition"), case)
    cancels = noise == 0.0 and dtype == torch.bfloat16 and backend == "triton"
    for name, entry in found.items():
        if cancels and name == "d_lr":
            assert entry.rms <= 1.2e-2
        else:
            assert not entry.outside, str(entry)


@each_backend
@pytest.mark.parametrize("rate", [0.5, 1.0, 1.9, 2.0])
def test_steps_up_to_two(backend, rate):
    case = repeated(256 if backend == "torch" else 66, 3.0, 16, torch.float32)
    case.arguments["lr"] = torch.full_like(case.arguments["lr"], rate).float().double()
    check(case, backend)


@each_decay
@pytest.mark.parametrize("order", ["decay_first", "error_first"])
def test_one_decay_everywhere(backend, order, value):
    rule = exact("delta", retention={"kind": "token", "order": order})
    case = make_case(rule, Shape(B=1, T=70, H=1, K=6, V=5), seed=8, start="fresh")
    case.arguments["log_alpha"] = torch.full_like(case.arguments["log_alpha"], value)
    check(case, backend)


LINEAR: dict[str, dict[str, Any]] = {
    "key": {"retention": {"kind": "channel", "axis": "key"}},
    "key, before": {"retention": {"kind": "channel", "axis": "key"}, "read": {"at": "pre"}},
    "value": {"retention": {"kind": "channel", "axis": "value"}, "optimizer": {"lr": "token"}},
    "value, before": {"retention": {"kind": "channel", "axis": "value"}, "read": {"at": "pre"}},
    "toward initial": {
        "retention": {"kind": "channel", "toward": "initial"},
        "memory": {"initial": "learned"},
    },
    "features": {"retention": {"kind": "channel"}, "features": "elu1"},
}


@each_backend
@pytest.mark.parametrize("name", LINEAR)
def test_decays_by_channel_of_a_linear_memory(name, backend):
    rule = rule_from_table({"rule": "channels", "loss": "dot", **LINEAR[name]})
    assert schedule(rule).schedule == "dual"
    T, splits = (130, [(), (5, 64)]) if backend == "torch" else (40, [(5,)])
    case = make_case(rule, Shape(B=1, T=T, H=2, K=6, V=5), seed=10, start="state")
    check(case, backend, splits)
    if backend == "torch":
        check(case, forced("recurrent"))


@each_decay
@pytest.mark.parametrize("loss", ["dot", "l2"])
def test_one_decay_of_all_channels(backend, loss, value):
    """No exponent is positive for any decay: neither products overflow nor do gradients cancel."""
    order = "decay_first" if loss == "l2" else "error_first"
    rule = exact("delta", loss=loss, retention={"kind": "channel", "axis": "key", "order": order})
    case = make_case(rule, Shape(B=1, T=70, H=1, K=6, V=5), seed=8, start="fresh")
    case.arguments["log_alpha"] = torch.full_like(case.arguments["log_alpha"], value)
    check(case, backend)


@pytest.mark.parametrize(
    ("backend", "value"),
    [*(("torch", x) for x in (-50.0, -1e4, -3.4e37, -math.inf)), ("triton", -50.0), ("triton", -math.inf)],
)
def test_some_channels_forget_in_the_middle(backend, value):
    """Channels are reset one by one; the others, and later decays, keep their digits."""
    rule = exact("delta", retention={"kind": "channel", "axis": "key", "order": "decay_first"})
    case = make_case(rule, Shape(B=1, T=70, H=1, K=6, V=5), seed=11, start="state")
    case.arguments["log_alpha"] = torch.full_like(case.arguments["log_alpha"], -0.1).float().double()
    case.arguments["log_alpha"][:, 30, :, ::2] = value
    case.arguments["log_alpha"][:, 41, :, 1] = value
    check(case, backend)


@each_backend
@pytest.mark.parametrize("value", [-1e4, -math.inf])
def test_after_a_reset_comes_a_fresh_run(backend, value):
    rule = exact("decay first")
    case = make_case(rule, Shape(B=1, T=72, H=1, K=6, V=5), seed=9, start="fresh")
    case.arguments["log_alpha"] = torch.full_like(case.arguments["log_alpha"], -0.1).float().double()
    case.arguments["log_alpha"][:, 36] = value
    y = run_case(case, backend).values["y"][:, 36:]
    operator = atlasgen.compile(rule, backend)
    later = {n: value.float()[:, 36:] for n, value in case.arguments.items() if value.ndim > 2}
    fresh, _ = operator(**{n: later[n] for n in ("q", "k", "v", "lr", "log_alpha")})
    assert error(y, fresh.double())[0] <= 1e-6


@each_backend
@pytest.mark.parametrize(("order", "expected"), [("decay_first", 0.25), ("error_first", 0.0)])
def test_the_order_of_decay_and_error(backend, order, expected):
    rule = exact("delta", retention={"kind": "token", "order": order})
    ones = torch.ones(1, 2, 1, 1)
    v = torch.tensor([1.0, 0.0]).reshape(1, 2, 1, 1)
    gate = torch.tensor([1.0, 0.5]).reshape(1, 2, 1)
    operator = atlasgen.compile(rule, backend)
    _, state = operator(ones, ones, v, lr=gate, log_alpha=gate.log(), output_final_state=True)
    assert state is not None and state.memory["M"].item() == expected


def test_structure_decides_not_the_name():
    gated = {"loss": "l2", "optimizer": {"lr": "token"}, "retention": FIRST}
    assert schedule(rule_from_table({"rule": "anything", **gated})).schedule == "wy"
    huber = rule_from_table({"rule": "gated_deltanet", **gated, "loss": "huber", "retention": "token"})
    assert schedule(huber).schedule == "recurrent"
    linear = rule_from_table({"rule": "linear", "loss": "dot"})
    assert schedule(linear).schedule == "dual"


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"loss": "huber"}, "loss"),
        ({"loss": {"kind": "lp", "p": 3}}, "loss"),
        ({"memory": {"kind": "matrix", "norm": "layer"}}, "memory.kind"),
        ({"optimizer": {"lr": "token", "clip": 1.0}}, "optimizer.clip"),
        ({"block": 16}, "block.size"),
    ],
)
def test_what_is_no_linear_system_is_refused_by_field(more, field):
    with pytest.raises(CompileError, match=field.replace(".", r"\.")):
        schedule(exact("delta", **more), "wy")


def test_an_unknown_schedule_is_refused():
    with pytest.raises(CompileError, match="no schedule"):
        atlasgen.compile(exact("delta"), schedule="wyvern")
    with pytest.raises(ArgumentError, match="not a name"):
        atlasgen.compile(exact("delta"), schedule=["wy"])  # type: ignore[arg-type]
    with pytest.raises(CompileError, match=r'schedule = "dual" is not served.*wy or recurrent'):
        atlasgen.compile(exact("delta"), schedule="dual")


def test_a_forced_schedule_is_shown():
    assert repr(atlasgen.compile(exact("delta"), "torch")) == "MemoryOperator(exact, backend='torch')"
    forced_one = atlasgen.compile(exact("delta"), "torch", schedule="recurrent")
    assert repr(forced_one) == "MemoryOperator(exact, backend='torch', schedule='recurrent')"


def test_of_equally_near_schedules_recurrent_says_what_is_missing():
    """It takes implicit steps, of one term: Gram space takes none."""
    loss = {"kind": "l2", "key": "p"}
    rule = exact("delta", loss=loss, inputs={"p": "key"}, optimizer={"kind": "implicit", "lr": "token"})
    found = admitted(rule)
    assert len(found["wy"]) == len(found["recurrent"]) == len(found["gram"]) == 1 != len(found["dual"])
    assert found["gram"] != found["recurrent"]
    assert refused(rule) == found["recurrent"]
    with pytest.raises(CompileError, match="its step solves the l2 term of one token"):
        schedule(rule)


def test_of_equally_near_schedules_one_takes_the_blocks_as_they_are():
    block = {"size": 16, "write": "block", "partial": "skip"}
    rule = exact("momentum", optimizer={**MOMENTUM, "nesterov": True}, block=block)
    found = admitted(rule)
    assert [entry.field for entry in found["recurrent"]] == ["block.size"]
    assert [entry.field for entry in refused(rule)] == ["optimizer.nesterov"]


STEPS = ("relu(pred - v)", "where(pred > v, pred, 0)", "sign(pred - v)", "min(pred, v)", "pred * (v + 1)")


@pytest.mark.parametrize("expression", STEPS)
@pytest.mark.parametrize("more", [[], ["l2"]])
def test_errors_that_step_are_no_part_of_a_linear_system(expression, more):
    """The slope of a step is the number 0 almost everywhere, and yet its error sees the memory."""
    loss = [*more, {"kind": "expr", "expression": expression}]
    case = make_case(exact("delta", loss=loss), Shape(B=1, T=20, H=1, K=4, V=3), seed=12, start="state")
    check(case, "torch")


@pytest.mark.parametrize("rows", [1, 2, 16, 64])
def test_the_inverse_is_one(rows):
    """(I + A) N = I, with A as it is and transposed, on both sides that a program may hold it."""
    keys = torch.nn.functional.normalize(torch.randn(3, rows, 8), dim=-1)
    system = torch.rand(3, rows, 1) * (keys @ keys.mT).tril(-1)
    whole = system + torch.eye(rows)
    assert torch.allclose(blocks.unit_inverse(system, True).mT @ whole, torch.eye(rows), atol=1e-5)
    assert torch.allclose(blocks.unit_inverse(system.mT, False) @ whole, torch.eye(rows), atol=1e-5)


@pytest.mark.parametrize("rows", [16, 32, 64, 128])
@pytest.mark.parametrize("equal", [False, True])
def test_the_kernels_inverse_keeps_float32s_digits(rows, equal):
    """Substitution in blocks of 16 rows, then pairs of blocks."""
    system = torch.ones(rows, rows).tril(-1) if equal else 0.3 * torch.randn(rows, rows).tril(-1)
    found = torch.empty_like(system)
    inverse_kernel[(1,)](system, found, rows)
    expected = torch.linalg.inv(torch.eye(rows, dtype=torch.float64) + system.double())
    assert error(found, expected)[0] <= (0.0 if equal else 1e-5)


@triton.jit
def inverse_kernel(system, found, rows: tl.constexpr):
    row = tl.arange(0, rows)
    place = row[:, None] * rows + row[None, :]
    tl.store(found + place, unit_inverse(tl.load(system + place)))


@pytest.mark.parametrize("order", ["error_first", "decay_first"])
@pytest.mark.parametrize("loss", ["l2", "dot"])
def test_the_border_of_blocks_of_one_token_is_the_token_before(loss, order):
    """Reads at the border are those before the write, under every schedule."""
    table = {"loss": loss, "optimizer": {"lr": "token"}, "retention": {"kind": "token", "order": order}}
    rule = rule_from_table({"rule": "at_border", "read": "block", **table})
    case = make_case(rule, Shape(B=1, T=5, H=2, K=4, V=3), seed=1, start="fresh")
    arguments = {name: value.float() for name, value in case.arguments.items()}
    expected, _ = atlasgen.compile(rule, "reference")(**arguments)
    served = [name for name, refusals in admitted(rule).items() if not refusals]
    assert "recurrent" in served
    for name in served:
        y, _ = atlasgen.compile(rule, "torch", schedule=name)(**arguments)
        assert error(y, expected)[0] <= 1e-5, name

"""One token at a time: every property of a rule that a step may have, against the float64 definition.

All gradients, final states, and calls split in two; on the torch program and on interpreted kernels, whose
blocks of one row have no row axis.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import atlasgen
from atlasgen.emit.plan import Structure
from atlasgen.emit.triton_module import for_kernels
from atlasgen.errors import CompileError
from atlasgen.ir.node import ROWS
from atlasgen.runtime.configuration import default_configuration, emitted_module
from atlasgen.runtime.triton_backend import TritonProgram
from atlasgen.schedules.serve import schedule
from atlasgen.spec import rule_from_table
from atlasgen.spec.rule import MemoryRule
from tests.emit.test_structures import backend_of
from tests.rules.compare import Shape, check, error, make_case
from tests.rules.forced import forced

FIRST = {"kind": "token", "order": "decay_first"}
MOMENTUM = {"kind": "momentum", "lr": "token", "theta": "token"}
HUBER = {"kind": "huber", "per": "row", "delta": "threshold"}
THRESHOLD = {"threshold": {"shape": "token", "range": "positive"}}
STEP = {"lr": "token"}


def linked(**link: Any) -> dict[str, Any]:
    return {"memory": {"kind": "matrix", "link": link}, "retention": "token"}


def deep(**more: Any) -> dict[str, Any]:
    return {"kind": "mlp", "hidden": "2*K", "residual": "x", "initial": "learned", **more}


RULES: dict[str, dict[str, Any]] = {
    "no memory in the error": {"loss": "dot", "retention": "token"},
    "sliding window": {"loss": "dot", "window": 3, "retention": "token"},
    "error first": {"retention": "token"},
    "decay first": {"retention": FIRST},
    "toward initial": {"retention": {**FIRST, "toward": "initial"}, "memory": {"initial": "learned"}},
    "decay to zero": {"retention": "zero"},
    "constant decay": {"retention": {"kind": "constant", "value": 0.9}},
    "momentum, decay first": {"optimizer": MOMENTUM, "retention": FIRST},
    "nesterov": {"optimizer": {**MOMENTUM, "nesterov": True}, "retention": "token"},
    "rate in the gradient": {"optimizer": {**MOMENTUM, "lr_at": "gradient"}, "window": 2},
    "read before": {"read": {"at": "pre"}, "retention": "token"},
    "read of the border": {"read": {"at": "block"}, "retention": FIRST},
    "decay by key channel": {"retention": {"kind": "channel", "order": "decay_first"}},
    "decay by key channel, no error": {"loss": "dot", "retention": {"kind": "channel"}},
    "decay by value channel": {"retention": {"kind": "channel", "axis": "value"}},
    "step by key channel": {"optimizer": {"lr": "key"}},
    "step by value channel": {"optimizer": {"lr": "value"}, "retention": "head"},
    "implicit step": {"optimizer": {"kind": "implicit", "lr": "value"}},
    "implicit step of one": {"optimizer": {"kind": "implicit"}},
    "exact window": {"window": 4, "optimizer": MOMENTUM, "retention": "token"},
    "mean of a window": {"window": {"length": 3, "gate": "token", "normalise": "mean"}},
    "window by pair": {"window": {"length": 3, "gate": "pair"}, "loss": {"kind": "lp", "p": 3}},
    "window by age": {"window": {"length": 3, "gate": "position"}, "loss": "huber"},
    "window in one block": {"window": {"length": 3, "gate": "token", "boundary": "truncate"}},
    "row loss in a window": {"window": 2, "loss": HUBER, "inputs": THRESHOLD},
    "bias": {"memory": {"kind": "matrix", "bias": True}, "retention": "token"},
    "deep": {"memory": deep(norm="layer"), "window": 2, "retention": FIRST},
    "map of the momentum": {"optimizer": {**MOMENTUM, "transform": [{"kind": "frobenius"}]}},
    "clipped window": {"window": 2, "optimizer": {**STEP, "clip": {"norm": 0.5, "of": "window"}}},
    "clipped tokens": {"window": 2, "optimizer": {**STEP, "clip": {"norm": 0.5, "of": "token"}}},
    "ball": {"retention": {"kind": "token", "project": {"kind": "ball", "radius": 0.7}}},
    "clamp": {"retention": {"kind": "token", "project": {"kind": "clamp", "radius": 0.2}}},
    "link by norm": {**linked(kind="qnorm", q=4), "loss": {"kind": "lp", "p": 3}},
    "link by softmax": linked(kind="softmax"),
    "link by expression": linked(kind="expr", expression="tanh(A)"),
    "normalised read": {
        "loss": "dot",
        "features": "elu1",
        "read": {"normaliser": "sum"},
        "retention": {"kind": "channel"},
    },
    "normalised read, toward initial": {
        "features": "elu1",
        "read": {"normaliser": "sum"},
        "optimizer": MOMENTUM,
        "retention": {"kind": "token", "toward": "initial"},
        "memory": {"initial": "learned"},
    },
    "terms with keys of their own": {
        "loss": [
            {"kind": "dot"},
            {"kind": "l2", "key": "erased", "write": "written", "target": "0", "lr": "rate"},
        ],
        "inputs": {
            "erased": {"shape": "key"},
            "written": {"shape": "key"},
            "rate": {"shape": "key", "range": "unit"},
        },
        "optimizer": {},
        "retention": {"kind": "channel"},
    },
    "blocks": {"block": 4, "optimizer": MOMENTUM, "retention": "token"},
    "blocks of a deep memory": {"block": 3, "memory": deep(norm="layer"), "window": 2, "retention": "token"},
    "blocks that cut windows": {
        "block": 4,
        "window": {"length": 3, "gate": "token", "boundary": "truncate", "normalise": "mean"},
        "loss": "huber",
    },
    "blocks whose errors are kept": {
        "block": 4,
        "window": {"length": 4, "gate": "token", "boundary": "carry"},
        "loss": "huber",
        "optimizer": MOMENTUM,
    },
    "kept errors of a link": {
        **linked(kind="qnorm", q=3),
        "block": 3,
        "window": {"length": 3, "boundary": "carry"},
    },
    "windows beyond blocks": {"block": 2, "window": {"length": 5, "gate": "pair"}, "retention": "token"},
    "blocks, read of the border": {"block": 4, "read": {"at": "block"}, "retention": "token"},
    "blocks, read of a border without errors": {"block": 4, "read": {"at": "block"}, "loss": "dot"},
    "blocks, a link of mapped updates": {
        **linked(kind="qnorm", q=3),
        "block": 4,
        "optimizer": {**MOMENTUM, "transform": [{"kind": "newton_schulz", "steps": 2}]},
    },
    "blocks, clipped and clamped": {
        "block": 3,
        "optimizer": {**MOMENTUM, "nesterov": True, "clip": {"norm": 0.5, "of": "window"}},
        "retention": {"kind": "token", "project": {"kind": "clamp", "radius": 0.5}},
    },
    "polynomial features": {"features": {"kind": "poly", "degree": 2}, "window": 2},
}
SPLIT = Structure("split", "all", True, 4, schedule="recurrent")


def rule_of(name: str, **more: Any) -> MemoryRule:
    """A rule of `RULES`: one l2 loss and a step per token where it does not say otherwise."""
    common = {"rule": "one_by_one", "loss": "l2", "optimizer": STEP}
    return rule_from_table({**common, **RULES[name], **more})


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize(("T", "start"), [(1, "state"), (12, "state"), (12, "fresh")])
def test_torch(name, T, start):
    rule = rule_of(name)
    case = make_case(rule, Shape(B=2, T=T, H=2, K=6, V=5), seed=T, start=start)
    check(case, forced("recurrent", "torch"), [(), (T // 3,), (T - 1,)])


@pytest.mark.parametrize("name", RULES)
def test_interpreted(name):
    case = make_case(rule_of(name), Shape(B=1, T=5, H=2, K=6, V=5), seed=3, start="state")
    check(case, forced("recurrent", "triton"), [(2,)])


@pytest.mark.parametrize("name", ["exact window", "decay by key channel", "window by age"])
def test_kernels_in_several_pieces(name):
    case = make_case(rule_of(name), Shape(B=1, T=5, H=1, K=6, V=5), seed=4, start="state")
    check(case, backend_of(SPLIT), [(), (2,)])


@pytest.mark.parametrize("name", ["exact window", "decay by key channel", "link by softmax"])
def test_kernels_take_one_row_as_a_vector(name):
    rule = rule_of(name)
    scheduled = for_kernels(schedule(rule, "recurrent"))
    nodes = [*scheduled.forward.nodes(), *scheduled.backward.forward.nodes()]
    assert not any(ROWS & set(node.dims) for node in nodes)
    source = emitted_module(rule, default_configuration(rule, None, "recurrent").structure).source
    assert "BLOCK_ROWS" not in source
    assert ("tl.dot" in source) == (rule.window.length != 1)


@pytest.mark.parametrize("name", ["decay by key channel", "exact window", "link by norm"])
@pytest.mark.parametrize("backend", ["torch", "triton"])
def test_one_token_after_any_prefix(name, backend):
    """prefill(n) + decode(1) = forward(n + 1); the state is as large after any number of tokens."""
    T = 40 if backend == "torch" else 6
    rule = rule_of(name)
    case = make_case(rule, Shape(B=1, T=T, H=2, K=6, V=5), seed=6, start="fresh")
    arguments = {n: value.float() for n, value in case.arguments.items()}
    operator = atlasgen.compile(rule, backend, schedule="recurrent")
    whole, _ = operator(**arguments)
    sizes = set()
    for n in range(1, T):
        _, state = operator(**cut(arguments, 0, n), output_final_state=True)
        y, state = operator(**cut(arguments, n, n + 1), initial_state=state, output_final_state=True)
        assert error(y, whole[:, n : n + 1].double())[0] <= 1e-5, n
        assert state is not None
        sizes.add(tuple((name, tuple(value.shape)) for name, value in state.tensors().items()))
    assert len(sizes) == 1


def cut(arguments: dict[str, torch.Tensor], start: int, stop: int) -> dict[str, torch.Tensor]:
    """The tokens start .. stop - 1 of a call's arguments."""
    return {n: value[:, start:stop] if value.ndim > 2 else value for n, value in arguments.items()}


@pytest.mark.parametrize("backend", ["torch", "triton"])
@pytest.mark.parametrize("value", [-1.0, -20.0, -1000.0, -math.inf])
def test_decays_of_one_channel(backend, value):
    """A channel that forgets does it alone; gradients of the others stay finite."""
    case = make_case(rule_of("decay by key channel"), Shape(B=1, T=6, H=1, K=6, V=5), seed=8, start="fresh")
    case.arguments["log_alpha"][..., 2] = value
    check(case, forced("recurrent", backend))


@pytest.mark.parametrize("backend", ["torch", "triton"])
def test_window_gradients_over_many_borders(backend):
    """A token of an earlier call has the gradient of every later token whose window has it."""
    rule = rule_of("exact window", window=6)
    case = make_case(rule, Shape(B=1, T=9, H=1, K=6, V=5), seed=9, start="fresh")
    check(case, forced("recurrent", backend), [(), (5,), (5, 6)])


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"block": {"size": 4, "row_scale": "position"}}, "block.size"),
        ({"block": {"size": 4, "write": "block"}}, "block.size"),
        ({"window": {"length": 3, "boundary": "carry"}}, "window.boundary"),
        ({"window": "all"}, "window.length"),
        ({"optimizer": {**STEP, "clip": {"norm": 1.0, "of": "block"}}}, "optimizer.clip.of"),
        (
            {**linked(kind="softmax"), "optimizer": {**STEP, "clip": {"norm": 1.0, "of": "token"}}},
            "optimizer.clip.of",
        ),
    ],
)
def test_what_is_no_step_of_a_token_is_refused_by_field(more, field):
    rule = rule_from_table({"rule": "refused", "loss": "l2", "optimizer": STEP, **more})
    with pytest.raises(CompileError, match=field.replace(".", r"\.")):
        schedule(rule, "recurrent")


def test_kernels_hold_a_window_or_refuse_it():
    rule = rule_of("exact window", window=300)
    assert schedule(rule, "recurrent").forward.halo == 299
    with pytest.raises(CompileError, match=r"window\.length"):
        TritonProgram(rule, None, "recurrent")

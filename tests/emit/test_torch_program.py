"""The emitted torch programs: what they contain, and that they run in float64."""

from __future__ import annotations

import re

import pytest
import torch

from atlasgen.emit.torch_release import with_releases
from atlasgen.errors import CompileError
from atlasgen.ir.node import walk
from atlasgen.runtime import blocks
from atlasgen.runtime.torch_backend import TorchProgram, program_source, programs_for
from atlasgen.schedules.serve import schedule
from atlasgen.spec import load_rule, rule_from_table
from atlasgen.spec.sizes import feature_size

SHIPPED = (
    "linear_attention", "retnet", "simple_gla", "swla", "titans_linear", "omeganet_linear", "logcosh_omega",
)  # fmt: skip


def windowed(boundary: str = "halo"):
    return rule_from_table(
        {
            "rule": "windowed",
            "memory": {"kind": "matrix", "initial": "zero"},
            "features": "identity",
            "loss": "l2",
            "window": {"length": 4, "gate": "token", "boundary": boundary},
            "block": 8,
            "optimizer": {"kind": "momentum", "lr": "token", "lr_at": "update", "theta": "token"},
            "retention": "token",
        }
    )


@pytest.mark.parametrize("name", SHIPPED)
def test_text_is_readable_and_the_same_each_time(name):
    scheduled = schedule(load_rule(name))
    source = program_source(scheduled)
    assert source == program_source(scheduled)
    assert max(map(len, source.splitlines())) <= 110
    assert not re.search(r"= \(\(.*\)\)$", source, re.MULTILINE)
    compile(source, name, "exec")


def test_linear_attention_has_no_error_and_no_window():
    source = program_source(schedule(load_rule("simple_gla")))
    assert "band(" not in source.split("def backward")[0]
    assert "halo=" not in source and "momentum" not in source and "errors" not in source


def test_sources_are_one_axis_unless_the_halo_keeps_its_errors():
    merged = programs_for(schedule(windowed("halo"))).forward
    kept = programs_for(schedule(windowed("carry"))).forward
    assert {leaf.get("segment") for leaf in merged.leaves("token")} == {"block", "sources"}
    assert {leaf.get("segment") for leaf in kept.leaves("token")} == {"block", "halo"}


def test_window_gates_are_outside_of_products():
    for node in programs_for(schedule(windowed())).forward.nodes():
        if node.op == "dot":
            masks = [argument for argument in node.args if argument.op == "mask"]
            assert all(mask.args[0].op == "const" for mask in masks)


def test_backward_computes_no_expensive_value_of_the_forward_again():
    programs = programs_for(schedule(load_rule("omeganet_linear")))
    reached = set(walk(programs.backward.roots(), set(programs.kept))) - set(programs.kept)
    again = [node for node in reached & set(programs.forward.nodes()) if len(node.dims) == 2]
    assert not [node for node in again if node.op in ("dot", "decay")]


def arguments(rule, tokens: int, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shape = (2, tokens, 3)
    return {
        "q": torch.randn(*shape, 6, generator=generator, dtype=dtype),
        "k": torch.randn(*shape, 6, generator=generator, dtype=dtype) / 3,
        "v": torch.randn(*shape, 5, generator=generator, dtype=dtype),
        "lr": torch.rand(shape, generator=generator, dtype=dtype) / 20,
        "log_alpha": -torch.rand(shape, generator=generator, dtype=dtype),
        "log_theta": -torch.rand(shape, generator=generator, dtype=dtype),
        "gamma": torch.rand(shape, generator=generator, dtype=dtype),
    }


@pytest.mark.parametrize("boundary", ["halo", "carry", "truncate"])
def test_float64_derivative_is_a_difference_quotient(boundary):
    rule = windowed(boundary)
    program = TorchProgram(rule)
    given = arguments(rule, 19, torch.float64)
    outputs, saved = program.forward(given, save=True)
    assert outputs["y"].dtype == outputs["memory"].dtype == torch.float64
    generator = torch.Generator().manual_seed(1)
    seeds = {
        name: torch.randn(value.shape, generator=generator, dtype=torch.float64)
        for name, value in outputs.items()
    }
    gradients = program.backward(given, saved, seeds)
    for name, tensor in given.items():
        direction = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
        step, values = 1e-6, []
        for sign in (1, -1):
            moved = {**given, name: tensor + sign * step * direction}
            results, _ = program.forward(moved, save=False)
            values.append(sum((results[key] * seeds[key]).sum() for key in results))
        expected = (values[0] - values[1]) / (2 * step)
        found = (gradients[name] * direction).sum()
        assert abs(found - expected) <= 1e-7 * max(1.0, abs(expected)), name


@pytest.mark.parametrize("name", SHIPPED)
def test_saved_tensors_have_the_announced_shapes(name):
    rule = load_rule(name)
    program = TorchProgram(rule)
    given = {n: x for n, x in arguments(rule, 70, torch.float32).items() if n in program.inputs}
    if "gamma" in given and rule.window.gate.kind == "pair":
        given["gamma"] = torch.rand(2, 70, 3, rule.window.length)
    if "gamma" in given and rule.window.gate.kind == "position":
        given["gamma"] = torch.rand(3, rule.window.length)
    for entry in ("lr", "log_alpha", "log_theta"):
        if entry in program.inputs and _is_per_head(program, entry):
            given[entry] = given[entry][0, 0].contiguous()
    sizes = {"B": 2, "T": 70, "H": 3, "K": 6, "V": 5, "F": feature_size(rule.features, 6), "resume": 0}
    _, saved = program.forward(given, save=True)
    announced = program.saved_shapes(sizes)
    assert list(saved) == list(announced)
    for entry, (shape, dtype) in announced.items():
        assert (tuple(saved[entry].shape), saved[entry].dtype) == (shape, dtype), entry


def _is_per_head(program: TorchProgram, name: str) -> bool:
    return any(leaf["name"] == name and leaf["kind"] == "head" for leaf in program.leaves)


def test_arrays_are_released_after_their_last_use():
    source = "def f(a):\n    b = a + 1\n    for i in range(2):\n        c = b * i\n    d = c\n    return d\n"
    released = with_releases(source, {"a", "b", "d"})
    assert released.splitlines()[4] == "    del b"
    assert released.count("del ") == 1  # arguments, results and names that are no arrays stay
    scope = {}
    exec(released, scope)
    assert scope["f"](2) == 3


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("strength", [0.1, 0.9, 3.0])
def test_decays_of_mild_and_strong_gates(exclusive, strength):
    """Sums below and above blocks.MILD take different ways to the same products."""
    log = -strength * torch.rand(2, 3, 1, 64)
    sums = blocks.running(log)
    assert sums.mild == (strength < 0.5)
    exact = torch.zeros(2, 3, 1, 64, 64, dtype=torch.float64)
    for row in range(64):
        for column in range(row if exclusive else row + 1):
            until = row if exclusive else row + 1
            exact[..., row, column] = log[..., column + 1 : until].double().sum(-1).exp()
    smallest = torch.finfo(torch.float32).tiny  # products below it cannot be held
    torch.testing.assert_close(blocks.decay(sums, exclusive).double(), exact, rtol=1e-5, atol=smallest)


def test_a_block_that_is_too_large_is_refused_by_name():
    rule = rule_from_table({"rule": "endless_blocks", "loss": "l2", "block": 20_011})
    with pytest.raises(CompileError, match=r"block\.size = 20,?011"):
        TorchProgram(rule)

"""verify_rule: right backends pass every case, and each kind of mistake is found where it is."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from atlasgen.errors import ArgumentError, CompileError
from atlasgen.runtime.compile import register_backend
from atlasgen.runtime.signature import signature_of
from atlasgen.runtime.torch_backend import TorchProgram
from atlasgen.spec import load_rule, rule_from_table, shipped_specs
from atlasgen.verify import Case, draw, full_cases, quick_cases, verify_rule
from atlasgen.verify.cases import AWKWARD_SIZES, AWKWARD_TOKENS
from atlasgen.verify.measure import bars_of
from tests.runtime.wide_rules import WIDE

SMALL = [Case(2, 11, 2, 16, 12), Case(1, 9, 1, 16, 16, resumed=5, splits=(2,))]


@pytest.mark.parametrize("name", shipped_specs())
def test_the_torch_backend_passes_the_quick_cases(name: str) -> None:
    rule = load_rule(name)
    results = list(verify_rule(rule, ["torch"], ["float32", "bfloat16", "float16"], quick_cases(rule)))
    assert len(results) == 3 * len(quick_cases(rule))
    for result in results:
        assert result.passed, (result.case, result.dtype, result.failure, result.worst)
        names = {tensor.name for tensor in result.tensors}
        assert {"y", "state.position"} <= names
        assert {f"state.memory.{weight}" for weight in rule.memory.weight_names} <= names
        if result.case.tokens and not result.case.resumed:
            assert {"d q", "d k", "d v"} <= names


RULES = {
    "everything": {
        "loss": {"kind": "huber", "delta": "bound", "per": "row"},
        "features": "elu1",
        "window": {"length": 4, "gate": "pair", "normalise": "mean", "boundary": "carry"},
        "block": 8,
        "optimizer": {"kind": "momentum", "lr": "head", "theta": "token", "lr_at": "gradient"},
        "retention": {"kind": "token", "toward": "initial"},
        "memory": {"kind": "matrix", "initial": "learned"},
        "inputs": {"bound": {"shape": "token", "range": "positive"}},
        "read": {"at": "pre", "scale": "K**-0.5"},
    },
    "no gates": {"loss": "l2", "block": 8},
    "raw keys": {"loss": "l2", "block": 4, "optimizer": {"lr": 0.5}, "layer": {"qk_norm": "none"}},
}


@pytest.mark.parametrize("name", RULES)
def test_arguments_of_any_rule_are_drawn_where_it_is_stable(name: str) -> None:
    rule = rule_from_table(RULES[name])
    for result in verify_rule(rule, ["torch"], ["float32"], SMALL):
        assert result.passed, (result.case, result.failure, result.worst)
        assert all(tensor.max_reference < 1e3 for tensor in result.tensors if tensor.name == "y")


@pytest.mark.parametrize("name", WIDE)
def test_memories_of_many_weights_pass_the_quick_cases(name: str) -> None:
    rule = WIDE[name]
    if name == "held":
        # Sums of fewer keys than channels have singular values that are rounding, which Newton-Schulz lifts.
        rule = dataclasses.replace(rule, block=dataclasses.replace(rule.block, size=32))
    for result in verify_rule(rule, ["torch"], ["float32"], quick_cases(rule)):
        assert result.passed, (result.case, result.failure, result.worst)
        assert all(tensor.max_reference < 1e3 for tensor in result.tensors if tensor.name == "y")
        if result.case.tokens and not result.case.resumed:
            given = {f"d {entry.name}" for entry in signature_of(rule).tensors}
            assert given <= {tensor.name for tensor in result.tensors}
            first = f"d initial_memory.{rule.memory.weight_names[0]}"
            assert rule.memory.initial == "zero" or first in {t.name for t in result.tensors}


def test_deep_memories_do_not_fade_in_a_case() -> None:
    rule = rule_from_table({"memory": {"kind": "mlp", "initial": "learned"}, "retention": "token"})
    decays = draw(rule, Case(1, 200, 1, 8, 8)).tensors["log_alpha"]
    assert -2.5 < float(decays.sum()) < -0.5


def test_a_call_ends_a_block_longer_than_itself() -> None:
    block = {"size": 2000, "write": "block", "gate_pool": "mean"}
    rule = rule_from_table({"loss": "l2", "block": block, "retention": "token", "optimizer": {"lr": "token"}})
    cases = [case for case in quick_cases(rule) if case.resumed and case.tokens > 5]
    assert cases
    for case in cases:
        state = draw(rule, case).state
        position = int(state["position"][0])
        assert 0 < 2000 - position < case.tokens, "the block is full inside the call"
        means = state["block.pool_alpha"] / position
        assert float(means.min()) > 0.8 and float(means.max()) <= 1


def test_cases_of_a_rule_that_adds_keys_to_values_have_equal_sizes() -> None:
    assert all(case.key == case.value for case in full_cases(WIDE["mlp"]))
    assert any(case.key != case.value for case in full_cases(WIDE["gated"]))


def test_gradients_through_newton_schulz_have_a_bar_of_their_own() -> None:
    assert bars_of(WIDE["mlp"], torch.float32) == (1e-5, 1e-5)
    assert bars_of(WIDE["graph"], torch.float32) == (1e-5, 1e-4)
    assert bars_of(WIDE["held"], torch.bfloat16) == (6e-3, 1e-2)


def test_full_cases_hold_the_whole_grid() -> None:
    cases = full_cases(load_rule("omeganet_linear"))
    grid = {(case.tokens, case.key, case.value) for case in cases}
    assert {(tokens, *sizes) for tokens in AWKWARD_TOKENS for sizes in AWKWARD_SIZES} <= grid
    assert any(case.borders for case in cases) and any(len(case.splits) > 1 for case in cases)


def test_arguments_are_rounded_to_what_the_call_gets() -> None:
    rule = load_rule("omeganet_linear")
    tensors = draw(rule, SMALL[0], torch.bfloat16, seed=3).tensors
    assert all(tensor.dtype == torch.float64 for tensor in tensors.values())
    assert torch.equal(tensors["k"], tensors["k"].bfloat16().double())
    assert torch.equal(tensors["lr"], tensors["lr"].float().double())
    assert not torch.equal(tensors["lr"], tensors["lr"].bfloat16().double())
    again = draw(rule, SMALL[0], torch.bfloat16, seed=3).tensors
    assert all(torch.equal(tensors[name], again[name]) for name in tensors)


# -- mistakes --------------------------------------------------------------------------------------


class Wrong(TorchProgram):
    """The torch program with one mistake, which subclasses make."""

    def outputs_of(self, outputs: dict) -> None:
        """Changes the outputs."""

    def gradients_of(self, gradients: dict) -> None:
        """Changes the gradients."""

    def forward(self, tensors, save):
        outputs, saved = super().forward(tensors, save)
        self.outputs_of(outputs)
        return outputs, saved

    def backward(self, tensors, saved, gradients):
        found = super().backward(tensors, saved, gradients)
        self.gradients_of(found)
        return found


class WrongRead(Wrong):
    def outputs_of(self, outputs):
        outputs["y"][0, -1, 0, 1] += 0.5


class WrongState(Wrong):
    def outputs_of(self, outputs):
        outputs["memory"] *= 1.001


class WrongGate(Wrong):
    def gradients_of(self, gradients):
        gradients["log_alpha"] = gradients["log_alpha"] * 0.999


class MissingGradient(Wrong):
    def gradients_of(self, gradients):
        del gradients["v"]


class NotFinite(Wrong):
    def gradients_of(self, gradients):
        gradients["q"] = torch.where(gradients["q"] > 0, gradients["q"], float("nan"))


class Crashing(Wrong):
    def outputs_of(self, outputs):
        raise ZeroDivisionError("tile of no rows")


@pytest.mark.parametrize(
    ("program", "tensor"),
    [
        (WrongRead, "y"),
        (WrongState, "state.memory.M"),
        (WrongGate, "d log_alpha"),
        (MissingGradient, "d v"),
        (NotFinite, "d q"),
    ],
)
def test_each_mistake_is_found_in_its_tensor(program: type[Wrong], tensor: str) -> None:
    register_backend(f"verify_{program.__name__}", program)
    (result,) = verify_rule(load_rule("simple_gla"), [f"verify_{program.__name__}"], ["float32"], SMALL[:1])
    assert not result.passed and result.failure is None
    assert [entry.name for entry in result.tensors if not entry.passed] == [tensor]


def test_a_wrong_place_is_pointed_at() -> None:
    register_backend("verify_WrongRead", WrongRead)
    (result,) = verify_rule(load_rule("simple_gla"), ["verify_WrongRead"], ["float32"], SMALL[:1])
    assert result.tensors[0].worst == "batch 0, token 10, head 0, position 1"
    assert result.worst is not None and result.worst.name == "y"


def test_a_crash_is_a_result_and_the_others_still_run() -> None:
    register_backend("verify_Crashing", Crashing)
    results = list(verify_rule(load_rule("swla"), ["verify_Crashing", "torch"], ["float32"], SMALL))
    assert [result.passed for result in results] == [False, True, False, True]
    assert "tile of no rows" in (results[0].failure or "")


def test_what_cannot_be_verified_is_refused() -> None:
    with pytest.raises(ArgumentError, match="float32, bfloat16, float16"):
        list(verify_rule(load_rule("swla"), ["torch"], ["float64"], SMALL))
    rule = rule_from_table({"features": "exp"})
    with pytest.raises(CompileError, match="features.kind"):
        list(verify_rule(rule, ["torch"], ["float32"], SMALL))


def test_interpreted_kernels() -> None:
    rule = load_rule("simple_gla")
    for result in verify_rule(rule, ["triton", "triton:fused"], ["float32", "bfloat16"], SMALL):
        assert result.passed, (result.backend, result.dtype, result.case, result.failure, result.worst)

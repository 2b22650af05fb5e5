"""The choice of a backend."""

import dataclasses
import sys
import types
import warnings

import pytest
import torch

import atlasgen
from atlasgen import ArgumentError, CompileError
from atlasgen.runtime import compile as compiling
from atlasgen.runtime import registration
from tests.runtime.cases import RULES, call_of
from tests.runtime.naive import NaiveExecutable


@pytest.fixture
def modules(monkeypatch):
    """Puts modules in the place of the shipped backends; nothing of them outlives the test."""
    monkeypatch.setattr(registration, "_programs", {})
    monkeypatch.setattr(compiling, "_warned", set())

    def put(name, factory):
        path = f"tests_{name}_stand_in"
        monkeypatch.setitem(sys.modules, path, types.ModuleType(path))
        monkeypatch.setattr(sys.modules[path], "make_executable", factory, raising=False)
        monkeypatch.setitem(compiling._MODULES, name, path)

    return put


def renamed(rule, backend, register=registration.Program):
    """A program whose operators have a name of their own, so that a test may register it again."""
    renamed.count += 1
    return register(NaiveExecutable(rule), f"stand_in_{renamed.count}_{backend}")


renamed.count = 0


@pytest.fixture
def stand_ins(modules, monkeypatch):
    """Programs by rule and backend, naive but for those that `refuse` names."""
    refuse = {}

    def program_for(rule, backend, factory):
        if backend in refuse:
            raise refuse[backend]
        return renamed(rule, backend)

    monkeypatch.setattr(compiling, "program_for", program_for)
    return refuse


def backend_of(op, device):
    program = op._programs.for_tensor(types.SimpleNamespace(device=torch.device(device)))
    return program.name.rsplit("_", 1)[1]


def test_auto_takes_triton_for_the_gpu_and_torch_elsewhere(stand_ins, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        op = atlasgen.compile(RULES["gated"])
    assert backend_of(op, "cuda") == "triton"
    assert backend_of(op, "cpu") == backend_of(op, "mps") == "torch"


@pytest.mark.parametrize(
    "reason",
    [
        ImportError("No module named 'triton'"),
        CompileError("window.gate", "pair", "no kernel loads it", 'gate = "token"'),
    ],
)
def test_auto_falls_back_with_one_warning(stand_ins, monkeypatch, reason):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    stand_ins["triton"] = reason
    with pytest.warns(RuntimeWarning, match="torch backend on the GPU.*gated: .*") as caught:
        op = atlasgen.compile(RULES["gated"])
        atlasgen.compile(RULES["gated"])
    assert len(caught) == 1 and str(reason) in str(caught[0].message)
    assert caught[0].filename == __file__
    assert backend_of(op, "cuda") == "torch"


def test_an_explicit_choice_never_falls_back(stand_ins):
    stand_ins["triton"] = CompileError("window.gate", "pair", "no kernel loads it", "none")
    with pytest.raises(CompileError, match="window.gate"):
        atlasgen.compile(RULES["gated"], "triton")


def test_kernels_on_the_cpu_need_the_interpreter(stand_ins, monkeypatch):
    op = atlasgen.compile(RULES["gated"], "triton")
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    with pytest.raises(ArgumentError, match="on the CPU.*TRITON_INTERPRET=1.*backend='torch'"):
        call_of(RULES["gated"])(op)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    call_of(RULES["gated"])(op)


def test_a_factory_is_called_once_per_rule(modules):
    made = []
    # Its operators stay registered: a scale that no other test has keeps the rule for this one.
    read = dataclasses.replace(RULES["gated"].read, scale="0.12345")
    rule = dataclasses.replace(RULES["gated"], name="counted", read=read)

    def factory(rule, schedule):
        made.append(rule)
        return NaiveExecutable(rule)

    modules("torch", factory)
    first, second = (atlasgen.compile(rule, "torch") for _ in range(2))
    assert len(made) == 1
    assert backend_of(first, "cpu") == backend_of(second, "cpu")

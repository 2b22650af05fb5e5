"""Backends that take one schedule, for tests that name a backend."""

from __future__ import annotations

from functools import cache

from atlasgen.runtime.compile import Factory, register_backend
from atlasgen.runtime.torch_backend import TorchProgram
from atlasgen.runtime.triton_backend import TritonProgram

_PROGRAMS = {"torch": TorchProgram, "triton": TritonProgram}


@cache  # another factory under the same name would be another backend
def _factory(name: str, backend: str) -> Factory:
    return lambda rule: _PROGRAMS[backend](rule, None, name)


def forced(name: str, backend: str = "torch") -> str:
    """The name of a backend, torch or Triton, that takes the schedule of that name."""
    register_backend(f"{backend}_by_{name}", _factory(name, backend))
    return f"{backend}_by_{name}"

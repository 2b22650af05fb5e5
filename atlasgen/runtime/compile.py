"""From a rule to an operator: the backends and the choice between them."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from atlasgen.errors import ArgumentError, CompileError
from atlasgen.runtime.executable import Executable
from atlasgen.runtime.operator import MemoryOperator
from atlasgen.runtime.reference_backend import ReferenceProgram
from atlasgen.runtime.registration import Program, program_for
from atlasgen.spec.load import load_rule
from atlasgen.spec.rule import MemoryRule

Factory = Callable[[MemoryRule], Executable]

# Where each shipped backend makes an executable of a rule; imported when first asked for.
_MODULES = {
    "torch": "atlasgen.runtime.torch_backend",
    "triton": "atlasgen.runtime.triton_backend",
}
_registered: dict[str, Factory] = {}
_warned: set[str] = set()


def compile(
    rule: MemoryRule | str | os.PathLike[str],
    backend: str = "auto",
    checkpoint_every: int | None = None,
    schedule: str | None = None,
) -> MemoryOperator:
    """The operator of a rule: a MemoryRule, the path of a spec file, or the name of a shipped spec.

    backend: "triton" (CUDA and ROCm tensors; CPU tensors under TRITON_INTERPRET=1), "torch" (any
    device), "reference" (float64, token by token, slow), or one of `register_backend`; "auto"
    takes triton for GPU tensors and torch for others, and where triton cannot serve the rule here
    it warns once with the reason and takes torch. An explicit choice never changes.
    checkpoint_every: n makes the torch backend keep for the backward the state before every n-th
    block alone and compute n blocks at a time again: less memory, more time. None is the rule's
    default: every block with what it computed for a matrix memory, checkpoints for deep memories.
    The result does not depend on it. The other backends choose for themselves.
    schedule: "dual", "pieces", "wy", "recurrent" or "gram" forces one of those that serve the rule
    (`atlasgen explain` lists them); all give the same result.
    Raises SpecError for a wrong spec, CompileError for a rule that no schedule of the backend
    serves, ArgumentError for an unknown backend.
    """
    loaded = load_rule(rule)
    whole = isinstance(checkpoint_every, int) and not isinstance(checkpoint_every, bool)
    if checkpoint_every is not None and not (whole and checkpoint_every >= 1):
        raise ArgumentError(
            "checkpoint_every", "blocks between two checkpoints", value=checkpoint_every,
            allowed="a whole number from 1, or None",
        )  # fmt: skip
    if backend not in backends():
        raise ArgumentError("backend", "unknown", value=backend, allowed=", ".join(backends()))
    if schedule is not None and not isinstance(schedule, str):
        raise ArgumentError(
            "schedule", "not a name", value=schedule, allowed="a name in `atlasgen explain`, or None"
        )
    if schedule is not None and backend not in ("auto", *_MODULES):
        raise ArgumentError(
            "schedule", f"not a choice of backend {backend!r}", value=schedule, allowed="None there"
        )
    options = Options(checkpoint_every, schedule)
    return MemoryOperator(loaded, backend, Programs(loaded, backend, options), options)


def register_backend(name: str, factory: Factory) -> None:
    """Makes a backend known by name: `factory(rule)` returns an Executable or raises CompileError.

    Raises ArgumentError where the name is taken by another factory: operators stay registered for
    the process, so a name cannot change its meaning.
    """
    taken = name in ("auto", "reference", *_MODULES) or _registered.get(name, factory) != factory
    if taken or not name.isidentifier():
        raise ArgumentError(
            "name",
            "taken by another backend" if taken else "not an identifier",
            value=name,
            suggestion="choose another name",
        )
    _registered[name] = factory


def backends() -> tuple[str, ...]:
    """The words that `compile` accepts as a backend."""
    return ("auto", *_MODULES, "reference", *_registered)


@dataclass(frozen=True)
class Options:
    """Choices of a compiled rule that do not change its result; `arguments` of `compile` by name."""

    checkpoint_every: int | None = None
    schedule: str | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """What to call `compile` with for the same choices."""
        return asdict(self)

    def name(self, backend: str) -> str:
        """The program's name: one per choice that the backend knows."""
        name = backend if self.schedule is None else f"{backend}_{self.schedule}"
        return name if self.spacing(backend) is None else f"{name}_every_{self.checkpoint_every}"

    def spacing(self, backend: str) -> int | None:
        """checkpoint_every, where the backend does not choose for itself."""
        return self.checkpoint_every if backend == "torch" else None


class Programs:
    """The programs of one operator by kind of device, all made when the rule is compiled."""

    def __init__(self, rule: MemoryRule, backend: str, options: Options | None = None) -> None:
        options = options or Options()
        if backend not in backends():
            raise ArgumentError("backend", "unknown", value=backend, allowed=", ".join(backends()))
        self.needs_interpreter = backend == "triton"
        self.on_gpu: Program | None = None
        self.reference = ReferenceProgram(rule) if backend == "reference" else None
        if backend == "auto":
            self.default = _program(rule, "torch", options)
            if torch.cuda.is_available():
                self.on_gpu = _triton_or_reason(rule, options)
        elif backend != "reference":
            self.default = _program(rule, backend, options)

    def for_tensor(self, tensor: Tensor) -> Program:
        """The program for tensors on that device.

        Raises ArgumentError for compiled kernels on a device that cannot run them.
        """
        kind = tensor.device.type
        if self.on_gpu is not None and kind == "cuda":
            return self.on_gpu
        if self.needs_interpreter and kind == "cpu" and not _interpreting():
            raise ArgumentError(
                "v",
                "on the CPU, where backend='triton' runs only interpreted",
                suggestion="move the tensors to a GPU, set TRITON_INTERPRET=1 before triton is "
                "imported, or compile with backend='torch'",
            )
        return self.default


def _interpreting() -> bool:
    return os.environ.get("TRITON_INTERPRET", "") == "1"


def _program(rule: MemoryRule, backend: str, options: Options) -> Program:
    def factory(rule: MemoryRule) -> Executable:
        if backend in _registered:
            return _registered[backend](rule)
        module = importlib.import_module(_MODULES[backend])
        spacing = options.spacing(backend)
        if spacing is not None:
            return module.make_executable(rule, options.schedule, spacing)
        return module.make_executable(rule, options.schedule)

    return program_for(rule, options.name(backend), factory)


def _triton_or_reason(rule: MemoryRule, options: Options) -> Program | None:
    """The triton program, or None after a warning that says why there is none."""
    try:
        return _program(rule, "triton", options)
    except (ImportError, CompileError) as error:
        reason = f"{rule.name}: {error}"
    if reason not in _warned:
        _warned.add(reason)
        warnings.warn(
            "atlasgen uses its torch backend on the GPU, several times slower than triton, "
            f"because triton cannot serve the rule here. {reason}",
            RuntimeWarning,
            stacklevel=4,
        )
    return None

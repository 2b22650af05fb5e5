"""Operators by the words of `verify`: a backend, or the Triton kernels in one form ("triton:fused")."""

from __future__ import annotations

import functools
from typing import Any

from atlasgen.errors import ArgumentError
from atlasgen.runtime.compile import backends as known_backends
from atlasgen.runtime.compile import compile as compile_rule
from atlasgen.runtime.compile import register_backend
from atlasgen.runtime.operator import MemoryOperator
from atlasgen.spec.rule import MemoryRule

FORMS = ("split", "fused")


class BackendUnavailableError(Exception):
    """A backend that this installation does not have."""


def operator_of(rule: MemoryRule, backend: str) -> MemoryOperator:
    """The operator of a rule on "torch", "triton", ..., "triton:fused" or "triton:split".

    Raises BackendUnavailableError, in one sentence, where the backend is not installed, CompileError
    where it does not serve the rule, ArgumentError for an unknown word.
    """
    base, _, form = backend.partition(":")
    if form and (base != "triton" or form not in FORMS):
        allowed = [*known_backends(), *(f"triton:{name}" for name in FORMS)]
        raise ArgumentError("backend", "unknown", value=backend, allowed=", ".join(allowed))
    try:
        if not form:
            return compile_rule(rule, backend=base)
        name = f"triton_{form}"
        register_backend(name, _factory(form))
        return compile_rule(rule, backend=name)
    except ImportError as error:
        raise BackendUnavailableError(
            f"The backend {backend} is not part of this installation ({error})."
        ) from None


@functools.cache
def _factory(form: str) -> Any:
    """What makes an executable of kernels in that form."""
    from atlasgen.emit.plan import Structure
    from atlasgen.runtime.triton_backend import TritonProgram

    return lambda rule: TritonProgram(rule, Structure(form=form))  # type: ignore[arg-type]

"""Operators by the words of `verify`: a backend, or the Triton kernels of one structure."""

from __future__ import annotations

import functools
import re
from typing import Any

from atlasgen.errors import ArgumentError
from atlasgen.runtime.compile import backends as known_backends
from atlasgen.runtime.compile import compile as compile_rule
from atlasgen.runtime.compile import register_backend
from atlasgen.runtime.operator import MemoryOperator
from atlasgen.spec.rule import MemoryRule

STRUCTURES = (
    "default, fused, tokens or token_grid for rules with a matrix per token, split, or split_inline, "
    "split_vectors, split_all with _rows, a number of pieces, and _F to walk the features, or _D1 a deep "
    "memory's first hidden axis, in tiles"
)
_LABEL = re.compile(
    r"(fused|tokens|token_grid)|split(?:_(inline|vectors|all))?(_rows)?(?:_(\d))?(?:_(F|D[1-8]))?"
)


class BackendUnavailableError(Exception):
    """A backend that this installation does not have."""


def operator_of(rule: MemoryRule, backend: str) -> MemoryOperator:
    """The operator of a rule on "torch", "triton", ..., "triton:fused" or "triton:split_all_rows_4".

    Without a structure Triton's kernels are those that the look-up chooses. Raises
    BackendUnavailableError, in one sentence, where the backend is not installed, CompileError where
    it does not serve the rule, ArgumentError for an unknown word.
    """
    base, _, label = backend.partition(":")
    if label and base != "triton":
        allowed = [*known_backends(), "triton:fused", "triton:split"]
        raise ArgumentError("backend", "unknown", value=backend, allowed=", ".join(allowed))
    try:
        if not label:
            return compile_rule(rule, backend=base)
        structure = structure_of(label, rule)
        name = f"triton_{structure.label}"
        register_backend(name, _factory(structure))
        return compile_rule(rule, backend=name)
    except ImportError as error:
        raise BackendUnavailableError(
            f"The backend {backend} is not part of this installation ({error})."
        ) from None


def structure_of(label: str, rule: MemoryRule) -> Any:
    """The emitter's Structure of a label, as in `Structure.label`.

    "split" is the plainest one, "default" that of the rule's calls without a tuned result.

    Raises ArgumentError for an unknown label, ImportError without the emitter.
    """
    from atlasgen.emit.plan import Structure

    if label == "default":
        from atlasgen.runtime.configuration import default_configuration

        return default_configuration(rule).structure
    found = _LABEL.fullmatch(label)
    if found is None:
        raise ArgumentError("form", "no structure of kernels", value=label, allowed=STRUCTURES)
    form, gates, rows, pieces, walk = found.groups()
    if form:
        from atlasgen.runtime.configuration import structure_of_form

        return structure_of_form(form)
    gates = gates or "inline"
    return Structure("split", gates, rows is not None, int(pieces or 1), walk)  # type: ignore[arg-type]


@functools.cache
def _factory(structure: Any) -> Any:
    """What makes an executable of kernels of that structure."""
    from atlasgen.runtime.configuration import Configuration
    from atlasgen.runtime.triton_backend import TritonProgram

    return lambda rule: TritonProgram(rule, Configuration(structure))

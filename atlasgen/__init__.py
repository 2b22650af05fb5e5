"""atlasgen: a compiler from memory rules to verified kernels, forward and backward.

op = atlasgen.compile("omeganet_linear"); y, state = op(q, k, v, lr=..., ...); print(op.signature)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from atlasgen.errors import ArgumentError, AtlasgenError, CompileError, SpecError

if TYPE_CHECKING:
    from atlasgen.runtime.compile import compile, register_backend
    from atlasgen.runtime.state import OperatorState
    from atlasgen.spec.load import load_rule
    from atlasgen.spec.rule import MemoryRule

__all__ = [
    "ArgumentError",
    "AtlasgenError",
    "CompileError",
    "MemoryRule",
    "OperatorState",
    "SpecError",
    "compile",
    "load_rule",
    "register_backend",
]

# Imported at first use: `import atlasgen` loads neither torch nor a device driver.
_HOMES = {
    "MemoryRule": "atlasgen.spec.rule",
    "OperatorState": "atlasgen.runtime.state",
    "compile": "atlasgen.runtime.compile",
    "load_rule": "atlasgen.spec.load",
    "register_backend": "atlasgen.runtime.compile",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})

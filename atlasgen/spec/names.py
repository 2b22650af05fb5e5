"""Which names a rule may have: its package is imported as a Python module of that name."""

from __future__ import annotations

import keyword
import sys

NAME_PATTERN = r"^[a-z][a-z0-9_]*$"
NAME_FORM = "lower-case letters, digits and _, a letter first"

_USED_BY_ATLASGEN = frozenset({"atlasgen", "networkx", "numpy", "optuna", "sympy", "torch", "triton"})


def is_taken(name: str) -> bool:
    """True for Python's keywords, its standard modules and the modules that atlasgen stands on."""
    return keyword.iskeyword(name) or name in sys.stdlib_module_names or name in _USED_BY_ATLASGEN

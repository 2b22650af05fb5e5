"""Parts of atlasgen that a command needs and an installation may lack."""

from __future__ import annotations

import importlib
from typing import Any

from atlasgen.cli.console import SentenceError


def part(module: str, attribute: str, purpose: str) -> Any:
    """`attribute` of `module`. Raises SentenceError that says what cannot be done without it."""
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise SentenceError(f"{purpose} needs the package {error.name}: install it.") from None
        raise SentenceError(f"{purpose} is not part of this installation: it has no {module}.") from None
    if not hasattr(found, attribute):
        raise SentenceError(f"{purpose} is not part of this installation: {module} has no {attribute}.")
    return getattr(found, attribute)

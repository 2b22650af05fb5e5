"""Files that are there whole or not at all: written beside their place, then moved into it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to; its file takes the place of `path` on success and is removed otherwise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}{path.suffix}")
    try:
        yield beside
        with beside.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Writes a text file whole."""
    with replacing(path) as beside:
        beside.write_text(text, encoding="utf-8")


def save_checkpoint(path: Path, content: dict[str, Any]) -> None:
    """Writes tensors and plain values whole."""
    with replacing(path) as beside:
        torch.save(content, beside)


def load_checkpoint(path: Path, key: str) -> dict[str, Any] | None:
    """What was saved there under the same key, or None."""
    if not path.exists():
        return None
    content = torch.load(path, map_location="cpu", weights_only=True)
    return content if content.get("key") == key else None

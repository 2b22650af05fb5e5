"""Results as they come: one JSON object a line, so that nothing is lost when a stage is cut short."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class RowWriter:
    """Appends rows to a file; every row is on disk when `add` returns."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.stage = ""

    def add(self, kind: str, **content: Any) -> dict[str, Any]:
        """One row of the current stage; `content` is JSON-able."""
        row = {"stage": self.stage, "kind": kind, "time": round(time.time(), 2), **content}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        return row


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, without a last line that is not whole."""
    if not path.exists():
        return []
    rows = []
    for line in path.read_text("utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def same_kernels(job: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a check proves: the rule on a backend at a dtype and sizes."""
    return (job["rule"], job["backend"], job["dtype"], job["case"]["key"], job["case"]["value"])

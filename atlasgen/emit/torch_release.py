"""`del` statements for arrays that an emitted torch program has read for the last time.

The next array of the same size takes their memory while it is still in the cache, and a call's peak stays
below what the allocator gives back to the system after each call (and asks for anew at the next one).
"""

from __future__ import annotations

import ast
from collections.abc import Collection

from atlasgen.emit.naming import LINE


def with_releases(source: str, arrays: Collection[str]) -> str:
    """The source of one function, those of its variables that are in `arrays` deleted after their last use.

    Uses inside a loop count as uses of the loop; arguments of the function stay.
    """
    (function,) = ast.parse(source).body
    assert isinstance(function, ast.FunctionDef)
    last_use: dict[str, ast.stmt] = {}
    assigned: set[str] = set()
    for statement in function.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and node.id in arrays:
                last_use[node.id] = statement
                if isinstance(node.ctx, ast.Store):
                    assigned.add(node.id)
    released: dict[int, list[str]] = {}
    for name, statement in last_use.items():
        if name in assigned and not isinstance(statement, ast.Return):
            released.setdefault(statement.end_lineno or 0, []).append(name)
    lines: list[str] = []
    for number, line in enumerate(source.splitlines(), 1):
        lines.append(line)
        if number in released:
            lines += [f"    del {names}" for names in _rows(sorted(released[number]))]
    return "\n".join(lines) + "\n"


def _rows(names: list[str]) -> list[str]:
    """The names, separated by commas, in rows that fit a line."""
    rows = [names[0]]
    for name in names[1:]:
        if len(rows[-1]) + len(name) + 12 > LINE:
            rows.append(name)
        else:
            rows[-1] += f", {name}"
    return rows

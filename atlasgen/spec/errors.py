"""Near misses, and pydantic's errors put into the words of the rule file."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import ValidationError

from atlasgen.errors import AtlasgenError, CompileError, SpecError, shown
from atlasgen.spec.names import NAME_FORM, NAME_PATTERN

__all__ = [
    "AtlasgenError",
    "CompileError",
    "SpecError",
    "near_miss",
    "shown",
    "translated",
]

_TYPE_ERRORS = {
    "float_type": "a number",
    "int_type": "a whole number",
    "string_type": "a text",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
}
HUBER_DELTA = ("a number above 0", "the name of an input")
_TRANSFORMS = ('a list of tables, such as transform = [{ kind = "sign" }]',)


def near_miss(word: Any, candidates: Iterable[str]) -> str | None:
    """`Did you mean "x"?` for the candidate closest to `word`, or None."""
    if not isinstance(word, str) or not 3 <= len(word) <= 80:  # short words resemble too many
        return None
    folded = {candidate.lower(): candidate for candidate in candidates}
    close = difflib.get_close_matches(word.lower(), folded, n=1, cutoff=0.6)
    return f'Did you mean "{folded[close[0]]}"?' if close else None


def translated(error: ValidationError, table: dict[str, Any], known_keys: Any, file: str | None) -> SpecError:
    """One SpecError for all that pydantic found; the first field found leads.

    `known_keys(path)` gives the keys that the section at a path (tuple of str or int) may have.
    """
    grouped: dict[tuple[Any, ...], list[Any]] = {}
    for entry in error.errors(include_url=False):
        grouped.setdefault(_path_in(table, entry["loc"], entry["type"]), []).append(entry)
    found = [_one(path, entries, known_keys, file) for path, entries in grouped.items()]
    first = found[0]
    if len(found) == 1:
        return first
    return SpecError(
        first.field,
        first.reason,
        **({} if first.value is None else {"value": first.value}),
        allowed=first.allowed,
        suggestion=first.suggestion,
        file=file,
        others=found[1:8],
    )


def _path_in(table: Any, location: Sequence[Any], kind: str) -> tuple[Any, ...]:
    """The part of pydantic's location that exists in the file (union members and tags dropped)."""
    path: list[Any] = []
    here = table
    for part in location:
        inside = isinstance(here, dict) and part in here
        inside = inside or (isinstance(here, list) and isinstance(part, int) and part < len(here))
        if not inside:
            if kind == "missing":
                path.append(part)
                break
            continue
        path.append(part)
        here = here[part]
    return tuple(path)


def _one(path: tuple[Any, ...], entries: list[Any], known_keys: Any, file: str | None) -> SpecError:
    field = dotted(path)
    first = entries[0]
    if first["type"] == "extra_forbidden":
        keys = sorted(known_keys(path[:-1]))
        return SpecError(
            field,
            "unknown field",
            value=first["input"],
            allowed=keys,
            suggestion=near_miss(path[-1], keys),
            file=file,
        )
    if first["type"] == "missing":
        return SpecError(field, "this field is required here", suggestion=f"Add {path[-1]} = ...", file=file)
    allowed: list[str] = []
    reasons: list[str] = []
    for entry in entries:
        if entry["type"] == "literal_error":
            allowed += [word.strip(" '") for word in _split(entry["ctx"]["expected"])]
        elif entry["type"] in _TYPE_ERRORS:
            allowed.append(_TYPE_ERRORS[entry["type"]])
        elif entry["type"] == "string_pattern_mismatch":
            allowed.append(NAME_FORM if entry["ctx"]["pattern"] == NAME_PATTERN else "a name")
        else:
            if entry["type"] == "finite_number":
                allowed.append("a number")
            reasons.append(entry["msg"][0].lower() + entry["msg"][1:])
    if path[-1:] == ("delta",):
        allowed = list(HUBER_DELTA)
    elif path[-1:] == ("transform",):
        allowed = list(_TRANSFORMS)
    return SpecError(
        field,
        "; ".join(reasons) or "not a value of this field",
        value=first["input"],
        allowed=list(dict.fromkeys(allowed)),
        suggestion=near_miss(first["input"], [word for word in allowed if " " not in word]),
        file=file,
    )


def _split(expected: str) -> list[str]:
    return expected.replace(" or ", ", ").split(", ")


def dotted(path: Iterable[Any]) -> str:
    """("loss", 0, "kind") -> "loss[0].kind"."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else str(part))
    return text

"""The errors that atlasgen raises on purpose: what came, what is allowed, what to do next.

Every class keeps the parts of its message as attributes, so that tools (the command line, editors,
tests) need not read the text.
"""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import Any

_MISSING: Any = object()  # "no value to show", because None is a value a user can pass

_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = _repr.maxlong = 80
_repr.maxdict = _repr.maxlist = _repr.maxtuple = 6
_repr.maxlevel = 3


def shown(value: Any) -> str:
    """A short text of any value: bounded in length and depth, whatever a user passes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return _repr.repr(value).replace("'", '"') if isinstance(value, str) else _repr.repr(value)


def sentence(text: str) -> str:
    """The text with its full stop."""
    text = text.strip()
    return text if text.endswith((".", "?", "!")) else text + "."


class AtlasgenError(Exception):
    """Base class of the errors that atlasgen raises on purpose."""

    def __reduce__(self) -> Any:
        # Exceptions with keyword-only arguments cannot be rebuilt from `args`; worker processes
        # need it.
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(kind: type[AtlasgenError], args: tuple[Any, ...], content: dict[str, Any]) -> Any:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(content)
    return error


class SpecError(AtlasgenError, ValueError):
    """A rule file that cannot be read, or a rule whose fields contradict each other.

    Attributes: `file` (path or name, None for a rule made in Python), `field` (dotted path in the
    file, "" where the whole file is meant), `value` (what came), `allowed` (tuple of what may stand
    there), `reason`, `suggestion` (the next step), `others` (further errors found in the same
    reading).
    """

    def __init__(
        self,
        field: str,
        reason: str,
        *,
        value: Any = _MISSING,
        allowed: Sequence[str] = (),
        suggestion: str | None = None,
        file: str | None = None,
        others: Sequence[SpecError] = (),
    ) -> None:
        self.field, self.reason, self.suggestion, self.file = field, reason, suggestion, file
        self.value = None if value is _MISSING else value
        self.allowed = tuple(allowed)
        self.others = tuple(others)
        where = f"{file}: " if file else ""
        what = field if value is _MISSING else f"{field} = {shown(value)}".lstrip(" =")
        parts = [sentence(f"{where}{what}: {reason}" if what else f"{where}{reason}")]
        if self.allowed:
            parts.append(sentence("Allowed: " + ", ".join(self.allowed)))
        if suggestion:
            parts.append(sentence(suggestion))
        lines = [" ".join(parts)] + [str(other) for other in self.others]
        super().__init__("\n".join(lines))


class CompileError(AtlasgenError):
    """A valid rule that no schedule serves.

    Attributes: `field` and `value` (what is not served), `reason`, `nearest` (the nearest spec that
    is accepted: TOML text or the name of a shipped spec).
    """

    def __init__(self, field: str, value: Any, reason: str, nearest: str, *, rule: str | None = None) -> None:
        self.field, self.value, self.reason, self.nearest = field, value, reason, nearest
        self.rule = rule
        where = f"rule {rule}: " if rule else ""
        super().__init__(
            f"{where}{field} = {shown(value)} is not served: {sentence(reason)} "
            f"Nearest that is accepted: {nearest}"
        )


class ArgumentError(AtlasgenError, ValueError):
    """A wrong argument of an operator, layer or command.

    Attributes: `argument` (its name), `value` (what came, in short), `allowed` (what may be
    passed), `suggestion` (the next step).
    """

    def __init__(
        self,
        argument: str,
        reason: str,
        *,
        value: Any = _MISSING,
        allowed: str | None = None,
        suggestion: str | None = None,
    ) -> None:
        self.argument, self.reason, self.allowed = argument, reason, allowed
        self.suggestion = suggestion
        self.value = None if value is _MISSING else value
        came = "" if value is _MISSING else f" (got {shown(value)})"
        parts = [sentence(f"argument {argument}{came}: {reason}")]
        if allowed:
            parts.append(sentence(f"Allowed: {allowed}"))
        if suggestion:
            parts.append(sentence(suggestion))
        super().__init__(" ".join(parts))

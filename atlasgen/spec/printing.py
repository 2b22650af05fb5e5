"""Canonical TOML of a rule: the inverse of reading."""

from __future__ import annotations

import json
import re
from typing import Any

from atlasgen.spec.convert import to_table
from atlasgen.spec.rule import MemoryRule

_BARE_KEY = re.compile(r"^[A-Za-z0-9_-]+$")


def rule_to_toml(rule: MemoryRule) -> str:
    """The rule as the text of a rule file, without `extends`; reading it gives an equal rule.

    Only what differs from the defaults is written; the order is fixed, so equal rules give equal
    text.
    """
    table = to_table(rule)
    lines = [f"{key} = {toml_value(value)}" for key, value in table.items() if _is_plain(value)]
    for name, section in table.items():
        if isinstance(section, dict):
            lines += ["", f"[{name}]", *_entries(section)]
        elif isinstance(section, list):
            for item in section:
                lines += ["", f"[[{name}]]", *_entries(item)]
    return "\n".join(lines) + "\n"


def _is_plain(value: Any) -> bool:
    return not isinstance(value, (dict, list))


def _entries(section: dict[str, Any]) -> list[str]:
    return [f"{_key(key)} = {toml_value(value)}" for key, value in section.items()]


def _key(key: str) -> str:
    return key if _BARE_KEY.match(key) else toml_value(key)


def toml_value(value: Any) -> str:
    """One TOML value on one line: text, number, boolean, array or inline table."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # JSON's escapes are TOML's, but for DEL, which JSON leaves bare.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, list):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    if isinstance(value, dict):
        items = ", ".join(f"{_key(key)} = {toml_value(item)}" for key, item in value.items())
        return f"{{ {items} }}" if items else "{}"
    raise TypeError(f"no TOML form of {type(value).__name__}")

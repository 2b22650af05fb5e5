"""Shorthand and inheritance of rule files: plain tables in, plain tables out."""

from __future__ import annotations

from typing import Any

from atlasgen.spec.errors import SpecError, dotted
from atlasgen.spec.file_model import Section, section_at

_NO_DEPTH_BEYOND = 12  # no legal file nests deeper


def expanded(value: Any, path: tuple[Any, ...] = ()) -> Any:
    """The table with every section that is given as its main value (`loss = "l2"`) written out."""
    section = section_at(path)
    if section is not None and section.main is not None and not isinstance(value, (dict, list)):
        return {section.main: value}
    if len(path) >= _NO_DEPTH_BEYOND:
        return value
    if isinstance(value, dict):
        return {key: expanded(item, (*path, key)) for key, item in value.items()}
    if isinstance(value, list):
        return [expanded(item, (*path, index)) for index, item in enumerate(value)]
    return value


def merged(parent: Any, child: Any, path: tuple[Any, ...] = ()) -> Any:
    """`child` over `parent`, section by section; a list replaces.

    Where the child changes a section's `kind`, inherited keys that do not belong to the new kind
    are dropped: a matrix memory that extends a deep one has no depth.
    """
    if not (isinstance(parent, dict) and isinstance(child, dict)):
        return child
    section = section_at(path)
    kept = dict(parent)
    if section is not None and section.applies and child.get("kind") != parent.get("kind"):
        fitting = section.applies.get(_word(child.get("kind")))
        if "kind" in child and fitting is not None:
            kept = {key: item for key, item in parent.items() if key in fitting}
    result = dict(kept)
    for key, item in child.items():
        result[key] = merged(kept[key], item, (*path, key)) if key in kept else item
    return result


def refuse_inapplicable(value: Any, file: str | None, path: tuple[Any, ...] = ()) -> None:
    """SpecError for the first key that its section's kind does not have (a matrix's `depth`)."""
    if len(path) >= _NO_DEPTH_BEYOND:
        return
    if isinstance(value, list):
        for index, item in enumerate(value):
            refuse_inapplicable(item, file, (*path, index))
    if not isinstance(value, dict):
        return
    section = section_at(path)
    if section is not None and section.applies:
        _refuse_keys(section, value, file, path)
    for key, item in value.items():
        refuse_inapplicable(item, file, (*path, key))


def _refuse_keys(
    section: type[Section], value: dict[str, Any], file: str | None, path: tuple[Any, ...]
) -> None:
    kind = _word(value.get("kind", section.model_fields["kind"].default))
    fitting = section.applies.get(kind)
    if fitting is None:  # an unknown kind: the model says so
        return
    known = section.keys()
    for key in value:
        if key == "kind" or key in fitting or key not in known:
            continue
        default = section.model_fields[key].default if key in section.model_fields else None
        if type(value[key]) is type(default) and value[key] == default:
            continue  # says nothing: `theta = "none"` of plain descent
        owners = [name for name, keys in section.applies.items() if key in keys]
        where = dotted(path)
        raise SpecError(
            dotted((*path, key)),
            f'"{key}" does not belong to {where}.kind = "{kind}"',
            value=value[key],
            allowed=sorted(fitting) or ["no further keys"],
            suggestion=f"Remove it, or set {where}.kind to {' or '.join(owners)}",
            file=file,
        )


def _word(value: Any) -> str:
    return value if isinstance(value, str) else ""

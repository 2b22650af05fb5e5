"""Rule files to memory rules: finding, reading, inheriting, validating."""

from __future__ import annotations

import dataclasses
import difflib
import importlib.resources
import json
import os
import re
import tomllib
from collections.abc import Mapping
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from atlasgen.errors import ArgumentError
from atlasgen.spec.checks import check_rule
from atlasgen.spec.convert import to_rule, to_table
from atlasgen.spec.errors import SpecError, near_miss, translated
from atlasgen.spec.file_model import SECTIONS, RuleFile, known_keys
from atlasgen.spec.merge import expanded, merged, refuse_inapplicable
from atlasgen.spec.names import is_taken
from atlasgen.spec.rule import MemoryRule

MAX_FILE_BYTES = 256 * 1024
MAX_ANCESTORS = 16
_NEAR_MISSES = 3  # names beside the shipped ones that a refused `extends` offers


def specs_folder() -> Traversable:
    """The folder of the shipped rule files: atlasgen/specs in a wheel, specs in a checkout."""
    installed = importlib.resources.files("atlasgen").joinpath("specs")
    if installed.is_dir():
        return installed
    return Path(__file__).resolve().parents[2] / "specs"


def shipped_specs() -> list[str]:
    """The names of the shipped rules, sorted."""
    names = (item.name for item in specs_folder().iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def spec_text(name: str) -> str:
    """The text of the shipped rule file `name`; SpecError with the nearest name if it is none."""
    names = shipped_specs()
    if name not in names:
        raise SpecError(
            "rule",
            "no shipped rule of this name",
            value=name,
            allowed=names,
            suggestion=near_miss(name, names) or "Pass the path of a .toml file for your own rule",
        )
    return specs_folder().joinpath(f"{name}.toml").read_text(encoding="utf-8")


def load_rule(path_or_name: str | os.PathLike[str] | MemoryRule) -> MemoryRule:
    """The rule in a file, or the shipped rule of that name.

    A text that ends in .toml or contains a path separator, and any Path, is a file; other texts are
    names. Raises SpecError that names file, field, value, what is allowed and the next step. A
    MemoryRule is checked and an equal one returned. Anything else raises ArgumentError.
    """
    if isinstance(path_or_name, MemoryRule):
        # Through the file's models: what a file could not say, a rule made in Python may not hold.
        rule, source = path_or_name, path_or_name.source
        checked = _rule(to_table(rule), source or f"rule {rule.name}", None, None)
        return dataclasses.replace(checked, source=source)
    if not isinstance(path_or_name, (str, os.PathLike)):
        raise ArgumentError(
            "rule",
            "not a rule",
            value=path_or_name,
            allowed="a MemoryRule, the path of a .toml file, or the name of a shipped rule",
            suggestion="For a table of Python values use atlasgen.spec.rule_from_table",
        )
    text = os.fspath(path_or_name)
    is_name = isinstance(path_or_name, str) and not text.endswith(".toml")
    if is_name and "/" not in text and os.sep not in text:
        content = spec_text(text)
        file = f"specs/{text}.toml"
        return _rule(_parsed(content, file), file, None, None)
    path = Path(text)
    return _rule(_parsed(_read(path), str(path)), str(path), path.parent, None)


def rule_from_table(
    table: Mapping[str, Any],
    source: str | None = None,
    *,
    library: Mapping[str, Mapping[str, Any]] | None = None,
) -> MemoryRule:
    """The rule that a parsed TOML table says (not modified).

    `source` is the file's path: it appears in messages, gives the name of a rule without `rule =
    ...`, and its folder is searched for `extends`. `library` holds tables that `extends` finds
    first. Raises SpecError.
    """
    folder = None if source is None else Path(source).parent
    return _rule(dict(table), source, folder, library)


def json_schema() -> dict[str, Any]:
    """JSON schema of a rule file, for editors, with every section's shorthand and `extends`."""
    schema = RuleFile.model_json_schema(by_alias=True)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "atlasgen memory rule"
    schema["properties"]["extends"] = {
        "type": "string",
        "description": "Name of the rule this file changes, section by section.",
    }
    schema.pop("required", None)  # the name defaults to the file's
    for name, section in {item.__name__: item for item in SECTIONS.values()}.items():
        definition = schema["$defs"].get(name)
        if definition is None or section.main is None:
            continue
        definition.pop("description", None)
        main = definition["properties"][section.main]
        short = {key: item for key, item in main.items() if key not in ("default", "title")}
        schema["$defs"][name] = {
            "description": (section.__doc__ or "").strip(),
            "anyOf": [short, definition],
        }
    return schema


def schema_text() -> str:
    """The text of specs/schema.json."""
    return json.dumps(json_schema(), indent=2, sort_keys=True) + "\n"


# --------------------------------------------------------------------------------------------------


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise SpecError("", f"a rule file has at most {MAX_FILE_BYTES} bytes", file=str(path))
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SpecError("", f"not UTF-8 text ({error.reason})", file=str(path)) from None
    except OSError as error:
        names = [item.stem for item in path.parent.glob("*.toml")] if path.parent.is_dir() else []
        raise SpecError(
            "",
            f"cannot be read ({error.strerror or error})",
            suggestion=near_miss(path.stem, [*names, *shipped_specs()]),
            file=str(path),
        ) from None


def _parsed(text: str, file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SpecError("", f"not TOML: {error}", file=file) from None
    except RecursionError:
        raise SpecError("", "not a rule: nested too deeply", file=file) from None


def _rule(
    table: dict[str, Any],
    source: str | None,
    folder: Path | None,
    library: Mapping[str, Mapping[str, Any]] | None,
) -> MemoryRule:
    if "rule" not in table:
        table = {"rule": _name_of(source), **table}
    whole = _inherited(table, source, folder, library, ())
    try:
        content = RuleFile.model_validate(whole)
    except ValidationError as error:
        raise translated(error, whole, known_keys, source) from None
    rule = to_rule(content, source)
    check_rule(rule)
    return rule


def _name_of(source: str | None) -> str:
    stem = "rule" if source is None else Path(source).stem
    name = re.sub(r"[^a-z0-9_]", "_", stem.lower())
    return name if name[:1].isalpha() and not is_taken(name) else f"rule_{name}"


def _inherited(
    table: dict[str, Any],
    source: str | None,
    folder: Path | None,
    library: Mapping[str, Mapping[str, Any]] | None,
    chain: tuple[str, ...],
) -> dict[str, Any]:
    """The table with its ancestors merged below it and shorthand written out."""
    own = {key: value for key, value in table.items() if key != "extends"}
    own = expanded(own)
    parent_name = table.get("extends")
    if parent_name is None:
        refuse_inapplicable(own, source)
        return own
    if not isinstance(parent_name, str):
        raise SpecError("extends", "the name of a rule is a text", value=parent_name, file=source)
    _refuse_itself(parent_name, source, library, chain)
    if parent_name in chain or len(chain) >= MAX_ANCESTORS:
        raise SpecError(
            "extends",
            "rules extend each other in a circle: " + " -> ".join([*chain, parent_name]),
            value=parent_name,
            suggestion="Write one of them out without extends",
            file=source,
        )
    parent, parent_source = _find(parent_name, source, folder, library)
    base = _inherited(parent, parent_source, folder, library, (*chain, parent_name))
    for key in ("rule", "doc"):  # a rule's name and description are its own
        base.pop(key, None)
    whole = merged(base, own)
    refuse_inapplicable(whole, source)
    return whole


def _refuse_itself(
    name: str, source: str | None, library: Mapping[str, Mapping[str, Any]] | None, chain: tuple[str, ...]
) -> None:
    """SpecError for a file that names itself, unless a shipped rule or the library has the name."""
    own = chain[-1] if chain else None if source is None else Path(source).stem
    if name == own and (chain or name not in (*shipped_specs(), *(library or ()))):
        raise SpecError(
            "extends",
            "the rule extends itself",
            value=name,
            suggestion="Name another rule, or remove extends",
            file=source,
        )


def _find(
    name: str,
    source: str | None,
    folder: Path | None,
    library: Mapping[str, Mapping[str, Any]] | None,
) -> tuple[dict[str, Any], str]:
    if library is not None and name in library:
        return dict(library[name]), name
    beside = None if folder is None else folder / f"{name}.toml"
    is_itself = beside is not None and source is not None and beside == Path(source)
    if beside is not None and not is_itself and re.fullmatch(r"\w+", name) and beside.is_file():
        return _parsed(_read(beside), str(beside)), str(beside)
    if name in shipped_specs():
        return _parsed(spec_text(name), f"specs/{name}.toml"), f"specs/{name}.toml"
    known = {*shipped_specs(), *(library or ())}
    if folder is not None and folder.is_dir():
        known |= {item.stem for item in folder.glob("*.toml")} - {"pyproject"}
    bare = Path(name).name.removesuffix(".toml")
    if bare != name and bare in known:
        suggestion = f'Write the name alone, without folder and .toml: extends = "{bare}"'
    else:
        suggestion = near_miss(bare, known)
    close = difflib.get_close_matches(bare, known, n=_NEAR_MISSES)
    raise SpecError(
        "extends",
        "no rule of this name beside the file or among the shipped ones",
        value=name,
        allowed=sorted({*shipped_specs(), *close}),
        suggestion=suggestion,
        file=source,
    )

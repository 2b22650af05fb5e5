"""Files of tuned configurations: one per target and rule, shipped ones and the user's own.

A file holds entries; an entry is one configuration with what it is for and the evidence for it. The user's
folder (ATLASGEN_TUNED_DIR, by default in the user's data) comes before what is shipped.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import platformdirs
from filelock import FileLock

from atlasgen.runtime.cache import cache_folder, cache_key

DEFAULTS = "default"  # the file of configurations for rules that have no results of their own


@dataclass(frozen=True)
class Entry:
    """One tuned configuration.

    source: hash of the kernels' text (configuration.source_key). dtype: of q, k, v. key, value: sizes, powers
    of two. triton: versions that it holds for, from the first up to, not including, the second.
    shared_bytes: the most that one of its kernels needs. configuration: as Configuration.to_table.
    evidence: objective, seconds, figures of every kernel, and how it was checked.
    """

    source: str
    dtype: str
    key: int
    value: int
    triton: tuple[str, str]
    shared_bytes: int
    configuration: Mapping[str, Any] = field(hash=False)
    evidence: Mapping[str, Any] = field(hash=False)

    def serves(self, version: str) -> bool:
        """True if the entry was made for that version of Triton."""
        low, high = (_numbers(bound) for bound in self.triton)
        return low <= _numbers(version) < high

    @property
    def slot(self) -> tuple[str, int, int]:
        """Entries of one slot replace each other."""
        return (self.dtype, self.key, self.value)


def version_range(version: str) -> tuple[str, str]:
    """The minor release of a version: ("3.9", "3.10") for 3.9.1."""
    major, minor = _numbers(version)
    return f"{major}.{minor}", f"{major}.{minor + 1}"


def _numbers(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int("".join(digit for digit in minor if digit.isdigit()) or 0)


def tuned_folder() -> Path:
    """ATLASGEN_TUNED_DIR where it is set, else a folder of the user's data."""
    chosen = os.environ.get("ATLASGEN_TUNED_DIR")
    return Path(chosen) if chosen else platformdirs.user_data_path("atlasgen") / "tuned"


def shipped_folder() -> Path:
    """The results that come with the package."""
    return Path(str(resources.files("atlasgen.autotune"))) / "results"


@lru_cache(maxsize=512)
def read_entries(target: str, rule: str) -> tuple[Entry, ...]:
    """All entries of a rule on a target, the user's own first; damaged files count as empty."""
    return (*read_file(tuned_folder() / target / f"{rule}.json"), *_shipped(target, rule))


def _shipped(target: str, rule: str) -> tuple[Entry, ...]:
    try:
        return read_file(shipped_folder() / target / f"{rule}.json")
    except ModuleNotFoundError:
        return ()  # an installation without the tuner


def read_file(path: Path) -> tuple[Entry, ...]:
    """The entries of one file; none where it is not there or is not readable."""
    try:
        table = json.loads(path.read_text("utf-8"))
        return tuple(_entry(entry) for entry in table["entries"])
    except (OSError, ValueError, KeyError, TypeError):
        return ()


def _entry(table: dict[str, Any]) -> Entry:
    low, high = table.pop("triton")
    entry = Entry(**table, triton=(str(low), str(high)))
    entry.serves("0.0")  # ValueError for a range that is none
    return entry


def write_entries(path: Path, rule: str, target: str, entries: Iterable[Entry]) -> None:
    """Put entries into a file, each in the place of the old one of its slot; the file is replaced whole.

    One process at a time changes a file. Raises OSError where the folder cannot be written.
    """
    with _locked(path):
        _write(path, rule, target, entries)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """A lock beside the caches, not beside the file; none where there can be no cache."""
    folder = cache_folder() / "locks"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / f"{cache_key(str(path.absolute()))[:32]}.lock")
        lock.acquire()
    except OSError:
        yield
        return
    try:
        yield
    finally:
        lock.release()


def _write(path: Path, rule: str, target: str, entries: Iterable[Entry]) -> None:
    slots = {entry.slot: entry for entry in (*read_file(path), *entries)}
    content = [asdict(slots[slot]) for slot in sorted(slots)]
    text = json.dumps({"rule": rule, "target": target, "entries": content}, indent=1) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.read_text("utf-8") == text:
        return
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".new")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise

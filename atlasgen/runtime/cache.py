"""Results on disk that are safe to lose: one JSON file per key, found by several processes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import platformdirs


def cache_folder() -> Path:
    """ATLASGEN_CACHE_DIR where it is set, else the user's cache folder."""
    chosen = os.environ.get("ATLASGEN_CACHE_DIR")
    return Path(chosen) if chosen else Path(platformdirs.user_cache_dir("atlasgen"))


def cache_key(content: Any) -> str:
    """A name for JSON-able content: equal content, equal key, whatever the order of dict keys."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


class DiskCache:
    """JSON values of one kind, by key. A folder that cannot be written is a cache that forgets.

    Files are replaced whole, never written in place, so that readers need no lock and two writers
    of one key leave the file of one of them.
    """

    def __init__(self, kind: str, folder: Path | None = None) -> None:
        self.folder = (folder or cache_folder()) / kind

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"

    def load(self, key: str) -> Any | None:
        """The stored value; None where there is none or the file is damaged."""
        try:
            return json.loads(self._path(key).read_text("utf-8"))
        except (OSError, ValueError):
            return None

    def store(self, key: str, value: Any) -> None:
        """Keep a JSON-able value; does nothing where the folder cannot be written."""
        path = self._path(key)
        text = json.dumps(value, indent=1, sort_keys=True)
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".new")
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    file.write(text)
                os.replace(temporary, path)
            except OSError:
                os.unlink(temporary)
                raise

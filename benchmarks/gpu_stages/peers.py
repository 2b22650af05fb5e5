"""flash-linear-attention's kernels for the same rules, in the same process."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

Peer = Callable[[Mapping[str, Tensor], float], Tensor]


def peer_of(rule: str) -> Peer | None:
    """y = peer(arguments, scale) for the rules that flash-linear-attention has, else None.

    Raises ImportError where it is not installed.
    """
    if rule not in ("simple_gla", "retnet"):
        return None
    # The package imports its layers and models, which need more than kernels do, where it finds them.
    for name in ("fla.layers", "fla.models"):
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]
    if rule == "simple_gla":
        kernel = importlib.import_module("fla.ops.simple_gla").chunk_simple_gla
        return lambda x, scale: kernel(x["q"], x["k"], x["v"], g=x["log_alpha"], scale=scale)[0]
    kernel = importlib.import_module("fla.ops.retention").chunk_retention
    return lambda x, scale: kernel(x["q"], x["k"], x["v"], scale=scale)[0]


def version() -> dict[str, Any]:
    """The peer's version, or why there is none."""
    try:
        peer_of("simple_gla")
        return {"peer": f"flash-linear-attention {importlib.import_module('fla').__version__}"}
    except Exception as error:
        return {"peer": None, "reason": f"{type(error).__name__}: {error}"[:300]}

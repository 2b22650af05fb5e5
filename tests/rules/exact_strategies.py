"""Rules that take one token at a time: the wide space with blocks of one token, and what only they have.

Windows over several borders, decays before the error, gates per channel, clipped windows, projections, links
and a momentum that looks ahead, drawn at random. Most choices are mended as those of the wide space are.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from tests.rules.strategies import Choice, Drawn
from tests.rules.wide_strategies import MENDED, WIDE_FIELDS, is_square, mended, wide_table

CHANNELS = {"key": {"kind": "channel"}, "value": {"kind": "channel", "axis": "value"}}
LINKS: dict[str, dict[str, Any]] = {
    "qnorm": {"kind": "qnorm", "q": 4},
    "softmax": {"kind": "softmax", "axis": "column"},
    "tanh": {"kind": "expr", "expression": "tanh(A)"},
}
_WITHOUT_LINK = {name: values for name, values in WIDE_FIELDS.items() if name != "link"}
EXACT_FIELDS: dict[str, tuple[str, ...]] = _WITHOUT_LINK | {
    "memory": ("matrix", "matrix", "matrix", "mlp 1", "mlp 2", "gated_mlp", "graph skip", "graph sum"),
    "block": ("1",),
    "update": ("token",),
    "window": ("1", "1", "2", "4"),
    "boundary": ("halo", "halo", "truncate", "carry"),
    "lr": ("number", "head", "token", "key", "value"),
    "retention": ("none", "constant", "head", "token", "key", "value"),
    "order": ("error_first", "decay_first"),
    "nesterov": ("no", "no", "yes"),
    "clip": ("none", "none", "token", "window"),
    "project": ("none", "none", "ball", "clamp"),
    "link": ("none", "none", "qnorm", "softmax", "tanh"),
}


def mended_exact(choice: Mapping[str, str]) -> Choice:
    """The choice with neutral values where two exclude each other."""
    kept = {"window": choice["window"], "project": choice["project"]}
    found = mended({**choice, "project": "none"}) | kept
    if found["window"] != "1" and found["boundary"] == "carry":
        found["boundary"] = "halo"
    single = found["memory"] == "matrix" and found["bias"] == "no"
    for name in ("lr", "retention"):
        own = single and (found[name] == "value" or not found["features"].startswith("poly"))
        if found[name] in CHANNELS and not own:
            found[name] = "token"
    if found["optimizer"] == "gd":
        found["nesterov"] = "no"
    if found["link"] != "none" and found["clip"] == "token":
        found["clip"] = "window"
    return found


def exact_table(choice: Mapping[str, str]) -> dict[str, Any]:
    """The spec file's table of a choice."""
    plain = dict(choice) | {"project": "none"}
    plain |= {name: "token" for name in ("lr", "retention") if choice[name] in CHANNELS}
    table = wide_table(plain)
    if choice["lr"] in CHANNELS:
        table["optimizer"]["lr"] = choice["lr"]
    table["retention"] |= CHANNELS.get(choice["retention"], {}) | {"order": choice["order"]}
    if choice["project"] != "none":
        table["retention"]["project"] = {"kind": choice["project"], "radius": 0.5}
    if choice["nesterov"] == "yes":
        table["optimizer"]["nesterov"] = True
    if choice["clip"] == "window":
        table["optimizer"]["clip"] = {"norm": 0.4, "of": "window"}
    if choice["link"] != "none":
        table["memory"]["link"] = LINKS[choice["link"]]
    return table


def drawn_exact_calls(count: int, number: int = 11) -> list[Drawn]:
    """`count` independent short calls, the same in every process for the same seed `number`."""
    numbers = random.Random(number)
    found = []
    for _ in range(count):
        choice = {name: numbers.choice(values) for name, values in EXACT_FIELDS.items()}
        choice = mended_exact(choice) if numbers.random() < MENDED else choice
        K, T = numbers.choice([3, 4]), numbers.choice([1, 2, 5, 9])
        found.append(
            Drawn(
                choice=tuple(sorted(choice.items())),
                T=T,
                B=numbers.choice([1, 2]),
                H=numbers.choice([1, 2]),
                K=K,
                V=K if is_square(choice) else numbers.choice([3, 5]),
                start=numbers.choice(["fresh", "state"]),
                splits=tuple(sorted(numbers.randint(0, T) for _ in range(numbers.randint(0, 2)))),
                seed=numbers.randint(0, 2**16),
            )
        )
    return found

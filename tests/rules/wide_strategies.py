"""Memories, features, updates and reads beyond one matrix: a second space of choices, drawn at random.

A *choice* gives each field of `WIDE_FIELDS` one of its values. Most drawn choices are *mended*: where two
values exclude each other by the grammar, one becomes neutral, so that most rules are served. The rest stay as
they are drawn, and many of those (a retention under a row factor, say) are refused with a reason.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from tests.rules.strategies import Choice, Drawn

MENDED = 0.9  # of all choices

WIDE_FIELDS: dict[str, tuple[str, ...]] = {
    "memory": (
        "matrix", "mlp 1", "mlp 2", "mlp 3", "mlp 4", "gated_mlp", "swiglu",
        "graph gated", "graph skip", "graph sum", "graph norm",
    ),
    "hidden": ("K + 1", "2*K"),
    "act": ("gelu", "silu", "tanh", "softplus", "sin"),
    "bias": ("no", "yes"),
    "norm": ("none", "none", "layer", "rms"),
    "residual": ("none", "none", "x", "key"),
    "initial": ("learned", "given", "normal", "zero"),
    "features": ("identity", "identity", "silu", "poly symmetric", "poly kronecker", "poly powers"),
    "degree": ("2", "3"),
    "coefficients": ("taylor", "fixed", "learned"),
    "loss": ("dot", "l2", "l2", "huber token", "logcosh", "row"),
    "target": ("v", "v", "v - k"),
    "window": ("1", "1", "2", "3"),
    "gate": ("none", "token", "pair", "position"),
    "boundary": ("halo", "carry", "truncate"),
    "block": ("1", "3", "4", "5"),
    "update": (
        "token", "token", "block", "block momentum", "block mean", "block mean momentum", "block skip",
        "rows position", "rows token",
    ),
    "optimizer": ("gd", "momentum number", "momentum head", "momentum token"),
    "lr": ("number", "head", "token", "token"),
    "lr_at": ("update", "gradient"),
    "transform": (
        "none", "none", "newton_schulz", "newton_schulz", "sign", "frobenius", "expr", "newton_schulz expr",
    ),
    "straight": ("full", "full", "straight_through"),
    "clip": ("none", "none", "none", "token"),
    "link": ("none", "none", "none", "none", "softmax row", "softmax column", "qnorm", "expr"),
    "retention": ("none", "constant", "head", "token"),
    "toward": ("zero", "initial"),
    "project": ("none", "none", "row_norm"),
    "at": ("post", "post", "pre", "block"),
    "read": ("plain", "plain", "z + norm(z)", "z * sigmoid(q)", "scaled"),
    "first": ("as rule", "as rule", "lr", "theta", "retention", "transform"),
    "last": ("as rule", "as rule", "lr", "theta", "retention", "transform"),
}  # fmt: skip

_GRAPHS: dict[str, dict[str, Any]] = {
    "gated": {
        "f": "W1 @ (ACT(W2 @ x) * (W3 @ x))",
        "weights": {"W1": ["V", "HIDDEN"], "W2": ["HIDDEN", "F"], "W3": ["HIDDEN", "F"]},
    },
    "skip": {
        "f": "A @ x + W1 @ (x + ACT(W2 @ x))",
        "weights": {"A": ["V", "F"], "W1": ["V", "F"], "W2": ["F", "F"]},
    },
    "sum": {"f": "A @ x + B @ x", "weights": {"A": ["V", "F"], "B": ["V", "F"]}},
    "norm": {
        "f": "W1 @ rms_norm(W2 @ x) + layer_norm(A @ x)",
        "weights": {"A": ["V", "F"], "W1": ["V", "HIDDEN"], "W2": ["HIDDEN", "F"]},
    },
}
_WEIGHTS = {"graph gated": ("W1", "W3"), "graph skip": ("A", "W2"), "graph sum": ("A", "B"),
            "graph norm": ("A", "W2"), "matrix": ("M", "b")}  # fmt: skip
_LOSSES: dict[str, dict[str, Any]] = {
    "huber token": {"kind": "huber", "delta": "delta"},
    "logcosh": {"kind": "expr", "expression": "log(cosh(pred - v))"},
    "row": {"kind": "expr", "per": "row", "expression": "sqrt(1 + norm**2)"},
}


def mended(choice: Mapping[str, str]) -> Choice:
    """The choice with neutral values where two exclude each other by the grammar."""
    found = dict(choice)
    memory, update = found["memory"], found["update"]
    if memory not in ("matrix", "mlp 1", "graph sum") or found["project"] == "row_norm":
        found["initial"] = "learned" if found["initial"] == "zero" else found["initial"]
    if memory.startswith("graph"):
        found |= {"bias": "no", "residual": "none"}
    if found["residual"] == "x" and found["features"] in ("poly symmetric", "poly kronecker"):
        found["residual"] = "key"
    if found["residual"] != "none" or memory.startswith("graph"):
        found["target"] = "v"
    if found["loss"] == "dot":
        found["clip"] = "none"
    if update.endswith("momentum") and found["optimizer"] == "gd":
        found["optimizer"] = "momentum token"
    if not update.startswith("block"):
        found["project"] = "none"
    if found["link"] != "none":
        found["clip"] = "none" if found["clip"] == "token" else found["clip"]
        found["update"] = "token" if update.startswith("rows") else update
    if found["update"].startswith("rows"):
        found |= {"retention": "none", "transform": "none", "at": "post"}
        found |= {name: "lr" for name in ("first", "last") if found[name] in ("retention", "transform")}
    if int(found["window"]) > int(found["block"]):
        found["window"] = found["block"]
    if found["optimizer"] == "gd":
        found |= {name: "lr" for name in ("first", "last") if found[name] == "theta"}
    return found


def is_square(choice: Mapping[str, str]) -> bool:
    """True where the rule needs values of the size of keys."""
    return choice["residual"] != "none" or choice["target"] == "v - k" or choice["read"] == "z * sigmoid(q)"


def wide_table(choice: Mapping[str, str]) -> dict[str, Any]:
    """The spec file's table of a choice."""
    window: dict[str, Any] = {"length": int(choice["window"]), "gate": choice["gate"]}
    read: dict[str, Any] = {"at": choice["at"]}
    if choice["read"] == "scaled":
        read["scale"] = "K**-0.5"
    elif choice["read"] != "plain":
        read["f"] = choice["read"]
    retention = _retention(choice["retention"]) | {"toward": choice["toward"]}
    if choice["project"] != "none":
        retention["project"] = {"kind": "row_norm", "to": "initial"}
    table: dict[str, Any] = {
        "rule": "drawn",
        "memory": _memory(choice),
        "features": _features(choice),
        "loss": _LOSSES.get(choice["loss"], {"kind": choice["loss"]}) | {"target": choice["target"]},
        "window": window | {"boundary": choice["boundary"]},
        "block": _block(choice),
        "optimizer": _optimizer(choice),
        "retention": retention,
        "read": read,
        "gradient": {"newton_schulz": choice["straight"]},
        "weights": _overrides(choice),
    }
    if choice["loss"] == "huber token":
        table["inputs"] = {"delta": {"shape": "token", "range": "positive"}}
    return table


def _memory(choice: Mapping[str, str]) -> dict[str, Any]:
    kind, _, which = choice["memory"].partition(" ")
    common: dict[str, Any] = {name: choice[name] for name in ("norm", "initial")} | {
        "link": _link(choice["link"])
    }
    if kind == "graph":
        graph = _GRAPHS[which]
        sizes = {
            name: [size.replace("HIDDEN", choice["hidden"]) for size in shape]
            for name, shape in graph["weights"].items()
        }
        return {"kind": kind, "f": graph["f"].replace("ACT", choice["act"]), "weights": sizes, **common}
    table: dict[str, Any] = {"kind": kind, **common, "residual": choice["residual"]}
    table["bias"] = choice["bias"] == "yes"
    if kind != "matrix":
        table["hidden"] = choice["hidden"]
    if kind == "mlp":
        table["depth"] = int(which)
    if kind in ("mlp", "gated_mlp"):
        table["act"] = choice["act"]
    return table


def _link(words: str) -> dict[str, Any]:
    kind, _, axis = words.partition(" ")
    more = {"softmax": {"axis": axis}, "qnorm": {"q": 3}, "expr": {"expression": "tanh(A)"}}
    return {"kind": kind, **more.get(kind, {})}


def _features(choice: Mapping[str, str]) -> dict[str, Any]:
    kind, _, basis = choice["features"].partition(" ")
    if not basis:
        return {"kind": kind}
    degree = int(choice["degree"])
    numbers = {"fixed": [0.5, 0.0, 0.3, 0.2][: degree + 1]}
    coefficients = numbers.get(choice["coefficients"], choice["coefficients"])
    return {"kind": kind, "basis": basis, "degree": degree, "coefficients": coefficients}


def _block(choice: Mapping[str, str]) -> dict[str, Any]:
    word, *more = choice["update"].split()
    table: dict[str, Any] = {"size": int(choice["block"])}
    if word == "rows":
        return table | {"row_scale": more[0]}
    if word == "block":
        table |= {"write": "block", "momentum": "block" if "momentum" in more else "token"}
        table |= {"gate_pool": "mean" if "mean" in more else "last"}
        table |= {"partial": "skip" if "skip" in more else "update"}
    return table


def _transforms(words: str, choice: Mapping[str, str]) -> list[dict[str, Any]]:
    at = "block" if choice["update"].startswith("block") else "token"
    table = {"newton_schulz": {"steps": 3}, "expr": {"expression": "S / (1 + abs(S))"}}
    return [{"kind": word, "at": at, **table.get(word, {})} for word in words.split() if word != "none"]


def _optimizer(choice: Mapping[str, str]) -> dict[str, Any]:
    kind, _, theta = choice["optimizer"].partition(" ")
    table: dict[str, Any] = {"kind": kind, "lr_at": choice["lr_at"]}
    table["lr"] = 0.02 if choice["lr"] == "number" else choice["lr"]
    table["transform"] = _transforms(choice["transform"], choice)
    if theta:
        table["theta"] = 0.6 if theta == "number" else theta
    if choice["clip"] == "token":
        table["clip"] = {"norm": 0.4, "of": "token"}
    return table


def _retention(kind: str) -> dict[str, Any]:
    return {"kind": kind, "value": 0.95} if kind == "constant" else {"kind": kind}


def _overrides(choice: Mapping[str, str]) -> dict[str, Any]:
    """Sections of the first and the last weight of the memory."""
    kind, _, depth = choice["memory"].partition(" ")
    first, last = _WEIGHTS.get(choice["memory"], ("W1", f"W{depth or 3}"))
    if choice["bias"] == "yes" and kind != "matrix":
        last = "b1"
    elif choice["bias"] == "no" and kind == "matrix":
        last = "M"
    ways: dict[str, dict[str, Any]] = {
        "lr": {"lr": "head"},
        "theta": {"theta": 0.3},
        "retention": {"retention": {"kind": "token"}},
        "transform": {"transform": _transforms("frobenius", choice)},
    }
    chosen = {last: ways.get(choice["last"], {}), first: ways.get(choice["first"], {})}
    return {name: section for name, section in chosen.items() if section}


def _drawn(numbers: random.Random) -> Drawn:
    """A short call of a mended choice; K and V are small, equal where the rule adds keys to values."""
    choice = {name: numbers.choice(values) for name, values in WIDE_FIELDS.items()}
    choice = mended(choice) if numbers.random() < MENDED else choice
    K, V, block = numbers.choice([3, 4]), numbers.choice([3, 5]), int(choice["block"])
    T = numbers.choice([1, block, block + 1, 2 * block + 1, 3 * block])
    return Drawn(
        choice=tuple(sorted(choice.items())),
        T=T,
        B=numbers.choice([1, 2]),
        H=numbers.choice([1, 2]),
        K=K,
        V=K if is_square(choice) else V,
        start=numbers.choice(["fresh", "fresh", "state"]),
        splits=tuple(sorted(numbers.randint(0, T) for _ in range(numbers.randint(0, 2)))),
        seed=numbers.randint(0, 2**16),
    )


def drawn_wide_calls(count: int, number: int = 5) -> list[Drawn]:
    """`count` independent calls, the same in every process for the same seed `number`."""
    numbers = random.Random(number)
    return [_drawn(numbers) for _ in range(count)]

"""The served part of the spec language as a finite space of choices, with its random members.

A *choice* gives each field of `FIELDS` one of its values; `table_of` writes it as the table of a
spec file. `choices` draws them, `all_pairs` lists few of them in which every pair of values occurs.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

Choice = dict[str, str]
Pair = tuple[tuple[str, str], tuple[str, str]]

FIELDS: dict[str, tuple[str, ...]] = {
    "initial": ("zero", "learned", "given"),
    "features": ("identity", "relu", "elu1", "silu", "l2norm", "softmax", "tanh", "bump"),
    "on": ("qk", "q", "k"),
    "loss": (
        "dot", "l2", "huber", "huber head", "huber token", "lp 3", "lp 2.5", "lp 1.5 eps", "logcosh",
        "expectile", "expr head", "expr token", "two terms",
    ),  # fmt: skip
    "per": ("element", "row"),
    "window": ("one", "two", "inside", "block"),
    "gate": ("none", "token", "pair", "position"),
    "normalise": ("sum", "mean"),
    "boundary": ("halo", "carry", "truncate"),
    "block": ("1", "2", "5", "16", "17", "33", "64"),
    "optimizer": ("gd", "momentum number", "momentum head", "momentum token"),
    "lr": ("none", "number", "head", "token"),
    "lr_at": ("update", "gradient"),
    "retention": ("none", "constant", "constant head", "head", "token"),
    "toward": ("zero", "initial"),
    "at": ("post", "pre"),
    "scale": ("1", "0.5", "K**-0.5"),
    "normaliser": ("none", "sum"),
}  # fmt: skip

# Losses by their choice: what the file says per element and per row.
_ELEMENT: dict[str, dict[str, Any]] = {
    "logcosh": {"kind": "expr", "expression": "log(cosh(pred - v))"},
    "expectile": {
        "kind": "expr",
        "expression": "where(pred > v, 0.5 * (pred - v)**2, 0.2 * (pred - v)**2)",
    },
    "expr head": {"kind": "expr", "expression": "sqrt(width + (pred - v)**2)"},
    "expr token": {"kind": "expr", "expression": "width * softplus(pred) - v * pred + 0.1 * pred**2"},
}
_ROW: dict[str, dict[str, Any]] = {
    "logcosh": {"kind": "expr", "expression": "sqrt(1 + norm**2)"},
    "expectile": {"kind": "expr", "expression": "where(norm > 1, norm - 0.5, 0.5 * norm**2)"},
    "expr head": {"kind": "expr", "expression": "norm**2 / (width + norm**2)"},
    "expr token": {"kind": "expr", "expression": "log(1 + width * norm**2)"},
}
_BOTH: dict[str, dict[str, Any]] = {
    "dot": {"kind": "dot"},
    "l2": {"kind": "l2"},
    "huber": {"kind": "huber", "delta": 0.7},
    "huber head": {"kind": "huber", "delta": "delta"},
    "huber token": {"kind": "huber", "delta": "delta"},
    "lp 3": {"kind": "lp", "p": 3.0},
    "lp 2.5": {"kind": "lp", "p": 2.5},
    "lp 1.5 eps": {"kind": "lp", "p": 1.5, "eps": 0.01},
}


def valid(choice: Mapping[str, str]) -> bool:
    """True where the chosen fields (not all need be) stand together within what is served."""
    loss = choice.get("loss")
    if loss == "dot" and choice.get("per") == "row":
        return False  # a dot loss is no function of the error's norm
    if choice.get("at") == "pre" and choice.get("normaliser") == "sum":
        return False  # the first token would divide by an empty sum
    if choice.get("block") == "1" and choice.get("window") in ("two", "inside"):
        # c <= b, but a dot loss has no blocks
        return loss == "dot" or loss is None and choice.get("per") != "row"
    return True


def window_length(choice: Mapping[str, str]) -> int:
    """c of a choice."""
    block = int(choice["block"])
    lengths = {"one": 1, "two": 2, "inside": max(2, (block + 2) // 2), "block": block, "beyond": block + 3}
    return lengths[choice["window"]]


def _loss(choice: Mapping[str, str]) -> Any:
    kind, per = choice["loss"], choice["per"]
    if kind == "two terms":
        return [{"kind": "dot"}, {"kind": "huber", "per": per, "delta": 0.4}]
    table = dict((_ROW if per == "row" else _ELEMENT).get(kind) or _BOTH[kind])
    if kind != "dot":
        table["per"] = per
    return table


def table_of(choice: Mapping[str, str]) -> dict[str, Any]:
    """The spec file's table of a choice."""
    expressions = {"tanh": "tanh(x)", "bump": "x / (1 + x**2) + 0.2 * x"}
    features: dict[str, Any] = {"kind": choice["features"], "on": choice["on"]}
    if choice["features"] in expressions:
        features |= {"kind": "expr", "expression": expressions[choice["features"]]}
    kind, _, theta = choice["optimizer"].partition(" ")
    lr = {"number": 0.05}.get(choice["lr"], choice["lr"])
    optimizer: dict[str, Any] = {"kind": kind, "lr": lr, "lr_at": choice["lr_at"]}
    if theta:
        optimizer["theta"] = 0.6 if theta == "number" else theta
    retention: dict[str, Any] = {"kind": choice["retention"], "toward": choice["toward"]}
    if choice["retention"].startswith("constant"):
        value: Any = 0.93 if choice["retention"] == "constant" else "1 - 2**(-3 - head)"
        retention |= {"kind": "constant", "value": value}
    table = {
        "rule": "drawn",
        "memory": {"kind": "matrix", "initial": choice["initial"]},
        "features": features,
        "loss": _loss(choice),
        "window": {
            "length": window_length(choice),
            "gate": choice["gate"],
            "normalise": choice["normalise"],
            "boundary": choice["boundary"],
        },
        "block": {"size": int(choice["block"])},
        "optimizer": optimizer,
        "retention": retention,
        "read": {"at": choice["at"], "scale": choice["scale"], "normaliser": choice["normaliser"]},
    }
    words = choice["loss"].split()
    if words[0] in ("huber", "expr") and len(words) > 1:
        name = "delta" if words[0] == "huber" else "width"
        table["inputs"] = {name: {"shape": words[1], "range": "positive"}}
    return table


# -- pairs -------------------------------------------------------------------------------------------


def pairs_of(choice: Mapping[str, str]) -> Iterator[Pair]:
    """Every pair of (field, value) of a choice."""
    yield from itertools.combinations(sorted(choice.items()), 2)


def possible_pairs() -> set[Pair]:
    """Every pair of values of two fields that can stand together in a served rule."""
    entries = [(name, value) for name, values in FIELDS.items() for value in values]
    return {
        tuple(sorted((first, second)))  # type: ignore[misc]
        for first, second in itertools.combinations(entries, 2)
        if first[0] != second[0] and valid(dict([first, second]))
    }


def all_pairs(attempts: int = 30) -> list[Choice]:
    """Choices in which every possible pair occurs: each is the best of some that start from a pair
    still missing and take, field by field, the value that adds the most missing pairs."""
    numbers = random.Random(0)
    missing = possible_pairs()
    found: list[Choice] = []
    while missing:
        first = min(missing)
        made = [_completed(dict(first), missing, numbers) for _ in range(attempts)]
        best = max(made, key=lambda choice: sum(pair in missing for pair in pairs_of(choice)))
        found.append(best)
        missing.difference_update(pairs_of(best))
    return found


def _completed(choice: Choice, missing: set[Pair], numbers: random.Random) -> Choice:
    rest = [name for name in FIELDS if name not in choice]
    numbers.shuffle(rest)
    for name in rest:
        options = [value for value in FIELDS[name] if valid({**choice, name: value})]
        numbers.shuffle(options)

        def gain(value: str, name: str = name) -> int:
            entry = (name, value)
            return sum(tuple(sorted((entry, other))) in missing for other in choice.items())

        choice[name] = max(options, key=gain)
    return choice


# -- random members ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Drawn:
    """One random rule and the call to try it on. splits: where the call is cut in pieces."""

    choice: tuple[tuple[str, str], ...]
    T: int
    B: int
    H: int
    K: int
    V: int
    start: str
    splits: tuple[int, ...]
    seed: int

    @property
    def fields(self) -> Choice:
        return dict(self.choice)


LENGTHS = (0, 1, 2, 15, 16, 17, 63, 64, 65)


@st.composite
def choices(draw: Callable[..., Any]) -> Choice:
    """A served choice; one in twenty has a window beyond its block, which only a dot loss serves."""
    fields = {name: st.sampled_from(values) for name, values in FIELDS.items()}
    choice = draw(st.fixed_dictionaries(fields))
    if not valid({"loss": choice["loss"], "per": choice["per"]}):
        choice["per"] = "element"
    if not valid({"at": choice["at"], "normaliser": choice["normaliser"]}):
        choice["at"] = "post"
    if draw(st.integers(0, 19)) == 7:
        choice["window"] = "beyond"
    elif not valid(choice):
        choice["window"] = "block"
    return choice


@st.composite
def calls(draw: Callable[..., Any], longest: int, choice: st.SearchStrategy[Choice] | None = None) -> Drawn:
    """A call of at most `longest` tokens of a drawn rule (or of none yet)."""
    picked = {} if choice is None else draw(choice)
    T = draw(st.sampled_from([length for length in LENGTHS if length <= longest]))
    cuts = draw(st.lists(st.integers(0, T), max_size=3))
    return Drawn(
        choice=tuple(sorted(picked.items())),
        T=T,
        B=draw(st.integers(1, 2)),
        H=draw(st.integers(1, 3)),
        K=draw(st.sampled_from([2, 3, 5, 7, 12])),
        V=draw(st.sampled_from([1, 2, 3, 6, 9])),
        start=draw(st.sampled_from(["fresh", "state"])),
        splits=tuple(sorted(cuts)),
        seed=draw(st.integers(0, 2**16)),
    )


def sample(strategy: st.SearchStrategy[Any], count: int, number: int) -> list[Any]:
    """`count` members of a strategy, the same in every process for the same seed `number`."""
    found: list[Any] = []

    @seed(number)
    @settings(
        max_examples=4 * count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(member: Any) -> None:
        if len(found) < count and member not in found:
            found.append(member)

    collect()
    return found


def drawn_calls(count: int, longest: int, number: int = 2) -> list[Drawn]:
    """Calls of `count` rules: the all-pairs list first (as far as `count` reaches), then random ones."""
    listed = all_pairs()[:count]
    random_choices = sample(choices(), count - len(listed), number) if count > len(listed) else []
    random_calls = sample(calls(longest), count, number)
    return [
        replace(call, choice=tuple(sorted(choice.items())))
        for choice, call in zip(listed + random_choices, random_calls, strict=True)
    ]

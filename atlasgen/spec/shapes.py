"""The weights of a rule's memory with their shapes in size expressions: K, V, F, or arithmetic on them.

Weights are stored [in, out], biases [out]; numbers for a call's K, V and F are in sizes.py.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from atlasgen.spec.errors import SpecError
from atlasgen.spec.expression import NUMBER_FUNCTIONS, interpret, parse_tree
from atlasgen.spec.rule import Memory

NAMES = ("K", "V", "F")

WeightShape = tuple[str, ...]  # (in, out), or (out,) of a bias


def weight_expressions(memory: Memory) -> dict[str, WeightShape]:
    """Name -> (in, out), or (out,) of a bias, in size expressions; biases come last.

    matrix: M (and b). mlp: W1 to W<depth> (b1 ...). gated_mlp and swiglu: W1 (hidden to values), W2 and W3.
    graph: the rule's own names, whose shapes the rule writes [rows, columns].
    """
    if memory.kind == "graph":
        return {name: (columns.strip(), rows.strip()) for name, (rows, columns) in memory.weights}
    hidden = memory.hidden.strip()
    shapes: dict[str, WeightShape] = {}
    if memory.kind == "matrix":
        shapes["M"] = ("F", "V")
    elif memory.kind == "mlp":
        widths = ["F", *[hidden] * (memory.depth - 1), "V"]
        shapes |= {f"W{layer + 1}": (widths[layer], widths[layer + 1]) for layer in range(memory.depth)}
    else:
        shapes |= {"W1": (hidden, "V"), "W2": ("F", hidden), "W3": ("F", hidden)}
    if memory.bias:
        biases = {name: "b" if name == "M" else name.replace("W", "b") for name in shapes}
        shapes |= {biases[name]: shape[1:] for name, shape in list(shapes.items())}
    return shapes


def is_only_matrix(memory: Memory) -> bool:
    """True where M is the only weight, so that its tensors need no weight's name."""
    return list(weight_expressions(memory)) == ["M"]


@dataclass(frozen=True)
class Extent:
    """A size expression, read once: its value takes arithmetic only, which torch.compile can trace.

    Whole numbers stay whole, so symbolic sizes stay symbolic; powers are computed in floats, where a huge one
    overflows instead of running for ever.
    """

    text: str
    value: Callable[[Mapping[str, int]], Any] = field(compare=False, repr=False)

    def __str__(self) -> str:
        return self.text

    def at(self, sizes: Mapping[str, int]) -> int:
        """The positive whole number at K, V and F of `sizes`. Raises SpecError where it is none."""
        value = self.value(sizes)
        if value < 1 or (isinstance(value, float) and value != int(value)):
            at = ", ".join(f"{name} = {sizes[name]}" for name in NAMES if name in sizes)
            reason = f"a size is a positive whole number, not {value:g} (at {at})"
            raise SpecError("size", reason, value=self.text)
        return int(value)


class _Term:
    """A part of a size expression, as a function of the sizes."""

    def __init__(self, value: Callable[[Mapping[str, int]], Any]) -> None:
        self.value = value

    def __neg__(self) -> _Term:
        return _applied(operator.neg, self)

    def __add__(self, other: _Term) -> _Term:
        return _applied(operator.add, self, other)

    def __sub__(self, other: _Term) -> _Term:
        return _applied(operator.sub, self, other)

    def __mul__(self, other: _Term) -> _Term:
        return _applied(operator.mul, self, other)

    def __truediv__(self, other: _Term) -> _Term:
        return _applied(operator.truediv, self, other)

    def __pow__(self, other: _Term) -> _Term:
        return _applied(_power, self, other)


def _applied(function: Callable[..., Any], *terms: _Term) -> _Term:
    return _Term(lambda sizes: function(*[term.value(sizes) for term in terms]))


def _power(base: Any, exponent: Any) -> float:
    return float(base) ** exponent


def _named(name: str) -> _Term:
    return _Term(lambda sizes: sizes[name])


@functools.lru_cache(maxsize=1024)
def extent(text: str) -> Extent:
    """The size that an expression in K, V and F stands for. Raises SpecError outside the grammar."""
    counts = {name: 2 if name in ("min", "max") else 1 for name in NUMBER_FUNCTIONS}
    tree = parse_tree(text, NAMES, counts, field="size")
    functions = {name: functools.partial(_applied, function) for name, function in NUMBER_FUNCTIONS.items()}
    names = {name: _named(name) for name in NAMES}
    term = interpret(tree, names, functions, number=lambda number: _Term(lambda sizes: number))
    return Extent(text.strip(), term.value)

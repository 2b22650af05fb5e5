"""Memories written as a formula (`memory.kind = "graph"`), typed by the shapes of their weights.

A formula such as "x + W1 @ (gelu(W2 @ x) * (W3 @ x))" maps the vector x of size F to a vector of
size V. Its meaning here is an algebra of shapes: every value is a size and the number of weights it
went through.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from atlasgen.spec.errors import SpecError
from atlasgen.spec.expression import evaluate_size, interpret, parse_tree

ACTIVATIONS: tuple[str, ...] = ("exp", "gelu", "relu", "sigmoid", "silu", "sin", "softplus", "tanh")
NORMS: tuple[str, ...] = ("layer_norm", "rms_norm")

# Three unrelated sizes: two shapes are called equal where they agree at these (all sizes are
# polynomials of low degree in K, V and F, so an accident is not to be expected).
_SIZES = {"K": 1_048_583, "V": 2_097_169, "F": 3_145_739}


class _ShapeError(Exception):
    pass


@dataclass(frozen=True)
class Vector:
    """A vector of the graph: its size, its text for messages, how many weights lie behind it, and
    whether a function bends what a weight gave."""

    size: int
    text: str
    depth: int = 0
    curved: bool = False

    def _joined(self, other: Any, sign: str) -> Vector:
        if isinstance(other, (int, float)):
            return self
        if not isinstance(other, Vector):
            raise _ShapeError(f"a weight is used without @ beside {self.text}")
        sizes = {self.size, other.size}
        # A residual x + ... of size K asks for K = V, which is known when sizes are.
        is_residual = sign in "+-" and sizes == {_SIZES["K"], _SIZES["V"]}
        if len(sizes) > 1 and not is_residual:
            raise _ShapeError(f"{self.text} {sign} {other.text} joins two different sizes")
        text = f"{self.text} {sign} {other.text}"
        # A product of two values that depend on weights is not linear in them: one level deeper.
        product = sign == "*" and self.depth > 0 and other.depth > 0
        size = _SIZES["V"] if is_residual else self.size
        depth = max(self.depth, other.depth) + product
        return Vector(size, text, depth, self.curved or other.curved)

    def __add__(self, other: Any) -> Vector:
        return self._joined(other, "+")

    def __sub__(self, other: Any) -> Vector:
        return self._joined(other, "-")

    def __mul__(self, other: Any) -> Vector:
        return self._joined(other, "*")

    def __truediv__(self, other: Any) -> Vector:
        if not isinstance(other, (int, float)):
            raise _ShapeError("a vector may be divided by a number only")
        return self

    def __neg__(self) -> Vector:
        return self

    __radd__, __rsub__, __rmul__ = __add__, __sub__, __mul__


@dataclass(frozen=True)
class Weight:
    """A weight matrix [rows, columns] of the graph."""

    name: str
    rows: int
    columns: int

    def __matmul__(self, other: Any) -> Vector:
        if not isinstance(other, Vector):
            raise _ShapeError(f"{self.name} @ needs a vector on its right")
        if other.size != self.columns:
            raise _ShapeError(f"{self.name} @ {other.text} does not fit: columns against size")
        return Vector(self.rows, f"({self.name} @ {other.text})", other.depth + 1, other.curved)


Weights = tuple[tuple[str, tuple[str, ...]], ...]


@functools.lru_cache(maxsize=256)
def is_linear_graph(formula: str, weights: Weights) -> bool:
    """True where the result is linear in every weight, the others fixed and none multiplied by
    another.
    """
    result = _typed(_tree(formula, weights, None), weights, {**_SIZES, "F": _SIZES["K"]}, None)
    return result.depth <= 1 and not result.curved


def check_graph_sizes(formula: str, weights: Weights, sizes: Mapping[str, int]) -> None:
    """Raise SpecError naming `memory.f` where the formula does not fit these sizes K, V and F."""
    try:
        _typed(_tree(formula, weights, None), weights, sizes, None)
    except _ShapeError as error:
        at = ", ".join(f"{name} = {size}" for name, size in sizes.items())
        raise SpecError("memory.f", f"{error}, at {at}", value=formula) from None


def graph_depth(
    formula: str,
    weights: Weights,
    *,
    keeps_size: bool = True,
    file: str | None = None,
) -> int:
    """How many weights lie in a row between x and the result (1: none multiplies another).

    `keeps_size` says that the feature map keeps F = K: then a formula may also add x (size F) to a
    value of size V, which asks for K = V when sizes are known. Raises SpecError naming `memory.f`
    or `memory.weights.NAME` for unknown names, shapes that do not fit, weights that are not used,
    and a result that is not of size V.
    """
    for name, _ in weights:
        if name == "x" or name in ACTIVATIONS or name in NORMS:
            field = f"memory.weights.{name}"
            raise SpecError(field, "this name has a meaning in memory.f already", file=file)
    tree = _tree(formula, weights, file)
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    try:
        sizes = {**_SIZES, "F": _SIZES["K"]} if keeps_size else _SIZES
        result = _typed(tree, weights, sizes, file)
    except _ShapeError as error:
        raise SpecError(
            "memory.f",
            str(error),
            value=formula,
            suggestion="x has size F, the result size V; weights are [rows, columns] in K, V and F",
            file=file,
        ) from None
    unused = [name for name, _ in weights if name not in used]
    if unused:
        raise SpecError(
            f"memory.weights.{unused[0]}",
            "this weight does not occur in memory.f",
            suggestion="Use it or remove it",
            file=file,
        )
    return result.depth


def _tree(formula: str, weights: Weights, file: str | None) -> ast.expr:
    counts: dict[str, int] = dict.fromkeys([*ACTIVATIONS, *NORMS], 1)
    names = ["x", *(name for name, _ in weights)]
    return parse_tree(formula, names, counts, field="memory.f", file=file, matrix_product=True)


def _typed(
    tree: ast.expr,
    weights: Weights,
    sizes: Mapping[str, int],
    file: str | None,
) -> Vector:
    names: dict[str, Any] = {"x": Vector(sizes["F"], "x")}
    for name, shape in weights:
        field = f"memory.weights.{name}"
        rows, columns = (evaluate_size(size, sizes, field=field, file=file) for size in shape)
        names[name] = Weight(name, rows, columns)
    functions: dict[str, Callable[..., Any]] = dict.fromkeys((*ACTIVATIONS, *NORMS), _applied)
    try:
        result = interpret(tree, names, functions, power=_no_power)
    except TypeError:
        raise _ShapeError("the operands do not fit") from None
    if not isinstance(result, Vector) or result.size != sizes["V"]:
        raise _ShapeError("the result is not a vector of size V")
    return result


def _no_power(base: Any, exponent: Any) -> Any:
    raise _ShapeError("powers are not allowed in memory.f")


def _applied(value: Any) -> Vector:
    if not isinstance(value, Vector):
        raise _ShapeError("a function is applied to a vector, not to a weight")
    return Vector(value.size, value.text, value.depth, value.curved or value.depth > 0)

"""A memory's forward graph f(M, x) over named axes, with its weights as unknown linear maps.

The graph is the same for the key at which a gradient is taken and for the query that reads; what differs is
what "W @ u" means there. So a `MemoryGraph` is called with a function `linear` that gives each product its
meaning, and the inner gradient and the reads of any architecture follow from the one formula.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from atlasgen.errors import CompileError
from atlasgen.ir import build
from atlasgen.ir.node import HIDDEN, Node
from atlasgen.ir.scalar import placeholder
from atlasgen.spec.expression import interpret, parse_expression, parse_tree, symbol
from atlasgen.spec.graph import ACTIVATIONS
from atlasgen.spec.rule import Memory

EPSILON = 1e-6  # of norms, beside the mean square


@dataclass(frozen=True)
class Weight:
    """A weight of the memory: its axes (input, output; a bias has the output alone) and their sizes.

    Sizes are expressions in K, F and V. `tensor` is the name of its tensors: memory, or memory_<name>.
    """

    name: str
    axes: tuple[str, ...]
    sizes: tuple[str, ...]

    @property
    def is_matrix(self) -> bool:
        """False for a bias."""
        return len(self.axes) == 2

    def tensor(self, kind: str) -> str:
        """The name of the weight's tensor of a kind: memory, momentum, anchor, ..."""
        return kind if self.name == "M" else f"{kind}_{self.name}"


Linear = Callable[[Weight, Weight | None, Node], Node]
"""(weight, its bias, input rows) -> the rows of the affine map."""


@dataclass(frozen=True)
class MemoryGraph:
    """f(M, x): `weights` in the order of the state, `extents`: sizes of its hidden axes."""

    memory: Memory
    weights: tuple[Weight, ...]
    extents: dict[str, str]
    tree: ast.expr | None = field(default=None, compare=False)

    def weight(self, name: str) -> Weight | None:
        """The weight of that name, or None."""
        return next((entry for entry in self.weights if entry.name == name), None)

    def output(self, x: Node, linear: Linear) -> Node:
        """The memory's output [rows, V] before its norm and residual; x: [rows, K] or [rows, F]."""

        def affine(name: str, value: Node) -> Node:
            weight = self.weight(name)
            assert weight is not None
            bias = self.weight(_bias_of(name)) if self.memory.bias else None
            return linear(weight, bias, value)

        memory = self.memory
        if memory.kind == "matrix":
            return affine("M", x)
        if memory.kind == "mlp":
            for layer in range(1, memory.depth):
                x = activation(memory.act, affine(f"W{layer}", x))
            return affine(f"W{memory.depth}", x)
        if memory.kind == "graph":
            assert self.tree is not None
            return self._interpreted(self.tree, x, affine)
        act = "silu" if memory.kind == "swiglu" else memory.act
        return affine("W1", build.mul(activation(act, affine("W2", x)), affine("W3", x)))

    def _interpreted(self, tree: ast.expr, x: Node, affine: Callable[[str, Node], Node]) -> Node:
        names: dict[str, Any] = {"x": _Vector(x)}
        names |= {weight.name: _Map(weight.name, affine) for weight in self.weights}
        functions: dict[str, Callable[..., Any]] = {
            name: lambda vector, name=name: _Vector(activation(name, vector.node)) for name in ACTIVATIONS
        }
        for kind in ("layer", "rms"):
            functions[f"{kind}_norm"] = lambda vector, kind=kind: _Vector(
                normed(kind, vector.node, _feature_axis(vector.node), self.extents)
            )
        result = interpret(tree, names, functions)
        return to_axis(result.node, "V")


def activation(name: str, x: Node) -> Node:
    """An activation of a memory, elementwise."""
    if name == "identity":
        return x
    expression = parse_expression(f"{name}(x)", ("x",), field="memory.act")
    return build.map_(expression.subs(symbol("x"), placeholder(0)), x)


def normed(kind: str, x: Node, axis: str, extents: dict[str, str]) -> Node:
    """Layer ("layer") or root mean square ("rms") norm over an axis, without gains."""
    size = extents.get(axis, axis)
    share = build.leaf(f"inverse_{axis}", (), kind="host", expression=f"1 / ({size})")
    if kind == "layer":
        x = build.sub(x, build.mul(build.sum_(x, axis), share))
    square = build.mul(build.sum_(build.mul(x, x), axis), share)
    return build.mul(x, build.map_((placeholder(0) + EPSILON) ** -0.5, square))


def to_axis(node: Node, axis: str) -> Node:
    """Rows with their feature axis named `axis`; sizes are checked when a call is made."""
    own = _feature_axis(node)
    return node if own == axis else build.rename(node, {own: axis})


def _feature_axis(node: Node) -> str:
    return next(dim for dim in node.dims if dim in ("K", "F", "V", *HIDDEN))


class _Vector:
    """A value of a formula, with the operators of the grammar."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def _with(self, other: Any, join: Callable[[Node, Node], Node], swapped: bool = False) -> _Vector:
        if isinstance(other, _Vector):
            left, right = _aligned(self.node, other.node)
        else:
            left, right = self.node, build.const(float(other))
        return _Vector(join(right, left) if swapped else join(left, right))

    def __add__(self, other: Any) -> _Vector:
        return self._with(other, build.add)

    def __sub__(self, other: Any) -> _Vector:
        return self._with(other, build.sub)

    def __rsub__(self, other: Any) -> _Vector:
        return self._with(other, build.sub, True)

    def __mul__(self, other: Any) -> _Vector:
        return self._with(other, build.mul)

    def __truediv__(self, other: float) -> _Vector:
        return self._with(1 / other, build.mul)

    def __neg__(self) -> _Vector:
        return _Vector(build.neg(self.node))

    __radd__, __rmul__ = __add__, __mul__


class _Map:
    """A weight of a formula."""

    def __init__(self, name: str, affine: Callable[[str, Node], Node]) -> None:
        self.name, self.affine = name, affine

    def __matmul__(self, vector: _Vector) -> _Vector:
        return _Vector(self.affine(self.name, vector.node))


def _aligned(left: Node, right: Node) -> tuple[Node, Node]:
    """Two vectors over one axis: the one nearer to the memory's input takes the other's."""
    order = ("K", "F", *HIDDEN, "V")
    first, second = _feature_axis(left), _feature_axis(right)
    axis = max(first, second, key=order.index)
    return to_axis(left, axis), to_axis(right, axis)


def _bias_of(name: str) -> str:
    return "b" if name == "M" else name.replace("W", "b", 1)


# -- axes of the weights -------------------------------------------------------------------------------


def memory_graph(memory: Memory, feature_axis: str) -> MemoryGraph:
    """The forward graph of a memory whose input has the axis `feature_axis` ("K" or "F").

    Raises CompileError where a weight of a formula is used twice, or against the order of layers.
    """
    if memory.kind == "matrix":
        weights = [Weight("M", (feature_axis, "V"), ("F", "V"))]
        extents: dict[str, str] = {}
    elif memory.kind == "mlp":
        hidden = HIDDEN[: memory.depth - 1]
        extents = dict.fromkeys(hidden, memory.hidden)
        axes, sizes = (feature_axis, *hidden, "V"), ("F", *[memory.hidden] * len(hidden), "V")
        weights = [
            Weight(f"W{layer + 1}", axes[layer : layer + 2], sizes[layer : layer + 2])
            for layer in range(memory.depth)
        ]
    elif memory.kind == "graph":
        return _graph_of_formula(memory, feature_axis)
    else:
        extents = {"D1": memory.hidden}
        weights = [Weight("W1", ("D1", "V"), (memory.hidden, "V"))]
        weights += [Weight(name, (feature_axis, "D1"), ("F", memory.hidden)) for name in ("W2", "W3")]
    if memory.bias:
        weights += [Weight(_bias_of(w.name), w.axes[1:], w.sizes[1:]) for w in weights]
    return MemoryGraph(memory, tuple(weights), extents)


class _Axes:
    """Axis variables of a formula, merged where values are joined; 0 is the input's."""

    def __init__(self) -> None:
        self.parent = [0]
        self.ends: dict[str, tuple[int, int]] = {}  # weight -> axis of its input and of its output

    def fresh(self) -> int:
        self.parent.append(len(self.parent))
        return self.parent[-1]

    def root(self, axis: int) -> int:
        while self.parent[axis] != axis:
            axis = self.parent[axis]
        return axis

    def joined(self, first: int, second: int) -> int:
        """The axis of a value made of both: one axis where no weight maps one to the other."""
        low, high = sorted((self.root(first), self.root(second)))
        spans = [{self.root(a), self.root(b)} for a, b in self.ends.values()]
        if low != high and low != 0 and {low, high} not in spans and not self._between(low, high):
            self.parent[high] = low
            return low
        return high

    def _between(self, low: int, high: int) -> bool:
        """True if a path of weights leads from one axis to the other: they are different layers."""
        reached = {low}
        for _ in self.ends:
            reached |= {self.root(b) for a, b in self.ends.values() if self.root(a) in reached}
        return high in reached


class _Shape:
    """A value of a formula by its axis variable alone."""

    def __init__(self, axes: _Axes, axis: int) -> None:
        self.axes, self.axis = axes, axis

    def _with(self, other: Any) -> _Shape:
        if not isinstance(other, _Shape):
            return self
        return _Shape(self.axes, self.axes.joined(self.axis, other.axis))

    def __neg__(self) -> _Shape:
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _with


class _End:
    """A weight of a formula: it notes the axis that it is applied to."""

    def __init__(self, axes: _Axes, name: str) -> None:
        self.axes, self.name = axes, name

    def __matmul__(self, vector: _Shape) -> _Shape:
        if self.name in self.axes.ends:
            raise CompileError(
                f"memory.weights.{self.name}",
                "used twice",
                "a weight stands for one layer",
                "a second weight",
            )
        out = self.axes.fresh()
        self.axes.ends[self.name] = (vector.axis, out)
        return _Shape(self.axes, out)


def _graph_of_formula(memory: Memory, feature_axis: str) -> MemoryGraph:
    counts = dict.fromkeys([*ACTIVATIONS, "layer_norm", "rms_norm"], 1)
    names = ["x", *(name for name, _ in memory.weights)]
    tree = parse_tree(memory.f or "", names, counts, field="memory.f", matrix_product=True)
    axes = _Axes()
    values: dict[str, Any] = {name: _End(axes, name) for name, _ in memory.weights}
    functions: dict[str, Callable[..., Any]] = dict.fromkeys(counts, lambda shape: shape)
    result = interpret(tree, {"x": _Shape(axes, 0), **values}, functions)
    out = axes.root(result.axis)
    named = {0: feature_axis, out: "V"}
    between = sorted({axes.root(b) for _, b in axes.ends.values()} - {0, out})
    if len(between) > len(HIDDEN):
        raise CompileError(
            "memory.f", f"{len(between)} hidden layers", f"at most {len(HIDDEN)}", "fewer layers"
        )
    named |= dict(zip(between, HIDDEN))
    sizes = {name: (columns, rows) for name, (rows, columns) in memory.weights}
    weights = tuple(
        Weight(
            name, (named[axes.root(axes.ends[name][0])], named[axes.root(axes.ends[name][1])]), sizes[name]
        )
        for name, _ in memory.weights
    )
    extents = {w.axes[1]: w.sizes[1] for w in weights if w.axes[1] in HIDDEN}
    order = ("K", "F", *HIDDEN, "V")
    for weight in weights:
        if order.index(weight.axes[0]) >= order.index(weight.axes[1]):
            raise CompileError(
                "memory.f", memory.f, f"{weight.name} leads back to an earlier layer", "layers in order"
            )
    return MemoryGraph(memory, weights, extents, tree)

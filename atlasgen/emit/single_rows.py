"""Values with a matrix per token, one token at a time: no value keeps more than two axes.

A map of the momentum at every token gives a matrix U_j [j, in, out] for each row j of a block. A kernel walks
the rows: inside its loop a value that has j is that row's own, without the axis, and a sum over j is an
accumulator. What has a matrix for each *reader* r is never made: the products that read it are moved inside,

    q_r (a_r M - sum over j of w_rj U_j)  =  a_r (q_r M) - sum over j of w_rj (q_r U_j)

so such a value is a list of terms, each a product of factors with at most two axes, and a sum over some of
its axes takes one factor into the other, axis by axis.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType

from atlasgen.emit.plan import SINGLE
from atlasgen.errors import CompileError
from atlasgen.ir import build
from atlasgen.ir.node import Node, ordered
from atlasgen.ir.program import BlockProgram
from atlasgen.ir.scalar import placeholder

_PRODUCT = placeholder(0) * placeholder(1)
_SUMS = ("dot", "contract", "sum")
TOKEN_FORMS = ("tokens", "token_grid")
EMPTY: Mapping[Node, str] = MappingProxyType({})


def has_token_matrices(program: BlockProgram) -> bool:
    """True where a block has values with a matrix per token."""
    return any(len(node.dims) > 2 and SINGLE in node.dims for node in program.nodes())


@dataclass(frozen=True)
class Term:
    """A signed product of factors; summed: over the rows of the block, each giving factors of its own."""

    sign: int
    factors: tuple[Node, ...]
    summed: bool

    def __mul__(self, other: Term) -> Term:
        if self.summed and other.summed:
            raise CompileError(
                "memory",
                "a product of two memories of one token",
                "a kernel sums over a block's tokens once in a product",
                'backend = "torch"',
            )
        return Term(self.sign * other.sign, self.factors + other.factors, self.summed or other.summed)


class SingleRows:
    """Rewrites values of a block into those of a kernel that walks the rows j.

    buffers: the values of gates, and the buffers that hold them. matrices: values of one matrix per row that
    earlier kernels left, by buffer. Raises CompileError for a graph in which a value keeps three axes.
    """

    def __init__(self, buffers: Mapping[Node, str], matrices: Mapping[Node, str] = EMPTY) -> None:
        self.buffers, self.matrices = buffers, matrices
        self.done: dict[Node, Node] = {}
        self._terms: dict[Node, list[Term]] = {}

    def __call__(self, node: Node) -> Node:
        """The value without the axis j: of one row where the node has it."""
        if node not in self.done:
            self.done[node] = self._value(node)
        return self.done[node]

    def names(self, table: Mapping[Node, str]) -> dict[Node, str]:
        """Names, or equations, of the values that were rewritten."""
        return {self.done[node]: text for node, text in table.items() if node in self.done}

    def _value(self, node: Node) -> Node:
        if SINGLE in node.dims and node in self.buffers:
            return build.leaf(self.buffers[node], _free(node), kind="row_of", axes=node.dims)
        if node in self.matrices:
            return build.leaf(self.matrices[node], _free(node), kind="row_matrix")
        if node.op == "leaf" and SINGLE in node.dims:
            return self._row(node)
        if not node.args or not self._has_rows(node):
            return node
        if len(_free(node)) > 2:
            raise _too_wide(node)
        if node.op in _SUMS:
            return self._sum(node)
        arguments = tuple(self(argument) for argument in node.args)
        return Node(node.op, arguments, _free(node), **dict(node.attrs))

    def _row(self, leaf: Node) -> Node:
        """One row of a tensor of rows."""
        attrs = dict(leaf.attrs)
        return build.leaf(attrs.pop("name"), _free(leaf), **{**attrs, "kind": f"row_{attrs['kind']}"})

    def _has_rows(self, node: Node) -> bool:
        """True if something below the value has the axis j or three axes."""
        stack, seen = [node], set()
        while stack:
            entry = stack.pop()
            if SINGLE in entry.dims or len(entry.dims) > 2:
                return True
            if entry not in seen and entry not in self.buffers:
                seen.add(entry)
                stack.extend(entry.args)
        return False

    def _sum(self, node: Node) -> Node:
        """A sum over axes, perhaps j: over each term by itself, j last."""
        axes = set(node["summed"]) if node.op == "contract" else {node["dim"]}
        over_rows = SINGLE in axes
        parts = []
        for term in self._product(node.args):
            value = _contracted(term.factors, axes - {SINGLE})
            parts.append((term, value))
        return build.add(*(self._closed(term, value, over_rows) for term, value in parts))

    def _closed(self, term: Term, value: Node, over_rows: bool) -> tuple[int, Node]:
        if term.summed and over_rows:
            raise _too_wide(value)
        if not term.summed and not over_rows:
            return term.sign, value
        return term.sign, Node("sum", (value,), value.dims, dim=SINGLE)

    def _product(self, nodes: Sequence[Node]) -> list[Term]:
        """All terms of a product."""
        found = [Term(1, (), False)]
        for node in nodes:
            found = [term * other for term in found for other in self.terms(node)]
        return found

    def terms(self, node: Node) -> list[Term]:
        """The value as a sum of products: one factor, where it has no more than two axes."""
        if len(_free(node)) <= 2:
            return [Term(1, (self(node),), False)]
        if node not in self._terms:
            self._terms[node] = self._wide(node)
        return self._terms[node]

    def _wide(self, node: Node) -> list[Term]:
        if node.op == "add":
            pairs = zip(node["signs"], node.args, strict=True)
            return [Term(sign * t.sign, t.factors, t.summed) for sign, a in pairs for t in self.terms(a)]
        if build.is_negative(node):
            return [Term(-t.sign, t.factors, t.summed) for t in self.terms(node.args[0])]
        if node.op == "map" and node["expression"] == _PRODUCT:
            return self._product(node.args)
        if node.op == "dot" and node["dim"] == SINGLE and SINGLE not in node.dims:
            found = self._product(node.args)
            if not any(term.summed for term in found):
                return [Term(term.sign, term.factors, True) for term in found]
        raise _too_wide(node)


def _free(node: Node) -> tuple[str, ...]:
    return tuple(dim for dim in node.dims if dim != SINGLE)


def _contracted(factors: Iterable[Node], axes: set[str]) -> Node:
    """The sum over axes of a product, in an order in which no value has more than two axes."""
    left = [factor for factor in factors if not build.is_const(factor, 1.0)]
    waiting = list(ordered(axes))
    while waiting:
        choices = {dim: _joined([f for f in left if dim in f.dims]) for dim in waiting}
        possible = [dim for dim in waiting if choices[dim] and _fits(choices[dim], dim)]
        if not possible:
            raise _too_wide(left[0])
        dim = min(possible, key=lambda axis: len(_remaining(choices[axis], axis)))
        group = choices[dim]
        total = build.dot(*group, dim) if len(group) == 2 else build.sum_(group[0], dim)
        left = [*(factor for factor in left if dim not in factor.dims), total]
        waiting.remove(dim)
    return reduce(build.mul, left) if left else build.const(1.0)


def _joined(factors: list[Node]) -> list[Node]:
    """Factors of the same axes, or of a part of another's axes, as one factor."""
    joined: list[Node] = []
    for factor in sorted(factors, key=lambda factor: -len(factor.dims)):
        for index, other in enumerate(joined):
            if set(factor.dims) <= set(other.dims):
                joined[index] = build.mul(other, factor)
                break
        else:
            joined.append(factor)
    return joined


def _remaining(group: list[Node], dim: str) -> tuple[str, ...]:
    return ordered(axis for factor in group for axis in factor.dims if axis != dim)


def _fits(group: list[Node], dim: str) -> bool:
    return len(group) <= 2 and len(_remaining(group, dim)) <= 2


def _too_wide(node: Node) -> CompileError:
    return CompileError(
        "memory.link, optimizer.transform",
        f"a value with the axes {', '.join(node.dims)}",
        "a kernel holds values of two axes, one token at a time",
        'one of the two, or backend = "torch"',
    )

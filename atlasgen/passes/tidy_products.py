"""Fewer passes over matrices: factors of a product grouped by their axes, signs and free factors outside.

(A * g) * h               ->  A * (g * h)           vectors are multiplied before a matrix
sum_s (A[t, s] * g[t])    ->  g[t] * sum_s A[t, s]
sum(-A), cumsum(-A)       ->  -sum(A), -cumsum(A)
x0 - x1 as a map          ->  a signed sum, to which a product can be added in place
live[t] * lr[t]           ->  lr[t]                 loads already give 0 in padding rows
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from atlasgen.ir import build
from atlasgen.ir.node import Node, walk
from atlasgen.ir.program import BackwardProgram, BlockProgram, Capture, Carry, Contribution
from atlasgen.ir.scalar import placeholder

x0, x1 = placeholder(0), placeholder(1)
LINEAR = {x0 - x1: (1, -1), x1 - x0: (-1, 1), x0 + x1: (1, 1)}


def tidy_forward(program: BlockProgram) -> BlockProgram:
    """The program with tidy products."""
    tidy = _Tidy(program.roots())
    return replace(
        program,
        outputs={name: tidy(node) for name, node in program.outputs.items()},
        carries=tuple(Carry(c.name, c.leaf, tidy(c.next)) for c in program.carries),
        captures=tuple(Capture(c.name, tidy(c.value), c.carry) for c in program.captures),
        names=tidy.keys(program.names),
        equations=tidy.keys(program.equations),
    )


def tidy_backward(program: BackwardProgram) -> BackwardProgram:
    """The program with tidy products; values of its forward program stay the same nodes."""
    tidy = _Tidy(program.roots(), program.forward.nodes())

    def parts(contributions: Iterable[Contribution]) -> tuple[Contribution, ...]:
        return tuple(Contribution(c.tensor, c.leaf, tidy(c.node)) for c in contributions)

    return replace(
        program,
        carries=tuple(Carry(c.name, c.leaf, tidy(c.next)) for c in program.carries),
        contributions=parts(program.contributions),
        accumulate=parts(program.accumulate),
        names=tidy.keys(program.names),
    )


Value = TypeVar("Value")


class _Tidy:
    """Rebuilds nodes in order; `fixed` nodes stay."""

    def __init__(self, roots: Iterable[Node], fixed: Iterable[Node] = ()) -> None:
        roots = list(roots)
        nodes = walk(roots)
        self._uses = Counter([*roots, *(argument for node in nodes for argument in node.args)])
        self._fixed = set(fixed)
        self._single: set[Node] = set()  # new nodes that one node reads
        self._done: dict[Node, Node] = {node: node for node in self._fixed}
        for node in nodes:
            if node not in self._done:
                self._done[node] = self._tidied(node)
                if self._uses[node] == 1:
                    self._single.add(self._done[node])

    def __call__(self, node: Node) -> Node:
        return self._done.get(node, node)

    def keys(self, table: dict[Node, Value]) -> dict[Node, Value]:
        """The table by new nodes."""
        return {self(node): value for node, value in table.items()}

    def _tidied(self, node: Node) -> Node:
        arguments = tuple(self._done[argument] for argument in node.args)
        if node.op == "map":
            expression = node["expression"]
            if expression == x0 * x1:
                return self._product(arguments)
            if expression in LINEAR:
                return build.add(*zip(LINEAR[expression], arguments, strict=True))
            return build.map_(expression, *arguments)
        if node.op == "add":
            return build.add(*zip(node["signs"], arguments, strict=True))
        if node.op == "dot":
            return build.dot(arguments[0], arguments[1], node["dim"])
        if node.op == "sum":
            return self._sum(arguments[0], node["dim"])
        if node.op in ("cumsum", "mask") and build.is_negative(arguments[0]):
            return build.neg(Node(node.op, arguments[0].args, node.dims, **dict(node.attrs)))
        if arguments == node.args:
            return node
        return Node(node.op, arguments, node.dims, **dict(node.attrs))

    def _factors(self, node: Node) -> tuple[int, list[Node]]:
        """The sign and the factors of a product, through products that only it reads."""
        if build.is_negative(node):
            sign, factors = self._factors(node.args[0])
            return -sign, factors
        if node.op == "map" and node["expression"] == x0 * x1 and node in self._single:
            return self._all_factors(node.args)
        return 1, [node]

    def _all_factors(self, nodes: Iterable[Node]) -> tuple[int, list[Node]]:
        sign, factors = 1, []
        for node in nodes:
            own, parts = self._factors(node)
            sign *= own
            factors += parts
        return sign, factors

    def _product(self, arguments: Iterable[Node]) -> Node:
        sign, factors = self._all_factors(arguments)
        product = _grouped(factors)
        return product if sign > 0 else build.neg(product)

    def _sum(self, node: Node, dim: str) -> Node:
        sign, factors = self._factors(node)
        summed = [factor for factor in factors if dim in factor.dims]
        free = [factor for factor in factors if dim not in factor.dims]
        covered = {axis for factor in summed for axis in factor.dims}
        if not free or not summed or not {axis for f in free for axis in f.dims} <= covered:
            summed, free = factors, []
        total = build.sum_(_grouped(summed), dim)
        total = build.mul(total, _grouped(free)) if free else total
        return total if sign > 0 else build.neg(total)


def _grouped(factors: list[Node]) -> Node:
    """The product: factors of the same axes first, the largest groups before smaller ones."""
    groups: dict[tuple[str, ...], list[Node]] = {}
    for factor in factors:
        groups.setdefault(factor.dims, []).append(factor)
    largest_first = sorted(groups, key=lambda dims: -len(dims))
    return build.mul(*(build.mul(*_without_live(groups[dims])) for dims in largest_first))


def _without_live(factors: list[Node]) -> list[Node]:
    """Flags of live rows beside a tensor of the same rows are dropped: it is zero in the others."""
    loaded = any(
        factor.op == "leaf" and factor["kind"] == "token" and factor["segment"] == "block"
        for factor in factors
    )
    if not loaded:
        return factors
    return [factor for factor in factors if factor.op != "leaf" or factor["kind"] != "live"]

"""Blocks of one row: their programs without row axes.

    sum over the row            ->  the value            dot over the row  ->  a product
    decay between rows          ->  1 (exclusive: 0)     decay from the start, of the whole block  ->  alpha
    a mask between rows         ->  its argument or 0    a system between rows  ->  what is given

So a row of keys is a vector, a step size a number, and a sum over sources of the block an outer product: no
kernel pads one row to a tile. Only the halo keeps its axis. The leaves of rows lose theirs; what reads them
takes the block's row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import sympy

from atlasgen.ir import build
from atlasgen.ir.node import ROWS, Node, walk
from atlasgen.ir.program import BackwardProgram, BlockProgram, Capture, Carry, Contribution
from atlasgen.ir.scalar import placeholder

Value = TypeVar("Value")
x0 = placeholder(0)


def unit_rows(forward: BlockProgram, backward: BackwardProgram) -> tuple[BlockProgram, BackwardProgram]:
    """Both programs without row axes where a block has one row, else as they are."""
    if forward.block != 1:
        return forward, backward
    rows = _UnitRows(forward.halo)
    forward = replace(
        forward,
        outputs={name: rows(node) for name, node in forward.outputs.items()},
        carries=rows.carries(forward.carries),
        captures=tuple(Capture(c.name, rows(c.value), c.carry) for c in forward.captures),
        names=rows.keys(forward.names),
        equations=rows.keys(forward.equations),
    )
    backward = replace(
        backward,
        forward=forward,
        carries=rows.carries(backward.carries),
        contributions=rows.contributions(backward.contributions),
        accumulate=rows.contributions(backward.accumulate),
        names=rows.keys(backward.names),
        gradients={rows(node): rows(gradient) for node, gradient in backward.gradients.items()},
    )
    return forward, backward


def without_rows(dims: tuple[str, ...]) -> tuple[str, ...]:
    """The axes that are none of a block's rows."""
    return tuple(dim for dim in dims if dim not in ROWS)


class _UnitRows:
    """Rebuilds nodes without row axes; `done` holds the new node of each one visited."""

    def __init__(self, halo: int) -> None:
        self.halo = halo
        self.done: dict[Node, Node] = {}

    def __call__(self, node: Node) -> Node:
        for entry in walk([node], set(self.done)):
            if entry not in self.done:
                self.done[entry] = self._rebuilt(entry)
        return self.done[node]

    def carries(self, carries: tuple[Carry, ...]) -> tuple[Carry, ...]:
        return tuple(Carry(c.name, self(c.leaf), self(c.next)) for c in carries)

    def contributions(self, parts: tuple[Contribution, ...]) -> tuple[Contribution, ...]:
        return tuple(Contribution(c.tensor, self(c.leaf), self(c.node)) for c in parts)

    def keys(self, table: Mapping[Node, Value]) -> dict[Node, Value]:
        """The table by new nodes; of several that became one the first entry stays."""
        found: dict[Node, Value] = {}
        for node, value in table.items():
            if node in self.done and self.done[node].op not in ("leaf", "const"):
                found.setdefault(self.done[node], value)
        return found

    def _rebuilt(self, node: Node) -> Node:
        arguments = tuple(self.done[argument] for argument in node.args)
        dims = without_rows(node.dims)
        if node.op == "map":
            return build.map_(node["expression"], *arguments)
        if node.op == "add":
            return build.add(*zip(node["signs"], arguments, strict=True))
        if node.op in ("sum", "dot", "contract"):
            return _total(node, arguments)
        if node.op == "mask":
            return self._masked(node, arguments[0])
        if node.op.startswith("decay") or node.op in ("cumsum", "unit_inverse"):
            return _scanned(node, arguments[0])
        if node.op == "unit_solve":
            return arguments[2]
        if node.op == "rename" and arguments[0].dims == dims:
            return arguments[0]
        return Node(node.op, arguments, dims, **dict(node.attrs))

    def _masked(self, node: Node, value: Node) -> Node:
        """A mask between rows has one entry; one between the row and the halo must keep every entry."""
        ages = range(1, self.halo + 1) if node["column"] == "h" else range(1)
        low, high = node["low"], node["high"]
        kept = [(low is None or age >= low) and (high is None or age <= high) for age in ages]
        if all(kept):
            return value
        if any(kept) or node["row"] == "h":
            raise ValueError(f"{node} keeps a part of the halo of a block of one row")
        return build.const(0.0)


def _total(node: Node, arguments: tuple[Node, ...]) -> Node:
    """A sum over axes, of which those of the row are gone."""
    axes = without_rows(node["summed"] if node.op == "contract" else (node["dim"],))
    if node.op == "sum":
        return build.sum_(arguments[0], axes[0]) if axes else arguments[0]
    left, right = arguments
    return build.contract(left, right, axes) if axes else build.mul(left, right)


def _scanned(node: Node, value: Node) -> Node:
    """Running sums and products over one row, and the inverse of a system between its rows."""
    exclusive = node.get("exclusive", False)
    if node.op == "cumsum":
        return build.const(0.0) if exclusive else value
    if node.op == "decay":
        return build.const(0.0 if exclusive else 1.0)
    if node.op in ("decay_to_end", "unit_inverse") or exclusive:
        return build.const(1.0)
    return build.map_(sympy.exp(x0), value)

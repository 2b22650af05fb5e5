"""The block program: what one block of tokens computes, and what passes from block to block.

A program is one loop over blocks. Its body is a graph of nodes; its leaves have a `kind`:

====================  ==========================================================================
kind                  where the value lives
====================  ==========================================================================
token                 a row tensor [B, T, H, ...]; `segment` says which rows: block or halo
head                  [H, ...], one number a head, or one per head and entry of the leaf's axes
position              [H, c], one number a head and age
live                  1 where a row of the block holds a token of this call, else 0
exists                1 where a source row holds a token of the sequence (`segment`)
border                1 in the last row of a block that is full (of no axis: where the block is full)
carry                 the value at the start of the block, passed from block to block
invariant             [B, H, ...]: the same in all blocks (memory to decay to, anchor to resume from)
lane                  the position along its axis, counted from 1, which a kernel has anyway
monomial              [F], the same for all: entries (`place`) or numbers (`degree`) of the feature map
host                  a number that the sizes give: its `expression` in K, F and V; without one the scale
token_gradient        the gradient of an output of rows (dy)
carry_gradient        the gradient of a carry's value after this block
capture_gradient      the gradient of a captured value: nonzero in the captured block only
====================  ==========================================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from atlasgen.ir.node import Node, walk

GATES = ("lr", "log_alpha", "log_theta", "gamma")


@dataclass(frozen=True)
class Carry:
    """A value passed from block to block: `leaf` at the start of the block, `next` at its end."""

    name: str
    leaf: Node
    next: Node


@dataclass(frozen=True)
class Capture:
    """The final value of something that is constant inside an open block.

    It is `value` in the block that is still open when the call ends; where the call ends at a border it is
    the final value of the carry named `carry`.
    """

    name: str
    value: Node
    carry: str


@dataclass(frozen=True)
class BlockProgram:
    """One rule's loop over blocks.

    window: c. halo: rows before a block that its program reads (0 or c - 1). block: the rule's block size
    where it matters, else None (any chunk gives the same result). extents: the length of each axis that is
    not K or V, as an expression in K and V: {"F": "K * (K + 1) / 2", "D1": "4 * K"}. steps: how many rows
    are a token.
    """

    name: str
    outputs: dict[str, Node]
    carries: tuple[Carry, ...]
    captures: tuple[Capture, ...]
    window: int
    halo: int
    block: int | None
    names: dict[Node, str] = field(default_factory=dict)
    equations: dict[Node, str] = field(default_factory=dict)
    extents: dict[str, str] = field(default_factory=dict)
    steps: int = 1

    def roots(self) -> list[Node]:
        """Every node that must be computed."""
        captured = [capture.value for capture in self.captures]
        return [*self.outputs.values(), *(carry.next for carry in self.carries), *captured]

    def nodes(self) -> list[Node]:
        """All nodes, arguments first."""
        return walk(self.roots())

    def leaves(self, *kinds: str) -> Iterator[Node]:
        """Leaves in creation order, of the given kinds (all if none is given)."""
        for node in self.nodes():
            if node.op == "leaf" and (not kinds or node["kind"] in kinds):
                yield node

    def carry(self, name: str) -> Carry:
        """The carry of that name."""
        return next(carry for carry in self.carries if carry.name == name)


@dataclass(frozen=True)
class Contribution:
    """One part of an argument's gradient, as the block computes it.

    tensor: the argument's name. node: its value, with the axes of the leaf it belongs to. leaf: that leaf.
    """

    tensor: str
    leaf: Node
    node: Node


@dataclass(frozen=True)
class BackwardProgram:
    """The reversed loop: `contributions` are per block, `carries` run from the last block to the first.

    carries: the gradient of each carry of the forward program; `leaf` is the gradient of its value after
    the block, `next` of its value before it. accumulate: gradients of invariants, summed over blocks.
    """

    forward: BlockProgram
    carries: tuple[Carry, ...]
    contributions: tuple[Contribution, ...]
    accumulate: tuple[Contribution, ...]
    names: dict[Node, str] = field(default_factory=dict)
    gradients: dict[Node, Node] = field(default_factory=dict)

    def roots(self) -> list[Node]:
        """Every node that must be computed."""
        parts = [*self.contributions, *self.accumulate]
        return [*(part.node for part in parts), *(carry.next for carry in self.carries)]

"""Gates of a rule as leaves of a block program, and the names that a reader of its code sees."""

from __future__ import annotations

import math
from dataclasses import dataclass

import sympy

from atlasgen.ir import build
from atlasgen.ir.node import Node
from atlasgen.ir.scalar import placeholder
from atlasgen.spec.rule import Gate

x0, x1 = placeholder(0), placeholder(1)
SEGMENTS = {"s": "block", "h": "halo", "p": "sources", "g": "sources"}


@dataclass
class Names:
    """Names and equations that a reader of the emitted code sees, collected while building."""

    names: dict[Node, str]
    equations: dict[Node, str]

    def give(self, node: Node, name: str, equation: str = "") -> Node:
        """Name a node (leaves and numbers keep theirs; the first name wins)."""
        if node.op not in ("leaf", "const"):
            self.names.setdefault(node, name)
            if equation:
                self.equations.setdefault(node, equation)
        return node


def suffix(source: str) -> str:
    """What distinguishes names of halo values."""
    return "_halo" if source == "h" else ""


def gate(name: str, choice: Gate, dim: str, neutral: float) -> Node:
    """A multiplier along a row axis: a number, one per head, or one per token."""
    if choice.kind == "none":
        return build.const(neutral)
    if choice.kind == "constant" and choice.expression is None:
        return build.const(choice.value or 0.0)
    if choice.kind in ("constant", "head"):
        return build.leaf(name, (), kind="head")
    return build.leaf(name, (dim,), kind="token", segment="block")


def live(dim: str) -> Node:
    """1 in rows that hold a token of the call, 0 in padding: padding is the identity on the state."""
    return build.leaf("live", (dim,), kind="live")


def log_gate(name: str, choice: Gate, dim: str) -> Node:
    """A log decay along a row axis, 0 in padding rows."""
    if choice.kind == "constant" and choice.expression is None:
        value = build.const(math.log(choice.value) if choice.value else -math.inf)
    else:
        value = gate(name, choice, dim, 0.0)
    if build.is_const(value, 0.0) or value.op == "leaf" and value["kind"] == "token":
        return value  # loads already give 0 in padding rows
    if value.op == "const":
        return build.mul(value, live(dim))
    # Not a product: the log may be -inf.
    return build.map_(sympy.Piecewise((x0, x1 > 0), (0, True)), value, live(dim))


def exists(source: str) -> Node:
    """1 in source rows that hold a token of the sequence, else 0."""
    return build.leaf("exists", (source,), kind="exists", segment=SEGMENTS[source])


def border(dim: str | None = None) -> Node:
    """1 where a row is the last one of a full block (of no axis: where the block is full), else 0."""
    return build.leaf("border", (dim,) if dim else (), kind="border")


def within_block(source: str, every: int) -> Node:
    """1 in source rows that hold a token of the sequence and of the reader's own block of `every` tokens,
    which a block of the program is a piece of."""
    return build.leaf("within", (source,), kind="exists", segment=SEGMENTS[source], every=every)


def opens(every: int) -> Node:
    """1 where the first row of a piece holds the first token of a block of `every`, else 0."""
    return build.leaf("opens", (), kind="border", every=every, place="first")


def closes(every: int, dim: str | None = None) -> Node:
    """1 where a row holds the last token of a block of `every` (of no axis: where a piece does), else 0."""
    return build.leaf("closes", (dim,) if dim else (), kind="border", every=every, place="last")


def where(flag: Node, then: Node, otherwise: Node) -> Node:
    """`then` where the flag is set, else `otherwise`."""
    return build.map_(sympy.Piecewise((x0, placeholder(2) > 0), (x1, True)), then, otherwise, flag)

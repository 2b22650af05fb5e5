"""Which values of the forward program the backward program gets instead of computing them again.

A program for CPUs keeps what costs a matrix product, a matrix of decays or a softmax: memory for them is
linear in the tokens and cheap there, while each costs as much as a step of the backward itself.
"""

from __future__ import annotations

from atlasgen.ir.node import Node, walk
from atlasgen.ir.program import BackwardProgram

EXPENSIVE = (
    "dot",
    "decay",
    "softmax",
    "contract",
    "newton_schulz",
    "polynomial",
    "unit_inverse",
    "unit_solve",
    "channel_scores",
    "channel_mix",
    "exact_errors",
)
COMPLETE = ("token", "carry")


def kept_values(backward: BackwardProgram) -> dict[Node, str]:
    """Values to keep, in the order of computation, with a name each: saved_0, saved_1, ...

    A value is kept if the backward reads it and would need an expensive operator to get it from its inputs,
    from the carries and from the values kept before it.
    """
    shared = set(backward.forward.nodes())
    read: set[Node] = set(backward.roots())
    for node in walk(backward.roots()):
        if node not in shared:
            read.update(node.args)
    kept: dict[Node, str] = {}
    for node in (entry for entry in backward.forward.nodes() if entry in read):
        needed = set(walk([node], set(kept))) - set(kept)
        if any(_is_expensive(entry) for entry in needed) and _is_complete(node):
            kept[node] = f"saved_{len(kept)}"
    return kept


def _is_expensive(node: Node) -> bool:
    return node.op in EXPENSIVE and len(node.dims) >= 2


def _is_complete(node: Node) -> bool:
    """True if the value differs by sequence, head and block: then its shape is known beforehand."""
    return any(leaf.op == "leaf" and leaf["kind"] in COMPLETE for leaf in walk([node]))

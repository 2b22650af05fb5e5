"""Values in the place of leaves."""

from __future__ import annotations

from collections.abc import Mapping

from atlasgen.ir import build
from atlasgen.ir.node import Node, ordered, walk


def replaced(node: Node, values: Mapping[Node, Node]) -> Node:
    """The node with values in the place of leaves, or of any nodes under it.

    A value may have other axes than its leaf, as a batch: what depends on it has them instead.
    """
    done = dict(values)
    for entry in walk([node], set(values)):
        if entry not in done:
            done[entry] = _rebuilt(entry, tuple(done[argument] for argument in entry.args))
    return done[node]


def _rebuilt(node: Node, arguments: tuple[Node, ...]) -> Node:
    if arguments == node.args:
        return node
    if node.op == "map":
        return build.map_(node["expression"], *arguments)
    if node.op == "add":
        return build.add(*zip(node["signs"], arguments, strict=True))
    if node.op == "sum":
        return build.sum_(arguments[0], node["dim"])
    before = {dim for argument in node.args for dim in argument.dims}
    removed, made = before - set(node.dims), set(node.dims) - before
    dims = {dim for argument in arguments for dim in argument.dims} - removed | made
    return Node(node.op, arguments, ordered(dims), **dict(node.attrs))

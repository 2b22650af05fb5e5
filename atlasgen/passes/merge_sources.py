"""One axis of sources: rows of the halo and of the block that a program treats alike become one axis.

A schedule writes a sum over sources as a term over the halo and a term over the block. Where the two are
the same formula at the same memory they are one sum over all sources, so a program that batches whole
blocks needs half as many matrix products. The merged axis is "h"; its leaves have the segment "sources".
Where the two differ (errors that the halo keeps from an older memory), the program stays as it is.
"""

from __future__ import annotations

from dataclasses import replace

from atlasgen.ir import build
from atlasgen.ir.node import Node, ordered
from atlasgen.ir.program import BlockProgram, Capture, Carry

SOURCES = "sources"


class _NotAlikeError(Exception):
    """Halo and block rows are treated differently."""


def merge_sources(program: BlockProgram) -> BlockProgram:
    """The program over one axis of sources, or the program itself where there is nothing to merge."""
    if not program.halo:
        return program
    merge = _Merge()
    try:
        outputs = {name: merge(node) for name, node in program.outputs.items()}
        carries = tuple(Carry(c.name, c.leaf, merge(c.next)) for c in program.carries)
        captures = tuple(Capture(c.name, merge(c.value), c.carry) for c in program.captures)
    except _NotAlikeError:
        return program
    names = {merge.done[node]: name for node, name in program.names.items() if node in merge.done}
    equations = {merge.done[n]: text for n, text in program.equations.items() if n in merge.done}
    return replace(
        program,
        outputs=outputs,
        carries=carries,
        captures=captures,
        names=names,
        equations=equations,
    )


class _Merge:
    """Rebuilds nodes; `done` holds the merged node of each one visited."""

    def __init__(self) -> None:
        self.done: dict[Node, Node] = {}
        self._twins: dict[Node, Node] = {}

    def __call__(self, node: Node) -> Node:
        if node not in self.done:
            self.done[node] = self._merged(node)
        return self.done[node]

    def _merged(self, node: Node) -> Node:
        if node.op == "leaf":
            return self._leaf(node)
        if node.op == "add":
            terms = list(zip(node["signs"], node.args, strict=True))
            kept = [term for term in terms if not self._covered(term, terms)]
            if len(kept) < len(terms):
                return build.add(*((sign, self(argument)) for sign, argument in kept))
        return _renamed(node, tuple(self(argument) for argument in node.args), {"s": "h"})

    def _leaf(self, node: Node) -> Node:
        if node.get("segment") == "halo" or "s" in node.dims and node.get("segment") != "block":
            raise _NotAlikeError
        if "s" not in node.dims:
            return node
        attrs = {**dict(node.attrs), "segment": SOURCES}
        return Node("leaf", (), ordered("h" if dim == "s" else dim for dim in node.dims), **attrs)

    def _covered(self, term: tuple[int, Node], terms: list[tuple[int, Node]]) -> bool:
        """True for a term over the halo whose formula over the block is another of the terms."""
        sign, node = term
        if node.op not in ("dot", "sum") or node["dim"] != "h":
            return False
        return (sign, self._twin(node)) in terms

    def _twin(self, node: Node) -> Node:
        """The same formula over the block's rows."""
        if node not in self._twins:
            if node.op == "leaf":
                attrs = dict(node.attrs)
                if attrs.get("segment") == "halo":
                    attrs["segment"] = "block"
                dims = ordered("s" if dim == "h" else dim for dim in node.dims)
                self._twins[node] = Node("leaf", (), dims, **attrs)
            else:
                arguments = tuple(self._twin(argument) for argument in node.args)
                self._twins[node] = _renamed(node, arguments, {"h": "s"})
        return self._twins[node]


def _renamed(node: Node, arguments: tuple[Node, ...], axes: dict[str, str]) -> Node:
    attrs = {key: build.renamed_axes(key, value, axes) for key, value in node.attrs}
    dims = ordered(axes.get(dim, dim) for dim in node.dims)
    if arguments == node.args and dims == node.dims:
        return node
    return Node(node.op, arguments, dims, **attrs)

"""The one node class of the block program.

A block program is a graph of pure values. A value belongs to one block of one head of one sequence; its
axes are *named* and drawn from :data:`DIMS`, so broadcasting, transposition and reshaping do not exist as
operators: an operator combines axes by name. Nodes are immutable and interned: equal expressions are the
same object, which makes common subexpressions one node without a pass.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import Any

# Axes in canonical order. r: rows of the block as readers; i, j: rows inside products of decay matrices;
# s: rows of the block as sources; h: the halo, rows before the block that its windows reach;
# p, g: halo and block together, as rows whose errors are asked for and as rows that they are written along;
# K: entries of keys and queries; F: features, where a map makes their number another; D1 ... D8: hidden units
# of a deep memory, in the order from its input to its output; V: values; c: ages inside a window.
HIDDEN = tuple(f"D{index}" for index in range(1, 9))
DIMS = ("r", "j", "i", "h", "p", "g", "s", "K", "F", *HIDDEN, "V", "c")
ROWS = frozenset("rjis")
EARLIER = frozenset("hpg")  # axes of rows that begin before the block
_ORDER = {dim: position for position, dim in enumerate(DIMS)}


def ordered(dims: Iterable[str]) -> tuple[str, ...]:
    """The axes, each once, in canonical order."""
    return tuple(sorted(set(dims), key=_ORDER.__getitem__))


class Node:
    """An interned value: operator name, argument nodes, axes and static attributes.

    Build nodes with the functions of :mod:`atlasgen.ir.build`; they simplify while they build.
    """

    __slots__ = ("op", "args", "dims", "attrs", "__weakref__")
    _table: weakref.WeakValueDictionary[tuple, Node] = weakref.WeakValueDictionary()

    op: str
    args: tuple[Node, ...]
    dims: tuple[str, ...]
    attrs: tuple[tuple[str, Any], ...]

    def __new__(cls, op: str, args: tuple[Node, ...] = (), dims: tuple[str, ...] = (), **attrs: Any) -> Node:
        items = tuple(sorted(attrs.items()))
        key = (op, args, dims, items)
        found = cls._table.get(key)
        if found is not None:
            return found
        node = object.__new__(cls)
        node.op, node.args, node.dims, node.attrs = op, args, dims, items
        cls._table[key] = node
        return node

    def __getitem__(self, key: str) -> Any:
        for name, value in self.attrs:
            if name == key:
                return value
        raise KeyError(f"node {self.op} has no attribute {key!r}; it has {self.attrs}")

    def get(self, key: str, default: Any = None) -> Any:
        """The attribute `key`, or `default` where the node has none of that name."""
        return next((value for name, value in self.attrs if name == key), default)

    def __repr__(self) -> str:
        attrs = "".join(f" {name}={value}" for name, value in self.attrs)
        return f"<{self.op}{attrs} {list(self.dims)}>"


def walk(roots: Iterable[Node], stop: frozenset[Node] | set[Node] = frozenset()) -> list[Node]:
    """All nodes that `roots` need, arguments first; `stop` nodes are not entered.

    The order depends on the graph and the order of `roots` alone, not on what was built before.
    """
    done: dict[Node, None] = {}
    for root in roots:
        stack = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if node in done:
                continue
            if ready or node in stop:
                done[node] = None
            else:
                stack.append((node, True))
                stack.extend((argument, False) for argument in reversed(node.args))
    return list(done)


def leaves(roots: Iterable[Node]) -> Iterator[Node]:
    """The leaf nodes that `roots` need."""
    return (node for node in walk(roots) if node.op == "leaf")

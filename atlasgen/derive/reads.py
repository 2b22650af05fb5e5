"""The read's own expression (read.f), where it differs from the memory's value under the loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy

from atlasgen.derive.memory import to_axis
from atlasgen.ir import build
from atlasgen.ir.node import Node
from atlasgen.ir.scalar import placeholder
from atlasgen.spec.expression import (
    ELEMENTWISE_FUNCTIONS,
    SYMPY_FUNCTIONS,
    interpret,
    parse_tree,
)


def read_expression(text: str, z: Node, q: Node, norm: Callable[[Node], Node]) -> Node:
    """The value of read.f: z [r, V] is the memory's output, q [r, K] the query, norm the memory's norm.

    Norms are nodes of their own; what is elementwise between them becomes one scalar expression.
    """
    counts = {**ELEMENTWISE_FUNCTIONS, "norm": 1}
    tree = parse_tree(text, ["z", "q"], counts, field="read.f")
    table: dict[sympy.Symbol, Node] = {}

    def named(node: Node) -> sympy.Symbol:
        for known, value in table.items():
            if value is node:
                return known
        table[placeholder(len(table))] = node
        return placeholder(len(table) - 1)

    def value_of(expression: Any) -> Node:
        used = list(table)
        return build.map_(sympy.sympify(expression), *(table[entry] for entry in used))

    functions: dict[str, Callable[..., Any]] = {
        **SYMPY_FUNCTIONS,
        "norm": lambda argument: named(norm(value_of(argument))),
    }
    names = {"z": named(z)}
    if "q" in text:
        names["q"] = named(to_axis(q, "V"))
    return value_of(interpret(tree, names, functions))

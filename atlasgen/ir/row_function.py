"""A function of rows as data: a graph over numbered arguments, with its slopes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from atlasgen.ir import build
from atlasgen.ir.node import Node, walk
from atlasgen.ir.replace import replaced


@dataclass(frozen=True)
class RowFunction:
    """e(x0, x1, ...) of rows, x0 what it is a function of and the others what it is given.

    value: over the leaves `arguments`. slopes: for each argument, sum over entries of a row of de/dx times a
    gradient, over the same leaves and `gradient`; of more axes than the argument where that broadcasts.
    """

    arguments: tuple[Node, ...]
    gradient: Node
    value: Node
    slopes: tuple[Node, ...]

    def at(self, values: Sequence[Node]) -> Node:
        """The function of values, which may have further axes."""
        return replaced(self.value, dict(zip(self.arguments, values, strict=True)))

    def pulled(self, index: int, values: Sequence[Node], gradient: Node) -> Node:
        """The gradient of argument `index` from that of the function's value."""
        table: Mapping[Node, Node] = dict(zip(self.arguments, values, strict=True))
        return replaced(self.slopes[index], {**table, self.gradient: gradient})


def given(index: int, dims: tuple[str, ...]) -> Node:
    """The leaf of an argument of a row function."""
    return build.leaf(f"x{index}", dims, kind="given", index=index)


def operands_of(result: Node, variable: Node) -> list[Node]:
    """The largest values under `result` that do not depend on `variable`, without numbers."""
    nodes = walk([result], {variable})
    depends = {variable}
    for node in nodes:
        if any(argument in depends for argument in node.args):
            depends.add(node)
    found = dict.fromkeys(a for node in nodes if node in depends - {variable} for a in node.args)
    return [node for node in found if node not in depends and node.op != "const"]

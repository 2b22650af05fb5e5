"""Products of tiles with more than two axes as products of matrices.

A sum over axes that both factors have, where no other axis is common, is one matrix product: each factor is
laid out as [its own axes, summed axes], and the result gets its axes back. A sum over rows and a further axis
takes the rows one by one: operands that are as long as both do not fit the registers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from atlasgen.ir.node import Node, ordered

Axes = tuple[str, ...]


@dataclass(frozen=True)
class MatrixProduct:
    """left [left's own axes, summed] times right [summed, right's own axes], of a node with wider tiles."""

    node: Node
    summed: Axes

    @classmethod
    def of(cls, node: Node) -> MatrixProduct | None:
        """The product of a node; None for one of matrices and vectors, or with an axis that is a batch."""
        left, right = node.args
        summed = ordered(node["summed"] if node.op == "contract" else (node["dim"],))
        common = set(left.dims) & set(right.dims)
        wide = max(len(left.dims), len(right.dims)) > 2
        if not wide or common != {*summed} or not all(set(arg.dims) - common for arg in (left, right)):
            return None
        return cls(node, summed)

    def text(self, args: list[str], size: Callable[[str], str], finer: str) -> str:
        """Triton text. size: the text of a tile's extent along an axis. finer: of the precision's names."""
        factors = list(zip(self.node.args, args, strict=True))
        own = [tuple(dim for dim in arg.dims if dim not in self.summed) for arg in self.node.args]
        if own[1] + own[0] == self.node.dims:  # then the product has the value's order
            factors, own = factors[::-1], own[::-1]
        (left, first), (right, second) = factors
        places = {arg.dims.index(self.summed[0]) for arg in (left, right)}
        if len(self.summed) == 2 and len(places) == 1 and len(own[0]) == len(own[1]) == 1:
            return f"summed_products({first}, {second}, {places.pop()}, {finer}DOT, {finer}PRECISION)"
        a = _laid_out(first, left.dims, own[0], self.summed, size)
        b = _laid_out(second, right.dims, self.summed, own[1], size)
        text = f"tl.dot({a}.to({finer}DOT), {b}.to({finer}DOT), input_precision={finer}PRECISION)"
        found = own[0] + own[1]
        if len(found) > 2:
            text = f"tl.reshape({text}, [{', '.join(size(dim) for dim in found)}])"
        return _permuted(text, found, self.node.dims)


def _laid_out(text: str, dims: Axes, rows: Axes, columns: Axes, size: Callable[[str], str]) -> str:
    """A tile of axes `dims` as the matrix [rows, columns]."""
    text = _permuted(text, dims, rows + columns)
    if len(rows) == len(columns) == 1:
        return text
    sizes = [" * ".join(size(dim) for dim in part) for part in (rows, columns)]
    return f"tl.reshape({text}, [{', '.join(sizes)}])"


def _permuted(text: str, dims: Axes, wanted: Axes) -> str:
    if dims == wanted:
        return text
    if len(dims) == 2:
        return f"tl.trans({text})"
    return f"tl.permute({text}, [{', '.join(str(dims.index(dim)) for dim in wanted)}])"

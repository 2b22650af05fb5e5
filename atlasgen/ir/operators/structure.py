"""Masks and gates by age: where entries of a matrix between readers and sources may stand."""

from __future__ import annotations

from atlasgen.ir import build
from atlasgen.ir.node import EARLIER, Node
from atlasgen.ir.operators.base import Operator, TileContext, spread


def _positions(dim: str) -> str:
    return "halo_row" if dim in EARLIER else "row"


class Mask(Operator):
    """Zero where the age (row - column) is outside low..high."""

    name = "mask"

    def derivative(self, node: Node, gradient: Node, index: int) -> Node | None:
        return build.mask(gradient, **dict(node.attrs))

    def torch(self, node: Node, args: list[str]) -> str:
        row, column = node["row"], node["column"]
        band = f"blocks.band({_positions(row)}, {_positions(column)}, {node['low']}, {node['high']})"
        value = spread(args[0], node.args[0], node.dims)
        return f"blocks.where({band}, {value}, 0.0)"

    def triton(self, node: Node, args: list[str], tile: TileContext) -> str:
        row, column = node["row"], node["column"]
        value = tile.align(args[0], node.args[0].dims, node.dims)
        return f"tl.where({age_condition(node, row, column, tile)}, {value}, 0.0)"

    def keeps_zero(self, node: Node, dim: str) -> bool:
        return dim in node.args[0].dims or dim in "rjishpg"


def age_condition(node: Node, row: str, column: str, tile: TileContext) -> str:
    """Triton text of low <= position(row) - position(column) <= high."""
    rows = tile.align(tile.position(row), (row,), node.dims)
    columns = tile.align(tile.position(column), (column,), node.dims)
    low, high = node["low"], node["high"]
    if low is not None and low == high:
        return f"{rows} == {columns}" if low == 0 else f"{rows} - {columns} == {low}"
    conditions = []
    if low is not None:
        conditions.append(f"{rows} >= {columns}" if low == 0 else f"{rows} - {columns} >= {low}")
    if high is not None:
        conditions.append(f"{rows} - {columns} <= {high}")
    if len(conditions) == 1:
        return conditions[0]
    return " & ".join(f"({condition})" for condition in conditions)


class ExpandAge(Operator):
    """[row, c] or [c] -> [row, column]: entry (t, s) is the gate of age t - s."""

    name = "expand_age"

    def derivative(self, node: Node, gradient: Node, index: int) -> Node | None:
        collected = build.collect_age(gradient, node["row"], node["column"])
        return build.sum_to(collected, node.args[0].dims)

    def torch(self, node: Node, args: list[str]) -> str:
        rows, columns = _positions(node["row"]), _positions(node["column"])
        by_row = node["row"] in node.args[0].dims
        return f"blocks.expand_age({args[0]}, {rows}, {columns}, {by_row})"

    def triton(self, node: Node, args: list[str], tile: TileContext) -> str:
        raise NotImplementedError("expand_age is a load: its argument must be a leaf")


class CollectAge(Operator):
    """[row, column] -> [row, c]: entry (t, j) is the matrix at (t, t - j)."""

    name = "collect_age"

    def derivative(self, node: Node, gradient: Node, index: int) -> Node | None:
        return build.expand_age(gradient, node["row"], node["column"])

    def torch(self, node: Node, args: list[str]) -> str:
        rows, columns = _positions(node["row"]), _positions(node["column"])
        return f"blocks.collect_age({args[0]}, {rows}, {columns}, window)"

    def triton(self, node: Node, args: list[str], tile: TileContext) -> str:
        raise NotImplementedError("collect_age is a store: only an output may use it")

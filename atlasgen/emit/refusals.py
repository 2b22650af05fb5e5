"""What no kernel computes: each field with the reason and the nearest value that has kernels.

The block program is what is looked at: which operators it has, which leaves, of which axes.
"""

from __future__ import annotations

from collections.abc import Iterator

from atlasgen.errors import CompileError
from atlasgen.ir.node import ROWS, Node
from atlasgen.ir.program import BlockProgram
from atlasgen.schedules.refusals import Refusal

LARGEST_BLOCK = 256  # rows: their [rows, rows] weights are one tile
_OTHERWISE = 'or backend = "torch"'


def kernel_refusals(program: BlockProgram) -> list[Refusal]:
    """All refusals of a rule's program, empty where kernels can be written for it."""
    nodes = program.nodes()
    found = [*_operators(nodes), *_leaves(nodes), *_rows(program)]
    return [entry._replace(nearest=f"{entry.nearest}, {_OTHERWISE}") for entry in dict.fromkeys(found)]


def refuse_without_kernels(program: BlockProgram) -> None:
    """CompileError, naming the field and the nearest value that has kernels, where no kernel computes
    a value of the program."""
    for field, value, reason, nearest in kernel_refusals(program):
        raise CompileError(field, value, reason, nearest, rule=program.name)


def _operators(nodes: list[Node]) -> Iterator[Refusal]:
    operators = {node.op for node in nodes}
    plain = "transform = []"
    if "newton_schulz" in operators:
        reason = "no kernel iterates products of whole weights yet"
        yield Refusal("optimizer.transform", "newton_schulz", reason, plain)
    elif "contract" in operators or any(len(node.dims) > 2 for node in nodes):
        reason = "no kernel holds a matrix per token yet"
        yield Refusal("optimizer.transform", "one map per token", reason, plain)


def _leaves(nodes: list[Node]) -> Iterator[Refusal]:
    leaves = [node for node in nodes if node.op == "leaf"]
    scales = {leaf["kind"] for leaf in leaves if leaf["name"] == "row_scale"}
    if scales:
        value = "position" if "head" in scales else "token"
        reason = "no kernel scales the open block's update by row yet"
        yield Refusal("block.row_scale", value, reason, 'row_scale = "none"')
    elif any(leaf["kind"] == "border" for leaf in leaves):
        reason = "no kernel holds a block's update back until the block is full yet"
        yield Refusal("block.write", "block", reason, 'write = "token"')
    for leaf in leaves:
        by_row = bool(ROWS & set(leaf.dims))
        if leaf["kind"] == "head" and by_row and leaf["name"] != "row_scale":
            reason = "no kernel reads a table per head and row yet"
            yield Refusal(f"inputs.{leaf['name']}", "learned", reason, 'shape = "token"')


def _rows(program: BlockProgram) -> Iterator[Refusal]:
    rows = program.block or program.window - 1
    if rows > LARGEST_BLOCK:
        reason = f"a kernel holds the weights between all rows of a block, at most {LARGEST_BLOCK} of them"
        if program.block:
            yield Refusal("block.size", rows, reason, f"block = {LARGEST_BLOCK}")
        else:
            yield Refusal("window.length", program.window, reason, f"window = {LARGEST_BLOCK + 1}")

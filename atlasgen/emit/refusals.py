"""What no kernel computes: each field with the reason and the nearest value that has kernels.

The block program is what is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator

from atlasgen.emit.axes import WALKS, whole_axes
from atlasgen.emit.plan import Structure
from atlasgen.emit.single_rows import TOKEN_FORMS, has_token_matrices
from atlasgen.errors import CompileError
from atlasgen.ir.node import Node
from atlasgen.ir.program import BlockProgram
from atlasgen.ir.scalar import placeholder
from atlasgen.schedules.refusals import Refusal
from atlasgen.schedules.serve import LARGEST_WALK, held_errors

LARGEST_BLOCK = 256  # rows: their [rows, rows] weights are one tile
_PRODUCT = placeholder(0) * placeholder(1)
_OTHERWISE = 'or backend = "torch"'


def kernel_refusals(program: BlockProgram) -> list[Refusal]:
    """All refusals of a rule's program, empty where kernels can be written for it."""
    found = [*_rows(program), *_readers(program), *_walks(program)]
    return [entry._replace(nearest=f"{entry.nearest}, {_OTHERWISE}") for entry in found]


def refuse_without_kernels(program: BlockProgram) -> None:
    """CompileError, naming the field and the nearest value that has kernels, where no kernel computes
    a value of the program."""
    for field, value, reason, nearest in kernel_refusals(program):
        raise CompileError(field, value, reason, nearest, rule=program.name)


def refuse_structure(program: BlockProgram, structure: Structure) -> None:
    """CompileError where a program's values have not the form, or the tiles, that a structure gives them."""
    tokens = has_token_matrices(program)
    if tokens != (structure.form in TOKEN_FORMS):
        reason = "kernels take the tokens of a block one by one where each has a matrix, and only there"
        nearest = "tokens" if tokens else "split"
        raise CompileError("structure.form", structure.form, reason, nearest, rule=program.name)
    if structure.walk is not None and structure.walk in whole_axes(program):
        reason = "Newton-Schulz or a softmax takes all of this axis at once, no tiles of it"
        raise CompileError("structure.walk", structure.walk, reason, "walk = None", rule=program.name)


def _rows(program: BlockProgram) -> Iterator[Refusal]:
    reason = f"a kernel holds the weights between all rows of a block, at most {LARGEST_BLOCK} of them"
    if program.block and program.block > LARGEST_BLOCK:
        nearest = f"block = {LARGEST_BLOCK // program.steps}"
        yield Refusal("block.size", program.block // program.steps, reason, nearest)
    elif (program.halo if program.block else program.window - 1) > LARGEST_BLOCK:
        yield Refusal("window.length", program.window, reason, f"window = {LARGEST_BLOCK + 1}")


def _readers(program: BlockProgram) -> Iterator[Refusal]:
    """Maps of the matrix that a row reads, where that is made of others, one per token."""
    reason = "a kernel has one matrix per token: not both a mapped update and a map of what is read"
    if any("r" in node.dims and len(node.dims) > 2 and not _is_linear(node) for node in program.nodes()):
        yield Refusal("memory.link", "beside a transform", reason, "transform = []")


def _walks(program: BlockProgram) -> Iterator[Refusal]:
    """Windows whose errors, of all rows and sources of a block, no kernel holds."""
    largest = max((size for size in range(1, LARGEST_WALK) if held_errors(size) <= LARGEST_WALK), default=1)
    if program.window > largest and any(node.op in WALKS for node in program.nodes()):
        reason = f"a kernel holds all errors of a block in registers, at most {LARGEST_WALK} for each value"
        nearest = f'window = {largest} or schedule = "recurrent"'
        yield Refusal("window.length", program.window, reason, nearest)


def _is_linear(node: Node) -> bool:
    products = node.op == "map" and node["expression"] in (_PRODUCT, -placeholder(0))
    return products or node.op in ("add", "dot", "contract", "sum", "rename")

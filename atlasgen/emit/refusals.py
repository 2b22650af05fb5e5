"""What no kernel computes: each field with the reason and the nearest value that has kernels.

The block program is what is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from atlasgen.emit.axes import WALKS, whole_axes
from atlasgen.emit.plan import Structure
from atlasgen.emit.single_rows import TOKEN_FORMS, has_token_matrices
from atlasgen.errors import CompileError
from atlasgen.ir.node import Node
from atlasgen.ir.program import BlockProgram
from atlasgen.ir.scalar import placeholder
from atlasgen.schedules.pieces import LONGEST
from atlasgen.schedules.refusals import Refusal
from atlasgen.schedules.serve import LARGEST_WALK, admitted, held_errors, schedule
from atlasgen.spec.rule import MemoryRule

_PRODUCT = placeholder(0) * placeholder(1)
_OTHERWISE = 'or backend = "torch"'


def kernel_refusals(program: BlockProgram) -> list[Refusal]:
    """All refusals of a rule's program, empty where kernels can be written for it."""
    found = [*_rows(program), *_readers(program), *_walks(program)]
    return [entry._replace(nearest=f"{entry.nearest}, {_OTHERWISE}") for entry in found]


@lru_cache(maxsize=512)
def kernel_schedule(rule: MemoryRule) -> str | None:
    """The schedule of a rule's kernels where it is not the rule's own, else None.

    It is another one where no kernel holds the rows of a block, or computes the matrices of its tokens; one
    token at a time where each has matrices anyway. Raises CompileError for a rule that no schedule serves.
    """
    own = schedule(rule)
    if not kernel_refusals(own.forward):
        return None
    for name, found in admitted(rule).items():
        if found or name == own.schedule:
            continue
        program = schedule(rule, name).forward
        slower = program.block == 1 and not has_token_matrices(own.forward)
        if not slower and not kernel_refusals(program):
            return name
    return None


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
    reason = f"a kernel holds the weights between all rows of a block, at most {LONGEST} of them"
    if program.block and program.block > LONGEST:
        nearest = f"block = {LONGEST // program.steps}"
        yield Refusal("block.size", program.block // program.steps, reason, nearest)
    elif (program.halo if program.block else program.window - 1) > LONGEST:
        yield Refusal("window.length", program.window, reason, f"window = {LONGEST + 1}")


def _readers(program: BlockProgram) -> Iterator[Refusal]:
    """Maps of the matrix that a row reads, where that is made of others, one per token."""
    reason = "a kernel has one matrix per token: not both a mapped update and a map of what is read"
    if any("r" in node.dims and len(node.dims) > 2 and not _is_linear(node) for node in program.nodes()):
        yield Refusal("memory.link", "beside a transform", reason, "transform = []")


def _walks(program: BlockProgram) -> Iterator[Refusal]:
    """Windows whose errors, of all rows and sources of a block, no kernel holds."""
    if not any(node.op in WALKS for node in program.nodes()) or held_errors(program.window) <= LARGEST_WALK:
        return
    largest = max((size for size in range(1, program.window) if held_errors(size) <= LARGEST_WALK), default=1)
    reason = f"a kernel holds all errors of a block in registers, at most {LARGEST_WALK} for each value"
    nearest = f'window = {largest} or schedule = "recurrent"'
    yield Refusal("window.length", program.window, reason, nearest)


def _is_linear(node: Node) -> bool:
    products = node.op == "map" and node["expression"] in (_PRODUCT, -placeholder(0))
    return products or node.op in ("add", "dot", "contract", "sum", "rename")

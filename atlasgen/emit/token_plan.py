"""The kernels of rules with a matrix per token: one program per memory walks its blocks and their rows.

A first kernel leaves what depends on gates alone, since a kernel that walks rows reads one row of it at a
time; a last one takes the gradients of it, which are left row by row, to the gates.
"""

from __future__ import annotations

from dataclasses import replace

from atlasgen.emit.backward_plan import BackwardPlanner
from atlasgen.emit.cuts import Cuts, is_gate_only
from atlasgen.emit.plan import Kernel, Plan, Store, Structure
from atlasgen.errors import CompileError
from atlasgen.emit.single_rows import WALKED, SingleRows, has_token_matrices
from atlasgen.ir.node import Node, walk
from atlasgen.ir.program import BackwardProgram, BlockProgram, Carry, Contribution


def refuse_other_form(program: BlockProgram, structure: Structure) -> None:
    """CompileError where a structure is not of the form that the program's matrices per token, or none, ask."""
    tokens = has_token_matrices(program)
    if tokens == (structure.form == "tokens"):
        return
    reason = "a kernel walks the tokens of a block where each has a matrix of its own, and only there"
    raise CompileError(
        "structure.form", structure.form, reason, "tokens" if tokens else "split", rule=program.name
    )


def token_plan(program: BlockProgram, backward: BackwardProgram, structure: Structure) -> Plan:
    """The kernels of a rule with a matrix per token.

    Raises CompileError for a rule in which a value keeps more than two axes beside its row.
    """
    cuts = Cuts(program, backward, structure)
    reverse = BackwardPlanner(cuts)
    early, _, _ = reverse.gate_cut()
    _buffer_gates(cuts, early)
    gates = tuple(Store(name, node, node.dims, "blocks") for node, name in cuts.buffers.items())
    doc = "Decays and window weights of one block: what depends on the gates alone."
    prologue = Kernel("gates", doc, "grid", "none", gates)
    late = reverse.gate_gradients()
    return Plan(structure, (prologue, _forward(cuts)), (prologue, _backward(cuts, early), *late))


def _buffer_gates(cuts: Cuts, early: list[Store]) -> None:
    """Give a buffer to what gradients need beside the values that the forward pass reads."""
    backward = cuts.backward
    roots = [store.node for store in early] + [carry.next for carry in backward.carries]
    roots += [part.node for part in backward.accumulate]
    cache: dict[Node, bool] = {}
    for node in walk(roots, set(cuts.buffers)):
        for argument in () if node in cuts.buffers or is_gate_only(node, cache) else node.args:
            if WALKED in argument.dims and is_gate_only(argument, cache) and argument not in cuts.buffers:
                cuts.buffers[argument] = f"gate_row_{len(cuts.buffers)}"


def _carries(rows: SingleRows, carries: tuple[Carry, ...]) -> tuple[Carry, ...]:
    return tuple(Carry(carry.name, carry.leaf, rows(carry.next)) for carry in carries)


def _forward(cuts: Cuts) -> Kernel:
    program, rows = cuts.program, SingleRows(cuts.buffers)
    outputs = tuple(Store(name, rows(node), ("r", "V"), "rows") for name, node in program.outputs.items())
    return Kernel(
        "forward",
        "The memory from block to block and the reads of each block, token by token.",
        "forward",
        "whole",
        outputs,
        dict(cuts.buffers),
        False,
        _carries(rows, program.carries),
        True,
        tuple((entry.name, rows(entry.value), entry.carry) for entry in program.captures),
        walk=WALKED,
        rewritten=rows.done,
    )


def _backward(cuts: Cuts, early: list[Store]) -> Kernel:
    backward, rows = cuts.backward, SingleRows(cuts.buffers)
    return Kernel(
        "backward",
        "All gradients, from the last block to the first, token by token.",
        "reverse",
        "whole",
        tuple(replace(store, node=rows(store.node)) for store in early),
        {**cuts.buffers, **cuts.carry_blocks()},
        False,
        _carries(rows, backward.carries),
        False,
        (),
        tuple(Contribution(part.tensor, part.leaf, rows(part.node)) for part in backward.accumulate),
        walk=WALKED,
        rewritten=rows.done,
    )

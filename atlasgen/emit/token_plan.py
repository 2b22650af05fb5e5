"""The kernels of rules with a matrix per token, such as the Newton-Schulz map of every token's momentum.

A first kernel leaves what depends on gates alone, since a kernel that takes rows one by one reads one row
of it at a time; a last one takes the gradients of it, which are left row by row, to the gates. Between them,
in the form "tokens" one program per memory walks the blocks and the rows of each. In the form "token_grid"
the maps, nearly all of the work, have a program per row of one block, and leave their matrices in a scratch
of one block:

    for each block:            updates, forward
    for each block, reversed:  updates, row_gradients, update_gradients, backward
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from atlasgen.emit.backward_plan import BackwardPlanner
from atlasgen.emit.cuts import Cuts, is_gate_only
from atlasgen.emit.plan import SINGLE, Kernel, Plan, Store
from atlasgen.emit.single_rows import SingleRows
from atlasgen.errors import CompileError
from atlasgen.ir.node import ROWS, Node, ordered, walk
from atlasgen.ir.program import BlockProgram, Carry, Contribution


def token_plan(cuts: Cuts) -> Plan:
    """The kernels of a rule with a matrix per token.

    Raises CompileError for a rule in which a value keeps more than two axes beside its row.
    """
    reverse = BackwardPlanner(cuts)
    early, _, _ = reverse.gate_cut()
    _buffer_gates(cuts, early)
    gates = tuple(Store(name, node, node.dims, "blocks") for node, name in cuts.buffers.items())
    doc = "Decays and window weights of one block: what depends on the gates alone."
    prologue = Kernel("gates", doc, "grid", "none", gates)
    late = reverse.gate_gradients()
    if cuts.structure.form == "tokens":
        return Plan(cuts.structure, (prologue, _forward(cuts)), (prologue, _backward(cuts, early), *late))
    grid = _Grid(cuts)
    return Plan(
        cuts.structure,
        (prologue, *grid.forward()),
        (prologue, *grid.backward([*early, *reverse.streaming_stores()]), *late),
    )


def _buffer_gates(cuts: Cuts, early: list[Store]) -> None:
    """Give a buffer to what gradients need beside the values that the forward pass reads."""
    backward = cuts.backward
    roots = [store.node for store in early] + [carry.next for carry in backward.carries]
    roots += [part.node for part in backward.accumulate]
    cache: dict[Node, bool] = {}
    for node in walk(roots, set(cuts.buffers)):
        for argument in () if node in cuts.buffers or is_gate_only(node, cache) else node.args:
            if SINGLE in argument.dims and is_gate_only(argument, cache) and argument not in cuts.buffers:
                cuts.buffers[argument] = f"gate_row_{len(cuts.buffers)}"


# -- one program walks the rows ----------------------------------------------------------------------


def _carries(rows: SingleRows, carries: tuple[Carry, ...]) -> tuple[Carry, ...]:
    return tuple(Carry(carry.name, carry.leaf, rows(carry.next)) for carry in carries)


def _rewritten(rows: SingleRows, stores: Iterable[Store]) -> tuple[Store, ...]:
    return tuple(replace(store, node=rows(store.node)) for store in stores)


def _outputs(program: BlockProgram) -> tuple[Store, ...]:
    outputs = program.outputs.items()
    return tuple(Store(name, node, ordered({*node.dims} & ROWS | {"V"}), "rows") for name, node in outputs)


def _forward(cuts: Cuts) -> Kernel:
    program, rows = cuts.program, SingleRows(cuts.buffers)
    return Kernel(
        "forward",
        "The memory from block to block and the reads of each block, token by token.",
        "forward",
        "whole",
        _rewritten(rows, _outputs(program)),
        dict(cuts.buffers),
        False,
        _carries(rows, program.carries),
        True,
        tuple((entry.name, rows(entry.value), entry.carry) for entry in program.captures),
        walk=SINGLE,
        rewritten=rows.done,
    )


def _backward(cuts: Cuts, early: list[Store]) -> Kernel:
    backward, rows = cuts.backward, SingleRows(cuts.buffers)
    return Kernel(
        "backward",
        "All gradients, from the last block to the first, token by token.",
        "reverse",
        "whole",
        _rewritten(rows, early),
        {**cuts.buffers, **cuts.carry_blocks()},
        False,
        _carries(rows, backward.carries),
        False,
        (),
        tuple(Contribution(part.tensor, part.leaf, rows(part.node)) for part in backward.accumulate),
        walk=SINGLE,
        rewritten=rows.done,
    )


# -- a program for each row --------------------------------------------------------------------------


class _Grid:
    """The kernels of one block, launched block after block.

    Raises CompileError for a rule without a map that is worth a program per row.
    """

    def __init__(self, cuts: Cuts) -> None:
        self.cuts = cuts
        self.updates = _maps(cuts.program.roots(), "newton_schulz", "updates")
        self.gradients = _maps(cuts.backward.roots(), "newton_schulz_gradient", "update_gradients")
        if not self.updates:
            reason = "only Newton-Schulz is worth a program for each token"
            raise CompileError("structure.form", "token_grid", reason, "tokens", rule=cuts.program.name)
        self.loaded = {**cuts.buffers, **cuts.carry_blocks()}
        doc = "The map of each token of one block, by a program of its own."
        self.maps = self._per_row("updates", doc, self.updates, {}, self.loaded)

    def forward(self) -> tuple[Kernel, ...]:
        """The kernels of the forward pass."""
        rows = SingleRows(self.cuts.buffers, self.updates)
        stores = _rewritten(rows, [*_outputs(self.cuts.program), *self.cuts.streaming_stores()])
        doc = "The reads of one block and the memory after it."
        return *self.maps, self._per_block("forward", doc, stores, rows, self.loaded, False)

    def backward(self, stores: list[Store]) -> tuple[Kernel, ...]:
        """The kernels of the backward pass; stores: what the last one of a block writes."""
        loaded = {**self.loaded, **self.cuts.next_blocks()}
        kernels = [*self.maps]
        if self.gradients:
            sums = self._sums()
            if sums:
                rows = SingleRows(self.cuts.buffers, self.updates)
                left = tuple(Store(name, node, node.dims, "blocks") for node, name in sums.items())
                doc = "Rows of one block that the gradients of its maps read."
                kernels.append(self._per_block("row_gradients", doc, left, rows, loaded, True))
            doc = "The gradient of the momentum of each token of one block, through its map."
            known = {**loaded, **sums}
            kernels += self._per_row("update_gradients", doc, self.gradients, self.updates, known)
        rows = SingleRows(self.cuts.buffers, {**self.updates, **self.gradients})
        doc = "The gradients of one block's rows, and of the memory before it."
        last = self._per_block("backward", doc, _rewritten(rows, stores), rows, loaded, True)
        return *kernels, replace(last, streams=self.cuts.backward.carries)

    def _sums(self) -> dict[Node, str]:
        """What the gradients of the maps need of all rows, by buffer name."""
        rows = SingleRows(self.cuts.buffers, self.updates)
        roots = [rows(node) for node in self.gradients]
        nodes = walk(roots)
        sums = {node for node in nodes if node.op == "sum" and node["dim"] == SINGLE}
        outermost = [node for node in walk(roots, sums) if node in sums]
        return {node: f"rows_{index}" for index, node in enumerate(outermost)}

    def _per_row(
        self, name: str, doc: str, maps: Mapping[Node, str], left: Mapping[Node, str], loaded: dict[Node, str]
    ) -> tuple[Kernel, ...]:
        """A kernel for each map: it holds one weight's matrices."""
        kernels = []
        for index, (node, buffer) in enumerate(maps.items()):
            rows = SingleRows(self.cuts.buffers, left)
            value = rows(node)
            own = f"{name}_{index}" if len(maps) > 1 else name
            stores = (Store(buffer, value, value.dims, "token"),)
            kernels.append(Kernel(own, doc, "row", "whole", stores, loaded, rewritten=rows.done))
        return tuple(kernels)

    def _per_block(
        self,
        name: str,
        doc: str,
        stores: tuple[Store, ...],
        rows: SingleRows,
        loaded: dict[Node, str],
        reverse: bool,
    ) -> Kernel:
        streams = () if reverse else self.cuts.program.carries
        kernel = Kernel(name, doc, "block", "whole", stores, loaded, walk=SINGLE, streams=streams)
        return replace(kernel, rewritten=rows.done, reverse=reverse)


def _maps(roots: list[Node], op: str, name: str) -> dict[Node, str]:
    """The maps of a matrix per row, by buffer name."""
    found = [node for node in walk(roots) if node.op == op and SINGLE in node.dims]
    return {node: f"{name}_{index}_rows" for index, node in enumerate(found)}

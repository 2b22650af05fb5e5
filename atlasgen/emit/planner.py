"""From a block program and its reverse to the kernels of one structure."""

from __future__ import annotations

from atlasgen.emit.backward_plan import BackwardPlanner
from atlasgen.emit.cuts import Cuts, block_stores, rows_can_walk
from atlasgen.emit.plan import Kernel, Plan, Store, Structure
from atlasgen.emit.refusals import refuse_structure, refuse_without_kernels
from atlasgen.emit.shared_sums import matrices_apart, parts_of, walks_keys
from atlasgen.emit.token_plan import token_plan
from atlasgen.ir.node import Node
from atlasgen.ir.program import BackwardProgram, BlockProgram

_INVERSE = "inverse", "How the errors of one block's rows follow from what its start predicts."
_COUPLING = "coupling", "How the errors of one block's rows enter the predictions of later ones."


class ForwardPlanner:
    """Cuts one rule's loop over blocks into kernels."""

    def __init__(self, cuts: Cuts) -> None:
        self.cuts = cuts

    def split(self) -> tuple[Kernel, ...]:
        """The kernels of the split form, without the prologue."""
        loaded = {**self.cuts.buffers, **self.cuts.carry_blocks(), **self.cuts.maps, **self.cuts.solved}
        read = list(self.cuts.program.outputs.values())
        rows = [self.cuts.row_kernels(kind, loaded, read) for kind in ("sources", "reads")]
        return (self._state(), *rows[0], *rows[1], self._output(loaded))

    def prologue(self) -> tuple[Kernel, ...]:
        """The kernels of gate-only values, where a structure has one, and of systems between rows."""
        kernels = []
        if self.cuts.gates:
            doc = "Decays and window weights of one block: what depends on the gates alone."
            for name, values in matrices_apart("gates", self.cuts.gates):
                kernels.append(Kernel(name, doc, "grid", "none", block_stores(values)))
        if self.cuts.channels:
            doc = "Decays by channel of one block, and the products of rows that they act in."
            given = self.cuts.gates
            for name, values in parts_of("channels", self.cuts.channels):
                axis = "K" if walks_keys(list(values), set(given)) else None
                stores = block_stores(values)
                kernels.append(Kernel(name, doc, "grid", "none", stores, dict(given), walk=axis))
        if self.cuts.systems:
            name, doc = _COUPLING
            if any(node.op == "unit_inverse" for node in self.cuts.systems):
                name, doc = _INVERSE
            stores, loaded = block_stores(self.cuts.systems), {**self.cuts.gates, **self.cuts.channels}
            kernels.append(Kernel(name, doc, "grid", "none", stores, loaded))
        return tuple(kernels)

    def _captures(self) -> tuple[tuple[str, Node, str], ...]:
        return tuple((entry.name, entry.value, entry.carry) for entry in self.cuts.program.captures)

    def _state(self) -> Kernel:
        cuts, captures = self.cuts, self._captures()
        roots = [*(carry.next for carry in cuts.program.carries), *(node for _, node, _ in captures)]
        if cuts.walk:
            return self._streaming_state()
        return Kernel(
            "state",
            "The memory from block to block, saved at the start of each.",
            "forward",
            cuts.parallel_or(roots, set(cuts.buffers), "whole"),
            block_stores({**cuts.maps, **cuts.solved}),
            dict(cuts.buffers),
            cuts.structure.walk_rows and rows_can_walk(roots, set(cuts.buffers)),
            cuts.program.carries,
            True,
            captures,
        )

    def _streaming_state(self) -> Kernel:
        cuts = self.cuts
        stores = [*block_stores(cuts.solved), *cuts.streaming_stores()]
        loaded = {**cuts.buffers, **cuts.carry_blocks()}
        return Kernel(
            "state",
            "The memory from block to block, tile by tile: a block writes the next one's start.",
            "forward",
            cuts.streamed_values(stores, set(loaded)),
            tuple(stores),
            loaded,
            walk=cuts.walk,
            streams=cuts.program.carries,
        )

    def _output_store(self) -> tuple[Store, ...]:
        outputs = self.cuts.program.outputs
        axes = ("V",) if self.cuts.program.block == 1 else ("r", "V")
        return tuple(Store(name, node, axes, "rows") for name, node in outputs.items())

    def _output(self, loaded: dict[Node, str]) -> Kernel:
        roots = list(self.cuts.program.outputs.values())
        return Kernel(
            "output",
            "The reads of one block.",
            "grid",
            self.cuts.parallel_or(roots, set(loaded), "whole"),
            self._output_store(),
            loaded,
            walk=self.cuts.walk,
        )

    def fused(self) -> Kernel:
        """The one kernel of the fused form."""
        roots = self.cuts.program.roots()
        return Kernel(
            "forward",
            "The memory from block to block and the reads of each block.",
            "forward",
            self.cuts.parallel_or(roots, set(), "whole"),
            self._output_store(),
            {},
            False,
            self.cuts.program.carries,
            True,
            self._captures(),
        )


def make_plan(program: BlockProgram, backward: BackwardProgram, structure: Structure) -> Plan:
    """The kernels of a rule under a structure.

    Raises CompileError where no kernel computes a value of the program, or not under this structure.
    """
    refuse_without_kernels(program)
    refuse_structure(program, structure)
    cuts = Cuts(program, backward, structure)
    if cuts.tokens:
        return token_plan(cuts)
    forward, reverse = ForwardPlanner(cuts), BackwardPlanner(cuts)
    if structure.form == "fused":
        return Plan(structure, (forward.fused(),), (reverse.fused(),))
    prologue = forward.prologue()
    return Plan(structure, (*prologue, *forward.split()), (*prologue, *reverse.split()))

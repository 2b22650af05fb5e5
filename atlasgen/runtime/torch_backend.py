"""The torch backend: runs a rule's emitted torch program, forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from atlasgen.emit.torch_emitter import backward_text, forward_text
from atlasgen.errors import CompileError
from atlasgen.ir.differentiate import differentiate
from atlasgen.ir.node import ROWS, Node, walk
from atlasgen.ir.operators.base import size
from atlasgen.ir.program import BackwardProgram, BlockProgram, Capture
from atlasgen.passes.factor_masks import factor_masks
from atlasgen.passes.kept_values import kept_values
from atlasgen.passes.merge_sources import merge_sources
from atlasgen.passes.tidy_products import tidy_backward, tidy_forward
from atlasgen.runtime.executable import SavedShapes
from atlasgen.runtime.rows import block_count
from atlasgen.runtime.torch_call import Call, source_rows
from atlasgen.schedules.serve import Scheduled, schedule
from atlasgen.spec.rule import MemoryRule
from atlasgen.spec.shapes import extent

LARGEST_BLOCK = 8192  # rows: their [rows, rows] weights take 256 MiB a head
EVEN = 16  # products with 80 columns take three quarters of the time of those with 79


@dataclass(frozen=True)
class TorchPrograms:
    """A rule's programs as this backend runs them, and the forward values that the backward is given."""

    forward: BlockProgram
    backward: BackwardProgram
    kept: dict[Node, str]

    def source(self) -> str:
        """The emitted torch program: functions `forward` and `backward`."""
        forward = forward_text(self.forward, self.kept)
        return forward + "\n\n" + backward_text(self.backward, self.kept)


def programs_for(scheduled: Scheduled) -> TorchPrograms:
    """The scheduled programs over one axis of sources, window gates factored, kept values chosen."""
    forward = tidy_forward(factor_masks(merge_sources(scheduled.forward)))
    forward = replace(forward, halo=_even_halo(forward.halo, scheduled.chunk))
    backward = tidy_backward(differentiate(forward))
    return TorchPrograms(forward, backward, kept_values(backward))


def _even_halo(halo: int, chunk: int) -> int:
    """Rows of the halo for matrix products of an even size; windows do not reach the ones added."""
    even = -(-halo // EVEN) * EVEN
    return even if even <= chunk else halo


def program_source(scheduled: Scheduled) -> str:
    """The emitted torch program of a rule: functions `forward` and `backward`."""
    return programs_for(scheduled).source()


class TorchProgram:
    """Executable of one rule on any device, in the inputs' precision (at least float32)."""

    def __init__(self, rule: MemoryRule) -> None:
        self.rule = rule
        self.scheduled = schedule(rule)
        if self.scheduled.chunk > LARGEST_BLOCK:
            raise CompileError(
                "block.size",
                self.scheduled.chunk,
                "a block is computed as a whole, with the weights between all its rows",
                f"block = {LARGEST_BLOCK}",
                rule=rule.name,
            )
        self.programs, self._functions = _compiled(rule)
        self.program = self.programs.forward
        self.chunk = self.scheduled.chunk
        self.source_rows = source_rows(self.program, self.chunk)
        self.leaves = tuple(self.program.leaves())
        kept = self.programs.kept
        reached = walk(self.programs.backward.roots(), set(kept))
        self.backward_leaves = tuple(n for n in reached if n.op == "leaf" and n not in kept)
        self.backward_kept = tuple(kept[node] for node in reached if node in kept)
        self._block_parts = frozenset(
            f"part_{index}"
            for index, part in enumerate(self.programs.backward.contributions)
            if part.leaf.get("segment") == "block" and part.leaf.dims == part.node.dims
        )
        rows = {node.dims for node in self.program.nodes() if ROWS & set(node.dims)}
        matrices = {dims for dims in rows if len(dims) == 3}
        self.rows_only = not matrices
        self._wide = matrices or {dims for dims in rows if len(dims) == 2 and not set(dims) <= ROWS | {"h"}}
        self._wide = self._wide if self.program.extents or matrices else {("r", "K"), ("r", "V")}
        self.inputs = self.scheduled.inputs
        self.windowed = self.scheduled.windowed
        self.outputs = self.scheduled.outputs

    # -- the Executable protocol ---------------------------------------------------------------------
    def forward(
        self, tensors: Mapping[str, Tensor | None], save: bool
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Outputs (y in v's dtype, float32 states) and what `backward` needs (if `save`)."""
        call = Call(self, tensors)
        arrays = call.arrays(self.leaves)
        initial = call.initial()
        names = {carry.name: carry.name for carry in self.program.carries}
        result = call.in_spans(self._functions["forward"], arrays, initial, names, False, ("y",))
        rows, outputs = call.rows, {}
        y = result["y"].movedim(1, 3).flatten(1, 2) if rows.count else call.empty_rows()
        outputs["y"] = rows.mask_tail(call.take_rows(y)).to(call.v.dtype).contiguous()
        for carry in self.program.carries:
            outputs[carry.name] = call.state(result[carry.name])
        for capture in self.program.captures:
            outputs[capture.name] = call.state(self._captured(capture, result, call))
        saved = {}
        if save:
            saved = {f"{c.name}_blocks": result[f"{c.name}_blocks"] for c in self.program.carries}
            saved |= {name: result[name] for name in self.programs.kept.values()}
        return outputs, saved

    def backward(
        self,
        tensors: Mapping[str, Tensor | None],
        saved: Mapping[str, Tensor],
        gradients: Mapping[str, Tensor | None],
    ) -> dict[str, Tensor]:
        """Gradients by input name, each in its input's dtype."""
        call = Call(self, tensors)
        backward, wanted = self.programs.backward, self.backward_leaves
        arrays = call.arrays(wanted)
        arrays |= {name: saved[name] for name in self.backward_kept}
        for carry in self.program.carries:
            if carry.leaf in wanted:
                arrays[carry.name] = saved[f"{carry.name}_blocks"]
        if any(leaf["name"] == "d_y" for leaf in wanted):
            arrays["d_y"] = call.gradient_rows(gradients.get("y"))
        incoming = self._incoming(gradients, call, arrays, wanted)
        names = {carry.leaf["name"]: carry.name for carry in backward.carries}
        result = call.in_spans(self._functions["backward"], arrays, incoming, names, True, self._block_parts)
        return call.collect(backward, result)

    def saved_shapes(self, sizes: dict[str, int]) -> SavedShapes:
        """Each carry at the start of each block, then the kept values."""
        aligned = bool(sizes["resume"]) and self.program.block is not None
        count = block_count(sizes["T"], self.chunk, aligned)
        table: SavedShapes = {}
        for carry in self.program.carries:
            own = tuple(self._extent(dim, sizes) for dim in carry.leaf.dims)
            shape = (sizes["B"], sizes["H"], count, *own)
            table[f"{carry.name}_blocks"] = (shape, torch.float32)
        for node, name in self.programs.kept.items():
            shape = (sizes["B"], sizes["H"], count, *(self._extent(dim, sizes) for dim in node.dims))
            table[name] = (shape, torch.float32)
        return table

    def _extent(self, dim: str, sizes: Mapping[str, int]) -> int:
        """The length of an axis: of features, hidden units, values, ages, sources or rows."""
        if dim in sizes:
            return sizes[dim]
        if dim in self.program.extents:
            return extent(self.program.extents[dim]).value(sizes)
        if dim == "h":
            return self.source_rows
        return self.program.window if dim == "c" else self.chunk

    def block_entries(self, sizes: Mapping[str, int]) -> int:
        """Entries of the values of one block that decide how many blocks are worked on at once.

        Keys and values where the rest is smaller; a deep memory's hidden rows or a matrix per token are not.
        """
        return sum(size(dims, {dim: self._extent(dim, sizes) for dim in dims}) for dims in self._wide)

    # -- captures ------------------------------------------------------------------------------------
    def _captured(self, capture: Capture, result: dict[str, Tensor], call: Call) -> Tensor:
        """The captured value of each sequence's open block."""
        value, final = result[f"{capture.name}_value"], result[capture.carry]
        picked = []
        for index, block in enumerate(call.rows.open_block.tolist()):
            inside = block < call.rows.count
            picked.append(value[index, :, block] if inside else final[index])
        return torch.stack(picked) if picked else final

    def _incoming(
        self,
        gradients: Mapping[str, Tensor | None],
        call: Call,
        arrays: dict[str, Tensor],
        wanted: Sequence[Node],
    ) -> dict[str, Tensor]:
        """Gradients that enter the reversed loop: of final carries, and of captured values."""
        incoming = {}
        for carry in self.program.carries:
            gradient = gradients.get(carry.name)
            shape = call.state_shape(carry.leaf.dims)
            zero = torch.zeros(shape, dtype=call.dtype, device=call.v.device)
            incoming[carry.name] = zero if gradient is None else zero + gradient
        for capture in self.program.captures:
            gradient = gradients.get(capture.name)
            if capture.name == capture.carry:  # `previous`: its final value is given as a capture
                incoming[capture.carry] = torch.zeros_like(incoming[capture.carry])
            leaf = next((leaf for leaf in wanted if leaf.get("capture") == capture.name), None)
            shape = (1, 1, call.rows.count, *[1] * len(capture.value.dims))
            dense = torch.zeros(1, dtype=call.dtype, device=call.v.device)
            dense = dense.reshape([1] * len(shape)).expand(shape)
            if gradient is not None:
                size = call.state_shape(capture.value.dims)
                dense = dense.expand(*size[:2], call.rows.count, *size[2:]).clone()
                for index, block in enumerate(call.rows.open_block.tolist()):
                    if block < call.rows.count:
                        dense[index, :, block] += gradient[index]
                    else:
                        incoming[capture.carry][index] += gradient[index]
            if leaf is not None:
                arrays[leaf["name"]] = dense
        named = {carry.leaf["carry"]: carry.leaf["name"] for carry in self.programs.backward.carries}
        return {named[name]: value for name, value in incoming.items()}


@lru_cache(maxsize=256)
def _compiled(rule: MemoryRule) -> tuple[TorchPrograms, dict[str, Callable[..., dict[str, Tensor]]]]:
    """The programs and their emitted functions, compiled under a file name that tracebacks show."""
    programs = programs_for(schedule(rule))
    source = programs.source()
    namespace: dict[str, Any] = {"torch": torch}
    exec(compile(source, f"<atlasgen torch program {rule.name}>", "exec"), namespace)
    return programs, {name: namespace[name] for name in ("forward", "backward")}


def make_executable(rule: MemoryRule) -> TorchProgram:
    """The torch executable of a rule.

    Raises CompileError where no schedule serves the rule.
    """
    return TorchProgram(rule)


__all__ = ["TorchProgram", "make_executable", "program_source"]

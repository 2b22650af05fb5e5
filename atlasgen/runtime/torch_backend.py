"""The torch backend: runs a rule's emitted torch program, forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from atlasgen.emit.torch_emitter import advance_text, again_text, backward_text, forward_text, leaf_name
from atlasgen.errors import CompileError
from atlasgen.ir.differentiate import differentiate
from atlasgen.ir.node import EARLIER, ROWS, Node, walk
from atlasgen.ir.operators.base import size
from atlasgen.ir.program import BackwardProgram, BlockProgram
from atlasgen.passes.factor_masks import factor_masks
from atlasgen.passes.kept_values import kept_values
from atlasgen.passes.merge_sources import merge_sources
from atlasgen.passes.tidy_products import tidy_backward, tidy_forward
from atlasgen.runtime.executable import SavedShapes
from atlasgen.runtime.rows import block_count
from atlasgen.runtime.torch_call import Call, Span, source_rows
from atlasgen.schedules.refusals import refusals
from atlasgen.schedules.serve import Scheduled, schedule
from atlasgen.spec.rule import MemoryRule
from atlasgen.spec.shapes import extent

LARGEST_BLOCK = 8192  # rows: their [rows, rows] weights take 256 MiB a head
DEEP_SPACING = 8  # blocks between checkpoints of a deep memory
KEPT_BYTES = 1 << 26  # that a deep memory keeps for the backward instead of computing it again
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

    def text(self, name: str) -> str:
        """The source of one function: "reads" is `forward` without kept values; "again" gives them alone,
        and "advance" nothing but the carries after a span."""
        if name == "backward":
            return backward_text(self.backward, self.kept)
        if name == "again":
            return again_text(self.forward, self.kept)
        if name == "advance":
            return advance_text(self.forward)
        return forward_text(self.forward, self.kept if name == "forward" else None)


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
    """Executable of one rule on any device, in the inputs' precision (at least float32).

    checkpoint_every: n keeps for the backward the state before every n-th block and nothing else; n blocks
    at a time are computed again. None keeps every block's state and what costs a product, if that is not too
    much for a deep memory or for one that is a matrix per token.
    """

    def __init__(
        self, rule: MemoryRule, checkpoint_every: int | None = None, name: str | None = None
    ) -> None:
        self.rule = rule
        self.scheduled = _scheduled(rule, name)
        self.programs = _programs(rule, self.scheduled.schedule)
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
        self._wide = {dims for dims in rows if len(dims) == 2 and not set(dims) <= ROWS | EARLIER}
        self._wide = self._wide if self.program.extents else {("r", "K"), ("r", "V")}
        self.checkpoint_every = checkpoint_every
        self._default_spacing = _checkpoints(self.program)
        self.inputs = self.scheduled.inputs
        self.windowed = self.scheduled.windowed
        self.outputs = self.scheduled.outputs

    def _function(self, name: str) -> Callable[..., dict[str, Tensor]]:
        return _function(self.rule, self.scheduled.schedule, name)

    # -- the Executable protocol ---------------------------------------------------------------------
    def forward(
        self, tensors: Mapping[str, Tensor | None], save: bool
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Outputs (y in v's dtype, float32 states) and what `backward` needs (if `save`)."""
        call = Call(self, tensors)
        arrays = call.arrays(self.leaves)
        names = {carry.name: carry.name for carry in self.program.carries}
        spacing = call.spacing
        kept = call.checkpoints() if save and spacing is not None else {}
        captured = {capture.name: _Captured(call) for capture in self.program.captures}

        def before(span: Span, carried: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
            if spacing is not None and span[0] % spacing == 0:
                for name, states in kept.items():
                    states[:, :, span[0] // spacing] = carried[name]
            return {}

        def after(span: Span, result: dict[str, Any]) -> None:
            for name, picked in captured.items():
                picked.pick(span, result.pop(f"{name}_value"))
            if spacing is not None:
                for name in names:
                    del result[f"{name}_blocks"]

        function = self._function("forward" if save and spacing is None else "reads")
        result = call.in_spans(function, arrays, call.initial(), names, ("y",), before, after)
        rows, outputs = call.rows, {}
        y = result["y"].movedim(1, 3).flatten(1, 2) if rows.count else call.empty_rows()
        outputs["y"] = rows.mask_tail(call.take_rows(y)).to(call.v.dtype).contiguous()
        for carry in self.program.carries:
            outputs[carry.name] = call.state(result[carry.name])
        for capture in self.program.captures:
            outputs[capture.name] = call.state(captured[capture.name].value(result[capture.carry]))
        return outputs, self._saved(call, kept, result) if save else {}

    def _saved(
        self, call: Call, states: Mapping[str, Tensor], result: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        """What `backward` needs: states at checkpoints, or of every block with the kept values."""
        if call.spacing is None:
            saved = {f"{carry.name}_blocks": result[f"{carry.name}_blocks"] for carry in self.program.carries}
            return saved | {name: result[name] for name in self.programs.kept.values()}
        saved = {f"{name}_blocks": some for name, some in states.items()}
        return saved | {name: call.empty() for name in self._announced()}

    def _announced(self) -> list[str]:
        """The kept values among the saved tensors; of a call that has checkpoints they are empty."""
        fixed = self.checkpoint_every is not None or self._default_spacing == 1
        return [] if fixed else list(self.programs.kept.values())

    def backward(
        self,
        tensors: Mapping[str, Tensor | None],
        saved: Mapping[str, Tensor],
        gradients: Mapping[str, Tensor | None],
    ) -> dict[str, Tensor]:
        """Gradients by input name, each in its input's dtype."""
        call = Call(self, tensors)
        backward, wanted = self.programs.backward, self.backward_leaves
        again = None
        if call.spacing is not None:
            every = call.arrays(dict.fromkeys((*self.leaves, *wanted)))
            names = {leaf_name(leaf) for leaf in wanted}
            arrays = {name: array for name, array in every.items() if name in names}
            again = self._computed_again(call, every, saved)
        else:
            arrays = call.arrays(wanted)
            arrays |= {name: saved[name] for name in self.backward_kept}
            for carry in self.program.carries:
                if carry.leaf in wanted:
                    arrays[carry.name] = saved[f"{carry.name}_blocks"]
        if any(leaf["name"] == "d_y" for leaf in wanted):
            arrays["d_y"] = call.gradient_rows(gradients.get("y"))
        incoming = self._incoming(gradients, call, arrays, wanted)
        names = {carry.leaf["name"]: carry.name for carry in backward.carries}
        unused = [f"{name}_blocks" for name in names.values()]

        def after(span: Span, result: dict[str, Any]) -> None:
            for name in unused:
                result.pop(name, None)

        function, parts = self._function("backward"), self._block_parts
        result = call.in_spans(function, arrays, incoming, names, parts, again, after, reverse=True)
        return call.collect(backward, result)

    def _computed_again(
        self, call: Call, arrays: Mapping[str, Any], saved: Mapping[str, Tensor]
    ) -> Callable[[Span, Mapping[str, Tensor]], Mapping[str, Any]]:
        """A function that gives the forward values of a span of blocks from the state at its start."""
        names = {leaf_name(leaf) for leaf in self.leaves}
        arrays = {name: array for name, array in arrays.items() if name in names}
        again = self._function("again")
        starts: dict[int, Mapping[str, Tensor]] = {}  # states by the block that they are before

        def values(span: Span, carried: Mapping[str, Tensor]) -> Mapping[str, Any]:
            result = call.apply(again, arrays, span, self._state_before(span, call, arrays, saved, starts))
            found = {name: result[name] for name in self.backward_kept}
            read = [carry.name for carry in self.program.carries if carry.leaf in self.backward_leaves]
            return found | {name: result[f"{name}_blocks"] for name in read}

        return values

    def _state_before(
        self,
        wanted: Span,
        call: Call,
        arrays: Mapping[str, Any],
        saved: Mapping[str, Tensor],
        starts: dict[int, Mapping[str, Tensor]],
    ) -> Mapping[str, Tensor]:
        """The state at a span's start, taken out of `starts` or computed from the nearest one before it.

        On the way states halfway to the span are added to `starts`, for the spans before it.
        """
        assert call.spacing is not None
        checkpoint = wanted[0] // call.spacing
        if not starts:
            blocks = {c.name: saved[f"{c.name}_blocks"] for c in self.program.carries}
            states = {name: some[:, :, checkpoint].to(call.dtype) for name, some in blocks.items()}
            starts[checkpoint * call.spacing] = states
        advance, first = self._function("advance"), max(starts)
        spans = [span for span in call.spans if first <= span[0] <= wanted[0]]
        states, low, last = starts[first], 0, len(spans) - 1
        for index, span in enumerate(spans[:-1]):
            states = call.apply(advance, arrays, span, states)
            states = {name: states[name] for name in starts[first]}
            if index + 1 == (low + last + 1) // 2 < last:
                starts[spans[index + 1][0]], low = states, index + 1
        starts.pop(wanted[0], None)
        return states

    def spacing(self, sizes: Mapping[str, int]) -> int | None:
        """Blocks between the checkpoints of a call; None: it keeps every block's state and kept values."""
        if self.checkpoint_every is not None or self._default_spacing in (None, 1):
            return self.checkpoint_every or self._default_spacing
        count = block_count(sizes["T"], self.chunk, bool(sizes["resume"]) and self.program.block is not None)
        kept = sizes["B"] * sizes["H"] * count * self.kept_entries(sizes) * torch.float32.itemsize
        return None if kept <= KEPT_BYTES else self._default_spacing

    def saved_shapes(self, sizes: dict[str, int]) -> SavedShapes:
        """Each carry at the start of each block, then the kept values; or carries at checkpoints alone."""
        aligned = bool(sizes["resume"]) and self.program.block is not None
        count = block_count(sizes["T"], self.chunk, aligned)
        every = self.spacing(sizes)
        states = count if every is None else (count + every - 1) // every
        table: SavedShapes = {}
        for carry in self.program.carries:
            own = tuple(self._extent(dim, sizes) for dim in carry.leaf.dims)
            table[f"{carry.name}_blocks"] = ((sizes["B"], sizes["H"], states, *own), torch.float32)
        announced = self.programs.kept.values() if every is None else self._announced()
        for node, name in self.programs.kept.items():
            if name in announced:
                shape = (sizes["B"], sizes["H"], count, *(self._extent(dim, sizes) for dim in node.dims))
                table[name] = (shape if every is None else (0,), torch.float32)
        return table

    def _extent(self, dim: str, sizes: Mapping[str, int]) -> int:
        """The length of an axis: of features, hidden units, values, ages, sources or rows."""
        if dim in sizes:
            return sizes[dim]
        if dim in self.program.extents:
            return extent(self.program.extents[dim]).value(sizes)
        if dim in EARLIER:
            return self.source_rows
        return self.program.window if dim == "c" else self.chunk

    def block_entries(self, sizes: Mapping[str, int]) -> int:
        """Entries of the values of one block that decide how many blocks are worked on at once.

        Keys and values where the rest is smaller; a deep memory's hidden rows or a matrix per token are not.
        """
        return sum(size(dims, {dim: self._extent(dim, sizes) for dim in dims}) for dims in self._wide)

    def kept_entries(self, sizes: Mapping[str, int]) -> int:
        """Entries of the state and the kept values of one block of a sequence and head."""
        nodes = [*(carry.leaf for carry in self.program.carries), *self.programs.kept]
        return sum(size(node.dims, {dim: self._extent(dim, sizes) for dim in node.dims}) for node in nodes)

    # -- gradients that enter -----------------------------------------------------------------------
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


class _Captured:
    """The value of each sequence's open block, picked from spans as they are computed."""

    def __init__(self, call: Call) -> None:
        self.open = call.rows.open_block.tolist()
        self.picked: dict[int, Tensor] = {}

    def pick(self, span: Span, value: Tensor) -> None:
        """Take what lies in the span from the values [B, H, n, ...] of its blocks."""
        for index, block in enumerate(self.open):
            if span[0] <= block < span[1]:
                self.picked[index] = value[index, :, block - span[0]]

    def value(self, final: Tensor) -> Tensor:
        """[B, H, ...]: what was picked; the final carry where no block is open."""
        rows = [self.picked.get(index, final[index]) for index in range(len(self.open))]
        return torch.stack(rows) if rows else final


def _checkpoints(program: BlockProgram) -> int | None:
    """How far checkpoints lie apart by default: states of deep memories are large, and matrices per token
    larger still; a matrix memory keeps what it has computed."""
    if any(len(node.dims) > 2 for node in program.nodes()):
        return 1
    return DEEP_SPACING if program.extents else None


@lru_cache(maxsize=256)
def _programs(rule: MemoryRule, name: str) -> TorchPrograms:
    return programs_for(schedule(rule, name))


@lru_cache(maxsize=1024)
def _scheduled(rule: MemoryRule, name: str | None) -> Scheduled:
    """The rule's programs; of blocks that are too long to be held as a whole in pieces."""
    found = schedule(rule, name)
    if found.chunk <= LARGEST_BLOCK:
        return found
    if name is None and not refusals(rule, "pieces"):
        return schedule(rule, "pieces")
    raise CompileError(
        "block.size",
        rule.block.size,
        "a block is computed as a whole, with the weights between all its rows",
        f"block = {LARGEST_BLOCK // rule.optimizer.micro_steps}",
        rule=rule.name,
    )


def _function(rule: MemoryRule, schedule: str, name: str) -> Callable[..., dict[str, Tensor]]:
    """An emitted function, compiled under a file name that tracebacks show."""
    namespace: dict[str, Any] = {"torch": torch}
    source = _programs(rule, schedule).text(name)
    exec(compile(source, f"<atlasgen torch program {rule.name}, {name}>", "exec"), namespace)
    return namespace["backward" if name == "backward" else "forward"]


def make_executable(
    rule: MemoryRule, schedule: str | None = None, checkpoint_every: int | None = None
) -> TorchProgram:
    """The torch executable of a rule by a schedule (None: the first that serves it).

    checkpoint_every: as in `TorchProgram`.

    Raises CompileError where no schedule serves the rule.
    """
    return TorchProgram(rule, checkpoint_every, schedule)


__all__ = ["TorchProgram", "make_executable", "program_source"]

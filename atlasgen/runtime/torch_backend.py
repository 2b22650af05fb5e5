"""The torch backend: runs a rule's emitted torch program, forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from atlasgen.emit.torch_emitter import backward_text, forward_text, leaf_name
from atlasgen.errors import CompileError
from atlasgen.ir.differentiate import differentiate
from atlasgen.ir.node import Node, walk
from atlasgen.ir.program import BackwardProgram, BlockProgram, Capture
from atlasgen.passes.factor_masks import factor_masks
from atlasgen.passes.kept_values import kept_values
from atlasgen.passes.merge_sources import SOURCES, merge_sources
from atlasgen.passes.tidy_products import tidy_backward, tidy_forward
from atlasgen.runtime import blocks
from atlasgen.runtime.executable import SavedShapes
from atlasgen.runtime.rows import Rows, block_count
from atlasgen.schedules.serve import Scheduled, schedule
from atlasgen.spec.expression import evaluate_number
from atlasgen.spec.rule import MemoryRule

CACHED_BYTES = 1 << 21  # of keys and values per span of blocks
LEAST_SPAN = 8  # blocks
LARGEST_BLOCK = 8192  # rows: their [rows, rows] weights take 256 MiB a head
ROW_TENSORS = ("q", "k", "v")
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
        self.inputs = self.scheduled.inputs
        self.windowed = self.scheduled.windowed
        self.outputs = self.scheduled.outputs

    # -- the Executable protocol ---------------------------------------------------------------------
    def forward(
        self, tensors: Mapping[str, Tensor | None], save: bool
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Outputs (y in v's dtype, float32 states) and what `backward` needs (if `save`)."""
        call = _Call(self, tensors)
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
        call = _Call(self, tensors)
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
            own = tuple(sizes["F" if dim == "K" else dim] for dim in carry.leaf.dims)
            shape = (sizes["B"], sizes["H"], count, *own)
            table[f"{carry.name}_blocks"] = (shape, torch.float32)
        for node, name in self.programs.kept.items():
            shape = (sizes["B"], sizes["H"], count, *(self._extent(dim, sizes) for dim in node.dims))
            table[name] = (shape, torch.float32)
        return table

    def _extent(self, dim: str, sizes: Mapping[str, int]) -> int:
        """The length of an axis: of features, values, ages, sources or rows."""
        if dim in "KV":
            return sizes["F" if dim == "K" else "V"]
        if dim == "h":
            return self.source_rows
        return self.program.window if dim == "c" else self.chunk

    # -- captures ------------------------------------------------------------------------------------
    def _captured(self, capture: Capture, result: dict[str, Tensor], call: _Call) -> Tensor:
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
        call: _Call,
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


class _Call:
    """The arrays of one call: inputs laid out in blocks."""

    def __init__(self, owner: TorchProgram, tensors: Mapping[str, Tensor | None]) -> None:
        self.owner, self.tensors = owner, tensors
        q, k, v = (self.given(name) for name in ROW_TENSORS)
        self.v = v
        double = torch.float64 in (q.dtype, k.dtype, v.dtype)
        self.dtype = torch.float64 if double else torch.float32
        self.sizes = {"K": k.shape[-1], "V": v.shape[-1], "c": owner.program.window}
        self.batch, self.tokens, self.heads = v.shape[:3]
        program, position = owner.program, tensors.get("position")
        self.resumed = position is not None
        self.rows = Rows.of(
            self.batch,
            self.tokens,
            owner.chunk,
            program.halo,
            program.window - 1,
            program.block is not None,
            position,
            tensors.get("length"),
            v.device,
        )
        self.frame = {
            "blocks": blocks,
            "count": self.rows.count,
            "rows": self.rows.rows,
            "halo": self.rows.halo,
            "window": program.window,
            "resumed": self.resumed,
        }

    def given(self, name: str) -> Tensor:
        """A tensor that the call certainly has."""
        tensor = self.tensors[name]
        assert tensor is not None, name
        return tensor

    def in_spans(
        self,
        function: Callable[..., dict[str, Any]],
        arrays: Mapping[str, Any],
        carried: Mapping[str, Tensor],
        names: Mapping[str, str],
        reverse: bool,
        by_rows: Collection[str],
    ) -> dict[str, Any]:
        """An emitted function over spans of blocks that fit the cache, the carries passed between them.

        names: the argument of each carry -> the result that is its value after the span. by_rows: results
        [B, H, N, C, ...] that become rows of a sequence.
        """
        spans = self._spans()
        if len(spans) == 1:
            return function(**self.frame, **arrays, **carried)
        count, collected = self.rows.count, dict[str, Any]()
        for first, last in reversed(spans) if reverse else spans:
            frame = {**self.frame, "count": last - first, "resumed": self.resumed and first == 0}
            part = {
                name: array[:, :, first:last]
                if isinstance(array, Tensor) and array.ndim > 2 and array.shape[2] == count
                else array
                for name, array in arrays.items()
            }
            result = function(**frame, **part, **carried)
            carried = {argument: result[name] for argument, name in names.items()}
            for name, value in result.items():
                if name in names.values():
                    collected[name] = value
                elif name.startswith("sum_"):
                    collected[name] = collected.get(name, 0.0) + value
                elif not isinstance(value, Tensor) or value.shape[2] != last - first:
                    collected[name] = value  # no block changes it
                else:
                    if name not in collected:
                        collected[name] = _whole(value, count, name in by_rows)
                    collected[name][:, :, first:last] = value
        return collected

    def _spans(self) -> list[tuple[int, int]]:
        """Ranges of blocks whose rows of keys and values take about CACHED_BYTES."""
        row = self.batch * self.heads * (self.sizes["K"] + self.sizes["V"]) * self.dtype.itemsize
        count = self.rows.count
        length = max(LEAST_SPAN, CACHED_BYTES // max(1, row * self.rows.rows))
        return [(first, min(first + length, count)) for first in range(0, count, length)] or [(0, 0)]

    def state_shape(self, dims: tuple[str, ...]) -> tuple[int, ...]:
        """[B, H, ...] of a carry."""
        return (self.batch, self.heads, *(self.sizes[dim] for dim in dims))

    def state(self, value: Tensor) -> Tensor:
        """A final state as it is returned: never an alias of an input."""
        return value.to(self.dtype).clone()

    def empty_rows(self) -> Tensor:
        """[B, 0, H, V]."""
        return self.v.new_zeros(self.batch, 0, self.heads, self.sizes["V"])

    def take_rows(self, laid: Tensor) -> Tensor:
        """[B, N*C, H, ...] -> [B, T, H, ...]."""
        rows = self.rows
        if rows.source is None:
            return laid[:, : rows.tokens]
        every = laid.new_zeros(self.batch, rows.held + rows.tokens + 1, *laid.shape[2:])
        index = torch.arange(self.batch, device=laid.device)[:, None]
        every[index, rows.source[:, rows.halo :]] = laid
        return every[:, rows.held : rows.held + rows.tokens]

    def initial(self) -> dict[str, Tensor]:
        """The carries before the first block."""
        table = {}
        for carry in self.owner.program.carries:
            value = self.tensors.get(carry.name)
            shape = self.state_shape(carry.leaf.dims)
            if value is None:
                value = torch.zeros(shape, dtype=self.dtype, device=self.v.device)
            table[carry.name] = value.to(self.dtype)
        return table

    def arrays(self, wanted: Sequence[Node]) -> dict[str, Any]:
        """Arrays of all leaves but carries and gradients, by the emitted programs' names."""
        rows: dict[str, list[Node]] = {}
        found: dict[str, Any] = {}
        for leaf in wanted:
            kind, name, array = leaf["kind"], leaf["name"], leaf_name(leaf)
            if kind == "token":
                rows.setdefault(name, []).append(leaf)
            elif kind in ("head", "position"):
                found[array] = self.given(name).to(self.dtype)[None, :, None]
            elif kind == "invariant":
                found[array] = self._invariant(name, leaf)
            elif kind == "live":
                found[array] = self.rows.live(self.empty())
            elif kind == "exists":
                found[array] = self.rows.exists(self.empty(), leaf["segment"])
            elif kind == "host":
                found[array] = evaluate_number(self.owner.rule.read.scale, self._scale_sizes())
        for name, some in rows.items():
            window = self.tensors.get(f"window_{name}") if name in self.owner.windowed else None
            x = self.rows.mask_tail(self.given(name).to(self.dtype))
            segments = self.rows.segments(x, window, {leaf["segment"] for leaf in some})
            found.update({leaf_name(leaf): segments[leaf["segment"]] for leaf in some})
        return found

    def empty(self) -> Tensor:
        """An empty tensor of the call's dtype and device."""
        return torch.empty(0, dtype=self.dtype, device=self.v.device)

    def _scale_sizes(self) -> dict[str, float]:
        return {"K": self.sizes["K"], "F": self.sizes["K"], "V": self.sizes["V"]}

    def _invariant(self, name: str, leaf: Node) -> Tensor:
        value = self.tensors.get(name)
        if value is None:
            return torch.zeros(self.state_shape(leaf.dims), dtype=self.dtype, device=self.v.device)[
                :, :, None
            ]
        return value.to(self.dtype)[:, :, None]

    def gradient_rows(self, gradient: Tensor | None) -> Tensor:
        """dY in blocks; rows that hold no token of the call get 0."""
        if gradient is None:
            gradient = torch.zeros_like(self.v)
        return self.rows.segments(self.rows.mask_tail(gradient.to(self.dtype)), None, ["block"])["block"]

    def collect(self, backward: Any, result: dict[str, Tensor]) -> dict[str, Tensor]:
        """Sum the contributions to each argument and bring them to its shape and dtype."""
        rows: dict[str, dict[str, Tensor]] = {}
        gradients: dict[str, Tensor] = {}
        for index, part in enumerate(backward.contributions):
            value = self._full(result[f"part_{index}"], part.node, part.leaf)
            kind = part.leaf["kind"]
            if kind == "token":
                segments = rows.setdefault(part.tensor, {})
                segment = part.leaf["segment"]
                segments[segment] = segments[segment] + value if segment in segments else value
            elif kind in ("head", "position"):
                value = value.sum((0, 2))
                gradients[part.tensor] = gradients.get(part.tensor, 0) + value
        for name, segments in rows.items():
            windowed = name in self.owner.windowed and self.resumed
            gradient, window = self.rows.gradient(segments, windowed)
            gradients[name] = self.rows.mask_tail(gradient)
            if window is not None:
                gradients[f"window_{name}"] = window
        for index, part in enumerate(backward.accumulate):
            value = result[f"sum_{index}"]
            if isinstance(value, Tensor):
                shape = self.state_shape(part.leaf.dims)  # the loop's axes are [B * H, ...]
                value = value.expand(self.batch * self.heads, *shape[2:])
                gradients[part.tensor] = value.unflatten(0, shape[:2])
        for carry in backward.carries:
            gradients[carry.leaf["carry"]] = result[carry.name]
        return {
            name: value.to(self.given(name).dtype)
            for name, value in gradients.items()
            if self.tensors.get(name) is not None
        }

    def _full(self, value: Tensor | float, node: Node, leaf: Node) -> Tensor:
        """A contribution with all axes of its leaf and all of [B, H, N]."""
        extent = {**self.sizes, "h": self.owner.source_rows}
        own = [extent.get(dim, self.rows.rows) for dim in leaf.dims]
        shape = (self.batch, self.heads, self.rows.count, *own)
        if not isinstance(value, Tensor):
            return torch.full(shape, value, dtype=self.dtype, device=self.v.device)
        for position, dim in enumerate(leaf.dims):
            if dim not in node.dims:
                value = value.unsqueeze(3 + position)
        return value.expand(shape)


def source_rows(program: BlockProgram, chunk: int) -> int:
    """The length of the axis "h": the halo's rows, or all sources where the program has one axis of them."""
    merged = any(leaf.get("segment") == SOURCES for leaf in program.leaves("token"))
    return program.halo + chunk if merged else program.halo


def _whole(part: Tensor, count: int, by_rows: bool) -> Tensor:
    """An array for all blocks of a result [B, H, n, C, ...]; `by_rows` lays it out as [B, N, C, H, ...]."""
    batch, heads, _, *own = part.shape
    if not by_rows:
        return part.new_empty(batch, heads, count, *own)
    return part.new_empty(batch, count, own[0], heads, *own[1:]).movedim(3, 1)


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

"""The arrays of one call of a torch program: inputs laid out in blocks, results brought back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from atlasgen.emit.torch_emitter import leaf_name
from atlasgen.ir.node import EARLIER, Node
from atlasgen.ir.program import BlockProgram
from atlasgen.passes.merge_sources import SOURCES
from atlasgen.runtime import blocks
from atlasgen.runtime.rows import Rows
from atlasgen.spec.expression import evaluate_number
from atlasgen.spec.shapes import extent
from atlasgen.spec.sizes import feature_size

if TYPE_CHECKING:
    from atlasgen.runtime.torch_backend import TorchProgram

CACHED_BYTES = 1 << 21  # of rows and matrices per span of blocks
LEAST_SPAN = 8  # blocks
ROW_TENSORS = ("q", "k", "v")
Span = tuple[int, int]  # the first block and the one after the last


class Call:
    """The arrays of one call: inputs laid out in blocks."""

    def __init__(self, owner: TorchProgram, tensors: Mapping[str, Tensor | None]) -> None:
        self.owner, self.tensors = owner, tensors
        q, k, v = (self.given(name) for name in ROW_TENSORS)
        self.v = v
        double = torch.float64 in (q.dtype, k.dtype, v.dtype)
        self.dtype = torch.float64 if double else torch.float32
        sizes = {"K": k.shape[-1], "V": v.shape[-1]}
        sizes["F"] = feature_size(owner.rule.features, sizes["K"])
        hidden = {axis: extent(text).at(sizes) for axis, text in owner.program.extents.items()}
        self.sizes = {**sizes, **hidden, "c": owner.program.window}
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
        every = {
            "B": self.batch,
            "T": self.tokens,
            "H": self.heads,
            "resume": int(self.resumed),
            **self.sizes,
        }
        self.spacing = owner.spacing(every)  # blocks between checkpoints
        self.spans = self._spans()
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
        by_rows: Collection[str],
        before: Callable[[Span, Mapping[str, Tensor]], Mapping[str, Any]] | None = None,
        after: Callable[[Span, dict[str, Any]], None] | None = None,
        reverse: bool = False,
    ) -> dict[str, Any]:
        """An emitted function over spans of blocks that fit the cache, the carries passed between them.

        names: the argument of each carry -> the result that is its value after the span. by_rows: results
        [B, H, N, C, ...] that become rows of a sequence. before(span, carries): further arrays of a span.
        after(span, results): may take results that are not to be collected for all blocks.
        """
        spans = self.spans
        collected = dict[str, Any]()
        for span in reversed(spans) if reverse else spans:
            more = {} if before is None else before(span, carried)
            result = self.apply(function, arrays, span, carried, more)
            del more
            carried = {argument: result[name] for argument, name in names.items()}
            if after is not None:
                after(span, result)
            if len(spans) == 1:
                return result
            self._collect(collected, result, span, names, by_rows)
        return collected

    def apply(
        self,
        function: Callable[..., dict[str, Any]],
        arrays: Mapping[str, Any],
        span: Span,
        carried: Mapping[str, Tensor],
        more: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """An emitted function on a span of blocks; arrays that it does not name are left out."""
        code = function.__code__
        names = set(code.co_varnames[: code.co_argcount])
        wanted = {name: array for name, array in arrays.items() if name in names}
        return function(**self.frame_of(span), **self.part(wanted, span), **(more or {}), **carried)

    def frame_of(self, span: Span) -> dict[str, Any]:
        """What an emitted function is told about the blocks of a span."""
        return {**self.frame, "count": span[1] - span[0], "resumed": self.resumed and span[0] == 0}

    def part(self, arrays: Mapping[str, Any], span: Span) -> dict[str, Any]:
        """The arrays of the blocks of a span, each in memory of its own order."""
        return {
            name: array[:, :, span[0] : span[1]].contiguous()
            if isinstance(array, Tensor) and array.ndim > 2 and array.shape[2] == self.rows.count
            else array
            for name, array in arrays.items()
        }

    def _collect(
        self,
        collected: dict[str, Any],
        result: Mapping[str, Any],
        span: Span,
        names: Mapping[str, str],
        by_rows: Collection[str],
    ) -> None:
        """Add a span's results to those of all blocks."""
        first, last = span
        for name, value in result.items():
            if name in names.values():
                collected[name] = value
            elif name.startswith("sum_"):
                collected[name] = collected.get(name, 0.0) + value
            elif not isinstance(value, Tensor) or value.shape[2] != last - first:
                collected[name] = value  # no block changes it
            else:
                if name not in collected:
                    collected[name] = _whole(value, self.rows.count, name in by_rows)
                collected[name][:, :, first:last] = value

    def _spans(self) -> list[Span]:
        """Ranges of blocks, none across a checkpoint, of the length that `_span_length` gives."""
        count, length = self.rows.count, self._span_length()
        step = self.spacing or max(1, count)
        return [
            (first, min(first + length, start + step, count))
            for start in range(0, count, step)
            for first in range(start, min(start + step, count), length)
        ] or [(0, 0)]

    def _span_length(self) -> int:
        """Blocks whose widest values take about CACHED_BYTES, or all that the backward reads of them."""
        each = self.batch * self.heads * self.dtype.itemsize
        if self.spacing is None:
            return max(LEAST_SPAN, CACHED_BYTES // max(1, each * self.owner.block_entries(self.sizes)))
        return max(1, min(self.spacing, CACHED_BYTES // max(1, each * self.owner.kept_entries(self.sizes))))

    def checkpoints(self) -> dict[str, Tensor]:
        """Arrays float32 [B, H, checkpoints, ...] for the state at each checkpoint, by carry."""
        count = -(-self.rows.count // (self.spacing or 1))
        table = {}
        for carry in self.owner.program.carries:
            batch, heads, *own = self.state_shape(carry.leaf.dims)
            table[carry.name] = self.v.new_empty(batch, heads, count, *own, dtype=torch.float32)
        return table

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

    def arrays(self, wanted: Iterable[Node]) -> dict[str, Any]:
        """Arrays of all leaves but carries and gradients, by the emitted programs' names."""
        rows: dict[str, list[Node]] = {}
        found: dict[str, Any] = {}
        for leaf in wanted:
            kind, name, array = leaf["kind"], leaf["name"], leaf_name(leaf)
            if kind == "token":
                rows.setdefault(name, []).append(leaf)
            elif kind in ("head", "position"):
                found[array] = self._per_head(leaf)
            elif kind == "invariant":
                found[array] = self._invariant(name, leaf)
            elif kind == "live":
                found[array] = self.rows.live(self.empty())
            elif kind == "border":
                found[array] = self._borders(leaf)
            elif kind == "exists":
                found[array] = self._exists(leaf)
            elif kind == "host":
                found[array] = evaluate_number(leaf["expression"], self.sizes)
        for name, some in rows.items():
            window = self.tensors.get(f"window_{name}") if name in self.owner.windowed else None
            x = self.rows.mask_tail(self.given(name).to(self.dtype))
            segments = self.rows.segments(x, window, {leaf["segment"] for leaf in some})
            found.update({leaf_name(leaf): segments[leaf["segment"]] for leaf in some})
        return found

    def empty(self) -> Tensor:
        """An empty tensor of the call's dtype and device."""
        return torch.empty(0, dtype=self.dtype, device=self.v.device)

    def _per_head(self, leaf: Node) -> Tensor:
        """[1, H, 1, ...] of a tensor per head; an optional one that is missing has its default."""
        given = self.tensors.get(leaf["name"])
        if given is None:
            lengths = [self.sizes.get(dim, self.rows.rows) for dim in leaf.dims]
            numbers = [evaluate_number(leaf["default"], {"row": row}) for row in range((lengths or [1])[0])]
            if leaf.get("index") is not None:
                numbers = [evaluate_number(leaf["default"], {"row": leaf["index"]})]
            row = torch.tensor(numbers, dtype=self.dtype, device=self.v.device)
            given = row.expand(self.heads, len(numbers)) if leaf.dims else row.expand(self.heads)
        elif leaf.get("index") is not None:
            given = given[:, leaf["index"]]
        return given.to(self.dtype)[None, :, None]

    def _borders(self, leaf: Node) -> Tensor:
        """1 in the last row of a full block, over rows or (of no axis) by block."""
        live = self.rows.live(self.empty())
        if leaf.get("every") is not None:
            first = self._places(leaf["every"])
            if leaf["place"] == "first":
                return live[..., 0] * (first == 0)
            live = live * (first == leaf["every"] - self.rows.rows)[..., None]
        if not leaf.dims:
            return live[..., -1]
        last = torch.zeros_like(live)
        last[..., -1] = live[..., -1]
        return last

    def _places(self, every: int) -> Tensor:
        """int64 [B or 1, 1, N]: the place of each piece's first row in its block of `every` tokens."""
        rows, position = self.rows.rows, self.tensors.get("position")
        index = torch.arange(self.rows.count, device=self.v.device)[None]
        return (rows * (index if position is None else index + position[:, None] // rows) % every)[:, None]

    def _exists(self, leaf: Node) -> Tensor:
        """1 in rows of a segment that hold a token, perhaps only those of the reader's own block."""
        found = self.rows.exists(self.empty(), leaf["segment"])
        if leaf.get("every") is None or leaf["segment"] == "block":
            return found
        ages = torch.arange(self.rows.halo, 0, -1, device=self.v.device)
        return found * (self._places(leaf["every"])[..., None] >= ages)

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
                self._add_per_head(gradients, part.leaf, value.sum((0, 2)))
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

    def _add_per_head(self, gradients: dict[str, Tensor], leaf: Node, value: Tensor) -> None:
        """Add the gradient of a tensor per head, or of one of its columns."""
        name, index = leaf["name"], leaf.get("index")
        if self.tensors.get(name) is None:
            return
        if index is None:
            gradients[name] = gradients.get(name, 0) + value
            return
        if name not in gradients:
            gradients[name] = torch.zeros_like(self.given(name), dtype=self.dtype)
        gradients[name][:, index] += value

    def _full(self, value: Tensor | float, node: Node, leaf: Node) -> Tensor:
        """A contribution with all axes of its leaf and all of [B, H, N]."""
        extent = {**self.sizes, **dict.fromkeys(EARLIER, self.owner.source_rows)}
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

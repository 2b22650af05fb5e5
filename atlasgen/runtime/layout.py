"""Tensors of a call brought into the form of a compiled program, and back: dtypes, heads, rows.

Everything here is plain differentiable torch around the program: the gradient of a shared key head
is summed, of a cast is cast back, of a row that no sequence covers is zero.
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import torch
from torch import Tensor

from atlasgen.errors import ArgumentError


def projections(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """q, k, v in the one dtype in which a program computes.

    Under autocast that is autocast's dtype; else the widest of the three (torch's promotion, so
    that float16 with bfloat16 gives float32). No cast loses digits except autocast's.
    """
    device = v.device.type
    if device != "meta" and torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    else:
        dtype = torch.promote_types(torch.promote_types(q.dtype, k.dtype), v.dtype)
    return q.to(dtype), k.to(dtype), v.to(dtype)


def expand_heads(tensor: Tensor, ratio: int, dim: int) -> Tensor:
    """Each head `ratio` times in a row along `dim`: head h of the result is head h // ratio."""
    if ratio == 1:
        return tensor
    repeated = tensor.unsqueeze(dim + 1)
    shape = list(repeated.shape)
    shape[dim + 1] = ratio
    return repeated.expand(shape).flatten(dim, dim + 1)


def first_of_group(tensor: Tensor, ratio: int, dim: int) -> Tensor:
    """The inverse of `expand_heads`: one head of each group of `ratio` equal ones."""
    return tensor if ratio == 1 else tensor.unflatten(dim, (-1, ratio)).select(dim + 1, 0)


class _GatherRows(torch.autograd.Function):
    """rows[index], zero where index is -1; `inverse` says where each row went, -1 for nowhere.

    The gradient is the same gather with the two maps exchanged, so no sum over rows is needed: it
    is reproducible bit by bit on every device.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, index: Tensor, inverse: Tensor) -> Tensor:
        ctx.save_for_backward(index, inverse)
        return _gathered(rows, index)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        index, inverse = ctx.saved_tensors
        return _GatherRows.apply(gradients[0], inverse, index), None, None


def _gathered(rows: Tensor, index: Tensor) -> Tensor:
    if rows.shape[0] == 0:
        return rows.new_zeros((index.shape[0], *rows.shape[1:]))
    missing = (index < 0).reshape(-1, *[1] * (rows.dim() - 1))
    return rows.index_select(0, index.clamp(min=0)).masked_fill(missing, 0)


def gather_rows(rows: Tensor, index: Tensor, inverse: Tensor) -> Tensor:
    """Rows [R, ...] -> [S, ...] by index int64 [S] with entries in [-1, R), zero rows for -1.

    inverse: int64 [R], the row of the result that holds each row, or -1. No row may be used twice.
    """
    gathered = _GatherRows.apply(rows, index, inverse)
    assert isinstance(gathered, Tensor)
    return gathered


class Packing(NamedTuple):
    """How sequences packed in one row [1, total] become one row each, [N, longest], and back."""

    padded: Tensor  # int64 [N * longest]: the packed row of each padded one, -1 beyond its length
    packed: Tensor  # int64 [total]: the padded row of each packed one, -1 where none covers it
    length: Tensor  # int64 [N]
    longest: int

    def pad(self, tensor: Tensor) -> Tensor:
        """[1, total, ...] -> [N, longest, ...], zero beyond each length."""
        rows = gather_rows(tensor[0], self.padded, self.packed)
        return rows.reshape(self.length.shape[0], self.longest, *tensor.shape[2:])

    def unpad(self, tensor: Tensor) -> Tensor:
        """[N, longest, ...] -> [1, total, ...], zero where no sequence covers a row."""
        return gather_rows(tensor.flatten(0, 1), self.packed, self.padded)[None]


def packing_of(cu_seqlens: Tensor, total: int, check: bool) -> Packing:
    """The maps of `cu_seqlens` int [N + 1], borders of sequences in `total` packed rows.

    The longest length sizes the padded tensors, so the borders are read on the host once per
    tensor: further calls with the same, unmodified tensor do not wait for the device. Under
    torch.compile the host cannot read them; every sequence is then padded to `total`.
    Raises ArgumentError for borders that do not ascend from 0 to at most `total`.
    """
    count = cu_seqlens.shape[0] - 1
    if torch.compiler.is_compiling() or cu_seqlens.is_meta:
        longest = total
    else:
        longest = _longest(cu_seqlens, total, check)
    borders = cu_seqlens.to(torch.int64)
    starts, length = borders[:-1], borders[1:] - borders[:-1]
    step = torch.arange(longest, device=borders.device)
    padded = starts[:, None] + step
    padded = torch.where(step < length[:, None], padded, -1).flatten()
    row = torch.arange(total, device=borders.device)
    if count == 0:
        return Packing(padded, torch.full_like(row, -1), length, longest)
    sequence = torch.searchsorted(borders[1:].contiguous(), row, right=True)
    covered = sequence < count
    sequence = sequence.clamp(max=count - 1)
    packed = torch.where(covered, sequence * longest + row - starts[sequence], -1)
    return Packing(padded, packed, length, longest)


# Borders read on the host, by tensor object; an entry dies with its tensor and is void once the
# tensor was written to (its version counter moved).
_read_borders: dict[int, tuple[weakref.ref[Tensor], int, list[int]]] = {}


def _longest(cu_seqlens: Tensor, total: int, check: bool) -> int:
    """The longest length, the borders checked; one device synchronisation per new tensor."""
    borders = None if check else _remembered(cu_seqlens)
    if borders is None:
        borders = [int(border) for border in cu_seqlens.tolist()]
        _remember(cu_seqlens, borders)
    if borders[0] != 0 or any(end < start for start, end in zip(borders, borders[1:])):
        raise ArgumentError(
            "cu_seqlens", "borders must start at 0 and never descend", value=borders,
            allowed="e.g. [0, 5, 5, 9] for lengths 5, 0 and 4",
        )  # fmt: skip
    if borders[-1] > total:
        raise ArgumentError(
            "cu_seqlens", f"the last border lies beyond the {total} tokens of v", value=borders[-1],
            allowed=f"0 to {total}; rows after it belong to no sequence and give 0",
        )  # fmt: skip
    return max((end - start for start, end in zip(borders, borders[1:])), default=0)


def _remembered(cu_seqlens: Tensor) -> list[int] | None:
    entry = _read_borders.get(id(cu_seqlens))
    if entry is None or cu_seqlens.is_inference():
        return None
    reference, version, borders = entry
    return borders if reference() is cu_seqlens and version == cu_seqlens._version else None


def _is_free_to_read(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu"


def _remember(cu_seqlens: Tensor, borders: list[int]) -> None:
    if _is_free_to_read(cu_seqlens) or cu_seqlens.is_inference():
        return  # tensors made in inference mode count no versions
    key = id(cu_seqlens)
    reference = weakref.ref(cu_seqlens, lambda _: _read_borders.pop(key, None))
    _read_borders[key] = (reference, cu_seqlens._version, borders)


def last_rows(before: Tensor, tokens: Tensor, length: Tensor | None) -> Tensor:
    """The last c - 1 rows of each sequence: `before` [B, c-1, ...], then its tokens [B, T, ...].

    length: int64 [B], the tokens of each sequence that exist, None for all. float32, fresh memory.
    """
    kept = before.shape[1]
    if length is None:
        joined = torch.cat([before, tokens[:, -kept:].to(before.dtype)], dim=1)
        return joined[:, -kept:].clone()
    joined = torch.cat([before, tokens.to(before.dtype)], dim=1)
    batch, rows = joined.shape[:2]
    device = joined.device
    offset = torch.arange(batch, device=device)[:, None]
    index = offset * rows + length[:, None] + torch.arange(kept, device=device)
    place = torch.arange(rows, device=device) - length[:, None]
    inverse = torch.where((place >= 0) & (place < kept), offset * kept + place, -1)
    picked = gather_rows(joined.flatten(0, 1), index.flatten(), inverse.flatten())
    return picked.reshape(batch, kept, *joined.shape[2:])

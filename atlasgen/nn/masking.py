"""Sequences with padding, brought into the packed form that the operators read."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from atlasgen.errors import ArgumentError
from atlasgen.runtime.layout import gather_rows


class MaskedRows(NamedTuple):
    """Which rows of [B, T] exist, as a packing of B sequences (or of cu_seqlens' ones) in one row.

    Shapes depend on B and T only and no value is read on the host.
    """

    packed: Tensor  # int64 [B * T]: the row of each packed place, -1 after the last token
    place: Tensor  # int64 [B * T]: the packed place of each row, -1 for padding
    borders: Tensor  # int64 [N + 1]

    def pack(self, x: Tensor) -> Tensor:
        """[B, T, D] -> [1, B * T, D]: tokens without padding in between, zero rows at the end."""
        return gather_rows(x.flatten(0, 1), self.packed, self.place)[None]

    def unpack(self, y: Tensor, batch: int) -> Tensor:
        """[1, B * T, D] -> [B, T, D], zero where there is padding."""
        return gather_rows(y[0], self.place, self.packed).unflatten(0, (batch, -1))


def masked_rows(mask: Tensor, x: Tensor, cu_seqlens: Tensor | None) -> MaskedRows:
    """The rows that mask [B, T] (nonzero: a token; zero: padding, anywhere) keeps of x [B, T, D].

    With cu_seqlens the sequences are its own, and the mask removes tokens from them.
    Raises ArgumentError for a mask of another shape.
    """
    if tuple(mask.shape) != tuple(x.shape[:2]):
        raise ArgumentError(
            "mask",
            "its shape disagrees with x",
            value=list(mask.shape),
            allowed=f"[B, T] = {list(x.shape[:2])}, nonzero where there is a token",
            suggestion="pass the columns of this call only, also in step by step decoding",
        )
    kept = mask.to(device=x.device, dtype=torch.bool)
    flat = kept.flatten()
    seen = flat.to(torch.int64).cumsum(0)
    before = torch.cat([seen.new_zeros(1), seen])
    place = torch.where(flat, seen - 1, -1)
    order = torch.argsort((~flat).to(torch.int8), stable=True)
    packed = torch.where(torch.arange(flat.shape[0], device=x.device) < before[-1], order, -1)
    if cu_seqlens is None:
        rows = torch.arange(kept.shape[0] + 1, device=x.device) * kept.shape[1]
    else:
        rows = cu_seqlens.to(torch.int64)
    return MaskedRows(packed, place, before[rows])

"""Products between rows whose decay differs by channel, for emitted torch programs.

A range of rows is halved until it has 16: the pairs of a lower and an upper half meet at the lower half's
last row, so each factor decays and no exponent is positive (see :mod:`atlasgen.ir.operators.channel`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from atlasgen.runtime.running import Running

DIRECT = 16  # rows whose pairs are taken one by one


class _Half(NamedTuple):
    """Rows `start` .. `middle` - 1 and `middle` .. `stop` - 1; without a middle all pairs of a range."""

    start: int
    middle: int | None
    stop: int


def _halves(start: int, stop: int) -> Iterator[_Half]:
    if stop - start <= DIRECT:
        yield _Half(start, None, stop)
        return
    middle = (start + stop) // 2
    yield _Half(start, middle, stop)
    yield from _halves(start, middle)
    yield from _halves(middle, stop)


class _Sums:
    """Running sums as [.., rows, channels], up to each reader and up to each source."""

    def __init__(self, log: Running, exclusive: bool) -> None:
        until, seen = log.before() if exclusive else (log.total, log.resets)
        self.until, self.total, self.dtype = until.mT, log.total.mT, log.clean.dtype
        self.seen = None if seen is None else seen.mT
        self.resets = None if log.resets is None else log.resets.mT

    def _exp(self, exponent: Tensor, later: Tensor | None, earlier: Tensor | None) -> Tensor:
        value = exponent.to(self.dtype).exp_()
        return value if later is None or earlier is None else value.masked_fill_(later != earlier, 0.0)

    def around(self, half: _Half) -> tuple[Tensor, Tensor]:
        """The decays from the anchor to each reader, and from each source to the anchor."""
        assert half.middle is not None
        low, high = slice(half.start, half.middle), slice(half.middle, half.stop)
        at = slice(half.middle - 1, half.middle)
        resets = [None] * 3
        if self.resets is not None and self.seen is not None:
            resets = [self.seen[..., high, :], self.resets[..., at, :], self.resets[..., low, :]]
        anchor = self.total[..., at, :]
        readers = self._exp(self.until[..., high, :] - anchor, resets[0], resets[1])
        return readers, self._exp(anchor - self.total[..., low, :], resets[1], resets[2])

    def pairs(self, half: _Half) -> Tensor:
        """[.., readers, sources, channels]: the decays of pairs, 0 where no source is earlier."""
        rows = slice(half.start, half.stop)
        exponent = self.until[..., rows, None, :] - self.total[..., None, rows, :]
        order = torch.ones(exponent.shape[-3:-1], dtype=torch.bool, device=exponent.device).tril(-1)
        value = self._exp(exponent.masked_fill(~order[..., None], -torch.inf), None, None)
        if self.resets is not None and self.seen is not None:
            value.masked_fill_(self.seen[..., rows, None, :] != self.resets[..., None, rows, :], 0.0)
        return value


def scores(left: Tensor, right: Tensor, log: Running, exclusive: bool) -> Tensor:
    """[.., C, C]: sum over channels of left[t] right[s] D[t, s] for s < t; left, right [.., C, channels]."""
    sums = _Sums(log, exclusive)
    result = left.new_zeros(*torch.broadcast_shapes(left.shape[:-2], right.shape[:-2]), *[left.shape[-2]] * 2)
    for half in _halves(0, left.shape[-2]):
        rows = slice(half.start, half.stop)
        if half.middle is None:
            products = left[..., rows, None, :] * right[..., None, rows, :]
            result[..., rows, rows] = (products * sums.pairs(half)).sum(-1)
            continue
        low, high = slice(half.start, half.middle), slice(half.middle, half.stop)
        readers, sources = sums.around(half)
        result[..., high, low] = (left[..., high, :] * readers) @ (right[..., low, :] * sources).mT
    return result


def mix(matrix: Tensor, rows: Tensor, log: Running, exclusive: bool, to_row: bool) -> Tensor:
    """[.., C, channels]: the sum over earlier rows s of matrix[t, s] rows[s] D[t, s], for each t.

    Not to_row: over later rows t of matrix[t, s] rows[t] D[t, s], for each s.
    """
    sums = _Sums(log, exclusive)
    result = rows.new_zeros(*torch.broadcast_shapes(matrix.shape[:-2], rows.shape[:-2]), *rows.shape[-2:])
    for half in _halves(0, rows.shape[-2]):
        own = slice(half.start, half.stop)
        if half.middle is None:
            weights = matrix[..., own, own, None] * sums.pairs(half)
            if to_row:
                result[..., own, :] += (weights * rows[..., None, own, :]).sum(-2)
            else:
                result[..., own, :] += (weights * rows[..., own, None, :]).sum(-3)
            continue
        low, high = slice(half.start, half.middle), slice(half.middle, half.stop)
        readers, sources = sums.around(half)
        between = matrix[..., high, low]
        if to_row:
            result[..., high, :] += readers * (between @ (rows[..., low, :] * sources))
        else:
            result[..., low, :] += sources * (between.mT @ (rows[..., high, :] * readers))
    return result

"""The library that emitted torch programs call: arrays have leading axes [B, H, N] before their own.

Inside the loop over blocks the axis N is gone. Row positions count from the block's first row; those of the
halo are negative.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

RESET = -80.0  # log decays below this forget everything: exp(-80) is 2e-35


def positions(rows: int, halo: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Positions of the block's rows [rows] and of the halo's [halo]."""
    row = torch.arange(rows, device=like.device)
    return row, torch.arange(-halo, 0, device=like.device)


def band(row: Tensor, column: Tensor, low: int | None, high: int | None) -> Tensor:
    """bool [rows, columns]: low <= age <= high, the age being row - column."""
    age = row[:, None] - column[None, :]
    keep = torch.ones_like(age, dtype=torch.bool)
    if low is not None:
        keep = keep & (age >= low)
    if high is not None:
        keep = keep & (age <= high)
    return keep


def where(condition: Tensor, value: Tensor | float, other: Tensor | float) -> Tensor:
    """torch.where that takes numbers on both sides and keeps the dtype of the tensors."""
    if not isinstance(value, Tensor) and not isinstance(other, Tensor):
        dtype = torch.get_default_dtype() if condition.dtype == torch.bool else condition.dtype
        return torch.where(
            condition, torch.tensor(value, dtype=dtype, device=condition.device), other
        )
    return torch.where(condition, value, other)


def maximum(left: Tensor | float, right: Tensor | float) -> Tensor:
    """Elementwise maximum of tensors and numbers."""
    if not isinstance(left, Tensor):
        left, right = right, left
    return torch.clamp(left, min=right)


def minimum(left: Tensor | float, right: Tensor | float) -> Tensor:
    """Elementwise minimum of tensors and numbers."""
    if not isinstance(left, Tensor):
        left, right = right, left
    return torch.clamp(left, max=right)


def inverse_root(x: Tensor) -> Tensor:
    """x**-0.5, 0 at 0."""
    return torch.where(x > 0, torch.rsqrt(x), torch.zeros_like(x))


def logcosh(x: Tensor) -> Tensor:
    """log(cosh(x)) without overflow."""
    magnitude = torch.abs(x)
    return magnitude + torch.log1p(torch.exp(-2.0 * magnitude)) - 0.6931471805599453


def cumsum(x: Tensor, axis: int, reverse: bool, exclusive: bool) -> Tensor:
    """Running sum along an axis, from its end if reverse, without the entry itself if exclusive."""
    total = torch.cumsum(x.flip(axis), axis).flip(axis) if reverse else torch.cumsum(x, axis)
    return total - x if exclusive else total


def _sums(log: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Running sum of log decays without resets, running count of resets, and both before summing."""
    reset = log < RESET
    clean = torch.where(reset, torch.zeros_like(log), log)
    flag = reset.to(log.dtype)
    return torch.cumsum(clean, -1), torch.cumsum(flag, -1), clean, flag


def decay(log: Tensor, exclusive: bool) -> Tensor:
    """[.., C] -> [.., C, C]: the product of decays over s < r <= t (r < t if exclusive), lower triangle."""
    total, resets, clean, flag = _sums(log)
    until, seen = (total - clean, resets - flag) if exclusive else (total, resets)
    rows = log.shape[-1]
    keep = torch.ones(rows, rows, dtype=torch.bool, device=log.device).tril(-1 if exclusive else 0)
    keep = keep & (seen[..., :, None] == resets[..., None, :])
    exponent = until[..., :, None] - total[..., None, :]
    return torch.exp(torch.where(keep, exponent, torch.full_like(exponent, -torch.inf)))


def decay_from_start(log: Tensor, exclusive: bool) -> Tensor:
    """[.., C] -> [.., C]: the product of decays up to and with each row (without it if exclusive)."""
    total, resets, clean, flag = _sums(log)
    if exclusive:
        total, resets = total - clean, resets - flag
    return torch.where(resets == 0, torch.exp(total), torch.zeros_like(total))


def decay_to_end(log: Tensor) -> Tensor:
    """[.., C] -> [.., C]: the product of decays after each row."""
    total, resets, _, _ = _sums(log)
    value = torch.exp(total[..., -1:] - total)
    return torch.where(resets == resets[..., -1:], value, torch.zeros_like(value))


def decay_whole(log: Tensor) -> Tensor:
    """[.., C] -> [..]: the product of all decays."""
    total, resets, _, _ = _sums(log)
    return torch.where(resets[..., -1] == 0, torch.exp(total[..., -1]), 0.0)


def _ages(row: Tensor, column: Tensor, ages: int) -> tuple[Tensor, Tensor]:
    age = row[:, None] - column[None, :]
    return age.clamp(0, ages - 1), (age >= 0) & (age < ages)


def expand_age(gate: Tensor, row: Tensor, column: Tensor, by_row: bool) -> Tensor:
    """[.., rows, c] (by_row) or [.., c] -> [.., rows, columns]: the gate of each pair's age, else 0."""
    index, valid = _ages(row, column, gate.shape[-1])
    if not by_row:
        value = gate[..., index]
    else:
        value = torch.gather(gate, -1, index.expand(*gate.shape[:-1], index.shape[-1]))
    return torch.where(valid, value, torch.zeros_like(value))


def collect_age(matrix: Tensor, row: Tensor, column: Tensor, ages: int) -> Tensor:
    """[.., rows, columns] -> [.., rows, c]: the entries of each row by age, 0 where there is none."""
    age = torch.arange(ages, device=row.device)
    index = row[:, None] - age[None, :] - column[0]
    valid = (index >= 0) & (index < column.shape[0])
    index = index.clamp(0, column.shape[0] - 1).expand(*matrix.shape[:-1], ages)
    value = torch.gather(matrix, -1, index)
    return torch.where(valid, value, torch.zeros_like(value))


def at_start(initial: Tensor, carried: Tensor, resumed: bool, block: int | None) -> Tensor:
    """`initial` in block 0 of a resumed call, else `carried`."""
    if not resumed:
        return carried
    if block is None:
        first = initial.expand_as(carried[:, :, :1])
        return torch.cat([first, carried[:, :, 1:]], 2)
    return initial if block == 0 else carried


def when_start(value: Tensor, first: bool, resumed: bool, block: int | None) -> Tensor | float:
    """The value in block 0 of a resumed call and zero elsewhere, or (not first) the opposite."""
    if not resumed:
        return 0.0 if first else value
    if block is None:
        index = torch.arange(value.shape[2], device=value.device)
        chosen = (index == 0) == first
        shape = [1, 1, -1] + [1] * (value.ndim - 3)
        return torch.where(chosen.reshape(shape), value, torch.zeros_like(value))
    return value if (block == 0) == first else torch.zeros_like(value)


def stack(values: Sequence[Tensor], like: Tensor) -> Tensor:
    """[B, H, ...] per block -> [B, H, N, ...]; no block gives an empty axis."""
    if values:
        return torch.stack(list(values), 2)
    return like.new_zeros(*like.shape[:2], 0, *like.shape[2:])

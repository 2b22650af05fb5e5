"""The library that emitted torch programs call: arrays have leading axes [B, H, N] before their own.

Inside the loop over blocks the axes are [B * H]. Row positions count from the block's first row; those of the
halo are negative.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from atlasgen.runtime import channels, exact, newton_schulz, polynomial
from atlasgen.runtime.running import Running, running

SOLVED_ROWS = 16  # of a system by channel: each of their pairs has a number for every channel

__all__ = [
    "channels",
    "exact",
    "newton_schulz",
    "polynomial",
    "running",
]  # emitted programs reach them through this library


def positions(rows: int, halo: int, merged: bool) -> tuple[range, range]:
    """Positions of the block's rows, and of the halo's or (merged) of all sources, halo first."""
    return range(rows), range(-halo, rows if merged else 0)


@lru_cache(maxsize=128)
def _band(
    row: range, column: range, low: int | None, high: int | None, dtype: torch.dtype, device: torch.device
) -> Tensor:
    with torch.inference_mode(False):
        age = _age(row, column, device)
        keep = torch.ones_like(age, dtype=torch.bool)
        if low is not None:
            keep = keep & (age >= low)
        if high is not None:
            keep = keep & (age <= high)
        return keep.to(dtype)


def _age(row: range, column: range, device: torch.device) -> Tensor:
    readers = torch.arange(row.start, row.stop, device=device)
    return readers[:, None] - torch.arange(column.start, column.stop, device=device)


def band(row: range, column: range, low: int | None, high: int | None, like: Tensor) -> Tensor:
    """[rows, columns]: 1 where low <= age <= high, the age being row - column, else 0. Read only."""
    return _band(row, column, low, high, like.dtype, like.device)


def where(condition: Tensor, value: Tensor | float, other: Tensor | float) -> Tensor:
    """torch.where that takes numbers on both sides and keeps the dtype of the tensors."""
    if not isinstance(value, Tensor) and not isinstance(other, Tensor):
        dtype = torch.get_default_dtype() if condition.dtype == torch.bool else condition.dtype
        return torch.where(condition, torch.tensor(value, dtype=dtype, device=condition.device), other)
    return torch.where(condition, value, other)


def maximum(left: Tensor | float, right: Tensor | float) -> Tensor:
    """Elementwise maximum of tensors and numbers."""
    if isinstance(left, Tensor) and isinstance(right, Tensor):
        return torch.maximum(left, right)
    tensor, number = (left, right) if isinstance(left, Tensor) else (right, left)
    assert isinstance(tensor, Tensor) and not isinstance(number, Tensor)
    return torch.clamp(tensor, min=number)


def minimum(left: Tensor | float, right: Tensor | float) -> Tensor:
    """Elementwise minimum of tensors and numbers."""
    if isinstance(left, Tensor) and isinstance(right, Tensor):
        return torch.minimum(left, right)
    tensor, number = (left, right) if isinstance(left, Tensor) else (right, left)
    assert isinstance(tensor, Tensor) and not isinstance(number, Tensor)
    return torch.clamp(tensor, max=number)


def inverse_root(x: Tensor) -> Tensor:
    """x**-0.5, 0 at 0."""
    return torch.where(x > 0, torch.rsqrt(x), torch.zeros_like(x))


def power(x: Tensor, exponent: float) -> Tensor:
    """|x|**exponent, 0 at 0 for any exponent."""
    size = torch.abs(x)
    return torch.where(size > 0, torch.pow(size, exponent), torch.zeros_like(x))


def signed_power(x: Tensor, exponent: float) -> Tensor:
    """sign(x) * |x|**exponent, 0 at 0 for any exponent."""
    return torch.sign(x) * power(x, exponent)


def gelu_slope(x: Tensor) -> Tensor:
    """The derivative of gelu."""
    one = torch.ones((), dtype=x.dtype, device=x.device)
    return torch.ops.aten.gelu_backward(one.expand_as(x), x)


def logcosh(x: Tensor) -> Tensor:
    """log(cosh(x)) without overflow."""
    magnitude = torch.abs(x)
    return magnitude + torch.log1p(torch.exp(-2.0 * magnitude)) - 0.6931471805599453


def unit_inverse(lower: Tensor, by_row: bool) -> Tensor:
    """(I + A)^-1 of strictly lower A, transposed if A is given as it is (by_row), else A is the transpose."""
    identity = torch.eye(lower.shape[-1], dtype=lower.dtype, device=lower.device)
    if by_row:
        return torch.linalg.solve_triangular(lower.mT, identity, upper=True, unitriangular=True)
    return torch.linalg.solve_triangular(lower.mT, identity, upper=False, unitriangular=True)


def unit_solve(lower: Tensor, factor: Tensor, given: Tensor, adjoint: bool) -> Tensor:
    """E [.., C, V] of E + g (A E) = R, or, adjoint, of E + A^T (g E) = R, for a strictly lower A [.., C, C].

    factor, given: g and R [.., C, V]. Blocks of rows are substituted one after the other; the rows of one for
    all channels at once, each channel a system of its own.
    """
    system, rows = lower.mT if adjoint else lower, lower.shape[-1]
    shape = torch.broadcast_shapes(lower.shape[:-2], factor.shape[:-2], given.shape[:-2])
    found = given.new_empty((*shape, *given.shape[-2:]))
    starts = range(0, rows, SOLVED_ROWS)
    for start in reversed(starts) if adjoint else starts:
        piece = slice(start, min(start + SOLVED_ROWS, rows))
        known = slice(piece.stop, rows) if adjoint else slice(0, start)
        right, own = given[..., piece, :], factor[..., piece, :]
        weights, square = system[..., piece, known], system[..., None, piece, piece]
        if adjoint:
            right = right - weights @ (factor[..., known, :] * found[..., known, :])
            square = square * own.mT[..., None, :]
        else:
            right = right - own * (weights @ found[..., known, :])
            square = square * own.mT[..., None]
        columns = right.mT[..., None].expand(*shape, -1, -1, -1)
        solved = torch.linalg.solve_triangular(square, columns, upper=adjoint, unitriangular=True)
        found[..., piece, :] = solved[..., 0].mT
    return found


def cumsum(x: Tensor, axis: int, reverse: bool, exclusive: bool) -> Tensor:
    """Running sum along an axis, from its end if reverse, without the entry itself if exclusive.

    Nothing is subtracted: an entry may be larger than all before it by more than float32 resolves.
    """
    kept, lost = (1, 0) if reverse else (0, 1)
    count = x.shape[axis]
    part = x.narrow(axis, kept, count - 1) if exclusive else x
    total = torch.cumsum(part.flip(axis), axis).flip(axis) if reverse else torch.cumsum(part, axis)
    if not exclusive:
        return total
    result = torch.zeros_like(x)
    result.narrow(axis, lost, count - 1).copy_(total)
    return result


@lru_cache(maxsize=32)
def _above(rows: int, offset: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """[rows, rows]: -inf above the diagonal `offset`, else 0."""
    with torch.inference_mode(False):
        return torch.full((rows, rows), -torch.inf, dtype=dtype, device=device).triu(offset)


def decay(log: Running, exclusive: bool) -> Tensor:
    """[.., C] -> [.., C, C]: the product of decays over s < r <= t (r < t if exclusive), lower triangle."""
    total, resets = log.total, log.resets
    until, seen = log.before() if exclusive else (total, resets)
    if log.mild:  # two exponentials of rows instead of one of the matrix: the same digits
        value = torch.exp(until)[..., :, None] * torch.exp(-total)[..., None, :]
        row = range(total.shape[-1])
        return value.mul_(band(row, row, 1 if exclusive else 0, None, total))
    exponent = (until[..., :, None] - total[..., None, :]).to(log.clean.dtype)
    exponent += _above(total.shape[-1], 0 if exclusive else 1, exponent.dtype, total.device)
    if resets is not None and seen is not None:
        exponent.masked_fill_(seen[..., :, None] != resets[..., None, :], -torch.inf)
    return exponent.exp_()


def decay_from_start(log: Running, exclusive: bool) -> Tensor:
    """[.., C] -> [.., C]: the product of decays up to and with each row (without it if exclusive)."""
    total, resets = log.before() if exclusive else (log.total, log.resets)
    value = torch.exp(total.to(log.clean.dtype))
    return value if resets is None else value.masked_fill_(resets != 0, 0.0)


def decay_to_end(log: Running) -> Tensor:
    """[.., C] -> [.., C]: the product of decays after each row."""
    value = torch.exp((log.total[..., -1:] - log.total).to(log.clean.dtype))
    return value if log.resets is None else value.masked_fill_(log.resets != log.resets[..., -1:], 0.0)


def decay_whole(log: Running) -> Tensor:
    """[.., C] -> [..]: the product of all decays."""
    value = torch.exp(log.total[..., -1].to(log.clean.dtype))
    return value if log.resets is None else value.masked_fill_(log.resets[..., -1] != 0, 0.0)


@lru_cache(maxsize=64)
def _ages(row: range, column: range, ages: int, device: torch.device) -> tuple[Tensor, Tensor]:
    with torch.inference_mode(False):
        age = _age(row, column, device)
        return age.clamp(0, ages - 1), (age >= 0) & (age < ages)


def expand_age(gate: Tensor, row: range, column: range, by_row: bool) -> Tensor:
    """[.., rows, c] (by_row) or [.., c] -> [.., rows, columns]: the gate of each pair's age, else 0."""
    index, valid = _ages(row, column, gate.shape[-1], gate.device)
    if not by_row:
        value = gate[..., index]
    else:
        value = torch.gather(gate, -1, index.expand(*gate.shape[:-1], index.shape[-1]))
    return torch.where(valid, value, torch.zeros_like(value))


def collect_age(matrix: Tensor, row: range, column: range, ages: int) -> Tensor:
    """[.., rows, columns] -> [.., rows, c]: the entries of each row by age, 0 where there is none."""
    index = _age(row, range(ages), matrix.device) - column.start
    valid = (index >= 0) & (index < len(column))
    index = index.clamp(0, len(column) - 1).expand(*matrix.shape[:-1], ages)
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


def each(x: Tensor | float, count: int, like: Tensor) -> Sequence[Any]:
    """The values of each block, leading axes flattened: [B, H, N, ...] -> N times [B * H, ...].

    N = 1 gives the same value `count` times, and so does a number, such as the zero of `when_start`;
    B = H = 1 stays one row, which broadcasts.
    """
    if not isinstance(x, Tensor):
        return [x] * count
    if x.shape[:2] != (1, 1):
        x = x.expand(*like.shape[:2], *x.shape[2:])
    flat = x.flatten(0, 1)
    return flat.unbind(1) if x.shape[2] == count else [flat[:, 0]] * count


def add_product(base: Tensor, left: Tensor, right: Tensor, sign: int) -> Tensor:
    """base + sign * left @ right for [.., M, N], [.., M, K] and [.., K, N], in the memory of `base`."""
    flat = base.flatten(0, -3)
    flat.baddbmm_(left.flatten(0, -3), right.flatten(0, -3), alpha=sign)
    return flat.view(base.shape)


def stack(values: Sequence[Tensor], like: Tensor) -> Tensor:
    """[B * H, ...] per block -> [B, H, N, ...]; no block gives an empty axis."""
    if len(values) == 1:
        return values[0].unflatten(0, like.shape[:2]).unsqueeze(2)
    if values:
        return torch.stack(list(values), 1).unflatten(0, like.shape[:2])
    return like.new_zeros(*like.shape[:2], 0, *like.shape[2:])

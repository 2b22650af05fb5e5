"""Helper functions of kernels whose decays differ by channel (see :mod:`atlasgen.ir.operators.channel`).

Rows are halved down to ranges of 16: a lower and an upper half meet at the lower half's last row, so both
factors decay and no exponent is positive; inside ranges of 16 rows each pair has its own exponent.
"""

import triton
import triton.language as tl

from atlasgen.emit.tile_library import diagonal_blocks, quadrant, split_log


@triton.jit
def sum_of_others(x, reverse: tl.constexpr):
    """The running sum along rows without each row's own entry, which may dwarf those before it."""
    rows: tl.constexpr = x.shape[0]
    row = tl.arange(0, rows)
    before = row + 1 if reverse else row - 1
    inside = (before >= 0) & (before < rows)
    place = tl.broadcast_to(tl.where(inside, before, 0)[:, None], x.shape)
    return tl.cumsum(tl.where(inside[:, None], tl.gather(x, place, 0), 0.0), 0, reverse=reverse)


@triton.jit
def channel_sums(log, exclusive: tl.constexpr):
    """Running sums of log decays [rows, channels] up to sources, and up to readers (or before them)."""
    coarse, fine, reset = split_log(log)
    sums, fine_sums, resets = tl.cumsum(coarse, 0), tl.cumsum(fine, 0), tl.cumsum(reset, 0)
    if exclusive:
        return sums, fine_sums, resets, sums - coarse, fine_sums - fine, resets - reset
    else:
        return sums, fine_sums, resets, sums, fine_sums, resets


@triton.jit
def in_ranges(matrix, size: tl.constexpr):
    """[rows, channels] as [ranges, size, channels]."""
    return tl.reshape(matrix, [matrix.shape[0] // size, size, matrix.shape[1]])


@triton.jit
def row_of_ranges(ranges, row):
    """[ranges, 1, channels]: one row of each range."""
    index = tl.arange(0, ranges.shape[1])[None, :, None]
    return tl.expand_dims(tl.sum(tl.where(index == row, ranges, 0.0), 1), 1)


@triton.jit
def half_of(matrix, half: tl.constexpr, side: tl.constexpr):
    """[ranges, half, channels]: the lower (side 0) or the upper half of each range of rows."""
    count: tl.constexpr = matrix.shape[0] // (2 * half)
    halves = tl.reshape(matrix, [count, 2, half, matrix.shape[1]])
    return tl.sum(tl.where(tl.arange(0, 2)[None, :, None, None] == side, halves, 0.0), 1)


@triton.jit
def from_half(part, side: tl.constexpr):
    """[rows, channels] with rows [ranges, half, channels] in one half of each range, else 0."""
    count: tl.constexpr = part.shape[0]
    half: tl.constexpr = part.shape[1]
    halves = tl.where(tl.arange(0, 2)[None, :, None, None] == side, tl.expand_dims(part, 1), 0.0)
    return tl.reshape(halves, [2 * count * half, part.shape[2]])


@triton.jit
def anchored_decays(sums, fine, resets, until, until_fine, seen, half: tl.constexpr):
    """[ranges, half, channels]: the decays from the anchor to upper readers, from lower sources to it."""
    low, low_fine, low_resets = half_of(sums, half, 0), half_of(fine, half, 0), half_of(resets, half, 0)
    high, high_fine = half_of(until, half, 1), half_of(until_fine, half, 1)
    anchor, anchor_fine = row_of_ranges(low, half - 1), row_of_ranges(low_fine, half - 1)
    anchor_resets = row_of_ranges(low_resets, half - 1)
    after = (high - anchor) + (high_fine - anchor_fine)
    before = (anchor - low) + (anchor_fine - low_fine)
    readers = tl.exp(tl.where(half_of(seen, half, 1) == anchor_resets, after, float("-inf")))
    sources = tl.exp(tl.where(anchor_resets == low_resets, before, float("-inf")))
    return readers, sources


@triton.jit
def in_corner(corner):
    """[count, 2 half, 2 half] with [count, half, half] where upper rows meet lower columns, else 0."""
    side = tl.arange(0, 2)
    row, column = side[None, :, None, None, None], side[None, None, None, :, None]
    tiles = tl.where((row == 1) & (column == 0), corner[:, None, :, None, :], 0.0)
    return tl.reshape(tiles, [corner.shape[0], 2 * corner.shape[1], 2 * corner.shape[2]])


@triton.jit
def on_diagonal(blocks):
    """[rows, rows] with the blocks [count, size, size] along its diagonal, else 0."""
    count: tl.constexpr = blocks.shape[0]
    size: tl.constexpr = blocks.shape[1]
    index = tl.arange(0, count)
    own = index[:, None, None, None] == index[None, None, :, None]
    return tl.reshape(tl.where(own, tl.expand_dims(blocks, 2), 0.0), [count * size, count * size])


@triton.jit
def channel_scores(left, right, log, exclusive: tl.constexpr, dtype: tl.constexpr, precision: tl.constexpr):
    """[rows, rows]: the sum over channels of left[t] right[s] D[t, s] for s < t, else 0."""
    rows: tl.constexpr = left.shape[0]
    sums, fine, resets, until, until_fine, seen = channel_sums(log, exclusive)
    near, near_fine, near_resets = in_ranges(sums, 16), in_ranges(fine, 16), in_ranges(resets, 16)
    to, to_fine, to_seen = in_ranges(until, 16), in_ranges(until_fine, 16), in_ranges(seen, 16)
    readers, sources = in_ranges(left, 16), in_ranges(right, 16)
    index = tl.arange(0, 16)
    found = tl.zeros([rows // 16, 16, 16], dtype=tl.float32)
    for step in range(0, 15):
        exponent = (to - row_of_ranges(near, step)) + (to_fine - row_of_ranges(near_fine, step))
        keep = (index[None, :, None] > step) & (to_seen == row_of_ranges(near_resets, step))
        weight = tl.exp(tl.where(keep, exponent, float("-inf")))
        score = tl.sum(readers * row_of_ranges(sources, step) * weight, 2)
        found = tl.where(index[None, None, :] == step, tl.expand_dims(score, 2), found)
    result = on_diagonal(found)
    for level in tl.static_range(0, 4):
        if (16 << level) < rows:
            after, before = anchored_decays(sums, fine, resets, until, until_fine, seen, 16 << level)
            a = (half_of(left, 16 << level, 1) * after).to(dtype)
            b = (half_of(right, 16 << level, 0) * before).to(dtype)
            product = tl.dot(a, tl.permute(b, (0, 2, 1)), input_precision=precision)
            result += on_diagonal(in_corner(product))
    return result


@triton.jit
def channel_mix(matrix, right, log, exclusive: tl.constexpr, dtype: tl.constexpr, precision: tl.constexpr):
    """[rows, channels]: for each t the sum over s < t of matrix[t, s] right[s] D[t, s]."""
    rows: tl.constexpr = right.shape[0]
    sums, fine, resets, until, until_fine, seen = channel_sums(log, exclusive)
    near, near_fine, near_resets = in_ranges(sums, 16), in_ranges(fine, 16), in_ranges(resets, 16)
    to, to_fine, to_seen = in_ranges(until, 16), in_ranges(until_fine, 16), in_ranges(seen, 16)
    sources, blocks = in_ranges(right, 16), diagonal_blocks(matrix, 16)
    index = tl.arange(0, 16)
    found = tl.zeros_like(sources)
    for step in range(0, 15):
        exponent = (to - row_of_ranges(near, step)) + (to_fine - row_of_ranges(near_fine, step))
        keep = (index[None, :, None] > step) & (to_seen == row_of_ranges(near_resets, step))
        weight = tl.exp(tl.where(keep, exponent, float("-inf")))
        column = tl.sum(tl.where(index[None, None, :] == step, blocks, 0.0), 2)
        found += tl.expand_dims(column, 2) * row_of_ranges(sources, step) * weight
    result = tl.reshape(found, right.shape)
    for level in tl.static_range(0, 4):
        if (16 << level) < rows:
            after, before = anchored_decays(sums, fine, resets, until, until_fine, seen, 16 << level)
            between = quadrant(diagonal_blocks(matrix, 32 << level), 1, 0).to(dtype)
            b = (half_of(right, 16 << level, 0) * before).to(dtype)
            result += from_half(after * tl.dot(between, b, input_precision=precision), 1)
    return result


@triton.jit
def channel_mix_back(
    matrix, left, log, exclusive: tl.constexpr, dtype: tl.constexpr, precision: tl.constexpr
):
    """[rows, channels]: for each s the sum over t > s of matrix[t, s] left[t] D[t, s]."""
    rows: tl.constexpr = left.shape[0]
    sums, fine, resets, until, until_fine, seen = channel_sums(log, exclusive)
    near, near_fine, near_resets = in_ranges(sums, 16), in_ranges(fine, 16), in_ranges(resets, 16)
    to, to_fine, to_seen = in_ranges(until, 16), in_ranges(until_fine, 16), in_ranges(seen, 16)
    readers, blocks = in_ranges(left, 16), diagonal_blocks(matrix, 16)
    index = tl.arange(0, 16)
    found = tl.zeros_like(readers)
    for step in range(1, 16):
        exponent = (row_of_ranges(to, step) - near) + (row_of_ranges(to_fine, step) - near_fine)
        keep = (index[None, :, None] < step) & (row_of_ranges(to_seen, step) == near_resets)
        weight = tl.exp(tl.where(keep, exponent, float("-inf")))
        row = tl.sum(tl.where(index[None, :, None] == step, blocks, 0.0), 1)
        found += tl.expand_dims(row, 2) * row_of_ranges(readers, step) * weight
    result = tl.reshape(found, left.shape)
    for level in tl.static_range(0, 4):
        if (16 << level) < rows:
            after, before = anchored_decays(sums, fine, resets, until, until_fine, seen, 16 << level)
            between = tl.permute(quadrant(diagonal_blocks(matrix, 32 << level), 1, 0), (0, 2, 1)).to(dtype)
            a = (half_of(left, 16 << level, 1) * after).to(dtype)
            result += from_half(before * tl.dot(between, a, input_precision=precision), 0)
    return result

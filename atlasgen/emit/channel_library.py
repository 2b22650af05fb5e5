"""Helper functions of kernels whose decays differ by channel (see :mod:`atlasgen.ir.operators.channel`).

Rows are halved down to ranges of 16: a lower and an upper half meet at the lower half's last row, so both
factors decay and no exponent is positive; inside ranges of 16 rows each pair has its own exponent.
"""

import triton
import triton.language as tl

from atlasgen.emit.tile_library import diagonal_blocks, split_log


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
def anchor_of(sums, half: tl.constexpr):
    """[rows, channels]: each row's sum at the last row of the lower half of its range of 2 half rows."""
    ranges = in_ranges(sums, 2 * half)
    return tl.reshape(row_of_ranges(ranges, half - 1) + tl.zeros_like(ranges), sums.shape)


@triton.jit
def anchored_decays(sums, fine, resets, until, until_fine, seen, half: tl.constexpr):
    """The decays from the anchor to readers in upper halves, and from sources in lower halves; else 0."""
    anchor, anchor_fine, anchor_resets = anchor_of(sums, half), anchor_of(fine, half), anchor_of(resets, half)
    upper = (tl.arange(0, sums.shape[0]) % (2 * half) >= half)[:, None]
    after = (until - anchor) + (until_fine - anchor_fine)
    before = (anchor - sums) + (anchor_fine - fine)
    readers = tl.exp(tl.where(upper & (seen == anchor_resets), after, float("-inf")))
    sources = tl.exp(tl.where((upper == 0) & (anchor_resets == resets), before, float("-inf")))
    return readers, sources


@triton.jit
def in_one_range(rows: tl.constexpr, size: tl.constexpr):
    """[rows, rows]: whether two rows are in one range."""
    row = tl.arange(0, rows) // size
    return row[:, None] == row[None, :]


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
            a, b = (left * after).to(dtype), (right * before).to(dtype)
            product = tl.dot(a, tl.trans(b), input_precision=precision)
            result += tl.where(in_one_range(rows, 32 << level), product, 0.0)
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
            between = tl.where(in_one_range(rows, 32 << level), matrix, 0.0).to(dtype)
            result += after * tl.dot(between, (right * before).to(dtype), input_precision=precision)
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
            between = tl.where(in_one_range(rows, 32 << level), matrix, 0.0).to(dtype)
            result += before * tl.dot(tl.trans(between), (left * after).to(dtype), input_precision=precision)
    return result

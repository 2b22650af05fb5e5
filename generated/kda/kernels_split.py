"""Kernels of the memory rule kda (split_all_rows_4).

Rule a6d2203cf71c, schedule wy, generator 1. Written by `atlasgen build`; edit the spec, not this file.
"""

import triton
import triton.language as tl


@triton.jit
def split_log(log):
    # Sums of multiples of 1/2048 are exact, those of the rest stay below one: differences of sums
    # then have no digits lost, however strong the decay. A reset is counted, not summed.
    reset = log < -80.0
    clean = tl.where(reset, 0.0, log)
    coarse = tl.floor(clean * 2048.0 + 0.5) / 2048.0
    return (coarse, clean - coarse, reset.to(tl.float32))


@triton.jit
def diagonal_blocks(matrix, size: tl.constexpr):
    """[count, size, size]: the square blocks along the diagonal."""
    count: tl.constexpr = matrix.shape[0] // size
    tiles = tl.reshape(matrix, [count, size, count, size])
    block = tl.arange(0, count)
    own = block[:, None, None, None] == block[None, None, :, None]
    return tl.sum(tl.where(own, tiles, 0.0), 2)


@triton.jit
def quadrant(blocks, row: tl.constexpr, column: tl.constexpr):
    """[count, half, half]: the quarter of each block at a row and a column, 0 or 1."""
    half: tl.constexpr = blocks.shape[1] // 2
    tiles = tl.reshape(blocks, [blocks.shape[0], 2, half, 2, half])
    side = tl.arange(0, 2)
    tiles = tl.sum(tl.where(side[None, None, None, :, None] == column, tiles, 0.0), 3)
    return tl.sum(tl.where(side[None, :, None, None] == row, tiles, 0.0), 1)


@triton.jit
def small_inverses(blocks):
    """(I + A)^-1 of strictly lower blocks [count, 16, 16], one row after the other."""
    row = tl.arange(0, 16)[None, :, None]
    column = tl.arange(0, 16)[None, None, :]
    inverse = tl.where(row == column, 1.0, 0.0) + tl.zeros_like(blocks)
    for step in range(1, 16):
        weights = tl.sum(tl.where(row == step, blocks, 0.0), 1)
        found = tl.sum(tl.expand_dims(weights, 2) * inverse, 1)
        inverse = tl.where(row == step, inverse - tl.expand_dims(found, 1), inverse)
    return inverse


@triton.jit
def paired_inverses(inverses, blocks):
    """The inverses of pairs of blocks: [[D, 0], [L, D']]^-1 has -D'^-1 L D^-1 in its corner.

    inverses: [2 count, half, half], of the halves. blocks: I + A [count, 2 half, 2 half], of the pairs.
    """
    count: tl.constexpr = blocks.shape[0]
    half: tl.constexpr = inverses.shape[1]
    halves = tl.reshape(inverses, [count, 2, half, half])
    side = tl.arange(0, 2)
    first = tl.sum(tl.where(side[None, :, None, None] == 0, halves, 0.0), 1)
    second = tl.sum(tl.where(side[None, :, None, None] == 1, halves, 0.0), 1)
    corner = -square_product(square_product(second, quadrant(blocks, 1, 0)), first)
    row, column = (side[None, :, None, None, None], side[None, None, None, :, None])
    inside = tl.where(row == 1, corner[:, None, :, None, :], 0.0)
    diagonal = tl.where(row == 0, first[:, None, :, None, :], second[:, None, :, None, :])
    joined = tl.where(row == column, diagonal, tl.where(column == 0, inside, 0.0))
    return tl.reshape(joined, [count, 2 * half, 2 * half])


@triton.jit
def unit_inverse(lower):
    """(I + A)^-1 of a strictly lower A: by substitution in blocks of 16 rows, then by pairs of blocks."""
    inverse = small_inverses(diagonal_blocks(lower, 16))
    for level in tl.static_range(1, 5):
        if 16 << level <= lower.shape[0]:
            inverse = paired_inverses(inverse, diagonal_blocks(lower, 16 << level))
    return tl.reshape(inverse, lower.shape)


@triton.jit
def square_product(left, right):
    return tl.dot(left, right, input_precision="ieee")


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
    sums, fine_sums, resets = (tl.cumsum(coarse, 0), tl.cumsum(fine, 0), tl.cumsum(reset, 0))
    if exclusive:
        return (sums, fine_sums, resets, sums - coarse, fine_sums - fine, resets - reset)
    else:
        return (sums, fine_sums, resets, sums, fine_sums, resets)


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
    low, low_fine, low_resets = (half_of(sums, half, 0), half_of(fine, half, 0), half_of(resets, half, 0))
    high, high_fine = (half_of(until, half, 1), half_of(until_fine, half, 1))
    anchor, anchor_fine = (row_of_ranges(low, half - 1), row_of_ranges(low_fine, half - 1))
    anchor_resets = row_of_ranges(low_resets, half - 1)
    after = high - anchor + (high_fine - anchor_fine)
    before = anchor - low + (anchor_fine - low_fine)
    readers = tl.exp(tl.where(half_of(seen, half, 1) == anchor_resets, after, float("-inf")))
    sources = tl.exp(tl.where(anchor_resets == low_resets, before, float("-inf")))
    return (readers, sources)


@triton.jit
def in_corner(corner):
    """[count, 2 half, 2 half] with [count, half, half] where upper rows meet lower columns, else 0."""
    side = tl.arange(0, 2)
    row, column = (side[None, :, None, None, None], side[None, None, None, :, None])
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
    near, near_fine, near_resets = (in_ranges(sums, 16), in_ranges(fine, 16), in_ranges(resets, 16))
    to, to_fine, to_seen = (in_ranges(until, 16), in_ranges(until_fine, 16), in_ranges(seen, 16))
    readers, sources = (in_ranges(left, 16), in_ranges(right, 16))
    index = tl.arange(0, 16)
    found = tl.zeros([rows // 16, 16, 16], dtype=tl.float32)
    for step in range(0, 15):
        exponent = to - row_of_ranges(near, step) + (to_fine - row_of_ranges(near_fine, step))
        keep = (index[None, :, None] > step) & (to_seen == row_of_ranges(near_resets, step))
        weight = tl.exp(tl.where(keep, exponent, float("-inf")))
        score = tl.sum(readers * row_of_ranges(sources, step) * weight, 2)
        found = tl.where(index[None, None, :] == step, tl.expand_dims(score, 2), found)
    result = on_diagonal(found)
    for level in tl.static_range(0, 4):
        if 16 << level < rows:
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
    near, near_fine, near_resets = (in_ranges(sums, 16), in_ranges(fine, 16), in_ranges(resets, 16))
    to, to_fine, to_seen = (in_ranges(until, 16), in_ranges(until_fine, 16), in_ranges(seen, 16))
    sources, blocks = (in_ranges(right, 16), diagonal_blocks(matrix, 16))
    index = tl.arange(0, 16)
    found = tl.zeros_like(sources)
    for step in range(0, 15):
        exponent = to - row_of_ranges(near, step) + (to_fine - row_of_ranges(near_fine, step))
        keep = (index[None, :, None] > step) & (to_seen == row_of_ranges(near_resets, step))
        weight = tl.exp(tl.where(keep, exponent, float("-inf")))
        column = tl.sum(tl.where(index[None, None, :] == step, blocks, 0.0), 2)
        found += tl.expand_dims(column, 2) * row_of_ranges(sources, step) * weight
    result = tl.reshape(found, right.shape)
    for level in tl.static_range(0, 4):
        if 16 << level < rows:
            after, before = anchored_decays(sums, fine, resets, until, until_fine, seen, 16 << level)
            between = quadrant(diagonal_blocks(matrix, 32 << level), 1, 0).to(dtype)
            b = (half_of(right, 16 << level, 0) * before).to(dtype)
            result += from_half(after * tl.dot(between, b, input_precision=precision), 1)
    return result


@triton.jit
def channel_mix_back(
    matrix,
    left,
    log,
    exclusive: tl.constexpr,
    dtype: tl.constexpr,
    precision: tl.constexpr,
):
    """[rows, channels]: for each s the sum over t > s of matrix[t, s] left[t] D[t, s]."""
    rows: tl.constexpr = left.shape[0]
    sums, fine, resets, until, until_fine, seen = channel_sums(log, exclusive)
    near, near_fine, near_resets = (in_ranges(sums, 16), in_ranges(fine, 16), in_ranges(resets, 16))
    to, to_fine, to_seen = (in_ranges(until, 16), in_ranges(until_fine, 16), in_ranges(seen, 16))
    readers, blocks = (in_ranges(left, 16), diagonal_blocks(matrix, 16))
    index = tl.arange(0, 16)
    found = tl.zeros_like(readers)
    for step in range(1, 16):
        exponent = row_of_ranges(to, step) - near + (row_of_ranges(to_fine, step) - near_fine)
        keep = (index[None, :, None] < step) & (row_of_ranges(to_seen, step) == near_resets)
        weight = tl.exp(tl.where(keep, exponent, float("-inf")))
        row = tl.sum(tl.where(index[None, :, None] == step, blocks, 0.0), 1)
        found += tl.expand_dims(row, 2) * row_of_ranges(readers, step) * weight
    result = tl.reshape(found, left.shape)
    for level in tl.static_range(0, 4):
        if 16 << level < rows:
            after, before = anchored_decays(sums, fine, resets, until, until_fine, seen, 16 << level)
            between = tl.permute(quadrant(diagonal_blocks(matrix, 32 << level), 1, 0), (0, 2, 1)).to(dtype)
            a = (half_of(left, 16 << level, 1) * after).to(dtype)
            result += from_half(before * tl.dot(between, a, input_precision=precision), 0)
    return result


@triton.jit(do_not_specialize=["tokens", "blocks"])
def channels(
    channels_0_blocks_pointer,
    channels_1_blocks_pointer,
    channels_2_blocks_pointer,
    channels_3_blocks_pointer,
    channels_4_blocks_pointer,
    k_pointer,
    length_pointer,
    log_alpha_pointer,
    position_pointer,
    q_pointer,
    k_head,
    k_row,
    log_alpha_head,
    log_alpha_row,
    q_head,
    q_row,
    tokens,
    heads,
    blocks,
    HAS_LENGTH: tl.constexpr,
    RESUME: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    DOT: tl.constexpr,
    K: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Decays by channel of one block, and the products of rows that they act in."""
    program = tl.program_id(0)
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    row = tl.arange(0, BLOCK_ROWS)
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    phase = 0
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    log_alpha_block = log_alpha_pointer + (batch * tokens + start) * log_alpha_row + head * log_alpha_head
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    decayed_scores = tl.zeros([BLOCK_ROWS, BLOCK_ROWS], dtype=tl.float32)
    # Q X^T
    scores = tl.zeros([BLOCK_ROWS, BLOCK_ROWS], dtype=tl.float32)
    for feature_start in range(0, K, BLOCK_K):
        feature = feature_start + tl.arange(0, BLOCK_K)
        is_feature = feature < K
        q = tl.load(
            q_block + row[:, None] * q_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        k = tl.load(
            k_block + row[:, None] * k_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        log_alpha = tl.load(
            log_alpha_block + row[:, None] * log_alpha_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        decayed_scores += channel_scores(q, k, log_alpha, False, DOT, PRECISION)
        scores += channel_scores(k, k, log_alpha, False, DOT, PRECISION)
        log_alpha_coarse, log_alpha_fine, log_alpha_reset = split_log(log_alpha)
        log_alpha_coarse_sum = tl.cumsum(log_alpha_coarse, 0)
        log_alpha_fine_sum = tl.cumsum(log_alpha_fine, 0)
        log_alpha_reset_sum = tl.cumsum(log_alpha_reset, 0)
        # a: decay of the memory since the block's start
        read_decay = tl.where(
            is_feature[None, :],
            tl.exp(
                tl.where(log_alpha_reset_sum == 0.0, log_alpha_coarse_sum + log_alpha_fine_sum, float("-inf"))
            ),
            0.0,
        )
        tl.store(
            channels_0_blocks_pointer + slot * (ROWS * K) + row[:, None] * K + feature[None, :],
            read_decay,
            mask=(row < ROWS)[:, None] & is_feature[None, :],
        )
        # a_C: decay of the memory over the block
        kept = tl.where(
            is_feature,
            tl.exp(
                tl.where(
                    tl.sum(log_alpha_reset, 0) == 0.0,
                    tl.sum(log_alpha_coarse, 0) + tl.sum(log_alpha_fine, 0),
                    float("-inf"),
                )
            ),
            0.0,
        )
        tl.store(channels_3_blocks_pointer + slot * K + feature, kept, mask=is_feature)
        until_end = tl.where(
            is_feature[None, :],
            tl.exp(
                tl.where(
                    tl.sum(log_alpha_reset, 0) == log_alpha_reset_sum,
                    tl.sum(log_alpha_coarse, 0)
                    - log_alpha_coarse_sum
                    + (tl.sum(log_alpha_fine, 0) - log_alpha_fine_sum),
                    float("-inf"),
                )
            ),
            0.0,
        )
        tl.store(
            channels_4_blocks_pointer + slot * (ROWS * K) + row[:, None] * K + feature[None, :],
            until_end,
            mask=(row < ROWS)[:, None] & is_feature[None, :],
        )
    tl.store(
        channels_1_blocks_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        decayed_scores,
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
    )
    tl.store(
        channels_2_blocks_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        scores,
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def inverse(
    channels_2_blocks_pointer,
    inverse_0_blocks_pointer,
    length_pointer,
    lr_pointer,
    position_pointer,
    lr_head,
    lr_row,
    tokens,
    heads,
    blocks,
    HAS_LENGTH: tl.constexpr,
    RESUME: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    ROWS: tl.constexpr,
):
    """How the errors of one block's rows follow from what its start predicts."""
    program = tl.program_id(0)
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    row = tl.arange(0, BLOCK_ROWS)
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    phase = 0
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
    # Q X^T
    scores = tl.load(
        channels_2_blocks_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    live_2 = live.to(tl.float32)
    lr = tl.load(lr_block + row * lr_row, mask=live, other=0.0).to(tl.float32)
    # P: source weights by read
    weights = live_2 * lr * live_2
    # (Q X^T) * P
    attention = scores * weights[None, :]
    # (I + A)^-1
    inverse = tl.trans(unit_inverse(attention))
    tl.store(
        inverse_0_blocks_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        inverse,
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def state(
    channels_0_blocks_pointer,
    channels_3_blocks_pointer,
    channels_4_blocks_pointer,
    errors_blocks_pointer,
    inverse_0_blocks_pointer,
    k_pointer,
    length_pointer,
    lr_pointer,
    memory_blocks_pointer,
    memory_final_pointer,
    memory_pointer,
    position_pointer,
    v_pointer,
    k_head,
    k_row,
    lr_head,
    lr_row,
    v_head,
    v_row,
    tokens,
    heads,
    blocks,
    HAS_INITIAL: tl.constexpr,
    HAS_LENGTH: tl.constexpr,
    RESUME: tl.constexpr,
    SAVE: tl.constexpr,
    STORE_FINAL: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
    DOT: tl.constexpr,
    K: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    ROW_DOT: tl.constexpr,
    ROW_PRECISION: tl.constexpr,
    TILE_ROWS: tl.constexpr,
    V: tl.constexpr,
):
    """The memory from block to block, saved at the start of each."""
    program = tl.program_id(0)
    value_tile = program % tl.cdiv(V, BLOCK_V)
    program = program // tl.cdiv(V, BLOCK_V)
    memory_index = tl.cast(program, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    row = tl.arange(0, BLOCK_ROWS)
    feature = tl.arange(0, BLOCK_K)
    is_feature = feature < K
    value = value_tile * BLOCK_V + tl.arange(0, BLOCK_V)
    is_value = value < V
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    phase = 0
    memory = tl.zeros([BLOCK_K, BLOCK_V], dtype=tl.float32)
    if HAS_INITIAL:
        memory += tl.load(
            memory_pointer + memory_index * (K * V) + feature[:, None] * V + value[None, :],
            mask=is_feature[:, None] & is_value[None, :],
            other=0.0,
        )
    for block in range(0, blocks):
        slot = memory_index * blocks + block
        start = tl.cast(block, tl.int64) * ROWS - phase
        first = tl.cast(tl.maximum(-start, 0), tl.int32)
        last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
        live = (row >= first) & (row < last)
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
        lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
        if SAVE:
            tl.store(
                memory_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
                memory,
                mask=is_feature[:, None] & is_value[None, :],
            )
        # a_C: decay of the memory over the block
        kept = tl.load(channels_3_blocks_pointer + slot * K + feature, mask=is_feature, other=0.0)
        # M at the end
        memory_next = kept[:, None] * memory
        # a: decay of the memory since the block's start
        read_decay = tl.load(
            channels_0_blocks_pointer + slot * (ROWS * K) + row[:, None] * K + feature[None, :],
            mask=(row < ROWS)[:, None] & is_feature[None, :],
            other=0.0,
        )
        k = tl.load(
            k_block + row[:, None] * k_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        # what the block's start predicts for each key
        predictions_given = tl.dot((read_decay * k).to(DOT), memory.to(DOT), input_precision=PRECISION)
        v = tl.load(
            v_block + row[:, None] * v_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        # R: the error at what the block's start gives
        residual = predictions_given - v
        for row_start in range(0, ROWS, TILE_ROWS):
            source = row_start + tl.arange(0, TILE_ROWS)
            is_source = (source >= first) & (source < last)
            channels_4 = tl.load(
                channels_4_blocks_pointer + slot * (ROWS * K) + source[:, None] * K + feature[None, :],
                mask=(source < ROWS)[:, None] & is_feature[None, :],
                other=0.0,
            )
            lr = tl.load(lr_block + source * lr_row, mask=is_source, other=0.0).to(tl.float32)
            live_2 = is_source.to(tl.float32)
            # p_C: last row of P
            last_weights = channels_4 * lr[:, None] * live_2[:, None]
            k_2 = tl.load(
                k_block + source[:, None] * k_row + feature[None, :],
                mask=is_source[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            # (I + A)^-1
            inverse = tl.load(
                inverse_0_blocks_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + source[None, :],
                mask=(row < ROWS)[:, None] & (source < ROWS)[None, :],
                other=0.0,
            )
            # E = (I + A)^-1 R
            errors = tl.dot(
                tl.trans(inverse.to(ROW_DOT)),
                residual.to(ROW_DOT),
                input_precision=ROW_PRECISION,
            )
            memory_next += tl.dot(
                tl.trans((-(last_weights * k_2)).to(ROW_DOT)),
                errors.to(ROW_DOT),
                input_precision=ROW_PRECISION,
            )
            tl.store(
                errors_blocks_pointer + slot * (ROWS * V) + source[:, None] * V + value[None, :],
                errors,
                mask=(source < ROWS)[:, None] & is_value[None, :],
            )
        memory = memory_next
    if STORE_FINAL:
        tl.store(
            memory_final_pointer + memory_index * (K * V) + feature[:, None] * V + value[None, :],
            memory,
            mask=is_feature[:, None] & is_value[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output(
    channels_0_blocks_pointer,
    channels_1_blocks_pointer,
    errors_blocks_pointer,
    k_pointer,
    length_pointer,
    lr_pointer,
    memory_blocks_pointer,
    position_pointer,
    q_pointer,
    y_pointer,
    k_head,
    k_row,
    lr_head,
    lr_row,
    q_head,
    q_row,
    y_head,
    y_row,
    tokens,
    heads,
    blocks,
    HAS_LENGTH: tl.constexpr,
    RESUME: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
    DOT: tl.constexpr,
    K: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    ROW_DOT: tl.constexpr,
    ROW_PRECISION: tl.constexpr,
    V: tl.constexpr,
):
    """The reads of one block."""
    program = tl.program_id(0)
    value_tile = program % tl.cdiv(V, BLOCK_V)
    program = program // tl.cdiv(V, BLOCK_V)
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    row = tl.arange(0, BLOCK_ROWS)
    feature = tl.arange(0, BLOCK_K)
    is_feature = feature < K
    value = value_tile * BLOCK_V + tl.arange(0, BLOCK_V)
    is_value = value < V
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    phase = 0
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
    # a: decay of the memory since the block's start
    read_decay = tl.load(
        channels_0_blocks_pointer + slot * (ROWS * K) + row[:, None] * K + feature[None, :],
        mask=(row < ROWS)[:, None] & is_feature[None, :],
        other=0.0,
    )
    q = tl.load(
        q_block + row[:, None] * q_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    memory = tl.load(
        memory_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
        mask=is_feature[:, None] & is_value[None, :],
        other=0.0,
    )
    product = tl.dot((read_decay * q).to(DOT), memory.to(DOT), input_precision=PRECISION)
    channels_1 = tl.load(
        channels_1_blocks_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    banded = tl.where(row[:, None] == row[None, :], tl.sum(q * k, 1)[:, None], 0.0)
    # Q X^T
    scores = channels_1 + banded
    live_2 = live.to(tl.float32)
    lr = tl.load(lr_block + row * lr_row, mask=live, other=0.0).to(tl.float32)
    # P: source weights by read
    weights = live_2 * lr * live_2
    # (Q X^T) * P
    attention = scores * weights[None, :]
    # E = (I + A)^-1 R
    errors = tl.load(
        errors_blocks_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    product_2 = tl.dot(attention.to(ROW_DOT), errors.to(ROW_DOT), input_precision=ROW_PRECISION)
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = product - product_2
    y_block = y_pointer + (batch * tokens + start) * y_row + head * y_head
    tl.store(y_block + row[:, None] * y_row + value[None, :], reads, mask=live[:, None] & is_value[None, :])


@triton.jit(do_not_specialize=["tokens", "blocks"])
def errors(
    channels_0_blocks_pointer,
    errors_blocks_pointer,
    inverse_0_blocks_pointer,
    k_pointer,
    length_pointer,
    memory_blocks_pointer,
    position_pointer,
    v_pointer,
    k_head,
    k_row,
    v_head,
    v_row,
    tokens,
    heads,
    blocks,
    HAS_LENGTH: tl.constexpr,
    RESUME: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
    DOT: tl.constexpr,
    K: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    ROW_DOT: tl.constexpr,
    ROW_PRECISION: tl.constexpr,
    V: tl.constexpr,
):
    """The errors of one block's rows, again."""
    program = tl.program_id(0)
    value_tile = program % tl.cdiv(V, BLOCK_V)
    program = program // tl.cdiv(V, BLOCK_V)
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    row = tl.arange(0, BLOCK_ROWS)
    feature = tl.arange(0, BLOCK_K)
    is_feature = feature < K
    value = value_tile * BLOCK_V + tl.arange(0, BLOCK_V)
    is_value = value < V
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    phase = 0
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    # (I + A)^-1
    inverse = tl.load(
        inverse_0_blocks_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    # a: decay of the memory since the block's start
    read_decay = tl.load(
        channels_0_blocks_pointer + slot * (ROWS * K) + row[:, None] * K + feature[None, :],
        mask=(row < ROWS)[:, None] & is_feature[None, :],
        other=0.0,
    )
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    memory = tl.load(
        memory_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
        mask=is_feature[:, None] & is_value[None, :],
        other=0.0,
    )
    # what the block's start predicts for each key
    predictions_given = tl.dot((read_decay * k).to(DOT), memory.to(DOT), input_precision=PRECISION)
    v = tl.load(
        v_block + row[:, None] * v_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    # R: the error at what the block's start gives
    residual = predictions_given - v
    # E = (I + A)^-1 R
    errors = tl.dot(tl.trans(inverse.to(ROW_DOT)), residual.to(ROW_DOT), input_precision=ROW_PRECISION)
    tl.store(
        errors_blocks_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        errors,
        mask=(row < ROWS)[:, None] & is_value[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def read_gradients(
    channels_1_blocks_pointer,
    d_y_pointer,
    given_0_blocks_pointer,
    k_pointer,
    length_pointer,
    lr_pointer,
    position_pointer,
    q_pointer,
    d_y_head,
    d_y_row,
    k_head,
    k_row,
    lr_head,
    lr_row,
    q_head,
    q_row,
    tokens,
    heads,
    blocks,
    HAS_LENGTH: tl.constexpr,
    RESUME: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
    K: tl.constexpr,
    ROWS: tl.constexpr,
    ROW_DOT: tl.constexpr,
    ROW_PRECISION: tl.constexpr,
    V: tl.constexpr,
):
    """Gradients of one block's errors from its reads alone."""
    program = tl.program_id(0)
    value_tile = program % tl.cdiv(V, BLOCK_V)
    program = program // tl.cdiv(V, BLOCK_V)
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    row = tl.arange(0, BLOCK_ROWS)
    feature = tl.arange(0, BLOCK_K)
    is_feature = feature < K
    value = value_tile * BLOCK_V + tl.arange(0, BLOCK_V)
    is_value = value < V
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    phase = 0
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
    d_reads = tl.load(
        d_y_block + row[:, None] * d_y_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    channels_1 = tl.load(
        channels_1_blocks_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    q = tl.load(
        q_block + row[:, None] * q_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    banded = tl.where(row[:, None] == row[None, :], tl.sum(q * k, 1)[:, None], 0.0)
    # Q X^T
    scores = channels_1 + banded
    live_2 = live.to(tl.float32)
    lr = tl.load(lr_block + row * lr_row, mask=live, other=0.0).to(tl.float32)
    # P: source weights by read
    weights = live_2 * lr * live_2
    # (Q X^T) * P
    attention = scores * weights[None, :]
    product = tl.dot(tl.trans(attention.to(ROW_DOT)), d_reads.to(ROW_DOT), input_precision=ROW_PRECISION)
    tl.store(
        given_0_blocks_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        product,
        mask=(row < ROWS)[:, None] & is_value[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def state_gradient(
    channels_0_blocks_pointer,
    channels_3_blocks_pointer,
    channels_4_blocks_pointer,
    d_memory_final_pointer,
    d_memory_next_blocks_pointer,
    d_memory_pointer,
    d_residual_blocks_pointer,
    d_y_pointer,
    given_0_blocks_pointer,
    inverse_0_blocks_pointer,
    k_pointer,
    length_pointer,
    lr_pointer,
    position_pointer,
    q_pointer,
    d_y_head,
    d_y_row,
    k_head,
    k_row,
    lr_head,
    lr_row,
    q_head,
    q_row,
    tokens,
    heads,
    blocks,
    GRAD_FINAL: tl.constexpr,
    GRAD_INITIAL: tl.constexpr,
    HAS_LENGTH: tl.constexpr,
    RESUME: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
    DOT: tl.constexpr,
    K: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    ROW_DOT: tl.constexpr,
    ROW_PRECISION: tl.constexpr,
    TILE_ROWS: tl.constexpr,
    V: tl.constexpr,
):
    """The gradient of the memory from the last block to the first, saved after each."""
    program = tl.program_id(0)
    value_tile = program % tl.cdiv(V, BLOCK_V)
    program = program // tl.cdiv(V, BLOCK_V)
    memory_index = tl.cast(program, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    row = tl.arange(0, BLOCK_ROWS)
    feature = tl.arange(0, BLOCK_K)
    is_feature = feature < K
    value = value_tile * BLOCK_V + tl.arange(0, BLOCK_V)
    is_value = value < V
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    phase = 0
    d_memory_next = tl.zeros([BLOCK_K, BLOCK_V], dtype=tl.float32)
    if GRAD_FINAL:
        d_memory_next += tl.load(
            d_memory_final_pointer + memory_index * (K * V) + feature[:, None] * V + value[None, :],
            mask=is_feature[:, None] & is_value[None, :],
            other=0.0,
        )
    for step in range(0, blocks):
        block = blocks - 1 - step
        slot = memory_index * blocks + block
        start = tl.cast(block, tl.int64) * ROWS - phase
        first = tl.cast(tl.maximum(-start, 0), tl.int32)
        last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
        live = (row >= first) & (row < last)
        lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
        q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
        tl.store(
            d_memory_next_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
            d_memory_next,
            mask=is_feature[:, None] & is_value[None, :],
        )
        d_residual = tl.zeros([BLOCK_ROWS, BLOCK_V], dtype=tl.float32)
        for row_start in range(0, ROWS, TILE_ROWS):
            source = row_start + tl.arange(0, TILE_ROWS)
            is_source = (source >= first) & (source < last)
            channels_4 = tl.load(
                channels_4_blocks_pointer + slot * (ROWS * K) + source[:, None] * K + feature[None, :],
                mask=(source < ROWS)[:, None] & is_feature[None, :],
                other=0.0,
            )
            lr = tl.load(lr_block + source * lr_row, mask=is_source, other=0.0).to(tl.float32)
            live_2 = is_source.to(tl.float32)
            # p_C: last row of P
            last_weights = channels_4 * lr[:, None] * live_2[:, None]
            k = tl.load(
                k_block + source[:, None] * k_row + feature[None, :],
                mask=is_source[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            product = tl.dot((last_weights * k).to(DOT), d_memory_next.to(DOT), input_precision=PRECISION)
            given_0 = tl.load(
                given_0_blocks_pointer + slot * (ROWS * V) + source[:, None] * V + value[None, :],
                mask=(source < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            d_errors = -product - given_0
            # (I + A)^-1
            inverse = tl.load(
                inverse_0_blocks_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + source[None, :],
                mask=(row < ROWS)[:, None] & (source < ROWS)[None, :],
                other=0.0,
            )
            d_residual += tl.dot(inverse.to(ROW_DOT), d_errors.to(ROW_DOT), input_precision=ROW_PRECISION)
        tl.store(
            d_residual_blocks_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
            d_residual,
            mask=(row < ROWS)[:, None] & is_value[None, :],
        )
        # a_C: decay of the memory over the block
        kept = tl.load(channels_3_blocks_pointer + slot * K + feature, mask=is_feature, other=0.0)
        # a: decay of the memory since the block's start
        read_decay = tl.load(
            channels_0_blocks_pointer + slot * (ROWS * K) + row[:, None] * K + feature[None, :],
            mask=(row < ROWS)[:, None] & is_feature[None, :],
            other=0.0,
        )
        k_2 = tl.load(
            k_block + row[:, None] * k_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        product_2 = tl.dot(
            tl.trans((read_decay * k_2).to(ROW_DOT)),
            d_residual.to(ROW_DOT),
            input_precision=ROW_PRECISION,
        )
        d_reads = tl.load(
            d_y_block + row[:, None] * d_y_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        q = tl.load(
            q_block + row[:, None] * q_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        product_3 = tl.dot(
            tl.trans((read_decay * q).to(ROW_DOT)),
            d_reads.to(ROW_DOT),
            input_precision=ROW_PRECISION,
        )
        d_memory_next = d_memory_next * kept[:, None] + product_2 + product_3
    if GRAD_INITIAL:
        tl.store(
            d_memory_pointer + memory_index * (K * V) + feature[:, None] * V + value[None, :],
            d_memory_next,
            mask=is_feature[:, None] & is_value[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def value_sums_memory(
    d_residual_blocks_pointer,
    d_y_pointer,
    length_pointer,
    memory_blocks_pointer,
    position_pointer,
    sum_0_blocks_pointer,
    sum_1_blocks_pointer,
    d_y_head,
    d_y_row,
    tokens,
    heads,
    blocks,
    HAS_LENGTH: tl.constexpr,
    RESUME: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
    DOT: tl.constexpr,
    K: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    ROW_DOT: tl.constexpr,
    ROW_PRECISION: tl.constexpr,
    V: tl.constexpr,
):
    """Sums over V of one block that several gradients need: sum_0_blocks, sum_1_blocks."""
    program = tl.program_id(0)
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    row = tl.arange(0, BLOCK_ROWS)
    feature = tl.arange(0, BLOCK_K)
    is_feature = feature < K
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    phase = 0
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
    product = tl.zeros([BLOCK_ROWS, BLOCK_K], dtype=tl.float32)
    product_2 = tl.zeros([BLOCK_ROWS, BLOCK_K], dtype=tl.float32)
    for value_start in range(0, V, BLOCK_V):
        value = value_start + tl.arange(0, BLOCK_V)
        is_value = value < V
        d_residual = tl.load(
            d_residual_blocks_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
            mask=(row < ROWS)[:, None] & is_value[None, :],
            other=0.0,
        )
        memory = tl.load(
            memory_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
            mask=is_feature[:, None] & is_value[None, :],
            other=0.0,
        )
        product += tl.dot(d_residual.to(ROW_DOT), tl.trans(memory.to(ROW_DOT)), input_precision=ROW_PRECISION)
        d_reads = tl.load(
            d_y_block + row[:, None] * d_y_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        product_2 += tl.dot(d_reads.to(DOT), tl.trans(memory.to(DOT)), input_precision=PRECISION)
    tl.store(
        sum_0_blocks_pointer + slot * (ROWS * K) + row[:, None] * K + feature[None, :],
        product,
        mask=(row < ROWS)[:, None] & is_feature[None, :],
    )
    tl.store(
        sum_1_blocks_pointer + slot * (ROWS * K) + row[:, None] * K + feature[None, :],
        product_2,
        mask=(row < ROWS)[:, None] & is_feature[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def value_sums_carried_of_rows(
    d_memory_next_blocks_pointer,
    length_pointer,
    memory_blocks_pointer,
    position_pointer,
    sum_2_blocks_pointer,
    tokens,
    heads,
    blocks,
    HAS_LENGTH: tl.constexpr,
    RESUME: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
    K: tl.constexpr,
    ROWS: tl.constexpr,
    V: tl.constexpr,
):
    """Sums over V of one block that several gradients need: sum_2_blocks."""
    program = tl.program_id(0)
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
    feature = tl.arange(0, BLOCK_K)
    is_feature = feature < K
    slot = memory_index * blocks + block
    d_kept = tl.zeros([BLOCK_K], dtype=tl.float32)
    for value_start in range(0, V, BLOCK_V):
        value = value_start + tl.arange(0, BLOCK_V)
        is_value = value < V
        d_memory_next = tl.load(
            d_memory_next_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
            mask=is_feature[:, None] & is_value[None, :],
            other=0.0,
        )
        memory = tl.load(
            memory_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
            mask=is_feature[:, None] & is_value[None, :],
            other=0.0,
        )
        d_kept += tl.sum(d_memory_next * memory, 1)
    tl.store(sum_2_blocks_pointer + slot * K + feature, d_kept, mask=is_feature)


@triton.jit(do_not_specialize=["tokens", "blocks"])
def value_sums_rows(
    d_residual_blocks_pointer,
    d_y_pointer,
    errors_blocks_pointer,
    length_pointer,
    position_pointer,
    sum_3_blocks_pointer,
    sum_4_blocks_pointer,
    d_y_head,
    d_y_row,
    tokens,
    heads,
    blocks,
    HAS_LENGTH: tl.constexpr,
    RESUME: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
    ROWS: tl.constexpr,
    ROW_DOT: tl.constexpr,
    ROW_PRECISION: tl.constexpr,
    V: tl.constexpr,
):
    """Sums over V of one block that several gradients need: sum_3_blocks, sum_4_blocks."""
    program = tl.program_id(0)
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    row = tl.arange(0, BLOCK_ROWS)
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    phase = 0
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
    product = tl.zeros([BLOCK_ROWS, BLOCK_ROWS], dtype=tl.float32)
    product_2 = tl.zeros([BLOCK_ROWS, BLOCK_ROWS], dtype=tl.float32)
    for value_start in range(0, V, BLOCK_V):
        value = value_start + tl.arange(0, BLOCK_V)
        is_value = value < V
        d_residual = tl.load(
            d_residual_blocks_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
            mask=(row < ROWS)[:, None] & is_value[None, :],
            other=0.0,
        )
        # E = (I + A)^-1 R
        errors = tl.load(
            errors_blocks_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
            mask=(row < ROWS)[:, None] & is_value[None, :],
            other=0.0,
        )
        product += tl.dot(d_residual.to(ROW_DOT), tl.trans(errors.to(ROW_DOT)), input_precision=ROW_PRECISION)
        d_reads = tl.load(
            d_y_block + row[:, None] * d_y_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        product_2 += tl.dot(d_reads.to(ROW_DOT), tl.trans(errors.to(ROW_DOT)), input_precision=ROW_PRECISION)
    tl.store(
        sum_3_blocks_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        product,
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
    )
    tl.store(
        sum_4_blocks_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        product_2,
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def value_sums_d_memory_next(
    d_memory_next_blocks_pointer,
    errors_blocks_pointer,
    length_pointer,
    position_pointer,
    sum_5_blocks_pointer,
    tokens,
    heads,
    blocks,
    HAS_LENGTH: tl.constexpr,
    RESUME: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
    K: tl.constexpr,
    ROWS: tl.constexpr,
    ROW_DOT: tl.constexpr,
    ROW_PRECISION: tl.constexpr,
    V: tl.constexpr,
):
    """Sums over V of one block that several gradients need: sum_5_blocks."""
    program = tl.program_id(0)
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
    row = tl.arange(0, BLOCK_ROWS)
    feature = tl.arange(0, BLOCK_K)
    is_feature = feature < K
    slot = memory_index * blocks + block
    product = tl.zeros([BLOCK_ROWS, BLOCK_K], dtype=tl.float32)
    for value_start in range(0, V, BLOCK_V):
        value = value_start + tl.arange(0, BLOCK_V)
        is_value = value < V
        d_memory_next = tl.load(
            d_memory_next_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
            mask=is_feature[:, None] & is_value[None, :],
            other=0.0,
        )
        # E = (I + A)^-1 R
        errors = tl.load(
            errors_blocks_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
            mask=(row < ROWS)[:, None] & is_value[None, :],
            other=0.0,
        )
        product += tl.dot(
            errors.to(ROW_DOT),
            tl.trans(d_memory_next.to(ROW_DOT)),
            input_precision=ROW_PRECISION,
        )
    tl.store(
        sum_5_blocks_pointer + slot * (ROWS * K) + row[:, None] * K + feature[None, :],
        product,
        mask=(row < ROWS)[:, None] & is_feature[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def mixed_rows_1(
    k_pointer,
    length_pointer,
    log_alpha_pointer,
    lr_pointer,
    mixed_0_blocks_pointer,
    mixed_1_blocks_pointer,
    position_pointer,
    sum_3_blocks_pointer,
    k_head,
    k_row,
    log_alpha_head,
    log_alpha_row,
    lr_head,
    lr_row,
    tokens,
    heads,
    blocks,
    HAS_LENGTH: tl.constexpr,
    RESUME: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    K: tl.constexpr,
    ROWS: tl.constexpr,
    ROW_DOT: tl.constexpr,
    ROW_PRECISION: tl.constexpr,
):
    """Sums over rows of one block, decayed by channel: mixed_0_blocks, mixed_1_blocks."""
    program = tl.program_id(0)
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    row = tl.arange(0, BLOCK_ROWS)
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    phase = 0
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    log_alpha_block = log_alpha_pointer + (batch * tokens + start) * log_alpha_row + head * log_alpha_head
    sum_3 = tl.load(
        sum_3_blocks_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    live_2 = live.to(tl.float32)
    lr = tl.load(lr_block + row * lr_row, mask=live, other=0.0).to(tl.float32)
    # P: source weights by read
    weights = live_2 * lr * live_2
    d_scores = tl.where(row[:, None] - row[None, :] >= 1, -(sum_3 * weights[None, :]), 0.0)
    for feature_start in range(0, K, BLOCK_K):
        feature = feature_start + tl.arange(0, BLOCK_K)
        is_feature = feature < K
        k = tl.load(
            k_block + row[:, None] * k_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        log_alpha = tl.load(
            log_alpha_block + row[:, None] * log_alpha_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        decayed_rows = channel_mix(d_scores, k, log_alpha, False, ROW_DOT, ROW_PRECISION)
        tl.store(
            mixed_0_blocks_pointer + slot * (ROWS * K) + row[:, None] * K + feature[None, :],
            decayed_rows,
            mask=(row < ROWS)[:, None] & is_feature[None, :],
        )
        decayed_rows_2 = channel_mix_back(d_scores, k, log_alpha, False, ROW_DOT, ROW_PRECISION)
        tl.store(
            mixed_1_blocks_pointer + slot * (ROWS * K) + row[:, None] * K + feature[None, :],
            decayed_rows_2,
            mask=(row < ROWS)[:, None] & is_feature[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def mixed_rows_2(
    k_pointer,
    length_pointer,
    log_alpha_pointer,
    lr_pointer,
    mixed_2_blocks_pointer,
    mixed_3_blocks_pointer,
    position_pointer,
    q_pointer,
    sum_4_blocks_pointer,
    k_head,
    k_row,
    log_alpha_head,
    log_alpha_row,
    lr_head,
    lr_row,
    q_head,
    q_row,
    tokens,
    heads,
    blocks,
    HAS_LENGTH: tl.constexpr,
    RESUME: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    K: tl.constexpr,
    ROWS: tl.constexpr,
    ROW_DOT: tl.constexpr,
    ROW_PRECISION: tl.constexpr,
):
    """Sums over rows of one block, decayed by channel: mixed_2_blocks, mixed_3_blocks."""
    program = tl.program_id(0)
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    row = tl.arange(0, BLOCK_ROWS)
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    phase = 0
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    log_alpha_block = log_alpha_pointer + (batch * tokens + start) * log_alpha_row + head * log_alpha_head
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    sum_4 = tl.load(
        sum_4_blocks_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    live_2 = live.to(tl.float32)
    lr = tl.load(lr_block + row * lr_row, mask=live, other=0.0).to(tl.float32)
    # P: source weights by read
    weights = live_2 * lr * live_2
    d_scores = -(sum_4 * weights[None, :])
    for feature_start in range(0, K, BLOCK_K):
        feature = feature_start + tl.arange(0, BLOCK_K)
        is_feature = feature < K
        k = tl.load(
            k_block + row[:, None] * k_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        log_alpha = tl.load(
            log_alpha_block + row[:, None] * log_alpha_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        decayed_rows = channel_mix(d_scores, k, log_alpha, False, ROW_DOT, ROW_PRECISION)
        tl.store(
            mixed_2_blocks_pointer + slot * (ROWS * K) + row[:, None] * K + feature[None, :],
            decayed_rows,
            mask=(row < ROWS)[:, None] & is_feature[None, :],
        )
        q = tl.load(
            q_block + row[:, None] * q_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        decayed_rows_2 = channel_mix_back(d_scores, q, log_alpha, False, ROW_DOT, ROW_PRECISION)
        tl.store(
            mixed_3_blocks_pointer + slot * (ROWS * K) + row[:, None] * K + feature[None, :],
            decayed_rows_2,
            mask=(row < ROWS)[:, None] & is_feature[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_v(
    d_residual_blocks_pointer,
    d_v_pointer,
    length_pointer,
    position_pointer,
    d_v_head,
    d_v_row,
    tokens,
    heads,
    blocks,
    HAS_LENGTH: tl.constexpr,
    RESUME: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
    ROWS: tl.constexpr,
    V: tl.constexpr,
):
    """Gradients of one block: d_v."""
    program = tl.program_id(0)
    value_tile = program % tl.cdiv(V, BLOCK_V)
    program = program // tl.cdiv(V, BLOCK_V)
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    row = tl.arange(0, BLOCK_ROWS)
    value = value_tile * BLOCK_V + tl.arange(0, BLOCK_V)
    is_value = value < V
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    phase = 0
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    d_residual = tl.load(
        d_residual_blocks_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    d_v_block = d_v_pointer + (batch * tokens + start) * d_v_row + head * d_v_head
    tl.store(
        d_v_block + row[:, None] * d_v_row + value[None, :],
        -d_residual,
        mask=live[:, None] & is_value[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_q(
    channels_0_blocks_pointer,
    d_q_pointer,
    k_pointer,
    length_pointer,
    lr_pointer,
    mixed_2_blocks_pointer,
    position_pointer,
    sum_1_blocks_pointer,
    sum_4_blocks_pointer,
    d_q_head,
    d_q_row,
    k_head,
    k_row,
    lr_head,
    lr_row,
    tokens,
    heads,
    blocks,
    HAS_LENGTH: tl.constexpr,
    RESUME: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    K: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Gradients of one block: d_q."""
    program = tl.program_id(0)
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    row = tl.arange(0, BLOCK_ROWS)
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    phase = 0
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    sum_4 = tl.load(
        sum_4_blocks_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    live_2 = live.to(tl.float32)
    lr = tl.load(lr_block + row * lr_row, mask=live, other=0.0).to(tl.float32)
    # P: source weights by read
    weights = live_2 * lr * live_2
    d_scores = -(sum_4 * weights[None, :])
    total = tl.sum(tl.where(row[:, None] == row[None, :], d_scores, 0.0), 1)
    for feature_start in range(0, K, BLOCK_K):
        feature = feature_start + tl.arange(0, BLOCK_K)
        is_feature = feature < K
        k = tl.load(
            k_block + row[:, None] * k_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        mixed_2 = tl.load(
            mixed_2_blocks_pointer + slot * (ROWS * K) + row[:, None] * K + feature[None, :],
            mask=(row < ROWS)[:, None] & is_feature[None, :],
            other=0.0,
        )
        sum_1 = tl.load(
            sum_1_blocks_pointer + slot * (ROWS * K) + row[:, None] * K + feature[None, :],
            mask=(row < ROWS)[:, None] & is_feature[None, :],
            other=0.0,
        )
        # a: decay of the memory since the block's start
        read_decay = tl.load(
            channels_0_blocks_pointer + slot * (ROWS * K) + row[:, None] * K + feature[None, :],
            mask=(row < ROWS)[:, None] & is_feature[None, :],
            other=0.0,
        )
        d_q_block = d_q_pointer + (batch * tokens + start) * d_q_row + head * d_q_head
        tl.store(
            d_q_block + row[:, None] * d_q_row + feature[None, :],
            total[:, None] * k + mixed_2 + sum_1 * read_decay,
            mask=live[:, None] & is_feature[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_k(
    channels_0_blocks_pointer,
    channels_1_blocks_pointer,
    channels_2_blocks_pointer,
    channels_3_blocks_pointer,
    channels_4_blocks_pointer,
    d_k_pointer,
    d_log_alpha_pointer,
    d_lr_pointer,
    k_pointer,
    length_pointer,
    lr_pointer,
    mixed_0_blocks_pointer,
    mixed_1_blocks_pointer,
    mixed_2_blocks_pointer,
    mixed_3_blocks_pointer,
    position_pointer,
    q_pointer,
    sum_0_blocks_pointer,
    sum_1_blocks_pointer,
    sum_2_blocks_pointer,
    sum_3_blocks_pointer,
    sum_4_blocks_pointer,
    sum_5_blocks_pointer,
    d_k_head,
    d_k_row,
    d_log_alpha_head,
    d_log_alpha_row,
    d_lr_head,
    d_lr_row,
    k_head,
    k_row,
    lr_head,
    lr_row,
    q_head,
    q_row,
    tokens,
    heads,
    blocks,
    HAS_LENGTH: tl.constexpr,
    RESUME: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    K: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Gradients of one block: d_k, d_log_alpha, d_lr."""
    program = tl.program_id(0)
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    row = tl.arange(0, BLOCK_ROWS)
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    phase = 0
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    total = tl.zeros([BLOCK_ROWS], dtype=tl.float32)
    total_2 = tl.zeros([BLOCK_ROWS], dtype=tl.float32)
    lr = tl.load(lr_block + row * lr_row, mask=live, other=0.0).to(tl.float32)
    live_2 = live.to(tl.float32)
    sum_4 = tl.load(
        sum_4_blocks_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    # P: source weights by read
    weights = live_2 * lr * live_2
    d_scores = -(sum_4 * weights[None, :])
    total_3 = tl.sum(tl.where(row[:, None] == row[None, :], d_scores, 0.0), 1)
    for feature_start in range(0, K, BLOCK_K):
        feature = feature_start + tl.arange(0, BLOCK_K)
        is_feature = feature < K
        sum_5 = tl.load(
            sum_5_blocks_pointer + slot * (ROWS * K) + row[:, None] * K + feature[None, :],
            mask=(row < ROWS)[:, None] & is_feature[None, :],
            other=0.0,
        )
        k = tl.load(
            k_block + row[:, None] * k_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        value_2 = sum_5 * k * live_2[:, None]
        channels_4 = tl.load(
            channels_4_blocks_pointer + slot * (ROWS * K) + row[:, None] * K + feature[None, :],
            mask=(row < ROWS)[:, None] & is_feature[None, :],
            other=0.0,
        )
        total += tl.sum(-(value_2 * channels_4), 1)
        q = tl.load(
            q_block + row[:, None] * q_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        total_2 += tl.sum(q * k, 1)
        mixed_1 = tl.load(
            mixed_1_blocks_pointer + slot * (ROWS * K) + row[:, None] * K + feature[None, :],
            mask=(row < ROWS)[:, None] & is_feature[None, :],
            other=0.0,
        )
        mixed_3 = tl.load(
            mixed_3_blocks_pointer + slot * (ROWS * K) + row[:, None] * K + feature[None, :],
            mask=(row < ROWS)[:, None] & is_feature[None, :],
            other=0.0,
        )
        # p_C: last row of P
        last_weights = channels_4 * lr[:, None] * live_2[:, None]
        sum_0 = tl.load(
            sum_0_blocks_pointer + slot * (ROWS * K) + row[:, None] * K + feature[None, :],
            mask=(row < ROWS)[:, None] & is_feature[None, :],
            other=0.0,
        )
        # a: decay of the memory since the block's start
        read_decay = tl.load(
            channels_0_blocks_pointer + slot * (ROWS * K) + row[:, None] * K + feature[None, :],
            mask=(row < ROWS)[:, None] & is_feature[None, :],
            other=0.0,
        )
        mixed_0 = tl.load(
            mixed_0_blocks_pointer + slot * (ROWS * K) + row[:, None] * K + feature[None, :],
            mask=(row < ROWS)[:, None] & is_feature[None, :],
            other=0.0,
        )
        combined = (
            mixed_1 + mixed_3 - sum_5 * last_weights + (sum_0 * read_decay + mixed_0 + total_3[:, None] * q)
        )
        d_k_block = d_k_pointer + (batch * tokens + start) * d_k_row + head * d_k_head
        tl.store(
            d_k_block + row[:, None] * d_k_row + feature[None, :],
            combined,
            mask=live[:, None] & is_feature[None, :],
        )
        sum_1 = tl.load(
            sum_1_blocks_pointer + slot * (ROWS * K) + row[:, None] * K + feature[None, :],
            mask=(row < ROWS)[:, None] & is_feature[None, :],
            other=0.0,
        )
        d_read_decay = sum_0 * k + sum_1 * q
        d_kept = tl.load(sum_2_blocks_pointer + slot * K + feature, mask=is_feature, other=0.0)
        # a_C: decay of the memory over the block
        kept = tl.load(channels_3_blocks_pointer + slot * K + feature, mask=is_feature, other=0.0)
        combined_2 = tl.cumsum(k * mixed_0, 0, reverse=True) - tl.cumsum(k * mixed_1, 0, reverse=True)
        mixed_2 = tl.load(
            mixed_2_blocks_pointer + slot * (ROWS * K) + row[:, None] * K + feature[None, :],
            mask=(row < ROWS)[:, None] & is_feature[None, :],
            other=0.0,
        )
        combined_3 = tl.cumsum(q * mixed_2, 0, reverse=True) - tl.cumsum(k * mixed_3, 0, reverse=True)
        combined_4 = tl.cumsum(d_read_decay * read_decay, 0, reverse=True) + (
            (d_kept * kept)[None, :] + combined_2 + combined_3
        )
        running = sum_of_others(-(value_2 * lr[:, None] * channels_4), False)
        d_log_alpha_block = (
            d_log_alpha_pointer + (batch * tokens + start) * d_log_alpha_row + head * d_log_alpha_head
        )
        tl.store(
            d_log_alpha_block + row[:, None] * d_log_alpha_row + feature[None, :],
            combined_4 + running,
            mask=live[:, None] & is_feature[None, :],
        )
    sum_3 = tl.load(
        sum_3_blocks_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    # Q X^T
    scores = tl.load(
        channels_2_blocks_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    banded = tl.where(row[:, None] - row[None, :] >= 1, -(sum_3 * scores), 0.0)
    channels_1 = tl.load(
        channels_1_blocks_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    banded_2 = tl.where(row[:, None] == row[None, :], total_2[:, None], 0.0)
    # Q X^T
    scores_2 = channels_1 + banded_2
    d_weights = tl.sum(banded, 0) + tl.sum(-(sum_4 * scores_2), 0)
    d_lr_block = d_lr_pointer + (batch * tokens + start) * d_lr_row + head * d_lr_head
    tl.store(d_lr_block + row * d_lr_row, total + d_weights * live_2 * live_2, mask=live)

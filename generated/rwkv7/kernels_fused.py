"""Kernels of the memory rule rwkv7 (fused).

Rule 66b50a33ed77, schedule wy, generator 1. Written by `atlasgen build`; edit the spec, not this file.
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
def forward(
    a_pointer,
    k_pointer,
    kk_pointer,
    length_pointer,
    log_alpha_pointer,
    memory_blocks_pointer,
    memory_final_pointer,
    memory_pointer,
    position_pointer,
    q_pointer,
    v_pointer,
    y_pointer,
    a_head,
    a_row,
    k_head,
    k_row,
    kk_head,
    kk_row,
    log_alpha_head,
    log_alpha_row,
    q_head,
    q_row,
    v_head,
    v_row,
    y_head,
    y_row,
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
    V: tl.constexpr,
):
    """The memory from block to block and the reads of each block."""
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
        log_alpha_block = log_alpha_pointer + (batch * tokens + start) * log_alpha_row + head * log_alpha_head
        q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
        kk_block = kk_pointer + (batch * tokens + start) * kk_row + head * kk_head
        a_block = a_pointer + (batch * tokens + start) * a_row + head * a_head
        if SAVE:
            tl.store(
                memory_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
                memory,
                mask=is_feature[:, None] & is_value[None, :],
            )
        log_alpha = tl.load(
            log_alpha_block + row[:, None] * log_alpha_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
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
        q = tl.load(
            q_block + row[:, None] * q_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        product = tl.dot((read_decay * q).to(DOT), memory.to(DOT), input_precision=PRECISION)
        k = tl.load(
            k_block + row[:, None] * k_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        banded = tl.where(row[:, None] == row[None, :], tl.sum(q * k, 1)[:, None], 0.0)
        # Q X^T
        scores = channel_scores(q, k, log_alpha, False, DOT, PRECISION) + banded
        live_2 = live.to(tl.float32)
        # P: source weights by read
        weights = live_2 * live_2
        # (Q X^T) * P
        attention = scores * weights[None, :]
        v = tl.load(
            v_block + row[:, None] * v_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        product_2 = tl.dot(attention.to(ROW_DOT), v.to(ROW_DOT), input_precision=ROW_PRECISION)
        kk = tl.load(
            kk_block + row[:, None] * kk_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        a = tl.load(
            a_block + row[:, None] * a_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        value_2 = kk * a
        banded_2 = tl.where(row[:, None] == row[None, :], tl.sum(q * (kk * a), 1)[:, None], 0.0)
        # Q X^T
        scores_2 = channel_scores(q, value_2, log_alpha, False, DOT, PRECISION) + banded_2
        # (Q X^T) * P
        attention_2 = scores_2 * weights[None, :]
        banded_3 = tl.where(
            row[:, None] - row[None, :] >= 2,
            channel_scores(kk, value_2, log_alpha, True, DOT, PRECISION),
            0.0,
        )
        product_3 = tl.dot(kk.to(DOT), tl.trans(value_2.to(DOT)), input_precision=PRECISION)
        # Q X^T
        scores_3 = banded_3 + tl.where(row[:, None] - row[None, :] == 1, product_3, 0.0)
        # (Q X^T) * P
        attention_3 = scores_3 * weights[None, :]
        # (I + A)^-1
        inverse = tl.trans(unit_inverse(attention_3))
        # a: decay of the memory since the block's start
        read_decay_2 = tl.where(
            is_feature[None, :],
            tl.exp(
                tl.where(
                    log_alpha_reset_sum - log_alpha_reset == 0.0,
                    log_alpha_coarse_sum - log_alpha_coarse + (log_alpha_fine_sum - log_alpha_fine),
                    float("-inf"),
                )
            ),
            0.0,
        )
        product_4 = tl.dot((read_decay_2 * kk).to(DOT), memory.to(DOT), input_precision=PRECISION)
        banded_4 = tl.where(
            row[:, None] - row[None, :] >= 2,
            channel_scores(kk, k, log_alpha, True, DOT, PRECISION),
            0.0,
        )
        product_5 = tl.dot(kk.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
        # Q X^T
        scores_4 = banded_4 + tl.where(row[:, None] - row[None, :] == 1, product_5, 0.0)
        # (Q X^T) * P
        attention_4 = scores_4 * weights[None, :]
        product_6 = tl.dot(attention_4.to(ROW_DOT), v.to(ROW_DOT), input_precision=ROW_PRECISION)
        # what the block's start predicts for each key
        predictions_given = product_4 + product_6
        # E = (I + A)^-1 R
        errors = tl.dot(
            tl.trans(inverse.to(ROW_DOT)),
            predictions_given.to(ROW_DOT),
            input_precision=ROW_PRECISION,
        )
        product_7 = tl.dot(attention_2.to(ROW_DOT), errors.to(ROW_DOT), input_precision=ROW_PRECISION)
        # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
        reads = product + product_2 - product_7
        y_block = y_pointer + (batch * tokens + start) * y_row + head * y_head
        tl.store(
            y_block + row[:, None] * y_row + value[None, :],
            reads,
            mask=live[:, None] & is_value[None, :],
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
        # p_C: last row of P
        last_weights = until_end * live_2[:, None]
        product_8 = tl.dot(
            tl.trans((last_weights * k).to(ROW_DOT)),
            v.to(ROW_DOT),
            input_precision=ROW_PRECISION,
        )
        product_9 = tl.dot(
            tl.trans((last_weights * value_2).to(ROW_DOT)),
            errors.to(ROW_DOT),
            input_precision=ROW_PRECISION,
        )
        # M at the end
        memory_next = kept[:, None] * memory + product_8 - product_9
        memory = memory_next
    if STORE_FINAL:
        tl.store(
            memory_final_pointer + memory_index * (K * V) + feature[:, None] * V + value[None, :],
            memory,
            mask=is_feature[:, None] & is_value[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def backward(
    a_pointer,
    d_a_pointer,
    d_k_pointer,
    d_kk_pointer,
    d_log_alpha_pointer,
    d_memory_final_pointer,
    d_memory_pointer,
    d_q_pointer,
    d_v_pointer,
    d_y_pointer,
    k_pointer,
    kk_pointer,
    length_pointer,
    log_alpha_pointer,
    memory_blocks_pointer,
    position_pointer,
    q_pointer,
    v_pointer,
    a_head,
    a_row,
    d_a_head,
    d_a_row,
    d_k_head,
    d_k_row,
    d_kk_head,
    d_kk_row,
    d_log_alpha_head,
    d_log_alpha_row,
    d_q_head,
    d_q_row,
    d_v_head,
    d_v_row,
    d_y_head,
    d_y_row,
    k_head,
    k_row,
    kk_head,
    kk_row,
    log_alpha_head,
    log_alpha_row,
    q_head,
    q_row,
    v_head,
    v_row,
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
    V: tl.constexpr,
):
    """All gradients, from the last block to the first."""
    program = tl.program_id(0)
    memory_index = tl.cast(program, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    row = tl.arange(0, BLOCK_ROWS)
    feature = tl.arange(0, BLOCK_K)
    is_feature = feature < K
    value = tl.arange(0, BLOCK_V)
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
        log_alpha_block = log_alpha_pointer + (batch * tokens + start) * log_alpha_row + head * log_alpha_head
        kk_block = kk_pointer + (batch * tokens + start) * kk_row + head * kk_head
        a_block = a_pointer + (batch * tokens + start) * a_row + head * a_head
        d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
        q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        log_alpha = tl.load(
            log_alpha_block + row[:, None] * log_alpha_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        log_alpha_coarse, log_alpha_fine, log_alpha_reset = split_log(log_alpha)
        log_alpha_coarse_sum = tl.cumsum(log_alpha_coarse, 0)
        log_alpha_fine_sum = tl.cumsum(log_alpha_fine, 0)
        log_alpha_reset_sum = tl.cumsum(log_alpha_reset, 0)
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
        live_2 = live.to(tl.float32)
        # p_C: last row of P
        last_weights = until_end * live_2[:, None]
        kk = tl.load(
            kk_block + row[:, None] * kk_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        a = tl.load(
            a_block + row[:, None] * a_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        value_2 = kk * a
        product = tl.dot((last_weights * value_2).to(DOT), d_memory_next.to(DOT), input_precision=PRECISION)
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
        banded = tl.where(row[:, None] == row[None, :], tl.sum(q * value_2, 1)[:, None], 0.0)
        # Q X^T
        scores = channel_scores(q, value_2, log_alpha, False, DOT, PRECISION) + banded
        # P: source weights by read
        weights = live_2 * live_2
        # (Q X^T) * P
        attention = scores * weights[None, :]
        product_2 = tl.dot(
            tl.trans(attention.to(ROW_DOT)),
            d_reads.to(ROW_DOT),
            input_precision=ROW_PRECISION,
        )
        d_errors = -product - product_2
        banded_2 = tl.where(
            row[:, None] - row[None, :] >= 2,
            channel_scores(kk, value_2, log_alpha, True, DOT, PRECISION),
            0.0,
        )
        product_3 = tl.dot(kk.to(DOT), tl.trans(value_2.to(DOT)), input_precision=PRECISION)
        # Q X^T
        scores_2 = banded_2 + tl.where(row[:, None] - row[None, :] == 1, product_3, 0.0)
        # (Q X^T) * P
        attention_2 = scores_2 * weights[None, :]
        # (I + A)^-1
        inverse = tl.trans(unit_inverse(attention_2))
        d_predictions_given = tl.dot(inverse.to(ROW_DOT), d_errors.to(ROW_DOT), input_precision=ROW_PRECISION)
        memory = tl.load(
            memory_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
            mask=is_feature[:, None] & is_value[None, :],
            other=0.0,
        )
        product_4 = tl.dot(
            d_predictions_given.to(ROW_DOT),
            tl.trans(memory.to(ROW_DOT)),
            input_precision=ROW_PRECISION,
        )
        d_read_decay = product_4 * kk
        # a: decay of the memory since the block's start
        read_decay = tl.where(
            is_feature[None, :],
            tl.exp(
                tl.where(
                    log_alpha_reset_sum - log_alpha_reset == 0.0,
                    log_alpha_coarse_sum - log_alpha_coarse + (log_alpha_fine_sum - log_alpha_fine),
                    float("-inf"),
                )
            ),
            0.0,
        )
        product_5 = tl.dot(d_reads.to(DOT), tl.trans(memory.to(DOT)), input_precision=PRECISION)
        d_read_decay_2 = product_5 * q
        # a: decay of the memory since the block's start
        read_decay_2 = tl.where(
            is_feature[None, :],
            tl.exp(
                tl.where(log_alpha_reset_sum == 0.0, log_alpha_coarse_sum + log_alpha_fine_sum, float("-inf"))
            ),
            0.0,
        )
        combined = sum_of_others(d_read_decay * read_decay, True) + tl.cumsum(
            d_read_decay_2 * read_decay_2,
            0,
            reverse=True,
        )
        d_kept = tl.sum(d_memory_next * memory, 1)
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
        v = tl.load(
            v_block + row[:, None] * v_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        d_attention = tl.dot(
            d_predictions_given.to(ROW_DOT),
            tl.trans(v.to(ROW_DOT)),
            input_precision=ROW_PRECISION,
        )
        d_scores = d_attention * weights[None, :]
        banded_3 = tl.where(row[:, None] - row[None, :] >= 2, d_scores, 0.0)
        k = tl.load(
            k_block + row[:, None] * k_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        decayed_rows = channel_mix(banded_3, k, log_alpha, True, ROW_DOT, ROW_PRECISION)
        decayed_rows_2 = channel_mix_back(banded_3, kk, log_alpha, True, ROW_DOT, ROW_PRECISION)
        combined_2 = sum_of_others(kk * decayed_rows, True) - tl.cumsum(k * decayed_rows_2, 0, reverse=True)
        value_3 = read_decay * kk
        product_6 = tl.dot(value_3.to(DOT), memory.to(DOT), input_precision=PRECISION)
        banded_4 = tl.where(
            row[:, None] - row[None, :] >= 2,
            channel_scores(kk, k, log_alpha, True, DOT, PRECISION),
            0.0,
        )
        product_7 = tl.dot(kk.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
        # Q X^T
        scores_3 = banded_4 + tl.where(row[:, None] - row[None, :] == 1, product_7, 0.0)
        # (Q X^T) * P
        attention_3 = scores_3 * weights[None, :]
        product_8 = tl.dot(attention_3.to(ROW_DOT), v.to(ROW_DOT), input_precision=ROW_PRECISION)
        # what the block's start predicts for each key
        predictions_given = product_6 + product_8
        # E = (I + A)^-1 R
        errors = tl.dot(
            tl.trans(inverse.to(ROW_DOT)),
            predictions_given.to(ROW_DOT),
            input_precision=ROW_PRECISION,
        )
        product_9 = tl.dot(
            d_predictions_given.to(ROW_DOT),
            tl.trans(errors.to(ROW_DOT)),
            input_precision=ROW_PRECISION,
        )
        value_4 = -(product_9 * weights[None, :])
        banded_5 = tl.where(row[:, None] - row[None, :] >= 2, value_4, 0.0)
        decayed_rows_3 = channel_mix(banded_5, value_2, log_alpha, True, ROW_DOT, ROW_PRECISION)
        decayed_rows_4 = channel_mix_back(banded_5, kk, log_alpha, True, ROW_DOT, ROW_PRECISION)
        combined_3 = sum_of_others(kk * decayed_rows_3, True) - tl.cumsum(
            value_2 * decayed_rows_4,
            0,
            reverse=True,
        )
        product_10 = tl.dot(d_reads.to(ROW_DOT), tl.trans(errors.to(ROW_DOT)), input_precision=ROW_PRECISION)
        d_scores_2 = -(product_10 * weights[None, :])
        decayed_rows_5 = channel_mix(d_scores_2, value_2, log_alpha, False, ROW_DOT, ROW_PRECISION)
        decayed_rows_6 = channel_mix_back(d_scores_2, q, log_alpha, False, ROW_DOT, ROW_PRECISION)
        combined_4 = tl.cumsum(q * decayed_rows_5, 0, reverse=True) - tl.cumsum(
            value_2 * decayed_rows_6,
            0,
            reverse=True,
        )
        d_attention_2 = tl.dot(d_reads.to(DOT), tl.trans(v.to(DOT)), input_precision=PRECISION)
        d_scores_3 = d_attention_2 * weights[None, :]
        decayed_rows_7 = channel_mix(d_scores_3, k, log_alpha, False, ROW_DOT, ROW_PRECISION)
        decayed_rows_8 = channel_mix_back(d_scores_3, q, log_alpha, False, ROW_DOT, ROW_PRECISION)
        combined_5 = tl.cumsum(q * decayed_rows_7, 0, reverse=True) - tl.cumsum(
            k * decayed_rows_8,
            0,
            reverse=True,
        )
        combined_6 = (d_kept * kept)[None, :] + combined_2 + combined_3 + combined_4 + combined_5
        product_11 = tl.dot(v.to(DOT), tl.trans(d_memory_next.to(DOT)), input_precision=PRECISION)
        product_12 = tl.dot(
            errors.to(ROW_DOT),
            tl.trans(d_memory_next.to(ROW_DOT)),
            input_precision=ROW_PRECISION,
        )
        d_last_weights = product_11 * k - product_12 * value_2
        running = sum_of_others(d_last_weights * live_2[:, None] * until_end, False)
        d_log_alpha_block = (
            d_log_alpha_pointer + (batch * tokens + start) * d_log_alpha_row + head * d_log_alpha_head
        )
        tl.store(
            d_log_alpha_block + row[:, None] * d_log_alpha_row + feature[None, :],
            combined + combined_6 + running,
            mask=live[:, None] & is_feature[None, :],
        )
        total = tl.sum(tl.where(row[:, None] == row[None, :], d_scores_2, 0.0), 1)
        product_13 = tl.sum(d_reads * v, 1)
        value_5 = product_13 * (live_2 * live_2)
        combined_7 = (
            total[:, None] * value_2
            + decayed_rows_5
            + value_5[:, None] * k
            + decayed_rows_7
            + product_5 * read_decay_2
        )
        d_q_block = d_q_pointer + (batch * tokens + start) * d_q_row + head * d_q_head
        tl.store(
            d_q_block + row[:, None] * d_q_row + feature[None, :],
            combined_7,
            mask=live[:, None] & is_feature[None, :],
        )
        banded_6 = tl.where(row[:, None] - row[None, :] == 1, d_scores, 0.0)
        product_14 = tl.dot(tl.trans(banded_6.to(ROW_DOT)), kk.to(ROW_DOT), input_precision=ROW_PRECISION)
        combined_8 = product_11 * last_weights + product_14 + decayed_rows_2 + decayed_rows_8
        d_k_block = d_k_pointer + (batch * tokens + start) * d_k_row + head * d_k_head
        tl.store(
            d_k_block + row[:, None] * d_k_row + feature[None, :],
            combined_8 + value_5[:, None] * q,
            mask=live[:, None] & is_feature[None, :],
        )
        product_15 = tl.dot((last_weights * k).to(DOT), d_memory_next.to(DOT), input_precision=PRECISION)
        product_16 = tl.dot(
            tl.trans(attention_3.to(ROW_DOT)),
            d_predictions_given.to(ROW_DOT),
            input_precision=ROW_PRECISION,
        )
        banded_7 = tl.where(row[:, None] == row[None, :], tl.sum(q * k, 1)[:, None], 0.0)
        # Q X^T
        scores_4 = channel_scores(q, k, log_alpha, False, DOT, PRECISION) + banded_7
        # (Q X^T) * P
        attention_4 = scores_4 * weights[None, :]
        product_17 = tl.dot(
            tl.trans(attention_4.to(ROW_DOT)),
            d_reads.to(ROW_DOT),
            input_precision=ROW_PRECISION,
        )
        d_v_block = d_v_pointer + (batch * tokens + start) * d_v_row + head * d_v_head
        tl.store(
            d_v_block + row[:, None] * d_v_row + value[None, :],
            product_15 + product_16 + product_17,
            mask=live[:, None] & is_value[None, :],
        )
        banded_8 = tl.where(row[:, None] - row[None, :] == 1, value_4, 0.0)
        product_18 = tl.dot(tl.trans(banded_8.to(ROW_DOT)), kk.to(ROW_DOT), input_precision=ROW_PRECISION)
        combined_9 = product_18 + decayed_rows_4 + decayed_rows_6 - product_12 * last_weights
        product_19 = tl.dot(banded_6.to(ROW_DOT), k.to(ROW_DOT), input_precision=ROW_PRECISION)
        product_20 = tl.dot(banded_8.to(ROW_DOT), value_2.to(ROW_DOT), input_precision=ROW_PRECISION)
        value_6 = total[:, None] * q
        combined_10 = (
            product_19 + decayed_rows + product_4 * read_decay + product_20 + decayed_rows_3 + value_6 * a
        )
        d_kk_block = d_kk_pointer + (batch * tokens + start) * d_kk_row + head * d_kk_head
        tl.store(
            d_kk_block + row[:, None] * d_kk_row + feature[None, :],
            combined_9 * a + combined_10,
            mask=live[:, None] & is_feature[None, :],
        )
        d_a_block = d_a_pointer + (batch * tokens + start) * d_a_row + head * d_a_head
        tl.store(
            d_a_block + row[:, None] * d_a_row + feature[None, :],
            combined_9 * kk + value_6 * kk,
            mask=live[:, None] & is_feature[None, :],
        )
        product_21 = tl.dot(
            tl.trans(value_3.to(ROW_DOT)),
            d_predictions_given.to(ROW_DOT),
            input_precision=ROW_PRECISION,
        )
        product_22 = tl.dot(
            tl.trans((read_decay_2 * q).to(ROW_DOT)),
            d_reads.to(ROW_DOT),
            input_precision=ROW_PRECISION,
        )
        d_memory_next = d_memory_next * kept[:, None] + product_21 + product_22
    if GRAD_INITIAL:
        tl.store(
            d_memory_pointer + memory_index * (K * V) + feature[:, None] * V + value[None, :],
            d_memory_next,
            mask=is_feature[:, None] & is_value[None, :],
        )

"""Kernels of the memory rule titans_exact (fused).

Rule 36e4393d7ec7, schedule wy, generator 1. Written by `atlasgen build`; edit the spec, not this file.
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


@triton.jit(do_not_specialize=["tokens", "blocks"])
def forward(
    k_pointer,
    length_pointer,
    log_alpha_pointer,
    log_theta_pointer,
    lr_pointer,
    memory_blocks_pointer,
    memory_final_pointer,
    memory_pointer,
    momentum_blocks_pointer,
    momentum_final_pointer,
    momentum_pointer,
    position_pointer,
    q_pointer,
    v_pointer,
    y_pointer,
    k_head,
    k_row,
    log_alpha_head,
    log_alpha_row,
    log_theta_head,
    log_theta_row,
    lr_head,
    lr_row,
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
    momentum = tl.zeros([BLOCK_K, BLOCK_V], dtype=tl.float32)
    if HAS_INITIAL:
        momentum += tl.load(
            momentum_pointer + memory_index * (K * V) + feature[:, None] * V + value[None, :],
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
        log_theta_block = log_theta_pointer + (batch * tokens + start) * log_theta_row + head * log_theta_head
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
        if SAVE:
            tl.store(
                memory_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
                memory,
                mask=is_feature[:, None] & is_value[None, :],
            )
        if SAVE:
            tl.store(
                momentum_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
                momentum,
                mask=is_feature[:, None] & is_value[None, :],
            )
        log_alpha = tl.load(log_alpha_block + row * log_alpha_row, mask=live, other=0.0).to(tl.float32)
        log_alpha_coarse, log_alpha_fine, log_alpha_reset = split_log(log_alpha)
        log_alpha_coarse_sum = tl.cumsum(log_alpha_coarse, 0)
        log_alpha_fine_sum = tl.cumsum(log_alpha_fine, 0)
        log_alpha_reset_sum = tl.cumsum(log_alpha_reset, 0)
        # a: decay of the memory since the block's start
        read_decay = tl.exp(
            tl.where(log_alpha_reset_sum == 0.0, log_alpha_coarse_sum + log_alpha_fine_sum, float("-inf"))
        )
        q = tl.load(
            q_block + row[:, None] * q_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        product = tl.dot(q.to(DOT), memory.to(DOT), input_precision=PRECISION)
        decay = tl.exp(
            tl.where(
                (row[:, None] >= row[None, :])
                & (log_alpha_reset_sum[:, None] == log_alpha_reset_sum[None, :]),
                log_alpha_coarse_sum[:, None]
                - log_alpha_coarse_sum[None, :]
                + (log_alpha_fine_sum[:, None] - log_alpha_fine_sum[None, :]),
                float("-inf"),
            )
        )
        live_2 = live.to(tl.float32)
        value_2 = decay * live_2[None, :]
        log_theta = tl.load(log_theta_block + row * log_theta_row, mask=live, other=0.0).to(tl.float32)
        log_theta_coarse, log_theta_fine, log_theta_reset = split_log(log_theta)
        log_theta_coarse_sum = tl.cumsum(log_theta_coarse, 0)
        log_theta_fine_sum = tl.cumsum(log_theta_fine, 0)
        log_theta_reset_sum = tl.cumsum(log_theta_reset, 0)
        since_start = tl.exp(
            tl.where(log_theta_reset_sum == 0.0, log_theta_coarse_sum + log_theta_fine_sum, float("-inf"))
        )
        # b: weight of S in each read
        momentum_read = tl.sum(value_2 * since_start[None, :], 1)
        product_2 = tl.dot(q.to(DOT), momentum.to(DOT), input_precision=PRECISION)
        k = tl.load(
            k_block + row[:, None] * k_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        # Q X^T
        scores = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
        decay_2 = tl.exp(
            tl.where(
                (row[:, None] >= row[None, :])
                & (log_theta_reset_sum[:, None] == log_theta_reset_sum[None, :]),
                log_theta_coarse_sum[:, None]
                - log_theta_coarse_sum[None, :]
                + (log_theta_fine_sum[:, None] - log_theta_fine_sum[None, :]),
                float("-inf"),
            )
        )
        product_3 = tl.dot(value_2.to(ROW_DOT), decay_2.to(ROW_DOT), input_precision=ROW_PRECISION)
        lr = tl.load(lr_block + row * lr_row, mask=live, other=0.0).to(tl.float32)
        # P: source weights by read
        weights = product_3 * lr[None, :] * live_2[None, :]
        # (Q X^T) * P
        attention = scores * weights
        # Q X^T
        scores_2 = tl.dot(k.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
        decay_3 = tl.exp(
            tl.where(
                (row[:, None] > row[None, :])
                & ((log_alpha_reset_sum - log_alpha_reset)[:, None] == log_alpha_reset_sum[None, :]),
                (log_alpha_coarse_sum - log_alpha_coarse)[:, None]
                - log_alpha_coarse_sum[None, :]
                + ((log_alpha_fine_sum - log_alpha_fine)[:, None] - log_alpha_fine_sum[None, :]),
                float("-inf"),
            )
        )
        value_3 = decay_3 * live_2[None, :]
        product_4 = tl.dot(value_3.to(ROW_DOT), decay_2.to(ROW_DOT), input_precision=ROW_PRECISION)
        # P: source weights by read
        weights_2 = product_4 * lr[None, :] * live_2[None, :]
        # (Q X^T) * P
        attention_2 = scores_2 * weights_2
        # (I + A)^-1
        inverse = tl.trans(unit_inverse(attention_2))
        # a: decay of the memory since the block's start
        read_decay_2 = tl.exp(
            tl.where(
                log_alpha_reset_sum - log_alpha_reset == 0.0,
                log_alpha_coarse_sum - log_alpha_coarse + (log_alpha_fine_sum - log_alpha_fine),
                float("-inf"),
            )
        )
        product_5 = tl.dot(k.to(DOT), memory.to(DOT), input_precision=PRECISION)
        # b: weight of S in each read
        momentum_read_2 = tl.sum(value_3 * since_start[None, :], 1)
        product_6 = tl.dot(k.to(DOT), momentum.to(DOT), input_precision=PRECISION)
        # what the block's start predicts for each key
        predictions_given = read_decay_2[:, None] * product_5 - momentum_read_2[:, None] * product_6
        v = tl.load(
            v_block + row[:, None] * v_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        # R: the error at what the block's start gives
        residual = predictions_given - v
        # E = (I + A)^-1 R
        errors = tl.dot(tl.trans(inverse.to(ROW_DOT)), residual.to(ROW_DOT), input_precision=ROW_PRECISION)
        product_7 = tl.dot(attention.to(ROW_DOT), errors.to(ROW_DOT), input_precision=ROW_PRECISION)
        # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
        reads = read_decay[:, None] * product - momentum_read[:, None] * product_2 - product_7
        y_block = y_pointer + (batch * tokens + start) * y_row + head * y_head
        tl.store(
            y_block + row[:, None] * y_row + value[None, :],
            reads,
            mask=live[:, None] & is_value[None, :],
        )
        # a_C: decay of the memory over the block
        kept = tl.exp(
            tl.where(
                tl.sum(log_alpha_reset, 0) == 0.0,
                tl.sum(log_alpha_coarse, 0) + tl.sum(log_alpha_fine, 0),
                float("-inf"),
            )
        )
        until_end = tl.exp(
            tl.where(
                tl.sum(log_alpha_reset, 0) == log_alpha_reset_sum,
                tl.sum(log_alpha_coarse, 0)
                - log_alpha_coarse_sum
                + (tl.sum(log_alpha_fine, 0) - log_alpha_fine_sum),
                float("-inf"),
            )
        )
        value_4 = until_end * live_2
        # b_C: weight of the block's initial momentum
        momentum_written = tl.sum(value_4 * since_start, 0)
        product_8 = tl.sum(value_4[:, None] * decay_2, 0)
        # p_C: last row of P
        last_weights = product_8 * lr * live_2
        product_9 = tl.dot(
            tl.trans((last_weights[:, None] * k).to(ROW_DOT)),
            errors.to(ROW_DOT),
            input_precision=ROW_PRECISION,
        )
        # M at the end
        memory_next = kept * memory - momentum_written * momentum - product_9
        # decay of S over the block
        momentum_kept = tl.exp(
            tl.where(
                tl.sum(log_theta_reset, 0) == 0.0,
                tl.sum(log_theta_coarse, 0) + tl.sum(log_theta_fine, 0),
                float("-inf"),
            )
        )
        until_end_2 = tl.exp(
            tl.where(
                tl.sum(log_theta_reset, 0) == log_theta_reset_sum,
                tl.sum(log_theta_coarse, 0)
                - log_theta_coarse_sum
                + (tl.sum(log_theta_fine, 0) - log_theta_fine_sum),
                float("-inf"),
            )
        )
        # B_C: last row of D(theta) Gamma
        momentum_weights = until_end_2 * lr * live_2
        product_10 = tl.dot(
            tl.trans((momentum_weights[:, None] * k).to(ROW_DOT)),
            errors.to(ROW_DOT),
            input_precision=ROW_PRECISION,
        )
        # S at the end of the block
        momentum_next = momentum_kept * momentum + product_10
        memory = memory_next
        momentum = momentum_next
    if STORE_FINAL:
        tl.store(
            memory_final_pointer + memory_index * (K * V) + feature[:, None] * V + value[None, :],
            memory,
            mask=is_feature[:, None] & is_value[None, :],
        )
        tl.store(
            momentum_final_pointer + memory_index * (K * V) + feature[:, None] * V + value[None, :],
            momentum,
            mask=is_feature[:, None] & is_value[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def backward(
    d_k_pointer,
    d_log_alpha_pointer,
    d_log_theta_pointer,
    d_lr_pointer,
    d_memory_final_pointer,
    d_memory_pointer,
    d_momentum_final_pointer,
    d_momentum_pointer,
    d_q_pointer,
    d_v_pointer,
    d_y_pointer,
    k_pointer,
    length_pointer,
    log_alpha_pointer,
    log_theta_pointer,
    lr_pointer,
    memory_blocks_pointer,
    momentum_blocks_pointer,
    position_pointer,
    q_pointer,
    v_pointer,
    d_k_head,
    d_k_row,
    d_log_alpha_head,
    d_log_alpha_row,
    d_log_theta_head,
    d_log_theta_row,
    d_lr_head,
    d_lr_row,
    d_q_head,
    d_q_row,
    d_v_head,
    d_v_row,
    d_y_head,
    d_y_row,
    k_head,
    k_row,
    log_alpha_head,
    log_alpha_row,
    log_theta_head,
    log_theta_row,
    lr_head,
    lr_row,
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
    d_momentum_next = tl.zeros([BLOCK_K, BLOCK_V], dtype=tl.float32)
    if GRAD_FINAL:
        d_momentum_next += tl.load(
            d_momentum_final_pointer + memory_index * (K * V) + feature[:, None] * V + value[None, :],
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
        log_theta_block = log_theta_pointer + (batch * tokens + start) * log_theta_row + head * log_theta_head
        lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        log_alpha_block = log_alpha_pointer + (batch * tokens + start) * log_alpha_row + head * log_alpha_head
        d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
        q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
        log_theta = tl.load(log_theta_block + row * log_theta_row, mask=live, other=0.0).to(tl.float32)
        log_theta_coarse, log_theta_fine, log_theta_reset = split_log(log_theta)
        log_theta_coarse_sum = tl.cumsum(log_theta_coarse, 0)
        log_theta_fine_sum = tl.cumsum(log_theta_fine, 0)
        log_theta_reset_sum = tl.cumsum(log_theta_reset, 0)
        until_end = tl.exp(
            tl.where(
                tl.sum(log_theta_reset, 0) == log_theta_reset_sum,
                tl.sum(log_theta_coarse, 0)
                - log_theta_coarse_sum
                + (tl.sum(log_theta_fine, 0) - log_theta_fine_sum),
                float("-inf"),
            )
        )
        lr = tl.load(lr_block + row * lr_row, mask=live, other=0.0).to(tl.float32)
        live_2 = live.to(tl.float32)
        # B_C: last row of D(theta) Gamma
        momentum_weights = until_end * lr * live_2
        k = tl.load(
            k_block + row[:, None] * k_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        product = tl.dot(
            (momentum_weights[:, None] * k).to(DOT),
            d_momentum_next.to(DOT),
            input_precision=PRECISION,
        )
        log_alpha = tl.load(log_alpha_block + row * log_alpha_row, mask=live, other=0.0).to(tl.float32)
        log_alpha_coarse, log_alpha_fine, log_alpha_reset = split_log(log_alpha)
        log_alpha_coarse_sum = tl.cumsum(log_alpha_coarse, 0)
        log_alpha_fine_sum = tl.cumsum(log_alpha_fine, 0)
        log_alpha_reset_sum = tl.cumsum(log_alpha_reset, 0)
        until_end_2 = tl.exp(
            tl.where(
                tl.sum(log_alpha_reset, 0) == log_alpha_reset_sum,
                tl.sum(log_alpha_coarse, 0)
                - log_alpha_coarse_sum
                + (tl.sum(log_alpha_fine, 0) - log_alpha_fine_sum),
                float("-inf"),
            )
        )
        value_2 = until_end_2 * live_2
        decay = tl.exp(
            tl.where(
                (row[:, None] >= row[None, :])
                & (log_theta_reset_sum[:, None] == log_theta_reset_sum[None, :]),
                log_theta_coarse_sum[:, None]
                - log_theta_coarse_sum[None, :]
                + (log_theta_fine_sum[:, None] - log_theta_fine_sum[None, :]),
                float("-inf"),
            )
        )
        product_2 = tl.sum(value_2[:, None] * decay, 0)
        # p_C: last row of P
        last_weights = product_2 * lr * live_2
        product_3 = tl.dot(
            (last_weights[:, None] * k).to(DOT),
            d_memory_next.to(DOT),
            input_precision=PRECISION,
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
        # Q X^T
        scores = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
        decay_2 = tl.exp(
            tl.where(
                (row[:, None] >= row[None, :])
                & (log_alpha_reset_sum[:, None] == log_alpha_reset_sum[None, :]),
                log_alpha_coarse_sum[:, None]
                - log_alpha_coarse_sum[None, :]
                + (log_alpha_fine_sum[:, None] - log_alpha_fine_sum[None, :]),
                float("-inf"),
            )
        )
        value_3 = decay_2 * live_2[None, :]
        product_4 = tl.dot(value_3.to(ROW_DOT), decay.to(ROW_DOT), input_precision=ROW_PRECISION)
        # P: source weights by read
        weights = product_4 * lr[None, :] * live_2[None, :]
        # (Q X^T) * P
        attention = scores * weights
        product_5 = tl.dot(
            tl.trans(attention.to(ROW_DOT)),
            d_reads.to(ROW_DOT),
            input_precision=ROW_PRECISION,
        )
        d_errors = product - product_3 - product_5
        # Q X^T
        scores_2 = tl.dot(k.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
        decay_3 = tl.exp(
            tl.where(
                (row[:, None] > row[None, :])
                & ((log_alpha_reset_sum - log_alpha_reset)[:, None] == log_alpha_reset_sum[None, :]),
                (log_alpha_coarse_sum - log_alpha_coarse)[:, None]
                - log_alpha_coarse_sum[None, :]
                + ((log_alpha_fine_sum - log_alpha_fine)[:, None] - log_alpha_fine_sum[None, :]),
                float("-inf"),
            )
        )
        value_4 = decay_3 * live_2[None, :]
        product_6 = tl.dot(value_4.to(ROW_DOT), decay.to(ROW_DOT), input_precision=ROW_PRECISION)
        # P: source weights by read
        weights_2 = product_6 * lr[None, :] * live_2[None, :]
        # (Q X^T) * P
        attention_2 = scores_2 * weights_2
        # (I + A)^-1
        inverse = tl.trans(unit_inverse(attention_2))
        d_residual = tl.dot(inverse.to(ROW_DOT), d_errors.to(ROW_DOT), input_precision=ROW_PRECISION)
        memory = tl.load(
            memory_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
            mask=is_feature[:, None] & is_value[None, :],
            other=0.0,
        )
        product_7 = tl.dot(k.to(DOT), memory.to(DOT), input_precision=PRECISION)
        d_read_decay = tl.sum(d_residual * product_7, 1)
        # a: decay of the memory since the block's start
        read_decay = tl.exp(
            tl.where(
                log_alpha_reset_sum - log_alpha_reset == 0.0,
                log_alpha_coarse_sum - log_alpha_coarse + (log_alpha_fine_sum - log_alpha_fine),
                float("-inf"),
            )
        )
        running = tl.sum(tl.where(row[:, None] < row[None, :], (d_read_decay * read_decay)[None, :], 0.0), 1)
        product_8 = tl.dot(q.to(DOT), memory.to(DOT), input_precision=PRECISION)
        d_read_decay_2 = tl.sum(d_reads * product_8, 1)
        # a: decay of the memory since the block's start
        read_decay_2 = tl.exp(
            tl.where(log_alpha_reset_sum == 0.0, log_alpha_coarse_sum + log_alpha_fine_sum, float("-inf"))
        )
        combined = running + tl.cumsum(d_read_decay_2 * read_decay_2, 0, reverse=True)
        since_start = tl.exp(
            tl.where(log_theta_reset_sum == 0.0, log_theta_coarse_sum + log_theta_fine_sum, float("-inf"))
        )
        # b: weight of S in each read
        momentum_read = tl.sum(value_4 * since_start[None, :], 1)
        momentum = tl.load(
            momentum_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
            mask=is_feature[:, None] & is_value[None, :],
            other=0.0,
        )
        product_9 = tl.dot(k.to(DOT), momentum.to(DOT), input_precision=PRECISION)
        # what the block's start predicts for each key
        predictions_given = read_decay[:, None] * product_7 - momentum_read[:, None] * product_9
        v = tl.load(
            v_block + row[:, None] * v_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        # R: the error at what the block's start gives
        residual = predictions_given - v
        # E = (I + A)^-1 R
        errors = tl.dot(tl.trans(inverse.to(ROW_DOT)), residual.to(ROW_DOT), input_precision=ROW_PRECISION)
        product_10 = tl.dot(
            errors.to(ROW_DOT),
            tl.trans(d_memory_next.to(ROW_DOT)),
            input_precision=ROW_PRECISION,
        )
        d_last_weights = tl.sum(-(product_10 * k), 1)
        value_5 = d_last_weights * live_2
        value_6 = value_5 * lr
        product_11 = tl.sum(value_6[None, :] * decay, 1)
        d_momentum_written = tl.sum(tl.sum(-(d_memory_next * momentum), 0), 0)
        value_7 = (product_11 + d_momentum_written * since_start) * live_2 * until_end_2
        running_2 = tl.sum(tl.where(row[:, None] > row[None, :], value_7[None, :], 0.0), 1)
        d_kept = tl.sum(tl.sum(d_memory_next * memory, 0), 0)
        # a_C: decay of the memory over the block
        kept = tl.exp(
            tl.where(
                tl.sum(log_alpha_reset, 0) == 0.0,
                tl.sum(log_alpha_coarse, 0) + tl.sum(log_alpha_fine, 0),
                float("-inf"),
            )
        )
        d_momentum_read = tl.sum(-(d_residual * product_9), 1)
        product_12 = tl.dot(
            d_residual.to(ROW_DOT),
            tl.trans(errors.to(ROW_DOT)),
            input_precision=ROW_PRECISION,
        )
        value_8 = product_12 * scores_2 * live_2[None, :]
        banded = tl.where(row[:, None] - row[None, :] >= 1, -(value_8 * lr[None, :]), 0.0)
        product_13 = tl.dot(banded.to(ROW_DOT), tl.trans(decay.to(ROW_DOT)), input_precision=ROW_PRECISION)
        combined_2 = d_momentum_read[:, None] * since_start[None, :] + product_13
        banded_2 = tl.where(row[:, None] - row[None, :] >= 2, combined_2 * live_2[None, :] * decay_3, 0.0)
        banded_3 = tl.where(row[:, None] - row[None, :] >= 1, tl.cumsum(banded_2, 1) - banded_2, 0.0)
        product_14 = tl.dot(q.to(DOT), momentum.to(DOT), input_precision=PRECISION)
        d_momentum_read_2 = tl.sum(-(d_reads * product_14), 1)
        product_15 = tl.dot(d_reads.to(ROW_DOT), tl.trans(errors.to(ROW_DOT)), input_precision=ROW_PRECISION)
        value_9 = product_15 * scores * live_2[None, :]
        value_10 = value_9 * lr[None, :]
        product_16 = tl.dot(value_10.to(ROW_DOT), tl.trans(decay.to(ROW_DOT)), input_precision=ROW_PRECISION)
        combined_3 = d_momentum_read_2[:, None] * since_start[None, :] - product_16
        banded_4 = tl.where(row[:, None] - row[None, :] >= 1, combined_3 * live_2[None, :] * decay_2, 0.0)
        banded_5 = tl.where(row[:, None] >= row[None, :], tl.cumsum(banded_4, 1) - banded_4, 0.0)
        combined_4 = running_2 + d_kept * kept + tl.sum(banded_3, 0) + tl.sum(banded_5, 0)
        d_log_alpha_block = (
            d_log_alpha_pointer + (batch * tokens + start) * d_log_alpha_row + head * d_log_alpha_head
        )
        tl.store(d_log_alpha_block + row * d_log_alpha_row, combined + combined_4, mask=live)
        value_11 = d_reads * read_decay_2[:, None]
        product_17 = tl.dot(value_11.to(DOT), tl.trans(memory.to(DOT)), input_precision=PRECISION)
        value_12 = product_15 * weights
        product_18 = tl.dot(value_12.to(ROW_DOT), k.to(ROW_DOT), input_precision=ROW_PRECISION)
        # b: weight of S in each read
        momentum_read_2 = tl.sum(value_3 * since_start[None, :], 1)
        value_13 = d_reads * momentum_read_2[:, None]
        product_19 = tl.dot(value_13.to(DOT), tl.trans(momentum.to(DOT)), input_precision=PRECISION)
        d_q_block = d_q_pointer + (batch * tokens + start) * d_q_row + head * d_q_head
        tl.store(
            d_q_block + row[:, None] * d_q_row + feature[None, :],
            product_17 - product_18 - product_19,
            mask=live[:, None] & is_feature[None, :],
        )
        product_20 = tl.sum(d_momentum_read[:, None] * value_4, 0)
        product_21 = tl.sum(d_momentum_read_2[:, None] * value_3, 0)
        value_14 = (d_momentum_written * value_2 + product_20 + product_21) * since_start
        product_22 = tl.dot(
            errors.to(ROW_DOT),
            tl.trans(d_momentum_next.to(ROW_DOT)),
            input_precision=ROW_PRECISION,
        )
        d_momentum_weights = tl.sum(product_22 * k, 1)
        value_15 = d_momentum_weights * live_2
        running_3 = tl.sum(
            tl.where(row[:, None] > row[None, :], (value_15 * lr * until_end)[None, :], 0.0),
            1,
        )
        product_23 = tl.dot(tl.trans(value_4.to(ROW_DOT)), banded.to(ROW_DOT), input_precision=ROW_PRECISION)
        product_24 = tl.dot(
            tl.trans(value_3.to(ROW_DOT)),
            value_10.to(ROW_DOT),
            input_precision=ROW_PRECISION,
        )
        combined_5 = value_6[None, :] * value_2[:, None] + product_23 - product_24
        banded_6 = tl.where(row[:, None] - row[None, :] >= 1, combined_5 * decay, 0.0)
        banded_7 = tl.where(row[:, None] >= row[None, :], tl.cumsum(banded_6, 1) - banded_6, 0.0)
        combined_6 = tl.cumsum(value_14, 0, reverse=True) + (running_3 + tl.sum(banded_7, 0))
        d_momentum_kept = tl.sum(tl.sum(d_momentum_next * momentum, 0), 0)
        # decay of S over the block
        momentum_kept = tl.exp(
            tl.where(
                tl.sum(log_theta_reset, 0) == 0.0,
                tl.sum(log_theta_coarse, 0) + tl.sum(log_theta_fine, 0),
                float("-inf"),
            )
        )
        d_log_theta_block = (
            d_log_theta_pointer + (batch * tokens + start) * d_log_theta_row + head * d_log_theta_head
        )
        tl.store(
            d_log_theta_block + row * d_log_theta_row,
            combined_6 + d_momentum_kept * momentum_kept,
            mask=live,
        )
        d_scores = tl.where(row[:, None] - row[None, :] >= 1, -(product_12 * weights_2), 0.0)
        product_25 = tl.dot(tl.trans(d_scores.to(ROW_DOT)), k.to(ROW_DOT), input_precision=ROW_PRECISION)
        product_26 = tl.dot(tl.trans(value_12.to(ROW_DOT)), q.to(ROW_DOT), input_precision=ROW_PRECISION)
        combined_7 = (
            product_22 * momentum_weights[:, None]
            + product_25
            - product_10 * last_weights[:, None]
            - product_26
        )
        value_16 = d_residual * read_decay[:, None]
        product_27 = tl.dot(value_16.to(ROW_DOT), tl.trans(memory.to(ROW_DOT)), input_precision=ROW_PRECISION)
        product_28 = tl.dot(d_scores.to(ROW_DOT), k.to(ROW_DOT), input_precision=ROW_PRECISION)
        value_17 = d_residual * momentum_read[:, None]
        product_29 = tl.dot(
            value_17.to(ROW_DOT),
            tl.trans(momentum.to(ROW_DOT)),
            input_precision=ROW_PRECISION,
        )
        d_k_block = d_k_pointer + (batch * tokens + start) * d_k_row + head * d_k_head
        tl.store(
            d_k_block + row[:, None] * d_k_row + feature[None, :],
            combined_7 + (product_27 + product_28 - product_29),
            mask=live[:, None] & is_feature[None, :],
        )
        banded_8 = tl.where(row[:, None] - row[None, :] >= 1, -(value_8 * product_6), 0.0)
        combined_8 = (
            value_15 * until_end
            + value_5 * product_2
            + tl.sum(banded_8, 0)
            + tl.sum(-(value_9 * product_4), 0)
        )
        d_lr_block = d_lr_pointer + (batch * tokens + start) * d_lr_row + head * d_lr_head
        tl.store(d_lr_block + row * d_lr_row, combined_8, mask=live)
        d_v_block = d_v_pointer + (batch * tokens + start) * d_v_row + head * d_v_head
        tl.store(
            d_v_block + row[:, None] * d_v_row + value[None, :],
            -d_residual,
            mask=live[:, None] & is_value[None, :],
        )
        product_30 = tl.dot(tl.trans(k.to(ROW_DOT)), value_16.to(ROW_DOT), input_precision=ROW_PRECISION)
        product_31 = tl.dot(tl.trans(q.to(ROW_DOT)), value_11.to(ROW_DOT), input_precision=ROW_PRECISION)
        # b_C: weight of the block's initial momentum
        momentum_written = tl.sum(value_2 * since_start, 0)
        product_32 = tl.dot(tl.trans(k.to(ROW_DOT)), value_17.to(ROW_DOT), input_precision=ROW_PRECISION)
        product_33 = tl.dot(tl.trans(q.to(ROW_DOT)), value_13.to(ROW_DOT), input_precision=ROW_PRECISION)
        combined_9 = (
            d_momentum_next * momentum_kept - d_memory_next * momentum_written - product_32 - product_33
        )
        d_memory_next = d_memory_next * kept + product_30 + product_31
        d_momentum_next = combined_9
    if GRAD_INITIAL:
        tl.store(
            d_memory_pointer + memory_index * (K * V) + feature[:, None] * V + value[None, :],
            d_memory_next,
            mask=is_feature[:, None] & is_value[None, :],
        )
        tl.store(
            d_momentum_pointer + memory_index * (K * V) + feature[:, None] * V + value[None, :],
            d_momentum_next,
            mask=is_feature[:, None] & is_value[None, :],
        )

"""Kernels of the memory rule comba (split_all_rows_4).

Rule 8a79c56f09a3, schedule wy, generator 1. Written by `atlasgen build`; edit the spec, not this file.
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
def gates(
    gate_kept_pointer,
    gate_last_weights_pointer,
    gate_read_decay_pointer,
    gate_weights_pointer,
    length_pointer,
    log_alpha_pointer,
    lr_pointer,
    position_pointer,
    log_alpha_head,
    log_alpha_row,
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
    """Decays and window weights of one block: what depends on the gates alone."""
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
    lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
    log_alpha = tl.load(log_alpha_block + row * log_alpha_row, mask=live, other=0.0).to(tl.float32)
    log_alpha_coarse, log_alpha_fine, log_alpha_reset = split_log(log_alpha)
    log_alpha_coarse_sum = tl.cumsum(log_alpha_coarse, 0)
    log_alpha_fine_sum = tl.cumsum(log_alpha_fine, 0)
    log_alpha_reset_sum = tl.cumsum(log_alpha_reset, 0)
    # a: decay of the memory since the block's start
    read_decay = tl.exp(
        tl.where(log_alpha_reset_sum == 0.0, log_alpha_coarse_sum + log_alpha_fine_sum, float("-inf"))
    )
    tl.store(gate_read_decay_pointer + slot * ROWS + row, read_decay, mask=row < ROWS)
    decay = tl.exp(
        tl.where(
            (row[:, None] >= row[None, :]) & (log_alpha_reset_sum[:, None] == log_alpha_reset_sum[None, :]),
            log_alpha_coarse_sum[:, None]
            - log_alpha_coarse_sum[None, :]
            + (log_alpha_fine_sum[:, None] - log_alpha_fine_sum[None, :]),
            float("-inf"),
        )
    )
    lr = tl.load(lr_block + row * lr_row, mask=live, other=0.0).to(tl.float32)
    live_2 = live.to(tl.float32)
    # P: source weights by read
    weights = decay * lr[None, :] * live_2[None, :]
    tl.store(
        gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        weights,
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
    )
    # a_C: decay of the memory over the block
    kept = tl.exp(
        tl.where(
            tl.sum(log_alpha_reset, 0) == 0.0,
            tl.sum(log_alpha_coarse, 0) + tl.sum(log_alpha_fine, 0),
            float("-inf"),
        )
    )
    tl.store(gate_kept_pointer + slot, kept)
    until_end = tl.exp(
        tl.where(
            tl.sum(log_alpha_reset, 0) == log_alpha_reset_sum,
            tl.sum(log_alpha_coarse, 0)
            - log_alpha_coarse_sum
            + (tl.sum(log_alpha_fine, 0) - log_alpha_fine_sum),
            float("-inf"),
        )
    )
    # p_C: last row of P
    last_weights = until_end * lr * live_2
    tl.store(gate_last_weights_pointer + slot * ROWS + row, last_weights, mask=row < ROWS)


@triton.jit(do_not_specialize=["tokens", "blocks"])
def inverse(
    gate_weights_pointer,
    inverse_0_blocks_pointer,
    k_pointer,
    length_pointer,
    p_pointer,
    position_pointer,
    k_head,
    k_row,
    p_head,
    p_row,
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
    """How the errors of one block's rows follow from what its start predicts."""
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
    p_block = p_pointer + (batch * tokens + start) * p_row + head * p_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    # P: source weights by read
    weights = tl.load(
        gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    p = tl.load(
        p_block + row[:, None] * p_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # Q X^T
    scores = tl.dot(p.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
    # (Q X^T) * P
    attention = tl.where(row[:, None] - row[None, :] >= 1, weights * scores, 0.0)
    # (I + A)^-1
    inverse = tl.trans(unit_inverse(attention))
    tl.store(
        inverse_0_blocks_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        inverse,
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def state(
    errors_blocks_pointer,
    gate_kept_pointer,
    gate_last_weights_pointer,
    gate_read_decay_pointer,
    inverse_0_blocks_pointer,
    k_pointer,
    length_pointer,
    memory_blocks_pointer,
    memory_final_pointer,
    memory_pointer,
    p_pointer,
    position_pointer,
    v_pointer,
    k_head,
    k_row,
    p_head,
    p_row,
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
        p_block = p_pointer + (batch * tokens + start) * p_row + head * p_head
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        if SAVE:
            tl.store(
                memory_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
                memory,
                mask=is_feature[:, None] & is_value[None, :],
            )
        # a_C: decay of the memory over the block
        kept = tl.load(gate_kept_pointer + slot)
        # M at the end
        memory_next = kept * memory
        # a: decay of the memory since the block's start
        read_decay = tl.load(gate_read_decay_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
        p = tl.load(
            p_block + row[:, None] * p_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        product = tl.dot(p.to(DOT), memory.to(DOT), input_precision=PRECISION)
        # what the block's start predicts for each key
        predictions_given = read_decay[:, None] * product
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
            # p_C: last row of P
            last_weights = tl.load(
                gate_last_weights_pointer + slot * ROWS + source,
                mask=source < ROWS,
                other=0.0,
            )
            k = tl.load(
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
                tl.trans((-(last_weights[:, None] * k)).to(ROW_DOT)),
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
    errors_blocks_pointer,
    gate_read_decay_pointer,
    gate_weights_pointer,
    k_pointer,
    length_pointer,
    memory_blocks_pointer,
    position_pointer,
    q_pointer,
    y_pointer,
    k_head,
    k_row,
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
    # a: decay of the memory since the block's start
    read_decay = tl.load(gate_read_decay_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
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
    product = tl.dot(q.to(DOT), memory.to(DOT), input_precision=PRECISION)
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # Q X^T
    scores = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
    # P: source weights by read
    weights = tl.load(
        gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    # (Q X^T) * P
    attention = scores * weights
    # E = (I + A)^-1 R
    errors = tl.load(
        errors_blocks_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    product_2 = tl.dot(attention.to(ROW_DOT), errors.to(ROW_DOT), input_precision=ROW_PRECISION)
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = read_decay[:, None] * product - product_2
    y_block = y_pointer + (batch * tokens + start) * y_row + head * y_head
    tl.store(y_block + row[:, None] * y_row + value[None, :], reads, mask=live[:, None] & is_value[None, :])


@triton.jit(do_not_specialize=["tokens", "blocks"])
def errors(
    errors_blocks_pointer,
    gate_read_decay_pointer,
    inverse_0_blocks_pointer,
    length_pointer,
    memory_blocks_pointer,
    p_pointer,
    position_pointer,
    v_pointer,
    p_head,
    p_row,
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
    p_block = p_pointer + (batch * tokens + start) * p_row + head * p_head
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    # (I + A)^-1
    inverse = tl.load(
        inverse_0_blocks_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    # a: decay of the memory since the block's start
    read_decay = tl.load(gate_read_decay_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    p = tl.load(
        p_block + row[:, None] * p_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    memory = tl.load(
        memory_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
        mask=is_feature[:, None] & is_value[None, :],
        other=0.0,
    )
    product = tl.dot(p.to(DOT), memory.to(DOT), input_precision=PRECISION)
    # what the block's start predicts for each key
    predictions_given = read_decay[:, None] * product
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
    d_y_pointer,
    gate_weights_pointer,
    given_0_blocks_pointer,
    k_pointer,
    length_pointer,
    position_pointer,
    q_pointer,
    d_y_head,
    d_y_row,
    k_head,
    k_row,
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
    DOT: tl.constexpr,
    K: tl.constexpr,
    PRECISION: tl.constexpr,
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
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # Q X^T
    scores = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
    # P: source weights by read
    weights = tl.load(
        gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    # (Q X^T) * P
    attention = scores * weights
    product = tl.dot(tl.trans(attention.to(ROW_DOT)), d_reads.to(ROW_DOT), input_precision=ROW_PRECISION)
    tl.store(
        given_0_blocks_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        product,
        mask=(row < ROWS)[:, None] & is_value[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def state_gradient(
    d_memory_final_pointer,
    d_memory_next_blocks_pointer,
    d_memory_pointer,
    d_residual_blocks_pointer,
    d_y_pointer,
    gate_kept_pointer,
    gate_last_weights_pointer,
    gate_read_decay_pointer,
    given_0_blocks_pointer,
    inverse_0_blocks_pointer,
    k_pointer,
    length_pointer,
    p_pointer,
    position_pointer,
    q_pointer,
    d_y_head,
    d_y_row,
    k_head,
    k_row,
    p_head,
    p_row,
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
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        p_block = p_pointer + (batch * tokens + start) * p_row + head * p_head
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
            # p_C: last row of P
            last_weights = tl.load(
                gate_last_weights_pointer + slot * ROWS + source,
                mask=source < ROWS,
                other=0.0,
            )
            k = tl.load(
                k_block + source[:, None] * k_row + feature[None, :],
                mask=is_source[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            product = tl.dot(
                (last_weights[:, None] * k).to(DOT),
                d_memory_next.to(DOT),
                input_precision=PRECISION,
            )
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
        kept = tl.load(gate_kept_pointer + slot)
        # a: decay of the memory since the block's start
        read_decay = tl.load(gate_read_decay_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
        p = tl.load(
            p_block + row[:, None] * p_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        product_2 = tl.dot(
            tl.trans(p.to(ROW_DOT)),
            (d_residual * read_decay[:, None]).to(ROW_DOT),
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
            tl.trans(q.to(ROW_DOT)),
            (d_reads * read_decay[:, None]).to(ROW_DOT),
            input_precision=ROW_PRECISION,
        )
        d_memory_next = d_memory_next * kept + product_2 + product_3
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
    gate_read_decay_pointer,
    length_pointer,
    memory_blocks_pointer,
    position_pointer,
    sum_0_blocks_pointer,
    sum_4_blocks_pointer,
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
    """Sums over V of one block that several gradients need: sum_0_blocks, sum_4_blocks."""
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
    # a: decay of the memory since the block's start
    read_decay = tl.load(gate_read_decay_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    for value_start in range(0, V, BLOCK_V):
        value = value_start + tl.arange(0, BLOCK_V)
        is_value = value < V
        d_reads = tl.load(
            d_y_block + row[:, None] * d_y_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        memory = tl.load(
            memory_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
            mask=is_feature[:, None] & is_value[None, :],
            other=0.0,
        )
        product += tl.dot(
            (d_reads * read_decay[:, None]).to(DOT),
            tl.trans(memory.to(DOT)),
            input_precision=PRECISION,
        )
        d_residual = tl.load(
            d_residual_blocks_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
            mask=(row < ROWS)[:, None] & is_value[None, :],
            other=0.0,
        )
        product_2 += tl.dot(
            (d_residual * read_decay[:, None]).to(ROW_DOT),
            tl.trans(memory.to(ROW_DOT)),
            input_precision=ROW_PRECISION,
        )
    tl.store(
        sum_0_blocks_pointer + slot * (ROWS * K) + row[:, None] * K + feature[None, :],
        product,
        mask=(row < ROWS)[:, None] & is_feature[None, :],
    )
    tl.store(
        sum_4_blocks_pointer + slot * (ROWS * K) + row[:, None] * K + feature[None, :],
        product_2,
        mask=(row < ROWS)[:, None] & is_feature[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def value_sums_rows(
    d_residual_blocks_pointer,
    d_y_pointer,
    errors_blocks_pointer,
    length_pointer,
    position_pointer,
    sum_1_blocks_pointer,
    sum_2_blocks_pointer,
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
    """Sums over V of one block that several gradients need: sum_1_blocks, sum_2_blocks."""
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
        d_reads = tl.load(
            d_y_block + row[:, None] * d_y_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        # E = (I + A)^-1 R
        errors = tl.load(
            errors_blocks_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
            mask=(row < ROWS)[:, None] & is_value[None, :],
            other=0.0,
        )
        product += tl.dot(d_reads.to(ROW_DOT), tl.trans(errors.to(ROW_DOT)), input_precision=ROW_PRECISION)
        d_residual = tl.load(
            d_residual_blocks_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
            mask=(row < ROWS)[:, None] & is_value[None, :],
            other=0.0,
        )
        product_2 += tl.dot(
            d_residual.to(ROW_DOT),
            tl.trans(errors.to(ROW_DOT)),
            input_precision=ROW_PRECISION,
        )
    tl.store(
        sum_1_blocks_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        product,
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
    )
    tl.store(
        sum_2_blocks_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        product_2,
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def value_sums_d_memory_next(
    d_memory_next_blocks_pointer,
    errors_blocks_pointer,
    length_pointer,
    position_pointer,
    sum_3_blocks_pointer,
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
    """Sums over V of one block that several gradients need: sum_3_blocks."""
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
        sum_3_blocks_pointer + slot * (ROWS * K) + row[:, None] * K + feature[None, :],
        product,
        mask=(row < ROWS)[:, None] & is_feature[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def value_sums_memory_of_rows(
    d_residual_blocks_pointer,
    d_y_pointer,
    length_pointer,
    memory_blocks_pointer,
    p_pointer,
    position_pointer,
    q_pointer,
    sum_5_blocks_pointer,
    sum_6_blocks_pointer,
    d_y_head,
    d_y_row,
    p_head,
    p_row,
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
    DOT: tl.constexpr,
    K: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    V: tl.constexpr,
):
    """Sums over V of one block that several gradients need: sum_5_blocks, sum_6_blocks."""
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
    p_block = p_pointer + (batch * tokens + start) * p_row + head * p_head
    d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    total = tl.zeros([BLOCK_ROWS], dtype=tl.float32)
    total_2 = tl.zeros([BLOCK_ROWS], dtype=tl.float32)
    p = tl.load(
        p_block + row[:, None] * p_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    q = tl.load(
        q_block + row[:, None] * q_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
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
        product = tl.dot(p.to(DOT), memory.to(DOT), input_precision=PRECISION)
        total += tl.sum(d_residual * product, 1)
        d_reads = tl.load(
            d_y_block + row[:, None] * d_y_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        product_2 = tl.dot(q.to(DOT), memory.to(DOT), input_precision=PRECISION)
        total_2 += tl.sum(d_reads * product_2, 1)
    tl.store(sum_5_blocks_pointer + slot * ROWS + row, total, mask=row < ROWS)
    tl.store(sum_6_blocks_pointer + slot * ROWS + row, total_2, mask=row < ROWS)


@triton.jit(do_not_specialize=["tokens", "blocks"])
def value_sums_carried_of_rows(
    d_gate_kept_pointer,
    d_memory_next_blocks_pointer,
    length_pointer,
    memory_blocks_pointer,
    position_pointer,
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
    """Sums over V of one block that several gradients need: d_gate_kept."""
    program = tl.program_id(0)
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
    feature = tl.arange(0, BLOCK_K)
    is_feature = feature < K
    slot = memory_index * blocks + block
    d_kept = 0.0
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
        d_kept += tl.sum(tl.sum(d_memory_next * memory, 0), 0)
    tl.store(d_gate_kept_pointer + slot, d_kept)


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
    d_q_pointer,
    gate_weights_pointer,
    k_pointer,
    length_pointer,
    position_pointer,
    sum_0_blocks_pointer,
    sum_1_blocks_pointer,
    d_q_head,
    d_q_row,
    k_head,
    k_row,
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
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    sum_1 = tl.load(
        sum_1_blocks_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    # P: source weights by read
    weights = tl.load(
        gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    for feature_start in range(0, K, BLOCK_K):
        feature = feature_start + tl.arange(0, BLOCK_K)
        is_feature = feature < K
        sum_0 = tl.load(
            sum_0_blocks_pointer + slot * (ROWS * K) + row[:, None] * K + feature[None, :],
            mask=(row < ROWS)[:, None] & is_feature[None, :],
            other=0.0,
        )
        k = tl.load(
            k_block + row[:, None] * k_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        product = tl.dot((sum_1 * weights).to(ROW_DOT), k.to(ROW_DOT), input_precision=ROW_PRECISION)
        d_q_block = d_q_pointer + (batch * tokens + start) * d_q_row + head * d_q_head
        tl.store(
            d_q_block + row[:, None] * d_q_row + feature[None, :],
            sum_0 - product,
            mask=live[:, None] & is_feature[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_k(
    d_k_pointer,
    d_p_pointer,
    gate_last_weights_pointer,
    gate_weights_pointer,
    k_pointer,
    length_pointer,
    p_pointer,
    position_pointer,
    q_pointer,
    sum_1_blocks_pointer,
    sum_2_blocks_pointer,
    sum_3_blocks_pointer,
    sum_4_blocks_pointer,
    d_k_head,
    d_k_row,
    d_p_head,
    d_p_row,
    k_head,
    k_row,
    p_head,
    p_row,
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
    """Gradients of one block: d_k, d_p."""
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
    p_block = p_pointer + (batch * tokens + start) * p_row + head * p_head
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    sum_2 = tl.load(
        sum_2_blocks_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    # P: source weights by read
    weights = tl.load(
        gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    d_scores = tl.where(row[:, None] - row[None, :] >= 1, -(sum_2 * weights), 0.0)
    # p_C: last row of P
    last_weights = tl.load(gate_last_weights_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    sum_1 = tl.load(
        sum_1_blocks_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    for feature_start in range(0, K, BLOCK_K):
        feature = feature_start + tl.arange(0, BLOCK_K)
        is_feature = feature < K
        p = tl.load(
            p_block + row[:, None] * p_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        product = tl.dot(tl.trans(d_scores.to(ROW_DOT)), p.to(ROW_DOT), input_precision=ROW_PRECISION)
        sum_3 = tl.load(
            sum_3_blocks_pointer + slot * (ROWS * K) + row[:, None] * K + feature[None, :],
            mask=(row < ROWS)[:, None] & is_feature[None, :],
            other=0.0,
        )
        q = tl.load(
            q_block + row[:, None] * q_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        product_2 = tl.dot(
            tl.trans((sum_1 * weights).to(ROW_DOT)),
            q.to(ROW_DOT),
            input_precision=ROW_PRECISION,
        )
        d_k_block = d_k_pointer + (batch * tokens + start) * d_k_row + head * d_k_head
        tl.store(
            d_k_block + row[:, None] * d_k_row + feature[None, :],
            product - sum_3 * last_weights[:, None] - product_2,
            mask=live[:, None] & is_feature[None, :],
        )
        sum_4 = tl.load(
            sum_4_blocks_pointer + slot * (ROWS * K) + row[:, None] * K + feature[None, :],
            mask=(row < ROWS)[:, None] & is_feature[None, :],
            other=0.0,
        )
        k = tl.load(
            k_block + row[:, None] * k_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        product_3 = tl.dot(d_scores.to(ROW_DOT), k.to(ROW_DOT), input_precision=ROW_PRECISION)
        d_p_block = d_p_pointer + (batch * tokens + start) * d_p_row + head * d_p_head
        tl.store(
            d_p_block + row[:, None] * d_p_row + feature[None, :],
            sum_4 + product_3,
            mask=live[:, None] & is_feature[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_weights(
    d_gate_last_weights_pointer,
    d_gate_weights_pointer,
    k_pointer,
    length_pointer,
    p_pointer,
    position_pointer,
    q_pointer,
    sum_1_blocks_pointer,
    sum_2_blocks_pointer,
    sum_3_blocks_pointer,
    k_head,
    k_row,
    p_head,
    p_row,
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
    """Gradients of one block: d_gate_weights, d_gate_last_weights."""
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
    p_block = p_pointer + (batch * tokens + start) * p_row + head * p_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    # Q X^T
    scores = tl.zeros([BLOCK_ROWS, BLOCK_ROWS], dtype=tl.float32)
    # Q X^T
    scores_2 = tl.zeros([BLOCK_ROWS, BLOCK_ROWS], dtype=tl.float32)
    d_last_weights = tl.zeros([BLOCK_ROWS], dtype=tl.float32)
    for feature_start in range(0, K, BLOCK_K):
        feature = feature_start + tl.arange(0, BLOCK_K)
        is_feature = feature < K
        p = tl.load(
            p_block + row[:, None] * p_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        k = tl.load(
            k_block + row[:, None] * k_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        scores += tl.dot(p.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
        q = tl.load(
            q_block + row[:, None] * q_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        scores_2 += tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
        sum_3 = tl.load(
            sum_3_blocks_pointer + slot * (ROWS * K) + row[:, None] * K + feature[None, :],
            mask=(row < ROWS)[:, None] & is_feature[None, :],
            other=0.0,
        )
        d_last_weights += tl.sum(-(sum_3 * k), 1)
    sum_2 = tl.load(
        sum_2_blocks_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    banded = tl.where(row[:, None] - row[None, :] >= 1, -(sum_2 * scores), 0.0)
    sum_1 = tl.load(
        sum_1_blocks_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    d_weights = banded - sum_1 * scores_2
    tl.store(
        d_gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        d_weights,
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
    )
    tl.store(d_gate_last_weights_pointer + slot * ROWS + row, d_last_weights, mask=row < ROWS)


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_carried(
    d_gate_read_decay_pointer,
    length_pointer,
    position_pointer,
    sum_5_blocks_pointer,
    sum_6_blocks_pointer,
    tokens,
    heads,
    blocks,
    HAS_LENGTH: tl.constexpr,
    RESUME: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Gradients of one block: d_gate_read_decay."""
    program = tl.program_id(0)
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
    row = tl.arange(0, BLOCK_ROWS)
    slot = memory_index * blocks + block
    sum_5 = tl.load(sum_5_blocks_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    sum_6 = tl.load(sum_6_blocks_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    d_read_decay = sum_5 + sum_6
    tl.store(d_gate_read_decay_pointer + slot * ROWS + row, d_read_decay, mask=row < ROWS)


@triton.jit(do_not_specialize=["tokens", "blocks"])
def gates_gradient(
    d_gate_kept_pointer,
    d_gate_last_weights_pointer,
    d_gate_read_decay_pointer,
    d_gate_weights_pointer,
    d_log_alpha_pointer,
    d_lr_pointer,
    gate_kept_pointer,
    gate_read_decay_pointer,
    length_pointer,
    log_alpha_pointer,
    lr_pointer,
    position_pointer,
    d_log_alpha_head,
    d_log_alpha_row,
    d_lr_head,
    d_lr_row,
    log_alpha_head,
    log_alpha_row,
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
    """Gradients of one block's gates, from those of decays and weights: d_log_alpha, d_lr."""
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
    log_alpha_block = log_alpha_pointer + (batch * tokens + start) * log_alpha_row + head * log_alpha_head
    d_read_decay = tl.load(d_gate_read_decay_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    # a: decay of the memory since the block's start
    read_decay = tl.load(gate_read_decay_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    d_last_weights = tl.load(d_gate_last_weights_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    live_2 = live.to(tl.float32)
    value_2 = d_last_weights * live_2
    lr = tl.load(lr_block + row * lr_row, mask=live, other=0.0).to(tl.float32)
    log_alpha = tl.load(log_alpha_block + row * log_alpha_row, mask=live, other=0.0).to(tl.float32)
    log_alpha_coarse, log_alpha_fine, log_alpha_reset = split_log(log_alpha)
    log_alpha_coarse_sum = tl.cumsum(log_alpha_coarse, 0)
    log_alpha_fine_sum = tl.cumsum(log_alpha_fine, 0)
    log_alpha_reset_sum = tl.cumsum(log_alpha_reset, 0)
    until_end = tl.exp(
        tl.where(
            tl.sum(log_alpha_reset, 0) == log_alpha_reset_sum,
            tl.sum(log_alpha_coarse, 0)
            - log_alpha_coarse_sum
            + (tl.sum(log_alpha_fine, 0) - log_alpha_fine_sum),
            float("-inf"),
        )
    )
    running = tl.sum(tl.where(row[:, None] > row[None, :], (value_2 * lr * until_end)[None, :], 0.0), 1)
    d_weights = tl.load(
        d_gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    value_3 = d_weights * live_2[None, :]
    decay = tl.exp(
        tl.where(
            (row[:, None] >= row[None, :]) & (log_alpha_reset_sum[:, None] == log_alpha_reset_sum[None, :]),
            log_alpha_coarse_sum[:, None]
            - log_alpha_coarse_sum[None, :]
            + (log_alpha_fine_sum[:, None] - log_alpha_fine_sum[None, :]),
            float("-inf"),
        )
    )
    banded = tl.where(row[:, None] - row[None, :] >= 1, value_3 * lr[None, :] * decay, 0.0)
    banded_2 = tl.where(row[:, None] >= row[None, :], tl.cumsum(banded, 1) - banded, 0.0)
    combined = tl.cumsum(d_read_decay * read_decay, 0, reverse=True) + (running + tl.sum(banded_2, 0))
    d_kept = tl.load(d_gate_kept_pointer + slot)
    # a_C: decay of the memory over the block
    kept = tl.load(gate_kept_pointer + slot)
    d_log_alpha_block = (
        d_log_alpha_pointer + (batch * tokens + start) * d_log_alpha_row + head * d_log_alpha_head
    )
    tl.store(d_log_alpha_block + row * d_log_alpha_row, combined + d_kept * kept, mask=live)
    d_lr_block = d_lr_pointer + (batch * tokens + start) * d_lr_row + head * d_lr_head
    tl.store(d_lr_block + row * d_lr_row, value_2 * until_end + tl.sum(value_3 * decay, 0), mask=live)

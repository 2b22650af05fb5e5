"""Kernels of the memory rule longhorn (split_all_rows_4).

Rule 737cfd27d109, schedule wy, generator 1. Written by `atlasgen build`; edit the spec, not this file.
"""

import triton
import triton.language as tl


@triton.jit
def diagonal_blocks(matrix, size: tl.constexpr):
    """[count, size, size]: the square blocks along the diagonal."""
    count: tl.constexpr = matrix.shape[0] // size
    tiles = tl.reshape(matrix, [count, size, count, size])
    block = tl.arange(0, count)
    own = block[:, None, None, None] == block[None, None, :, None]
    return tl.sum(tl.where(own, tiles, 0.0), 2)


@triton.jit
def rows_of_block(matrix, block):
    """[16, columns]: a block of 16 rows."""
    count: tl.constexpr = matrix.shape[0] // 16
    tiles = tl.reshape(matrix, [count, 16, matrix.shape[1]])
    return tl.sum(tl.where(tl.arange(0, count)[:, None, None] == block, tiles, 0.0), 0)


@triton.jit
def with_block(matrix, rows, block):
    """The matrix with a block of 16 rows in the place of its own."""
    count: tl.constexpr = matrix.shape[0] // 16
    tiles = tl.reshape(matrix, [count, 16, matrix.shape[1]])
    own = tl.arange(0, count)[:, None, None] == block
    return tl.reshape(tl.where(own, tl.expand_dims(rows, 0), tiles), matrix.shape)


@triton.jit
def substituted(square, factor, given, adjoint: tl.constexpr):
    """The rows of one block, one by one; factor, given: [columns, 16], so that sums stay in a warp."""
    row = tl.arange(0, 16)
    found = given
    for turn in range(1, 16):
        step = 15 - turn if adjoint else turn
        weights = tl.sum(tl.where(row[:, None] == step, square, 0.0), 0)
        if adjoint:
            before = tl.expand_dims(tl.sum(factor * found * weights[None, :], 1), 1)
        else:
            before = factor * tl.expand_dims(tl.sum(found * weights[None, :], 1), 1)
        found = tl.where(row[None, :] == step, found - before, found)
    return found


@triton.jit
def unit_solve(lower, factor, given, adjoint: tl.constexpr, wide: tl.constexpr, precision: tl.constexpr):
    """E of E + g (A E) = R, or, adjoint, of E + A^T (g E) = R, for a strictly lower A and g by column.

    By substitution: in blocks of 16 rows one by one, between blocks as products.
    """
    count: tl.constexpr = lower.shape[0] // 16
    system = tl.trans(lower) if adjoint else lower
    squares = diagonal_blocks(system, 16)
    found = tl.zeros_like(given)
    for turn in range(0, count):
        block = count - 1 - turn if adjoint else turn
        if adjoint:
            before = tl.dot(system.to(wide), (factor * found).to(wide), input_precision=precision)
        else:
            before = factor * tl.dot(system.to(wide), found.to(wide), input_precision=precision)
        square = tl.sum(tl.where(tl.arange(0, count)[:, None, None] == block, squares, 0.0), 0)
        right = tl.trans(rows_of_block(given - before, block))
        solved = substituted(square, tl.trans(rows_of_block(factor, block)), right, adjoint)
        found = with_block(found, tl.trans(solved), block)
    return found


@triton.jit(do_not_specialize=["tokens", "blocks"])
def coupling(
    coupling_0_blocks_pointer,
    k_pointer,
    length_pointer,
    position_pointer,
    row_sums_0_blocks_pointer,
    k_head,
    k_row,
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
    """How the errors of one block's rows enter the predictions of later ones."""
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
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    live_2 = live.to(tl.float32)
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # Q X^T
    scores = tl.dot(k.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
    # (Q X^T) * P
    attention = tl.where(row[:, None] - row[None, :] >= 1, live_2[None, :] * scores, 0.0)
    tl.store(
        coupling_0_blocks_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        attention,
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
    )
    product = tl.sum(k * k, 1)
    tl.store(row_sums_0_blocks_pointer + slot * ROWS + row, product, mask=row < ROWS)


@triton.jit(do_not_specialize=["tokens", "blocks"])
def state(
    coupling_0_blocks_pointer,
    errors_blocks_pointer,
    k_pointer,
    length_pointer,
    lr_pointer,
    memory_blocks_pointer,
    memory_final_pointer,
    memory_pointer,
    position_pointer,
    row_sums_0_blocks_pointer,
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
        lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
        if SAVE:
            tl.store(
                memory_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
                memory,
                mask=is_feature[:, None] & is_value[None, :],
            )
        # (Q X^T) * P
        attention = tl.load(
            coupling_0_blocks_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
            mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
            other=0.0,
        )
        lr = tl.load(
            lr_block + row[:, None] * lr_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        row_sums_0 = tl.load(row_sums_0_blocks_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
        # g: the slope of an error, by value channel
        slope = lr * (1.0 / (lr * row_sums_0[:, None] + 1.0))
        k = tl.load(
            k_block + row[:, None] * k_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        # what the block's start predicts for each key
        predictions_given = tl.dot(k.to(DOT), memory.to(DOT), input_precision=PRECISION)
        v = tl.load(
            v_block + row[:, None] * v_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        # R: the error at what the block's start gives
        residual = predictions_given - v
        # E = R - g (A E)
        errors = unit_solve(attention, slope, slope * residual, False, ROW_DOT, ROW_PRECISION)
        tl.store(
            errors_blocks_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
            errors,
            mask=(row < ROWS)[:, None] & is_value[None, :],
        )
        live_2 = live.to(tl.float32)
        product = tl.dot(
            tl.trans((live_2[:, None] * k).to(ROW_DOT)),
            errors.to(ROW_DOT),
            input_precision=ROW_PRECISION,
        )
        # M at the end
        memory_next = memory - product
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
    live_2 = live.to(tl.float32)
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # Q X^T
    scores = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
    # (Q X^T) * P
    attention = tl.where(row[:, None] >= row[None, :], live_2[None, :] * scores, 0.0)
    # E = R - g (A E)
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
    coupling_0_blocks_pointer,
    errors_blocks_pointer,
    k_pointer,
    length_pointer,
    lr_pointer,
    memory_blocks_pointer,
    position_pointer,
    row_sums_0_blocks_pointer,
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
    lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    # (Q X^T) * P
    attention = tl.load(
        coupling_0_blocks_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    lr = tl.load(
        lr_block + row[:, None] * lr_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    row_sums_0 = tl.load(row_sums_0_blocks_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    # g: the slope of an error, by value channel
    slope = lr * (1.0 / (lr * row_sums_0[:, None] + 1.0))
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
    predictions_given = tl.dot(k.to(DOT), memory.to(DOT), input_precision=PRECISION)
    v = tl.load(
        v_block + row[:, None] * v_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    # R: the error at what the block's start gives
    residual = predictions_given - v
    # E = R - g (A E)
    errors = unit_solve(attention, slope, slope * residual, False, ROW_DOT, ROW_PRECISION)
    tl.store(
        errors_blocks_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        errors,
        mask=(row < ROWS)[:, None] & is_value[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def read_gradients(
    d_y_pointer,
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
    live_2 = live.to(tl.float32)
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
    # (Q X^T) * P
    attention = tl.where(row[:, None] >= row[None, :], live_2[None, :] * scores, 0.0)
    product = tl.dot(tl.trans(attention.to(ROW_DOT)), d_reads.to(ROW_DOT), input_precision=ROW_PRECISION)
    tl.store(
        given_0_blocks_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        product,
        mask=(row < ROWS)[:, None] & is_value[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def state_gradient(
    coupling_0_blocks_pointer,
    d_memory_final_pointer,
    d_memory_next_blocks_pointer,
    d_memory_pointer,
    d_y_pointer,
    given_0_blocks_pointer,
    k_pointer,
    length_pointer,
    lr_pointer,
    position_pointer,
    q_pointer,
    row_sums_0_blocks_pointer,
    solution_blocks_pointer,
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
        # (Q X^T) * P
        attention = tl.load(
            coupling_0_blocks_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
            mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
            other=0.0,
        )
        lr = tl.load(
            lr_block + row[:, None] * lr_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        row_sums_0 = tl.load(row_sums_0_blocks_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
        # g: the slope of an error, by value channel
        slope = lr * (1.0 / (lr * row_sums_0[:, None] + 1.0))
        live_2 = live.to(tl.float32)
        k = tl.load(
            k_block + row[:, None] * k_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        product = tl.dot((live_2[:, None] * k).to(DOT), d_memory_next.to(DOT), input_precision=PRECISION)
        given_0 = tl.load(
            given_0_blocks_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
            mask=(row < ROWS)[:, None] & is_value[None, :],
            other=0.0,
        )
        d_errors = -product - given_0
        solution = unit_solve(attention, slope, d_errors, True, ROW_DOT, ROW_PRECISION)
        tl.store(
            solution_blocks_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
            solution,
            mask=(row < ROWS)[:, None] & is_value[None, :],
        )
        d_residual = solution * slope
        product_2 = tl.dot(tl.trans(k.to(ROW_DOT)), d_residual.to(ROW_DOT), input_precision=ROW_PRECISION)
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
        product_3 = tl.dot(tl.trans(q.to(ROW_DOT)), d_reads.to(ROW_DOT), input_precision=ROW_PRECISION)
        d_memory_next = d_memory_next + product_2 + product_3
    if GRAD_INITIAL:
        tl.store(
            d_memory_pointer + memory_index * (K * V) + feature[:, None] * V + value[None, :],
            d_memory_next,
            mask=is_feature[:, None] & is_value[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def value_sums_rows(
    d_y_pointer,
    errors_blocks_pointer,
    length_pointer,
    lr_pointer,
    position_pointer,
    row_sums_0_blocks_pointer,
    solution_blocks_pointer,
    sum_0_blocks_pointer,
    sum_2_blocks_pointer,
    d_y_head,
    d_y_row,
    lr_head,
    lr_row,
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
    """Sums over V of one block that several gradients need: sum_0_blocks, sum_2_blocks."""
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
    lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
    product = tl.zeros([BLOCK_ROWS, BLOCK_ROWS], dtype=tl.float32)
    product_2 = tl.zeros([BLOCK_ROWS, BLOCK_ROWS], dtype=tl.float32)
    row_sums_0 = tl.load(row_sums_0_blocks_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    for value_start in range(0, V, BLOCK_V):
        value = value_start + tl.arange(0, BLOCK_V)
        is_value = value < V
        d_reads = tl.load(
            d_y_block + row[:, None] * d_y_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        # E = R - g (A E)
        errors = tl.load(
            errors_blocks_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
            mask=(row < ROWS)[:, None] & is_value[None, :],
            other=0.0,
        )
        product += tl.dot(d_reads.to(ROW_DOT), tl.trans(errors.to(ROW_DOT)), input_precision=ROW_PRECISION)
        lr = tl.load(
            lr_block + row[:, None] * lr_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        # g: the slope of an error, by value channel
        slope = lr * (1.0 / (lr * row_sums_0[:, None] + 1.0))
        solution = tl.load(
            solution_blocks_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
            mask=(row < ROWS)[:, None] & is_value[None, :],
            other=0.0,
        )
        product_2 += tl.dot(
            (slope * solution).to(ROW_DOT),
            tl.trans(errors.to(ROW_DOT)),
            input_precision=ROW_PRECISION,
        )
    tl.store(
        sum_0_blocks_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        product,
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
    )
    tl.store(
        sum_2_blocks_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        product_2,
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def value_sums_memory(
    d_y_pointer,
    length_pointer,
    lr_pointer,
    memory_blocks_pointer,
    position_pointer,
    row_sums_0_blocks_pointer,
    solution_blocks_pointer,
    sum_1_blocks_pointer,
    sum_4_blocks_pointer,
    d_y_head,
    d_y_row,
    lr_head,
    lr_row,
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
    """Sums over V of one block that several gradients need: sum_1_blocks, sum_4_blocks."""
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
    lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
    product = tl.zeros([BLOCK_ROWS, BLOCK_K], dtype=tl.float32)
    product_2 = tl.zeros([BLOCK_ROWS, BLOCK_K], dtype=tl.float32)
    row_sums_0 = tl.load(row_sums_0_blocks_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
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
        product += tl.dot(d_reads.to(DOT), tl.trans(memory.to(DOT)), input_precision=PRECISION)
        solution = tl.load(
            solution_blocks_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
            mask=(row < ROWS)[:, None] & is_value[None, :],
            other=0.0,
        )
        lr = tl.load(
            lr_block + row[:, None] * lr_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        # g: the slope of an error, by value channel
        slope = lr * (1.0 / (lr * row_sums_0[:, None] + 1.0))
        d_residual = solution * slope
        product_2 += tl.dot(
            d_residual.to(ROW_DOT),
            tl.trans(memory.to(ROW_DOT)),
            input_precision=ROW_PRECISION,
        )
    tl.store(
        sum_1_blocks_pointer + slot * (ROWS * K) + row[:, None] * K + feature[None, :],
        product,
        mask=(row < ROWS)[:, None] & is_feature[None, :],
    )
    tl.store(
        sum_4_blocks_pointer + slot * (ROWS * K) + row[:, None] * K + feature[None, :],
        product_2,
        mask=(row < ROWS)[:, None] & is_feature[None, :],
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
        # E = R - g (A E)
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
    coupling_0_blocks_pointer,
    errors_blocks_pointer,
    k_pointer,
    length_pointer,
    lr_pointer,
    memory_blocks_pointer,
    position_pointer,
    row_sums_0_blocks_pointer,
    solution_blocks_pointer,
    sum_5_blocks_pointer,
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
    """Sums over V of one block that several gradients need: sum_5_blocks."""
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
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
    total = tl.zeros([BLOCK_ROWS], dtype=tl.float32)
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # (Q X^T) * P
    attention = tl.load(
        coupling_0_blocks_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    row_sums_0 = tl.load(row_sums_0_blocks_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    for value_start in range(0, V, BLOCK_V):
        value = value_start + tl.arange(0, BLOCK_V)
        is_value = value < V
        solution = tl.load(
            solution_blocks_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
            mask=(row < ROWS)[:, None] & is_value[None, :],
            other=0.0,
        )
        memory = tl.load(
            memory_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
            mask=is_feature[:, None] & is_value[None, :],
            other=0.0,
        )
        # what the block's start predicts for each key
        predictions_given = tl.dot(k.to(DOT), memory.to(DOT), input_precision=PRECISION)
        v = tl.load(
            v_block + row[:, None] * v_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        # R: the error at what the block's start gives
        residual = predictions_given - v
        # E = R - g (A E)
        errors = tl.load(
            errors_blocks_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
            mask=(row < ROWS)[:, None] & is_value[None, :],
            other=0.0,
        )
        product = tl.dot(attention.to(ROW_DOT), errors.to(ROW_DOT), input_precision=ROW_PRECISION)
        d_slope = solution * residual - solution * product
        lr = tl.load(
            lr_block + row[:, None] * lr_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        value_2 = -(lr * lr) * (1.0 / ((lr * row_sums_0[:, None] + 1.0) * (lr * row_sums_0[:, None] + 1.0)))
        total += tl.sum(d_slope * value_2, 1)
    tl.store(sum_5_blocks_pointer + slot * ROWS + row, total, mask=row < ROWS)


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_v(
    coupling_0_blocks_pointer,
    d_lr_pointer,
    d_v_pointer,
    errors_blocks_pointer,
    k_pointer,
    length_pointer,
    lr_pointer,
    memory_blocks_pointer,
    position_pointer,
    row_sums_0_blocks_pointer,
    solution_blocks_pointer,
    v_pointer,
    d_lr_head,
    d_lr_row,
    d_v_head,
    d_v_row,
    k_head,
    k_row,
    lr_head,
    lr_row,
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
    """Gradients of one block: d_v, d_lr."""
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
    lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    solution = tl.load(
        solution_blocks_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    lr = tl.load(
        lr_block + row[:, None] * lr_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    row_sums_0 = tl.load(row_sums_0_blocks_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    # g: the slope of an error, by value channel
    slope = lr * (1.0 / (lr * row_sums_0[:, None] + 1.0))
    d_residual = solution * slope
    d_v_block = d_v_pointer + (batch * tokens + start) * d_v_row + head * d_v_head
    tl.store(
        d_v_block + row[:, None] * d_v_row + value[None, :],
        -d_residual,
        mask=live[:, None] & is_value[None, :],
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
    predictions_given = tl.dot(k.to(DOT), memory.to(DOT), input_precision=PRECISION)
    v = tl.load(
        v_block + row[:, None] * v_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    # R: the error at what the block's start gives
    residual = predictions_given - v
    # (Q X^T) * P
    attention = tl.load(
        coupling_0_blocks_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    # E = R - g (A E)
    errors = tl.load(
        errors_blocks_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    product = tl.dot(attention.to(ROW_DOT), errors.to(ROW_DOT), input_precision=ROW_PRECISION)
    d_slope = solution * residual - solution * product
    value_2 = tl.where(
        is_value[None, :],
        -lr
        * row_sums_0[:, None]
        * (1.0 / ((lr * row_sums_0[:, None] + 1.0) * (lr * row_sums_0[:, None] + 1.0)))
        + 1.0 / (lr * row_sums_0[:, None] + 1.0),
        0.0,
    )
    d_lr_block = d_lr_pointer + (batch * tokens + start) * d_lr_row + head * d_lr_head
    tl.store(
        d_lr_block + row[:, None] * d_lr_row + value[None, :],
        d_slope * value_2,
        mask=live[:, None] & is_value[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_q(
    d_q_pointer,
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
    sum_0 = tl.load(
        sum_0_blocks_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    live_2 = live.to(tl.float32)
    d_scores = tl.where(row[:, None] >= row[None, :], -(sum_0 * live_2[None, :]), 0.0)
    for feature_start in range(0, K, BLOCK_K):
        feature = feature_start + tl.arange(0, BLOCK_K)
        is_feature = feature < K
        k = tl.load(
            k_block + row[:, None] * k_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        product = tl.dot(d_scores.to(ROW_DOT), k.to(ROW_DOT), input_precision=ROW_PRECISION)
        sum_1 = tl.load(
            sum_1_blocks_pointer + slot * (ROWS * K) + row[:, None] * K + feature[None, :],
            mask=(row < ROWS)[:, None] & is_feature[None, :],
            other=0.0,
        )
        d_q_block = d_q_pointer + (batch * tokens + start) * d_q_row + head * d_q_head
        tl.store(
            d_q_block + row[:, None] * d_q_row + feature[None, :],
            product + sum_1,
            mask=live[:, None] & is_feature[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_k(
    d_k_pointer,
    k_pointer,
    length_pointer,
    position_pointer,
    q_pointer,
    sum_0_blocks_pointer,
    sum_2_blocks_pointer,
    sum_3_blocks_pointer,
    sum_4_blocks_pointer,
    sum_5_blocks_pointer,
    d_k_head,
    d_k_row,
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
    K: tl.constexpr,
    ROWS: tl.constexpr,
    ROW_DOT: tl.constexpr,
    ROW_PRECISION: tl.constexpr,
):
    """Gradients of one block: d_k."""
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
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    live_2 = live.to(tl.float32)
    sum_2 = tl.load(
        sum_2_blocks_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    banded = tl.where(row[:, None] - row[None, :] >= 1, sum_2 * live_2[None, :], 0.0)
    d_scores = tl.where(row[:, None] - row[None, :] >= 1, -banded, 0.0)
    sum_0 = tl.load(
        sum_0_blocks_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    d_scores_2 = tl.where(row[:, None] >= row[None, :], -(sum_0 * live_2[None, :]), 0.0)
    sum_5 = tl.load(sum_5_blocks_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    for feature_start in range(0, K, BLOCK_K):
        feature = feature_start + tl.arange(0, BLOCK_K)
        is_feature = feature < K
        k = tl.load(
            k_block + row[:, None] * k_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        product = tl.dot(tl.trans(d_scores.to(ROW_DOT)), k.to(ROW_DOT), input_precision=ROW_PRECISION)
        q = tl.load(
            q_block + row[:, None] * q_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        product_2 = tl.dot(tl.trans(d_scores_2.to(ROW_DOT)), q.to(ROW_DOT), input_precision=ROW_PRECISION)
        sum_3 = tl.load(
            sum_3_blocks_pointer + slot * (ROWS * K) + row[:, None] * K + feature[None, :],
            mask=(row < ROWS)[:, None] & is_feature[None, :],
            other=0.0,
        )
        sum_4 = tl.load(
            sum_4_blocks_pointer + slot * (ROWS * K) + row[:, None] * K + feature[None, :],
            mask=(row < ROWS)[:, None] & is_feature[None, :],
            other=0.0,
        )
        product_3 = tl.dot(d_scores.to(ROW_DOT), k.to(ROW_DOT), input_precision=ROW_PRECISION)
        combined = (
            product + product_2 - sum_3 * live_2[:, None] + (sum_4 + 2.0 * (sum_5[:, None] * k) + product_3)
        )
        d_k_block = d_k_pointer + (batch * tokens + start) * d_k_row + head * d_k_head
        tl.store(
            d_k_block + row[:, None] * d_k_row + feature[None, :],
            combined,
            mask=live[:, None] & is_feature[None, :],
        )

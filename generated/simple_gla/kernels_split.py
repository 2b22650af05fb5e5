"""Kernels of the memory rule simple_gla (split_all_rows_4).

Rule 0f1642f64803, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
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


@triton.jit(do_not_specialize=["tokens", "blocks"])
def gates(
    gate_kept_pointer,
    gate_last_weights_pointer,
    gate_read_decay_pointer,
    gate_weights_pointer,
    length_pointer,
    log_alpha_pointer,
    position_pointer,
    log_alpha_head,
    log_alpha_row,
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
    live_2 = live.to(tl.float32)
    # P: source weights by read
    weights = decay * live_2[None, :]
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
    last_weights = until_end * live_2
    tl.store(gate_last_weights_pointer + slot * ROWS + row, last_weights, mask=row < ROWS)


@triton.jit(do_not_specialize=["tokens", "blocks"])
def state(
    gate_kept_pointer,
    gate_last_weights_pointer,
    k_pointer,
    length_pointer,
    memory_blocks_pointer,
    memory_final_pointer,
    memory_pointer,
    position_pointer,
    v_pointer,
    k_head,
    k_row,
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
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
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
            v = tl.load(
                v_block + source[:, None] * v_row + value[None, :],
                mask=is_source[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
            memory_next += tl.dot(
                tl.trans((last_weights[:, None] * k).to(DOT)),
                v.to(DOT),
                input_precision=PRECISION,
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
    gate_read_decay_pointer,
    gate_weights_pointer,
    k_pointer,
    length_pointer,
    memory_blocks_pointer,
    position_pointer,
    q_pointer,
    v_pointer,
    y_pointer,
    k_head,
    k_row,
    q_head,
    q_row,
    v_head,
    v_row,
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
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
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
    v = tl.load(
        v_block + row[:, None] * v_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    product_2 = tl.dot(attention.to(DOT), v.to(DOT), input_precision=PRECISION)
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = read_decay[:, None] * product + product_2
    y_block = y_pointer + (batch * tokens + start) * y_row + head * y_head
    tl.store(y_block + row[:, None] * y_row + value[None, :], reads, mask=live[:, None] & is_value[None, :])


@triton.jit(do_not_specialize=["tokens", "blocks"])
def state_gradient(
    d_memory_final_pointer,
    d_memory_next_blocks_pointer,
    d_memory_pointer,
    d_y_pointer,
    gate_kept_pointer,
    gate_read_decay_pointer,
    length_pointer,
    position_pointer,
    q_pointer,
    d_y_head,
    d_y_row,
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
        d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
        q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
        tl.store(
            d_memory_next_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
            d_memory_next,
            mask=is_feature[:, None] & is_value[None, :],
        )
        # a_C: decay of the memory over the block
        kept = tl.load(gate_kept_pointer + slot)
        d_reads = tl.load(
            d_y_block + row[:, None] * d_y_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        # a: decay of the memory since the block's start
        read_decay = tl.load(gate_read_decay_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
        q = tl.load(
            q_block + row[:, None] * q_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        product = tl.dot(
            tl.trans(q.to(DOT)),
            (d_reads * read_decay[:, None]).to(DOT),
            input_precision=PRECISION,
        )
        d_memory_next = d_memory_next * kept + product
    if GRAD_INITIAL:
        tl.store(
            d_memory_pointer + memory_index * (K * V) + feature[:, None] * V + value[None, :],
            d_memory_next,
            mask=is_feature[:, None] & is_value[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_v(
    d_memory_next_blocks_pointer,
    d_v_pointer,
    d_y_pointer,
    gate_last_weights_pointer,
    gate_weights_pointer,
    k_pointer,
    length_pointer,
    position_pointer,
    q_pointer,
    d_v_head,
    d_v_row,
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
    d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    d_memory_next = tl.load(
        d_memory_next_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
        mask=is_feature[:, None] & is_value[None, :],
        other=0.0,
    )
    product = tl.dot(k.to(DOT), d_memory_next.to(DOT), input_precision=PRECISION)
    # p_C: last row of P
    last_weights = tl.load(gate_last_weights_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
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
    # P: source weights by read
    weights = tl.load(
        gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    # (Q X^T) * P
    attention = scores * weights
    product_2 = tl.dot(tl.trans(attention.to(DOT)), d_reads.to(DOT), input_precision=PRECISION)
    d_v_block = d_v_pointer + (batch * tokens + start) * d_v_row + head * d_v_head
    tl.store(
        d_v_block + row[:, None] * d_v_row + value[None, :],
        product * last_weights[:, None] + product_2,
        mask=live[:, None] & is_value[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_q(
    d_q_pointer,
    d_y_pointer,
    gate_read_decay_pointer,
    gate_weights_pointer,
    k_pointer,
    length_pointer,
    memory_blocks_pointer,
    position_pointer,
    v_pointer,
    d_q_head,
    d_q_row,
    d_y_head,
    d_y_row,
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
    V: tl.constexpr,
):
    """Gradients of one block: d_q."""
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
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    d_attention = tl.zeros([BLOCK_ROWS, BLOCK_ROWS], dtype=tl.float32)
    product = tl.zeros([BLOCK_ROWS, BLOCK_K], dtype=tl.float32)
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
        v = tl.load(
            v_block + row[:, None] * v_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        d_attention += tl.dot(d_reads.to(DOT), tl.trans(v.to(DOT)), input_precision=PRECISION)
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
    # P: source weights by read
    weights = tl.load(
        gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    d_scores = d_attention * weights
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    product_2 = tl.dot(d_scores.to(DOT), k.to(DOT), input_precision=PRECISION)
    d_q_block = d_q_pointer + (batch * tokens + start) * d_q_row + head * d_q_head
    tl.store(
        d_q_block + row[:, None] * d_q_row + feature[None, :],
        product_2 + product,
        mask=live[:, None] & is_feature[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_k(
    d_k_pointer,
    d_memory_next_blocks_pointer,
    d_y_pointer,
    gate_last_weights_pointer,
    gate_weights_pointer,
    length_pointer,
    position_pointer,
    q_pointer,
    v_pointer,
    d_k_head,
    d_k_row,
    d_y_head,
    d_y_row,
    q_head,
    q_row,
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
    V: tl.constexpr,
):
    """Gradients of one block: d_k."""
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
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    product = tl.zeros([BLOCK_ROWS, BLOCK_K], dtype=tl.float32)
    d_attention = tl.zeros([BLOCK_ROWS, BLOCK_ROWS], dtype=tl.float32)
    # p_C: last row of P
    last_weights = tl.load(gate_last_weights_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    for value_start in range(0, V, BLOCK_V):
        value = value_start + tl.arange(0, BLOCK_V)
        is_value = value < V
        d_memory_next = tl.load(
            d_memory_next_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
            mask=is_feature[:, None] & is_value[None, :],
            other=0.0,
        )
        v = tl.load(
            v_block + row[:, None] * v_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        product += tl.dot(
            (v * last_weights[:, None]).to(DOT),
            tl.trans(d_memory_next.to(DOT)),
            input_precision=PRECISION,
        )
        d_reads = tl.load(
            d_y_block + row[:, None] * d_y_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        d_attention += tl.dot(d_reads.to(DOT), tl.trans(v.to(DOT)), input_precision=PRECISION)
    # P: source weights by read
    weights = tl.load(
        gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    d_scores = d_attention * weights
    q = tl.load(
        q_block + row[:, None] * q_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    product_2 = tl.dot(tl.trans(d_scores.to(DOT)), q.to(DOT), input_precision=PRECISION)
    d_k_block = d_k_pointer + (batch * tokens + start) * d_k_row + head * d_k_head
    tl.store(
        d_k_block + row[:, None] * d_k_row + feature[None, :],
        product + product_2,
        mask=live[:, None] & is_feature[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_weights(
    d_gate_kept_pointer,
    d_gate_last_weights_pointer,
    d_gate_read_decay_pointer,
    d_gate_weights_pointer,
    d_memory_next_blocks_pointer,
    d_y_pointer,
    k_pointer,
    length_pointer,
    memory_blocks_pointer,
    position_pointer,
    q_pointer,
    v_pointer,
    d_y_head,
    d_y_row,
    k_head,
    k_row,
    q_head,
    q_row,
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
    V: tl.constexpr,
):
    """Gradients of one block: d_gate_read_decay, d_gate_weights, d_gate_kept, d_gate_last_weights."""
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
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    d_read_decay = tl.zeros([BLOCK_ROWS], dtype=tl.float32)
    d_attention = tl.zeros([BLOCK_ROWS, BLOCK_ROWS], dtype=tl.float32)
    d_kept = 0.0
    product = tl.zeros([BLOCK_ROWS], dtype=tl.float32)
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
        product_2 = tl.dot(q.to(DOT), memory.to(DOT), input_precision=PRECISION)
        d_read_decay += tl.sum(d_reads * product_2, 1)
        v = tl.load(
            v_block + row[:, None] * v_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        d_attention += tl.dot(d_reads.to(DOT), tl.trans(v.to(DOT)), input_precision=PRECISION)
        d_memory_next = tl.load(
            d_memory_next_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
            mask=is_feature[:, None] & is_value[None, :],
            other=0.0,
        )
        d_kept += tl.sum(tl.sum(d_memory_next * memory, 0), 0)
        product_3 = tl.dot(k.to(DOT), d_memory_next.to(DOT), input_precision=PRECISION)
        product += tl.sum(v * product_3, 1)
    tl.store(d_gate_read_decay_pointer + slot * ROWS + row, d_read_decay, mask=row < ROWS)
    # Q X^T
    scores = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
    d_weights = d_attention * scores
    tl.store(
        d_gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        d_weights,
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
    )
    tl.store(d_gate_kept_pointer + slot, d_kept)
    tl.store(d_gate_last_weights_pointer + slot * ROWS + row, product, mask=row < ROWS)


@triton.jit(do_not_specialize=["tokens", "blocks"])
def gates_gradient(
    d_gate_kept_pointer,
    d_gate_last_weights_pointer,
    d_gate_read_decay_pointer,
    d_gate_weights_pointer,
    d_log_alpha_pointer,
    gate_kept_pointer,
    gate_read_decay_pointer,
    length_pointer,
    log_alpha_pointer,
    position_pointer,
    d_log_alpha_head,
    d_log_alpha_row,
    log_alpha_head,
    log_alpha_row,
    tokens,
    heads,
    blocks,
    HAS_LENGTH: tl.constexpr,
    RESUME: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Gradients of one block's gates, from those of decays and weights: d_log_alpha."""
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
    d_read_decay = tl.load(d_gate_read_decay_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    # a: decay of the memory since the block's start
    read_decay = tl.load(gate_read_decay_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    d_last_weights = tl.load(d_gate_last_weights_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    live_2 = live.to(tl.float32)
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
    running = tl.sum(
        tl.where(row[:, None] > row[None, :], (d_last_weights * live_2 * until_end)[None, :], 0.0),
        1,
    )
    d_weights = tl.load(
        d_gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    decay = tl.exp(
        tl.where(
            (row[:, None] >= row[None, :]) & (log_alpha_reset_sum[:, None] == log_alpha_reset_sum[None, :]),
            log_alpha_coarse_sum[:, None]
            - log_alpha_coarse_sum[None, :]
            + (log_alpha_fine_sum[:, None] - log_alpha_fine_sum[None, :]),
            float("-inf"),
        )
    )
    banded = tl.where(row[:, None] - row[None, :] >= 1, d_weights * live_2[None, :] * decay, 0.0)
    banded_2 = tl.where(row[:, None] >= row[None, :], tl.cumsum(banded, 1) - banded, 0.0)
    combined = tl.cumsum(d_read_decay * read_decay, 0, reverse=True) + (running + tl.sum(banded_2, 0))
    d_kept = tl.load(d_gate_kept_pointer + slot)
    # a_C: decay of the memory over the block
    kept = tl.load(gate_kept_pointer + slot)
    d_log_alpha_block = (
        d_log_alpha_pointer + (batch * tokens + start) * d_log_alpha_row + head * d_log_alpha_head
    )
    tl.store(d_log_alpha_block + row * d_log_alpha_row, combined + d_kept * kept, mask=live)

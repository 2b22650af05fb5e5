"""Kernels of the memory rule simple_gla (fused).

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
def forward(
    k_pointer,
    length_pointer,
    log_alpha_pointer,
    memory_blocks_pointer,
    memory_final_pointer,
    memory_pointer,
    position_pointer,
    q_pointer,
    v_pointer,
    y_pointer,
    k_head,
    k_row,
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
        if SAVE:
            tl.store(
                memory_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
                memory,
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
        k = tl.load(
            k_block + row[:, None] * k_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        # Q X^T
        scores = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
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
        # P: source weights by read
        weights = decay * live_2[None, :]
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
        # p_C: last row of P
        last_weights = until_end * live_2
        product_3 = tl.dot(
            tl.trans((last_weights[:, None] * k).to(DOT)),
            v.to(DOT),
            input_precision=PRECISION,
        )
        # M at the end
        memory_next = kept * memory + product_3
        memory = memory_next
    if STORE_FINAL:
        tl.store(
            memory_final_pointer + memory_index * (K * V) + feature[:, None] * V + value[None, :],
            memory,
            mask=is_feature[:, None] & is_value[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def backward(
    d_k_pointer,
    d_log_alpha_pointer,
    d_memory_final_pointer,
    d_memory_pointer,
    d_q_pointer,
    d_v_pointer,
    d_y_pointer,
    k_pointer,
    length_pointer,
    log_alpha_pointer,
    memory_blocks_pointer,
    position_pointer,
    q_pointer,
    v_pointer,
    d_k_head,
    d_k_row,
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
        d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
        q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
        log_alpha_block = log_alpha_pointer + (batch * tokens + start) * log_alpha_row + head * log_alpha_head
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
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
        memory = tl.load(
            memory_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
            mask=is_feature[:, None] & is_value[None, :],
            other=0.0,
        )
        product = tl.dot(q.to(DOT), memory.to(DOT), input_precision=PRECISION)
        d_read_decay = tl.sum(d_reads * product, 1)
        log_alpha = tl.load(log_alpha_block + row * log_alpha_row, mask=live, other=0.0).to(tl.float32)
        log_alpha_coarse, log_alpha_fine, log_alpha_reset = split_log(log_alpha)
        log_alpha_coarse_sum = tl.cumsum(log_alpha_coarse, 0)
        log_alpha_fine_sum = tl.cumsum(log_alpha_fine, 0)
        log_alpha_reset_sum = tl.cumsum(log_alpha_reset, 0)
        # a: decay of the memory since the block's start
        read_decay = tl.exp(
            tl.where(log_alpha_reset_sum == 0.0, log_alpha_coarse_sum + log_alpha_fine_sum, float("-inf"))
        )
        v = tl.load(
            v_block + row[:, None] * v_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        product_2 = tl.dot(v.to(DOT), tl.trans(d_memory_next.to(DOT)), input_precision=PRECISION)
        k = tl.load(
            k_block + row[:, None] * k_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        d_last_weights = tl.sum(product_2 * k, 1)
        live_2 = live.to(tl.float32)
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
        d_attention = tl.dot(d_reads.to(DOT), tl.trans(v.to(DOT)), input_precision=PRECISION)
        # Q X^T
        scores = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
        d_weights = d_attention * scores
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
        banded = tl.where(row[:, None] - row[None, :] >= 1, d_weights * live_2[None, :] * decay, 0.0)
        banded_2 = tl.where(row[:, None] >= row[None, :], tl.cumsum(banded, 1) - banded, 0.0)
        combined = tl.cumsum(d_read_decay * read_decay, 0, reverse=True) + (running + tl.sum(banded_2, 0))
        d_kept = tl.sum(tl.sum(d_memory_next * memory, 0), 0)
        # a_C: decay of the memory over the block
        kept = tl.exp(
            tl.where(
                tl.sum(log_alpha_reset, 0) == 0.0,
                tl.sum(log_alpha_coarse, 0) + tl.sum(log_alpha_fine, 0),
                float("-inf"),
            )
        )
        d_log_alpha_block = (
            d_log_alpha_pointer + (batch * tokens + start) * d_log_alpha_row + head * d_log_alpha_head
        )
        tl.store(d_log_alpha_block + row * d_log_alpha_row, combined + d_kept * kept, mask=live)
        # P: source weights by read
        weights = decay * live_2[None, :]
        d_scores = d_attention * weights
        product_3 = tl.dot(d_scores.to(DOT), k.to(DOT), input_precision=PRECISION)
        value_2 = d_reads * read_decay[:, None]
        product_4 = tl.dot(value_2.to(DOT), tl.trans(memory.to(DOT)), input_precision=PRECISION)
        d_q_block = d_q_pointer + (batch * tokens + start) * d_q_row + head * d_q_head
        tl.store(
            d_q_block + row[:, None] * d_q_row + feature[None, :],
            product_3 + product_4,
            mask=live[:, None] & is_feature[None, :],
        )
        # p_C: last row of P
        last_weights = until_end * live_2
        product_5 = tl.dot(tl.trans(d_scores.to(DOT)), q.to(DOT), input_precision=PRECISION)
        d_k_block = d_k_pointer + (batch * tokens + start) * d_k_row + head * d_k_head
        tl.store(
            d_k_block + row[:, None] * d_k_row + feature[None, :],
            product_2 * last_weights[:, None] + product_5,
            mask=live[:, None] & is_feature[None, :],
        )
        product_6 = tl.dot(
            (last_weights[:, None] * k).to(DOT),
            d_memory_next.to(DOT),
            input_precision=PRECISION,
        )
        # (Q X^T) * P
        attention = scores * weights
        product_7 = tl.dot(tl.trans(attention.to(DOT)), d_reads.to(DOT), input_precision=PRECISION)
        d_v_block = d_v_pointer + (batch * tokens + start) * d_v_row + head * d_v_head
        tl.store(
            d_v_block + row[:, None] * d_v_row + value[None, :],
            product_6 + product_7,
            mask=live[:, None] & is_value[None, :],
        )
        product_8 = tl.dot(tl.trans(q.to(DOT)), value_2.to(DOT), input_precision=PRECISION)
        d_memory_next = d_memory_next * kept + product_8
    if GRAD_INITIAL:
        tl.store(
            d_memory_pointer + memory_index * (K * V) + feature[:, None] * V + value[None, :],
            d_memory_next,
            mask=is_feature[:, None] & is_value[None, :],
        )

"""Kernels of the memory rule yaad (fused).

Rule 0d37478dd12b, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
"""

import triton
import triton.language as tl


@triton.jit
def inverse_root(x):
    return tl.where(x > 0.0, 1.0 / tl.sqrt(tl.where(x > 0.0, x, 1.0)), 0.0)


@triton.jit
def gelu(x):
    """x times the normal distribution function."""
    return x * (0.5 + 0.5 * tl.erf(x * 0.7071067811865476))


@triton.jit
def gelu_slope(x):
    """The derivative of gelu."""
    density = 0.3989422804014327 * tl.exp(-0.5 * x * x)
    return 0.5 + 0.5 * tl.erf(x * 0.7071067811865476) + x * density


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
    anchor_W1_final_pointer,
    anchor_W1_pointer,
    anchor_W2_final_pointer,
    anchor_W2_pointer,
    delta_pointer,
    k_pointer,
    length_pointer,
    log_alpha_pointer,
    lr_pointer,
    memory_W1_blocks_pointer,
    memory_W1_final_pointer,
    memory_W1_pointer,
    memory_W2_blocks_pointer,
    memory_W2_final_pointer,
    memory_W2_pointer,
    norm_bias_pointer,
    norm_gain_pointer,
    origin_W1_pointer,
    origin_W2_pointer,
    position_pointer,
    q_pointer,
    v_pointer,
    y_pointer,
    delta_head,
    delta_row,
    k_head,
    k_row,
    log_alpha_head,
    log_alpha_row,
    lr_head,
    lr_row,
    q_head,
    q_row,
    v_head,
    v_row,
    y_head,
    y_row,
    inverse_V,
    tokens,
    heads,
    blocks,
    HAS_INITIAL: tl.constexpr,
    HAS_LENGTH: tl.constexpr,
    RESUME: tl.constexpr,
    SAVE: tl.constexpr,
    STORE_FINAL: tl.constexpr,
    BLOCK_D1: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
    D1: tl.constexpr,
    DOT: tl.constexpr,
    K: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    V: tl.constexpr,
):
    """The memory from block to block and the reads of each block."""
    program = tl.program_id(0)
    memory_index = tl.cast(program, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    row = tl.arange(0, BLOCK_ROWS)
    feature = tl.arange(0, BLOCK_K)
    is_feature = feature < K
    hidden_1 = tl.arange(0, BLOCK_D1)
    is_hidden_1 = hidden_1 < D1
    value = tl.arange(0, BLOCK_V)
    is_value = value < V
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    position = tl.load(position_pointer + batch) if RESUME else 0
    phase = position % ROWS
    # the block that is still open after the call
    open_block = tl.cast((phase + end) // ROWS, tl.int64)
    origin_W1 = tl.load(
        origin_W1_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    anchor_W1 = (
        tl.load(
            anchor_W1_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        if RESUME
        else 0.0
    )
    anchor_W2 = (
        tl.load(
            anchor_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        if RESUME
        else 0.0
    )
    norm_gain = tl.load(norm_gain_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    norm_bias = tl.load(norm_bias_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    origin_W2 = tl.load(
        origin_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    memory_W1 = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
    if HAS_INITIAL:
        memory_W1 += tl.load(
            memory_W1_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
    memory_W2 = tl.zeros([BLOCK_D1, BLOCK_V], dtype=tl.float32)
    if HAS_INITIAL:
        memory_W2 += tl.load(
            memory_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
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
        lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
        delta_block = delta_pointer + (batch * tokens + start) * delta_row + head * delta_head
        if SAVE:
            tl.store(
                memory_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                memory_W1,
                mask=is_feature[:, None] & is_hidden_1[None, :],
            )
        if SAVE:
            tl.store(
                memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                memory_W2,
                mask=is_hidden_1[:, None] & is_value[None, :],
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
        combined = memory_W1 - origin_W1
        product = tl.dot(q.to(DOT), combined.to(DOT), input_precision=PRECISION)
        product_2 = tl.dot(q.to(DOT), origin_W1.to(DOT), input_precision=PRECISION)
        k = tl.load(
            k_block + row[:, None] * k_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        # Q X^T
        scores_W1 = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
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
        lr = tl.load(lr_block + row * lr_row, mask=live, other=0.0).to(tl.float32)
        live_2 = live.to(tl.float32)
        # P: source weights by read
        weights = decay * lr[None, :] * live_2[None, :]
        # (Q X^T) * P
        attention_W1 = scores_W1 * weights
        # M*: the memory at the last border
        anchor_point_W1 = tl.where(block == 0, anchor_W1, memory_W1) if RESUME else memory_W1
        product_3 = tl.dot(k.to(DOT), anchor_point_W1.to(DOT), input_precision=PRECISION)
        value_2 = gelu(product_3)
        # M*: the memory at the last border
        anchor_point_W2 = tl.where(block == 0, anchor_W2, memory_W2) if RESUME else memory_W2
        product_4 = tl.dot(value_2.to(DOT), anchor_point_W2.to(DOT), input_precision=PRECISION)
        combined_2 = tl.where(is_value[None, :], product_4 - (tl.sum(product_4, 1) * inverse_V)[:, None], 0.0)
        value_3 = tl.sum(combined_2 * combined_2, 1) * inverse_V
        value_4 = tl.exp(-0.5 * tl.log(value_3 + 1e-06))
        combined_3 = combined_2 * value_4[:, None] * norm_gain[None, :] + norm_bias[None, :]
        # pred = f(M*, phi(k))
        predictions = combined_3 + k
        v = tl.load(
            v_block + row[:, None] * v_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        combined_4 = predictions - v
        delta = tl.load(delta_block + row * delta_row, mask=live, other=0.0).to(tl.float32)
        value_5 = tl.where(
            delta >= tl.sqrt(tl.sum(combined_4 * combined_4, 1)),
            1.0,
            delta * inverse_root(tl.sum(combined_4 * combined_4, 1)),
        )
        # E = dl/dpred at the block's M*
        errors = value_5[:, None] * combined_4
        value_6 = errors * norm_gain[None, :]
        value_7 = tl.sum(value_6 * combined_2, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_3 + 1e-06)))
        combined_5 = value_6 * value_4[:, None] + (value_7 * inverse_V)[:, None] * (2.0 * combined_2)
        # the error that reaches the output of W2
        errors_W2 = tl.where(
            is_value[None, :],
            combined_5 + (tl.sum(-combined_5, 1) * inverse_V)[:, None],
            0.0,
        )
        product_5 = tl.dot(errors_W2.to(DOT), tl.trans(anchor_point_W2.to(DOT)), input_precision=PRECISION)
        # the error that reaches the output of W1
        errors_W1 = product_5 * tl.where(is_hidden_1[None, :], gelu_slope(product_3), 0.0)
        product_6 = tl.dot(attention_W1.to(DOT), errors_W1.to(DOT), input_precision=PRECISION)
        value_8 = gelu(read_decay[:, None] * product + product_2 - product_6)
        combined_6 = memory_W2 - origin_W2
        product_7 = tl.dot(value_8.to(DOT), combined_6.to(DOT), input_precision=PRECISION)
        product_8 = tl.dot(value_8.to(DOT), origin_W2.to(DOT), input_precision=PRECISION)
        # Q X^T
        scores_W2 = tl.dot(value_8.to(DOT), tl.trans(value_2.to(DOT)), input_precision=PRECISION)
        # (Q X^T) * P
        attention_W2 = scores_W2 * weights
        product_9 = tl.dot(attention_W2.to(DOT), errors_W2.to(DOT), input_precision=PRECISION)
        combined_7 = read_decay[:, None] * product_7 + product_8 - product_9
        combined_8 = tl.where(
            is_value[None, :],
            combined_7 - (tl.sum(combined_7, 1) * inverse_V)[:, None],
            0.0,
        )
        value_9 = tl.exp(-0.5 * tl.log(tl.sum(combined_8 * combined_8, 1) * inverse_V + 1e-06))
        combined_9 = combined_8 * value_9[:, None] * norm_gain[None, :] + norm_bias[None, :]
        # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
        reads = combined_9 + q
        y_block = y_pointer + (batch * tokens + start) * y_row + head * y_head
        tl.store(
            y_block + row[:, None] * y_row + value[None, :],
            reads,
            mask=live[:, None] & is_value[None, :],
        )
        if STORE_FINAL:
            if block == open_block:
                tl.store(
                    anchor_W1_final_pointer
                    + memory_index * (K * D1)
                    + feature[:, None] * D1
                    + hidden_1[None, :],
                    anchor_point_W1,
                    mask=is_feature[:, None] & is_hidden_1[None, :],
                )
        if STORE_FINAL:
            if block == open_block:
                tl.store(
                    anchor_W2_final_pointer
                    + memory_index * (D1 * V)
                    + hidden_1[:, None] * V
                    + value[None, :],
                    anchor_point_W2,
                    mask=is_hidden_1[:, None] & is_value[None, :],
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
        last_weights = until_end * lr * live_2
        product_10 = tl.dot(
            tl.trans((last_weights[:, None] * k).to(DOT)),
            errors_W1.to(DOT),
            input_precision=PRECISION,
        )
        # M at the end
        memory_W1_next = kept * combined + origin_W1 - product_10
        product_11 = tl.dot(
            tl.trans((last_weights[:, None] * value_2).to(DOT)),
            errors_W2.to(DOT),
            input_precision=PRECISION,
        )
        # M at the end
        memory_W2_next = kept * combined_6 + origin_W2 - product_11
        memory_W1 = memory_W1_next
        memory_W2 = memory_W2_next
    if STORE_FINAL:
        tl.store(
            memory_W1_final_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            memory_W1,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        tl.store(
            memory_W2_final_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            memory_W2,
            mask=is_hidden_1[:, None] & is_value[None, :],
        )
        if open_block >= blocks:
            tl.store(
                anchor_W1_final_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                memory_W1,
                mask=is_feature[:, None] & is_hidden_1[None, :],
            )
        if open_block >= blocks:
            tl.store(
                anchor_W2_final_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                memory_W2,
                mask=is_hidden_1[:, None] & is_value[None, :],
            )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def backward(
    anchor_W1_pointer,
    anchor_W2_pointer,
    d_anchor_W1_final_pointer,
    d_anchor_W1_pointer,
    d_anchor_W2_final_pointer,
    d_anchor_W2_pointer,
    d_delta_pointer,
    d_k_pointer,
    d_log_alpha_pointer,
    d_lr_pointer,
    d_memory_W1_final_pointer,
    d_memory_W1_pointer,
    d_memory_W2_final_pointer,
    d_memory_W2_pointer,
    d_norm_bias_blocks_pointer,
    d_norm_gain_blocks_pointer,
    d_origin_W1_pointer,
    d_origin_W2_pointer,
    d_q_pointer,
    d_v_pointer,
    d_y_pointer,
    delta_pointer,
    k_pointer,
    length_pointer,
    log_alpha_pointer,
    lr_pointer,
    memory_W1_blocks_pointer,
    memory_W2_blocks_pointer,
    norm_bias_pointer,
    norm_gain_pointer,
    origin_W1_pointer,
    origin_W2_pointer,
    position_pointer,
    q_pointer,
    v_pointer,
    d_delta_head,
    d_delta_row,
    d_k_head,
    d_k_row,
    d_log_alpha_head,
    d_log_alpha_row,
    d_lr_head,
    d_lr_row,
    d_q_head,
    d_q_row,
    d_v_head,
    d_v_row,
    d_y_head,
    d_y_row,
    delta_head,
    delta_row,
    k_head,
    k_row,
    log_alpha_head,
    log_alpha_row,
    lr_head,
    lr_row,
    q_head,
    q_row,
    v_head,
    v_row,
    inverse_V,
    tokens,
    heads,
    blocks,
    GRAD_FINAL: tl.constexpr,
    GRAD_INITIAL: tl.constexpr,
    HAS_LENGTH: tl.constexpr,
    RESUME: tl.constexpr,
    BLOCK_D1: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
    D1: tl.constexpr,
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
    hidden_1 = tl.arange(0, BLOCK_D1)
    is_hidden_1 = hidden_1 < D1
    value = tl.arange(0, BLOCK_V)
    is_value = value < V
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    position = tl.load(position_pointer + batch) if RESUME else 0
    phase = position % ROWS
    # the block that is still open after the call
    open_block = tl.cast((phase + end) // ROWS, tl.int64)
    norm_gain = tl.load(norm_gain_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    origin_W1 = tl.load(
        origin_W1_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    anchor_W1 = (
        tl.load(
            anchor_W1_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        if RESUME
        else 0.0
    )
    anchor_W2 = (
        tl.load(
            anchor_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        if RESUME
        else 0.0
    )
    norm_bias = tl.load(norm_bias_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    origin_W2 = tl.load(
        origin_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    d_memory_W1_next = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
    if GRAD_FINAL:
        d_memory_W1_next += tl.load(
            d_memory_W1_final_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        if open_block >= blocks:
            d_memory_W1_next += tl.load(
                d_anchor_W1_final_pointer
                + memory_index * (K * D1)
                + feature[:, None] * D1
                + hidden_1[None, :],
                mask=is_feature[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
    d_memory_W2_next = tl.zeros([BLOCK_D1, BLOCK_V], dtype=tl.float32)
    if GRAD_FINAL:
        d_memory_W2_next += tl.load(
            d_memory_W2_final_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        if open_block >= blocks:
            d_memory_W2_next += tl.load(
                d_anchor_W2_final_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                mask=is_hidden_1[:, None] & is_value[None, :],
                other=0.0,
            )
    d_origin_W1 = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
    d_origin_W2 = tl.zeros([BLOCK_D1, BLOCK_V], dtype=tl.float32)
    for step in range(0, blocks):
        block = blocks - 1 - step
        slot = memory_index * blocks + block
        start = tl.cast(block, tl.int64) * ROWS - phase
        first = tl.cast(tl.maximum(-start, 0), tl.int32)
        last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
        live = (row >= first) & (row < last)
        d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
        log_alpha_block = log_alpha_pointer + (batch * tokens + start) * log_alpha_row + head * log_alpha_head
        q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
        delta_block = delta_pointer + (batch * tokens + start) * delta_row + head * delta_head
        d_reads = tl.load(
            d_y_block + row[:, None] * d_y_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        value_2 = d_reads * norm_gain[None, :]
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
        memory_W1 = tl.load(
            memory_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        combined = memory_W1 - origin_W1
        product = tl.dot(q.to(DOT), combined.to(DOT), input_precision=PRECISION)
        product_2 = tl.dot(q.to(DOT), origin_W1.to(DOT), input_precision=PRECISION)
        k = tl.load(
            k_block + row[:, None] * k_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        # Q X^T
        scores_W1 = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
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
        lr = tl.load(lr_block + row * lr_row, mask=live, other=0.0).to(tl.float32)
        live_2 = live.to(tl.float32)
        # P: source weights by read
        weights = decay * lr[None, :] * live_2[None, :]
        # (Q X^T) * P
        attention_W1 = scores_W1 * weights
        # M*: the memory at the last border
        anchor_point_W1 = tl.where(block == 0, anchor_W1, memory_W1) if RESUME else memory_W1
        product_3 = tl.dot(k.to(DOT), anchor_point_W1.to(DOT), input_precision=PRECISION)
        value_3 = gelu(product_3)
        memory_W2 = tl.load(
            memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        # M*: the memory at the last border
        anchor_point_W2 = tl.where(block == 0, anchor_W2, memory_W2) if RESUME else memory_W2
        product_4 = tl.dot(value_3.to(DOT), anchor_point_W2.to(DOT), input_precision=PRECISION)
        combined_2 = tl.where(is_value[None, :], product_4 - (tl.sum(product_4, 1) * inverse_V)[:, None], 0.0)
        value_4 = tl.sum(combined_2 * combined_2, 1) * inverse_V
        value_5 = tl.exp(-0.5 * tl.log(value_4 + 1e-06))
        value_6 = combined_2 * value_5[:, None]
        # pred = f(M*, phi(k))
        predictions = value_6 * norm_gain[None, :] + norm_bias[None, :] + k
        v = tl.load(
            v_block + row[:, None] * v_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        combined_3 = predictions - v
        total = tl.sum(combined_3 * combined_3, 1)
        delta = tl.load(delta_block + row * delta_row, mask=live, other=0.0).to(tl.float32)
        value_7 = tl.where(delta >= tl.sqrt(total), 1.0, delta * inverse_root(total))
        # E = dl/dpred at the block's M*
        errors = value_7[:, None] * combined_3
        value_8 = errors * norm_gain[None, :]
        total_2 = tl.sum(value_8 * combined_2, 1)
        value_9 = -0.5 * tl.exp(-1.5 * tl.log(value_4 + 1e-06))
        value_10 = total_2 * value_9 * inverse_V
        value_11 = 2.0 * combined_2
        combined_4 = value_8 * value_5[:, None] + value_10[:, None] * value_11
        # the error that reaches the output of W2
        errors_W2 = tl.where(
            is_value[None, :],
            combined_4 + (tl.sum(-combined_4, 1) * inverse_V)[:, None],
            0.0,
        )
        product_5 = tl.dot(errors_W2.to(DOT), tl.trans(anchor_point_W2.to(DOT)), input_precision=PRECISION)
        value_12 = tl.where(is_hidden_1[None, :], gelu_slope(product_3), 0.0)
        # the error that reaches the output of W1
        errors_W1 = product_5 * value_12
        product_6 = tl.dot(attention_W1.to(DOT), errors_W1.to(DOT), input_precision=PRECISION)
        combined_5 = read_decay[:, None] * product + product_2 - product_6
        value_13 = gelu(combined_5)
        combined_6 = memory_W2 - origin_W2
        product_7 = tl.dot(value_13.to(DOT), combined_6.to(DOT), input_precision=PRECISION)
        product_8 = tl.dot(value_13.to(DOT), origin_W2.to(DOT), input_precision=PRECISION)
        # Q X^T
        scores_W2 = tl.dot(value_13.to(DOT), tl.trans(value_3.to(DOT)), input_precision=PRECISION)
        # (Q X^T) * P
        attention_W2 = scores_W2 * weights
        product_9 = tl.dot(attention_W2.to(DOT), errors_W2.to(DOT), input_precision=PRECISION)
        combined_7 = read_decay[:, None] * product_7 + product_8 - product_9
        combined_8 = tl.where(
            is_value[None, :],
            combined_7 - (tl.sum(combined_7, 1) * inverse_V)[:, None],
            0.0,
        )
        value_14 = tl.sum(combined_8 * combined_8, 1) * inverse_V
        value_15 = tl.exp(-0.5 * tl.log(value_14 + 1e-06))
        value_16 = tl.sum(value_2 * combined_8, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_14 + 1e-06)))
        combined_9 = value_2 * value_15[:, None] + (value_16 * inverse_V)[:, None] * (2.0 * combined_8)
        combined_10 = tl.where(
            is_value[None, :],
            combined_9 + (tl.sum(-combined_9, 1) * inverse_V)[:, None],
            0.0,
        )
        product_10 = tl.dot(combined_10.to(DOT), tl.trans(origin_W2.to(DOT)), input_precision=PRECISION)
        value_17 = combined_10 * read_decay[:, None]
        product_11 = tl.dot(value_17.to(DOT), tl.trans(combined_6.to(DOT)), input_precision=PRECISION)
        product_12 = tl.dot(combined_10.to(DOT), tl.trans(errors_W2.to(DOT)), input_precision=PRECISION)
        value_18 = product_12 * weights
        product_13 = tl.dot(value_18.to(DOT), value_3.to(DOT), input_precision=PRECISION)
        value_19 = (product_10 + product_11 - product_13) * tl.where(
            is_hidden_1[None, :],
            gelu_slope(combined_5),
            0.0,
        )
        d_read_decay = tl.sum(combined_10 * product_7, 1) + tl.sum(value_19 * product, 1)
        product_14 = tl.dot(errors_W2.to(DOT), tl.trans(d_memory_W2_next.to(DOT)), input_precision=PRECISION)
        product_15 = tl.dot(errors_W1.to(DOT), tl.trans(d_memory_W1_next.to(DOT)), input_precision=PRECISION)
        d_last_weights = tl.sum(-(product_14 * value_3), 1) + tl.sum(-(product_15 * k), 1)
        value_20 = d_last_weights * live_2
        until_end = tl.exp(
            tl.where(
                tl.sum(log_alpha_reset, 0) == log_alpha_reset_sum,
                tl.sum(log_alpha_coarse, 0)
                - log_alpha_coarse_sum
                + (tl.sum(log_alpha_fine, 0) - log_alpha_fine_sum),
                float("-inf"),
            )
        )
        running = tl.sum(tl.where(row[:, None] > row[None, :], (value_20 * lr * until_end)[None, :], 0.0), 1)
        product_16 = tl.dot(value_19.to(DOT), tl.trans(errors_W1.to(DOT)), input_precision=PRECISION)
        d_weights = -(product_12 * scores_W2) - product_16 * scores_W1
        value_21 = d_weights * live_2[None, :]
        banded = tl.where(row[:, None] - row[None, :] >= 1, value_21 * lr[None, :] * decay, 0.0)
        banded_2 = tl.where(row[:, None] >= row[None, :], tl.cumsum(banded, 1) - banded, 0.0)
        combined_11 = tl.cumsum(d_read_decay * read_decay, 0, reverse=True) + (running + tl.sum(banded_2, 0))
        d_kept = tl.sum(tl.sum(d_memory_W2_next * combined_6, 0), 0) + tl.sum(
            tl.sum(d_memory_W1_next * combined, 0),
            0,
        )
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
        tl.store(d_log_alpha_block + row * d_log_alpha_row, combined_11 + d_kept * kept, mask=live)
        product_17 = tl.dot(value_19.to(DOT), tl.trans(origin_W1.to(DOT)), input_precision=PRECISION)
        value_22 = value_19 * read_decay[:, None]
        product_18 = tl.dot(value_22.to(DOT), tl.trans(combined.to(DOT)), input_precision=PRECISION)
        value_23 = product_16 * weights
        product_19 = tl.dot(value_23.to(DOT), k.to(DOT), input_precision=PRECISION)
        d_q_block = d_q_pointer + (batch * tokens + start) * d_q_row + head * d_q_head
        tl.store(
            d_q_block + row[:, None] * d_q_row + feature[None, :],
            d_reads + product_17 + product_18 - product_19,
            mask=live[:, None] & is_feature[None, :],
        )
        # p_C: last row of P
        last_weights = until_end * lr * live_2
        product_20 = tl.dot(
            (last_weights[:, None] * k).to(DOT),
            d_memory_W1_next.to(DOT),
            input_precision=PRECISION,
        )
        product_21 = tl.dot(tl.trans(attention_W1.to(DOT)), value_19.to(DOT), input_precision=PRECISION)
        d_errors_W1 = -product_20 - product_21
        value_24 = d_errors_W1 * value_12
        product_22 = tl.dot(value_24.to(DOT), anchor_point_W2.to(DOT), input_precision=PRECISION)
        product_23 = tl.dot(
            (last_weights[:, None] * value_3).to(DOT),
            d_memory_W2_next.to(DOT),
            input_precision=PRECISION,
        )
        product_24 = tl.dot(tl.trans(attention_W2.to(DOT)), combined_10.to(DOT), input_precision=PRECISION)
        d_errors_W2 = product_22 - product_23 - product_24
        combined_12 = tl.where(
            is_value[None, :],
            d_errors_W2 - (tl.sum(d_errors_W2, 1) * inverse_V)[:, None],
            0.0,
        )
        value_25 = tl.sum(combined_12 * value_11, 1) * inverse_V
        value_26 = value_25 * value_9
        combined_13 = value_26[:, None] * combined_2 + combined_12 * value_5[:, None]
        d_errors = combined_13 * norm_gain[None, :]
        total_3 = tl.sum(d_errors * combined_3, 1)
        value_27 = tl.where(
            delta >= tl.sqrt(total),
            0.0,
            -0.5 * delta * (inverse_root(total) * inverse_root(total) * inverse_root(total)),
        )
        d_predictions = d_errors * value_7[:, None] + (total_3 * value_27)[:, None] * (2.0 * combined_3)
        value_28 = tl.where(
            is_hidden_1[None, :],
            0.3989422804014327 * (2.0 - product_3 * product_3) * tl.exp(-0.5 * (product_3 * product_3)),
            0.0,
        )
        value_29 = d_predictions * norm_gain[None, :]
        value_30 = value_25 * total_2 * (0.75 * tl.exp(-2.5 * tl.log(value_4 + 1e-06)))
        combined_14 = tl.sum(combined_12 * value_8, 1) + tl.sum(value_29 * combined_2, 1)
        value_31 = ((value_30 + combined_14 * value_9) * inverse_V)[:, None] * value_11
        combined_15 = (
            2.0 * (combined_12 * value_10[:, None])
            + value_26[:, None] * value_8
            + value_29 * value_5[:, None]
            + value_31
        )
        combined_16 = tl.where(
            is_value[None, :],
            combined_15 + (tl.sum(-combined_15, 1) * inverse_V)[:, None],
            0.0,
        )
        product_25 = tl.dot(combined_16.to(DOT), tl.trans(anchor_point_W2.to(DOT)), input_precision=PRECISION)
        product_26 = tl.dot(tl.trans(value_18.to(DOT)), value_13.to(DOT), input_precision=PRECISION)
        combined_17 = product_25 - product_14 * last_weights[:, None] - product_26
        combined_18 = d_errors_W1 * product_5 * value_28 + combined_17 * value_12
        product_27 = tl.dot(combined_18.to(DOT), tl.trans(anchor_point_W1.to(DOT)), input_precision=PRECISION)
        product_28 = tl.dot(tl.trans(value_23.to(DOT)), q.to(DOT), input_precision=PRECISION)
        combined_19 = d_predictions + product_27 - product_15 * last_weights[:, None] - product_28
        d_k_block = d_k_pointer + (batch * tokens + start) * d_k_row + head * d_k_head
        tl.store(
            d_k_block + row[:, None] * d_k_row + feature[None, :],
            combined_19,
            mask=live[:, None] & is_feature[None, :],
        )
        d_lr_block = d_lr_pointer + (batch * tokens + start) * d_lr_row + head * d_lr_head
        tl.store(d_lr_block + row * d_lr_row, value_20 * until_end + tl.sum(value_21 * decay, 0), mask=live)
        combined_20 = (
            tl.sum(d_reads * (combined_8 * value_15[:, None]), 0)
            + tl.sum(combined_13 * errors, 0)
            + tl.sum(d_predictions * value_6, 0)
        )
        tl.store(d_norm_gain_blocks_pointer + slot * V + value, combined_20, mask=is_value)
        tl.store(
            d_norm_bias_blocks_pointer + slot * V + value,
            tl.sum(d_reads, 0) + tl.sum(d_predictions, 0),
            mask=is_value,
        )
        d_v_block = d_v_pointer + (batch * tokens + start) * d_v_row + head * d_v_head
        tl.store(
            d_v_block + row[:, None] * d_v_row + value[None, :],
            -d_predictions,
            mask=live[:, None] & is_value[None, :],
        )
        value_32 = tl.where(delta >= tl.sqrt(total), 0.0, inverse_root(total))
        d_delta_block = d_delta_pointer + (batch * tokens + start) * d_delta_row + head * d_delta_head
        tl.store(d_delta_block + row * d_delta_row, total_3 * value_32, mask=live)
        product_29 = tl.dot(tl.trans(q.to(DOT)), value_19.to(DOT), input_precision=PRECISION)
        product_30 = tl.dot(tl.trans(q.to(DOT)), value_22.to(DOT), input_precision=PRECISION)
        combined_21 = d_memory_W1_next * kept + product_30
        d_origin_W1 += d_memory_W1_next + product_29 - combined_21
        d_anchor_W1 = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
        if GRAD_FINAL:
            if block == open_block:
                d_anchor_W1 += tl.load(
                    d_anchor_W1_final_pointer
                    + memory_index * (K * D1)
                    + feature[:, None] * D1
                    + hidden_1[None, :],
                    mask=is_feature[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
        product_31 = tl.dot(tl.trans(k.to(DOT)), combined_18.to(DOT), input_precision=PRECISION)
        d_anchor_point_W1 = d_anchor_W1 + product_31
        if RESUME:
            if block == 0:
                tl.store(
                    d_anchor_W1_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                    d_anchor_point_W1,
                    mask=is_feature[:, None] & is_hidden_1[None, :],
                )
        d_anchor_W2 = tl.zeros([BLOCK_D1, BLOCK_V], dtype=tl.float32)
        if GRAD_FINAL:
            if block == open_block:
                d_anchor_W2 += tl.load(
                    d_anchor_W2_final_pointer
                    + memory_index * (D1 * V)
                    + hidden_1[:, None] * V
                    + value[None, :],
                    mask=is_hidden_1[:, None] & is_value[None, :],
                    other=0.0,
                )
        product_32 = tl.dot(tl.trans(value_24.to(DOT)), errors_W2.to(DOT), input_precision=PRECISION)
        product_33 = tl.dot(tl.trans(value_3.to(DOT)), combined_16.to(DOT), input_precision=PRECISION)
        d_anchor_point_W2 = d_anchor_W2 + product_32 + product_33
        if RESUME:
            if block == 0:
                tl.store(
                    d_anchor_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                    d_anchor_point_W2,
                    mask=is_hidden_1[:, None] & is_value[None, :],
                )
        product_34 = tl.dot(tl.trans(value_13.to(DOT)), combined_10.to(DOT), input_precision=PRECISION)
        product_35 = tl.dot(tl.trans(value_13.to(DOT)), value_17.to(DOT), input_precision=PRECISION)
        combined_22 = d_memory_W2_next * kept + product_35
        d_origin_W2 += d_memory_W2_next + product_34 - combined_22
        at_border = tl.where(block == 0, 0.0, d_anchor_point_W1) if RESUME else d_anchor_point_W1
        at_border_2 = tl.where(block == 0, 0.0, d_anchor_point_W2) if RESUME else d_anchor_point_W2
        d_memory_W1_next = at_border + combined_21
        d_memory_W2_next = combined_22 + at_border_2
    if GRAD_INITIAL:
        tl.store(
            d_memory_W1_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            d_memory_W1_next,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        tl.store(
            d_memory_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            d_memory_W2_next,
            mask=is_hidden_1[:, None] & is_value[None, :],
        )
    tl.store(
        d_origin_W1_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        d_origin_W1,
        mask=is_feature[:, None] & is_hidden_1[None, :],
    )
    tl.store(
        d_origin_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        d_origin_W2,
        mask=is_hidden_1[:, None] & is_value[None, :],
    )

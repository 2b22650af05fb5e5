"""Kernels of the memory rule titans (fused).

Rule afa3bd554f8c, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
"""

import triton
import triton.language as tl


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
    k_pointer,
    length_pointer,
    log_alpha_pointer,
    log_theta_pointer,
    lr_pointer,
    memory_W1_blocks_pointer,
    memory_W1_final_pointer,
    memory_W1_pointer,
    memory_W2_blocks_pointer,
    memory_W2_final_pointer,
    memory_W2_pointer,
    momentum_W1_blocks_pointer,
    momentum_W1_final_pointer,
    momentum_W1_pointer,
    momentum_W2_blocks_pointer,
    momentum_W2_final_pointer,
    momentum_W2_pointer,
    origin_W1_pointer,
    origin_W2_pointer,
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
    momentum_W1 = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
    if HAS_INITIAL:
        momentum_W1 += tl.load(
            momentum_W1_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
    momentum_W2 = tl.zeros([BLOCK_D1, BLOCK_V], dtype=tl.float32)
    if HAS_INITIAL:
        momentum_W2 += tl.load(
            momentum_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
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
        log_theta_block = log_theta_pointer + (batch * tokens + start) * log_theta_row + head * log_theta_head
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
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
        if SAVE:
            tl.store(
                momentum_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                momentum_W1,
                mask=is_feature[:, None] & is_hidden_1[None, :],
            )
        if SAVE:
            tl.store(
                momentum_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                momentum_W2,
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
        product_3 = tl.dot(q.to(DOT), momentum_W1.to(DOT), input_precision=PRECISION)
        k = tl.load(
            k_block + row[:, None] * k_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        # Q X^T
        scores_W1 = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
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
        product_4 = tl.dot(value_2.to(DOT), decay_2.to(DOT), input_precision=PRECISION)
        lr = tl.load(lr_block + row * lr_row, mask=live, other=0.0).to(tl.float32)
        # P: source weights by read
        weights = product_4 * lr[None, :] * live_2[None, :]
        # (Q X^T) * P
        attention_W1 = scores_W1 * weights
        # M*: the memory at the last border
        anchor_point_W1 = tl.where(block == 0, anchor_W1, memory_W1) if RESUME else memory_W1
        product_5 = tl.dot(k.to(DOT), anchor_point_W1.to(DOT), input_precision=PRECISION)
        value_3 = gelu(product_5)
        # M*: the memory at the last border
        anchor_point_W2 = tl.where(block == 0, anchor_W2, memory_W2) if RESUME else memory_W2
        product_6 = tl.dot(value_3.to(DOT), anchor_point_W2.to(DOT), input_precision=PRECISION)
        # pred = f(M*, phi(k))
        predictions = product_6 + k
        v = tl.load(
            v_block + row[:, None] * v_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        # E = dl/dpred at the block's M*
        errors = predictions - v
        product_7 = tl.dot(errors.to(DOT), tl.trans(anchor_point_W2.to(DOT)), input_precision=PRECISION)
        # the error that reaches the output of W1
        errors_W1 = product_7 * tl.where(is_hidden_1[None, :], gelu_slope(product_5), 0.0)
        product_8 = tl.dot(attention_W1.to(DOT), errors_W1.to(DOT), input_precision=PRECISION)
        combined_2 = (
            read_decay[:, None] * product + product_2 - momentum_read[:, None] * product_3 - product_8
        )
        value_4 = gelu(combined_2)
        combined_3 = memory_W2 - origin_W2
        product_9 = tl.dot(value_4.to(DOT), combined_3.to(DOT), input_precision=PRECISION)
        product_10 = tl.dot(value_4.to(DOT), origin_W2.to(DOT), input_precision=PRECISION)
        product_11 = tl.dot(value_4.to(DOT), momentum_W2.to(DOT), input_precision=PRECISION)
        # Q X^T
        scores_W2 = tl.dot(value_4.to(DOT), tl.trans(value_3.to(DOT)), input_precision=PRECISION)
        # (Q X^T) * P
        attention_W2 = scores_W2 * weights
        product_12 = tl.dot(attention_W2.to(DOT), errors.to(DOT), input_precision=PRECISION)
        combined_4 = (
            read_decay[:, None] * product_9 + product_10 - momentum_read[:, None] * product_11 - product_12
        )
        # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
        reads = combined_4 + q
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
        value_5 = until_end * live_2
        # b_C: weight of the block's initial momentum
        momentum_written = tl.sum(value_5 * since_start, 0)
        product_13 = tl.sum(value_5[:, None] * decay_2, 0)
        # p_C: last row of P
        last_weights = product_13 * lr * live_2
        product_14 = tl.dot(
            tl.trans((last_weights[:, None] * k).to(DOT)),
            errors_W1.to(DOT),
            input_precision=PRECISION,
        )
        # M at the end
        memory_W1_next = kept * combined + origin_W1 - momentum_written * momentum_W1 - product_14
        product_15 = tl.dot(
            tl.trans((last_weights[:, None] * value_3).to(DOT)),
            errors.to(DOT),
            input_precision=PRECISION,
        )
        # M at the end
        memory_W2_next = kept * combined_3 + origin_W2 - momentum_written * momentum_W2 - product_15
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
        product_16 = tl.dot(
            tl.trans((momentum_weights[:, None] * k).to(DOT)),
            errors_W1.to(DOT),
            input_precision=PRECISION,
        )
        # S at the end of the block
        momentum_next_W1 = momentum_kept * momentum_W1 + product_16
        product_17 = tl.dot(
            tl.trans((momentum_weights[:, None] * value_3).to(DOT)),
            errors.to(DOT),
            input_precision=PRECISION,
        )
        # S at the end of the block
        momentum_next_W2 = momentum_kept * momentum_W2 + product_17
        memory_W1 = memory_W1_next
        memory_W2 = memory_W2_next
        momentum_W1 = momentum_next_W1
        momentum_W2 = momentum_next_W2
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
        tl.store(
            momentum_W1_final_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            momentum_W1,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        tl.store(
            momentum_W2_final_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            momentum_W2,
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
    d_k_pointer,
    d_log_alpha_pointer,
    d_log_theta_pointer,
    d_lr_pointer,
    d_memory_W1_final_pointer,
    d_memory_W1_pointer,
    d_memory_W2_final_pointer,
    d_memory_W2_pointer,
    d_momentum_W1_final_pointer,
    d_momentum_W1_pointer,
    d_momentum_W2_final_pointer,
    d_momentum_W2_pointer,
    d_origin_W1_pointer,
    d_origin_W2_pointer,
    d_q_pointer,
    d_v_pointer,
    d_y_pointer,
    k_pointer,
    length_pointer,
    log_alpha_pointer,
    log_theta_pointer,
    lr_pointer,
    memory_W1_blocks_pointer,
    memory_W2_blocks_pointer,
    momentum_W1_blocks_pointer,
    momentum_W2_blocks_pointer,
    origin_W1_pointer,
    origin_W2_pointer,
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
    d_momentum_next_W1 = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
    if GRAD_FINAL:
        d_momentum_next_W1 += tl.load(
            d_momentum_W1_final_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
    d_momentum_next_W2 = tl.zeros([BLOCK_D1, BLOCK_V], dtype=tl.float32)
    if GRAD_FINAL:
        d_momentum_next_W2 += tl.load(
            d_momentum_W2_final_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
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
        log_theta_block = log_theta_pointer + (batch * tokens + start) * log_theta_row + head * log_theta_head
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
        d_reads = tl.load(
            d_y_block + row[:, None] * d_y_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
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
        momentum_W1 = tl.load(
            momentum_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        product_3 = tl.dot(q.to(DOT), momentum_W1.to(DOT), input_precision=PRECISION)
        k = tl.load(
            k_block + row[:, None] * k_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        # Q X^T
        scores_W1 = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
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
        product_4 = tl.dot(value_2.to(DOT), decay_2.to(DOT), input_precision=PRECISION)
        lr = tl.load(lr_block + row * lr_row, mask=live, other=0.0).to(tl.float32)
        # P: source weights by read
        weights = product_4 * lr[None, :] * live_2[None, :]
        # (Q X^T) * P
        attention_W1 = scores_W1 * weights
        # M*: the memory at the last border
        anchor_point_W1 = tl.where(block == 0, anchor_W1, memory_W1) if RESUME else memory_W1
        product_5 = tl.dot(k.to(DOT), anchor_point_W1.to(DOT), input_precision=PRECISION)
        value_3 = gelu(product_5)
        memory_W2 = tl.load(
            memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        # M*: the memory at the last border
        anchor_point_W2 = tl.where(block == 0, anchor_W2, memory_W2) if RESUME else memory_W2
        product_6 = tl.dot(value_3.to(DOT), anchor_point_W2.to(DOT), input_precision=PRECISION)
        # pred = f(M*, phi(k))
        predictions = product_6 + k
        v = tl.load(
            v_block + row[:, None] * v_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        # E = dl/dpred at the block's M*
        errors = predictions - v
        product_7 = tl.dot(errors.to(DOT), tl.trans(anchor_point_W2.to(DOT)), input_precision=PRECISION)
        value_4 = tl.where(is_hidden_1[None, :], gelu_slope(product_5), 0.0)
        # the error that reaches the output of W1
        errors_W1 = product_7 * value_4
        product_8 = tl.dot(attention_W1.to(DOT), errors_W1.to(DOT), input_precision=PRECISION)
        combined_2 = (
            read_decay[:, None] * product + product_2 - momentum_read[:, None] * product_3 - product_8
        )
        value_5 = gelu(combined_2)
        combined_3 = memory_W2 - origin_W2
        product_9 = tl.dot(value_5.to(DOT), combined_3.to(DOT), input_precision=PRECISION)
        product_10 = tl.dot(d_reads.to(DOT), tl.trans(origin_W2.to(DOT)), input_precision=PRECISION)
        value_6 = d_reads * read_decay[:, None]
        product_11 = tl.dot(value_6.to(DOT), tl.trans(combined_3.to(DOT)), input_precision=PRECISION)
        product_12 = tl.dot(d_reads.to(DOT), tl.trans(errors.to(DOT)), input_precision=PRECISION)
        value_7 = product_12 * weights
        product_13 = tl.dot(value_7.to(DOT), value_3.to(DOT), input_precision=PRECISION)
        value_8 = d_reads * momentum_read[:, None]
        momentum_W2 = tl.load(
            momentum_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        product_14 = tl.dot(value_8.to(DOT), tl.trans(momentum_W2.to(DOT)), input_precision=PRECISION)
        value_9 = (product_10 + product_11 - product_13 - product_14) * tl.where(
            is_hidden_1[None, :],
            gelu_slope(combined_2),
            0.0,
        )
        d_read_decay = tl.sum(d_reads * product_9, 1) + tl.sum(value_9 * product, 1)
        product_15 = tl.dot(errors.to(DOT), tl.trans(d_memory_W2_next.to(DOT)), input_precision=PRECISION)
        product_16 = tl.dot(errors_W1.to(DOT), tl.trans(d_memory_W1_next.to(DOT)), input_precision=PRECISION)
        d_last_weights = tl.sum(-(product_15 * value_3), 1) + tl.sum(-(product_16 * k), 1)
        value_10 = d_last_weights * live_2
        value_11 = value_10 * lr
        product_17 = tl.sum(value_11[None, :] * decay_2, 1)
        d_momentum_written = tl.sum(tl.sum(-(d_memory_W2_next * momentum_W2), 0), 0) + tl.sum(
            tl.sum(-(d_memory_W1_next * momentum_W1), 0),
            0,
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
        value_12 = (product_17 + d_momentum_written * since_start) * live_2 * until_end
        running = tl.sum(tl.where(row[:, None] > row[None, :], value_12[None, :], 0.0), 1)
        d_kept = tl.sum(tl.sum(d_memory_W2_next * combined_3, 0), 0) + tl.sum(
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
        # Q X^T
        scores_W2 = tl.dot(value_5.to(DOT), tl.trans(value_3.to(DOT)), input_precision=PRECISION)
        product_18 = tl.dot(value_9.to(DOT), tl.trans(errors_W1.to(DOT)), input_precision=PRECISION)
        d_weights = -(product_12 * scores_W2) - product_18 * scores_W1
        value_13 = d_weights * live_2[None, :]
        value_14 = value_13 * lr[None, :]
        product_19 = tl.dot(value_14.to(DOT), tl.trans(decay_2.to(DOT)), input_precision=PRECISION)
        product_20 = tl.dot(value_5.to(DOT), momentum_W2.to(DOT), input_precision=PRECISION)
        d_momentum_read = tl.sum(-(d_reads * product_20), 1) + tl.sum(-(value_9 * product_3), 1)
        combined_4 = product_19 + d_momentum_read[:, None] * since_start[None, :]
        banded = tl.where(row[:, None] - row[None, :] >= 1, combined_4 * live_2[None, :] * decay, 0.0)
        banded_2 = tl.where(row[:, None] >= row[None, :], tl.cumsum(banded, 1) - banded, 0.0)
        combined_5 = tl.cumsum(d_read_decay * read_decay, 0, reverse=True) + (
            running + d_kept * kept + tl.sum(banded_2, 0)
        )
        d_log_alpha_block = (
            d_log_alpha_pointer + (batch * tokens + start) * d_log_alpha_row + head * d_log_alpha_head
        )
        tl.store(d_log_alpha_block + row * d_log_alpha_row, combined_5, mask=live)
        product_21 = tl.dot(value_9.to(DOT), tl.trans(origin_W1.to(DOT)), input_precision=PRECISION)
        value_15 = value_9 * read_decay[:, None]
        product_22 = tl.dot(value_15.to(DOT), tl.trans(combined.to(DOT)), input_precision=PRECISION)
        value_16 = product_18 * weights
        product_23 = tl.dot(value_16.to(DOT), k.to(DOT), input_precision=PRECISION)
        value_17 = value_9 * momentum_read[:, None]
        product_24 = tl.dot(value_17.to(DOT), tl.trans(momentum_W1.to(DOT)), input_precision=PRECISION)
        d_q_block = d_q_pointer + (batch * tokens + start) * d_q_row + head * d_q_head
        tl.store(
            d_q_block + row[:, None] * d_q_row + feature[None, :],
            d_reads + product_21 + product_22 - product_23 - product_24,
            mask=live[:, None] & is_feature[None, :],
        )
        value_18 = until_end * live_2
        product_25 = tl.sum(d_momentum_read[:, None] * value_2, 0)
        running_2 = tl.cumsum((d_momentum_written * value_18 + product_25) * since_start, 0, reverse=True)
        product_26 = tl.dot(errors.to(DOT), tl.trans(d_momentum_next_W2.to(DOT)), input_precision=PRECISION)
        product_27 = tl.dot(
            errors_W1.to(DOT),
            tl.trans(d_momentum_next_W1.to(DOT)),
            input_precision=PRECISION,
        )
        d_momentum_weights = tl.sum(product_26 * value_3, 1) + tl.sum(product_27 * k, 1)
        value_19 = d_momentum_weights * live_2
        until_end_2 = tl.exp(
            tl.where(
                tl.sum(log_theta_reset, 0) == log_theta_reset_sum,
                tl.sum(log_theta_coarse, 0)
                - log_theta_coarse_sum
                + (tl.sum(log_theta_fine, 0) - log_theta_fine_sum),
                float("-inf"),
            )
        )
        running_3 = tl.sum(
            tl.where(row[:, None] > row[None, :], (value_19 * lr * until_end_2)[None, :], 0.0),
            1,
        )
        product_28 = tl.dot(tl.trans(value_2.to(DOT)), value_14.to(DOT), input_precision=PRECISION)
        value_20 = (value_11[None, :] * value_18[:, None] + product_28) * decay_2
        running_4 = tl.cumsum(tl.where(row[:, None] - row[None, :] >= 1, value_20, 0.0), 1) - tl.where(
            row[:, None] - row[None, :] >= 1,
            value_20,
            0.0,
        )
        total = tl.sum(tl.where(row[:, None] >= row[None, :], running_4, 0.0), 0)
        d_momentum_kept = tl.sum(tl.sum(d_momentum_next_W2 * momentum_W2, 0), 0) + tl.sum(
            tl.sum(d_momentum_next_W1 * momentum_W1, 0),
            0,
        )
        # decay of S over the block
        momentum_kept = tl.exp(
            tl.where(
                tl.sum(log_theta_reset, 0) == 0.0,
                tl.sum(log_theta_coarse, 0) + tl.sum(log_theta_fine, 0),
                float("-inf"),
            )
        )
        combined_6 = running_2 + (running_3 + total) + d_momentum_kept * momentum_kept
        d_log_theta_block = (
            d_log_theta_pointer + (batch * tokens + start) * d_log_theta_row + head * d_log_theta_head
        )
        tl.store(d_log_theta_block + row * d_log_theta_row, combined_6, mask=live)
        # B_C: last row of D(theta) Gamma
        momentum_weights = until_end_2 * lr * live_2
        product_29 = tl.dot(
            (momentum_weights[:, None] * value_3).to(DOT),
            d_momentum_next_W2.to(DOT),
            input_precision=PRECISION,
        )
        product_30 = tl.dot(
            (momentum_weights[:, None] * k).to(DOT),
            d_momentum_next_W1.to(DOT),
            input_precision=PRECISION,
        )
        product_31 = tl.sum(value_18[:, None] * decay_2, 0)
        # p_C: last row of P
        last_weights = product_31 * lr * live_2
        product_32 = tl.dot(
            (last_weights[:, None] * k).to(DOT),
            d_memory_W1_next.to(DOT),
            input_precision=PRECISION,
        )
        product_33 = tl.dot(tl.trans(attention_W1.to(DOT)), value_9.to(DOT), input_precision=PRECISION)
        d_errors_W1 = product_30 - product_32 - product_33
        value_21 = d_errors_W1 * value_4
        product_34 = tl.dot(value_21.to(DOT), anchor_point_W2.to(DOT), input_precision=PRECISION)
        product_35 = tl.dot(
            (last_weights[:, None] * value_3).to(DOT),
            d_memory_W2_next.to(DOT),
            input_precision=PRECISION,
        )
        # (Q X^T) * P
        attention_W2 = scores_W2 * weights
        product_36 = tl.dot(tl.trans(attention_W2.to(DOT)), d_reads.to(DOT), input_precision=PRECISION)
        d_errors = product_29 + product_34 - product_35 - product_36
        value_22 = tl.where(
            is_hidden_1[None, :],
            0.3989422804014327 * (2.0 - product_5 * product_5) * tl.exp(-0.5 * (product_5 * product_5)),
            0.0,
        )
        product_37 = tl.dot(d_errors.to(DOT), tl.trans(anchor_point_W2.to(DOT)), input_precision=PRECISION)
        product_38 = tl.dot(tl.trans(value_7.to(DOT)), value_5.to(DOT), input_precision=PRECISION)
        combined_7 = (
            product_26 * momentum_weights[:, None]
            + product_37
            - product_15 * last_weights[:, None]
            - product_38
        )
        combined_8 = d_errors_W1 * product_7 * value_22 + combined_7 * value_4
        product_39 = tl.dot(combined_8.to(DOT), tl.trans(anchor_point_W1.to(DOT)), input_precision=PRECISION)
        product_40 = tl.dot(tl.trans(value_16.to(DOT)), q.to(DOT), input_precision=PRECISION)
        combined_9 = (
            product_27 * momentum_weights[:, None]
            + d_errors
            + product_39
            - product_16 * last_weights[:, None]
            - product_40
        )
        d_k_block = d_k_pointer + (batch * tokens + start) * d_k_row + head * d_k_head
        tl.store(
            d_k_block + row[:, None] * d_k_row + feature[None, :],
            combined_9,
            mask=live[:, None] & is_feature[None, :],
        )
        combined_10 = value_19 * until_end_2 + value_10 * product_31 + tl.sum(value_13 * product_4, 0)
        d_lr_block = d_lr_pointer + (batch * tokens + start) * d_lr_row + head * d_lr_head
        tl.store(d_lr_block + row * d_lr_row, combined_10, mask=live)
        d_v_block = d_v_pointer + (batch * tokens + start) * d_v_row + head * d_v_head
        tl.store(
            d_v_block + row[:, None] * d_v_row + value[None, :],
            -d_errors,
            mask=live[:, None] & is_value[None, :],
        )
        product_41 = tl.dot(tl.trans(q.to(DOT)), value_9.to(DOT), input_precision=PRECISION)
        product_42 = tl.dot(tl.trans(q.to(DOT)), value_15.to(DOT), input_precision=PRECISION)
        combined_11 = d_memory_W1_next * kept + product_42
        d_origin_W1 += d_memory_W1_next + product_41 - combined_11
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
        product_43 = tl.dot(tl.trans(k.to(DOT)), combined_8.to(DOT), input_precision=PRECISION)
        d_anchor_point_W1 = d_anchor_W1 + product_43
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
        product_44 = tl.dot(tl.trans(value_21.to(DOT)), errors.to(DOT), input_precision=PRECISION)
        product_45 = tl.dot(tl.trans(value_3.to(DOT)), d_errors.to(DOT), input_precision=PRECISION)
        d_anchor_point_W2 = d_anchor_W2 + product_44 + product_45
        if RESUME:
            if block == 0:
                tl.store(
                    d_anchor_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                    d_anchor_point_W2,
                    mask=is_hidden_1[:, None] & is_value[None, :],
                )
        product_46 = tl.dot(tl.trans(value_5.to(DOT)), d_reads.to(DOT), input_precision=PRECISION)
        product_47 = tl.dot(tl.trans(value_5.to(DOT)), value_6.to(DOT), input_precision=PRECISION)
        combined_12 = d_memory_W2_next * kept + product_47
        d_origin_W2 += d_memory_W2_next + product_46 - combined_12
        at_border = tl.where(block == 0, 0.0, d_anchor_point_W1) if RESUME else d_anchor_point_W1
        at_border_2 = tl.where(block == 0, 0.0, d_anchor_point_W2) if RESUME else d_anchor_point_W2
        # b_C: weight of the block's initial momentum
        momentum_written = tl.sum(value_18 * since_start, 0)
        product_48 = tl.dot(tl.trans(q.to(DOT)), value_17.to(DOT), input_precision=PRECISION)
        combined_13 = d_momentum_next_W1 * momentum_kept - d_memory_W1_next * momentum_written - product_48
        product_49 = tl.dot(tl.trans(value_5.to(DOT)), value_8.to(DOT), input_precision=PRECISION)
        combined_14 = d_momentum_next_W2 * momentum_kept - d_memory_W2_next * momentum_written - product_49
        d_memory_W1_next = at_border + combined_11
        d_memory_W2_next = combined_12 + at_border_2
        d_momentum_next_W1 = combined_13
        d_momentum_next_W2 = combined_14
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
            d_momentum_W1_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            d_momentum_next_W1,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        tl.store(
            d_momentum_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            d_momentum_next_W2,
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

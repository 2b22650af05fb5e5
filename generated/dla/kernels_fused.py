"""Kernels of the memory rule dla (fused).

Rule 54aed90a9cf3, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
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
def take(x, codes):
    # Entry i of each row where the code is i + 1; a monomial of fewer factors has -1 there, the number 1.
    place = tl.broadcast_to(tl.maximum(codes - 1, 0)[None, :], [x.shape[0], codes.shape[0]])
    return tl.where(codes[None, :] > 0, tl.gather(x, place, 1), (-codes).to(tl.float32)[None, :])


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
    lr_pointer,
    memory_W1_blocks_pointer,
    memory_W1_final_pointer,
    memory_W1_pointer,
    memory_W2_blocks_pointer,
    memory_W2_final_pointer,
    memory_W2_pointer,
    monomial_entry_0_pointer,
    monomial_entry_1_pointer,
    monomial_scale_0_pointer,
    monomial_scale_1_pointer,
    monomial_scale_2_pointer,
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
    BLOCK_F: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
    D1: tl.constexpr,
    DOT: tl.constexpr,
    F: tl.constexpr,
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
    monomial = tl.arange(0, BLOCK_F)
    is_monomial = monomial < F
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
        origin_W1_pointer + memory_index * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
        mask=is_monomial[:, None] & is_hidden_1[None, :],
        other=0.0,
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
    anchor_W1 = (
        tl.load(
            anchor_W1_pointer + memory_index * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
            mask=is_monomial[:, None] & is_hidden_1[None, :],
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
    memory_W1 = tl.zeros([BLOCK_F, BLOCK_D1], dtype=tl.float32)
    if HAS_INITIAL:
        memory_W1 += tl.load(
            memory_W1_pointer + memory_index * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
            mask=is_monomial[:, None] & is_hidden_1[None, :],
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
        if SAVE:
            tl.store(
                memory_W1_blocks_pointer + slot * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
                memory_W1,
                mask=is_monomial[:, None] & is_hidden_1[None, :],
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
        monomial_scale_0 = tl.load(monomial_scale_0_pointer + monomial, mask=is_monomial, other=0)
        monomial_scale_1 = tl.load(monomial_scale_1_pointer + monomial, mask=is_monomial, other=0)
        monomial_scale_2 = tl.load(monomial_scale_2_pointer + monomial, mask=is_monomial, other=0)
        monomial_weights = monomial_scale_0 + monomial_scale_1 + 0.7071067811865476 * monomial_scale_2
        q = tl.load(
            q_block + row[:, None] * q_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        monomial_entry_0 = tl.load(monomial_entry_0_pointer + monomial, mask=is_monomial, other=0)
        monomial_entry_1 = tl.load(monomial_entry_1_pointer + monomial, mask=is_monomial, other=0)
        # phi(q)
        queries = monomial_weights[None, :] * take(q, monomial_entry_0) * take(q, monomial_entry_1)
        combined = memory_W1 - origin_W1
        product = tl.dot(queries.to(DOT), combined.to(DOT), input_precision=PRECISION)
        product_2 = tl.dot(queries.to(DOT), origin_W1.to(DOT), input_precision=PRECISION)
        k = tl.load(
            k_block + row[:, None] * k_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        product_3 = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
        # Q X^T
        scores_W1 = 0.5 * (product_3 * product_3) + product_3 + 1.0
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
        v = tl.load(
            v_block + row[:, None] * v_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        # M*: the memory at the last border
        anchor_point_W2 = tl.where(block == 0, anchor_W2, memory_W2) if RESUME else memory_W2
        product_4 = tl.dot(v.to(DOT), tl.trans(anchor_point_W2.to(DOT)), input_precision=PRECISION)
        # X = phi(k)
        features = monomial_weights[None, :] * take(k, monomial_entry_0) * take(k, monomial_entry_1)
        # M*: the memory at the last border
        anchor_point_W1 = tl.where(block == 0, anchor_W1, memory_W1) if RESUME else memory_W1
        product_5 = tl.dot(features.to(DOT), anchor_point_W1.to(DOT), input_precision=PRECISION)
        value_2 = product_4 * tl.where(is_hidden_1[None, :], gelu_slope(product_5), 0.0)
        product_6 = tl.dot(attention_W1.to(DOT), value_2.to(DOT), input_precision=PRECISION)
        value_3 = gelu(read_decay[:, None] * product + product_2 + product_6)
        combined_2 = memory_W2 - origin_W2
        product_7 = tl.dot(value_3.to(DOT), combined_2.to(DOT), input_precision=PRECISION)
        product_8 = tl.dot(value_3.to(DOT), origin_W2.to(DOT), input_precision=PRECISION)
        value_4 = gelu(product_5)
        # Q X^T
        scores_W2 = tl.dot(value_3.to(DOT), tl.trans(value_4.to(DOT)), input_precision=PRECISION)
        # (Q X^T) * P
        attention_W2 = scores_W2 * weights
        product_9 = tl.dot(attention_W2.to(DOT), v.to(DOT), input_precision=PRECISION)
        # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
        reads = read_decay[:, None] * product_7 + product_8 + product_9 + q
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
                    + memory_index * (F * D1)
                    + monomial[:, None] * D1
                    + hidden_1[None, :],
                    anchor_point_W1,
                    mask=is_monomial[:, None] & is_hidden_1[None, :],
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
            tl.trans((last_weights[:, None] * features).to(DOT)),
            value_2.to(DOT),
            input_precision=PRECISION,
        )
        # M at the end
        memory_W1_next = kept * combined + origin_W1 + product_10
        product_11 = tl.dot(
            tl.trans((last_weights[:, None] * value_4).to(DOT)),
            v.to(DOT),
            input_precision=PRECISION,
        )
        # M at the end
        memory_W2_next = kept * combined_2 + origin_W2 + product_11
        memory_W1 = memory_W1_next
        memory_W2 = memory_W2_next
    if STORE_FINAL:
        tl.store(
            memory_W1_final_pointer + memory_index * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
            memory_W1,
            mask=is_monomial[:, None] & is_hidden_1[None, :],
        )
        tl.store(
            memory_W2_final_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            memory_W2,
            mask=is_hidden_1[:, None] & is_value[None, :],
        )
        if open_block >= blocks:
            tl.store(
                anchor_W1_final_pointer
                + memory_index * (F * D1)
                + monomial[:, None] * D1
                + hidden_1[None, :],
                memory_W1,
                mask=is_monomial[:, None] & is_hidden_1[None, :],
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
    d_lr_pointer,
    d_memory_W1_final_pointer,
    d_memory_W1_pointer,
    d_memory_W2_final_pointer,
    d_memory_W2_pointer,
    d_origin_W1_pointer,
    d_origin_W2_pointer,
    d_q_pointer,
    d_v_pointer,
    d_y_pointer,
    k_pointer,
    length_pointer,
    log_alpha_pointer,
    lr_pointer,
    memory_W1_blocks_pointer,
    memory_W2_blocks_pointer,
    monomial_entry_0_pointer,
    monomial_entry_1_pointer,
    monomial_scale_0_pointer,
    monomial_scale_1_pointer,
    monomial_scale_2_pointer,
    origin_W1_pointer,
    origin_W2_pointer,
    position_pointer,
    q_pointer,
    v_pointer,
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
    tokens,
    heads,
    blocks,
    GRAD_FINAL: tl.constexpr,
    GRAD_INITIAL: tl.constexpr,
    HAS_LENGTH: tl.constexpr,
    RESUME: tl.constexpr,
    BLOCK_D1: tl.constexpr,
    BLOCK_F: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
    D1: tl.constexpr,
    DOT: tl.constexpr,
    F: tl.constexpr,
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
    monomial = tl.arange(0, BLOCK_F)
    is_monomial = monomial < F
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
        origin_W1_pointer + memory_index * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
        mask=is_monomial[:, None] & is_hidden_1[None, :],
        other=0.0,
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
    anchor_W1 = (
        tl.load(
            anchor_W1_pointer + memory_index * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
            mask=is_monomial[:, None] & is_hidden_1[None, :],
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
    d_memory_W1_next = tl.zeros([BLOCK_F, BLOCK_D1], dtype=tl.float32)
    if GRAD_FINAL:
        d_memory_W1_next += tl.load(
            d_memory_W1_final_pointer + memory_index * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
            mask=is_monomial[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        if open_block >= blocks:
            d_memory_W1_next += tl.load(
                d_anchor_W1_final_pointer
                + memory_index * (F * D1)
                + monomial[:, None] * D1
                + hidden_1[None, :],
                mask=is_monomial[:, None] & is_hidden_1[None, :],
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
    d_origin_W1 = tl.zeros([BLOCK_F, BLOCK_D1], dtype=tl.float32)
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
        monomial_scale_0 = tl.load(monomial_scale_0_pointer + monomial, mask=is_monomial, other=0)
        monomial_scale_1 = tl.load(monomial_scale_1_pointer + monomial, mask=is_monomial, other=0)
        monomial_scale_2 = tl.load(monomial_scale_2_pointer + monomial, mask=is_monomial, other=0)
        monomial_weights = monomial_scale_0 + monomial_scale_1 + 0.7071067811865476 * monomial_scale_2
        q = tl.load(
            q_block + row[:, None] * q_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        monomial_entry_0 = tl.load(monomial_entry_0_pointer + monomial, mask=is_monomial, other=0)
        value_2 = monomial_weights[None, :] * take(q, monomial_entry_0)
        monomial_entry_1 = tl.load(monomial_entry_1_pointer + monomial, mask=is_monomial, other=0)
        factor = take(q, monomial_entry_1)
        # phi(q)
        queries = value_2 * factor
        memory_W1 = tl.load(
            memory_W1_blocks_pointer + slot * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
            mask=is_monomial[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        combined = memory_W1 - origin_W1
        product = tl.dot(queries.to(DOT), combined.to(DOT), input_precision=PRECISION)
        product_2 = tl.dot(queries.to(DOT), origin_W1.to(DOT), input_precision=PRECISION)
        k = tl.load(
            k_block + row[:, None] * k_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        product_3 = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
        # Q X^T
        scores_W1 = 0.5 * (product_3 * product_3) + product_3 + 1.0
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
        v = tl.load(
            v_block + row[:, None] * v_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        memory_W2 = tl.load(
            memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        # M*: the memory at the last border
        anchor_point_W2 = tl.where(block == 0, anchor_W2, memory_W2) if RESUME else memory_W2
        product_4 = tl.dot(v.to(DOT), tl.trans(anchor_point_W2.to(DOT)), input_precision=PRECISION)
        value_3 = monomial_weights[None, :] * take(k, monomial_entry_0)
        factor_2 = take(k, monomial_entry_1)
        # X = phi(k)
        features = value_3 * factor_2
        # M*: the memory at the last border
        anchor_point_W1 = tl.where(block == 0, anchor_W1, memory_W1) if RESUME else memory_W1
        product_5 = tl.dot(features.to(DOT), anchor_point_W1.to(DOT), input_precision=PRECISION)
        value_4 = tl.where(is_hidden_1[None, :], gelu_slope(product_5), 0.0)
        value_5 = product_4 * value_4
        product_6 = tl.dot(attention_W1.to(DOT), value_5.to(DOT), input_precision=PRECISION)
        combined_2 = read_decay[:, None] * product + product_2 + product_6
        value_6 = gelu(combined_2)
        combined_3 = memory_W2 - origin_W2
        product_7 = tl.dot(value_6.to(DOT), combined_3.to(DOT), input_precision=PRECISION)
        d_attention_W2 = tl.dot(d_reads.to(DOT), tl.trans(v.to(DOT)), input_precision=PRECISION)
        d_scores_W2 = d_attention_W2 * weights
        value_7 = gelu(product_5)
        product_8 = tl.dot(d_scores_W2.to(DOT), value_7.to(DOT), input_precision=PRECISION)
        product_9 = tl.dot(d_reads.to(DOT), tl.trans(origin_W2.to(DOT)), input_precision=PRECISION)
        value_8 = d_reads * read_decay[:, None]
        product_10 = tl.dot(value_8.to(DOT), tl.trans(combined_3.to(DOT)), input_precision=PRECISION)
        value_9 = (product_8 + product_9 + product_10) * tl.where(
            is_hidden_1[None, :],
            gelu_slope(combined_2),
            0.0,
        )
        d_read_decay = tl.sum(d_reads * product_7, 1) + tl.sum(value_9 * product, 1)
        product_11 = tl.dot(v.to(DOT), tl.trans(d_memory_W2_next.to(DOT)), input_precision=PRECISION)
        product_12 = tl.dot(value_5.to(DOT), tl.trans(d_memory_W1_next.to(DOT)), input_precision=PRECISION)
        d_last_weights = tl.sum(product_11 * value_7, 1) + tl.sum(product_12 * features, 1)
        value_10 = d_last_weights * live_2
        until_end = tl.exp(
            tl.where(
                tl.sum(log_alpha_reset, 0) == log_alpha_reset_sum,
                tl.sum(log_alpha_coarse, 0)
                - log_alpha_coarse_sum
                + (tl.sum(log_alpha_fine, 0) - log_alpha_fine_sum),
                float("-inf"),
            )
        )
        running = tl.sum(tl.where(row[:, None] > row[None, :], (value_10 * lr * until_end)[None, :], 0.0), 1)
        # Q X^T
        scores_W2 = tl.dot(value_6.to(DOT), tl.trans(value_7.to(DOT)), input_precision=PRECISION)
        d_attention_W1 = tl.dot(value_9.to(DOT), tl.trans(value_5.to(DOT)), input_precision=PRECISION)
        d_weights = d_attention_W2 * scores_W2 + d_attention_W1 * scores_W1
        value_11 = d_weights * live_2[None, :]
        banded = tl.where(row[:, None] - row[None, :] >= 1, value_11 * lr[None, :] * decay, 0.0)
        banded_2 = tl.where(row[:, None] >= row[None, :], tl.cumsum(banded, 1) - banded, 0.0)
        combined_4 = tl.cumsum(d_read_decay * read_decay, 0, reverse=True) + (running + tl.sum(banded_2, 0))
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
        d_log_alpha_block = (
            d_log_alpha_pointer + (batch * tokens + start) * d_log_alpha_row + head * d_log_alpha_head
        )
        tl.store(d_log_alpha_block + row * d_log_alpha_row, combined_4 + d_kept * kept, mask=live)
        d_scores_W1 = d_attention_W1 * weights
        value_12 = d_scores_W1 * (1.0 * product_3 + 1.0)
        product_13 = tl.dot(value_12.to(DOT), k.to(DOT), input_precision=PRECISION)
        product_14 = tl.dot(value_9.to(DOT), tl.trans(origin_W1.to(DOT)), input_precision=PRECISION)
        value_13 = value_9 * read_decay[:, None]
        product_15 = tl.dot(value_13.to(DOT), tl.trans(combined.to(DOT)), input_precision=PRECISION)
        d_queries = product_14 + product_15
        place = feature + 1
        value_14 = tl.where(
            is_monomial[None, :],
            tl.where(
                is_feature[:, None],
                tl.where(monomial_entry_1[None, :] == place[:, None], 1.0, 0.0),
                0.0,
            ),
            0.0,
        )
        product_16 = tl.dot(
            (d_queries * value_2).to(DOT),
            tl.trans(value_14.to(DOT)),
            input_precision=PRECISION,
        )
        value_15 = tl.where(
            is_monomial[None, :],
            tl.where(
                is_feature[:, None],
                tl.where(monomial_entry_0[None, :] == place[:, None], 1.0, 0.0),
                0.0,
            ),
            0.0,
        )
        product_17 = tl.dot(
            (d_queries * factor * monomial_weights[None, :]).to(DOT),
            tl.trans(value_15.to(DOT)),
            input_precision=PRECISION,
        )
        d_q_block = d_q_pointer + (batch * tokens + start) * d_q_row + head * d_q_head
        tl.store(
            d_q_block + row[:, None] * d_q_row + feature[None, :],
            d_reads + product_13 + product_16 + product_17,
            mask=live[:, None] & is_feature[None, :],
        )
        # p_C: last row of P
        last_weights = until_end * lr * live_2
        product_18 = tl.dot(tl.trans(d_scores_W2.to(DOT)), value_6.to(DOT), input_precision=PRECISION)
        value_16 = (product_11 * last_weights[:, None] + product_18) * value_4
        product_19 = tl.dot(
            (last_weights[:, None] * features).to(DOT),
            d_memory_W1_next.to(DOT),
            input_precision=PRECISION,
        )
        product_20 = tl.dot(tl.trans(attention_W1.to(DOT)), value_9.to(DOT), input_precision=PRECISION)
        combined_5 = product_19 + product_20
        value_17 = tl.where(
            is_hidden_1[None, :],
            0.3989422804014327 * (2.0 - product_5 * product_5) * tl.exp(-0.5 * (product_5 * product_5)),
            0.0,
        )
        combined_6 = value_16 + combined_5 * product_4 * value_17
        product_21 = tl.dot(combined_6.to(DOT), tl.trans(anchor_point_W1.to(DOT)), input_precision=PRECISION)
        d_features = product_12 * last_weights[:, None] + product_21
        product_22 = tl.dot(
            (d_features * value_3).to(DOT),
            tl.trans(value_14.to(DOT)),
            input_precision=PRECISION,
        )
        product_23 = tl.dot(
            (d_features * factor_2 * monomial_weights[None, :]).to(DOT),
            tl.trans(value_15.to(DOT)),
            input_precision=PRECISION,
        )
        product_24 = tl.dot(tl.trans(value_12.to(DOT)), q.to(DOT), input_precision=PRECISION)
        d_k_block = d_k_pointer + (batch * tokens + start) * d_k_row + head * d_k_head
        tl.store(
            d_k_block + row[:, None] * d_k_row + feature[None, :],
            product_22 + product_23 + product_24,
            mask=live[:, None] & is_feature[None, :],
        )
        d_lr_block = d_lr_pointer + (batch * tokens + start) * d_lr_row + head * d_lr_head
        tl.store(d_lr_block + row * d_lr_row, value_10 * until_end + tl.sum(value_11 * decay, 0), mask=live)
        product_25 = tl.dot(
            (last_weights[:, None] * value_7).to(DOT),
            d_memory_W2_next.to(DOT),
            input_precision=PRECISION,
        )
        # (Q X^T) * P
        attention_W2 = scores_W2 * weights
        product_26 = tl.dot(tl.trans(attention_W2.to(DOT)), d_reads.to(DOT), input_precision=PRECISION)
        value_18 = combined_5 * value_4
        product_27 = tl.dot(value_18.to(DOT), anchor_point_W2.to(DOT), input_precision=PRECISION)
        d_v_block = d_v_pointer + (batch * tokens + start) * d_v_row + head * d_v_head
        tl.store(
            d_v_block + row[:, None] * d_v_row + value[None, :],
            product_25 + product_26 + product_27,
            mask=live[:, None] & is_value[None, :],
        )
        product_28 = tl.dot(tl.trans(queries.to(DOT)), value_9.to(DOT), input_precision=PRECISION)
        product_29 = tl.dot(tl.trans(queries.to(DOT)), value_13.to(DOT), input_precision=PRECISION)
        combined_7 = d_memory_W1_next * kept + product_29
        d_origin_W1 += d_memory_W1_next + product_28 - combined_7
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
        product_30 = tl.dot(tl.trans(value_18.to(DOT)), v.to(DOT), input_precision=PRECISION)
        d_anchor_point_W2 = d_anchor_W2 + product_30
        if RESUME:
            if block == 0:
                tl.store(
                    d_anchor_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                    d_anchor_point_W2,
                    mask=is_hidden_1[:, None] & is_value[None, :],
                )
        d_anchor_W1 = tl.zeros([BLOCK_F, BLOCK_D1], dtype=tl.float32)
        if GRAD_FINAL:
            if block == open_block:
                d_anchor_W1 += tl.load(
                    d_anchor_W1_final_pointer
                    + memory_index * (F * D1)
                    + monomial[:, None] * D1
                    + hidden_1[None, :],
                    mask=is_monomial[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
        product_31 = tl.dot(tl.trans(features.to(DOT)), combined_6.to(DOT), input_precision=PRECISION)
        d_anchor_point_W1 = d_anchor_W1 + product_31
        if RESUME:
            if block == 0:
                tl.store(
                    d_anchor_W1_pointer
                    + memory_index * (F * D1)
                    + monomial[:, None] * D1
                    + hidden_1[None, :],
                    d_anchor_point_W1,
                    mask=is_monomial[:, None] & is_hidden_1[None, :],
                )
        product_32 = tl.dot(tl.trans(value_6.to(DOT)), d_reads.to(DOT), input_precision=PRECISION)
        product_33 = tl.dot(tl.trans(value_6.to(DOT)), value_8.to(DOT), input_precision=PRECISION)
        combined_8 = d_memory_W2_next * kept + product_33
        d_origin_W2 += d_memory_W2_next + product_32 - combined_8
        at_border = tl.where(block == 0, 0.0, d_anchor_point_W1) if RESUME else d_anchor_point_W1
        at_border_2 = tl.where(block == 0, 0.0, d_anchor_point_W2) if RESUME else d_anchor_point_W2
        d_memory_W1_next = at_border + combined_7
        d_memory_W2_next = combined_8 + at_border_2
    if GRAD_INITIAL:
        tl.store(
            d_memory_W1_pointer + memory_index * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
            d_memory_W1_next,
            mask=is_monomial[:, None] & is_hidden_1[None, :],
        )
        tl.store(
            d_memory_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            d_memory_W2_next,
            mask=is_hidden_1[:, None] & is_value[None, :],
        )
    tl.store(
        d_origin_W1_pointer + memory_index * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
        d_origin_W1,
        mask=is_monomial[:, None] & is_hidden_1[None, :],
    )
    tl.store(
        d_origin_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        d_origin_W2,
        mask=is_hidden_1[:, None] & is_value[None, :],
    )

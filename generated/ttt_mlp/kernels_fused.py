"""Kernels of the memory rule ttt_mlp (fused).

Rule ffda98112aea, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
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


@triton.jit(do_not_specialize=["tokens", "blocks"])
def forward(
    k_pointer,
    length_pointer,
    lr_pointer,
    memory_W1_blocks_pointer,
    memory_W1_final_pointer,
    memory_W1_pointer,
    memory_W2_blocks_pointer,
    memory_W2_final_pointer,
    memory_W2_pointer,
    memory_b1_blocks_pointer,
    memory_b1_final_pointer,
    memory_b1_pointer,
    memory_b2_blocks_pointer,
    memory_b2_final_pointer,
    memory_b2_pointer,
    norm_bias_pointer,
    norm_gain_pointer,
    position_pointer,
    q_pointer,
    row_scale_pointer,
    update_W1_blocks_pointer,
    update_W1_final_pointer,
    update_W1_pointer,
    update_W2_blocks_pointer,
    update_W2_final_pointer,
    update_W2_pointer,
    update_b1_blocks_pointer,
    update_b1_final_pointer,
    update_b1_pointer,
    update_b2_blocks_pointer,
    update_b2_final_pointer,
    update_b2_pointer,
    v_pointer,
    y_pointer,
    k_head,
    k_row,
    lr_head,
    lr_row,
    q_head,
    q_row,
    row_scale_columns,
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
    row_scale = tl.load(row_scale_pointer + head * ROWS + row, mask=row < ROWS, other=0.0).to(tl.float32)
    norm_gain = tl.load(norm_gain_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    norm_bias = tl.load(norm_bias_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    row_scale_2 = tl.load(row_scale_pointer + head * row_scale_columns + 15).to(tl.float32)
    memory_W1 = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
    if HAS_INITIAL:
        memory_W1 += tl.load(
            memory_W1_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
    update_W1 = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
    if HAS_INITIAL:
        update_W1 += tl.load(
            update_W1_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
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
    update_W2 = tl.zeros([BLOCK_D1, BLOCK_V], dtype=tl.float32)
    if HAS_INITIAL:
        update_W2 += tl.load(
            update_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
    memory_b1 = tl.zeros([BLOCK_D1], dtype=tl.float32)
    if HAS_INITIAL:
        memory_b1 += tl.load(memory_b1_pointer + memory_index * D1 + hidden_1, mask=is_hidden_1, other=0.0)
    update_b1 = tl.zeros([BLOCK_D1], dtype=tl.float32)
    if HAS_INITIAL:
        update_b1 += tl.load(update_b1_pointer + memory_index * D1 + hidden_1, mask=is_hidden_1, other=0.0)
    memory_b2 = tl.zeros([BLOCK_V], dtype=tl.float32)
    if HAS_INITIAL:
        memory_b2 += tl.load(memory_b2_pointer + memory_index * V + value, mask=is_value, other=0.0)
    update_b2 = tl.zeros([BLOCK_V], dtype=tl.float32)
    if HAS_INITIAL:
        update_b2 += tl.load(update_b2_pointer + memory_index * V + value, mask=is_value, other=0.0)
    for block in range(0, blocks):
        slot = memory_index * blocks + block
        start = tl.cast(block, tl.int64) * ROWS - phase
        first = tl.cast(tl.maximum(-start, 0), tl.int32)
        last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
        live = (row >= first) & (row < last)
        q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
        lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
        if SAVE:
            tl.store(
                memory_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                memory_W1,
                mask=is_feature[:, None] & is_hidden_1[None, :],
            )
        if SAVE:
            tl.store(
                update_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                update_W1,
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
                update_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                update_W2,
                mask=is_hidden_1[:, None] & is_value[None, :],
            )
        if SAVE:
            tl.store(memory_b1_blocks_pointer + slot * D1 + hidden_1, memory_b1, mask=is_hidden_1)
        if SAVE:
            tl.store(update_b1_blocks_pointer + slot * D1 + hidden_1, update_b1, mask=is_hidden_1)
        if SAVE:
            tl.store(memory_b2_blocks_pointer + slot * V + value, memory_b2, mask=is_value)
        if SAVE:
            tl.store(update_b2_blocks_pointer + slot * V + value, update_b2, mask=is_value)
        q = tl.load(
            q_block + row[:, None] * q_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        product = tl.dot(q.to(DOT), memory_W1.to(DOT), input_precision=PRECISION)
        product_2 = tl.dot(q.to(DOT), update_W1.to(DOT), input_precision=PRECISION)
        lr = tl.load(lr_block + row * lr_row, mask=live, other=0.0).to(tl.float32)
        live_2 = live.to(tl.float32)
        # p_C: last row of P
        last_weights = lr * live_2
        k = tl.load(
            k_block + row[:, None] * k_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        # Q X^T
        scores_W1 = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
        # (Q X^T) * P
        attention_W1 = tl.where(row[:, None] >= row[None, :], last_weights[None, :] * scores_W1, 0.0)
        product_3 = tl.dot(k.to(DOT), memory_W1.to(DOT), input_precision=PRECISION)
        combined = product_3 + memory_b1[None, :]
        value_2 = gelu(combined)
        product_4 = tl.dot(value_2.to(DOT), memory_W2.to(DOT), input_precision=PRECISION)
        combined_2 = product_4 + memory_b2[None, :]
        combined_3 = tl.where(
            is_value[None, :],
            combined_2 - (tl.sum(combined_2, 1) * inverse_V)[:, None],
            0.0,
        )
        value_3 = tl.sum(combined_3 * combined_3, 1) * inverse_V
        value_4 = tl.exp(-0.5 * tl.log(value_3 + 1e-06))
        combined_4 = combined_3 * value_4[:, None] * norm_gain[None, :] + norm_bias[None, :]
        # pred = f(M*, phi(k))
        predictions = combined_4 + k
        v = tl.load(
            v_block + row[:, None] * v_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        # E = dl/dpred at the block's M*
        errors = predictions - v
        value_5 = errors * norm_gain[None, :]
        value_6 = tl.sum(value_5 * combined_3, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_3 + 1e-06)))
        combined_5 = value_5 * value_4[:, None] + (value_6 * inverse_V)[:, None] * (2.0 * combined_3)
        # the error that reaches the output of W2
        errors_W2 = tl.where(
            is_value[None, :],
            combined_5 + (tl.sum(-combined_5, 1) * inverse_V)[:, None],
            0.0,
        )
        product_5 = tl.dot(errors_W2.to(DOT), tl.trans(memory_W2.to(DOT)), input_precision=PRECISION)
        # the error that reaches the output of W1
        errors_W1 = product_5 * tl.where(is_hidden_1[None, :], gelu_slope(combined), 0.0)
        product_6 = tl.dot(attention_W1.to(DOT), errors_W1.to(DOT), input_precision=PRECISION)
        # P: source weights by read
        weights = tl.where(row[:, None] >= row[None, :], last_weights[None, :], 0.0)
        product_7 = tl.dot(weights.to(DOT), errors_W1.to(DOT), input_precision=PRECISION)
        combined_6 = memory_b1[None, :] - row_scale[:, None] * (update_b1[None, :] + product_7)
        combined_7 = product - row_scale[:, None] * (product_2 + product_6) + combined_6
        value_7 = gelu(combined_7)
        product_8 = tl.dot(value_7.to(DOT), memory_W2.to(DOT), input_precision=PRECISION)
        product_9 = tl.dot(value_7.to(DOT), update_W2.to(DOT), input_precision=PRECISION)
        # Q X^T
        scores_W2 = tl.dot(value_7.to(DOT), tl.trans(value_2.to(DOT)), input_precision=PRECISION)
        # (Q X^T) * P
        attention_W2 = tl.where(row[:, None] >= row[None, :], last_weights[None, :] * scores_W2, 0.0)
        product_10 = tl.dot(attention_W2.to(DOT), errors_W2.to(DOT), input_precision=PRECISION)
        product_11 = tl.dot(weights.to(DOT), errors_W2.to(DOT), input_precision=PRECISION)
        combined_8 = memory_b2[None, :] - row_scale[:, None] * (update_b2[None, :] + product_11)
        combined_9 = product_8 - row_scale[:, None] * (product_9 + product_10) + combined_8
        combined_10 = tl.where(
            is_value[None, :],
            combined_9 - (tl.sum(combined_9, 1) * inverse_V)[:, None],
            0.0,
        )
        value_8 = tl.exp(-0.5 * tl.log(tl.sum(combined_10 * combined_10, 1) * inverse_V + 1e-06))
        combined_11 = combined_10 * value_8[:, None] * norm_gain[None, :] + norm_bias[None, :]
        # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
        reads = combined_11 + q
        y_block = y_pointer + (batch * tokens + start) * y_row + head * y_head
        tl.store(
            y_block + row[:, None] * y_row + value[None, :],
            reads,
            mask=live[:, None] & is_value[None, :],
        )
        product_12 = tl.dot(
            tl.trans((last_weights[:, None] * k).to(DOT)),
            errors_W1.to(DOT),
            input_precision=PRECISION,
        )
        # A: the block's update so far
        update_W1_total = update_W1 + product_12
        # M at the end
        memory_W1_next = memory_W1 - row_scale_2 * update_W1_total
        border = (last == ROWS).to(tl.float32)
        product_13 = tl.dot(
            tl.trans((last_weights[:, None] * value_2).to(DOT)),
            errors_W2.to(DOT),
            input_precision=PRECISION,
        )
        # A: the block's update so far
        update_W2_total = update_W2 + product_13
        # M at the end
        memory_W2_next = memory_W2 - row_scale_2 * update_W2_total
        product_14 = tl.sum(last_weights[:, None] * errors_W1, 0)
        # A: the block's update so far
        update_b1_total = update_b1 + product_14
        # M at the end
        memory_b1_next = memory_b1 - row_scale_2 * update_b1_total
        product_15 = tl.sum(last_weights[:, None] * errors_W2, 0)
        # A: the block's update so far
        update_b2_total = update_b2 + product_15
        # M at the end
        memory_b2_next = memory_b2 - row_scale_2 * update_b2_total
        memory_W1 = tl.where(border > 0.0, memory_W1_next, memory_W1)
        update_W1 = tl.where(border > 0.0, 0.0, update_W1_total)
        memory_W2 = tl.where(border > 0.0, memory_W2_next, memory_W2)
        update_W2 = tl.where(border > 0.0, 0.0, update_W2_total)
        memory_b1 = tl.where(border > 0.0, memory_b1_next, memory_b1)
        update_b1 = tl.where(border > 0.0, 0.0, update_b1_total)
        memory_b2 = tl.where(border > 0.0, memory_b2_next, memory_b2)
        update_b2 = tl.where(border > 0.0, 0.0, update_b2_total)
    if STORE_FINAL:
        tl.store(
            memory_W1_final_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            memory_W1,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        tl.store(
            update_W1_final_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            update_W1,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        tl.store(
            memory_W2_final_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            memory_W2,
            mask=is_hidden_1[:, None] & is_value[None, :],
        )
        tl.store(
            update_W2_final_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            update_W2,
            mask=is_hidden_1[:, None] & is_value[None, :],
        )
        tl.store(memory_b1_final_pointer + memory_index * D1 + hidden_1, memory_b1, mask=is_hidden_1)
        tl.store(update_b1_final_pointer + memory_index * D1 + hidden_1, update_b1, mask=is_hidden_1)
        tl.store(memory_b2_final_pointer + memory_index * V + value, memory_b2, mask=is_value)
        tl.store(update_b2_final_pointer + memory_index * V + value, update_b2, mask=is_value)


@triton.jit(do_not_specialize=["tokens", "blocks"])
def backward(
    d_k_pointer,
    d_lr_pointer,
    d_memory_W1_final_pointer,
    d_memory_W1_pointer,
    d_memory_W2_final_pointer,
    d_memory_W2_pointer,
    d_memory_b1_final_pointer,
    d_memory_b1_pointer,
    d_memory_b2_final_pointer,
    d_memory_b2_pointer,
    d_norm_bias_blocks_pointer,
    d_norm_gain_blocks_pointer,
    d_q_pointer,
    d_row_scale_15_blocks_pointer,
    d_row_scale_blocks_pointer,
    d_update_W1_final_pointer,
    d_update_W1_pointer,
    d_update_W2_final_pointer,
    d_update_W2_pointer,
    d_update_b1_final_pointer,
    d_update_b1_pointer,
    d_update_b2_final_pointer,
    d_update_b2_pointer,
    d_v_pointer,
    d_y_pointer,
    k_pointer,
    length_pointer,
    lr_pointer,
    memory_W1_blocks_pointer,
    memory_W2_blocks_pointer,
    memory_b1_blocks_pointer,
    memory_b2_blocks_pointer,
    norm_bias_pointer,
    norm_gain_pointer,
    position_pointer,
    q_pointer,
    row_scale_pointer,
    update_W1_blocks_pointer,
    update_W2_blocks_pointer,
    update_b1_blocks_pointer,
    update_b2_blocks_pointer,
    v_pointer,
    d_k_head,
    d_k_row,
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
    lr_head,
    lr_row,
    q_head,
    q_row,
    row_scale_columns,
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
    norm_gain = tl.load(norm_gain_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    row_scale = tl.load(row_scale_pointer + head * ROWS + row, mask=row < ROWS, other=0.0).to(tl.float32)
    norm_bias = tl.load(norm_bias_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    row_scale_2 = tl.load(row_scale_pointer + head * row_scale_columns + 15).to(tl.float32)
    d_memory_W1_next = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
    if GRAD_FINAL:
        d_memory_W1_next += tl.load(
            d_memory_W1_final_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
    d_update_W1_next = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
    if GRAD_FINAL:
        d_update_W1_next += tl.load(
            d_update_W1_final_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
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
    d_update_W2_next = tl.zeros([BLOCK_D1, BLOCK_V], dtype=tl.float32)
    if GRAD_FINAL:
        d_update_W2_next += tl.load(
            d_update_W2_final_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
    d_memory_b1_next = tl.zeros([BLOCK_D1], dtype=tl.float32)
    if GRAD_FINAL:
        d_memory_b1_next += tl.load(
            d_memory_b1_final_pointer + memory_index * D1 + hidden_1,
            mask=is_hidden_1,
            other=0.0,
        )
    d_update_b1_next = tl.zeros([BLOCK_D1], dtype=tl.float32)
    if GRAD_FINAL:
        d_update_b1_next += tl.load(
            d_update_b1_final_pointer + memory_index * D1 + hidden_1,
            mask=is_hidden_1,
            other=0.0,
        )
    d_memory_b2_next = tl.zeros([BLOCK_V], dtype=tl.float32)
    if GRAD_FINAL:
        d_memory_b2_next += tl.load(
            d_memory_b2_final_pointer + memory_index * V + value,
            mask=is_value,
            other=0.0,
        )
    d_update_b2_next = tl.zeros([BLOCK_V], dtype=tl.float32)
    if GRAD_FINAL:
        d_update_b2_next += tl.load(
            d_update_b2_final_pointer + memory_index * V + value,
            mask=is_value,
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
        lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
        d_reads = tl.load(
            d_y_block + row[:, None] * d_y_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        value_2 = d_reads * norm_gain[None, :]
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
        product = tl.dot(q.to(DOT), memory_W1.to(DOT), input_precision=PRECISION)
        update_W1 = tl.load(
            update_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        product_2 = tl.dot(q.to(DOT), update_W1.to(DOT), input_precision=PRECISION)
        lr = tl.load(lr_block + row * lr_row, mask=live, other=0.0).to(tl.float32)
        live_2 = live.to(tl.float32)
        # p_C: last row of P
        last_weights = lr * live_2
        k = tl.load(
            k_block + row[:, None] * k_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        # Q X^T
        scores_W1 = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
        # (Q X^T) * P
        attention_W1 = tl.where(row[:, None] >= row[None, :], last_weights[None, :] * scores_W1, 0.0)
        product_3 = tl.dot(k.to(DOT), memory_W1.to(DOT), input_precision=PRECISION)
        memory_b1 = tl.load(memory_b1_blocks_pointer + slot * D1 + hidden_1, mask=is_hidden_1, other=0.0)
        combined = product_3 + memory_b1[None, :]
        value_3 = gelu(combined)
        memory_W2 = tl.load(
            memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        product_4 = tl.dot(value_3.to(DOT), memory_W2.to(DOT), input_precision=PRECISION)
        memory_b2 = tl.load(memory_b2_blocks_pointer + slot * V + value, mask=is_value, other=0.0)
        combined_2 = product_4 + memory_b2[None, :]
        combined_3 = tl.where(
            is_value[None, :],
            combined_2 - (tl.sum(combined_2, 1) * inverse_V)[:, None],
            0.0,
        )
        value_4 = tl.sum(combined_3 * combined_3, 1) * inverse_V
        value_5 = tl.exp(-0.5 * tl.log(value_4 + 1e-06))
        value_6 = combined_3 * value_5[:, None]
        # pred = f(M*, phi(k))
        predictions = value_6 * norm_gain[None, :] + norm_bias[None, :] + k
        v = tl.load(
            v_block + row[:, None] * v_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        # E = dl/dpred at the block's M*
        errors = predictions - v
        value_7 = errors * norm_gain[None, :]
        total = tl.sum(value_7 * combined_3, 1)
        value_8 = -0.5 * tl.exp(-1.5 * tl.log(value_4 + 1e-06))
        value_9 = total * value_8 * inverse_V
        value_10 = 2.0 * combined_3
        combined_4 = value_7 * value_5[:, None] + value_9[:, None] * value_10
        # the error that reaches the output of W2
        errors_W2 = tl.where(
            is_value[None, :],
            combined_4 + (tl.sum(-combined_4, 1) * inverse_V)[:, None],
            0.0,
        )
        product_5 = tl.dot(errors_W2.to(DOT), tl.trans(memory_W2.to(DOT)), input_precision=PRECISION)
        value_11 = tl.where(is_hidden_1[None, :], gelu_slope(combined), 0.0)
        # the error that reaches the output of W1
        errors_W1 = product_5 * value_11
        product_6 = tl.dot(attention_W1.to(DOT), errors_W1.to(DOT), input_precision=PRECISION)
        combined_5 = product_2 + product_6
        update_b1 = tl.load(update_b1_blocks_pointer + slot * D1 + hidden_1, mask=is_hidden_1, other=0.0)
        # P: source weights by read
        weights = tl.where(row[:, None] >= row[None, :], last_weights[None, :], 0.0)
        product_7 = tl.dot(weights.to(DOT), errors_W1.to(DOT), input_precision=PRECISION)
        combined_6 = update_b1[None, :] + product_7
        combined_7 = (
            product - row_scale[:, None] * combined_5 + (memory_b1[None, :] - row_scale[:, None] * combined_6)
        )
        value_12 = gelu(combined_7)
        product_8 = tl.dot(value_12.to(DOT), memory_W2.to(DOT), input_precision=PRECISION)
        update_W2 = tl.load(
            update_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        product_9 = tl.dot(value_12.to(DOT), update_W2.to(DOT), input_precision=PRECISION)
        # Q X^T
        scores_W2 = tl.dot(value_12.to(DOT), tl.trans(value_3.to(DOT)), input_precision=PRECISION)
        # (Q X^T) * P
        attention_W2 = tl.where(row[:, None] >= row[None, :], last_weights[None, :] * scores_W2, 0.0)
        product_10 = tl.dot(attention_W2.to(DOT), errors_W2.to(DOT), input_precision=PRECISION)
        combined_8 = product_9 + product_10
        update_b2 = tl.load(update_b2_blocks_pointer + slot * V + value, mask=is_value, other=0.0)
        product_11 = tl.dot(weights.to(DOT), errors_W2.to(DOT), input_precision=PRECISION)
        combined_9 = update_b2[None, :] + product_11
        combined_10 = (
            product_8
            - row_scale[:, None] * combined_8
            + (memory_b2[None, :] - row_scale[:, None] * combined_9)
        )
        combined_11 = tl.where(
            is_value[None, :],
            combined_10 - (tl.sum(combined_10, 1) * inverse_V)[:, None],
            0.0,
        )
        value_13 = tl.sum(combined_11 * combined_11, 1) * inverse_V
        value_14 = tl.exp(-0.5 * tl.log(value_13 + 1e-06))
        value_15 = tl.sum(value_2 * combined_11, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_13 + 1e-06)))
        combined_12 = value_2 * value_14[:, None] + (value_15 * inverse_V)[:, None] * (2.0 * combined_11)
        combined_13 = tl.where(
            is_value[None, :],
            combined_12 + (tl.sum(-combined_12, 1) * inverse_V)[:, None],
            0.0,
        )
        value_16 = combined_13 * row_scale[:, None]
        product_12 = tl.dot(value_16.to(DOT), tl.trans(errors_W2.to(DOT)), input_precision=PRECISION)
        d_scores_W2 = tl.where(row[:, None] >= row[None, :], -(product_12 * last_weights[None, :]), 0.0)
        product_13 = tl.dot(d_scores_W2.to(DOT), value_3.to(DOT), input_precision=PRECISION)
        product_14 = tl.dot(combined_13.to(DOT), tl.trans(memory_W2.to(DOT)), input_precision=PRECISION)
        product_15 = tl.dot(value_16.to(DOT), tl.trans(update_W2.to(DOT)), input_precision=PRECISION)
        value_17 = (product_13 + product_14 - product_15) * tl.where(
            is_hidden_1[None, :],
            gelu_slope(combined_7),
            0.0,
        )
        value_18 = value_17 * row_scale[:, None]
        product_16 = tl.dot(value_18.to(DOT), tl.trans(errors_W1.to(DOT)), input_precision=PRECISION)
        d_scores_W1 = tl.where(row[:, None] >= row[None, :], -(product_16 * last_weights[None, :]), 0.0)
        product_17 = tl.dot(d_scores_W1.to(DOT), k.to(DOT), input_precision=PRECISION)
        product_18 = tl.dot(value_17.to(DOT), tl.trans(memory_W1.to(DOT)), input_precision=PRECISION)
        product_19 = tl.dot(value_18.to(DOT), tl.trans(update_W1.to(DOT)), input_precision=PRECISION)
        d_q_block = d_q_pointer + (batch * tokens + start) * d_q_row + head * d_q_head
        tl.store(
            d_q_block + row[:, None] * d_q_row + feature[None, :],
            d_reads + product_17 + product_18 - product_19,
            mask=live[:, None] & is_feature[None, :],
        )
        combined_14 = (
            tl.sum(-(combined_13 * combined_9), 1)
            + tl.sum(-(combined_13 * combined_8), 1)
            + tl.sum(-(value_17 * combined_6), 1)
            + tl.sum(-(value_17 * combined_5), 1)
        )
        tl.store(d_row_scale_blocks_pointer + slot * ROWS + row, combined_14, mask=row < ROWS)
        border = (last == ROWS).to(tl.float32)
        value_19 = tl.where(border > 0.0, 0.0, 1.0)
        value_20 = tl.where(border > 0.0, 1.0, 0.0)
        d_memory_b2_next_2 = d_memory_b2_next * value_20
        d_update_b2_total = d_update_b2_next * value_19 - d_memory_b2_next_2 * row_scale_2
        product_20 = tl.sum(d_update_b2_total[None, :] * errors_W2, 1)
        d_memory_b1_next_2 = d_memory_b1_next * value_20
        d_update_b1_total = d_update_b1_next * value_19 - d_memory_b1_next_2 * row_scale_2
        product_21 = tl.sum(d_update_b1_total[None, :] * errors_W1, 1)
        d_memory_W2_next_2 = d_memory_W2_next * value_20
        d_update_W2_total = d_update_W2_next * value_19 - d_memory_W2_next_2 * row_scale_2
        product_22 = tl.dot(errors_W2.to(DOT), tl.trans(d_update_W2_total.to(DOT)), input_precision=PRECISION)
        d_memory_W1_next_2 = d_memory_W1_next * value_20
        d_update_W1_total = d_update_W1_next * value_19 - d_memory_W1_next_2 * row_scale_2
        product_23 = tl.dot(errors_W1.to(DOT), tl.trans(d_update_W1_total.to(DOT)), input_precision=PRECISION)
        banded = tl.where(row[:, None] >= row[None, :], -(product_12 * scores_W2), 0.0)
        d_weights = -product_12 - product_16
        total_2 = tl.sum(tl.where(row[:, None] >= row[None, :], d_weights, 0.0), 0)
        banded_2 = tl.where(row[:, None] >= row[None, :], -(product_16 * scores_W1), 0.0)
        d_last_weights = (
            product_20
            + product_21
            + tl.sum(product_22 * value_3, 1)
            + tl.sum(product_23 * k, 1)
            + tl.sum(banded, 0)
            + total_2
            + tl.sum(banded_2, 0)
        )
        d_lr_block = d_lr_pointer + (batch * tokens + start) * d_lr_row + head * d_lr_head
        tl.store(d_lr_block + row * d_lr_row, d_last_weights * live_2, mask=live)
        value_21 = last_weights[:, None] * value_3
        product_24 = tl.dot(value_21.to(DOT), d_update_W2_total.to(DOT), input_precision=PRECISION)
        value_22 = last_weights[:, None] * k
        product_25 = tl.dot(value_22.to(DOT), d_update_W1_total.to(DOT), input_precision=PRECISION)
        product_26 = tl.dot(tl.trans(weights.to(DOT)), value_18.to(DOT), input_precision=PRECISION)
        product_27 = tl.dot(tl.trans(attention_W1.to(DOT)), value_18.to(DOT), input_precision=PRECISION)
        d_errors_W1 = (
            d_update_b1_total[None, :] * last_weights[:, None] + product_25 - product_26 - product_27
        )
        value_23 = d_errors_W1 * value_11
        product_28 = tl.dot(value_23.to(DOT), memory_W2.to(DOT), input_precision=PRECISION)
        product_29 = tl.dot(tl.trans(weights.to(DOT)), value_16.to(DOT), input_precision=PRECISION)
        product_30 = tl.dot(tl.trans(attention_W2.to(DOT)), value_16.to(DOT), input_precision=PRECISION)
        d_errors_W2 = (
            d_update_b2_total[None, :] * last_weights[:, None]
            + product_24
            + product_28
            - product_29
            - product_30
        )
        combined_15 = tl.where(
            is_value[None, :],
            d_errors_W2 - (tl.sum(d_errors_W2, 1) * inverse_V)[:, None],
            0.0,
        )
        value_24 = tl.sum(combined_15 * value_10, 1) * inverse_V
        value_25 = value_24 * value_8
        combined_16 = value_25[:, None] * combined_3 + combined_15 * value_5[:, None]
        d_errors = combined_16 * norm_gain[None, :]
        value_26 = tl.where(
            is_hidden_1[None, :],
            0.3989422804014327 * (2.0 - combined * combined) * tl.exp(-0.5 * (combined * combined)),
            0.0,
        )
        product_31 = tl.dot(tl.trans(d_scores_W2.to(DOT)), value_12.to(DOT), input_precision=PRECISION)
        value_27 = d_errors * norm_gain[None, :]
        value_28 = value_24 * total * (0.75 * tl.exp(-2.5 * tl.log(value_4 + 1e-06)))
        combined_17 = tl.sum(combined_15 * value_7, 1) + tl.sum(value_27 * combined_3, 1)
        value_29 = ((value_28 + combined_17 * value_8) * inverse_V)[:, None] * value_10
        combined_18 = (
            2.0 * (combined_15 * value_9[:, None])
            + value_25[:, None] * value_7
            + value_27 * value_5[:, None]
            + value_29
        )
        combined_19 = tl.where(
            is_value[None, :],
            combined_18 + (tl.sum(-combined_18, 1) * inverse_V)[:, None],
            0.0,
        )
        product_32 = tl.dot(combined_19.to(DOT), tl.trans(memory_W2.to(DOT)), input_precision=PRECISION)
        combined_20 = product_22 * last_weights[:, None] + product_31 + product_32
        combined_21 = d_errors_W1 * product_5 * value_26 + combined_20 * value_11
        product_33 = tl.dot(combined_21.to(DOT), tl.trans(memory_W1.to(DOT)), input_precision=PRECISION)
        product_34 = tl.dot(tl.trans(d_scores_W1.to(DOT)), q.to(DOT), input_precision=PRECISION)
        combined_22 = product_23 * last_weights[:, None] + d_errors + product_33 + product_34
        d_k_block = d_k_pointer + (batch * tokens + start) * d_k_row + head * d_k_head
        tl.store(
            d_k_block + row[:, None] * d_k_row + feature[None, :],
            combined_22,
            mask=live[:, None] & is_feature[None, :],
        )
        combined_23 = (
            tl.sum(d_reads * (combined_11 * value_14[:, None]), 0)
            + tl.sum(combined_16 * errors, 0)
            + tl.sum(d_errors * value_6, 0)
        )
        tl.store(d_norm_gain_blocks_pointer + slot * V + value, combined_23, mask=is_value)
        tl.store(
            d_norm_bias_blocks_pointer + slot * V + value,
            tl.sum(d_reads, 0) + tl.sum(d_errors, 0),
            mask=is_value,
        )
        d_v_block = d_v_pointer + (batch * tokens + start) * d_v_row + head * d_v_head
        tl.store(
            d_v_block + row[:, None] * d_v_row + value[None, :],
            -d_errors,
            mask=live[:, None] & is_value[None, :],
        )
        product_35 = tl.sum(last_weights[:, None] * errors_W2, 0)
        # A: the block's update so far
        update_b2_total = update_b2 + product_35
        product_36 = tl.sum(last_weights[:, None] * errors_W1, 0)
        # A: the block's update so far
        update_b1_total = update_b1 + product_36
        product_37 = tl.dot(tl.trans(value_21.to(DOT)), errors_W2.to(DOT), input_precision=PRECISION)
        # A: the block's update so far
        update_W2_total = update_W2 + product_37
        total_3 = tl.sum(tl.sum(-(d_memory_W2_next_2 * update_W2_total), 0), 0)
        product_38 = tl.dot(tl.trans(value_22.to(DOT)), errors_W1.to(DOT), input_precision=PRECISION)
        # A: the block's update so far
        update_W1_total = update_W1 + product_38
        total_4 = tl.sum(tl.sum(-(d_memory_W1_next_2 * update_W1_total), 0), 0)
        combined_24 = (
            tl.sum(-(d_memory_b2_next_2 * update_b2_total), 0)
            + tl.sum(-(d_memory_b1_next_2 * update_b1_total), 0)
            + total_3
            + total_4
        )
        tl.store(d_row_scale_15_blocks_pointer + slot, combined_24)
        product_39 = tl.dot(tl.trans(k.to(DOT)), combined_21.to(DOT), input_precision=PRECISION)
        product_40 = tl.dot(tl.trans(q.to(DOT)), value_17.to(DOT), input_precision=PRECISION)
        combined_25 = d_memory_W1_next * value_19 + d_memory_W1_next_2 + product_39 + product_40
        product_41 = tl.dot(tl.trans(q.to(DOT)), value_18.to(DOT), input_precision=PRECISION)
        product_42 = tl.dot(tl.trans(value_12.to(DOT)), combined_13.to(DOT), input_precision=PRECISION)
        product_43 = tl.dot(tl.trans(value_23.to(DOT)), errors_W2.to(DOT), input_precision=PRECISION)
        product_44 = tl.dot(tl.trans(value_3.to(DOT)), combined_19.to(DOT), input_precision=PRECISION)
        combined_26 = d_memory_W2_next * value_19 + d_memory_W2_next_2 + product_42 + product_43 + product_44
        product_45 = tl.dot(tl.trans(value_12.to(DOT)), value_16.to(DOT), input_precision=PRECISION)
        combined_27 = (
            d_memory_b1_next * value_19 + d_memory_b1_next_2 + tl.sum(value_17, 0) + tl.sum(combined_21, 0)
        )
        combined_28 = (
            d_memory_b2_next * value_19 + d_memory_b2_next_2 + tl.sum(combined_13, 0) + tl.sum(combined_19, 0)
        )
        d_memory_W1_next = combined_25
        d_update_W1_next = d_update_W1_total - product_41
        d_memory_W2_next = combined_26
        d_update_W2_next = d_update_W2_total - product_45
        d_memory_b1_next = combined_27
        d_update_b1_next = d_update_b1_total + tl.sum(-value_18, 0)
        d_memory_b2_next = combined_28
        d_update_b2_next = d_update_b2_total + tl.sum(-value_16, 0)
    if GRAD_INITIAL:
        tl.store(
            d_memory_W1_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            d_memory_W1_next,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        tl.store(
            d_update_W1_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            d_update_W1_next,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        tl.store(
            d_memory_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            d_memory_W2_next,
            mask=is_hidden_1[:, None] & is_value[None, :],
        )
        tl.store(
            d_update_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            d_update_W2_next,
            mask=is_hidden_1[:, None] & is_value[None, :],
        )
        tl.store(d_memory_b1_pointer + memory_index * D1 + hidden_1, d_memory_b1_next, mask=is_hidden_1)
        tl.store(d_update_b1_pointer + memory_index * D1 + hidden_1, d_update_b1_next, mask=is_hidden_1)
        tl.store(d_memory_b2_pointer + memory_index * V + value, d_memory_b2_next, mask=is_value)
        tl.store(d_update_b2_pointer + memory_index * V + value, d_update_b2_next, mask=is_value)

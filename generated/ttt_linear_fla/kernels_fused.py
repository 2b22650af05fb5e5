"""Kernels of the memory rule ttt_linear_fla (fused).

Rule 981a48b536fe, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
"""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["tokens", "blocks"])
def forward(
    k_pointer,
    length_pointer,
    memory_b_blocks_pointer,
    memory_b_final_pointer,
    memory_b_pointer,
    memory_blocks_pointer,
    memory_final_pointer,
    memory_pointer,
    norm_bias_pointer,
    norm_gain_pointer,
    position_pointer,
    q_pointer,
    row_scale_pointer,
    update_b_blocks_pointer,
    update_b_final_pointer,
    update_b_pointer,
    update_blocks_pointer,
    update_final_pointer,
    update_pointer,
    v_pointer,
    y_pointer,
    k_head,
    k_row,
    q_head,
    q_row,
    row_scale_head,
    row_scale_row,
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
    memory_index = tl.cast(program, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    row = tl.arange(0, BLOCK_ROWS)
    feature = tl.arange(0, BLOCK_K)
    is_feature = feature < K
    value = tl.arange(0, BLOCK_V)
    is_value = value < V
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    position = tl.load(position_pointer + batch) if RESUME else 0
    phase = position % ROWS
    norm_gain = tl.load(norm_gain_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    norm_bias = tl.load(norm_bias_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    memory = tl.zeros([BLOCK_K, BLOCK_V], dtype=tl.float32)
    if HAS_INITIAL:
        memory += tl.load(
            memory_pointer + memory_index * (K * V) + feature[:, None] * V + value[None, :],
            mask=is_feature[:, None] & is_value[None, :],
            other=0.0,
        )
    update = tl.zeros([BLOCK_K, BLOCK_V], dtype=tl.float32)
    if HAS_INITIAL:
        update += tl.load(
            update_pointer + memory_index * (K * V) + feature[:, None] * V + value[None, :],
            mask=is_feature[:, None] & is_value[None, :],
            other=0.0,
        )
    memory_b = tl.zeros([BLOCK_V], dtype=tl.float32)
    if HAS_INITIAL:
        memory_b += tl.load(memory_b_pointer + memory_index * V + value, mask=is_value, other=0.0)
    update_b = tl.zeros([BLOCK_V], dtype=tl.float32)
    if HAS_INITIAL:
        update_b += tl.load(update_b_pointer + memory_index * V + value, mask=is_value, other=0.0)
    for block in range(0, blocks):
        slot = memory_index * blocks + block
        start = tl.cast(block, tl.int64) * ROWS - phase
        first = tl.cast(tl.maximum(-start, 0), tl.int32)
        last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
        live = (row >= first) & (row < last)
        q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
        row_scale_block = row_scale_pointer + (batch * tokens + start) * row_scale_row + head * row_scale_head
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
        if SAVE:
            tl.store(
                memory_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
                memory,
                mask=is_feature[:, None] & is_value[None, :],
            )
        if SAVE:
            tl.store(
                update_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
                update,
                mask=is_feature[:, None] & is_value[None, :],
            )
        if SAVE:
            tl.store(memory_b_blocks_pointer + slot * V + value, memory_b, mask=is_value)
        if SAVE:
            tl.store(update_b_blocks_pointer + slot * V + value, update_b, mask=is_value)
        q = tl.load(
            q_block + row[:, None] * q_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        product = tl.dot(q.to(DOT), memory.to(DOT), input_precision=PRECISION)
        row_scale = tl.load(row_scale_block + row * row_scale_row, mask=live, other=0.0).to(tl.float32)
        product_2 = tl.dot(q.to(DOT), update.to(DOT), input_precision=PRECISION)
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
        product_3 = tl.dot(k.to(DOT), memory.to(DOT), input_precision=PRECISION)
        combined = product_3 + memory_b[None, :]
        combined_2 = tl.where(is_value[None, :], combined - (tl.sum(combined, 1) * inverse_V)[:, None], 0.0)
        value_2 = tl.sum(combined_2 * combined_2, 1) * inverse_V
        value_3 = tl.exp(-0.5 * tl.log(value_2 + 1e-06))
        # pred = phi(k) M*
        predictions = combined_2 * value_3[:, None] * norm_gain[None, :] + norm_bias[None, :]
        v = tl.load(
            v_block + row[:, None] * v_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        # E = dl/dpred at the block's M*
        errors = predictions - (v - k)
        value_4 = errors * norm_gain[None, :]
        value_5 = tl.sum(value_4 * combined_2, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_2 + 1e-06)))
        combined_3 = value_4 * value_3[:, None] + (value_5 * inverse_V)[:, None] * (2.0 * combined_2)
        combined_4 = tl.where(
            is_value[None, :],
            combined_3 + (tl.sum(-combined_3, 1) * inverse_V)[:, None],
            0.0,
        )
        product_4 = tl.dot(attention.to(DOT), combined_4.to(DOT), input_precision=PRECISION)
        # P: source weights by read
        weights = tl.where(row[:, None] >= row[None, :], live_2[None, :], 0.0)
        product_5 = tl.dot(weights.to(DOT), combined_4.to(DOT), input_precision=PRECISION)
        combined_5 = memory_b[None, :] - row_scale[:, None] * (update_b[None, :] + product_5)
        combined_6 = product - row_scale[:, None] * (product_2 + product_4) + combined_5
        combined_7 = tl.where(
            is_value[None, :],
            combined_6 - (tl.sum(combined_6, 1) * inverse_V)[:, None],
            0.0,
        )
        value_6 = tl.exp(-0.5 * tl.log(tl.sum(combined_7 * combined_7, 1) * inverse_V + 1e-06))
        combined_8 = combined_7 * value_6[:, None] * norm_gain[None, :] + norm_bias[None, :]
        # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
        reads = combined_6 + combined_8
        y_block = y_pointer + (batch * tokens + start) * y_row + head * y_head
        tl.store(
            y_block + row[:, None] * y_row + value[None, :],
            reads,
            mask=live[:, None] & is_value[None, :],
        )
        border = (live & (row == ROWS - 1)).to(tl.float32)
        total = tl.sum(row_scale * border, 0)
        product_6 = tl.dot(
            tl.trans((live_2[:, None] * k).to(DOT)),
            combined_4.to(DOT),
            input_precision=PRECISION,
        )
        # A: the block's update so far
        update_total = update + product_6
        # M at the end
        memory_next = memory - total * update_total
        border_2 = (last == ROWS).to(tl.float32)
        product_7 = tl.sum(live_2[:, None] * combined_4, 0)
        # A: the block's update so far
        update_b_total = update_b + product_7
        # M at the end
        memory_b_next = memory_b - total * update_b_total
        memory = tl.where(border_2 > 0.0, memory_next, memory)
        update = tl.where(border_2 > 0.0, 0.0, update_total)
        memory_b = tl.where(border_2 > 0.0, memory_b_next, memory_b)
        update_b = tl.where(border_2 > 0.0, 0.0, update_b_total)
    if STORE_FINAL:
        tl.store(
            memory_final_pointer + memory_index * (K * V) + feature[:, None] * V + value[None, :],
            memory,
            mask=is_feature[:, None] & is_value[None, :],
        )
        tl.store(
            update_final_pointer + memory_index * (K * V) + feature[:, None] * V + value[None, :],
            update,
            mask=is_feature[:, None] & is_value[None, :],
        )
        tl.store(memory_b_final_pointer + memory_index * V + value, memory_b, mask=is_value)
        tl.store(update_b_final_pointer + memory_index * V + value, update_b, mask=is_value)


@triton.jit(do_not_specialize=["tokens", "blocks"])
def backward(
    d_k_pointer,
    d_memory_b_final_pointer,
    d_memory_b_pointer,
    d_memory_final_pointer,
    d_memory_pointer,
    d_norm_bias_blocks_pointer,
    d_norm_gain_blocks_pointer,
    d_q_pointer,
    d_row_scale_pointer,
    d_update_b_final_pointer,
    d_update_b_pointer,
    d_update_final_pointer,
    d_update_pointer,
    d_v_pointer,
    d_y_pointer,
    k_pointer,
    length_pointer,
    memory_b_blocks_pointer,
    memory_blocks_pointer,
    norm_bias_pointer,
    norm_gain_pointer,
    position_pointer,
    q_pointer,
    row_scale_pointer,
    update_b_blocks_pointer,
    update_blocks_pointer,
    v_pointer,
    d_k_head,
    d_k_row,
    d_q_head,
    d_q_row,
    d_row_scale_head,
    d_row_scale_row,
    d_v_head,
    d_v_row,
    d_y_head,
    d_y_row,
    k_head,
    k_row,
    q_head,
    q_row,
    row_scale_head,
    row_scale_row,
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
    position = tl.load(position_pointer + batch) if RESUME else 0
    phase = position % ROWS
    norm_gain = tl.load(norm_gain_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    norm_bias = tl.load(norm_bias_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    d_memory_next = tl.zeros([BLOCK_K, BLOCK_V], dtype=tl.float32)
    if GRAD_FINAL:
        d_memory_next += tl.load(
            d_memory_final_pointer + memory_index * (K * V) + feature[:, None] * V + value[None, :],
            mask=is_feature[:, None] & is_value[None, :],
            other=0.0,
        )
    d_update_next = tl.zeros([BLOCK_K, BLOCK_V], dtype=tl.float32)
    if GRAD_FINAL:
        d_update_next += tl.load(
            d_update_final_pointer + memory_index * (K * V) + feature[:, None] * V + value[None, :],
            mask=is_feature[:, None] & is_value[None, :],
            other=0.0,
        )
    d_memory_b_next = tl.zeros([BLOCK_V], dtype=tl.float32)
    if GRAD_FINAL:
        d_memory_b_next += tl.load(
            d_memory_b_final_pointer + memory_index * V + value,
            mask=is_value,
            other=0.0,
        )
    d_update_b_next = tl.zeros([BLOCK_V], dtype=tl.float32)
    if GRAD_FINAL:
        d_update_b_next += tl.load(
            d_update_b_final_pointer + memory_index * V + value,
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
        row_scale_block = row_scale_pointer + (batch * tokens + start) * row_scale_row + head * row_scale_head
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
        memory = tl.load(
            memory_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
            mask=is_feature[:, None] & is_value[None, :],
            other=0.0,
        )
        product = tl.dot(q.to(DOT), memory.to(DOT), input_precision=PRECISION)
        row_scale = tl.load(row_scale_block + row * row_scale_row, mask=live, other=0.0).to(tl.float32)
        update = tl.load(
            update_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
            mask=is_feature[:, None] & is_value[None, :],
            other=0.0,
        )
        product_2 = tl.dot(q.to(DOT), update.to(DOT), input_precision=PRECISION)
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
        product_3 = tl.dot(k.to(DOT), memory.to(DOT), input_precision=PRECISION)
        memory_b = tl.load(memory_b_blocks_pointer + slot * V + value, mask=is_value, other=0.0)
        combined = product_3 + memory_b[None, :]
        combined_2 = tl.where(is_value[None, :], combined - (tl.sum(combined, 1) * inverse_V)[:, None], 0.0)
        value_3 = tl.sum(combined_2 * combined_2, 1) * inverse_V
        value_4 = tl.exp(-0.5 * tl.log(value_3 + 1e-06))
        value_5 = combined_2 * value_4[:, None]
        # pred = phi(k) M*
        predictions = value_5 * norm_gain[None, :] + norm_bias[None, :]
        v = tl.load(
            v_block + row[:, None] * v_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        # E = dl/dpred at the block's M*
        errors = predictions - (v - k)
        value_6 = errors * norm_gain[None, :]
        total = tl.sum(value_6 * combined_2, 1)
        value_7 = -0.5 * tl.exp(-1.5 * tl.log(value_3 + 1e-06))
        value_8 = total * value_7 * inverse_V
        value_9 = 2.0 * combined_2
        combined_3 = value_6 * value_4[:, None] + value_8[:, None] * value_9
        combined_4 = tl.where(
            is_value[None, :],
            combined_3 + (tl.sum(-combined_3, 1) * inverse_V)[:, None],
            0.0,
        )
        product_4 = tl.dot(attention.to(DOT), combined_4.to(DOT), input_precision=PRECISION)
        combined_5 = product_2 + product_4
        update_b = tl.load(update_b_blocks_pointer + slot * V + value, mask=is_value, other=0.0)
        # P: source weights by read
        weights = tl.where(row[:, None] >= row[None, :], live_2[None, :], 0.0)
        product_5 = tl.dot(weights.to(DOT), combined_4.to(DOT), input_precision=PRECISION)
        combined_6 = update_b[None, :] + product_5
        combined_7 = (
            product - row_scale[:, None] * combined_5 + (memory_b[None, :] - row_scale[:, None] * combined_6)
        )
        combined_8 = tl.where(
            is_value[None, :],
            combined_7 - (tl.sum(combined_7, 1) * inverse_V)[:, None],
            0.0,
        )
        value_10 = tl.sum(combined_8 * combined_8, 1) * inverse_V
        value_11 = tl.exp(-0.5 * tl.log(value_10 + 1e-06))
        value_12 = tl.sum(value_2 * combined_8, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_10 + 1e-06)))
        combined_9 = value_2 * value_11[:, None] + (value_12 * inverse_V)[:, None] * (2.0 * combined_8)
        combined_10 = tl.where(
            is_value[None, :],
            d_reads + combined_9 + (tl.sum(-combined_9, 1) * inverse_V)[:, None],
            0.0,
        )
        value_13 = combined_10 * row_scale[:, None]
        product_6 = tl.dot(value_13.to(DOT), tl.trans(combined_4.to(DOT)), input_precision=PRECISION)
        d_scores = tl.where(row[:, None] >= row[None, :], -(product_6 * live_2[None, :]), 0.0)
        product_7 = tl.dot(d_scores.to(DOT), k.to(DOT), input_precision=PRECISION)
        product_8 = tl.dot(combined_10.to(DOT), tl.trans(memory.to(DOT)), input_precision=PRECISION)
        product_9 = tl.dot(value_13.to(DOT), tl.trans(update.to(DOT)), input_precision=PRECISION)
        d_q_block = d_q_pointer + (batch * tokens + start) * d_q_row + head * d_q_head
        tl.store(
            d_q_block + row[:, None] * d_q_row + feature[None, :],
            product_7 + product_8 - product_9,
            mask=live[:, None] & is_feature[None, :],
        )
        combined_11 = tl.sum(-(combined_10 * combined_6), 1) + tl.sum(-(combined_10 * combined_5), 1)
        border = (last == ROWS).to(tl.float32)
        value_14 = tl.where(border > 0.0, 1.0, 0.0)
        d_memory_b_next_2 = d_memory_b_next * value_14
        product_10 = tl.sum(live_2[:, None] * combined_4, 0)
        # A: the block's update so far
        update_b_total = update_b + product_10
        d_memory_next_2 = d_memory_next * value_14
        value_15 = live_2[:, None] * k
        product_11 = tl.dot(tl.trans(value_15.to(DOT)), combined_4.to(DOT), input_precision=PRECISION)
        # A: the block's update so far
        update_total = update + product_11
        combined_12 = tl.sum(-(d_memory_b_next_2 * update_b_total), 0) + tl.sum(
            tl.sum(-(d_memory_next_2 * update_total), 0),
            0,
        )
        border_2 = (live & (row == ROWS - 1)).to(tl.float32)
        d_row_scale_block = (
            d_row_scale_pointer + (batch * tokens + start) * d_row_scale_row + head * d_row_scale_head
        )
        tl.store(d_row_scale_block + row * d_row_scale_row, combined_11 + combined_12 * border_2, mask=live)
        value_16 = tl.where(border > 0.0, 0.0, 1.0)
        total_2 = tl.sum(row_scale * border_2, 0)
        d_update_total = d_update_next * value_16 - d_memory_next_2 * total_2
        product_12 = tl.dot(combined_4.to(DOT), tl.trans(d_update_total.to(DOT)), input_precision=PRECISION)
        d_update_b_total = d_update_b_next * value_16 - d_memory_b_next_2 * total_2
        product_13 = tl.dot(value_15.to(DOT), d_update_total.to(DOT), input_precision=PRECISION)
        product_14 = tl.dot(tl.trans(weights.to(DOT)), value_13.to(DOT), input_precision=PRECISION)
        product_15 = tl.dot(tl.trans(attention.to(DOT)), value_13.to(DOT), input_precision=PRECISION)
        combined_13 = d_update_b_total[None, :] * live_2[:, None] + product_13 - product_14 - product_15
        combined_14 = tl.where(
            is_value[None, :],
            combined_13 - (tl.sum(combined_13, 1) * inverse_V)[:, None],
            0.0,
        )
        value_17 = tl.sum(combined_14 * value_9, 1) * inverse_V
        value_18 = value_17 * value_7
        combined_15 = value_18[:, None] * combined_2 + combined_14 * value_4[:, None]
        d_errors = combined_15 * norm_gain[None, :]
        value_19 = d_errors * norm_gain[None, :]
        value_20 = value_17 * total * (0.75 * tl.exp(-2.5 * tl.log(value_3 + 1e-06)))
        combined_16 = tl.sum(combined_14 * value_6, 1) + tl.sum(value_19 * combined_2, 1)
        value_21 = ((value_20 + combined_16 * value_7) * inverse_V)[:, None] * value_9
        combined_17 = (
            2.0 * (combined_14 * value_8[:, None])
            + value_18[:, None] * value_6
            + value_19 * value_4[:, None]
            + value_21
        )
        combined_18 = tl.where(
            is_value[None, :],
            combined_17 + (tl.sum(-combined_17, 1) * inverse_V)[:, None],
            0.0,
        )
        product_16 = tl.dot(combined_18.to(DOT), tl.trans(memory.to(DOT)), input_precision=PRECISION)
        product_17 = tl.dot(tl.trans(d_scores.to(DOT)), q.to(DOT), input_precision=PRECISION)
        combined_19 = product_12 * live_2[:, None] + d_errors + product_16 + product_17
        d_k_block = d_k_pointer + (batch * tokens + start) * d_k_row + head * d_k_head
        tl.store(
            d_k_block + row[:, None] * d_k_row + feature[None, :],
            combined_19,
            mask=live[:, None] & is_feature[None, :],
        )
        combined_20 = (
            tl.sum(d_reads * (combined_8 * value_11[:, None]), 0)
            + tl.sum(combined_15 * errors, 0)
            + tl.sum(d_errors * value_5, 0)
        )
        tl.store(d_norm_gain_blocks_pointer + slot * V + value, combined_20, mask=is_value)
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
        product_18 = tl.dot(tl.trans(k.to(DOT)), combined_18.to(DOT), input_precision=PRECISION)
        product_19 = tl.dot(tl.trans(q.to(DOT)), combined_10.to(DOT), input_precision=PRECISION)
        combined_21 = d_memory_next * value_16 + d_memory_next_2 + product_18 + product_19
        product_20 = tl.dot(tl.trans(q.to(DOT)), value_13.to(DOT), input_precision=PRECISION)
        combined_22 = (
            d_memory_b_next * value_16 + d_memory_b_next_2 + tl.sum(combined_10, 0) + tl.sum(combined_18, 0)
        )
        d_memory_next = combined_21
        d_update_next = d_update_total - product_20
        d_memory_b_next = combined_22
        d_update_b_next = d_update_b_total + tl.sum(-value_13, 0)
    if GRAD_INITIAL:
        tl.store(
            d_memory_pointer + memory_index * (K * V) + feature[:, None] * V + value[None, :],
            d_memory_next,
            mask=is_feature[:, None] & is_value[None, :],
        )
        tl.store(
            d_update_pointer + memory_index * (K * V) + feature[:, None] * V + value[None, :],
            d_update_next,
            mask=is_feature[:, None] & is_value[None, :],
        )
        tl.store(d_memory_b_pointer + memory_index * V + value, d_memory_b_next, mask=is_value)
        tl.store(d_update_b_pointer + memory_index * V + value, d_update_b_next, mask=is_value)

"""Kernels of the memory rule ttt_linear_fla (split_all_rows_4).

Rule 981a48b536fe, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
"""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["tokens", "blocks"])
def gates(
    gate_value_0_pointer,
    length_pointer,
    position_pointer,
    row_scale_pointer,
    row_scale_head,
    row_scale_row,
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
    position = tl.load(position_pointer + batch) if RESUME else 0
    phase = position % ROWS
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    row_scale_block = row_scale_pointer + (batch * tokens + start) * row_scale_row + head * row_scale_head
    row_scale = tl.load(row_scale_block + row * row_scale_row, mask=live, other=0.0).to(tl.float32)
    border = (live & (row == ROWS - 1)).to(tl.float32)
    tl.store(gate_value_0_pointer + slot, tl.sum(row_scale * border, 0))


@triton.jit(do_not_specialize=["tokens", "blocks"])
def state(
    gate_value_0_pointer,
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
    update_b_blocks_pointer,
    update_b_final_pointer,
    update_b_pointer,
    update_blocks_pointer,
    update_final_pointer,
    update_pointer,
    v_pointer,
    k_head,
    k_row,
    v_head,
    v_row,
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
    TILE_ROWS: tl.constexpr,
    V: tl.constexpr,
):
    """The memory from block to block, saved at the start of each."""
    program = tl.program_id(0)
    memory_index = tl.cast(program, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
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
        # A: the block's update so far
        update_total = update
        # A: the block's update so far
        update_b_total = update_b
        for row_start in range(0, ROWS, TILE_ROWS):
            source = row_start + tl.arange(0, TILE_ROWS)
            is_source = (source >= first) & (source < last)
            live_2 = is_source.to(tl.float32)
            k = tl.load(
                k_block + source[:, None] * k_row + feature[None, :],
                mask=is_source[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            product = tl.dot(k.to(DOT), memory.to(DOT), input_precision=PRECISION)
            combined = product + memory_b[None, :]
            combined_2 = tl.where(
                is_value[None, :],
                combined - (tl.sum(combined, 1) * inverse_V)[:, None],
                0.0,
            )
            value_2 = tl.sum(combined_2 * combined_2, 1) * inverse_V
            value_3 = tl.exp(-0.5 * tl.log(value_2 + 1e-06))
            # pred = phi(k) M*
            predictions = combined_2 * value_3[:, None] * norm_gain[None, :] + norm_bias[None, :]
            v = tl.load(
                v_block + source[:, None] * v_row + value[None, :],
                mask=is_source[:, None] & is_value[None, :],
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
            update_total += tl.dot(
                tl.trans((live_2[:, None] * k).to(DOT)),
                combined_4.to(DOT),
                input_precision=PRECISION,
            )
            update_b_total += tl.sum(live_2[:, None] * combined_4, 0)
        value_0 = tl.load(gate_value_0_pointer + slot)
        # M at the end
        memory_next = memory - value_0 * update_total
        border = (last == ROWS).to(tl.float32)
        # M at the end
        memory_b_next = memory_b - value_0 * update_b_total
        memory = tl.where(border > 0.0, memory_next, memory)
        update = tl.where(border > 0.0, 0.0, update_total)
        memory_b = tl.where(border > 0.0, memory_b_next, memory_b)
        update_b = tl.where(border > 0.0, 0.0, update_b_total)
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
def output(
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
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
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
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    row_scale_block = row_scale_pointer + (batch * tokens + start) * row_scale_row + head * row_scale_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
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
    value_2 = tl.sum(combined_2 * combined_2, 1) * inverse_V
    value_3 = tl.exp(-0.5 * tl.log(value_2 + 1e-06))
    norm_gain = tl.load(norm_gain_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    norm_bias = tl.load(norm_bias_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
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
    combined_4 = tl.where(is_value[None, :], combined_3 + (tl.sum(-combined_3, 1) * inverse_V)[:, None], 0.0)
    product_4 = tl.dot(attention.to(DOT), combined_4.to(DOT), input_precision=PRECISION)
    update_b = tl.load(update_b_blocks_pointer + slot * V + value, mask=is_value, other=0.0)
    # P: source weights by read
    weights = tl.where(row[:, None] >= row[None, :], live_2[None, :], 0.0)
    product_5 = tl.dot(weights.to(DOT), combined_4.to(DOT), input_precision=PRECISION)
    combined_5 = memory_b[None, :] - row_scale[:, None] * (update_b[None, :] + product_5)
    combined_6 = product - row_scale[:, None] * (product_2 + product_4) + combined_5
    combined_7 = tl.where(is_value[None, :], combined_6 - (tl.sum(combined_6, 1) * inverse_V)[:, None], 0.0)
    value_6 = tl.exp(-0.5 * tl.log(tl.sum(combined_7 * combined_7, 1) * inverse_V + 1e-06))
    combined_8 = combined_7 * value_6[:, None] * norm_gain[None, :] + norm_bias[None, :]
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = combined_6 + combined_8
    y_block = y_pointer + (batch * tokens + start) * y_row + head * y_head
    tl.store(y_block + row[:, None] * y_row + value[None, :], reads, mask=live[:, None] & is_value[None, :])


@triton.jit(do_not_specialize=["tokens", "blocks"])
def state_gradient(
    d_memory_b_final_pointer,
    d_memory_b_next_blocks_pointer,
    d_memory_b_pointer,
    d_memory_final_pointer,
    d_memory_next_blocks_pointer,
    d_memory_pointer,
    d_update_b_final_pointer,
    d_update_b_next_blocks_pointer,
    d_update_b_pointer,
    d_update_final_pointer,
    d_update_next_blocks_pointer,
    d_update_pointer,
    d_y_pointer,
    gate_value_0_pointer,
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
    TILE_ROWS: tl.constexpr,
    V: tl.constexpr,
):
    """The gradient of the memory from the last block to the first, saved after each."""
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
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
        q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
        row_scale_block = row_scale_pointer + (batch * tokens + start) * row_scale_row + head * row_scale_head
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
        tl.store(
            d_memory_next_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
            d_memory_next,
            mask=is_feature[:, None] & is_value[None, :],
        )
        tl.store(
            d_update_next_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
            d_update_next,
            mask=is_feature[:, None] & is_value[None, :],
        )
        tl.store(d_memory_b_next_blocks_pointer + slot * V + value, d_memory_b_next, mask=is_value)
        tl.store(d_update_b_next_blocks_pointer + slot * V + value, d_update_b_next, mask=is_value)
        q = tl.load(
            q_block + row[:, None] * q_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        update = tl.load(
            update_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
            mask=is_feature[:, None] & is_value[None, :],
            other=0.0,
        )
        product = tl.dot(q.to(DOT), update.to(DOT), input_precision=PRECISION)
        combined = product
        update_b = tl.load(update_b_blocks_pointer + slot * V + value, mask=is_value, other=0.0)
        combined_2 = tl.zeros([BLOCK_ROWS, BLOCK_V], dtype=tl.float32) + update_b[None, :]
        memory = tl.load(
            memory_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
            mask=is_feature[:, None] & is_value[None, :],
            other=0.0,
        )
        memory_b = tl.load(memory_b_blocks_pointer + slot * V + value, mask=is_value, other=0.0)
        for row_start in range(0, ROWS, TILE_ROWS):
            source = row_start + tl.arange(0, TILE_ROWS)
            is_source = (source >= first) & (source < last)
            live_2 = is_source.to(tl.float32)
            k = tl.load(
                k_block + source[:, None] * k_row + feature[None, :],
                mask=is_source[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            # Q X^T
            scores = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
            # (Q X^T) * P
            attention = tl.where(row[:, None] >= source[None, :], live_2[None, :] * scores, 0.0)
            product_2 = tl.dot(k.to(DOT), memory.to(DOT), input_precision=PRECISION)
            combined_3 = product_2 + memory_b[None, :]
            combined_4 = tl.where(
                is_value[None, :],
                combined_3 - (tl.sum(combined_3, 1) * inverse_V)[:, None],
                0.0,
            )
            value_2 = tl.sum(combined_4 * combined_4, 1) * inverse_V
            value_3 = tl.exp(-0.5 * tl.log(value_2 + 1e-06))
            # pred = phi(k) M*
            predictions = combined_4 * value_3[:, None] * norm_gain[None, :] + norm_bias[None, :]
            v = tl.load(
                v_block + source[:, None] * v_row + value[None, :],
                mask=is_source[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
            # E = dl/dpred at the block's M*
            errors = predictions - (v - k)
            value_4 = errors * norm_gain[None, :]
            total = tl.sum(value_4 * combined_4, 1)
            value_5 = -0.5 * tl.exp(-1.5 * tl.log(value_2 + 1e-06))
            value_6 = total * value_5 * inverse_V
            value_7 = 2.0 * combined_4
            combined_5 = value_4 * value_3[:, None] + value_6[:, None] * value_7
            combined_6 = tl.where(
                is_value[None, :],
                combined_5 + (tl.sum(-combined_5, 1) * inverse_V)[:, None],
                0.0,
            )
            combined += tl.dot(attention.to(DOT), combined_6.to(DOT), input_precision=PRECISION)
            # P: source weights by read
            weights = tl.where(row[:, None] >= source[None, :], live_2[None, :], 0.0)
            combined_2 += tl.dot(weights.to(DOT), combined_6.to(DOT), input_precision=PRECISION)
        border = (last == ROWS).to(tl.float32)
        value_8 = tl.where(border > 0.0, 0.0, 1.0)
        value_9 = tl.where(border > 0.0, 1.0, 0.0)
        d_memory_next_2 = d_memory_next * value_9
        d_reads = tl.load(
            d_y_block + row[:, None] * d_y_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        value_10 = d_reads * norm_gain[None, :]
        product_3 = tl.dot(q.to(DOT), memory.to(DOT), input_precision=PRECISION)
        row_scale = tl.load(row_scale_block + row * row_scale_row, mask=live, other=0.0).to(tl.float32)
        combined_8 = (
            product_3 - row_scale[:, None] * combined + (memory_b[None, :] - row_scale[:, None] * combined_2)
        )
        combined_9 = tl.where(
            is_value[None, :],
            combined_8 - (tl.sum(combined_8, 1) * inverse_V)[:, None],
            0.0,
        )
        value_11 = tl.sum(combined_9 * combined_9, 1) * inverse_V
        value_12 = tl.sum(value_10 * combined_9, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_11 + 1e-06)))
        combined_10 = (
            value_10 * tl.exp(-0.5 * tl.log(value_11 + 1e-06))[:, None]
            + (value_12 * inverse_V)[:, None] * (2.0 * combined_9)
        )
        combined_11 = tl.where(
            is_value[None, :],
            d_reads + combined_10 + (tl.sum(-combined_10, 1) * inverse_V)[:, None],
            0.0,
        )
        product_4 = tl.dot(tl.trans(q.to(DOT)), combined_11.to(DOT), input_precision=PRECISION)
        combined_7 = d_memory_next * value_8 + d_memory_next_2 + product_4
        d_memory_b_next_2 = d_memory_b_next * value_9
        combined_12 = d_memory_b_next * value_8 + d_memory_b_next_2 + tl.sum(combined_11, 0)
        value_0 = tl.load(gate_value_0_pointer + slot)
        d_update_b_total = d_update_b_next * value_8 - d_memory_b_next_2 * value_0
        d_update_total = d_update_next * value_8 - d_memory_next_2 * value_0
        value_13 = combined_11 * row_scale[:, None]
        for row_start in range(0, ROWS, TILE_ROWS):
            source = row_start + tl.arange(0, TILE_ROWS)
            is_source = (source >= first) & (source < last)
            live_3 = is_source.to(tl.float32)
            k_2 = tl.load(
                k_block + source[:, None] * k_row + feature[None, :],
                mask=is_source[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            product_5 = tl.dot(
                (live_3[:, None] * k_2).to(DOT),
                d_update_total.to(DOT),
                input_precision=PRECISION,
            )
            # P: source weights by read
            weights_2 = tl.where(row[:, None] >= source[None, :], live_3[None, :], 0.0)
            product_6 = tl.dot(tl.trans(weights_2.to(DOT)), value_13.to(DOT), input_precision=PRECISION)
            # Q X^T
            scores_2 = tl.dot(q.to(DOT), tl.trans(k_2.to(DOT)), input_precision=PRECISION)
            # (Q X^T) * P
            attention_2 = tl.where(row[:, None] >= source[None, :], live_3[None, :] * scores_2, 0.0)
            product_7 = tl.dot(tl.trans(attention_2.to(DOT)), value_13.to(DOT), input_precision=PRECISION)
            combined_13 = d_update_b_total[None, :] * live_3[:, None] + product_5 - product_6 - product_7
            combined_14 = tl.where(
                is_value[None, :],
                combined_13 - (tl.sum(combined_13, 1) * inverse_V)[:, None],
                0.0,
            )
            product_8 = tl.dot(k_2.to(DOT), memory.to(DOT), input_precision=PRECISION)
            combined_15 = product_8 + memory_b[None, :]
            combined_16 = tl.where(
                is_value[None, :],
                combined_15 - (tl.sum(combined_15, 1) * inverse_V)[:, None],
                0.0,
            )
            value_14 = tl.sum(combined_16 * combined_16, 1) * inverse_V
            value_15 = tl.exp(-0.5 * tl.log(value_14 + 1e-06))
            # pred = phi(k) M*
            predictions_2 = combined_16 * value_15[:, None] * norm_gain[None, :] + norm_bias[None, :]
            v_2 = tl.load(
                v_block + source[:, None] * v_row + value[None, :],
                mask=is_source[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
            # E = dl/dpred at the block's M*
            errors_2 = predictions_2 - (v_2 - k_2)
            value_16 = errors_2 * norm_gain[None, :]
            total_2 = tl.sum(value_16 * combined_16, 1)
            value_17 = -0.5 * tl.exp(-1.5 * tl.log(value_14 + 1e-06))
            value_18 = total_2 * value_17 * inverse_V
            value_19 = 2.0 * combined_16
            value_20 = tl.sum(combined_14 * value_19, 1) * inverse_V
            value_21 = value_20 * value_17
            combined_17 = value_21[:, None] * combined_16 + combined_14 * value_15[:, None]
            d_errors = combined_17 * norm_gain[None, :]
            value_22 = d_errors * norm_gain[None, :]
            value_23 = value_20 * total_2 * (0.75 * tl.exp(-2.5 * tl.log(value_14 + 1e-06)))
            combined_18 = tl.sum(combined_14 * value_16, 1) + tl.sum(value_22 * combined_16, 1)
            value_24 = ((value_23 + combined_18 * value_17) * inverse_V)[:, None] * value_19
            combined_19 = (
                2.0 * (combined_14 * value_18[:, None])
                + value_21[:, None] * value_16
                + value_22 * value_15[:, None]
                + value_24
            )
            combined_20 = tl.where(
                is_value[None, :],
                combined_19 + (tl.sum(-combined_19, 1) * inverse_V)[:, None],
                0.0,
            )
            combined_7 += tl.dot(tl.trans(k_2.to(DOT)), combined_20.to(DOT), input_precision=PRECISION)
            combined_12 += tl.sum(combined_20, 0)
        product_9 = tl.dot(tl.trans(q.to(DOT)), value_13.to(DOT), input_precision=PRECISION)
        d_memory_next = combined_7
        d_update_next = d_update_total - product_9
        d_memory_b_next = combined_12
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


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_v(
    d_errors_rows_pointer,
    d_memory_b_next_blocks_pointer,
    d_memory_next_blocks_pointer,
    d_update_b_next_blocks_pointer,
    d_update_next_blocks_pointer,
    d_v_pointer,
    d_y_pointer,
    gate_value_0_pointer,
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
    """Gradients of one block: d_v, d_errors_rows."""
    program = tl.program_id(0)
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
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
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    row_scale_block = row_scale_pointer + (batch * tokens + start) * row_scale_row + head * row_scale_head
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    d_update_b_next = tl.load(d_update_b_next_blocks_pointer + slot * V + value, mask=is_value, other=0.0)
    border = (last == ROWS).to(tl.float32)
    value_2 = tl.where(border > 0.0, 0.0, 1.0)
    d_memory_b_next = tl.load(d_memory_b_next_blocks_pointer + slot * V + value, mask=is_value, other=0.0)
    value_3 = tl.where(border > 0.0, 1.0, 0.0)
    d_memory_b_next_2 = d_memory_b_next * value_3
    value_0 = tl.load(gate_value_0_pointer + slot)
    d_update_b_total = d_update_b_next * value_2 - d_memory_b_next_2 * value_0
    live_2 = live.to(tl.float32)
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    d_update_next = tl.load(
        d_update_next_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
        mask=is_feature[:, None] & is_value[None, :],
        other=0.0,
    )
    d_memory_next = tl.load(
        d_memory_next_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
        mask=is_feature[:, None] & is_value[None, :],
        other=0.0,
    )
    d_memory_next_2 = d_memory_next * value_3
    d_update_total = d_update_next * value_2 - d_memory_next_2 * value_0
    product = tl.dot(k.to(DOT), d_update_total.to(DOT), input_precision=PRECISION)
    d_reads = tl.load(
        d_y_block + row[:, None] * d_y_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    norm_gain = tl.load(norm_gain_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    value_4 = d_reads * norm_gain[None, :]
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
    product_2 = tl.dot(q.to(DOT), memory.to(DOT), input_precision=PRECISION)
    row_scale = tl.load(row_scale_block + row * row_scale_row, mask=live, other=0.0).to(tl.float32)
    update = tl.load(
        update_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
        mask=is_feature[:, None] & is_value[None, :],
        other=0.0,
    )
    product_3 = tl.dot(q.to(DOT), update.to(DOT), input_precision=PRECISION)
    # Q X^T
    scores = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
    # (Q X^T) * P
    attention = tl.where(row[:, None] >= row[None, :], live_2[None, :] * scores, 0.0)
    product_4 = tl.dot(k.to(DOT), memory.to(DOT), input_precision=PRECISION)
    memory_b = tl.load(memory_b_blocks_pointer + slot * V + value, mask=is_value, other=0.0)
    combined = product_4 + memory_b[None, :]
    combined_2 = tl.where(is_value[None, :], combined - (tl.sum(combined, 1) * inverse_V)[:, None], 0.0)
    value_5 = tl.sum(combined_2 * combined_2, 1) * inverse_V
    value_6 = tl.exp(-0.5 * tl.log(value_5 + 1e-06))
    norm_bias = tl.load(norm_bias_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    # pred = phi(k) M*
    predictions = combined_2 * value_6[:, None] * norm_gain[None, :] + norm_bias[None, :]
    v = tl.load(
        v_block + row[:, None] * v_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    # E = dl/dpred at the block's M*
    errors = predictions - (v - k)
    value_7 = errors * norm_gain[None, :]
    value_8 = -0.5 * tl.exp(-1.5 * tl.log(value_5 + 1e-06))
    value_9 = 2.0 * combined_2
    value_10 = (tl.sum(value_7 * combined_2, 1) * value_8 * inverse_V)[:, None] * value_9
    combined_3 = value_7 * value_6[:, None] + value_10
    combined_4 = tl.where(is_value[None, :], combined_3 + (tl.sum(-combined_3, 1) * inverse_V)[:, None], 0.0)
    product_5 = tl.dot(attention.to(DOT), combined_4.to(DOT), input_precision=PRECISION)
    update_b = tl.load(update_b_blocks_pointer + slot * V + value, mask=is_value, other=0.0)
    # P: source weights by read
    weights = tl.where(row[:, None] >= row[None, :], live_2[None, :], 0.0)
    product_6 = tl.dot(weights.to(DOT), combined_4.to(DOT), input_precision=PRECISION)
    combined_5 = memory_b[None, :] - row_scale[:, None] * (update_b[None, :] + product_6)
    combined_6 = product_2 - row_scale[:, None] * (product_3 + product_5) + combined_5
    combined_7 = tl.where(is_value[None, :], combined_6 - (tl.sum(combined_6, 1) * inverse_V)[:, None], 0.0)
    value_11 = tl.sum(combined_7 * combined_7, 1) * inverse_V
    value_12 = tl.sum(value_4 * combined_7, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_11 + 1e-06)))
    combined_8 = (
        value_4 * tl.exp(-0.5 * tl.log(value_11 + 1e-06))[:, None]
        + (value_12 * inverse_V)[:, None] * (2.0 * combined_7)
    )
    combined_9 = tl.where(
        is_value[None, :],
        d_reads + combined_8 + (tl.sum(-combined_8, 1) * inverse_V)[:, None],
        0.0,
    )
    value_13 = combined_9 * row_scale[:, None]
    product_7 = tl.dot(tl.trans(weights.to(DOT)), value_13.to(DOT), input_precision=PRECISION)
    product_8 = tl.dot(tl.trans(attention.to(DOT)), value_13.to(DOT), input_precision=PRECISION)
    combined_10 = (
        d_update_b_total[None, :] * live_2[:, None] + product * live_2[:, None] - product_7 - product_8
    )
    combined_11 = tl.where(
        is_value[None, :],
        combined_10 - (tl.sum(combined_10, 1) * inverse_V)[:, None],
        0.0,
    )
    value_14 = (tl.sum(combined_11 * value_9, 1) * inverse_V * value_8)[:, None] * combined_2
    value_15 = (value_14 + combined_11 * value_6[:, None]) * norm_gain[None, :]
    d_v_block = d_v_pointer + (batch * tokens + start) * d_v_row + head * d_v_head
    tl.store(
        d_v_block + row[:, None] * d_v_row + value[None, :],
        -value_15,
        mask=live[:, None] & is_value[None, :],
    )
    tl.store(
        d_errors_rows_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        value_15,
        mask=(row < ROWS)[:, None] & is_value[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_q(
    d_q_pointer,
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
    d_q_head,
    d_q_row,
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
    value = tl.arange(0, BLOCK_V)
    is_value = value < V
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    position = tl.load(position_pointer + batch) if RESUME else 0
    phase = position % ROWS
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
    norm_gain = tl.load(norm_gain_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
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
    norm_bias = tl.load(norm_bias_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    # pred = phi(k) M*
    predictions = combined_2 * value_4[:, None] * norm_gain[None, :] + norm_bias[None, :]
    v = tl.load(
        v_block + row[:, None] * v_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    # E = dl/dpred at the block's M*
    errors = predictions - (v - k)
    value_5 = errors * norm_gain[None, :]
    value_6 = tl.sum(value_5 * combined_2, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_3 + 1e-06)))
    combined_3 = value_5 * value_4[:, None] + (value_6 * inverse_V)[:, None] * (2.0 * combined_2)
    combined_4 = tl.where(is_value[None, :], combined_3 + (tl.sum(-combined_3, 1) * inverse_V)[:, None], 0.0)
    product_4 = tl.dot(attention.to(DOT), combined_4.to(DOT), input_precision=PRECISION)
    update_b = tl.load(update_b_blocks_pointer + slot * V + value, mask=is_value, other=0.0)
    # P: source weights by read
    weights = tl.where(row[:, None] >= row[None, :], live_2[None, :], 0.0)
    product_5 = tl.dot(weights.to(DOT), combined_4.to(DOT), input_precision=PRECISION)
    combined_5 = memory_b[None, :] - row_scale[:, None] * (update_b[None, :] + product_5)
    combined_6 = product - row_scale[:, None] * (product_2 + product_4) + combined_5
    combined_7 = tl.where(is_value[None, :], combined_6 - (tl.sum(combined_6, 1) * inverse_V)[:, None], 0.0)
    value_7 = tl.sum(combined_7 * combined_7, 1) * inverse_V
    value_8 = tl.sum(value_2 * combined_7, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_7 + 1e-06)))
    combined_8 = (
        value_2 * tl.exp(-0.5 * tl.log(value_7 + 1e-06))[:, None]
        + (value_8 * inverse_V)[:, None] * (2.0 * combined_7)
    )
    combined_9 = tl.where(
        is_value[None, :],
        d_reads + combined_8 + (tl.sum(-combined_8, 1) * inverse_V)[:, None],
        0.0,
    )
    product_6 = tl.dot(combined_9.to(DOT), tl.trans(memory.to(DOT)), input_precision=PRECISION)
    value_9 = combined_9 * row_scale[:, None]
    product_7 = tl.dot(value_9.to(DOT), tl.trans(update.to(DOT)), input_precision=PRECISION)
    product_8 = tl.dot(
        value_9.to(DOT),
        tl.trans((combined_4 * live_2[:, None]).to(DOT)),
        input_precision=PRECISION,
    )
    product_9 = tl.dot(
        tl.where(row[:, None] >= row[None, :], -product_8, 0.0).to(DOT),
        k.to(DOT),
        input_precision=PRECISION,
    )
    d_q_block = d_q_pointer + (batch * tokens + start) * d_q_row + head * d_q_head
    tl.store(
        d_q_block + row[:, None] * d_q_row + feature[None, :],
        product_6 - product_7 + product_9,
        mask=live[:, None] & is_feature[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_k(
    d_errors_rows_pointer,
    d_k_pointer,
    d_memory_b_next_blocks_pointer,
    d_memory_next_blocks_pointer,
    d_update_b_next_blocks_pointer,
    d_update_next_blocks_pointer,
    d_y_pointer,
    gate_value_0_pointer,
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
    value = tl.arange(0, BLOCK_V)
    is_value = value < V
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    position = tl.load(position_pointer + batch) if RESUME else 0
    phase = position % ROWS
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    row_scale_block = row_scale_pointer + (batch * tokens + start) * row_scale_row + head * row_scale_head
    d_update_next = tl.load(
        d_update_next_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
        mask=is_feature[:, None] & is_value[None, :],
        other=0.0,
    )
    border = (last == ROWS).to(tl.float32)
    value_2 = tl.where(border > 0.0, 0.0, 1.0)
    d_memory_next = tl.load(
        d_memory_next_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
        mask=is_feature[:, None] & is_value[None, :],
        other=0.0,
    )
    value_3 = tl.where(border > 0.0, 1.0, 0.0)
    d_memory_next_2 = d_memory_next * value_3
    value_0 = tl.load(gate_value_0_pointer + slot)
    d_update_total = d_update_next * value_2 - d_memory_next_2 * value_0
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
    product = tl.dot(k.to(DOT), memory.to(DOT), input_precision=PRECISION)
    memory_b = tl.load(memory_b_blocks_pointer + slot * V + value, mask=is_value, other=0.0)
    combined = product + memory_b[None, :]
    combined_2 = tl.where(is_value[None, :], combined - (tl.sum(combined, 1) * inverse_V)[:, None], 0.0)
    value_4 = tl.sum(combined_2 * combined_2, 1) * inverse_V
    value_5 = tl.exp(-0.5 * tl.log(value_4 + 1e-06))
    norm_gain = tl.load(norm_gain_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    norm_bias = tl.load(norm_bias_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    # pred = phi(k) M*
    predictions = combined_2 * value_5[:, None] * norm_gain[None, :] + norm_bias[None, :]
    v = tl.load(
        v_block + row[:, None] * v_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    # E = dl/dpred at the block's M*
    errors = predictions - (v - k)
    value_6 = errors * norm_gain[None, :]
    total = tl.sum(value_6 * combined_2, 1)
    value_7 = -0.5 * tl.exp(-1.5 * tl.log(value_4 + 1e-06))
    value_8 = total * value_7 * inverse_V
    value_9 = 2.0 * combined_2
    combined_3 = value_6 * value_5[:, None] + value_8[:, None] * value_9
    combined_4 = tl.where(is_value[None, :], combined_3 + (tl.sum(-combined_3, 1) * inverse_V)[:, None], 0.0)
    live_2 = live.to(tl.float32)
    value_10 = combined_4 * live_2[:, None]
    product_2 = tl.dot(value_10.to(DOT), tl.trans(d_update_total.to(DOT)), input_precision=PRECISION)
    d_update_b_next = tl.load(d_update_b_next_blocks_pointer + slot * V + value, mask=is_value, other=0.0)
    d_memory_b_next = tl.load(d_memory_b_next_blocks_pointer + slot * V + value, mask=is_value, other=0.0)
    d_memory_b_next_2 = d_memory_b_next * value_3
    d_update_b_total = d_update_b_next * value_2 - d_memory_b_next_2 * value_0
    product_3 = tl.dot(k.to(DOT), d_update_total.to(DOT), input_precision=PRECISION)
    d_reads = tl.load(
        d_y_block + row[:, None] * d_y_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    value_11 = d_reads * norm_gain[None, :]
    q = tl.load(
        q_block + row[:, None] * q_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    product_4 = tl.dot(q.to(DOT), memory.to(DOT), input_precision=PRECISION)
    row_scale = tl.load(row_scale_block + row * row_scale_row, mask=live, other=0.0).to(tl.float32)
    update = tl.load(
        update_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
        mask=is_feature[:, None] & is_value[None, :],
        other=0.0,
    )
    product_5 = tl.dot(q.to(DOT), update.to(DOT), input_precision=PRECISION)
    # Q X^T
    scores = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
    # (Q X^T) * P
    attention = tl.where(row[:, None] >= row[None, :], live_2[None, :] * scores, 0.0)
    product_6 = tl.dot(attention.to(DOT), combined_4.to(DOT), input_precision=PRECISION)
    update_b = tl.load(update_b_blocks_pointer + slot * V + value, mask=is_value, other=0.0)
    # P: source weights by read
    weights = tl.where(row[:, None] >= row[None, :], live_2[None, :], 0.0)
    product_7 = tl.dot(weights.to(DOT), combined_4.to(DOT), input_precision=PRECISION)
    combined_5 = memory_b[None, :] - row_scale[:, None] * (update_b[None, :] + product_7)
    combined_6 = product_4 - row_scale[:, None] * (product_5 + product_6) + combined_5
    combined_7 = tl.where(is_value[None, :], combined_6 - (tl.sum(combined_6, 1) * inverse_V)[:, None], 0.0)
    value_12 = tl.sum(combined_7 * combined_7, 1) * inverse_V
    value_13 = tl.sum(value_11 * combined_7, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_12 + 1e-06)))
    combined_8 = (
        value_11 * tl.exp(-0.5 * tl.log(value_12 + 1e-06))[:, None]
        + (value_13 * inverse_V)[:, None] * (2.0 * combined_7)
    )
    combined_9 = tl.where(
        is_value[None, :],
        d_reads + combined_8 + (tl.sum(-combined_8, 1) * inverse_V)[:, None],
        0.0,
    )
    value_14 = combined_9 * row_scale[:, None]
    product_8 = tl.dot(tl.trans(weights.to(DOT)), value_14.to(DOT), input_precision=PRECISION)
    product_9 = tl.dot(tl.trans(attention.to(DOT)), value_14.to(DOT), input_precision=PRECISION)
    combined_10 = (
        d_update_b_total[None, :] * live_2[:, None] + product_3 * live_2[:, None] - product_8 - product_9
    )
    combined_11 = tl.where(
        is_value[None, :],
        combined_10 - (tl.sum(combined_10, 1) * inverse_V)[:, None],
        0.0,
    )
    value_15 = tl.sum(combined_11 * value_9, 1) * inverse_V
    d_errors = tl.load(
        d_errors_rows_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    value_16 = d_errors * norm_gain[None, :]
    value_17 = value_15 * total * (0.75 * tl.exp(-2.5 * tl.log(value_4 + 1e-06)))
    combined_12 = tl.sum(combined_11 * value_6, 1) + tl.sum(value_16 * combined_2, 1)
    value_18 = ((value_17 + combined_12 * value_7) * inverse_V)[:, None] * value_9
    combined_13 = (
        2.0 * (combined_11 * value_8[:, None])
        + (value_15 * value_7)[:, None] * value_6
        + value_16 * value_5[:, None]
        + value_18
    )
    combined_14 = tl.where(
        is_value[None, :],
        combined_13 + (tl.sum(-combined_13, 1) * inverse_V)[:, None],
        0.0,
    )
    product_10 = tl.dot(combined_14.to(DOT), tl.trans(memory.to(DOT)), input_precision=PRECISION)
    product_11 = tl.dot(value_14.to(DOT), tl.trans(value_10.to(DOT)), input_precision=PRECISION)
    product_12 = tl.dot(
        tl.trans(tl.where(row[:, None] >= row[None, :], -product_11, 0.0).to(DOT)),
        q.to(DOT),
        input_precision=PRECISION,
    )
    d_k_block = d_k_pointer + (batch * tokens + start) * d_k_row + head * d_k_head
    tl.store(
        d_k_block + row[:, None] * d_k_row + feature[None, :],
        product_2 + product_10 + d_errors + product_12,
        mask=live[:, None] & is_feature[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_carried(
    d_errors_rows_pointer,
    d_gate_value_0_pointer,
    d_memory_b_next_blocks_pointer,
    d_memory_next_blocks_pointer,
    d_norm_bias_blocks_pointer,
    d_norm_gain_blocks_pointer,
    d_row_scale_pointer,
    d_update_b_next_blocks_pointer,
    d_update_next_blocks_pointer,
    d_y_pointer,
    gate_value_0_pointer,
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
    d_row_scale_head,
    d_row_scale_row,
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
    """Gradients of one block: d_norm_gain_blocks, d_norm_bias_blocks, d_gate_value_0, d_row_scale."""
    program = tl.program_id(0)
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
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
    value_2 = tl.sum(combined_2 * combined_2, 1) * inverse_V
    value_3 = tl.exp(-0.5 * tl.log(value_2 + 1e-06))
    value_4 = combined_2 * value_3[:, None]
    norm_gain = tl.load(norm_gain_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    norm_bias = tl.load(norm_bias_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    # pred = phi(k) M*
    predictions = value_4 * norm_gain[None, :] + norm_bias[None, :]
    v = tl.load(
        v_block + row[:, None] * v_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    # E = dl/dpred at the block's M*
    errors = predictions - (v - k)
    value_5 = errors * norm_gain[None, :]
    value_6 = -0.5 * tl.exp(-1.5 * tl.log(value_2 + 1e-06))
    value_7 = 2.0 * combined_2
    value_8 = (tl.sum(value_5 * combined_2, 1) * value_6 * inverse_V)[:, None] * value_7
    combined_3 = value_5 * value_3[:, None] + value_8
    combined_4 = tl.where(is_value[None, :], combined_3 + (tl.sum(-combined_3, 1) * inverse_V)[:, None], 0.0)
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
    combined_8 = tl.where(is_value[None, :], combined_7 - (tl.sum(combined_7, 1) * inverse_V)[:, None], 0.0)
    value_9 = tl.sum(combined_8 * combined_8, 1) * inverse_V
    value_10 = tl.exp(-0.5 * tl.log(value_9 + 1e-06))
    d_update_b_next = tl.load(d_update_b_next_blocks_pointer + slot * V + value, mask=is_value, other=0.0)
    border = (last == ROWS).to(tl.float32)
    value_11 = tl.where(border > 0.0, 0.0, 1.0)
    d_memory_b_next = tl.load(d_memory_b_next_blocks_pointer + slot * V + value, mask=is_value, other=0.0)
    value_12 = tl.where(border > 0.0, 1.0, 0.0)
    d_memory_b_next_2 = d_memory_b_next * value_12
    value_0 = tl.load(gate_value_0_pointer + slot)
    d_update_b_total = d_update_b_next * value_11 - d_memory_b_next_2 * value_0
    d_update_next = tl.load(
        d_update_next_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
        mask=is_feature[:, None] & is_value[None, :],
        other=0.0,
    )
    d_memory_next = tl.load(
        d_memory_next_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
        mask=is_feature[:, None] & is_value[None, :],
        other=0.0,
    )
    d_memory_next_2 = d_memory_next * value_12
    d_update_total = d_update_next * value_11 - d_memory_next_2 * value_0
    product_6 = tl.dot(k.to(DOT), d_update_total.to(DOT), input_precision=PRECISION)
    value_13 = d_reads * norm_gain[None, :]
    value_14 = tl.sum(value_13 * combined_8, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_9 + 1e-06)))
    combined_9 = value_13 * value_10[:, None] + (value_14 * inverse_V)[:, None] * (2.0 * combined_8)
    combined_10 = tl.where(
        is_value[None, :],
        d_reads + combined_9 + (tl.sum(-combined_9, 1) * inverse_V)[:, None],
        0.0,
    )
    value_15 = combined_10 * row_scale[:, None]
    product_7 = tl.dot(tl.trans(weights.to(DOT)), value_15.to(DOT), input_precision=PRECISION)
    product_8 = tl.dot(tl.trans(attention.to(DOT)), value_15.to(DOT), input_precision=PRECISION)
    combined_11 = (
        d_update_b_total[None, :] * live_2[:, None] + product_6 * live_2[:, None] - product_7 - product_8
    )
    combined_12 = tl.where(
        is_value[None, :],
        combined_11 - (tl.sum(combined_11, 1) * inverse_V)[:, None],
        0.0,
    )
    value_16 = (tl.sum(combined_12 * value_7, 1) * inverse_V * value_6)[:, None] * combined_2
    total = tl.sum((value_16 + combined_12 * value_3[:, None]) * errors, 0)
    d_errors = tl.load(
        d_errors_rows_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    combined_13 = (
        tl.sum(d_reads * (combined_8 * value_10[:, None]), 0) + total + tl.sum(d_errors * value_4, 0)
    )
    tl.store(d_norm_gain_blocks_pointer + slot * V + value, combined_13, mask=is_value)
    tl.store(
        d_norm_bias_blocks_pointer + slot * V + value,
        tl.sum(d_reads, 0) + tl.sum(d_errors, 0),
        mask=is_value,
    )
    product_9 = tl.sum(live_2[:, None] * combined_4, 0)
    # A: the block's update so far
    update_b_total = update_b + product_9
    product_10 = tl.dot(
        tl.trans((live_2[:, None] * k).to(DOT)),
        combined_4.to(DOT),
        input_precision=PRECISION,
    )
    # A: the block's update so far
    update_total = update + product_10
    combined_14 = tl.sum(-(d_memory_b_next_2 * update_b_total), 0) + tl.sum(
        tl.sum(-(d_memory_next_2 * update_total), 0),
        0,
    )
    tl.store(d_gate_value_0_pointer + slot, combined_14)
    combined_15 = tl.sum(-(combined_10 * combined_6), 1) + tl.sum(-(combined_10 * combined_5), 1)
    border_2 = (live & (row == ROWS - 1)).to(tl.float32)
    d_row_scale_block = (
        d_row_scale_pointer + (batch * tokens + start) * d_row_scale_row + head * d_row_scale_head
    )
    tl.store(d_row_scale_block + row * d_row_scale_row, combined_15 + combined_14 * border_2, mask=live)

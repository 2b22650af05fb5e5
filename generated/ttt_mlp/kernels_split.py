"""Kernels of the memory rule ttt_mlp (split_all_4_D1).

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
def state(
    k_pointer,
    length_pointer,
    lr_pointer,
    memory_W1_blocks_pointer,
    memory_W1_final_pointer,
    memory_W2_blocks_pointer,
    memory_W2_final_pointer,
    memory_b1_blocks_pointer,
    memory_b1_final_pointer,
    memory_b2_blocks_pointer,
    memory_b2_final_pointer,
    norm_bias_pointer,
    norm_gain_pointer,
    position_pointer,
    row_scale_pointer,
    update_W1_blocks_pointer,
    update_W1_final_pointer,
    update_W2_blocks_pointer,
    update_W2_final_pointer,
    update_b1_blocks_pointer,
    update_b1_final_pointer,
    update_b2_blocks_pointer,
    update_b2_final_pointer,
    v_pointer,
    k_head,
    k_row,
    lr_head,
    lr_row,
    row_scale_columns,
    v_head,
    v_row,
    inverse_V,
    tokens,
    heads,
    blocks,
    HAS_LENGTH: tl.constexpr,
    RESUME: tl.constexpr,
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
    """The memory from block to block, tile by tile: a block writes the next one's start."""
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
    row_scale = tl.load(row_scale_pointer + head * row_scale_columns + 15).to(tl.float32)
    norm_gain = tl.load(norm_gain_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    norm_bias = tl.load(norm_bias_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    for block in tl.range(0, blocks, disable_licm=True):
        slot = memory_index * blocks + block
        start = tl.cast(block, tl.int64) * ROWS - phase
        first = tl.cast(tl.maximum(-start, 0), tl.int32)
        last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
        live = (row >= first) & (row < last)
        lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
        memory_b2 = tl.load(memory_b2_blocks_pointer + slot * V + value, mask=is_value, other=0.0)
        combined = tl.zeros([BLOCK_ROWS, BLOCK_V], dtype=tl.float32) + memory_b2[None, :]
        k = tl.load(
            k_block + row[:, None] * k_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        for hidden_1_start in range(0, D1, BLOCK_D1):
            hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
            is_hidden_1 = hidden_1 < D1
            memory_W1 = tl.load(
                memory_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                mask=is_feature[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            product = tl.dot(k.to(DOT), memory_W1.to(DOT), input_precision=PRECISION)
            memory_b1 = tl.load(memory_b1_blocks_pointer + slot * D1 + hidden_1, mask=is_hidden_1, other=0.0)
            combined_2 = product + memory_b1[None, :]
            value_2 = gelu(combined_2)
            memory_W2 = tl.load(
                memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                mask=is_hidden_1[:, None] & is_value[None, :],
                other=0.0,
            )
            combined += tl.dot(value_2.to(DOT), memory_W2.to(DOT), input_precision=PRECISION)
        update_b2 = tl.load(update_b2_blocks_pointer + slot * V + value, mask=is_value, other=0.0)
        lr = tl.load(lr_block + row * lr_row, mask=live, other=0.0).to(tl.float32)
        live_2 = live.to(tl.float32)
        # p_C: last row of P
        last_weights = lr * live_2
        combined_3 = tl.where(is_value[None, :], combined - (tl.sum(combined, 1) * inverse_V)[:, None], 0.0)
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
        product_2 = tl.sum(last_weights[:, None] * errors_W2, 0)
        # A: the block's update so far
        update_b2_total = update_b2 + product_2
        # M at the end
        memory_b2_next = memory_b2 - row_scale * update_b2_total
        border = (last == ROWS).to(tl.float32)
        following = tl.where(border > 0.0, memory_b2_next, memory_b2)
        if block + 1 < blocks:
            tl.store(memory_b2_blocks_pointer + (slot + 1) * V + value, following, mask=is_value)
        else:
            if STORE_FINAL:
                tl.store(memory_b2_final_pointer + memory_index * V + value, following, mask=is_value)
        following_2 = tl.where(border > 0.0, 0.0, update_b2_total)
        if block + 1 < blocks:
            tl.store(update_b2_blocks_pointer + (slot + 1) * V + value, following_2, mask=is_value)
        else:
            if STORE_FINAL:
                tl.store(update_b2_final_pointer + memory_index * V + value, following_2, mask=is_value)
        for hidden_1_start in range(0, D1, BLOCK_D1):
            hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
            is_hidden_1 = hidden_1 < D1
            memory_W1_2 = tl.load(
                memory_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                mask=is_feature[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            update_W1 = tl.load(
                update_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                mask=is_feature[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            memory_W2_2 = tl.load(
                memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                mask=is_hidden_1[:, None] & is_value[None, :],
                other=0.0,
            )
            product_3 = tl.dot(errors_W2.to(DOT), tl.trans(memory_W2_2.to(DOT)), input_precision=PRECISION)
            product_4 = tl.dot(k.to(DOT), memory_W1_2.to(DOT), input_precision=PRECISION)
            memory_b1_2 = tl.load(
                memory_b1_blocks_pointer + slot * D1 + hidden_1,
                mask=is_hidden_1,
                other=0.0,
            )
            combined_6 = product_4 + memory_b1_2[None, :]
            # the error that reaches the output of W1
            errors_W1 = product_3 * tl.where(is_hidden_1[None, :], gelu_slope(combined_6), 0.0)
            product_5 = tl.dot(
                tl.trans((last_weights[:, None] * k).to(DOT)),
                errors_W1.to(DOT),
                input_precision=PRECISION,
            )
            # A: the block's update so far
            update_W1_total = update_W1 + product_5
            # M at the end
            memory_W1_next = memory_W1_2 - row_scale * update_W1_total
            following_3 = tl.where(border > 0.0, memory_W1_next, memory_W1_2)
            if block + 1 < blocks:
                tl.store(
                    memory_W1_blocks_pointer
                    + (slot + 1) * (K * D1)
                    + feature[:, None] * D1
                    + hidden_1[None, :],
                    following_3,
                    mask=is_feature[:, None] & is_hidden_1[None, :],
                )
            else:
                if STORE_FINAL:
                    tl.store(
                        memory_W1_final_pointer
                        + memory_index * (K * D1)
                        + feature[:, None] * D1
                        + hidden_1[None, :],
                        following_3,
                        mask=is_feature[:, None] & is_hidden_1[None, :],
                    )
            following_4 = tl.where(border > 0.0, 0.0, update_W1_total)
            if block + 1 < blocks:
                tl.store(
                    update_W1_blocks_pointer
                    + (slot + 1) * (K * D1)
                    + feature[:, None] * D1
                    + hidden_1[None, :],
                    following_4,
                    mask=is_feature[:, None] & is_hidden_1[None, :],
                )
            else:
                if STORE_FINAL:
                    tl.store(
                        update_W1_final_pointer
                        + memory_index * (K * D1)
                        + feature[:, None] * D1
                        + hidden_1[None, :],
                        following_4,
                        mask=is_feature[:, None] & is_hidden_1[None, :],
                    )
        for hidden_1_start in range(0, D1, BLOCK_D1):
            hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
            is_hidden_1 = hidden_1 < D1
            memory_W2_3 = tl.load(
                memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                mask=is_hidden_1[:, None] & is_value[None, :],
                other=0.0,
            )
            update_W2 = tl.load(
                update_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                mask=is_hidden_1[:, None] & is_value[None, :],
                other=0.0,
            )
            memory_W1_3 = tl.load(
                memory_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                mask=is_feature[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            product_6 = tl.dot(k.to(DOT), memory_W1_3.to(DOT), input_precision=PRECISION)
            memory_b1_3 = tl.load(
                memory_b1_blocks_pointer + slot * D1 + hidden_1,
                mask=is_hidden_1,
                other=0.0,
            )
            combined_7 = product_6 + memory_b1_3[None, :]
            value_7 = gelu(combined_7)
            product_7 = tl.dot(
                tl.trans((last_weights[:, None] * value_7).to(DOT)),
                errors_W2.to(DOT),
                input_precision=PRECISION,
            )
            # A: the block's update so far
            update_W2_total = update_W2 + product_7
            # M at the end
            memory_W2_next = memory_W2_3 - row_scale * update_W2_total
            following_5 = tl.where(border > 0.0, memory_W2_next, memory_W2_3)
            if block + 1 < blocks:
                tl.store(
                    memory_W2_blocks_pointer + (slot + 1) * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                    following_5,
                    mask=is_hidden_1[:, None] & is_value[None, :],
                )
            else:
                if STORE_FINAL:
                    tl.store(
                        memory_W2_final_pointer
                        + memory_index * (D1 * V)
                        + hidden_1[:, None] * V
                        + value[None, :],
                        following_5,
                        mask=is_hidden_1[:, None] & is_value[None, :],
                    )
            following_6 = tl.where(border > 0.0, 0.0, update_W2_total)
            if block + 1 < blocks:
                tl.store(
                    update_W2_blocks_pointer + (slot + 1) * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                    following_6,
                    mask=is_hidden_1[:, None] & is_value[None, :],
                )
            else:
                if STORE_FINAL:
                    tl.store(
                        update_W2_final_pointer
                        + memory_index * (D1 * V)
                        + hidden_1[:, None] * V
                        + value[None, :],
                        following_6,
                        mask=is_hidden_1[:, None] & is_value[None, :],
                    )
        for hidden_1_start in range(0, D1, BLOCK_D1):
            hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
            is_hidden_1 = hidden_1 < D1
            memory_b1_4 = tl.load(
                memory_b1_blocks_pointer + slot * D1 + hidden_1,
                mask=is_hidden_1,
                other=0.0,
            )
            update_b1 = tl.load(update_b1_blocks_pointer + slot * D1 + hidden_1, mask=is_hidden_1, other=0.0)
            memory_W2_4 = tl.load(
                memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                mask=is_hidden_1[:, None] & is_value[None, :],
                other=0.0,
            )
            product_8 = tl.dot(errors_W2.to(DOT), tl.trans(memory_W2_4.to(DOT)), input_precision=PRECISION)
            memory_W1_4 = tl.load(
                memory_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                mask=is_feature[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            product_9 = tl.dot(k.to(DOT), memory_W1_4.to(DOT), input_precision=PRECISION)
            combined_8 = product_9 + memory_b1_4[None, :]
            # the error that reaches the output of W1
            errors_W1_2 = product_8 * tl.where(is_hidden_1[None, :], gelu_slope(combined_8), 0.0)
            product_10 = tl.sum(last_weights[:, None] * errors_W1_2, 0)
            # A: the block's update so far
            update_b1_total = update_b1 + product_10
            # M at the end
            memory_b1_next = memory_b1_4 - row_scale * update_b1_total
            following_7 = tl.where(border > 0.0, memory_b1_next, memory_b1_4)
            if block + 1 < blocks:
                tl.store(memory_b1_blocks_pointer + (slot + 1) * D1 + hidden_1, following_7, mask=is_hidden_1)
            else:
                if STORE_FINAL:
                    tl.store(
                        memory_b1_final_pointer + memory_index * D1 + hidden_1,
                        following_7,
                        mask=is_hidden_1,
                    )
            following_8 = tl.where(border > 0.0, 0.0, update_b1_total)
            if block + 1 < blocks:
                tl.store(update_b1_blocks_pointer + (slot + 1) * D1 + hidden_1, following_8, mask=is_hidden_1)
            else:
                if STORE_FINAL:
                    tl.store(
                        update_b1_final_pointer + memory_index * D1 + hidden_1,
                        following_8,
                        mask=is_hidden_1,
                    )
        tl.debug_barrier()  # the next block reads what this one wrote


@triton.jit(do_not_specialize=["tokens", "blocks"])
def sources(
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
    rows_value_0_pointer,
    rows_value_1_pointer,
    rows_value_2_pointer,
    rows_value_5_pointer,
    rows_value_8_pointer,
    update_b1_blocks_pointer,
    update_b2_blocks_pointer,
    v_pointer,
    k_head,
    k_row,
    lr_head,
    lr_row,
    v_head,
    v_row,
    inverse_V,
    tokens,
    heads,
    blocks,
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
    """Rows of one block that later kernels read: rows_value_0, rows_value_1, rows_value_2, rows_value_5,
    rows_value_8.
    """
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
    lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
    memory_b2 = tl.load(memory_b2_blocks_pointer + slot * V + value, mask=is_value, other=0.0)
    combined = tl.zeros([BLOCK_ROWS, BLOCK_V], dtype=tl.float32) + memory_b2[None, :]
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    for hidden_1_start in range(0, D1, BLOCK_D1):
        hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
        is_hidden_1 = hidden_1 < D1
        memory_W1 = tl.load(
            memory_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        product = tl.dot(k.to(DOT), memory_W1.to(DOT), input_precision=PRECISION)
        memory_b1 = tl.load(memory_b1_blocks_pointer + slot * D1 + hidden_1, mask=is_hidden_1, other=0.0)
        combined_2 = product + memory_b1[None, :]
        memory_W2 = tl.load(
            memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        combined += tl.dot(gelu(combined_2).to(DOT), memory_W2.to(DOT), input_precision=PRECISION)
        tl.store(
            rows_value_0_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            combined_2,
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        )
    tl.store(
        rows_value_1_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        combined,
        mask=(row < ROWS)[:, None] & is_value[None, :],
    )
    update_b2 = tl.load(update_b2_blocks_pointer + slot * V + value, mask=is_value, other=0.0)
    lr = tl.load(lr_block + row * lr_row, mask=live, other=0.0).to(tl.float32)
    live_2 = live.to(tl.float32)
    # p_C: last row of P
    last_weights = lr * live_2
    # P: source weights by read
    weights = tl.where(row[:, None] >= row[None, :], last_weights[None, :], 0.0)
    combined_3 = tl.where(is_value[None, :], combined - (tl.sum(combined, 1) * inverse_V)[:, None], 0.0)
    value_2 = tl.sum(combined_3 * combined_3, 1) * inverse_V
    value_3 = tl.exp(-0.5 * tl.log(value_2 + 1e-06))
    norm_gain = tl.load(norm_gain_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    norm_bias = tl.load(norm_bias_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    combined_4 = combined_3 * value_3[:, None] * norm_gain[None, :] + norm_bias[None, :]
    # pred = f(M*, phi(k))
    predictions = combined_4 + k
    v = tl.load(
        v_block + row[:, None] * v_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    # E = dl/dpred at the block's M*
    errors = predictions - v
    value_4 = errors * norm_gain[None, :]
    value_5 = tl.sum(value_4 * combined_3, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_2 + 1e-06)))
    combined_5 = value_4 * value_3[:, None] + (value_5 * inverse_V)[:, None] * (2.0 * combined_3)
    # the error that reaches the output of W2
    errors_W2 = tl.where(is_value[None, :], combined_5 + (tl.sum(-combined_5, 1) * inverse_V)[:, None], 0.0)
    product_2 = tl.dot(weights.to(DOT), errors_W2.to(DOT), input_precision=PRECISION)
    tl.store(
        rows_value_8_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        update_b2[None, :] + product_2,
        mask=(row < ROWS)[:, None] & is_value[None, :],
    )
    for hidden_1_start in range(0, D1, BLOCK_D1):
        hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
        is_hidden_1 = hidden_1 < D1
        memory_W2_2 = tl.load(
            memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        product_3 = tl.dot(errors_W2.to(DOT), tl.trans(memory_W2_2.to(DOT)), input_precision=PRECISION)
        tl.store(
            rows_value_2_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            product_3,
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        )
        update_b1 = tl.load(update_b1_blocks_pointer + slot * D1 + hidden_1, mask=is_hidden_1, other=0.0)
        memory_W1_2 = tl.load(
            memory_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        product_4 = tl.dot(k.to(DOT), memory_W1_2.to(DOT), input_precision=PRECISION)
        memory_b1_2 = tl.load(memory_b1_blocks_pointer + slot * D1 + hidden_1, mask=is_hidden_1, other=0.0)
        combined_6 = product_4 + memory_b1_2[None, :]
        # the error that reaches the output of W1
        errors_W1 = product_3 * tl.where(is_hidden_1[None, :], gelu_slope(combined_6), 0.0)
        product_5 = tl.dot(weights.to(DOT), errors_W1.to(DOT), input_precision=PRECISION)
        tl.store(
            rows_value_5_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            update_b1[None, :] + product_5,
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def reads(
    k_pointer,
    length_pointer,
    lr_pointer,
    memory_W1_blocks_pointer,
    memory_W2_blocks_pointer,
    memory_b1_blocks_pointer,
    norm_bias_pointer,
    norm_gain_pointer,
    position_pointer,
    q_pointer,
    row_scale_pointer,
    rows_value_0_pointer,
    rows_value_1_pointer,
    rows_value_2_pointer,
    rows_value_3_pointer,
    rows_value_4_pointer,
    rows_value_5_pointer,
    rows_value_6_pointer,
    rows_value_7_pointer,
    update_W1_blocks_pointer,
    update_W2_blocks_pointer,
    v_pointer,
    k_head,
    k_row,
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
    """Rows of one block that later kernels read: rows_value_3, rows_value_4, rows_value_6, rows_value_7."""
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
    lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    product = tl.zeros([BLOCK_ROWS, BLOCK_V], dtype=tl.float32)
    product_2 = tl.zeros([BLOCK_ROWS, BLOCK_ROWS], dtype=tl.float32)
    product_3 = tl.zeros([BLOCK_ROWS, BLOCK_V], dtype=tl.float32)
    q = tl.load(
        q_block + row[:, None] * q_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
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
    row_scale = tl.load(row_scale_pointer + head * ROWS + row, mask=row < ROWS, other=0.0).to(tl.float32)
    for hidden_1_start in range(0, D1, BLOCK_D1):
        hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
        is_hidden_1 = hidden_1 < D1
        memory_W1 = tl.load(
            memory_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        product_4 = tl.dot(q.to(DOT), memory_W1.to(DOT), input_precision=PRECISION)
        update_W1 = tl.load(
            update_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        product_5 = tl.dot(q.to(DOT), update_W1.to(DOT), input_precision=PRECISION)
        rows_value_2 = tl.load(
            rows_value_2_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        rows_value_0 = tl.load(
            rows_value_0_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        value_2 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_0), 0.0)
        # the error that reaches the output of W1
        errors_W1 = rows_value_2 * value_2
        product_6 = tl.dot(attention_W1.to(DOT), errors_W1.to(DOT), input_precision=PRECISION)
        combined = product_5 + product_6
        combined_2 = product_4 - row_scale[:, None] * combined
        memory_b1 = tl.load(memory_b1_blocks_pointer + slot * D1 + hidden_1, mask=is_hidden_1, other=0.0)
        rows_value_5 = tl.load(
            rows_value_5_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        combined_3 = combined_2 + (memory_b1[None, :] - row_scale[:, None] * rows_value_5)
        value_3 = gelu(combined_3)
        update_W2 = tl.load(
            update_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        product += tl.dot(value_3.to(DOT), update_W2.to(DOT), input_precision=PRECISION)
        product_2 += tl.dot(
            value_3.to(DOT),
            tl.trans((gelu(rows_value_0) * last_weights[:, None]).to(DOT)),
            input_precision=PRECISION,
        )
        memory_W2 = tl.load(
            memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        product_3 += tl.dot(value_3.to(DOT), memory_W2.to(DOT), input_precision=PRECISION)
        tl.store(
            rows_value_3_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            combined,
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        )
        tl.store(
            rows_value_4_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            combined_2,
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        )
    rows_value_1 = tl.load(
        rows_value_1_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    combined_4 = tl.where(
        is_value[None, :],
        rows_value_1 - (tl.sum(rows_value_1, 1) * inverse_V)[:, None],
        0.0,
    )
    value_4 = tl.sum(combined_4 * combined_4, 1) * inverse_V
    value_5 = tl.exp(-0.5 * tl.log(value_4 + 1e-06))
    norm_gain = tl.load(norm_gain_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    norm_bias = tl.load(norm_bias_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    combined_5 = combined_4 * value_5[:, None] * norm_gain[None, :] + norm_bias[None, :]
    # pred = f(M*, phi(k))
    predictions = combined_5 + k
    v = tl.load(
        v_block + row[:, None] * v_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    # E = dl/dpred at the block's M*
    errors = predictions - v
    value_6 = errors * norm_gain[None, :]
    value_7 = tl.sum(value_6 * combined_4, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_4 + 1e-06)))
    combined_6 = value_6 * value_5[:, None] + (value_7 * inverse_V)[:, None] * (2.0 * combined_4)
    # the error that reaches the output of W2
    errors_W2 = tl.where(is_value[None, :], combined_6 + (tl.sum(-combined_6, 1) * inverse_V)[:, None], 0.0)
    product_7 = tl.dot(
        tl.where(row[:, None] >= row[None, :], product_2, 0.0).to(DOT),
        errors_W2.to(DOT),
        input_precision=PRECISION,
    )
    combined_7 = product + product_7
    tl.store(
        rows_value_6_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        combined_7,
        mask=(row < ROWS)[:, None] & is_value[None, :],
    )
    tl.store(
        rows_value_7_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        product_3 - row_scale[:, None] * combined_7,
        mask=(row < ROWS)[:, None] & is_value[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output(
    length_pointer,
    memory_b2_blocks_pointer,
    norm_bias_pointer,
    norm_gain_pointer,
    position_pointer,
    q_pointer,
    row_scale_pointer,
    rows_value_7_pointer,
    rows_value_8_pointer,
    y_pointer,
    q_head,
    q_row,
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
    K: tl.constexpr,
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
    rows_value_7 = tl.load(
        rows_value_7_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    memory_b2 = tl.load(memory_b2_blocks_pointer + slot * V + value, mask=is_value, other=0.0)
    row_scale = tl.load(row_scale_pointer + head * ROWS + row, mask=row < ROWS, other=0.0).to(tl.float32)
    rows_value_8 = tl.load(
        rows_value_8_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    combined = rows_value_7 + (memory_b2[None, :] - row_scale[:, None] * rows_value_8)
    combined_2 = tl.where(is_value[None, :], combined - (tl.sum(combined, 1) * inverse_V)[:, None], 0.0)
    value_2 = tl.exp(-0.5 * tl.log(tl.sum(combined_2 * combined_2, 1) * inverse_V + 1e-06))
    norm_gain = tl.load(norm_gain_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    norm_bias = tl.load(norm_bias_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    combined_3 = combined_2 * value_2[:, None] * norm_gain[None, :] + norm_bias[None, :]
    q = tl.load(
        q_block + row[:, None] * q_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = combined_3 + q
    y_block = y_pointer + (batch * tokens + start) * y_row + head * y_head
    tl.store(y_block + row[:, None] * y_row + value[None, :], reads, mask=live[:, None] & is_value[None, :])


@triton.jit(do_not_specialize=["tokens", "blocks"])
def read_gradients_1_r_D1(
    d_y_pointer,
    k_pointer,
    length_pointer,
    lr_pointer,
    memory_W2_blocks_pointer,
    memory_b2_blocks_pointer,
    norm_bias_pointer,
    norm_gain_pointer,
    position_pointer,
    row_scale_pointer,
    rows_value_0_pointer,
    rows_value_1_pointer,
    rows_value_7_pointer,
    rows_value_8_pointer,
    rows_value_9_pointer,
    update_W2_blocks_pointer,
    v_pointer,
    d_y_head,
    d_y_row,
    k_head,
    k_row,
    lr_head,
    lr_row,
    v_head,
    v_row,
    inverse_V,
    tokens,
    heads,
    blocks,
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
    """Rows of one block that later kernels read: rows_value_9."""
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
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
    row_scale = tl.load(row_scale_pointer + head * ROWS + row, mask=row < ROWS, other=0.0).to(tl.float32)
    d_reads = tl.load(
        d_y_block + row[:, None] * d_y_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    norm_gain = tl.load(norm_gain_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    value_2 = d_reads * norm_gain[None, :]
    rows_value_7 = tl.load(
        rows_value_7_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    memory_b2 = tl.load(memory_b2_blocks_pointer + slot * V + value, mask=is_value, other=0.0)
    rows_value_8 = tl.load(
        rows_value_8_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    combined = rows_value_7 + (memory_b2[None, :] - row_scale[:, None] * rows_value_8)
    combined_2 = tl.where(is_value[None, :], combined - (tl.sum(combined, 1) * inverse_V)[:, None], 0.0)
    value_3 = tl.sum(combined_2 * combined_2, 1) * inverse_V
    value_4 = tl.sum(value_2 * combined_2, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_3 + 1e-06)))
    combined_3 = (
        value_2 * tl.exp(-0.5 * tl.log(value_3 + 1e-06))[:, None]
        + (value_4 * inverse_V)[:, None] * (2.0 * combined_2)
    )
    combined_4 = tl.where(is_value[None, :], combined_3 + (tl.sum(-combined_3, 1) * inverse_V)[:, None], 0.0)
    rows_value_1 = tl.load(
        rows_value_1_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    combined_5 = tl.where(
        is_value[None, :],
        rows_value_1 - (tl.sum(rows_value_1, 1) * inverse_V)[:, None],
        0.0,
    )
    value_5 = tl.sum(combined_5 * combined_5, 1) * inverse_V
    value_6 = tl.exp(-0.5 * tl.log(value_5 + 1e-06))
    norm_bias = tl.load(norm_bias_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    combined_6 = combined_5 * value_6[:, None] * norm_gain[None, :] + norm_bias[None, :]
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # pred = f(M*, phi(k))
    predictions = combined_6 + k
    v = tl.load(
        v_block + row[:, None] * v_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    # E = dl/dpred at the block's M*
    errors = predictions - v
    value_7 = errors * norm_gain[None, :]
    value_8 = tl.sum(value_7 * combined_5, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_5 + 1e-06)))
    combined_7 = value_7 * value_6[:, None] + (value_8 * inverse_V)[:, None] * (2.0 * combined_5)
    # the error that reaches the output of W2
    errors_W2 = tl.where(is_value[None, :], combined_7 + (tl.sum(-combined_7, 1) * inverse_V)[:, None], 0.0)
    product = tl.dot(
        (combined_4 * row_scale[:, None]).to(DOT),
        tl.trans(errors_W2.to(DOT)),
        input_precision=PRECISION,
    )
    lr = tl.load(lr_block + row * lr_row, mask=live, other=0.0).to(tl.float32)
    live_2 = live.to(tl.float32)
    # p_C: last row of P
    last_weights = lr * live_2
    d_scores_W2 = tl.where(row[:, None] >= row[None, :], -(product * last_weights[None, :]), 0.0)
    for hidden_1_start in range(0, D1, BLOCK_D1):
        hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
        is_hidden_1 = hidden_1 < D1
        rows_value_0 = tl.load(
            rows_value_0_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        product_2 = tl.dot(d_scores_W2.to(DOT), gelu(rows_value_0).to(DOT), input_precision=PRECISION)
        memory_W2 = tl.load(
            memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        product_3 = tl.dot(combined_4.to(DOT), tl.trans(memory_W2.to(DOT)), input_precision=PRECISION)
        update_W2 = tl.load(
            update_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        product_4 = tl.dot(combined_4.to(DOT), tl.trans(update_W2.to(DOT)), input_precision=PRECISION)
        tl.store(
            rows_value_9_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            product_2 + product_3 - product_4 * row_scale[:, None],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def read_gradients_1_s_D1(
    d_y_pointer,
    k_pointer,
    length_pointer,
    lr_pointer,
    memory_b1_blocks_pointer,
    memory_b2_blocks_pointer,
    norm_bias_pointer,
    norm_gain_pointer,
    position_pointer,
    row_scale_pointer,
    rows_value_17_pointer,
    rows_value_1_pointer,
    rows_value_4_pointer,
    rows_value_5_pointer,
    rows_value_7_pointer,
    rows_value_8_pointer,
    v_pointer,
    d_y_head,
    d_y_row,
    k_head,
    k_row,
    lr_head,
    lr_row,
    v_head,
    v_row,
    inverse_V,
    tokens,
    heads,
    blocks,
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
    """Rows of one block that later kernels read: rows_value_17."""
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
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
    row_scale = tl.load(row_scale_pointer + head * ROWS + row, mask=row < ROWS, other=0.0).to(tl.float32)
    d_reads = tl.load(
        d_y_block + row[:, None] * d_y_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    norm_gain = tl.load(norm_gain_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    value_2 = d_reads * norm_gain[None, :]
    rows_value_7 = tl.load(
        rows_value_7_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    memory_b2 = tl.load(memory_b2_blocks_pointer + slot * V + value, mask=is_value, other=0.0)
    rows_value_8 = tl.load(
        rows_value_8_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    combined = rows_value_7 + (memory_b2[None, :] - row_scale[:, None] * rows_value_8)
    combined_2 = tl.where(is_value[None, :], combined - (tl.sum(combined, 1) * inverse_V)[:, None], 0.0)
    value_3 = tl.sum(combined_2 * combined_2, 1) * inverse_V
    value_4 = tl.sum(value_2 * combined_2, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_3 + 1e-06)))
    combined_3 = (
        value_2 * tl.exp(-0.5 * tl.log(value_3 + 1e-06))[:, None]
        + (value_4 * inverse_V)[:, None] * (2.0 * combined_2)
    )
    combined_4 = tl.where(is_value[None, :], combined_3 + (tl.sum(-combined_3, 1) * inverse_V)[:, None], 0.0)
    rows_value_1 = tl.load(
        rows_value_1_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    combined_5 = tl.where(
        is_value[None, :],
        rows_value_1 - (tl.sum(rows_value_1, 1) * inverse_V)[:, None],
        0.0,
    )
    value_5 = tl.sum(combined_5 * combined_5, 1) * inverse_V
    value_6 = tl.exp(-0.5 * tl.log(value_5 + 1e-06))
    norm_bias = tl.load(norm_bias_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    combined_6 = combined_5 * value_6[:, None] * norm_gain[None, :] + norm_bias[None, :]
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # pred = f(M*, phi(k))
    predictions = combined_6 + k
    v = tl.load(
        v_block + row[:, None] * v_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    # E = dl/dpred at the block's M*
    errors = predictions - v
    value_7 = errors * norm_gain[None, :]
    value_8 = tl.sum(value_7 * combined_5, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_5 + 1e-06)))
    combined_7 = value_7 * value_6[:, None] + (value_8 * inverse_V)[:, None] * (2.0 * combined_5)
    # the error that reaches the output of W2
    errors_W2 = tl.where(is_value[None, :], combined_7 + (tl.sum(-combined_7, 1) * inverse_V)[:, None], 0.0)
    product = tl.dot(
        (combined_4 * row_scale[:, None]).to(DOT),
        tl.trans(errors_W2.to(DOT)),
        input_precision=PRECISION,
    )
    lr = tl.load(lr_block + row * lr_row, mask=live, other=0.0).to(tl.float32)
    live_2 = live.to(tl.float32)
    # p_C: last row of P
    last_weights = lr * live_2
    d_scores_W2 = tl.where(row[:, None] >= row[None, :], -(product * last_weights[None, :]), 0.0)
    for hidden_1_start in range(0, D1, BLOCK_D1):
        hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
        is_hidden_1 = hidden_1 < D1
        rows_value_4 = tl.load(
            rows_value_4_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        memory_b1 = tl.load(memory_b1_blocks_pointer + slot * D1 + hidden_1, mask=is_hidden_1, other=0.0)
        rows_value_5 = tl.load(
            rows_value_5_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        combined_8 = rows_value_4 + (memory_b1[None, :] - row_scale[:, None] * rows_value_5)
        product_2 = tl.dot(tl.trans(d_scores_W2.to(DOT)), gelu(combined_8).to(DOT), input_precision=PRECISION)
        tl.store(
            rows_value_17_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            product_2,
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def read_gradients_1_s_V(
    d_y_pointer,
    length_pointer,
    lr_pointer,
    memory_b1_blocks_pointer,
    memory_b2_blocks_pointer,
    norm_gain_pointer,
    position_pointer,
    row_scale_pointer,
    rows_value_0_pointer,
    rows_value_14_pointer,
    rows_value_15_pointer,
    rows_value_4_pointer,
    rows_value_5_pointer,
    rows_value_7_pointer,
    rows_value_8_pointer,
    d_y_head,
    d_y_row,
    lr_head,
    lr_row,
    inverse_V,
    tokens,
    heads,
    blocks,
    HAS_LENGTH: tl.constexpr,
    RESUME: tl.constexpr,
    BLOCK_D1: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
    D1: tl.constexpr,
    DOT: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    V: tl.constexpr,
):
    """Rows of one block that later kernels read: rows_value_14, rows_value_15."""
    program = tl.program_id(0)
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    row = tl.arange(0, BLOCK_ROWS)
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
    lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
    d_reads = tl.load(
        d_y_block + row[:, None] * d_y_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    norm_gain = tl.load(norm_gain_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    value_2 = d_reads * norm_gain[None, :]
    rows_value_7 = tl.load(
        rows_value_7_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    memory_b2 = tl.load(memory_b2_blocks_pointer + slot * V + value, mask=is_value, other=0.0)
    row_scale = tl.load(row_scale_pointer + head * ROWS + row, mask=row < ROWS, other=0.0).to(tl.float32)
    rows_value_8 = tl.load(
        rows_value_8_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    combined = rows_value_7 + (memory_b2[None, :] - row_scale[:, None] * rows_value_8)
    combined_2 = tl.where(is_value[None, :], combined - (tl.sum(combined, 1) * inverse_V)[:, None], 0.0)
    value_3 = tl.sum(combined_2 * combined_2, 1) * inverse_V
    value_4 = tl.sum(value_2 * combined_2, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_3 + 1e-06)))
    combined_3 = (
        value_2 * tl.exp(-0.5 * tl.log(value_3 + 1e-06))[:, None]
        + (value_4 * inverse_V)[:, None] * (2.0 * combined_2)
    )
    combined_4 = tl.where(is_value[None, :], combined_3 + (tl.sum(-combined_3, 1) * inverse_V)[:, None], 0.0)
    value_5 = combined_4 * row_scale[:, None]
    lr = tl.load(lr_block + row * lr_row, mask=live, other=0.0).to(tl.float32)
    live_2 = live.to(tl.float32)
    # p_C: last row of P
    last_weights = lr * live_2
    # P: source weights by read
    weights = tl.where(row[:, None] >= row[None, :], last_weights[None, :], 0.0)
    product = tl.dot(tl.trans(weights.to(DOT)), value_5.to(DOT), input_precision=PRECISION)
    tl.store(
        rows_value_14_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        product,
        mask=(row < ROWS)[:, None] & is_value[None, :],
    )
    product_2 = tl.zeros([BLOCK_ROWS, BLOCK_ROWS], dtype=tl.float32)
    for hidden_1_start in range(0, D1, BLOCK_D1):
        hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
        is_hidden_1 = hidden_1 < D1
        rows_value_4 = tl.load(
            rows_value_4_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        memory_b1 = tl.load(memory_b1_blocks_pointer + slot * D1 + hidden_1, mask=is_hidden_1, other=0.0)
        rows_value_5 = tl.load(
            rows_value_5_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        combined_5 = rows_value_4 + (memory_b1[None, :] - row_scale[:, None] * rows_value_5)
        rows_value_0 = tl.load(
            rows_value_0_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        product_2 += tl.dot(
            gelu(combined_5).to(DOT),
            tl.trans((gelu(rows_value_0) * last_weights[:, None]).to(DOT)),
            input_precision=PRECISION,
        )
    product_3 = tl.dot(
        tl.trans(tl.where(row[:, None] >= row[None, :], product_2, 0.0).to(DOT)),
        value_5.to(DOT),
        input_precision=PRECISION,
    )
    tl.store(
        rows_value_15_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        product_3,
        mask=(row < ROWS)[:, None] & is_value[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def read_gradients_2_s_D1(
    k_pointer,
    length_pointer,
    lr_pointer,
    memory_b1_blocks_pointer,
    position_pointer,
    q_pointer,
    row_scale_pointer,
    rows_value_11_pointer,
    rows_value_12_pointer,
    rows_value_4_pointer,
    rows_value_5_pointer,
    rows_value_9_pointer,
    k_head,
    k_row,
    lr_head,
    lr_row,
    q_head,
    q_row,
    tokens,
    heads,
    blocks,
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
    """Rows of one block that later kernels read: rows_value_11, rows_value_12."""
    program = tl.program_id(0)
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    row = tl.arange(0, BLOCK_ROWS)
    feature = tl.arange(0, BLOCK_K)
    is_feature = feature < K
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    position = tl.load(position_pointer + batch) if RESUME else 0
    phase = position % ROWS
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    row_scale = tl.load(row_scale_pointer + head * ROWS + row, mask=row < ROWS, other=0.0).to(tl.float32)
    lr = tl.load(lr_block + row * lr_row, mask=live, other=0.0).to(tl.float32)
    live_2 = live.to(tl.float32)
    # p_C: last row of P
    last_weights = lr * live_2
    # P: source weights by read
    weights = tl.where(row[:, None] >= row[None, :], last_weights[None, :], 0.0)
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
    scores_W1 = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
    # (Q X^T) * P
    attention_W1 = tl.where(row[:, None] >= row[None, :], last_weights[None, :] * scores_W1, 0.0)
    for hidden_1_start in range(0, D1, BLOCK_D1):
        hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
        is_hidden_1 = hidden_1 < D1
        rows_value_9 = tl.load(
            rows_value_9_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        rows_value_4 = tl.load(
            rows_value_4_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        memory_b1 = tl.load(memory_b1_blocks_pointer + slot * D1 + hidden_1, mask=is_hidden_1, other=0.0)
        rows_value_5 = tl.load(
            rows_value_5_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        combined = rows_value_4 + (memory_b1[None, :] - row_scale[:, None] * rows_value_5)
        value_2 = rows_value_9 * tl.where(is_hidden_1[None, :], gelu_slope(combined), 0.0)
        value_3 = value_2 * row_scale[:, None]
        product = tl.dot(tl.trans(weights.to(DOT)), value_3.to(DOT), input_precision=PRECISION)
        tl.store(
            rows_value_11_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            product,
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        )
        product_2 = tl.dot(tl.trans(attention_W1.to(DOT)), value_3.to(DOT), input_precision=PRECISION)
        tl.store(
            rows_value_12_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            product_2,
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def state_gradient(
    d_memory_W1_next_blocks_pointer,
    d_memory_W1_pointer,
    d_memory_W2_next_blocks_pointer,
    d_memory_W2_pointer,
    d_memory_b1_next_blocks_pointer,
    d_memory_b1_pointer,
    d_memory_b2_next_blocks_pointer,
    d_memory_b2_pointer,
    d_update_W1_next_blocks_pointer,
    d_update_W1_pointer,
    d_update_W2_next_blocks_pointer,
    d_update_W2_pointer,
    d_update_b1_next_blocks_pointer,
    d_update_b1_pointer,
    d_update_b2_next_blocks_pointer,
    d_update_b2_pointer,
    d_y_pointer,
    k_pointer,
    length_pointer,
    lr_pointer,
    memory_W2_blocks_pointer,
    memory_b1_blocks_pointer,
    memory_b2_blocks_pointer,
    norm_bias_pointer,
    norm_gain_pointer,
    position_pointer,
    q_pointer,
    row_scale_pointer,
    rows_d_errors_W1_13_pointer,
    rows_d_errors_W2_16_pointer,
    rows_value_0_pointer,
    rows_value_10_pointer,
    rows_value_11_pointer,
    rows_value_12_pointer,
    rows_value_14_pointer,
    rows_value_15_pointer,
    rows_value_17_pointer,
    rows_value_18_pointer,
    rows_value_19_pointer,
    rows_value_1_pointer,
    rows_value_2_pointer,
    rows_value_4_pointer,
    rows_value_5_pointer,
    rows_value_7_pointer,
    rows_value_8_pointer,
    rows_value_9_pointer,
    v_pointer,
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
    """The gradient of the memory from the last block to the first, tile by tile."""
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
    row_scale = tl.load(row_scale_pointer + head * row_scale_columns + 15).to(tl.float32)
    norm_gain = tl.load(norm_gain_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    norm_bias = tl.load(norm_bias_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    row_scale_2 = tl.load(row_scale_pointer + head * ROWS + row, mask=row < ROWS, other=0.0).to(tl.float32)
    for turn in tl.range(0, blocks * 14, disable_licm=True):
        step = turn // 14
        part = turn % 14
        block = blocks - 1 - step
        slot = memory_index * blocks + block
        start = tl.cast(block, tl.int64) * ROWS - phase
        first = tl.cast(tl.maximum(-start, 0), tl.int32)
        last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
        live = (row >= first) & (row < last)
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
        lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
        q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
        d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
        if part == 0:
            border = (last == ROWS).to(tl.float32)
            rows_value_1 = tl.load(
                rows_value_1_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            combined = tl.where(
                is_value[None, :],
                rows_value_1 - (tl.sum(rows_value_1, 1) * inverse_V)[:, None],
                0.0,
            )
            value_2 = tl.sum(combined * combined, 1) * inverse_V
            value_3 = tl.exp(-0.5 * tl.log(value_2 + 1e-06))
            combined_2 = combined * value_3[:, None] * norm_gain[None, :] + norm_bias[None, :]
            k = tl.load(
                k_block + row[:, None] * k_row + feature[None, :],
                mask=live[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            # pred = f(M*, phi(k))
            predictions = combined_2 + k
            v = tl.load(
                v_block + row[:, None] * v_row + value[None, :],
                mask=live[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
            # E = dl/dpred at the block's M*
            errors = predictions - v
            value_4 = errors * norm_gain[None, :]
            value_5 = tl.sum(value_4 * combined, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_2 + 1e-06)))
            combined_3 = value_4 * value_3[:, None] + (value_5 * inverse_V)[:, None] * (2.0 * combined)
            # the error that reaches the output of W2
            errors_W2 = tl.where(
                is_value[None, :],
                combined_3 + (tl.sum(-combined_3, 1) * inverse_V)[:, None],
                0.0,
            )
            for hidden_1_start in range(0, D1, BLOCK_D1):
                hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
                is_hidden_1 = hidden_1 < D1
                d_update_W2_next = tl.load(
                    d_update_W2_next_blocks_pointer
                    + slot * (D1 * V)
                    + hidden_1[:, None] * V
                    + value[None, :],
                    mask=is_hidden_1[:, None] & is_value[None, :],
                    other=0.0,
                )
                d_memory_W2_next = tl.load(
                    d_memory_W2_next_blocks_pointer
                    + slot * (D1 * V)
                    + hidden_1[:, None] * V
                    + value[None, :],
                    mask=is_hidden_1[:, None] & is_value[None, :],
                    other=0.0,
                )
                d_memory_W2_next_2 = d_memory_W2_next * tl.where(border > 0.0, 1.0, 0.0)
                d_update_W2_total = (
                    d_update_W2_next * tl.where(border > 0.0, 0.0, 1.0) - d_memory_W2_next_2 * row_scale
                )
                product = tl.dot(
                    errors_W2.to(DOT),
                    tl.trans(d_update_W2_total.to(DOT)),
                    input_precision=PRECISION,
                )
                tl.store(
                    rows_value_10_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    product,
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                )
        if part == 1:
            border_2 = (last == ROWS).to(tl.float32)
            value_6 = tl.where(border_2 > 0.0, 0.0, 1.0)
            value_7 = tl.where(border_2 > 0.0, 1.0, 0.0)
            lr = tl.load(lr_block + row * lr_row, mask=live, other=0.0).to(tl.float32)
            live_2 = live.to(tl.float32)
            # p_C: last row of P
            last_weights = lr * live_2
            k_2 = tl.load(
                k_block + row[:, None] * k_row + feature[None, :],
                mask=live[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            for hidden_1_start in range(0, D1, BLOCK_D1):
                hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
                is_hidden_1 = hidden_1 < D1
                d_update_b1_next = tl.load(
                    d_update_b1_next_blocks_pointer + slot * D1 + hidden_1,
                    mask=is_hidden_1,
                    other=0.0,
                )
                d_memory_b1_next = tl.load(
                    d_memory_b1_next_blocks_pointer + slot * D1 + hidden_1,
                    mask=is_hidden_1,
                    other=0.0,
                )
                d_memory_b1_next_2 = d_memory_b1_next * value_7
                d_update_b1_total = d_update_b1_next * value_6 - d_memory_b1_next_2 * row_scale
                d_update_W1_next = tl.load(
                    d_update_W1_next_blocks_pointer
                    + slot * (K * D1)
                    + feature[:, None] * D1
                    + hidden_1[None, :],
                    mask=is_feature[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                d_memory_W1_next = tl.load(
                    d_memory_W1_next_blocks_pointer
                    + slot * (K * D1)
                    + feature[:, None] * D1
                    + hidden_1[None, :],
                    mask=is_feature[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                d_memory_W1_next_2 = d_memory_W1_next * value_7
                d_update_W1_total = d_update_W1_next * value_6 - d_memory_W1_next_2 * row_scale
                product_2 = tl.dot(k_2.to(DOT), d_update_W1_total.to(DOT), input_precision=PRECISION)
                rows_value_11 = tl.load(
                    rows_value_11_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                rows_value_12 = tl.load(
                    rows_value_12_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                combined_4 = (
                    d_update_b1_total[None, :] * last_weights[:, None]
                    + product_2 * last_weights[:, None]
                    - rows_value_11
                    - rows_value_12
                )
                tl.store(
                    rows_d_errors_W1_13_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    combined_4,
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                )
        if part == 2:
            combined_5 = tl.zeros([BLOCK_ROWS, BLOCK_V], dtype=tl.float32)
            border_3 = (last == ROWS).to(tl.float32)
            value_8 = tl.where(border_3 > 0.0, 0.0, 1.0)
            value_9 = tl.where(border_3 > 0.0, 1.0, 0.0)
            lr_2 = tl.load(lr_block + row * lr_row, mask=live, other=0.0).to(tl.float32)
            live_3 = live.to(tl.float32)
            # p_C: last row of P
            last_weights_2 = lr_2 * live_3
            for hidden_1_start in range(0, D1, BLOCK_D1):
                hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
                is_hidden_1 = hidden_1 < D1
                d_update_W2_next_2 = tl.load(
                    d_update_W2_next_blocks_pointer
                    + slot * (D1 * V)
                    + hidden_1[:, None] * V
                    + value[None, :],
                    mask=is_hidden_1[:, None] & is_value[None, :],
                    other=0.0,
                )
                d_memory_W2_next_3 = tl.load(
                    d_memory_W2_next_blocks_pointer
                    + slot * (D1 * V)
                    + hidden_1[:, None] * V
                    + value[None, :],
                    mask=is_hidden_1[:, None] & is_value[None, :],
                    other=0.0,
                )
                d_memory_W2_next_4 = d_memory_W2_next_3 * value_9
                d_update_W2_total_2 = d_update_W2_next_2 * value_8 - d_memory_W2_next_4 * row_scale
                rows_value_0 = tl.load(
                    rows_value_0_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                combined_5 += tl.dot(
                    (last_weights_2[:, None] * gelu(rows_value_0)).to(DOT),
                    d_update_W2_total_2.to(DOT),
                    input_precision=PRECISION,
                )
                d_errors_W1 = tl.load(
                    rows_d_errors_W1_13_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                value_10 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_0), 0.0)
                memory_W2 = tl.load(
                    memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                    mask=is_hidden_1[:, None] & is_value[None, :],
                    other=0.0,
                )
                combined_5 += tl.dot(
                    (d_errors_W1 * value_10).to(DOT),
                    memory_W2.to(DOT),
                    input_precision=PRECISION,
                )
            d_update_b2_next = tl.load(
                d_update_b2_next_blocks_pointer + slot * V + value,
                mask=is_value,
                other=0.0,
            )
            d_memory_b2_next = tl.load(
                d_memory_b2_next_blocks_pointer + slot * V + value,
                mask=is_value,
                other=0.0,
            )
            d_memory_b2_next_2 = d_memory_b2_next * value_9
            d_update_b2_total = d_update_b2_next * value_8 - d_memory_b2_next_2 * row_scale
            rows_value_14 = tl.load(
                rows_value_14_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            rows_value_15 = tl.load(
                rows_value_15_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            combined_6 = (
                combined_5
                + d_update_b2_total[None, :] * last_weights_2[:, None]
                - rows_value_14
                - rows_value_15
            )
            tl.store(
                rows_d_errors_W2_16_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                combined_6,
                mask=(row < ROWS)[:, None] & is_value[None, :],
            )
        if part == 3:
            lr_3 = tl.load(lr_block + row * lr_row, mask=live, other=0.0).to(tl.float32)
            live_4 = live.to(tl.float32)
            # p_C: last row of P
            last_weights_3 = lr_3 * live_4
            d_errors_W2 = tl.load(
                rows_d_errors_W2_16_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            combined_7 = tl.where(
                is_value[None, :],
                d_errors_W2 - (tl.sum(d_errors_W2, 1) * inverse_V)[:, None],
                0.0,
            )
            rows_value_1_2 = tl.load(
                rows_value_1_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            combined_8 = tl.where(
                is_value[None, :],
                rows_value_1_2 - (tl.sum(rows_value_1_2, 1) * inverse_V)[:, None],
                0.0,
            )
            value_11 = tl.sum(combined_8 * combined_8, 1) * inverse_V
            value_12 = tl.exp(-0.5 * tl.log(value_11 + 1e-06))
            combined_9 = combined_8 * value_12[:, None] * norm_gain[None, :] + norm_bias[None, :]
            k_3 = tl.load(
                k_block + row[:, None] * k_row + feature[None, :],
                mask=live[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            # pred = f(M*, phi(k))
            predictions_2 = combined_9 + k_3
            v_2 = tl.load(
                v_block + row[:, None] * v_row + value[None, :],
                mask=live[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
            # E = dl/dpred at the block's M*
            errors_2 = predictions_2 - v_2
            value_13 = errors_2 * norm_gain[None, :]
            total = tl.sum(value_13 * combined_8, 1)
            value_14 = -0.5 * tl.exp(-1.5 * tl.log(value_11 + 1e-06))
            value_15 = 2.0 * (combined_7 * (total * value_14 * inverse_V)[:, None])
            value_16 = 2.0 * combined_8
            value_17 = tl.sum(combined_7 * value_16, 1) * inverse_V
            value_18 = value_17 * value_14
            combined_10 = value_18[:, None] * combined_8 + combined_7 * value_12[:, None]
            d_errors = combined_10 * norm_gain[None, :]
            value_19 = d_errors * norm_gain[None, :]
            value_20 = value_17 * total * (0.75 * tl.exp(-2.5 * tl.log(value_11 + 1e-06)))
            combined_11 = tl.sum(combined_7 * value_13, 1) + tl.sum(value_19 * combined_8, 1)
            value_21 = ((value_20 + combined_11 * value_14) * inverse_V)[:, None] * value_16
            combined_12 = value_15 + value_18[:, None] * value_13 + value_19 * value_12[:, None] + value_21
            combined_13 = tl.where(
                is_value[None, :],
                combined_12 + (tl.sum(-combined_12, 1) * inverse_V)[:, None],
                0.0,
            )
            for hidden_1_start in range(0, D1, BLOCK_D1):
                hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
                is_hidden_1 = hidden_1 < D1
                rows_value_10 = tl.load(
                    rows_value_10_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                rows_value_17 = tl.load(
                    rows_value_17_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                memory_W2_2 = tl.load(
                    memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                    mask=is_hidden_1[:, None] & is_value[None, :],
                    other=0.0,
                )
                product_3 = tl.dot(
                    combined_13.to(DOT),
                    tl.trans(memory_W2_2.to(DOT)),
                    input_precision=PRECISION,
                )
                combined_14 = rows_value_10 * last_weights_3[:, None] + rows_value_17 + product_3
                tl.store(
                    rows_value_18_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    combined_14,
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                )
        if part == 4:
            for hidden_1_start in range(0, D1, BLOCK_D1):
                hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
                is_hidden_1 = hidden_1 < D1
                d_errors_W1_2 = tl.load(
                    rows_d_errors_W1_13_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                rows_value_2 = tl.load(
                    rows_value_2_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                rows_value_0_2 = tl.load(
                    rows_value_0_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                value_22 = tl.where(
                    is_hidden_1[None, :],
                    0.3989422804014327
                    * (2.0 - rows_value_0_2 * rows_value_0_2)
                    * tl.exp(-0.5 * (rows_value_0_2 * rows_value_0_2)),
                    0.0,
                )
                rows_value_18 = tl.load(
                    rows_value_18_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                value_23 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_0_2), 0.0)
                combined_15 = d_errors_W1_2 * rows_value_2 * value_22 + rows_value_18 * value_23
                tl.store(
                    rows_value_19_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    combined_15,
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                )
        if part == 5:
            border_4 = (last == ROWS).to(tl.float32)
            k_4 = tl.load(
                k_block + row[:, None] * k_row + feature[None, :],
                mask=live[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            q = tl.load(
                q_block + row[:, None] * q_row + feature[None, :],
                mask=live[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            for hidden_1_start in range(0, D1, BLOCK_D1):
                hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
                is_hidden_1 = hidden_1 < D1
                d_memory_W1_next_3 = tl.load(
                    d_memory_W1_next_blocks_pointer
                    + slot * (K * D1)
                    + feature[:, None] * D1
                    + hidden_1[None, :],
                    mask=is_feature[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                d_memory_W1_next_4 = d_memory_W1_next_3 * tl.where(border_4 > 0.0, 1.0, 0.0)
                rows_value_19 = tl.load(
                    rows_value_19_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                product_4 = tl.dot(tl.trans(k_4.to(DOT)), rows_value_19.to(DOT), input_precision=PRECISION)
                rows_value_9 = tl.load(
                    rows_value_9_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                rows_value_4 = tl.load(
                    rows_value_4_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                memory_b1 = tl.load(
                    memory_b1_blocks_pointer + slot * D1 + hidden_1,
                    mask=is_hidden_1,
                    other=0.0,
                )
                rows_value_5 = tl.load(
                    rows_value_5_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                combined_16 = rows_value_4 + (memory_b1[None, :] - row_scale_2[:, None] * rows_value_5)
                value_24 = rows_value_9 * tl.where(is_hidden_1[None, :], gelu_slope(combined_16), 0.0)
                product_5 = tl.dot(tl.trans(q.to(DOT)), value_24.to(DOT), input_precision=PRECISION)
                combined_17 = (
                    d_memory_W1_next_3 * tl.where(border_4 > 0.0, 0.0, 1.0)
                    + d_memory_W1_next_4
                    + product_4
                    + product_5
                )
                if block > 0:
                    tl.store(
                        d_memory_W1_next_blocks_pointer
                        + (slot - 1) * (K * D1)
                        + feature[:, None] * D1
                        + hidden_1[None, :],
                        combined_17,
                        mask=is_feature[:, None] & is_hidden_1[None, :],
                    )
                else:
                    if GRAD_INITIAL:
                        tl.store(
                            d_memory_W1_pointer
                            + memory_index * (K * D1)
                            + feature[:, None] * D1
                            + hidden_1[None, :],
                            combined_17,
                            mask=is_feature[:, None] & is_hidden_1[None, :],
                        )
        if part == 6:
            border_5 = (last == ROWS).to(tl.float32)
            q_2 = tl.load(
                q_block + row[:, None] * q_row + feature[None, :],
                mask=live[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            for hidden_1_start in range(0, D1, BLOCK_D1):
                hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
                is_hidden_1 = hidden_1 < D1
                d_update_W1_next_2 = tl.load(
                    d_update_W1_next_blocks_pointer
                    + slot * (K * D1)
                    + feature[:, None] * D1
                    + hidden_1[None, :],
                    mask=is_feature[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                d_memory_W1_next_5 = tl.load(
                    d_memory_W1_next_blocks_pointer
                    + slot * (K * D1)
                    + feature[:, None] * D1
                    + hidden_1[None, :],
                    mask=is_feature[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                d_memory_W1_next_6 = d_memory_W1_next_5 * tl.where(border_5 > 0.0, 1.0, 0.0)
                d_update_W1_total_2 = (
                    d_update_W1_next_2 * tl.where(border_5 > 0.0, 0.0, 1.0) - d_memory_W1_next_6 * row_scale
                )
                rows_value_9_2 = tl.load(
                    rows_value_9_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                rows_value_4_2 = tl.load(
                    rows_value_4_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                memory_b1_2 = tl.load(
                    memory_b1_blocks_pointer + slot * D1 + hidden_1,
                    mask=is_hidden_1,
                    other=0.0,
                )
                rows_value_5_2 = tl.load(
                    rows_value_5_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                combined_18 = memory_b1_2[None, :] - row_scale_2[:, None] * rows_value_5_2
                value_25 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_4_2 + combined_18), 0.0)
                product_6 = tl.dot(
                    tl.trans(q_2.to(DOT)),
                    (rows_value_9_2 * value_25 * row_scale_2[:, None]).to(DOT),
                    input_precision=PRECISION,
                )
                following = d_update_W1_total_2 - product_6
                if block > 0:
                    tl.store(
                        d_update_W1_next_blocks_pointer
                        + (slot - 1) * (K * D1)
                        + feature[:, None] * D1
                        + hidden_1[None, :],
                        following,
                        mask=is_feature[:, None] & is_hidden_1[None, :],
                    )
                else:
                    if GRAD_INITIAL:
                        tl.store(
                            d_update_W1_pointer
                            + memory_index * (K * D1)
                            + feature[:, None] * D1
                            + hidden_1[None, :],
                            following,
                            mask=is_feature[:, None] & is_hidden_1[None, :],
                        )
        if part == 7:
            border_6 = (last == ROWS).to(tl.float32)
            d_reads = tl.load(
                d_y_block + row[:, None] * d_y_row + value[None, :],
                mask=live[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
            value_26 = d_reads * norm_gain[None, :]
            rows_value_7 = tl.load(
                rows_value_7_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            memory_b2 = tl.load(memory_b2_blocks_pointer + slot * V + value, mask=is_value, other=0.0)
            rows_value_8 = tl.load(
                rows_value_8_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            combined_19 = rows_value_7 + (memory_b2[None, :] - row_scale_2[:, None] * rows_value_8)
            combined_20 = tl.where(
                is_value[None, :],
                combined_19 - (tl.sum(combined_19, 1) * inverse_V)[:, None],
                0.0,
            )
            value_27 = tl.sum(combined_20 * combined_20, 1) * inverse_V
            value_28 = tl.sum(value_26 * combined_20, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_27 + 1e-06)))
            combined_21 = (
                value_26 * tl.exp(-0.5 * tl.log(value_27 + 1e-06))[:, None]
                + (value_28 * inverse_V)[:, None] * (2.0 * combined_20)
            )
            combined_22 = tl.where(
                is_value[None, :],
                combined_21 + (tl.sum(-combined_21, 1) * inverse_V)[:, None],
                0.0,
            )
            rows_value_1_3 = tl.load(
                rows_value_1_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            combined_23 = tl.where(
                is_value[None, :],
                rows_value_1_3 - (tl.sum(rows_value_1_3, 1) * inverse_V)[:, None],
                0.0,
            )
            value_29 = tl.sum(combined_23 * combined_23, 1) * inverse_V
            value_30 = tl.exp(-0.5 * tl.log(value_29 + 1e-06))
            combined_24 = combined_23 * value_30[:, None] * norm_gain[None, :] + norm_bias[None, :]
            k_5 = tl.load(
                k_block + row[:, None] * k_row + feature[None, :],
                mask=live[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            # pred = f(M*, phi(k))
            predictions_3 = combined_24 + k_5
            v_3 = tl.load(
                v_block + row[:, None] * v_row + value[None, :],
                mask=live[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
            # E = dl/dpred at the block's M*
            errors_3 = predictions_3 - v_3
            value_31 = errors_3 * norm_gain[None, :]
            value_32 = tl.sum(value_31 * combined_23, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_29 + 1e-06)))
            combined_25 = value_31 * value_30[:, None] + (value_32 * inverse_V)[:, None] * (2.0 * combined_23)
            # the error that reaches the output of W2
            errors_W2_2 = tl.where(
                is_value[None, :],
                combined_25 + (tl.sum(-combined_25, 1) * inverse_V)[:, None],
                0.0,
            )
            for hidden_1_start in range(0, D1, BLOCK_D1):
                hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
                is_hidden_1 = hidden_1 < D1
                d_memory_W2_next_5 = tl.load(
                    d_memory_W2_next_blocks_pointer
                    + slot * (D1 * V)
                    + hidden_1[:, None] * V
                    + value[None, :],
                    mask=is_hidden_1[:, None] & is_value[None, :],
                    other=0.0,
                )
                d_memory_W2_next_6 = d_memory_W2_next_5 * tl.where(border_6 > 0.0, 1.0, 0.0)
                rows_value_4_3 = tl.load(
                    rows_value_4_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                memory_b1_3 = tl.load(
                    memory_b1_blocks_pointer + slot * D1 + hidden_1,
                    mask=is_hidden_1,
                    other=0.0,
                )
                rows_value_5_3 = tl.load(
                    rows_value_5_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                combined_26 = memory_b1_3[None, :] - row_scale_2[:, None] * rows_value_5_3
                product_7 = tl.dot(
                    tl.trans(gelu(rows_value_4_3 + combined_26).to(DOT)),
                    combined_22.to(DOT),
                    input_precision=PRECISION,
                )
                d_errors_W1_3 = tl.load(
                    rows_d_errors_W1_13_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                rows_value_0_3 = tl.load(
                    rows_value_0_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                value_33 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_0_3), 0.0)
                product_8 = tl.dot(
                    tl.trans((d_errors_W1_3 * value_33).to(DOT)),
                    errors_W2_2.to(DOT),
                    input_precision=PRECISION,
                )
                combined_27 = (
                    d_memory_W2_next_5 * tl.where(border_6 > 0.0, 0.0, 1.0)
                    + d_memory_W2_next_6
                    + product_7
                    + product_8
                )
                if block > 0:
                    tl.store(
                        d_memory_W2_next_blocks_pointer
                        + (slot - 1) * (D1 * V)
                        + hidden_1[:, None] * V
                        + value[None, :],
                        combined_27,
                        mask=is_hidden_1[:, None] & is_value[None, :],
                    )
                else:
                    if GRAD_INITIAL:
                        tl.store(
                            d_memory_W2_pointer
                            + memory_index * (D1 * V)
                            + hidden_1[:, None] * V
                            + value[None, :],
                            combined_27,
                            mask=is_hidden_1[:, None] & is_value[None, :],
                        )
        if part == 8:
            d_errors_W2_2 = tl.load(
                rows_d_errors_W2_16_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            combined_28 = tl.where(
                is_value[None, :],
                d_errors_W2_2 - (tl.sum(d_errors_W2_2, 1) * inverse_V)[:, None],
                0.0,
            )
            rows_value_1_4 = tl.load(
                rows_value_1_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            combined_29 = tl.where(
                is_value[None, :],
                rows_value_1_4 - (tl.sum(rows_value_1_4, 1) * inverse_V)[:, None],
                0.0,
            )
            value_34 = tl.sum(combined_29 * combined_29, 1) * inverse_V
            value_35 = tl.exp(-0.5 * tl.log(value_34 + 1e-06))
            combined_30 = combined_29 * value_35[:, None] * norm_gain[None, :] + norm_bias[None, :]
            k_6 = tl.load(
                k_block + row[:, None] * k_row + feature[None, :],
                mask=live[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            # pred = f(M*, phi(k))
            predictions_4 = combined_30 + k_6
            v_4 = tl.load(
                v_block + row[:, None] * v_row + value[None, :],
                mask=live[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
            # E = dl/dpred at the block's M*
            errors_4 = predictions_4 - v_4
            value_36 = errors_4 * norm_gain[None, :]
            total_2 = tl.sum(value_36 * combined_29, 1)
            value_37 = -0.5 * tl.exp(-1.5 * tl.log(value_34 + 1e-06))
            value_38 = 2.0 * (combined_28 * (total_2 * value_37 * inverse_V)[:, None])
            value_39 = 2.0 * combined_29
            value_40 = tl.sum(combined_28 * value_39, 1) * inverse_V
            value_41 = value_40 * value_37
            combined_31 = value_41[:, None] * combined_29 + combined_28 * value_35[:, None]
            d_errors_2 = combined_31 * norm_gain[None, :]
            value_42 = d_errors_2 * norm_gain[None, :]
            value_43 = value_40 * total_2 * (0.75 * tl.exp(-2.5 * tl.log(value_34 + 1e-06)))
            combined_32 = tl.sum(combined_28 * value_36, 1) + tl.sum(value_42 * combined_29, 1)
            value_44 = ((value_43 + combined_32 * value_37) * inverse_V)[:, None] * value_39
            combined_33 = value_38 + value_41[:, None] * value_36 + value_42 * value_35[:, None] + value_44
            combined_34 = tl.where(
                is_value[None, :],
                combined_33 + (tl.sum(-combined_33, 1) * inverse_V)[:, None],
                0.0,
            )
            for hidden_1_start in range(0, D1, BLOCK_D1):
                hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
                is_hidden_1 = hidden_1 < D1
                rows_value_0_4 = tl.load(
                    rows_value_0_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                product_9 = tl.dot(
                    tl.trans(gelu(rows_value_0_4).to(DOT)),
                    combined_34.to(DOT),
                    input_precision=PRECISION,
                )
                if block > 0:
                    tl.store(
                        d_memory_W2_next_blocks_pointer
                        + (slot - 1) * (D1 * V)
                        + hidden_1[:, None] * V
                        + value[None, :],
                        product_9
                        + tl.load(
                            d_memory_W2_next_blocks_pointer
                            + (slot - 1) * (D1 * V)
                            + hidden_1[:, None] * V
                            + value[None, :],
                            mask=is_hidden_1[:, None] & is_value[None, :],
                            other=0.0,
                        ),
                        mask=is_hidden_1[:, None] & is_value[None, :],
                    )
                else:
                    if GRAD_INITIAL:
                        tl.store(
                            d_memory_W2_pointer
                            + memory_index * (D1 * V)
                            + hidden_1[:, None] * V
                            + value[None, :],
                            product_9
                            + tl.load(
                                d_memory_W2_pointer
                                + memory_index * (D1 * V)
                                + hidden_1[:, None] * V
                                + value[None, :],
                                mask=is_hidden_1[:, None] & is_value[None, :],
                                other=0.0,
                            ),
                            mask=is_hidden_1[:, None] & is_value[None, :],
                        )
        if part == 9:
            border_7 = (last == ROWS).to(tl.float32)
            d_reads_2 = tl.load(
                d_y_block + row[:, None] * d_y_row + value[None, :],
                mask=live[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
            value_45 = d_reads_2 * norm_gain[None, :]
            rows_value_7_2 = tl.load(
                rows_value_7_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            memory_b2_2 = tl.load(memory_b2_blocks_pointer + slot * V + value, mask=is_value, other=0.0)
            rows_value_8_2 = tl.load(
                rows_value_8_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            combined_35 = memory_b2_2[None, :] - row_scale_2[:, None] * rows_value_8_2
            combined_36 = rows_value_7_2 + combined_35
            combined_37 = tl.where(
                is_value[None, :],
                combined_36 - (tl.sum(combined_36, 1) * inverse_V)[:, None],
                0.0,
            )
            value_46 = tl.sum(combined_37 * combined_37, 1) * inverse_V
            value_47 = tl.sum(value_45 * combined_37, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_46 + 1e-06)))
            combined_38 = (
                value_45 * tl.exp(-0.5 * tl.log(value_46 + 1e-06))[:, None]
                + (value_47 * inverse_V)[:, None] * (2.0 * combined_37)
            )
            combined_39 = tl.where(
                is_value[None, :],
                combined_38 + (tl.sum(-combined_38, 1) * inverse_V)[:, None],
                0.0,
            )
            for hidden_1_start in range(0, D1, BLOCK_D1):
                hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
                is_hidden_1 = hidden_1 < D1
                d_update_W2_next_3 = tl.load(
                    d_update_W2_next_blocks_pointer
                    + slot * (D1 * V)
                    + hidden_1[:, None] * V
                    + value[None, :],
                    mask=is_hidden_1[:, None] & is_value[None, :],
                    other=0.0,
                )
                d_memory_W2_next_7 = tl.load(
                    d_memory_W2_next_blocks_pointer
                    + slot * (D1 * V)
                    + hidden_1[:, None] * V
                    + value[None, :],
                    mask=is_hidden_1[:, None] & is_value[None, :],
                    other=0.0,
                )
                d_memory_W2_next_8 = d_memory_W2_next_7 * tl.where(border_7 > 0.0, 1.0, 0.0)
                d_update_W2_total_3 = (
                    d_update_W2_next_3 * tl.where(border_7 > 0.0, 0.0, 1.0) - d_memory_W2_next_8 * row_scale
                )
                rows_value_4_4 = tl.load(
                    rows_value_4_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                memory_b1_4 = tl.load(
                    memory_b1_blocks_pointer + slot * D1 + hidden_1,
                    mask=is_hidden_1,
                    other=0.0,
                )
                rows_value_5_4 = tl.load(
                    rows_value_5_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                combined_40 = memory_b1_4[None, :] - row_scale_2[:, None] * rows_value_5_4
                product_10 = tl.dot(
                    tl.trans(gelu(rows_value_4_4 + combined_40).to(DOT)),
                    (combined_39 * row_scale_2[:, None]).to(DOT),
                    input_precision=PRECISION,
                )
                following_2 = d_update_W2_total_3 - product_10
                if block > 0:
                    tl.store(
                        d_update_W2_next_blocks_pointer
                        + (slot - 1) * (D1 * V)
                        + hidden_1[:, None] * V
                        + value[None, :],
                        following_2,
                        mask=is_hidden_1[:, None] & is_value[None, :],
                    )
                else:
                    if GRAD_INITIAL:
                        tl.store(
                            d_update_W2_pointer
                            + memory_index * (D1 * V)
                            + hidden_1[:, None] * V
                            + value[None, :],
                            following_2,
                            mask=is_hidden_1[:, None] & is_value[None, :],
                        )
        if part == 10:
            border_8 = (last == ROWS).to(tl.float32)
            for hidden_1_start in range(0, D1, BLOCK_D1):
                hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
                is_hidden_1 = hidden_1 < D1
                d_memory_b1_next_3 = tl.load(
                    d_memory_b1_next_blocks_pointer + slot * D1 + hidden_1,
                    mask=is_hidden_1,
                    other=0.0,
                )
                d_memory_b1_next_4 = d_memory_b1_next_3 * tl.where(border_8 > 0.0, 1.0, 0.0)
                rows_value_9_3 = tl.load(
                    rows_value_9_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                rows_value_4_5 = tl.load(
                    rows_value_4_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                memory_b1_5 = tl.load(
                    memory_b1_blocks_pointer + slot * D1 + hidden_1,
                    mask=is_hidden_1,
                    other=0.0,
                )
                rows_value_5_5 = tl.load(
                    rows_value_5_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                combined_41 = memory_b1_5[None, :] - row_scale_2[:, None] * rows_value_5_5
                value_48 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_4_5 + combined_41), 0.0)
                rows_value_19_2 = tl.load(
                    rows_value_19_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                combined_42 = (
                    d_memory_b1_next_3 * tl.where(border_8 > 0.0, 0.0, 1.0)
                    + d_memory_b1_next_4
                    + tl.sum(rows_value_9_3 * value_48, 0)
                    + tl.sum(rows_value_19_2, 0)
                )
                if block > 0:
                    tl.store(
                        d_memory_b1_next_blocks_pointer + (slot - 1) * D1 + hidden_1,
                        combined_42,
                        mask=is_hidden_1,
                    )
                else:
                    if GRAD_INITIAL:
                        tl.store(
                            d_memory_b1_pointer + memory_index * D1 + hidden_1,
                            combined_42,
                            mask=is_hidden_1,
                        )
        if part == 11:
            border_9 = (last == ROWS).to(tl.float32)
            for hidden_1_start in range(0, D1, BLOCK_D1):
                hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
                is_hidden_1 = hidden_1 < D1
                d_update_b1_next_2 = tl.load(
                    d_update_b1_next_blocks_pointer + slot * D1 + hidden_1,
                    mask=is_hidden_1,
                    other=0.0,
                )
                d_memory_b1_next_5 = tl.load(
                    d_memory_b1_next_blocks_pointer + slot * D1 + hidden_1,
                    mask=is_hidden_1,
                    other=0.0,
                )
                d_memory_b1_next_6 = d_memory_b1_next_5 * tl.where(border_9 > 0.0, 1.0, 0.0)
                d_update_b1_total_2 = (
                    d_update_b1_next_2 * tl.where(border_9 > 0.0, 0.0, 1.0) - d_memory_b1_next_6 * row_scale
                )
                rows_value_9_4 = tl.load(
                    rows_value_9_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                rows_value_4_6 = tl.load(
                    rows_value_4_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                memory_b1_6 = tl.load(
                    memory_b1_blocks_pointer + slot * D1 + hidden_1,
                    mask=is_hidden_1,
                    other=0.0,
                )
                rows_value_5_6 = tl.load(
                    rows_value_5_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                combined_43 = memory_b1_6[None, :] - row_scale_2[:, None] * rows_value_5_6
                value_49 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_4_6 + combined_43), 0.0)
                total_3 = tl.sum(-(rows_value_9_4 * value_49 * row_scale_2[:, None]), 0)
                following_3 = d_update_b1_total_2 + total_3
                if block > 0:
                    tl.store(
                        d_update_b1_next_blocks_pointer + (slot - 1) * D1 + hidden_1,
                        following_3,
                        mask=is_hidden_1,
                    )
                else:
                    if GRAD_INITIAL:
                        tl.store(
                            d_update_b1_pointer + memory_index * D1 + hidden_1,
                            following_3,
                            mask=is_hidden_1,
                        )
        if part == 12:
            d_memory_b2_next_3 = tl.load(
                d_memory_b2_next_blocks_pointer + slot * V + value,
                mask=is_value,
                other=0.0,
            )
            border_10 = (last == ROWS).to(tl.float32)
            d_memory_b2_next_4 = d_memory_b2_next_3 * tl.where(border_10 > 0.0, 1.0, 0.0)
            d_reads_3 = tl.load(
                d_y_block + row[:, None] * d_y_row + value[None, :],
                mask=live[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
            value_50 = d_reads_3 * norm_gain[None, :]
            rows_value_7_3 = tl.load(
                rows_value_7_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            memory_b2_3 = tl.load(memory_b2_blocks_pointer + slot * V + value, mask=is_value, other=0.0)
            rows_value_8_3 = tl.load(
                rows_value_8_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            combined_44 = memory_b2_3[None, :] - row_scale_2[:, None] * rows_value_8_3
            combined_45 = rows_value_7_3 + combined_44
            combined_46 = tl.where(
                is_value[None, :],
                combined_45 - (tl.sum(combined_45, 1) * inverse_V)[:, None],
                0.0,
            )
            value_51 = tl.sum(combined_46 * combined_46, 1) * inverse_V
            value_52 = tl.sum(value_50 * combined_46, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_51 + 1e-06)))
            combined_47 = (
                value_50 * tl.exp(-0.5 * tl.log(value_51 + 1e-06))[:, None]
                + (value_52 * inverse_V)[:, None] * (2.0 * combined_46)
            )
            combined_48 = tl.where(
                is_value[None, :],
                combined_47 + (tl.sum(-combined_47, 1) * inverse_V)[:, None],
                0.0,
            )
            d_errors_W2_3 = tl.load(
                rows_d_errors_W2_16_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            combined_49 = tl.where(
                is_value[None, :],
                d_errors_W2_3 - (tl.sum(d_errors_W2_3, 1) * inverse_V)[:, None],
                0.0,
            )
            rows_value_1_5 = tl.load(
                rows_value_1_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            combined_50 = tl.where(
                is_value[None, :],
                rows_value_1_5 - (tl.sum(rows_value_1_5, 1) * inverse_V)[:, None],
                0.0,
            )
            value_53 = tl.sum(combined_50 * combined_50, 1) * inverse_V
            value_54 = tl.exp(-0.5 * tl.log(value_53 + 1e-06))
            combined_51 = combined_50 * value_54[:, None] * norm_gain[None, :] + norm_bias[None, :]
            k_7 = tl.load(
                k_block + row[:, None] * k_row + feature[None, :],
                mask=live[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            # pred = f(M*, phi(k))
            predictions_5 = combined_51 + k_7
            v_5 = tl.load(
                v_block + row[:, None] * v_row + value[None, :],
                mask=live[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
            # E = dl/dpred at the block's M*
            errors_5 = predictions_5 - v_5
            value_55 = errors_5 * norm_gain[None, :]
            total_4 = tl.sum(value_55 * combined_50, 1)
            value_56 = -0.5 * tl.exp(-1.5 * tl.log(value_53 + 1e-06))
            value_57 = 2.0 * (combined_49 * (total_4 * value_56 * inverse_V)[:, None])
            value_58 = 2.0 * combined_50
            value_59 = tl.sum(combined_49 * value_58, 1) * inverse_V
            value_60 = value_59 * value_56
            combined_52 = value_60[:, None] * combined_50 + combined_49 * value_54[:, None]
            d_errors_3 = combined_52 * norm_gain[None, :]
            value_61 = d_errors_3 * norm_gain[None, :]
            value_62 = value_59 * total_4 * (0.75 * tl.exp(-2.5 * tl.log(value_53 + 1e-06)))
            combined_53 = tl.sum(combined_49 * value_55, 1) + tl.sum(value_61 * combined_50, 1)
            value_63 = ((value_62 + combined_53 * value_56) * inverse_V)[:, None] * value_58
            combined_54 = value_57 + value_60[:, None] * value_55 + value_61 * value_54[:, None] + value_63
            combined_55 = tl.where(
                is_value[None, :],
                combined_54 + (tl.sum(-combined_54, 1) * inverse_V)[:, None],
                0.0,
            )
            combined_56 = (
                d_memory_b2_next_3 * tl.where(border_10 > 0.0, 0.0, 1.0)
                + d_memory_b2_next_4
                + tl.sum(combined_48, 0)
                + tl.sum(combined_55, 0)
            )
            if block > 0:
                tl.store(d_memory_b2_next_blocks_pointer + (slot - 1) * V + value, combined_56, mask=is_value)
            else:
                if GRAD_INITIAL:
                    tl.store(d_memory_b2_pointer + memory_index * V + value, combined_56, mask=is_value)
        if part == 13:
            d_update_b2_next_2 = tl.load(
                d_update_b2_next_blocks_pointer + slot * V + value,
                mask=is_value,
                other=0.0,
            )
            border_11 = (last == ROWS).to(tl.float32)
            d_memory_b2_next_5 = tl.load(
                d_memory_b2_next_blocks_pointer + slot * V + value,
                mask=is_value,
                other=0.0,
            )
            d_memory_b2_next_6 = d_memory_b2_next_5 * tl.where(border_11 > 0.0, 1.0, 0.0)
            d_update_b2_total_2 = (
                d_update_b2_next_2 * tl.where(border_11 > 0.0, 0.0, 1.0) - d_memory_b2_next_6 * row_scale
            )
            d_reads_4 = tl.load(
                d_y_block + row[:, None] * d_y_row + value[None, :],
                mask=live[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
            value_64 = d_reads_4 * norm_gain[None, :]
            rows_value_7_4 = tl.load(
                rows_value_7_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            memory_b2_4 = tl.load(memory_b2_blocks_pointer + slot * V + value, mask=is_value, other=0.0)
            rows_value_8_4 = tl.load(
                rows_value_8_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            combined_57 = memory_b2_4[None, :] - row_scale_2[:, None] * rows_value_8_4
            combined_58 = rows_value_7_4 + combined_57
            combined_59 = tl.where(
                is_value[None, :],
                combined_58 - (tl.sum(combined_58, 1) * inverse_V)[:, None],
                0.0,
            )
            value_65 = tl.sum(combined_59 * combined_59, 1) * inverse_V
            value_66 = tl.sum(value_64 * combined_59, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_65 + 1e-06)))
            combined_60 = (
                value_64 * tl.exp(-0.5 * tl.log(value_65 + 1e-06))[:, None]
                + (value_66 * inverse_V)[:, None] * (2.0 * combined_59)
            )
            combined_61 = tl.where(
                is_value[None, :],
                combined_60 + (tl.sum(-combined_60, 1) * inverse_V)[:, None],
                0.0,
            )
            combined_62 = d_update_b2_total_2 + tl.sum(-(combined_61 * row_scale_2[:, None]), 0)
            if block > 0:
                tl.store(d_update_b2_next_blocks_pointer + (slot - 1) * V + value, combined_62, mask=is_value)
            else:
                if GRAD_INITIAL:
                    tl.store(d_update_b2_pointer + memory_index * V + value, combined_62, mask=is_value)
        tl.debug_barrier()  # the next turn reads what this one wrote


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_v(
    d_v_pointer,
    length_pointer,
    norm_gain_pointer,
    position_pointer,
    rows_d_errors_W2_16_pointer,
    rows_value_1_pointer,
    d_v_head,
    d_v_row,
    inverse_V,
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
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    row = tl.arange(0, BLOCK_ROWS)
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
    d_errors_W2 = tl.load(
        rows_d_errors_W2_16_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    combined = tl.where(is_value[None, :], d_errors_W2 - (tl.sum(d_errors_W2, 1) * inverse_V)[:, None], 0.0)
    rows_value_1 = tl.load(
        rows_value_1_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    combined_2 = tl.where(
        is_value[None, :],
        rows_value_1 - (tl.sum(rows_value_1, 1) * inverse_V)[:, None],
        0.0,
    )
    value_2 = tl.sum(combined_2 * combined_2, 1) * inverse_V
    value_3 = (
        tl.sum(combined * (2.0 * combined_2), 1) * inverse_V * (-0.5 * tl.exp(-1.5 * tl.log(value_2 + 1e-06)))
    )
    combined_3 = value_3[:, None] * combined_2 + combined * tl.exp(-0.5 * tl.log(value_2 + 1e-06))[:, None]
    norm_gain = tl.load(norm_gain_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    d_errors = combined_3 * norm_gain[None, :]
    d_v_block = d_v_pointer + (batch * tokens + start) * d_v_row + head * d_v_head
    tl.store(
        d_v_block + row[:, None] * d_v_row + value[None, :],
        -d_errors,
        mask=live[:, None] & is_value[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_q(
    d_q_pointer,
    d_y_pointer,
    k_pointer,
    length_pointer,
    lr_pointer,
    memory_W1_blocks_pointer,
    memory_b1_blocks_pointer,
    position_pointer,
    row_scale_pointer,
    rows_value_0_pointer,
    rows_value_2_pointer,
    rows_value_4_pointer,
    rows_value_5_pointer,
    rows_value_9_pointer,
    update_W1_blocks_pointer,
    d_q_head,
    d_q_row,
    d_y_head,
    d_y_row,
    k_head,
    k_row,
    lr_head,
    lr_row,
    tokens,
    heads,
    blocks,
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
    lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    combined = tl.zeros([BLOCK_ROWS, BLOCK_K], dtype=tl.float32)
    product = tl.zeros([BLOCK_ROWS, BLOCK_ROWS], dtype=tl.float32)
    row_scale = tl.load(row_scale_pointer + head * ROWS + row, mask=row < ROWS, other=0.0).to(tl.float32)
    lr = tl.load(lr_block + row * lr_row, mask=live, other=0.0).to(tl.float32)
    live_2 = live.to(tl.float32)
    # p_C: last row of P
    last_weights = lr * live_2
    for hidden_1_start in range(0, D1, BLOCK_D1):
        hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
        is_hidden_1 = hidden_1 < D1
        rows_value_9 = tl.load(
            rows_value_9_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        rows_value_4 = tl.load(
            rows_value_4_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        memory_b1 = tl.load(memory_b1_blocks_pointer + slot * D1 + hidden_1, mask=is_hidden_1, other=0.0)
        rows_value_5 = tl.load(
            rows_value_5_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        combined_2 = rows_value_4 + (memory_b1[None, :] - row_scale[:, None] * rows_value_5)
        value_2 = rows_value_9 * tl.where(is_hidden_1[None, :], gelu_slope(combined_2), 0.0)
        memory_W1 = tl.load(
            memory_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        combined += tl.dot(value_2.to(DOT), tl.trans(memory_W1.to(DOT)), input_precision=PRECISION)
        value_3 = value_2 * row_scale[:, None]
        update_W1 = tl.load(
            update_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        combined += tl.dot((-value_3).to(DOT), tl.trans(update_W1.to(DOT)), input_precision=PRECISION)
        rows_value_2 = tl.load(
            rows_value_2_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        rows_value_0 = tl.load(
            rows_value_0_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        value_4 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_0), 0.0)
        # the error that reaches the output of W1
        errors_W1 = rows_value_2 * value_4
        product += tl.dot(
            value_3.to(DOT),
            tl.trans((errors_W1 * last_weights[:, None]).to(DOT)),
            input_precision=PRECISION,
        )
    d_reads = tl.load(
        d_y_block + row[:, None] * d_y_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    product_2 = tl.dot(
        tl.where(row[:, None] >= row[None, :], -product, 0.0).to(DOT),
        k.to(DOT),
        input_precision=PRECISION,
    )
    d_q_block = d_q_pointer + (batch * tokens + start) * d_q_row + head * d_q_head
    tl.store(
        d_q_block + row[:, None] * d_q_row + feature[None, :],
        combined + d_reads + product_2,
        mask=live[:, None] & is_feature[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_k(
    d_k_pointer,
    d_lr_pointer,
    d_memory_W1_next_blocks_pointer,
    d_memory_b1_next_blocks_pointer,
    d_memory_b2_next_blocks_pointer,
    d_update_W1_next_blocks_pointer,
    d_update_b1_next_blocks_pointer,
    d_update_b2_next_blocks_pointer,
    d_y_pointer,
    k_pointer,
    length_pointer,
    lr_pointer,
    memory_W1_blocks_pointer,
    memory_b1_blocks_pointer,
    memory_b2_blocks_pointer,
    norm_bias_pointer,
    norm_gain_pointer,
    position_pointer,
    q_pointer,
    row_scale_pointer,
    rows_d_errors_W2_16_pointer,
    rows_value_0_pointer,
    rows_value_10_pointer,
    rows_value_19_pointer,
    rows_value_1_pointer,
    rows_value_2_pointer,
    rows_value_4_pointer,
    rows_value_5_pointer,
    rows_value_7_pointer,
    rows_value_8_pointer,
    rows_value_9_pointer,
    v_pointer,
    d_k_head,
    d_k_row,
    d_lr_head,
    d_lr_row,
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
    """Gradients of one block: d_k, d_lr."""
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
    lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
    combined = tl.zeros([BLOCK_ROWS, BLOCK_K], dtype=tl.float32)
    product = tl.zeros([BLOCK_ROWS, BLOCK_ROWS], dtype=tl.float32)
    product_2 = tl.zeros([BLOCK_ROWS], dtype=tl.float32)
    total = tl.zeros([BLOCK_ROWS], dtype=tl.float32)
    product_3 = tl.zeros([BLOCK_ROWS], dtype=tl.float32)
    # Q X^T
    scores_W2 = tl.zeros([BLOCK_ROWS, BLOCK_ROWS], dtype=tl.float32)
    product_4 = tl.zeros([BLOCK_ROWS, BLOCK_ROWS], dtype=tl.float32)
    border = (last == ROWS).to(tl.float32)
    value_2 = tl.where(border > 0.0, 0.0, 1.0)
    value_3 = tl.where(border > 0.0, 1.0, 0.0)
    row_scale = tl.load(row_scale_pointer + head * row_scale_columns + 15).to(tl.float32)
    lr = tl.load(lr_block + row * lr_row, mask=live, other=0.0).to(tl.float32)
    live_2 = live.to(tl.float32)
    # p_C: last row of P
    last_weights = lr * live_2
    row_scale_2 = tl.load(row_scale_pointer + head * ROWS + row, mask=row < ROWS, other=0.0).to(tl.float32)
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    for hidden_1_start in range(0, D1, BLOCK_D1):
        hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
        is_hidden_1 = hidden_1 < D1
        d_update_W1_next = tl.load(
            d_update_W1_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        d_memory_W1_next = tl.load(
            d_memory_W1_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        d_memory_W1_next_2 = d_memory_W1_next * value_3
        d_update_W1_total = d_update_W1_next * value_2 - d_memory_W1_next_2 * row_scale
        rows_value_2 = tl.load(
            rows_value_2_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        rows_value_0 = tl.load(
            rows_value_0_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        value_4 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_0), 0.0)
        # the error that reaches the output of W1
        errors_W1 = rows_value_2 * value_4
        value_5 = errors_W1 * last_weights[:, None]
        combined += tl.dot(value_5.to(DOT), tl.trans(d_update_W1_total.to(DOT)), input_precision=PRECISION)
        rows_value_19 = tl.load(
            rows_value_19_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        memory_W1 = tl.load(
            memory_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        combined += tl.dot(rows_value_19.to(DOT), tl.trans(memory_W1.to(DOT)), input_precision=PRECISION)
        rows_value_9 = tl.load(
            rows_value_9_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        rows_value_4 = tl.load(
            rows_value_4_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        memory_b1 = tl.load(memory_b1_blocks_pointer + slot * D1 + hidden_1, mask=is_hidden_1, other=0.0)
        rows_value_5 = tl.load(
            rows_value_5_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        combined_2 = rows_value_4 + (memory_b1[None, :] - row_scale_2[:, None] * rows_value_5)
        value_6 = rows_value_9 * tl.where(is_hidden_1[None, :], gelu_slope(combined_2), 0.0)
        value_7 = value_6 * row_scale_2[:, None]
        product += tl.dot(value_7.to(DOT), tl.trans(value_5.to(DOT)), input_precision=PRECISION)
        d_update_b1_next = tl.load(
            d_update_b1_next_blocks_pointer + slot * D1 + hidden_1,
            mask=is_hidden_1,
            other=0.0,
        )
        d_memory_b1_next = tl.load(
            d_memory_b1_next_blocks_pointer + slot * D1 + hidden_1,
            mask=is_hidden_1,
            other=0.0,
        )
        d_memory_b1_next_2 = d_memory_b1_next * value_3
        d_update_b1_total = d_update_b1_next * value_2 - d_memory_b1_next_2 * row_scale
        product_2 += tl.sum(d_update_b1_total[None, :] * errors_W1, 1)
        rows_value_10 = tl.load(
            rows_value_10_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        value_8 = gelu(rows_value_0)
        total += tl.sum(rows_value_10 * value_8, 1)
        product_5 = tl.dot(k.to(DOT), d_update_W1_total.to(DOT), input_precision=PRECISION)
        product_3 += tl.sum(errors_W1 * product_5, 1)
        scores_W2 += tl.dot(gelu(combined_2).to(DOT), tl.trans(value_8.to(DOT)), input_precision=PRECISION)
        product_4 += tl.dot(value_7.to(DOT), tl.trans(errors_W1.to(DOT)), input_precision=PRECISION)
    d_errors_W2 = tl.load(
        rows_d_errors_W2_16_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    combined_3 = tl.where(is_value[None, :], d_errors_W2 - (tl.sum(d_errors_W2, 1) * inverse_V)[:, None], 0.0)
    rows_value_1 = tl.load(
        rows_value_1_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    combined_4 = tl.where(
        is_value[None, :],
        rows_value_1 - (tl.sum(rows_value_1, 1) * inverse_V)[:, None],
        0.0,
    )
    value_9 = 2.0 * combined_4
    value_10 = tl.sum(combined_4 * combined_4, 1) * inverse_V
    value_11 = -0.5 * tl.exp(-1.5 * tl.log(value_10 + 1e-06))
    value_12 = (tl.sum(combined_3 * value_9, 1) * inverse_V * value_11)[:, None] * combined_4
    value_13 = tl.exp(-0.5 * tl.log(value_10 + 1e-06))
    norm_gain = tl.load(norm_gain_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    d_errors = (value_12 + combined_3 * value_13[:, None]) * norm_gain[None, :]
    q = tl.load(
        q_block + row[:, None] * q_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    product_6 = tl.dot(
        tl.trans(tl.where(row[:, None] >= row[None, :], -product, 0.0).to(DOT)),
        q.to(DOT),
        input_precision=PRECISION,
    )
    d_k_block = d_k_pointer + (batch * tokens + start) * d_k_row + head * d_k_head
    tl.store(
        d_k_block + row[:, None] * d_k_row + feature[None, :],
        combined + d_errors + product_6,
        mask=live[:, None] & is_feature[None, :],
    )
    d_update_b2_next = tl.load(d_update_b2_next_blocks_pointer + slot * V + value, mask=is_value, other=0.0)
    d_memory_b2_next = tl.load(d_memory_b2_next_blocks_pointer + slot * V + value, mask=is_value, other=0.0)
    d_memory_b2_next_2 = d_memory_b2_next * value_3
    d_update_b2_total = d_update_b2_next * value_2 - d_memory_b2_next_2 * row_scale
    norm_bias = tl.load(norm_bias_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    combined_5 = combined_4 * value_13[:, None] * norm_gain[None, :] + norm_bias[None, :]
    # pred = f(M*, phi(k))
    predictions = combined_5 + k
    v = tl.load(
        v_block + row[:, None] * v_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    # E = dl/dpred at the block's M*
    errors = predictions - v
    value_14 = errors * norm_gain[None, :]
    value_15 = (tl.sum(value_14 * combined_4, 1) * value_11 * inverse_V)[:, None] * value_9
    combined_6 = value_14 * value_13[:, None] + value_15
    # the error that reaches the output of W2
    errors_W2 = tl.where(is_value[None, :], combined_6 + (tl.sum(-combined_6, 1) * inverse_V)[:, None], 0.0)
    product_7 = tl.sum(d_update_b2_total[None, :] * errors_W2, 1)
    d_reads = tl.load(
        d_y_block + row[:, None] * d_y_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    value_16 = d_reads * norm_gain[None, :]
    rows_value_7 = tl.load(
        rows_value_7_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    memory_b2 = tl.load(memory_b2_blocks_pointer + slot * V + value, mask=is_value, other=0.0)
    rows_value_8 = tl.load(
        rows_value_8_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    combined_7 = rows_value_7 + (memory_b2[None, :] - row_scale_2[:, None] * rows_value_8)
    combined_8 = tl.where(is_value[None, :], combined_7 - (tl.sum(combined_7, 1) * inverse_V)[:, None], 0.0)
    value_17 = tl.sum(combined_8 * combined_8, 1) * inverse_V
    value_18 = tl.sum(value_16 * combined_8, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_17 + 1e-06)))
    combined_9 = (
        value_16 * tl.exp(-0.5 * tl.log(value_17 + 1e-06))[:, None]
        + (value_18 * inverse_V)[:, None] * (2.0 * combined_8)
    )
    combined_10 = tl.where(is_value[None, :], combined_9 + (tl.sum(-combined_9, 1) * inverse_V)[:, None], 0.0)
    product_8 = tl.dot(
        (combined_10 * row_scale_2[:, None]).to(DOT),
        tl.trans(errors_W2.to(DOT)),
        input_precision=PRECISION,
    )
    banded = tl.where(row[:, None] >= row[None, :], -(product_8 * scores_W2), 0.0)
    d_weights = -product_8 - product_4
    total_2 = tl.sum(tl.where(row[:, None] >= row[None, :], d_weights, 0.0), 0)
    # Q X^T
    scores_W1 = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
    banded_2 = tl.where(row[:, None] >= row[None, :], -(product_4 * scores_W1), 0.0)
    combined_11 = (
        product_7 + product_2 + total + product_3 + tl.sum(banded, 0) + total_2 + tl.sum(banded_2, 0)
    )
    d_lr_block = d_lr_pointer + (batch * tokens + start) * d_lr_row + head * d_lr_head
    tl.store(d_lr_block + row * d_lr_row, combined_11 * live_2, mask=live)


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_carried(
    d_memory_W1_next_blocks_pointer,
    d_memory_W2_next_blocks_pointer,
    d_memory_b1_next_blocks_pointer,
    d_memory_b2_next_blocks_pointer,
    d_norm_bias_blocks_pointer,
    d_norm_gain_blocks_pointer,
    d_row_scale_15_blocks_pointer,
    d_row_scale_blocks_pointer,
    d_y_pointer,
    k_pointer,
    length_pointer,
    lr_pointer,
    memory_b1_blocks_pointer,
    memory_b2_blocks_pointer,
    norm_bias_pointer,
    norm_gain_pointer,
    position_pointer,
    row_scale_pointer,
    rows_d_errors_W2_16_pointer,
    rows_value_0_pointer,
    rows_value_1_pointer,
    rows_value_2_pointer,
    rows_value_3_pointer,
    rows_value_4_pointer,
    rows_value_5_pointer,
    rows_value_6_pointer,
    rows_value_7_pointer,
    rows_value_8_pointer,
    rows_value_9_pointer,
    update_W1_blocks_pointer,
    update_W2_blocks_pointer,
    update_b1_blocks_pointer,
    update_b2_blocks_pointer,
    v_pointer,
    d_y_head,
    d_y_row,
    k_head,
    k_row,
    lr_head,
    lr_row,
    v_head,
    v_row,
    inverse_V,
    tokens,
    heads,
    blocks,
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
    """Gradients of one block: d_row_scale_blocks, d_norm_gain_blocks, d_norm_bias_blocks,
    d_row_scale_15_blocks.
    """
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
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
    d_reads = tl.load(
        d_y_block + row[:, None] * d_y_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    rows_value_7 = tl.load(
        rows_value_7_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    memory_b2 = tl.load(memory_b2_blocks_pointer + slot * V + value, mask=is_value, other=0.0)
    row_scale = tl.load(row_scale_pointer + head * ROWS + row, mask=row < ROWS, other=0.0).to(tl.float32)
    rows_value_8 = tl.load(
        rows_value_8_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    combined = rows_value_7 + (memory_b2[None, :] - row_scale[:, None] * rows_value_8)
    combined_2 = tl.where(is_value[None, :], combined - (tl.sum(combined, 1) * inverse_V)[:, None], 0.0)
    value_2 = tl.sum(combined_2 * combined_2, 1) * inverse_V
    value_3 = tl.exp(-0.5 * tl.log(value_2 + 1e-06))
    d_errors_W2 = tl.load(
        rows_d_errors_W2_16_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    combined_3 = tl.where(is_value[None, :], d_errors_W2 - (tl.sum(d_errors_W2, 1) * inverse_V)[:, None], 0.0)
    rows_value_1 = tl.load(
        rows_value_1_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    combined_4 = tl.where(
        is_value[None, :],
        rows_value_1 - (tl.sum(rows_value_1, 1) * inverse_V)[:, None],
        0.0,
    )
    value_4 = 2.0 * combined_4
    value_5 = tl.sum(combined_4 * combined_4, 1) * inverse_V
    value_6 = -0.5 * tl.exp(-1.5 * tl.log(value_5 + 1e-06))
    value_7 = (tl.sum(combined_3 * value_4, 1) * inverse_V * value_6)[:, None] * combined_4
    value_8 = tl.exp(-0.5 * tl.log(value_5 + 1e-06))
    combined_5 = value_7 + combined_3 * value_8[:, None]
    value_9 = combined_4 * value_8[:, None]
    norm_gain = tl.load(norm_gain_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    norm_bias = tl.load(norm_bias_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # pred = f(M*, phi(k))
    predictions = value_9 * norm_gain[None, :] + norm_bias[None, :] + k
    v = tl.load(
        v_block + row[:, None] * v_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    # E = dl/dpred at the block's M*
    errors = predictions - v
    d_errors = combined_5 * norm_gain[None, :]
    combined_6 = (
        tl.sum(d_reads * (combined_2 * value_3[:, None]), 0)
        + tl.sum(combined_5 * errors, 0)
        + tl.sum(d_errors * value_9, 0)
    )
    tl.store(d_norm_gain_blocks_pointer + slot * V + value, combined_6, mask=is_value)
    tl.store(
        d_norm_bias_blocks_pointer + slot * V + value,
        tl.sum(d_reads, 0) + tl.sum(d_errors, 0),
        mask=is_value,
    )
    value_10 = d_reads * norm_gain[None, :]
    value_11 = tl.sum(value_10 * combined_2, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_2 + 1e-06)))
    combined_8 = value_10 * value_3[:, None] + (value_11 * inverse_V)[:, None] * (2.0 * combined_2)
    combined_9 = tl.where(is_value[None, :], combined_8 + (tl.sum(-combined_8, 1) * inverse_V)[:, None], 0.0)
    rows_value_6 = tl.load(
        rows_value_6_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    combined_7 = tl.sum(-(combined_9 * rows_value_8), 1) + tl.sum(-(combined_9 * rows_value_6), 1)
    total = 0.0
    total_2 = tl.zeros([BLOCK_V], dtype=tl.float32)
    total_3 = 0.0
    border = (last == ROWS).to(tl.float32)
    value_12 = tl.where(border > 0.0, 1.0, 0.0)
    lr = tl.load(lr_block + row * lr_row, mask=live, other=0.0).to(tl.float32)
    live_2 = live.to(tl.float32)
    # p_C: last row of P
    last_weights = lr * live_2
    value_13 = errors * norm_gain[None, :]
    value_14 = (tl.sum(value_13 * combined_4, 1) * value_6 * inverse_V)[:, None] * value_4
    combined_10 = value_13 * value_8[:, None] + value_14
    # the error that reaches the output of W2
    errors_W2 = tl.where(is_value[None, :], combined_10 + (tl.sum(-combined_10, 1) * inverse_V)[:, None], 0.0)
    for hidden_1_start in range(0, D1, BLOCK_D1):
        hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
        is_hidden_1 = hidden_1 < D1
        rows_value_9 = tl.load(
            rows_value_9_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        rows_value_4 = tl.load(
            rows_value_4_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        memory_b1 = tl.load(memory_b1_blocks_pointer + slot * D1 + hidden_1, mask=is_hidden_1, other=0.0)
        rows_value_5 = tl.load(
            rows_value_5_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        combined_11 = rows_value_4 + (memory_b1[None, :] - row_scale[:, None] * rows_value_5)
        value_15 = rows_value_9 * tl.where(is_hidden_1[None, :], gelu_slope(combined_11), 0.0)
        combined_7 += tl.sum(-(value_15 * rows_value_5), 1)
        rows_value_3 = tl.load(
            rows_value_3_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        combined_7 += tl.sum(-(value_15 * rows_value_3), 1)
        d_memory_b1_next = tl.load(
            d_memory_b1_next_blocks_pointer + slot * D1 + hidden_1,
            mask=is_hidden_1,
            other=0.0,
        )
        d_memory_b1_next_2 = d_memory_b1_next * value_12
        update_b1 = tl.load(update_b1_blocks_pointer + slot * D1 + hidden_1, mask=is_hidden_1, other=0.0)
        rows_value_2 = tl.load(
            rows_value_2_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        rows_value_0 = tl.load(
            rows_value_0_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        value_16 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_0), 0.0)
        # the error that reaches the output of W1
        errors_W1 = rows_value_2 * value_16
        product = tl.sum(last_weights[:, None] * errors_W1, 0)
        # A: the block's update so far
        update_b1_total = update_b1 + product
        total += tl.sum(-(d_memory_b1_next_2 * update_b1_total), 0)
        d_memory_W2_next = tl.load(
            d_memory_W2_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        d_memory_W2_next_2 = d_memory_W2_next * value_12
        update_W2 = tl.load(
            update_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        product_2 = tl.dot(
            tl.trans((last_weights[:, None] * gelu(rows_value_0)).to(DOT)),
            errors_W2.to(DOT),
            input_precision=PRECISION,
        )
        # A: the block's update so far
        update_W2_total = update_W2 + product_2
        total_2 += tl.sum(-(d_memory_W2_next_2 * update_W2_total), 0)
        d_memory_W1_next = tl.load(
            d_memory_W1_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        d_memory_W1_next_2 = d_memory_W1_next * value_12
        update_W1 = tl.load(
            update_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        product_3 = tl.dot(
            tl.trans((last_weights[:, None] * k).to(DOT)),
            errors_W1.to(DOT),
            input_precision=PRECISION,
        )
        # A: the block's update so far
        update_W1_total = update_W1 + product_3
        total_3 += tl.sum(tl.sum(-(d_memory_W1_next_2 * update_W1_total), 0), 0)
    tl.store(d_row_scale_blocks_pointer + slot * ROWS + row, combined_7, mask=row < ROWS)
    d_memory_b2_next = tl.load(d_memory_b2_next_blocks_pointer + slot * V + value, mask=is_value, other=0.0)
    d_memory_b2_next_2 = d_memory_b2_next * value_12
    update_b2 = tl.load(update_b2_blocks_pointer + slot * V + value, mask=is_value, other=0.0)
    product_4 = tl.sum(last_weights[:, None] * errors_W2, 0)
    # A: the block's update so far
    update_b2_total = update_b2 + product_4
    combined_12 = tl.sum(-(d_memory_b2_next_2 * update_b2_total), 0) + total + tl.sum(total_2, 0) + total_3
    tl.store(d_row_scale_15_blocks_pointer + slot, combined_12)

"""Kernels of the memory rule moneta (tokens).

Rule 83793c1442ee, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
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
def power(x, exponent: tl.constexpr):
    size = tl.abs(x)
    positive = tl.where(size > 0.0, size, 1.0)
    return tl.where(size > 0.0, tl.exp(exponent * tl.log(positive)), 0.0)


@triton.jit
def signed_power(x, exponent: tl.constexpr):
    size = tl.abs(x)
    positive = tl.where(size > 0.0, size, 1.0)
    value = tl.exp(exponent * tl.log(positive))
    return tl.where(size > 0.0, tl.where(x < 0.0, -value, value), 0.0)


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
    gate_value_0_pointer,
    gate_value_1_pointer,
    length_pointer,
    log_alpha_pointer,
    lr_pointer,
    position_pointer,
    log_alpha_head,
    log_alpha_row,
    lr_head,
    lr_row,
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
    log_alpha_block = log_alpha_pointer + (batch * tokens + start) * log_alpha_row + head * log_alpha_head
    lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
    log_alpha = tl.load(log_alpha_block + row * log_alpha_row, mask=live, other=0.0).to(tl.float32)
    log_alpha_coarse, log_alpha_fine, log_alpha_reset = split_log(log_alpha)
    log_alpha_coarse_sum = tl.cumsum(log_alpha_coarse, 0)
    log_alpha_fine_sum = tl.cumsum(log_alpha_fine, 0)
    log_alpha_reset_sum = tl.cumsum(log_alpha_reset, 0)
    since_start = tl.exp(
        tl.where(log_alpha_reset_sum == 0.0, log_alpha_coarse_sum + log_alpha_fine_sum, float("-inf"))
    )
    tl.store(gate_value_0_pointer + slot * ROWS + row, since_start, mask=row < ROWS)
    decay = tl.exp(
        tl.where(
            (row[:, None] >= row[None, :]) & (log_alpha_reset_sum[:, None] == log_alpha_reset_sum[None, :]),
            log_alpha_coarse_sum[:, None]
            - log_alpha_coarse_sum[None, :]
            + (log_alpha_fine_sum[:, None] - log_alpha_fine_sum[None, :]),
            float("-inf"),
        )
    )
    lr = tl.load(lr_block + row * lr_row, mask=live, other=0.0).to(tl.float32)
    live_2 = live.to(tl.float32)
    tl.store(
        gate_value_1_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        decay * lr[None, :] * live_2[None, :],
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
    last_weights = until_end * lr * live_2
    tl.store(gate_last_weights_pointer + slot * ROWS + row, last_weights, mask=row < ROWS)


@triton.jit(do_not_specialize=["tokens", "blocks"])
def forward(
    anchor_W1_final_pointer,
    anchor_W1_pointer,
    anchor_W2_final_pointer,
    anchor_W2_pointer,
    gate_kept_pointer,
    gate_last_weights_pointer,
    gate_value_0_pointer,
    gate_value_1_pointer,
    k_pointer,
    length_pointer,
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
    k_head,
    k_row,
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
    """The memory from block to block and the reads of each block, token by token."""
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
    origin_W2 = tl.load(
        origin_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
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
    origin_W1 = tl.load(
        origin_W1_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
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
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
        q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
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
        combined = memory_W2 - origin_W2
        k = tl.load(
            k_block + row[:, None] * k_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        # M*: the memory at the last border
        anchor_point_W1 = tl.where(block == 0, anchor_W1, memory_W1) if RESUME else memory_W1
        total = tl.sum(tl.sum(power(anchor_point_W1, 4.0), 0), 0)
        value_2 = tl.where(total > 0.0, tl.exp(-0.5 * tl.log(total)), 1.0)
        product = tl.dot(k.to(DOT), (anchor_point_W1 * value_2).to(DOT), input_precision=PRECISION)
        value_3 = gelu(product)
        # M*: the memory at the last border
        anchor_point_W2 = tl.where(block == 0, anchor_W2, memory_W2) if RESUME else memory_W2
        total_2 = tl.sum(tl.sum(power(anchor_point_W2, 4.0), 0), 0)
        value_4 = tl.where(total_2 > 0.0, tl.exp(-0.5 * tl.log(total_2)), 1.0)
        value_5 = anchor_point_W2 * value_4
        product_2 = tl.dot(value_3.to(DOT), value_5.to(DOT), input_precision=PRECISION)
        combined_2 = tl.where(is_value[None, :], product_2 - (tl.sum(product_2, 1) * inverse_V)[:, None], 0.0)
        value_6 = tl.sum(combined_2 * combined_2, 1) * inverse_V
        value_7 = tl.exp(-0.5 * tl.log(value_6 + 1e-06))
        combined_3 = combined_2 * value_7[:, None] * norm_gain[None, :] + norm_bias[None, :]
        # pred = f(M*, phi(k))
        predictions = combined_3 + k
        v = tl.load(
            v_block + row[:, None] * v_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        # E = dl/dpred at the block's M*
        errors = tl.exp(0.5 * tl.log((predictions - v) * (predictions - v) + 1e-06)) * (predictions - v)
        value_8 = errors * norm_gain[None, :]
        value_9 = tl.sum(value_8 * combined_2, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_6 + 1e-06)))
        combined_4 = value_8 * value_7[:, None] + (value_9 * inverse_V)[:, None] * (2.0 * combined_2)
        # the error that reaches the output of W2
        errors_W2 = tl.where(
            is_value[None, :],
            combined_4 + (tl.sum(-combined_4, 1) * inverse_V)[:, None],
            0.0,
        )
        value_10 = tl.where(total_2 > 0.0, -0.5 * tl.exp(-1.5 * tl.log(total_2)), 0.0)
        value_11 = 4.0 * signed_power(anchor_point_W2, 3.0)
        combined_5 = memory_W1 - origin_W1
        product_3 = tl.dot(errors_W2.to(DOT), tl.trans(value_5.to(DOT)), input_precision=PRECISION)
        # the error that reaches the output of W1
        errors_W1 = product_3 * tl.where(is_hidden_1[None, :], gelu_slope(product), 0.0)
        value_12 = tl.where(total > 0.0, -0.5 * tl.exp(-1.5 * tl.log(total)), 0.0)
        value_13 = 4.0 * signed_power(anchor_point_W1, 3.0)
        for token in range(first, last):
            gate_value_0 = tl.load(gate_value_0_pointer + slot * ROWS + token)
            gate_value_1 = tl.load(
                gate_value_1_pointer + slot * (ROWS * ROWS) + token * ROWS + row,
                mask=row < ROWS,
                other=0.0,
            )
            product_4 = tl.dot(
                tl.trans((gate_value_1[:, None] * value_3).to(DOT)),
                errors_W2.to(DOT),
                input_precision=PRECISION,
            )
            value_14 = tl.sum(tl.sum(product_4 * anchor_point_W2, 0), 0) * value_10
            # M of every token
            memory_W2_rows = gate_value_0 * combined + origin_W2 - (product_4 * value_4 + value_14 * value_11)
            value_15 = tl.where(
                tl.sum(tl.sum(power(memory_W2_rows, 4.0), 0), 0) > 0.0,
                tl.exp(-0.5 * tl.log(tl.sum(tl.sum(power(memory_W2_rows, 4.0), 0), 0))),
                1.0,
            )
            product_5 = tl.dot(
                tl.trans((gate_value_1[:, None] * k).to(DOT)),
                errors_W1.to(DOT),
                input_precision=PRECISION,
            )
            value_16 = tl.sum(tl.sum(product_5 * anchor_point_W1, 0), 0) * value_12
            # M of every token
            memory_W1_rows = (
                gate_value_0 * combined_5 + origin_W1 - (product_5 * value_2 + value_16 * value_13)
            )
            value_17 = tl.where(
                tl.sum(tl.sum(power(memory_W1_rows, 4.0), 0), 0) > 0.0,
                tl.exp(-0.5 * tl.log(tl.sum(tl.sum(power(memory_W1_rows, 4.0), 0), 0))),
                1.0,
            )
            q = tl.load(q_block + token * q_row + feature, mask=is_feature, other=0.0).to(tl.float32)
            value_18 = (
                memory_W2_rows * value_15 * gelu(tl.sum(memory_W1_rows * value_17 * q[:, None], 0))[:, None]
            )
            total_3 = tl.sum(value_18, 0)
            combined_6 = tl.where(is_value, total_3 - tl.sum(total_3, 0) * inverse_V, 0.0)
            value_19 = tl.exp(-0.5 * tl.log(tl.sum(combined_6 * combined_6, 0) * inverse_V + 1e-06))
            # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
            reads = combined_6 * value_19 * norm_gain + norm_bias + q
            y_block = y_pointer + (batch * tokens + start) * y_row + head * y_head
            tl.store(y_block + token * y_row + value, reads, mask=is_value)
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
        kept = tl.load(gate_kept_pointer + slot)
        # p_C: last row of P
        last_weights = tl.load(gate_last_weights_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
        product_6 = tl.dot(
            tl.trans((last_weights[:, None] * k).to(DOT)),
            errors_W1.to(DOT),
            input_precision=PRECISION,
        )
        value_20 = tl.sum(tl.sum(product_6 * anchor_point_W1, 0), 0) * value_12
        # M at the end
        memory_W1_next = kept * combined_5 + origin_W1 - (product_6 * value_2 + value_20 * value_13)
        product_7 = tl.dot(
            tl.trans((last_weights[:, None] * value_3).to(DOT)),
            errors_W2.to(DOT),
            input_precision=PRECISION,
        )
        value_21 = tl.sum(tl.sum(product_7 * anchor_point_W2, 0), 0) * value_10
        # M at the end
        memory_W2_next = kept * combined + origin_W2 - (product_7 * value_4 + value_21 * value_11)
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
    d_gate_kept_pointer,
    d_gate_last_weights_pointer,
    d_gate_value_0_pointer,
    d_gate_value_1_pointer,
    d_k_pointer,
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
    gate_kept_pointer,
    gate_last_weights_pointer,
    gate_value_0_pointer,
    gate_value_1_pointer,
    k_pointer,
    length_pointer,
    memory_W1_blocks_pointer,
    memory_W2_blocks_pointer,
    norm_bias_pointer,
    norm_gain_pointer,
    origin_W1_pointer,
    origin_W2_pointer,
    position_pointer,
    q_pointer,
    v_pointer,
    d_k_head,
    d_k_row,
    d_q_head,
    d_q_row,
    d_v_head,
    d_v_row,
    d_y_head,
    d_y_row,
    k_head,
    k_row,
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
    """All gradients, from the last block to the first, token by token."""
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
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
        q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
        memory_W2 = tl.load(
            memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        combined = memory_W2 - origin_W2
        memory_W1 = tl.load(
            memory_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        combined_2 = memory_W1 - origin_W1
        d_kept = tl.sum(tl.sum(d_memory_W2_next * combined, 0), 0) + tl.sum(
            tl.sum(d_memory_W1_next * combined_2, 0),
            0,
        )
        tl.store(d_gate_kept_pointer + slot, d_kept)
        # M*: the memory at the last border
        anchor_point_W2 = tl.where(block == 0, anchor_W2, memory_W2) if RESUME else memory_W2
        value_2 = 4.0 * signed_power(anchor_point_W2, 3.0)
        total = tl.sum(tl.sum(-(d_memory_W2_next * value_2), 0), 0)
        total_2 = tl.sum(tl.sum(power(anchor_point_W2, 4.0), 0), 0)
        value_3 = tl.where(total_2 > 0.0, -0.5 * tl.exp(-1.5 * tl.log(total_2)), 0.0)
        value_4 = total * value_3
        value_5 = tl.where(total_2 > 0.0, tl.exp(-0.5 * tl.log(total_2)), 1.0)
        combined_3 = value_4 * anchor_point_W2 - d_memory_W2_next * value_5
        k = tl.load(
            k_block + row[:, None] * k_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        # M*: the memory at the last border
        anchor_point_W1 = tl.where(block == 0, anchor_W1, memory_W1) if RESUME else memory_W1
        total_3 = tl.sum(tl.sum(power(anchor_point_W1, 4.0), 0), 0)
        value_6 = tl.where(total_3 > 0.0, tl.exp(-0.5 * tl.log(total_3)), 1.0)
        value_7 = anchor_point_W1 * value_6
        product = tl.dot(k.to(DOT), value_7.to(DOT), input_precision=PRECISION)
        value_8 = gelu(product)
        value_9 = anchor_point_W2 * value_5
        product_2 = tl.dot(value_8.to(DOT), value_9.to(DOT), input_precision=PRECISION)
        combined_4 = tl.where(is_value[None, :], product_2 - (tl.sum(product_2, 1) * inverse_V)[:, None], 0.0)
        value_10 = tl.sum(combined_4 * combined_4, 1) * inverse_V
        value_11 = tl.exp(-0.5 * tl.log(value_10 + 1e-06))
        value_12 = combined_4 * value_11[:, None]
        # pred = f(M*, phi(k))
        predictions = value_12 * norm_gain[None, :] + norm_bias[None, :] + k
        v = tl.load(
            v_block + row[:, None] * v_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        # E = dl/dpred at the block's M*
        errors = tl.exp(0.5 * tl.log((predictions - v) * (predictions - v) + 1e-06)) * (predictions - v)
        value_13 = errors * norm_gain[None, :]
        total_4 = tl.sum(value_13 * combined_4, 1)
        value_14 = -0.5 * tl.exp(-1.5 * tl.log(value_10 + 1e-06))
        value_15 = total_4 * value_14 * inverse_V
        value_16 = 2.0 * combined_4
        combined_5 = value_13 * value_11[:, None] + value_15[:, None] * value_16
        # the error that reaches the output of W2
        errors_W2 = tl.where(
            is_value[None, :],
            combined_5 + (tl.sum(-combined_5, 1) * inverse_V)[:, None],
            0.0,
        )
        product_3 = tl.dot(errors_W2.to(DOT), tl.trans(combined_3.to(DOT)), input_precision=PRECISION)
        value_17 = 4.0 * signed_power(anchor_point_W1, 3.0)
        total_5 = tl.sum(tl.sum(-(d_memory_W1_next * value_17), 0), 0)
        value_18 = tl.where(total_3 > 0.0, -0.5 * tl.exp(-1.5 * tl.log(total_3)), 0.0)
        value_19 = total_5 * value_18
        combined_6 = value_19 * anchor_point_W1 - d_memory_W1_next * value_6
        product_4 = tl.dot(errors_W2.to(DOT), tl.trans(value_9.to(DOT)), input_precision=PRECISION)
        value_20 = tl.where(is_hidden_1[None, :], gelu_slope(product), 0.0)
        # the error that reaches the output of W1
        errors_W1 = product_4 * value_20
        product_5 = tl.dot(errors_W1.to(DOT), tl.trans(combined_6.to(DOT)), input_precision=PRECISION)
        d_last_weights = tl.sum(product_3 * value_8, 1) + tl.sum(product_5 * k, 1)
        tl.store(d_gate_last_weights_pointer + slot * ROWS + row, d_last_weights, mask=row < ROWS)
        # p_C: last row of P
        last_weights = tl.load(gate_last_weights_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
        value_21 = last_weights[:, None] * k
        product_6 = tl.dot(value_21.to(DOT), combined_6.to(DOT), input_precision=PRECISION)
        d_errors_W1 = product_6
        product_7 = tl.dot(tl.trans(value_21.to(DOT)), errors_W1.to(DOT), input_precision=PRECISION)
        total_6 = tl.sum(tl.sum(product_7 * anchor_point_W1, 0), 0)
        combined_7 = -(d_memory_W1_next * (total_6 * value_18))
        combined_8 = total_5 * total_6
        # a_C: decay of the memory over the block
        kept = tl.load(gate_kept_pointer + slot)
        combined_9 = d_memory_W1_next * kept
        combined_10 = d_memory_W2_next * kept
        value_22 = last_weights[:, None] * value_8
        product_8 = tl.dot(tl.trans(value_22.to(DOT)), errors_W2.to(DOT), input_precision=PRECISION)
        total_7 = tl.sum(tl.sum(product_8 * anchor_point_W2, 0), 0)
        combined_11 = -(d_memory_W2_next * (total_7 * value_3))
        combined_12 = total * total_7
        total_8 = tl.zeros([BLOCK_ROWS, BLOCK_V], dtype=tl.float32)
        total_9 = tl.zeros([BLOCK_ROWS, BLOCK_D1], dtype=tl.float32)
        total_10 = tl.zeros([BLOCK_ROWS, BLOCK_K], dtype=tl.float32)
        total_11 = tl.zeros([BLOCK_V], dtype=tl.float32)
        total_12 = tl.zeros([BLOCK_V], dtype=tl.float32)
        total_13 = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
        total_14 = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
        total_15 = tl.zeros([BLOCK_D1, BLOCK_V], dtype=tl.float32)
        total_16 = tl.zeros([BLOCK_D1, BLOCK_V], dtype=tl.float32)
        total_17 = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
        total_18 = tl.zeros([BLOCK_D1, BLOCK_V], dtype=tl.float32)
        for token in range(first, last):
            gate_value_0 = tl.load(gate_value_0_pointer + slot * ROWS + token)
            gate_value_1 = tl.load(
                gate_value_1_pointer + slot * (ROWS * ROWS) + token * ROWS + row,
                mask=row < ROWS,
                other=0.0,
            )
            value_23 = gate_value_1[:, None] * value_8
            product_9 = tl.dot(tl.trans(value_23.to(DOT)), errors_W2.to(DOT), input_precision=PRECISION)
            total_19 = tl.sum(tl.sum(product_9 * anchor_point_W2, 0), 0)
            value_24 = total_19 * value_3
            # M of every token
            memory_W2_rows = gate_value_0 * combined + origin_W2 - (product_9 * value_5 + value_24 * value_2)
            total_20 = tl.sum(tl.sum(power(memory_W2_rows, 4.0), 0), 0)
            value_25 = tl.where(total_20 > 0.0, tl.exp(-0.5 * tl.log(total_20)), 1.0)
            value_26 = memory_W2_rows * value_25
            d_reads = tl.load(d_y_block + token * d_y_row + value, mask=is_value, other=0.0).to(tl.float32)
            value_27 = d_reads * norm_gain
            value_28 = gate_value_1[:, None] * k
            product_10 = tl.dot(tl.trans(value_28.to(DOT)), errors_W1.to(DOT), input_precision=PRECISION)
            total_21 = tl.sum(tl.sum(product_10 * anchor_point_W1, 0), 0)
            value_29 = total_21 * value_18
            # M of every token
            memory_W1_rows = (
                gate_value_0 * combined_2 + origin_W1 - (product_10 * value_6 + value_29 * value_17)
            )
            total_22 = tl.sum(tl.sum(power(memory_W1_rows, 4.0), 0), 0)
            value_30 = tl.where(total_22 > 0.0, tl.exp(-0.5 * tl.log(total_22)), 1.0)
            value_31 = memory_W1_rows * value_30
            q = tl.load(q_block + token * q_row + feature, mask=is_feature, other=0.0).to(tl.float32)
            total_23 = tl.sum(value_31 * q[:, None], 0)
            value_32 = gelu(total_23)
            total_24 = tl.sum(value_26 * value_32[:, None], 0)
            combined_13 = tl.where(is_value, total_24 - tl.sum(total_24, 0) * inverse_V, 0.0)
            value_33 = tl.sum(combined_13 * combined_13, 0) * inverse_V
            value_34 = tl.exp(-0.5 * tl.log(value_33 + 1e-06))
            value_35 = tl.sum(value_27 * combined_13, 0) * (-0.5 * tl.exp(-1.5 * tl.log(value_33 + 1e-06)))
            combined_14 = value_27 * value_34 + value_35 * inverse_V * (2.0 * combined_13)
            combined_15 = tl.where(is_value, combined_14 + tl.sum(-combined_14, 0) * inverse_V, 0.0)
            value_36 = tl.sum(value_26 * combined_15[None, :], 1) * tl.where(
                is_hidden_1,
                gelu_slope(total_23),
                0.0,
            )
            value_37 = value_36[None, :] * q[:, None]
            value_38 = tl.where(total_22 > 0.0, -0.5 * tl.exp(-1.5 * tl.log(total_22)), 0.0)
            value_39 = (
                tl.sum(tl.sum(value_37 * memory_W1_rows, 0), 0)
                * value_38
                * (4.0 * signed_power(memory_W1_rows, 3.0))
            )
            d_memory_W1_rows = value_37 * value_30 + value_39
            total_25 = tl.sum(tl.sum(-(d_memory_W1_rows * value_17), 0), 0)
            value_40 = total_25 * value_18
            combined_16 = value_40 * anchor_point_W1 - d_memory_W1_rows * value_6
            product_11 = tl.dot(value_28.to(DOT), combined_16.to(DOT), input_precision=PRECISION)
            d_errors_W1 += product_11
            combined_7 += -(d_memory_W1_rows * value_29)
            combined_8 += total_25 * total_21
            combined_9 += d_memory_W1_rows * gate_value_0
            value_41 = combined_15[None, :] * value_32[:, None]
            value_42 = tl.where(total_20 > 0.0, -0.5 * tl.exp(-1.5 * tl.log(total_20)), 0.0)
            value_43 = (
                tl.sum(tl.sum(value_41 * memory_W2_rows, 0), 0)
                * value_42
                * (4.0 * signed_power(memory_W2_rows, 3.0))
            )
            d_memory_W2_rows = value_41 * value_25 + value_43
            combined_10 += d_memory_W2_rows * gate_value_0
            combined_11 += -(d_memory_W2_rows * value_24)
            total_26 = tl.sum(tl.sum(-(d_memory_W2_rows * value_2), 0), 0)
            combined_12 += total_26 * total_19
            value_44 = total_26 * value_3
            combined_17 = value_44 * anchor_point_W2 - d_memory_W2_rows * value_5
            product_12 = tl.dot(value_23.to(DOT), combined_17.to(DOT), input_precision=PRECISION)
            total_8 += product_12
            product_13 = tl.dot(errors_W2.to(DOT), tl.trans(combined_17.to(DOT)), input_precision=PRECISION)
            total_9 += product_13 * gate_value_1[:, None]
            product_14 = tl.dot(errors_W1.to(DOT), tl.trans(combined_16.to(DOT)), input_precision=PRECISION)
            total_10 += product_14 * gate_value_1[:, None]
            total_11 += d_reads * (combined_13 * value_34)
            total_12 += d_reads
            total_13 += value_40 * product_10
            total_14 += -(d_memory_W1_rows * product_10)
            total_15 += value_44 * product_9
            total_16 += -(d_memory_W2_rows * product_9)
            total_17 += d_memory_W1_rows
            total_18 += d_memory_W2_rows
            d_q_block = d_q_pointer + (batch * tokens + start) * d_q_row + head * d_q_head
            tl.store(
                d_q_block + token * d_q_row + feature,
                d_reads + tl.sum(value_31 * value_36[None, :], 1),
                mask=is_feature,
            )
            combined_18 = tl.sum(tl.sum(d_memory_W2_rows * combined, 0), 0) + tl.sum(
                tl.sum(d_memory_W1_rows * combined_2, 0),
                0,
            )
            tl.store(d_gate_value_0_pointer + slot * ROWS + token, combined_18)
            combined_19 = tl.sum(product_13 * value_8, 1) + tl.sum(product_14 * k, 1)
            tl.store(
                d_gate_value_1_pointer + slot * (ROWS * ROWS) + token * ROWS + row,
                combined_19,
                mask=row < ROWS,
            )
        product_15 = tl.dot(value_22.to(DOT), combined_3.to(DOT), input_precision=PRECISION)
        value_45 = d_errors_W1 * value_20
        product_16 = tl.dot(value_45.to(DOT), value_9.to(DOT), input_precision=PRECISION)
        d_errors_W2 = product_15 + total_8 + product_16
        combined_20 = tl.where(
            is_value[None, :],
            d_errors_W2 - (tl.sum(d_errors_W2, 1) * inverse_V)[:, None],
            0.0,
        )
        value_46 = tl.sum(combined_20 * value_16, 1) * inverse_V
        value_47 = value_46 * value_14
        combined_21 = value_47[:, None] * combined_4 + combined_20 * value_11[:, None]
        d_errors = combined_21 * norm_gain[None, :]
        value_48 = tl.where(
            is_value[None, :],
            tl.exp(-0.5 * tl.log((predictions - v) * (predictions - v) + 1e-06))
            * (predictions - v)
            * (1.0 * predictions - 1.0 * v)
            + tl.exp(0.5 * tl.log((predictions - v) * (predictions - v) + 1e-06)),
            0.0,
        )
        d_predictions = d_errors * value_48
        value_49 = tl.where(
            is_hidden_1[None, :],
            0.3989422804014327 * (2.0 - product * product) * tl.exp(-0.5 * (product * product)),
            0.0,
        )
        value_50 = d_predictions * norm_gain[None, :]
        value_51 = value_46 * total_4 * (0.75 * tl.exp(-2.5 * tl.log(value_10 + 1e-06)))
        combined_22 = tl.sum(combined_20 * value_13, 1) + tl.sum(value_50 * combined_4, 1)
        value_52 = ((value_51 + combined_22 * value_14) * inverse_V)[:, None] * value_16
        combined_23 = (
            2.0 * (combined_20 * value_15[:, None])
            + value_47[:, None] * value_13
            + value_50 * value_11[:, None]
            + value_52
        )
        combined_24 = tl.where(
            is_value[None, :],
            combined_23 + (tl.sum(-combined_23, 1) * inverse_V)[:, None],
            0.0,
        )
        product_17 = tl.dot(combined_24.to(DOT), tl.trans(value_9.to(DOT)), input_precision=PRECISION)
        value_53 = (product_3 * last_weights[:, None] + total_9 + product_17) * value_20
        combined_25 = d_errors_W1 * product_4 * value_49 + value_53
        product_18 = tl.dot(combined_25.to(DOT), tl.trans(value_7.to(DOT)), input_precision=PRECISION)
        combined_26 = product_5 * last_weights[:, None] + d_predictions + product_18 + total_10
        d_k_block = d_k_pointer + (batch * tokens + start) * d_k_row + head * d_k_head
        tl.store(
            d_k_block + row[:, None] * d_k_row + feature[None, :],
            combined_26,
            mask=live[:, None] & is_feature[None, :],
        )
        combined_27 = total_11 + tl.sum(combined_21 * errors, 0) + tl.sum(d_predictions * value_12, 0)
        tl.store(d_norm_gain_blocks_pointer + slot * V + value, combined_27, mask=is_value)
        tl.store(
            d_norm_bias_blocks_pointer + slot * V + value,
            total_12 + tl.sum(d_predictions, 0),
            mask=is_value,
        )
        value_54 = tl.where(
            is_value[None, :],
            tl.exp(-0.5 * tl.log((predictions - v) * (predictions - v) + 1e-06))
            * (predictions - v)
            * (-1.0 * predictions + 1.0 * v)
            - tl.exp(0.5 * tl.log((predictions - v) * (predictions - v) + 1e-06)),
            0.0,
        )
        d_v_block = d_v_pointer + (batch * tokens + start) * d_v_row + head * d_v_head
        tl.store(
            d_v_block + row[:, None] * d_v_row + value[None, :],
            d_errors * value_54,
            mask=live[:, None] & is_value[None, :],
        )
        d_origin_W1 += d_memory_W1_next + total_17 - combined_9
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
        product_19 = tl.dot(tl.trans(k.to(DOT)), combined_25.to(DOT), input_precision=PRECISION)
        value_55 = tl.where(total_3 > 0.0, 0.75 * tl.exp(-2.5 * tl.log(total_3)), 0.0)
        combined_28 = (
            tl.sum(tl.sum(-(d_memory_W1_next * product_7), 0), 0)
            + tl.sum(tl.sum(total_14, 0), 0)
            + tl.sum(tl.sum(product_19 * anchor_point_W1, 0), 0)
        )
        value_56 = (combined_8 * value_55 + combined_28 * value_18) * value_17
        d_anchor_point_W1 = (
            d_anchor_W1
            + value_19 * product_7
            + combined_7 * (12.0 * power(anchor_point_W1, 2.0))
            + total_13
            + product_19 * value_6
            + value_56
        )
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
        product_20 = tl.dot(tl.trans(value_45.to(DOT)), errors_W2.to(DOT), input_precision=PRECISION)
        product_21 = tl.dot(tl.trans(value_8.to(DOT)), combined_24.to(DOT), input_precision=PRECISION)
        combined_29 = product_20 + product_21
        value_57 = tl.where(total_2 > 0.0, 0.75 * tl.exp(-2.5 * tl.log(total_2)), 0.0)
        combined_30 = (
            tl.sum(tl.sum(-(d_memory_W2_next * product_8), 0), 0)
            + tl.sum(tl.sum(total_16, 0), 0)
            + tl.sum(tl.sum(combined_29 * anchor_point_W2, 0), 0)
        )
        value_58 = (combined_12 * value_57 + combined_30 * value_3) * value_2
        d_anchor_point_W2 = (
            d_anchor_W2
            + value_4 * product_8
            + combined_11 * (12.0 * power(anchor_point_W2, 2.0))
            + total_15
            + combined_29 * value_5
            + value_58
        )
        if RESUME:
            if block == 0:
                tl.store(
                    d_anchor_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                    d_anchor_point_W2,
                    mask=is_hidden_1[:, None] & is_value[None, :],
                )
        d_origin_W2 += d_memory_W2_next + total_18 - combined_10
        at_border = tl.where(block == 0, 0.0, d_anchor_point_W1) if RESUME else d_anchor_point_W1
        at_border_2 = tl.where(block == 0, 0.0, d_anchor_point_W2) if RESUME else d_anchor_point_W2
        d_memory_W1_next = at_border + combined_9
        d_memory_W2_next = combined_10 + at_border_2
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


@triton.jit(do_not_specialize=["tokens", "blocks"])
def gates_gradient(
    d_gate_kept_pointer,
    d_gate_last_weights_pointer,
    d_gate_value_0_pointer,
    d_gate_value_1_pointer,
    d_log_alpha_pointer,
    d_lr_pointer,
    gate_kept_pointer,
    gate_value_0_pointer,
    length_pointer,
    log_alpha_pointer,
    lr_pointer,
    position_pointer,
    d_log_alpha_head,
    d_log_alpha_row,
    d_lr_head,
    d_lr_row,
    log_alpha_head,
    log_alpha_row,
    lr_head,
    lr_row,
    tokens,
    heads,
    blocks,
    HAS_LENGTH: tl.constexpr,
    RESUME: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Gradients of one block's gates, from those of decays and weights: d_log_alpha, d_lr."""
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
    lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
    log_alpha_block = log_alpha_pointer + (batch * tokens + start) * log_alpha_row + head * log_alpha_head
    d_kept = tl.load(d_gate_kept_pointer + slot)
    # a_C: decay of the memory over the block
    kept = tl.load(gate_kept_pointer + slot)
    d_gate_value_0 = tl.load(d_gate_value_0_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    value_0 = tl.load(gate_value_0_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    combined = d_kept * kept + tl.cumsum(d_gate_value_0 * value_0, 0, reverse=True)
    d_last_weights = tl.load(d_gate_last_weights_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    live_2 = live.to(tl.float32)
    value_2 = d_last_weights * live_2
    lr = tl.load(lr_block + row * lr_row, mask=live, other=0.0).to(tl.float32)
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
    running = tl.sum(tl.where(row[:, None] > row[None, :], (value_2 * lr * until_end)[None, :], 0.0), 1)
    d_gate_value_1 = tl.load(
        d_gate_value_1_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    value_3 = d_gate_value_1 * live_2[None, :]
    decay = tl.exp(
        tl.where(
            (row[:, None] >= row[None, :]) & (log_alpha_reset_sum[:, None] == log_alpha_reset_sum[None, :]),
            log_alpha_coarse_sum[:, None]
            - log_alpha_coarse_sum[None, :]
            + (log_alpha_fine_sum[:, None] - log_alpha_fine_sum[None, :]),
            float("-inf"),
        )
    )
    banded = tl.where(row[:, None] - row[None, :] >= 1, value_3 * lr[None, :] * decay, 0.0)
    banded_2 = tl.where(row[:, None] >= row[None, :], tl.cumsum(banded, 1) - banded, 0.0)
    d_log_alpha_block = (
        d_log_alpha_pointer + (batch * tokens + start) * d_log_alpha_row + head * d_log_alpha_head
    )
    tl.store(d_log_alpha_block + row * d_log_alpha_row, combined + (running + tl.sum(banded_2, 0)), mask=live)
    d_lr_block = d_lr_pointer + (batch * tokens + start) * d_lr_row + head * d_lr_head
    tl.store(d_lr_block + row * d_lr_row, value_2 * until_end + tl.sum(value_3 * decay, 0), mask=live)

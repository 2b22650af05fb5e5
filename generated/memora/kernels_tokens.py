"""Kernels of the memory rule memora (tokens).

Rule 04f8bff42700, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
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
def softmax(x, lanes, axis: tl.constexpr):
    shifted = tl.where(lanes, x, float("-inf"))
    shifted = shifted - tl.expand_dims(tl.max(shifted, axis), axis)
    weight = tl.where(lanes, tl.exp(shifted), 0.0)
    return weight / tl.expand_dims(tl.sum(weight, axis), axis)


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
            anchor_W1_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
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
        # M*: the memory at the last border
        anchor_point_W2 = tl.where(block == 0, anchor_W2, memory_W2) if RESUME else memory_W2
        shares = tl.where(is_value[None, :], softmax(anchor_point_W2, is_hidden_1[:, None], 0), 0.0)
        k = tl.load(
            k_block + row[:, None] * k_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        # M*: the memory at the last border
        anchor_point_W1 = tl.where(block == 0, anchor_W1, memory_W1) if RESUME else memory_W1
        shares_2 = tl.where(is_hidden_1[None, :], softmax(anchor_point_W1, is_feature[:, None], 0), 0.0)
        product = tl.dot(k.to(DOT), shares_2.to(DOT), input_precision=PRECISION)
        value_2 = gelu(product)
        product_2 = tl.dot(value_2.to(DOT), shares.to(DOT), input_precision=PRECISION)
        combined_2 = tl.where(is_value[None, :], product_2 - (tl.sum(product_2, 1) * inverse_V)[:, None], 0.0)
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
        # E = dl/dpred at the block's M*
        errors = predictions - v
        value_5 = errors * norm_gain[None, :]
        value_6 = tl.sum(value_5 * combined_2, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_3 + 1e-06)))
        combined_4 = value_5 * value_4[:, None] + (value_6 * inverse_V)[:, None] * (2.0 * combined_2)
        # the error that reaches the output of W2
        errors_W2 = tl.where(
            is_value[None, :],
            combined_4 + (tl.sum(-combined_4, 1) * inverse_V)[:, None],
            0.0,
        )
        combined_5 = memory_W1 - origin_W1
        product_3 = tl.dot(errors_W2.to(DOT), tl.trans(shares.to(DOT)), input_precision=PRECISION)
        # the error that reaches the output of W1
        errors_W1 = product_3 * tl.where(is_hidden_1[None, :], gelu_slope(product), 0.0)
        for token in range(first, last):
            gate_value_0 = tl.load(gate_value_0_pointer + slot * ROWS + token)
            gate_value_1 = tl.load(
                gate_value_1_pointer + slot * (ROWS * ROWS) + token * ROWS + row,
                mask=row < ROWS,
                other=0.0,
            )
            product_4 = tl.dot(
                tl.trans((gate_value_1[:, None] * value_2).to(DOT)),
                errors_W2.to(DOT),
                input_precision=PRECISION,
            )
            combined_6 = tl.where(
                is_hidden_1[:, None],
                product_4 - tl.sum(product_4 * shares, 0)[None, :],
                0.0,
            )
            # M of every token
            memory_W2_rows = gate_value_0 * combined + origin_W2 - shares * combined_6
            shares_3 = tl.where(is_value[None, :], softmax(memory_W2_rows, is_hidden_1[:, None], 0), 0.0)
            product_5 = tl.dot(
                tl.trans((gate_value_1[:, None] * k).to(DOT)),
                errors_W1.to(DOT),
                input_precision=PRECISION,
            )
            combined_7 = tl.where(
                is_feature[:, None],
                product_5 - tl.sum(product_5 * shares_2, 0)[None, :],
                0.0,
            )
            # M of every token
            memory_W1_rows = gate_value_0 * combined_5 + origin_W1 - shares_2 * combined_7
            shares_4 = tl.where(is_hidden_1[None, :], softmax(memory_W1_rows, is_feature[:, None], 0), 0.0)
            q = tl.load(q_block + token * q_row + feature, mask=is_feature, other=0.0).to(tl.float32)
            total = tl.sum(shares_3 * gelu(tl.sum(shares_4 * q[:, None], 0))[:, None], 0)
            combined_8 = tl.where(is_value, total - tl.sum(total, 0) * inverse_V, 0.0)
            value_7 = tl.exp(-0.5 * tl.log(tl.sum(combined_8 * combined_8, 0) * inverse_V + 1e-06))
            # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
            reads = combined_8 * value_7 * norm_gain + norm_bias + q
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
        combined_9 = tl.where(is_feature[:, None], product_6 - tl.sum(product_6 * shares_2, 0)[None, :], 0.0)
        # M at the end
        memory_W1_next = kept * combined_5 + origin_W1 - shares_2 * combined_9
        product_7 = tl.dot(
            tl.trans((last_weights[:, None] * value_2).to(DOT)),
            errors_W2.to(DOT),
            input_precision=PRECISION,
        )
        combined_10 = tl.where(is_hidden_1[:, None], product_7 - tl.sum(product_7 * shares, 0)[None, :], 0.0)
        # M at the end
        memory_W2_next = kept * combined + origin_W2 - shares * combined_10
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
        shares = tl.where(is_value[None, :], softmax(anchor_point_W2, is_hidden_1[:, None], 0), 0.0)
        value_2 = d_memory_W2_next * shares
        total = tl.sum(value_2, 0)
        combined_3 = total[None, :] * shares - value_2
        k = tl.load(
            k_block + row[:, None] * k_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        # M*: the memory at the last border
        anchor_point_W1 = tl.where(block == 0, anchor_W1, memory_W1) if RESUME else memory_W1
        shares_2 = tl.where(is_hidden_1[None, :], softmax(anchor_point_W1, is_feature[:, None], 0), 0.0)
        product = tl.dot(k.to(DOT), shares_2.to(DOT), input_precision=PRECISION)
        value_3 = gelu(product)
        product_2 = tl.dot(value_3.to(DOT), shares.to(DOT), input_precision=PRECISION)
        combined_4 = tl.where(is_value[None, :], product_2 - (tl.sum(product_2, 1) * inverse_V)[:, None], 0.0)
        value_4 = tl.sum(combined_4 * combined_4, 1) * inverse_V
        value_5 = tl.exp(-0.5 * tl.log(value_4 + 1e-06))
        value_6 = combined_4 * value_5[:, None]
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
        total_2 = tl.sum(value_7 * combined_4, 1)
        value_8 = -0.5 * tl.exp(-1.5 * tl.log(value_4 + 1e-06))
        value_9 = total_2 * value_8 * inverse_V
        value_10 = 2.0 * combined_4
        combined_5 = value_7 * value_5[:, None] + value_9[:, None] * value_10
        # the error that reaches the output of W2
        errors_W2 = tl.where(
            is_value[None, :],
            combined_5 + (tl.sum(-combined_5, 1) * inverse_V)[:, None],
            0.0,
        )
        product_3 = tl.dot(errors_W2.to(DOT), tl.trans(combined_3.to(DOT)), input_precision=PRECISION)
        value_11 = d_memory_W1_next * shares_2
        total_3 = tl.sum(value_11, 0)
        combined_6 = total_3[None, :] * shares_2 - value_11
        product_4 = tl.dot(errors_W2.to(DOT), tl.trans(shares.to(DOT)), input_precision=PRECISION)
        value_12 = tl.where(is_hidden_1[None, :], gelu_slope(product), 0.0)
        # the error that reaches the output of W1
        errors_W1 = product_4 * value_12
        product_5 = tl.dot(errors_W1.to(DOT), tl.trans(combined_6.to(DOT)), input_precision=PRECISION)
        d_last_weights = tl.sum(product_3 * value_3, 1) + tl.sum(product_5 * k, 1)
        tl.store(d_gate_last_weights_pointer + slot * ROWS + row, d_last_weights, mask=row < ROWS)
        # p_C: last row of P
        last_weights = tl.load(gate_last_weights_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
        value_13 = last_weights[:, None] * k
        product_6 = tl.dot(value_13.to(DOT), combined_6.to(DOT), input_precision=PRECISION)
        d_errors_W1 = product_6
        # a_C: decay of the memory over the block
        kept = tl.load(gate_kept_pointer + slot)
        combined_7 = d_memory_W1_next * kept
        combined_8 = d_memory_W2_next * kept
        total_4 = tl.zeros([BLOCK_ROWS, BLOCK_V], dtype=tl.float32)
        total_5 = tl.zeros([BLOCK_ROWS, BLOCK_D1], dtype=tl.float32)
        total_6 = tl.zeros([BLOCK_ROWS, BLOCK_K], dtype=tl.float32)
        total_7 = tl.zeros([BLOCK_V], dtype=tl.float32)
        total_8 = tl.zeros([BLOCK_V], dtype=tl.float32)
        total_9 = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
        total_10 = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
        total_11 = tl.zeros([BLOCK_D1, BLOCK_V], dtype=tl.float32)
        total_12 = tl.zeros([BLOCK_D1, BLOCK_V], dtype=tl.float32)
        total_13 = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
        total_14 = tl.zeros([BLOCK_D1, BLOCK_V], dtype=tl.float32)
        for token in range(first, last):
            gate_value_0 = tl.load(gate_value_0_pointer + slot * ROWS + token)
            gate_value_1 = tl.load(
                gate_value_1_pointer + slot * (ROWS * ROWS) + token * ROWS + row,
                mask=row < ROWS,
                other=0.0,
            )
            value_14 = gate_value_1[:, None] * k
            product_7 = tl.dot(tl.trans(value_14.to(DOT)), errors_W1.to(DOT), input_precision=PRECISION)
            combined_9 = tl.where(
                is_feature[:, None],
                product_7 - tl.sum(product_7 * shares_2, 0)[None, :],
                0.0,
            )
            # M of every token
            memory_W1_rows = gate_value_0 * combined_2 + origin_W1 - shares_2 * combined_9
            shares_3 = tl.where(is_hidden_1[None, :], softmax(memory_W1_rows, is_feature[:, None], 0), 0.0)
            value_15 = gate_value_1[:, None] * value_3
            product_8 = tl.dot(tl.trans(value_15.to(DOT)), errors_W2.to(DOT), input_precision=PRECISION)
            combined_10 = tl.where(
                is_hidden_1[:, None],
                product_8 - tl.sum(product_8 * shares, 0)[None, :],
                0.0,
            )
            # M of every token
            memory_W2_rows = gate_value_0 * combined + origin_W2 - shares * combined_10
            shares_4 = tl.where(is_value[None, :], softmax(memory_W2_rows, is_hidden_1[:, None], 0), 0.0)
            d_reads = tl.load(d_y_block + token * d_y_row + value, mask=is_value, other=0.0).to(tl.float32)
            value_16 = d_reads * norm_gain
            q = tl.load(q_block + token * q_row + feature, mask=is_feature, other=0.0).to(tl.float32)
            total_15 = tl.sum(shares_3 * q[:, None], 0)
            value_17 = gelu(total_15)
            total_16 = tl.sum(shares_4 * value_17[:, None], 0)
            combined_11 = tl.where(is_value, total_16 - tl.sum(total_16, 0) * inverse_V, 0.0)
            value_18 = tl.sum(combined_11 * combined_11, 0) * inverse_V
            value_19 = tl.exp(-0.5 * tl.log(value_18 + 1e-06))
            value_20 = tl.sum(value_16 * combined_11, 0) * (-0.5 * tl.exp(-1.5 * tl.log(value_18 + 1e-06)))
            combined_12 = value_16 * value_19 + value_20 * inverse_V * (2.0 * combined_11)
            combined_13 = tl.where(is_value, combined_12 + tl.sum(-combined_12, 0) * inverse_V, 0.0)
            value_21 = tl.sum(shares_4 * combined_13[None, :], 1) * tl.where(
                is_hidden_1,
                gelu_slope(total_15),
                0.0,
            )
            value_22 = value_21[None, :] * q[:, None]
            combined_14 = tl.where(
                is_feature[:, None],
                value_22 - tl.sum(value_22 * shares_3, 0)[None, :],
                0.0,
            )
            d_memory_W1_rows = shares_3 * combined_14
            value_23 = d_memory_W1_rows * shares_2
            total_17 = tl.sum(value_23, 0)
            combined_15 = total_17[None, :] * shares_2 - value_23
            product_9 = tl.dot(value_14.to(DOT), combined_15.to(DOT), input_precision=PRECISION)
            d_errors_W1 += product_9
            combined_7 += d_memory_W1_rows * gate_value_0
            value_24 = combined_13[None, :] * value_17[:, None]
            combined_16 = tl.where(
                is_hidden_1[:, None],
                value_24 - tl.sum(value_24 * shares_4, 0)[None, :],
                0.0,
            )
            d_memory_W2_rows = shares_4 * combined_16
            combined_8 += d_memory_W2_rows * gate_value_0
            value_25 = d_memory_W2_rows * shares
            total_18 = tl.sum(value_25, 0)
            combined_17 = total_18[None, :] * shares - value_25
            product_10 = tl.dot(value_15.to(DOT), combined_17.to(DOT), input_precision=PRECISION)
            total_4 += product_10
            product_11 = tl.dot(errors_W2.to(DOT), tl.trans(combined_17.to(DOT)), input_precision=PRECISION)
            total_5 += product_11 * gate_value_1[:, None]
            product_12 = tl.dot(errors_W1.to(DOT), tl.trans(combined_15.to(DOT)), input_precision=PRECISION)
            total_6 += product_12 * gate_value_1[:, None]
            total_7 += d_reads * (combined_11 * value_19)
            total_8 += d_reads
            total_9 += -(d_memory_W1_rows * combined_9)
            total_10 += total_17[None, :] * product_7
            total_11 += -(d_memory_W2_rows * combined_10)
            total_12 += total_18[None, :] * product_8
            total_13 += d_memory_W1_rows
            total_14 += d_memory_W2_rows
            d_q_block = d_q_pointer + (batch * tokens + start) * d_q_row + head * d_q_head
            tl.store(
                d_q_block + token * d_q_row + feature,
                d_reads + tl.sum(shares_3 * value_21[None, :], 1),
                mask=is_feature,
            )
            combined_18 = tl.sum(tl.sum(d_memory_W2_rows * combined, 0), 0) + tl.sum(
                tl.sum(d_memory_W1_rows * combined_2, 0),
                0,
            )
            tl.store(d_gate_value_0_pointer + slot * ROWS + token, combined_18)
            combined_19 = tl.sum(product_11 * value_3, 1) + tl.sum(product_12 * k, 1)
            tl.store(
                d_gate_value_1_pointer + slot * (ROWS * ROWS) + token * ROWS + row,
                combined_19,
                mask=row < ROWS,
            )
        value_26 = last_weights[:, None] * value_3
        product_13 = tl.dot(value_26.to(DOT), combined_3.to(DOT), input_precision=PRECISION)
        value_27 = d_errors_W1 * value_12
        product_14 = tl.dot(value_27.to(DOT), shares.to(DOT), input_precision=PRECISION)
        d_errors_W2 = product_13 + total_4 + product_14
        combined_20 = tl.where(
            is_value[None, :],
            d_errors_W2 - (tl.sum(d_errors_W2, 1) * inverse_V)[:, None],
            0.0,
        )
        value_28 = tl.sum(combined_20 * value_10, 1) * inverse_V
        value_29 = value_28 * value_8
        combined_21 = value_29[:, None] * combined_4 + combined_20 * value_5[:, None]
        d_errors = combined_21 * norm_gain[None, :]
        value_30 = tl.where(
            is_hidden_1[None, :],
            0.3989422804014327 * (2.0 - product * product) * tl.exp(-0.5 * (product * product)),
            0.0,
        )
        value_31 = d_errors * norm_gain[None, :]
        value_32 = value_28 * total_2 * (0.75 * tl.exp(-2.5 * tl.log(value_4 + 1e-06)))
        combined_22 = tl.sum(combined_20 * value_7, 1) + tl.sum(value_31 * combined_4, 1)
        value_33 = ((value_32 + combined_22 * value_8) * inverse_V)[:, None] * value_10
        combined_23 = (
            2.0 * (combined_20 * value_9[:, None])
            + value_29[:, None] * value_7
            + value_31 * value_5[:, None]
            + value_33
        )
        combined_24 = tl.where(
            is_value[None, :],
            combined_23 + (tl.sum(-combined_23, 1) * inverse_V)[:, None],
            0.0,
        )
        product_15 = tl.dot(combined_24.to(DOT), tl.trans(shares.to(DOT)), input_precision=PRECISION)
        value_34 = (product_3 * last_weights[:, None] + total_5 + product_15) * value_12
        combined_25 = d_errors_W1 * product_4 * value_30 + value_34
        product_16 = tl.dot(combined_25.to(DOT), tl.trans(shares_2.to(DOT)), input_precision=PRECISION)
        combined_26 = product_5 * last_weights[:, None] + d_errors + product_16 + total_6
        d_k_block = d_k_pointer + (batch * tokens + start) * d_k_row + head * d_k_head
        tl.store(
            d_k_block + row[:, None] * d_k_row + feature[None, :],
            combined_26,
            mask=live[:, None] & is_feature[None, :],
        )
        combined_27 = total_7 + tl.sum(combined_21 * errors, 0) + tl.sum(d_errors * value_6, 0)
        tl.store(d_norm_gain_blocks_pointer + slot * V + value, combined_27, mask=is_value)
        tl.store(d_norm_bias_blocks_pointer + slot * V + value, total_8 + tl.sum(d_errors, 0), mask=is_value)
        d_v_block = d_v_pointer + (batch * tokens + start) * d_v_row + head * d_v_head
        tl.store(
            d_v_block + row[:, None] * d_v_row + value[None, :],
            -d_errors,
            mask=live[:, None] & is_value[None, :],
        )
        d_origin_W1 += d_memory_W1_next + total_13 - combined_7
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
        product_17 = tl.dot(tl.trans(value_13.to(DOT)), errors_W1.to(DOT), input_precision=PRECISION)
        product_18 = tl.dot(tl.trans(k.to(DOT)), combined_25.to(DOT), input_precision=PRECISION)
        combined_28 = tl.where(
            is_feature[:, None],
            product_17 - tl.sum(product_17 * shares_2, 0)[None, :],
            0.0,
        )
        combined_29 = (
            total_3[None, :] * product_17 + total_9 + total_10 + product_18 - d_memory_W1_next * combined_28
        )
        combined_30 = tl.where(
            is_feature[:, None],
            combined_29 - tl.sum(combined_29 * shares_2, 0)[None, :],
            0.0,
        )
        d_anchor_point_W1 = d_anchor_W1 + shares_2 * combined_30
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
        product_19 = tl.dot(tl.trans(value_26.to(DOT)), errors_W2.to(DOT), input_precision=PRECISION)
        product_20 = tl.dot(tl.trans(value_27.to(DOT)), errors_W2.to(DOT), input_precision=PRECISION)
        product_21 = tl.dot(tl.trans(value_3.to(DOT)), combined_24.to(DOT), input_precision=PRECISION)
        combined_31 = tl.where(
            is_hidden_1[:, None],
            product_19 - tl.sum(product_19 * shares, 0)[None, :],
            0.0,
        )
        combined_32 = (
            total[None, :] * product_19
            + total_11
            + total_12
            + product_20
            + product_21
            - d_memory_W2_next * combined_31
        )
        combined_33 = tl.where(
            is_hidden_1[:, None],
            combined_32 - tl.sum(combined_32 * shares, 0)[None, :],
            0.0,
        )
        d_anchor_point_W2 = d_anchor_W2 + shares * combined_33
        if RESUME:
            if block == 0:
                tl.store(
                    d_anchor_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                    d_anchor_point_W2,
                    mask=is_hidden_1[:, None] & is_value[None, :],
                )
        d_origin_W2 += d_memory_W2_next + total_14 - combined_8
        at_border = tl.where(block == 0, 0.0, d_anchor_point_W1) if RESUME else d_anchor_point_W1
        at_border_2 = tl.where(block == 0, 0.0, d_anchor_point_W2) if RESUME else d_anchor_point_W2
        d_memory_W1_next = at_border + combined_7
        d_memory_W2_next = combined_8 + at_border_2
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

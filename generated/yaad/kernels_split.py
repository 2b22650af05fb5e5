"""Kernels of the memory rule yaad (split_all_4_D1).

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
def gates(
    gate_kept_pointer,
    gate_last_weights_pointer,
    gate_read_decay_pointer,
    gate_weights_pointer,
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
    # a: decay of the memory since the block's start
    read_decay = tl.exp(
        tl.where(log_alpha_reset_sum == 0.0, log_alpha_coarse_sum + log_alpha_fine_sum, float("-inf"))
    )
    tl.store(gate_read_decay_pointer + slot * ROWS + row, read_decay, mask=row < ROWS)
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
    # P: source weights by read
    weights = decay * lr[None, :] * live_2[None, :]
    tl.store(
        gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        weights,
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
def state(
    anchor_W1_final_pointer,
    anchor_W1_pointer,
    anchor_W2_final_pointer,
    anchor_W2_pointer,
    delta_pointer,
    gate_kept_pointer,
    gate_last_weights_pointer,
    k_pointer,
    length_pointer,
    memory_W1_blocks_pointer,
    memory_W1_final_pointer,
    memory_W2_blocks_pointer,
    memory_W2_final_pointer,
    norm_bias_pointer,
    norm_gain_pointer,
    origin_W1_pointer,
    origin_W2_pointer,
    position_pointer,
    v_pointer,
    delta_head,
    delta_row,
    k_head,
    k_row,
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
    # the block that is still open after the call
    open_block = tl.cast((phase + end) // ROWS, tl.int64)
    norm_gain = tl.load(norm_gain_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    norm_bias = tl.load(norm_bias_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    for block in tl.range(0, blocks, disable_licm=True):
        slot = memory_index * blocks + block
        start = tl.cast(block, tl.int64) * ROWS - phase
        first = tl.cast(tl.maximum(-start, 0), tl.int32)
        last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
        live = (row >= first) & (row < last)
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
        delta_block = delta_pointer + (batch * tokens + start) * delta_row + head * delta_head
        product = tl.zeros([BLOCK_ROWS, BLOCK_V], dtype=tl.float32)
        k = tl.load(
            k_block + row[:, None] * k_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        for hidden_1_start in range(0, D1, BLOCK_D1):
            hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
            is_hidden_1 = hidden_1 < D1
            anchor_W1 = (
                tl.load(
                    anchor_W1_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                    mask=is_feature[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                if RESUME
                else 0.0
            )
            memory_W1 = tl.load(
                memory_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                mask=is_feature[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            # M*: the memory at the last border
            anchor_point_W1 = tl.where(block == 0, anchor_W1, memory_W1) if RESUME else memory_W1
            product_2 = tl.dot(k.to(DOT), anchor_point_W1.to(DOT), input_precision=PRECISION)
            value_2 = gelu(product_2)
            anchor_W2 = (
                tl.load(
                    anchor_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                    mask=is_hidden_1[:, None] & is_value[None, :],
                    other=0.0,
                )
                if RESUME
                else 0.0
            )
            memory_W2 = tl.load(
                memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                mask=is_hidden_1[:, None] & is_value[None, :],
                other=0.0,
            )
            # M*: the memory at the last border
            anchor_point_W2 = tl.where(block == 0, anchor_W2, memory_W2) if RESUME else memory_W2
            product += tl.dot(value_2.to(DOT), anchor_point_W2.to(DOT), input_precision=PRECISION)
        if STORE_FINAL:
            if block == open_block:
                for hidden_1_start in range(0, D1, BLOCK_D1):
                    hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
                    is_hidden_1 = hidden_1 < D1
                    anchor_W1_2 = (
                        tl.load(
                            anchor_W1_pointer
                            + memory_index * (K * D1)
                            + feature[:, None] * D1
                            + hidden_1[None, :],
                            mask=is_feature[:, None] & is_hidden_1[None, :],
                            other=0.0,
                        )
                        if RESUME
                        else 0.0
                    )
                    memory_W1_2 = tl.load(
                        memory_W1_blocks_pointer
                        + slot * (K * D1)
                        + feature[:, None] * D1
                        + hidden_1[None, :],
                        mask=is_feature[:, None] & is_hidden_1[None, :],
                        other=0.0,
                    )
                    # M*: the memory at the last border
                    anchor_point_W1_2 = (
                        tl.where(block == 0, anchor_W1_2, memory_W1_2) if RESUME else memory_W1_2
                    )
                    tl.store(
                        anchor_W1_final_pointer
                        + memory_index * (K * D1)
                        + feature[:, None] * D1
                        + hidden_1[None, :],
                        anchor_point_W1_2,
                        mask=is_feature[:, None] & is_hidden_1[None, :],
                    )
        if STORE_FINAL:
            if block == open_block:
                for hidden_1_start in range(0, D1, BLOCK_D1):
                    hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
                    is_hidden_1 = hidden_1 < D1
                    anchor_W2_2 = (
                        tl.load(
                            anchor_W2_pointer
                            + memory_index * (D1 * V)
                            + hidden_1[:, None] * V
                            + value[None, :],
                            mask=is_hidden_1[:, None] & is_value[None, :],
                            other=0.0,
                        )
                        if RESUME
                        else 0.0
                    )
                    memory_W2_2 = tl.load(
                        memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                        mask=is_hidden_1[:, None] & is_value[None, :],
                        other=0.0,
                    )
                    # M*: the memory at the last border
                    anchor_point_W2_2 = (
                        tl.where(block == 0, anchor_W2_2, memory_W2_2) if RESUME else memory_W2_2
                    )
                    tl.store(
                        anchor_W2_final_pointer
                        + memory_index * (D1 * V)
                        + hidden_1[:, None] * V
                        + value[None, :],
                        anchor_point_W2_2,
                        mask=is_hidden_1[:, None] & is_value[None, :],
                    )
        # a_C: decay of the memory over the block
        kept = tl.load(gate_kept_pointer + slot)
        # p_C: last row of P
        last_weights = tl.load(gate_last_weights_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
        combined = tl.where(is_value[None, :], product - (tl.sum(product, 1) * inverse_V)[:, None], 0.0)
        value_3 = tl.sum(combined * combined, 1) * inverse_V
        value_4 = tl.exp(-0.5 * tl.log(value_3 + 1e-06))
        combined_2 = combined * value_4[:, None] * norm_gain[None, :] + norm_bias[None, :]
        # pred = f(M*, phi(k))
        predictions = combined_2 + k
        v = tl.load(
            v_block + row[:, None] * v_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        combined_3 = predictions - v
        delta = tl.load(delta_block + row * delta_row, mask=live, other=0.0).to(tl.float32)
        value_5 = tl.where(
            delta >= tl.sqrt(tl.sum(combined_3 * combined_3, 1)),
            1.0,
            delta * inverse_root(tl.sum(combined_3 * combined_3, 1)),
        )
        # E = dl/dpred at the block's M*
        errors = value_5[:, None] * combined_3
        value_6 = errors * norm_gain[None, :]
        value_7 = tl.sum(value_6 * combined, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_3 + 1e-06)))
        combined_4 = value_6 * value_4[:, None] + (value_7 * inverse_V)[:, None] * (2.0 * combined)
        # the error that reaches the output of W2
        errors_W2 = tl.where(
            is_value[None, :],
            combined_4 + (tl.sum(-combined_4, 1) * inverse_V)[:, None],
            0.0,
        )
        for hidden_1_start in range(0, D1, BLOCK_D1):
            hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
            is_hidden_1 = hidden_1 < D1
            memory_W1_3 = tl.load(
                memory_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                mask=is_feature[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            origin_W1 = tl.load(
                origin_W1_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                mask=is_feature[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            anchor_W2_3 = (
                tl.load(
                    anchor_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                    mask=is_hidden_1[:, None] & is_value[None, :],
                    other=0.0,
                )
                if RESUME
                else 0.0
            )
            memory_W2_3 = tl.load(
                memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                mask=is_hidden_1[:, None] & is_value[None, :],
                other=0.0,
            )
            # M*: the memory at the last border
            anchor_point_W2_3 = tl.where(block == 0, anchor_W2_3, memory_W2_3) if RESUME else memory_W2_3
            product_3 = tl.dot(
                errors_W2.to(DOT),
                tl.trans(anchor_point_W2_3.to(DOT)),
                input_precision=PRECISION,
            )
            anchor_W1_3 = (
                tl.load(
                    anchor_W1_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                    mask=is_feature[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                if RESUME
                else 0.0
            )
            # M*: the memory at the last border
            anchor_point_W1_3 = tl.where(block == 0, anchor_W1_3, memory_W1_3) if RESUME else memory_W1_3
            product_4 = tl.dot(k.to(DOT), anchor_point_W1_3.to(DOT), input_precision=PRECISION)
            # the error that reaches the output of W1
            errors_W1 = product_3 * tl.where(is_hidden_1[None, :], gelu_slope(product_4), 0.0)
            product_5 = tl.dot(
                tl.trans((last_weights[:, None] * k).to(DOT)),
                errors_W1.to(DOT),
                input_precision=PRECISION,
            )
            # M at the end
            memory_W1_next = kept * (memory_W1_3 - origin_W1) + origin_W1 - product_5
            if block + 1 < blocks:
                tl.store(
                    memory_W1_blocks_pointer
                    + (slot + 1) * (K * D1)
                    + feature[:, None] * D1
                    + hidden_1[None, :],
                    memory_W1_next,
                    mask=is_feature[:, None] & is_hidden_1[None, :],
                )
            else:
                if STORE_FINAL:
                    tl.store(
                        memory_W1_final_pointer
                        + memory_index * (K * D1)
                        + feature[:, None] * D1
                        + hidden_1[None, :],
                        memory_W1_next,
                        mask=is_feature[:, None] & is_hidden_1[None, :],
                    )
                    if open_block >= blocks:
                        tl.store(
                            anchor_W1_final_pointer
                            + memory_index * (K * D1)
                            + feature[:, None] * D1
                            + hidden_1[None, :],
                            memory_W1_next,
                            mask=is_feature[:, None] & is_hidden_1[None, :],
                        )
        for hidden_1_start in range(0, D1, BLOCK_D1):
            hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
            is_hidden_1 = hidden_1 < D1
            memory_W2_4 = tl.load(
                memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                mask=is_hidden_1[:, None] & is_value[None, :],
                other=0.0,
            )
            origin_W2 = tl.load(
                origin_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                mask=is_hidden_1[:, None] & is_value[None, :],
                other=0.0,
            )
            anchor_W1_4 = (
                tl.load(
                    anchor_W1_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                    mask=is_feature[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                if RESUME
                else 0.0
            )
            memory_W1_4 = tl.load(
                memory_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                mask=is_feature[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            # M*: the memory at the last border
            anchor_point_W1_4 = tl.where(block == 0, anchor_W1_4, memory_W1_4) if RESUME else memory_W1_4
            product_6 = tl.dot(k.to(DOT), anchor_point_W1_4.to(DOT), input_precision=PRECISION)
            value_8 = gelu(product_6)
            product_7 = tl.dot(
                tl.trans((last_weights[:, None] * value_8).to(DOT)),
                errors_W2.to(DOT),
                input_precision=PRECISION,
            )
            # M at the end
            memory_W2_next = kept * (memory_W2_4 - origin_W2) + origin_W2 - product_7
            if block + 1 < blocks:
                tl.store(
                    memory_W2_blocks_pointer + (slot + 1) * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                    memory_W2_next,
                    mask=is_hidden_1[:, None] & is_value[None, :],
                )
            else:
                if STORE_FINAL:
                    tl.store(
                        memory_W2_final_pointer
                        + memory_index * (D1 * V)
                        + hidden_1[:, None] * V
                        + value[None, :],
                        memory_W2_next,
                        mask=is_hidden_1[:, None] & is_value[None, :],
                    )
                    if open_block >= blocks:
                        tl.store(
                            anchor_W2_final_pointer
                            + memory_index * (D1 * V)
                            + hidden_1[:, None] * V
                            + value[None, :],
                            memory_W2_next,
                            mask=is_hidden_1[:, None] & is_value[None, :],
                        )
        tl.debug_barrier()  # the next block reads what this one wrote


@triton.jit(do_not_specialize=["tokens", "blocks"])
def sources(
    anchor_W1_pointer,
    anchor_W2_pointer,
    delta_pointer,
    k_pointer,
    length_pointer,
    memory_W1_blocks_pointer,
    memory_W2_blocks_pointer,
    norm_bias_pointer,
    norm_gain_pointer,
    position_pointer,
    rows_value_1_pointer,
    rows_value_2_pointer,
    rows_value_3_pointer,
    rows_value_4_pointer,
    v_pointer,
    delta_head,
    delta_row,
    k_head,
    k_row,
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
    """Rows of one block that later kernels read: rows_value_1, rows_value_2, rows_value_3, rows_value_4."""
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
    delta_block = delta_pointer + (batch * tokens + start) * delta_row + head * delta_head
    product = tl.zeros([BLOCK_ROWS, BLOCK_V], dtype=tl.float32)
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    for hidden_1_start in range(0, D1, BLOCK_D1):
        hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
        is_hidden_1 = hidden_1 < D1
        anchor_W1 = (
            tl.load(
                anchor_W1_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                mask=is_feature[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            if RESUME
            else 0.0
        )
        memory_W1 = tl.load(
            memory_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        # M*: the memory at the last border
        anchor_point_W1 = tl.where(block == 0, anchor_W1, memory_W1) if RESUME else memory_W1
        product_2 = tl.dot(k.to(DOT), anchor_point_W1.to(DOT), input_precision=PRECISION)
        anchor_W2 = (
            tl.load(
                anchor_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                mask=is_hidden_1[:, None] & is_value[None, :],
                other=0.0,
            )
            if RESUME
            else 0.0
        )
        memory_W2 = tl.load(
            memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        # M*: the memory at the last border
        anchor_point_W2 = tl.where(block == 0, anchor_W2, memory_W2) if RESUME else memory_W2
        product += tl.dot(gelu(product_2).to(DOT), anchor_point_W2.to(DOT), input_precision=PRECISION)
        tl.store(
            rows_value_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            product_2,
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        )
    tl.store(
        rows_value_2_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        product,
        mask=(row < ROWS)[:, None] & is_value[None, :],
    )
    combined = tl.where(is_value[None, :], product - (tl.sum(product, 1) * inverse_V)[:, None], 0.0)
    tl.store(
        rows_value_3_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        combined,
        mask=(row < ROWS)[:, None] & is_value[None, :],
    )
    value_2 = tl.sum(combined * combined, 1) * inverse_V
    value_3 = tl.exp(-0.5 * tl.log(value_2 + 1e-06))
    norm_gain = tl.load(norm_gain_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    norm_bias = tl.load(norm_bias_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    combined_2 = combined * value_3[:, None] * norm_gain[None, :] + norm_bias[None, :]
    # pred = f(M*, phi(k))
    predictions = combined_2 + k
    v = tl.load(
        v_block + row[:, None] * v_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    combined_3 = predictions - v
    delta = tl.load(delta_block + row * delta_row, mask=live, other=0.0).to(tl.float32)
    value_4 = tl.where(
        delta >= tl.sqrt(tl.sum(combined_3 * combined_3, 1)),
        1.0,
        delta * inverse_root(tl.sum(combined_3 * combined_3, 1)),
    )
    # E = dl/dpred at the block's M*
    errors = value_4[:, None] * combined_3
    value_5 = errors * norm_gain[None, :]
    value_6 = tl.sum(value_5 * combined, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_2 + 1e-06)))
    combined_4 = value_5 * value_3[:, None] + (value_6 * inverse_V)[:, None] * (2.0 * combined)
    # the error that reaches the output of W2
    errors_W2 = tl.where(is_value[None, :], combined_4 + (tl.sum(-combined_4, 1) * inverse_V)[:, None], 0.0)
    for hidden_1_start in range(0, D1, BLOCK_D1):
        hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
        is_hidden_1 = hidden_1 < D1
        anchor_W2_2 = (
            tl.load(
                anchor_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                mask=is_hidden_1[:, None] & is_value[None, :],
                other=0.0,
            )
            if RESUME
            else 0.0
        )
        memory_W2_2 = tl.load(
            memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        # M*: the memory at the last border
        anchor_point_W2_2 = tl.where(block == 0, anchor_W2_2, memory_W2_2) if RESUME else memory_W2_2
        product_3 = tl.dot(errors_W2.to(DOT), tl.trans(anchor_point_W2_2.to(DOT)), input_precision=PRECISION)
        tl.store(
            rows_value_4_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            product_3,
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def reads(
    delta_pointer,
    gate_read_decay_pointer,
    gate_weights_pointer,
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
    rows_value_0_pointer,
    rows_value_1_pointer,
    rows_value_3_pointer,
    rows_value_4_pointer,
    rows_value_5_pointer,
    rows_value_6_pointer,
    rows_value_7_pointer,
    v_pointer,
    delta_head,
    delta_row,
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
    """Rows of one block that later kernels read: rows_value_0, rows_value_5, rows_value_6, rows_value_7."""
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
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    delta_block = delta_pointer + (batch * tokens + start) * delta_row + head * delta_head
    combined = tl.zeros([BLOCK_ROWS, BLOCK_V], dtype=tl.float32)
    product = tl.zeros([BLOCK_ROWS, BLOCK_V], dtype=tl.float32)
    # Q X^T
    scores_W2 = tl.zeros([BLOCK_ROWS, BLOCK_ROWS], dtype=tl.float32)
    q = tl.load(
        q_block + row[:, None] * q_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # a: decay of the memory since the block's start
    read_decay = tl.load(gate_read_decay_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # Q X^T
    scores_W1 = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
    # P: source weights by read
    weights = tl.load(
        gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    # (Q X^T) * P
    attention_W1 = scores_W1 * weights
    for hidden_1_start in range(0, D1, BLOCK_D1):
        hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
        is_hidden_1 = hidden_1 < D1
        memory_W1 = tl.load(
            memory_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        origin_W1 = tl.load(
            origin_W1_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        product_2 = tl.dot(q.to(DOT), (memory_W1 - origin_W1).to(DOT), input_precision=PRECISION)
        product_3 = tl.dot(q.to(DOT), origin_W1.to(DOT), input_precision=PRECISION)
        rows_value_4 = tl.load(
            rows_value_4_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        rows_value_1 = tl.load(
            rows_value_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        value_2 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_1), 0.0)
        # the error that reaches the output of W1
        errors_W1 = rows_value_4 * value_2
        product_4 = tl.dot(attention_W1.to(DOT), errors_W1.to(DOT), input_precision=PRECISION)
        combined_2 = read_decay[:, None] * product_2 + product_3 - product_4
        value_3 = gelu(combined_2)
        memory_W2 = tl.load(
            memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        origin_W2 = tl.load(
            origin_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        combined_3 = memory_W2 - origin_W2
        combined += tl.dot(
            (value_3 * read_decay[:, None]).to(DOT),
            combined_3.to(DOT),
            input_precision=PRECISION,
        )
        combined += tl.dot(value_3.to(DOT), origin_W2.to(DOT), input_precision=PRECISION)
        product += tl.dot(value_3.to(DOT), combined_3.to(DOT), input_precision=PRECISION)
        scores_W2 += tl.dot(value_3.to(DOT), tl.trans(gelu(rows_value_1).to(DOT)), input_precision=PRECISION)
        tl.store(
            rows_value_0_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            product_2,
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        )
        tl.store(
            rows_value_5_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            combined_2,
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        )
    tl.store(
        rows_value_6_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        product,
        mask=(row < ROWS)[:, None] & is_value[None, :],
    )
    # (Q X^T) * P
    attention_W2 = scores_W2 * weights
    rows_value_3 = tl.load(
        rows_value_3_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    value_4 = tl.sum(rows_value_3 * rows_value_3, 1) * inverse_V
    value_5 = tl.exp(-0.5 * tl.log(value_4 + 1e-06))
    norm_gain = tl.load(norm_gain_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    norm_bias = tl.load(norm_bias_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    combined_4 = rows_value_3 * value_5[:, None] * norm_gain[None, :] + norm_bias[None, :]
    # pred = f(M*, phi(k))
    predictions = combined_4 + k
    v = tl.load(
        v_block + row[:, None] * v_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    combined_5 = predictions - v
    delta = tl.load(delta_block + row * delta_row, mask=live, other=0.0).to(tl.float32)
    value_6 = tl.where(
        delta >= tl.sqrt(tl.sum(combined_5 * combined_5, 1)),
        1.0,
        delta * inverse_root(tl.sum(combined_5 * combined_5, 1)),
    )
    # E = dl/dpred at the block's M*
    errors = value_6[:, None] * combined_5
    value_7 = errors * norm_gain[None, :]
    value_8 = tl.sum(value_7 * rows_value_3, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_4 + 1e-06)))
    combined_6 = value_7 * value_5[:, None] + (value_8 * inverse_V)[:, None] * (2.0 * rows_value_3)
    # the error that reaches the output of W2
    errors_W2 = tl.where(is_value[None, :], combined_6 + (tl.sum(-combined_6, 1) * inverse_V)[:, None], 0.0)
    product_5 = tl.dot(attention_W2.to(DOT), errors_W2.to(DOT), input_precision=PRECISION)
    tl.store(
        rows_value_7_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        combined - product_5,
        mask=(row < ROWS)[:, None] & is_value[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output(
    length_pointer,
    norm_bias_pointer,
    norm_gain_pointer,
    position_pointer,
    q_pointer,
    rows_value_7_pointer,
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
    combined = tl.where(is_value[None, :], rows_value_7 - (tl.sum(rows_value_7, 1) * inverse_V)[:, None], 0.0)
    value_2 = tl.exp(-0.5 * tl.log(tl.sum(combined * combined, 1) * inverse_V + 1e-06))
    norm_gain = tl.load(norm_gain_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    norm_bias = tl.load(norm_bias_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    combined_2 = combined * value_2[:, None] * norm_gain[None, :] + norm_bias[None, :]
    q = tl.load(
        q_block + row[:, None] * q_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = combined_2 + q
    y_block = y_pointer + (batch * tokens + start) * y_row + head * y_head
    tl.store(y_block + row[:, None] * y_row + value[None, :], reads, mask=live[:, None] & is_value[None, :])


@triton.jit(do_not_specialize=["tokens", "blocks"])
def read_gradients_1_r_D1(
    d_y_pointer,
    delta_pointer,
    gate_read_decay_pointer,
    gate_weights_pointer,
    k_pointer,
    length_pointer,
    memory_W2_blocks_pointer,
    norm_bias_pointer,
    norm_gain_pointer,
    origin_W2_pointer,
    position_pointer,
    rows_value_1_pointer,
    rows_value_3_pointer,
    rows_value_7_pointer,
    rows_value_8_pointer,
    v_pointer,
    d_y_head,
    d_y_row,
    delta_head,
    delta_row,
    k_head,
    k_row,
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
    """Rows of one block that later kernels read: rows_value_8."""
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
    delta_block = delta_pointer + (batch * tokens + start) * delta_row + head * delta_head
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
    combined = tl.where(is_value[None, :], rows_value_7 - (tl.sum(rows_value_7, 1) * inverse_V)[:, None], 0.0)
    value_3 = tl.sum(combined * combined, 1) * inverse_V
    value_4 = tl.sum(value_2 * combined, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_3 + 1e-06)))
    combined_2 = value_2 * tl.exp(-0.5 * tl.log(value_3 + 1e-06))[:, None] + (value_4 * inverse_V)[
        :, None
    ] * (2.0 * combined)
    combined_3 = tl.where(is_value[None, :], combined_2 + (tl.sum(-combined_2, 1) * inverse_V)[:, None], 0.0)
    # a: decay of the memory since the block's start
    read_decay = tl.load(gate_read_decay_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    rows_value_3 = tl.load(
        rows_value_3_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    value_5 = tl.sum(rows_value_3 * rows_value_3, 1) * inverse_V
    value_6 = tl.exp(-0.5 * tl.log(value_5 + 1e-06))
    norm_bias = tl.load(norm_bias_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    combined_4 = rows_value_3 * value_6[:, None] * norm_gain[None, :] + norm_bias[None, :]
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # pred = f(M*, phi(k))
    predictions = combined_4 + k
    v = tl.load(
        v_block + row[:, None] * v_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    combined_5 = predictions - v
    delta = tl.load(delta_block + row * delta_row, mask=live, other=0.0).to(tl.float32)
    value_7 = tl.where(
        delta >= tl.sqrt(tl.sum(combined_5 * combined_5, 1)),
        1.0,
        delta * inverse_root(tl.sum(combined_5 * combined_5, 1)),
    )
    # E = dl/dpred at the block's M*
    errors = value_7[:, None] * combined_5
    value_8 = errors * norm_gain[None, :]
    value_9 = tl.sum(value_8 * rows_value_3, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_5 + 1e-06)))
    combined_6 = value_8 * value_6[:, None] + (value_9 * inverse_V)[:, None] * (2.0 * rows_value_3)
    # the error that reaches the output of W2
    errors_W2 = tl.where(is_value[None, :], combined_6 + (tl.sum(-combined_6, 1) * inverse_V)[:, None], 0.0)
    product = tl.dot(combined_3.to(DOT), tl.trans(errors_W2.to(DOT)), input_precision=PRECISION)
    # P: source weights by read
    weights = tl.load(
        gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    for hidden_1_start in range(0, D1, BLOCK_D1):
        hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
        is_hidden_1 = hidden_1 < D1
        origin_W2 = tl.load(
            origin_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        product_2 = tl.dot(combined_3.to(DOT), tl.trans(origin_W2.to(DOT)), input_precision=PRECISION)
        memory_W2 = tl.load(
            memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        product_3 = tl.dot(
            combined_3.to(DOT),
            tl.trans((memory_W2 - origin_W2).to(DOT)),
            input_precision=PRECISION,
        )
        rows_value_1 = tl.load(
            rows_value_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        product_4 = tl.dot((product * weights).to(DOT), gelu(rows_value_1).to(DOT), input_precision=PRECISION)
        tl.store(
            rows_value_8_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            product_2 + product_3 * read_decay[:, None] - product_4,
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def read_gradients_1_s_D1(
    d_y_pointer,
    delta_pointer,
    gate_weights_pointer,
    k_pointer,
    length_pointer,
    norm_bias_pointer,
    norm_gain_pointer,
    position_pointer,
    rows_value_14_pointer,
    rows_value_3_pointer,
    rows_value_5_pointer,
    rows_value_7_pointer,
    v_pointer,
    d_y_head,
    d_y_row,
    delta_head,
    delta_row,
    k_head,
    k_row,
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
    """Rows of one block that later kernels read: rows_value_14."""
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
    delta_block = delta_pointer + (batch * tokens + start) * delta_row + head * delta_head
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
    combined = tl.where(is_value[None, :], rows_value_7 - (tl.sum(rows_value_7, 1) * inverse_V)[:, None], 0.0)
    value_3 = tl.sum(combined * combined, 1) * inverse_V
    value_4 = tl.sum(value_2 * combined, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_3 + 1e-06)))
    combined_2 = value_2 * tl.exp(-0.5 * tl.log(value_3 + 1e-06))[:, None] + (value_4 * inverse_V)[
        :, None
    ] * (2.0 * combined)
    combined_3 = tl.where(is_value[None, :], combined_2 + (tl.sum(-combined_2, 1) * inverse_V)[:, None], 0.0)
    rows_value_3 = tl.load(
        rows_value_3_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    value_5 = tl.sum(rows_value_3 * rows_value_3, 1) * inverse_V
    value_6 = tl.exp(-0.5 * tl.log(value_5 + 1e-06))
    norm_bias = tl.load(norm_bias_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    combined_4 = rows_value_3 * value_6[:, None] * norm_gain[None, :] + norm_bias[None, :]
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # pred = f(M*, phi(k))
    predictions = combined_4 + k
    v = tl.load(
        v_block + row[:, None] * v_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    combined_5 = predictions - v
    delta = tl.load(delta_block + row * delta_row, mask=live, other=0.0).to(tl.float32)
    value_7 = tl.where(
        delta >= tl.sqrt(tl.sum(combined_5 * combined_5, 1)),
        1.0,
        delta * inverse_root(tl.sum(combined_5 * combined_5, 1)),
    )
    # E = dl/dpred at the block's M*
    errors = value_7[:, None] * combined_5
    value_8 = errors * norm_gain[None, :]
    value_9 = tl.sum(value_8 * rows_value_3, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_5 + 1e-06)))
    combined_6 = value_8 * value_6[:, None] + (value_9 * inverse_V)[:, None] * (2.0 * rows_value_3)
    # the error that reaches the output of W2
    errors_W2 = tl.where(is_value[None, :], combined_6 + (tl.sum(-combined_6, 1) * inverse_V)[:, None], 0.0)
    product = tl.dot(combined_3.to(DOT), tl.trans(errors_W2.to(DOT)), input_precision=PRECISION)
    # P: source weights by read
    weights = tl.load(
        gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    for hidden_1_start in range(0, D1, BLOCK_D1):
        hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
        is_hidden_1 = hidden_1 < D1
        rows_value_5 = tl.load(
            rows_value_5_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        product_2 = tl.dot(
            tl.trans((product * weights).to(DOT)),
            gelu(rows_value_5).to(DOT),
            input_precision=PRECISION,
        )
        tl.store(
            rows_value_14_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            product_2,
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def read_gradients_1_s_V(
    d_y_pointer,
    gate_weights_pointer,
    length_pointer,
    norm_gain_pointer,
    position_pointer,
    rows_value_11_pointer,
    rows_value_1_pointer,
    rows_value_5_pointer,
    rows_value_7_pointer,
    d_y_head,
    d_y_row,
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
    """Rows of one block that later kernels read: rows_value_11."""
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
    # Q X^T
    scores_W2 = tl.zeros([BLOCK_ROWS, BLOCK_ROWS], dtype=tl.float32)
    for hidden_1_start in range(0, D1, BLOCK_D1):
        hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
        is_hidden_1 = hidden_1 < D1
        rows_value_5 = tl.load(
            rows_value_5_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        rows_value_1 = tl.load(
            rows_value_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        scores_W2 += tl.dot(
            gelu(rows_value_5).to(DOT),
            tl.trans(gelu(rows_value_1).to(DOT)),
            input_precision=PRECISION,
        )
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
    combined = tl.where(is_value[None, :], rows_value_7 - (tl.sum(rows_value_7, 1) * inverse_V)[:, None], 0.0)
    value_3 = tl.sum(combined * combined, 1) * inverse_V
    value_4 = tl.sum(value_2 * combined, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_3 + 1e-06)))
    combined_2 = value_2 * tl.exp(-0.5 * tl.log(value_3 + 1e-06))[:, None] + (value_4 * inverse_V)[
        :, None
    ] * (2.0 * combined)
    combined_3 = tl.where(is_value[None, :], combined_2 + (tl.sum(-combined_2, 1) * inverse_V)[:, None], 0.0)
    # P: source weights by read
    weights = tl.load(
        gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    # (Q X^T) * P
    attention_W2 = scores_W2 * weights
    product = tl.dot(tl.trans(attention_W2.to(DOT)), combined_3.to(DOT), input_precision=PRECISION)
    tl.store(
        rows_value_11_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        product,
        mask=(row < ROWS)[:, None] & is_value[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def read_gradients_2_s_D1(
    gate_weights_pointer,
    k_pointer,
    length_pointer,
    position_pointer,
    q_pointer,
    rows_value_5_pointer,
    rows_value_8_pointer,
    rows_value_9_pointer,
    k_head,
    k_row,
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
    """Rows of one block that later kernels read: rows_value_9."""
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
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
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
    # P: source weights by read
    weights = tl.load(
        gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    # (Q X^T) * P
    attention_W1 = scores_W1 * weights
    for hidden_1_start in range(0, D1, BLOCK_D1):
        hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
        is_hidden_1 = hidden_1 < D1
        rows_value_8 = tl.load(
            rows_value_8_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        rows_value_5 = tl.load(
            rows_value_5_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        value_2 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_5), 0.0)
        product = tl.dot(
            tl.trans(attention_W1.to(DOT)),
            (rows_value_8 * value_2).to(DOT),
            input_precision=PRECISION,
        )
        tl.store(
            rows_value_9_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            product,
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def state_gradient(
    anchor_W2_pointer,
    d_anchor_W1_final_pointer,
    d_anchor_W1_pointer,
    d_anchor_W2_final_pointer,
    d_anchor_W2_pointer,
    d_memory_W1_next_blocks_pointer,
    d_memory_W1_pointer,
    d_memory_W2_next_blocks_pointer,
    d_memory_W2_pointer,
    d_origin_W1_pointer,
    d_origin_W2_pointer,
    d_y_pointer,
    delta_pointer,
    gate_kept_pointer,
    gate_last_weights_pointer,
    gate_read_decay_pointer,
    k_pointer,
    length_pointer,
    memory_W2_blocks_pointer,
    norm_bias_pointer,
    norm_gain_pointer,
    position_pointer,
    q_pointer,
    rows_d_errors_W1_10_pointer,
    rows_d_errors_W2_12_pointer,
    rows_value_11_pointer,
    rows_value_13_pointer,
    rows_value_14_pointer,
    rows_value_15_pointer,
    rows_value_16_pointer,
    rows_value_1_pointer,
    rows_value_3_pointer,
    rows_value_4_pointer,
    rows_value_5_pointer,
    rows_value_7_pointer,
    rows_value_8_pointer,
    rows_value_9_pointer,
    v_pointer,
    d_y_head,
    d_y_row,
    delta_head,
    delta_row,
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
    # the block that is still open after the call
    open_block = tl.cast((phase + end) // ROWS, tl.int64)
    norm_gain = tl.load(norm_gain_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    norm_bias = tl.load(norm_bias_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    for turn in tl.range(0, blocks * 12, disable_licm=True):
        step = turn // 12
        part = turn % 12
        block = blocks - 1 - step
        slot = memory_index * blocks + block
        start = tl.cast(block, tl.int64) * ROWS - phase
        first = tl.cast(tl.maximum(-start, 0), tl.int32)
        last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
        live = (row >= first) & (row < last)
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
        delta_block = delta_pointer + (batch * tokens + start) * delta_row + head * delta_head
        q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
        d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
        if part == 0:
            k = tl.load(
                k_block + row[:, None] * k_row + feature[None, :],
                mask=live[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            # p_C: last row of P
            last_weights = tl.load(gate_last_weights_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
            for hidden_1_start in range(0, D1, BLOCK_D1):
                hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
                is_hidden_1 = hidden_1 < D1
                d_memory_W1_next = tl.load(
                    d_memory_W1_next_blocks_pointer
                    + slot * (K * D1)
                    + feature[:, None] * D1
                    + hidden_1[None, :],
                    mask=is_feature[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                product = tl.dot(k.to(DOT), d_memory_W1_next.to(DOT), input_precision=PRECISION)
                rows_value_9 = tl.load(
                    rows_value_9_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                tl.store(
                    rows_d_errors_W1_10_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    -(product * last_weights[:, None]) - rows_value_9,
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                )
        if part == 1:
            rows_value_3 = tl.load(
                rows_value_3_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            value_2 = tl.sum(rows_value_3 * rows_value_3, 1) * inverse_V
            value_3 = tl.exp(-0.5 * tl.log(value_2 + 1e-06))
            combined = rows_value_3 * value_3[:, None] * norm_gain[None, :] + norm_bias[None, :]
            k_2 = tl.load(
                k_block + row[:, None] * k_row + feature[None, :],
                mask=live[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            # pred = f(M*, phi(k))
            predictions = combined + k_2
            v = tl.load(
                v_block + row[:, None] * v_row + value[None, :],
                mask=live[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
            combined_2 = predictions - v
            delta = tl.load(delta_block + row * delta_row, mask=live, other=0.0).to(tl.float32)
            value_4 = tl.where(
                delta >= tl.sqrt(tl.sum(combined_2 * combined_2, 1)),
                1.0,
                delta * inverse_root(tl.sum(combined_2 * combined_2, 1)),
            )
            # E = dl/dpred at the block's M*
            errors = value_4[:, None] * combined_2
            value_5 = errors * norm_gain[None, :]
            value_6 = tl.sum(value_5 * rows_value_3, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_2 + 1e-06)))
            combined_3 = value_5 * value_3[:, None] + (value_6 * inverse_V)[:, None] * (2.0 * rows_value_3)
            # the error that reaches the output of W2
            errors_W2 = tl.where(
                is_value[None, :],
                combined_3 + (tl.sum(-combined_3, 1) * inverse_V)[:, None],
                0.0,
            )
            for hidden_1_start in range(0, D1, BLOCK_D1):
                hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
                is_hidden_1 = hidden_1 < D1
                d_memory_W2_next = tl.load(
                    d_memory_W2_next_blocks_pointer
                    + slot * (D1 * V)
                    + hidden_1[:, None] * V
                    + value[None, :],
                    mask=is_hidden_1[:, None] & is_value[None, :],
                    other=0.0,
                )
                product_2 = tl.dot(
                    errors_W2.to(DOT),
                    tl.trans(d_memory_W2_next.to(DOT)),
                    input_precision=PRECISION,
                )
                tl.store(
                    rows_value_13_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    product_2,
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                )
        if part == 2:
            combined_4 = tl.zeros([BLOCK_ROWS, BLOCK_V], dtype=tl.float32)
            # p_C: last row of P
            last_weights_2 = tl.load(
                gate_last_weights_pointer + slot * ROWS + row,
                mask=row < ROWS,
                other=0.0,
            )
            for hidden_1_start in range(0, D1, BLOCK_D1):
                hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
                is_hidden_1 = hidden_1 < D1
                d_errors_W1 = tl.load(
                    rows_d_errors_W1_10_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                rows_value_1 = tl.load(
                    rows_value_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                value_7 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_1), 0.0)
                anchor_W2 = (
                    tl.load(
                        anchor_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                        mask=is_hidden_1[:, None] & is_value[None, :],
                        other=0.0,
                    )
                    if RESUME
                    else 0.0
                )
                memory_W2 = tl.load(
                    memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                    mask=is_hidden_1[:, None] & is_value[None, :],
                    other=0.0,
                )
                # M*: the memory at the last border
                anchor_point_W2 = tl.where(block == 0, anchor_W2, memory_W2) if RESUME else memory_W2
                combined_4 += tl.dot(
                    (d_errors_W1 * value_7).to(DOT),
                    anchor_point_W2.to(DOT),
                    input_precision=PRECISION,
                )
                d_memory_W2_next_2 = tl.load(
                    d_memory_W2_next_blocks_pointer
                    + slot * (D1 * V)
                    + hidden_1[:, None] * V
                    + value[None, :],
                    mask=is_hidden_1[:, None] & is_value[None, :],
                    other=0.0,
                )
                combined_4 += tl.dot(
                    (last_weights_2[:, None] * gelu(rows_value_1)).to(DOT),
                    (-d_memory_W2_next_2).to(DOT),
                    input_precision=PRECISION,
                )
            rows_value_11 = tl.load(
                rows_value_11_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            tl.store(
                rows_d_errors_W2_12_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                combined_4 - rows_value_11,
                mask=(row < ROWS)[:, None] & is_value[None, :],
            )
        if part == 3:
            d_errors_W2 = tl.load(
                rows_d_errors_W2_12_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            combined_5 = tl.where(
                is_value[None, :],
                d_errors_W2 - (tl.sum(d_errors_W2, 1) * inverse_V)[:, None],
                0.0,
            )
            rows_value_3_2 = tl.load(
                rows_value_3_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            value_8 = tl.sum(rows_value_3_2 * rows_value_3_2, 1) * inverse_V
            value_9 = tl.exp(-0.5 * tl.log(value_8 + 1e-06))
            combined_6 = rows_value_3_2 * value_9[:, None] * norm_gain[None, :] + norm_bias[None, :]
            k_3 = tl.load(
                k_block + row[:, None] * k_row + feature[None, :],
                mask=live[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            # pred = f(M*, phi(k))
            predictions_2 = combined_6 + k_3
            v_2 = tl.load(
                v_block + row[:, None] * v_row + value[None, :],
                mask=live[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
            combined_7 = predictions_2 - v_2
            total = tl.sum(combined_7 * combined_7, 1)
            delta_2 = tl.load(delta_block + row * delta_row, mask=live, other=0.0).to(tl.float32)
            value_10 = tl.where(delta_2 >= tl.sqrt(total), 1.0, delta_2 * inverse_root(total))
            # E = dl/dpred at the block's M*
            errors_2 = value_10[:, None] * combined_7
            value_11 = errors_2 * norm_gain[None, :]
            total_2 = tl.sum(value_11 * rows_value_3_2, 1)
            value_12 = -0.5 * tl.exp(-1.5 * tl.log(value_8 + 1e-06))
            value_13 = 2.0 * (combined_5 * (total_2 * value_12 * inverse_V)[:, None])
            value_14 = 2.0 * rows_value_3_2
            value_15 = tl.sum(combined_5 * value_14, 1) * inverse_V
            value_16 = value_15 * value_12
            combined_8 = value_16[:, None] * rows_value_3_2 + combined_5 * value_9[:, None]
            d_errors = combined_8 * norm_gain[None, :]
            value_17 = tl.where(
                delta_2 >= tl.sqrt(total),
                0.0,
                -0.5 * delta_2 * (inverse_root(total) * inverse_root(total) * inverse_root(total)),
            )
            value_18 = (tl.sum(d_errors * combined_7, 1) * value_17)[:, None] * (2.0 * combined_7)
            d_predictions = d_errors * value_10[:, None] + value_18
            value_19 = d_predictions * norm_gain[None, :]
            value_20 = value_15 * total_2 * (0.75 * tl.exp(-2.5 * tl.log(value_8 + 1e-06)))
            combined_9 = tl.sum(combined_5 * value_11, 1) + tl.sum(value_19 * rows_value_3_2, 1)
            value_21 = ((value_20 + combined_9 * value_12) * inverse_V)[:, None] * value_14
            combined_10 = value_13 + value_16[:, None] * value_11 + value_19 * value_9[:, None] + value_21
            combined_11 = tl.where(
                is_value[None, :],
                combined_10 + (tl.sum(-combined_10, 1) * inverse_V)[:, None],
                0.0,
            )
            # p_C: last row of P
            last_weights_3 = tl.load(
                gate_last_weights_pointer + slot * ROWS + row,
                mask=row < ROWS,
                other=0.0,
            )
            for hidden_1_start in range(0, D1, BLOCK_D1):
                hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
                is_hidden_1 = hidden_1 < D1
                anchor_W2_2 = (
                    tl.load(
                        anchor_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                        mask=is_hidden_1[:, None] & is_value[None, :],
                        other=0.0,
                    )
                    if RESUME
                    else 0.0
                )
                memory_W2_2 = tl.load(
                    memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                    mask=is_hidden_1[:, None] & is_value[None, :],
                    other=0.0,
                )
                # M*: the memory at the last border
                anchor_point_W2_2 = tl.where(block == 0, anchor_W2_2, memory_W2_2) if RESUME else memory_W2_2
                product_3 = tl.dot(
                    combined_11.to(DOT),
                    tl.trans(anchor_point_W2_2.to(DOT)),
                    input_precision=PRECISION,
                )
                rows_value_13 = tl.load(
                    rows_value_13_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                rows_value_14 = tl.load(
                    rows_value_14_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                combined_12 = product_3 - rows_value_13 * last_weights_3[:, None] - rows_value_14
                tl.store(
                    rows_value_15_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    combined_12,
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                )
        if part == 4:
            for hidden_1_start in range(0, D1, BLOCK_D1):
                hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
                is_hidden_1 = hidden_1 < D1
                d_errors_W1_2 = tl.load(
                    rows_d_errors_W1_10_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                rows_value_4 = tl.load(
                    rows_value_4_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                rows_value_1_2 = tl.load(
                    rows_value_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                value_22 = tl.where(
                    is_hidden_1[None, :],
                    0.3989422804014327
                    * (2.0 - rows_value_1_2 * rows_value_1_2)
                    * tl.exp(-0.5 * (rows_value_1_2 * rows_value_1_2)),
                    0.0,
                )
                rows_value_15 = tl.load(
                    rows_value_15_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                value_23 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_1_2), 0.0)
                combined_13 = d_errors_W1_2 * rows_value_4 * value_22 + rows_value_15 * value_23
                tl.store(
                    rows_value_16_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    combined_13,
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                )
        if part == 5:
            k_4 = tl.load(
                k_block + row[:, None] * k_row + feature[None, :],
                mask=live[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            # a_C: decay of the memory over the block
            kept = tl.load(gate_kept_pointer + slot)
            # a: decay of the memory since the block's start
            read_decay = tl.load(gate_read_decay_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
            q = tl.load(
                q_block + row[:, None] * q_row + feature[None, :],
                mask=live[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            for hidden_1_start in range(0, D1, BLOCK_D1):
                hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
                is_hidden_1 = hidden_1 < D1
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
                rows_value_16 = tl.load(
                    rows_value_16_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                product_4 = tl.dot(tl.trans(k_4.to(DOT)), rows_value_16.to(DOT), input_precision=PRECISION)
                d_anchor_point_W1 = d_anchor_W1 + product_4
                at_border = tl.where(block == 0, 0.0, d_anchor_point_W1) if RESUME else d_anchor_point_W1
                d_memory_W1_next_2 = tl.load(
                    d_memory_W1_next_blocks_pointer
                    + slot * (K * D1)
                    + feature[:, None] * D1
                    + hidden_1[None, :],
                    mask=is_feature[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                rows_value_8 = tl.load(
                    rows_value_8_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                rows_value_5 = tl.load(
                    rows_value_5_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                value_24 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_5), 0.0)
                product_5 = tl.dot(
                    tl.trans(q.to(DOT)),
                    (rows_value_8 * value_24 * read_decay[:, None]).to(DOT),
                    input_precision=PRECISION,
                )
                following = at_border + (d_memory_W1_next_2 * kept + product_5)
                if block > 0:
                    tl.store(
                        d_memory_W1_next_blocks_pointer
                        + (slot - 1) * (K * D1)
                        + feature[:, None] * D1
                        + hidden_1[None, :],
                        following,
                        mask=is_feature[:, None] & is_hidden_1[None, :],
                    )
                else:
                    if GRAD_INITIAL:
                        tl.store(
                            d_memory_W1_pointer
                            + memory_index * (K * D1)
                            + feature[:, None] * D1
                            + hidden_1[None, :],
                            following,
                            mask=is_feature[:, None] & is_hidden_1[None, :],
                        )
        if part == 6:
            # a_C: decay of the memory over the block
            kept_2 = tl.load(gate_kept_pointer + slot)
            d_reads = tl.load(
                d_y_block + row[:, None] * d_y_row + value[None, :],
                mask=live[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
            value_25 = d_reads * norm_gain[None, :]
            rows_value_7 = tl.load(
                rows_value_7_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            combined_14 = tl.where(
                is_value[None, :],
                rows_value_7 - (tl.sum(rows_value_7, 1) * inverse_V)[:, None],
                0.0,
            )
            value_26 = tl.sum(combined_14 * combined_14, 1) * inverse_V
            value_27 = tl.sum(value_25 * combined_14, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_26 + 1e-06)))
            combined_15 = value_25 * tl.exp(-0.5 * tl.log(value_26 + 1e-06))[:, None] + (
                value_27 * inverse_V
            )[:, None] * (2.0 * combined_14)
            combined_16 = tl.where(
                is_value[None, :],
                combined_15 + (tl.sum(-combined_15, 1) * inverse_V)[:, None],
                0.0,
            )
            # a: decay of the memory since the block's start
            read_decay_2 = tl.load(gate_read_decay_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
            rows_value_3_3 = tl.load(
                rows_value_3_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            value_28 = tl.sum(rows_value_3_3 * rows_value_3_3, 1) * inverse_V
            value_29 = tl.exp(-0.5 * tl.log(value_28 + 1e-06))
            combined_17 = rows_value_3_3 * value_29[:, None] * norm_gain[None, :] + norm_bias[None, :]
            k_5 = tl.load(
                k_block + row[:, None] * k_row + feature[None, :],
                mask=live[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            # pred = f(M*, phi(k))
            predictions_3 = combined_17 + k_5
            v_3 = tl.load(
                v_block + row[:, None] * v_row + value[None, :],
                mask=live[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
            combined_18 = predictions_3 - v_3
            delta_3 = tl.load(delta_block + row * delta_row, mask=live, other=0.0).to(tl.float32)
            value_30 = tl.where(
                delta_3 >= tl.sqrt(tl.sum(combined_18 * combined_18, 1)),
                1.0,
                delta_3 * inverse_root(tl.sum(combined_18 * combined_18, 1)),
            )
            # E = dl/dpred at the block's M*
            errors_3 = value_30[:, None] * combined_18
            value_31 = errors_3 * norm_gain[None, :]
            value_32 = tl.sum(value_31 * rows_value_3_3, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_28 + 1e-06)))
            combined_19 = value_31 * value_29[:, None] + (value_32 * inverse_V)[:, None] * (
                2.0 * rows_value_3_3
            )
            # the error that reaches the output of W2
            errors_W2_2 = tl.where(
                is_value[None, :],
                combined_19 + (tl.sum(-combined_19, 1) * inverse_V)[:, None],
                0.0,
            )
            for hidden_1_start in range(0, D1, BLOCK_D1):
                hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
                is_hidden_1 = hidden_1 < D1
                d_memory_W2_next_3 = tl.load(
                    d_memory_W2_next_blocks_pointer
                    + slot * (D1 * V)
                    + hidden_1[:, None] * V
                    + value[None, :],
                    mask=is_hidden_1[:, None] & is_value[None, :],
                    other=0.0,
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
                at_border_2 = tl.where(block == 0, 0.0, d_anchor_W2) if RESUME else d_anchor_W2
                rows_value_5_2 = tl.load(
                    rows_value_5_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                product_6 = tl.dot(
                    tl.trans(gelu(rows_value_5_2).to(DOT)),
                    (combined_16 * read_decay_2[:, None]).to(DOT),
                    input_precision=PRECISION,
                )
                d_errors_W1_3 = tl.load(
                    rows_d_errors_W1_10_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                rows_value_1_3 = tl.load(
                    rows_value_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                value_33 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_1_3), 0.0)
                product_7 = tl.dot(
                    tl.trans((d_errors_W1_3 * value_33).to(DOT)),
                    errors_W2_2.to(DOT),
                    input_precision=PRECISION,
                )
                at_border_3 = tl.where(block == 0, 0.0, product_7) if RESUME else product_7
                combined_20 = d_memory_W2_next_3 * kept_2 + at_border_2 + product_6 + at_border_3
                if block > 0:
                    tl.store(
                        d_memory_W2_next_blocks_pointer
                        + (slot - 1) * (D1 * V)
                        + hidden_1[:, None] * V
                        + value[None, :],
                        combined_20,
                        mask=is_hidden_1[:, None] & is_value[None, :],
                    )
                else:
                    if GRAD_INITIAL:
                        tl.store(
                            d_memory_W2_pointer
                            + memory_index * (D1 * V)
                            + hidden_1[:, None] * V
                            + value[None, :],
                            combined_20,
                            mask=is_hidden_1[:, None] & is_value[None, :],
                        )
        if part == 7:
            d_errors_W2_2 = tl.load(
                rows_d_errors_W2_12_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            combined_21 = tl.where(
                is_value[None, :],
                d_errors_W2_2 - (tl.sum(d_errors_W2_2, 1) * inverse_V)[:, None],
                0.0,
            )
            rows_value_3_4 = tl.load(
                rows_value_3_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            value_34 = tl.sum(rows_value_3_4 * rows_value_3_4, 1) * inverse_V
            value_35 = tl.exp(-0.5 * tl.log(value_34 + 1e-06))
            combined_22 = rows_value_3_4 * value_35[:, None] * norm_gain[None, :] + norm_bias[None, :]
            k_6 = tl.load(
                k_block + row[:, None] * k_row + feature[None, :],
                mask=live[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            # pred = f(M*, phi(k))
            predictions_4 = combined_22 + k_6
            v_4 = tl.load(
                v_block + row[:, None] * v_row + value[None, :],
                mask=live[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
            combined_23 = predictions_4 - v_4
            total_3 = tl.sum(combined_23 * combined_23, 1)
            delta_4 = tl.load(delta_block + row * delta_row, mask=live, other=0.0).to(tl.float32)
            value_36 = tl.where(delta_4 >= tl.sqrt(total_3), 1.0, delta_4 * inverse_root(total_3))
            # E = dl/dpred at the block's M*
            errors_4 = value_36[:, None] * combined_23
            value_37 = errors_4 * norm_gain[None, :]
            total_4 = tl.sum(value_37 * rows_value_3_4, 1)
            value_38 = -0.5 * tl.exp(-1.5 * tl.log(value_34 + 1e-06))
            value_39 = 2.0 * (combined_21 * (total_4 * value_38 * inverse_V)[:, None])
            value_40 = 2.0 * rows_value_3_4
            value_41 = tl.sum(combined_21 * value_40, 1) * inverse_V
            value_42 = value_41 * value_38
            combined_24 = value_42[:, None] * rows_value_3_4 + combined_21 * value_35[:, None]
            d_errors_2 = combined_24 * norm_gain[None, :]
            value_43 = tl.where(
                delta_4 >= tl.sqrt(total_3),
                0.0,
                -0.5 * delta_4 * (inverse_root(total_3) * inverse_root(total_3) * inverse_root(total_3)),
            )
            value_44 = (tl.sum(d_errors_2 * combined_23, 1) * value_43)[:, None] * (2.0 * combined_23)
            d_predictions_2 = d_errors_2 * value_36[:, None] + value_44
            value_45 = d_predictions_2 * norm_gain[None, :]
            value_46 = value_41 * total_4 * (0.75 * tl.exp(-2.5 * tl.log(value_34 + 1e-06)))
            combined_25 = tl.sum(combined_21 * value_37, 1) + tl.sum(value_45 * rows_value_3_4, 1)
            value_47 = ((value_46 + combined_25 * value_38) * inverse_V)[:, None] * value_40
            combined_26 = value_39 + value_42[:, None] * value_37 + value_45 * value_35[:, None] + value_47
            combined_27 = tl.where(
                is_value[None, :],
                combined_26 + (tl.sum(-combined_26, 1) * inverse_V)[:, None],
                0.0,
            )
            for hidden_1_start in range(0, D1, BLOCK_D1):
                hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
                is_hidden_1 = hidden_1 < D1
                rows_value_1_4 = tl.load(
                    rows_value_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                product_8 = tl.dot(
                    tl.trans(gelu(rows_value_1_4).to(DOT)),
                    combined_27.to(DOT),
                    input_precision=PRECISION,
                )
                at_border_4 = tl.where(block == 0, 0.0, product_8) if RESUME else product_8
                if block > 0:
                    tl.store(
                        d_memory_W2_next_blocks_pointer
                        + (slot - 1) * (D1 * V)
                        + hidden_1[:, None] * V
                        + value[None, :],
                        at_border_4
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
                            at_border_4
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
        if part == 8:
            q_2 = tl.load(
                q_block + row[:, None] * q_row + feature[None, :],
                mask=live[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            # a_C: decay of the memory over the block
            kept_3 = tl.load(gate_kept_pointer + slot)
            # a: decay of the memory since the block's start
            read_decay_3 = tl.load(gate_read_decay_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
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
                rows_value_8_2 = tl.load(
                    rows_value_8_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                rows_value_5_3 = tl.load(
                    rows_value_5_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                value_48 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_5_3), 0.0)
                value_49 = rows_value_8_2 * value_48
                product_9 = tl.dot(tl.trans(q_2.to(DOT)), value_49.to(DOT), input_precision=PRECISION)
                product_10 = tl.dot(
                    tl.trans(q_2.to(DOT)),
                    (value_49 * read_decay_3[:, None]).to(DOT),
                    input_precision=PRECISION,
                )
                combined_28 = d_memory_W1_next_3 + product_9 - (d_memory_W1_next_3 * kept_3 + product_10)
                d_origin_W1 = combined_28
                if step > 0:
                    d_origin_W1 += tl.load(
                        d_origin_W1_pointer
                        + memory_index * (K * D1)
                        + feature[:, None] * D1
                        + hidden_1[None, :],
                        mask=is_feature[:, None] & is_hidden_1[None, :],
                        other=0.0,
                    )
                tl.store(
                    d_origin_W1_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                    d_origin_W1,
                    mask=is_feature[:, None] & is_hidden_1[None, :],
                )
        if part == 9:
            k_7 = tl.load(
                k_block + row[:, None] * k_row + feature[None, :],
                mask=live[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            for hidden_1_start in range(0, D1, BLOCK_D1):
                hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
                is_hidden_1 = hidden_1 < D1
                d_anchor_W1_2 = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
                if GRAD_FINAL:
                    if block == open_block:
                        d_anchor_W1_2 += tl.load(
                            d_anchor_W1_final_pointer
                            + memory_index * (K * D1)
                            + feature[:, None] * D1
                            + hidden_1[None, :],
                            mask=is_feature[:, None] & is_hidden_1[None, :],
                            other=0.0,
                        )
                rows_value_16_2 = tl.load(
                    rows_value_16_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                product_11 = tl.dot(tl.trans(k_7.to(DOT)), rows_value_16_2.to(DOT), input_precision=PRECISION)
                d_anchor_point_W1_2 = d_anchor_W1_2 + product_11
                if RESUME:
                    if block == 0:
                        tl.store(
                            d_anchor_W1_pointer
                            + memory_index * (K * D1)
                            + feature[:, None] * D1
                            + hidden_1[None, :],
                            d_anchor_point_W1_2,
                            mask=is_feature[:, None] & is_hidden_1[None, :],
                        )
        if part == 10:
            rows_value_3_5 = tl.load(
                rows_value_3_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            value_50 = tl.sum(rows_value_3_5 * rows_value_3_5, 1) * inverse_V
            value_51 = tl.exp(-0.5 * tl.log(value_50 + 1e-06))
            combined_29 = rows_value_3_5 * value_51[:, None] * norm_gain[None, :] + norm_bias[None, :]
            k_8 = tl.load(
                k_block + row[:, None] * k_row + feature[None, :],
                mask=live[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            # pred = f(M*, phi(k))
            predictions_5 = combined_29 + k_8
            v_5 = tl.load(
                v_block + row[:, None] * v_row + value[None, :],
                mask=live[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
            combined_30 = predictions_5 - v_5
            total_5 = tl.sum(combined_30 * combined_30, 1)
            delta_5 = tl.load(delta_block + row * delta_row, mask=live, other=0.0).to(tl.float32)
            value_52 = tl.where(delta_5 >= tl.sqrt(total_5), 1.0, delta_5 * inverse_root(total_5))
            # E = dl/dpred at the block's M*
            errors_5 = value_52[:, None] * combined_30
            value_53 = errors_5 * norm_gain[None, :]
            total_6 = tl.sum(value_53 * rows_value_3_5, 1)
            value_54 = -0.5 * tl.exp(-1.5 * tl.log(value_50 + 1e-06))
            value_55 = total_6 * value_54 * inverse_V
            value_56 = 2.0 * rows_value_3_5
            combined_31 = value_53 * value_51[:, None] + value_55[:, None] * value_56
            # the error that reaches the output of W2
            errors_W2_3 = tl.where(
                is_value[None, :],
                combined_31 + (tl.sum(-combined_31, 1) * inverse_V)[:, None],
                0.0,
            )
            d_errors_W2_3 = tl.load(
                rows_d_errors_W2_12_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            combined_32 = tl.where(
                is_value[None, :],
                d_errors_W2_3 - (tl.sum(d_errors_W2_3, 1) * inverse_V)[:, None],
                0.0,
            )
            value_57 = tl.sum(combined_32 * value_56, 1) * inverse_V
            value_58 = value_57 * value_54
            combined_33 = value_58[:, None] * rows_value_3_5 + combined_32 * value_51[:, None]
            d_errors_3 = combined_33 * norm_gain[None, :]
            value_59 = tl.where(
                delta_5 >= tl.sqrt(total_5),
                0.0,
                -0.5 * delta_5 * (inverse_root(total_5) * inverse_root(total_5) * inverse_root(total_5)),
            )
            value_60 = (tl.sum(d_errors_3 * combined_30, 1) * value_59)[:, None] * (2.0 * combined_30)
            d_predictions_3 = d_errors_3 * value_52[:, None] + value_60
            value_61 = d_predictions_3 * norm_gain[None, :]
            value_62 = value_57 * total_6 * (0.75 * tl.exp(-2.5 * tl.log(value_50 + 1e-06)))
            combined_34 = tl.sum(combined_32 * value_53, 1) + tl.sum(value_61 * rows_value_3_5, 1)
            value_63 = ((value_62 + combined_34 * value_54) * inverse_V)[:, None] * value_56
            combined_35 = (
                2.0 * (combined_32 * value_55[:, None])
                + value_58[:, None] * value_53
                + value_61 * value_51[:, None]
                + value_63
            )
            combined_36 = tl.where(
                is_value[None, :],
                combined_35 + (tl.sum(-combined_35, 1) * inverse_V)[:, None],
                0.0,
            )
            for hidden_1_start in range(0, D1, BLOCK_D1):
                hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
                is_hidden_1 = hidden_1 < D1
                d_anchor_W2_2 = tl.zeros([BLOCK_D1, BLOCK_V], dtype=tl.float32)
                if GRAD_FINAL:
                    if block == open_block:
                        d_anchor_W2_2 += tl.load(
                            d_anchor_W2_final_pointer
                            + memory_index * (D1 * V)
                            + hidden_1[:, None] * V
                            + value[None, :],
                            mask=is_hidden_1[:, None] & is_value[None, :],
                            other=0.0,
                        )
                d_errors_W1_4 = tl.load(
                    rows_d_errors_W1_10_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                rows_value_1_5 = tl.load(
                    rows_value_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                value_64 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_1_5), 0.0)
                product_12 = tl.dot(
                    tl.trans((d_errors_W1_4 * value_64).to(DOT)),
                    errors_W2_3.to(DOT),
                    input_precision=PRECISION,
                )
                product_13 = tl.dot(
                    tl.trans(gelu(rows_value_1_5).to(DOT)),
                    combined_36.to(DOT),
                    input_precision=PRECISION,
                )
                d_anchor_point_W2 = d_anchor_W2_2 + product_12 + product_13
                if RESUME:
                    if block == 0:
                        tl.store(
                            d_anchor_W2_pointer
                            + memory_index * (D1 * V)
                            + hidden_1[:, None] * V
                            + value[None, :],
                            d_anchor_point_W2,
                            mask=is_hidden_1[:, None] & is_value[None, :],
                        )
        if part == 11:
            d_reads_2 = tl.load(
                d_y_block + row[:, None] * d_y_row + value[None, :],
                mask=live[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
            value_65 = d_reads_2 * norm_gain[None, :]
            rows_value_7_2 = tl.load(
                rows_value_7_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            combined_37 = tl.where(
                is_value[None, :],
                rows_value_7_2 - (tl.sum(rows_value_7_2, 1) * inverse_V)[:, None],
                0.0,
            )
            value_66 = tl.sum(combined_37 * combined_37, 1) * inverse_V
            value_67 = tl.sum(value_65 * combined_37, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_66 + 1e-06)))
            combined_38 = value_65 * tl.exp(-0.5 * tl.log(value_66 + 1e-06))[:, None] + (
                value_67 * inverse_V
            )[:, None] * (2.0 * combined_37)
            combined_39 = tl.where(
                is_value[None, :],
                combined_38 + (tl.sum(-combined_38, 1) * inverse_V)[:, None],
                0.0,
            )
            # a_C: decay of the memory over the block
            kept_4 = tl.load(gate_kept_pointer + slot)
            # a: decay of the memory since the block's start
            read_decay_4 = tl.load(gate_read_decay_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
            for hidden_1_start in range(0, D1, BLOCK_D1):
                hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
                is_hidden_1 = hidden_1 < D1
                d_memory_W2_next_4 = tl.load(
                    d_memory_W2_next_blocks_pointer
                    + slot * (D1 * V)
                    + hidden_1[:, None] * V
                    + value[None, :],
                    mask=is_hidden_1[:, None] & is_value[None, :],
                    other=0.0,
                )
                rows_value_5_4 = tl.load(
                    rows_value_5_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                value_68 = gelu(rows_value_5_4)
                product_14 = tl.dot(
                    tl.trans(value_68.to(DOT)),
                    combined_39.to(DOT),
                    input_precision=PRECISION,
                )
                product_15 = tl.dot(
                    tl.trans(value_68.to(DOT)),
                    (combined_39 * read_decay_4[:, None]).to(DOT),
                    input_precision=PRECISION,
                )
                combined_40 = d_memory_W2_next_4 + product_14 - (d_memory_W2_next_4 * kept_4 + product_15)
                d_origin_W2 = combined_40
                if step > 0:
                    d_origin_W2 += tl.load(
                        d_origin_W2_pointer
                        + memory_index * (D1 * V)
                        + hidden_1[:, None] * V
                        + value[None, :],
                        mask=is_hidden_1[:, None] & is_value[None, :],
                        other=0.0,
                    )
                tl.store(
                    d_origin_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                    d_origin_W2,
                    mask=is_hidden_1[:, None] & is_value[None, :],
                )
        tl.debug_barrier()  # the next turn reads what this one wrote


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_v(
    d_delta_pointer,
    d_v_pointer,
    delta_pointer,
    k_pointer,
    length_pointer,
    norm_bias_pointer,
    norm_gain_pointer,
    position_pointer,
    rows_d_errors_W2_12_pointer,
    rows_value_3_pointer,
    v_pointer,
    d_delta_head,
    d_delta_row,
    d_v_head,
    d_v_row,
    delta_head,
    delta_row,
    k_head,
    k_row,
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
    K: tl.constexpr,
    ROWS: tl.constexpr,
    V: tl.constexpr,
):
    """Gradients of one block: d_v, d_delta."""
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
    delta_block = delta_pointer + (batch * tokens + start) * delta_row + head * delta_head
    d_errors_W2 = tl.load(
        rows_d_errors_W2_12_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    combined = tl.where(is_value[None, :], d_errors_W2 - (tl.sum(d_errors_W2, 1) * inverse_V)[:, None], 0.0)
    rows_value_3 = tl.load(
        rows_value_3_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    value_2 = tl.sum(rows_value_3 * rows_value_3, 1) * inverse_V
    value_3 = (
        tl.sum(combined * (2.0 * rows_value_3), 1)
        * inverse_V
        * (-0.5 * tl.exp(-1.5 * tl.log(value_2 + 1e-06)))
    )
    value_4 = tl.exp(-0.5 * tl.log(value_2 + 1e-06))
    combined_2 = value_3[:, None] * rows_value_3 + combined * value_4[:, None]
    norm_gain = tl.load(norm_gain_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    d_errors = combined_2 * norm_gain[None, :]
    norm_bias = tl.load(norm_bias_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    combined_3 = rows_value_3 * value_4[:, None] * norm_gain[None, :] + norm_bias[None, :]
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # pred = f(M*, phi(k))
    predictions = combined_3 + k
    v = tl.load(
        v_block + row[:, None] * v_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    combined_4 = predictions - v
    total = tl.sum(combined_4 * combined_4, 1)
    delta = tl.load(delta_block + row * delta_row, mask=live, other=0.0).to(tl.float32)
    value_5 = tl.where(delta >= tl.sqrt(total), 1.0, delta * inverse_root(total))
    total_2 = tl.sum(d_errors * combined_4, 1)
    value_6 = tl.where(
        delta >= tl.sqrt(total),
        0.0,
        -0.5 * delta * (inverse_root(total) * inverse_root(total) * inverse_root(total)),
    )
    d_predictions = d_errors * value_5[:, None] + (total_2 * value_6)[:, None] * (2.0 * combined_4)
    d_v_block = d_v_pointer + (batch * tokens + start) * d_v_row + head * d_v_head
    tl.store(
        d_v_block + row[:, None] * d_v_row + value[None, :],
        -d_predictions,
        mask=live[:, None] & is_value[None, :],
    )
    value_7 = tl.where(delta >= tl.sqrt(total), 0.0, inverse_root(total))
    d_delta_block = d_delta_pointer + (batch * tokens + start) * d_delta_row + head * d_delta_head
    tl.store(d_delta_block + row * d_delta_row, total_2 * value_7, mask=live)


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_q(
    d_q_pointer,
    d_y_pointer,
    gate_read_decay_pointer,
    gate_weights_pointer,
    k_pointer,
    length_pointer,
    memory_W1_blocks_pointer,
    origin_W1_pointer,
    position_pointer,
    rows_value_1_pointer,
    rows_value_4_pointer,
    rows_value_5_pointer,
    rows_value_8_pointer,
    d_q_head,
    d_q_row,
    d_y_head,
    d_y_row,
    k_head,
    k_row,
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
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    combined = tl.zeros([BLOCK_ROWS, BLOCK_K], dtype=tl.float32)
    product = tl.zeros([BLOCK_ROWS, BLOCK_ROWS], dtype=tl.float32)
    # a: decay of the memory since the block's start
    read_decay = tl.load(gate_read_decay_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    for hidden_1_start in range(0, D1, BLOCK_D1):
        hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
        is_hidden_1 = hidden_1 < D1
        rows_value_8 = tl.load(
            rows_value_8_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        rows_value_5 = tl.load(
            rows_value_5_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        value_2 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_5), 0.0)
        value_3 = rows_value_8 * value_2
        origin_W1 = tl.load(
            origin_W1_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        combined += tl.dot(value_3.to(DOT), tl.trans(origin_W1.to(DOT)), input_precision=PRECISION)
        memory_W1 = tl.load(
            memory_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        combined += tl.dot(
            (value_3 * read_decay[:, None]).to(DOT),
            tl.trans((memory_W1 - origin_W1).to(DOT)),
            input_precision=PRECISION,
        )
        rows_value_4 = tl.load(
            rows_value_4_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        rows_value_1 = tl.load(
            rows_value_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        value_4 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_1), 0.0)
        # the error that reaches the output of W1
        errors_W1 = rows_value_4 * value_4
        product += tl.dot(value_3.to(DOT), tl.trans(errors_W1.to(DOT)), input_precision=PRECISION)
    d_reads = tl.load(
        d_y_block + row[:, None] * d_y_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    # P: source weights by read
    weights = tl.load(
        gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    product_2 = tl.dot((product * weights).to(DOT), k.to(DOT), input_precision=PRECISION)
    d_q_block = d_q_pointer + (batch * tokens + start) * d_q_row + head * d_q_head
    tl.store(
        d_q_block + row[:, None] * d_q_row + feature[None, :],
        combined + d_reads - product_2,
        mask=live[:, None] & is_feature[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_k(
    anchor_W1_pointer,
    d_k_pointer,
    d_memory_W1_next_blocks_pointer,
    delta_pointer,
    gate_last_weights_pointer,
    gate_weights_pointer,
    k_pointer,
    length_pointer,
    memory_W1_blocks_pointer,
    norm_bias_pointer,
    norm_gain_pointer,
    position_pointer,
    q_pointer,
    rows_d_errors_W2_12_pointer,
    rows_value_16_pointer,
    rows_value_1_pointer,
    rows_value_3_pointer,
    rows_value_4_pointer,
    rows_value_5_pointer,
    rows_value_8_pointer,
    v_pointer,
    d_k_head,
    d_k_row,
    delta_head,
    delta_row,
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
    delta_block = delta_pointer + (batch * tokens + start) * delta_row + head * delta_head
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    combined = tl.zeros([BLOCK_ROWS, BLOCK_K], dtype=tl.float32)
    product = tl.zeros([BLOCK_ROWS, BLOCK_ROWS], dtype=tl.float32)
    # p_C: last row of P
    last_weights = tl.load(gate_last_weights_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    for hidden_1_start in range(0, D1, BLOCK_D1):
        hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
        is_hidden_1 = hidden_1 < D1
        rows_value_16 = tl.load(
            rows_value_16_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
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
        memory_W1 = tl.load(
            memory_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        # M*: the memory at the last border
        anchor_point_W1 = tl.where(block == 0, anchor_W1, memory_W1) if RESUME else memory_W1
        combined += tl.dot(
            rows_value_16.to(DOT),
            tl.trans(anchor_point_W1.to(DOT)),
            input_precision=PRECISION,
        )
        d_memory_W1_next = tl.load(
            d_memory_W1_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        rows_value_4 = tl.load(
            rows_value_4_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        rows_value_1 = tl.load(
            rows_value_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        value_2 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_1), 0.0)
        # the error that reaches the output of W1
        errors_W1 = rows_value_4 * value_2
        combined += tl.dot(
            (errors_W1 * last_weights[:, None]).to(DOT),
            tl.trans((-d_memory_W1_next).to(DOT)),
            input_precision=PRECISION,
        )
        rows_value_8 = tl.load(
            rows_value_8_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        rows_value_5 = tl.load(
            rows_value_5_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        value_3 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_5), 0.0)
        product += tl.dot(
            (rows_value_8 * value_3).to(DOT),
            tl.trans(errors_W1.to(DOT)),
            input_precision=PRECISION,
        )
    d_errors_W2 = tl.load(
        rows_d_errors_W2_12_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    combined_2 = tl.where(is_value[None, :], d_errors_W2 - (tl.sum(d_errors_W2, 1) * inverse_V)[:, None], 0.0)
    rows_value_3 = tl.load(
        rows_value_3_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    value_4 = tl.sum(rows_value_3 * rows_value_3, 1) * inverse_V
    value_5 = (
        tl.sum(combined_2 * (2.0 * rows_value_3), 1)
        * inverse_V
        * (-0.5 * tl.exp(-1.5 * tl.log(value_4 + 1e-06)))
    )
    value_6 = tl.exp(-0.5 * tl.log(value_4 + 1e-06))
    combined_3 = value_5[:, None] * rows_value_3 + combined_2 * value_6[:, None]
    norm_gain = tl.load(norm_gain_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    d_errors = combined_3 * norm_gain[None, :]
    norm_bias = tl.load(norm_bias_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    combined_4 = rows_value_3 * value_6[:, None] * norm_gain[None, :] + norm_bias[None, :]
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # pred = f(M*, phi(k))
    predictions = combined_4 + k
    v = tl.load(
        v_block + row[:, None] * v_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    combined_5 = predictions - v
    total = tl.sum(combined_5 * combined_5, 1)
    delta = tl.load(delta_block + row * delta_row, mask=live, other=0.0).to(tl.float32)
    value_7 = tl.where(delta >= tl.sqrt(total), 1.0, delta * inverse_root(total))
    value_8 = tl.where(
        delta >= tl.sqrt(total),
        0.0,
        -0.5 * delta * (inverse_root(total) * inverse_root(total) * inverse_root(total)),
    )
    value_9 = (tl.sum(d_errors * combined_5, 1) * value_8)[:, None] * (2.0 * combined_5)
    d_predictions = d_errors * value_7[:, None] + value_9
    # P: source weights by read
    weights = tl.load(
        gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    q = tl.load(
        q_block + row[:, None] * q_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    product_2 = tl.dot(tl.trans((product * weights).to(DOT)), q.to(DOT), input_precision=PRECISION)
    d_k_block = d_k_pointer + (batch * tokens + start) * d_k_row + head * d_k_head
    tl.store(
        d_k_block + row[:, None] * d_k_row + feature[None, :],
        combined + d_predictions - product_2,
        mask=live[:, None] & is_feature[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_weights(
    d_gate_weights_pointer,
    d_y_pointer,
    delta_pointer,
    k_pointer,
    length_pointer,
    norm_bias_pointer,
    norm_gain_pointer,
    position_pointer,
    q_pointer,
    rows_value_1_pointer,
    rows_value_3_pointer,
    rows_value_4_pointer,
    rows_value_5_pointer,
    rows_value_7_pointer,
    rows_value_8_pointer,
    v_pointer,
    d_y_head,
    d_y_row,
    delta_head,
    delta_row,
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
    """Gradients of one block: d_gate_weights."""
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
    delta_block = delta_pointer + (batch * tokens + start) * delta_row + head * delta_head
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    # Q X^T
    scores_W2 = tl.zeros([BLOCK_ROWS, BLOCK_ROWS], dtype=tl.float32)
    product = tl.zeros([BLOCK_ROWS, BLOCK_ROWS], dtype=tl.float32)
    for hidden_1_start in range(0, D1, BLOCK_D1):
        hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
        is_hidden_1 = hidden_1 < D1
        rows_value_5 = tl.load(
            rows_value_5_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        rows_value_1 = tl.load(
            rows_value_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        scores_W2 += tl.dot(
            gelu(rows_value_5).to(DOT),
            tl.trans(gelu(rows_value_1).to(DOT)),
            input_precision=PRECISION,
        )
        rows_value_8 = tl.load(
            rows_value_8_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        value_2 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_5), 0.0)
        rows_value_4 = tl.load(
            rows_value_4_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        value_3 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_1), 0.0)
        # the error that reaches the output of W1
        errors_W1 = rows_value_4 * value_3
        product += tl.dot(
            (rows_value_8 * value_2).to(DOT),
            tl.trans(errors_W1.to(DOT)),
            input_precision=PRECISION,
        )
    d_reads = tl.load(
        d_y_block + row[:, None] * d_y_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    norm_gain = tl.load(norm_gain_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    value_4 = d_reads * norm_gain[None, :]
    rows_value_7 = tl.load(
        rows_value_7_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    combined = tl.where(is_value[None, :], rows_value_7 - (tl.sum(rows_value_7, 1) * inverse_V)[:, None], 0.0)
    value_5 = tl.sum(combined * combined, 1) * inverse_V
    value_6 = tl.sum(value_4 * combined, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_5 + 1e-06)))
    combined_2 = value_4 * tl.exp(-0.5 * tl.log(value_5 + 1e-06))[:, None] + (value_6 * inverse_V)[
        :, None
    ] * (2.0 * combined)
    combined_3 = tl.where(is_value[None, :], combined_2 + (tl.sum(-combined_2, 1) * inverse_V)[:, None], 0.0)
    rows_value_3 = tl.load(
        rows_value_3_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    value_7 = tl.sum(rows_value_3 * rows_value_3, 1) * inverse_V
    value_8 = tl.exp(-0.5 * tl.log(value_7 + 1e-06))
    norm_bias = tl.load(norm_bias_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    combined_4 = rows_value_3 * value_8[:, None] * norm_gain[None, :] + norm_bias[None, :]
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # pred = f(M*, phi(k))
    predictions = combined_4 + k
    v = tl.load(
        v_block + row[:, None] * v_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    combined_5 = predictions - v
    delta = tl.load(delta_block + row * delta_row, mask=live, other=0.0).to(tl.float32)
    value_9 = tl.where(
        delta >= tl.sqrt(tl.sum(combined_5 * combined_5, 1)),
        1.0,
        delta * inverse_root(tl.sum(combined_5 * combined_5, 1)),
    )
    # E = dl/dpred at the block's M*
    errors = value_9[:, None] * combined_5
    value_10 = errors * norm_gain[None, :]
    value_11 = tl.sum(value_10 * rows_value_3, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_7 + 1e-06)))
    combined_6 = value_10 * value_8[:, None] + (value_11 * inverse_V)[:, None] * (2.0 * rows_value_3)
    # the error that reaches the output of W2
    errors_W2 = tl.where(is_value[None, :], combined_6 + (tl.sum(-combined_6, 1) * inverse_V)[:, None], 0.0)
    product_2 = tl.dot(combined_3.to(DOT), tl.trans(errors_W2.to(DOT)), input_precision=PRECISION)
    q = tl.load(
        q_block + row[:, None] * q_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # Q X^T
    scores_W1 = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
    d_weights = -(product_2 * scores_W2) - product * scores_W1
    tl.store(
        d_gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        d_weights,
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_carried(
    d_gate_kept_pointer,
    d_gate_read_decay_pointer,
    d_memory_W1_next_blocks_pointer,
    d_memory_W2_next_blocks_pointer,
    d_norm_bias_blocks_pointer,
    d_norm_gain_blocks_pointer,
    d_y_pointer,
    delta_pointer,
    k_pointer,
    length_pointer,
    memory_W1_blocks_pointer,
    memory_W2_blocks_pointer,
    norm_bias_pointer,
    norm_gain_pointer,
    origin_W1_pointer,
    origin_W2_pointer,
    position_pointer,
    rows_d_errors_W2_12_pointer,
    rows_value_0_pointer,
    rows_value_3_pointer,
    rows_value_5_pointer,
    rows_value_7_pointer,
    rows_value_8_pointer,
    v_pointer,
    d_y_head,
    d_y_row,
    delta_head,
    delta_row,
    k_head,
    k_row,
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
    """Gradients of one block: d_norm_gain_blocks, d_norm_bias_blocks, d_gate_read_decay, d_gate_kept."""
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
    delta_block = delta_pointer + (batch * tokens + start) * delta_row + head * delta_head
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
    combined = tl.where(is_value[None, :], rows_value_7 - (tl.sum(rows_value_7, 1) * inverse_V)[:, None], 0.0)
    value_2 = tl.sum(combined * combined, 1) * inverse_V
    value_3 = tl.exp(-0.5 * tl.log(value_2 + 1e-06))
    d_errors_W2 = tl.load(
        rows_d_errors_W2_12_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    combined_2 = tl.where(is_value[None, :], d_errors_W2 - (tl.sum(d_errors_W2, 1) * inverse_V)[:, None], 0.0)
    rows_value_3 = tl.load(
        rows_value_3_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    value_4 = tl.sum(rows_value_3 * rows_value_3, 1) * inverse_V
    value_5 = (
        tl.sum(combined_2 * (2.0 * rows_value_3), 1)
        * inverse_V
        * (-0.5 * tl.exp(-1.5 * tl.log(value_4 + 1e-06)))
    )
    value_6 = tl.exp(-0.5 * tl.log(value_4 + 1e-06))
    combined_3 = value_5[:, None] * rows_value_3 + combined_2 * value_6[:, None]
    value_7 = rows_value_3 * value_6[:, None]
    norm_gain = tl.load(norm_gain_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    norm_bias = tl.load(norm_bias_pointer + head * V + value, mask=is_value, other=0.0).to(tl.float32)
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # pred = f(M*, phi(k))
    predictions = value_7 * norm_gain[None, :] + norm_bias[None, :] + k
    v = tl.load(
        v_block + row[:, None] * v_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    combined_4 = predictions - v
    total = tl.sum(combined_4 * combined_4, 1)
    delta = tl.load(delta_block + row * delta_row, mask=live, other=0.0).to(tl.float32)
    value_8 = tl.where(delta >= tl.sqrt(total), 1.0, delta * inverse_root(total))
    # E = dl/dpred at the block's M*
    errors = value_8[:, None] * combined_4
    d_errors = combined_3 * norm_gain[None, :]
    value_9 = tl.where(
        delta >= tl.sqrt(total),
        0.0,
        -0.5 * delta * (inverse_root(total) * inverse_root(total) * inverse_root(total)),
    )
    value_10 = (tl.sum(d_errors * combined_4, 1) * value_9)[:, None] * (2.0 * combined_4)
    d_predictions = d_errors * value_8[:, None] + value_10
    combined_5 = (
        tl.sum(d_reads * (combined * value_3[:, None]), 0)
        + tl.sum(combined_3 * errors, 0)
        + tl.sum(d_predictions * value_7, 0)
    )
    tl.store(d_norm_gain_blocks_pointer + slot * V + value, combined_5, mask=is_value)
    tl.store(
        d_norm_bias_blocks_pointer + slot * V + value,
        tl.sum(d_reads, 0) + tl.sum(d_predictions, 0),
        mask=is_value,
    )
    combined_6 = tl.zeros([BLOCK_ROWS], dtype=tl.float32)
    total_2 = tl.zeros([BLOCK_V], dtype=tl.float32)
    total_3 = 0.0
    value_11 = d_reads * norm_gain[None, :]
    value_12 = tl.sum(value_11 * combined, 1) * (-0.5 * tl.exp(-1.5 * tl.log(value_2 + 1e-06)))
    combined_7 = value_11 * value_3[:, None] + (value_12 * inverse_V)[:, None] * (2.0 * combined)
    combined_8 = tl.where(is_value[None, :], combined_7 + (tl.sum(-combined_7, 1) * inverse_V)[:, None], 0.0)
    for hidden_1_start in range(0, D1, BLOCK_D1):
        hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
        is_hidden_1 = hidden_1 < D1
        rows_value_5 = tl.load(
            rows_value_5_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        memory_W2 = tl.load(
            memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        origin_W2 = tl.load(
            origin_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        combined_9 = memory_W2 - origin_W2
        product = tl.dot(combined_8.to(DOT), tl.trans(combined_9.to(DOT)), input_precision=PRECISION)
        combined_6 += tl.sum(gelu(rows_value_5) * product, 1)
        rows_value_8 = tl.load(
            rows_value_8_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        value_13 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_5), 0.0)
        rows_value_0 = tl.load(
            rows_value_0_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        combined_6 += tl.sum(rows_value_8 * value_13 * rows_value_0, 1)
        d_memory_W2_next = tl.load(
            d_memory_W2_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        total_2 += tl.sum(d_memory_W2_next * combined_9, 0)
        d_memory_W1_next = tl.load(
            d_memory_W1_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        memory_W1 = tl.load(
            memory_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        origin_W1 = tl.load(
            origin_W1_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        total_3 += tl.sum(tl.sum(d_memory_W1_next * (memory_W1 - origin_W1), 0), 0)
    tl.store(d_gate_read_decay_pointer + slot * ROWS + row, combined_6, mask=row < ROWS)
    d_kept = tl.sum(total_2, 0) + total_3
    tl.store(d_gate_kept_pointer + slot, d_kept)


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_last(
    d_gate_last_weights_pointer,
    d_memory_W1_next_blocks_pointer,
    k_pointer,
    length_pointer,
    position_pointer,
    rows_value_13_pointer,
    rows_value_1_pointer,
    rows_value_4_pointer,
    k_head,
    k_row,
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
    """Gradients of one block: d_gate_last_weights."""
    program = tl.program_id(0)
    value_tile = program % tl.cdiv(V, BLOCK_V)
    program = program // tl.cdiv(V, BLOCK_V)
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
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    combined = tl.zeros([BLOCK_ROWS], dtype=tl.float32)
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    for hidden_1_start in range(0, D1, BLOCK_D1):
        hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
        is_hidden_1 = hidden_1 < D1
        rows_value_13 = tl.load(
            rows_value_13_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        rows_value_1 = tl.load(
            rows_value_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        combined += tl.sum(-(rows_value_13 * gelu(rows_value_1)), 1)
        rows_value_4 = tl.load(
            rows_value_4_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        value_2 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_1), 0.0)
        # the error that reaches the output of W1
        errors_W1 = rows_value_4 * value_2
        d_memory_W1_next = tl.load(
            d_memory_W1_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        product = tl.dot(k.to(DOT), d_memory_W1_next.to(DOT), input_precision=PRECISION)
        combined += tl.sum(-errors_W1 * product, 1)
    if value_tile == 0:
        tl.store(d_gate_last_weights_pointer + slot * ROWS + row, combined, mask=row < ROWS)


@triton.jit(do_not_specialize=["tokens", "blocks"])
def gates_gradient(
    d_gate_kept_pointer,
    d_gate_last_weights_pointer,
    d_gate_read_decay_pointer,
    d_gate_weights_pointer,
    d_log_alpha_pointer,
    d_lr_pointer,
    gate_kept_pointer,
    gate_read_decay_pointer,
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
    d_read_decay = tl.load(d_gate_read_decay_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    # a: decay of the memory since the block's start
    read_decay = tl.load(gate_read_decay_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
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
    d_weights = tl.load(
        d_gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    value_3 = d_weights * live_2[None, :]
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
    combined = tl.cumsum(d_read_decay * read_decay, 0, reverse=True) + (running + tl.sum(banded_2, 0))
    d_kept = tl.load(d_gate_kept_pointer + slot)
    # a_C: decay of the memory over the block
    kept = tl.load(gate_kept_pointer + slot)
    d_log_alpha_block = (
        d_log_alpha_pointer + (batch * tokens + start) * d_log_alpha_row + head * d_log_alpha_head
    )
    tl.store(d_log_alpha_block + row * d_log_alpha_row, combined + d_kept * kept, mask=live)
    d_lr_block = d_lr_pointer + (batch * tokens + start) * d_lr_row + head * d_lr_head
    tl.store(d_lr_block + row * d_lr_row, value_2 * until_end + tl.sum(value_3 * decay, 0), mask=live)

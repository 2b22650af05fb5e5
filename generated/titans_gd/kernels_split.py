"""Kernels of the memory rule titans_gd (split_all_4_D1).

Rule 2e19ffbb5612, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
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
    gate_kept_pointer,
    gate_last_weights_pointer,
    k_pointer,
    length_pointer,
    memory_W1_blocks_pointer,
    memory_W1_final_pointer,
    memory_W2_blocks_pointer,
    memory_W2_final_pointer,
    origin_W1_pointer,
    origin_W2_pointer,
    position_pointer,
    v_pointer,
    k_head,
    k_row,
    v_head,
    v_row,
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
    for block in tl.range(0, blocks, disable_licm=True):
        slot = memory_index * blocks + block
        start = tl.cast(block, tl.int64) * ROWS - phase
        first = tl.cast(tl.maximum(-start, 0), tl.int32)
        last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
        live = (row >= first) & (row < last)
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
        k = tl.load(
            k_block + row[:, None] * k_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        # pred = f(M*, phi(k))
        predictions = k
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
            product = tl.dot(k.to(DOT), anchor_point_W1.to(DOT), input_precision=PRECISION)
            value_2 = gelu(product)
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
            predictions += tl.dot(value_2.to(DOT), anchor_point_W2.to(DOT), input_precision=PRECISION)
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
        v = tl.load(
            v_block + row[:, None] * v_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        # E = dl/dpred at the block's M*
        errors = predictions - v
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
            product_2 = tl.dot(errors.to(DOT), tl.trans(anchor_point_W2_3.to(DOT)), input_precision=PRECISION)
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
            product_3 = tl.dot(k.to(DOT), anchor_point_W1_3.to(DOT), input_precision=PRECISION)
            # the error that reaches the output of W1
            errors_W1 = product_2 * tl.where(is_hidden_1[None, :], gelu_slope(product_3), 0.0)
            product_4 = tl.dot(
                tl.trans((last_weights[:, None] * k).to(DOT)),
                errors_W1.to(DOT),
                input_precision=PRECISION,
            )
            # M at the end
            memory_W1_next = kept * (memory_W1_3 - origin_W1) + origin_W1 - product_4
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
            product_5 = tl.dot(k.to(DOT), anchor_point_W1_4.to(DOT), input_precision=PRECISION)
            value_3 = gelu(product_5)
            product_6 = tl.dot(
                tl.trans((last_weights[:, None] * value_3).to(DOT)),
                errors.to(DOT),
                input_precision=PRECISION,
            )
            # M at the end
            memory_W2_next = kept * (memory_W2_4 - origin_W2) + origin_W2 - product_6
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
    k_pointer,
    length_pointer,
    memory_W1_blocks_pointer,
    memory_W2_blocks_pointer,
    position_pointer,
    rows_predictions_2_pointer,
    rows_value_1_pointer,
    rows_value_3_pointer,
    v_pointer,
    k_head,
    k_row,
    v_head,
    v_row,
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
    """Rows of one block that later kernels read: rows_value_1, rows_predictions_2, rows_value_3."""
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
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # pred = f(M*, phi(k))
    predictions = k
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
        product = tl.dot(k.to(DOT), anchor_point_W1.to(DOT), input_precision=PRECISION)
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
        predictions += tl.dot(gelu(product).to(DOT), anchor_point_W2.to(DOT), input_precision=PRECISION)
        tl.store(
            rows_value_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            product,
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        )
    tl.store(
        rows_predictions_2_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        predictions,
        mask=(row < ROWS)[:, None] & is_value[None, :],
    )
    v = tl.load(
        v_block + row[:, None] * v_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    # E = dl/dpred at the block's M*
    errors = predictions - v
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
        product_2 = tl.dot(errors.to(DOT), tl.trans(anchor_point_W2_2.to(DOT)), input_precision=PRECISION)
        tl.store(
            rows_value_3_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            product_2,
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def reads(
    gate_read_decay_pointer,
    gate_weights_pointer,
    k_pointer,
    length_pointer,
    memory_W1_blocks_pointer,
    origin_W1_pointer,
    position_pointer,
    q_pointer,
    rows_value_0_pointer,
    rows_value_1_pointer,
    rows_value_3_pointer,
    rows_value_4_pointer,
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
    """Rows of one block that later kernels read: rows_value_0, rows_value_4."""
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
        product = tl.dot(q.to(DOT), (memory_W1 - origin_W1).to(DOT), input_precision=PRECISION)
        tl.store(
            rows_value_0_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            product,
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        )
        product_2 = tl.dot(q.to(DOT), origin_W1.to(DOT), input_precision=PRECISION)
        rows_value_3 = tl.load(
            rows_value_3_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
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
        errors_W1 = rows_value_3 * value_2
        product_3 = tl.dot(attention_W1.to(DOT), errors_W1.to(DOT), input_precision=PRECISION)
        tl.store(
            rows_value_4_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            read_decay[:, None] * product + product_2 - product_3,
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output(
    gate_read_decay_pointer,
    gate_weights_pointer,
    length_pointer,
    memory_W2_blocks_pointer,
    origin_W2_pointer,
    position_pointer,
    q_pointer,
    rows_predictions_2_pointer,
    rows_value_1_pointer,
    rows_value_4_pointer,
    v_pointer,
    y_pointer,
    q_head,
    q_row,
    v_head,
    v_row,
    y_head,
    y_row,
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
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    product = tl.zeros([BLOCK_ROWS, BLOCK_V], dtype=tl.float32)
    product_2 = tl.zeros([BLOCK_ROWS, BLOCK_V], dtype=tl.float32)
    # Q X^T
    scores_W2 = tl.zeros([BLOCK_ROWS, BLOCK_ROWS], dtype=tl.float32)
    for hidden_1_start in range(0, D1, BLOCK_D1):
        hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
        is_hidden_1 = hidden_1 < D1
        rows_value_4 = tl.load(
            rows_value_4_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        value_2 = gelu(rows_value_4)
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
        product += tl.dot(value_2.to(DOT), (memory_W2 - origin_W2).to(DOT), input_precision=PRECISION)
        product_2 += tl.dot(value_2.to(DOT), origin_W2.to(DOT), input_precision=PRECISION)
        rows_value_1 = tl.load(
            rows_value_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        scores_W2 += tl.dot(value_2.to(DOT), tl.trans(gelu(rows_value_1).to(DOT)), input_precision=PRECISION)
    # a: decay of the memory since the block's start
    read_decay = tl.load(gate_read_decay_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    # P: source weights by read
    weights = tl.load(
        gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    # (Q X^T) * P
    attention_W2 = scores_W2 * weights
    # pred = f(M*, phi(k))
    predictions = tl.load(
        rows_predictions_2_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    v = tl.load(
        v_block + row[:, None] * v_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    # E = dl/dpred at the block's M*
    errors = predictions - v
    product_3 = tl.dot(attention_W2.to(DOT), errors.to(DOT), input_precision=PRECISION)
    q = tl.load(
        q_block + row[:, None] * q_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = read_decay[:, None] * product + product_2 - product_3 + q
    y_block = y_pointer + (batch * tokens + start) * y_row + head * y_head
    tl.store(y_block + row[:, None] * y_row + value[None, :], reads, mask=live[:, None] & is_value[None, :])


@triton.jit(do_not_specialize=["tokens", "blocks"])
def read_gradients_1_r_D1(
    d_y_pointer,
    gate_read_decay_pointer,
    gate_weights_pointer,
    length_pointer,
    memory_W2_blocks_pointer,
    origin_W2_pointer,
    position_pointer,
    rows_predictions_2_pointer,
    rows_value_1_pointer,
    rows_value_5_pointer,
    v_pointer,
    d_y_head,
    d_y_row,
    v_head,
    v_row,
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
    """Rows of one block that later kernels read: rows_value_5."""
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
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    d_reads = tl.load(
        d_y_block + row[:, None] * d_y_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    # a: decay of the memory since the block's start
    read_decay = tl.load(gate_read_decay_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    # pred = f(M*, phi(k))
    predictions = tl.load(
        rows_predictions_2_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    v = tl.load(
        v_block + row[:, None] * v_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    # E = dl/dpred at the block's M*
    errors = predictions - v
    product = tl.dot(d_reads.to(DOT), tl.trans(errors.to(DOT)), input_precision=PRECISION)
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
        product_2 = tl.dot(d_reads.to(DOT), tl.trans(origin_W2.to(DOT)), input_precision=PRECISION)
        memory_W2 = tl.load(
            memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        product_3 = tl.dot(
            d_reads.to(DOT),
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
            rows_value_5_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            product_2 + product_3 * read_decay[:, None] - product_4,
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def read_gradients_1_s_D1(
    d_y_pointer,
    gate_weights_pointer,
    length_pointer,
    position_pointer,
    rows_predictions_2_pointer,
    rows_value_11_pointer,
    rows_value_4_pointer,
    v_pointer,
    d_y_head,
    d_y_row,
    v_head,
    v_row,
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
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    d_reads = tl.load(
        d_y_block + row[:, None] * d_y_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    # pred = f(M*, phi(k))
    predictions = tl.load(
        rows_predictions_2_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    v = tl.load(
        v_block + row[:, None] * v_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    # E = dl/dpred at the block's M*
    errors = predictions - v
    product = tl.dot(d_reads.to(DOT), tl.trans(errors.to(DOT)), input_precision=PRECISION)
    # P: source weights by read
    weights = tl.load(
        gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    for hidden_1_start in range(0, D1, BLOCK_D1):
        hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
        is_hidden_1 = hidden_1 < D1
        rows_value_4 = tl.load(
            rows_value_4_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        product_2 = tl.dot(
            tl.trans((product * weights).to(DOT)),
            gelu(rows_value_4).to(DOT),
            input_precision=PRECISION,
        )
        tl.store(
            rows_value_11_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            product_2,
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def read_gradients_1_s_V(
    d_y_pointer,
    gate_weights_pointer,
    length_pointer,
    position_pointer,
    rows_value_1_pointer,
    rows_value_4_pointer,
    rows_value_8_pointer,
    d_y_head,
    d_y_row,
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
    """Rows of one block that later kernels read: rows_value_8."""
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
        scores_W2 += tl.dot(
            gelu(rows_value_4).to(DOT),
            tl.trans(gelu(rows_value_1).to(DOT)),
            input_precision=PRECISION,
        )
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
    # (Q X^T) * P
    attention_W2 = scores_W2 * weights
    product = tl.dot(tl.trans(attention_W2.to(DOT)), d_reads.to(DOT), input_precision=PRECISION)
    tl.store(
        rows_value_8_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
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
    rows_value_4_pointer,
    rows_value_5_pointer,
    rows_value_6_pointer,
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
    """Rows of one block that later kernels read: rows_value_6."""
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
        rows_value_5 = tl.load(
            rows_value_5_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        rows_value_4 = tl.load(
            rows_value_4_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        value_2 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_4), 0.0)
        product = tl.dot(
            tl.trans(attention_W1.to(DOT)),
            (rows_value_5 * value_2).to(DOT),
            input_precision=PRECISION,
        )
        tl.store(
            rows_value_6_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
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
    gate_kept_pointer,
    gate_last_weights_pointer,
    gate_read_decay_pointer,
    k_pointer,
    length_pointer,
    memory_W2_blocks_pointer,
    position_pointer,
    q_pointer,
    rows_d_errors_9_pointer,
    rows_d_errors_W1_7_pointer,
    rows_predictions_2_pointer,
    rows_value_10_pointer,
    rows_value_11_pointer,
    rows_value_12_pointer,
    rows_value_13_pointer,
    rows_value_1_pointer,
    rows_value_3_pointer,
    rows_value_4_pointer,
    rows_value_5_pointer,
    rows_value_6_pointer,
    rows_value_8_pointer,
    v_pointer,
    d_y_head,
    d_y_row,
    k_head,
    k_row,
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
                rows_value_6 = tl.load(
                    rows_value_6_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                tl.store(
                    rows_d_errors_W1_7_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    -(product * last_weights[:, None]) - rows_value_6,
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                )
        if part == 1:
            # pred = f(M*, phi(k))
            predictions = tl.load(
                rows_predictions_2_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            v = tl.load(
                v_block + row[:, None] * v_row + value[None, :],
                mask=live[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
            # E = dl/dpred at the block's M*
            errors = predictions - v
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
                    errors.to(DOT),
                    tl.trans(d_memory_W2_next.to(DOT)),
                    input_precision=PRECISION,
                )
                tl.store(
                    rows_value_10_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    product_2,
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                )
        if part == 2:
            combined = tl.zeros([BLOCK_ROWS, BLOCK_V], dtype=tl.float32)
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
                    rows_d_errors_W1_7_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                rows_value_1 = tl.load(
                    rows_value_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                value_2 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_1), 0.0)
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
                combined += tl.dot(
                    (d_errors_W1 * value_2).to(DOT),
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
                combined += tl.dot(
                    (last_weights_2[:, None] * gelu(rows_value_1)).to(DOT),
                    (-d_memory_W2_next_2).to(DOT),
                    input_precision=PRECISION,
                )
            rows_value_8 = tl.load(
                rows_value_8_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            tl.store(
                rows_d_errors_9_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                combined - rows_value_8,
                mask=(row < ROWS)[:, None] & is_value[None, :],
            )
        if part == 3:
            d_errors = tl.load(
                rows_d_errors_9_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
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
                    d_errors.to(DOT),
                    tl.trans(anchor_point_W2_2.to(DOT)),
                    input_precision=PRECISION,
                )
                rows_value_10 = tl.load(
                    rows_value_10_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                rows_value_11 = tl.load(
                    rows_value_11_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                combined_2 = product_3 - rows_value_10 * last_weights_3[:, None] - rows_value_11
                tl.store(
                    rows_value_12_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    combined_2,
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                )
        if part == 4:
            for hidden_1_start in range(0, D1, BLOCK_D1):
                hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
                is_hidden_1 = hidden_1 < D1
                d_errors_W1_2 = tl.load(
                    rows_d_errors_W1_7_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                rows_value_3 = tl.load(
                    rows_value_3_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                rows_value_1_2 = tl.load(
                    rows_value_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                value_3 = tl.where(
                    is_hidden_1[None, :],
                    0.3989422804014327
                    * (2.0 - rows_value_1_2 * rows_value_1_2)
                    * tl.exp(-0.5 * (rows_value_1_2 * rows_value_1_2)),
                    0.0,
                )
                rows_value_12 = tl.load(
                    rows_value_12_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                value_4 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_1_2), 0.0)
                combined_3 = d_errors_W1_2 * rows_value_3 * value_3 + rows_value_12 * value_4
                tl.store(
                    rows_value_13_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    combined_3,
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                )
        if part == 5:
            k_2 = tl.load(
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
                rows_value_13 = tl.load(
                    rows_value_13_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                product_4 = tl.dot(tl.trans(k_2.to(DOT)), rows_value_13.to(DOT), input_precision=PRECISION)
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
                rows_value_5 = tl.load(
                    rows_value_5_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                rows_value_4 = tl.load(
                    rows_value_4_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                value_5 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_4), 0.0)
                product_5 = tl.dot(
                    tl.trans(q.to(DOT)),
                    (rows_value_5 * value_5 * read_decay[:, None]).to(DOT),
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
            # a: decay of the memory since the block's start
            read_decay_2 = tl.load(gate_read_decay_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
            # pred = f(M*, phi(k))
            predictions_2 = tl.load(
                rows_predictions_2_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            v_2 = tl.load(
                v_block + row[:, None] * v_row + value[None, :],
                mask=live[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
            # E = dl/dpred at the block's M*
            errors_2 = predictions_2 - v_2
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
                rows_value_4_2 = tl.load(
                    rows_value_4_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                product_6 = tl.dot(
                    tl.trans(gelu(rows_value_4_2).to(DOT)),
                    (d_reads * read_decay_2[:, None]).to(DOT),
                    input_precision=PRECISION,
                )
                d_errors_W1_3 = tl.load(
                    rows_d_errors_W1_7_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                rows_value_1_3 = tl.load(
                    rows_value_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                value_6 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_1_3), 0.0)
                product_7 = tl.dot(
                    tl.trans((d_errors_W1_3 * value_6).to(DOT)),
                    errors_2.to(DOT),
                    input_precision=PRECISION,
                )
                at_border_3 = tl.where(block == 0, 0.0, product_7) if RESUME else product_7
                combined_4 = d_memory_W2_next_3 * kept_2 + at_border_2 + product_6 + at_border_3
                if block > 0:
                    tl.store(
                        d_memory_W2_next_blocks_pointer
                        + (slot - 1) * (D1 * V)
                        + hidden_1[:, None] * V
                        + value[None, :],
                        combined_4,
                        mask=is_hidden_1[:, None] & is_value[None, :],
                    )
                else:
                    if GRAD_INITIAL:
                        tl.store(
                            d_memory_W2_pointer
                            + memory_index * (D1 * V)
                            + hidden_1[:, None] * V
                            + value[None, :],
                            combined_4,
                            mask=is_hidden_1[:, None] & is_value[None, :],
                        )
        if part == 7:
            d_errors_2 = tl.load(
                rows_d_errors_9_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
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
                    d_errors_2.to(DOT),
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
                rows_value_5_2 = tl.load(
                    rows_value_5_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                rows_value_4_3 = tl.load(
                    rows_value_4_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                value_7 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_4_3), 0.0)
                value_8 = rows_value_5_2 * value_7
                product_9 = tl.dot(tl.trans(q_2.to(DOT)), value_8.to(DOT), input_precision=PRECISION)
                product_10 = tl.dot(
                    tl.trans(q_2.to(DOT)),
                    (value_8 * read_decay_3[:, None]).to(DOT),
                    input_precision=PRECISION,
                )
                combined_5 = d_memory_W1_next_3 + product_9 - (d_memory_W1_next_3 * kept_3 + product_10)
                d_origin_W1 = combined_5
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
            k_3 = tl.load(
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
                rows_value_13_2 = tl.load(
                    rows_value_13_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                product_11 = tl.dot(tl.trans(k_3.to(DOT)), rows_value_13_2.to(DOT), input_precision=PRECISION)
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
            # pred = f(M*, phi(k))
            predictions_3 = tl.load(
                rows_predictions_2_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            v_3 = tl.load(
                v_block + row[:, None] * v_row + value[None, :],
                mask=live[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
            # E = dl/dpred at the block's M*
            errors_3 = predictions_3 - v_3
            d_errors_3 = tl.load(
                rows_d_errors_9_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
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
                    rows_d_errors_W1_7_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                rows_value_1_5 = tl.load(
                    rows_value_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                value_9 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_1_5), 0.0)
                product_12 = tl.dot(
                    tl.trans((d_errors_W1_4 * value_9).to(DOT)),
                    errors_3.to(DOT),
                    input_precision=PRECISION,
                )
                product_13 = tl.dot(
                    tl.trans(gelu(rows_value_1_5).to(DOT)),
                    d_errors_3.to(DOT),
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
                rows_value_4_4 = tl.load(
                    rows_value_4_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                    mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                value_10 = gelu(rows_value_4_4)
                product_14 = tl.dot(tl.trans(value_10.to(DOT)), d_reads_2.to(DOT), input_precision=PRECISION)
                product_15 = tl.dot(
                    tl.trans(value_10.to(DOT)),
                    (d_reads_2 * read_decay_4[:, None]).to(DOT),
                    input_precision=PRECISION,
                )
                combined_6 = d_memory_W2_next_4 + product_14 - (d_memory_W2_next_4 * kept_4 + product_15)
                d_origin_W2 = combined_6
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
    d_v_pointer,
    length_pointer,
    position_pointer,
    rows_d_errors_9_pointer,
    d_v_head,
    d_v_row,
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
    value_tile = program % tl.cdiv(V, BLOCK_V)
    program = program // tl.cdiv(V, BLOCK_V)
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    row = tl.arange(0, BLOCK_ROWS)
    value = value_tile * BLOCK_V + tl.arange(0, BLOCK_V)
    is_value = value < V
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    position = tl.load(position_pointer + batch) if RESUME else 0
    phase = position % ROWS
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    d_errors = tl.load(
        rows_d_errors_9_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
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
    gate_read_decay_pointer,
    gate_weights_pointer,
    k_pointer,
    length_pointer,
    memory_W1_blocks_pointer,
    origin_W1_pointer,
    position_pointer,
    rows_value_1_pointer,
    rows_value_3_pointer,
    rows_value_4_pointer,
    rows_value_5_pointer,
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
        rows_value_5 = tl.load(
            rows_value_5_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        rows_value_4 = tl.load(
            rows_value_4_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        value_2 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_4), 0.0)
        value_3 = rows_value_5 * value_2
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
        rows_value_3 = tl.load(
            rows_value_3_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
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
        errors_W1 = rows_value_3 * value_4
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
    gate_last_weights_pointer,
    gate_weights_pointer,
    length_pointer,
    memory_W1_blocks_pointer,
    position_pointer,
    q_pointer,
    rows_d_errors_9_pointer,
    rows_value_13_pointer,
    rows_value_1_pointer,
    rows_value_3_pointer,
    rows_value_4_pointer,
    rows_value_5_pointer,
    d_k_head,
    d_k_row,
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
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    combined = tl.zeros([BLOCK_ROWS, BLOCK_K], dtype=tl.float32)
    product = tl.zeros([BLOCK_ROWS, BLOCK_ROWS], dtype=tl.float32)
    # p_C: last row of P
    last_weights = tl.load(gate_last_weights_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    for hidden_1_start in range(0, D1, BLOCK_D1):
        hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
        is_hidden_1 = hidden_1 < D1
        rows_value_13 = tl.load(
            rows_value_13_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
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
            rows_value_13.to(DOT),
            tl.trans(anchor_point_W1.to(DOT)),
            input_precision=PRECISION,
        )
        d_memory_W1_next = tl.load(
            d_memory_W1_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        rows_value_3 = tl.load(
            rows_value_3_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
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
        errors_W1 = rows_value_3 * value_2
        combined += tl.dot(
            (errors_W1 * last_weights[:, None]).to(DOT),
            tl.trans((-d_memory_W1_next).to(DOT)),
            input_precision=PRECISION,
        )
        rows_value_5 = tl.load(
            rows_value_5_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        rows_value_4 = tl.load(
            rows_value_4_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        value_3 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_4), 0.0)
        product += tl.dot(
            (rows_value_5 * value_3).to(DOT),
            tl.trans(errors_W1.to(DOT)),
            input_precision=PRECISION,
        )
    d_errors = tl.load(
        rows_d_errors_9_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
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
        combined + d_errors - product_2,
        mask=live[:, None] & is_feature[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_weights(
    d_gate_weights_pointer,
    d_y_pointer,
    k_pointer,
    length_pointer,
    position_pointer,
    q_pointer,
    rows_predictions_2_pointer,
    rows_value_1_pointer,
    rows_value_3_pointer,
    rows_value_4_pointer,
    rows_value_5_pointer,
    v_pointer,
    d_y_head,
    d_y_row,
    k_head,
    k_row,
    q_head,
    q_row,
    v_head,
    v_row,
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
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    # Q X^T
    scores_W2 = tl.zeros([BLOCK_ROWS, BLOCK_ROWS], dtype=tl.float32)
    product = tl.zeros([BLOCK_ROWS, BLOCK_ROWS], dtype=tl.float32)
    for hidden_1_start in range(0, D1, BLOCK_D1):
        hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
        is_hidden_1 = hidden_1 < D1
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
        scores_W2 += tl.dot(
            gelu(rows_value_4).to(DOT),
            tl.trans(gelu(rows_value_1).to(DOT)),
            input_precision=PRECISION,
        )
        rows_value_5 = tl.load(
            rows_value_5_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        value_2 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_4), 0.0)
        rows_value_3 = tl.load(
            rows_value_3_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        value_3 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_1), 0.0)
        # the error that reaches the output of W1
        errors_W1 = rows_value_3 * value_3
        product += tl.dot(
            (rows_value_5 * value_2).to(DOT),
            tl.trans(errors_W1.to(DOT)),
            input_precision=PRECISION,
        )
    d_reads = tl.load(
        d_y_block + row[:, None] * d_y_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    # pred = f(M*, phi(k))
    predictions = tl.load(
        rows_predictions_2_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    v = tl.load(
        v_block + row[:, None] * v_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    # E = dl/dpred at the block's M*
    errors = predictions - v
    product_2 = tl.dot(d_reads.to(DOT), tl.trans(errors.to(DOT)), input_precision=PRECISION)
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
    d_y_pointer,
    length_pointer,
    memory_W1_blocks_pointer,
    memory_W2_blocks_pointer,
    origin_W1_pointer,
    origin_W2_pointer,
    position_pointer,
    rows_value_0_pointer,
    rows_value_4_pointer,
    rows_value_5_pointer,
    d_y_head,
    d_y_row,
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
    """Gradients of one block: d_gate_read_decay, d_gate_kept."""
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
    combined = tl.zeros([BLOCK_ROWS], dtype=tl.float32)
    total = tl.zeros([BLOCK_V], dtype=tl.float32)
    total_2 = 0.0
    d_reads = tl.load(
        d_y_block + row[:, None] * d_y_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    for hidden_1_start in range(0, D1, BLOCK_D1):
        hidden_1 = hidden_1_start + tl.arange(0, BLOCK_D1)
        is_hidden_1 = hidden_1 < D1
        rows_value_4 = tl.load(
            rows_value_4_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
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
        combined_2 = memory_W2 - origin_W2
        product = tl.dot(d_reads.to(DOT), tl.trans(combined_2.to(DOT)), input_precision=PRECISION)
        combined += tl.sum(gelu(rows_value_4) * product, 1)
        rows_value_5 = tl.load(
            rows_value_5_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        value_2 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_4), 0.0)
        rows_value_0 = tl.load(
            rows_value_0_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        combined += tl.sum(rows_value_5 * value_2 * rows_value_0, 1)
        d_memory_W2_next = tl.load(
            d_memory_W2_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        total += tl.sum(d_memory_W2_next * combined_2, 0)
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
        total_2 += tl.sum(tl.sum(d_memory_W1_next * (memory_W1 - origin_W1), 0), 0)
    tl.store(d_gate_read_decay_pointer + slot * ROWS + row, combined, mask=row < ROWS)
    d_kept = tl.sum(total, 0) + total_2
    tl.store(d_gate_kept_pointer + slot, d_kept)


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_last(
    d_gate_last_weights_pointer,
    d_memory_W1_next_blocks_pointer,
    k_pointer,
    length_pointer,
    position_pointer,
    rows_value_10_pointer,
    rows_value_1_pointer,
    rows_value_3_pointer,
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
        rows_value_10 = tl.load(
            rows_value_10_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        rows_value_1 = tl.load(
            rows_value_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        combined += tl.sum(-(rows_value_10 * gelu(rows_value_1)), 1)
        rows_value_3 = tl.load(
            rows_value_3_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        value_2 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_1), 0.0)
        # the error that reaches the output of W1
        errors_W1 = rows_value_3 * value_2
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

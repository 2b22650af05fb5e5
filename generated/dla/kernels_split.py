"""Kernels of the memory rule dla (split_all_4_F).

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
    monomial_entry_0_pointer,
    monomial_entry_1_pointer,
    monomial_scale_0_pointer,
    monomial_scale_1_pointer,
    monomial_scale_2_pointer,
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
    """The memory from block to block, tile by tile: a block writes the next one's start."""
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
    for block in tl.range(0, blocks, disable_licm=True):
        slot = memory_index * blocks + block
        start = tl.cast(block, tl.int64) * ROWS - phase
        first = tl.cast(tl.maximum(-start, 0), tl.int32)
        last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
        live = (row >= first) & (row < last)
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
        memory_W2 = tl.load(
            memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        # M*: the memory at the last border
        anchor_point_W2 = tl.where(block == 0, anchor_W2, memory_W2) if RESUME else memory_W2
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
        product = tl.zeros([BLOCK_ROWS, BLOCK_D1], dtype=tl.float32)
        k = tl.load(
            k_block + row[:, None] * k_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        for monomial_start in range(0, F, BLOCK_F):
            monomial = monomial_start + tl.arange(0, BLOCK_F)
            is_monomial = monomial < F
            monomial_scale_0 = tl.load(monomial_scale_0_pointer + monomial, mask=is_monomial, other=0)
            monomial_scale_1 = tl.load(monomial_scale_1_pointer + monomial, mask=is_monomial, other=0)
            monomial_scale_2 = tl.load(monomial_scale_2_pointer + monomial, mask=is_monomial, other=0)
            monomial_weights = monomial_scale_0 + monomial_scale_1 + 0.7071067811865476 * monomial_scale_2
            monomial_entry_0 = tl.load(monomial_entry_0_pointer + monomial, mask=is_monomial, other=0)
            monomial_entry_1 = tl.load(monomial_entry_1_pointer + monomial, mask=is_monomial, other=0)
            # X = phi(k)
            features = monomial_weights[None, :] * take(k, monomial_entry_0) * take(k, monomial_entry_1)
            anchor_W1 = (
                tl.load(
                    anchor_W1_pointer + memory_index * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
                    mask=is_monomial[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                if RESUME
                else 0.0
            )
            memory_W1 = tl.load(
                memory_W1_blocks_pointer + slot * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
                mask=is_monomial[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            # M*: the memory at the last border
            anchor_point_W1 = tl.where(block == 0, anchor_W1, memory_W1) if RESUME else memory_W1
            product += tl.dot(features.to(DOT), anchor_point_W1.to(DOT), input_precision=PRECISION)
        if STORE_FINAL:
            if block == open_block:
                for monomial_start in range(0, F, BLOCK_F):
                    monomial = monomial_start + tl.arange(0, BLOCK_F)
                    is_monomial = monomial < F
                    anchor_W1_2 = (
                        tl.load(
                            anchor_W1_pointer
                            + memory_index * (F * D1)
                            + monomial[:, None] * D1
                            + hidden_1[None, :],
                            mask=is_monomial[:, None] & is_hidden_1[None, :],
                            other=0.0,
                        )
                        if RESUME
                        else 0.0
                    )
                    memory_W1_2 = tl.load(
                        memory_W1_blocks_pointer
                        + slot * (F * D1)
                        + monomial[:, None] * D1
                        + hidden_1[None, :],
                        mask=is_monomial[:, None] & is_hidden_1[None, :],
                        other=0.0,
                    )
                    # M*: the memory at the last border
                    anchor_point_W1_2 = (
                        tl.where(block == 0, anchor_W1_2, memory_W1_2) if RESUME else memory_W1_2
                    )
                    tl.store(
                        anchor_W1_final_pointer
                        + memory_index * (F * D1)
                        + monomial[:, None] * D1
                        + hidden_1[None, :],
                        anchor_point_W1_2,
                        mask=is_monomial[:, None] & is_hidden_1[None, :],
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
        product_2 = tl.dot(
            tl.trans((last_weights[:, None] * gelu(product)).to(DOT)),
            v.to(DOT),
            input_precision=PRECISION,
        )
        # M at the end
        memory_W2_next = kept * (memory_W2 - origin_W2) + origin_W2 + product_2
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
        product_3 = tl.dot(v.to(DOT), tl.trans(anchor_point_W2.to(DOT)), input_precision=PRECISION)
        value_2 = product_3 * tl.where(is_hidden_1[None, :], gelu_slope(product), 0.0)
        for monomial_start in range(0, F, BLOCK_F):
            monomial = monomial_start + tl.arange(0, BLOCK_F)
            is_monomial = monomial < F
            memory_W1_3 = tl.load(
                memory_W1_blocks_pointer + slot * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
                mask=is_monomial[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            origin_W1 = tl.load(
                origin_W1_pointer + memory_index * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
                mask=is_monomial[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            monomial_scale_0_2 = tl.load(monomial_scale_0_pointer + monomial, mask=is_monomial, other=0)
            monomial_scale_1_2 = tl.load(monomial_scale_1_pointer + monomial, mask=is_monomial, other=0)
            monomial_scale_2_2 = tl.load(monomial_scale_2_pointer + monomial, mask=is_monomial, other=0)
            monomial_weights_2 = (
                monomial_scale_0_2 + monomial_scale_1_2 + 0.7071067811865476 * monomial_scale_2_2
            )
            monomial_entry_0_2 = tl.load(monomial_entry_0_pointer + monomial, mask=is_monomial, other=0)
            monomial_entry_1_2 = tl.load(monomial_entry_1_pointer + monomial, mask=is_monomial, other=0)
            # X = phi(k)
            features_2 = (
                monomial_weights_2[None, :] * take(k, monomial_entry_0_2) * take(k, monomial_entry_1_2)
            )
            product_4 = tl.dot(
                tl.trans((last_weights[:, None] * features_2).to(DOT)),
                value_2.to(DOT),
                input_precision=PRECISION,
            )
            # M at the end
            memory_W1_next = kept * (memory_W1_3 - origin_W1) + origin_W1 + product_4
            if block + 1 < blocks:
                tl.store(
                    memory_W1_blocks_pointer
                    + (slot + 1) * (F * D1)
                    + monomial[:, None] * D1
                    + hidden_1[None, :],
                    memory_W1_next,
                    mask=is_monomial[:, None] & is_hidden_1[None, :],
                )
            else:
                if STORE_FINAL:
                    tl.store(
                        memory_W1_final_pointer
                        + memory_index * (F * D1)
                        + monomial[:, None] * D1
                        + hidden_1[None, :],
                        memory_W1_next,
                        mask=is_monomial[:, None] & is_hidden_1[None, :],
                    )
                    if open_block >= blocks:
                        tl.store(
                            anchor_W1_final_pointer
                            + memory_index * (F * D1)
                            + monomial[:, None] * D1
                            + hidden_1[None, :],
                            memory_W1_next,
                            mask=is_monomial[:, None] & is_hidden_1[None, :],
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
    monomial_entry_0_pointer,
    monomial_entry_1_pointer,
    monomial_scale_0_pointer,
    monomial_scale_1_pointer,
    monomial_scale_2_pointer,
    position_pointer,
    rows_value_1_pointer,
    rows_value_2_pointer,
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
    """Rows of one block that later kernels read: rows_value_1, rows_value_2."""
    program = tl.program_id(0)
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
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
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    v = tl.load(
        v_block + row[:, None] * v_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
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
    product = tl.dot(v.to(DOT), tl.trans(anchor_point_W2.to(DOT)), input_precision=PRECISION)
    tl.store(
        rows_value_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        product,
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
    )
    product_2 = tl.zeros([BLOCK_ROWS, BLOCK_D1], dtype=tl.float32)
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    for monomial_start in range(0, F, BLOCK_F):
        monomial = monomial_start + tl.arange(0, BLOCK_F)
        is_monomial = monomial < F
        monomial_scale_0 = tl.load(monomial_scale_0_pointer + monomial, mask=is_monomial, other=0)
        monomial_scale_1 = tl.load(monomial_scale_1_pointer + monomial, mask=is_monomial, other=0)
        monomial_scale_2 = tl.load(monomial_scale_2_pointer + monomial, mask=is_monomial, other=0)
        monomial_weights = monomial_scale_0 + monomial_scale_1 + 0.7071067811865476 * monomial_scale_2
        monomial_entry_0 = tl.load(monomial_entry_0_pointer + monomial, mask=is_monomial, other=0)
        monomial_entry_1 = tl.load(monomial_entry_1_pointer + monomial, mask=is_monomial, other=0)
        # X = phi(k)
        features = monomial_weights[None, :] * take(k, monomial_entry_0) * take(k, monomial_entry_1)
        anchor_W1 = (
            tl.load(
                anchor_W1_pointer + memory_index * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
                mask=is_monomial[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            if RESUME
            else 0.0
        )
        memory_W1 = tl.load(
            memory_W1_blocks_pointer + slot * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
            mask=is_monomial[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        # M*: the memory at the last border
        anchor_point_W1 = tl.where(block == 0, anchor_W1, memory_W1) if RESUME else memory_W1
        product_2 += tl.dot(features.to(DOT), anchor_point_W1.to(DOT), input_precision=PRECISION)
    tl.store(
        rows_value_2_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
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
    monomial_entry_0_pointer,
    monomial_entry_1_pointer,
    monomial_scale_0_pointer,
    monomial_scale_1_pointer,
    monomial_scale_2_pointer,
    origin_W1_pointer,
    position_pointer,
    q_pointer,
    rows_value_0_pointer,
    rows_value_1_pointer,
    rows_value_2_pointer,
    rows_value_3_pointer,
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
    """Rows of one block that later kernels read: rows_value_0, rows_value_3."""
    program = tl.program_id(0)
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    row = tl.arange(0, BLOCK_ROWS)
    feature = tl.arange(0, BLOCK_K)
    is_feature = feature < K
    hidden_1 = tl.arange(0, BLOCK_D1)
    is_hidden_1 = hidden_1 < D1
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
    combined = tl.zeros([BLOCK_ROWS, BLOCK_D1], dtype=tl.float32)
    product = tl.zeros([BLOCK_ROWS, BLOCK_D1], dtype=tl.float32)
    q = tl.load(
        q_block + row[:, None] * q_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # a: decay of the memory since the block's start
    read_decay = tl.load(gate_read_decay_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    for monomial_start in range(0, F, BLOCK_F):
        monomial = monomial_start + tl.arange(0, BLOCK_F)
        is_monomial = monomial < F
        monomial_scale_0 = tl.load(monomial_scale_0_pointer + monomial, mask=is_monomial, other=0)
        monomial_scale_1 = tl.load(monomial_scale_1_pointer + monomial, mask=is_monomial, other=0)
        monomial_scale_2 = tl.load(monomial_scale_2_pointer + monomial, mask=is_monomial, other=0)
        monomial_weights = monomial_scale_0 + monomial_scale_1 + 0.7071067811865476 * monomial_scale_2
        monomial_entry_0 = tl.load(monomial_entry_0_pointer + monomial, mask=is_monomial, other=0)
        monomial_entry_1 = tl.load(monomial_entry_1_pointer + monomial, mask=is_monomial, other=0)
        # phi(q)
        queries = monomial_weights[None, :] * take(q, monomial_entry_0) * take(q, monomial_entry_1)
        memory_W1 = tl.load(
            memory_W1_blocks_pointer + slot * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
            mask=is_monomial[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        origin_W1 = tl.load(
            origin_W1_pointer + memory_index * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
            mask=is_monomial[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        combined_2 = memory_W1 - origin_W1
        combined += tl.dot(
            (queries * read_decay[:, None]).to(DOT),
            combined_2.to(DOT),
            input_precision=PRECISION,
        )
        combined += tl.dot(queries.to(DOT), origin_W1.to(DOT), input_precision=PRECISION)
        product += tl.dot(queries.to(DOT), combined_2.to(DOT), input_precision=PRECISION)
    tl.store(
        rows_value_0_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        product,
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
    )
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    product_2 = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
    # Q X^T
    scores_W1 = 0.5 * (product_2 * product_2) + product_2 + 1.0
    # P: source weights by read
    weights = tl.load(
        gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    # (Q X^T) * P
    attention_W1 = scores_W1 * weights
    rows_value_1 = tl.load(
        rows_value_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    rows_value_2 = tl.load(
        rows_value_2_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    value_2 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_2), 0.0)
    product_3 = tl.dot(attention_W1.to(DOT), (rows_value_1 * value_2).to(DOT), input_precision=PRECISION)
    tl.store(
        rows_value_3_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        combined + product_3,
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
    rows_value_2_pointer,
    rows_value_3_pointer,
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
    hidden_1 = tl.arange(0, BLOCK_D1)
    is_hidden_1 = hidden_1 < D1
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
    # a: decay of the memory since the block's start
    read_decay = tl.load(gate_read_decay_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    rows_value_3 = tl.load(
        rows_value_3_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    value_2 = gelu(rows_value_3)
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
    product = tl.dot(value_2.to(DOT), (memory_W2 - origin_W2).to(DOT), input_precision=PRECISION)
    product_2 = tl.dot(value_2.to(DOT), origin_W2.to(DOT), input_precision=PRECISION)
    rows_value_2 = tl.load(
        rows_value_2_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    # Q X^T
    scores_W2 = tl.dot(value_2.to(DOT), tl.trans(gelu(rows_value_2).to(DOT)), input_precision=PRECISION)
    # P: source weights by read
    weights = tl.load(
        gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    # (Q X^T) * P
    attention_W2 = scores_W2 * weights
    v = tl.load(
        v_block + row[:, None] * v_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    product_3 = tl.dot(attention_W2.to(DOT), v.to(DOT), input_precision=PRECISION)
    q = tl.load(
        q_block + row[:, None] * q_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = read_decay[:, None] * product + product_2 + product_3 + q
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
    rows_value_2_pointer,
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
    """Rows of one block that later kernels read: rows_value_4."""
    program = tl.program_id(0)
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    row = tl.arange(0, BLOCK_ROWS)
    hidden_1 = tl.arange(0, BLOCK_D1)
    is_hidden_1 = hidden_1 < D1
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
    v = tl.load(
        v_block + row[:, None] * v_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    d_attention_W2 = tl.dot(d_reads.to(DOT), tl.trans(v.to(DOT)), input_precision=PRECISION)
    # P: source weights by read
    weights = tl.load(
        gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    d_scores_W2 = d_attention_W2 * weights
    rows_value_2 = tl.load(
        rows_value_2_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    product = tl.dot(d_scores_W2.to(DOT), gelu(rows_value_2).to(DOT), input_precision=PRECISION)
    origin_W2 = tl.load(
        origin_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    product_2 = tl.dot(d_reads.to(DOT), tl.trans(origin_W2.to(DOT)), input_precision=PRECISION)
    # a: decay of the memory since the block's start
    read_decay = tl.load(gate_read_decay_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    memory_W2 = tl.load(
        memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    product_3 = tl.dot(
        (d_reads * read_decay[:, None]).to(DOT),
        tl.trans((memory_W2 - origin_W2).to(DOT)),
        input_precision=PRECISION,
    )
    tl.store(
        rows_value_4_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        product + product_2 + product_3,
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def read_gradients_1_s_D1(
    d_y_pointer,
    gate_weights_pointer,
    length_pointer,
    position_pointer,
    rows_value_3_pointer,
    rows_value_6_pointer,
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
    """Rows of one block that later kernels read: rows_value_6."""
    program = tl.program_id(0)
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    row = tl.arange(0, BLOCK_ROWS)
    hidden_1 = tl.arange(0, BLOCK_D1)
    is_hidden_1 = hidden_1 < D1
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
    v = tl.load(
        v_block + row[:, None] * v_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    d_attention_W2 = tl.dot(d_reads.to(DOT), tl.trans(v.to(DOT)), input_precision=PRECISION)
    # P: source weights by read
    weights = tl.load(
        gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    d_scores_W2 = d_attention_W2 * weights
    rows_value_3 = tl.load(
        rows_value_3_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    product = tl.dot(tl.trans(d_scores_W2.to(DOT)), gelu(rows_value_3).to(DOT), input_precision=PRECISION)
    tl.store(
        rows_value_6_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        product,
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def read_gradients_2_s_D1(
    gate_weights_pointer,
    k_pointer,
    length_pointer,
    position_pointer,
    q_pointer,
    rows_value_3_pointer,
    rows_value_4_pointer,
    rows_value_8_pointer,
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
    """Rows of one block that later kernels read: rows_value_8."""
    program = tl.program_id(0)
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    row = tl.arange(0, BLOCK_ROWS)
    feature = tl.arange(0, BLOCK_K)
    is_feature = feature < K
    hidden_1 = tl.arange(0, BLOCK_D1)
    is_hidden_1 = hidden_1 < D1
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
    rows_value_4 = tl.load(
        rows_value_4_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    rows_value_3 = tl.load(
        rows_value_3_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    value_2 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_3), 0.0)
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
    product = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
    # Q X^T
    scores_W1 = 0.5 * (product * product) + product + 1.0
    # P: source weights by read
    weights = tl.load(
        gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    # (Q X^T) * P
    attention_W1 = scores_W1 * weights
    product_2 = tl.dot(
        tl.trans(attention_W1.to(DOT)),
        (rows_value_4 * value_2).to(DOT),
        input_precision=PRECISION,
    )
    tl.store(
        rows_value_8_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        product_2,
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def state_gradient(
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
    monomial_entry_0_pointer,
    monomial_entry_1_pointer,
    monomial_scale_0_pointer,
    monomial_scale_1_pointer,
    monomial_scale_2_pointer,
    position_pointer,
    q_pointer,
    rows_value_10_pointer,
    rows_value_1_pointer,
    rows_value_2_pointer,
    rows_value_3_pointer,
    rows_value_4_pointer,
    rows_value_5_pointer,
    rows_value_6_pointer,
    rows_value_7_pointer,
    rows_value_8_pointer,
    rows_value_9_pointer,
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
    """The gradient of the memory from the last block to the first, tile by tile."""
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
    for turn in tl.range(0, blocks * 10, disable_licm=True):
        step = turn // 10
        part = turn % 10
        block = blocks - 1 - step
        slot = memory_index * blocks + block
        start = tl.cast(block, tl.int64) * ROWS - phase
        first = tl.cast(tl.maximum(-start, 0), tl.int32)
        last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
        live = (row >= first) & (row < last)
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
        d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
        if part == 0:
            d_memory_W2_next = tl.load(
                d_memory_W2_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                mask=is_hidden_1[:, None] & is_value[None, :],
                other=0.0,
            )
            v = tl.load(
                v_block + row[:, None] * v_row + value[None, :],
                mask=live[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
            product = tl.dot(v.to(DOT), tl.trans(d_memory_W2_next.to(DOT)), input_precision=PRECISION)
            tl.store(
                rows_value_5_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                product,
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            )
        if part == 1:
            rows_value_8 = tl.load(
                rows_value_8_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            combined = rows_value_8
            # p_C: last row of P
            last_weights = tl.load(gate_last_weights_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
            k = tl.load(
                k_block + row[:, None] * k_row + feature[None, :],
                mask=live[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            for monomial_start in range(0, F, BLOCK_F):
                monomial = monomial_start + tl.arange(0, BLOCK_F)
                is_monomial = monomial < F
                d_memory_W1_next = tl.load(
                    d_memory_W1_next_blocks_pointer
                    + slot * (F * D1)
                    + monomial[:, None] * D1
                    + hidden_1[None, :],
                    mask=is_monomial[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                monomial_scale_0 = tl.load(monomial_scale_0_pointer + monomial, mask=is_monomial, other=0)
                monomial_scale_1 = tl.load(monomial_scale_1_pointer + monomial, mask=is_monomial, other=0)
                monomial_scale_2 = tl.load(monomial_scale_2_pointer + monomial, mask=is_monomial, other=0)
                monomial_weights = monomial_scale_0 + monomial_scale_1 + 0.7071067811865476 * monomial_scale_2
                monomial_entry_0 = tl.load(monomial_entry_0_pointer + monomial, mask=is_monomial, other=0)
                monomial_entry_1 = tl.load(monomial_entry_1_pointer + monomial, mask=is_monomial, other=0)
                # X = phi(k)
                features = monomial_weights[None, :] * take(k, monomial_entry_0) * take(k, monomial_entry_1)
                combined += tl.dot(
                    (last_weights[:, None] * features).to(DOT),
                    d_memory_W1_next.to(DOT),
                    input_precision=PRECISION,
                )
            tl.store(
                rows_value_9_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                combined,
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            )
        if part == 2:
            rows_value_5 = tl.load(
                rows_value_5_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            # p_C: last row of P
            last_weights_2 = tl.load(
                gate_last_weights_pointer + slot * ROWS + row,
                mask=row < ROWS,
                other=0.0,
            )
            rows_value_6 = tl.load(
                rows_value_6_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            tl.store(
                rows_value_7_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                rows_value_5 * last_weights_2[:, None] + rows_value_6,
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            )
        if part == 3:
            rows_value_7 = tl.load(
                rows_value_7_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            rows_value_2 = tl.load(
                rows_value_2_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            value_2 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_2), 0.0)
            rows_value_9 = tl.load(
                rows_value_9_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            rows_value_1 = tl.load(
                rows_value_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            value_3 = tl.where(
                is_hidden_1[None, :],
                0.3989422804014327
                * (2.0 - rows_value_2 * rows_value_2)
                * tl.exp(-0.5 * (rows_value_2 * rows_value_2)),
                0.0,
            )
            combined_2 = rows_value_7 * value_2 + rows_value_9 * rows_value_1 * value_3
            tl.store(
                rows_value_10_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                combined_2,
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            )
        if part == 4:
            rows_value_10 = tl.load(
                rows_value_10_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            k_2 = tl.load(
                k_block + row[:, None] * k_row + feature[None, :],
                mask=live[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            # a_C: decay of the memory over the block
            kept = tl.load(gate_kept_pointer + slot)
            rows_value_4 = tl.load(
                rows_value_4_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            rows_value_3 = tl.load(
                rows_value_3_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            value_4 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_3), 0.0)
            # a: decay of the memory since the block's start
            read_decay = tl.load(gate_read_decay_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
            q = tl.load(
                q_block + row[:, None] * q_row + feature[None, :],
                mask=live[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            for monomial_start in range(0, F, BLOCK_F):
                monomial = monomial_start + tl.arange(0, BLOCK_F)
                is_monomial = monomial < F
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
                monomial_scale_0_2 = tl.load(monomial_scale_0_pointer + monomial, mask=is_monomial, other=0)
                monomial_scale_1_2 = tl.load(monomial_scale_1_pointer + monomial, mask=is_monomial, other=0)
                monomial_scale_2_2 = tl.load(monomial_scale_2_pointer + monomial, mask=is_monomial, other=0)
                monomial_weights_2 = (
                    monomial_scale_0_2 + monomial_scale_1_2 + 0.7071067811865476 * monomial_scale_2_2
                )
                monomial_entry_0_2 = tl.load(monomial_entry_0_pointer + monomial, mask=is_monomial, other=0)
                monomial_entry_1_2 = tl.load(monomial_entry_1_pointer + monomial, mask=is_monomial, other=0)
                # X = phi(k)
                features_2 = (
                    monomial_weights_2[None, :]
                    * take(k_2, monomial_entry_0_2)
                    * take(k_2, monomial_entry_1_2)
                )
                product_2 = tl.dot(
                    tl.trans(features_2.to(DOT)),
                    rows_value_10.to(DOT),
                    input_precision=PRECISION,
                )
                d_anchor_point_W1 = d_anchor_W1 + product_2
                at_border = tl.where(block == 0, 0.0, d_anchor_point_W1) if RESUME else d_anchor_point_W1
                d_memory_W1_next_2 = tl.load(
                    d_memory_W1_next_blocks_pointer
                    + slot * (F * D1)
                    + monomial[:, None] * D1
                    + hidden_1[None, :],
                    mask=is_monomial[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                # phi(q)
                queries = (
                    monomial_weights_2[None, :] * take(q, monomial_entry_0_2) * take(q, monomial_entry_1_2)
                )
                product_3 = tl.dot(
                    tl.trans(queries.to(DOT)),
                    (rows_value_4 * value_4 * read_decay[:, None]).to(DOT),
                    input_precision=PRECISION,
                )
                following = at_border + (d_memory_W1_next_2 * kept + product_3)
                if block > 0:
                    tl.store(
                        d_memory_W1_next_blocks_pointer
                        + (slot - 1) * (F * D1)
                        + monomial[:, None] * D1
                        + hidden_1[None, :],
                        following,
                        mask=is_monomial[:, None] & is_hidden_1[None, :],
                    )
                else:
                    if GRAD_INITIAL:
                        tl.store(
                            d_memory_W1_pointer
                            + memory_index * (F * D1)
                            + monomial[:, None] * D1
                            + hidden_1[None, :],
                            following,
                            mask=is_monomial[:, None] & is_hidden_1[None, :],
                        )
        if part == 5:
            d_memory_W2_next_2 = tl.load(
                d_memory_W2_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                mask=is_hidden_1[:, None] & is_value[None, :],
                other=0.0,
            )
            # a_C: decay of the memory over the block
            kept_2 = tl.load(gate_kept_pointer + slot)
            d_reads = tl.load(
                d_y_block + row[:, None] * d_y_row + value[None, :],
                mask=live[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
            # a: decay of the memory since the block's start
            read_decay_2 = tl.load(gate_read_decay_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
            rows_value_3_2 = tl.load(
                rows_value_3_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            product_4 = tl.dot(
                tl.trans(gelu(rows_value_3_2).to(DOT)),
                (d_reads * read_decay_2[:, None]).to(DOT),
                input_precision=PRECISION,
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
            rows_value_9_2 = tl.load(
                rows_value_9_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            rows_value_2_2 = tl.load(
                rows_value_2_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            value_5 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_2_2), 0.0)
            v_2 = tl.load(
                v_block + row[:, None] * v_row + value[None, :],
                mask=live[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
            product_5 = tl.dot(
                tl.trans((rows_value_9_2 * value_5).to(DOT)),
                v_2.to(DOT),
                input_precision=PRECISION,
            )
            d_anchor_point_W2 = d_anchor_W2 + product_5
            at_border_2 = tl.where(block == 0, 0.0, d_anchor_point_W2) if RESUME else d_anchor_point_W2
            following_2 = d_memory_W2_next_2 * kept_2 + product_4 + at_border_2
            if block > 0:
                tl.store(
                    d_memory_W2_next_blocks_pointer
                    + (slot - 1) * (D1 * V)
                    + hidden_1[:, None] * V
                    + value[None, :],
                    following_2,
                    mask=is_hidden_1[:, None] & is_value[None, :],
                )
            else:
                if GRAD_INITIAL:
                    tl.store(
                        d_memory_W2_pointer
                        + memory_index * (D1 * V)
                        + hidden_1[:, None] * V
                        + value[None, :],
                        following_2,
                        mask=is_hidden_1[:, None] & is_value[None, :],
                    )
        if part == 6:
            rows_value_4_2 = tl.load(
                rows_value_4_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            rows_value_3_3 = tl.load(
                rows_value_3_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            value_6 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_3_3), 0.0)
            value_7 = rows_value_4_2 * value_6
            q_2 = tl.load(
                q_block + row[:, None] * q_row + feature[None, :],
                mask=live[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            # a_C: decay of the memory over the block
            kept_3 = tl.load(gate_kept_pointer + slot)
            # a: decay of the memory since the block's start
            read_decay_3 = tl.load(gate_read_decay_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
            for monomial_start in range(0, F, BLOCK_F):
                monomial = monomial_start + tl.arange(0, BLOCK_F)
                is_monomial = monomial < F
                d_memory_W1_next_3 = tl.load(
                    d_memory_W1_next_blocks_pointer
                    + slot * (F * D1)
                    + monomial[:, None] * D1
                    + hidden_1[None, :],
                    mask=is_monomial[:, None] & is_hidden_1[None, :],
                    other=0.0,
                )
                monomial_scale_0_3 = tl.load(monomial_scale_0_pointer + monomial, mask=is_monomial, other=0)
                monomial_scale_1_3 = tl.load(monomial_scale_1_pointer + monomial, mask=is_monomial, other=0)
                monomial_scale_2_3 = tl.load(monomial_scale_2_pointer + monomial, mask=is_monomial, other=0)
                monomial_weights_3 = (
                    monomial_scale_0_3 + monomial_scale_1_3 + 0.7071067811865476 * monomial_scale_2_3
                )
                monomial_entry_0_3 = tl.load(monomial_entry_0_pointer + monomial, mask=is_monomial, other=0)
                monomial_entry_1_3 = tl.load(monomial_entry_1_pointer + monomial, mask=is_monomial, other=0)
                # phi(q)
                queries_2 = (
                    monomial_weights_3[None, :]
                    * take(q_2, monomial_entry_0_3)
                    * take(q_2, monomial_entry_1_3)
                )
                product_6 = tl.dot(tl.trans(queries_2.to(DOT)), value_7.to(DOT), input_precision=PRECISION)
                product_7 = tl.dot(
                    tl.trans(queries_2.to(DOT)),
                    (value_7 * read_decay_3[:, None]).to(DOT),
                    input_precision=PRECISION,
                )
                combined_3 = d_memory_W1_next_3 + product_6 - (d_memory_W1_next_3 * kept_3 + product_7)
                d_origin_W1 = combined_3
                if step > 0:
                    d_origin_W1 += tl.load(
                        d_origin_W1_pointer
                        + memory_index * (F * D1)
                        + monomial[:, None] * D1
                        + hidden_1[None, :],
                        mask=is_monomial[:, None] & is_hidden_1[None, :],
                        other=0.0,
                    )
                tl.store(
                    d_origin_W1_pointer
                    + memory_index * (F * D1)
                    + monomial[:, None] * D1
                    + hidden_1[None, :],
                    d_origin_W1,
                    mask=is_monomial[:, None] & is_hidden_1[None, :],
                )
        if part == 7:
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
            rows_value_9_3 = tl.load(
                rows_value_9_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            rows_value_2_3 = tl.load(
                rows_value_2_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            value_8 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_2_3), 0.0)
            v_3 = tl.load(
                v_block + row[:, None] * v_row + value[None, :],
                mask=live[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
            product_8 = tl.dot(
                tl.trans((rows_value_9_3 * value_8).to(DOT)),
                v_3.to(DOT),
                input_precision=PRECISION,
            )
            d_anchor_point_W2_2 = d_anchor_W2_2 + product_8
            if RESUME:
                if block == 0:
                    tl.store(
                        d_anchor_W2_pointer
                        + memory_index * (D1 * V)
                        + hidden_1[:, None] * V
                        + value[None, :],
                        d_anchor_point_W2_2,
                        mask=is_hidden_1[:, None] & is_value[None, :],
                    )
        if part == 8:
            rows_value_10_2 = tl.load(
                rows_value_10_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            k_3 = tl.load(
                k_block + row[:, None] * k_row + feature[None, :],
                mask=live[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            for monomial_start in range(0, F, BLOCK_F):
                monomial = monomial_start + tl.arange(0, BLOCK_F)
                is_monomial = monomial < F
                d_anchor_W1_2 = tl.zeros([BLOCK_F, BLOCK_D1], dtype=tl.float32)
                if GRAD_FINAL:
                    if block == open_block:
                        d_anchor_W1_2 += tl.load(
                            d_anchor_W1_final_pointer
                            + memory_index * (F * D1)
                            + monomial[:, None] * D1
                            + hidden_1[None, :],
                            mask=is_monomial[:, None] & is_hidden_1[None, :],
                            other=0.0,
                        )
                monomial_scale_0_4 = tl.load(monomial_scale_0_pointer + monomial, mask=is_monomial, other=0)
                monomial_scale_1_4 = tl.load(monomial_scale_1_pointer + monomial, mask=is_monomial, other=0)
                monomial_scale_2_4 = tl.load(monomial_scale_2_pointer + monomial, mask=is_monomial, other=0)
                monomial_weights_4 = (
                    monomial_scale_0_4 + monomial_scale_1_4 + 0.7071067811865476 * monomial_scale_2_4
                )
                monomial_entry_0_4 = tl.load(monomial_entry_0_pointer + monomial, mask=is_monomial, other=0)
                monomial_entry_1_4 = tl.load(monomial_entry_1_pointer + monomial, mask=is_monomial, other=0)
                # X = phi(k)
                features_3 = (
                    monomial_weights_4[None, :]
                    * take(k_3, monomial_entry_0_4)
                    * take(k_3, monomial_entry_1_4)
                )
                product_9 = tl.dot(
                    tl.trans(features_3.to(DOT)),
                    rows_value_10_2.to(DOT),
                    input_precision=PRECISION,
                )
                d_anchor_point_W1_2 = d_anchor_W1_2 + product_9
                if RESUME:
                    if block == 0:
                        tl.store(
                            d_anchor_W1_pointer
                            + memory_index * (F * D1)
                            + monomial[:, None] * D1
                            + hidden_1[None, :],
                            d_anchor_point_W1_2,
                            mask=is_monomial[:, None] & is_hidden_1[None, :],
                        )
        if part == 9:
            d_memory_W2_next_3 = tl.load(
                d_memory_W2_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                mask=is_hidden_1[:, None] & is_value[None, :],
                other=0.0,
            )
            d_reads_2 = tl.load(
                d_y_block + row[:, None] * d_y_row + value[None, :],
                mask=live[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
            rows_value_3_4 = tl.load(
                rows_value_3_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            value_9 = gelu(rows_value_3_4)
            product_10 = tl.dot(tl.trans(value_9.to(DOT)), d_reads_2.to(DOT), input_precision=PRECISION)
            # a_C: decay of the memory over the block
            kept_4 = tl.load(gate_kept_pointer + slot)
            # a: decay of the memory since the block's start
            read_decay_4 = tl.load(gate_read_decay_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
            product_11 = tl.dot(
                tl.trans(value_9.to(DOT)),
                (d_reads_2 * read_decay_4[:, None]).to(DOT),
                input_precision=PRECISION,
            )
            combined_4 = d_memory_W2_next_3 + product_10 - (d_memory_W2_next_3 * kept_4 + product_11)
            d_origin_W2 = combined_4
            if step > 0:
                d_origin_W2 += tl.load(
                    d_origin_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
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
    anchor_W2_pointer,
    d_memory_W2_next_blocks_pointer,
    d_v_pointer,
    d_y_pointer,
    gate_last_weights_pointer,
    gate_weights_pointer,
    length_pointer,
    memory_W2_blocks_pointer,
    position_pointer,
    rows_value_2_pointer,
    rows_value_3_pointer,
    rows_value_9_pointer,
    d_v_head,
    d_v_row,
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
    """Gradients of one block: d_v."""
    program = tl.program_id(0)
    value_tile = program % tl.cdiv(V, BLOCK_V)
    program = program // tl.cdiv(V, BLOCK_V)
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    row = tl.arange(0, BLOCK_ROWS)
    hidden_1 = tl.arange(0, BLOCK_D1)
    is_hidden_1 = hidden_1 < D1
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
    d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
    d_memory_W2_next = tl.load(
        d_memory_W2_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    # p_C: last row of P
    last_weights = tl.load(gate_last_weights_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    rows_value_2 = tl.load(
        rows_value_2_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    value_2 = gelu(rows_value_2)
    product = tl.dot(
        (last_weights[:, None] * value_2).to(DOT),
        d_memory_W2_next.to(DOT),
        input_precision=PRECISION,
    )
    d_reads = tl.load(
        d_y_block + row[:, None] * d_y_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    rows_value_3 = tl.load(
        rows_value_3_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    # Q X^T
    scores_W2 = tl.dot(gelu(rows_value_3).to(DOT), tl.trans(value_2.to(DOT)), input_precision=PRECISION)
    # P: source weights by read
    weights = tl.load(
        gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    # (Q X^T) * P
    attention_W2 = scores_W2 * weights
    product_2 = tl.dot(tl.trans(attention_W2.to(DOT)), d_reads.to(DOT), input_precision=PRECISION)
    rows_value_9 = tl.load(
        rows_value_9_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    value_3 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_2), 0.0)
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
    product_3 = tl.dot((rows_value_9 * value_3).to(DOT), anchor_point_W2.to(DOT), input_precision=PRECISION)
    d_v_block = d_v_pointer + (batch * tokens + start) * d_v_row + head * d_v_head
    tl.store(
        d_v_block + row[:, None] * d_v_row + value[None, :],
        product + product_2 + product_3,
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
    monomial_entry_0_pointer,
    monomial_entry_1_pointer,
    monomial_scale_0_pointer,
    monomial_scale_1_pointer,
    monomial_scale_2_pointer,
    origin_W1_pointer,
    position_pointer,
    q_pointer,
    rows_value_1_pointer,
    rows_value_2_pointer,
    rows_value_3_pointer,
    rows_value_4_pointer,
    d_q_head,
    d_q_row,
    d_y_head,
    d_y_row,
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
    """Gradients of one block: d_q."""
    program = tl.program_id(0)
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
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
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    combined = tl.zeros([BLOCK_ROWS, BLOCK_K], dtype=tl.float32)
    rows_value_4 = tl.load(
        rows_value_4_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    rows_value_3 = tl.load(
        rows_value_3_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    value_2 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_3), 0.0)
    value_3 = rows_value_4 * value_2
    # a: decay of the memory since the block's start
    read_decay = tl.load(gate_read_decay_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    q = tl.load(
        q_block + row[:, None] * q_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    place = feature + 1
    for monomial_start in range(0, F, BLOCK_F):
        monomial = monomial_start + tl.arange(0, BLOCK_F)
        is_monomial = monomial < F
        origin_W1 = tl.load(
            origin_W1_pointer + memory_index * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
            mask=is_monomial[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        product = tl.dot(value_3.to(DOT), tl.trans(origin_W1.to(DOT)), input_precision=PRECISION)
        memory_W1 = tl.load(
            memory_W1_blocks_pointer + slot * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
            mask=is_monomial[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        product_2 = tl.dot(
            value_3.to(DOT),
            tl.trans((memory_W1 - origin_W1).to(DOT)),
            input_precision=PRECISION,
        )
        combined_2 = product + product_2 * read_decay[:, None]
        monomial_scale_0 = tl.load(monomial_scale_0_pointer + monomial, mask=is_monomial, other=0)
        monomial_scale_1 = tl.load(monomial_scale_1_pointer + monomial, mask=is_monomial, other=0)
        monomial_scale_2 = tl.load(monomial_scale_2_pointer + monomial, mask=is_monomial, other=0)
        monomial_weights = monomial_scale_0 + monomial_scale_1 + 0.7071067811865476 * monomial_scale_2
        monomial_entry_0 = tl.load(monomial_entry_0_pointer + monomial, mask=is_monomial, other=0)
        value_4 = combined_2 * (monomial_weights[None, :] * take(q, monomial_entry_0))
        monomial_entry_1 = tl.load(monomial_entry_1_pointer + monomial, mask=is_monomial, other=0)
        value_5 = tl.where(
            is_monomial[None, :],
            tl.where(
                is_feature[:, None],
                tl.where(monomial_entry_1[None, :] == place[:, None], 1.0, 0.0),
                0.0,
            ),
            0.0,
        )
        combined += tl.dot(value_4.to(DOT), tl.trans(value_5.to(DOT)), input_precision=PRECISION)
        value_6 = combined_2 * take(q, monomial_entry_1) * monomial_weights[None, :]
        value_7 = tl.where(
            is_monomial[None, :],
            tl.where(
                is_feature[:, None],
                tl.where(monomial_entry_0[None, :] == place[:, None], 1.0, 0.0),
                0.0,
            ),
            0.0,
        )
        combined += tl.dot(value_6.to(DOT), tl.trans(value_7.to(DOT)), input_precision=PRECISION)
    d_reads = tl.load(
        d_y_block + row[:, None] * d_y_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    rows_value_1 = tl.load(
        rows_value_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    rows_value_2 = tl.load(
        rows_value_2_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    value_8 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_2), 0.0)
    d_attention_W1 = tl.dot(
        value_3.to(DOT),
        tl.trans((rows_value_1 * value_8).to(DOT)),
        input_precision=PRECISION,
    )
    # P: source weights by read
    weights = tl.load(
        gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    d_scores_W1 = d_attention_W1 * weights
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    product_3 = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
    product_4 = tl.dot((d_scores_W1 * (1.0 * product_3 + 1.0)).to(DOT), k.to(DOT), input_precision=PRECISION)
    d_q_block = d_q_pointer + (batch * tokens + start) * d_q_row + head * d_q_head
    tl.store(
        d_q_block + row[:, None] * d_q_row + feature[None, :],
        combined + d_reads + product_4,
        mask=live[:, None] & is_feature[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_k(
    anchor_W1_pointer,
    d_k_pointer,
    d_memory_W1_next_blocks_pointer,
    gate_last_weights_pointer,
    gate_weights_pointer,
    k_pointer,
    length_pointer,
    memory_W1_blocks_pointer,
    monomial_entry_0_pointer,
    monomial_entry_1_pointer,
    monomial_scale_0_pointer,
    monomial_scale_1_pointer,
    monomial_scale_2_pointer,
    position_pointer,
    q_pointer,
    rows_value_10_pointer,
    rows_value_1_pointer,
    rows_value_2_pointer,
    rows_value_3_pointer,
    rows_value_4_pointer,
    d_k_head,
    d_k_row,
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
    """Gradients of one block: d_k."""
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
    hidden_1 = tl.arange(0, BLOCK_D1)
    is_hidden_1 = hidden_1 < D1
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    position = tl.load(position_pointer + batch) if RESUME else 0
    phase = position % ROWS
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    combined = tl.zeros([BLOCK_ROWS, BLOCK_K], dtype=tl.float32)
    rows_value_1 = tl.load(
        rows_value_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    rows_value_2 = tl.load(
        rows_value_2_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    value_2 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_2), 0.0)
    value_3 = rows_value_1 * value_2
    # p_C: last row of P
    last_weights = tl.load(gate_last_weights_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    rows_value_10 = tl.load(
        rows_value_10_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    place = feature + 1
    for monomial_start in range(0, F, BLOCK_F):
        monomial = monomial_start + tl.arange(0, BLOCK_F)
        is_monomial = monomial < F
        d_memory_W1_next = tl.load(
            d_memory_W1_next_blocks_pointer + slot * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
            mask=is_monomial[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        product = tl.dot(value_3.to(DOT), tl.trans(d_memory_W1_next.to(DOT)), input_precision=PRECISION)
        anchor_W1 = (
            tl.load(
                anchor_W1_pointer + memory_index * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
                mask=is_monomial[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            if RESUME
            else 0.0
        )
        memory_W1 = tl.load(
            memory_W1_blocks_pointer + slot * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
            mask=is_monomial[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        # M*: the memory at the last border
        anchor_point_W1 = tl.where(block == 0, anchor_W1, memory_W1) if RESUME else memory_W1
        product_2 = tl.dot(
            rows_value_10.to(DOT),
            tl.trans(anchor_point_W1.to(DOT)),
            input_precision=PRECISION,
        )
        d_features = product * last_weights[:, None] + product_2
        monomial_scale_0 = tl.load(monomial_scale_0_pointer + monomial, mask=is_monomial, other=0)
        monomial_scale_1 = tl.load(monomial_scale_1_pointer + monomial, mask=is_monomial, other=0)
        monomial_scale_2 = tl.load(monomial_scale_2_pointer + monomial, mask=is_monomial, other=0)
        monomial_weights = monomial_scale_0 + monomial_scale_1 + 0.7071067811865476 * monomial_scale_2
        monomial_entry_0 = tl.load(monomial_entry_0_pointer + monomial, mask=is_monomial, other=0)
        value_4 = d_features * (monomial_weights[None, :] * take(k, monomial_entry_0))
        monomial_entry_1 = tl.load(monomial_entry_1_pointer + monomial, mask=is_monomial, other=0)
        value_5 = tl.where(
            is_monomial[None, :],
            tl.where(
                is_feature[:, None],
                tl.where(monomial_entry_1[None, :] == place[:, None], 1.0, 0.0),
                0.0,
            ),
            0.0,
        )
        combined += tl.dot(value_4.to(DOT), tl.trans(value_5.to(DOT)), input_precision=PRECISION)
        value_6 = d_features * take(k, monomial_entry_1) * monomial_weights[None, :]
        value_7 = tl.where(
            is_monomial[None, :],
            tl.where(
                is_feature[:, None],
                tl.where(monomial_entry_0[None, :] == place[:, None], 1.0, 0.0),
                0.0,
            ),
            0.0,
        )
        combined += tl.dot(value_6.to(DOT), tl.trans(value_7.to(DOT)), input_precision=PRECISION)
    rows_value_4 = tl.load(
        rows_value_4_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    rows_value_3 = tl.load(
        rows_value_3_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    value_8 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_3), 0.0)
    d_attention_W1 = tl.dot(
        (rows_value_4 * value_8).to(DOT),
        tl.trans(value_3.to(DOT)),
        input_precision=PRECISION,
    )
    # P: source weights by read
    weights = tl.load(
        gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    d_scores_W1 = d_attention_W1 * weights
    q = tl.load(
        q_block + row[:, None] * q_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    product_3 = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
    product_4 = tl.dot(
        tl.trans((d_scores_W1 * (1.0 * product_3 + 1.0)).to(DOT)),
        q.to(DOT),
        input_precision=PRECISION,
    )
    if value_tile == 0:
        d_k_block = d_k_pointer + (batch * tokens + start) * d_k_row + head * d_k_head
        tl.store(
            d_k_block + row[:, None] * d_k_row + feature[None, :],
            combined + product_4,
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
    rows_value_1_pointer,
    rows_value_2_pointer,
    rows_value_3_pointer,
    rows_value_4_pointer,
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
    hidden_1 = tl.arange(0, BLOCK_D1)
    is_hidden_1 = hidden_1 < D1
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
    d_reads = tl.load(
        d_y_block + row[:, None] * d_y_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    v = tl.load(
        v_block + row[:, None] * v_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    d_attention_W2 = tl.dot(d_reads.to(DOT), tl.trans(v.to(DOT)), input_precision=PRECISION)
    rows_value_3 = tl.load(
        rows_value_3_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    rows_value_2 = tl.load(
        rows_value_2_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    # Q X^T
    scores_W2 = tl.dot(
        gelu(rows_value_3).to(DOT),
        tl.trans(gelu(rows_value_2).to(DOT)),
        input_precision=PRECISION,
    )
    rows_value_4 = tl.load(
        rows_value_4_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    value_2 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_3), 0.0)
    rows_value_1 = tl.load(
        rows_value_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    value_3 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_2), 0.0)
    d_attention_W1 = tl.dot(
        (rows_value_4 * value_2).to(DOT),
        tl.trans((rows_value_1 * value_3).to(DOT)),
        input_precision=PRECISION,
    )
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
    product = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
    # Q X^T
    scores_W1 = 0.5 * (product * product) + product + 1.0
    d_weights = d_attention_W2 * scores_W2 + d_attention_W1 * scores_W1
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
    monomial_entry_0_pointer,
    monomial_entry_1_pointer,
    monomial_scale_0_pointer,
    monomial_scale_1_pointer,
    monomial_scale_2_pointer,
    origin_W1_pointer,
    origin_W2_pointer,
    position_pointer,
    q_pointer,
    rows_value_3_pointer,
    rows_value_4_pointer,
    d_y_head,
    d_y_row,
    q_head,
    q_row,
    tokens,
    heads,
    blocks,
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
    """Gradients of one block: d_gate_read_decay, d_gate_kept."""
    program = tl.program_id(0)
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
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
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    d_reads = tl.load(
        d_y_block + row[:, None] * d_y_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    rows_value_3 = tl.load(
        rows_value_3_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
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
    product = tl.dot(gelu(rows_value_3).to(DOT), combined_2.to(DOT), input_precision=PRECISION)
    combined = tl.sum(d_reads * product, 1)
    total = tl.zeros([BLOCK_D1], dtype=tl.float32)
    q = tl.load(
        q_block + row[:, None] * q_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    rows_value_4 = tl.load(
        rows_value_4_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    value_2 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_3), 0.0)
    for monomial_start in range(0, F, BLOCK_F):
        monomial = monomial_start + tl.arange(0, BLOCK_F)
        is_monomial = monomial < F
        monomial_scale_0 = tl.load(monomial_scale_0_pointer + monomial, mask=is_monomial, other=0)
        monomial_scale_1 = tl.load(monomial_scale_1_pointer + monomial, mask=is_monomial, other=0)
        monomial_scale_2 = tl.load(monomial_scale_2_pointer + monomial, mask=is_monomial, other=0)
        monomial_weights = monomial_scale_0 + monomial_scale_1 + 0.7071067811865476 * monomial_scale_2
        monomial_entry_0 = tl.load(monomial_entry_0_pointer + monomial, mask=is_monomial, other=0)
        monomial_entry_1 = tl.load(monomial_entry_1_pointer + monomial, mask=is_monomial, other=0)
        # phi(q)
        queries = monomial_weights[None, :] * take(q, monomial_entry_0) * take(q, monomial_entry_1)
        memory_W1 = tl.load(
            memory_W1_blocks_pointer + slot * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
            mask=is_monomial[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        origin_W1 = tl.load(
            origin_W1_pointer + memory_index * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
            mask=is_monomial[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        combined_3 = memory_W1 - origin_W1
        product_2 = tl.dot(
            (rows_value_4 * value_2).to(DOT),
            tl.trans(combined_3.to(DOT)),
            input_precision=PRECISION,
        )
        combined += tl.sum(queries * product_2, 1)
        d_memory_W1_next = tl.load(
            d_memory_W1_next_blocks_pointer + slot * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
            mask=is_monomial[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        total += tl.sum(d_memory_W1_next * combined_3, 0)
    tl.store(d_gate_read_decay_pointer + slot * ROWS + row, combined, mask=row < ROWS)
    d_memory_W2_next = tl.load(
        d_memory_W2_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    d_kept = tl.sum(tl.sum(d_memory_W2_next * combined_2, 0), 0) + tl.sum(total, 0)
    tl.store(d_gate_kept_pointer + slot, d_kept)


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_last(
    d_gate_last_weights_pointer,
    d_memory_W1_next_blocks_pointer,
    k_pointer,
    length_pointer,
    monomial_entry_0_pointer,
    monomial_entry_1_pointer,
    monomial_scale_0_pointer,
    monomial_scale_1_pointer,
    monomial_scale_2_pointer,
    position_pointer,
    rows_value_1_pointer,
    rows_value_2_pointer,
    rows_value_5_pointer,
    k_head,
    k_row,
    tokens,
    heads,
    blocks,
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
    hidden_1 = tl.arange(0, BLOCK_D1)
    is_hidden_1 = hidden_1 < D1
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    position = tl.load(position_pointer + batch) if RESUME else 0
    phase = position % ROWS
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    rows_value_5 = tl.load(
        rows_value_5_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    rows_value_2 = tl.load(
        rows_value_2_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    d_last_weights = tl.sum(rows_value_5 * gelu(rows_value_2), 1)
    rows_value_1 = tl.load(
        rows_value_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    value_2 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_2), 0.0)
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    for monomial_start in range(0, F, BLOCK_F):
        monomial = monomial_start + tl.arange(0, BLOCK_F)
        is_monomial = monomial < F
        d_memory_W1_next = tl.load(
            d_memory_W1_next_blocks_pointer + slot * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
            mask=is_monomial[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        product = tl.dot(
            (rows_value_1 * value_2).to(DOT),
            tl.trans(d_memory_W1_next.to(DOT)),
            input_precision=PRECISION,
        )
        monomial_scale_0 = tl.load(monomial_scale_0_pointer + monomial, mask=is_monomial, other=0)
        monomial_scale_1 = tl.load(monomial_scale_1_pointer + monomial, mask=is_monomial, other=0)
        monomial_scale_2 = tl.load(monomial_scale_2_pointer + monomial, mask=is_monomial, other=0)
        monomial_weights = monomial_scale_0 + monomial_scale_1 + 0.7071067811865476 * monomial_scale_2
        monomial_entry_0 = tl.load(monomial_entry_0_pointer + monomial, mask=is_monomial, other=0)
        monomial_entry_1 = tl.load(monomial_entry_1_pointer + monomial, mask=is_monomial, other=0)
        # X = phi(k)
        features = monomial_weights[None, :] * take(k, monomial_entry_0) * take(k, monomial_entry_1)
        d_last_weights += tl.sum(product * features, 1)
    if value_tile == 0:
        tl.store(d_gate_last_weights_pointer + slot * ROWS + row, d_last_weights, mask=row < ROWS)


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

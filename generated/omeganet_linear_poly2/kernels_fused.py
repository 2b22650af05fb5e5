"""Kernels of the memory rule omeganet_linear_poly2 (fused).

Rule 154a3d1e20a8, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
"""

import triton
import triton.language as tl


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
    anchor_final_pointer,
    anchor_pointer,
    coefficients_pointer,
    gamma_pointer,
    k_pointer,
    length_pointer,
    log_alpha_pointer,
    lr_pointer,
    memory_blocks_pointer,
    memory_final_pointer,
    memory_pointer,
    monomial_entry_0_pointer,
    monomial_entry_1_pointer,
    monomial_scale_0_pointer,
    monomial_scale_1_pointer,
    monomial_scale_2_pointer,
    position_pointer,
    q_pointer,
    v_pointer,
    window_gamma_pointer,
    window_k_pointer,
    window_v_pointer,
    y_pointer,
    coefficients_columns,
    gamma_head,
    gamma_row,
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
    BLOCK_F: tl.constexpr,
    BLOCK_HALO: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
    DOT: tl.constexpr,
    F: tl.constexpr,
    HALO: tl.constexpr,
    HELD: tl.constexpr,
    K: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    V: tl.constexpr,
):
    """The memory from block to block and the reads of each block."""
    program = tl.program_id(0)
    value_tile = program % tl.cdiv(V, BLOCK_V)
    program = program // tl.cdiv(V, BLOCK_V)
    memory_index = tl.cast(program, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    row = tl.arange(0, BLOCK_ROWS)
    halo_row = tl.arange(0, BLOCK_HALO)
    halo_row = tl.where(halo_row < HALO, halo_row - HALO, ROWS)  # negative: before the block
    feature = tl.arange(0, BLOCK_K)
    is_feature = feature < K
    monomial = tl.arange(0, BLOCK_F)
    is_monomial = monomial < F
    value = value_tile * BLOCK_V + tl.arange(0, BLOCK_V)
    is_value = value < V
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    position = tl.load(position_pointer + batch) if RESUME else 0
    phase = position % ROWS
    seen = tl.minimum(position, HELD)  # rows of the window that hold tokens
    # the block that is still open after the call
    open_block = tl.cast((phase + end) // ROWS, tl.int64)
    coefficients = tl.load(coefficients_pointer + head * coefficients_columns + 0).to(tl.float32)
    coefficients_2 = tl.load(coefficients_pointer + head * coefficients_columns + 1).to(tl.float32)
    coefficients_3 = tl.load(coefficients_pointer + head * coefficients_columns + 2).to(tl.float32)
    anchor = (
        tl.load(
            anchor_pointer + memory_index * (F * V) + monomial[:, None] * V + value[None, :],
            mask=is_monomial[:, None] & is_value[None, :],
            other=0.0,
        )
        if RESUME
        else 0.0
    )
    memory = tl.zeros([BLOCK_F, BLOCK_V], dtype=tl.float32)
    if HAS_INITIAL:
        memory += tl.load(
            memory_pointer + memory_index * (F * V) + monomial[:, None] * V + value[None, :],
            mask=is_monomial[:, None] & is_value[None, :],
            other=0.0,
        )
    for block in range(0, blocks):
        slot = memory_index * blocks + block
        start = tl.cast(block, tl.int64) * ROWS - phase
        first = tl.cast(tl.maximum(-start, 0), tl.int32)
        last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
        live = (row >= first) & (row < last)
        is_held = (row < first) & (row >= first - HELD)
        earliest = tl.cast(tl.maximum(-start, -HALO), tl.int32)
        is_halo = (halo_row >= earliest) & (halo_row < tl.minimum(last, 0))
        is_held_halo = (halo_row < earliest) & (halo_row >= earliest - HELD)
        log_alpha_block = log_alpha_pointer + (batch * tokens + start) * log_alpha_row + head * log_alpha_head
        q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
        gamma_block = gamma_pointer + (batch * tokens + start) * gamma_row + head * gamma_head
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
        if SAVE:
            tl.store(
                memory_blocks_pointer + slot * (F * V) + monomial[:, None] * V + value[None, :],
                memory,
                mask=is_monomial[:, None] & is_value[None, :],
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
        monomial_weights = (
            monomial_scale_0 * tl.sqrt(coefficients)
            + monomial_scale_1 * tl.sqrt(coefficients_2)
            + monomial_scale_2 * tl.sqrt(coefficients_3)
        )
        q = tl.load(
            q_block + row[:, None] * q_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        monomial_entry_0 = tl.load(monomial_entry_0_pointer + monomial, mask=is_monomial, other=0)
        monomial_entry_1 = tl.load(monomial_entry_1_pointer + monomial, mask=is_monomial, other=0)
        # phi(q)
        queries = monomial_weights[None, :] * take(q, monomial_entry_0) * take(q, monomial_entry_1)
        product = tl.dot(queries.to(DOT), memory.to(DOT), input_precision=PRECISION)
        k = tl.load(
            k_block + row[:, None] * k_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        if RESUME:
            window_k_base = window_k_pointer + (batch * HELD * heads + head) * K + (start + HELD) * heads * K
            k += tl.load(
                window_k_base + row[:, None] * (heads * K) + feature[None, :],
                mask=is_held[:, None] & is_feature[None, :],
                other=0.0,
            )
        product_2 = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
        # Q X^T
        scores = coefficients_3 * (product_2 * product_2) + product_2 * coefficients_2 + coefficients
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
        value_2 = decay * lr[None, :]
        live_2 = live.to(tl.float32)
        gamma = tl.load(gamma_block + row * gamma_row, mask=live, other=0.0).to(tl.float32)
        if RESUME:
            window_gamma_base = window_gamma_pointer + (batch * HELD * heads + head) + (start + HELD) * heads
            gamma += tl.load(window_gamma_base + row * heads, mask=is_held, other=0.0)
        exists = ((row >= first - seen) & (row < last)).to(tl.float32)
        # Gamma: window gates by reader and source
        window = tl.where(
            (row[:, None] >= row[None, :]) & (row[:, None] - row[None, :] <= 15),
            live_2[:, None] * (gamma * exists)[None, :],
            0.0,
        )
        # P: source weights by read
        weights = tl.dot(value_2.to(DOT), window.to(DOT), input_precision=PRECISION)
        # (Q X^T) * P
        attention = scores * weights
        # X = phi(k)
        features = monomial_weights[None, :] * take(k, monomial_entry_0) * take(k, monomial_entry_1)
        # M*: the memory at the last border
        anchor_point = tl.where(block == 0, anchor, memory) if RESUME else memory
        # pred = phi(k) M*
        predictions = tl.dot(features.to(DOT), anchor_point.to(DOT), input_precision=PRECISION)
        v = tl.load(
            v_block + row[:, None] * v_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        if RESUME:
            window_v_base = window_v_pointer + (batch * HELD * heads + head) * V + (start + HELD) * heads * V
            v += tl.load(
                window_v_base + row[:, None] * (heads * V) + value[None, :],
                mask=is_held[:, None] & is_value[None, :],
                other=0.0,
            )
        # E = dl/dpred at the block's M*
        errors = predictions - v
        product_3 = tl.dot(attention.to(DOT), errors.to(DOT), input_precision=PRECISION)
        k_halo = tl.load(
            k_block + halo_row[:, None] * k_row + feature[None, :],
            mask=is_halo[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        if RESUME:
            window_k_base = window_k_pointer + (batch * HELD * heads + head) * K + (start + HELD) * heads * K
            k_halo += tl.load(
                window_k_base + halo_row[:, None] * (heads * K) + feature[None, :],
                mask=is_held_halo[:, None] & is_feature[None, :],
                other=0.0,
            )
        product_4 = tl.dot(q.to(DOT), tl.trans(k_halo.to(DOT)), input_precision=PRECISION)
        # Q X^T
        scores_halo = coefficients_3 * (product_4 * product_4) + product_4 * coefficients_2 + coefficients
        gamma_halo = tl.load(gamma_block + halo_row * gamma_row, mask=is_halo, other=0.0).to(tl.float32)
        if RESUME:
            window_gamma_base = window_gamma_pointer + (batch * HELD * heads + head) + (start + HELD) * heads
            gamma_halo += tl.load(window_gamma_base + halo_row * heads, mask=is_held_halo, other=0.0)
        exists_halo = ((halo_row >= earliest - seen) & (halo_row < tl.minimum(last, 0))).to(tl.float32)
        # Gamma: window gates by reader and source
        window_halo = tl.where(
            (row[:, None] >= halo_row[None, :]) & (row[:, None] - halo_row[None, :] <= 15),
            live_2[:, None] * (gamma_halo * exists_halo)[None, :],
            0.0,
        )
        # P: source weights by read
        weights_halo = tl.dot(value_2.to(DOT), window_halo.to(DOT), input_precision=PRECISION)
        # (Q X^T) * P
        attention_halo = scores_halo * weights_halo
        # X = phi(k)
        features_halo = (
            monomial_weights[None, :] * take(k_halo, monomial_entry_0) * take(k_halo, monomial_entry_1)
        )
        # pred = phi(k) M*
        predictions_halo = tl.dot(features_halo.to(DOT), anchor_point.to(DOT), input_precision=PRECISION)
        v_halo = tl.load(
            v_block + halo_row[:, None] * v_row + value[None, :],
            mask=is_halo[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        if RESUME:
            window_v_base = window_v_pointer + (batch * HELD * heads + head) * V + (start + HELD) * heads * V
            v_halo += tl.load(
                window_v_base + halo_row[:, None] * (heads * V) + value[None, :],
                mask=is_held_halo[:, None] & is_value[None, :],
                other=0.0,
            )
        # E = dl/dpred at the block's M*
        errors_halo = predictions_halo - v_halo
        product_5 = tl.dot(attention_halo.to(DOT), errors_halo.to(DOT), input_precision=PRECISION)
        # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
        reads = read_decay[:, None] * product - product_3 - product_5
        y_block = y_pointer + (batch * tokens + start) * y_row + head * y_head
        tl.store(
            y_block + row[:, None] * y_row + value[None, :],
            reads,
            mask=live[:, None] & is_value[None, :],
        )
        if STORE_FINAL:
            if block == open_block:
                tl.store(
                    anchor_final_pointer + memory_index * (F * V) + monomial[:, None] * V + value[None, :],
                    anchor_point,
                    mask=is_monomial[:, None] & is_value[None, :],
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
        value_3 = until_end * lr
        # p_C: last row of P
        last_weights = tl.sum(value_3[:, None] * window, 0)
        product_6 = tl.dot(
            tl.trans((last_weights[:, None] * features).to(DOT)),
            errors.to(DOT),
            input_precision=PRECISION,
        )
        # p_C: last row of P
        last_weights_halo = tl.sum(value_3[:, None] * window_halo, 0)
        product_7 = tl.dot(
            tl.trans((last_weights_halo[:, None] * features_halo).to(DOT)),
            errors_halo.to(DOT),
            input_precision=PRECISION,
        )
        # M at the end
        memory_next = kept * memory - product_6 - product_7
        memory = memory_next
    if STORE_FINAL:
        tl.store(
            memory_final_pointer + memory_index * (F * V) + monomial[:, None] * V + value[None, :],
            memory,
            mask=is_monomial[:, None] & is_value[None, :],
        )
        if open_block >= blocks:
            tl.store(
                anchor_final_pointer + memory_index * (F * V) + monomial[:, None] * V + value[None, :],
                memory,
                mask=is_monomial[:, None] & is_value[None, :],
            )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def backward(
    anchor_pointer,
    coefficients_pointer,
    d_anchor_final_pointer,
    d_anchor_pointer,
    d_coefficients_0_blocks_pointer,
    d_coefficients_1_blocks_pointer,
    d_coefficients_2_blocks_pointer,
    d_gamma_halo_pointer,
    d_gamma_pointer,
    d_k_halo_pointer,
    d_k_pointer,
    d_log_alpha_pointer,
    d_lr_pointer,
    d_memory_final_pointer,
    d_memory_pointer,
    d_q_pointer,
    d_v_halo_pointer,
    d_v_pointer,
    d_window_gamma_pointer,
    d_window_k_pointer,
    d_window_v_pointer,
    d_y_pointer,
    gamma_pointer,
    k_pointer,
    length_pointer,
    log_alpha_pointer,
    lr_pointer,
    memory_blocks_pointer,
    monomial_entry_0_pointer,
    monomial_entry_1_pointer,
    monomial_scale_0_pointer,
    monomial_scale_1_pointer,
    monomial_scale_2_pointer,
    position_pointer,
    q_pointer,
    v_pointer,
    window_gamma_pointer,
    window_k_pointer,
    window_v_pointer,
    coefficients_columns,
    d_gamma_head,
    d_gamma_row,
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
    gamma_head,
    gamma_row,
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
    BLOCK_F: tl.constexpr,
    BLOCK_HALO: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
    DOT: tl.constexpr,
    F: tl.constexpr,
    HALO: tl.constexpr,
    HELD: tl.constexpr,
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
    halo_row = tl.arange(0, BLOCK_HALO)
    halo_row = tl.where(halo_row < HALO, halo_row - HALO, ROWS)  # negative: before the block
    feature = tl.arange(0, BLOCK_K)
    is_feature = feature < K
    monomial = tl.arange(0, BLOCK_F)
    is_monomial = monomial < F
    value = tl.arange(0, BLOCK_V)
    is_value = value < V
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    position = tl.load(position_pointer + batch) if RESUME else 0
    phase = position % ROWS
    seen = tl.minimum(position, HELD)  # rows of the window that hold tokens
    # the block that is still open after the call
    open_block = tl.cast((phase + end) // ROWS, tl.int64)
    coefficients = tl.load(coefficients_pointer + head * coefficients_columns + 0).to(tl.float32)
    coefficients_2 = tl.load(coefficients_pointer + head * coefficients_columns + 1).to(tl.float32)
    coefficients_3 = tl.load(coefficients_pointer + head * coefficients_columns + 2).to(tl.float32)
    anchor = (
        tl.load(
            anchor_pointer + memory_index * (F * V) + monomial[:, None] * V + value[None, :],
            mask=is_monomial[:, None] & is_value[None, :],
            other=0.0,
        )
        if RESUME
        else 0.0
    )
    d_memory_next = tl.zeros([BLOCK_F, BLOCK_V], dtype=tl.float32)
    if GRAD_FINAL:
        d_memory_next += tl.load(
            d_memory_final_pointer + memory_index * (F * V) + monomial[:, None] * V + value[None, :],
            mask=is_monomial[:, None] & is_value[None, :],
            other=0.0,
        )
        if open_block >= blocks:
            d_memory_next += tl.load(
                d_anchor_final_pointer + memory_index * (F * V) + monomial[:, None] * V + value[None, :],
                mask=is_monomial[:, None] & is_value[None, :],
                other=0.0,
            )
    for step in range(0, blocks):
        block = blocks - 1 - step
        slot = memory_index * blocks + block
        start = tl.cast(block, tl.int64) * ROWS - phase
        first = tl.cast(tl.maximum(-start, 0), tl.int32)
        last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
        live = (row >= first) & (row < last)
        is_held = (row < first) & (row >= first - HELD)
        earliest = tl.cast(tl.maximum(-start, -HALO), tl.int32)
        is_halo = (halo_row >= earliest) & (halo_row < tl.minimum(last, 0))
        is_held_halo = (halo_row < earliest) & (halo_row >= earliest - HELD)
        d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
        q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
        log_alpha_block = log_alpha_pointer + (batch * tokens + start) * log_alpha_row + head * log_alpha_head
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
        gamma_block = gamma_pointer + (batch * tokens + start) * gamma_row + head * gamma_head
        lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
        d_reads = tl.load(
            d_y_block + row[:, None] * d_y_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        monomial_scale_0 = tl.load(monomial_scale_0_pointer + monomial, mask=is_monomial, other=0)
        monomial_scale_1 = tl.load(monomial_scale_1_pointer + monomial, mask=is_monomial, other=0)
        monomial_scale_2 = tl.load(monomial_scale_2_pointer + monomial, mask=is_monomial, other=0)
        monomial_weights = (
            monomial_scale_0 * tl.sqrt(coefficients)
            + monomial_scale_1 * tl.sqrt(coefficients_2)
            + monomial_scale_2 * tl.sqrt(coefficients_3)
        )
        q = tl.load(
            q_block + row[:, None] * q_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        monomial_entry_0 = tl.load(monomial_entry_0_pointer + monomial, mask=is_monomial, other=0)
        factor = take(q, monomial_entry_0)
        value_2 = monomial_weights[None, :] * factor
        monomial_entry_1 = tl.load(monomial_entry_1_pointer + monomial, mask=is_monomial, other=0)
        factor_2 = take(q, monomial_entry_1)
        # phi(q)
        queries = value_2 * factor_2
        memory = tl.load(
            memory_blocks_pointer + slot * (F * V) + monomial[:, None] * V + value[None, :],
            mask=is_monomial[:, None] & is_value[None, :],
            other=0.0,
        )
        product = tl.dot(queries.to(DOT), memory.to(DOT), input_precision=PRECISION)
        d_read_decay = tl.sum(d_reads * product, 1)
        log_alpha = tl.load(log_alpha_block + row * log_alpha_row, mask=live, other=0.0).to(tl.float32)
        log_alpha_coarse, log_alpha_fine, log_alpha_reset = split_log(log_alpha)
        log_alpha_coarse_sum = tl.cumsum(log_alpha_coarse, 0)
        log_alpha_fine_sum = tl.cumsum(log_alpha_fine, 0)
        log_alpha_reset_sum = tl.cumsum(log_alpha_reset, 0)
        # a: decay of the memory since the block's start
        read_decay = tl.exp(
            tl.where(log_alpha_reset_sum == 0.0, log_alpha_coarse_sum + log_alpha_fine_sum, float("-inf"))
        )
        k_halo = tl.load(
            k_block + halo_row[:, None] * k_row + feature[None, :],
            mask=is_halo[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        if RESUME:
            window_k_base = window_k_pointer + (batch * HELD * heads + head) * K + (start + HELD) * heads * K
            k_halo += tl.load(
                window_k_base + halo_row[:, None] * (heads * K) + feature[None, :],
                mask=is_held_halo[:, None] & is_feature[None, :],
                other=0.0,
            )
        factor_3 = take(k_halo, monomial_entry_0)
        value_3 = monomial_weights[None, :] * factor_3
        factor_4 = take(k_halo, monomial_entry_1)
        # X = phi(k)
        features_halo = value_3 * factor_4
        # M*: the memory at the last border
        anchor_point = tl.where(block == 0, anchor, memory) if RESUME else memory
        # pred = phi(k) M*
        predictions_halo = tl.dot(features_halo.to(DOT), anchor_point.to(DOT), input_precision=PRECISION)
        v_halo = tl.load(
            v_block + halo_row[:, None] * v_row + value[None, :],
            mask=is_halo[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        if RESUME:
            window_v_base = window_v_pointer + (batch * HELD * heads + head) * V + (start + HELD) * heads * V
            v_halo += tl.load(
                window_v_base + halo_row[:, None] * (heads * V) + value[None, :],
                mask=is_held_halo[:, None] & is_value[None, :],
                other=0.0,
            )
        # E = dl/dpred at the block's M*
        errors_halo = predictions_halo - v_halo
        product_2 = tl.dot(errors_halo.to(DOT), tl.trans(d_memory_next.to(DOT)), input_precision=PRECISION)
        d_last_weights_halo = tl.sum(-(product_2 * features_halo), 1)
        live_2 = live.to(tl.float32)
        gamma_halo = tl.load(gamma_block + halo_row * gamma_row, mask=is_halo, other=0.0).to(tl.float32)
        if RESUME:
            window_gamma_base = window_gamma_pointer + (batch * HELD * heads + head) + (start + HELD) * heads
            gamma_halo += tl.load(window_gamma_base + halo_row * heads, mask=is_held_halo, other=0.0)
        exists_halo = ((halo_row >= earliest - seen) & (halo_row < tl.minimum(last, 0))).to(tl.float32)
        # Gamma: window gates by reader and source
        window_halo = tl.where(
            (row[:, None] >= halo_row[None, :]) & (row[:, None] - halo_row[None, :] <= 15),
            live_2[:, None] * (gamma_halo * exists_halo)[None, :],
            0.0,
        )
        product_3 = tl.sum(d_last_weights_halo[None, :] * window_halo, 1)
        k = tl.load(
            k_block + row[:, None] * k_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        if RESUME:
            window_k_base = window_k_pointer + (batch * HELD * heads + head) * K + (start + HELD) * heads * K
            k += tl.load(
                window_k_base + row[:, None] * (heads * K) + feature[None, :],
                mask=is_held[:, None] & is_feature[None, :],
                other=0.0,
            )
        factor_5 = take(k, monomial_entry_0)
        value_4 = monomial_weights[None, :] * factor_5
        factor_6 = take(k, monomial_entry_1)
        # X = phi(k)
        features = value_4 * factor_6
        # pred = phi(k) M*
        predictions = tl.dot(features.to(DOT), anchor_point.to(DOT), input_precision=PRECISION)
        v = tl.load(
            v_block + row[:, None] * v_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        if RESUME:
            window_v_base = window_v_pointer + (batch * HELD * heads + head) * V + (start + HELD) * heads * V
            v += tl.load(
                window_v_base + row[:, None] * (heads * V) + value[None, :],
                mask=is_held[:, None] & is_value[None, :],
                other=0.0,
            )
        # E = dl/dpred at the block's M*
        errors = predictions - v
        product_4 = tl.dot(errors.to(DOT), tl.trans(d_memory_next.to(DOT)), input_precision=PRECISION)
        d_last_weights = tl.sum(-(product_4 * features), 1)
        gamma = tl.load(gamma_block + row * gamma_row, mask=live, other=0.0).to(tl.float32)
        if RESUME:
            window_gamma_base = window_gamma_pointer + (batch * HELD * heads + head) + (start + HELD) * heads
            gamma += tl.load(window_gamma_base + row * heads, mask=is_held, other=0.0)
        exists = ((row >= first - seen) & (row < last)).to(tl.float32)
        # Gamma: window gates by reader and source
        window = tl.where(
            (row[:, None] >= row[None, :]) & (row[:, None] - row[None, :] <= 15),
            live_2[:, None] * (gamma * exists)[None, :],
            0.0,
        )
        product_5 = tl.sum(d_last_weights[None, :] * window, 1)
        combined = product_3 + product_5
        lr = tl.load(lr_block + row * lr_row, mask=live, other=0.0).to(tl.float32)
        until_end = tl.exp(
            tl.where(
                tl.sum(log_alpha_reset, 0) == log_alpha_reset_sum,
                tl.sum(log_alpha_coarse, 0)
                - log_alpha_coarse_sum
                + (tl.sum(log_alpha_fine, 0) - log_alpha_fine_sum),
                float("-inf"),
            )
        )
        running = tl.sum(tl.where(row[:, None] > row[None, :], (combined * lr * until_end)[None, :], 0.0), 1)
        product_6 = tl.dot(d_reads.to(DOT), tl.trans(errors_halo.to(DOT)), input_precision=PRECISION)
        product_7 = tl.dot(q.to(DOT), tl.trans(k_halo.to(DOT)), input_precision=PRECISION)
        # Q X^T
        scores_halo = coefficients_3 * (product_7 * product_7) + product_7 * coefficients_2 + coefficients
        value_5 = product_6 * scores_halo
        product_8 = tl.dot(value_5.to(DOT), tl.trans(window_halo.to(DOT)), input_precision=PRECISION)
        product_9 = tl.dot(d_reads.to(DOT), tl.trans(errors.to(DOT)), input_precision=PRECISION)
        product_10 = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
        # Q X^T
        scores = coefficients_3 * (product_10 * product_10) + product_10 * coefficients_2 + coefficients
        value_6 = product_9 * scores
        product_11 = tl.dot(value_6.to(DOT), tl.trans(window.to(DOT)), input_precision=PRECISION)
        combined_2 = -product_8 - product_11
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
        banded = tl.where(row[:, None] - row[None, :] >= 1, combined_2 * lr[None, :] * decay, 0.0)
        banded_2 = tl.where(row[:, None] >= row[None, :], tl.cumsum(banded, 1) - banded, 0.0)
        combined_3 = tl.cumsum(d_read_decay * read_decay, 0, reverse=True) + (running + tl.sum(banded_2, 0))
        d_kept = tl.sum(tl.sum(d_memory_next * memory, 0), 0)
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
        tl.store(d_log_alpha_block + row * d_log_alpha_row, combined_3 + d_kept * kept, mask=live)
        value_7 = decay * lr[None, :]
        # P: source weights by read
        weights_halo = tl.dot(value_7.to(DOT), window_halo.to(DOT), input_precision=PRECISION)
        value_8 = product_6 * weights_halo
        d_scores_halo = -value_8
        # P: source weights by read
        weights = tl.dot(value_7.to(DOT), window.to(DOT), input_precision=PRECISION)
        value_9 = product_9 * weights
        d_scores = -value_9
        value_10 = until_end * lr
        # p_C: last row of P
        last_weights_halo = tl.sum(value_10[:, None] * window_halo, 0)
        product_12 = tl.dot(
            (last_weights_halo[:, None] * features_halo).to(DOT),
            d_memory_next.to(DOT),
            input_precision=PRECISION,
        )
        # (Q X^T) * P
        attention_halo = scores_halo * weights_halo
        product_13 = tl.dot(tl.trans(attention_halo.to(DOT)), d_reads.to(DOT), input_precision=PRECISION)
        d_errors_halo = -product_12 - product_13
        product_14 = tl.dot(d_errors_halo.to(DOT), tl.trans(anchor_point.to(DOT)), input_precision=PRECISION)
        d_features_halo = product_14 - product_2 * last_weights_halo[:, None]
        value_11 = d_features_halo * factor_4
        # p_C: last row of P
        last_weights = tl.sum(value_10[:, None] * window, 0)
        product_15 = tl.dot(
            (last_weights[:, None] * features).to(DOT),
            d_memory_next.to(DOT),
            input_precision=PRECISION,
        )
        # (Q X^T) * P
        attention = scores * weights
        product_16 = tl.dot(tl.trans(attention.to(DOT)), d_reads.to(DOT), input_precision=PRECISION)
        d_errors = -product_15 - product_16
        product_17 = tl.dot(d_errors.to(DOT), tl.trans(anchor_point.to(DOT)), input_precision=PRECISION)
        d_features = product_17 - product_4 * last_weights[:, None]
        value_12 = d_features * factor_6
        value_13 = d_reads * read_decay[:, None]
        d_queries = tl.dot(value_13.to(DOT), tl.trans(memory.to(DOT)), input_precision=PRECISION)
        value_14 = d_queries * factor_2
        d_monomial_weights = (
            tl.sum(value_11 * factor_3, 0) + tl.sum(value_12 * factor_5, 0) + tl.sum(value_14 * factor, 0)
        )
        value_15 = d_monomial_weights * (0.5 * monomial_scale_0 * tl.rsqrt(coefficients))
        combined_4 = (
            tl.sum(tl.sum(d_scores_halo, 0), 0) + tl.sum(tl.sum(d_scores, 0), 0) + tl.sum(value_15, 0)
        )
        tl.store(d_coefficients_0_blocks_pointer + slot, combined_4)
        value_16 = d_monomial_weights * (0.5 * monomial_scale_1 * tl.rsqrt(coefficients_2))
        combined_5 = (
            tl.sum(tl.sum(-(value_8 * product_7), 0), 0)
            + tl.sum(tl.sum(-(value_9 * product_10), 0), 0)
            + tl.sum(value_16, 0)
        )
        tl.store(d_coefficients_1_blocks_pointer + slot, combined_5)
        total = tl.sum(tl.sum(-(value_8 * (product_7 * product_7)), 0), 0)
        total_2 = tl.sum(tl.sum(-(value_9 * (product_10 * product_10)), 0), 0)
        value_17 = d_monomial_weights * (0.5 * monomial_scale_2 * tl.rsqrt(coefficients_3))
        tl.store(d_coefficients_2_blocks_pointer + slot, total + total_2 + tl.sum(value_17, 0))
        place = feature + 1
        value_18 = tl.where(
            is_monomial[None, :],
            tl.where(
                is_feature[:, None],
                tl.where(monomial_entry_1[None, :] == place[:, None], 1.0, 0.0),
                0.0,
            ),
            0.0,
        )
        product_18 = tl.dot(
            (d_queries * value_2).to(DOT),
            tl.trans(value_18.to(DOT)),
            input_precision=PRECISION,
        )
        value_19 = tl.where(
            is_monomial[None, :],
            tl.where(
                is_feature[:, None],
                tl.where(monomial_entry_0[None, :] == place[:, None], 1.0, 0.0),
                0.0,
            ),
            0.0,
        )
        product_19 = tl.dot(
            (value_14 * monomial_weights[None, :]).to(DOT),
            tl.trans(value_19.to(DOT)),
            input_precision=PRECISION,
        )
        value_20 = value_8 * (2.0 * product_7 * coefficients_3 + coefficients_2)
        product_20 = tl.dot(value_20.to(DOT), k_halo.to(DOT), input_precision=PRECISION)
        value_21 = value_9 * (2.0 * product_10 * coefficients_3 + coefficients_2)
        product_21 = tl.dot(value_21.to(DOT), k.to(DOT), input_precision=PRECISION)
        d_q_block = d_q_pointer + (batch * tokens + start) * d_q_row + head * d_q_head
        tl.store(
            d_q_block + row[:, None] * d_q_row + feature[None, :],
            product_18 + product_19 - product_20 - product_21,
            mask=live[:, None] & is_feature[None, :],
        )
        product_22 = tl.dot(
            (d_features * value_4).to(DOT),
            tl.trans(value_18.to(DOT)),
            input_precision=PRECISION,
        )
        product_23 = tl.dot(
            (value_12 * monomial_weights[None, :]).to(DOT),
            tl.trans(value_19.to(DOT)),
            input_precision=PRECISION,
        )
        product_24 = tl.dot(tl.trans(value_21.to(DOT)), q.to(DOT), input_precision=PRECISION)
        d_k_block = d_k_pointer + (batch * tokens + start) * d_k_row + head * d_k_head
        tl.store(
            d_k_block + row[:, None] * d_k_row + feature[None, :],
            product_22 + product_23 - product_24,
            mask=live[:, None] & is_feature[None, :],
        )
        if RESUME:
            d_window_k_base = (
                d_window_k_pointer + (batch * HELD * heads + head) * K + (start + HELD) * heads * K
            )
            tl.store(
                d_window_k_base + row[:, None] * (heads * K) + feature[None, :],
                product_22 + product_23 - product_24,
                mask=is_held[:, None] & is_feature[None, :],
            )
        d_lr_block = d_lr_pointer + (batch * tokens + start) * d_lr_row + head * d_lr_head
        tl.store(d_lr_block + row * d_lr_row, combined * until_end + tl.sum(combined_2 * decay, 0), mask=live)
        product_25 = tl.dot(tl.trans(value_7.to(DOT)), value_6.to(DOT), input_precision=PRECISION)
        d_window = d_last_weights[None, :] * value_10[:, None] - product_25
        banded_3 = tl.where(
            (row[:, None] >= row[None, :]) & (row[:, None] - row[None, :] <= 15),
            d_window * live_2[:, None],
            0.0,
        )
        d_gamma_block = d_gamma_pointer + (batch * tokens + start) * d_gamma_row + head * d_gamma_head
        tl.store(d_gamma_block + row * d_gamma_row, tl.sum(banded_3, 0) * exists, mask=live)
        if RESUME:
            d_window_gamma_base = (
                d_window_gamma_pointer + (batch * HELD * heads + head) + (start + HELD) * heads
            )
            tl.store(d_window_gamma_base + row * heads, tl.sum(banded_3, 0) * exists, mask=is_held)
        d_v_block = d_v_pointer + (batch * tokens + start) * d_v_row + head * d_v_head
        tl.store(
            d_v_block + row[:, None] * d_v_row + value[None, :],
            -d_errors,
            mask=live[:, None] & is_value[None, :],
        )
        if RESUME:
            d_window_v_base = (
                d_window_v_pointer + (batch * HELD * heads + head) * V + (start + HELD) * heads * V
            )
            tl.store(
                d_window_v_base + row[:, None] * (heads * V) + value[None, :],
                -d_errors,
                mask=is_held[:, None] & is_value[None, :],
            )
        product_26 = tl.dot(
            (d_features_halo * value_3).to(DOT),
            tl.trans(value_18.to(DOT)),
            input_precision=PRECISION,
        )
        product_27 = tl.dot(
            (value_11 * monomial_weights[None, :]).to(DOT),
            tl.trans(value_19.to(DOT)),
            input_precision=PRECISION,
        )
        product_28 = tl.dot(tl.trans(value_20.to(DOT)), q.to(DOT), input_precision=PRECISION)
        tl.store(
            d_k_halo_pointer + slot * (HALO * K) + (halo_row + HALO)[:, None] * K + feature[None, :],
            product_26 + product_27 - product_28,
            mask=(halo_row < 0)[:, None] & is_feature[None, :],
        )
        product_29 = tl.dot(tl.trans(value_7.to(DOT)), value_5.to(DOT), input_precision=PRECISION)
        d_window_halo = d_last_weights_halo[None, :] * value_10[:, None] - product_29
        banded_4 = tl.where(
            (row[:, None] >= halo_row[None, :]) & (row[:, None] - halo_row[None, :] <= 15),
            d_window_halo * live_2[:, None],
            0.0,
        )
        tl.store(
            d_gamma_halo_pointer + slot * HALO + (halo_row + HALO),
            tl.sum(banded_4, 0) * exists_halo,
            mask=halo_row < 0,
        )
        tl.store(
            d_v_halo_pointer + slot * (HALO * V) + (halo_row + HALO)[:, None] * V + value[None, :],
            -d_errors_halo,
            mask=(halo_row < 0)[:, None] & is_value[None, :],
        )
        d_anchor = tl.zeros([BLOCK_F, BLOCK_V], dtype=tl.float32)
        if GRAD_FINAL:
            if block == open_block:
                d_anchor += tl.load(
                    d_anchor_final_pointer + memory_index * (F * V) + monomial[:, None] * V + value[None, :],
                    mask=is_monomial[:, None] & is_value[None, :],
                    other=0.0,
                )
        product_30 = tl.dot(tl.trans(features_halo.to(DOT)), d_errors_halo.to(DOT), input_precision=PRECISION)
        product_31 = tl.dot(tl.trans(features.to(DOT)), d_errors.to(DOT), input_precision=PRECISION)
        d_anchor_point = d_anchor + product_30 + product_31
        if RESUME:
            if block == 0:
                tl.store(
                    d_anchor_pointer + memory_index * (F * V) + monomial[:, None] * V + value[None, :],
                    d_anchor_point,
                    mask=is_monomial[:, None] & is_value[None, :],
                )
        at_border = tl.where(block == 0, 0.0, d_anchor_point) if RESUME else d_anchor_point
        product_32 = tl.dot(tl.trans(queries.to(DOT)), value_13.to(DOT), input_precision=PRECISION)
        d_memory_next = d_memory_next * kept + at_border + product_32
    if GRAD_INITIAL:
        tl.store(
            d_memory_pointer + memory_index * (F * V) + monomial[:, None] * V + value[None, :],
            d_memory_next,
            mask=is_monomial[:, None] & is_value[None, :],
        )

"""Kernels of the memory rule omeganet (fused).

Rule bb3048510b95, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
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
def forward(
    anchor_W1_final_pointer,
    anchor_W1_pointer,
    anchor_W2_final_pointer,
    anchor_W2_pointer,
    coefficients_pointer,
    gamma_pointer,
    k_pointer,
    length_pointer,
    log_alpha_pointer,
    lr_pointer,
    memory_W1_blocks_pointer,
    memory_W1_final_pointer,
    memory_W1_pointer,
    memory_W2_blocks_pointer,
    memory_W2_final_pointer,
    memory_W2_pointer,
    monomial_entry_0_pointer,
    monomial_entry_1_pointer,
    monomial_scale_0_pointer,
    monomial_scale_1_pointer,
    monomial_scale_2_pointer,
    origin_W1_pointer,
    origin_W2_pointer,
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
    BLOCK_D1: tl.constexpr,
    BLOCK_F: tl.constexpr,
    BLOCK_HALO: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
    D1: tl.constexpr,
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
    hidden_1 = tl.arange(0, BLOCK_D1)
    is_hidden_1 = hidden_1 < D1
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
    origin_W1 = tl.load(
        origin_W1_pointer + memory_index * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
        mask=is_monomial[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    anchor_W1 = (
        tl.load(
            anchor_W1_pointer + memory_index * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
            mask=is_monomial[:, None] & is_hidden_1[None, :],
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
    origin_W2 = tl.load(
        origin_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    memory_W1 = tl.zeros([BLOCK_F, BLOCK_D1], dtype=tl.float32)
    if HAS_INITIAL:
        memory_W1 += tl.load(
            memory_W1_pointer + memory_index * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
            mask=is_monomial[:, None] & is_hidden_1[None, :],
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
                memory_W1_blocks_pointer + slot * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
                memory_W1,
                mask=is_monomial[:, None] & is_hidden_1[None, :],
            )
        if SAVE:
            tl.store(
                memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                memory_W2,
                mask=is_hidden_1[:, None] & is_value[None, :],
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
        combined = memory_W1 - origin_W1
        product = tl.dot(queries.to(DOT), combined.to(DOT), input_precision=PRECISION)
        product_2 = tl.dot(queries.to(DOT), origin_W1.to(DOT), input_precision=PRECISION)
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
        product_3 = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
        # Q X^T
        scores_W1 = coefficients_3 * (product_3 * product_3) + product_3 * coefficients_2 + coefficients
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
        attention_W1 = scores_W1 * weights
        # X = phi(k)
        features = monomial_weights[None, :] * take(k, monomial_entry_0) * take(k, monomial_entry_1)
        # M*: the memory at the last border
        anchor_point_W1 = tl.where(block == 0, anchor_W1, memory_W1) if RESUME else memory_W1
        product_4 = tl.dot(features.to(DOT), anchor_point_W1.to(DOT), input_precision=PRECISION)
        value_3 = gelu(product_4)
        # M*: the memory at the last border
        anchor_point_W2 = tl.where(block == 0, anchor_W2, memory_W2) if RESUME else memory_W2
        product_5 = tl.dot(value_3.to(DOT), anchor_point_W2.to(DOT), input_precision=PRECISION)
        # pred = f(M*, phi(k))
        predictions = product_5 + k
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
        product_6 = tl.dot(errors.to(DOT), tl.trans(anchor_point_W2.to(DOT)), input_precision=PRECISION)
        # the error that reaches the output of W1
        errors_W1 = product_6 * tl.where(is_hidden_1[None, :], gelu_slope(product_4), 0.0)
        product_7 = tl.dot(attention_W1.to(DOT), errors_W1.to(DOT), input_precision=PRECISION)
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
        product_8 = tl.dot(q.to(DOT), tl.trans(k_halo.to(DOT)), input_precision=PRECISION)
        # Q X^T
        scores_W1_halo = coefficients_3 * (product_8 * product_8) + product_8 * coefficients_2 + coefficients
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
        attention_W1_halo = scores_W1_halo * weights_halo
        # X = phi(k)
        features_halo = (
            monomial_weights[None, :] * take(k_halo, monomial_entry_0) * take(k_halo, monomial_entry_1)
        )
        product_9 = tl.dot(features_halo.to(DOT), anchor_point_W1.to(DOT), input_precision=PRECISION)
        value_4 = gelu(product_9)
        product_10 = tl.dot(value_4.to(DOT), anchor_point_W2.to(DOT), input_precision=PRECISION)
        # pred = f(M*, phi(k))
        predictions_halo = product_10 + k_halo
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
        product_11 = tl.dot(errors_halo.to(DOT), tl.trans(anchor_point_W2.to(DOT)), input_precision=PRECISION)
        # the error that reaches the output of W1
        errors_W1_halo = product_11 * tl.where(is_hidden_1[None, :], gelu_slope(product_9), 0.0)
        product_12 = tl.dot(attention_W1_halo.to(DOT), errors_W1_halo.to(DOT), input_precision=PRECISION)
        combined_2 = read_decay[:, None] * product + product_2 - product_7 - product_12
        value_5 = gelu(combined_2)
        combined_3 = memory_W2 - origin_W2
        product_13 = tl.dot(value_5.to(DOT), combined_3.to(DOT), input_precision=PRECISION)
        product_14 = tl.dot(value_5.to(DOT), origin_W2.to(DOT), input_precision=PRECISION)
        # Q X^T
        scores_W2 = tl.dot(value_5.to(DOT), tl.trans(value_3.to(DOT)), input_precision=PRECISION)
        # (Q X^T) * P
        attention_W2 = scores_W2 * weights
        product_15 = tl.dot(attention_W2.to(DOT), errors.to(DOT), input_precision=PRECISION)
        # Q X^T
        scores_W2_halo = tl.dot(value_5.to(DOT), tl.trans(value_4.to(DOT)), input_precision=PRECISION)
        # (Q X^T) * P
        attention_W2_halo = scores_W2_halo * weights_halo
        product_16 = tl.dot(attention_W2_halo.to(DOT), errors_halo.to(DOT), input_precision=PRECISION)
        combined_4 = read_decay[:, None] * product_13 + product_14 - product_15 - product_16
        # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
        reads = combined_4 + q
        y_block = y_pointer + (batch * tokens + start) * y_row + head * y_head
        tl.store(
            y_block + row[:, None] * y_row + value[None, :],
            reads,
            mask=live[:, None] & is_value[None, :],
        )
        if STORE_FINAL:
            if block == open_block:
                tl.store(
                    anchor_W1_final_pointer
                    + memory_index * (F * D1)
                    + monomial[:, None] * D1
                    + hidden_1[None, :],
                    anchor_point_W1,
                    mask=is_monomial[:, None] & is_hidden_1[None, :],
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
        value_6 = until_end * lr
        # p_C: last row of P
        last_weights = tl.sum(value_6[:, None] * window, 0)
        product_17 = tl.dot(
            tl.trans((last_weights[:, None] * features).to(DOT)),
            errors_W1.to(DOT),
            input_precision=PRECISION,
        )
        # p_C: last row of P
        last_weights_halo = tl.sum(value_6[:, None] * window_halo, 0)
        product_18 = tl.dot(
            tl.trans((last_weights_halo[:, None] * features_halo).to(DOT)),
            errors_W1_halo.to(DOT),
            input_precision=PRECISION,
        )
        # M at the end
        memory_W1_next = kept * combined + origin_W1 - product_17 - product_18
        product_19 = tl.dot(
            tl.trans((last_weights[:, None] * value_3).to(DOT)),
            errors.to(DOT),
            input_precision=PRECISION,
        )
        product_20 = tl.dot(
            tl.trans((last_weights_halo[:, None] * value_4).to(DOT)),
            errors_halo.to(DOT),
            input_precision=PRECISION,
        )
        # M at the end
        memory_W2_next = kept * combined_3 + origin_W2 - product_19 - product_20
        memory_W1 = memory_W1_next
        memory_W2 = memory_W2_next
    if STORE_FINAL:
        tl.store(
            memory_W1_final_pointer + memory_index * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
            memory_W1,
            mask=is_monomial[:, None] & is_hidden_1[None, :],
        )
        tl.store(
            memory_W2_final_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            memory_W2,
            mask=is_hidden_1[:, None] & is_value[None, :],
        )
        if open_block >= blocks:
            tl.store(
                anchor_W1_final_pointer
                + memory_index * (F * D1)
                + monomial[:, None] * D1
                + hidden_1[None, :],
                memory_W1,
                mask=is_monomial[:, None] & is_hidden_1[None, :],
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
    coefficients_pointer,
    d_anchor_W1_final_pointer,
    d_anchor_W1_pointer,
    d_anchor_W2_final_pointer,
    d_anchor_W2_pointer,
    d_coefficients_0_blocks_pointer,
    d_coefficients_1_blocks_pointer,
    d_coefficients_2_blocks_pointer,
    d_gamma_halo_pointer,
    d_gamma_pointer,
    d_k_halo_pointer,
    d_k_pointer,
    d_log_alpha_pointer,
    d_lr_pointer,
    d_memory_W1_final_pointer,
    d_memory_W1_pointer,
    d_memory_W2_final_pointer,
    d_memory_W2_pointer,
    d_origin_W1_pointer,
    d_origin_W2_pointer,
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
    BLOCK_D1: tl.constexpr,
    BLOCK_F: tl.constexpr,
    BLOCK_HALO: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
    D1: tl.constexpr,
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
    hidden_1 = tl.arange(0, BLOCK_D1)
    is_hidden_1 = hidden_1 < D1
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
    origin_W1 = tl.load(
        origin_W1_pointer + memory_index * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
        mask=is_monomial[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    anchor_W1 = (
        tl.load(
            anchor_W1_pointer + memory_index * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
            mask=is_monomial[:, None] & is_hidden_1[None, :],
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
    origin_W2 = tl.load(
        origin_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    d_memory_W1_next = tl.zeros([BLOCK_F, BLOCK_D1], dtype=tl.float32)
    if GRAD_FINAL:
        d_memory_W1_next += tl.load(
            d_memory_W1_final_pointer + memory_index * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
            mask=is_monomial[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        if open_block >= blocks:
            d_memory_W1_next += tl.load(
                d_anchor_W1_final_pointer
                + memory_index * (F * D1)
                + monomial[:, None] * D1
                + hidden_1[None, :],
                mask=is_monomial[:, None] & is_hidden_1[None, :],
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
    d_origin_W1 = tl.zeros([BLOCK_F, BLOCK_D1], dtype=tl.float32)
    d_origin_W2 = tl.zeros([BLOCK_D1, BLOCK_V], dtype=tl.float32)
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
        log_alpha_block = log_alpha_pointer + (batch * tokens + start) * log_alpha_row + head * log_alpha_head
        q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
        gamma_block = gamma_pointer + (batch * tokens + start) * gamma_row + head * gamma_head
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
        d_reads = tl.load(
            d_y_block + row[:, None] * d_y_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
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
        factor = take(q, monomial_entry_0)
        value_2 = monomial_weights[None, :] * factor
        monomial_entry_1 = tl.load(monomial_entry_1_pointer + monomial, mask=is_monomial, other=0)
        factor_2 = take(q, monomial_entry_1)
        # phi(q)
        queries = value_2 * factor_2
        memory_W1 = tl.load(
            memory_W1_blocks_pointer + slot * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
            mask=is_monomial[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        combined = memory_W1 - origin_W1
        product = tl.dot(queries.to(DOT), combined.to(DOT), input_precision=PRECISION)
        product_2 = tl.dot(queries.to(DOT), origin_W1.to(DOT), input_precision=PRECISION)
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
        product_3 = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
        # Q X^T
        scores_W1 = coefficients_3 * (product_3 * product_3) + product_3 * coefficients_2 + coefficients
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
        value_3 = decay * lr[None, :]
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
        weights = tl.dot(value_3.to(DOT), window.to(DOT), input_precision=PRECISION)
        # (Q X^T) * P
        attention_W1 = scores_W1 * weights
        factor_3 = take(k, monomial_entry_0)
        value_4 = monomial_weights[None, :] * factor_3
        factor_4 = take(k, monomial_entry_1)
        # X = phi(k)
        features = value_4 * factor_4
        # M*: the memory at the last border
        anchor_point_W1 = tl.where(block == 0, anchor_W1, memory_W1) if RESUME else memory_W1
        product_4 = tl.dot(features.to(DOT), anchor_point_W1.to(DOT), input_precision=PRECISION)
        value_5 = gelu(product_4)
        memory_W2 = tl.load(
            memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        # M*: the memory at the last border
        anchor_point_W2 = tl.where(block == 0, anchor_W2, memory_W2) if RESUME else memory_W2
        product_5 = tl.dot(value_5.to(DOT), anchor_point_W2.to(DOT), input_precision=PRECISION)
        # pred = f(M*, phi(k))
        predictions = product_5 + k
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
        product_6 = tl.dot(errors.to(DOT), tl.trans(anchor_point_W2.to(DOT)), input_precision=PRECISION)
        value_6 = tl.where(is_hidden_1[None, :], gelu_slope(product_4), 0.0)
        # the error that reaches the output of W1
        errors_W1 = product_6 * value_6
        product_7 = tl.dot(attention_W1.to(DOT), errors_W1.to(DOT), input_precision=PRECISION)
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
        product_8 = tl.dot(q.to(DOT), tl.trans(k_halo.to(DOT)), input_precision=PRECISION)
        # Q X^T
        scores_W1_halo = coefficients_3 * (product_8 * product_8) + product_8 * coefficients_2 + coefficients
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
        weights_halo = tl.dot(value_3.to(DOT), window_halo.to(DOT), input_precision=PRECISION)
        # (Q X^T) * P
        attention_W1_halo = scores_W1_halo * weights_halo
        factor_5 = take(k_halo, monomial_entry_0)
        value_7 = monomial_weights[None, :] * factor_5
        factor_6 = take(k_halo, monomial_entry_1)
        # X = phi(k)
        features_halo = value_7 * factor_6
        product_9 = tl.dot(features_halo.to(DOT), anchor_point_W1.to(DOT), input_precision=PRECISION)
        value_8 = gelu(product_9)
        product_10 = tl.dot(value_8.to(DOT), anchor_point_W2.to(DOT), input_precision=PRECISION)
        # pred = f(M*, phi(k))
        predictions_halo = product_10 + k_halo
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
        product_11 = tl.dot(errors_halo.to(DOT), tl.trans(anchor_point_W2.to(DOT)), input_precision=PRECISION)
        value_9 = tl.where(is_hidden_1[None, :], gelu_slope(product_9), 0.0)
        # the error that reaches the output of W1
        errors_W1_halo = product_11 * value_9
        product_12 = tl.dot(attention_W1_halo.to(DOT), errors_W1_halo.to(DOT), input_precision=PRECISION)
        combined_2 = read_decay[:, None] * product + product_2 - product_7 - product_12
        value_10 = gelu(combined_2)
        combined_3 = memory_W2 - origin_W2
        product_13 = tl.dot(value_10.to(DOT), combined_3.to(DOT), input_precision=PRECISION)
        product_14 = tl.dot(d_reads.to(DOT), tl.trans(origin_W2.to(DOT)), input_precision=PRECISION)
        value_11 = d_reads * read_decay[:, None]
        product_15 = tl.dot(value_11.to(DOT), tl.trans(combined_3.to(DOT)), input_precision=PRECISION)
        product_16 = tl.dot(d_reads.to(DOT), tl.trans(errors_halo.to(DOT)), input_precision=PRECISION)
        value_12 = product_16 * weights_halo
        product_17 = tl.dot(value_12.to(DOT), value_8.to(DOT), input_precision=PRECISION)
        product_18 = tl.dot(d_reads.to(DOT), tl.trans(errors.to(DOT)), input_precision=PRECISION)
        value_13 = product_18 * weights
        product_19 = tl.dot(value_13.to(DOT), value_5.to(DOT), input_precision=PRECISION)
        value_14 = (product_14 + product_15 - product_17 - product_19) * tl.where(
            is_hidden_1[None, :],
            gelu_slope(combined_2),
            0.0,
        )
        d_read_decay = tl.sum(d_reads * product_13, 1) + tl.sum(value_14 * product, 1)
        product_20 = tl.dot(
            errors_halo.to(DOT),
            tl.trans(d_memory_W2_next.to(DOT)),
            input_precision=PRECISION,
        )
        product_21 = tl.dot(
            errors_W1_halo.to(DOT),
            tl.trans(d_memory_W1_next.to(DOT)),
            input_precision=PRECISION,
        )
        d_last_weights_halo = tl.sum(-(product_20 * value_8), 1) + tl.sum(-(product_21 * features_halo), 1)
        product_22 = tl.sum(d_last_weights_halo[None, :] * window_halo, 1)
        product_23 = tl.dot(errors.to(DOT), tl.trans(d_memory_W2_next.to(DOT)), input_precision=PRECISION)
        product_24 = tl.dot(errors_W1.to(DOT), tl.trans(d_memory_W1_next.to(DOT)), input_precision=PRECISION)
        d_last_weights = tl.sum(-(product_23 * value_5), 1) + tl.sum(-(product_24 * features), 1)
        product_25 = tl.sum(d_last_weights[None, :] * window, 1)
        combined_4 = product_22 + product_25
        until_end = tl.exp(
            tl.where(
                tl.sum(log_alpha_reset, 0) == log_alpha_reset_sum,
                tl.sum(log_alpha_coarse, 0)
                - log_alpha_coarse_sum
                + (tl.sum(log_alpha_fine, 0) - log_alpha_fine_sum),
                float("-inf"),
            )
        )
        running = tl.sum(
            tl.where(row[:, None] > row[None, :], (combined_4 * lr * until_end)[None, :], 0.0),
            1,
        )
        # Q X^T
        scores_W2_halo = tl.dot(value_10.to(DOT), tl.trans(value_8.to(DOT)), input_precision=PRECISION)
        product_26 = tl.dot(value_14.to(DOT), tl.trans(errors_W1_halo.to(DOT)), input_precision=PRECISION)
        d_weights_halo = -(product_16 * scores_W2_halo) - product_26 * scores_W1_halo
        product_27 = tl.dot(d_weights_halo.to(DOT), tl.trans(window_halo.to(DOT)), input_precision=PRECISION)
        # Q X^T
        scores_W2 = tl.dot(value_10.to(DOT), tl.trans(value_5.to(DOT)), input_precision=PRECISION)
        product_28 = tl.dot(value_14.to(DOT), tl.trans(errors_W1.to(DOT)), input_precision=PRECISION)
        d_weights = -(product_18 * scores_W2) - product_28 * scores_W1
        product_29 = tl.dot(d_weights.to(DOT), tl.trans(window.to(DOT)), input_precision=PRECISION)
        combined_5 = product_27 + product_29
        banded = tl.where(row[:, None] - row[None, :] >= 1, combined_5 * lr[None, :] * decay, 0.0)
        banded_2 = tl.where(row[:, None] >= row[None, :], tl.cumsum(banded, 1) - banded, 0.0)
        combined_6 = tl.cumsum(d_read_decay * read_decay, 0, reverse=True) + (running + tl.sum(banded_2, 0))
        d_kept = tl.sum(tl.sum(d_memory_W2_next * combined_3, 0), 0) + tl.sum(
            tl.sum(d_memory_W1_next * combined, 0),
            0,
        )
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
        tl.store(d_log_alpha_block + row * d_log_alpha_row, combined_6 + d_kept * kept, mask=live)
        value_15 = product_26 * weights_halo
        d_scores_W1_halo = -value_15
        value_16 = product_28 * weights
        d_scores_W1 = -value_16
        value_17 = until_end * lr
        # p_C: last row of P
        last_weights_halo = tl.sum(value_17[:, None] * window_halo, 0)
        product_30 = tl.dot(
            (last_weights_halo[:, None] * features_halo).to(DOT),
            d_memory_W1_next.to(DOT),
            input_precision=PRECISION,
        )
        product_31 = tl.dot(tl.trans(attention_W1_halo.to(DOT)), value_14.to(DOT), input_precision=PRECISION)
        d_errors_W1_halo = -product_30 - product_31
        value_18 = tl.where(
            is_hidden_1[None, :],
            0.3989422804014327 * (2.0 - product_9 * product_9) * tl.exp(-0.5 * (product_9 * product_9)),
            0.0,
        )
        value_19 = d_errors_W1_halo * value_9
        product_32 = tl.dot(value_19.to(DOT), anchor_point_W2.to(DOT), input_precision=PRECISION)
        product_33 = tl.dot(
            (last_weights_halo[:, None] * value_8).to(DOT),
            d_memory_W2_next.to(DOT),
            input_precision=PRECISION,
        )
        # (Q X^T) * P
        attention_W2_halo = scores_W2_halo * weights_halo
        product_34 = tl.dot(tl.trans(attention_W2_halo.to(DOT)), d_reads.to(DOT), input_precision=PRECISION)
        d_errors_halo = product_32 - product_33 - product_34
        product_35 = tl.dot(
            d_errors_halo.to(DOT),
            tl.trans(anchor_point_W2.to(DOT)),
            input_precision=PRECISION,
        )
        product_36 = tl.dot(tl.trans(value_12.to(DOT)), value_10.to(DOT), input_precision=PRECISION)
        combined_7 = product_35 - product_20 * last_weights_halo[:, None] - product_36
        combined_8 = d_errors_W1_halo * product_11 * value_18 + combined_7 * value_9
        product_37 = tl.dot(combined_8.to(DOT), tl.trans(anchor_point_W1.to(DOT)), input_precision=PRECISION)
        d_features_halo = product_37 - product_21 * last_weights_halo[:, None]
        value_20 = d_features_halo * factor_6
        # p_C: last row of P
        last_weights = tl.sum(value_17[:, None] * window, 0)
        product_38 = tl.dot(
            (last_weights[:, None] * features).to(DOT),
            d_memory_W1_next.to(DOT),
            input_precision=PRECISION,
        )
        product_39 = tl.dot(tl.trans(attention_W1.to(DOT)), value_14.to(DOT), input_precision=PRECISION)
        d_errors_W1 = -product_38 - product_39
        value_21 = tl.where(
            is_hidden_1[None, :],
            0.3989422804014327 * (2.0 - product_4 * product_4) * tl.exp(-0.5 * (product_4 * product_4)),
            0.0,
        )
        value_22 = d_errors_W1 * value_6
        product_40 = tl.dot(value_22.to(DOT), anchor_point_W2.to(DOT), input_precision=PRECISION)
        product_41 = tl.dot(
            (last_weights[:, None] * value_5).to(DOT),
            d_memory_W2_next.to(DOT),
            input_precision=PRECISION,
        )
        # (Q X^T) * P
        attention_W2 = scores_W2 * weights
        product_42 = tl.dot(tl.trans(attention_W2.to(DOT)), d_reads.to(DOT), input_precision=PRECISION)
        d_errors = product_40 - product_41 - product_42
        product_43 = tl.dot(d_errors.to(DOT), tl.trans(anchor_point_W2.to(DOT)), input_precision=PRECISION)
        product_44 = tl.dot(tl.trans(value_13.to(DOT)), value_10.to(DOT), input_precision=PRECISION)
        combined_9 = product_43 - product_23 * last_weights[:, None] - product_44
        combined_10 = d_errors_W1 * product_6 * value_21 + combined_9 * value_6
        product_45 = tl.dot(combined_10.to(DOT), tl.trans(anchor_point_W1.to(DOT)), input_precision=PRECISION)
        d_features = product_45 - product_24 * last_weights[:, None]
        value_23 = d_features * factor_4
        product_46 = tl.dot(value_14.to(DOT), tl.trans(origin_W1.to(DOT)), input_precision=PRECISION)
        value_24 = value_14 * read_decay[:, None]
        product_47 = tl.dot(value_24.to(DOT), tl.trans(combined.to(DOT)), input_precision=PRECISION)
        d_queries = product_46 + product_47
        value_25 = d_queries * factor_2
        d_monomial_weights = (
            tl.sum(value_20 * factor_5, 0) + tl.sum(value_23 * factor_3, 0) + tl.sum(value_25 * factor, 0)
        )
        value_26 = d_monomial_weights * (0.5 * monomial_scale_0 * tl.rsqrt(coefficients))
        combined_11 = (
            tl.sum(tl.sum(d_scores_W1_halo, 0), 0) + tl.sum(tl.sum(d_scores_W1, 0), 0) + tl.sum(value_26, 0)
        )
        tl.store(d_coefficients_0_blocks_pointer + slot, combined_11)
        value_27 = d_monomial_weights * (0.5 * monomial_scale_1 * tl.rsqrt(coefficients_2))
        combined_12 = (
            tl.sum(tl.sum(-(value_15 * product_8), 0), 0)
            + tl.sum(tl.sum(-(value_16 * product_3), 0), 0)
            + tl.sum(value_27, 0)
        )
        tl.store(d_coefficients_1_blocks_pointer + slot, combined_12)
        total = tl.sum(tl.sum(-(value_15 * (product_8 * product_8)), 0), 0)
        total_2 = tl.sum(tl.sum(-(value_16 * (product_3 * product_3)), 0), 0)
        value_28 = d_monomial_weights * (0.5 * monomial_scale_2 * tl.rsqrt(coefficients_3))
        tl.store(d_coefficients_2_blocks_pointer + slot, total + total_2 + tl.sum(value_28, 0))
        place = feature + 1
        value_29 = tl.where(
            is_monomial[None, :],
            tl.where(
                is_feature[:, None],
                tl.where(monomial_entry_1[None, :] == place[:, None], 1.0, 0.0),
                0.0,
            ),
            0.0,
        )
        product_48 = tl.dot(
            (d_queries * value_2).to(DOT),
            tl.trans(value_29.to(DOT)),
            input_precision=PRECISION,
        )
        value_30 = tl.where(
            is_monomial[None, :],
            tl.where(
                is_feature[:, None],
                tl.where(monomial_entry_0[None, :] == place[:, None], 1.0, 0.0),
                0.0,
            ),
            0.0,
        )
        product_49 = tl.dot(
            (value_25 * monomial_weights[None, :]).to(DOT),
            tl.trans(value_30.to(DOT)),
            input_precision=PRECISION,
        )
        value_31 = value_15 * (2.0 * product_8 * coefficients_3 + coefficients_2)
        product_50 = tl.dot(value_31.to(DOT), k_halo.to(DOT), input_precision=PRECISION)
        value_32 = value_16 * (2.0 * product_3 * coefficients_3 + coefficients_2)
        product_51 = tl.dot(value_32.to(DOT), k.to(DOT), input_precision=PRECISION)
        d_q_block = d_q_pointer + (batch * tokens + start) * d_q_row + head * d_q_head
        tl.store(
            d_q_block + row[:, None] * d_q_row + feature[None, :],
            d_reads + product_48 + product_49 - product_50 - product_51,
            mask=live[:, None] & is_feature[None, :],
        )
        product_52 = tl.dot(
            (d_features * value_4).to(DOT),
            tl.trans(value_29.to(DOT)),
            input_precision=PRECISION,
        )
        product_53 = tl.dot(
            (value_23 * monomial_weights[None, :]).to(DOT),
            tl.trans(value_30.to(DOT)),
            input_precision=PRECISION,
        )
        product_54 = tl.dot(tl.trans(value_32.to(DOT)), q.to(DOT), input_precision=PRECISION)
        d_k_block = d_k_pointer + (batch * tokens + start) * d_k_row + head * d_k_head
        tl.store(
            d_k_block + row[:, None] * d_k_row + feature[None, :],
            d_errors + product_52 + product_53 - product_54,
            mask=live[:, None] & is_feature[None, :],
        )
        if RESUME:
            d_window_k_base = (
                d_window_k_pointer + (batch * HELD * heads + head) * K + (start + HELD) * heads * K
            )
            tl.store(
                d_window_k_base + row[:, None] * (heads * K) + feature[None, :],
                d_errors + product_52 + product_53 - product_54,
                mask=is_held[:, None] & is_feature[None, :],
            )
        d_lr_block = d_lr_pointer + (batch * tokens + start) * d_lr_row + head * d_lr_head
        tl.store(
            d_lr_block + row * d_lr_row,
            combined_4 * until_end + tl.sum(combined_5 * decay, 0),
            mask=live,
        )
        product_55 = tl.dot(tl.trans(value_3.to(DOT)), d_weights.to(DOT), input_precision=PRECISION)
        d_window = d_last_weights[None, :] * value_17[:, None] + product_55
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
        product_56 = tl.dot(
            (d_features_halo * value_7).to(DOT),
            tl.trans(value_29.to(DOT)),
            input_precision=PRECISION,
        )
        product_57 = tl.dot(
            (value_20 * monomial_weights[None, :]).to(DOT),
            tl.trans(value_30.to(DOT)),
            input_precision=PRECISION,
        )
        product_58 = tl.dot(tl.trans(value_31.to(DOT)), q.to(DOT), input_precision=PRECISION)
        tl.store(
            d_k_halo_pointer + slot * (HALO * K) + (halo_row + HALO)[:, None] * K + feature[None, :],
            d_errors_halo + product_56 + product_57 - product_58,
            mask=(halo_row < 0)[:, None] & is_feature[None, :],
        )
        product_59 = tl.dot(tl.trans(value_3.to(DOT)), d_weights_halo.to(DOT), input_precision=PRECISION)
        d_window_halo = d_last_weights_halo[None, :] * value_17[:, None] + product_59
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
        product_60 = tl.dot(tl.trans(queries.to(DOT)), value_14.to(DOT), input_precision=PRECISION)
        product_61 = tl.dot(tl.trans(queries.to(DOT)), value_24.to(DOT), input_precision=PRECISION)
        combined_13 = d_memory_W1_next * kept + product_61
        d_origin_W1 += d_memory_W1_next + product_60 - combined_13
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
        product_62 = tl.dot(tl.trans(features_halo.to(DOT)), combined_8.to(DOT), input_precision=PRECISION)
        product_63 = tl.dot(tl.trans(features.to(DOT)), combined_10.to(DOT), input_precision=PRECISION)
        d_anchor_point_W1 = d_anchor_W1 + product_62 + product_63
        if RESUME:
            if block == 0:
                tl.store(
                    d_anchor_W1_pointer
                    + memory_index * (F * D1)
                    + monomial[:, None] * D1
                    + hidden_1[None, :],
                    d_anchor_point_W1,
                    mask=is_monomial[:, None] & is_hidden_1[None, :],
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
        product_64 = tl.dot(tl.trans(value_19.to(DOT)), errors_halo.to(DOT), input_precision=PRECISION)
        product_65 = tl.dot(tl.trans(value_8.to(DOT)), d_errors_halo.to(DOT), input_precision=PRECISION)
        product_66 = tl.dot(tl.trans(value_22.to(DOT)), errors.to(DOT), input_precision=PRECISION)
        product_67 = tl.dot(tl.trans(value_5.to(DOT)), d_errors.to(DOT), input_precision=PRECISION)
        d_anchor_point_W2 = d_anchor_W2 + product_64 + product_65 + product_66 + product_67
        if RESUME:
            if block == 0:
                tl.store(
                    d_anchor_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                    d_anchor_point_W2,
                    mask=is_hidden_1[:, None] & is_value[None, :],
                )
        product_68 = tl.dot(tl.trans(value_10.to(DOT)), d_reads.to(DOT), input_precision=PRECISION)
        product_69 = tl.dot(tl.trans(value_10.to(DOT)), value_11.to(DOT), input_precision=PRECISION)
        combined_14 = d_memory_W2_next * kept + product_69
        d_origin_W2 += d_memory_W2_next + product_68 - combined_14
        at_border = tl.where(block == 0, 0.0, d_anchor_point_W1) if RESUME else d_anchor_point_W1
        at_border_2 = tl.where(block == 0, 0.0, d_anchor_point_W2) if RESUME else d_anchor_point_W2
        d_memory_W1_next = at_border + combined_13
        d_memory_W2_next = combined_14 + at_border_2
    if GRAD_INITIAL:
        tl.store(
            d_memory_W1_pointer + memory_index * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
            d_memory_W1_next,
            mask=is_monomial[:, None] & is_hidden_1[None, :],
        )
        tl.store(
            d_memory_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            d_memory_W2_next,
            mask=is_hidden_1[:, None] & is_value[None, :],
        )
    tl.store(
        d_origin_W1_pointer + memory_index * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
        d_origin_W1,
        mask=is_monomial[:, None] & is_hidden_1[None, :],
    )
    tl.store(
        d_origin_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        d_origin_W2,
        mask=is_hidden_1[:, None] & is_value[None, :],
    )

"""Kernels of the memory rule swla (fused).

Rule 59b9acc3a963, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
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
    gamma_pointer,
    k_pointer,
    length_pointer,
    log_alpha_pointer,
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
    gamma_head,
    gamma_row,
    k_head,
    k_row,
    log_alpha_head,
    log_alpha_row,
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
    phase = 0
    seen = tl.minimum(position, HELD)  # rows of the window that hold tokens
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
        monomial_weights = monomial_scale_0 + monomial_scale_1 + 0.7071067811865476 * monomial_scale_2
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
        scores = 0.5 * (product_2 * product_2) + product_2 + 1.0
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
        weights = tl.dot(decay.to(DOT), window.to(DOT), input_precision=PRECISION)
        # (Q X^T) * P
        attention = scores * weights
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
        product_3 = tl.dot(attention.to(DOT), v.to(DOT), input_precision=PRECISION)
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
        scores_halo = 0.5 * (product_4 * product_4) + product_4 + 1.0
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
        weights_halo = tl.dot(decay.to(DOT), window_halo.to(DOT), input_precision=PRECISION)
        # (Q X^T) * P
        attention_halo = scores_halo * weights_halo
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
        product_5 = tl.dot(attention_halo.to(DOT), v_halo.to(DOT), input_precision=PRECISION)
        # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
        reads = read_decay[:, None] * product + product_3 + product_5
        y_block = y_pointer + (batch * tokens + start) * y_row + head * y_head
        tl.store(
            y_block + row[:, None] * y_row + value[None, :],
            reads,
            mask=live[:, None] & is_value[None, :],
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
        # p_C: last row of P
        last_weights = tl.sum(until_end[:, None] * window, 0)
        # X = phi(k)
        features = monomial_weights[None, :] * take(k, monomial_entry_0) * take(k, monomial_entry_1)
        product_6 = tl.dot(
            tl.trans((last_weights[:, None] * features).to(DOT)),
            v.to(DOT),
            input_precision=PRECISION,
        )
        # p_C: last row of P
        last_weights_halo = tl.sum(until_end[:, None] * window_halo, 0)
        # X = phi(k)
        features_halo = (
            monomial_weights[None, :] * take(k_halo, monomial_entry_0) * take(k_halo, monomial_entry_1)
        )
        product_7 = tl.dot(
            tl.trans((last_weights_halo[:, None] * features_halo).to(DOT)),
            v_halo.to(DOT),
            input_precision=PRECISION,
        )
        # M at the end
        memory_next = kept * memory + product_6 + product_7
        memory = memory_next
    if STORE_FINAL:
        tl.store(
            memory_final_pointer + memory_index * (F * V) + monomial[:, None] * V + value[None, :],
            memory,
            mask=is_monomial[:, None] & is_value[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def backward(
    d_gamma_halo_pointer,
    d_gamma_pointer,
    d_k_halo_pointer,
    d_k_pointer,
    d_log_alpha_pointer,
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
    d_gamma_head,
    d_gamma_row,
    d_k_head,
    d_k_row,
    d_log_alpha_head,
    d_log_alpha_row,
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
    phase = 0
    seen = tl.minimum(position, HELD)  # rows of the window that hold tokens
    d_memory_next = tl.zeros([BLOCK_F, BLOCK_V], dtype=tl.float32)
    if GRAD_FINAL:
        d_memory_next += tl.load(
            d_memory_final_pointer + memory_index * (F * V) + monomial[:, None] * V + value[None, :],
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
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        gamma_block = gamma_pointer + (batch * tokens + start) * gamma_row + head * gamma_head
        d_reads = tl.load(
            d_y_block + row[:, None] * d_y_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        monomial_scale_0 = tl.load(monomial_scale_0_pointer + monomial, mask=is_monomial, other=0)
        monomial_scale_1 = tl.load(monomial_scale_1_pointer + monomial, mask=is_monomial, other=0)
        monomial_scale_2 = tl.load(monomial_scale_2_pointer + monomial, mask=is_monomial, other=0)
        monomial_weights = monomial_scale_0 + monomial_scale_1 + 0.7071067811865476 * monomial_scale_2
        q = tl.load(
            q_block + row[:, None] * q_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        monomial_entry_0 = tl.load(monomial_entry_0_pointer + monomial, mask=is_monomial, other=0)
        value_2 = monomial_weights[None, :] * take(q, monomial_entry_0)
        monomial_entry_1 = tl.load(monomial_entry_1_pointer + monomial, mask=is_monomial, other=0)
        factor = take(q, monomial_entry_1)
        # phi(q)
        queries = value_2 * factor
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
        product_2 = tl.dot(v_halo.to(DOT), tl.trans(d_memory_next.to(DOT)), input_precision=PRECISION)
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
        value_3 = monomial_weights[None, :] * take(k_halo, monomial_entry_0)
        factor_2 = take(k_halo, monomial_entry_1)
        # X = phi(k)
        features_halo = value_3 * factor_2
        d_last_weights_halo = tl.sum(product_2 * features_halo, 1)
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
        product_4 = tl.dot(v.to(DOT), tl.trans(d_memory_next.to(DOT)), input_precision=PRECISION)
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
        value_4 = monomial_weights[None, :] * take(k, monomial_entry_0)
        factor_3 = take(k, monomial_entry_1)
        # X = phi(k)
        features = value_4 * factor_3
        d_last_weights = tl.sum(product_4 * features, 1)
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
            tl.where(row[:, None] > row[None, :], ((product_3 + product_5) * until_end)[None, :], 0.0),
            1,
        )
        d_attention_halo = tl.dot(d_reads.to(DOT), tl.trans(v_halo.to(DOT)), input_precision=PRECISION)
        product_6 = tl.dot(q.to(DOT), tl.trans(k_halo.to(DOT)), input_precision=PRECISION)
        # Q X^T
        scores_halo = 0.5 * (product_6 * product_6) + product_6 + 1.0
        d_weights_halo = d_attention_halo * scores_halo
        product_7 = tl.dot(d_weights_halo.to(DOT), tl.trans(window_halo.to(DOT)), input_precision=PRECISION)
        d_attention = tl.dot(d_reads.to(DOT), tl.trans(v.to(DOT)), input_precision=PRECISION)
        product_8 = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
        # Q X^T
        scores = 0.5 * (product_8 * product_8) + product_8 + 1.0
        d_weights = d_attention * scores
        product_9 = tl.dot(d_weights.to(DOT), tl.trans(window.to(DOT)), input_precision=PRECISION)
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
        banded = tl.where(row[:, None] - row[None, :] >= 1, (product_7 + product_9) * decay, 0.0)
        banded_2 = tl.where(row[:, None] >= row[None, :], tl.cumsum(banded, 1) - banded, 0.0)
        combined = tl.cumsum(d_read_decay * read_decay, 0, reverse=True) + (running + tl.sum(banded_2, 0))
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
        tl.store(d_log_alpha_block + row * d_log_alpha_row, combined + d_kept * kept, mask=live)
        # P: source weights by read
        weights_halo = tl.dot(decay.to(DOT), window_halo.to(DOT), input_precision=PRECISION)
        d_scores_halo = d_attention_halo * weights_halo
        value_5 = d_scores_halo * (1.0 * product_6 + 1.0)
        product_10 = tl.dot(value_5.to(DOT), k_halo.to(DOT), input_precision=PRECISION)
        # P: source weights by read
        weights = tl.dot(decay.to(DOT), window.to(DOT), input_precision=PRECISION)
        d_scores = d_attention * weights
        value_6 = d_scores * (1.0 * product_8 + 1.0)
        product_11 = tl.dot(value_6.to(DOT), k.to(DOT), input_precision=PRECISION)
        value_7 = d_reads * read_decay[:, None]
        d_queries = tl.dot(value_7.to(DOT), tl.trans(memory.to(DOT)), input_precision=PRECISION)
        place = feature + 1
        value_8 = tl.where(
            is_monomial[None, :],
            tl.where(
                is_feature[:, None],
                tl.where(monomial_entry_1[None, :] == place[:, None], 1.0, 0.0),
                0.0,
            ),
            0.0,
        )
        product_12 = tl.dot(
            (d_queries * value_2).to(DOT),
            tl.trans(value_8.to(DOT)),
            input_precision=PRECISION,
        )
        value_9 = tl.where(
            is_monomial[None, :],
            tl.where(
                is_feature[:, None],
                tl.where(monomial_entry_0[None, :] == place[:, None], 1.0, 0.0),
                0.0,
            ),
            0.0,
        )
        product_13 = tl.dot(
            (d_queries * factor * monomial_weights[None, :]).to(DOT),
            tl.trans(value_9.to(DOT)),
            input_precision=PRECISION,
        )
        d_q_block = d_q_pointer + (batch * tokens + start) * d_q_row + head * d_q_head
        tl.store(
            d_q_block + row[:, None] * d_q_row + feature[None, :],
            product_10 + product_11 + product_12 + product_13,
            mask=live[:, None] & is_feature[None, :],
        )
        # p_C: last row of P
        last_weights = tl.sum(until_end[:, None] * window, 0)
        d_features = product_4 * last_weights[:, None]
        product_14 = tl.dot(
            (d_features * value_4).to(DOT),
            tl.trans(value_8.to(DOT)),
            input_precision=PRECISION,
        )
        product_15 = tl.dot(
            (d_features * factor_3 * monomial_weights[None, :]).to(DOT),
            tl.trans(value_9.to(DOT)),
            input_precision=PRECISION,
        )
        product_16 = tl.dot(tl.trans(value_6.to(DOT)), q.to(DOT), input_precision=PRECISION)
        d_k_block = d_k_pointer + (batch * tokens + start) * d_k_row + head * d_k_head
        tl.store(
            d_k_block + row[:, None] * d_k_row + feature[None, :],
            product_14 + product_15 + product_16,
            mask=live[:, None] & is_feature[None, :],
        )
        if RESUME:
            d_window_k_base = (
                d_window_k_pointer + (batch * HELD * heads + head) * K + (start + HELD) * heads * K
            )
            tl.store(
                d_window_k_base + row[:, None] * (heads * K) + feature[None, :],
                product_14 + product_15 + product_16,
                mask=is_held[:, None] & is_feature[None, :],
            )
        product_17 = tl.dot(tl.trans(decay.to(DOT)), d_weights.to(DOT), input_precision=PRECISION)
        d_window = d_last_weights[None, :] * until_end[:, None] + product_17
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
        product_18 = tl.dot(
            (last_weights[:, None] * features).to(DOT),
            d_memory_next.to(DOT),
            input_precision=PRECISION,
        )
        # (Q X^T) * P
        attention = scores * weights
        product_19 = tl.dot(tl.trans(attention.to(DOT)), d_reads.to(DOT), input_precision=PRECISION)
        d_v_block = d_v_pointer + (batch * tokens + start) * d_v_row + head * d_v_head
        tl.store(
            d_v_block + row[:, None] * d_v_row + value[None, :],
            product_18 + product_19,
            mask=live[:, None] & is_value[None, :],
        )
        if RESUME:
            d_window_v_base = (
                d_window_v_pointer + (batch * HELD * heads + head) * V + (start + HELD) * heads * V
            )
            tl.store(
                d_window_v_base + row[:, None] * (heads * V) + value[None, :],
                product_18 + product_19,
                mask=is_held[:, None] & is_value[None, :],
            )
        # p_C: last row of P
        last_weights_halo = tl.sum(until_end[:, None] * window_halo, 0)
        d_features_halo = product_2 * last_weights_halo[:, None]
        product_20 = tl.dot(
            (d_features_halo * value_3).to(DOT),
            tl.trans(value_8.to(DOT)),
            input_precision=PRECISION,
        )
        product_21 = tl.dot(
            (d_features_halo * factor_2 * monomial_weights[None, :]).to(DOT),
            tl.trans(value_9.to(DOT)),
            input_precision=PRECISION,
        )
        product_22 = tl.dot(tl.trans(value_5.to(DOT)), q.to(DOT), input_precision=PRECISION)
        tl.store(
            d_k_halo_pointer + slot * (HALO * K) + (halo_row + HALO)[:, None] * K + feature[None, :],
            product_20 + product_21 + product_22,
            mask=(halo_row < 0)[:, None] & is_feature[None, :],
        )
        product_23 = tl.dot(tl.trans(decay.to(DOT)), d_weights_halo.to(DOT), input_precision=PRECISION)
        d_window_halo = d_last_weights_halo[None, :] * until_end[:, None] + product_23
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
        product_24 = tl.dot(
            (last_weights_halo[:, None] * features_halo).to(DOT),
            d_memory_next.to(DOT),
            input_precision=PRECISION,
        )
        # (Q X^T) * P
        attention_halo = scores_halo * weights_halo
        product_25 = tl.dot(tl.trans(attention_halo.to(DOT)), d_reads.to(DOT), input_precision=PRECISION)
        tl.store(
            d_v_halo_pointer + slot * (HALO * V) + (halo_row + HALO)[:, None] * V + value[None, :],
            product_24 + product_25,
            mask=(halo_row < 0)[:, None] & is_value[None, :],
        )
        product_26 = tl.dot(tl.trans(queries.to(DOT)), value_7.to(DOT), input_precision=PRECISION)
        d_memory_next = d_memory_next * kept + product_26
    if GRAD_INITIAL:
        tl.store(
            d_memory_pointer + memory_index * (F * V) + monomial[:, None] * V + value[None, :],
            d_memory_next,
            mask=is_monomial[:, None] & is_value[None, :],
        )

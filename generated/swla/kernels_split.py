"""Kernels of the memory rule swla (split_all_4_F).

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
def gates(
    gamma_pointer,
    gate_kept_pointer,
    gate_last_weights_halo_pointer,
    gate_last_weights_pointer,
    gate_read_decay_pointer,
    gate_weights_halo_pointer,
    gate_weights_pointer,
    length_pointer,
    log_alpha_pointer,
    position_pointer,
    window_gamma_pointer,
    gamma_head,
    gamma_row,
    log_alpha_head,
    log_alpha_row,
    tokens,
    heads,
    blocks,
    HAS_LENGTH: tl.constexpr,
    RESUME: tl.constexpr,
    BLOCK_HALO: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    DOT: tl.constexpr,
    HALO: tl.constexpr,
    HELD: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Decays and window weights of one block: what depends on the gates alone."""
    program = tl.program_id(0)
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    row = tl.arange(0, BLOCK_ROWS)
    halo_row = tl.arange(0, BLOCK_HALO)
    halo_row = tl.where(halo_row < HALO, halo_row - HALO, ROWS)  # negative: before the block
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    position = tl.load(position_pointer + batch) if RESUME else 0
    phase = 0
    seen = tl.minimum(position, HELD)  # rows of the window that hold tokens
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
    gamma_block = gamma_pointer + (batch * tokens + start) * gamma_row + head * gamma_head
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
    tl.store(
        gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        weights,
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
    )
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
    tl.store(
        gate_weights_halo_pointer + slot * (ROWS * HALO) + row[:, None] * HALO + (halo_row + HALO)[None, :],
        weights_halo,
        mask=(row < ROWS)[:, None] & (halo_row < 0)[None, :],
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
    last_weights = tl.sum(until_end[:, None] * window, 0)
    tl.store(gate_last_weights_pointer + slot * ROWS + row, last_weights, mask=row < ROWS)
    # p_C: last row of P
    last_weights_halo = tl.sum(until_end[:, None] * window_halo, 0)
    tl.store(
        gate_last_weights_halo_pointer + slot * HALO + (halo_row + HALO),
        last_weights_halo,
        mask=halo_row < 0,
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def state(
    gate_kept_pointer,
    gate_last_weights_halo_pointer,
    gate_last_weights_pointer,
    k_pointer,
    length_pointer,
    memory_blocks_pointer,
    memory_final_pointer,
    monomial_entry_0_pointer,
    monomial_entry_1_pointer,
    monomial_scale_0_pointer,
    monomial_scale_1_pointer,
    monomial_scale_2_pointer,
    position_pointer,
    v_pointer,
    window_k_pointer,
    window_v_pointer,
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
    """The memory from block to block, tile by tile: a block writes the next one's start."""
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
    value = value_tile * BLOCK_V + tl.arange(0, BLOCK_V)
    is_value = value < V
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    phase = 0
    for block in tl.range(0, blocks, disable_licm=True):
        slot = memory_index * blocks + block
        start = tl.cast(block, tl.int64) * ROWS - phase
        first = tl.cast(tl.maximum(-start, 0), tl.int32)
        last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
        live = (row >= first) & (row < last)
        is_held = (row < first) & (row >= first - HELD)
        earliest = tl.cast(tl.maximum(-start, -HALO), tl.int32)
        is_halo = (halo_row >= earliest) & (halo_row < tl.minimum(last, 0))
        is_held_halo = (halo_row < earliest) & (halo_row >= earliest - HELD)
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
        # a_C: decay of the memory over the block
        kept = tl.load(gate_kept_pointer + slot)
        # p_C: last row of P
        last_weights = tl.load(gate_last_weights_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
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
        # p_C: last row of P
        last_weights_halo = tl.load(
            gate_last_weights_halo_pointer + slot * HALO + (halo_row + HALO),
            mask=halo_row < 0,
            other=0.0,
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
        for monomial_start in range(0, F, BLOCK_F):
            monomial = monomial_start + tl.arange(0, BLOCK_F)
            is_monomial = monomial < F
            memory = tl.load(
                memory_blocks_pointer + slot * (F * V) + monomial[:, None] * V + value[None, :],
                mask=is_monomial[:, None] & is_value[None, :],
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
            product = tl.dot(
                tl.trans((last_weights[:, None] * features).to(DOT)),
                v.to(DOT),
                input_precision=PRECISION,
            )
            # X = phi(k)
            features_halo = (
                monomial_weights[None, :] * take(k_halo, monomial_entry_0) * take(k_halo, monomial_entry_1)
            )
            product_2 = tl.dot(
                tl.trans((last_weights_halo[:, None] * features_halo).to(DOT)),
                v_halo.to(DOT),
                input_precision=PRECISION,
            )
            # M at the end
            memory_next = kept * memory + product + product_2
            if block + 1 < blocks:
                tl.store(
                    memory_blocks_pointer + (slot + 1) * (F * V) + monomial[:, None] * V + value[None, :],
                    memory_next,
                    mask=is_monomial[:, None] & is_value[None, :],
                )
            else:
                if STORE_FINAL:
                    tl.store(
                        memory_final_pointer
                        + memory_index * (F * V)
                        + monomial[:, None] * V
                        + value[None, :],
                        memory_next,
                        mask=is_monomial[:, None] & is_value[None, :],
                    )
        tl.debug_barrier()  # the next block reads what this one wrote


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output(
    gate_read_decay_pointer,
    gate_weights_halo_pointer,
    gate_weights_pointer,
    k_pointer,
    length_pointer,
    memory_blocks_pointer,
    monomial_entry_0_pointer,
    monomial_entry_1_pointer,
    monomial_scale_0_pointer,
    monomial_scale_1_pointer,
    monomial_scale_2_pointer,
    position_pointer,
    q_pointer,
    v_pointer,
    window_k_pointer,
    window_v_pointer,
    y_pointer,
    k_head,
    k_row,
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
    """The reads of one block."""
    program = tl.program_id(0)
    value_tile = program % tl.cdiv(V, BLOCK_V)
    program = program // tl.cdiv(V, BLOCK_V)
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    row = tl.arange(0, BLOCK_ROWS)
    halo_row = tl.arange(0, BLOCK_HALO)
    halo_row = tl.where(halo_row < HALO, halo_row - HALO, ROWS)  # negative: before the block
    feature = tl.arange(0, BLOCK_K)
    is_feature = feature < K
    value = value_tile * BLOCK_V + tl.arange(0, BLOCK_V)
    is_value = value < V
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    phase = 0
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    is_held = (row < first) & (row >= first - HELD)
    earliest = tl.cast(tl.maximum(-start, -HALO), tl.int32)
    is_halo = (halo_row >= earliest) & (halo_row < tl.minimum(last, 0))
    is_held_halo = (halo_row < earliest) & (halo_row >= earliest - HELD)
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    product = tl.zeros([BLOCK_ROWS, BLOCK_V], dtype=tl.float32)
    q = tl.load(
        q_block + row[:, None] * q_row + feature[None, :],
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
        # phi(q)
        queries = monomial_weights[None, :] * take(q, monomial_entry_0) * take(q, monomial_entry_1)
        memory = tl.load(
            memory_blocks_pointer + slot * (F * V) + monomial[:, None] * V + value[None, :],
            mask=is_monomial[:, None] & is_value[None, :],
            other=0.0,
        )
        product += tl.dot(queries.to(DOT), memory.to(DOT), input_precision=PRECISION)
    # a: decay of the memory since the block's start
    read_decay = tl.load(gate_read_decay_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
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
    # P: source weights by read
    weights = tl.load(
        gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
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
    # P: source weights by read
    weights_halo = tl.load(
        gate_weights_halo_pointer + slot * (ROWS * HALO) + row[:, None] * HALO + (halo_row + HALO)[None, :],
        mask=(row < ROWS)[:, None] & (halo_row < 0)[None, :],
        other=0.0,
    )
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
    tl.store(y_block + row[:, None] * y_row + value[None, :], reads, mask=live[:, None] & is_value[None, :])


@triton.jit(do_not_specialize=["tokens", "blocks"])
def state_gradient(
    d_memory_next_blocks_pointer,
    d_memory_pointer,
    d_y_pointer,
    gate_kept_pointer,
    gate_read_decay_pointer,
    length_pointer,
    monomial_entry_0_pointer,
    monomial_entry_1_pointer,
    monomial_scale_0_pointer,
    monomial_scale_1_pointer,
    monomial_scale_2_pointer,
    position_pointer,
    q_pointer,
    d_y_head,
    d_y_row,
    q_head,
    q_row,
    tokens,
    heads,
    blocks,
    GRAD_INITIAL: tl.constexpr,
    HAS_LENGTH: tl.constexpr,
    RESUME: tl.constexpr,
    BLOCK_F: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
    DOT: tl.constexpr,
    F: tl.constexpr,
    HELD: tl.constexpr,
    K: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    V: tl.constexpr,
):
    """The gradient of the memory from the last block to the first, tile by tile."""
    program = tl.program_id(0)
    value_tile = program % tl.cdiv(V, BLOCK_V)
    program = program // tl.cdiv(V, BLOCK_V)
    memory_index = tl.cast(program, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    row = tl.arange(0, BLOCK_ROWS)
    feature = tl.arange(0, BLOCK_K)
    is_feature = feature < K
    value = value_tile * BLOCK_V + tl.arange(0, BLOCK_V)
    is_value = value < V
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    phase = 0
    for turn in tl.range(0, blocks * 1, disable_licm=True):
        step = turn // 1
        part = turn % 1
        block = blocks - 1 - step
        slot = memory_index * blocks + block
        start = tl.cast(block, tl.int64) * ROWS - phase
        first = tl.cast(tl.maximum(-start, 0), tl.int32)
        last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
        live = (row >= first) & (row < last)
        d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
        q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
        if part == 0:
            # a_C: decay of the memory over the block
            kept = tl.load(gate_kept_pointer + slot)
            d_reads = tl.load(
                d_y_block + row[:, None] * d_y_row + value[None, :],
                mask=live[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
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
                d_memory_next = tl.load(
                    d_memory_next_blocks_pointer + slot * (F * V) + monomial[:, None] * V + value[None, :],
                    mask=is_monomial[:, None] & is_value[None, :],
                    other=0.0,
                )
                monomial_scale_0 = tl.load(monomial_scale_0_pointer + monomial, mask=is_monomial, other=0)
                monomial_scale_1 = tl.load(monomial_scale_1_pointer + monomial, mask=is_monomial, other=0)
                monomial_scale_2 = tl.load(monomial_scale_2_pointer + monomial, mask=is_monomial, other=0)
                monomial_weights = monomial_scale_0 + monomial_scale_1 + 0.7071067811865476 * monomial_scale_2
                monomial_entry_0 = tl.load(monomial_entry_0_pointer + monomial, mask=is_monomial, other=0)
                monomial_entry_1 = tl.load(monomial_entry_1_pointer + monomial, mask=is_monomial, other=0)
                # phi(q)
                queries = monomial_weights[None, :] * take(q, monomial_entry_0) * take(q, monomial_entry_1)
                product = tl.dot(
                    tl.trans(queries.to(DOT)),
                    (d_reads * read_decay[:, None]).to(DOT),
                    input_precision=PRECISION,
                )
                following = d_memory_next * kept + product
                if block > 0:
                    tl.store(
                        d_memory_next_blocks_pointer
                        + (slot - 1) * (F * V)
                        + monomial[:, None] * V
                        + value[None, :],
                        following,
                        mask=is_monomial[:, None] & is_value[None, :],
                    )
                else:
                    if GRAD_INITIAL:
                        tl.store(
                            d_memory_pointer
                            + memory_index * (F * V)
                            + monomial[:, None] * V
                            + value[None, :],
                            following,
                            mask=is_monomial[:, None] & is_value[None, :],
                        )
        tl.debug_barrier()  # the next turn reads what this one wrote


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_v(
    d_memory_next_blocks_pointer,
    d_v_pointer,
    d_window_v_pointer,
    d_y_pointer,
    gate_last_weights_pointer,
    gate_weights_pointer,
    k_pointer,
    length_pointer,
    monomial_entry_0_pointer,
    monomial_entry_1_pointer,
    monomial_scale_0_pointer,
    monomial_scale_1_pointer,
    monomial_scale_2_pointer,
    position_pointer,
    q_pointer,
    window_k_pointer,
    d_v_head,
    d_v_row,
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
    BLOCK_F: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
    DOT: tl.constexpr,
    F: tl.constexpr,
    HELD: tl.constexpr,
    K: tl.constexpr,
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
    feature = tl.arange(0, BLOCK_K)
    is_feature = feature < K
    value = value_tile * BLOCK_V + tl.arange(0, BLOCK_V)
    is_value = value < V
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    phase = 0
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    is_held = (row < first) & (row >= first - HELD)
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
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
    product = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
    # Q X^T
    scores = 0.5 * (product * product) + product + 1.0
    # P: source weights by read
    weights = tl.load(
        gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    # (Q X^T) * P
    attention = scores * weights
    product_2 = tl.dot(tl.trans(attention.to(DOT)), d_reads.to(DOT), input_precision=PRECISION)
    combined = product_2
    # p_C: last row of P
    last_weights = tl.load(gate_last_weights_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    for monomial_start in range(0, F, BLOCK_F):
        monomial = monomial_start + tl.arange(0, BLOCK_F)
        is_monomial = monomial < F
        d_memory_next = tl.load(
            d_memory_next_blocks_pointer + slot * (F * V) + monomial[:, None] * V + value[None, :],
            mask=is_monomial[:, None] & is_value[None, :],
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
            d_memory_next.to(DOT),
            input_precision=PRECISION,
        )
    d_v_block = d_v_pointer + (batch * tokens + start) * d_v_row + head * d_v_head
    tl.store(
        d_v_block + row[:, None] * d_v_row + value[None, :],
        combined,
        mask=live[:, None] & is_value[None, :],
    )
    if RESUME:
        d_window_v_base = d_window_v_pointer + (batch * HELD * heads + head) * V + (start + HELD) * heads * V
        tl.store(
            d_window_v_base + row[:, None] * (heads * V) + value[None, :],
            combined,
            mask=is_held[:, None] & is_value[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_q(
    d_q_pointer,
    d_y_pointer,
    gate_read_decay_pointer,
    gate_weights_halo_pointer,
    gate_weights_pointer,
    k_pointer,
    length_pointer,
    memory_blocks_pointer,
    monomial_entry_0_pointer,
    monomial_entry_1_pointer,
    monomial_scale_0_pointer,
    monomial_scale_1_pointer,
    monomial_scale_2_pointer,
    position_pointer,
    q_pointer,
    v_pointer,
    window_k_pointer,
    window_v_pointer,
    d_q_head,
    d_q_row,
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
    """Gradients of one block: d_q."""
    program = tl.program_id(0)
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    row = tl.arange(0, BLOCK_ROWS)
    halo_row = tl.arange(0, BLOCK_HALO)
    halo_row = tl.where(halo_row < HALO, halo_row - HALO, ROWS)  # negative: before the block
    feature = tl.arange(0, BLOCK_K)
    is_feature = feature < K
    value = tl.arange(0, BLOCK_V)
    is_value = value < V
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    phase = 0
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
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    combined = tl.zeros([BLOCK_ROWS, BLOCK_K], dtype=tl.float32)
    d_reads = tl.load(
        d_y_block + row[:, None] * d_y_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
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
        memory = tl.load(
            memory_blocks_pointer + slot * (F * V) + monomial[:, None] * V + value[None, :],
            mask=is_monomial[:, None] & is_value[None, :],
            other=0.0,
        )
        product = tl.dot(d_reads.to(DOT), tl.trans(memory.to(DOT)), input_precision=PRECISION)
        value_2 = product * read_decay[:, None]
        monomial_scale_0 = tl.load(monomial_scale_0_pointer + monomial, mask=is_monomial, other=0)
        monomial_scale_1 = tl.load(monomial_scale_1_pointer + monomial, mask=is_monomial, other=0)
        monomial_scale_2 = tl.load(monomial_scale_2_pointer + monomial, mask=is_monomial, other=0)
        monomial_weights = monomial_scale_0 + monomial_scale_1 + 0.7071067811865476 * monomial_scale_2
        monomial_entry_0 = tl.load(monomial_entry_0_pointer + monomial, mask=is_monomial, other=0)
        value_3 = value_2 * (monomial_weights[None, :] * take(q, monomial_entry_0))
        monomial_entry_1 = tl.load(monomial_entry_1_pointer + monomial, mask=is_monomial, other=0)
        value_4 = tl.where(
            is_monomial[None, :],
            tl.where(
                is_feature[:, None],
                tl.where(monomial_entry_1[None, :] == place[:, None], 1.0, 0.0),
                0.0,
            ),
            0.0,
        )
        combined += tl.dot(value_3.to(DOT), tl.trans(value_4.to(DOT)), input_precision=PRECISION)
        value_5 = value_2 * take(q, monomial_entry_1) * monomial_weights[None, :]
        value_6 = tl.where(
            is_monomial[None, :],
            tl.where(
                is_feature[:, None],
                tl.where(monomial_entry_0[None, :] == place[:, None], 1.0, 0.0),
                0.0,
            ),
            0.0,
        )
        combined += tl.dot(value_5.to(DOT), tl.trans(value_6.to(DOT)), input_precision=PRECISION)
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
    d_attention_halo = tl.dot(d_reads.to(DOT), tl.trans(v_halo.to(DOT)), input_precision=PRECISION)
    # P: source weights by read
    weights_halo = tl.load(
        gate_weights_halo_pointer + slot * (ROWS * HALO) + row[:, None] * HALO + (halo_row + HALO)[None, :],
        mask=(row < ROWS)[:, None] & (halo_row < 0)[None, :],
        other=0.0,
    )
    d_scores_halo = d_attention_halo * weights_halo
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
    product_2 = tl.dot(q.to(DOT), tl.trans(k_halo.to(DOT)), input_precision=PRECISION)
    product_3 = tl.dot(
        (d_scores_halo * (1.0 * product_2 + 1.0)).to(DOT),
        k_halo.to(DOT),
        input_precision=PRECISION,
    )
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
    d_attention = tl.dot(d_reads.to(DOT), tl.trans(v.to(DOT)), input_precision=PRECISION)
    # P: source weights by read
    weights = tl.load(
        gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    d_scores = d_attention * weights
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
    product_4 = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
    product_5 = tl.dot((d_scores * (1.0 * product_4 + 1.0)).to(DOT), k.to(DOT), input_precision=PRECISION)
    d_q_block = d_q_pointer + (batch * tokens + start) * d_q_row + head * d_q_head
    tl.store(
        d_q_block + row[:, None] * d_q_row + feature[None, :],
        combined + product_3 + product_5,
        mask=live[:, None] & is_feature[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_k(
    d_k_pointer,
    d_memory_next_blocks_pointer,
    d_window_k_pointer,
    d_y_pointer,
    gate_last_weights_pointer,
    gate_weights_pointer,
    k_pointer,
    length_pointer,
    monomial_entry_0_pointer,
    monomial_entry_1_pointer,
    monomial_scale_0_pointer,
    monomial_scale_1_pointer,
    monomial_scale_2_pointer,
    position_pointer,
    q_pointer,
    v_pointer,
    window_k_pointer,
    window_v_pointer,
    d_k_head,
    d_k_row,
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
    BLOCK_F: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
    DOT: tl.constexpr,
    F: tl.constexpr,
    HELD: tl.constexpr,
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
    phase = 0
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    is_held = (row < first) & (row >= first - HELD)
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    combined = tl.zeros([BLOCK_ROWS, BLOCK_K], dtype=tl.float32)
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
    # p_C: last row of P
    last_weights = tl.load(gate_last_weights_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
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
    place = feature + 1
    for monomial_start in range(0, F, BLOCK_F):
        monomial = monomial_start + tl.arange(0, BLOCK_F)
        is_monomial = monomial < F
        d_memory_next = tl.load(
            d_memory_next_blocks_pointer + slot * (F * V) + monomial[:, None] * V + value[None, :],
            mask=is_monomial[:, None] & is_value[None, :],
            other=0.0,
        )
        product = tl.dot(v.to(DOT), tl.trans(d_memory_next.to(DOT)), input_precision=PRECISION)
        d_features = product * last_weights[:, None]
        monomial_scale_0 = tl.load(monomial_scale_0_pointer + monomial, mask=is_monomial, other=0)
        monomial_scale_1 = tl.load(monomial_scale_1_pointer + monomial, mask=is_monomial, other=0)
        monomial_scale_2 = tl.load(monomial_scale_2_pointer + monomial, mask=is_monomial, other=0)
        monomial_weights = monomial_scale_0 + monomial_scale_1 + 0.7071067811865476 * monomial_scale_2
        monomial_entry_0 = tl.load(monomial_entry_0_pointer + monomial, mask=is_monomial, other=0)
        value_2 = d_features * (monomial_weights[None, :] * take(k, monomial_entry_0))
        monomial_entry_1 = tl.load(monomial_entry_1_pointer + monomial, mask=is_monomial, other=0)
        value_3 = tl.where(
            is_monomial[None, :],
            tl.where(
                is_feature[:, None],
                tl.where(monomial_entry_1[None, :] == place[:, None], 1.0, 0.0),
                0.0,
            ),
            0.0,
        )
        combined += tl.dot(value_2.to(DOT), tl.trans(value_3.to(DOT)), input_precision=PRECISION)
        value_4 = d_features * take(k, monomial_entry_1) * monomial_weights[None, :]
        value_5 = tl.where(
            is_monomial[None, :],
            tl.where(
                is_feature[:, None],
                tl.where(monomial_entry_0[None, :] == place[:, None], 1.0, 0.0),
                0.0,
            ),
            0.0,
        )
        combined += tl.dot(value_4.to(DOT), tl.trans(value_5.to(DOT)), input_precision=PRECISION)
    d_reads = tl.load(
        d_y_block + row[:, None] * d_y_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    d_attention = tl.dot(d_reads.to(DOT), tl.trans(v.to(DOT)), input_precision=PRECISION)
    # P: source weights by read
    weights = tl.load(
        gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    d_scores = d_attention * weights
    q = tl.load(
        q_block + row[:, None] * q_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    product_2 = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
    product_3 = tl.dot(
        tl.trans((d_scores * (1.0 * product_2 + 1.0)).to(DOT)),
        q.to(DOT),
        input_precision=PRECISION,
    )
    d_k_block = d_k_pointer + (batch * tokens + start) * d_k_row + head * d_k_head
    tl.store(
        d_k_block + row[:, None] * d_k_row + feature[None, :],
        combined + product_3,
        mask=live[:, None] & is_feature[None, :],
    )
    if RESUME:
        d_window_k_base = d_window_k_pointer + (batch * HELD * heads + head) * K + (start + HELD) * heads * K
        tl.store(
            d_window_k_base + row[:, None] * (heads * K) + feature[None, :],
            combined + product_3,
            mask=is_held[:, None] & is_feature[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_halo(
    d_gate_weights_halo_pointer,
    d_k_halo_pointer,
    d_memory_next_blocks_pointer,
    d_v_halo_pointer,
    d_y_pointer,
    gate_last_weights_halo_pointer,
    gate_weights_halo_pointer,
    k_pointer,
    length_pointer,
    monomial_entry_0_pointer,
    monomial_entry_1_pointer,
    monomial_scale_0_pointer,
    monomial_scale_1_pointer,
    monomial_scale_2_pointer,
    position_pointer,
    q_pointer,
    v_pointer,
    window_k_pointer,
    window_v_pointer,
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
    """Gradients of one block: d_k_halo, d_v_halo, d_gate_weights_halo."""
    program = tl.program_id(0)
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    row = tl.arange(0, BLOCK_ROWS)
    halo_row = tl.arange(0, BLOCK_HALO)
    halo_row = tl.where(halo_row < HALO, halo_row - HALO, ROWS)  # negative: before the block
    feature = tl.arange(0, BLOCK_K)
    is_feature = feature < K
    value = tl.arange(0, BLOCK_V)
    is_value = value < V
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    phase = 0
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    earliest = tl.cast(tl.maximum(-start, -HALO), tl.int32)
    is_halo = (halo_row >= earliest) & (halo_row < tl.minimum(last, 0))
    is_held_halo = (halo_row < earliest) & (halo_row >= earliest - HELD)
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    d_reads = tl.load(
        d_y_block + row[:, None] * d_y_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
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
    d_attention_halo = tl.dot(d_reads.to(DOT), tl.trans(v_halo.to(DOT)), input_precision=PRECISION)
    q = tl.load(
        q_block + row[:, None] * q_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
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
    product = tl.dot(q.to(DOT), tl.trans(k_halo.to(DOT)), input_precision=PRECISION)
    # Q X^T
    scores_halo = 0.5 * (product * product) + product + 1.0
    d_weights_halo = d_attention_halo * scores_halo
    tl.store(
        d_gate_weights_halo_pointer + slot * (ROWS * HALO) + row[:, None] * HALO + (halo_row + HALO)[None, :],
        d_weights_halo,
        mask=(row < ROWS)[:, None] & (halo_row < 0)[None, :],
    )
    combined = tl.zeros([BLOCK_HALO, BLOCK_K], dtype=tl.float32)
    # P: source weights by read
    weights_halo = tl.load(
        gate_weights_halo_pointer + slot * (ROWS * HALO) + row[:, None] * HALO + (halo_row + HALO)[None, :],
        mask=(row < ROWS)[:, None] & (halo_row < 0)[None, :],
        other=0.0,
    )
    # (Q X^T) * P
    attention_halo = scores_halo * weights_halo
    product_2 = tl.dot(tl.trans(attention_halo.to(DOT)), d_reads.to(DOT), input_precision=PRECISION)
    combined_2 = product_2
    # p_C: last row of P
    last_weights_halo = tl.load(
        gate_last_weights_halo_pointer + slot * HALO + (halo_row + HALO),
        mask=halo_row < 0,
        other=0.0,
    )
    place = feature + 1
    for monomial_start in range(0, F, BLOCK_F):
        monomial = monomial_start + tl.arange(0, BLOCK_F)
        is_monomial = monomial < F
        d_memory_next = tl.load(
            d_memory_next_blocks_pointer + slot * (F * V) + monomial[:, None] * V + value[None, :],
            mask=is_monomial[:, None] & is_value[None, :],
            other=0.0,
        )
        product_3 = tl.dot(v_halo.to(DOT), tl.trans(d_memory_next.to(DOT)), input_precision=PRECISION)
        d_features_halo = product_3 * last_weights_halo[:, None]
        monomial_scale_0 = tl.load(monomial_scale_0_pointer + monomial, mask=is_monomial, other=0)
        monomial_scale_1 = tl.load(monomial_scale_1_pointer + monomial, mask=is_monomial, other=0)
        monomial_scale_2 = tl.load(monomial_scale_2_pointer + monomial, mask=is_monomial, other=0)
        monomial_weights = monomial_scale_0 + monomial_scale_1 + 0.7071067811865476 * monomial_scale_2
        monomial_entry_0 = tl.load(monomial_entry_0_pointer + monomial, mask=is_monomial, other=0)
        value_2 = monomial_weights[None, :] * take(k_halo, monomial_entry_0)
        monomial_entry_1 = tl.load(monomial_entry_1_pointer + monomial, mask=is_monomial, other=0)
        value_3 = tl.where(
            is_monomial[None, :],
            tl.where(
                is_feature[:, None],
                tl.where(monomial_entry_1[None, :] == place[:, None], 1.0, 0.0),
                0.0,
            ),
            0.0,
        )
        combined += tl.dot(
            (d_features_halo * value_2).to(DOT),
            tl.trans(value_3.to(DOT)),
            input_precision=PRECISION,
        )
        factor = take(k_halo, monomial_entry_1)
        value_4 = tl.where(
            is_monomial[None, :],
            tl.where(
                is_feature[:, None],
                tl.where(monomial_entry_0[None, :] == place[:, None], 1.0, 0.0),
                0.0,
            ),
            0.0,
        )
        combined += tl.dot(
            (d_features_halo * factor * monomial_weights[None, :]).to(DOT),
            tl.trans(value_4.to(DOT)),
            input_precision=PRECISION,
        )
        # X = phi(k)
        features_halo = value_2 * factor
        combined_2 += tl.dot(
            (last_weights_halo[:, None] * features_halo).to(DOT),
            d_memory_next.to(DOT),
            input_precision=PRECISION,
        )
    d_scores_halo = d_attention_halo * weights_halo
    product_4 = tl.dot(
        tl.trans((d_scores_halo * (1.0 * product + 1.0)).to(DOT)),
        q.to(DOT),
        input_precision=PRECISION,
    )
    tl.store(
        d_k_halo_pointer + slot * (HALO * K) + (halo_row + HALO)[:, None] * K + feature[None, :],
        combined + product_4,
        mask=(halo_row < 0)[:, None] & is_feature[None, :],
    )
    tl.store(
        d_v_halo_pointer + slot * (HALO * V) + (halo_row + HALO)[:, None] * V + value[None, :],
        combined_2,
        mask=(halo_row < 0)[:, None] & is_value[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_weights(
    d_gate_weights_pointer,
    d_y_pointer,
    k_pointer,
    length_pointer,
    position_pointer,
    q_pointer,
    v_pointer,
    window_k_pointer,
    window_v_pointer,
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
    BLOCK_K: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
    DOT: tl.constexpr,
    HELD: tl.constexpr,
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
    phase = 0
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    is_held = (row < first) & (row >= first - HELD)
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
    if RESUME:
        window_v_base = window_v_pointer + (batch * HELD * heads + head) * V + (start + HELD) * heads * V
        v += tl.load(
            window_v_base + row[:, None] * (heads * V) + value[None, :],
            mask=is_held[:, None] & is_value[None, :],
            other=0.0,
        )
    d_attention = tl.dot(d_reads.to(DOT), tl.trans(v.to(DOT)), input_precision=PRECISION)
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
    if RESUME:
        window_k_base = window_k_pointer + (batch * HELD * heads + head) * K + (start + HELD) * heads * K
        k += tl.load(
            window_k_base + row[:, None] * (heads * K) + feature[None, :],
            mask=is_held[:, None] & is_feature[None, :],
            other=0.0,
        )
    product = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
    # Q X^T
    scores = 0.5 * (product * product) + product + 1.0
    d_weights = d_attention * scores
    tl.store(
        d_gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        d_weights,
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_carried(
    d_gate_kept_pointer,
    d_gate_last_weights_halo_pointer,
    d_gate_read_decay_pointer,
    d_memory_next_blocks_pointer,
    d_y_pointer,
    k_pointer,
    length_pointer,
    memory_blocks_pointer,
    monomial_entry_0_pointer,
    monomial_entry_1_pointer,
    monomial_scale_0_pointer,
    monomial_scale_1_pointer,
    monomial_scale_2_pointer,
    position_pointer,
    q_pointer,
    v_pointer,
    window_k_pointer,
    window_v_pointer,
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
    """Gradients of one block: d_gate_read_decay, d_gate_kept, d_gate_last_weights_halo."""
    program = tl.program_id(0)
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    row = tl.arange(0, BLOCK_ROWS)
    halo_row = tl.arange(0, BLOCK_HALO)
    halo_row = tl.where(halo_row < HALO, halo_row - HALO, ROWS)  # negative: before the block
    feature = tl.arange(0, BLOCK_K)
    is_feature = feature < K
    value = tl.arange(0, BLOCK_V)
    is_value = value < V
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    phase = 0
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    earliest = tl.cast(tl.maximum(-start, -HALO), tl.int32)
    is_halo = (halo_row >= earliest) & (halo_row < tl.minimum(last, 0))
    is_held_halo = (halo_row < earliest) & (halo_row >= earliest - HELD)
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    product = tl.zeros([BLOCK_ROWS], dtype=tl.float32)
    total = tl.zeros([BLOCK_V], dtype=tl.float32)
    d_last_weights_halo = tl.zeros([BLOCK_HALO], dtype=tl.float32)
    q = tl.load(
        q_block + row[:, None] * q_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    d_reads = tl.load(
        d_y_block + row[:, None] * d_y_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
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
        memory = tl.load(
            memory_blocks_pointer + slot * (F * V) + monomial[:, None] * V + value[None, :],
            mask=is_monomial[:, None] & is_value[None, :],
            other=0.0,
        )
        product_2 = tl.dot(d_reads.to(DOT), tl.trans(memory.to(DOT)), input_precision=PRECISION)
        product += tl.sum(queries * product_2, 1)
        d_memory_next = tl.load(
            d_memory_next_blocks_pointer + slot * (F * V) + monomial[:, None] * V + value[None, :],
            mask=is_monomial[:, None] & is_value[None, :],
            other=0.0,
        )
        total += tl.sum(d_memory_next * memory, 0)
        product_3 = tl.dot(v_halo.to(DOT), tl.trans(d_memory_next.to(DOT)), input_precision=PRECISION)
        # X = phi(k)
        features_halo = (
            monomial_weights[None, :] * take(k_halo, monomial_entry_0) * take(k_halo, monomial_entry_1)
        )
        d_last_weights_halo += tl.sum(product_3 * features_halo, 1)
    tl.store(d_gate_read_decay_pointer + slot * ROWS + row, product, mask=row < ROWS)
    d_kept = tl.sum(total, 0)
    tl.store(d_gate_kept_pointer + slot, d_kept)
    tl.store(
        d_gate_last_weights_halo_pointer + slot * HALO + (halo_row + HALO),
        d_last_weights_halo,
        mask=halo_row < 0,
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_last(
    d_gate_last_weights_pointer,
    d_memory_next_blocks_pointer,
    k_pointer,
    length_pointer,
    monomial_entry_0_pointer,
    monomial_entry_1_pointer,
    monomial_scale_0_pointer,
    monomial_scale_1_pointer,
    monomial_scale_2_pointer,
    position_pointer,
    v_pointer,
    window_k_pointer,
    window_v_pointer,
    k_head,
    k_row,
    v_head,
    v_row,
    tokens,
    heads,
    blocks,
    HAS_LENGTH: tl.constexpr,
    RESUME: tl.constexpr,
    BLOCK_F: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
    DOT: tl.constexpr,
    F: tl.constexpr,
    HELD: tl.constexpr,
    K: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    V: tl.constexpr,
):
    """Gradients of one block: d_gate_last_weights."""
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
    phase = 0
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    is_held = (row < first) & (row >= first - HELD)
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    d_last_weights = tl.zeros([BLOCK_ROWS], dtype=tl.float32)
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
    for monomial_start in range(0, F, BLOCK_F):
        monomial = monomial_start + tl.arange(0, BLOCK_F)
        is_monomial = monomial < F
        d_memory_next = tl.load(
            d_memory_next_blocks_pointer + slot * (F * V) + monomial[:, None] * V + value[None, :],
            mask=is_monomial[:, None] & is_value[None, :],
            other=0.0,
        )
        product = tl.dot(v.to(DOT), tl.trans(d_memory_next.to(DOT)), input_precision=PRECISION)
        monomial_scale_0 = tl.load(monomial_scale_0_pointer + monomial, mask=is_monomial, other=0)
        monomial_scale_1 = tl.load(monomial_scale_1_pointer + monomial, mask=is_monomial, other=0)
        monomial_scale_2 = tl.load(monomial_scale_2_pointer + monomial, mask=is_monomial, other=0)
        monomial_weights = monomial_scale_0 + monomial_scale_1 + 0.7071067811865476 * monomial_scale_2
        monomial_entry_0 = tl.load(monomial_entry_0_pointer + monomial, mask=is_monomial, other=0)
        monomial_entry_1 = tl.load(monomial_entry_1_pointer + monomial, mask=is_monomial, other=0)
        # X = phi(k)
        features = monomial_weights[None, :] * take(k, monomial_entry_0) * take(k, monomial_entry_1)
        d_last_weights += tl.sum(product * features, 1)
    tl.store(d_gate_last_weights_pointer + slot * ROWS + row, d_last_weights, mask=row < ROWS)


@triton.jit(do_not_specialize=["tokens", "blocks"])
def gates_gradient(
    d_gate_kept_pointer,
    d_gate_last_weights_halo_pointer,
    d_gate_last_weights_pointer,
    d_gate_read_decay_pointer,
    d_gate_weights_halo_pointer,
    d_gate_weights_pointer,
    d_log_alpha_pointer,
    gamma_pointer,
    gate_kept_pointer,
    gate_read_decay_pointer,
    length_pointer,
    log_alpha_pointer,
    position_pointer,
    window_gamma_pointer,
    d_log_alpha_head,
    d_log_alpha_row,
    gamma_head,
    gamma_row,
    log_alpha_head,
    log_alpha_row,
    tokens,
    heads,
    blocks,
    HAS_LENGTH: tl.constexpr,
    RESUME: tl.constexpr,
    BLOCK_HALO: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    DOT: tl.constexpr,
    HALO: tl.constexpr,
    HELD: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Gradients of one block's gates, from those of decays and weights: d_log_alpha."""
    program = tl.program_id(0)
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    row = tl.arange(0, BLOCK_ROWS)
    halo_row = tl.arange(0, BLOCK_HALO)
    halo_row = tl.where(halo_row < HALO, halo_row - HALO, ROWS)  # negative: before the block
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    position = tl.load(position_pointer + batch) if RESUME else 0
    phase = 0
    seen = tl.minimum(position, HELD)  # rows of the window that hold tokens
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    is_held = (row < first) & (row >= first - HELD)
    earliest = tl.cast(tl.maximum(-start, -HALO), tl.int32)
    is_halo = (halo_row >= earliest) & (halo_row < tl.minimum(last, 0))
    is_held_halo = (halo_row < earliest) & (halo_row >= earliest - HELD)
    gamma_block = gamma_pointer + (batch * tokens + start) * gamma_row + head * gamma_head
    log_alpha_block = log_alpha_pointer + (batch * tokens + start) * log_alpha_row + head * log_alpha_head
    d_read_decay = tl.load(d_gate_read_decay_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    # a: decay of the memory since the block's start
    read_decay = tl.load(gate_read_decay_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    d_last_weights_halo = tl.load(
        d_gate_last_weights_halo_pointer + slot * HALO + (halo_row + HALO),
        mask=halo_row < 0,
        other=0.0,
    )
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
    product = tl.sum(d_last_weights_halo[None, :] * window_halo, 1)
    d_last_weights = tl.load(d_gate_last_weights_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
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
    product_2 = tl.sum(d_last_weights[None, :] * window, 1)
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
    running = tl.sum(
        tl.where(row[:, None] > row[None, :], ((product + product_2) * until_end)[None, :], 0.0),
        1,
    )
    d_weights_halo = tl.load(
        d_gate_weights_halo_pointer + slot * (ROWS * HALO) + row[:, None] * HALO + (halo_row + HALO)[None, :],
        mask=(row < ROWS)[:, None] & (halo_row < 0)[None, :],
        other=0.0,
    )
    product_3 = tl.dot(d_weights_halo.to(DOT), tl.trans(window_halo.to(DOT)), input_precision=PRECISION)
    d_weights = tl.load(
        d_gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    product_4 = tl.dot(d_weights.to(DOT), tl.trans(window.to(DOT)), input_precision=PRECISION)
    decay = tl.exp(
        tl.where(
            (row[:, None] >= row[None, :]) & (log_alpha_reset_sum[:, None] == log_alpha_reset_sum[None, :]),
            log_alpha_coarse_sum[:, None]
            - log_alpha_coarse_sum[None, :]
            + (log_alpha_fine_sum[:, None] - log_alpha_fine_sum[None, :]),
            float("-inf"),
        )
    )
    banded = tl.where(row[:, None] - row[None, :] >= 1, (product_3 + product_4) * decay, 0.0)
    banded_2 = tl.where(row[:, None] >= row[None, :], tl.cumsum(banded, 1) - banded, 0.0)
    combined = tl.cumsum(d_read_decay * read_decay, 0, reverse=True) + (running + tl.sum(banded_2, 0))
    d_kept = tl.load(d_gate_kept_pointer + slot)
    # a_C: decay of the memory over the block
    kept = tl.load(gate_kept_pointer + slot)
    d_log_alpha_block = (
        d_log_alpha_pointer + (batch * tokens + start) * d_log_alpha_row + head * d_log_alpha_head
    )
    tl.store(d_log_alpha_block + row * d_log_alpha_row, combined + d_kept * kept, mask=live)


@triton.jit(do_not_specialize=["tokens", "blocks"])
def gates_gradient_window(
    d_gamma_halo_pointer,
    d_gamma_pointer,
    d_gate_last_weights_halo_pointer,
    d_gate_last_weights_pointer,
    d_gate_weights_halo_pointer,
    d_gate_weights_pointer,
    d_window_gamma_pointer,
    length_pointer,
    log_alpha_pointer,
    position_pointer,
    d_gamma_head,
    d_gamma_row,
    log_alpha_head,
    log_alpha_row,
    tokens,
    heads,
    blocks,
    HAS_LENGTH: tl.constexpr,
    RESUME: tl.constexpr,
    BLOCK_HALO: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    DOT: tl.constexpr,
    HALO: tl.constexpr,
    HELD: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Gradients of one block's gates, from those of decays and weights: d_gamma, d_gamma_halo."""
    program = tl.program_id(0)
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    row = tl.arange(0, BLOCK_ROWS)
    halo_row = tl.arange(0, BLOCK_HALO)
    halo_row = tl.where(halo_row < HALO, halo_row - HALO, ROWS)  # negative: before the block
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    position = tl.load(position_pointer + batch) if RESUME else 0
    phase = 0
    seen = tl.minimum(position, HELD)  # rows of the window that hold tokens
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    is_held = (row < first) & (row >= first - HELD)
    earliest = tl.cast(tl.maximum(-start, -HALO), tl.int32)
    log_alpha_block = log_alpha_pointer + (batch * tokens + start) * log_alpha_row + head * log_alpha_head
    d_last_weights = tl.load(d_gate_last_weights_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
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
    d_weights = tl.load(
        d_gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    decay = tl.exp(
        tl.where(
            (row[:, None] >= row[None, :]) & (log_alpha_reset_sum[:, None] == log_alpha_reset_sum[None, :]),
            log_alpha_coarse_sum[:, None]
            - log_alpha_coarse_sum[None, :]
            + (log_alpha_fine_sum[:, None] - log_alpha_fine_sum[None, :]),
            float("-inf"),
        )
    )
    product = tl.dot(tl.trans(decay.to(DOT)), d_weights.to(DOT), input_precision=PRECISION)
    d_window = d_last_weights[None, :] * until_end[:, None] + product
    live_2 = live.to(tl.float32)
    banded = tl.where(
        (row[:, None] >= row[None, :]) & (row[:, None] - row[None, :] <= 15),
        d_window * live_2[:, None],
        0.0,
    )
    exists = ((row >= first - seen) & (row < last)).to(tl.float32)
    d_gamma_block = d_gamma_pointer + (batch * tokens + start) * d_gamma_row + head * d_gamma_head
    tl.store(d_gamma_block + row * d_gamma_row, tl.sum(banded, 0) * exists, mask=live)
    if RESUME:
        d_window_gamma_base = d_window_gamma_pointer + (batch * HELD * heads + head) + (start + HELD) * heads
        tl.store(d_window_gamma_base + row * heads, tl.sum(banded, 0) * exists, mask=is_held)
    d_last_weights_halo = tl.load(
        d_gate_last_weights_halo_pointer + slot * HALO + (halo_row + HALO),
        mask=halo_row < 0,
        other=0.0,
    )
    d_weights_halo = tl.load(
        d_gate_weights_halo_pointer + slot * (ROWS * HALO) + row[:, None] * HALO + (halo_row + HALO)[None, :],
        mask=(row < ROWS)[:, None] & (halo_row < 0)[None, :],
        other=0.0,
    )
    product_2 = tl.dot(tl.trans(decay.to(DOT)), d_weights_halo.to(DOT), input_precision=PRECISION)
    d_window_halo = d_last_weights_halo[None, :] * until_end[:, None] + product_2
    banded_2 = tl.where(
        (row[:, None] >= halo_row[None, :]) & (row[:, None] - halo_row[None, :] <= 15),
        d_window_halo * live_2[:, None],
        0.0,
    )
    exists_halo = ((halo_row >= earliest - seen) & (halo_row < tl.minimum(last, 0))).to(tl.float32)
    tl.store(
        d_gamma_halo_pointer + slot * HALO + (halo_row + HALO),
        tl.sum(banded_2, 0) * exists_halo,
        mask=halo_row < 0,
    )

"""Kernels of the memory rule omeganet_linear_poly2 (split_all_4_F).

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
    lr_pointer,
    position_pointer,
    window_gamma_pointer,
    gamma_head,
    gamma_row,
    log_alpha_head,
    log_alpha_row,
    lr_head,
    lr_row,
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
    phase = position % ROWS
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
    lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
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
    weights_halo = tl.dot(value_2.to(DOT), window_halo.to(DOT), input_precision=PRECISION)
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
    value_3 = until_end * lr
    # p_C: last row of P
    last_weights = tl.sum(value_3[:, None] * window, 0)
    tl.store(gate_last_weights_pointer + slot * ROWS + row, last_weights, mask=row < ROWS)
    # p_C: last row of P
    last_weights_halo = tl.sum(value_3[:, None] * window_halo, 0)
    tl.store(
        gate_last_weights_halo_pointer + slot * HALO + (halo_row + HALO),
        last_weights_halo,
        mask=halo_row < 0,
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def state(
    anchor_final_pointer,
    anchor_pointer,
    coefficients_pointer,
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
    coefficients_columns,
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
    position = tl.load(position_pointer + batch) if RESUME else 0
    phase = position % ROWS
    # the block that is still open after the call
    open_block = tl.cast((phase + end) // ROWS, tl.int64)
    coefficients = tl.load(coefficients_pointer + head * coefficients_columns + 0).to(tl.float32)
    coefficients_2 = tl.load(coefficients_pointer + head * coefficients_columns + 1).to(tl.float32)
    coefficients_3 = tl.load(coefficients_pointer + head * coefficients_columns + 2).to(tl.float32)
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
        # pred = phi(k) M*
        predictions = tl.zeros([BLOCK_ROWS, BLOCK_V], dtype=tl.float32)
        # pred = phi(k) M*
        predictions_halo = tl.zeros([BLOCK_HALO, BLOCK_V], dtype=tl.float32)
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
            monomial_weights = (
                monomial_scale_0 * tl.sqrt(coefficients)
                + monomial_scale_1 * tl.sqrt(coefficients_2)
                + monomial_scale_2 * tl.sqrt(coefficients_3)
            )
            monomial_entry_0 = tl.load(monomial_entry_0_pointer + monomial, mask=is_monomial, other=0)
            monomial_entry_1 = tl.load(monomial_entry_1_pointer + monomial, mask=is_monomial, other=0)
            # X = phi(k)
            features = monomial_weights[None, :] * take(k, monomial_entry_0) * take(k, monomial_entry_1)
            anchor = (
                tl.load(
                    anchor_pointer + memory_index * (F * V) + monomial[:, None] * V + value[None, :],
                    mask=is_monomial[:, None] & is_value[None, :],
                    other=0.0,
                )
                if RESUME
                else 0.0
            )
            memory = tl.load(
                memory_blocks_pointer + slot * (F * V) + monomial[:, None] * V + value[None, :],
                mask=is_monomial[:, None] & is_value[None, :],
                other=0.0,
            )
            # M*: the memory at the last border
            anchor_point = tl.where(block == 0, anchor, memory) if RESUME else memory
            predictions += tl.dot(features.to(DOT), anchor_point.to(DOT), input_precision=PRECISION)
            # X = phi(k)
            features_halo = (
                monomial_weights[None, :] * take(k_halo, monomial_entry_0) * take(k_halo, monomial_entry_1)
            )
            predictions_halo += tl.dot(features_halo.to(DOT), anchor_point.to(DOT), input_precision=PRECISION)
        if STORE_FINAL:
            if block == open_block:
                for monomial_start in range(0, F, BLOCK_F):
                    monomial = monomial_start + tl.arange(0, BLOCK_F)
                    is_monomial = monomial < F
                    anchor_2 = (
                        tl.load(
                            anchor_pointer + memory_index * (F * V) + monomial[:, None] * V + value[None, :],
                            mask=is_monomial[:, None] & is_value[None, :],
                            other=0.0,
                        )
                        if RESUME
                        else 0.0
                    )
                    memory_2 = tl.load(
                        memory_blocks_pointer + slot * (F * V) + monomial[:, None] * V + value[None, :],
                        mask=is_monomial[:, None] & is_value[None, :],
                        other=0.0,
                    )
                    # M*: the memory at the last border
                    anchor_point_2 = tl.where(block == 0, anchor_2, memory_2) if RESUME else memory_2
                    tl.store(
                        anchor_final_pointer
                        + memory_index * (F * V)
                        + monomial[:, None] * V
                        + value[None, :],
                        anchor_point_2,
                        mask=is_monomial[:, None] & is_value[None, :],
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
        if RESUME:
            window_v_base = window_v_pointer + (batch * HELD * heads + head) * V + (start + HELD) * heads * V
            v += tl.load(
                window_v_base + row[:, None] * (heads * V) + value[None, :],
                mask=is_held[:, None] & is_value[None, :],
                other=0.0,
            )
        # E = dl/dpred at the block's M*
        errors = predictions - v
        # p_C: last row of P
        last_weights_halo = tl.load(
            gate_last_weights_halo_pointer + slot * HALO + (halo_row + HALO),
            mask=halo_row < 0,
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
        # E = dl/dpred at the block's M*
        errors_halo = predictions_halo - v_halo
        for monomial_start in range(0, F, BLOCK_F):
            monomial = monomial_start + tl.arange(0, BLOCK_F)
            is_monomial = monomial < F
            memory_3 = tl.load(
                memory_blocks_pointer + slot * (F * V) + monomial[:, None] * V + value[None, :],
                mask=is_monomial[:, None] & is_value[None, :],
                other=0.0,
            )
            monomial_scale_0_2 = tl.load(monomial_scale_0_pointer + monomial, mask=is_monomial, other=0)
            monomial_scale_1_2 = tl.load(monomial_scale_1_pointer + monomial, mask=is_monomial, other=0)
            monomial_scale_2_2 = tl.load(monomial_scale_2_pointer + monomial, mask=is_monomial, other=0)
            monomial_weights_2 = (
                monomial_scale_0_2 * tl.sqrt(coefficients)
                + monomial_scale_1_2 * tl.sqrt(coefficients_2)
                + monomial_scale_2_2 * tl.sqrt(coefficients_3)
            )
            monomial_entry_0_2 = tl.load(monomial_entry_0_pointer + monomial, mask=is_monomial, other=0)
            monomial_entry_1_2 = tl.load(monomial_entry_1_pointer + monomial, mask=is_monomial, other=0)
            # X = phi(k)
            features_2 = (
                monomial_weights_2[None, :] * take(k, monomial_entry_0_2) * take(k, monomial_entry_1_2)
            )
            product = tl.dot(
                tl.trans((last_weights[:, None] * features_2).to(DOT)),
                errors.to(DOT),
                input_precision=PRECISION,
            )
            value_2 = monomial_weights_2[None, :] * take(k_halo, monomial_entry_0_2)
            # X = phi(k)
            features_halo_2 = value_2 * take(k_halo, monomial_entry_1_2)
            product_2 = tl.dot(
                tl.trans((last_weights_halo[:, None] * features_halo_2).to(DOT)),
                errors_halo.to(DOT),
                input_precision=PRECISION,
            )
            # M at the end
            memory_next = kept * memory_3 - product - product_2
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
                    if open_block >= blocks:
                        tl.store(
                            anchor_final_pointer
                            + memory_index * (F * V)
                            + monomial[:, None] * V
                            + value[None, :],
                            memory_next,
                            mask=is_monomial[:, None] & is_value[None, :],
                        )
        tl.debug_barrier()  # the next block reads what this one wrote


@triton.jit(do_not_specialize=["tokens", "blocks"])
def sources(
    anchor_pointer,
    coefficients_pointer,
    k_pointer,
    length_pointer,
    memory_blocks_pointer,
    monomial_entry_0_pointer,
    monomial_entry_1_pointer,
    monomial_scale_0_pointer,
    monomial_scale_1_pointer,
    monomial_scale_2_pointer,
    position_pointer,
    rows_predictions_0_pointer,
    rows_predictions_halo_1_pointer,
    window_k_pointer,
    coefficients_columns,
    k_head,
    k_row,
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
    """Rows of one block that later kernels read: rows_predictions_0, rows_predictions_halo_1."""
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
    position = tl.load(position_pointer + batch) if RESUME else 0
    phase = position % ROWS
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
    # pred = phi(k) M*
    predictions = tl.zeros([BLOCK_ROWS, BLOCK_V], dtype=tl.float32)
    # pred = phi(k) M*
    predictions_halo = tl.zeros([BLOCK_HALO, BLOCK_V], dtype=tl.float32)
    coefficients = tl.load(coefficients_pointer + head * coefficients_columns + 0).to(tl.float32)
    coefficients_2 = tl.load(coefficients_pointer + head * coefficients_columns + 1).to(tl.float32)
    coefficients_3 = tl.load(coefficients_pointer + head * coefficients_columns + 2).to(tl.float32)
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
        monomial_weights = (
            monomial_scale_0 * tl.sqrt(coefficients)
            + monomial_scale_1 * tl.sqrt(coefficients_2)
            + monomial_scale_2 * tl.sqrt(coefficients_3)
        )
        monomial_entry_0 = tl.load(monomial_entry_0_pointer + monomial, mask=is_monomial, other=0)
        monomial_entry_1 = tl.load(monomial_entry_1_pointer + monomial, mask=is_monomial, other=0)
        # X = phi(k)
        features = monomial_weights[None, :] * take(k, monomial_entry_0) * take(k, monomial_entry_1)
        anchor = (
            tl.load(
                anchor_pointer + memory_index * (F * V) + monomial[:, None] * V + value[None, :],
                mask=is_monomial[:, None] & is_value[None, :],
                other=0.0,
            )
            if RESUME
            else 0.0
        )
        memory = tl.load(
            memory_blocks_pointer + slot * (F * V) + monomial[:, None] * V + value[None, :],
            mask=is_monomial[:, None] & is_value[None, :],
            other=0.0,
        )
        # M*: the memory at the last border
        anchor_point = tl.where(block == 0, anchor, memory) if RESUME else memory
        predictions += tl.dot(features.to(DOT), anchor_point.to(DOT), input_precision=PRECISION)
        # X = phi(k)
        features_halo = (
            monomial_weights[None, :] * take(k_halo, monomial_entry_0) * take(k_halo, monomial_entry_1)
        )
        predictions_halo += tl.dot(features_halo.to(DOT), anchor_point.to(DOT), input_precision=PRECISION)
    tl.store(
        rows_predictions_0_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        predictions,
        mask=(row < ROWS)[:, None] & is_value[None, :],
    )
    tl.store(
        rows_predictions_halo_1_pointer + slot * (HALO * V) + (halo_row + HALO)[:, None] * V + value[None, :],
        predictions_halo,
        mask=(halo_row < 0)[:, None] & is_value[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output(
    coefficients_pointer,
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
    rows_predictions_0_pointer,
    rows_predictions_halo_1_pointer,
    v_pointer,
    window_k_pointer,
    window_v_pointer,
    y_pointer,
    coefficients_columns,
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
    position = tl.load(position_pointer + batch) if RESUME else 0
    phase = position % ROWS
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
    coefficients = tl.load(coefficients_pointer + head * coefficients_columns + 0).to(tl.float32)
    coefficients_2 = tl.load(coefficients_pointer + head * coefficients_columns + 1).to(tl.float32)
    coefficients_3 = tl.load(coefficients_pointer + head * coefficients_columns + 2).to(tl.float32)
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
        monomial_weights = (
            monomial_scale_0 * tl.sqrt(coefficients)
            + monomial_scale_1 * tl.sqrt(coefficients_2)
            + monomial_scale_2 * tl.sqrt(coefficients_3)
        )
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
    scores = coefficients_3 * (product_2 * product_2) + product_2 * coefficients_2 + coefficients
    # P: source weights by read
    weights = tl.load(
        gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    # (Q X^T) * P
    attention = scores * weights
    # pred = phi(k) M*
    predictions = tl.load(
        rows_predictions_0_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
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
    # P: source weights by read
    weights_halo = tl.load(
        gate_weights_halo_pointer + slot * (ROWS * HALO) + row[:, None] * HALO + (halo_row + HALO)[None, :],
        mask=(row < ROWS)[:, None] & (halo_row < 0)[None, :],
        other=0.0,
    )
    # (Q X^T) * P
    attention_halo = scores_halo * weights_halo
    # pred = phi(k) M*
    predictions_halo = tl.load(
        rows_predictions_halo_1_pointer + slot * (HALO * V) + (halo_row + HALO)[:, None] * V + value[None, :],
        mask=(halo_row < 0)[:, None] & is_value[None, :],
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
    # E = dl/dpred at the block's M*
    errors_halo = predictions_halo - v_halo
    product_5 = tl.dot(attention_halo.to(DOT), errors_halo.to(DOT), input_precision=PRECISION)
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = read_decay[:, None] * product - product_3 - product_5
    y_block = y_pointer + (batch * tokens + start) * y_row + head * y_head
    tl.store(y_block + row[:, None] * y_row + value[None, :], reads, mask=live[:, None] & is_value[None, :])


@triton.jit(do_not_specialize=["tokens", "blocks"])
def read_gradients_1_h_V(
    coefficients_pointer,
    d_y_pointer,
    gate_weights_halo_pointer,
    k_pointer,
    length_pointer,
    position_pointer,
    q_pointer,
    rows_value_2_pointer,
    window_k_pointer,
    coefficients_columns,
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
    BLOCK_HALO: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
    DOT: tl.constexpr,
    HALO: tl.constexpr,
    HELD: tl.constexpr,
    K: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    V: tl.constexpr,
):
    """Rows of one block that later kernels read: rows_value_2."""
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
    position = tl.load(position_pointer + batch) if RESUME else 0
    phase = position % ROWS
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    earliest = tl.cast(tl.maximum(-start, -HALO), tl.int32)
    is_halo = (halo_row >= earliest) & (halo_row < tl.minimum(last, 0))
    is_held_halo = (halo_row < earliest) & (halo_row >= earliest - HELD)
    d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
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
    coefficients = tl.load(coefficients_pointer + head * coefficients_columns + 0).to(tl.float32)
    coefficients_2 = tl.load(coefficients_pointer + head * coefficients_columns + 1).to(tl.float32)
    coefficients_3 = tl.load(coefficients_pointer + head * coefficients_columns + 2).to(tl.float32)
    # Q X^T
    scores_halo = coefficients_3 * (product * product) + product * coefficients_2 + coefficients
    # P: source weights by read
    weights_halo = tl.load(
        gate_weights_halo_pointer + slot * (ROWS * HALO) + row[:, None] * HALO + (halo_row + HALO)[None, :],
        mask=(row < ROWS)[:, None] & (halo_row < 0)[None, :],
        other=0.0,
    )
    # (Q X^T) * P
    attention_halo = scores_halo * weights_halo
    product_2 = tl.dot(tl.trans(attention_halo.to(DOT)), d_reads.to(DOT), input_precision=PRECISION)
    tl.store(
        rows_value_2_pointer + slot * (HALO * V) + (halo_row + HALO)[:, None] * V + value[None, :],
        product_2,
        mask=(halo_row < 0)[:, None] & is_value[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def read_gradients_1_s_V(
    coefficients_pointer,
    d_y_pointer,
    gate_weights_pointer,
    k_pointer,
    length_pointer,
    position_pointer,
    q_pointer,
    rows_value_4_pointer,
    window_k_pointer,
    coefficients_columns,
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
    """Rows of one block that later kernels read: rows_value_4."""
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
    is_held = (row < first) & (row >= first - HELD)
    d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
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
    coefficients = tl.load(coefficients_pointer + head * coefficients_columns + 0).to(tl.float32)
    coefficients_2 = tl.load(coefficients_pointer + head * coefficients_columns + 1).to(tl.float32)
    coefficients_3 = tl.load(coefficients_pointer + head * coefficients_columns + 2).to(tl.float32)
    # Q X^T
    scores = coefficients_3 * (product * product) + product * coefficients_2 + coefficients
    # P: source weights by read
    weights = tl.load(
        gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    # (Q X^T) * P
    attention = scores * weights
    product_2 = tl.dot(tl.trans(attention.to(DOT)), d_reads.to(DOT), input_precision=PRECISION)
    tl.store(
        rows_value_4_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        product_2,
        mask=(row < ROWS)[:, None] & is_value[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def state_gradient(
    coefficients_pointer,
    d_anchor_final_pointer,
    d_anchor_pointer,
    d_memory_next_blocks_pointer,
    d_memory_pointer,
    d_y_pointer,
    gate_kept_pointer,
    gate_last_weights_halo_pointer,
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
    rows_d_errors_5_pointer,
    rows_d_errors_halo_3_pointer,
    rows_value_2_pointer,
    rows_value_4_pointer,
    window_k_pointer,
    coefficients_columns,
    d_y_head,
    d_y_row,
    k_head,
    k_row,
    q_head,
    q_row,
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
    """The gradient of the memory from the last block to the first, tile by tile."""
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
    position = tl.load(position_pointer + batch) if RESUME else 0
    phase = position % ROWS
    # the block that is still open after the call
    open_block = tl.cast((phase + end) // ROWS, tl.int64)
    coefficients = tl.load(coefficients_pointer + head * coefficients_columns + 0).to(tl.float32)
    coefficients_2 = tl.load(coefficients_pointer + head * coefficients_columns + 1).to(tl.float32)
    coefficients_3 = tl.load(coefficients_pointer + head * coefficients_columns + 2).to(tl.float32)
    for turn in tl.range(0, blocks * 5, disable_licm=True):
        step = turn // 5
        part = turn % 5
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
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
        q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
        if part == 0:
            rows_value_2 = tl.load(
                rows_value_2_pointer + slot * (HALO * V) + (halo_row + HALO)[:, None] * V + value[None, :],
                mask=(halo_row < 0)[:, None] & is_value[None, :],
                other=0.0,
            )
            d_errors_halo = -rows_value_2
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
                window_k_base = (
                    window_k_pointer + (batch * HELD * heads + head) * K + (start + HELD) * heads * K
                )
                k_halo += tl.load(
                    window_k_base + halo_row[:, None] * (heads * K) + feature[None, :],
                    mask=is_held_halo[:, None] & is_feature[None, :],
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
                monomial_scale_0 = tl.load(monomial_scale_0_pointer + monomial, mask=is_monomial, other=0)
                monomial_scale_1 = tl.load(monomial_scale_1_pointer + monomial, mask=is_monomial, other=0)
                monomial_scale_2 = tl.load(monomial_scale_2_pointer + monomial, mask=is_monomial, other=0)
                monomial_weights = (
                    monomial_scale_0 * tl.sqrt(coefficients)
                    + monomial_scale_1 * tl.sqrt(coefficients_2)
                    + monomial_scale_2 * tl.sqrt(coefficients_3)
                )
                monomial_entry_0 = tl.load(monomial_entry_0_pointer + monomial, mask=is_monomial, other=0)
                monomial_entry_1 = tl.load(monomial_entry_1_pointer + monomial, mask=is_monomial, other=0)
                # X = phi(k)
                features_halo = (
                    monomial_weights[None, :]
                    * take(k_halo, monomial_entry_0)
                    * take(k_halo, monomial_entry_1)
                )
                d_errors_halo += tl.dot(
                    (last_weights_halo[:, None] * features_halo).to(DOT),
                    (-d_memory_next).to(DOT),
                    input_precision=PRECISION,
                )
            tl.store(
                rows_d_errors_halo_3_pointer
                + slot * (HALO * V)
                + (halo_row + HALO)[:, None] * V
                + value[None, :],
                d_errors_halo,
                mask=(halo_row < 0)[:, None] & is_value[None, :],
            )
        if part == 1:
            rows_value_4 = tl.load(
                rows_value_4_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            d_errors = -rows_value_4
            # p_C: last row of P
            last_weights = tl.load(gate_last_weights_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
            k = tl.load(
                k_block + row[:, None] * k_row + feature[None, :],
                mask=live[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            if RESUME:
                window_k_base = (
                    window_k_pointer + (batch * HELD * heads + head) * K + (start + HELD) * heads * K
                )
                k += tl.load(
                    window_k_base + row[:, None] * (heads * K) + feature[None, :],
                    mask=is_held[:, None] & is_feature[None, :],
                    other=0.0,
                )
            for monomial_start in range(0, F, BLOCK_F):
                monomial = monomial_start + tl.arange(0, BLOCK_F)
                is_monomial = monomial < F
                d_memory_next_2 = tl.load(
                    d_memory_next_blocks_pointer + slot * (F * V) + monomial[:, None] * V + value[None, :],
                    mask=is_monomial[:, None] & is_value[None, :],
                    other=0.0,
                )
                monomial_scale_0_2 = tl.load(monomial_scale_0_pointer + monomial, mask=is_monomial, other=0)
                monomial_scale_1_2 = tl.load(monomial_scale_1_pointer + monomial, mask=is_monomial, other=0)
                monomial_scale_2_2 = tl.load(monomial_scale_2_pointer + monomial, mask=is_monomial, other=0)
                monomial_weights_2 = (
                    monomial_scale_0_2 * tl.sqrt(coefficients)
                    + monomial_scale_1_2 * tl.sqrt(coefficients_2)
                    + monomial_scale_2_2 * tl.sqrt(coefficients_3)
                )
                monomial_entry_0_2 = tl.load(monomial_entry_0_pointer + monomial, mask=is_monomial, other=0)
                monomial_entry_1_2 = tl.load(monomial_entry_1_pointer + monomial, mask=is_monomial, other=0)
                # X = phi(k)
                features = (
                    monomial_weights_2[None, :] * take(k, monomial_entry_0_2) * take(k, monomial_entry_1_2)
                )
                d_errors += tl.dot(
                    (last_weights[:, None] * features).to(DOT),
                    (-d_memory_next_2).to(DOT),
                    input_precision=PRECISION,
                )
            tl.store(
                rows_d_errors_5_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                d_errors,
                mask=(row < ROWS)[:, None] & is_value[None, :],
            )
        if part == 2:
            # a_C: decay of the memory over the block
            kept = tl.load(gate_kept_pointer + slot)
            d_errors_halo_2 = tl.load(
                rows_d_errors_halo_3_pointer
                + slot * (HALO * V)
                + (halo_row + HALO)[:, None] * V
                + value[None, :],
                mask=(halo_row < 0)[:, None] & is_value[None, :],
                other=0.0,
            )
            k_halo_2 = tl.load(
                k_block + halo_row[:, None] * k_row + feature[None, :],
                mask=is_halo[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            if RESUME:
                window_k_base = (
                    window_k_pointer + (batch * HELD * heads + head) * K + (start + HELD) * heads * K
                )
                k_halo_2 += tl.load(
                    window_k_base + halo_row[:, None] * (heads * K) + feature[None, :],
                    mask=is_held_halo[:, None] & is_feature[None, :],
                    other=0.0,
                )
            d_errors_2 = tl.load(
                rows_d_errors_5_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            k_2 = tl.load(
                k_block + row[:, None] * k_row + feature[None, :],
                mask=live[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            if RESUME:
                window_k_base = (
                    window_k_pointer + (batch * HELD * heads + head) * K + (start + HELD) * heads * K
                )
                k_2 += tl.load(
                    window_k_base + row[:, None] * (heads * K) + feature[None, :],
                    mask=is_held[:, None] & is_feature[None, :],
                    other=0.0,
                )
            for monomial_start in range(0, F, BLOCK_F):
                monomial = monomial_start + tl.arange(0, BLOCK_F)
                is_monomial = monomial < F
                d_memory_next_3 = tl.load(
                    d_memory_next_blocks_pointer + slot * (F * V) + monomial[:, None] * V + value[None, :],
                    mask=is_monomial[:, None] & is_value[None, :],
                    other=0.0,
                )
                d_anchor = tl.zeros([BLOCK_F, BLOCK_V], dtype=tl.float32)
                if GRAD_FINAL:
                    if block == open_block:
                        d_anchor += tl.load(
                            d_anchor_final_pointer
                            + memory_index * (F * V)
                            + monomial[:, None] * V
                            + value[None, :],
                            mask=is_monomial[:, None] & is_value[None, :],
                            other=0.0,
                        )
                monomial_scale_0_3 = tl.load(monomial_scale_0_pointer + monomial, mask=is_monomial, other=0)
                monomial_scale_1_3 = tl.load(monomial_scale_1_pointer + monomial, mask=is_monomial, other=0)
                monomial_scale_2_3 = tl.load(monomial_scale_2_pointer + monomial, mask=is_monomial, other=0)
                monomial_weights_3 = (
                    monomial_scale_0_3 * tl.sqrt(coefficients)
                    + monomial_scale_1_3 * tl.sqrt(coefficients_2)
                    + monomial_scale_2_3 * tl.sqrt(coefficients_3)
                )
                monomial_entry_0_3 = tl.load(monomial_entry_0_pointer + monomial, mask=is_monomial, other=0)
                value_2 = monomial_weights_3[None, :] * take(k_halo_2, monomial_entry_0_3)
                monomial_entry_1_3 = tl.load(monomial_entry_1_pointer + monomial, mask=is_monomial, other=0)
                # X = phi(k)
                features_halo_2 = value_2 * take(k_halo_2, monomial_entry_1_3)
                product = tl.dot(
                    tl.trans(features_halo_2.to(DOT)),
                    d_errors_halo_2.to(DOT),
                    input_precision=PRECISION,
                )
                # X = phi(k)
                features_2 = (
                    monomial_weights_3[None, :]
                    * take(k_2, monomial_entry_0_3)
                    * take(k_2, monomial_entry_1_3)
                )
                product_2 = tl.dot(
                    tl.trans(features_2.to(DOT)),
                    d_errors_2.to(DOT),
                    input_precision=PRECISION,
                )
                at_border = tl.where(block == 0, 0.0, product_2) if RESUME else product_2
                combined = (
                    d_memory_next_3 * kept
                    + (tl.where(block == 0, 0.0, d_anchor) if RESUME else d_anchor)
                    + (tl.where(block == 0, 0.0, product) if RESUME else product)
                    + at_border
                )
                if block > 0:
                    tl.store(
                        d_memory_next_blocks_pointer
                        + (slot - 1) * (F * V)
                        + monomial[:, None] * V
                        + value[None, :],
                        combined,
                        mask=is_monomial[:, None] & is_value[None, :],
                    )
                else:
                    if GRAD_INITIAL:
                        tl.store(
                            d_memory_pointer
                            + memory_index * (F * V)
                            + monomial[:, None] * V
                            + value[None, :],
                            combined,
                            mask=is_monomial[:, None] & is_value[None, :],
                        )
        if part == 3:
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
                monomial_scale_0_4 = tl.load(monomial_scale_0_pointer + monomial, mask=is_monomial, other=0)
                monomial_scale_1_4 = tl.load(monomial_scale_1_pointer + monomial, mask=is_monomial, other=0)
                monomial_scale_2_4 = tl.load(monomial_scale_2_pointer + monomial, mask=is_monomial, other=0)
                monomial_weights_4 = (
                    monomial_scale_0_4 * tl.sqrt(coefficients)
                    + monomial_scale_1_4 * tl.sqrt(coefficients_2)
                    + monomial_scale_2_4 * tl.sqrt(coefficients_3)
                )
                monomial_entry_0_4 = tl.load(monomial_entry_0_pointer + monomial, mask=is_monomial, other=0)
                monomial_entry_1_4 = tl.load(monomial_entry_1_pointer + monomial, mask=is_monomial, other=0)
                # phi(q)
                queries = (
                    monomial_weights_4[None, :] * take(q, monomial_entry_0_4) * take(q, monomial_entry_1_4)
                )
                product_3 = tl.dot(
                    tl.trans(queries.to(DOT)),
                    (d_reads * read_decay[:, None]).to(DOT),
                    input_precision=PRECISION,
                )
                if block > 0:
                    tl.store(
                        d_memory_next_blocks_pointer
                        + (slot - 1) * (F * V)
                        + monomial[:, None] * V
                        + value[None, :],
                        product_3
                        + tl.load(
                            d_memory_next_blocks_pointer
                            + (slot - 1) * (F * V)
                            + monomial[:, None] * V
                            + value[None, :],
                            mask=is_monomial[:, None] & is_value[None, :],
                            other=0.0,
                        ),
                        mask=is_monomial[:, None] & is_value[None, :],
                    )
                else:
                    if GRAD_INITIAL:
                        tl.store(
                            d_memory_pointer
                            + memory_index * (F * V)
                            + monomial[:, None] * V
                            + value[None, :],
                            product_3
                            + tl.load(
                                d_memory_pointer
                                + memory_index * (F * V)
                                + monomial[:, None] * V
                                + value[None, :],
                                mask=is_monomial[:, None] & is_value[None, :],
                                other=0.0,
                            ),
                            mask=is_monomial[:, None] & is_value[None, :],
                        )
        if part == 4:
            d_errors_halo_3 = tl.load(
                rows_d_errors_halo_3_pointer
                + slot * (HALO * V)
                + (halo_row + HALO)[:, None] * V
                + value[None, :],
                mask=(halo_row < 0)[:, None] & is_value[None, :],
                other=0.0,
            )
            k_halo_3 = tl.load(
                k_block + halo_row[:, None] * k_row + feature[None, :],
                mask=is_halo[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            if RESUME:
                window_k_base = (
                    window_k_pointer + (batch * HELD * heads + head) * K + (start + HELD) * heads * K
                )
                k_halo_3 += tl.load(
                    window_k_base + halo_row[:, None] * (heads * K) + feature[None, :],
                    mask=is_held_halo[:, None] & is_feature[None, :],
                    other=0.0,
                )
            d_errors_3 = tl.load(
                rows_d_errors_5_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            k_3 = tl.load(
                k_block + row[:, None] * k_row + feature[None, :],
                mask=live[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            if RESUME:
                window_k_base = (
                    window_k_pointer + (batch * HELD * heads + head) * K + (start + HELD) * heads * K
                )
                k_3 += tl.load(
                    window_k_base + row[:, None] * (heads * K) + feature[None, :],
                    mask=is_held[:, None] & is_feature[None, :],
                    other=0.0,
                )
            for monomial_start in range(0, F, BLOCK_F):
                monomial = monomial_start + tl.arange(0, BLOCK_F)
                is_monomial = monomial < F
                d_anchor_2 = tl.zeros([BLOCK_F, BLOCK_V], dtype=tl.float32)
                if GRAD_FINAL:
                    if block == open_block:
                        d_anchor_2 += tl.load(
                            d_anchor_final_pointer
                            + memory_index * (F * V)
                            + monomial[:, None] * V
                            + value[None, :],
                            mask=is_monomial[:, None] & is_value[None, :],
                            other=0.0,
                        )
                monomial_scale_0_5 = tl.load(monomial_scale_0_pointer + monomial, mask=is_monomial, other=0)
                monomial_scale_1_5 = tl.load(monomial_scale_1_pointer + monomial, mask=is_monomial, other=0)
                monomial_scale_2_5 = tl.load(monomial_scale_2_pointer + monomial, mask=is_monomial, other=0)
                monomial_weights_5 = (
                    monomial_scale_0_5 * tl.sqrt(coefficients)
                    + monomial_scale_1_5 * tl.sqrt(coefficients_2)
                    + monomial_scale_2_5 * tl.sqrt(coefficients_3)
                )
                monomial_entry_0_5 = tl.load(monomial_entry_0_pointer + monomial, mask=is_monomial, other=0)
                value_3 = monomial_weights_5[None, :] * take(k_halo_3, monomial_entry_0_5)
                monomial_entry_1_5 = tl.load(monomial_entry_1_pointer + monomial, mask=is_monomial, other=0)
                # X = phi(k)
                features_halo_3 = value_3 * take(k_halo_3, monomial_entry_1_5)
                product_4 = tl.dot(
                    tl.trans(features_halo_3.to(DOT)),
                    d_errors_halo_3.to(DOT),
                    input_precision=PRECISION,
                )
                # X = phi(k)
                features_3 = (
                    monomial_weights_5[None, :]
                    * take(k_3, monomial_entry_0_5)
                    * take(k_3, monomial_entry_1_5)
                )
                product_5 = tl.dot(
                    tl.trans(features_3.to(DOT)),
                    d_errors_3.to(DOT),
                    input_precision=PRECISION,
                )
                d_anchor_point = d_anchor_2 + product_4 + product_5
                if RESUME:
                    if block == 0:
                        tl.store(
                            d_anchor_pointer
                            + memory_index * (F * V)
                            + monomial[:, None] * V
                            + value[None, :],
                            d_anchor_point,
                            mask=is_monomial[:, None] & is_value[None, :],
                        )
        tl.debug_barrier()  # the next turn reads what this one wrote


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_v(
    d_v_pointer,
    d_window_v_pointer,
    length_pointer,
    position_pointer,
    rows_d_errors_5_pointer,
    d_v_head,
    d_v_row,
    tokens,
    heads,
    blocks,
    HAS_LENGTH: tl.constexpr,
    RESUME: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
    HELD: tl.constexpr,
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
    is_held = (row < first) & (row >= first - HELD)
    d_errors = tl.load(
        rows_d_errors_5_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    d_v_block = d_v_pointer + (batch * tokens + start) * d_v_row + head * d_v_head
    tl.store(
        d_v_block + row[:, None] * d_v_row + value[None, :],
        -d_errors,
        mask=live[:, None] & is_value[None, :],
    )
    if RESUME:
        d_window_v_base = d_window_v_pointer + (batch * HELD * heads + head) * V + (start + HELD) * heads * V
        tl.store(
            d_window_v_base + row[:, None] * (heads * V) + value[None, :],
            -d_errors,
            mask=is_held[:, None] & is_value[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_q(
    coefficients_pointer,
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
    rows_predictions_0_pointer,
    rows_predictions_halo_1_pointer,
    v_pointer,
    window_k_pointer,
    window_v_pointer,
    coefficients_columns,
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
    position = tl.load(position_pointer + batch) if RESUME else 0
    phase = position % ROWS
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
    coefficients = tl.load(coefficients_pointer + head * coefficients_columns + 0).to(tl.float32)
    coefficients_2 = tl.load(coefficients_pointer + head * coefficients_columns + 1).to(tl.float32)
    coefficients_3 = tl.load(coefficients_pointer + head * coefficients_columns + 2).to(tl.float32)
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
        monomial_weights = (
            monomial_scale_0 * tl.sqrt(coefficients)
            + monomial_scale_1 * tl.sqrt(coefficients_2)
            + monomial_scale_2 * tl.sqrt(coefficients_3)
        )
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
    # pred = phi(k) M*
    predictions_halo = tl.load(
        rows_predictions_halo_1_pointer + slot * (HALO * V) + (halo_row + HALO)[:, None] * V + value[None, :],
        mask=(halo_row < 0)[:, None] & is_value[None, :],
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
    # E = dl/dpred at the block's M*
    errors_halo = predictions_halo - v_halo
    product_2 = tl.dot(d_reads.to(DOT), tl.trans(errors_halo.to(DOT)), input_precision=PRECISION)
    # P: source weights by read
    weights_halo = tl.load(
        gate_weights_halo_pointer + slot * (ROWS * HALO) + row[:, None] * HALO + (halo_row + HALO)[None, :],
        mask=(row < ROWS)[:, None] & (halo_row < 0)[None, :],
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
    product_3 = tl.dot(q.to(DOT), tl.trans(k_halo.to(DOT)), input_precision=PRECISION)
    value_7 = product_2 * weights_halo * (2.0 * product_3 * coefficients_3 + coefficients_2)
    product_4 = tl.dot(value_7.to(DOT), k_halo.to(DOT), input_precision=PRECISION)
    # pred = phi(k) M*
    predictions = tl.load(
        rows_predictions_0_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
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
    # E = dl/dpred at the block's M*
    errors = predictions - v
    product_5 = tl.dot(d_reads.to(DOT), tl.trans(errors.to(DOT)), input_precision=PRECISION)
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
    if RESUME:
        window_k_base = window_k_pointer + (batch * HELD * heads + head) * K + (start + HELD) * heads * K
        k += tl.load(
            window_k_base + row[:, None] * (heads * K) + feature[None, :],
            mask=is_held[:, None] & is_feature[None, :],
            other=0.0,
        )
    product_6 = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
    value_8 = product_5 * weights * (2.0 * product_6 * coefficients_3 + coefficients_2)
    product_7 = tl.dot(value_8.to(DOT), k.to(DOT), input_precision=PRECISION)
    d_q_block = d_q_pointer + (batch * tokens + start) * d_q_row + head * d_q_head
    tl.store(
        d_q_block + row[:, None] * d_q_row + feature[None, :],
        combined - product_4 - product_7,
        mask=live[:, None] & is_feature[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_k(
    anchor_pointer,
    coefficients_pointer,
    d_k_pointer,
    d_memory_next_blocks_pointer,
    d_window_k_pointer,
    d_y_pointer,
    gate_last_weights_pointer,
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
    rows_d_errors_5_pointer,
    rows_predictions_0_pointer,
    v_pointer,
    window_k_pointer,
    window_v_pointer,
    coefficients_columns,
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
    position = tl.load(position_pointer + batch) if RESUME else 0
    phase = position % ROWS
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
    d_errors = tl.load(
        rows_d_errors_5_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    # pred = phi(k) M*
    predictions = tl.load(
        rows_predictions_0_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
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
    # E = dl/dpred at the block's M*
    errors = predictions - v
    # p_C: last row of P
    last_weights = tl.load(gate_last_weights_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    coefficients = tl.load(coefficients_pointer + head * coefficients_columns + 0).to(tl.float32)
    coefficients_2 = tl.load(coefficients_pointer + head * coefficients_columns + 1).to(tl.float32)
    coefficients_3 = tl.load(coefficients_pointer + head * coefficients_columns + 2).to(tl.float32)
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
        anchor = (
            tl.load(
                anchor_pointer + memory_index * (F * V) + monomial[:, None] * V + value[None, :],
                mask=is_monomial[:, None] & is_value[None, :],
                other=0.0,
            )
            if RESUME
            else 0.0
        )
        memory = tl.load(
            memory_blocks_pointer + slot * (F * V) + monomial[:, None] * V + value[None, :],
            mask=is_monomial[:, None] & is_value[None, :],
            other=0.0,
        )
        # M*: the memory at the last border
        anchor_point = tl.where(block == 0, anchor, memory) if RESUME else memory
        product = tl.dot(d_errors.to(DOT), tl.trans(anchor_point.to(DOT)), input_precision=PRECISION)
        d_memory_next = tl.load(
            d_memory_next_blocks_pointer + slot * (F * V) + monomial[:, None] * V + value[None, :],
            mask=is_monomial[:, None] & is_value[None, :],
            other=0.0,
        )
        product_2 = tl.dot(errors.to(DOT), tl.trans(d_memory_next.to(DOT)), input_precision=PRECISION)
        d_features = product - product_2 * last_weights[:, None]
        monomial_scale_0 = tl.load(monomial_scale_0_pointer + monomial, mask=is_monomial, other=0)
        monomial_scale_1 = tl.load(monomial_scale_1_pointer + monomial, mask=is_monomial, other=0)
        monomial_scale_2 = tl.load(monomial_scale_2_pointer + monomial, mask=is_monomial, other=0)
        monomial_weights = (
            monomial_scale_0 * tl.sqrt(coefficients)
            + monomial_scale_1 * tl.sqrt(coefficients_2)
            + monomial_scale_2 * tl.sqrt(coefficients_3)
        )
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
    product_3 = tl.dot(d_reads.to(DOT), tl.trans(errors.to(DOT)), input_precision=PRECISION)
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
    product_4 = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
    value_6 = product_3 * weights * (2.0 * product_4 * coefficients_3 + coefficients_2)
    product_5 = tl.dot(tl.trans(value_6.to(DOT)), q.to(DOT), input_precision=PRECISION)
    d_k_block = d_k_pointer + (batch * tokens + start) * d_k_row + head * d_k_head
    tl.store(
        d_k_block + row[:, None] * d_k_row + feature[None, :],
        combined - product_5,
        mask=live[:, None] & is_feature[None, :],
    )
    if RESUME:
        d_window_k_base = d_window_k_pointer + (batch * HELD * heads + head) * K + (start + HELD) * heads * K
        tl.store(
            d_window_k_base + row[:, None] * (heads * K) + feature[None, :],
            combined - product_5,
            mask=is_held[:, None] & is_feature[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_halo(
    anchor_pointer,
    coefficients_pointer,
    d_gate_weights_halo_pointer,
    d_k_halo_pointer,
    d_memory_next_blocks_pointer,
    d_v_halo_pointer,
    d_y_pointer,
    gate_last_weights_halo_pointer,
    gate_weights_halo_pointer,
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
    rows_d_errors_halo_3_pointer,
    rows_predictions_halo_1_pointer,
    v_pointer,
    window_k_pointer,
    window_v_pointer,
    coefficients_columns,
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
    position = tl.load(position_pointer + batch) if RESUME else 0
    phase = position % ROWS
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
    d_errors_halo = tl.load(
        rows_d_errors_halo_3_pointer + slot * (HALO * V) + (halo_row + HALO)[:, None] * V + value[None, :],
        mask=(halo_row < 0)[:, None] & is_value[None, :],
        other=0.0,
    )
    tl.store(
        d_v_halo_pointer + slot * (HALO * V) + (halo_row + HALO)[:, None] * V + value[None, :],
        -d_errors_halo,
        mask=(halo_row < 0)[:, None] & is_value[None, :],
    )
    d_reads = tl.load(
        d_y_block + row[:, None] * d_y_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    # pred = phi(k) M*
    predictions_halo = tl.load(
        rows_predictions_halo_1_pointer + slot * (HALO * V) + (halo_row + HALO)[:, None] * V + value[None, :],
        mask=(halo_row < 0)[:, None] & is_value[None, :],
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
    # E = dl/dpred at the block's M*
    errors_halo = predictions_halo - v_halo
    product = tl.dot(d_reads.to(DOT), tl.trans(errors_halo.to(DOT)), input_precision=PRECISION)
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
    product_2 = tl.dot(q.to(DOT), tl.trans(k_halo.to(DOT)), input_precision=PRECISION)
    coefficients = tl.load(coefficients_pointer + head * coefficients_columns + 0).to(tl.float32)
    coefficients_2 = tl.load(coefficients_pointer + head * coefficients_columns + 1).to(tl.float32)
    coefficients_3 = tl.load(coefficients_pointer + head * coefficients_columns + 2).to(tl.float32)
    # Q X^T
    scores_halo = coefficients_3 * (product_2 * product_2) + product_2 * coefficients_2 + coefficients
    tl.store(
        d_gate_weights_halo_pointer + slot * (ROWS * HALO) + row[:, None] * HALO + (halo_row + HALO)[None, :],
        product * scores_halo,
        mask=(row < ROWS)[:, None] & (halo_row < 0)[None, :],
    )
    combined = tl.zeros([BLOCK_HALO, BLOCK_K], dtype=tl.float32)
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
        anchor = (
            tl.load(
                anchor_pointer + memory_index * (F * V) + monomial[:, None] * V + value[None, :],
                mask=is_monomial[:, None] & is_value[None, :],
                other=0.0,
            )
            if RESUME
            else 0.0
        )
        memory = tl.load(
            memory_blocks_pointer + slot * (F * V) + monomial[:, None] * V + value[None, :],
            mask=is_monomial[:, None] & is_value[None, :],
            other=0.0,
        )
        # M*: the memory at the last border
        anchor_point = tl.where(block == 0, anchor, memory) if RESUME else memory
        product_3 = tl.dot(d_errors_halo.to(DOT), tl.trans(anchor_point.to(DOT)), input_precision=PRECISION)
        d_memory_next = tl.load(
            d_memory_next_blocks_pointer + slot * (F * V) + monomial[:, None] * V + value[None, :],
            mask=is_monomial[:, None] & is_value[None, :],
            other=0.0,
        )
        product_4 = tl.dot(errors_halo.to(DOT), tl.trans(d_memory_next.to(DOT)), input_precision=PRECISION)
        d_features_halo = product_3 - product_4 * last_weights_halo[:, None]
        monomial_scale_0 = tl.load(monomial_scale_0_pointer + monomial, mask=is_monomial, other=0)
        monomial_scale_1 = tl.load(monomial_scale_1_pointer + monomial, mask=is_monomial, other=0)
        monomial_scale_2 = tl.load(monomial_scale_2_pointer + monomial, mask=is_monomial, other=0)
        monomial_weights = (
            monomial_scale_0 * tl.sqrt(coefficients)
            + monomial_scale_1 * tl.sqrt(coefficients_2)
            + monomial_scale_2 * tl.sqrt(coefficients_3)
        )
        monomial_entry_0 = tl.load(monomial_entry_0_pointer + monomial, mask=is_monomial, other=0)
        value_2 = d_features_halo * (monomial_weights[None, :] * take(k_halo, monomial_entry_0))
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
        value_4 = d_features_halo * take(k_halo, monomial_entry_1) * monomial_weights[None, :]
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
    # P: source weights by read
    weights_halo = tl.load(
        gate_weights_halo_pointer + slot * (ROWS * HALO) + row[:, None] * HALO + (halo_row + HALO)[None, :],
        mask=(row < ROWS)[:, None] & (halo_row < 0)[None, :],
        other=0.0,
    )
    value_6 = product * weights_halo * (2.0 * product_2 * coefficients_3 + coefficients_2)
    product_5 = tl.dot(tl.trans(value_6.to(DOT)), q.to(DOT), input_precision=PRECISION)
    tl.store(
        d_k_halo_pointer + slot * (HALO * K) + (halo_row + HALO)[:, None] * K + feature[None, :],
        combined - product_5,
        mask=(halo_row < 0)[:, None] & is_feature[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_weights(
    coefficients_pointer,
    d_gate_weights_pointer,
    d_y_pointer,
    k_pointer,
    length_pointer,
    position_pointer,
    q_pointer,
    rows_predictions_0_pointer,
    v_pointer,
    window_k_pointer,
    window_v_pointer,
    coefficients_columns,
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
    position = tl.load(position_pointer + batch) if RESUME else 0
    phase = position % ROWS
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
    # pred = phi(k) M*
    predictions = tl.load(
        rows_predictions_0_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
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
    # E = dl/dpred at the block's M*
    errors = predictions - v
    product = tl.dot(d_reads.to(DOT), tl.trans(errors.to(DOT)), input_precision=PRECISION)
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
    product_2 = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
    coefficients = tl.load(coefficients_pointer + head * coefficients_columns + 0).to(tl.float32)
    coefficients_2 = tl.load(coefficients_pointer + head * coefficients_columns + 1).to(tl.float32)
    coefficients_3 = tl.load(coefficients_pointer + head * coefficients_columns + 2).to(tl.float32)
    # Q X^T
    scores = coefficients_3 * (product_2 * product_2) + product_2 * coefficients_2 + coefficients
    tl.store(
        d_gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        product * scores,
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_carried(
    anchor_pointer,
    coefficients_pointer,
    d_coefficients_0_blocks_pointer,
    d_coefficients_1_blocks_pointer,
    d_coefficients_2_blocks_pointer,
    d_gate_kept_pointer,
    d_gate_last_weights_halo_pointer,
    d_gate_read_decay_pointer,
    d_memory_next_blocks_pointer,
    d_y_pointer,
    gate_last_weights_halo_pointer,
    gate_last_weights_pointer,
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
    rows_d_errors_5_pointer,
    rows_d_errors_halo_3_pointer,
    rows_predictions_0_pointer,
    rows_predictions_halo_1_pointer,
    v_pointer,
    window_k_pointer,
    window_v_pointer,
    coefficients_columns,
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
    """Gradients of one block: d_coefficients_0_blocks, d_coefficients_1_blocks, d_coefficients_2_blocks,
    d_gate_read_decay, d_gate_kept, d_gate_last_weights_halo.
    """
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
    position = tl.load(position_pointer + batch) if RESUME else 0
    phase = position % ROWS
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
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    d_reads = tl.load(
        d_y_block + row[:, None] * d_y_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    # pred = phi(k) M*
    predictions_halo = tl.load(
        rows_predictions_halo_1_pointer + slot * (HALO * V) + (halo_row + HALO)[:, None] * V + value[None, :],
        mask=(halo_row < 0)[:, None] & is_value[None, :],
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
    # E = dl/dpred at the block's M*
    errors_halo = predictions_halo - v_halo
    product = tl.dot(d_reads.to(DOT), tl.trans(errors_halo.to(DOT)), input_precision=PRECISION)
    # P: source weights by read
    weights_halo = tl.load(
        gate_weights_halo_pointer + slot * (ROWS * HALO) + row[:, None] * HALO + (halo_row + HALO)[None, :],
        mask=(row < ROWS)[:, None] & (halo_row < 0)[None, :],
        other=0.0,
    )
    value_2 = product * weights_halo
    d_scores_halo = -value_2
    # pred = phi(k) M*
    predictions = tl.load(
        rows_predictions_0_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
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
    # E = dl/dpred at the block's M*
    errors = predictions - v
    product_2 = tl.dot(d_reads.to(DOT), tl.trans(errors.to(DOT)), input_precision=PRECISION)
    # P: source weights by read
    weights = tl.load(
        gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    value_3 = product_2 * weights
    d_scores = -value_3
    combined = tl.sum(tl.sum(d_scores_halo, 0), 0) + tl.sum(tl.sum(d_scores, 0), 0)
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
    product_3 = tl.dot(q.to(DOT), tl.trans(k_halo.to(DOT)), input_precision=PRECISION)
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
    combined_2 = tl.sum(tl.sum(-(value_2 * product_3), 0), 0) + tl.sum(tl.sum(-(value_3 * product_4), 0), 0)
    total = tl.sum(tl.sum(-(value_2 * (product_3 * product_3)), 0), 0)
    total_2 = tl.sum(tl.sum(-(value_3 * (product_4 * product_4)), 0), 0)
    combined_3 = total + total_2
    product_5 = tl.zeros([BLOCK_ROWS], dtype=tl.float32)
    total_3 = tl.zeros([BLOCK_V], dtype=tl.float32)
    d_last_weights_halo = tl.zeros([BLOCK_HALO], dtype=tl.float32)
    d_errors_halo = tl.load(
        rows_d_errors_halo_3_pointer + slot * (HALO * V) + (halo_row + HALO)[:, None] * V + value[None, :],
        mask=(halo_row < 0)[:, None] & is_value[None, :],
        other=0.0,
    )
    # p_C: last row of P
    last_weights_halo = tl.load(
        gate_last_weights_halo_pointer + slot * HALO + (halo_row + HALO),
        mask=halo_row < 0,
        other=0.0,
    )
    d_errors = tl.load(
        rows_d_errors_5_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    # p_C: last row of P
    last_weights = tl.load(gate_last_weights_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    # a: decay of the memory since the block's start
    read_decay = tl.load(gate_read_decay_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    coefficients = tl.load(coefficients_pointer + head * coefficients_columns + 0).to(tl.float32)
    coefficients_2 = tl.load(coefficients_pointer + head * coefficients_columns + 1).to(tl.float32)
    coefficients_3 = tl.load(coefficients_pointer + head * coefficients_columns + 2).to(tl.float32)
    for monomial_start in range(0, F, BLOCK_F):
        monomial = monomial_start + tl.arange(0, BLOCK_F)
        is_monomial = monomial < F
        anchor = (
            tl.load(
                anchor_pointer + memory_index * (F * V) + monomial[:, None] * V + value[None, :],
                mask=is_monomial[:, None] & is_value[None, :],
                other=0.0,
            )
            if RESUME
            else 0.0
        )
        memory = tl.load(
            memory_blocks_pointer + slot * (F * V) + monomial[:, None] * V + value[None, :],
            mask=is_monomial[:, None] & is_value[None, :],
            other=0.0,
        )
        # M*: the memory at the last border
        anchor_point = tl.where(block == 0, anchor, memory) if RESUME else memory
        product_6 = tl.dot(d_errors_halo.to(DOT), tl.trans(anchor_point.to(DOT)), input_precision=PRECISION)
        d_memory_next = tl.load(
            d_memory_next_blocks_pointer + slot * (F * V) + monomial[:, None] * V + value[None, :],
            mask=is_monomial[:, None] & is_value[None, :],
            other=0.0,
        )
        product_7 = tl.dot(errors_halo.to(DOT), tl.trans(d_memory_next.to(DOT)), input_precision=PRECISION)
        d_features_halo = product_6 - product_7 * last_weights_halo[:, None]
        monomial_entry_1 = tl.load(monomial_entry_1_pointer + monomial, mask=is_monomial, other=0)
        factor = take(k_halo, monomial_entry_1)
        monomial_entry_0 = tl.load(monomial_entry_0_pointer + monomial, mask=is_monomial, other=0)
        factor_2 = take(k_halo, monomial_entry_0)
        product_8 = tl.dot(d_errors.to(DOT), tl.trans(anchor_point.to(DOT)), input_precision=PRECISION)
        product_9 = tl.dot(errors.to(DOT), tl.trans(d_memory_next.to(DOT)), input_precision=PRECISION)
        d_features = product_8 - product_9 * last_weights[:, None]
        value_4 = d_features * take(k, monomial_entry_1) * take(k, monomial_entry_0)
        product_10 = tl.dot(d_reads.to(DOT), tl.trans(memory.to(DOT)), input_precision=PRECISION)
        factor_3 = take(q, monomial_entry_1)
        factor_4 = take(q, monomial_entry_0)
        total_4 = tl.sum(product_10 * read_decay[:, None] * factor_3 * factor_4, 0)
        combined_4 = tl.sum(d_features_halo * factor * factor_2, 0) + tl.sum(value_4, 0) + total_4
        monomial_scale_0 = tl.load(monomial_scale_0_pointer + monomial, mask=is_monomial, other=0)
        value_5 = combined_4 * (0.5 * monomial_scale_0 * tl.rsqrt(coefficients))
        combined += tl.sum(value_5, 0)
        monomial_scale_1 = tl.load(monomial_scale_1_pointer + monomial, mask=is_monomial, other=0)
        value_6 = combined_4 * (0.5 * monomial_scale_1 * tl.rsqrt(coefficients_2))
        combined_2 += tl.sum(value_6, 0)
        monomial_scale_2 = tl.load(monomial_scale_2_pointer + monomial, mask=is_monomial, other=0)
        value_7 = combined_4 * (0.5 * monomial_scale_2 * tl.rsqrt(coefficients_3))
        combined_3 += tl.sum(value_7, 0)
        monomial_weights = (
            monomial_scale_0 * tl.sqrt(coefficients)
            + monomial_scale_1 * tl.sqrt(coefficients_2)
            + monomial_scale_2 * tl.sqrt(coefficients_3)
        )
        # phi(q)
        queries = monomial_weights[None, :] * factor_4 * factor_3
        product_5 += tl.sum(queries * product_10, 1)
        total_3 += tl.sum(d_memory_next * memory, 0)
        # X = phi(k)
        features_halo = monomial_weights[None, :] * factor_2 * factor
        d_last_weights_halo += tl.sum(-(product_7 * features_halo), 1)
    tl.store(d_coefficients_0_blocks_pointer + slot, combined)
    tl.store(d_coefficients_1_blocks_pointer + slot, combined_2)
    tl.store(d_coefficients_2_blocks_pointer + slot, combined_3)
    tl.store(d_gate_read_decay_pointer + slot * ROWS + row, product_5, mask=row < ROWS)
    d_kept = tl.sum(total_3, 0)
    tl.store(d_gate_kept_pointer + slot, d_kept)
    tl.store(
        d_gate_last_weights_halo_pointer + slot * HALO + (halo_row + HALO),
        d_last_weights_halo,
        mask=halo_row < 0,
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_last(
    coefficients_pointer,
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
    rows_predictions_0_pointer,
    v_pointer,
    window_k_pointer,
    window_v_pointer,
    coefficients_columns,
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
    position = tl.load(position_pointer + batch) if RESUME else 0
    phase = position % ROWS
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    is_held = (row < first) & (row >= first - HELD)
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    d_last_weights = tl.zeros([BLOCK_ROWS], dtype=tl.float32)
    # pred = phi(k) M*
    predictions = tl.load(
        rows_predictions_0_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
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
    # E = dl/dpred at the block's M*
    errors = predictions - v
    coefficients = tl.load(coefficients_pointer + head * coefficients_columns + 0).to(tl.float32)
    coefficients_2 = tl.load(coefficients_pointer + head * coefficients_columns + 1).to(tl.float32)
    coefficients_3 = tl.load(coefficients_pointer + head * coefficients_columns + 2).to(tl.float32)
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
        product = tl.dot(errors.to(DOT), tl.trans(d_memory_next.to(DOT)), input_precision=PRECISION)
        monomial_scale_0 = tl.load(monomial_scale_0_pointer + monomial, mask=is_monomial, other=0)
        monomial_scale_1 = tl.load(monomial_scale_1_pointer + monomial, mask=is_monomial, other=0)
        monomial_scale_2 = tl.load(monomial_scale_2_pointer + monomial, mask=is_monomial, other=0)
        monomial_weights = (
            monomial_scale_0 * tl.sqrt(coefficients)
            + monomial_scale_1 * tl.sqrt(coefficients_2)
            + monomial_scale_2 * tl.sqrt(coefficients_3)
        )
        monomial_entry_0 = tl.load(monomial_entry_0_pointer + monomial, mask=is_monomial, other=0)
        monomial_entry_1 = tl.load(monomial_entry_1_pointer + monomial, mask=is_monomial, other=0)
        # X = phi(k)
        features = monomial_weights[None, :] * take(k, monomial_entry_0) * take(k, monomial_entry_1)
        d_last_weights += tl.sum(-(product * features), 1)
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
    d_lr_pointer,
    gamma_pointer,
    gate_kept_pointer,
    gate_read_decay_pointer,
    length_pointer,
    log_alpha_pointer,
    lr_pointer,
    position_pointer,
    window_gamma_pointer,
    d_log_alpha_head,
    d_log_alpha_row,
    d_lr_head,
    d_lr_row,
    gamma_head,
    gamma_row,
    log_alpha_head,
    log_alpha_row,
    lr_head,
    lr_row,
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
    """Gradients of one block's gates, from those of decays and weights: d_log_alpha, d_lr."""
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
    phase = position % ROWS
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
    lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
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
    combined = product + product_2
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
    running = tl.sum(tl.where(row[:, None] > row[None, :], (combined * lr * until_end)[None, :], 0.0), 1)
    d_gate_weights_halo = tl.load(
        d_gate_weights_halo_pointer + slot * (ROWS * HALO) + row[:, None] * HALO + (halo_row + HALO)[None, :],
        mask=(row < ROWS)[:, None] & (halo_row < 0)[None, :],
        other=0.0,
    )
    product_3 = tl.dot(d_gate_weights_halo.to(DOT), tl.trans(window_halo.to(DOT)), input_precision=PRECISION)
    d_gate_weights = tl.load(
        d_gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    product_4 = tl.dot(d_gate_weights.to(DOT), tl.trans(window.to(DOT)), input_precision=PRECISION)
    combined_2 = -product_3 - product_4
    decay = tl.exp(
        tl.where(
            (row[:, None] >= row[None, :]) & (log_alpha_reset_sum[:, None] == log_alpha_reset_sum[None, :]),
            log_alpha_coarse_sum[:, None]
            - log_alpha_coarse_sum[None, :]
            + (log_alpha_fine_sum[:, None] - log_alpha_fine_sum[None, :]),
            float("-inf"),
        )
    )
    banded = tl.where(row[:, None] - row[None, :] >= 1, combined_2 * lr[None, :] * decay, 0.0)
    banded_2 = tl.where(row[:, None] >= row[None, :], tl.cumsum(banded, 1) - banded, 0.0)
    combined_3 = tl.cumsum(d_read_decay * read_decay, 0, reverse=True) + (running + tl.sum(banded_2, 0))
    d_kept = tl.load(d_gate_kept_pointer + slot)
    # a_C: decay of the memory over the block
    kept = tl.load(gate_kept_pointer + slot)
    d_log_alpha_block = (
        d_log_alpha_pointer + (batch * tokens + start) * d_log_alpha_row + head * d_log_alpha_head
    )
    tl.store(d_log_alpha_block + row * d_log_alpha_row, combined_3 + d_kept * kept, mask=live)
    d_lr_block = d_lr_pointer + (batch * tokens + start) * d_lr_row + head * d_lr_head
    tl.store(d_lr_block + row * d_lr_row, combined * until_end + tl.sum(combined_2 * decay, 0), mask=live)


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
    lr_pointer,
    position_pointer,
    d_gamma_head,
    d_gamma_row,
    log_alpha_head,
    log_alpha_row,
    lr_head,
    lr_row,
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
    phase = position % ROWS
    seen = tl.minimum(position, HELD)  # rows of the window that hold tokens
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    is_held = (row < first) & (row >= first - HELD)
    earliest = tl.cast(tl.maximum(-start, -HALO), tl.int32)
    log_alpha_block = log_alpha_pointer + (batch * tokens + start) * log_alpha_row + head * log_alpha_head
    lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
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
    lr = tl.load(lr_block + row * lr_row, mask=live, other=0.0).to(tl.float32)
    value_2 = until_end * lr
    d_gate_weights = tl.load(
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
    value_3 = decay * lr[None, :]
    product = tl.dot(tl.trans(value_3.to(DOT)), d_gate_weights.to(DOT), input_precision=PRECISION)
    d_window = d_last_weights[None, :] * value_2[:, None] - product
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
    d_gate_weights_halo = tl.load(
        d_gate_weights_halo_pointer + slot * (ROWS * HALO) + row[:, None] * HALO + (halo_row + HALO)[None, :],
        mask=(row < ROWS)[:, None] & (halo_row < 0)[None, :],
        other=0.0,
    )
    product_2 = tl.dot(tl.trans(value_3.to(DOT)), d_gate_weights_halo.to(DOT), input_precision=PRECISION)
    d_window_halo = d_last_weights_halo[None, :] * value_2[:, None] - product_2
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

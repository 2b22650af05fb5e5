"""Kernels of the memory rule omeganet (split_all_4_F).

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
    anchor_W1_final_pointer,
    anchor_W1_pointer,
    anchor_W2_final_pointer,
    anchor_W2_pointer,
    coefficients_pointer,
    gate_kept_pointer,
    gate_last_weights_halo_pointer,
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
    """The memory from block to block, tile by tile: a block writes the next one's start."""
    program = tl.program_id(0)
    memory_index = tl.cast(program, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    row = tl.arange(0, BLOCK_ROWS)
    halo_row = tl.arange(0, BLOCK_HALO)
    halo_row = tl.where(halo_row < HALO, halo_row - HALO, ROWS)  # negative: before the block
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
    coefficients = tl.load(coefficients_pointer + head * coefficients_columns + 0).to(tl.float32)
    coefficients_2 = tl.load(coefficients_pointer + head * coefficients_columns + 1).to(tl.float32)
    coefficients_3 = tl.load(coefficients_pointer + head * coefficients_columns + 2).to(tl.float32)
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
        is_held = (row < first) & (row >= first - HELD)
        earliest = tl.cast(tl.maximum(-start, -HALO), tl.int32)
        is_halo = (halo_row >= earliest) & (halo_row < tl.minimum(last, 0))
        is_held_halo = (halo_row < earliest) & (halo_row >= earliest - HELD)
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
        product_2 = tl.zeros([BLOCK_HALO, BLOCK_D1], dtype=tl.float32)
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
            # X = phi(k)
            features_halo = (
                monomial_weights[None, :] * take(k_halo, monomial_entry_0) * take(k_halo, monomial_entry_1)
            )
            product_2 += tl.dot(features_halo.to(DOT), anchor_point_W1.to(DOT), input_precision=PRECISION)
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
        value_2 = gelu(product)
        product_3 = tl.dot(value_2.to(DOT), anchor_point_W2.to(DOT), input_precision=PRECISION)
        # pred = f(M*, phi(k))
        predictions = product_3 + k
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
        product_4 = tl.dot(
            tl.trans((last_weights[:, None] * value_2).to(DOT)),
            errors.to(DOT),
            input_precision=PRECISION,
        )
        # p_C: last row of P
        last_weights_halo = tl.load(
            gate_last_weights_halo_pointer + slot * HALO + (halo_row + HALO),
            mask=halo_row < 0,
            other=0.0,
        )
        value_3 = gelu(product_2)
        product_5 = tl.dot(value_3.to(DOT), anchor_point_W2.to(DOT), input_precision=PRECISION)
        # pred = f(M*, phi(k))
        predictions_halo = product_5 + k_halo
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
        product_6 = tl.dot(
            tl.trans((last_weights_halo[:, None] * value_3).to(DOT)),
            errors_halo.to(DOT),
            input_precision=PRECISION,
        )
        # M at the end
        memory_W2_next = kept * (memory_W2 - origin_W2) + origin_W2 - product_4 - product_6
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
        product_7 = tl.dot(errors.to(DOT), tl.trans(anchor_point_W2.to(DOT)), input_precision=PRECISION)
        # the error that reaches the output of W1
        errors_W1 = product_7 * tl.where(is_hidden_1[None, :], gelu_slope(product), 0.0)
        product_8 = tl.dot(errors_halo.to(DOT), tl.trans(anchor_point_W2.to(DOT)), input_precision=PRECISION)
        # the error that reaches the output of W1
        errors_W1_halo = product_8 * tl.where(is_hidden_1[None, :], gelu_slope(product_2), 0.0)
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
            product_9 = tl.dot(
                tl.trans((last_weights[:, None] * features_2).to(DOT)),
                errors_W1.to(DOT),
                input_precision=PRECISION,
            )
            value_4 = monomial_weights_2[None, :] * take(k_halo, monomial_entry_0_2)
            # X = phi(k)
            features_halo_2 = value_4 * take(k_halo, monomial_entry_1_2)
            product_10 = tl.dot(
                tl.trans((last_weights_halo[:, None] * features_halo_2).to(DOT)),
                errors_W1_halo.to(DOT),
                input_precision=PRECISION,
            )
            # M at the end
            memory_W1_next = kept * (memory_W1_3 - origin_W1) + origin_W1 - product_9 - product_10
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
    coefficients_pointer,
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
    rows_predictions_2_pointer,
    rows_predictions_halo_5_pointer,
    rows_value_1_pointer,
    rows_value_3_pointer,
    rows_value_4_pointer,
    rows_value_6_pointer,
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
    """Rows of one block that later kernels read: rows_value_1, rows_predictions_2, rows_value_3,
    rows_value_4, rows_predictions_halo_5, rows_value_6.
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
    is_held = (row < first) & (row >= first - HELD)
    earliest = tl.cast(tl.maximum(-start, -HALO), tl.int32)
    is_halo = (halo_row >= earliest) & (halo_row < tl.minimum(last, 0))
    is_held_halo = (halo_row < earliest) & (halo_row >= earliest - HELD)
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    product = tl.zeros([BLOCK_ROWS, BLOCK_D1], dtype=tl.float32)
    product_2 = tl.zeros([BLOCK_HALO, BLOCK_D1], dtype=tl.float32)
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
        # X = phi(k)
        features_halo = (
            monomial_weights[None, :] * take(k_halo, monomial_entry_0) * take(k_halo, monomial_entry_1)
        )
        product_2 += tl.dot(features_halo.to(DOT), anchor_point_W1.to(DOT), input_precision=PRECISION)
    tl.store(
        rows_value_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        product,
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
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
    memory_W2 = tl.load(
        memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    # M*: the memory at the last border
    anchor_point_W2 = tl.where(block == 0, anchor_W2, memory_W2) if RESUME else memory_W2
    product_3 = tl.dot(gelu(product).to(DOT), anchor_point_W2.to(DOT), input_precision=PRECISION)
    # pred = f(M*, phi(k))
    predictions = product_3 + k
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
    if RESUME:
        window_v_base = window_v_pointer + (batch * HELD * heads + head) * V + (start + HELD) * heads * V
        v += tl.load(
            window_v_base + row[:, None] * (heads * V) + value[None, :],
            mask=is_held[:, None] & is_value[None, :],
            other=0.0,
        )
    # E = dl/dpred at the block's M*
    errors = predictions - v
    product_4 = tl.dot(errors.to(DOT), tl.trans(anchor_point_W2.to(DOT)), input_precision=PRECISION)
    tl.store(
        rows_value_3_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        product_4,
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
    )
    tl.store(
        rows_value_4_pointer + slot * (HALO * D1) + (halo_row + HALO)[:, None] * D1 + hidden_1[None, :],
        product_2,
        mask=(halo_row < 0)[:, None] & is_hidden_1[None, :],
    )
    product_5 = tl.dot(gelu(product_2).to(DOT), anchor_point_W2.to(DOT), input_precision=PRECISION)
    # pred = f(M*, phi(k))
    predictions_halo = product_5 + k_halo
    tl.store(
        rows_predictions_halo_5_pointer + slot * (HALO * V) + (halo_row + HALO)[:, None] * V + value[None, :],
        predictions_halo,
        mask=(halo_row < 0)[:, None] & is_value[None, :],
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
    product_6 = tl.dot(errors_halo.to(DOT), tl.trans(anchor_point_W2.to(DOT)), input_precision=PRECISION)
    tl.store(
        rows_value_6_pointer + slot * (HALO * D1) + (halo_row + HALO)[:, None] * D1 + hidden_1[None, :],
        product_6,
        mask=(halo_row < 0)[:, None] & is_hidden_1[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def reads(
    coefficients_pointer,
    gate_read_decay_pointer,
    gate_weights_halo_pointer,
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
    rows_value_3_pointer,
    rows_value_4_pointer,
    rows_value_6_pointer,
    rows_value_7_pointer,
    window_k_pointer,
    coefficients_columns,
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
    """Rows of one block that later kernels read: rows_value_0, rows_value_7."""
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
    is_held = (row < first) & (row >= first - HELD)
    earliest = tl.cast(tl.maximum(-start, -HALO), tl.int32)
    is_halo = (halo_row >= earliest) & (halo_row < tl.minimum(last, 0))
    is_held_halo = (halo_row < earliest) & (halo_row >= earliest - HELD)
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    combined = tl.zeros([BLOCK_ROWS, BLOCK_D1], dtype=tl.float32)
    product = tl.zeros([BLOCK_ROWS, BLOCK_D1], dtype=tl.float32)
    coefficients = tl.load(coefficients_pointer + head * coefficients_columns + 0).to(tl.float32)
    coefficients_2 = tl.load(coefficients_pointer + head * coefficients_columns + 1).to(tl.float32)
    coefficients_3 = tl.load(coefficients_pointer + head * coefficients_columns + 2).to(tl.float32)
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
        monomial_weights = (
            monomial_scale_0 * tl.sqrt(coefficients)
            + monomial_scale_1 * tl.sqrt(coefficients_2)
            + monomial_scale_2 * tl.sqrt(coefficients_3)
        )
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
    if RESUME:
        window_k_base = window_k_pointer + (batch * HELD * heads + head) * K + (start + HELD) * heads * K
        k += tl.load(
            window_k_base + row[:, None] * (heads * K) + feature[None, :],
            mask=is_held[:, None] & is_feature[None, :],
            other=0.0,
        )
    product_2 = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
    # Q X^T
    scores_W1 = coefficients_3 * (product_2 * product_2) + product_2 * coefficients_2 + coefficients
    # P: source weights by read
    weights = tl.load(
        gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    # (Q X^T) * P
    attention_W1 = scores_W1 * weights
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
    scores_W1_halo = coefficients_3 * (product_4 * product_4) + product_4 * coefficients_2 + coefficients
    # P: source weights by read
    weights_halo = tl.load(
        gate_weights_halo_pointer + slot * (ROWS * HALO) + row[:, None] * HALO + (halo_row + HALO)[None, :],
        mask=(row < ROWS)[:, None] & (halo_row < 0)[None, :],
        other=0.0,
    )
    # (Q X^T) * P
    attention_W1_halo = scores_W1_halo * weights_halo
    rows_value_6 = tl.load(
        rows_value_6_pointer + slot * (HALO * D1) + (halo_row + HALO)[:, None] * D1 + hidden_1[None, :],
        mask=(halo_row < 0)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    rows_value_4 = tl.load(
        rows_value_4_pointer + slot * (HALO * D1) + (halo_row + HALO)[:, None] * D1 + hidden_1[None, :],
        mask=(halo_row < 0)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    value_3 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_4), 0.0)
    # the error that reaches the output of W1
    errors_W1_halo = rows_value_6 * value_3
    product_5 = tl.dot(attention_W1_halo.to(DOT), errors_W1_halo.to(DOT), input_precision=PRECISION)
    tl.store(
        rows_value_7_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        combined - product_3 - product_5,
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output(
    gate_read_decay_pointer,
    gate_weights_halo_pointer,
    gate_weights_pointer,
    length_pointer,
    memory_W2_blocks_pointer,
    origin_W2_pointer,
    position_pointer,
    q_pointer,
    rows_predictions_2_pointer,
    rows_predictions_halo_5_pointer,
    rows_value_1_pointer,
    rows_value_4_pointer,
    rows_value_7_pointer,
    v_pointer,
    window_v_pointer,
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
    BLOCK_HALO: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
    D1: tl.constexpr,
    DOT: tl.constexpr,
    HALO: tl.constexpr,
    HELD: tl.constexpr,
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
    halo_row = tl.arange(0, BLOCK_HALO)
    halo_row = tl.where(halo_row < HALO, halo_row - HALO, ROWS)  # negative: before the block
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
    is_held = (row < first) & (row >= first - HELD)
    earliest = tl.cast(tl.maximum(-start, -HALO), tl.int32)
    is_halo = (halo_row >= earliest) & (halo_row < tl.minimum(last, 0))
    is_held_halo = (halo_row < earliest) & (halo_row >= earliest - HELD)
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    # a: decay of the memory since the block's start
    read_decay = tl.load(gate_read_decay_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    rows_value_7 = tl.load(
        rows_value_7_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    value_2 = gelu(rows_value_7)
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
    rows_value_1 = tl.load(
        rows_value_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    # Q X^T
    scores_W2 = tl.dot(value_2.to(DOT), tl.trans(gelu(rows_value_1).to(DOT)), input_precision=PRECISION)
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
    if RESUME:
        window_v_base = window_v_pointer + (batch * HELD * heads + head) * V + (start + HELD) * heads * V
        v += tl.load(
            window_v_base + row[:, None] * (heads * V) + value[None, :],
            mask=is_held[:, None] & is_value[None, :],
            other=0.0,
        )
    # E = dl/dpred at the block's M*
    errors = predictions - v
    product_3 = tl.dot(attention_W2.to(DOT), errors.to(DOT), input_precision=PRECISION)
    rows_value_4 = tl.load(
        rows_value_4_pointer + slot * (HALO * D1) + (halo_row + HALO)[:, None] * D1 + hidden_1[None, :],
        mask=(halo_row < 0)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    # Q X^T
    scores_W2_halo = tl.dot(value_2.to(DOT), tl.trans(gelu(rows_value_4).to(DOT)), input_precision=PRECISION)
    # P: source weights by read
    weights_halo = tl.load(
        gate_weights_halo_pointer + slot * (ROWS * HALO) + row[:, None] * HALO + (halo_row + HALO)[None, :],
        mask=(row < ROWS)[:, None] & (halo_row < 0)[None, :],
        other=0.0,
    )
    # (Q X^T) * P
    attention_W2_halo = scores_W2_halo * weights_halo
    # pred = f(M*, phi(k))
    predictions_halo = tl.load(
        rows_predictions_halo_5_pointer + slot * (HALO * V) + (halo_row + HALO)[:, None] * V + value[None, :],
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
    product_4 = tl.dot(attention_W2_halo.to(DOT), errors_halo.to(DOT), input_precision=PRECISION)
    combined = read_decay[:, None] * product + product_2 - product_3 - product_4
    q = tl.load(
        q_block + row[:, None] * q_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = combined + q
    y_block = y_pointer + (batch * tokens + start) * y_row + head * y_head
    tl.store(y_block + row[:, None] * y_row + value[None, :], reads, mask=live[:, None] & is_value[None, :])


@triton.jit(do_not_specialize=["tokens", "blocks"])
def read_gradients_1_h_D1(
    d_y_pointer,
    gate_weights_halo_pointer,
    length_pointer,
    position_pointer,
    rows_predictions_halo_5_pointer,
    rows_value_14_pointer,
    rows_value_7_pointer,
    v_pointer,
    window_v_pointer,
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
    BLOCK_HALO: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
    D1: tl.constexpr,
    DOT: tl.constexpr,
    HALO: tl.constexpr,
    HELD: tl.constexpr,
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
    halo_row = tl.arange(0, BLOCK_HALO)
    halo_row = tl.where(halo_row < HALO, halo_row - HALO, ROWS)  # negative: before the block
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
    earliest = tl.cast(tl.maximum(-start, -HALO), tl.int32)
    is_halo = (halo_row >= earliest) & (halo_row < tl.minimum(last, 0))
    is_held_halo = (halo_row < earliest) & (halo_row >= earliest - HELD)
    d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    d_reads = tl.load(
        d_y_block + row[:, None] * d_y_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    # pred = f(M*, phi(k))
    predictions_halo = tl.load(
        rows_predictions_halo_5_pointer + slot * (HALO * V) + (halo_row + HALO)[:, None] * V + value[None, :],
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
    rows_value_7 = tl.load(
        rows_value_7_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    product_2 = tl.dot(
        tl.trans((product * weights_halo).to(DOT)),
        gelu(rows_value_7).to(DOT),
        input_precision=PRECISION,
    )
    tl.store(
        rows_value_14_pointer + slot * (HALO * D1) + (halo_row + HALO)[:, None] * D1 + hidden_1[None, :],
        product_2,
        mask=(halo_row < 0)[:, None] & is_hidden_1[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def read_gradients_1_h_V(
    d_y_pointer,
    gate_weights_halo_pointer,
    length_pointer,
    position_pointer,
    rows_value_11_pointer,
    rows_value_4_pointer,
    rows_value_7_pointer,
    d_y_head,
    d_y_row,
    tokens,
    heads,
    blocks,
    HAS_LENGTH: tl.constexpr,
    RESUME: tl.constexpr,
    BLOCK_D1: tl.constexpr,
    BLOCK_HALO: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
    D1: tl.constexpr,
    DOT: tl.constexpr,
    HALO: tl.constexpr,
    HELD: tl.constexpr,
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
    halo_row = tl.arange(0, BLOCK_HALO)
    halo_row = tl.where(halo_row < HALO, halo_row - HALO, ROWS)  # negative: before the block
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
    d_reads = tl.load(
        d_y_block + row[:, None] * d_y_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    rows_value_7 = tl.load(
        rows_value_7_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    rows_value_4 = tl.load(
        rows_value_4_pointer + slot * (HALO * D1) + (halo_row + HALO)[:, None] * D1 + hidden_1[None, :],
        mask=(halo_row < 0)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    # Q X^T
    scores_W2_halo = tl.dot(
        gelu(rows_value_7).to(DOT),
        tl.trans(gelu(rows_value_4).to(DOT)),
        input_precision=PRECISION,
    )
    # P: source weights by read
    weights_halo = tl.load(
        gate_weights_halo_pointer + slot * (ROWS * HALO) + row[:, None] * HALO + (halo_row + HALO)[None, :],
        mask=(row < ROWS)[:, None] & (halo_row < 0)[None, :],
        other=0.0,
    )
    # (Q X^T) * P
    attention_W2_halo = scores_W2_halo * weights_halo
    product = tl.dot(tl.trans(attention_W2_halo.to(DOT)), d_reads.to(DOT), input_precision=PRECISION)
    tl.store(
        rows_value_11_pointer + slot * (HALO * V) + (halo_row + HALO)[:, None] * V + value[None, :],
        product,
        mask=(halo_row < 0)[:, None] & is_value[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def read_gradients_1_r_D1(
    d_y_pointer,
    gate_read_decay_pointer,
    gate_weights_halo_pointer,
    gate_weights_pointer,
    length_pointer,
    memory_W2_blocks_pointer,
    origin_W2_pointer,
    position_pointer,
    rows_predictions_2_pointer,
    rows_predictions_halo_5_pointer,
    rows_value_1_pointer,
    rows_value_4_pointer,
    rows_value_8_pointer,
    v_pointer,
    window_v_pointer,
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
    BLOCK_HALO: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
    D1: tl.constexpr,
    DOT: tl.constexpr,
    HALO: tl.constexpr,
    HELD: tl.constexpr,
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
    halo_row = tl.arange(0, BLOCK_HALO)
    halo_row = tl.where(halo_row < HALO, halo_row - HALO, ROWS)  # negative: before the block
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
    is_held = (row < first) & (row >= first - HELD)
    earliest = tl.cast(tl.maximum(-start, -HALO), tl.int32)
    is_halo = (halo_row >= earliest) & (halo_row < tl.minimum(last, 0))
    is_held_halo = (halo_row < earliest) & (halo_row >= earliest - HELD)
    d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    d_reads = tl.load(
        d_y_block + row[:, None] * d_y_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    origin_W2 = tl.load(
        origin_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    product = tl.dot(d_reads.to(DOT), tl.trans(origin_W2.to(DOT)), input_precision=PRECISION)
    # a: decay of the memory since the block's start
    read_decay = tl.load(gate_read_decay_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    memory_W2 = tl.load(
        memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    product_2 = tl.dot(
        (d_reads * read_decay[:, None]).to(DOT),
        tl.trans((memory_W2 - origin_W2).to(DOT)),
        input_precision=PRECISION,
    )
    # pred = f(M*, phi(k))
    predictions_halo = tl.load(
        rows_predictions_halo_5_pointer + slot * (HALO * V) + (halo_row + HALO)[:, None] * V + value[None, :],
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
    product_3 = tl.dot(d_reads.to(DOT), tl.trans(errors_halo.to(DOT)), input_precision=PRECISION)
    # P: source weights by read
    weights_halo = tl.load(
        gate_weights_halo_pointer + slot * (ROWS * HALO) + row[:, None] * HALO + (halo_row + HALO)[None, :],
        mask=(row < ROWS)[:, None] & (halo_row < 0)[None, :],
        other=0.0,
    )
    rows_value_4 = tl.load(
        rows_value_4_pointer + slot * (HALO * D1) + (halo_row + HALO)[:, None] * D1 + hidden_1[None, :],
        mask=(halo_row < 0)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    product_4 = tl.dot(
        (product_3 * weights_halo).to(DOT),
        gelu(rows_value_4).to(DOT),
        input_precision=PRECISION,
    )
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
    rows_value_1 = tl.load(
        rows_value_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    product_6 = tl.dot((product_5 * weights).to(DOT), gelu(rows_value_1).to(DOT), input_precision=PRECISION)
    tl.store(
        rows_value_8_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        product + product_2 - product_4 - product_6,
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def read_gradients_1_s_D1(
    d_y_pointer,
    gate_weights_pointer,
    length_pointer,
    position_pointer,
    rows_predictions_2_pointer,
    rows_value_22_pointer,
    rows_value_7_pointer,
    v_pointer,
    window_v_pointer,
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
    HELD: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    V: tl.constexpr,
):
    """Rows of one block that later kernels read: rows_value_22."""
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
    is_held = (row < first) & (row >= first - HELD)
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
    # P: source weights by read
    weights = tl.load(
        gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    rows_value_7 = tl.load(
        rows_value_7_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    product_2 = tl.dot(
        tl.trans((product * weights).to(DOT)),
        gelu(rows_value_7).to(DOT),
        input_precision=PRECISION,
    )
    tl.store(
        rows_value_22_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        product_2,
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def read_gradients_1_s_V(
    d_y_pointer,
    gate_weights_pointer,
    length_pointer,
    position_pointer,
    rows_value_19_pointer,
    rows_value_1_pointer,
    rows_value_7_pointer,
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
    HELD: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    V: tl.constexpr,
):
    """Rows of one block that later kernels read: rows_value_19."""
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
    d_reads = tl.load(
        d_y_block + row[:, None] * d_y_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    rows_value_7 = tl.load(
        rows_value_7_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    rows_value_1 = tl.load(
        rows_value_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    # Q X^T
    scores_W2 = tl.dot(
        gelu(rows_value_7).to(DOT),
        tl.trans(gelu(rows_value_1).to(DOT)),
        input_precision=PRECISION,
    )
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
        rows_value_19_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        product,
        mask=(row < ROWS)[:, None] & is_value[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def read_gradients_2_h_D1(
    coefficients_pointer,
    gate_weights_halo_pointer,
    k_pointer,
    length_pointer,
    position_pointer,
    q_pointer,
    rows_value_7_pointer,
    rows_value_8_pointer,
    rows_value_9_pointer,
    window_k_pointer,
    coefficients_columns,
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
    BLOCK_HALO: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
    D1: tl.constexpr,
    DOT: tl.constexpr,
    HALO: tl.constexpr,
    HELD: tl.constexpr,
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
    halo_row = tl.arange(0, BLOCK_HALO)
    halo_row = tl.where(halo_row < HALO, halo_row - HALO, ROWS)  # negative: before the block
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
    earliest = tl.cast(tl.maximum(-start, -HALO), tl.int32)
    is_halo = (halo_row >= earliest) & (halo_row < tl.minimum(last, 0))
    is_held_halo = (halo_row < earliest) & (halo_row >= earliest - HELD)
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    rows_value_8 = tl.load(
        rows_value_8_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    rows_value_7 = tl.load(
        rows_value_7_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    value_2 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_7), 0.0)
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
    scores_W1_halo = coefficients_3 * (product * product) + product * coefficients_2 + coefficients
    # P: source weights by read
    weights_halo = tl.load(
        gate_weights_halo_pointer + slot * (ROWS * HALO) + row[:, None] * HALO + (halo_row + HALO)[None, :],
        mask=(row < ROWS)[:, None] & (halo_row < 0)[None, :],
        other=0.0,
    )
    # (Q X^T) * P
    attention_W1_halo = scores_W1_halo * weights_halo
    product_2 = tl.dot(
        tl.trans(attention_W1_halo.to(DOT)),
        (rows_value_8 * value_2).to(DOT),
        input_precision=PRECISION,
    )
    tl.store(
        rows_value_9_pointer + slot * (HALO * D1) + (halo_row + HALO)[:, None] * D1 + hidden_1[None, :],
        product_2,
        mask=(halo_row < 0)[:, None] & is_hidden_1[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def read_gradients_2_s_D1(
    coefficients_pointer,
    gate_weights_pointer,
    k_pointer,
    length_pointer,
    position_pointer,
    q_pointer,
    rows_value_17_pointer,
    rows_value_7_pointer,
    rows_value_8_pointer,
    window_k_pointer,
    coefficients_columns,
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
    HELD: tl.constexpr,
    K: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    V: tl.constexpr,
):
    """Rows of one block that later kernels read: rows_value_17."""
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
    is_held = (row < first) & (row >= first - HELD)
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    rows_value_8 = tl.load(
        rows_value_8_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    rows_value_7 = tl.load(
        rows_value_7_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    value_2 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_7), 0.0)
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
    scores_W1 = coefficients_3 * (product * product) + product * coefficients_2 + coefficients
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
        (rows_value_8 * value_2).to(DOT),
        input_precision=PRECISION,
    )
    tl.store(
        rows_value_17_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        product_2,
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def state_gradient(
    anchor_W2_pointer,
    coefficients_pointer,
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
    gate_last_weights_halo_pointer,
    gate_last_weights_pointer,
    gate_read_decay_pointer,
    k_pointer,
    length_pointer,
    memory_W2_blocks_pointer,
    monomial_entry_0_pointer,
    monomial_entry_1_pointer,
    monomial_scale_0_pointer,
    monomial_scale_1_pointer,
    monomial_scale_2_pointer,
    position_pointer,
    q_pointer,
    rows_d_errors_20_pointer,
    rows_d_errors_W1_18_pointer,
    rows_d_errors_W1_halo_10_pointer,
    rows_d_errors_halo_12_pointer,
    rows_predictions_2_pointer,
    rows_predictions_halo_5_pointer,
    rows_value_11_pointer,
    rows_value_13_pointer,
    rows_value_14_pointer,
    rows_value_15_pointer,
    rows_value_16_pointer,
    rows_value_17_pointer,
    rows_value_19_pointer,
    rows_value_1_pointer,
    rows_value_21_pointer,
    rows_value_22_pointer,
    rows_value_23_pointer,
    rows_value_24_pointer,
    rows_value_3_pointer,
    rows_value_4_pointer,
    rows_value_6_pointer,
    rows_value_7_pointer,
    rows_value_8_pointer,
    rows_value_9_pointer,
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
    """The gradient of the memory from the last block to the first, tile by tile."""
    program = tl.program_id(0)
    memory_index = tl.cast(program, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    row = tl.arange(0, BLOCK_ROWS)
    halo_row = tl.arange(0, BLOCK_HALO)
    halo_row = tl.where(halo_row < HALO, halo_row - HALO, ROWS)  # negative: before the block
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
    coefficients = tl.load(coefficients_pointer + head * coefficients_columns + 0).to(tl.float32)
    coefficients_2 = tl.load(coefficients_pointer + head * coefficients_columns + 1).to(tl.float32)
    coefficients_3 = tl.load(coefficients_pointer + head * coefficients_columns + 2).to(tl.float32)
    anchor_W2 = (
        tl.load(
            anchor_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        if RESUME
        else 0.0
    )
    for turn in tl.range(0, blocks * 19, disable_licm=True):
        step = turn // 19
        part = turn % 19
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
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
        q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
        d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
        if part == 0:
            rows_value_9 = tl.load(
                rows_value_9_pointer
                + slot * (HALO * D1)
                + (halo_row + HALO)[:, None] * D1
                + hidden_1[None, :],
                mask=(halo_row < 0)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            d_errors_W1_halo = -rows_value_9
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
                d_errors_W1_halo += tl.dot(
                    (last_weights_halo[:, None] * features_halo).to(DOT),
                    (-d_memory_W1_next).to(DOT),
                    input_precision=PRECISION,
                )
            tl.store(
                rows_d_errors_W1_halo_10_pointer
                + slot * (HALO * D1)
                + (halo_row + HALO)[:, None] * D1
                + hidden_1[None, :],
                d_errors_W1_halo,
                mask=(halo_row < 0)[:, None] & is_hidden_1[None, :],
            )
        if part == 1:
            d_memory_W2_next = tl.load(
                d_memory_W2_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                mask=is_hidden_1[:, None] & is_value[None, :],
                other=0.0,
            )
            # pred = f(M*, phi(k))
            predictions_halo = tl.load(
                rows_predictions_halo_5_pointer
                + slot * (HALO * V)
                + (halo_row + HALO)[:, None] * V
                + value[None, :],
                mask=(halo_row < 0)[:, None] & is_value[None, :],
                other=0.0,
            )
            v_halo = tl.load(
                v_block + halo_row[:, None] * v_row + value[None, :],
                mask=is_halo[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
            if RESUME:
                window_v_base = (
                    window_v_pointer + (batch * HELD * heads + head) * V + (start + HELD) * heads * V
                )
                v_halo += tl.load(
                    window_v_base + halo_row[:, None] * (heads * V) + value[None, :],
                    mask=is_held_halo[:, None] & is_value[None, :],
                    other=0.0,
                )
            # E = dl/dpred at the block's M*
            errors_halo = predictions_halo - v_halo
            product = tl.dot(
                errors_halo.to(DOT),
                tl.trans(d_memory_W2_next.to(DOT)),
                input_precision=PRECISION,
            )
            tl.store(
                rows_value_13_pointer
                + slot * (HALO * D1)
                + (halo_row + HALO)[:, None] * D1
                + hidden_1[None, :],
                product,
                mask=(halo_row < 0)[:, None] & is_hidden_1[None, :],
            )
        if part == 2:
            rows_value_17 = tl.load(
                rows_value_17_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            d_errors_W1 = -rows_value_17
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
                d_memory_W1_next_2 = tl.load(
                    d_memory_W1_next_blocks_pointer
                    + slot * (F * D1)
                    + monomial[:, None] * D1
                    + hidden_1[None, :],
                    mask=is_monomial[:, None] & is_hidden_1[None, :],
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
                d_errors_W1 += tl.dot(
                    (last_weights[:, None] * features).to(DOT),
                    (-d_memory_W1_next_2).to(DOT),
                    input_precision=PRECISION,
                )
            tl.store(
                rows_d_errors_W1_18_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                d_errors_W1,
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            )
        if part == 3:
            d_memory_W2_next_2 = tl.load(
                d_memory_W2_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                mask=is_hidden_1[:, None] & is_value[None, :],
                other=0.0,
            )
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
            if RESUME:
                window_v_base = (
                    window_v_pointer + (batch * HELD * heads + head) * V + (start + HELD) * heads * V
                )
                v += tl.load(
                    window_v_base + row[:, None] * (heads * V) + value[None, :],
                    mask=is_held[:, None] & is_value[None, :],
                    other=0.0,
                )
            # E = dl/dpred at the block's M*
            errors = predictions - v
            product_2 = tl.dot(
                errors.to(DOT),
                tl.trans(d_memory_W2_next_2.to(DOT)),
                input_precision=PRECISION,
            )
            tl.store(
                rows_value_21_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                product_2,
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            )
        if part == 4:
            d_errors_W1_halo_2 = tl.load(
                rows_d_errors_W1_halo_10_pointer
                + slot * (HALO * D1)
                + (halo_row + HALO)[:, None] * D1
                + hidden_1[None, :],
                mask=(halo_row < 0)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            rows_value_4 = tl.load(
                rows_value_4_pointer
                + slot * (HALO * D1)
                + (halo_row + HALO)[:, None] * D1
                + hidden_1[None, :],
                mask=(halo_row < 0)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            value_2 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_4), 0.0)
            memory_W2 = tl.load(
                memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                mask=is_hidden_1[:, None] & is_value[None, :],
                other=0.0,
            )
            # M*: the memory at the last border
            anchor_point_W2 = tl.where(block == 0, anchor_W2, memory_W2) if RESUME else memory_W2
            product_3 = tl.dot(
                (d_errors_W1_halo_2 * value_2).to(DOT),
                anchor_point_W2.to(DOT),
                input_precision=PRECISION,
            )
            d_memory_W2_next_3 = tl.load(
                d_memory_W2_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                mask=is_hidden_1[:, None] & is_value[None, :],
                other=0.0,
            )
            # p_C: last row of P
            last_weights_halo_2 = tl.load(
                gate_last_weights_halo_pointer + slot * HALO + (halo_row + HALO),
                mask=halo_row < 0,
                other=0.0,
            )
            product_4 = tl.dot(
                (last_weights_halo_2[:, None] * gelu(rows_value_4)).to(DOT),
                d_memory_W2_next_3.to(DOT),
                input_precision=PRECISION,
            )
            rows_value_11 = tl.load(
                rows_value_11_pointer + slot * (HALO * V) + (halo_row + HALO)[:, None] * V + value[None, :],
                mask=(halo_row < 0)[:, None] & is_value[None, :],
                other=0.0,
            )
            d_errors_halo = product_3 - product_4 - rows_value_11
            tl.store(
                rows_d_errors_halo_12_pointer
                + slot * (HALO * V)
                + (halo_row + HALO)[:, None] * V
                + value[None, :],
                d_errors_halo,
                mask=(halo_row < 0)[:, None] & is_value[None, :],
            )
        if part == 5:
            d_errors_W1_2 = tl.load(
                rows_d_errors_W1_18_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            rows_value_1 = tl.load(
                rows_value_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            value_3 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_1), 0.0)
            memory_W2_2 = tl.load(
                memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                mask=is_hidden_1[:, None] & is_value[None, :],
                other=0.0,
            )
            # M*: the memory at the last border
            anchor_point_W2_2 = tl.where(block == 0, anchor_W2, memory_W2_2) if RESUME else memory_W2_2
            product_5 = tl.dot(
                (d_errors_W1_2 * value_3).to(DOT),
                anchor_point_W2_2.to(DOT),
                input_precision=PRECISION,
            )
            d_memory_W2_next_4 = tl.load(
                d_memory_W2_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                mask=is_hidden_1[:, None] & is_value[None, :],
                other=0.0,
            )
            # p_C: last row of P
            last_weights_2 = tl.load(
                gate_last_weights_pointer + slot * ROWS + row,
                mask=row < ROWS,
                other=0.0,
            )
            product_6 = tl.dot(
                (last_weights_2[:, None] * gelu(rows_value_1)).to(DOT),
                d_memory_W2_next_4.to(DOT),
                input_precision=PRECISION,
            )
            rows_value_19 = tl.load(
                rows_value_19_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            d_errors = product_5 - product_6 - rows_value_19
            tl.store(
                rows_d_errors_20_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                d_errors,
                mask=(row < ROWS)[:, None] & is_value[None, :],
            )
        if part == 6:
            d_errors_halo_2 = tl.load(
                rows_d_errors_halo_12_pointer
                + slot * (HALO * V)
                + (halo_row + HALO)[:, None] * V
                + value[None, :],
                mask=(halo_row < 0)[:, None] & is_value[None, :],
                other=0.0,
            )
            memory_W2_3 = tl.load(
                memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                mask=is_hidden_1[:, None] & is_value[None, :],
                other=0.0,
            )
            # M*: the memory at the last border
            anchor_point_W2_3 = tl.where(block == 0, anchor_W2, memory_W2_3) if RESUME else memory_W2_3
            product_7 = tl.dot(
                d_errors_halo_2.to(DOT),
                tl.trans(anchor_point_W2_3.to(DOT)),
                input_precision=PRECISION,
            )
            rows_value_13 = tl.load(
                rows_value_13_pointer
                + slot * (HALO * D1)
                + (halo_row + HALO)[:, None] * D1
                + hidden_1[None, :],
                mask=(halo_row < 0)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            # p_C: last row of P
            last_weights_halo_3 = tl.load(
                gate_last_weights_halo_pointer + slot * HALO + (halo_row + HALO),
                mask=halo_row < 0,
                other=0.0,
            )
            rows_value_14 = tl.load(
                rows_value_14_pointer
                + slot * (HALO * D1)
                + (halo_row + HALO)[:, None] * D1
                + hidden_1[None, :],
                mask=(halo_row < 0)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            combined = product_7 - rows_value_13 * last_weights_halo_3[:, None] - rows_value_14
            tl.store(
                rows_value_15_pointer
                + slot * (HALO * D1)
                + (halo_row + HALO)[:, None] * D1
                + hidden_1[None, :],
                combined,
                mask=(halo_row < 0)[:, None] & is_hidden_1[None, :],
            )
        if part == 7:
            d_errors_2 = tl.load(
                rows_d_errors_20_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            memory_W2_4 = tl.load(
                memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                mask=is_hidden_1[:, None] & is_value[None, :],
                other=0.0,
            )
            # M*: the memory at the last border
            anchor_point_W2_4 = tl.where(block == 0, anchor_W2, memory_W2_4) if RESUME else memory_W2_4
            product_8 = tl.dot(
                d_errors_2.to(DOT),
                tl.trans(anchor_point_W2_4.to(DOT)),
                input_precision=PRECISION,
            )
            rows_value_21 = tl.load(
                rows_value_21_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            # p_C: last row of P
            last_weights_3 = tl.load(
                gate_last_weights_pointer + slot * ROWS + row,
                mask=row < ROWS,
                other=0.0,
            )
            rows_value_22 = tl.load(
                rows_value_22_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            combined_2 = product_8 - rows_value_21 * last_weights_3[:, None] - rows_value_22
            tl.store(
                rows_value_23_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                combined_2,
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            )
        if part == 8:
            d_errors_W1_halo_3 = tl.load(
                rows_d_errors_W1_halo_10_pointer
                + slot * (HALO * D1)
                + (halo_row + HALO)[:, None] * D1
                + hidden_1[None, :],
                mask=(halo_row < 0)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            rows_value_6 = tl.load(
                rows_value_6_pointer
                + slot * (HALO * D1)
                + (halo_row + HALO)[:, None] * D1
                + hidden_1[None, :],
                mask=(halo_row < 0)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            rows_value_4_2 = tl.load(
                rows_value_4_pointer
                + slot * (HALO * D1)
                + (halo_row + HALO)[:, None] * D1
                + hidden_1[None, :],
                mask=(halo_row < 0)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            value_4 = tl.where(
                is_hidden_1[None, :],
                0.3989422804014327
                * (2.0 - rows_value_4_2 * rows_value_4_2)
                * tl.exp(-0.5 * (rows_value_4_2 * rows_value_4_2)),
                0.0,
            )
            rows_value_15 = tl.load(
                rows_value_15_pointer
                + slot * (HALO * D1)
                + (halo_row + HALO)[:, None] * D1
                + hidden_1[None, :],
                mask=(halo_row < 0)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            value_5 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_4_2), 0.0)
            combined_3 = d_errors_W1_halo_3 * rows_value_6 * value_4 + rows_value_15 * value_5
            tl.store(
                rows_value_16_pointer
                + slot * (HALO * D1)
                + (halo_row + HALO)[:, None] * D1
                + hidden_1[None, :],
                combined_3,
                mask=(halo_row < 0)[:, None] & is_hidden_1[None, :],
            )
        if part == 9:
            d_errors_W1_3 = tl.load(
                rows_d_errors_W1_18_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
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
            value_6 = tl.where(
                is_hidden_1[None, :],
                0.3989422804014327
                * (2.0 - rows_value_1_2 * rows_value_1_2)
                * tl.exp(-0.5 * (rows_value_1_2 * rows_value_1_2)),
                0.0,
            )
            rows_value_23 = tl.load(
                rows_value_23_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            value_7 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_1_2), 0.0)
            combined_4 = d_errors_W1_3 * rows_value_3 * value_6 + rows_value_23 * value_7
            tl.store(
                rows_value_24_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                combined_4,
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            )
        if part == 10:
            # a_C: decay of the memory over the block
            kept = tl.load(gate_kept_pointer + slot)
            rows_value_16 = tl.load(
                rows_value_16_pointer
                + slot * (HALO * D1)
                + (halo_row + HALO)[:, None] * D1
                + hidden_1[None, :],
                mask=(halo_row < 0)[:, None] & is_hidden_1[None, :],
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
            rows_value_24 = tl.load(
                rows_value_24_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
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
                at_border = tl.where(block == 0, 0.0, d_anchor_W1) if RESUME else d_anchor_W1
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
                    monomial_scale_0_3 * tl.sqrt(coefficients)
                    + monomial_scale_1_3 * tl.sqrt(coefficients_2)
                    + monomial_scale_2_3 * tl.sqrt(coefficients_3)
                )
                monomial_entry_0_3 = tl.load(monomial_entry_0_pointer + monomial, mask=is_monomial, other=0)
                value_8 = monomial_weights_3[None, :] * take(k_halo_2, monomial_entry_0_3)
                monomial_entry_1_3 = tl.load(monomial_entry_1_pointer + monomial, mask=is_monomial, other=0)
                # X = phi(k)
                features_halo_2 = value_8 * take(k_halo_2, monomial_entry_1_3)
                product_9 = tl.dot(
                    tl.trans(features_halo_2.to(DOT)),
                    rows_value_16.to(DOT),
                    input_precision=PRECISION,
                )
                at_border_2 = tl.where(block == 0, 0.0, product_9) if RESUME else product_9
                # X = phi(k)
                features_2 = (
                    monomial_weights_3[None, :]
                    * take(k_2, monomial_entry_0_3)
                    * take(k_2, monomial_entry_1_3)
                )
                product_10 = tl.dot(
                    tl.trans(features_2.to(DOT)),
                    rows_value_24.to(DOT),
                    input_precision=PRECISION,
                )
                at_border_3 = tl.where(block == 0, 0.0, product_10) if RESUME else product_10
                combined_5 = at_border + d_memory_W1_next_3 * kept + at_border_2 + at_border_3
                if block > 0:
                    tl.store(
                        d_memory_W1_next_blocks_pointer
                        + (slot - 1) * (F * D1)
                        + monomial[:, None] * D1
                        + hidden_1[None, :],
                        combined_5,
                        mask=is_monomial[:, None] & is_hidden_1[None, :],
                    )
                else:
                    if GRAD_INITIAL:
                        tl.store(
                            d_memory_W1_pointer
                            + memory_index * (F * D1)
                            + monomial[:, None] * D1
                            + hidden_1[None, :],
                            combined_5,
                            mask=is_monomial[:, None] & is_hidden_1[None, :],
                        )
        if part == 11:
            rows_value_8 = tl.load(
                rows_value_8_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            rows_value_7 = tl.load(
                rows_value_7_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            value_9 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_7), 0.0)
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
                product_11 = tl.dot(
                    tl.trans(queries.to(DOT)),
                    (rows_value_8 * value_9 * read_decay[:, None]).to(DOT),
                    input_precision=PRECISION,
                )
                if block > 0:
                    tl.store(
                        d_memory_W1_next_blocks_pointer
                        + (slot - 1) * (F * D1)
                        + monomial[:, None] * D1
                        + hidden_1[None, :],
                        product_11
                        + tl.load(
                            d_memory_W1_next_blocks_pointer
                            + (slot - 1) * (F * D1)
                            + monomial[:, None] * D1
                            + hidden_1[None, :],
                            mask=is_monomial[:, None] & is_hidden_1[None, :],
                            other=0.0,
                        ),
                        mask=is_monomial[:, None] & is_hidden_1[None, :],
                    )
                else:
                    if GRAD_INITIAL:
                        tl.store(
                            d_memory_W1_pointer
                            + memory_index * (F * D1)
                            + monomial[:, None] * D1
                            + hidden_1[None, :],
                            product_11
                            + tl.load(
                                d_memory_W1_pointer
                                + memory_index * (F * D1)
                                + monomial[:, None] * D1
                                + hidden_1[None, :],
                                mask=is_monomial[:, None] & is_hidden_1[None, :],
                                other=0.0,
                            ),
                            mask=is_monomial[:, None] & is_hidden_1[None, :],
                        )
        if part == 12:
            d_memory_W2_next_5 = tl.load(
                d_memory_W2_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                mask=is_hidden_1[:, None] & is_value[None, :],
                other=0.0,
            )
            # a_C: decay of the memory over the block
            kept_2 = tl.load(gate_kept_pointer + slot)
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
            at_border_4 = tl.where(block == 0, 0.0, d_anchor_W2) if RESUME else d_anchor_W2
            d_reads = tl.load(
                d_y_block + row[:, None] * d_y_row + value[None, :],
                mask=live[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
            # a: decay of the memory since the block's start
            read_decay_2 = tl.load(gate_read_decay_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
            rows_value_7_2 = tl.load(
                rows_value_7_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            product_12 = tl.dot(
                tl.trans(gelu(rows_value_7_2).to(DOT)),
                (d_reads * read_decay_2[:, None]).to(DOT),
                input_precision=PRECISION,
            )
            d_errors_W1_halo_4 = tl.load(
                rows_d_errors_W1_halo_10_pointer
                + slot * (HALO * D1)
                + (halo_row + HALO)[:, None] * D1
                + hidden_1[None, :],
                mask=(halo_row < 0)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            rows_value_4_3 = tl.load(
                rows_value_4_pointer
                + slot * (HALO * D1)
                + (halo_row + HALO)[:, None] * D1
                + hidden_1[None, :],
                mask=(halo_row < 0)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            value_10 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_4_3), 0.0)
            # pred = f(M*, phi(k))
            predictions_halo_2 = tl.load(
                rows_predictions_halo_5_pointer
                + slot * (HALO * V)
                + (halo_row + HALO)[:, None] * V
                + value[None, :],
                mask=(halo_row < 0)[:, None] & is_value[None, :],
                other=0.0,
            )
            v_halo_2 = tl.load(
                v_block + halo_row[:, None] * v_row + value[None, :],
                mask=is_halo[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
            if RESUME:
                window_v_base = (
                    window_v_pointer + (batch * HELD * heads + head) * V + (start + HELD) * heads * V
                )
                v_halo_2 += tl.load(
                    window_v_base + halo_row[:, None] * (heads * V) + value[None, :],
                    mask=is_held_halo[:, None] & is_value[None, :],
                    other=0.0,
                )
            # E = dl/dpred at the block's M*
            errors_halo_2 = predictions_halo_2 - v_halo_2
            product_13 = tl.dot(
                tl.trans((d_errors_W1_halo_4 * value_10).to(DOT)),
                errors_halo_2.to(DOT),
                input_precision=PRECISION,
            )
            at_border_5 = tl.where(block == 0, 0.0, product_13) if RESUME else product_13
            combined_6 = d_memory_W2_next_5 * kept_2 + at_border_4 + product_12 + at_border_5
            if block > 0:
                tl.store(
                    d_memory_W2_next_blocks_pointer
                    + (slot - 1) * (D1 * V)
                    + hidden_1[:, None] * V
                    + value[None, :],
                    combined_6,
                    mask=is_hidden_1[:, None] & is_value[None, :],
                )
            else:
                if GRAD_INITIAL:
                    tl.store(
                        d_memory_W2_pointer
                        + memory_index * (D1 * V)
                        + hidden_1[:, None] * V
                        + value[None, :],
                        combined_6,
                        mask=is_hidden_1[:, None] & is_value[None, :],
                    )
        if part == 13:
            d_errors_halo_3 = tl.load(
                rows_d_errors_halo_12_pointer
                + slot * (HALO * V)
                + (halo_row + HALO)[:, None] * V
                + value[None, :],
                mask=(halo_row < 0)[:, None] & is_value[None, :],
                other=0.0,
            )
            rows_value_4_4 = tl.load(
                rows_value_4_pointer
                + slot * (HALO * D1)
                + (halo_row + HALO)[:, None] * D1
                + hidden_1[None, :],
                mask=(halo_row < 0)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            product_14 = tl.dot(
                tl.trans(gelu(rows_value_4_4).to(DOT)),
                d_errors_halo_3.to(DOT),
                input_precision=PRECISION,
            )
            at_border_6 = tl.where(block == 0, 0.0, product_14) if RESUME else product_14
            d_errors_W1_4 = tl.load(
                rows_d_errors_W1_18_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            rows_value_1_3 = tl.load(
                rows_value_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            value_11 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_1_3), 0.0)
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
            if RESUME:
                window_v_base = (
                    window_v_pointer + (batch * HELD * heads + head) * V + (start + HELD) * heads * V
                )
                v_2 += tl.load(
                    window_v_base + row[:, None] * (heads * V) + value[None, :],
                    mask=is_held[:, None] & is_value[None, :],
                    other=0.0,
                )
            # E = dl/dpred at the block's M*
            errors_2 = predictions_2 - v_2
            product_15 = tl.dot(
                tl.trans((d_errors_W1_4 * value_11).to(DOT)),
                errors_2.to(DOT),
                input_precision=PRECISION,
            )
            at_border_7 = tl.where(block == 0, 0.0, product_15) if RESUME else product_15
            following = at_border_6 + at_border_7
            if block > 0:
                tl.store(
                    d_memory_W2_next_blocks_pointer
                    + (slot - 1) * (D1 * V)
                    + hidden_1[:, None] * V
                    + value[None, :],
                    following
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
                        following
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
        if part == 14:
            d_errors_3 = tl.load(
                rows_d_errors_20_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            rows_value_1_4 = tl.load(
                rows_value_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            product_16 = tl.dot(
                tl.trans(gelu(rows_value_1_4).to(DOT)),
                d_errors_3.to(DOT),
                input_precision=PRECISION,
            )
            at_border_8 = tl.where(block == 0, 0.0, product_16) if RESUME else product_16
            if block > 0:
                tl.store(
                    d_memory_W2_next_blocks_pointer
                    + (slot - 1) * (D1 * V)
                    + hidden_1[:, None] * V
                    + value[None, :],
                    at_border_8
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
                        at_border_8
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
        if part == 15:
            rows_value_8_2 = tl.load(
                rows_value_8_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            rows_value_7_3 = tl.load(
                rows_value_7_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            value_12 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_7_3), 0.0)
            value_13 = rows_value_8_2 * value_12
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
                d_memory_W1_next_4 = tl.load(
                    d_memory_W1_next_blocks_pointer
                    + slot * (F * D1)
                    + monomial[:, None] * D1
                    + hidden_1[None, :],
                    mask=is_monomial[:, None] & is_hidden_1[None, :],
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
                monomial_entry_1_5 = tl.load(monomial_entry_1_pointer + monomial, mask=is_monomial, other=0)
                # phi(q)
                queries_2 = (
                    monomial_weights_5[None, :]
                    * take(q_2, monomial_entry_0_5)
                    * take(q_2, monomial_entry_1_5)
                )
                product_17 = tl.dot(tl.trans(queries_2.to(DOT)), value_13.to(DOT), input_precision=PRECISION)
                product_18 = tl.dot(
                    tl.trans(queries_2.to(DOT)),
                    (value_13 * read_decay_3[:, None]).to(DOT),
                    input_precision=PRECISION,
                )
                combined_7 = d_memory_W1_next_4 + product_17 - (d_memory_W1_next_4 * kept_3 + product_18)
                d_origin_W1 = combined_7
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
        if part == 16:
            rows_value_16_2 = tl.load(
                rows_value_16_pointer
                + slot * (HALO * D1)
                + (halo_row + HALO)[:, None] * D1
                + hidden_1[None, :],
                mask=(halo_row < 0)[:, None] & is_hidden_1[None, :],
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
            rows_value_24_2 = tl.load(
                rows_value_24_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
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
                monomial_scale_0_6 = tl.load(monomial_scale_0_pointer + monomial, mask=is_monomial, other=0)
                monomial_scale_1_6 = tl.load(monomial_scale_1_pointer + monomial, mask=is_monomial, other=0)
                monomial_scale_2_6 = tl.load(monomial_scale_2_pointer + monomial, mask=is_monomial, other=0)
                monomial_weights_6 = (
                    monomial_scale_0_6 * tl.sqrt(coefficients)
                    + monomial_scale_1_6 * tl.sqrt(coefficients_2)
                    + monomial_scale_2_6 * tl.sqrt(coefficients_3)
                )
                monomial_entry_0_6 = tl.load(monomial_entry_0_pointer + monomial, mask=is_monomial, other=0)
                value_14 = monomial_weights_6[None, :] * take(k_halo_3, monomial_entry_0_6)
                monomial_entry_1_6 = tl.load(monomial_entry_1_pointer + monomial, mask=is_monomial, other=0)
                # X = phi(k)
                features_halo_3 = value_14 * take(k_halo_3, monomial_entry_1_6)
                product_19 = tl.dot(
                    tl.trans(features_halo_3.to(DOT)),
                    rows_value_16_2.to(DOT),
                    input_precision=PRECISION,
                )
                # X = phi(k)
                features_3 = (
                    monomial_weights_6[None, :]
                    * take(k_3, monomial_entry_0_6)
                    * take(k_3, monomial_entry_1_6)
                )
                product_20 = tl.dot(
                    tl.trans(features_3.to(DOT)),
                    rows_value_24_2.to(DOT),
                    input_precision=PRECISION,
                )
                d_anchor_point_W1 = d_anchor_W1_2 + product_19 + product_20
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
        if part == 17:
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
            d_errors_W1_halo_5 = tl.load(
                rows_d_errors_W1_halo_10_pointer
                + slot * (HALO * D1)
                + (halo_row + HALO)[:, None] * D1
                + hidden_1[None, :],
                mask=(halo_row < 0)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            rows_value_4_5 = tl.load(
                rows_value_4_pointer
                + slot * (HALO * D1)
                + (halo_row + HALO)[:, None] * D1
                + hidden_1[None, :],
                mask=(halo_row < 0)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            value_15 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_4_5), 0.0)
            # pred = f(M*, phi(k))
            predictions_halo_3 = tl.load(
                rows_predictions_halo_5_pointer
                + slot * (HALO * V)
                + (halo_row + HALO)[:, None] * V
                + value[None, :],
                mask=(halo_row < 0)[:, None] & is_value[None, :],
                other=0.0,
            )
            v_halo_3 = tl.load(
                v_block + halo_row[:, None] * v_row + value[None, :],
                mask=is_halo[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
            if RESUME:
                window_v_base = (
                    window_v_pointer + (batch * HELD * heads + head) * V + (start + HELD) * heads * V
                )
                v_halo_3 += tl.load(
                    window_v_base + halo_row[:, None] * (heads * V) + value[None, :],
                    mask=is_held_halo[:, None] & is_value[None, :],
                    other=0.0,
                )
            # E = dl/dpred at the block's M*
            errors_halo_3 = predictions_halo_3 - v_halo_3
            product_21 = tl.dot(
                tl.trans((d_errors_W1_halo_5 * value_15).to(DOT)),
                errors_halo_3.to(DOT),
                input_precision=PRECISION,
            )
            d_errors_halo_4 = tl.load(
                rows_d_errors_halo_12_pointer
                + slot * (HALO * V)
                + (halo_row + HALO)[:, None] * V
                + value[None, :],
                mask=(halo_row < 0)[:, None] & is_value[None, :],
                other=0.0,
            )
            product_22 = tl.dot(
                tl.trans(gelu(rows_value_4_5).to(DOT)),
                d_errors_halo_4.to(DOT),
                input_precision=PRECISION,
            )
            d_errors_W1_5 = tl.load(
                rows_d_errors_W1_18_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            rows_value_1_5 = tl.load(
                rows_value_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            value_16 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_1_5), 0.0)
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
            if RESUME:
                window_v_base = (
                    window_v_pointer + (batch * HELD * heads + head) * V + (start + HELD) * heads * V
                )
                v_3 += tl.load(
                    window_v_base + row[:, None] * (heads * V) + value[None, :],
                    mask=is_held[:, None] & is_value[None, :],
                    other=0.0,
                )
            # E = dl/dpred at the block's M*
            errors_3 = predictions_3 - v_3
            product_23 = tl.dot(
                tl.trans((d_errors_W1_5 * value_16).to(DOT)),
                errors_3.to(DOT),
                input_precision=PRECISION,
            )
            d_errors_4 = tl.load(
                rows_d_errors_20_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
                mask=(row < ROWS)[:, None] & is_value[None, :],
                other=0.0,
            )
            product_24 = tl.dot(
                tl.trans(gelu(rows_value_1_5).to(DOT)),
                d_errors_4.to(DOT),
                input_precision=PRECISION,
            )
            d_anchor_point_W2 = d_anchor_W2_2 + product_21 + product_22 + product_23 + product_24
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
        if part == 18:
            d_memory_W2_next_6 = tl.load(
                d_memory_W2_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                mask=is_hidden_1[:, None] & is_value[None, :],
                other=0.0,
            )
            d_reads_2 = tl.load(
                d_y_block + row[:, None] * d_y_row + value[None, :],
                mask=live[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
            rows_value_7_4 = tl.load(
                rows_value_7_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
                mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            value_17 = gelu(rows_value_7_4)
            product_25 = tl.dot(tl.trans(value_17.to(DOT)), d_reads_2.to(DOT), input_precision=PRECISION)
            # a_C: decay of the memory over the block
            kept_4 = tl.load(gate_kept_pointer + slot)
            # a: decay of the memory since the block's start
            read_decay_4 = tl.load(gate_read_decay_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
            product_26 = tl.dot(
                tl.trans(value_17.to(DOT)),
                (d_reads_2 * read_decay_4[:, None]).to(DOT),
                input_precision=PRECISION,
            )
            combined_8 = d_memory_W2_next_6 + product_25 - (d_memory_W2_next_6 * kept_4 + product_26)
            d_origin_W2 = combined_8
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
    d_v_pointer,
    d_window_v_pointer,
    length_pointer,
    position_pointer,
    rows_d_errors_20_pointer,
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
        rows_d_errors_20_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
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
    rows_value_3_pointer,
    rows_value_4_pointer,
    rows_value_6_pointer,
    rows_value_7_pointer,
    rows_value_8_pointer,
    window_k_pointer,
    coefficients_columns,
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
    is_held = (row < first) & (row >= first - HELD)
    earliest = tl.cast(tl.maximum(-start, -HALO), tl.int32)
    is_halo = (halo_row >= earliest) & (halo_row < tl.minimum(last, 0))
    is_held_halo = (halo_row < earliest) & (halo_row >= earliest - HELD)
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    combined = tl.zeros([BLOCK_ROWS, BLOCK_K], dtype=tl.float32)
    rows_value_8 = tl.load(
        rows_value_8_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    rows_value_7 = tl.load(
        rows_value_7_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    value_2 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_7), 0.0)
    value_3 = rows_value_8 * value_2
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
        monomial_weights = (
            monomial_scale_0 * tl.sqrt(coefficients)
            + monomial_scale_1 * tl.sqrt(coefficients_2)
            + monomial_scale_2 * tl.sqrt(coefficients_3)
        )
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
    rows_value_6 = tl.load(
        rows_value_6_pointer + slot * (HALO * D1) + (halo_row + HALO)[:, None] * D1 + hidden_1[None, :],
        mask=(halo_row < 0)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    rows_value_4 = tl.load(
        rows_value_4_pointer + slot * (HALO * D1) + (halo_row + HALO)[:, None] * D1 + hidden_1[None, :],
        mask=(halo_row < 0)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    value_8 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_4), 0.0)
    # the error that reaches the output of W1
    errors_W1_halo = rows_value_6 * value_8
    product_3 = tl.dot(value_3.to(DOT), tl.trans(errors_W1_halo.to(DOT)), input_precision=PRECISION)
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
    product_4 = tl.dot(q.to(DOT), tl.trans(k_halo.to(DOT)), input_precision=PRECISION)
    value_9 = product_3 * weights_halo * (2.0 * product_4 * coefficients_3 + coefficients_2)
    product_5 = tl.dot(value_9.to(DOT), k_halo.to(DOT), input_precision=PRECISION)
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
    value_10 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_1), 0.0)
    # the error that reaches the output of W1
    errors_W1 = rows_value_3 * value_10
    product_6 = tl.dot(value_3.to(DOT), tl.trans(errors_W1.to(DOT)), input_precision=PRECISION)
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
    product_7 = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
    value_11 = product_6 * weights * (2.0 * product_7 * coefficients_3 + coefficients_2)
    product_8 = tl.dot(value_11.to(DOT), k.to(DOT), input_precision=PRECISION)
    d_q_block = d_q_pointer + (batch * tokens + start) * d_q_row + head * d_q_head
    tl.store(
        d_q_block + row[:, None] * d_q_row + feature[None, :],
        combined + d_reads - product_5 - product_8,
        mask=live[:, None] & is_feature[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_k(
    anchor_W1_pointer,
    coefficients_pointer,
    d_k_pointer,
    d_memory_W1_next_blocks_pointer,
    d_window_k_pointer,
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
    rows_d_errors_20_pointer,
    rows_value_1_pointer,
    rows_value_24_pointer,
    rows_value_3_pointer,
    rows_value_7_pointer,
    rows_value_8_pointer,
    window_k_pointer,
    coefficients_columns,
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
    is_held = (row < first) & (row >= first - HELD)
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    combined = tl.zeros([BLOCK_ROWS, BLOCK_K], dtype=tl.float32)
    rows_value_24 = tl.load(
        rows_value_24_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
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
        product = tl.dot(rows_value_24.to(DOT), tl.trans(anchor_point_W1.to(DOT)), input_precision=PRECISION)
        d_memory_W1_next = tl.load(
            d_memory_W1_next_blocks_pointer + slot * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
            mask=is_monomial[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        product_2 = tl.dot(errors_W1.to(DOT), tl.trans(d_memory_W1_next.to(DOT)), input_precision=PRECISION)
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
        value_3 = d_features * (monomial_weights[None, :] * take(k, monomial_entry_0))
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
        value_5 = d_features * take(k, monomial_entry_1) * monomial_weights[None, :]
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
    d_errors = tl.load(
        rows_d_errors_20_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    rows_value_8 = tl.load(
        rows_value_8_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    rows_value_7 = tl.load(
        rows_value_7_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    value_7 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_7), 0.0)
    product_3 = tl.dot(
        (rows_value_8 * value_7).to(DOT),
        tl.trans(errors_W1.to(DOT)),
        input_precision=PRECISION,
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
    product_4 = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
    value_8 = product_3 * weights * (2.0 * product_4 * coefficients_3 + coefficients_2)
    product_5 = tl.dot(tl.trans(value_8.to(DOT)), q.to(DOT), input_precision=PRECISION)
    d_k_block = d_k_pointer + (batch * tokens + start) * d_k_row + head * d_k_head
    tl.store(
        d_k_block + row[:, None] * d_k_row + feature[None, :],
        combined + d_errors - product_5,
        mask=live[:, None] & is_feature[None, :],
    )
    if RESUME:
        d_window_k_base = d_window_k_pointer + (batch * HELD * heads + head) * K + (start + HELD) * heads * K
        tl.store(
            d_window_k_base + row[:, None] * (heads * K) + feature[None, :],
            combined + d_errors - product_5,
            mask=is_held[:, None] & is_feature[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_halo(
    anchor_W1_pointer,
    coefficients_pointer,
    d_gate_weights_halo_pointer,
    d_k_halo_pointer,
    d_memory_W1_next_blocks_pointer,
    d_v_halo_pointer,
    d_y_pointer,
    gate_last_weights_halo_pointer,
    gate_weights_halo_pointer,
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
    rows_d_errors_halo_12_pointer,
    rows_predictions_halo_5_pointer,
    rows_value_16_pointer,
    rows_value_4_pointer,
    rows_value_6_pointer,
    rows_value_7_pointer,
    rows_value_8_pointer,
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
    earliest = tl.cast(tl.maximum(-start, -HALO), tl.int32)
    is_halo = (halo_row >= earliest) & (halo_row < tl.minimum(last, 0))
    is_held_halo = (halo_row < earliest) & (halo_row >= earliest - HELD)
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    d_errors_halo = tl.load(
        rows_d_errors_halo_12_pointer + slot * (HALO * V) + (halo_row + HALO)[:, None] * V + value[None, :],
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
    # pred = f(M*, phi(k))
    predictions_halo = tl.load(
        rows_predictions_halo_5_pointer + slot * (HALO * V) + (halo_row + HALO)[:, None] * V + value[None, :],
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
    rows_value_7 = tl.load(
        rows_value_7_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    rows_value_4 = tl.load(
        rows_value_4_pointer + slot * (HALO * D1) + (halo_row + HALO)[:, None] * D1 + hidden_1[None, :],
        mask=(halo_row < 0)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    # Q X^T
    scores_W2_halo = tl.dot(
        gelu(rows_value_7).to(DOT),
        tl.trans(gelu(rows_value_4).to(DOT)),
        input_precision=PRECISION,
    )
    rows_value_8 = tl.load(
        rows_value_8_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    value_2 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_7), 0.0)
    rows_value_6 = tl.load(
        rows_value_6_pointer + slot * (HALO * D1) + (halo_row + HALO)[:, None] * D1 + hidden_1[None, :],
        mask=(halo_row < 0)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    value_3 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_4), 0.0)
    # the error that reaches the output of W1
    errors_W1_halo = rows_value_6 * value_3
    product_2 = tl.dot(
        (rows_value_8 * value_2).to(DOT),
        tl.trans(errors_W1_halo.to(DOT)),
        input_precision=PRECISION,
    )
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
    coefficients = tl.load(coefficients_pointer + head * coefficients_columns + 0).to(tl.float32)
    coefficients_2 = tl.load(coefficients_pointer + head * coefficients_columns + 1).to(tl.float32)
    coefficients_3 = tl.load(coefficients_pointer + head * coefficients_columns + 2).to(tl.float32)
    # Q X^T
    scores_W1_halo = coefficients_3 * (product_3 * product_3) + product_3 * coefficients_2 + coefficients
    d_weights_halo = -(product * scores_W2_halo) - product_2 * scores_W1_halo
    tl.store(
        d_gate_weights_halo_pointer + slot * (ROWS * HALO) + row[:, None] * HALO + (halo_row + HALO)[None, :],
        d_weights_halo,
        mask=(row < ROWS)[:, None] & (halo_row < 0)[None, :],
    )
    combined = tl.zeros([BLOCK_HALO, BLOCK_K], dtype=tl.float32)
    rows_value_16 = tl.load(
        rows_value_16_pointer + slot * (HALO * D1) + (halo_row + HALO)[:, None] * D1 + hidden_1[None, :],
        mask=(halo_row < 0)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
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
        product_4 = tl.dot(
            rows_value_16.to(DOT),
            tl.trans(anchor_point_W1.to(DOT)),
            input_precision=PRECISION,
        )
        d_memory_W1_next = tl.load(
            d_memory_W1_next_blocks_pointer + slot * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
            mask=is_monomial[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        product_5 = tl.dot(
            errors_W1_halo.to(DOT),
            tl.trans(d_memory_W1_next.to(DOT)),
            input_precision=PRECISION,
        )
        d_features_halo = product_4 - product_5 * last_weights_halo[:, None]
        monomial_scale_0 = tl.load(monomial_scale_0_pointer + monomial, mask=is_monomial, other=0)
        monomial_scale_1 = tl.load(monomial_scale_1_pointer + monomial, mask=is_monomial, other=0)
        monomial_scale_2 = tl.load(monomial_scale_2_pointer + monomial, mask=is_monomial, other=0)
        monomial_weights = (
            monomial_scale_0 * tl.sqrt(coefficients)
            + monomial_scale_1 * tl.sqrt(coefficients_2)
            + monomial_scale_2 * tl.sqrt(coefficients_3)
        )
        monomial_entry_0 = tl.load(monomial_entry_0_pointer + monomial, mask=is_monomial, other=0)
        value_4 = d_features_halo * (monomial_weights[None, :] * take(k_halo, monomial_entry_0))
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
        value_6 = d_features_halo * take(k_halo, monomial_entry_1) * monomial_weights[None, :]
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
    # P: source weights by read
    weights_halo = tl.load(
        gate_weights_halo_pointer + slot * (ROWS * HALO) + row[:, None] * HALO + (halo_row + HALO)[None, :],
        mask=(row < ROWS)[:, None] & (halo_row < 0)[None, :],
        other=0.0,
    )
    value_8 = product_2 * weights_halo * (2.0 * product_3 * coefficients_3 + coefficients_2)
    product_6 = tl.dot(tl.trans(value_8.to(DOT)), q.to(DOT), input_precision=PRECISION)
    tl.store(
        d_k_halo_pointer + slot * (HALO * K) + (halo_row + HALO)[:, None] * K + feature[None, :],
        combined + d_errors_halo - product_6,
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
    rows_predictions_2_pointer,
    rows_value_1_pointer,
    rows_value_3_pointer,
    rows_value_7_pointer,
    rows_value_8_pointer,
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
    BLOCK_D1: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
    D1: tl.constexpr,
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
    rows_value_7 = tl.load(
        rows_value_7_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    rows_value_1 = tl.load(
        rows_value_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    # Q X^T
    scores_W2 = tl.dot(
        gelu(rows_value_7).to(DOT),
        tl.trans(gelu(rows_value_1).to(DOT)),
        input_precision=PRECISION,
    )
    rows_value_8 = tl.load(
        rows_value_8_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    value_2 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_7), 0.0)
    rows_value_3 = tl.load(
        rows_value_3_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    value_3 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_1), 0.0)
    # the error that reaches the output of W1
    errors_W1 = rows_value_3 * value_3
    product_2 = tl.dot(
        (rows_value_8 * value_2).to(DOT),
        tl.trans(errors_W1.to(DOT)),
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
    if RESUME:
        window_k_base = window_k_pointer + (batch * HELD * heads + head) * K + (start + HELD) * heads * K
        k += tl.load(
            window_k_base + row[:, None] * (heads * K) + feature[None, :],
            mask=is_held[:, None] & is_feature[None, :],
            other=0.0,
        )
    product_3 = tl.dot(q.to(DOT), tl.trans(k.to(DOT)), input_precision=PRECISION)
    coefficients = tl.load(coefficients_pointer + head * coefficients_columns + 0).to(tl.float32)
    coefficients_2 = tl.load(coefficients_pointer + head * coefficients_columns + 1).to(tl.float32)
    coefficients_3 = tl.load(coefficients_pointer + head * coefficients_columns + 2).to(tl.float32)
    # Q X^T
    scores_W1 = coefficients_3 * (product_3 * product_3) + product_3 * coefficients_2 + coefficients
    d_weights = -(product * scores_W2) - product_2 * scores_W1
    tl.store(
        d_gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        d_weights,
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_carried(
    anchor_W1_pointer,
    coefficients_pointer,
    d_coefficients_0_blocks_pointer,
    d_coefficients_1_blocks_pointer,
    d_coefficients_2_blocks_pointer,
    d_gate_kept_pointer,
    d_gate_last_weights_halo_pointer,
    d_gate_read_decay_pointer,
    d_memory_W1_next_blocks_pointer,
    d_memory_W2_next_blocks_pointer,
    d_y_pointer,
    gate_last_weights_halo_pointer,
    gate_last_weights_pointer,
    gate_read_decay_pointer,
    gate_weights_halo_pointer,
    gate_weights_pointer,
    k_pointer,
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
    rows_value_13_pointer,
    rows_value_16_pointer,
    rows_value_1_pointer,
    rows_value_24_pointer,
    rows_value_3_pointer,
    rows_value_4_pointer,
    rows_value_6_pointer,
    rows_value_7_pointer,
    rows_value_8_pointer,
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
    is_held = (row < first) & (row >= first - HELD)
    earliest = tl.cast(tl.maximum(-start, -HALO), tl.int32)
    is_halo = (halo_row >= earliest) & (halo_row < tl.minimum(last, 0))
    is_held_halo = (halo_row < earliest) & (halo_row >= earliest - HELD)
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
    rows_value_8 = tl.load(
        rows_value_8_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    rows_value_7 = tl.load(
        rows_value_7_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    value_2 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_7), 0.0)
    value_3 = rows_value_8 * value_2
    rows_value_6 = tl.load(
        rows_value_6_pointer + slot * (HALO * D1) + (halo_row + HALO)[:, None] * D1 + hidden_1[None, :],
        mask=(halo_row < 0)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    rows_value_4 = tl.load(
        rows_value_4_pointer + slot * (HALO * D1) + (halo_row + HALO)[:, None] * D1 + hidden_1[None, :],
        mask=(halo_row < 0)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    value_4 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_4), 0.0)
    # the error that reaches the output of W1
    errors_W1_halo = rows_value_6 * value_4
    product = tl.dot(value_3.to(DOT), tl.trans(errors_W1_halo.to(DOT)), input_precision=PRECISION)
    # P: source weights by read
    weights_halo = tl.load(
        gate_weights_halo_pointer + slot * (ROWS * HALO) + row[:, None] * HALO + (halo_row + HALO)[None, :],
        mask=(row < ROWS)[:, None] & (halo_row < 0)[None, :],
        other=0.0,
    )
    value_5 = product * weights_halo
    d_scores_W1_halo = -value_5
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
    value_6 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_1), 0.0)
    # the error that reaches the output of W1
    errors_W1 = rows_value_3 * value_6
    product_2 = tl.dot(value_3.to(DOT), tl.trans(errors_W1.to(DOT)), input_precision=PRECISION)
    # P: source weights by read
    weights = tl.load(
        gate_weights_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    value_7 = product_2 * weights
    d_scores_W1 = -value_7
    combined = tl.sum(tl.sum(d_scores_W1_halo, 0), 0) + tl.sum(tl.sum(d_scores_W1, 0), 0)
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
    combined_2 = tl.sum(tl.sum(-(value_5 * product_3), 0), 0) + tl.sum(tl.sum(-(value_7 * product_4), 0), 0)
    total = tl.sum(tl.sum(-(value_5 * (product_3 * product_3)), 0), 0)
    total_2 = tl.sum(tl.sum(-(value_7 * (product_4 * product_4)), 0), 0)
    combined_3 = total + total_2
    d_reads = tl.load(
        d_y_block + row[:, None] * d_y_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
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
    combined_5 = memory_W2 - origin_W2
    product_5 = tl.dot(gelu(rows_value_7).to(DOT), combined_5.to(DOT), input_precision=PRECISION)
    combined_4 = tl.sum(d_reads * product_5, 1)
    rows_value_13 = tl.load(
        rows_value_13_pointer + slot * (HALO * D1) + (halo_row + HALO)[:, None] * D1 + hidden_1[None, :],
        mask=(halo_row < 0)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    d_last_weights_halo = tl.sum(-(rows_value_13 * gelu(rows_value_4)), 1)
    total_3 = tl.zeros([BLOCK_D1], dtype=tl.float32)
    rows_value_16 = tl.load(
        rows_value_16_pointer + slot * (HALO * D1) + (halo_row + HALO)[:, None] * D1 + hidden_1[None, :],
        mask=(halo_row < 0)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    # p_C: last row of P
    last_weights_halo = tl.load(
        gate_last_weights_halo_pointer + slot * HALO + (halo_row + HALO),
        mask=halo_row < 0,
        other=0.0,
    )
    rows_value_24 = tl.load(
        rows_value_24_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
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
        product_6 = tl.dot(
            rows_value_16.to(DOT),
            tl.trans(anchor_point_W1.to(DOT)),
            input_precision=PRECISION,
        )
        d_memory_W1_next = tl.load(
            d_memory_W1_next_blocks_pointer + slot * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
            mask=is_monomial[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        product_7 = tl.dot(
            errors_W1_halo.to(DOT),
            tl.trans(d_memory_W1_next.to(DOT)),
            input_precision=PRECISION,
        )
        d_features_halo = product_6 - product_7 * last_weights_halo[:, None]
        monomial_entry_1 = tl.load(monomial_entry_1_pointer + monomial, mask=is_monomial, other=0)
        factor = take(k_halo, monomial_entry_1)
        monomial_entry_0 = tl.load(monomial_entry_0_pointer + monomial, mask=is_monomial, other=0)
        factor_2 = take(k_halo, monomial_entry_0)
        product_8 = tl.dot(
            rows_value_24.to(DOT),
            tl.trans(anchor_point_W1.to(DOT)),
            input_precision=PRECISION,
        )
        product_9 = tl.dot(errors_W1.to(DOT), tl.trans(d_memory_W1_next.to(DOT)), input_precision=PRECISION)
        d_features = product_8 - product_9 * last_weights[:, None]
        value_8 = d_features * take(k, monomial_entry_1) * take(k, monomial_entry_0)
        origin_W1 = tl.load(
            origin_W1_pointer + memory_index * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
            mask=is_monomial[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        product_10 = tl.dot(value_3.to(DOT), tl.trans(origin_W1.to(DOT)), input_precision=PRECISION)
        combined_6 = memory_W1 - origin_W1
        product_11 = tl.dot(value_3.to(DOT), tl.trans(combined_6.to(DOT)), input_precision=PRECISION)
        factor_3 = take(q, monomial_entry_1)
        factor_4 = take(q, monomial_entry_0)
        value_9 = (product_10 + product_11 * read_decay[:, None]) * factor_3 * factor_4
        combined_7 = tl.sum(d_features_halo * factor * factor_2, 0) + tl.sum(value_8, 0) + tl.sum(value_9, 0)
        monomial_scale_0 = tl.load(monomial_scale_0_pointer + monomial, mask=is_monomial, other=0)
        value_10 = combined_7 * (0.5 * monomial_scale_0 * tl.rsqrt(coefficients))
        combined += tl.sum(value_10, 0)
        monomial_scale_1 = tl.load(monomial_scale_1_pointer + monomial, mask=is_monomial, other=0)
        value_11 = combined_7 * (0.5 * monomial_scale_1 * tl.rsqrt(coefficients_2))
        combined_2 += tl.sum(value_11, 0)
        monomial_scale_2 = tl.load(monomial_scale_2_pointer + monomial, mask=is_monomial, other=0)
        value_12 = combined_7 * (0.5 * monomial_scale_2 * tl.rsqrt(coefficients_3))
        combined_3 += tl.sum(value_12, 0)
        monomial_weights = (
            monomial_scale_0 * tl.sqrt(coefficients)
            + monomial_scale_1 * tl.sqrt(coefficients_2)
            + monomial_scale_2 * tl.sqrt(coefficients_3)
        )
        # phi(q)
        queries = monomial_weights[None, :] * factor_4 * factor_3
        combined_4 += tl.sum(queries * product_11, 1)
        # X = phi(k)
        features_halo = monomial_weights[None, :] * factor_2 * factor
        d_last_weights_halo += tl.sum(-(product_7 * features_halo), 1)
        total_3 += tl.sum(d_memory_W1_next * combined_6, 0)
    tl.store(d_coefficients_0_blocks_pointer + slot, combined)
    tl.store(d_coefficients_1_blocks_pointer + slot, combined_2)
    tl.store(d_coefficients_2_blocks_pointer + slot, combined_3)
    tl.store(d_gate_read_decay_pointer + slot * ROWS + row, combined_4, mask=row < ROWS)
    d_memory_W2_next = tl.load(
        d_memory_W2_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    d_kept = tl.sum(tl.sum(d_memory_W2_next * combined_5, 0), 0) + tl.sum(total_3, 0)
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
    rows_value_21_pointer,
    rows_value_3_pointer,
    window_k_pointer,
    coefficients_columns,
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
    HELD: tl.constexpr,
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
    is_held = (row < first) & (row >= first - HELD)
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    rows_value_21 = tl.load(
        rows_value_21_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    rows_value_1 = tl.load(
        rows_value_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    d_last_weights = tl.sum(-(rows_value_21 * gelu(rows_value_1)), 1)
    rows_value_3 = tl.load(
        rows_value_3_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    value_2 = tl.where(is_hidden_1[None, :], gelu_slope(rows_value_1), 0.0)
    # the error that reaches the output of W1
    errors_W1 = rows_value_3 * value_2
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
        d_memory_W1_next = tl.load(
            d_memory_W1_next_blocks_pointer + slot * (F * D1) + monomial[:, None] * D1 + hidden_1[None, :],
            mask=is_monomial[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        product = tl.dot(errors_W1.to(DOT), tl.trans(d_memory_W1_next.to(DOT)), input_precision=PRECISION)
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
    if value_tile == 0:
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
    combined_2 = product_3 + product_4
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
    value_3 = decay * lr[None, :]
    product = tl.dot(tl.trans(value_3.to(DOT)), d_weights.to(DOT), input_precision=PRECISION)
    d_window = d_last_weights[None, :] * value_2[:, None] + product
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
    product_2 = tl.dot(tl.trans(value_3.to(DOT)), d_weights_halo.to(DOT), input_precision=PRECISION)
    d_window_halo = d_last_weights_halo[None, :] * value_2[:, None] + product_2
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

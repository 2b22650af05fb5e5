"""Kernels of the memory rule omeganet_exact (fused).

Rule 5986f512d276, schedule recurrent, generator 1. Written by `atlasgen build`; edit the spec, not this file.
"""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["tokens", "blocks"])
def forward(
    gamma_pointer,
    k_pointer,
    length_pointer,
    log_alpha_pointer,
    lr_pointer,
    memory_blocks_pointer,
    memory_final_pointer,
    memory_pointer,
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
    BLOCK_HALO: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
    DOT: tl.constexpr,
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
    row = 0  # the block's only one
    halo_row = tl.arange(0, BLOCK_HALO)
    halo_row = tl.where(halo_row < HALO, halo_row - HALO, ROWS)  # negative: before the block
    feature = tl.arange(0, BLOCK_K)
    is_feature = feature < K
    value = value_tile * BLOCK_V + tl.arange(0, BLOCK_V)
    is_value = value < V
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    position = tl.load(position_pointer + batch) if RESUME else 0
    phase = position % ROWS
    seen = tl.minimum(position, HELD)  # rows of the window that hold tokens
    memory = tl.zeros([BLOCK_K, BLOCK_V], dtype=tl.float32)
    if HAS_INITIAL:
        memory += tl.load(
            memory_pointer + memory_index * (K * V) + feature[:, None] * V + value[None, :],
            mask=is_feature[:, None] & is_value[None, :],
            other=0.0,
        )
    for block in range(0, blocks):
        slot = memory_index * blocks + block
        start = tl.cast(block, tl.int64) * ROWS - phase
        first = tl.cast(tl.maximum(-start, 0), tl.int32)
        last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
        live = last > 0
        earliest = tl.cast(tl.maximum(-start, -HALO), tl.int32)
        is_halo = (halo_row >= earliest) & (halo_row < tl.minimum(last, 0))
        is_held_halo = (halo_row < earliest) & (halo_row >= earliest - HELD)
        q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
        log_alpha_block = log_alpha_pointer + (batch * tokens + start) * log_alpha_row + head * log_alpha_head
        lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
        gamma_block = gamma_pointer + (batch * tokens + start) * gamma_row + head * gamma_head
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
        if SAVE:
            tl.store(
                memory_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
                memory,
                mask=is_feature[:, None] & is_value[None, :],
            )
        q = tl.load(q_block + feature, mask=live & is_feature, other=0.0).to(tl.float32)
        product = tl.sum(q[:, None] * memory, 0)
        log_alpha = tl.load(log_alpha_block, mask=live, other=0.0).to(tl.float32)
        value_2 = tl.exp(log_alpha)
        lr = tl.load(lr_block, mask=live, other=0.0).to(tl.float32)
        live_2 = live.to(tl.float32)
        gamma = tl.load(gamma_block, mask=live, other=0.0).to(tl.float32)
        exists = ((row >= first - seen) & (row < last)).to(tl.float32)
        # Gamma: window gates by reader and source
        window = live_2 * (gamma * exists)
        k = tl.load(k_block + feature, mask=live & is_feature, other=0.0).to(tl.float32)
        value_3 = lr * window * k
        product_2 = tl.sum(q * value_3, 0)
        # pred = phi(k) M*
        predictions = tl.sum(k[:, None] * memory, 0)
        v = tl.load(v_block + value, mask=live & is_value, other=0.0).to(tl.float32)
        # E = dl/dpred at the block's M*
        errors = predictions - v
        gamma_halo = tl.load(gamma_block + halo_row * gamma_row, mask=is_halo, other=0.0).to(tl.float32)
        if RESUME:
            window_gamma_base = window_gamma_pointer + (batch * HELD * heads + head) + (start + HELD) * heads
            gamma_halo += tl.load(window_gamma_base + halo_row * heads, mask=is_held_halo, other=0.0)
        exists_halo = ((halo_row >= earliest - seen) & (halo_row < tl.minimum(last, 0))).to(tl.float32)
        # Gamma: window gates by reader and source
        window_halo = live_2 * (gamma_halo * exists_halo)
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
        value_4 = (lr * window_halo)[:, None] * k_halo
        product_3 = tl.sum(q[None, :] * value_4, 1)
        # pred = phi(k) M*
        predictions_halo = tl.dot(k_halo.to(DOT), memory.to(DOT), input_precision=PRECISION)
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
        product_4 = tl.sum(product_3[:, None] * errors_halo, 0)
        # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
        reads = product * value_2 - (product_2 * errors + product_4)
        y_block = y_pointer + (batch * tokens + start) * y_row + head * y_head
        tl.store(y_block + value, reads, mask=live & is_value)
        product_5 = tl.dot(tl.trans(value_4.to(DOT)), errors_halo.to(DOT), input_precision=PRECISION)
        # M after the token
        memory_next = value_2 * memory - (value_3[:, None] * errors[None, :] + product_5)
        memory = memory_next
    if STORE_FINAL:
        tl.store(
            memory_final_pointer + memory_index * (K * V) + feature[:, None] * V + value[None, :],
            memory,
            mask=is_feature[:, None] & is_value[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def backward(
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
    d_y_pointer,
    gamma_pointer,
    k_pointer,
    length_pointer,
    log_alpha_pointer,
    lr_pointer,
    memory_blocks_pointer,
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
    BLOCK_HALO: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
    DOT: tl.constexpr,
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
    row = 0  # the block's only one
    halo_row = tl.arange(0, BLOCK_HALO)
    halo_row = tl.where(halo_row < HALO, halo_row - HALO, ROWS)  # negative: before the block
    feature = tl.arange(0, BLOCK_K)
    is_feature = feature < K
    value = tl.arange(0, BLOCK_V)
    is_value = value < V
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    position = tl.load(position_pointer + batch) if RESUME else 0
    phase = position % ROWS
    seen = tl.minimum(position, HELD)  # rows of the window that hold tokens
    d_memory_next = tl.zeros([BLOCK_K, BLOCK_V], dtype=tl.float32)
    if GRAD_FINAL:
        d_memory_next += tl.load(
            d_memory_final_pointer + memory_index * (K * V) + feature[:, None] * V + value[None, :],
            mask=is_feature[:, None] & is_value[None, :],
            other=0.0,
        )
    for step in range(0, blocks):
        block = blocks - 1 - step
        slot = memory_index * blocks + block
        start = tl.cast(block, tl.int64) * ROWS - phase
        first = tl.cast(tl.maximum(-start, 0), tl.int32)
        last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
        live = last > 0
        earliest = tl.cast(tl.maximum(-start, -HALO), tl.int32)
        is_halo = (halo_row >= earliest) & (halo_row < tl.minimum(last, 0))
        is_held_halo = (halo_row < earliest) & (halo_row >= earliest - HELD)
        d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
        log_alpha_block = log_alpha_pointer + (batch * tokens + start) * log_alpha_row + head * log_alpha_head
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
        lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
        gamma_block = gamma_pointer + (batch * tokens + start) * gamma_row + head * gamma_head
        q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
        d_y = tl.load(d_y_block + value, mask=live & is_value, other=0.0).to(tl.float32)
        log_alpha = tl.load(log_alpha_block, mask=live, other=0.0).to(tl.float32)
        value_2 = tl.exp(log_alpha)
        value_3 = d_y * value_2
        memory = tl.load(
            memory_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
            mask=is_feature[:, None] & is_value[None, :],
            other=0.0,
        )
        product = tl.sum(value_3[None, :] * memory, 1)
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
        # pred = phi(k) M*
        predictions_halo = tl.dot(k_halo.to(DOT), memory.to(DOT), input_precision=PRECISION)
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
        product_2 = tl.sum(d_y[None, :] * errors_halo, 1)
        lr = tl.load(lr_block, mask=live, other=0.0).to(tl.float32)
        live_2 = live.to(tl.float32)
        gamma_halo = tl.load(gamma_block + halo_row * gamma_row, mask=is_halo, other=0.0).to(tl.float32)
        if RESUME:
            window_gamma_base = window_gamma_pointer + (batch * HELD * heads + head) + (start + HELD) * heads
            gamma_halo += tl.load(window_gamma_base + halo_row * heads, mask=is_held_halo, other=0.0)
        exists_halo = ((halo_row >= earliest - seen) & (halo_row < tl.minimum(last, 0))).to(tl.float32)
        # Gamma: window gates by reader and source
        window_halo = live_2 * (gamma_halo * exists_halo)
        value_4 = lr * window_halo
        value_5 = value_4[:, None] * k_halo
        product_3 = tl.sum(product_2[:, None] * value_5, 0)
        k = tl.load(k_block + feature, mask=live & is_feature, other=0.0).to(tl.float32)
        # pred = phi(k) M*
        predictions = tl.sum(k[:, None] * memory, 0)
        v = tl.load(v_block + value, mask=live & is_value, other=0.0).to(tl.float32)
        # E = dl/dpred at the block's M*
        errors = predictions - v
        product_4 = tl.sum(d_y * errors, 0)
        gamma = tl.load(gamma_block, mask=live, other=0.0).to(tl.float32)
        exists = ((row >= first - seen) & (row < last)).to(tl.float32)
        # Gamma: window gates by reader and source
        window = live_2 * (gamma * exists)
        value_6 = lr * window
        value_7 = value_6 * k
        d_q_block = d_q_pointer + (batch * tokens + start) * d_q_row + head * d_q_head
        tl.store(d_q_block + feature, product - product_3 - product_4 * value_7, mask=live & is_feature)
        q = tl.load(q_block + feature, mask=live & is_feature, other=0.0).to(tl.float32)
        product_5 = tl.sum(q[:, None] * memory, 0)
        combined = tl.sum(tl.sum(d_memory_next * memory, 0), 0) + tl.sum(d_y * product_5, 0)
        d_log_alpha_block = (
            d_log_alpha_pointer + (batch * tokens + start) * d_log_alpha_row + head * d_log_alpha_head
        )
        tl.store(d_log_alpha_block, combined * value_2, mask=live)
        product_6 = tl.dot(errors_halo.to(DOT), tl.trans(d_memory_next.to(DOT)), input_precision=PRECISION)
        combined_2 = -product_6 - product_2[:, None] * q[None, :]
        total = tl.sum(combined_2 * k_halo, 1)
        product_7 = tl.sum(d_memory_next * errors[None, :], 1)
        combined_3 = -product_7 - product_4 * q
        total_2 = tl.sum(combined_3 * k, 0)
        d_lr_block = d_lr_pointer + (batch * tokens + start) * d_lr_row + head * d_lr_head
        tl.store(d_lr_block, tl.sum(total * window_halo, 0) + total_2 * window, mask=live)
        d_window = total_2 * lr
        d_gamma_block = d_gamma_pointer + (batch * tokens + start) * d_gamma_row + head * d_gamma_head
        tl.store(d_gamma_block, d_window * live_2 * exists, mask=live)
        product_8 = tl.sum(d_memory_next * value_7[:, None], 0)
        product_9 = tl.sum(q * value_7, 0)
        d_errors = -product_8 - d_y * product_9
        product_10 = tl.sum(d_errors[None, :] * memory, 1)
        d_k_block = d_k_pointer + (batch * tokens + start) * d_k_row + head * d_k_head
        tl.store(d_k_block + feature, product_10 + combined_3 * value_6, mask=live & is_feature)
        d_v_block = d_v_pointer + (batch * tokens + start) * d_v_row + head * d_v_head
        tl.store(d_v_block + value, -d_errors, mask=live & is_value)
        d_window_halo = total * lr
        tl.store(
            d_gamma_halo_pointer + slot * HALO + (halo_row + HALO),
            d_window_halo * live_2 * exists_halo,
            mask=halo_row < 0,
        )
        product_11 = tl.dot(value_5.to(DOT), d_memory_next.to(DOT), input_precision=PRECISION)
        product_12 = tl.sum(q[None, :] * value_5, 1)
        d_errors_halo = -product_11 - d_y[None, :] * product_12[:, None]
        product_13 = tl.dot(d_errors_halo.to(DOT), tl.trans(memory.to(DOT)), input_precision=PRECISION)
        tl.store(
            d_k_halo_pointer + slot * (HALO * K) + (halo_row + HALO)[:, None] * K + feature[None, :],
            product_13 + combined_2 * value_4[:, None],
            mask=(halo_row < 0)[:, None] & is_feature[None, :],
        )
        tl.store(
            d_v_halo_pointer + slot * (HALO * V) + (halo_row + HALO)[:, None] * V + value[None, :],
            -d_errors_halo,
            mask=(halo_row < 0)[:, None] & is_value[None, :],
        )
        product_14 = tl.dot(tl.trans(k_halo.to(DOT)), d_errors_halo.to(DOT), input_precision=PRECISION)
        combined_4 = (
            d_memory_next * value_2
            + product_14
            + d_errors[None, :] * k[:, None]
            + value_3[None, :] * q[:, None]
        )
        d_memory_next = combined_4
    if GRAD_INITIAL:
        tl.store(
            d_memory_pointer + memory_index * (K * V) + feature[:, None] * V + value[None, :],
            d_memory_next,
            mask=is_feature[:, None] & is_value[None, :],
        )

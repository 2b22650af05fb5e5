"""Kernels of the memory rule atlas_chunk (split_all_rows_4).

Rule b9f369080834, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
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
def unit_norm(matrix):
    # The largest entry is divided out before squares are made: they neither vanish nor overflow.
    largest = tl.max(tl.max(tl.abs(matrix), 1), 0)
    largest = tl.where(largest > 0.0, largest, float("inf"))
    scaled = matrix / largest
    norm = tl.sqrt(tl.sum(tl.sum(scaled * scaled, 1), 0))
    norm = tl.where(norm > 0.0, norm, 1.0)
    return (scaled / norm, largest * norm)


@triton.jit
def identity_like(gram):
    index = tl.arange(0, gram.shape[0])
    return tl.where(index[:, None] == index[None, :], 1.0, 0.0)


@triton.jit
def square_product(left, right):
    return tl.dot(left, right, input_precision="ieee")


@triton.jit
def triple_of(triples, step):
    """The coefficients of a step: steps are loops of the machine, unrolled ones take minutes to compile."""
    a, b, c = triples[0]
    for other in tl.static_range(1, len(triples)):
        a = tl.where(step == other, triples[other][0], a)
        b = tl.where(step == other, triples[other][1], b)
        c = tl.where(step == other, triples[other][2], c)
    return (a, b, c)


@triton.jit
def step_factor(gram, triples, step):
    """B = a + b A + c A A."""
    a, b, c = triple_of(triples, step)
    return a * identity_like(gram) + b * gram + c * square_product(gram, gram)


@triton.jit
def newton_schulz_chain(gram, triples, first, last):
    """A and Q after the steps first .. last - 1: A' = B A B, Q' = B Q from Q = 1."""
    product = identity_like(gram)
    for step in range(first, last):
        factor = step_factor(gram, triples, step)
        product = square_product(factor, product)
        gram = square_product(square_product(gram, factor), factor)
    return (gram, product)


@triton.jit
def newton_schulz_steps(x, triples, last):
    """x after the first `last` steps; every third starts from x: rounding of A grows in its null space."""
    for first in range(0, last, 3):
        gram = square_product(x, tl.trans(x))
        _, product = newton_schulz_chain(gram, triples, first, min(first + 3, last))
        x = square_product(product, x)
    return x


@triton.jit
def newton_schulz(matrix, triples, wide: tl.constexpr):
    """x <- a x + (b A + c A A) x with A = x x^T, from x = S / |S|, on the smaller side."""
    x, _ = unit_norm(matrix)
    if wide:
        return newton_schulz_steps(x, triples, len(triples))
    else:
        return tl.trans(newton_schulz_steps(tl.trans(x), triples, len(triples)))


@triton.jit
def segment_gradient(x, outer, triples, first, last):
    """The gradient of x before the steps first .. last - 1 from that after them; they are made again."""
    start = square_product(x, tl.trans(x))
    _, product = newton_schulz_chain(start, triples, first, last)
    d_product = square_product(outer, tl.trans(x))
    d_gram = tl.zeros_like(start)  # of A after the step
    for back in range(1, last - first + 1):
        step = last - back
        gram, before = newton_schulz_chain(start, triples, first, step)
        factor = step_factor(gram, triples, step)
        half = square_product(gram, factor)  # A' = (A B) B, and Q' = B Q
        d_half = square_product(d_gram, factor)
        d_factor = square_product(half, d_gram) + square_product(gram, d_half)
        d_factor += square_product(d_product, tl.trans(before))
        d_product = square_product(factor, d_product)
        mixed = square_product(d_factor, gram) + square_product(gram, d_factor)
        _a, b, c = triple_of(triples, step)
        d_gram = square_product(d_half, factor) + b * d_factor + c * mixed
    return square_product(tl.trans(product), outer) + square_product(d_gram + tl.trans(d_gram), x)


@triton.jit
def newton_schulz_back(x, outer, triples, steps):
    """The gradient of x from that of x after all steps."""
    segments = (steps + 2) // 3
    for back in range(0, segments):
        first = 3 * (segments - 1 - back)
        before = newton_schulz_steps(x, triples, first)
        outer = segment_gradient(before, outer, triples, first, min(first + 3, steps))
    return outer


@triton.jit
def newton_schulz_gradient(matrix, outer, triples, wide: tl.constexpr):
    """The gradient of S from that of its map."""
    x, norm = unit_norm(matrix)
    if wide:
        total = newton_schulz_back(x, outer, triples, len(triples))
    else:
        total = tl.trans(newton_schulz_back(tl.trans(x), tl.trans(outer), triples, len(triples)))
    along = tl.sum(tl.sum(x * total, 1), 0)
    return (total - x * along) / norm


@triton.jit(do_not_specialize=["tokens", "blocks"])
def gates(
    gamma_pointer,
    gate_value_0_pointer,
    gate_value_1_pointer,
    gate_value_2_pointer,
    gate_value_3_pointer,
    gate_value_4_pointer,
    length_pointer,
    log_alpha_pointer,
    log_theta_pointer,
    lr_pointer,
    position_pointer,
    window_gamma_pointer,
    gamma_head,
    gamma_row,
    log_alpha_head,
    log_alpha_row,
    log_theta_head,
    log_theta_row,
    lr_head,
    lr_row,
    tokens,
    heads,
    blocks,
    HAS_LENGTH: tl.constexpr,
    RESUME: tl.constexpr,
    BLOCK_HALO: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    HALO: tl.constexpr,
    HELD: tl.constexpr,
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
    log_theta_block = log_theta_pointer + (batch * tokens + start) * log_theta_row + head * log_theta_head
    gamma_block = gamma_pointer + (batch * tokens + start) * gamma_row + head * gamma_head
    lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
    log_alpha = tl.load(log_alpha_block + row * log_alpha_row, mask=live, other=0.0).to(tl.float32)
    border = (live & (row == ROWS - 1)).to(tl.float32)
    tl.store(gate_value_0_pointer + slot, tl.sum(tl.exp(log_alpha) * border, 0))
    log_theta = tl.load(log_theta_block + row * log_theta_row, mask=live, other=0.0).to(tl.float32)
    tl.store(gate_value_1_pointer + slot, tl.sum(tl.exp(log_theta) * border, 0))
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
    tl.store(gate_value_2_pointer + slot * ROWS + row, tl.sum(window, 0), mask=row < ROWS)
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
    tl.store(
        gate_value_3_pointer + slot * HALO + (halo_row + HALO),
        tl.sum(window_halo, 0),
        mask=halo_row < 0,
    )
    lr = tl.load(lr_block + row * lr_row, mask=live, other=0.0).to(tl.float32)
    tl.store(gate_value_4_pointer + slot, tl.sum(lr * border, 0))


@triton.jit(do_not_specialize=["tokens", "blocks"])
def state(
    gate_value_0_pointer,
    gate_value_1_pointer,
    gate_value_2_pointer,
    gate_value_3_pointer,
    gate_value_4_pointer,
    k_pointer,
    length_pointer,
    memory_W1_blocks_pointer,
    memory_W1_final_pointer,
    memory_W1_pointer,
    memory_W2_blocks_pointer,
    memory_W2_final_pointer,
    memory_W2_pointer,
    momentum_W1_blocks_pointer,
    momentum_W1_final_pointer,
    momentum_W1_pointer,
    momentum_W2_blocks_pointer,
    momentum_W2_final_pointer,
    momentum_W2_pointer,
    origin_W1_pointer,
    origin_W2_pointer,
    position_pointer,
    update_0_blocks_pointer,
    update_1_blocks_pointer,
    update_W1_blocks_pointer,
    update_W1_final_pointer,
    update_W1_pointer,
    update_W2_blocks_pointer,
    update_W2_final_pointer,
    update_W2_pointer,
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
    HAS_INITIAL: tl.constexpr,
    HAS_LENGTH: tl.constexpr,
    RESUME: tl.constexpr,
    SAVE: tl.constexpr,
    STORE_FINAL: tl.constexpr,
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
    TILE_ROWS: tl.constexpr,
    V: tl.constexpr,
):
    """The memory from block to block, saved at the start of each."""
    program = tl.program_id(0)
    memory_index = tl.cast(program, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
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
    origin_W1 = tl.load(
        origin_W1_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    origin_W2 = tl.load(
        origin_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    memory_W1 = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
    if HAS_INITIAL:
        memory_W1 += tl.load(
            memory_W1_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
    update_W1 = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
    if HAS_INITIAL:
        update_W1 += tl.load(
            update_W1_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
    momentum_W1 = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
    if HAS_INITIAL:
        momentum_W1 += tl.load(
            momentum_W1_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
    memory_W2 = tl.zeros([BLOCK_D1, BLOCK_V], dtype=tl.float32)
    if HAS_INITIAL:
        memory_W2 += tl.load(
            memory_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
    update_W2 = tl.zeros([BLOCK_D1, BLOCK_V], dtype=tl.float32)
    if HAS_INITIAL:
        update_W2 += tl.load(
            update_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
    momentum_W2 = tl.zeros([BLOCK_D1, BLOCK_V], dtype=tl.float32)
    if HAS_INITIAL:
        momentum_W2 += tl.load(
            momentum_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
    for block in range(0, blocks):
        slot = memory_index * blocks + block
        start = tl.cast(block, tl.int64) * ROWS - phase
        first = tl.cast(tl.maximum(-start, 0), tl.int32)
        last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
        earliest = tl.cast(tl.maximum(-start, -HALO), tl.int32)
        is_halo = (halo_row >= earliest) & (halo_row < tl.minimum(last, 0))
        is_held_halo = (halo_row < earliest) & (halo_row >= earliest - HELD)
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
        if SAVE:
            tl.store(
                memory_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                memory_W1,
                mask=is_feature[:, None] & is_hidden_1[None, :],
            )
        if SAVE:
            tl.store(
                update_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                update_W1,
                mask=is_feature[:, None] & is_hidden_1[None, :],
            )
        if SAVE:
            tl.store(
                momentum_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                momentum_W1,
                mask=is_feature[:, None] & is_hidden_1[None, :],
            )
        if SAVE:
            tl.store(
                memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                memory_W2,
                mask=is_hidden_1[:, None] & is_value[None, :],
            )
        if SAVE:
            tl.store(
                update_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                update_W2,
                mask=is_hidden_1[:, None] & is_value[None, :],
            )
        if SAVE:
            tl.store(
                momentum_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                momentum_W2,
                mask=is_hidden_1[:, None] & is_value[None, :],
            )
        value_3 = tl.load(
            gate_value_3_pointer + slot * HALO + (halo_row + HALO),
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
        # X = phi(k)
        features_halo = 0.5 * (k_halo * k_halo) + k_halo
        product = tl.dot(features_halo.to(DOT), memory_W1.to(DOT), input_precision=PRECISION)
        value_2 = gelu(product)
        product_2 = tl.dot(value_2.to(DOT), memory_W2.to(DOT), input_precision=PRECISION)
        # pred = f(M*, phi(k))
        predictions_halo = product_2 + features_halo
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
        product_3 = tl.dot(errors_halo.to(DOT), tl.trans(memory_W2.to(DOT)), input_precision=PRECISION)
        # the error that reaches the output of W1
        errors_W1_halo = product_3 * tl.where(is_hidden_1[None, :], gelu_slope(product), 0.0)
        product_4 = tl.dot(
            tl.trans((value_3[:, None] * features_halo).to(DOT)),
            errors_W1_halo.to(DOT),
            input_precision=PRECISION,
        )
        # A: the block's gradients so far
        update_W1_total = update_W1 + product_4
        product_5 = tl.dot(
            tl.trans((value_3[:, None] * value_2).to(DOT)),
            errors_halo.to(DOT),
            input_precision=PRECISION,
        )
        # A: the block's gradients so far
        update_W2_total = update_W2 + product_5
        for row_start in range(0, ROWS, TILE_ROWS):
            source = row_start + tl.arange(0, TILE_ROWS)
            is_source = (source >= first) & (source < last)
            is_held_source = (source < first) & (source >= first - HELD)
            value_2_2 = tl.load(gate_value_2_pointer + slot * ROWS + source, mask=source < ROWS, other=0.0)
            k = tl.load(
                k_block + source[:, None] * k_row + feature[None, :],
                mask=is_source[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            if RESUME:
                window_k_base = (
                    window_k_pointer + (batch * HELD * heads + head) * K + (start + HELD) * heads * K
                )
                k += tl.load(
                    window_k_base + source[:, None] * (heads * K) + feature[None, :],
                    mask=is_held_source[:, None] & is_feature[None, :],
                    other=0.0,
                )
            # X = phi(k)
            features = 0.5 * (k * k) + k
            product_6 = tl.dot(features.to(DOT), memory_W1.to(DOT), input_precision=PRECISION)
            value_4 = gelu(product_6)
            product_7 = tl.dot(value_4.to(DOT), memory_W2.to(DOT), input_precision=PRECISION)
            # pred = f(M*, phi(k))
            predictions = product_7 + features
            v = tl.load(
                v_block + source[:, None] * v_row + value[None, :],
                mask=is_source[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
            if RESUME:
                window_v_base = (
                    window_v_pointer + (batch * HELD * heads + head) * V + (start + HELD) * heads * V
                )
                v += tl.load(
                    window_v_base + source[:, None] * (heads * V) + value[None, :],
                    mask=is_held_source[:, None] & is_value[None, :],
                    other=0.0,
                )
            # E = dl/dpred at the block's M*
            errors = predictions - v
            product_8 = tl.dot(errors.to(DOT), tl.trans(memory_W2.to(DOT)), input_precision=PRECISION)
            # the error that reaches the output of W1
            errors_W1 = product_8 * tl.where(is_hidden_1[None, :], gelu_slope(product_6), 0.0)
            update_W1_total += tl.dot(
                tl.trans((value_2_2[:, None] * features).to(DOT)),
                errors_W1.to(DOT),
                input_precision=PRECISION,
            )
            update_W2_total += tl.dot(
                tl.trans((value_2_2[:, None] * value_4).to(DOT)),
                errors.to(DOT),
                input_precision=PRECISION,
            )
        value_1 = tl.load(gate_value_1_pointer + slot)
        # S at the end of the block
        momentum_W1_next = value_1 * momentum_W1 + update_W1_total
        orthogonal = newton_schulz(
            momentum_W1_next,
            (
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
            ),
            K <= D1,
        )
        tl.store(
            update_0_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            orthogonal,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        # S at the end of the block
        momentum_W2_next = value_1 * momentum_W2 + update_W2_total
        orthogonal_2 = newton_schulz(
            momentum_W2_next,
            (
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
            ),
            D1 <= V,
        )
        tl.store(
            update_1_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            orthogonal_2,
            mask=is_hidden_1[:, None] & is_value[None, :],
        )
        value_0 = tl.load(gate_value_0_pointer + slot)
        value_4_2 = tl.load(gate_value_4_pointer + slot)
        # M at the end
        memory_W1_next = value_0 * (memory_W1 - origin_W1) + origin_W1 - value_4_2 * orthogonal
        border = (last == ROWS).to(tl.float32)
        # M at the end
        memory_W2_next = value_0 * (memory_W2 - origin_W2) + origin_W2 - value_4_2 * orthogonal_2
        memory_W1 = tl.where(border > 0.0, memory_W1_next, memory_W1)
        update_W1 = tl.where(border > 0.0, 0.0, update_W1_total)
        momentum_W1 = tl.where(border > 0.0, momentum_W1_next, momentum_W1)
        memory_W2 = tl.where(border > 0.0, memory_W2_next, memory_W2)
        update_W2 = tl.where(border > 0.0, 0.0, update_W2_total)
        momentum_W2 = tl.where(border > 0.0, momentum_W2_next, momentum_W2)
    if STORE_FINAL:
        tl.store(
            memory_W1_final_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            memory_W1,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        tl.store(
            update_W1_final_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            update_W1,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        tl.store(
            momentum_W1_final_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            momentum_W1,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        tl.store(
            memory_W2_final_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            memory_W2,
            mask=is_hidden_1[:, None] & is_value[None, :],
        )
        tl.store(
            update_W2_final_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            update_W2,
            mask=is_hidden_1[:, None] & is_value[None, :],
        )
        tl.store(
            momentum_W2_final_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            momentum_W2,
            mask=is_hidden_1[:, None] & is_value[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output(
    gate_value_0_pointer,
    gate_value_4_pointer,
    length_pointer,
    memory_W1_blocks_pointer,
    memory_W2_blocks_pointer,
    origin_W1_pointer,
    origin_W2_pointer,
    position_pointer,
    q_pointer,
    update_0_blocks_pointer,
    update_1_blocks_pointer,
    y_pointer,
    q_head,
    q_row,
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
    q = tl.load(
        q_block + row[:, None] * q_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # phi(q)
    queries = 0.5 * (q * q) + q
    value_0 = tl.load(gate_value_0_pointer + slot)
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
    value_4 = tl.load(gate_value_4_pointer + slot)
    update_0 = tl.load(
        update_0_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    # M at the end
    memory_W1_next = value_0 * (memory_W1 - origin_W1) + origin_W1 - value_4 * update_0
    border = (last == ROWS).to(tl.float32)
    product = tl.dot(
        queries.to(DOT),
        tl.where(border > 0.0, memory_W1_next, memory_W1).to(DOT),
        input_precision=PRECISION,
    )
    product_2 = tl.dot(queries.to(DOT), memory_W1.to(DOT), input_precision=PRECISION)
    border_2 = (live & (row == ROWS - 1)).to(tl.float32)
    value_2 = gelu(tl.where(border_2[:, None] > 0.0, product, product_2))
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
    update_1 = tl.load(
        update_1_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    # M at the end
    memory_W2_next = value_0 * (memory_W2 - origin_W2) + origin_W2 - value_4 * update_1
    product_3 = tl.dot(
        value_2.to(DOT),
        tl.where(border > 0.0, memory_W2_next, memory_W2).to(DOT),
        input_precision=PRECISION,
    )
    product_4 = tl.dot(value_2.to(DOT), memory_W2.to(DOT), input_precision=PRECISION)
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = tl.where(border_2[:, None] > 0.0, product_3, product_4) + queries
    y_block = y_pointer + (batch * tokens + start) * y_row + head * y_head
    tl.store(y_block + row[:, None] * y_row + value[None, :], reads, mask=live[:, None] & is_value[None, :])


@triton.jit(do_not_specialize=["tokens", "blocks"])
def updates(
    gate_value_1_pointer,
    gate_value_2_pointer,
    gate_value_3_pointer,
    k_pointer,
    length_pointer,
    memory_W1_blocks_pointer,
    memory_W2_blocks_pointer,
    momentum_W1_blocks_pointer,
    momentum_W2_blocks_pointer,
    position_pointer,
    update_0_blocks_pointer,
    update_1_blocks_pointer,
    update_W1_blocks_pointer,
    update_W2_blocks_pointer,
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
    """The maps of one block, again."""
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
    value_1 = tl.load(gate_value_1_pointer + slot)
    momentum_W1 = tl.load(
        momentum_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    update_W1 = tl.load(
        update_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    value_2 = tl.load(gate_value_2_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
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
    # X = phi(k)
    features = 0.5 * (k * k) + k
    memory_W1 = tl.load(
        memory_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    product = tl.dot(features.to(DOT), memory_W1.to(DOT), input_precision=PRECISION)
    value_3 = gelu(product)
    memory_W2 = tl.load(
        memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    product_2 = tl.dot(value_3.to(DOT), memory_W2.to(DOT), input_precision=PRECISION)
    # pred = f(M*, phi(k))
    predictions = product_2 + features
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
    product_3 = tl.dot(errors.to(DOT), tl.trans(memory_W2.to(DOT)), input_precision=PRECISION)
    # the error that reaches the output of W1
    errors_W1 = product_3 * tl.where(is_hidden_1[None, :], gelu_slope(product), 0.0)
    product_4 = tl.dot(
        tl.trans((value_2[:, None] * features).to(DOT)),
        errors_W1.to(DOT),
        input_precision=PRECISION,
    )
    value_3_2 = tl.load(gate_value_3_pointer + slot * HALO + (halo_row + HALO), mask=halo_row < 0, other=0.0)
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
    # X = phi(k)
    features_halo = 0.5 * (k_halo * k_halo) + k_halo
    product_5 = tl.dot(features_halo.to(DOT), memory_W1.to(DOT), input_precision=PRECISION)
    value_4 = gelu(product_5)
    product_6 = tl.dot(value_4.to(DOT), memory_W2.to(DOT), input_precision=PRECISION)
    # pred = f(M*, phi(k))
    predictions_halo = product_6 + features_halo
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
    product_7 = tl.dot(errors_halo.to(DOT), tl.trans(memory_W2.to(DOT)), input_precision=PRECISION)
    # the error that reaches the output of W1
    errors_W1_halo = product_7 * tl.where(is_hidden_1[None, :], gelu_slope(product_5), 0.0)
    product_8 = tl.dot(
        tl.trans((value_3_2[:, None] * features_halo).to(DOT)),
        errors_W1_halo.to(DOT),
        input_precision=PRECISION,
    )
    # A: the block's gradients so far
    update_W1_total = update_W1 + product_4 + product_8
    # S at the end of the block
    momentum_W1_next = value_1 * momentum_W1 + update_W1_total
    orthogonal = newton_schulz(
        momentum_W1_next,
        (
            (3.4445, -4.775, 2.0315),
            (3.4445, -4.775, 2.0315),
            (3.4445, -4.775, 2.0315),
            (3.4445, -4.775, 2.0315),
            (3.4445, -4.775, 2.0315),
        ),
        K <= D1,
    )
    tl.store(
        update_0_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        orthogonal,
        mask=is_feature[:, None] & is_hidden_1[None, :],
    )
    momentum_W2 = tl.load(
        momentum_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    update_W2 = tl.load(
        update_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    product_9 = tl.dot(
        tl.trans((value_2[:, None] * value_3).to(DOT)),
        errors.to(DOT),
        input_precision=PRECISION,
    )
    product_10 = tl.dot(
        tl.trans((value_3_2[:, None] * value_4).to(DOT)),
        errors_halo.to(DOT),
        input_precision=PRECISION,
    )
    # A: the block's gradients so far
    update_W2_total = update_W2 + product_9 + product_10
    # S at the end of the block
    momentum_W2_next = value_1 * momentum_W2 + update_W2_total
    orthogonal_2 = newton_schulz(
        momentum_W2_next,
        (
            (3.4445, -4.775, 2.0315),
            (3.4445, -4.775, 2.0315),
            (3.4445, -4.775, 2.0315),
            (3.4445, -4.775, 2.0315),
            (3.4445, -4.775, 2.0315),
        ),
        D1 <= V,
    )
    tl.store(
        update_1_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        orthogonal_2,
        mask=is_hidden_1[:, None] & is_value[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def state_gradient(
    d_memory_W1_final_pointer,
    d_memory_W1_next_blocks_pointer,
    d_memory_W1_pointer,
    d_memory_W2_final_pointer,
    d_memory_W2_next_blocks_pointer,
    d_memory_W2_pointer,
    d_momentum_W1_final_pointer,
    d_momentum_W1_next_blocks_pointer,
    d_momentum_W1_pointer,
    d_momentum_W2_final_pointer,
    d_momentum_W2_next_blocks_pointer,
    d_momentum_W2_pointer,
    d_origin_W1_pointer,
    d_origin_W2_pointer,
    d_update_0_blocks_pointer,
    d_update_1_blocks_pointer,
    d_update_W1_final_pointer,
    d_update_W1_next_blocks_pointer,
    d_update_W1_pointer,
    d_update_W2_final_pointer,
    d_update_W2_next_blocks_pointer,
    d_update_W2_pointer,
    d_y_pointer,
    gate_value_0_pointer,
    gate_value_1_pointer,
    gate_value_2_pointer,
    gate_value_3_pointer,
    gate_value_4_pointer,
    k_pointer,
    length_pointer,
    memory_W1_blocks_pointer,
    memory_W2_blocks_pointer,
    momentum_W1_blocks_pointer,
    momentum_W2_blocks_pointer,
    origin_W1_pointer,
    origin_W2_pointer,
    position_pointer,
    q_pointer,
    update_0_blocks_pointer,
    update_1_blocks_pointer,
    update_W1_blocks_pointer,
    update_W2_blocks_pointer,
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
    GRAD_FINAL: tl.constexpr,
    GRAD_INITIAL: tl.constexpr,
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
    TILE_ROWS: tl.constexpr,
    V: tl.constexpr,
):
    """The gradient of the memory from the last block to the first, saved after each."""
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
    origin_W1 = tl.load(
        origin_W1_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    origin_W2 = tl.load(
        origin_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    d_memory_W1_next = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
    if GRAD_FINAL:
        d_memory_W1_next += tl.load(
            d_memory_W1_final_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
    d_update_W1_next = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
    if GRAD_FINAL:
        d_update_W1_next += tl.load(
            d_update_W1_final_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
    d_momentum_W1_next = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
    if GRAD_FINAL:
        d_momentum_W1_next += tl.load(
            d_momentum_W1_final_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
    d_memory_W2_next = tl.zeros([BLOCK_D1, BLOCK_V], dtype=tl.float32)
    if GRAD_FINAL:
        d_memory_W2_next += tl.load(
            d_memory_W2_final_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
    d_update_W2_next = tl.zeros([BLOCK_D1, BLOCK_V], dtype=tl.float32)
    if GRAD_FINAL:
        d_update_W2_next += tl.load(
            d_update_W2_final_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
    d_momentum_W2_next = tl.zeros([BLOCK_D1, BLOCK_V], dtype=tl.float32)
    if GRAD_FINAL:
        d_momentum_W2_next += tl.load(
            d_momentum_W2_final_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
    d_origin_W1 = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
    d_origin_W2 = tl.zeros([BLOCK_D1, BLOCK_V], dtype=tl.float32)
    for step in range(0, blocks):
        block = blocks - 1 - step
        slot = memory_index * blocks + block
        start = tl.cast(block, tl.int64) * ROWS - phase
        first = tl.cast(tl.maximum(-start, 0), tl.int32)
        last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
        live = (row >= first) & (row < last)
        earliest = tl.cast(tl.maximum(-start, -HALO), tl.int32)
        is_halo = (halo_row >= earliest) & (halo_row < tl.minimum(last, 0))
        is_held_halo = (halo_row < earliest) & (halo_row >= earliest - HELD)
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
        d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
        q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
        tl.store(
            d_memory_W1_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            d_memory_W1_next,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        tl.store(
            d_update_W1_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            d_update_W1_next,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        tl.store(
            d_momentum_W1_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            d_momentum_W1_next,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        tl.store(
            d_memory_W2_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            d_memory_W2_next,
            mask=is_hidden_1[:, None] & is_value[None, :],
        )
        tl.store(
            d_update_W2_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            d_update_W2_next,
            mask=is_hidden_1[:, None] & is_value[None, :],
        )
        tl.store(
            d_momentum_W2_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            d_momentum_W2_next,
            mask=is_hidden_1[:, None] & is_value[None, :],
        )
        update_W2 = tl.load(
            update_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        value_3 = tl.load(
            gate_value_3_pointer + slot * HALO + (halo_row + HALO),
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
        # X = phi(k)
        features_halo = 0.5 * (k_halo * k_halo) + k_halo
        memory_W1 = tl.load(
            memory_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        product = tl.dot(features_halo.to(DOT), memory_W1.to(DOT), input_precision=PRECISION)
        value_2 = gelu(product)
        value_4 = value_3[:, None] * value_2
        memory_W2 = tl.load(
            memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        product_2 = tl.dot(value_2.to(DOT), memory_W2.to(DOT), input_precision=PRECISION)
        # pred = f(M*, phi(k))
        predictions_halo = product_2 + features_halo
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
        product_3 = tl.dot(tl.trans(value_4.to(DOT)), errors_halo.to(DOT), input_precision=PRECISION)
        # A: the block's gradients so far
        update_W2_total = update_W2 + product_3
        update_W1 = tl.load(
            update_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        value_5 = value_3[:, None] * features_halo
        product_4 = tl.dot(errors_halo.to(DOT), tl.trans(memory_W2.to(DOT)), input_precision=PRECISION)
        value_6 = tl.where(is_hidden_1[None, :], gelu_slope(product), 0.0)
        # the error that reaches the output of W1
        errors_W1_halo = product_4 * value_6
        product_5 = tl.dot(tl.trans(value_5.to(DOT)), errors_W1_halo.to(DOT), input_precision=PRECISION)
        # A: the block's gradients so far
        update_W1_total = update_W1 + product_5
        for row_start in range(0, ROWS, TILE_ROWS):
            source = row_start + tl.arange(0, TILE_ROWS)
            is_source = (source >= first) & (source < last)
            is_held_source = (source < first) & (source >= first - HELD)
            value_2_2 = tl.load(gate_value_2_pointer + slot * ROWS + source, mask=source < ROWS, other=0.0)
            k = tl.load(
                k_block + source[:, None] * k_row + feature[None, :],
                mask=is_source[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            if RESUME:
                window_k_base = (
                    window_k_pointer + (batch * HELD * heads + head) * K + (start + HELD) * heads * K
                )
                k += tl.load(
                    window_k_base + source[:, None] * (heads * K) + feature[None, :],
                    mask=is_held_source[:, None] & is_feature[None, :],
                    other=0.0,
                )
            # X = phi(k)
            features = 0.5 * (k * k) + k
            product_6 = tl.dot(features.to(DOT), memory_W1.to(DOT), input_precision=PRECISION)
            value_7 = gelu(product_6)
            value_8 = value_2_2[:, None] * value_7
            product_7 = tl.dot(value_7.to(DOT), memory_W2.to(DOT), input_precision=PRECISION)
            # pred = f(M*, phi(k))
            predictions = product_7 + features
            v = tl.load(
                v_block + source[:, None] * v_row + value[None, :],
                mask=is_source[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
            if RESUME:
                window_v_base = (
                    window_v_pointer + (batch * HELD * heads + head) * V + (start + HELD) * heads * V
                )
                v += tl.load(
                    window_v_base + source[:, None] * (heads * V) + value[None, :],
                    mask=is_held_source[:, None] & is_value[None, :],
                    other=0.0,
                )
            # E = dl/dpred at the block's M*
            errors = predictions - v
            update_W2_total += tl.dot(tl.trans(value_8.to(DOT)), errors.to(DOT), input_precision=PRECISION)
            value_9 = value_2_2[:, None] * features
            product_8 = tl.dot(errors.to(DOT), tl.trans(memory_W2.to(DOT)), input_precision=PRECISION)
            value_10 = tl.where(is_hidden_1[None, :], gelu_slope(product_6), 0.0)
            # the error that reaches the output of W1
            errors_W1 = product_8 * value_10
            update_W1_total += tl.dot(tl.trans(value_9.to(DOT)), errors_W1.to(DOT), input_precision=PRECISION)
        value_1 = tl.load(gate_value_1_pointer + slot)
        momentum_W2 = tl.load(
            momentum_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        # S at the end of the block
        momentum_W2_next = value_1 * momentum_W2 + update_W2_total
        d_reads = tl.load(
            d_y_block + row[:, None] * d_y_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        border = (live & (row == ROWS - 1)).to(tl.float32)
        value_11 = tl.where(border > 0.0, 1.0, 0.0)
        value_12 = d_reads * value_11[:, None]
        q = tl.load(
            q_block + row[:, None] * q_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        # phi(q)
        queries = 0.5 * (q * q) + q
        value_0 = tl.load(gate_value_0_pointer + slot)
        value_4_2 = tl.load(gate_value_4_pointer + slot)
        update_0 = tl.load(
            update_0_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        # M at the end
        memory_W1_next = value_0 * (memory_W1 - origin_W1) + origin_W1 - value_4_2 * update_0
        border_2 = (last == ROWS).to(tl.float32)
        product_9 = tl.dot(
            queries.to(DOT),
            tl.where(border_2 > 0.0, memory_W1_next, memory_W1).to(DOT),
            input_precision=PRECISION,
        )
        product_10 = tl.dot(queries.to(DOT), memory_W1.to(DOT), input_precision=PRECISION)
        value_13 = tl.where(border[:, None] > 0.0, product_9, product_10)
        value_14 = gelu(value_13)
        product_11 = tl.dot(tl.trans(value_14.to(DOT)), value_12.to(DOT), input_precision=PRECISION)
        combined = d_memory_W2_next + product_11
        value_15 = tl.where(border_2 > 0.0, 1.0, 0.0)
        d_memory_W2_next_2 = combined * value_15
        d_orthogonal = newton_schulz_gradient(
            momentum_W2_next,
            -(d_memory_W2_next_2 * value_4_2),
            (
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
            ),
            D1 <= V,
        )
        tl.store(
            d_update_0_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            d_orthogonal,
            mask=is_hidden_1[:, None] & is_value[None, :],
        )
        momentum_W1 = tl.load(
            momentum_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        # S at the end of the block
        momentum_W1_next = value_1 * momentum_W1 + update_W1_total
        value_16 = tl.where(border > 0.0, 0.0, 1.0)
        value_17 = d_reads * value_16[:, None]
        product_12 = tl.dot(value_17.to(DOT), tl.trans(memory_W2.to(DOT)), input_precision=PRECISION)
        update_1 = tl.load(
            update_1_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        # M at the end
        memory_W2_next = value_0 * (memory_W2 - origin_W2) + origin_W2 - value_4_2 * update_1
        product_13 = tl.dot(
            value_12.to(DOT),
            tl.trans(tl.where(border_2 > 0.0, memory_W2_next, memory_W2).to(DOT)),
            input_precision=PRECISION,
        )
        value_18 = (product_12 + product_13) * tl.where(is_hidden_1[None, :], gelu_slope(value_13), 0.0)
        product_14 = tl.dot(
            tl.trans(queries.to(DOT)),
            (value_18 * value_11[:, None]).to(DOT),
            input_precision=PRECISION,
        )
        combined_2 = d_memory_W1_next + product_14
        d_memory_W1_next_2 = combined_2 * value_15
        d_orthogonal_2 = newton_schulz_gradient(
            momentum_W1_next,
            -(d_memory_W1_next_2 * value_4_2),
            (
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
            ),
            K <= D1,
        )
        tl.store(
            d_update_1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            d_orthogonal_2,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        product_15 = tl.dot(
            tl.trans(queries.to(DOT)),
            (value_18 * value_16[:, None]).to(DOT),
            input_precision=PRECISION,
        )
        value_19 = tl.where(border_2 > 0.0, 0.0, 1.0)
        d_momentum_W1_next_2 = d_momentum_W1_next * value_15 + d_orthogonal_2
        d_update_W1_total = d_update_W1_next * value_19 + d_momentum_W1_next_2
        d_errors_W1_halo = tl.dot(value_5.to(DOT), d_update_W1_total.to(DOT), input_precision=PRECISION)
        value_20 = tl.where(
            is_hidden_1[None, :],
            0.3989422804014327 * (2.0 - product * product) * tl.exp(-0.5 * (product * product)),
            0.0,
        )
        d_momentum_W2_next_2 = d_momentum_W2_next * value_15 + d_orthogonal
        d_update_W2_total = d_update_W2_next * value_19 + d_momentum_W2_next_2
        product_16 = tl.dot(
            errors_halo.to(DOT),
            tl.trans(d_update_W2_total.to(DOT)),
            input_precision=PRECISION,
        )
        product_17 = tl.dot(value_4.to(DOT), d_update_W2_total.to(DOT), input_precision=PRECISION)
        value_21 = d_errors_W1_halo * value_6
        product_18 = tl.dot(value_21.to(DOT), memory_W2.to(DOT), input_precision=PRECISION)
        d_errors_halo = product_17 + product_18
        product_19 = tl.dot(d_errors_halo.to(DOT), tl.trans(memory_W2.to(DOT)), input_precision=PRECISION)
        combined_4 = (
            d_errors_W1_halo * product_4 * value_20 + (product_16 * value_3[:, None] + product_19) * value_6
        )
        product_20 = tl.dot(tl.trans(features_halo.to(DOT)), combined_4.to(DOT), input_precision=PRECISION)
        value_22 = d_memory_W1_next_2 * value_0
        combined_3 = product_15 + combined_2 * value_19 + product_20 + value_22
        product_21 = tl.dot(tl.trans(value_14.to(DOT)), value_17.to(DOT), input_precision=PRECISION)
        value_23 = d_memory_W2_next_2 * value_0
        product_22 = tl.dot(tl.trans(value_21.to(DOT)), errors_halo.to(DOT), input_precision=PRECISION)
        product_23 = tl.dot(tl.trans(value_2.to(DOT)), d_errors_halo.to(DOT), input_precision=PRECISION)
        combined_5 = product_21 + combined * value_19 + value_23 + product_22 + product_23
        for row_start in range(0, ROWS, TILE_ROWS):
            source = row_start + tl.arange(0, TILE_ROWS)
            is_source = (source >= first) & (source < last)
            is_held_source = (source < first) & (source >= first - HELD)
            value_2_3 = tl.load(gate_value_2_pointer + slot * ROWS + source, mask=source < ROWS, other=0.0)
            k_2 = tl.load(
                k_block + source[:, None] * k_row + feature[None, :],
                mask=is_source[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            if RESUME:
                window_k_base = (
                    window_k_pointer + (batch * HELD * heads + head) * K + (start + HELD) * heads * K
                )
                k_2 += tl.load(
                    window_k_base + source[:, None] * (heads * K) + feature[None, :],
                    mask=is_held_source[:, None] & is_feature[None, :],
                    other=0.0,
                )
            # X = phi(k)
            features_2 = 0.5 * (k_2 * k_2) + k_2
            value_24 = value_2_3[:, None] * features_2
            d_errors_W1 = tl.dot(value_24.to(DOT), d_update_W1_total.to(DOT), input_precision=PRECISION)
            product_24 = tl.dot(features_2.to(DOT), memory_W1.to(DOT), input_precision=PRECISION)
            value_25 = gelu(product_24)
            product_25 = tl.dot(value_25.to(DOT), memory_W2.to(DOT), input_precision=PRECISION)
            # pred = f(M*, phi(k))
            predictions_2 = product_25 + features_2
            v_2 = tl.load(
                v_block + source[:, None] * v_row + value[None, :],
                mask=is_source[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
            if RESUME:
                window_v_base = (
                    window_v_pointer + (batch * HELD * heads + head) * V + (start + HELD) * heads * V
                )
                v_2 += tl.load(
                    window_v_base + source[:, None] * (heads * V) + value[None, :],
                    mask=is_held_source[:, None] & is_value[None, :],
                    other=0.0,
                )
            # E = dl/dpred at the block's M*
            errors_2 = predictions_2 - v_2
            product_26 = tl.dot(errors_2.to(DOT), tl.trans(memory_W2.to(DOT)), input_precision=PRECISION)
            value_26 = tl.where(
                is_hidden_1[None, :],
                0.3989422804014327
                * (2.0 - product_24 * product_24)
                * tl.exp(-0.5 * (product_24 * product_24)),
                0.0,
            )
            product_27 = tl.dot(
                errors_2.to(DOT),
                tl.trans(d_update_W2_total.to(DOT)),
                input_precision=PRECISION,
            )
            value_27 = value_2_3[:, None] * value_25
            product_28 = tl.dot(value_27.to(DOT), d_update_W2_total.to(DOT), input_precision=PRECISION)
            value_28 = tl.where(is_hidden_1[None, :], gelu_slope(product_24), 0.0)
            value_29 = d_errors_W1 * value_28
            product_29 = tl.dot(value_29.to(DOT), memory_W2.to(DOT), input_precision=PRECISION)
            d_errors = product_28 + product_29
            product_30 = tl.dot(d_errors.to(DOT), tl.trans(memory_W2.to(DOT)), input_precision=PRECISION)
            combined_6 = (
                d_errors_W1 * product_26 * value_26
                + (product_27 * value_2_3[:, None] + product_30) * value_28
            )
            combined_3 += tl.dot(tl.trans(features_2.to(DOT)), combined_6.to(DOT), input_precision=PRECISION)
            combined_5 += tl.dot(tl.trans(value_29.to(DOT)), errors_2.to(DOT), input_precision=PRECISION)
            combined_5 += tl.dot(tl.trans(value_25.to(DOT)), d_errors.to(DOT), input_precision=PRECISION)
        d_origin_W1 += d_memory_W1_next_2 - value_22
        d_origin_W2 += d_memory_W2_next_2 - value_23
        combined_7 = d_momentum_W1_next * value_19 + d_momentum_W1_next_2 * value_1
        combined_8 = d_momentum_W2_next * value_19 + d_momentum_W2_next_2 * value_1
        d_memory_W1_next = combined_3
        d_update_W1_next = d_update_W1_total
        d_momentum_W1_next = combined_7
        d_memory_W2_next = combined_5
        d_update_W2_next = d_update_W2_total
        d_momentum_W2_next = combined_8
    if GRAD_INITIAL:
        tl.store(
            d_memory_W1_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            d_memory_W1_next,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        tl.store(
            d_update_W1_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            d_update_W1_next,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        tl.store(
            d_momentum_W1_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            d_momentum_W1_next,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        tl.store(
            d_memory_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            d_memory_W2_next,
            mask=is_hidden_1[:, None] & is_value[None, :],
        )
        tl.store(
            d_update_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            d_update_W2_next,
            mask=is_hidden_1[:, None] & is_value[None, :],
        )
        tl.store(
            d_momentum_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            d_momentum_W2_next,
            mask=is_hidden_1[:, None] & is_value[None, :],
        )
    tl.store(
        d_origin_W1_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        d_origin_W1,
        mask=is_feature[:, None] & is_hidden_1[None, :],
    )
    tl.store(
        d_origin_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        d_origin_W2,
        mask=is_hidden_1[:, None] & is_value[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_v(
    d_errors_rows_pointer,
    d_momentum_W1_next_blocks_pointer,
    d_momentum_W2_next_blocks_pointer,
    d_update_0_blocks_pointer,
    d_update_1_blocks_pointer,
    d_update_W1_next_blocks_pointer,
    d_update_W2_next_blocks_pointer,
    d_v_pointer,
    d_window_v_pointer,
    gate_value_2_pointer,
    k_pointer,
    length_pointer,
    memory_W1_blocks_pointer,
    memory_W2_blocks_pointer,
    position_pointer,
    window_k_pointer,
    d_v_head,
    d_v_row,
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
    HELD: tl.constexpr,
    K: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    V: tl.constexpr,
):
    """Gradients of one block: d_v, d_errors_rows."""
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
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
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
    # X = phi(k)
    features = 0.5 * (k * k) + k
    memory_W1 = tl.load(
        memory_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    product = tl.dot(features.to(DOT), memory_W1.to(DOT), input_precision=PRECISION)
    d_update_W2_next = tl.load(
        d_update_W2_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    border = (last == ROWS).to(tl.float32)
    value_2 = tl.where(border > 0.0, 0.0, 1.0)
    d_momentum_W2_next = tl.load(
        d_momentum_W2_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    value_3 = tl.where(border > 0.0, 1.0, 0.0)
    d_update_0 = tl.load(
        d_update_0_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    d_momentum_W2_next_2 = d_momentum_W2_next * value_3 + d_update_0
    d_update_W2_total = d_update_W2_next * value_2 + d_momentum_W2_next_2
    product_2 = tl.dot(gelu(product).to(DOT), d_update_W2_total.to(DOT), input_precision=PRECISION)
    value_2_2 = tl.load(gate_value_2_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    d_update_W1_next = tl.load(
        d_update_W1_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    d_momentum_W1_next = tl.load(
        d_momentum_W1_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    d_update_1 = tl.load(
        d_update_1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    d_momentum_W1_next_2 = d_momentum_W1_next * value_3 + d_update_1
    d_update_W1_total = d_update_W1_next * value_2 + d_momentum_W1_next_2
    d_errors_W1 = tl.dot(
        (value_2_2[:, None] * features).to(DOT),
        d_update_W1_total.to(DOT),
        input_precision=PRECISION,
    )
    value_4 = d_errors_W1 * tl.where(is_hidden_1[None, :], gelu_slope(product), 0.0)
    memory_W2 = tl.load(
        memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    product_3 = tl.dot(value_4.to(DOT), memory_W2.to(DOT), input_precision=PRECISION)
    combined = product_2 * value_2_2[:, None] + product_3
    d_v_block = d_v_pointer + (batch * tokens + start) * d_v_row + head * d_v_head
    tl.store(
        d_v_block + row[:, None] * d_v_row + value[None, :],
        -combined,
        mask=live[:, None] & is_value[None, :],
    )
    if RESUME:
        d_window_v_base = d_window_v_pointer + (batch * HELD * heads + head) * V + (start + HELD) * heads * V
        tl.store(
            d_window_v_base + row[:, None] * (heads * V) + value[None, :],
            -combined,
            mask=is_held[:, None] & is_value[None, :],
        )
    tl.store(
        d_errors_rows_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        combined,
        mask=(row < ROWS)[:, None] & is_value[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_q(
    d_q_pointer,
    d_y_pointer,
    gate_value_0_pointer,
    gate_value_4_pointer,
    length_pointer,
    memory_W1_blocks_pointer,
    memory_W2_blocks_pointer,
    origin_W1_pointer,
    origin_W2_pointer,
    position_pointer,
    q_pointer,
    update_0_blocks_pointer,
    update_1_blocks_pointer,
    d_q_head,
    d_q_row,
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
    d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    d_reads = tl.load(
        d_y_block + row[:, None] * d_y_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    border = (live & (row == ROWS - 1)).to(tl.float32)
    value_2 = tl.where(border > 0.0, 0.0, 1.0)
    memory_W2 = tl.load(
        memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    product = tl.dot(
        (d_reads * value_2[:, None]).to(DOT),
        tl.trans(memory_W2.to(DOT)),
        input_precision=PRECISION,
    )
    value_3 = tl.where(border > 0.0, 1.0, 0.0)
    value_0 = tl.load(gate_value_0_pointer + slot)
    origin_W2 = tl.load(
        origin_W2_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    value_4 = tl.load(gate_value_4_pointer + slot)
    update_1 = tl.load(
        update_1_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    # M at the end
    memory_W2_next = value_0 * (memory_W2 - origin_W2) + origin_W2 - value_4 * update_1
    border_2 = (last == ROWS).to(tl.float32)
    product_2 = tl.dot(
        (d_reads * value_3[:, None]).to(DOT),
        tl.trans(tl.where(border_2 > 0.0, memory_W2_next, memory_W2).to(DOT)),
        input_precision=PRECISION,
    )
    q = tl.load(
        q_block + row[:, None] * q_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # phi(q)
    queries = 0.5 * (q * q) + q
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
    update_0 = tl.load(
        update_0_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    # M at the end
    memory_W1_next = value_0 * (memory_W1 - origin_W1) + origin_W1 - value_4 * update_0
    value_5 = tl.where(border_2 > 0.0, memory_W1_next, memory_W1)
    product_3 = tl.dot(queries.to(DOT), value_5.to(DOT), input_precision=PRECISION)
    product_4 = tl.dot(queries.to(DOT), memory_W1.to(DOT), input_precision=PRECISION)
    value_6 = tl.where(
        is_hidden_1[None, :],
        gelu_slope(tl.where(border[:, None] > 0.0, product_3, product_4)),
        0.0,
    )
    value_7 = (product + product_2) * value_6
    product_5 = tl.dot(
        (value_7 * value_2[:, None]).to(DOT),
        tl.trans(memory_W1.to(DOT)),
        input_precision=PRECISION,
    )
    product_6 = tl.dot(
        (value_7 * value_3[:, None]).to(DOT),
        tl.trans(value_5.to(DOT)),
        input_precision=PRECISION,
    )
    d_queries = d_reads + product_5 + product_6
    value_8 = d_queries * tl.where(is_feature[None, :], 1.0 * q + 1.0, 0.0)
    d_q_block = d_q_pointer + (batch * tokens + start) * d_q_row + head * d_q_head
    tl.store(
        d_q_block + row[:, None] * d_q_row + feature[None, :],
        value_8,
        mask=live[:, None] & is_feature[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_k(
    d_errors_rows_pointer,
    d_k_pointer,
    d_momentum_W1_next_blocks_pointer,
    d_momentum_W2_next_blocks_pointer,
    d_update_0_blocks_pointer,
    d_update_1_blocks_pointer,
    d_update_W1_next_blocks_pointer,
    d_update_W2_next_blocks_pointer,
    d_window_k_pointer,
    gate_value_2_pointer,
    k_pointer,
    length_pointer,
    memory_W1_blocks_pointer,
    memory_W2_blocks_pointer,
    position_pointer,
    v_pointer,
    window_k_pointer,
    window_v_pointer,
    d_k_head,
    d_k_row,
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
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    d_errors = tl.load(
        d_errors_rows_pointer + slot * (ROWS * V) + row[:, None] * V + value[None, :],
        mask=(row < ROWS)[:, None] & is_value[None, :],
        other=0.0,
    )
    d_update_W1_next = tl.load(
        d_update_W1_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    border = (last == ROWS).to(tl.float32)
    value_2 = tl.where(border > 0.0, 0.0, 1.0)
    d_momentum_W1_next = tl.load(
        d_momentum_W1_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    value_3 = tl.where(border > 0.0, 1.0, 0.0)
    d_update_1 = tl.load(
        d_update_1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    d_momentum_W1_next_2 = d_momentum_W1_next * value_3 + d_update_1
    d_update_W1_total = d_update_W1_next * value_2 + d_momentum_W1_next_2
    value_2_2 = tl.load(gate_value_2_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
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
    # X = phi(k)
    features = 0.5 * (k * k) + k
    d_errors_W1 = tl.dot(
        (value_2_2[:, None] * features).to(DOT),
        d_update_W1_total.to(DOT),
        input_precision=PRECISION,
    )
    memory_W1 = tl.load(
        memory_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    product = tl.dot(features.to(DOT), memory_W1.to(DOT), input_precision=PRECISION)
    memory_W2 = tl.load(
        memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    product_2 = tl.dot(gelu(product).to(DOT), memory_W2.to(DOT), input_precision=PRECISION)
    # pred = f(M*, phi(k))
    predictions = product_2 + features
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
    product_3 = tl.dot(errors.to(DOT), tl.trans(memory_W2.to(DOT)), input_precision=PRECISION)
    value_4 = tl.where(
        is_hidden_1[None, :],
        0.3989422804014327 * (2.0 - product * product) * tl.exp(-0.5 * (product * product)),
        0.0,
    )
    d_update_W2_next = tl.load(
        d_update_W2_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    d_momentum_W2_next = tl.load(
        d_momentum_W2_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    d_update_0 = tl.load(
        d_update_0_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    d_momentum_W2_next_2 = d_momentum_W2_next * value_3 + d_update_0
    d_update_W2_total = d_update_W2_next * value_2 + d_momentum_W2_next_2
    product_4 = tl.dot(
        (errors * value_2_2[:, None]).to(DOT),
        tl.trans(d_update_W2_total.to(DOT)),
        input_precision=PRECISION,
    )
    product_5 = tl.dot(d_errors.to(DOT), tl.trans(memory_W2.to(DOT)), input_precision=PRECISION)
    value_5 = tl.where(is_hidden_1[None, :], gelu_slope(product), 0.0)
    combined = d_errors_W1 * product_3 * value_4 + (product_4 + product_5) * value_5
    product_6 = tl.dot(combined.to(DOT), tl.trans(memory_W1.to(DOT)), input_precision=PRECISION)
    # the error that reaches the output of W1
    errors_W1 = product_3 * value_5
    product_7 = tl.dot(errors_W1.to(DOT), tl.trans(d_update_W1_total.to(DOT)), input_precision=PRECISION)
    value_6 = (d_errors + product_6 + product_7 * value_2_2[:, None]) * tl.where(
        is_feature[None, :],
        1.0 * k + 1.0,
        0.0,
    )
    d_k_block = d_k_pointer + (batch * tokens + start) * d_k_row + head * d_k_head
    tl.store(
        d_k_block + row[:, None] * d_k_row + feature[None, :],
        value_6,
        mask=live[:, None] & is_feature[None, :],
    )
    if RESUME:
        d_window_k_base = d_window_k_pointer + (batch * HELD * heads + head) * K + (start + HELD) * heads * K
        tl.store(
            d_window_k_base + row[:, None] * (heads * K) + feature[None, :],
            value_6,
            mask=is_held[:, None] & is_feature[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_halo(
    d_k_halo_pointer,
    d_momentum_W1_next_blocks_pointer,
    d_momentum_W2_next_blocks_pointer,
    d_update_0_blocks_pointer,
    d_update_1_blocks_pointer,
    d_update_W1_next_blocks_pointer,
    d_update_W2_next_blocks_pointer,
    d_v_halo_pointer,
    gate_value_3_pointer,
    k_pointer,
    length_pointer,
    memory_W1_blocks_pointer,
    memory_W2_blocks_pointer,
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
    """Gradients of one block: d_k_halo, d_v_halo."""
    program = tl.program_id(0)
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
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
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    earliest = tl.cast(tl.maximum(-start, -HALO), tl.int32)
    is_halo = (halo_row >= earliest) & (halo_row < tl.minimum(last, 0))
    is_held_halo = (halo_row < earliest) & (halo_row >= earliest - HELD)
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
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
    # X = phi(k)
    features_halo = 0.5 * (k_halo * k_halo) + k_halo
    memory_W1 = tl.load(
        memory_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    product = tl.dot(features_halo.to(DOT), memory_W1.to(DOT), input_precision=PRECISION)
    value_2 = gelu(product)
    d_update_W2_next = tl.load(
        d_update_W2_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    border = (last == ROWS).to(tl.float32)
    value_3 = tl.where(border > 0.0, 0.0, 1.0)
    d_momentum_W2_next = tl.load(
        d_momentum_W2_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    value_4 = tl.where(border > 0.0, 1.0, 0.0)
    d_update_0 = tl.load(
        d_update_0_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    d_momentum_W2_next_2 = d_momentum_W2_next * value_4 + d_update_0
    d_update_W2_total = d_update_W2_next * value_3 + d_momentum_W2_next_2
    product_2 = tl.dot(value_2.to(DOT), d_update_W2_total.to(DOT), input_precision=PRECISION)
    value_3_2 = tl.load(gate_value_3_pointer + slot * HALO + (halo_row + HALO), mask=halo_row < 0, other=0.0)
    d_update_W1_next = tl.load(
        d_update_W1_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    d_momentum_W1_next = tl.load(
        d_momentum_W1_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    d_update_1 = tl.load(
        d_update_1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    d_momentum_W1_next_2 = d_momentum_W1_next * value_4 + d_update_1
    d_update_W1_total = d_update_W1_next * value_3 + d_momentum_W1_next_2
    d_errors_W1_halo = tl.dot(
        (value_3_2[:, None] * features_halo).to(DOT),
        d_update_W1_total.to(DOT),
        input_precision=PRECISION,
    )
    value_5 = tl.where(is_hidden_1[None, :], gelu_slope(product), 0.0)
    memory_W2 = tl.load(
        memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    product_3 = tl.dot((d_errors_W1_halo * value_5).to(DOT), memory_W2.to(DOT), input_precision=PRECISION)
    combined = product_2 * value_3_2[:, None] + product_3
    product_4 = tl.dot(value_2.to(DOT), memory_W2.to(DOT), input_precision=PRECISION)
    # pred = f(M*, phi(k))
    predictions_halo = product_4 + features_halo
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
    product_5 = tl.dot(errors_halo.to(DOT), tl.trans(memory_W2.to(DOT)), input_precision=PRECISION)
    value_6 = tl.where(
        is_hidden_1[None, :],
        0.3989422804014327 * (2.0 - product * product) * tl.exp(-0.5 * (product * product)),
        0.0,
    )
    product_6 = tl.dot(
        (errors_halo * value_3_2[:, None]).to(DOT),
        tl.trans(d_update_W2_total.to(DOT)),
        input_precision=PRECISION,
    )
    product_7 = tl.dot(combined.to(DOT), tl.trans(memory_W2.to(DOT)), input_precision=PRECISION)
    combined_2 = d_errors_W1_halo * product_5 * value_6 + (product_6 + product_7) * value_5
    product_8 = tl.dot(combined_2.to(DOT), tl.trans(memory_W1.to(DOT)), input_precision=PRECISION)
    # the error that reaches the output of W1
    errors_W1_halo = product_5 * value_5
    product_9 = tl.dot(errors_W1_halo.to(DOT), tl.trans(d_update_W1_total.to(DOT)), input_precision=PRECISION)
    value_7 = (combined + product_8 + product_9 * value_3_2[:, None]) * tl.where(
        is_feature[None, :],
        1.0 * k_halo + 1.0,
        0.0,
    )
    tl.store(
        d_k_halo_pointer + slot * (HALO * K) + (halo_row + HALO)[:, None] * K + feature[None, :],
        value_7,
        mask=(halo_row < 0)[:, None] & is_feature[None, :],
    )
    tl.store(
        d_v_halo_pointer + slot * (HALO * V) + (halo_row + HALO)[:, None] * V + value[None, :],
        -combined,
        mask=(halo_row < 0)[:, None] & is_value[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_weights(
    d_gate_value_2_pointer,
    d_momentum_W1_next_blocks_pointer,
    d_momentum_W2_next_blocks_pointer,
    d_update_0_blocks_pointer,
    d_update_1_blocks_pointer,
    d_update_W1_next_blocks_pointer,
    d_update_W2_next_blocks_pointer,
    k_pointer,
    length_pointer,
    memory_W1_blocks_pointer,
    memory_W2_blocks_pointer,
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
    """Gradients of one block: d_gate_value_2."""
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
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
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
    # X = phi(k)
    features = 0.5 * (k * k) + k
    memory_W1 = tl.load(
        memory_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    product = tl.dot(features.to(DOT), memory_W1.to(DOT), input_precision=PRECISION)
    value_2 = gelu(product)
    memory_W2 = tl.load(
        memory_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    product_2 = tl.dot(value_2.to(DOT), memory_W2.to(DOT), input_precision=PRECISION)
    # pred = f(M*, phi(k))
    predictions = product_2 + features
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
    d_update_W2_next = tl.load(
        d_update_W2_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    border = (last == ROWS).to(tl.float32)
    value_3 = tl.where(border > 0.0, 0.0, 1.0)
    d_momentum_W2_next = tl.load(
        d_momentum_W2_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    value_4 = tl.where(border > 0.0, 1.0, 0.0)
    d_update_0 = tl.load(
        d_update_0_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    d_momentum_W2_next_2 = d_momentum_W2_next * value_4 + d_update_0
    d_update_W2_total = d_update_W2_next * value_3 + d_momentum_W2_next_2
    product_3 = tl.dot(value_2.to(DOT), d_update_W2_total.to(DOT), input_precision=PRECISION)
    product_4 = tl.sum(errors * product_3, 1)
    d_update_W1_next = tl.load(
        d_update_W1_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    d_momentum_W1_next = tl.load(
        d_momentum_W1_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    d_update_1 = tl.load(
        d_update_1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    d_momentum_W1_next_2 = d_momentum_W1_next * value_4 + d_update_1
    d_update_W1_total = d_update_W1_next * value_3 + d_momentum_W1_next_2
    product_5 = tl.dot(errors.to(DOT), tl.trans(memory_W2.to(DOT)), input_precision=PRECISION)
    # the error that reaches the output of W1
    errors_W1 = product_5 * tl.where(is_hidden_1[None, :], gelu_slope(product), 0.0)
    product_6 = tl.dot(errors_W1.to(DOT), tl.trans(d_update_W1_total.to(DOT)), input_precision=PRECISION)
    tl.store(
        d_gate_value_2_pointer + slot * ROWS + row,
        product_4 + tl.sum(product_6 * features, 1),
        mask=row < ROWS,
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_carried(
    d_gate_value_0_pointer,
    d_gate_value_1_pointer,
    d_gate_value_3_pointer,
    d_gate_value_4_pointer,
    d_memory_W1_next_blocks_pointer,
    d_memory_W2_next_blocks_pointer,
    d_momentum_W1_next_blocks_pointer,
    d_momentum_W2_next_blocks_pointer,
    d_update_0_blocks_pointer,
    d_update_1_blocks_pointer,
    d_update_W1_next_blocks_pointer,
    d_update_W2_next_blocks_pointer,
    d_y_pointer,
    gate_value_0_pointer,
    gate_value_4_pointer,
    k_pointer,
    length_pointer,
    memory_W1_blocks_pointer,
    memory_W2_blocks_pointer,
    momentum_W1_blocks_pointer,
    momentum_W2_blocks_pointer,
    origin_W1_pointer,
    origin_W2_pointer,
    position_pointer,
    q_pointer,
    update_0_blocks_pointer,
    update_1_blocks_pointer,
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
    """Gradients of one block: d_gate_value_0, d_gate_value_1, d_gate_value_3, d_gate_value_4."""
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
    d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    d_memory_W2_next = tl.load(
        d_memory_W2_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    d_reads = tl.load(
        d_y_block + row[:, None] * d_y_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    border = (live & (row == ROWS - 1)).to(tl.float32)
    value_2 = tl.where(border > 0.0, 1.0, 0.0)
    value_3 = d_reads * value_2[:, None]
    q = tl.load(
        q_block + row[:, None] * q_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # phi(q)
    queries = 0.5 * (q * q) + q
    value_0 = tl.load(gate_value_0_pointer + slot)
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
    combined = memory_W1 - origin_W1
    value_4 = tl.load(gate_value_4_pointer + slot)
    update_0 = tl.load(
        update_0_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    # M at the end
    memory_W1_next = value_0 * combined + origin_W1 - value_4 * update_0
    border_2 = (last == ROWS).to(tl.float32)
    product = tl.dot(
        queries.to(DOT),
        tl.where(border_2 > 0.0, memory_W1_next, memory_W1).to(DOT),
        input_precision=PRECISION,
    )
    product_2 = tl.dot(queries.to(DOT), memory_W1.to(DOT), input_precision=PRECISION)
    value_5 = tl.where(border[:, None] > 0.0, product, product_2)
    product_3 = tl.dot(tl.trans(gelu(value_5).to(DOT)), value_3.to(DOT), input_precision=PRECISION)
    value_6 = tl.where(border_2 > 0.0, 1.0, 0.0)
    d_memory_W2_next_2 = (d_memory_W2_next + product_3) * value_6
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
    d_memory_W1_next = tl.load(
        d_memory_W1_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    product_4 = tl.dot(
        (d_reads * tl.where(border > 0.0, 0.0, 1.0)[:, None]).to(DOT),
        tl.trans(memory_W2.to(DOT)),
        input_precision=PRECISION,
    )
    update_1 = tl.load(
        update_1_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    # M at the end
    memory_W2_next = value_0 * combined_2 + origin_W2 - value_4 * update_1
    product_5 = tl.dot(
        value_3.to(DOT),
        tl.trans(tl.where(border_2 > 0.0, memory_W2_next, memory_W2).to(DOT)),
        input_precision=PRECISION,
    )
    value_7 = (product_4 + product_5) * tl.where(is_hidden_1[None, :], gelu_slope(value_5), 0.0)
    product_6 = tl.dot(
        tl.trans(queries.to(DOT)),
        (value_7 * value_2[:, None]).to(DOT),
        input_precision=PRECISION,
    )
    d_memory_W1_next_2 = (d_memory_W1_next + product_6) * value_6
    combined_3 = tl.sum(tl.sum(d_memory_W2_next_2 * combined_2, 0), 0) + tl.sum(
        tl.sum(d_memory_W1_next_2 * combined, 0),
        0,
    )
    tl.store(d_gate_value_0_pointer + slot, combined_3)
    d_momentum_W2_next = tl.load(
        d_momentum_W2_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    d_update_0 = tl.load(
        d_update_0_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    d_momentum_W2_next_2 = d_momentum_W2_next * value_6 + d_update_0
    momentum_W2 = tl.load(
        momentum_W2_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    d_momentum_W1_next = tl.load(
        d_momentum_W1_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    d_update_1 = tl.load(
        d_update_1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    d_momentum_W1_next_2 = d_momentum_W1_next * value_6 + d_update_1
    momentum_W1 = tl.load(
        momentum_W1_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    combined_4 = tl.sum(tl.sum(d_momentum_W2_next_2 * momentum_W2, 0), 0) + tl.sum(
        tl.sum(d_momentum_W1_next_2 * momentum_W1, 0),
        0,
    )
    tl.store(d_gate_value_1_pointer + slot, combined_4)
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
    # X = phi(k)
    features_halo = 0.5 * (k_halo * k_halo) + k_halo
    product_7 = tl.dot(features_halo.to(DOT), memory_W1.to(DOT), input_precision=PRECISION)
    value_8 = gelu(product_7)
    product_8 = tl.dot(value_8.to(DOT), memory_W2.to(DOT), input_precision=PRECISION)
    # pred = f(M*, phi(k))
    predictions_halo = product_8 + features_halo
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
    d_update_W2_next = tl.load(
        d_update_W2_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    value_9 = tl.where(border_2 > 0.0, 0.0, 1.0)
    d_update_W2_total = d_update_W2_next * value_9 + d_momentum_W2_next_2
    product_9 = tl.dot(value_8.to(DOT), d_update_W2_total.to(DOT), input_precision=PRECISION)
    product_10 = tl.sum(errors_halo * product_9, 1)
    d_update_W1_next = tl.load(
        d_update_W1_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    d_update_W1_total = d_update_W1_next * value_9 + d_momentum_W1_next_2
    product_11 = tl.dot(errors_halo.to(DOT), tl.trans(memory_W2.to(DOT)), input_precision=PRECISION)
    # the error that reaches the output of W1
    errors_W1_halo = product_11 * tl.where(is_hidden_1[None, :], gelu_slope(product_7), 0.0)
    product_12 = tl.dot(
        errors_W1_halo.to(DOT),
        tl.trans(d_update_W1_total.to(DOT)),
        input_precision=PRECISION,
    )
    tl.store(
        d_gate_value_3_pointer + slot * HALO + (halo_row + HALO),
        product_10 + tl.sum(product_12 * features_halo, 1),
        mask=halo_row < 0,
    )
    combined_5 = tl.sum(tl.sum(-(d_memory_W2_next_2 * update_1), 0), 0) + tl.sum(
        tl.sum(-(d_memory_W1_next_2 * update_0), 0),
        0,
    )
    tl.store(d_gate_value_4_pointer + slot, combined_5)


@triton.jit(do_not_specialize=["tokens", "blocks"])
def gates_gradient(
    d_gate_value_0_pointer,
    d_log_alpha_pointer,
    length_pointer,
    log_alpha_pointer,
    position_pointer,
    d_log_alpha_head,
    d_log_alpha_row,
    log_alpha_head,
    log_alpha_row,
    tokens,
    heads,
    blocks,
    HAS_LENGTH: tl.constexpr,
    RESUME: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    HELD: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Gradients of one block's gates, from those of decays and weights: d_log_alpha."""
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
    d_gate_value_0 = tl.load(d_gate_value_0_pointer + slot)
    border = (live & (row == ROWS - 1)).to(tl.float32)
    log_alpha = tl.load(log_alpha_block + row * log_alpha_row, mask=live, other=0.0).to(tl.float32)
    d_log_alpha_block = (
        d_log_alpha_pointer + (batch * tokens + start) * d_log_alpha_row + head * d_log_alpha_head
    )
    tl.store(
        d_log_alpha_block + row * d_log_alpha_row,
        d_gate_value_0 * border * tl.exp(log_alpha),
        mask=live,
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def gates_gradient_rate(
    d_gate_value_4_pointer,
    d_lr_pointer,
    length_pointer,
    position_pointer,
    d_lr_head,
    d_lr_row,
    tokens,
    heads,
    blocks,
    HAS_LENGTH: tl.constexpr,
    RESUME: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    HELD: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Gradients of one block's gates, from those of decays and weights: d_lr."""
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
    d_gate_value_4 = tl.load(d_gate_value_4_pointer + slot)
    border = (live & (row == ROWS - 1)).to(tl.float32)
    d_lr_block = d_lr_pointer + (batch * tokens + start) * d_lr_row + head * d_lr_head
    tl.store(d_lr_block + row * d_lr_row, d_gate_value_4 * border, mask=live)


@triton.jit(do_not_specialize=["tokens", "blocks"])
def gates_gradient_momentum(
    d_gate_value_1_pointer,
    d_log_theta_pointer,
    length_pointer,
    log_theta_pointer,
    position_pointer,
    d_log_theta_head,
    d_log_theta_row,
    log_theta_head,
    log_theta_row,
    tokens,
    heads,
    blocks,
    HAS_LENGTH: tl.constexpr,
    RESUME: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    HELD: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Gradients of one block's gates, from those of decays and weights: d_log_theta."""
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
    log_theta_block = log_theta_pointer + (batch * tokens + start) * log_theta_row + head * log_theta_head
    d_gate_value_1 = tl.load(d_gate_value_1_pointer + slot)
    border = (live & (row == ROWS - 1)).to(tl.float32)
    log_theta = tl.load(log_theta_block + row * log_theta_row, mask=live, other=0.0).to(tl.float32)
    d_log_theta_block = (
        d_log_theta_pointer + (batch * tokens + start) * d_log_theta_row + head * d_log_theta_head
    )
    tl.store(
        d_log_theta_block + row * d_log_theta_row,
        d_gate_value_1 * border * tl.exp(log_theta),
        mask=live,
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def gates_gradient_window(
    d_gamma_halo_pointer,
    d_gamma_pointer,
    d_gate_value_2_pointer,
    d_gate_value_3_pointer,
    d_window_gamma_pointer,
    length_pointer,
    position_pointer,
    d_gamma_head,
    d_gamma_row,
    tokens,
    heads,
    blocks,
    HAS_LENGTH: tl.constexpr,
    RESUME: tl.constexpr,
    BLOCK_HALO: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    HALO: tl.constexpr,
    HELD: tl.constexpr,
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
    d_window = tl.load(d_gate_value_2_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    live_2 = live.to(tl.float32)
    banded = tl.where(
        (row[:, None] >= row[None, :]) & (row[:, None] - row[None, :] <= 15),
        d_window[None, :] * live_2[:, None],
        0.0,
    )
    exists = ((row >= first - seen) & (row < last)).to(tl.float32)
    d_gamma_block = d_gamma_pointer + (batch * tokens + start) * d_gamma_row + head * d_gamma_head
    tl.store(d_gamma_block + row * d_gamma_row, tl.sum(banded, 0) * exists, mask=live)
    if RESUME:
        d_window_gamma_base = d_window_gamma_pointer + (batch * HELD * heads + head) + (start + HELD) * heads
        tl.store(d_window_gamma_base + row * heads, tl.sum(banded, 0) * exists, mask=is_held)
    d_window_halo = tl.load(
        d_gate_value_3_pointer + slot * HALO + (halo_row + HALO),
        mask=halo_row < 0,
        other=0.0,
    )
    banded_2 = tl.where(
        (row[:, None] >= halo_row[None, :]) & (row[:, None] - halo_row[None, :] <= 15),
        d_window_halo[None, :] * live_2[:, None],
        0.0,
    )
    exists_halo = ((halo_row >= earliest - seen) & (halo_row < tl.minimum(last, 0))).to(tl.float32)
    tl.store(
        d_gamma_halo_pointer + slot * HALO + (halo_row + HALO),
        tl.sum(banded_2, 0) * exists_halo,
        mask=halo_row < 0,
    )

"""Kernels of the memory rule atlas_pp (token_grid).

Rule 9a2fa80b4300, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
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
    gate_kept_pointer,
    gate_momentum_kept_pointer,
    gate_momentum_weights_halo_pointer,
    gate_momentum_weights_pointer,
    gate_value_0_pointer,
    gate_value_1_pointer,
    gate_value_2_pointer,
    gate_value_3_pointer,
    gate_value_4_pointer,
    gate_value_6_pointer,
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
    log_theta_block = log_theta_pointer + (batch * tokens + start) * log_theta_row + head * log_theta_head
    gamma_block = gamma_pointer + (batch * tokens + start) * gamma_row + head * gamma_head
    lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
    log_alpha = tl.load(log_alpha_block + row * log_alpha_row, mask=live, other=0.0).to(tl.float32)
    log_alpha_coarse, log_alpha_fine, log_alpha_reset = split_log(log_alpha)
    log_alpha_coarse_sum = tl.cumsum(log_alpha_coarse, 0)
    log_alpha_fine_sum = tl.cumsum(log_alpha_fine, 0)
    log_alpha_reset_sum = tl.cumsum(log_alpha_reset, 0)
    since_start = tl.exp(
        tl.where(log_alpha_reset_sum == 0.0, log_alpha_coarse_sum + log_alpha_fine_sum, float("-inf"))
    )
    tl.store(gate_value_0_pointer + slot * ROWS + row, since_start, mask=row < ROWS)
    log_theta = tl.load(log_theta_block + row * log_theta_row, mask=live, other=0.0).to(tl.float32)
    log_theta_coarse, log_theta_fine, log_theta_reset = split_log(log_theta)
    log_theta_coarse_sum = tl.cumsum(log_theta_coarse, 0)
    log_theta_fine_sum = tl.cumsum(log_theta_fine, 0)
    log_theta_reset_sum = tl.cumsum(log_theta_reset, 0)
    since_start_2 = tl.exp(
        tl.where(log_theta_reset_sum == 0.0, log_theta_coarse_sum + log_theta_fine_sum, float("-inf"))
    )
    tl.store(gate_value_1_pointer + slot * ROWS + row, since_start_2, mask=row < ROWS)
    decay = tl.exp(
        tl.where(
            (row[:, None] >= row[None, :]) & (log_theta_reset_sum[:, None] == log_theta_reset_sum[None, :]),
            log_theta_coarse_sum[:, None]
            - log_theta_coarse_sum[None, :]
            + (log_theta_fine_sum[:, None] - log_theta_fine_sum[None, :]),
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
    product = tl.dot(decay.to(DOT), window.to(DOT), input_precision=PRECISION)
    tl.store(
        gate_value_2_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        product,
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
    product_2 = tl.dot(decay.to(DOT), window_halo.to(DOT), input_precision=PRECISION)
    tl.store(
        gate_value_3_pointer + slot * (ROWS * HALO) + row[:, None] * HALO + (halo_row + HALO)[None, :],
        product_2,
        mask=(row < ROWS)[:, None] & (halo_row < 0)[None, :],
    )
    decay_2 = tl.exp(
        tl.where(
            (row[:, None] >= row[None, :]) & (log_alpha_reset_sum[:, None] == log_alpha_reset_sum[None, :]),
            log_alpha_coarse_sum[:, None]
            - log_alpha_coarse_sum[None, :]
            + (log_alpha_fine_sum[:, None] - log_alpha_fine_sum[None, :]),
            float("-inf"),
        )
    )
    lr = tl.load(lr_block + row * lr_row, mask=live, other=0.0).to(tl.float32)
    tl.store(
        gate_value_4_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        decay_2 * lr[None, :],
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
    tl.store(gate_value_6_pointer + slot * ROWS + row, until_end * lr, mask=row < ROWS)
    # decay of S over the block
    momentum_kept = tl.exp(
        tl.where(
            tl.sum(log_theta_reset, 0) == 0.0,
            tl.sum(log_theta_coarse, 0) + tl.sum(log_theta_fine, 0),
            float("-inf"),
        )
    )
    tl.store(gate_momentum_kept_pointer + slot, momentum_kept)
    until_end_2 = tl.exp(
        tl.where(
            tl.sum(log_theta_reset, 0) == log_theta_reset_sum,
            tl.sum(log_theta_coarse, 0)
            - log_theta_coarse_sum
            + (tl.sum(log_theta_fine, 0) - log_theta_fine_sum),
            float("-inf"),
        )
    )
    # B_C: last row of D(theta) Gamma
    momentum_weights = tl.sum(until_end_2[:, None] * window, 0)
    tl.store(gate_momentum_weights_pointer + slot * ROWS + row, momentum_weights, mask=row < ROWS)
    # B_C: last row of D(theta) Gamma
    momentum_weights_halo = tl.sum(until_end_2[:, None] * window_halo, 0)
    tl.store(
        gate_momentum_weights_halo_pointer + slot * HALO + (halo_row + HALO),
        momentum_weights_halo,
        mask=halo_row < 0,
    )


@triton.jit(do_not_specialize=["tokens", "blocks", "block"])
def updates_0(
    anchor_W1_pointer,
    anchor_W2_pointer,
    anchor_W3_pointer,
    gate_value_1_pointer,
    gate_value_2_pointer,
    gate_value_3_pointer,
    k_pointer,
    length_pointer,
    memory_W1_blocks_pointer,
    memory_W2_blocks_pointer,
    memory_W3_blocks_pointer,
    momentum_W2_blocks_pointer,
    position_pointer,
    updates_0_rows_pointer,
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
    block,
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
    """The map of each token of one block, by a program of its own."""
    program = tl.program_id(0)
    token = program % ROWS
    memory_index = tl.cast(program // ROWS, tl.int64)
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
    if (token >= first) & (token < last):
        gate_value_1 = tl.load(gate_value_1_pointer + slot * ROWS + token)
        momentum_W2 = tl.load(
            momentum_W2_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        gate_value_2 = tl.load(
            gate_value_2_pointer + slot * (ROWS * ROWS) + token * ROWS + row,
            mask=row < ROWS,
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
        # X = phi(k)
        features = 0.5 * (k * k) + k
        anchor_W2 = (
            tl.load(
                anchor_W2_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                mask=is_feature[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            if RESUME
            else 0.0
        )
        memory_W2 = tl.load(
            memory_W2_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        # M*: the memory at the last border
        anchor_point_W2 = tl.where(block == 0, anchor_W2, memory_W2) if RESUME else memory_W2
        product = tl.dot(features.to(DOT), anchor_point_W2.to(DOT), input_precision=PRECISION)
        anchor_W3 = (
            tl.load(
                anchor_W3_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                mask=is_feature[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            if RESUME
            else 0.0
        )
        memory_W3 = tl.load(
            memory_W3_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        # M*: the memory at the last border
        anchor_point_W3 = tl.where(block == 0, anchor_W3, memory_W3) if RESUME else memory_W3
        product_2 = tl.dot(features.to(DOT), anchor_point_W3.to(DOT), input_precision=PRECISION)
        anchor_W1 = (
            tl.load(
                anchor_W1_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                mask=is_hidden_1[:, None] & is_value[None, :],
                other=0.0,
            )
            if RESUME
            else 0.0
        )
        memory_W1 = tl.load(
            memory_W1_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        # M*: the memory at the last border
        anchor_point_W1 = tl.where(block == 0, anchor_W1, memory_W1) if RESUME else memory_W1
        product_3 = tl.dot(
            (gelu(product) * product_2).to(DOT),
            anchor_point_W1.to(DOT),
            input_precision=PRECISION,
        )
        # pred = f(M*, phi(k))
        predictions = features + product_3
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
        product_4 = tl.dot(errors.to(DOT), tl.trans(anchor_point_W1.to(DOT)), input_precision=PRECISION)
        # the error that reaches the output of W2
        errors_W2 = product_4 * product_2 * tl.where(is_hidden_1[None, :], gelu_slope(product), 0.0)
        product_5 = tl.dot(
            tl.trans((gate_value_2[:, None] * features).to(DOT)),
            errors_W2.to(DOT),
            input_precision=PRECISION,
        )
        gate_value_3 = tl.load(
            gate_value_3_pointer + slot * (ROWS * HALO) + token * HALO + (halo_row + HALO),
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
        product_6 = tl.dot(features_halo.to(DOT), anchor_point_W2.to(DOT), input_precision=PRECISION)
        product_7 = tl.dot(features_halo.to(DOT), anchor_point_W3.to(DOT), input_precision=PRECISION)
        product_8 = tl.dot(
            (gelu(product_6) * product_7).to(DOT),
            anchor_point_W1.to(DOT),
            input_precision=PRECISION,
        )
        # pred = f(M*, phi(k))
        predictions_halo = features_halo + product_8
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
        product_9 = tl.dot(errors_halo.to(DOT), tl.trans(anchor_point_W1.to(DOT)), input_precision=PRECISION)
        # the error that reaches the output of W2
        errors_W2_halo = product_9 * product_7 * tl.where(is_hidden_1[None, :], gelu_slope(product_6), 0.0)
        product_10 = tl.dot(
            tl.trans((gate_value_3[:, None] * features_halo).to(DOT)),
            errors_W2_halo.to(DOT),
            input_precision=PRECISION,
        )
        # S_t of every token
        momentum_W2_rows = gate_value_1 * momentum_W2 + product_5 + product_10
        # U_t: the map of S_t
        updates_W2 = newton_schulz(
            momentum_W2_rows,
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
            updates_0_rows_pointer
            + (memory_index * ROWS + token) * (K * D1)
            + feature[:, None] * D1
            + hidden_1[None, :],
            updates_W2,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks", "block"])
def updates_1(
    anchor_W1_pointer,
    anchor_W2_pointer,
    anchor_W3_pointer,
    gate_value_1_pointer,
    gate_value_2_pointer,
    gate_value_3_pointer,
    k_pointer,
    length_pointer,
    memory_W1_blocks_pointer,
    memory_W2_blocks_pointer,
    memory_W3_blocks_pointer,
    momentum_W3_blocks_pointer,
    position_pointer,
    updates_1_rows_pointer,
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
    block,
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
    """The map of each token of one block, by a program of its own."""
    program = tl.program_id(0)
    token = program % ROWS
    memory_index = tl.cast(program // ROWS, tl.int64)
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
    if (token >= first) & (token < last):
        gate_value_1 = tl.load(gate_value_1_pointer + slot * ROWS + token)
        momentum_W3 = tl.load(
            momentum_W3_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        gate_value_2 = tl.load(
            gate_value_2_pointer + slot * (ROWS * ROWS) + token * ROWS + row,
            mask=row < ROWS,
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
        # X = phi(k)
        features = 0.5 * (k * k) + k
        anchor_W2 = (
            tl.load(
                anchor_W2_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                mask=is_feature[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            if RESUME
            else 0.0
        )
        memory_W2 = tl.load(
            memory_W2_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        # M*: the memory at the last border
        anchor_point_W2 = tl.where(block == 0, anchor_W2, memory_W2) if RESUME else memory_W2
        product = tl.dot(features.to(DOT), anchor_point_W2.to(DOT), input_precision=PRECISION)
        value_2 = gelu(product)
        anchor_W3 = (
            tl.load(
                anchor_W3_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                mask=is_feature[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            if RESUME
            else 0.0
        )
        memory_W3 = tl.load(
            memory_W3_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        # M*: the memory at the last border
        anchor_point_W3 = tl.where(block == 0, anchor_W3, memory_W3) if RESUME else memory_W3
        product_2 = tl.dot(features.to(DOT), anchor_point_W3.to(DOT), input_precision=PRECISION)
        anchor_W1 = (
            tl.load(
                anchor_W1_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                mask=is_hidden_1[:, None] & is_value[None, :],
                other=0.0,
            )
            if RESUME
            else 0.0
        )
        memory_W1 = tl.load(
            memory_W1_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        # M*: the memory at the last border
        anchor_point_W1 = tl.where(block == 0, anchor_W1, memory_W1) if RESUME else memory_W1
        product_3 = tl.dot((value_2 * product_2).to(DOT), anchor_point_W1.to(DOT), input_precision=PRECISION)
        # pred = f(M*, phi(k))
        predictions = features + product_3
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
        product_4 = tl.dot(errors.to(DOT), tl.trans(anchor_point_W1.to(DOT)), input_precision=PRECISION)
        # the error that reaches the output of W3
        errors_W3 = product_4 * value_2
        product_5 = tl.dot(
            tl.trans((gate_value_2[:, None] * features).to(DOT)),
            errors_W3.to(DOT),
            input_precision=PRECISION,
        )
        gate_value_3 = tl.load(
            gate_value_3_pointer + slot * (ROWS * HALO) + token * HALO + (halo_row + HALO),
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
        product_6 = tl.dot(features_halo.to(DOT), anchor_point_W2.to(DOT), input_precision=PRECISION)
        value_3 = gelu(product_6)
        product_7 = tl.dot(features_halo.to(DOT), anchor_point_W3.to(DOT), input_precision=PRECISION)
        product_8 = tl.dot((value_3 * product_7).to(DOT), anchor_point_W1.to(DOT), input_precision=PRECISION)
        # pred = f(M*, phi(k))
        predictions_halo = features_halo + product_8
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
        product_9 = tl.dot(errors_halo.to(DOT), tl.trans(anchor_point_W1.to(DOT)), input_precision=PRECISION)
        # the error that reaches the output of W3
        errors_W3_halo = product_9 * value_3
        product_10 = tl.dot(
            tl.trans((gate_value_3[:, None] * features_halo).to(DOT)),
            errors_W3_halo.to(DOT),
            input_precision=PRECISION,
        )
        # S_t of every token
        momentum_W3_rows = gate_value_1 * momentum_W3 + product_5 + product_10
        # U_t: the map of S_t
        updates_W3 = newton_schulz(
            momentum_W3_rows,
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
            updates_1_rows_pointer
            + (memory_index * ROWS + token) * (K * D1)
            + feature[:, None] * D1
            + hidden_1[None, :],
            updates_W3,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks", "block"])
def updates_2(
    anchor_W1_pointer,
    anchor_W2_pointer,
    anchor_W3_pointer,
    gate_value_1_pointer,
    gate_value_2_pointer,
    gate_value_3_pointer,
    k_pointer,
    length_pointer,
    memory_W1_blocks_pointer,
    memory_W2_blocks_pointer,
    memory_W3_blocks_pointer,
    momentum_W1_blocks_pointer,
    position_pointer,
    updates_2_rows_pointer,
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
    block,
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
    """The map of each token of one block, by a program of its own."""
    program = tl.program_id(0)
    token = program % ROWS
    memory_index = tl.cast(program // ROWS, tl.int64)
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
    if (token >= first) & (token < last):
        gate_value_1 = tl.load(gate_value_1_pointer + slot * ROWS + token)
        momentum_W1 = tl.load(
            momentum_W1_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        gate_value_2 = tl.load(
            gate_value_2_pointer + slot * (ROWS * ROWS) + token * ROWS + row,
            mask=row < ROWS,
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
        # X = phi(k)
        features = 0.5 * (k * k) + k
        anchor_W2 = (
            tl.load(
                anchor_W2_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                mask=is_feature[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            if RESUME
            else 0.0
        )
        memory_W2 = tl.load(
            memory_W2_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        # M*: the memory at the last border
        anchor_point_W2 = tl.where(block == 0, anchor_W2, memory_W2) if RESUME else memory_W2
        product = tl.dot(features.to(DOT), anchor_point_W2.to(DOT), input_precision=PRECISION)
        anchor_W3 = (
            tl.load(
                anchor_W3_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                mask=is_feature[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            if RESUME
            else 0.0
        )
        memory_W3 = tl.load(
            memory_W3_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        # M*: the memory at the last border
        anchor_point_W3 = tl.where(block == 0, anchor_W3, memory_W3) if RESUME else memory_W3
        product_2 = tl.dot(features.to(DOT), anchor_point_W3.to(DOT), input_precision=PRECISION)
        value_2 = gelu(product) * product_2
        anchor_W1 = (
            tl.load(
                anchor_W1_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                mask=is_hidden_1[:, None] & is_value[None, :],
                other=0.0,
            )
            if RESUME
            else 0.0
        )
        memory_W1 = tl.load(
            memory_W1_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        # M*: the memory at the last border
        anchor_point_W1 = tl.where(block == 0, anchor_W1, memory_W1) if RESUME else memory_W1
        product_3 = tl.dot(value_2.to(DOT), anchor_point_W1.to(DOT), input_precision=PRECISION)
        # pred = f(M*, phi(k))
        predictions = features + product_3
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
            tl.trans((gate_value_2[:, None] * value_2).to(DOT)),
            errors.to(DOT),
            input_precision=PRECISION,
        )
        gate_value_3 = tl.load(
            gate_value_3_pointer + slot * (ROWS * HALO) + token * HALO + (halo_row + HALO),
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
        product_5 = tl.dot(features_halo.to(DOT), anchor_point_W2.to(DOT), input_precision=PRECISION)
        product_6 = tl.dot(features_halo.to(DOT), anchor_point_W3.to(DOT), input_precision=PRECISION)
        value_3 = gelu(product_5) * product_6
        product_7 = tl.dot(value_3.to(DOT), anchor_point_W1.to(DOT), input_precision=PRECISION)
        # pred = f(M*, phi(k))
        predictions_halo = features_halo + product_7
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
        product_8 = tl.dot(
            tl.trans((gate_value_3[:, None] * value_3).to(DOT)),
            errors_halo.to(DOT),
            input_precision=PRECISION,
        )
        # S_t of every token
        momentum_W1_rows = gate_value_1 * momentum_W1 + product_4 + product_8
        # U_t: the map of S_t
        updates_W1 = newton_schulz(
            momentum_W1_rows,
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
            updates_2_rows_pointer
            + (memory_index * ROWS + token) * (D1 * V)
            + hidden_1[:, None] * V
            + value[None, :],
            updates_W1,
            mask=is_hidden_1[:, None] & is_value[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks", "block"])
def forward(
    anchor_W1_final_pointer,
    anchor_W1_pointer,
    anchor_W2_final_pointer,
    anchor_W2_pointer,
    anchor_W3_final_pointer,
    anchor_W3_pointer,
    gate_kept_pointer,
    gate_momentum_kept_pointer,
    gate_momentum_weights_halo_pointer,
    gate_momentum_weights_pointer,
    gate_value_0_pointer,
    gate_value_4_pointer,
    gate_value_6_pointer,
    k_pointer,
    length_pointer,
    memory_W1_blocks_pointer,
    memory_W1_final_pointer,
    memory_W2_blocks_pointer,
    memory_W2_final_pointer,
    memory_W3_blocks_pointer,
    memory_W3_final_pointer,
    momentum_W1_blocks_pointer,
    momentum_W1_final_pointer,
    momentum_W2_blocks_pointer,
    momentum_W2_final_pointer,
    momentum_W3_blocks_pointer,
    momentum_W3_final_pointer,
    origin_W1_pointer,
    origin_W2_pointer,
    origin_W3_pointer,
    position_pointer,
    q_pointer,
    updates_0_rows_pointer,
    updates_1_rows_pointer,
    updates_2_rows_pointer,
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
    block,
    HAS_LENGTH: tl.constexpr,
    RESUME: tl.constexpr,
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
    V: tl.constexpr,
):
    """The reads of one block and the memory after it."""
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
    # decay of S over the block
    momentum_kept = tl.load(gate_momentum_kept_pointer + slot)
    momentum_W1 = tl.load(
        momentum_W1_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    # B_C: last row of D(theta) Gamma
    momentum_weights = tl.load(gate_momentum_weights_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
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
    anchor_W2 = (
        tl.load(
            anchor_W2_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        if RESUME
        else 0.0
    )
    memory_W2 = tl.load(
        memory_W2_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    # M*: the memory at the last border
    anchor_point_W2 = tl.where(block == 0, anchor_W2, memory_W2) if RESUME else memory_W2
    product = tl.dot(features.to(DOT), anchor_point_W2.to(DOT), input_precision=PRECISION)
    value_2 = gelu(product)
    anchor_W3 = (
        tl.load(
            anchor_W3_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        if RESUME
        else 0.0
    )
    memory_W3 = tl.load(
        memory_W3_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    # M*: the memory at the last border
    anchor_point_W3 = tl.where(block == 0, anchor_W3, memory_W3) if RESUME else memory_W3
    product_2 = tl.dot(features.to(DOT), anchor_point_W3.to(DOT), input_precision=PRECISION)
    value_3 = value_2 * product_2
    anchor_W1 = (
        tl.load(
            anchor_W1_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        if RESUME
        else 0.0
    )
    memory_W1 = tl.load(
        memory_W1_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    # M*: the memory at the last border
    anchor_point_W1 = tl.where(block == 0, anchor_W1, memory_W1) if RESUME else memory_W1
    product_3 = tl.dot(value_3.to(DOT), anchor_point_W1.to(DOT), input_precision=PRECISION)
    # pred = f(M*, phi(k))
    predictions = features + product_3
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
        tl.trans((momentum_weights[:, None] * value_3).to(DOT)),
        errors.to(DOT),
        input_precision=PRECISION,
    )
    # B_C: last row of D(theta) Gamma
    momentum_weights_halo = tl.load(
        gate_momentum_weights_halo_pointer + slot * HALO + (halo_row + HALO),
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
    product_5 = tl.dot(features_halo.to(DOT), anchor_point_W2.to(DOT), input_precision=PRECISION)
    value_4 = gelu(product_5)
    product_6 = tl.dot(features_halo.to(DOT), anchor_point_W3.to(DOT), input_precision=PRECISION)
    value_5 = value_4 * product_6
    product_7 = tl.dot(value_5.to(DOT), anchor_point_W1.to(DOT), input_precision=PRECISION)
    # pred = f(M*, phi(k))
    predictions_halo = features_halo + product_7
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
    product_8 = tl.dot(
        tl.trans((momentum_weights_halo[:, None] * value_5).to(DOT)),
        errors_halo.to(DOT),
        input_precision=PRECISION,
    )
    # S at the end of the block
    momentum_next_W1 = momentum_kept * momentum_W1 + product_4 + product_8
    if block + 1 < blocks:
        tl.store(
            momentum_W1_blocks_pointer + (slot + 1) * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            momentum_next_W1,
            mask=is_hidden_1[:, None] & is_value[None, :],
        )
    else:
        if STORE_FINAL:
            tl.store(
                momentum_W1_final_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                momentum_next_W1,
                mask=is_hidden_1[:, None] & is_value[None, :],
            )
    momentum_W2 = tl.load(
        momentum_W2_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    value_6 = momentum_weights[:, None] * features
    product_9 = tl.dot(errors.to(DOT), tl.trans(anchor_point_W1.to(DOT)), input_precision=PRECISION)
    # the error that reaches the output of W2
    errors_W2 = product_9 * product_2 * tl.where(is_hidden_1[None, :], gelu_slope(product), 0.0)
    product_10 = tl.dot(tl.trans(value_6.to(DOT)), errors_W2.to(DOT), input_precision=PRECISION)
    value_7 = momentum_weights_halo[:, None] * features_halo
    product_11 = tl.dot(errors_halo.to(DOT), tl.trans(anchor_point_W1.to(DOT)), input_precision=PRECISION)
    # the error that reaches the output of W2
    errors_W2_halo = product_11 * product_6 * tl.where(is_hidden_1[None, :], gelu_slope(product_5), 0.0)
    product_12 = tl.dot(tl.trans(value_7.to(DOT)), errors_W2_halo.to(DOT), input_precision=PRECISION)
    # S at the end of the block
    momentum_next_W2 = momentum_kept * momentum_W2 + product_10 + product_12
    if block + 1 < blocks:
        tl.store(
            momentum_W2_blocks_pointer + (slot + 1) * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            momentum_next_W2,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
    else:
        if STORE_FINAL:
            tl.store(
                momentum_W2_final_pointer
                + memory_index * (K * D1)
                + feature[:, None] * D1
                + hidden_1[None, :],
                momentum_next_W2,
                mask=is_feature[:, None] & is_hidden_1[None, :],
            )
    momentum_W3 = tl.load(
        momentum_W3_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    # the error that reaches the output of W3
    errors_W3 = product_9 * value_2
    product_13 = tl.dot(tl.trans(value_6.to(DOT)), errors_W3.to(DOT), input_precision=PRECISION)
    # the error that reaches the output of W3
    errors_W3_halo = product_11 * value_4
    product_14 = tl.dot(tl.trans(value_7.to(DOT)), errors_W3_halo.to(DOT), input_precision=PRECISION)
    # S at the end of the block
    momentum_next_W3 = momentum_kept * momentum_W3 + product_13 + product_14
    if block + 1 < blocks:
        tl.store(
            momentum_W3_blocks_pointer + (slot + 1) * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            momentum_next_W3,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
    else:
        if STORE_FINAL:
            tl.store(
                momentum_W3_final_pointer
                + memory_index * (K * D1)
                + feature[:, None] * D1
                + hidden_1[None, :],
                momentum_next_W3,
                mask=is_feature[:, None] & is_hidden_1[None, :],
            )
    if STORE_FINAL:
        if block == open_block:
            tl.store(
                anchor_W1_final_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                anchor_point_W1,
                mask=is_hidden_1[:, None] & is_value[None, :],
            )
    if STORE_FINAL:
        if block == open_block:
            tl.store(
                anchor_W2_final_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                anchor_point_W2,
                mask=is_feature[:, None] & is_hidden_1[None, :],
            )
    if STORE_FINAL:
        if block == open_block:
            tl.store(
                anchor_W3_final_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                anchor_point_W3,
                mask=is_feature[:, None] & is_hidden_1[None, :],
            )
    value_0 = tl.load(gate_value_0_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    q = tl.load(
        q_block + row[:, None] * q_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # phi(q)
    queries = 0.5 * (q * q) + q
    origin_W2 = tl.load(
        origin_W2_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    combined_2 = memory_W2 - origin_W2
    product_15 = tl.dot(queries.to(DOT), combined_2.to(DOT), input_precision=PRECISION)
    product_16 = tl.dot(queries.to(DOT), origin_W2.to(DOT), input_precision=PRECISION)
    combined = value_0[:, None] * product_15 + product_16
    origin_W3 = tl.load(
        origin_W3_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    combined_4 = memory_W3 - origin_W3
    product_17 = tl.dot(queries.to(DOT), combined_4.to(DOT), input_precision=PRECISION)
    product_18 = tl.dot(queries.to(DOT), origin_W3.to(DOT), input_precision=PRECISION)
    combined_3 = value_0[:, None] * product_17 + product_18
    # a_C: decay of the memory over the block
    kept = tl.load(gate_kept_pointer + slot)
    origin_W1 = tl.load(
        origin_W1_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    combined_5 = memory_W1 - origin_W1
    # M at the end
    memory_W1_next = kept * combined_5 + origin_W1
    # M at the end
    memory_W2_next = kept * combined_2 + origin_W2
    # M at the end
    memory_W3_next = kept * combined_4 + origin_W3
    for token in range(first, last):
        gate_value_4 = tl.load(
            gate_value_4_pointer + slot * (ROWS * ROWS) + row * ROWS + token,
            mask=row < ROWS,
            other=0.0,
        )
        # U_t: the map of S_t
        updates_W2 = tl.load(
            updates_0_rows_pointer
            + (memory_index * ROWS + token) * (K * D1)
            + feature[:, None] * D1
            + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        product_19 = tl.dot(queries.to(DOT), updates_W2.to(DOT), input_precision=PRECISION)
        combined -= gate_value_4[:, None] * product_19
        # U_t: the map of S_t
        updates_W3 = tl.load(
            updates_1_rows_pointer
            + (memory_index * ROWS + token) * (K * D1)
            + feature[:, None] * D1
            + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        product_20 = tl.dot(queries.to(DOT), updates_W3.to(DOT), input_precision=PRECISION)
        combined_3 -= gate_value_4[:, None] * product_20
        gate_value_6 = tl.load(gate_value_6_pointer + slot * ROWS + token)
        # U_t: the map of S_t
        updates_W1 = tl.load(
            updates_2_rows_pointer
            + (memory_index * ROWS + token) * (D1 * V)
            + hidden_1[:, None] * V
            + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        memory_W1_next -= gate_value_6 * updates_W1
        memory_W2_next -= gate_value_6 * updates_W2
        memory_W3_next -= gate_value_6 * updates_W3
    if block + 1 < blocks:
        tl.store(
            memory_W1_blocks_pointer + (slot + 1) * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            memory_W1_next,
            mask=is_hidden_1[:, None] & is_value[None, :],
        )
    else:
        if STORE_FINAL:
            tl.store(
                memory_W1_final_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                memory_W1_next,
                mask=is_hidden_1[:, None] & is_value[None, :],
            )
            if open_block >= blocks:
                tl.store(
                    anchor_W1_final_pointer
                    + memory_index * (D1 * V)
                    + hidden_1[:, None] * V
                    + value[None, :],
                    memory_W1_next,
                    mask=is_hidden_1[:, None] & is_value[None, :],
                )
    if block + 1 < blocks:
        tl.store(
            memory_W2_blocks_pointer + (slot + 1) * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            memory_W2_next,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
    else:
        if STORE_FINAL:
            tl.store(
                memory_W2_final_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                memory_W2_next,
                mask=is_feature[:, None] & is_hidden_1[None, :],
            )
            if open_block >= blocks:
                tl.store(
                    anchor_W2_final_pointer
                    + memory_index * (K * D1)
                    + feature[:, None] * D1
                    + hidden_1[None, :],
                    memory_W2_next,
                    mask=is_feature[:, None] & is_hidden_1[None, :],
                )
    if block + 1 < blocks:
        tl.store(
            memory_W3_blocks_pointer + (slot + 1) * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            memory_W3_next,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
    else:
        if STORE_FINAL:
            tl.store(
                memory_W3_final_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                memory_W3_next,
                mask=is_feature[:, None] & is_hidden_1[None, :],
            )
            if open_block >= blocks:
                tl.store(
                    anchor_W3_final_pointer
                    + memory_index * (K * D1)
                    + feature[:, None] * D1
                    + hidden_1[None, :],
                    memory_W3_next,
                    mask=is_feature[:, None] & is_hidden_1[None, :],
                )
    value_8 = gelu(combined) * combined_3
    product_21 = tl.dot(value_8.to(DOT), combined_5.to(DOT), input_precision=PRECISION)
    product_22 = tl.dot(value_8.to(DOT), origin_W1.to(DOT), input_precision=PRECISION)
    combined_6 = value_0[:, None] * product_21 + product_22
    for token in range(first, last):
        gate_value_4_2 = tl.load(
            gate_value_4_pointer + slot * (ROWS * ROWS) + row * ROWS + token,
            mask=row < ROWS,
            other=0.0,
        )
        # U_t: the map of S_t
        updates_W1_2 = tl.load(
            updates_2_rows_pointer
            + (memory_index * ROWS + token) * (D1 * V)
            + hidden_1[:, None] * V
            + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        product_23 = tl.dot(value_8.to(DOT), updates_W1_2.to(DOT), input_precision=PRECISION)
        combined_6 -= gate_value_4_2[:, None] * product_23
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = queries + combined_6
    y_block = y_pointer + (batch * tokens + start) * y_row + head * y_head
    tl.store(y_block + row[:, None] * y_row + value[None, :], reads, mask=live[:, None] & is_value[None, :])


@triton.jit(do_not_specialize=["tokens", "blocks", "block"])
def row_gradients(
    d_y_pointer,
    gate_value_4_pointer,
    length_pointer,
    position_pointer,
    q_pointer,
    rows_0_pointer,
    rows_1_pointer,
    rows_2_pointer,
    updates_0_rows_pointer,
    updates_1_rows_pointer,
    updates_2_rows_pointer,
    d_y_head,
    d_y_row,
    q_head,
    q_row,
    tokens,
    heads,
    blocks,
    block,
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
    """Rows of one block that the gradients of its maps read."""
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
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
    total = tl.zeros([BLOCK_ROWS, BLOCK_D1], dtype=tl.float32)
    total_2 = tl.zeros([BLOCK_ROWS, BLOCK_D1], dtype=tl.float32)
    total_3 = tl.zeros([BLOCK_ROWS, BLOCK_D1], dtype=tl.float32)
    q = tl.load(
        q_block + row[:, None] * q_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # phi(q)
    queries = 0.5 * (q * q) + q
    d_reads = tl.load(
        d_y_block + row[:, None] * d_y_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    for token in range(first, last):
        gate_value_4 = tl.load(
            gate_value_4_pointer + slot * (ROWS * ROWS) + row * ROWS + token,
            mask=row < ROWS,
            other=0.0,
        )
        updates_0_rows = tl.load(
            updates_0_rows_pointer
            + (memory_index * ROWS + token) * (K * D1)
            + feature[:, None] * D1
            + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        product = tl.dot(queries.to(DOT), updates_0_rows.to(DOT), input_precision=PRECISION)
        total += gate_value_4[:, None] * product
        updates_1_rows = tl.load(
            updates_1_rows_pointer
            + (memory_index * ROWS + token) * (K * D1)
            + feature[:, None] * D1
            + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        product_2 = tl.dot(queries.to(DOT), updates_1_rows.to(DOT), input_precision=PRECISION)
        total_2 += gate_value_4[:, None] * product_2
        updates_2_rows = tl.load(
            updates_2_rows_pointer
            + (memory_index * ROWS + token) * (D1 * V)
            + hidden_1[:, None] * V
            + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        product_3 = tl.dot(d_reads.to(DOT), tl.trans(updates_2_rows.to(DOT)), input_precision=PRECISION)
        total_3 += gate_value_4[:, None] * product_3
    tl.store(
        rows_0_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        total,
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
    )
    tl.store(
        rows_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        total_2,
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
    )
    tl.store(
        rows_2_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
        total_3,
        mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks", "block"])
def update_gradients_0(
    anchor_W1_pointer,
    anchor_W2_pointer,
    anchor_W3_pointer,
    d_memory_W1_next_blocks_pointer,
    d_y_pointer,
    gate_value_0_pointer,
    gate_value_1_pointer,
    gate_value_2_pointer,
    gate_value_3_pointer,
    gate_value_4_pointer,
    gate_value_6_pointer,
    k_pointer,
    length_pointer,
    memory_W1_blocks_pointer,
    memory_W2_blocks_pointer,
    memory_W3_blocks_pointer,
    momentum_W1_blocks_pointer,
    origin_W2_pointer,
    origin_W3_pointer,
    position_pointer,
    q_pointer,
    rows_0_pointer,
    rows_1_pointer,
    update_gradients_0_rows_pointer,
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
    block,
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
    """The gradient of the momentum of each token of one block, through its map."""
    program = tl.program_id(0)
    token = program % ROWS
    memory_index = tl.cast(program // ROWS, tl.int64)
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
    d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    if (token >= first) & (token < last):
        gate_value_1 = tl.load(gate_value_1_pointer + slot * ROWS + token)
        momentum_W1 = tl.load(
            momentum_W1_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        gate_value_2 = tl.load(
            gate_value_2_pointer + slot * (ROWS * ROWS) + token * ROWS + row,
            mask=row < ROWS,
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
        # X = phi(k)
        features = 0.5 * (k * k) + k
        anchor_W2 = (
            tl.load(
                anchor_W2_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                mask=is_feature[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            if RESUME
            else 0.0
        )
        memory_W2 = tl.load(
            memory_W2_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        # M*: the memory at the last border
        anchor_point_W2 = tl.where(block == 0, anchor_W2, memory_W2) if RESUME else memory_W2
        product = tl.dot(features.to(DOT), anchor_point_W2.to(DOT), input_precision=PRECISION)
        anchor_W3 = (
            tl.load(
                anchor_W3_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                mask=is_feature[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            if RESUME
            else 0.0
        )
        memory_W3 = tl.load(
            memory_W3_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        # M*: the memory at the last border
        anchor_point_W3 = tl.where(block == 0, anchor_W3, memory_W3) if RESUME else memory_W3
        product_2 = tl.dot(features.to(DOT), anchor_point_W3.to(DOT), input_precision=PRECISION)
        value_2 = gelu(product) * product_2
        anchor_W1 = (
            tl.load(
                anchor_W1_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                mask=is_hidden_1[:, None] & is_value[None, :],
                other=0.0,
            )
            if RESUME
            else 0.0
        )
        memory_W1 = tl.load(
            memory_W1_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        # M*: the memory at the last border
        anchor_point_W1 = tl.where(block == 0, anchor_W1, memory_W1) if RESUME else memory_W1
        product_3 = tl.dot(value_2.to(DOT), anchor_point_W1.to(DOT), input_precision=PRECISION)
        # pred = f(M*, phi(k))
        predictions = features + product_3
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
            tl.trans((gate_value_2[:, None] * value_2).to(DOT)),
            errors.to(DOT),
            input_precision=PRECISION,
        )
        gate_value_3 = tl.load(
            gate_value_3_pointer + slot * (ROWS * HALO) + token * HALO + (halo_row + HALO),
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
        product_5 = tl.dot(features_halo.to(DOT), anchor_point_W2.to(DOT), input_precision=PRECISION)
        product_6 = tl.dot(features_halo.to(DOT), anchor_point_W3.to(DOT), input_precision=PRECISION)
        value_3 = gelu(product_5) * product_6
        product_7 = tl.dot(value_3.to(DOT), anchor_point_W1.to(DOT), input_precision=PRECISION)
        # pred = f(M*, phi(k))
        predictions_halo = features_halo + product_7
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
        product_8 = tl.dot(
            tl.trans((gate_value_3[:, None] * value_3).to(DOT)),
            errors_halo.to(DOT),
            input_precision=PRECISION,
        )
        # S_t of every token
        momentum_W1_rows = gate_value_1 * momentum_W1 + product_4 + product_8
        d_memory_W1_next = tl.load(
            d_memory_W1_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        gate_value_6 = tl.load(gate_value_6_pointer + slot * ROWS + token)
        d_reads = tl.load(
            d_y_block + row[:, None] * d_y_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        gate_value_4 = tl.load(
            gate_value_4_pointer + slot * (ROWS * ROWS) + row * ROWS + token,
            mask=row < ROWS,
            other=0.0,
        )
        value_0 = tl.load(gate_value_0_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
        q = tl.load(
            q_block + row[:, None] * q_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        # phi(q)
        queries = 0.5 * (q * q) + q
        origin_W2 = tl.load(
            origin_W2_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        product_9 = tl.dot(queries.to(DOT), (memory_W2 - origin_W2).to(DOT), input_precision=PRECISION)
        product_10 = tl.dot(queries.to(DOT), origin_W2.to(DOT), input_precision=PRECISION)
        rows_0 = tl.load(
            rows_0_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        origin_W3 = tl.load(
            origin_W3_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        product_11 = tl.dot(queries.to(DOT), (memory_W3 - origin_W3).to(DOT), input_precision=PRECISION)
        product_12 = tl.dot(queries.to(DOT), origin_W3.to(DOT), input_precision=PRECISION)
        rows_1 = tl.load(
            rows_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        value_4 = gelu(value_0[:, None] * product_9 + product_10 - rows_0) * (
            value_0[:, None] * product_11 + product_12 - rows_1
        )
        product_13 = tl.dot(
            tl.trans(value_4.to(DOT)),
            (d_reads * gate_value_4[:, None]).to(DOT),
            input_precision=PRECISION,
        )
        d_updates_W1 = -(d_memory_W1_next * gate_value_6) - product_13
        d_momentum_W1_rows = newton_schulz_gradient(
            momentum_W1_rows,
            d_updates_W1,
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
            update_gradients_0_rows_pointer
            + (memory_index * ROWS + token) * (D1 * V)
            + hidden_1[:, None] * V
            + value[None, :],
            d_momentum_W1_rows,
            mask=is_hidden_1[:, None] & is_value[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks", "block"])
def update_gradients_1(
    anchor_W1_pointer,
    anchor_W2_pointer,
    anchor_W3_pointer,
    d_memory_W3_next_blocks_pointer,
    d_y_pointer,
    gate_value_0_pointer,
    gate_value_1_pointer,
    gate_value_2_pointer,
    gate_value_3_pointer,
    gate_value_4_pointer,
    gate_value_6_pointer,
    k_pointer,
    length_pointer,
    memory_W1_blocks_pointer,
    memory_W2_blocks_pointer,
    memory_W3_blocks_pointer,
    momentum_W3_blocks_pointer,
    origin_W1_pointer,
    origin_W2_pointer,
    position_pointer,
    q_pointer,
    rows_0_pointer,
    rows_2_pointer,
    update_gradients_1_rows_pointer,
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
    block,
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
    """The gradient of the momentum of each token of one block, through its map."""
    program = tl.program_id(0)
    token = program % ROWS
    memory_index = tl.cast(program // ROWS, tl.int64)
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
    d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    if (token >= first) & (token < last):
        gate_value_1 = tl.load(gate_value_1_pointer + slot * ROWS + token)
        momentum_W3 = tl.load(
            momentum_W3_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        gate_value_2 = tl.load(
            gate_value_2_pointer + slot * (ROWS * ROWS) + token * ROWS + row,
            mask=row < ROWS,
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
        # X = phi(k)
        features = 0.5 * (k * k) + k
        anchor_W2 = (
            tl.load(
                anchor_W2_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                mask=is_feature[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            if RESUME
            else 0.0
        )
        memory_W2 = tl.load(
            memory_W2_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        # M*: the memory at the last border
        anchor_point_W2 = tl.where(block == 0, anchor_W2, memory_W2) if RESUME else memory_W2
        product = tl.dot(features.to(DOT), anchor_point_W2.to(DOT), input_precision=PRECISION)
        value_2 = gelu(product)
        anchor_W3 = (
            tl.load(
                anchor_W3_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                mask=is_feature[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            if RESUME
            else 0.0
        )
        memory_W3 = tl.load(
            memory_W3_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        # M*: the memory at the last border
        anchor_point_W3 = tl.where(block == 0, anchor_W3, memory_W3) if RESUME else memory_W3
        product_2 = tl.dot(features.to(DOT), anchor_point_W3.to(DOT), input_precision=PRECISION)
        anchor_W1 = (
            tl.load(
                anchor_W1_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                mask=is_hidden_1[:, None] & is_value[None, :],
                other=0.0,
            )
            if RESUME
            else 0.0
        )
        memory_W1 = tl.load(
            memory_W1_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        # M*: the memory at the last border
        anchor_point_W1 = tl.where(block == 0, anchor_W1, memory_W1) if RESUME else memory_W1
        product_3 = tl.dot((value_2 * product_2).to(DOT), anchor_point_W1.to(DOT), input_precision=PRECISION)
        # pred = f(M*, phi(k))
        predictions = features + product_3
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
        product_4 = tl.dot(errors.to(DOT), tl.trans(anchor_point_W1.to(DOT)), input_precision=PRECISION)
        # the error that reaches the output of W3
        errors_W3 = product_4 * value_2
        product_5 = tl.dot(
            tl.trans((gate_value_2[:, None] * features).to(DOT)),
            errors_W3.to(DOT),
            input_precision=PRECISION,
        )
        gate_value_3 = tl.load(
            gate_value_3_pointer + slot * (ROWS * HALO) + token * HALO + (halo_row + HALO),
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
        product_6 = tl.dot(features_halo.to(DOT), anchor_point_W2.to(DOT), input_precision=PRECISION)
        value_3 = gelu(product_6)
        product_7 = tl.dot(features_halo.to(DOT), anchor_point_W3.to(DOT), input_precision=PRECISION)
        product_8 = tl.dot((value_3 * product_7).to(DOT), anchor_point_W1.to(DOT), input_precision=PRECISION)
        # pred = f(M*, phi(k))
        predictions_halo = features_halo + product_8
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
        product_9 = tl.dot(errors_halo.to(DOT), tl.trans(anchor_point_W1.to(DOT)), input_precision=PRECISION)
        # the error that reaches the output of W3
        errors_W3_halo = product_9 * value_3
        product_10 = tl.dot(
            tl.trans((gate_value_3[:, None] * features_halo).to(DOT)),
            errors_W3_halo.to(DOT),
            input_precision=PRECISION,
        )
        # S_t of every token
        momentum_W3_rows = gate_value_1 * momentum_W3 + product_5 + product_10
        d_memory_W3_next = tl.load(
            d_memory_W3_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        gate_value_6 = tl.load(gate_value_6_pointer + slot * ROWS + token)
        value_0 = tl.load(gate_value_0_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
        d_reads = tl.load(
            d_y_block + row[:, None] * d_y_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        origin_W1 = tl.load(
            origin_W1_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        product_11 = tl.dot(
            d_reads.to(DOT),
            tl.trans((memory_W1 - origin_W1).to(DOT)),
            input_precision=PRECISION,
        )
        product_12 = tl.dot(d_reads.to(DOT), tl.trans(origin_W1.to(DOT)), input_precision=PRECISION)
        rows_2 = tl.load(
            rows_2_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        q = tl.load(
            q_block + row[:, None] * q_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        # phi(q)
        queries = 0.5 * (q * q) + q
        origin_W2 = tl.load(
            origin_W2_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        product_13 = tl.dot(queries.to(DOT), (memory_W2 - origin_W2).to(DOT), input_precision=PRECISION)
        product_14 = tl.dot(queries.to(DOT), origin_W2.to(DOT), input_precision=PRECISION)
        rows_0 = tl.load(
            rows_0_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        value_4 = gelu(value_0[:, None] * product_13 + product_14 - rows_0)
        value_5 = (value_0[:, None] * product_11 + product_12 - rows_2) * value_4
        gate_value_4 = tl.load(
            gate_value_4_pointer + slot * (ROWS * ROWS) + row * ROWS + token,
            mask=row < ROWS,
            other=0.0,
        )
        product_15 = tl.dot(
            tl.trans(queries.to(DOT)),
            (value_5 * gate_value_4[:, None]).to(DOT),
            input_precision=PRECISION,
        )
        d_updates_W3 = -(d_memory_W3_next * gate_value_6) - product_15
        d_momentum_W3_rows = newton_schulz_gradient(
            momentum_W3_rows,
            d_updates_W3,
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
            update_gradients_1_rows_pointer
            + (memory_index * ROWS + token) * (K * D1)
            + feature[:, None] * D1
            + hidden_1[None, :],
            d_momentum_W3_rows,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks", "block"])
def update_gradients_2(
    anchor_W1_pointer,
    anchor_W2_pointer,
    anchor_W3_pointer,
    d_memory_W2_next_blocks_pointer,
    d_y_pointer,
    gate_value_0_pointer,
    gate_value_1_pointer,
    gate_value_2_pointer,
    gate_value_3_pointer,
    gate_value_4_pointer,
    gate_value_6_pointer,
    k_pointer,
    length_pointer,
    memory_W1_blocks_pointer,
    memory_W2_blocks_pointer,
    memory_W3_blocks_pointer,
    momentum_W2_blocks_pointer,
    origin_W1_pointer,
    origin_W2_pointer,
    origin_W3_pointer,
    position_pointer,
    q_pointer,
    rows_0_pointer,
    rows_1_pointer,
    rows_2_pointer,
    update_gradients_2_rows_pointer,
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
    block,
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
    """The gradient of the momentum of each token of one block, through its map."""
    program = tl.program_id(0)
    token = program % ROWS
    memory_index = tl.cast(program // ROWS, tl.int64)
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
    d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    if (token >= first) & (token < last):
        gate_value_1 = tl.load(gate_value_1_pointer + slot * ROWS + token)
        momentum_W2 = tl.load(
            momentum_W2_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        gate_value_2 = tl.load(
            gate_value_2_pointer + slot * (ROWS * ROWS) + token * ROWS + row,
            mask=row < ROWS,
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
        # X = phi(k)
        features = 0.5 * (k * k) + k
        anchor_W2 = (
            tl.load(
                anchor_W2_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                mask=is_feature[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            if RESUME
            else 0.0
        )
        memory_W2 = tl.load(
            memory_W2_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        # M*: the memory at the last border
        anchor_point_W2 = tl.where(block == 0, anchor_W2, memory_W2) if RESUME else memory_W2
        product = tl.dot(features.to(DOT), anchor_point_W2.to(DOT), input_precision=PRECISION)
        anchor_W3 = (
            tl.load(
                anchor_W3_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                mask=is_feature[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
            if RESUME
            else 0.0
        )
        memory_W3 = tl.load(
            memory_W3_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        # M*: the memory at the last border
        anchor_point_W3 = tl.where(block == 0, anchor_W3, memory_W3) if RESUME else memory_W3
        product_2 = tl.dot(features.to(DOT), anchor_point_W3.to(DOT), input_precision=PRECISION)
        anchor_W1 = (
            tl.load(
                anchor_W1_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                mask=is_hidden_1[:, None] & is_value[None, :],
                other=0.0,
            )
            if RESUME
            else 0.0
        )
        memory_W1 = tl.load(
            memory_W1_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        # M*: the memory at the last border
        anchor_point_W1 = tl.where(block == 0, anchor_W1, memory_W1) if RESUME else memory_W1
        product_3 = tl.dot(
            (gelu(product) * product_2).to(DOT),
            anchor_point_W1.to(DOT),
            input_precision=PRECISION,
        )
        # pred = f(M*, phi(k))
        predictions = features + product_3
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
        product_4 = tl.dot(errors.to(DOT), tl.trans(anchor_point_W1.to(DOT)), input_precision=PRECISION)
        # the error that reaches the output of W2
        errors_W2 = product_4 * product_2 * tl.where(is_hidden_1[None, :], gelu_slope(product), 0.0)
        product_5 = tl.dot(
            tl.trans((gate_value_2[:, None] * features).to(DOT)),
            errors_W2.to(DOT),
            input_precision=PRECISION,
        )
        gate_value_3 = tl.load(
            gate_value_3_pointer + slot * (ROWS * HALO) + token * HALO + (halo_row + HALO),
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
        product_6 = tl.dot(features_halo.to(DOT), anchor_point_W2.to(DOT), input_precision=PRECISION)
        product_7 = tl.dot(features_halo.to(DOT), anchor_point_W3.to(DOT), input_precision=PRECISION)
        product_8 = tl.dot(
            (gelu(product_6) * product_7).to(DOT),
            anchor_point_W1.to(DOT),
            input_precision=PRECISION,
        )
        # pred = f(M*, phi(k))
        predictions_halo = features_halo + product_8
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
        product_9 = tl.dot(errors_halo.to(DOT), tl.trans(anchor_point_W1.to(DOT)), input_precision=PRECISION)
        # the error that reaches the output of W2
        errors_W2_halo = product_9 * product_7 * tl.where(is_hidden_1[None, :], gelu_slope(product_6), 0.0)
        product_10 = tl.dot(
            tl.trans((gate_value_3[:, None] * features_halo).to(DOT)),
            errors_W2_halo.to(DOT),
            input_precision=PRECISION,
        )
        # S_t of every token
        momentum_W2_rows = gate_value_1 * momentum_W2 + product_5 + product_10
        d_memory_W2_next = tl.load(
            d_memory_W2_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        gate_value_6 = tl.load(gate_value_6_pointer + slot * ROWS + token)
        value_0 = tl.load(gate_value_0_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
        d_reads = tl.load(
            d_y_block + row[:, None] * d_y_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        origin_W1 = tl.load(
            origin_W1_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        product_11 = tl.dot(
            d_reads.to(DOT),
            tl.trans((memory_W1 - origin_W1).to(DOT)),
            input_precision=PRECISION,
        )
        product_12 = tl.dot(d_reads.to(DOT), tl.trans(origin_W1.to(DOT)), input_precision=PRECISION)
        rows_2 = tl.load(
            rows_2_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        q = tl.load(
            q_block + row[:, None] * q_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        # phi(q)
        queries = 0.5 * (q * q) + q
        origin_W3 = tl.load(
            origin_W3_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        product_13 = tl.dot(queries.to(DOT), (memory_W3 - origin_W3).to(DOT), input_precision=PRECISION)
        product_14 = tl.dot(queries.to(DOT), origin_W3.to(DOT), input_precision=PRECISION)
        rows_1 = tl.load(
            rows_1_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        value_2 = (value_0[:, None] * product_11 + product_12 - rows_2) * (
            value_0[:, None] * product_13 + product_14 - rows_1
        )
        origin_W2 = tl.load(
            origin_W2_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        product_15 = tl.dot(queries.to(DOT), (memory_W2 - origin_W2).to(DOT), input_precision=PRECISION)
        product_16 = tl.dot(queries.to(DOT), origin_W2.to(DOT), input_precision=PRECISION)
        rows_0 = tl.load(
            rows_0_pointer + slot * (ROWS * D1) + row[:, None] * D1 + hidden_1[None, :],
            mask=(row < ROWS)[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        value_3 = tl.where(
            is_hidden_1[None, :],
            gelu_slope(value_0[:, None] * product_15 + product_16 - rows_0),
            0.0,
        )
        gate_value_4 = tl.load(
            gate_value_4_pointer + slot * (ROWS * ROWS) + row * ROWS + token,
            mask=row < ROWS,
            other=0.0,
        )
        product_17 = tl.dot(
            tl.trans(queries.to(DOT)),
            (value_2 * value_3 * gate_value_4[:, None]).to(DOT),
            input_precision=PRECISION,
        )
        d_updates_W2 = -(d_memory_W2_next * gate_value_6) - product_17
        d_momentum_W2_rows = newton_schulz_gradient(
            momentum_W2_rows,
            d_updates_W2,
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
            update_gradients_2_rows_pointer
            + (memory_index * ROWS + token) * (K * D1)
            + feature[:, None] * D1
            + hidden_1[None, :],
            d_momentum_W2_rows,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks", "block"])
def backward(
    anchor_W1_pointer,
    anchor_W2_pointer,
    anchor_W3_pointer,
    d_anchor_W1_final_pointer,
    d_anchor_W1_pointer,
    d_anchor_W2_final_pointer,
    d_anchor_W2_pointer,
    d_anchor_W3_final_pointer,
    d_anchor_W3_pointer,
    d_gate_kept_pointer,
    d_gate_momentum_kept_pointer,
    d_gate_momentum_weights_halo_pointer,
    d_gate_momentum_weights_pointer,
    d_gate_value_0_pointer,
    d_gate_value_1_pointer,
    d_gate_value_2_pointer,
    d_gate_value_3_pointer,
    d_gate_value_4_pointer,
    d_gate_value_6_pointer,
    d_k_halo_pointer,
    d_k_pointer,
    d_memory_W1_next_blocks_pointer,
    d_memory_W1_pointer,
    d_memory_W2_next_blocks_pointer,
    d_memory_W2_pointer,
    d_memory_W3_next_blocks_pointer,
    d_memory_W3_pointer,
    d_momentum_W1_next_blocks_pointer,
    d_momentum_W1_pointer,
    d_momentum_W2_next_blocks_pointer,
    d_momentum_W2_pointer,
    d_momentum_W3_next_blocks_pointer,
    d_momentum_W3_pointer,
    d_origin_W1_pointer,
    d_origin_W2_pointer,
    d_origin_W3_pointer,
    d_q_pointer,
    d_v_halo_pointer,
    d_v_pointer,
    d_window_k_pointer,
    d_window_v_pointer,
    d_y_pointer,
    gate_kept_pointer,
    gate_momentum_kept_pointer,
    gate_momentum_weights_halo_pointer,
    gate_momentum_weights_pointer,
    gate_value_0_pointer,
    gate_value_1_pointer,
    gate_value_2_pointer,
    gate_value_3_pointer,
    gate_value_4_pointer,
    k_pointer,
    length_pointer,
    memory_W1_blocks_pointer,
    memory_W2_blocks_pointer,
    memory_W3_blocks_pointer,
    momentum_W1_blocks_pointer,
    momentum_W2_blocks_pointer,
    momentum_W3_blocks_pointer,
    origin_W1_pointer,
    origin_W2_pointer,
    origin_W3_pointer,
    position_pointer,
    q_pointer,
    update_gradients_0_rows_pointer,
    update_gradients_1_rows_pointer,
    update_gradients_2_rows_pointer,
    updates_0_rows_pointer,
    updates_1_rows_pointer,
    updates_2_rows_pointer,
    v_pointer,
    window_k_pointer,
    window_v_pointer,
    d_k_head,
    d_k_row,
    d_q_head,
    d_q_row,
    d_v_head,
    d_v_row,
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
    block,
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
    V: tl.constexpr,
):
    """The gradients of one block's rows, and of the memory before it."""
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
    step = blocks - 1 - block
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
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    d_memory_W3_next = tl.load(
        d_memory_W3_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    memory_W3 = tl.load(
        memory_W3_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    origin_W3 = tl.load(
        origin_W3_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    combined = memory_W3 - origin_W3
    d_memory_W2_next = tl.load(
        d_memory_W2_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    memory_W2 = tl.load(
        memory_W2_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    origin_W2 = tl.load(
        origin_W2_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    combined_2 = memory_W2 - origin_W2
    d_memory_W1_next = tl.load(
        d_memory_W1_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    memory_W1 = tl.load(
        memory_W1_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    origin_W1 = tl.load(
        origin_W1_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    combined_3 = memory_W1 - origin_W1
    d_kept = (
        tl.sum(tl.sum(d_memory_W3_next * combined, 0), 0)
        + tl.sum(tl.sum(d_memory_W2_next * combined_2, 0), 0)
        + tl.sum(tl.sum(d_memory_W1_next * combined_3, 0), 0)
    )
    tl.store(d_gate_kept_pointer + slot, d_kept)
    d_momentum_next_W3 = tl.load(
        d_momentum_W3_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    momentum_W3 = tl.load(
        momentum_W3_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    d_momentum_next_W2 = tl.load(
        d_momentum_W2_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    momentum_W2 = tl.load(
        momentum_W2_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    d_momentum_next_W1 = tl.load(
        d_momentum_W1_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    momentum_W1 = tl.load(
        momentum_W1_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    d_momentum_kept = (
        tl.sum(tl.sum(d_momentum_next_W3 * momentum_W3, 0), 0)
        + tl.sum(tl.sum(d_momentum_next_W2 * momentum_W2, 0), 0)
        + tl.sum(tl.sum(d_momentum_next_W1 * momentum_W1, 0), 0)
    )
    tl.store(d_gate_momentum_kept_pointer + slot, d_momentum_kept)
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
    anchor_W2 = (
        tl.load(
            anchor_W2_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        if RESUME
        else 0.0
    )
    # M*: the memory at the last border
    anchor_point_W2 = tl.where(block == 0, anchor_W2, memory_W2) if RESUME else memory_W2
    product = tl.dot(features.to(DOT), anchor_point_W2.to(DOT), input_precision=PRECISION)
    value_2 = gelu(product)
    anchor_W3 = (
        tl.load(
            anchor_W3_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        if RESUME
        else 0.0
    )
    # M*: the memory at the last border
    anchor_point_W3 = tl.where(block == 0, anchor_W3, memory_W3) if RESUME else memory_W3
    product_2 = tl.dot(features.to(DOT), anchor_point_W3.to(DOT), input_precision=PRECISION)
    value_3 = value_2 * product_2
    anchor_W1 = (
        tl.load(
            anchor_W1_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        if RESUME
        else 0.0
    )
    # M*: the memory at the last border
    anchor_point_W1 = tl.where(block == 0, anchor_W1, memory_W1) if RESUME else memory_W1
    product_3 = tl.dot(value_3.to(DOT), anchor_point_W1.to(DOT), input_precision=PRECISION)
    # pred = f(M*, phi(k))
    predictions = features + product_3
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
    product_4 = tl.dot(errors.to(DOT), tl.trans(anchor_point_W1.to(DOT)), input_precision=PRECISION)
    # the error that reaches the output of W3
    errors_W3 = product_4 * value_2
    product_5 = tl.dot(errors_W3.to(DOT), tl.trans(d_momentum_next_W3.to(DOT)), input_precision=PRECISION)
    value_4 = product_4 * product_2
    value_5 = tl.where(is_hidden_1[None, :], gelu_slope(product), 0.0)
    # the error that reaches the output of W2
    errors_W2 = value_4 * value_5
    product_6 = tl.dot(errors_W2.to(DOT), tl.trans(d_momentum_next_W2.to(DOT)), input_precision=PRECISION)
    combined_4 = product_5 + product_6
    product_7 = tl.dot(errors.to(DOT), tl.trans(d_momentum_next_W1.to(DOT)), input_precision=PRECISION)
    d_momentum_weights = tl.sum(combined_4 * features, 1) + tl.sum(product_7 * value_3, 1)
    tl.store(d_gate_momentum_weights_pointer + slot * ROWS + row, d_momentum_weights, mask=row < ROWS)
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
    product_8 = tl.dot(features_halo.to(DOT), anchor_point_W2.to(DOT), input_precision=PRECISION)
    value_6 = gelu(product_8)
    product_9 = tl.dot(features_halo.to(DOT), anchor_point_W3.to(DOT), input_precision=PRECISION)
    value_7 = value_6 * product_9
    product_10 = tl.dot(value_7.to(DOT), anchor_point_W1.to(DOT), input_precision=PRECISION)
    # pred = f(M*, phi(k))
    predictions_halo = features_halo + product_10
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
    product_11 = tl.dot(errors_halo.to(DOT), tl.trans(anchor_point_W1.to(DOT)), input_precision=PRECISION)
    # the error that reaches the output of W3
    errors_W3_halo = product_11 * value_6
    product_12 = tl.dot(
        errors_W3_halo.to(DOT),
        tl.trans(d_momentum_next_W3.to(DOT)),
        input_precision=PRECISION,
    )
    value_8 = product_11 * product_9
    value_9 = tl.where(is_hidden_1[None, :], gelu_slope(product_8), 0.0)
    # the error that reaches the output of W2
    errors_W2_halo = value_8 * value_9
    product_13 = tl.dot(
        errors_W2_halo.to(DOT),
        tl.trans(d_momentum_next_W2.to(DOT)),
        input_precision=PRECISION,
    )
    combined_5 = product_12 + product_13
    product_14 = tl.dot(errors_halo.to(DOT), tl.trans(d_momentum_next_W1.to(DOT)), input_precision=PRECISION)
    d_momentum_weights_halo = tl.sum(combined_5 * features_halo, 1) + tl.sum(product_14 * value_7, 1)
    tl.store(
        d_gate_momentum_weights_halo_pointer + slot * HALO + (halo_row + HALO),
        d_momentum_weights_halo,
        mask=halo_row < 0,
    )
    value_0 = tl.load(gate_value_0_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    d_reads = tl.load(
        d_y_block + row[:, None] * d_y_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    product_15 = tl.dot(d_reads.to(DOT), tl.trans(combined_3.to(DOT)), input_precision=PRECISION)
    product_16 = tl.dot(d_reads.to(DOT), tl.trans(origin_W1.to(DOT)), input_precision=PRECISION)
    combined_6 = value_0[:, None] * product_15 + product_16
    q = tl.load(
        q_block + row[:, None] * q_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # phi(q)
    queries = 0.5 * (q * q) + q
    product_17 = tl.dot(queries.to(DOT), combined_2.to(DOT), input_precision=PRECISION)
    product_18 = tl.dot(queries.to(DOT), origin_W2.to(DOT), input_precision=PRECISION)
    combined_7 = value_0[:, None] * product_17 + product_18
    product_19 = tl.dot(queries.to(DOT), combined.to(DOT), input_precision=PRECISION)
    product_20 = tl.dot(queries.to(DOT), origin_W3.to(DOT), input_precision=PRECISION)
    combined_8 = value_0[:, None] * product_19 + product_20
    # B_C: last row of D(theta) Gamma
    momentum_weights = tl.load(gate_momentum_weights_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    value_10 = momentum_weights[:, None] * features
    product_21 = tl.dot(value_10.to(DOT), d_momentum_next_W2.to(DOT), input_precision=PRECISION)
    d_errors_W2 = product_21
    product_22 = tl.dot(value_10.to(DOT), d_momentum_next_W3.to(DOT), input_precision=PRECISION)
    d_errors_W3 = product_22
    # B_C: last row of D(theta) Gamma
    momentum_weights_halo = tl.load(
        gate_momentum_weights_halo_pointer + slot * HALO + (halo_row + HALO),
        mask=halo_row < 0,
        other=0.0,
    )
    value_11 = momentum_weights_halo[:, None] * features_halo
    product_23 = tl.dot(value_11.to(DOT), d_momentum_next_W2.to(DOT), input_precision=PRECISION)
    d_errors_W2_halo = product_23
    product_24 = tl.dot(value_11.to(DOT), d_momentum_next_W3.to(DOT), input_precision=PRECISION)
    d_errors_W3_halo = product_24
    # decay of S over the block
    momentum_kept = tl.load(gate_momentum_kept_pointer + slot)
    combined_9 = d_momentum_next_W1 * momentum_kept
    combined_10 = d_momentum_next_W2 * momentum_kept
    combined_11 = d_momentum_next_W3 * momentum_kept
    total = tl.zeros([BLOCK_ROWS, BLOCK_D1], dtype=tl.float32)
    total_2 = tl.zeros([BLOCK_ROWS, BLOCK_V], dtype=tl.float32)
    total_3 = tl.zeros([BLOCK_ROWS, BLOCK_K], dtype=tl.float32)
    total_4 = tl.zeros([BLOCK_HALO, BLOCK_D1], dtype=tl.float32)
    total_5 = tl.zeros([BLOCK_HALO, BLOCK_V], dtype=tl.float32)
    total_6 = tl.zeros([BLOCK_HALO, BLOCK_K], dtype=tl.float32)
    for token in range(first, last):
        gate_value_4 = tl.load(
            gate_value_4_pointer + slot * (ROWS * ROWS) + row * ROWS + token,
            mask=row < ROWS,
            other=0.0,
        )
        # U_t: the map of S_t
        updates_W1 = tl.load(
            updates_2_rows_pointer
            + (memory_index * ROWS + token) * (D1 * V)
            + hidden_1[:, None] * V
            + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        product_25 = tl.dot(d_reads.to(DOT), tl.trans(updates_W1.to(DOT)), input_precision=PRECISION)
        combined_6 -= gate_value_4[:, None] * product_25
        # U_t: the map of S_t
        updates_W2 = tl.load(
            updates_0_rows_pointer
            + (memory_index * ROWS + token) * (K * D1)
            + feature[:, None] * D1
            + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        product_26 = tl.dot(queries.to(DOT), updates_W2.to(DOT), input_precision=PRECISION)
        combined_7 -= gate_value_4[:, None] * product_26
        # U_t: the map of S_t
        updates_W3 = tl.load(
            updates_1_rows_pointer
            + (memory_index * ROWS + token) * (K * D1)
            + feature[:, None] * D1
            + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        product_27 = tl.dot(queries.to(DOT), updates_W3.to(DOT), input_precision=PRECISION)
        combined_8 -= gate_value_4[:, None] * product_27
        d_momentum_W2_rows = tl.load(
            update_gradients_2_rows_pointer
            + (memory_index * ROWS + token) * (K * D1)
            + feature[:, None] * D1
            + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        gate_value_2 = tl.load(
            gate_value_2_pointer + slot * (ROWS * ROWS) + token * ROWS + row,
            mask=row < ROWS,
            other=0.0,
        )
        value_12 = gate_value_2[:, None] * features
        product_28 = tl.dot(value_12.to(DOT), d_momentum_W2_rows.to(DOT), input_precision=PRECISION)
        d_errors_W2 += product_28
        d_momentum_W3_rows = tl.load(
            update_gradients_1_rows_pointer
            + (memory_index * ROWS + token) * (K * D1)
            + feature[:, None] * D1
            + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        product_29 = tl.dot(value_12.to(DOT), d_momentum_W3_rows.to(DOT), input_precision=PRECISION)
        d_errors_W3 += product_29
        gate_value_3 = tl.load(
            gate_value_3_pointer + slot * (ROWS * HALO) + token * HALO + (halo_row + HALO),
            mask=halo_row < 0,
            other=0.0,
        )
        value_13 = gate_value_3[:, None] * features_halo
        product_30 = tl.dot(value_13.to(DOT), d_momentum_W2_rows.to(DOT), input_precision=PRECISION)
        d_errors_W2_halo += product_30
        product_31 = tl.dot(value_13.to(DOT), d_momentum_W3_rows.to(DOT), input_precision=PRECISION)
        d_errors_W3_halo += product_31
        d_momentum_W1_rows = tl.load(
            update_gradients_0_rows_pointer
            + (memory_index * ROWS + token) * (D1 * V)
            + hidden_1[:, None] * V
            + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        gate_value_1 = tl.load(gate_value_1_pointer + slot * ROWS + token)
        combined_9 += d_momentum_W1_rows * gate_value_1
        combined_10 += d_momentum_W2_rows * gate_value_1
        combined_11 += d_momentum_W3_rows * gate_value_1
        product_32 = tl.dot(errors.to(DOT), tl.trans(d_momentum_W1_rows.to(DOT)), input_precision=PRECISION)
        total += product_32 * gate_value_2[:, None]
        product_33 = tl.dot(
            (gate_value_2[:, None] * value_3).to(DOT),
            d_momentum_W1_rows.to(DOT),
            input_precision=PRECISION,
        )
        total_2 += product_33
        product_34 = tl.dot(
            errors_W3.to(DOT),
            tl.trans(d_momentum_W3_rows.to(DOT)),
            input_precision=PRECISION,
        )
        product_35 = tl.dot(
            errors_W2.to(DOT),
            tl.trans(d_momentum_W2_rows.to(DOT)),
            input_precision=PRECISION,
        )
        combined_12 = product_34 + product_35
        total_3 += combined_12 * gate_value_2[:, None]
        product_36 = tl.dot(
            errors_halo.to(DOT),
            tl.trans(d_momentum_W1_rows.to(DOT)),
            input_precision=PRECISION,
        )
        total_4 += product_36 * gate_value_3[:, None]
        product_37 = tl.dot(
            (gate_value_3[:, None] * value_7).to(DOT),
            d_momentum_W1_rows.to(DOT),
            input_precision=PRECISION,
        )
        total_5 += product_37
        product_38 = tl.dot(
            errors_W3_halo.to(DOT),
            tl.trans(d_momentum_W3_rows.to(DOT)),
            input_precision=PRECISION,
        )
        product_39 = tl.dot(
            errors_W2_halo.to(DOT),
            tl.trans(d_momentum_W2_rows.to(DOT)),
            input_precision=PRECISION,
        )
        combined_13 = product_38 + product_39
        total_6 += combined_13 * gate_value_3[:, None]
        combined_14 = (
            tl.sum(tl.sum(d_momentum_W1_rows * momentum_W1, 0), 0)
            + tl.sum(tl.sum(d_momentum_W3_rows * momentum_W3, 0), 0)
            + tl.sum(tl.sum(d_momentum_W2_rows * momentum_W2, 0), 0)
        )
        tl.store(d_gate_value_1_pointer + slot * ROWS + token, combined_14)
        combined_15 = tl.sum(product_32 * value_3, 1) + tl.sum(combined_12 * features, 1)
        tl.store(
            d_gate_value_2_pointer + slot * (ROWS * ROWS) + token * ROWS + row,
            combined_15,
            mask=row < ROWS,
        )
        combined_16 = tl.sum(product_36 * value_7, 1) + tl.sum(combined_13 * features_halo, 1)
        tl.store(
            d_gate_value_3_pointer + slot * (ROWS * HALO) + token * HALO + (halo_row + HALO),
            combined_16,
            mask=halo_row < 0,
        )
        combined_17 = (
            -tl.sum(tl.sum(d_memory_W3_next * updates_W3, 0), 0)
            - tl.sum(tl.sum(d_memory_W2_next * updates_W2, 0), 0)
            - tl.sum(tl.sum(d_memory_W1_next * updates_W1, 0), 0)
        )
        tl.store(d_gate_value_6_pointer + slot * ROWS + token, combined_17)
    value_14 = d_errors_W2 * value_5
    product_40 = tl.dot(
        (momentum_weights[:, None] * value_3).to(DOT),
        d_momentum_next_W1.to(DOT),
        input_precision=PRECISION,
    )
    combined_18 = d_errors_W3 * value_2 + value_14 * product_2
    product_41 = tl.dot(combined_18.to(DOT), anchor_point_W1.to(DOT), input_precision=PRECISION)
    d_errors = product_40 + total_2 + product_41
    product_42 = tl.dot(d_errors.to(DOT), tl.trans(anchor_point_W1.to(DOT)), input_precision=PRECISION)
    combined_19 = product_7 * momentum_weights[:, None] + total + product_42
    combined_20 = value_14 * product_4 + combined_19 * value_2
    product_43 = tl.dot(combined_20.to(DOT), tl.trans(anchor_point_W3.to(DOT)), input_precision=PRECISION)
    value_15 = tl.where(
        is_hidden_1[None, :],
        0.3989422804014327 * (2.0 - product * product) * tl.exp(-0.5 * (product * product)),
        0.0,
    )
    value_16 = (d_errors_W3 * product_4 + combined_19 * product_2) * value_5
    combined_21 = d_errors_W2 * value_4 * value_15 + value_16
    product_44 = tl.dot(combined_21.to(DOT), tl.trans(anchor_point_W2.to(DOT)), input_precision=PRECISION)
    d_features = combined_4 * momentum_weights[:, None] + product_43 + product_44 + d_errors + total_3
    value_17 = d_features * tl.where(is_feature[None, :], 1.0 * k + 1.0, 0.0)
    d_k_block = d_k_pointer + (batch * tokens + start) * d_k_row + head * d_k_head
    tl.store(
        d_k_block + row[:, None] * d_k_row + feature[None, :],
        value_17,
        mask=live[:, None] & is_feature[None, :],
    )
    if RESUME:
        d_window_k_base = d_window_k_pointer + (batch * HELD * heads + head) * K + (start + HELD) * heads * K
        tl.store(
            d_window_k_base + row[:, None] * (heads * K) + feature[None, :],
            value_17,
            mask=is_held[:, None] & is_feature[None, :],
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
    value_18 = d_errors_W2_halo * value_9
    product_45 = tl.dot(
        (momentum_weights_halo[:, None] * value_7).to(DOT),
        d_momentum_next_W1.to(DOT),
        input_precision=PRECISION,
    )
    combined_22 = d_errors_W3_halo * value_6 + value_18 * product_9
    product_46 = tl.dot(combined_22.to(DOT), anchor_point_W1.to(DOT), input_precision=PRECISION)
    d_errors_halo = product_45 + total_5 + product_46
    product_47 = tl.dot(d_errors_halo.to(DOT), tl.trans(anchor_point_W1.to(DOT)), input_precision=PRECISION)
    combined_23 = product_14 * momentum_weights_halo[:, None] + total_4 + product_47
    combined_24 = value_18 * product_11 + combined_23 * value_6
    product_48 = tl.dot(combined_24.to(DOT), tl.trans(anchor_point_W3.to(DOT)), input_precision=PRECISION)
    value_19 = tl.where(
        is_hidden_1[None, :],
        0.3989422804014327 * (2.0 - product_8 * product_8) * tl.exp(-0.5 * (product_8 * product_8)),
        0.0,
    )
    value_20 = (d_errors_W3_halo * product_11 + combined_23 * product_9) * value_9
    combined_25 = d_errors_W2_halo * value_8 * value_19 + value_20
    product_49 = tl.dot(combined_25.to(DOT), tl.trans(anchor_point_W2.to(DOT)), input_precision=PRECISION)
    d_features_halo = (
        combined_5 * momentum_weights_halo[:, None] + product_48 + product_49 + d_errors_halo + total_6
    )
    value_21 = d_features_halo * tl.where(is_feature[None, :], 1.0 * k_halo + 1.0, 0.0)
    tl.store(
        d_k_halo_pointer + slot * (HALO * K) + (halo_row + HALO)[:, None] * K + feature[None, :],
        value_21,
        mask=(halo_row < 0)[:, None] & is_feature[None, :],
    )
    tl.store(
        d_v_halo_pointer + slot * (HALO * V) + (halo_row + HALO)[:, None] * V + value[None, :],
        -d_errors_halo,
        mask=(halo_row < 0)[:, None] & is_value[None, :],
    )
    value_22 = gelu(combined_7)
    value_23 = value_22 * combined_8
    product_50 = tl.dot(value_23.to(DOT), combined_3.to(DOT), input_precision=PRECISION)
    value_24 = combined_6 * value_22
    value_25 = combined_6 * combined_8 * tl.where(is_hidden_1[None, :], gelu_slope(combined_7), 0.0)
    combined_26 = (
        tl.sum(d_reads * product_50, 1) + tl.sum(value_24 * product_19, 1) + tl.sum(value_25 * product_17, 1)
    )
    tl.store(d_gate_value_0_pointer + slot * ROWS + row, combined_26, mask=row < ROWS)
    if block > 0:
        tl.store(
            d_momentum_W1_next_blocks_pointer
            + (slot - 1) * (D1 * V)
            + hidden_1[:, None] * V
            + value[None, :],
            combined_9,
            mask=is_hidden_1[:, None] & is_value[None, :],
        )
    else:
        if GRAD_INITIAL:
            tl.store(
                d_momentum_W1_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                combined_9,
                mask=is_hidden_1[:, None] & is_value[None, :],
            )
    # a_C: decay of the memory over the block
    kept = tl.load(gate_kept_pointer + slot)
    product_51 = tl.dot(
        tl.trans(value_23.to(DOT)),
        (d_reads * value_0[:, None]).to(DOT),
        input_precision=PRECISION,
    )
    combined_27 = d_memory_W1_next * kept + product_51
    d_anchor_W1 = tl.zeros([BLOCK_D1, BLOCK_V], dtype=tl.float32)
    if GRAD_FINAL:
        if block == open_block:
            d_anchor_W1 += tl.load(
                d_anchor_W1_final_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                mask=is_hidden_1[:, None] & is_value[None, :],
                other=0.0,
            )
    product_52 = tl.dot(tl.trans(combined_22.to(DOT)), errors_halo.to(DOT), input_precision=PRECISION)
    product_53 = tl.dot(tl.trans(value_7.to(DOT)), d_errors_halo.to(DOT), input_precision=PRECISION)
    product_54 = tl.dot(tl.trans(combined_18.to(DOT)), errors.to(DOT), input_precision=PRECISION)
    product_55 = tl.dot(tl.trans(value_3.to(DOT)), d_errors.to(DOT), input_precision=PRECISION)
    d_anchor_point_W1 = d_anchor_W1 + product_52 + product_53 + product_54 + product_55
    at_border = tl.where(block == 0, 0.0, d_anchor_point_W1) if RESUME else d_anchor_point_W1
    following = combined_27 + at_border
    if block > 0:
        tl.store(
            d_memory_W1_next_blocks_pointer + (slot - 1) * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            following,
            mask=is_hidden_1[:, None] & is_value[None, :],
        )
    else:
        if GRAD_INITIAL:
            tl.store(
                d_memory_W1_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                following,
                mask=is_hidden_1[:, None] & is_value[None, :],
            )
    if block > 0:
        tl.store(
            d_momentum_W2_next_blocks_pointer
            + (slot - 1) * (K * D1)
            + feature[:, None] * D1
            + hidden_1[None, :],
            combined_10,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
    else:
        if GRAD_INITIAL:
            tl.store(
                d_momentum_W2_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                combined_10,
                mask=is_feature[:, None] & is_hidden_1[None, :],
            )
    d_anchor_W2 = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
    if GRAD_FINAL:
        if block == open_block:
            d_anchor_W2 += tl.load(
                d_anchor_W2_final_pointer
                + memory_index * (K * D1)
                + feature[:, None] * D1
                + hidden_1[None, :],
                mask=is_feature[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
    product_56 = tl.dot(tl.trans(features_halo.to(DOT)), combined_25.to(DOT), input_precision=PRECISION)
    product_57 = tl.dot(tl.trans(features.to(DOT)), combined_21.to(DOT), input_precision=PRECISION)
    d_anchor_point_W2 = d_anchor_W2 + product_56 + product_57
    at_border_2 = tl.where(block == 0, 0.0, d_anchor_point_W2) if RESUME else d_anchor_point_W2
    product_58 = tl.dot(
        tl.trans(queries.to(DOT)),
        (value_25 * value_0[:, None]).to(DOT),
        input_precision=PRECISION,
    )
    combined_28 = d_memory_W2_next * kept + product_58
    following_2 = at_border_2 + combined_28
    if block > 0:
        tl.store(
            d_memory_W2_next_blocks_pointer
            + (slot - 1) * (K * D1)
            + feature[:, None] * D1
            + hidden_1[None, :],
            following_2,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
    else:
        if GRAD_INITIAL:
            tl.store(
                d_memory_W2_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                following_2,
                mask=is_feature[:, None] & is_hidden_1[None, :],
            )
    if block > 0:
        tl.store(
            d_momentum_W3_next_blocks_pointer
            + (slot - 1) * (K * D1)
            + feature[:, None] * D1
            + hidden_1[None, :],
            combined_11,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
    else:
        if GRAD_INITIAL:
            tl.store(
                d_momentum_W3_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                combined_11,
                mask=is_feature[:, None] & is_hidden_1[None, :],
            )
    product_59 = tl.dot(
        tl.trans(queries.to(DOT)),
        (value_24 * value_0[:, None]).to(DOT),
        input_precision=PRECISION,
    )
    combined_29 = d_memory_W3_next * kept + product_59
    d_anchor_W3 = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
    if GRAD_FINAL:
        if block == open_block:
            d_anchor_W3 += tl.load(
                d_anchor_W3_final_pointer
                + memory_index * (K * D1)
                + feature[:, None] * D1
                + hidden_1[None, :],
                mask=is_feature[:, None] & is_hidden_1[None, :],
                other=0.0,
            )
    product_60 = tl.dot(tl.trans(features_halo.to(DOT)), combined_24.to(DOT), input_precision=PRECISION)
    product_61 = tl.dot(tl.trans(features.to(DOT)), combined_20.to(DOT), input_precision=PRECISION)
    d_anchor_point_W3 = d_anchor_W3 + product_60 + product_61
    at_border_3 = tl.where(block == 0, 0.0, d_anchor_point_W3) if RESUME else d_anchor_point_W3
    following_3 = combined_29 + at_border_3
    if block > 0:
        tl.store(
            d_memory_W3_next_blocks_pointer
            + (slot - 1) * (K * D1)
            + feature[:, None] * D1
            + hidden_1[None, :],
            following_3,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
    else:
        if GRAD_INITIAL:
            tl.store(
                d_memory_W3_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                following_3,
                mask=is_feature[:, None] & is_hidden_1[None, :],
            )
    product_62 = tl.dot(tl.trans(queries.to(DOT)), value_25.to(DOT), input_precision=PRECISION)
    d_origin_W2 = d_memory_W2_next + product_62 - combined_28
    if step > 0:
        d_origin_W2 += tl.load(
            d_origin_W2_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
    tl.store(
        d_origin_W2_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        d_origin_W2,
        mask=is_feature[:, None] & is_hidden_1[None, :],
    )
    if RESUME:
        if block == 0:
            tl.store(
                d_anchor_W2_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                d_anchor_point_W2,
                mask=is_feature[:, None] & is_hidden_1[None, :],
            )
    if RESUME:
        if block == 0:
            tl.store(
                d_anchor_W3_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                d_anchor_point_W3,
                mask=is_feature[:, None] & is_hidden_1[None, :],
            )
    if RESUME:
        if block == 0:
            tl.store(
                d_anchor_W1_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                d_anchor_point_W1,
                mask=is_hidden_1[:, None] & is_value[None, :],
            )
    product_63 = tl.dot(tl.trans(queries.to(DOT)), value_24.to(DOT), input_precision=PRECISION)
    d_origin_W3 = d_memory_W3_next + product_63 - combined_29
    if step > 0:
        d_origin_W3 += tl.load(
            d_origin_W3_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
    tl.store(
        d_origin_W3_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        d_origin_W3,
        mask=is_feature[:, None] & is_hidden_1[None, :],
    )
    product_64 = tl.dot(tl.trans(value_23.to(DOT)), d_reads.to(DOT), input_precision=PRECISION)
    d_origin_W1 = d_memory_W1_next + product_64 - combined_27
    if step > 0:
        d_origin_W1 += tl.load(
            d_origin_W1_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
    tl.store(
        d_origin_W1_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        d_origin_W1,
        mask=is_hidden_1[:, None] & is_value[None, :],
    )
    product_65 = tl.dot(value_24.to(DOT), tl.trans(combined.to(DOT)), input_precision=PRECISION)
    product_66 = tl.dot(value_24.to(DOT), tl.trans(origin_W3.to(DOT)), input_precision=PRECISION)
    combined_30 = value_0[:, None] * product_65 + product_66
    product_67 = tl.dot(value_25.to(DOT), tl.trans(combined_2.to(DOT)), input_precision=PRECISION)
    product_68 = tl.dot(value_25.to(DOT), tl.trans(origin_W2.to(DOT)), input_precision=PRECISION)
    combined_31 = value_0[:, None] * product_67 + product_68
    for token in range(first, last):
        gate_value_4_2 = tl.load(
            gate_value_4_pointer + slot * (ROWS * ROWS) + row * ROWS + token,
            mask=row < ROWS,
            other=0.0,
        )
        # U_t: the map of S_t
        updates_W3_2 = tl.load(
            updates_1_rows_pointer
            + (memory_index * ROWS + token) * (K * D1)
            + feature[:, None] * D1
            + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        product_69 = tl.dot(value_24.to(DOT), tl.trans(updates_W3_2.to(DOT)), input_precision=PRECISION)
        combined_30 -= gate_value_4_2[:, None] * product_69
        # U_t: the map of S_t
        updates_W2_2 = tl.load(
            updates_0_rows_pointer
            + (memory_index * ROWS + token) * (K * D1)
            + feature[:, None] * D1
            + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        product_70 = tl.dot(value_25.to(DOT), tl.trans(updates_W2_2.to(DOT)), input_precision=PRECISION)
        combined_31 -= gate_value_4_2[:, None] * product_70
        # U_t: the map of S_t
        updates_W1_2 = tl.load(
            updates_2_rows_pointer
            + (memory_index * ROWS + token) * (D1 * V)
            + hidden_1[:, None] * V
            + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        product_71 = tl.dot(value_23.to(DOT), updates_W1_2.to(DOT), input_precision=PRECISION)
        product_72 = tl.dot(queries.to(DOT), updates_W3_2.to(DOT), input_precision=PRECISION)
        product_73 = tl.dot(queries.to(DOT), updates_W2_2.to(DOT), input_precision=PRECISION)
        combined_32 = (
            -tl.sum(d_reads * product_71, 1)
            - tl.sum(value_24 * product_72, 1)
            - tl.sum(value_25 * product_73, 1)
        )
        tl.store(
            d_gate_value_4_pointer + slot * (ROWS * ROWS) + row * ROWS + token,
            combined_32,
            mask=row < ROWS,
        )
    d_queries = combined_30 + combined_31 + d_reads
    value_26 = d_queries * tl.where(is_feature[None, :], 1.0 * q + 1.0, 0.0)
    d_q_block = d_q_pointer + (batch * tokens + start) * d_q_row + head * d_q_head
    tl.store(
        d_q_block + row[:, None] * d_q_row + feature[None, :],
        value_26,
        mask=live[:, None] & is_feature[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def gates_gradient(
    d_gamma_halo_pointer,
    d_gamma_pointer,
    d_gate_kept_pointer,
    d_gate_momentum_kept_pointer,
    d_gate_momentum_weights_halo_pointer,
    d_gate_momentum_weights_pointer,
    d_gate_value_0_pointer,
    d_gate_value_1_pointer,
    d_gate_value_2_pointer,
    d_gate_value_3_pointer,
    d_gate_value_4_pointer,
    d_gate_value_6_pointer,
    d_log_alpha_pointer,
    d_log_theta_pointer,
    d_lr_pointer,
    d_window_gamma_pointer,
    gamma_pointer,
    gate_kept_pointer,
    gate_momentum_kept_pointer,
    gate_value_0_pointer,
    gate_value_1_pointer,
    length_pointer,
    log_alpha_pointer,
    log_theta_pointer,
    lr_pointer,
    position_pointer,
    window_gamma_pointer,
    d_gamma_head,
    d_gamma_row,
    d_log_alpha_head,
    d_log_alpha_row,
    d_log_theta_head,
    d_log_theta_row,
    d_lr_head,
    d_lr_row,
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
    DOT: tl.constexpr,
    HALO: tl.constexpr,
    HELD: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Gradients of one block's gates, from those of decays and weights: d_log_alpha, d_lr, d_log_theta,
    d_gamma, d_gamma_halo.
    """
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
    lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
    log_alpha_block = log_alpha_pointer + (batch * tokens + start) * log_alpha_row + head * log_alpha_head
    gamma_block = gamma_pointer + (batch * tokens + start) * gamma_row + head * gamma_head
    log_theta_block = log_theta_pointer + (batch * tokens + start) * log_theta_row + head * log_theta_head
    d_gate_value_0 = tl.load(d_gate_value_0_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    value_0 = tl.load(gate_value_0_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    d_gate_value_6 = tl.load(d_gate_value_6_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
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
    running = tl.sum(
        tl.where(row[:, None] > row[None, :], (d_gate_value_6 * lr * until_end)[None, :], 0.0),
        1,
    )
    d_kept = tl.load(d_gate_kept_pointer + slot)
    # a_C: decay of the memory over the block
    kept = tl.load(gate_kept_pointer + slot)
    d_gate_value_4 = tl.load(
        d_gate_value_4_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
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
    banded = tl.where(row[:, None] - row[None, :] >= 1, d_gate_value_4 * lr[None, :] * decay, 0.0)
    banded_2 = tl.where(row[:, None] >= row[None, :], tl.cumsum(banded, 1) - banded, 0.0)
    combined = tl.cumsum(d_gate_value_0 * value_0, 0, reverse=True) + (
        running + d_kept * kept + tl.sum(banded_2, 0)
    )
    d_log_alpha_block = (
        d_log_alpha_pointer + (batch * tokens + start) * d_log_alpha_row + head * d_log_alpha_head
    )
    tl.store(d_log_alpha_block + row * d_log_alpha_row, combined, mask=live)
    combined_2 = d_gate_value_6 * until_end + tl.sum(d_gate_value_4 * decay, 0)
    d_lr_block = d_lr_pointer + (batch * tokens + start) * d_lr_row + head * d_lr_head
    tl.store(d_lr_block + row * d_lr_row, combined_2, mask=live)
    d_gate_value_1 = tl.load(d_gate_value_1_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    value_1 = tl.load(gate_value_1_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    d_momentum_weights_halo = tl.load(
        d_gate_momentum_weights_halo_pointer + slot * HALO + (halo_row + HALO),
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
    product = tl.sum(d_momentum_weights_halo[None, :] * window_halo, 1)
    d_momentum_weights = tl.load(
        d_gate_momentum_weights_pointer + slot * ROWS + row,
        mask=row < ROWS,
        other=0.0,
    )
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
    product_2 = tl.sum(d_momentum_weights[None, :] * window, 1)
    log_theta = tl.load(log_theta_block + row * log_theta_row, mask=live, other=0.0).to(tl.float32)
    log_theta_coarse, log_theta_fine, log_theta_reset = split_log(log_theta)
    log_theta_coarse_sum = tl.cumsum(log_theta_coarse, 0)
    log_theta_fine_sum = tl.cumsum(log_theta_fine, 0)
    log_theta_reset_sum = tl.cumsum(log_theta_reset, 0)
    until_end_2 = tl.exp(
        tl.where(
            tl.sum(log_theta_reset, 0) == log_theta_reset_sum,
            tl.sum(log_theta_coarse, 0)
            - log_theta_coarse_sum
            + (tl.sum(log_theta_fine, 0) - log_theta_fine_sum),
            float("-inf"),
        )
    )
    running_2 = tl.sum(
        tl.where(row[:, None] > row[None, :], ((product + product_2) * until_end_2)[None, :], 0.0),
        1,
    )
    d_momentum_kept = tl.load(d_gate_momentum_kept_pointer + slot)
    # decay of S over the block
    momentum_kept = tl.load(gate_momentum_kept_pointer + slot)
    d_gate_value_3 = tl.load(
        d_gate_value_3_pointer + slot * (ROWS * HALO) + row[:, None] * HALO + (halo_row + HALO)[None, :],
        mask=(row < ROWS)[:, None] & (halo_row < 0)[None, :],
        other=0.0,
    )
    product_3 = tl.dot(d_gate_value_3.to(DOT), tl.trans(window_halo.to(DOT)), input_precision=PRECISION)
    d_gate_value_2 = tl.load(
        d_gate_value_2_pointer + slot * (ROWS * ROWS) + row[:, None] * ROWS + row[None, :],
        mask=(row < ROWS)[:, None] & (row < ROWS)[None, :],
        other=0.0,
    )
    product_4 = tl.dot(d_gate_value_2.to(DOT), tl.trans(window.to(DOT)), input_precision=PRECISION)
    decay_2 = tl.exp(
        tl.where(
            (row[:, None] >= row[None, :]) & (log_theta_reset_sum[:, None] == log_theta_reset_sum[None, :]),
            log_theta_coarse_sum[:, None]
            - log_theta_coarse_sum[None, :]
            + (log_theta_fine_sum[:, None] - log_theta_fine_sum[None, :]),
            float("-inf"),
        )
    )
    banded_3 = tl.where(row[:, None] - row[None, :] >= 1, (product_3 + product_4) * decay_2, 0.0)
    banded_4 = tl.where(row[:, None] >= row[None, :], tl.cumsum(banded_3, 1) - banded_3, 0.0)
    combined_3 = running_2 + d_momentum_kept * momentum_kept + tl.sum(banded_4, 0)
    combined_4 = tl.cumsum(d_gate_value_1 * value_1, 0, reverse=True) + combined_3
    d_log_theta_block = (
        d_log_theta_pointer + (batch * tokens + start) * d_log_theta_row + head * d_log_theta_head
    )
    tl.store(d_log_theta_block + row * d_log_theta_row, combined_4, mask=live)
    product_5 = tl.dot(tl.trans(decay_2.to(DOT)), d_gate_value_2.to(DOT), input_precision=PRECISION)
    d_window = d_momentum_weights[None, :] * until_end_2[:, None] + product_5
    banded_5 = tl.where(
        (row[:, None] >= row[None, :]) & (row[:, None] - row[None, :] <= 15),
        d_window * live_2[:, None],
        0.0,
    )
    d_gamma_block = d_gamma_pointer + (batch * tokens + start) * d_gamma_row + head * d_gamma_head
    tl.store(d_gamma_block + row * d_gamma_row, tl.sum(banded_5, 0) * exists, mask=live)
    if RESUME:
        d_window_gamma_base = d_window_gamma_pointer + (batch * HELD * heads + head) + (start + HELD) * heads
        tl.store(d_window_gamma_base + row * heads, tl.sum(banded_5, 0) * exists, mask=is_held)
    product_6 = tl.dot(tl.trans(decay_2.to(DOT)), d_gate_value_3.to(DOT), input_precision=PRECISION)
    d_window_halo = d_momentum_weights_halo[None, :] * until_end_2[:, None] + product_6
    banded_6 = tl.where(
        (row[:, None] >= halo_row[None, :]) & (row[:, None] - halo_row[None, :] <= 15),
        d_window_halo * live_2[:, None],
        0.0,
    )
    tl.store(
        d_gamma_halo_pointer + slot * HALO + (halo_row + HALO),
        tl.sum(banded_6, 0) * exists_halo,
        mask=halo_row < 0,
    )

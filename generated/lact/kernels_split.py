"""Kernels of the memory rule lact (split_all_rows_4_pieces).

Rule 8e1c823cbdd0, schedule pieces, generator 1. Written by `atlasgen build`; edit the spec, not this file.
"""

import triton
import triton.language as tl


@triton.jit
def inverse_root(x):
    return tl.where(x > 0.0, 1.0 / tl.sqrt(tl.where(x > 0.0, x, 1.0)), 0.0)


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
    gate_value_0_pointer,
    length_pointer,
    log_theta_pointer,
    position_pointer,
    log_theta_head,
    log_theta_row,
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
    log_theta_block = log_theta_pointer + (batch * tokens + start) * log_theta_row + head * log_theta_head
    log_theta = tl.load(log_theta_block + row * log_theta_row, mask=live, other=0.0).to(tl.float32)
    live_2 = live.to(tl.float32)
    tl.store(gate_value_0_pointer + slot, tl.sum(tl.exp(log_theta) * live_2, 0))


@triton.jit(do_not_specialize=["tokens", "blocks"])
def state(
    gate_value_0_pointer,
    k_pointer,
    length_pointer,
    lr_W0_pointer,
    lr_W1_pointer,
    lr_W2_pointer,
    memory_W0_blocks_pointer,
    memory_W0_final_pointer,
    memory_W0_pointer,
    memory_W1_blocks_pointer,
    memory_W1_final_pointer,
    memory_W1_pointer,
    memory_W2_blocks_pointer,
    memory_W2_final_pointer,
    memory_W2_pointer,
    momentum_W0_blocks_pointer,
    momentum_W0_final_pointer,
    momentum_W0_pointer,
    momentum_W1_blocks_pointer,
    momentum_W1_final_pointer,
    momentum_W1_pointer,
    momentum_W2_blocks_pointer,
    momentum_W2_final_pointer,
    momentum_W2_pointer,
    origin_W0_pointer,
    origin_W1_pointer,
    origin_W2_pointer,
    pool_theta_blocks_pointer,
    pool_theta_final_pointer,
    pool_theta_pointer,
    position_pointer,
    update_0_blocks_pointer,
    update_1_blocks_pointer,
    update_2_blocks_pointer,
    update_W0_blocks_pointer,
    update_W0_final_pointer,
    update_W0_pointer,
    update_W1_blocks_pointer,
    update_W1_final_pointer,
    update_W1_pointer,
    update_W2_blocks_pointer,
    update_W2_final_pointer,
    update_W2_pointer,
    v_pointer,
    k_head,
    k_row,
    lr_W0_head,
    lr_W0_row,
    lr_W1_head,
    lr_W1_row,
    lr_W2_head,
    lr_W2_row,
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
    BLOCK_K: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
    D1: tl.constexpr,
    DOT: tl.constexpr,
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
    feature = tl.arange(0, BLOCK_K)
    is_feature = feature < K
    hidden_1 = tl.arange(0, BLOCK_D1)
    is_hidden_1 = hidden_1 < D1
    value = tl.arange(0, BLOCK_V)
    is_value = value < V
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    position = tl.load(position_pointer + batch) if RESUME else 0
    phase = position % ROWS
    origin_W0 = tl.load(
        origin_W0_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    origin_W1 = tl.load(
        origin_W1_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    origin_W2 = tl.load(
        origin_W2_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    memory_W0 = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
    if HAS_INITIAL:
        memory_W0 += tl.load(
            memory_W0_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
    update_W0 = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
    if HAS_INITIAL:
        update_W0 += tl.load(
            update_W0_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
    momentum_W0 = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
    if HAS_INITIAL:
        momentum_W0 += tl.load(
            momentum_W0_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
    memory_W1 = tl.zeros([BLOCK_D1, BLOCK_V], dtype=tl.float32)
    if HAS_INITIAL:
        memory_W1 += tl.load(
            memory_W1_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
    update_W1 = tl.zeros([BLOCK_D1, BLOCK_V], dtype=tl.float32)
    if HAS_INITIAL:
        update_W1 += tl.load(
            update_W1_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
    momentum_W1 = tl.zeros([BLOCK_D1, BLOCK_V], dtype=tl.float32)
    if HAS_INITIAL:
        momentum_W1 += tl.load(
            momentum_W1_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
    memory_W2 = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
    if HAS_INITIAL:
        memory_W2 += tl.load(
            memory_W2_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
    update_W2 = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
    if HAS_INITIAL:
        update_W2 += tl.load(
            update_W2_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
    momentum_W2 = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
    if HAS_INITIAL:
        momentum_W2 += tl.load(
            momentum_W2_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
    pool_theta = 0.0
    if HAS_INITIAL:
        pool_theta += tl.load(pool_theta_pointer + memory_index)
    for block in range(0, blocks):
        slot = memory_index * blocks + block
        start = tl.cast(block, tl.int64) * ROWS - phase
        first = tl.cast(tl.maximum(-start, 0), tl.int32)
        last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
        lr_W0_block = lr_W0_pointer + (batch * tokens + start) * lr_W0_row + head * lr_W0_head
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
        lr_W1_block = lr_W1_pointer + (batch * tokens + start) * lr_W1_row + head * lr_W1_head
        lr_W2_block = lr_W2_pointer + (batch * tokens + start) * lr_W2_row + head * lr_W2_head
        if SAVE:
            tl.store(
                memory_W0_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                memory_W0,
                mask=is_feature[:, None] & is_hidden_1[None, :],
            )
        if SAVE:
            tl.store(
                update_W0_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                update_W0,
                mask=is_feature[:, None] & is_hidden_1[None, :],
            )
        if SAVE:
            tl.store(
                momentum_W0_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                momentum_W0,
                mask=is_feature[:, None] & is_hidden_1[None, :],
            )
        if SAVE:
            tl.store(
                memory_W1_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                memory_W1,
                mask=is_hidden_1[:, None] & is_value[None, :],
            )
        if SAVE:
            tl.store(
                update_W1_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                update_W1,
                mask=is_hidden_1[:, None] & is_value[None, :],
            )
        if SAVE:
            tl.store(
                momentum_W1_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
                momentum_W1,
                mask=is_hidden_1[:, None] & is_value[None, :],
            )
        if SAVE:
            tl.store(
                memory_W2_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                memory_W2,
                mask=is_feature[:, None] & is_hidden_1[None, :],
            )
        if SAVE:
            tl.store(
                update_W2_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                update_W2,
                mask=is_feature[:, None] & is_hidden_1[None, :],
            )
        if SAVE:
            tl.store(
                momentum_W2_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
                momentum_W2,
                mask=is_feature[:, None] & is_hidden_1[None, :],
            )
        if SAVE:
            tl.store(pool_theta_blocks_pointer + slot, pool_theta)
        # A: the block's gradients so far
        update_W0_total = update_W0
        # A: the block's gradients so far
        update_W1_total = update_W1
        # A: the block's gradients so far
        update_W2_total = update_W2
        for row_start in range(0, ROWS, TILE_ROWS):
            source = row_start + tl.arange(0, TILE_ROWS)
            is_source = (source >= first) & (source < last)
            lr_W0 = tl.load(lr_W0_block + source * lr_W0_row, mask=is_source, other=0.0).to(tl.float32)
            live_2 = is_source.to(tl.float32)
            k = tl.load(
                k_block + source[:, None] * k_row + feature[None, :],
                mask=is_source[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            v = tl.load(
                v_block + source[:, None] * v_row + value[None, :],
                mask=is_source[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
            product = tl.dot(v.to(DOT), tl.trans(memory_W1.to(DOT)), input_precision=PRECISION)
            product_2 = tl.dot(k.to(DOT), memory_W2.to(DOT), input_precision=PRECISION)
            product_3 = tl.dot(k.to(DOT), memory_W0.to(DOT), input_precision=PRECISION)
            value_2 = tl.where(
                is_hidden_1[None, :],
                product_3 * (1.0 - tl.sigmoid(product_3)) * tl.sigmoid(product_3) + tl.sigmoid(product_3),
                0.0,
            )
            update_W0_total += tl.dot(
                tl.trans((-((lr_W0 * live_2)[:, None] * k)).to(DOT)),
                (product * product_2 * value_2).to(DOT),
                input_precision=PRECISION,
            )
            lr_W1 = tl.load(lr_W1_block + source * lr_W1_row, mask=is_source, other=0.0).to(tl.float32)
            value_3 = product_3 * tl.sigmoid(product_3)
            update_W1_total += tl.dot(
                tl.trans((-((lr_W1 * live_2)[:, None] * (value_3 * product_2))).to(DOT)),
                v.to(DOT),
                input_precision=PRECISION,
            )
            lr_W2 = tl.load(lr_W2_block + source * lr_W2_row, mask=is_source, other=0.0).to(tl.float32)
            update_W2_total += tl.dot(
                tl.trans((-((lr_W2 * live_2)[:, None] * k)).to(DOT)),
                (product * value_3).to(DOT),
                input_precision=PRECISION,
            )
        value_0 = tl.load(gate_value_0_pointer + slot)
        combined = pool_theta + value_0
        value_4 = 0.00048828125 * combined
        # S at the end of the block
        momentum_W0_next = value_4 * momentum_W0 + update_W0_total
        orthogonal = newton_schulz(
            momentum_W0_next,
            (
                (4.0848, -6.8946, 2.927),
                (3.9505, -6.3029, 2.6377),
                (3.7418, -5.5913, 2.3037),
                (2.8769, -3.1427, 1.2046),
                (2.8366, -3.0525, 1.2012),
            ),
            K <= D1,
        )
        tl.store(
            update_0_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            orthogonal,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        # S at the end of the block
        momentum_W1_next = value_4 * momentum_W1 + update_W1_total
        orthogonal_2 = newton_schulz(
            momentum_W1_next,
            (
                (4.0848, -6.8946, 2.927),
                (3.9505, -6.3029, 2.6377),
                (3.7418, -5.5913, 2.3037),
                (2.8769, -3.1427, 1.2046),
                (2.8366, -3.0525, 1.2012),
            ),
            D1 <= V,
        )
        tl.store(
            update_1_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            orthogonal_2,
            mask=is_hidden_1[:, None] & is_value[None, :],
        )
        # S at the end of the block
        momentum_W2_next = value_4 * momentum_W2 + update_W2_total
        orthogonal_3 = newton_schulz(
            momentum_W2_next,
            (
                (4.0848, -6.8946, 2.927),
                (3.9505, -6.3029, 2.6377),
                (3.7418, -5.5913, 2.3037),
                (2.8769, -3.1427, 1.2046),
                (2.8366, -3.0525, 1.2012),
            ),
            K <= D1,
        )
        tl.store(
            update_2_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            orthogonal_3,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        combined_2 = memory_W0 - orthogonal
        value_5 = tl.sqrt(tl.sum(origin_W0 * origin_W0, 0)) * inverse_root(tl.sum(combined_2 * combined_2, 0))
        # M at the end
        memory_W0_next = combined_2 * value_5[None, :]
        closes = ((last == ROWS) & ((position + start) % 2048 == 2048 - ROWS)).to(tl.float32)
        combined_3 = memory_W1 - orthogonal_2
        value_6 = tl.sqrt(tl.sum(origin_W1 * origin_W1, 0)) * inverse_root(tl.sum(combined_3 * combined_3, 0))
        # M at the end
        memory_W1_next = combined_3 * value_6[None, :]
        combined_4 = memory_W2 - orthogonal_3
        value_7 = tl.sqrt(tl.sum(origin_W2 * origin_W2, 0)) * inverse_root(tl.sum(combined_4 * combined_4, 0))
        # M at the end
        memory_W2_next = combined_4 * value_7[None, :]
        memory_W0 = tl.where(closes > 0.0, memory_W0_next, memory_W0)
        update_W0 = tl.where(closes > 0.0, 0.0, update_W0_total)
        momentum_W0 = tl.where(closes > 0.0, momentum_W0_next, momentum_W0)
        memory_W1 = tl.where(closes > 0.0, memory_W1_next, memory_W1)
        update_W1 = tl.where(closes > 0.0, 0.0, update_W1_total)
        momentum_W1 = tl.where(closes > 0.0, momentum_W1_next, momentum_W1)
        memory_W2 = tl.where(closes > 0.0, memory_W2_next, memory_W2)
        update_W2 = tl.where(closes > 0.0, 0.0, update_W2_total)
        momentum_W2 = tl.where(closes > 0.0, momentum_W2_next, momentum_W2)
        pool_theta = tl.where(closes > 0.0, 0.0, combined)
    if STORE_FINAL:
        tl.store(
            memory_W0_final_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            memory_W0,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        tl.store(
            update_W0_final_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            update_W0,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        tl.store(
            momentum_W0_final_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            momentum_W0,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        tl.store(
            memory_W1_final_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            memory_W1,
            mask=is_hidden_1[:, None] & is_value[None, :],
        )
        tl.store(
            update_W1_final_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            update_W1,
            mask=is_hidden_1[:, None] & is_value[None, :],
        )
        tl.store(
            momentum_W1_final_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            momentum_W1,
            mask=is_hidden_1[:, None] & is_value[None, :],
        )
        tl.store(
            memory_W2_final_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            memory_W2,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        tl.store(
            update_W2_final_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            update_W2,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        tl.store(
            momentum_W2_final_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            momentum_W2,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        tl.store(pool_theta_final_pointer + memory_index, pool_theta)


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output(
    length_pointer,
    memory_W0_blocks_pointer,
    memory_W1_blocks_pointer,
    memory_W2_blocks_pointer,
    position_pointer,
    q_pointer,
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
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    q = tl.load(
        q_block + row[:, None] * q_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    memory_W0 = tl.load(
        memory_W0_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    product = tl.dot(q.to(DOT), memory_W0.to(DOT), input_precision=PRECISION)
    memory_W2 = tl.load(
        memory_W2_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    product_2 = tl.dot(q.to(DOT), memory_W2.to(DOT), input_precision=PRECISION)
    memory_W1 = tl.load(
        memory_W1_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = tl.dot(
        (product * tl.sigmoid(product) * product_2).to(DOT),
        memory_W1.to(DOT),
        input_precision=PRECISION,
    )
    y_block = y_pointer + (batch * tokens + start) * y_row + head * y_head
    tl.store(y_block + row[:, None] * y_row + value[None, :], reads, mask=live[:, None] & is_value[None, :])


@triton.jit(do_not_specialize=["tokens", "blocks"])
def updates(
    gate_value_0_pointer,
    k_pointer,
    length_pointer,
    lr_W0_pointer,
    lr_W1_pointer,
    lr_W2_pointer,
    memory_W0_blocks_pointer,
    memory_W1_blocks_pointer,
    memory_W2_blocks_pointer,
    momentum_W0_blocks_pointer,
    momentum_W1_blocks_pointer,
    momentum_W2_blocks_pointer,
    pool_theta_blocks_pointer,
    position_pointer,
    update_0_blocks_pointer,
    update_1_blocks_pointer,
    update_2_blocks_pointer,
    update_W0_blocks_pointer,
    update_W1_blocks_pointer,
    update_W2_blocks_pointer,
    v_pointer,
    k_head,
    k_row,
    lr_W0_head,
    lr_W0_row,
    lr_W1_head,
    lr_W1_row,
    lr_W2_head,
    lr_W2_row,
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
    """The maps of one block, again."""
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
    lr_W0_block = lr_W0_pointer + (batch * tokens + start) * lr_W0_row + head * lr_W0_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    lr_W1_block = lr_W1_pointer + (batch * tokens + start) * lr_W1_row + head * lr_W1_head
    lr_W2_block = lr_W2_pointer + (batch * tokens + start) * lr_W2_row + head * lr_W2_head
    pool_theta = tl.load(pool_theta_blocks_pointer + slot)
    value_0 = tl.load(gate_value_0_pointer + slot)
    value_2 = 0.00048828125 * (pool_theta + value_0)
    momentum_W0 = tl.load(
        momentum_W0_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    update_W0 = tl.load(
        update_W0_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    lr_W0 = tl.load(lr_W0_block + row * lr_W0_row, mask=live, other=0.0).to(tl.float32)
    live_2 = live.to(tl.float32)
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    v = tl.load(
        v_block + row[:, None] * v_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    memory_W1 = tl.load(
        memory_W1_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    product = tl.dot(v.to(DOT), tl.trans(memory_W1.to(DOT)), input_precision=PRECISION)
    memory_W2 = tl.load(
        memory_W2_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    product_2 = tl.dot(k.to(DOT), memory_W2.to(DOT), input_precision=PRECISION)
    memory_W0 = tl.load(
        memory_W0_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    product_3 = tl.dot(k.to(DOT), memory_W0.to(DOT), input_precision=PRECISION)
    value_3 = tl.where(
        is_hidden_1[None, :],
        product_3 * (1.0 - tl.sigmoid(product_3)) * tl.sigmoid(product_3) + tl.sigmoid(product_3),
        0.0,
    )
    product_4 = tl.dot(
        tl.trans(((lr_W0 * live_2)[:, None] * k).to(DOT)),
        (product * product_2 * value_3).to(DOT),
        input_precision=PRECISION,
    )
    # A: the block's gradients so far
    update_W0_total = update_W0 - product_4
    # S at the end of the block
    momentum_W0_next = value_2 * momentum_W0 + update_W0_total
    orthogonal = newton_schulz(
        momentum_W0_next,
        (
            (4.0848, -6.8946, 2.927),
            (3.9505, -6.3029, 2.6377),
            (3.7418, -5.5913, 2.3037),
            (2.8769, -3.1427, 1.2046),
            (2.8366, -3.0525, 1.2012),
        ),
        K <= D1,
    )
    tl.store(
        update_0_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        orthogonal,
        mask=is_feature[:, None] & is_hidden_1[None, :],
    )
    momentum_W1 = tl.load(
        momentum_W1_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    update_W1 = tl.load(
        update_W1_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    lr_W1 = tl.load(lr_W1_block + row * lr_W1_row, mask=live, other=0.0).to(tl.float32)
    value_4 = product_3 * tl.sigmoid(product_3)
    product_5 = tl.dot(
        tl.trans(((lr_W1 * live_2)[:, None] * (value_4 * product_2)).to(DOT)),
        v.to(DOT),
        input_precision=PRECISION,
    )
    # A: the block's gradients so far
    update_W1_total = update_W1 - product_5
    # S at the end of the block
    momentum_W1_next = value_2 * momentum_W1 + update_W1_total
    orthogonal_2 = newton_schulz(
        momentum_W1_next,
        (
            (4.0848, -6.8946, 2.927),
            (3.9505, -6.3029, 2.6377),
            (3.7418, -5.5913, 2.3037),
            (2.8769, -3.1427, 1.2046),
            (2.8366, -3.0525, 1.2012),
        ),
        D1 <= V,
    )
    tl.store(
        update_1_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        orthogonal_2,
        mask=is_hidden_1[:, None] & is_value[None, :],
    )
    momentum_W2 = tl.load(
        momentum_W2_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    update_W2 = tl.load(
        update_W2_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    lr_W2 = tl.load(lr_W2_block + row * lr_W2_row, mask=live, other=0.0).to(tl.float32)
    product_6 = tl.dot(
        tl.trans(((lr_W2 * live_2)[:, None] * k).to(DOT)),
        (product * value_4).to(DOT),
        input_precision=PRECISION,
    )
    # A: the block's gradients so far
    update_W2_total = update_W2 - product_6
    # S at the end of the block
    momentum_W2_next = value_2 * momentum_W2 + update_W2_total
    orthogonal_3 = newton_schulz(
        momentum_W2_next,
        (
            (4.0848, -6.8946, 2.927),
            (3.9505, -6.3029, 2.6377),
            (3.7418, -5.5913, 2.3037),
            (2.8769, -3.1427, 1.2046),
            (2.8366, -3.0525, 1.2012),
        ),
        K <= D1,
    )
    tl.store(
        update_2_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        orthogonal_3,
        mask=is_feature[:, None] & is_hidden_1[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def state_gradient(
    d_memory_W0_final_pointer,
    d_memory_W0_next_blocks_pointer,
    d_memory_W0_pointer,
    d_memory_W1_final_pointer,
    d_memory_W1_next_blocks_pointer,
    d_memory_W1_pointer,
    d_memory_W2_final_pointer,
    d_memory_W2_next_blocks_pointer,
    d_memory_W2_pointer,
    d_momentum_W0_final_pointer,
    d_momentum_W0_next_blocks_pointer,
    d_momentum_W0_pointer,
    d_momentum_W1_final_pointer,
    d_momentum_W1_next_blocks_pointer,
    d_momentum_W1_pointer,
    d_momentum_W2_final_pointer,
    d_momentum_W2_next_blocks_pointer,
    d_momentum_W2_pointer,
    d_origin_W0_pointer,
    d_origin_W1_pointer,
    d_origin_W2_pointer,
    d_pool_theta_final_pointer,
    d_pool_theta_next_blocks_pointer,
    d_pool_theta_pointer,
    d_update_0_blocks_pointer,
    d_update_1_blocks_pointer,
    d_update_2_blocks_pointer,
    d_update_W0_final_pointer,
    d_update_W0_next_blocks_pointer,
    d_update_W0_pointer,
    d_update_W1_final_pointer,
    d_update_W1_next_blocks_pointer,
    d_update_W1_pointer,
    d_update_W2_final_pointer,
    d_update_W2_next_blocks_pointer,
    d_update_W2_pointer,
    d_y_pointer,
    gate_value_0_pointer,
    k_pointer,
    length_pointer,
    lr_W0_pointer,
    lr_W1_pointer,
    lr_W2_pointer,
    memory_W0_blocks_pointer,
    memory_W1_blocks_pointer,
    memory_W2_blocks_pointer,
    momentum_W0_blocks_pointer,
    momentum_W1_blocks_pointer,
    momentum_W2_blocks_pointer,
    origin_W0_pointer,
    origin_W1_pointer,
    origin_W2_pointer,
    pool_theta_blocks_pointer,
    position_pointer,
    q_pointer,
    update_0_blocks_pointer,
    update_1_blocks_pointer,
    update_2_blocks_pointer,
    update_W0_blocks_pointer,
    update_W1_blocks_pointer,
    update_W2_blocks_pointer,
    v_pointer,
    d_y_head,
    d_y_row,
    k_head,
    k_row,
    lr_W0_head,
    lr_W0_row,
    lr_W1_head,
    lr_W1_row,
    lr_W2_head,
    lr_W2_row,
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
    BLOCK_K: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
    D1: tl.constexpr,
    DOT: tl.constexpr,
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
    feature = tl.arange(0, BLOCK_K)
    is_feature = feature < K
    hidden_1 = tl.arange(0, BLOCK_D1)
    is_hidden_1 = hidden_1 < D1
    value = tl.arange(0, BLOCK_V)
    is_value = value < V
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    position = tl.load(position_pointer + batch) if RESUME else 0
    phase = position % ROWS
    origin_W2 = tl.load(
        origin_W2_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    origin_W1 = tl.load(
        origin_W1_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    origin_W0 = tl.load(
        origin_W0_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    d_memory_W0_next = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
    if GRAD_FINAL:
        d_memory_W0_next += tl.load(
            d_memory_W0_final_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
    d_update_W0_next = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
    if GRAD_FINAL:
        d_update_W0_next += tl.load(
            d_update_W0_final_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
    d_momentum_W0_next = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
    if GRAD_FINAL:
        d_momentum_W0_next += tl.load(
            d_momentum_W0_final_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
    d_memory_W1_next = tl.zeros([BLOCK_D1, BLOCK_V], dtype=tl.float32)
    if GRAD_FINAL:
        d_memory_W1_next += tl.load(
            d_memory_W1_final_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
    d_update_W1_next = tl.zeros([BLOCK_D1, BLOCK_V], dtype=tl.float32)
    if GRAD_FINAL:
        d_update_W1_next += tl.load(
            d_update_W1_final_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
    d_momentum_W1_next = tl.zeros([BLOCK_D1, BLOCK_V], dtype=tl.float32)
    if GRAD_FINAL:
        d_momentum_W1_next += tl.load(
            d_momentum_W1_final_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
    d_memory_W2_next = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
    if GRAD_FINAL:
        d_memory_W2_next += tl.load(
            d_memory_W2_final_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
    d_update_W2_next = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
    if GRAD_FINAL:
        d_update_W2_next += tl.load(
            d_update_W2_final_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
    d_momentum_W2_next = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
    if GRAD_FINAL:
        d_momentum_W2_next += tl.load(
            d_momentum_W2_final_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
    d_pool_theta_next = 0.0
    if GRAD_FINAL:
        d_pool_theta_next += tl.load(d_pool_theta_final_pointer + memory_index)
    d_origin_W0 = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
    d_origin_W1 = tl.zeros([BLOCK_D1, BLOCK_V], dtype=tl.float32)
    d_origin_W2 = tl.zeros([BLOCK_K, BLOCK_D1], dtype=tl.float32)
    for step in range(0, blocks):
        block = blocks - 1 - step
        slot = memory_index * blocks + block
        start = tl.cast(block, tl.int64) * ROWS - phase
        first = tl.cast(tl.maximum(-start, 0), tl.int32)
        last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
        live = (row >= first) & (row < last)
        lr_W2_block = lr_W2_pointer + (batch * tokens + start) * lr_W2_row + head * lr_W2_head
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
        lr_W1_block = lr_W1_pointer + (batch * tokens + start) * lr_W1_row + head * lr_W1_head
        lr_W0_block = lr_W0_pointer + (batch * tokens + start) * lr_W0_row + head * lr_W0_head
        d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
        q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
        tl.store(
            d_memory_W0_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            d_memory_W0_next,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        tl.store(
            d_update_W0_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            d_update_W0_next,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        tl.store(
            d_momentum_W0_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            d_momentum_W0_next,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        tl.store(
            d_memory_W1_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            d_memory_W1_next,
            mask=is_hidden_1[:, None] & is_value[None, :],
        )
        tl.store(
            d_update_W1_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            d_update_W1_next,
            mask=is_hidden_1[:, None] & is_value[None, :],
        )
        tl.store(
            d_momentum_W1_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            d_momentum_W1_next,
            mask=is_hidden_1[:, None] & is_value[None, :],
        )
        tl.store(
            d_memory_W2_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            d_memory_W2_next,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        tl.store(
            d_update_W2_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            d_update_W2_next,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        tl.store(
            d_momentum_W2_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            d_momentum_W2_next,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        tl.store(d_pool_theta_next_blocks_pointer + slot, d_pool_theta_next)
        update_W2 = tl.load(
            update_W2_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        # A: the block's gradients so far
        update_W2_total = update_W2
        update_W1 = tl.load(
            update_W1_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        # A: the block's gradients so far
        update_W1_total = update_W1
        update_W0 = tl.load(
            update_W0_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        # A: the block's gradients so far
        update_W0_total = update_W0
        memory_W1 = tl.load(
            memory_W1_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        memory_W0 = tl.load(
            memory_W0_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        memory_W2 = tl.load(
            memory_W2_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        for row_start in range(0, ROWS, TILE_ROWS):
            source = row_start + tl.arange(0, TILE_ROWS)
            is_source = (source >= first) & (source < last)
            lr_W2 = tl.load(lr_W2_block + source * lr_W2_row, mask=is_source, other=0.0).to(tl.float32)
            live_2 = is_source.to(tl.float32)
            k = tl.load(
                k_block + source[:, None] * k_row + feature[None, :],
                mask=is_source[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            value_2 = (lr_W2 * live_2)[:, None] * k
            v = tl.load(
                v_block + source[:, None] * v_row + value[None, :],
                mask=is_source[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
            product = tl.dot(v.to(DOT), tl.trans(memory_W1.to(DOT)), input_precision=PRECISION)
            product_2 = tl.dot(k.to(DOT), memory_W0.to(DOT), input_precision=PRECISION)
            value_3 = product_2 * tl.sigmoid(product_2)
            update_W2_total += tl.dot(
                tl.trans((-value_2).to(DOT)),
                (product * value_3).to(DOT),
                input_precision=PRECISION,
            )
            lr_W1 = tl.load(lr_W1_block + source * lr_W1_row, mask=is_source, other=0.0).to(tl.float32)
            value_4 = lr_W1 * live_2
            product_3 = tl.dot(k.to(DOT), memory_W2.to(DOT), input_precision=PRECISION)
            update_W1_total += tl.dot(
                tl.trans((-(value_4[:, None] * (value_3 * product_3))).to(DOT)),
                v.to(DOT),
                input_precision=PRECISION,
            )
            lr_W0 = tl.load(lr_W0_block + source * lr_W0_row, mask=is_source, other=0.0).to(tl.float32)
            value_5 = (lr_W0 * live_2)[:, None] * k
            value_6 = product * product_3
            value_7 = tl.where(
                is_hidden_1[None, :],
                product_2 * (1.0 - tl.sigmoid(product_2)) * tl.sigmoid(product_2) + tl.sigmoid(product_2),
                0.0,
            )
            update_W0_total += tl.dot(
                tl.trans((-value_5).to(DOT)),
                (value_6 * value_7).to(DOT),
                input_precision=PRECISION,
            )
        pool_theta = tl.load(pool_theta_blocks_pointer + slot)
        value_0 = tl.load(gate_value_0_pointer + slot)
        value_8 = 0.00048828125 * (pool_theta + value_0)
        momentum_W2 = tl.load(
            momentum_W2_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        # S at the end of the block
        momentum_W2_next = value_8 * momentum_W2 + update_W2_total
        closes = ((last == ROWS) & ((position + start) % 2048 == 2048 - ROWS)).to(tl.float32)
        value_9 = tl.where(closes > 0.0, 1.0, 0.0)
        d_memory_W2_next_2 = d_memory_W2_next * value_9
        total = tl.sum(origin_W2 * origin_W2, 0)
        value_10 = tl.sqrt(total)
        update_2 = tl.load(
            update_2_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        combined = memory_W2 - update_2
        total_2 = tl.sum(combined * combined, 0)
        value_11 = inverse_root(total_2)
        total_3 = tl.sum(d_memory_W2_next_2 * combined, 0)
        value_12 = -0.5 * (inverse_root(total_2) * inverse_root(total_2) * inverse_root(total_2))
        value_13 = (total_3 * value_10 * value_12)[None, :] * (2.0 * combined)
        combined_2 = d_memory_W2_next_2 * (value_10 * value_11)[None, :] + value_13
        d_orthogonal = newton_schulz_gradient(
            momentum_W2_next,
            -combined_2,
            (
                (4.0848, -6.8946, 2.927),
                (3.9505, -6.3029, 2.6377),
                (3.7418, -5.5913, 2.3037),
                (2.8769, -3.1427, 1.2046),
                (2.8366, -3.0525, 1.2012),
            ),
            K <= D1,
        )
        tl.store(
            d_update_0_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            d_orthogonal,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        momentum_W1 = tl.load(
            momentum_W1_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        # S at the end of the block
        momentum_W1_next = value_8 * momentum_W1 + update_W1_total
        d_memory_W1_next_2 = d_memory_W1_next * value_9
        total_4 = tl.sum(origin_W1 * origin_W1, 0)
        value_14 = tl.sqrt(total_4)
        update_1 = tl.load(
            update_1_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            mask=is_hidden_1[:, None] & is_value[None, :],
            other=0.0,
        )
        combined_3 = memory_W1 - update_1
        total_5 = tl.sum(combined_3 * combined_3, 0)
        value_15 = inverse_root(total_5)
        total_6 = tl.sum(d_memory_W1_next_2 * combined_3, 0)
        value_16 = -0.5 * (inverse_root(total_5) * inverse_root(total_5) * inverse_root(total_5))
        value_17 = (total_6 * value_14 * value_16)[None, :] * (2.0 * combined_3)
        combined_4 = d_memory_W1_next_2 * (value_14 * value_15)[None, :] + value_17
        d_orthogonal_2 = newton_schulz_gradient(
            momentum_W1_next,
            -combined_4,
            (
                (4.0848, -6.8946, 2.927),
                (3.9505, -6.3029, 2.6377),
                (3.7418, -5.5913, 2.3037),
                (2.8769, -3.1427, 1.2046),
                (2.8366, -3.0525, 1.2012),
            ),
            D1 <= V,
        )
        tl.store(
            d_update_1_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            d_orthogonal_2,
            mask=is_hidden_1[:, None] & is_value[None, :],
        )
        momentum_W0 = tl.load(
            momentum_W0_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        # S at the end of the block
        momentum_W0_next = value_8 * momentum_W0 + update_W0_total
        d_memory_W0_next_2 = d_memory_W0_next * value_9
        total_7 = tl.sum(origin_W0 * origin_W0, 0)
        value_18 = tl.sqrt(total_7)
        update_0 = tl.load(
            update_0_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            mask=is_feature[:, None] & is_hidden_1[None, :],
            other=0.0,
        )
        combined_5 = memory_W0 - update_0
        total_8 = tl.sum(combined_5 * combined_5, 0)
        value_19 = inverse_root(total_8)
        total_9 = tl.sum(d_memory_W0_next_2 * combined_5, 0)
        value_20 = -0.5 * (inverse_root(total_8) * inverse_root(total_8) * inverse_root(total_8))
        value_21 = (total_9 * value_18 * value_20)[None, :] * (2.0 * combined_5)
        combined_6 = d_memory_W0_next_2 * (value_18 * value_19)[None, :] + value_21
        d_orthogonal_3 = newton_schulz_gradient(
            momentum_W0_next,
            -combined_6,
            (
                (4.0848, -6.8946, 2.927),
                (3.9505, -6.3029, 2.6377),
                (3.7418, -5.5913, 2.3037),
                (2.8769, -3.1427, 1.2046),
                (2.8366, -3.0525, 1.2012),
            ),
            K <= D1,
        )
        tl.store(
            d_update_2_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            d_orthogonal_3,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        value_22 = tl.where(closes > 0.0, 0.0, 1.0)
        d_reads = tl.load(
            d_y_block + row[:, None] * d_y_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        product_4 = tl.dot(d_reads.to(DOT), tl.trans(memory_W1.to(DOT)), input_precision=PRECISION)
        q = tl.load(
            q_block + row[:, None] * q_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        product_5 = tl.dot(q.to(DOT), memory_W2.to(DOT), input_precision=PRECISION)
        product_6 = tl.dot(q.to(DOT), memory_W0.to(DOT), input_precision=PRECISION)
        value_23 = tl.where(
            is_hidden_1[None, :],
            product_6 * (1.0 - tl.sigmoid(product_6)) * tl.sigmoid(product_6) + tl.sigmoid(product_6),
            0.0,
        )
        product_7 = tl.dot(
            tl.trans(q.to(DOT)),
            (product_4 * product_5 * value_23).to(DOT),
            input_precision=PRECISION,
        )
        combined_7 = d_memory_W0_next * value_22 + combined_6 + product_7
        value_24 = product_6 * tl.sigmoid(product_6)
        product_8 = tl.dot(
            tl.trans((value_24 * product_5).to(DOT)),
            d_reads.to(DOT),
            input_precision=PRECISION,
        )
        combined_8 = d_memory_W1_next * value_22 + combined_4 + product_8
        product_9 = tl.dot(tl.trans(q.to(DOT)), (product_4 * value_24).to(DOT), input_precision=PRECISION)
        combined_9 = d_memory_W2_next * value_22 + combined_2 + product_9
        d_momentum_W2_next_2 = d_momentum_W2_next * value_9 + d_orthogonal
        d_update_W2_total = d_update_W2_next * value_22 + d_momentum_W2_next_2
        d_momentum_W1_next_2 = d_momentum_W1_next * value_9 + d_orthogonal_2
        d_update_W1_total = d_update_W1_next * value_22 + d_momentum_W1_next_2
        d_momentum_W0_next_2 = d_momentum_W0_next * value_9 + d_orthogonal_3
        d_update_W0_total = d_update_W0_next * value_22 + d_momentum_W0_next_2
        for row_start in range(0, ROWS, TILE_ROWS):
            source = row_start + tl.arange(0, TILE_ROWS)
            is_source = (source >= first) & (source < last)
            lr_W2_2 = tl.load(lr_W2_block + source * lr_W2_row, mask=is_source, other=0.0).to(tl.float32)
            live_3 = is_source.to(tl.float32)
            k_2 = tl.load(
                k_block + source[:, None] * k_row + feature[None, :],
                mask=is_source[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            value_25 = (lr_W2_2 * live_3)[:, None] * k_2
            product_10 = tl.dot(value_25.to(DOT), d_update_W2_total.to(DOT), input_precision=PRECISION)
            v_2 = tl.load(
                v_block + source[:, None] * v_row + value[None, :],
                mask=is_source[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
            product_11 = tl.dot(v_2.to(DOT), tl.trans(memory_W1.to(DOT)), input_precision=PRECISION)
            product_12 = tl.dot(v_2.to(DOT), tl.trans(d_update_W1_total.to(DOT)), input_precision=PRECISION)
            lr_W1_2 = tl.load(lr_W1_block + source * lr_W1_row, mask=is_source, other=0.0).to(tl.float32)
            value_26 = lr_W1_2 * live_3
            value_27 = product_12 * value_26[:, None]
            product_13 = tl.dot(k_2.to(DOT), memory_W2.to(DOT), input_precision=PRECISION)
            product_14 = tl.dot(k_2.to(DOT), memory_W0.to(DOT), input_precision=PRECISION)
            value_28 = tl.where(
                is_hidden_1[None, :],
                product_14 * (1.0 - tl.sigmoid(product_14)) * tl.sigmoid(product_14) + tl.sigmoid(product_14),
                0.0,
            )
            value_29 = (-(product_10 * product_11) - value_27 * product_13) * value_28
            lr_W0_2 = tl.load(lr_W0_block + source * lr_W0_row, mask=is_source, other=0.0).to(tl.float32)
            value_30 = (lr_W0_2 * live_3)[:, None] * k_2
            product_15 = tl.dot(value_30.to(DOT), d_update_W0_total.to(DOT), input_precision=PRECISION)
            value_31 = product_11 * product_13
            value_32 = tl.where(
                is_hidden_1[None, :],
                product_14
                * ((1.0 - tl.sigmoid(product_14)) * (1.0 - tl.sigmoid(product_14)))
                * tl.sigmoid(product_14)
                - product_14
                * (tl.sigmoid(product_14) * tl.sigmoid(product_14))
                * (1.0 - tl.sigmoid(product_14))
                + 2.0 * (1.0 - tl.sigmoid(product_14)) * tl.sigmoid(product_14),
                0.0,
            )
            combined_7 += tl.dot(
                tl.trans(k_2.to(DOT)),
                (value_29 - product_15 * value_31 * value_32).to(DOT),
                input_precision=PRECISION,
            )
            value_33 = product_14 * tl.sigmoid(product_14)
            value_34 = product_15 * value_28
            combined_8 += tl.dot(
                tl.trans((-(product_10 * value_33) - value_34 * product_13).to(DOT)),
                v_2.to(DOT),
                input_precision=PRECISION,
            )
            combined_9 += tl.dot(
                tl.trans(k_2.to(DOT)),
                (-(value_27 * value_33) - value_34 * product_11).to(DOT),
                input_precision=PRECISION,
            )
        value_35 = (total_9 * value_19 * (0.5 * inverse_root(total_7)))[None, :] * (2.0 * origin_W0)
        d_origin_W0 += value_35
        value_36 = (total_6 * value_15 * (0.5 * inverse_root(total_4)))[None, :] * (2.0 * origin_W1)
        d_origin_W1 += value_36
        value_37 = (total_3 * value_11 * (0.5 * inverse_root(total)))[None, :] * (2.0 * origin_W2)
        d_origin_W2 += value_37
        combined_10 = d_momentum_W0_next * value_22 + d_momentum_W0_next_2 * value_8
        combined_11 = d_momentum_W1_next * value_22 + d_momentum_W1_next_2 * value_8
        combined_12 = d_momentum_W2_next * value_22 + d_momentum_W2_next_2 * value_8
        combined_13 = (
            tl.sum(tl.sum(d_momentum_W2_next_2 * momentum_W2, 0), 0)
            + tl.sum(tl.sum(d_momentum_W1_next_2 * momentum_W1, 0), 0)
            + tl.sum(tl.sum(d_momentum_W0_next_2 * momentum_W0, 0), 0)
        )
        combined_14 = d_pool_theta_next * value_22 + 0.00048828125 * combined_13
        d_memory_W0_next = combined_7
        d_update_W0_next = d_update_W0_total
        d_momentum_W0_next = combined_10
        d_memory_W1_next = combined_8
        d_update_W1_next = d_update_W1_total
        d_momentum_W1_next = combined_11
        d_memory_W2_next = combined_9
        d_update_W2_next = d_update_W2_total
        d_momentum_W2_next = combined_12
        d_pool_theta_next = combined_14
    if GRAD_INITIAL:
        tl.store(
            d_memory_W0_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            d_memory_W0_next,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        tl.store(
            d_update_W0_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            d_update_W0_next,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        tl.store(
            d_momentum_W0_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            d_momentum_W0_next,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        tl.store(
            d_memory_W1_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            d_memory_W1_next,
            mask=is_hidden_1[:, None] & is_value[None, :],
        )
        tl.store(
            d_update_W1_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            d_update_W1_next,
            mask=is_hidden_1[:, None] & is_value[None, :],
        )
        tl.store(
            d_momentum_W1_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
            d_momentum_W1_next,
            mask=is_hidden_1[:, None] & is_value[None, :],
        )
        tl.store(
            d_memory_W2_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            d_memory_W2_next,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        tl.store(
            d_update_W2_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            d_update_W2_next,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        tl.store(
            d_momentum_W2_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
            d_momentum_W2_next,
            mask=is_feature[:, None] & is_hidden_1[None, :],
        )
        tl.store(d_pool_theta_pointer + memory_index, d_pool_theta_next)
    tl.store(
        d_origin_W0_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        d_origin_W0,
        mask=is_feature[:, None] & is_hidden_1[None, :],
    )
    tl.store(
        d_origin_W1_pointer + memory_index * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        d_origin_W1,
        mask=is_hidden_1[:, None] & is_value[None, :],
    )
    tl.store(
        d_origin_W2_pointer + memory_index * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        d_origin_W2,
        mask=is_feature[:, None] & is_hidden_1[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_v(
    d_momentum_W0_next_blocks_pointer,
    d_momentum_W1_next_blocks_pointer,
    d_momentum_W2_next_blocks_pointer,
    d_update_0_blocks_pointer,
    d_update_1_blocks_pointer,
    d_update_2_blocks_pointer,
    d_update_W0_next_blocks_pointer,
    d_update_W1_next_blocks_pointer,
    d_update_W2_next_blocks_pointer,
    d_v_pointer,
    k_pointer,
    length_pointer,
    lr_W0_pointer,
    lr_W1_pointer,
    lr_W2_pointer,
    memory_W0_blocks_pointer,
    memory_W1_blocks_pointer,
    memory_W2_blocks_pointer,
    position_pointer,
    d_v_head,
    d_v_row,
    k_head,
    k_row,
    lr_W0_head,
    lr_W0_row,
    lr_W1_head,
    lr_W1_row,
    lr_W2_head,
    lr_W2_row,
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
    lr_W2_block = lr_W2_pointer + (batch * tokens + start) * lr_W2_row + head * lr_W2_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    lr_W0_block = lr_W0_pointer + (batch * tokens + start) * lr_W0_row + head * lr_W0_head
    lr_W1_block = lr_W1_pointer + (batch * tokens + start) * lr_W1_row + head * lr_W1_head
    d_update_W2_next = tl.load(
        d_update_W2_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    closes = ((last == ROWS) & ((position + start) % 2048 == 2048 - ROWS)).to(tl.float32)
    value_2 = tl.where(closes > 0.0, 0.0, 1.0)
    d_momentum_W2_next = tl.load(
        d_momentum_W2_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    value_3 = tl.where(closes > 0.0, 1.0, 0.0)
    d_update_0 = tl.load(
        d_update_0_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    d_momentum_W2_next_2 = d_momentum_W2_next * value_3 + d_update_0
    d_update_W2_total = d_update_W2_next * value_2 + d_momentum_W2_next_2
    lr_W2 = tl.load(lr_W2_block + row * lr_W2_row, mask=live, other=0.0).to(tl.float32)
    live_2 = live.to(tl.float32)
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    product = tl.dot(
        ((lr_W2 * live_2)[:, None] * k).to(DOT),
        d_update_W2_total.to(DOT),
        input_precision=PRECISION,
    )
    memory_W0 = tl.load(
        memory_W0_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    product_2 = tl.dot(k.to(DOT), memory_W0.to(DOT), input_precision=PRECISION)
    value_4 = product_2 * tl.sigmoid(product_2)
    d_update_W0_next = tl.load(
        d_update_W0_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    d_momentum_W0_next = tl.load(
        d_momentum_W0_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    d_update_2 = tl.load(
        d_update_2_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    d_momentum_W0_next_2 = d_momentum_W0_next * value_3 + d_update_2
    d_update_W0_total = d_update_W0_next * value_2 + d_momentum_W0_next_2
    lr_W0 = tl.load(lr_W0_block + row * lr_W0_row, mask=live, other=0.0).to(tl.float32)
    product_3 = tl.dot(
        ((lr_W0 * live_2)[:, None] * k).to(DOT),
        d_update_W0_total.to(DOT),
        input_precision=PRECISION,
    )
    value_5 = tl.where(
        is_hidden_1[None, :],
        product_2 * (1.0 - tl.sigmoid(product_2)) * tl.sigmoid(product_2) + tl.sigmoid(product_2),
        0.0,
    )
    memory_W2 = tl.load(
        memory_W2_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    product_4 = tl.dot(k.to(DOT), memory_W2.to(DOT), input_precision=PRECISION)
    memory_W1 = tl.load(
        memory_W1_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    product_5 = tl.dot(
        (-(product * value_4) - product_3 * value_5 * product_4).to(DOT),
        memory_W1.to(DOT),
        input_precision=PRECISION,
    )
    d_update_W1_next = tl.load(
        d_update_W1_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    d_momentum_W1_next = tl.load(
        d_momentum_W1_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    d_update_1 = tl.load(
        d_update_1_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    d_momentum_W1_next_2 = d_momentum_W1_next * value_3 + d_update_1
    d_update_W1_total = d_update_W1_next * value_2 + d_momentum_W1_next_2
    product_6 = tl.dot((value_4 * product_4).to(DOT), d_update_W1_total.to(DOT), input_precision=PRECISION)
    lr_W1 = tl.load(lr_W1_block + row * lr_W1_row, mask=live, other=0.0).to(tl.float32)
    d_v_block = d_v_pointer + (batch * tokens + start) * d_v_row + head * d_v_head
    tl.store(
        d_v_block + row[:, None] * d_v_row + value[None, :],
        product_5 - product_6 * (lr_W1 * live_2)[:, None],
        mask=live[:, None] & is_value[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_q(
    d_q_pointer,
    d_y_pointer,
    length_pointer,
    memory_W0_blocks_pointer,
    memory_W1_blocks_pointer,
    memory_W2_blocks_pointer,
    position_pointer,
    q_pointer,
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
    memory_W1 = tl.load(
        memory_W1_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    product = tl.dot(d_reads.to(DOT), tl.trans(memory_W1.to(DOT)), input_precision=PRECISION)
    q = tl.load(
        q_block + row[:, None] * q_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    memory_W0 = tl.load(
        memory_W0_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    product_2 = tl.dot(q.to(DOT), memory_W0.to(DOT), input_precision=PRECISION)
    memory_W2 = tl.load(
        memory_W2_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    product_3 = tl.dot(
        (product * (product_2 * tl.sigmoid(product_2))).to(DOT),
        tl.trans(memory_W2.to(DOT)),
        input_precision=PRECISION,
    )
    product_4 = tl.dot(q.to(DOT), memory_W2.to(DOT), input_precision=PRECISION)
    value_2 = tl.where(
        is_hidden_1[None, :],
        product_2 * (1.0 - tl.sigmoid(product_2)) * tl.sigmoid(product_2) + tl.sigmoid(product_2),
        0.0,
    )
    product_5 = tl.dot(
        (product * product_4 * value_2).to(DOT),
        tl.trans(memory_W0.to(DOT)),
        input_precision=PRECISION,
    )
    d_q_block = d_q_pointer + (batch * tokens + start) * d_q_row + head * d_q_head
    tl.store(
        d_q_block + row[:, None] * d_q_row + feature[None, :],
        product_3 + product_5,
        mask=live[:, None] & is_feature[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_k(
    d_k_pointer,
    d_lr_W0_pointer,
    d_lr_W1_pointer,
    d_lr_W2_pointer,
    d_momentum_W0_next_blocks_pointer,
    d_momentum_W1_next_blocks_pointer,
    d_momentum_W2_next_blocks_pointer,
    d_update_0_blocks_pointer,
    d_update_1_blocks_pointer,
    d_update_2_blocks_pointer,
    d_update_W0_next_blocks_pointer,
    d_update_W1_next_blocks_pointer,
    d_update_W2_next_blocks_pointer,
    k_pointer,
    length_pointer,
    lr_W0_pointer,
    lr_W1_pointer,
    lr_W2_pointer,
    memory_W0_blocks_pointer,
    memory_W1_blocks_pointer,
    memory_W2_blocks_pointer,
    position_pointer,
    v_pointer,
    d_k_head,
    d_k_row,
    d_lr_W0_head,
    d_lr_W0_row,
    d_lr_W1_head,
    d_lr_W1_row,
    d_lr_W2_head,
    d_lr_W2_row,
    k_head,
    k_row,
    lr_W0_head,
    lr_W0_row,
    lr_W1_head,
    lr_W1_row,
    lr_W2_head,
    lr_W2_row,
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
    """Gradients of one block: d_k, d_lr_W0, d_lr_W1, d_lr_W2."""
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
    lr_W2_block = lr_W2_pointer + (batch * tokens + start) * lr_W2_row + head * lr_W2_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    lr_W1_block = lr_W1_pointer + (batch * tokens + start) * lr_W1_row + head * lr_W1_head
    lr_W0_block = lr_W0_pointer + (batch * tokens + start) * lr_W0_row + head * lr_W0_head
    d_update_W2_next = tl.load(
        d_update_W2_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    closes = ((last == ROWS) & ((position + start) % 2048 == 2048 - ROWS)).to(tl.float32)
    value_2 = tl.where(closes > 0.0, 0.0, 1.0)
    d_momentum_W2_next = tl.load(
        d_momentum_W2_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    value_3 = tl.where(closes > 0.0, 1.0, 0.0)
    d_update_0 = tl.load(
        d_update_0_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    d_momentum_W2_next_2 = d_momentum_W2_next * value_3 + d_update_0
    d_update_W2_total = d_update_W2_next * value_2 + d_momentum_W2_next_2
    lr_W2 = tl.load(lr_W2_block + row * lr_W2_row, mask=live, other=0.0).to(tl.float32)
    live_2 = live.to(tl.float32)
    value_4 = lr_W2 * live_2
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    product = tl.dot((value_4[:, None] * k).to(DOT), d_update_W2_total.to(DOT), input_precision=PRECISION)
    v = tl.load(
        v_block + row[:, None] * v_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    memory_W1 = tl.load(
        memory_W1_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    product_2 = tl.dot(v.to(DOT), tl.trans(memory_W1.to(DOT)), input_precision=PRECISION)
    d_update_W1_next = tl.load(
        d_update_W1_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    d_momentum_W1_next = tl.load(
        d_momentum_W1_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    d_update_1 = tl.load(
        d_update_1_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    d_momentum_W1_next_2 = d_momentum_W1_next * value_3 + d_update_1
    d_update_W1_total = d_update_W1_next * value_2 + d_momentum_W1_next_2
    lr_W1 = tl.load(lr_W1_block + row * lr_W1_row, mask=live, other=0.0).to(tl.float32)
    product_3 = tl.dot(
        (v * (lr_W1 * live_2)[:, None]).to(DOT),
        tl.trans(d_update_W1_total.to(DOT)),
        input_precision=PRECISION,
    )
    memory_W2 = tl.load(
        memory_W2_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    product_4 = tl.dot(k.to(DOT), memory_W2.to(DOT), input_precision=PRECISION)
    memory_W0 = tl.load(
        memory_W0_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    product_5 = tl.dot(k.to(DOT), memory_W0.to(DOT), input_precision=PRECISION)
    value_5 = tl.where(
        is_hidden_1[None, :],
        product_5 * (1.0 - tl.sigmoid(product_5)) * tl.sigmoid(product_5) + tl.sigmoid(product_5),
        0.0,
    )
    d_update_W0_next = tl.load(
        d_update_W0_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    d_momentum_W0_next = tl.load(
        d_momentum_W0_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    d_update_2 = tl.load(
        d_update_2_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    d_momentum_W0_next_2 = d_momentum_W0_next * value_3 + d_update_2
    d_update_W0_total = d_update_W0_next * value_2 + d_momentum_W0_next_2
    lr_W0 = tl.load(lr_W0_block + row * lr_W0_row, mask=live, other=0.0).to(tl.float32)
    value_6 = lr_W0 * live_2
    product_6 = tl.dot((value_6[:, None] * k).to(DOT), d_update_W0_total.to(DOT), input_precision=PRECISION)
    value_7 = product_2 * product_4
    value_8 = tl.where(
        is_hidden_1[None, :],
        product_5 * ((1.0 - tl.sigmoid(product_5)) * (1.0 - tl.sigmoid(product_5))) * tl.sigmoid(product_5)
        - product_5 * (tl.sigmoid(product_5) * tl.sigmoid(product_5)) * (1.0 - tl.sigmoid(product_5))
        + 2.0 * (1.0 - tl.sigmoid(product_5)) * tl.sigmoid(product_5),
        0.0,
    )
    combined = (-(product * product_2) - product_3 * product_4) * value_5 - product_6 * value_7 * value_8
    product_7 = tl.dot(combined.to(DOT), tl.trans(memory_W0.to(DOT)), input_precision=PRECISION)
    value_9 = product_5 * tl.sigmoid(product_5)
    product_8 = tl.dot(
        (-(product_3 * value_9) - product_6 * value_5 * product_2).to(DOT),
        tl.trans(memory_W2.to(DOT)),
        input_precision=PRECISION,
    )
    product_9 = tl.dot(
        (product_2 * value_9).to(DOT),
        tl.trans(d_update_W2_total.to(DOT)),
        input_precision=PRECISION,
    )
    product_10 = tl.dot(
        (value_7 * value_5).to(DOT),
        tl.trans(d_update_W0_total.to(DOT)),
        input_precision=PRECISION,
    )
    combined_2 = product_7 + product_8 - product_9 * value_4[:, None] - product_10 * value_6[:, None]
    d_k_block = d_k_pointer + (batch * tokens + start) * d_k_row + head * d_k_head
    tl.store(
        d_k_block + row[:, None] * d_k_row + feature[None, :],
        combined_2,
        mask=live[:, None] & is_feature[None, :],
    )
    d_lr_W0_block = d_lr_W0_pointer + (batch * tokens + start) * d_lr_W0_row + head * d_lr_W0_head
    tl.store(d_lr_W0_block + row * d_lr_W0_row, tl.sum(-(product_10 * k), 1) * live_2, mask=live)
    product_11 = tl.dot((value_9 * product_4).to(DOT), d_update_W1_total.to(DOT), input_precision=PRECISION)
    product_12 = tl.sum(v * product_11, 1)
    d_lr_W1_block = d_lr_W1_pointer + (batch * tokens + start) * d_lr_W1_row + head * d_lr_W1_head
    tl.store(d_lr_W1_block + row * d_lr_W1_row, -product_12 * live_2, mask=live)
    d_lr_W2_block = d_lr_W2_pointer + (batch * tokens + start) * d_lr_W2_row + head * d_lr_W2_head
    tl.store(d_lr_W2_block + row * d_lr_W2_row, tl.sum(-(product_9 * k), 1) * live_2, mask=live)


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_carried(
    d_gate_value_0_pointer,
    d_momentum_W0_next_blocks_pointer,
    d_momentum_W1_next_blocks_pointer,
    d_momentum_W2_next_blocks_pointer,
    d_pool_theta_next_blocks_pointer,
    d_update_0_blocks_pointer,
    d_update_1_blocks_pointer,
    d_update_2_blocks_pointer,
    length_pointer,
    momentum_W0_blocks_pointer,
    momentum_W1_blocks_pointer,
    momentum_W2_blocks_pointer,
    position_pointer,
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
    K: tl.constexpr,
    ROWS: tl.constexpr,
    V: tl.constexpr,
):
    """Gradients of one block: d_gate_value_0."""
    program = tl.program_id(0)
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
    batch = memory_index // heads
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
    d_pool_theta_next = tl.load(d_pool_theta_next_blocks_pointer + slot)
    closes = ((last == ROWS) & ((position + start) % 2048 == 2048 - ROWS)).to(tl.float32)
    d_momentum_W2_next = tl.load(
        d_momentum_W2_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    value_2 = tl.where(closes > 0.0, 1.0, 0.0)
    d_update_0 = tl.load(
        d_update_0_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    d_momentum_W2_next_2 = d_momentum_W2_next * value_2 + d_update_0
    momentum_W2 = tl.load(
        momentum_W2_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    d_momentum_W1_next = tl.load(
        d_momentum_W1_next_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    d_update_1 = tl.load(
        d_update_1_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    d_momentum_W1_next_2 = d_momentum_W1_next * value_2 + d_update_1
    momentum_W1 = tl.load(
        momentum_W1_blocks_pointer + slot * (D1 * V) + hidden_1[:, None] * V + value[None, :],
        mask=is_hidden_1[:, None] & is_value[None, :],
        other=0.0,
    )
    d_momentum_W0_next = tl.load(
        d_momentum_W0_next_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    d_update_2 = tl.load(
        d_update_2_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    d_momentum_W0_next_2 = d_momentum_W0_next * value_2 + d_update_2
    momentum_W0 = tl.load(
        momentum_W0_blocks_pointer + slot * (K * D1) + feature[:, None] * D1 + hidden_1[None, :],
        mask=is_feature[:, None] & is_hidden_1[None, :],
        other=0.0,
    )
    combined = (
        tl.sum(tl.sum(d_momentum_W2_next_2 * momentum_W2, 0), 0)
        + tl.sum(tl.sum(d_momentum_W1_next_2 * momentum_W1, 0), 0)
        + tl.sum(tl.sum(d_momentum_W0_next_2 * momentum_W0, 0), 0)
    )
    combined_2 = d_pool_theta_next * tl.where(closes > 0.0, 0.0, 1.0) + 0.00048828125 * combined
    tl.store(d_gate_value_0_pointer + slot, combined_2)


@triton.jit(do_not_specialize=["tokens", "blocks"])
def gates_gradient_momentum(
    d_gate_value_0_pointer,
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
    d_gate_value_0 = tl.load(d_gate_value_0_pointer + slot)
    live_2 = live.to(tl.float32)
    log_theta = tl.load(log_theta_block + row * log_theta_row, mask=live, other=0.0).to(tl.float32)
    d_log_theta_block = (
        d_log_theta_pointer + (batch * tokens + start) * d_log_theta_row + head * d_log_theta_head
    )
    tl.store(
        d_log_theta_block + row * d_log_theta_row,
        d_gate_value_0 * live_2 * tl.exp(log_theta),
        mask=live,
    )

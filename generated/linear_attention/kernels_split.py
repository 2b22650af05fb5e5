"""Kernels of the memory rule linear_attention (split_all_rows_4).

Rule 3c1c8bdbb502, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
"""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["tokens", "blocks"])
def state(
    k_pointer,
    length_pointer,
    memory_blocks_pointer,
    memory_final_pointer,
    memory_pointer,
    normaliser_blocks_pointer,
    normaliser_final_pointer,
    normaliser_pointer,
    position_pointer,
    v_pointer,
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
    BLOCK_K: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
    DOT: tl.constexpr,
    K: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    TILE_ROWS: tl.constexpr,
    V: tl.constexpr,
):
    """The memory from block to block, saved at the start of each."""
    program = tl.program_id(0)
    value_tile = program % tl.cdiv(V, BLOCK_V)
    program = program // tl.cdiv(V, BLOCK_V)
    memory_index = tl.cast(program, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    feature = tl.arange(0, BLOCK_K)
    is_feature = feature < K
    value = value_tile * BLOCK_V + tl.arange(0, BLOCK_V)
    is_value = value < V
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    phase = 0
    memory = tl.zeros([BLOCK_K, BLOCK_V], dtype=tl.float32)
    if HAS_INITIAL:
        memory += tl.load(
            memory_pointer + memory_index * (K * V) + feature[:, None] * V + value[None, :],
            mask=is_feature[:, None] & is_value[None, :],
            other=0.0,
        )
    normaliser = tl.zeros([BLOCK_K], dtype=tl.float32)
    if HAS_INITIAL:
        normaliser += tl.load(normaliser_pointer + memory_index * K + feature, mask=is_feature, other=0.0)
    for block in range(0, blocks):
        slot = memory_index * blocks + block
        start = tl.cast(block, tl.int64) * ROWS - phase
        first = tl.cast(tl.maximum(-start, 0), tl.int32)
        last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
        if SAVE:
            tl.store(
                memory_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
                memory,
                mask=is_feature[:, None] & is_value[None, :],
            )
        if SAVE:
            if value_tile == 0:
                tl.store(normaliser_blocks_pointer + slot * K + feature, normaliser, mask=is_feature)
        # M at the end
        memory_next = memory
        # M at the end
        normaliser_next = normaliser
        for row_start in range(0, ROWS, TILE_ROWS):
            source = row_start + tl.arange(0, TILE_ROWS)
            is_source = (source >= first) & (source < last)
            live_2 = is_source.to(tl.float32)
            k = tl.load(
                k_block + source[:, None] * k_row + feature[None, :],
                mask=is_source[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            # X = phi(k)
            features = tl.where(
                is_feature[None, :],
                tl.where(k > 0.0, k + 1.0, tl.exp(tl.minimum(0.0, k))),
                0.0,
            )
            value_2 = live_2[:, None] * features
            v = tl.load(
                v_block + source[:, None] * v_row + value[None, :],
                mask=is_source[:, None] & is_value[None, :],
                other=0.0,
            ).to(tl.float32)
            memory_next += tl.dot(tl.trans(value_2.to(DOT)), v.to(DOT), input_precision=PRECISION)
            normaliser_next += tl.sum(value_2, 0)
        memory = memory_next
        normaliser = normaliser_next
    if STORE_FINAL:
        tl.store(
            memory_final_pointer + memory_index * (K * V) + feature[:, None] * V + value[None, :],
            memory,
            mask=is_feature[:, None] & is_value[None, :],
        )
        if value_tile == 0:
            tl.store(normaliser_final_pointer + memory_index * K + feature, normaliser, mask=is_feature)


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output(
    k_pointer,
    length_pointer,
    memory_blocks_pointer,
    normaliser_blocks_pointer,
    position_pointer,
    q_pointer,
    v_pointer,
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
    BLOCK_K: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
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
    value = value_tile * BLOCK_V + tl.arange(0, BLOCK_V)
    is_value = value < V
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    phase = 0
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    q = tl.load(
        q_block + row[:, None] * q_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # phi(q)
    queries = tl.where(is_feature[None, :], tl.where(q > 0.0, q + 1.0, tl.exp(tl.minimum(0.0, q))), 0.0)
    memory = tl.load(
        memory_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
        mask=is_feature[:, None] & is_value[None, :],
        other=0.0,
    )
    product = tl.dot(queries.to(DOT), memory.to(DOT), input_precision=PRECISION)
    live_2 = live.to(tl.float32)
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # X = phi(k)
    features = tl.where(is_feature[None, :], tl.where(k > 0.0, k + 1.0, tl.exp(tl.minimum(0.0, k))), 0.0)
    # Q X^T
    scores = tl.dot(queries.to(DOT), tl.trans(features.to(DOT)), input_precision=PRECISION)
    # (Q X^T) * P
    attention = tl.where(row[:, None] >= row[None, :], live_2[None, :] * scores, 0.0)
    v = tl.load(
        v_block + row[:, None] * v_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    product_2 = tl.dot(attention.to(DOT), v.to(DOT), input_precision=PRECISION)
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = product + product_2
    normaliser = tl.load(normaliser_blocks_pointer + slot * K + feature, mask=is_feature, other=0.0)
    product_3 = tl.sum(queries * normaliser[None, :], 1)
    # z . phi(q)
    total_weight = product_3 + tl.sum(attention, 1)
    inverse_total = tl.where(live_2 > 0.0, 1.0 / total_weight, 1.0)
    # the block's reads
    y = reads * inverse_total[:, None]
    y_block = y_pointer + (batch * tokens + start) * y_row + head * y_head
    tl.store(y_block + row[:, None] * y_row + value[None, :], y, mask=live[:, None] & is_value[None, :])


@triton.jit(do_not_specialize=["tokens", "blocks"])
def value_sums(
    d_y_pointer,
    k_pointer,
    length_pointer,
    memory_blocks_pointer,
    normaliser_blocks_pointer,
    position_pointer,
    q_pointer,
    sum_0_d_total_weight_pointer,
    v_pointer,
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
    K: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    V: tl.constexpr,
):
    """Sums over V of one block that the gradient of the memory needs."""
    program = tl.program_id(0)
    block = program % blocks
    memory_index = tl.cast(program // blocks, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    row = tl.arange(0, BLOCK_ROWS)
    feature = tl.arange(0, BLOCK_K)
    is_feature = feature < K
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    phase = 0
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    d_inverse_total = tl.zeros([BLOCK_ROWS], dtype=tl.float32)
    q = tl.load(
        q_block + row[:, None] * q_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # phi(q)
    queries = tl.where(is_feature[None, :], tl.where(q > 0.0, q + 1.0, tl.exp(tl.minimum(0.0, q))), 0.0)
    live_2 = live.to(tl.float32)
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # X = phi(k)
    features = tl.where(is_feature[None, :], tl.where(k > 0.0, k + 1.0, tl.exp(tl.minimum(0.0, k))), 0.0)
    # Q X^T
    scores = tl.dot(queries.to(DOT), tl.trans(features.to(DOT)), input_precision=PRECISION)
    # (Q X^T) * P
    attention = tl.where(row[:, None] >= row[None, :], live_2[None, :] * scores, 0.0)
    for value_start in range(0, V, BLOCK_V):
        value = value_start + tl.arange(0, BLOCK_V)
        is_value = value < V
        d_y = tl.load(
            d_y_block + row[:, None] * d_y_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        memory = tl.load(
            memory_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
            mask=is_feature[:, None] & is_value[None, :],
            other=0.0,
        )
        product = tl.dot(queries.to(DOT), memory.to(DOT), input_precision=PRECISION)
        v = tl.load(
            v_block + row[:, None] * v_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        product_2 = tl.dot(attention.to(DOT), v.to(DOT), input_precision=PRECISION)
        # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
        reads = product + product_2
        d_inverse_total += tl.sum(d_y * reads, 1)
    normaliser = tl.load(normaliser_blocks_pointer + slot * K + feature, mask=is_feature, other=0.0)
    product_3 = tl.sum(queries * normaliser[None, :], 1)
    # z . phi(q)
    total_weight = product_3 + tl.sum(attention, 1)
    value_2 = tl.where(live_2 > 0.0, -(1.0 / (total_weight * total_weight)), 0.0)
    d_total_weight = d_inverse_total * value_2
    tl.store(sum_0_d_total_weight_pointer + slot * ROWS + row, d_total_weight, mask=row < ROWS)


@triton.jit(do_not_specialize=["tokens", "blocks"])
def state_gradient(
    d_memory_final_pointer,
    d_memory_next_blocks_pointer,
    d_memory_pointer,
    d_normaliser_final_pointer,
    d_normaliser_next_blocks_pointer,
    d_normaliser_pointer,
    d_y_pointer,
    k_pointer,
    length_pointer,
    normaliser_blocks_pointer,
    position_pointer,
    q_pointer,
    sum_0_d_total_weight_pointer,
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
    BLOCK_K: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
    DOT: tl.constexpr,
    K: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    TILE_ROWS: tl.constexpr,
    V: tl.constexpr,
):
    """The gradient of the memory from the last block to the first, saved after each."""
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
    d_memory_next = tl.zeros([BLOCK_K, BLOCK_V], dtype=tl.float32)
    if GRAD_FINAL:
        d_memory_next += tl.load(
            d_memory_final_pointer + memory_index * (K * V) + feature[:, None] * V + value[None, :],
            mask=is_feature[:, None] & is_value[None, :],
            other=0.0,
        )
    d_normaliser_next = tl.zeros([BLOCK_K], dtype=tl.float32)
    if GRAD_FINAL:
        d_normaliser_next += tl.load(
            d_normaliser_final_pointer + memory_index * K + feature,
            mask=is_feature,
            other=0.0,
        )
    for step in range(0, blocks):
        block = blocks - 1 - step
        slot = memory_index * blocks + block
        start = tl.cast(block, tl.int64) * ROWS - phase
        first = tl.cast(tl.maximum(-start, 0), tl.int32)
        last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
        live = (row >= first) & (row < last)
        d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
        q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        tl.store(
            d_memory_next_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
            d_memory_next,
            mask=is_feature[:, None] & is_value[None, :],
        )
        if value_tile == 0:
            tl.store(
                d_normaliser_next_blocks_pointer + slot * K + feature,
                d_normaliser_next,
                mask=is_feature,
            )
        q = tl.load(
            q_block + row[:, None] * q_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        # phi(q)
        queries = tl.where(is_feature[None, :], tl.where(q > 0.0, q + 1.0, tl.exp(tl.minimum(0.0, q))), 0.0)
        normaliser = tl.load(normaliser_blocks_pointer + slot * K + feature, mask=is_feature, other=0.0)
        product = tl.sum(queries * normaliser[None, :], 1)
        # z . phi(q)
        total_weight = product
        for row_start in range(0, ROWS, TILE_ROWS):
            source = row_start + tl.arange(0, TILE_ROWS)
            is_source = (source >= first) & (source < last)
            live_2 = is_source.to(tl.float32)
            k = tl.load(
                k_block + source[:, None] * k_row + feature[None, :],
                mask=is_source[:, None] & is_feature[None, :],
                other=0.0,
            ).to(tl.float32)
            # X = phi(k)
            features = tl.where(
                is_feature[None, :],
                tl.where(k > 0.0, k + 1.0, tl.exp(tl.minimum(0.0, k))),
                0.0,
            )
            # Q X^T
            scores = tl.dot(queries.to(DOT), tl.trans(features.to(DOT)), input_precision=PRECISION)
            # (Q X^T) * P
            attention = tl.where(row[:, None] >= source[None, :], live_2[None, :] * scores, 0.0)
            total_weight += tl.sum(attention, 1)
        d_y = tl.load(
            d_y_block + row[:, None] * d_y_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        live_3 = live.to(tl.float32)
        inverse_total = tl.where(live_3 > 0.0, 1.0 / total_weight, 1.0)
        d_reads = d_y * inverse_total[:, None]
        product_2 = tl.dot(tl.trans(queries.to(DOT)), d_reads.to(DOT), input_precision=PRECISION)
        d_total_weight = tl.load(sum_0_d_total_weight_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
        product_3 = tl.sum(d_total_weight[:, None] * queries, 0)
        d_memory_next = d_memory_next + product_2
        d_normaliser_next = d_normaliser_next + product_3
    if GRAD_INITIAL:
        tl.store(
            d_memory_pointer + memory_index * (K * V) + feature[:, None] * V + value[None, :],
            d_memory_next,
            mask=is_feature[:, None] & is_value[None, :],
        )
        if value_tile == 0:
            tl.store(d_normaliser_pointer + memory_index * K + feature, d_normaliser_next, mask=is_feature)


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_v(
    d_memory_next_blocks_pointer,
    d_v_pointer,
    d_y_pointer,
    k_pointer,
    length_pointer,
    normaliser_blocks_pointer,
    position_pointer,
    q_pointer,
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
    BLOCK_K: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
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
    value = value_tile * BLOCK_V + tl.arange(0, BLOCK_V)
    is_value = value < V
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    phase = 0
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # X = phi(k)
    features = tl.where(is_feature[None, :], tl.where(k > 0.0, k + 1.0, tl.exp(tl.minimum(0.0, k))), 0.0)
    d_memory_next = tl.load(
        d_memory_next_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
        mask=is_feature[:, None] & is_value[None, :],
        other=0.0,
    )
    product = tl.dot(features.to(DOT), d_memory_next.to(DOT), input_precision=PRECISION)
    live_2 = live.to(tl.float32)
    d_y = tl.load(
        d_y_block + row[:, None] * d_y_row + value[None, :],
        mask=live[:, None] & is_value[None, :],
        other=0.0,
    ).to(tl.float32)
    q = tl.load(
        q_block + row[:, None] * q_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # phi(q)
    queries = tl.where(is_feature[None, :], tl.where(q > 0.0, q + 1.0, tl.exp(tl.minimum(0.0, q))), 0.0)
    normaliser = tl.load(normaliser_blocks_pointer + slot * K + feature, mask=is_feature, other=0.0)
    product_2 = tl.sum(queries * normaliser[None, :], 1)
    # Q X^T
    scores = tl.dot(queries.to(DOT), tl.trans(features.to(DOT)), input_precision=PRECISION)
    # (Q X^T) * P
    attention = tl.where(row[:, None] >= row[None, :], live_2[None, :] * scores, 0.0)
    # z . phi(q)
    total_weight = product_2 + tl.sum(attention, 1)
    inverse_total = tl.where(live_2 > 0.0, 1.0 / total_weight, 1.0)
    d_reads = d_y * inverse_total[:, None]
    product_3 = tl.dot(tl.trans(attention.to(DOT)), d_reads.to(DOT), input_precision=PRECISION)
    d_v_block = d_v_pointer + (batch * tokens + start) * d_v_row + head * d_v_head
    tl.store(
        d_v_block + row[:, None] * d_v_row + value[None, :],
        product * live_2[:, None] + product_3,
        mask=live[:, None] & is_value[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_q(
    d_q_pointer,
    d_y_pointer,
    k_pointer,
    length_pointer,
    memory_blocks_pointer,
    normaliser_blocks_pointer,
    position_pointer,
    q_pointer,
    sum_0_d_total_weight_pointer,
    v_pointer,
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
    BLOCK_K: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
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
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    phase = 0
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    d_total_weight = tl.load(sum_0_d_total_weight_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    d_attention = tl.zeros([BLOCK_ROWS, BLOCK_ROWS], dtype=tl.float32) + d_total_weight[:, None]
    product = tl.zeros([BLOCK_ROWS, BLOCK_K], dtype=tl.float32)
    q = tl.load(
        q_block + row[:, None] * q_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # phi(q)
    queries = tl.where(is_feature[None, :], tl.where(q > 0.0, q + 1.0, tl.exp(tl.minimum(0.0, q))), 0.0)
    normaliser = tl.load(normaliser_blocks_pointer + slot * K + feature, mask=is_feature, other=0.0)
    product_2 = tl.sum(queries * normaliser[None, :], 1)
    live_2 = live.to(tl.float32)
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # X = phi(k)
    features = tl.where(is_feature[None, :], tl.where(k > 0.0, k + 1.0, tl.exp(tl.minimum(0.0, k))), 0.0)
    # Q X^T
    scores = tl.dot(queries.to(DOT), tl.trans(features.to(DOT)), input_precision=PRECISION)
    # (Q X^T) * P
    attention = tl.where(row[:, None] >= row[None, :], live_2[None, :] * scores, 0.0)
    # z . phi(q)
    total_weight = product_2 + tl.sum(attention, 1)
    inverse_total = tl.where(live_2 > 0.0, 1.0 / total_weight, 1.0)
    for value_start in range(0, V, BLOCK_V):
        value = value_start + tl.arange(0, BLOCK_V)
        is_value = value < V
        d_y = tl.load(
            d_y_block + row[:, None] * d_y_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        d_reads = d_y * inverse_total[:, None]
        v = tl.load(
            v_block + row[:, None] * v_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        d_attention += tl.dot(d_reads.to(DOT), tl.trans(v.to(DOT)), input_precision=PRECISION)
        memory = tl.load(
            memory_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
            mask=is_feature[:, None] & is_value[None, :],
            other=0.0,
        )
        product += tl.dot(d_reads.to(DOT), tl.trans(memory.to(DOT)), input_precision=PRECISION)
    d_scores = tl.where(row[:, None] >= row[None, :], d_attention * live_2[None, :], 0.0)
    product_3 = tl.dot(d_scores.to(DOT), features.to(DOT), input_precision=PRECISION)
    d_queries = d_total_weight[:, None] * normaliser[None, :] + product_3 + product
    value_2 = tl.where(q > 0.0, 1.0, tl.where(q < 0.0, 1.0, 0.0) * tl.exp(tl.minimum(0.0, q)))
    d_q_block = d_q_pointer + (batch * tokens + start) * d_q_row + head * d_q_head
    tl.store(
        d_q_block + row[:, None] * d_q_row + feature[None, :],
        d_queries * value_2,
        mask=live[:, None] & is_feature[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def output_gradient_k(
    d_k_pointer,
    d_memory_next_blocks_pointer,
    d_normaliser_next_blocks_pointer,
    d_y_pointer,
    k_pointer,
    length_pointer,
    normaliser_blocks_pointer,
    position_pointer,
    q_pointer,
    sum_0_d_total_weight_pointer,
    v_pointer,
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
    BLOCK_K: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_V: tl.constexpr,
    DOT: tl.constexpr,
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
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    phase = 0
    slot = memory_index * blocks + block
    start = tl.cast(block, tl.int64) * ROWS - phase
    first = tl.cast(tl.maximum(-start, 0), tl.int32)
    last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
    live = (row >= first) & (row < last)
    v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
    d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
    q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
    k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
    d_normaliser_next = tl.load(
        d_normaliser_next_blocks_pointer + slot * K + feature,
        mask=is_feature,
        other=0.0,
    )
    combined = tl.zeros([BLOCK_ROWS, BLOCK_K], dtype=tl.float32) + d_normaliser_next[None, :]
    d_total_weight = tl.load(sum_0_d_total_weight_pointer + slot * ROWS + row, mask=row < ROWS, other=0.0)
    d_attention = tl.zeros([BLOCK_ROWS, BLOCK_ROWS], dtype=tl.float32) + d_total_weight[:, None]
    q = tl.load(
        q_block + row[:, None] * q_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # phi(q)
    queries = tl.where(is_feature[None, :], tl.where(q > 0.0, q + 1.0, tl.exp(tl.minimum(0.0, q))), 0.0)
    normaliser = tl.load(normaliser_blocks_pointer + slot * K + feature, mask=is_feature, other=0.0)
    product = tl.sum(queries * normaliser[None, :], 1)
    live_2 = live.to(tl.float32)
    k = tl.load(
        k_block + row[:, None] * k_row + feature[None, :],
        mask=live[:, None] & is_feature[None, :],
        other=0.0,
    ).to(tl.float32)
    # X = phi(k)
    features = tl.where(is_feature[None, :], tl.where(k > 0.0, k + 1.0, tl.exp(tl.minimum(0.0, k))), 0.0)
    # Q X^T
    scores = tl.dot(queries.to(DOT), tl.trans(features.to(DOT)), input_precision=PRECISION)
    # (Q X^T) * P
    attention = tl.where(row[:, None] >= row[None, :], live_2[None, :] * scores, 0.0)
    # z . phi(q)
    total_weight = product + tl.sum(attention, 1)
    inverse_total = tl.where(live_2 > 0.0, 1.0 / total_weight, 1.0)
    for value_start in range(0, V, BLOCK_V):
        value = value_start + tl.arange(0, BLOCK_V)
        is_value = value < V
        d_memory_next = tl.load(
            d_memory_next_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
            mask=is_feature[:, None] & is_value[None, :],
            other=0.0,
        )
        v = tl.load(
            v_block + row[:, None] * v_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        combined += tl.dot(v.to(DOT), tl.trans(d_memory_next.to(DOT)), input_precision=PRECISION)
        d_y = tl.load(
            d_y_block + row[:, None] * d_y_row + value[None, :],
            mask=live[:, None] & is_value[None, :],
            other=0.0,
        ).to(tl.float32)
        d_reads = d_y * inverse_total[:, None]
        d_attention += tl.dot(d_reads.to(DOT), tl.trans(v.to(DOT)), input_precision=PRECISION)
    d_scores = tl.where(row[:, None] >= row[None, :], d_attention * live_2[None, :], 0.0)
    product_2 = tl.dot(tl.trans(d_scores.to(DOT)), queries.to(DOT), input_precision=PRECISION)
    d_features = combined * live_2[:, None] + product_2
    value_2 = tl.where(k > 0.0, 1.0, tl.where(k < 0.0, 1.0, 0.0) * tl.exp(tl.minimum(0.0, k)))
    d_k_block = d_k_pointer + (batch * tokens + start) * d_k_row + head * d_k_head
    tl.store(
        d_k_block + row[:, None] * d_k_row + feature[None, :],
        d_features * value_2,
        mask=live[:, None] & is_feature[None, :],
    )

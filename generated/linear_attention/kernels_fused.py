"""Kernels of the memory rule linear_attention (fused).

Rule 3c1c8bdbb502, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
"""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["tokens", "blocks"])
def forward(
    k_pointer,
    length_pointer,
    memory_blocks_pointer,
    memory_final_pointer,
    memory_pointer,
    normaliser_blocks_pointer,
    normaliser_final_pointer,
    normaliser_pointer,
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
        live = (row >= first) & (row < last)
        q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
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
        q = tl.load(
            q_block + row[:, None] * q_row + feature[None, :],
            mask=live[:, None] & is_feature[None, :],
            other=0.0,
        ).to(tl.float32)
        # phi(q)
        queries = tl.where(is_feature[None, :], tl.where(q > 0.0, q + 1.0, tl.exp(tl.minimum(0.0, q))), 0.0)
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
        product_3 = tl.sum(queries * normaliser[None, :], 1)
        # z . phi(q)
        total_weight = product_3 + tl.sum(attention, 1)
        inverse_total = tl.where(live_2 > 0.0, 1.0 / total_weight, 1.0)
        # the block's reads
        y = reads * inverse_total[:, None]
        y_block = y_pointer + (batch * tokens + start) * y_row + head * y_head
        tl.store(y_block + row[:, None] * y_row + value[None, :], y, mask=live[:, None] & is_value[None, :])
        value_2 = live_2[:, None] * features
        product_4 = tl.dot(tl.trans(value_2.to(DOT)), v.to(DOT), input_precision=PRECISION)
        # M at the end
        memory_next = memory + product_4
        # M at the end
        normaliser_next = normaliser + tl.sum(value_2, 0)
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
def backward(
    d_k_pointer,
    d_memory_final_pointer,
    d_memory_pointer,
    d_normaliser_final_pointer,
    d_normaliser_pointer,
    d_q_pointer,
    d_v_pointer,
    d_y_pointer,
    k_pointer,
    length_pointer,
    memory_blocks_pointer,
    normaliser_blocks_pointer,
    position_pointer,
    q_pointer,
    v_pointer,
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
    V: tl.constexpr,
):
    """All gradients, from the last block to the first."""
    program = tl.program_id(0)
    memory_index = tl.cast(program, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    row = tl.arange(0, BLOCK_ROWS)
    feature = tl.arange(0, BLOCK_K)
    is_feature = feature < K
    value = tl.arange(0, BLOCK_V)
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
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
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
        d_inverse_total = tl.sum(d_y * reads, 1)
        normaliser = tl.load(normaliser_blocks_pointer + slot * K + feature, mask=is_feature, other=0.0)
        product_3 = tl.sum(queries * normaliser[None, :], 1)
        # z . phi(q)
        total_weight = product_3 + tl.sum(attention, 1)
        value_2 = tl.where(live_2 > 0.0, -(1.0 / (total_weight * total_weight)), 0.0)
        d_total_weight = d_inverse_total * value_2
        inverse_total = tl.where(live_2 > 0.0, 1.0 / total_weight, 1.0)
        d_reads = d_y * inverse_total[:, None]
        product_4 = tl.dot(d_reads.to(DOT), tl.trans(v.to(DOT)), input_precision=PRECISION)
        d_attention = d_total_weight[:, None] + product_4
        d_scores = tl.where(row[:, None] >= row[None, :], d_attention * live_2[None, :], 0.0)
        product_5 = tl.dot(d_scores.to(DOT), features.to(DOT), input_precision=PRECISION)
        product_6 = tl.dot(d_reads.to(DOT), tl.trans(memory.to(DOT)), input_precision=PRECISION)
        d_queries = d_total_weight[:, None] * normaliser[None, :] + product_5 + product_6
        value_3 = tl.where(q > 0.0, 1.0, tl.where(q < 0.0, 1.0, 0.0) * tl.exp(tl.minimum(0.0, q)))
        d_q_block = d_q_pointer + (batch * tokens + start) * d_q_row + head * d_q_head
        tl.store(
            d_q_block + row[:, None] * d_q_row + feature[None, :],
            d_queries * value_3,
            mask=live[:, None] & is_feature[None, :],
        )
        product_7 = tl.dot(v.to(DOT), tl.trans(d_memory_next.to(DOT)), input_precision=PRECISION)
        product_8 = tl.dot(tl.trans(d_scores.to(DOT)), queries.to(DOT), input_precision=PRECISION)
        d_features = (d_normaliser_next[None, :] + product_7) * live_2[:, None] + product_8
        value_4 = tl.where(k > 0.0, 1.0, tl.where(k < 0.0, 1.0, 0.0) * tl.exp(tl.minimum(0.0, k)))
        d_k_block = d_k_pointer + (batch * tokens + start) * d_k_row + head * d_k_head
        tl.store(
            d_k_block + row[:, None] * d_k_row + feature[None, :],
            d_features * value_4,
            mask=live[:, None] & is_feature[None, :],
        )
        product_9 = tl.dot(
            (live_2[:, None] * features).to(DOT),
            d_memory_next.to(DOT),
            input_precision=PRECISION,
        )
        product_10 = tl.dot(tl.trans(attention.to(DOT)), d_reads.to(DOT), input_precision=PRECISION)
        d_v_block = d_v_pointer + (batch * tokens + start) * d_v_row + head * d_v_head
        tl.store(
            d_v_block + row[:, None] * d_v_row + value[None, :],
            product_9 + product_10,
            mask=live[:, None] & is_value[None, :],
        )
        product_11 = tl.dot(tl.trans(queries.to(DOT)), d_reads.to(DOT), input_precision=PRECISION)
        product_12 = tl.sum(d_total_weight[:, None] * queries, 0)
        d_memory_next = d_memory_next + product_11
        d_normaliser_next = d_normaliser_next + product_12
    if GRAD_INITIAL:
        tl.store(
            d_memory_pointer + memory_index * (K * V) + feature[:, None] * V + value[None, :],
            d_memory_next,
            mask=is_feature[:, None] & is_value[None, :],
        )
        tl.store(d_normaliser_pointer + memory_index * K + feature, d_normaliser_next, mask=is_feature)

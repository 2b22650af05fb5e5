"""Kernels of the memory rule longhorn (fused).

Rule 737cfd27d109, schedule recurrent, generator 1. Written by `atlasgen build`; edit the spec, not this file.
"""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["tokens", "blocks"])
def forward(
    k_pointer,
    length_pointer,
    lr_pointer,
    memory_blocks_pointer,
    memory_final_pointer,
    memory_pointer,
    position_pointer,
    q_pointer,
    v_pointer,
    y_pointer,
    k_head,
    k_row,
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
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
    K: tl.constexpr,
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
    feature = tl.arange(0, BLOCK_K)
    is_feature = feature < K
    value = value_tile * BLOCK_V + tl.arange(0, BLOCK_V)
    is_value = value < V
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    position = tl.load(position_pointer + batch) if RESUME else 0
    phase = position % ROWS
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
        last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
        live = last > 0
        q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
        if SAVE:
            tl.store(
                memory_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
                memory,
                mask=is_feature[:, None] & is_value[None, :],
            )
        q = tl.load(q_block + feature, mask=live & is_feature, other=0.0).to(tl.float32)
        product = tl.sum(q[:, None] * memory, 0)
        live_2 = live.to(tl.float32)
        k = tl.load(k_block + feature, mask=live & is_feature, other=0.0).to(tl.float32)
        value_2 = live_2 * k
        product_2 = tl.sum(q * value_2, 0)
        lr = tl.load(lr_block + value, mask=live & is_value, other=0.0).to(tl.float32)
        # pred = phi(k) M*
        predictions = tl.sum(k[:, None] * memory, 0)
        v = tl.load(v_block + value, mask=live & is_value, other=0.0).to(tl.float32)
        # E = dl/dpred at the block's M*
        errors = predictions - v
        value_3 = lr * (1.0 / (lr * tl.sum(k * k, 0) + 1.0)) * errors
        # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
        reads = product - product_2 * value_3
        y_block = y_pointer + (batch * tokens + start) * y_row + head * y_head
        tl.store(y_block + value, reads, mask=live & is_value)
        # M after the token
        memory_next = memory - value_2[:, None] * value_3[None, :]
        memory = memory_next
    if STORE_FINAL:
        tl.store(
            memory_final_pointer + memory_index * (K * V) + feature[:, None] * V + value[None, :],
            memory,
            mask=is_feature[:, None] & is_value[None, :],
        )


@triton.jit(do_not_specialize=["tokens", "blocks"])
def backward(
    d_k_pointer,
    d_lr_pointer,
    d_memory_final_pointer,
    d_memory_pointer,
    d_q_pointer,
    d_v_pointer,
    d_y_pointer,
    k_pointer,
    length_pointer,
    lr_pointer,
    memory_blocks_pointer,
    position_pointer,
    q_pointer,
    v_pointer,
    d_k_head,
    d_k_row,
    d_lr_head,
    d_lr_row,
    d_q_head,
    d_q_row,
    d_v_head,
    d_v_row,
    d_y_head,
    d_y_row,
    k_head,
    k_row,
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
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
    K: tl.constexpr,
    ROWS: tl.constexpr,
    V: tl.constexpr,
):
    """All gradients, from the last block to the first."""
    program = tl.program_id(0)
    memory_index = tl.cast(program, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    feature = tl.arange(0, BLOCK_K)
    is_feature = feature < K
    value = tl.arange(0, BLOCK_V)
    is_value = value < V
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    position = tl.load(position_pointer + batch) if RESUME else 0
    phase = position % ROWS
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
        last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)
        live = last > 0
        d_y_block = d_y_pointer + (batch * tokens + start) * d_y_row + head * d_y_head
        lr_block = lr_pointer + (batch * tokens + start) * lr_row + head * lr_head
        k_block = k_pointer + (batch * tokens + start) * k_row + head * k_head
        v_block = v_pointer + (batch * tokens + start) * v_row + head * v_head
        q_block = q_pointer + (batch * tokens + start) * q_row + head * q_head
        d_y = tl.load(d_y_block + value, mask=live & is_value, other=0.0).to(tl.float32)
        memory = tl.load(
            memory_blocks_pointer + slot * (K * V) + feature[:, None] * V + value[None, :],
            mask=is_feature[:, None] & is_value[None, :],
            other=0.0,
        )
        product = tl.sum(d_y[None, :] * memory, 1)
        lr = tl.load(lr_block + value, mask=live & is_value, other=0.0).to(tl.float32)
        k = tl.load(k_block + feature, mask=live & is_feature, other=0.0).to(tl.float32)
        total = tl.sum(k * k, 0)
        value_2 = lr * (1.0 / (lr * total + 1.0))
        # pred = phi(k) M*
        predictions = tl.sum(k[:, None] * memory, 0)
        v = tl.load(v_block + value, mask=live & is_value, other=0.0).to(tl.float32)
        # E = dl/dpred at the block's M*
        errors = predictions - v
        value_3 = value_2 * errors
        product_2 = tl.sum(d_y * value_3, 0)
        live_2 = live.to(tl.float32)
        value_4 = live_2 * k
        d_q_block = d_q_pointer + (batch * tokens + start) * d_q_row + head * d_q_head
        tl.store(d_q_block + feature, product - product_2 * value_4, mask=live & is_feature)
        product_3 = tl.sum(d_memory_next * value_4[:, None], 0)
        q = tl.load(q_block + feature, mask=live & is_feature, other=0.0).to(tl.float32)
        product_4 = tl.sum(q * value_4, 0)
        combined = -product_3 - d_y * product_4
        d_errors = combined * value_2
        product_5 = tl.sum(d_errors[None, :] * memory, 1)
        value_5 = combined * errors
        value_6 = -(lr * lr) * (1.0 / ((lr * total + 1.0) * (lr * total + 1.0)))
        product_6 = tl.sum(d_memory_next * value_3[None, :], 1)
        combined_2 = (
            product_5 + tl.sum(value_5 * value_6, 0) * (2.0 * k) + (-product_6 - product_2 * q) * live_2
        )
        d_k_block = d_k_pointer + (batch * tokens + start) * d_k_row + head * d_k_head
        tl.store(d_k_block + feature, combined_2, mask=live & is_feature)
        value_7 = tl.where(
            is_value,
            -lr * total * (1.0 / ((lr * total + 1.0) * (lr * total + 1.0))) + 1.0 / (lr * total + 1.0),
            0.0,
        )
        d_lr_block = d_lr_pointer + (batch * tokens + start) * d_lr_row + head * d_lr_head
        tl.store(d_lr_block + value, value_5 * value_7, mask=live & is_value)
        d_v_block = d_v_pointer + (batch * tokens + start) * d_v_row + head * d_v_head
        tl.store(d_v_block + value, -d_errors, mask=live & is_value)
        combined_3 = d_memory_next + d_errors[None, :] * k[:, None] + d_y[None, :] * q[:, None]
        d_memory_next = combined_3
    if GRAD_INITIAL:
        tl.store(
            d_memory_pointer + memory_index * (K * V) + feature[:, None] * V + value[None, :],
            d_memory_next,
            mask=is_feature[:, None] & is_value[None, :],
        )

"""The memory rule deltanet as a torch program: `forward` and `backward` of all blocks.

Arrays are [B, H, N, ...] over N blocks; `blocks` is atlasgen.runtime.blocks.
Rule d45c981804be, schedule wy, generator 1. Written by `atlasgen build`; edit the spec, not this file.
"""

import torch


def forward(blocks, count, rows, halo, window, resumed, q, memory, k, lr, v):
    """The loop over blocks, then the reads of all blocks."""
    like = q
    row, halo_row = blocks.positions(rows, halo, False)
    block = None  # all blocks at once
    # Q X^T
    scores = torch.matmul(k, k.mT)
    # (Q X^T) * P
    attention = scores * lr[..., None, :] * blocks.band(row, row, 1, None, like)
    # (I + A)^-1
    inverse = blocks.unit_inverse(attention, True)
    del attention
    value = k * lr[..., :, None]
    memory_like = memory
    memory = memory.flatten(0, 1)
    memory_list = []
    kept_errors = []
    k_each = blocks.each(k, count, memory_like)
    inverse_each = blocks.each(inverse, count, memory_like)
    v_each = blocks.each(v, count, memory_like)
    value_each = blocks.each(value, count, memory_like)
    del value
    for block in range(count):
        memory_list.append(memory)
        # R: the error at what the block's start gives
        residual = torch.baddbmm(v_each[block], k_each[block], memory, beta=-1)
        # E = (I + A)^-1 R
        errors = torch.matmul(inverse_each[block].mT, residual)
        # M at the end
        memory_next = torch.baddbmm(memory, value_each[block].mT, errors, alpha=-1)
        kept_errors.append(errors)
        memory = memory_next
    del inverse_each, k_each, v_each, value_each
    block = None
    memory_final = memory.unflatten(0, memory_like.shape[:2])
    memory_blocks = blocks.stack(memory_list, memory_like)
    del memory_list
    errors_2 = blocks.stack(kept_errors, memory_like)
    del kept_errors
    product = torch.matmul(q, memory_blocks)
    # Q X^T
    scores_2 = torch.matmul(q, k.mT)
    # (Q X^T) * P
    attention_2 = scores_2 * lr[..., None, :] * blocks.band(row, row, 0, None, like)
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = blocks.add_product(product, attention_2, errors_2, -1)
    del attention_2, product
    return {
        "y": reads,
        "saved_0": scores_2,
        "saved_1": scores,
        "saved_2": inverse,
        "saved_3": errors_2,
        "memory": memory_final,
        "memory_blocks": memory_blocks,
    }


def backward(
    blocks,
    count,
    rows,
    halo,
    window,
    resumed,
    d_y,
    memory,
    lr,
    k,
    d_memory_next,
    q,
    saved_3,
    saved_0,
    saved_2,
    saved_1,
):
    """The loop over blocks from the last to the first, then the gradients of all rows."""
    like = d_y
    row, halo_row = blocks.positions(rows, halo, False)
    block = None  # all blocks at once
    value = k * lr[..., :, None]
    # (Q X^T) * P
    attention = saved_0 * lr[..., None, :] * blocks.band(row, row, 0, None, like)
    product = torch.matmul(attention.mT, d_y)
    del attention
    product_2 = torch.matmul(q.mT, d_y)
    d_memory_next_like = d_memory_next
    d_memory_next = d_memory_next.flatten(0, 1)
    d_memory_next_list = []
    kept_d_residual = []
    value_each = blocks.each(value, count, d_memory_next_like)
    del value
    product_each = blocks.each(product, count, d_memory_next_like)
    del product
    saved_2_each = blocks.each(saved_2, count, d_memory_next_like)
    k_each = blocks.each(k, count, d_memory_next_like)
    product_2_each = blocks.each(product_2, count, d_memory_next_like)
    del product_2
    for block in reversed(range(count)):
        d_memory_next_list.append(d_memory_next)
        d_errors = torch.baddbmm(product_each[block], value_each[block], d_memory_next, beta=-1, alpha=-1)
        d_residual = torch.matmul(saved_2_each[block], d_errors)
        combined = torch.baddbmm(d_memory_next + product_2_each[block], k_each[block].mT, d_residual)
        kept_d_residual.append(d_residual)
        d_memory_next = combined
    del k_each, product_2_each, product_each, saved_2_each, value_each
    block = None
    d_memory_next_final = d_memory_next.unflatten(0, d_memory_next_like.shape[:2])
    d_memory_next_blocks = blocks.stack(d_memory_next_list[::-1], d_memory_next_like)
    del d_memory_next_list
    d_residual_2 = blocks.stack(kept_d_residual[::-1], d_memory_next_like)
    del kept_d_residual
    product_3 = torch.matmul(d_y, memory.mT)
    product_4 = torch.matmul(d_y, saved_3.mT)
    banded = product_4 * lr[..., None, :] * blocks.band(row, row, 0, None, like)
    combined_2 = blocks.add_product(product_3, banded, k, -1)
    del product_3
    product_5 = torch.matmul(d_residual_2, saved_3.mT)
    banded_2 = product_5 * lr[..., None, :] * blocks.band(row, row, 1, None, like)
    product_6 = torch.matmul(banded_2.mT, k)
    product_7 = torch.matmul(saved_3, d_memory_next_blocks.mT)
    value_2 = product_7 * lr[..., :, None]
    combined_3 = blocks.add_product(-product_6 - value_2, banded.mT, q, -1)
    del banded, product_6, value_2
    total = (product_5 * saved_1 * blocks.band(row, row, 1, None, like)).sum(-2)
    del product_5
    total_2 = (product_4 * saved_0 * blocks.band(row, row, 0, None, like)).sum(-2)
    del product_4
    d_last_weights = -(product_7 * k).sum(-1) - total - total_2
    del product_7
    product_8 = torch.matmul(d_residual_2, memory.mT)
    combined_4 = blocks.add_product(product_8, banded_2, k, -1)
    del banded_2, product_8
    value_3 = -d_residual_2
    del d_residual_2
    return {
        "part_0": combined_2,
        "part_1": combined_3,
        "part_2": d_last_weights,
        "part_3": combined_4,
        "part_4": value_3,
        "d_memory": d_memory_next_final,
        "d_memory_blocks": d_memory_next_blocks,
    }

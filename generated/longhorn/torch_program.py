"""The memory rule longhorn as a torch program: `forward` and `backward` of all blocks.

Arrays are [B, H, N, ...] over N blocks; `blocks` is atlasgen.runtime.blocks.
Rule 737cfd27d109, schedule recurrent, generator 1. Written by `atlasgen build`; edit the spec, not this file.
"""

import torch


def forward(blocks, count, rows, halo, window, resumed, q, memory, k, live, v, lr):
    """The loop over blocks, then the reads of all blocks."""
    block = None  # all blocks at once
    value = k * live[..., :, None]
    total = (k * k).sum(-1).sum(-1)
    value_2 = lr.sum(-2) * (1.0 / (lr.sum(-2) * total[..., None] + 1.0))
    memory_like = memory
    memory = memory.flatten(0, 1)
    memory_list = []
    kept_errors = []
    kept_value = []
    k_each = blocks.each(k, count, memory_like)
    value_each = blocks.each(value, count, memory_like)
    v_each = blocks.each(v, count, memory_like)
    value_2_each = blocks.each(value_2, count, memory_like)
    del value_2
    for block in range(count):
        memory_list.append(memory)
        # E = dl/dpred at the block's M*
        errors = torch.baddbmm(v_each[block], k_each[block], memory, beta=-1)
        value_3 = errors * value_2_each[block][..., None, :]
        # M after the token
        memory_next = torch.baddbmm(memory, value_each[block].mT, value_3, alpha=-1)
        kept_errors.append(errors)
        kept_value.append(value_3)
        memory = memory_next
    del k_each, v_each, value_2_each, value_each
    block = None
    memory_final = memory.unflatten(0, memory_like.shape[:2])
    memory_blocks = blocks.stack(memory_list, memory_like)
    del memory_list
    errors_2 = blocks.stack(kept_errors, memory_like)
    del kept_errors
    kept_value_all = blocks.stack(kept_value, memory_like)
    del kept_value
    product = torch.matmul(q, memory_blocks)
    product_2 = torch.matmul(q, value.mT)
    del value
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = blocks.add_product(product, product_2, kept_value_all, -1)
    del kept_value_all, product
    return {
        "y": reads,
        "saved_0": product_2,
        "saved_1": errors_2,
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
    live,
    d_memory_next,
    q,
    saved_1,
    saved_0,
):
    """The loop over blocks from the last to the first, then the gradients of all rows."""
    block = None  # all blocks at once
    total = lr.sum(-2)
    total_2 = (k * k).sum(-1).sum(-1)
    value = total * (1.0 / (total * total_2[..., None] + 1.0))
    value_2 = k * live[..., :, None]
    product = torch.matmul(saved_0.mT, d_y)
    product_2 = torch.matmul(q.mT, d_y)
    d_memory_next_like = d_memory_next
    d_memory_next = d_memory_next.flatten(0, 1)
    d_memory_next_list = []
    kept_value = []
    kept_d_errors = []
    k_each = blocks.each(k, count, d_memory_next_like)
    value_each = blocks.each(value, count, d_memory_next_like)
    value_2_each = blocks.each(value_2, count, d_memory_next_like)
    product_each = blocks.each(product, count, d_memory_next_like)
    del product
    product_2_each = blocks.each(product_2, count, d_memory_next_like)
    del product_2
    for block in reversed(range(count)):
        d_memory_next_list.append(d_memory_next)
        combined = torch.baddbmm(product_each[block], value_2_each[block], d_memory_next, beta=-1, alpha=-1)
        d_errors = combined * value_each[block][..., None, :]
        combined_2 = torch.baddbmm(d_memory_next + product_2_each[block], k_each[block].mT, d_errors)
        kept_value.append(combined)
        kept_d_errors.append(d_errors)
        d_memory_next = combined_2
    del k_each, product_2_each, product_each, value_2_each, value_each
    block = None
    d_memory_next_final = d_memory_next.unflatten(0, d_memory_next_like.shape[:2])
    d_memory_next_blocks = blocks.stack(d_memory_next_list[::-1], d_memory_next_like)
    del d_memory_next_list
    kept_value_all = blocks.stack(kept_value[::-1], d_memory_next_like)
    del kept_value
    d_errors_2 = blocks.stack(kept_d_errors[::-1], d_memory_next_like)
    del kept_d_errors
    product_3 = torch.matmul(d_y, memory.mT)
    value_3 = saved_1 * value[..., None, :]
    del value
    product_4 = torch.matmul(d_y, value_3.mT)
    combined_3 = blocks.add_product(product_3, product_4, value_2, -1)
    del product_3, value_2
    total_3 = (kept_value_all * saved_1).sum(-2)
    del kept_value_all
    value_4 = -(total * total) * (
        1.0 / ((total * total_2[..., None] + 1.0) * (total * total_2[..., None] + 1.0))
    )
    product_5 = torch.matmul(value_3, d_memory_next_blocks.mT)
    del value_3
    product_6 = torch.matmul(product_4.mT, q)
    del product_4
    value_5 = 2.0 * k * (total_3 * value_4).sum(-1)[..., None, None]
    value_6 = (-product_5 - product_6) * live[..., :, None]
    del product_5, product_6
    combined_4 = blocks.add_product(value_5 + value_6, d_errors_2, memory.mT, 1)
    del value_5, value_6
    value_7 = -d_errors_2
    del d_errors_2
    value_8 = -total * total_2[..., None] * (
        1.0 / ((total * total_2[..., None] + 1.0) * (total * total_2[..., None] + 1.0))
    ) + 1.0 / (total * total_2[..., None] + 1.0)
    value_9 = total_3 * value_8
    return {
        "part_0": combined_3,
        "part_1": combined_4,
        "part_2": value_7,
        "part_3": value_9,
        "d_memory": d_memory_next_final,
        "d_memory_blocks": d_memory_next_blocks,
    }

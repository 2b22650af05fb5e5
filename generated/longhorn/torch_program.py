"""The memory rule longhorn as a torch program: `forward` and `backward` of all blocks.

Arrays are [B, H, N, ...] over N blocks; `blocks` is atlasgen.runtime.blocks.
Rule 737cfd27d109, schedule wy, generator 1. Written by `atlasgen build`; edit the spec, not this file.
"""

import torch


def forward(blocks, count, rows, halo, window, resumed, q, memory, k, live, lr, v):
    """The loop over blocks, then the reads of all blocks."""
    like = q
    row, halo_row = blocks.positions(rows, halo, False)
    block = None  # all blocks at once
    # Q X^T
    scores = torch.matmul(k, k.mT)
    # (Q X^T) * P
    attention = scores * live[..., None, :] * blocks.band(row, row, 1, None, like)
    del scores
    product = (k * k).sum(-1)
    # g: the slope of an error, by value channel
    slope = lr * (1.0 / (lr * product[..., :, None] + 1.0))
    value = k * live[..., :, None]
    memory_like = memory
    memory = memory.flatten(0, 1)
    memory_list = []
    kept_residual = []
    kept_errors = []
    k_each = blocks.each(k, count, memory_like)
    attention_each = blocks.each(attention, count, memory_like)
    slope_each = blocks.each(slope, count, memory_like)
    del slope
    v_each = blocks.each(v, count, memory_like)
    value_each = blocks.each(value, count, memory_like)
    del value
    for block in range(count):
        memory_list.append(memory)
        # R: the error at what the block's start gives
        residual = torch.baddbmm(v_each[block], k_each[block], memory, beta=-1)
        value_2 = slope_each[block] * residual
        # E = R - g (A E)
        errors = blocks.unit_solve(attention_each[block], slope_each[block], value_2, False)
        # M at the end
        memory_next = torch.baddbmm(memory, value_each[block].mT, errors, alpha=-1)
        kept_residual.append(residual)
        kept_errors.append(errors)
        memory = memory_next
    del attention_each, k_each, slope_each, v_each, value_each
    block = None
    memory_final = memory.unflatten(0, memory_like.shape[:2])
    memory_blocks = blocks.stack(memory_list, memory_like)
    del memory_list
    residual_2 = blocks.stack(kept_residual, memory_like)
    del kept_residual
    errors_2 = blocks.stack(kept_errors, memory_like)
    del kept_errors
    product_2 = torch.matmul(q, memory_blocks)
    # Q X^T
    scores_2 = torch.matmul(q, k.mT)
    # (Q X^T) * P
    attention_2 = scores_2 * live[..., None, :] * blocks.band(row, row, 0, None, like)
    del scores_2
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = blocks.add_product(product_2, attention_2, errors_2, -1)
    del product_2
    return {
        "y": reads,
        "saved_0": attention_2,
        "saved_1": attention,
        "saved_2": residual_2,
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
    live,
    k,
    lr,
    d_memory_next,
    q,
    saved_3,
    saved_1,
    saved_0,
    saved_2,
):
    """The loop over blocks from the last to the first, then the gradients of all rows."""
    like = d_y
    row, halo_row = blocks.positions(rows, halo, False)
    block = None  # all blocks at once
    product = (k * k).sum(-1)
    # g: the slope of an error, by value channel
    slope = lr * (1.0 / (lr * product[..., :, None] + 1.0))
    value = k * live[..., :, None]
    product_2 = torch.matmul(saved_0.mT, d_y)
    product_3 = torch.matmul(q.mT, d_y)
    d_memory_next_like = d_memory_next
    d_memory_next = d_memory_next.flatten(0, 1)
    d_memory_next_list = []
    kept_value = []
    kept_d_residual = []
    k_each = blocks.each(k, count, d_memory_next_like)
    slope_each = blocks.each(slope, count, d_memory_next_like)
    saved_1_each = blocks.each(saved_1, count, d_memory_next_like)
    value_each = blocks.each(value, count, d_memory_next_like)
    del value
    product_2_each = blocks.each(product_2, count, d_memory_next_like)
    del product_2
    product_3_each = blocks.each(product_3, count, d_memory_next_like)
    del product_3
    for block in reversed(range(count)):
        d_memory_next_list.append(d_memory_next)
        d_errors = torch.baddbmm(product_2_each[block], value_each[block], d_memory_next, beta=-1, alpha=-1)
        solution = blocks.unit_solve(saved_1_each[block], slope_each[block], d_errors, True)
        d_residual = solution * slope_each[block]
        combined = torch.baddbmm(d_memory_next + product_3_each[block], k_each[block].mT, d_residual)
        kept_value.append(solution)
        kept_d_residual.append(d_residual)
        d_memory_next = combined
    del k_each, product_2_each, product_3_each, saved_1_each, slope_each, value_each
    block = None
    d_memory_next_final = d_memory_next.unflatten(0, d_memory_next_like.shape[:2])
    d_memory_next_blocks = blocks.stack(d_memory_next_list[::-1], d_memory_next_like)
    del d_memory_next_list
    kept_value_all = blocks.stack(kept_value[::-1], d_memory_next_like)
    del kept_value
    d_residual_2 = blocks.stack(kept_d_residual[::-1], d_memory_next_like)
    del kept_d_residual
    product_4 = torch.matmul(d_y, memory.mT)
    product_5 = torch.matmul(d_y, saved_3.mT)
    banded = product_5 * live[..., None, :] * blocks.band(row, row, 0, None, like)
    del product_5
    combined_2 = blocks.add_product(product_4, banded, k, -1)
    del product_4
    product_6 = torch.matmul(slope * kept_value_all, saved_3.mT)
    del slope
    banded_2 = product_6 * live[..., None, :] * blocks.band(row, row, 1, None, like)
    del product_6
    banded_3 = banded_2 * blocks.band(row, row, 1, None, like)
    del banded_2
    product_7 = torch.matmul(banded_3.mT, k)
    product_8 = torch.matmul(saved_3, d_memory_next_blocks.mT)
    value_2 = product_8 * live[..., :, None]
    del product_8
    combined_3 = blocks.add_product(-product_7 - value_2, banded.mT, q, -1)
    del banded, product_7, value_2
    product_9 = torch.matmul(saved_1, saved_3)
    d_slope = kept_value_all * saved_2 - kept_value_all * product_9
    del kept_value_all, product_9
    value_3 = -(lr * lr) * (1.0 / ((lr * product[..., :, None] + 1.0) * (lr * product[..., :, None] + 1.0)))
    value_4 = 2.0 * (k * (d_slope * value_3).sum(-1)[..., :, None])
    del value_3
    combined_4 = blocks.add_product(blocks.add_product(value_4, d_residual_2, memory.mT, 1), banded_3, k, -1)
    del banded_3, value_4
    value_5 = -lr * product[..., :, None] * (
        1.0 / ((lr * product[..., :, None] + 1.0) * (lr * product[..., :, None] + 1.0))
    ) + 1.0 / (lr * product[..., :, None] + 1.0)
    value_6 = d_slope * value_5
    del d_slope, value_5
    value_7 = -d_residual_2
    del d_residual_2
    return {
        "part_0": combined_2,
        "part_1": combined_3,
        "part_2": combined_4,
        "part_3": value_6,
        "part_4": value_7,
        "d_memory": d_memory_next_final,
        "d_memory_blocks": d_memory_next_blocks,
    }

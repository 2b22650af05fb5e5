"""The memory rule deltaproduct as a torch program: `forward` and `backward` of all blocks.

Arrays are [B, H, N, ...] over N blocks; `blocks` is atlasgen.runtime.blocks.
Rule a618e2792af2, schedule wy, generator 1. Written by `atlasgen build`; edit the spec, not this file.
"""

import torch


def forward(blocks, count, rows, halo, window, resumed, q, memory, log_alpha, k, lr, v):
    """The loop over blocks, then the reads of all blocks."""
    like = q
    row, halo_row = blocks.positions(rows, halo, False)
    block = None  # all blocks at once
    log_alpha_sums = blocks.running(log_alpha)
    # a: decay of the memory since the block's start
    read_decay = blocks.decay_from_start(log_alpha_sums, False)
    decay = blocks.decay(log_alpha_sums, False)
    # Q X^T
    scores = torch.matmul(k, k.mT)
    # (Q X^T) * P
    attention = decay * scores * lr[..., None, :] * blocks.band(row, row, 1, None, like)
    # (I + A)^-1
    inverse = blocks.unit_inverse(attention, True)
    del attention
    # a_C: decay of the memory over the block
    kept = blocks.decay_whole(log_alpha_sums)
    # p_C: last row of P
    last_weights = blocks.decay_to_end(log_alpha_sums) * lr
    value = k * last_weights[..., :, None]
    memory_like = memory
    memory = memory.flatten(0, 1)
    memory_list = []
    kept_value = []
    kept_errors = []
    read_decay_each = blocks.each(read_decay, count, memory_like)
    k_each = blocks.each(k, count, memory_like)
    inverse_each = blocks.each(inverse, count, memory_like)
    v_each = blocks.each(v, count, memory_like)
    kept_each = blocks.each(kept, count, memory_like)
    del kept
    value_each = blocks.each(value, count, memory_like)
    del value
    for block in range(count):
        memory_list.append(memory)
        product = torch.matmul(k_each[block], memory)
        # what the block's start predicts for each key
        predictions_given = product * read_decay_each[block][..., :, None]
        # R: the error at what the block's start gives
        residual = predictions_given - v_each[block]
        # E = (I + A)^-1 R
        errors = torch.matmul(inverse_each[block].mT, residual)
        value_2 = memory * kept_each[block][..., None, None]
        # M at the end
        memory_next = torch.baddbmm(value_2, value_each[block].mT, errors, alpha=-1)
        kept_value.append(product)
        kept_errors.append(errors)
        memory = memory_next
    del inverse_each, k_each, kept_each, read_decay_each, v_each, value_each
    block = None
    memory_final = memory.unflatten(0, memory_like.shape[:2])
    memory_blocks = blocks.stack(memory_list, memory_like)
    del memory_list
    kept_value_all = blocks.stack(kept_value, memory_like)
    del kept_value
    errors_2 = blocks.stack(kept_errors, memory_like)
    del kept_errors
    product_2 = torch.matmul(q, memory_blocks)
    # Q X^T
    scores_2 = torch.matmul(q, k.mT)
    # (Q X^T) * P
    attention_2 = scores_2 * decay * lr[..., None, :]
    value_3 = product_2 * read_decay[..., :, None]
    del read_decay
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = blocks.add_product(value_3, attention_2, errors_2, -1)
    del attention_2, value_3
    return {
        "y": reads,
        "saved_0": product_2,
        "saved_1": scores_2,
        "saved_2": decay,
        "saved_3": scores,
        "saved_4": inverse,
        "saved_5": kept_value_all,
        "saved_6": errors_2,
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
    log_alpha,
    memory,
    lr,
    k,
    d_memory_next,
    q,
    saved_6,
    saved_2,
    saved_1,
    saved_4,
    saved_5,
    saved_0,
    saved_3,
):
    """The loop over blocks from the last to the first, then the gradients of all rows."""
    like = d_y
    row, halo_row = blocks.positions(rows, halo, False)
    block = None  # all blocks at once
    log_alpha_sums = blocks.running(log_alpha)
    # a: decay of the memory since the block's start
    read_decay = blocks.decay_from_start(log_alpha_sums, False)
    value = d_y * read_decay[..., :, None]
    until_end = blocks.decay_to_end(log_alpha_sums)
    # p_C: last row of P
    last_weights = until_end * lr
    value_2 = k * last_weights[..., :, None]
    value_3 = saved_1 * saved_2
    # (Q X^T) * P
    attention = value_3 * lr[..., None, :]
    product = torch.matmul(attention.mT, d_y)
    del attention
    # a_C: decay of the memory over the block
    kept = blocks.decay_whole(log_alpha_sums)
    product_2 = torch.matmul(q.mT, value)
    d_memory_next_like = d_memory_next
    d_memory_next = d_memory_next.flatten(0, 1)
    d_memory_next_list = []
    kept_d_residual = []
    kept_value = []
    read_decay_each = blocks.each(read_decay, count, d_memory_next_like)
    value_2_each = blocks.each(value_2, count, d_memory_next_like)
    del value_2
    product_each = blocks.each(product, count, d_memory_next_like)
    del product
    saved_4_each = blocks.each(saved_4, count, d_memory_next_like)
    k_each = blocks.each(k, count, d_memory_next_like)
    kept_each = blocks.each(kept, count, d_memory_next_like)
    product_2_each = blocks.each(product_2, count, d_memory_next_like)
    del product_2
    for block in reversed(range(count)):
        d_memory_next_list.append(d_memory_next)
        d_errors = torch.baddbmm(product_each[block], value_2_each[block], d_memory_next, beta=-1, alpha=-1)
        d_residual = torch.matmul(saved_4_each[block], d_errors)
        value_4 = d_residual * read_decay_each[block][..., :, None]
        value_5 = d_memory_next * kept_each[block][..., None, None]
        combined = torch.baddbmm(value_5 + product_2_each[block], k_each[block].mT, value_4)
        kept_d_residual.append(d_residual)
        kept_value.append(value_4)
        d_memory_next = combined
    del k_each, kept_each, product_2_each, product_each, read_decay_each, saved_4_each
    del value_2_each
    block = None
    d_memory_next_final = d_memory_next.unflatten(0, d_memory_next_like.shape[:2])
    d_memory_next_blocks = blocks.stack(d_memory_next_list[::-1], d_memory_next_like)
    del d_memory_next_list
    d_residual_2 = blocks.stack(kept_d_residual[::-1], d_memory_next_like)
    del kept_d_residual
    kept_value_all = blocks.stack(kept_value[::-1], d_memory_next_like)
    del kept_value
    product_3 = torch.matmul(value, memory.mT)
    del value
    product_4 = torch.matmul(d_y, saved_6.mT)
    value_6 = product_4 * lr[..., None, :]
    value_7 = value_6 * saved_2
    combined_2 = blocks.add_product(product_3, value_7, k, -1)
    del product_3
    d_read_decay = (d_residual_2 * saved_5).sum(-1) + (d_y * saved_0).sum(-1)
    running = blocks.cumsum(d_read_decay * read_decay, -1, True, False)
    del read_decay
    product_5 = torch.matmul(d_residual_2, saved_6.mT)
    value_8 = product_5 * lr[..., None, :]
    banded = value_8 * saved_2 * blocks.band(row, row, 1, None, like)
    product_6 = torch.matmul(banded.mT, k)
    product_7 = torch.matmul(saved_6, d_memory_next_blocks.mT)
    value_9 = product_7 * last_weights[..., :, None]
    combined_3 = blocks.add_product(-product_6 - value_9, value_7.mT, q, -1)
    del product_6, value_7, value_9
    banded_2 = value_8 * saved_3 * blocks.band(row, row, 1, None, like)
    del value_8
    value_10 = (-banded_2 - value_6 * saved_1) * saved_2
    del banded_2, value_6
    banded_3 = value_10 * blocks.band(row, row, 1, None, like)
    del value_10
    banded_4 = blocks.cumsum(banded_3, -1, False, True) * blocks.band(row, row, 0, None, like)
    del banded_3
    total = (product_7 * k).sum(-1)
    del product_7
    combined_4 = banded_4.sum(-2) - blocks.cumsum(total * lr * until_end, -1, False, True)
    del banded_4
    banded_5 = product_5 * (saved_2 * saved_3) * blocks.band(row, row, 1, None, like)
    del product_5
    combined_5 = -(total * until_end) - banded_5.sum(-2) - (product_4 * value_3).sum(-2)
    del banded_5, product_4, value_3
    product_8 = torch.matmul(kept_value_all, memory.mT)
    del kept_value_all
    combined_6 = blocks.add_product(product_8, banded, k, -1)
    del banded, product_8
    value_11 = -d_residual_2
    del d_residual_2
    d_kept = (d_memory_next_blocks * memory).sum(-2).sum(-1)
    value_12 = d_kept * kept
    del kept
    return {
        "part_0": combined_2,
        "part_1": running,
        "part_2": combined_3,
        "part_3": combined_4,
        "part_4": combined_5,
        "part_5": combined_6,
        "part_6": value_11,
        "part_7": value_12,
        "d_memory": d_memory_next_final,
        "d_memory_blocks": d_memory_next_blocks,
    }

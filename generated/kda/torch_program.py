"""The memory rule kda as a torch program: `forward` and `backward` of all blocks.

Arrays are [B, H, N, ...] over N blocks; `blocks` is atlasgen.runtime.blocks.
Rule a6d2203cf71c, schedule wy, generator 1. Written by `atlasgen build`; edit the spec, not this file.
"""

import torch


def forward(blocks, count, rows, halo, window, resumed, log_alpha, q, memory, k, lr, v):
    """The loop over blocks, then the reads of all blocks."""
    like = log_alpha
    row, halo_row = blocks.positions(rows, halo, False)
    block = None  # all blocks at once
    log_alpha_sums = blocks.running(log_alpha.mT)
    # a: decay of the memory since the block's start
    read_decay = blocks.decay_from_start(log_alpha_sums, False).mT
    # Q X^T
    scores = blocks.channels.scores(k, k, log_alpha_sums, False)
    # (Q X^T) * P
    attention = scores * lr[..., None, :]
    # (I + A)^-1
    inverse = blocks.unit_inverse(attention, True)
    del attention
    value = read_decay * k
    # a_C: decay of the memory over the block
    kept = blocks.decay_whole(log_alpha_sums)
    value_2 = blocks.decay_to_end(log_alpha_sums).mT * k * lr[..., :, None]
    memory_like = memory
    memory = memory.flatten(0, 1)
    memory_list = []
    kept_errors = []
    inverse_each = blocks.each(inverse, count, memory_like)
    value_each = blocks.each(value, count, memory_like)
    del value
    v_each = blocks.each(v, count, memory_like)
    kept_each = blocks.each(kept, count, memory_like)
    del kept
    value_2_each = blocks.each(value_2, count, memory_like)
    del value_2
    for block in range(count):
        memory_list.append(memory)
        # R: the error at what the block's start gives
        residual = torch.baddbmm(v_each[block], value_each[block], memory, beta=-1)
        # E = (I + A)^-1 R
        errors = torch.matmul(inverse_each[block].mT, residual)
        value_3 = memory * kept_each[block][..., :, None]
        # M at the end
        memory_next = torch.baddbmm(value_3, value_2_each[block].mT, errors, alpha=-1)
        kept_errors.append(errors)
        memory = memory_next
    del inverse_each, kept_each, v_each, value_2_each, value_each
    block = None
    memory_final = memory.unflatten(0, memory_like.shape[:2])
    memory_blocks = blocks.stack(memory_list, memory_like)
    del memory_list
    errors_2 = blocks.stack(kept_errors, memory_like)
    del kept_errors
    product = torch.matmul(read_decay * q, memory_blocks)
    del read_decay
    banded = (q * k).sum(-1)[..., :, None] * blocks.band(row, row, 0, 0, like)
    # Q X^T
    scores_2 = blocks.channels.scores(q, k, log_alpha_sums, False) + banded
    del banded
    # (Q X^T) * P
    attention_2 = scores_2 * lr[..., None, :]
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
    d_memory_next,
    log_alpha,
    k,
    lr,
    d_y,
    memory,
    q,
    saved_0,
    saved_2,
    saved_3,
    saved_1,
):
    """The loop over blocks from the last to the first, then the gradients of all rows."""
    like = d_memory_next
    row, halo_row = blocks.positions(rows, halo, False)
    block = None  # all blocks at once
    log_alpha_sums = blocks.running(log_alpha.mT)
    until_end = blocks.decay_to_end(log_alpha_sums).mT
    value = until_end * k
    value_2 = value * lr[..., :, None]
    # (Q X^T) * P
    attention = saved_0 * lr[..., None, :]
    product = torch.matmul(attention.mT, d_y)
    del attention
    # a: decay of the memory since the block's start
    read_decay = blocks.decay_from_start(log_alpha_sums, False).mT
    # a_C: decay of the memory over the block
    kept = blocks.decay_whole(log_alpha_sums)
    value_3 = read_decay * k
    product_2 = torch.matmul((read_decay * q).mT, d_y)
    d_memory_next_like = d_memory_next
    d_memory_next = d_memory_next.flatten(0, 1)
    d_memory_next_list = []
    kept_d_residual = []
    value_2_each = blocks.each(value_2, count, d_memory_next_like)
    del value_2
    product_each = blocks.each(product, count, d_memory_next_like)
    del product
    saved_2_each = blocks.each(saved_2, count, d_memory_next_like)
    kept_each = blocks.each(kept, count, d_memory_next_like)
    value_3_each = blocks.each(value_3, count, d_memory_next_like)
    del value_3
    product_2_each = blocks.each(product_2, count, d_memory_next_like)
    del product_2
    for block in reversed(range(count)):
        d_memory_next_list.append(d_memory_next)
        d_errors = torch.baddbmm(product_each[block], value_2_each[block], d_memory_next, beta=-1, alpha=-1)
        d_residual = torch.matmul(saved_2_each[block], d_errors)
        value_4 = d_memory_next * kept_each[block][..., :, None]
        combined = torch.baddbmm(value_4 + product_2_each[block], value_3_each[block].mT, d_residual)
        kept_d_residual.append(d_residual)
        d_memory_next = combined
    del kept_each, product_2_each, product_each, saved_2_each, value_2_each, value_3_each
    block = None
    d_memory_next_final = d_memory_next.unflatten(0, d_memory_next_like.shape[:2])
    d_memory_next_blocks = blocks.stack(d_memory_next_list[::-1], d_memory_next_like)
    del d_memory_next_list
    d_residual_2 = blocks.stack(kept_d_residual[::-1], d_memory_next_like)
    del kept_d_residual
    product_3 = torch.matmul(d_residual_2, memory.mT)
    product_4 = torch.matmul(d_y, memory.mT)
    d_read_decay = product_3 * k + product_4 * q
    running = blocks.cumsum(d_read_decay * read_decay, -2, True, False)
    del d_read_decay
    product_5 = torch.matmul(d_y, saved_3.mT)
    value_5 = product_5 * lr[..., None, :]
    d_scores = -value_5
    decayed_rows = blocks.channels.mix(d_scores, k, log_alpha_sums, False, True)
    total = (value_5 * blocks.band(row, row, 0, 0, like)).sum(-1)
    del value_5
    combined_2 = decayed_rows + product_4 * read_decay - k * total[..., :, None]
    del product_4
    product_6 = torch.matmul(d_residual_2, saved_3.mT)
    banded = product_6 * lr[..., None, :] * blocks.band(row, row, 1, None, like)
    d_scores_2 = -banded
    del banded
    decayed_rows_2 = blocks.channels.mix(d_scores_2, k, log_alpha_sums, False, False)
    decayed_rows_3 = blocks.channels.mix(d_scores, q, log_alpha_sums, False, False)
    del d_scores
    product_7 = torch.matmul(saved_3, d_memory_next_blocks.mT)
    value_6 = product_7 * lr[..., :, None]
    combined_3 = decayed_rows_2 + decayed_rows_3 - value_6 * until_end
    d_kept = (d_memory_next_blocks * memory).sum(-1)
    decayed_rows_4 = blocks.channels.mix(d_scores_2, k, log_alpha_sums, False, True)
    del d_scores_2
    running_2 = blocks.cumsum(k * decayed_rows_4, -2, True, False)
    combined_4 = running_2 - blocks.cumsum(k * decayed_rows_2, -2, True, False)
    del decayed_rows_2, running_2
    running_3 = blocks.cumsum(k * decayed_rows_3, -2, True, False)
    del decayed_rows_3
    combined_5 = blocks.cumsum(q * decayed_rows, -2, True, False) - running_3
    del decayed_rows, running_3
    combined_6 = (d_kept * kept)[..., None, :] + combined_4 + combined_5
    del combined_4, combined_5, kept
    combined_7 = product_3 * read_decay + decayed_rows_4 - q * total[..., :, None]
    del decayed_rows_4, product_3, read_decay
    total_2 = (product_6 * saved_1 * blocks.band(row, row, 1, None, like)).sum(-2)
    del product_6
    d_weights = -(product_7 * value).sum(-1) - total_2 - (product_5 * saved_0).sum(-2)
    del product_5, product_7, value
    value_7 = -d_residual_2
    del d_residual_2
    value_8 = -blocks.cumsum(value_6 * k * until_end, -2, False, True)
    del until_end, value_6
    return {
        "part_0": running,
        "part_1": combined_2,
        "part_2": combined_3,
        "part_3": combined_6,
        "part_4": combined_7,
        "part_5": d_weights,
        "part_6": value_7,
        "part_7": value_8,
        "d_memory": d_memory_next_final,
        "d_memory_blocks": d_memory_next_blocks,
    }

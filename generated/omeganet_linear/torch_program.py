"""The memory rule omeganet_linear as a torch program: `forward` and `backward` of all blocks.

Arrays are [B, H, N, ...] over N blocks; `blocks` is atlasgen.runtime.blocks.
Rule 8c711e7eb788, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
"""

import torch


def forward(
    blocks,
    count,
    rows,
    halo,
    window,
    resumed,
    q,
    memory,
    log_alpha,
    k_sources,
    lr,
    gamma_sources,
    exists_sources,
    anchor,
    v_sources,
):
    """The loop over blocks, then the reads of all blocks."""
    like = q
    row, halo_row = blocks.positions(rows, halo, True)
    block = None  # all blocks at once
    banded = blocks.band(row, halo_row, 0, 15, like)
    log_alpha_sums = blocks.running(log_alpha)
    # a_C: decay of the memory over the block
    kept = blocks.decay_whole(log_alpha_sums)
    product = torch.matmul(blocks.decay_to_end(log_alpha_sums) * lr, banded)
    # p_C: last row of P
    last_weights = product * gamma_sources * exists_sources
    value = k_sources * last_weights[..., :, None]
    memory_like = memory
    memory = memory.flatten(0, 1)
    memory_list = []
    kept_errors = []
    k_sources_each = blocks.each(k_sources, count, memory_like)
    anchor_each = blocks.each(anchor, count, memory_like)
    v_sources_each = blocks.each(v_sources, count, memory_like)
    kept_each = blocks.each(kept, count, memory_like)
    del kept
    value_each = blocks.each(value, count, memory_like)
    del value
    for block in range(count):
        memory_list.append(memory)
        # M*: the memory at the last border
        anchor_point = blocks.at_start(anchor_each[block], memory, resumed, block)
        # E = dl/dpred at the block's M*
        errors = torch.baddbmm(v_sources_each[block], k_sources_each[block], anchor_point, beta=-1)
        value_2 = memory * kept_each[block][..., None, None]
        # M at the end
        memory_next = torch.baddbmm(value_2, value_each[block].mT, errors, alpha=-1)
        kept_errors.append(errors)
        memory = memory_next
    del anchor_each, k_sources_each, kept_each, v_sources_each, value_each
    block = None
    memory_final = memory.unflatten(0, memory_like.shape[:2])
    memory_blocks = blocks.stack(memory_list, memory_like)
    del memory_list
    errors_2 = blocks.stack(kept_errors, memory_like)
    del kept_errors
    product_2 = torch.matmul(q, memory_blocks)
    # a: decay of the memory since the block's start
    read_decay = blocks.decay_from_start(log_alpha_sums, False)
    # Q X^T
    scores = torch.matmul(q, k_sources.mT)
    decay = blocks.decay(log_alpha_sums, False)
    product_3 = torch.matmul(decay * lr[..., None, :], banded)
    # (Q X^T) * P
    attention = scores * product_3 * (gamma_sources * exists_sources)[..., None, :]
    value_3 = product_2 * read_decay[..., :, None]
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = blocks.add_product(value_3, attention, errors_2, -1)
    del attention, value_3
    # M*: the memory at the last border
    anchor_point_2 = blocks.at_start(anchor, memory_blocks, resumed, block)
    return {
        "y": reads,
        "anchor_value": anchor_point_2,
        "saved_0": product_2,
        "saved_1": scores,
        "saved_2": decay,
        "saved_3": product_3,
        "saved_4": errors_2,
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
    gamma_sources,
    exists_sources,
    k_sources,
    d_memory_next,
    lr,
    anchor,
    q,
    d_anchor,
    saved_4,
    saved_3,
    saved_0,
    saved_1,
    saved_2,
):
    """The loop over blocks from the last to the first, then the gradients of all rows."""
    like = d_y
    row, halo_row = blocks.positions(rows, halo, True)
    block = None  # all blocks at once
    log_alpha_sums = blocks.running(log_alpha)
    # a: decay of the memory since the block's start
    read_decay = blocks.decay_from_start(log_alpha_sums, False)
    value = d_y * read_decay[..., :, None]
    value_2 = gamma_sources * exists_sources
    until_end = blocks.decay_to_end(log_alpha_sums)
    banded = blocks.band(row, halo_row, 0, 15, like)
    product = torch.matmul(until_end * lr, banded)
    # p_C: last row of P
    last_weights = product * gamma_sources * exists_sources
    value_3 = k_sources * last_weights[..., :, None]
    value_4 = saved_1 * saved_3
    # (Q X^T) * P
    attention = value_4 * value_2[..., None, :]
    product_2 = torch.matmul(attention.mT, d_y)
    del attention
    # a_C: decay of the memory over the block
    kept = blocks.decay_whole(log_alpha_sums)
    product_3 = torch.matmul(q.mT, value)
    d_memory_next_like = d_memory_next
    d_memory_next = d_memory_next.flatten(0, 1)
    d_memory_next_list = []
    kept_d_errors = []
    sum_0 = 0.0
    k_sources_each = blocks.each(k_sources, count, d_memory_next_like)
    value_3_each = blocks.each(value_3, count, d_memory_next_like)
    del value_3
    product_2_each = blocks.each(product_2, count, d_memory_next_like)
    del product_2
    kept_each = blocks.each(kept, count, d_memory_next_like)
    d_anchor_each = blocks.each(d_anchor, count, d_memory_next_like)
    product_3_each = blocks.each(product_3, count, d_memory_next_like)
    del product_3
    for block in reversed(range(count)):
        d_memory_next_list.append(d_memory_next)
        d_errors = torch.baddbmm(product_2_each[block], value_3_each[block], d_memory_next, beta=-1, alpha=-1)
        d_anchor_point = torch.baddbmm(d_anchor_each[block], k_sources_each[block].mT, d_errors)
        at_border = blocks.when_start(d_anchor_point, False, resumed, block)
        value_5 = d_memory_next * kept_each[block][..., None, None]
        combined = value_5 + at_border + product_3_each[block]
        at_border_2 = blocks.when_start(d_anchor_point, True, resumed, block)
        kept_d_errors.append(d_errors)
        sum_0 = sum_0 + at_border_2
        d_memory_next = combined
    del d_anchor_each, k_sources_each, kept_each, product_2_each, product_3_each, value_3_each
    block = None
    d_memory_next_final = d_memory_next.unflatten(0, d_memory_next_like.shape[:2])
    d_memory_next_blocks = blocks.stack(d_memory_next_list[::-1], d_memory_next_like)
    del d_memory_next_list
    d_errors_2 = blocks.stack(kept_d_errors[::-1], d_memory_next_like)
    del kept_d_errors
    product_4 = torch.matmul(value, memory.mT)
    del value
    product_5 = torch.matmul(d_y, saved_4.mT)
    value_6 = product_5 * value_2[..., None, :]
    value_7 = value_6 * saved_3
    combined_2 = blocks.add_product(product_4, value_7, k_sources, -1)
    del product_4
    d_read_decay = (d_y * saved_0).sum(-1)
    running = blocks.cumsum(d_read_decay * read_decay, -1, True, False)
    # M*: the memory at the last border
    anchor_point = blocks.at_start(anchor, memory, resumed, block)
    product_6 = torch.matmul(d_errors_2, anchor_point.mT)
    del anchor_point
    product_7 = torch.matmul(saved_4, d_memory_next_blocks.mT)
    value_8 = product_7 * last_weights[..., :, None]
    combined_3 = blocks.add_product(product_6 - value_8, value_7.mT, q, -1)
    del product_6, value_7, value_8
    value_9 = (product_7 * k_sources).sum(-1) * exists_sources
    del product_7
    product_8 = torch.matmul(value_9 * gamma_sources, banded.mT)
    running_2 = blocks.cumsum(product_8 * lr * until_end, -1, False, True)
    product_9 = torch.matmul(value_6 * saved_1, banded.mT)
    del value_6
    value_10 = product_9 * saved_2
    del product_9
    banded_2 = value_10 * lr[..., None, :] * blocks.band(row, row, 1, None, like)
    banded_3 = blocks.cumsum(banded_2, -1, False, True) * blocks.band(row, row, 0, None, like)
    del banded_2
    combined_4 = -running_2 - banded_3.sum(-2)
    del banded_3
    combined_5 = -(product_8 * until_end) - value_10.sum(-2)
    del value_10
    combined_6 = -(value_9 * product) - (product_5 * value_4).sum(-2) * exists_sources
    del product_5, value_4
    value_11 = -d_errors_2
    del d_errors_2
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
        "sum_0": sum_0,
        "d_memory": d_memory_next_final,
        "d_memory_blocks": d_memory_next_blocks,
    }

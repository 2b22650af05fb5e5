"""The memory rule retnet as a torch program: `forward` and `backward` of all blocks.

Arrays are [B, H, N, ...] over N blocks; `blocks` is atlasgen.runtime.blocks.
Rule 908b0dbfb064, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
"""

import torch


def forward(blocks, count, rows, halo, window, resumed, q, memory, log_alpha, live, k, v, scale):
    """The loop over blocks, then the reads of all blocks."""
    block = None  # all blocks at once
    value = blocks.where(live > 0.0, log_alpha[..., None], 0.0)
    log_alpha_sums = blocks.running(blocks.where(live > 0.0, log_alpha[..., None], 0.0))
    # a_C: decay of the memory over the block
    kept = blocks.decay_whole(log_alpha_sums)
    log_alpha_sums_2 = blocks.running(value)
    # p_C: last row of P
    last_weights = blocks.decay_to_end(log_alpha_sums_2) * live
    product = torch.matmul((k * last_weights[..., :, None]).mT, v)
    memory_like = memory
    memory = memory.flatten(0, 1)
    memory_list = []
    kept_each = blocks.each(kept, count, memory_like)
    del kept
    product_each = blocks.each(product, count, memory_like)
    del product
    for block in range(count):
        memory_list.append(memory)
        # M at the end
        memory_next = memory * kept_each[block][..., None, None] + product_each[block]
        memory = memory_next
    del kept_each, product_each
    block = None
    memory_final = memory.unflatten(0, memory_like.shape[:2])
    memory_blocks = blocks.stack(memory_list, memory_like)
    del memory_list
    product_2 = torch.matmul(q, memory_blocks)
    # a: decay of the memory since the block's start
    read_decay = blocks.decay_from_start(log_alpha_sums, False)
    # Q X^T
    scores = torch.matmul(q, k.mT)
    decay = blocks.decay(log_alpha_sums_2, False)
    # (Q X^T) * P
    attention = scores * decay * live[..., None, :]
    del decay
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = blocks.add_product(product_2 * read_decay[..., :, None], attention, v, 1)
    # the block's reads
    y = reads * scale
    del reads
    return {
        "y": y,
        "saved_0": product_2,
        "saved_1": scores,
        "saved_2": attention,
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
    scale,
    v,
    live,
    log_alpha,
    k,
    memory,
    d_memory_next,
    q,
    saved_1,
    saved_0,
    saved_2,
):
    """The loop over blocks from the last to the first, then the gradients of all rows."""
    like = d_y
    row, halo_row = blocks.positions(rows, halo, False)
    block = None  # all blocks at once
    d_reads = d_y * scale
    log_alpha_sums = blocks.running(blocks.where(live > 0.0, log_alpha[..., None], 0.0))
    # a: decay of the memory since the block's start
    read_decay = blocks.decay_from_start(log_alpha_sums, False)
    value = d_reads * read_decay[..., :, None]
    # a_C: decay of the memory over the block
    kept = blocks.decay_whole(log_alpha_sums)
    product = torch.matmul(q.mT, value)
    d_memory_next_like = d_memory_next
    d_memory_next = d_memory_next.flatten(0, 1)
    d_memory_next_list = []
    kept_each = blocks.each(kept, count, d_memory_next_like)
    product_each = blocks.each(product, count, d_memory_next_like)
    del product
    for block in reversed(range(count)):
        d_memory_next_list.append(d_memory_next)
        combined = d_memory_next * kept_each[block][..., None, None] + product_each[block]
        d_memory_next = combined
    del kept_each, product_each
    block = None
    d_memory_next_final = d_memory_next.unflatten(0, d_memory_next_like.shape[:2])
    d_memory_next_blocks = blocks.stack(d_memory_next_list[::-1], d_memory_next_like)
    del d_memory_next_list
    d_attention = torch.matmul(d_reads, v.mT)
    value_2 = d_attention * live[..., None, :]
    del d_attention
    value_3 = blocks.where(live > 0.0, log_alpha[..., None], 0.0)
    log_alpha_sums_2 = blocks.running(value_3)
    decay = blocks.decay(log_alpha_sums_2, False)
    d_scores = value_2 * decay
    product_2 = torch.matmul(d_scores, k)
    combined_2 = blocks.add_product(product_2, value, memory.mT, 1)
    del product_2, value
    d_kept = (d_memory_next_blocks * memory).sum(-2).sum(-1)
    value_4 = blocks.where(live > 0.0, 1.0, 0.0).sum(-1) * (d_kept * kept)
    del kept
    product_3 = torch.matmul(v, d_memory_next_blocks.mT)
    d_last_weights = (product_3 * k).sum(-1)
    until_end = blocks.decay_to_end(log_alpha_sums_2)
    running = blocks.cumsum(d_last_weights * live * until_end, -1, False, True)
    banded = value_2 * saved_1 * decay * blocks.band(row, row, 1, None, like)
    del decay, value_2
    banded_2 = blocks.cumsum(banded, -1, False, True) * blocks.band(row, row, 0, None, like)
    del banded
    value_5 = (running + banded_2.sum(-2)) * blocks.where(live > 0.0, 1.0, 0.0)
    del banded_2
    d_read_decay = (d_reads * saved_0).sum(-1)
    running_2 = blocks.cumsum(d_read_decay * read_decay, -1, True, False)
    total = (running_2 * blocks.where(live > 0.0, 1.0, 0.0)).sum(-1)
    combined_3 = value_4 + value_5.sum(-1) + total
    # p_C: last row of P
    last_weights = until_end * live
    value_6 = product_3 * last_weights[..., :, None]
    del product_3
    combined_4 = blocks.add_product(value_6, d_scores.mT, q, 1)
    del d_scores, value_6
    product_4 = torch.matmul(k * last_weights[..., :, None], d_memory_next_blocks)
    combined_5 = blocks.add_product(product_4, saved_2.mT, d_reads, 1)
    del d_reads, product_4
    return {
        "part_0": combined_2,
        "part_1": combined_3,
        "part_2": combined_4,
        "part_3": combined_5,
        "d_memory": d_memory_next_final,
        "d_memory_blocks": d_memory_next_blocks,
    }

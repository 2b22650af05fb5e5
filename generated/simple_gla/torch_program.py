"""The memory rule simple_gla as a torch program: `forward` and `backward` of all blocks.

Arrays are [B, H, N, ...] over N blocks; `blocks` is atlasgen.runtime.blocks.
Rule 0f1642f64803, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
"""

import torch


def forward(blocks, count, rows, halo, window, resumed, q, memory, log_alpha, k, live, v):
    """The loop over blocks, then the reads of all blocks."""
    block = None  # all blocks at once
    log_alpha_sums = blocks.running(log_alpha)
    # a_C: decay of the memory over the block
    kept = blocks.decay_whole(log_alpha_sums)
    # p_C: last row of P
    last_weights = blocks.decay_to_end(log_alpha_sums) * live
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
    decay = blocks.decay(log_alpha_sums, False)
    # (Q X^T) * P
    attention = scores * decay * live[..., None, :]
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = blocks.add_product(product_2 * read_decay[..., :, None], attention, v, 1)
    del attention
    return {
        "y": reads,
        "saved_0": product_2,
        "saved_1": scores,
        "saved_2": decay,
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
    v,
    live,
    k,
    log_alpha,
    memory,
    d_memory_next,
    q,
    saved_2,
    saved_0,
    saved_1,
):
    """The loop over blocks from the last to the first, then the gradients of all rows."""
    like = d_y
    row, halo_row = blocks.positions(rows, halo, False)
    block = None  # all blocks at once
    log_alpha_sums = blocks.running(log_alpha)
    # a: decay of the memory since the block's start
    read_decay = blocks.decay_from_start(log_alpha_sums, False)
    value = d_y * read_decay[..., :, None]
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
    d_attention = torch.matmul(d_y, v.mT)
    value_2 = d_attention * live[..., None, :]
    del d_attention
    d_scores = value_2 * saved_2
    product_2 = torch.matmul(d_scores, k)
    combined_2 = blocks.add_product(product_2, value, memory.mT, 1)
    del product_2, value
    d_read_decay = (d_y * saved_0).sum(-1)
    running = blocks.cumsum(d_read_decay * read_decay, -1, True, False)
    product_3 = torch.matmul(v, d_memory_next_blocks.mT)
    until_end = blocks.decay_to_end(log_alpha_sums)
    # p_C: last row of P
    last_weights = until_end * live
    value_3 = product_3 * last_weights[..., :, None]
    combined_3 = blocks.add_product(value_3, d_scores.mT, q, 1)
    del d_scores, value_3
    d_last_weights = (product_3 * k).sum(-1)
    del product_3
    running_2 = blocks.cumsum(d_last_weights * live * until_end, -1, False, True)
    banded = value_2 * saved_1 * saved_2 * blocks.band(row, row, 1, None, like)
    del value_2
    banded_2 = blocks.cumsum(banded, -1, False, True) * blocks.band(row, row, 0, None, like)
    del banded
    combined_4 = running_2 + banded_2.sum(-2)
    del banded_2
    product_4 = torch.matmul(k * last_weights[..., :, None], d_memory_next_blocks)
    # (Q X^T) * P
    attention = saved_1 * saved_2 * live[..., None, :]
    combined_5 = blocks.add_product(product_4, attention.mT, d_y, 1)
    del attention, product_4
    d_kept = (d_memory_next_blocks * memory).sum(-2).sum(-1)
    value_4 = d_kept * kept
    del kept
    return {
        "part_0": combined_2,
        "part_1": running,
        "part_2": combined_3,
        "part_3": combined_4,
        "part_4": combined_5,
        "part_5": value_4,
        "d_memory": d_memory_next_final,
        "d_memory_blocks": d_memory_next_blocks,
    }

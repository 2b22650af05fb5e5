"""The memory rule gla as a torch program: `forward` and `backward` of all blocks.

Arrays are [B, H, N, ...] over N blocks; `blocks` is atlasgen.runtime.blocks.
Rule fa8010f849d8, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
"""

import torch


def forward(blocks, count, rows, halo, window, resumed, log_alpha, q, memory, k, live, v):
    """The loop over blocks, then the reads of all blocks."""
    like = log_alpha
    row, halo_row = blocks.positions(rows, halo, False)
    block = None  # all blocks at once
    log_alpha_sums = blocks.running(log_alpha.mT)
    # a_C: decay of the memory over the block
    kept = blocks.decay_whole(log_alpha_sums)
    value = blocks.decay_to_end(log_alpha_sums).mT * k * live[..., :, None]
    product = torch.matmul(value.mT, v)
    del value
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
        memory_next = memory * kept_each[block][..., :, None] + product_each[block]
        memory = memory_next
    del kept_each, product_each
    block = None
    memory_final = memory.unflatten(0, memory_like.shape[:2])
    memory_blocks = blocks.stack(memory_list, memory_like)
    del memory_list
    # a: decay of the memory since the block's start
    read_decay = blocks.decay_from_start(log_alpha_sums, False).mT
    product_2 = torch.matmul(read_decay * q, memory_blocks)
    del read_decay
    banded = (q * k).sum(-1)[..., :, None] * blocks.band(row, row, 0, 0, like)
    # Q X^T
    scores = blocks.channels.scores(q, k, log_alpha_sums, False) + banded
    del banded
    # P: source weights by read
    weights = live * live
    # (Q X^T) * P
    attention = scores * weights[..., None, :]
    del scores
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = blocks.add_product(product_2, attention, v, 1)
    del product_2
    return {"y": reads, "saved_0": attention, "memory": memory_final, "memory_blocks": memory_blocks}


def backward(
    blocks,
    count,
    rows,
    halo,
    window,
    resumed,
    d_y,
    memory,
    q,
    log_alpha,
    k,
    v,
    live,
    d_memory_next,
    saved_0,
):
    """The loop over blocks from the last to the first, then the gradients of all rows."""
    block = None  # all blocks at once
    log_alpha_sums = blocks.running(log_alpha.mT)
    # a: decay of the memory since the block's start
    read_decay = blocks.decay_from_start(log_alpha_sums, False).mT
    # a_C: decay of the memory over the block
    kept = blocks.decay_whole(log_alpha_sums)
    product = torch.matmul((read_decay * q).mT, d_y)
    d_memory_next_like = d_memory_next
    d_memory_next = d_memory_next.flatten(0, 1)
    d_memory_next_list = []
    kept_each = blocks.each(kept, count, d_memory_next_like)
    product_each = blocks.each(product, count, d_memory_next_like)
    del product
    for block in reversed(range(count)):
        d_memory_next_list.append(d_memory_next)
        combined = d_memory_next * kept_each[block][..., :, None] + product_each[block]
        d_memory_next = combined
    del kept_each, product_each
    block = None
    d_memory_next_final = d_memory_next.unflatten(0, d_memory_next_like.shape[:2])
    d_memory_next_blocks = blocks.stack(d_memory_next_list[::-1], d_memory_next_like)
    del d_memory_next_list
    product_2 = torch.matmul(d_y, memory.mT)
    d_read_decay = product_2 * q
    running = blocks.cumsum(d_read_decay * read_decay, -2, True, False)
    del d_read_decay
    product_3 = (d_y * v).sum(-1)
    value = product_3 * (live * live)
    d_attention = torch.matmul(d_y, v.mT)
    # P: source weights by read
    weights = live * live
    d_scores = d_attention * weights[..., None, :]
    del d_attention
    decayed_rows = blocks.channels.mix(d_scores, k, log_alpha_sums, False, True)
    combined_2 = k * value[..., :, None] + decayed_rows + product_2 * read_decay
    del product_2, read_decay
    product_4 = torch.matmul(v, d_memory_next_blocks.mT)
    value_2 = product_4 * live[..., :, None]
    del product_4
    until_end = blocks.decay_to_end(log_alpha_sums).mT
    decayed_rows_2 = blocks.channels.mix(d_scores, q, log_alpha_sums, False, False)
    del d_scores
    combined_3 = value_2 * until_end + decayed_rows_2
    d_kept = (d_memory_next_blocks * memory).sum(-1)
    running_2 = blocks.cumsum(k * decayed_rows_2, -2, True, False)
    del decayed_rows_2
    combined_4 = blocks.cumsum(q * decayed_rows, -2, True, False) - running_2
    del decayed_rows, running_2
    combined_5 = (d_kept * kept)[..., None, :] + combined_4
    del combined_4, kept
    value_3 = q * value[..., :, None]
    product_5 = torch.matmul(until_end * k * live[..., :, None], d_memory_next_blocks)
    combined_6 = blocks.add_product(product_5, saved_0.mT, d_y, 1)
    del product_5
    running_3 = blocks.cumsum(value_2 * k * until_end, -2, False, True)
    del until_end, value_2
    return {
        "part_0": running,
        "part_1": combined_2,
        "part_2": combined_3,
        "part_3": combined_5,
        "part_4": value_3,
        "part_5": combined_6,
        "part_6": running_3,
        "d_memory": d_memory_next_final,
        "d_memory_blocks": d_memory_next_blocks,
    }

"""The memory rule swla as a torch program: `forward` and `backward` of all blocks.

Arrays are [B, H, N, ...] over N blocks; `blocks` is atlasgen.runtime.blocks.
Rule 785b322e2e88, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
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
    live,
    gamma_sources,
    exists_sources,
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
    product = torch.matmul(blocks.decay_to_end(log_alpha_sums) * live, banded)
    # p_C: last row of P
    last_weights = product * gamma_sources * exists_sources
    product_2 = torch.matmul((k_sources * last_weights[..., :, None]).mT, v_sources)
    memory_like = memory
    memory = memory.flatten(0, 1)
    memory_list = []
    kept_each = blocks.each(kept, count, memory_like)
    del kept
    product_2_each = blocks.each(product_2, count, memory_like)
    del product_2
    for block in range(count):
        memory_list.append(memory)
        # M at the end
        memory_next = memory * kept_each[block][..., None, None] + product_2_each[block]
        memory = memory_next
    del kept_each, product_2_each
    block = None
    memory_final = memory.unflatten(0, memory_like.shape[:2])
    memory_blocks = blocks.stack(memory_list, memory_like)
    del memory_list
    product_3 = torch.matmul(q, memory_blocks)
    # a: decay of the memory since the block's start
    read_decay = blocks.decay_from_start(log_alpha_sums, False)
    # Q X^T
    scores = torch.matmul(q, k_sources.mT)
    decay = blocks.decay(log_alpha_sums, False)
    product_4 = torch.matmul(decay * live[..., None, :], banded)
    # (Q X^T) * P
    attention = scores * product_4 * (gamma_sources * exists_sources)[..., None, :]
    value = product_3 * read_decay[..., :, None]
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = blocks.add_product(value, attention, v_sources, 1)
    del attention, value
    return {
        "y": reads,
        "saved_0": product_3,
        "saved_1": scores,
        "saved_2": decay,
        "saved_3": product_4,
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
    v_sources,
    gamma_sources,
    exists_sources,
    k_sources,
    log_alpha,
    memory,
    d_memory_next,
    live,
    q,
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
    d_attention = torch.matmul(d_y, v_sources.mT)
    value_2 = gamma_sources * exists_sources
    value_3 = d_attention * value_2[..., None, :]
    d_scores = value_3 * saved_3
    product_2 = torch.matmul(d_scores, k_sources)
    combined_2 = blocks.add_product(product_2, value, memory.mT, 1)
    del product_2, value
    d_read_decay = (d_y * saved_0).sum(-1)
    running = blocks.cumsum(d_read_decay * read_decay, -1, True, False)
    product_3 = torch.matmul(v_sources, d_memory_next_blocks.mT)
    until_end = blocks.decay_to_end(log_alpha_sums)
    banded = blocks.band(row, halo_row, 0, 15, like)
    product_4 = torch.matmul(until_end * live, banded)
    # p_C: last row of P
    last_weights = product_4 * gamma_sources * exists_sources
    value_4 = product_3 * last_weights[..., :, None]
    combined_3 = blocks.add_product(value_4, d_scores.mT, q, 1)
    del d_scores, value_4
    d_last_weights = (product_3 * k_sources).sum(-1)
    del product_3
    value_5 = d_last_weights * exists_sources
    product_5 = torch.matmul(value_5 * gamma_sources, banded.mT)
    running_2 = blocks.cumsum(product_5 * live * until_end, -1, False, True)
    product_6 = torch.matmul(value_3 * saved_1, banded.mT)
    del value_3
    value_6 = product_6 * saved_2 * live[..., None, :]
    del product_6
    running_3 = blocks.cumsum(value_6 * blocks.band(row, row, 1, None, like), -1, False, True)
    del value_6
    combined_4 = running_2 + (running_3 * blocks.band(row, row, 0, None, like)).sum(-2)
    del running_3
    value_7 = saved_1 * saved_3
    combined_5 = value_5 * product_4 + (d_attention * value_7).sum(-2) * exists_sources
    del d_attention
    product_7 = torch.matmul(k_sources * last_weights[..., :, None], d_memory_next_blocks)
    # (Q X^T) * P
    attention = value_7 * value_2[..., None, :]
    del value_7
    combined_6 = blocks.add_product(product_7, attention.mT, d_y, 1)
    del attention, product_7
    d_kept = (d_memory_next_blocks * memory).sum(-2).sum(-1)
    value_8 = d_kept * kept
    del kept
    return {
        "part_0": combined_2,
        "part_1": running,
        "part_2": combined_3,
        "part_3": combined_4,
        "part_4": combined_5,
        "part_5": combined_6,
        "part_6": value_8,
        "d_memory": d_memory_next_final,
        "d_memory_blocks": d_memory_next_blocks,
    }

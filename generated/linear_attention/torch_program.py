"""The memory rule linear_attention as a torch program: `forward` and `backward` of all blocks.

Arrays are [B, H, N, ...] over N blocks; `blocks` is atlasgen.runtime.blocks.
Rule 3c1c8bdbb502, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
"""

import torch


def forward(blocks, count, rows, halo, window, resumed, q, memory, k, live, v, normaliser):
    """The loop over blocks, then the reads of all blocks."""
    like = q
    row, halo_row = blocks.positions(rows, halo, False)
    block = None  # all blocks at once
    # X = phi(k)
    features = blocks.where(k > 0.0, k + 1.0, torch.exp(blocks.minimum(0.0, k)))
    value = features * live[..., :, None]
    product = torch.matmul(value.mT, v)
    total = value.sum(-2)
    del value
    memory_like = memory
    memory = memory.flatten(0, 1)
    memory_list = []
    normaliser_like = normaliser
    normaliser = normaliser.flatten(0, 1)
    normaliser_list = []
    product_each = blocks.each(product, count, memory_like)
    del product
    total_each = blocks.each(total, count, memory_like)
    del total
    for block in range(count):
        memory_list.append(memory)
        normaliser_list.append(normaliser)
        # M at the end
        memory_next = memory + product_each[block]
        # M at the end
        normaliser_next = normaliser + total_each[block]
        memory, normaliser = (memory_next, normaliser_next)
    del product_each, total_each
    block = None
    memory_final = memory.unflatten(0, memory_like.shape[:2])
    memory_blocks = blocks.stack(memory_list, memory_like)
    del memory_list
    normaliser_final = normaliser.unflatten(0, normaliser_like.shape[:2])
    normaliser_blocks = blocks.stack(normaliser_list, normaliser_like)
    del normaliser_list
    # phi(q)
    queries = blocks.where(q > 0.0, q + 1.0, torch.exp(blocks.minimum(0.0, q)))
    product_2 = torch.matmul(queries, memory_blocks)
    # Q X^T
    scores = torch.matmul(queries, features.mT)
    del features
    # (Q X^T) * P
    attention = scores * live[..., None, :] * blocks.band(row, row, 0, None, like)
    del scores
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = blocks.add_product(product_2, attention, v, 1)
    del product_2
    product_3 = (queries * normaliser_blocks[..., None, :]).sum(-1)
    del queries
    # z . phi(q)
    total_weight = product_3 + attention.sum(-1)
    inverse_total = blocks.where(live > 0.0, 1.0 / total_weight, 1.0)
    # the block's reads
    y = reads * inverse_total[..., :, None]
    return {
        "y": y,
        "saved_0": attention,
        "saved_1": reads,
        "memory": memory_final,
        "normaliser": normaliser_final,
        "memory_blocks": memory_blocks,
        "normaliser_blocks": normaliser_blocks,
    }


def backward(
    blocks,
    count,
    rows,
    halo,
    window,
    resumed,
    d_y,
    q,
    normaliser,
    live,
    v,
    k,
    memory,
    d_normaliser_next,
    d_memory_next,
    saved_1,
    saved_0,
):
    """The loop over blocks from the last to the first, then the gradients of all rows."""
    like = d_y
    row, halo_row = blocks.positions(rows, halo, False)
    block = None  # all blocks at once
    d_inverse_total = (d_y * saved_1).sum(-1)
    # phi(q)
    queries = blocks.where(q > 0.0, q + 1.0, torch.exp(blocks.minimum(0.0, q)))
    product = (queries * normaliser[..., None, :]).sum(-1)
    # z . phi(q)
    total_weight = product + saved_0.sum(-1)
    value = blocks.where(live > 0.0, -(1.0 / (total_weight * total_weight)), 0.0)
    d_total_weight = d_inverse_total * value
    inverse_total = blocks.where(live > 0.0, 1.0 / total_weight, 1.0)
    d_reads = d_y * inverse_total[..., :, None]
    product_2 = torch.matmul(queries.mT, d_reads)
    product_3 = (d_total_weight[..., :, None] * queries).sum(-2)
    d_memory_next_like = d_memory_next
    d_memory_next = d_memory_next.flatten(0, 1)
    d_memory_next_list = []
    d_normaliser_next_like = d_normaliser_next
    d_normaliser_next = d_normaliser_next.flatten(0, 1)
    d_normaliser_next_list = []
    product_2_each = blocks.each(product_2, count, d_memory_next_like)
    del product_2
    product_3_each = blocks.each(product_3, count, d_memory_next_like)
    del product_3
    for block in reversed(range(count)):
        d_memory_next_list.append(d_memory_next)
        d_normaliser_next_list.append(d_normaliser_next)
        combined = d_memory_next + product_2_each[block]
        combined_2 = d_normaliser_next + product_3_each[block]
        d_memory_next, d_normaliser_next = (combined, combined_2)
    del product_2_each, product_3_each
    block = None
    d_memory_next_final = d_memory_next.unflatten(0, d_memory_next_like.shape[:2])
    d_memory_next_blocks = blocks.stack(d_memory_next_list[::-1], d_memory_next_like)
    del d_memory_next_list
    d_normaliser_next_final = d_normaliser_next.unflatten(0, d_normaliser_next_like.shape[:2])
    d_normaliser_next_blocks = blocks.stack(d_normaliser_next_list[::-1], d_normaliser_next_like)
    del d_normaliser_next_list
    product_4 = torch.matmul(d_reads, v.mT)
    d_attention = d_total_weight[..., :, None] + product_4
    del product_4
    d_scores = d_attention * live[..., None, :] * blocks.band(row, row, 0, None, like)
    del d_attention
    # X = phi(k)
    features = blocks.where(k > 0.0, k + 1.0, torch.exp(blocks.minimum(0.0, k)))
    value_2 = d_total_weight[..., :, None] * normaliser[..., None, :]
    d_queries = blocks.add_product(blocks.add_product(value_2, d_scores, features, 1), d_reads, memory.mT, 1)
    del value_2
    value_3 = blocks.where(q > 0.0, 1.0, blocks.where(q < 0.0, 1.0, 0.0) * torch.exp(blocks.minimum(0.0, q)))
    value_4 = d_queries * value_3
    del d_queries, value_3
    product_5 = torch.matmul(v, d_memory_next_blocks.mT)
    value_5 = (d_normaliser_next_blocks[..., None, :] + product_5) * live[..., :, None]
    del product_5
    d_features = blocks.add_product(value_5, d_scores.mT, queries, 1)
    del d_scores, queries, value_5
    value_6 = blocks.where(k > 0.0, 1.0, blocks.where(k < 0.0, 1.0, 0.0) * torch.exp(blocks.minimum(0.0, k)))
    value_7 = d_features * value_6
    del d_features, value_6
    product_6 = torch.matmul(features * live[..., :, None], d_memory_next_blocks)
    del features
    combined_3 = blocks.add_product(product_6, saved_0.mT, d_reads, 1)
    del d_reads, product_6
    return {
        "part_0": value_4,
        "part_1": value_7,
        "part_2": combined_3,
        "d_memory": d_memory_next_final,
        "d_normaliser": d_normaliser_next_final,
        "d_memory_blocks": d_memory_next_blocks,
        "d_normaliser_blocks": d_normaliser_next_blocks,
    }

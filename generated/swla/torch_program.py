"""The memory rule swla as a torch program: `forward` and `backward` of all blocks.

Arrays are [B, H, N, ...] over N blocks; `blocks` is atlasgen.runtime.blocks.
Rule 59b9acc3a963, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
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
    # X = phi(k)
    features = blocks.polynomial.features(k_sources, (1.0, 1.0, 0.5), (0, 1, 2), "symmetric")
    log_alpha_sums = blocks.running(log_alpha)
    # a_C: decay of the memory over the block
    kept = blocks.decay_whole(log_alpha_sums)
    product = torch.matmul(blocks.decay_to_end(log_alpha_sums) * live, banded)
    # p_C: last row of P
    last_weights = product * gamma_sources * exists_sources
    product_2 = torch.matmul((features * last_weights[..., :, None]).mT, v_sources)
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
    # phi(q)
    queries = blocks.polynomial.features(q, (1.0, 1.0, 0.5), (0, 1, 2), "symmetric")
    product_3 = torch.matmul(queries, memory_blocks)
    # a: decay of the memory since the block's start
    read_decay = blocks.decay_from_start(log_alpha_sums, False)
    product_4 = torch.matmul(q, k_sources.mT)
    # Q X^T
    scores = 0.5 * (product_4 * product_4) + product_4 + 1.0
    decay = blocks.decay(log_alpha_sums, False)
    product_5 = torch.matmul(decay * live[..., None, :], banded)
    # (Q X^T) * P
    attention = scores * product_5 * (gamma_sources * exists_sources)[..., None, :]
    del scores
    value = product_3 * read_decay[..., :, None]
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = blocks.add_product(value, attention, v_sources, 1)
    del attention, value
    return {
        "y": reads,
        "saved_0": queries,
        "saved_1": product_3,
        "saved_2": product_4,
        "saved_3": decay,
        "saved_4": product_5,
        "saved_5": features,
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
    q,
    log_alpha,
    memory,
    d_memory_next,
    live,
    saved_4,
    saved_2,
    saved_1,
    saved_5,
    saved_3,
    saved_0,
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
    product = torch.matmul(saved_0.mT, value)
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
    d_scores = value_3 * saved_4
    value_4 = d_scores * (1.0 * saved_2 + 1.0)
    del d_scores
    product_2 = torch.matmul(value_4, k_sources)
    d_queries = torch.matmul(value, memory.mT)
    del value
    polynomial_gradient = blocks.polynomial.gradient(q, (1.0, 1.0, 0.5), d_queries, (0, 1, 2), "symmetric")
    del d_queries
    combined_2 = product_2 + polynomial_gradient
    del polynomial_gradient, product_2
    d_read_decay = (d_y * saved_1).sum(-1)
    running = blocks.cumsum(d_read_decay * read_decay, -1, True, False)
    product_3 = torch.matmul(v_sources, d_memory_next_blocks.mT)
    until_end = blocks.decay_to_end(log_alpha_sums)
    banded = blocks.band(row, halo_row, 0, 15, like)
    product_4 = torch.matmul(until_end * live, banded)
    # p_C: last row of P
    last_weights = product_4 * gamma_sources * exists_sources
    d_features = product_3 * last_weights[..., :, None]
    polynomial_gradient_2 = blocks.polynomial.gradient(
        k_sources,
        (1.0, 1.0, 0.5),
        d_features,
        (0, 1, 2),
        "symmetric",
    )
    del d_features
    product_5 = torch.matmul(value_4.mT, q)
    del value_4
    combined_3 = polynomial_gradient_2 + product_5
    del polynomial_gradient_2, product_5
    d_last_weights = (product_3 * saved_5).sum(-1)
    del product_3
    value_5 = d_last_weights * exists_sources
    product_6 = torch.matmul(value_5 * gamma_sources, banded.mT)
    running_2 = blocks.cumsum(product_6 * live * until_end, -1, False, True)
    # Q X^T
    scores = 0.5 * (saved_2 * saved_2) + saved_2 + 1.0
    product_7 = torch.matmul(value_3 * scores, banded.mT)
    del value_3
    value_6 = product_7 * saved_3 * live[..., None, :]
    del product_7
    running_3 = blocks.cumsum(value_6 * blocks.band(row, row, 1, None, like), -1, False, True)
    del value_6
    combined_4 = running_2 + (running_3 * blocks.band(row, row, 0, None, like)).sum(-2)
    del running_3
    value_7 = scores * saved_4
    del scores
    combined_5 = value_5 * product_4 + (d_attention * value_7).sum(-2) * exists_sources
    del d_attention
    product_8 = torch.matmul(saved_5 * last_weights[..., :, None], d_memory_next_blocks)
    # (Q X^T) * P
    attention = value_7 * value_2[..., None, :]
    del value_7
    combined_6 = blocks.add_product(product_8, attention.mT, d_y, 1)
    del attention, product_8
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

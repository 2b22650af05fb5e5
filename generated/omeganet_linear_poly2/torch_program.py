"""The memory rule omeganet_linear_poly2 as a torch program: `forward` and `backward` of all blocks.

Arrays are [B, H, N, ...] over N blocks; `blocks` is atlasgen.runtime.blocks.
Rule 154a3d1e20a8, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
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
    coefficients_0,
    coefficients_1,
    coefficients_2,
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
    # X = phi(k)
    features = blocks.polynomial.features(
        k_sources,
        (coefficients_0, coefficients_1, coefficients_2),
        (0, 1, 2),
        "symmetric",
    )
    log_alpha_sums = blocks.running(log_alpha)
    # a_C: decay of the memory over the block
    kept = blocks.decay_whole(log_alpha_sums)
    product = torch.matmul(blocks.decay_to_end(log_alpha_sums) * lr, banded)
    # p_C: last row of P
    last_weights = product * gamma_sources * exists_sources
    value = features * last_weights[..., :, None]
    memory_like = memory
    memory = memory.flatten(0, 1)
    memory_list = []
    kept_errors = []
    features_each = blocks.each(features, count, memory_like)
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
        errors = torch.baddbmm(v_sources_each[block], features_each[block], anchor_point, beta=-1)
        value_2 = memory * kept_each[block][..., None, None]
        # M at the end
        memory_next = torch.baddbmm(value_2, value_each[block].mT, errors, alpha=-1)
        kept_errors.append(errors)
        memory = memory_next
    del anchor_each, features_each, kept_each, v_sources_each, value_each
    block = None
    memory_final = memory.unflatten(0, memory_like.shape[:2])
    memory_blocks = blocks.stack(memory_list, memory_like)
    del memory_list
    errors_2 = blocks.stack(kept_errors, memory_like)
    del kept_errors
    # phi(q)
    queries = blocks.polynomial.features(
        q,
        (coefficients_0, coefficients_1, coefficients_2),
        (0, 1, 2),
        "symmetric",
    )
    product_2 = torch.matmul(queries, memory_blocks)
    # a: decay of the memory since the block's start
    read_decay = blocks.decay_from_start(log_alpha_sums, False)
    product_3 = torch.matmul(q, k_sources.mT)
    # Q X^T
    scores = (
        coefficients_2[..., None, None] * (product_3 * product_3)
        + product_3 * coefficients_1[..., None, None]
        + coefficients_0[..., None, None]
    )
    decay = blocks.decay(log_alpha_sums, False)
    product_4 = torch.matmul(decay * lr[..., None, :], banded)
    # (Q X^T) * P
    attention = scores * product_4 * (gamma_sources * exists_sources)[..., None, :]
    del scores
    value_3 = product_2 * read_decay[..., :, None]
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = blocks.add_product(value_3, attention, errors_2, -1)
    del attention, value_3
    # M*: the memory at the last border
    anchor_point_2 = blocks.at_start(anchor, memory_blocks, resumed, block)
    return {
        "y": reads,
        "anchor_value": anchor_point_2,
        "saved_0": queries,
        "saved_1": product_2,
        "saved_2": product_3,
        "saved_3": decay,
        "saved_4": product_4,
        "saved_5": features,
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
    q,
    coefficients_0,
    coefficients_1,
    coefficients_2,
    d_y,
    log_alpha,
    memory,
    gamma_sources,
    exists_sources,
    k_sources,
    d_memory_next,
    lr,
    anchor,
    d_anchor,
    saved_6,
    saved_4,
    saved_2,
    saved_5,
    saved_0,
    saved_1,
    saved_3,
):
    """The loop over blocks from the last to the first, then the gradients of all rows."""
    like = q
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
    value_3 = saved_5 * last_weights[..., :, None]
    # Q X^T
    scores = (
        coefficients_2[..., None, None] * (saved_2 * saved_2)
        + saved_2 * coefficients_1[..., None, None]
        + coefficients_0[..., None, None]
    )
    value_4 = scores * saved_4
    # (Q X^T) * P
    attention = value_4 * value_2[..., None, :]
    product_2 = torch.matmul(attention.mT, d_y)
    del attention
    # a_C: decay of the memory over the block
    kept = blocks.decay_whole(log_alpha_sums)
    product_3 = torch.matmul(saved_0.mT, value)
    d_memory_next_like = d_memory_next
    d_memory_next = d_memory_next.flatten(0, 1)
    d_memory_next_list = []
    kept_d_errors = []
    sum_0 = 0.0
    saved_5_each = blocks.each(saved_5, count, d_memory_next_like)
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
        d_anchor_point = torch.baddbmm(d_anchor_each[block], saved_5_each[block].mT, d_errors)
        at_border = blocks.when_start(d_anchor_point, False, resumed, block)
        value_5 = d_memory_next * kept_each[block][..., None, None]
        combined = value_5 + at_border + product_3_each[block]
        at_border_2 = blocks.when_start(d_anchor_point, True, resumed, block)
        kept_d_errors.append(d_errors)
        sum_0 = sum_0 + at_border_2
        d_memory_next = combined
    del d_anchor_each, kept_each, product_2_each, product_3_each, saved_5_each, value_3_each
    block = None
    d_memory_next_final = d_memory_next.unflatten(0, d_memory_next_like.shape[:2])
    d_memory_next_blocks = blocks.stack(d_memory_next_list[::-1], d_memory_next_like)
    del d_memory_next_list
    d_errors_2 = blocks.stack(kept_d_errors[::-1], d_memory_next_like)
    del kept_d_errors
    d_queries = torch.matmul(value, memory.mT)
    del value
    polynomial_gradient = blocks.polynomial.gradient(
        q,
        (coefficients_0, coefficients_1, coefficients_2),
        d_queries,
        (0, 1, 2),
        "symmetric",
    )
    product_4 = torch.matmul(d_y, saved_6.mT)
    value_6 = product_4 * value_2[..., None, :]
    value_7 = value_6 * saved_4
    value_8 = 2.0 * saved_2 * coefficients_2[..., None, None] + coefficients_1[..., None, None]
    value_9 = value_7 * value_8
    del value_8
    product_5 = torch.matmul(value_9, k_sources)
    combined_2 = polynomial_gradient - product_5
    del polynomial_gradient, product_5
    # M*: the memory at the last border
    anchor_point = blocks.at_start(anchor, memory, resumed, block)
    product_6 = torch.matmul(d_errors_2, anchor_point.mT)
    del anchor_point
    product_7 = torch.matmul(saved_6, d_memory_next_blocks.mT)
    d_features = product_6 - product_7 * last_weights[..., :, None]
    del product_6
    value_10 = d_features * saved_5
    degree_sum = blocks.polynomial.degree_sum(k_sources, value_10, 0, (0, 1, 2), "symmetric")
    value_11 = 0.5 * (1.0 / coefficients_0)
    value_12 = d_queries * saved_0
    del d_queries
    degree_sum_2 = blocks.polynomial.degree_sum(q, value_12, 0, (0, 1, 2), "symmetric")
    value_13 = degree_sum_2.sum(-1) * value_11
    combined_3 = degree_sum.sum(-1) * value_11 + value_13 - value_7.sum(-2).sum(-1)
    degree_sum_3 = blocks.polynomial.degree_sum(k_sources, value_10, 1, (0, 1, 2), "symmetric")
    value_14 = 0.5 * (1.0 / coefficients_1)
    degree_sum_4 = blocks.polynomial.degree_sum(q, value_12, 1, (0, 1, 2), "symmetric")
    total = (value_7 * saved_2).sum(-2).sum(-1)
    combined_4 = degree_sum_3.sum(-1) * value_14 + degree_sum_4.sum(-1) * value_14 - total
    degree_sum_5 = blocks.polynomial.degree_sum(k_sources, value_10, 2, (0, 1, 2), "symmetric")
    del value_10
    value_15 = 0.5 * (1.0 / coefficients_2)
    degree_sum_6 = blocks.polynomial.degree_sum(q, value_12, 2, (0, 1, 2), "symmetric")
    del value_12
    total_2 = (value_7 * (saved_2 * saved_2)).sum(-2).sum(-1)
    del value_7
    combined_5 = degree_sum_5.sum(-1) * value_15 + degree_sum_6.sum(-1) * value_15 - total_2
    d_read_decay = (d_y * saved_1).sum(-1)
    running = blocks.cumsum(d_read_decay * read_decay, -1, True, False)
    polynomial_gradient_2 = blocks.polynomial.gradient(
        k_sources,
        (coefficients_0, coefficients_1, coefficients_2),
        d_features,
        (0, 1, 2),
        "symmetric",
    )
    del d_features
    product_8 = torch.matmul(value_9.mT, q)
    del value_9
    combined_6 = polynomial_gradient_2 - product_8
    del polynomial_gradient_2, product_8
    value_16 = (product_7 * saved_5).sum(-1) * exists_sources
    del product_7
    product_9 = torch.matmul(value_16 * gamma_sources, banded.mT)
    running_2 = blocks.cumsum(product_9 * lr * until_end, -1, False, True)
    product_10 = torch.matmul(value_6 * scores, banded.mT)
    del scores, value_6
    value_17 = product_10 * saved_3
    del product_10
    banded_2 = value_17 * lr[..., None, :] * blocks.band(row, row, 1, None, like)
    banded_3 = blocks.cumsum(banded_2, -1, False, True) * blocks.band(row, row, 0, None, like)
    del banded_2
    combined_7 = -running_2 - banded_3.sum(-2)
    del banded_3
    combined_8 = -(product_9 * until_end) - value_17.sum(-2)
    del value_17
    combined_9 = -(value_16 * product) - (product_4 * value_4).sum(-2) * exists_sources
    del product_4, value_4
    value_18 = -d_errors_2
    del d_errors_2
    d_kept = (d_memory_next_blocks * memory).sum(-2).sum(-1)
    value_19 = d_kept * kept
    del kept
    return {
        "part_0": combined_2,
        "part_1": combined_3,
        "part_2": combined_4,
        "part_3": combined_5,
        "part_4": running,
        "part_5": combined_6,
        "part_6": combined_7,
        "part_7": combined_8,
        "part_8": combined_9,
        "part_9": value_18,
        "part_10": value_19,
        "sum_0": sum_0,
        "d_memory": d_memory_next_final,
        "d_memory_blocks": d_memory_next_blocks,
    }

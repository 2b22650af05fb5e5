"""The memory rule dla as a torch program: `forward` and `backward` of all blocks.

Arrays are [B, H, N, ...] over N blocks; `blocks` is atlasgen.runtime.blocks.
Rule 54aed90a9cf3, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
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
    memory_W1,
    origin_W1,
    log_alpha,
    k,
    lr,
    v,
    anchor_W2,
    memory_W2,
    anchor_W1,
    origin_W2,
):
    """The loop over blocks, then the reads of all blocks."""
    block = None  # all blocks at once
    # X = phi(k)
    features = blocks.polynomial.features(k, (1.0, 1.0, 0.5), (0, 1, 2), "symmetric")
    log_alpha_sums = blocks.running(log_alpha)
    # a_C: decay of the memory over the block
    kept = blocks.decay_whole(log_alpha_sums)
    # p_C: last row of P
    last_weights = blocks.decay_to_end(log_alpha_sums) * lr
    value = features * last_weights[..., :, None]
    memory_W1_like = memory_W1
    memory_W1 = memory_W1.flatten(0, 1)
    memory_W1_list = []
    memory_W2_like = memory_W2
    memory_W2 = memory_W2.flatten(0, 1)
    memory_W2_list = []
    kept_value = []
    kept_value_2 = []
    kept_value_3 = []
    kept_value_4 = []
    origin_W1_each = blocks.each(origin_W1, count, memory_W1_like)
    v_each = blocks.each(v, count, memory_W1_like)
    anchor_W2_each = blocks.each(anchor_W2, count, memory_W1_like)
    features_each = blocks.each(features, count, memory_W1_like)
    anchor_W1_each = blocks.each(anchor_W1, count, memory_W1_like)
    origin_W2_each = blocks.each(origin_W2, count, memory_W1_like)
    kept_each = blocks.each(kept, count, memory_W1_like)
    del kept
    last_weights_each = blocks.each(last_weights, count, memory_W1_like)
    del last_weights
    value_each = blocks.each(value, count, memory_W1_like)
    del value
    for block in range(count):
        memory_W1_list.append(memory_W1)
        memory_W2_list.append(memory_W2)
        combined = memory_W1 - origin_W1_each[block]
        # M*: the memory at the last border
        anchor_point_W2 = blocks.at_start(anchor_W2_each[block], memory_W2, resumed, block)
        product = torch.matmul(v_each[block], anchor_point_W2.mT)
        # M*: the memory at the last border
        anchor_point_W1 = blocks.at_start(anchor_W1_each[block], memory_W1, resumed, block)
        product_2 = torch.matmul(features_each[block], anchor_point_W1)
        value_2 = product * blocks.gelu_slope(product_2)
        combined_2 = memory_W2 - origin_W2_each[block]
        value_3 = torch.nn.functional.gelu(product_2)
        value_4 = combined * kept_each[block][..., None, None]
        # M at the end
        memory_W1_next = torch.baddbmm(value_4 + origin_W1_each[block], value_each[block].mT, value_2)
        value_5 = value_3 * last_weights_each[block][..., :, None]
        value_6 = combined_2 * kept_each[block][..., None, None]
        # M at the end
        memory_W2_next = torch.baddbmm(value_6 + origin_W2_each[block], value_5.mT, v_each[block])
        kept_value.append(product)
        kept_value_2.append(product_2)
        kept_value_3.append(value_2)
        kept_value_4.append(value_3)
        memory_W1, memory_W2 = (memory_W1_next, memory_W2_next)
    del anchor_W1_each, anchor_W2_each, features_each, kept_each, last_weights_each
    del origin_W1_each, origin_W2_each, v_each, value_each
    block = None
    memory_W1_final = memory_W1.unflatten(0, memory_W1_like.shape[:2])
    memory_W1_blocks = blocks.stack(memory_W1_list, memory_W1_like)
    del memory_W1_list
    memory_W2_final = memory_W2.unflatten(0, memory_W2_like.shape[:2])
    memory_W2_blocks = blocks.stack(memory_W2_list, memory_W2_like)
    del memory_W2_list
    kept_value_all = blocks.stack(kept_value, memory_W1_like)
    del kept_value
    kept_value_2_all = blocks.stack(kept_value_2, memory_W1_like)
    del kept_value_2
    kept_value_3_all = blocks.stack(kept_value_3, memory_W1_like)
    del kept_value_3
    kept_value_4_all = blocks.stack(kept_value_4, memory_W1_like)
    del kept_value_4
    # phi(q)
    queries = blocks.polynomial.features(q, (1.0, 1.0, 0.5), (0, 1, 2), "symmetric")
    combined_3 = memory_W1_blocks - origin_W1
    product_3 = torch.matmul(queries, combined_3)
    del combined_3
    # a: decay of the memory since the block's start
    read_decay = blocks.decay_from_start(log_alpha_sums, False)
    product_4 = torch.matmul(queries, origin_W1)
    product_5 = torch.matmul(q, k.mT)
    # Q X^T
    scores_W1 = 0.5 * (product_5 * product_5) + product_5 + 1.0
    decay = blocks.decay(log_alpha_sums, False)
    # (Q X^T) * P
    attention_W1 = scores_W1 * decay * lr[..., None, :]
    del scores_W1
    value_7 = product_3 * read_decay[..., :, None]
    combined_4 = blocks.add_product(value_7 + product_4, attention_W1, kept_value_3_all, 1)
    del attention_W1, kept_value_3_all, product_4, value_7
    value_8 = torch.nn.functional.gelu(combined_4)
    combined_5 = memory_W2_blocks - origin_W2
    product_6 = torch.matmul(value_8, combined_5)
    del combined_5
    product_7 = torch.matmul(value_8, origin_W2)
    # Q X^T
    scores_W2 = torch.matmul(value_8, kept_value_4_all.mT)
    del kept_value_4_all, value_8
    # (Q X^T) * P
    attention_W2 = scores_W2 * decay * lr[..., None, :]
    value_9 = product_6 * read_decay[..., :, None]
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = blocks.add_product(value_9 + product_7, attention_W2, v, 1) + q
    del attention_W2, product_7, value_9
    # M*: the memory at the last border
    anchor_point_W1_2 = blocks.at_start(anchor_W1, memory_W1_blocks, resumed, block)
    # M*: the memory at the last border
    anchor_point_W2_2 = blocks.at_start(anchor_W2, memory_W2_blocks, resumed, block)
    return {
        "y": reads,
        "anchor_W1_value": anchor_point_W1_2,
        "anchor_W2_value": anchor_point_W2_2,
        "saved_0": queries,
        "saved_1": product_3,
        "saved_2": product_5,
        "saved_3": decay,
        "saved_4": kept_value_all,
        "saved_5": features,
        "saved_6": kept_value_2_all,
        "saved_7": combined_4,
        "saved_8": product_6,
        "saved_9": scores_W2,
        "memory_W1": memory_W1_final,
        "memory_W2": memory_W2_final,
        "memory_W1_blocks": memory_W1_blocks,
        "memory_W2_blocks": memory_W2_blocks,
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
    lr,
    origin_W2,
    log_alpha,
    memory_W2,
    k,
    q,
    origin_W1,
    memory_W1,
    d_memory_W1_next,
    d_memory_W2_next,
    anchor_W1,
    anchor_W2,
    d_anchor_W1,
    d_anchor_W2,
    saved_3,
    saved_6,
    saved_7,
    saved_4,
    saved_2,
    saved_8,
    saved_1,
    saved_5,
    saved_9,
    saved_0,
):
    """The loop over blocks from the last to the first, then the gradients of all rows."""
    like = d_y
    row, halo_row = blocks.positions(rows, halo, False)
    block = None  # all blocks at once
    d_attention_W2 = torch.matmul(d_y, v.mT)
    value = d_attention_W2 * lr[..., None, :]
    d_scores_W2 = value * saved_3
    value_2 = torch.nn.functional.gelu(saved_6)
    product = torch.matmul(d_y, origin_W2.mT)
    log_alpha_sums = blocks.running(log_alpha)
    # a: decay of the memory since the block's start
    read_decay = blocks.decay_from_start(log_alpha_sums, False)
    value_3 = d_y * read_decay[..., :, None]
    combined = memory_W2 - origin_W2
    combined_2 = blocks.add_product(
        blocks.add_product(product, d_scores_W2, value_2, 1),
        value_3,
        combined.mT,
        1,
    )
    del product
    value_4 = combined_2 * blocks.gelu_slope(saved_7)
    del combined_2
    value_5 = blocks.gelu_slope(saved_6)
    value_6 = value_4 * read_decay[..., :, None]
    until_end = blocks.decay_to_end(log_alpha_sums)
    # p_C: last row of P
    last_weights = until_end * lr
    value_7 = torch.nn.functional.gelu(saved_7)
    product_2 = torch.matmul(d_scores_W2.mT, value_7)
    del d_scores_W2
    value_8 = saved_5 * last_weights[..., :, None]
    # Q X^T
    scores_W1 = 0.5 * (saved_2 * saved_2) + saved_2 + 1.0
    value_9 = scores_W1 * saved_3
    # (Q X^T) * P
    attention_W1 = value_9 * lr[..., None, :]
    product_3 = torch.matmul(attention_W1.mT, value_4)
    del attention_W1
    value_10 = 0.3989422804014327 * (2.0 - saved_6 * saved_6) * torch.exp(-0.5 * (saved_6 * saved_6))
    # a_C: decay of the memory over the block
    kept = blocks.decay_whole(log_alpha_sums)
    product_4 = torch.matmul(saved_0.mT, value_6)
    product_5 = torch.matmul(value_7.mT, value_3)
    del value_3
    product_6 = torch.matmul(saved_0.mT, value_4)
    product_7 = torch.matmul(value_7.mT, d_y)
    del value_7
    d_memory_W1_next_like = d_memory_W1_next
    d_memory_W1_next = d_memory_W1_next.flatten(0, 1)
    d_memory_W1_next_list = []
    d_memory_W2_next_like = d_memory_W2_next
    d_memory_W2_next = d_memory_W2_next.flatten(0, 1)
    d_memory_W2_next_list = []
    kept_value = []
    kept_value_2 = []
    kept_value_3 = []
    sum_0 = 0.0
    sum_1 = 0.0
    sum_2 = 0.0
    sum_3 = 0.0
    v_each = blocks.each(v, count, d_memory_W1_next_like)
    saved_4_each = blocks.each(saved_4, count, d_memory_W1_next_like)
    value_5_each = blocks.each(value_5, count, d_memory_W1_next_like)
    last_weights_each = blocks.each(last_weights, count, d_memory_W1_next_like)
    product_2_each = blocks.each(product_2, count, d_memory_W1_next_like)
    del product_2
    saved_5_each = blocks.each(saved_5, count, d_memory_W1_next_like)
    value_8_each = blocks.each(value_8, count, d_memory_W1_next_like)
    del value_8
    product_3_each = blocks.each(product_3, count, d_memory_W1_next_like)
    del product_3
    value_10_each = blocks.each(value_10, count, d_memory_W1_next_like)
    del value_10
    kept_each = blocks.each(kept, count, d_memory_W1_next_like)
    d_anchor_W1_each = blocks.each(d_anchor_W1, count, d_memory_W1_next_like)
    product_4_each = blocks.each(product_4, count, d_memory_W1_next_like)
    del product_4
    product_5_each = blocks.each(product_5, count, d_memory_W1_next_like)
    del product_5
    d_anchor_W2_each = blocks.each(d_anchor_W2, count, d_memory_W1_next_like)
    product_6_each = blocks.each(product_6, count, d_memory_W1_next_like)
    del product_6
    product_7_each = blocks.each(product_7, count, d_memory_W1_next_like)
    del product_7
    for block in reversed(range(count)):
        d_memory_W1_next_list.append(d_memory_W1_next)
        d_memory_W2_next_list.append(d_memory_W2_next)
        product_8 = torch.matmul(v_each[block], d_memory_W2_next.mT)
        combined_3 = product_8 * last_weights_each[block][..., :, None] + product_2_each[block]
        combined_4 = torch.baddbmm(product_3_each[block], value_8_each[block], d_memory_W1_next)
        value_11 = combined_4 * saved_4_each[block] * value_10_each[block]
        combined_5 = combined_3 * value_5_each[block] + value_11
        value_12 = combined_4 * value_5_each[block]
        d_anchor_point_W1 = torch.baddbmm(d_anchor_W1_each[block], saved_5_each[block].mT, combined_5)
        combined_6 = d_memory_W1_next * kept_each[block][..., None, None] + product_4_each[block]
        combined_7 = blocks.when_start(d_anchor_point_W1, False, resumed, block) + combined_6
        combined_8 = d_memory_W2_next * kept_each[block][..., None, None] + product_5_each[block]
        d_anchor_point_W2 = torch.baddbmm(d_anchor_W2_each[block], value_12.mT, v_each[block])
        combined_9 = combined_8 + blocks.when_start(d_anchor_point_W2, False, resumed, block)
        combined_10 = d_memory_W1_next + product_6_each[block] - combined_6
        at_border = blocks.when_start(d_anchor_point_W2, True, resumed, block)
        at_border_2 = blocks.when_start(d_anchor_point_W1, True, resumed, block)
        combined_11 = d_memory_W2_next + product_7_each[block] - combined_8
        kept_value.append(product_8)
        kept_value_2.append(combined_5)
        kept_value_3.append(value_12)
        sum_0 = sum_0 + combined_10
        sum_1 = sum_1 + at_border
        sum_2 = sum_2 + at_border_2
        sum_3 = sum_3 + combined_11
        d_memory_W1_next, d_memory_W2_next = (combined_7, combined_9)
    del d_anchor_W1_each, d_anchor_W2_each, kept_each, last_weights_each, product_2_each
    del product_3_each, product_4_each, product_5_each, product_6_each, product_7_each
    del saved_4_each, saved_5_each, v_each, value_10_each, value_5_each, value_8_each
    block = None
    d_memory_W1_next_final = d_memory_W1_next.unflatten(0, d_memory_W1_next_like.shape[:2])
    d_memory_W1_next_blocks = blocks.stack(d_memory_W1_next_list[::-1], d_memory_W1_next_like)
    del d_memory_W1_next_list
    d_memory_W2_next_final = d_memory_W2_next.unflatten(0, d_memory_W2_next_like.shape[:2])
    d_memory_W2_next_blocks = blocks.stack(d_memory_W2_next_list[::-1], d_memory_W2_next_like)
    del d_memory_W2_next_list
    kept_value_all = blocks.stack(kept_value[::-1], d_memory_W1_next_like)
    del kept_value
    kept_value_2_all = blocks.stack(kept_value_2[::-1], d_memory_W1_next_like)
    del kept_value_2
    kept_value_3_all = blocks.stack(kept_value_3[::-1], d_memory_W1_next_like)
    del kept_value_3
    value_13 = saved_4 * value_5
    del value_5
    d_attention_W1 = torch.matmul(value_4, value_13.mT)
    value_14 = d_attention_W1 * lr[..., None, :]
    d_scores_W1 = value_14 * saved_3
    value_15 = d_scores_W1 * (1.0 * saved_2 + 1.0)
    del d_scores_W1
    product_9 = torch.matmul(value_4, origin_W1.mT)
    combined_12 = memory_W1 - origin_W1
    d_queries = blocks.add_product(product_9, value_6, combined_12.mT, 1)
    del product_9, value_6
    polynomial_gradient = blocks.polynomial.gradient(q, (1.0, 1.0, 0.5), d_queries, (0, 1, 2), "symmetric")
    del d_queries
    combined_13 = blocks.add_product(d_y + polynomial_gradient, value_15, k, 1)
    del polynomial_gradient
    d_read_decay = (d_y * saved_8).sum(-1) + (value_4 * saved_1).sum(-1)
    del value_4
    running = blocks.cumsum(d_read_decay * read_decay, -1, True, False)
    product_10 = torch.matmul(value_13, d_memory_W1_next_blocks.mT)
    del value_13
    # M*: the memory at the last border
    anchor_point_W1 = blocks.at_start(anchor_W1, memory_W1, resumed, block)
    value_16 = product_10 * last_weights[..., :, None]
    d_features = blocks.add_product(value_16, kept_value_2_all, anchor_point_W1.mT, 1)
    del anchor_point_W1, kept_value_2_all, value_16
    polynomial_gradient_2 = blocks.polynomial.gradient(k, (1.0, 1.0, 0.5), d_features, (0, 1, 2), "symmetric")
    del d_features
    product_11 = torch.matmul(value_15.mT, q)
    del value_15
    combined_14 = polynomial_gradient_2 + product_11
    del polynomial_gradient_2, product_11
    d_last_weights = (kept_value_all * value_2).sum(-1) + (product_10 * saved_5).sum(-1)
    del kept_value_all, product_10
    running_2 = blocks.cumsum(d_last_weights * lr * until_end, -1, False, True)
    value_17 = (value * saved_9 + value_14 * scores_W1) * saved_3
    del scores_W1, value, value_14
    banded = value_17 * blocks.band(row, row, 1, None, like)
    del value_17
    banded_2 = blocks.cumsum(banded, -1, False, True) * blocks.band(row, row, 0, None, like)
    del banded
    combined_15 = running_2 + banded_2.sum(-2)
    del banded_2
    value_18 = saved_9 * saved_3
    total = (d_attention_W2 * value_18).sum(-2)
    del d_attention_W2
    combined_16 = d_last_weights * until_end + total + (d_attention_W1 * value_9).sum(-2)
    del d_attention_W1, value_9
    product_12 = torch.matmul(value_2 * last_weights[..., :, None], d_memory_W2_next_blocks)
    del last_weights, value_2
    # (Q X^T) * P
    attention_W2 = value_18 * lr[..., None, :]
    del value_18
    # M*: the memory at the last border
    anchor_point_W2 = blocks.at_start(anchor_W2, memory_W2, resumed, block)
    combined_17 = blocks.add_product(
        blocks.add_product(product_12, attention_W2.mT, d_y, 1),
        kept_value_3_all,
        anchor_point_W2,
        1,
    )
    del anchor_point_W2, attention_W2, kept_value_3_all, product_12
    total_2 = (d_memory_W1_next_blocks * combined_12).sum(-2).sum(-1)
    del combined_12
    d_kept = (d_memory_W2_next_blocks * combined).sum(-2).sum(-1) + total_2
    del combined
    value_19 = d_kept * kept
    del kept
    return {
        "part_0": combined_13,
        "part_1": running,
        "part_2": combined_14,
        "part_3": combined_15,
        "part_4": combined_16,
        "part_5": combined_17,
        "part_6": value_19,
        "sum_0": sum_0,
        "sum_1": sum_1,
        "sum_2": sum_2,
        "sum_3": sum_3,
        "d_memory_W1": d_memory_W1_next_final,
        "d_memory_W2": d_memory_W2_next_final,
        "d_memory_W1_blocks": d_memory_W1_next_blocks,
        "d_memory_W2_blocks": d_memory_W2_next_blocks,
    }

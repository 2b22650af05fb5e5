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
    log_alpha,
    origin_W1,
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
    value = 1.0 - kept
    value_2 = origin_W1 * value[..., None, None]
    # p_C: last row of P
    last_weights = blocks.decay_to_end(log_alpha_sums) * lr
    value_3 = features * last_weights[..., :, None]
    value_4 = origin_W2 * value[..., None, None]
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
    v_each = blocks.each(v, count, memory_W1_like)
    anchor_W2_each = blocks.each(anchor_W2, count, memory_W1_like)
    features_each = blocks.each(features, count, memory_W1_like)
    anchor_W1_each = blocks.each(anchor_W1, count, memory_W1_like)
    kept_each = blocks.each(kept, count, memory_W1_like)
    del kept
    value_2_each = blocks.each(value_2, count, memory_W1_like)
    del value_2
    last_weights_each = blocks.each(last_weights, count, memory_W1_like)
    del last_weights
    value_3_each = blocks.each(value_3, count, memory_W1_like)
    del value_3
    value_4_each = blocks.each(value_4, count, memory_W1_like)
    del value_4
    for block in range(count):
        memory_W1_list.append(memory_W1)
        memory_W2_list.append(memory_W2)
        # M*: the memory at the last border
        anchor_point_W2 = blocks.at_start(anchor_W2_each[block], memory_W2, resumed, block)
        product = torch.matmul(v_each[block], anchor_point_W2.mT)
        # M*: the memory at the last border
        anchor_point_W1 = blocks.at_start(anchor_W1_each[block], memory_W1, resumed, block)
        product_2 = torch.matmul(features_each[block], anchor_point_W1)
        value_5 = product * blocks.gelu_slope(product_2)
        value_6 = torch.nn.functional.gelu(product_2)
        value_7 = memory_W1 * kept_each[block][..., None, None]
        # M at the end
        memory_W1_next = torch.baddbmm(value_7 + value_2_each[block], value_3_each[block].mT, value_5)
        value_8 = value_6 * last_weights_each[block][..., :, None]
        value_9 = memory_W2 * kept_each[block][..., None, None]
        # M at the end
        memory_W2_next = torch.baddbmm(value_9 + value_4_each[block], value_8.mT, v_each[block])
        kept_value.append(product)
        kept_value_2.append(product_2)
        kept_value_3.append(value_5)
        kept_value_4.append(value_6)
        memory_W1, memory_W2 = (memory_W1_next, memory_W2_next)
    del anchor_W1_each, anchor_W2_each, features_each, kept_each, last_weights_each, v_each
    del value_2_each, value_3_each, value_4_each
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
    product_3 = torch.matmul(queries, memory_W1_blocks)
    # a: decay of the memory since the block's start
    read_decay = blocks.decay_from_start(log_alpha_sums, False)
    product_4 = torch.matmul(queries, origin_W1)
    value_10 = 1.0 - read_decay
    product_5 = torch.matmul(q, k.mT)
    # Q X^T
    scores_W1 = 0.5 * (product_5 * product_5) + product_5 + 1.0
    decay = blocks.decay(log_alpha_sums, False)
    # (Q X^T) * P
    attention_W1 = scores_W1 * decay * lr[..., None, :]
    del scores_W1
    value_11 = product_3 * read_decay[..., :, None]
    value_12 = product_4 * value_10[..., :, None]
    combined = blocks.add_product(value_11 + value_12, attention_W1, kept_value_3_all, 1)
    del attention_W1, kept_value_3_all, value_11, value_12
    value_13 = torch.nn.functional.gelu(combined)
    product_6 = torch.matmul(value_13, memory_W2_blocks)
    product_7 = torch.matmul(value_13, origin_W2)
    # Q X^T
    scores_W2 = torch.matmul(value_13, kept_value_4_all.mT)
    del kept_value_4_all, value_13
    # (Q X^T) * P
    attention_W2 = scores_W2 * decay * lr[..., None, :]
    value_14 = product_6 * read_decay[..., :, None]
    value_15 = product_7 * value_10[..., :, None]
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = blocks.add_product(value_14 + value_15, attention_W2, v, 1) + q
    del attention_W2, value_14, value_15
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
        "saved_2": product_4,
        "saved_3": product_5,
        "saved_4": decay,
        "saved_5": kept_value_all,
        "saved_6": features,
        "saved_7": kept_value_2_all,
        "saved_8": combined,
        "saved_9": product_6,
        "saved_10": product_7,
        "saved_11": scores_W2,
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
    log_alpha,
    origin_W2,
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
    saved_4,
    saved_7,
    saved_8,
    saved_5,
    saved_3,
    saved_9,
    saved_1,
    saved_10,
    saved_2,
    saved_6,
    saved_11,
    saved_0,
):
    """The loop over blocks from the last to the first, then the gradients of all rows."""
    like = d_y
    row, halo_row = blocks.positions(rows, halo, False)
    block = None  # all blocks at once
    d_attention_W2 = torch.matmul(d_y, v.mT)
    value = d_attention_W2 * lr[..., None, :]
    d_scores_W2 = value * saved_4
    value_2 = torch.nn.functional.gelu(saved_7)
    log_alpha_sums = blocks.running(log_alpha)
    # a: decay of the memory since the block's start
    read_decay = blocks.decay_from_start(log_alpha_sums, False)
    value_3 = 1.0 - read_decay
    value_4 = d_y * value_3[..., :, None]
    product = torch.matmul(value_4, origin_W2.mT)
    value_5 = d_y * read_decay[..., :, None]
    combined = blocks.add_product(
        blocks.add_product(product, d_scores_W2, value_2, 1),
        value_5,
        memory_W2.mT,
        1,
    )
    del product
    value_6 = combined * blocks.gelu_slope(saved_8)
    del combined
    value_7 = blocks.gelu_slope(saved_7)
    value_8 = value_6 * value_3[..., :, None]
    value_9 = value_6 * read_decay[..., :, None]
    until_end = blocks.decay_to_end(log_alpha_sums)
    # p_C: last row of P
    last_weights = until_end * lr
    value_10 = torch.nn.functional.gelu(saved_8)
    product_2 = torch.matmul(d_scores_W2.mT, value_10)
    del d_scores_W2
    value_11 = saved_6 * last_weights[..., :, None]
    # Q X^T
    scores_W1 = 0.5 * (saved_3 * saved_3) + saved_3 + 1.0
    value_12 = scores_W1 * saved_4
    # (Q X^T) * P
    attention_W1 = value_12 * lr[..., None, :]
    product_3 = torch.matmul(attention_W1.mT, value_6)
    del attention_W1
    value_13 = 0.3989422804014327 * (2.0 - saved_7 * saved_7) * torch.exp(-0.5 * (saved_7 * saved_7))
    # a_C: decay of the memory over the block
    kept = blocks.decay_whole(log_alpha_sums)
    product_4 = torch.matmul(saved_0.mT, value_9)
    product_5 = torch.matmul(value_10.mT, value_5)
    del value_5
    value_14 = 1.0 - kept
    product_6 = torch.matmul(saved_0.mT, value_8)
    product_7 = torch.matmul(value_10.mT, value_4)
    del value_10, value_4
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
    saved_5_each = blocks.each(saved_5, count, d_memory_W1_next_like)
    value_7_each = blocks.each(value_7, count, d_memory_W1_next_like)
    last_weights_each = blocks.each(last_weights, count, d_memory_W1_next_like)
    product_2_each = blocks.each(product_2, count, d_memory_W1_next_like)
    del product_2
    saved_6_each = blocks.each(saved_6, count, d_memory_W1_next_like)
    value_11_each = blocks.each(value_11, count, d_memory_W1_next_like)
    del value_11
    product_3_each = blocks.each(product_3, count, d_memory_W1_next_like)
    del product_3
    value_13_each = blocks.each(value_13, count, d_memory_W1_next_like)
    del value_13
    kept_each = blocks.each(kept, count, d_memory_W1_next_like)
    d_anchor_W1_each = blocks.each(d_anchor_W1, count, d_memory_W1_next_like)
    product_4_each = blocks.each(product_4, count, d_memory_W1_next_like)
    del product_4
    product_5_each = blocks.each(product_5, count, d_memory_W1_next_like)
    del product_5
    d_anchor_W2_each = blocks.each(d_anchor_W2, count, d_memory_W1_next_like)
    value_14_each = blocks.each(value_14, count, d_memory_W1_next_like)
    del value_14
    product_6_each = blocks.each(product_6, count, d_memory_W1_next_like)
    del product_6
    product_7_each = blocks.each(product_7, count, d_memory_W1_next_like)
    del product_7
    for block in reversed(range(count)):
        d_memory_W1_next_list.append(d_memory_W1_next)
        d_memory_W2_next_list.append(d_memory_W2_next)
        product_8 = torch.matmul(v_each[block], d_memory_W2_next.mT)
        combined_2 = product_8 * last_weights_each[block][..., :, None] + product_2_each[block]
        combined_3 = torch.baddbmm(product_3_each[block], value_11_each[block], d_memory_W1_next)
        value_15 = combined_3 * saved_5_each[block] * value_13_each[block]
        combined_4 = combined_2 * value_7_each[block] + value_15
        value_16 = combined_3 * value_7_each[block]
        d_anchor_point_W1 = torch.baddbmm(d_anchor_W1_each[block], saved_6_each[block].mT, combined_4)
        at_border = blocks.when_start(d_anchor_point_W1, False, resumed, block)
        value_17 = d_memory_W1_next * kept_each[block][..., None, None]
        combined_5 = value_17 + at_border + product_4_each[block]
        d_anchor_point_W2 = torch.baddbmm(d_anchor_W2_each[block], value_16.mT, v_each[block])
        at_border_2 = blocks.when_start(d_anchor_point_W2, False, resumed, block)
        value_18 = d_memory_W2_next * kept_each[block][..., None, None]
        combined_6 = value_18 + product_5_each[block] + at_border_2
        value_19 = d_memory_W1_next * value_14_each[block][..., None, None]
        combined_7 = value_19 + product_6_each[block]
        at_border_3 = blocks.when_start(d_anchor_point_W2, True, resumed, block)
        at_border_4 = blocks.when_start(d_anchor_point_W1, True, resumed, block)
        value_20 = d_memory_W2_next * value_14_each[block][..., None, None]
        combined_8 = value_20 + product_7_each[block]
        kept_value.append(product_8)
        kept_value_2.append(combined_4)
        kept_value_3.append(value_16)
        sum_0 = sum_0 + combined_7
        sum_1 = sum_1 + at_border_3
        sum_2 = sum_2 + at_border_4
        sum_3 = sum_3 + combined_8
        d_memory_W1_next, d_memory_W2_next = (combined_5, combined_6)
    del d_anchor_W1_each, d_anchor_W2_each, kept_each, last_weights_each, product_2_each
    del product_3_each, product_4_each, product_5_each, product_6_each, product_7_each
    del saved_5_each, saved_6_each, v_each, value_11_each, value_13_each, value_14_each
    del value_7_each
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
    value_21 = saved_5 * value_7
    del value_7
    d_attention_W1 = torch.matmul(value_6, value_21.mT)
    value_22 = d_attention_W1 * lr[..., None, :]
    d_scores_W1 = value_22 * saved_4
    value_23 = d_scores_W1 * (1.0 * saved_3 + 1.0)
    del d_scores_W1
    product_9 = torch.matmul(value_8, origin_W1.mT)
    del value_8
    d_queries = blocks.add_product(product_9, value_9, memory_W1.mT, 1)
    del product_9, value_9
    polynomial_gradient = blocks.polynomial.gradient(q, (1.0, 1.0, 0.5), d_queries, (0, 1, 2), "symmetric")
    del d_queries
    combined_9 = blocks.add_product(d_y + polynomial_gradient, value_23, k, 1)
    del polynomial_gradient
    combined_10 = (d_y * saved_10).sum(-1) + (value_6 * saved_2).sum(-1)
    d_read_decay = (d_y * saved_9).sum(-1) + (value_6 * saved_1).sum(-1) - combined_10
    del value_6
    running = blocks.cumsum(d_read_decay * read_decay, -1, True, False)
    product_10 = torch.matmul(value_21, d_memory_W1_next_blocks.mT)
    del value_21
    # M*: the memory at the last border
    anchor_point_W1 = blocks.at_start(anchor_W1, memory_W1, resumed, block)
    value_24 = product_10 * last_weights[..., :, None]
    d_features = blocks.add_product(value_24, kept_value_2_all, anchor_point_W1.mT, 1)
    del anchor_point_W1, kept_value_2_all, value_24
    polynomial_gradient_2 = blocks.polynomial.gradient(k, (1.0, 1.0, 0.5), d_features, (0, 1, 2), "symmetric")
    del d_features
    product_11 = torch.matmul(value_23.mT, q)
    del value_23
    combined_11 = polynomial_gradient_2 + product_11
    del polynomial_gradient_2, product_11
    d_last_weights = (kept_value_all * value_2).sum(-1) + (product_10 * saved_6).sum(-1)
    del kept_value_all, product_10
    running_2 = blocks.cumsum(d_last_weights * lr * until_end, -1, False, True)
    value_25 = (value * saved_11 + value_22 * scores_W1) * saved_4
    del scores_W1, value, value_22
    banded = value_25 * blocks.band(row, row, 1, None, like)
    del value_25
    banded_2 = blocks.cumsum(banded, -1, False, True) * blocks.band(row, row, 0, None, like)
    del banded
    combined_12 = running_2 + banded_2.sum(-2)
    del banded_2
    value_26 = saved_11 * saved_4
    total = (d_attention_W2 * value_26).sum(-2)
    del d_attention_W2
    combined_13 = d_last_weights * until_end + total + (d_attention_W1 * value_12).sum(-2)
    del d_attention_W1, value_12
    product_12 = torch.matmul(value_2 * last_weights[..., :, None], d_memory_W2_next_blocks)
    del last_weights, value_2
    # (Q X^T) * P
    attention_W2 = value_26 * lr[..., None, :]
    del value_26
    # M*: the memory at the last border
    anchor_point_W2 = blocks.at_start(anchor_W2, memory_W2, resumed, block)
    combined_14 = blocks.add_product(
        blocks.add_product(product_12, attention_W2.mT, d_y, 1),
        kept_value_3_all,
        anchor_point_W2,
        1,
    )
    del anchor_point_W2, attention_W2, kept_value_3_all, product_12
    total_2 = (d_memory_W2_next_blocks * origin_W2).sum(-2).sum(-1)
    combined_15 = total_2 + (d_memory_W1_next_blocks * origin_W1).sum(-2).sum(-1)
    total_3 = (d_memory_W2_next_blocks * memory_W2).sum(-2).sum(-1)
    total_4 = (d_memory_W1_next_blocks * memory_W1).sum(-2).sum(-1)
    d_kept = total_3 + total_4 - combined_15
    value_27 = d_kept * kept
    del kept
    return {
        "part_0": combined_9,
        "part_1": running,
        "part_2": combined_11,
        "part_3": combined_12,
        "part_4": combined_13,
        "part_5": combined_14,
        "part_6": value_27,
        "sum_0": sum_0,
        "sum_1": sum_1,
        "sum_2": sum_2,
        "sum_3": sum_3,
        "d_memory_W1": d_memory_W1_next_final,
        "d_memory_W2": d_memory_W2_next_final,
        "d_memory_W1_blocks": d_memory_W1_next_blocks,
        "d_memory_W2_blocks": d_memory_W2_next_blocks,
    }

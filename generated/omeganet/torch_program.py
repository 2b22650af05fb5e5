"""The memory rule omeganet as a torch program: `forward` and `backward` of all blocks.

Arrays are [B, H, N, ...] over N blocks; `blocks` is atlasgen.runtime.blocks.
Rule bb3048510b95, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
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
    memory_W1,
    origin_W1,
    log_alpha,
    k,
    lr,
    gamma,
    exists,
    anchor_W1,
    anchor_W2,
    memory_W2,
    v,
    k_halo,
    gamma_halo,
    exists_halo,
    v_halo,
    origin_W2,
):
    """The loop over blocks, then the reads of all blocks."""
    like = q
    row, halo_row = blocks.positions(rows, halo, False)
    block = None  # all blocks at once
    banded = blocks.band(row, row, 0, 15, like)
    # X = phi(k)
    features = blocks.polynomial.features(
        k,
        (coefficients_0, coefficients_1, coefficients_2),
        (0, 1, 2),
        "symmetric",
    )
    rename = k
    banded_2 = blocks.band(row, halo_row, 0, 15, like)
    # X = phi(k)
    features_halo = blocks.polynomial.features(
        k_halo,
        (coefficients_0, coefficients_1, coefficients_2),
        (0, 1, 2),
        "symmetric",
    )
    rename_2 = k_halo
    log_alpha_sums = blocks.running(log_alpha)
    # a_C: decay of the memory over the block
    kept = blocks.decay_whole(log_alpha_sums)
    value = blocks.decay_to_end(log_alpha_sums) * lr
    product = torch.matmul(value, banded)
    # p_C: last row of P
    last_weights = product * gamma * exists
    value_2 = features * last_weights[..., :, None]
    product_2 = torch.matmul(value, banded_2)
    # p_C: last row of P
    last_weights_halo = product_2 * gamma_halo * exists_halo
    value_3 = features_halo * last_weights_halo[..., :, None]
    memory_W1_like = memory_W1
    memory_W1 = memory_W1.flatten(0, 1)
    memory_W1_list = []
    memory_W2_like = memory_W2
    memory_W2 = memory_W2.flatten(0, 1)
    memory_W2_list = []
    kept_value = []
    kept_value_2 = []
    kept_errors = []
    kept_value_3 = []
    kept_errors_W1 = []
    kept_value_4 = []
    kept_value_5 = []
    kept_errors_halo = []
    kept_value_6 = []
    kept_errors_W1_halo = []
    origin_W1_each = blocks.each(origin_W1, count, memory_W1_like)
    features_each = blocks.each(features, count, memory_W1_like)
    anchor_W1_each = blocks.each(anchor_W1, count, memory_W1_like)
    anchor_W2_each = blocks.each(anchor_W2, count, memory_W1_like)
    rename_each = blocks.each(rename, count, memory_W1_like)
    del rename
    v_each = blocks.each(v, count, memory_W1_like)
    features_halo_each = blocks.each(features_halo, count, memory_W1_like)
    rename_2_each = blocks.each(rename_2, count, memory_W1_like)
    del rename_2
    v_halo_each = blocks.each(v_halo, count, memory_W1_like)
    origin_W2_each = blocks.each(origin_W2, count, memory_W1_like)
    kept_each = blocks.each(kept, count, memory_W1_like)
    del kept
    last_weights_each = blocks.each(last_weights, count, memory_W1_like)
    del last_weights
    value_2_each = blocks.each(value_2, count, memory_W1_like)
    del value_2
    last_weights_halo_each = blocks.each(last_weights_halo, count, memory_W1_like)
    del last_weights_halo
    value_3_each = blocks.each(value_3, count, memory_W1_like)
    del value_3
    for block in range(count):
        memory_W1_list.append(memory_W1)
        memory_W2_list.append(memory_W2)
        combined = memory_W1 - origin_W1_each[block]
        # M*: the memory at the last border
        anchor_point_W1 = blocks.at_start(anchor_W1_each[block], memory_W1, resumed, block)
        product_3 = torch.matmul(features_each[block], anchor_point_W1)
        value_4 = torch.nn.functional.gelu(product_3)
        # M*: the memory at the last border
        anchor_point_W2 = blocks.at_start(anchor_W2_each[block], memory_W2, resumed, block)
        # pred = f(M*, phi(k))
        predictions = torch.baddbmm(rename_each[block], value_4, anchor_point_W2)
        # E = dl/dpred at the block's M*
        errors = predictions - v_each[block]
        product_4 = torch.matmul(errors, anchor_point_W2.mT)
        # the error that reaches the output of W1
        errors_W1 = product_4 * blocks.gelu_slope(product_3)
        product_5 = torch.matmul(features_halo_each[block], anchor_point_W1)
        value_5 = torch.nn.functional.gelu(product_5)
        # pred = f(M*, phi(k))
        predictions_halo = torch.baddbmm(rename_2_each[block], value_5, anchor_point_W2)
        # E = dl/dpred at the block's M*
        errors_halo = predictions_halo - v_halo_each[block]
        product_6 = torch.matmul(errors_halo, anchor_point_W2.mT)
        # the error that reaches the output of W1
        errors_W1_halo = product_6 * blocks.gelu_slope(product_5)
        combined_2 = memory_W2 - origin_W2_each[block]
        value_6 = combined * kept_each[block][..., None, None]
        # M at the end
        memory_W1_next = torch.baddbmm(
            torch.baddbmm(value_6 + origin_W1_each[block], value_2_each[block].mT, errors_W1, alpha=-1),
            value_3_each[block].mT,
            errors_W1_halo,
            alpha=-1,
        )
        value_7 = value_5 * last_weights_halo_each[block][..., :, None]
        value_8 = value_4 * last_weights_each[block][..., :, None]
        value_9 = combined_2 * kept_each[block][..., None, None]
        # M at the end
        memory_W2_next = torch.baddbmm(
            torch.baddbmm(value_9 + origin_W2_each[block], value_8.mT, errors, alpha=-1),
            value_7.mT,
            errors_halo,
            alpha=-1,
        )
        kept_value.append(product_3)
        kept_value_2.append(value_4)
        kept_errors.append(errors)
        kept_value_3.append(product_4)
        kept_errors_W1.append(errors_W1)
        kept_value_4.append(product_5)
        kept_value_5.append(value_5)
        kept_errors_halo.append(errors_halo)
        kept_value_6.append(product_6)
        kept_errors_W1_halo.append(errors_W1_halo)
        memory_W1, memory_W2 = (memory_W1_next, memory_W2_next)
    del anchor_W1_each, anchor_W2_each, features_each, features_halo_each, kept_each
    del last_weights_each, last_weights_halo_each, origin_W1_each, origin_W2_each
    del rename_2_each, rename_each, v_each, v_halo_each, value_2_each, value_3_each
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
    errors_2 = blocks.stack(kept_errors, memory_W1_like)
    del kept_errors
    kept_value_3_all = blocks.stack(kept_value_3, memory_W1_like)
    del kept_value_3
    errors_W1_2 = blocks.stack(kept_errors_W1, memory_W1_like)
    del kept_errors_W1
    kept_value_4_all = blocks.stack(kept_value_4, memory_W1_like)
    del kept_value_4
    kept_value_5_all = blocks.stack(kept_value_5, memory_W1_like)
    del kept_value_5
    errors_halo_2 = blocks.stack(kept_errors_halo, memory_W1_like)
    del kept_errors_halo
    kept_value_6_all = blocks.stack(kept_value_6, memory_W1_like)
    del kept_value_6
    errors_W1_halo_2 = blocks.stack(kept_errors_W1_halo, memory_W1_like)
    del kept_errors_W1_halo
    # phi(q)
    queries = blocks.polynomial.features(
        q,
        (coefficients_0, coefficients_1, coefficients_2),
        (0, 1, 2),
        "symmetric",
    )
    combined_3 = memory_W1_blocks - origin_W1
    product_7 = torch.matmul(queries, combined_3)
    del combined_3
    # a: decay of the memory since the block's start
    read_decay = blocks.decay_from_start(log_alpha_sums, False)
    product_8 = torch.matmul(queries, origin_W1)
    product_9 = torch.matmul(q, k.mT)
    # Q X^T
    scores_W1 = (
        coefficients_2[..., None, None] * (product_9 * product_9)
        + product_9 * coefficients_1[..., None, None]
        + coefficients_0[..., None, None]
    )
    decay = blocks.decay(log_alpha_sums, False)
    value_10 = decay * lr[..., None, :]
    product_10 = torch.matmul(value_10, banded)
    # P: source weights by read
    weights = product_10 * (gamma * exists)[..., None, :]
    # (Q X^T) * P
    attention_W1 = scores_W1 * weights
    del scores_W1
    product_11 = torch.matmul(q, k_halo.mT)
    # Q X^T
    scores_W1_halo = (
        coefficients_2[..., None, None] * (product_11 * product_11)
        + product_11 * coefficients_1[..., None, None]
        + coefficients_0[..., None, None]
    )
    product_12 = torch.matmul(value_10, banded_2)
    del value_10
    # P: source weights by read
    weights_halo = product_12 * (gamma_halo * exists_halo)[..., None, :]
    # (Q X^T) * P
    attention_W1_halo = scores_W1_halo * weights_halo
    del scores_W1_halo
    value_11 = product_7 * read_decay[..., :, None]
    combined_4 = blocks.add_product(
        blocks.add_product(value_11 + product_8, attention_W1, errors_W1_2, -1),
        attention_W1_halo,
        errors_W1_halo_2,
        -1,
    )
    del attention_W1, attention_W1_halo, errors_W1_2, errors_W1_halo_2, product_8, value_11
    value_12 = torch.nn.functional.gelu(combined_4)
    combined_5 = memory_W2_blocks - origin_W2
    product_13 = torch.matmul(value_12, combined_5)
    del combined_5
    product_14 = torch.matmul(value_12, origin_W2)
    # Q X^T
    scores_W2 = torch.matmul(value_12, kept_value_2_all.mT)
    del kept_value_2_all
    # (Q X^T) * P
    attention_W2 = scores_W2 * weights
    del weights
    # Q X^T
    scores_W2_halo = torch.matmul(value_12, kept_value_5_all.mT)
    del kept_value_5_all, value_12
    # (Q X^T) * P
    attention_W2_halo = scores_W2_halo * weights_halo
    del weights_halo
    value_13 = product_13 * read_decay[..., :, None]
    combined_6 = blocks.add_product(
        blocks.add_product(value_13 + product_14, attention_W2, errors_2, -1),
        attention_W2_halo,
        errors_halo_2,
        -1,
    )
    del attention_W2, attention_W2_halo, product_14, value_13
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = combined_6 + q
    del combined_6
    # M*: the memory at the last border
    anchor_point_W1_2 = blocks.at_start(anchor_W1, memory_W1_blocks, resumed, block)
    # M*: the memory at the last border
    anchor_point_W2_2 = blocks.at_start(anchor_W2, memory_W2_blocks, resumed, block)
    return {
        "y": reads,
        "anchor_W1_value": anchor_point_W1_2,
        "anchor_W2_value": anchor_point_W2_2,
        "saved_0": queries,
        "saved_1": product_7,
        "saved_2": product_9,
        "saved_3": decay,
        "saved_4": product_10,
        "saved_5": features,
        "saved_6": kept_value_all,
        "saved_7": errors_2,
        "saved_8": kept_value_3_all,
        "saved_9": product_11,
        "saved_10": product_12,
        "saved_11": features_halo,
        "saved_12": kept_value_4_all,
        "saved_13": errors_halo_2,
        "saved_14": kept_value_6_all,
        "saved_15": combined_4,
        "saved_16": product_13,
        "saved_17": scores_W2,
        "saved_18": scores_W2_halo,
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
    q,
    coefficients_0,
    coefficients_1,
    coefficients_2,
    origin_W2,
    log_alpha,
    memory_W2,
    gamma_halo,
    exists_halo,
    gamma,
    exists,
    origin_W1,
    memory_W1,
    k_halo,
    k,
    d_memory_W1_next,
    lr,
    anchor_W2,
    d_memory_W2_next,
    anchor_W1,
    d_anchor_W1,
    d_anchor_W2,
    saved_13,
    saved_10,
    saved_12,
    saved_7,
    saved_4,
    saved_6,
    saved_15,
    saved_14,
    saved_9,
    saved_8,
    saved_2,
    saved_11,
    saved_18,
    saved_5,
    saved_17,
    saved_0,
    saved_16,
    saved_1,
    saved_3,
):
    """The loop over blocks from the last to the first, then the gradients of all rows."""
    like = d_y
    row, halo_row = blocks.positions(rows, halo, False)
    block = None  # all blocks at once
    product = torch.matmul(d_y, origin_W2.mT)
    log_alpha_sums = blocks.running(log_alpha)
    # a: decay of the memory since the block's start
    read_decay = blocks.decay_from_start(log_alpha_sums, False)
    value = d_y * read_decay[..., :, None]
    combined = memory_W2 - origin_W2
    product_2 = torch.matmul(d_y, saved_13.mT)
    value_2 = gamma_halo * exists_halo
    # P: source weights by read
    weights_halo = saved_10 * value_2[..., None, :]
    value_3 = product_2 * weights_halo
    value_4 = torch.nn.functional.gelu(saved_12)
    product_3 = torch.matmul(d_y, saved_7.mT)
    value_5 = gamma * exists
    # P: source weights by read
    weights = saved_4 * value_5[..., None, :]
    value_6 = product_3 * weights
    value_7 = torch.nn.functional.gelu(saved_6)
    combined_2 = blocks.add_product(
        blocks.add_product(blocks.add_product(product, value, combined.mT, 1), value_3, value_4, -1),
        value_6,
        value_7,
        -1,
    )
    del product
    value_8 = combined_2 * blocks.gelu_slope(saved_15)
    del combined_2
    value_9 = value_8 * read_decay[..., :, None]
    value_10 = blocks.gelu_slope(saved_12)
    value_11 = blocks.gelu_slope(saved_6)
    until_end = blocks.decay_to_end(log_alpha_sums)
    value_12 = until_end * lr
    banded = blocks.band(row, halo_row, 0, 15, like)
    product_4 = torch.matmul(value_12, banded)
    # p_C: last row of P
    last_weights_halo = product_4 * gamma_halo * exists_halo
    value_13 = saved_11 * last_weights_halo[..., :, None]
    # Q X^T
    scores_W1_halo = (
        coefficients_2[..., None, None] * (saved_9 * saved_9)
        + saved_9 * coefficients_1[..., None, None]
        + coefficients_0[..., None, None]
    )
    # (Q X^T) * P
    attention_W1_halo = scores_W1_halo * weights_halo
    product_5 = torch.matmul(attention_W1_halo.mT, value_8)
    del attention_W1_halo
    value_14 = 0.3989422804014327 * (2.0 - saved_12 * saved_12) * torch.exp(-0.5 * (saved_12 * saved_12))
    # M*: the memory at the last border
    anchor_point_W2 = blocks.at_start(anchor_W2, memory_W2, resumed, block)
    value_15 = value_4 * last_weights_halo[..., :, None]
    # (Q X^T) * P
    attention_W2_halo = saved_18 * weights_halo
    product_6 = torch.matmul(attention_W2_halo.mT, d_y)
    del attention_W2_halo
    value_16 = torch.nn.functional.gelu(saved_15)
    product_7 = torch.matmul(value_3.mT, value_16)
    del value_3
    banded_2 = blocks.band(row, row, 0, 15, like)
    product_8 = torch.matmul(value_12, banded_2)
    # p_C: last row of P
    last_weights = product_8 * gamma * exists
    value_17 = saved_5 * last_weights[..., :, None]
    # Q X^T
    scores_W1 = (
        coefficients_2[..., None, None] * (saved_2 * saved_2)
        + saved_2 * coefficients_1[..., None, None]
        + coefficients_0[..., None, None]
    )
    # (Q X^T) * P
    attention_W1 = scores_W1 * weights
    product_9 = torch.matmul(attention_W1.mT, value_8)
    del attention_W1
    value_18 = 0.3989422804014327 * (2.0 - saved_6 * saved_6) * torch.exp(-0.5 * (saved_6 * saved_6))
    value_19 = value_7 * last_weights[..., :, None]
    # (Q X^T) * P
    attention_W2 = saved_17 * weights
    product_10 = torch.matmul(attention_W2.mT, d_y)
    del attention_W2
    product_11 = torch.matmul(value_6.mT, value_16)
    del value_6
    # a_C: decay of the memory over the block
    kept = blocks.decay_whole(log_alpha_sums)
    product_12 = torch.matmul(saved_0.mT, value_9)
    product_13 = torch.matmul(value_16.mT, value)
    del value
    product_14 = torch.matmul(saved_0.mT, value_8)
    product_15 = torch.matmul(value_16.mT, d_y)
    del value_16
    d_memory_W1_next_like = d_memory_W1_next
    d_memory_W1_next = d_memory_W1_next.flatten(0, 1)
    d_memory_W1_next_list = []
    d_memory_W2_next_like = d_memory_W2_next
    d_memory_W2_next = d_memory_W2_next.flatten(0, 1)
    d_memory_W2_next_list = []
    kept_d_errors_halo = []
    kept_value = []
    kept_value_2 = []
    kept_d_errors = []
    kept_value_3 = []
    kept_value_4 = []
    sum_0 = 0.0
    sum_1 = 0.0
    sum_2 = 0.0
    sum_3 = 0.0
    saved_13_each = blocks.each(saved_13, count, d_memory_W1_next_like)
    value_4_each = blocks.each(value_4, count, d_memory_W1_next_like)
    saved_7_each = blocks.each(saved_7, count, d_memory_W1_next_like)
    value_7_each = blocks.each(value_7, count, d_memory_W1_next_like)
    saved_14_each = blocks.each(saved_14, count, d_memory_W1_next_like)
    value_10_each = blocks.each(value_10, count, d_memory_W1_next_like)
    saved_8_each = blocks.each(saved_8, count, d_memory_W1_next_like)
    value_11_each = blocks.each(value_11, count, d_memory_W1_next_like)
    saved_11_each = blocks.each(saved_11, count, d_memory_W1_next_like)
    last_weights_halo_each = blocks.each(last_weights_halo, count, d_memory_W1_next_like)
    value_13_each = blocks.each(value_13, count, d_memory_W1_next_like)
    del value_13
    product_5_each = blocks.each(product_5, count, d_memory_W1_next_like)
    del product_5
    value_14_each = blocks.each(value_14, count, d_memory_W1_next_like)
    del value_14
    anchor_point_W2_each = blocks.each(anchor_point_W2, count, d_memory_W1_next_like)
    del anchor_point_W2
    value_15_each = blocks.each(value_15, count, d_memory_W1_next_like)
    del value_15
    product_6_each = blocks.each(product_6, count, d_memory_W1_next_like)
    del product_6
    product_7_each = blocks.each(product_7, count, d_memory_W1_next_like)
    del product_7
    saved_5_each = blocks.each(saved_5, count, d_memory_W1_next_like)
    last_weights_each = blocks.each(last_weights, count, d_memory_W1_next_like)
    value_17_each = blocks.each(value_17, count, d_memory_W1_next_like)
    del value_17
    product_9_each = blocks.each(product_9, count, d_memory_W1_next_like)
    del product_9
    value_18_each = blocks.each(value_18, count, d_memory_W1_next_like)
    del value_18
    value_19_each = blocks.each(value_19, count, d_memory_W1_next_like)
    del value_19
    product_10_each = blocks.each(product_10, count, d_memory_W1_next_like)
    del product_10
    product_11_each = blocks.each(product_11, count, d_memory_W1_next_like)
    del product_11
    kept_each = blocks.each(kept, count, d_memory_W1_next_like)
    d_anchor_W1_each = blocks.each(d_anchor_W1, count, d_memory_W1_next_like)
    product_12_each = blocks.each(product_12, count, d_memory_W1_next_like)
    del product_12
    product_13_each = blocks.each(product_13, count, d_memory_W1_next_like)
    del product_13
    d_anchor_W2_each = blocks.each(d_anchor_W2, count, d_memory_W1_next_like)
    product_14_each = blocks.each(product_14, count, d_memory_W1_next_like)
    del product_14
    product_15_each = blocks.each(product_15, count, d_memory_W1_next_like)
    del product_15
    for block in reversed(range(count)):
        d_memory_W1_next_list.append(d_memory_W1_next)
        d_memory_W2_next_list.append(d_memory_W2_next)
        d_errors_W1_halo = torch.baddbmm(
            product_5_each[block],
            value_13_each[block],
            d_memory_W1_next,
            beta=-1,
            alpha=-1,
        )
        value_20 = d_errors_W1_halo * saved_14_each[block] * value_14_each[block]
        value_21 = d_errors_W1_halo * value_10_each[block]
        d_errors_halo = torch.baddbmm(
            torch.baddbmm(product_6_each[block], value_21, anchor_point_W2_each[block], beta=-1),
            value_15_each[block],
            d_memory_W2_next,
            alpha=-1,
        )
        product_16 = torch.matmul(saved_13_each[block], d_memory_W2_next.mT)
        value_22 = product_16 * last_weights_halo_each[block][..., :, None]
        combined_3 = torch.baddbmm(
            -value_22 - product_7_each[block],
            d_errors_halo,
            anchor_point_W2_each[block].mT,
        )
        combined_4 = value_20 + combined_3 * value_10_each[block]
        d_errors_W1 = torch.baddbmm(
            product_9_each[block],
            value_17_each[block],
            d_memory_W1_next,
            beta=-1,
            alpha=-1,
        )
        value_23 = d_errors_W1 * value_11_each[block]
        d_errors = torch.baddbmm(
            torch.baddbmm(product_10_each[block], value_23, anchor_point_W2_each[block], beta=-1),
            value_19_each[block],
            d_memory_W2_next,
            alpha=-1,
        )
        product_17 = torch.matmul(saved_7_each[block], d_memory_W2_next.mT)
        value_24 = product_17 * last_weights_each[block][..., :, None]
        combined_5 = torch.baddbmm(
            -value_24 - product_11_each[block],
            d_errors,
            anchor_point_W2_each[block].mT,
        )
        value_25 = d_errors_W1 * saved_8_each[block] * value_18_each[block]
        combined_6 = value_25 + combined_5 * value_11_each[block]
        d_anchor_point_W1 = torch.baddbmm(
            torch.baddbmm(d_anchor_W1_each[block], saved_11_each[block].mT, combined_4),
            saved_5_each[block].mT,
            combined_6,
        )
        combined_7 = d_memory_W1_next * kept_each[block][..., None, None] + product_12_each[block]
        combined_8 = blocks.when_start(d_anchor_point_W1, False, resumed, block) + combined_7
        combined_9 = d_memory_W2_next * kept_each[block][..., None, None] + product_13_each[block]
        d_anchor_point_W2 = torch.baddbmm(
            torch.baddbmm(
                torch.baddbmm(
                    torch.baddbmm(d_anchor_W2_each[block], value_21.mT, saved_13_each[block]),
                    value_4_each[block].mT,
                    d_errors_halo,
                ),
                value_23.mT,
                saved_7_each[block],
            ),
            value_7_each[block].mT,
            d_errors,
        )
        combined_10 = combined_9 + blocks.when_start(d_anchor_point_W2, False, resumed, block)
        combined_11 = d_memory_W1_next + product_14_each[block] - combined_7
        at_border = blocks.when_start(d_anchor_point_W1, True, resumed, block)
        at_border_2 = blocks.when_start(d_anchor_point_W2, True, resumed, block)
        combined_12 = d_memory_W2_next + product_15_each[block] - combined_9
        kept_d_errors_halo.append(d_errors_halo)
        kept_value.append(product_16)
        kept_value_2.append(combined_4)
        kept_d_errors.append(d_errors)
        kept_value_3.append(product_17)
        kept_value_4.append(combined_6)
        sum_0 = sum_0 + combined_11
        sum_1 = sum_1 + at_border
        sum_2 = sum_2 + at_border_2
        sum_3 = sum_3 + combined_12
        d_memory_W1_next, d_memory_W2_next = (combined_8, combined_10)
    del anchor_point_W2_each, d_anchor_W1_each, d_anchor_W2_each, kept_each, last_weights_each
    del last_weights_halo_each, product_10_each, product_11_each, product_12_each
    del product_13_each, product_14_each, product_15_each, product_5_each, product_6_each
    del product_7_each, product_9_each, saved_11_each, saved_13_each, saved_14_each
    del saved_5_each, saved_7_each, saved_8_each, value_10_each, value_11_each, value_13_each
    del value_14_each, value_15_each, value_17_each, value_18_each, value_19_each
    del value_4_each, value_7_each
    block = None
    d_memory_W1_next_final = d_memory_W1_next.unflatten(0, d_memory_W1_next_like.shape[:2])
    d_memory_W1_next_blocks = blocks.stack(d_memory_W1_next_list[::-1], d_memory_W1_next_like)
    del d_memory_W1_next_list
    d_memory_W2_next_final = d_memory_W2_next.unflatten(0, d_memory_W2_next_like.shape[:2])
    d_memory_W2_next_blocks = blocks.stack(d_memory_W2_next_list[::-1], d_memory_W2_next_like)
    del d_memory_W2_next_list
    d_errors_halo_2 = blocks.stack(kept_d_errors_halo[::-1], d_memory_W1_next_like)
    del kept_d_errors_halo
    kept_value_all = blocks.stack(kept_value[::-1], d_memory_W1_next_like)
    del kept_value
    kept_value_2_all = blocks.stack(kept_value_2[::-1], d_memory_W1_next_like)
    del kept_value_2
    d_errors_2 = blocks.stack(kept_d_errors[::-1], d_memory_W1_next_like)
    del kept_d_errors
    kept_value_3_all = blocks.stack(kept_value_3[::-1], d_memory_W1_next_like)
    del kept_value_3
    kept_value_4_all = blocks.stack(kept_value_4[::-1], d_memory_W1_next_like)
    del kept_value_4
    product_18 = torch.matmul(value_8, origin_W1.mT)
    combined_13 = memory_W1 - origin_W1
    d_queries = blocks.add_product(product_18, value_9, combined_13.mT, 1)
    del product_18, value_9
    polynomial_gradient = blocks.polynomial.gradient(
        q,
        (coefficients_0, coefficients_1, coefficients_2),
        d_queries,
        (0, 1, 2),
        "symmetric",
    )
    # the error that reaches the output of W1
    errors_W1_halo = saved_14 * value_10
    del value_10
    product_19 = torch.matmul(value_8, errors_W1_halo.mT)
    value_26 = product_19 * weights_halo
    del weights_halo
    value_27 = 2.0 * saved_9 * coefficients_2[..., None, None] + coefficients_1[..., None, None]
    value_28 = value_26 * value_27
    del value_27
    # the error that reaches the output of W1
    errors_W1 = saved_8 * value_11
    del value_11
    product_20 = torch.matmul(value_8, errors_W1.mT)
    value_29 = product_20 * weights
    del weights
    value_30 = 2.0 * saved_2 * coefficients_2[..., None, None] + coefficients_1[..., None, None]
    value_31 = value_29 * value_30
    del value_30
    rename = d_y
    combined_14 = blocks.add_product(
        blocks.add_product(rename + polynomial_gradient, value_28, k_halo, -1),
        value_31,
        k,
        -1,
    )
    del polynomial_gradient, rename
    # M*: the memory at the last border
    anchor_point_W1 = blocks.at_start(anchor_W1, memory_W1, resumed, block)
    product_21 = torch.matmul(kept_value_2_all, anchor_point_W1.mT)
    del kept_value_2_all
    product_22 = torch.matmul(errors_W1_halo, d_memory_W1_next_blocks.mT)
    del errors_W1_halo
    d_features_halo = product_21 - product_22 * last_weights_halo[..., :, None]
    del last_weights_halo, product_21
    value_32 = d_features_halo * saved_11
    degree_sum = blocks.polynomial.degree_sum(k_halo, value_32, 0, (0, 1, 2), "symmetric")
    value_33 = 0.5 * (1.0 / coefficients_0)
    product_23 = torch.matmul(kept_value_4_all, anchor_point_W1.mT)
    del anchor_point_W1, kept_value_4_all
    product_24 = torch.matmul(errors_W1, d_memory_W1_next_blocks.mT)
    del errors_W1
    d_features = product_23 - product_24 * last_weights[..., :, None]
    del last_weights, product_23
    value_34 = d_features * saved_5
    degree_sum_2 = blocks.polynomial.degree_sum(k, value_34, 0, (0, 1, 2), "symmetric")
    value_35 = d_queries * saved_0
    del d_queries
    degree_sum_3 = blocks.polynomial.degree_sum(q, value_35, 0, (0, 1, 2), "symmetric")
    value_36 = degree_sum_2.sum(-1) * value_33
    value_37 = degree_sum_3.sum(-1) * value_33
    value_38 = degree_sum.sum(-1) * value_33
    total = value_26.sum(-2).sum(-1)
    combined_15 = value_38 + value_36 + value_37 - total - value_29.sum(-2).sum(-1)
    degree_sum_4 = blocks.polynomial.degree_sum(k_halo, value_32, 1, (0, 1, 2), "symmetric")
    value_39 = 0.5 * (1.0 / coefficients_1)
    degree_sum_5 = blocks.polynomial.degree_sum(k, value_34, 1, (0, 1, 2), "symmetric")
    degree_sum_6 = blocks.polynomial.degree_sum(q, value_35, 1, (0, 1, 2), "symmetric")
    total_2 = (value_26 * saved_9).sum(-2).sum(-1)
    total_3 = (value_29 * saved_2).sum(-2).sum(-1)
    value_40 = degree_sum_4.sum(-1) * value_39
    value_41 = degree_sum_5.sum(-1) * value_39
    combined_16 = value_40 + value_41 + degree_sum_6.sum(-1) * value_39 - total_2 - total_3
    degree_sum_7 = blocks.polynomial.degree_sum(k_halo, value_32, 2, (0, 1, 2), "symmetric")
    del value_32
    value_42 = 0.5 * (1.0 / coefficients_2)
    degree_sum_8 = blocks.polynomial.degree_sum(k, value_34, 2, (0, 1, 2), "symmetric")
    del value_34
    degree_sum_9 = blocks.polynomial.degree_sum(q, value_35, 2, (0, 1, 2), "symmetric")
    del value_35
    total_4 = (value_26 * (saved_9 * saved_9)).sum(-2).sum(-1)
    del value_26
    total_5 = (value_29 * (saved_2 * saved_2)).sum(-2).sum(-1)
    del value_29
    value_43 = degree_sum_7.sum(-1) * value_42
    value_44 = degree_sum_8.sum(-1) * value_42
    combined_17 = value_43 + value_44 + degree_sum_9.sum(-1) * value_42 - total_4 - total_5
    d_read_decay = (d_y * saved_16).sum(-1) + (value_8 * saved_1).sum(-1)
    del value_8
    running = blocks.cumsum(d_read_decay * read_decay, -1, True, False)
    polynomial_gradient_2 = blocks.polynomial.gradient(
        k,
        (coefficients_0, coefficients_1, coefficients_2),
        d_features,
        (0, 1, 2),
        "symmetric",
    )
    del d_features
    combined_18 = blocks.add_product(d_errors_2 + polynomial_gradient_2, value_31.mT, q, -1)
    del polynomial_gradient_2, value_31
    d_last_weights_halo = -(kept_value_all * value_4).sum(-1) - (product_22 * saved_11).sum(-1)
    del kept_value_all, product_22, value_4
    value_45 = d_last_weights_halo * exists_halo
    product_25 = torch.matmul(value_45 * gamma_halo, banded.mT)
    d_last_weights = -(kept_value_3_all * value_7).sum(-1) - (product_24 * saved_5).sum(-1)
    del kept_value_3_all, product_24, value_7
    value_46 = d_last_weights * exists
    product_26 = torch.matmul(value_46 * gamma, banded_2.mT)
    combined_19 = product_25 + product_26
    running_2 = blocks.cumsum(combined_19 * lr * until_end, -1, False, True)
    d_weights_halo = -(product_2 * saved_18) - product_19 * scores_W1_halo
    del product_19, product_2, scores_W1_halo
    product_27 = torch.matmul(d_weights_halo * value_2[..., None, :], banded.mT)
    d_weights = -(product_3 * saved_17) - product_20 * scores_W1
    del product_20, product_3, scores_W1
    product_28 = torch.matmul(d_weights * value_5[..., None, :], banded_2.mT)
    value_47 = (product_27 + product_28) * saved_3
    del product_27, product_28
    banded_3 = value_47 * lr[..., None, :] * blocks.band(row, row, 1, None, like)
    banded_4 = blocks.cumsum(banded_3, -1, False, True) * blocks.band(row, row, 0, None, like)
    del banded_3
    combined_20 = running_2 + banded_4.sum(-2)
    del banded_4
    combined_21 = combined_19 * until_end + value_47.sum(-2)
    del value_47
    combined_22 = value_46 * product_8 + (d_weights * saved_4).sum(-2) * exists
    del d_weights
    value_48 = -d_errors_2
    del d_errors_2
    polynomial_gradient_3 = blocks.polynomial.gradient(
        k_halo,
        (coefficients_0, coefficients_1, coefficients_2),
        d_features_halo,
        (0, 1, 2),
        "symmetric",
    )
    del d_features_halo
    combined_23 = blocks.add_product(d_errors_halo_2 + polynomial_gradient_3, value_28.mT, q, -1)
    del polynomial_gradient_3, value_28
    combined_24 = value_45 * product_4 + (d_weights_halo * saved_10).sum(-2) * exists_halo
    del d_weights_halo
    value_49 = -d_errors_halo_2
    del d_errors_halo_2
    total_6 = (d_memory_W1_next_blocks * combined_13).sum(-2).sum(-1)
    del combined_13
    d_kept = (d_memory_W2_next_blocks * combined).sum(-2).sum(-1) + total_6
    del combined
    value_50 = d_kept * kept
    del kept
    return {
        "part_0": combined_14,
        "part_1": combined_15,
        "part_2": combined_16,
        "part_3": combined_17,
        "part_4": running,
        "part_5": combined_18,
        "part_6": combined_20,
        "part_7": combined_21,
        "part_8": combined_22,
        "part_9": value_48,
        "part_10": combined_23,
        "part_11": combined_24,
        "part_12": value_49,
        "part_13": value_50,
        "sum_0": sum_0,
        "sum_1": sum_1,
        "sum_2": sum_2,
        "sum_3": sum_3,
        "d_memory_W1": d_memory_W1_next_final,
        "d_memory_W2": d_memory_W2_next_final,
        "d_memory_W1_blocks": d_memory_W1_next_blocks,
        "d_memory_W2_blocks": d_memory_W2_next_blocks,
    }

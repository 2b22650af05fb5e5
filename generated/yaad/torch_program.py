"""The memory rule yaad as a torch program: `forward` and `backward` of all blocks.

Arrays are [B, H, N, ...] over N blocks; `blocks` is atlasgen.runtime.blocks.
Rule 0d37478dd12b, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
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
    anchor_W1,
    anchor_W2,
    memory_W2,
    inverse_V,
    norm_gain,
    norm_bias,
    v,
    delta,
    origin_W2,
):
    """The loop over blocks, then the reads of all blocks."""
    block = None  # all blocks at once
    rename = k
    log_alpha_sums = blocks.running(log_alpha)
    # a_C: decay of the memory over the block
    kept = blocks.decay_whole(log_alpha_sums)
    # p_C: last row of P
    last_weights = blocks.decay_to_end(log_alpha_sums) * lr
    value = k * last_weights[..., :, None]
    memory_W1_like = memory_W1
    memory_W1 = memory_W1.flatten(0, 1)
    memory_W1_list = []
    memory_W2_like = memory_W2
    memory_W2 = memory_W2.flatten(0, 1)
    memory_W2_list = []
    kept_value = []
    kept_value_2 = []
    kept_value_3 = []
    kept_errors_W2 = []
    kept_value_4 = []
    kept_errors_W1 = []
    origin_W1_each = blocks.each(origin_W1, count, memory_W1_like)
    k_each = blocks.each(k, count, memory_W1_like)
    anchor_W1_each = blocks.each(anchor_W1, count, memory_W1_like)
    anchor_W2_each = blocks.each(anchor_W2, count, memory_W1_like)
    norm_gain_each = blocks.each(norm_gain, count, memory_W1_like)
    norm_bias_each = blocks.each(norm_bias, count, memory_W1_like)
    rename_each = blocks.each(rename, count, memory_W1_like)
    del rename
    v_each = blocks.each(v, count, memory_W1_like)
    delta_each = blocks.each(delta, count, memory_W1_like)
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
        anchor_point_W1 = blocks.at_start(anchor_W1_each[block], memory_W1, resumed, block)
        product = torch.matmul(k_each[block], anchor_point_W1)
        value_2 = torch.nn.functional.gelu(product)
        # M*: the memory at the last border
        anchor_point_W2 = blocks.at_start(anchor_W2_each[block], memory_W2, resumed, block)
        product_2 = torch.matmul(value_2, anchor_point_W2)
        combined_2 = product_2 - (product_2.sum(-1) * inverse_V)[..., :, None]
        value_3 = (combined_2 * combined_2).sum(-1) * inverse_V
        value_4 = torch.pow(value_3 + 1e-06, -0.5)
        value_5 = combined_2 * value_4[..., :, None] * norm_gain_each[block][..., None, :]
        # pred = f(M*, phi(k))
        predictions = value_5 + norm_bias_each[block][..., None, :] + rename_each[block]
        combined_3 = predictions - v_each[block]
        total = (combined_3 * combined_3).sum(-1)
        value_6 = blocks.where(
            delta_each[block] >= torch.sqrt(total),
            1.0,
            delta_each[block] * blocks.inverse_root(total),
        )
        # E = dl/dpred at the block's M*
        errors = combined_3 * value_6[..., :, None]
        value_7 = errors * norm_gain_each[block][..., None, :]
        value_8 = (value_7 * combined_2).sum(-1) * (-0.5 * torch.pow(value_3 + 1e-06, -1.5))
        value_9 = 2.0 * combined_2 * value_8[..., :, None] * inverse_V
        combined_4 = value_7 * value_4[..., :, None] + value_9
        # the error that reaches the output of W2
        errors_W2 = combined_4 - (combined_4.sum(-1) * inverse_V)[..., :, None]
        product_3 = torch.matmul(errors_W2, anchor_point_W2.mT)
        # the error that reaches the output of W1
        errors_W1 = product_3 * blocks.gelu_slope(product)
        combined_5 = memory_W2 - origin_W2_each[block]
        value_10 = combined * kept_each[block][..., None, None]
        # M at the end
        memory_W1_next = torch.baddbmm(
            value_10 + origin_W1_each[block],
            value_each[block].mT,
            errors_W1,
            alpha=-1,
        )
        value_11 = value_2 * last_weights_each[block][..., :, None]
        value_12 = combined_5 * kept_each[block][..., None, None]
        # M at the end
        memory_W2_next = torch.baddbmm(value_12 + origin_W2_each[block], value_11.mT, errors_W2, alpha=-1)
        kept_value.append(product)
        kept_value_2.append(value_2)
        kept_value_3.append(combined_2)
        kept_errors_W2.append(errors_W2)
        kept_value_4.append(product_3)
        kept_errors_W1.append(errors_W1)
        memory_W1, memory_W2 = (memory_W1_next, memory_W2_next)
    del anchor_W1_each, anchor_W2_each, delta_each, k_each, kept_each, last_weights_each
    del norm_bias_each, norm_gain_each, origin_W1_each, origin_W2_each, rename_each, v_each
    del value_each
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
    errors_W2_2 = blocks.stack(kept_errors_W2, memory_W1_like)
    del kept_errors_W2
    kept_value_4_all = blocks.stack(kept_value_4, memory_W1_like)
    del kept_value_4
    errors_W1_2 = blocks.stack(kept_errors_W1, memory_W1_like)
    del kept_errors_W1
    combined_6 = memory_W1_blocks - origin_W1
    product_4 = torch.matmul(q, combined_6)
    del combined_6
    # a: decay of the memory since the block's start
    read_decay = blocks.decay_from_start(log_alpha_sums, False)
    product_5 = torch.matmul(q, origin_W1)
    # Q X^T
    scores_W1 = torch.matmul(q, k.mT)
    decay = blocks.decay(log_alpha_sums, False)
    # (Q X^T) * P
    attention_W1 = scores_W1 * decay * lr[..., None, :]
    value_13 = product_4 * read_decay[..., :, None]
    combined_7 = blocks.add_product(value_13 + product_5, attention_W1, errors_W1_2, -1)
    del attention_W1, errors_W1_2, product_5, value_13
    value_14 = torch.nn.functional.gelu(combined_7)
    combined_8 = memory_W2_blocks - origin_W2
    product_6 = torch.matmul(value_14, combined_8)
    del combined_8
    product_7 = torch.matmul(value_14, origin_W2)
    # Q X^T
    scores_W2 = torch.matmul(value_14, kept_value_2_all.mT)
    del kept_value_2_all, value_14
    # (Q X^T) * P
    attention_W2 = scores_W2 * decay * lr[..., None, :]
    value_15 = product_6 * read_decay[..., :, None]
    combined_9 = blocks.add_product(value_15 + product_7, attention_W2, errors_W2_2, -1)
    del attention_W2, errors_W2_2, product_7, value_15
    combined_10 = combined_9 - (combined_9.sum(-1) * inverse_V)[..., :, None]
    del combined_9
    value_16 = (combined_10 * combined_10).sum(-1) * inverse_V
    value_17 = combined_10 * torch.pow(value_16 + 1e-06, -0.5)[..., :, None]
    combined_11 = value_17 * norm_gain[..., None, :] + norm_bias[..., None, :]
    del value_17
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = combined_11 + q
    del combined_11
    # M*: the memory at the last border
    anchor_point_W1_2 = blocks.at_start(anchor_W1, memory_W1_blocks, resumed, block)
    # M*: the memory at the last border
    anchor_point_W2_2 = blocks.at_start(anchor_W2, memory_W2_blocks, resumed, block)
    return {
        "y": reads,
        "anchor_W1_value": anchor_point_W1_2,
        "anchor_W2_value": anchor_point_W2_2,
        "saved_0": product_4,
        "saved_1": scores_W1,
        "saved_2": decay,
        "saved_3": kept_value_all,
        "saved_4": kept_value_3_all,
        "saved_5": kept_value_4_all,
        "saved_6": combined_7,
        "saved_7": product_6,
        "saved_8": scores_W2,
        "saved_9": combined_10,
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
    norm_gain,
    inverse_V,
    origin_W2,
    log_alpha,
    memory_W2,
    norm_bias,
    k,
    v,
    delta,
    lr,
    origin_W1,
    memory_W1,
    d_memory_W1_next,
    anchor_W2,
    d_memory_W2_next,
    anchor_W1,
    q,
    d_anchor_W1,
    d_anchor_W2,
    saved_9,
    saved_4,
    saved_2,
    saved_3,
    saved_6,
    saved_5,
    saved_7,
    saved_0,
    saved_1,
    saved_8,
):
    """The loop over blocks from the last to the first, then the gradients of all rows."""
    like = d_y
    row, halo_row = blocks.positions(rows, halo, False)
    block = None  # all blocks at once
    value = d_y * norm_gain[..., None, :]
    value_2 = (saved_9 * saved_9).sum(-1) * inverse_V
    value_3 = torch.pow(value_2 + 1e-06, -0.5)
    value_4 = (value * saved_9).sum(-1) * (-0.5 * torch.pow(value_2 + 1e-06, -1.5))
    value_5 = 2.0 * saved_9 * value_4[..., :, None] * inverse_V
    combined = value * value_3[..., :, None] + value_5
    del value, value_5
    combined_2 = combined - (combined.sum(-1) * inverse_V)[..., :, None]
    del combined
    product = torch.matmul(combined_2, origin_W2.mT)
    log_alpha_sums = blocks.running(log_alpha)
    # a: decay of the memory since the block's start
    read_decay = blocks.decay_from_start(log_alpha_sums, False)
    value_6 = combined_2 * read_decay[..., :, None]
    combined_3 = memory_W2 - origin_W2
    value_7 = (saved_4 * saved_4).sum(-1) * inverse_V
    value_8 = torch.pow(value_7 + 1e-06, -0.5)
    value_9 = saved_4 * value_8[..., :, None]
    combined_4 = value_9 * norm_gain[..., None, :] + norm_bias[..., None, :]
    # pred = f(M*, phi(k))
    predictions = combined_4 + k
    del combined_4
    combined_5 = predictions - v
    del predictions
    total = (combined_5 * combined_5).sum(-1)
    value_10 = blocks.where(delta >= torch.sqrt(total), 1.0, delta * blocks.inverse_root(total))
    # E = dl/dpred at the block's M*
    errors = combined_5 * value_10[..., :, None]
    value_11 = errors * norm_gain[..., None, :]
    value_12 = 2.0 * saved_4
    total_2 = (value_11 * saved_4).sum(-1)
    value_13 = -0.5 * torch.pow(value_7 + 1e-06, -1.5)
    value_14 = total_2 * value_13
    value_15 = value_12 * value_14[..., :, None] * inverse_V
    combined_6 = value_11 * value_8[..., :, None] + value_15
    del value_15
    # the error that reaches the output of W2
    errors_W2 = combined_6 - (combined_6.sum(-1) * inverse_V)[..., :, None]
    del combined_6
    product_2 = torch.matmul(combined_2, errors_W2.mT)
    value_16 = product_2 * lr[..., None, :]
    value_17 = value_16 * saved_2
    value_18 = torch.nn.functional.gelu(saved_3)
    combined_7 = blocks.add_product(
        blocks.add_product(product, value_6, combined_3.mT, 1),
        value_17,
        value_18,
        -1,
    )
    del product
    value_19 = combined_7 * blocks.gelu_slope(saved_6)
    del combined_7
    value_20 = value_19 * read_decay[..., :, None]
    value_21 = blocks.gelu_slope(saved_3)
    until_end = blocks.decay_to_end(log_alpha_sums)
    # p_C: last row of P
    last_weights = until_end * lr
    value_22 = k * last_weights[..., :, None]
    value_23 = saved_1 * saved_2
    # (Q X^T) * P
    attention_W1 = value_23 * lr[..., None, :]
    product_3 = torch.matmul(attention_W1.mT, value_19)
    del attention_W1
    # M*: the memory at the last border
    anchor_point_W2 = blocks.at_start(anchor_W2, memory_W2, resumed, block)
    value_24 = value_18 * last_weights[..., :, None]
    value_25 = saved_8 * saved_2
    # (Q X^T) * P
    attention_W2 = value_25 * lr[..., None, :]
    product_4 = torch.matmul(attention_W2.mT, combined_2)
    del attention_W2
    value_26 = 2.0 * combined_5
    value_27 = blocks.where(
        delta >= torch.sqrt(total),
        0.0,
        -0.5 * delta * (blocks.inverse_root(total) * blocks.inverse_root(total) * blocks.inverse_root(total)),
    )
    value_28 = 0.3989422804014327 * (2.0 - saved_3 * saved_3) * torch.exp(-0.5 * (saved_3 * saved_3))
    value_29 = 0.75 * torch.pow(value_7 + 1e-06, -2.5)
    value_30 = torch.nn.functional.gelu(saved_6)
    product_5 = torch.matmul(value_17.mT, value_30)
    del value_17
    # a_C: decay of the memory over the block
    kept = blocks.decay_whole(log_alpha_sums)
    product_6 = torch.matmul(q.mT, value_20)
    product_7 = torch.matmul(value_30.mT, value_6)
    del value_6
    product_8 = torch.matmul(q.mT, value_19)
    product_9 = torch.matmul(value_30.mT, combined_2)
    del value_30
    d_memory_W1_next_like = d_memory_W1_next
    d_memory_W1_next = d_memory_W1_next.flatten(0, 1)
    d_memory_W1_next_list = []
    d_memory_W2_next_like = d_memory_W2_next
    d_memory_W2_next = d_memory_W2_next.flatten(0, 1)
    d_memory_W2_next_list = []
    kept_value = []
    kept_value_2 = []
    kept_d_predictions = []
    kept_value_3 = []
    kept_value_4 = []
    sum_0 = 0.0
    sum_1 = 0.0
    sum_2 = 0.0
    sum_3 = 0.0
    norm_gain_each = blocks.each(norm_gain, count, d_memory_W1_next_like)
    saved_4_each = blocks.each(saved_4, count, d_memory_W1_next_like)
    value_8_each = blocks.each(value_8, count, d_memory_W1_next_like)
    del value_8
    k_each = blocks.each(k, count, d_memory_W1_next_like)
    combined_5_each = blocks.each(combined_5, count, d_memory_W1_next_like)
    del combined_5
    value_10_each = blocks.each(value_10, count, d_memory_W1_next_like)
    del value_10
    value_11_each = blocks.each(value_11, count, d_memory_W1_next_like)
    del value_11
    value_12_each = blocks.each(value_12, count, d_memory_W1_next_like)
    del value_12
    total_2_each = blocks.each(total_2, count, d_memory_W1_next_like)
    del total_2
    value_13_each = blocks.each(value_13, count, d_memory_W1_next_like)
    del value_13
    value_14_each = blocks.each(value_14, count, d_memory_W1_next_like)
    del value_14
    errors_W2_each = blocks.each(errors_W2, count, d_memory_W1_next_like)
    del errors_W2
    value_18_each = blocks.each(value_18, count, d_memory_W1_next_like)
    saved_5_each = blocks.each(saved_5, count, d_memory_W1_next_like)
    value_21_each = blocks.each(value_21, count, d_memory_W1_next_like)
    last_weights_each = blocks.each(last_weights, count, d_memory_W1_next_like)
    value_22_each = blocks.each(value_22, count, d_memory_W1_next_like)
    del value_22
    product_3_each = blocks.each(product_3, count, d_memory_W1_next_like)
    del product_3
    anchor_point_W2_each = blocks.each(anchor_point_W2, count, d_memory_W1_next_like)
    del anchor_point_W2
    value_24_each = blocks.each(value_24, count, d_memory_W1_next_like)
    del value_24
    product_4_each = blocks.each(product_4, count, d_memory_W1_next_like)
    del product_4
    value_26_each = blocks.each(value_26, count, d_memory_W1_next_like)
    del value_26
    value_27_each = blocks.each(value_27, count, d_memory_W1_next_like)
    del value_27
    value_28_each = blocks.each(value_28, count, d_memory_W1_next_like)
    del value_28
    value_29_each = blocks.each(value_29, count, d_memory_W1_next_like)
    del value_29
    product_5_each = blocks.each(product_5, count, d_memory_W1_next_like)
    del product_5
    kept_each = blocks.each(kept, count, d_memory_W1_next_like)
    d_anchor_W1_each = blocks.each(d_anchor_W1, count, d_memory_W1_next_like)
    product_6_each = blocks.each(product_6, count, d_memory_W1_next_like)
    del product_6
    product_7_each = blocks.each(product_7, count, d_memory_W1_next_like)
    del product_7
    d_anchor_W2_each = blocks.each(d_anchor_W2, count, d_memory_W1_next_like)
    product_8_each = blocks.each(product_8, count, d_memory_W1_next_like)
    del product_8
    product_9_each = blocks.each(product_9, count, d_memory_W1_next_like)
    del product_9
    for block in reversed(range(count)):
        d_memory_W1_next_list.append(d_memory_W1_next)
        d_memory_W2_next_list.append(d_memory_W2_next)
        d_errors_W1 = torch.baddbmm(
            product_3_each[block],
            value_22_each[block],
            d_memory_W1_next,
            beta=-1,
            alpha=-1,
        )
        value_31 = d_errors_W1 * value_21_each[block]
        d_errors_W2 = torch.baddbmm(
            torch.baddbmm(product_4_each[block], value_31, anchor_point_W2_each[block], beta=-1),
            value_24_each[block],
            d_memory_W2_next,
            alpha=-1,
        )
        combined_8 = d_errors_W2 - (d_errors_W2.sum(-1) * inverse_V)[..., :, None]
        value_32 = combined_8 * inverse_V
        total_3 = (value_32 * value_12_each[block]).sum(-1)
        value_33 = total_3 * value_13_each[block]
        value_34 = combined_8 * value_8_each[block][..., :, None]
        combined_9 = saved_4_each[block] * value_33[..., :, None] + value_34
        d_errors = combined_9 * norm_gain_each[block][..., None, :]
        total_4 = (d_errors * combined_5_each[block]).sum(-1)
        value_35 = value_26_each[block] * (total_4 * value_27_each[block])[..., :, None]
        d_predictions = d_errors * value_10_each[block][..., :, None] + value_35
        value_36 = d_predictions * norm_gain_each[block][..., None, :]
        total_5 = (combined_8 * value_11_each[block]).sum(-1)
        value_37 = (total_5 + (value_36 * saved_4_each[block]).sum(-1)) * value_13_each[block]
        combined_10 = total_3 * total_2_each[block] * value_29_each[block] + value_37
        value_38 = value_12_each[block] * combined_10[..., :, None] * inverse_V
        value_39 = 2.0 * (value_32 * value_14_each[block][..., :, None])
        value_40 = value_11_each[block] * value_33[..., :, None]
        combined_11 = value_40 + value_39 + value_36 * value_8_each[block][..., :, None] + value_38
        combined_12 = combined_11 - (combined_11.sum(-1) * inverse_V)[..., :, None]
        product_10 = torch.matmul(errors_W2_each[block], d_memory_W2_next.mT)
        value_41 = product_10 * last_weights_each[block][..., :, None]
        combined_13 = torch.baddbmm(
            -value_41 - product_5_each[block],
            combined_12,
            anchor_point_W2_each[block].mT,
        )
        value_42 = d_errors_W1 * saved_5_each[block] * value_28_each[block]
        combined_14 = value_42 + combined_13 * value_21_each[block]
        d_anchor_point_W1 = torch.baddbmm(d_anchor_W1_each[block], k_each[block].mT, combined_14)
        combined_15 = d_memory_W1_next * kept_each[block][..., None, None] + product_6_each[block]
        combined_16 = blocks.when_start(d_anchor_point_W1, False, resumed, block) + combined_15
        combined_17 = d_memory_W2_next * kept_each[block][..., None, None] + product_7_each[block]
        d_anchor_point_W2 = torch.baddbmm(
            torch.baddbmm(d_anchor_W2_each[block], value_31.mT, errors_W2_each[block]),
            value_18_each[block].mT,
            combined_12,
        )
        combined_18 = combined_17 + blocks.when_start(d_anchor_point_W2, False, resumed, block)
        combined_19 = d_memory_W1_next + product_8_each[block] - combined_15
        at_border = blocks.when_start(d_anchor_point_W1, True, resumed, block)
        at_border_2 = blocks.when_start(d_anchor_point_W2, True, resumed, block)
        combined_20 = d_memory_W2_next + product_9_each[block] - combined_17
        kept_value.append(combined_9)
        kept_value_2.append(total_4)
        kept_d_predictions.append(d_predictions)
        kept_value_3.append(product_10)
        kept_value_4.append(combined_14)
        sum_0 = sum_0 + combined_19
        sum_1 = sum_1 + at_border
        sum_2 = sum_2 + at_border_2
        sum_3 = sum_3 + combined_20
        d_memory_W1_next, d_memory_W2_next = (combined_16, combined_18)
    del anchor_point_W2_each, combined_5_each, d_anchor_W1_each, d_anchor_W2_each
    del errors_W2_each, k_each, kept_each, last_weights_each, norm_gain_each, product_3_each
    del product_4_each, product_5_each, product_6_each, product_7_each, product_8_each
    del product_9_each, saved_4_each, saved_5_each, total_2_each, value_10_each, value_11_each
    del value_12_each, value_13_each, value_14_each, value_18_each, value_21_each
    del value_22_each, value_24_each, value_26_each, value_27_each, value_28_each
    del value_29_each, value_8_each
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
    d_predictions_2 = blocks.stack(kept_d_predictions[::-1], d_memory_W1_next_like)
    del kept_d_predictions
    kept_value_3_all = blocks.stack(kept_value_3[::-1], d_memory_W1_next_like)
    del kept_value_3
    kept_value_4_all = blocks.stack(kept_value_4[::-1], d_memory_W1_next_like)
    del kept_value_4
    product_11 = torch.matmul(value_19, origin_W1.mT)
    combined_21 = memory_W1 - origin_W1
    # the error that reaches the output of W1
    errors_W1 = saved_5 * value_21
    del value_21
    product_12 = torch.matmul(value_19, errors_W1.mT)
    value_43 = product_12 * lr[..., None, :]
    value_44 = value_43 * saved_2
    rename = d_y
    combined_22 = blocks.add_product(
        blocks.add_product(rename + product_11, value_20, combined_21.mT, 1),
        value_44,
        k,
        -1,
    )
    del product_11, rename, value_20
    d_read_decay = (combined_2 * saved_7).sum(-1) + (value_19 * saved_0).sum(-1)
    del combined_2, value_19
    running = blocks.cumsum(d_read_decay * read_decay, -1, True, False)
    # M*: the memory at the last border
    anchor_point_W1 = blocks.at_start(anchor_W1, memory_W1, resumed, block)
    product_13 = torch.matmul(errors_W1, d_memory_W1_next_blocks.mT)
    del errors_W1
    value_45 = product_13 * last_weights[..., :, None]
    del last_weights
    rename_2 = d_predictions_2
    combined_23 = blocks.add_product(
        blocks.add_product(rename_2 - value_45, kept_value_4_all, anchor_point_W1.mT, 1),
        value_44.mT,
        q,
        -1,
    )
    del anchor_point_W1, kept_value_4_all, rename_2, value_44, value_45
    d_last_weights = -(kept_value_3_all * value_18).sum(-1) - (product_13 * k).sum(-1)
    del kept_value_3_all, product_13, value_18
    running_2 = blocks.cumsum(d_last_weights * lr * until_end, -1, False, True)
    value_46 = (-(value_16 * saved_8) - value_43 * saved_1) * saved_2
    del value_16, value_43
    banded = value_46 * blocks.band(row, row, 1, None, like)
    del value_46
    banded_2 = blocks.cumsum(banded, -1, False, True) * blocks.band(row, row, 0, None, like)
    del banded
    combined_24 = running_2 + banded_2.sum(-2)
    del banded_2
    total_6 = (product_12 * value_23).sum(-2)
    del product_12, value_23
    combined_25 = d_last_weights * until_end - (product_2 * value_25).sum(-2) - total_6
    del product_2, value_25
    total_7 = (d_y * (saved_9 * value_3[..., :, None])).sum(-2)
    total_8 = (d_predictions_2 * value_9).sum(-2)
    del value_9
    combined_26 = total_7 + (kept_value_all * errors).sum(-2) + total_8
    del errors, kept_value_all
    combined_27 = d_y.sum(-2) + d_predictions_2.sum(-2)
    value_47 = -d_predictions_2
    del d_predictions_2
    value_48 = blocks.where(delta >= torch.sqrt(total), 0.0, blocks.inverse_root(total))
    value_49 = kept_value_2_all * value_48
    del kept_value_2_all
    total_9 = (d_memory_W1_next_blocks * combined_21).sum(-2).sum(-1)
    del combined_21
    d_kept = (d_memory_W2_next_blocks * combined_3).sum(-2).sum(-1) + total_9
    del combined_3
    value_50 = d_kept * kept
    del kept
    return {
        "part_0": combined_22,
        "part_1": running,
        "part_2": combined_23,
        "part_3": combined_24,
        "part_4": combined_25,
        "part_5": combined_26,
        "part_6": combined_27,
        "part_7": value_47,
        "part_8": value_49,
        "part_9": value_50,
        "sum_0": sum_0,
        "sum_1": sum_1,
        "sum_2": sum_2,
        "sum_3": sum_3,
        "d_memory_W1": d_memory_W1_next_final,
        "d_memory_W2": d_memory_W2_next_final,
        "d_memory_W1_blocks": d_memory_W1_next_blocks,
        "d_memory_W2_blocks": d_memory_W2_next_blocks,
    }

"""The memory rule memora as a torch program: `forward` and `backward` of all blocks.

Arrays are [B, H, N, ...] over N blocks; `blocks` is atlasgen.runtime.blocks.
Rule 04f8bff42700, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
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
    origin_W2,
):
    """The loop over blocks, then the reads of all blocks."""
    block = None  # all blocks at once
    rename = k
    log_alpha_sums = blocks.running(log_alpha)
    # p_C: last row of P
    last_weights = blocks.decay_to_end(log_alpha_sums) * lr
    value = k * last_weights[..., :, None]
    # a_C: decay of the memory over the block
    kept = blocks.decay_whole(log_alpha_sums)
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
    kept_value_5 = []
    kept_value_6 = []
    origin_W1_each = blocks.each(origin_W1, count, memory_W1_like)
    k_each = blocks.each(k, count, memory_W1_like)
    anchor_W1_each = blocks.each(anchor_W1, count, memory_W1_like)
    anchor_W2_each = blocks.each(anchor_W2, count, memory_W1_like)
    norm_gain_each = blocks.each(norm_gain, count, memory_W1_like)
    norm_bias_each = blocks.each(norm_bias, count, memory_W1_like)
    rename_each = blocks.each(rename, count, memory_W1_like)
    del rename
    v_each = blocks.each(v, count, memory_W1_like)
    origin_W2_each = blocks.each(origin_W2, count, memory_W1_like)
    last_weights_each = blocks.each(last_weights, count, memory_W1_like)
    del last_weights
    value_each = blocks.each(value, count, memory_W1_like)
    del value
    kept_each = blocks.each(kept, count, memory_W1_like)
    del kept
    for block in range(count):
        memory_W1_list.append(memory_W1)
        memory_W2_list.append(memory_W2)
        combined = memory_W1 - origin_W1_each[block]
        # M*: the memory at the last border
        anchor_point_W1 = blocks.at_start(anchor_W1_each[block], memory_W1, resumed, block)
        shares = torch.softmax(anchor_point_W1, -2)
        product = torch.matmul(k_each[block], shares)
        value_2 = torch.nn.functional.gelu(product)
        # M*: the memory at the last border
        anchor_point_W2 = blocks.at_start(anchor_W2_each[block], memory_W2, resumed, block)
        shares_2 = torch.softmax(anchor_point_W2, -2)
        product_2 = torch.matmul(value_2, shares_2)
        combined_2 = product_2 - (product_2.sum(-1) * inverse_V)[..., :, None]
        value_3 = (combined_2 * combined_2).sum(-1) * inverse_V
        value_4 = torch.pow(value_3 + 1e-06, -0.5)
        value_5 = combined_2 * value_4[..., :, None] * norm_gain_each[block][..., None, :]
        # pred = f(M*, phi(k))
        predictions = value_5 + norm_bias_each[block][..., None, :] + rename_each[block]
        # E = dl/dpred at the block's M*
        errors = predictions - v_each[block]
        value_6 = errors * norm_gain_each[block][..., None, :]
        value_7 = (value_6 * combined_2).sum(-1) * (-0.5 * torch.pow(value_3 + 1e-06, -1.5))
        value_8 = 2.0 * combined_2 * value_7[..., :, None] * inverse_V
        combined_3 = value_6 * value_4[..., :, None] + value_8
        # the error that reaches the output of W2
        errors_W2 = combined_3 - (combined_3.sum(-1) * inverse_V)[..., :, None]
        product_3 = torch.matmul(errors_W2, shares_2.mT)
        # the error that reaches the output of W1
        errors_W1 = product_3 * blocks.gelu_slope(product)
        combined_4 = memory_W2 - origin_W2_each[block]
        product_4 = torch.matmul(value_each[block].mT, errors_W1)
        product_5 = torch.matmul((value_2 * last_weights_each[block][..., :, None]).mT, errors_W2)
        value_9 = shares * (product_4 - (product_4 * shares).sum(-2)[..., None, :])
        # M at the end
        memory_W1_next = combined * kept_each[block][..., None, None] + origin_W1_each[block] - value_9
        value_10 = shares_2 * (product_5 - (product_5 * shares_2).sum(-2)[..., None, :])
        value_11 = combined_4 * kept_each[block][..., None, None]
        # M at the end
        memory_W2_next = value_11 + origin_W2_each[block] - value_10
        kept_value.append(product)
        kept_value_2.append(value_2)
        kept_value_3.append(combined_2)
        kept_errors_W2.append(errors_W2)
        kept_value_4.append(product_3)
        kept_errors_W1.append(errors_W1)
        kept_value_5.append(product_4)
        kept_value_6.append(product_5)
        memory_W1, memory_W2 = (memory_W1_next, memory_W2_next)
    del anchor_W1_each, anchor_W2_each, k_each, kept_each, last_weights_each, norm_bias_each
    del norm_gain_each, origin_W1_each, origin_W2_each, rename_each, v_each, value_each
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
    kept_value_5_all = blocks.stack(kept_value_5, memory_W1_like)
    del kept_value_5
    kept_value_6_all = blocks.stack(kept_value_6, memory_W1_like)
    del kept_value_6
    combined_5 = memory_W1_blocks - origin_W1
    since_start = blocks.decay_from_start(log_alpha_sums, False)
    value_12 = combined_5[..., None, :, :] * since_start[..., :, None, None]
    del combined_5
    decay = blocks.decay(log_alpha_sums, False)
    value_13 = decay[..., :, :, None] * k[..., None, :, :] * lr[..., None, :, None]
    product_6 = torch.einsum("...abc,...bd->...acd", value_13, errors_W1_2)
    del errors_W1_2
    # M*: the memory at the last border
    anchor_point_W1_2 = blocks.at_start(anchor_W1, memory_W1_blocks, resumed, block)
    shares_3 = torch.softmax(anchor_point_W1_2, -2)
    combined_6 = product_6 - (product_6 * shares_3[..., None, :, :]).sum(-2)[..., :, None, :]
    # M of every token
    memory_W1_rows = value_12 + origin_W1[..., None, :, :] - combined_6 * shares_3[..., None, :, :]
    shares_4 = torch.softmax(memory_W1_rows, -2)
    product_7 = torch.einsum("...ab,...abc->...ac", q, shares_4)
    combined_7 = memory_W2_blocks - origin_W2
    value_14 = combined_7[..., None, :, :] * since_start[..., :, None, None]
    del combined_7
    value_15 = decay[..., :, :, None] * kept_value_2_all[..., None, :, :]
    del kept_value_2_all
    value_16 = value_15 * lr[..., None, :, None]
    product_8 = torch.einsum("...abc,...bd->...acd", value_16, errors_W2_2)
    del errors_W2_2
    # M*: the memory at the last border
    anchor_point_W2_2 = blocks.at_start(anchor_W2, memory_W2_blocks, resumed, block)
    shares_5 = torch.softmax(anchor_point_W2_2, -2)
    combined_8 = product_8 - (product_8 * shares_5[..., None, :, :]).sum(-2)[..., :, None, :]
    # M of every token
    memory_W2_rows = value_14 + origin_W2[..., None, :, :] - combined_8 * shares_5[..., None, :, :]
    shares_6 = torch.softmax(memory_W2_rows, -2)
    value_17 = torch.nn.functional.gelu(product_7)
    product_9 = torch.einsum("...ab,...abc->...ac", value_17, shares_6)
    del value_17
    combined_9 = product_9 - (product_9.sum(-1) * inverse_V)[..., :, None]
    del product_9
    value_18 = torch.pow((combined_9 * combined_9).sum(-1) * inverse_V + 1e-06, -0.5)
    value_19 = combined_9 * value_18[..., :, None] * norm_gain[..., None, :]
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = value_19 + norm_bias[..., None, :] + q
    del value_19
    return {
        "y": reads,
        "anchor_W1_value": anchor_point_W1_2,
        "anchor_W2_value": anchor_point_W2_2,
        "saved_0": decay,
        "saved_1": shares_3,
        "saved_2": kept_value_all,
        "saved_3": shares_5,
        "saved_4": kept_value_3_all,
        "saved_5": kept_value_4_all,
        "saved_6": product_6,
        "saved_7": shares_4,
        "saved_8": product_7,
        "saved_9": product_8,
        "saved_10": shares_6,
        "saved_11": combined_9,
        "saved_12": kept_value_5_all,
        "saved_13": kept_value_6_all,
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
    d_memory_W2_next,
    memory_W2,
    origin_W2,
    d_memory_W1_next,
    memory_W1,
    origin_W1,
    log_alpha,
    q,
    norm_bias,
    k,
    v,
    lr,
    d_anchor_W1,
    d_anchor_W2,
    saved_11,
    saved_10,
    saved_8,
    saved_7,
    saved_3,
    saved_4,
    saved_2,
    saved_1,
    saved_5,
    saved_0,
    saved_12,
    saved_6,
    saved_13,
    saved_9,
):
    """The loop over blocks from the last to the first, then the gradients of all rows."""
    like = d_y
    row, halo_row = blocks.positions(rows, halo, False)
    block = None  # all blocks at once
    value = d_y * norm_gain[..., None, :]
    value_2 = (saved_11 * saved_11).sum(-1) * inverse_V
    value_3 = torch.pow(value_2 + 1e-06, -0.5)
    value_4 = (value * saved_11).sum(-1) * (-0.5 * torch.pow(value_2 + 1e-06, -1.5))
    value_5 = 2.0 * saved_11 * value_4[..., :, None] * inverse_V
    combined = value * value_3[..., :, None] + value_5
    del value, value_5
    combined_2 = combined - (combined.sum(-1) * inverse_V)[..., :, None]
    del combined
    product = torch.einsum("...ac,...abc->...ab", combined_2, saved_10)
    value_6 = product * blocks.gelu_slope(saved_8)
    del product
    log_alpha_sums = blocks.running(log_alpha)
    # a_C: decay of the memory over the block
    kept = blocks.decay_whole(log_alpha_sums)
    value_7 = combined_2[..., :, None, :] * torch.nn.functional.gelu(saved_8)[..., :, :, None]
    del combined_2
    d_memory_W2_rows = saved_10 * (value_7 - (value_7 * saved_10).sum(-2)[..., :, None, :])
    value_8 = value_6[..., :, None, :] * q[..., :, :, None]
    d_memory_W1_rows = saved_7 * (value_8 - (value_8 * saved_7).sum(-2)[..., :, None, :])
    since_start = blocks.decay_from_start(log_alpha_sums, False)
    value_9 = (saved_4 * saved_4).sum(-1) * inverse_V
    value_10 = torch.pow(value_9 + 1e-06, -0.5)
    value_11 = saved_4 * value_10[..., :, None]
    combined_3 = value_11 * norm_gain[..., None, :] + norm_bias[..., None, :]
    # pred = f(M*, phi(k))
    predictions = combined_3 + k
    del combined_3
    # E = dl/dpred at the block's M*
    errors = predictions - v
    del predictions
    value_12 = errors * norm_gain[..., None, :]
    value_13 = 2.0 * saved_4
    total = (value_12 * saved_4).sum(-1)
    value_14 = -0.5 * torch.pow(value_9 + 1e-06, -1.5)
    value_15 = total * value_14
    value_16 = value_13 * value_15[..., :, None] * inverse_V
    combined_4 = value_12 * value_10[..., :, None] + value_16
    del value_16
    # the error that reaches the output of W2
    errors_W2 = combined_4 - (combined_4.sum(-1) * inverse_V)[..., :, None]
    del combined_4
    value_17 = torch.nn.functional.gelu(saved_2)
    value_18 = blocks.gelu_slope(saved_2)
    until_end = blocks.decay_to_end(log_alpha_sums)
    value_19 = d_memory_W2_rows * saved_3[..., None, :, :]
    total_2 = value_19.sum(-2)
    combined_5 = total_2[..., :, None, :] * saved_3[..., None, :, :] - value_19
    product_2 = torch.einsum("...acd,...bd->...abc", combined_5, errors_W2)
    value_20 = product_2 * lr[..., None, :, None]
    value_21 = d_memory_W1_rows * saved_1[..., None, :, :]
    total_3 = value_21.sum(-2)
    combined_6 = total_3[..., :, None, :] * saved_1[..., None, :, :] - value_21
    # p_C: last row of P
    last_weights = until_end * lr
    value_22 = value_17 * last_weights[..., :, None]
    value_23 = saved_0[..., :, :, None] * value_17[..., None, :, :]
    value_24 = value_23 * lr[..., None, :, None]
    contract = torch.einsum("...acd,...abc->...bd", combined_5, value_24)
    value_25 = k * last_weights[..., :, None]
    value_26 = saved_0[..., :, :, None] * k[..., None, :, :]
    value_27 = value_26 * lr[..., None, :, None]
    contract_2 = torch.einsum("...acd,...abc->...bd", combined_6, value_27)
    value_28 = 0.3989422804014327 * (2.0 - saved_2 * saved_2) * torch.exp(-0.5 * (saved_2 * saved_2))
    total_4 = (value_20 * saved_0[..., :, :, None]).sum(-3)
    value_29 = 0.75 * torch.pow(value_9 + 1e-06, -2.5)
    total_5 = (saved_6 * total_3[..., :, None, :]).sum(-3)
    del total_3
    combined_7 = saved_6 - (saved_6 * saved_1[..., None, :, :]).sum(-2)[..., :, None, :]
    total_6 = (d_memory_W1_rows * combined_7).sum(-3)
    combined_8 = saved_12 - (saved_12 * saved_1).sum(-2)[..., None, :]
    total_7 = (d_memory_W1_rows * since_start[..., :, None, None]).sum(-3)
    total_8 = (d_memory_W2_rows * since_start[..., :, None, None]).sum(-3)
    total_9 = (saved_9 * total_2[..., :, None, :]).sum(-3)
    del total_2
    combined_9 = saved_9 - (saved_9 * saved_3[..., None, :, :]).sum(-2)[..., :, None, :]
    total_10 = (d_memory_W2_rows * combined_9).sum(-3)
    combined_10 = saved_13 - (saved_13 * saved_3).sum(-2)[..., None, :]
    total_11 = d_memory_W1_rows.sum(-3)
    total_12 = d_memory_W2_rows.sum(-3)
    d_memory_W1_next_like = d_memory_W1_next
    d_memory_W1_next = d_memory_W1_next.flatten(0, 1)
    d_memory_W1_next_list = []
    d_memory_W2_next_like = d_memory_W2_next
    d_memory_W2_next = d_memory_W2_next.flatten(0, 1)
    d_memory_W2_next_list = []
    kept_value = []
    kept_value_2 = []
    kept_d_errors = []
    kept_value_3 = []
    sum_0 = 0.0
    sum_1 = 0.0
    sum_2 = 0.0
    sum_3 = 0.0
    norm_gain_each = blocks.each(norm_gain, count, d_memory_W1_next_like)
    kept_each = blocks.each(kept, count, d_memory_W1_next_like)
    saved_3_each = blocks.each(saved_3, count, d_memory_W1_next_like)
    saved_4_each = blocks.each(saved_4, count, d_memory_W1_next_like)
    value_10_each = blocks.each(value_10, count, d_memory_W1_next_like)
    del value_10
    k_each = blocks.each(k, count, d_memory_W1_next_like)
    value_12_each = blocks.each(value_12, count, d_memory_W1_next_like)
    del value_12
    value_13_each = blocks.each(value_13, count, d_memory_W1_next_like)
    del value_13
    total_each = blocks.each(total, count, d_memory_W1_next_like)
    del total
    value_14_each = blocks.each(value_14, count, d_memory_W1_next_like)
    del value_14
    value_15_each = blocks.each(value_15, count, d_memory_W1_next_like)
    del value_15
    errors_W2_each = blocks.each(errors_W2, count, d_memory_W1_next_like)
    del errors_W2
    value_17_each = blocks.each(value_17, count, d_memory_W1_next_like)
    saved_1_each = blocks.each(saved_1, count, d_memory_W1_next_like)
    saved_5_each = blocks.each(saved_5, count, d_memory_W1_next_like)
    value_18_each = blocks.each(value_18, count, d_memory_W1_next_like)
    last_weights_each = blocks.each(last_weights, count, d_memory_W1_next_like)
    value_22_each = blocks.each(value_22, count, d_memory_W1_next_like)
    del value_22
    contract_each = blocks.each(contract, count, d_memory_W1_next_like)
    del contract
    value_25_each = blocks.each(value_25, count, d_memory_W1_next_like)
    del value_25
    contract_2_each = blocks.each(contract_2, count, d_memory_W1_next_like)
    del contract_2
    value_28_each = blocks.each(value_28, count, d_memory_W1_next_like)
    del value_28
    total_4_each = blocks.each(total_4, count, d_memory_W1_next_like)
    del total_4
    value_29_each = blocks.each(value_29, count, d_memory_W1_next_like)
    del value_29
    d_anchor_W1_each = blocks.each(d_anchor_W1, count, d_memory_W1_next_like)
    saved_12_each = blocks.each(saved_12, count, d_memory_W1_next_like)
    total_5_each = blocks.each(total_5, count, d_memory_W1_next_like)
    del total_5
    total_6_each = blocks.each(total_6, count, d_memory_W1_next_like)
    del total_6
    combined_8_each = blocks.each(combined_8, count, d_memory_W1_next_like)
    del combined_8
    total_7_each = blocks.each(total_7, count, d_memory_W1_next_like)
    del total_7
    total_8_each = blocks.each(total_8, count, d_memory_W1_next_like)
    del total_8
    d_anchor_W2_each = blocks.each(d_anchor_W2, count, d_memory_W1_next_like)
    saved_13_each = blocks.each(saved_13, count, d_memory_W1_next_like)
    total_9_each = blocks.each(total_9, count, d_memory_W1_next_like)
    del total_9
    total_10_each = blocks.each(total_10, count, d_memory_W1_next_like)
    del total_10
    combined_10_each = blocks.each(combined_10, count, d_memory_W1_next_like)
    del combined_10
    total_11_each = blocks.each(total_11, count, d_memory_W1_next_like)
    del total_11
    total_12_each = blocks.each(total_12, count, d_memory_W1_next_like)
    del total_12
    for block in reversed(range(count)):
        d_memory_W1_next_list.append(d_memory_W1_next)
        d_memory_W2_next_list.append(d_memory_W2_next)
        value_30 = d_memory_W2_next * saved_3_each[block]
        total_13 = value_30.sum(-2)
        combined_11 = saved_3_each[block] * total_13[..., None, :] - value_30
        product_3 = torch.matmul(errors_W2_each[block], combined_11.mT)
        value_31 = d_memory_W1_next * saved_1_each[block]
        total_14 = value_31.sum(-2)
        combined_12 = saved_1_each[block] * total_14[..., None, :] - value_31
        d_errors_W1 = torch.baddbmm(contract_2_each[block], value_25_each[block], combined_12)
        value_32 = d_errors_W1 * value_18_each[block]
        d_errors_W2 = torch.baddbmm(
            torch.baddbmm(contract_each[block], value_22_each[block], combined_11),
            value_32,
            saved_3_each[block],
        )
        combined_13 = d_errors_W2 - (d_errors_W2.sum(-1) * inverse_V)[..., :, None]
        value_33 = combined_13 * inverse_V
        total_15 = (value_33 * value_13_each[block]).sum(-1)
        value_34 = total_15 * value_14_each[block]
        value_35 = combined_13 * value_10_each[block][..., :, None]
        combined_14 = saved_4_each[block] * value_34[..., :, None] + value_35
        d_errors = combined_14 * norm_gain_each[block][..., None, :]
        value_36 = d_errors * norm_gain_each[block][..., None, :]
        total_16 = (combined_13 * value_12_each[block]).sum(-1)
        value_37 = (total_16 + (value_36 * saved_4_each[block]).sum(-1)) * value_14_each[block]
        combined_15 = total_15 * total_each[block] * value_29_each[block] + value_37
        value_38 = value_13_each[block] * combined_15[..., :, None] * inverse_V
        value_39 = 2.0 * (value_33 * value_15_each[block][..., :, None])
        value_40 = value_12_each[block] * value_34[..., :, None]
        combined_16 = value_40 + value_39 + value_36 * value_10_each[block][..., :, None] + value_38
        combined_17 = combined_16 - (combined_16.sum(-1) * inverse_V)[..., :, None]
        value_41 = product_3 * last_weights_each[block][..., :, None]
        combined_18 = torch.baddbmm(value_41 + total_4_each[block], combined_17, saved_3_each[block].mT)
        value_42 = d_errors_W1 * saved_5_each[block] * value_28_each[block]
        combined_19 = value_42 + combined_18 * value_18_each[block]
        value_43 = saved_12_each[block] * total_14[..., None, :]
        value_44 = d_memory_W1_next * combined_8_each[block]
        combined_20 = torch.baddbmm(
            value_43 + total_5_each[block] - total_6_each[block] - value_44,
            k_each[block].mT,
            combined_19,
        )
        combined_21 = combined_20 - (combined_20 * saved_1_each[block]).sum(-2)[..., None, :]
        d_anchor_point_W1 = d_anchor_W1_each[block] + saved_1_each[block] * combined_21
        combined_22 = d_memory_W1_next * kept_each[block][..., None, None] + total_7_each[block]
        combined_23 = blocks.when_start(d_anchor_point_W1, False, resumed, block) + combined_22
        combined_24 = d_memory_W2_next * kept_each[block][..., None, None] + total_8_each[block]
        value_45 = saved_13_each[block] * total_13[..., None, :]
        value_46 = d_memory_W2_next * combined_10_each[block]
        combined_25 = torch.baddbmm(
            torch.baddbmm(
                value_45 + total_9_each[block] - total_10_each[block] - value_46,
                value_32.mT,
                errors_W2_each[block],
            ),
            value_17_each[block].mT,
            combined_17,
        )
        combined_26 = combined_25 - (combined_25 * saved_3_each[block]).sum(-2)[..., None, :]
        d_anchor_point_W2 = d_anchor_W2_each[block] + saved_3_each[block] * combined_26
        combined_27 = combined_24 + blocks.when_start(d_anchor_point_W2, False, resumed, block)
        combined_28 = d_memory_W1_next + total_11_each[block] - combined_22
        at_border = blocks.when_start(d_anchor_point_W1, True, resumed, block)
        at_border_2 = blocks.when_start(d_anchor_point_W2, True, resumed, block)
        combined_29 = d_memory_W2_next + total_12_each[block] - combined_24
        kept_value.append(product_3)
        kept_value_2.append(combined_14)
        kept_d_errors.append(d_errors)
        kept_value_3.append(combined_19)
        sum_0 = sum_0 + combined_28
        sum_1 = sum_1 + at_border
        sum_2 = sum_2 + at_border_2
        sum_3 = sum_3 + combined_29
        d_memory_W1_next, d_memory_W2_next = (combined_23, combined_27)
    del combined_10_each, combined_8_each, contract_2_each, contract_each, d_anchor_W1_each
    del d_anchor_W2_each, errors_W2_each, k_each, kept_each, last_weights_each, norm_gain_each
    del saved_12_each, saved_13_each, saved_1_each, saved_3_each, saved_4_each, saved_5_each
    del total_10_each, total_11_each, total_12_each, total_4_each, total_5_each, total_6_each
    del total_7_each, total_8_each, total_9_each, total_each, value_10_each, value_12_each
    del value_13_each, value_14_each, value_15_each, value_17_each, value_18_each
    del value_22_each, value_25_each, value_28_each, value_29_each
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
    d_errors_2 = blocks.stack(kept_d_errors[::-1], d_memory_W1_next_like)
    del kept_d_errors
    kept_value_3_all = blocks.stack(kept_value_3[::-1], d_memory_W1_next_like)
    del kept_value_3
    product_4 = torch.einsum("...ac,...abc->...ab", value_6, saved_7)
    del value_6
    combined_30 = d_y + product_4
    del product_4
    combined_31 = memory_W2 - origin_W2
    combined_32 = memory_W1 - origin_W1
    total_17 = (d_memory_W2_next_blocks * combined_31).sum(-2).sum(-1)
    d_kept = total_17 + (d_memory_W1_next_blocks * combined_32).sum(-2).sum(-1)
    total_18 = (d_memory_W2_rows * combined_31[..., None, :, :]).sum(-2).sum(-1)
    del combined_31
    total_19 = (d_memory_W1_rows * combined_32[..., None, :, :]).sum(-2).sum(-1)
    del combined_32
    running = blocks.cumsum((total_18 + total_19) * since_start, -1, True, False)
    combined_33 = (d_kept * kept)[..., None] + running
    del kept
    value_47 = d_memory_W1_next_blocks * saved_1
    total_20 = value_47.sum(-2)
    combined_34 = saved_1 * total_20[..., None, :] - value_47
    del value_47
    # the error that reaches the output of W1
    errors_W1 = saved_5 * value_18
    del value_18
    product_5 = torch.matmul(errors_W1, combined_34.mT)
    del combined_34
    d_last_weights = (kept_value_all * value_17).sum(-1) + (product_5 * k).sum(-1)
    del kept_value_all
    running_2 = blocks.cumsum(d_last_weights * lr * until_end, -1, False, True)
    product_6 = torch.einsum("...acd,...bd->...abc", combined_6, errors_W1)
    del errors_W1
    value_48 = product_6 * lr[..., None, :, None]
    total_21 = (value_20 * value_17[..., None, :, :]).sum(-1)
    del value_17
    value_49 = (total_21 + (value_48 * k[..., None, :, :]).sum(-1)) * saved_0
    del total_21
    banded = value_49 * blocks.band(row, row, 1, None, like)
    del value_49
    banded_2 = blocks.cumsum(banded, -1, False, True) * blocks.band(row, row, 0, None, like)
    del banded
    combined_35 = running_2 + banded_2.sum(-2)
    del banded_2
    total_22 = (value_48 * saved_0[..., :, :, None]).sum(-3)
    value_50 = product_5 * last_weights[..., :, None]
    del last_weights, product_5
    rename = d_errors_2
    combined_36 = blocks.add_product(value_50 + rename + total_22, kept_value_3_all, saved_1.mT, 1)
    del kept_value_3_all, rename, total_22, value_50
    total_23 = (product_2 * value_23).sum(-3).sum(-1)
    total_24 = (product_6 * value_26).sum(-3).sum(-1)
    combined_37 = d_last_weights * until_end + total_23 + total_24
    total_25 = (d_y * (saved_11 * value_3[..., :, None])).sum(-2)
    total_26 = (kept_value_2_all * errors).sum(-2)
    del errors, kept_value_2_all
    combined_38 = total_25 + total_26 + (d_errors_2 * value_11).sum(-2)
    del value_11
    combined_39 = d_y.sum(-2) + d_errors_2.sum(-2)
    value_51 = -d_errors_2
    del d_errors_2
    return {
        "part_0": combined_30,
        "part_1": combined_33,
        "part_2": combined_35,
        "part_3": combined_36,
        "part_4": combined_37,
        "part_5": combined_38,
        "part_6": combined_39,
        "part_7": value_51,
        "sum_0": sum_0,
        "sum_1": sum_1,
        "sum_2": sum_2,
        "sum_3": sum_3,
        "d_memory_W1": d_memory_W1_next_final,
        "d_memory_W2": d_memory_W2_next_final,
        "d_memory_W1_blocks": d_memory_W1_next_blocks,
        "d_memory_W2_blocks": d_memory_W2_next_blocks,
    }

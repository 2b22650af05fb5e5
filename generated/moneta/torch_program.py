"""The memory rule moneta as a torch program: `forward` and `backward` of all blocks.

Arrays are [B, H, N, ...] over N blocks; `blocks` is atlasgen.runtime.blocks.
Rule 83793c1442ee, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
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
        total = blocks.power(anchor_point_W1, 4.0).sum(-2).sum(-1)
        value_2 = blocks.where(total > 0.0, torch.pow(total, -0.5), 1.0)
        product = torch.matmul(k_each[block], anchor_point_W1 * value_2[..., None, None])
        value_3 = torch.nn.functional.gelu(product)
        # M*: the memory at the last border
        anchor_point_W2 = blocks.at_start(anchor_W2_each[block], memory_W2, resumed, block)
        total_2 = blocks.power(anchor_point_W2, 4.0).sum(-2).sum(-1)
        value_4 = blocks.where(total_2 > 0.0, torch.pow(total_2, -0.5), 1.0)
        value_5 = anchor_point_W2 * value_4[..., None, None]
        product_2 = torch.matmul(value_3, value_5)
        combined_2 = product_2 - (product_2.sum(-1) * inverse_V)[..., :, None]
        value_6 = (combined_2 * combined_2).sum(-1) * inverse_V
        value_7 = torch.pow(value_6 + 1e-06, -0.5)
        value_8 = combined_2 * value_7[..., :, None] * norm_gain_each[block][..., None, :]
        # pred = f(M*, phi(k))
        predictions = value_8 + norm_bias_each[block][..., None, :] + rename_each[block]
        # E = dl/dpred at the block's M*
        errors = torch.pow((predictions - v_each[block]) * (predictions - v_each[block]) + 1e-06, 0.5) * (
            predictions - v_each[block]
        )
        value_9 = errors * norm_gain_each[block][..., None, :]
        value_10 = (value_9 * combined_2).sum(-1) * (-0.5 * torch.pow(value_6 + 1e-06, -1.5))
        value_11 = 2.0 * combined_2 * value_10[..., :, None] * inverse_V
        combined_3 = value_9 * value_7[..., :, None] + value_11
        # the error that reaches the output of W2
        errors_W2 = combined_3 - (combined_3.sum(-1) * inverse_V)[..., :, None]
        product_3 = torch.matmul(errors_W2, value_5.mT)
        # the error that reaches the output of W1
        errors_W1 = product_3 * blocks.gelu_slope(product)
        value_12 = 4.0 * blocks.signed_power(anchor_point_W1, 3.0)
        value_13 = blocks.where(total > 0.0, -0.5 * torch.pow(total, -1.5), 0.0)
        combined_4 = memory_W2 - origin_W2_each[block]
        value_14 = 4.0 * blocks.signed_power(anchor_point_W2, 3.0)
        value_15 = blocks.where(total_2 > 0.0, -0.5 * torch.pow(total_2, -1.5), 0.0)
        product_4 = torch.matmul(value_each[block].mT, errors_W1)
        product_5 = torch.matmul((value_3 * last_weights_each[block][..., :, None]).mT, errors_W2)
        value_16 = (product_4 * anchor_point_W1).sum(-2).sum(-1) * value_13
        combined_5 = product_4 * value_2[..., None, None] + value_12 * value_16[..., None, None]
        value_17 = combined * kept_each[block][..., None, None]
        # M at the end
        memory_W1_next = value_17 + origin_W1_each[block] - combined_5
        value_18 = (product_5 * anchor_point_W2).sum(-2).sum(-1) * value_15
        combined_6 = product_5 * value_4[..., None, None] + value_14 * value_18[..., None, None]
        value_19 = combined_4 * kept_each[block][..., None, None]
        # M at the end
        memory_W2_next = value_19 + origin_W2_each[block] - combined_6
        kept_value.append(product)
        kept_value_2.append(value_3)
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
    combined_7 = memory_W1_blocks - origin_W1
    since_start = blocks.decay_from_start(log_alpha_sums, False)
    value_20 = combined_7[..., None, :, :] * since_start[..., :, None, None]
    del combined_7
    decay = blocks.decay(log_alpha_sums, False)
    value_21 = decay[..., :, :, None] * k[..., None, :, :] * lr[..., None, :, None]
    product_6 = torch.einsum("...abc,...bd->...acd", value_21, errors_W1_2)
    del errors_W1_2
    # M*: the memory at the last border
    anchor_point_W1_2 = blocks.at_start(anchor_W1, memory_W1_blocks, resumed, block)
    total_3 = blocks.power(anchor_point_W1_2, 4.0).sum(-2).sum(-1)
    value_22 = blocks.where(total_3 > 0.0, torch.pow(total_3, -0.5), 1.0)
    value_23 = 4.0 * blocks.signed_power(anchor_point_W1_2, 3.0)
    total_4 = (product_6 * anchor_point_W1_2[..., None, :, :]).sum(-2).sum(-1)
    value_24 = blocks.where(total_3 > 0.0, -0.5 * torch.pow(total_3, -1.5), 0.0)
    value_25 = value_23[..., None, :, :] * total_4[..., :, None, None]
    del value_23
    value_26 = product_6 * value_22[..., None, None, None]
    combined_8 = value_26 + value_25 * value_24[..., None, None, None]
    # M of every token
    memory_W1_rows = value_20 + origin_W1[..., None, :, :] - combined_8
    total_5 = blocks.power(memory_W1_rows, 4.0).sum(-2).sum(-1)
    value_27 = blocks.where(total_5 > 0.0, torch.pow(total_5, -0.5), 1.0)
    value_28 = memory_W1_rows * value_27[..., :, None, None]
    product_7 = torch.einsum("...ab,...abc->...ac", q, value_28)
    combined_9 = memory_W2_blocks - origin_W2
    value_29 = combined_9[..., None, :, :] * since_start[..., :, None, None]
    del combined_9
    value_30 = decay[..., :, :, None] * kept_value_2_all[..., None, :, :]
    del kept_value_2_all
    value_31 = value_30 * lr[..., None, :, None]
    product_8 = torch.einsum("...abc,...bd->...acd", value_31, errors_W2_2)
    del errors_W2_2
    # M*: the memory at the last border
    anchor_point_W2_2 = blocks.at_start(anchor_W2, memory_W2_blocks, resumed, block)
    total_6 = blocks.power(anchor_point_W2_2, 4.0).sum(-2).sum(-1)
    value_32 = blocks.where(total_6 > 0.0, torch.pow(total_6, -0.5), 1.0)
    value_33 = 4.0 * blocks.signed_power(anchor_point_W2_2, 3.0)
    total_7 = (product_8 * anchor_point_W2_2[..., None, :, :]).sum(-2).sum(-1)
    value_34 = blocks.where(total_6 > 0.0, -0.5 * torch.pow(total_6, -1.5), 0.0)
    value_35 = value_33[..., None, :, :] * total_7[..., :, None, None]
    del value_33
    value_36 = product_8 * value_32[..., None, None, None]
    combined_10 = value_36 + value_35 * value_34[..., None, None, None]
    # M of every token
    memory_W2_rows = value_29 + origin_W2[..., None, :, :] - combined_10
    total_8 = blocks.power(memory_W2_rows, 4.0).sum(-2).sum(-1)
    value_37 = blocks.where(total_8 > 0.0, torch.pow(total_8, -0.5), 1.0)
    value_38 = memory_W2_rows * value_37[..., :, None, None]
    value_39 = torch.nn.functional.gelu(product_7)
    product_9 = torch.einsum("...ab,...abc->...ac", value_39, value_38)
    del value_39
    combined_11 = product_9 - (product_9.sum(-1) * inverse_V)[..., :, None]
    del product_9
    value_40 = (combined_11 * combined_11).sum(-1) * inverse_V
    value_41 = combined_11 * torch.pow(value_40 + 1e-06, -0.5)[..., :, None]
    combined_12 = value_41 * norm_gain[..., None, :] + norm_bias[..., None, :]
    del value_41
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = combined_12 + q
    del combined_12
    return {
        "y": reads,
        "anchor_W1_value": anchor_point_W1_2,
        "anchor_W2_value": anchor_point_W2_2,
        "saved_0": decay,
        "saved_1": kept_value_all,
        "saved_2": kept_value_3_all,
        "saved_3": kept_value_4_all,
        "saved_4": product_6,
        "saved_5": product_7,
        "saved_6": product_8,
        "saved_7": combined_11,
        "saved_8": kept_value_5_all,
        "saved_9": kept_value_6_all,
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
    memory_W2,
    origin_W2,
    log_alpha,
    anchor_W2,
    memory_W1,
    origin_W1,
    anchor_W1,
    d_memory_W2_next,
    d_memory_W1_next,
    q,
    norm_bias,
    k,
    v,
    lr,
    d_anchor_W1,
    d_anchor_W2,
    saved_7,
    saved_6,
    saved_5,
    saved_4,
    saved_2,
    saved_1,
    saved_3,
    saved_0,
    saved_8,
    saved_9,
):
    """The loop over blocks from the last to the first, then the gradients of all rows."""
    like = d_y
    row, halo_row = blocks.positions(rows, halo, False)
    block = None  # all blocks at once
    value = d_y * norm_gain[..., None, :]
    value_2 = (saved_7 * saved_7).sum(-1) * inverse_V
    value_3 = torch.pow(value_2 + 1e-06, -0.5)
    value_4 = (value * saved_7).sum(-1) * (-0.5 * torch.pow(value_2 + 1e-06, -1.5))
    value_5 = 2.0 * saved_7 * value_4[..., :, None] * inverse_V
    combined = value * value_3[..., :, None] + value_5
    del value, value_5
    combined_2 = combined - (combined.sum(-1) * inverse_V)[..., :, None]
    del combined
    combined_3 = memory_W2 - origin_W2
    log_alpha_sums = blocks.running(log_alpha)
    since_start = blocks.decay_from_start(log_alpha_sums, False)
    value_6 = combined_3[..., None, :, :] * since_start[..., :, None, None]
    # M*: the memory at the last border
    anchor_point_W2 = blocks.at_start(anchor_W2, memory_W2, resumed, block)
    total = blocks.power(anchor_point_W2, 4.0).sum(-2).sum(-1)
    value_7 = blocks.where(total > 0.0, torch.pow(total, -0.5), 1.0)
    value_8 = 4.0 * blocks.signed_power(anchor_point_W2, 3.0)
    total_2 = (saved_6 * anchor_point_W2[..., None, :, :]).sum(-2).sum(-1)
    value_9 = value_8[..., None, :, :] * total_2[..., :, None, None]
    value_10 = blocks.where(total > 0.0, -0.5 * torch.pow(total, -1.5), 0.0)
    value_11 = value_9 * value_10[..., None, None, None]
    combined_4 = saved_6 * value_7[..., None, None, None] + value_11
    # M of every token
    memory_W2_rows = value_6 + origin_W2[..., None, :, :] - combined_4
    total_3 = blocks.power(memory_W2_rows, 4.0).sum(-2).sum(-1)
    value_12 = blocks.where(total_3 > 0.0, torch.pow(total_3, -0.5), 1.0)
    value_13 = memory_W2_rows * value_12[..., :, None, None]
    product = torch.einsum("...ac,...abc->...ab", combined_2, value_13)
    value_14 = product * blocks.gelu_slope(saved_5)
    del product
    combined_5 = memory_W1 - origin_W1
    value_15 = combined_5[..., None, :, :] * since_start[..., :, None, None]
    # M*: the memory at the last border
    anchor_point_W1 = blocks.at_start(anchor_W1, memory_W1, resumed, block)
    total_4 = blocks.power(anchor_point_W1, 4.0).sum(-2).sum(-1)
    value_16 = blocks.where(total_4 > 0.0, torch.pow(total_4, -0.5), 1.0)
    value_17 = 4.0 * blocks.signed_power(anchor_point_W1, 3.0)
    total_5 = (saved_4 * anchor_point_W1[..., None, :, :]).sum(-2).sum(-1)
    value_18 = value_17[..., None, :, :] * total_5[..., :, None, None]
    value_19 = blocks.where(total_4 > 0.0, -0.5 * torch.pow(total_4, -1.5), 0.0)
    value_20 = value_18 * value_19[..., None, None, None]
    combined_6 = saved_4 * value_16[..., None, None, None] + value_20
    # M of every token
    memory_W1_rows = value_15 + origin_W1[..., None, :, :] - combined_6
    total_6 = blocks.power(memory_W1_rows, 4.0).sum(-2).sum(-1)
    value_21 = blocks.where(total_6 > 0.0, torch.pow(total_6, -0.5), 1.0)
    # a_C: decay of the memory over the block
    kept = blocks.decay_whole(log_alpha_sums)
    value_22 = combined_2[..., :, None, :] * torch.nn.functional.gelu(saved_5)[..., :, :, None]
    del combined_2
    value_23 = blocks.where(total_3 > 0.0, -0.5 * torch.pow(total_3, -1.5), 0.0)
    value_24 = (value_22 * memory_W2_rows).sum(-2).sum(-1) * value_23
    value_25 = 4.0 * blocks.signed_power(memory_W2_rows, 3.0) * value_24[..., :, None, None]
    d_memory_W2_rows = value_22 * value_12[..., :, None, None] + value_25
    value_26 = value_14[..., :, None, :] * q[..., :, :, None]
    value_27 = blocks.where(total_6 > 0.0, -0.5 * torch.pow(total_6, -1.5), 0.0)
    value_28 = (value_26 * memory_W1_rows).sum(-2).sum(-1) * value_27
    value_29 = 4.0 * blocks.signed_power(memory_W1_rows, 3.0) * value_28[..., :, None, None]
    d_memory_W1_rows = value_26 * value_21[..., :, None, None] + value_29
    value_30 = (saved_2 * saved_2).sum(-1) * inverse_V
    value_31 = torch.pow(value_30 + 1e-06, -0.5)
    value_32 = saved_2 * value_31[..., :, None]
    combined_7 = value_32 * norm_gain[..., None, :] + norm_bias[..., None, :]
    # pred = f(M*, phi(k))
    predictions = combined_7 + k
    del combined_7
    # E = dl/dpred at the block's M*
    errors = torch.pow((predictions - v) * (predictions - v) + 1e-06, 0.5) * (predictions - v)
    value_33 = errors * norm_gain[..., None, :]
    value_34 = 2.0 * saved_2
    total_7 = (value_33 * saved_2).sum(-1)
    value_35 = -0.5 * torch.pow(value_30 + 1e-06, -1.5)
    value_36 = total_7 * value_35
    value_37 = value_34 * value_36[..., :, None] * inverse_V
    combined_8 = value_33 * value_31[..., :, None] + value_37
    del value_37
    # the error that reaches the output of W2
    errors_W2 = combined_8 - (combined_8.sum(-1) * inverse_V)[..., :, None]
    del combined_8
    value_38 = torch.nn.functional.gelu(saved_1)
    value_39 = blocks.gelu_slope(saved_1)
    until_end = blocks.decay_to_end(log_alpha_sums)
    value_40 = d_memory_W2_rows * value_10[..., None, None, None]
    total_8 = (value_40 * value_8[..., None, :, :]).sum(-2).sum(-1)
    value_41 = anchor_point_W2[..., None, :, :] * total_8[..., :, None, None]
    combined_9 = -value_41 - d_memory_W2_rows * value_7[..., None, None, None]
    product_2 = torch.einsum("...acd,...bd->...abc", combined_9, errors_W2)
    value_42 = product_2 * lr[..., None, :, None]
    value_43 = d_memory_W1_rows * value_19[..., None, None, None]
    total_9 = (value_43 * value_17[..., None, :, :]).sum(-2).sum(-1)
    value_44 = anchor_point_W1[..., None, :, :] * total_9[..., :, None, None]
    combined_10 = -value_44 - d_memory_W1_rows * value_16[..., None, None, None]
    # p_C: last row of P
    last_weights = until_end * lr
    value_45 = value_38 * last_weights[..., :, None]
    value_46 = saved_0[..., :, :, None] * value_38[..., None, :, :]
    value_47 = value_46 * lr[..., None, :, None]
    contract = torch.einsum("...acd,...abc->...bd", combined_9, value_47)
    value_48 = k * last_weights[..., :, None]
    value_49 = saved_0[..., :, :, None] * k[..., None, :, :]
    value_50 = value_49 * lr[..., None, :, None]
    contract_2 = torch.einsum("...acd,...abc->...bd", combined_10, value_50)
    value_51 = anchor_point_W2 * value_7[..., None, None]
    value_52 = torch.pow((predictions - v) * (predictions - v) + 1e-06, -0.5) * (predictions - v) * (
        1.0 * predictions - 1.0 * v
    ) + torch.pow((predictions - v) * (predictions - v) + 1e-06, 0.5)
    value_53 = 0.3989422804014327 * (2.0 - saved_1 * saved_1) * torch.exp(-0.5 * (saved_1 * saved_1))
    total_10 = (value_42 * saved_0[..., :, :, None]).sum(-3)
    value_54 = 0.75 * torch.pow(value_30 + 1e-06, -2.5)
    total_11 = (value_43 * total_5[..., :, None, None]).sum(-3)
    total_12 = (saved_8 * anchor_point_W1).sum(-2).sum(-1)
    value_55 = total_12 * value_19
    value_56 = 12.0 * blocks.power(anchor_point_W1, 2.0)
    total_13 = (d_memory_W1_rows * value_18).sum(-3).sum(-2).sum(-1)
    value_57 = blocks.where(total_4 > 0.0, 0.75 * torch.pow(total_4, -2.5), 0.0)
    total_14 = (d_memory_W1_rows * saved_4).sum(-3).sum(-2).sum(-1)
    total_15 = (saved_4 * total_9[..., :, None, None]).sum(-3)
    total_16 = (d_memory_W1_rows * since_start[..., :, None, None]).sum(-3)
    total_17 = (d_memory_W2_rows * since_start[..., :, None, None]).sum(-3)
    total_18 = (value_40 * total_2[..., :, None, None]).sum(-3)
    total_19 = (saved_9 * anchor_point_W2).sum(-2).sum(-1)
    value_58 = total_19 * value_10
    value_59 = 12.0 * blocks.power(anchor_point_W2, 2.0)
    total_20 = (d_memory_W2_rows * value_9).sum(-3).sum(-2).sum(-1)
    value_60 = blocks.where(total > 0.0, 0.75 * torch.pow(total, -2.5), 0.0)
    total_21 = (d_memory_W2_rows * saved_6).sum(-3).sum(-2).sum(-1)
    total_22 = (saved_6 * total_8[..., :, None, None]).sum(-3)
    total_23 = d_memory_W1_rows.sum(-3)
    total_24 = d_memory_W2_rows.sum(-3)
    d_memory_W1_next_like = d_memory_W1_next
    d_memory_W1_next = d_memory_W1_next.flatten(0, 1)
    d_memory_W1_next_list = []
    d_memory_W2_next_like = d_memory_W2_next
    d_memory_W2_next = d_memory_W2_next.flatten(0, 1)
    d_memory_W2_next_list = []
    kept_value = []
    kept_value_2 = []
    kept_d_errors = []
    kept_d_predictions = []
    kept_value_3 = []
    sum_0 = 0.0
    sum_1 = 0.0
    sum_2 = 0.0
    sum_3 = 0.0
    norm_gain_each = blocks.each(norm_gain, count, d_memory_W1_next_like)
    anchor_point_W2_each = blocks.each(anchor_point_W2, count, d_memory_W1_next_like)
    del anchor_point_W2
    value_7_each = blocks.each(value_7, count, d_memory_W1_next_like)
    del value_7
    value_8_each = blocks.each(value_8, count, d_memory_W1_next_like)
    del value_8
    value_10_each = blocks.each(value_10, count, d_memory_W1_next_like)
    del value_10
    anchor_point_W1_each = blocks.each(anchor_point_W1, count, d_memory_W1_next_like)
    value_16_each = blocks.each(value_16, count, d_memory_W1_next_like)
    value_17_each = blocks.each(value_17, count, d_memory_W1_next_like)
    value_19_each = blocks.each(value_19, count, d_memory_W1_next_like)
    kept_each = blocks.each(kept, count, d_memory_W1_next_like)
    saved_2_each = blocks.each(saved_2, count, d_memory_W1_next_like)
    value_31_each = blocks.each(value_31, count, d_memory_W1_next_like)
    del value_31
    k_each = blocks.each(k, count, d_memory_W1_next_like)
    value_33_each = blocks.each(value_33, count, d_memory_W1_next_like)
    del value_33
    value_34_each = blocks.each(value_34, count, d_memory_W1_next_like)
    del value_34
    total_7_each = blocks.each(total_7, count, d_memory_W1_next_like)
    del total_7
    value_35_each = blocks.each(value_35, count, d_memory_W1_next_like)
    del value_35
    value_36_each = blocks.each(value_36, count, d_memory_W1_next_like)
    del value_36
    errors_W2_each = blocks.each(errors_W2, count, d_memory_W1_next_like)
    del errors_W2
    value_38_each = blocks.each(value_38, count, d_memory_W1_next_like)
    saved_3_each = blocks.each(saved_3, count, d_memory_W1_next_like)
    value_39_each = blocks.each(value_39, count, d_memory_W1_next_like)
    last_weights_each = blocks.each(last_weights, count, d_memory_W1_next_like)
    value_45_each = blocks.each(value_45, count, d_memory_W1_next_like)
    del value_45
    contract_each = blocks.each(contract, count, d_memory_W1_next_like)
    del contract
    value_48_each = blocks.each(value_48, count, d_memory_W1_next_like)
    del value_48
    contract_2_each = blocks.each(contract_2, count, d_memory_W1_next_like)
    del contract_2
    value_51_each = blocks.each(value_51, count, d_memory_W1_next_like)
    del value_51
    value_52_each = blocks.each(value_52, count, d_memory_W1_next_like)
    del value_52
    value_53_each = blocks.each(value_53, count, d_memory_W1_next_like)
    del value_53
    total_10_each = blocks.each(total_10, count, d_memory_W1_next_like)
    del total_10
    value_54_each = blocks.each(value_54, count, d_memory_W1_next_like)
    del value_54
    d_anchor_W1_each = blocks.each(d_anchor_W1, count, d_memory_W1_next_like)
    total_11_each = blocks.each(total_11, count, d_memory_W1_next_like)
    del total_11
    saved_8_each = blocks.each(saved_8, count, d_memory_W1_next_like)
    total_12_each = blocks.each(total_12, count, d_memory_W1_next_like)
    del total_12
    value_55_each = blocks.each(value_55, count, d_memory_W1_next_like)
    del value_55
    value_56_each = blocks.each(value_56, count, d_memory_W1_next_like)
    del value_56
    total_13_each = blocks.each(total_13, count, d_memory_W1_next_like)
    del total_13
    value_57_each = blocks.each(value_57, count, d_memory_W1_next_like)
    del value_57
    total_14_each = blocks.each(total_14, count, d_memory_W1_next_like)
    del total_14
    total_15_each = blocks.each(total_15, count, d_memory_W1_next_like)
    del total_15
    total_16_each = blocks.each(total_16, count, d_memory_W1_next_like)
    del total_16
    total_17_each = blocks.each(total_17, count, d_memory_W1_next_like)
    del total_17
    d_anchor_W2_each = blocks.each(d_anchor_W2, count, d_memory_W1_next_like)
    total_18_each = blocks.each(total_18, count, d_memory_W1_next_like)
    del total_18
    saved_9_each = blocks.each(saved_9, count, d_memory_W1_next_like)
    total_19_each = blocks.each(total_19, count, d_memory_W1_next_like)
    del total_19
    value_58_each = blocks.each(value_58, count, d_memory_W1_next_like)
    del value_58
    value_59_each = blocks.each(value_59, count, d_memory_W1_next_like)
    del value_59
    total_20_each = blocks.each(total_20, count, d_memory_W1_next_like)
    del total_20
    value_60_each = blocks.each(value_60, count, d_memory_W1_next_like)
    del value_60
    total_21_each = blocks.each(total_21, count, d_memory_W1_next_like)
    del total_21
    total_22_each = blocks.each(total_22, count, d_memory_W1_next_like)
    del total_22
    total_23_each = blocks.each(total_23, count, d_memory_W1_next_like)
    del total_23
    total_24_each = blocks.each(total_24, count, d_memory_W1_next_like)
    del total_24
    for block in reversed(range(count)):
        d_memory_W1_next_list.append(d_memory_W1_next)
        d_memory_W2_next_list.append(d_memory_W2_next)
        total_25 = (d_memory_W2_next * value_8_each[block]).sum(-2).sum(-1)
        value_61 = total_25 * value_10_each[block]
        value_62 = anchor_point_W2_each[block] * value_61[..., None, None]
        combined_11 = -value_62 - d_memory_W2_next * value_7_each[block][..., None, None]
        product_3 = torch.matmul(errors_W2_each[block], combined_11.mT)
        total_26 = (d_memory_W1_next * value_17_each[block]).sum(-2).sum(-1)
        value_63 = total_26 * value_19_each[block]
        value_64 = d_memory_W1_next * value_16_each[block][..., None, None]
        combined_12 = -(anchor_point_W1_each[block] * value_63[..., None, None]) - value_64
        d_errors_W1 = torch.baddbmm(contract_2_each[block], value_48_each[block], combined_12)
        value_65 = d_errors_W1 * value_39_each[block]
        d_errors_W2 = torch.baddbmm(
            torch.baddbmm(contract_each[block], value_45_each[block], combined_11),
            value_65,
            value_51_each[block],
        )
        combined_13 = d_errors_W2 - (d_errors_W2.sum(-1) * inverse_V)[..., :, None]
        value_66 = combined_13 * inverse_V
        total_27 = (value_66 * value_34_each[block]).sum(-1)
        value_67 = total_27 * value_35_each[block]
        value_68 = combined_13 * value_31_each[block][..., :, None]
        combined_14 = saved_2_each[block] * value_67[..., :, None] + value_68
        d_errors = combined_14 * norm_gain_each[block][..., None, :]
        d_predictions = d_errors * value_52_each[block]
        value_69 = d_predictions * norm_gain_each[block][..., None, :]
        total_28 = (combined_13 * value_33_each[block]).sum(-1)
        value_70 = (total_28 + (value_69 * saved_2_each[block]).sum(-1)) * value_35_each[block]
        combined_15 = total_27 * total_7_each[block] * value_54_each[block] + value_70
        value_71 = value_34_each[block] * combined_15[..., :, None] * inverse_V
        value_72 = 2.0 * (value_66 * value_36_each[block][..., :, None])
        value_73 = value_33_each[block] * value_67[..., :, None]
        combined_16 = value_73 + value_72 + value_69 * value_31_each[block][..., :, None] + value_71
        combined_17 = combined_16 - (combined_16.sum(-1) * inverse_V)[..., :, None]
        value_74 = product_3 * last_weights_each[block][..., :, None]
        combined_18 = torch.baddbmm(value_74 + total_10_each[block], combined_17, value_51_each[block].mT)
        value_75 = d_errors_W1 * saved_3_each[block] * value_53_each[block]
        combined_19 = value_75 + combined_18 * value_39_each[block]
        value_76 = d_memory_W1_next * value_55_each[block][..., None, None]
        product_4 = torch.matmul(k_each[block].mT, combined_19)
        combined_20 = -(total_26 * total_12_each[block]) - total_13_each[block]
        total_29 = (product_4 * anchor_point_W1_each[block]).sum(-2).sum(-1)
        total_30 = (d_memory_W1_next * saved_8_each[block]).sum(-2).sum(-1)
        value_77 = (total_29 - total_30 - total_14_each[block]) * value_19_each[block]
        combined_21 = combined_20 * value_57_each[block] + value_77
        value_78 = (-total_11_each[block] - value_76) * value_56_each[block]
        value_79 = value_17_each[block] * combined_21[..., None, None]
        value_80 = product_4 * value_16_each[block][..., None, None]
        value_81 = saved_8_each[block] * value_63[..., None, None]
        d_anchor_point_W1 = (
            d_anchor_W1_each[block] + value_78 + value_80 + value_79 - value_81 - total_15_each[block]
        )
        combined_22 = d_memory_W1_next * kept_each[block][..., None, None] + total_16_each[block]
        combined_23 = blocks.when_start(d_anchor_point_W1, False, resumed, block) + combined_22
        combined_24 = d_memory_W2_next * kept_each[block][..., None, None] + total_17_each[block]
        value_82 = d_memory_W2_next * value_58_each[block][..., None, None]
        product_5 = torch.matmul(value_65.mT, errors_W2_each[block])
        combined_25 = torch.baddbmm(product_5, value_38_each[block].mT, combined_17)
        combined_26 = -(total_25 * total_19_each[block]) - total_20_each[block]
        total_31 = (combined_25 * anchor_point_W2_each[block]).sum(-2).sum(-1)
        total_32 = (d_memory_W2_next * saved_9_each[block]).sum(-2).sum(-1)
        value_83 = (total_31 - total_32 - total_21_each[block]) * value_10_each[block]
        combined_27 = combined_26 * value_60_each[block] + value_83
        value_84 = (-total_18_each[block] - value_82) * value_59_each[block]
        value_85 = combined_25 * value_7_each[block][..., None, None]
        value_86 = value_8_each[block] * combined_27[..., None, None]
        value_87 = saved_9_each[block] * value_61[..., None, None]
        d_anchor_point_W2 = (
            d_anchor_W2_each[block] + value_84 + value_85 + value_86 - value_87 - total_22_each[block]
        )
        combined_28 = combined_24 + blocks.when_start(d_anchor_point_W2, False, resumed, block)
        combined_29 = d_memory_W1_next + total_23_each[block] - combined_22
        at_border = blocks.when_start(d_anchor_point_W1, True, resumed, block)
        at_border_2 = blocks.when_start(d_anchor_point_W2, True, resumed, block)
        combined_30 = d_memory_W2_next + total_24_each[block] - combined_24
        kept_value.append(product_3)
        kept_value_2.append(combined_14)
        kept_d_errors.append(d_errors)
        kept_d_predictions.append(d_predictions)
        kept_value_3.append(combined_19)
        sum_0 = sum_0 + combined_29
        sum_1 = sum_1 + at_border
        sum_2 = sum_2 + at_border_2
        sum_3 = sum_3 + combined_30
        d_memory_W1_next, d_memory_W2_next = (combined_23, combined_28)
    del anchor_point_W1_each, anchor_point_W2_each, contract_2_each, contract_each
    del d_anchor_W1_each, d_anchor_W2_each, errors_W2_each, k_each, kept_each
    del last_weights_each, norm_gain_each, saved_2_each, saved_3_each, saved_8_each
    del saved_9_each, total_10_each, total_11_each, total_12_each, total_13_each
    del total_14_each, total_15_each, total_16_each, total_17_each, total_18_each
    del total_19_each, total_20_each, total_21_each, total_22_each, total_23_each
    del total_24_each, total_7_each, value_10_each, value_16_each, value_17_each
    del value_19_each, value_31_each, value_33_each, value_34_each, value_35_each
    del value_36_each, value_38_each, value_39_each, value_45_each, value_48_each
    del value_51_each, value_52_each, value_53_each, value_54_each, value_55_each
    del value_56_each, value_57_each, value_58_each, value_59_each, value_60_each
    del value_7_each, value_8_each
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
    d_predictions_2 = blocks.stack(kept_d_predictions[::-1], d_memory_W1_next_like)
    del kept_d_predictions
    kept_value_3_all = blocks.stack(kept_value_3[::-1], d_memory_W1_next_like)
    del kept_value_3
    value_88 = memory_W1_rows * value_21[..., :, None, None]
    product_6 = torch.einsum("...ac,...abc->...ab", value_14, value_88)
    del value_14
    combined_31 = d_y + product_6
    del product_6
    total_33 = (d_memory_W2_next_blocks * combined_3).sum(-2).sum(-1)
    d_kept = total_33 + (d_memory_W1_next_blocks * combined_5).sum(-2).sum(-1)
    total_34 = (d_memory_W2_rows * combined_3[..., None, :, :]).sum(-2).sum(-1)
    del combined_3
    total_35 = (d_memory_W1_rows * combined_5[..., None, :, :]).sum(-2).sum(-1)
    del combined_5
    running = blocks.cumsum((total_34 + total_35) * since_start, -1, True, False)
    combined_32 = (d_kept * kept)[..., None] + running
    del kept
    total_36 = (d_memory_W1_next_blocks * value_17).sum(-2).sum(-1)
    del value_17
    value_89 = total_36 * value_19
    del value_19
    value_90 = d_memory_W1_next_blocks * value_16[..., None, None]
    combined_33 = -(anchor_point_W1 * value_89[..., None, None]) - value_90
    del value_90
    # the error that reaches the output of W1
    errors_W1 = saved_3 * value_39
    del value_39
    product_7 = torch.matmul(errors_W1, combined_33.mT)
    del combined_33
    d_last_weights = (kept_value_all * value_38).sum(-1) + (product_7 * k).sum(-1)
    del kept_value_all
    running_2 = blocks.cumsum(d_last_weights * lr * until_end, -1, False, True)
    product_8 = torch.einsum("...acd,...bd->...abc", combined_10, errors_W1)
    del errors_W1
    value_91 = product_8 * lr[..., None, :, None]
    total_37 = (value_42 * value_38[..., None, :, :]).sum(-1)
    del value_38
    value_92 = (total_37 + (value_91 * k[..., None, :, :]).sum(-1)) * saved_0
    del total_37
    banded = value_92 * blocks.band(row, row, 1, None, like)
    del value_92
    banded_2 = blocks.cumsum(banded, -1, False, True) * blocks.band(row, row, 0, None, like)
    del banded
    combined_34 = running_2 + banded_2.sum(-2)
    del banded_2
    total_38 = (value_91 * saved_0[..., :, :, None]).sum(-3)
    value_93 = anchor_point_W1 * value_16[..., None, None]
    del anchor_point_W1, value_16
    value_94 = product_7 * last_weights[..., :, None]
    del last_weights, product_7
    rename = d_predictions_2
    combined_35 = blocks.add_product(value_94 + rename + total_38, kept_value_3_all, value_93.mT, 1)
    del kept_value_3_all, rename, total_38, value_93, value_94
    total_39 = (product_2 * value_46).sum(-3).sum(-1)
    total_40 = (product_8 * value_49).sum(-3).sum(-1)
    combined_36 = d_last_weights * until_end + total_39 + total_40
    total_41 = (d_y * (saved_7 * value_3[..., :, None])).sum(-2)
    total_42 = (d_predictions_2 * value_32).sum(-2)
    del value_32
    combined_37 = total_41 + (kept_value_2_all * errors).sum(-2) + total_42
    del errors, kept_value_2_all
    combined_38 = d_y.sum(-2) + d_predictions_2.sum(-2)
    del d_predictions_2
    value_95 = torch.pow((predictions - v) * (predictions - v) + 1e-06, -0.5) * (predictions - v) * (
        -1.0 * predictions + 1.0 * v
    ) - torch.pow((predictions - v) * (predictions - v) + 1e-06, 0.5)
    del predictions
    value_96 = d_errors_2 * value_95
    del d_errors_2, value_95
    return {
        "part_0": combined_31,
        "part_1": combined_32,
        "part_2": combined_34,
        "part_3": combined_35,
        "part_4": combined_36,
        "part_5": combined_37,
        "part_6": combined_38,
        "part_7": value_96,
        "sum_0": sum_0,
        "sum_1": sum_1,
        "sum_2": sum_2,
        "sum_3": sum_3,
        "d_memory_W1": d_memory_W1_next_final,
        "d_memory_W2": d_memory_W2_next_final,
        "d_memory_W1_blocks": d_memory_W1_next_blocks,
        "d_memory_W2_blocks": d_memory_W2_next_blocks,
    }

"""The memory rule ttt_mlp as a torch program: `forward` and `backward` of all blocks.

Arrays are [B, H, N, ...] over N blocks; `blocks` is atlasgen.runtime.blocks.
Rule ffda98112aea, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
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
    update_W1,
    k,
    lr,
    memory_b1,
    memory_W2,
    memory_b2,
    inverse_V,
    norm_gain,
    norm_bias,
    v,
    row_scale,
    update_b1,
    update_W2,
    update_b2,
    row_scale_15,
    border_at_border,
):
    """The loop over blocks, then the reads of all blocks."""
    like = q
    row, halo_row = blocks.positions(rows, halo, False)
    block = None  # all blocks at once
    rename = k
    value = k * lr[..., :, None]
    memory_W1_like = memory_W1
    memory_W1 = memory_W1.flatten(0, 1)
    memory_W1_list = []
    update_W1_like = update_W1
    update_W1 = update_W1.flatten(0, 1)
    update_W1_list = []
    memory_W2_like = memory_W2
    memory_W2 = memory_W2.flatten(0, 1)
    memory_W2_list = []
    update_W2_like = update_W2
    update_W2 = update_W2.flatten(0, 1)
    update_W2_list = []
    memory_b1_like = memory_b1
    memory_b1 = memory_b1.flatten(0, 1)
    memory_b1_list = []
    update_b1_like = update_b1
    update_b1 = update_b1.flatten(0, 1)
    update_b1_list = []
    memory_b2_like = memory_b2
    memory_b2 = memory_b2.flatten(0, 1)
    memory_b2_list = []
    update_b2_like = update_b2
    update_b2 = update_b2.flatten(0, 1)
    update_b2_list = []
    kept_value = []
    kept_value_2 = []
    kept_value_3 = []
    kept_errors_W2 = []
    kept_value_4 = []
    kept_errors_W1 = []
    kept_update_W1_total = []
    kept_update_W2_total = []
    k_each = blocks.each(k, count, memory_W1_like)
    lr_each = blocks.each(lr, count, memory_W1_like)
    norm_gain_each = blocks.each(norm_gain, count, memory_W1_like)
    norm_bias_each = blocks.each(norm_bias, count, memory_W1_like)
    rename_each = blocks.each(rename, count, memory_W1_like)
    del rename
    v_each = blocks.each(v, count, memory_W1_like)
    value_each = blocks.each(value, count, memory_W1_like)
    del value
    row_scale_15_each = blocks.each(row_scale_15, count, memory_W1_like)
    border_at_border_each = blocks.each(border_at_border, count, memory_W1_like)
    for block in range(count):
        memory_W1_list.append(memory_W1)
        update_W1_list.append(update_W1)
        memory_W2_list.append(memory_W2)
        update_W2_list.append(update_W2)
        memory_b1_list.append(memory_b1)
        update_b1_list.append(update_b1)
        memory_b2_list.append(memory_b2)
        update_b2_list.append(update_b2)
        combined = torch.baddbmm(memory_b1[..., None, :], k_each[block], memory_W1)
        value_2 = torch.nn.functional.gelu(combined)
        combined_2 = torch.baddbmm(memory_b2[..., None, :], value_2, memory_W2)
        combined_3 = combined_2 - (combined_2.sum(-1) * inverse_V)[..., :, None]
        value_3 = (combined_3 * combined_3).sum(-1) * inverse_V
        value_4 = torch.pow(value_3 + 1e-06, -0.5)
        value_5 = combined_3 * value_4[..., :, None] * norm_gain_each[block][..., None, :]
        # pred = f(M*, phi(k))
        predictions = value_5 + norm_bias_each[block][..., None, :] + rename_each[block]
        # E = dl/dpred at the block's M*
        errors = predictions - v_each[block]
        value_6 = errors * norm_gain_each[block][..., None, :]
        value_7 = (value_6 * combined_3).sum(-1) * (-0.5 * torch.pow(value_3 + 1e-06, -1.5))
        value_8 = 2.0 * combined_3 * value_7[..., :, None] * inverse_V
        combined_4 = value_6 * value_4[..., :, None] + value_8
        # the error that reaches the output of W2
        errors_W2 = combined_4 - (combined_4.sum(-1) * inverse_V)[..., :, None]
        product = torch.matmul(errors_W2, memory_W2.mT)
        # the error that reaches the output of W1
        errors_W1 = product * blocks.gelu_slope(combined)
        # A: the block's update so far
        update_W1_total = torch.baddbmm(update_W1, value_each[block].mT, errors_W1)
        # A: the block's update so far
        update_W2_total = torch.baddbmm(update_W2, (value_2 * lr_each[block][..., :, None]).mT, errors_W2)
        # M at the end
        memory_W1_next = memory_W1 - update_W1_total * row_scale_15_each[block][..., None, None]
        value_9 = blocks.where(border_at_border_each[block][..., None, None] > 0.0, memory_W1_next, memory_W1)
        value_10 = blocks.where(border_at_border_each[block][..., None, None] > 0.0, 0.0, update_W1_total)
        # M at the end
        memory_W2_next = memory_W2 - update_W2_total * row_scale_15_each[block][..., None, None]
        value_11 = blocks.where(
            border_at_border_each[block][..., None, None] > 0.0,
            memory_W2_next,
            memory_W2,
        )
        value_12 = blocks.where(border_at_border_each[block][..., None, None] > 0.0, 0.0, update_W2_total)
        product_2 = (lr_each[block][..., :, None] * errors_W1).sum(-2)
        # A: the block's update so far
        update_b1_total = update_b1 + product_2
        # M at the end
        memory_b1_next = memory_b1 - update_b1_total * row_scale_15_each[block][..., None]
        value_13 = blocks.where(border_at_border_each[block][..., None] > 0.0, memory_b1_next, memory_b1)
        value_14 = blocks.where(border_at_border_each[block][..., None] > 0.0, 0.0, update_b1_total)
        product_3 = (lr_each[block][..., :, None] * errors_W2).sum(-2)
        # A: the block's update so far
        update_b2_total = update_b2 + product_3
        # M at the end
        memory_b2_next = memory_b2 - update_b2_total * row_scale_15_each[block][..., None]
        value_15 = blocks.where(border_at_border_each[block][..., None] > 0.0, memory_b2_next, memory_b2)
        value_16 = blocks.where(border_at_border_each[block][..., None] > 0.0, 0.0, update_b2_total)
        kept_value.append(combined)
        kept_value_2.append(value_2)
        kept_value_3.append(combined_3)
        kept_errors_W2.append(errors_W2)
        kept_value_4.append(product)
        kept_errors_W1.append(errors_W1)
        kept_update_W1_total.append(update_W1_total)
        kept_update_W2_total.append(update_W2_total)
        memory_W1, update_W1, memory_W2, update_W2, memory_b1, update_b1, memory_b2, update_b2 = (
            value_9,
            value_10,
            value_11,
            value_12,
            value_13,
            value_14,
            value_15,
            value_16,
        )
    del border_at_border_each, k_each, lr_each, norm_bias_each, norm_gain_each, rename_each
    del row_scale_15_each, v_each, value_each
    block = None
    memory_W1_final = memory_W1.unflatten(0, memory_W1_like.shape[:2])
    memory_W1_blocks = blocks.stack(memory_W1_list, memory_W1_like)
    del memory_W1_list
    update_W1_final = update_W1.unflatten(0, update_W1_like.shape[:2])
    update_W1_blocks = blocks.stack(update_W1_list, update_W1_like)
    del update_W1_list
    memory_W2_final = memory_W2.unflatten(0, memory_W2_like.shape[:2])
    memory_W2_blocks = blocks.stack(memory_W2_list, memory_W2_like)
    del memory_W2_list
    update_W2_final = update_W2.unflatten(0, update_W2_like.shape[:2])
    update_W2_blocks = blocks.stack(update_W2_list, update_W2_like)
    del update_W2_list
    memory_b1_final = memory_b1.unflatten(0, memory_b1_like.shape[:2])
    memory_b1_blocks = blocks.stack(memory_b1_list, memory_b1_like)
    del memory_b1_list
    update_b1_final = update_b1.unflatten(0, update_b1_like.shape[:2])
    update_b1_blocks = blocks.stack(update_b1_list, update_b1_like)
    del update_b1_list
    memory_b2_final = memory_b2.unflatten(0, memory_b2_like.shape[:2])
    memory_b2_blocks = blocks.stack(memory_b2_list, memory_b2_like)
    del memory_b2_list
    update_b2_final = update_b2.unflatten(0, update_b2_like.shape[:2])
    update_b2_blocks = blocks.stack(update_b2_list, update_b2_like)
    del update_b2_list
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
    update_W1_total_2 = blocks.stack(kept_update_W1_total, memory_W1_like)
    del kept_update_W1_total
    update_W2_total_2 = blocks.stack(kept_update_W2_total, memory_W1_like)
    del kept_update_W2_total
    product_4 = torch.matmul(q, memory_W1_blocks)
    product_5 = torch.matmul(q, update_W1_blocks)
    # Q X^T
    scores_W1 = torch.matmul(q, k.mT)
    # (Q X^T) * P
    attention_W1 = scores_W1 * lr[..., None, :] * blocks.band(row, row, 0, None, like)
    combined_5 = blocks.add_product(product_5, attention_W1, errors_W1_2, 1)
    del attention_W1, product_5
    banded = blocks.band(row, row, 0, None, like)
    product_6 = torch.matmul(banded, errors_W1_2 * lr[..., :, None])
    del errors_W1_2
    combined_6 = update_b1_blocks[..., None, :] + product_6
    del product_6
    combined_7 = memory_b1_blocks[..., None, :] - combined_6 * row_scale[..., :, None]
    combined_8 = product_4 - combined_5 * row_scale[..., :, None] + combined_7
    del combined_7, product_4
    value_17 = torch.nn.functional.gelu(combined_8)
    product_7 = torch.matmul(value_17, memory_W2_blocks)
    product_8 = torch.matmul(value_17, update_W2_blocks)
    # Q X^T
    scores_W2 = torch.matmul(value_17, kept_value_2_all.mT)
    del kept_value_2_all, value_17
    # (Q X^T) * P
    attention_W2 = scores_W2 * lr[..., None, :] * blocks.band(row, row, 0, None, like)
    combined_9 = blocks.add_product(product_8, attention_W2, errors_W2_2, 1)
    del attention_W2, product_8
    product_9 = torch.matmul(banded, errors_W2_2 * lr[..., :, None])
    del errors_W2_2
    combined_10 = update_b2_blocks[..., None, :] + product_9
    del product_9
    combined_11 = memory_b2_blocks[..., None, :] - combined_10 * row_scale[..., :, None]
    combined_12 = product_7 - combined_9 * row_scale[..., :, None] + combined_11
    del combined_11, product_7
    combined_13 = combined_12 - (combined_12.sum(-1) * inverse_V)[..., :, None]
    del combined_12
    value_18 = (combined_13 * combined_13).sum(-1) * inverse_V
    value_19 = combined_13 * torch.pow(value_18 + 1e-06, -0.5)[..., :, None]
    combined_14 = value_19 * norm_gain[..., None, :] + norm_bias[..., None, :]
    del value_19
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = combined_14 + q
    del combined_14
    return {
        "y": reads,
        "saved_0": scores_W1,
        "saved_1": kept_value_all,
        "saved_2": kept_value_3_all,
        "saved_3": kept_value_4_all,
        "saved_4": combined_5,
        "saved_5": combined_6,
        "saved_6": combined_8,
        "saved_7": scores_W2,
        "saved_8": combined_9,
        "saved_9": combined_10,
        "saved_10": combined_13,
        "saved_11": update_W1_total_2,
        "saved_12": update_W2_total_2,
        "memory_W1": memory_W1_final,
        "update_W1": update_W1_final,
        "memory_W2": memory_W2_final,
        "update_W2": update_W2_final,
        "memory_b1": memory_b1_final,
        "update_b1": update_b1_final,
        "memory_b2": memory_b2_final,
        "update_b2": update_b2_final,
        "memory_W1_blocks": memory_W1_blocks,
        "update_W1_blocks": update_W1_blocks,
        "memory_W2_blocks": memory_W2_blocks,
        "update_W2_blocks": update_W2_blocks,
        "memory_b1_blocks": memory_b1_blocks,
        "update_b1_blocks": update_b1_blocks,
        "memory_b2_blocks": memory_b2_blocks,
        "update_b2_blocks": update_b2_blocks,
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
    row_scale,
    norm_bias,
    k,
    v,
    lr,
    update_W2,
    memory_W1,
    update_W1,
    d_update_W1_next,
    border_at_border,
    d_memory_W1_next,
    row_scale_15,
    d_update_b2_next,
    d_memory_b2_next,
    d_update_W2_next,
    d_memory_W2_next,
    d_update_b1_next,
    d_memory_b1_next,
    q,
    update_b2,
    update_b1,
    saved_10,
    saved_2,
    saved_1,
    saved_6,
    saved_3,
    saved_0,
    saved_7,
    saved_9,
    saved_8,
    saved_5,
    saved_4,
    saved_12,
    saved_11,
):
    """The loop over blocks from the last to the first, then the gradients of all rows."""
    like = d_y
    row, halo_row = blocks.positions(rows, halo, False)
    block = None  # all blocks at once
    value = d_y * norm_gain[..., None, :]
    value_2 = (saved_10 * saved_10).sum(-1) * inverse_V
    value_3 = torch.pow(value_2 + 1e-06, -0.5)
    value_4 = (value * saved_10).sum(-1) * (-0.5 * torch.pow(value_2 + 1e-06, -1.5))
    value_5 = 2.0 * saved_10 * value_4[..., :, None] * inverse_V
    combined = value * value_3[..., :, None] + value_5
    del value, value_5
    combined_2 = combined - (combined.sum(-1) * inverse_V)[..., :, None]
    del combined
    product = torch.matmul(combined_2, memory_W2.mT)
    value_6 = combined_2 * row_scale[..., :, None]
    value_7 = (saved_2 * saved_2).sum(-1) * inverse_V
    value_8 = torch.pow(value_7 + 1e-06, -0.5)
    value_9 = saved_2 * value_8[..., :, None]
    combined_3 = value_9 * norm_gain[..., None, :] + norm_bias[..., None, :]
    # pred = f(M*, phi(k))
    predictions = combined_3 + k
    del combined_3
    # E = dl/dpred at the block's M*
    errors = predictions - v
    del predictions
    value_10 = errors * norm_gain[..., None, :]
    value_11 = 2.0 * saved_2
    total = (value_10 * saved_2).sum(-1)
    value_12 = -0.5 * torch.pow(value_7 + 1e-06, -1.5)
    value_13 = total * value_12
    value_14 = value_11 * value_13[..., :, None] * inverse_V
    combined_4 = value_10 * value_8[..., :, None] + value_14
    del value_14
    # the error that reaches the output of W2
    errors_W2 = combined_4 - (combined_4.sum(-1) * inverse_V)[..., :, None]
    del combined_4
    product_2 = torch.matmul(value_6, errors_W2.mT)
    banded = product_2 * lr[..., None, :] * blocks.band(row, row, 0, None, like)
    value_15 = torch.nn.functional.gelu(saved_1)
    combined_5 = blocks.add_product(
        blocks.add_product(product, banded, value_15, -1),
        value_6,
        update_W2.mT,
        -1,
    )
    del product
    value_16 = combined_5 * blocks.gelu_slope(saved_6)
    del combined_5
    value_17 = value_16 * row_scale[..., :, None]
    value_18 = blocks.gelu_slope(saved_1)
    value_19 = blocks.where(border_at_border > 0.0, 0.0, 1.0)
    value_20 = blocks.where(border_at_border > 0.0, 1.0, 0.0)
    value_21 = value_15 * lr[..., :, None]
    value_22 = k * lr[..., :, None]
    banded_2 = blocks.band(row, row, 0, None, like)
    product_3 = torch.matmul(banded_2.mT, value_17)
    value_23 = product_3 * lr[..., :, None]
    # (Q X^T) * P
    attention_W1 = saved_0 * lr[..., None, :] * blocks.band(row, row, 0, None, like)
    product_4 = torch.matmul(attention_W1.mT, value_17)
    del attention_W1
    product_5 = torch.matmul(banded_2.mT, value_6)
    value_24 = product_5 * lr[..., :, None]
    # (Q X^T) * P
    attention_W2 = saved_7 * lr[..., None, :] * blocks.band(row, row, 0, None, like)
    product_6 = torch.matmul(attention_W2.mT, value_6)
    del attention_W2
    value_25 = 0.3989422804014327 * (2.0 - saved_1 * saved_1) * torch.exp(-0.5 * (saved_1 * saved_1))
    value_26 = 0.75 * torch.pow(value_7 + 1e-06, -2.5)
    value_27 = torch.nn.functional.gelu(saved_6)
    product_7 = torch.matmul(banded.mT, value_27)
    del banded
    product_8 = torch.matmul(q.mT, value_16)
    product_9 = torch.matmul(q.mT, value_17)
    product_10 = torch.matmul(value_27.mT, combined_2)
    product_11 = torch.matmul(value_27.mT, value_6)
    del value_27
    total_2 = value_16.sum(-2)
    total_3 = value_17.sum(-2)
    total_4 = combined_2.sum(-2)
    total_5 = value_6.sum(-2)
    del value_6
    d_memory_W1_next_like = d_memory_W1_next
    d_memory_W1_next = d_memory_W1_next.flatten(0, 1)
    d_memory_W1_next_list = []
    d_update_W1_next_like = d_update_W1_next
    d_update_W1_next = d_update_W1_next.flatten(0, 1)
    d_update_W1_next_list = []
    d_memory_W2_next_like = d_memory_W2_next
    d_memory_W2_next = d_memory_W2_next.flatten(0, 1)
    d_memory_W2_next_list = []
    d_update_W2_next_like = d_update_W2_next
    d_update_W2_next = d_update_W2_next.flatten(0, 1)
    d_update_W2_next_list = []
    d_memory_b1_next_like = d_memory_b1_next
    d_memory_b1_next = d_memory_b1_next.flatten(0, 1)
    d_memory_b1_next_list = []
    d_update_b1_next_like = d_update_b1_next
    d_update_b1_next = d_update_b1_next.flatten(0, 1)
    d_update_b1_next_list = []
    d_memory_b2_next_like = d_memory_b2_next
    d_memory_b2_next = d_memory_b2_next.flatten(0, 1)
    d_memory_b2_next_list = []
    d_update_b2_next_like = d_update_b2_next
    d_update_b2_next = d_update_b2_next.flatten(0, 1)
    d_update_b2_next_list = []
    kept_value = []
    kept_d_errors = []
    kept_value_2 = []
    kept_value_3 = []
    norm_gain_each = blocks.each(norm_gain, count, d_memory_W1_next_like)
    memory_W2_each = blocks.each(memory_W2, count, d_memory_W1_next_like)
    saved_2_each = blocks.each(saved_2, count, d_memory_W1_next_like)
    value_8_each = blocks.each(value_8, count, d_memory_W1_next_like)
    del value_8
    k_each = blocks.each(k, count, d_memory_W1_next_like)
    value_10_each = blocks.each(value_10, count, d_memory_W1_next_like)
    del value_10
    value_11_each = blocks.each(value_11, count, d_memory_W1_next_like)
    del value_11
    total_each = blocks.each(total, count, d_memory_W1_next_like)
    del total
    value_12_each = blocks.each(value_12, count, d_memory_W1_next_like)
    del value_12
    value_13_each = blocks.each(value_13, count, d_memory_W1_next_like)
    del value_13
    errors_W2_each = blocks.each(errors_W2, count, d_memory_W1_next_like)
    lr_each = blocks.each(lr, count, d_memory_W1_next_like)
    value_15_each = blocks.each(value_15, count, d_memory_W1_next_like)
    saved_3_each = blocks.each(saved_3, count, d_memory_W1_next_like)
    value_18_each = blocks.each(value_18, count, d_memory_W1_next_like)
    value_19_each = blocks.each(value_19, count, d_memory_W1_next_like)
    value_20_each = blocks.each(value_20, count, d_memory_W1_next_like)
    row_scale_15_each = blocks.each(row_scale_15, count, d_memory_W1_next_like)
    value_21_each = blocks.each(value_21, count, d_memory_W1_next_like)
    del value_21
    value_22_each = blocks.each(value_22, count, d_memory_W1_next_like)
    del value_22
    value_23_each = blocks.each(value_23, count, d_memory_W1_next_like)
    del value_23
    product_4_each = blocks.each(product_4, count, d_memory_W1_next_like)
    del product_4
    value_24_each = blocks.each(value_24, count, d_memory_W1_next_like)
    del value_24
    product_6_each = blocks.each(product_6, count, d_memory_W1_next_like)
    del product_6
    value_25_each = blocks.each(value_25, count, d_memory_W1_next_like)
    del value_25
    value_26_each = blocks.each(value_26, count, d_memory_W1_next_like)
    del value_26
    product_7_each = blocks.each(product_7, count, d_memory_W1_next_like)
    del product_7
    product_8_each = blocks.each(product_8, count, d_memory_W1_next_like)
    del product_8
    product_9_each = blocks.each(product_9, count, d_memory_W1_next_like)
    del product_9
    product_10_each = blocks.each(product_10, count, d_memory_W1_next_like)
    del product_10
    product_11_each = blocks.each(product_11, count, d_memory_W1_next_like)
    del product_11
    total_2_each = blocks.each(total_2, count, d_memory_W1_next_like)
    del total_2
    total_3_each = blocks.each(total_3, count, d_memory_W1_next_like)
    del total_3
    total_4_each = blocks.each(total_4, count, d_memory_W1_next_like)
    del total_4
    total_5_each = blocks.each(total_5, count, d_memory_W1_next_like)
    del total_5
    for block in reversed(range(count)):
        d_memory_W1_next_list.append(d_memory_W1_next)
        d_update_W1_next_list.append(d_update_W1_next)
        d_memory_W2_next_list.append(d_memory_W2_next)
        d_update_W2_next_list.append(d_update_W2_next)
        d_memory_b1_next_list.append(d_memory_b1_next)
        d_update_b1_next_list.append(d_update_b1_next)
        d_memory_b2_next_list.append(d_memory_b2_next)
        d_update_b2_next_list.append(d_update_b2_next)
        d_memory_W1_next_2 = d_memory_W1_next * value_20_each[block][..., None, None]
        value_28 = d_memory_W1_next_2 * row_scale_15_each[block][..., None, None]
        d_update_W1_total = d_update_W1_next * value_19_each[block][..., None, None] - value_28
        d_memory_b2_next_2 = d_memory_b2_next * value_20_each[block][..., None]
        value_29 = d_memory_b2_next_2 * row_scale_15_each[block][..., None]
        d_update_b2_total = d_update_b2_next * value_19_each[block][..., None] - value_29
        value_30 = d_update_b2_total[..., None, :] * lr_each[block][..., :, None]
        d_memory_W2_next_2 = d_memory_W2_next * value_20_each[block][..., None, None]
        value_31 = d_memory_W2_next_2 * row_scale_15_each[block][..., None, None]
        d_update_W2_total = d_update_W2_next * value_19_each[block][..., None, None] - value_31
        d_memory_b1_next_2 = d_memory_b1_next * value_20_each[block][..., None]
        value_32 = d_memory_b1_next_2 * row_scale_15_each[block][..., None]
        d_update_b1_total = d_update_b1_next * value_19_each[block][..., None] - value_32
        value_33 = d_update_b1_total[..., None, :] * lr_each[block][..., :, None]
        d_errors_W1 = torch.baddbmm(
            value_33 - value_23_each[block] - product_4_each[block],
            value_22_each[block],
            d_update_W1_total,
        )
        value_34 = d_errors_W1 * value_18_each[block]
        d_errors_W2 = torch.baddbmm(
            torch.baddbmm(
                value_30 - value_24_each[block] - product_6_each[block],
                value_21_each[block],
                d_update_W2_total,
            ),
            value_34,
            memory_W2_each[block],
        )
        combined_6 = d_errors_W2 - (d_errors_W2.sum(-1) * inverse_V)[..., :, None]
        value_35 = combined_6 * inverse_V
        total_6 = (value_35 * value_11_each[block]).sum(-1)
        value_36 = total_6 * value_12_each[block]
        value_37 = combined_6 * value_8_each[block][..., :, None]
        combined_7 = saved_2_each[block] * value_36[..., :, None] + value_37
        d_errors = combined_7 * norm_gain_each[block][..., None, :]
        product_12 = torch.matmul(errors_W2_each[block], d_update_W2_total.mT)
        value_38 = d_errors * norm_gain_each[block][..., None, :]
        total_7 = (combined_6 * value_10_each[block]).sum(-1)
        value_39 = (total_7 + (value_38 * saved_2_each[block]).sum(-1)) * value_12_each[block]
        combined_8 = total_6 * total_each[block] * value_26_each[block] + value_39
        value_40 = value_11_each[block] * combined_8[..., :, None] * inverse_V
        value_41 = 2.0 * (value_35 * value_13_each[block][..., :, None])
        value_42 = value_10_each[block] * value_36[..., :, None]
        combined_9 = value_42 + value_41 + value_38 * value_8_each[block][..., :, None] + value_40
        combined_10 = combined_9 - (combined_9.sum(-1) * inverse_V)[..., :, None]
        value_43 = product_12 * lr_each[block][..., :, None]
        combined_11 = torch.baddbmm(value_43 - product_7_each[block], combined_10, memory_W2_each[block].mT)
        value_44 = d_errors_W1 * saved_3_each[block] * value_25_each[block]
        combined_12 = value_44 + combined_11 * value_18_each[block]
        value_45 = d_memory_W1_next * value_19_each[block][..., None, None]
        combined_13 = torch.baddbmm(
            value_45 + d_memory_W1_next_2 + product_8_each[block],
            k_each[block].mT,
            combined_12,
        )
        combined_14 = d_update_W1_total - product_9_each[block]
        value_46 = d_memory_W2_next * value_19_each[block][..., None, None]
        combined_15 = torch.baddbmm(
            torch.baddbmm(
                value_46 + d_memory_W2_next_2 + product_10_each[block],
                value_34.mT,
                errors_W2_each[block],
            ),
            value_15_each[block].mT,
            combined_10,
        )
        combined_16 = d_update_W2_total - product_11_each[block]
        value_47 = d_memory_b1_next * value_19_each[block][..., None]
        combined_17 = value_47 + d_memory_b1_next_2 + total_2_each[block] + combined_12.sum(-2)
        combined_18 = d_update_b1_total - total_3_each[block]
        value_48 = d_memory_b2_next * value_19_each[block][..., None]
        combined_19 = value_48 + d_memory_b2_next_2 + total_4_each[block] + combined_10.sum(-2)
        combined_20 = d_update_b2_total - total_5_each[block]
        kept_value.append(combined_7)
        kept_d_errors.append(d_errors)
        kept_value_2.append(product_12)
        kept_value_3.append(combined_12)
        (
            d_memory_W1_next,
            d_update_W1_next,
            d_memory_W2_next,
            d_update_W2_next,
            d_memory_b1_next,
            d_update_b1_next,
            d_memory_b2_next,
            d_update_b2_next,
        ) = (
            combined_13,
            combined_14,
            combined_15,
            combined_16,
            combined_17,
            combined_18,
            combined_19,
            combined_20,
        )
    del errors_W2_each, k_each, lr_each, memory_W2_each, norm_gain_each, product_10_each
    del product_11_each, product_4_each, product_6_each, product_7_each, product_8_each
    del product_9_each, row_scale_15_each, saved_2_each, saved_3_each, total_2_each
    del total_3_each, total_4_each, total_5_each, total_each, value_10_each, value_11_each
    del value_12_each, value_13_each, value_15_each, value_18_each, value_19_each
    del value_20_each, value_21_each, value_22_each, value_23_each, value_24_each
    del value_25_each, value_26_each, value_8_each
    block = None
    d_memory_W1_next_final = d_memory_W1_next.unflatten(0, d_memory_W1_next_like.shape[:2])
    d_memory_W1_next_blocks = blocks.stack(d_memory_W1_next_list[::-1], d_memory_W1_next_like)
    del d_memory_W1_next_list
    d_update_W1_next_final = d_update_W1_next.unflatten(0, d_update_W1_next_like.shape[:2])
    d_update_W1_next_blocks = blocks.stack(d_update_W1_next_list[::-1], d_update_W1_next_like)
    del d_update_W1_next_list
    d_memory_W2_next_final = d_memory_W2_next.unflatten(0, d_memory_W2_next_like.shape[:2])
    d_memory_W2_next_blocks = blocks.stack(d_memory_W2_next_list[::-1], d_memory_W2_next_like)
    del d_memory_W2_next_list
    d_update_W2_next_final = d_update_W2_next.unflatten(0, d_update_W2_next_like.shape[:2])
    d_update_W2_next_blocks = blocks.stack(d_update_W2_next_list[::-1], d_update_W2_next_like)
    del d_update_W2_next_list
    d_memory_b1_next_final = d_memory_b1_next.unflatten(0, d_memory_b1_next_like.shape[:2])
    d_memory_b1_next_blocks = blocks.stack(d_memory_b1_next_list[::-1], d_memory_b1_next_like)
    del d_memory_b1_next_list
    d_update_b1_next_final = d_update_b1_next.unflatten(0, d_update_b1_next_like.shape[:2])
    d_update_b1_next_blocks = blocks.stack(d_update_b1_next_list[::-1], d_update_b1_next_like)
    del d_update_b1_next_list
    d_memory_b2_next_final = d_memory_b2_next.unflatten(0, d_memory_b2_next_like.shape[:2])
    d_memory_b2_next_blocks = blocks.stack(d_memory_b2_next_list[::-1], d_memory_b2_next_like)
    del d_memory_b2_next_list
    d_update_b2_next_final = d_update_b2_next.unflatten(0, d_update_b2_next_like.shape[:2])
    d_update_b2_next_blocks = blocks.stack(d_update_b2_next_list[::-1], d_update_b2_next_like)
    del d_update_b2_next_list
    kept_value_all = blocks.stack(kept_value[::-1], d_memory_W1_next_like)
    del kept_value
    d_errors_2 = blocks.stack(kept_d_errors[::-1], d_memory_W1_next_like)
    del kept_d_errors
    kept_value_2_all = blocks.stack(kept_value_2[::-1], d_memory_W1_next_like)
    del kept_value_2
    kept_value_3_all = blocks.stack(kept_value_3[::-1], d_memory_W1_next_like)
    del kept_value_3
    product_13 = torch.matmul(value_16, memory_W1.mT)
    # the error that reaches the output of W1
    errors_W1 = saved_3 * value_18
    del value_18
    product_14 = torch.matmul(value_17, errors_W1.mT)
    banded_3 = product_14 * lr[..., None, :] * blocks.band(row, row, 0, None, like)
    rename = d_y
    combined_21 = blocks.add_product(
        blocks.add_product(rename + product_13, banded_3, k, -1),
        value_17,
        update_W1.mT,
        -1,
    )
    del product_13, rename, value_17
    d_memory_W1_next_3 = d_memory_W1_next_blocks * value_20[..., None, None]
    value_49 = d_update_W1_next_blocks * value_19[..., None, None]
    d_update_W1_total_2 = value_49 - d_memory_W1_next_3 * row_scale_15[..., None, None]
    del value_49
    product_15 = torch.matmul(errors_W1, d_update_W1_total_2.mT)
    del d_update_W1_total_2
    value_50 = product_15 * lr[..., :, None]
    rename_2 = d_errors_2
    combined_22 = blocks.add_product(
        blocks.add_product(value_50 + rename_2, kept_value_3_all, memory_W1.mT, 1),
        banded_3.mT,
        q,
        -1,
    )
    del banded_3, kept_value_3_all, rename_2, value_50
    d_memory_b2_next_3 = d_memory_b2_next_blocks * value_20[..., None]
    value_51 = d_update_b2_next_blocks * value_19[..., None]
    d_update_b2_total_2 = value_51 - d_memory_b2_next_3 * row_scale_15[..., None]
    product_16 = (d_update_b2_total_2[..., None, :] * errors_W2).sum(-1)
    d_memory_b1_next_3 = d_memory_b1_next_blocks * value_20[..., None]
    value_52 = d_update_b1_next_blocks * value_19[..., None]
    del value_19
    d_update_b1_total_2 = value_52 - d_memory_b1_next_3 * row_scale_15[..., None]
    product_17 = (d_update_b1_total_2[..., None, :] * errors_W1).sum(-1)
    total_8 = (product_2 * saved_7 * blocks.band(row, row, 0, None, like)).sum(-2)
    del product_2
    banded_4 = product_14 * saved_0 * blocks.band(row, row, 0, None, like)
    del product_14
    total_9 = (kept_value_2_all * value_15).sum(-1)
    del kept_value_2_all, value_15
    total_10 = (product_5 * errors_W2).sum(-1)
    del product_5
    total_11 = (product_3 * errors_W1).sum(-1)
    del product_3
    total_12 = (product_15 * k).sum(-1)
    del product_15
    total_13 = banded_4.sum(-2)
    del banded_4
    d_last_weights = product_16 + product_17 + total_9 + total_12 - total_10 - total_8 - total_11 - total_13
    total_14 = (d_y * (saved_10 * value_3[..., :, None])).sum(-2)
    total_15 = (kept_value_all * errors).sum(-2)
    del errors, kept_value_all
    combined_23 = total_14 + total_15 + (d_errors_2 * value_9).sum(-2)
    del value_9
    combined_24 = d_y.sum(-2) + d_errors_2.sum(-2)
    value_53 = -d_errors_2
    del d_errors_2
    total_16 = (combined_2 * saved_9).sum(-1)
    total_17 = (combined_2 * saved_8).sum(-1)
    del combined_2
    total_18 = (value_16 * saved_5).sum(-1)
    combined_25 = -total_16 - total_17 - total_18 - (value_16 * saved_4).sum(-1)
    del value_16
    product_18 = (lr[..., :, None] * errors_W2).sum(-2)
    del errors_W2
    # A: the block's update so far
    update_b2_total = update_b2 + product_18
    product_19 = (lr[..., :, None] * errors_W1).sum(-2)
    del errors_W1
    # A: the block's update so far
    update_b1_total = update_b1 + product_19
    d_memory_W2_next_3 = d_memory_W2_next_blocks * value_20[..., None, None]
    del value_20
    total_19 = (d_memory_W2_next_3 * saved_12).sum(-2).sum(-1)
    del d_memory_W2_next_3
    total_20 = (d_memory_W1_next_3 * saved_11).sum(-2).sum(-1)
    del d_memory_W1_next_3
    total_21 = (d_memory_b2_next_3 * update_b2_total).sum(-1)
    total_22 = (d_memory_b1_next_3 * update_b1_total).sum(-1)
    combined_26 = -total_21 - total_22 - total_19 - total_20
    return {
        "part_0": combined_21,
        "part_1": combined_22,
        "part_2": d_last_weights,
        "part_3": combined_23,
        "part_4": combined_24,
        "part_5": value_53,
        "part_6": combined_25,
        "part_7": combined_26,
        "d_memory_W1": d_memory_W1_next_final,
        "d_update_W1": d_update_W1_next_final,
        "d_memory_W2": d_memory_W2_next_final,
        "d_update_W2": d_update_W2_next_final,
        "d_memory_b1": d_memory_b1_next_final,
        "d_update_b1": d_update_b1_next_final,
        "d_memory_b2": d_memory_b2_next_final,
        "d_update_b2": d_update_b2_next_final,
        "d_memory_W1_blocks": d_memory_W1_next_blocks,
        "d_update_W1_blocks": d_update_W1_next_blocks,
        "d_memory_W2_blocks": d_memory_W2_next_blocks,
        "d_update_W2_blocks": d_update_W2_next_blocks,
        "d_memory_b1_blocks": d_memory_b1_next_blocks,
        "d_update_b1_blocks": d_update_b1_next_blocks,
        "d_memory_b2_blocks": d_memory_b2_next_blocks,
        "d_update_b2_blocks": d_update_b2_next_blocks,
    }

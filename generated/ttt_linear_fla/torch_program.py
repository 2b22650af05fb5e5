"""The memory rule ttt_linear_fla as a torch program: `forward` and `backward` of all blocks.

Arrays are [B, H, N, ...] over N blocks; `blocks` is atlasgen.runtime.blocks.
Rule 981a48b536fe, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
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
    update,
    k,
    live,
    memory_b,
    inverse_V,
    norm_gain,
    norm_bias,
    v,
    row_scale,
    update_b,
    border,
    border_at_border,
):
    """The loop over blocks, then the reads of all blocks."""
    like = q
    row, halo_row = blocks.positions(rows, halo, False)
    block = None  # all blocks at once
    combined = v - k
    value = k * live[..., :, None]
    total = (row_scale * border).sum(-1)
    memory_like = memory
    memory = memory.flatten(0, 1)
    memory_list = []
    update_like = update
    update = update.flatten(0, 1)
    update_list = []
    memory_b_like = memory_b
    memory_b = memory_b.flatten(0, 1)
    memory_b_list = []
    update_b_like = update_b
    update_b = update_b.flatten(0, 1)
    update_b_list = []
    kept_value = []
    kept_value_2 = []
    kept_update_total = []
    k_each = blocks.each(k, count, memory_like)
    live_each = blocks.each(live, count, memory_like)
    norm_gain_each = blocks.each(norm_gain, count, memory_like)
    norm_bias_each = blocks.each(norm_bias, count, memory_like)
    combined_each = blocks.each(combined, count, memory_like)
    del combined
    value_each = blocks.each(value, count, memory_like)
    del value
    total_each = blocks.each(total, count, memory_like)
    del total
    border_at_border_each = blocks.each(border_at_border, count, memory_like)
    for block in range(count):
        memory_list.append(memory)
        update_list.append(update)
        memory_b_list.append(memory_b)
        update_b_list.append(update_b)
        combined_2 = torch.baddbmm(memory_b[..., None, :], k_each[block], memory)
        combined_3 = combined_2 - (combined_2.sum(-1) * inverse_V)[..., :, None]
        value_2 = (combined_3 * combined_3).sum(-1) * inverse_V
        value_3 = torch.pow(value_2 + 1e-06, -0.5)
        value_4 = combined_3 * value_3[..., :, None] * norm_gain_each[block][..., None, :]
        # pred = phi(k) M*
        predictions = value_4 + norm_bias_each[block][..., None, :]
        # E = dl/dpred at the block's M*
        errors = predictions - combined_each[block]
        value_5 = errors * norm_gain_each[block][..., None, :]
        value_6 = (value_5 * combined_3).sum(-1) * (-0.5 * torch.pow(value_2 + 1e-06, -1.5))
        value_7 = 2.0 * combined_3 * value_6[..., :, None] * inverse_V
        combined_4 = value_5 * value_3[..., :, None] + value_7
        combined_5 = combined_4 - (combined_4.sum(-1) * inverse_V)[..., :, None]
        # A: the block's update so far
        update_total = torch.baddbmm(update, value_each[block].mT, combined_5)
        # M at the end
        memory_next = memory - update_total * total_each[block][..., None, None]
        value_8 = blocks.where(border_at_border_each[block][..., None, None] > 0.0, memory_next, memory)
        value_9 = blocks.where(border_at_border_each[block][..., None, None] > 0.0, 0.0, update_total)
        product = (live_each[block][..., :, None] * combined_5).sum(-2)
        # A: the block's update so far
        update_b_total = update_b + product
        # M at the end
        memory_b_next = memory_b - update_b_total * total_each[block][..., None]
        value_10 = blocks.where(border_at_border_each[block][..., None] > 0.0, memory_b_next, memory_b)
        value_11 = blocks.where(border_at_border_each[block][..., None] > 0.0, 0.0, update_b_total)
        kept_value.append(combined_3)
        kept_value_2.append(combined_5)
        kept_update_total.append(update_total)
        memory, update, memory_b, update_b = (value_8, value_9, value_10, value_11)
    del border_at_border_each, combined_each, k_each, live_each, norm_bias_each
    del norm_gain_each, total_each, value_each
    block = None
    memory_final = memory.unflatten(0, memory_like.shape[:2])
    memory_blocks = blocks.stack(memory_list, memory_like)
    del memory_list
    update_final = update.unflatten(0, update_like.shape[:2])
    update_blocks = blocks.stack(update_list, update_like)
    del update_list
    memory_b_final = memory_b.unflatten(0, memory_b_like.shape[:2])
    memory_b_blocks = blocks.stack(memory_b_list, memory_b_like)
    del memory_b_list
    update_b_final = update_b.unflatten(0, update_b_like.shape[:2])
    update_b_blocks = blocks.stack(update_b_list, update_b_like)
    del update_b_list
    kept_value_all = blocks.stack(kept_value, memory_like)
    del kept_value
    kept_value_2_all = blocks.stack(kept_value_2, memory_like)
    del kept_value_2
    update_total_2 = blocks.stack(kept_update_total, memory_like)
    del kept_update_total
    product_2 = torch.matmul(q, memory_blocks)
    product_3 = torch.matmul(q, update_blocks)
    # Q X^T
    scores = torch.matmul(q, k.mT)
    # (Q X^T) * P
    attention = scores * live[..., None, :] * blocks.band(row, row, 0, None, like)
    del scores
    combined_6 = blocks.add_product(product_3, attention, kept_value_2_all, 1)
    del product_3
    value_12 = kept_value_2_all * live[..., :, None]
    del kept_value_2_all
    product_4 = torch.matmul(blocks.band(row, row, 0, None, like), value_12)
    del value_12
    combined_7 = update_b_blocks[..., None, :] + product_4
    del product_4
    combined_8 = memory_b_blocks[..., None, :] - combined_7 * row_scale[..., :, None]
    combined_9 = product_2 - combined_6 * row_scale[..., :, None] + combined_8
    del combined_8, product_2
    combined_10 = combined_9 - (combined_9.sum(-1) * inverse_V)[..., :, None]
    value_13 = (combined_10 * combined_10).sum(-1) * inverse_V
    value_14 = combined_10 * torch.pow(value_13 + 1e-06, -0.5)[..., :, None]
    combined_11 = value_14 * norm_gain[..., None, :] + norm_bias[..., None, :]
    del value_14
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = combined_9 + combined_11
    del combined_11, combined_9
    return {
        "y": reads,
        "saved_0": attention,
        "saved_1": kept_value_all,
        "saved_2": combined_6,
        "saved_3": combined_7,
        "saved_4": combined_10,
        "saved_5": update_total_2,
        "memory": memory_final,
        "update": update_final,
        "memory_b": memory_b_final,
        "update_b": update_b_final,
        "memory_blocks": memory_blocks,
        "update_blocks": update_blocks,
        "memory_b_blocks": memory_b_blocks,
        "update_b_blocks": update_b_blocks,
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
    memory,
    row_scale,
    norm_bias,
    v,
    k,
    live,
    update,
    d_update_next,
    border_at_border,
    d_memory_next,
    border,
    d_update_b_next,
    d_memory_b_next,
    q,
    update_b,
    saved_4,
    saved_1,
    saved_0,
    saved_3,
    saved_2,
    saved_5,
):
    """The loop over blocks from the last to the first, then the gradients of all rows."""
    like = d_y
    row, halo_row = blocks.positions(rows, halo, False)
    block = None  # all blocks at once
    value = d_y * norm_gain[..., None, :]
    value_2 = (saved_4 * saved_4).sum(-1) * inverse_V
    value_3 = torch.pow(value_2 + 1e-06, -0.5)
    value_4 = (value * saved_4).sum(-1) * (-0.5 * torch.pow(value_2 + 1e-06, -1.5))
    value_5 = 2.0 * saved_4 * value_4[..., :, None] * inverse_V
    combined = value * value_3[..., :, None] + value_5
    del value, value_5
    combined_2 = d_y + combined - (combined.sum(-1) * inverse_V)[..., :, None]
    del combined
    value_6 = combined_2 * row_scale[..., :, None]
    value_7 = (saved_1 * saved_1).sum(-1) * inverse_V
    value_8 = torch.pow(value_7 + 1e-06, -0.5)
    value_9 = saved_1 * value_8[..., :, None]
    # pred = phi(k) M*
    predictions = value_9 * norm_gain[..., None, :] + norm_bias[..., None, :]
    # E = dl/dpred at the block's M*
    errors = predictions - (v - k)
    del predictions
    value_10 = errors * norm_gain[..., None, :]
    value_11 = 2.0 * saved_1
    total = (value_10 * saved_1).sum(-1)
    value_12 = -0.5 * torch.pow(value_7 + 1e-06, -1.5)
    value_13 = total * value_12
    value_14 = blocks.where(border_at_border > 0.0, 0.0, 1.0)
    value_15 = blocks.where(border_at_border > 0.0, 1.0, 0.0)
    total_2 = (row_scale * border).sum(-1)
    value_16 = k * live[..., :, None]
    product = torch.matmul(blocks.band(row, row, 0, None, like).mT, value_6)
    value_17 = product * live[..., :, None]
    del product
    product_2 = torch.matmul(saved_0.mT, value_6)
    value_18 = 0.75 * torch.pow(value_7 + 1e-06, -2.5)
    product_3 = torch.matmul(q.mT, combined_2)
    product_4 = torch.matmul(q.mT, value_6)
    total_3 = combined_2.sum(-2)
    total_4 = value_6.sum(-2)
    d_memory_next_like = d_memory_next
    d_memory_next = d_memory_next.flatten(0, 1)
    d_memory_next_list = []
    d_update_next_like = d_update_next
    d_update_next = d_update_next.flatten(0, 1)
    d_update_next_list = []
    d_memory_b_next_like = d_memory_b_next
    d_memory_b_next = d_memory_b_next.flatten(0, 1)
    d_memory_b_next_list = []
    d_update_b_next_like = d_update_b_next
    d_update_b_next = d_update_b_next.flatten(0, 1)
    d_update_b_next_list = []
    kept_value = []
    kept_d_errors = []
    kept_value_2 = []
    norm_gain_each = blocks.each(norm_gain, count, d_memory_next_like)
    saved_1_each = blocks.each(saved_1, count, d_memory_next_like)
    value_8_each = blocks.each(value_8, count, d_memory_next_like)
    k_each = blocks.each(k, count, d_memory_next_like)
    value_10_each = blocks.each(value_10, count, d_memory_next_like)
    value_11_each = blocks.each(value_11, count, d_memory_next_like)
    total_each = blocks.each(total, count, d_memory_next_like)
    del total
    value_12_each = blocks.each(value_12, count, d_memory_next_like)
    del value_12
    value_13_each = blocks.each(value_13, count, d_memory_next_like)
    live_each = blocks.each(live, count, d_memory_next_like)
    value_14_each = blocks.each(value_14, count, d_memory_next_like)
    value_15_each = blocks.each(value_15, count, d_memory_next_like)
    total_2_each = blocks.each(total_2, count, d_memory_next_like)
    value_16_each = blocks.each(value_16, count, d_memory_next_like)
    del value_16
    value_17_each = blocks.each(value_17, count, d_memory_next_like)
    del value_17
    product_2_each = blocks.each(product_2, count, d_memory_next_like)
    del product_2
    value_18_each = blocks.each(value_18, count, d_memory_next_like)
    del value_18
    product_3_each = blocks.each(product_3, count, d_memory_next_like)
    del product_3
    product_4_each = blocks.each(product_4, count, d_memory_next_like)
    del product_4
    total_3_each = blocks.each(total_3, count, d_memory_next_like)
    del total_3
    total_4_each = blocks.each(total_4, count, d_memory_next_like)
    del total_4
    for block in reversed(range(count)):
        d_memory_next_list.append(d_memory_next)
        d_update_next_list.append(d_update_next)
        d_memory_b_next_list.append(d_memory_b_next)
        d_update_b_next_list.append(d_update_b_next)
        d_memory_next_2 = d_memory_next * value_15_each[block][..., None, None]
        value_19 = d_memory_next_2 * total_2_each[block][..., None, None]
        d_update_total = d_update_next * value_14_each[block][..., None, None] - value_19
        d_memory_b_next_2 = d_memory_b_next * value_15_each[block][..., None]
        value_20 = d_memory_b_next_2 * total_2_each[block][..., None]
        d_update_b_total = d_update_b_next * value_14_each[block][..., None] - value_20
        value_21 = d_update_b_total[..., None, :] * live_each[block][..., :, None]
        combined_3 = torch.baddbmm(
            value_21 - value_17_each[block] - product_2_each[block],
            value_16_each[block],
            d_update_total,
        )
        combined_4 = combined_3 - (combined_3.sum(-1) * inverse_V)[..., :, None]
        value_22 = combined_4 * inverse_V
        total_5 = (value_22 * value_11_each[block]).sum(-1)
        value_23 = total_5 * value_12_each[block]
        value_24 = combined_4 * value_8_each[block][..., :, None]
        combined_5 = saved_1_each[block] * value_23[..., :, None] + value_24
        d_errors = combined_5 * norm_gain_each[block][..., None, :]
        value_25 = d_errors * norm_gain_each[block][..., None, :]
        total_6 = (combined_4 * value_10_each[block]).sum(-1)
        value_26 = (total_6 + (value_25 * saved_1_each[block]).sum(-1)) * value_12_each[block]
        combined_6 = total_5 * total_each[block] * value_18_each[block] + value_26
        value_27 = value_11_each[block] * combined_6[..., :, None] * inverse_V
        value_28 = 2.0 * (value_22 * value_13_each[block][..., :, None])
        value_29 = value_10_each[block] * value_23[..., :, None]
        combined_7 = value_29 + value_28 + value_25 * value_8_each[block][..., :, None] + value_27
        combined_8 = combined_7 - (combined_7.sum(-1) * inverse_V)[..., :, None]
        value_30 = d_memory_next * value_14_each[block][..., None, None]
        combined_9 = torch.baddbmm(
            value_30 + d_memory_next_2 + product_3_each[block],
            k_each[block].mT,
            combined_8,
        )
        combined_10 = d_update_total - product_4_each[block]
        value_31 = d_memory_b_next * value_14_each[block][..., None]
        combined_11 = value_31 + d_memory_b_next_2 + total_3_each[block] + combined_8.sum(-2)
        combined_12 = d_update_b_total - total_4_each[block]
        kept_value.append(combined_5)
        kept_d_errors.append(d_errors)
        kept_value_2.append(combined_8)
        d_memory_next, d_update_next, d_memory_b_next, d_update_b_next = (
            combined_9,
            combined_10,
            combined_11,
            combined_12,
        )
    del k_each, live_each, norm_gain_each, product_2_each, product_3_each, product_4_each
    del saved_1_each, total_2_each, total_3_each, total_4_each, total_each, value_10_each
    del value_11_each, value_12_each, value_13_each, value_14_each, value_15_each
    del value_16_each, value_17_each, value_18_each, value_8_each
    block = None
    d_memory_next_final = d_memory_next.unflatten(0, d_memory_next_like.shape[:2])
    d_memory_next_blocks = blocks.stack(d_memory_next_list[::-1], d_memory_next_like)
    del d_memory_next_list
    d_update_next_final = d_update_next.unflatten(0, d_update_next_like.shape[:2])
    d_update_next_blocks = blocks.stack(d_update_next_list[::-1], d_update_next_like)
    del d_update_next_list
    d_memory_b_next_final = d_memory_b_next.unflatten(0, d_memory_b_next_like.shape[:2])
    d_memory_b_next_blocks = blocks.stack(d_memory_b_next_list[::-1], d_memory_b_next_like)
    del d_memory_b_next_list
    d_update_b_next_final = d_update_b_next.unflatten(0, d_update_b_next_like.shape[:2])
    d_update_b_next_blocks = blocks.stack(d_update_b_next_list[::-1], d_update_b_next_like)
    del d_update_b_next_list
    kept_value_all = blocks.stack(kept_value[::-1], d_memory_next_like)
    del kept_value
    d_errors_2 = blocks.stack(kept_d_errors[::-1], d_memory_next_like)
    del kept_d_errors
    kept_value_2_all = blocks.stack(kept_value_2[::-1], d_memory_next_like)
    del kept_value_2
    product_5 = torch.matmul(combined_2, memory.mT)
    value_32 = value_11 * value_13[..., :, None] * inverse_V
    del value_11, value_13
    combined_13 = value_10 * value_8[..., :, None] + value_32
    del value_10, value_32, value_8
    combined_14 = combined_13 - (combined_13.sum(-1) * inverse_V)[..., :, None]
    del combined_13
    product_6 = torch.matmul(value_6, combined_14.mT)
    banded = product_6 * live[..., None, :] * blocks.band(row, row, 0, None, like)
    del product_6
    combined_15 = blocks.add_product(blocks.add_product(product_5, banded, k, -1), value_6, update.mT, -1)
    del product_5, value_6
    d_memory_next_3 = d_memory_next_blocks * value_15[..., None, None]
    value_33 = d_update_next_blocks * value_14[..., None, None]
    del value_14
    d_update_total_2 = value_33 - d_memory_next_3 * total_2[..., None, None]
    del total_2, value_33
    product_7 = torch.matmul(combined_14, d_update_total_2.mT)
    del d_update_total_2
    value_34 = product_7 * live[..., :, None]
    del product_7
    rename = d_errors_2
    combined_16 = blocks.add_product(
        blocks.add_product(value_34 + rename, kept_value_2_all, memory.mT, 1),
        banded.mT,
        q,
        -1,
    )
    del banded, kept_value_2_all, rename, value_34
    total_7 = (d_y * (saved_4 * value_3[..., :, None])).sum(-2)
    combined_17 = total_7 + (kept_value_all * errors).sum(-2) + (d_errors_2 * value_9).sum(-2)
    del errors, kept_value_all, value_9
    combined_18 = d_y.sum(-2) + d_errors_2.sum(-2)
    value_35 = -d_errors_2
    del d_errors_2
    combined_19 = -(combined_2 * saved_3).sum(-1) - (combined_2 * saved_2).sum(-1)
    del combined_2
    d_memory_b_next_3 = d_memory_b_next_blocks * value_15[..., None]
    del value_15
    product_8 = (live[..., :, None] * combined_14).sum(-2)
    del combined_14
    # A: the block's update so far
    update_b_total = update_b + product_8
    total_8 = (d_memory_next_3 * saved_5).sum(-2).sum(-1)
    del d_memory_next_3
    value_36 = border * (-(d_memory_b_next_3 * update_b_total).sum(-1) - total_8)[..., None]
    return {
        "part_0": combined_15,
        "part_1": combined_16,
        "part_2": combined_17,
        "part_3": combined_18,
        "part_4": value_35,
        "part_5": combined_19,
        "part_6": value_36,
        "d_memory": d_memory_next_final,
        "d_update": d_update_next_final,
        "d_memory_b": d_memory_b_next_final,
        "d_update_b": d_update_b_next_final,
        "d_memory_blocks": d_memory_next_blocks,
        "d_update_blocks": d_update_next_blocks,
        "d_memory_b_blocks": d_memory_b_next_blocks,
        "d_update_b_blocks": d_update_b_next_blocks,
    }

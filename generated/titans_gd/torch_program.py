"""The memory rule titans_gd as a torch program: `forward` and `backward` of all blocks.

Arrays are [B, H, N, ...] over N blocks; `blocks` is atlasgen.runtime.blocks.
Rule 2e19ffbb5612, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
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
    v,
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
    kept_errors = []
    kept_value_3 = []
    kept_errors_W1 = []
    origin_W1_each = blocks.each(origin_W1, count, memory_W1_like)
    k_each = blocks.each(k, count, memory_W1_like)
    anchor_W1_each = blocks.each(anchor_W1, count, memory_W1_like)
    anchor_W2_each = blocks.each(anchor_W2, count, memory_W1_like)
    rename_each = blocks.each(rename, count, memory_W1_like)
    del rename
    v_each = blocks.each(v, count, memory_W1_like)
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
        # pred = f(M*, phi(k))
        predictions = torch.baddbmm(rename_each[block], value_2, anchor_point_W2)
        # E = dl/dpred at the block's M*
        errors = predictions - v_each[block]
        product_2 = torch.matmul(errors, anchor_point_W2.mT)
        # the error that reaches the output of W1
        errors_W1 = product_2 * blocks.gelu_slope(product)
        combined_2 = memory_W2 - origin_W2_each[block]
        value_3 = combined * kept_each[block][..., None, None]
        # M at the end
        memory_W1_next = torch.baddbmm(
            value_3 + origin_W1_each[block],
            value_each[block].mT,
            errors_W1,
            alpha=-1,
        )
        value_4 = value_2 * last_weights_each[block][..., :, None]
        value_5 = combined_2 * kept_each[block][..., None, None]
        # M at the end
        memory_W2_next = torch.baddbmm(value_5 + origin_W2_each[block], value_4.mT, errors, alpha=-1)
        kept_value.append(product)
        kept_value_2.append(value_2)
        kept_errors.append(errors)
        kept_value_3.append(product_2)
        kept_errors_W1.append(errors_W1)
        memory_W1, memory_W2 = (memory_W1_next, memory_W2_next)
    del anchor_W1_each, anchor_W2_each, k_each, kept_each, last_weights_each, origin_W1_each
    del origin_W2_each, rename_each, v_each, value_each
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
    combined_3 = memory_W1_blocks - origin_W1
    product_3 = torch.matmul(q, combined_3)
    del combined_3
    # a: decay of the memory since the block's start
    read_decay = blocks.decay_from_start(log_alpha_sums, False)
    product_4 = torch.matmul(q, origin_W1)
    # Q X^T
    scores_W1 = torch.matmul(q, k.mT)
    decay = blocks.decay(log_alpha_sums, False)
    # (Q X^T) * P
    attention_W1 = scores_W1 * decay * lr[..., None, :]
    value_6 = product_3 * read_decay[..., :, None]
    combined_4 = blocks.add_product(value_6 + product_4, attention_W1, errors_W1_2, -1)
    del attention_W1, errors_W1_2, product_4, value_6
    value_7 = torch.nn.functional.gelu(combined_4)
    combined_5 = memory_W2_blocks - origin_W2
    product_5 = torch.matmul(value_7, combined_5)
    del combined_5
    product_6 = torch.matmul(value_7, origin_W2)
    # Q X^T
    scores_W2 = torch.matmul(value_7, kept_value_2_all.mT)
    del kept_value_2_all, value_7
    # (Q X^T) * P
    attention_W2 = scores_W2 * decay * lr[..., None, :]
    value_8 = product_5 * read_decay[..., :, None]
    combined_6 = blocks.add_product(value_8 + product_6, attention_W2, errors_2, -1)
    del attention_W2, product_6, value_8
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
        "saved_0": product_3,
        "saved_1": scores_W1,
        "saved_2": decay,
        "saved_3": kept_value_all,
        "saved_4": errors_2,
        "saved_5": kept_value_3_all,
        "saved_6": combined_4,
        "saved_7": product_5,
        "saved_8": scores_W2,
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
    origin_W2,
    log_alpha,
    memory_W2,
    lr,
    origin_W1,
    memory_W1,
    k,
    d_memory_W1_next,
    anchor_W2,
    d_memory_W2_next,
    anchor_W1,
    q,
    d_anchor_W1,
    d_anchor_W2,
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
    product = torch.matmul(d_y, origin_W2.mT)
    log_alpha_sums = blocks.running(log_alpha)
    # a: decay of the memory since the block's start
    read_decay = blocks.decay_from_start(log_alpha_sums, False)
    value = d_y * read_decay[..., :, None]
    combined = memory_W2 - origin_W2
    product_2 = torch.matmul(d_y, saved_4.mT)
    value_2 = product_2 * lr[..., None, :]
    value_3 = value_2 * saved_2
    value_4 = torch.nn.functional.gelu(saved_3)
    combined_2 = blocks.add_product(blocks.add_product(product, value, combined.mT, 1), value_3, value_4, -1)
    del product
    value_5 = combined_2 * blocks.gelu_slope(saved_6)
    del combined_2
    value_6 = value_5 * read_decay[..., :, None]
    value_7 = blocks.gelu_slope(saved_3)
    until_end = blocks.decay_to_end(log_alpha_sums)
    # p_C: last row of P
    last_weights = until_end * lr
    value_8 = k * last_weights[..., :, None]
    value_9 = saved_1 * saved_2
    # (Q X^T) * P
    attention_W1 = value_9 * lr[..., None, :]
    product_3 = torch.matmul(attention_W1.mT, value_5)
    del attention_W1
    # M*: the memory at the last border
    anchor_point_W2 = blocks.at_start(anchor_W2, memory_W2, resumed, block)
    value_10 = value_4 * last_weights[..., :, None]
    value_11 = saved_8 * saved_2
    # (Q X^T) * P
    attention_W2 = value_11 * lr[..., None, :]
    product_4 = torch.matmul(attention_W2.mT, d_y)
    del attention_W2
    value_12 = 0.3989422804014327 * (2.0 - saved_3 * saved_3) * torch.exp(-0.5 * (saved_3 * saved_3))
    value_13 = torch.nn.functional.gelu(saved_6)
    product_5 = torch.matmul(value_3.mT, value_13)
    del value_3
    # a_C: decay of the memory over the block
    kept = blocks.decay_whole(log_alpha_sums)
    product_6 = torch.matmul(q.mT, value_6)
    product_7 = torch.matmul(value_13.mT, value)
    del value
    product_8 = torch.matmul(q.mT, value_5)
    product_9 = torch.matmul(value_13.mT, d_y)
    del value_13
    d_memory_W1_next_like = d_memory_W1_next
    d_memory_W1_next = d_memory_W1_next.flatten(0, 1)
    d_memory_W1_next_list = []
    d_memory_W2_next_like = d_memory_W2_next
    d_memory_W2_next = d_memory_W2_next.flatten(0, 1)
    d_memory_W2_next_list = []
    kept_d_errors = []
    kept_value = []
    kept_value_2 = []
    sum_0 = 0.0
    sum_1 = 0.0
    sum_2 = 0.0
    sum_3 = 0.0
    saved_4_each = blocks.each(saved_4, count, d_memory_W1_next_like)
    value_4_each = blocks.each(value_4, count, d_memory_W1_next_like)
    saved_5_each = blocks.each(saved_5, count, d_memory_W1_next_like)
    value_7_each = blocks.each(value_7, count, d_memory_W1_next_like)
    k_each = blocks.each(k, count, d_memory_W1_next_like)
    last_weights_each = blocks.each(last_weights, count, d_memory_W1_next_like)
    value_8_each = blocks.each(value_8, count, d_memory_W1_next_like)
    del value_8
    product_3_each = blocks.each(product_3, count, d_memory_W1_next_like)
    del product_3
    anchor_point_W2_each = blocks.each(anchor_point_W2, count, d_memory_W1_next_like)
    del anchor_point_W2
    value_10_each = blocks.each(value_10, count, d_memory_W1_next_like)
    del value_10
    product_4_each = blocks.each(product_4, count, d_memory_W1_next_like)
    del product_4
    value_12_each = blocks.each(value_12, count, d_memory_W1_next_like)
    del value_12
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
            value_8_each[block],
            d_memory_W1_next,
            beta=-1,
            alpha=-1,
        )
        value_14 = d_errors_W1 * value_7_each[block]
        d_errors = torch.baddbmm(
            torch.baddbmm(product_4_each[block], value_14, anchor_point_W2_each[block], beta=-1),
            value_10_each[block],
            d_memory_W2_next,
            alpha=-1,
        )
        product_10 = torch.matmul(saved_4_each[block], d_memory_W2_next.mT)
        value_15 = product_10 * last_weights_each[block][..., :, None]
        combined_3 = torch.baddbmm(
            -value_15 - product_5_each[block],
            d_errors,
            anchor_point_W2_each[block].mT,
        )
        value_16 = d_errors_W1 * saved_5_each[block] * value_12_each[block]
        combined_4 = value_16 + combined_3 * value_7_each[block]
        d_anchor_point_W1 = torch.baddbmm(d_anchor_W1_each[block], k_each[block].mT, combined_4)
        combined_5 = d_memory_W1_next * kept_each[block][..., None, None] + product_6_each[block]
        combined_6 = blocks.when_start(d_anchor_point_W1, False, resumed, block) + combined_5
        combined_7 = d_memory_W2_next * kept_each[block][..., None, None] + product_7_each[block]
        d_anchor_point_W2 = torch.baddbmm(
            torch.baddbmm(d_anchor_W2_each[block], value_14.mT, saved_4_each[block]),
            value_4_each[block].mT,
            d_errors,
        )
        combined_8 = combined_7 + blocks.when_start(d_anchor_point_W2, False, resumed, block)
        combined_9 = d_memory_W1_next + product_8_each[block] - combined_5
        at_border = blocks.when_start(d_anchor_point_W1, True, resumed, block)
        at_border_2 = blocks.when_start(d_anchor_point_W2, True, resumed, block)
        combined_10 = d_memory_W2_next + product_9_each[block] - combined_7
        kept_d_errors.append(d_errors)
        kept_value.append(product_10)
        kept_value_2.append(combined_4)
        sum_0 = sum_0 + combined_9
        sum_1 = sum_1 + at_border
        sum_2 = sum_2 + at_border_2
        sum_3 = sum_3 + combined_10
        d_memory_W1_next, d_memory_W2_next = (combined_6, combined_8)
    del anchor_point_W2_each, d_anchor_W1_each, d_anchor_W2_each, k_each, kept_each
    del last_weights_each, product_3_each, product_4_each, product_5_each, product_6_each
    del product_7_each, product_8_each, product_9_each, saved_4_each, saved_5_each
    del value_10_each, value_12_each, value_4_each, value_7_each, value_8_each
    block = None
    d_memory_W1_next_final = d_memory_W1_next.unflatten(0, d_memory_W1_next_like.shape[:2])
    d_memory_W1_next_blocks = blocks.stack(d_memory_W1_next_list[::-1], d_memory_W1_next_like)
    del d_memory_W1_next_list
    d_memory_W2_next_final = d_memory_W2_next.unflatten(0, d_memory_W2_next_like.shape[:2])
    d_memory_W2_next_blocks = blocks.stack(d_memory_W2_next_list[::-1], d_memory_W2_next_like)
    del d_memory_W2_next_list
    d_errors_2 = blocks.stack(kept_d_errors[::-1], d_memory_W1_next_like)
    del kept_d_errors
    kept_value_all = blocks.stack(kept_value[::-1], d_memory_W1_next_like)
    del kept_value
    kept_value_2_all = blocks.stack(kept_value_2[::-1], d_memory_W1_next_like)
    del kept_value_2
    product_11 = torch.matmul(value_5, origin_W1.mT)
    combined_11 = memory_W1 - origin_W1
    # the error that reaches the output of W1
    errors_W1 = saved_5 * value_7
    del value_7
    product_12 = torch.matmul(value_5, errors_W1.mT)
    value_17 = product_12 * lr[..., None, :]
    value_18 = value_17 * saved_2
    rename = d_y
    combined_12 = blocks.add_product(
        blocks.add_product(rename + product_11, value_6, combined_11.mT, 1),
        value_18,
        k,
        -1,
    )
    del product_11, rename, value_6
    d_read_decay = (d_y * saved_7).sum(-1) + (value_5 * saved_0).sum(-1)
    del value_5
    running = blocks.cumsum(d_read_decay * read_decay, -1, True, False)
    # M*: the memory at the last border
    anchor_point_W1 = blocks.at_start(anchor_W1, memory_W1, resumed, block)
    product_13 = torch.matmul(errors_W1, d_memory_W1_next_blocks.mT)
    del errors_W1
    value_19 = product_13 * last_weights[..., :, None]
    del last_weights
    rename_2 = d_errors_2
    combined_13 = blocks.add_product(
        blocks.add_product(rename_2 - value_19, kept_value_2_all, anchor_point_W1.mT, 1),
        value_18.mT,
        q,
        -1,
    )
    del anchor_point_W1, kept_value_2_all, rename_2, value_18, value_19
    d_last_weights = -(kept_value_all * value_4).sum(-1) - (product_13 * k).sum(-1)
    del kept_value_all, product_13, value_4
    running_2 = blocks.cumsum(d_last_weights * lr * until_end, -1, False, True)
    value_20 = (-(value_2 * saved_8) - value_17 * saved_1) * saved_2
    del value_17, value_2
    banded = value_20 * blocks.band(row, row, 1, None, like)
    del value_20
    banded_2 = blocks.cumsum(banded, -1, False, True) * blocks.band(row, row, 0, None, like)
    del banded
    combined_14 = running_2 + banded_2.sum(-2)
    del banded_2
    total = (product_2 * value_11).sum(-2)
    del product_2, value_11
    combined_15 = d_last_weights * until_end - total - (product_12 * value_9).sum(-2)
    del product_12, value_9
    value_21 = -d_errors_2
    del d_errors_2
    total_2 = (d_memory_W1_next_blocks * combined_11).sum(-2).sum(-1)
    del combined_11
    d_kept = (d_memory_W2_next_blocks * combined).sum(-2).sum(-1) + total_2
    del combined
    value_22 = d_kept * kept
    del kept
    return {
        "part_0": combined_12,
        "part_1": running,
        "part_2": combined_13,
        "part_3": combined_14,
        "part_4": combined_15,
        "part_5": value_21,
        "part_6": value_22,
        "sum_0": sum_0,
        "sum_1": sum_1,
        "sum_2": sum_2,
        "sum_3": sum_3,
        "d_memory_W1": d_memory_W1_next_final,
        "d_memory_W2": d_memory_W2_next_final,
        "d_memory_W1_blocks": d_memory_W1_next_blocks,
        "d_memory_W2_blocks": d_memory_W2_next_blocks,
    }

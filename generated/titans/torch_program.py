"""The memory rule titans as a torch program: `forward` and `backward` of all blocks.

Arrays are [B, H, N, ...] over N blocks; `blocks` is atlasgen.runtime.blocks.
Rule afa3bd554f8c, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
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
    momentum_W1,
    live,
    log_theta,
    k,
    lr,
    anchor_W1,
    anchor_W2,
    memory_W2,
    v,
    origin_W2,
    momentum_W2,
):
    """The loop over blocks, then the reads of all blocks."""
    block = None  # all blocks at once
    log_theta_sums = blocks.running(log_theta)
    since_start = blocks.decay_from_start(log_theta_sums, False)
    decay = blocks.decay(log_theta_sums, False)
    rename = k
    log_alpha_sums = blocks.running(log_alpha)
    # a_C: decay of the memory over the block
    kept = blocks.decay_whole(log_alpha_sums)
    value = blocks.decay_to_end(log_alpha_sums) * live
    # b_C: weight of the block's initial momentum
    momentum_written = (value * since_start).sum(-1)
    product = (value[..., :, None] * decay).sum(-2)
    # p_C: last row of P
    last_weights = product * lr
    value_2 = k * last_weights[..., :, None]
    # decay of S over the block
    momentum_kept = blocks.decay_whole(log_theta_sums)
    # B_C: last row of D(theta) Gamma
    momentum_weights = blocks.decay_to_end(log_theta_sums) * lr
    value_3 = k * momentum_weights[..., :, None]
    memory_W1_like = memory_W1
    memory_W1 = memory_W1.flatten(0, 1)
    memory_W1_list = []
    memory_W2_like = memory_W2
    memory_W2 = memory_W2.flatten(0, 1)
    memory_W2_list = []
    momentum_W1_like = momentum_W1
    momentum_W1 = momentum_W1.flatten(0, 1)
    momentum_W1_list = []
    momentum_W2_like = momentum_W2
    momentum_W2 = momentum_W2.flatten(0, 1)
    momentum_W2_list = []
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
    momentum_written_each = blocks.each(momentum_written, count, memory_W1_like)
    del momentum_written
    last_weights_each = blocks.each(last_weights, count, memory_W1_like)
    del last_weights
    value_2_each = blocks.each(value_2, count, memory_W1_like)
    del value_2
    momentum_kept_each = blocks.each(momentum_kept, count, memory_W1_like)
    del momentum_kept
    momentum_weights_each = blocks.each(momentum_weights, count, memory_W1_like)
    del momentum_weights
    value_3_each = blocks.each(value_3, count, memory_W1_like)
    del value_3
    for block in range(count):
        memory_W1_list.append(memory_W1)
        memory_W2_list.append(memory_W2)
        momentum_W1_list.append(momentum_W1)
        momentum_W2_list.append(momentum_W2)
        combined = memory_W1 - origin_W1_each[block]
        # M*: the memory at the last border
        anchor_point_W1 = blocks.at_start(anchor_W1_each[block], memory_W1, resumed, block)
        product_2 = torch.matmul(k_each[block], anchor_point_W1)
        value_4 = torch.nn.functional.gelu(product_2)
        # M*: the memory at the last border
        anchor_point_W2 = blocks.at_start(anchor_W2_each[block], memory_W2, resumed, block)
        # pred = f(M*, phi(k))
        predictions = torch.baddbmm(rename_each[block], value_4, anchor_point_W2)
        # E = dl/dpred at the block's M*
        errors = predictions - v_each[block]
        product_3 = torch.matmul(errors, anchor_point_W2.mT)
        # the error that reaches the output of W1
        errors_W1 = product_3 * blocks.gelu_slope(product_2)
        combined_2 = memory_W2 - origin_W2_each[block]
        value_5 = momentum_W1 * momentum_written_each[block][..., None, None]
        value_6 = combined * kept_each[block][..., None, None]
        # M at the end
        memory_W1_next = torch.baddbmm(
            value_6 + origin_W1_each[block] - value_5,
            value_2_each[block].mT,
            errors_W1,
            alpha=-1,
        )
        value_7 = momentum_W2 * momentum_written_each[block][..., None, None]
        value_8 = value_4 * last_weights_each[block][..., :, None]
        value_9 = combined_2 * kept_each[block][..., None, None]
        # M at the end
        memory_W2_next = torch.baddbmm(
            value_9 + origin_W2_each[block] - value_7,
            value_8.mT,
            errors,
            alpha=-1,
        )
        value_10 = momentum_W1 * momentum_kept_each[block][..., None, None]
        # S at the end of the block
        momentum_next_W1 = torch.baddbmm(value_10, value_3_each[block].mT, errors_W1)
        value_11 = momentum_W2 * momentum_kept_each[block][..., None, None]
        value_12 = value_4 * momentum_weights_each[block][..., :, None]
        # S at the end of the block
        momentum_next_W2 = torch.baddbmm(value_11, value_12.mT, errors)
        kept_value.append(product_2)
        kept_value_2.append(value_4)
        kept_errors.append(errors)
        kept_value_3.append(product_3)
        kept_errors_W1.append(errors_W1)
        memory_W1, memory_W2, momentum_W1, momentum_W2 = (
            memory_W1_next,
            memory_W2_next,
            momentum_next_W1,
            momentum_next_W2,
        )
    del anchor_W1_each, anchor_W2_each, k_each, kept_each, last_weights_each
    del momentum_kept_each, momentum_weights_each, momentum_written_each, origin_W1_each
    del origin_W2_each, rename_each, v_each, value_2_each, value_3_each
    block = None
    memory_W1_final = memory_W1.unflatten(0, memory_W1_like.shape[:2])
    memory_W1_blocks = blocks.stack(memory_W1_list, memory_W1_like)
    del memory_W1_list
    memory_W2_final = memory_W2.unflatten(0, memory_W2_like.shape[:2])
    memory_W2_blocks = blocks.stack(memory_W2_list, memory_W2_like)
    del memory_W2_list
    momentum_W1_final = momentum_W1.unflatten(0, momentum_W1_like.shape[:2])
    momentum_W1_blocks = blocks.stack(momentum_W1_list, momentum_W1_like)
    del momentum_W1_list
    momentum_W2_final = momentum_W2.unflatten(0, momentum_W2_like.shape[:2])
    momentum_W2_blocks = blocks.stack(momentum_W2_list, momentum_W2_like)
    del momentum_W2_list
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
    product_4 = torch.matmul(q, combined_3)
    del combined_3
    # a: decay of the memory since the block's start
    read_decay = blocks.decay_from_start(log_alpha_sums, False)
    product_5 = torch.matmul(q, origin_W1)
    product_6 = torch.matmul(q, momentum_W1_blocks)
    decay_2 = blocks.decay(log_alpha_sums, False)
    value_13 = decay_2 * live[..., None, :]
    # b: weight of S in each read
    momentum_read = (value_13 * since_start[..., None, :]).sum(-1)
    # Q X^T
    scores_W1 = torch.matmul(q, k.mT)
    product_7 = torch.matmul(value_13, decay)
    del value_13
    # (Q X^T) * P
    attention_W1 = scores_W1 * product_7 * lr[..., None, :]
    value_14 = product_6 * momentum_read[..., :, None]
    value_15 = product_4 * read_decay[..., :, None]
    combined_4 = blocks.add_product(value_15 + product_5 - value_14, attention_W1, errors_W1_2, -1)
    del attention_W1, errors_W1_2, product_5, value_14, value_15
    value_16 = torch.nn.functional.gelu(combined_4)
    combined_5 = memory_W2_blocks - origin_W2
    product_8 = torch.matmul(value_16, combined_5)
    del combined_5
    product_9 = torch.matmul(value_16, origin_W2)
    product_10 = torch.matmul(value_16, momentum_W2_blocks)
    # Q X^T
    scores_W2 = torch.matmul(value_16, kept_value_2_all.mT)
    del kept_value_2_all, value_16
    # (Q X^T) * P
    attention_W2 = scores_W2 * product_7 * lr[..., None, :]
    value_17 = product_10 * momentum_read[..., :, None]
    value_18 = product_8 * read_decay[..., :, None]
    combined_6 = blocks.add_product(value_18 + product_9 - value_17, attention_W2, errors_2, -1)
    del attention_W2, product_9, value_17, value_18
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
        "saved_0": product_4,
        "saved_1": product_6,
        "saved_2": decay_2,
        "saved_3": scores_W1,
        "saved_4": decay,
        "saved_5": product_7,
        "saved_6": kept_value_all,
        "saved_7": errors_2,
        "saved_8": kept_value_3_all,
        "saved_9": combined_4,
        "saved_10": product_8,
        "saved_11": product_10,
        "saved_12": scores_W2,
        "memory_W1": memory_W1_final,
        "memory_W2": memory_W2_final,
        "momentum_W1": momentum_W1_final,
        "momentum_W2": momentum_W2_final,
        "memory_W1_blocks": memory_W1_blocks,
        "memory_W2_blocks": memory_W2_blocks,
        "momentum_W1_blocks": momentum_W1_blocks,
        "momentum_W2_blocks": momentum_W2_blocks,
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
    live,
    log_theta,
    momentum_W2,
    origin_W1,
    memory_W1,
    k,
    momentum_W1,
    d_memory_W2_next,
    d_memory_W1_next,
    d_momentum_W1_next,
    d_momentum_W2_next,
    anchor_W2,
    anchor_W1,
    q,
    d_anchor_W1,
    d_anchor_W2,
    saved_7,
    saved_5,
    saved_6,
    saved_2,
    saved_9,
    saved_8,
    saved_10,
    saved_0,
    saved_4,
    saved_12,
    saved_3,
    saved_11,
    saved_1,
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
    product_2 = torch.matmul(d_y, saved_7.mT)
    value_2 = product_2 * lr[..., None, :]
    value_3 = value_2 * saved_5
    value_4 = torch.nn.functional.gelu(saved_6)
    value_5 = saved_2 * live[..., None, :]
    log_theta_sums = blocks.running(log_theta)
    since_start = blocks.decay_from_start(log_theta_sums, False)
    # b: weight of S in each read
    momentum_read = (value_5 * since_start[..., None, :]).sum(-1)
    value_6 = d_y * momentum_read[..., :, None]
    combined_2 = blocks.add_product(
        blocks.add_product(blocks.add_product(product, value, combined.mT, 1), value_3, value_4, -1),
        value_6,
        momentum_W2.mT,
        -1,
    )
    del product
    value_7 = combined_2 * blocks.gelu_slope(saved_9)
    del combined_2
    value_8 = value_7 * read_decay[..., :, None]
    value_9 = blocks.gelu_slope(saved_6)
    value_10 = value_7 * momentum_read[..., :, None]
    until_end = blocks.decay_to_end(log_alpha_sums)
    # a_C: decay of the memory over the block
    kept = blocks.decay_whole(log_alpha_sums)
    value_11 = until_end * live
    until_end_2 = blocks.decay_to_end(log_theta_sums)
    # B_C: last row of D(theta) Gamma
    momentum_weights = until_end_2 * lr
    value_12 = value_4 * momentum_weights[..., :, None]
    value_13 = k * momentum_weights[..., :, None]
    product_3 = (value_11[..., :, None] * saved_4).sum(-2)
    # p_C: last row of P
    last_weights = product_3 * lr
    value_14 = k * last_weights[..., :, None]
    value_15 = saved_3 * saved_5
    # (Q X^T) * P
    attention_W1 = value_15 * lr[..., None, :]
    product_4 = torch.matmul(attention_W1.mT, value_7)
    del attention_W1
    # M*: the memory at the last border
    anchor_point_W2 = blocks.at_start(anchor_W2, memory_W2, resumed, block)
    value_16 = value_4 * last_weights[..., :, None]
    value_17 = saved_12 * saved_5
    # (Q X^T) * P
    attention_W2 = value_17 * lr[..., None, :]
    product_5 = torch.matmul(attention_W2.mT, d_y)
    del attention_W2
    value_18 = 0.3989422804014327 * (2.0 - saved_6 * saved_6) * torch.exp(-0.5 * (saved_6 * saved_6))
    value_19 = torch.nn.functional.gelu(saved_9)
    product_6 = torch.matmul(value_3.mT, value_19)
    del value_3
    # decay of S over the block
    momentum_kept = blocks.decay_whole(log_theta_sums)
    product_7 = torch.matmul(q.mT, value_8)
    product_8 = torch.matmul(value_19.mT, value)
    del value
    # b_C: weight of the block's initial momentum
    momentum_written = (value_11 * since_start).sum(-1)
    product_9 = torch.matmul(q.mT, value_10)
    product_10 = torch.matmul(value_19.mT, value_6)
    del value_6
    product_11 = torch.matmul(q.mT, value_7)
    product_12 = torch.matmul(value_19.mT, d_y)
    del value_19
    d_memory_W1_next_like = d_memory_W1_next
    d_memory_W1_next = d_memory_W1_next.flatten(0, 1)
    d_memory_W1_next_list = []
    d_memory_W2_next_like = d_memory_W2_next
    d_memory_W2_next = d_memory_W2_next.flatten(0, 1)
    d_memory_W2_next_list = []
    d_momentum_W1_next_like = d_momentum_W1_next
    d_momentum_W1_next = d_momentum_W1_next.flatten(0, 1)
    d_momentum_W1_next_list = []
    d_momentum_W2_next_like = d_momentum_W2_next
    d_momentum_W2_next = d_momentum_W2_next.flatten(0, 1)
    d_momentum_W2_next_list = []
    kept_value = []
    kept_d_errors = []
    kept_value_2 = []
    kept_value_3 = []
    sum_0 = 0.0
    sum_1 = 0.0
    sum_2 = 0.0
    sum_3 = 0.0
    saved_7_each = blocks.each(saved_7, count, d_memory_W1_next_like)
    value_4_each = blocks.each(value_4, count, d_memory_W1_next_like)
    saved_8_each = blocks.each(saved_8, count, d_memory_W1_next_like)
    value_9_each = blocks.each(value_9, count, d_memory_W1_next_like)
    k_each = blocks.each(k, count, d_memory_W1_next_like)
    kept_each = blocks.each(kept, count, d_memory_W1_next_like)
    momentum_weights_each = blocks.each(momentum_weights, count, d_memory_W1_next_like)
    value_12_each = blocks.each(value_12, count, d_memory_W1_next_like)
    del value_12
    value_13_each = blocks.each(value_13, count, d_memory_W1_next_like)
    del value_13
    last_weights_each = blocks.each(last_weights, count, d_memory_W1_next_like)
    value_14_each = blocks.each(value_14, count, d_memory_W1_next_like)
    del value_14
    product_4_each = blocks.each(product_4, count, d_memory_W1_next_like)
    del product_4
    anchor_point_W2_each = blocks.each(anchor_point_W2, count, d_memory_W1_next_like)
    del anchor_point_W2
    value_16_each = blocks.each(value_16, count, d_memory_W1_next_like)
    del value_16
    product_5_each = blocks.each(product_5, count, d_memory_W1_next_like)
    del product_5
    value_18_each = blocks.each(value_18, count, d_memory_W1_next_like)
    del value_18
    product_6_each = blocks.each(product_6, count, d_memory_W1_next_like)
    del product_6
    momentum_kept_each = blocks.each(momentum_kept, count, d_memory_W1_next_like)
    d_anchor_W1_each = blocks.each(d_anchor_W1, count, d_memory_W1_next_like)
    product_7_each = blocks.each(product_7, count, d_memory_W1_next_like)
    del product_7
    product_8_each = blocks.each(product_8, count, d_memory_W1_next_like)
    del product_8
    d_anchor_W2_each = blocks.each(d_anchor_W2, count, d_memory_W1_next_like)
    momentum_written_each = blocks.each(momentum_written, count, d_memory_W1_next_like)
    del momentum_written
    product_9_each = blocks.each(product_9, count, d_memory_W1_next_like)
    del product_9
    product_10_each = blocks.each(product_10, count, d_memory_W1_next_like)
    del product_10
    product_11_each = blocks.each(product_11, count, d_memory_W1_next_like)
    del product_11
    product_12_each = blocks.each(product_12, count, d_memory_W1_next_like)
    del product_12
    for block in reversed(range(count)):
        d_memory_W1_next_list.append(d_memory_W1_next)
        d_memory_W2_next_list.append(d_memory_W2_next)
        d_momentum_W1_next_list.append(d_momentum_W1_next)
        d_momentum_W2_next_list.append(d_momentum_W2_next)
        product_13 = torch.matmul(saved_7_each[block], d_memory_W2_next.mT)
        d_errors_W1 = torch.baddbmm(
            torch.baddbmm(product_4_each[block], value_13_each[block], d_momentum_W1_next, beta=-1),
            value_14_each[block],
            d_memory_W1_next,
            alpha=-1,
        )
        value_20 = d_errors_W1 * value_9_each[block]
        d_errors = torch.baddbmm(
            torch.baddbmm(
                torch.baddbmm(product_5_each[block], value_12_each[block], d_momentum_W2_next, beta=-1),
                value_20,
                anchor_point_W2_each[block],
            ),
            value_16_each[block],
            d_memory_W2_next,
            alpha=-1,
        )
        product_14 = torch.matmul(saved_7_each[block], d_momentum_W2_next.mT)
        value_21 = product_14 * momentum_weights_each[block][..., :, None]
        value_22 = product_13 * last_weights_each[block][..., :, None]
        combined_3 = torch.baddbmm(
            value_21 - value_22 - product_6_each[block],
            d_errors,
            anchor_point_W2_each[block].mT,
        )
        value_23 = d_errors_W1 * saved_8_each[block] * value_18_each[block]
        combined_4 = value_23 + combined_3 * value_9_each[block]
        d_anchor_point_W1 = torch.baddbmm(d_anchor_W1_each[block], k_each[block].mT, combined_4)
        combined_5 = d_memory_W1_next * kept_each[block][..., None, None] + product_7_each[block]
        combined_6 = blocks.when_start(d_anchor_point_W1, False, resumed, block) + combined_5
        combined_7 = d_memory_W2_next * kept_each[block][..., None, None] + product_8_each[block]
        d_anchor_point_W2 = torch.baddbmm(
            torch.baddbmm(d_anchor_W2_each[block], value_20.mT, saved_7_each[block]),
            value_4_each[block].mT,
            d_errors,
        )
        combined_8 = combined_7 + blocks.when_start(d_anchor_point_W2, False, resumed, block)
        value_24 = d_momentum_W1_next * momentum_kept_each[block][..., None, None]
        value_25 = d_memory_W1_next * momentum_written_each[block][..., None, None]
        combined_9 = value_24 - value_25 - product_9_each[block]
        value_26 = d_momentum_W2_next * momentum_kept_each[block][..., None, None]
        value_27 = d_memory_W2_next * momentum_written_each[block][..., None, None]
        combined_10 = value_26 - value_27 - product_10_each[block]
        combined_11 = d_memory_W1_next + product_11_each[block] - combined_5
        at_border = blocks.when_start(d_anchor_point_W1, True, resumed, block)
        at_border_2 = blocks.when_start(d_anchor_point_W2, True, resumed, block)
        combined_12 = d_memory_W2_next + product_12_each[block] - combined_7
        kept_value.append(product_13)
        kept_d_errors.append(d_errors)
        kept_value_2.append(product_14)
        kept_value_3.append(combined_4)
        sum_0 = sum_0 + combined_11
        sum_1 = sum_1 + at_border
        sum_2 = sum_2 + at_border_2
        sum_3 = sum_3 + combined_12
        d_memory_W1_next, d_memory_W2_next, d_momentum_W1_next, d_momentum_W2_next = (
            combined_6,
            combined_8,
            combined_9,
            combined_10,
        )
    del anchor_point_W2_each, d_anchor_W1_each, d_anchor_W2_each, k_each, kept_each
    del last_weights_each, momentum_kept_each, momentum_weights_each, momentum_written_each
    del product_10_each, product_11_each, product_12_each, product_4_each, product_5_each
    del product_6_each, product_7_each, product_8_each, product_9_each, saved_7_each
    del saved_8_each, value_12_each, value_13_each, value_14_each, value_16_each
    del value_18_each, value_4_each, value_9_each
    block = None
    d_memory_W1_next_final = d_memory_W1_next.unflatten(0, d_memory_W1_next_like.shape[:2])
    d_memory_W1_next_blocks = blocks.stack(d_memory_W1_next_list[::-1], d_memory_W1_next_like)
    del d_memory_W1_next_list
    d_memory_W2_next_final = d_memory_W2_next.unflatten(0, d_memory_W2_next_like.shape[:2])
    d_memory_W2_next_blocks = blocks.stack(d_memory_W2_next_list[::-1], d_memory_W2_next_like)
    del d_memory_W2_next_list
    d_momentum_W1_next_final = d_momentum_W1_next.unflatten(0, d_momentum_W1_next_like.shape[:2])
    d_momentum_W1_next_blocks = blocks.stack(d_momentum_W1_next_list[::-1], d_momentum_W1_next_like)
    del d_momentum_W1_next_list
    d_momentum_W2_next_final = d_momentum_W2_next.unflatten(0, d_momentum_W2_next_like.shape[:2])
    d_momentum_W2_next_blocks = blocks.stack(d_momentum_W2_next_list[::-1], d_momentum_W2_next_like)
    del d_momentum_W2_next_list
    kept_value_all = blocks.stack(kept_value[::-1], d_memory_W1_next_like)
    del kept_value
    d_errors_2 = blocks.stack(kept_d_errors[::-1], d_memory_W1_next_like)
    del kept_d_errors
    kept_value_2_all = blocks.stack(kept_value_2[::-1], d_memory_W1_next_like)
    del kept_value_2
    kept_value_3_all = blocks.stack(kept_value_3[::-1], d_memory_W1_next_like)
    del kept_value_3
    product_15 = torch.matmul(value_7, origin_W1.mT)
    combined_13 = memory_W1 - origin_W1
    # the error that reaches the output of W1
    errors_W1 = saved_8 * value_9
    del value_9
    product_16 = torch.matmul(value_7, errors_W1.mT)
    value_28 = product_16 * lr[..., None, :]
    value_29 = value_28 * saved_5
    rename = d_y
    combined_14 = blocks.add_product(
        blocks.add_product(
            blocks.add_product(rename + product_15, value_8, combined_13.mT, 1),
            value_29,
            k,
            -1,
        ),
        value_10,
        momentum_W1.mT,
        -1,
    )
    del product_15, rename, value_10, value_8
    d_read_decay = (d_y * saved_10).sum(-1) + (value_7 * saved_0).sum(-1)
    running = blocks.cumsum(d_read_decay * read_decay, -1, True, False)
    product_17 = torch.matmul(errors_W1, d_memory_W1_next_blocks.mT)
    d_last_weights = -(kept_value_all * value_4).sum(-1) - (product_17 * k).sum(-1)
    del kept_value_all
    value_30 = d_last_weights * lr
    product_18 = (value_30[..., None, :] * saved_4).sum(-1)
    total = (d_memory_W2_next_blocks * momentum_W2).sum(-2).sum(-1)
    d_momentum_written = -total - (d_memory_W1_next_blocks * momentum_W1).sum(-2).sum(-1)
    value_31 = (product_18 + since_start * d_momentum_written[..., None]) * live
    total_2 = (d_memory_W1_next_blocks * combined_13).sum(-2).sum(-1)
    del combined_13
    d_kept = (d_memory_W2_next_blocks * combined).sum(-2).sum(-1) + total_2
    del combined
    combined_15 = -(value_2 * saved_12) - value_28 * saved_3
    del value_2, value_28
    d_momentum_read = -(d_y * saved_11).sum(-1) - (value_7 * saved_1).sum(-1)
    del value_7
    value_32 = d_momentum_read[..., :, None] * since_start[..., None, :]
    value_33 = blocks.add_product(value_32, combined_15, saved_4.mT, 1) * saved_2
    del value_32
    banded = value_33 * live[..., None, :] * blocks.band(row, row, 1, None, like)
    del value_33
    banded_2 = blocks.cumsum(banded, -1, False, True) * blocks.band(row, row, 0, None, like)
    del banded
    running_2 = blocks.cumsum(value_31 * until_end, -1, False, True)
    combined_16 = running_2 + (d_kept * kept)[..., None] + banded_2.sum(-2)
    del banded_2, kept
    product_19 = (d_momentum_read[..., :, None] * value_5).sum(-2)
    value_34 = (value_11 * d_momentum_written[..., None] + product_19) * since_start
    running_3 = blocks.cumsum(value_34, -1, True, False)
    product_20 = torch.matmul(errors_W1, d_momentum_W1_next_blocks.mT)
    del errors_W1
    # M*: the memory at the last border
    anchor_point_W1 = blocks.at_start(anchor_W1, memory_W1, resumed, block)
    value_35 = product_20 * momentum_weights[..., :, None]
    del momentum_weights
    value_36 = product_17 * last_weights[..., :, None]
    del last_weights, product_17
    rename_2 = d_errors_2
    combined_17 = blocks.add_product(
        blocks.add_product(value_35 + rename_2 - value_36, kept_value_3_all, anchor_point_W1.mT, 1),
        value_29.mT,
        q,
        -1,
    )
    del anchor_point_W1, kept_value_3_all, rename_2, value_29, value_35, value_36
    d_momentum_weights = (kept_value_2_all * value_4).sum(-1) + (product_20 * k).sum(-1)
    del kept_value_2_all, product_20, value_4
    running_4 = blocks.cumsum(d_momentum_weights * lr * until_end_2, -1, False, True)
    value_37 = value_30[..., None, :] * value_11[..., :, None]
    value_38 = blocks.add_product(value_37, value_5.mT, combined_15, 1) * saved_4
    del combined_15, value_37, value_5
    banded_3 = value_38 * blocks.band(row, row, 1, None, like)
    del value_38
    banded_4 = blocks.cumsum(banded_3, -1, False, True) * blocks.band(row, row, 0, None, like)
    del banded_3
    combined_18 = running_4 + banded_4.sum(-2)
    del banded_4
    value_39 = d_momentum_weights * until_end_2
    total_3 = (product_16 * value_15).sum(-2)
    del product_16, value_15
    total_4 = (product_2 * value_17).sum(-2)
    del product_2, value_17
    combined_19 = value_39 + d_last_weights * product_3 - total_4 - total_3
    value_40 = -d_errors_2
    del d_errors_2
    total_5 = (d_momentum_W2_next_blocks * momentum_W2).sum(-2).sum(-1)
    d_momentum_kept = total_5 + (d_momentum_W1_next_blocks * momentum_W1).sum(-2).sum(-1)
    value_41 = d_momentum_kept * momentum_kept
    del momentum_kept
    return {
        "part_0": combined_14,
        "part_1": running,
        "part_2": combined_16,
        "part_3": running_3,
        "part_4": combined_17,
        "part_5": combined_18,
        "part_6": combined_19,
        "part_7": value_40,
        "part_8": value_41,
        "sum_0": sum_0,
        "sum_1": sum_1,
        "sum_2": sum_2,
        "sum_3": sum_3,
        "d_memory_W1": d_memory_W1_next_final,
        "d_memory_W2": d_memory_W2_next_final,
        "d_momentum_W1": d_momentum_W1_next_final,
        "d_momentum_W2": d_momentum_W2_next_final,
        "d_memory_W1_blocks": d_memory_W1_next_blocks,
        "d_memory_W2_blocks": d_memory_W2_next_blocks,
        "d_momentum_W1_blocks": d_momentum_W1_next_blocks,
        "d_momentum_W2_blocks": d_momentum_W2_next_blocks,
    }

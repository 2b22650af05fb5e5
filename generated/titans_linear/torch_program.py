"""The memory rule titans_linear as a torch program: `forward` and `backward` of all blocks.

Arrays are [B, H, N, ...] over N blocks; `blocks` is atlasgen.runtime.blocks.
Rule fdc70b51dcc6, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
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
    log_alpha,
    momentum,
    live,
    log_theta,
    k,
    lr,
    anchor,
    v,
):
    """The loop over blocks, then the reads of all blocks."""
    block = None  # all blocks at once
    log_theta_sums = blocks.running(log_theta)
    since_start = blocks.decay_from_start(log_theta_sums, False)
    decay = blocks.decay(log_theta_sums, False)
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
    memory_like = memory
    memory = memory.flatten(0, 1)
    memory_list = []
    momentum_like = momentum
    momentum = momentum.flatten(0, 1)
    momentum_list = []
    kept_errors = []
    k_each = blocks.each(k, count, memory_like)
    anchor_each = blocks.each(anchor, count, memory_like)
    v_each = blocks.each(v, count, memory_like)
    kept_each = blocks.each(kept, count, memory_like)
    del kept
    momentum_written_each = blocks.each(momentum_written, count, memory_like)
    del momentum_written
    value_2_each = blocks.each(value_2, count, memory_like)
    del value_2
    momentum_kept_each = blocks.each(momentum_kept, count, memory_like)
    del momentum_kept
    value_3_each = blocks.each(value_3, count, memory_like)
    del value_3
    for block in range(count):
        memory_list.append(memory)
        momentum_list.append(momentum)
        # M*: the memory at the last border
        anchor_point = blocks.at_start(anchor_each[block], memory, resumed, block)
        # E = dl/dpred at the block's M*
        errors = torch.baddbmm(v_each[block], k_each[block], anchor_point, beta=-1)
        value_4 = momentum * momentum_written_each[block][..., None, None]
        value_5 = memory * kept_each[block][..., None, None]
        # M at the end
        memory_next = torch.baddbmm(value_5 - value_4, value_2_each[block].mT, errors, alpha=-1)
        value_6 = momentum * momentum_kept_each[block][..., None, None]
        # S at the end of the block
        momentum_next = torch.baddbmm(value_6, value_3_each[block].mT, errors)
        kept_errors.append(errors)
        memory, momentum = (memory_next, momentum_next)
    del anchor_each, k_each, kept_each, momentum_kept_each, momentum_written_each, v_each
    del value_2_each, value_3_each
    block = None
    memory_final = memory.unflatten(0, memory_like.shape[:2])
    memory_blocks = blocks.stack(memory_list, memory_like)
    del memory_list
    momentum_final = momentum.unflatten(0, momentum_like.shape[:2])
    momentum_blocks = blocks.stack(momentum_list, momentum_like)
    del momentum_list
    errors_2 = blocks.stack(kept_errors, memory_like)
    del kept_errors
    product_2 = torch.matmul(q, memory_blocks)
    # a: decay of the memory since the block's start
    read_decay = blocks.decay_from_start(log_alpha_sums, False)
    product_3 = torch.matmul(q, momentum_blocks)
    decay_2 = blocks.decay(log_alpha_sums, False)
    value_7 = decay_2 * live[..., None, :]
    # b: weight of S in each read
    momentum_read = (value_7 * since_start[..., None, :]).sum(-1)
    # Q X^T
    scores = torch.matmul(q, k.mT)
    product_4 = torch.matmul(value_7, decay)
    del value_7
    # (Q X^T) * P
    attention = scores * product_4 * lr[..., None, :]
    value_8 = product_3 * momentum_read[..., :, None]
    value_9 = product_2 * read_decay[..., :, None]
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = blocks.add_product(value_9 - value_8, attention, errors_2, -1)
    del attention, value_8, value_9
    # M*: the memory at the last border
    anchor_point_2 = blocks.at_start(anchor, memory_blocks, resumed, block)
    return {
        "y": reads,
        "anchor_value": anchor_point_2,
        "saved_0": product_2,
        "saved_1": product_3,
        "saved_2": decay_2,
        "saved_3": scores,
        "saved_4": decay,
        "saved_5": product_4,
        "saved_6": errors_2,
        "memory": memory_final,
        "momentum": momentum_final,
        "memory_blocks": memory_blocks,
        "momentum_blocks": momentum_blocks,
    }


def backward(
    blocks,
    count,
    rows,
    halo,
    window,
    resumed,
    d_y,
    log_alpha,
    memory,
    lr,
    k,
    live,
    log_theta,
    momentum,
    d_memory_next,
    d_momentum_next,
    anchor,
    q,
    d_anchor,
    saved_6,
    saved_5,
    saved_2,
    saved_0,
    saved_4,
    saved_1,
    saved_3,
):
    """The loop over blocks from the last to the first, then the gradients of all rows."""
    like = d_y
    row, halo_row = blocks.positions(rows, halo, False)
    block = None  # all blocks at once
    log_alpha_sums = blocks.running(log_alpha)
    # a: decay of the memory since the block's start
    read_decay = blocks.decay_from_start(log_alpha_sums, False)
    value = d_y * read_decay[..., :, None]
    value_2 = saved_2 * live[..., None, :]
    log_theta_sums = blocks.running(log_theta)
    since_start = blocks.decay_from_start(log_theta_sums, False)
    # b: weight of S in each read
    momentum_read = (value_2 * since_start[..., None, :]).sum(-1)
    value_3 = d_y * momentum_read[..., :, None]
    until_end = blocks.decay_to_end(log_alpha_sums)
    # a_C: decay of the memory over the block
    kept = blocks.decay_whole(log_alpha_sums)
    value_4 = until_end * live
    until_end_2 = blocks.decay_to_end(log_theta_sums)
    # B_C: last row of D(theta) Gamma
    momentum_weights = until_end_2 * lr
    value_5 = k * momentum_weights[..., :, None]
    product = (value_4[..., :, None] * saved_4).sum(-2)
    # p_C: last row of P
    last_weights = product * lr
    value_6 = k * last_weights[..., :, None]
    value_7 = saved_3 * saved_5
    # (Q X^T) * P
    attention = value_7 * lr[..., None, :]
    product_2 = torch.matmul(attention.mT, d_y)
    del attention
    # decay of S over the block
    momentum_kept = blocks.decay_whole(log_theta_sums)
    product_3 = torch.matmul(q.mT, value)
    # b_C: weight of the block's initial momentum
    momentum_written = (value_4 * since_start).sum(-1)
    product_4 = torch.matmul(q.mT, value_3)
    d_memory_next_like = d_memory_next
    d_memory_next = d_memory_next.flatten(0, 1)
    d_memory_next_list = []
    d_momentum_next_like = d_momentum_next
    d_momentum_next = d_momentum_next.flatten(0, 1)
    d_momentum_next_list = []
    kept_d_errors = []
    sum_0 = 0.0
    k_each = blocks.each(k, count, d_memory_next_like)
    kept_each = blocks.each(kept, count, d_memory_next_like)
    value_5_each = blocks.each(value_5, count, d_memory_next_like)
    del value_5
    value_6_each = blocks.each(value_6, count, d_memory_next_like)
    del value_6
    product_2_each = blocks.each(product_2, count, d_memory_next_like)
    del product_2
    momentum_kept_each = blocks.each(momentum_kept, count, d_memory_next_like)
    d_anchor_each = blocks.each(d_anchor, count, d_memory_next_like)
    product_3_each = blocks.each(product_3, count, d_memory_next_like)
    del product_3
    momentum_written_each = blocks.each(momentum_written, count, d_memory_next_like)
    del momentum_written
    product_4_each = blocks.each(product_4, count, d_memory_next_like)
    del product_4
    for block in reversed(range(count)):
        d_memory_next_list.append(d_memory_next)
        d_momentum_next_list.append(d_momentum_next)
        d_errors = torch.baddbmm(
            torch.baddbmm(product_2_each[block], value_5_each[block], d_momentum_next, beta=-1),
            value_6_each[block],
            d_memory_next,
            alpha=-1,
        )
        d_anchor_point = torch.baddbmm(d_anchor_each[block], k_each[block].mT, d_errors)
        at_border = blocks.when_start(d_anchor_point, False, resumed, block)
        value_8 = d_memory_next * kept_each[block][..., None, None]
        combined = value_8 + at_border + product_3_each[block]
        value_9 = d_memory_next * momentum_written_each[block][..., None, None]
        value_10 = d_momentum_next * momentum_kept_each[block][..., None, None]
        combined_2 = value_10 - value_9 - product_4_each[block]
        at_border_2 = blocks.when_start(d_anchor_point, True, resumed, block)
        kept_d_errors.append(d_errors)
        sum_0 = sum_0 + at_border_2
        d_memory_next, d_momentum_next = (combined, combined_2)
    del d_anchor_each, k_each, kept_each, momentum_kept_each, momentum_written_each
    del product_2_each, product_3_each, product_4_each, value_5_each, value_6_each
    block = None
    d_memory_next_final = d_memory_next.unflatten(0, d_memory_next_like.shape[:2])
    d_memory_next_blocks = blocks.stack(d_memory_next_list[::-1], d_memory_next_like)
    del d_memory_next_list
    d_momentum_next_final = d_momentum_next.unflatten(0, d_momentum_next_like.shape[:2])
    d_momentum_next_blocks = blocks.stack(d_momentum_next_list[::-1], d_momentum_next_like)
    del d_momentum_next_list
    d_errors_2 = blocks.stack(kept_d_errors[::-1], d_memory_next_like)
    del kept_d_errors
    product_5 = torch.matmul(value, memory.mT)
    del value
    product_6 = torch.matmul(d_y, saved_6.mT)
    value_11 = product_6 * lr[..., None, :]
    value_12 = value_11 * saved_5
    combined_3 = blocks.add_product(blocks.add_product(product_5, value_12, k, -1), value_3, momentum.mT, -1)
    del product_5, value_3
    d_read_decay = (d_y * saved_0).sum(-1)
    running = blocks.cumsum(d_read_decay * read_decay, -1, True, False)
    product_7 = torch.matmul(saved_6, d_memory_next_blocks.mT)
    total = (product_7 * k).sum(-1)
    value_13 = total * lr
    product_8 = (value_13[..., None, :] * saved_4).sum(-1)
    total_2 = (d_memory_next_blocks * momentum).sum(-2).sum(-1)
    value_14 = (-product_8 - since_start * total_2[..., None]) * live * until_end
    d_kept = (d_memory_next_blocks * memory).sum(-2).sum(-1)
    total_3 = (d_y * saved_1).sum(-1)
    value_15 = value_11 * saved_3
    del value_11
    product_9 = torch.matmul(value_15, saved_4.mT)
    combined_4 = -(total_3[..., :, None] * since_start[..., None, :]) - product_9
    del product_9
    value_16 = combined_4 * saved_2 * live[..., None, :]
    del combined_4
    banded = value_16 * blocks.band(row, row, 1, None, like)
    del value_16
    banded_2 = blocks.cumsum(banded, -1, False, True) * blocks.band(row, row, 0, None, like)
    del banded
    running_2 = blocks.cumsum(value_14, -1, False, True)
    combined_5 = running_2 + (d_kept * kept)[..., None] + banded_2.sum(-2)
    del banded_2, kept
    product_10 = (total_3[..., :, None] * value_2).sum(-2)
    value_17 = (-(value_4 * total_2[..., None]) - product_10) * since_start
    running_3 = blocks.cumsum(value_17, -1, True, False)
    product_11 = torch.matmul(saved_6, d_momentum_next_blocks.mT)
    # M*: the memory at the last border
    anchor_point = blocks.at_start(anchor, memory, resumed, block)
    value_18 = product_11 * momentum_weights[..., :, None]
    value_19 = product_7 * last_weights[..., :, None]
    del product_7
    combined_6 = blocks.add_product(
        blocks.add_product(value_18 - value_19, d_errors_2, anchor_point.mT, 1),
        value_12.mT,
        q,
        -1,
    )
    del anchor_point, value_12, value_18, value_19
    d_momentum_weights = (product_11 * k).sum(-1)
    del product_11
    running_4 = blocks.cumsum(d_momentum_weights * lr * until_end_2, -1, False, True)
    product_12 = torch.matmul(value_2.mT, value_15)
    del value_15, value_2
    combined_7 = -(value_13[..., None, :] * value_4[..., :, None]) - product_12
    del product_12
    banded_3 = combined_7 * saved_4 * blocks.band(row, row, 1, None, like)
    del combined_7
    banded_4 = blocks.cumsum(banded_3, -1, False, True) * blocks.band(row, row, 0, None, like)
    del banded_3
    combined_8 = running_4 + banded_4.sum(-2)
    del banded_4
    value_20 = d_momentum_weights * until_end_2
    combined_9 = value_20 - total * product - (product_6 * value_7).sum(-2)
    del product_6, value_7
    value_21 = -d_errors_2
    del d_errors_2
    d_momentum_kept = (d_momentum_next_blocks * momentum).sum(-2).sum(-1)
    value_22 = d_momentum_kept * momentum_kept
    del momentum_kept
    return {
        "part_0": combined_3,
        "part_1": running,
        "part_2": combined_5,
        "part_3": running_3,
        "part_4": combined_6,
        "part_5": combined_8,
        "part_6": combined_9,
        "part_7": value_21,
        "part_8": value_22,
        "sum_0": sum_0,
        "d_memory": d_memory_next_final,
        "d_momentum": d_momentum_next_final,
        "d_memory_blocks": d_memory_next_blocks,
        "d_momentum_blocks": d_momentum_next_blocks,
    }

"""The memory rule titans_exact as a torch program: `forward` and `backward` of all blocks.

Arrays are [B, H, N, ...] over N blocks; `blocks` is atlasgen.runtime.blocks.
Rule 36e4393d7ec7, schedule wy, generator 1. Written by `atlasgen build`; edit the spec, not this file.
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
    v,
):
    """The loop over blocks, then the reads of all blocks."""
    block = None  # all blocks at once
    log_theta_sums = blocks.running(log_theta)
    since_start = blocks.decay_from_start(log_theta_sums, False)
    decay = blocks.decay(log_theta_sums, False)
    # Q X^T
    scores = torch.matmul(k, k.mT)
    log_alpha_sums = blocks.running(log_alpha)
    decay_2 = blocks.decay(log_alpha_sums, True)
    value = decay_2 * live[..., None, :]
    product = torch.matmul(value, decay)
    # (Q X^T) * P
    attention = scores * product * lr[..., None, :]
    # (I + A)^-1
    inverse = blocks.unit_inverse(attention, True)
    del attention
    # a: decay of the memory since the block's start
    read_decay = blocks.decay_from_start(log_alpha_sums, True)
    # b: weight of S in each read
    momentum_read = (value * since_start[..., None, :]).sum(-1)
    del value
    # a_C: decay of the memory over the block
    kept = blocks.decay_whole(log_alpha_sums)
    value_2 = blocks.decay_to_end(log_alpha_sums) * live
    # b_C: weight of the block's initial momentum
    momentum_written = (value_2 * since_start).sum(-1)
    product_2 = (value_2[..., :, None] * decay).sum(-2)
    # p_C: last row of P
    last_weights = product_2 * lr
    value_3 = k * last_weights[..., :, None]
    # decay of S over the block
    momentum_kept = blocks.decay_whole(log_theta_sums)
    # B_C: last row of D(theta) Gamma
    momentum_weights = blocks.decay_to_end(log_theta_sums) * lr
    value_4 = k * momentum_weights[..., :, None]
    memory_like = memory
    memory = memory.flatten(0, 1)
    memory_list = []
    momentum_like = momentum
    momentum = momentum.flatten(0, 1)
    momentum_list = []
    kept_value = []
    kept_value_2 = []
    kept_errors = []
    k_each = blocks.each(k, count, memory_like)
    inverse_each = blocks.each(inverse, count, memory_like)
    read_decay_each = blocks.each(read_decay, count, memory_like)
    del read_decay
    momentum_read_each = blocks.each(momentum_read, count, memory_like)
    del momentum_read
    v_each = blocks.each(v, count, memory_like)
    kept_each = blocks.each(kept, count, memory_like)
    del kept
    momentum_written_each = blocks.each(momentum_written, count, memory_like)
    del momentum_written
    value_3_each = blocks.each(value_3, count, memory_like)
    del value_3
    momentum_kept_each = blocks.each(momentum_kept, count, memory_like)
    del momentum_kept
    value_4_each = blocks.each(value_4, count, memory_like)
    del value_4
    for block in range(count):
        memory_list.append(memory)
        momentum_list.append(momentum)
        product_3 = torch.matmul(k_each[block], memory)
        product_4 = torch.matmul(k_each[block], momentum)
        value_5 = product_4 * momentum_read_each[block][..., :, None]
        # what the block's start predicts for each key
        predictions_given = product_3 * read_decay_each[block][..., :, None] - value_5
        # R: the error at what the block's start gives
        residual = predictions_given - v_each[block]
        # E = (I + A)^-1 R
        errors = torch.matmul(inverse_each[block].mT, residual)
        value_6 = momentum * momentum_written_each[block][..., None, None]
        value_7 = memory * kept_each[block][..., None, None]
        # M at the end
        memory_next = torch.baddbmm(value_7 - value_6, value_3_each[block].mT, errors, alpha=-1)
        value_8 = momentum * momentum_kept_each[block][..., None, None]
        # S at the end of the block
        momentum_next = torch.baddbmm(value_8, value_4_each[block].mT, errors)
        kept_value.append(product_3)
        kept_value_2.append(product_4)
        kept_errors.append(errors)
        memory, momentum = (memory_next, momentum_next)
    del inverse_each, k_each, kept_each, momentum_kept_each, momentum_read_each
    del momentum_written_each, read_decay_each, v_each, value_3_each, value_4_each
    block = None
    memory_final = memory.unflatten(0, memory_like.shape[:2])
    memory_blocks = blocks.stack(memory_list, memory_like)
    del memory_list
    momentum_final = momentum.unflatten(0, momentum_like.shape[:2])
    momentum_blocks = blocks.stack(momentum_list, momentum_like)
    del momentum_list
    kept_value_all = blocks.stack(kept_value, memory_like)
    del kept_value
    kept_value_2_all = blocks.stack(kept_value_2, memory_like)
    del kept_value_2
    errors_2 = blocks.stack(kept_errors, memory_like)
    del kept_errors
    product_5 = torch.matmul(q, memory_blocks)
    # a: decay of the memory since the block's start
    read_decay_2 = blocks.decay_from_start(log_alpha_sums, False)
    product_6 = torch.matmul(q, momentum_blocks)
    decay_3 = blocks.decay(log_alpha_sums, False)
    value_9 = decay_3 * live[..., None, :]
    # b: weight of S in each read
    momentum_read_2 = (value_9 * since_start[..., None, :]).sum(-1)
    # Q X^T
    scores_2 = torch.matmul(q, k.mT)
    product_7 = torch.matmul(value_9, decay)
    del value_9
    # (Q X^T) * P
    attention_2 = scores_2 * product_7 * lr[..., None, :]
    value_10 = product_6 * momentum_read_2[..., :, None]
    value_11 = product_5 * read_decay_2[..., :, None]
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = blocks.add_product(value_11 - value_10, attention_2, errors_2, -1)
    del attention_2, value_10, value_11
    return {
        "y": reads,
        "saved_0": product_5,
        "saved_1": product_6,
        "saved_2": decay_3,
        "saved_3": scores_2,
        "saved_4": decay,
        "saved_5": product_7,
        "saved_6": scores,
        "saved_7": decay_2,
        "saved_8": product,
        "saved_9": inverse,
        "saved_10": kept_value_all,
        "saved_11": kept_value_2_all,
        "saved_12": errors_2,
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
    d_momentum_next,
    d_memory_next,
    q,
    saved_12,
    saved_5,
    saved_2,
    saved_4,
    saved_3,
    saved_9,
    saved_10,
    saved_0,
    saved_11,
    saved_6,
    saved_7,
    saved_1,
    saved_8,
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
    until_end = blocks.decay_to_end(log_theta_sums)
    # B_C: last row of D(theta) Gamma
    momentum_weights = until_end * lr
    value_4 = k * momentum_weights[..., :, None]
    until_end_2 = blocks.decay_to_end(log_alpha_sums)
    value_5 = until_end_2 * live
    product = (value_5[..., :, None] * saved_4).sum(-2)
    # p_C: last row of P
    last_weights = product * lr
    value_6 = k * last_weights[..., :, None]
    value_7 = saved_3 * saved_5
    # (Q X^T) * P
    attention = value_7 * lr[..., None, :]
    product_2 = torch.matmul(attention.mT, d_y)
    del attention
    # a: decay of the memory since the block's start
    read_decay_2 = blocks.decay_from_start(log_alpha_sums, True)
    # a_C: decay of the memory over the block
    kept = blocks.decay_whole(log_alpha_sums)
    value_8 = saved_7 * live[..., None, :]
    # b: weight of S in each read
    momentum_read_2 = (value_8 * since_start[..., None, :]).sum(-1)
    # decay of S over the block
    momentum_kept = blocks.decay_whole(log_theta_sums)
    product_3 = torch.matmul(q.mT, value)
    # b_C: weight of the block's initial momentum
    momentum_written = (value_5 * since_start).sum(-1)
    product_4 = torch.matmul(q.mT, value_3)
    d_memory_next_like = d_memory_next
    d_memory_next = d_memory_next.flatten(0, 1)
    d_memory_next_list = []
    d_momentum_next_like = d_momentum_next
    d_momentum_next = d_momentum_next.flatten(0, 1)
    d_momentum_next_list = []
    kept_d_residual = []
    kept_value = []
    kept_value_2 = []
    value_4_each = blocks.each(value_4, count, d_memory_next_like)
    del value_4
    value_6_each = blocks.each(value_6, count, d_memory_next_like)
    del value_6
    product_2_each = blocks.each(product_2, count, d_memory_next_like)
    del product_2
    saved_9_each = blocks.each(saved_9, count, d_memory_next_like)
    read_decay_2_each = blocks.each(read_decay_2, count, d_memory_next_like)
    kept_each = blocks.each(kept, count, d_memory_next_like)
    k_each = blocks.each(k, count, d_memory_next_like)
    momentum_read_2_each = blocks.each(momentum_read_2, count, d_memory_next_like)
    del momentum_read_2
    momentum_kept_each = blocks.each(momentum_kept, count, d_memory_next_like)
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
            torch.baddbmm(product_2_each[block], value_4_each[block], d_momentum_next, beta=-1),
            value_6_each[block],
            d_memory_next,
            alpha=-1,
        )
        d_residual = torch.matmul(saved_9_each[block], d_errors)
        value_9 = d_residual * read_decay_2_each[block][..., :, None]
        value_10 = d_residual * momentum_read_2_each[block][..., :, None]
        value_11 = d_memory_next * kept_each[block][..., None, None]
        combined = torch.baddbmm(value_11 + product_3_each[block], k_each[block].mT, value_9)
        value_12 = d_memory_next * momentum_written_each[block][..., None, None]
        value_13 = d_momentum_next * momentum_kept_each[block][..., None, None]
        combined_2 = torch.baddbmm(
            value_13 - value_12 - product_4_each[block],
            k_each[block].mT,
            value_10,
            alpha=-1,
        )
        kept_d_residual.append(d_residual)
        kept_value.append(value_9)
        kept_value_2.append(value_10)
        d_memory_next, d_momentum_next = (combined, combined_2)
    del k_each, kept_each, momentum_kept_each, momentum_read_2_each, momentum_written_each
    del product_2_each, product_3_each, product_4_each, read_decay_2_each, saved_9_each
    del value_4_each, value_6_each
    block = None
    d_memory_next_final = d_memory_next.unflatten(0, d_memory_next_like.shape[:2])
    d_memory_next_blocks = blocks.stack(d_memory_next_list[::-1], d_memory_next_like)
    del d_memory_next_list
    d_momentum_next_final = d_momentum_next.unflatten(0, d_momentum_next_like.shape[:2])
    d_momentum_next_blocks = blocks.stack(d_momentum_next_list[::-1], d_momentum_next_like)
    del d_momentum_next_list
    d_residual_2 = blocks.stack(kept_d_residual[::-1], d_memory_next_like)
    del kept_d_residual
    kept_value_all = blocks.stack(kept_value[::-1], d_memory_next_like)
    del kept_value
    kept_value_2_all = blocks.stack(kept_value_2[::-1], d_memory_next_like)
    del kept_value_2
    product_5 = torch.matmul(value, memory.mT)
    del value
    product_6 = torch.matmul(d_y, saved_12.mT)
    value_14 = product_6 * lr[..., None, :]
    value_15 = value_14 * saved_5
    combined_3 = blocks.add_product(blocks.add_product(product_5, value_15, k, -1), value_3, momentum.mT, -1)
    del product_5, value_3
    d_read_decay = (d_residual_2 * saved_10).sum(-1)
    d_read_decay_2 = (d_y * saved_0).sum(-1)
    running = blocks.cumsum(d_read_decay_2 * read_decay, -1, True, False)
    combined_4 = blocks.cumsum(d_read_decay * read_decay_2, -1, True, True) + running
    del read_decay_2
    product_7 = torch.matmul(saved_12, d_memory_next_blocks.mT)
    total = (product_7 * k).sum(-1)
    value_16 = total * lr
    product_8 = (value_16[..., None, :] * saved_4).sum(-1)
    total_2 = (d_memory_next_blocks * momentum).sum(-2).sum(-1)
    value_17 = (-product_8 - since_start * total_2[..., None]) * live * until_end_2
    d_kept = (d_memory_next_blocks * memory).sum(-2).sum(-1)
    total_3 = (d_residual_2 * saved_11).sum(-1)
    product_9 = torch.matmul(d_residual_2, saved_12.mT)
    value_18 = product_9 * lr[..., None, :]
    banded = value_18 * saved_6 * blocks.band(row, row, 1, None, like)
    product_10 = torch.matmul(banded, saved_4.mT)
    combined_5 = -(total_3[..., :, None] * since_start[..., None, :]) - product_10
    del product_10
    value_19 = combined_5 * saved_7 * live[..., None, :]
    del combined_5
    banded_2 = value_19 * blocks.band(row, row, 2, None, like)
    del value_19
    banded_3 = blocks.cumsum(banded_2, -1, False, True) * blocks.band(row, row, 1, None, like)
    del banded_2
    total_4 = (d_y * saved_1).sum(-1)
    value_20 = value_14 * saved_3
    del value_14
    product_11 = torch.matmul(value_20, saved_4.mT)
    combined_6 = -(total_4[..., :, None] * since_start[..., None, :]) - product_11
    del product_11
    value_21 = combined_6 * saved_2 * live[..., None, :]
    del combined_6
    banded_4 = value_21 * blocks.band(row, row, 1, None, like)
    del value_21
    banded_5 = blocks.cumsum(banded_4, -1, False, True) * blocks.band(row, row, 0, None, like)
    del banded_4
    running_2 = blocks.cumsum(value_17, -1, False, True)
    combined_7 = running_2 + (d_kept * kept)[..., None] + banded_3.sum(-2) + banded_5.sum(-2)
    del banded_3, banded_5, kept
    product_12 = (total_3[..., :, None] * value_8).sum(-2)
    product_13 = (total_4[..., :, None] * value_2).sum(-2)
    value_22 = (-(value_5 * total_2[..., None]) - product_12 - product_13) * since_start
    running_3 = blocks.cumsum(value_22, -1, True, False)
    product_14 = torch.matmul(saved_12, d_momentum_next_blocks.mT)
    banded_6 = value_18 * saved_8 * blocks.band(row, row, 1, None, like)
    del value_18
    value_23 = product_14 * momentum_weights[..., :, None]
    value_24 = product_7 * last_weights[..., :, None]
    del product_7
    combined_8 = blocks.add_product(
        blocks.add_product(value_23 - value_24, banded_6.mT, k, -1),
        value_15.mT,
        q,
        -1,
    )
    del value_15, value_23, value_24
    d_momentum_weights = (product_14 * k).sum(-1)
    del product_14
    running_4 = blocks.cumsum(d_momentum_weights * lr * until_end, -1, False, True)
    product_15 = torch.matmul(value_8.mT, banded)
    del banded, value_8
    value_25 = value_16[..., None, :] * value_5[..., :, None]
    combined_9 = blocks.add_product(-value_25 - product_15, value_2.mT, value_20, -1)
    del product_15, value_2, value_20, value_25
    banded_7 = combined_9 * saved_4 * blocks.band(row, row, 1, None, like)
    del combined_9
    banded_8 = blocks.cumsum(banded_7, -1, False, True) * blocks.band(row, row, 0, None, like)
    del banded_7
    combined_10 = running_4 + banded_8.sum(-2)
    del banded_8
    banded_9 = product_9 * (saved_6 * saved_8) * blocks.band(row, row, 1, None, like)
    del product_9
    value_26 = d_momentum_weights * until_end
    total_5 = (product_6 * value_7).sum(-2)
    del product_6, value_7
    combined_11 = value_26 - total * product - banded_9.sum(-2) - total_5
    del banded_9
    product_16 = torch.matmul(kept_value_all, memory.mT)
    del kept_value_all
    combined_12 = blocks.add_product(
        blocks.add_product(product_16, banded_6, k, -1),
        kept_value_2_all,
        momentum.mT,
        -1,
    )
    del banded_6, kept_value_2_all, product_16
    value_27 = -d_residual_2
    del d_residual_2
    d_momentum_kept = (d_momentum_next_blocks * momentum).sum(-2).sum(-1)
    value_28 = d_momentum_kept * momentum_kept
    del momentum_kept
    return {
        "part_0": combined_3,
        "part_1": combined_4,
        "part_2": combined_7,
        "part_3": running_3,
        "part_4": combined_8,
        "part_5": combined_10,
        "part_6": combined_11,
        "part_7": combined_12,
        "part_8": value_27,
        "part_9": value_28,
        "d_memory": d_memory_next_final,
        "d_momentum": d_momentum_next_final,
        "d_memory_blocks": d_memory_next_blocks,
        "d_momentum_blocks": d_momentum_next_blocks,
    }

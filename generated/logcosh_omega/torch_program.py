"""The memory rule logcosh_omega as a torch program: `forward` and `backward` of all blocks.

Arrays are [B, H, N, ...] over N blocks; `blocks` is atlasgen.runtime.blocks.
Rule be88dbbaf7d7, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
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
    k,
    lr,
    gamma,
    live,
    exists,
    exists_halo,
    anchor,
    v,
    k_halo,
    v_halo,
):
    """The loop over blocks, then the reads of all blocks."""
    like = q
    row, halo_row = blocks.positions(rows, halo, False)
    block = None  # all blocks at once
    value = blocks.expand_age(gamma, row, row, True) * live[..., :, None]
    value_2 = value * exists[..., None, :]
    del value
    value_3 = blocks.expand_age(gamma, row, halo_row, True) * live[..., :, None]
    value_4 = value_3 * exists_halo[..., None, :]
    del value_3
    total = (value_4 * blocks.band(row, halo_row, 0, 7, like)).sum(-1)
    combined = (value_2 * blocks.band(row, row, 0, 7, like)).sum(-1) + total
    # 1 / sum over the window of gamma
    window_mean = blocks.where(combined != 0.0, 1.0 / combined, 0.0)
    # Gamma: window gates by reader and source
    window_2 = value_2 * window_mean[..., :, None] * blocks.band(row, row, 0, 7, like)
    del value_2
    # Gamma: window gates by reader and source
    window_halo = value_4 * window_mean[..., :, None] * blocks.band(row, halo_row, 0, 7, like)
    del value_4
    log_alpha_sums = blocks.running(log_alpha)
    # a_C: decay of the memory over the block
    kept = blocks.decay_whole(log_alpha_sums)
    value_5 = blocks.decay_to_end(log_alpha_sums) * lr
    # p_C: last row of P
    last_weights = (value_5[..., :, None] * window_2).sum(-2)
    value_6 = k * last_weights[..., :, None]
    # p_C: last row of P
    last_weights_halo = (value_5[..., :, None] * window_halo).sum(-2)
    value_7 = k_halo * last_weights_halo[..., :, None]
    memory_like = memory
    memory = memory.flatten(0, 1)
    memory_list = []
    kept_predictions = []
    kept_errors = []
    kept_predictions_halo = []
    kept_errors_halo = []
    k_each = blocks.each(k, count, memory_like)
    anchor_each = blocks.each(anchor, count, memory_like)
    v_each = blocks.each(v, count, memory_like)
    k_halo_each = blocks.each(k_halo, count, memory_like)
    v_halo_each = blocks.each(v_halo, count, memory_like)
    kept_each = blocks.each(kept, count, memory_like)
    del kept
    value_6_each = blocks.each(value_6, count, memory_like)
    del value_6
    value_7_each = blocks.each(value_7, count, memory_like)
    del value_7
    for block in range(count):
        memory_list.append(memory)
        # M*: the memory at the last border
        anchor_point = blocks.at_start(anchor_each[block], memory, resumed, block)
        # pred = phi(k) M*
        predictions = torch.matmul(k_each[block], anchor_point)
        # E = dl/dpred at the block's M*
        errors = torch.tanh(predictions - v_each[block])
        # pred = phi(k) M*
        predictions_halo = torch.matmul(k_halo_each[block], anchor_point)
        # E = dl/dpred at the block's M*
        errors_halo = torch.tanh(predictions_halo - v_halo_each[block])
        value_8 = memory * kept_each[block][..., None, None]
        # M at the end
        memory_next = torch.baddbmm(
            torch.baddbmm(value_8, value_6_each[block].mT, errors, alpha=-1),
            value_7_each[block].mT,
            errors_halo,
            alpha=-1,
        )
        kept_predictions.append(predictions)
        kept_errors.append(errors)
        kept_predictions_halo.append(predictions_halo)
        kept_errors_halo.append(errors_halo)
        memory = memory_next
    del anchor_each, k_each, k_halo_each, kept_each, v_each, v_halo_each, value_6_each
    del value_7_each
    block = None
    memory_final = memory.unflatten(0, memory_like.shape[:2])
    memory_blocks = blocks.stack(memory_list, memory_like)
    del memory_list
    predictions_2 = blocks.stack(kept_predictions, memory_like)
    del kept_predictions
    errors_2 = blocks.stack(kept_errors, memory_like)
    del kept_errors
    predictions_halo_2 = blocks.stack(kept_predictions_halo, memory_like)
    del kept_predictions_halo
    errors_halo_2 = blocks.stack(kept_errors_halo, memory_like)
    del kept_errors_halo
    product = torch.matmul(q, memory_blocks)
    # a: decay of the memory since the block's start
    read_decay = blocks.decay_from_start(log_alpha_sums, False)
    # Q X^T
    scores = torch.matmul(q, k.mT)
    decay = blocks.decay(log_alpha_sums, False)
    value_9 = decay * lr[..., None, :]
    # P: source weights by read
    weights = torch.matmul(value_9, window_2)
    del window_2
    # (Q X^T) * P
    attention = scores * weights
    # Q X^T
    scores_halo = torch.matmul(q, k_halo.mT)
    # P: source weights by read
    weights_halo = torch.matmul(value_9, window_halo)
    del value_9, window_halo
    # (Q X^T) * P
    attention_halo = scores_halo * weights_halo
    value_10 = product * read_decay[..., :, None]
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = blocks.add_product(
        blocks.add_product(value_10, attention, errors_2, -1),
        attention_halo,
        errors_halo_2,
        -1,
    )
    del attention, attention_halo, errors_2, errors_halo_2, value_10
    # M*: the memory at the last border
    anchor_point_2 = blocks.at_start(anchor, memory_blocks, resumed, block)
    return {
        "y": reads,
        "anchor_value": anchor_point_2,
        "saved_0": product,
        "saved_1": scores,
        "saved_2": decay,
        "saved_3": weights,
        "saved_4": predictions_2,
        "saved_5": scores_halo,
        "saved_6": weights_halo,
        "saved_7": predictions_halo_2,
        "memory": memory_final,
        "memory_blocks": memory_blocks,
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
    v_halo,
    k_halo,
    v,
    k,
    d_memory_next,
    lr,
    gamma,
    live,
    exists,
    exists_halo,
    anchor,
    q,
    d_anchor,
    saved_7,
    saved_6,
    saved_4,
    saved_3,
    saved_0,
    saved_1,
    saved_5,
    saved_2,
):
    """The loop over blocks from the last to the first, then the gradients of all rows."""
    like = d_y
    row, halo_row = blocks.positions(rows, halo, False)
    block = None  # all blocks at once
    log_alpha_sums = blocks.running(log_alpha)
    # a: decay of the memory since the block's start
    read_decay = blocks.decay_from_start(log_alpha_sums, False)
    value = d_y * read_decay[..., :, None]
    until_end = blocks.decay_to_end(log_alpha_sums)
    value_2 = until_end * lr
    value_3 = blocks.expand_age(gamma, row, row, True) * live[..., :, None]
    value_4 = value_3 * exists[..., None, :]
    del value_3
    value_5 = blocks.expand_age(gamma, row, halo_row, True) * live[..., :, None]
    value_6 = value_5 * exists_halo[..., None, :]
    del value_5
    total = (value_6 * blocks.band(row, halo_row, 0, 7, like)).sum(-1)
    combined = (value_4 * blocks.band(row, row, 0, 7, like)).sum(-1) + total
    # 1 / sum over the window of gamma
    window_mean = blocks.where(combined != 0.0, 1.0 / combined, 0.0)
    # Gamma: window gates by reader and source
    window_2 = value_4 * window_mean[..., :, None] * blocks.band(row, row, 0, 7, like)
    # p_C: last row of P
    last_weights = (value_2[..., :, None] * window_2).sum(-2)
    value_7 = k * last_weights[..., :, None]
    # (Q X^T) * P
    attention = saved_1 * saved_3
    product = torch.matmul(attention.mT, d_y)
    del attention
    value_8 = 1.0 - torch.tanh(saved_4 - v) * torch.tanh(saved_4 - v)
    # Gamma: window gates by reader and source
    window_halo = value_6 * window_mean[..., :, None] * blocks.band(row, halo_row, 0, 7, like)
    # p_C: last row of P
    last_weights_halo = (value_2[..., :, None] * window_halo).sum(-2)
    value_9 = k_halo * last_weights_halo[..., :, None]
    # (Q X^T) * P
    attention_halo = saved_5 * saved_6
    product_2 = torch.matmul(attention_halo.mT, d_y)
    del attention_halo
    value_10 = 1.0 - torch.tanh(saved_7 - v_halo) * torch.tanh(saved_7 - v_halo)
    # a_C: decay of the memory over the block
    kept = blocks.decay_whole(log_alpha_sums)
    product_3 = torch.matmul(q.mT, value)
    d_memory_next_like = d_memory_next
    d_memory_next = d_memory_next.flatten(0, 1)
    d_memory_next_list = []
    kept_d_errors = []
    kept_d_predictions = []
    kept_d_errors_halo = []
    kept_d_predictions_halo = []
    sum_0 = 0.0
    k_halo_each = blocks.each(k_halo, count, d_memory_next_like)
    k_each = blocks.each(k, count, d_memory_next_like)
    value_7_each = blocks.each(value_7, count, d_memory_next_like)
    del value_7
    product_each = blocks.each(product, count, d_memory_next_like)
    del product
    value_8_each = blocks.each(value_8, count, d_memory_next_like)
    del value_8
    value_9_each = blocks.each(value_9, count, d_memory_next_like)
    del value_9
    product_2_each = blocks.each(product_2, count, d_memory_next_like)
    del product_2
    value_10_each = blocks.each(value_10, count, d_memory_next_like)
    del value_10
    kept_each = blocks.each(kept, count, d_memory_next_like)
    d_anchor_each = blocks.each(d_anchor, count, d_memory_next_like)
    product_3_each = blocks.each(product_3, count, d_memory_next_like)
    del product_3
    for block in reversed(range(count)):
        d_memory_next_list.append(d_memory_next)
        d_errors = torch.baddbmm(product_each[block], value_7_each[block], d_memory_next, beta=-1, alpha=-1)
        d_predictions = d_errors * value_8_each[block]
        d_errors_halo = torch.baddbmm(
            product_2_each[block],
            value_9_each[block],
            d_memory_next,
            beta=-1,
            alpha=-1,
        )
        d_predictions_halo = d_errors_halo * value_10_each[block]
        d_anchor_point = torch.baddbmm(
            torch.baddbmm(d_anchor_each[block], k_halo_each[block].mT, d_predictions_halo),
            k_each[block].mT,
            d_predictions,
        )
        at_border = blocks.when_start(d_anchor_point, False, resumed, block)
        value_11 = d_memory_next * kept_each[block][..., None, None]
        combined_2 = value_11 + at_border + product_3_each[block]
        at_border_2 = blocks.when_start(d_anchor_point, True, resumed, block)
        kept_d_errors.append(d_errors)
        kept_d_predictions.append(d_predictions)
        kept_d_errors_halo.append(d_errors_halo)
        kept_d_predictions_halo.append(d_predictions_halo)
        sum_0 = sum_0 + at_border_2
        d_memory_next = combined_2
    del d_anchor_each, k_each, k_halo_each, kept_each, product_2_each, product_3_each
    del product_each, value_10_each, value_7_each, value_8_each, value_9_each
    block = None
    d_memory_next_final = d_memory_next.unflatten(0, d_memory_next_like.shape[:2])
    d_memory_next_blocks = blocks.stack(d_memory_next_list[::-1], d_memory_next_like)
    del d_memory_next_list
    d_errors_2 = blocks.stack(kept_d_errors[::-1], d_memory_next_like)
    del kept_d_errors
    d_predictions_2 = blocks.stack(kept_d_predictions[::-1], d_memory_next_like)
    del kept_d_predictions
    d_errors_halo_2 = blocks.stack(kept_d_errors_halo[::-1], d_memory_next_like)
    del kept_d_errors_halo
    d_predictions_halo_2 = blocks.stack(kept_d_predictions_halo[::-1], d_memory_next_like)
    del kept_d_predictions_halo
    product_4 = torch.matmul(value, memory.mT)
    del value
    # E = dl/dpred at the block's M*
    errors_halo = torch.tanh(saved_7 - v_halo)
    product_5 = torch.matmul(d_y, errors_halo.mT)
    value_12 = product_5 * saved_6
    # E = dl/dpred at the block's M*
    errors = torch.tanh(saved_4 - v)
    product_6 = torch.matmul(d_y, errors.mT)
    value_13 = product_6 * saved_3
    combined_3 = blocks.add_product(blocks.add_product(product_4, value_12, k_halo, -1), value_13, k, -1)
    del product_4
    d_read_decay = (d_y * saved_0).sum(-1)
    running = blocks.cumsum(d_read_decay * read_decay, -1, True, False)
    # M*: the memory at the last border
    anchor_point = blocks.at_start(anchor, memory, resumed, block)
    product_7 = torch.matmul(d_predictions_2, anchor_point.mT)
    del d_predictions_2
    product_8 = torch.matmul(errors, d_memory_next_blocks.mT)
    del errors
    value_14 = product_8 * last_weights[..., :, None]
    combined_4 = blocks.add_product(product_7 - value_14, value_13.mT, q, -1)
    del product_7, value_13, value_14
    product_9 = torch.matmul(errors_halo, d_memory_next_blocks.mT)
    del errors_halo
    total_2 = (product_9 * k_halo).sum(-1)
    product_10 = (total_2[..., None, :] * window_halo).sum(-1)
    total_3 = (product_8 * k).sum(-1)
    del product_8
    product_11 = (total_3[..., None, :] * window_2).sum(-1)
    combined_5 = -product_10 - product_11
    running_2 = blocks.cumsum(combined_5 * lr * until_end, -1, False, True)
    value_15 = product_5 * saved_5
    del product_5
    product_12 = torch.matmul(value_15, window_halo.mT)
    del window_halo
    value_16 = product_6 * saved_1
    del product_6
    product_13 = torch.matmul(value_16, window_2.mT)
    del window_2
    value_17 = (-product_12 - product_13) * saved_2
    del product_12, product_13
    banded = value_17 * lr[..., None, :] * blocks.band(row, row, 1, None, like)
    banded_2 = blocks.cumsum(banded, -1, False, True) * blocks.band(row, row, 0, None, like)
    del banded
    combined_6 = running_2 + banded_2.sum(-2)
    del banded_2
    combined_7 = combined_5 * until_end + value_17.sum(-2)
    del value_17
    value_18 = saved_2 * lr[..., None, :]
    product_14 = torch.matmul(value_18.mT, value_15)
    del value_15
    d_window_halo = -(total_2[..., None, :] * value_2[..., :, None]) - product_14
    del product_14
    value_19 = d_window_halo * window_mean[..., :, None]
    banded_3 = d_window_halo * value_6 * blocks.band(row, halo_row, 0, 7, like)
    del d_window_halo, value_6
    product_15 = torch.matmul(value_18.mT, value_16)
    del value_16, value_18
    d_window = -(total_3[..., None, :] * value_2[..., :, None]) - product_15
    del product_15
    total_4 = (d_window * value_4 * blocks.band(row, row, 0, 7, like)).sum(-1)
    del value_4
    d_window_mean = banded_3.sum(-1) + total_4
    del banded_3
    value_20 = blocks.where(combined != 0.0, -(1.0 / (combined * combined)), 0.0)
    value_21 = d_window_mean * value_20
    banded_4 = value_21[..., :, None] * blocks.band(row, halo_row, 0, 7, like)
    combined_8 = value_19 * blocks.band(row, halo_row, 0, 7, like) + banded_4
    del banded_4, value_19
    value_22 = combined_8 * exists_halo[..., None, :] * live[..., :, None]
    del combined_8
    banded_5 = d_window * window_mean[..., :, None] * blocks.band(row, row, 0, 7, like)
    del d_window
    combined_9 = banded_5 + value_21[..., :, None] * blocks.band(row, row, 0, 7, like)
    del banded_5
    value_23 = combined_9 * exists[..., None, :] * live[..., :, None]
    del combined_9
    collect_age = blocks.collect_age(value_22, row, halo_row, window)
    del value_22
    combined_10 = collect_age + blocks.collect_age(value_23, row, row, window)
    del collect_age, value_23
    value_24 = torch.tanh(saved_4 - v) * torch.tanh(saved_4 - v) - 1.0
    value_25 = d_errors_2 * value_24
    del d_errors_2, value_24
    product_16 = torch.matmul(d_predictions_halo_2, anchor_point.mT)
    del anchor_point, d_predictions_halo_2
    value_26 = product_9 * last_weights_halo[..., :, None]
    del product_9
    combined_11 = blocks.add_product(product_16 - value_26, value_12.mT, q, -1)
    del product_16, value_12, value_26
    value_27 = torch.tanh(saved_7 - v_halo) * torch.tanh(saved_7 - v_halo) - 1.0
    value_28 = d_errors_halo_2 * value_27
    del d_errors_halo_2, value_27
    d_kept = (d_memory_next_blocks * memory).sum(-2).sum(-1)
    value_29 = d_kept * kept
    del kept
    return {
        "part_0": combined_3,
        "part_1": running,
        "part_2": combined_4,
        "part_3": combined_6,
        "part_4": combined_7,
        "part_5": combined_10,
        "part_6": value_25,
        "part_7": combined_11,
        "part_8": value_28,
        "part_9": value_29,
        "sum_0": sum_0,
        "d_memory": d_memory_next_final,
        "d_memory_blocks": d_memory_next_blocks,
    }

"""The memory rule rwkv7 as a torch program: `forward` and `backward` of all blocks.

Arrays are [B, H, N, ...] over N blocks; `blocks` is atlasgen.runtime.blocks.
Rule 66b50a33ed77, schedule wy, generator 1. Written by `atlasgen build`; edit the spec, not this file.
"""

import torch


def forward(blocks, count, rows, halo, window, resumed, log_alpha, q, memory, k, live, v, kk, a):
    """The loop over blocks, then the reads of all blocks."""
    like = log_alpha
    row, halo_row = blocks.positions(rows, halo, False)
    block = None  # all blocks at once
    # P: source weights by read
    weights = live * live
    value = kk * a
    log_alpha_sums = blocks.running(log_alpha.mT)
    decayed_scores = blocks.channels.scores(kk, value, log_alpha_sums, True)
    product = torch.matmul(kk, value.mT)
    banded = decayed_scores * blocks.band(row, row, 2, None, like)
    del decayed_scores
    # Q X^T
    scores = banded + product * blocks.band(row, row, 1, 1, like)
    del banded, product
    # (Q X^T) * P
    attention = scores * weights[..., None, :]
    del scores
    # (I + A)^-1
    inverse = blocks.unit_inverse(attention, True)
    del attention
    # a: decay of the memory since the block's start
    read_decay = blocks.decay_from_start(log_alpha_sums, True).mT
    value_2 = read_decay * kk
    del read_decay
    decayed_scores_2 = blocks.channels.scores(kk, k, log_alpha_sums, True)
    product_2 = torch.matmul(kk, k.mT)
    banded_2 = decayed_scores_2 * blocks.band(row, row, 2, None, like)
    del decayed_scores_2
    # Q X^T
    scores_2 = banded_2 + product_2 * blocks.band(row, row, 1, 1, like)
    del banded_2, product_2
    # (Q X^T) * P
    attention_2 = scores_2 * weights[..., None, :]
    del scores_2
    product_3 = torch.matmul(attention_2, v)
    # a_C: decay of the memory over the block
    kept = blocks.decay_whole(log_alpha_sums)
    # p_C: last row of P
    last_weights = blocks.decay_to_end(log_alpha_sums).mT * live[..., :, None]
    product_4 = torch.matmul((last_weights * k).mT, v)
    value_3 = last_weights * value
    del last_weights
    memory_like = memory
    memory = memory.flatten(0, 1)
    memory_list = []
    kept_errors = []
    inverse_each = blocks.each(inverse, count, memory_like)
    value_2_each = blocks.each(value_2, count, memory_like)
    del value_2
    product_3_each = blocks.each(product_3, count, memory_like)
    del product_3
    kept_each = blocks.each(kept, count, memory_like)
    del kept
    product_4_each = blocks.each(product_4, count, memory_like)
    del product_4
    value_3_each = blocks.each(value_3, count, memory_like)
    del value_3
    for block in range(count):
        memory_list.append(memory)
        # what the block's start predicts for each key
        predictions_given = torch.baddbmm(product_3_each[block], value_2_each[block], memory)
        # E = (I + A)^-1 R
        errors = torch.matmul(inverse_each[block].mT, predictions_given)
        value_4 = memory * kept_each[block][..., :, None]
        # M at the end
        memory_next = torch.baddbmm(value_4 + product_4_each[block], value_3_each[block].mT, errors, alpha=-1)
        kept_errors.append(errors)
        memory = memory_next
    del inverse_each, kept_each, product_3_each, product_4_each, value_2_each, value_3_each
    block = None
    memory_final = memory.unflatten(0, memory_like.shape[:2])
    memory_blocks = blocks.stack(memory_list, memory_like)
    del memory_list
    errors_2 = blocks.stack(kept_errors, memory_like)
    del kept_errors
    # a: decay of the memory since the block's start
    read_decay_2 = blocks.decay_from_start(log_alpha_sums, False).mT
    product_5 = torch.matmul(read_decay_2 * q, memory_blocks)
    del read_decay_2
    banded_3 = (q * k).sum(-1)[..., :, None] * blocks.band(row, row, 0, 0, like)
    # Q X^T
    scores_3 = blocks.channels.scores(q, k, log_alpha_sums, False) + banded_3
    del banded_3
    # (Q X^T) * P
    attention_3 = scores_3 * weights[..., None, :]
    del scores_3
    banded_4 = (q * kk * a).sum(-1)[..., :, None] * blocks.band(row, row, 0, 0, like)
    # Q X^T
    scores_4 = blocks.channels.scores(q, value, log_alpha_sums, False) + banded_4
    del banded_4, value
    # (Q X^T) * P
    attention_4 = scores_4 * weights[..., None, :]
    del scores_4
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = blocks.add_product(blocks.add_product(product_5, attention_3, v, 1), attention_4, errors_2, -1)
    del product_5
    return {
        "y": reads,
        "saved_0": attention_3,
        "saved_1": attention_4,
        "saved_2": inverse,
        "saved_3": attention_2,
        "saved_4": errors_2,
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
    d_memory_next,
    log_alpha,
    live,
    kk,
    a,
    d_y,
    memory,
    q,
    k,
    v,
    saved_1,
    saved_2,
    saved_4,
    saved_3,
    saved_0,
):
    """The loop over blocks from the last to the first, then the gradients of all rows."""
    like = d_memory_next
    row, halo_row = blocks.positions(rows, halo, False)
    block = None  # all blocks at once
    log_alpha_sums = blocks.running(log_alpha.mT)
    until_end = blocks.decay_to_end(log_alpha_sums).mT
    # p_C: last row of P
    last_weights = until_end * live[..., :, None]
    value = kk * a
    value_2 = last_weights * value
    product = torch.matmul(saved_1.mT, d_y)
    # a: decay of the memory since the block's start
    read_decay = blocks.decay_from_start(log_alpha_sums, True).mT
    # a: decay of the memory since the block's start
    read_decay_2 = blocks.decay_from_start(log_alpha_sums, False).mT
    # a_C: decay of the memory over the block
    kept = blocks.decay_whole(log_alpha_sums)
    value_3 = read_decay * kk
    product_2 = torch.matmul((read_decay_2 * q).mT, d_y)
    d_memory_next_like = d_memory_next
    d_memory_next = d_memory_next.flatten(0, 1)
    d_memory_next_list = []
    kept_d_predictions_given = []
    value_2_each = blocks.each(value_2, count, d_memory_next_like)
    del value_2
    product_each = blocks.each(product, count, d_memory_next_like)
    del product
    saved_2_each = blocks.each(saved_2, count, d_memory_next_like)
    kept_each = blocks.each(kept, count, d_memory_next_like)
    value_3_each = blocks.each(value_3, count, d_memory_next_like)
    del value_3
    product_2_each = blocks.each(product_2, count, d_memory_next_like)
    del product_2
    for block in reversed(range(count)):
        d_memory_next_list.append(d_memory_next)
        d_errors = torch.baddbmm(product_each[block], value_2_each[block], d_memory_next, beta=-1, alpha=-1)
        d_predictions_given = torch.matmul(saved_2_each[block], d_errors)
        value_4 = d_memory_next * kept_each[block][..., :, None]
        combined = torch.baddbmm(value_4 + product_2_each[block], value_3_each[block].mT, d_predictions_given)
        kept_d_predictions_given.append(d_predictions_given)
        d_memory_next = combined
    del kept_each, product_2_each, product_each, saved_2_each, value_2_each, value_3_each
    block = None
    d_memory_next_final = d_memory_next.unflatten(0, d_memory_next_like.shape[:2])
    d_memory_next_blocks = blocks.stack(d_memory_next_list[::-1], d_memory_next_like)
    del d_memory_next_list
    d_predictions_given_2 = blocks.stack(kept_d_predictions_given[::-1], d_memory_next_like)
    del kept_d_predictions_given
    product_3 = torch.matmul(d_predictions_given_2, memory.mT)
    d_read_decay = product_3 * kk
    product_4 = torch.matmul(d_y, memory.mT)
    d_read_decay_2 = product_4 * q
    running = blocks.cumsum(d_read_decay_2 * read_decay_2, -2, True, False)
    del d_read_decay_2
    combined_2 = blocks.cumsum(d_read_decay * read_decay, -2, True, True) + running
    del d_read_decay, running
    product_5 = torch.matmul(d_y, saved_4.mT)
    # P: source weights by read
    weights = live * live
    value_5 = product_5 * weights[..., None, :]
    del product_5
    d_scores = -value_5
    decayed_rows = blocks.channels.mix(d_scores, value, log_alpha_sums, False, True)
    product_6 = (d_y * v).sum(-1)
    value_6 = product_6 * (live * live)
    d_attention = torch.matmul(d_y, v.mT)
    d_scores_2 = d_attention * weights[..., None, :]
    del d_attention
    decayed_rows_2 = blocks.channels.mix(d_scores_2, k, log_alpha_sums, False, True)
    total = (value_5 * blocks.band(row, row, 0, 0, like)).sum(-1)
    del value_5
    value_7 = a * total[..., :, None]
    value_8 = k * value_6[..., :, None]
    value_9 = product_4 * read_decay_2
    del product_4, read_decay_2
    combined_3 = decayed_rows + value_8 + decayed_rows_2 + value_9 - value_7 * kk
    del value_8, value_9
    product_7 = torch.matmul(v, d_memory_next_blocks.mT)
    d_attention_2 = torch.matmul(d_predictions_given_2, v.mT)
    d_scores_3 = d_attention_2 * weights[..., None, :]
    del d_attention_2
    banded = d_scores_3 * blocks.band(row, row, 1, 1, like)
    banded_2 = d_scores_3 * blocks.band(row, row, 2, None, like)
    del d_scores_3
    decayed_rows_3 = blocks.channels.mix(banded_2, kk, log_alpha_sums, True, False)
    decayed_rows_4 = blocks.channels.mix(d_scores_2, q, log_alpha_sums, False, False)
    del d_scores_2
    value_10 = product_7 * last_weights
    combined_4 = blocks.add_product(value_10 + decayed_rows_3 + decayed_rows_4, banded.mT, kk, 1)
    del value_10
    d_kept = (d_memory_next_blocks * memory).sum(-1)
    decayed_rows_5 = blocks.channels.mix(banded_2, k, log_alpha_sums, True, True)
    del banded_2
    running_2 = blocks.cumsum(kk * decayed_rows_5, -2, True, True)
    combined_5 = running_2 - blocks.cumsum(k * decayed_rows_3, -2, True, False)
    del decayed_rows_3, running_2
    product_8 = torch.matmul(d_predictions_given_2, saved_4.mT)
    value_11 = product_8 * weights[..., None, :]
    del product_8
    value_12 = -(value_11 * blocks.band(row, row, 2, None, like))
    decayed_rows_6 = blocks.channels.mix(value_12, value, log_alpha_sums, True, True)
    decayed_rows_7 = blocks.channels.mix(value_12, kk, log_alpha_sums, True, False)
    del value_12
    running_3 = blocks.cumsum(value * decayed_rows_7, -2, True, False)
    combined_6 = blocks.cumsum(kk * decayed_rows_6, -2, True, True) - running_3
    del running_3
    decayed_rows_8 = blocks.channels.mix(d_scores, q, log_alpha_sums, False, False)
    del d_scores
    running_4 = blocks.cumsum(value * decayed_rows_8, -2, True, False)
    combined_7 = blocks.cumsum(q * decayed_rows, -2, True, False) - running_4
    del decayed_rows, running_4
    running_5 = blocks.cumsum(q * decayed_rows_2, -2, True, False)
    del decayed_rows_2
    combined_8 = running_5 - blocks.cumsum(k * decayed_rows_4, -2, True, False)
    del decayed_rows_4, running_5
    value_13 = d_kept * kept
    del kept
    combined_9 = value_13[..., None, :] + combined_5 + combined_6 + combined_7 + combined_8
    del combined_5, combined_6, combined_7, combined_8
    value_14 = q * value_6[..., :, None]
    product_9 = torch.matmul(last_weights * k, d_memory_next_blocks)
    combined_10 = blocks.add_product(
        blocks.add_product(product_9, saved_3.mT, d_predictions_given_2, 1),
        saved_0.mT,
        d_y,
        1,
    )
    del d_predictions_given_2, product_9
    banded_3 = value_11 * blocks.band(row, row, 1, 1, like)
    del value_11
    product_10 = torch.matmul(saved_4, d_memory_next_blocks.mT)
    value_15 = product_10 * last_weights
    del last_weights
    combined_11 = blocks.add_product(decayed_rows_7 + decayed_rows_8 - value_15, banded_3.mT, kk, -1)
    del decayed_rows_7, decayed_rows_8, value_15
    value_16 = combined_11 * a
    value_17 = combined_11 * kk
    del combined_11
    value_18 = product_3 * read_decay
    del product_3, read_decay
    value_19 = value_7 * q
    del value_7
    combined_12 = blocks.add_product(
        blocks.add_product(decayed_rows_5 + value_18 + decayed_rows_6 - value_19, banded, k, 1),
        banded_3,
        value,
        -1,
    )
    del banded, banded_3, decayed_rows_5, decayed_rows_6, value_18, value_19
    value_20 = -(q * kk * total[..., :, None])
    d_last_weights = product_7 * k - product_10 * value
    del product_10, product_7, value
    value_21 = d_last_weights * until_end * live[..., :, None]
    del d_last_weights, until_end
    running_6 = blocks.cumsum(value_21, -2, False, True)
    del value_21
    return {
        "part_0": combined_2,
        "part_1": combined_3,
        "part_2": combined_4,
        "part_3": combined_9,
        "part_4": value_14,
        "part_5": combined_10,
        "part_6": value_16,
        "part_7": value_17,
        "part_8": combined_12,
        "part_9": value_20,
        "part_10": running_6,
        "d_memory": d_memory_next_final,
        "d_memory_blocks": d_memory_next_blocks,
    }

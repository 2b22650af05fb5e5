"""The memory rule atlas_chunk as a torch program: `forward` and `backward` of all blocks.

Arrays are [B, H, N, ...] over N blocks; `blocks` is atlasgen.runtime.blocks.
Rule b9f369080834, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
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
    border,
    momentum_W1,
    log_theta,
    update_W1,
    k_sources,
    live,
    gamma_sources,
    exists_sources,
    memory_W2,
    v_sources,
    lr,
    border_at_border,
    origin_W2,
    momentum_W2,
    update_W2,
):
    """The loop over blocks, then the reads of all blocks."""
    like = q
    row, halo_row = blocks.positions(rows, halo, True)
    block = None  # all blocks at once
    total = (torch.exp(log_alpha) * border).sum(-1)
    total_2 = (torch.exp(log_theta) * border).sum(-1)
    # X = phi(k)
    features = 0.5 * (k_sources * k_sources) + k_sources
    product = torch.matmul(live, blocks.band(row, halo_row, 0, 15, like))
    value = product * gamma_sources * exists_sources
    value_2 = features * value[..., :, None]
    rename = features
    total_3 = (lr * border).sum(-1)
    memory_W1_like = memory_W1
    memory_W1 = memory_W1.flatten(0, 1)
    memory_W1_list = []
    update_W1_like = update_W1
    update_W1 = update_W1.flatten(0, 1)
    update_W1_list = []
    momentum_W1_like = momentum_W1
    momentum_W1 = momentum_W1.flatten(0, 1)
    momentum_W1_list = []
    memory_W2_like = memory_W2
    memory_W2 = memory_W2.flatten(0, 1)
    memory_W2_list = []
    update_W2_like = update_W2
    update_W2 = update_W2.flatten(0, 1)
    update_W2_list = []
    momentum_W2_like = momentum_W2
    momentum_W2 = momentum_W2.flatten(0, 1)
    momentum_W2_list = []
    kept_value = []
    kept_errors = []
    kept_value_2 = []
    kept_momentum_W1_next = []
    kept_value_3 = []
    kept_value_4 = []
    kept_momentum_W2_next = []
    kept_value_5 = []
    kept_value_6 = []
    origin_W1_each = blocks.each(origin_W1, count, memory_W1_like)
    total_each = blocks.each(total, count, memory_W1_like)
    del total
    total_2_each = blocks.each(total_2, count, memory_W1_like)
    del total_2
    features_each = blocks.each(features, count, memory_W1_like)
    del features
    value_each = blocks.each(value, count, memory_W1_like)
    del value
    value_2_each = blocks.each(value_2, count, memory_W1_like)
    del value_2
    rename_each = blocks.each(rename, count, memory_W1_like)
    del rename
    v_sources_each = blocks.each(v_sources, count, memory_W1_like)
    total_3_each = blocks.each(total_3, count, memory_W1_like)
    del total_3
    border_at_border_each = blocks.each(border_at_border, count, memory_W1_like)
    origin_W2_each = blocks.each(origin_W2, count, memory_W1_like)
    for block in range(count):
        memory_W1_list.append(memory_W1)
        update_W1_list.append(update_W1)
        momentum_W1_list.append(momentum_W1)
        memory_W2_list.append(memory_W2)
        update_W2_list.append(update_W2)
        momentum_W2_list.append(momentum_W2)
        value_3 = (memory_W1 - origin_W1_each[block]) * total_each[block][..., None, None]
        product_2 = torch.matmul(features_each[block], memory_W1)
        value_4 = torch.nn.functional.gelu(product_2)
        # pred = f(M*, phi(k))
        predictions = torch.baddbmm(rename_each[block], value_4, memory_W2)
        # E = dl/dpred at the block's M*
        errors = predictions - v_sources_each[block]
        product_3 = torch.matmul(errors, memory_W2.mT)
        # the error that reaches the output of W1
        errors_W1 = product_3 * blocks.gelu_slope(product_2)
        # A: the block's gradients so far
        update_W1_total = torch.baddbmm(update_W1, value_2_each[block].mT, errors_W1)
        # S at the end of the block
        momentum_W1_next = momentum_W1 * total_2_each[block][..., None, None] + update_W1_total
        orthogonal = blocks.newton_schulz.forward(
            momentum_W1_next,
            (
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
            ),
        )
        value_5 = orthogonal * total_3_each[block][..., None, None]
        # M at the end
        memory_W1_next = value_3 + origin_W1_each[block] - value_5
        value_6 = blocks.where(border_at_border_each[block][..., None, None] > 0.0, memory_W1_next, memory_W1)
        value_7 = (memory_W2 - origin_W2_each[block]) * total_each[block][..., None, None]
        # A: the block's gradients so far
        update_W2_total = torch.baddbmm(update_W2, (value_4 * value_each[block][..., :, None]).mT, errors)
        # S at the end of the block
        momentum_W2_next = momentum_W2 * total_2_each[block][..., None, None] + update_W2_total
        orthogonal_2 = blocks.newton_schulz.forward(
            momentum_W2_next,
            (
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
            ),
        )
        value_8 = orthogonal_2 * total_3_each[block][..., None, None]
        # M at the end
        memory_W2_next = value_7 + origin_W2_each[block] - value_8
        value_9 = blocks.where(border_at_border_each[block][..., None, None] > 0.0, memory_W2_next, memory_W2)
        value_10 = blocks.where(border_at_border_each[block][..., None, None] > 0.0, 0.0, update_W1_total)
        value_11 = blocks.where(
            border_at_border_each[block][..., None, None] > 0.0,
            momentum_W1_next,
            momentum_W1,
        )
        value_12 = blocks.where(border_at_border_each[block][..., None, None] > 0.0, 0.0, update_W2_total)
        value_13 = blocks.where(
            border_at_border_each[block][..., None, None] > 0.0,
            momentum_W2_next,
            momentum_W2,
        )
        kept_value.append(product_2)
        kept_errors.append(errors)
        kept_value_2.append(product_3)
        kept_momentum_W1_next.append(momentum_W1_next)
        kept_value_3.append(orthogonal)
        kept_value_4.append(value_6)
        kept_momentum_W2_next.append(momentum_W2_next)
        kept_value_5.append(orthogonal_2)
        kept_value_6.append(value_9)
        memory_W1, update_W1, momentum_W1, memory_W2, update_W2, momentum_W2 = (
            value_6,
            value_10,
            value_11,
            value_9,
            value_12,
            value_13,
        )
    del border_at_border_each, features_each, origin_W1_each, origin_W2_each, rename_each
    del total_2_each, total_3_each, total_each, v_sources_each, value_2_each, value_each
    block = None
    memory_W1_final = memory_W1.unflatten(0, memory_W1_like.shape[:2])
    memory_W1_blocks = blocks.stack(memory_W1_list, memory_W1_like)
    del memory_W1_list
    update_W1_final = update_W1.unflatten(0, update_W1_like.shape[:2])
    update_W1_blocks = blocks.stack(update_W1_list, update_W1_like)
    del update_W1_list
    momentum_W1_final = momentum_W1.unflatten(0, momentum_W1_like.shape[:2])
    momentum_W1_blocks = blocks.stack(momentum_W1_list, momentum_W1_like)
    del momentum_W1_list
    memory_W2_final = memory_W2.unflatten(0, memory_W2_like.shape[:2])
    memory_W2_blocks = blocks.stack(memory_W2_list, memory_W2_like)
    del memory_W2_list
    update_W2_final = update_W2.unflatten(0, update_W2_like.shape[:2])
    update_W2_blocks = blocks.stack(update_W2_list, update_W2_like)
    del update_W2_list
    momentum_W2_final = momentum_W2.unflatten(0, momentum_W2_like.shape[:2])
    momentum_W2_blocks = blocks.stack(momentum_W2_list, momentum_W2_like)
    del momentum_W2_list
    kept_value_all = blocks.stack(kept_value, memory_W1_like)
    del kept_value
    errors_2 = blocks.stack(kept_errors, memory_W1_like)
    del kept_errors
    kept_value_2_all = blocks.stack(kept_value_2, memory_W1_like)
    del kept_value_2
    momentum_W1_next_2 = blocks.stack(kept_momentum_W1_next, memory_W1_like)
    del kept_momentum_W1_next
    kept_value_3_all = blocks.stack(kept_value_3, memory_W1_like)
    del kept_value_3
    kept_value_4_all = blocks.stack(kept_value_4, memory_W1_like)
    del kept_value_4
    momentum_W2_next_2 = blocks.stack(kept_momentum_W2_next, memory_W1_like)
    del kept_momentum_W2_next
    kept_value_5_all = blocks.stack(kept_value_5, memory_W1_like)
    del kept_value_5
    kept_value_6_all = blocks.stack(kept_value_6, memory_W1_like)
    del kept_value_6
    # phi(q)
    queries = 0.5 * (q * q) + q
    product_4 = torch.matmul(queries, kept_value_4_all)
    del kept_value_4_all
    product_5 = torch.matmul(queries, memory_W1_blocks)
    value_14 = blocks.where(border[..., :, None] > 0.0, product_4, product_5)
    del product_4, product_5
    value_15 = torch.nn.functional.gelu(value_14)
    product_6 = torch.matmul(value_15, kept_value_6_all)
    del kept_value_6_all
    product_7 = torch.matmul(value_15, memory_W2_blocks)
    del value_15
    value_16 = blocks.where(border[..., :, None] > 0.0, product_6, product_7)
    del product_6, product_7
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = value_16 + queries
    del queries, value_16
    return {
        "y": reads,
        "saved_0": kept_value_all,
        "saved_1": errors_2,
        "saved_2": kept_value_2_all,
        "saved_3": momentum_W1_next_2,
        "saved_4": kept_value_3_all,
        "saved_5": value_14,
        "saved_6": momentum_W2_next_2,
        "saved_7": kept_value_5_all,
        "memory_W1": memory_W1_final,
        "update_W1": update_W1_final,
        "momentum_W1": momentum_W1_final,
        "memory_W2": memory_W2_final,
        "update_W2": update_W2_final,
        "momentum_W2": momentum_W2_final,
        "memory_W1_blocks": memory_W1_blocks,
        "update_W1_blocks": update_W1_blocks,
        "momentum_W1_blocks": momentum_W1_blocks,
        "memory_W2_blocks": memory_W2_blocks,
        "update_W2_blocks": update_W2_blocks,
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
    border,
    memory_W2,
    origin_W2,
    log_alpha,
    lr,
    border_at_border,
    memory_W1,
    origin_W1,
    q,
    d_memory_W2_next,
    d_memory_W1_next,
    log_theta,
    d_momentum_W2_next,
    momentum_W2,
    d_momentum_W1_next,
    momentum_W1,
    d_update_W2_next,
    live,
    gamma_sources,
    exists_sources,
    d_update_W1_next,
    k_sources,
    saved_7,
    saved_5,
    saved_4,
    saved_6,
    saved_3,
    saved_0,
    saved_2,
    saved_1,
):
    """The loop over blocks from the last to the first, then the gradients of all rows."""
    like = d_y
    row, halo_row = blocks.positions(rows, halo, True)
    block = None  # all blocks at once
    value = blocks.where(border > 0.0, 0.0, 1.0)
    value_2 = d_y * value[..., :, None]
    product = torch.matmul(value_2, memory_W2.mT)
    value_3 = blocks.where(border > 0.0, 1.0, 0.0)
    value_4 = d_y * value_3[..., :, None]
    combined = memory_W2 - origin_W2
    value_5 = torch.exp(log_alpha)
    total = (value_5 * border).sum(-1)
    total_2 = (lr * border).sum(-1)
    value_6 = saved_7 * total_2[..., None, None]
    # M at the end
    memory_W2_next = combined * total[..., None, None] + origin_W2 - value_6
    del value_6
    value_7 = blocks.where(border_at_border[..., None, None] > 0.0, memory_W2_next, memory_W2)
    del memory_W2_next
    value_8 = blocks.add_product(product, value_4, value_7.mT, 1) * blocks.gelu_slope(saved_5)
    del product, value_7
    value_9 = value_8 * value[..., :, None]
    value_10 = value_8 * value_3[..., :, None]
    del value_8
    value_11 = torch.nn.functional.gelu(saved_5)
    product_2 = torch.matmul(value_11.mT, value_4)
    del value_4
    value_12 = blocks.where(border_at_border > 0.0, 1.0, 0.0)
    # phi(q)
    queries = 0.5 * (q * q) + q
    product_3 = torch.matmul(queries.mT, value_10)
    value_13 = torch.exp(log_theta)
    value_14 = blocks.where(border_at_border > 0.0, 0.0, 1.0)
    value_15 = torch.nn.functional.gelu(saved_0)
    product_4 = torch.matmul(live, blocks.band(row, halo_row, 0, 15, like))
    value_16 = product_4 * gamma_sources * exists_sources
    value_17 = value_15 * value_16[..., :, None]
    # X = phi(k)
    features = 0.5 * (k_sources * k_sources) + k_sources
    value_18 = features * value_16[..., :, None]
    value_19 = blocks.gelu_slope(saved_0)
    value_20 = 0.3989422804014327 * (2.0 - saved_0 * saved_0) * torch.exp(-0.5 * (saved_0 * saved_0))
    product_5 = torch.matmul(queries.mT, value_9)
    del queries
    total_3 = (value_13 * border).sum(-1)
    product_6 = torch.matmul(value_11.mT, value_2)
    del value_11, value_2
    d_memory_W1_next_like = d_memory_W1_next
    d_memory_W1_next = d_memory_W1_next.flatten(0, 1)
    d_memory_W1_next_list = []
    d_update_W1_next_like = d_update_W1_next
    d_update_W1_next = d_update_W1_next.flatten(0, 1)
    d_update_W1_next_list = []
    d_momentum_W1_next_like = d_momentum_W1_next
    d_momentum_W1_next = d_momentum_W1_next.flatten(0, 1)
    d_momentum_W1_next_list = []
    d_memory_W2_next_like = d_memory_W2_next
    d_memory_W2_next = d_memory_W2_next.flatten(0, 1)
    d_memory_W2_next_list = []
    d_update_W2_next_like = d_update_W2_next
    d_update_W2_next = d_update_W2_next.flatten(0, 1)
    d_update_W2_next_list = []
    d_momentum_W2_next_like = d_momentum_W2_next
    d_momentum_W2_next = d_momentum_W2_next.flatten(0, 1)
    d_momentum_W2_next_list = []
    kept_d_momentum_W2_next = []
    kept_d_momentum_W1_next = []
    kept_d_update_W1_total = []
    kept_d_errors = []
    kept_value = []
    kept_value_2 = []
    sum_0 = 0.0
    sum_1 = 0.0
    memory_W2_each = blocks.each(memory_W2, count, d_memory_W1_next_like)
    total_each = blocks.each(total, count, d_memory_W1_next_like)
    total_2_each = blocks.each(total_2, count, d_memory_W1_next_like)
    product_2_each = blocks.each(product_2, count, d_memory_W1_next_like)
    value_12_each = blocks.each(value_12, count, d_memory_W1_next_like)
    product_3_each = blocks.each(product_3, count, d_memory_W1_next_like)
    saved_6_each = blocks.each(saved_6, count, d_memory_W1_next_like)
    saved_3_each = blocks.each(saved_3, count, d_memory_W1_next_like)
    value_14_each = blocks.each(value_14, count, d_memory_W1_next_like)
    del value_14
    value_15_each = blocks.each(value_15, count, d_memory_W1_next_like)
    value_16_each = blocks.each(value_16, count, d_memory_W1_next_like)
    value_17_each = blocks.each(value_17, count, d_memory_W1_next_like)
    del value_17
    features_each = blocks.each(features, count, d_memory_W1_next_like)
    value_18_each = blocks.each(value_18, count, d_memory_W1_next_like)
    del value_18
    value_19_each = blocks.each(value_19, count, d_memory_W1_next_like)
    saved_2_each = blocks.each(saved_2, count, d_memory_W1_next_like)
    value_20_each = blocks.each(value_20, count, d_memory_W1_next_like)
    del value_20
    saved_1_each = blocks.each(saved_1, count, d_memory_W1_next_like)
    product_5_each = blocks.each(product_5, count, d_memory_W1_next_like)
    del product_5
    total_3_each = blocks.each(total_3, count, d_memory_W1_next_like)
    del total_3
    product_6_each = blocks.each(product_6, count, d_memory_W1_next_like)
    del product_6
    for block in reversed(range(count)):
        d_memory_W1_next_list.append(d_memory_W1_next)
        d_update_W1_next_list.append(d_update_W1_next)
        d_momentum_W1_next_list.append(d_momentum_W1_next)
        d_memory_W2_next_list.append(d_memory_W2_next)
        d_update_W2_next_list.append(d_update_W2_next)
        d_momentum_W2_next_list.append(d_momentum_W2_next)
        combined_2 = d_memory_W2_next + product_2_each[block]
        d_memory_W2_next_2 = combined_2 * value_12_each[block][..., None, None]
        combined_3 = d_memory_W1_next + product_3_each[block]
        d_memory_W1_next_2 = combined_3 * value_12_each[block][..., None, None]
        value_21 = -(d_memory_W2_next_2 * total_2_each[block][..., None, None])
        d_orthogonal = blocks.newton_schulz.backward(
            saved_6_each[block],
            value_21,
            (
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
            ),
        )
        d_momentum_W2_next_2 = d_momentum_W2_next * value_12_each[block][..., None, None] + d_orthogonal
        value_22 = -(d_memory_W1_next_2 * total_2_each[block][..., None, None])
        d_orthogonal_2 = blocks.newton_schulz.backward(
            saved_3_each[block],
            value_22,
            (
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
            ),
        )
        d_momentum_W1_next_2 = d_momentum_W1_next * value_12_each[block][..., None, None] + d_orthogonal_2
        value_23 = d_update_W2_next * value_14_each[block][..., None, None]
        d_update_W2_total = value_23 + d_momentum_W2_next_2
        product_7 = torch.matmul(value_17_each[block], d_update_W2_total)
        value_24 = d_update_W1_next * value_14_each[block][..., None, None]
        d_update_W1_total = value_24 + d_momentum_W1_next_2
        d_errors_W1 = torch.matmul(value_18_each[block], d_update_W1_total)
        value_25 = d_errors_W1 * value_19_each[block]
        d_errors = torch.baddbmm(product_7, value_25, memory_W2_each[block])
        product_8 = torch.matmul(saved_1_each[block], d_update_W2_total.mT)
        value_26 = product_8 * value_16_each[block][..., :, None]
        combined_4 = torch.baddbmm(value_26, d_errors, memory_W2_each[block].mT)
        value_27 = d_errors_W1 * saved_2_each[block] * value_20_each[block]
        combined_5 = value_27 + combined_4 * value_19_each[block]
        value_28 = d_memory_W1_next_2 * total_each[block][..., None, None]
        value_29 = combined_3 * value_14_each[block][..., None, None]
        combined_6 = torch.baddbmm(
            product_5_each[block] + value_29 + value_28,
            features_each[block].mT,
            combined_5,
        )
        value_30 = d_momentum_W1_next_2 * total_3_each[block][..., None, None]
        combined_7 = d_momentum_W1_next * value_14_each[block][..., None, None] + value_30
        value_31 = d_memory_W2_next_2 * total_each[block][..., None, None]
        value_32 = combined_2 * value_14_each[block][..., None, None]
        combined_8 = torch.baddbmm(
            torch.baddbmm(product_6_each[block] + value_32 + value_31, value_25.mT, saved_1_each[block]),
            value_15_each[block].mT,
            d_errors,
        )
        value_33 = d_momentum_W2_next_2 * total_3_each[block][..., None, None]
        combined_9 = d_momentum_W2_next * value_14_each[block][..., None, None] + value_33
        combined_10 = d_memory_W1_next_2 - value_28
        combined_11 = d_memory_W2_next_2 - value_31
        kept_d_momentum_W2_next.append(d_momentum_W2_next_2)
        kept_d_momentum_W1_next.append(d_momentum_W1_next_2)
        kept_d_update_W1_total.append(d_update_W1_total)
        kept_d_errors.append(d_errors)
        kept_value.append(product_8)
        kept_value_2.append(combined_5)
        sum_0 = sum_0 + combined_10
        sum_1 = sum_1 + combined_11
        (
            d_memory_W1_next,
            d_update_W1_next,
            d_momentum_W1_next,
            d_memory_W2_next,
            d_update_W2_next,
            d_momentum_W2_next,
        ) = (combined_6, d_update_W1_total, combined_7, combined_8, d_update_W2_total, combined_9)
    del features_each, memory_W2_each, product_2_each, product_3_each, product_5_each
    del product_6_each, saved_1_each, saved_2_each, saved_3_each, saved_6_each, total_2_each
    del total_3_each, total_each, value_12_each, value_14_each, value_15_each, value_16_each
    del value_17_each, value_18_each, value_19_each, value_20_each
    block = None
    d_memory_W1_next_final = d_memory_W1_next.unflatten(0, d_memory_W1_next_like.shape[:2])
    d_memory_W1_next_blocks = blocks.stack(d_memory_W1_next_list[::-1], d_memory_W1_next_like)
    del d_memory_W1_next_list
    d_update_W1_next_final = d_update_W1_next.unflatten(0, d_update_W1_next_like.shape[:2])
    d_update_W1_next_blocks = blocks.stack(d_update_W1_next_list[::-1], d_update_W1_next_like)
    del d_update_W1_next_list
    d_momentum_W1_next_final = d_momentum_W1_next.unflatten(0, d_momentum_W1_next_like.shape[:2])
    d_momentum_W1_next_blocks = blocks.stack(d_momentum_W1_next_list[::-1], d_momentum_W1_next_like)
    del d_momentum_W1_next_list
    d_memory_W2_next_final = d_memory_W2_next.unflatten(0, d_memory_W2_next_like.shape[:2])
    d_memory_W2_next_blocks = blocks.stack(d_memory_W2_next_list[::-1], d_memory_W2_next_like)
    del d_memory_W2_next_list
    d_update_W2_next_final = d_update_W2_next.unflatten(0, d_update_W2_next_like.shape[:2])
    d_update_W2_next_blocks = blocks.stack(d_update_W2_next_list[::-1], d_update_W2_next_like)
    del d_update_W2_next_list
    d_momentum_W2_next_final = d_momentum_W2_next.unflatten(0, d_momentum_W2_next_like.shape[:2])
    d_momentum_W2_next_blocks = blocks.stack(d_momentum_W2_next_list[::-1], d_momentum_W2_next_like)
    del d_momentum_W2_next_list
    d_momentum_W2_next_3 = blocks.stack(kept_d_momentum_W2_next[::-1], d_memory_W1_next_like)
    del kept_d_momentum_W2_next
    d_momentum_W1_next_3 = blocks.stack(kept_d_momentum_W1_next[::-1], d_memory_W1_next_like)
    del kept_d_momentum_W1_next
    d_update_W1_total_2 = blocks.stack(kept_d_update_W1_total[::-1], d_memory_W1_next_like)
    del kept_d_update_W1_total
    d_errors_2 = blocks.stack(kept_d_errors[::-1], d_memory_W1_next_like)
    del kept_d_errors
    kept_value_all = blocks.stack(kept_value[::-1], d_memory_W1_next_like)
    del kept_value
    kept_value_2_all = blocks.stack(kept_value_2[::-1], d_memory_W1_next_like)
    del kept_value_2
    product_9 = torch.matmul(value_9, memory_W1.mT)
    del value_9
    combined_12 = memory_W1 - origin_W1
    value_34 = combined_12 * total[..., None, None]
    del total
    # M at the end
    memory_W1_next = value_34 + origin_W1 - saved_4 * total_2[..., None, None]
    del total_2, value_34
    value_35 = blocks.where(border_at_border[..., None, None] > 0.0, memory_W1_next, memory_W1)
    del memory_W1_next
    d_queries = blocks.add_product(d_y + product_9, value_10, value_35.mT, 1)
    del product_9, value_10, value_35
    value_36 = d_queries * (1.0 * q + 1.0)
    del d_queries
    combined_13 = d_memory_W2_next_blocks + product_2
    del product_2
    d_memory_W2_next_3 = combined_13 * value_12[..., None, None]
    del combined_13
    combined_14 = d_memory_W1_next_blocks + product_3
    del product_3
    d_memory_W1_next_3 = combined_14 * value_12[..., None, None]
    del combined_14, value_12
    total_4 = (d_memory_W1_next_3 * combined_12).sum(-2).sum(-1)
    del combined_12
    combined_15 = (d_memory_W2_next_3 * combined).sum(-2).sum(-1) + total_4
    del combined
    value_37 = border * value_5 * combined_15[..., None]
    total_5 = (d_momentum_W2_next_3 * momentum_W2).sum(-2).sum(-1)
    del d_momentum_W2_next_3
    combined_16 = total_5 + (d_momentum_W1_next_3 * momentum_W1).sum(-2).sum(-1)
    del d_momentum_W1_next_3
    value_38 = border * value_13 * combined_16[..., None]
    # the error that reaches the output of W1
    errors_W1 = saved_2 * value_19
    del value_19
    product_10 = torch.matmul(errors_W1, d_update_W1_total_2.mT)
    del d_update_W1_total_2, errors_W1
    value_39 = product_10 * value_16[..., :, None]
    del value_16
    d_features = blocks.add_product(d_errors_2 + value_39, kept_value_2_all, memory_W1.mT, 1)
    del kept_value_2_all, value_39
    value_40 = d_features * (1.0 * k_sources + 1.0)
    del d_features
    combined_17 = (kept_value_all * value_15).sum(-1) + (product_10 * features).sum(-1)
    del features, kept_value_all, product_10, value_15
    value_41 = combined_17 * exists_sources * product_4
    value_42 = -d_errors_2
    del d_errors_2
    total_6 = (d_memory_W2_next_3 * saved_7).sum(-2).sum(-1)
    del d_memory_W2_next_3
    combined_18 = -total_6 - (d_memory_W1_next_3 * saved_4).sum(-2).sum(-1)
    del d_memory_W1_next_3
    value_43 = border * combined_18[..., None]
    return {
        "part_0": value_36,
        "part_1": value_37,
        "part_2": value_38,
        "part_3": value_40,
        "part_4": value_41,
        "part_5": value_42,
        "part_6": value_43,
        "sum_0": sum_0,
        "sum_1": sum_1,
        "d_memory_W1": d_memory_W1_next_final,
        "d_update_W1": d_update_W1_next_final,
        "d_momentum_W1": d_momentum_W1_next_final,
        "d_memory_W2": d_memory_W2_next_final,
        "d_update_W2": d_update_W2_next_final,
        "d_momentum_W2": d_momentum_W2_next_final,
        "d_memory_W1_blocks": d_memory_W1_next_blocks,
        "d_update_W1_blocks": d_update_W1_next_blocks,
        "d_momentum_W1_blocks": d_momentum_W1_next_blocks,
        "d_memory_W2_blocks": d_memory_W2_next_blocks,
        "d_update_W2_blocks": d_update_W2_next_blocks,
        "d_momentum_W2_blocks": d_momentum_W2_next_blocks,
    }

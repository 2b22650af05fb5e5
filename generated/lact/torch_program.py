"""The memory rule lact as a torch program: `forward` and `backward` of all blocks.

Arrays are [B, H, N, ...] over N blocks; `blocks` is atlasgen.runtime.blocks.
Rule 8e1c823cbdd0, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
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
    memory_W0,
    memory_W2,
    memory_W1,
    v,
    k,
    momentum_W0,
    pool_theta,
    log_theta,
    live,
    update_W0,
    lr_W0,
    momentum_W1,
    update_W1,
    lr_W1,
    momentum_W2,
    update_W2,
    lr_W2,
    origin_W0,
    border_at_border,
    origin_W1,
    origin_W2,
):
    """The loop over blocks, then the reads of all blocks."""
    block = None  # all blocks at once
    total = (torch.exp(log_theta) * live).sum(-1)
    value = k * lr_W0[..., :, None]
    value_2 = k * lr_W2[..., :, None]
    value_3 = torch.sqrt((origin_W0 * origin_W0).sum(-2))
    value_4 = torch.sqrt((origin_W1 * origin_W1).sum(-2))
    value_5 = torch.sqrt((origin_W2 * origin_W2).sum(-2))
    memory_W0_like = memory_W0
    memory_W0 = memory_W0.flatten(0, 1)
    memory_W0_list = []
    update_W0_like = update_W0
    update_W0 = update_W0.flatten(0, 1)
    update_W0_list = []
    momentum_W0_like = momentum_W0
    momentum_W0 = momentum_W0.flatten(0, 1)
    momentum_W0_list = []
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
    pool_theta_like = pool_theta
    pool_theta = pool_theta.flatten(0, 1)
    pool_theta_list = []
    kept_value = []
    kept_value_2 = []
    kept_value_3 = []
    kept_momentum_W0_next = []
    kept_value_4 = []
    kept_momentum_W1_next = []
    kept_value_5 = []
    kept_momentum_W2_next = []
    kept_value_6 = []
    v_each = blocks.each(v, count, memory_W0_like)
    k_each = blocks.each(k, count, memory_W0_like)
    total_each = blocks.each(total, count, memory_W0_like)
    del total
    value_each = blocks.each(value, count, memory_W0_like)
    del value
    lr_W1_each = blocks.each(lr_W1, count, memory_W0_like)
    value_2_each = blocks.each(value_2, count, memory_W0_like)
    del value_2
    value_3_each = blocks.each(value_3, count, memory_W0_like)
    del value_3
    border_at_border_each = blocks.each(border_at_border, count, memory_W0_like)
    value_4_each = blocks.each(value_4, count, memory_W0_like)
    del value_4
    value_5_each = blocks.each(value_5, count, memory_W0_like)
    del value_5
    for block in range(count):
        memory_W0_list.append(memory_W0)
        update_W0_list.append(update_W0)
        momentum_W0_list.append(momentum_W0)
        memory_W1_list.append(memory_W1)
        update_W1_list.append(update_W1)
        momentum_W1_list.append(momentum_W1)
        memory_W2_list.append(memory_W2)
        update_W2_list.append(update_W2)
        momentum_W2_list.append(momentum_W2)
        pool_theta_list.append(pool_theta)
        product = torch.matmul(v_each[block], memory_W1.mT)
        product_2 = torch.matmul(k_each[block], memory_W2)
        product_3 = torch.matmul(k_each[block], memory_W0)
        combined = pool_theta + total_each[block]
        value_6 = 0.00048828125 * combined
        value_7 = product_3 * (1.0 - torch.sigmoid(product_3)) * torch.sigmoid(product_3) + torch.sigmoid(
            product_3
        )
        value_8 = product * product_2 * value_7
        # A: the block's gradients so far
        update_W0_total = torch.baddbmm(update_W0, value_each[block].mT, value_8, alpha=-1)
        # S at the end of the block
        momentum_W0_next = momentum_W0 * value_6[..., None, None] + update_W0_total
        orthogonal = blocks.newton_schulz.forward(
            momentum_W0_next,
            (
                (4.0848, -6.8946, 2.927),
                (3.9505, -6.3029, 2.6377),
                (3.7418, -5.5913, 2.3037),
                (2.8769, -3.1427, 1.2046),
                (2.8366, -3.0525, 1.2012),
            ),
        )
        combined_2 = memory_W0 - orthogonal
        value_9 = product_3 * torch.sigmoid(product_3)
        value_10 = value_9 * product_2 * lr_W1_each[block][..., :, None]
        # A: the block's gradients so far
        update_W1_total = torch.baddbmm(update_W1, value_10.mT, v_each[block], alpha=-1)
        # S at the end of the block
        momentum_W1_next = momentum_W1 * value_6[..., None, None] + update_W1_total
        orthogonal_2 = blocks.newton_schulz.forward(
            momentum_W1_next,
            (
                (4.0848, -6.8946, 2.927),
                (3.9505, -6.3029, 2.6377),
                (3.7418, -5.5913, 2.3037),
                (2.8769, -3.1427, 1.2046),
                (2.8366, -3.0525, 1.2012),
            ),
        )
        combined_3 = memory_W1 - orthogonal_2
        # A: the block's gradients so far
        update_W2_total = torch.baddbmm(update_W2, value_2_each[block].mT, product * value_9, alpha=-1)
        # S at the end of the block
        momentum_W2_next = momentum_W2 * value_6[..., None, None] + update_W2_total
        orthogonal_3 = blocks.newton_schulz.forward(
            momentum_W2_next,
            (
                (4.0848, -6.8946, 2.927),
                (3.9505, -6.3029, 2.6377),
                (3.7418, -5.5913, 2.3037),
                (2.8769, -3.1427, 1.2046),
                (2.8366, -3.0525, 1.2012),
            ),
        )
        combined_4 = memory_W2 - orthogonal_3
        value_11 = blocks.inverse_root((combined_2 * combined_2).sum(-2))
        # M at the end
        memory_W0_next = combined_2 * (value_3_each[block] * value_11)[..., None, :]
        value_12 = blocks.where(
            border_at_border_each[block][..., None, None] > 0.0,
            memory_W0_next,
            memory_W0,
        )
        value_13 = blocks.where(border_at_border_each[block][..., None, None] > 0.0, 0.0, update_W0_total)
        value_14 = blocks.where(
            border_at_border_each[block][..., None, None] > 0.0,
            momentum_W0_next,
            momentum_W0,
        )
        value_15 = blocks.inverse_root((combined_3 * combined_3).sum(-2))
        # M at the end
        memory_W1_next = combined_3 * (value_4_each[block] * value_15)[..., None, :]
        value_16 = blocks.where(
            border_at_border_each[block][..., None, None] > 0.0,
            memory_W1_next,
            memory_W1,
        )
        value_17 = blocks.where(border_at_border_each[block][..., None, None] > 0.0, 0.0, update_W1_total)
        value_18 = blocks.where(
            border_at_border_each[block][..., None, None] > 0.0,
            momentum_W1_next,
            momentum_W1,
        )
        value_19 = blocks.inverse_root((combined_4 * combined_4).sum(-2))
        # M at the end
        memory_W2_next = combined_4 * (value_5_each[block] * value_19)[..., None, :]
        value_20 = blocks.where(
            border_at_border_each[block][..., None, None] > 0.0,
            memory_W2_next,
            memory_W2,
        )
        value_21 = blocks.where(border_at_border_each[block][..., None, None] > 0.0, 0.0, update_W2_total)
        value_22 = blocks.where(
            border_at_border_each[block][..., None, None] > 0.0,
            momentum_W2_next,
            momentum_W2,
        )
        value_23 = blocks.where(border_at_border_each[block] > 0.0, 0.0, combined)
        kept_value.append(product)
        kept_value_2.append(product_2)
        kept_value_3.append(product_3)
        kept_momentum_W0_next.append(momentum_W0_next)
        kept_value_4.append(combined_2)
        kept_momentum_W1_next.append(momentum_W1_next)
        kept_value_5.append(combined_3)
        kept_momentum_W2_next.append(momentum_W2_next)
        kept_value_6.append(combined_4)
        (
            memory_W0,
            update_W0,
            momentum_W0,
            memory_W1,
            update_W1,
            momentum_W1,
            memory_W2,
            update_W2,
            momentum_W2,
            pool_theta,
        ) = (
            value_12,
            value_13,
            value_14,
            value_16,
            value_17,
            value_18,
            value_20,
            value_21,
            value_22,
            value_23,
        )
    del border_at_border_each, k_each, lr_W1_each, total_each, v_each, value_2_each
    del value_3_each, value_4_each, value_5_each, value_each
    block = None
    memory_W0_final = memory_W0.unflatten(0, memory_W0_like.shape[:2])
    memory_W0_blocks = blocks.stack(memory_W0_list, memory_W0_like)
    del memory_W0_list
    update_W0_final = update_W0.unflatten(0, update_W0_like.shape[:2])
    update_W0_blocks = blocks.stack(update_W0_list, update_W0_like)
    del update_W0_list
    momentum_W0_final = momentum_W0.unflatten(0, momentum_W0_like.shape[:2])
    momentum_W0_blocks = blocks.stack(momentum_W0_list, momentum_W0_like)
    del momentum_W0_list
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
    pool_theta_final = pool_theta.unflatten(0, pool_theta_like.shape[:2])
    pool_theta_blocks = blocks.stack(pool_theta_list, pool_theta_like)
    del pool_theta_list
    kept_value_all = blocks.stack(kept_value, memory_W0_like)
    del kept_value
    kept_value_2_all = blocks.stack(kept_value_2, memory_W0_like)
    del kept_value_2
    kept_value_3_all = blocks.stack(kept_value_3, memory_W0_like)
    del kept_value_3
    momentum_W0_next_2 = blocks.stack(kept_momentum_W0_next, memory_W0_like)
    del kept_momentum_W0_next
    kept_value_4_all = blocks.stack(kept_value_4, memory_W0_like)
    del kept_value_4
    momentum_W1_next_2 = blocks.stack(kept_momentum_W1_next, memory_W0_like)
    del kept_momentum_W1_next
    kept_value_5_all = blocks.stack(kept_value_5, memory_W0_like)
    del kept_value_5
    momentum_W2_next_2 = blocks.stack(kept_momentum_W2_next, memory_W0_like)
    del kept_momentum_W2_next
    kept_value_6_all = blocks.stack(kept_value_6, memory_W0_like)
    del kept_value_6
    product_4 = torch.matmul(q, memory_W0_blocks)
    product_5 = torch.matmul(q, memory_W2_blocks)
    value_24 = product_4 * torch.sigmoid(product_4) * product_5
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = torch.matmul(value_24, memory_W1_blocks)
    del value_24
    return {
        "y": reads,
        "saved_0": product_4,
        "saved_1": product_5,
        "saved_2": kept_value_all,
        "saved_3": kept_value_2_all,
        "saved_4": kept_value_3_all,
        "saved_5": momentum_W0_next_2,
        "saved_6": kept_value_4_all,
        "saved_7": momentum_W1_next_2,
        "saved_8": kept_value_5_all,
        "saved_9": momentum_W2_next_2,
        "saved_10": kept_value_6_all,
        "memory_W0": memory_W0_final,
        "update_W0": update_W0_final,
        "momentum_W0": momentum_W0_final,
        "memory_W1": memory_W1_final,
        "update_W1": update_W1_final,
        "momentum_W1": momentum_W1_final,
        "memory_W2": memory_W2_final,
        "update_W2": update_W2_final,
        "momentum_W2": momentum_W2_final,
        "pool_theta": pool_theta_final,
        "memory_W0_blocks": memory_W0_blocks,
        "update_W0_blocks": update_W0_blocks,
        "momentum_W0_blocks": momentum_W0_blocks,
        "memory_W1_blocks": memory_W1_blocks,
        "update_W1_blocks": update_W1_blocks,
        "momentum_W1_blocks": momentum_W1_blocks,
        "memory_W2_blocks": memory_W2_blocks,
        "update_W2_blocks": update_W2_blocks,
        "momentum_W2_blocks": momentum_W2_blocks,
        "pool_theta_blocks": pool_theta_blocks,
    }


def backward(
    blocks,
    count,
    rows,
    halo,
    window,
    resumed,
    d_y,
    memory_W1,
    memory_W2,
    memory_W0,
    live,
    log_theta,
    d_pool_theta_next,
    border_at_border,
    d_momentum_W2_next,
    d_memory_W2_next,
    origin_W2,
    momentum_W2,
    d_momentum_W1_next,
    d_memory_W1_next,
    origin_W1,
    momentum_W1,
    d_momentum_W0_next,
    d_memory_W0_next,
    origin_W0,
    momentum_W0,
    d_update_W2_next,
    k,
    lr_W2,
    d_update_W1_next,
    v,
    lr_W1,
    d_update_W0_next,
    lr_W0,
    q,
    pool_theta,
    saved_0,
    saved_1,
    saved_9,
    saved_10,
    saved_7,
    saved_8,
    saved_5,
    saved_6,
    saved_2,
    saved_3,
    saved_4,
):
    """The loop over blocks from the last to the first, then the gradients of all rows."""
    block = None  # all blocks at once
    product = torch.matmul(d_y, memory_W1.mT)
    value = saved_0 * torch.sigmoid(saved_0)
    value_2 = product * value
    value_3 = saved_0 * (1.0 - torch.sigmoid(saved_0)) * torch.sigmoid(saved_0) + torch.sigmoid(saved_0)
    value_4 = product * saved_1 * value_3
    del product, value_3
    value_5 = torch.exp(log_theta)
    value_6 = blocks.where(border_at_border > 0.0, 0.0, 1.0)
    value_7 = blocks.where(border_at_border > 0.0, 1.0, 0.0)
    total = (origin_W2 * origin_W2).sum(-2)
    value_8 = torch.sqrt(total)
    total_2 = (saved_10 * saved_10).sum(-2)
    value_9 = blocks.inverse_root(total_2)
    value_10 = value_8 * value_9
    value_11 = 2.0 * saved_10
    value_12 = -0.5 * (
        blocks.inverse_root(total_2) * blocks.inverse_root(total_2) * blocks.inverse_root(total_2)
    )
    total_3 = (origin_W1 * origin_W1).sum(-2)
    value_13 = torch.sqrt(total_3)
    total_4 = (saved_8 * saved_8).sum(-2)
    value_14 = blocks.inverse_root(total_4)
    value_15 = value_13 * value_14
    value_16 = 2.0 * saved_8
    value_17 = -0.5 * (
        blocks.inverse_root(total_4) * blocks.inverse_root(total_4) * blocks.inverse_root(total_4)
    )
    total_5 = (origin_W0 * origin_W0).sum(-2)
    value_18 = torch.sqrt(total_5)
    total_6 = (saved_6 * saved_6).sum(-2)
    value_19 = blocks.inverse_root(total_6)
    value_20 = value_18 * value_19
    value_21 = 2.0 * saved_6
    value_22 = -0.5 * (
        blocks.inverse_root(total_6) * blocks.inverse_root(total_6) * blocks.inverse_root(total_6)
    )
    value_23 = k * lr_W2[..., :, None]
    value_24 = saved_4 * (1.0 - torch.sigmoid(saved_4)) * torch.sigmoid(saved_4) + torch.sigmoid(saved_4)
    value_25 = k * lr_W0[..., :, None]
    value_26 = saved_2 * saved_3
    value_27 = (
        saved_4 * ((1.0 - torch.sigmoid(saved_4)) * (1.0 - torch.sigmoid(saved_4))) * torch.sigmoid(saved_4)
        - saved_4 * (torch.sigmoid(saved_4) * torch.sigmoid(saved_4)) * (1.0 - torch.sigmoid(saved_4))
        + 2.0 * (1.0 - torch.sigmoid(saved_4)) * torch.sigmoid(saved_4)
    )
    value_28 = saved_4 * torch.sigmoid(saved_4)
    product_2 = torch.matmul(q.mT, value_4)
    value_29 = 0.00048828125 * (pool_theta + (value_5 * live).sum(-1))
    product_3 = torch.matmul((value * saved_1).mT, d_y)
    del value
    product_4 = torch.matmul(q.mT, value_2)
    value_30 = 2.0 * origin_W0
    value_31 = 0.5 * blocks.inverse_root(total_5)
    value_32 = 2.0 * origin_W1
    value_33 = 0.5 * blocks.inverse_root(total_3)
    value_34 = 2.0 * origin_W2
    value_35 = 0.5 * blocks.inverse_root(total)
    d_memory_W0_next_like = d_memory_W0_next
    d_memory_W0_next = d_memory_W0_next.flatten(0, 1)
    d_memory_W0_next_list = []
    d_update_W0_next_like = d_update_W0_next
    d_update_W0_next = d_update_W0_next.flatten(0, 1)
    d_update_W0_next_list = []
    d_momentum_W0_next_like = d_momentum_W0_next
    d_momentum_W0_next = d_momentum_W0_next.flatten(0, 1)
    d_momentum_W0_next_list = []
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
    d_pool_theta_next_like = d_pool_theta_next
    d_pool_theta_next = d_pool_theta_next.flatten(0, 1)
    d_pool_theta_next_list = []
    kept_value = []
    kept_d_update_W2_total = []
    kept_d_update_W1_total = []
    kept_value_2 = []
    kept_d_update_W0_total = []
    kept_value_3 = []
    kept_value_4 = []
    kept_value_5 = []
    sum_0 = 0.0
    sum_1 = 0.0
    sum_2 = 0.0
    value_6_each = blocks.each(value_6, count, d_memory_W0_next_like)
    del value_6
    value_7_each = blocks.each(value_7, count, d_memory_W0_next_like)
    del value_7
    saved_9_each = blocks.each(saved_9, count, d_memory_W0_next_like)
    value_8_each = blocks.each(value_8, count, d_memory_W0_next_like)
    del value_8
    saved_10_each = blocks.each(saved_10, count, d_memory_W0_next_like)
    value_9_each = blocks.each(value_9, count, d_memory_W0_next_like)
    del value_9
    value_10_each = blocks.each(value_10, count, d_memory_W0_next_like)
    del value_10
    value_11_each = blocks.each(value_11, count, d_memory_W0_next_like)
    del value_11
    value_12_each = blocks.each(value_12, count, d_memory_W0_next_like)
    del value_12
    momentum_W2_each = blocks.each(momentum_W2, count, d_memory_W0_next_like)
    saved_7_each = blocks.each(saved_7, count, d_memory_W0_next_like)
    value_13_each = blocks.each(value_13, count, d_memory_W0_next_like)
    del value_13
    saved_8_each = blocks.each(saved_8, count, d_memory_W0_next_like)
    value_14_each = blocks.each(value_14, count, d_memory_W0_next_like)
    del value_14
    value_15_each = blocks.each(value_15, count, d_memory_W0_next_like)
    del value_15
    value_16_each = blocks.each(value_16, count, d_memory_W0_next_like)
    del value_16
    value_17_each = blocks.each(value_17, count, d_memory_W0_next_like)
    del value_17
    momentum_W1_each = blocks.each(momentum_W1, count, d_memory_W0_next_like)
    saved_5_each = blocks.each(saved_5, count, d_memory_W0_next_like)
    value_18_each = blocks.each(value_18, count, d_memory_W0_next_like)
    del value_18
    saved_6_each = blocks.each(saved_6, count, d_memory_W0_next_like)
    value_19_each = blocks.each(value_19, count, d_memory_W0_next_like)
    del value_19
    value_20_each = blocks.each(value_20, count, d_memory_W0_next_like)
    del value_20
    value_21_each = blocks.each(value_21, count, d_memory_W0_next_like)
    del value_21
    value_22_each = blocks.each(value_22, count, d_memory_W0_next_like)
    del value_22
    momentum_W0_each = blocks.each(momentum_W0, count, d_memory_W0_next_like)
    k_each = blocks.each(k, count, d_memory_W0_next_like)
    value_23_each = blocks.each(value_23, count, d_memory_W0_next_like)
    del value_23
    saved_2_each = blocks.each(saved_2, count, d_memory_W0_next_like)
    v_each = blocks.each(v, count, d_memory_W0_next_like)
    lr_W1_each = blocks.each(lr_W1, count, d_memory_W0_next_like)
    saved_3_each = blocks.each(saved_3, count, d_memory_W0_next_like)
    value_24_each = blocks.each(value_24, count, d_memory_W0_next_like)
    value_25_each = blocks.each(value_25, count, d_memory_W0_next_like)
    del value_25
    value_26_each = blocks.each(value_26, count, d_memory_W0_next_like)
    value_27_each = blocks.each(value_27, count, d_memory_W0_next_like)
    del value_27
    value_28_each = blocks.each(value_28, count, d_memory_W0_next_like)
    product_2_each = blocks.each(product_2, count, d_memory_W0_next_like)
    del product_2
    value_29_each = blocks.each(value_29, count, d_memory_W0_next_like)
    del value_29
    product_3_each = blocks.each(product_3, count, d_memory_W0_next_like)
    del product_3
    product_4_each = blocks.each(product_4, count, d_memory_W0_next_like)
    del product_4
    value_30_each = blocks.each(value_30, count, d_memory_W0_next_like)
    del value_30
    value_31_each = blocks.each(value_31, count, d_memory_W0_next_like)
    del value_31
    value_32_each = blocks.each(value_32, count, d_memory_W0_next_like)
    del value_32
    value_33_each = blocks.each(value_33, count, d_memory_W0_next_like)
    del value_33
    value_34_each = blocks.each(value_34, count, d_memory_W0_next_like)
    del value_34
    value_35_each = blocks.each(value_35, count, d_memory_W0_next_like)
    del value_35
    for block in reversed(range(count)):
        d_memory_W0_next_list.append(d_memory_W0_next)
        d_update_W0_next_list.append(d_update_W0_next)
        d_momentum_W0_next_list.append(d_momentum_W0_next)
        d_memory_W1_next_list.append(d_memory_W1_next)
        d_update_W1_next_list.append(d_update_W1_next)
        d_momentum_W1_next_list.append(d_momentum_W1_next)
        d_memory_W2_next_list.append(d_memory_W2_next)
        d_update_W2_next_list.append(d_update_W2_next)
        d_momentum_W2_next_list.append(d_momentum_W2_next)
        d_pool_theta_next_list.append(d_pool_theta_next)
        d_memory_W2_next_2 = d_memory_W2_next * value_7_each[block][..., None, None]
        total_7 = (d_memory_W2_next_2 * saved_10_each[block]).sum(-2)
        value_36 = total_7 * value_8_each[block] * value_12_each[block]
        value_37 = d_memory_W2_next_2 * value_10_each[block][..., None, :]
        combined = value_37 + value_11_each[block] * value_36[..., None, :]
        value_38 = -combined
        d_orthogonal = blocks.newton_schulz.backward(
            saved_9_each[block],
            value_38,
            (
                (4.0848, -6.8946, 2.927),
                (3.9505, -6.3029, 2.6377),
                (3.7418, -5.5913, 2.3037),
                (2.8769, -3.1427, 1.2046),
                (2.8366, -3.0525, 1.2012),
            ),
        )
        d_momentum_W2_next_2 = d_momentum_W2_next * value_7_each[block][..., None, None] + d_orthogonal
        total_8 = (d_momentum_W2_next_2 * momentum_W2_each[block]).sum(-2).sum(-1)
        d_memory_W1_next_2 = d_memory_W1_next * value_7_each[block][..., None, None]
        total_9 = (d_memory_W1_next_2 * saved_8_each[block]).sum(-2)
        value_39 = total_9 * value_13_each[block] * value_17_each[block]
        value_40 = d_memory_W1_next_2 * value_15_each[block][..., None, :]
        combined_2 = value_40 + value_16_each[block] * value_39[..., None, :]
        value_41 = -combined_2
        d_orthogonal_2 = blocks.newton_schulz.backward(
            saved_7_each[block],
            value_41,
            (
                (4.0848, -6.8946, 2.927),
                (3.9505, -6.3029, 2.6377),
                (3.7418, -5.5913, 2.3037),
                (2.8769, -3.1427, 1.2046),
                (2.8366, -3.0525, 1.2012),
            ),
        )
        d_momentum_W1_next_2 = d_momentum_W1_next * value_7_each[block][..., None, None] + d_orthogonal_2
        total_10 = (d_momentum_W1_next_2 * momentum_W1_each[block]).sum(-2).sum(-1)
        d_memory_W0_next_2 = d_memory_W0_next * value_7_each[block][..., None, None]
        total_11 = (d_memory_W0_next_2 * saved_6_each[block]).sum(-2)
        value_42 = total_11 * value_18_each[block] * value_22_each[block]
        value_43 = d_memory_W0_next_2 * value_20_each[block][..., None, :]
        combined_3 = value_43 + value_21_each[block] * value_42[..., None, :]
        value_44 = -combined_3
        d_orthogonal_3 = blocks.newton_schulz.backward(
            saved_5_each[block],
            value_44,
            (
                (4.0848, -6.8946, 2.927),
                (3.9505, -6.3029, 2.6377),
                (3.7418, -5.5913, 2.3037),
                (2.8769, -3.1427, 1.2046),
                (2.8366, -3.0525, 1.2012),
            ),
        )
        d_momentum_W0_next_2 = d_momentum_W0_next * value_7_each[block][..., None, None] + d_orthogonal_3
        total_12 = (d_momentum_W0_next_2 * momentum_W0_each[block]).sum(-2).sum(-1)
        value_45 = 0.00048828125 * (total_8 + total_10 + total_12)
        combined_4 = d_pool_theta_next * value_6_each[block] + value_45
        d_update_W2_total = d_update_W2_next * value_6_each[block][..., None, None] + d_momentum_W2_next_2
        product_5 = torch.matmul(value_23_each[block], d_update_W2_total)
        d_update_W1_total = d_update_W1_next * value_6_each[block][..., None, None] + d_momentum_W1_next_2
        product_6 = torch.matmul(v_each[block], d_update_W1_total.mT)
        value_46 = product_6 * lr_W1_each[block][..., :, None]
        combined_5 = -(product_5 * saved_2_each[block]) - value_46 * saved_3_each[block]
        d_update_W0_total = d_update_W0_next * value_6_each[block][..., None, None] + d_momentum_W0_next_2
        product_7 = torch.matmul(value_25_each[block], d_update_W0_total)
        value_47 = product_7 * value_26_each[block] * value_27_each[block]
        combined_6 = combined_5 * value_24_each[block] - value_47
        value_48 = product_7 * value_24_each[block]
        combined_7 = -(value_46 * value_28_each[block]) - value_48 * saved_2_each[block]
        combined_8 = -(product_5 * value_28_each[block]) - value_48 * saved_3_each[block]
        value_49 = d_memory_W0_next * value_6_each[block][..., None, None]
        combined_9 = torch.baddbmm(
            value_49 + combined_3 + product_2_each[block],
            k_each[block].mT,
            combined_6,
        )
        value_50 = d_momentum_W0_next_2 * value_29_each[block][..., None, None]
        combined_10 = d_momentum_W0_next * value_6_each[block][..., None, None] + value_50
        value_51 = d_memory_W1_next * value_6_each[block][..., None, None]
        combined_11 = torch.baddbmm(
            value_51 + combined_2 + product_3_each[block],
            combined_8.mT,
            v_each[block],
        )
        value_52 = d_momentum_W1_next_2 * value_29_each[block][..., None, None]
        combined_12 = d_momentum_W1_next * value_6_each[block][..., None, None] + value_52
        value_53 = d_memory_W2_next * value_6_each[block][..., None, None]
        combined_13 = torch.baddbmm(value_53 + combined + product_4_each[block], k_each[block].mT, combined_7)
        value_54 = d_momentum_W2_next_2 * value_29_each[block][..., None, None]
        combined_14 = d_momentum_W2_next * value_6_each[block][..., None, None] + value_54
        value_55 = total_11 * value_19_each[block] * value_31_each[block]
        value_56 = value_30_each[block] * value_55[..., None, :]
        value_57 = total_9 * value_14_each[block] * value_33_each[block]
        value_58 = value_32_each[block] * value_57[..., None, :]
        value_59 = total_7 * value_9_each[block] * value_35_each[block]
        value_60 = value_34_each[block] * value_59[..., None, :]
        kept_value.append(combined_4)
        kept_d_update_W2_total.append(d_update_W2_total)
        kept_d_update_W1_total.append(d_update_W1_total)
        kept_value_2.append(product_6)
        kept_d_update_W0_total.append(d_update_W0_total)
        kept_value_3.append(combined_6)
        kept_value_4.append(combined_7)
        kept_value_5.append(combined_8)
        sum_0 = sum_0 + value_56
        sum_1 = sum_1 + value_58
        sum_2 = sum_2 + value_60
        (
            d_memory_W0_next,
            d_update_W0_next,
            d_momentum_W0_next,
            d_memory_W1_next,
            d_update_W1_next,
            d_momentum_W1_next,
            d_memory_W2_next,
            d_update_W2_next,
            d_momentum_W2_next,
            d_pool_theta_next,
        ) = (
            combined_9,
            d_update_W0_total,
            combined_10,
            combined_11,
            d_update_W1_total,
            combined_12,
            combined_13,
            d_update_W2_total,
            combined_14,
            combined_4,
        )
    del k_each, lr_W1_each, momentum_W0_each, momentum_W1_each, momentum_W2_each
    del product_2_each, product_3_each, product_4_each, saved_10_each, saved_2_each
    del saved_3_each, saved_5_each, saved_6_each, saved_7_each, saved_8_each, saved_9_each
    del v_each, value_10_each, value_11_each, value_12_each, value_13_each, value_14_each
    del value_15_each, value_16_each, value_17_each, value_18_each, value_19_each
    del value_20_each, value_21_each, value_22_each, value_23_each, value_24_each
    del value_25_each, value_26_each, value_27_each, value_28_each, value_29_each
    del value_30_each, value_31_each, value_32_each, value_33_each, value_34_each
    del value_35_each, value_6_each, value_7_each, value_8_each, value_9_each
    block = None
    d_memory_W0_next_final = d_memory_W0_next.unflatten(0, d_memory_W0_next_like.shape[:2])
    d_memory_W0_next_blocks = blocks.stack(d_memory_W0_next_list[::-1], d_memory_W0_next_like)
    del d_memory_W0_next_list
    d_update_W0_next_final = d_update_W0_next.unflatten(0, d_update_W0_next_like.shape[:2])
    d_update_W0_next_blocks = blocks.stack(d_update_W0_next_list[::-1], d_update_W0_next_like)
    del d_update_W0_next_list
    d_momentum_W0_next_final = d_momentum_W0_next.unflatten(0, d_momentum_W0_next_like.shape[:2])
    d_momentum_W0_next_blocks = blocks.stack(d_momentum_W0_next_list[::-1], d_momentum_W0_next_like)
    del d_momentum_W0_next_list
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
    d_pool_theta_next_final = d_pool_theta_next.unflatten(0, d_pool_theta_next_like.shape[:2])
    d_pool_theta_next_blocks = blocks.stack(d_pool_theta_next_list[::-1], d_pool_theta_next_like)
    del d_pool_theta_next_list
    kept_value_all = blocks.stack(kept_value[::-1], d_memory_W0_next_like)
    del kept_value
    d_update_W2_total_2 = blocks.stack(kept_d_update_W2_total[::-1], d_memory_W0_next_like)
    del kept_d_update_W2_total
    d_update_W1_total_2 = blocks.stack(kept_d_update_W1_total[::-1], d_memory_W0_next_like)
    del kept_d_update_W1_total
    kept_value_2_all = blocks.stack(kept_value_2[::-1], d_memory_W0_next_like)
    del kept_value_2
    d_update_W0_total_2 = blocks.stack(kept_d_update_W0_total[::-1], d_memory_W0_next_like)
    del kept_d_update_W0_total
    kept_value_3_all = blocks.stack(kept_value_3[::-1], d_memory_W0_next_like)
    del kept_value_3
    kept_value_4_all = blocks.stack(kept_value_4[::-1], d_memory_W0_next_like)
    del kept_value_4
    kept_value_5_all = blocks.stack(kept_value_5[::-1], d_memory_W0_next_like)
    del kept_value_5
    product_8 = torch.matmul(value_2, memory_W2.mT)
    del value_2
    combined_15 = blocks.add_product(product_8, value_4, memory_W0.mT, 1)
    del product_8, value_4
    value_61 = live * value_5 * kept_value_all[..., None]
    del kept_value_all
    product_9 = torch.matmul(saved_2 * value_28, d_update_W2_total_2.mT)
    del d_update_W2_total_2
    product_10 = torch.matmul(value_26 * value_24, d_update_W0_total_2.mT)
    del d_update_W0_total_2, value_24, value_26
    value_62 = product_10 * lr_W0[..., :, None]
    value_63 = product_9 * lr_W2[..., :, None]
    combined_16 = blocks.add_product(
        blocks.add_product(-value_63 - value_62, kept_value_3_all, memory_W0.mT, 1),
        kept_value_4_all,
        memory_W2.mT,
        1,
    )
    del kept_value_3_all, kept_value_4_all, value_62, value_63
    value_64 = -(product_10 * k).sum(-1)
    del product_10
    product_11 = torch.matmul(kept_value_5_all, memory_W1)
    del kept_value_5_all
    value_65 = value_28 * saved_3
    del value_28
    value_66 = value_65 * lr_W1[..., :, None]
    combined_17 = blocks.add_product(product_11, value_66, d_update_W1_total_2, -1)
    del d_update_W1_total_2, product_11, value_66
    value_67 = -(kept_value_2_all * value_65).sum(-1)
    del kept_value_2_all, value_65
    value_68 = -(product_9 * k).sum(-1)
    del product_9
    return {
        "part_0": combined_15,
        "part_1": value_61,
        "part_2": combined_16,
        "part_3": value_64,
        "part_4": combined_17,
        "part_5": value_67,
        "part_6": value_68,
        "sum_0": sum_0,
        "sum_1": sum_1,
        "sum_2": sum_2,
        "d_memory_W0": d_memory_W0_next_final,
        "d_update_W0": d_update_W0_next_final,
        "d_momentum_W0": d_momentum_W0_next_final,
        "d_memory_W1": d_memory_W1_next_final,
        "d_update_W1": d_update_W1_next_final,
        "d_momentum_W1": d_momentum_W1_next_final,
        "d_memory_W2": d_memory_W2_next_final,
        "d_update_W2": d_update_W2_next_final,
        "d_momentum_W2": d_momentum_W2_next_final,
        "d_pool_theta": d_pool_theta_next_final,
        "d_memory_W0_blocks": d_memory_W0_next_blocks,
        "d_update_W0_blocks": d_update_W0_next_blocks,
        "d_momentum_W0_blocks": d_momentum_W0_next_blocks,
        "d_memory_W1_blocks": d_memory_W1_next_blocks,
        "d_update_W1_blocks": d_update_W1_next_blocks,
        "d_momentum_W1_blocks": d_momentum_W1_next_blocks,
        "d_memory_W2_blocks": d_memory_W2_next_blocks,
        "d_update_W2_blocks": d_update_W2_next_blocks,
        "d_momentum_W2_blocks": d_momentum_W2_next_blocks,
        "d_pool_theta_blocks": d_pool_theta_next_blocks,
    }

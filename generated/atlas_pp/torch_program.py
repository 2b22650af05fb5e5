"""The memory rule atlas_pp as a torch program: `forward` and `backward` of all blocks.

Arrays are [B, H, N, ...] over N blocks; `blocks` is atlasgen.runtime.blocks.
Rule 9a2fa80b4300, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
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
    memory_W2,
    origin_W2,
    log_alpha,
    lr,
    momentum_W2,
    log_theta,
    live,
    gamma_sources,
    exists_sources,
    k_sources,
    anchor_W2,
    anchor_W3,
    memory_W3,
    anchor_W1,
    memory_W1,
    v_sources,
    origin_W3,
    momentum_W3,
    origin_W1,
    momentum_W1,
):
    """The loop over blocks, then the reads of all blocks."""
    like = q
    row, halo_row = blocks.positions(rows, halo, True)
    block = None  # all blocks at once
    log_theta_sums = blocks.running(log_theta)
    since_start = blocks.decay_from_start(log_theta_sums, False)
    decay = blocks.decay(log_theta_sums, False)
    banded = blocks.band(row, halo_row, 0, 15, like)
    product = torch.matmul(decay * live[..., None, :], banded)
    value = product * (gamma_sources * exists_sources)[..., None, :]
    # X = phi(k)
    features = 0.5 * (k_sources * k_sources) + k_sources
    value_2 = value[..., :, :, None] * features[..., None, :, :]
    rename = features
    log_alpha_sums = blocks.running(log_alpha)
    # a_C: decay of the memory over the block
    kept = blocks.decay_whole(log_alpha_sums)
    value_3 = blocks.decay_to_end(log_alpha_sums) * lr
    # decay of S over the block
    momentum_kept = blocks.decay_whole(log_theta_sums)
    product_2 = torch.matmul(blocks.decay_to_end(log_theta_sums) * live, banded)
    # B_C: last row of D(theta) Gamma
    momentum_weights = product_2 * gamma_sources * exists_sources
    value_4 = features * momentum_weights[..., :, None]
    memory_W1_like = memory_W1
    memory_W1 = memory_W1.flatten(0, 1)
    memory_W1_list = []
    memory_W2_like = memory_W2
    memory_W2 = memory_W2.flatten(0, 1)
    memory_W2_list = []
    memory_W3_like = memory_W3
    memory_W3 = memory_W3.flatten(0, 1)
    memory_W3_list = []
    momentum_W1_like = momentum_W1
    momentum_W1 = momentum_W1.flatten(0, 1)
    momentum_W1_list = []
    momentum_W2_like = momentum_W2
    momentum_W2 = momentum_W2.flatten(0, 1)
    momentum_W2_list = []
    momentum_W3_like = momentum_W3
    momentum_W3 = momentum_W3.flatten(0, 1)
    momentum_W3_list = []
    kept_value = []
    kept_value_2 = []
    kept_errors = []
    kept_value_3 = []
    kept_momentum_W2_rows = []
    kept_updates_W2 = []
    kept_momentum_W3_rows = []
    kept_updates_W3 = []
    kept_momentum_W1_rows = []
    kept_updates_W1 = []
    origin_W2_each = blocks.each(origin_W2, count, memory_W1_like)
    since_start_each = blocks.each(since_start, count, memory_W1_like)
    del since_start
    value_each = blocks.each(value, count, memory_W1_like)
    del value
    features_each = blocks.each(features, count, memory_W1_like)
    del features
    value_2_each = blocks.each(value_2, count, memory_W1_like)
    del value_2
    rename_each = blocks.each(rename, count, memory_W1_like)
    del rename
    anchor_W2_each = blocks.each(anchor_W2, count, memory_W1_like)
    anchor_W3_each = blocks.each(anchor_W3, count, memory_W1_like)
    anchor_W1_each = blocks.each(anchor_W1, count, memory_W1_like)
    v_sources_each = blocks.each(v_sources, count, memory_W1_like)
    origin_W3_each = blocks.each(origin_W3, count, memory_W1_like)
    origin_W1_each = blocks.each(origin_W1, count, memory_W1_like)
    kept_each = blocks.each(kept, count, memory_W1_like)
    del kept
    value_3_each = blocks.each(value_3, count, memory_W1_like)
    del value_3
    momentum_kept_each = blocks.each(momentum_kept, count, memory_W1_like)
    del momentum_kept
    momentum_weights_each = blocks.each(momentum_weights, count, memory_W1_like)
    del momentum_weights
    value_4_each = blocks.each(value_4, count, memory_W1_like)
    del value_4
    for block in range(count):
        memory_W1_list.append(memory_W1)
        memory_W2_list.append(memory_W2)
        memory_W3_list.append(memory_W3)
        momentum_W1_list.append(momentum_W1)
        momentum_W2_list.append(momentum_W2)
        momentum_W3_list.append(momentum_W3)
        combined = memory_W2 - origin_W2_each[block]
        value_5 = momentum_W2[..., None, :, :] * since_start_each[block][..., :, None, None]
        # M*: the memory at the last border
        anchor_point_W2 = blocks.at_start(anchor_W2_each[block], memory_W2, resumed, block)
        product_3 = torch.matmul(features_each[block], anchor_point_W2)
        value_6 = torch.nn.functional.gelu(product_3)
        # M*: the memory at the last border
        anchor_point_W3 = blocks.at_start(anchor_W3_each[block], memory_W3, resumed, block)
        product_4 = torch.matmul(features_each[block], anchor_point_W3)
        value_7 = value_6 * product_4
        # M*: the memory at the last border
        anchor_point_W1 = blocks.at_start(anchor_W1_each[block], memory_W1, resumed, block)
        # pred = f(M*, phi(k))
        predictions = torch.baddbmm(rename_each[block], value_7, anchor_point_W1)
        # E = dl/dpred at the block's M*
        errors = predictions - v_sources_each[block]
        product_5 = torch.matmul(errors, anchor_point_W1.mT)
        # the error that reaches the output of W2
        errors_W2 = product_5 * product_4 * blocks.gelu_slope(product_3)
        product_6 = torch.einsum("...abc,...bd->...acd", value_2_each[block], errors_W2)
        # S_t of every token
        momentum_W2_rows = value_5 + product_6
        # U_t: the map of S_t
        updates_W2 = blocks.newton_schulz.forward(
            momentum_W2_rows,
            (
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
            ),
        )
        combined_2 = memory_W3 - origin_W3_each[block]
        value_8 = momentum_W3[..., None, :, :] * since_start_each[block][..., :, None, None]
        # the error that reaches the output of W3
        errors_W3 = product_5 * value_6
        product_7 = torch.einsum("...abc,...bd->...acd", value_2_each[block], errors_W3)
        # S_t of every token
        momentum_W3_rows = value_8 + product_7
        # U_t: the map of S_t
        updates_W3 = blocks.newton_schulz.forward(
            momentum_W3_rows,
            (
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
            ),
        )
        combined_3 = memory_W1 - origin_W1_each[block]
        value_9 = momentum_W1[..., None, :, :] * since_start_each[block][..., :, None, None]
        value_10 = value_each[block][..., :, :, None] * value_7[..., None, :, :]
        product_8 = torch.einsum("...abc,...bd->...acd", value_10, errors)
        # S_t of every token
        momentum_W1_rows = value_9 + product_8
        # U_t: the map of S_t
        updates_W1 = blocks.newton_schulz.forward(
            momentum_W1_rows,
            (
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
            ),
        )
        product_9 = torch.einsum("...a,...abc->...bc", value_3_each[block], updates_W1)
        value_11 = combined_3 * kept_each[block][..., None, None]
        # M at the end
        memory_W1_next = value_11 + origin_W1_each[block] - product_9
        product_10 = torch.einsum("...a,...abc->...bc", value_3_each[block], updates_W2)
        value_12 = combined * kept_each[block][..., None, None]
        # M at the end
        memory_W2_next = value_12 + origin_W2_each[block] - product_10
        product_11 = torch.einsum("...a,...abc->...bc", value_3_each[block], updates_W3)
        value_13 = combined_2 * kept_each[block][..., None, None]
        # M at the end
        memory_W3_next = value_13 + origin_W3_each[block] - product_11
        value_14 = momentum_W1 * momentum_kept_each[block][..., None, None]
        value_15 = value_7 * momentum_weights_each[block][..., :, None]
        # S at the end of the block
        momentum_next_W1 = torch.baddbmm(value_14, value_15.mT, errors)
        value_16 = momentum_W2 * momentum_kept_each[block][..., None, None]
        # S at the end of the block
        momentum_next_W2 = torch.baddbmm(value_16, value_4_each[block].mT, errors_W2)
        value_17 = momentum_W3 * momentum_kept_each[block][..., None, None]
        # S at the end of the block
        momentum_next_W3 = torch.baddbmm(value_17, value_4_each[block].mT, errors_W3)
        kept_value.append(product_3)
        kept_value_2.append(product_4)
        kept_errors.append(errors)
        kept_value_3.append(product_5)
        kept_momentum_W2_rows.append(momentum_W2_rows)
        kept_updates_W2.append(updates_W2)
        kept_momentum_W3_rows.append(momentum_W3_rows)
        kept_updates_W3.append(updates_W3)
        kept_momentum_W1_rows.append(momentum_W1_rows)
        kept_updates_W1.append(updates_W1)
        memory_W1, memory_W2, memory_W3, momentum_W1, momentum_W2, momentum_W3 = (
            memory_W1_next,
            memory_W2_next,
            memory_W3_next,
            momentum_next_W1,
            momentum_next_W2,
            momentum_next_W3,
        )
    del anchor_W1_each, anchor_W2_each, anchor_W3_each, features_each, kept_each
    del momentum_kept_each, momentum_weights_each, origin_W1_each, origin_W2_each
    del origin_W3_each, rename_each, since_start_each, v_sources_each, value_2_each
    del value_3_each, value_4_each, value_each
    block = None
    memory_W1_final = memory_W1.unflatten(0, memory_W1_like.shape[:2])
    memory_W1_blocks = blocks.stack(memory_W1_list, memory_W1_like)
    del memory_W1_list
    memory_W2_final = memory_W2.unflatten(0, memory_W2_like.shape[:2])
    memory_W2_blocks = blocks.stack(memory_W2_list, memory_W2_like)
    del memory_W2_list
    memory_W3_final = memory_W3.unflatten(0, memory_W3_like.shape[:2])
    memory_W3_blocks = blocks.stack(memory_W3_list, memory_W3_like)
    del memory_W3_list
    momentum_W1_final = momentum_W1.unflatten(0, momentum_W1_like.shape[:2])
    momentum_W1_blocks = blocks.stack(momentum_W1_list, momentum_W1_like)
    del momentum_W1_list
    momentum_W2_final = momentum_W2.unflatten(0, momentum_W2_like.shape[:2])
    momentum_W2_blocks = blocks.stack(momentum_W2_list, momentum_W2_like)
    del momentum_W2_list
    momentum_W3_final = momentum_W3.unflatten(0, momentum_W3_like.shape[:2])
    momentum_W3_blocks = blocks.stack(momentum_W3_list, momentum_W3_like)
    del momentum_W3_list
    kept_value_all = blocks.stack(kept_value, memory_W1_like)
    del kept_value
    kept_value_2_all = blocks.stack(kept_value_2, memory_W1_like)
    del kept_value_2
    errors_2 = blocks.stack(kept_errors, memory_W1_like)
    del kept_errors
    kept_value_3_all = blocks.stack(kept_value_3, memory_W1_like)
    del kept_value_3
    momentum_W2_rows_2 = blocks.stack(kept_momentum_W2_rows, memory_W1_like)
    del kept_momentum_W2_rows
    updates_W2_2 = blocks.stack(kept_updates_W2, memory_W1_like)
    del kept_updates_W2
    momentum_W3_rows_2 = blocks.stack(kept_momentum_W3_rows, memory_W1_like)
    del kept_momentum_W3_rows
    updates_W3_2 = blocks.stack(kept_updates_W3, memory_W1_like)
    del kept_updates_W3
    momentum_W1_rows_2 = blocks.stack(kept_momentum_W1_rows, memory_W1_like)
    del kept_momentum_W1_rows
    updates_W1_2 = blocks.stack(kept_updates_W1, memory_W1_like)
    del kept_updates_W1
    # phi(q)
    queries = 0.5 * (q * q) + q
    combined_4 = memory_W2_blocks - origin_W2
    since_start_2 = blocks.decay_from_start(log_alpha_sums, False)
    value_18 = combined_4[..., None, :, :] * since_start_2[..., :, None, None]
    del combined_4
    decay_2 = blocks.decay(log_alpha_sums, False)
    value_19 = decay_2 * lr[..., None, :]
    product_12 = torch.einsum("...ab,...bcd->...acd", value_19, updates_W2_2)
    # W_t of every token
    memory_W2_rows = value_18 + origin_W2[..., None, :, :] - product_12
    product_13 = torch.einsum("...ab,...abc->...ac", queries, memory_W2_rows)
    combined_5 = memory_W3_blocks - origin_W3
    value_20 = combined_5[..., None, :, :] * since_start_2[..., :, None, None]
    del combined_5
    product_14 = torch.einsum("...ab,...bcd->...acd", value_19, updates_W3_2)
    # W_t of every token
    memory_W3_rows = value_20 + origin_W3[..., None, :, :] - product_14
    product_15 = torch.einsum("...ab,...abc->...ac", queries, memory_W3_rows)
    combined_6 = memory_W1_blocks - origin_W1
    value_21 = combined_6[..., None, :, :] * since_start_2[..., :, None, None]
    del combined_6
    product_16 = torch.einsum("...ab,...bcd->...acd", value_19, updates_W1_2)
    del value_19
    # W_t of every token
    memory_W1_rows = value_21 + origin_W1[..., None, :, :] - product_16
    value_22 = torch.nn.functional.gelu(product_13) * product_15
    product_17 = torch.einsum("...ab,...abc->...ac", value_22, memory_W1_rows)
    del value_22
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = queries + product_17
    del product_17, queries
    # M*: the memory at the last border
    anchor_point_W1_2 = blocks.at_start(anchor_W1, memory_W1_blocks, resumed, block)
    # M*: the memory at the last border
    anchor_point_W2_2 = blocks.at_start(anchor_W2, memory_W2_blocks, resumed, block)
    # M*: the memory at the last border
    anchor_point_W3_2 = blocks.at_start(anchor_W3, memory_W3_blocks, resumed, block)
    return {
        "y": reads,
        "anchor_W1_value": anchor_point_W1_2,
        "anchor_W2_value": anchor_point_W2_2,
        "anchor_W3_value": anchor_point_W3_2,
        "saved_0": decay_2,
        "saved_1": decay,
        "saved_2": product,
        "saved_3": kept_value_all,
        "saved_4": kept_value_2_all,
        "saved_5": errors_2,
        "saved_6": kept_value_3_all,
        "saved_7": momentum_W2_rows_2,
        "saved_8": updates_W2_2,
        "saved_9": memory_W2_rows,
        "saved_10": product_13,
        "saved_11": momentum_W3_rows_2,
        "saved_12": updates_W3_2,
        "saved_13": memory_W3_rows,
        "saved_14": product_15,
        "saved_15": momentum_W1_rows_2,
        "saved_16": updates_W1_2,
        "saved_17": memory_W1_rows,
        "memory_W1": memory_W1_final,
        "memory_W2": memory_W2_final,
        "memory_W3": memory_W3_final,
        "momentum_W1": momentum_W1_final,
        "momentum_W2": momentum_W2_final,
        "momentum_W3": momentum_W3_final,
        "memory_W1_blocks": memory_W1_blocks,
        "memory_W2_blocks": memory_W2_blocks,
        "memory_W3_blocks": memory_W3_blocks,
        "momentum_W1_blocks": momentum_W1_blocks,
        "momentum_W2_blocks": momentum_W2_blocks,
        "momentum_W3_blocks": momentum_W3_blocks,
    }


def backward(
    blocks,
    count,
    rows,
    halo,
    window,
    resumed,
    d_y,
    q,
    memory_W1,
    origin_W1,
    memory_W3,
    origin_W3,
    memory_W2,
    origin_W2,
    log_alpha,
    d_memory_W3_next,
    d_memory_W2_next,
    d_memory_W1_next,
    lr,
    momentum_W1,
    momentum_W3,
    momentum_W2,
    log_theta,
    d_momentum_W3_next,
    d_momentum_W2_next,
    k_sources,
    d_momentum_W1_next,
    exists_sources,
    gamma_sources,
    live,
    anchor_W1,
    anchor_W3,
    anchor_W2,
    d_anchor_W1,
    d_anchor_W2,
    d_anchor_W3,
    saved_17,
    saved_10,
    saved_13,
    saved_14,
    saved_9,
    saved_12,
    saved_8,
    saved_16,
    saved_0,
    saved_15,
    saved_11,
    saved_7,
    saved_6,
    saved_3,
    saved_4,
    saved_5,
    saved_1,
    saved_2,
):
    """The loop over blocks from the last to the first, then the gradients of all rows."""
    like = d_y
    row, halo_row = blocks.positions(rows, halo, True)
    block = None  # all blocks at once
    product = torch.einsum("...ac,...abc->...ab", d_y, saved_17)
    value = torch.nn.functional.gelu(saved_10)
    value_2 = product * value
    value_3 = product * saved_14 * blocks.gelu_slope(saved_10)
    del product
    d_memory_W1_rows = d_y[..., :, None, :] * (value * saved_14)[..., :, :, None]
    del value
    # phi(q)
    queries = 0.5 * (q * q) + q
    d_memory_W3_rows = value_2[..., :, None, :] * queries[..., :, :, None]
    d_memory_W2_rows = value_3[..., :, None, :] * queries[..., :, :, None]
    del queries
    log_alpha_sums = blocks.running(log_alpha)
    since_start = blocks.decay_from_start(log_alpha_sums, False)
    until_end = blocks.decay_to_end(log_alpha_sums)
    # a_C: decay of the memory over the block
    kept = blocks.decay_whole(log_alpha_sums)
    value_4 = until_end * lr
    value_5 = saved_0 * lr[..., None, :]
    product_2 = torch.einsum("...acd,...ab->...bcd", d_memory_W1_rows, value_5)
    product_3 = torch.einsum("...acd,...ab->...bcd", d_memory_W3_rows, value_5)
    product_4 = torch.einsum("...acd,...ab->...bcd", d_memory_W2_rows, value_5)
    del value_5
    log_theta_sums = blocks.running(log_theta)
    since_start_2 = blocks.decay_from_start(log_theta_sums, False)
    value_6 = torch.nn.functional.gelu(saved_3)
    value_7 = saved_6 * saved_4
    value_8 = blocks.gelu_slope(saved_3)
    # X = phi(k)
    features = 0.5 * (k_sources * k_sources) + k_sources
    value_9 = value_6 * saved_4
    banded = blocks.band(row, halo_row, 0, 15, like)
    until_end_2 = blocks.decay_to_end(log_theta_sums)
    # decay of S over the block
    momentum_kept = blocks.decay_whole(log_theta_sums)
    value_10 = gamma_sources * exists_sources
    product_5 = torch.matmul(until_end_2 * live, banded)
    # B_C: last row of D(theta) Gamma
    momentum_weights = product_5 * gamma_sources * exists_sources
    value_11 = features * momentum_weights[..., :, None]
    value_12 = saved_2 * value_10[..., None, :]
    value_13 = value_12[..., :, :, None] * features[..., None, :, :]
    value_14 = value_9 * momentum_weights[..., :, None]
    value_15 = value_12[..., :, :, None] * value_9[..., None, :, :]
    # M*: the memory at the last border
    anchor_point_W1 = blocks.at_start(anchor_W1, memory_W1, resumed, block)
    value_16 = 0.3989422804014327 * (2.0 - saved_3 * saved_3) * torch.exp(-0.5 * (saved_3 * saved_3))
    total = (d_memory_W1_rows * since_start[..., :, None, None]).sum(-3)
    total_2 = (d_memory_W2_rows * since_start[..., :, None, None]).sum(-3)
    total_3 = (d_memory_W3_rows * since_start[..., :, None, None]).sum(-3)
    total_4 = d_memory_W2_rows.sum(-3)
    total_5 = d_memory_W3_rows.sum(-3)
    total_6 = d_memory_W1_rows.sum(-3)
    d_memory_W1_next_like = d_memory_W1_next
    d_memory_W1_next = d_memory_W1_next.flatten(0, 1)
    d_memory_W1_next_list = []
    d_memory_W2_next_like = d_memory_W2_next
    d_memory_W2_next = d_memory_W2_next.flatten(0, 1)
    d_memory_W2_next_list = []
    d_memory_W3_next_like = d_memory_W3_next
    d_memory_W3_next = d_memory_W3_next.flatten(0, 1)
    d_memory_W3_next_list = []
    d_momentum_W1_next_like = d_momentum_W1_next
    d_momentum_W1_next = d_momentum_W1_next.flatten(0, 1)
    d_momentum_W1_next_list = []
    d_momentum_W2_next_like = d_momentum_W2_next
    d_momentum_W2_next = d_momentum_W2_next.flatten(0, 1)
    d_momentum_W2_next_list = []
    d_momentum_W3_next_like = d_momentum_W3_next
    d_momentum_W3_next = d_momentum_W3_next.flatten(0, 1)
    d_momentum_W3_next_list = []
    kept_d_momentum_W1_rows = []
    kept_d_momentum_W3_rows = []
    kept_d_momentum_W2_rows = []
    kept_value = []
    kept_value_2 = []
    kept_d_errors = []
    kept_value_3 = []
    kept_value_4 = []
    sum_0 = 0.0
    sum_1 = 0.0
    sum_2 = 0.0
    sum_3 = 0.0
    sum_4 = 0.0
    sum_5 = 0.0
    kept_each = blocks.each(kept, count, d_memory_W1_next_like)
    saved_15_each = blocks.each(saved_15, count, d_memory_W1_next_like)
    value_4_each = blocks.each(value_4, count, d_memory_W1_next_like)
    del value_4
    product_2_each = blocks.each(product_2, count, d_memory_W1_next_like)
    del product_2
    saved_11_each = blocks.each(saved_11, count, d_memory_W1_next_like)
    product_3_each = blocks.each(product_3, count, d_memory_W1_next_like)
    del product_3
    saved_7_each = blocks.each(saved_7, count, d_memory_W1_next_like)
    product_4_each = blocks.each(product_4, count, d_memory_W1_next_like)
    del product_4
    since_start_2_each = blocks.each(since_start_2, count, d_memory_W1_next_like)
    saved_6_each = blocks.each(saved_6, count, d_memory_W1_next_like)
    value_6_each = blocks.each(value_6, count, d_memory_W1_next_like)
    saved_4_each = blocks.each(saved_4, count, d_memory_W1_next_like)
    value_7_each = blocks.each(value_7, count, d_memory_W1_next_like)
    value_8_each = blocks.each(value_8, count, d_memory_W1_next_like)
    features_each = blocks.each(features, count, d_memory_W1_next_like)
    saved_5_each = blocks.each(saved_5, count, d_memory_W1_next_like)
    value_9_each = blocks.each(value_9, count, d_memory_W1_next_like)
    momentum_kept_each = blocks.each(momentum_kept, count, d_memory_W1_next_like)
    momentum_weights_each = blocks.each(momentum_weights, count, d_memory_W1_next_like)
    value_11_each = blocks.each(value_11, count, d_memory_W1_next_like)
    del value_11
    value_12_each = blocks.each(value_12, count, d_memory_W1_next_like)
    value_13_each = blocks.each(value_13, count, d_memory_W1_next_like)
    del value_13
    value_14_each = blocks.each(value_14, count, d_memory_W1_next_like)
    del value_14
    value_15_each = blocks.each(value_15, count, d_memory_W1_next_like)
    del value_15
    anchor_point_W1_each = blocks.each(anchor_point_W1, count, d_memory_W1_next_like)
    del anchor_point_W1
    value_16_each = blocks.each(value_16, count, d_memory_W1_next_like)
    del value_16
    total_each = blocks.each(total, count, d_memory_W1_next_like)
    del total
    d_anchor_W1_each = blocks.each(d_anchor_W1, count, d_memory_W1_next_like)
    d_anchor_W2_each = blocks.each(d_anchor_W2, count, d_memory_W1_next_like)
    total_2_each = blocks.each(total_2, count, d_memory_W1_next_like)
    del total_2
    total_3_each = blocks.each(total_3, count, d_memory_W1_next_like)
    del total_3
    d_anchor_W3_each = blocks.each(d_anchor_W3, count, d_memory_W1_next_like)
    total_4_each = blocks.each(total_4, count, d_memory_W1_next_like)
    del total_4
    total_5_each = blocks.each(total_5, count, d_memory_W1_next_like)
    del total_5
    total_6_each = blocks.each(total_6, count, d_memory_W1_next_like)
    del total_6
    for block in reversed(range(count)):
        d_memory_W1_next_list.append(d_memory_W1_next)
        d_memory_W2_next_list.append(d_memory_W2_next)
        d_memory_W3_next_list.append(d_memory_W3_next)
        d_momentum_W1_next_list.append(d_momentum_W1_next)
        d_momentum_W2_next_list.append(d_momentum_W2_next)
        d_momentum_W3_next_list.append(d_momentum_W3_next)
        value_17 = d_memory_W1_next[..., None, :, :] * value_4_each[block][..., :, None, None]
        d_updates_W1 = -value_17 - product_2_each[block]
        d_momentum_W1_rows = blocks.newton_schulz.backward(
            saved_15_each[block],
            d_updates_W1,
            (
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
            ),
        )
        value_18 = d_memory_W3_next[..., None, :, :] * value_4_each[block][..., :, None, None]
        d_updates_W3 = -value_18 - product_3_each[block]
        d_momentum_W3_rows = blocks.newton_schulz.backward(
            saved_11_each[block],
            d_updates_W3,
            (
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
            ),
        )
        value_19 = d_memory_W2_next[..., None, :, :] * value_4_each[block][..., :, None, None]
        d_updates_W2 = -value_19 - product_4_each[block]
        d_momentum_W2_rows = blocks.newton_schulz.backward(
            saved_7_each[block],
            d_updates_W2,
            (
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
            ),
        )
        product_6 = torch.matmul(saved_5_each[block], d_momentum_W1_next.mT)
        product_7 = torch.einsum("...acd,...bd->...abc", d_momentum_W1_rows, saved_5_each[block])
        contract = torch.einsum("...acd,...abc->...bd", d_momentum_W2_rows, value_13_each[block])
        d_errors_W2 = torch.baddbmm(contract, value_11_each[block], d_momentum_W2_next)
        value_20 = d_errors_W2 * value_8_each[block]
        contract_2 = torch.einsum("...acd,...abc->...bd", d_momentum_W1_rows, value_15_each[block])
        contract_3 = torch.einsum("...acd,...abc->...bd", d_momentum_W3_rows, value_13_each[block])
        d_errors_W3 = torch.baddbmm(contract_3, value_11_each[block], d_momentum_W3_next)
        combined = d_errors_W3 * value_6_each[block] + value_20 * saved_4_each[block]
        d_errors = torch.baddbmm(
            torch.baddbmm(contract_2, value_14_each[block], d_momentum_W1_next),
            combined,
            anchor_point_W1_each[block],
        )
        total_7 = (product_7 * value_12_each[block][..., :, :, None]).sum(-3)
        value_21 = product_6 * momentum_weights_each[block][..., :, None]
        combined_2 = torch.baddbmm(value_21 + total_7, d_errors, anchor_point_W1_each[block].mT)
        combined_3 = value_20 * saved_6_each[block] + combined_2 * value_6_each[block]
        combined_4 = d_errors_W3 * saved_6_each[block] + combined_2 * saved_4_each[block]
        value_22 = d_errors_W2 * value_7_each[block] * value_16_each[block]
        combined_5 = value_22 + combined_4 * value_8_each[block]
        combined_6 = d_memory_W1_next * kept_each[block][..., None, None] + total_each[block]
        d_anchor_point_W1 = torch.baddbmm(
            torch.baddbmm(d_anchor_W1_each[block], combined.mT, saved_5_each[block]),
            value_9_each[block].mT,
            d_errors,
        )
        combined_7 = combined_6 + blocks.when_start(d_anchor_point_W1, False, resumed, block)
        d_anchor_point_W2 = torch.baddbmm(d_anchor_W2_each[block], features_each[block].mT, combined_5)
        combined_8 = d_memory_W2_next * kept_each[block][..., None, None] + total_2_each[block]
        combined_9 = blocks.when_start(d_anchor_point_W2, False, resumed, block) + combined_8
        combined_10 = d_memory_W3_next * kept_each[block][..., None, None] + total_3_each[block]
        d_anchor_point_W3 = torch.baddbmm(d_anchor_W3_each[block], features_each[block].mT, combined_3)
        combined_11 = combined_10 + blocks.when_start(d_anchor_point_W3, False, resumed, block)
        value_23 = d_momentum_W1_next * momentum_kept_each[block][..., None, None]
        value_24 = d_momentum_W1_rows * since_start_2_each[block][..., :, None, None]
        combined_12 = value_23 + value_24.sum(-3)
        value_25 = d_momentum_W2_next * momentum_kept_each[block][..., None, None]
        value_26 = d_momentum_W2_rows * since_start_2_each[block][..., :, None, None]
        combined_13 = value_25 + value_26.sum(-3)
        value_27 = d_momentum_W3_next * momentum_kept_each[block][..., None, None]
        value_28 = d_momentum_W3_rows * since_start_2_each[block][..., :, None, None]
        combined_14 = value_27 + value_28.sum(-3)
        combined_15 = d_memory_W2_next + total_4_each[block] - combined_8
        at_border = blocks.when_start(d_anchor_point_W2, True, resumed, block)
        at_border_2 = blocks.when_start(d_anchor_point_W3, True, resumed, block)
        at_border_3 = blocks.when_start(d_anchor_point_W1, True, resumed, block)
        combined_16 = d_memory_W3_next + total_5_each[block] - combined_10
        combined_17 = d_memory_W1_next + total_6_each[block] - combined_6
        kept_d_momentum_W1_rows.append(d_momentum_W1_rows)
        kept_d_momentum_W3_rows.append(d_momentum_W3_rows)
        kept_d_momentum_W2_rows.append(d_momentum_W2_rows)
        kept_value.append(product_6)
        kept_value_2.append(product_7)
        kept_d_errors.append(d_errors)
        kept_value_3.append(combined_3)
        kept_value_4.append(combined_5)
        sum_0 = sum_0 + combined_15
        sum_1 = sum_1 + at_border
        sum_2 = sum_2 + at_border_2
        sum_3 = sum_3 + at_border_3
        sum_4 = sum_4 + combined_16
        sum_5 = sum_5 + combined_17
        (
            d_memory_W1_next,
            d_memory_W2_next,
            d_memory_W3_next,
            d_momentum_W1_next,
            d_momentum_W2_next,
            d_momentum_W3_next,
        ) = (combined_7, combined_9, combined_11, combined_12, combined_13, combined_14)
    del anchor_point_W1_each, d_anchor_W1_each, d_anchor_W2_each, d_anchor_W3_each
    del features_each, kept_each, momentum_kept_each, momentum_weights_each, product_2_each
    del product_3_each, product_4_each, saved_11_each, saved_15_each, saved_4_each
    del saved_5_each, saved_6_each, saved_7_each, since_start_2_each, total_2_each
    del total_3_each, total_4_each, total_5_each, total_6_each, total_each, value_11_each
    del value_12_each, value_13_each, value_14_each, value_15_each, value_16_each
    del value_4_each, value_6_each, value_7_each, value_8_each, value_9_each
    block = None
    d_memory_W1_next_final = d_memory_W1_next.unflatten(0, d_memory_W1_next_like.shape[:2])
    d_memory_W1_next_blocks = blocks.stack(d_memory_W1_next_list[::-1], d_memory_W1_next_like)
    del d_memory_W1_next_list
    d_memory_W2_next_final = d_memory_W2_next.unflatten(0, d_memory_W2_next_like.shape[:2])
    d_memory_W2_next_blocks = blocks.stack(d_memory_W2_next_list[::-1], d_memory_W2_next_like)
    del d_memory_W2_next_list
    d_memory_W3_next_final = d_memory_W3_next.unflatten(0, d_memory_W3_next_like.shape[:2])
    d_memory_W3_next_blocks = blocks.stack(d_memory_W3_next_list[::-1], d_memory_W3_next_like)
    del d_memory_W3_next_list
    d_momentum_W1_next_final = d_momentum_W1_next.unflatten(0, d_momentum_W1_next_like.shape[:2])
    d_momentum_W1_next_blocks = blocks.stack(d_momentum_W1_next_list[::-1], d_momentum_W1_next_like)
    del d_momentum_W1_next_list
    d_momentum_W2_next_final = d_momentum_W2_next.unflatten(0, d_momentum_W2_next_like.shape[:2])
    d_momentum_W2_next_blocks = blocks.stack(d_momentum_W2_next_list[::-1], d_momentum_W2_next_like)
    del d_momentum_W2_next_list
    d_momentum_W3_next_final = d_momentum_W3_next.unflatten(0, d_momentum_W3_next_like.shape[:2])
    d_momentum_W3_next_blocks = blocks.stack(d_momentum_W3_next_list[::-1], d_momentum_W3_next_like)
    del d_momentum_W3_next_list
    d_momentum_W1_rows_2 = blocks.stack(kept_d_momentum_W1_rows[::-1], d_memory_W1_next_like)
    del kept_d_momentum_W1_rows
    d_momentum_W3_rows_2 = blocks.stack(kept_d_momentum_W3_rows[::-1], d_memory_W1_next_like)
    del kept_d_momentum_W3_rows
    d_momentum_W2_rows_2 = blocks.stack(kept_d_momentum_W2_rows[::-1], d_memory_W1_next_like)
    del kept_d_momentum_W2_rows
    kept_value_all = blocks.stack(kept_value[::-1], d_memory_W1_next_like)
    del kept_value
    kept_value_2_all = blocks.stack(kept_value_2[::-1], d_memory_W1_next_like)
    del kept_value_2
    d_errors_2 = blocks.stack(kept_d_errors[::-1], d_memory_W1_next_like)
    del kept_d_errors
    kept_value_3_all = blocks.stack(kept_value_3[::-1], d_memory_W1_next_like)
    del kept_value_3
    kept_value_4_all = blocks.stack(kept_value_4[::-1], d_memory_W1_next_like)
    del kept_value_4
    product_8 = torch.einsum("...ac,...abc->...ab", value_2, saved_13)
    del value_2
    product_9 = torch.einsum("...ac,...abc->...ab", value_3, saved_9)
    del value_3
    d_queries = product_8 + product_9 + d_y
    del product_8, product_9
    value_29 = d_queries * (1.0 * q + 1.0)
    del d_queries
    combined_18 = memory_W1 - origin_W1
    total_8 = (d_memory_W1_rows * combined_18[..., None, :, :]).sum(-2).sum(-1)
    combined_19 = memory_W3 - origin_W3
    total_9 = (d_memory_W3_rows * combined_19[..., None, :, :]).sum(-2).sum(-1)
    combined_20 = memory_W2 - origin_W2
    total_10 = (d_memory_W2_rows * combined_20[..., None, :, :]).sum(-2).sum(-1)
    running = blocks.cumsum((total_8 + total_9 + total_10) * since_start, -1, True, False)
    contract_4 = torch.einsum("...bc,...abc->...a", d_memory_W3_next_blocks, saved_12)
    contract_5 = torch.einsum("...bc,...abc->...a", d_memory_W2_next_blocks, saved_8)
    contract_6 = torch.einsum("...bc,...abc->...a", d_memory_W1_next_blocks, saved_16)
    combined_21 = -contract_4 - contract_5 - contract_6
    running_2 = blocks.cumsum(combined_21 * lr * until_end, -1, False, True)
    total_11 = (d_memory_W3_next_blocks * combined_19).sum(-2).sum(-1)
    del combined_19
    total_12 = (d_memory_W2_next_blocks * combined_20).sum(-2).sum(-1)
    del combined_20
    total_13 = (d_memory_W1_next_blocks * combined_18).sum(-2).sum(-1)
    del combined_18
    d_kept = total_11 + total_12 + total_13
    contract_7 = torch.einsum("...acd,...bcd->...ab", d_memory_W1_rows, saved_16)
    contract_8 = torch.einsum("...acd,...bcd->...ab", d_memory_W3_rows, saved_12)
    contract_9 = torch.einsum("...acd,...bcd->...ab", d_memory_W2_rows, saved_8)
    value_30 = (-contract_7 - contract_8 - contract_9) * saved_0
    del contract_7, contract_8, contract_9
    banded_2 = value_30 * lr[..., None, :] * blocks.band(row, row, 1, None, like)
    banded_3 = blocks.cumsum(banded_2, -1, False, True) * blocks.band(row, row, 0, None, like)
    del banded_2
    combined_22 = running_2 + (d_kept * kept)[..., None] + banded_3.sum(-2)
    del banded_3, kept
    combined_23 = combined_21 * until_end + value_30.sum(-2)
    del value_30
    total_14 = (d_momentum_W1_rows_2 * momentum_W1[..., None, :, :]).sum(-2)
    del d_momentum_W1_rows_2
    total_15 = (d_momentum_W3_rows_2 * momentum_W3[..., None, :, :]).sum(-2)
    total_16 = (d_momentum_W2_rows_2 * momentum_W2[..., None, :, :]).sum(-2)
    value_31 = (total_14.sum(-1) + total_15.sum(-1) + total_16.sum(-1)) * since_start_2
    del since_start_2, total_14, total_15, total_16
    running_3 = blocks.cumsum(value_31, -1, True, False)
    # the error that reaches the output of W3
    errors_W3 = saved_6 * value_6
    del value_6
    product_10 = torch.matmul(errors_W3, d_momentum_W3_next_blocks.mT)
    # the error that reaches the output of W2
    errors_W2 = value_7 * value_8
    del value_7, value_8
    combined_24 = blocks.add_product(product_10, errors_W2, d_momentum_W2_next_blocks.mT, 1)
    del product_10
    d_momentum_weights = (combined_24 * features).sum(-1) + (kept_value_all * value_9).sum(-1)
    del kept_value_all
    value_32 = d_momentum_weights * exists_sources
    product_11 = torch.matmul(value_32 * gamma_sources, banded.mT)
    running_4 = blocks.cumsum(product_11 * live * until_end_2, -1, False, True)
    total_17 = (d_momentum_W3_next_blocks * momentum_W3).sum(-2).sum(-1)
    total_18 = (d_momentum_W2_next_blocks * momentum_W2).sum(-2).sum(-1)
    total_19 = (d_momentum_W1_next_blocks * momentum_W1).sum(-2).sum(-1)
    d_momentum_kept = total_17 + total_18 + total_19
    product_12 = torch.einsum("...acd,...bd->...abc", d_momentum_W3_rows_2, errors_W3)
    del d_momentum_W3_rows_2, errors_W3
    product_13 = torch.einsum("...acd,...bd->...abc", d_momentum_W2_rows_2, errors_W2)
    del d_momentum_W2_rows_2, errors_W2
    combined_25 = product_12 + product_13
    total_20 = (kept_value_2_all * value_9[..., None, :, :]).sum(-1)
    del kept_value_2_all, value_9
    combined_26 = total_20 + (combined_25 * features[..., None, :, :]).sum(-1)
    del features, total_20
    product_14 = torch.matmul(combined_26 * value_10[..., None, :], banded.mT)
    value_33 = product_14 * saved_1 * live[..., None, :]
    del product_14
    banded_4 = value_33 * blocks.band(row, row, 1, None, like)
    del value_33
    banded_5 = blocks.cumsum(banded_4, -1, False, True) * blocks.band(row, row, 0, None, like)
    del banded_4
    combined_27 = running_4 + (d_momentum_kept * momentum_kept)[..., None] + banded_5.sum(-2)
    del banded_5, momentum_kept
    combined_28 = value_32 * product_5 + (combined_26 * saved_2).sum(-2) * exists_sources
    del combined_26
    # M*: the memory at the last border
    anchor_point_W3 = blocks.at_start(anchor_W3, memory_W3, resumed, block)
    # M*: the memory at the last border
    anchor_point_W2 = blocks.at_start(anchor_W2, memory_W2, resumed, block)
    total_21 = (combined_25 * value_12[..., :, :, None]).sum(-3)
    del value_12
    value_34 = combined_24 * momentum_weights[..., :, None]
    del combined_24, momentum_weights
    rename = d_errors_2
    d_features = blocks.add_product(
        blocks.add_product(value_34 + rename + total_21, kept_value_3_all, anchor_point_W3.mT, 1),
        kept_value_4_all,
        anchor_point_W2.mT,
        1,
    )
    del anchor_point_W2, anchor_point_W3, kept_value_3_all, kept_value_4_all, rename, total_21
    del value_34
    value_35 = d_features * (1.0 * k_sources + 1.0)
    del d_features
    value_36 = -d_errors_2
    del d_errors_2
    return {
        "part_0": value_29,
        "part_1": running,
        "part_2": combined_22,
        "part_3": combined_23,
        "part_4": running_3,
        "part_5": combined_27,
        "part_6": combined_28,
        "part_7": value_35,
        "part_8": value_36,
        "sum_0": sum_0,
        "sum_1": sum_1,
        "sum_2": sum_2,
        "sum_3": sum_3,
        "sum_4": sum_4,
        "sum_5": sum_5,
        "d_memory_W1": d_memory_W1_next_final,
        "d_memory_W2": d_memory_W2_next_final,
        "d_memory_W3": d_memory_W3_next_final,
        "d_momentum_W1": d_momentum_W1_next_final,
        "d_momentum_W2": d_momentum_W2_next_final,
        "d_momentum_W3": d_momentum_W3_next_final,
        "d_memory_W1_blocks": d_memory_W1_next_blocks,
        "d_memory_W2_blocks": d_memory_W2_next_blocks,
        "d_memory_W3_blocks": d_memory_W3_next_blocks,
        "d_momentum_W1_blocks": d_momentum_W1_next_blocks,
        "d_momentum_W2_blocks": d_momentum_W2_next_blocks,
        "d_momentum_W3_blocks": d_momentum_W3_next_blocks,
    }

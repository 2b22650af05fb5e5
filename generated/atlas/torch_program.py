"""The memory rule atlas as a torch program: `forward` and `backward` of all blocks.

Arrays are [B, H, N, ...] over N blocks; `blocks` is atlasgen.runtime.blocks.
Rule 3519a5058632, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
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
    lr,
    momentum_W1,
    log_theta,
    live,
    gamma_sources,
    exists_sources,
    k_sources,
    anchor_W1,
    anchor_W2,
    memory_W2,
    v_sources,
    origin_W2,
    momentum_W2,
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
    momentum_W1_like = momentum_W1
    momentum_W1 = momentum_W1.flatten(0, 1)
    momentum_W1_list = []
    momentum_W2_like = momentum_W2
    momentum_W2 = momentum_W2.flatten(0, 1)
    momentum_W2_list = []
    kept_value = []
    kept_errors = []
    kept_value_2 = []
    kept_momentum_W1_rows = []
    kept_updates_W1 = []
    kept_momentum_W2_rows = []
    kept_updates_W2 = []
    origin_W1_each = blocks.each(origin_W1, count, memory_W1_like)
    since_start_each = blocks.each(since_start, count, memory_W1_like)
    del since_start
    value_each = blocks.each(value, count, memory_W1_like)
    del value
    features_each = blocks.each(features, count, memory_W1_like)
    del features
    value_2_each = blocks.each(value_2, count, memory_W1_like)
    del value_2
    anchor_W1_each = blocks.each(anchor_W1, count, memory_W1_like)
    anchor_W2_each = blocks.each(anchor_W2, count, memory_W1_like)
    rename_each = blocks.each(rename, count, memory_W1_like)
    del rename
    v_sources_each = blocks.each(v_sources, count, memory_W1_like)
    origin_W2_each = blocks.each(origin_W2, count, memory_W1_like)
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
        momentum_W1_list.append(momentum_W1)
        momentum_W2_list.append(momentum_W2)
        combined = memory_W1 - origin_W1_each[block]
        value_5 = momentum_W1[..., None, :, :] * since_start_each[block][..., :, None, None]
        # M*: the memory at the last border
        anchor_point_W1 = blocks.at_start(anchor_W1_each[block], memory_W1, resumed, block)
        product_3 = torch.matmul(features_each[block], anchor_point_W1)
        value_6 = torch.nn.functional.gelu(product_3)
        # M*: the memory at the last border
        anchor_point_W2 = blocks.at_start(anchor_W2_each[block], memory_W2, resumed, block)
        # pred = f(M*, phi(k))
        predictions = torch.baddbmm(rename_each[block], value_6, anchor_point_W2)
        # E = dl/dpred at the block's M*
        errors = predictions - v_sources_each[block]
        product_4 = torch.matmul(errors, anchor_point_W2.mT)
        # the error that reaches the output of W1
        errors_W1 = product_4 * blocks.gelu_slope(product_3)
        product_5 = torch.einsum("...abc,...bd->...acd", value_2_each[block], errors_W1)
        # S_t of every token
        momentum_W1_rows = value_5 + product_5
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
        combined_2 = memory_W2 - origin_W2_each[block]
        value_7 = momentum_W2[..., None, :, :] * since_start_each[block][..., :, None, None]
        value_8 = value_each[block][..., :, :, None] * value_6[..., None, :, :]
        product_6 = torch.einsum("...abc,...bd->...acd", value_8, errors)
        # S_t of every token
        momentum_W2_rows = value_7 + product_6
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
        product_7 = torch.einsum("...a,...abc->...bc", value_3_each[block], updates_W1)
        value_9 = combined * kept_each[block][..., None, None]
        # M at the end
        memory_W1_next = value_9 + origin_W1_each[block] - product_7
        product_8 = torch.einsum("...a,...abc->...bc", value_3_each[block], updates_W2)
        value_10 = combined_2 * kept_each[block][..., None, None]
        # M at the end
        memory_W2_next = value_10 + origin_W2_each[block] - product_8
        value_11 = momentum_W1 * momentum_kept_each[block][..., None, None]
        # S at the end of the block
        momentum_next_W1 = torch.baddbmm(value_11, value_4_each[block].mT, errors_W1)
        value_12 = momentum_W2 * momentum_kept_each[block][..., None, None]
        value_13 = value_6 * momentum_weights_each[block][..., :, None]
        # S at the end of the block
        momentum_next_W2 = torch.baddbmm(value_12, value_13.mT, errors)
        kept_value.append(product_3)
        kept_errors.append(errors)
        kept_value_2.append(product_4)
        kept_momentum_W1_rows.append(momentum_W1_rows)
        kept_updates_W1.append(updates_W1)
        kept_momentum_W2_rows.append(momentum_W2_rows)
        kept_updates_W2.append(updates_W2)
        memory_W1, memory_W2, momentum_W1, momentum_W2 = (
            memory_W1_next,
            memory_W2_next,
            momentum_next_W1,
            momentum_next_W2,
        )
    del anchor_W1_each, anchor_W2_each, features_each, kept_each, momentum_kept_each
    del momentum_weights_each, origin_W1_each, origin_W2_each, rename_each, since_start_each
    del v_sources_each, value_2_each, value_3_each, value_4_each, value_each
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
    errors_2 = blocks.stack(kept_errors, memory_W1_like)
    del kept_errors
    kept_value_2_all = blocks.stack(kept_value_2, memory_W1_like)
    del kept_value_2
    momentum_W1_rows_2 = blocks.stack(kept_momentum_W1_rows, memory_W1_like)
    del kept_momentum_W1_rows
    updates_W1_2 = blocks.stack(kept_updates_W1, memory_W1_like)
    del kept_updates_W1
    momentum_W2_rows_2 = blocks.stack(kept_momentum_W2_rows, memory_W1_like)
    del kept_momentum_W2_rows
    updates_W2_2 = blocks.stack(kept_updates_W2, memory_W1_like)
    del kept_updates_W2
    # phi(q)
    queries = 0.5 * (q * q) + q
    combined_3 = memory_W1_blocks - origin_W1
    since_start_2 = blocks.decay_from_start(log_alpha_sums, False)
    value_14 = combined_3[..., None, :, :] * since_start_2[..., :, None, None]
    del combined_3
    decay_2 = blocks.decay(log_alpha_sums, False)
    value_15 = decay_2 * lr[..., None, :]
    product_9 = torch.einsum("...ab,...bcd->...acd", value_15, updates_W1_2)
    # W_t of every token
    memory_W1_rows = value_14 + origin_W1[..., None, :, :] - product_9
    product_10 = torch.einsum("...ab,...abc->...ac", queries, memory_W1_rows)
    combined_4 = memory_W2_blocks - origin_W2
    value_16 = combined_4[..., None, :, :] * since_start_2[..., :, None, None]
    del combined_4
    product_11 = torch.einsum("...ab,...bcd->...acd", value_15, updates_W2_2)
    del value_15
    # W_t of every token
    memory_W2_rows = value_16 + origin_W2[..., None, :, :] - product_11
    value_17 = torch.nn.functional.gelu(product_10)
    product_12 = torch.einsum("...ab,...abc->...ac", value_17, memory_W2_rows)
    del value_17
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = product_12 + queries
    del product_12, queries
    # M*: the memory at the last border
    anchor_point_W1_2 = blocks.at_start(anchor_W1, memory_W1_blocks, resumed, block)
    # M*: the memory at the last border
    anchor_point_W2_2 = blocks.at_start(anchor_W2, memory_W2_blocks, resumed, block)
    return {
        "y": reads,
        "anchor_W1_value": anchor_point_W1_2,
        "anchor_W2_value": anchor_point_W2_2,
        "saved_0": decay_2,
        "saved_1": decay,
        "saved_2": product,
        "saved_3": kept_value_all,
        "saved_4": errors_2,
        "saved_5": kept_value_2_all,
        "saved_6": momentum_W1_rows_2,
        "saved_7": updates_W1_2,
        "saved_8": memory_W1_rows,
        "saved_9": product_10,
        "saved_10": momentum_W2_rows_2,
        "saved_11": updates_W2_2,
        "saved_12": memory_W2_rows,
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
    q,
    memory_W2,
    origin_W2,
    memory_W1,
    origin_W1,
    log_alpha,
    d_memory_W2_next,
    d_memory_W1_next,
    lr,
    momentum_W2,
    momentum_W1,
    log_theta,
    d_momentum_W2_next,
    d_momentum_W1_next,
    k_sources,
    exists_sources,
    gamma_sources,
    live,
    anchor_W2,
    anchor_W1,
    d_anchor_W1,
    d_anchor_W2,
    saved_12,
    saved_9,
    saved_8,
    saved_11,
    saved_7,
    saved_0,
    saved_10,
    saved_6,
    saved_4,
    saved_3,
    saved_5,
    saved_1,
    saved_2,
):
    """The loop over blocks from the last to the first, then the gradients of all rows."""
    like = d_y
    row, halo_row = blocks.positions(rows, halo, True)
    block = None  # all blocks at once
    product = torch.einsum("...ac,...abc->...ab", d_y, saved_12)
    value = product * blocks.gelu_slope(saved_9)
    del product
    d_memory_W2_rows = d_y[..., :, None, :] * torch.nn.functional.gelu(saved_9)[..., :, :, None]
    # phi(q)
    queries = 0.5 * (q * q) + q
    d_memory_W1_rows = value[..., :, None, :] * queries[..., :, :, None]
    del queries
    log_alpha_sums = blocks.running(log_alpha)
    since_start = blocks.decay_from_start(log_alpha_sums, False)
    until_end = blocks.decay_to_end(log_alpha_sums)
    # a_C: decay of the memory over the block
    kept = blocks.decay_whole(log_alpha_sums)
    value_2 = until_end * lr
    value_3 = saved_0 * lr[..., None, :]
    product_2 = torch.einsum("...acd,...ab->...bcd", d_memory_W2_rows, value_3)
    product_3 = torch.einsum("...acd,...ab->...bcd", d_memory_W1_rows, value_3)
    del value_3
    log_theta_sums = blocks.running(log_theta)
    since_start_2 = blocks.decay_from_start(log_theta_sums, False)
    value_4 = torch.nn.functional.gelu(saved_3)
    value_5 = blocks.gelu_slope(saved_3)
    # X = phi(k)
    features = 0.5 * (k_sources * k_sources) + k_sources
    banded = blocks.band(row, halo_row, 0, 15, like)
    until_end_2 = blocks.decay_to_end(log_theta_sums)
    # decay of S over the block
    momentum_kept = blocks.decay_whole(log_theta_sums)
    value_6 = gamma_sources * exists_sources
    product_4 = torch.matmul(until_end_2 * live, banded)
    # B_C: last row of D(theta) Gamma
    momentum_weights = product_4 * gamma_sources * exists_sources
    value_7 = value_4 * momentum_weights[..., :, None]
    value_8 = saved_2 * value_6[..., None, :]
    value_9 = value_8[..., :, :, None] * value_4[..., None, :, :]
    value_10 = features * momentum_weights[..., :, None]
    value_11 = value_8[..., :, :, None] * features[..., None, :, :]
    # M*: the memory at the last border
    anchor_point_W2 = blocks.at_start(anchor_W2, memory_W2, resumed, block)
    value_12 = 0.3989422804014327 * (2.0 - saved_3 * saved_3) * torch.exp(-0.5 * (saved_3 * saved_3))
    total = (d_memory_W1_rows * since_start[..., :, None, None]).sum(-3)
    total_2 = (d_memory_W2_rows * since_start[..., :, None, None]).sum(-3)
    total_3 = d_memory_W1_rows.sum(-3)
    total_4 = d_memory_W2_rows.sum(-3)
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
    kept_d_momentum_W2_rows = []
    kept_d_momentum_W1_rows = []
    kept_value = []
    kept_value_2 = []
    kept_d_errors = []
    kept_value_3 = []
    sum_0 = 0.0
    sum_1 = 0.0
    sum_2 = 0.0
    sum_3 = 0.0
    kept_each = blocks.each(kept, count, d_memory_W1_next_like)
    saved_10_each = blocks.each(saved_10, count, d_memory_W1_next_like)
    value_2_each = blocks.each(value_2, count, d_memory_W1_next_like)
    del value_2
    product_2_each = blocks.each(product_2, count, d_memory_W1_next_like)
    del product_2
    saved_6_each = blocks.each(saved_6, count, d_memory_W1_next_like)
    product_3_each = blocks.each(product_3, count, d_memory_W1_next_like)
    del product_3
    since_start_2_each = blocks.each(since_start_2, count, d_memory_W1_next_like)
    saved_4_each = blocks.each(saved_4, count, d_memory_W1_next_like)
    value_4_each = blocks.each(value_4, count, d_memory_W1_next_like)
    saved_5_each = blocks.each(saved_5, count, d_memory_W1_next_like)
    value_5_each = blocks.each(value_5, count, d_memory_W1_next_like)
    features_each = blocks.each(features, count, d_memory_W1_next_like)
    momentum_kept_each = blocks.each(momentum_kept, count, d_memory_W1_next_like)
    momentum_weights_each = blocks.each(momentum_weights, count, d_memory_W1_next_like)
    value_7_each = blocks.each(value_7, count, d_memory_W1_next_like)
    del value_7
    value_8_each = blocks.each(value_8, count, d_memory_W1_next_like)
    value_9_each = blocks.each(value_9, count, d_memory_W1_next_like)
    del value_9
    value_10_each = blocks.each(value_10, count, d_memory_W1_next_like)
    del value_10
    value_11_each = blocks.each(value_11, count, d_memory_W1_next_like)
    del value_11
    anchor_point_W2_each = blocks.each(anchor_point_W2, count, d_memory_W1_next_like)
    del anchor_point_W2
    value_12_each = blocks.each(value_12, count, d_memory_W1_next_like)
    del value_12
    d_anchor_W1_each = blocks.each(d_anchor_W1, count, d_memory_W1_next_like)
    total_each = blocks.each(total, count, d_memory_W1_next_like)
    del total
    total_2_each = blocks.each(total_2, count, d_memory_W1_next_like)
    del total_2
    d_anchor_W2_each = blocks.each(d_anchor_W2, count, d_memory_W1_next_like)
    total_3_each = blocks.each(total_3, count, d_memory_W1_next_like)
    del total_3
    total_4_each = blocks.each(total_4, count, d_memory_W1_next_like)
    del total_4
    for block in reversed(range(count)):
        d_memory_W1_next_list.append(d_memory_W1_next)
        d_memory_W2_next_list.append(d_memory_W2_next)
        d_momentum_W1_next_list.append(d_momentum_W1_next)
        d_momentum_W2_next_list.append(d_momentum_W2_next)
        value_13 = d_memory_W2_next[..., None, :, :] * value_2_each[block][..., :, None, None]
        d_updates_W2 = -value_13 - product_2_each[block]
        d_momentum_W2_rows = blocks.newton_schulz.backward(
            saved_10_each[block],
            d_updates_W2,
            (
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
            ),
        )
        value_14 = d_memory_W1_next[..., None, :, :] * value_2_each[block][..., :, None, None]
        d_updates_W1 = -value_14 - product_3_each[block]
        d_momentum_W1_rows = blocks.newton_schulz.backward(
            saved_6_each[block],
            d_updates_W1,
            (
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
                (3.4445, -4.775, 2.0315),
            ),
        )
        product_5 = torch.matmul(saved_4_each[block], d_momentum_W2_next.mT)
        product_6 = torch.einsum("...acd,...bd->...abc", d_momentum_W2_rows, saved_4_each[block])
        contract = torch.einsum("...acd,...abc->...bd", d_momentum_W2_rows, value_9_each[block])
        contract_2 = torch.einsum("...acd,...abc->...bd", d_momentum_W1_rows, value_11_each[block])
        d_errors_W1 = torch.baddbmm(contract_2, value_10_each[block], d_momentum_W1_next)
        value_15 = d_errors_W1 * value_5_each[block]
        d_errors = torch.baddbmm(
            torch.baddbmm(contract, value_7_each[block], d_momentum_W2_next),
            value_15,
            anchor_point_W2_each[block],
        )
        total_5 = (product_6 * value_8_each[block][..., :, :, None]).sum(-3)
        value_16 = product_5 * momentum_weights_each[block][..., :, None]
        combined = torch.baddbmm(value_16 + total_5, d_errors, anchor_point_W2_each[block].mT)
        value_17 = d_errors_W1 * saved_5_each[block] * value_12_each[block]
        combined_2 = value_17 + combined * value_5_each[block]
        d_anchor_point_W1 = torch.baddbmm(d_anchor_W1_each[block], features_each[block].mT, combined_2)
        combined_3 = d_memory_W1_next * kept_each[block][..., None, None] + total_each[block]
        combined_4 = blocks.when_start(d_anchor_point_W1, False, resumed, block) + combined_3
        combined_5 = d_memory_W2_next * kept_each[block][..., None, None] + total_2_each[block]
        d_anchor_point_W2 = torch.baddbmm(
            torch.baddbmm(d_anchor_W2_each[block], value_15.mT, saved_4_each[block]),
            value_4_each[block].mT,
            d_errors,
        )
        combined_6 = combined_5 + blocks.when_start(d_anchor_point_W2, False, resumed, block)
        value_18 = d_momentum_W1_next * momentum_kept_each[block][..., None, None]
        value_19 = d_momentum_W1_rows * since_start_2_each[block][..., :, None, None]
        combined_7 = value_18 + value_19.sum(-3)
        value_20 = d_momentum_W2_next * momentum_kept_each[block][..., None, None]
        value_21 = d_momentum_W2_rows * since_start_2_each[block][..., :, None, None]
        combined_8 = value_20 + value_21.sum(-3)
        combined_9 = d_memory_W1_next + total_3_each[block] - combined_3
        at_border = blocks.when_start(d_anchor_point_W1, True, resumed, block)
        at_border_2 = blocks.when_start(d_anchor_point_W2, True, resumed, block)
        combined_10 = d_memory_W2_next + total_4_each[block] - combined_5
        kept_d_momentum_W2_rows.append(d_momentum_W2_rows)
        kept_d_momentum_W1_rows.append(d_momentum_W1_rows)
        kept_value.append(product_5)
        kept_value_2.append(product_6)
        kept_d_errors.append(d_errors)
        kept_value_3.append(combined_2)
        sum_0 = sum_0 + combined_9
        sum_1 = sum_1 + at_border
        sum_2 = sum_2 + at_border_2
        sum_3 = sum_3 + combined_10
        d_memory_W1_next, d_memory_W2_next, d_momentum_W1_next, d_momentum_W2_next = (
            combined_4,
            combined_6,
            combined_7,
            combined_8,
        )
    del anchor_point_W2_each, d_anchor_W1_each, d_anchor_W2_each, features_each, kept_each
    del momentum_kept_each, momentum_weights_each, product_2_each, product_3_each
    del saved_10_each, saved_4_each, saved_5_each, saved_6_each, since_start_2_each
    del total_2_each, total_3_each, total_4_each, total_each, value_10_each, value_11_each
    del value_12_each, value_2_each, value_4_each, value_5_each, value_7_each, value_8_each
    del value_9_each
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
    d_momentum_W2_rows_2 = blocks.stack(kept_d_momentum_W2_rows[::-1], d_memory_W1_next_like)
    del kept_d_momentum_W2_rows
    d_momentum_W1_rows_2 = blocks.stack(kept_d_momentum_W1_rows[::-1], d_memory_W1_next_like)
    del kept_d_momentum_W1_rows
    kept_value_all = blocks.stack(kept_value[::-1], d_memory_W1_next_like)
    del kept_value
    kept_value_2_all = blocks.stack(kept_value_2[::-1], d_memory_W1_next_like)
    del kept_value_2
    d_errors_2 = blocks.stack(kept_d_errors[::-1], d_memory_W1_next_like)
    del kept_d_errors
    kept_value_3_all = blocks.stack(kept_value_3[::-1], d_memory_W1_next_like)
    del kept_value_3
    product_7 = torch.einsum("...ac,...abc->...ab", value, saved_8)
    del value
    d_queries = d_y + product_7
    del product_7
    value_22 = d_queries * (1.0 * q + 1.0)
    del d_queries
    combined_11 = memory_W2 - origin_W2
    total_6 = (d_memory_W2_rows * combined_11[..., None, :, :]).sum(-2).sum(-1)
    combined_12 = memory_W1 - origin_W1
    total_7 = (d_memory_W1_rows * combined_12[..., None, :, :]).sum(-2).sum(-1)
    running = blocks.cumsum((total_6 + total_7) * since_start, -1, True, False)
    contract_3 = torch.einsum("...bc,...abc->...a", d_memory_W2_next_blocks, saved_11)
    contract_4 = torch.einsum("...bc,...abc->...a", d_memory_W1_next_blocks, saved_7)
    combined_13 = -contract_3 - contract_4
    running_2 = blocks.cumsum(combined_13 * lr * until_end, -1, False, True)
    total_8 = (d_memory_W2_next_blocks * combined_11).sum(-2).sum(-1)
    del combined_11
    d_kept = total_8 + (d_memory_W1_next_blocks * combined_12).sum(-2).sum(-1)
    del combined_12
    contract_5 = torch.einsum("...acd,...bcd->...ab", d_memory_W2_rows, saved_11)
    contract_6 = torch.einsum("...acd,...bcd->...ab", d_memory_W1_rows, saved_7)
    value_23 = (-contract_5 - contract_6) * saved_0
    del contract_5, contract_6
    banded_2 = value_23 * lr[..., None, :] * blocks.band(row, row, 1, None, like)
    banded_3 = blocks.cumsum(banded_2, -1, False, True) * blocks.band(row, row, 0, None, like)
    del banded_2
    combined_14 = running_2 + (d_kept * kept)[..., None] + banded_3.sum(-2)
    del banded_3, kept
    combined_15 = combined_13 * until_end + value_23.sum(-2)
    del value_23
    total_9 = (d_momentum_W2_rows_2 * momentum_W2[..., None, :, :]).sum(-2)
    del d_momentum_W2_rows_2
    total_10 = (d_momentum_W1_rows_2 * momentum_W1[..., None, :, :]).sum(-2)
    value_24 = (total_9.sum(-1) + total_10.sum(-1)) * since_start_2
    del since_start_2, total_10, total_9
    running_3 = blocks.cumsum(value_24, -1, True, False)
    # the error that reaches the output of W1
    errors_W1 = saved_5 * value_5
    del value_5
    product_8 = torch.matmul(errors_W1, d_momentum_W1_next_blocks.mT)
    d_momentum_weights = (kept_value_all * value_4).sum(-1) + (product_8 * features).sum(-1)
    del kept_value_all
    value_25 = d_momentum_weights * exists_sources
    product_9 = torch.matmul(value_25 * gamma_sources, banded.mT)
    running_4 = blocks.cumsum(product_9 * live * until_end_2, -1, False, True)
    total_11 = (d_momentum_W2_next_blocks * momentum_W2).sum(-2).sum(-1)
    d_momentum_kept = total_11 + (d_momentum_W1_next_blocks * momentum_W1).sum(-2).sum(-1)
    product_10 = torch.einsum("...acd,...bd->...abc", d_momentum_W1_rows_2, errors_W1)
    del d_momentum_W1_rows_2, errors_W1
    total_12 = (kept_value_2_all * value_4[..., None, :, :]).sum(-1)
    del kept_value_2_all, value_4
    combined_16 = total_12 + (product_10 * features[..., None, :, :]).sum(-1)
    del features, total_12
    product_11 = torch.matmul(combined_16 * value_6[..., None, :], banded.mT)
    value_26 = product_11 * saved_1 * live[..., None, :]
    del product_11
    banded_4 = value_26 * blocks.band(row, row, 1, None, like)
    del value_26
    banded_5 = blocks.cumsum(banded_4, -1, False, True) * blocks.band(row, row, 0, None, like)
    del banded_4
    combined_17 = running_4 + (d_momentum_kept * momentum_kept)[..., None] + banded_5.sum(-2)
    del banded_5, momentum_kept
    combined_18 = value_25 * product_4 + (combined_16 * saved_2).sum(-2) * exists_sources
    del combined_16
    # M*: the memory at the last border
    anchor_point_W1 = blocks.at_start(anchor_W1, memory_W1, resumed, block)
    total_13 = (product_10 * value_8[..., :, :, None]).sum(-3)
    del value_8
    value_27 = product_8 * momentum_weights[..., :, None]
    del momentum_weights, product_8
    rename = d_errors_2
    d_features = blocks.add_product(value_27 + rename + total_13, kept_value_3_all, anchor_point_W1.mT, 1)
    del anchor_point_W1, kept_value_3_all, rename, total_13, value_27
    value_28 = d_features * (1.0 * k_sources + 1.0)
    del d_features
    value_29 = -d_errors_2
    del d_errors_2
    return {
        "part_0": value_22,
        "part_1": running,
        "part_2": combined_14,
        "part_3": combined_15,
        "part_4": running_3,
        "part_5": combined_17,
        "part_6": combined_18,
        "part_7": value_28,
        "part_8": value_29,
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

"""The memory rule omeganet_exact as a torch program: `forward` and `backward` of all blocks.

Arrays are [B, H, N, ...] over N blocks; `blocks` is atlasgen.runtime.blocks.
Rule 5986f512d276, schedule recurrent, generator 1. Written by `atlasgen build`; edit the spec, not this file.
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
    k_sources,
    live,
    gamma_sources,
    exists_sources,
    lr,
    v_sources,
):
    """The loop over blocks, then the reads of all blocks."""
    like = q
    row, halo_row = blocks.positions(rows, halo, True)
    block = None  # all blocks at once
    value = torch.exp(log_alpha.sum(-1))
    product = torch.matmul(live, blocks.band(row, halo_row, 0, 15, like))
    value_2 = k_sources * (product * gamma_sources * exists_sources)[..., :, None]
    value_3 = value_2 * lr.sum(-1)[..., None, None]
    del value_2
    memory_like = memory
    memory = memory.flatten(0, 1)
    memory_list = []
    kept_errors = []
    value_each = blocks.each(value, count, memory_like)
    k_sources_each = blocks.each(k_sources, count, memory_like)
    value_3_each = blocks.each(value_3, count, memory_like)
    v_sources_each = blocks.each(v_sources, count, memory_like)
    for block in range(count):
        memory_list.append(memory)
        # E = dl/dpred at the block's M*
        errors = torch.baddbmm(v_sources_each[block], k_sources_each[block], memory, beta=-1)
        value_4 = memory * value_each[block][..., None, None]
        # M after the token
        memory_next = torch.baddbmm(value_4, value_3_each[block].mT, errors, alpha=-1)
        kept_errors.append(errors)
        memory = memory_next
    del k_sources_each, v_sources_each, value_3_each, value_each
    block = None
    memory_final = memory.unflatten(0, memory_like.shape[:2])
    memory_blocks = blocks.stack(memory_list, memory_like)
    del memory_list
    errors_2 = blocks.stack(kept_errors, memory_like)
    del kept_errors
    product_2 = torch.matmul(q, memory_blocks)
    product_3 = torch.matmul(q, value_3.mT)
    del value_3
    value_5 = product_2 * value[..., None, None]
    del value
    # diag(a) Q M - diag(b) Q S - ((Q X^T) * P) E
    reads = blocks.add_product(value_5, product_3, errors_2, -1)
    del value_5
    return {
        "y": reads,
        "saved_0": product_2,
        "saved_1": product_3,
        "saved_2": errors_2,
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
    k_sources,
    live,
    gamma_sources,
    exists_sources,
    lr,
    d_memory_next,
    q,
    saved_2,
    saved_0,
    saved_1,
):
    """The loop over blocks from the last to the first, then the gradients of all rows."""
    like = d_y
    row, halo_row = blocks.positions(rows, halo, True)
    block = None  # all blocks at once
    value = torch.exp(log_alpha.sum(-1))
    value_2 = d_y * value[..., None, None]
    product = torch.matmul(live, blocks.band(row, halo_row, 0, 15, like))
    value_3 = product * gamma_sources * exists_sources
    value_4 = k_sources * value_3[..., :, None]
    total = lr.sum(-1)
    value_5 = value_4 * total[..., None, None]
    product_2 = torch.matmul(saved_1.mT, d_y)
    product_3 = torch.matmul(q.mT, value_2)
    d_memory_next_like = d_memory_next
    d_memory_next = d_memory_next.flatten(0, 1)
    d_memory_next_list = []
    kept_d_errors = []
    value_each = blocks.each(value, count, d_memory_next_like)
    k_sources_each = blocks.each(k_sources, count, d_memory_next_like)
    value_5_each = blocks.each(value_5, count, d_memory_next_like)
    product_2_each = blocks.each(product_2, count, d_memory_next_like)
    del product_2
    product_3_each = blocks.each(product_3, count, d_memory_next_like)
    del product_3
    for block in reversed(range(count)):
        d_memory_next_list.append(d_memory_next)
        d_errors = torch.baddbmm(product_2_each[block], value_5_each[block], d_memory_next, beta=-1, alpha=-1)
        value_6 = d_memory_next * value_each[block][..., None, None]
        combined = torch.baddbmm(value_6 + product_3_each[block], k_sources_each[block].mT, d_errors)
        kept_d_errors.append(d_errors)
        d_memory_next = combined
    del k_sources_each, product_2_each, product_3_each, value_5_each, value_each
    block = None
    d_memory_next_final = d_memory_next.unflatten(0, d_memory_next_like.shape[:2])
    d_memory_next_blocks = blocks.stack(d_memory_next_list[::-1], d_memory_next_like)
    del d_memory_next_list
    d_errors_2 = blocks.stack(kept_d_errors[::-1], d_memory_next_like)
    del kept_d_errors
    product_4 = torch.matmul(value_2, memory.mT)
    del value_2
    product_5 = torch.matmul(d_y, saved_2.mT)
    combined_2 = blocks.add_product(product_4, product_5, value_5, -1)
    del product_4, value_5
    total_2 = (d_memory_next_blocks * memory).sum(-2).sum(-1)
    value_7 = (total_2 + (d_y * saved_0).sum(-2).sum(-1)) * value
    del value
    product_6 = torch.matmul(saved_2, d_memory_next_blocks.mT)
    product_7 = torch.matmul(product_5.mT, q)
    del product_5
    combined_3 = -product_6 - product_7
    del product_6, product_7
    value_8 = combined_3 * total[..., None, None]
    value_9 = value_8 * value_3[..., :, None]
    combined_4 = blocks.add_product(value_9, d_errors_2, memory.mT, 1)
    del value_9
    value_10 = (value_8 * k_sources).sum(-1) * exists_sources * product
    del value_8
    total_3 = (combined_3 * value_4).sum(-2).sum(-1)
    del combined_3, value_4
    value_11 = -d_errors_2
    del d_errors_2
    return {
        "part_0": combined_2,
        "part_1": value_7,
        "part_2": combined_4,
        "part_3": value_10,
        "part_4": total_3,
        "part_5": value_11,
        "d_memory": d_memory_next_final,
        "d_memory_blocks": d_memory_next_blocks,
    }

"""Bring the gradients of halo rows to the rows they belong to.

Block n's kernel writes the gradient of the rows before the block to a buffer of its own; this kernel,
launched after it, adds to the rows of the sequence what the blocks after them have. Every row has one owner:
no atomics.
"""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["tokens", "blocks"])
def add_halo(
    halo_pointer, rows_pointer, window_pointer, length_pointer, position_pointer, tokens, heads,
    blocks,
    ALIGNED: tl.constexpr,
    RESUME: tl.constexpr,
    HAS_LENGTH: tl.constexpr,
    ROWS: tl.constexpr,
    HALO: tl.constexpr,
    HELD: tl.constexpr,
    REACH: tl.constexpr,
    SPAN: tl.constexpr,
    SIZE: tl.constexpr,
    BLOCK_SPAN: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    """rows[b, n * ROWS - phase - HALO + p, h] += halo[b, h, n, p] for all rows p of the halo.

    A program owns the last SPAN rows of a block, or of one of the REACH before the first, and sums over the
    REACH blocks after it, whose halos have them.
    """
    program = tl.program_id(0)
    owners = blocks - 1 + REACH
    block = program % owners - REACH
    memory_index = tl.cast(program // owners, tl.int64)
    batch = memory_index // heads
    head = memory_index % heads
    end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens
    position = tl.load(position_pointer + batch) if RESUME else 0
    phase = position % ROWS if ALIGNED else 0
    row = tl.arange(0, BLOCK_SPAN)
    entry = tl.arange(0, BLOCK_SIZE)
    token = tl.cast(block, tl.int64) * ROWS - phase + ROWS - SPAN + row
    real = (row < SPAN)[:, None] & (entry < SIZE)[None, :]
    inside = real & ((token >= 0) & (token < end))[:, None]
    held = real & ((token < 0) & (token >= -HELD))[:, None]
    value = tl.zeros([BLOCK_SPAN, BLOCK_SIZE], dtype=tl.float32)
    for ahead in range(1, REACH + 1):
        place = HALO - SPAN + row - (ahead - 1) * ROWS
        there = (place >= 0) & (block + ahead >= 0) & (block + ahead < blocks)
        slot = (memory_index * blocks + block + ahead) * (HALO * SIZE)
        address = halo_pointer + slot + place[:, None] * SIZE + entry[None, :]
        value += tl.load(address, mask=(inside | held) & there[:, None], other=0.0)
    target = rows_pointer + ((batch * tokens + token) * heads + head)[:, None] * SIZE + entry[None, :]
    total = tl.load(target, mask=inside, other=0.0).to(tl.float32) + value
    tl.store(target, total, mask=inside)
    if RESUME:
        index = (batch * HELD + token + HELD) * heads + head
        target = window_pointer + index[:, None] * SIZE + entry[None, :]
        total = tl.load(target, mask=held, other=0.0) + value
        tl.store(target, total, mask=held)

"""Helper functions that emitted kernels carry along: only those that a kernel uses are printed into it."""

import triton
import triton.language as tl


@triton.jit
def tanh(x):
    # The series near zero keeps the relative precision that the quotient loses there.
    small = x * (1.0 - x * x * (0.3333333333 - x * x * (0.1333333333 - x * x * 0.0539682540)))
    decay = tl.exp(-2.0 * tl.abs(x))
    large = (1.0 - decay) / (1.0 + decay)
    return tl.where(tl.abs(x) < 0.125, small, tl.where(x < 0.0, -large, large))


@triton.jit
def sign(x):
    return tl.where(x > 0.0, 1.0, tl.where(x < 0.0, -1.0, 0.0))


@triton.jit
def inverse_root(x):
    return tl.where(x > 0.0, 1.0 / tl.sqrt(tl.where(x > 0.0, x, 1.0)), 0.0)


@triton.jit
def gelu(x):
    """x times the normal distribution function."""
    return x * (0.5 + 0.5 * tl.erf(x * 0.7071067811865476))


@triton.jit
def gelu_slope(x):
    """The derivative of gelu."""
    density = 0.3989422804014327 * tl.exp(-0.5 * x * x)
    return 0.5 + 0.5 * tl.erf(x * 0.7071067811865476) + x * density


@triton.jit
def softplus(x):
    return tl.maximum(x, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(x)))


@triton.jit
def logcosh(x):
    size = tl.abs(x)
    return size + tl.log(1.0 + tl.exp(-2.0 * size)) - 0.6931471805599453


@triton.jit
def softmax(x, lanes, axis: tl.constexpr):
    shifted = tl.where(lanes, x, float("-inf"))
    shifted = shifted - tl.expand_dims(tl.max(shifted, axis), axis)
    weight = tl.where(lanes, tl.exp(shifted), 0.0)
    return weight / tl.expand_dims(tl.sum(weight, axis), axis)


@triton.jit
def power(x, exponent: tl.constexpr):
    size = tl.abs(x)
    positive = tl.where(size > 0.0, size, 1.0)
    return tl.where(size > 0.0, tl.exp(exponent * tl.log(positive)), 0.0)


@triton.jit
def signed_power(x, exponent: tl.constexpr):
    size = tl.abs(x)
    positive = tl.where(size > 0.0, size, 1.0)
    value = tl.exp(exponent * tl.log(positive))
    return tl.where(size > 0.0, tl.where(x < 0.0, -value, value), 0.0)


@triton.jit
def take(x, codes):
    # Entry i of each row where the code is i + 1; a monomial of fewer factors has -1 there, the number 1.
    place = tl.broadcast_to(tl.maximum(codes - 1, 0)[None, :], [x.shape[0], codes.shape[0]])
    return tl.where(codes[None, :] > 0, tl.gather(x, place, 1), (-codes).to(tl.float32)[None, :])


@triton.jit
def take_entries(x, codes):
    # The same of one row.
    place = tl.maximum(codes - 1, 0)
    return tl.where(codes > 0, tl.gather(x, place, 0), (-codes).to(tl.float32))


@triton.jit
def split_log(log):
    # Sums of multiples of 1/2048 are exact, those of the rest stay below one: differences of sums
    # then have no digits lost, however strong the decay. A reset is counted, not summed.
    reset = log < -80.0
    clean = tl.where(reset, 0.0, log)
    coarse = tl.floor(clean * 2048.0 + 0.5) / 2048.0
    return coarse, clean - coarse, reset.to(tl.float32)


@triton.jit
def diagonal_blocks(matrix, size: tl.constexpr):
    """[count, size, size]: the square blocks along the diagonal."""
    count: tl.constexpr = matrix.shape[0] // size
    tiles = tl.reshape(matrix, [count, size, count, size])
    block = tl.arange(0, count)
    own = block[:, None, None, None] == block[None, None, :, None]
    return tl.sum(tl.where(own, tiles, 0.0), 2)


@triton.jit
def quadrant(blocks, row: tl.constexpr, column: tl.constexpr):
    """[count, half, half]: the quarter of each block at a row and a column, 0 or 1."""
    half: tl.constexpr = blocks.shape[1] // 2
    tiles = tl.reshape(blocks, [blocks.shape[0], 2, half, 2, half])
    side = tl.arange(0, 2)
    tiles = tl.sum(tl.where(side[None, None, None, :, None] == column, tiles, 0.0), 3)
    return tl.sum(tl.where(side[None, :, None, None] == row, tiles, 0.0), 1)


@triton.jit
def small_inverses(blocks):
    """(I + A)^-1 of strictly lower blocks [count, 16, 16], one row after the other."""
    row = tl.arange(0, 16)[None, :, None]
    column = tl.arange(0, 16)[None, None, :]
    inverse = tl.where(row == column, 1.0, 0.0) + tl.zeros_like(blocks)
    for step in range(1, 16):
        weights = tl.sum(tl.where(row == step, blocks, 0.0), 1)
        found = tl.sum(tl.expand_dims(weights, 2) * inverse, 1)
        inverse = tl.where(row == step, inverse - tl.expand_dims(found, 1), inverse)
    return inverse


@triton.jit
def paired_inverses(inverses, blocks):
    """The inverses of pairs of blocks: [[D, 0], [L, D']]^-1 has -D'^-1 L D^-1 in its corner.

    inverses: [2 count, half, half], of the halves. blocks: I + A [count, 2 half, 2 half], of the pairs.
    """
    count: tl.constexpr = blocks.shape[0]
    half: tl.constexpr = inverses.shape[1]
    halves = tl.reshape(inverses, [count, 2, half, half])
    side = tl.arange(0, 2)
    first = tl.sum(tl.where(side[None, :, None, None] == 0, halves, 0.0), 1)
    second = tl.sum(tl.where(side[None, :, None, None] == 1, halves, 0.0), 1)
    corner = -square_product(square_product(second, quadrant(blocks, 1, 0)), first)
    row, column = side[None, :, None, None, None], side[None, None, None, :, None]
    inside = tl.where(row == 1, corner[:, None, :, None, :], 0.0)
    diagonal = tl.where(row == 0, first[:, None, :, None, :], second[:, None, :, None, :])
    joined = tl.where(row == column, diagonal, tl.where(column == 0, inside, 0.0))
    return tl.reshape(joined, [count, 2 * half, 2 * half])


@triton.jit
def unit_inverse(lower):
    """(I + A)^-1 of a strictly lower A: by substitution in blocks of 16 rows, then by pairs of blocks."""
    inverse = small_inverses(diagonal_blocks(lower, 16))
    for level in tl.static_range(1, 5):
        if (16 << level) <= lower.shape[0]:
            inverse = paired_inverses(inverse, diagonal_blocks(lower, 16 << level))
    return tl.reshape(inverse, lower.shape)


@triton.jit
def rows_of_block(matrix, block):
    """[16, columns]: a block of 16 rows."""
    count: tl.constexpr = matrix.shape[0] // 16
    tiles = tl.reshape(matrix, [count, 16, matrix.shape[1]])
    return tl.sum(tl.where(tl.arange(0, count)[:, None, None] == block, tiles, 0.0), 0)


@triton.jit
def with_block(matrix, rows, block):
    """The matrix with a block of 16 rows in the place of its own."""
    count: tl.constexpr = matrix.shape[0] // 16
    tiles = tl.reshape(matrix, [count, 16, matrix.shape[1]])
    own = tl.arange(0, count)[:, None, None] == block
    return tl.reshape(tl.where(own, tl.expand_dims(rows, 0), tiles), matrix.shape)


@triton.jit
def substituted(square, factor, given, adjoint: tl.constexpr):
    """The rows of one block, one by one; factor, given: [columns, 16], so that sums stay in a warp."""
    row = tl.arange(0, 16)
    found = given
    for turn in range(1, 16):
        step = 15 - turn if adjoint else turn
        weights = tl.sum(tl.where(row[:, None] == step, square, 0.0), 0)
        if adjoint:
            before = tl.expand_dims(tl.sum(factor * found * weights[None, :], 1), 1)
        else:
            before = factor * tl.expand_dims(tl.sum(found * weights[None, :], 1), 1)
        found = tl.where(row[None, :] == step, found - before, found)
    return found


@triton.jit
def unit_solve(lower, factor, given, adjoint: tl.constexpr, wide: tl.constexpr, precision: tl.constexpr):
    """E of E + g (A E) = R, or, adjoint, of E + A^T (g E) = R, for a strictly lower A and g by column.

    By substitution: in blocks of 16 rows one by one, between blocks as products.
    """
    count: tl.constexpr = lower.shape[0] // 16
    system = tl.trans(lower) if adjoint else lower
    squares = diagonal_blocks(system, 16)
    found = tl.zeros_like(given)
    for turn in range(0, count):
        block = count - 1 - turn if adjoint else turn
        if adjoint:
            before = tl.dot(system.to(wide), (factor * found).to(wide), input_precision=precision)
        else:
            before = factor * tl.dot(system.to(wide), found.to(wide), input_precision=precision)
        square = tl.sum(tl.where(tl.arange(0, count)[:, None, None] == block, squares, 0.0), 0)
        right = tl.trans(rows_of_block(given - before, block))
        solved = substituted(square, tl.trans(rows_of_block(factor, block)), right, adjoint)
        found = with_block(found, tl.trans(solved), block)
    return found


@triton.jit
def unit_norm(matrix):
    # The largest entry is divided out before squares are made: they neither vanish nor overflow.
    largest = tl.max(tl.max(tl.abs(matrix), 1), 0)
    largest = tl.where(largest > 0.0, largest, float("inf"))
    scaled = matrix / largest
    norm = tl.sqrt(tl.sum(tl.sum(scaled * scaled, 1), 0))
    norm = tl.where(norm > 0.0, norm, 1.0)
    return scaled / norm, largest * norm


@triton.jit
def identity_like(gram):
    index = tl.arange(0, gram.shape[0])
    return tl.where(index[:, None] == index[None, :], 1.0, 0.0)


@triton.jit
def square_product(left, right):
    return tl.dot(left, right, input_precision="ieee")


@triton.jit
def summed_products(left, right, axis: tl.constexpr, dot: tl.constexpr, precision: tl.constexpr):
    """sum over an axis of the products A B^T of two tiles, [.., m, .., V] and [.., n, .., V]: [m, n]."""
    step = tl.arange(0, left.shape[axis])
    step = step[:, None, None] if axis == 0 else step[None, :, None]
    total = tl.zeros([left.shape[1 - axis], right.shape[1 - axis]], dtype=tl.float32)
    for index in range(0, left.shape[axis]):
        a = tl.sum(tl.where(step == index, left, 0.0), axis)
        b = tl.sum(tl.where(step == index, right, 0.0), axis)
        total += tl.dot(a.to(dot), tl.trans(b.to(dot)), input_precision=precision)
    return total


@triton.jit
def triple_of(triples, step):
    """The coefficients of a step: steps are loops of the machine, unrolled ones take minutes to compile."""
    a, b, c = triples[0]
    for other in tl.static_range(1, len(triples)):
        a = tl.where(step == other, triples[other][0], a)
        b = tl.where(step == other, triples[other][1], b)
        c = tl.where(step == other, triples[other][2], c)
    return a, b, c


@triton.jit
def step_factor(gram, triples, step):
    """B = a + b A + c A A."""
    a, b, c = triple_of(triples, step)
    return a * identity_like(gram) + b * gram + c * square_product(gram, gram)


@triton.jit
def newton_schulz_chain(gram, triples, first, last):
    """A and Q after the steps first .. last - 1: A' = B A B, Q' = B Q from Q = 1."""
    product = identity_like(gram)
    for step in range(first, last):
        factor = step_factor(gram, triples, step)
        product = square_product(factor, product)
        gram = square_product(square_product(gram, factor), factor)
    return gram, product


@triton.jit
def newton_schulz_steps(x, triples, last):
    """x after the first `last` steps; every third starts from x: rounding of A grows in its null space."""
    for first in range(0, last, 3):
        gram = square_product(x, tl.trans(x))
        _, product = newton_schulz_chain(gram, triples, first, min(first + 3, last))
        x = square_product(product, x)
    return x


@triton.jit
def newton_schulz(matrix, triples, wide: tl.constexpr):
    """x <- a x + (b A + c A A) x with A = x x^T, from x = S / |S|, on the smaller side."""
    x, _ = unit_norm(matrix)
    if wide:
        return newton_schulz_steps(x, triples, len(triples))
    else:
        return tl.trans(newton_schulz_steps(tl.trans(x), triples, len(triples)))


@triton.jit
def segment_gradient(x, outer, triples, first, last):
    """The gradient of x before the steps first .. last - 1 from that after them; they are made again."""
    start = square_product(x, tl.trans(x))
    _, product = newton_schulz_chain(start, triples, first, last)
    d_product = square_product(outer, tl.trans(x))
    d_gram = tl.zeros_like(start)  # of A after the step
    for back in range(1, last - first + 1):
        step = last - back
        gram, before = newton_schulz_chain(start, triples, first, step)
        factor = step_factor(gram, triples, step)
        half = square_product(gram, factor)  # A' = (A B) B, and Q' = B Q
        d_half = square_product(d_gram, factor)
        d_factor = square_product(half, d_gram) + square_product(gram, d_half)
        d_factor += square_product(d_product, tl.trans(before))
        d_product = square_product(factor, d_product)
        mixed = square_product(d_factor, gram) + square_product(gram, d_factor)
        _a, b, c = triple_of(triples, step)
        d_gram = square_product(d_half, factor) + b * d_factor + c * mixed
    return square_product(tl.trans(product), outer) + square_product(d_gram + tl.trans(d_gram), x)


@triton.jit
def newton_schulz_back(x, outer, triples, steps):
    """The gradient of x from that of x after all steps."""
    segments = (steps + 2) // 3
    for back in range(0, segments):
        first = 3 * (segments - 1 - back)
        before = newton_schulz_steps(x, triples, first)
        outer = segment_gradient(before, outer, triples, first, min(first + 3, steps))
    return outer


@triton.jit
def newton_schulz_gradient(matrix, outer, triples, wide: tl.constexpr):
    """The gradient of S from that of its map."""
    x, norm = unit_norm(matrix)
    if wide:
        total = newton_schulz_back(x, outer, triples, len(triples))
    else:
        total = tl.trans(newton_schulz_back(tl.trans(x), tl.trans(outer), triples, len(triples)))
    along = tl.sum(tl.sum(x * total, 1), 0)
    return (total - x * along) / norm

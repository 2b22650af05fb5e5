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
def split_log(log):
    # Sums of multiples of 1/2048 are exact, those of the rest stay below one: differences of sums
    # then have no digits lost, however strong the decay. A reset is counted, not summed.
    reset = log < -80.0
    clean = tl.where(reset, 0.0, log)
    coarse = tl.floor(clean * 2048.0 + 0.5) / 2048.0
    return coarse, clean - coarse, reset.to(tl.float32)


@triton.jit
def diagonal_inverse(blocks, size: tl.constexpr):
    """(I + A)^-1 of the strictly lower blocks [count, size, size], one row after the other."""
    row = tl.arange(0, size)[None, :, None]
    column = tl.arange(0, size)[None, None, :]
    inverse = tl.where(row == column, 1.0, 0.0) + tl.zeros_like(blocks)
    for step in range(1, size):
        weights = tl.sum(tl.where(row == step, blocks, 0.0), 1)
        found = tl.sum(tl.expand_dims(weights, 2) * inverse, 1)
        inverse = tl.where(row == step, inverse - tl.expand_dims(found, 1), inverse)
    return inverse


@triton.jit
def unit_inverse(lower):
    """(I + A)^-1 of a strictly lower A: by substitution in blocks of 16 rows, then by pairs of blocks."""
    rows: tl.constexpr = lower.shape[0]
    count: tl.constexpr = rows // 16
    row = tl.arange(0, rows)[:, None]
    column = tl.arange(0, rows)[None, :]
    own = tl.reshape(tl.where(row // 16 == column // 16, lower, 0.0), [count, 16, count, 16])
    found = diagonal_inverse(tl.sum(own, 2), 16)
    block = tl.arange(0, count)
    same = block[:, None, None, None] == block[None, None, :, None]
    inverse = tl.reshape(tl.where(same, tl.expand_dims(found, 2), 0.0), [rows, rows])
    for level in tl.static_range(0, 8):
        if (16 << level) < rows:
            # (I + D + L)^-1 = D' - D' L D', D' = (I + D)^-1, where L joins pairs of blocks: (D' L)^2 = 0.
            size = 16 << level
            joins = (row // (2 * size) == column // (2 * size)) & (row // size != column // size)
            between = square_product(inverse, tl.where(joins, lower, 0.0))
            inverse -= square_product(between, inverse)
    return inverse


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

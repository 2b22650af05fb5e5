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

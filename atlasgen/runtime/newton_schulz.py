"""Newton-Schulz iterations on the last two axes of a tensor, and their derivative.

x <- a x + (b A + c A A) x with A = x x^T, one triple (a, b, c) per step, from x = S / |S|. The polynomial
acts on singular values, so a matrix with more rows than columns has the small A = x^T x, on its right.
Every step multiplies x from the left by B = a + b A + c A A and its A by B on both sides, so all steps run on
the small side: A' = B A B and Q' = B Q from Q = 1; only A at the start and Q x at the end are as wide as x.
Matrices are worked on a few at a time, so that what a step reads is still in the cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

# Steps between two looks at x itself: rounding of A in the null space of x grows twelvefold a step. A third
# step saves a seventh of the time of large matrices, and nothing of small ones, whose rounding it triples.
SEGMENT, SMALL_SEGMENT = 3, 2
LARGE = 32  # rows and columns of a large matrix, at least
CACHED_BYTES = 1 << 20  # of matrices worked on at a time; a step holds about ten arrays of this size

Triples = Sequence[tuple[float, float, float]]


def _normalised(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """S / |S| and |S| (infinite where S is zero): the largest entry is divided out before squares are."""
    rows = matrices.flatten(1)
    largest = rows.abs().amax(1, keepdim=True)
    largest.masked_fill_(largest == 0, torch.inf)
    scaled = rows / largest
    norm = scaled.square().sum(1, keepdim=True).sqrt_()
    norm.masked_fill_(norm == 0, 1.0)
    return scaled.div_(norm).view(matrices.shape), (largest * norm)[..., None]


def _parts(matrices: Tensor) -> Iterator[slice]:
    """Ranges of the first axis of [N, rows, columns] that take about CACHED_BYTES."""
    count, each = len(matrices), matrices[:1].numel() * matrices.element_size()
    length = max(1, CACHED_BYTES // max(1, each))
    return (slice(first, first + length) for first in range(0, count, length))


def _gram(left: Tensor, right: Tensor) -> Tensor:
    """left right^T of [N, rows, columns], or left^T right: the smaller one."""
    tall = left.shape[-2] > left.shape[-1]
    return torch.bmm(left.mT, right) if tall else torch.bmm(left, right.mT)


def _times(factor: Tensor, x: Tensor) -> Tensor:
    """factor x of [N, small, small] and [N, rows, columns], or x factor^T where x has more rows."""
    tall = x.shape[-2] > x.shape[-1]
    return torch.bmm(x, factor.mT) if tall else torch.bmm(factor, x)


@dataclass(frozen=True)
class _Step:
    """One step on the small side: A, B = a + b A + c A A, C = A B and Q before it (None: the identity)."""

    gram: Tensor
    factor: Tensor
    half: Tensor | None
    product: Tensor | None


def _chain(gram: Tensor, coefficients: Triples) -> tuple[Tensor, list[_Step]]:
    """Q with the last iterate = Q x, and the steps that made it."""
    product: Tensor | None = None
    steps = []
    for index, (a, b, c) in enumerate(coefficients):
        factor = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        factor.diagonal(dim1=-2, dim2=-1).add_(a)
        last = index + 1 == len(coefficients)
        half = None if last else torch.bmm(gram, factor)
        steps.append(_Step(gram, factor, half, product))
        product = factor if product is None else torch.bmm(factor, product)
        if half is not None:
            gram = torch.bmm(half, factor)
    assert product is not None
    return product, steps


def _segments(coefficients: Triples, matrices: Tensor) -> list[Triples]:
    length = SEGMENT if min(matrices.shape[-2:]) >= LARGE else SMALL_SEGMENT
    return [coefficients[first : first + length] for first in range(0, len(coefficients), length)]


def forward(matrices: Tensor, coefficients: Triples) -> Tensor:
    """The map of each matrix of [..., M, N]; zero stays zero."""
    flat = matrices.flatten(0, -3)
    result = torch.empty(flat.shape, dtype=flat.dtype, device=flat.device)
    for part in _parts(flat):
        x, _ = _normalised(flat[part])
        for segment in _segments(coefficients, x):
            product, _ = _chain(_gram(x, x), segment)
            x = _times(product, x)
        result[part] = x
    return result.view(matrices.shape)


def backward(matrices: Tensor, gradient: Tensor, coefficients: Triples) -> Tensor:
    """The gradient of `matrices` from that of their map; the steps are computed again."""
    flat, outer = matrices.flatten(0, -3), gradient.expand(matrices.shape).flatten(0, -3)
    result = torch.empty(flat.shape, dtype=flat.dtype, device=flat.device)
    for part in _parts(flat):
        result[part] = _part_gradient(flat[part], outer[part], coefficients)
    return result.view(matrices.shape)


def _part_gradient(matrices: Tensor, outer: Tensor, coefficients: Triples) -> Tensor:
    """`backward` of matrices [N, rows, columns] that are worked on together."""
    start, norm = _normalised(matrices)
    segments, done, x = _segments(coefficients, start), [], start
    for index, segment in enumerate(segments):
        product, steps = _chain(_gram(x, x), segment)
        done.append((x, product, steps))
        x = _times(product, x) if index + 1 < len(segments) else x
    for segment, (x, product, steps) in zip(reversed(segments), reversed(done)):
        # O = outer x^T on the small side: for x with more rows O^T = outer^T x comes out as outer, x do.
        gram = _chain_gradient(_gram(outer, x), steps, segment)
        outer = _times(product.mT, outer).add_(_times(gram + gram.mT, x))
    along = (start * outer).flatten(1).sum(1)[:, None, None]
    return outer.addcmul_(start, along, value=-1.0).div_(norm)


def _chain_gradient(product: Tensor, steps: Sequence[_Step], coefficients: Triples) -> Tensor:
    """The gradient of x x^T from that of Q."""
    gram: Tensor | None = None  # of the Gram matrix after the step
    for step, (_, b, c) in zip(reversed(steps), reversed(coefficients)):
        own = None
        if gram is not None:
            assert step.half is not None
            half = torch.bmm(gram, step.factor.mT)  # C = A B, A' = C B
            own = torch.bmm(half, step.factor.mT)
            factor = torch.bmm(step.half.mT, gram)
            factor.baddbmm_(step.gram.mT, half)
            if step.product is not None:
                factor.baddbmm_(product, step.product.mT)
        else:
            factor = product if step.product is None else torch.bmm(product, step.product.mT)
        if gram is not None and step.product is None:
            factor.add_(product)  # Q = B
        product = torch.bmm(step.factor.mT, product) if step.product is not None else product
        mixed = torch.bmm(factor, step.gram.mT)
        mixed.baddbmm_(step.gram.mT, factor)
        gram = torch.add(b * factor, mixed, alpha=c)
        if own is not None:
            gram.add_(own)
    assert gram is not None
    return gram

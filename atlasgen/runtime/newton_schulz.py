"""Newton-Schulz iterations on the last two axes of a tensor, and their derivative.

x <- a x + (b A + c A A) x with A = x x^T, one triple (a, b, c) per step, from x = S / |S|. The polynomial
acts on singular values, so a matrix with more rows than columns is worked on transposed, where A is small.
Every step multiplies x from the left by B = a + b A + c A A and its A by B on both sides, so all steps run on
the small side: A' = B A B and Q' = B Q from Q = 1; only A at the start and Q x at the end are as wide as x.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

SEGMENT = (
    3  # steps between two looks at x itself: rounding of A in the null space of x grows twelvefold a step
)

Triples = Sequence[tuple[float, float, float]]


def _normalised(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """S / |S| and |S| (infinite where S is zero): the largest entry is divided out before squares are."""
    largest = matrices.abs().amax((-2, -1), keepdim=True)
    largest = torch.where(largest > 0, largest, torch.inf)
    scaled = matrices / largest
    norm = scaled.square().sum((-2, -1), keepdim=True).sqrt()
    norm = torch.where(norm > 0, norm, 1.0)
    return scaled / norm, largest * norm


def _wide(matrices: Tensor) -> Tensor:
    """[N, small, large], contiguous."""
    tall = matrices.shape[-2] > matrices.shape[-1]
    return (matrices.mT if tall else matrices).flatten(0, -3).contiguous()


def _like(wide: Tensor, matrices: Tensor) -> Tensor:
    tall = matrices.shape[-2] > matrices.shape[-1]
    return (wide.mT if tall else wide).reshape(matrices.shape)


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


def _segments(coefficients: Triples) -> list[Triples]:
    return [coefficients[first : first + SEGMENT] for first in range(0, len(coefficients), SEGMENT)]


def forward(matrices: Tensor, coefficients: Triples) -> Tensor:
    """The map of each matrix of [..., M, N]; zero stays zero."""
    x = _wide(_normalised(matrices)[0])
    for segment in _segments(coefficients):
        product, _ = _chain(torch.bmm(x, x.mT), segment)
        x = torch.bmm(product, x)
    return _like(x, matrices)


def backward(matrices: Tensor, gradient: Tensor, coefficients: Triples) -> Tensor:
    """The gradient of `matrices` from that of their map; the steps are computed again."""
    start, norm = _normalised(matrices)
    segments, done = _segments(coefficients), []
    x = _wide(start)
    for index, segment in enumerate(segments):
        product, steps = _chain(torch.bmm(x, x.mT), segment)
        done.append((x, product, steps))
        x = torch.bmm(product, x) if index + 1 < len(segments) else x
    outer = _wide(gradient.expand(matrices.shape))
    for segment, (x, product, steps) in zip(reversed(segments), reversed(done)):
        gram = _chain_gradient(torch.bmm(outer, x.mT), steps, segment)
        outer = torch.bmm(product.mT, outer).baddbmm_(gram + gram.mT, x)
    total = _like(outer, matrices)
    along = (start * total).sum((-2, -1), keepdim=True)
    return (total - start * along).div_(norm)


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

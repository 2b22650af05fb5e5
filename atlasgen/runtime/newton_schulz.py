"""Newton-Schulz iterations on the last two axes of a tensor, and their derivative.

x <- a x + (b A + c A A) x with A = x x^T, one triple (a, b, c) per step, from x = S / |S|. The polynomial
acts on singular values, so a matrix with more rows than columns is worked on transposed, where A is small.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

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


def _polynomial(gram: Tensor, b: float, c: float) -> Tensor:
    """b A + c A A."""
    return torch.baddbmm(gram, gram, gram, beta=b, alpha=c)


def forward(matrices: Tensor, coefficients: Triples) -> Tensor:
    """The map of each matrix of [..., M, N]; zero stays zero."""
    x = _wide(_normalised(matrices)[0])
    for a, b, c in coefficients:
        x = torch.baddbmm(x, _polynomial(torch.bmm(x, x.mT), b, c), x, beta=a)
    return _like(x, matrices)


def backward(matrices: Tensor, gradient: Tensor, coefficients: Triples) -> Tensor:
    """The gradient of `matrices` from that of their map; the iterates are computed again."""
    start, norm = _normalised(matrices)
    iterates = [_wide(start)]
    for a, b, c in coefficients[:-1]:
        x = iterates[-1]
        iterates.append(torch.baddbmm(x, _polynomial(torch.bmm(x, x.mT), b, c), x, beta=a))
    total = _wide(gradient.expand(matrices.shape))
    for (a, b, c), x in zip(reversed(coefficients), reversed(iterates)):
        gram = torch.bmm(x, x.mT)
        # y = a x + B x, B = b A + c A A: dB = dy x^T, of which only the symmetric part D reaches A.
        outer = torch.bmm(total, x.mT)
        outer = outer + outer.mT
        mixed = torch.bmm(outer, gram)
        inner = torch.add(c * (mixed + mixed.mT), outer, alpha=b)
        step = torch.baddbmm(total, _polynomial(gram, b, c), total, beta=a)
        total = torch.baddbmm(step, inner, x)
    total = _like(total, matrices)
    along = (start * total).sum((-2, -1), keepdim=True)
    return (total - start * along) / norm

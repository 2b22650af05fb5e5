"""Polynomial features: phi(x) with phi(q) . phi(k) = sum over degrees p of a_p (q . k)^p.

The symmetric basis holds each monomial once, times the root of its number of orderings; the Kronecker basis
holds every ordering. Degrees come one after the other, monomials in the order of their indices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations_with_replacement, product

import torch
from torch import Tensor

Number = Tensor | float


@lru_cache(maxsize=64)
def monomials(size: int, degree: int, basis: str) -> tuple[Tensor, Tensor]:
    """Indices int64 [N, degree] of the monomials of one degree, and roots of their orderings [N]."""
    with torch.inference_mode(False):
        if basis == "kronecker":
            found = list(product(range(size), repeat=degree))
            return torch.tensor(found).reshape(len(found), degree), torch.ones(len(found))
        found = list(combinations_with_replacement(range(size), degree))
        orderings = [math.sqrt(_orderings(indices)) for indices in found]
        indices = torch.tensor(found).reshape(len(found), degree)
        return indices, torch.tensor(orderings, dtype=torch.float64)


def _orderings(indices: tuple[int, ...]) -> int:
    count = math.factorial(len(indices))
    for index in set(indices):
        count //= math.factorial(indices.count(index))
    return count


def _root(coefficient: Number, rank: int) -> Number:
    """The root of a coefficient, of one number per head for arrays with `rank` own axes."""
    if not isinstance(coefficient, Tensor):
        return math.sqrt(coefficient)
    return coefficient.sqrt()[(..., *[None] * rank)]


def _own(x: Tensor, degree: int, basis: str) -> tuple[Tensor, Tensor]:
    indices, roots = monomials(x.shape[-1], degree, basis)
    return indices.to(x.device), roots.to(x)


@lru_cache(maxsize=64)
def entry_codes(size: int, degrees: tuple[int, ...], basis: str, place: int, device: torch.device) -> Tensor:
    """Codes int32 [F] of factor number `place` of each monomial, as `take` reads them; -1 (the number 1) for
    a monomial of fewer factors."""
    with torch.inference_mode(False):
        parts = []
        for degree in degrees:
            indices, _ = monomials(size, degree, basis)
            missing = torch.full((len(indices),), -1)
            parts.append(indices[:, place] + 1 if place < degree else missing)
        return torch.cat(parts).to(torch.int32).to(device)


@lru_cache(maxsize=64)
def ordering_roots(
    size: int, degrees: tuple[int, ...], basis: str, degree: int, device: torch.device
) -> Tensor:
    """float32 [F]: roots of the orderings of the monomials of one degree, 0 for those of others."""
    with torch.inference_mode(False):
        parts = [monomials(size, other, basis)[1] * float(other == degree) for other in degrees]
        return torch.cat([part.float() for part in parts]).to(device)


def take(x: Tensor, codes: Tensor) -> Tensor:
    """[.., rows, K] by codes [.., F] -> [.., rows, F]: i + 1 for entry i, 0 for the number 0, -1 for 1."""
    codes = codes[..., None, :].expand(*x.shape[:-1], codes.shape[-1])
    picked = x.gather(-1, (codes - 1).clamp(min=0).long())
    return torch.where(codes > 0, picked, (-codes).to(x))


def features(x: Tensor, coefficients: Sequence[Number], degrees: Sequence[int], basis: str) -> Tensor:
    """phi of each row: [.., K] -> [.., F]. coefficients: numbers, or tensors without the last two axes."""
    parts = []
    for coefficient, degree in zip(coefficients, degrees, strict=True):
        indices, roots = _own(x, degree, basis)
        value = roots.expand(*x.shape[:-1], len(roots))
        for position in range(degree):
            value = value * x[..., indices[:, position]]
        parts.append(value * _root(coefficient, 2))
    return torch.cat(_alike(parts), -1)


def _alike(parts: Sequence[Tensor]) -> list[Tensor]:
    """The parts with equal leading axes."""
    shape = torch.broadcast_shapes(*(part.shape[:-1] for part in parts))
    return [part.expand(*shape, part.shape[-1]) for part in parts]


def gradient(
    x: Tensor, coefficients: Sequence[Number], outer: Tensor, degrees: Sequence[int], basis: str
) -> Tensor:
    """The gradient of x [.., K] from that of its features [.., F]."""
    total, first = torch.zeros_like(x), 0
    for coefficient, degree in zip(coefficients, degrees, strict=True):
        indices, roots = _own(x, degree, basis)
        part = outer[..., first : first + len(roots)] * roots * _root(coefficient, 2)
        first += len(roots)
        if total.shape[:-1] != part.shape[:-1]:
            total = total.expand(*part.shape[:-1], x.shape[-1]).clone()
        for wanted in range(degree):
            value = part
            for position in range(degree):
                if position != wanted:
                    value = value * x[..., indices[:, position]]
            total.index_add_(-1, indices[:, wanted], value.expand(*total.shape[:-1], len(roots)))
    return total


def degree_sum(x: Tensor, values: Tensor, index: int, degrees: Sequence[int], basis: str) -> Tensor:
    """The sum of [.., F] over the features of degree number `index`."""
    counts = [len(monomials(x.shape[-1], degree, basis)[1]) for degree in degrees]
    first = sum(counts[:index])
    return values[..., first : first + counts[index]].sum(-1)

"""Maps of the momentum before it is written, and gradient clipping."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from atlasgen.reference.expressions import evaluate
from atlasgen.spec.rule import Project, Transform


def _by_norm(matrix: Tensor) -> Tensor:
    """matrix / |matrix|_F; a zero matrix stays zero with a zero gradient, small ones are not
    floored.

    Divided by its largest entry first: squares of 1e-30 or 1e30 do not fit float32. That entry does
    not change the result, so no derivative flows through it.
    """
    largest = matrix.detach().abs().amax((-2, -1), keepdim=True)
    there = largest != 0
    scaled = matrix / torch.where(there, largest, 1.0)
    square = torch.where(there, scaled.square().sum((-2, -1), keepdim=True), 1.0)
    return torch.where(there, scaled / square.sqrt(), 0.0)


def newton_schulz(matrix: Tensor, coefficients: tuple[tuple[float, float, float], ...]) -> Tensor:
    """X <- a X + (b A + c A A) X with A = X X^T, one triple (a, b, c) per step, from X = S / |S|_F.

    matrix: [..., rows, columns]. The polynomial acts on singular values, so the transpose that
    keeps A small does not change it.
    """
    tall = matrix.shape[-2] > matrix.shape[-1]
    x = _by_norm(matrix.mT if tall else matrix)
    for a, b, c in coefficients:
        gram = x @ x.mT
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return x.mT if tall else x


def _transformed(transform: Transform, matrix: Tensor, straight_through: bool) -> Tensor:
    if transform.kind == "newton_schulz":
        mapped = newton_schulz(matrix, transform.coefficients)
        return matrix + (mapped - matrix).detach() if straight_through else mapped
    if transform.kind == "sign":
        return torch.sign(matrix)
    if transform.kind == "frobenius":
        return _by_norm(matrix)
    assert transform.expression is not None
    return evaluate(transform.expression, {"S": matrix}).expand(matrix.shape)


def transformed(
    transforms: tuple[Transform, ...], momentum: Tensor, straight_through: bool = False
) -> Tensor:
    """U from the S of one weight [B, H, in, out]. One-dimensional weights [B, H, out] take plain
    steps.

    straight_through: the outer derivative of Newton-Schulz is the identity.
    """
    if momentum.ndim == 4:
        for transform in transforms:
            momentum = _transformed(transform, momentum, straight_through)
    return momentum


def projected(project: Project, weight: Tensor, origin: Tensor | None) -> Tensor:
    """One weight after its update: inside a Frobenius ball, its entries clamped, or the norms of its
    columns those of `origin`, the weight at the sequence's start.
    """
    if project.kind == "none":
        return weight
    if project.kind == "row_norm":
        assert origin is not None
        return _with_norms_of(origin, weight) if weight.ndim == 4 else weight
    assert project.radius is not None
    if project.kind == "ball":
        return clipped({"": weight}, project.radius)[""]
    return weight.clamp(-project.radius, project.radius)


def _with_norms_of(origin: Tensor, weight: Tensor) -> Tensor:
    """Each output unit's column of `weight` [B, H, in, out] scaled to the norm of `origin`'s.

    A zero column stays zero, with a zero gradient.
    """
    square, wanted = (entry.square().sum(-2, keepdim=True) for entry in (weight, origin))
    there, kept = square != 0, wanted != 0
    unit = torch.where(there, weight / torch.where(there, square, 1.0).sqrt(), 0.0)
    return torch.where(kept, torch.where(kept, wanted, 1.0).sqrt(), 0.0) * unit


def clipped(gradient: Mapping[str, Tensor], limit: float) -> dict[str, Tensor]:
    """Each weight scaled to a Frobenius norm of at most `limit`, per batch row and head."""
    result = {}
    for name, weight in gradient.items():
        axes = tuple(range(2, weight.ndim))
        square = weight.square().sum(axes, keepdim=True)
        above = square > limit * limit
        result[name] = torch.where(above, limit / torch.where(above, square, 1.0).sqrt(), 1.0) * weight
    return result

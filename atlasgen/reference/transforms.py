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
    """
    square = matrix.square().sum((-2, -1), keepdim=True)
    positive = square > 0
    return torch.where(positive, matrix / torch.where(positive, square, 1.0).sqrt(), 0.0)


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


def apply_transforms(
    transforms: tuple[Transform, ...],
    momentum: Mapping[str, Tensor],
    straight_through: bool = False,
) -> dict[str, Tensor]:
    """U from S, weight by weight. One-dimensional weights [B, H, out] take plain steps.

    straight_through: the outer derivative of Newton-Schulz is the identity.
    """
    updates = dict(momentum)
    for transform in transforms:
        for name, weight in updates.items():
            if weight.ndim == 4:
                updates[name] = _transformed(transform, weight, straight_through)
    return updates


def projected(project: Project, memory: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The memory after its update: each weight inside a Frobenius ball, or its entries clamped."""
    if project.kind == "none":
        return dict(memory)
    assert project.radius is not None
    if project.kind == "ball":
        return clipped(memory, project.radius)
    return {name: w.clamp(-project.radius, project.radius) for name, w in memory.items()}


def clipped(gradient: Mapping[str, Tensor], limit: float) -> dict[str, Tensor]:
    """Each weight scaled to a Frobenius norm of at most `limit`, per batch row and head."""
    result = {}
    for name, weight in gradient.items():
        axes = tuple(range(2, weight.ndim))
        square = weight.square().sum(axes, keepdim=True)
        above = square > limit * limit
        result[name] = torch.where(above, limit / torch.where(above, square, 1.0).sqrt(), 1.0) * weight
    return result

"""Feature maps phi of the reference: [..., K] -> [..., F]."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations_with_replacement

import torch
from torch import Tensor
from torch.nn import functional

from atlasgen.reference.expressions import evaluate
from atlasgen.spec.rule import Features


def _l2norm(x: Tensor) -> Tensor:
    """x / |x|; a zero row stays zero and has a zero gradient."""
    square = x.square().sum(-1, keepdim=True)
    positive = square > 0
    return torch.where(positive, x / torch.where(positive, square, 1.0).sqrt(), 0.0)


_ELEMENTARY: dict[str, Callable[[Tensor], Tensor]] = {
    "identity": lambda x: x,
    "relu": torch.relu,
    "elu1": lambda x: functional.elu(x) + 1,
    "silu": functional.silu,
    "l2norm": _l2norm,
    "softmax": lambda x: torch.softmax(x, -1),
}


def _taylor(degree: int) -> tuple[float, ...]:
    return tuple(1 / math.factorial(power) for power in range(degree + 1))


def _monomials(size: int, degree: int, basis: str) -> list[tuple[tuple[int, ...], int]]:
    """Index tuples of one degree, each with the number of its orderings."""
    if basis == "kronecker":
        grid = torch.cartesian_prod(*[torch.arange(size)] * degree).reshape(-1, degree)
        return [(tuple(row), 1) for row in grid.tolist()]
    found = []
    for indices in combinations_with_replacement(range(size), degree):
        orderings = math.factorial(degree)
        for index in set(indices):
            orderings //= math.factorial(indices.count(index))
        found.append((indices, orderings))
    return found


def _degrees(features: Features, x: Tensor, coefficients: Tensor | None) -> list[tuple[int, Tensor]]:
    """The degrees that take room, each with its coefficient, broadcasting to x.

    Learned coefficients are an argument [H, degree + 1], positive; x is then [B, H, ..., K].
    """
    if features.coefficients == "learned":
        assert coefficients is not None
        per_head = coefficients.unbind(-1)
        return [(power, entry.reshape(-1, *[1] * (x.ndim - 2))) for power, entry in enumerate(per_head)]
    numbers = _taylor(features.degree) if features.coefficients == "taylor" else features.coefficients
    return [(power, x.new_tensor(number)) for power, number in enumerate(numbers) if number != 0]


def _polynomial(features: Features, x: Tensor, coefficients: Tensor | None) -> Tensor:
    """phi with phi(q) . phi(k) = sum_i a_i (q . k)^i; basis "powers": sum_i a_i x^i, elementwise.

    Monomials stand in the order of the degrees, inside a degree in that of
    itertools.combinations_with_replacement (symmetric) or of rows (kronecker).
    """
    used = _degrees(features, x, coefficients)
    if features.basis == "powers":
        return sum((weight * x**degree for degree, weight in used), torch.zeros_like(x))
    parts = []
    for degree, weight in used:
        if degree == 0:
            parts.append(torch.ones_like(x[..., :1]) * weight.sqrt())
            continue
        monomials = _monomials(x.shape[-1], degree, features.basis)
        indices = torch.tensor([entry for entry, _ in monomials], device=x.device)
        orderings = torch.tensor([count for _, count in monomials], dtype=x.dtype, device=x.device)
        parts.append((weight * orderings).sqrt() * x[..., indices].prod(-1))
    return torch.cat(parts, -1)


def apply_features(features: Features, x: Tensor, side: str, coefficients: Tensor | None = None) -> Tensor:
    """phi(x) for the side "q" or "k"; the side that `features.on` leaves out is the identity.

    x: [..., K]; coefficients: [H, degree + 1] where they are learned, and x [B, H, ..., K]. Returns
    [..., F], in the dtype of x.
    """
    if side not in features.on:
        return x
    if features.kind == "expr":
        assert features.expression is not None
        return evaluate(features.expression, {"x": x}).expand(x.shape)
    if features.kind == "poly":
        return _polynomial(features, x, coefficients)
    return _ELEMENTARY[features.kind](x)

"""Inner losses of the reference, as plain torch: nothing here is a derivative.

Every function takes predictions and targets [..., V] and returns one loss per token [...]. They are
written so that torch differentiates them twice (the inner gradient, then the outer one) without 0/0
where a prediction meets its target exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from atlasgen.reference.expressions import evaluate
from atlasgen.spec.rule import LossTerm

Values = Mapping[str, Tensor]


def power(square: Tensor, exponent: float) -> Tensor:
    """square ** exponent for square >= 0 and exponent >= 1/2, with derivative 0 where square is 0.

    Integer exponents need no guard; the others have an infinite higher derivative at zero that
    autograd would multiply by zero.
    """
    if float(exponent).is_integer():
        return square ** int(exponent)
    positive = square > 0
    return torch.where(positive, torch.where(positive, square, 1.0) ** exponent, 0.0)


def _dot(term: LossTerm, prediction: Tensor, target: Tensor, values: Values) -> Tensor:
    return -(prediction * target).sum(-1)


def _l2(term: LossTerm, prediction: Tensor, target: Tensor, values: Values) -> Tensor:
    return 0.5 * (prediction - target).square().sum(-1)


def _lp(term: LossTerm, prediction: Tensor, target: Tensor, values: Values) -> Tensor:
    """|d|^p / p on each element, or on the row's norm; eps > 0 puts (d^2 + eps)^(1/2) for |d|."""
    square = (prediction - target).square()
    if term.per == "row":
        return power(square.sum(-1) + term.eps, term.p / 2) / term.p
    return power(square + term.eps, term.p / 2).sum(-1) / term.p


def _huber(term: LossTerm, prediction: Tensor, target: Tensor, values: Values) -> Tensor:
    """0.5 n^2 up to the threshold, delta (n - delta / 2) beyond; n is |d| or the row's norm."""
    square = (prediction - target).square()
    if isinstance(term.delta, str):
        delta = values[term.delta].unsqueeze(-1)
    else:
        delta = torch.as_tensor(term.delta, dtype=square.dtype, device=square.device)
    if term.per == "row":
        square = square.sum(-1, keepdim=True)
    inside = square <= delta * delta
    distance = torch.where(inside, 1.0, square).sqrt()
    return torch.where(inside, 0.5 * square, delta * (distance - 0.5 * delta)).sum(-1)


def _expression(term: LossTerm, prediction: Tensor, target: Tensor, values: Values) -> Tensor:
    """The rule's own text: in pred and v (summed over V), or in norm (one value per row)."""
    assert term.expression is not None
    if term.per == "row":
        square = (prediction - target).square().sum(-1)
        variables = {**values, "norm": power(square, 0.5)}
        return evaluate(term.expression, variables).expand(square.shape)
    variables = {name: value.unsqueeze(-1) for name, value in values.items()}
    variables |= {"pred": prediction, "v": target}
    return evaluate(term.expression, variables).expand(prediction.shape).sum(-1)


_LOSSES: dict[str, Callable[[LossTerm, Tensor, Tensor, Values], Tensor]] = {
    "dot": _dot,
    "l2": _l2,
    "lp": _lp,
    "huber": _huber,
    "expr": _expression,
}


def token_losses(term: LossTerm, prediction: Tensor, target: Tensor, values: Values) -> Tensor:
    """The loss of each token under one term.

    prediction, target: [..., V]; values: the rule's inputs by name, each broadcasting to [...].
    Returns [...], in the dtype of the prediction.
    """
    return _LOSSES[term.kind](term, prediction, target, values)

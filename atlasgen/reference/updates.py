"""One update of the memory's weights: momentum, transforms, retention, projection, as the rule says."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from atlasgen.reference.gates import Factors, times
from atlasgen.reference.memories import Weights
from atlasgen.reference.transforms import projected, transformed
from atlasgen.spec.rule import MemoryRule


def retained(alpha: Tensor | None, weight: Tensor, origin: Tensor | None) -> Tensor:
    """alpha M (+ (1 - alpha) M_0 where there is an origin)."""
    kept = times(alpha, weight)
    return kept if alpha is None or origin is None else kept + times(1 - alpha, origin)


def pull(rule: MemoryRule, origin: Weights, name: str) -> Tensor | None:
    """What a weight decays toward: its value at the sequence's start, or None for zero."""
    return origin.get(name) if rule.retention.toward == "initial" else None


def scaled_gradient(rule: MemoryRule, gradient: Weights, factors: Mapping[str, Factors]) -> dict[str, Tensor]:
    """G_t, times lr_t where the rule's step size sits at the gradient."""
    if rule.optimizer.lr_at != "gradient":
        return dict(gradient)
    return {name: times(factors[name].lr, entry) for name, entry in gradient.items()}


def accumulated(momentum: Weights, gradient: Weights, factors: Mapping[str, Factors]) -> dict[str, Tensor]:
    """S_t = theta_t S_{t-1} + G_t."""
    return {name: times(factors[name].theta, momentum[name]) + entry for name, entry in gradient.items()}


def written(
    rule: MemoryRule, memory: Weights, steps: Weights, origin: Weights, factors: Mapping[str, Factors]
) -> dict[str, Tensor]:
    """M_t = alpha M_{t-1} (+ (1 - alpha) M_0) - [lr] U(S), projected."""
    straight_through = rule.gradient.newton_schulz == "straight_through"
    result = {}
    for name, weight in memory.items():
        update = transformed(rule.transform_of(name), steps[name], straight_through)
        if rule.optimizer.lr_at == "update":
            update = times(factors[name].lr, update)
        kept = retained(factors[name].alpha, weight, pull(rule, origin, name))
        result[name] = projected(rule.retention.project, kept - update, origin.get(name))
    return result


def advanced(
    rule: MemoryRule,
    memory: Weights,
    momentum: Weights,
    gradient: Weights,
    origin: Weights,
    factors: Mapping[str, Factors],
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """M_t and S_t from M_{t-1}, S_{t-1} and G_t, of a rule that writes at every token."""
    gradient = scaled_gradient(rule, gradient, factors)
    if rule.optimizer.kind != "momentum":
        return written(rule, memory, gradient, origin, factors), {}
    momentum = accumulated(momentum, gradient, factors)
    steps = accumulated(momentum, gradient, factors) if rule.optimizer.nesterov else momentum
    return written(rule, memory, steps, origin, factors), momentum

"""How a layer makes the gates of a rule whose spec does not say it: safe ranges and starting values.

Starting values are such that memories last between 10 and 1000 tokens and one block's updates of a
repeated key stay below a full step (lr times the tokens that count, below 1 for unit keys).
"""

from __future__ import annotations

import math
from dataclasses import replace

from atlasgen.spec.expression import evaluate_number
from atlasgen.spec.micro_steps import of_rows
from atlasgen.spec.rule import Features, LayerGate, MemoryRule
from atlasgen.verify.stability import first_coefficients, gain_of, tokens_per_write

SHORTEST_HORIZON, LONGEST_HORIZON = 10.0, 1000.0
# Momentum reaches back five tokens at the start, ten at most: a long one acts like a larger lr.
THETA_START, THETA_MAX = 0.8, 0.9
GAMMA_START = 0.75
_INPUTS = {
    "any": LayerGate("", "identity", init=0.0),
    "positive": LayerGate("", "softplus", init=1.0),
    "unit": LayerGate("", "sigmoid", init=0.5),
    "log_decay": LayerGate("", "sigmoid", init=0.99),
}


def layer_gate(rule: MemoryRule, name: str, step: float) -> LayerGate:
    """How to make a gate or input of `rule`: lr, alpha, theta, gamma, row_scale, lr_W1, an input's name.

    The spec's own [layer.gates] entry, its starting value filled in (a gate of one weight, lr_W1, falls
    back on lr); else a safe default. init is None where the heads' horizons are spread, see `horizons`.
    step: the largest safe one, see `largest_step`.
    """
    default = _default(rule, name, step)
    names = [name] if rule.input_named(name) is not None else [name, _common(name)]
    found = [entry for wanted in names for entry in rule.layer.gates if entry.name == wanted]
    if not found:
        return default
    given = replace(found[0], name=name)
    if given.init is not None:
        return given
    if given.bias and (given.activation, given.max) == (default.activation, default.max):
        return replace(given, init=default.init)
    return replace(given, init=_middle(given))


def _common(name: str) -> str:
    """The gate of all weights beside one of a single weight: lr of lr_W1."""
    return name if name == "row_scale" else name.partition("_")[0]


def _default(rule: MemoryRule, name: str, step: float) -> LayerGate:
    declared = rule.input_named(name)
    if declared is not None:
        return replace(_INPUTS[declared.range], name=name)
    kind = _common(name)
    if kind in ("lr", "row_scale"):
        return LayerGate(name, "sigmoid", init=step / 2, max=step)
    if kind == "theta":
        return LayerGate(name, "sigmoid", init=THETA_START, max=THETA_MAX)
    if kind == "gamma":
        return LayerGate(name, "sigmoid", init=GAMMA_START)
    return LayerGate(name, "sigmoid")


def _middle(gate: LayerGate) -> float:
    """The value of a gate at projection 0 without a bias."""
    scale = 1.0 if gate.max is None else gate.max
    return scale * {"sigmoid": 0.5, "softplus": math.log(2), "identity": 0.0}[gate.activation]


def horizons(heads: int) -> list[float]:
    """Tokens after which each head's memory has faded to 1/e: spread evenly in logs, the last longest."""
    ratio = LONGEST_HORIZON / SHORTEST_HORIZON
    return [SHORTEST_HORIZON * ratio ** ((head + 1) / heads) for head in range(heads)]


def largest_step(
    rule: MemoryRule, key_energy: float, key_size: int = 64, value_size: int | None = None
) -> float:
    """The largest lr for which a key repeated through a block does not overshoot its target.

    A block multiplies the key's component by 1 - lr c b g (over 1 - theta, with momentum), g the memory's
    gain: |phi(k)|^2, `key_energy`, of a matrix, that of a deep one as it starts, for keys and values of these
    sizes. c counts once where the window averages, b where a full block's factor is 1 / b, neither where the
    error does not depend on the memory: then nothing can diverge and the bound is 1. A map of the update sets
    its size, whatever the gradient: a block then moves a weight by half of its own at most.
    """
    maps = {entry.kind for weight in rule.memory.weight_names for entry in rule.transform_of(weight)}
    if maps - {"expr"}:
        if rule.optimizer.lr_at == "gradient":
            return 1.0  # it weighs the tokens of a block against each other
        entries = key_size if "sign" in maps else 1  # a sign's update is as large as its entries are many
        rows = of_rows(rule).block.size if rule.block.write == "token" else 1
        return 0.5 / rows / math.sqrt(entries)
    if not rule.depends_on_memory:
        return 1.0
    tokens = rule.block.size if rule.window.length == "all" else tokens_per_write(rule)
    longest = 1.0
    theta = rule.optimizer.theta
    if rule.optimizer.kind == "momentum":
        numbers = [entry.max for entry in rule.layer.gates if entry.name == "theta"]
        largest = numbers[0] if numbers and numbers[0] is not None else THETA_MAX
        if theta.kind == "constant" and theta.value is not None:
            largest = theta.value
        longest = 1 / max(1 - largest, 0.05)
    return 1 / (tokens * longest * gain_of(rule, key_size, value_size or key_size, key_energy))


def largest_key_energy(rule: MemoryRule, qk_norm: str, key_size: int) -> float:
    """The largest |phi(k)|^2 among keys of the layer: even ones and those on one axis.

    Keys have length 1 under qk_norm "l2", else about sqrt(K).
    """
    length = 1.0 if qk_norm == "l2" else math.sqrt(key_size)
    even = length / math.sqrt(key_size)
    kind = rule.features.kind
    if kind == "l2norm":
        return 1.0
    if kind == "softmax":
        largest = math.exp(length) / (math.exp(length) + key_size - 1)
        return largest**2 + (1 - largest) ** 2 / max(key_size - 1, 1)
    if kind == "elu1":
        return max(key_size * (1 + even) ** 2, (1 + length) ** 2 + key_size - 1)
    if kind == "poly":
        return _polynomial_energy(rule.features, length, key_size)
    if kind == "expr" and rule.features.expression is not None:
        return _expression_energy(rule.features.expression, length, even, key_size)
    return length**2


def _polynomial_energy(features: Features, length: float, key_size: int) -> float:
    """The largest |phi(k)|^2 of polynomial features; learned coefficients by what they start from."""
    numbers = first_coefficients(features)
    if features.basis == "powers":
        on_axis = sum(number * length**degree for degree, number in enumerate(numbers))
        return on_axis**2 + (key_size - 1) * numbers[0] ** 2
    return sum(number * length ** (2 * degree) for degree, number in enumerate(numbers))


def _expression_energy(expression: str, length: float, even: float, key_size: int) -> float:
    def square(x: float) -> float:
        return evaluate_number(expression, {"x": x}) ** 2

    on_axis = [square(x) + (key_size - 1) * square(0.0) for x in (length, -length)]
    return max(*on_axis, key_size * square(even), key_size * square(-even))

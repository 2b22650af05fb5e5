"""How large a step a rule bears: what a repeated unit key does to its component of the memory.

With inner gradients taken at a block's border, a key k repeated through a block multiplies its
component of the error by 1 - lr * c * b * s * g, where c is the window, b the block, s the slope of the
loss's error and g the memory's gain, |phi(k)|^2 of a matrix. Between 0 and 1 the error shrinks, down to -1
it swings, below it grows.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace

import sympy
import torch

from atlasgen.derive.loss import ErrorForm, error_form
from atlasgen.ir.scalar import placeholder
from atlasgen.reference.features import apply_features
from atlasgen.spec.micro_steps import of_rows
from atlasgen.spec.rule import Features, MemoryRule
from atlasgen.spec.sizes import feature_size
from atlasgen.verify.gain import memory_gain

_LARGEST_ERROR = 4.0  # slopes are looked for where |pred - v| is at most this
_POINTS = 33


@dataclass(frozen=True)
class StepBound:
    """The largest learning rates of a rule for unit keys.

    smooth: the error of a repeated key still shrinks without changing sign; stable: it does not
    grow (twice as much). tokens: b * c, how often a repeated key counts in a block; slope: of the
    error; features: the memory's gain, |phi(k)|^2 of a matrix, an estimate for weights as they start of a
    deep memory; momentum: the factor 1 / (1 - theta) is at most this, None where theta is an argument.
    """

    smooth: float
    stable: float
    tokens: int
    slope: float
    features: float
    momentum: float | None = 1.0


def step_bound(rule: MemoryRule, key_size: int = 64) -> StepBound | None:
    """The bound at keys and values of that size.

    None where inner gradients do not depend on the memory, where the loss is linear in the prediction,
    where the window has no end, or where a map gives the update another size than the gradient's.
    """
    known = rule.features.kind != "exp" and rule.window.length != "all"
    if not (rule.depends_on_memory and known) or has_transforms(rule) or not curvature(rule):
        return None
    tokens = tokens_per_write(rule)
    slope, features = curvature(rule), gain_of(rule, key_size, key_size, feature_norm(rule, key_size))
    momentum: float | None = 1.0
    if rule.optimizer.kind == "momentum":
        theta = rule.optimizer.theta
        momentum = None if theta.value is None else 1.0 / max(1.0 - theta.value, 1e-6)
    smooth = 1.0 / max(tokens * slope * features * (momentum or 1.0), 1e-30)
    return StepBound(smooth, 2.0 * smooth, tokens, slope, features, momentum)


def tokens_per_write(rule: MemoryRule) -> int:
    """How often the key of every token of a block, and of each of its steps, counts before gradients are
    taken anew.
    """
    assert isinstance(rule.window.length, int)
    window = 1 if rule.window.normalise == "mean" else rule.window.length
    block = of_rows(rule).block.size
    if rule.block.row_scale == "position":
        return window  # the factor of a full block, 1 / b as it starts, makes one token of all
    if rule.window.boundary == "truncate" and rule.window.normalise == "sum":
        reach = min(window, block)  # the last tokens of a block count in fewer windows
        return reach * block - reach * (reach - 1) // 2
    return window * block


def has_transforms(rule: MemoryRule) -> bool:
    """True where the update of a weight is a map of its momentum."""
    return any(rule.transform_of(weight) for weight in rule.memory.weight_names)


def gain_of(rule: MemoryRule, key_size: int, value_size: int, length: float) -> float:
    """The gain of the rule's memory at features of squared length `length`.

    At least that of a matrix, unless a link stands between the state and the matrix that is read.
    """
    sizes = {"K": key_size, "F": feature_size(rule.features, key_size), "V": value_size}
    gain = memory_gain(rule.memory, sizes, length)
    return gain if rule.memory.link.kind != "none" else max(gain, length)


@functools.lru_cache(maxsize=256)
def curvature(rule: MemoryRule) -> float:
    """The largest slope of the loss's error for |pred - v| up to 4; 0 for a dot loss."""
    return sum(_slope(error_form(rule, term)) for term in rule.loss)


def feature_norm(rule: MemoryRule, key_size: int) -> float:
    """The largest |phi(k)|^2 found over unit keys: axes, diagonals and random directions."""
    features = rule.features
    if features.kind in ("identity", "l2norm"):
        return 1.0
    if features.kind == "poly" and features.basis != "powers":
        return sum(first_coefficients(features))
    generator = torch.Generator().manual_seed(0)
    keys = torch.randn(512, key_size, generator=generator, dtype=torch.float64)
    keys[0], keys[1], keys[2], keys[3] = 1.0, -1.0, 0.0, 0.0
    keys[2, 0], keys[3, 0] = 1.0, -1.0
    keys = keys / keys.norm(dim=-1, keepdim=True)
    fixed = replace(features, coefficients=first_coefficients(features))
    return float(apply_features(fixed, keys, "k").square().sum(-1).max())


def first_coefficients(features: Features) -> tuple[float, ...]:
    """The coefficient of each degree of a polynomial map; learned ones start as the exponential's."""
    if isinstance(features.coefficients, tuple):
        return features.coefficients
    return tuple(1 / math.factorial(degree) for degree in range(features.degree + 1))


def _slope(form: ErrorForm) -> float:
    """The largest derivative of the error; inputs of the rule are taken as 1."""
    if form.kind == "target":
        return 0.0
    first = 2 if form.kind == "element" else 1
    ones = {placeholder(first + index): 1 for index in range(len(form.inputs))}
    expression = form.expression.subs(ones)
    steps = [_LARGEST_ERROR * (2 * index / (_POINTS - 1) - 1) + 1e-6 for index in range(_POINTS)]
    if form.kind == "row":  # e = factor(n^2) d: along d the slope is d(n factor(n^2)) / dn
        n = sympy.Symbol("n", positive=True)
        along = sympy.diff(n * expression.subs(placeholder(0), n**2), n)
        return _largest([along.subs(n, abs(step)) for step in steps if step])
    slope = sympy.diff(expression, placeholder(0))
    targets = (-1.0, 0.0, 1.0)
    values = [
        slope.subs({placeholder(0): target + step, placeholder(1): target})
        for step in steps
        for target in targets
    ]
    return _largest(values)


def _largest(values: list[sympy.Expr]) -> float:
    found = 0.0
    for value in values:
        number = sympy.N(value.replace(sympy.DiracDelta, lambda *_: sympy.Integer(0)).doit())
        if number.is_number and number.is_real:
            found = max(found, abs(float(number)))
    return found

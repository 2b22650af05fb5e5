"""The sizes that a rule's tensors have in a call: features, weights, and what must agree."""

from __future__ import annotations

import math
from collections.abc import Mapping

from atlasgen.errors import ArgumentError, SpecError
from atlasgen.spec.expression import evaluate_size, names_in
from atlasgen.spec.graph import check_graph_sizes
from atlasgen.spec.refusal import keeps_size
from atlasgen.spec.rule import Features, Memory, MemoryRule


def feature_size(features: Features, key_size: int) -> int:
    """F: how many entries phi(x) has for x of size K. Raises SpecError for the exponential map.

    Symmetric polynomial features of degree p have C(K+p-1, p) entries per degree, Kronecker ones
    K^p; degrees whose coefficient is the number 0 take no room.
    """
    if features.kind == "exp":
        raise SpecError("features.kind", "the exponential map has infinitely many features", value="exp")
    if features.kind != "poly" or features.basis == "powers":
        return key_size
    if features.basis == "projected":
        assert features.out_dim is not None
        return features.out_dim
    numbers = features.coefficients
    used = [p for p in range(features.degree + 1) if not isinstance(numbers, tuple) or numbers[p] != 0]
    if features.basis == "kronecker":
        return sum(key_size**p for p in used)
    return sum(math.comb(key_size + p - 1, p) for p in used)


def weight_shapes(memory: Memory, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """The sizes of one head's weights as stored, [in, out], biases [out]; sizes: K, F and V."""
    features, values = sizes["F"], sizes["V"]
    if memory.kind == "graph":
        return {
            name: (
                evaluate_size(columns, sizes, field=f"memory.weights.{name}"),
                evaluate_size(rows, sizes, field=f"memory.weights.{name}"),
            )
            for name, (rows, columns) in memory.weights
        }
    if memory.kind == "matrix":
        return {"M": (features, values)} | ({"b": (values,)} if memory.bias else {})
    hidden = evaluate_size(memory.hidden, sizes, field="memory.hidden")
    shapes: dict[str, tuple[int, ...]] = {}
    if memory.kind == "mlp":
        widths = [features, *[hidden] * (memory.depth - 1), values]
        for layer in range(memory.depth):
            shapes[f"W{layer + 1}"] = (widths[layer], widths[layer + 1])
    else:
        shapes |= {"W1": (hidden, values), "W2": (features, hidden), "W3": (features, hidden)}
    if memory.bias:
        shapes |= {name.replace("W", "b"): shape[1:] for name, shape in shapes.items()}
    return shapes


def check_sizes(rule: MemoryRule, sizes: Mapping[str, int]) -> None:
    """Raise ArgumentError naming v where the sizes K, F and V of a call do not fit the rule.

    Residuals, the target v - k and a read that names q join keys and values.
    """
    joins = {
        "memory.residual": rule.memory.residual != "none",
        "loss.target": any(term.target == "v - k" for term in rule.loss),
        "read.f": rule.read.f is not None and "q" in names_in(rule.read.f),
    }
    for field, joined in joins.items():
        if joined and sizes["K"] != sizes["V"]:
            raise ArgumentError(
                "v",
                f"values of size {sizes['V']} do not fit keys of size {sizes['K']}, which {field} adds",
                allowed="values as large as keys",
                suggestion=f"Give v the size {sizes['K']}, or change {field}",
            )
    memory = rule.memory
    if memory.kind == "graph":
        assert memory.f is not None
        try:
            check_graph_sizes(memory.f, memory.weights, sizes)
        except SpecError as error:
            raise ArgumentError("v", f"memory.f: {error.reason}", value=memory.f) from None


def has_channels(rule: MemoryRule, weight: str, side: str) -> bool:
    """True where a weight has the axis that a gate per channel of the key or the value acts on.

    side "key": the weight's input is the key's channels; "value": its output the value's.
    """
    sizes = {"K": 48, "V": 80, "F": 48 if keeps_size(rule) else 7}
    shape = weight_shapes(rule.memory, sizes)[weight]
    if side == "value":
        return shape[-1] == sizes["V"]
    return len(shape) == 2 and shape[0] == sizes["K"]

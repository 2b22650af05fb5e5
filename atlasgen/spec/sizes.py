"""The sizes that a rule's tensors have in a call: features, weights, and what must agree."""

from __future__ import annotations

from collections.abc import Mapping

from atlasgen.errors import ArgumentError, SpecError
from atlasgen.spec.expression import names_in
from atlasgen.spec.graph import check_graph_sizes
from atlasgen.spec.refusal import keeps_size
from atlasgen.spec.rule import Features, Memory, MemoryRule
from atlasgen.spec.shapes import Extent, extent, weight_expressions


def feature_size(features: Features, key_size: int) -> int:
    """F: how many entries phi(x) has for x of size K. Raises SpecError for the exponential map.

    Symmetric polynomial features of degree p have C(K+p-1, p) entries per degree, Kronecker ones
    K^p; degrees whose coefficient is the number 0 take no room.
    """
    return feature_extent(features).at({"K": key_size})


def feature_extent(features: Features) -> Extent:
    """F as a function of K. Raises SpecError for the exponential map."""
    if features.kind == "exp":
        raise SpecError("features.kind", "the exponential map has infinitely many features", value="exp")
    if features.kind != "poly" or features.basis == "powers":
        return extent("K")
    if features.basis == "projected":
        assert features.out_dim is not None
        return extent(str(features.out_dim))
    numbers = features.coefficients
    every = range(features.degree + 1)
    used = tuple(p for p in every if not isinstance(numbers, tuple) or numbers[p] != 0)
    return Extent("F", lambda sizes: sum(_monomials(features.basis, p, sizes["K"]) for p in used))


def _monomials(basis: str, degree: int, key_size: int) -> int:
    """K**p products, or the C(K + p - 1, p) that differ; arithmetic that sizes under a trace can take."""
    count = 1
    for place in range(degree):
        count = count * key_size if basis == "kronecker" else count * (key_size + place) // (place + 1)
    return count


def weight_shapes(memory: Memory, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """The sizes of one head's weights as stored, [in, out], biases [out]; sizes: K, F and V."""
    return {
        name: tuple(extent(size).at(sizes) for size in shape)
        for name, shape in weight_expressions(memory).items()
    }


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

"""Memora: l2 loss, a two-layer memory whose weights are a softmax of its state.

    ℓ = ½ |pred − v|²
    eᵢ = ∂ℓ/∂pred  at  pred = f(M*, kᵢ)   M* = the memory at the last border of 64 tokens
    Gₜ = ∇ₘ ℓₜ
    Mₜ = αₜ Mₜ₋₁ + (1 − αₜ) M₀ − ηₜ Gₜ
    yₜ = f(softmax(Mₜ), qₜ)               read after the write

    from atlasgen.generated.memora import Memora, op

    layer = Memora(hidden_size=256, num_heads=4)
    y = layer(x)

Rule 04f8bff42700, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from atlasgen.nn import MemoryLayer
    from atlasgen.runtime.operator import MemoryOperator
    from atlasgen.spec.rule import MemoryRule

    RULE: MemoryRule
    Memora: type[MemoryLayer]

__all__ = ["RULE", "Memora", "op"]


def op(backend: str = "auto") -> MemoryOperator:
    """The rule as a function of tensors, on a backend of `atlasgen.compile`."""
    from atlasgen import compile

    return compile(__getattr__("RULE"), backend=backend)


def __getattr__(name: str) -> Any:
    """RULE and the layer class, made when first asked for: importing the package loads no torch."""
    if name == "RULE":
        from atlasgen import load_rule

        found: Any = load_rule(Path(__file__).with_name("rule.toml"))
    elif name == "Memora":
        from atlasgen.nn import layer_class

        found = layer_class(__getattr__("RULE"), __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found

"""DeltaProduct: two exact steps of the delta rule per token, decayed and read once.

    ℓ = ½ |pred − v|²
    eᵢ = ∂ℓ/∂pred  at  pred = M*ᵀ kᵢ   M* = αₜ Mₜ₋₁, decayed first
    Gₜ = kₜ eₜᵀ
    Mₜ = αₜ Mₜ₋₁ − ηₜ Gₜ
    Mₜ ← Mₜ − ηₜ Gₜ                    once more, with a key, value and step of its own, its error at M* = Mₜ
    yₜ = Mₜᵀ qₜ                        read after the write

    from atlasgen.generated.deltaproduct import DeltaProduct, op

    layer = DeltaProduct(hidden_size=256, num_heads=4)
    y = layer(x)

Rule a618e2792af2, schedule wy, generator 1. Written by `atlasgen build`; edit the spec, not this file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from atlasgen.nn import MemoryLayer
    from atlasgen.runtime.operator import MemoryOperator
    from atlasgen.spec.rule import MemoryRule

    RULE: MemoryRule
    DeltaProduct: type[MemoryLayer]

__all__ = ["RULE", "DeltaProduct", "op"]


def op(backend: str = "auto") -> MemoryOperator:
    """The rule as a function of tensors, on a backend of `atlasgen.compile`."""
    from atlasgen import compile

    return compile(__getattr__("RULE"), backend=backend)


def __getattr__(name: str) -> Any:
    """RULE and the layer class, made when first asked for: importing the package loads no torch."""
    if name == "RULE":
        from atlasgen import load_rule

        found: Any = load_rule(Path(__file__).with_name("rule.toml"))
    elif name == "DeltaProduct":
        from atlasgen.nn import layer_class

        found = layer_class(__getattr__("RULE"), __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found

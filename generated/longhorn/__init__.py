"""Longhorn: one implicit step on the l2 loss of each token, a rate per value channel.

    ℓ = ½ |pred − v|²
    eᵢ = ∂ℓ/∂pred  at  pred = M*ᵀ kᵢ   M* = Mₜ₋₁
    Gₜ = kₜ eₜᵀ
    Sₜ = implicit(Mₜ₋₁, Gₜ)            optimizer = implicit
    Mₜ = Mₜ₋₁ − ηₜ Sₜ
    yₜ = Mₜᵀ qₜ                        read after the write

    from atlasgen.generated.longhorn import Longhorn, op

    layer = Longhorn(hidden_size=256, num_heads=4)
    y = layer(x)

Rule 737cfd27d109, schedule wy, generator 1. Written by `atlasgen build`; edit the spec, not this file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from atlasgen.nn import MemoryLayer
    from atlasgen.runtime.operator import MemoryOperator
    from atlasgen.spec.rule import MemoryRule

    RULE: MemoryRule
    Longhorn: type[MemoryLayer]

__all__ = ["RULE", "Longhorn", "op"]


def op(backend: str = "auto") -> MemoryOperator:
    """The rule as a function of tensors, on a backend of `atlasgen.compile`."""
    from atlasgen import compile

    return compile(__getattr__("RULE"), backend=backend)


def __getattr__(name: str) -> Any:
    """RULE and the layer class, made when first asked for: importing the package loads no torch."""
    if name == "RULE":
        from atlasgen import load_rule

        found: Any = load_rule(Path(__file__).with_name("rule.toml"))
    elif name == "Longhorn":
        from atlasgen.nn import layer_class

        found = layer_class(__getattr__("RULE"), __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found

"""RWKV-7: a decay per key channel, an erase key with a rate per channel, a write key.

    ℓ₁ = ½ |pred|²
    ℓ₂ = −⟨pred, v⟩
    e₁ᵢ = ∂ℓ₁/∂pred  at  pred = M*ᵀ kkᵢ   M* = Mₜ₋₁
    e₂ᵢ = ∂ℓ₂/∂pred  at  pred = M*ᵀ kᵢ
    Gₜ = (aₜ ⊙ kkₜ) e₁ₜᵀ + kₜ e₂ₜᵀ
    Mₜ = αₜ Mₜ₋₁ − Gₜ                     α per channel
    yₜ = Mₜᵀ qₜ                           read after the write

    from atlasgen.generated.rwkv7 import RWKV7, op

    layer = RWKV7(hidden_size=256, num_heads=4)
    y = layer(x)

Rule 66b50a33ed77, schedule wy, generator 1. Written by `atlasgen build`; edit the spec, not this file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from atlasgen.nn import MemoryLayer
    from atlasgen.runtime.operator import MemoryOperator
    from atlasgen.spec.rule import MemoryRule

    RULE: MemoryRule
    RWKV7: type[MemoryLayer]

__all__ = ["RULE", "RWKV7", "op"]


def op(backend: str = "auto") -> MemoryOperator:
    """The rule as a function of tensors, on a backend of `atlasgen.compile`."""
    from atlasgen import compile

    return compile(__getattr__("RULE"), backend=backend)


def __getattr__(name: str) -> Any:
    """RULE and the layer class, made when first asked for: importing the package loads no torch."""
    if name == "RULE":
        from atlasgen import load_rule

        found: Any = load_rule(Path(__file__).with_name("rule.toml"))
    elif name == "RWKV7":
        from atlasgen.nn import layer_class

        found = layer_class(__getattr__("RULE"), __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found

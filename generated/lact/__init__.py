"""LaCT: dot loss, SwiGLU memory, Muon once per chunk of 2048 tokens, column norms restored.

    ℓ = −⟨pred, v⟩
    eᵢ = ∂ℓ/∂pred  at  pred = f(M*, kᵢ)   M* = the memory at the last border of 2048 tokens
    Gₜ = ∇ₘ ℓₜ
    Sₜ = θₜ Sₜ₋₁ + Gₜ                     momentum
    Uₜ = NewtonSchulz₅(Sₜ)                at every block
    Mₜ = Mₜ₋₁ − Uₜ
    Mₜ ← row_norm(Mₜ)                     projection
    yₜ = f(M*, qₜ)                        read at the border

    from atlasgen.generated.lact import LaCT, op

    layer = LaCT(hidden_size=256, num_heads=4)
    y = layer(x)

Rule 8e1c823cbdd0, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from atlasgen.nn import MemoryLayer
    from atlasgen.runtime.operator import MemoryOperator
    from atlasgen.spec.rule import MemoryRule

    RULE: MemoryRule
    LaCT: type[MemoryLayer]

__all__ = ["RULE", "LaCT", "op"]


def op(backend: str = "auto") -> MemoryOperator:
    """The rule as a function of tensors, on a backend of `atlasgen.compile`."""
    from atlasgen import compile

    return compile(__getattr__("RULE"), backend=backend)


def __getattr__(name: str) -> Any:
    """RULE and the layer class, made when first asked for: importing the package loads no torch."""
    if name == "RULE":
        from atlasgen import load_rule

        found: Any = load_rule(Path(__file__).with_name("rule.toml"))
    elif name == "LaCT":
        from atlasgen.nn import layer_class

        found = layer_class(__getattr__("RULE"), __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found

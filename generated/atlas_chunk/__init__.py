"""ATLAS with one write and one Newton-Schulz per block of 64.

    φ(x) = powers of each entry of x up to degree 2   of queries and keys
    ℓ = ½ |pred − v|²
    eᵢ = ∂ℓ/∂pred  at  pred = f(M*, φ(kᵢ))            M* = the memory at the last border of 64 tokens
    Gₜ = Σ γᵢ ∇ₘ ℓᵢ                                   sum over i = max(1, t−15) … t; tokens before the border
                                                      at the new M*
    Sₜ = θₜ Sₜ₋₁ + Gₜ                                 momentum
    Uₜ = NewtonSchulz₅(Sₜ)                            at every block
    Mₜ = αₜ Mₜ₋₁ + (1 − αₜ) M₀ − ηₜ Uₜ
    yₜ = f(Mₜ, φ(qₜ))                                 read after the write

    from atlasgen.generated.atlas_chunk import AtlasChunk, op

    layer = AtlasChunk(hidden_size=256, num_heads=4)
    y = layer(x)

Rule b9f369080834, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from atlasgen.nn import MemoryLayer
    from atlasgen.runtime.operator import MemoryOperator
    from atlasgen.spec.rule import MemoryRule

    RULE: MemoryRule
    AtlasChunk: type[MemoryLayer]

__all__ = ["RULE", "AtlasChunk", "op"]


def op(backend: str = "auto") -> MemoryOperator:
    """The rule as a function of tensors, on a backend of `atlasgen.compile`."""
    from atlasgen import compile

    return compile(__getattr__("RULE"), backend=backend)


def __getattr__(name: str) -> Any:
    """RULE and the layer class, made when first asked for: importing the package loads no torch."""
    if name == "RULE":
        from atlasgen import load_rule

        found: Any = load_rule(Path(__file__).with_name("rule.toml"))
    elif name == "AtlasChunk":
        from atlasgen.nn import layer_class

        found = layer_class(__getattr__("RULE"), __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found

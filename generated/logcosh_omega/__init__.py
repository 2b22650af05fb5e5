"""Omega rule under a log-cosh loss, averaged over a gated window of 8 tokens.

    ℓ = Σ log(cosh(pred - v))
    eᵢ = ∂ℓ/∂pred  at  pred = M*ᵀ kᵢ   M* = the memory at the last border of 32 tokens
    Gₜ = Σ γₜ,ₜ₋ᵢ kᵢ eᵢᵀ / Σ γₜ,ₜ₋ᵢ    sum over i = max(1, t−7) … t; tokens before the border at the new M*
    Mₜ = αₜ Mₜ₋₁ − ηₜ Gₜ
    yₜ = Mₜᵀ qₜ                        read after the write

    from atlasgen.generated.logcosh_omega import LogCoshOmega, op

    layer = LogCoshOmega(hidden_size=256, num_heads=4)
    y = layer(x)

Rule be88dbbaf7d7, schedule dual, generator 1. Written by `atlasgen build`; edit the spec, not this file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from atlasgen.nn import MemoryLayer
    from atlasgen.runtime.operator import MemoryOperator
    from atlasgen.spec.rule import MemoryRule

    RULE: MemoryRule
    LogCoshOmega: type[MemoryLayer]

__all__ = ["RULE", "LogCoshOmega", "op"]


def op(backend: str = "auto") -> MemoryOperator:
    """The rule as a function of tensors, on a backend of `atlasgen.compile`."""
    from atlasgen import compile

    return compile(__getattr__("RULE"), backend=backend)


def __getattr__(name: str) -> Any:
    """RULE and the layer class, made when first asked for: importing the package loads no torch."""
    if name == "RULE":
        from atlasgen import load_rule

        found: Any = load_rule(Path(__file__).with_name("rule.toml"))
    elif name == "LogCoshOmega":
        from atlasgen.nn import layer_class

        found = layer_class(__getattr__("RULE"), __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found

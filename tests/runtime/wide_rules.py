"""Rules with many weights, features of another size, optional arguments and held updates."""

from __future__ import annotations

from typing import Any

from atlasgen.spec import rule_from_table
from atlasgen.spec.rule import MemoryRule

_POLY = {"kind": "poly", "degree": 2, "basis": "symmetric"}
_GATED = {"W1": ["V", "2*K"], "W2": ["2*K", "F"], "W3": ["2*K", "F"]}

TABLES: dict[str, dict[str, Any]] = {
    "mlp": {
        "memory": {
            "kind": "mlp", "depth": 2, "hidden": "2*K", "bias": True,
            "norm": "layer", "residual": "key", "initial": "learned",
        },
        "loss": "l2",
        "block": 4,
        "optimizer": {"kind": "momentum", "lr": "token", "theta": "token"},
        "retention": {"kind": "token", "toward": "initial"},
        "weights": {"b1": {"lr": "head"}},
    },
    "gated": {
        "memory": {"kind": "gated_mlp", "hidden": "K + 1", "initial": "given"},
        "features": {**_POLY, "basis": "kronecker", "coefficients": [1, 0, 1]},
        "loss": {"kind": "huber", "delta": "d", "per": "row"},
        "inputs": {"d": {"shape": "token", "range": "positive"}},
        "window": {"length": 3, "gate": "token", "boundary": "carry"},
        "block": 4,
        "optimizer": {"lr": "token"},
        "weights": {"W2": {"retention": "head"}},
    },
    "held": {
        "memory": {"kind": "swiglu", "hidden": "2*K", "initial": "normal"},
        "loss": "dot",
        "block": {"size": 4, "write": "block", "momentum": "block", "gate_pool": "mean"},
        "optimizer": {
            "kind": "momentum", "theta": "token", "lr": "none", "lr_at": "gradient",
            "transform": [{"kind": "newton_schulz", "steps": 3, "at": "block"}],
        },
        "weights": {name: {"lr": "token"} for name in ("W1", "W2", "W3")},
        "retention": {"kind": "none", "project": {"kind": "row_norm", "to": "initial"}},
        "read": {"at": "block"},
    },
    "pooled": {
        "memory": {"kind": "mlp", "depth": 1, "initial": "learned", "bias": True},
        "loss": "l2",
        "block": {"size": 4, "write": "block", "gate_pool": "mean"},
        "optimizer": {"lr": "token"},
        "retention": "token",
        "weights": {"b1": {"lr": "token"}},
    },
    "rows": {
        "memory": {
            "kind": "matrix", "bias": True, "norm": "layer", "residual": "x", "initial": "learned",
        },
        "loss": "l2",
        "block": {"size": 5, "row_scale": "position"},
        "optimizer": {"lr": "token"},
    },
    "row_gates": {
        "memory": {"kind": "matrix", "bias": True, "norm": "layer", "initial": "learned"},
        "loss": {"kind": "l2", "target": "v - k"},
        "block": {"size": 5, "row_scale": "token"},
        "read": {"f": "z + norm(z)", "scale": "K**-0.5"},
    },
    "learned_features": {
        "features": {**_POLY, "degree": 3, "coefficients": "learned"},
        "loss": "l2",
        "block": 4,
        "optimizer": {"lr": "token"},
        "retention": "token",
    },
    "graph": {
        "memory": {
            "kind": "graph", "f": "x + W1 @ (gelu(W2 @ x) * (W3 @ x))", "weights": _GATED,
            "initial": "learned",
        },
        "features": {**_POLY, "basis": "powers"},
        "loss": "l2",
        "window": {"length": 3, "gate": "token"},
        "block": 4,
        "optimizer": {
            "kind": "momentum", "lr": "token", "theta": "token",
            "transform": [{"kind": "newton_schulz", "at": "token"}],
        },
        "retention": "token",
    },
}  # fmt: skip

WIDE: dict[str, MemoryRule] = {
    name: rule_from_table({"rule": name, **table}) for name, table in TABLES.items()
}

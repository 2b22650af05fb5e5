"""Verification: compiled operators, and users' own functions, against the float64 reference."""

from atlasgen.verify.cases import Case, full_cases, quick_cases
from atlasgen.verify.check import CaseResult, verify_rule
from atlasgen.verify.inputs import Arguments, draw
from atlasgen.verify.measure import TensorResult, measure

__all__ = [
    "Arguments",
    "Case",
    "CaseResult",
    "TensorResult",
    "draw",
    "full_cases",
    "measure",
    "quick_cases",
    "verify_rule",
]

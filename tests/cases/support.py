"""The rules that the cases are tried on."""

from __future__ import annotations

import pytest

from atlasgen.spec import load_rule, shipped_specs
from tests.rules.compare import BACKENDS

# Rules of one matrix, which both backends serve; the others have tests of their own in tests/rules.
MATRIX = [n for n in sorted(shipped_specs()) if load_rule(n).memory.weight_names == ("M",)]
MATRIX = [n for n in MATRIX if load_rule(n).features.kind != "poly" and not load_rule(n).held]
# Interpreted kernels are slow: a rule of each schedule and kind of carried state; all are in tests/rules.
INTERPRETED = (
    "linear_attention",
    "simple_gla",
    "omeganet_linear",
    "titans_linear",
    "gated_deltanet",
    "omeganet_exact",
)

each_backend = pytest.mark.parametrize("backend", BACKENDS)
each_spec = pytest.mark.parametrize("name", MATRIX)
each_spec_and_backend = pytest.mark.parametrize(
    ("name", "backend"), [*((n, "torch") for n in MATRIX), *((n, "triton") for n in INTERPRETED)]
)

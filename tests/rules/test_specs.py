"""The shipped specs agree with the float64 definition on every backend, at awkward sizes.

Each call has a random initial state or memory and random cotangents on y and every tensor of the
final state, and is run whole and in pieces.
"""

from __future__ import annotations

import pytest
import torch

from atlasgen.spec import load_rule, shipped_specs
from atlasgen.verify.measure import BARS
from tests.rules.compare import Shape, check, make_case, run_case

SPECS = (
    "linear_attention",
    "logcosh_omega",
    "omeganet_linear",
    "retnet",
    "simple_gla",
    "swla",
    "titans_linear",
)
LENGTHS = (0, 1, 2, 15, 16, 17, 63, 64, 65, 127, 200)
SIZES = ((16, 16), (32, 64), (48, 80), (100, 36))
# A thinner grid for interpreted kernels: every length and every size occurs.
THIN = {(0, 16, 16), (1, 100, 36), (2, 48, 80), (17, 32, 64), (65, 16, 16)}

each_spec = pytest.mark.parametrize("name", SPECS)
each_length = pytest.mark.parametrize("T", LENGTHS)
each_size = pytest.mark.parametrize(("K", "V"), SIZES)
each_dtype = pytest.mark.parametrize("dtype", BARS, ids=lambda dtype: str(dtype).removeprefix("torch."))


def splits_of(T: int) -> list[tuple[int, ...]]:
    """No split; one inside the first block; two at awkward places; an empty piece."""
    return [(), (T // 3,), (min(T, 15), min(T, 64), min(T, 64))] if T else [(), (0,)]


def start_of(T: int, K: int) -> str:
    """A random state, or a fresh sequence: both occur at every length and every size."""
    return "state" if (LENGTHS.index(T) + K // 16) % 2 else "fresh"


def test_the_list_of_specs_is_complete():
    assert sorted(SPECS) == sorted(shipped_specs())


@each_spec
@each_length
@each_size
def test_torch(name, T, K, V):
    shape = Shape(B=1 if T > 17 else 2, T=T, H=2, K=K, V=V)
    case = make_case(load_rule(name), shape, seed=T + K, start=start_of(T, K))
    check(case, "torch", splits_of(T)[:: 1 if T < 100 else 2])


@each_spec
@pytest.mark.parametrize(("T", "K", "V"), sorted(THIN))
def test_interpreted(name, T, K, V):
    case = make_case(load_rule(name), Shape(B=1, T=T, H=1, K=K, V=V), seed=T + K, start=start_of(T, K))
    check(case, "triton", splits_of(T)[::2])


@pytest.mark.slow
@each_spec
@each_length
@each_size
def test_interpreted_full(name, T, K, V):
    for start in ("fresh", "state"):
        case = make_case(load_rule(name), Shape(B=2, T=T, H=2, K=K, V=V), seed=T + K, start=start)
        check(case, "triton", splits_of(T))


@pytest.mark.slow
@each_spec
@each_length
@each_size
def test_torch_full(name, T, K, V):
    for start in ("fresh", "state"):
        case = make_case(load_rule(name), Shape(B=2, T=T, H=3, K=K, V=V), seed=T + V, start=start)
        check(case, "torch", splits_of(T))


@each_spec
@each_dtype
@pytest.mark.parametrize("T", [1, 17, 65])
def test_dtypes_torch(name, dtype, T):
    for start in ("fresh", "state"):
        case = make_case(load_rule(name), Shape(B=2, T=T, K=16, V=24), seed=T, dtype=dtype, start=start)
        check(case, "torch", splits_of(T)[:2])


@each_spec
@each_dtype
def test_dtypes_interpreted(name, dtype):
    case = make_case(load_rule(name), Shape(B=1, T=17, H=1, K=16, V=24), dtype=dtype, start="state")
    check(case, "triton", [()])


@each_spec
@pytest.mark.parametrize("backend", ["torch", "triton"])
def test_heads_in_groups(name, backend):
    """Fewer key heads, more query heads: gradients of the shared ones are sums."""
    shape = Shape(B=1, T=9, H=2, K=8, V=6, query_heads=4, key_heads=1)
    check(make_case(load_rule(name), shape), backend, [(), (4,)])


@each_spec
@pytest.mark.parametrize("backend", ["torch", "triton"])
def test_same_call_same_bits(name, backend):
    """No sum depends on timing: repeated calls agree to the last bit, values and gradients."""
    case = make_case(load_rule(name), Shape(B=2, T=37, H=2, K=16, V=16), start="state")
    first = run_case(case, backend)
    for _ in range(3 if backend == "torch" else 1):
        again = run_case(case, backend)
        for name_, value in {**first.values, **first.gradients}.items():
            assert torch.equal(value, {**again.values, **again.gradients}[name_]), name_

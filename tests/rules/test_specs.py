"""The shipped specs agree with the float64 definition on every backend, at awkward sizes.

Each call has a random initial state or memory and random cotangents on y and every tensor of the
final state, and is run whole and in pieces. Memories of one matrix without features of their own take
the whole grid of lengths and sizes; the others (`WIDE`) lengths around their block and two small sizes,
K = V = 4 and 5: hidden sizes follow from K, and some residuals need V = K. LaCT's block of 2048 tokens is
taken as one of 16, and as it is in the full set. Where a sum of theirs cancels, what float32 does to the
definition is the measure, as for random rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from atlasgen.emit.refusals import kernel_refusals
from atlasgen.schedules.serve import schedule
from atlasgen.spec import load_rule, shipped_specs
from atlasgen.spec.rule import MemoryRule
from atlasgen.verify.measure import BARS
from tests.rules.compare import Case, Shape, check, check_random, compiled, error, make_case, run_case

SPECS = (
    "comba",
    "deltanet",
    "deltaproduct",
    "gated_deltanet",
    "gated_deltanet_2",
    "gla",
    "kda",
    "linear_attention",
    "logcosh_omega",
    "longhorn",
    "omeganet_exact",
    "omeganet_linear",
    "retnet",
    "rwkv7",
    "simple_gla",
    "titans_exact",
    "titans_linear",
)
WIDE = (
    "atlas",
    "atlas_chunk",
    "atlas_pp",
    "dla",
    "lact",
    "memora",
    "moneta",
    "omeganet",
    "omeganet_linear_poly2",
    "swla",
    "titans",
    "titans_gd",
    "ttt_linear",
    "ttt_linear_fla",
    "ttt_mlp",
    "yaad",
)
LENGTHS = (0, 1, 2, 15, 16, 17, 63, 64, 65, 127, 200)
SIZES = ((16, 16), (32, 64), (48, 80), (100, 36))
# A thinner grid for interpreted kernels: every length and every size occurs.
THIN = {(0, 16, 16), (1, 100, 36), (2, 48, 80), (17, 32, 64), (65, 16, 16)}

# Lengths of wide rules, in blocks and tokens around them, with K = V and what the call starts from.
AROUND = (
    (0, 1, 4, "fresh"),
    (1, -1, 5, "state"),
    (1, 0, 5, "fresh"),
    (1, 1, 4, "state"),
    (2, 3, 4, "fresh"),
    (2, 3, 5, "state"),
)


def wide_rule(name: str, largest: int = 64) -> MemoryRule:
    """The rule, a longer block as one of 16 tokens; where any block is the same rule, the chunk's 64."""
    rule = load_rule(name)
    size = rule.block.size if rule.depends_on_memory else 64
    return replace(rule, block=replace(rule.block, size=size if size <= largest else 16))


KERNELS = [name for name in WIDE if not kernel_refusals(schedule(wide_rule(name)).forward)]

each_spec = pytest.mark.parametrize("name", SPECS)
# Exact rules take two sizes: their properties have tests of their own, in tests/rules and tests/schedules.
EXACT = [name for name in SPECS if schedule(load_rule(name)).schedule != "dual"]
GRID = [
    (name, T, K, V)
    for name in SPECS
    for T in LENGTHS
    for K, V in SIZES
    if name not in EXACT or (K, V) in ((16, 16), (48, 80))
]
# Interpreted, a token at a time costs as much as a block elsewhere; decays by channel are many products.
BY_TOKEN = [name for name in EXACT if schedule(load_rule(name)).schedule == "recurrent"]
BY_CHANNEL = [name for name in SPECS if load_rule(name).retention.alpha.kind == "channel"]
KERNEL_GRID = [
    (name, T, K, V)
    for name in SPECS
    for T, K, V in sorted(THIN)
    if (name not in EXACT or K * V <= 32 * 64) and (name not in BY_TOKEN or T < 64)
]
each_wide = pytest.mark.parametrize("name", WIDE)
each_length = pytest.mark.parametrize("T", LENGTHS)
each_size = pytest.mark.parametrize(("K", "V"), SIZES)
each_dtype = pytest.mark.parametrize("dtype", BARS, ids=lambda dtype: str(dtype).removeprefix("torch."))


def splits_of(T: int) -> list[tuple[int, ...]]:
    """No split; one inside the first block; two at awkward places; an empty piece."""
    return [(), (T // 3,), (min(T, 15), min(T, 64), min(T, 64))] if T else [(), (0,)]


def start_of(T: int, K: int) -> str:
    """A random state, or a fresh sequence: both occur at every length and every size."""
    return "state" if (LENGTHS.index(T) + K // 16) % 2 else "fresh"


def agrees(case: Case, splits: Sequence[Sequence[int]]) -> None:
    """Asserts that torch agrees with a definition that stays bounded."""
    assert check_random(case, "torch", splits) != "grows", case.rule.name


def test_the_list_of_specs_is_complete():
    assert sorted(SPECS + WIDE) == sorted(shipped_specs())


@pytest.mark.parametrize(("name", "T", "K", "V"), GRID)
def test_torch(name, T, K, V):
    shape = Shape(B=1 if T > 17 else 2, T=T, H=2, K=K, V=V)
    case = make_case(load_rule(name), shape, seed=T + K, start=start_of(T, K))
    check(case, "torch", splits_of(T)[:: 1 if T < 100 else 2])


@pytest.mark.parametrize(("name", "T", "K", "V"), KERNEL_GRID)
def test_interpreted(name, T, K, V):
    case = make_case(load_rule(name), Shape(B=1, T=T, H=1, K=K, V=V), seed=T + K, start=start_of(T, K))
    slow = name in (*BY_TOKEN, *BY_CHANNEL)
    check(case, "triton", splits_of(T)[2:] if slow and T else splits_of(T)[::2])


@each_wide
@pytest.mark.parametrize(("blocks", "more", "size", "start"), AROUND)
def test_wide_torch(name, blocks, more, size, start):
    rule = wide_rule(name)
    T = blocks * rule.block.size + more
    case = make_case(rule, Shape(B=2, T=T, H=2, K=size, V=size), seed=T + size, start=start)
    agrees(case, [(), (T // 3,)] if T < 100 else [(15, 64, 64)])


@pytest.mark.parametrize("name", KERNELS)
def test_wide_interpreted(name):
    """Blocks of 16 tokens: one that ends, and one that stays open; maps at every token are slow."""
    rule = wide_rule(name, largest=16)
    maps = any(entry.at == "token" for entry in rule.optimizer.transform)
    for T, start in ((19, "state"),) if maps else ((16, "fresh"), (19, "state")):
        check(make_case(rule, Shape(B=1, T=T, H=1, K=4, V=4), seed=T, start=start), "triton")


@each_wide
def test_wide_one_token_after_any_prefix(name):
    """prefill(n) then one token equals the last row of n + 1 tokens, and the state is as large after each."""
    rule = wide_rule(name)
    operator = compiled(rule, "torch")
    case = make_case(rule, Shape(B=1, T=131, H=2, K=8, V=8))
    tensors = {name: value.float() for name, value in case.arguments.items()}
    memory = {name.partition(".")[2] or "M": tensors.pop(name) for name in [*tensors] if "memory" in name}
    start = {"initial_memory": memory} if memory else {}
    by_token = {"q", "k", "v", *(entry.name for entry in operator.signature.tensors if entry.per_token)}

    def rows(begin: int, end: int) -> dict[str, Tensor]:
        return {name: x[:, begin:end] if name in by_token else x for name, x in tensors.items()}

    whole, _ = operator(**rows(0, 131), **start)
    sizes = set()
    for n in range(1, 131, 13):
        _, state = operator(**rows(0, n), **start, output_final_state=True)
        y, _ = operator(**rows(n, n + 1), initial_state=state)
        assert error(y[:, 0], whole[:, n])[0] <= 1e-5, n
        sizes.add(tuple((part, tuple(tensor.shape)) for part, tensor in state.tensors().items()))
    assert len(sizes) == 1


@each_wide
@each_dtype
def test_wide_dtypes_torch(name, dtype):
    shape = Shape(B=1, T=17, H=2, K=8, V=8)
    for start in ("fresh", "state"):
        agrees(make_case(wide_rule(name), shape, seed=17, dtype=dtype, start=start), [(5,)])


@each_wide
def test_wide_heads_in_groups(name):
    shape = Shape(B=1, T=9, H=2, K=6, V=6, query_heads=4, key_heads=1)
    agrees(make_case(wide_rule(name), shape), [(), (4,)])


@each_wide
def test_wide_same_call_same_bits(name):
    case = make_case(wide_rule(name), Shape(B=1, T=37, H=2, K=4, V=4), start="state")
    first, again = run_case(case, "torch"), run_case(case, "torch")
    for name_, value in {**first.values, **first.gradients}.items():
        assert torch.equal(value, {**again.values, **again.gradients}[name_]), name_


@pytest.mark.slow
@each_wide
@pytest.mark.parametrize("size", [3, 8])
def test_wide_torch_full(name, size):
    """Other sizes, longer calls, and heads that do not share a state."""
    rule = wide_rule(name)
    for T, start in ((3 * rule.block.size + 1, "fresh"), (2 * rule.block.size, "state")):
        case = make_case(rule, Shape(B=2, T=T, H=3, K=size, V=size), seed=size, start=start)
        agrees(case, [(), (T // 2,)])


@pytest.mark.slow
def test_lact_with_its_own_block():
    case = make_case(load_rule("lact"), Shape(B=1, T=2051, H=1, K=4, V=4))
    agrees(case, [(), (2048,)])


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
    T, splits = (9, [(), (4,)]) if backend == "torch" else (5, [(2,)])
    shape = Shape(B=1, T=T, H=2, K=8, V=6, query_heads=4, key_heads=1)
    check(make_case(load_rule(name), shape), backend, splits)


@each_spec
@pytest.mark.parametrize("backend", ["torch", "triton"])
def test_same_call_same_bits(name, backend):
    """No sum depends on timing: repeated calls agree to the last bit, values and gradients."""
    shape = Shape(B=2, T=37, H=2, K=16, V=16) if backend == "torch" else Shape(B=1, T=5, H=2, K=16, V=16)
    case = make_case(load_rule(name), shape, start="state")
    first = run_case(case, backend)
    for _ in range(3 if backend == "torch" else 1):
        again = run_case(case, backend)
        for name_, value in {**first.values, **first.gradients}.items():
            assert torch.equal(value, {**again.values, **again.gradients}[name_]), name_

"""Tails, tiny and empty sequences, head sizes, strides, dtypes, and packed sequences."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from atlasgen.errors import ArgumentError
from atlasgen.spec import load_rule, rule_from_table
from tests.cases.support import each_backend, each_spec_and_backend
from tests.rules.compare import Shape, check, compiled, error, make_case, run_case


def call_of(name: str, shape: Shape, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    """A call's arguments in the dtypes of a call."""
    case = make_case(load_rule(name), shape, dtype=dtype)
    return {n: x.to(dtype if n in "qkv" else torch.float32) for n, x in case.arguments.items()}


def grown(x: Tensor, dims: tuple[int, ...] = (1,)) -> Tensor:
    """The same values as a slice of a larger buffer of NaN."""
    shape = [size + 6 * (index in dims) for index, size in enumerate(x.shape)]
    buffer = torch.full(shape, torch.nan, dtype=x.dtype)
    view = buffer[tuple(slice(3, 3 + n) if i in dims else slice(None) for i, n in enumerate(x.shape))]
    return view.copy_(x)


# -- sizes -------------------------------------------------------------------------------------------


@each_backend
@pytest.mark.parametrize("T", range(1, 17))
def test_every_short_length(backend, T):
    splits = [(), (T // 2,)] if backend == "torch" else [()]
    check(make_case(load_rule("omeganet_linear"), Shape(B=1, T=T, H=1, K=16, V=16)), backend, splits)


@each_backend
@pytest.mark.parametrize(("K", "V"), [(1, 1), (1, 16), (2, 4), (8, 1), (4, 8), (16, 2), (64, 32), (72, 72)])
def test_narrow_and_odd_heads(backend, K, V):
    for name in ("simple_gla", "titans_linear"):
        check(make_case(load_rule(name), Shape(B=1, T=9, H=1, K=K, V=V)), backend)


@each_backend
@pytest.mark.parametrize("size", [40, 48, 50, 1, 3])
def test_blocks_of_any_size(backend, size):
    """The rule's block is part of the rule, no tile: no size is wrong."""
    table = {"rule": "odd", "loss": "l2", "block": size, "optimizer": {"lr": "token"}, "retention": "token"}
    T = 101 if backend == "torch" else 53
    check(make_case(rule_from_table(table), Shape(B=1, T=T, H=1, K=8, V=8)), backend, [(), (45,)])


@each_spec_and_backend
def test_no_tokens_and_no_sequences(name, backend):
    for B, T in ((2, 0), (0, 5), (0, 0)):
        for start in ("fresh", "state"):
            if B == 0 and start == "state":
                continue
            case = make_case(load_rule(name), Shape(B=B, T=T, K=8, V=6), start=start)
            found = run_case(case, backend)
            assert found.values["y"].shape == (B, T, 2, 6)
            memory = case.state.get("memory.M", torch.zeros(B, 2, 8, 6))
            assert torch.equal(found.values["memory.M"], memory.float())
            for argument, gradient in found.gradients.items():
                assert torch.isfinite(gradient).all(), argument


# -- memory around the inputs ------------------------------------------------------------------------


@each_spec_and_backend
def test_poison_around_the_inputs_is_never_read(name, backend):
    call = call_of(name, Shape(B=2, T=21, K=12, V=10))
    poisoned = {
        n: grown(x, (1, x.ndim - 1)) if n in "qkv" else grown(x) if x.ndim > 2 else x for n, x in call.items()
    }
    op = compiled(load_rule(name), backend)
    results = []
    for arguments in (call, poisoned):
        leaves = {n: x.detach().requires_grad_() for n, x in arguments.items()}
        y, state = op(**leaves, output_final_state=True)
        total = y.sum() + sum(x.sum() for x in state.tensors().values() if x.is_floating_point())
        gradients = torch.autograd.grad(total, list(leaves.values()))
        results.append([y, *state.tensors().values(), *gradients])
    for clean, other in zip(*results, strict=True):
        assert torch.equal(clean, other)


@each_backend
def test_strided_inputs_give_the_same_bits(backend):
    """Slices of one fused tensor, transposes, expanded batches, an odd offset, a flip made by index."""
    op = compiled(load_rule("simple_gla"), backend)
    B, T, H, D = 2, 19, 2, 8
    fused = torch.randn(B, T, H, 3 * D)
    gate = -torch.rand(B, T, H)
    q, k, v = fused.split(D, -1)
    expected, _ = op(q.contiguous(), k.contiguous(), v.contiguous(), log_alpha=gate)
    assert torch.equal(op(q, k, v, log_alpha=gate)[0], expected)
    turned = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    assert not turned[0].is_contiguous()
    assert torch.equal(op(*turned, log_alpha=gate.mT.contiguous().mT)[0], expected)
    shifted = torch.randn(q.numel() + 1)[1:].view_as(q).copy_(q)
    assert torch.equal(op(shifted, k, v, log_alpha=gate)[0], expected)
    one = [x[:1].expand(B, -1, -1, -1) for x in (q, k, v)]
    assert torch.equal(op(*one, log_alpha=gate[:1].expand(B, -1, -1))[0][1], expected[0])
    flipped = [x.flip(1).flip(1) for x in (q, k, v)]
    assert torch.equal(op(*flipped, log_alpha=gate)[0], expected)


@each_backend
def test_expanded_arguments_get_summed_gradients(backend):
    op = compiled(load_rule("titans_linear"), backend)
    call = call_of("titans_linear", Shape(B=2, T=9, K=4, V=3))
    lr = call["lr"][:1, :, :1].clone().requires_grad_()
    op(**{**call, "lr": lr.expand(2, 9, 2)})[0].sum().backward()
    full = lr.detach().expand(2, 9, 2).clone().requires_grad_()
    op(**{**call, "lr": full})[0].sum().backward()
    torch.testing.assert_close(lr.grad, full.grad.sum((0, 2))[None, :, None], rtol=1e-5, atol=1e-7)


# -- dtypes ------------------------------------------------------------------------------------------


@each_backend
@pytest.mark.parametrize("autocast", [None, torch.bfloat16, torch.float16])
def test_mixed_dtypes_under_autocast(backend, autocast):
    """y in v's dtype, each gradient in its input's dtype, float32 states: for every mixture."""
    op = compiled(load_rule("omeganet_linear"), backend)
    call = call_of("omeganet_linear", Shape(B=1, T=5, H=1, K=4, V=4))
    wide = torch.float32
    grid = list(itertools.product((wide, torch.bfloat16), (wide, torch.float16), (wide, torch.bfloat16)))
    for qk, v, gates in grid[:: 1 if backend == "torch" else 3]:
        dtypes = {"q": qk, "k": qk, "v": v}
        leaves = {n: x.detach().to(dtypes.get(n, gates)).requires_grad_() for n, x in call.items()}
        with torch.autocast("cpu", autocast or torch.bfloat16, enabled=autocast is not None):
            y, state = op(**leaves, output_final_state=True)
        assert y.dtype == v
        assert {x.dtype for x in state.tensors().values()} == {torch.float32, torch.int64}
        (y.float().sum() + state.memory["M"].sum()).backward()
        for name, leaf in leaves.items():
            assert leaf.grad.dtype == leaf.dtype and torch.isfinite(leaf.grad).all(), name


# -- packed sequences --------------------------------------------------------------------------------


def packed_and_apart(name: str, backend: str, borders: list[int], T: int) -> None:
    """Packed rows equal separate calls: y, states and gradients; rows past the last border are 0."""
    rule, op = load_rule(name), compiled(load_rule(name), backend)
    call = call_of(name, Shape(B=1, T=T, H=3, K=6, V=5))
    cu = torch.tensor(borders)
    results = []
    for apart in (False, True):
        leaves = {n: x.detach().clone().requires_grad_() for n, x in call.items()}
        if apart:
            ys, memories = [], []
            for begin, end in zip(borders, borders[1:], strict=False):
                piece = {n: x[:, begin:end] if x.ndim > 2 else x for n, x in leaves.items()}
                y, state = op(**piece, output_final_state=True)
                ys.append(y)
                memories.append(state.memory["M"])
            rest = call["v"].new_zeros(1, T - borders[-1], 3, 5)
            y, memory = torch.cat([*ys, rest], 1), torch.cat(memories)
        else:
            y, state = op(**leaves, cu_seqlens=cu, output_final_state=True)
            memory = state.memory["M"]
        generator = torch.Generator().manual_seed(3)
        loss = (y * torch.randn(y.shape, generator=generator)).sum()
        loss = loss + (memory * torch.randn(memory.shape, generator=generator)).sum()
        results.append([y, memory, *torch.autograd.grad(loss, list(leaves.values()))])
    for packed, apart in zip(*results, strict=True):
        assert error(packed.detach(), apart.detach())[0] <= 1e-5
        if packed.ndim > 2 and packed.shape[:2] == (1, T):
            assert not packed[:, borders[-1] :].any()
    assert rule.name == name


@each_spec_and_backend
def test_packed_sequences_with_empty_ones_and_a_tail(name, backend):
    borders = [0, 0, 5, 75, 76, 76, 140] if backend == "torch" else [0, 0, 5, 22, 23, 23, 31]
    packed_and_apart(name, backend, borders, borders[-1] + 10)


@each_backend
@pytest.mark.parametrize("borders", [[0, 0, 0], [0, 0, 0, 0, 1], [0, 0, 5, 5, 9, 9]])
def test_packed_sequences_that_are_mostly_empty(backend, borders):
    packed_and_apart("omeganet_linear", backend, borders, max(borders[-1], 1))


def test_many_tiny_packed_sequences():
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(0, 2, (300,), generator=generator)
    borders = [0, *lengths.cumsum(0).tolist()]
    packed_and_apart("simple_gla", "torch", borders, borders[-1])


@each_backend
def test_one_document_does_not_leak_into_the_next(backend):
    op = compiled(load_rule("omeganet_linear"), backend)
    call = call_of("omeganet_linear", Shape(B=1, T=30, K=4, V=4))
    cu = torch.tensor([0, 13, 30], dtype=torch.int32)
    before = op(**call, cu_seqlens=cu)[0]
    changed = {n: torch.cat([x[:, :13] * 0.5 + 0.01, x[:, 13:]], 1) for n, x in call.items()}
    after = op(**changed, cu_seqlens=cu)[0]
    assert torch.equal(before[:, 13:], after[:, 13:])
    assert not torch.equal(before[:, :13], after[:, :13])


@each_backend
def test_packed_sequences_are_one_row(backend):
    op = compiled(load_rule("simple_gla"), backend)
    call = call_of("simple_gla", Shape(B=2, T=8, K=4, V=4))
    with pytest.raises(ArgumentError, match="batch") as caught:
        op(**call, cu_seqlens=torch.tensor([0, 3, 8]))
    assert caught.value.argument == "cu_seqlens"

"""States between calls: any pieces equal one pass, and no call touches what it was given."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor

from atlasgen.spec import load_rule, rule_from_table
from tests.cases.support import each_backend, each_spec, each_spec_and_backend
from tests.rules.compare import Shape, check, compiled, deviations, error, make_case, run_case


@each_spec_and_backend
def test_a_split_anywhere(name, backend):
    T = 70 if backend == "torch" else 19
    splits = [1, 3, 4, 63, 64, 65] if backend == "torch" else [1, 16]
    case = make_case(load_rule(name), Shape(B=1, T=T, H=1, K=8, V=6))
    check(case, backend, [(split,) for split in splits])


@each_spec
def test_pieces_of_random_lengths(name):
    """Values and gradients of one pass, whose agreement with the definition other tests see to."""
    numbers, cuts, T = random.Random(name), [0], 1000
    while cuts[-1] < T:
        cuts.append(cuts[-1] + numbers.randint(1, 200))
    case = make_case(load_rule(name), Shape(B=1, T=T, H=1, K=8, V=6))
    whole = run_case(case, "torch")
    found = deviations(run_case(case, "torch", cuts[1:-1]), whole, case)
    assert not [str(entry) for entry in found.values() if entry.outside]


@pytest.mark.parametrize("name", ["gated_deltanet", "kda", "omeganet_linear", "omeganet_exact"])
def test_a_split_of_bfloat16_rows(name):
    case = make_case(load_rule(name), Shape(B=1, T=130, H=2, K=32, V=32), dtype=torch.bfloat16)
    check(case, "torch", [(split,) for split in (1, 63, 64, 65)])


@each_spec_and_backend
def test_one_token_after_any_prefix(name, backend):
    """prefill(n) then one token equals the last row of n + 1 tokens: padding is the identity."""
    op = compiled(load_rule(name), backend)
    call = _call(name, 131 if backend == "torch" else 18)
    for n in range(1, 131, 7) if backend == "torch" else (1, 16, 17):
        upto, after = _rows(call, 0, n), _rows(call, n, n + 1)
        _, state = op(**upto, output_final_state=True)
        y, _ = op(**after, initial_state=state)
        whole, _ = op(**_rows(call, 0, n + 1))
        assert error(y[:, 0], whole[:, n])[0] <= 1e-5, n


@each_spec_and_backend
def test_decoding_token_by_token(name, backend):
    op = compiled(load_rule(name), backend)
    T = 40 if backend == "torch" else 4
    call = _call(name, T)
    whole, expected = op(**call, output_final_state=True)
    reads, state = [], None
    for t in range(T):
        y, state = op(**_rows(call, t, t + 1), initial_state=state, output_final_state=True)
        reads.append(y)
    assert error(torch.cat(reads, 1), whole)[0] <= 1e-5
    for part, tensor in expected.tensors().items():
        assert error(state.tensors()[part], tensor)[0] <= 1e-5, part


@pytest.mark.parametrize("B", [1, 2, 8])
@pytest.mark.parametrize("name", ["gated_deltanet", "titans_linear", "omeganet_exact"])
def test_many_decode_steps_have_the_same_bits_again(name, B):
    """200 steps of several sequences equal one pass, and a second run of them is the same to the bit."""
    op, T = compiled(load_rule(name), "torch"), 200
    case = make_case(load_rule(name), Shape(B=B, T=T, K=8, V=6))
    call = {argument: value.float() for argument, value in case.arguments.items()}
    runs = []
    with torch.no_grad():
        for _ in range(2):
            reads, state = [], None
            for t in range(T):
                y, state = op(**_rows(call, t, t + 1), initial_state=state, output_final_state=True)
                reads.append(y)
            runs.append(torch.cat(reads, 1))
    assert torch.equal(*runs)
    assert error(runs[0], op(**call)[0])[0] <= 1e-5


@each_spec
def test_a_fresh_call_sees_nothing_of_earlier_ones(name):
    """States and buffers of other calls lie freed in the allocator, full of garbage."""
    op, call = compiled(load_rule(name), "torch"), _call(name, 70)
    expected, _ = op(**call)
    for value in (float("nan"), 1e30):
        _, garbage = op(**{n: torch.full_like(x, value) for n, x in call.items()}, output_final_state=True)
        del garbage
        y, state = op(**call, output_final_state=True)
        assert torch.equal(y, expected)
        assert all(torch.isfinite(x).all() for x in state.tensors().values())


@pytest.mark.parametrize("name", ["omeganet_linear", "gated_deltanet", "kda", "omeganet_exact", "titans"])
def test_the_same_call_twenty_times_has_the_same_bits(name):
    case = make_case(load_rule(name), Shape(B=2, T=70, K=8, V=8))
    first, *others = (run_case(case, "torch") for _ in range(20))
    for other in others:
        for table, again in ((first.values, other.values), (first.gradients, other.gradients)):
            assert all(torch.equal(x, again[part]) for part, x in table.items())


@each_spec_and_backend
def test_a_given_state_is_never_changed_nor_returned(name, backend):
    op = compiled(load_rule(name), backend)
    call = _call(name, 5)
    _, state = op(**call, output_final_state=True)
    before = {part: tensor.clone() for part, tensor in state.tensors().items()}
    for rows in (5, 1, 0):
        _, after = op(**_rows(call, 0, rows), initial_state=state, output_final_state=True)
        for part, tensor in state.tensors().items():
            assert torch.equal(tensor, before[part]), part
        held = {tensor.untyped_storage().data_ptr() for tensor in state.tensors().values() if tensor.numel()}
        given = {x.untyped_storage().data_ptr() for x in call.values()}
        for part, tensor in after.tensors().items():
            if tensor.numel():
                assert tensor.untyped_storage().data_ptr() not in held | given, part


@each_spec_and_backend
def test_what_a_call_returns_has_one_form(name, backend):
    """Types, shapes and dtypes do not depend on the length, on gradients, or on what was asked for."""
    op = compiled(load_rule(name), backend)
    forms = set()
    for T in (0, 1, 3):
        for grad in (False, True):
            call = {n: x.requires_grad_(grad) for n, x in _call(name, T).items()}
            y, state = op(**call, output_final_state=True)
            assert y.shape == (2, T, 2, 6) and y.dtype == torch.float32 and y.requires_grad == grad
            forms.add(tuple((p, t.dtype, tuple(t.shape)) for p, t in state.tensors().items()))
            again, none = op(**call)
            assert none is None and torch.equal(again, y)
    assert len(forms) == 1


@each_backend
def test_read_before_or_after_the_write(backend):
    q, k, v = (torch.randn(1, 1, 1, n) for n in (4, 4, 3))
    table = {"rule": "read", "loss": "dot", "read": {"scale": 0.5}}
    after, _ = compiled(rule_from_table(table), backend)(q, k, v)
    torch.testing.assert_close(after, 0.5 * (q * k).sum(-1, keepdim=True) * v)
    table["read"]["at"] = "pre"
    before, _ = compiled(rule_from_table(table), backend)(q, k, v)
    assert not before.any()


@each_backend
def test_a_sequence_shorter_than_its_block_is_learned_from(backend):
    for block in (16, 64):
        table = {"rule": "short", "loss": "l2", "block": block, "optimizer": {"lr": 0.1}}
        case = make_case(rule_from_table(table), Shape(B=1, T=3, H=1, K=4, V=4), start="state")
        check(case, backend, [(), (1, 2)])
        moved = run_case(case, backend).values["memory.M"] - case.state["memory.M"]
        assert float(moved.abs().max()) > 1e-3


@each_backend
def test_two_passes_through_a_carried_state(backend):
    """Truncated backpropagation: detach() cuts the graph, the whole graph can be walked too."""
    op = compiled(load_rule("titans_linear"), backend)
    call = _call("titans_linear", 6)
    leaves = {n: x.clone().requires_grad_() for n, x in call.items()}
    _, state = op(**_rows(leaves, 0, 3), output_final_state=True)
    op(**_rows(leaves, 3, 6), initial_state=state.detach())[0].sum().backward()
    assert all(not leaf.grad[:, :3].any() for leaf in leaves.values())
    _, state = op(**_rows(leaves, 0, 3), output_final_state=True)
    op(**_rows(leaves, 3, 6), initial_state=state)[0].sum().backward()
    assert leaves["v"].grad[:, :3].any()


@each_backend
def test_no_warning_for_few_tokens_and_many_heads(backend, recwarn):
    op = compiled(load_rule("simple_gla"), backend)
    op(*(torch.randn(1, 1, 32, 4) for _ in range(3)), log_alpha=-torch.rand(1, 1, 32))
    assert not [w for w in recwarn if "head" in str(w.message) or "layout" in str(w.message)]


def _call(name: str, T: int) -> dict[str, Tensor]:
    case = make_case(load_rule(name), Shape(B=2, T=T, K=8, V=6), seed=T)
    return {argument: value.float() for argument, value in case.arguments.items()}


def _rows(call: dict[str, Tensor], begin: int, end: int) -> dict[str, Tensor]:
    return {n: x[:, begin:end] if x.ndim > 2 else x for n, x in call.items()}

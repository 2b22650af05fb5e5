"""Sequences packed in one row by cu_seqlens."""

import pytest
import torch

from atlasgen import ArgumentError
from atlasgen.runtime import layout
from tests.runtime.cases import BACKENDS, RULES, Call, call_of, close, loss_of, operator

each_rule = pytest.mark.parametrize("name", RULES)
each_backend = pytest.mark.parametrize("backend", BACKENDS)


@each_backend
@each_rule
@pytest.mark.parametrize("borders", [[0, 0, 5, 5, 9, 9], [0, 3, 7], [0, 0, 0], [0, 1], [0]])
def test_equals_separate_runs(name, backend, borders):
    rule = RULES[name]
    op = operator(rule, backend)
    call = call_of(rule, batch=1, tokens=9, heads=3).leaves()
    separate = call.leaves()
    packed = torch.tensor(borders, dtype=torch.int32)
    y, state = call(op, cu_seqlens=packed, output_final_state=True)
    assert y.shape == (1, 9, 3, 6) and len(state) == len(borders) - 1
    assert not y[:, borders[-1] :].any()

    total = found = torch.zeros((), dtype=torch.float64, requires_grad=True)
    for index, (start, stop) in enumerate(zip(borders, borders[1:])):
        own, own_state = separate.rows(rule, slice(start, stop))(op, output_final_state=True)
        close(y[:, start:stop], own)
        close(state[index].detach(), own_state.detach())
        total = total + loss_of(own, own_state, seed=index)
        found = found + loss_of(y[:, start:stop], state[index], seed=index)
    total.backward()
    (found + y[:, borders[-1] :].sum()).backward()
    for argument, tensor in call.arguments.items():
        other = separate.arguments[argument].grad
        close(tensor.grad, torch.zeros_like(tensor) if other is None else other, 2e-5)


@each_backend
def test_packed_calls_go_on_from_a_state(backend):
    rule = RULES["carried"]
    op = operator(rule, backend)
    call = call_of(rule, batch=1, tokens=12)
    whole, expected = call(op, cu_seqlens=torch.tensor([0, 7, 12]), output_final_state=True)
    # The same two sequences, of 7 and 5 tokens, in two calls: 3 and 5 tokens, then 4 and 0.
    keep = {"q", "k", "v", "log_alpha", "gamma", "delta"}

    def rows(indices):
        return Call({n: t[:, indices] if n in keep else t for n, t in call.arguments.items()})

    first, second = [0, 1, 2, 7, 8, 9, 10, 11], [3, 4, 5, 6]
    y, middle = rows(first)(op, cu_seqlens=torch.tensor([0, 3, 8]), output_final_state=True)
    rest, state = rows(second)(
        op, cu_seqlens=torch.tensor([0, 4, 4]), initial_state=middle, output_final_state=True
    )
    close(y, whole[:, first])
    close(rest, whole[:, second])
    close(state, expected)


def test_uncovered_rows_are_zero_whatever_the_input_holds():
    rule = RULES["gated"]
    call = call_of(rule, batch=1, tokens=10)
    for tensor in call.arguments.values():
        tensor[:, 9:] = float("nan")
    call = call.leaves()
    y, _ = call(operator(rule, "naive"), cu_seqlens=torch.tensor([0, 4, 9]))
    y.square().sum().backward()
    assert torch.isfinite(y).all() and not y[:, 9:].any()
    for tensor in call.arguments.values():
        assert torch.isfinite(tensor.grad).all() and not tensor.grad[:, 9:].any()


@pytest.mark.parametrize(
    ("borders", "message"),
    [
        (torch.tensor([0.0, 3.0]), "torch.float32"),
        (torch.tensor([[0, 3]]), r"\[1, 2\]"),
        (torch.tensor([1, 3]), "start at 0"),
        (torch.tensor([0, 3, 2]), "never descend"),
        (torch.tensor([0, 8]), "beyond the 7 tokens"),
        ([0, 7], "list"),
        (torch.tensor([0, 7], device="meta"), "on meta, while v is on cpu"),
    ],
)
def test_wrong_borders(borders, message):
    rule = RULES["gated"]
    with pytest.raises(ArgumentError, match=f"cu_seqlens.*{message}"):
        call_of(rule, batch=1)(operator(rule, "naive"), cu_seqlens=borders)


def test_a_batch_of_rows_is_refused():
    rule = RULES["gated"]
    with pytest.raises(ArgumentError, match=r"cu_seqlens.*batch 2.*\[1, B \* T"):
        call_of(rule)(operator(rule, "naive"), cu_seqlens=torch.tensor([0, 7]))


def test_borders_are_read_once_per_tensor(monkeypatch):
    monkeypatch.setattr(layout, "_is_free_to_read", lambda tensor: False)
    reads = []
    original = torch.Tensor.tolist
    monkeypatch.setattr(torch.Tensor, "tolist", lambda tensor: reads.append(1) or original(tensor))
    borders = torch.tensor([0, 2, 5])
    for _ in range(12):
        layout.packing_of(borders, 5, check=False)
    assert len(reads) == 1
    borders[1] = 4  # written to: what was read is void
    assert layout.packing_of(borders, 5, check=False).longest == 4
    assert len(reads) == 2
    layout.packing_of(borders.clone(), 5, check=False)
    assert len(reads) == 3
    key = id(borders)
    assert key in layout._read_borders
    del borders
    assert key not in layout._read_borders


def test_packing_round_trip_is_exact():
    packing = layout.packing_of(torch.tensor([0, 2, 2, 7]), 9, check=True)
    rows = torch.randn(1, 9, 3, dtype=torch.float64, requires_grad=True)
    padded = packing.pad(rows)
    assert padded.shape == (3, 5, 3)
    assert torch.equal(padded[0, :2], rows[0, :2]) and not padded[0, 2:].any()
    assert not padded[1].any() and torch.equal(padded[2], rows[0, 2:7])
    back = packing.unpad(padded)
    assert torch.equal(back[:, :7], rows[:, :7]) and not back[:, 7:].any()
    assert torch.autograd.gradcheck(packing.pad, rows)

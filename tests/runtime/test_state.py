"""States: what calls return, and that nothing shares memory."""

import pickle

import pytest
import torch
from torch.utils import _pytree

from atlasgen import OperatorState
from atlasgen.errors import ArgumentError
from tests.runtime.cases import BACKENDS, RULES, call_of, close, flat, loss_of, operator

each_rule = pytest.mark.parametrize("name", RULES)
each_backend = pytest.mark.parametrize("backend", BACKENDS)


def state_of(name, **sizes) -> OperatorState:
    return call_of(RULES[name], **sizes)(operator(RULES[name], "naive"), output_final_state=True)[1]


@each_backend
@each_rule
@pytest.mark.parametrize("tokens", [0, 1, 3])
def test_no_call_changes_or_returns_its_initial_state(name, backend, tokens):
    rule = RULES[name]
    op = operator(rule, backend)
    _, start = call_of(rule, tokens=5)(op, output_final_state=True)
    before = start.clone()
    memory = torch.randn(2, 4, 6)
    for options in ({"initial_state": start}, {"initial_memory": memory}):
        _, final = call_of(rule, tokens=tokens)(op, output_final_state=True, **options)
        given = {tensor.data_ptr() for tensor in [memory, *start.tensors().values()]}
        parts = [tensor.data_ptr() for tensor in final.tensors().values()]
        assert not given & set(parts) and len(set(parts)) == len(parts)
    for part, tensor in start.tensors().items():
        assert torch.equal(tensor, before.tensors()[part])


@each_backend
@each_rule
def test_returns_have_one_form(name, backend):
    """The same types and dtypes for every length, with and without gradients."""
    rule = RULES[name]
    op = operator(rule, backend)
    shapes = set()
    for tokens in (0, 1, 7):
        for grad in (True, False):
            call = call_of(rule, tokens=tokens, dtype=torch.bfloat16)
            call = call.leaves() if grad else call
            y, state = call(op, output_final_state=True)
            assert y.dtype == torch.bfloat16 and y.shape == (2, tokens, 2, 6)
            assert call(op)[1] is None
            kinds = {n: (tuple(t.shape), t.dtype) for n, t in state.tensors().items()}
            shapes.add(tuple(kinds.items()))
            for part, tensor in state.tensors().items():
                assert tensor.dtype == (torch.int64 if part == "position" else torch.float32)
    assert len(shapes) == 1


@each_backend
@each_rule
@pytest.mark.parametrize(("batch", "tokens"), [(2, 0), (0, 3), (0, 0)])
def test_empty_calls(name, backend, batch, tokens):
    rule = RULES[name]
    op = operator(rule, backend)
    call = call_of(rule, batch=batch, tokens=tokens).leaves()
    memory = torch.randn(2, 4, 6, requires_grad=True)
    y, state = call(op, initial_memory=memory, output_final_state=True)
    assert y.shape == (batch, tokens, 2, 6) and len(state) == batch
    assert torch.equal(state.memory["M"], memory.expand(batch, 2, 4, 6))
    loss_of(y, state).backward()
    for tensor in call.arguments.values():
        assert tensor.grad.shape == tensor.shape and not tensor.grad.any()
    assert memory.grad.abs().sum() > 0 or batch == 0


@each_rule
@pytest.mark.parametrize("backend", [*BACKENDS, "reference"])
@pytest.mark.parametrize(("batch", "tokens"), [(2, 0), (0, 3)])
@pytest.mark.parametrize("part", ["y", "state"])
def test_each_result_of_an_empty_call_has_a_backward(name, backend, batch, tokens, part):
    call = call_of(RULES[name], batch=batch, tokens=tokens).leaves()
    y, state = call(operator(RULES[name], backend), output_final_state=True)
    (y if part == "y" else state.memory["M"]).sum().backward()
    for tensor in call.arguments.values():
        assert tensor.grad.shape == tensor.shape and not tensor.grad.any()


def test_no_packed_sequences_have_a_backward_in_the_reference():
    rule = RULES["windowed"]
    call = call_of(rule, batch=1).leaves()
    y, state = call(operator(rule, "reference"), cu_seqlens=torch.tensor([0]), output_final_state=True)
    loss_of(y, state).backward()
    assert all(not tensor.grad.any() for tensor in call.arguments.values())


def test_positions_count_tokens():
    rule = RULES["windowed"]
    op = operator(rule, "naive")
    call = call_of(rule, batch=1, tokens=9)
    _, state = call(op, cu_seqlens=torch.tensor([0, 4, 4, 9]), output_final_state=True)
    assert state.position.tolist() == [4, 0, 5]
    _, state = call(op, cu_seqlens=torch.tensor([0, 1, 3, 3]), initial_state=state, output_final_state=True)
    assert state.position.tolist() == [5, 2, 5]


def test_sequences_by_index_and_together():
    state = state_of("carried", batch=3)
    for index in (1, -2):
        assert len(state[index]) == 1
        assert torch.equal(state[index].window["k"], state.window["k"][1:2])
    assert torch.equal(state[[2, 0]].memory["M"], state.memory["M"][[2, 0]])
    assert len(state[1:]) == 2
    joined = OperatorState.cat([state[:2], state[2]])
    close(joined, state, 0)
    with pytest.raises(IndexError, match="sequence 3 of a state that holds 3"):
        state[3]
    with pytest.raises(ValueError, match="different rules"):
        OperatorState.cat([state, state_of("gated")])
    with pytest.raises(ValueError, match="at least one"):
        OperatorState.cat([])


def test_a_state_is_a_pytree_and_pickles():
    state = state_of("carried")
    leaves, spec = _pytree.tree_flatten(state)
    assert len(leaves) == len(state.tensors())
    doubled = _pytree.tree_unflatten([leaf * 2 for leaf in leaves], spec)
    assert torch.equal(doubled.memory["M"], 2 * state.memory["M"])
    close(pickle.loads(pickle.dumps(state)), state, 0)


def test_movement_and_text():
    state = state_of("windowed")
    assert state.to("meta").memory["M"].is_meta
    with pytest.raises(TypeError, match="takes a device, got torch.bfloat16"):
        state.to(torch.bfloat16)
    text = repr(state)
    for name, tensor in flat({"window": state.window, "position": state.position}).items():
        assert f"{name}: {list(tensor.shape)}" in text


def test_training_over_a_carried_state_needs_detach():
    rule = RULES["gated"]
    op = operator(rule, "naive")
    call = call_of(rule).leaves()
    y, state = call(op, output_final_state=True)
    y.sum().backward()
    state = state.detach()
    assert not state.memory["M"].requires_grad
    again = call.leaves()
    y, _ = again(op, initial_state=state)
    y.sum().backward()
    assert again.arguments["q"].grad.abs().sum() > 0


@each_backend
@each_rule
def test_a_state_is_updated_in_its_place(name, backend):
    """As the final state of the same call, in the tensors of the state that was given."""
    op = operator(RULES[name], backend)
    _, start = call_of(RULES[name], tokens=5)(op, output_final_state=True)
    step = call_of(RULES[name], tokens=2)
    y, expected = step(op, initial_state=start.clone(), output_final_state=True)
    places = {part: tensor.data_ptr() for part, tensor in start.tensors().items()}
    again, final = step(op, initial_state=start, update_state=True)
    assert final is start and torch.equal(again, y)
    for part, tensor in start.tensors().items():
        assert tensor.data_ptr() == places[part] and torch.equal(tensor, expected.tensors()[part]), part


def test_what_a_state_cannot_be_updated_with():
    op, call = operator(RULES["gated"], "torch"), call_of(RULES["gated"], tokens=2)
    with pytest.raises(ArgumentError, match="without an initial_state"):
        call(op, update_state=True)
    _, start = call(op, output_final_state=True)
    with pytest.raises(ArgumentError, match="autograd records q"):
        call.leaves()(op, initial_state=start, update_state=True)
    with torch.no_grad():
        assert call.leaves()(op, initial_state=start, update_state=True)[1] is start
    with pytest.raises(ArgumentError, match="other tensors"):
        start.copy_(state_of("carried"))

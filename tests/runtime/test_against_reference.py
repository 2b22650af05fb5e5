"""The whole runtime around a program agrees with the definition: values, states, gradients."""

import pytest
import torch

from tests.runtime.cases import BACKENDS, RULES, call_of, close, loss_of, operator, rms

each_rule = pytest.mark.parametrize("name", RULES)
each_backend = pytest.mark.parametrize("backend", BACKENDS)


@each_backend
@each_rule
@pytest.mark.parametrize("tokens", [0, 1, 2, 7])
def test_values_and_gradients(name, backend, tokens):
    rule = RULES[name]
    op = operator(rule, backend)
    call, reference = (call_of(rule, tokens=tokens).leaves() for _ in range(2))
    reference = type(call)({n: t.detach().clone().requires_grad_() for n, t in call.arguments.items()})
    memory = torch.randn(2, 4, 6, requires_grad=True)
    expected_memory = memory.detach().clone().requires_grad_()

    y, state = call(op, initial_memory=memory, output_final_state=True)
    expected, expected_state = reference.reference(rule, initial_memory=expected_memory)
    close(y, expected)
    close(state, expected_state)
    loss_of(y, state).backward()
    loss_of(expected, expected_state).backward()
    close(memory.grad, expected_memory.grad)
    others = {name: tensor.grad for name, tensor in reference.arguments.items()}
    largest = max((rms(other) for other in others.values() if other is not None), default=0.0)
    for argument, tensor in call.arguments.items():
        other = others[argument]
        if other is None:  # the loss does not depend on it: not even rounding is allowed
            close(tensor.grad, torch.zeros_like(tensor), 2e-5)
        else:
            close(tensor.grad, other, 2e-5, largest)


@each_backend
@each_rule
@pytest.mark.parametrize("split", [0, 1, 3, 4, 5])
def test_split_calls_equal_one_call(name, backend, split):
    rule = RULES[name]
    op = operator(rule, backend)
    whole = call_of(rule, tokens=9).leaves()
    memory = torch.randn(2, 4, 6, requires_grad=True)
    y, state = whole(op, initial_memory=memory, output_final_state=True)
    loss_of(y, state).backward()
    expected = {n: t.grad for n, t in whole.arguments.items()} | {"memory": memory.grad}

    parts = whole.leaves()
    again = memory.detach().clone().requires_grad_()
    first, middle = parts.rows(rule, slice(0, split))(op, initial_memory=again, output_final_state=True)
    second, final = parts.rows(rule, slice(split, 9))(op, initial_state=middle, output_final_state=True)
    joined = torch.cat([first, second], 1)
    close(joined, y.detach())
    close(final, state.detach())
    loss_of(joined, final).backward()
    found = {n: t.grad for n, t in parts.arguments.items()} | {"memory": again.grad}
    for argument, gradient in found.items():
        close(gradient, expected[argument], 2e-5)


@each_backend
@each_rule
@pytest.mark.parametrize(("query_heads", "key_heads"), [(4, 2), (4, 1), (1, 1), (2, 1), (1, 2)])
def test_heads_in_groups(name, backend, query_heads, key_heads):
    rule = RULES[name]
    op = operator(rule, backend)
    call = call_of(rule, tokens=5, query_heads=query_heads, key_heads=key_heads).leaves()
    reference = call.leaves()
    y, state = call(op, output_final_state=True)
    assert y.shape == (2, 5, max(query_heads, 2), 6)
    expected, expected_state = reference.reference(rule)
    close(y, expected)
    close(state, expected_state)
    loss_of(y, state).backward()
    loss_of(expected, expected_state).backward()
    for argument, tensor in call.arguments.items():
        close(tensor.grad, reference.arguments[argument].grad, 2e-5)


@pytest.mark.parametrize("name", RULES)
def test_the_reference_as_a_backend(name):
    rule = RULES[name]
    op = operator(rule, "reference")
    call = call_of(rule, tokens=5, dtype=torch.bfloat16)
    y, middle = call.rows(rule, slice(0, 2))(op, output_final_state=True)
    rest, state = call.rows(rule, slice(2, 5))(op, output_final_state=True, initial_state=middle)
    expected, expected_state = call.reference(rule)
    assert y.dtype == torch.bfloat16
    assert {tensor.dtype for tensor in state.tensors().values()} == {torch.float32, torch.int64}
    close(torch.cat([y, rest], 1), expected, 6e-3)
    close(state, expected_state)


def test_a_state_passes_from_one_backend_to_another():
    rule = RULES["carried"]
    call = call_of(rule, tokens=9)
    first, second = call.rows(rule, slice(0, 3)), call.rows(rule, slice(3, 9))
    naive, reference = operator(rule, "naive"), operator(rule, "reference")
    _, middle = first(naive, output_final_state=True)
    expected, state = second(reference, initial_state=middle, output_final_state=True)
    y, found = second(naive, initial_state=middle, output_final_state=True)
    close(y, expected)
    close(found, state)

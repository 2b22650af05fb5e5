"""Strides, dtypes, autocast."""

import itertools

import pytest
import torch

from tests.runtime.cases import BACKENDS, RULES, Call, call_of, close, operator

each_backend = pytest.mark.parametrize("backend", BACKENDS)


def strided(tensor, kind):
    """The same values in other memory."""
    if kind == "transposed":
        return tensor.transpose(0, -1).contiguous().transpose(0, -1)
    if kind == "sliced":
        wide = torch.full((*tensor.shape[:-1], 3 * tensor.shape[-1]), float("nan"))
        wide[..., tensor.shape[-1] : 2 * tensor.shape[-1]] = tensor
        return wide[..., tensor.shape[-1] : 2 * tensor.shape[-1]]
    flat = torch.full((tensor.numel() + 1,), float("nan"))
    flat[1:] = tensor.flatten()
    return flat[1:].view(tensor.shape)


@each_backend
@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("kind", ["transposed", "sliced", "offset"])
def test_strides_do_not_matter(name, backend, kind):
    rule = RULES[name]
    op = operator(rule, backend)
    plain = call_of(rule).leaves()
    other = {n: strided(t.detach(), kind).requires_grad_() for n, t in plain.arguments.items()}
    y, _ = plain(op)
    found, _ = Call(other)(op)
    assert torch.equal(found, y)
    y.sum().backward()
    found.sum().backward()
    for argument, tensor in plain.arguments.items():
        assert torch.equal(other[argument].grad, tensor.grad)


@each_backend
def test_expanded_arguments_sum_their_gradients(backend):
    rule = RULES["windowed"]
    op = operator(rule, backend)
    call = call_of(rule)
    small = call.arguments["lr"][:1, :, :1].clone().requires_grad_()
    call.arguments["lr"] = small.expand(2, 7, 2)
    call(op)[0].sum().backward()
    whole = call.arguments["lr"].detach().clone().requires_grad_()
    call.arguments["lr"] = whole
    call(op)[0].sum().backward()
    close(small.grad, whole.grad.sum((0, 2), keepdim=True))


@each_backend
@pytest.mark.parametrize("autocast", [None, torch.bfloat16, torch.float16])
def test_each_gradient_has_the_dtype_of_its_argument(backend, autocast):
    rule = RULES["windowed"]
    op = operator(rule, backend)
    dtypes = (torch.float32, torch.bfloat16, torch.float16)
    for query, value, gate in itertools.product(dtypes, dtypes, (torch.float32, torch.bfloat16)):
        call = call_of(rule, tokens=3)
        kinds = {"q": query, "k": query, "v": value}
        call = Call({n: t.to(kinds.get(n, gate)) for n, t in call.arguments.items()}).leaves()
        memory = torch.randn(2, 4, 6).to(gate).requires_grad_()
        with torch.autocast("cpu", autocast or torch.bfloat16, enabled=autocast is not None):
            y, state = call(op, initial_memory=memory, output_final_state=True)
        assert y.dtype == value
        assert state.memory["M"].dtype == torch.float32
        (y.sum() + state.memory["M"].sum()).backward()
        for tensor in [*call.arguments.values(), memory]:
            assert tensor.grad.dtype == tensor.dtype and torch.isfinite(tensor.grad).all()


@each_backend
def test_mixed_dtypes_lose_no_digits(backend):
    """bfloat16 values with float32 keys are computed in float32."""
    rule = RULES["windowed"]
    op = operator(rule, backend)
    call = call_of(rule)
    call.arguments["v"] = call.arguments["v"].bfloat16()
    _, state = call(op, output_final_state=True)
    _, expected = call.reference(rule)
    close(state, expected)


@each_backend
def test_low_precision_gates_are_widened(backend):
    rule = RULES["gated"]
    op = operator(rule, backend)
    call = call_of(rule, dtype=torch.bfloat16)
    call.arguments["log_alpha"] = torch.full((2, 7, 2), -0.03).bfloat16()
    _, state = call(op, output_final_state=True)
    _, expected = call.reference(rule)
    close(state, expected, 1e-2)


def test_autocast_computes_in_its_dtype():
    rule = RULES["gated"]
    op = operator(rule, "naive")
    call = call_of(rule)
    rounded = Call({n: t.bfloat16().float() if n in "qkv" else t for n, t in call.arguments.items()})
    expected, _ = rounded(op)
    with torch.autocast("cpu", torch.bfloat16):
        y, _ = call(op)
    assert y.dtype == torch.float32
    assert torch.equal(y, expected.bfloat16().float())

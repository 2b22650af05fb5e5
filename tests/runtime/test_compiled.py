"""Programs as torch operators: opcheck, torch.compile, checkpointing, copies, second derivatives."""

import copy
import io
import pickle
import subprocess
import sys

import pytest
import torch
import torch._dynamo.testing
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint

import atlasgen
from atlasgen import OperatorState
from tests.runtime.cases import BACKENDS, RULES, call_of, close, loss_of, operator

each_rule = pytest.mark.parametrize("name", RULES)
each_backend = pytest.mark.parametrize("backend", BACKENDS)


def arguments_of(op, rule, **options):
    """The arguments of the registered forward operator in one real call."""
    program = op._programs.for_tensor(torch.zeros(()))
    captured = []
    original = program.operator
    program.operator = lambda *arguments: captured.append(arguments) or original(*arguments)
    try:
        call_of(rule, **options).leaves()(op)
    finally:
        program.operator = original
    return program, captured[0]


@each_backend
@each_rule
@pytest.mark.parametrize("tokens", [0, 5])
def test_opcheck(name, backend, tokens):
    rule = RULES[name]
    program, arguments = arguments_of(operator(rule, backend), rule, tokens=tokens)
    detached = tuple(
        a.detach().requires_grad_(a.requires_grad) if isinstance(a, torch.Tensor) else a for a in arguments
    )
    torch.library.opcheck(program.operator, detached)


@each_backend
@each_rule
def test_compiled_without_breaks_or_recompilation(name, backend):
    rule = RULES[name]
    op = operator(rule, backend)
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")

    def step(arguments, state):
        y, state = op(**arguments, initial_state=state, output_final_state=True)
        return y, state

    compiled = torch.compile(step, fullgraph=True, dynamic=True, backend=counter)
    _, start = call_of(rule, tokens=3)(op, output_final_state=True)
    counts = []
    for tokens in (5, 8, 9):
        call = call_of(rule, tokens=tokens).leaves()
        eager = call.leaves()
        y, state = compiled(call.arguments, start)
        expected, expected_state = step(eager.arguments, start)
        assert isinstance(state, OperatorState)
        assert torch.equal(y, expected)
        close(state.detach(), expected_state.detach(), 0)
        loss_of(y, state).backward()
        loss_of(expected, expected_state).backward()
        for argument, tensor in call.arguments.items():
            close(tensor.grad, eager.arguments[argument].grad, 1e-6)
        counts.append(counter.frame_count)
    assert counts[0] <= 2  # constants make dynamo start its first analysis again
    assert counts[1:] == [counts[0]] * 2


@each_backend
def test_compiled_with_packed_sequences(backend):
    rule = RULES["windowed"]
    op = operator(rule, backend)
    torch._dynamo.reset()
    compiled = torch.compile(op, fullgraph=True, dynamic=True, backend="aot_eager")
    call = call_of(rule, batch=1, tokens=9)
    borders = torch.tensor([0, 4, 4, 8])
    y, state = call(compiled, cu_seqlens=borders, output_final_state=True)
    expected, expected_state = call(op, cu_seqlens=borders, output_final_state=True)
    close(y, expected)
    close(state, expected_state)


@each_backend
@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointing_is_bitwise_equal(backend, reentrant):
    rule = RULES["windowed"]
    op = operator(rule, backend)
    plain = call_of(rule).leaves()
    again = plain.leaves()
    names = list(plain.arguments)

    def run(*tensors):
        y, state = op(**dict(zip(names, tensors)), output_final_state=True)
        return y, state.memory["M"]

    for call, wrap in ((plain, False), (again, True)):
        values = tuple(call.arguments.values())
        y, memory = checkpoint(run, *values, use_reentrant=reentrant) if wrap else run(*values)
        (y.square().sum() + memory.sum()).backward()
    for argument, tensor in plain.arguments.items():
        assert torch.equal(tensor.grad, again.arguments[argument].grad)


@each_backend
def test_backward_twice_with_the_graph_retained(backend):
    rule = RULES["windowed"]
    call = call_of(rule).leaves()
    y, _ = call(operator(rule, backend))
    first = torch.autograd.grad(y.sum(), call.arguments["k"], retain_graph=True)[0]
    second = torch.autograd.grad(y.sum(), call.arguments["k"])[0]
    assert torch.equal(first, second)


@each_backend
def test_second_derivatives_are_refused(backend):
    rule = RULES["gated"]
    call = call_of(rule).leaves()
    y, _ = call(operator(rule, backend))
    (gradient,) = torch.autograd.grad(y.square().sum(), call.arguments["k"], create_graph=True)
    with pytest.raises(NotImplementedError, match="second derivatives.*backend='reference'"):
        gradient.sum().backward()


def test_the_reference_has_second_derivatives():
    rule = RULES["gated"]
    call = call_of(rule, tokens=3).leaves()
    y, _ = call(operator(rule, "reference"))
    (gradient,) = torch.autograd.grad(y.square().sum(), call.arguments["k"], create_graph=True)
    gradient.square().sum().backward()
    assert call.arguments["v"].grad.abs().max() > 0


def of_keys(backend, tokens=3):
    """A rule as a function of its keys alone, and keys."""
    call = call_of(RULES["gated"], tokens=tokens)
    op = operator(RULES["gated"], backend)
    return lambda keys: op(**{**call.arguments, "k": keys})[0], call.arguments["k"]


def dual(function, keys):
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(function(forward_ad.make_dual(keys, keys))).tangent


def jvp(function, keys):
    return torch.func.jvp(function, (keys,), (keys,))[1]


def derivative(function, keys):
    return torch.func.grad(lambda keys: function(keys).sum())(keys)


def rows(function):
    """The function of keys with a batch of calls before them."""
    return lambda keys: torch.vmap(function)(torch.stack([keys, keys]))


FORWARD = {
    "jvp": jvp,
    "dual tensors": dual,
    "jacfwd": lambda function, keys: torch.func.jacfwd(function)(keys),
    "jvp of vmap": lambda function, keys: jvp(rows(function), keys),
    "dual of vmap": lambda function, keys: dual(rows(function), keys),
    "jvp beyond grad": lambda function, keys: jvp(
        lambda keys: torch.func.grad(lambda scale: (scale * function(keys)).sum())(torch.ones(())), keys
    ),
}


@each_backend
@pytest.mark.parametrize("mode", FORWARD)
def test_forward_mode_is_refused(backend, mode):
    function, keys = of_keys(backend)
    with pytest.raises(NotImplementedError, match="forward-mode.*backend='reference'"):
        FORWARD[mode](function, keys)


@each_backend
def test_derivatives_of_function_transforms_are_refused(backend):
    function, keys = of_keys(backend)
    transforms = (
        derivative,
        lambda f, k: torch.func.vjp(f, k),
        lambda f, k: torch.func.jacrev(f)(k),
        lambda f, k: torch.func.hessian(lambda k: f(k).sum())(k),
    )
    for transform in transforms:
        with pytest.raises(NotImplementedError, match="torch.func.grad.*backend='reference'"):
            transform(function, keys)


@each_backend
def test_calls_beside_a_function_transform_pass(backend):
    """Inputs that carry no derivative are served inside a transform and a dual level."""
    function, keys = of_keys(backend)
    expected = function(keys)
    with forward_ad.dual_level():
        assert torch.equal(function(keys), expected)
    _, found = torch.func.jvp(lambda scale: scale * function(keys), (torch.ones(()),), (torch.ones(()),))
    assert torch.equal(found, expected)
    found = torch.func.grad(lambda scale: (scale * function(keys)).sum())(torch.ones(()))
    assert torch.allclose(found, expected.sum())


@each_backend
@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_a_batch_of_calls(backend):
    function, keys = of_keys(backend)
    found = torch.vmap(function)(torch.stack([keys, 2 * keys]))
    assert torch.equal(found, torch.stack([function(keys), function(2 * keys)]))


def test_the_reference_serves_function_transforms():
    function, keys = of_keys("reference")
    tangents = [jvp(function, keys), dual(function, keys)]
    step = 1e-3
    difference = (function(keys * (1 + step)) - function(keys * (1 - step))) / (2 * step)
    for tangent in tangents:
        close(tangent, difference, 1e-2)
    leaf = keys.clone().requires_grad_()
    expected = torch.autograd.grad(function(leaf).sum(), leaf)[0]
    close(derivative(function, keys), expected)


@each_backend
def test_copies_and_pickles_share_the_program(backend):
    rule = RULES["windowed"]
    op = operator(rule, backend)
    call = call_of(rule)
    expected, _ = call(op)
    module = torch.nn.Module()
    module.operator = op
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    for copied in (
        copy.deepcopy(op),
        pickle.loads(pickle.dumps(op)),
        copy.deepcopy(module).operator,
        torch.load(file, weights_only=False).operator,
    ):
        assert torch.equal(call(copied)[0], expected)
        program = copied._programs.for_tensor(expected)
        assert program is op._programs.for_tensor(expected)


def test_a_renamed_rule_shares_the_program():
    import dataclasses

    rule = RULES["gated"]
    other = atlasgen.compile(dataclasses.replace(rule, name="other"), "naive")
    first = operator(rule, "naive")._programs.for_tensor(torch.zeros(()))
    assert other._programs.for_tensor(torch.zeros(())) is first


@each_backend
def test_meta_tensors_give_shapes(backend):
    rule = RULES["windowed"]
    call = call_of(rule, query_heads=4)
    for name, tensor in call.arguments.items():
        call.arguments[name] = tensor.to("meta")
    y, state = call(operator(rule, backend), output_final_state=True)
    assert y.is_meta and y.shape == (2, 7, 4, 6)
    assert state.memory["M"].shape == (2, 2, 4, 6)


@each_backend
def test_the_operator_reads_no_autocast(backend):
    """Inside the operator float32 products stay float32, also when q, k, v come as they are."""
    rule = RULES["windowed"]
    op = operator(rule, backend)
    call = call_of(rule)
    inside = [call.arguments[name].bfloat16() for name in ("q", "k", "v")]
    for name, tensor in zip("qkv", inside):
        call.arguments[name] = tensor
    expected, _ = call(op)
    with torch.autocast("cpu", torch.bfloat16):
        found, _ = call(op)
    assert torch.equal(found, expected)


def test_importing_the_package_loads_no_torch():
    code = "import atlasgen, sys; sys.exit('torch' in sys.modules or 'triton' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0

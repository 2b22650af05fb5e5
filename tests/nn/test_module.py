"""The layer as a torch module: copies, files, devices, dtypes, autocast, checkpoints, compilation."""

import copy
import io
import pickle

import pytest
import torch
from torch.utils import _pytree
from torch.utils.checkpoint import checkpoint

from atlasgen.nn import LayerState, MemoryBlock, MemoryLayer, layer_class
from tests.nn.support import OWN, close, gradients, layer_of


@pytest.mark.parametrize("called", [False, True])
@pytest.mark.parametrize("name", ["omeganet_linear", "every_gate"])
def test_copies_and_files(name: str, called: bool) -> None:
    layer, x = layer_of(name), torch.randn(1, 5, 16)
    if called:
        layer(x).sum().backward()
    expected = layer(x)
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    fresh = layer_of(name)
    fresh.load_state_dict(layer.state_dict())
    for other in (
        copy.deepcopy(layer),
        pickle.loads(pickle.dumps(layer)),
        torch.load(file, weights_only=False),
        fresh,
    ):
        assert torch.equal(other(x), expected)
        assert not {id(p) for p in other.parameters()} & {id(p) for p in layer.parameters()}


def test_objects_of_a_layer_class_can_be_copied_wherever_the_class_is() -> None:
    made = layer_class("omeganet_linear", "some.package")
    assert made is layer_class("omeganet_linear", "some.package")
    layer, x = made(16, 2), torch.randn(1, 5, 16)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert type(other) is made and torch.equal(other(x), layer(x))

    class Own(made):  # type: ignore[valid-type, misc]
        pass

    own = copy.deepcopy(Own(16, 2))
    assert type(own) is Own


def test_a_state_is_a_pytree() -> None:
    _, state = layer_of("every_gate")(torch.randn(2, 5, 16), output_state=True)
    leaves, spec = _pytree.tree_flatten(state)
    assert len(leaves) == 1 + len(state.memory.tensors())
    again = _pytree.tree_unflatten(leaves, spec)
    assert isinstance(again, LayerState)
    close(again, state, 0)
    close(state[[1, 0]][1], state[0], 0)
    close(state.clone(), state, 0)
    assert len(state) == 2 and len(state[-1]) == 1
    assert state.to("meta").memory.memory["M"].is_meta
    with pytest.raises(TypeError, match="float32"):
        state.to(torch.bfloat16)


def test_a_call_leaves_the_given_state_alone() -> None:
    layer, x = layer_of("omeganet_linear"), torch.randn(1, 5, 16)
    with torch.no_grad():
        _, state = layer(x, output_state=True)
        kept = state.clone()
        _, after = layer(x, state, output_state=True)
    close(state, kept, 0)
    memory = {tensor.data_ptr() for tensor in _pytree.tree_leaves(state)}
    assert not memory & {tensor.data_ptr() for tensor in _pytree.tree_leaves(after)}


def test_meta_device_and_back() -> None:
    layer = MemoryLayer(OWN["every_gate"], 16, 2, backend="torch", device="meta")
    y, state = layer(torch.empty(2, 5, 16, device="meta"), output_state=True)
    assert y.is_meta and y.shape == (2, 5, 16) and state.conv.is_meta
    layer.to_empty(device="cpu").reset_parameters()
    torch.manual_seed(3)
    layer.reset_parameters()
    assert all(torch.isfinite(parameter).all() for parameter in layer.parameters())
    assert torch.isfinite(layer(torch.randn(2, 5, 16))).all()
    assert layer_of("omeganet_linear").to("meta").gates["lr"].bias.is_meta


@pytest.mark.parametrize("dtype, bar", [(torch.bfloat16, 5e-2), (torch.float16, 1e-2)])
def test_a_cast_layer(dtype: torch.dtype, bar: float) -> None:
    layer, x = layer_of("omeganet_linear"), torch.randn(2, 70, 16)
    expected = layer(x)
    cast = copy.deepcopy(layer).to(dtype)
    y, state = cast(x.to(dtype), output_state=True)
    assert y.dtype == dtype and state.conv.dtype == dtype
    assert state.memory.memory["M"].dtype == torch.float32
    close(y.float(), expected, bar)
    y.float().square().sum().backward()
    assert all(p.grad is not None and p.grad.dtype == p.dtype for p in cast.parameters())


def test_autocast_and_its_gradients() -> None:
    layer, x = layer_of("omeganet_linear"), torch.randn(2, 70, 16)
    expected = layer(x)
    expected.square().sum().backward()
    wide = gradients(layer)
    layer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        y, state = layer(x, output_state=True)
        assert y.dtype == torch.bfloat16 and state.conv.dtype == torch.bfloat16
    close(y.float(), expected, 5e-2)
    y.float().square().sum().backward()
    for name, gradient in gradients(layer).items():
        assert gradient.dtype == torch.float32
        close(gradient, wide[name], 0.15)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_changes_no_bit(reentrant: bool) -> None:
    block, x = MemoryBlock(layer_of("omeganet_linear")), torch.randn(2, 70, 16)
    results = []
    for wrapped in (False, True):
        block.zero_grad()
        inputs = x.clone().requires_grad_()
        y = checkpoint(block, inputs, use_reentrant=reentrant) if wrapped else block(inputs)
        y.square().sum().backward()
        results.append([y, inputs.grad, *gradients(block).values()])
    for plain, checkpointed in zip(*results):
        assert torch.equal(plain, checkpointed)


@pytest.mark.parametrize("name", ["omeganet_linear", "every_gate"])
def test_torch_compile_in_one_graph(name: str) -> None:
    layer = layer_of(name)

    def call(x: torch.Tensor, state: LayerState | None, mask: torch.Tensor | None) -> tuple:
        return layer(x, state, output_state=True, mask=mask)

    torch._dynamo.reset()
    compiled = torch.compile(call, fullgraph=True, backend="eager")
    for tokens in (9, 17, 70):
        x = torch.randn(2, tokens, 16)
        layer.zero_grad()
        y, state = call(x, None, None)
        y.sum().backward()
        expected = gradients(layer)
        layer.zero_grad()
        found, after = compiled(x, None, None)
        found.sum().backward()
        close((found, after), (y, state))
        close(gradients(layer), expected, 1e-4)
    close(compiled(x, state.detach(), None), call(x, state, None))
    mask = torch.ones(2, 70)
    mask[0, :7] = 0
    close(compiled(x, None, mask), call(x, None, mask))


def test_compiled_under_autocast() -> None:
    layer, x = layer_of("omeganet_linear"), torch.randn(2, 9, 16)
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="eager")
    with torch.autocast("cpu", torch.bfloat16):
        close(compiled(x).float(), layer(x).float(), 1e-2)

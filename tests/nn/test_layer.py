"""The layer's results: splits, packing, masks, heads; what its parts do."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from atlasgen import ArgumentError
from atlasgen.nn import LayerState, MemoryLayer
from tests.nn.support import OWN, SHIPPED, close, layer_of

ALL = (*SHIPPED, *OWN)


def by_hand(layer: MemoryLayer, x: Tensor) -> Tensor:
    """omeganet_linear's layer from its parameters, the operator apart."""
    rows = layer.projection(x)
    padded = functional.pad(rows, (0, 0, 3, 0))
    weight = layer.convolution.weight
    assert weight is not None and layer.output_gate is not None
    rows = sum(padded[:, j : j + x.shape[1]] * weight[:, j] for j in range(4))
    rows = functional.silu(rows).unflatten(-1, (3, 2, 8))
    q, k, v = rows.unbind(2)
    gates = {}
    for name in ("lr", "log_alpha", "gamma"):
        gate = layer.gates[name]
        gates[name] = x @ gate.down.weight.T @ gate.up.T + gate.bias
    y, _ = layer.operator(
        q / (q.square().sum(-1, keepdim=True) + 1e-6).sqrt(),
        k / (k.square().sum(-1, keepdim=True) + 1e-6).sqrt(),
        v,
        lr=0.0009 * torch.sigmoid(gates["lr"]),
        log_alpha=torch.sigmoid(gates["log_alpha"]).log(),
        gamma=torch.sigmoid(gates["gamma"]),
    )
    y = y / (y.square().mean(-1, keepdim=True) + 1e-6).sqrt() * layer.output_norm.weight
    y = y.flatten(-2) * functional.silu(layer.output_gate(x))
    return y @ layer.output.weight.T


def test_the_layer_is_what_the_rules_say() -> None:
    layer, x = layer_of("omeganet_linear"), torch.randn(2, 70, 16)
    close(layer(x), by_hand(layer, x))


@pytest.mark.parametrize("name", ALL)
def test_any_split_equals_one_call(name: str) -> None:
    layer, x = layer_of(name), torch.randn(2, 70, 16)
    y, state = layer(x, output_state=True)
    for cuts in ((0, 1, 3, 3, 70), (0, 63, 64, 70), (0, 35, 66, 70)):
        pieces, carried = [], None
        for start, end in zip(cuts, cuts[1:]):
            piece, carried = layer(x[:, start:end], carried, output_state=True)
            pieces.append(piece)
        close(torch.cat(pieces, 1), y)
        close(carried, state)


@pytest.mark.parametrize("name", ["omeganet_linear", "every_gate"])
def test_step_by_step_equals_one_call(name: str) -> None:
    layer, x = layer_of(name), torch.randn(2, 20, 16)
    y = layer(x)
    state, steps = None, []
    with torch.no_grad():
        for token in x.split(1, dim=1):
            step, state = layer(token, state, output_state=True)
            steps.append(step)
    close(torch.cat(steps, 1), y)


@pytest.mark.parametrize("name", ["omeganet_linear", "every_gate"])
def test_gradients_flow_through_the_state(name: str) -> None:
    layer, x = layer_of(name), torch.randn(2, 21, 16)
    cotangent = torch.randn(2, 21, 16)
    found = []
    for cuts in ((0, 21), (0, 2, 12, 21)):
        inputs, state, total = x.clone().requires_grad_(), None, torch.zeros(())
        for start, end in zip(cuts, cuts[1:]):
            y, state = layer(inputs[:, start:end], state, output_state=True)
            total = total + (y * cotangent[:, start:end]).sum()
        found.append(torch.autograd.grad(total, [inputs, *layer.parameters()]))
    close(found[1], found[0], 1e-4)


def test_detach_cuts_the_graph() -> None:
    layer = layer_of("omeganet_linear")
    _, state = layer(torch.randn(1, 5, 16), output_state=True)
    assert state.memory.memory["M"].requires_grad and state.conv.requires_grad
    cut = state.detach()
    assert isinstance(cut, LayerState)
    assert not any(tensor.requires_grad for tensor in (cut.conv, *cut.memory.tensors().values()))
    layer(torch.randn(1, 5, 16), cut).sum().backward()
    layer(torch.randn(1, 5, 16), cut).sum().backward()


@pytest.mark.parametrize("name", ["omeganet_linear", "every_gate", "linear_attention"])
def test_packed_sequences_equal_separate_runs(name: str) -> None:
    layer, x = layer_of(name), torch.randn(1, 60, 16)
    borders = [0, 3, 3, 40, 41, 57]
    y, state = layer(x, output_state=True, cu_seqlens=torch.tensor(borders, dtype=torch.int32))
    assert len(state) == 5
    for index, (start, end) in enumerate(zip(borders, borders[1:])):
        alone, kept = layer(x[:, start:end], output_state=True)
        close(y[:, start:end], alone)
        close(state[index], kept)
    assert torch.equal(y[:, 57:], torch.zeros(1, 3, 16))
    again, _ = layer(x, state, output_state=True, cu_seqlens=torch.tensor(borders))
    close(again[:, 3:40], layer(x[:, 3:40], state[2]))


@pytest.mark.parametrize("name", ["omeganet_linear", "every_gate"])
def test_a_packed_sequence_never_sees_another(name: str) -> None:
    layer, x = layer_of(name), torch.randn(1, 60, 16)
    borders = torch.tensor([0, 37, 60])
    changed = x.clone()
    changed[:, :37] = torch.randn(1, 37, 16) * 10
    with torch.no_grad():
        before, after = layer(x, cu_seqlens=borders), layer(changed, cu_seqlens=borders)
    assert torch.equal(before[:, 37:], after[:, 37:])
    assert not torch.equal(before[:, :37], after[:, :37])


@pytest.mark.parametrize("name", ["omeganet_linear", "every_gate"])
@pytest.mark.parametrize("batch", [1, 2])
def test_padding_on_the_left_changes_nothing(name: str, batch: int) -> None:
    layer, x = layer_of(name), torch.randn(batch, 40, 16)
    pads = [5, 17][:batch]
    mask = torch.ones(batch, 40, dtype=torch.int64)
    for row, pad in enumerate(pads):
        mask[row, :pad] = 0
        x[row, :pad] = float("nan")
    y, state = layer(x, output_state=True, mask=mask)
    for row, pad in enumerate(pads):
        alone, kept = layer(x[row : row + 1, pad:], output_state=True)
        close(y[row : row + 1, pad:], alone)
        close(state[row], kept)
        assert torch.equal(y[row, :pad], torch.zeros(pad, 16))
    step = torch.randn(batch, 1, 16)
    close(layer(step, state)[:1], layer(step[:1], state[0]))


def test_padding_gets_no_gradient_and_gives_none() -> None:
    layer, x = layer_of("omeganet_linear"), torch.randn(2, 12, 16, requires_grad=True)
    mask = torch.tensor([[0] * 4 + [1] * 8, [1] * 5 + [0, 0] + [1] * 5])
    layer(x, mask=mask).square().sum().backward()
    assert x.grad is not None and torch.isfinite(x.grad).all()
    assert torch.equal(x.grad[mask == 0], torch.zeros(6, 16))
    assert (x.grad[mask == 1].abs().sum(-1) > 0).all()


def test_borders_win_over_a_mask_of_ones() -> None:
    layer, x = layer_of("omeganet_linear"), torch.randn(1, 6, 16)
    y = layer(x, mask=torch.ones(1, 6), cu_seqlens=torch.tensor([0, 3, 6]))
    close(y, torch.cat([layer(x[:, :3]), layer(x[:, 3:])], 1))
    holes = torch.tensor([[1, 1, 0, 0, 1, 1]])
    y = layer(x, mask=holes, cu_seqlens=torch.tensor([0, 3, 6]))
    close(y[:, [0, 1, 4, 5]], torch.cat([layer(x[:, :2]), layer(x[:, 4:])], 1))


@pytest.mark.parametrize("keys, queries", [(1, None), (2, None), (2, 8), (4, 2), (4, 8)])
def test_heads_in_groups(keys: int, queries: int | None) -> None:
    options = {"num_key_heads": keys, "num_query_heads": queries, "key_size": 8, "value_size": 6}
    layer, x = layer_of("omeganet_linear", heads=4, **options), torch.randn(2, 9, 16)
    y, state = layer(x, output_state=True)
    assert y.shape == x.shape
    assert state.memory.memory["M"].shape == (2, 4, 8, 6)
    channels = (keys + (queries or keys)) * 8 + 4 * 6
    assert state.conv.shape == (2, 3, channels)
    y.sum().backward()


@pytest.mark.parametrize("tokens", [0, 1, 2, 3])
@pytest.mark.parametrize("batch", [0, 2])
def test_tiny_and_empty_calls(tokens: int, batch: int) -> None:
    layer = layer_of("omeganet_linear")
    x = torch.randn(batch, tokens, 16, requires_grad=True)
    y, state = layer(x, output_state=True)
    assert y.shape == x.shape and state.conv.shape == (batch, 3, 48)
    (y.sum() + state.conv.sum()).backward()
    assert x.grad is not None and x.grad.shape == x.shape


def test_options_of_the_layer_section() -> None:
    bare = layer_of("omeganet_linear", conv=0, qk_norm="none", activation="none", output_gate=False)
    assert bare.output_gate is None and bare.convolution.weight is None
    x = torch.randn(2, 5, 16)
    y, state = bare(x, output_state=True)
    assert state.conv.shape == (2, 0, 48)
    q, k, v = bare.projection(x).unflatten(-1, (3, 2, 8)).unbind(2)
    gates = {name: gate(x) for name, gate in bare.gates.items()}
    read, _ = bare.operator(q, k, v, **gates)
    close(y, bare.output(bare.output_norm(read).flatten(-2)))
    assert layer_of("linear_attention").qk_norm == "none"
    rms = layer_of("omeganet_linear", qk_norm="rms")
    close(rms._normalised(torch.full((1, 1, 1, 8), 3.0)), torch.ones(1, 1, 1, 8), 1e-6)


@pytest.mark.parametrize(
    "arguments, argument",
    [
        ({"num_heads": 0}, "num_heads"),
        ({"num_heads": 4, "num_key_heads": 3}, "num_key_heads"),
        ({"num_heads": 4, "num_query_heads": 6}, "num_query_heads"),
        ({"num_heads": 2, "qk_norm": "layer"}, "qk_norm"),
        ({"num_heads": 2, "activation": "relu"}, "activation"),
        ({"num_heads": 2, "backend": "metal"}, "backend"),
    ],
)
def test_wrong_sizes_and_options_are_refused(arguments: dict, argument: str) -> None:
    with pytest.raises(ArgumentError, match=f"argument {argument}"):
        MemoryLayer("omeganet_linear", 16, **arguments)


def test_wrong_calls_are_refused() -> None:
    layer, x = layer_of("omeganet_linear"), torch.randn(2, 5, 16)
    for arguments, argument in (
        ((x[0],), "x"),
        ((x[..., :8],), "x"),
        ((x, torch.zeros(2)), "state"),
        ((x, layer(x[:1], output_state=True)[1]), "state.conv"),
    ):
        with pytest.raises(ArgumentError, match=f"argument {argument}"):
            layer(*arguments)
    for options, argument in (
        ({"mask": torch.ones(2, 6)}, "mask"),
        ({"cu_seqlens": torch.tensor([0, 5])}, "cu_seqlens"),
        ({"cu_seqlens": [0, 5]}, "cu_seqlens"),
    ):
        with pytest.raises(ArgumentError, match=f"argument {argument}"):
            layer(x, **options)


def test_token_numbers_are_no_input() -> None:
    layer = layer_of("omeganet_linear")
    with pytest.raises(ArgumentError, match=r"argument x .*torch.int64.*not floating point.*Embedding"):
        layer(torch.zeros(1, 5, 16, dtype=torch.int64))

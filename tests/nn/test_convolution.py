"""The short convolution and its state, also for calls shorter than its width."""

import pytest
import torch
from torch import Tensor

from atlasgen import ArgumentError
from atlasgen.nn import ShortConvolution
from atlasgen.runtime.layout import packing_of


def by_definition(x: Tensor, state: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Token by token: y_t = sum_j weight[:, j] x_{t - width + 1 + j}."""
    rows = list(state.unbind(1))
    width, y = weight.shape[1], []
    for token in x.unbind(1):
        rows.append(token)
        y.append(sum(weight[:, j] * rows[len(rows) - width + j] for j in range(width)))
    kept = rows[len(rows) - width + 1 :] if width > 1 else []
    after = torch.stack(kept, 1) if kept else state
    return (torch.stack(y, 1) if y else x), after


@pytest.mark.parametrize("tokens", [0, 1, 2, 3, 4, 9])
@pytest.mark.parametrize("width", [1, 2, 4])
def test_values_and_gradients_follow_the_definition(tokens: int, width: int) -> None:
    module = ShortConvolution(5, width, dtype=torch.float64)
    leaves = [torch.randn(2, tokens, 5), torch.randn(2, width - 1, 5)]
    cotangents = [torch.randn(2, tokens, 5).double(), torch.randn(2, width - 1, 5).double()]
    results = []
    for function in (
        lambda x, state: module(x, state),
        lambda x, state: by_definition(x, state, module.weight),
    ):
        x, state = (leaf.double().requires_grad_() for leaf in leaves)
        outputs = function(x, state)
        total = sum((out * cotangent).sum() for out, cotangent in zip(outputs, cotangents))
        found = torch.autograd.grad(total, [x, state, module.weight], allow_unused=True)
        zeros = [torch.zeros_like(tensor) for tensor in (x, state, module.weight)]
        results.append([*outputs, *(g if g is not None else z for g, z in zip(found, zeros))])
    for found, expected in zip(*results):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_without_a_state_the_past_is_zero() -> None:
    module = ShortConvolution(3, 4)
    x = torch.randn(2, 5, 3)
    zero = torch.zeros(2, 3, 3)
    torch.testing.assert_close(module(x), module(x, zero), rtol=0, atol=0)


def test_packed_sequences_equal_separate_ones() -> None:
    module = ShortConvolution(3, 4)
    borders = torch.tensor([0, 0, 1, 3, 9, 9])
    x, state = torch.randn(1, 11, 3), torch.randn(5, 3, 3)
    y, after = module(x, state, packing_of(borders, 11, check=True))
    for index, (start, end) in enumerate(zip(borders.tolist(), borders.tolist()[1:])):
        alone, kept = module(x[:, start:end], state[index : index + 1])
        torch.testing.assert_close(y[:, start:end], alone, rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(after[index : index + 1], kept, rtol=0, atol=0)
    assert torch.equal(y[:, 9:], torch.zeros(1, 2, 3))


def test_width_zero_is_the_identity() -> None:
    module = ShortConvolution(3, 0)
    x = torch.randn(2, 5, 3)
    y, after = module(x)
    assert torch.equal(y, x) and after.shape == (2, 0, 3)
    assert not list(module.parameters())


def test_a_state_of_another_shape_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"state\.conv.*\[2, 3, 5\]"):
        ShortConvolution(5, 4)(torch.randn(2, 3, 5), torch.zeros(1, 3, 5))

"""The short causal convolution before the memory, with a state of its own."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from atlasgen.errors import ArgumentError
from atlasgen.runtime.layout import Packing, last_rows

PIECE, MOST_PIECES = 128, 64  # rows; a piece is larger where there were too many


class ShortConvolution(nn.Module):
    """A causal depthwise convolution over tokens: y_t = sum_j weight[:, j] x_{t - width + 1 + j}.

    Tokens before the sequence's start are 0. The state is the last width - 1 inputs; a call shorter
    than that keeps the older rows of the state it was given. Width 0 is the identity.
    """

    def __init__(
        self,
        channels: int,
        width: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.channels, self.width = channels, width
        self.weight: nn.Parameter | None = None
        if width > 0:
            self.weight = nn.Parameter(torch.empty(channels, width, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform within 1/sqrt(width), as torch's own convolutions start."""
        if self.weight is not None:
            bound = 1 / math.sqrt(self.width)
            nn.init.uniform_(self.weight, -bound, bound)

    def forward(
        self, x: Tensor, state: Tensor | None = None, packing: Packing | None = None
    ) -> tuple[Tensor, Tensor]:
        """x [B, T, channels] and a state [N, width - 1, channels] or None -> y like x, next state.

        packing: that of N sequences packed in x, B = 1; without it N = B. The state has x's dtype.
        Raises ArgumentError for a state that does not fit.
        """
        rows = x if packing is None else packing.pad(x)
        before = self._before(rows, state)
        length = None if packing is None else packing.length
        after = last_rows(before, rows, length) if self.width > 1 else before.clone()
        if self.weight is None:
            return x, after
        if rows.numel() == 0:
            return x * self.weight.sum(), after
        y = _Convolution.apply(rows, None if state is None or self.width == 1 else before, self.weight)
        assert isinstance(y, Tensor)
        return (y if packing is None else packing.unpad(y)), after

    def _before(self, rows: Tensor, state: Tensor | None) -> Tensor:
        """The width - 1 rows before the first of `rows` [N, T, channels]."""
        shape = (rows.shape[0], max(self.width - 1, 0), self.channels)
        if state is None:
            return rows.new_zeros(shape)
        if tuple(state.shape) != shape:
            raise ArgumentError(
                "state.conv",
                "wrong shape",
                value=list(state.shape),
                allowed=f"[sequences, width - 1, channels] = {list(shape)}",
                suggestion="pass the state of a former call of this layer with as many sequences",
            )
        return state.to(rows.dtype)

    def extra_repr(self) -> str:
        return f"{self.channels}, width={self.width}"


class _Convolution(torch.autograd.Function):
    """Rows [N, T, channels] and those before them under a weight [channels, width] -> [N, T, channels].

    before: [N, width - 1, channels], or None where they are 0. Shifted rows times their channels' weights
    are added up, without a change of layout and at least in float32. The backward consists of operations
    that are themselves differentiable.
    """

    @staticmethod
    def forward(rows: Tensor, before: Tensor | None, weight: Tensor) -> Tensor:
        x, past, taps = _widened(rows, before, weight)
        y = x * taps[0]
        for shift in range(1, taps.shape[0]):
            y[:, shift:].addcmul_(x[:, : max(x.shape[1] - shift, 0)], taps[shift])
            if past is not None:
                y[:, :shift].addcmul_(past[:, _reached(past, x, shift)], taps[shift])
        return y.to(rows.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        rows, before, weight = ctx.saved_tensors
        x, past, taps = _widened(rows, before, weight)
        d_y = gradients[0].to(x.dtype).contiguous()
        d_x, d_past = d_y * taps[0], None if past is None else torch.zeros_like(past)
        d_taps = [_summed_product(d_y, x)]
        for shift in range(1, taps.shape[0]):
            inside = max(x.shape[1] - shift, 0)
            d_x[:, :inside].addcmul_(d_y[:, shift:], taps[shift])
            d_tap = _summed_product(d_y[:, shift:], x[:, :inside])
            if past is not None and d_past is not None:
                reached = _reached(past, x, shift)
                d_past[:, reached].addcmul_(d_y[:, :shift], taps[shift])
                d_tap = d_tap + (d_y[:, :shift] * past[:, reached]).sum((0, 1))
            d_taps.append(d_tap)
        d_weight = torch.stack(d_taps[::-1], 1).to(weight.dtype)
        return d_x.to(rows.dtype), None if d_past is None else d_past.to(rows.dtype), d_weight


def _summed_product(left: Tensor, right: Tensor) -> Tensor:
    """[N, T, channels] twice -> [channels]: the sum over all rows of their product.

    On CPUs piece by piece in one small array: an array of all products would not stay in the cache.
    """
    if torch.compiler.is_compiling() or left.device.type != "cpu":
        return (left * right).sum((0, 1))
    piece = max(PIECE, left.shape[1] // MOST_PIECES)
    total = torch.zeros_like(left[:, :piece])
    for one, other in zip(left.split(piece, 1), right.split(piece, 1)):
        total[:, : one.shape[1]].addcmul_(one, other)
    return total.sum((0, 1))


def _widened(rows: Tensor, before: Tensor | None, weight: Tensor) -> tuple[Tensor, Tensor | None, Tensor]:
    """All in at least float32; the weight as [width, channels], that of the row itself first."""
    dtype = torch.promote_types(rows.dtype, torch.float32)
    past = None if before is None else before.to(dtype)
    return rows.to(dtype), past, weight.to(dtype).t().flip(0).contiguous()


def _reached(past: Tensor, rows: Tensor, shift: int) -> slice:
    """The rows of the past that stand `shift` before the first `rows`."""
    first = past.shape[1] - shift
    return slice(first, first + min(shift, rows.shape[1]))

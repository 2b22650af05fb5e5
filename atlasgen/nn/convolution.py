"""The short causal convolution before the memory, with a state of its own."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from atlasgen.errors import ArgumentError
from atlasgen.runtime.layout import Packing, last_rows


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
        y = _convolved(torch.cat([before, rows], dim=1), self.weight)
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


def _convolved(rows: Tensor, weight: Tensor) -> Tensor:
    """Rows [N, width - 1 + T, channels] under a weight [channels, width] -> [N, T, channels]."""
    y = functional.conv1d(rows.transpose(1, 2), weight.unsqueeze(1), groups=weight.shape[0])
    return y.transpose(1, 2)

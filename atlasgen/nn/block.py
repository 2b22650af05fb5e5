"""A residual block around a memory layer: the memory, then a feed-forward network."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from atlasgen.nn.layer import MemoryLayer
from atlasgen.nn.norms import RMSNorm
from atlasgen.nn.state import LayerState


class SwiGLU(nn.Module):
    """x -> down(silu(gate(x)) * up(x)), hidden_size -> mlp_size -> hidden_size."""

    def __init__(
        self,
        hidden_size: int,
        mlp_size: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        factory: dict[str, Any] = {"bias": False, "device": device, "dtype": dtype}
        # gate and up in one product.
        self.widen = nn.Linear(hidden_size, 2 * mlp_size, **factory)
        self.narrow = nn.Linear(mlp_size, hidden_size, **factory)

    def forward(self, x: Tensor) -> Tensor:
        """[..., hidden_size] -> [..., hidden_size]."""
        gate, up = self.widen(x).chunk(2, dim=-1)
        return self.narrow(functional.silu(gate) * up)


class MemoryBlock(nn.Module):
    """x + Layer(RMSNorm(x)), then x + SwiGLU(RMSNorm(x)).

    layer: any MemoryLayer; its hidden_size is the block's. mlp_size: the feed-forward network's
    width, default 8/3 of hidden_size rounded up to a multiple of 16.
    """

    def __init__(
        self,
        layer: MemoryLayer,
        mlp_size: int | None = None,
        *,
        norm_eps: float = 1e-6,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        size = layer.hidden_size
        wide = -(-size * 8 // 48) * 16 if mlp_size is None else mlp_size
        self.layer_norm = RMSNorm(size, norm_eps, device, dtype)
        self.layer = layer
        self.mlp_norm = RMSNorm(size, norm_eps, device, dtype)
        self.mlp = SwiGLU(size, wide, device, dtype)

    def forward(
        self,
        x: Tensor,
        state: LayerState | None = None,
        *,
        output_state: bool = False,
        cu_seqlens: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Any:
        """x [B, T, hidden_size] -> y of the same shape, or (y, LayerState) with output_state.

        Arguments as those of MemoryLayer.forward.
        """
        y, after = self.layer(self.layer_norm(x), state, output_state=True, cu_seqlens=cu_seqlens, mask=mask)
        x = x + y
        x = x + self.mlp(self.mlp_norm(x))
        return (x, after) if output_state else x

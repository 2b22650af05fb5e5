"""Norms over the last dimension: computed in float32, returned in the input's dtype."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def unit_rms(x: Tensor, eps: float = 1e-6) -> Tensor:
    """x over its root mean square along the last dimension; a zero row stays zero."""
    wide = x.to(torch.float32)
    scale = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + eps)
    return (wide * scale).to(x.dtype)


def unit_length(x: Tensor, eps: float = 1e-6) -> Tensor:
    """x over its Euclidean norm along the last dimension; a zero row stays zero, with a finite slope."""
    wide = x.to(torch.float32)
    scale = torch.rsqrt(wide.square().sum(dim=-1, keepdim=True) + eps)
    return (wide * scale).to(x.dtype)


class RMSNorm(nn.Module):
    """weight * x / rms(x) over the last dimension of `size`, any leading dimensions."""

    def __init__(
        self,
        size: int,
        eps: float = 1e-6,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.empty(size, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets every weight to 1."""
        nn.init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        """[..., size] -> [..., size] in x's dtype."""
        wide = x.to(torch.float32)
        scale = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + self.eps)
        return (wide * scale * self.weight.to(torch.float32)).to(x.dtype)

    def extra_repr(self) -> str:
        return f"{self.weight.shape[0]}, eps={self.eps:g}"

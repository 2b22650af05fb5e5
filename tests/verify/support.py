"""A reader's own torch code for a rule, in many variants, written from the equations alone."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional


def omega(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    lr: Tensor,
    gamma: Tensor,
    log_alpha: Tensor,
    *,
    block: int = 4,
    window: int = 3,
    pre: bool = False,
    scale: float = 1.0,
    factor: float = 1.0,
    boundary: str = "halo",
    mean: bool = False,
    decay: bool = True,
    decay_last: bool = False,
) -> tuple[Tensor, Tensor]:
    """The Omega rule with an l2 loss and a matrix memory, token by token. y, and M [B, H, K, V]."""
    batch, tokens, heads, keys = q.shape
    memory = torch.zeros(batch, heads, keys, v.shape[-1], dtype=v.dtype)
    point, points, reads = memory, [], []
    for t in range(tokens):
        if t % block == 0:
            point = memory
        points.append(point)
        gradient, total = torch.zeros_like(memory), torch.zeros_like(gamma[:, t])
        for i in range(max(0, t - window + 1), t + 1):
            if boundary == "truncate" and i < t // block * block:
                continue
            at = points[i] if boundary == "carry" else point
            error = factor * (torch.einsum("bhk,bhkv->bhv", k[:, i], at) - v[:, i])
            gradient = gradient + torch.einsum("bh,bhk,bhv->bhkv", gamma[:, i], k[:, i], error)
            total = total + gamma[:, i]
        if mean:
            gradient = gradient / total[..., None, None]
        before = memory
        kept = log_alpha[:, t].exp()[..., None, None] if decay else 1.0
        step = lr[:, t][..., None, None] * gradient
        memory = kept * (memory - step) if decay_last else kept * memory - step
        reads.append(scale * torch.einsum("bhk,bhkv->bhv", q[:, t], before if pre else memory))
    return torch.stack(reads, 1), memory


def two_layers(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    lr: Tensor,
    initial_memory: dict[str, Tensor],
    *,
    act: Callable[[Tensor], Tensor] = functional.gelu,
    block: int = 4,
    residual: bool = True,
) -> tuple[Tensor, dict[str, Tensor]]:
    """x + W2 s(W1 x) under an l2 loss, gradients taken at each block's start. y, and the weights by name."""
    batch = q.shape[0]
    weights = {name: weight.expand(batch, *weight.shape) for name, weight in initial_memory.items()}

    def read(own: dict[str, Tensor], x: Tensor) -> Tensor:
        hidden = act(torch.einsum("bhk,bhkm->bhm", x, own["W1"]))
        out = torch.einsum("bhm,bhmv->bhv", hidden, own["W2"])
        return out + x if residual else out

    def loss(own: dict[str, Tensor], x: Tensor, target: Tensor) -> Tensor:
        return 0.5 * (read(own, x) - target).square().sum()

    reads, start = [], weights
    for t in range(q.shape[1]):
        start = weights if t % block == 0 else start
        slopes = torch.func.grad(loss)(start, k[:, t], v[:, t])
        step = lr[:, t, :, None, None]
        weights = {name: weight - step * slopes[name] for name, weight in weights.items()}
        reads.append(read(weights, q[:, t]))
    return torch.stack(reads, 1), weights

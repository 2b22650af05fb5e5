"""Rules with deep memories: operators, inputs, and ATLAS as one would write it in torch."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import gelu, normalize

import atlasgen
from atlasgen.runtime.operator import MemoryOperator
from atlasgen.spec.load import load_rule, rule_from_table
from atlasgen.spec.rule import MemoryRule
from benchmarks.cpu_sections.measure import agree, both_of, compared, forward_of

BATCH, HEADS, WINDOW, BLOCK = 1, 4, 16, 64
TRIPLES = ((3.4445, -4.7750, 2.0315),) * 5
TITANS = load_rule("titans")
# titans-pytorch's memory decays to zero.
TITANS_TO_ZERO = rule_from_table(
    {"rule": "titans_to_zero", "extends": "titans", "retention": {"toward": "zero"}}
)
ATLAS = load_rule("atlas")


def operator_of(rule: MemoryRule, checkpoint_every: int | None = None) -> MemoryOperator:
    """The torch backend's operator."""
    return atlasgen.compile(rule, backend="torch", checkpoint_every=checkpoint_every)


def memory_of(size: int) -> dict[str, Tensor]:
    """An initial memory size-4*size-size per head."""
    generator = torch.Generator().manual_seed(1)
    first = torch.randn(HEADS, size, 4 * size, generator=generator) / size**0.5
    second = torch.randn(HEADS, 4 * size, size, generator=generator) / (4 * size) ** 0.5
    return {"W1": first.requires_grad_(), "W2": second.requires_grad_()}


def problem(name: str, tokens: int, size: int) -> dict[str, Any]:
    """Inputs of "titans" or "atlas": unit keys, stable steps, horizons of about a hundred tokens."""
    generator = torch.Generator().manual_seed(0)
    rows = (BATCH, tokens, HEADS)

    def normal() -> Tensor:
        return torch.randn(*rows, size, generator=generator)

    def uniform(largest: float) -> Tensor:
        return largest * torch.rand(rows, generator=generator)

    inputs = {"q": normal() / size**0.5, "k": normalize(normal(), dim=-1), "v": normal()}
    inputs |= {"lr": uniform(1e-3), "log_alpha": uniform(-0.02), "log_theta": uniform(-0.5)}
    if name == "atlas":
        inputs |= {"gamma": uniform(1.0)}
    return {key: tensor.requires_grad_() for key, tensor in inputs.items()}


def wanted(inputs: dict[str, Any], memory: dict[str, Tensor]) -> list[Tensor]:
    """Everything that gets a gradient."""
    return [*inputs.values(), *memory.values()]


# -- ATLAS without a compiler ----------------------------------------------------------------------


def plain_newton_schulz(matrices: Tensor) -> Tensor:
    """The orthogonal factor of each matrix, as Muon writes it."""
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp_min(1e-30)
    for a, b, c in TRIPLES:
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if tall else x


def plain_decay(log: Tensor) -> tuple[Tensor, Tensor]:
    """Products of decays [.., C] since the block's start, and [.., C, C] over s < r <= t."""
    total = log.cumsum(-1)
    upper = torch.ones(log.shape[-1], log.shape[-1], dtype=torch.bool).triu(1)
    between = (total[..., :, None] - total[..., None, :]).masked_fill(upper, -torch.inf)
    return total.exp(), between.exp()


def plain_atlas(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    lr: Tensor,
    log_alpha: Tensor,
    log_theta: Tensor,
    gamma: Tensor,
    initial_memory: dict[str, Tensor],
) -> Tensor:
    """ATLAS as one would write it: a loop over blocks, S_t of all tokens of a block, autograd.

    Shapes and meaning as the operator's; the length is a multiple of the block.
    """
    q, k, v, lr, log_alpha, log_theta, gamma = (
        x.movedim(2, 1) for x in (q, k, v, lr, log_alpha, log_theta, gamma)
    )
    queries, keys = (x + 0.5 * x * x for x in (q, k))
    origin, second_origin = (initial_memory[name].expand(len(q), -1, -1, -1) for name in ("W1", "W2"))
    first, second = origin, second_origin
    speed, second_speed = torch.zeros_like(first), torch.zeros_like(second)
    reads = []
    for start in range(0, q.shape[2], BLOCK):
        block = slice(start, start + BLOCK)
        sources = slice(max(0, start - WINDOW + 1), start + BLOCK)
        # The inner gradient's factors, at the memory of the border.
        x = keys[:, :, sources]
        inner = x @ first
        hidden = gelu(inner)
        error = x + hidden @ second - v[:, :, sources]
        slope = 0.5 + 0.5 * torch.erf(inner / 2**0.5)
        slope = slope + inner * torch.exp(-0.5 * inner * inner) / (2 * math.pi) ** 0.5
        inner_error = (error @ second.mT) * slope
        # S_t, its map U_t and W_t of every token.
        since, decay = plain_decay(log_theta[:, :, block])
        age = torch.arange(BLOCK)[:, None] + start - torch.arange(sources.start, sources.stop)
        band = ((age >= 0) & (age < WINDOW)).to(q.dtype)
        weights = (decay @ band) * gamma[:, :, None, sources]
        kept, memory_decay = plain_decay(log_alpha[:, :, block])
        steps = memory_decay * lr[:, :, None, block]

        def written(
            memory: Tensor,
            origin: Tensor,
            momentum: Tensor,
            rows: Tensor,
            errors: Tensor,
            since: Tensor = since,
            weights: Tensor = weights,
            kept: Tensor = kept,
            steps: Tensor = steps,
        ) -> tuple[Tensor, Tensor]:
            speeds = since[..., None, None] * momentum[:, :, None]
            speeds = speeds + torch.einsum("bhts,bhsi,bhso->bhtio", weights, rows, errors)
            moved = torch.einsum("bhtj,bhjio->bhtio", steps, plain_newton_schulz(speeds))
            left = kept[..., None, None]
            memories = left * memory[:, :, None] + (1 - left) * origin[:, :, None]
            return memories - moved, speeds[:, :, -1]

        firsts, speed = written(first, origin, speed, x, inner_error)
        seconds, second_speed = written(second, second_origin, second_speed, hidden, error)
        read = gelu(torch.einsum("bhti,bhtio->bhto", queries[:, :, block], firsts))
        reads.append(queries[:, :, block] + torch.einsum("bhti,bhtio->bhto", read, seconds))
        first, second = firsts[:, :, -1], seconds[:, :, -1]
    return torch.cat(reads, 2).movedim(1, 2)


def atlas_section(quick: bool) -> dict[str, Any]:
    """ATLAS with Newton-Schulz at every token against `plain_atlas`."""
    tokens, rounds, sizes = (128, 1, (16,)) if quick else (1024, 3, (64, 16))
    return {title_of(size): _atlas(size, tokens, rounds if size > 16 else 3 * rounds) for size in sizes}


def title_of(size: int) -> str:
    """The sizes of the memory's layers."""
    return f"{size}-{4 * size}-{size}"


def _atlas(size: int, tokens: int, rounds: int) -> dict[str, Any]:
    """Times of both at one size, after a comparison of their results."""
    check_atlas(size)
    operator = operator_of(ATLAS)
    inputs, memory = problem("atlas", tokens, size), memory_of(size)
    functions = {
        "atlasgen": lambda: operator(**inputs, initial_memory=memory)[0],
        "plain torch": lambda: plain_atlas(**inputs, initial_memory=memory),
    }
    runs = {name: forward_of(function) for name, function in functions.items()}
    forward = compared(f"{title_of(size)} forward", "atlasgen", runs, rounds, 1)
    runs = {name: both_of(function, wanted(inputs, memory)) for name, function in functions.items()}
    return {"forward": forward, "both": compared(f"{title_of(size)} both", "atlasgen", runs, rounds, 1)}


def check_atlas(size: int) -> None:
    """Exit where the contenders' outputs or gradients differ, on two blocks."""
    inputs, memory = problem("atlas", 2 * BLOCK, size), memory_of(size)
    results = []
    for function in (operator_of(ATLAS), plain_atlas):
        y = function(**inputs, initial_memory=memory)
        y = y if isinstance(y, Tensor) else y[0]
        cotangent = torch.randn(y.shape, generator=torch.Generator().manual_seed(2))
        gradients = torch.autograd.grad(y, wanted(inputs, memory), cotangent)
        results.append([y.detach(), *gradients])
    for ours, plain in zip(*results):
        agree(("atlasgen", "plain torch"), (ours, plain), 1e-4)

"""The Omega rule with a matrix memory: against a plain torch dual form, and by length."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize, pad

import atlasgen
from benchmarks.cpu_sections.measure import agree, both_of, compared, forward_of, interleaved

BATCH, HEADS, SIZE, WINDOW, BLOCK = 1, 4, 64, 16, 64
RULE = "omeganet_linear"


def plain_dual_form(q: Tensor, k: Tensor, v: Tensor, lr: Tensor, log_alpha: Tensor, gamma: Tensor) -> Tensor:
    """The Omega rule's dual form as one would write it: blocks batched, a loop over the state only.

    Shapes and meaning as the operator's; the length is a multiple of the block.
    """
    halo, (batch, tokens, heads, size) = WINDOW - 1, q.shape
    count = tokens // BLOCK

    def rows(x: Tensor) -> Tensor:
        return x.unflatten(1, (count, BLOCK)).movedim(3, 1)

    def sources(x: Tensor) -> Tensor:
        x = pad(x, [0, 0] * (x.ndim - 2) + [halo, 0])
        return x.unfold(1, halo + BLOCK, BLOCK).movedim(-1, 2).movedim(3, 1)

    queries, keys, values, gates, rate = rows(q), sources(k), sources(v), sources(gamma), rows(lr)
    total = rows(log_alpha).cumsum(-1)
    upper = torch.ones(BLOCK, BLOCK, dtype=torch.bool).triu(1)
    decay = torch.exp((total[..., :, None] - total[..., None, :]).masked_fill(upper, -torch.inf))
    age = torch.arange(BLOCK)[:, None] - torch.arange(-halo, BLOCK)
    band = ((age >= 0) & (age < WINDOW)).to(q.dtype)
    weights = (decay * rate[..., None, :]) @ (band * gates[..., None, :])
    kept = torch.exp(total[..., -1])[..., None, None]
    written = weights[..., -1, :, None] * keys
    memory = q.new_zeros(batch, heads, size, v.shape[-1])
    memories, errors = [], []
    for key, value, decayed, write in zip(*(x.unbind(2) for x in (keys, values, kept, written))):
        error = key @ memory - value
        memories.append(memory)
        errors.append(error)
        memory = decayed * memory - write.mT @ error
    read = torch.exp(total)[..., None] * (queries @ torch.stack(memories, 2))
    read = read - ((queries @ keys.mT) * weights) @ torch.stack(errors, 2)
    return read.movedim(1, 3).flatten(1, 2)


def problem(tokens: int, gradients: bool = True) -> dict[str, Tensor]:
    """Inputs of the operator: unit keys, a stable step, a memory horizon of about a hundred tokens."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    rows = (BATCH, tokens, HEADS)
    inputs = {
        "q": normal(*rows, SIZE) / SIZE**0.5,
        "k": normalize(normal(*rows, SIZE), dim=-1),
        "v": normal(*rows, SIZE),
        "lr": 0.0009 * torch.rand(rows, generator=generator),
        "log_alpha": -0.02 * torch.rand(rows, generator=generator),
        "gamma": torch.rand(rows, generator=generator),
    }
    return {name: tensor.requires_grad_(gradients) for name, tensor in inputs.items()}


def operator_section(quick: bool) -> dict[str, Any]:
    """The operator alone against the plain dual form."""
    tokens, rounds = (128, 2) if quick else (1024, 40)
    inputs = problem(tokens)
    operator = atlasgen.compile(RULE, backend="torch")
    functions = {
        "atlasgen": lambda: operator(**inputs)[0],
        "plain torch": lambda: plain_dual_form(**inputs),
    }
    ours, plain = (function().detach() for function in functions.values())
    agree(("atlasgen", "plain torch"), (ours, plain), 1e-5)
    wanted = list(inputs.values())
    runs = {name: forward_of(function) for name, function in functions.items()}
    found = {"forward": compared("forward", "atlasgen", runs, rounds)}
    runs = {name: both_of(function, wanted) for name, function in functions.items()}
    return {**found, "both": compared("forward + backward", "atlasgen", runs, rounds)}


def length_section(quick: bool) -> dict[str, Any]:
    """Time per token of a long sequence, as a multiple of that of a short one."""
    short, long, rounds = (128, 512, 2) if quick else (4096, 65536, 7)
    operator = atlasgen.compile(RULE, backend="torch")
    found = {}
    inputs = {tokens: problem(tokens) for tokens in (short, long)}

    def call(tokens: int) -> Callable[[], Tensor]:
        return lambda: operator(**inputs[tokens])[0]

    for title, kind in (("forward", forward_of), ("forward + backward", both_of)):
        runs = {}
        for tokens in (short, long):
            wanted = () if kind is forward_of else (list(inputs[tokens].values()),)
            runs[str(tokens)] = kind(call(tokens), *wanted)
        seconds = interleaved(runs, rounds)
        each = {tokens: [s / tokens for s in seconds[str(tokens)]] for tokens in (short, long)}
        ratio = statistics.median(b / a for a, b in zip(each[short], each[long]))
        fastest = min(each[long]) / min(each[short])
        found[title] = ratio
        print(
            f"  {title:20} time per token at T={long}: {ratio:.2f}x that at T={short} (fastest runs: "
            f"{fastest:.2f}x), {1e6 * min(each[long]):.2f} us"
        )
    return found

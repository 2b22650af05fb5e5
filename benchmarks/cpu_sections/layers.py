"""Layers, projections included, against titans-pytorch's NeuralMemory at the same sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from atlasgen.nn import MemoryLayer
from atlasgen.spec.rule import MemoryRule
from benchmarks.cpu_sections import omega
from benchmarks.cpu_sections.deep import TITANS, TITANS_TO_ZERO, operator_of
from benchmarks.cpu_sections.measure import both_of, compared, forward_of
from benchmarks.cpu_sections.omega import BATCH, BLOCK, HEADS, SIZE

HIDDEN = HEADS * SIZE


class Projections(torch.nn.Module):
    """Linears of one input, side by side: what a layer costs at least."""

    def __init__(self, linears: list[torch.nn.Linear]) -> None:
        super().__init__()
        self.linears = torch.nn.ModuleList(linears)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([linear(x) for linear in self.linears], dim=-1)


class PlainLayer(torch.nn.Module):
    """The operator between the projections that NeuralMemory has: norms, q, k, v, gates, output."""

    def __init__(self, rule: MemoryRule) -> None:
        super().__init__()
        self.operator = operator_of(rule)
        self.norm = torch.nn.RMSNorm(HIDDEN)
        self.projection = torch.nn.Linear(HIDDEN, 3 * HIDDEN, bias=False)
        self.gates = torch.nn.Linear(HIDDEN, 4 * HEADS)
        self.output = torch.nn.Linear(HIDDEN, HIDDEN, bias=False)
        sizes = {"W1": (SIZE, 4 * SIZE), "W2": (4 * SIZE, SIZE)}
        drawn = {name: torch.randn(HEADS, *size) / size[0] ** 0.5 for name, size in sizes.items()}
        self.memory = torch.nn.ParameterDict(drawn)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(x)
        q, k, v = self.projection(x).unflatten(-1, (3, HEADS, SIZE)).unbind(2)
        q, k = (torch.nn.functional.normalize(rows, dim=-1) for rows in (q, k))
        lr, alpha, theta, gate = self.gates(x).chunk(4, dim=-1)
        logsigmoid = torch.nn.functional.logsigmoid
        y, _ = self.operator(
            q,
            k,
            v,
            lr=0.001 * lr.sigmoid(),
            log_alpha=logsigmoid(alpha + 5.0),
            log_theta=logsigmoid(theta + 1.0),
            initial_memory=dict(self.memory),
        )
        return self.output((y * gate.sigmoid()[..., None]).flatten(-2))


def matrix_section(quick: bool) -> dict[str, Any]:
    """MemoryLayer against NeuralMemory with a matrix memory."""
    peers = _peers(1)
    if not peers:
        return {}
    ours = MemoryLayer(omega.RULE, hidden_size=HIDDEN, num_heads=HEADS, backend="torch")
    assert ours.output_gate is not None
    projections = [ours.projection, ours.output_gate, ours.output]
    modules = {"MemoryLayer": ours, "its projections alone": Projections(projections), **peers}
    return _compared(modules, "MemoryLayer", quick, 15)


def titans_section(quick: bool) -> dict[str, Any]:
    """Titans with a two-layer MLP against NeuralMemory of the same depth, hidden size and block."""
    peers = _peers(2)
    if not peers:
        return {}
    ours = {"titans": PlainLayer(TITANS_TO_ZERO), "titans toward the initial memory": PlainLayer(TITANS)}
    return _compared({**ours, **peers}, "titans", quick, 9)


def _peers(depth: int) -> dict[str, torch.nn.Module]:
    """NeuralMemory as it comes, without momentum or its norm, and with a memory that moves at each block."""
    try:
        from titans_pytorch import MemoryMLP, NeuralMemory
    except ImportError:
        print("  titans-pytorch is not installed: pip install 'atlasgen[bench]'")
        return {}

    def peer(**options: Any) -> NeuralMemory:
        memory = MemoryMLP(SIZE, depth=depth, expansion_factor=4.0)
        return NeuralMemory(HIDDEN, chunk_size=BLOCK, dim_head=SIZE, heads=HEADS, model=memory, **options)

    peers: dict[str, torch.nn.Module] = {"NeuralMemory": peer()}
    if depth == 1:
        return {**peers, "NeuralMemory without momentum": peer(momentum=False)}
    peers["NeuralMemory without its norm"] = peer(mem_model_norm_add_residual=False)
    # As it comes, all inner gradients are taken at the initial memory; here at that of the block's start.
    peers["NeuralMemory, M* of each block"] = peer(batch_size=BLOCK)
    return peers


def _compared(modules: dict[str, torch.nn.Module], ours: str, quick: bool, rounds: int) -> dict[str, Any]:
    """Times of all modules on the same x."""
    tokens, rounds = (128, 2) if quick else (1024, rounds)
    torch.manual_seed(0)
    x = torch.randn(BATCH, tokens, HIDDEN, requires_grad=True)

    def call(module: torch.nn.Module) -> Callable[[], Tensor]:
        def run() -> Tensor:
            result = module(x)
            return result if isinstance(result, Tensor) else result[0]

        return run

    def wanted(module: torch.nn.Module) -> list[Tensor]:
        gradients = torch.autograd.grad(call(module)().sum(), [*module.parameters()], allow_unused=True)
        used = [p for p, g in zip(module.parameters(), gradients) if g is not None]
        return [x, *used]

    runs = {name: forward_of(call(module)) for name, module in modules.items()}
    found = {"forward": compared("forward", ours, runs, rounds)}
    runs = {name: both_of(call(module), wanted(module)) for name, module in modules.items()}
    return {**found, "both": compared("forward + backward", ours, runs, rounds)}

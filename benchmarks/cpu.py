"""CPU speed of the torch backend, side by side with peers in one process.

    python benchmarks/cpu.py            all sections, about two minutes
    python benchmarks/cpu.py --quick    tiny shapes and few rounds: does it still run?
    python benchmarks/cpu.py operator decode

Sections: `operator` (omeganet_linear against a plain torch dual form under torch autograd), `layer`
(MemoryLayer against titans-pytorch's NeuralMemory, if it is installed), `length` (time per token of a long
sequence against a short one), `memory` (peak memory against the length), `decode` (one-token calls).

`layer` also runs the layer's matrix products with weights alone: no layer with these projections is faster.
`--clock process` counts processor time instead of elapsed time: on a shared machine with `--threads 1` the
figures hold still.

Contenders take turns, so that a busy machine slows all of them; a ratio is the median over rounds of the
ratio within a round, and the ratio of the fastest runs stands beside it.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize, pad

import atlasgen

BATCH, HEADS, SIZE, WINDOW, BLOCK = 1, 4, 64, 16, 64
RULE = "omeganet_linear"
Run = Callable[[], Any]
CLOCKS = {"wall": time.perf_counter, "process": time.process_time}
clock = "wall"  # which of them; set by the command line


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


def forward_of(function: Callable[[], Tensor]) -> Run:
    """A run without gradients."""

    def run() -> None:
        with torch.no_grad():
            function()

    return run


def both_of(function: Callable[[], Tensor], wanted: list[Tensor]) -> Run:
    """A run forward and backward."""
    cotangent = torch.randn(function().shape)
    return lambda: torch.autograd.grad(function(), wanted, cotangent)


def interleaved(runs: dict[str, Run], rounds: int) -> dict[str, list[float]]:
    """Seconds of each run by round; all runs take a turn in each round, after two unmeasured rounds."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(rounds + 2):
        for name, run in runs.items():
            start = CLOCKS[clock]()
            run()
            if turn >= 2:
                seconds[name].append(CLOCKS[clock]() - start)
    return seconds


def compared(title: str, ours: str, runs: dict[str, Run], rounds: int) -> dict[str, Any]:
    """Print how many times faster `ours` is than each of the other runs."""
    seconds = interleaved(runs, rounds)
    found: dict[str, Any] = {"milliseconds": {}, "times_faster_than": {}}
    for name, own in seconds.items():
        found["milliseconds"][name] = 1e3 * statistics.median(own)
        print(
            f"  {title:20} {name:34} {found['milliseconds'][name]:9.2f} ms, fastest {1e3 * min(own):.2f} ms"
        )
    for name, other in seconds.items():
        if name != ours:
            ratio = statistics.median(b / a for a, b in zip(seconds[ours], other))
            fastest = min(other) / min(seconds[ours])
            found["times_faster_than"][name] = ratio
            print(f"  {title:20} {ours} is {ratio:.2f}x as fast as {name} (fastest runs: {fastest:.2f}x)")
    return found


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
    distance = float((ours - plain).norm() / plain.norm())
    if distance > 1e-5:
        raise SystemExit(f"the contenders disagree: relative distance {distance:.1e}")
    wanted = list(inputs.values())
    runs = {name: forward_of(function) for name, function in functions.items()}
    found = {"forward": compared("forward", "atlasgen", runs, rounds)}
    runs = {name: both_of(function, wanted) for name, function in functions.items()}
    return {**found, "both": compared("forward + backward", "atlasgen", runs, rounds)}


class Projections(torch.nn.Module):
    """Linears of one input, side by side: what a layer costs at least."""

    def __init__(self, linears: list[torch.nn.Linear]) -> None:
        super().__init__()
        self.linears = torch.nn.ModuleList(linears)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([linear(x) for linear in self.linears], dim=-1)


def layer_section(quick: bool) -> dict[str, Any]:
    """MemoryLayer, projections included, against NeuralMemory with a matrix memory at the same sizes."""
    try:
        from titans_pytorch import MemoryMLP, NeuralMemory
    except ImportError:
        print("  titans-pytorch is not installed: pip install 'atlasgen[bench]'")
        return {}
    from atlasgen.nn import MemoryLayer

    tokens, rounds = (128, 2) if quick else (1024, 15)
    hidden = HEADS * SIZE
    torch.manual_seed(0)
    x = torch.randn(BATCH, tokens, hidden, requires_grad=True)
    ours = MemoryLayer(RULE, hidden_size=hidden, num_heads=HEADS, backend="torch")

    def peer(**options: Any) -> NeuralMemory:
        memory = MemoryMLP(SIZE, depth=1)
        return NeuralMemory(hidden, chunk_size=BLOCK, dim_head=SIZE, heads=HEADS, model=memory, **options)

    assert ours.output_gate is not None
    projections = [ours.projection, ours.output_gate, ours.output]
    modules = {
        "MemoryLayer": ours,
        "its projections alone": Projections(projections),
        "NeuralMemory": peer(),
        "NeuralMemory without momentum": peer(momentum=False),
    }

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
    found = {"forward": compared("forward", "MemoryLayer", runs, rounds)}
    runs = {name: both_of(call(module), wanted(module)) for name, module in modules.items()}
    return {**found, "both": compared("forward + backward", "MemoryLayer", runs, rounds)}


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


def peak(tokens: int) -> None:
    """Print the peak memory in bytes of a process that ran forward and backward once."""
    operator = atlasgen.compile(RULE, backend="torch")
    inputs = problem(tokens)
    y, _ = operator(**inputs)
    torch.autograd.grad(y, list(inputs.values()), torch.ones_like(y))
    # Not ru_maxrss: a child inherits the peak of the process that started it.
    (line,) = (entry for entry in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in entry)
    print(1024 * int(line.split()[1]))


def memory_section(quick: bool) -> dict[str, Any]:
    """Peak memory of a process per token, over that of one that runs a single block."""
    lengths = (512, 1024) if quick else (8192, 16384, 32768)
    found = {}

    def measured(tokens: int) -> int:
        command = [sys.executable, __file__, "--peak", str(tokens)]
        return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    base = measured(BLOCK)
    for tokens in lengths:
        each = (measured(tokens) - base) / tokens / HEADS
        found[str(tokens)] = each
        print(f"  T={tokens:6}: {each:8.0f} bytes per token and head at the peak of forward + backward")
    return found


def decode_section(quick: bool) -> dict[str, Any]:
    """Microseconds of a one-token call with a state, after contexts of two lengths."""
    operator = atlasgen.compile(RULE, backend="torch")
    rounds, found = (3 if quick else 200), {}
    contexts = (64, 256) if quick else (1000, 16000)
    with torch.no_grad():
        states = {n: operator(**problem(n, False), output_final_state=True)[1] for n in contexts}
        token = problem(1, False)

        def call(n: int) -> Run:
            return lambda: operator(**token, initial_state=states[n], output_final_state=True)

        seconds = interleaved({str(n): call(n) for n in contexts}, rounds)
    for name, own in seconds.items():
        found[name] = 1e6 * statistics.median(own)
        print(f"  one token after {name:6} tokens: {found[name]:6.0f} us, fastest {1e6 * min(own):.0f} us")
    return found


SECTIONS = {
    "operator": operator_section,
    "layer": layer_section,
    "length": length_section,
    "memory": memory_section,
    "decode": decode_section,
}


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    """Run the sections named on the command line and print their figures."""
    parser = argparse.ArgumentParser(description="CPU speed of the torch backend against peers.")
    parser.add_argument("sections", nargs="*", help=f"which of {', '.join(SECTIONS)}; all by default")
    parser.add_argument("--quick", action="store_true", help="tiny shapes, few rounds")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="elapsed or processor time")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--peak", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    unknown = set(options.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    torch.set_num_threads(options.threads)
    global clock
    clock = options.clock
    if options.peak is not None:
        peak(options.peak)
        return {}
    print(
        f"{RULE}, float32, B={BATCH} H={HEADS} K=V={SIZE}, window {WINDOW}, block {BLOCK}, {options.threads} "
        f"threads, {clock} time; torch {torch.__version__}, titans-pytorch {_version('titans-pytorch')}, "
        f"python {platform.python_version()}, {platform.machine()}"
    )
    found = {}
    for name in options.sections or SECTIONS:
        print(name)
        found[name] = SECTIONS[name](options.quick)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    return found


if __name__ == "__main__":
    main()

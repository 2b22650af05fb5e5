"""How far a tensor is from the reference: rms ratios, and where it is worst.

Never element by element relative: the size of an error is compared with the size of the whole tensor. A
reference that is zero, or nothing but its own rounding, is compared with the size of its neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from atlasgen.spec.rule import MemoryRule

# rms(x - ref) / rms(ref), of values and of gradients.
BARS = {
    torch.float32: (1e-5, 1e-5),
    torch.bfloat16: (6e-3, 1e-2),
    torch.float16: (2e-3, 2e-3),
}
# Newton-Schulz lifts the rounding of small singular values to the size of the large ones.
_NEWTON_SCHULZ_GRADIENTS = 1e-4
# Below this part of its neighbours' size, a float64 reference is the rounding of terms that cancel.
_CANCELLED = 1e-12

AXES: dict[str, tuple[str, ...]] = {
    "y": ("batch", "token", "head", "position"),
    "q": ("batch", "token", "head", "position"),
    "memory": ("batch", "head", "row", "column"),
    "window": ("batch", "slot", "head", "position"),
    "normaliser": ("batch", "head", "row"),
    "position": ("batch",),
}


@dataclass(frozen=True)
class TensorResult:
    """One tensor against the reference.

    name: "y", "state.memory.M", "d q". error: rms(x - ref) / rms(ref); max_error: max|x - ref|;
    max_reference: max|ref|; worst: the index of the largest error, in words; bar: what error may
    be at most; problem: a wrong shape or dtype, or a value that is not finite.
    """

    name: str
    error: float
    max_error: float
    max_reference: float
    worst: str
    bar: float
    problem: str | None = None

    @property
    def passed(self) -> bool:
        return self.problem is None and self.error <= self.bar


def bars_of(rule: MemoryRule, dtype: torch.dtype) -> tuple[float, float]:
    """What the error of values, and that of gradients, may be at most."""
    values, gradients = BARS[dtype]
    maps = [entry.kind for weight in rule.memory.weight_names for entry in rule.transform_of(weight)]
    if "newton_schulz" in maps:
        gradients = max(gradients, _NEWTON_SCHULZ_GRADIENTS)
    return values, gradients


def rms(tensor: Tensor) -> float:
    """Root of the mean square; 0 of an empty tensor."""
    return float(tensor.double().square().mean().sqrt()) if tensor.numel() else 0.0


def scale_of(references: Mapping[str, Tensor]) -> float:
    """The largest rms among tensors of one kind (outputs, or gradients)."""
    return max((rms(tensor) for tensor in references.values() if tensor.is_floating_point()), default=0.0)


def measure(
    name: str, found: Tensor, reference: Tensor, bar: float, scale: float, by_step: bool = False
) -> TensorResult:
    """`found` against `reference` (float64, same shape); `scale` is that of its neighbours.

    by_step: a token has a row for each of its micro-steps.
    """
    if found.shape != reference.shape:
        problem = f"shape {list(found.shape)} instead of {list(reference.shape)}"
        return TensorResult(name, float("inf"), float("inf"), 0.0, "", bar, problem)
    if not found.numel():
        return TensorResult(name, 0.0, 0.0, 0.0, "", bar)
    found, reference = found.detach().double().cpu(), reference.detach().double()
    difference = (found - reference).abs()
    same = (found == reference) | (found.isnan() & reference.isnan())  # infinities agree too
    difference = torch.where(same, 0.0, difference)
    bad = ~difference.isfinite()
    worst = int((bad.double() if bad.any() else difference).flatten().argmax())
    place = index_words(name, worst, tuple(reference.shape), by_step)
    largest = float(reference[reference.isfinite()].abs().max()) if reference.isfinite().any() else 0.0
    if bad.any():
        value = float(found.flatten()[worst])
        problem = f"{int(bad.sum())} values are not finite (first {value})"
        return TensorResult(name, float("inf"), float("inf"), largest, place, bar, problem)
    finite = torch.where(reference.isfinite(), reference, 0.0)
    size = rms(finite)
    if size <= _CANCELLED * scale:
        size = scale
    error = rms(difference)
    ratio = error / size if size else error
    return TensorResult(name, ratio, float(difference.max()), largest, place, bar)


def index_words(name: str, flat: int, shape: tuple[int, ...], by_step: bool = False) -> str:
    """A flat index in words: "batch 0, token 37, head 1, position 5"."""
    places = []
    for size in reversed(shape):
        flat, place = divmod(flat, size)
        places.append(place)
    axes = axes_of(name, len(shape) - by_step)
    axes = (*axes[:2], "step", *axes[2:]) if by_step else axes
    return ", ".join(f"{axis} {place}" for axis, place in zip(axes, reversed(places)))


def axes_of(name: str, rank: int) -> tuple[str, ...]:
    """The names of a tensor's axes, by its own name and rank."""
    short = name.removeprefix("d ").removeprefix("state.")
    if short in ("q", "k", "v"):
        short = "q"
    part = short.split(".")[0]
    if part == "initial_memory":
        return ("head", "row", "column") if rank == 3 else ("head", "column")
    part = {"momentum": "memory", "block": "memory", "origin": "memory"}.get(part, part)
    if part == "memory" and rank == 3:  # a bias
        return ("batch", "head", "column")
    if part == "normaliser" or part in AXES:
        return AXES[part][:rank]
    return {1: ("head",), 2: ("head", "age"), 3: ("batch", "token", "head")}.get(
        rank, ("batch", "token", "head", "age")
    )

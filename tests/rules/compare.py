"""Calls of any served rule, run by a backend and by the float64 definition, and compared.

A `Case` holds one call's arguments in float64, already rounded to the dtype of the call, so that
the definition and the backend compute the same function of the same numbers. Compared are y, every
tensor of the final state, and the gradient of every argument under random cotangents on all of
them.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

import atlasgen
from atlasgen.errors import AtlasgenError
from atlasgen.reference.run import run
from atlasgen.runtime.operator import MemoryOperator
from atlasgen.runtime.reference_backend import from_reference, to_reference
from atlasgen.runtime.signature import resolve, signature_of, state_shapes
from atlasgen.runtime.state import OperatorState
from atlasgen.spec.micro_steps import of_rows
from atlasgen.spec.rule import Features, MemoryRule
from atlasgen.spec.sizes import feature_size
from atlasgen.verify.cases import LONG_BLOCK
from atlasgen.verify.inputs import Drawing, initial_memory, split_names, step_of_maps
from atlasgen.verify.measure import bars_of
from atlasgen.verify.stability import feature_norm, gain_of, has_transforms

BACKENDS = ("torch", "triton")

# max|x - ref| / max|ref| may be this many times the bar.
MAXIMUM = 3.0
# What the definition computes as zero up to float64's rounding has no relative error.
ZERO = 1e-12


def compiled(rule: MemoryRule, backend: str) -> MemoryOperator:
    """The rule's operator on a backend."""
    return atlasgen.compile(rule, backend)


@dataclass(frozen=True)
class Shape:
    """Sizes of one call; query_heads and key_heads default to the memory's heads."""

    B: int = 2
    T: int = 17
    H: int = 2
    K: int = 5
    V: int = 3
    query_heads: int | None = None
    key_heads: int | None = None

    def symbols(self, features: Features) -> dict[str, int]:
        """The sizes of shapes in symbols; `features` gives F."""
        return {
            "B": self.B,
            "N": self.B,
            "T": self.T,
            "H": self.H,
            "Hq": self.query_heads or self.H,
            "Hk": self.key_heads or self.H,
            "K": self.K,
            "F": feature_size(features, self.K),
            "V": self.V,
        }


@dataclass
class Case:
    """One call: `arguments` by name (q, k, v, gates, inputs, learned constants; "initial_memory" is the
    initial weight M, "initial_memory.W1" another), `state` by full names ("memory.M", ...) or empty for
    a fresh sequence, `position` int64 [B] with a state."""

    rule: MemoryRule
    shape: Shape
    dtype: torch.dtype
    arguments: dict[str, Tensor]
    state: dict[str, Tensor] = field(default_factory=dict)
    position: Tensor | None = None

    @property
    def symbols(self) -> dict[str, int]:
        return self.shape.symbols(self.rule.features)

    def leaves(self, backend: str) -> dict[str, Tensor]:
        """Fresh leaves of every argument and state tensor, in the dtypes of the backend's call."""
        found = {}
        for name, value in {**self.arguments, **self.state}.items():
            dtype = self.dtype if name in ("q", "k", "v") else torch.float32
            dtype = torch.float64 if backend == "definition" else dtype
            found[name] = value.to(dtype, copy=True).requires_grad_()
        return found


@dataclass
class Result:
    """Values ("y" and the state's tensors) and gradients by name, and y's dtype as returned."""

    values: dict[str, Tensor]
    gradients: dict[str, Tensor]
    position: Tensor


# -- arguments ---------------------------------------------------------------------------------------


class Numbers(Drawing):
    """Seeded random tensors in float64."""

    def __init__(self, seed: int, rule: MemoryRule | None = None) -> None:
        super().__init__(rule or MemoryRule("any"), torch.Generator().manual_seed(seed))

    def uniform(self, *shape: int) -> Tensor:
        return self.between(0.0, 1.0, *shape)


def step_budget(rule: MemoryRule, shape: Shape | None = None) -> float:
    """The largest lr * gamma * |k|^2 for which a repeated key's component does not grow.

    shape: the call's sizes, which the gain of a deep memory depends on.
    """
    if has_transforms(rule):
        return step_of_maps(rule)
    if not rule.depends_on_memory:
        return 0.3
    momentum = 4.0 if rule.optimizer.kind == "momentum" else 1.0
    window = 1 if rule.window.normalise == "mean" else int(rule.window.length)
    # The factor of a full block, about 1 / b, makes one token of all.
    block = 1 if rule.block.row_scale == "position" else of_rows(rule).block.size
    budget = 0.5 / (window * block * momentum)
    if rule.memory.is_linear and rule.features.kind != "poly":
        return budget
    sizes = shape or Shape()
    return budget / gain_of(rule, sizes.K, sizes.V, feature_norm(rule, sizes.K))


def make_case(
    rule: MemoryRule,
    shape: Shape,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    start: str = "fresh",
) -> Case:
    """A call with random arguments that keep the memory bounded where the rule's gates allow it.

    start: "fresh" (with an initial memory where the rule takes one), or "state": every tensor of
    the state random, each sequence at its own position. Values are as large as keys where the rule adds
    the two.
    """
    if signature_of(rule).joins:
        shape = replace(shape, V=shape.K)
    numbers = Numbers(seed, rule)
    arguments = _arguments(rule, shape, numbers)
    case = Case(rule, shape, dtype, arguments)
    if start == "state":
        _random_state(case, numbers)
    elif rule.memory.initial != "zero":
        weights = numbers.weights(shape.H, sizes=case.symbols)
        only = set(weights) == {"M"}
        arguments |= {"initial_memory" if only else f"initial_memory.{n}": w for n, w in weights.items()}
    for name in ("q", "k", "v"):
        arguments[name] = arguments[name].to(dtype).double()
    for table in (arguments, case.state):
        for name in table:
            table[name] = table[name].float().double()
    return case


def _arguments(rule: MemoryRule, shape: Shape, numbers: Numbers) -> dict[str, Tensor]:
    """q, k, v and every gate, input and learned constant."""
    symbols, signature = shape.symbols(rule.features), signature_of(rule)
    # A normalised read divides by a sum of features: the sum of positive ones is far from zero.
    positive = rule.read.normaliser == "sum" and rule.features.kind not in ("elu1", "softmax")

    def projection(name: str) -> Tensor:
        x = numbers.normal(*resolve(signature.shape_of(name), symbols))
        return x.abs() + 0.1 if positive else x

    q, k = projection("q"), projection("k")
    if rule.features.kind != "elu1" or rule.depends_on_memory:
        q, k = q / math.sqrt(shape.K), k / k.norm(dim=-1, keepdim=True)
    budget = step_budget(rule, shape) / (shape.K if rule.features.kind == "elu1" else 1)
    if rule.optimizer.lr.kind == "constant":
        budget /= rule.optimizer.lr.value or 1.0
    lr_given = any(gate.is_argument for name, gate in rule.gates.items() if name.startswith("lr"))
    step_given = lr_given or rule.block.row_scale == "token"
    gamma_given = rule.window.gate.is_argument and rule.window.normalise == "sum"
    if rule.depends_on_memory and not step_given and not gamma_given and not has_transforms(rule):
        k = k * math.sqrt(min(budget, 1.0))
    values = numbers.values(*resolve(signature.shape_of("v"), symbols))
    arguments = {"q": q, "k": k, "v": values}
    for entry in signature.tensors:
        size = resolve(entry.shape, symbols)
        rows = numbers.rows(entry.name, k, *size)
        if rows is not None or entry.role == "constant":
            arguments[entry.name] = numbers.constant(entry.name, *size) if rows is None else rows
            continue
        u = numbers.uniform(*size)
        if entry.name.startswith("lr") or (entry.name == "row_scale" and not lr_given):
            u = (0.2 + 0.8 * u) * min(budget, 1.0)
        elif entry.name.startswith("log_alpha"):
            u = (-0.1 * u - 0.01) * numbers.fading
        elif entry.name.startswith("log_theta"):
            u = -0.2 - u
        elif entry.name in ("gamma", "row_scale"):
            u = 0.2 + 0.8 * u
            if entry.name == "gamma" and gamma_given and not step_given and rule.depends_on_memory:
                u = u * min(budget, 1.0)
        else:
            u = 0.3 + u
        arguments[entry.name] = u
    return arguments


def _random_state(case: Case, numbers: Numbers) -> None:
    """A state as some earlier tokens could have left it: rows before the sequence are zero, and at
    a border the open block's memory is the memory."""
    rule, symbols = case.rule, case.symbols
    limit = 3 * rule.block.size + 2
    position = (numbers.uniform(symbols["B"]) * limit).to(torch.int64)
    if symbols["B"]:
        # One sequence stands at a border, or ends a block that no call is as long as.
        left = (symbols["T"] + 1) // 2 if rule.block.size > LONG_BLOCK else 0
        position[0] = rule.block.size - left
    scales = {"momentum": 0.1, "update": 0.1}  # against that of a memory
    for name, letters in state_shapes(rule).items():
        shape = resolve(letters, symbols)
        if name == "position":
            continue
        part = name.removeprefix("block.").partition(".")[0]
        if name == "normaliser.z":
            value = numbers.uniform(*shape) + 0.5
        elif name == "normaliser.momentum":
            value = -0.1 * numbers.uniform(*shape)  # it sums gradients, which are -phi(k)
        elif part == "window":
            argument = case.arguments[name.removeprefix("window.")]
            fixed = argument.abs().mean() if argument.numel() else 1.0
            value = numbers.uniform(*shape) * fixed
            held = torch.arange(shape[1], 0, -1)[None] <= position[:, None]
            value = value * held.reshape(*held.shape, *[1] * (len(shape) - 2))
            if name == "window.k" and case.shape.key_heads not in (None, case.shape.H):
                value = value[:, :, :1].expand(shape).contiguous()
        elif part.startswith("pool_"):
            seen = (position % rule.block.size).double()[:, None]
            # Of decays near one, or of steps as they come.
            steps = case.arguments.get(part.removeprefix("pool_"))
            each = 1.0 if steps is None else steps.mean() if steps.numel() else 0.1
            value = seen * each * (0.8 + 0.2 * numbers.uniform(*shape))
        elif rule.memory.is_linear and part in scales:
            value = scales[part] * numbers.normal(*shape)
        else:
            value = scales.get(part, 1.0) * numbers.weight(*shape, bias=len(letters) == 3)
        case.state[name] = value
    case.position = position


def _operator_state(leaves: Mapping[str, Tensor], case: Case) -> OperatorState:
    """The state of a case from its leaves: at a border anchors are the memory, and sums are zero."""
    assert case.position is not None
    border = case.position % case.rule.block.size == 0
    tensors = {"position": case.position.clone()}
    for name in case.state:
        own = leaves[name]
        at_border = border.reshape(-1, *[1] * (own.dim() - 1))
        part, _, weight = name.removeprefix("block.").partition(".")
        if part == "anchor":
            own = torch.where(at_border, leaves[f"memory.{weight or 'M'}"], own)
        elif name.startswith("block.") and part != "previous":
            own = torch.where(at_border, 0.0, own)
        tensors[name] = own
    return OperatorState.of(tensors)


# -- running -----------------------------------------------------------------------------------------


def cotangent(name: str, like: Tensor) -> Tensor:
    """The random cotangent of an output: the same for every backend."""
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    return torch.randn(like.shape, generator=generator, dtype=torch.float64)


def run_case(
    case: Case, backend: str, splits: Sequence[int] = (), precision: torch.dtype = torch.float64
) -> Result:
    """The call by a backend, or by the definition (backend "definition", in `precision`), in pieces
    that end at `splits`, with gradients."""
    leaves = case.leaves(backend)
    given = {name: leaves[name] for name in case.arguments if not name.startswith("initial_memory")}
    memory = initial_memory(leaves)
    state: Any = _operator_state(leaves, case) if case.state else None
    per_token = {"q", "k", "v"}
    per_token |= {entry.name for entry in signature_of(case.rule).tensors if entry.per_token}
    operator: Any = None if backend == "definition" else compiled(case.rule, backend)
    reads, begin = [], 0
    for end in (*splits, case.shape.T):
        piece = {n: t[:, begin:end] if n in per_token else t for n, t in given.items()}
        start = memory if state is None else None
        if operator is None:
            gates, inputs = split_names(case.rule, piece)
            before = None if state is None else to_reference(state)
            q, k, v = (piece[name] for name in "qkv")
            y, found = run(
                case.rule, q, k, v, **gates, inputs=inputs, dtype=precision,
                initial_state=before, initial_memory=start,
            )  # fmt: skip
            assert found is not None
            state = from_reference(found)
        else:
            y, state = operator(**piece, initial_state=state, initial_memory=start, output_final_state=True)
            assert y.dtype == case.dtype
        reads.append(y)
        begin = end
    y = torch.cat(reads, 1)
    tensors = state.tensors()
    position = tensors.pop("position")
    values = {"y": y, **tensors}
    loss = sum((value.double() * cotangent(name, value)).sum() for name, value in values.items())
    assert isinstance(loss, Tensor)
    gradients = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    table = {}
    for (name, leaf), gradient in zip(leaves.items(), gradients):
        table[name] = torch.zeros_like(leaf) if gradient is None else gradient
        assert table[name].dtype == leaf.dtype, name
    return Result({name: value.detach() for name, value in values.items()}, table, position)


# -- comparing ---------------------------------------------------------------------------------------


def error(found: Tensor, expected: Tensor) -> tuple[float, float]:
    """(rms(x - ref) / rms(ref), max|x - ref| / max|ref|); absolute where the reference is zero."""
    assert found.shape == expected.shape, (found.shape, expected.shape)
    if expected.numel() == 0:
        return 0.0, 0.0
    found, expected = found.double(), expected.double()
    difference = found - expected
    if not torch.isfinite(difference).all():
        return math.inf, math.inf
    rms = float(expected.square().mean().sqrt())
    top = float(expected.abs().max())
    if rms < ZERO:
        rms = top = 1.0
    return float(difference.square().mean().sqrt()) / rms, float(difference.abs().max()) / top


def bounded(result: Result, limit: float = 1e3) -> bool:
    """True where the definition's values stay finite and below the limit; sums of gates grow with a block."""
    return all(
        bool(torch.isfinite(value).all()) and (value.numel() == 0 or float(value.abs().max()) < limit)
        for name, value in result.values.items()
        if not name.startswith("block.pool_")
    )


@dataclass
class Deviation:
    """How far one tensor is from the definition, and the bar it has to meet."""

    name: str
    rms: float
    top: float
    bar: float

    def __str__(self) -> str:
        return f"{self.name}: rms {self.rms:.1e}, max {self.top:.1e}, bar {self.bar:.0e}"

    @property
    def outside(self) -> bool:
        return not (self.rms <= self.bar and self.top <= MAXIMUM * self.bar)


def deviations(found: Result, expected: Result, case: Case) -> dict[str, Deviation]:
    """The deviation of every value ("y", "memory.M") and every gradient ("d_q")."""
    value_bar, gradient_bar = bars_of(case.rule, case.dtype)
    assert torch.equal(found.position, expected.position)
    assert found.values.keys() == expected.values.keys()
    pairs = [(name, value, expected.values[name], value_bar) for name, value in found.values.items()]
    pairs += [(f"d_{n}", value, expected.gradients[n], gradient_bar) for n, value in found.gradients.items()]
    return {name: Deviation(name, *error(value, other), bar) for name, value, other, bar in pairs}


def check(case: Case, backend: str, splits: Sequence[Sequence[int]] = ((),)) -> None:
    """Asserts that a backend agrees with the definition, once for each way to split the call."""
    expected = run_case(case, "definition")
    assert bounded(expected), f"{case.rule.name}: the definition grows past 1e3, choose smaller steps"
    for split in splits:
        found = deviations(run_case(case, backend, split), expected, case)
        bad = [str(entry) for entry in found.values() if entry.outside]
        assert not bad, f"{case.rule.name} {backend} {case.shape} split {list(split)}: " + "; ".join(bad)


def check_random(case: Case, backend: str, splits: Sequence[Sequence[int]]) -> str:
    """As `check`, for a rule and inputs that nobody chose: returns what was found.

    "grows": the definition itself passes 1e3, nothing is compared. "agrees": within the bars.
    "ill-conditioned": within eight times what float32 does to the definition itself (a sum that cancels
    has no small relative error in any program).
    """
    expected = run_case(case, "definition")
    if not bounded(expected):
        return "grows"
    outcome, own = "agrees", dict[str, float]()
    for split in splits:
        found = deviations(run_case(case, backend, split), expected, case)
        outside = [entry for entry in found.values() if entry.outside]
        if outside:
            outcome, own = "ill-conditioned", _conditioning(case, expected, split)
        bad = [
            f"{entry} ({own[entry.name]:.1e} by float32)"
            for entry in outside
            if entry.rms > 8 * own[entry.name]
        ]
        assert not bad, f"{backend} {case.shape} split {list(split)}: " + "; ".join(bad)
    return outcome


def _conditioning(case: Case, expected: Result, split: Sequence[int], samples: int = 5) -> dict[str, float]:
    """By name, what float32 does to the definition: the worst of some runs in float32, split in the
    same way, each with its arguments moved by float32's spacing."""
    numbers, worst = Numbers(0), dict[str, float]()

    def moved(table: dict[str, Tensor]) -> dict[str, Tensor]:
        spacing = torch.finfo(torch.float32).eps
        return {name: value * (1 + spacing * numbers.normal(*value.shape)) for name, value in table.items()}

    for _ in range(samples):
        nearby = replace(case, arguments=moved(case.arguments), state=moved(case.state))
        result = run_case(nearby, "definition", split, torch.float32)
        for name, entry in deviations(result, expected, case).items():
            worst[name] = max(worst.get(name, 0.0), entry.rms)
    return worst


def refused(error: AtlasgenError) -> bool:
    """True for a refusal that says which field, and why."""
    return bool(getattr(error, "field", "")) and len(getattr(error, "reason", "")) > 10

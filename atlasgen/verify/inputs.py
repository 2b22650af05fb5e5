"""Random arguments of a rule's operator, inside the range in which the rule is stable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from atlasgen.reference import run
from atlasgen.reference.features import apply_features
from atlasgen.runtime.reference_backend import GATES, from_reference, to_reference
from atlasgen.runtime.signature import Argument, resolve, signature_of
from atlasgen.runtime.state import PARTS, OperatorState
from atlasgen.spec.micro_steps import of_rows
from atlasgen.spec.rule import MemoryRule
from atlasgen.spec.sizes import feature_size, weight_shapes
from atlasgen.verify.cases import LONG_BLOCK, Case
from atlasgen.verify.gain import initial_scale
from atlasgen.verify.stability import curvature, first_coefficients, gain_of, has_transforms

_STEP = 0.5  # largest step against the curvature of a block: half of where it would overshoot


@dataclass
class Arguments:
    """The tensors of one call, float64 on the CPU, already rounded to what the call will get.

    tensors: q, k, v, the rule's gates, inputs and learned constants by argument name, and the initial
    memory where it has one: "initial_memory" is the weight M, "initial_memory.W1" another. state: a state
    to resume from, by full names ("memory.M", "position"), or empty.
    """

    tensors: dict[str, Tensor]
    state: dict[str, Tensor] = field(default_factory=dict)

    def leaves(self) -> dict[str, Tensor]:
        """All floating tensors by name; those of the state begin with "state."."""
        own = {f"state.{name}": tensor for name, tensor in self.state.items()}
        return {
            name: tensor for name, tensor in {**self.tensors, **own}.items() if tensor.is_floating_point()
        }


def draw(rule: MemoryRule, case: Case, dtype: torch.dtype = torch.float32, seed: int = 0) -> Arguments:
    """Arguments for `case`: q, k and v rounded to `dtype`, everything else to float32.

    Keys are unit vectors unless the rule's layer leaves them raw; gates lie where the rule is stable: decays
    near one, steps that no block overshoots.
    """
    generator = torch.Generator().manual_seed(seed)
    maker = _Maker(rule, case, generator)
    tensors = {
        name: tensor.to(dtype if name in ("q", "k", "v") else torch.float32).double()
        for name, tensor in maker.tensors().items()
    }
    found = Arguments(tensors)
    if case.resumed:
        found.state = _state_after(rule, case, dtype, seed)
        found.tensors = {n: t for n, t in tensors.items() if not n.startswith("initial_memory")}
    return found


def initial_memory(arguments: Mapping[str, Tensor]) -> dict[str, Tensor] | None:
    """The initial weights by name among a call's arguments: "initial_memory" is M, "initial_memory.W1" W1."""
    found = {}
    for name, tensor in arguments.items():
        first, _, weight = name.partition(".")
        if first == "initial_memory":
            found[weight or "M"] = tensor
    return found or None


def split_names(
    rule: MemoryRule, arguments: Mapping[str, Tensor]
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Arguments of `atlasgen.reference.run` besides q, k, v: gates and memory, and all others apart."""
    gates: dict[str, Any] = {name: arguments[name] for name in GATES if name in arguments}
    memory = initial_memory(arguments)
    if memory is not None:
        gates["initial_memory"] = memory
    inputs = {
        name: tensor
        for name, tensor in arguments.items()
        if name not in ("q", "k", "v", *GATES) and not name.startswith("initial_memory")
    }
    return gates, inputs


def nested_state(flat: Mapping[str, Tensor]) -> dict[str, Any]:
    """{"memory.M": ...} in the reference's layout, with empty parts for those that are absent."""
    return to_reference(OperatorState.of(flat))


def flat_state(state: Any) -> dict[str, Tensor]:
    """The inverse of `nested_state`; a state is a nested dict or has the parts as attributes."""
    if isinstance(state, OperatorState):
        return state.tensors()
    names = (*PARTS, "position")
    parts = state if isinstance(state, Mapping) else {name: getattr(state, name) for name in names}
    return from_reference({name: part for name, part in parts.items() if name in names}).tensors()


def _state_after(rule: MemoryRule, case: Case, dtype: torch.dtype, seed: int) -> dict[str, Tensor]:
    """The state after `case.resumed` random tokens of each sequence, rounded to float32.

    A long block is nearly full: the call ends it, which no short call of its own would.
    """
    before = replace(case, batch=case.sequences, tokens=case.resumed, resumed=0, splits=(), borders=())
    arguments = draw(rule, before, dtype, seed + 1)
    gates, inputs = split_names(rule, arguments.tensors)
    tensors = arguments.tensors
    with torch.no_grad():
        _, state = run(rule, tensors["q"], tensors["k"], tensors["v"], **gates, inputs=inputs)
    flat = flat_state(state)
    if rule.block.size > LONG_BLOCK:
        flat = _nearly_full(rule, flat, case.resumed, max(case.tokens // 2, 1))
    return {
        name: tensor.float().double() if tensor.is_floating_point() else tensor
        for name, tensor in flat.items()
    }


def _nearly_full(rule: MemoryRule, flat: dict[str, Tensor], seen: int, left: int) -> dict[str, Tensor]:
    """The state moved on to `left` tokens before the block's end, its sums of gates grown with it."""
    position = rule.block.size - left
    moved = {name: t * (position / seen) if name.startswith("block.pool_") else t for name, t in flat.items()}
    return moved | {"position": torch.full_like(flat["position"], position)}


class Drawing:
    """Random tensors of a rule's calls, float64, from one generator."""

    def __init__(self, rule: MemoryRule, generator: torch.Generator) -> None:
        self.rule, self.generator = rule, generator

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.generator, dtype=torch.float64)

    def between(self, low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(*shape, generator=self.generator, dtype=torch.float64)

    @property
    def fading(self) -> float:
        """How fast memories may fade: a deep one does not come back from zero, and shall leave its start."""
        return 1.0 if self.rule.memory.initial == "zero" else 0.1

    def values(self, *shape: int) -> Tensor:
        """Targets [B, T, .., H, V]; for a memory with a start of its own around one that all tokens share.

        What single tokens ask for averages out, and a memory that stays beside its start shows nothing of its
        retention; maps of the update take it away from there by themselves.
        """
        values = self.normal(*shape)
        starts = self.rule.memory.initial != "zero" and not has_transforms(self.rule)
        return values + 3 * self.normal(*shape[2:]) if starts else values

    def keys(self, k: Tensor, heads: int) -> Tensor:
        """Keys [B, T, .., heads, K] of a term of its own: as long as k [B, T, .., Hk, K], and near them.

        A key that is written at while another predicts brings their error down only where the two meet.
        """
        k = k.repeat_interleave(heads // k.shape[-2], -2)
        length = k.norm(dim=-1, keepdim=True)
        moved = k + length * self.normal(*k.shape) / k.shape[-1] ** 0.5
        return moved * length / moved.norm(dim=-1, keepdim=True).clamp(min=1e-6)

    def rows(self, name: str, k: Tensor, *shape: int) -> Tensor | None:
        """An input that stands for keys or values, None where it stands for neither or has a range."""
        declared = self.rule.input_named(name)
        if declared is None or declared.range != "any":
            return None
        kind = self.rule.stands_for(name)
        if kind is None:
            return None
        return self.keys(k, shape[-2]) if kind == "key" else self.values(*shape)

    def weights(self, *rows: int, sizes: Mapping[str, int]) -> dict[str, Tensor]:
        """A memory by weight: matrices [*rows, in, out] of N(0, 1/in), biases a tenth of N(0, 1)."""
        return {name: self.weight(*rows, *shape, bias=len(shape) == 1) for name, shape in
                weight_shapes(self.rule.memory, sizes).items()}  # fmt: skip

    def weight(self, *shape: int, bias: bool = False) -> Tensor:
        """One weight of a memory."""
        if bias:
            return 0.1 * self.normal(*shape)
        # A matrix alone is the sum of what was read: smaller than the layers of a network.
        memory = self.rule.memory
        scale = 0.3 if memory.is_linear else initial_scale(memory.link, shape[-2])
        return scale * self.normal(*shape)

    def constant(self, name: str, *shape: int) -> Tensor:
        """What a rule learns besides its memory, around its default: [H, ...]."""
        if name == "coefficients":
            first = torch.tensor(first_coefficients(self.rule.features), dtype=torch.float64)
            return first * self.between(0.5, 1.5, *shape)
        if name == "row_scale":
            return self.between(0.5, 1.0, *shape) / torch.arange(1, shape[-1] + 1, dtype=torch.float64)
        return (name == "norm_gain") + 0.3 * self.normal(*shape)


class _Maker(Drawing):
    """Draws one call's tensors."""

    def __init__(self, rule: MemoryRule, case: Case, generator: torch.Generator) -> None:
        super().__init__(rule, generator)
        self.case = case

    def tensors(self) -> dict[str, Tensor]:
        rule, case = self.rule, self.case
        q = self.normal(case.batch, case.tokens, case.query_heads or case.heads, case.key)
        steps = (rule.optimizer.micro_steps,) if rule.by_step("k") else ()
        k = self.normal(case.batch, case.tokens, *steps, case.key_heads or case.heads, case.key)
        v = self.values(case.batch, case.tokens, *steps, case.heads, case.value)
        if rule.layer.qk_norm != "none":  # as the rule's layer feeds it
            q, k = q / case.key**0.5, k / k.norm(dim=-1, keepdim=True)
        step = largest_step(rule, k, case.value)
        given = any(gate.is_argument for name, gate in rule.gates.items() if name.startswith("lr"))
        if rule.depends_on_memory and not given and rule.block.row_scale != "token":
            # The rule's own step cannot be drawn: shorter keys make the same product.
            lr = rule.optimizer.lr
            fixed = lr.value if lr.kind == "constant" and lr.value is not None else 1.0
            k = k * min(1.0, (step / fixed) ** 0.5)
        found = {"q": q, "k": k, "v": v}
        symbols = self._symbols()
        for entry in signature_of(rule).tensors:
            shape = resolve(entry.shape, symbols)
            rows = self.rows(entry.name, k, *shape)
            if rows is not None:
                found[entry.name] = rows
            elif entry.role == "constant":
                found[entry.name] = self.constant(entry.name, *shape)
            else:
                found[entry.name] = self.between(*self._range(entry, step, given), *shape)
        if rule.memory.initial != "zero":
            weights = self.weights(case.heads, sizes=symbols)
            only = set(weights) == {"M"}
            found |= {"initial_memory" if only else f"initial_memory.{n}": w for n, w in weights.items()}
        return found

    def _symbols(self) -> dict[str, int]:
        case = self.case
        features = feature_size(self.rule.features, case.key)
        sizes = {"B": case.batch, "T": case.tokens, "H": case.heads}
        return sizes | {"K": case.key, "V": case.value, "F": features}

    def _range(self, entry: Argument, step: float, given: bool) -> tuple[float, float]:
        """Where a gate or input is drawn; `given`: the step is an argument of its own."""
        if entry.role == "input":
            return {"unit": (0.1, 0.9), "log_decay": (-0.2, 0.0)}.get(entry.range, (0.3, 1.3))
        if entry.name.startswith("log_alpha"):
            return (-0.1 * self.fading, 0.0)
        if entry.name.startswith("log_theta"):
            return (-1.5, -0.2)
        if entry.name == "gamma" or (entry.name == "row_scale" and given):
            return (0.2, 1.0)
        return (0.3 * step, step)


def step_of_maps(rule: MemoryRule) -> float:
    """A learning rate at which a block moves the weights by a fifth of their size.

    A map makes the update as large as the weights themselves, whatever the gradient; larger steps take the
    memory where the next gradient is another, and lift rounding with it.
    """
    return 0.2 / (of_rows(rule).block.size if rule.block.write == "token" else 1)


def largest_step(rule: MemoryRule, k: Tensor, value_size: int) -> float:
    """A learning rate below which no block of these keys [B, T, H, K], or [B, T, n, H, K], overshoots."""
    if has_transforms(rule):
        return step_of_maps(rule)
    if not rule.depends_on_memory:
        return 1.0 / (1 if rule.window.length == "all" else rule.window.length)
    features = rule.features
    if features.kind == "exp":
        features = replace(features, kind="identity")
    features = replace(features, coefficients=first_coefficients(features))
    k = k.flatten(1, -3)  # a row for each step
    rows = min(of_rows(rule).block.size, max(k.shape[1], 1))
    x = apply_features(features, k[:, :rows], "k")
    # The largest eigenvalue of the keys' sum of outer products is that of their small Gram matrix.
    gram = torch.einsum("bthk,bshk->bhts", x, x)
    largest = float(torch.linalg.eigvalsh(gram).max()) if x.numel() else 1.0
    length = float(x.square().sum(-1).mean()) if x.numel() else 1.0
    gain = largest * gain_of(rule, k.shape[-1], value_size, length) / max(length, 1e-30)
    counted = rule.window.length if isinstance(rule.window.length, int) else 1
    weight = 1.0 if rule.window.normalise == "mean" else float(counted)
    momentum = 5.0 if rule.optimizer.kind == "momentum" else 1.0
    return _STEP / (max(gain, 1.0) * weight * momentum * max(curvature(rule), 1.0))

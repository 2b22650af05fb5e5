"""Random arguments of a rule's operator, inside the range in which the rule is stable."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from atlasgen.reference import run
from atlasgen.reference.features import apply_features
from atlasgen.spec.rule import Gate, MemoryRule
from atlasgen.verify.cases import Case
from atlasgen.verify.stability import curvature

_STEP = 0.5  # largest step against the curvature of a block: half of where it would overshoot


@dataclass
class Arguments:
    """The tensors of one call, float64 on the CPU, already rounded to what the call will get.

    tensors: q, k, v, the rule's gates and inputs, and "initial_memory" where it has one, by
    argument name. state: a state to resume from, by full names ("memory.M", "position"), or empty.
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
        if "initial_memory" in found.tensors:
            del found.tensors["initial_memory"]
    return found


def split_names(rule: MemoryRule, arguments: dict[str, Tensor]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Arguments of `atlasgen.reference.run` besides q, k, v: gates, and inputs apart."""
    declared = {entry.name for entry in rule.inputs}
    inputs = {name: tensor for name, tensor in arguments.items() if name in declared}
    gates: dict[str, Any] = {
        name: tensor
        for name, tensor in arguments.items()
        if name not in declared and name not in ("q", "k", "v")
    }
    if "initial_memory" in gates:
        gates["initial_memory"] = {"M": gates["initial_memory"]}
    return gates, inputs


def nested_state(flat: dict[str, Tensor]) -> dict[str, Any]:
    """{"memory.M": ...} as {"memory": {"M": ...}}, with empty parts for those that are absent."""
    parts = ("memory", "momentum", "normaliser", "window", "block", "origin")
    nested: dict[str, Any] = {part: {} for part in parts}
    for name, tensor in flat.items():
        part, _, entry = name.partition(".")
        if entry:
            nested[part][entry] = tensor
        else:
            nested[part] = tensor
    return nested


def flat_state(state: Any) -> dict[str, Tensor]:
    """The inverse of `nested_state`; a state is a nested dict or has the parts as attributes."""
    found: dict[str, Tensor] = {}
    for part in ("memory", "momentum", "normaliser", "window", "block", "position", "origin"):
        value = state[part] if isinstance(state, dict) else getattr(state, part)
        if isinstance(value, Tensor):
            found[part] = value
        else:
            found.update({f"{part}.{name}": tensor for name, tensor in value.items()})
    return found


def _state_after(rule: MemoryRule, case: Case, dtype: torch.dtype, seed: int) -> dict[str, Tensor]:
    """The state after `case.resumed` random tokens of each sequence, rounded to float32."""
    before = Case(
        case.sequences, case.resumed, case.heads, case.key, case.value, case.query_heads, case.key_heads
    )
    arguments = draw(rule, before, dtype, seed + 1)
    gates, inputs = split_names(rule, arguments.tensors)
    tensors = arguments.tensors
    with torch.no_grad():
        _, state = run(rule, tensors["q"], tensors["k"], tensors["v"], **gates, inputs=inputs)
    flat = flat_state(state)
    return {
        name: tensor.float().double() if tensor.is_floating_point() else tensor
        for name, tensor in flat.items()
    }


class _Maker:
    """Draws one call's tensors."""

    def __init__(self, rule: MemoryRule, case: Case, generator: torch.Generator) -> None:
        self.rule, self.case, self.generator = rule, case, generator
        length = rule.window.length
        self.window = length if isinstance(length, int) else 1

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.generator, dtype=torch.float64)

    def uniform(self, low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(*shape, generator=self.generator, dtype=torch.float64)

    def tensors(self) -> dict[str, Tensor]:
        rule, case = self.rule, self.case
        q = self.normal(case.batch, case.tokens, case.query_heads or case.heads, case.key)
        k = self.normal(case.batch, case.tokens, case.key_heads or case.heads, case.key)
        v = self.normal(case.batch, case.tokens, case.heads, case.value)
        if rule.layer.qk_norm != "none":  # as the rule's layer feeds it
            q, k = q / case.key**0.5, k / k.norm(dim=-1, keepdim=True)
        step = self._step(k)
        lr = rule.optimizer.lr
        if rule.depends_on_memory and not lr.is_argument:
            # The rule's own step cannot be drawn: shorter keys make the same product.
            fixed = lr.value if lr.kind == "constant" and lr.value is not None else 1.0
            k = k * min(1.0, (step / fixed) ** 0.5)
        found = {"q": q, "k": k, "v": v}
        alpha, theta = rule.retention.alpha, rule.optimizer.theta
        self._add(found, "lr", lr, 0.3 * step, step)
        self._add(found, "log_alpha", alpha, -0.1, 0.0)
        self._add(found, "log_theta", theta, -1.5, -0.2)
        self._add(found, "gamma", rule.window.gate, 0.2, 1.0)
        for entry in rule.inputs:
            low, high = {"unit": (0.1, 0.9), "log_decay": (-0.2, 0.0)}.get(entry.range, (0.3, 1.3))
            self._add(found, entry.name, Gate(entry.shape), low, high)  # type: ignore[arg-type]
        if rule.memory.initial in ("learned", "given"):
            found["initial_memory"] = 0.3 * self.normal(case.heads, case.key, case.value)
        return found

    def _add(self, found: dict[str, Tensor], name: str, gate: Gate, low: float, high: float) -> None:
        if not gate.is_argument:
            return
        case = self.case
        rows, channel = (case.batch, case.tokens, case.heads), (case.key, case.value)[gate.axis == "value"]
        shape = {
            "head": (case.heads,),
            "token": rows,
            "channel": (*rows, channel),
            "key": (*rows, case.key),
            "value": (*rows, case.value),
            "head_key": (case.heads, case.key),
            "pair": (*rows, self.window),
            "position": (case.heads, self.window),
        }[gate.kind]
        found[name] = self.uniform(low, high, *shape)

    def _step(self, k: Tensor) -> float:
        """A learning rate below which no block of these keys overshoots."""
        rule = self.rule
        if not rule.depends_on_memory:
            return 1.0 / self.window
        features = rule.features
        if features.kind in ("exp", "poly"):
            features = dataclasses.replace(features, kind="identity")
        rows = min(max(rule.block.size, 1), max(k.shape[1], 1))
        x = apply_features(features, k, "k")[:, :rows]
        gram = torch.einsum("bthk,bthl->bhkl", x, x)
        largest = float(torch.linalg.eigvalsh(gram).max()) if x.numel() else 1.0
        weight = 1.0 if rule.window.normalise == "mean" else float(self.window)
        momentum = 5.0 if rule.optimizer.kind == "momentum" else 1.0
        return _STEP / (max(largest, 1.0) * weight * momentum * max(curvature(rule), 1.0))

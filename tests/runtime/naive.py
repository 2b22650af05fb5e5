"""An executable that is plainly right: the rule token by token in float64, its backward by
autograd.

It stands in for compiled programs, so that what the runtime does around them is tested apart from
them. Matrix memories, identity features, losses dot, l2 and Huber per row.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from atlasgen.runtime.executable import SavedShapes, Tensors
from atlasgen.runtime.signature import window_gates, window_rows
from atlasgen.spec.expression import evaluate_number
from atlasgen.spec.micro_steps import of_rows
from atlasgen.spec.rule import Gate, MemoryRule


class NaiveExecutable:
    """Executable of one rule; see the module."""

    def __init__(self, rule: MemoryRule) -> None:
        self.rule = rule = of_rows(rule)
        momentum = rule.optimizer.kind == "momentum"
        blocks = rule.block.size > 1 and rule.depends_on_memory
        carry = blocks and rule.window.boundary == "carry" and window_rows(rule) > 0
        carries = ["memory"] + ["momentum"] * momentum
        if rule.read.normaliser == "sum":
            carries += ["normaliser"] + ["normaliser_momentum"] * momentum
        resume = ["anchor"] * blocks + ["previous"] * carry
        self.outputs = ("y", *carries, *resume)
        if window_rows(rule):
            resume += [f"window_{name}" for name in ("k", "v", *window_gates(rule))]
        gates = {
            "lr": rule.optimizer.lr,
            "log_alpha": rule.retention.alpha,
            "log_theta": rule.optimizer.theta,
            "gamma": rule.window.gate,
        }
        self.gates = gates
        arguments = [name for name, gate in gates.items() if gate.is_argument or gate.expression]
        arguments += [entry.name for entry in rule.inputs]
        origin = ["origin"] * (rule.retention.toward == "initial")
        self.inputs = (
            "q", "k", "v", *arguments, *carries, *origin, *resume, "position", "length",
        )  # fmt: skip

    def forward(self, tensors: Tensors, save: bool) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        value = tensors["v"]
        assert value is not None
        outputs = self._computed({name: _double(tensor) for name, tensor in tensors.items()})
        outputs = {
            name: tensor.to(value.dtype if name == "y" else torch.float32) for name, tensor in outputs.items()
        }
        # The backward recomputes everything; what is saved proves that it arrives there unharmed.
        return outputs, {"check": outputs["memory"].clone()} if save else {}

    def backward(
        self, tensors: Tensors, saved: Mapping[str, Tensor], gradients: Tensors
    ) -> dict[str, Tensor]:
        leaves = {
            name: tensor.double().requires_grad_()
            for name, tensor in tensors.items()
            if tensor is not None and tensor.is_floating_point()
        }
        whole = {name: leaves.get(name, tensor) for name, tensor in tensors.items()}

        def differentiate() -> dict[str, Tensor]:
            outputs = self._computed(whole)
            assert torch.equal(outputs["memory"].float(), saved["check"])
            pairs = [
                (outputs[name], gradient.double())
                for name, gradient in gradients.items()
                if gradient is not None and outputs[name].requires_grad
            ]
            found = torch.autograd.grad(
                [output for output, _ in pairs],
                list(leaves.values()),
                [gradient for _, gradient in pairs],
                allow_unused=True,
            )
            return {name: entry.float() for name, entry in zip(leaves, found) if entry is not None}

        return _with_autograd(differentiate)

    def saved_shapes(self, sizes: dict[str, int]) -> SavedShapes:
        return {"check": (tuple(sizes[letter] for letter in "BHFV"), torch.float32)}

    def _computed(self, tensors: Tensors) -> dict[str, Tensor]:
        """All outputs in float64, one row after the other."""
        value = tensors["v"]
        assert value is not None
        rows = [_Row(self, tensors, index).run() for index in range(value.shape[0])]
        return {name: torch.stack([row[name] for row in rows]) for name in self.outputs}


def _double(tensor: Tensor | None) -> Tensor | None:
    return tensor.double() if tensor is not None and tensor.is_floating_point() else tensor


def _with_autograd(function: Callable[[], Any]) -> Any:
    """Inside an operator autograd is off for the thread; another thread has it."""
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(function())
        except BaseException as error:
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if isinstance(results[0], BaseException):
        raise results[0]
    return results[0]


class _Row:
    """One batch row, token by token; everything is per head: M [H, K, V], k [H, K]."""

    def __init__(self, executable: NaiveExecutable, tensors: Tensors, index: int) -> None:
        self.rule, self.gates = executable.rule, executable.gates
        self.tensors, self.index = tensors, index
        self.heads, self.keys = tensors["q"].shape[2:]
        self.values = tensors["v"].shape[3]
        position, length = self.of("position"), self.of("length")
        self.start = 0 if position is None else int(position)
        self.length = tensors["v"].shape[1] if length is None else int(length)
        zero = tensors["v"].new_zeros(self.heads, self.keys, self.values)
        vector = zero[:, :, 0]
        self.memory = self.or_else("memory", zero)
        self.momentum = self.or_else("momentum", zero)
        self.weight = self.or_else("normaliser", vector)
        self.weight_momentum = self.or_else("normaliser_momentum", vector)
        self.origin = self.or_else("origin", zero)
        self.anchor = self.or_else("anchor", self.memory)
        self.previous = self.or_else("previous", zero)

    def of(self, name: str) -> Tensor | None:
        tensor = self.tensors.get(name)
        return None if tensor is None else tensor[self.index]

    def or_else(self, name: str, fallback: Tensor) -> Tensor:
        found = self.of(name)
        return fallback if found is None else found

    def run(self) -> dict[str, Tensor]:
        reads = [self.step(token) for token in range(self.length)]
        rest = self.tensors["v"].new_zeros(self.heads, self.values)
        reads += [rest] * (self.tensors["v"].shape[1] - self.length)
        names = {
            "y": torch.stack(reads),
            "memory": self.memory,
            "momentum": self.momentum,
            "normaliser": self.weight,
            "normaliser_momentum": self.weight_momentum,
            "anchor": self.anchor,
            "previous": self.previous,
        }
        return names

    def row(self, name: str, token: int) -> Tensor:
        """A per-token tensor at a token of the call, or before it in the window (negative)."""
        if token >= 0:
            return self.tensors[name][self.index, token]
        return self.tensors[f"window_{name}"][self.index, token + window_rows(self.rule)]

    def gate(self, name: str, token: int, neutral: float) -> Any:
        """A multiplier of one token: a number or [H]."""
        gate: Gate = self.gates[name]
        log = name.startswith("log_")
        if gate.is_argument or gate.expression:
            tensor = self.tensors[name]
            found = tensor[self.index, token] if gate.kind == "token" else tensor
            return found.exp() if log else found
        return {"none": neutral, "zero": 0.0}.get(gate.kind, gate.value)

    def weight_of(self, token: int, age: int) -> Tensor:
        """gamma of the token `age` before, [H]; 0 outside the sequence or a truncated block."""
        absolute, size = self.start + token, self.rule.block.size
        one = self.tensors["v"].new_ones(self.heads)
        cut = self.rule.window.boundary == "truncate" and self.rule.depends_on_memory
        if age > absolute or (cut and (absolute - age) // size < absolute // size):
            return 0 * one
        kind = self.rule.window.gate.kind
        if kind == "token":
            return self.row("gamma", token - age)
        if kind == "pair":
            return self.tensors["gamma"][self.index, token, :, age]
        return self.tensors["gamma"][:, age] if kind == "position" else one

    def error(self, token: int, point: Tensor) -> Tensor:
        """dl/dpred [H, V] at the memory `point`."""
        (term,) = self.rule.loss
        value = self.row("v", token)
        if term.kind == "dot":
            return -value
        difference = torch.einsum("hk,hkv->hv", self.row("k", token), point) - value
        if term.kind == "l2":
            return difference
        assert term.kind == "huber" and term.per == "row" and isinstance(term.delta, str)
        norm = difference.norm(dim=-1).clamp(min=1e-300)
        return difference * (self.row(term.delta, token) / norm).clamp(max=1)[:, None]

    def gradient(self, token: int) -> tuple[Tensor, Tensor]:
        """The window's gradient of M and of the normaliser."""
        absolute, size = self.start + token, self.rule.block.size
        now = self.anchor if size > 1 else self.memory
        total = torch.zeros_like(self.memory)
        ones, weights = total[:, :, 0], total[:, 0, 0]
        for age in range(window_rows(self.rule) + 1):
            if age > absolute:
                break
            older = (absolute - age) // size < absolute // size
            carried = size > 1 and older and self.rule.window.boundary == "carry"
            error = self.error(token - age, self.previous if carried else now)
            gamma = self.weight_of(token, age)
            key = gamma[:, None] * self.row("k", token - age)
            total = total + torch.einsum("hk,hv->hkv", key, error)
            ones, weights = ones - key, weights + gamma
        if self.rule.window.normalise == "mean":
            share = torch.where(weights == 0, 0.0, 1 / torch.where(weights == 0, 1.0, weights))
            total, ones = share[:, None, None] * total, share[:, None] * ones
        return total, ones

    def step(self, token: int) -> Tensor:
        """Updates everything with one token and reads it."""
        rule = self.rule
        if rule.block.size > 1 and (self.start + token) % rule.block.size == 0:
            if self.start + token > 0:  # no block comes before the first
                self.previous = self.anchor
            self.anchor = self.memory
        before = self.memory
        total, ones = self.gradient(token)
        lr = self.gate("lr", token, 1.0)
        at_gradient = rule.optimizer.lr_at == "gradient"
        if at_gradient:
            total, ones = _times(lr, total), _times(lr, ones)
        if rule.optimizer.kind == "momentum":
            theta = self.gate("log_theta", token, 1.0)
            self.momentum = total = _times(theta, self.momentum) + total
            self.weight_momentum = ones = _times(theta, self.weight_momentum) + ones
        alpha = self.gate("log_alpha", token, 1.0)
        rate = 1.0 if at_gradient else lr
        kept = _times(alpha, self.memory)
        if rule.retention.toward == "initial":
            kept = kept + _times(1 - alpha, self.origin)
        self.memory = kept - _times(rate, total)
        self.weight = _times(alpha, self.weight) - _times(rate, ones)
        query = self.tensors["q"][self.index, token]
        point = self.memory if rule.read.at == "post" else before
        read = torch.einsum("hk,hkv->hv", query, point)
        if rule.read.normaliser == "sum":
            read = read / (self.weight * query).sum(-1, keepdim=True)
        names = {"K": self.keys, "V": self.values, "F": self.keys}
        return evaluate_number(rule.read.scale, names) * read


def _times(factor: Any, tensor: Tensor) -> Tensor:
    """A number or [H] times [H, ...]."""
    if not isinstance(factor, Tensor):
        return factor * tensor
    return factor.reshape(-1, *[1] * (tensor.dim() - 1)) * tensor

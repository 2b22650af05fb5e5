"""Calls of a rule whose tokens take several steps, as calls of its rule of rows (spec.micro_steps).

Plain differentiable torch around the program: a token's keys, values and steps are rows already, its decay
stands in the first of them, its query in all, and one of its reads is kept.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from atlasgen.runtime.layout import expand_heads
from atlasgen.spec.micro_steps import of_rows, read_row
from atlasgen.spec.rule import MemoryRule

Tensors = dict[str, Tensor]


class MicroSteps:
    """The layout of one rule's calls; where tokens take one step, all is left as it is."""

    def __init__(self, rule: MemoryRule) -> None:
        self.count, self.read = rule.optimizer.micro_steps, read_row(rule)
        names = ("k", "v", *rule.gates, *(entry.name for entry in rule.inputs))
        self._by_step = frozenset(name for name in names if rule.by_step(name))
        gates = of_rows(rule).gates
        self._decays = tuple(n for n, gate in gates.items() if n.startswith("log_alpha") and gate.is_argument)
        fixed = {name: rule.gates[name] for name in self._decays}
        self._numbers = {
            name: math.log(gate.value) if gate.value else -math.inf
            for name, gate in fixed.items()
            if gate.kind == "zero" or gate.kind == "constant" and gate.expression is None
        }

    def laid_out(
        self, rows: Tensors, gates: Tensors, carries: Tensors, length: Tensor | None
    ) -> tuple[Tensors, Tensors, Tensors, Tensor | None]:
        """The tensors of a program: those per token, per head and carried, and the sequences' lengths.

        rows: [B, T, H, ..], or [B, T, n, H, ..] by step (k with v's heads); gates: [H, ..], constants that
        differ by head among them. Of the result, rows are [B, n T, H, ..] and lengths and positions count
        rows.
        """
        if self.count == 1:
            return rows, gates, carries, length
        found = {n: self._of_steps(n, tensor) for n, tensor in rows.items() if n not in self._decays}
        for name in self._decays:
            decay = rows[name] if name in rows else self._decay_of_heads(name, gates, rows["v"])
            found[name] = self._in_first(decay)
        left = {name: tensor for name, tensor in gates.items() if name not in self._decays}
        if "position" in carries:
            carries = {**carries, "position": carries["position"] * self.count}
        return found, left, carries, None if length is None else length * self.count

    def reads(self, y: Tensor) -> Tensor:
        """The rows [B, T, ..] of y [B, n T, ..] that are read."""
        return y if self.count == 1 else y[:, self.read :: self.count]

    def _of_steps(self, name: str, tensor: Tensor) -> Tensor:
        """A row for each step: the tensor's own, or the token's one again.

        A query stands in rows too whose read is dropped: no feature map or norm need have a value at 0.
        """
        return tensor.flatten(1, 2) if name in self._by_step else expand_heads(tensor, self.count, 1)

    def _in_first(self, decay: Tensor) -> Tensor:
        """Log decays [B, T, H, ..] in the first row of each token, 0 in the others."""
        batch, tokens, *own = decay.shape
        others = decay.new_zeros(batch, tokens, self.count - 1, *own)
        return torch.cat([decay.unsqueeze(2), others], 2).flatten(1, 2)

    def _decay_of_heads(self, name: str, gates: Mapping[str, Tensor], v: Tensor) -> Tensor:
        """A decay that is the same for all tokens, as log decays [B, T, H]; v: [B, T, n, H, V]."""
        batch, tokens, _, heads, _ = v.shape
        if name in self._numbers:
            return torch.full((batch, tokens, heads), self._numbers[name], device=v.device)
        return gates[name].expand(batch, tokens, heads)

"""An executable that runs the definition: it stands in for compiled programs of every rule.

Forward and backward by the reference in float64, one row after the other; names of inputs and outputs as
compiled programs have them, so that what the runtime does around a program is tested for memories of any
weights.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from atlasgen.reference.run import run
from atlasgen.runtime.carries import carry_name
from atlasgen.runtime.executable import SavedShapes, Tensors
from atlasgen.runtime.reference_backend import GATES, from_reference, to_reference
from atlasgen.runtime.signature import resolve, signature_of, state_shapes
from atlasgen.runtime.state import OperatorState
from atlasgen.spec.rule import MemoryRule
from tests.runtime.naive import _double, _with_autograd


class DefinedExecutable:
    """Executable of one rule; see the module."""

    def __init__(self, rule: MemoryRule) -> None:
        self.rule = rule
        self.state = state_shapes(rule)
        arguments = [entry.name for entry in signature_of(rule).tensors]
        carries = [name for name in self.state if name != "position"]
        inputs = ("q", "k", "v", *arguments, *map(carry_name, carries), "position", "length")
        self.inputs = inputs
        kept = [name for name in carries if not name.startswith(("window.", "origin."))]
        self.outputs = ("y", *map(carry_name, kept))
        self.arguments = arguments

    def forward(self, tensors: Tensors, save: bool) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        value = tensors["v"]
        assert value is not None
        doubles = {name: _double(tensor) for name, tensor in tensors.items()}
        outputs = _with_autograd(lambda: self._computed(doubles))
        first = {name: tensor.detach().to(torch.float32) for name, tensor in outputs.items()}
        name = self.outputs[1]
        return {**first, "y": outputs["y"].detach().to(value.dtype)}, {"check": first[name]} if save else {}

    def backward(
        self, tensors: Tensors, saved: Mapping[str, Tensor], gradients: Tensors
    ) -> dict[str, Tensor]:
        leaves = {
            name: tensor.double().requires_grad_()
            for name, tensor in tensors.items()
            if tensor is not None and tensor.is_floating_point()
        }

        def differentiate() -> dict[str, Tensor]:
            outputs = self._computed({name: leaves.get(name, tensor) for name, tensor in tensors.items()})
            assert torch.equal(outputs[self.outputs[1]].float(), saved["check"])
            pairs = [(outputs[name], own.double()) for name, own in gradients.items() if own is not None]
            pairs = [(output, own) for output, own in pairs if output.requires_grad]
            found = torch.autograd.grad(
                [output for output, _ in pairs],
                list(leaves.values()),
                [own for _, own in pairs],
                allow_unused=True,
            )
            return {name: entry.float() for name, entry in zip(leaves, found) if entry is not None}

        return _with_autograd(differentiate)

    def saved_shapes(self, sizes: dict[str, int]) -> SavedShapes:
        """A copy of the first weight: its sizes follow from those of keys and values."""
        first = next(iter(self.state.values()))
        return {"check": (resolve(first, {**sizes, "N": sizes["B"]}), torch.float32)}

    def _computed(self, tensors: Tensors) -> dict[str, Tensor]:
        """All outputs in float64, one row after the other."""
        value = tensors["v"]
        assert value is not None
        rows = [self._row(tensors, slice(index, index + 1)) for index in range(value.shape[0])]
        return {name: torch.cat([row[name] for row in rows]) for name in self.outputs}

    def _row(self, tensors: Tensors, row: slice) -> dict[str, Tensor]:
        def of(name: str) -> Tensor | None:
            tensor = tensors.get(name)
            return None if tensor is None else tensor[row]

        value, length = tensors["v"], of("length")
        assert value is not None
        tokens = value.shape[1] if length is None else int(length)
        per_token = {entry.name for entry in signature_of(self.rule).tensors if entry.per_token}
        given = {}
        for name in ("q", "k", "v", *self.arguments):
            tensor = tensors.get(name)
            if tensor is not None:
                given[name] = tensor[row, :tokens] if name in {*"qkv", *per_token} else tensor
        q, k, v = (given.pop(name) for name in "qkv")
        gates = {name: given.pop(name) for name in GATES if name in given}
        y, after = run(self.rule, q, k, v, **gates, inputs=given, **self._start(of))  # type: ignore[arg-type]
        assert after is not None
        rest = y.new_zeros(1, value.shape[1] - tokens, *y.shape[2:])
        found = {carry_name(name): tensor for name, tensor in from_reference(after).tensors().items()}
        return {**found, "y": torch.cat([y, rest], 1)}

    def _start(self, of) -> dict:
        """The state that a row goes on from, or the memory that it starts with."""
        if of("position") is not None:
            state = OperatorState.of({name: of(carry_name(name)) for name in self.state})
            return {"initial_state": to_reference(state)}
        names = [name for name in self.state if name.startswith("memory.")]
        memory = {name.removeprefix("memory."): of(carry_name(name)) for name in names}
        return {} if None in memory.values() else {"initial_memory": memory}

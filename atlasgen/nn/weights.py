"""What a memory starts from and the learned constants of its rule, as parameters of a layer."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from atlasgen.runtime.signature import Argument, resolve
from atlasgen.spec.rule import MemoryRule
from atlasgen.spec.shapes import extent, weight_expressions
from atlasgen.spec.sizes import feature_size

Device = torch.device | str | None


class InitialWeights(nn.Module):
    """The initial weights of every head, by name [H, in, out], biases [H, out], drawn from N(0, 1 / in).

    Parameters where the rule learns them; buffers where it draws them once (memory.initial = "normal").
    A memory that is one matrix and learns where it starts from starts at zero.
    """

    def __init__(self, rule: MemoryRule, heads: int, key: int, value: int, device: Device) -> None:
        super().__init__()
        sizes = {"K": key, "V": value, "F": feature_size(rule.features, key)}
        self.learned = rule.memory.initial != "normal"
        self.names: tuple[str, ...] = ()
        for name, shape in weight_expressions(rule.memory).items():
            numbers = (heads, *(extent(text).at(sizes) for text in shape))
            tensor = torch.empty(numbers, device=device, dtype=torch.float32)
            self.names += (name,)
            if self.learned:
                self.register_parameter(name, nn.Parameter(tensor))
            else:
                self.register_buffer(name, tensor)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the weights anew; biases are zero."""
        with torch.no_grad():
            for name in self.names:
                weight = getattr(self, name)
                if weight.dim() == 2 or (self.learned and self.names == ("M",)):
                    weight.zero_()
                elif weight.device.type != "meta":
                    weight.normal_(0.0, weight.shape[1] ** -0.5)

    def forward(self) -> Tensor | dict[str, Tensor]:
        """The weights as an operator takes them."""
        weights = {name: getattr(self, name) for name in self.names}
        return weights["M"] if self.names == ("M",) else weights


class Constants(nn.Module):
    """Learned constants of a rule, [H, ...] each: gains of a norm, row factors, feature coefficients.

    They start at what the operator takes where they are not given, the coefficients at the exponential's
    (1 / p! for degree p), and those stay positive: softplus of a parameter.
    """

    def __init__(self, arguments: list[Argument], symbols: Mapping[str, int], device: Device) -> None:
        super().__init__()
        self.names = tuple(argument.name for argument in arguments)
        for argument in arguments:
            shape = resolve(argument.shape, symbols)
            self.register_parameter(
                argument.name, nn.Parameter(torch.empty(shape, device=device, dtype=torch.float32))
            )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Puts every constant back to its start."""
        with torch.no_grad():
            for name in self.names:
                parameter = getattr(self, name)
                numbers = [_START[name](index) for index in range(parameter.shape[1])]
                parameter.copy_(torch.tensor(numbers, dtype=torch.float32, device=parameter.device))

    def forward(self) -> dict[str, Tensor]:
        """The constants by argument name."""
        found = {name: getattr(self, name) for name in self.names}
        if "coefficients" in found:
            found["coefficients"] = functional.softplus(found["coefficients"])
        return found


def _before_softplus(value: float) -> float:
    return value + math.log(-math.expm1(-value))


_START = {
    "norm_gain": lambda index: 1.0,
    "norm_bias": lambda index: 0.0,
    "row_scale": lambda index: 1 / (index + 1),
    "coefficients": lambda index: _before_softplus(1 / math.factorial(index)),
}

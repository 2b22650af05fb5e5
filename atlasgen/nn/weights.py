"""What a memory starts from and the learned constants of its rule, as parameters of a layer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from atlasgen.nn.gates import apply_own
from atlasgen.runtime.signature import Argument, resolve
from atlasgen.spec.rule import MemoryRule
from atlasgen.spec.sizes import feature_size, weight_shapes
from atlasgen.verify.gain import initial_scale

Device = torch.device | str | None


class _Kept(nn.Module):
    """Named tensors that stay float32 when the layer is cast: memories and their updates are float32."""

    def __init__(self) -> None:
        super().__init__()
        self._keys: dict[str, str] = {}

    def _keep(self, name: str, tensor: Tensor, learned: bool) -> None:
        # A module has names of its own, which a weight of a rule's formula may have too.
        self._keys[name] = key = f"{name}_" if hasattr(self, name) else name
        if learned:
            self.register_parameter(key, nn.Parameter(tensor))
        else:
            self.register_buffer(key, tensor)

    def named_tensors(self) -> dict[str, Tensor]:
        """The tensors by the names that the rule has for them."""
        return {name: getattr(self, key) for name, key in self._keys.items()}

    def _apply(self, fn: Callable[..., Tensor], recurse: bool = True) -> nn.Module:
        return apply_own(self, fn)


class InitialWeights(_Kept):
    """The initial weights of every head, by name [H, in, out], biases [H, out], drawn from N(0, 1 / in),
    logits of a softmax from N(0, 1).

    Parameters where the rule learns them; buffers where it draws them once (memory.initial = "normal").
    A matrix memory that learns where it starts from starts at zero, unless a norm divides by what it gives.
    """

    def __init__(self, rule: MemoryRule, heads: int, key: int, value: int, device: Device) -> None:
        super().__init__()
        sizes = {"K": key, "V": value, "F": feature_size(rule.features, key)}
        learned = rule.memory.initial != "normal"
        self._link = rule.memory.link
        self._zero = learned and rule.memory.kind == "matrix" and rule.memory.is_linear
        for name, shape in weight_shapes(rule.memory, sizes).items():
            self._keep(name, torch.empty((heads, *shape), device=device, dtype=torch.float32), learned)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the weights anew; biases are zero."""
        with torch.no_grad():
            for weight in self.named_tensors().values():
                if weight.dim() == 2 or self._zero:
                    weight.zero_()
                elif weight.device.type != "meta":
                    weight.normal_(0.0, initial_scale(self._link, weight.shape[1]))

    def forward(self) -> dict[str, Tensor]:
        """The weights as an operator takes them."""
        return self.named_tensors()


class Constants(_Kept):
    """Learned constants of a rule, [H, ...] each: gains of a norm, row factors, feature coefficients.

    They start at what the operator takes where they are not given, the coefficients at the exponential's
    (1 / p! for degree p). Coefficients and row factors stay positive, softplus of a parameter: a feature's
    scale is a root, and a step that turned round would climb.
    """

    def __init__(self, arguments: list[Argument], symbols: Mapping[str, int], device: Device) -> None:
        super().__init__()
        for argument in arguments:
            shape = resolve(argument.shape, symbols)
            self._keep(argument.name, torch.empty(shape, device=device, dtype=torch.float32), True)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Puts every constant back to its start."""
        with torch.no_grad():
            for name, parameter in self.named_tensors().items():
                numbers = [_START[name](index) for index in range(parameter.shape[1])]
                if name in _POSITIVE:
                    numbers = [number + math.log(-math.expm1(-number)) for number in numbers]
                parameter.copy_(torch.tensor(numbers, dtype=torch.float32, device=parameter.device))

    def forward(self) -> dict[str, Tensor]:
        """The constants by argument name."""
        return {
            name: functional.softplus(tensor) if name in _POSITIVE else tensor
            for name, tensor in self.named_tensors().items()
        }


_START: dict[str, Callable[[int], float]] = {
    "norm_gain": lambda index: 1.0,
    "norm_bias": lambda index: 0.0,
    "row_scale": lambda index: 1 / (index + 1),
    "coefficients": lambda index: 1 / math.factorial(index),
}
_POSITIVE = ("row_scale", "coefficients")

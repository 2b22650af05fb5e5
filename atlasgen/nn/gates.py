"""The gates of a memory, made from the layer's input or kept as parameters; float32 throughout."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from atlasgen.errors import SpecError
from atlasgen.spec.rule import LayerGate

DEFAULT_RANK = 16


class Gate(nn.Module):
    """activation(z) * max, as a log where `in_log`; its own parameters are float32 and stay so.

    A retention of 0.997 rounds to 0.996 in bfloat16, and 0.999 to 1: so `module.to(bfloat16)`
    leaves them alone (devices do change), and autocast does not reach them.
    start: per head the gate's value at z = 0 of the projection, the factor itself where in_log.
    heads: the axis of `shape` that they are.
    """

    def __init__(
        self,
        settings: LayerGate,
        in_log: bool,
        shape: Sequence[int],
        start: Sequence[float],
        heads: int = 0,
    ) -> None:
        super().__init__()
        scale = 1.0 if settings.max is None else settings.max
        if in_log and (settings.activation != "sigmoid" or scale > 1):
            raise SpecError(
                f"layer.gates.{settings.name}",
                "the gate is a factor in [0, 1], passed as its logarithm",
                value=f"activation {settings.activation}, max {settings.max}",
                allowed=["activation = sigmoid with max at most 1"],
            )
        self.settings, self.in_log, self.scale = settings, in_log, scale
        self.shape, self.heads = tuple(shape), heads
        self.start = tuple(self._inverse(value) for value in start)

    def _inverse(self, value: float) -> float:
        """The z at which the gate has that value."""
        part = value / self.scale
        if self.settings.activation == "sigmoid":
            return math.log(part) - math.log1p(-part)
        if self.settings.activation == "softplus":
            return part + math.log(-math.expm1(-part))
        return part

    def _fill(self, tensor: Tensor) -> None:
        """Writes the starting z of each head into a tensor of the gate's shape."""
        with torch.no_grad():
            start = torch.tensor(self.start, dtype=torch.float32, device=tensor.device)
            tensor.copy_(start.reshape(-1, *[1] * (tensor.dim() - 1 - self.heads)).expand(tensor.shape))

    def _activated(self, z: Tensor) -> Tensor:
        if self.in_log:
            return functional.logsigmoid(z) + math.log(self.scale)
        activation = self.settings.activation
        if activation == "sigmoid":
            z = torch.sigmoid(z)
        elif activation == "softplus":
            z = functional.softplus(z)
        return z if self.scale == 1 else z * self.scale

    def extra_repr(self) -> str:
        log = "log of " if self.in_log else ""
        return f"{log}{self.settings.activation} * {self.scale:g}, shape={list(self.shape)}"


class TokenGate(Gate):
    """A gate per token: two stacked linears of rank `rank`, a bias, an activation.

    The wide linear has the module's dtype, the narrow one and the bias are float32.
    """

    def __init__(
        self,
        settings: LayerGate,
        in_log: bool,
        shape: Sequence[int],
        start: Sequence[float],
        hidden_size: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        heads: int = 0,
    ) -> None:
        super().__init__(settings, in_log, shape, start, heads)
        rank = min(settings.rank or DEFAULT_RANK, hidden_size)
        size = math.prod(self.shape)
        self.down = nn.Linear(hidden_size, rank, bias=False, device=device, dtype=dtype)
        self.up = nn.Parameter(torch.empty(size, rank, device=device, dtype=torch.float32))
        self.bias: nn.Parameter | None = None
        if settings.bias:
            self.bias = nn.Parameter(torch.empty(self.shape, device=device, dtype=torch.float32))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The bias gives the starting value; the projection moves it a little, not at all for x = 0."""
        self.down.reset_parameters()
        nn.init.normal_(self.up, std=0.1 / math.sqrt(self.up.shape[1]))
        if self.bias is not None:
            self._fill(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, hidden] -> float32 [B, T, *shape]."""
        low = self.down(x)
        with _without_autocast(x):
            bias = None if self.bias is None else self.bias.flatten()
            z = functional.linear(low.to(torch.float32), self.up, bias)
            return self._activated(z.unflatten(-1, self.shape))

    def _apply(self, fn: Callable[..., Tensor], recurse: bool = True) -> nn.Module:
        # torch's place for casts: only the wide linear follows them.
        if recurse:
            self.down._apply(fn)
        return apply_own(self, fn)


class ParameterGate(Gate):
    """A gate that is the same for all tokens: a parameter per head (and key, or offset)."""

    def __init__(
        self,
        settings: LayerGate,
        in_log: bool,
        shape: Sequence[int],
        start: Sequence[float],
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(settings, in_log, shape, start)
        self.raw = nn.Parameter(torch.empty(self.shape, device=device, dtype=torch.float32))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the parameter so that the gate has its starting value."""
        self._fill(self.raw)

    def forward(self, x: Tensor) -> Tensor:
        """Float32 [*shape], whatever x."""
        with _without_autocast(x):
            return self._activated(self.raw)

    def _apply(self, fn: Callable[..., Tensor], recurse: bool = True) -> nn.Module:
        return apply_own(self, fn)


def apply_own(module: nn.Module, fn: Callable[..., Tensor]) -> nn.Module:
    """nn.Module._apply for a module's own tensors, which change device but never dtype."""

    def moved(tensor: Tensor) -> Tensor:
        changed = fn(tensor)
        if changed.dtype == tensor.dtype:
            return changed
        return tensor.to(device=changed.device)

    return nn.Module._apply(module, moved, recurse=False)


def _without_autocast(x: Tensor) -> contextlib.AbstractContextManager[object]:
    kind = x.device.type
    if kind == "meta" or not torch.is_autocast_enabled(kind):
        return contextlib.nullcontext()
    return torch.autocast(kind, enabled=False)

"""A memory rule as a layer of a network: projections, short convolution, norms, gates, output."""

from __future__ import annotations

import math
import os
from typing import Any, Literal, overload

import torch
from torch import Tensor, nn
from torch.nn import functional

from atlasgen.errors import ArgumentError
from atlasgen.nn.convolution import ShortConvolution
from atlasgen.nn.defaults import horizons, largest_key_energy, largest_step, layer_gate
from atlasgen.nn.gates import Gate, ParameterGate, TokenGate
from atlasgen.nn.masking import masked_rows
from atlasgen.nn.norms import RMSNorm, unit_length, unit_rms
from atlasgen.nn.state import LayerState
from atlasgen.nn.weights import Constants, InitialWeights
from atlasgen.runtime.compile import compile
from atlasgen.runtime.layout import expand_heads, packing_of
from atlasgen.runtime.operator import MemoryOperator
from atlasgen.runtime.signature import Argument, resolve
from atlasgen.spec.load import load_rule
from atlasgen.spec.rule import MemoryRule

Device = torch.device | str | None


class MemoryLayer(nn.Module):
    """A memory that reads the sequence x [B, T, hidden_size] and answers at every token.

    q, k, v (a k and v for each micro-step of a token) are projections of x through a causal depthwise
    convolution and an activation, q and k normalised per head, and so are inputs of the rule that stand for
    keys or values of one loss term (one that [layer.gates] names is that gate times k or v); gates come from
    low-rank projections of x
    (parameters, where the rule has them per head or position); a memory that does not start at zero, and
    constants that the rule learns, are parameters too; the memory's output goes through RMSNorm, times
    SiLU of a projection of x, and an output projection.

    rule: a MemoryRule, the path of a spec file or the name of a shipped spec. num_heads: memories,
    each with its values; num_key_heads may be fewer, num_query_heads (default num_key_heads) more or
    fewer, in whole ratios. key_size and value_size are per head,
    default hidden_size // num_heads. conv (width, 0 for none), qk_norm ("l2", "rms", "none"),
    activation ("silu", "none") and output_gate default to the spec's [layer] section. backend: as
    `atlasgen.compile`.

    The gates' own parameters, initial memories and learned constants stay float32 when the layer is cast; so
    does all of their arithmetic.
    Raises SpecError, CompileError, or ArgumentError for sizes that do not fit.
    """

    def __init__(
        self,
        rule: MemoryRule | str | os.PathLike[str],
        hidden_size: int,
        num_heads: int,
        *,
        key_size: int | None = None,
        value_size: int | None = None,
        num_key_heads: int | None = None,
        num_query_heads: int | None = None,
        backend: str = "auto",
        conv: int | None = None,
        qk_norm: Literal["l2", "rms", "none"] | None = None,
        activation: Literal["silu", "none"] | None = None,
        output_gate: bool | None = None,
        norm_eps: float = 1e-6,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.rule = load_rule(rule)
        layer = self.rule.layer
        self.hidden_size, self.num_heads = hidden_size, num_heads
        self.num_key_heads = num_heads if num_key_heads is None else num_key_heads
        self.num_query_heads = self.num_key_heads if num_query_heads is None else num_query_heads
        self._check_heads()
        per_head = max(hidden_size // num_heads, 1)
        self.key_size = key_size or layer.key_size or per_head
        self.value_size = value_size or layer.value_size or per_head
        self.qk_norm = _choice("qk_norm", qk_norm or layer.qk_norm, ("l2", "rms", "none"))
        self.activation = _choice("activation", activation or layer.activation, ("silu", "none"))
        self.operator: MemoryOperator = compile(self.rule, backend)
        if self.operator.signature.joins and self.key_size != self.value_size:
            raise ArgumentError(
                "value_size", f"the rule {self.rule.name} adds keys to values", value=self.value_size,
                allowed=f"key_size, {self.key_size}",
            )  # fmt: skip

        self._steps = (self.rule.optimizer.micro_steps,) if self.rule.by_step("k") else ()
        steps = math.prod(self._steps)
        keys, values = steps * self.num_key_heads * self.key_size, steps * num_heads * self.value_size
        self._rows, self._scaled = row_inputs(self.rule, False), row_inputs(self.rule, True)
        row_sizes = {"key": self.key_size, "value": self.value_size}
        more = (steps * num_heads * row_sizes[kind] for kind in self._rows.values())
        self._widths = (self.num_query_heads * self.key_size, keys, values, *more)
        read = max(self.num_query_heads, num_heads) * self.value_size
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        self.projection = nn.Linear(hidden_size, sum(self._widths), bias=False, **factory)
        self.convolution = ShortConvolution(
            sum(self._widths), layer.conv if conv is None else conv, **factory
        )
        energy = largest_key_energy(self.rule, self.qk_norm, self.key_size)
        self._largest_step = largest_step(self.rule, energy, self.key_size, self.value_size)
        self._gates: dict[str, str] = {}
        self.gates = self._make_gates(device, dtype)
        sizes = (num_heads, self.key_size, self.value_size)
        starts = self.rule.memory.initial != "zero"
        self.initial_memory = InitialWeights(self.rule, *sizes, device) if starts else None
        constants = [entry for entry in self.operator.signature.tensors if entry.role == "constant"]
        symbols = {"H": num_heads, "K": self.key_size, "V": self.value_size}
        self.constants = Constants(constants, symbols, device) if constants else None
        self.output_norm = RMSNorm(self.value_size, norm_eps, **factory)
        gated = layer.output_gate if output_gate is None else output_gate
        self.output_gate = nn.Linear(hidden_size, read, bias=False, **factory) if gated else None
        self.output = nn.Linear(read, hidden_size, bias=False, **factory)

    def _check_heads(self) -> None:
        """Raises ArgumentError for heads that are not in whole ratios."""
        memories, keys, queries = self.num_heads, self.num_key_heads, self.num_query_heads
        sizes = {"hidden_size": self.hidden_size, "num_heads": memories, "num_key_heads": keys}
        for name, size in (sizes | {"num_query_heads": queries}).items():
            if size < 1:
                raise ArgumentError(name, "too small", value=size, allowed="a whole number from 1")
        if memories % keys:
            raise ArgumentError(
                "num_key_heads", f"does not divide num_heads = {memories}", value=keys,
                allowed="a divisor of num_heads: each key head serves as many memories",
            )  # fmt: skip
        if queries % memories and memories % queries:
            raise ArgumentError(
                "num_query_heads", f"in no whole ratio to num_heads = {memories}", value=queries,
                allowed="a multiple or a divisor of num_heads",
            )  # fmt: skip

    def _make_gates(self, device: Device, dtype: torch.dtype | None) -> nn.ModuleDict:
        """A module for each gate and scalar input of the operator; notes under which key."""
        gates = nn.ModuleDict()
        for argument in self.operator.signature.tensors:
            if argument.role == "constant" or argument.name in self._rows:
                continue
            # ModuleDict refuses the names of its own methods, which a rule's input may have.
            name = f"{argument.name}_" if hasattr(nn.ModuleDict, argument.name) else argument.name
            self._gates[argument.name] = name
            gates[name] = self._gate(argument, device, dtype)
        return gates

    def _gate(self, argument: Argument, device: Device, dtype: torch.dtype | None) -> Gate:
        """The module that makes one of the operator's arguments."""
        declared = self.rule.input_named(argument.name)
        in_log = argument.role == "log_gate" or (declared is not None and declared.range == "log_decay")
        name = argument.name.removeprefix("log_") if argument.role == "log_gate" else argument.name
        settings = layer_gate(self.rule, name, self._largest_step)
        per_token = argument.shape[:2] == ("B", "T")
        symbols = {"H": self.num_heads, "K": self.key_size, "V": self.value_size}
        shape = resolve(argument.shape[2:] if per_token else argument.shape, symbols)
        if settings.init is None:
            start = [1 - 1 / horizon for horizon in horizons(self.num_heads)]
        else:
            start = [settings.init] * self.num_heads
        if per_token:
            heads = argument.shape.index("H") - 2
            return TokenGate(settings, in_log, shape, start, self.hidden_size, device, dtype, heads)
        return ParameterGate(settings, in_log, shape, start, device)

    def reset_parameters(self) -> None:
        """Draws all parameters anew, e.g. after `to_empty` on a layer made on the meta device."""
        for module in self.modules():
            reset = getattr(module, "reset_parameters", None)
            if module is not self and reset is not None:
                reset()

    @overload
    def forward(
        self,
        x: Tensor,
        state: LayerState | None = None,
        *,
        output_state: Literal[False] = False,
        cu_seqlens: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor: ...

    @overload
    def forward(
        self,
        x: Tensor,
        state: LayerState | None = None,
        *,
        output_state: bool,
        cu_seqlens: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Any: ...

    def forward(
        self,
        x: Tensor,
        state: LayerState | None = None,
        *,
        output_state: bool = False,
        cu_seqlens: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, LayerState]:
        """x [B, T, hidden_size] -> y of the same shape, or (y, state) with output_state.

        state: that of a former call, for as many sequences; none starts them at the beginning.
        cu_seqlens: int [N + 1], borders of N sequences packed in one row (B = 1).
        mask: [B, T], nonzero for tokens, 0 for padding on any side or in between: padded rows change
        nothing and give 0. With both, the sequences are those of cu_seqlens, without masked tokens.
        Raises ArgumentError for shapes that disagree.
        """
        self._check_input(x, state, cu_seqlens)
        if mask is None:
            y, after = self._run(x, state, output_state, cu_seqlens)
        else:
            rows = masked_rows(mask, x, cu_seqlens)
            y, after = self._run(rows.pack(x), state, output_state, rows.borders)
            y = rows.unpack(y, x.shape[0])
        if not output_state:
            return y
        assert after is not None
        return y, after

    def _check_input(self, x: Tensor, state: LayerState | None, cu_seqlens: Tensor | None) -> None:
        if x.dim() != 3 or x.shape[2] != self.hidden_size:
            raise ArgumentError(
                "x", "wrong shape", value=list(x.shape), allowed=f"[B, T, {self.hidden_size}]"
            )
        if not x.is_floating_point():
            raise ArgumentError(
                "x",
                "not floating point",
                value=x.dtype,
                allowed="float32, bfloat16, float16",
                suggestion="embed tokens first, e.g. with torch.nn.Embedding",
            )
        if state is not None and not isinstance(state, LayerState):
            raise ArgumentError(
                "state",
                f"a {type(state).__name__}",
                allowed="a LayerState, as a call with output_state=True returns it",
            )
        if cu_seqlens is None:
            return
        if not isinstance(cu_seqlens, Tensor) or cu_seqlens.dim() != 1 or x.shape[0] != 1:
            raise ArgumentError(
                "cu_seqlens",
                f"its sequences are packed in one row, while x has batch {x.shape[0]}",
                value=type(cu_seqlens).__name__,
                allowed="an int32 or int64 tensor [N + 1] with x [1, total, hidden_size]",
                suggestion="reshape [B, T, D] to [1, B * T, D] and give every sequence's borders",
            )

    def _run(
        self, x: Tensor, state: LayerState | None, output_state: bool, cu_seqlens: Tensor | None
    ) -> tuple[Tensor, LayerState | None]:
        packing = None if cu_seqlens is None else packing_of(cu_seqlens, x.shape[1], False)
        rows = self.projection(x)
        rows, conv = self.convolution(rows, None if state is None else state.conv, packing)
        if self.activation == "silu":
            rows = functional.silu(rows)
        q, k, v, *more = rows.split(self._widths, dim=-1)
        q = self._normalised(q.unflatten(-1, (self.num_query_heads, self.key_size)))
        k = self._normalised(k.unflatten(-1, (*self._steps, self.num_key_heads, self.key_size)))
        v = v.unflatten(-1, (*self._steps, self.num_heads, self.value_size))
        starts = state is None
        constants = {} if self.constants is None else self.constants()
        y, memory = self.operator(
            q,
            k,
            v,
            initial_memory=self.initial_memory() if starts and self.initial_memory is not None else None,
            initial_state=None if state is None else state.memory,
            output_final_state=output_state,
            cu_seqlens=cu_seqlens,
            **self._gate_values(x, k, v),
            **{name: self._input_rows(name, tensor) for name, tensor in zip(self._rows, more)},
            **constants,
        )
        y = self.output_norm(y).flatten(-2)
        if self.output_gate is not None:
            y = y * functional.silu(self.output_gate(x))
        after = None if memory is None else LayerState(conv, memory)
        return self.output(y), after

    def _gate_values(self, x: Tensor, k: Tensor, v: Tensor) -> dict[str, Tensor]:
        """Gates and inputs by name; those that scale keys or values, times these."""
        found = {name: self.gates[key](x) for name, key in self._gates.items()}
        rows = {"key": expand_heads(k, self.num_heads // self.num_key_heads, k.dim() - 2), "value": v}
        return found | {name: found[name] * rows[kind] for name, kind in self._scaled.items()}

    def _input_rows(self, name: str, rows: Tensor) -> Tensor:
        """An input that stands for keys or values, [B, T, H, K] or [B, T, H, V]; by step [B, T, n, H, ..]."""
        rows = rows.unflatten(-1, (*self._steps, self.num_heads, -1))
        return self._normalised(rows) if self._rows[name] == "key" else rows

    def _normalised(self, x: Tensor) -> Tensor:
        if self.qk_norm == "l2":
            return unit_length(x)
        return unit_rms(x) if self.qk_norm == "rms" else x

    def extra_repr(self) -> str:
        return (
            f"rule={self.rule.name}, hidden_size={self.hidden_size}, num_heads={self.num_heads}, "
            f"key_size={self.key_size}, value_size={self.value_size}"
        )


def row_inputs(rule: MemoryRule, gated: bool) -> dict[str, Literal["key", "value"]]:
    """The inputs of any range that stand for keys or values, with which of the two.

    gated: those that the spec gives an entry in [layer.gates], else those that it does not.
    """
    gates = {entry.name for entry in rule.layer.gates}
    found: dict[str, Literal["key", "value"]] = {}
    for entry in rule.inputs:
        kind = rule.stands_for(entry.name)
        if kind is not None and entry.range == "any" and (entry.name in gates) == gated:
            found[entry.name] = kind
    return found


def _choice(name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise ArgumentError(name, "unknown", value=value, allowed=", ".join(allowed))
    return value

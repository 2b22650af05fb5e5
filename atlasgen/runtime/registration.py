"""Compiled programs as torch operators: one pair, forward and backward, per rule and backend.

The forward operator returns the program's outputs and then what its backward needs; both are
opaque to autograd and torch.compile, which know them by their shapes alone.
"""

from __future__ import annotations

import contextlib
import keyword
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._C import _functorch as functorch  # type: ignore[attr-defined]
from torch.autograd import forward_ad

from atlasgen.errors import CompileError
from atlasgen.runtime.carries import carry_shapes, fresh_source
from atlasgen.runtime.executable import Executable, SavedShapes, Tensors
from atlasgen.runtime.signature import resolve
from atlasgen.spec.rule import MemoryRule
from atlasgen.spec.sizes import feature_extent

NAMESPACE = "atlasgen"
NOT_DIFFERENTIABLE = ("position", "length")
_REQUIRED = ("q", "k", "v")
_MOST_ARGUMENTS = 64  # of an operator's schema
_ANY_SIZE = 64  # at which the names of what a program saves are asked for; every size expression has a value
_SECOND_DERIVATIVE = (
    "second derivatives through a memory rule are not served: its backward is a compiled program "
    "without a derivative of its own. Use backend='reference', whose derivatives of all orders are "
    "torch's, or drop create_graph=True"
)
_FORWARD_MODE = (
    "forward-mode derivatives (torch.func.jvp, jacfwd, torch.autograd.forward_ad) through a memory "
    "rule are not served: its compiled program has a backward only. Use backend='reference', whose "
    "derivatives are torch's in both modes, or take them backward, with torch.autograd.grad"
)
_FUNCTION_TRANSFORM = (
    "torch.func.grad, vjp and jacrev through a memory rule are not served: its compiled program has "
    "a derivative for torch.autograd only. Use torch.autograd.grad or backward(), or "
    "backend='reference', whose derivatives are torch's"
)


class Program:
    """An executable behind a registered operator; `program_for` makes one per rule and backend."""

    def __init__(self, executable: Executable, name: str) -> None:
        self.executable = executable
        self.name = name
        self.inputs = executable.inputs
        self.outputs = executable.outputs
        _refuse_too_many(executable.rule, len(self.inputs) + 1)
        self.differentiable = tuple(entry for entry in self.inputs if entry not in NOT_DIFFERENTIABLE)
        self._features = feature_extent(executable.rule.features)
        self._carry_shapes = carry_shapes(executable.rule)
        sizes = dict.fromkeys(("B", "T", "H", "resume"), 1) | self._memory_sizes(_ANY_SIZE, _ANY_SIZE)
        self.saved = tuple(executable.saved_shapes(sizes))
        self.operator = self._registered()

    def __call__(self, tensors: Tensors) -> dict[str, Tensor]:
        """Outputs by name for inputs by name; inputs that are missing are not given.

        Raises NotImplementedError for inputs that carry a forward-mode tangent or belong to
        torch.func.grad.
        """
        arguments = [tensors.get(name) for name in self.inputs]
        if _transforms_are_open():
            _refuse_transforms(arguments)
        save = torch.is_grad_enabled() and any(
            tensor is not None and tensor.requires_grad for tensor in arguments
        )
        results = self.operator(*arguments, save)
        return dict(zip(self.outputs, results[: len(self.outputs)]))

    def __repr__(self) -> str:
        return f"Program({NAMESPACE}::{self.name}_forward)"

    def _registered(self) -> Any:
        """The forward operator, registered with its backward, fakes and derivative."""
        optional = [f"Tensor{'' if name in _REQUIRED else '?'}" for name in self.inputs]
        inputs = [f"{kind} {_word(name)}" for kind, name in zip(optional, self.inputs)]
        forward = self._operator(
            "forward",
            [*inputs, "bool save_for_backward"],
            len(self.outputs) + len(self.saved),
            self._forward,
            self._forward_fake,
        )
        # Lists: a schema takes so many arguments only, and deep memories have many tensors.
        self._operator(
            "backward",
            ["Tensor?[] inputs", "Tensor[] saved", "Tensor?[] gradients"],
            len(self.differentiable),
            self._backward,
            self._backward_fake,
        )
        forward.register_autograd(self._derivative, setup_context=self._set_up)
        self._backward_operator = _overload(f"{self.name}_backward")
        return _overload(f"{self.name}_forward")

    def _operator(
        self,
        direction: str,
        arguments: Sequence[str],
        results: int,
        implementation: Callable[..., Any],
        fake: Callable[..., Any],
    ) -> Any:
        schema = f"({', '.join(arguments)}) -> ({', '.join(['Tensor'] * results)})"
        operator = torch.library.custom_op(
            f"{NAMESPACE}::{self.name}_{direction}", implementation, mutates_args=(), schema=schema
        )
        operator.register_fake(fake)
        return operator

    # The four functions behind the operators; arguments in the order of the schemas.

    def _forward(self, *arguments: Any) -> Any:
        tensors, save = self._named(arguments[:-1]), arguments[-1]
        if tensors["v"].numel() == 0:
            outputs, saved = self._forward_of_nothing(tensors), {}
        else:
            with _on_device_of(tensors["v"]):
                outputs, saved = self.executable.forward(tensors, save)
        like, shapes = tensors["v"], self._saved_shapes(tensors)
        kept = [
            saved[name]
            if save and name in saved
            else torch.zeros(shape if save else (0,), dtype=dtype, device=like.device)
            for name, (shape, dtype) in shapes.items()
        ]
        return _fresh([*(outputs[name] for name in self.outputs), *kept], arguments)

    def _forward_fake(self, *arguments: Any) -> Any:
        tensors, save = self._named(arguments[:-1]), arguments[-1]
        like = tensors["v"]
        shapes = [self._output_shape(name, tensors) for name in self.outputs]
        saved = [(shape if save else (0,), dtype) for shape, dtype in self._saved_shapes(tensors).values()]
        return tuple(like.new_empty(shape, dtype=dtype) for shape, dtype in [*shapes, *saved])

    def _backward(self, *arguments: Any) -> Any:
        inputs, kept, incoming = arguments
        tensors, saved = self._named(inputs), dict(zip(self.saved, kept))
        gradients = {
            name: None if gradient is None else gradient.contiguous()
            for name, gradient in zip(self.outputs, incoming)
        }
        if tensors["v"].numel() == 0:
            found = self._backward_of_nothing(tensors, gradients)
        else:
            with _on_device_of(tensors["v"]):
                found = self.executable.backward(tensors, saved, gradients)
        results = []
        for name in self.differentiable:
            tensor, gradient = tensors[name], found.get(name)
            if tensor is None:
                results.append(tensors["v"].new_empty(0))
            elif gradient is None:
                results.append(torch.zeros_like(tensor, memory_format=torch.contiguous_format))
            else:
                results.append(gradient.to(tensor.dtype).reshape(tensor.shape))
        return _fresh(results, [*inputs, *kept, *incoming])

    def _backward_fake(self, *arguments: Any) -> Any:
        tensors = self._named(arguments[0])
        given = (tensors[name] for name in self.differentiable)
        return tuple(
            tensors["v"].new_empty(0)
            if tensor is None
            else tensor.new_empty(tensor.shape)  # contiguous, whatever the input's strides
            for tensor in given
        )

    # Autograd.

    def _set_up(self, ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        saved = output[len(self.outputs) :]
        ctx.mark_non_differentiable(*saved)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs[:-1], *saved)
        ctx.has_saved = inputs[-1]

    def _derivative(self, ctx: Any, *gradients: Tensor | None) -> Any:
        if not ctx.has_saved:
            raise RuntimeError(
                f"{NAMESPACE}::{self.name}_forward was called with save_for_backward=False, so it "
                "has no derivative; call it through atlasgen.compile"
            )
        tensors, count = ctx.saved_tensors, len(self.inputs)
        found = self._backward_operator(tensors[:count], tensors[count:], gradients[: len(self.outputs)])
        if torch.is_grad_enabled():  # create_graph: autograd does not see through lists of tensors
            sources = (entry for entry in (*tensors[:count], *gradients) if entry is not None)
            found = _Once.apply(len(found), *found, *(entry for entry in sources if entry.requires_grad))
        by_name = dict(zip(self.differentiable, found))
        wanted = zip(self.inputs, ctx.needs_input_grad)
        return (*(by_name.get(name) if needed else None for name, needed in wanted), None)

    # Shapes and empty calls.

    def _named(self, arguments: Sequence[Any]) -> dict[str, Any]:
        return dict(zip(self.inputs, arguments))

    def _memory_sizes(self, key: int, value: int) -> dict[str, int]:
        return {"K": key, "V": value, "F": self._features.at({"K": key})}

    def _sizes(self, tensors: Mapping[str, Any]) -> dict[str, int]:
        batch, tokens, heads, value = tensors["v"].shape
        sizes = {"B": batch, "N": batch, "T": tokens, "H": heads}
        sizes |= self._memory_sizes(tensors["q"].shape[3], value)
        return {**sizes, "resume": int(tensors.get("position") is not None)}

    def _saved_shapes(self, tensors: Mapping[str, Any]) -> SavedShapes:
        return self.executable.saved_shapes(self._sizes(tensors))

    def _output_shape(self, name: str, tensors: Mapping[str, Any]) -> tuple[tuple[int, ...], torch.dtype]:
        sizes = self._sizes(tensors)
        if name == "y":
            return tuple(tensors["v"].shape), tensors["v"].dtype
        return resolve(self._carry_shapes[name], sizes), torch.float32

    def _source(self, name: str, tensors: Mapping[str, Any]) -> str:
        """The initial carry that a final one equals where there are no tokens."""
        return fresh_source(name) if tensors.get("position") is None else name

    def _forward_of_nothing(self, tensors: Mapping[str, Any]) -> dict[str, Tensor]:
        """Without tokens the final carries are the initial ones; programs need not handle that."""
        outputs = {}
        for name in self.outputs:
            initial = tensors.get(self._source(name, tensors)) if name != "y" else None
            shape, dtype = self._output_shape(name, tensors)
            if initial is None:
                outputs[name] = torch.zeros(shape, dtype=dtype, device=tensors["v"].device)
            else:
                outputs[name] = initial.clone()
        return outputs

    def _backward_of_nothing(self, tensors: Mapping[str, Any], gradients: Tensors) -> Any:
        found: dict[str, Tensor] = {}
        for name in self.outputs:
            source, gradient = self._source(name, tensors), gradients[name]
            if name != "y" and gradient is not None and tensors.get(source) is not None:
                found[source] = found[source] + gradient if source in found else gradient
        return found


def _refuse_too_many(rule: MemoryRule, count: int) -> None:
    """Raises CompileError for more arguments than a schema of torch takes."""
    if count > _MOST_ARGUMENTS:
        raise CompileError(
            "weights",
            f"{len(rule.weights)} with gates of their own",
            f"the operator would take {count} tensors, and torch's take {_MOST_ARGUMENTS}",
            "fewer weights, or gates that they share",
            rule=rule.name,
        )


class _Once(torch.autograd.Function):
    """The first `count` tensors, as functions of the others that have no derivative of their own."""

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(tensor.view_as(tensor) for tensor in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise NotImplementedError(_SECOND_DERIVATIVE)


def _transforms_are_open() -> bool:
    """Whether the call is inside a dual level or a transform of torch.func; cheap, asked every call."""
    if torch.compiler.is_compiling():
        return False
    return forward_ad._current_level >= 0 or functorch.peek_interpreter_stack() is not None


def _refuse_transforms(arguments: Sequence[Any]) -> None:
    """Raises NotImplementedError where a derivative would be lost; batches of torch.vmap pass."""
    levels = {entry.level(): entry.key() for entry in functorch.get_interpreter_stack() or ()}
    current = max(levels, default=0)
    for layer in arguments:
        while isinstance(layer, Tensor):
            wrapped = functorch.is_functorch_wrapped_tensor(layer)
            level = functorch.maybe_get_level(layer) if wrapped else current
            # A tangent of an outer level cannot be seen from here: its tensors count as having one.
            outer = level != current and levels.get(level) == functorch.TransformType.Jvp
            if outer or (not functorch.is_batchedtensor(layer) and _has_tangent(layer)):
                raise NotImplementedError(_FORWARD_MODE)
            if wrapped and torch.is_grad_enabled() and layer.requires_grad:
                raise NotImplementedError(_FUNCTION_TRANSFORM)
            layer = functorch.get_unwrapped(layer) if wrapped else None


def _has_tangent(tensor: Tensor) -> bool:
    return forward_ad._current_level >= 0 and forward_ad.unpack_dual(tensor).tangent is not None


def _word(name: str) -> str:
    """A name that a schema accepts: inputs of a rule may be called "lambda"."""
    return f"{name}_" if keyword.iskeyword(name) else name


def _overload(name: str) -> Any:
    return getattr(getattr(torch.ops, NAMESPACE), name).default


@contextlib.contextmanager
def _on_device_of(tensor: Tensor) -> Iterator[None]:
    """Launches go to the tensor's device, and autocast leaves the program's own products alone."""
    kind = tensor.device.type
    device = torch.cuda.device(tensor.device) if tensor.is_cuda else contextlib.nullcontext()
    with device, torch.autocast(kind, enabled=False):
        yield


def _fresh(results: Sequence[Tensor], arguments: Sequence[Any]) -> tuple[Tensor, ...]:
    """The results contiguous, each in memory of its own, as operators must return them."""
    used = {_memory(argument) for argument in arguments if isinstance(argument, Tensor)}
    fresh = []
    for result in results:
        result = result.contiguous()
        if _memory(result) in used:
            result = result.clone()
        used.add(_memory(result))
        fresh.append(result)
    return tuple(fresh)


def _memory(tensor: Tensor) -> int:
    """Identity of a tensor's storage; an address would not tell empty ones apart."""
    return tensor.untyped_storage()._cdata


_programs: dict[tuple[str, str], Program] = {}
_lock = threading.Lock()


def program_for(rule: MemoryRule, backend: str, factory: Callable[[MemoryRule], Executable]) -> Program:
    """The program of a rule on a backend, made and registered at the first call only."""
    key = (rule.hash, backend)
    program = _programs.get(key)
    if program is None:
        with _lock:
            if key not in _programs:
                _programs[key] = Program(factory(rule), f"{backend}_{rule.hash}")
            program = _programs[key]
    return program

"""Triton kernels on a CPU: bfloat16 made right, and counts of what a kernel does.

Triton's interpreter (``TRITON_INTERPRET=1`` before a kernel module is imported) runs every program
of a grid in numpy, which has no bfloat16: the interpreter keeps such values as their 16 bits in
uint16 and, up to Triton 3.9, computes on those bits as if they were integers and cuts float32 off
instead of rounding it; and it makes a tile of a comparison of two numbers one of integers, which is no mask.
:func:`install_shim` repairs these. :func:`count` counts launches, bytes and
flops of matrix products.

Both replace methods of the interpreter's classes, by the names that Triton 3.6 to 3.9 share.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import triton
import triton.language as tl
from triton.runtime import interpreter as triton_interpreter

Builder = triton_interpreter.InterpreterBuilder
TensorHandle = triton_interpreter.TensorHandle


class InterpreterInactiveError(RuntimeError):
    """Something needs interpreted kernels, and the process was not started for them."""


def is_interpreted(kernel: object | None = None) -> bool:
    """Whether `kernel` is interpreted; without one, whether kernels imported now would be."""
    if kernel is None:
        return bool(triton.knobs.runtime.interpret)
    return isinstance(kernel, triton_interpreter.InterpretedFunction)


def require_interpreted(kernel: object | None = None) -> None:
    """Raise InterpreterInactiveError unless :func:`is_interpreted` holds."""
    if is_interpreted(kernel):
        return
    if kernel is None:
        raise InterpreterInactiveError(
            "The Triton interpreter is off: TRITON_INTERPRET is not set to 1 in this process. "
            "Set TRITON_INTERPRET=1 before the first kernel module is imported."
        )
    name = getattr(kernel, "__name__", repr(kernel))
    raise InterpreterInactiveError(
        f"Kernel {name} is a {type(kernel).__name__}, not an interpreted function: its module was "
        "imported while TRITON_INTERPRET was not 1. Set TRITON_INTERPRET=1 before that import."
    )


# --- bfloat16 -------------------------------------------------------------------------------------


def widen(bits: np.ndarray) -> np.ndarray:
    """The float32 values of bfloat16 bit patterns (uint16), exactly; any shape."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def narrow(values: np.ndarray, toward_zero: bool = False) -> np.ndarray:
    """The bfloat16 bit patterns (uint16) of float32 values; any shape.

    Rounds to nearest, ties to even, unless `toward_zero`. NaN stays NaN and infinities stay.
    """
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32).reshape(np.shape(values))
    kept = bits >> np.uint32(16)
    if toward_zero:
        rounded = kept
    else:
        # Half of the last kept place less one, plus one more where that place is odd.
        rounded = (bits + np.uint32(0x7FFF) + (kept & np.uint32(1))) >> np.uint32(16)
    # A NaN whose payload is in the low bits alone would turn into an infinity, or carry over.
    return np.where(np.isnan(values), kept | np.uint32(0x40), rounded).astype(np.uint16)


def _holds_bfloat16(handle: Any) -> bool:
    """Comparisons keep their operands' dtype on boolean data, so the data decides too."""
    return (
        isinstance(handle, TensorHandle)
        and handle.dtype.scalar == tl.bfloat16
        and handle.data.dtype == np.uint16
    )


def _widened(handle: Any) -> Any:
    """The same values as a float32 handle; a handle of another dtype is returned as it is."""
    return TensorHandle(widen(handle.data), tl.float32) if _holds_bfloat16(handle) else handle


def _narrowed(handle: Any) -> Any:
    """A float32 result rounded to bfloat16; the booleans of a comparison are kept."""
    if handle.data.dtype == np.bool_:
        return TensorHandle(handle.data, tl.bfloat16)
    return TensorHandle(narrow(handle.data), tl.bfloat16)


def _elementwise_in_float32(original: Callable[..., Any]) -> Callable[..., Any]:
    """Compute on float32 and round once, where every floating operand is bfloat16."""

    @functools.wraps(original)
    def method(self: Any, *operands: Any) -> Any:
        if not any(_holds_bfloat16(operand) for operand in operands):
            return original(self, *operands)
        return _narrowed(original(self, *map(_widened, operands)))

    return method


def _select_or_elementwise(original: Callable[..., Any]) -> Callable[..., Any]:
    """Ternary operations; a selection copies bits and needs no arithmetic."""
    in_float32 = _elementwise_in_float32(original)

    @functools.wraps(original)
    def method(self: Any, first: Any, *rest: Any) -> Any:
        chosen = original if first.data.dtype == np.bool_ else in_float32
        return chosen(self, first, *rest)

    return method


def _cast(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def method(self: Any, source: Any, target: Any) -> Any:
        source = _widened(source)
        if target.scalar == tl.bfloat16:
            return TensorHandle(narrow(source.data.astype(np.float32)), tl.bfloat16)
        return original(self, source, target)

    return method


def _cast_with_rounding_mode(original: Callable[..., Any]) -> Callable[..., Any]:
    """Casts with a named rounding mode; those from and to 8 bits keep Triton's own arithmetic."""

    @functools.wraps(original)
    def method(self: Any, source: Any, target: Any, rounding_mode: Any) -> Any:
        dtypes = (source.dtype.scalar, target.scalar)
        if tl.bfloat16 not in dtypes or any(dtype.is_fp8() for dtype in dtypes):
            return original(self, source, target, rounding_mode)
        if target.scalar != tl.bfloat16:
            return self.cast_impl(source, target)
        toward_zero = rounding_mode == triton_interpreter._ir.ROUNDING_MODE.RTZ
        values = _widened(source).data.astype(np.float32)
        return TensorHandle(narrow(values, toward_zero), tl.bfloat16)

    return method


def _dot(original: Callable[..., Any]) -> Callable[..., Any]:
    """Products of bfloat16 values are exact in float32; the sums are float32 as on a GPU.

    Operands of tf32 products lose the digits that tensor cores drop.
    """

    @functools.wraps(original)
    def method(self: Any, a: Any, b: Any, accumulator: Any, precision: Any, *options: Any) -> Any:
        a, b = _widened(a), _widened(b)
        if precision == triton_interpreter._ir.INPUT_PRECISION.TF32 and a.dtype.scalar == tl.float32:
            a, b = _as_tf32(a), _as_tf32(b)
        return original(self, a, b, accumulator, precision, *options)

    return method


def _as_tf32(handle: Any) -> Any:
    """The float32 values rounded to ten bits after the first, to the nearest."""
    bits = np.ascontiguousarray(handle.data, dtype=np.float32).view(np.uint32)
    rounded = ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    return TensorHandle(np.where(np.isfinite(handle.data), rounded, handle.data), handle.dtype)


def _splat(original: Callable[..., Any]) -> Callable[..., Any]:
    """A number as a tile; that of a comparison keeps its boolean, which Triton casts to the operands."""

    @functools.wraps(original)
    def method(self: Any, shape: Any, source: Any) -> Any:
        if source.data.dtype != np.bool_:
            return original(self, shape, source)
        return TensorHandle(np.full(shape.shape, source.data), tl.int1)

    return method


def _constant(self: Any, value: float) -> Any:
    return TensorHandle(narrow(np.array([value], dtype=np.float32)), tl.bfloat16)


def _retyped(tensor: Any, handle: Any) -> Any:
    """A triton tensor of the same shape with another handle and its dtype."""
    shaped = isinstance(tensor.type, tl.block_type)
    dtype = tl.block_type(handle.dtype, tensor.type.shape) if shaped else handle.dtype
    return tl.core.tensor(handle, dtype)


def _reduce_in_float32(original: Callable[..., Any]) -> Callable[..., Any]:
    """Reductions and scans: the whole sum in float32, its result rounded."""

    @functools.wraps(original)
    def method(self: Any, operands: Any) -> Any:
        if not isinstance(operands, tuple):
            return method(self, (operands,))[0]
        wide = tuple(
            _retyped(operand, _widened(operand.handle)) if _holds_bfloat16(operand.handle) else operand
            for operand in operands
        )
        return tuple(
            _retyped(result, _narrowed(result.handle)) if _holds_bfloat16(operand.handle) else result
            for operand, result in zip(operands, original(self, wide), strict=False)
        )

    return method


_SHIM: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "binary_op": _elementwise_in_float32,
    "unary_op": _elementwise_in_float32,
    "ternary_op": _select_or_elementwise,
    "create_fma": _elementwise_in_float32,
    "create_rsqrt": _elementwise_in_float32,
    "cast_impl": _cast,
    "create_fp_to_fp": _cast_with_rounding_mode,
    "create_dot": _dot,
    "create_splat": _splat,
}
_INSTALLED = "_atlasgen_bfloat16"


def install_shim() -> None:
    """Make bfloat16 right in Triton's interpreter: dots, casts, arithmetic, reductions.

    Arithmetic on bfloat16 is done in float32 and rounded to nearest even, once per operation, once
    per reduction or scan; dots accumulate in float32. Later calls do nothing. Compiled kernels are
    not affected.
    """
    if getattr(Builder, _INSTALLED, False):
        return
    for name, wrap in _SHIM.items():
        setattr(Builder, name, wrap(getattr(Builder, name)))
    if not hasattr(Builder, "get_bf16"):  # Triton 3.6 has no bfloat16 constants here
        Builder.get_bf16 = _constant
    reductions = triton_interpreter.ReduceScanOpInterface
    reductions.apply = _reduce_in_float32(reductions.apply)
    setattr(Builder, _INSTALLED, True)


# --- counting -------------------------------------------------------------------------------------


@dataclass
class KernelCounters:
    """What all launches of one kernel did. Bytes are those of active lanes, in device memory."""

    launches: int = 0
    bytes_loaded: int = 0
    bytes_stored: int = 0
    dot_flops: int = 0


@dataclass
class Counters:
    """Counts per kernel name, and their totals."""

    kernels: dict[str, KernelCounters] = field(default_factory=dict)

    @property
    def launches(self) -> int:
        return sum(kernel.launches for kernel in self.kernels.values())

    @property
    def bytes_loaded(self) -> int:
        return sum(kernel.bytes_loaded for kernel in self.kernels.values())

    @property
    def bytes_stored(self) -> int:
        return sum(kernel.bytes_stored for kernel in self.kernels.values())

    @property
    def dot_flops(self) -> int:
        """2 m n k for each product of [m, k] with [k, n], padding included."""
        return sum(kernel.dot_flops for kernel in self.kernels.values())


def _active_bytes(pointers: Any, mask: Any) -> int:
    lanes = np.count_nonzero(np.broadcast_to(mask.data, np.shape(pointers.data)))
    # int1 is stored in a byte.
    return int(lanes) * max(1, pointers.get_element_ty().primitive_bitwidth // 8)


def _dot_flops(a: Any, b: Any) -> int:
    return 2 * int(np.prod(a.data.shape)) * int(b.data.shape[-1])


class _Recorder:
    """The wrapped methods of one :func:`count`, and the kernel that is running."""

    def __init__(self) -> None:
        self.counters = Counters()
        self.current = KernelCounters()

    def launch(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def method(executor: Any, *arguments: Any, **keywords: Any) -> Any:
            name = executor.fn.__name__
            self.current = self.counters.kernels.setdefault(name, KernelCounters())
            self.current.launches += 1
            return original(executor, *arguments, **keywords)

        return method

    def load(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def method(builder: Any, pointers: Any, mask: Any, *options: Any, **named: Any) -> Any:
            self.current.bytes_loaded += _active_bytes(pointers, mask)
            return original(builder, pointers, mask, *options, **named)

        return method

    def store(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def method(builder: Any, pointers: Any, value: Any, mask: Any, *options: Any) -> Any:
            self.current.bytes_stored += _active_bytes(pointers, mask)
            return original(builder, pointers, value, mask, *options)

        return method

    def dot(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def method(builder: Any, a: Any, b: Any, *options: Any) -> Any:
            self.current.dot_flops += _dot_flops(a, b)
            return original(builder, a, b, *options)

        return method


@contextlib.contextmanager
def count() -> Iterator[Counters]:
    """Count the launches, bytes and dot flops of the interpreted kernels run in this context.

    Yields Counters, which fill while the context lasts. Contexts may be nested, each counts all
    that runs inside it; they are not for several threads at once. Loads and stores without a mask
    are counted too: the interpreter turns them into masked ones. Atomics are not counted.
    Raises InterpreterInactiveError where kernels are not interpreted.
    """
    require_interpreted()
    recorder = _Recorder()
    wrappers = (
        (triton_interpreter.GridExecutor, "__call__", recorder.launch),
        (Builder, "create_masked_load", recorder.load),
        (Builder, "create_masked_store", recorder.store),
        (Builder, "create_dot", recorder.dot),
    )
    originals = [(owner, name, getattr(owner, name)) for owner, name, _ in wrappers]
    for owner, name, wrap in wrappers:
        setattr(owner, name, wrap(getattr(owner, name)))
    try:
        yield recorder.counters
    finally:
        for owner, name, original in originals:
            setattr(owner, name, original)

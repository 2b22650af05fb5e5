"""A user's own torch function against a rule: where they part, and by which usual difference."""

from __future__ import annotations

import importlib.util
import inspect
import itertools
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from atlasgen.errors import ArgumentError
from atlasgen.reference import run
from atlasgen.spec.rule import MemoryRule
from atlasgen.verify.cases import Case, rows_of
from atlasgen.verify.inputs import draw, flat_state, initial_memory, split_names
from atlasgen.verify.measure import axes_of, rms
from atlasgen.verify.variants import Variant, changed, combined, usual_differences

_SAME = 1e-5  # rms of one head's read at one token, against that of all reads
_LARGE = 1e150  # its square is a float64
_PREFIXES = (4, 12, 40)  # lengths at which a wrong variant is usually found out

Function = Callable[..., Any]
Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Difference:
    """Where two results first differ: the tensor, and the index in words; error is rms over rms."""

    tensor: str
    place: str
    token: int
    error: float
    yours: float
    wanted: float


@dataclass(frozen=True)
class Verdict:
    """difference: from the rule itself, None where they agree. equal: the variants that agree.

    nearest: the variant that agrees longest, and its first difference, where none agrees. tried:
    how many were run; complete: False where the time ran out before every pair was tried.
    """

    difference: Difference | None
    equal: tuple[Variant, ...] = ()
    nearest: tuple[Variant, Difference] | None = None
    tried: int = 0
    complete: bool = True


def load_function(text: str) -> Function:
    """The function of "path/to/file.py:name". Raises ArgumentError in words."""
    path, separator, name = text.rpartition(":")
    if not separator or not path.endswith(".py"):
        raise ArgumentError("against", "not FILE.py:FUNCTION", value=text, allowed="my_reference.py:my_rule")
    file = Path(path)
    if not file.is_file():
        raise ArgumentError("against", "there is no such file", value=path)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.resolve().parent))  # so that it can import its neighbours
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ArgumentError("against", f"your file raised {_raised(error, str(file))}") from error
    finally:
        sys.path.pop(0)
    function = getattr(module, name, None)
    if not callable(function):
        names = [
            key
            for key, value in vars(module).items()
            if inspect.isfunction(value) and value.__module__ == file.stem
        ]
        raise ArgumentError("against", f"{path} has no function {name}", allowed=", ".join(names) or None)
    return function


def compare_with(
    rule: MemoryRule,
    function: Function,
    case: Case | None = None,
    seed: int = 0,
    seconds: float = 60.0,
    progress: Callable[[str, int, int], None] = lambda stage, done, total: None,
) -> Verdict:
    """`function(q, k, v, **gates) -> y or (y, state)` against the rule and its usual variants.

    case: the sizes of the call; two and a half blocks, B = 1, H = 2, K = V = 8 by default. progress
    is told (stage, done, total). Pairs of differences are tried where no single one fits, at most
    `seconds` long. Raises ArgumentError where the function's arguments or results do not fit.
    """
    if case is None:
        rows = rows_of(rule)
        # Beyond the first block in any case: a rule may write at its end only.
        case = Case(1, min(2 * rows + rows // 2, max(400, rows + rows // 8)), 2, 8, 8)
    arguments = draw(rule, case, torch.float32, seed).tensors
    yours = call_function(function, arguments)
    search = _Search(rule, arguments, yours)
    own = search.difference(rule, arguments)
    if own is None:
        return Verdict(None)
    deadline = time.monotonic() + seconds
    singles = usual_differences(rule)
    equal, tried, complete = search.run(singles, "single differences", progress, deadline)
    if not equal and complete:
        # Differences that carry the agreement further are tried together first.
        ranked = sorted(singles, key=lambda variant: search.reach(variant), reverse=True)
        pairs = [combined(*pair) for pair in _pairs(ranked)]
        equal, more, complete = search.run(pairs, "pairs of differences", progress, deadline, first=True)
        tried += more
    nearest = None if equal else search.nearest(own)
    return Verdict(own, tuple(equal), nearest, tried, complete)


def call_function(function: Function, arguments: Mapping[str, Tensor]) -> Tensors:
    """The function's results by name: "y", and "state.memory.M" and so on where it returns a state.

    It is called with float64 tensors, and with float32 ones where it cannot take those. `initial_memory` is
    one tensor for a memory of the one weight M, else a dict by weight.
    """
    given = {name: tensor for name, tensor in arguments.items() if not name.startswith("initial_memory")}
    memory = initial_memory(arguments)
    listed = [*given, "initial_memory"] if memory else list(given)
    errors: list[BaseException] = []
    for dtype in (torch.float64, torch.float32):
        tensors: dict[str, Any] = {name: tensor.clone().to(dtype) for name, tensor in given.items()}
        if memory is not None:
            own = {name: tensor.clone().to(dtype) for name, tensor in memory.items()}
            tensors["initial_memory"] = own["M"] if set(own) == {"M"} else own
        try:
            with torch.no_grad():
                result = function(tensors.pop("q"), tensors.pop("k"), tensors.pop("v"), **tensors)
        except (Exception, SystemExit) as caught:  # torch: dtypes that do not go together, for one
            if isinstance(caught, TypeError):
                _explain_arguments(function, list(tensors), caught)
            errors.append(caught)
            continue
        return _results(result, given["q"], given["v"])
    code = getattr(inspect.unwrap(function), "__code__", None)
    raise ArgumentError(
        "against",
        f"your function raised {_raised(errors[0], code.co_filename if code else None)}",
        allowed="a function of q [B, T, H, K], k, v [B, T, H, V] and " + ", ".join(listed[3:]),
    ) from errors[0]


def _raised(error: BaseException, file: str | None) -> str:
    """The error in words, with the last line of the user's file that it went through."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{type(error).__name__}: {error.msg} ({error.filename}, line {error.lineno})"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if file is not None and Path(frame.filename) == Path(file).resolve()]
    own = own or [frame for frame in frames if frame.filename == file] or frames[-1:]
    place = f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
    return f"{type(error).__name__}: {error}{place}"


def _explain_arguments(function: Function, names: list[str], caught: TypeError) -> None:
    """ArgumentError where the function's parameters cannot take the rule's arguments."""
    try:
        inspect.signature(function).bind(None, None, None, **dict.fromkeys(names))
    except TypeError as mismatch:
        raise ArgumentError(
            "against",
            f"your function cannot take the rule's arguments: {mismatch}",
            allowed="def fn(q, k, v" + "".join(f", {name}" for name in names) + ")",
            suggestion="Add **unused to its parameters to ignore some",
        ) from caught


def _results(result: Any, q: Tensor, v: Tensor) -> Tensors:
    y, state = result if isinstance(result, tuple) and len(result) == 2 else (result, None)
    if not isinstance(y, Tensor):
        raise ArgumentError(
            "against", f"your function returned a {type(y).__name__}", allowed="y or (y, state)"
        )
    shape = (*v.shape[:2], max(q.shape[2], v.shape[-2]), v.shape[-1])
    if tuple(y.shape) != shape:
        turned = y.ndim == 4 and tuple(y.transpose(1, 2).shape) == shape
        raise ArgumentError(
            "against",
            f"your y has shape {list(y.shape)}",
            allowed=f"[B, T, H, V] = {list(shape)}",
            suggestion="return y.transpose(1, 2)" if turned else None,
        )
    found = {"y": y.double()}
    if isinstance(state, Tensor):
        found["state.memory.M"] = state.double()
    elif isinstance(state, Mapping) and all(isinstance(entry, Tensor) for entry in state.values()):
        found.update({_state_name(name): tensor.double() for name, tensor in state.items()})
    elif state is not None:
        found.update({f"state.{name}": tensor.double() for name, tensor in flat_state(state).items()})
    return found


def _state_name(name: str) -> str:
    short = {"memory": "memory.M", "S": "momentum.M", "momentum": "momentum.M", "position": "position"}
    # A bare name is a weight's: W1 is memory.W1.
    return f"state.{short.get(name) or (name if '.' in name else f'memory.{name}')}"


def first_difference(yours: Tensors, wanted: Tensors) -> Difference | None:
    """The first tensor of `yours` that differs, and its first token, head and position."""
    for name, own in yours.items():
        reference = wanted.get(name)
        if reference is None:
            continue
        if own.shape != reference.shape:
            return Difference(name, f"shape {list(own.shape)}, not {list(reference.shape)}", 0, 1.0, 0.0, 0.0)
        place = _first_place(own, reference)
        if place is None:
            continue
        words = ", ".join(f"{axis} {index}" for axis, index in zip(axes_of(name, own.ndim), place))
        error = _ratio(own, reference)
        token = place[1] if name == "y" else own.shape[1]
        return Difference(name, words, token, error, float(own[place]), float(reference[place]))
    return None


def _first_place(own: Tensor, reference: Tensor) -> tuple[int, ...] | None:
    """The earliest row (token, then head) whose error is not rounding, and its worst position."""
    # Against the smaller of the two: one that diverges later must not hide what comes before.
    size = max(min(_size(own), _size(reference)), 1e-300)
    error = (_distance(own, reference) / size).clamp(max=_LARGE)
    rows = error.square().mean(-1).sqrt() if own.ndim > 1 else error
    differs = rows > _SAME
    if not differs.any():
        return None
    places = differs.nonzero().tolist()
    row = min(places, key=lambda place: (place[1:2], place))
    position = int(error[tuple(row)].argmax()) if own.ndim > 1 else None
    return (*row, position) if position is not None else tuple(row)


def _distance(own: Tensor, reference: Tensor) -> Tensor:
    """|own - reference|; infinite where either is NaN, or where one is infinite and the other is not."""
    distance = torch.where(own == reference, 0.0, (own - reference).abs())
    return torch.where(distance.isnan(), torch.inf, distance)


def _size(tensor: Tensor) -> float:
    """The rms of the finite entries, those whose square is no float64 included."""
    finite = tensor[tensor.isfinite()].double()
    largest = float(finite.abs().max()) if finite.numel() else 0.0
    return largest * rms(finite / largest) if largest else 0.0


def _ratio(own: Tensor, reference: Tensor) -> float:
    """Rms of the error over that of the reference; infinite where a value that is not finite differs."""
    distance = _distance(own, reference)
    if distance.isinf().any():
        return float("inf")
    size = _size(reference)
    return _size(distance) / size if size else _size(distance)


def _pairs(ranked: list[Variant]) -> Iterator[tuple[Variant, Variant]]:
    """Pairs of different fields, the most promising first."""
    order = sorted(itertools.combinations(range(len(ranked)), 2), key=sum)
    for left, right in order:
        first, second = ranked[left], ranked[right]
        if (
            first.field.split(".")[0] != second.field.split(".")[0]
            or "." in first.field
            and ("." in second.field and first.field != second.field)
        ):
            yield first, second


class _Search:
    """Runs variants against one result, and remembers how far each agreed."""

    def __init__(self, rule: MemoryRule, arguments: Tensors, yours: Tensors) -> None:
        self.rule, self.arguments, self.yours = rule, arguments, yours
        self.tokens = arguments["v"].shape[1]
        self.found: dict[Variant, Difference] = {}

    def difference(self, rule: MemoryRule, arguments: Tensors) -> Difference | None:
        """The first difference; shorter calls first, because most variants fail early."""
        for length in (*(size for size in _PREFIXES if size < self.tokens), self.tokens):
            cut = {
                name: tensor[:, :length] if self._per_token(name, tensor) else tensor
                for name, tensor in arguments.items()
            }
            gates, inputs = split_names(rule, cut)
            with torch.no_grad():
                y, state = run(rule, cut["q"], cut["k"], cut["v"], **gates, inputs=inputs)
            wanted = {"y": y}
            yours = {"y": self.yours["y"][:, :length]}
            if length == self.tokens:
                wanted.update({f"state.{name}": tensor for name, tensor in flat_state(state).items()})
                yours = self.yours
            difference = first_difference(yours, wanted)
            if difference is not None:
                return difference
        return None

    def _per_token(self, name: str, tensor: Tensor) -> bool:
        if name.startswith("initial_memory"):
            return False
        return tensor.ndim >= 3 and tuple(tensor.shape[:2]) == tuple(self.arguments["v"].shape[:2])

    def run(
        self,
        variants: list[Variant],
        stage: str,
        progress: Callable[[str, int, int], None],
        deadline: float,
        first: bool = False,
    ) -> tuple[list[Variant], int, bool]:
        """The variants that agree, how many were run, and whether all were."""
        equal: list[Variant] = []
        for done, variant in enumerate(variants):
            progress(stage, done, len(variants))
            if time.monotonic() > deadline:
                return equal, done, False
            other = changed(self.rule, variant)
            if other is None:
                continue
            difference = self.difference(other, variant.arguments(other, self.arguments))
            if difference is None:
                equal.append(variant)
                if first:
                    return equal, done + 1, True
            else:
                self.found[variant] = difference
        progress(stage, len(variants), len(variants))
        return equal, len(variants), True

    def reach(self, variant: Variant) -> tuple[int, float]:
        """How far a variant agreed: its first wrong token, then the smaller error."""
        difference = self.found.get(variant)
        return (0, 0.0) if difference is None else (difference.token, -difference.error)

    def nearest(self, own: Difference) -> tuple[Variant, Difference] | None:
        """The variant that agrees longest, if it does so longer than the rule itself."""
        if not self.found:
            return None
        best = max(self.found, key=self.reach)
        return (best, self.found[best]) if self.found[best].token > own.token else None

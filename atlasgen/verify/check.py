"""Rules against the reference: the loop over cases, dtypes and backends."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from atlasgen.errors import ArgumentError, CompileError
from atlasgen.runtime.operator import MemoryOperator
from atlasgen.spec.rule import MemoryRule
from atlasgen.verify.backends import operator_of
from atlasgen.verify.cases import Case
from atlasgen.verify.execute import Outcome, run_operator, run_reference
from atlasgen.verify.inputs import Arguments, draw
from atlasgen.verify.measure import BARS, TensorResult, bars_of, measure, scale_of

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class CaseResult:
    """One case on one backend in one dtype; `failure` is set where it gave no result at all."""

    rule: str
    backend: str
    dtype: str
    case: Case
    tensors: tuple[TensorResult, ...]
    seconds: float
    failure: str | None = None

    @property
    def passed(self) -> bool:
        return self.failure is None and all(tensor.passed for tensor in self.tensors)

    @property
    def worst(self) -> TensorResult | None:
        """The tensor that is nearest to its bar, or farthest beyond it."""
        return max(self.tensors, key=lambda tensor: tensor.error / tensor.bar, default=None)


def verify_rule(
    rule: MemoryRule,
    backends: Sequence[str],
    dtypes: Sequence[str],
    cases: Sequence[Case],
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> Iterator[CaseResult]:
    """Results case by case, the reference once for all backends.

    backends: words of `operator_of`; dtypes: names of DTYPES. Gradients of losses with random
    cotangents on y and on every tensor of the final state are compared for every argument. Raises
    BackendUnavailableError, CompileError (a rule that is not served), ArgumentError (a dtype).
    """
    for name in dtypes:
        if name not in DTYPES:
            raise ArgumentError("dtype", "unknown", value=name, allowed=", ".join(DTYPES))
    operators = {backend: operator_of(rule, backend) for backend in backends}
    for case in cases:
        for name in dtypes:
            dtype = DTYPES[name]
            arguments = draw(rule, case, dtype, seed)
            reference = run_reference(rule, arguments, case, dtype)
            for backend, operator in operators.items():
                yield _case(rule, backend, operator, name, case, arguments, reference, device)


def _case(
    rule: MemoryRule,
    backend: str,
    operator: MemoryOperator,
    name: str,
    case: Case,
    arguments: Arguments,
    reference: Outcome,
    device: torch.device | str,
) -> CaseResult:
    start = time.perf_counter()
    try:
        found = run_operator(operator, arguments, case, DTYPES[name], device)
    except (ArgumentError, CompileError) as error:
        return CaseResult(rule.name, backend, name, case, (), time.perf_counter() - start, str(error))
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
        return CaseResult(rule.name, backend, name, case, (), time.perf_counter() - start, failure)
    seconds = time.perf_counter() - start
    return CaseResult(rule.name, backend, name, case, compare(found, reference, name, rule), seconds)


def compare(
    found: Outcome, reference: Outcome, dtype_name: str, rule: MemoryRule | None = None
) -> tuple[TensorResult, ...]:
    """Every tensor of an outcome against the reference's, y first, by the bars of the rule and the dtype."""
    dtype = DTYPES[dtype_name]
    value_bar, gradient_bar = BARS[dtype] if rule is None else bars_of(rule, dtype)
    results: list[TensorResult] = []
    for own, wanted, bar in (
        (found.results, reference.results, value_bar),
        (found.gradients, reference.gradients, gradient_bar),
    ):
        scale = scale_of(wanted)
        for name, tensor in wanted.items():
            if name not in own:
                results.append(_absent(name, bar))
                continue
            by_step = rule is not None and rule.by_step(name.removeprefix("d "))
            results.append(measure(name, own[name], tensor, bar, scale, by_step))
            problem = _wrong_dtype(name, own[name].dtype, dtype)
            if problem and results[-1].problem is None:
                last = results.pop()
                fields = (last.error, last.max_error, last.max_reference, last.worst, bar)
                results.append(TensorResult(name, *fields, problem))
        results.extend(_extra(name, bar) for name in own if name not in wanted)
    return tuple(results)


def _wrong_dtype(name: str, found: torch.dtype, tested: torch.dtype) -> str | None:
    """y and the gradients of q, k, v have the call's dtype; states and gates are float32."""
    if name == "state.position":
        wanted = torch.int64
    else:
        wanted = tested if name in ("y", "d q", "d k", "d v") else torch.float32
    return None if found == wanted else f"dtype {found} instead of {wanted}"


def _absent(name: str, bar: float) -> TensorResult:
    return TensorResult(name, float("inf"), float("inf"), 0.0, "", bar, "missing")


def _extra(name: str, bar: float) -> TensorResult:
    return TensorResult(name, float("inf"), float("inf"), 0.0, "", bar, "the reference has no such tensor")

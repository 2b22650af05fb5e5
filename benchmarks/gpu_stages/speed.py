"""Stage C: times of forward and of forward and backward, beside a peer and the device's ceilings."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from atlasgen.spec import load_rule
from atlasgen.spec.expression import evaluate_number
from atlasgen.spec.rule import MemoryRule
from benchmarks.gpu_stages import clock, peers
from benchmarks.gpu_stages.operators import (
    backends_for,
    device,
    dot_flops,
    least_bytes,
    operator_for,
    timed_arguments,
)
from benchmarks.gpu_stages.plan import Shape, is_dry, sizes, training_job
from benchmarks.gpu_stages.pool import Pool
from benchmarks.gpu_stages.rows import RowWriter, same_kernels

Call = Callable[[], Tensor]


def ceilings(rows: RowWriter) -> dict[str, float]:
    """Bandwidth and matrix rate of this card, in this run."""
    found = {"bytes_per_second": clock.copy_ceiling(), "flops_per_second": clock.product_ceiling()}
    rows.add("ceilings", **found)
    return found


def speed(rows: RowWriter, pool: Pool, known: dict[tuple[Any, ...], bool], deadline: float) -> None:
    """All rules at all shapes; only kernels that agreed with the reference are timed."""
    limits = ceilings(rows)
    found = rows.add("peer", **peers.version())
    for shape in sizes().shapes:
        for name in sizes().rules:
            if time.monotonic() > deadline:
                rows.add("skipped", rule=name, shape=str(shape), reason="the stage's time was up")
                continue
            rule = load_rule(name)
            backends = backends_for(rule, shape)
            check_missing(rows, pool, known, [training_job(name, b, shape) for b in backends], deadline)
            for backend in backends:
                if known.get(same_kernels(training_job(name, backend, shape))):
                    guarded(rows, rule, backend, shape, partial(ours, rows, rule, backend, shape, limits))
            if found["peer"]:
                guarded(rows, rule, "peer", shape, partial(peer, rows, rule, shape, limits))
            release()


def check_missing(
    rows: RowWriter,
    pool: Pool,
    known: dict[tuple[Any, ...], bool],
    jobs: list[dict[str, Any]],
    deadline: float,
) -> None:
    """Compare kernels with the reference that no earlier stage reached; failures are rows, too."""

    def answered(job: dict[str, Any], answer: dict[str, Any]) -> None:
        rows.add("check", **job, **answer)
        known[same_kernels(job)] = bool(answer.get("passed"))

    missing = [job for job in jobs if same_kernels(job) not in known]
    pool.run(missing, answered, sizes().job_seconds, deadline)


def guarded(
    rows: RowWriter, rule: MemoryRule, backend: str, shape: Shape, measure: Callable[[], None]
) -> None:
    """Run one measurement; what goes wrong is a row, and the next one follows."""
    try:
        measure()
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"[:400]
        rows.add("failed", rule=rule.name, backend=backend, shape=str(shape), reason=reason)


def ours(rows: RowWriter, rule: MemoryRule, backend: str, shape: Shape, limits: Mapping[str, float]) -> None:
    """Rows of one rule on one backend; the first run fills every output with NaN before it."""
    operator, _ = operator_for(rule, backend)
    arguments = timed_arguments(rule, operator, shape)

    def call() -> Tensor:
        return operator(**arguments)[0]  # type: ignore[arg-type]

    with poisoned():
        y = call()
        found = torch.autograd.grad(y, list(arguments.values()), torch.ones_like(y))
    unwritten = [n for n, x in zip(("y", *arguments), (y, *found)) if not x.isfinite().all()]
    if unwritten:
        raise RuntimeError(f"not finite at full size: {', '.join(unwritten)}")
    flops = dot_flops(rule, backend, shape)
    record(rows, rule.name, backend, shape, call, arguments, limits, flops)


def peer(rows: RowWriter, rule: MemoryRule, shape: Shape, limits: Mapping[str, float]) -> None:
    """Rows of the peer on the same arguments, and how far its y is from the default kernels' y."""
    kernel = peers.peer_of(rule.name)
    if kernel is None:
        return
    operator, _ = operator_for(rule, backends_for(rule, shape)[0])
    arguments = timed_arguments(rule, operator, shape)
    scale = evaluate_number(rule.read.scale, {"K": shape.key, "F": shape.key, "V": shape.value})
    with torch.no_grad():
        own = operator(**arguments)[0].float()  # type: ignore[arg-type]
        other = kernel(arguments, scale).float()
    apart = float((own - other).norm() / own.norm())
    record(
        rows, rule.name, "peer", shape, lambda: kernel(arguments, scale), arguments, limits, {}, apart=apart
    )


def record(
    rows: RowWriter,
    rule: str,
    backend: str,
    shape: Shape,
    call: Call,
    arguments: Mapping[str, Tensor],
    limits: Mapping[str, float],
    flops: Mapping[str, int],
    **more: float,
) -> None:
    """Time both passes, and set them against the ceilings."""
    y = call().detach()
    random = torch.randn_like(y)
    leaves = list(arguments.values())

    def forward() -> None:
        with torch.no_grad():
            call()

    def both() -> None:
        torch.autograd.grad(call(), leaves, random)

    least = least_bytes(arguments, y)
    for passes, run in (("forward", forward), ("forward+backward", both)):
        measured = clock.summary(clock.times(run))
        seconds = measured["ms"] / 1e3
        content: dict[str, Any] = {"bytes": least[passes]}
        content["bandwidth_share"] = least[passes] / seconds / limits["bytes_per_second"]
        if passes in flops:
            content |= {"flops": flops[passes]}
            content["flops_share"] = flops[passes] / seconds / limits["flops_per_second"]
        names = {"rule": rule, "backend": backend, "shape": str(shape), "passes": passes}
        rows.add("speed", **names, **measured, **content, **more)


@contextlib.contextmanager
def poisoned() -> Iterator[None]:
    """Outputs and buffers are filled with NaN where they are allocated."""
    before = os.environ.get("ATLASGEN_POISON")
    os.environ["ATLASGEN_POISON"] = "1"
    try:
        yield
    finally:
        os.environ.pop("ATLASGEN_POISON")
        if before is not None:
            os.environ["ATLASGEN_POISON"] = before


def release() -> None:
    """Give memory that nothing holds back to the device."""
    if not is_dry() and device() == "cuda":
        torch.cuda.empty_cache()

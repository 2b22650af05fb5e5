"""What the stages run: rules, calls, shapes, repetitions; in full, and tiny for a dry run on a CPU."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

# Set for the processes of a dry run: kernels are interpreted, events are a wall clock.
DRY = "ATLASGEN_GPU_DRY"
STAGES = {
    "A": "self-test",
    "B": "correctness on the device",
    "C": "speed, beside flash-linear-attention",
    "D": "candidate configurations, kernel by kernel",
}
RULES = (
    "simple_gla",
    "retnet",
    "omeganet_linear",
    "linear_attention",
    "titans_linear",
    "logcosh_omega",
)
# Exact rules and decays by channel: checked, in the first of the forms, and not timed.
EXACT_RULES = (
    "deltanet",
    "gated_deltanet",
    "deltaproduct",
    "gla",
    "kda",
    "rwkv7",
    "titans_exact",
    "comba",
    "gated_deltanet_2",
    "longhorn",
    "omeganet_exact",
)


@dataclass(frozen=True)
class Shape:
    """The sizes of a timed call."""

    batch: int
    tokens: int
    heads: int
    key: int
    value: int

    def __str__(self) -> str:
        return f"B{self.batch} T{self.tokens} H{self.heads} K{self.key} V{self.value}"


@dataclass(frozen=True)
class Sizes:
    """Everything that a dry run makes smaller.

    heads: of checked calls (those of timed ones: strides then have the same divisibility, and the checked
    kernels are the timed ones). milliseconds: of repetitions of one timing. copy: bytes; matmul: rows.
    """

    rules: tuple[str, ...]
    exact_rules: tuple[str, ...]
    workers: int
    heads: int
    fresh: tuple[int, int, int]
    awkward: tuple[int, int, int]
    shapes: tuple[Shape, ...]
    milliseconds: float
    copy: int
    matmul: int
    candidate_rules: tuple[str, ...]
    job_seconds: float


FULL = Sizes(
    rules=RULES,
    exact_rules=EXACT_RULES,
    workers=14,
    heads=16,
    fresh=(130, 64, 64),
    awkward=(100, 48, 80),
    shapes=(Shape(8, 4096, 16, 64, 64), Shape(2, 16384, 16, 128, 128)),
    milliseconds=200.0,
    copy=1 << 31,
    matmul=8192,
    candidate_rules=("omeganet_linear", "simple_gla"),
    job_seconds=120.0,
)
TINY = Sizes(
    rules=("simple_gla", "retnet"),
    exact_rules=("deltanet",),
    workers=1,
    heads=1,
    fresh=(17, 16, 16),
    awkward=(9, 12, 20),
    shapes=(Shape(1, 20, 1, 16, 16),),
    milliseconds=1.0,
    copy=1 << 16,
    matmul=64,
    candidate_rules=("simple_gla",),
    job_seconds=60.0,
)


def is_dry() -> bool:
    """True in the processes of a dry run."""
    return os.environ.get(DRY) == "1"


def sizes() -> Sizes:
    """The sizes of this run."""
    return TINY if is_dry() else FULL


def training_job(rule: str, backend: str, shape: Shape, dtype: str = "bfloat16") -> dict[str, Any]:
    """A check of the kernels that a timed training step launches: a loss on y alone."""
    tokens = sizes().fresh[0]
    case = {"batch": 1, "tokens": tokens, "heads": shape.heads, "key": shape.key, "value": shape.value}
    return {"check": "training", "rule": rule, "backend": backend, "dtype": dtype, "case": case}


def selftest_jobs(backend: str) -> list[dict[str, Any]]:
    """Stage A: seconds, tiny calls, every gradient."""
    case = {"batch": 2, "tokens": 20, "heads": 2, "key": 16, "value": 16}
    if is_dry():
        case = {"batch": 1, "tokens": 17, "heads": 1, "key": 16, "value": 16}
    return [
        {"check": "full", "rule": rule, "backend": backend, "dtype": dtype, "case": case}
        for rule in ("simple_gla", "omeganet_linear")
        for dtype in ("float32", "bfloat16")
    ]


def correctness_jobs(backends: tuple[str, ...]) -> list[dict[str, Any]]:
    """Stage B: what is timed comes first, then fresh calls in both dtypes, then awkward resumed ones.

    A job may have "positive": q, k and v are made positive, where one faulty compiler goes wrong.
    """
    chosen = sizes()
    jobs = [
        training_job(rule, backend, shape)
        for shape in chosen.shapes
        for rule in chosen.rules
        for backend in backends
    ]
    fresh, awkward = (
        {"batch": 1, "tokens": tokens, "heads": chosen.heads, "key": key, "value": value}
        for tokens, key, value in (chosen.fresh, chosen.awkward)
    )
    awkward["resumed"] = 37 if not is_dry() else 5
    for case in (fresh, awkward):
        for dtype in ("bfloat16", "float32"):
            jobs += [
                {"check": "full", "rule": rule, "backend": backend, "dtype": dtype, "case": case}
                for rule in chosen.rules
                for backend in backends
            ]
    positive = [dict(job, positive=True) for job in jobs[: len(chosen.rules) * len(backends)]]
    exact = [
        {"check": "full", "rule": rule, "backend": backends[0], "dtype": dtype, "case": fresh}
        for rule in chosen.exact_rules
        for dtype in ("bfloat16", "float32")
    ]
    return jobs + positive + exact

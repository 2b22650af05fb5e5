"""One stage of the compiler as text."""

from __future__ import annotations

from collections.abc import Callable

import sympy

from atlasgen.cli import plans
from atlasgen.cli.console import SentenceError
from atlasgen.cli.equations import error_expression, loss_text
from atlasgen.ir.text import backward_text, program_text
from atlasgen.schedules.serve import schedule
from atlasgen.spec import rule_to_toml
from atlasgen.spec.rule import MemoryRule


def spec_stage(rule: MemoryRule, form: str) -> str:
    """The rule as canonical TOML, only what differs from the defaults, with its hash."""
    return f"# rule {rule.hash}\n{rule_to_toml(rule)}"


def derive_stage(rule: MemoryRule, form: str) -> str:
    """Each loss term with its error and the error's derivative, as sympy prints them."""
    lines = []
    for index, term in enumerate(rule.loss, 1):
        error = error_expression(rule, term)
        slope = sympy.diff(error, sympy.Symbol("pred", real=True))
        lines += [f"term {index}: {loss_text(term)}", f"  e       = {error}", f"  de/dpred = {slope}"]
        if term.per == "row" and term.kind not in ("dot", "l2"):
            lines.append("  n = |pred - v| of the row; its own derivative is not in de/dpred")
    return "\n".join(lines) + "\n"


def program_stage(rule: MemoryRule, form: str) -> str:
    """The block program, forward."""
    return program_text(schedule(rule).forward)


def backward_stage(rule: MemoryRule, form: str) -> str:
    """The reversed block program."""
    return backward_text(schedule(rule).backward)


def torch_stage(rule: MemoryRule, form: str) -> str:
    """The emitted torch program."""
    from atlasgen.runtime.torch_backend import program_source

    return program_source(schedule(rule))


def plan_stage(rule: MemoryRule, form: str) -> str:
    """The kernels, and what each loads and stores."""
    return plans.plan_text(schedule(rule), form)


def triton_stage(rule: MemoryRule, form: str) -> str:
    """The emitted Triton module."""
    return plans.triton_source(schedule(rule), form)


STAGES: dict[str, Callable[[MemoryRule, str], str]] = {
    "spec": spec_stage,
    "derive": derive_stage,
    "program": program_stage,
    "backward": backward_stage,
    "torch": torch_stage,
    "plan": plan_stage,
    "triton": triton_stage,
}


def stage_text(rule: MemoryRule, stage: str, form: str = "default") -> str:
    """The text of one stage. Raises SentenceError for an unknown stage, CompileError as the stage does."""
    if stage not in STAGES:
        raise SentenceError(f"--dump {stage} is no stage; the stages are {', '.join(STAGES)}.")
    return STAGES[stage](rule, form)

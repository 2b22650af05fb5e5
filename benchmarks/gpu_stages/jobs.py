"""One checking process: reads a job a line, runs it on the device and on the reference, answers a line.

A job: {"check": "full" | "training", "rule", "backend", "dtype", "case": fields of atlasgen.verify.Case,
"positive"?: true, "configuration"?: table of a runtime Configuration}. "full" compares y, the final state and
every gradient of a loss on all of them; "training" has a loss on y alone, as a training step does.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

from benchmarks.gpu_stages.plan import is_dry

if is_dry():  # the parent's worker class takes this out of the environment
    os.environ["TRITON_INTERPRET"] = "1"

import torch

from atlasgen.reference import run as reference
from atlasgen.runtime.operator import MemoryOperator
from atlasgen.spec import load_rule
from atlasgen.spec.rule import MemoryRule
from atlasgen.verify import Arguments, Case, TensorResult, draw, verify_rule
from atlasgen.verify.check import DTYPES, compare
from atlasgen.verify.execute import Outcome
from atlasgen.verify.inputs import initial_memory, split_names
from benchmarks.gpu_stages.operators import device, operator_for


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """What a job found, as JSON-able content; "failure" says why where it gave no result."""
    started = time.perf_counter()
    rule, case = load_rule(job["rule"]), Case(**job["case"])
    operator, backend = operator_for(rule, job["backend"], job.get("configuration"))
    if job["check"] == "full":
        (found,) = verify_rule(rule, [backend], [job["dtype"]], [case], device=device())
        tensors, failure = found.tensors, found.failure
    else:
        tensors, failure = training(rule, operator, case, job["dtype"], job.get("positive", False)), None
    worst = max(tensors, key=lambda entry: entry.error / entry.bar, default=None)
    content: dict[str, Any] = {
        "passed": failure is None and all(entry.passed for entry in tensors),
        "tensors": len(tensors),
        "seconds": round(time.perf_counter() - started, 2),
        "failure": failure or "; ".join(_failures(tensors)) or None,
    }
    if worst is not None:
        content |= {"worst": worst.name, "worst_error": worst.error, "bar": worst.bar}
    return content


def training(
    rule: MemoryRule, operator: MemoryOperator, case: Case, dtype_name: str, positive: bool
) -> tuple[TensorResult, ...]:
    """y and the gradients of a loss on y against the reference's."""
    dtype = DTYPES[dtype_name]
    arguments = draw(rule, case, dtype)
    if positive:
        arguments.tensors |= {name: arguments.tensors[name].abs() for name in ("q", "k", "v")}
    batch, tokens, *_, heads, size = arguments.tensors["v"].shape
    cotangent = torch.randn(batch, tokens, heads, size, generator=torch.Generator().manual_seed(5))
    cotangent = cotangent.to(dtype)
    expected = _outcome_of_reference(rule, arguments, cotangent)
    leaves = {
        name: tensor.to(device(), dtype if name in ("q", "k", "v") else torch.float32).requires_grad_()
        for name, tensor in arguments.leaves().items()
    }
    given: dict[str, Any] = {n: t for n, t in leaves.items() if not n.startswith("initial_memory")}
    y, _ = operator(**given, initial_memory=initial_memory(leaves))
    y.backward(cotangent.to(device()))
    gradients = {f"d {name}": tensor.grad for name, tensor in leaves.items() if tensor.grad is not None}
    return compare(Outcome({"y": y.detach()}, gradients), expected, dtype_name)


def _outcome_of_reference(rule: MemoryRule, arguments: Arguments, cotangent: torch.Tensor) -> Outcome:
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in arguments.leaves().items()}
    gates, inputs = split_names(rule, leaves)
    y, _ = reference(rule, leaves["q"], leaves["k"], leaves["v"], **gates, inputs=inputs)
    found = torch.autograd.grad(y, list(leaves.values()), cotangent.double(), allow_unused=True)
    gradients = {
        f"d {name}": torch.zeros_like(leaf) if gradient is None else gradient
        for (name, leaf), gradient in zip(leaves.items(), found, strict=True)
    }
    return Outcome({"y": y.detach()}, gradients)


def _failures(tensors: tuple[TensorResult, ...]) -> list[str]:
    failed = [entry for entry in tensors if not entry.passed]
    return [f"{entry.name}: {entry.problem or f'{entry.error:.2g} > {entry.bar:g}'}" for entry in failed]


def _end_with(parent: int) -> None:
    """End this process when its parent is gone: a kernel that hangs must not keep the device."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def main() -> None:
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    torch.set_num_threads(1)
    # Compilers print to standard output as they like: answers go to a copy of it, prints to stderr.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            result = answer(json.loads(line))
        except Exception as error:
            result = {"passed": False, "failure": f"{type(error).__name__}: {error}"[:600]}
        print(json.dumps({"result": result}), file=answers, flush=True)


if __name__ == "__main__":
    main()

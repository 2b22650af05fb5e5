"""atlasgen profile: launches, device-memory bytes and dot flops of the kernels, counted interpreted."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.table import Table

from atlasgen.cli.console import SentenceError, console, progress, quantity, sizes_of
from atlasgen.cli.facts import WORD, least_bytes
from atlasgen.spec import load_rule
from atlasgen.spec.rule import MemoryRule


@dataclass(frozen=True)
class Count:
    """What one kernel did in one pass; name "total" for all of them."""

    kernel: str
    launches: int
    bytes_loaded: int
    bytes_stored: int
    dot_flops: int

    @property
    def bytes(self) -> int:
        return self.bytes_loaded + self.bytes_stored


def profile(
    spec: Annotated[str, typer.Argument(help="the rule")],
    shape: Annotated[str, typer.Option(help="B,T,H,K,V")] = "1,128,2,64,64",
    dtype: Annotated[str, typer.Option(help="of q, k, v: float32, bfloat16 or float16")] = "float32",
    form: Annotated[
        str | None,
        typer.Option(help="structures: fused, split_all, default, ...; the rule's forms if left out"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print the counts as JSON")] = False,
) -> None:
    """Count what a rule's Triton kernels do, beside the least that any kernel must do."""
    os.environ["TRITON_INTERPRET"] = "1"  # counting is done by the interpreter, GPU or not
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    rule, size = load_rule(spec), sizes_of(shape)
    if dtype not in WORD:
        raise SentenceError(f"--dtype {dtype!r} is none of {', '.join(WORD)}.")
    forms = _forms(rule) if form is None else form.split(",")
    counts: dict[str, dict[str, list[Count]]] = {}
    with progress("running the kernels", 2 * len(forms)) as step:
        for name in forms:
            counts[name] = counted(rule, name, size, dtype, step)
    forward, backward = least_bytes(rule, size, dtype)
    least = {"forward": forward, "forward + backward": forward + backward}
    if as_json:
        sys.stdout.write(json.dumps(_plain(rule, size, dtype, counts, least), indent=2) + "\n")
        return
    for name, passes in counts.items():
        console().print(_table(rule, name, shape, dtype, passes, least))


def _forms(rule: MemoryRule) -> list[str]:
    """The plainest structure of each form that the rule's kernels have."""
    from atlasgen.runtime.configuration import forms

    return sorted(forms(rule))


def counted(
    rule: MemoryRule, form: str, size: dict[str, int], dtype: str, step: Any = lambda words: None
) -> dict[str, list[Count]]:
    """Counts by pass ("forward", "forward + backward"), kernels first, the total last.

    Raises CompileError, BackendUnavailableError, InterpreterInactiveError.
    """
    import torch

    from atlasgen.runtime import interpreter
    from atlasgen.verify import Case, draw
    from atlasgen.verify.backends import operator_of
    from atlasgen.verify.check import DTYPES
    from atlasgen.verify.inputs import initial_memory

    interpreter.require_interpreted()
    operator = operator_of(rule, "triton" if form == "default" else f"triton:{form}")
    case = Case(size["B"], size["T"], size["H"], size["K"], size["V"])
    drawn = draw(rule, case, DTYPES[dtype]).tensors
    found = {}
    for words in ("forward", "forward + backward"):
        own = {
            name: tensor.to(DTYPES[dtype] if name in ("q", "k", "v") else torch.float32)
            for name, tensor in drawn.items()
        }
        backward = words != "forward"
        leaves = {name: tensor.requires_grad_(backward) for name, tensor in own.items()}
        with interpreter.count() as counters:
            arguments: dict[str, Any] = {
                n: t for n, t in leaves.items() if not n.startswith("initial_memory")
            }
            y, _ = operator(**arguments, initial_memory=initial_memory(leaves))
            if backward:
                y.backward(torch.ones_like(y))
        kernels = [_count(name, kernel) for name, kernel in counters.kernels.items()]
        found[words] = [*kernels, _count("total", counters)]
        step(f"{form} {words}")
    return found


def _count(name: str, counters: Any) -> Count:
    return Count(name, counters.launches, counters.bytes_loaded, counters.bytes_stored, counters.dot_flops)


def _plain(
    rule: MemoryRule,
    size: dict[str, int],
    dtype: str,
    counts: dict[str, dict[str, list[Count]]],
    least: dict[str, int],
) -> dict[str, Any]:
    forms = {
        form: {
            words: {
                "least_bytes": least[words],
                "kernels": {
                    count.kernel: {
                        "launches": count.launches,
                        "bytes_loaded": count.bytes_loaded,
                        "bytes_stored": count.bytes_stored,
                        "bytes": count.bytes,
                        "dot_flops": count.dot_flops,
                    }
                    for count in found
                },
            }
            for words, found in passes.items()
        }
        for form, passes in counts.items()
    }
    return {"rule": rule.name, "hash": rule.hash, "shape": size, "dtype": dtype, "forms": forms}


def _table(
    rule: MemoryRule,
    form: str,
    shape: str,
    dtype: str,
    passes: dict[str, list[Count]],
    least: dict[str, int],
) -> Table:
    title = f"{rule.name}, {form} form, {dtype}, B,T,H,K,V = {shape}"
    table = Table(title=title, title_justify="left")
    for name in ("pass", "kernel"):
        table.add_column(name, no_wrap=True)
    for name in ("launches", "loaded", "stored", "bytes / least", "dot flops"):
        table.add_column(name, justify="right")
    for words, found in passes.items():
        for count in found:
            total = count.kernel == "total"
            ratio = f"{count.bytes / least[words]:.2f} of {quantity(least[words], 'B')}" if total else ""
            table.add_row(
                words,
                count.kernel,
                str(count.launches),
                quantity(count.bytes_loaded, "B"),
                quantity(count.bytes_stored, "B"),
                ratio,
                quantity(count.dot_flops),
                style="bold" if total else None,
                end_section=total,
            )
    return table

"""atlasgen verify: backends, or a function of the user's, against the float64 reference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from atlasgen.cli.console import FAILED, SentenceError, console, interpret_kernels, progress
from atlasgen.errors import CompileError
from atlasgen.spec import load_rule, shipped_specs
from atlasgen.spec.rule import MemoryRule

if TYPE_CHECKING:  # torch and triton are imported after the environment is set
    from atlasgen.verify import CaseResult, TensorResult

DEFAULT_BACKENDS = "torch,triton"


def verify(
    specs: Annotated[
        list[str] | None, typer.Argument(help="rules; all shipped ones if none is given")
    ] = None,
    backend: Annotated[
        str, typer.Option(help="separated by commas: torch, triton, triton:fused, ...")
    ] = DEFAULT_BACKENDS,
    dtype: Annotated[str, typer.Option(help="dtypes, separated by commas")] = "float32,bfloat16,float16",
    full: Annotated[bool, typer.Option("--full", help="all awkward lengths and sizes, more splits")] = False,
    against: Annotated[str | None, typer.Option(help="FILE.py:FUNCTION, your own torch function")] = None,
    seed: Annotated[int, typer.Option(help="of the random arguments")] = 0,
    device: Annotated[str, typer.Option(help="where the backends run")] = "cpu",
    details: Annotated[bool, typer.Option("--details", help="a line for every tensor")] = False,
) -> None:
    """Compare y, the final state and every gradient with the reference. Exit code 1 on a failure."""
    _require_device(device)
    if device == "cpu":
        interpret_kernels()
    rules = [load_rule(spec) for spec in specs or shipped_specs()]
    if against is not None:
        if len(rules) != 1 or not specs:
            raise SentenceError("--against compares your function with one rule: name that rule.")
        _against(rules[0], against, seed)
        return
    failed = False
    for rule in rules:
        failed |= not _verify(rule, backend, dtype.split(","), full, seed, device, details)
    if failed:
        raise typer.Exit(FAILED)


def _require_device(device: str) -> None:
    """SentenceError where torch cannot put a tensor there."""
    import torch

    try:
        torch.empty(1, device=device)
    except Exception as error:  # torch has an error of its own for every kind of device
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise SentenceError(f"--device {device} cannot be used on this machine: {reason}") from None


def _verify(
    rule: MemoryRule, backend: str, dtypes: list[str], full: bool, seed: int, device: str, details: bool
) -> bool:
    from atlasgen.verify import full_cases, quick_cases, verify_rule

    output = console()
    backends = _available(rule, backend)
    if not backends:
        return False
    cases = full_cases(rule) if full else quick_cases(rule)
    results = []
    with progress(rule.name, len(cases) * len(dtypes) * len(backends)) as step:
        for result in verify_rule(rule, backends, dtypes, cases, seed, device):
            results.append(result)
            step(f"{rule.name} {result.backend} {result.dtype} {result.case}")
    output.print(_summary(rule, results))
    for result in results:
        if result.failure is not None:
            place = f"{result.backend} {result.dtype} {result.case}"
            output.print(f"[red]{place}[/red]: {escape(result.failure)}")
        elif not result.passed:
            output.print(_tensors(str(result.case), result, [t for t in result.tensors if not t.passed]))
    if details:
        for group in _groups(results).values():
            output.print(_tensors("worst of all cases", group[0], _worst_tensors(group)))
    return all(result.passed for result in results)


def _available(rule: MemoryRule, backend: str) -> list[str]:
    """The backends asked for; one of the default ones that is not installed is left out, and said."""
    from atlasgen.verify.backends import BackendUnavailableError, operator_of

    found = []
    for name in backend.split(","):
        try:
            operator_of(rule, name)
        except BackendUnavailableError as error:
            if backend != DEFAULT_BACKENDS:
                raise
            console().print(f"[yellow]{rule.name}[/yellow]: {error} Not verified.")
            continue
        except CompileError as error:
            console().print(f"[red]{rule.name} on {name}[/red]: {escape(str(error))}")
            return []
        found.append(name)
    return found


def _groups(results: list[CaseResult]) -> dict[tuple[str, str], list[CaseResult]]:
    """Results by backend and dtype."""
    groups: dict[tuple[str, str], list[CaseResult]] = {}
    for result in results:
        groups.setdefault((result.backend, result.dtype), []).append(result)
    return groups


def _worst_tensors(group: list[CaseResult]) -> list[TensorResult]:
    """For each tensor its result in the case where it is worst."""
    found: dict[str, TensorResult] = {}
    for tensor in (tensor for result in group for tensor in result.tensors):
        kept = found.get(tensor.name)
        if kept is None or (tensor.problem is not None, tensor.error) > (
            kept.problem is not None,
            kept.error,
        ):
            found[tensor.name] = tensor
    return list(found.values())


def _summary(rule: MemoryRule, results: list[CaseResult]) -> Table:
    """One line per backend and dtype: the tensor nearest to its bar over all cases."""
    table = Table(title=f"{rule.name} against the reference", title_justify="left")
    for name in ("backend", "dtype", "cases", "", "worst tensor", "rms", "bar", "max error", "at"):
        table.add_column(name, no_wrap=name not in ("worst tensor", "at"))
    for (backend, dtype), group in _groups(results).items():
        passed = sum(result.passed for result in group)
        mark = "[green]pass[/green]" if passed == len(group) else "[red]FAIL[/red]"
        row = [backend, dtype, f"{passed}/{len(group)}", mark]
        ran = [(result.worst, result) for result in group if result.worst is not None]
        if ran:
            worst, result = max(ran, key=lambda pair: pair[0].error / pair[0].bar)
            row += [worst.name, *_numbers(worst), f"{worst.worst} [dim]({result.case})[/dim]"]
        table.add_row(*row)
    return table


def _numbers(tensor: TensorResult) -> tuple[str, str, str]:
    """Rms ratio, its bar, and the largest error beside the largest reference."""
    largest = f"{tensor.max_error:.1e} of {tensor.max_reference:.2g}"
    return f"{tensor.error:.1e}", f"{tensor.bar:.0e}", largest


def _tensors(title: str, result: CaseResult, tensors: list[TensorResult]) -> Table:
    """One line per tensor."""
    words = f"{result.rule} on {result.backend}, {result.dtype}: {title}"
    table = Table(title=words, title_justify="left")
    for name in ("tensor", "", "rms", "bar", "max error", "worst at"):
        table.add_column(name, no_wrap=name != "worst at")
    for tensor in tensors:
        mark = "[green]pass[/green]" if tensor.passed else "[red]FAIL[/red]"
        place = f"{tensor.worst} [red]{escape(tensor.problem)}[/red]" if tensor.problem else tensor.worst
        table.add_row(tensor.name, mark, *_numbers(tensor), place)
    return table


def _against(rule: MemoryRule, text: str, seed: int) -> None:
    """Prints where the user's function differs, and the rule it equals."""
    from atlasgen.verify.against import compare_with, load_function

    output = console()
    function = load_function(text)
    with progress("comparing", None) as step:
        verdict = compare_with(
            rule, function, seed=seed, progress=lambda stage, done, total: step(stage, done, total)
        )
    if verdict.difference is None:
        output.print(f"[green]yours equals {rule.name}[/green]: every read and state compared is the same")
        return
    first = verdict.difference
    output.print(
        f"[red]yours differs from {rule.name}[/red]: {first.tensor} first at {first.place} "
        f"(yours {first.yours:.6g}, the rule's {first.wanted:.6g}); rms ratio {first.error:.1e}"
    )
    if verdict.equal:
        for variant in verdict.equal:
            output.print(f"[green]yours equals this rule with {escape(variant.label)}[/green]")
    else:
        output.print(f"none of {verdict.tried} usual differences, one or two at a time, explains it")
        if not verdict.complete:
            output.print("[dim](the time ran out before every pair was tried)[/dim]")
        if verdict.nearest is not None:
            variant, second = verdict.nearest
            output.print(
                f"nearest: with {escape(variant.label)} it first differs at {second.place} of {second.tensor}"
            )
    raise typer.Exit(FAILED)

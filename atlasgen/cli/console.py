"""What every command shares: the console, clean errors, progress."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from typer.core import TyperGroup

from atlasgen.errors import AtlasgenError, CompileError, SpecError, shown

# typer's own copy of click or the package, whichever this typer uses.
ClickException: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")

FAILED, WRONG_INPUT, INTERNAL = 1, 2, 3


def console() -> Console:
    """The console of standard output, as wide as the terminal; made anew, so that tests can catch it."""
    return _wide(Console(highlight=False))


def errors() -> Console:
    """The console of standard error."""
    return _wide(Console(stderr=True, highlight=False))


def _wide(output: Console) -> Console:
    """Tables that go to a file or a log have 120 columns, unless COLUMNS says otherwise."""
    if not output.is_terminal and "COLUMNS" not in os.environ:
        output.width = 120
    return output


class CleanGroup(TyperGroup):
    """Commands whose errors are one message without a traceback, unless --debug is given."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (ClickException, typer.Exit, typer.Abort):
            raise
        except Exception as error:
            if ctx.params.get("debug"):
                raise
            raise typer.Exit(show_error(error)) from None


def show_error(error: BaseException) -> int:
    """Print the error for a reader; returns the exit code."""
    output = errors()
    if isinstance(error, SpecError):
        output.print(spec_panel(error))
        return WRONG_INPUT
    if isinstance(error, CompileError):
        output.print(compile_panel(error))
        return WRONG_INPUT
    known = isinstance(error, (AtlasgenError, OSError, SentenceError)) or _one_sentence(error)
    title = "error" if known else f"internal error: {type(error).__name__}"
    advice = "" if known else "\n[dim]atlasgen --debug ... shows the traceback[/dim]"
    output.print(Panel(escape(str(error)) + advice, title=title, title_align="left", border_style="red"))
    return WRONG_INPUT if known else INTERNAL


class SentenceError(Exception):
    """Something that a command cannot do here, said in one sentence."""


def _one_sentence(error: BaseException) -> bool:
    return type(error).__name__ in ("InterpreterInactiveError", "BackendUnavailableError")


def spec_panel(error: SpecError) -> Panel:
    """A wrong rule file: where, what came, what is allowed, what to do."""
    blocks = [_spec_lines(item) for item in (error, *error.others)]
    title = f"{error.file}" if error.file else "rule"
    text = "\n\n".join(blocks)
    return Panel(text, title=f"[bold]{escape(title)}[/bold]", title_align="left", border_style="red")


def _spec_lines(error: SpecError) -> str:
    place = f"[bold]{escape(error.field)}[/bold]" if error.field else "the file"
    came = "" if error.value is None else f" = [red]{escape(shown(error.value))}[/red]"
    lines = [f"{place}{came}: {escape(error.reason)}"]
    if error.allowed:
        lines.append(f"[dim]allowed:[/dim] {escape(', '.join(error.allowed))}")
    if error.suggestion:
        lines.append(f"[dim]next:[/dim]    [green]{escape(error.suggestion)}[/green]")
    return "\n".join(lines)


def compile_panel(error: CompileError) -> Panel:
    """A valid rule that no schedule serves: the field, why, and what is served."""
    text = (
        f"[bold]{escape(error.field)}[/bold] = [yellow]{escape(shown(error.value))}[/yellow] is not served: "
        f"{escape(error.reason)}\n[dim]nearest:[/dim] [green]{escape(error.nearest)}[/green]"
    )
    title = f"[bold]{escape(error.rule or 'rule')}[/bold]"
    return Panel(text, title=title, title_align="left", border_style="yellow")


@contextmanager
def progress(description: str, total: int | None) -> Iterator[Any]:
    """A progress bar on standard error; yields step(words), which advances it by one.

    Shown on terminals only: a log gets the results, not the bar.
    """
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    output = errors()
    with Progress(*columns, console=output, transient=True, disable=not output.is_terminal) as bar:
        task = bar.add_task(description, total=total)

        def step(words: str | None = None, done: int | None = None, whole: int | None = None) -> None:
            if words is not None:
                bar.update(task, description=words)
            if whole is not None:
                bar.update(task, total=whole)
            bar.update(task, completed=done) if done is not None else bar.advance(task)

        yield step


def interpret_kernels() -> None:
    """Let Triton kernels run interpreted where there is no GPU; before triton is imported."""
    # Kernels compute both branches of a `where`; numpy warns of the one that is not taken.
    warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"triton\.runtime\.interpreter")
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    if "TRITON_INTERPRET" not in os.environ:
        import torch

        if not torch.cuda.is_available():
            os.environ["TRITON_INTERPRET"] = "1"


def sizes_of(text: str) -> dict[str, int]:
    """ "B,T,H,K,V" as numbers. Raises a usage error in words."""
    found = re.fullmatch(r"\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*", text)
    if found is None or min(int(entry) for entry in found.groups()) < 1:
        raise typer.BadParameter(f"{text!r} is not five positive numbers B,T,H,K,V, as in 8,4096,16,64,64")
    return dict(zip("BTHKV", (int(entry) for entry in found.groups())))


def quantity(value: float, unit: str = "") -> str:
    """A number with a metric prefix: 12.3 M."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}".rstrip()

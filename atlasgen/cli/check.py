"""atlasgen check: are these rule files valid, and does a schedule serve them?"""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from atlasgen.cli.console import FAILED, compile_panel, console, errors, spec_panel
from atlasgen.errors import CompileError, SpecError
from atlasgen.schedules.serve import refused, schedule
from atlasgen.spec import load_rule


def check(
    specs: Annotated[list[str], typer.Argument(help="names of shipped rules, or paths of .toml files")],
    valid_only: Annotated[
        bool, typer.Option("--valid-only", help="a valid rule passes, served or not")
    ] = False,
) -> None:
    """Validate rules, and say whether each compiles. Exit code 1 where one does not."""
    output, failed = console(), 0
    for spec in specs:
        try:
            rule = load_rule(spec)
        except SpecError as error:
            errors().print(spec_panel(error))
            failed += 1
            continue
        entries = refused(rule)
        if not entries:
            form = schedule(rule).schedule
            said = f"rule {rule.name} [dim]{rule.hash}[/dim], {form} form"
            output.print(f"[green]ok[/green]      {escape(spec)}: {said}")
            continue
        failed += not valid_only
        output.print(f"[yellow]valid[/yellow]   {escape(spec)}: rule {rule.name}, not served yet:")
        for field, value, reason, nearest in entries:
            output.print(compile_panel(CompileError(field, value, reason, nearest, rule=rule.name)))
    if failed:
        raise typer.Exit(FAILED)

"""atlasgen build: the packages of generated/ from the rules of specs/."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from atlasgen.cli.console import FAILED, SentenceError, console, progress
from atlasgen.cli.optional import part
from atlasgen.spec import load_rule, shipped_specs


def build(
    specs: Annotated[
        list[str] | None, typer.Argument(help="rules; all shipped ones if none is given")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="write nothing; fail if a package is stale")] = False,
    out: Annotated[Path, typer.Option(help="the folder of the packages, one folder for each rule")] = Path(
        "generated"
    ),
) -> None:
    """Write each rule's package: kernels, where the rule has them, and the torch program. The same spec gives
    the same bytes."""
    output = console()
    part("atlasgen.emit.package", "write_files", "Writing packages")
    from atlasgen.cli.packages import stale, write_package

    file = next((path for path in (out, *out.parents) if path.exists() and not path.is_dir()), None)
    if file is not None:
        raise SentenceError(f"--out {out}: {file} is a file. Name a folder; it is made where there is none.")
    rules = [load_rule(spec) for spec in specs or shipped_specs()]
    if check:
        found = stale(out, rules if specs else None)
        if found:
            lines = "".join(f"\n  {escape(reason)}" for reason in found)
            output.print(f"[red]stale[/red] in {out}:{lines}\nRun atlasgen build and commit the packages.")
            raise typer.Exit(FAILED)
        output.print(f"[green]up to date[/green]: {len(rules)} packages in {out}")
        return
    with progress("building", len(rules)) as step:
        for rule in rules:
            written = write_package(rule, out)
            step(f"built {rule.name}")
            output.print(f"[green]built[/green] {written}")

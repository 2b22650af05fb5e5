"""atlasgen demo: from a spec file to a trained language model, every step shown."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.rule import Rule

from atlasgen.cli.console import SentenceError, console
from atlasgen.cli.optional import part


def demo(
    rule: Annotated[str, typer.Argument(help="the rule of the model's layers")] = "omeganet_linear",
    out: Annotated[Path, typer.Option(help="the folder of the loss plot and the sample")] = Path("out/demo"),
    steps: Annotated[
        int | None, typer.Option(help="training steps; the demo's own number by default")
    ] = None,
) -> None:
    """Build a rule, verify it, tune it (modelled), and train a small language model with its layer."""
    from atlasgen.cli import build as build_command
    from atlasgen.cli import tune as tune_command
    from atlasgen.cli import verify as verify_command

    output = console()
    run = part("atlasgen.demo.train", "run", "The demonstration's training")
    done: list[str] = []
    stages = {
        "build": lambda: build_command.build([rule], out=out / "generated"),
        "verify": lambda: verify_command.verify([rule], dtype="float32"),
        "tune": lambda: tune_command.tune(rule),
    }
    for name, stage in stages.items():
        output.print(Rule(name, align="left"))
        try:
            stage()
        except SentenceError as error:
            output.print(f"[yellow]left out[/yellow]: {error}")
            done.append(f"{name}: left out")
        else:
            done.append(f"{name}: done")
    output.print(Rule("train", align="left"))
    summary = run(rule, out, steps=steps)
    output.print(Rule("summary", align="left"))
    for line in done:
        output.print(f"  {line}")
    if summary is not None:
        output.print(f"  {summary}")

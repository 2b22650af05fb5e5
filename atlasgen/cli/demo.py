"""atlasgen demo: from a spec file to a trained language model, every step shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.rule import Rule

from atlasgen.cli.console import SentenceError, console, interpret_kernels
from atlasgen.cli.optional import part
from atlasgen.spec import load_rule


def demo(
    rule: Annotated[str, typer.Argument(help="the rule of the model's layers")] = "omeganet_linear",
    out: Annotated[Path, typer.Option(help="where the plot and the sample go")] = Path("out/demo"),
    steps: Annotated[int | None, typer.Option(help="training steps")] = None,
    seconds: Annotated[float, typer.Option(help="the longest that training may take")] = 200.0,
) -> None:
    """Build a rule, verify it, tune it (modelled), and train a small language model with its layer."""
    output = console()
    interpret_kernels()  # before the first stage imports triton
    train = part("atlasgen.demo.train", "run", "The demonstration's training")
    load_rule(rule)  # a rule that there is not ends the command here
    done = [_stage(name, stage) for name, stage in _stages(rule).items()]
    output.print(Rule("train", align="left"))
    result = train(rule, steps=steps, seconds=seconds, out=out, console=output)
    output.print(Rule("summary", align="left"))
    for line in done:
        output.print(f"  {line}")
    output.print(
        f"  train: {result.bits_per_byte:.3f} bits per byte on held-out text after {result.steps} steps "
        f"(bigrams {result.bigram_bits_per_byte:.3f})"
    )


def _stages(rule: str) -> dict[str, Callable[[], None]]:
    """What comes before the training, by name; each raises SentenceError where it cannot be done here."""

    def build() -> None:
        from atlasgen.cli.build import build
        from atlasgen.spec import shipped_specs

        folder = Path("generated")  # of a checkout: the layer is imported from there
        if rule not in shipped_specs() or not folder.is_dir():
            raise SentenceError(f"{rule} has no package here; its layer is made from the spec.")
        build([rule], out=folder)

    def verify() -> None:
        from atlasgen.cli.verify import verify

        verify([rule], dtype="float32")

    def tune() -> None:
        from atlasgen.cli.tune import tune
        from atlasgen.demo.settings import Settings

        settings = Settings.for_rule(load_rule(rule))
        size = settings.hidden_size // settings.num_heads
        tune(rule, shape=f"{size},{size}", trials=settings.tuning_trials)

    return {"build": build, "verify": verify, "tune": tune}


def _stage(name: str, stage: Callable[[], None]) -> str:
    """Runs a stage under its heading; its line in the summary."""
    console().print(Rule(name, align="left"))
    try:
        stage()
    except SentenceError as error:
        console().print(f"[yellow]left out[/yellow]: {escape(str(error))}")
        return f"{name}: left out"
    return f"{name}: done"

"""The command line: atlasgen check | explain | build | verify | tune | profile | demo."""

from __future__ import annotations

from typing import Annotated

import typer

from atlasgen.cli.build import build
from atlasgen.cli.check import check
from atlasgen.cli.console import CleanGroup
from atlasgen.cli.demo import demo
from atlasgen.cli.explain import explain
from atlasgen.cli.profile import profile
from atlasgen.cli.tune import tune
from atlasgen.cli.verify import verify

app = typer.Typer(
    cls=CleanGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="A compiler from memory rules (short TOML files) to verified kernels, forward and backward.",
)


@app.callback()
def main(debug: Annotated[bool, typer.Option("--debug", help="show tracebacks of errors")] = False) -> None:
    """A compiler from memory rules (short TOML files) to verified kernels, forward and backward."""


for command in (check, explain, build, verify, tune, profile, demo):
    app.command()(command)

if __name__ == "__main__":
    app()

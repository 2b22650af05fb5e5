"""atlasgen tune: launch configurations by compiling, or timing, the points of a search space."""

from __future__ import annotations

from typing import Annotated

import typer

from atlasgen.cli.console import SentenceError
from atlasgen.cli.optional import part
from atlasgen.spec import load_rule


def tune(
    spec: Annotated[str, typer.Argument(help="the rule")],
    target: Annotated[str, typer.Option(help="devices, separated by commas: sm_80, sm_90, ...")] = "sm_90",
    shape: Annotated[str, typer.Option(help="K,V of the kernels")] = "64,64",
    dtype: Annotated[str, typer.Option(help="float32, bfloat16 or float16")] = "bfloat16",
    objective: Annotated[
        str,
        typer.Option(help="modelled needs no GPU; measured, which times kernels on one, is not there yet"),
    ] = "modelled",
    trials: Annotated[
        int | None, typer.Option(min=1, help="points to try; small spaces are tried whole")
    ] = None,
) -> None:
    """Search the tile sizes of a rule's kernels and store the best where look-ups find it.

    Results go into the user's data folder, or into ATLASGEN_TUNED_DIR where that is set.
    """
    if objective == "measured":
        raise SentenceError(
            "--objective measured is not available: timing kernels needs a GPU and a later version of "
            "atlasgen. Use --objective modelled."
        )
    run = part("atlasgen.autotune.cli", "tune", "Tuning")
    key, separator, value = shape.partition(",")
    if not (separator and key.strip().isdigit() and value.strip().isdigit()):
        raise SentenceError(f"--shape {shape!r} is not two numbers K,V, as in 64,64.")
    run(
        load_rule(spec),
        targets=target.split(","),
        key_size=int(key),
        value_size=int(value),
        dtype=dtype,
        objective=objective,
        trials=trials,
    )

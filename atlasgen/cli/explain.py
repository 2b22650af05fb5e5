"""atlasgen explain: one rule on one screen."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from atlasgen.cli import plans
from atlasgen.cli.cheaper import map_share, neighbours
from atlasgen.cli.console import SentenceError, compile_panel, console, quantity, sizes_of
from atlasgen.cli.drawing import mermaid, svg
from atlasgen.cli.dump import STAGES, stage_text
from atlasgen.cli.equations import error_text, update_equations
from atlasgen.cli.facts import costs, extents, least_bytes, reasons, state_bytes
from atlasgen.emit.refusals import kernel_refusals, kernel_schedule
from atlasgen.errors import CompileError
from atlasgen.runtime.signature import signature_of
from atlasgen.schedules.serve import Scheduled, admitted, refused, schedule
from atlasgen.spec import load_rule
from atlasgen.spec.rule import MemoryRule
from atlasgen.verify.stability import StepBound, step_bound


def explain(
    spec: Annotated[str, typer.Argument(help="name of a shipped rule, or the path of a .toml file")],
    shape: Annotated[str, typer.Option(help="B,T,H,K,V of the costs")] = "8,4096,16,64,64",
    dtype: Annotated[str, typer.Option(help="of q, k, v in the costs")] = "bfloat16",
    form: Annotated[
        str, typer.Option(help="of the kernels: fused, split, split_all_rows_4, ...")
    ] = "default",
    svg_file: Annotated[Path | None, typer.Option("--svg", help="write the program's graph")] = None,
    mermaid_file: Annotated[Path | None, typer.Option("--mermaid", help="write it as Mermaid text")] = None,
    dump: Annotated[str | None, typer.Option(help="print one stage alone: " + ", ".join(STAGES))] = None,
) -> None:
    """Show a rule's equations, schedule, kernels and costs; write its graph; print a stage."""
    rule = load_rule(spec)
    size = sizes_of(shape)
    if dtype not in ("float32", "bfloat16", "float16"):
        raise typer.BadParameter(f"--dtype {dtype!r} is none of float32, bfloat16, float16")
    if dump is not None:
        sys.stdout.write(stage_text(rule, dump, form))
        return
    output = console()
    _heading(output, rule)
    _equations(output, rule)
    _stability(output, rule, size["K"])
    _state(output, rule, size)
    entries = refused(rule)
    if entries:
        output.print("\n[bold]Schedule[/bold]: none serves this rule yet")
        for field, value, reason, nearest in entries:
            output.print(compile_panel(CompileError(field, value, reason, nearest, rule=rule.name)))
    else:
        scheduled = schedule(rule)
        _schedule(output, scheduled)
        _costs(output, scheduled, size, dtype)
        _cheaper(output, scheduled, size, dtype)
        _kernels(output, scheduled, form, size, dtype)
        _graphs(output, scheduled, svg_file, mermaid_file)
    output.print("\n[bold]Operator[/bold]")
    output.print(Text(str(signature_of(rule))), soft_wrap=True)
    if entries:
        raise typer.Exit(1)


def _heading(output: Console, rule: MemoryRule) -> None:
    output.print(f"[bold]{rule.name}[/bold]  [dim]{rule.hash}[/dim]  {escape(rule.doc)}\n")


def _equations(output: Console, rule: MemoryRule) -> None:
    table = Table.grid(padding=(0, 3))
    for formula, remark in update_equations(rule):
        table.add_row(Text("  " + formula, style="cyan"), Text(remark, style="dim"))
    output.print("[bold]Update[/bold]")
    output.print(table)
    output.print("\n[bold]Error[/bold] (derived from the loss)")
    output.print(Text("\n".join("  " + line for line in error_text(rule).splitlines()), style="cyan"))


def _stability(output: Console, rule: MemoryRule, key: int) -> None:
    bound = step_bound(rule, key)
    output.print("\n[bold]Stability[/bold]")
    if bound is not None:
        output.print(Text("  " + stability_text(rule, bound)))
    elif rule.depends_on_memory:
        output.print("  no bound is known for this memory or feature map")
    else:
        output.print("  any step: the gradient does not depend on the memory")


def stability_text(rule: MemoryRule, bound: StepBound) -> str:
    """The largest learning rates in one or two sentences."""
    parts = [f"{bound.tokens} tokens of a block and its windows"] if bound.tokens > 1 else ["one token"]
    if bound.slope != 1.0:
        parts.append(f"slope {bound.slope:.3g} of the error up to |pred − v| = 4")
    if bound.features != 1.0:
        parts.append(f"|φ(k)|² up to {bound.features:.3g}")
    if bound.momentum is not None and bound.momentum != 1.0:
        parts.append(f"momentum's gain {bound.momentum:.3g}")
    lines = f"largest stable lr {bound.stable:.3g} for unit keys and gates up to 1 ({', '.join(parts)}); "
    lines += f"below {bound.smooth:.3g} a repeated key's error shrinks without changing sign"
    if bound.momentum is None:
        lines += "; with momentum, times (1 − θ)"
    lr = rule.optimizer.lr
    fixed = 1.0 if lr.kind == "none" else lr.value if lr.kind == "constant" else None
    if fixed is not None and bound.momentum is not None and fixed > bound.stable:
        lines += (
            f". The rule's own lr {fixed:g} is beyond it: it needs keys of norm {_key_norm(bound, fixed)}"
        )
    return lines + "."


def _key_norm(bound: StepBound, rate: float) -> str:
    return f"{(bound.stable / rate) ** 0.5:.3g} or less"


def _state(output: Console, rule: MemoryRule, size: dict[str, int]) -> None:
    if rule.features.kind == "exp":
        return
    parts = state_bytes(rule, size["K"], size["V"])
    total = sum(parts.values())
    shown = ", ".join(f"{name} {count:,}" for name, count in parts.items())
    output.print(f"\n[bold]State[/bold] of one head: {total:,} bytes ({shown})")


def _schedule(output: Console, scheduled: Scheduled) -> None:
    kind = "fixed by the rule" if scheduled.forward.block is not None else "any; a tuning choice"
    rows = "tokens" if scheduled.forward.steps == 1 else f"rows, {scheduled.forward.steps} a token"
    words = f"{scheduled.schedule} form, blocks of {scheduled.chunk} {rows} ({kind}), because"
    output.print(f"\n[bold]Schedule[/bold]: {words}")
    table = Table.grid(padding=(0, 2))
    for reason, meaning in reasons(scheduled.rule, scheduled.schedule):
        table.add_row(Text("  " + reason), Text(meaning, style="dim"))
    output.print(table)
    _other_schedules(output, scheduled)


def _other_schedules(output: Console, scheduled: Scheduled) -> None:
    """Which other schedules serve the rule, and why the rest do not."""
    table = Table.grid(padding=(0, 2))
    for name, refusals in admitted(scheduled.rule).items():
        if name == scheduled.schedule:
            continue
        if not refusals:
            table.add_row(f"  {name}", Text(f'serves the rule too: schedule="{name}"', style="dim"))
            continue
        first = refusals[0]
        more = f" (and {len(refusals) - 1} more)" if len(refusals) > 1 else ""
        told = f"refused: {first.field} = {first.value}: {first.reason}{more}"
        table.add_row(f"  {name}", Text(told, style="dim"))
    output.print("[bold]Other schedules[/bold]")
    output.print(table)


def _costs(output: Console, scheduled: Scheduled, size: dict[str, int], dtype: str) -> None:
    shape = " ".join(f"{name}={value}" for name, value in size.items())
    table = Table(title=f"programs, per token of one head ({dtype}, {shape})", title_justify="left")
    for name in (
        "pass",
        "values",
        "gates flops",
        "state flops",
        "output flops",
        "in products",
        "bytes",
    ):
        table.add_column(name, justify="left" if name == "pass" else "right")
    for cost in costs(scheduled, size, dtype):
        table.add_row(
            cost.name,
            str(cost.values),
            *(quantity(part.flops) for part in cost.parts),
            f"{100 * cost.dot_flops / max(cost.flops, 1):.0f}%",
            f"{cost.bytes:,.0f}",
        )
    output.print()
    output.print(table)
    forward, backward = least_bytes(scheduled.rule, size, dtype)
    tokens = size["B"] * size["T"] * size["H"]
    totals = [cost.flops * tokens for cost in costs(scheduled, size, dtype)]
    output.print(
        f"whole call: forward {quantity(totals[0], 'flop')}, {quantity(forward, 'B')} at least; "
        f"backward {quantity(totals[1], 'flop')}, {quantity(backward, 'B')} at least"
    )


def _cheaper(output: Console, scheduled: Scheduled, size: dict[str, int], dtype: str) -> None:
    """What Newton-Schulz takes, and rules beside this one that cost less."""
    share = map_share(scheduled, extents(scheduled, size["K"], size["V"]))
    if share:
        output.print(f"Newton-Schulz takes {100 * share:.0f}% of all flops")
    found = neighbours(scheduled, size, dtype)
    if found:
        output.print("\n[bold]Cheaper[/bold] rules beside this one (flops of both passes; other results)")
        table = Table.grid(padding=(0, 2))
        for entry in found:
            table.add_row(Text("  " + entry.change), Text(f"{100 * entry.share:.0f}%", style="dim"))
        output.print(table)


def _kernels(output: Console, scheduled: Scheduled, form: str, size: dict[str, int], dtype: str) -> None:
    other = kernel_schedule(scheduled.rule)
    if other is not None:
        (field, _, reason, _), *_ = kernel_refusals(scheduled.forward)
        text = f"by the {other} schedule, for {field}: {reason}"
        output.print("\n[bold]Kernels[/bold] " + escape(text), soft_wrap=True)
        scheduled = schedule(scheduled.rule, other)
    try:
        kernels = plans.kernel_costs(scheduled, form, size["K"], size["V"], dtype)
    except SentenceError as error:
        output.print(f"\n[bold]Kernels[/bold]: {error}")
        return
    except CompileError as error:
        output.print(f"\n[bold]Kernels[/bold]: none; the torch backend runs this rule. {escape(str(error))}")
        return
    table = Table(title=f"kernels ({form}), per token of one head", title_justify="left")
    for name in ("pass", "kernel", "order", "flops", "bytes", "what"):
        right = name in ("flops", "bytes")
        table.add_column(name, justify="right" if right else "left", no_wrap=name in ("kernel", "order"))
    for cost in kernels:
        row = (cost.passes, cost.name, cost.order, quantity(cost.flops), f"{cost.bytes:,.0f}", cost.doc)
        table.add_row(*(Text(entry) for entry in row))
    output.print()
    output.print(table)


def _graphs(output: Console, scheduled: Scheduled, svg_file: Path | None, mermaid_file: Path | None) -> None:
    for path, write in ((svg_file, svg), (mermaid_file, mermaid)):
        if path is not None:
            path.write_text(write(scheduled.forward), encoding="utf-8")
            output.print(f"wrote {path}")

"""results.json and results.md of a run, made anew after each stage from the rows so far."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

from benchmarks.gpu_stages.plan import STAGES

Rows = list[dict[str, Any]]


def write_report(rows: Rows, folder: Path) -> None:
    """Both files, each replaced whole."""
    _replace(folder / "results.json", json.dumps(rows, indent=1) + "\n")
    _replace(folder / "results.md", markdown(rows))


def failures(rows: Rows) -> Rows:
    """Checks that did not pass, of what users get; a candidate that is wrong only loses."""
    return [row for row in rows if row["kind"] == "check" and not row["passed"] and row["stage"] != "D"]


def markdown(rows: Rows) -> str:
    """The run for readers."""
    machine = next((row for row in rows if row["kind"] == "machine"), {})
    title = f"# atlasgen on {machine.get('card', 'an unknown card')}"
    versions = ", ".join(
        f"{name} {machine[name]}" for name in ("python", "torch", "triton") if name in machine
    )
    lines = [title, "", versions, "", "## Stages", "", *_stages(rows), ""]
    lines += _checks(rows) + _speed(rows) + _kernels(rows) + _rest(rows)
    return "\n".join(lines).rstrip() + "\n"


def _replace(path: Path, text: str) -> None:
    temporary = path.with_suffix(path.suffix + ".new")
    temporary.write_text(text, "utf-8")
    os.replace(temporary, path)


def _table(head: list[str], body: list[list[str]]) -> list[str]:
    return ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *body)]


def _stages(rows: Rows) -> list[str]:
    body = []
    for letter, title in STAGES.items():
        begin = next((row for row in rows if row["stage"] == letter and row["kind"] == "begin"), None)
        end = next((row for row in rows if row["stage"] == letter and row["kind"] in ("end", "cut")), None)
        if begin is None:
            body.append([letter, title, "not reached", ""])
            continue
        how = "running" if end is None else end.get("reason", "complete")
        seconds = "" if end is None else f"{end['time'] - begin['time']:.0f} s of {begin['limit']:.0f} s"
        body.append([letter, title, how, seconds])
    return _table(["", "stage", "", "time"], body)


def _checks(rows: Rows) -> list[str]:
    """One line for each rule, backend and dtype: how many calls agree, and the nearest to its bar."""
    groups: dict[tuple[str, ...], Rows] = defaultdict(list)
    for row in rows:
        if row["kind"] == "check" and row["stage"] in "ABC":
            groups[(row["rule"], row["backend"], row["dtype"])].append(row)
    body = []
    for key, some in groups.items():
        passed = sum(row["passed"] for row in some)
        worst = max(
            (row for row in some if "worst" in row), key=lambda r: r["worst_error"] / r["bar"], default=None
        )
        nearest = f"{worst['worst']} {worst['worst_error']:.1e} (bar {worst['bar']:.0e})" if worst else ""
        body.append([*key, f"{passed} of {len(some)}", nearest])
    lines = ["## Against the float64 reference", ""]
    lines += _table(["rule", "backend", "dtype", "calls that agree", "nearest to its bar"], body)
    wrong = failures(rows)
    if wrong:
        lines += ["", "Failures:", ""]
        lines += [f"- {_words(row)}: {row['failure']}" for row in wrong]
    return [*lines, ""]


def _words(row: dict[str, Any]) -> str:
    case = " ".join(f"{name} {value}" for name, value in row["case"].items())
    return f"{row['rule']} {row['backend']} {row['dtype']}, {row['check']}, {case}"


def _speed(rows: Rows) -> list[str]:
    timed = [row for row in rows if row["kind"] == "speed"]
    ceiling = next((row for row in rows if row["kind"] == "ceilings"), None)
    if ceiling is None:
        return []
    lines = [
        "## Speed",
        "",
        f"Ceilings of this run: {ceiling['bytes_per_second'] / 1e12:.2f} TB/s (copy, read and written), "
        f"{ceiling['flops_per_second'] / 1e12:.0f} TFLOP/s (bfloat16 product). Bandwidth: each tensor read "
        "and written once, in the measured time, as a share of the copy's. Times are medians.",
        "",
    ]
    peers = {_call(row): row["ms"] for row in timed if row["backend"] == "peer"}
    body = []
    for row in timed:
        other = peers.get(_call(row))
        ratio = f"{other / row['ms']:.2f}x" if other and row["backend"] != "peer" else ""
        flops = f"{row['flops_share']:.0%}" if "flops_share" in row else ""
        spread = f"{row['ms']:.3f} ({row['ms_min']:.3f} to {row['ms_max']:.3f})"
        call = [row["shape"], row["rule"], row["passes"], row["backend"]]
        body.append([*call, spread, f"{row['bandwidth_share']:.0%}", flops, ratio])
    head = ["shape", "rule", "passes", "backend", "ms", "bandwidth", "flops", "speed over the peer"]
    lines += _table(head, body)
    apart = {f"{r['rule']} {r['shape']}: {r['apart']:.1e}" for r in timed if "apart" in r}
    if apart:
        lines += ["", "How far the peer's y is from ours (rms ratio): " + ", ".join(sorted(apart)) + "."]
    return [*lines, ""]


def _call(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["rule"], row["shape"], row["passes"]


def _kernels(rows: Rows) -> list[str]:
    measured = [row for row in rows if row["kind"] == "kernels"]
    if not measured:
        return []
    lines = ["## Candidates, kernel by kernel (ms)", ""]
    groups: dict[tuple[str, ...], Rows] = defaultdict(list)
    for row in measured:
        groups[(row["rule"], row["shape"], *sorted(row["ms"]))].append(row)
    for key, some in groups.items():
        names = list(some[0]["ms"])
        best = {name: min(row["ms"][name] for row in some) for name in names}
        body = []
        for row in some:
            cells = [f"**{t:.3f}**" if t == best[name] else f"{t:.3f}" for name, t in row["ms"].items()]
            body.append([row["configuration"], *cells, f"{sum(row['ms'].values()):.3f}"])
        lines += [f"{key[0]}, {key[1]}:", "", *_table(["configuration", *names, "sum"], body), ""]
    return lines


def _rest(rows: Rows) -> list[str]:
    """What could not be measured, and why."""
    lines = []
    for row in rows:
        if row["kind"] in ("failed", "skipped"):
            where = " ".join(str(row[name]) for name in ("rule", "backend", "shape") if name in row)
            lines.append(f"- {where}: {row['reason']}")
        elif row["kind"] == "peer":
            lines.append(f"- peer: {row['peer'] or 'not measured, ' + row['reason']}")
        elif row["kind"] == "check" and row["stage"] == "D" and not row["passed"]:
            lines.append(f"- candidate of {row['rule']} left out: {row['failure']}")
    return ["## Notes", "", *lines] if lines else []

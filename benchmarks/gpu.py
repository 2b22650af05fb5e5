"""One command for one GPU, under 6 minutes: correctness of every served rule, speed beside a peer.

    python benchmarks/gpu.py [--wheels FOLDER] [--stages ABC] [--seconds 345] [--out FOLDER]
    python benchmarks/gpu.py --dry          # the whole script on a CPU, tiny, kernels interpreted

Results go to results/<card>-<date>/ (results.json, results.md), rewritten after each stage; what was measured
before a stage was cut, or before the script was stopped, is kept. Exit code 1: a check against the
reference failed; 2: nothing was measured.

The peer, and packages that the machine lacks, come as wheels in --wheels, made where there is a network:

    pip download --no-deps -d wheels flash-linear-attention==0.6.0 fla-core==0.6.0 einops
    pip download --no-deps -d wheels --only-binary=:all: --python-version 3.12 --implementation cp \\
        --platform manylinux2014_x86_64 pydantic==2.14.4 pydantic-core==2.50.5 annotated-types \\
        typing-inspection platformdirs

Stages run in a process of their own, and checks in more of them: a compiler that dies or a kernel that hangs
costs its stage, not the run.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.gpu_stages.plan import DRY, STAGES  # noqa: E402
from benchmarks.gpu_stages.report import failures, write_report  # noqa: E402
from benchmarks.gpu_stages.rows import RowWriter, read_rows  # noqa: E402

# Seconds of each stage; what one leaves goes to the last.
LIMITS = {"A": 45.0, "B": 150.0, "C": 110.0, "D": 40.0}
START_SECONDS = 60.0  # of a stage process until its first stage begins
GRACE_SECONDS = 5.0  # a stage ends by itself at its limit, or is ended after these


class StoppedError(Exception):
    """The script was told to stop."""


def main() -> int:
    chosen = _arguments()
    started = time.monotonic()
    folder = chosen.out or _default_folder(chosen.dry)
    folder.mkdir(parents=True, exist_ok=True)
    rows = folder / "rows.jsonl"
    rows.unlink(missing_ok=True)
    signal.signal(signal.SIGTERM, _stop)
    unpacked = Path(tempfile.mkdtemp(prefix="atlasgen-gpu-"))
    stopped = False
    try:
        environment = _environment(chosen.dry, chosen.wheels, unpacked)
        _run_stages(list(chosen.stages), rows, folder, environment, started + chosen.seconds)
    except (StoppedError, KeyboardInterrupt):
        stopped = True
        print("stopped; what was measured is kept", flush=True)
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)
    found = read_rows(rows)
    write_report(found, folder)
    rows.unlink(missing_ok=True)
    print((folder / "results.md").read_text("utf-8"))
    print(f"{folder}: {time.monotonic() - started:.0f} s", flush=True)
    if stopped:
        return 128 + signal.SIGTERM
    if not any(row["kind"] in ("check", "speed") for row in found):
        return 2
    return 1 if failures(found) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dry", action="store_true", help="on a CPU, tiny, interpreted")
    parser.add_argument("--wheels", type=Path, help="a folder of wheels to import from")
    parser.add_argument("--stages", default="".join(STAGES), help="letters of the stages to run")
    parser.add_argument("--seconds", type=float, default=345.0, help="time of the whole run")
    parser.add_argument("--out", type=Path, help="the folder of the results")
    chosen = parser.parse_args()
    unknown = set(chosen.stages) - set(STAGES)
    if unknown or not chosen.stages:
        parser.error(f"--stages {chosen.stages!r}: letters of {''.join(STAGES)}")
    if chosen.wheels is not None and not chosen.wheels.is_dir():
        parser.error(f"--wheels {chosen.wheels}: no such folder")
    return chosen


def _default_folder(dry: bool) -> Path:
    if dry:
        return ROOT / "out" / "gpu-dry"
    card = "gpu"
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        asked = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        card = subprocess.run(asked, capture_output=True, text=True, timeout=20, check=True).stdout
    name = re.sub(r"[^a-z0-9]+", "-", card.strip().splitlines()[0].lower()).strip("-")
    return ROOT / "results" / f"{name}-{time.strftime('%Y-%m-%d')}"


def _environment(dry: bool, wheels: Path | None, unpacked: Path) -> dict[str, str]:
    """Environment of the stages: the checkout and the unpacked wheels can be imported.

    Triton reads the source of kernels, and compiled modules cannot be imported from archives.
    """
    for wheel in sorted(wheels.glob("*.whl")) if wheels else ():
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(unpacked)
    environment = dict(os.environ)
    environment.pop(DRY, None)
    places = [str(ROOT), str(unpacked), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(place for place in places if place)
    environment["PYTHONUNBUFFERED"] = "1"
    if dry:
        environment[DRY] = "1"
        environment["OMP_NUM_THREADS"] = "1"
    return environment


def _run_stages(
    stages: list[str], rows: Path, folder: Path, environment: dict[str, str], deadline: float
) -> None:
    """All stages; a process that dies or overruns is replaced by one that begins with the next stage."""
    while stages and time.monotonic() < deadline:
        process = _start(stages, rows, environment, deadline)
        try:
            reached = _watch(process, stages, rows, folder, deadline)
        finally:
            _end(process)
        if process.returncode == 0:
            return
        cut = RowWriter(rows)
        cut.stage = reached or stages[0]
        reason = f"cut: it ended with {process.returncode}, or exceeded its time"
        cut.add("cut", reason=reason)
        print(f"stage {cut.stage} {reason}", flush=True)
        stages = stages[stages.index(cut.stage) + 1 :]


def _start(
    stages: list[str], rows: Path, environment: dict[str, str], deadline: float
) -> subprocess.Popen[bytes]:
    left = deadline - time.monotonic() - GRACE_SECONDS
    command = [sys.executable, "-m", "benchmarks.gpu_stages.run", "--rows", str(rows)]
    for stage in stages:
        limit = max(min(LIMITS[stage], left), 1.0)
        command += ["--stage", f"{stage}={limit:.0f}"]
        left -= limit
    return subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True)


def _watch(
    process: subprocess.Popen[bytes], stages: list[str], rows: Path, folder: Path, deadline: float
) -> str | None:
    """Wait for the process, report after each stage; returns the stage that it was in last."""
    began, current, limit, seen = time.monotonic(), None, START_SECONDS, 0
    while process.poll() is None:
        found = read_rows(rows)
        for row in found[seen:]:
            if row["kind"] == "begin" and row["stage"] in stages:
                began, current = time.monotonic(), row["stage"]
                limit = row["limit"] + GRACE_SECONDS
                print(f"stage {current}: {STAGES[current]}, at most {row['limit']:.0f} s", flush=True)
            elif row["kind"] == "end":
                write_report(found, folder)
        seen = len(found)
        now = time.monotonic()
        if now > began + limit or now > deadline:
            return current
        time.sleep(0.1)
    return current


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask the stages to end, then make them."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(timeout=GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _stop(signum: int, frame: FrameType | None) -> None:
    raise StoppedError


if __name__ == "__main__":
    sys.exit(main())

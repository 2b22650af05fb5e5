"""benchmarks/gpu.py without a GPU: the whole script at tiny shapes, and what is kept when it is stopped."""

import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "gpu.py"


def command(folder: Path, *more: str) -> list[str]:
    return [sys.executable, str(SCRIPT), "--dry", "--out", str(folder), *more]


def rows_of(folder: Path) -> list[dict]:
    return json.loads((folder / "results.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def dry(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """One dry run of all stages, with a wheel that stands for the peer's."""
    folder = tmp_path_factory.mktemp("dry")
    with zipfile.ZipFile(folder / "fla_core-0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("fla/__init__.py", "__version__ = 'of the test'\n")
        wheel.writestr("fla/ops/__init__.py", "")
        kernel = "def {0}(q, k, v, g=None, scale=1.0):\n    return (q * k).sum(-1, True) * v, None\n"
        wheel.writestr("fla/ops/simple_gla.py", kernel.format("chunk_simple_gla"))
        wheel.writestr("fla/ops/retention.py", kernel.format("chunk_retention"))
    out = folder / "results"
    finished = subprocess.run(
        command(out, "--wheels", str(folder)), cwd=folder, capture_output=True, text=True, timeout=300
    )
    return out, finished


def test_a_dry_run_walks_every_stage(dry):
    out, finished = dry
    assert finished.returncode == 0, finished.stdout + finished.stderr
    rows = rows_of(out)
    assert {row["stage"] for row in rows if row["kind"] == "end"} == set("ABCD")
    assert not (out / "rows.jsonl").exists()
    assert "not reached" not in (out / "results.md").read_text("utf-8")


def test_a_dry_run_checks_both_forms_and_both_dtypes(dry):
    checks = [row for row in rows_of(dry[0]) if row["kind"] == "check"]
    assert checks and all(row["passed"] for row in checks)
    seen = {(row["backend"], row["dtype"]) for row in checks if row["stage"] == "B"}
    assert len({backend for backend, _ in seen}) == 2 and len(seen) == 4
    assert {row["check"] for row in checks} == {"full", "training"}
    assert any(row.get("positive") for row in checks)
    assert any(row["case"].get("resumed") for row in checks)
    gradients = min(
        row["tensors"] for row in checks if row["check"] == "full" and row["rule"] == "simple_gla"
    )
    assert gradients >= 6  # y, memory, position, and the gradients of q, k, v


def test_a_dry_run_times_rules_and_peer_in_both_passes(dry):
    rows = rows_of(dry[0])
    timed = [row for row in rows if row["kind"] == "speed"]
    assert {row["passes"] for row in timed} == {"forward", "forward+backward"}
    assert {row["rule"] for row in timed if row["backend"] == "peer"} == {"simple_gla", "retnet"}
    for row in timed:
        assert row["ms_min"] <= row["ms"] <= row["ms_max"] and row["bandwidth_share"] > 0
        assert ("apart" in row) == (row["backend"] == "peer")
    both = {r["bytes"] for r in timed if r["passes"] != "forward" and r["rule"] == "retnet"}
    rows_, key, value = 20, 16, 16  # bfloat16: q, k, v read twice, their gradients, y, its gradient
    assert both == {2 * rows_ * (3 * (2 * key + value) + 2 * value)}
    (ceiling,) = (row for row in rows if row["kind"] == "ceilings")
    assert ceiling["bytes_per_second"] > 0 and ceiling["flops_per_second"] > 0
    assert {tuple(row["ms"]) for row in rows if row["kind"] == "kernels"} >= {("forward", "backward")}
    assert "speed over the peer" in (dry[0] / "results.md").read_text("utf-8")


def test_a_stopped_run_keeps_what_it_measured(tmp_path):
    out = tmp_path / "results"
    process = subprocess.Popen(command(out, "--stages", "AB"), stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and '"check"' not in _text(out / "rows.jsonl"):
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM, printed
    assert any(row["kind"] == "check" for row in rows_of(out))
    assert "what was measured is kept" in printed


def test_a_stage_that_overruns_is_cut_and_the_next_one_runs(tmp_path, monkeypatch):
    """The process of the stages hangs in A: it is replaced by one that begins with B."""
    sys.path.insert(0, str(ROOT))
    from benchmarks import gpu

    stub = (
        "import json, os, sys, time\n"
        "place = sys.argv[sys.argv.index('--rows') + 1]\n"
        "stages = [entry[0] for entry in sys.argv if entry[1:2] == '=']\n"
        "for stage in stages:\n"
        "    with open(place, 'a') as file:\n"
        "        for kind in ('begin', 'check' if stage == 'A' else 'end'):\n"
        "            row = {'stage': stage, 'kind': kind, 'time': 0, 'limit': 0.1, 'passed': True}\n"
        "            file.write(json.dumps(row | {'rule': 'r', 'backend': 'b', 'dtype': 'd'}) + '\\n')\n"
        "    time.sleep(60 if stage == 'A' else 0)\n"
    )
    monkeypatch.setattr(gpu, "GRACE_SECONDS", 0.5)
    start = subprocess.Popen

    def started(arguments, **options):
        return start([sys.executable, "-c", stub, *arguments[3:]], **options)

    monkeypatch.setattr(gpu.subprocess, "Popen", started)
    rows = tmp_path / "rows.jsonl"
    gpu._run_stages(["A", "B"], rows, tmp_path, dict(os.environ), time.monotonic() + 60)
    kinds = [(row["stage"], row["kind"]) for row in gpu.read_rows(rows)]
    assert kinds == [("A", "begin"), ("A", "check"), ("A", "cut"), ("B", "begin"), ("B", "end")]
    gpu.write_report(gpu.read_rows(rows), tmp_path)
    assert "cut: it ended" in (tmp_path / "results.md").read_text("utf-8")


def test_a_half_written_row_is_left_out(tmp_path):
    from benchmarks.gpu_stages.rows import RowWriter, read_rows

    path = tmp_path / "rows.jsonl"
    RowWriter(path).add("machine", card="x")
    with path.open("a") as file:
        file.write('{"stage": "A", "ki')
    assert [row["kind"] for row in read_rows(path)] == ["machine"]


def test_every_shipped_rule_is_checked_and_timed():
    from atlasgen.spec import load_rule, shipped_specs
    from benchmarks.gpu_stages import plan

    rules = {name: load_rule(name) for name in shipped_specs()}
    plain = {n for n, r in rules.items() if r.memory.weight_names == ("M",) and r.features.kind != "poly"}
    chosen = (*plan.RULES, *plan.EXACT_RULES)
    assert len(set(chosen)) == len(chosen)
    assert set(chosen) == {name for name in plain if not rules[name].held}
    backends = ("triton:split", "triton:fused")
    jobs = plan.correctness_jobs(backends) if not plan.is_dry() else []
    for rule in plan.RULES:
        for backend in backends:
            own = [job for job in jobs if (job["rule"], job["backend"]) == (rule, backend)]
            full = {(j["dtype"], j["case"]["key"], j["case"]["value"]) for j in own if j["check"] == "full"}
            assert full == {(d, *size) for d in ("float32", "bfloat16") for size in ((64, 64), (48, 80))}
            training = {(j["case"]["key"], j["case"]["heads"]) for j in own if j["check"] == "training"}
            assert training == {(64, 16), (128, 16)}  # what stage C times, strides included
            assert any(job.get("positive") for job in own)
    for rule in plan.EXACT_RULES:
        assert {job["dtype"] for job in jobs if job["rule"] == rule} == {"float32", "bfloat16"}


def test_an_unknown_stage_is_refused(tmp_path):
    finished = subprocess.run(command(tmp_path, "--stages", "AX"), capture_output=True, text=True)
    assert finished.returncode == 2 and "letters of ABCD" in finished.stderr


def _text(path: Path) -> str:
    return path.read_text("utf-8") if path.exists() else ""

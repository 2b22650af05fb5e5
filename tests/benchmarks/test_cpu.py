"""The CPU benchmark still runs: tiny shapes, few rounds."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "cpu.py"
SECTIONS = ["operator", "length", "memory", "decode", "atlas", "atlas_memory", "memory_deep"]
PEERS = ["layer", "titans"]


@pytest.mark.parametrize("section", [*SECTIONS, *PEERS])
def test_section_runs(section, tmp_path):
    if section in PEERS and importlib.util.find_spec("titans_pytorch") is None:
        pytest.skip("titans-pytorch is not installed")
    figures = tmp_path / "figures.json"
    command = [sys.executable, str(SCRIPT), "--quick", "--threads", "1", "--json", str(figures), section]
    environment = {**os.environ, "PYTHONPATH": str(SCRIPT.parents[1])}
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment)
    assert done.returncode == 0, done.stderr
    assert list(json.loads(figures.read_text())) == [section]
    assert "threads" in done.stdout.splitlines()[0]


def test_unknown_section_is_refused():
    command = [sys.executable, str(SCRIPT), "speed"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 2 and "operator, layer, length" in done.stderr


def test_costs_of_choices_are_a_page_with_a_plot(tmp_path):
    command = [sys.executable, str(SCRIPT.with_name("costs.py")), "--quick", "--out", str(tmp_path), "steps"]
    environment = {**os.environ, "PYTHONPATH": str(SCRIPT.parents[1])}
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "costs.md").read_text("utf-8")
    rows = [line.split("|")[1:3] for line in page.splitlines() if line.startswith("| ")][1:]
    flops = [float(cell.replace(",", "")) for _, cell in rows]
    assert [int(value) for value, _ in rows] == [0, 1, 2, 3, 4, 5]
    assert flops == sorted(flops) and (tmp_path / "costs.png").stat().st_size > 1000

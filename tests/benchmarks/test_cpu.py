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

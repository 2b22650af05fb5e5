"""Kernels compile for GPUs that are not there, and failures are reported, not suffered."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import triton

from atlasgen.runtime.cross_compile import Job, Resources, compile_for, compile_many

KERNELS = Path(__file__).with_name("kernels.py")
SIGNATURE = {"a": "*bf16", "b": "*bf16", "product": "*fp32", "rows": "i32"}
CONSTANTS = {"ROWS": 64, "INNER": 64, "COLUMNS": 64}
ABORTING = """
import os, triton
@triton.jit
def aborting_kernel(out):
    pass
os.abort()
"""
SLEEPING = """
import time
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("ATLASGEN_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def matmul_job(target: str, **changes) -> Job:
    job = Job(KERNELS.read_text(), "matmul_kernel", SIGNATURE, CONSTANTS, target)
    return dataclasses.replace(job, **changes)


def copy_job(source: str, kernel: str) -> Job:
    return Job(source, kernel, {"out": "*fp32"}, {}, "sm_90")


@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_90", "sm_100", "gfx942"])
def test_a_matmul_on_every_target(target):
    found = compile_for(KERNELS, "matmul_kernel", SIGNATURE, CONSTANTS, target)
    assert found.error is None
    assert found.fits(target)
    assert 16 <= found.registers <= 255
    # The 3.6 series keeps 40 bytes of this kernel in memory on sm_100.
    if not (target == "sm_100" and triton.__version__.startswith("3.6.")):
        assert found.spill_bytes == found.spill_instructions == 0
    assert found.tensor_core_instructions >= 4
    assert found.global_loads >= 2 and found.global_stores >= 1
    # Both operands go through shared memory, 8 KiB each, on NVIDIA; AMD keeps one in registers.
    assert found.shared_bytes >= (8192 if target == "gfx942" else 16384)
    assert found.seconds > 0


@pytest.mark.parametrize("target, on_tensor_cores", [("sm_90", False), ("gfx942", True)])
def test_products_of_float32(target, on_tensor_cores):
    """NVIDIA has no float32 tensor cores: 64^3 multiply-adds over 128 threads; AMD has them."""
    signature = dict(SIGNATURE, a="*fp32", b="*fp32")
    found = compile_for(KERNELS, "matmul_kernel", signature, CONSTANTS, target)
    assert found.error is None
    assert (found.tensor_core_instructions > 0) == on_tensor_cores
    assert (found.fma >= 64**3 // 128) == (not on_tensor_cores)


@pytest.mark.parametrize("target, size", [("sm_80", 128), ("gfx942", 512)])
def test_spills_are_seen(target, size):
    """One warp holds more of the product than it has registers."""
    constants = {"ROWS": 128, "INNER": 16, "COLUMNS": size}
    found = compile_for(KERNELS, "matmul_kernel", SIGNATURE, constants, target, num_warps=1)
    assert found.error is None
    assert found.spill_bytes > 0 and found.spill_instructions > 0


def test_results_come_in_the_jobs_order():
    sizes = (256, 64, 128)
    jobs = [matmul_job("sm_90", constants=dict(CONSTANTS, INNER=size)) for size in sizes]
    done: list[int] = []
    results = compile_many(jobs, workers=2, on_done=lambda index, _: done.append(index))
    assert [result.shared_bytes for result in results] == [2 * 64 * size * 2 for size in sizes]
    assert sorted(done) == [0, 1, 2]


def test_a_refused_kernel_is_an_error_text():
    job = Job(KERNELS.read_text(), "failing_kernel", {"source": "*fp32"}, {}, "sm_90")
    (found,) = compile_many([job])
    assert found.error is not None and "this kernel never compiles" in found.error
    assert not found.fits("sm_90")


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"kernel": "matmul"}, "kernel: got 'matmul', the source has matmul_kernel, cast_kernel"),
        ({"constants": {"ROWS": 64, "INNER": 64}}, "missing: COLUMNS"),
        ({"constants": dict(CONSTANTS, DEPTH=1)}, "unknown: DEPTH"),
        ({"constants": dict(CONSTANTS, rows=1)}, "given twice: rows"),
    ],
)
def test_wrong_parameters_are_named(changes, message):
    (found,) = compile_many([matmul_job("sm_90", **changes)])
    assert found.error is not None and message in found.error


def test_a_compiler_that_aborts_takes_nothing_along():
    results = compile_many([copy_job(ABORTING, "aborting_kernel"), matmul_job("sm_90")], workers=1)
    assert results[0].error is not None and "SIGABRT" in results[0].error
    assert results[1].error is None


def test_a_job_over_its_time_is_ended():
    results = compile_many([copy_job(SLEEPING, "any")], workers=1, time_limit=2.0)
    assert results[0].error is not None and "no answer within 2 s" in results[0].error


def test_an_unknown_target_is_refused_before_anything_runs():
    with pytest.raises(ValueError, match="did you mean sm_90"):
        matmul_job("sm90")


def test_constants_that_have_no_json_are_refused():
    with pytest.raises(TypeError, match="got a tuple"):
        matmul_job("sm_90", constants={"ROWS": (1, 2)})


def test_the_second_time_nothing_is_compiled(monkeypatch):
    (first,) = compile_many([matmul_job("sm_90")])
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    assert compile_many([matmul_job("sm_90")]) == [first]


def test_errors_of_the_machine_are_not_kept(cache):
    compile_many([copy_job(ABORTING, "aborting_kernel")])
    assert not list(cache.rglob("*.json"))


def test_the_key_tells_apart_what_compiles_apart():
    job = matmul_job("sm_90")
    variants = [
        matmul_job("sm_80"),
        matmul_job("sm_90", num_warps=8),
        matmul_job("sm_90", num_stages=2),
        matmul_job("sm_90", source=job.source + "\n"),
        matmul_job("sm_90", signature=dict(SIGNATURE, rows="i64")),
        matmul_job("sm_90", constants=dict(CONSTANTS, ROWS=64.0)),
    ]
    assert len({variant.key() for variant in [job, *variants]}) == 7
    reordered = dict(reversed(CONSTANTS.items()))
    assert matmul_job("sm_90", constants=reordered).key() == job.key()


def test_a_cache_that_cannot_be_written_is_no_error(monkeypatch, tmp_path):
    blocked = tmp_path / "a_file"
    blocked.write_text("in the way of the folder")
    monkeypatch.setenv("ATLASGEN_CACHE_DIR", str(blocked))
    (found,) = compile_many([matmul_job("sm_90")])
    assert found.error is None


def test_a_damaged_cache_entry_is_compiled_again(cache):
    compile_many([matmul_job("sm_90")])
    (entry,) = cache.rglob("*.json")
    entry.write_text("{")
    (found,) = compile_many([matmul_job("sm_90")])
    assert found.registers > 0
    assert json.loads(entry.read_text())["registers"] == found.registers


def test_the_command_reads_jobs_and_writes_results():
    jobs = json.dumps([dataclasses.asdict(matmul_job("sm_90"))])
    finished = subprocess.run(
        [sys.executable, "-m", "atlasgen.runtime.cross_compile"],
        input=jobs,
        capture_output=True,
        text=True,
        env=dict(os.environ),
        check=True,
    )
    (found,) = [Resources(**fields) for fields in json.loads(finished.stdout)]
    assert found.error is None and found.tensor_core_instructions > 0

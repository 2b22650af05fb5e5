"""Counts of launches, bytes and flops agree with counts by hand."""

import subprocess
import sys

import pytest
import torch
from triton.runtime.interpreter import GridExecutor, InterpreterBuilder

from atlasgen.runtime.interpreter import (
    InterpreterInactiveError,
    count,
    install_shim,
    is_interpreted,
    require_interpreted,
)
from tests.toolchain.kernels import cast_kernel, matmul_kernel

install_shim()
COUNTED = ("create_masked_load", "create_masked_store", "create_dot")


def multiply(rows: int) -> None:
    a, b = torch.randn(rows, 32), torch.randn(32, 64)
    product = torch.empty(rows, 64)
    grid = -(-rows // 16)
    matmul_kernel[(grid,)](a, b, product, rows, 16, 32, 64)
    assert torch.allclose(product, a @ b, atol=1e-4)


def test_lanes_that_are_masked_off_count_zero():
    with count() as counters:
        multiply(rows=21)
    programs = 2
    assert counters.launches == 1
    assert counters.bytes_loaded == 21 * 32 * 4 + programs * 32 * 64 * 4
    assert counters.bytes_stored == 21 * 64 * 4
    assert counters.dot_flops == programs * 2 * 16 * 32 * 64


def test_counts_are_kept_per_kernel():
    source = torch.randn(64)
    target = torch.empty(64, dtype=torch.bfloat16)
    with count() as counters:
        multiply(rows=16)
        cast_kernel[(1,)](source, target, 64)
        cast_kernel[(1,)](source, target, 64)
    assert set(counters.kernels) == {"matmul_kernel", "cast_kernel"}
    cast = counters.kernels["cast_kernel"]
    assert (cast.launches, cast.bytes_loaded, cast.bytes_stored) == (2, 2 * 64 * 4, 2 * 64 * 2)
    assert counters.kernels["matmul_kernel"].dot_flops == counters.dot_flops == 2 * 16 * 32 * 64
    assert counters.launches == 3


def test_nothing_is_counted_outside_the_context():
    with count() as counters:
        multiply(rows=16)
    seen = counters.bytes_loaded
    multiply(rows=16)
    assert counters.bytes_loaded == seen


def test_contexts_nest():
    with count() as outer:
        multiply(rows=16)
        with count() as inner:
            multiply(rows=16)
    assert (outer.launches, inner.launches) == (2, 1)
    assert outer.bytes_loaded == 2 * inner.bytes_loaded


def test_everything_is_restored_after_an_error():
    before = [getattr(InterpreterBuilder, name) for name in COUNTED] + [GridExecutor.__call__]
    with pytest.raises(ZeroDivisionError), count():
        raise ZeroDivisionError
    after = [getattr(InterpreterBuilder, name) for name in COUNTED] + [GridExecutor.__call__]
    assert before == after


def test_kernels_of_this_session_are_interpreted():
    assert is_interpreted() and is_interpreted(matmul_kernel)
    require_interpreted(matmul_kernel)


def test_a_kernel_that_is_not_interpreted_is_named():
    with pytest.raises(InterpreterInactiveError, match="TRITON_INTERPRET=1 before"):
        require_interpreted(multiply)


def test_counting_without_the_interpreter_is_refused():
    program = (
        "from atlasgen.runtime.interpreter import count, InterpreterInactiveError\n"
        "try:\n    count().__enter__()\n"
        "except InterpreterInactiveError as error:\n    print(error)\n"
    )
    environment = {"PATH": "/usr/bin:/bin", "TRITON_INTERPRET": "0"}
    finished = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert "Set TRITON_INTERPRET=1" in finished.stdout

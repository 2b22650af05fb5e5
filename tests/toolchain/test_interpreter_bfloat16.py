"""bfloat16 under Triton's interpreter equals torch's, bit for bit where torch rounds once."""

import numpy as np
import pytest
import torch
import triton
from triton.runtime.interpreter import InterpreterBuilder

from atlasgen.runtime.interpreter import install_shim, narrow, widen
from tests.toolchain.kernels import (
    arithmetic_kernel,
    cast_kernel,
    matmul_kernel,
    reduction_kernel,
)

ALL_BITS = torch.arange(2**16, dtype=torch.int32).to(torch.uint16)
install_shim()


def run_cast(source: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    size = triton.next_power_of_2(source.numel())
    padded = torch.zeros(size, dtype=source.dtype)
    padded[: source.numel()] = source
    target = torch.empty(size, dtype=dtype)
    cast_kernel[(1,)](padded, target, size)
    return target[: source.numel()]


def assert_same_values(actual: torch.Tensor, expected: torch.Tensor) -> None:
    """Equal bits, signs of zeros included; any NaN equals any other."""
    assert actual.dtype == expected.dtype
    assert torch.equal(actual.isnan(), expected.isnan())
    integer = {2: torch.int16, 4: torch.int32}[actual.element_size()]
    present = ~expected.isnan()
    assert torch.equal(actual[present].view(integer), expected[present].view(integer))


def test_every_bfloat16_widens_exactly():
    values = ALL_BITS.view(torch.bfloat16)
    assert_same_values(run_cast(values, torch.float32), values.float())


def test_every_bfloat16_survives_a_round_trip():
    values = ALL_BITS.view(torch.bfloat16)
    assert_same_values(run_cast(run_cast(values, torch.float32), torch.bfloat16), values)


def test_float32_rounds_to_nearest_even():
    """Around every bfloat16: below, at and above the tie between it and the next."""
    high = np.arange(2**16, dtype=np.uint32) << 16
    for low in (0x0000, 0x0001, 0x7FFF, 0x8000, 0x8001, 0xFFFF):
        source = torch.from_numpy((high | np.uint32(low)).view(np.float32))
        assert_same_values(run_cast(source, torch.bfloat16), source.to(torch.bfloat16))


@pytest.mark.parametrize(
    "value, bits",
    [
        (1.0 + 2.0**-8, 0x3F80),  # a tie, down to the even neighbour
        (1.0 + 3 * 2.0**-8, 0x3F82),  # a tie, up to the even neighbour
        (3.4e38, 0x7F80),  # above the largest bfloat16: infinity
        (float("inf"), 0x7F80),
        (float("-inf"), 0xFF80),
        (2.0**-133, 0x0001),  # the smallest denormal
        (2.0**-134, 0x0000),  # half of it: a tie with zero
        (-0.0, 0x8000),
    ],
)
def test_particular_values(value, bits):
    source = np.array([value], dtype=np.float32)
    assert int(narrow(source)[0]) == bits


def test_nan_stays_nan_whatever_its_payload():
    payloads = np.array([0x7F800001, 0x7FFFFFFF, 0xFF800001, 0xFFFFFFFF], dtype=np.uint32)
    assert np.isnan(widen(narrow(payloads.view(np.float32)))).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.int32])
def test_casts_from_other_dtypes(dtype):
    source = torch.arange(-128, 128).to(dtype) * 3
    assert_same_values(run_cast(source, torch.bfloat16), source.to(torch.bfloat16))
    back = run_cast(source.to(torch.bfloat16), dtype)
    assert torch.equal(back, source.to(torch.bfloat16).to(dtype))


def test_dot_of_bfloat16():
    a = torch.randn(32, 32).to(torch.bfloat16)
    b = torch.randn(32, 32).to(torch.bfloat16)
    product = torch.empty(32, 32)
    matmul_kernel[(2,)](a, b, product, 32, 16, 32, 32)
    expected = a.double() @ b.double()
    assert (product - expected).pow(2).mean().sqrt() < 1e-6 * expected.pow(2).mean().sqrt()


def test_dot_stored_as_bfloat16():
    a = torch.randn(16, 16).to(torch.bfloat16)
    b = torch.eye(16).to(torch.bfloat16)
    product = torch.empty(16, 16, dtype=torch.bfloat16)
    matmul_kernel[(1,)](a, b, product, 16, 16, 16, 16)
    assert torch.equal(product, a)


def test_arithmetic_rounds_once_per_operation():
    a = torch.randn(256).to(torch.bfloat16)
    b = torch.randn(256).to(torch.bfloat16)
    out = torch.empty(8, 256, dtype=torch.bfloat16)
    arithmetic_kernel[(1,)](a, b, out, 256)
    expected = [a + b, a - b, a * b, -a, a.abs(), a.maximum(b), torch.where(a < b, a, b), a + 1.5]
    for row, wanted in zip(out, expected, strict=True):
        assert_same_values(row, wanted)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_reductions_and_scans(dtype):
    """The float32 result, rounded once where the input is bfloat16."""
    source = torch.randn(64).to(dtype)
    out = torch.zeros(3, 64, dtype=dtype)
    reduction_kernel[(1,)](source, out, 64)
    wide = source.float()
    assert_same_values(out[1, 0], wide.max().to(dtype))
    bar = 1e-6 if dtype == torch.float32 else 2.0**-8
    assert abs(out[0, 0].float() - wide.sum()) <= bar * wide.abs().sum()
    assert ((out[2].float() - wide.cumsum(0)).abs() <= bar * wide.abs().cumsum(0)).all()


def test_long_sums_do_not_stall():
    """Summed in bfloat16, ones stop counting at 256."""
    source = torch.ones(1024, dtype=torch.bfloat16)
    out = torch.zeros(3, 1024, dtype=torch.bfloat16)
    reduction_kernel[(1,)](source, out, 1024)
    assert out[0, 0] == 1024


def test_float32_results_are_left_alone():
    a = torch.randn(256)
    b = torch.randn(256)
    out = torch.empty(8, 256)
    arithmetic_kernel[(1,)](a, b, out, 256)
    assert torch.equal(out[0], a + b)
    assert torch.equal(out[6], torch.where(a < b, a, b))


def test_installing_twice_changes_nothing():
    before = {name: getattr(InterpreterBuilder, name) for name in ("create_dot", "cast_impl")}
    install_shim()
    assert before == {name: getattr(InterpreterBuilder, name) for name in before}

"""Counts against the interpreter's, and the order in which the model puts points."""

from __future__ import annotations

import dataclasses

import pytest

from atlasgen.autotune.count import Counts, kernel_counts
from atlasgen.autotune.modelled import Modelled, estimate, judge, resident_programs
from atlasgen.autotune.objective import Point
from atlasgen.autotune.sources import kernel_source
from atlasgen.cli.profile import counted
from atlasgen.emit.triton_module import emit_module
from atlasgen.runtime.cross_compile import Resources
from atlasgen.runtime.launch import CallSizes, KernelTiles, Tiles
from atlasgen.runtime.targets import find_target
from atlasgen.schedules.serve import schedule
from atlasgen.spec import load_rule
from atlasgen.verify.backends import structure_of
from tests.autotune.support import problem

H200 = find_target("sm_90")
COUNTS = Counts(10_000, 1, 10**9, 10**9, 10**12, 10**9)
PLAIN = Resources(registers=128, shared_bytes=32_768)


@pytest.mark.parametrize(
    ("rule", "form"), [("omeganet_linear", "split_all_rows_4"), ("simple_gla", "fused"), ("retnet", "split")]
)
def test_counts_equal_what_the_interpreter_sees(rule: str, form: str) -> None:
    scheduled, size = schedule(load_rule(rule)), {"B": 1, "T": 70, "H": 2, "K": 16, "V": 80}
    module, program = emit_module(scheduled, structure_of(form, scheduled.rule)), scheduled.forward
    sizes = CallSizes(1, 70, 2, 16, 80, scheduled.chunk, 2, program.halo, program.window)
    wanted = kernel_counts(module, sizes, Tiles(), "float32")
    seen = counted(scheduled.rule, form, size, "float32")["forward + backward"]
    for kernel in seen:
        if kernel.kernel in wanted:
            own, launches = wanted[kernel.kernel], kernel.launches
            figures = (own.bytes_loaded, own.bytes_stored, own.dot_flops)
            found = (kernel.bytes_loaded, kernel.bytes_stored, kernel.dot_flops)
            assert figures == tuple(figure // launches for figure in found), kernel.kernel
    assert set(wanted) <= {kernel.kernel for kernel in seen}


def test_residency_is_bounded_by_registers_shared_memory_and_threads() -> None:
    assert resident_programs(PLAIN, 4, H200) == 4
    assert resident_programs(dataclasses.replace(PLAIN, shared_bytes=200_000), 4, H200) == 1
    assert resident_programs(Resources(registers=16), 16, H200) == 4


def test_more_bytes_flops_steps_and_spills_take_longer() -> None:
    base = estimate(COUNTS, PLAIN, 4, 1, H200, "bfloat16")
    for slower in (
        dataclasses.replace(COUNTS, bytes_loaded=10**11),
        dataclasses.replace(COUNTS, dot_flops=10**15),
        dataclasses.replace(COUNTS, steps=100),
    ):
        assert estimate(slower, PLAIN, 4, 1, H200, "bfloat16") > base
    spilled = dataclasses.replace(PLAIN, spill_instructions=500)
    assert estimate(COUNTS, spilled, 4, 1, H200, "bfloat16") > base
    least = COUNTS.bytes / H200.bandwidth
    assert base >= least, "no estimate is below the roofline"


def test_too_much_shared_memory_and_compile_errors_are_reasons() -> None:
    point = Point(problem(), "state", KernelTiles())
    over = judge(point, Resources(shared_bytes=H200.shared_bytes + 1))
    assert over.reason is not None and "shared memory" in over.reason
    broken = judge(point, Resources(error="CompilationError: no"))
    assert broken.reason == "CompilationError: no"
    assert judge(point, PLAIN).rank < over.rank


def test_a_kernels_own_text_compiles_alone_and_names_no_sibling() -> None:
    whole = problem()
    text = kernel_source(whole.module, "gates")
    assert "def gates(" in text and "def state(" not in text
    (found,) = Modelled(workers=1).evaluate([Point(whole, "gates", KernelTiles())])
    assert found.reason is None and 0 < found.seconds < 1 and found.figures is not None

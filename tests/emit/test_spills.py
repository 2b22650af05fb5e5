"""Exact rules and decays by channel at their defaults: no spills but named ones, products on tensor cores."""

from __future__ import annotations

import pytest

from atlasgen.runtime.configuration import default_configuration, emitted_module
from atlasgen.runtime.cross_compile import compile_many
from atlasgen.runtime.launch import CallSizes, own_extents
from atlasgen.runtime.resources import jobs
from atlasgen.schedules.serve import schedule
from atlasgen.spec import load_rule

RULES = (
    "deltanet", "gated_deltanet", "comba", "titans_exact", "gla", "kda", "rwkv7", "gated_deltanet_2",
    "longhorn",
)  # fmt: skip
TARGETS = ("sm_80", "sm_89", "sm_90", "sm_100", "gfx942")
# (rule, target, K and V) -> the one kernel that may spill, and how many bytes: two states, of 128 x 16 each,
# and the errors of a block.
SPILLS = {
    ("titans_exact", "sm_100", 128): ("state_gradient", 24),
    ("omeganet_exact", "sm_100", 64): ("value_sums_d_memory_next_of_errors", 8),
}
EVERY = [(name, target, size) for name in RULES for target in TARGETS for size in (64, 128)]


def check(name: str, target: str, size: int, by: str | None = None) -> None:
    """Compile every kernel of a training step in bfloat16 for a target; by: a schedule other than its own."""
    rule = load_rule(name)
    scheduled, configuration = schedule(rule, by), default_configuration(rule, target, by)
    program, chunk = scheduled.forward, scheduled.chunk
    own = tuple(own_extents(rule, program, size, size).items())
    sizes = CallSizes(2, 4 * chunk, 2, size, size, chunk, 4, program.halo, program.window, own)
    module = emitted_module(rule, configuration.structure)
    work = jobs(module, sizes, configuration.tiles, "bfloat16", target)
    for kernel, found in zip(work, compile_many(list(work.values())), strict=True):
        assert found.error is None, f"{kernel}: {found.error}"
        assert found.fits(target), f"{kernel} on {target}: {found.shared_bytes} bytes of shared memory"
        named, limit = SPILLS.get((name, target, size), ("", 0))
        assert found.spill_bytes <= (limit if kernel == named else 0), (
            f"{kernel} on {target} at K=V={size}: spills {found.spill_bytes} bytes"
        )
        if "tl.dot(" in module.kernels[kernel].text:
            assert found.tensor_core_instructions, f"{kernel} on {target}: products not on tensor cores"


@pytest.mark.parametrize("name", ["gated_deltanet", "gla", "longhorn"])
def test_a_training_step_does_not_spill(name: str) -> None:
    check(name, "gfx942", 64)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", (64, 128))
@pytest.mark.parametrize("name", ["omeganet_exact", "titans_exact"])
def test_no_walk_over_rows_spills(name: str, target: str, size: int) -> None:
    check(name, target, size, "gram")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "target", "size"), EVERY)
def test_no_exact_rule_spills(name: str, target: str, size: int) -> None:
    check(name, target, size)

"""The shipped configurations, compiled for four GPUs: no spills, tensor cores, shared memory that fits."""

from __future__ import annotations

import pytest

from atlasgen.autotune.problems import make_problem
from atlasgen.autotune.refresh import SIZES, TARGETS, tuned_rules
from atlasgen.autotune.sources import kernel_job
from atlasgen.emit.refusals import kernel_refusals
from atlasgen.runtime.configuration import DEFAULT, Configuration, _chosen, default_configuration, source_key
from atlasgen.runtime.cross_compile import compile_many
from atlasgen.runtime.results import DEFAULTS, read_entries, read_file, shipped_folder
from atlasgen.runtime.targets import all_targets
from atlasgen.schedules.serve import schedule
from atlasgen.spec import load_rule, shipped_specs

# (target, K and V) -> the one backward kernel of a rule that may spill, and how many bytes.
SPILLS = {("titans_linear", "sm_80", 128): ("output_gradient_v", 200)}
SERVED = [name for name in shipped_specs() if not kernel_refusals(schedule(load_rule(name)).forward)]
TUNED = [rule.name for rule in tuned_rules()]
THIN = [(rule, target) for rule in ("omeganet_linear", "titans_linear") for target in TARGETS]
THIN += [("simple_gla", "sm_80"), ("simple_gla", "gfx942")]
REST = [
    (rule, target, size)
    for rule in TUNED
    for target in TARGETS
    for size in SIZES
    if not (size == 128 and (rule, target) in THIN)
]


def check(rule_name: str, target: str, size: int, dtype: str) -> None:
    """Compile every kernel of the shipped entry, forward and backward, and hold it to the bars."""
    rule = load_rule(rule_name)
    entries = read_file(shipped_folder() / target / f"{rule_name}.json")
    entry = next(entry for entry in entries if entry.slot == (dtype, size, size))
    configuration = Configuration.from_table(entry.configuration)
    structure, tiles = configuration.structure, configuration.tiles
    stale = "stale: run python -m atlasgen.autotune.refresh"
    assert entry.source == source_key(rule, structure), f"{rule_name} on {target}: {stale}"
    problem = make_problem(rule, structure, dtype, size, size, target)
    kernels = problem.module.kernels
    assert set(tiles.kernels) == set(kernels)
    jobs = [
        kernel_job(problem.module, name, problem.sizes, tiles.of(name), dtype, target) for name in kernels
    ]
    found = dict(zip(kernels, compile_many(jobs), strict=True))
    spilled = {name: figures.spill_bytes for name, figures in found.items() if figures.spill_bytes}
    name, limit = SPILLS.get((rule_name, target, size), ("", 0))
    over = {kernel: number for kernel, number in spilled.items() if kernel != name or number > limit}
    assert not over, f"{rule_name} on {target} at K=V={size} spills {over}"
    for name, figures in found.items():
        assert figures.error is None, f"{name}: {figures.error}"
        assert figures.fits(target), f"{name} on {target}: {figures.shared_bytes} bytes of shared memory"
        if "tl.dot(" in kernels[name].text and dtype == "bfloat16":
            assert figures.tensor_core_instructions > 0, f"{name} on {target}: products not on tensor cores"


@pytest.mark.parametrize(("rule", "target"), THIN)
def test_no_spills_at_128(rule: str, target: str) -> None:
    check(rule, target, 128, "bfloat16")


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "target", "size"), REST)
def test_no_spills_in_any_shipped_configuration(rule: str, target: str, size: int) -> None:
    check(rule, target, size, "bfloat16")


def test_results_are_shipped_for_what_can_be_tuned() -> None:
    for target in TARGETS:
        found = {path.stem for path in (shipped_folder() / target).glob("*.json")}
        assert found == {*TUNED, DEFAULTS}


@pytest.mark.parametrize("rule", sorted(set(SERVED) - set(TUNED)))
@pytest.mark.parametrize("target", TARGETS)
def test_a_rule_without_results_gets_the_default_of_its_target(rule: str, target: str) -> None:
    loaded, shared = load_rule(rule), all_targets()[target].shared_bytes
    default = default_configuration(loaded, target)
    # The targets' defaults were found for kernels of that structure.
    entries = read_entries(target, DEFAULTS) if default is DEFAULT else ()
    allowed = [Configuration.from_table(entry.configuration) for entry in entries] or [default]
    for size in SIZES:
        assert _chosen(loaded, target, shared, "bfloat16", size, size) in allowed


@pytest.mark.parametrize("rule", TUNED)
def test_every_rule_has_an_entry_for_every_target_and_size_that_is_not_stale(rule: str) -> None:
    loaded = load_rule(rule)
    for target in TARGETS:
        entries = {entry.slot: entry for entry in read_file(shipped_folder() / target / f"{rule}.json")}
        for size in SIZES:
            entry = entries[("bfloat16", size, size)]
            structure = Configuration.from_table(entry.configuration).structure
            assert entry.source == source_key(loaded, structure), (
                f"{rule} on {target} is stale: run python -m atlasgen.autotune.refresh"
            )
            assert entry.evidence["checked"]["problem"] is None
            named, limit = SPILLS.get((rule, target, size), ("", 0))
            for kernel, figures in entry.evidence["kernels"].items():
                assert figures["spill_bytes"] <= (limit if kernel == named else 0)

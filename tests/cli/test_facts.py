"""Costs against numbers counted by hand, and against those of the project's notes."""

import pytest

from atlasgen.cli.facts import costs, least_bytes, reasons, slices, state_bytes
from atlasgen.cli.plans import kernel_costs
from atlasgen.schedules.serve import schedule
from atlasgen.spec import load_rule, shipped_specs

SIZE = {"B": 1, "T": 128, "H": 2, "K": 64, "V": 64}
GATE = 4 * 128 * 2  # one float32 gate per token and head


def test_least_bytes_of_simple_gla() -> None:
    forward, backward = least_bytes(load_rule("simple_gla"), SIZE, "float32")
    assert forward == 262_144 + GATE
    assert forward + backward == 720_896 + 3 * GATE


def test_bfloat16_halves_rows_and_keeps_gates() -> None:
    forward, _ = least_bytes(load_rule("simple_gla"), SIZE, "bfloat16")
    assert forward == 262_144 // 2 + GATE


def test_matrix_products_of_simple_gla() -> None:
    forward, backward = costs(schedule(load_rule("simple_gla")), SIZE, "float32")
    # Q M, Q X^T, (..) V and X^T V: four products of 64 x 64 with a row, 2 flops an element.
    assert forward.dot_flops == 4 * 2 * 64 * 64
    assert backward.dot_flops > 2 * forward.dot_flops
    assert forward.flops > forward.dot_flops


def test_values_are_put_into_the_part_that_they_need() -> None:
    program = schedule(load_rule("omeganet_linear")).forward
    by_name = {program.names[node]: part for node, part in slices(program).items() if node in program.names}
    assert by_name["window"] == by_name["weights"] == by_name["kept"] == "gates"
    assert by_name["errors"] == by_name["memory_next"] == "state"
    assert by_name["scores"] == by_name["attention"] == by_name["reads"] == "output"


def test_state_bytes() -> None:
    assert state_bytes(load_rule("simple_gla"), 64, 32) == {"memory.M": 4 * 64 * 32, "position": 8}
    omega = state_bytes(load_rule("omeganet_linear"), 64, 64)
    assert omega["window.k"] == 4 * 15 * 64 and omega["block.anchor"] == 4 * 64 * 64


def test_reasons_follow_the_rule() -> None:
    rules = {name: load_rule(name) for name in shipped_specs()}
    words = {
        name: [reason for reason, _ in reasons(rule, schedule(rule).schedule)] for name, rule in rules.items()
    }
    assert "error affine in pred" in words["gated_deltanet"] and "M* is no border's" in words["kda"]
    assert "errors at M of the token before" in words["omeganet_exact"]
    meanings = dict(reasons(rules["longhorn"], "wy"))
    assert meanings["error affine in pred"].endswith("one triangular system for each value channel")
    assert dict(reasons(rules["deltanet"], "wy"))["error affine in pred"].endswith("one triangular system")
    assert "does not depend on M*" in words["simple_gla"]
    assert "depends on M*, block = 64" in words["titans_linear"] and "momentum" in words["titans_linear"]
    assert "boundary = halo" in words["omeganet_linear"] and "momentum" not in words["omeganet_linear"]


def test_only_the_dual_form_is_called_so() -> None:
    for name in shipped_specs():
        form = schedule(load_rule(name)).schedule
        means = " ".join(meaning for _, meaning in reasons(load_rule(name), form))
        assert form == "dual" or "dual form" not in means, name


@pytest.mark.parametrize("name", ["simple_gla", "omeganet_linear"])
def test_kernels_do_at_least_the_work_of_their_program(name: str) -> None:
    scheduled = schedule(load_rule(name))
    programs = {cost.name: cost for cost in costs(scheduled, SIZE, "float32")}
    for form in ("split", "fused"):
        kernels = kernel_costs(scheduled, form, 64, 64, "float32")
        forward = [kernel for kernel in kernels if kernel.passes == "forward"]
        assert sum(kernel.flops for kernel in forward) >= programs["forward"].flops
        assert sum(kernel.bytes for kernel in forward) >= programs["forward"].bytes
        assert len(forward) == (1 if form == "fused" else 2)

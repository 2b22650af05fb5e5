"""Every structure and every tile of the kernels computes the same function: the float64 definition's."""

from __future__ import annotations

import pytest

from atlasgen.emit.plan import Structure
from atlasgen.errors import CompileError
from atlasgen.runtime.compile import backends, register_backend
from atlasgen.runtime.configuration import Configuration
from atlasgen.runtime.launch import KernelTiles, Tiles
from atlasgen.runtime.triton_backend import TritonProgram
from atlasgen.spec import load_rule, rule_from_table
from tests.rules.compare import Shape, check, make_case

STRUCTURES = (
    Structure(),
    Structure("split", "vectors", True, 2),
    Structure("split", "all", False, 3),
    Structure("split", "all", True, 4),
    Structure("fused"),
)
SPECS = ("linear_attention", "simple_gla", "titans_linear", "omeganet_linear", "logcosh_omega")
WINDOWED = {
    "rule": "windowed",
    "features": "identity",
    "loss": "dot",
    "window": {"length": 16, "gate": "token"},
    "retention": "token",
}
ROWS = {
    "rule": "row_rule",
    "loss": {"kind": "huber", "per": "row", "delta": "delta"},
    "inputs": {"delta": "token"},
    "block": 20,
    "window": {"length": 5, "gate": "pair", "boundary": "carry", "normalise": "mean"},
    "optimizer": {"kind": "momentum", "lr": "token", "theta": "head"},
    "retention": {"kind": "token", "toward": "initial"},
    "memory": {"initial": "given"},
}


def backend_of(structure: Structure, tiles: Tiles | None = None, label: str = "") -> str:
    """The name of a backend that runs one configuration."""
    name = f"kernels_{structure.label}{label}"
    if name not in backends():
        configuration = Configuration(structure, tiles or Tiles())
        register_backend(name, lambda rule: TritonProgram(rule, configuration))
    return name


@pytest.mark.parametrize("structure", STRUCTURES, ids=lambda structure: structure.label)
@pytest.mark.parametrize("name", SPECS)
def test_structures_agree_with_the_definition(name, structure):
    case = make_case(load_rule(name), Shape(B=1, T=70, H=1, K=18, V=20), seed=3, start="state")
    check(case, backend_of(structure), [(5, 66)])


@pytest.mark.parametrize("structure", STRUCTURES, ids=lambda structure: structure.label)
def test_a_window_without_predictions_agrees_too(structure):
    case = make_case(rule_from_table(WINDOWED), Shape(B=1, T=70, H=1, K=18, V=20), seed=3, start="state")
    check(case, backend_of(structure), [(5, 66)])


@pytest.mark.parametrize("structure", STRUCTURES, ids=lambda structure: structure.label)
def test_a_loss_over_rows_keeps_all_values_in_one_program(structure):
    rule = rule_from_table(ROWS)
    case = make_case(rule, Shape(B=2, T=25, H=1, K=5, V=7), seed=4, start="state")
    check(case, backend_of(structure), [(3,)])


@pytest.mark.parametrize("rows", [16, 32])
@pytest.mark.parametrize("block_v", [16, 32])
def test_tiles_do_not_change_the_result(block_v, rows):
    tiles = dict.fromkeys(
        ("state", "output", "state_gradient", "output_gradient_q", "output_gradient_k"),
        KernelTiles(block_v, rows),
    )
    structure = Structure("split", "all", True, 3)
    case = make_case(load_rule("omeganet_linear"), Shape(B=1, T=67, H=1, K=20, V=40), seed=5)
    check(case, backend_of(structure, Tiles(tiles), f"_{block_v}_{rows}"))


def test_unwritten_memory_shows(monkeypatch):
    """Buffers are filled with NaN before the kernels run: every entry that is read was written."""
    monkeypatch.setenv("ATLASGEN_POISON", "1")
    rules = [rule_from_table(WINDOWED), load_rule("titans_linear"), load_rule("omeganet_linear")]
    for rule in rules:
        for structure in (Structure("split", "all", True, 4), Structure("fused")):
            case = make_case(rule, Shape(B=2, T=65, H=1, K=8, V=12), seed=6, start="state")
            check(case, backend_of(structure), [(1,)])


def test_a_block_that_no_kernel_holds_is_refused_by_name():
    rule = rule_from_table({"rule": "long_blocks", "loss": "l2", "block": 1009})
    with pytest.raises(CompileError, match=r"block\.size = 1009.*torch"):
        TritonProgram(rule)

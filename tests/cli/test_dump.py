"""Every stage prints; the texts of the stages that this package prints are golden files."""

import ast
import subprocess
import sys

import pytest

from atlasgen.cli.console import SentenceError
from atlasgen.cli.dump import STAGES, stage_text
from atlasgen.emit.refusals import kernel_refusals
from atlasgen.errors import CompileError
from atlasgen.ir import build
from atlasgen.ir.node import walk
from atlasgen.ir.text import ProgramText
from atlasgen.schedules.serve import schedule
from atlasgen.spec import load_rule, rule_from_table, shipped_specs

GOLDEN = [
    ("linear_attention", "program"),
    ("simple_gla", "program"),
    ("simple_gla", "backward"),
    ("omeganet_linear", "spec"),
    ("omeganet_linear", "program"),
    ("logcosh_omega", "derive"),
    ("titans_linear", "program"),
]


@pytest.mark.parametrize(("name", "stage"), GOLDEN)
def test_golden(name: str, stage: str, golden) -> None:
    rule = load_rule(name)
    if stage == "backward":  # its shape may depend on what the process compiled before
        code = "import sys; from atlasgen.cli.dump import *; from atlasgen.spec import load_rule\n"
        code += f"sys.stdout.write(stage_text(load_rule({name!r}), {stage!r}))"
        text = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    else:
        text = stage_text(rule, stage)
    golden(f"{name}.{stage}.txt", text)


@pytest.mark.parametrize("name", shipped_specs())
@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_prints_every_shipped_rule(name: str, stage: str) -> None:
    rule = load_rule(name)
    if stage in ("plan", "triton") and kernel_refusals(schedule(rule).forward):
        with pytest.raises(CompileError, match="kernel"):
            stage_text(rule, stage)
        return
    text = stage_text(rule, stage)
    assert text.endswith("\n") and len(text.splitlines()) >= 2
    if stage in ("torch", "triton"):
        ast.parse(text)


def test_a_program_text_does_not_depend_on_what_was_built_before() -> None:
    rule = load_rule("titans_linear")
    first = stage_text(rule, "program")
    for other in shipped_specs():
        stage_text(load_rule(other), "backward")
    assert stage_text(rule, "program") == first


def test_a_rule_that_is_not_served_has_no_program() -> None:
    rule = rule_from_table({"block": 16, "window": "all"})
    assert "all" in stage_text(rule, "spec")
    with pytest.raises(CompileError, match="window"):
        stage_text(rule, "program")


def test_an_unknown_stage_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SentenceError, match="spec, derive, program"):
        stage_text(load_rule("swla"), "tokens")


def test_arguments_stand_before_their_users_and_names_are_unique() -> None:
    x = build.leaf("x", ("r", "K"), kind="token", segment="block")
    y = build.leaf("x", ("s", "K"), kind="token", segment="block")
    product = build.dot(x, y, "K")
    total = build.add((1, build.sum_(product, "s")), (-1, build.sum_(x, "K")))
    order = walk([total, product])
    assert order.index(x) < order.index(product) < order.index(total)
    text = ProgramText([total], {product: "scores"}, {product: "Q X^T"})
    names = [text.name(node) for node in text.nodes]
    assert len(set(names)) == len(names) and {"x", "x.sK", "scores"} <= set(names)
    assert "  scores = dot<K>(x, x.sK)" in text.statements()[0]
    assert text.statements()[0].endswith("# Q X^T")
    assert text.statements()[-1].split(" : ")[0].strip() == "t3 = t1 - t2"

"""All rules of the grammar document parse, mean what they say, and survive printing."""

import tomllib
from pathlib import Path

import pytest

from atlasgen.spec import MemoryRule, rule_from_table, rule_to_toml
from atlasgen.spec.convert import DEFAULT_TRIPLE
from atlasgen.spec.rule import Gate

LIBRARY = tomllib.loads(Path(__file__).with_name("grammar_rules.toml").read_text())


def grammar_rule(name: str) -> MemoryRule:
    return rule_from_table({"rule": name, **LIBRARY[name]}, library=LIBRARY)


def test_the_grammar_has_45_rules() -> None:
    assert len(LIBRARY) == 45


@pytest.mark.parametrize("name", LIBRARY)
def test_printing_a_rule_and_reading_it_gives_the_rule(name: str) -> None:
    rule = grammar_rule(name)
    text = rule_to_toml(rule)
    again = rule_from_table(tomllib.loads(text))
    assert again == rule
    assert again.hash == rule.hash
    assert rule_to_toml(again) == text


def test_no_two_rules_of_the_grammar_are_the_same_function() -> None:
    hashes: dict[str, str] = {}
    for name in LIBRARY:
        rule = grammar_rule(name)
        assert rule.hash not in hashes, f"{name} equals {hashes[rule.hash]}"
        hashes[rule.hash] = name


def test_shorthand_sets_the_main_key() -> None:
    short = rule_from_table({"loss": "dot", "window": 16, "block": 64, "retention": "token"})
    long = rule_from_table(
        {
            "loss": {"kind": "dot"},
            "window": {"length": 16},
            "block": {"size": 64},
            "retention": {"kind": "token"},
        }
    )
    assert short == long
    assert short.window.length == 16 and short.block.size == 64


def test_numbers_become_constant_gates() -> None:
    rule = rule_from_table({"optimizer": {"lr": 1}})
    assert rule.optimizer.lr == Gate(kind="constant", value=1.0)
    assert isinstance(rule.optimizer.lr.value, float)


def test_a_text_in_retention_value_is_an_expression_in_head() -> None:
    assert grammar_rule("retnet").retention.alpha == Gate(kind="constant", expression="1 - 2**(-5 - head)")


def test_extending_merges_section_by_section() -> None:
    rule = grammar_rule("ttt_mlp")
    assert rule.memory.kind == "mlp" and rule.memory.norm == "layer"  # own, inherited
    assert rule.block.row_scale == "position"


def test_a_new_kind_drops_inherited_keys_that_do_not_fit_it() -> None:
    linear = grammar_rule("titans_linear")
    assert linear.memory.depth == type(linear.memory)().depth
    assert grammar_rule("titans_gd").optimizer.theta.kind == "none"
    gated = grammar_rule("atlas_pp")
    assert gated.memory.residual == "none", "the formula of the graph holds the residual already"
    assert gated.memory.initial == "learned"


def test_shorthand_in_a_child_sets_the_main_key_only() -> None:
    library = {"base": {"window": {"length": 4, "gate": "pair"}, "loss": "dot"}}
    rule = rule_from_table({"extends": "base", "window": 8}, library=library)
    assert (rule.window.length, rule.window.gate.kind) == (8, "pair")


def test_a_list_of_terms_replaces_and_is_replaced() -> None:
    two = [{"kind": "dot"}, {"kind": "l2"}]
    library = {"one": {"loss": {"kind": "huber", "delta": 2.0}}, "two": {"loss": two}}
    assert len(rule_from_table({"extends": "one", "loss": two}, library=library).loss) == 2
    rule = rule_from_table({"extends": "two", "loss": "l2"}, library=library)
    assert [term.kind for term in rule.loss] == ["l2"]


def test_newton_schulz_coefficients_follow_steps() -> None:
    default = grammar_rule("atlas").optimizer.transform[0]
    assert default.coefficients == (DEFAULT_TRIPLE,) * 5
    own = grammar_rule("lact").optimizer.transform[0]
    assert own.steps == 5 and own.coefficients[0] == (4.0848, -6.8946, 2.9270)
    step = {"kind": "newton_schulz", "coefficients": [[2.0, -1.5, 0.5]], "steps": 3}
    rule = rule_from_table({"optimizer": {"transform": [step]}})
    assert rule.optimizer.transform[0].coefficients == ((2.0, -1.5, 0.5),) * 3


def test_name_and_layer_do_not_change_the_hash_but_the_block_does() -> None:
    base = {"rule": "one", "loss": "l2", "block": 16, "optimizer": {"lr": "token"}}
    rule = rule_from_table(base)
    renamed = rule_from_table({**base, "rule": "two", "layer": {"conv": 0}})
    assert renamed.hash == rule.hash and renamed != rule
    assert rule_from_table({**base, "block": 32}).hash != rule.hash


def test_texts_survive_printing() -> None:
    doc = 'quotes " and \\ and a tab\t, a line\nbreak, é, \x7f'
    rule = rule_from_table({"rule": "texts", "doc": doc})
    assert rule_from_table(tomllib.loads(rule_to_toml(rule))).doc == doc

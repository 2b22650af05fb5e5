"""The mathematics that explain prints."""

import tomllib
from pathlib import Path

import pytest
import sympy

from atlasgen.cli.equations import error_expression, error_text, gate_text, update_equations
from atlasgen.spec import load_rule, rule_from_table
from atlasgen.spec.rule import Gate

GRAMMAR = tomllib.loads((Path(__file__).parents[1] / "spec" / "grammar_rules.toml").read_text())


def formulas(rule) -> list[str]:
    return [formula for formula, _ in update_equations(rule)]


def test_omeganet() -> None:
    assert formulas(load_rule("omeganet_linear")) == [
        "ℓ = ½ |pred − v|²",
        "eᵢ = ∂ℓ/∂pred  at  pred = M*ᵀ kᵢ",
        "Gₜ = Σ γᵢ kᵢ eᵢᵀ",
        "Mₜ = αₜ Mₜ₋₁ − ηₜ Gₜ",
        "yₜ = Mₜᵀ qₜ",
    ]


def test_momentum_and_lr_at() -> None:
    titans = formulas(load_rule("titans_linear"))
    assert "Sₜ = θₜ Sₜ₋₁ + ηₜ Gₜ" in titans and "Mₜ = αₜ Mₜ₋₁ − Sₜ" in titans
    table = {"optimizer": {"kind": "momentum", "lr": 0.5, "theta": "head"}, "block": 4}
    other = formulas(rule_from_table(table))
    assert "Sₜ = θₕ Sₜ₋₁ + Gₜ" in other and "Mₜ = Mₜ₋₁ − 0.5 Sₜ" in other


def test_reads_and_retentions() -> None:
    assert "yₜ = Mₜᵀ φ(qₜ) / zₜᵀ φ(qₜ)" in formulas(load_rule("linear_attention"))
    assert "yₜ = K**-0.5 · Mₜᵀ qₜ" in formulas(load_rule("retnet"))
    table = {
        "read": "pre",
        "retention": {"kind": "token", "toward": "initial"},
        "memory": {"initial": "learned"},
    }
    lines = formulas(rule_from_table(table))
    assert "Mₜ = αₜ Mₜ₋₁ + (1 − αₜ) M₀ − Gₜ" in lines and "yₜ = Mₜ₋₁ᵀ qₜ" in lines


@pytest.mark.parametrize(
    ("gate", "text"),
    [
        (Gate(), ""),
        (Gate("zero"), "0"),
        (Gate("constant", 0.25), "0.25"),
        (Gate("constant", expression="1 - head"), "(1 - head)"),
        (Gate("head"), "γₕ"),
        (Gate("token"), "γₜ"),
        (Gate("pair"), "γₜ,ₜ₋ᵢ"),
        (Gate("position"), "γₜ₋ᵢ"),
    ],
)
def test_gates(gate: Gate, text: str) -> None:
    assert gate_text(gate, "γ") == text


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        ("dot", "-v"),
        ("l2", "pred - v"),
        ({"kind": "lp", "p": 4}, "(pred - v)*Abs(pred - v)**2"),
        ({"kind": "expr", "expression": "log(cosh(pred - v))"}, "tanh(pred - v)"),
        ({"kind": "expr", "expression": "exp(norm)", "per": "row"}, "(pred - v)*exp(n)/n"),
    ],
)
def test_errors(loss: object, expected: str) -> None:
    rule = rule_from_table({"loss": loss, "block": 4})
    pred, v = sympy.symbols("pred v", real=True)
    names = {"pred": pred, "v": v, "n": sympy.Symbol("n", positive=True)}
    wanted = sympy.parse_expr(expected, local_dict=names)
    assert sympy.simplify(error_expression(rule, rule.loss[0]) - wanted) == 0


def test_a_row_loss_says_what_n_is() -> None:
    rule = rule_from_table({"loss": {"kind": "huber", "delta": 1.0, "per": "row"}, "block": 4})
    assert "n = |pred − v|₂" in error_text(rule)


@pytest.mark.parametrize("name", GRAMMAR)
def test_every_rule_of_the_grammar_has_equations(name: str) -> None:
    rule = rule_from_table({"rule": name, **GRAMMAR[name]}, library=GRAMMAR)
    lines = formulas(rule)
    assert lines[0].startswith(("φ(x)", "ℓ"))
    assert any(line.startswith("Mₜ = ") for line in lines)
    assert lines[-1].startswith("yₜ = ")
    assert error_text(rule).startswith("e = ") or "e = " in error_text(rule)


def test_terms_of_their_own() -> None:
    """Each group of terms that share key and rows has a loss, an error and a product of its own."""
    assert formulas(rule_from_table(GRAMMAR["rwkv7"]))[:5] == [
        "ℓ₁ = ½ |pred|²",
        "ℓ₂ = −⟨pred, v⟩",
        "e₁ᵢ = ∂ℓ₁/∂pred  at  pred = M*ᵀ kkᵢ",
        "e₂ᵢ = ∂ℓ₂/∂pred  at  pred = M*ᵀ kᵢ",
        "Gₜ = (aₜ ⊙ kkₜ) e₁ₜᵀ + kₜ e₂ₜᵀ",
    ]
    assert formulas(rule_from_table(GRAMMAR["gated_deltanet_2"]))[:3] == [
        "ℓ = ½ |pred − wv|²",
        "eᵢ = ∂ℓ/∂pred  at  pred = M*ᵀ bkᵢ",
        "Gₜ = kₜ eₜᵀ",
    ]
    table = {"loss": [{"kind": "dot", "lr": "b"}], "inputs": {"b": "value"}, "window": {"gate": "token"}}
    assert "Gₜ = Σ γᵢ kᵢ (bᵢ ⊙ eᵢ)ᵀ" in formulas(rule_from_table(table))


def test_micro_steps() -> None:
    """The first step decays the memory; a line says what the others do, and what their errors see."""
    lines = dict(update_equations(load_rule("deltaproduct")))
    assert [*lines][-3:] == ["Mₜ = αₜ Mₜ₋₁ − ηₜ Gₜ", "Mₜ ← Mₜ − ηₜ Gₜ", "yₜ = Mₜᵀ qₜ"]
    assert lines["Mₜ ← Mₜ − ηₜ Gₜ"].startswith("once more") and "M* = Mₜ" in lines["Mₜ ← Mₜ − ηₜ Gₜ"]
    table = {"block": 4, "optimizer": {"lr": "token", "micro_steps": 4}}
    remark = dict(update_equations(rule_from_table(table)))["Mₜ ← Mₜ − ηₜ Gₜ"]
    assert remark.startswith("3 times more") and "M*" not in remark

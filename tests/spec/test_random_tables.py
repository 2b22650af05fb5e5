"""Random files: each gives a rule that survives printing, or a SpecError; nothing else."""

import tomllib
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from atlasgen.spec import SpecError, rule_from_table, rule_to_toml
from atlasgen.spec.file_model import SECTIONS, known_keys

FLOATS = st.floats(0.01, 0.99)
EXPRESSIONS = st.sampled_from(["pred - v", "log(cosh(pred - v))", "norm**2", "x", "A", "S", "kk"])
GATES = st.sampled_from(["none", "head", "token"]) | FLOATS


def section(**fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    """A table with any subset of these fields."""
    strategies = {
        name: item if isinstance(item, st.SearchStrategy) else st.sampled_from(item)
        for name, item in fields.items()
    }
    return st.fixed_dictionaries({}, optional=strategies)


TERMS = section(
    kind=["dot", "l2", "lp", "huber", "expr"],
    p=[2.0, 3.0],
    delta=st.sampled_from([0.5, "delta"]),
    per=["element", "row"],
    target=["v", "v - k", "0"],
    expression=EXPRESSIONS,
)
TABLES = section(
    memory=section(
        kind=["matrix", "mlp", "swiglu"],
        initial=["zero", "learned"],
        residual=["none", "x", "key"],
        norm=["none", "layer"],
        link=section(kind=["none", "qnorm", "expr"], expression=EXPRESSIONS),
    ),
    features=section(
        kind=["identity", "elu1", "poly", "exp", "expr"],
        degree=[2, 3],
        coefficients=st.sampled_from(["taylor", "learned"]) | st.lists(FLOATS, min_size=3, max_size=3),
        on=["qk", "q"],
        expression=EXPRESSIONS,
    ),
    loss=TERMS | st.lists(TERMS, min_size=1, max_size=3) | st.sampled_from(["dot", "l2"]),
    window=section(
        length=st.sampled_from([1, 4, "all"]),
        gate=["none", "token", "pair", "position"],
        boundary=["halo", "carry", "truncate"],
        normalise=["sum", "mean"],
    ),
    block=section(size=[1, 8], write=["token", "block"], momentum=["token", "block"]),
    optimizer=section(
        kind=["gd", "momentum", "implicit"],
        lr=GATES,
        theta=GATES,
        lr_at=["update", "gradient"],
        clip=st.sampled_from([1.0, {"norm": 2.0, "of": "window"}]),
        transform=st.lists(
            section(kind=["sign", "newton_schulz", "expr"], steps=[1, 5], u=EXPRESSIONS),
            max_size=2,
        ),
    ),
    retention=section(
        kind=["none", "constant", "zero", "token", "channel"],
        value=st.sampled_from([0.9, "1 - 2**(-5 - head)"]),
        axis=["key", "value"],
        order=["error_first", "decay_first"],
        toward=["zero", "initial"],
    ),
    read=section(
        at=["post", "pre", "block"],
        normaliser=["none", "sum", "softmax"],
        scale=st.sampled_from([1, 0.5, "K**-0.5"]),
    ),
    weights=st.just({"M": {"lr": "token", "retention": "token"}}),
    inputs=section(delta=["token", "head", "key"]),
    gradient=section(state=st.sampled_from(["full", 2])),
    layer=section(conv=[0, 4], gates=section(lr=st.just({"init": 0.5, "max": 0.9}))),
)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=400)
@given(TABLES)
def test_a_random_file_is_a_rule_or_is_refused(table: dict[str, Any]) -> None:
    try:
        rule = rule_from_table(table, source="random.toml")
    except SpecError as error:
        assert error.field and error.file == "random.toml"
        return
    again = rule_from_table(tomllib.loads(rule_to_toml(rule)))
    assert again == rule and again.hash == rule.hash


@settings(max_examples=300)
@given(
    st.dictionaries(
        st.sampled_from(sorted(known_keys(()))),
        JUNK | st.dictionaries(st.sampled_from(["kind", "gate", "lr", "weights"]), JUNK),
        max_size=4,
    )
)
def test_junk_is_refused_not_crashed_on(table: dict[str, Any]) -> None:
    try:
        rule_from_table(table)
    except SpecError as error:
        assert len(str(error)) < 20_000


def test_every_section_with_kinds_says_where_each_key_belongs() -> None:
    for path, model in SECTIONS.items():
        if not model.applies:
            continue
        owned = set().union(*model.applies.values()) | {"kind"}
        assert owned == model.keys(), path
        kinds = set(model.model_json_schema()["properties"]["kind"]["enum"])
        assert kinds == set(model.applies), path

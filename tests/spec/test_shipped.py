"""The shipped rule files: found, stable at their start, documented, and the schema is fresh."""

import dataclasses
import tomllib
from pathlib import Path

import pytest

from atlasgen.spec import (
    SpecError,
    gate_arguments,
    json_schema,
    load_rule,
    rule_from_table,
    rule_to_toml,
    schema_text,
    shipped_specs,
    spec_text,
)
from atlasgen.spec.file_model import SECTIONS, known_keys
from atlasgen.spec.load import specs_folder
from atlasgen.spec.rule import Gate

LINEAR = {
    "comba",
    "deltanet",
    "deltaproduct",
    "gated_deltanet",
    "gated_deltanet_2",
    "gla",
    "kda",
    "linear_attention",
    "longhorn",
    "omeganet_exact",
    "retnet",
    "rwkv7",
    "simple_gla",
    "swla",
    "titans_exact",
    "titans_linear",
    "omeganet_linear",
    "logcosh_omega",
}


REFLECTING = {"deltaproduct"}
WIDE = {
    "omeganet_linear_poly2",
    "omeganet",
    "titans",
    "titans_gd",
    "atlas",
    "atlas_chunk",
    "atlas_pp",
    "dla",
    "ttt_linear",
    "ttt_mlp",
    "ttt_linear_fla",
    "lact",
    "yaad",
    "memora",
    "moneta",
}


def test_the_named_rules_are_shipped() -> None:
    assert set(shipped_specs()) == LINEAR | WIDE


@pytest.mark.parametrize("name", shipped_specs())
def test_a_shipped_file_is_self_contained_and_documented(name: str) -> None:
    rule = load_rule(name)
    assert rule.name == name
    assert rule.doc
    table = tomllib.loads(spec_text(name))
    assert "extends" not in table or table["extends"] in shipped_specs()
    assert spec_text(name).startswith("#")
    assert rule_from_table(tomllib.loads(rule_to_toml(rule))) == rule


@pytest.mark.parametrize("name", shipped_specs())
def test_every_gate_of_a_shipped_rule_has_a_start(name: str) -> None:
    rule = load_rule(name)
    starts = {item.name: item.init for item in rule.layer.gates}
    rows = {entry.name for entry in rule.inputs if rule.stands_for(entry.name)}
    assert set(starts) - rows == set(gate_arguments(rule)) - rows
    assert all(start is not None for start in starts.values())


def _largest(name: str, gate: str) -> float:
    return next(item.max or 1.0 for item in load_rule(name).layer.gates if item.name == gate)


@pytest.mark.parametrize("name", sorted(LINEAR))
def test_the_largest_step_of_a_layer_is_stable(name: str) -> None:
    rule = load_rule(name)
    if not rule.depends_on_memory:
        assert not rule.optimizer.lr.is_argument
        return
    if rule.optimizer.kind == "implicit":
        return  # its step times |k|^2 is below 1 for any lr
    if rule.optimizer.lr.kind == "none":  # the terms' own gates, or the layer's keys, hold the step
        own = [item for item in rule.layer.gates if rule.input_named(item.name) is not None]
        assert own and all(item.activation == "sigmoid" and (item.max or 1.0) <= 1 for item in own)
        return
    tokens = 1 if rule.window.normalise == "mean" else rule.window.length
    assert isinstance(tokens, int)
    gain = _largest(name, "lr") * tokens * rule.block.size
    if rule.optimizer.theta.is_argument:
        gain /= 1 - _largest(name, "theta")
    # A sigmoid stays below its maximum; where a step may reflect, its factor 1 - lr lies in (-1, 1).
    assert gain <= (2 if name in REFLECTING else 1)


@pytest.mark.parametrize("name", sorted(LINEAR))
def test_horizons_start_between_10_and_1000_tokens(name: str) -> None:
    for item in load_rule(name).layer.gates:
        if item.name == "alpha":
            assert item.init is not None
            assert 10 <= 1 / (1 - item.init) <= 1000


def test_what_the_named_rules_say() -> None:
    titans, omega = load_rule("titans_linear"), load_rule("omeganet_linear")
    assert titans.optimizer.kind == "momentum" and titans.optimizer.lr_at == "gradient"
    assert titans.block.size == omega.block.size == 64
    assert omega.window.length == 16 and omega.window.gate == Gate(kind="token")
    assert omega.window.boundary == "halo" and omega.loss[0].kind == "l2"
    assert load_rule("linear_attention").read.normaliser == "sum"
    assert load_rule("logcosh_omega").loss[0].expression == "log(cosh(pred - v))"


def test_what_the_named_deep_rules_say() -> None:
    atlas, chunk, lact = load_rule("atlas"), load_rule("atlas_chunk"), load_rule("lact")
    assert atlas.memory.depth == 2 and atlas.memory.hidden == "4*K" and atlas.memory.act == "gelu"
    (per_token,), (per_block,) = atlas.optimizer.transform, chunk.optimizer.transform
    assert (per_token.kind, per_token.at) == ("newton_schulz", "token")
    assert (per_block.kind, per_block.at, chunk.block.write) == ("newton_schulz", "block", "block")
    assert load_rule("atlas_pp").memory.kind == "graph"
    assert lact.block.size == 2048 and lact.retention.project.kind == "row_norm"
    assert load_rule("dla").loss[0].kind == "dot" and load_rule("omeganet").features.degree == 2
    assert load_rule("titans_gd").optimizer.kind == "gd"
    assert load_rule("titans").optimizer.kind == "momentum"
    rows = {name: load_rule(f"ttt_{name}").block.row_scale for name in ("linear", "mlp", "linear_fla")}
    assert rows == {"linear": "position", "mlp": "position", "linear_fla": "token"}


def test_the_schema_is_fresh() -> None:
    text = specs_folder().joinpath("schema.json").read_text(encoding="utf-8")
    message = "run: python -m atlasgen.spec.schema > specs/schema.json"
    assert text == schema_text(), message


def test_the_schema_knows_every_key_of_every_section() -> None:
    schema = json_schema()
    for pattern, section in SECTIONS.items():
        path = tuple(0 if part == "#" else part for part in pattern)
        definition = schema if path == () else schema["$defs"][section.__name__]
        definition = definition.get("anyOf", [definition])[-1]
        assert set(definition["properties"]) == known_keys(path), path
        assert definition["additionalProperties"] is False
        if section.main is not None:
            short = schema["$defs"][section.__name__]["anyOf"][0]
            assert short and "properties" not in short, path


def test_a_file_beside_comes_before_a_shipped_one(tmp_path: Path) -> None:
    (tmp_path / "simple_gla.toml").write_text('loss = "l2"\nblock = 4\n')
    own = tmp_path / "own.toml"
    own.write_text('extends = "simple_gla"\nblock = 8\n')
    rule = load_rule(own)
    assert (rule.name, rule.loss[0].kind, rule.block.size) == ("own", "l2", 8)
    assert rule.source == str(own)
    own.write_text('extends = "omeganet_linear"\nwindow = 4\n')
    assert load_rule(str(own)).window.length == 4


def test_a_shipped_rule_may_be_changed_by_a_file_of_its_own_name(tmp_path: Path) -> None:
    own = tmp_path / "retnet.toml"
    own.write_text('extends = "retnet"\nread = { scale = 1 }\n')
    assert load_rule(own).read.scale == "1"


def test_a_rule_made_in_python_is_checked_like_a_file() -> None:
    rule = load_rule("omeganet_linear")
    assert load_rule(rule) == rule
    optimizer = dataclasses.replace(rule.optimizer, lr=Gate(kind="sometimes"))  # type: ignore[arg-type]
    with pytest.raises(SpecError) as caught:
        load_rule(dataclasses.replace(rule, optimizer=optimizer))
    assert caught.value.field == "optimizer.lr"
    with pytest.raises(SpecError) as caught:
        load_rule(dataclasses.replace(rule, memory=dataclasses.replace(rule.memory, depth=3)))
    assert caught.value.field == "memory.depth"

"""Every refusal names the file, the field, what came, what is allowed, and a next step."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from atlasgen.errors import ArgumentError, AtlasgenError, CompileError
from atlasgen.spec import SpecError, load_rule, rule_from_table, shipped_specs

MLP = {"kind": "mlp", "initial": "learned"}

# (table, field, words that the message holds)
FILE_ERRORS: list[tuple[dict[str, Any], str, list[str]]] = [
    ({"windo": 16}, "windo", ["unknown field", 'Did you mean "window"?', "retention"]),
    ({"loss": "l3"}, "loss.kind", ['"l3"', "dot, l2, lp, huber, expr"]),
    ({"loss": "hubr"}, "loss.kind", ['Did you mean "huber"?']),
    ({"loss": {"knd": "l2"}}, "loss.knd", ["unknown field", 'Did you mean "kind"?']),
    ({"loss": [{"kind": "l2"}, {"kind": "dot", "tarjet": "v"}]}, "loss[1].tarjet", ["target"]),
    ({"loss": []}, "loss", []),
    ({"loss": 3}, "loss.kind", ["3", "dot"]),
    ({"window": 0}, "window.length", ["0", "greater than or equal to 1"]),
    ({"window": "every"}, "window.length", ['"every"', "all", "a whole number"]),
    ({"window": True}, "window.length", ["true"]),
    ({"window": {"length": 4, "gate": "tokens"}}, "window.gate", ['Did you mean "token"?']),
    ({"block": 2.5}, "block.size", ["2.5"]),
    ({"block": -1}, "block.size", ["-1"]),
    ({"optimizer": {"lr": "tokn"}}, "optimizer.lr", ['Did you mean "token"?', "a number"]),
    ({"optimizer": {"lr": float("inf")}}, "optimizer.lr", ["finite"]),
    ({"optimizer": {"lr": float("nan")}}, "optimizer.lr", ["finite", "head, token, key, value, a number"]),
    ({"optimizer": {"lr": 10**400}}, "optimizer.lr", ["a number"]),
    ({"loss": {"kind": "huber", "delta": -1.0}}, "loss.delta",
     ["Allowed: a number above 0, the name of an input."]),
    ({"optimizer": {"transform": "sign"}}, "optimizer.transform",
     ["a list of tables", 'transform = [{ kind = "sign" }]']),
    ({"weights": {"M": {"transform": {"kind": "sign"}}}}, "weights.M.transform", ["a list of tables"]),
    ({"optimizer": 3.0, "memory": ["mlp"]}, "memory", ["a table"]),
    ({"optimizer": {"lr": 0.0}}, "optimizer.lr", ["positive"]),
    ({"optimizer": {"lr": -0.1}}, "optimizer.lr", ["-0.1", "positive"]),
    ({"optimizer": {"kind": "adam"}}, "optimizer.kind", ["gd", "momentum"]),
    ({"optimizer": {"transform": ["newton"]}}, "optimizer.transform[0].kind", ["newton_schulz"]),
    ({"optimizer": {"transform": [{"steps": 5}]}}, "optimizer.transform[0].kind", ["required"]),
    ({"optimizer": {"clip": 0.0}}, "optimizer.clip.norm", ["greater than 0"]),
    ({"retention": "tokens"}, "retention.kind", ['Did you mean "token"?']),
    ({"retention": {"kind": "token", "toward": "one"}}, "retention.toward", ["zero, initial"]),
    ({"memory": "matrx"}, "memory.kind", ['Did you mean "matrix"?']),
    ({"memory": {"depth": 3}}, "memory.depth", ["matrix", "Remove it", "mlp"]),
    ({"features": {"degree": 3}}, "features.degree", ["identity", "poly"]),
    ({"loss": {"kind": "l2", "p": 4.0}}, "loss.p", ["lp"]),
    ({"loss": {"kind": "dot", "per": "row"}}, "loss.per", ["dot"]),
    ({"read": {"at": "past"}}, "read.at", ['Did you mean "post"?']),
    ({"inputs": {"a": "tokens"}}, "inputs.a.shape", ['Did you mean "token"?', "head_key"]),
    ({"gradient": {"state": 0}}, "gradient.state", ["0"]),
    ({"schema": 2}, "schema", ["2", "1"]),
    ({"rule": "Bad Name"}, "rule", ["Bad Name", "lower-case letters, digits and _"]),
    ({"layer": {"qk_norm": "l3"}}, "layer.qk_norm", ["l2, rms, none"]),
    ({"extends": "omeganet_liner"}, "extends", ['Did you mean "omeganet_linear"?', "retnet"]),
    ({"extends": 3}, "extends", ["a text"]),
    ({"doc": 3}, "doc", ["a text"]),
]  # fmt: skip

RULINGS: list[tuple[dict[str, Any], str, list[str]]] = [
    ({"rule": "lambda"}, "rule", ["Python module", "a word of Python", "lambda_rule"]),
    ({"rule": "torch"}, "rule", ["the name of a module", "torch_rule"]),
    ({"optimizer": {"lr": 1e300}}, "optimizer.lr", ["1e+300", "too large for float32"]),
    ({"optimizer": {"lr": 1e-60}}, "optimizer.lr", ["too small for float32"]),
    ({"loss": [{"kind": "l2"}, {"kind": "huber", "delta": 1e39}]}, "loss[1].delta", ["too large"]),
    ({"weights": {"M": {"lr": 1e39}}}, "weights.M.lr", ["too large"]),
    ({"read": {"scale": "K * 1e38"}}, "read.scale", ["too large for float32"]),
    ({"window": 65537}, "window.length", ["holds its rows in memory at once", "1 to 65536", "all"]),
    ({"block": 1048577}, "block.size", ["holds its rows in memory at once", "1 to 1048576"]),
    ({"features": {"kind": "expr", "expression": "\uff58 + 1"}}, "features.expression",
     ["plain ASCII", "FULLWIDTH LATIN SMALL LETTER X"]),
    ({"rule": "json"}, "rule", ["the name of a module"]),
    ({"block": 16, "retention": {"kind": "token", "order": "decay_first"}}, "retention.order",
     ["block of 16", "block.size = 1"]),
    ({"features": "exp", "retention": "channel"}, "retention.kind", ["F = K", "token"]),
    ({"features": "poly", "weights": {"M": {"retention": "channel"}}},
     "weights.M.retention.kind", ["F = K"]),
    ({"memory": MLP, "retention": "channel"}, "retention.kind", ["mlp"]),
    ({"optimizer": {"transform": [{"kind": "newton_schulz", "at": "block"}]}, "block": 8},
     "optimizer.transform[0].at", ["block.write", "token"]),
    ({"optimizer": {"transform": [{"kind": "sign"}]}, "block": {"size": 8, "write": "block"}},
     "optimizer.transform[0].at", ['at = "token"', "Allowed: block"]),
    ({"weights": {"M": {"transform": [{"kind": "sign", "at": "block"}]}}},
     "weights.M.transform[0].at", ["Allowed: token"]),
    ({"optimizer": {"transform": [{"kind": "newton_schulz", "steps": 3,
      "coefficients": [[1.0, 2.0, 3.0]] * 2}]}}, "optimizer.transform[0].coefficients", ["3", "2"]),
    ({"optimizer": {"transform": [{"kind": "expr", "u": "S / N"}]}},
     "optimizer.transform[0].expression", ["optimizer.second"]),
    ({"memory": {**MLP, "residual": "x"}, "features": "poly"}, "memory.residual", ["key"]),
    ({"memory": {"residual": "x"}, "features": "exp"}, "memory.residual", ["key"]),
    ({"memory": {"residual": "key"}, "loss": {"target": "v - k"}}, "loss.target",
     ["residual", "subtract"]),
    ({"memory": {"kind": "mlp"}}, "memory.initial", ["depth 2", "learned"]),
    ({"memory": {"kind": "swiglu"}}, "memory.initial", ["learned"]),
    ({"memory": {"kind": "mlp", "hidden": "0.3*K"} | {"initial": "learned"}}, "memory.hidden", []),
    ({"memory": {"kind": "mlp", "hidden": "4*Z", "initial": "learned"}}, "memory.hidden", ["Z"]),
    ({"loss": {"kind": "lp", "p": 1.5}}, "loss.eps", ["1.5", "1e-6"]),
    ({"loss": {"kind": "lp", "p": 0.5}}, "loss.p", ["0.5"]),
    ({"loss": {"kind": "huber", "delta": -1.0}}, "loss.delta", ["-1.0"]),
    ({"loss": {"kind": "huber", "delta": "dlta"}, "inputs": {"delta": "token"}}, "loss.delta",
     ['Did you mean "delta"?']),
    ({"loss": {"kind": "huber", "delta": "delta"}}, "loss.delta", ["inputs = {"]),
    ({"loss": {"kind": "huber", "delta": "delta"}, "inputs": {"delta": "key"}}, "inputs.delta",
     ["token, head"]),
    ({"loss": {"key": "kk"}}, "loss.key", ["kk", "input"]),
    ({"loss": {"key": "kk"}, "inputs": {"kk": "value"}}, "inputs.kk", ["loss.key", "key"]),
    ({"loss": {"target": "w"}, "inputs": {"w": "key"}}, "inputs.w", ["value"]),
    ({"loss": {"target": "k - v"}}, "loss.target", ["v - k"]),
    ({"loss": {"kind": "expr"}}, "loss.expression", ["needs an expression"]),
    ({"loss": {"kind": "expr", "expression": "v**2"}}, "loss.expression", ["depends on pred"]),
    ({"loss": {"kind": "expr", "expression": "pred", "per": "row"}}, "loss.expression", ["norm"]),
    ({"optimizer": {"kind": "momentum"}}, "optimizer.theta", ["needs its decay", "gd"]),
    ({"optimizer": {"theta": "token"}}, "optimizer.theta", ["gd", "momentum"]),
    ({"optimizer": {"kind": "momentum", "theta": 1.5}}, "optimizer.theta", ["[0, 1]"]),
    ({"optimizer": {"nesterov": True}}, "optimizer.nesterov", ["momentum"]),
    ({"optimizer": {"kind": "implicit"}, "loss": "dot"}, "optimizer.kind", ["l2"]),
    ({"optimizer": {"kind": "least_squares", "ridge": "rdge"}, "inputs": {"ridge": "head"}},
     "optimizer.ridge", ['Did you mean "ridge"?']),
    ({"optimizer": {"step": "lr / (eps + kkk)"}}, "optimizer.step", ['Did you mean "kk"?']),
    ({"retention": {"kind": "constant"}}, "retention.value", ["retention.value: value is missing"]),
    ({"retention": {"kind": "constant", "value": 0.0}}, "retention.value", ["(0, 1]", "zero"]),
    ({"retention": {"kind": "constant", "value": 1.01}}, "retention.value", ["1.01"]),
    ({"retention": {"kind": "constant", "value": "1 - head"}}, "retention.value", ["(0, 1]"]),
    ({"retention": {"kind": "constant", "value": "token"}}, "retention.value", ["head"]),
    ({"retention": {"kind": "token", "value": 0.9}}, "retention.value", ["constant"]),
    ({"retention": {"project": "ball"}}, "retention.project.radius", ["ball"]),
    ({"retention": {"project": "row_norm"}}, "retention.project.to", ["initial"]),
    ({"window": {"length": "all", "gate": "pair"}}, "window.gate", ["none, token", "length"]),
    ({"window": {"length": "all", "gate": "position"}}, "window.gate", ["position"]),
    ({"block": {"momentum": "block", "write": "block"}}, "block.momentum", ["gd"]),
    ({"block": {"momentum": "block"}, "optimizer": {"kind": "momentum", "theta": 0.5}},
     "block.momentum", ["block.write"]),
    ({"block": {"size": 8, "partial": "skip"}}, "block.partial", ["whole block", "Allowed: update"]),
    ({"block": {"size": 8, "gate_pool": "mean"}}, "block.gate_pool", ['block.write = "block"']),
    ({"block": {"size": 8, "row_scale": "token", "write": "block"}}, "block.row_scale",
     ['block.write = "token"']),
    ({"block": {"size": 8, "row_scale": "position"}, "retention": "token"}, "block.row_scale",
     ["Remove retention"]),
    ({"block": {"size": 8, "row_scale": "position"}, "weights": {"M": {"retention": "head"}}},
     "block.row_scale", ["Remove retention"]),
    ({"block": {"size": 8, "row_scale": "token"}, "optimizer": {"transform": [{"kind": "sign"}]}},
     "block.row_scale", ["Remove optimizer.transform"]),
    ({"block": {"size": 8, "row_scale": "token"},
      "retention": {"project": {"kind": "clamp", "radius": 1.0}}},
     "block.row_scale", ["Remove retention.project"]),
    ({"retention": {"project": {"kind": "row_norm", "to": "initial"}}}, "retention.project",
     ["ball", 'block.write = "block"']),
    ({"retention": {"project": {"kind": "row_norm", "to": "initial"}}, "block": {"write": "block"}},
     "memory.initial", ["stays zero", "learned"]),
    ({"optimizer": {"eps": 1e-3}}, "optimizer.eps", ["optimizer.step"]),
    ({"optimizer": {"step": "lr / (eps + kk)", "eps": 0.0}}, "optimizer.eps", ["greater than 0"]),
    ({"features": {"kind": "poly", "basis": "projected"}}, "features.out_dim", ["both or neither"]),
    ({"features": {"kind": "poly", "coefficients": [1.0]}}, "features.coefficients", ["3", "1"]),
    ({"features": {"kind": "poly", "coefficients": [0.0, -1.0, 0.0]}}, "features.coefficients",
     ["negative"]),
    ({"features": {"kind": "poly", "on": "q"}}, "features.on", ["qk"]),
    ({"features": {"kind": "expr", "expression": "y + 1"}}, "features.expression", ["x"]),
    ({"features": "exp", "memory": MLP}, "features.kind", ["taylor"]),
    ({"read": {"at": "pre", "normaliser": "sum"}}, "read.at", ["empty sum", "post"]),
    ({"read": {"normaliser": "softmax"}}, "read.normaliser", ["exp"]),
    ({"read": {"normaliser": "sum"}, "memory": MLP}, "read.normaliser", ["matrix"]),
    ({"read": {"scale": "Q**-0.5"}}, "read.scale", ["Q", "K"]),
    ({"read": {"f": "z + w"}}, "read.f", ["w"]),
    ({"memory": {"kind": "graph"}}, "memory.f", ["W1 @ gelu"]),
    ({"memory": {"kind": "graph", "f": "A @ x", "weights": {"A": ["F", "V"]}}}, "memory.f",
     ["does not fit"]),
    ({"memory": {"kind": "graph", "f": "A @ x + x", "weights": {"A": ["V", "F"]}},
      "features": "poly"}, "memory.f", ["two different sizes"]),
    ({"memory": {"kind": "graph", "f": "A @ x", "weights": {"A": ["V", "F"], "B": ["V", "F"]}}},
     "memory.weights.B", ["does not occur"]),
    ({"memory": {"kind": "graph", "f": "A @ B @ x", "weights": {"A": ["V", "F"]}}}, "memory.f",
     ['unknown name "B"']),
    ({"memory": {"kind": "graph", "f": "A", "weights": {"A": ["V", "F"]}}}, "memory.f",
     ["vector of size V"]),
    ({"memory": {"kind": "graph", "f": "A @ gelu(B @ x)",
      "weights": {"A": ["V", "V"], "B": ["V", "F"]}}}, "memory.initial", ["depth 2"]),
    ({"weights": {"W": {"lr": "token"}}}, "weights.W", ["M"]),
    ({"weights": {"M": {"theta": "token"}}}, "weights.M.theta", ["momentum"]),
    ({"memory": {"bias": True}, "optimizer": {"kind": "momentum"}, "weights": {"M": {"theta": 0.5}}},
     "optimizer.theta", ["the weight b"]),
    ({"memory": MLP, "optimizer": {"lr": "value"}}, "optimizer.lr", ["W1", "channels of the value"]),
    ({"memory": {"bias": True}, "optimizer": {"lr": "key"}}, "optimizer.lr", ["weight b"]),
    ({"memory": {**MLP, "bias": True}, "weights": {"W2": {"retention": "channel"}}},
     "weights.W2.retention.kind", ["channels of the key", "token"]),
    ({"inputs": {"lr": "token"}}, "inputs.lr", ["another name"]),
    ({"inputs": {"q": "key"}}, "inputs.q", ["another name"]),
    ({"inputs": {"exp": "token"}}, "inputs.exp", ["another name"]),
    ({"inputs": {"log_alpha": "token"}}, "inputs.log_alpha", ["another name"]),
    ({"inputs": {"window_k": "token"}}, "inputs.window_k", ["another name"]),
    ({"inputs": {"row_scale": "token"}}, "inputs.row_scale", ["another name"]),
    ({"inputs": {"lr_W1": "token"}}, "inputs.lr_W1", ["another name"]),
    ({"inputs": {"update_W1": "token"}}, "inputs.update_W1", ["another name"]),
    ({"inputs": {"unused": "token"}}, "inputs.unused",
     ['inputs.unused = "token"', "nothing in the rule uses it"]),
    ({"layer": {"gates": {"lr": {}}}}, "layer.gates.lr", ["no gate"]),
    ({"optimizer": {"lr": "token"}, "layer": {"gates": {"lr": {"init": 2.0}}}},
     "layer.gates.lr.init", ["0 < init < 1"]),
    ({"optimizer": {"lr": "token"}, "layer": {"gates": {"lr": {"init": 0.5, "bias": False}}}},
     "layer.gates.lr.init", ["bias"]),
]  # fmt: skip


@pytest.mark.parametrize(("table", "field", "words"), FILE_ERRORS + RULINGS)
def test_a_refusal_names_file_field_value_and_next_step(
    table: dict[str, Any], field: str, words: list[str]
) -> None:
    with pytest.raises(SpecError) as caught:
        rule_from_table(table, source="folder/own.toml")
    error = caught.value
    assert error.field == field, str(error)
    assert error.file == "folder/own.toml"
    assert "folder/own.toml" in str(error) and field in str(error)
    for word in words:
        assert word in str(error)


def test_all_wrong_fields_are_named_at_once() -> None:
    with pytest.raises(SpecError) as caught:
        rule_from_table({"loss": "l3", "block": "big", "colour": 1})
    fields = [caught.value.field, *(other.field for other in caught.value.others)]
    assert set(fields) == {"loss.kind", "block.size", "colour"}
    assert "colour" in str(caught.value)


def test_the_tables_passed_in_are_not_changed() -> None:
    table: dict[str, Any] = {"extends": "omeganet_linear", "loss": "dot", "window": {"length": 2}}
    before = repr(table)
    rule_from_table(table)
    assert repr(table) == before


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("loss = ", "not TOML"),
        ("loss = 'l2'\nloss = 'dot'", "not TOML"),
        ("a = " + "[" * 10_000, "not"),
        ("a = " + "[" * 90 + "]" * 90, "unknown field"),
        ("x" * 400_000, "at most"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, text: str, word: str) -> None:
    path = tmp_path / "broken.toml"
    path.write_text(text)
    with pytest.raises(SpecError) as caught:
        load_rule(path)
    assert word in str(caught.value) and "broken.toml" in str(caught.value)


def test_a_file_named_like_a_module_gives_a_free_name(tmp_path: Path) -> None:
    (tmp_path / "code.toml").write_text('loss = "l2"')
    assert load_rule(tmp_path / "code.toml").name == "rule_code"


def test_a_missing_or_binary_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('loss = "l2"')
    with pytest.raises(SpecError, match=r'mien\.toml: cannot be read.*Did you mean "mine"\?'):
        load_rule(tmp_path / "mien.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecError, match="not UTF-8"):
        load_rule(tmp_path / "binary.toml")


def test_rules_that_extend_each_other_are_refused(tmp_path: Path) -> None:
    (tmp_path / "first.toml").write_text('extends = "second"')
    (tmp_path / "second.toml").write_text('extends = "first"')
    with pytest.raises(SpecError, match="circle: second -> first -> second"):
        load_rule(tmp_path / "first.toml")


def test_a_file_that_names_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('extends = "own"')
    (tmp_path / "child.toml").write_text('extends = "own"')
    for name in ("own", "child"):
        with pytest.raises(SpecError, match=r'own\.toml: extends = "own": the rule extends itself'):
            load_rule(tmp_path / f"{name}.toml")
    (tmp_path / "retnet.toml").write_text('extends = "retnet"\nblock = 4')
    assert load_rule(tmp_path / "retnet.toml").block.size == 4


@pytest.mark.parametrize("name", ["./good.toml", "good.toml", "./good"])
def test_extends_takes_a_name_and_no_path(tmp_path: Path, name: str) -> None:
    for stem in ("good", "goods", *(f"unrelated_{index}" for index in range(20))):
        (tmp_path / f"{stem}.toml").write_text('loss = "l2"')
    (tmp_path / "own.toml").write_text(f'extends = "{name}"')
    with pytest.raises(SpecError, match=r'without folder and \.toml: extends = "good"') as caught:
        load_rule(tmp_path / "own.toml")
    assert set(caught.value.allowed) == {*shipped_specs(), "good", "goods"}


@pytest.mark.parametrize("rule", [None, 3, {"loss": "l2"}, b"retnet"])
def test_what_is_no_rule_is_an_argument_error(rule: Any) -> None:
    with pytest.raises(ArgumentError, match=r"argument rule .*not a rule.*name of a shipped rule"):
        load_rule(rule)


def test_extends_does_not_leave_its_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.toml").write_text('loss = "dot"')
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "own.toml").write_text('extends = "../secret"')
    with pytest.raises(SpecError) as caught:
        load_rule(inner / "own.toml")
    assert caught.value.field == "extends"


@pytest.mark.parametrize(
    "error",
    [
        SpecError("loss.kind", "unknown", value="l3", allowed=["l2"], file="own.toml"),
        CompileError("memory.kind", "mlp", "no schedule", 'memory = "matrix"', rule="own"),
        ArgumentError("q", "wrong shape", value=(1, 2), allowed="[B, T, H, K]"),
    ],
)
def test_errors_travel_between_processes(error: AtlasgenError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error) and vars(again) == vars(error)


def test_compile_and_argument_errors_say_all_they_know() -> None:
    text = str(CompileError("window.length", 128, "c > b", "window = 64", rule="own"))
    for part in ("own", "window.length", "128", "c > b", "window = 64"):
        assert part in text
    error = ArgumentError("lr", "missing", allowed="[B, T, H]", suggestion="Pass lr=...")
    assert isinstance(error, ValueError)
    for part in ("lr", "missing", "[B, T, H]", "Pass lr"):
        assert part in str(error)

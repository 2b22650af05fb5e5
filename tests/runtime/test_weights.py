"""Operators of memories with many weights: arguments, states and gradients, around any program."""

import re

import pytest
import torch
import torch._dynamo.testing

import atlasgen
from atlasgen import ArgumentError, CompileError, OperatorState
from atlasgen.runtime.carries import carry_name
from atlasgen.runtime.signature import resolve, signature_of, state_shapes, symbolic
from atlasgen.spec import rule_from_table
from atlasgen.spec.sizes import weight_shapes
from tests.rules.compare import Shape, check, make_case
from tests.runtime.defined import DefinedExecutable
from tests.runtime.wide_rules import WIDE

atlasgen.register_backend("defined", DefinedExecutable)

each_rule = pytest.mark.parametrize("name", WIDE)
each_start = pytest.mark.parametrize("start", ["fresh", "state"])


def shape_of(rule, **sizes):
    """A small call; values are as large as keys where the rule adds the two."""
    return Shape(K=4, V=4 if signature_of(rule).joins else 3, **sizes)


def call_of(name, tokens=6, heads=2):
    """The arguments of one call in float32, and the initial memory apart."""
    rule = WIDE[name]
    case = make_case(rule, shape_of(rule, T=tokens, H=heads))
    tensors = {name: tensor.float() for name, tensor in case.arguments.items()}
    memory = {n.partition(".")[2] or "M": t for n, t in tensors.items() if n.startswith("initial_memory")}
    return {n: t for n, t in tensors.items() if not n.startswith("initial_memory")}, memory or None


# -- the runtime around a program --------------------------------------------------------------------


@each_rule
@each_start
@pytest.mark.parametrize("backend", ["defined", "reference", "torch"])
@pytest.mark.parametrize("tokens", [0, 1, 9])
def test_values_states_and_gradients(name, start, tokens, backend):
    rule = WIDE[name]
    case = make_case(rule, shape_of(rule, T=tokens), seed=tokens, start=start)
    check(case, backend, [(), (tokens // 2,), (min(tokens, 4), min(tokens, 4))])


@each_rule
def test_heads_in_groups(name):
    rule = WIDE[name]
    check(make_case(rule, shape_of(rule, B=1, T=6, query_heads=4, key_heads=1)), "defined", [(), (3,)])


@each_rule
def test_packed_sequences_equal_separate_ones(name):
    rule = WIDE[name]
    op = atlasgen.compile(rule, "defined")
    arguments, memory = call_of(name, tokens=9)
    arguments = {n: t[:1] if t.shape[:2] == (2, 9) else t for n, t in arguments.items()}
    per_token = {"q", "k", "v", *(entry.name for entry in op.signature.tensors if entry.per_token)}
    borders = [0, 5, 5, 8]
    options = {"initial_memory": memory, "output_final_state": True}
    y, state = op(**arguments, cu_seqlens=torch.tensor(borders), **options)
    assert not y[:, 8:].any()
    for index, (start, stop) in enumerate(zip(borders, borders[1:])):
        own = {n: t[:, start:stop] if n in per_token else t for n, t in arguments.items()}
        alone, kept = op(**own, **options)
        torch.testing.assert_close(y[:, start:stop], alone)
        for part, tensor in kept.tensors().items():
            torch.testing.assert_close(state[index].tensors()[part], tensor)


@each_rule
def test_no_break_and_no_recompilation(name):
    op = atlasgen.compile(WIDE[name], "defined")
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")

    def step(arguments, memory):
        y, state = op(**arguments, initial_memory=memory, output_final_state=True)
        return y, state.memory

    compiled = torch.compile(step, fullgraph=True, dynamic=True, backend=counter)
    for tokens in (11, 13):  # no other size of these calls
        arguments, memory = call_of(name, tokens)
        y, after = compiled(arguments, memory)
        expected, state = op(**arguments, initial_memory=memory, output_final_state=True)
        torch.testing.assert_close(y, expected)
        for weight, tensor in state.memory.items():
            torch.testing.assert_close(after[weight], tensor)
    assert counter.frame_count == 1


# -- names and shapes --------------------------------------------------------------------------------


@each_rule
@pytest.mark.parametrize("backend", ["defined", "reference"])
def test_a_state_has_the_shapes_that_the_rule_says(name, backend):
    rule = WIDE[name]
    arguments, memory = call_of(name)
    op = atlasgen.compile(rule, backend)
    _, state = op(**arguments, initial_memory=memory, output_final_state=True)
    symbols = shape_of(rule).symbols(rule.features)
    expected = {part: resolve(shape, symbols) for part, shape in state_shapes(rule).items()}
    assert {part: tuple(tensor.shape) for part, tensor in state.tensors().items()} == expected
    again = OperatorState.of(state.tensors())
    assert again.tensors().keys() == state.tensors().keys()
    assert repr(again) == repr(state)


def test_the_weights_of_a_state_are_stored_in_out():
    expected = {
        "mlp": {"W1": (4, 8), "W2": (8, 3), "b1": (8,), "b2": (3,)},
        "gated": {"W1": (5, 3), "W2": (17, 5), "W3": (17, 5)},  # 1 + 4 * 4 features, hidden 4 + 1
        "graph": {"W1": (8, 3), "W2": (4, 8), "W3": (4, 8)},
        "rows": {"M": (4, 3), "b": (3,)},
        "learned_features": {"M": (1 + 4 + 10 + 20, 3)},
    }
    for name, weights in expected.items():
        rule = WIDE[name]
        symbols = Shape(K=4, V=3).symbols(rule.features)
        shapes = {n.removeprefix("memory."): s for n, s in state_shapes(rule).items() if "memory." in n}
        assert {n: resolve(s[2:], symbols) for n, s in shapes.items()} == weights
        assert weight_shapes(rule.memory, symbols) == weights


def test_names_of_a_program_and_of_a_state():
    assert {name: carry_name(name) for name in ("memory.M", "block.anchor", "block.anchor.M")} == {
        "memory.M": "memory", "block.anchor": "anchor", "block.anchor.M": "anchor",
    }  # fmt: skip
    assert carry_name("momentum.W1") == "momentum_W1" and carry_name("origin.b") == "origin_b"
    assert carry_name("block.update.W1") == "update_W1" and carry_name("block.pool_lr_W1") == "pool_lr_W1"
    assert carry_name("normaliser.z") == "normaliser"
    assert carry_name("normaliser.momentum") == "normaliser_momentum"
    assert carry_name("window.gamma") == "window_gamma" and carry_name("position") == "position"


def test_arguments_of_single_weights_and_learned_constants():
    def shown(name):
        return {
            entry.name: (symbolic(entry.shape), entry.required) for entry in signature_of(WIDE[name]).tensors
        }

    token = ("[B, T, H]", True)
    norm = {"norm_gain": ("[H, V]", False), "norm_bias": ("[H, V]", False)}
    assert shown("mlp") == {
        "lr": token, "lr_b1": ("[H]", True),
        "log_alpha": token, "log_theta": token, **norm,
    }  # fmt: skip
    assert shown("gated") == {"lr": token, "log_alpha_W2": ("[H]", True), "gamma": token, "d": token}
    assert shown("held") == {"lr_W1": token, "lr_W2": token, "lr_W3": token, "log_theta": token}
    assert shown("rows") == {"lr": token, **norm, "row_scale": ("[H, 5]", False)}
    assert shown("row_gates") == {"row_scale": token, **norm}
    assert shown("learned_features") == {"lr": token, "log_alpha": token, "coefficients": ("[H, 4]", True)}


@pytest.mark.parametrize("backend", ["defined", "reference"])
@pytest.mark.parametrize("name", ["mlp", "rows", "row_gates"])
def test_optional_arguments_have_their_defaults(name, backend):
    rule, (arguments, memory) = WIDE[name], call_of(name)
    op = atlasgen.compile(rule, backend)
    optional = {entry.name: entry.shape for entry in op.signature.tensors if not entry.required}
    symbols = shape_of(rule).symbols(rule.features)
    defaults = {n: torch.ones(resolve(s, symbols)) for n, s in optional.items()}
    defaults["norm_bias"] = torch.zeros_like(defaults["norm_bias"])
    if "row_scale" in defaults:
        defaults["row_scale"] = defaults["row_scale"] / torch.arange(1, 6)
    without = {n: t for n, t in arguments.items() if n not in optional}
    torch.testing.assert_close(
        op(**without, initial_memory=memory)[0], op(**without, **defaults, initial_memory=memory)[0]
    )


# -- refusals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m["W1"], r"a Tensor.*'W1': \[H, F, 2\*K\], 'W2': \[H, 2\*K, V\], 'b1': \[H, 2\*K\]"),
        (lambda m: {"W1": m["W1"]}, r"wrong weight names.*'W2'"),
        (lambda m: {**m, "W3": m["W1"]}, "wrong weight names"),
        (lambda m: {**m, "W2": m["W2"].mT}, r"initial_memory\['W2'\].*\[H, 2\*K, V\] = \[2, 8, 4\]"),
        (lambda m: {**m, "b1": m["b1"][:1]}, r"initial_memory\['b1'\].*\[N, H, 2\*K\] = \[2, 2, 8\]"),
        (lambda m: {**m, "b1": m["b1"].long()}, r"initial_memory\['b1'\].*int64"),
        (lambda m: None, r"missing.*learned memory.*'W1': \[H, F, 2\*K\]"),
    ],
)
def test_initial_memories_that_do_not_fit(change, message):
    arguments, memory = call_of("mlp")
    with pytest.raises(ArgumentError, match=f"initial_memory.*{message}|{message}"):
        atlasgen.compile(WIDE["mlp"], "defined")(**arguments, initial_memory=change(memory))


def test_every_sequence_may_start_with_its_own_weights():
    arguments, memory = call_of("mlp")
    op = atlasgen.compile(WIDE["mlp"], "defined")
    own = {name: torch.stack([weight, 2 * weight]) for name, weight in memory.items()}
    y, _ = op(**arguments, initial_memory=own)
    doubled = {name: 2 * weight for name, weight in memory.items()}
    torch.testing.assert_close(y[0], op(**arguments, initial_memory=memory)[0][0])
    torch.testing.assert_close(y[1], op(**arguments, initial_memory=doubled)[0][1])


def test_a_rule_that_needs_an_initial_memory_says_which():
    rule = WIDE["held"]
    arguments, _ = call_of("held")
    for backend in ("defined", "reference"):
        with pytest.raises(ArgumentError, match="initial_memory.*normal"):
            atlasgen.compile(rule, backend)(**arguments)


def test_more_tensors_than_an_operator_takes_are_refused():
    own = {"lr": "head", "retention": "head", "theta": "head"}
    table = {
        "rule": "many",
        "memory": {"kind": "mlp", "depth": 4, "bias": True, "initial": "learned"},
        "optimizer": {"kind": "momentum", "theta": "head"},
        "window": {"length": 3, "boundary": "carry"},
        "block": 4,
        "retention": {"kind": "head", "toward": "initial"},
        "weights": {f"{letter}{layer}": own for letter in "Wb" for layer in range(1, 5)},
    }
    with pytest.raises(CompileError, match=r"weights.*8 with gates of their own.*torch's take 64"):
        atlasgen.compile(rule_from_table(table), "defined")


@pytest.mark.parametrize("name", ["mlp", "rows", "row_gates", "graph"])
def test_values_of_another_size_than_keys(name):
    arguments, memory = call_of(name)
    arguments["v"] = arguments["v"][..., :-1]
    with pytest.raises(ArgumentError, match=r"q, k, v.*adds keys to values.*K is 4 and V is 3"):
        atlasgen.compile(WIDE[name], "defined")(**arguments, initial_memory=memory)


def test_missing_and_unknown_arguments():
    arguments, memory = call_of("mlp")
    op = atlasgen.compile(WIDE["mlp"], "defined")
    for name in ("lr", "lr_b1", "log_alpha"):
        rest = {n: t for n, t in arguments.items() if n != name}
        with pytest.raises(ArgumentError, match=f"argument {name}: missing; .* needs lr, lr_b1") as caught:
            op(**rest, initial_memory=memory)
        assert "norm_gain" not in str(caught.value), "what is optional is not needed"
    with pytest.raises(ArgumentError, match=r"lr_W1.*declares no such"):
        op(**arguments, lr_W1=arguments["lr"], initial_memory=memory)
    with pytest.raises(ArgumentError, match=r"norm_gain.*\[2, 3\].*\[H, V\] = \[2, 4\]"):
        op(**{**arguments, "norm_gain": torch.ones(2, 3)}, initial_memory=memory)


def test_the_signature_shows_every_argument():
    text = str(signature_of(WIDE["mlp"]))
    assert "K = V" in text.splitlines()[0]
    assert re.search(r"lr_b1 +\[H\] .*required: that of the weight b1: step size", text)
    assert re.search(r"norm_gain +\[H, V\] .*optional: gain of the norm", text)
    assert re.search(r"initial_memory .*required: .*'b1': \[H, 2\*K\]", text)


@each_rule
def test_a_state_passes_from_one_backend_to_another(name):
    arguments, memory = call_of(name, tokens=7)
    first, second = (atlasgen.compile(WIDE[name], backend) for backend in ("defined", "reference"))
    per_token = {"q", "k", "v", *(entry.name for entry in first.signature.tensors if entry.per_token)}
    head = {n: t[:, :3] if n in per_token else t for n, t in arguments.items()}
    tail = {n: t[:, 3:] if n in per_token else t for n, t in arguments.items()}
    for one, other in ((first, second), (second, first)):
        _, state = one(**head, initial_memory=memory, output_final_state=True)
        y, _ = other(**tail, initial_state=state)
        expected, _ = one(**arguments, initial_memory=memory)
        torch.testing.assert_close(y, expected[:, 3:])


def test_sums_of_gates_only_where_a_mean_acts():
    names = {name: set(state_shapes(rule)) for name, rule in WIDE.items()}
    assert {n for n in names["pooled"] if "pool" in n} == {
        "block.pool_alpha", "block.pool_lr", "block.pool_lr_b1",
    }  # fmt: skip
    # The steps of "held" act on gradients, token by token.
    assert {n for n in names["held"] if "pool" in n} == {"block.pool_theta"}
    assert not any("anchor" in n for n in names["held"] | names["rows"])
    assert {"block.update.M", "block.update.b"} <= names["rows"]
    assert "block.anchor" in names["learned_features"]

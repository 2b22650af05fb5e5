"""The Gram-space schedule: exact rules of any window, loss and momentum, against the float64 definition.

Values, final states and all gradients; calls split at awkward places; beside the recurrent schedule, and at
what a token costs.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch

import atlasgen
from atlasgen.cli.facts import costs
from atlasgen.emit.plan import Structure
from atlasgen.emit.refusals import kernel_refusals
from atlasgen.errors import CompileError
from atlasgen.runtime import exact
from atlasgen.runtime.launch import KernelTiles, Tiles
from atlasgen.schedules.serve import admitted, schedule
from atlasgen.spec import load_rule, rule_from_table
from atlasgen.spec.rule import MemoryRule
from tests.emit.test_structures import backend_of
from tests.rules.compare import BACKENDS, Shape, check, error, make_case, run_case
from tests.rules.exact_strategies import drawn_exact_calls, exact_table, mended_exact
from tests.rules.forced import forced
from tests.rules.strategies import Choice
from tests.rules.test_random_rules import outcome

FIRST = {"kind": "token", "order": "decay_first"}
MOMENTUM = {"kind": "momentum", "lr": "token", "theta": "token"}
HUBER = {"kind": "huber", "per": "row", "delta": "threshold"}
THRESHOLD = {"threshold": {"shape": "token", "range": "positive"}}
POLY = {"kind": "poly", "degree": 2}
RULES: dict[str, dict[str, Any]] = {
    "delta": {"window": 1},
    "no decay": {},
    "decay first": {"retention": FIRST, "window": {"length": 4, "gate": "token"}},
    "decay per head": {"retention": {"kind": "head", "order": "decay_first"}},
    "constant decay": {"retention": {"kind": "constant", "value": 0.9}, "optimizer": {"lr": 0.2}},
    "toward initial": {"retention": {"kind": "token", "toward": "initial"}, "memory": {"initial": "learned"}},
    "decay first, toward initial": {
        "retention": {**FIRST, "toward": "initial"}, "memory": {"initial": "learned"}, "optimizer": MOMENTUM,
    },
    "momentum": {"optimizer": MOMENTUM, "retention": "token"},
    "momentum, decay first": {"optimizer": MOMENTUM, "retention": FIRST},
    "rate in the gradient": {"optimizer": {**MOMENTUM, "lr_at": "gradient"}, "retention": FIRST},
    "rate in the gradient, no momentum": {"optimizer": {"lr": "token", "lr_at": "gradient"}},
    "by pair": {"window": {"length": 3, "gate": "pair"}, "loss": {"kind": "lp", "p": 3}},
    "by age": {"window": {"length": 3, "gate": "position"}, "loss": "huber", "retention": "token"},
    "by pair alone": {"window": {"length": 1, "gate": "pair"}, "loss": {"kind": "lp", "p": 3}},
    "mean": {"window": {"length": 5, "gate": "token", "normalise": "mean"}, "retention": "token"},
    "wide window": {"window": {"length": 20, "gate": "token"}, "optimizer": MOMENTUM, "retention": "token"},
    "smooth l_p": {"loss": {"kind": "lp", "p": 1.5, "eps": 0.01}, "retention": "token"},
    "absolute error": {"loss": {"kind": "expr", "expression": "abs(pred - v)"}, "window": 2},
    "row loss": {"loss": HUBER, "inputs": THRESHOLD, "retention": "token"},
    "row loss with one threshold": {
        "loss": HUBER, "inputs": {"threshold": {"shape": "head", "range": "positive"}}, "window": 2,
    },
    "log cosh": {"loss": {"kind": "expr", "expression": "log(cosh(pred - v))"}, "optimizer": MOMENTUM},
    "weighted loss": {
        "loss": {"kind": "expr", "expression": "0.5 * weight * (pred - v)**2 + 0.1 * pred"},
        "inputs": {"weight": {"shape": "token", "range": "positive"}},
    },
    "terms": {
        "loss": [{"kind": "l2", "lr": "a"}, {"kind": "huber", "lr": "b", "target": "w"}, "dot"],
        "inputs": {"a": "head", "b": "value", "w": "value"}, "retention": FIRST,
    },
    "another key": {"loss": {"kind": "huber", "key": "p"}, "inputs": {"p": "key"}},
    "target without key": {"loss": {"kind": "l2", "target": "v - k"}},
    "residual": {"memory": {"kind": "matrix", "residual": "x"}, "loss": "huber"},
    "polynomial features": {"features": POLY, "retention": FIRST, "optimizer": MOMENTUM},
    "learned coefficients": {"features": {**POLY, "coefficients": "learned"}, "loss": "huber"},
    "powers": {"features": {**POLY, "basis": "powers", "coefficients": "learned"}},
    "normalised read": {"features": "elu1", "read": {"normaliser": "sum"}, "retention": "token"},
    "normalised read, momentum": {
        "features": "elu1", "read": {"normaliser": "sum"}, "optimizer": MOMENTUM, "retention": "token",
        "window": {"length": 3, "gate": "token"},
    },
    "read before": {"read": {"at": "pre", "scale": "K**-0.5"}, "retention": "token"},
    "micro-steps": {"optimizer": {"lr": "token", "micro_steps": 2}, "window": 1, "loss": "huber"},
    "read of the border": {"read": {"at": "block"}, "retention": FIRST},
}  # fmt: skip
PLAIN = {
    "memory": "matrix", "bias": "no", "norm": "none", "transform": "none", "clip": "none", "project": "none",
    "link": "none", "nesterov": "no", "boundary": "halo",
}  # fmt: skip
SHORT = (0, 1, 3, 19)
LARGEST = 113  # the longest window that kernels hold
STRUCTURES = (
    Structure("fused", schedule="gram"),
    Structure("split", "inline", False, 1, schedule="gram"),
    Structure("split", "vectors", False, 2, schedule="gram"),
    Structure("split", "all", True, 4, schedule="gram"),
)
# Of the rules: what kernels of the others have no other form for.
QUICK = (
    "momentum, decay first", "decay first, toward initial", "by pair", "mean", "row loss with one threshold",
    "polynomial features", "normalised read, momentum",
)  # fmt: skip
each_rule = pytest.mark.parametrize("name", RULES)


def gram(name: str, **more: Any) -> MemoryRule:
    """A rule of `RULES`: l2, a window of three and a step per token where it does not say otherwise."""
    common = {"rule": "gram", "loss": "l2", "optimizer": {"lr": "token"}, "window": 3}
    return rule_from_table({**common, **RULES[name], **more})


def sizes_of(rule: MemoryRule, T: int) -> Shape:
    joined = rule.memory.residual != "none" or rule.loss[0].target != "v"
    return Shape(B=2, T=T, H=2, K=5, V=5 if joined else 3)


@each_rule
@pytest.mark.parametrize("T", SHORT)
def test_short_calls(name, T):
    rule = gram(name)
    splits = [(), (T // 3,), (T // 2, T // 2, T)]
    check(make_case(rule, sizes_of(rule, T), seed=T, start="state"), forced("gram"), splits)


@each_rule
def test_many_blocks(name):
    rule = gram(name)
    assert not admitted(rule)["gram"]
    case = make_case(rule, sizes_of(rule, 70), seed=7, start="fresh")
    check(case, forced("gram"), [(), (16, 17, 50)])


@pytest.mark.parametrize("spec", ["omeganet_exact", "titans_exact"])
def test_shipped_rules(spec):
    rule = load_rule(spec)
    check(make_case(rule, sizes_of(rule, 70), seed=3, start="state"), forced("gram"), [(), (1, 40)])


@each_rule
def test_every_schedule_that_serves_a_rule_agrees(name):
    rule = gram(name)
    case = make_case(rule, sizes_of(rule, 37), seed=5, start="state")
    serving = [own for own, refusals in admitted(rule).items() if not refusals]
    assert {"gram", "recurrent"} <= set(serving)
    for own in serving:
        check(case, forced(own), [(7,)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("query_heads", "key_heads"), [(2, 1), (4, 2), (1, 1)])
def test_heads_and_dtypes(query_heads, key_heads, dtype):
    shape = Shape(B=2, T=37, H=2, K=5, V=3, query_heads=query_heads, key_heads=key_heads)
    check(make_case(gram("momentum"), shape, seed=9, dtype=dtype, start="state"), forced("gram"), [(), (11,)])


@pytest.mark.parametrize("equal", [True, False])
def test_repeated_keys(equal):
    """Every key of a block the same, or nearly: predictions of a window are then of one direction."""
    rule = gram("decay first")
    case = make_case(rule, Shape(B=1, T=70, H=1, K=6, V=5), seed=6, start="fresh")
    keys = case.arguments["k"]
    noise = 0.0 if equal else 1e-3
    case.arguments["k"] = (keys[:, :1] + noise * keys).float().double()
    check(case, forced("gram"), [(), (5,)])


@pytest.mark.parametrize("value", [-20.0, -1e4, -torch.inf])
def test_a_reset_in_the_middle(value):
    """The memory is forgotten, the window is not: its tokens are predicted again."""
    rule = gram("decay first")
    case = make_case(rule, Shape(B=1, T=40, H=1, K=6, V=5), seed=8, start="fresh")
    case.arguments["log_alpha"][:, 21] = value
    check(case, forced("gram"), [(), (22,)])


each_backend = pytest.mark.parametrize("backend", BACKENDS)


@each_backend
def test_one_token_after_any_prefix(backend):
    """prefill(n) + decode(1) = forward(n + 1)."""
    T = 40 if backend == "torch" else 19
    case = make_case(gram("momentum"), Shape(B=1, T=T, H=2, K=6, V=5), seed=6, start="fresh")
    arguments = {name: value.float() for name, value in case.arguments.items()}

    def cut(start: int, stop: int) -> dict[str, torch.Tensor]:
        return {name: x[:, start:stop] if x.ndim > 2 else x for name, x in arguments.items()}

    operator = atlasgen.compile(case.rule, backend, schedule="gram")
    whole, _ = operator(**arguments)
    for n in range(1, T):
        _, state = operator(**cut(0, n), output_final_state=True)
        y, _ = operator(**cut(n, n + 1), initial_state=state)
        assert error(y, whole[:, n : n + 1].double())[0] <= 1e-5, n


@each_backend
def test_packed_sequences(backend):
    """Sequences of several lengths in one call are those sequences alone."""
    case = make_case(gram("momentum"), Shape(B=1, T=41, H=2, K=6, V=5), seed=4, start="fresh")
    arguments = {name: value.float() for name, value in case.arguments.items()}
    operator = atlasgen.compile(case.rule, backend, schedule="gram")
    ends = [0, 7, 7, 40, 41]
    packed, _ = operator(**arguments, cu_seqlens=torch.tensor(ends))
    for start, stop in zip(ends, ends[1:], strict=False):
        alone, _ = operator(**{name: x[:, start:stop] for name, x in arguments.items()})
        assert error(packed[:, start:stop], alone.double())[0] <= 1e-6


@pytest.mark.parametrize("window", [1, 4])
def test_errors_are_those_of_the_recursion(window):
    """E, written out: each row's predictions from what the rows before it wrote."""
    rows, halo, values = 6, 3, 2
    torch.manual_seed(0)
    sources = halo + rows
    scores, links = torch.randn(sources, sources), torch.randn(rows, rows).tril(-1)
    gates, factor, given = torch.rand(rows, sources), torch.rand(rows), torch.randn(sources, values)
    target = torch.randn(sources, values)
    found = exact.errors(
        lambda *x: torch.tanh(x[0] - x[1]),
        scores, links, gates, [(factor, given)], [(target, 2)], halo, window,
    )  # fmt: skip
    expected = torch.zeros(rows, sources, values)
    for row in range(rows):
        for source in range(halo + row + 1 - window, halo + row + 1):
            pred = factor[row] * given[source]
            for earlier in range(row):
                written = gates[earlier, :, None] * expected[earlier]
                pred = pred - links[row, earlier] * (scores[source] @ written)
            expected[row, source] = torch.tanh(pred - target[source])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def alone(choice: Choice) -> dict[str, Any]:
    """The table of a random exact rule with one plain matrix and no map, norm or limit of its update."""
    found = mended_exact({**choice, **PLAIN})
    by_channel = {name: "token" for name in ("lr", "retention") if found[name] in ("key", "value")}
    return exact_table({**found, **by_channel})


def test_random_rules():
    drawn = [replace(member, T=3 * member.T) for member in drawn_exact_calls(120, 23)]
    counts = Counter(outcome(member, forced("gram"), alone) for member in drawn)
    print(dict(counts))
    served = len(drawn) - counts["refused"]  # a dot loss sees no memory
    assert served >= 0.7 * len(drawn) and counts["agrees"] >= 0.9 * served, counts


def flops(rule: MemoryRule, name: str, key: int = 16) -> float:
    """Flops of a token, forward and backward."""
    size = {"B": 1, "T": 1024, "H": 1, "K": key, "V": 16}
    return sum(program.flops for program in costs(schedule(rule, name), size, "float32"))


def test_what_a_token_costs_hardly_grows_with_the_features():
    """Polynomials of degree 2 are 2080 features of a key of 64. Token by token every source of a window pays
    for them; in products of keys each source pays once, in a read and a write of the block's state."""
    table = {"window": {"length": 16, "gate": "token"}, "optimizer": MOMENTUM, "retention": "token"}
    keys = gram("no decay", **table)
    features = gram("no decay", **table, features={"kind": "poly", "degree": 2, "coefficients": [0, 0, 1]})
    grown = {name: flops(features, name) - flops(keys, name) for name in ("gram", "recurrent")}
    assert 0 < grown["gram"] < 0.25 * grown["recurrent"]
    assert flops(features, "gram", 64) < 0.25 * flops(features, "recurrent", 64)


def test_no_value_of_the_walk_has_features():
    rule = gram("no decay", features=POLY)
    program = schedule(rule, "gram").forward
    (errors,) = {node for node in program.nodes() if node.op == "exact_errors"}
    assert not {"K", "F"} & {dim for argument in errors.args for dim in argument.dims}


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"block": 16}, "block.size"),
        ({"loss": "dot"}, "block.size"),
        ({"memory": {"kind": "matrix", "bias": True}}, "memory.kind"),
        ({"memory": {"kind": "matrix", "norm": "layer"}}, "memory.kind"),
        ({"memory": {"kind": "matrix", "link": {"kind": "softmax"}}}, "memory.kind"),
        ({"memory": {"kind": "mlp", "hidden": "2*K", "initial": "learned"}}, "memory.kind"),
        ({"window": {"length": 3, "boundary": "truncate"}}, "window.boundary"),
        ({"window": {"length": 3, "boundary": "carry"}}, "window.boundary"),
        ({"loss": ["l2", {"kind": "l2", "key": "p"}], "inputs": {"p": "key"}}, "loss.key"),
        ({"loss": {"kind": "l2", "write": "p"}, "inputs": {"p": "key"}}, "loss.write"),
        ({"loss": {"kind": "l2", "lr": "a"}, "inputs": {"a": "key"}}, "loss.lr"),
        ({"optimizer": {"lr": "token", "clip": {"norm": 1.0, "of": "token"}}}, "optimizer.clip"),
        ({"optimizer": {"lr": "token", "transform": [{"kind": "sign"}]}}, "optimizer.transform"),
        ({"optimizer": {"lr": "value"}}, "optimizer.lr"),
        ({"window": 1, "loss": "huber", "retention": {"kind": "channel"}}, "retention.kind"),
    ],
)
def test_what_has_no_products_of_keys_is_refused_by_field(more, field):
    with pytest.raises(CompileError, match=field.replace(".", r"\.")):
        schedule(gram("no decay", **more), "gram")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in RULES]
)
def test_kernels(name):
    """A block and a tail, from a state and split in the middle of a window, with all gradients."""
    rule, slow = gram(name), name not in QUICK
    case = make_case(rule, sizes_of(rule, 37 if slow else 19), seed=3, start="state")
    check(case, forced("gram", "triton"), [(), (7,)] if slow else [(7,)])


@pytest.mark.parametrize("structure", STRUCTURES, ids=lambda structure: structure.label)
@pytest.mark.parametrize("name", ["momentum, decay first", "row loss"])
def test_structures_of_kernels(name, structure):
    rule = gram(name)
    case = make_case(rule, sizes_of(rule, 19), seed=4, start="state")
    check(case, backend_of(structure, Tiles(others=KernelTiles(block_v=16))), [()])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_heads_and_dtypes_of_kernels(dtype):
    shape = Shape(B=1, T=37, H=2, K=5, V=19, query_heads=4, key_heads=1)
    case = make_case(gram("momentum"), shape, seed=9, dtype=dtype, start="state")
    check(case, forced("gram", "triton"), [()])


@pytest.mark.parametrize("T", [0, 1])
def test_kernels_of_short_calls(T):
    rule = gram("by age")
    check(make_case(rule, sizes_of(rule, T), seed=T, start="state"), forced("gram", "triton"), [()])


def test_random_rules_in_kernels():
    drawn = [replace(member, T=2 * member.T) for member in drawn_exact_calls(6, 29)]
    counts = Counter(outcome(member, forced("gram", "triton"), alone) for member in drawn)
    print(dict(counts))
    assert counts["agrees"] >= 0.6 * len(drawn), counts


def test_kernels_refuse_a_window_that_registers_do_not_hold():
    (found,) = kernel_refusals(schedule(gram("delta", window=LARGEST + 1), "gram").forward)
    assert (found.field, found.value) == ("window.length", LARGEST + 1)
    assert f"window = {LARGEST}" in found.nearest and 'backend = "torch"' in found.nearest
    assert not kernel_refusals(schedule(gram("delta", window=LARGEST), "gram").forward)
    with pytest.raises(CompileError, match="window"):
        atlasgen.compile(gram("delta", window=LARGEST + 1), "triton", schedule="gram")


def test_a_rule_has_it_where_features_are_products_of_entries():
    """Elsewhere one token after the other costs less, and no more than a solved system does."""
    chosen = {name: schedule(gram(name)).schedule for name in RULES}
    assert chosen["no decay"] == chosen["row loss"] == chosen["powers"] == "recurrent"
    assert chosen["polynomial features"] == chosen["learned coefficients"] == "gram"
    assert schedule(gram("polynomial features", window=LARGEST + 1)).schedule == "recurrent"
    assert schedule(gram("learned coefficients", window=1, loss="l2")).schedule == "wy"
    result = run_case(make_case(gram("polynomial features"), Shape(T=4), seed=1), "torch")
    assert torch.isfinite(result.values["y"]).all()


def test_a_window_of_all_tokens_is_refused_by_name():
    with pytest.raises(CompileError, match=r"window\.length"):
        atlasgen.compile(rule_from_table({"rule": "all", "window": "all", "features": POLY}), "torch")

"""Nodes are interned and simplify while they are built; what a rule does not use vanishes."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from atlasgen.ir import build
from atlasgen.ir.node import Node, walk
from atlasgen.ir.scalar import placeholder
from atlasgen.schedules.serve import schedule
from atlasgen.spec import load_rule, rule_from_table
from tests.ir.evaluate import EXTENT, Arrays, arrays_of, check_derivatives, token, value_of
from tests.rules.strategies import all_pairs, table_of

x0 = placeholder(0)
zero, one = build.const(0.0), build.const(1.0)
IDENTITY = build.decay(build.const(float("-inf")), "i", "s")


# -- interning ---------------------------------------------------------------------------------------


def test_equal_expressions_are_one_node():
    def made() -> Node:
        x, w = token("x", "sK"), token("w", "s")
        return build.dot(build.mul(w, x), build.map_(x0**2 + 1, token("y", "sV")), "s")

    assert made() is made()
    assert token("x", "sK") is not token("x", "sV")
    assert build.mask(token("m", "rs"), "r", "s", 0, 2) is not build.mask(token("m", "rs"), "r", "s", 0, 3)


def test_two_builds_of_a_rule_are_the_same_nodes():
    rule = load_rule("omeganet_linear")
    first = schedule.__wrapped__(rule)
    second = schedule.__wrapped__(rule)
    assert [id(node) for node in first.forward.roots()] == [id(node) for node in second.forward.roots()]
    assert [id(node) for node in first.backward.roots()] == [id(node) for node in second.backward.roots()]


# -- identities --------------------------------------------------------------------------------------


def test_zero_and_one_vanish():
    x, m = token("x", "sK"), token("m", "rs")
    assert build.mul(x, zero) is zero and build.mul(zero, x) is zero
    assert build.mul(x, one) is x and build.mul(one, x) is x
    assert build.add(x, zero) is x and build.sub(x, zero) is x
    assert build.sub(zero, x) is build.neg(x) and build.neg(build.neg(x)) is x
    assert build.mask(zero, "r", "s", 0, None) is zero
    assert build.cumsum(zero, "r") is zero
    assert build.dot(build.mask(m, "r", "s", 0, 1), build.neg(x), "s") is build.neg(
        build.dot(build.mask(m, "r", "s", 0, 1), x, "s")
    )
    assert build.decay_to_end(zero, "r") is one and build.decay_whole(zero, "r") is one
    assert build.decay_from_start(zero, "r") is one
    assert build.decay_whole(build.const(float("-inf")), "r") is zero


def test_a_product_with_an_identity_is_a_renaming():
    m, x = token("m", "ri"), token("x", "sK")
    assert build.dot(m, IDENTITY, "i") is token("m", "rs")
    assert build.dot(IDENTITY, x, "s") is token("x", "iK")


def test_masks_meet_in_one():
    m = token("m", "rs")
    both = build.mask(build.mask(m, "r", "s", 0, None), "r", "s", None, 3)
    assert both is build.mask(m, "r", "s", 0, 3)
    product = build.mul(build.mask(m, "r", "s", 0, 3), build.mask(one, "r", "s", 1, None))
    assert product is build.mask(m, "r", "s", 1, 3)


def test_a_diagonal_of_a_full_matrix_is_no_renaming():
    """Renaming merges axes by name: right for products of vectors, wrong for a matrix or what sums it."""
    matrix, vector = token("m", "is"), token("v", "s")
    cases = [
        build.sum_(build.mask(matrix, "i", "s", 0, 0), "s"),
        build.sum_(build.mask(build.mul(build.dot(matrix, vector, "s"), vector), "i", "s", 0, 0), "s"),
        build.dot(build.dot(matrix, token("w", "i"), "i"), build.mask(one, "i", "s", 0, 0), "s"),
        build.sum_(build.mask(build.mul(token("w", "i"), vector), "i", "s", 0, 0), "s"),
    ]
    for index, node in enumerate(cases):
        arrays = arrays_of([node], seed=index)
        m, w, v = arrays.get("m"), arrays.get("w"), arrays.get("v")
        expected = [
            lambda m=m: m.diagonal(0, -2, -1),
            lambda m=m, v=v: (m @ v[..., None])[..., 0] * v,
            lambda m=m, w=w: (m.mT @ w[..., None])[..., 0],
            lambda w=w, v=v: w * v,
        ][index]()
        torch.testing.assert_close(value_of(node, arrays), expected)


# -- simplification keeps the meaning ----------------------------------------------------------------

LEAVES = {
    ("r", "K"): [token("a", "rK")],
    ("s", "K"): [token("x", "sK")],
    ("i", "K"): [token("z", "iK")],
    ("s", "V"): [token("y", "sV")],
    ("K", "V"): [token("memory", "KV")],
    ("r", "s"): [token("m", "rs"), build.mask(token("m", "rs"), "r", "s", 0, 2)],
    ("i", "s"): [token("n", "is"), IDENTITY, build.mask(token("n", "is"), "i", "s", 0, None)],
    ("r", "i"): [build.decay(build.mul(token("g", "i"), build.const(0.3)), "r", "i")],
    ("r",): [token("c", "r"), one, zero],
    ("s",): [token("w", "s"), one, build.const(-1.0)],
    ("i",): [token("u", "i"), one],
    ("K",): [token("b", "K")],
    (): [one, zero, build.const(-2.0)],
}
INNER = {
    ("r", "K"): "si",
    ("s", "K"): "i",
    ("r", "V"): "Ks",
    ("s", "V"): "K",
    ("K", "V"): "s",
    ("r", "s"): "Ki",
    ("i", "s"): "K",
    ("r", "i"): "s",
    ("i", "V"): "sK",
}


class LostAxisError(Exception):
    """A factor became a number or lost the axis to sum over."""


class Pair:
    """A node and, computed without any simplification, its array with all of its axes."""

    def __init__(self, node: Node, dims: tuple[str, ...], array: torch.Tensor) -> None:
        self.node, self.dims, self.array = node, dims, array


def _naive_leaf(node: Node, dims: tuple[str, ...], arrays: Arrays) -> Pair:
    """A leaf pair: its array spread over `dims`."""
    value = value_of(node, arrays)
    for position, dim in enumerate(dims):
        if dim not in node.dims:
            value = value.unsqueeze(3 + position)
    shape = [*value.shape[:3], *(EXTENT[dim] for dim in dims)]
    return Pair(node, dims, value.expand(shape))


def _random_pair(numbers: random.Random, dims: tuple[str, ...], depth: int, arrays: Arrays) -> Pair:
    choices = ["leaf"] if dims in LEAVES else []
    if depth:
        choices += ["add", "mul", "neg", "sub", "scale"] + ["dot"] * 3 * (dims in INNER)
    kind = numbers.choice(choices or ["dot"])
    if kind == "leaf":
        return _naive_leaf(numbers.choice(LEAVES[dims]), dims, arrays)
    depth = max(depth - 1, 0)
    if kind == "dot":
        dim = numbers.choice(INNER[dims])
        left, right = _random_factors(numbers, dims, dim, depth, arrays)
        node = build.dot(_with(left, dim), _with(right, dim), dim)
        letters = {name: chr(ord("a") + place) for place, name in enumerate("rjihsKVc")}
        text = ["..." + "".join(letters[d] for d in pair.dims) for pair in (left, right)]
        out = "..." + "".join(letters[d] for d in dims)
        return Pair(node, dims, torch.einsum(f"{text[0]},{text[1]}->{out}", left.array, right.array))
    first = _random_pair(numbers, dims, depth, arrays)
    if kind == "neg":
        return Pair(build.neg(first.node), dims, -first.array)
    if kind == "scale":
        return Pair(build.mul(first.node, build.const(-0.5)), dims, -0.5 * first.array)
    second = _random_pair(numbers, dims, depth, arrays)
    if kind == "mul":
        return Pair(build.mul(first.node, second.node), dims, first.array * second.array)
    if kind == "sub":
        return Pair(build.sub(first.node, second.node), dims, first.array - second.array)
    return Pair(build.add(first.node, second.node), dims, first.array + second.array)


def _random_factors(
    numbers: random.Random, dims: tuple[str, ...], dim: str, depth: int, arrays: Arrays
) -> tuple[Pair, Pair]:
    order = "rjihsKVc".index
    left = tuple(sorted((dims[0], dim), key=order))
    right = tuple(sorted((dim, dims[1]), key=order))
    return _random_pair(numbers, left, depth, arrays), _random_pair(numbers, right, depth, arrays)


def _with(pair: Pair, dim: str) -> Node:
    """The node, if it still has the axis that it is summed over."""
    if dim not in pair.node.dims:
        raise LostAxisError
    return pair.node


@settings(max_examples=120, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 10**9))
def test_simplified_graphs_mean_what_was_written(seed):
    numbers = random.Random(seed)
    every = [node for group in LEAVES.values() for node in group]
    arrays = arrays_of(every, seed=seed % 1000)
    arrays["g"] = -arrays["g"].abs()
    dims = numbers.choice(list(INNER))
    pair = _random_pair_or_skip(numbers, dims, arrays)
    if pair is None:
        return
    found = _naive_leaf(pair.node, dims, arrays).array
    torch.testing.assert_close(found, pair.array, rtol=1e-9, atol=1e-9)
    if pair.node.op not in ("const", "leaf"):
        check_derivatives(pair.node, arrays, 1e-5)


def _random_pair_or_skip(numbers: random.Random, dims: tuple[str, ...], arrays: Arrays) -> Pair | None:
    try:
        return _random_pair(numbers, dims, 3, arrays)
    except LostAxisError:
        return None


# -- what a rule does not use ------------------------------------------------------------------------


def _ops(*roots: Node) -> list[str]:
    return [node.op for node in walk(roots)]


def _leaf_names(*roots: Node) -> set[str]:
    return {node["name"] for node in walk(roots) if node.op == "leaf"}


def test_linear_attentions_state_program_is_one_product():
    program = schedule(load_rule("linear_attention")).forward
    assert {carry.name for carry in program.carries} == {"memory", "normaliser"}
    memory = program.carry("memory").next
    assert _ops(memory).count("dot") == 1
    assert _leaf_names(memory) == {"memory", "k", "v", "live"}  # live: elu(0) + 1 is no zero
    assert not {"decay", "decay_whole", "decay_to_end", "expand_age", "at_start", "cumsum"} & set(
        _ops(memory)
    )
    everything = schedule(load_rule("linear_attention"))
    roots = [*everything.forward.roots(), *everything.backward.roots()]
    assert not {name for name in _leaf_names(*roots) if "momentum" in name} - {"normaliser"}
    assert not _leaf_names(*roots) & {"lr", "log_alpha", "log_theta", "gamma", "exists", "anchor", "previous"}
    assert not any("h" in node.dims for node in walk(roots))
    # Forward: scores, reads of block and state, the denominator, and the two sums over the block.
    assert _ops(*everything.forward.roots()).count("dot") <= 5


@pytest.mark.parametrize("name", ["simple_gla", "retnet"])
def test_a_decay_adds_products_with_numbers_only(name):
    program = schedule(load_rule(name)).forward
    assert _ops(program.carry("memory").next).count("dot") == 1
    assert _ops(*program.roots()).count("dot") == 4


def test_unused_fields_leave_nothing_behind():
    """For rules in which every pair of values occurs: no leaf, carry or axis of what is not used."""
    for choice in all_pairs():
        rule = rule_from_table(table_of(choice))
        scheduled = schedule(rule)
        program = scheduled.forward
        roots = [*program.roots(), *scheduled.backward.roots()]
        names, carries = _leaf_names(*roots), {carry.name for carry in program.carries}
        axes = {dim for node in walk(roots) for dim in node.dims}
        dot = choice["loss"] == "dot"
        unused = {
            "momentum": choice["optimizer"] == "gd",
            "log_theta": choice["optimizer"] in ("gd", "momentum number"),
            "log_alpha": choice["retention"] in ("none", "constant"),
            "lr": choice["lr"] in ("none", "number"),
            "gamma": choice["gate"] == "none",
            "normaliser": choice["normaliser"] == "none",
            "origin": choice["toward"] == "zero",
            "anchor": dot or choice["block"] == "1",
            "previous": dot or choice["boundary"] != "carry" or choice["window"] == "one",
        }
        for leaf, absent in unused.items():
            assert not (absent and leaf in names | carries), (leaf, choice)
        if rule.window.length == 1 or (not dot and choice["boundary"] == "truncate"):
            assert "h" not in axes, choice
        if dot:
            assert program.block is None
            errors = _leaf_names(program.carry("momentum" if "momentum" in carries else "memory").next)
            assert not errors & {"q"}, choice

"""Counted device-memory traffic and products of interpreted kernels, against fixed bars.

float32, B=1, T=128, H=2, K=V=64, blocks of 64; masked-off lanes count zero. The least possible forward reads
q, k, v and writes y once. The peer's figures are flash-linear-attention 0.6.0's simple_gla, counted alike.
"""

from __future__ import annotations

from functools import cache

import pytest
import torch

import atlasgen
from atlasgen.emit.plan import Structure
from atlasgen.runtime.interpreter import count
from atlasgen.spec import load_rule
from tests.emit.test_structures import backend_of
from tests.rules.compare import Shape, make_case

LEAST_FORWARD = 4 * 128 * 2 * 64 * 4
PEER_BYTES = 2_150_656 + 495_616
PEER_FLOPS = 35.7e6
SPLIT = Structure("split", "inline", False, 1)
STORED = Structure("split", "all", False, 1)
FUSED = Structure("fused")


@cache
def traffic(name: str, structure: Structure) -> tuple[int, int, int]:
    """Bytes of the forward, bytes and dot flops of forward and backward."""
    operator = atlasgen.compile(load_rule(name), backend_of(structure))
    case = make_case(load_rule(name), Shape(B=1, T=128, H=2, K=64, V=64), seed=1)
    leaves = case.leaves("kernels")
    with torch.no_grad(), count() as forward:
        operator(**leaves)
    with count() as both:
        y, _ = operator(**leaves)
        torch.autograd.grad(y, list(leaves.values()), torch.randn_like(y))
    total = both.bytes_loaded + both.bytes_stored
    return forward.bytes_loaded + forward.bytes_stored, total, both.dot_flops


@pytest.mark.parametrize(("structure", "bar"), [(FUSED, 1.15), (SPLIT, 2.2)], ids=["fused", "split"])
def test_forward_of_simple_gla_against_the_least_possible(structure, bar):
    assert traffic("simple_gla", structure)[0] <= bar * LEAST_FORWARD


@pytest.mark.parametrize(("structure", "bar"), [(FUSED, 0.40), (SPLIT, 0.55)], ids=["fused", "split"])
def test_forward_and_backward_of_simple_gla_against_the_peer(structure, bar):
    _, total, flops = traffic("simple_gla", structure)
    assert total <= bar * PEER_BYTES
    assert flops <= 0.9 * PEER_FLOPS


# Bytes of the forward, of forward and backward, and dot flops of both, of the peer's kernels.
PEERS = {
    "gated_deltanet": (992_288 + 402_432, 3_396_736 + 1_259_520, 71.0e6),
    "gla": (1_449_984 + 278_016, 4_461_568 + 867_840, 27.5e6),
}


@pytest.mark.parametrize("name", PEERS)
def test_exact_rules_and_decays_by_channel_against_the_peer(name):
    """Substitution inside 16 rows, and pairs of rows inside 16, are elementwise: no dot flops."""
    forward, both, flops = traffic(name, FUSED)
    assert forward <= 0.45 * PEERS[name][0]
    assert both <= 0.55 * PEERS[name][1]
    assert flops <= 1.1 * PEERS[name][2]


@pytest.mark.parametrize(
    ("structure", "base", "bar"),
    [(FUSED, FUSED, 1.25), (SPLIT, SPLIT, 1.4), (STORED, SPLIT, 1.7)],
    ids=["fused", "weights recomputed", "weights stored"],
)
def test_a_window_costs_little_more_than_none(structure, base, bar):
    for index in (0, 1):  # forward; forward and backward
        assert traffic("omeganet_linear", structure)[index] <= bar * traffic("simple_gla", base)[index]

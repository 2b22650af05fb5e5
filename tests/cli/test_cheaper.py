"""What `explain` offers as cheaper rules: compiled neighbours, never a guess."""

from __future__ import annotations

import dataclasses

import pytest

from atlasgen.cli.cheaper import map_share, neighbours
from atlasgen.cli.facts import costs, extents
from atlasgen.schedules.serve import schedule
from atlasgen.spec import load_rule

SIZE = {"B": 1, "T": 128, "H": 2, "K": 64, "V": 64}


def test_newton_schulz_takes_most_of_atlas_and_nothing_of_titans():
    atlas, titans = (schedule(load_rule(name)) for name in ("atlas", "titans"))
    assert 0.5 < map_share(atlas, extents(atlas, 64, 64)) < 1
    assert map_share(titans, extents(titans, 64, 64)) == 0


@pytest.mark.parametrize("name", ["atlas", "omeganet", "swla", "simple_gla"])
def test_neighbours_are_cheaper_and_in_order(name):
    scheduled = schedule(load_rule(name))
    found = neighbours(scheduled, SIZE, "float32")
    shares = [entry.share for entry in found]
    assert shares == sorted(shares) and all(0 < share < 0.95 for share in shares)
    if name == "atlas":
        assert any("3 steps" in entry.change for entry in found)
        assert any('at = "block"' in entry.change for entry in found)
    if name in ("omeganet", "swla"):
        assert any('basis = "powers"' in entry.change for entry in found)


def test_costs_count_hidden_units_and_features():
    """Twice the hidden units, about twice the flops: the axes of a deep memory are counted."""
    rule = load_rule("titans")
    narrow = schedule(rule)
    wide = schedule(dataclasses.replace(rule, memory=dataclasses.replace(rule.memory, hidden="8*K")))
    ratio = [sum(cost.flops for cost in costs(entry, SIZE, "float32")) for entry in (wide, narrow)]
    assert 1.8 < ratio[0] / ratio[1] < 2.2

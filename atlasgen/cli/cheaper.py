"""What would make a rule cheaper: neighbouring rules, compiled, and their flops beside its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from atlasgen.cli.facts import costs
from atlasgen.errors import AtlasgenError
from atlasgen.ir.node import walk
from atlasgen.ir.operators import OPERATORS
from atlasgen.schedules.serve import Scheduled, schedule
from atlasgen.spec.rule import MemoryRule

MAPS = ("newton_schulz", "newton_schulz_gradient")


@dataclass(frozen=True)
class Neighbour:
    """A rule that differs in one choice, and its flops of both passes as a share of the rule's own."""

    change: str
    share: float


def map_share(scheduled: Scheduled, axes: dict[str, int]) -> float:
    """The part of both programs' flops that Newton-Schulz iterations take."""
    spent = total = 0
    for program in (scheduled.forward, scheduled.backward):
        forward = set(scheduled.forward.nodes()) if program is scheduled.backward else set()
        for node in {*walk(program.roots())} - forward:
            flops = OPERATORS[node.op].flops(node, axes) if node.op not in ("leaf", "const") else 0
            total += flops
            spent += flops if node.op in MAPS else 0
    return spent / max(total, 1)


def neighbours(scheduled: Scheduled, size: dict[str, int], dtype: str) -> list[Neighbour]:
    """Cheaper rules, the cheapest first. They are other rules: what they compute is not the same."""
    own = _flops(scheduled, size, dtype)
    found = []
    for change, rule in _variants(scheduled.rule):
        try:
            share = _flops(schedule(rule), size, dtype) / own
        except AtlasgenError:
            continue
        if share < 0.95:
            found.append(Neighbour(change, share))
    return sorted(found, key=lambda entry: entry.share)


def _flops(scheduled: Scheduled, size: dict[str, int], dtype: str) -> float:
    return sum(cost.flops for cost in costs(scheduled, size, dtype))


def _variants(rule: MemoryRule) -> Iterator[tuple[str, MemoryRule]]:
    """Rules with one choice changed: each a field that costs much."""

    def changed(section: str, **values: object) -> MemoryRule:
        return dataclasses.replace(rule, **{section: dataclasses.replace(getattr(rule, section), **values)})

    transforms = rule.optimizer.transform
    if any(entry.kind == "newton_schulz" and entry.at == "token" for entry in transforms):
        fewer = tuple(
            dataclasses.replace(entry, steps=3, coefficients=entry.coefficients[:3])
            if entry.kind == "newton_schulz" and entry.steps > 3
            else entry
            for entry in transforms
        )
        yield "3 steps of Newton-Schulz", changed("optimizer", transform=fewer)
        at_block = tuple(dataclasses.replace(entry, at="block") for entry in transforms)
        held = dataclasses.replace(rule.block, write="block", momentum="block")
        if rule.optimizer.kind != "momentum":
            held = dataclasses.replace(rule.block, write="block")
        per_block = dataclasses.replace(changed("optimizer", transform=at_block), block=held)
        yield 'transform at = "block", with block.write = "block"', per_block
        yield "no transform", changed("optimizer", transform=())
    if rule.features.kind == "poly" and rule.features.basis in ("symmetric", "kronecker"):
        if rule.features.degree > 2 and not isinstance(rule.features.coefficients, tuple):
            yield "features.degree = 2", changed("features", degree=2)
        if rule.features.basis == "kronecker":
            yield 'features.basis = "symmetric"', changed("features", basis="symmetric")
        yield 'features.basis = "powers"', changed("features", basis="powers")
    if rule.memory.kind in ("mlp", "gated_mlp", "swiglu") and rule.memory.depth > 1:
        half = f"({rule.memory.hidden}) / 2"
        yield f'memory.hidden = "{half}"', changed("memory", hidden=half)
    if rule.depends_on_memory and rule.block.size > 16 and rule.window.length != "all":
        size = max(rule.block.size // 2, int(rule.window.length))
        yield f"block = {size}", changed("block", size=size)
    if rule.window.length != 1:
        yield "window = 1", changed("window", length=1)

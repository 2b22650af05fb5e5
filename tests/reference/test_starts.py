"""The gates of a shipped layer: at their largest they do not diverge, at their start they remember."""

import dataclasses
import math

import pytest
import torch

from atlasgen import reference
from atlasgen.spec import load_rule, shipped_specs
from tests.reference.support import initial_memory

SIZE = 8
LENGTH = 192  # three blocks of 64


def unit_keys(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    keys = torch.randn(count, SIZE, generator=generator, dtype=torch.float64)
    return keys / keys.norm(dim=-1, keepdim=True)


def gates(rule, length, largest):
    """Every gate of the rule at its largest value, or at its start: decay always at its start."""
    found = {}
    for item in rule.layer.gates:
        top = {"softplus": item.init, "sigmoid": 1.0}[item.activation] if item.max is None else item.max
        value = top if largest and not item.name.startswith("alpha") else item.init
        in_log = item.name.startswith(("alpha", "theta"))
        name, value = (f"log_{item.name}", math.log(value)) if in_log else (item.name, value)
        age = (rule.window.length,) if name == "gamma" and rule.window.gate.kind == "pair" else ()
        declared = rule.input_named(name)
        kind = rule.gates[name].kind if name in rule.gates else declared.shape if declared else "token"
        own = (SIZE,) if kind in ("channel", "key", "value") and not rule.stands_for(name) else ()
        steps = (rule.optimizer.micro_steps,) if rule.by_step(name) else ()
        found[name] = torch.full((1, length, *steps, 1, *age, *own), value, dtype=torch.float64)
    if rule.features.coefficients == "learned":
        taylor = [1 / math.factorial(degree) for degree in range(rule.features.degree + 1)]
        found["coefficients"] = torch.tensor([taylor], dtype=torch.float64)
    return found


def reads(rule, keys, values, largest):
    """y [T, V] of the tokens keys, values [T, .], read at the keys; all micro-steps have the same pair."""
    start = None if rule.memory.initial == "zero" else initial_memory(rule, 1, SIZE, SIZE)
    q, v = keys[None, :, None], values[None, :, None]
    steps = rule.optimizer.micro_steps
    k, v = (x if steps == 1 else torch.stack([x] * steps, 2) for x in (q, v))
    found = gates(rule, len(keys), largest)
    # The layer's gate times k or v, where an input stands for these.
    rows = {"key": k, "value": v}
    kinds = {entry.name: rule.stands_for(entry.name) for entry in rule.inputs}
    inputs = {name: rows[kind] for name, kind in kinds.items() if kind}
    for name in kinds.keys() & found.keys():
        inputs[name] = found.pop(name)[..., None] * inputs[name] if kinds[name] else found.pop(name)
    y, _ = reference.run(rule, q, k, v, **found, inputs=inputs, initial_memory=start)
    return y[0, :, 0]


def shortened(name):
    """A shipped rule with at most 64 tokens in a block."""
    rule = load_rule(name)
    return dataclasses.replace(rule, block=dataclasses.replace(rule.block, size=min(rule.block.size, 64)))


DEPENDENT = [name for name in shipped_specs() if load_rule(name).loss[0].kind != "dot"]


@pytest.mark.parametrize("name", DEPENDENT)
def test_a_repeated_token_does_not_diverge_at_the_largest_gates(name):
    """Its error after whole blocks is below the one at the start, and it never overshoots far."""
    rule = shortened(name)
    value = 2 * unit_keys(1, seed=1)
    y = reads(rule, unit_keys(1).expand(LENGTH, -1), value.expand(LENGTH, -1), largest=True)
    errors = (y - value).norm(dim=-1)
    # An exact step may meet its target at once: its error before the first write counts.
    first = value.norm() if rule.block.size == 1 else errors[0]
    assert errors.max() < 1.2 * first
    # Two reflections at one key undo each other: the memory keeps what it had.
    undone = rule.optimizer.micro_steps == 2 and errors[-1] == pytest.approx(first)
    assert errors[-1] < first or undone


@pytest.mark.parametrize("name", shipped_specs())
def test_a_memory_turns_toward_what_it_saw(name):
    """Eight pairs again and again, gates at their start: reads turn toward the values."""
    rule = shortened(name)
    index = torch.arange(LENGTH) % 8
    keys, values = unit_keys(8)[index], 2 * unit_keys(8, seed=1)[index]
    y = reads(rule, keys, values, largest=False)
    likeness = torch.cosine_similarity(y, values, dim=-1)
    first = 0.0 if rule.memory.initial == "zero" else likeness[:8].mean()
    assert likeness[-8:].mean() > first + 0.005

"""Rulings on single weights: the section `weights.NAME`, and gates per channel."""

from __future__ import annotations

from atlasgen.spec.checks_update import check_transform
from atlasgen.spec.errors import near_miss
from atlasgen.spec.refusal import keeps_size, refuse
from atlasgen.spec.rule import Gate, MemoryRule
from atlasgen.spec.sizes import has_channels


def check_weights(rule: MemoryRule) -> None:
    known = rule.memory.weight_names
    for item in rule.weights:
        if item.name not in known:
            refuse(
                rule,
                f"weights.{item.name}",
                None,
                "the memory has no weight of this name",
                allowed=known,
                suggestion=near_miss(item.name, known),
            )
        for index, entry in enumerate(item.transform or ()):
            check_transform(rule, entry, f"weights.{item.name}.transform[{index}]")
        if item.theta is not None and rule.optimizer.kind != "momentum":
            refuse(rule, f"weights.{item.name}.theta", item.theta.kind,
                   'theta needs optimizer.kind = "momentum"')  # fmt: skip
    if rule.optimizer.kind != "momentum":
        return
    for weight in known:
        argument, theta = rule.gates_of(weight)["log_theta"]
        if theta.kind == "none":
            field = "optimizer.theta" if argument == "log_theta" else f"weights.{weight}.theta"
            refuse(
                rule,
                field,
                "none",
                f'kind = "momentum" needs its decay theta, also for the weight {weight}',
                allowed=["a number in [0, 1]", "head", "token"],
                suggestion='For plain descent write kind = "gd"',
            )


def check_channels(rule: MemoryRule) -> None:
    """A gate per channel of the key or value acts on weights that have that axis."""
    for weight in rule.memory.weight_names:
        gates = rule.gates_of(weight)
        for name, place in (("lr", "lr"), ("log_alpha", "retention")):
            argument, gate = gates[name]
            side = _side(gate)
            if side is None or has_channels(rule, weight, side):
                continue
            section = "optimizer" if place == "lr" else place
            common = f"{section}.lr" if place == "lr" else section
            field = common if argument == name else f"weights.{weight}.{place}"
            _refuse_channels(rule, weight, field if place == "lr" else f"{field}.kind", gate.kind, side)


def _side(gate: Gate) -> str | None:
    if gate.kind == "channel":
        return gate.axis
    return gate.kind if gate.kind in ("key", "value") else None


def _refuse_channels(rule: MemoryRule, weight: str, field: str, kind: str, side: str) -> None:
    allowed = ["none", "head", "token"] if field.endswith("lr") else ["none", "constant", "head", "token"]
    if side == "key" and rule.memory.kind == "matrix" and not keeps_size(rule):
        refuse(
            rule,
            field,
            kind,
            f"a gate per channel of the key needs F = K; the features ({rule.features.kind}) change the size",
            allowed=allowed,
            suggestion="Use elementwise features, or channels of the value",
        )
    refuse(
        rule,
        field,
        kind,
        f'the weight {weight} of a memory of kind "{rule.memory.kind}" has no channels of the {side}',
        allowed=allowed,
    )

"""What the fields of a rule mean together: the rulings of GRAMMAR, each a small check on a
MemoryRule.

They run on the finished rule, so that rules made in Python meet the same rulings as files.
"""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Callable, Iterable
from typing import Any

from atlasgen.spec.checks_update import (
    check_block,
    check_inputs,
    check_loss,
    check_micro_steps,
    check_optimizer,
)
from atlasgen.spec.checks_weights import check_channels, check_weights
from atlasgen.spec.convert import to_table
from atlasgen.spec.errors import dotted, near_miss
from atlasgen.spec.expression import ELEMENTWISE_FUNCTIONS, evaluate_number, parse_tree
from atlasgen.spec.file_model import MAX_WINDOW
from atlasgen.spec.graph import graph_depth
from atlasgen.spec.names import NAME_FORM, NAME_PATTERN, is_taken
from atlasgen.spec.refusal import SIZES_TO_TRY, elementwise, keeps_size, refuse, refuse_unfit
from atlasgen.spec.rule import Gate, MemoryRule

_HEADS_TO_TRY = range(64)


def check_rule(rule: MemoryRule) -> None:
    """Raise SpecError for the first contradiction between the fields of a rule."""
    for check in CHECKS:
        check(rule)


def check_name(rule: MemoryRule) -> None:
    name = rule.name
    if not re.fullmatch(NAME_PATTERN, name):
        refuse(rule, "rule", name, "the name becomes a Python module", allowed=[NAME_FORM])
    if is_taken(name):
        what = "a word of Python" if keyword.iskeyword(name) else "the name of a module"
        refuse(
            rule,
            "rule",
            name,
            f"the name becomes a Python module, and {name} is {what} already",
            suggestion=f'Choose another name, such as rule = "{name}_rule"',
        )


def check_numbers(rule: MemoryRule) -> None:
    """Every number of the rule fits float32, every constant gate lies in its range."""
    for path, value in _numbers(to_table(rule), ()):
        if not math.isfinite(value):
            refuse(rule, dotted(path), value, "a number of a rule is finite")
        refuse_unfit(rule, dotted(path), value, value)
    gates = [
        ("optimizer.lr", rule.optimizer.lr, "lr"),
        ("optimizer.theta", rule.optimizer.theta, "unit"),
        ("optimizer.second", rule.optimizer.second, "unit"),
        ("retention.value", rule.retention.alpha, "alpha"),
    ]
    for item in rule.weights:
        for name, gate, kind in (
            ("lr", item.lr, "lr"),
            ("theta", item.theta, "unit"),
            ("retention.value", item.retention, "alpha"),
        ):
            if gate is not None:
                gates.append((f"weights.{item.name}.{name}", gate, kind))
    for field, gate, kind in gates:
        _check_constant(rule, field, gate, kind)


def _numbers(value: Any, path: tuple[str | int, ...]) -> Iterable[tuple[tuple[str | int, ...], float]]:
    """The numbers of a rule's table, each with its place in a file."""
    if isinstance(value, float):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _numbers(item, (*path, key))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _numbers(item, (*path, index))


def _check_constant(rule: MemoryRule, field: str, gate: Gate, kind: str) -> None:
    if gate.kind != "constant":
        if gate.value is not None or gate.expression is not None:
            owner = field.removesuffix(".value")
            refuse(
                rule,
                field,
                gate.expression if gate.value is None else gate.value,
                f'a value belongs to {owner} of kind "constant", not "{gate.kind}"',
                suggestion=f'Set {owner}.kind = "constant" or remove the value',
            )
        return
    if (gate.value is None) == (gate.expression is None):
        refuse(
            rule,
            field,
            gate.value,
            "value is missing" if gate.value is None else "a constant has one value, not two",
            allowed=["a number", "an expression in head"] if kind == "alpha" else ["a number"],
        )
    if gate.expression is not None:
        if kind != "alpha":
            refuse(rule, field, gate.expression, "only retention takes an expression in head")
        values = [
            evaluate_number(gate.expression, {"head": head}, field=field, file=rule.source)
            for head in _HEADS_TO_TRY
        ]
    else:
        values = [gate.value or 0.0]
    low, high = min(values), max(values)
    shown_value = gate.expression if gate.value is None else gate.value
    if kind == "alpha" and not (low > 0 and high <= 1):
        refuse(
            rule,
            field,
            shown_value,
            f"retention lies in (0, 1]; this reaches {low if low <= 0 else high:g}",
            allowed=["0 < value <= 1"],
            suggestion='For no retention at all write kind = "zero"',
        )
    if kind == "unit" and not 0 <= low <= 1:
        refuse(rule, field, shown_value, "this gate lies in [0, 1]", allowed=["0 <= value <= 1"])
    if kind == "lr" and not low > 0:
        refuse(rule, field, shown_value, "a step size is positive", allowed=["a number above 0"])


def check_memory(rule: MemoryRule) -> None:
    memory = rule.memory
    if memory.kind == "graph":
        if memory.f is None or not memory.weights:
            missing = "f" if memory.f is None else "weights"
            refuse(
                rule,
                f"memory.{missing}",
                None,
                'kind = "graph" needs f and weights',
                suggestion='For example f = "W1 @ gelu(W2 @ x)", weights = '
                '{ W1 = ["V", "4*K"], W2 = ["4*K", "F"] }',
            )
        depth = graph_depth(memory.f, memory.weights, keeps_size=keeps_size(rule), file=rule.source)
    else:
        depth = {"matrix": 1, "mlp": memory.depth}.get(memory.kind, 2)
        for sizes in SIZES_TO_TRY:
            value = evaluate_number(memory.hidden, sizes, field="memory.hidden", file=rule.source)
            if value < 1 or value != int(value):
                refuse(rule, "memory.hidden", memory.hidden, "a size is a positive whole number")
    if depth > 1 and memory.initial == "zero":
        refuse(
            rule,
            "memory.initial",
            "zero",
            f"a memory of depth {depth} never learns from zero: each weight's gradient is a "
            "product with the others",
            allowed=["learned", "given", "normal"],
        )
    if memory.link.kind == "expr":
        elementwise(rule, "memory.link.expression", memory.link.expression, ["A"])


def check_features(rule: MemoryRule) -> None:
    features = rule.features
    if features.kind == "expr":
        elementwise(rule, "features.expression", features.expression, ["x"])
    if features.kind == "exp" and rule.memory.kind != "matrix":
        refuse(
            rule,
            "features.kind",
            "exp",
            f'the exponential map has infinitely many features; memory "{rule.memory.kind}" '
            "needs a finite number",
            suggestion='Use kind = "poly" with coefficients = "taylor"',
        )
    if features.kind == "poly":
        _check_poly(rule)
    if rule.memory.residual == "x" and not keeps_size(rule):
        refuse(
            rule,
            "memory.residual",
            "x",
            f"the features ({features.kind}) have another size than the values",
            allowed=["none", "key"],
            suggestion='residual = "key" adds the raw key',
        )
    if features.on != "qk" and not keeps_size(rule):
        refuse(
            rule,
            "features.on",
            features.on,
            "queries and keys would have different sizes",
            allowed=["qk"],
        )


def _check_poly(rule: MemoryRule) -> None:
    features = rule.features
    if (features.basis == "projected") != (features.out_dim is not None):
        refuse(
            rule,
            "features.out_dim",
            features.out_dim,
            'out_dim and basis = "projected" belong together',
            suggestion="Give both or neither",
        )
    numbers = features.coefficients
    if isinstance(numbers, tuple):
        if len(numbers) != features.degree + 1:
            refuse(
                rule,
                "features.coefficients",
                list(numbers),
                f"degree {features.degree} has {features.degree + 1} coefficients, not {len(numbers)}",
            )
        if min(numbers) < 0 or max(numbers) == 0:
            refuse(
                rule,
                "features.coefficients",
                list(numbers),
                "coefficients are the squares of feature scales: none negative, not all zero",
            )


def check_window(rule: MemoryRule) -> None:
    window = rule.window
    if isinstance(window.length, int) and window.length < 1:
        refuse(rule, "window.length", window.length, "a window holds the current token",
               allowed=["a whole number from 1", "all"])  # fmt: skip
    if isinstance(window.length, int) and window.length > MAX_WINDOW:
        refuse(rule, "window.length", window.length, "a window holds its rows in memory at once",
               allowed=[f"a whole number from 1 to {MAX_WINDOW}", "all"])  # fmt: skip
    if window.length == "all" and window.gate.kind in ("pair", "position"):
        refuse(
            rule,
            "window.gate",
            window.gate.kind,
            'a window of all tokens has no fixed number of ages for "pair" or "position"',
            allowed=["none", "token"],
            suggestion="Give the window a length",
        )


def check_retention(rule: MemoryRule) -> None:
    project = rule.retention.project
    if (project.kind in ("ball", "clamp")) != (project.radius is not None):
        refuse(rule, "retention.project.radius", project.radius,
               "radius belongs to ball and clamp, which need it")  # fmt: skip
    if project.kind != "row_norm":
        return
    if project.to is None:
        refuse(rule, "retention.project.to", None, "row_norm needs the norms to restore",
               allowed=["initial"])  # fmt: skip
    if rule.block.write != "block":
        refuse(rule, "retention.project", "row_norm", "norms are restored when a block is written",
               allowed=["none", "ball", "clamp"],
               suggestion='Set block.write = "block" too')  # fmt: skip
    if rule.memory.initial == "zero":
        refuse(rule, "memory.initial", "zero", "a memory with the norms of a zero one stays zero",
               allowed=["learned", "given", "normal"])  # fmt: skip


def check_read(rule: MemoryRule) -> None:
    read = rule.read
    if read.normaliser != "none":
        if rule.memory.kind != "matrix":
            refuse(
                rule,
                "read.normaliser",
                read.normaliser,
                "only a matrix memory has a sum of weights to divide by",
                allowed=["none"],
            )
        if read.at != "post":
            refuse(
                rule,
                "read.at",
                read.at,
                "the first token would divide by an empty sum",
                allowed=["post"],
                suggestion='Or remove the normaliser: read.normaliser = "none"',
            )
    if read.normaliser == "softmax" and rule.features.kind != "exp":
        refuse(
            rule,
            "read.normaliser",
            "softmax",
            f'softmax normalises exponential features, not "{rule.features.kind}"',
            allowed=["none", "sum", "max1"],
            suggestion='Use normaliser = "sum", or features = "exp"',
        )
    for sizes in SIZES_TO_TRY:
        value = evaluate_number(read.scale, sizes, field="read.scale", file=rule.source)
        refuse_unfit(rule, "read.scale", read.scale, value)
    if read.f is not None:
        functions = {**ELEMENTWISE_FUNCTIONS, "norm": 1}
        parse_tree(read.f, ["z", "q"], functions, field="read.f", file=rule.source)


def check_gradient(rule: MemoryRule) -> None:
    state = rule.gradient.state
    if isinstance(state, int) and state < 1:
        refuse(rule, "gradient.state", state, "the state is detached every n >= 1 blocks",
               allowed=["full", "a whole number from 1"])  # fmt: skip


def check_layer(rule: MemoryRule) -> None:
    known = gate_arguments(rule)
    for item in rule.layer.gates:
        field = f"layer.gates.{item.name}"
        if item.name not in known:
            refuse(
                rule,
                field,
                None,
                "this rule takes no gate of this name from outside",
                allowed=known or ["none: the rule has no gates"],
                suggestion=near_miss(item.name, known),
            )
        if item.init is None:
            continue
        if not item.bias:
            refuse(rule, f"{field}.init", item.init, "init is set through the bias",
                   suggestion="Remove init, or bias = false")  # fmt: skip
        top = math.inf
        if item.activation == "sigmoid":
            top = 1.0 if item.max is None else item.max
        elif item.activation == "identity":
            continue
        if not 0 < item.init < top:
            refuse(
                rule,
                f"{field}.init",
                item.init,
                f"a {item.activation} gate starts inside its range",
                allowed=[f"0 < init < {top:g}"],
            )


def gate_arguments(rule: MemoryRule) -> list[str]:
    """What a layer makes from its input for this rule: its gates, then the rule's inputs.

    lr, alpha, theta, second, gamma and row_scale; a weight's own gates follow the common one, as in
    lr, lr_W1. A row factor per position is no gate of the layer but a parameter.
    """
    gates = {name.removeprefix("log_"): gate for name, gate in rule.gates.items()}
    gamma = gates.pop("gamma")
    gates |= {"second": rule.optimizer.second, "gamma": gamma}
    names = [name for name, gate in gates.items() if gate.is_argument]
    if rule.block.row_scale == "token":
        names.append("row_scale")
    return names + [item.name for item in rule.inputs]


CHECKS: tuple[Callable[[MemoryRule], None], ...] = (
    check_name,
    check_numbers,
    check_memory,
    check_features,
    check_loss,
    check_window,
    check_block,
    check_optimizer,
    check_micro_steps,
    check_retention,
    check_read,
    check_weights,
    check_channels,
    check_inputs,
    check_gradient,
    check_layer,
)

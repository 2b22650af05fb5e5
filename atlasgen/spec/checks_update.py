"""Rulings on the inner update: loss terms, extra inputs, block, optimizer and transforms."""

from __future__ import annotations

import re

from atlasgen.spec.errors import HUBER_DELTA
from atlasgen.spec.expression import ELEMENTWISE_FUNCTIONS
from atlasgen.spec.file_model import MAX_BLOCK
from atlasgen.spec.refusal import check_input, elementwise, refuse
from atlasgen.spec.rule import LossTerm, MemoryRule, Optimizer, Transform

_RESERVED = """
    q k v x y z lr log_alpha log_theta log_second gamma alpha theta memory momentum normaliser
    normaliser_momentum initial_memory initial_state output_final_state cu_seqlens state anchor
    previous update position origin length window block pred norm head row_scale norm_gain norm_bias
    coefficients K V F M S N A B T H
"""
RESERVED_INPUTS = frozenset(_RESERVED.split())
"""Names that extra inputs may not take: arguments of every operator, state entries, symbols."""
RESERVED_BEGINNINGS = (
    "window_", "initial_", "lr_", "log_alpha_", "log_theta_", "memory_", "momentum_", "anchor_",
    "previous_", "origin_", "update_", "pool_",
)  # fmt: skip
"""How no input's name begins: what stands behind is a weight's name, or an entry of the state."""


def check_loss(rule: MemoryRule) -> None:
    if not rule.loss:
        refuse(rule, "loss", [], "a rule has at least one loss term")
    many = len(rule.loss) > 1
    for index, term in enumerate(rule.loss):
        _check_term(rule, term, f"loss[{index}]" if many else "loss")


def _check_term(rule: MemoryRule, term: LossTerm, field: str) -> None:
    if term.kind == "lp" and not term.p >= 1:
        refuse(rule, f"{field}.p", term.p, "a norm has p >= 1", allowed=["p >= 1"])
    if term.kind == "lp" and term.p < 2 and term.eps <= 0:
        refuse(
            rule,
            f"{field}.eps",
            term.eps,
            f"p = {term.p} below 2 has an unbounded second derivative at 0",
            allowed=["eps > 0"],
            suggestion="Give an eps such as 1e-6, or p >= 2",
        )
    if term.kind == "huber":
        if isinstance(term.delta, str):
            check_input(rule, f"{field}.delta", term.delta, ("token", "head"))
        elif not term.delta > 0:
            refuse(rule, f"{field}.delta", term.delta, "a threshold is positive",
                   allowed=HUBER_DELTA)  # fmt: skip
    if term.kind == "dot" and term.per == "row":
        refuse(rule, f"{field}.per", "row", "a dot loss is no function of the error's norm",
               allowed=["element"])  # fmt: skip
    if term.kind == "expr":
        names = ["norm"] if term.per == "row" else ["pred", "v"]
        names += [item.name for item in rule.inputs if item.shape in ("token", "head")]
        expression = elementwise(rule, f"{field}.expression", term.expression, names)
        needed = names[0]
        if not any(str(item) == needed for item in expression.free_symbols):
            refuse(
                rule,
                f"{field}.expression",
                term.expression,
                f"a loss {'per row' if term.per == 'row' else 'per element'} depends on {needed}",
            )
    _check_term_inputs(rule, term, field)


def _check_term_inputs(rule: MemoryRule, term: LossTerm, field: str) -> None:
    if term.key != "k":
        check_input(rule, f"{field}.key", term.key, ("key",), "k")
    if term.write is not None and term.write not in ("k", term.key):
        check_input(rule, f"{field}.write", term.write, ("key",), "k")
    if term.lr is not None:
        check_input(rule, f"{field}.lr", term.lr, ("token", "head", "key", "value"))
    if term.target == "v - k":
        if rule.memory.residual != "none":
            refuse(
                rule,
                f"{field}.target",
                term.target,
                f'the residual ("{rule.memory.residual}") and the target v - k both subtract the key',
                suggestion='Keep one of them: target = "v", or memory.residual = "none"',
            )
    elif term.target not in ("v", "0"):
        check_input(rule, f"{field}.target", term.target, ("value",), "v", "v - k", "0")


def check_inputs(rule: MemoryRule) -> None:
    seen: set[str] = set()
    for item in rule.inputs:
        field = f"inputs.{item.name}"
        taken = item.name in RESERVED_INPUTS or item.name in ELEMENTWISE_FUNCTIONS
        if taken or item.name in seen or item.name.startswith(RESERVED_BEGINNINGS):
            refuse(
                rule,
                field,
                item.shape,
                "this name has a meaning in every rule already",
                suggestion="Choose another name for the input",
            )
        seen.add(item.name)
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", item.name):
            refuse(rule, field, item.shape, "an input's name is an argument's name")
        if item.name not in _names_used(rule):
            refuse(
                rule,
                field,
                item.shape,
                "this input is declared but nothing in the rule uses it",
                suggestion="Name it in a loss term (key, target, write, lr, delta, expression), or remove it",
            )
        if item.shape == "pair" and rule.window.length == "all":
            refuse(rule, field, "pair", "a window of all tokens has no fixed number of ages")


def _names_used(rule: MemoryRule) -> set[str]:
    used: set[str] = set()
    for term in rule.loss:
        named = (term.key, term.target, term.write, term.lr, term.delta)
        used |= {value for value in named if isinstance(value, str)}
        used |= set(re.findall(r"[A-Za-z_]\w*", term.expression or ""))
    return used | ({rule.optimizer.ridge} if rule.optimizer.ridge else set())


def check_block(rule: MemoryRule) -> None:
    block, optimizer = rule.block, rule.optimizer
    if block.size < 1:
        refuse(rule, "block.size", block.size, "a block holds at least one token")
    if block.size > MAX_BLOCK:
        refuse(rule, "block.size", block.size, "a block holds its rows in memory at once",
               allowed=[f"a whole number from 1 to {MAX_BLOCK}"])  # fmt: skip
    if block.momentum == "block":
        if optimizer.kind != "momentum":
            refuse(rule, "block.momentum", "block", f'optimizer "{optimizer.kind}" has no momentum',
                   allowed=["token"])  # fmt: skip
        if block.write != "block":
            refuse(
                rule,
                "block.momentum",
                "block",
                "momentum that moves once per block cannot be written at every token",
                suggestion='Set block.write = "block" too',
            )
    if block.write != "block":
        for field, neutral in (("gate_pool", "last"), ("partial", "update")):
            if getattr(block, field) != neutral:
                refuse(rule, f"block.{field}", getattr(block, field),
                       "it says how a whole block is written, and here every token writes",
                       allowed=[neutral], suggestion='Or set block.write = "block"')  # fmt: skip
    if block.row_scale != "none":
        _check_row_scale(rule)
    decays_first = rule.retention.order == "decay_first"
    if decays_first and block.size != 1:
        refuse(
            rule,
            "retention.order",
            "decay_first",
            f"a block of {block.size} tokens has no single decay before its errors",
            allowed=["error_first", "decay_first with block.size = 1"],
        )


def _check_row_scale(rule: MemoryRule) -> None:
    """The memory inside a block is M* less a factor times a sum: nothing decays or maps the sum."""
    block = rule.block
    if block.write == "block":
        refuse(rule, "block.row_scale", block.row_scale, "a block that is written once has no rows to scale",
               allowed=["none"], suggestion='Or set block.write = "token"')  # fmt: skip
    for weight in rule.memory.weight_names:
        what = None
        if rule.gates_of(weight)["log_alpha"][1].kind != "none":
            what = "retention"
        elif rule.retention.project.kind != "none":
            what = "retention.project"
        elif rule.transform_of(weight):
            what = "optimizer.transform"
        if what is not None:
            refuse(
                rule,
                "block.row_scale",
                block.row_scale,
                "inside a block the memory is M* less a factor times the sum of the block's updates, "
                f"which leaves no place for {what}",
                allowed=["none"],
                suggestion=f"Remove {what}, or the row factor",
            )


def check_optimizer(rule: MemoryRule) -> None:
    optimizer = rule.optimizer
    if optimizer.kind != "momentum":
        if optimizer.theta.kind != "none":
            refuse(
                rule,
                "optimizer.theta",
                optimizer.theta.kind,
                f'kind = "{optimizer.kind}" has no momentum',
                allowed=["none"],
                suggestion='For momentum write kind = "momentum"',
            )
        if optimizer.nesterov:
            refuse(rule, "optimizer.nesterov", True, "nesterov belongs to momentum",
                   allowed=["false"])  # fmt: skip
    quadratic = rule.memory.kind == "matrix" and all(term.kind == "l2" for term in rule.loss)
    if optimizer.kind in ("implicit", "least_squares") and not quadratic:
        refuse(
            rule,
            "optimizer.kind",
            optimizer.kind,
            "its step has a closed form for a matrix memory under an l2 loss only",
            allowed=["gd", "momentum"],
        )
    if optimizer.ridge is not None:
        check_input(rule, "optimizer.ridge", optimizer.ridge, ("head", "head_key", "token"))
    if optimizer.step is not None:
        elementwise(rule, "optimizer.step", optimizer.step, ["lr", "kk", "eps"])
    elif optimizer.eps != Optimizer.eps:
        refuse(rule, "optimizer.eps", optimizer.eps, "eps is a number in optimizer.step, which is not given",
               suggestion='For example step = "lr / (eps + kk)"')  # fmt: skip
    for index, item in enumerate(optimizer.transform):
        check_transform(rule, item, f"optimizer.transform[{index}]")


def check_micro_steps(rule: MemoryRule) -> None:
    """What leaves no one meaning for the steps that a token takes one after another."""
    window, block, kind = rule.window, rule.block, rule.optimizer.kind
    if rule.optimizer.micro_steps == 1:
        return
    for field, value, neutral, reason in (
        ("window.length", window.length, 1, "does a window count tokens, or their steps"),
        ("window.gate", window.gate.kind, "none", "is the weight a token's, or that of each of its steps"),
        ("optimizer.kind", "momentum" if kind == "momentum" else "gd", "gd",
         "does momentum decay once a token, or at each of its steps"),
        ("block.write", block.write, "token", "a block that is written once takes one step"),
        ("block.row_scale", block.row_scale, "none", "a row factor scales one sum, not the steps of a token"),
    ):  # fmt: skip
        if value != neutral:
            refuse(
                rule,
                field,
                value,
                f"with optimizer.micro_steps = {rule.optimizer.micro_steps} it has no one meaning: {reason}",
                allowed=[str(neutral)],
                suggestion="Or remove optimizer.micro_steps",
            )


def check_transform(rule: MemoryRule, item: Transform, field: str) -> None:
    if item.kind == "newton_schulz" and len(item.coefficients) != item.steps:
        refuse(
            rule,
            f"{field}.coefficients",
            [list(triple) for triple in item.coefficients],
            f"{item.steps} steps need {item.steps} triples (or one), not {len(item.coefficients)}",
        )
    if item.kind == "expr":
        has_second = rule.optimizer.second.kind != "none"
        names = ["S", "N"] if has_second else ["S"]
        if not has_second and re.search(r"\bN\b", item.expression or ""):
            refuse(rule, f"{field}.expression", item.expression, "N needs optimizer.second",
                   suggestion='For example second = "token"')  # fmt: skip
        elementwise(rule, f"{field}.expression", item.expression, names)
    # Applied when a block is full: a token inside the block can only see the memory of its border.
    if item.at != rule.block.write:
        written = rule.block.write
        refuse(
            rule,
            f"{field}.at",
            item.at,
            f"the memory is written at every {written}, and the transform belongs to what is written",
            allowed=[written],
            suggestion=f'Or set block.write = "{item.at}"',
        )

"""Micro-steps as rows: what the compiler makes of a rule whose tokens take several steps.

A token of n micro-steps is n rows, one after the other, of a rule with one step per row. The first row decays
the memory, the others keep it, and one of them is read. So every schedule that serves the rule of rows serves
the rule itself; the operator lays the tensors out.
"""

from __future__ import annotations

from dataclasses import replace

from atlasgen.spec.rule import Gate, MemoryRule


def of_rows(rule: MemoryRule) -> MemoryRule:
    """The rule with one step per row; the rule itself where its tokens take one step.

    Its blocks hold a row for each step; of blocks of one token every row is one. A decay that is the same
    for all tokens becomes an argument per row, `log_alpha` [B, T, H]: 0 in the rows that keep the memory.
    """
    steps, size = rule.optimizer.micro_steps, rule.block.size
    if steps == 1:
        return rule
    return replace(
        rule,
        block=replace(rule.block, size=size if size == 1 else size * steps),
        optimizer=replace(rule.optimizer, micro_steps=1),
        retention=replace(rule.retention, alpha=_per_row(rule.retention.alpha)),
        weights=tuple(
            entry if entry.retention is None else replace(entry, retention=_per_row(entry.retention))
            for entry in rule.weights
        ),
    )


def _per_row(gate: Gate) -> Gate:
    return Gate("token") if gate.kind in ("constant", "zero", "head") else gate


def read_row(rule: MemoryRule) -> int:
    """Which of a token's rows is read: the last after the steps, the first where reads come before them."""
    return rule.optimizer.micro_steps - 1 if rule.read.at == "post" else 0

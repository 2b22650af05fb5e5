"""The calls at which a rule is verified: sizes, splits, packed and resumed sequences."""

from __future__ import annotations

from dataclasses import dataclass, replace

from atlasgen.runtime.signature import signature_of
from atlasgen.spec.rule import MemoryRule

AWKWARD_TOKENS = (0, 1, 2, 15, 16, 17, 63, 64, 65, 127, 200)
AWKWARD_SIZES = ((16, 16), (32, 64), (48, 80), (100, 36))
LONG_BLOCK = 256  # tokens: no call is made as long as a block beyond it


@dataclass(frozen=True)
class Case:
    """One call of an operator.

    batch B, tokens T, heads H (of v), key K, value V; query_heads and key_heads are H where None.
    resumed: tokens read before the call, whose state it gets (0: none). splits: positions at which
    the call is cut into calls that pass the state on. borders: cu_seqlens of a packed row (B = 1).
    """

    batch: int
    tokens: int
    heads: int
    key: int
    value: int
    query_heads: int | None = None
    key_heads: int | None = None
    resumed: int = 0
    splits: tuple[int, ...] = ()
    borders: tuple[int, ...] = ()

    @property
    def sequences(self) -> int:
        """The rows of the state."""
        return len(self.borders) - 1 if self.borders else self.batch

    def __str__(self) -> str:
        text = f"B{self.batch} T{self.tokens} H{self.heads} K{self.key} V{self.value}"
        if self.query_heads not in (None, self.heads) or self.key_heads not in (None, self.heads):
            text += f", {self.query_heads or self.heads} query and {self.key_heads or self.heads} key heads"
        if self.resumed:
            text += f", after {self.resumed} tokens"
        if self.splits:
            text += ", split at " + " ".join(str(place) for place in self.splits)
        if self.borders:
            text += ", packed at " + " ".join(str(place) for place in self.borders)
        return text


def rows_of(rule: MemoryRule) -> int:
    """A length that holds a whole block, where the rule has blocks, and its window."""
    length = rule.window.length if isinstance(rule.window.length, int) else 1
    counts = rule.depends_on_memory or rule.held or rule.read.at == "block"
    return max(rule.block.size if counts else 1, length, 16)


def quick_cases(rule: MemoryRule) -> list[Case]:
    """A few calls that reach every part of a rule: two blocks, tails, padding, state, packing.

    Interpreted kernels take half a second for a token that has a matrix of its own: those rules get calls
    of a few tokens, of which one ends a block.
    """
    rows = min(rows_of(rule), LONG_BLOCK)
    if _has_token_maps(rule):
        return _fitting(
            rule,
            [
                Case(1, 9, 1, 16, 16, resumed=rows - 4, splits=(3,)),
                Case(1, 6, 2, 24, 20, query_heads=4, key_heads=1),
                Case(1, 9, 1, 16, 16, borders=(0, 3, 3, 9)),
                Case(4, 1, 3, 16, 16),
                Case(1, 0, 2, 16, 16, resumed=3),
            ],
        )
    cases = [
        Case(2, rows + 7, 2, 16, 16),
        Case(1, rows + 1, 1, 24, 40, resumed=rows // 2 + 3, splits=(5,)),
        Case(1, 17, 2, 48, 20, query_heads=4, key_heads=1),
        Case(1, rows + 9, 1, 16, 16, borders=(0, 3, 3, rows + 9)),
        Case(4, 1, 3, 16, 16),  # few tokens, but enough numbers for an rms
        Case(1, 0, 2, 16, 16, resumed=3),
    ]
    return _fitting(rule, cases)


def full_cases(rule: MemoryRule) -> list[Case]:
    """Every awkward length at every awkward size, then the quick ones and more splits."""
    rows = min(rows_of(rule), LONG_BLOCK)
    grid = [
        Case(1, tokens, 2, key, value, resumed=9 + tokens % 7)
        for tokens in AWKWARD_TOKENS
        for key, value in AWKWARD_SIZES
    ]
    more = [
        Case(2, 2 * rows + 3, 2, 16, 16, splits=(1, rows, rows + 1)),
        Case(1, 130, 2, 32, 16, query_heads=1, key_heads=1, splits=(64, 65)),
        Case(3, 40, 4, 16, 24, query_heads=2, key_heads=2, resumed=rows + 5),
        Case(1, 100, 2, 16, 16, borders=(0, 1, 17, 17, 90)),
    ]
    return [*quick_cases(rule), *_fitting(rule, [*more, *grid])]


def proof_case(rule: MemoryRule) -> Case:
    """The call at which a tuned configuration is proven: a border, a tail, sizes that are no powers of two.

    So every mask is needed. A rule with a matrix per token is called with few tokens, inside two blocks.
    """
    rows = min(max(rows_of(rule), 64), LONG_BLOCK)
    if _has_token_maps(rule):
        case = Case(1, 9, 1, 20, 36, resumed=rows - 4)
    else:
        case = Case(1, rows + 6, 1, 20, 36)
    return _fitting(rule, [case])[0]


def _has_token_maps(rule: MemoryRule) -> bool:
    return any(entry.at == "token" for entry in rule.optimizer.transform)


def _fitting(rule: MemoryRule, cases: list[Case]) -> list[Case]:
    """The cases with values as large as keys where the rule adds the two."""
    if not signature_of(rule).joins:
        return cases
    return [replace(case, value=case.key) for case in cases]

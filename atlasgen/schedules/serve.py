"""From a rule to its block program, or to the sentence that says why there is none."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from atlasgen.errors import CompileError, shown
from atlasgen.ir.differentiate import differentiate
from atlasgen.ir.program import BackwardProgram, BlockProgram
from atlasgen.schedules.dual import DualForm
from atlasgen.schedules.gates import SEGMENTS
from atlasgen.schedules.gram import GramForm
from atlasgen.schedules.held import HeldForm, is_held
from atlasgen.schedules.pieces import HeldInPieces, InPieces, prefers_pieces
from atlasgen.schedules.recurrent import RecurrentForm
from atlasgen.schedules.refusals import Refusal, refusals
from atlasgen.schedules.wy import WYForm
from atlasgen.spec.micro_steps import of_rows
from atlasgen.spec.rule import MemoryRule

DEFAULT_CHUNK = 64
LARGEST_WALK = 2048  # rows times sources whose errors, of a tile of V, the registers of a kernel hold
SMALLEST_TILE = 16  # tl.dot takes no smaller extent
WALKED_CHUNK = 16  # where rows are walked: each costs a product with all sources of its block


def chunk_of(schedule: str, window: int) -> int:
    """Rows per block, where any number gives the same result."""
    if schedule == "gram":
        return WALKED_CHUNK
    chunk = DEFAULT_CHUNK
    while chunk < window - 1:
        chunk *= 2
    return chunk


def held_errors(window: int) -> int:
    """How many errors of a block of rows that are walked a kernel holds for each value of V, with padding."""
    rows = chunk_of("gram", window)
    return math.prod(max(SMALLEST_TILE, 1 << (size - 1).bit_length()) for size in (rows, rows + window - 1))


@dataclass(frozen=True)
class Scheduled:
    """A rule with its loop over blocks and that loop's reverse, over the rows of its tokens' micro-steps."""

    rule: MemoryRule
    schedule: str
    forward: BlockProgram
    backward: BackwardProgram

    @property
    def chunk(self) -> int:
        """Rows per block: the rule's block where it matters, else a choice that holds a window."""
        if self.forward.block is not None:
            return self.forward.block
        return chunk_of(self.schedule, self.forward.window)

    @property
    def tokens(self) -> float:
        """Tokens per block: its rows, over the micro-steps that a token takes."""
        return self.chunk / self.forward.steps

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the tensors that the programs read, in order."""
        program = self.forward
        rows = program.leaves("token", "head", "position", "invariant")
        names = dict.fromkeys(("q", "k", "v", *(leaf["name"] for leaf in rows)))
        names |= dict.fromkeys(carry.name for carry in program.carries)
        resume = [c.name for c in program.captures if c.name not in self._carried]
        names = {name: None for name in names if name not in resume}
        resume += [f"window_{name}" for name in self.windowed]
        return (*names, *resume, "position", "length")

    @property
    def _carried(self) -> frozenset[str]:
        return frozenset(carry.name for carry in self.forward.carries)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of what a call returns: y, then the final states."""
        captured = [capture.name for capture in self.forward.captures]
        carried = [carry.name for carry in self.forward.carries]
        return ("y", *dict.fromkeys((*carried, *captured)))

    @property
    def windowed(self) -> tuple[str, ...]:
        """Row tensors whose last c - 1 rows the state keeps: those that sources are read from."""
        if self.forward.window == 1:
            return ()
        sources = [leaf for leaf in self.forward.leaves("token") if SEGMENTS.keys() & set(leaf.dims)]
        found = dict.fromkeys(leaf["name"] for leaf in sources)
        # A log decay or a step stands on a source's axis only as a factor of a row of P.
        return tuple(name for name in found if not name.startswith("log_") and name != "lr")


_FORMS: dict[str, Callable[[MemoryRule], DualForm]] = {
    "dual": lambda rule: HeldForm(rule) if is_held(rule) else DualForm(rule),
    "pieces": lambda rule: HeldInPieces(rule) if is_held(rule) else InPieces(rule),
    "wy": WYForm,
    "recurrent": RecurrentForm,
    "gram": GramForm,
}
SCHEDULES = tuple(_FORMS)


def preference(rule: MemoryRule) -> tuple[str, ...]:
    """The schedules in the order of preference: the first that serves a rule is its schedule.

    Long blocks are taken in pieces, and what is solved at once comes before what is walked. `gram` comes
    before `recurrent` where features are products of a key's entries: each token of a window pays for all
    features at every row in `recurrent`, and once a block in `gram`. With features as many as a key's entries
    the walk costs more than that saves. A window whose errors kernels do not hold is `recurrent`'s.
    """
    first = ["pieces"] if prefers_pieces(of_rows(rule)) else []
    features, window = rule.features, rule.window.length
    products = features.kind == "poly" and features.basis != "powers" and features.degree > 1
    if products and window != "all" and held_errors(int(window)) <= LARGEST_WALK:
        return tuple(dict.fromkeys([*first, "dual", "pieces", "wy", "gram", "recurrent"]))
    return tuple(dict.fromkeys([*first, *SCHEDULES]))


def admitted(rule: MemoryRule) -> dict[str, list[Refusal]]:
    """Every schedule with its refusals of the rule, in the order of preference; none: it serves the rule."""
    return {name: refusals(rule, name) for name in preference(rule)}


def refused(rule: MemoryRule) -> list[Refusal]:
    """Why no schedule serves the rule: the refusals of the one that is nearest; empty where one does."""
    found = admitted(rule)
    return found[_chosen(found)]


def _chosen(found: dict[str, list[Refusal]]) -> str:
    """The first schedule that serves, or the nearest: the one with the fewest refusals.

    Of equals one that takes the rule's blocks as they are, and then recurrent, which takes most.
    """
    serving = [name for name, refusals in found.items() if not refusals]
    if serving:
        return serving[0]

    def distance(name: str) -> tuple[int, bool, bool]:
        blocks = any(entry.field == "block.size" for entry in found[name])
        return len(found[name]), blocks, name != "recurrent"

    return min(found, key=distance)


def _programmed(rule: MemoryRule) -> MemoryRule:
    """The rule that a program is built for: of rows; in blocks of one row the border is before the row."""
    rows = of_rows(rule)
    if rows.read.at == "block" and rows.block.size == 1 and not rows.held:
        return replace(rows, read=replace(rows.read, at="pre"))
    return rows


@lru_cache(maxsize=512)
def schedule(rule: MemoryRule, name: str | None = None) -> Scheduled:
    """The rule's programs, by the schedule of that name or, None, by the first that serves it.

    Raises CompileError, naming the field and the nearest value that is served.
    """
    found = admitted(rule)
    if name is not None and name not in found:
        known = ", ".join(found)
        raise CompileError("schedule", name, "it is no schedule", f"one of {known}", rule=rule.name)
    chosen = name or _chosen(found)
    others = [entry for entry, refusals in found.items() if not refusals]
    for field, value, reason, nearest in found[chosen]:
        if name is not None and others:
            why = f"{field} = {shown(value)}: {reason}"
            raise CompileError("schedule", name, why, f"{' or '.join(others)}, or None", rule=rule.name)
        raise CompileError(field, value, reason, nearest, rule=rule.name)
    forward = replace(_FORMS[chosen](_programmed(rule)).build(), steps=rule.optimizer.micro_steps)
    return Scheduled(rule, chosen, forward, differentiate(forward))

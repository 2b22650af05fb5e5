"""What a rule costs and why its schedule serves it: numbers for `explain` and `profile`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from atlasgen.ir.node import HIDDEN, Node, walk
from atlasgen.ir.operators import OPERATORS
from atlasgen.ir.program import BackwardProgram, BlockProgram
from atlasgen.runtime.signature import resolve, signature_of, state_shapes
from atlasgen.schedules.serve import Scheduled, preference, schedule
from atlasgen.spec.rule import MemoryRule
from atlasgen.spec.shapes import extent
from atlasgen.spec.sizes import feature_size

WORD = {"float32": 4, "bfloat16": 2, "float16": 2}
PARTS = ("gates", "state", "output")


@dataclass(frozen=True)
class PartCost:
    """One part of a program: its values and their flops per token of one head."""

    part: str
    values: int
    flops: float
    dot_flops: float


@dataclass(frozen=True)
class ProgramCost:
    """A program, and the device-memory bytes per token of one head that no kernel can avoid."""

    name: str
    parts: tuple[PartCost, ...]
    bytes: float

    @property
    def flops(self) -> float:
        return sum(part.flops for part in self.parts)

    @property
    def dot_flops(self) -> float:
        return sum(part.dot_flops for part in self.parts)

    @property
    def values(self) -> int:
        return sum(part.values for part in self.parts)


def extents(scheduled: Scheduled, key: int, value: int) -> dict[str, int]:
    """The size of every axis of a block."""
    program, rows = scheduled.forward, scheduled.chunk
    sizes = sizes_of(scheduled.rule, key, value)
    return {
        **dict.fromkeys("rjis", rows),
        "h": program.halo,
        **dict.fromkeys("pg", program.halo + rows),
        "c": program.window,
        **sizes,
        **{axis: extent(text).at(sizes) for axis, text in program.extents.items()},
    }


def sizes_of(rule: MemoryRule, key: int, value: int) -> dict[str, int]:
    """K, V and F, the number of features."""
    return {"K": key, "V": value, "F": feature_size(rule.features, key)}


def slices(program: BlockProgram | BackwardProgram) -> dict[Node, str]:
    """For each value its part: gates (of gates alone), state (what the loop needs), output (the rest)."""
    roots = list(program.roots())
    nodes = walk(roots)
    sizes = {"K", "F", *HIDDEN, "V"}
    plain: set[Node] = set()
    for node in nodes:
        wide = sizes & set(node.dims)
        if node.op == "leaf":
            wide = wide or node["kind"] in ("carry", "carry_gradient", "invariant", "token_gradient")
        if not wide and all(argument in plain for argument in node.args):
            plain.add(node)
    carried = set(walk([carry.next for carry in program.carries]))
    return {node: "gates" if node in plain else "state" if node in carried else "output" for node in nodes}


def program_cost(
    name: str,
    program: BlockProgram | BackwardProgram,
    scheduled: Scheduled,
    size: dict[str, int],
    least: float,
) -> ProgramCost:
    """Flops of a program by part, from the operators' own counts."""
    axes = extents(scheduled, size["K"], size["V"])
    tokens = scheduled.tokens
    table = {part: [0, 0, 0] for part in PARTS}
    for node, part in slices(program).items():
        if node.op in ("leaf", "const"):
            continue
        flops = OPERATORS[node.op].flops(node, axes)
        table[part][0] += 1
        table[part][1] += flops
        table[part][2] += flops if _is_matrix_product(node) else 0
    parts = tuple(
        PartCost(part, count, flops / tokens, dots / tokens) for part, (count, flops, dots) in table.items()
    )
    return ProgramCost(name, parts, least)


def _is_matrix_product(node: Node) -> bool:
    if node.op in ("contract", "newton_schulz", "newton_schulz_gradient"):
        return True
    return node.op == "dot" and len(node.dims) >= 2 and all(len(argument.dims) >= 2 for argument in node.args)


def costs(scheduled: Scheduled, size: dict[str, int], dtype: str) -> list[ProgramCost]:
    """Forward and backward."""
    forward, backward = least_bytes(scheduled.rule, size, dtype)
    tokens = size["B"] * size["T"] * size["H"]
    return [
        program_cost("forward", scheduled.forward, scheduled, size, forward / tokens),
        program_cost("backward", scheduled.backward, scheduled, size, backward / tokens),
    ]


def least_bytes(rule: MemoryRule, size: dict[str, int], dtype: str) -> tuple[int, int]:
    """Bytes of a forward call and of a backward one that read every argument and write every result once.

    q, k, v, y and their gradients in `dtype`; gates and theirs in float32; states are left out:
    they do not grow with T.
    """
    symbols = {**size, "Hq": size["H"], "Hk": size["H"], "N": size["B"]}
    symbols |= sizes_of(rule, size["K"], size["V"])
    word = WORD[dtype]
    inputs = 0
    for entry in signature_of(rule).arguments:
        if entry.role == "projection":
            inputs += word * _count(resolve(entry.shape, symbols))
        elif entry.role in ("gate", "log_gate", "input"):
            inputs += 4 * _count(resolve(entry.shape, symbols))
    y = word * size["B"] * size["T"] * size["H"] * size["V"]
    return inputs + y, inputs + y + inputs  # the backward reads them and dy, and writes their gradients


def state_bytes(rule: MemoryRule, key: int, value: int) -> dict[str, int]:
    """Bytes of each part of one head's state of one sequence."""
    symbols = {"N": 1, "H": 1, **sizes_of(rule, key, value)}
    return {
        name: (8 if name == "position" else 4) * _count(resolve(shape, symbols))
        for name, shape in state_shapes(rule).items()
    }


def _count(shape: Iterable[int]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total


# What a matrix memory means to each schedule.
_OF_A_MATRIX = {
    "dual": "a block's gradient is one product Xᵀ E: the dual form",
    "pieces": "a piece's gradient is one product Xᵀ E: the dual form",
    "wy": "the system's matrix is made of products of rows, X Xᵀ; solved, a block's gradient is Xᵀ E",
    "recurrent": "a token's gradient is one outer product x eᵀ",
    "gram": "predictions at any row are products of sources, X Xᵀ; a block's gradient is Xᵀ E",
}


def reasons(rule: MemoryRule, form: str) -> list[tuple[str, str]]:
    """(property, what it means) for each property of the rule by which the schedule `form` was chosen."""
    found = []
    if all(term.kind == "dot" for term in rule.loss):
        found.append(("loss linear in pred", "the error is −v: no prediction is computed"))
    elif form == "wy":
        by_channel = any(node.op == "unit_solve" for node in schedule(rule, form).forward.nodes())
        each = "one triangular system for each value channel" if by_channel else "one triangular system"
        found.append(("error affine in pred", f"errors of a block's tokens solve {each}"))
    elif form == "recurrent":
        found.append(("errors at M of the token before", "no linear system: one token after the other"))
    elif form == "gram":
        found.append(("errors at M of the token before", "from products of a block's keys, row after row"))
    else:
        found.append(("loss not linear in pred", "errors of a block are taken at its M*, all at once"))
    order = preference(rule)
    if form == "gram" and order.index("gram") < order.index("recurrent"):
        found.append(("features of many entries", "a source reads them once a block, not at every row"))
    if rule.memory.kind == "matrix":
        found.append(("memory is a matrix", _OF_A_MATRIX[form]))
    if rule.depends_on_memory and form in ("dual", "pieces"):
        found.append(
            (f"depends on M*, block = {rule.block.size}", "blocks are sequential, tokens of one are not")
        )
    elif form != "recurrent":
        free = "M* is no border's" if form in ("wy", "gram") else "does not depend on M*"
        found.append((free, "any chunk gives the same result: its size is a tuning choice"))
    if rule.window.length != 1:
        found.append((f"window of {rule.window.length}", "a band in P, whatever its length"))
        if rule.depends_on_memory:
            halo = {
                "halo": "rows before a block are read again, at the new M*",
                "carry": "rows before a block keep the errors at the block before's M*",
                "truncate": "no rows before a block are read",
            }
            found.append((f"boundary = {rule.window.boundary}", halo[rule.window.boundary]))
        else:
            found.append(("rows before a block", "are read again: their targets do not depend on M*"))
    steps = rule.optimizer.micro_steps
    if steps > 1:
        found.append((f"{steps} micro-steps", "a token is as many rows: the first decays, one is read"))
    if rule.optimizer.kind == "momentum":
        found.append(("momentum", "a second state S, and decays of θ inside P"))
    if rule.retention.alpha.kind != "none":
        found.append((f"retention per {rule.retention.alpha.kind}", "decays as differences of log sums"))
    if rule.read.normaliser == "sum":
        found.append(("normaliser = sum", "the row sums of (Q Xᵀ) * P and a state z"))
    return found

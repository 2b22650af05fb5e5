"""How emitted kernels name an axis: its vector of lanes, the mask of the real ones, its extent and tile."""

from __future__ import annotations

from atlasgen.ir.node import HIDDEN, Node, walk
from atlasgen.ir.program import BlockProgram

# Axes of features, hidden units and values, in canonical order: padded in tiles, masked in loads and stores.
FEATURES = ("K", "F", *HIDDEN, "V")
WIDE = frozenset(FEATURES)
# Operators whose values are made one row of the block after the other, each with a function of rows.
WALKS = ("exact_errors", "exact_errors_gradient")
_NAMES = {"K": "feature", "F": "monomial", "V": "value"}
SOURCES = ("p", "g")  # rows that the block's windows reach: the halo's, then the block's
_EXTENTS = {**dict.fromkeys("rjis", "ROWS"), "h": "HALO", "c": "WINDOW", **dict.fromkeys(SOURCES, "SOURCES")}
_TILES = {**dict.fromkeys("rji", "BLOCK_ROWS"), "h": "BLOCK_HALO", "c": "BLOCK_AGES"}
_TILES |= dict.fromkeys(SOURCES, "BLOCK_SOURCES")


def lane_name(dim: str) -> str:
    """The vector of indices along an axis of FEATURES."""
    return _NAMES.get(dim, f"hidden_{dim[1:]}")


def mask_name(dim: str) -> str:
    """The vector that is true where a lane of an axis of FEATURES lies inside its extent."""
    return f"is_{lane_name(dim)}"


def extent_name(dim: str) -> str:
    """The compile-time constant that is the length of an axis."""
    return _EXTENTS.get(dim, dim)


def tile_name(dim: str) -> str:
    """The compile-time constant that is a tile's length along an axis."""
    return _TILES.get(dim, f"BLOCK_{dim}")


def is_anchor(name: str) -> bool:
    """True for the tensor of a state that a call resumes from inside a block: anchor, anchor_<weight>."""
    return name.partition("_")[0] == "anchor"


def whole_of(node: Node) -> set[str]:
    """The axes of which a value needs all entries at once: those of the matrices that Newton-Schulz maps,
    that of a softmax, and what an error sums over where rows are walked. No kernel has them in tiles."""
    if node.op == "softmax":
        return {node["dim"]}
    if node.op in WALKS:
        return {entry["dim"] for entry in walk([walked_function(node)]) if entry.op == "sum"}
    return {node["rows"], node["columns"]} if node.op.startswith("newton_schulz") else set()


def whole_axes(program: BlockProgram) -> set[str]:
    """The axes that kernels of a program cannot walk in tiles."""
    return {dim for node in program.nodes() for dim in whole_of(node)}


def walked_axis(program: BlockProgram) -> str | None:
    """The axis of the state that kernels of a program walk by default, where tiles of one can be."""
    return next(iter(walkable_axes(program)), None)


def hidden_axis(program: BlockProgram) -> str | None:
    """The first hidden axis of a deep memory's state, None where the memory is no deeper than a matrix."""
    found = {dim for carry in program.carries for dim in carry.leaf.dims}
    return next((dim for dim in HIDDEN if dim in found), None)


def state_axis(program: BlockProgram) -> str | None:
    """The axis of the state that is too long for the registers: monomials, else hidden units; None for a
    matrix over keys."""
    found = {dim for carry in program.carries for dim in carry.leaf.dims}
    return "F" if "F" in found else hidden_axis(program)


def walkable_axes(program: BlockProgram) -> tuple[str, ...]:
    """The axes of the state that kernels can walk in tiles: monomials, then hidden units.

    Not one whose lanes another axis takes, as in x + W x: tiles of both would have to be alike; nor one of
    matrices that a map takes whole.
    """
    found = {dim for carry in program.carries for dim in carry.leaf.dims}
    renamed = [(node.dims, node.args[0].dims) for node in program.nodes() if node.op == "rename"]
    joined = {dim for new, old in renamed for dim in {*new} ^ {*old}}
    return tuple(dim for dim in ("F", *HIDDEN) if dim in found - joined - whole_axes(program))


def walked_function(node: Node) -> Node:
    """What a value of WALKS takes of each row's predictions."""
    function = node["function"]
    return function.value if node.op == "exact_errors" else function.slopes[0]


LANES = tuple(name for dim in FEATURES for name in (lane_name(dim), mask_name(dim)))

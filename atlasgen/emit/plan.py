"""The kernel plan: which kernels a rule becomes, what each reads, computes and stores.

The block program is cut along three lines, each a property of its graph:

* what depends on gates alone (decay sums, P, its last row) may go to a *prologue*, one program per block;
* what the carries need stays in a *state* kernel, sequential over blocks;
* the rest is block-parallel, cut again by output so that a kernel fits the register file.

The fused form keeps everything in one kernel that walks the blocks. A `Structure` names these choices; tile
sizes and warps are launch constants (`Tiles`) and do not change the source.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from atlasgen.emit.axes import SOURCES
from atlasgen.ir.node import Node, walk
from atlasgen.ir.program import Carry, Contribution

SINGLE = "j"  # the rows that kernels of rules with a matrix per token take one by one
ValueMode = Literal["none", "whole", "parallel", "walked"]


@dataclass(frozen=True)
class Structure:
    """The choices that change the emitted source.

    form: "split" or "fused"; for rules with a matrix per token (see `single_rows`) "tokens", one kernel
    that walks the blocks and, in each, its rows, or "token_grid", where the maps of all rows of a block are
    made at once, block after block. gates: where gate-only values are computed: "inline" in every kernel
    that needs them, "vectors" (vectors by a prologue, matrices inline) or "all" (also P from memory).
    walk_rows: the state kernels walk the rows of a block in tiles instead of holding all of them. pieces:
    into how many kernels the block-parallel backward is cut (1: one kernel; 2: queries | keys and values;
    3: queries | keys | values; 4: the halo's rows and what weighs rows and carries apart too). A gate's
    gradient goes where it shares most products. walk: an axis of the state, of monomials ("F") or of hidden
    units, that is walked in tiles; the carries then stream through memory. schedule: of the program, None:
    the first that serves the rule.
    """

    form: Literal["split", "fused", "tokens", "token_grid"] = "split"
    gates: Literal["inline", "vectors", "all"] = "inline"
    walk_rows: bool = False
    pieces: int = 1
    walk: str | None = None
    schedule: str | None = None

    @property
    def label(self) -> str:
        """A short name, used in file names and result keys."""
        walk = f"_{self.walk}" if self.walk else ""
        walk += f"_{self.schedule}" if self.schedule else ""
        if self.form != "split":
            return f"{self.form}{walk}"
        rows = "_rows" if self.walk_rows else ""
        return f"split_{self.gates}{rows}_{self.pieces}{walk}"

    def to_table(self) -> dict[str, Any]:
        """The choices as plain content; what is None is no entry."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class Store:
    """One value that a kernel writes.

    target: the buffer's name. node: the value. axes: the buffer's own axes (missing ones broadcast). place:
    "rows" ([B, T, H, ...], rows of the block that hold tokens), "halo" ([B*H, N, h, ...]), "sources" (both,
    before it is divided into the two), "blocks"
    ([B*H, N, ...]), "token" ([B*H, C, ...], of one block). window: True where rows of earlier calls have a
    gradient (d_window_<name>).

    Places of values that stream from block to block: "next" (the neighbour's slot of a blocks buffer, or the
    final value), "capture" (a final value that the open block has), "start" (a gradient that the first block
    of a resumed call has), "sum" (a gradient that all blocks add to). tensor: the carry's name. weight:
    stores of one weight share a loop. adds: to what is there, which an earlier phase wrote.
    """

    target: str
    node: Node
    axes: tuple[str, ...]
    place: Literal["rows", "halo", "sources", "blocks", "token", "next", "capture", "start", "sum"]
    window: bool = False
    tensor: str = ""
    weight: str = ""
    adds: bool = False

    @property
    def buffer_axes(self) -> tuple[str, ...]:
        """The axes of a buffer [B*H, N, ...]: one of the halo has only the halo's part of its rows."""
        return tuple("h" if self.place == "halo" and dim in SOURCES else dim for dim in self.axes)

    @property
    def streams(self) -> bool:
        """True for a value that passes from block to block through memory."""
        return self.place in ("next", "capture", "start", "sum")


@dataclass(frozen=True)
class Phase:
    """A part of a block's work in a sequential kernel: its stores, and what it reads from buffers."""

    stores: tuple[Store, ...]
    loaded: dict[Node, str]


@dataclass(frozen=True)
class Kernel:
    """One kernel.

    loop: "grid" (one program per block), "forward" or "reverse" (one program walks the blocks), or, of one
    block at a time, "block" (one program per memory) or "row" (one per row of the block); `reverse`: those
    are launched from the last block to the first. values: how
    the axis V is covered: "none", "whole", "parallel" (one tile per program) or "walked". walk_rows: the axis
    s is walked in tiles. loaded: nodes that are read from [B*H, N, ...] buffers, by buffer name. walk: the
    state's axis that is walked in tiles, or the rows j one by one. streams: carries that the kernel passes on
    through memory. phases: its stores in the order in which a block makes them, where later ones read what
    earlier ones wrote. rewritten: the program's values by what this kernel has in their place.
    """

    name: str
    doc: str
    loop: Literal["grid", "forward", "reverse", "block", "row"]
    values: ValueMode
    stores: tuple[Store, ...]
    loaded: dict[Node, str] = field(default_factory=dict)
    walk_rows: bool = False
    carries: tuple[Carry, ...] = ()
    checkpoint: bool = False
    captures: tuple[tuple[str, Node, str], ...] = ()
    accumulate: tuple[Contribution, ...] = ()
    phases: tuple[Phase, ...] = ()
    walk: str | None = None
    streams: tuple[Carry, ...] = ()
    rewritten: dict[Node, Node] = field(default_factory=dict)
    reverse: bool = False

    @property
    def backwards(self) -> bool:
        """True for a kernel that carries go through from the last block to the first."""
        return self.reverse or self.loop == "reverse"

    @property
    def of_one_block(self) -> bool:
        """True for a kernel that is launched for one block at a time."""
        return self.loop in ("block", "row")

    @property
    def single_rows(self) -> bool:
        """True where a value of the rows j is that of one row: they are walked, or each has a program."""
        return self.walk == SINGLE or self.loop == "row"

    def varying(self) -> frozenset[Node]:
        """Values that exist only inside a loop over the walked axis: that have it, or are of one row."""
        walked, found = self.walked, set[Node]()
        for node in self.nodes() if walked else ():
            if walked != SINGLE:
                own = walked in node.dims
            elif node.op == "leaf":
                own = node["kind"].startswith("row_")
            else:
                own = node.get("dim") != SINGLE and any(argument in found for argument in node.args)
                own = own and node not in self.loaded
            if own:
                found.add(node)
        return frozenset(found)

    @property
    def walked(self) -> str | None:
        """The axis that is covered tile by tile in loops, if any."""
        return self.walk or ("V" if self.values == "walked" else "s" if self.walk_rows else None)

    def roots(self) -> list[Node]:
        """All nodes that the kernel computes for others."""
        return [
            *(store.node for store in self.stores),
            *(carry.next for carry in self.carries),
            *(node for _, node, _ in self.captures),
            *(part.node for part in self.accumulate),
        ]

    def nodes(self) -> list[Node]:
        """All nodes of the kernel; loaded ones are not entered."""
        return walk(self.roots(), set(self.loaded))


@dataclass(frozen=True)
class Plan:
    """All kernels of a rule under one structure, in launch order."""

    structure: Structure
    forward: tuple[Kernel, ...]
    backward: tuple[Kernel, ...]

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """Every distinct kernel (the prologue serves forward and backward)."""
        return tuple({kernel.name: kernel for kernel in (*self.forward, *self.backward)}.values())

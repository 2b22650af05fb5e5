"""Addresses, loads and stores of emitted Triton kernels, and the arguments they need.

Token tensors are contiguous [B, T, H, ...]; their strides of rows and heads are arguments, the stride of
sequences follows from the number of tokens, so that nothing besides it changes with the length. Block buffers
are contiguous [B*H, N, ...], states contiguous [B, H, ...]. Offsets of sequences, heads and blocks are int64
scalars; only offsets inside a block are int32 vectors.
"""

from __future__ import annotations

from dataclasses import dataclass

from atlasgen.emit.axes import extent_name, lane_name
from atlasgen.emit.naming import Writer
from atlasgen.ir.node import Node

NUMBERS = frozenset({"token"})  # lanes that are one number


@dataclass(frozen=True)
class Argument:
    """One parameter of a kernel.

    kind: "rows" (token tensor, with two strides), "blocks", "tokens" (per row of one block), "state",
    "window", "head" (per head, or per head and entry of its own axes), "table" (per head and age), "codes"
    and "scales" (int32 and float32, one per monomial), "sequence" (int64 per sequence), "number" or
    "constant".
    """

    name: str
    kind: str
    tensor: str


class Memory:
    """Builds address text and collects the kernel's arguments."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.arguments: dict[str, Argument] = {}
        self.flags: dict[str, None] = {}
        self.bases: set[str] = set()

    def argument(self, name: str, kind: str, tensor: str) -> str:
        """Register an argument and return its name."""
        self.arguments.setdefault(name, Argument(name, kind, tensor))
        return name

    def flag(self, name: str) -> str:
        """Register a compile-time flag and return its name."""
        self.flags.setdefault(name, None)
        return name

    # -- rows of token tensors -----------------------------------------------------------------------
    def rows_base(self, tensor: str) -> str:
        """Pointer to the block's first row of a token tensor, written once per block."""
        pointer = self.argument(f"{tensor}_pointer", "rows", tensor)
        for axis in ("row", "head"):
            self.argument(f"{tensor}_{axis}", "stride", tensor)
        base = f"{tensor}_block"
        if base not in self.bases:
            self.bases.add(base)
            offset = f"(batch * tokens + start) * {tensor}_row + head * {tensor}_head"
            self.writer.line(f"{base} = {pointer} + {offset}")
        return base

    def row_address(self, tensor: str, row: str | None, lane: str | None) -> str:
        """Address text of rows (and lanes) of a token tensor; no row: of the block's only one."""
        base = self.rows_base(tensor)
        if row is None:
            return base if lane is None else f"{base} + {lane}"
        if lane is None:
            return f"{base} + {row} * {tensor}_row"
        if row in NUMBERS:
            return f"{base} + {row} * {tensor}_row + {lane}"
        return f"{base} + {row}[:, None] * {tensor}_row + {lane}[None, :]"

    def window_address(self, tensor: str, row: str, lane: str | None, size: str | None) -> str:
        """Address text of rows of earlier calls: a contiguous [B, HELD, H, ...] tensor."""
        pointer = self.argument(f"{tensor}_pointer", "window", tensor)
        width = f" * {size}" if size else ""
        base = f"{tensor}_base"
        if base not in self.bases:
            self.bases.add(base)
            head = f"(batch * HELD * heads + head){width}"
            self.writer.line(f"{base} = {pointer} + {head} + (start + HELD) * heads{width}")
        if lane is None:
            return f"{base} + {row} * heads"
        return f"{base} + {row}[:, None] * (heads * {size}) + {lane}[None, :]"

    # -- buffers -------------------------------------------------------------------------------------
    def block_address(self, buffer: str, dims: tuple[str, ...], lanes: list[str], slot: str = "slot") -> str:
        """Address text in a contiguous [B*H, N, *dims] buffer."""
        pointer = self.argument(f"{buffer}_pointer", "blocks", buffer)
        return f"{pointer} + {self._inner(slot, dims, lanes)}"

    def token_address(self, buffer: str, dims: tuple[str, ...], lanes: list[str]) -> str:
        """Address text of one row's matrix in a contiguous [B*H, C, *dims] buffer of one block."""
        pointer = self.argument(f"{buffer}_pointer", "tokens", buffer)
        return f"{pointer} + {self._inner('(memory_index * ROWS + token)', dims, lanes)}"

    def head_address(self, name: str, dims: tuple[str, ...], lanes: list[str]) -> str:
        """Address text in a contiguous [H, *dims] tensor."""
        pointer = self.argument(f"{name}_pointer", "head", name)
        return f"{pointer} + {self._inner('head', dims, lanes)}"

    def column_address(self, name: str, index: int) -> str:
        """Address text of one column of a contiguous table [H, n]."""
        pointer = self.argument(f"{name}_pointer", "head", name)
        columns = self.argument(f"{name}_columns", "stride", name)
        return f"{pointer} + head * {columns} + {index}"

    def monomial_address(self, leaf: Node) -> str:
        """Address text in a contiguous tensor of one entry per monomial."""
        kind = "scales" if leaf.get("place") is None else "codes"
        pointer = self.argument(f"{leaf['name']}_pointer", kind, leaf["name"])
        return f"{pointer} + {lane_name(leaf.dims[0])}"

    def state_address(self, name: str, dims: tuple[str, ...], lanes: list[str]) -> str:
        """Address text in a contiguous [B, H, *dims] state."""
        pointer = self.argument(f"{name}_pointer", "state", name)
        return f"{pointer} + {self._inner('memory_index', dims, lanes)}"

    def _inner(self, slot: str, dims: tuple[str, ...], lanes: list[str]) -> str:
        if not dims:
            return slot
        size = " * ".join(extent_name(dim) for dim in dims)
        if len(dims) == 1:
            return f"{slot} * {size} + {lanes[0]}"
        if NUMBERS.isdisjoint(lanes):
            lanes = [f"{lane}[{_only(place, len(dims))}]" for place, lane in enumerate(lanes)]
        steps = [[extent_name(dim) for dim in dims[place + 1 :]] for place in range(len(dims))]
        terms = [" * ".join([lane, *step]) for lane, step in zip(lanes, steps, strict=True)]
        return f"{slot} * ({size}) + {' + '.join(terms)}"


def _only(place: int, axes: int) -> str:
    """The index that gives a vector one axis of several."""
    return ", ".join(":" if own == place else "None" for own in range(axes))

"""What an operator is: one object that holds every rule about itself.

A rule set has five parts: `derivative` (as nodes), `torch` (source text over arrays whose last axes are the
node's axes), `triton` (source text over tiles), `flops` (a count in extents) and the invariant `keeps_zero`,
which says along which axes padding lanes stay zero.
"""

from __future__ import annotations

from typing import Protocol

from atlasgen.ir.node import Node


class TileContext(Protocol):
    """What an operator may ask of the Triton emitter."""

    def align(self, text: str, dims: tuple[str, ...], target: tuple[str, ...]) -> str:
        """`text` of axes `dims` indexed so that it broadcasts against `target`."""
        ...

    def position(self, dim: str) -> str:
        """A vector of the rows' positions in the block (negative in the halo)."""
        ...

    def lanes(self, dim: str) -> str | None:
        """A vector that is true where a lane is real, None where every lane is."""
        ...

    def extent(self, dim: str) -> str:
        """The compile-time constant that is the length of an axis."""
        ...

    def precision(self, node: Node) -> str:
        """The dtype and the input precision of a value's products, as two arguments."""
        ...

    def product(self, node: Node, args: list[str]) -> str:
        """A matrix product in the kernel's dot precision, or a broadcast sum for vectors."""
        ...

    def walked_rows(self, node: Node, args: list[str]) -> str:
        """The variable of a value that statements, a loop over the block's rows, make."""
        ...


class Operator:
    """Base of all operators; `name` is the node's `op`."""

    name: str = ""

    def derivative(self, node: Node, gradient: Node, index: int) -> Node | None:
        """The gradient of argument `index`, before summing over axes it does not have."""
        raise NotImplementedError(f"operator {self.name} has no derivative rule")

    def torch(self, node: Node, args: list[str]) -> str:
        """Source text of the value."""
        raise NotImplementedError(f"operator {self.name} has no torch text")

    def triton(self, node: Node, args: list[str], tile: TileContext) -> str:
        """Source text of the tile's value."""
        raise NotImplementedError(f"operator {self.name} has no Triton text")

    def flops(self, node: Node, extent: dict[str, int]) -> int:
        """Floating point operations of the whole value."""
        return size(node.dims, extent)

    def keeps_zero(self, node: Node, dim: str) -> bool:
        """True if lanes of `dim` at which the arguments are zero are zero in the value."""
        return True


def size(dims: tuple[str, ...], extent: dict[str, int]) -> int:
    """The number of entries."""
    total = 1
    for dim in dims:
        total *= extent[dim]
    return total


def is_number(node: Node) -> bool:
    """True where emitted code holds the value as a Python number."""
    return node.op == "const" or node.op == "leaf" and node["kind"] == "host"


def spread(text: str, argument: Node, target: tuple[str, ...]) -> str:
    """torch text of an argument's array indexed so that its axes stand where `target` has them."""
    if argument.dims == target or is_number(argument):
        return text
    entries = [":" if dim in argument.dims else "None" for dim in target]
    return f"{text}[..., {', '.join(entries)}]"

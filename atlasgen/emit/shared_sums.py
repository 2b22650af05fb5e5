"""Sums over V that several gradients of one block need, made once by kernels of their own.

Where a block's rows solve a system or decay by channel, most gradients are elementwise in few sums over V:

    dR E^T, dY E^T      [r, s]      how the rows' errors and reads meet the errors of sources
    dR M^T, dY M^T      [r, K]      the same with the memory before the block
    E dM^T              [s, K]      with the gradient of the memory after it

Kernels that walk V hold an accumulator for each sum; what follows from a sum has no V, and where nothing in
it takes lanes of K apart, K is walked in tiles: few registers for any number of channels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from atlasgen.emit.axes import WIDE
from atlasgen.emit.cuts import Cuts, joins_axes
from atlasgen.emit.plan import Kernel, Store
from atlasgen.ir.node import Node, walk

_SUMS = ("dot", "contract", "sum", "channel_scores")


def are_shared(cuts: Cuts, stores: Sequence[Store], stop: set[Node]) -> bool:
    """True where the sums over V of these gradients have kernels of their own."""
    if cuts.structure.pieces != 4 or cuts.walk or cuts.deep:
        return False
    roots = [store.node for store in stores]
    return bool(cuts.inverses or cuts.channels) and not joins_axes(roots, stop)


def shared_sums(cuts: Cuts, stores: Sequence[Store], loaded: Mapping[Node, str]) -> tuple[Kernel, ...]:
    """Kernels of the sums over V that gradients without V need, by the carries that they read.

    A sum that is itself stored by block keeps its buffer.
    """
    own = {store.node: store.target for store in stores if store.place == "blocks"}
    roots = [store.node for store in stores if "V" not in store.axes]
    groups: dict[str, dict[Node, str]] = {}
    for index, node in enumerate(_top_sums(roots, loaded)):
        name = _carries_of(cuts, node, loaded) + ("_of_rows" if len(node.dims) < 2 else "")
        groups.setdefault(name, {})[node] = own.get(node, f"sum_{index}_blocks")
    return tuple(_kernel(name, sums, loaded) for name, sums in groups.items())


def _kernel(name: str, sums: Mapping[Node, str], loaded: Mapping[Node, str]) -> Kernel:
    stores = tuple(Store(target, node, node.dims, "blocks") for node, target in sums.items())
    doc = "Sums over V of one block that several gradients need: " + ", ".join(sums.values()) + "."
    return Kernel(f"value_sums_{name}", doc, "grid", "walked", stores, dict(loaded))


def _top_sums(roots: Sequence[Node], loaded: Mapping[Node, str]) -> list[Node]:
    """The sums over V that `roots` are made of, but not those that only another sum needs."""
    stop = set(loaded)
    sums = {node for node in walk(list(roots), stop) if node not in stop and _sums(node, "V")}
    reached = set(walk(list(roots), stop | sums))
    return [node for node in walk(list(roots), stop) if node in sums and node in reached]


def _carries_of(cuts: Cuts, node: Node, loaded: Mapping[Node, str]) -> str:
    """The name of the carry that a sum reads; "rows" for none, "carried" for several."""
    leaves = {carry.leaf for carry in (*cuts.program.carries, *cuts.backward.carries)}
    found = [leaf["name"] for leaf in walk([node], set(loaded)) if leaf in leaves]
    return "rows" if not found else found[0] if len(found) == 1 else "carried"


def _sums(node: Node, dim: str) -> bool:
    return dim in (node.get("dim"), *node.get("summed", ()))


def walks_keys(nodes: Sequence[Node], stop: set[Node]) -> bool:
    """True where a kernel without V can take K in tiles: K is the only long axis and its lanes stay apart.

    nodes: what the kernel stores. stop: what it reads.
    """
    inside = [node for node in walk(list(nodes), stop) if node not in stop]
    axes = {dim for node in walk(list(nodes), stop) for dim in node.dims}
    return axes & WIDE == {"K"} and all(_keeps_lanes(node) for node in inside)


def _keeps_lanes(node: Node) -> bool:
    """True if entry i along K of a value needs only entry i of its arguments, or is a sum over all."""
    if not any("K" in argument.dims for argument in node.args):
        return "K" not in node.dims or node.op == "leaf"
    return node.op in _SUMS if _sums(node, "K") else "K" in node.dims

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
from atlasgen.emit.cuts import Cuts, block_stores, joins_axes
from atlasgen.emit.plan import Kernel, Store
from atlasgen.ir.node import ROWS, Node, walk

PRODUCTS = 2  # sums that are matrices, in one kernel
_BETWEEN_ROWS = ("r", "s")
_SUMS = ("dot", "contract", "sum", "channel_scores")


def are_shared(cuts: Cuts, stores: Sequence[Store], stop: set[Node]) -> bool:
    """True where the sums over V of these gradients have kernels of their own."""
    if cuts.structure.pieces != 4 or cuts.deep or (cuts.walk and not cuts.solved):
        return False
    roots = [store.node for store in stores]
    return bool(cuts.solved or cuts.channels) and not joins_axes(roots, stop)


def shared_sums(cuts: Cuts, stores: Sequence[Store], loaded: Mapping[Node, str]) -> tuple[Kernel, ...]:
    """Kernels of the sums over V that gradients without V need, by the carries that they read.

    A sum that is itself stored by block keeps its buffer. One with a further axis that kernels walk is made
    where it is needed.
    """
    own = {store.node: store.target for store in stores if store.place == "blocks"}
    roots = [store.node for store in stores if "V" not in store.axes]
    groups: dict[str, dict[Node, str]] = {}
    stop = set(loaded)
    apart = [node for node in walk(roots, stop) if cuts.walk in node.dims]
    for index, node in enumerate(_top_sums(roots, loaded)):
        if any(other in apart for other in walk([node], stop)):
            continue
        name = _carries_of(cuts, node, loaded) + _tiles_of(node)
        groups.setdefault(name, {})[node] = own.get(node, f"sum_{index}_blocks")
    return tuple(
        _kernel(name, part, loaded) for own, sums in groups.items() for name, part in parts_of(own, sums)
    )


def shared_mixes(stores: Sequence[Store], loaded: Mapping[Node, str]) -> tuple[Kernel, ...]:
    """Kernels of the sums over rows that decay by channel, of each matrix its own: exponentials made once."""
    roots = [store.node for store in stores if "V" not in store.axes]
    found = [node for node in walk(roots, set(loaded)) if node.op == "channel_mix" and node not in loaded]
    groups: dict[Node, dict[Node, str]] = {}
    for index, node in enumerate(found):
        groups.setdefault(node.args[0], {})[node] = f"mixed_{index}_blocks"
    every = [part for sums in groups.values() for _, part in parts_of("", sums)]
    kernels = []
    for index, part in enumerate(every):
        doc = "Sums over rows of one block, decayed by channel: " + ", ".join(part.values()) + "."
        axis = "K" if walks_keys(list(part), set(loaded)) else None
        name, made = f"mixed_rows_{index + 1}", block_stores(part)
        kernels.append(Kernel(name, doc, "grid", "none", made, dict(loaded), walk=axis))
    return tuple(kernels)


def parts_of(name: str, values: Mapping[Node, str]) -> list[tuple[str, dict[Node, str]]]:
    """A kernel's values, no more sums that are matrices at once than the registers hold, by kernel name."""
    parts: list[dict[Node, str]] = [{}]
    for node, buffer in values.items():
        held = [other for other in parts[-1] if _is_matrix_sum(other)]
        if _is_matrix_sum(node) and len(held) == PRODUCTS:
            parts.append({})
        parts[-1][node] = buffer
    return [(f"{name}_{index + 1}" if index else name, part) for index, part in enumerate(parts)]


def matrices_apart(name: str, values: Mapping[Node, str]) -> list[tuple[str, dict[Node, str]]]:
    """A kernel's values, each further matrix between the same rows in a kernel of its own, by kernel name."""
    first = next((node for node in values if node.dims == _BETWEEN_ROWS), None)
    further = [node for node in values if node.dims == _BETWEEN_ROWS and node is not first]
    parts = [(name, {node: buffer for node, buffer in values.items() if node not in further})]
    return parts + [(f"{name}_{index + 2}", {node: values[node]}) for index, node in enumerate(further)]


def sums_of_matrices(name: str, stores: Sequence[Store], loaded: Mapping[Node, str]) -> tuple[Kernel, ...]:
    """Kernels of what gradients sum over rows of several matrices between the same rows, by matrix."""
    roots = [store.node for store in stores]
    matrices = [n for n in walk(roots, set(loaded)) if n in loaded and n.dims == _BETWEEN_ROWS]
    if len(matrices) < 2:
        return ()
    sums = [n for n in walk(roots, set(loaded)) if _sums_rows(n) and n not in loaded]
    inside = {part for node in sums for part in walk(list(node.args), set(loaded))}
    groups: dict[tuple[str, ...], dict[Node, str]] = {}
    for index, node in enumerate(node for node in sums if node not in inside):
        read = tuple(loaded[matrix] for matrix in matrices if matrix in walk([node], set(loaded)))
        if read:
            groups.setdefault(read, {})[node] = f"{name}_{index}_blocks"
    doc = "Sums over rows of one block for the gradients of gates: "
    return tuple(
        Kernel(
            f"{name}_rows_{number + 1}",
            doc + ", ".join(part.values()) + ".",
            "grid",
            "none",
            block_stores(part),
            dict(loaded),
        )
        for number, part in enumerate(groups.values())
    )


def _sums_rows(node: Node) -> bool:
    return node.op in ("sum", "dot") and node["dim"] in ROWS and len(node.dims) < 2


def _is_matrix_sum(node: Node) -> bool:
    return (node.op in _SUMS or node.op == "channel_mix") and len(node.dims) > 1


def _kernel(name: str, sums: Mapping[Node, str], loaded: Mapping[Node, str]) -> Kernel:
    doc = "Sums over V of one block that several gradients need: " + ", ".join(sums.values()) + "."
    return Kernel(f"value_sums_{name}", doc, "grid", "walked", block_stores(sums), dict(loaded))


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


def _tiles_of(node: Node) -> str:
    """What tells sums apart that take other tiles: of numbers per row, and of values with three axes."""
    if len(node.dims) < 2:
        return "_of_rows"
    return "_of_errors" if any(len(argument.dims) > 2 for argument in node.args) else ""


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

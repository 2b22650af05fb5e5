"""Into which kernels the block-parallel gradients are cut: by output, so that each fits the registers."""

from __future__ import annotations

from collections.abc import Mapping

from atlasgen.emit.cuts import Cuts
from atlasgen.emit.plan import Store
from atlasgen.ir.node import Node, walk

ERROR_GRADIENT = "d_errors_rows"


def pieces_of(cuts: Cuts, stores: list[Store], loaded: Mapping[Node, str]) -> dict[str, list[Store]]:
    """Stores by piece; what is not q, k or v goes where it shares most products.

    loaded: values that the kernels read.
    """
    if cuts.structure.pieces == 1:
        return {"": stores}
    halo = ["d_k_halo", "d_v_halo"]
    groups = {"_q": ["d_q"], "_k": ["d_k"], "_v": ["d_v"], "_halo": halo}
    if cuts.structure.pieces == 3:
        groups = {"_q": ["d_q"], "_k": ["d_k", halo[0]], "_v": ["d_v", halo[1]]}
    if cuts.structure.pieces == 2:
        groups = {"_q": ["d_q"], "_kv": ["d_k", "d_v", *halo]}
    if cuts.structure.pieces == 4:
        carried = _carried(cuts, stores)
        # Without predictions there are few products: one kernel makes all gradients of weights.
        predicts = cuts.program.block is not None or bool(cuts.systems)
        together = (("s",),) if predicts else (("s",), ("r",), ())
        weights = [store.target for store in stores if store.axes == ("r", "s")]
        weights += [target for target, axes in carried.items() if axes in together]
        groups = {"_v": ["d_v", ERROR_GRADIENT], "_q": ["d_q"], "_k": ["d_k"], "_halo": halo}
        rest = [name for name in carried if name not in weights and predicts]
        groups |= {"_weights": weights, "_carried": rest}
        if cuts.walk:  # few operands each: matrices of weights, their last rows, what weighs carries
            matrices = [name for name in weights if name not in carried]
            last = [name for name, axes in carried.items() if axes == ("s",)]
            rest = [name for name in carried if name not in last]
            groups |= {"_weights": matrices, "_last": last, "_carried": rest}
        if not cuts.walk:  # else all such rows are saved
            stores = [*stores, *_error_gradient(cuts, stores)]
    groups = _with_halos(groups, stores)
    chosen = {
        suffix: [store for store in stores if store.target in targets] for suffix, targets in groups.items()
    }
    placed = {store.target for group in chosen.values() for store in group}
    products = {suffix: _products(cuts, group, loaded) for suffix, group in chosen.items()}
    filled = [suffix for suffix in groups if chosen[suffix]]
    for store in stores:
        if store.target not in placed:
            own = _products(cuts, [store], loaded)
            halo_first = sorted(filled, key=lambda suffix: not store.target.endswith(suffix))
            chosen[max(halo_first, key=lambda suffix: len(own & products[suffix]))].append(store)
    return {suffix: group for suffix, group in chosen.items() if group}


def _with_halos(groups: Mapping[str, list[str]], stores: list[Store]) -> dict[str, list[str]]:
    """The groups, where what is one value for the rows of the block and of the halo stays in one."""
    rows = {store.node: store.target for store in stores if store.place == "rows"}
    halos = {s.target: rows[s.node] for s in stores if s.place == "halo" and s.node in rows}
    table = {
        suffix: [target for target in targets if target not in halos] for suffix, targets in groups.items()
    }
    for targets in table.values():
        targets += [halo for halo, own in halos.items() if own in targets]
    return table


def _error_gradient(cuts: Cuts, stores: list[Store]) -> list[Store]:
    """The gradient of the errors, [s, V], where both d_v and d_k are made from it."""
    nodes = {store.target: store.node for store in stores}
    if not {"d_k", "d_v"} <= set(nodes):
        return []
    stop = {
        *cuts.buffers,
        *cuts.carry_blocks(),
        *cuts.next_blocks(),
        *cuts.program.nodes(),
        *cuts.solved_gradients,
    }
    shared = set(walk([nodes["d_k"]], stop)) - stop
    rows = [
        node
        for node in walk([nodes["d_v"]], stop)
        if node in shared and node.dims == ("s", "V") and node.op not in ("leaf", "const")
    ]
    return [Store(ERROR_GRADIENT, rows[-1], ("s", "V"), "blocks")] if rows else []


def _carried(cuts: Cuts, stores: list[Store]) -> dict[str, tuple[str, ...]]:
    """Gradients of what weighs the carries, with their axes: they read every carry."""
    leaves = {carry.leaf for carry in (*cuts.program.carries, *cuts.backward.carries)}
    weights = [store for store in stores if store.place == "blocks" and len(store.axes) < 2]
    stop = set(cuts.buffers)
    return {store.target: store.axes for store in weights if leaves & set(walk([store.node], stop))}


def _products(cuts: Cuts, stores: list[Store], loaded: Mapping[Node, str]) -> set[Node]:
    """Products with values: a kernel that walks V makes them in its loop, and others after it.

    Without values: products and matrices that are read.
    """
    nodes = walk([store.node for store in stores], set(loaded))
    if cuts.deep:
        return {node for node in nodes if node.op == "dot"}
    if not any("V" in node.dims for node in nodes):
        made = ("dot", "channel_mix", "channel_scores")
        return {node for node in nodes if node.op in made or (node in loaded and len(node.dims) > 1)}
    return {node for node in nodes if node.op == "dot" and "V" in (*node.dims, node["dim"])}

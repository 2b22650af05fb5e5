"""Rows that kernels leave for others, where one kernel cannot hold a deep memory's whole chain of products.

Every product that gives a row a vector of features, hidden units or values, and that another product
needs, is written once and read by the kernels after it: what is elementwise in between is made again. Four
classes, in the order in which they are known: of sources, of readers, gradients from the reads alone, and
those that need the gradient of the memory after the block.
"""

from __future__ import annotations

from dataclasses import dataclass

from atlasgen.emit.axes import WALKS, WIDE
from atlasgen.ir.node import Node, walk

ROWS = ("s", "h", "r", "p")
EARLY = ("sources", "reads", "read_gradients")
CLASSES = (*EARLY, "late_gradients")


@dataclass(frozen=True)
class RowStage:
    """Rows that one kernel writes: the kernel's name, and the buffer of each value."""

    name: str
    rows: dict[Node, str]


def row_stages(roots: list[Node], results: set[Node], names: dict[Node, str]) -> dict[str, list[RowStage]]:
    """The stages of each class, in order, by depth and by axes.

    roots: everything that any kernel computes. results: values that are written anyway.
    """
    nodes = walk(roots)
    kinds = _classes(nodes)
    needed = _under_products(nodes)
    found = [node for node in nodes if _is_row(node) and node in needed and _is_product(node)]
    covered = _parts(nodes, set(found), kinds)
    chosen = [n for n in found if n not in covered and n not in results and kinds[n] in CLASSES]
    buffers = {node: f"rows_{names.get(node, 'value')}_{index}" for index, node in enumerate(chosen)}
    return {kind: _stages(kind, nodes, kinds, buffers) for kind in CLASSES}


def _is_row(node: Node) -> bool:
    """True for rows that may be saved: those of monomials are as many as the state's and made in tiles."""
    return node.op in WALKS or len(node.dims) == 2 and node.dims[0] in ROWS and node.dims[1] in WIDE - {"F"}


def _factors(node: Node) -> list[Node]:
    """The arguments of a product of numbers, through signs."""
    return [f for a in node.args for f in (_factors(a) if a.op == "map" else [a])] if node.op == "map" else []


def _is_product(node: Node) -> bool:
    """True for a product over an axis, or a sum with such a term, each perhaps times a number of its row, and
    for a walk over rows."""
    if node.op == "add":
        return any(term.op == "dot" or any(f.op == "dot" for f in _scaled(term)) for term in node.args)
    return node.op == "dot" or node.op in WALKS


def _scaled(node: Node) -> list[Node]:
    """Factors of a term that have all its axes: what a number per row scales."""
    return [factor for factor in _factors(node) if factor.dims == node.dims]


def _under_products(nodes: list[Node]) -> set[Node]:
    """Values that some product over an axis needs, through elementwise ones."""
    found: set[Node] = set()
    for node in reversed(nodes):
        if node.op in ("dot", "contract") or node in found:
            found.update(node.args)
    return found


def _parts(nodes: list[Node], found: set[Node], kinds: dict[Node, str]) -> set[Node]:
    """Products that only sums use which are found themselves and known no later."""
    users: dict[Node, list[Node]] = {}
    for node in nodes:
        for argument in node.args:
            users.setdefault(argument, []).append(node)

    def only_in_sums(node: Node, kind: str) -> bool:
        above = users.get(node, [])
        return bool(above) and all(
            kinds[user] == kind
            and (
                (user.op == "add" and user in found)
                or (user.op == "map" and _covers(user, node) and only_in_sums(user, kind))
            )
            for user in above
        )

    return {node for node in found if node.op == "dot" and only_in_sums(node, kinds[node])}


def _covers(product: Node, node: Node) -> bool:
    return node in _scaled(product)


def _classes(nodes: list[Node]) -> dict[Node, str]:
    """When a value is known; "" for one that depends on the gradient of a captured value."""
    order = ("sources", "reads", "read_gradients", "late_gradients", "")
    kinds: dict[Node, str] = {}
    for node in nodes:
        if node.op == "leaf":
            own = {"token_gradient": 2, "carry_gradient": 3, "capture_gradient": 4}.get(node["kind"], 0)
            wide = bool(WIDE & set(node.dims))
            kinds[node] = order[max(own, int("r" in node.dims and wide))]
        else:
            kinds[node] = order[max((order.index(kinds[a]) for a in node.args), default=0)]
    return kinds


def _stages(kind: str, nodes: list[Node], kinds: dict[Node, str], buffers: dict[Node, str]) -> list[RowStage]:
    """One kernel for all sources and one for all reads; of gradients one per depth and axes."""
    depth: dict[Node, int] = {}
    for node in nodes:
        own = int(node in buffers and kinds[node] == kind)
        depth[node] = max((depth[argument] for argument in node.args), default=0) + own
    groups: dict[tuple[int, str], dict[Node, str]] = {}
    for node, buffer in buffers.items():
        if kinds[node] == kind:
            single = kind in CLASSES[:2]
            key = (0, "") if single else (depth[node], "_".join(node.dims))
            groups.setdefault(key, {})[node] = buffer
    return [
        RowStage(f"{kind}_{level}_{axes}" if level else kind, rows)
        for (level, axes), rows in sorted(groups.items())
    ]


def split_stages(stages: list[RowStage], inside: set[Node]) -> tuple[list[RowStage], list[RowStage]]:
    """The stages restricted to rows in `inside`, and to the others."""
    found: tuple[list[RowStage], list[RowStage]] = ([], [])
    for stage in stages:
        for index, wanted in enumerate((True, False)):
            rows = {node: buffer for node, buffer in stage.rows.items() if (node in inside) == wanted}
            if rows:
                found[index].append(RowStage(stage.name, rows))
    return found

"""Fewer accumulators in kernels that walk V: scales of rows go inside the sums over V.

A kernel that walks V holds one accumulator per sum over V, for its whole life; a matrix of all features is
the largest thing that it can hold. With A [s, V], B [K, V], C [s, K] and a vector g [s]:

    g[s] * (A B^T)                  ->  (g * A) B^T               adds into an accumulator that is there
    A B^T + C D^T + rest            ->  (A B^T + C D^T) + rest    one accumulator for both
    sum_K (A B^T) * C               ->  sum_V A * (C B)           a vector instead of a matrix
    (g * C) B                       ->  g * (C B)                 one product for both uses of C B
"""

from __future__ import annotations

from atlasgen.emit.axes import WIDE
from atlasgen.ir import build
from atlasgen.ir.node import Node, walk
from atlasgen.ir.scalar import placeholder

_PRODUCT = placeholder(0) * placeholder(1)


def scales_inside(roots: list[Node], stop: set[Node], walked: str = "V") -> list[Node]:
    """The same values as `roots`, with scales of rows inside the sums over `walked`; `stop` stays."""
    done: dict[Node, Node] = {node: node for node in stop}
    for node in walk(roots, stop):
        if node not in done:
            done[node] = _rebuilt(node, tuple(done[argument] for argument in node.args), walked)
    return [done[root] for root in roots]


def _rebuilt(node: Node, arguments: tuple[Node, ...], walked: str) -> Node:
    if node.op == "sum" and node["dim"] != walked:
        return _summed(arguments[0], node["dim"], walked) or _same(node, arguments)
    if node.op == "map" and node["expression"] == _PRODUCT:
        return _scaled(arguments[0], arguments[1], walked) or _same(node, arguments)
    if node.op == "dot" and node["dim"] != walked and walked in node.dims:
        return _factored(arguments[0], arguments[1], node["dim"]) or _same(node, arguments)
    if node.op == "add":
        return _gathered(list(zip(node["signs"], arguments, strict=True)), walked)
    return _same(node, arguments)


def _same(node: Node, arguments: tuple[Node, ...]) -> Node:
    """The node with new arguments."""
    if arguments == node.args:
        return node
    if node.op == "map":
        return build.map_(node["expression"], *arguments)
    if node.op == "dot":
        return build.dot(arguments[0], arguments[1], node["dim"])
    return Node(node.op, arguments, node.dims, **dict(node.attrs))


def _gathered(terms: list[tuple[int, Node]], walked: str) -> Node:
    """A signed sum whose products over the walked axis are a sum of their own: one accumulator."""
    walking = [term for term in terms if _is_walked_product(term[1], walked)]
    if len(walking) < 2 or len(walking) == len(terms):
        return build.add(*terms)
    return build.add((1, build.add(*walking)), *(term for term in terms if term not in walking))


def _is_walked_product(node: Node, walked: str) -> bool:
    """True for A B^T: a matrix of sums over the walked axis."""
    matrices = node.op == "dot" and all(len(argument.dims) == 2 for argument in node.args)
    return matrices and node["dim"] == walked and len(node.dims) == 2


def _scaled(left: Node, right: Node, walked: str) -> Node | None:
    """g * (A B^T) with g inside, where g is one number per row of A or of B."""
    for product, scale in ((left, right), (right, left)):
        if not _is_walked_product(product, walked) or len(scale.dims) != 1 or scale.dims[0] in WIDE:
            continue
        first, second = product.args
        if scale.dims[0] in first.dims:
            return build.dot(build.mul(first, scale), second, walked)
        if scale.dims[0] in second.dims:
            return build.dot(first, build.mul(second, scale), walked)
    return None


def _summed(node: Node, dim: str, walked: str) -> Node | None:
    """sum over `dim` of (A B^T) * C as a sum over the walked axis; None for another shape."""
    if build.is_negative(node):
        inner = _summed(node.args[0], dim, walked)
        return None if inner is None else build.neg(inner)
    if node.op != "map" or node["expression"] != _PRODUCT:
        return None
    for product, factor in (node.args, node.args[::-1]):
        if not _is_walked_product(product, walked) or set(factor.dims) != set(product.dims):
            continue
        first, second = product.args
        rows, columns = (second, first) if dim in first.dims else (first, second)
        if dim in columns.dims and dim in WIDE:
            return build.dot(rows, build.dot(factor, columns, dim), walked)
    return None


def _factored(left: Node, right: Node, dim: str) -> Node | None:
    """(g * C) B with g outside, where g is one number per row of C."""
    for scaled, other in ((left, right), (right, left)):
        if scaled.op != "map" or scaled["expression"] != _PRODUCT or len(scaled.dims) != 2:
            continue
        for matrix, scale in (scaled.args, scaled.args[::-1]):
            vector = len(scale.dims) == 1 and scale.dims[0] != dim and scale.dims[0] not in other.dims
            if vector and len(matrix.dims) == 2:
                return build.mul(build.dot(matrix, other, dim), scale)
    return None

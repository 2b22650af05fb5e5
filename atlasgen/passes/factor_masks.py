"""Products with a masked matrix whose entries are products of row and column factors.

    A @ mask(r_i g_s m)  =  ((A diag(r)) @ mask(m)) diag(g)

Window gates are such matrices: with the factors outside, mask(m) is the same in every block, so one wide
product replaces one product per block, and the gradient of a factor is a sum, not a product.
"""

from __future__ import annotations

from dataclasses import replace

from atlasgen.ir import build
from atlasgen.ir.node import Node, walk
from atlasgen.ir.program import BlockProgram, Capture, Carry
from atlasgen.ir.scalar import placeholder

PRODUCT = placeholder(0) * placeholder(1)
SHARED = ("head", "position")  # leaves that no block changes


def factor_masks(program: BlockProgram) -> BlockProgram:
    """The program with the factors of masked matrices outside of products and sums."""
    done: dict[Node, Node] = {}
    for node in program.nodes():
        arguments = tuple(done[argument] for argument in node.args)
        if node.op == "dot":
            done[node] = _factored_dot(arguments[0], arguments[1], node["dim"])
        elif node.op == "sum":
            done[node] = _factored_sum(arguments[0], node["dim"])
        elif arguments == node.args:
            done[node] = node
        else:
            done[node] = Node(node.op, arguments, node.dims, **dict(node.attrs))
    return replace(
        program,
        outputs={name: done[node] for name, node in program.outputs.items()},
        carries=tuple(Carry(c.name, c.leaf, done[c.next]) for c in program.carries),
        captures=tuple(Capture(c.name, done[c.value], c.carry) for c in program.captures),
        names={done[node]: name for node, name in program.names.items() if node in done},
        equations={done[node]: text for node, text in program.equations.items() if node in done},
    )


def _factored_dot(left: Node, right: Node, dim: str) -> Node:
    for matrix, other in ((right, left), (left, right)):
        if matrix.op != "mask" or other.op == "mask" or dim not in matrix.dims:
            continue
        free = next(axis for axis in matrix.dims if axis != dim)
        if free in other.dims:
            continue
        summed, outer, core = _factors(matrix, dim)
        if core is not None:
            return _times(build.dot(_times(other, summed), core, dim), outer)
    return build.dot(left, right, dim)


def _factored_sum(matrix: Node, dim: str) -> Node:
    if matrix.op == "mask" and dim in matrix.dims:
        summed, outer, core = _factors(matrix, dim)
        if core is not None:
            if summed:
                return _times(build.dot(_times(summed[0], summed[1:]), core, dim), outer)
            return _times(build.sum_(core, dim), outer)
    return build.sum_(matrix, dim)


def _times(node: Node, factors: list[Node]) -> Node:
    return build.mul(node, *factors)


def _factors(matrix: Node, dim: str) -> tuple[list[Node], list[Node], Node | None]:
    """Factors along `dim`, the other vectors and scalars, and the mask of what is left.

    The mask is None where it still differs from block to block.
    """
    summed: list[Node] = []
    outer: list[Node] = []
    rest: list[Node] = []
    for factor in _flattened(matrix.args[0]):
        if factor.dims == (dim,):
            summed.append(factor)
        elif len(factor.dims) <= 1 and not build.is_const(factor) and "c" not in factor.dims:
            outer.append(factor)
        else:
            rest.append(factor)
    shared = all(node["kind"] in SHARED for factor in rest for node in walk([factor]) if node.op == "leaf")
    if not shared:
        return [], [], None
    core = build.mul(*rest) if rest else build.const(1.0)
    return summed, outer, build.mask(core, **dict(matrix.attrs))


def _flattened(node: Node) -> list[Node]:
    if node.op == "map" and node["expression"] == PRODUCT:
        return [factor for argument in node.args for factor in _flattened(argument)]
    return [node]

"""Reverse mode: of a graph, and of the loop over blocks.

The loop's rule is the only place that knows about time: the reversed loop's body is the derivative of the
forward body at the carries of that block (saved or recomputed), seeded with the gradients of the carries
after the block.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from atlasgen.ir import build
from atlasgen.ir.node import Node, walk
from atlasgen.ir.operators import OPERATORS
from atlasgen.ir.program import BackwardProgram, BlockProgram, Carry, Contribution
from atlasgen.ir.replace import replaced
from atlasgen.ir.row_function import RowFunction, given, operands_of

NO_GRADIENT = ("live", "exists", "border", "lane", "monomial", "host")


def backpropagate(seeds: Mapping[Node, Node], points: Collection[Node] = ()) -> dict[Node, Node]:
    """Gradients of all nodes under the seeded ones.

    Args:
        seeds: node -> its incoming gradient (same axes, or fewer, which broadcasts).
        points: the nodes with respect to which gradients are wanted; none means every leaf that has any.
    Returns:
        node -> gradient, for each node that a gradient reaches.
    """
    order = walk(seeds, set(points))
    differentiable = _reaches_argument(order, points)
    parts: dict[Node, list[Node]] = {node: [] for node in order}
    for node, seed in seeds.items():
        parts[node].append(seed)
    gradients: dict[Node, Node] = {}
    for node in reversed(order):
        if node not in differentiable:
            continue
        total = build.add(*parts[node])
        if build.is_const(total, 0.0):
            continue
        gradients[node] = total
        if node in points:
            continue
        for index, argument in enumerate(node.args):
            if argument not in differentiable:
                continue
            part = OPERATORS[node.op].derivative(node, total, index)
            if part is not None and not build.is_const(part, 0.0):
                parts[argument].append(build.sum_to(part, argument.dims))
    return gradients


def _reaches_argument(order: list[Node], points: Collection[Node]) -> set[Node]:
    found: set[Node] = set(points)
    for node in order:
        if points and node in found:
            continue
        if node.op == "leaf" and not points:
            if node["kind"] not in NO_GRADIENT:
                found.add(node)
        elif any(argument in found for argument in node.args):
            found.add(node)
    return found


def row_function(result: Node, variable: Node) -> tuple[RowFunction, list[Node]]:
    """`result` as a function of `variable` and of the values, returned with it, that it needs besides."""
    operands = operands_of(result, variable)
    arguments = tuple(given(index, node.dims) for index, node in enumerate((variable, *operands)))
    value = replaced(result, dict(zip((variable, *operands), arguments, strict=True)))
    gradient = given(len(arguments), result.dims)
    reached = backpropagate({value: gradient}, arguments)
    slopes = tuple(reached.get(argument, build.const(0.0)) for argument in arguments)
    return RowFunction(arguments, gradient, value, slopes), operands


def differentiate(program: BlockProgram) -> BackwardProgram:
    """The reversed loop of a block program."""
    seeds: dict[Node, list[Node]] = {}
    incoming: dict[str, Node] = {}
    for name, node in program.outputs.items():
        seed = build.leaf(f"d_{name}", node.dims, kind="token_gradient", tensor=name)
        seeds.setdefault(node, []).append(seed)
    for carry in program.carries:
        leaf = build.leaf(f"d_{carry.name}_next", carry.leaf.dims, kind="carry_gradient", carry=carry.name)
        incoming[carry.name] = leaf
        seeds.setdefault(carry.next, []).append(leaf)
    for capture in program.captures:
        leaf = build.leaf(
            f"d_{capture.name}", capture.value.dims, kind="capture_gradient", capture=capture.name
        )
        seeds.setdefault(capture.value, []).append(leaf)
    gradients = backpropagate({node: build.add(*parts) for node, parts in seeds.items()})
    carries = tuple(
        Carry(f"d_{carry.name}", incoming[carry.name], gradients.get(carry.leaf, build.const(0.0)))
        for carry in program.carries
    )
    parts = [
        Contribution(leaf["name"], leaf, gradients[leaf])
        for leaf in program.leaves()
        if leaf in gradients and leaf["kind"] != "carry"
    ]
    invariants = tuple(part for part in parts if part.leaf["kind"] == "invariant")
    names = {gradients[node]: f"d_{name}" for node, name in program.names.items() if node in gradients}
    return BackwardProgram(
        program,
        carries,
        tuple(part for part in parts if part.leaf["kind"] != "invariant"),
        invariants,
        names,
        gradients,
    )

"""Polynomial features as products of single entries: what a kernel can make tile by tile from x.

    phi(x)[f] = w[f] * x[i_f] * x[j_f] ...          w[f] = the root of a_p and of the monomial's orderings

p is the degree of monomial f; one of fewer factors has the number 1 in place of the others. The tables of
i, j, ... and of the orderings follow from the number of keys' entries and are the same for all calls. The
reversed loop is derived from the expanded program, so that gradients of x and of the coefficients are sums
over tiles as well.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import sympy

from atlasgen.ir import build
from atlasgen.ir.differentiate import differentiate
from atlasgen.ir.node import Node, walk
from atlasgen.ir.program import BlockProgram, Capture, Carry
from atlasgen.ir.scalar import placeholder
from atlasgen.schedules.serve import Scheduled

Value = TypeVar("Value")


def with_monomials(scheduled: Scheduled) -> Scheduled:
    """The same rule with every polynomial expanded; a rule without one as it is."""
    if all(node.op != "polynomial" for node in scheduled.forward.nodes()):
        return scheduled
    forward = _expanded(scheduled.forward)
    return replace(scheduled, forward=forward, backward=differentiate(forward))


def _expanded(program: BlockProgram) -> BlockProgram:
    """The program with products of entries in place of polynomials."""
    done: dict[Node, Node] = {}
    weights: dict[Node, str] = {}
    for node in walk([*program.roots(), *program.names, *program.equations]):
        arguments = tuple(done[argument] for argument in node.args)
        if node.op == "polynomial":
            weight, done[node] = _products(node, arguments)
            weights[weight] = "monomial_weights"
        else:
            done[node] = Node(node.op, arguments, node.dims, **dict(node.attrs))

    def keys(table: dict[Node, Value]) -> dict[Node, Value]:
        return {done[node]: value for node, value in table.items()}

    return replace(
        program,
        outputs={name: done[node] for name, node in program.outputs.items()},
        carries=tuple(Carry(c.name, c.leaf, done[c.next]) for c in program.carries),
        captures=tuple(Capture(c.name, done[c.value], c.carry) for c in program.captures),
        names=weights | keys(program.names),
        equations=keys(program.equations),
    )


def _products(node: Node, arguments: tuple[Node, ...]) -> tuple[Node, Node]:
    """w and phi(x), of x and one coefficient per degree."""
    x, *coefficients = arguments
    degrees, form = node["degrees"], dict(node.attrs)
    tables = [
        build.leaf(f"monomial_scale_{degree}", ("F",), kind="monomial", degree=degree, **form)
        for degree in degrees
    ]
    count = len(degrees)
    roots = [sympy.sqrt(placeholder(index)) * placeholder(count + index) for index in range(count)]
    weight = product = build.map_(sympy.Add(*roots), *coefficients, *tables)
    for place in range(max(1, *degrees)):  # one factor at least, of numbers 1: rows have it
        codes = build.leaf(f"monomial_entry_{place}", ("F",), kind="monomial", place=place, **form)
        product = build.mul(product, build.take(x, codes))
    return weight, product

"""A matrix that is a sum of products, read and scaled through its parts: it need not be made for that.

z (a W - g u (x) E)  =  a (z W) - g (z . u) E
l (a W - g u (x) E)  =  (l a) W - (l g u) (x) E           whose derivative in l sums over vectors
"""

from __future__ import annotations

from functools import reduce

from atlasgen.ir import build
from atlasgen.ir.node import Node
from atlasgen.ir.scalar import placeholder

_PRODUCT = placeholder(0) * placeholder(1)


def read_through(rows: Node, matrix: Node, axis: str) -> Node:
    """sum over `axis` of rows * matrix, for rows with that axis and the sum of products `matrix`."""
    if axis not in matrix.dims:
        return build.mul(build.sum_(rows, axis), matrix)
    if build.is_negative(matrix):
        return build.neg(read_through(rows, matrix.args[0], axis))
    if matrix.op == "add":
        pairs = zip(matrix["signs"], matrix.args, strict=True)
        return build.add(*((sign, read_through(rows, argument, axis)) for sign, argument in pairs))
    if matrix.op == "map" and matrix["expression"] == _PRODUCT:
        return _through_product(rows, matrix, axis)
    if matrix.op == "dot":
        left, right = matrix.args
        if axis in right.dims:
            left, right = right, left
        if axis not in right.dims:
            return build.dot(build.dot(rows, left, axis), right, matrix["dim"])
    return build.dot(rows, matrix, axis)


def scaled(factor: Node, matrix: Node) -> Node:
    """factor * matrix; factor: a number, or a vector along an axis of the matrix."""
    if build.is_const(factor):
        return build.mul(factor, matrix)
    if build.is_negative(matrix):
        return build.neg(scaled(factor, matrix.args[0]))
    if matrix.op == "add":
        pairs = zip(matrix["signs"], matrix.args, strict=True)
        return build.add(*((sign, scaled(factor, argument)) for sign, argument in pairs))
    outer = matrix.op == "dot" or matrix.op == "map" and matrix["expression"] == _PRODUCT
    parts = [argument for argument in matrix.args if outer and set(factor.dims) <= set(argument.dims)]
    if not parts:
        return build.mul(factor, matrix)
    smallest = min(parts, key=lambda argument: len(argument.dims))
    left, right = (scaled(factor, a) if a is smallest else a for a in matrix.args)
    return build.dot(left, right, matrix["dim"]) if matrix.op == "dot" else build.mul(left, right)


def _through_product(rows: Node, matrix: Node, axis: str) -> Node:
    """What has the axis alone scales the rows, what has not stands outside."""
    outside = [factor for factor in matrix.args if axis not in factor.dims]
    alone = [factor for factor in matrix.args if factor.dims == (axis,)]
    rest = [factor for factor in matrix.args if factor not in outside and factor not in alone]
    if len(rest) > 1:
        return build.dot(rows, matrix, axis)
    if rest:
        inner = read_through(reduce(build.mul, alone, rows), rest[0], axis)
    else:
        inner = build.dot(reduce(build.mul, alone[1:], rows), alone[0], axis)
    return reduce(build.mul, outside, inner)

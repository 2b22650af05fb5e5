"""Constructors of block program nodes, which simplify while they build.

Structure is what makes an unused part of a rule vanish: without momentum the decay matrix of theta is an
identity, a product with an identity is a renaming, a product with zero is zero. So a schedule writes the
general formula once and linear attention's program contains no momentum, window or error.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import sympy

from atlasgen.ir.node import EARLIER, Node, ordered, walk
from atlasgen.ir.scalar import arity, constant, placeholder, root, shift

if TYPE_CHECKING:
    from atlasgen.ir.row_function import RowFunction

x0, x1 = placeholder(0), placeholder(1)


def leaf(name: str, dims: Iterable[str] = (), **attrs: Any) -> Node:
    """An input. `kind` says where it lives (see :mod:`atlasgen.ir.program`)."""
    return Node("leaf", (), ordered(dims), name=name, **attrs)


def const(value: float) -> Node:
    """A number, of no axis: it broadcasts."""
    return Node("const", (), (), value=float(value))


def is_const(node: Node, value: float | None = None) -> bool:
    """True for a number (equal to `value` where given)."""
    return node.op == "const" and (value is None or node["value"] == value)


def map_(expression: sympy.Expr, *args: Node) -> Node:
    """An elementwise expression in x0, x1, ... of arguments whose axes combine by name."""
    substitution = {
        placeholder(index): constant(argument["value"])
        for index, argument in enumerate(args)
        if argument.op == "const"
    }
    if substitution:
        expression = expression.subs(substitution)
    used = sorted(arity(expression))
    if not used:
        return const(float(expression))
    distinct = list(dict.fromkeys(args[index] for index in used))
    expression = shift(expression, {index: distinct.index(args[index]) for index in used})
    if expression == x0:
        return distinct[0]
    if expression == x0 * x1:
        masked = _multiply_masked(*distinct)
        if masked is not None:
            return masked
    dims = ordered(dim for argument in distinct for dim in argument.dims)
    return Node("map", tuple(distinct), dims, expression=expression)


def _multiply_masked(left: Node, right: Node) -> Node | None:
    """mask(x) * y = mask(x * y): masks move outwards, where they meet other masks and products."""
    for first, second in ((left, right), (right, left)):
        if first.op == "mask" and set(second.dims) <= set(first.dims):  # stays a matrix
            return mask(mul(first.args[0], second), **dict(first.attrs))
    return None


def mul(*factors: Node) -> Node:
    """The product, elementwise by axis names."""
    result = factors[0]
    for factor in factors[1:]:
        if is_const(result, 0.0) or is_const(factor, 0.0):
            return const(0.0)
        if is_negative(result) or is_negative(factor):
            positive = mul(magnitude(result), magnitude(factor))
            result = positive if is_negative(result) == is_negative(factor) else neg(positive)
        elif result is factor:
            result = map_(x0**2, result)
        else:
            result = map_(x0 * x1, result, factor)
    return result


def magnitude(node: Node) -> Node:
    """The node without its sign."""
    return node.args[0] if is_negative(node) else node


def neg(node: Node) -> Node:
    """-x."""
    return node.args[0] if is_negative(node) else map_(-x0, node)


def is_negative(node: Node) -> bool:
    """True for a node made by `neg`."""
    return node.op == "map" and node["expression"] == -x0


def add(*terms: Node | tuple[int, Node]) -> Node:
    """The signed sum of terms; a term is a node or (sign, node)."""
    signed = [term if isinstance(term, tuple) else (1, term) for term in terms]
    signed = [
        (-sign, node.args[0]) if is_negative(node) else (sign, node)
        for sign, node in signed
        if not is_const(node, 0.0)
    ]
    signed = _distinct(signed)
    if not signed:
        return const(0.0)
    if len(signed) == 1:
        sign, node = signed[0]
        return node if sign > 0 else neg(node)
    if all(node.op == "const" for _, node in signed):
        return const(sum(sign * node["value"] for sign, node in signed))
    signed.sort(key=lambda term: -term[0])
    dims = ordered(dim for _, node in signed for dim in node.dims)
    nodes = tuple(node for _, node in signed)
    return Node("add", nodes, dims, signs=tuple(sign for sign, _ in signed))


def _distinct(terms: list[tuple[int, Node]]) -> list[tuple[int, Node]]:
    """The terms with each node once: equal ones cancel, or become one with a factor."""
    counts: dict[Node, int] = {}
    for sign, node in terms:
        counts[node] = counts.get(node, 0) + sign
    if len(counts) == len(terms):
        return terms
    merged = []
    for node, count in counts.items():
        if count:
            times = node if abs(count) == 1 else mul(const(abs(count)), node)
            merged.append((1 if count > 0 else -1, times))
    return merged


def sub(left: Node, right: Node) -> Node:
    """left - right."""
    return add((1, left), (-1, right))


def dot(left: Node, right: Node, dim: str) -> Node:
    """sum over `dim` of left * right."""
    if is_const(left, 0.0) or is_const(right, 0.0):
        return const(0.0)
    if is_negative(left) or is_negative(right):
        positive = dot(magnitude(left), magnitude(right), dim)
        return positive if is_negative(left) == is_negative(right) else neg(positive)
    if dim not in left.dims or dim not in right.dims:
        held, free = (left, right) if dim in left.dims else (right, left)
        if dim not in held.dims:
            raise ValueError(f"dot over {dim!r} of {left} and {right}: neither has that axis")
        return mul(sum_(held, dim), free)
    for first, second in ((left, right), (right, left)):
        diagonal = _diagonal(second, dim)
        if diagonal is not None:
            other, values = diagonal
            if other not in first.dims and _can_merge(first, dim, other):
                return mul(relabel(first, {dim: other}), relabel(values, {dim: other}))
    dims = ordered(d for d in left.dims + right.dims if d != dim)
    return Node("dot", (left, right), dims, dim=dim)


def contract(left: Node, right: Node, dims: Iterable[str]) -> Node:
    """sum over all of `dims` of left * right."""
    summed = ordered(dims)
    if len(summed) < 2 or any(dim not in left.dims or dim not in right.dims for dim in summed):
        for dim in summed:
            left, right = dot(left, right, dim), const(1.0)
        return left
    if is_const(left, 0.0) or is_const(right, 0.0):
        return const(0.0)
    if is_negative(left) or is_negative(right):
        positive = contract(magnitude(left), magnitude(right), summed)
        return positive if is_negative(left) == is_negative(right) else neg(positive)
    kept = ordered(d for d in left.dims + right.dims if d not in summed)
    return Node("contract", (left, right), kept, summed=summed)


def newton_schulz(matrix: Node, rows: str, columns: str, coefficients: tuple, straight: bool) -> Node:
    """x <- a x + (b A + c A A) x with A = x x^T, for each triple (a, b, c), from x = matrix / |matrix|.

    The axes `rows` and `columns` make the matrix; any other axis is a batch. straight: its derivative is
    taken as the identity.
    """
    attrs = {"rows": rows, "columns": columns, "coefficients": coefficients, "straight": straight}
    return Node("newton_schulz", (matrix,), matrix.dims, **attrs)


def polynomial(x: Node, coefficients: Iterable[Node], degrees: tuple[int, ...], basis: str) -> Node:
    """phi(x) [rows, F] with phi(q) . phi(k) = sum over degrees p of a_p (q . k)^p.

    x: [rows, K]. coefficients: one node per degree, positive. basis: "symmetric" or "kronecker".
    """
    dims = ordered("F" if dim == "K" else dim for dim in x.dims)
    return Node("polynomial", (x, *coefficients), dims, degrees=degrees, basis=basis)


def unit_inverse(matrix: Node, row: str, column: str) -> Node:
    """(I + A)^-1 of a strictly lower triangular A [row, column], with solutions along `column`.

    So E[s] = sum over r of N[r, s] R[r] solves E + A E = R.
    """
    if is_const(matrix, 0.0):
        return mask(const(1.0), row, column, 0, 0)
    return Node("unit_inverse", (matrix,), matrix.dims, row=row, column=column)


def unit_solve(matrix: Node, factor: Node, given: Node, row: str, column: str, adjoint: bool = False) -> Node:
    """E [column, V] of E + g (A E) = R, for a strictly lower triangular A [row, column].

    factor, given: g and R [row, V]; each channel of V is a system of its own. adjoint: D [row, V] of
    D + A^T (g D) = R, for R [column, V].
    """
    if is_const(given, 0.0):
        return given
    solution, side = (row, column) if adjoint else (column, row)
    if factor.dims != ordered((row, "V")) or given.dims != ordered((side, "V")):
        raise ValueError(f"a system by channel needs [{row}, V] and [{side}, V], not {factor} and {given}")
    if is_const(matrix, 0.0):
        return rename(given, {side: solution})
    attrs = {"row": row, "column": column, "adjoint": adjoint}
    return Node("unit_solve", (matrix, factor, given), ordered((solution, "V")), **attrs)


def channel_scores(
    left: Node, right: Node, log: Node, row: str, column: str, axis: str, exclusive: bool
) -> Node:
    """A[t, s] = sum over channels of left[t] right[s] D[t, s] for s < t, D the decays of each channel.

    left [row, axis], right [column, axis], log [.., axis]. exclusive: without the reader's own decay.
    """
    if is_const(left, 0.0) or is_const(right, 0.0):
        return const(0.0)
    attrs = {"row": row, "column": column, "dim": axis, "exclusive": exclusive}
    return Node("channel_scores", (left, right, log), ordered((row, column)), **attrs)


def channel_mix(
    matrix: Node, rows: Node, log: Node, toward: str, row: str, column: str, axis: str, exclusive: bool
) -> Node:
    """Y[t] = sum over s < t of matrix[t, s] rows[s] D[t, s], by channel, where toward is `row`.

    Where it is `column`: of the later rows t, for each s. matrix [row, column], rows and log [.., axis].
    """
    if is_const(matrix, 0.0) or is_const(rows, 0.0):
        return const(0.0)
    attrs = {"row": row, "column": column, "axis": axis, "exclusive": exclusive}
    return Node("channel_mix", (matrix, rows, log), ordered((toward, axis)), **attrs)


def exact_errors(
    function: RowFunction,
    scores: Node,
    links: Node,
    window: Node,
    terms: Iterable[tuple[Node, Node]],
    operands: Iterable[Node],
) -> Node:
    """Errors [i, p, V] that see those of earlier rows, see :mod:`atlasgen.ir.operators.exact`.

    terms: factors [r] and rows [p, V] of what is predicted without the block's writes.
    """
    factors, rows = zip(*terms, strict=True)
    arguments = (scores, links, window, *factors, *rows, *operands)
    return Node("exact_errors", arguments, ("i", "p", "V"), function=function, terms=len(rows))


def exact_errors_gradient(
    function: RowFunction,
    predicted: Node,
    gradient: Node,
    scores: Node,
    links: Node,
    window: Node,
    operands: Iterable[Node],
) -> Node:
    """The whole gradients of errors [i, p, V], with those through the errors of later rows."""
    arguments = (predicted, gradient, scores, links, window, *operands)
    return Node("exact_errors_gradient", arguments, ("i", "p", "V"), function=function)


def take(x: Node, entries: Node) -> Node:
    """Entries of each row of x by codes: [rows, K] -> [rows, F].

    entries [F]: i + 1 for entry i, 0 for the number 0, -1 for the number 1.
    """
    return Node("take", (x, entries), ordered((*(dim for dim in x.dims if dim != "K"), *entries.dims)))


def _diagonal(node: Node, dim: str) -> tuple[str, Node] | None:
    """(other axis, diagonal values) if the node is a diagonal matrix with axis `dim`."""
    if node.op != "mask" or node["low"] != 0 or node["high"] != 0:
        return None
    row, column = node["row"], node["column"]
    if EARLIER & {row, column} or dim not in (row, column) or not _can_merge(node.args[0], row, column):
        return None
    return (column if dim == row else row), node.args[0]


def _can_merge(node: Node, first: str, second: str) -> bool:
    """True if renaming one axis to the other gives the entries where both are equal.

    It does so for operators that combine axes by name, not for a leaf or a mask with both axes, nor below a
    sum over one of them of something that has the other.
    """
    both = {first, second}
    for entry in walk([node]):
        if both <= set(entry.dims) and entry.op not in ("map", "add", "dot", "sum"):
            return False
        if entry.get("dim") in both and any(both <= {*a.dims, entry["dim"]} for a in entry.args):
            return False
    return True


def sum_(node: Node, dim: str) -> Node:
    """The sum over one axis."""
    if is_const(node, 0.0):
        return node
    diagonal = _diagonal(node, dim)
    if diagonal is not None:
        other, values = diagonal
        return relabel(values, {dim: other})
    if dim not in node.dims:
        raise ValueError(f"sum over {dim!r} of {node}: no such axis")
    return Node("sum", (node,), tuple(d for d in node.dims if d != dim), dim=dim)


def sum_to(node: Node, dims: Iterable[str]) -> Node:
    """Sum over every axis that is not in `dims`."""
    for dim in [d for d in node.dims if d not in set(dims)]:
        node = sum_(node, dim)
    return node


def mask(node: Node, row: str, column: str, low: int | None, high: int | None) -> Node:
    """Keep the entries with low <= position(row) - position(column) <= high, zero elsewhere.

    Positions count from the block's first row; the halo's are negative. None means no bound.
    """
    if is_const(node, 0.0):
        return node
    dims = ordered((*node.dims, row, column))
    if len(dims) > 2:
        raise ValueError(f"a mask is a matrix of {row!r} and {column!r}, got axes {dims}")
    if node.op == "mask" and (node["row"], node["column"]) == (row, column):
        low = _tighter(low, node["low"], max)
        high = _tighter(high, node["high"], min)
        return mask(node.args[0], row, column, low, high)
    return Node("mask", (node,), dims, row=row, column=column, low=low, high=high)


def _tighter(first: int | None, second: int | None, choose: Any) -> int | None:
    if first is None or second is None:
        return second if first is None else first
    return choose(first, second)


def cumsum(node: Node, dim: str, reverse: bool = False, exclusive: bool = False) -> Node:
    """The running sum along a row axis."""
    if is_const(node, 0.0):
        return node
    if node.op == "const":
        raise ValueError("cumsum of a constant other than zero needs an axis: multiply by `live`")
    return Node("cumsum", (node,), node.dims, dim=dim, reverse=reverse, exclusive=exclusive)


def decay(log: Node, row: str, column: str, exclusive: bool = False) -> Node:
    """D[t, s] = exp(sum of log[r] for s < r <= t) for s <= t, else 0 (exclusive: r < t, s < t).

    `log` has the axis `column` or is a constant: 0 gives the triangle of ones, -inf the identity.
    """
    low = 1 if exclusive else 0
    if is_const(log, 0.0):
        return mask(const(1.0), row, column, low, None)
    if is_const(log, float("-inf")):
        return mask(const(1.0), row, column, low, low)
    if log.dims != (column,):
        raise ValueError(f"decay needs a log gate over {column!r}, got {log}")
    return Node("decay", (log,), ordered((row, column)), row=row, column=column, exclusive=exclusive)


def decay_from_start(log: Node, row: str, exclusive: bool = False) -> Node:
    """exp(sum of log[r] for r <= t) (exclusive: r < t), the weight of the block's initial state."""
    if is_const(log, 0.0):
        return const(1.0)
    if is_const(log, float("-inf")):
        if exclusive:
            raise ValueError("an exclusive product of zeros is not a constant")
        return const(0.0)
    return Node("decay_from_start", (log,), log.dims, row=row, exclusive=exclusive)


def decay_to_end(log: Node, row: str) -> Node:
    """exp(sum of log[r] for r > s): the last row of the decay matrix."""
    if is_const(log, 0.0):
        return const(1.0)
    return Node("decay_to_end", (log,), log.dims, row=row)


def decay_whole(log: Node, row: str) -> Node:
    """exp(sum of all log[r]): the decay over the block, without the row axis."""
    if is_const(log, 0.0):
        return const(1.0)
    if is_const(log, float("-inf")):
        return const(0.0)
    return Node("decay_whole", (log,), tuple(dim for dim in log.dims if dim != row), row=row)


def softmax(node: Node, dim: str) -> Node:
    """exp(x) / sum exp(x) along an axis."""
    return Node("softmax", (node,), node.dims, dim=dim)


def expand_age(gate: Node, row: str, column: str) -> Node:
    """[.., c] -> [row, column]: entry (t, s) is gate[t, t - s], 0 where the age is not in 0..c-1."""
    if is_const(gate):
        return gate
    dims = ordered((*(d for d in gate.dims if d != "c"), row, column))
    return Node("expand_age", (gate,), dims, row=row, column=column)


def collect_age(matrix: Node, row: str, column: str) -> Node:
    """The transpose of `expand_age`: [row, column] -> [row, c], entry (t, j) is matrix[t, t - j]."""
    if is_const(matrix, 0.0):
        return matrix
    return Node("collect_age", (matrix,), ordered((row, "c")), row=row, column=column)


def at_start(initial: Node, carried: Node) -> Node:
    """`initial` in the first block of a call that resumes inside a block, else `carried`."""
    return Node("at_start", (initial, carried), carried.dims)


def relabel(node: Node, names: dict[str, str]) -> Node:
    """The same value with axes renamed, rebuilt down to its leaves."""
    cache: dict[Node, Node] = {}

    def rebuild(old: Node) -> Node:
        if not any(dim in names for dim in old.dims) and not _mentions(old, names):
            return old
        if old not in cache:
            args = tuple(rebuild(argument) for argument in old.args)
            attrs = {key: renamed_axes(key, value, names) for key, value in old.attrs}
            cache[old] = Node(old.op, args, ordered(names.get(d, d) for d in old.dims), **attrs)
        return cache[old]

    return rebuild(node)


def rename(node: Node, names: dict[str, str]) -> Node:
    """The same rows under other axis names, without rebuilding: for gradients that meet at one tensor."""
    if node.op == "const":
        return node
    dims = tuple(names.get(dim, dim) for dim in node.dims)
    return Node("rename", (node,), dims)


def renamed_axes(key: str, value: Any, names: dict[str, str]) -> Any:
    """An attribute of a node whose axes are renamed: the axes that it mentions are too."""
    if key in ("row", "column", "dim", "rows", "columns", "axis"):
        return names.get(value, value)
    if key != "summed":
        return value
    axes: tuple[str, ...] = value
    return ordered(names.get(dim, dim) for dim in axes)


def _mentions(node: Node, names: dict[str, str]) -> bool:
    return any(renamed_axes(key, value, names) != value for key, value in node.attrs)


def norm_from_square(square: Node) -> Node:
    """sqrt with derivative 0 at 0."""
    return map_(root(x0), square)

"""The errors of tokens that are predicted again and again: once by every row whose window reaches them.

For the rows j of a block and the sources p that their windows reach (in the order of the sequence), with
written weights W_j [g, V] of earlier rows and a function e of predictions:

    W_j[g]   = sum over i < j of L[j, i] Gamma[i, g] E[i, g]
    E[j, p]  = e(sum over m of a_m[j] x_m[p] - sum over g of G[p, g] W_j[g])     in j's window, 0 outside

e acts row by row and need not be linear, so this is no system to invert: the rows are walked. Nothing in it
has an axis of features; G holds the products of sources. Backwards, with the gradients dE, an error's whole
gradient D is that of its uses by later rows too:

    D[j, p] = dE[j, p] - Gamma[j, p] sum over t > j of L[t, j] sum over p' of G[p', p] (de/dpred)^T D[t, p']

and an argument's gradient is what D gives it through e, E held fixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from atlasgen.ir import build
from atlasgen.ir.node import Node
from atlasgen.ir.operators.base import Operator, TileContext, size
from atlasgen.ir.operators.contraction import Sum
from atlasgen.ir.operators.elementwise import Add, Const, Map, Rename
from atlasgen.ir.row_function import RowFunction

# What a function of rows may consist of.
_WITHIN: dict[str, Operator] = {entry.name: entry for entry in (Const(), Map(), Add(), Sum(), Rename())}


@dataclass(frozen=True)
class Parts:
    """The arguments of an `exact_errors`: G, L, Gamma, then a_m and x_m by pairs, then what e is given."""

    scores: Node
    links: Node
    window: Node
    factors: Sequence[Node]
    rows: Sequence[Node]
    operands: Sequence[Node]

    @classmethod
    def of(cls, node: Node) -> Parts:
        scores, links, window, *rest = node.args
        terms = node["terms"]
        return cls(scores, links, window, rest[:terms], rest[terms : 2 * terms], rest[2 * terms :])

    def written(self, errors: Node) -> Node:
        """Gamma E [i, g, V] of the errors [i, p, V]."""
        return build.rename(build.mul(self.window, errors), {"p": "g"})

    def sums(self, errors: Node) -> Node:
        """W_j [r, g, V]."""
        return build.dot(self.links, self.written(errors), "i")

    def predictions(self, errors: Node) -> Node:
        """What e is taken of, for all rows j [r, p, V]."""
        given = [build.mul(factor, row) for factor, row in zip(self.factors, self.rows, strict=True)]
        return build.add(*given, (-1, build.dot(self.scores, self.sums(errors), "g")))


class ExactErrors(Operator):
    """E [i, p, V]; see the module. Arguments: G [p, g], L [r, i] strictly lower, Gamma [i, p], then a_m [r]
    and x_m [p, V], then e's other arguments, by p or by head."""

    name = "exact_errors"

    def derivative(self, node: Node, gradient: Node, index: int) -> Node | None:
        argument = node.args[index]
        if node.args.index(argument) != index:
            return None  # its gradient is that of its first place
        places = [place for place, other in enumerate(node.args) if other is argument]
        parts, function = Parts.of(node), node["function"]
        predicted = parts.predictions(node)
        whole = build.exact_errors_gradient(
            function, predicted, gradient, parts.scores, parts.links, parts.window, parts.operands
        )
        total = _Gradient(parts, function, node, predicted, build.rename(whole, {"i": "r"}))
        return build.add(*(build.sum_to(total.of(place), argument.dims) for place in places))

    def torch(self, node: Node, args: list[str]) -> str:
        terms = node["terms"]
        scores, links, window, *rest = args
        pairs = [f"({a}, {x})" for a, x in zip(rest[:terms], rest[terms : 2 * terms], strict=True)]
        operands = _operand_texts(Parts.of(node).operands, rest[2 * terms :])
        function = function_text(node["function"].value)
        matrices = f"{scores}, {links}, {window}"
        return f"blocks.exact.errors({function}, {matrices}, [{', '.join(pairs)}], {operands}, halo, window)"

    def triton(self, node: Node, args: list[str], tile: TileContext) -> str:
        return tile.walked_rows(node, args)

    def flops(self, node: Node, extent: dict[str, int]) -> int:
        parts = Parts.of(node)
        return _walked(node, extent) + 2 * len(parts.rows) * _inside(node, extent)

    def keeps_zero(self, node: Node, dim: str) -> bool:
        return dim == "V"  # the loop over rows masks them


class ExactErrorsGradient(Operator):
    """D [i, p, V] from the predictions [r, p, V], the gradients dE [i, p, V], G, L, Gamma and e's others."""

    name = "exact_errors_gradient"

    def derivative(self, node: Node, gradient: Node, index: int) -> Node | None:
        raise NotImplementedError("a block program is differentiated once")

    def torch(self, node: Node, args: list[str]) -> str:
        operands = _operand_texts(node.args[5:], args[5:])
        function = function_text(node["function"].slopes[0])
        return f"blocks.exact.gradient({function}, {', '.join(args[:5])}, {operands}, halo, window)"

    def triton(self, node: Node, args: list[str], tile: TileContext) -> str:
        return tile.walked_rows(node, args)

    def flops(self, node: Node, extent: dict[str, int]) -> int:
        return _walked(node, extent)

    def keeps_zero(self, node: Node, dim: str) -> bool:
        return dim == "V"


@dataclass(frozen=True)
class _Gradient:
    """The gradients of all arguments from D [r, p, V], by place."""

    parts: Parts
    function: RowFunction
    errors: Node
    predicted: Node
    whole: Node

    def of(self, place: int) -> Node:
        """The gradient of one argument, perhaps with axes that it has not."""
        parts, terms = self.parts, len(self.parts.rows)
        if place >= 3 + 2 * terms:
            return self._pulled(place - 2 - 2 * terms)
        reached = self._pulled(0)
        if place >= 3 + terms:
            return build.dot(parts.factors[place - 3 - terms], reached, "r")
        if place >= 3:
            return build.contract(reached, parts.rows[place - 3], ("p", "V"))
        if place == 0:
            return build.neg(build.contract(reached, parts.sums(self.errors), ("r", "V")))
        pulled = build.dot(parts.scores, reached, "p")  # [r, g, V]: the gradient of -W_j
        if place == 1:
            return build.neg(build.contract(pulled, parts.written(self.errors), ("g", "V")))
        errors = build.rename(self.errors, {"p": "g"})
        through = build.dot(parts.links, pulled, "r")
        return build.neg(build.rename(build.sum_(build.mul(errors, through), "V"), {"g": "p"}))

    def _pulled(self, index: int) -> Node:
        return self.function.pulled(index, (self.predicted, *self.parts.operands), self.whole)


def function_text(graph: Node) -> str:
    """A function of rows as torch text: of x[0], x[1], ..."""
    return f"lambda *x: {_text(graph)}"


def _text(node: Node) -> str:
    if node.op == "leaf":
        return f"x[{node['index']}]"
    texts = [_text(argument) for argument in node.args]
    atoms = [t if a.op == "leaf" else f"({t})" for t, a in zip(texts, node.args, strict=True)]
    return _WITHIN[node.op].torch(node, atoms)


def _operand_texts(operands: Sequence[Node], texts: Sequence[str]) -> str:
    """Each with how many axes it has from that of the sources on, 0 for none."""
    axes = [len(node.dims) if "p" in node.dims else 0 for node in operands]
    return f"[{', '.join(f'({text}, {count})' for text, count in zip(texts, axes, strict=True))}]"


def _inside(node: Node, extent: dict[str, int]) -> int:
    """The entries that windows reach."""
    return extent["i"] * extent["c"] * extent["V"]


def _walked(node: Node, extent: dict[str, int]) -> int:
    """Of every row: W_j from the rows before, G times it for the rows of its window, and e."""
    inner = {**extent, "p": extent["c"]}
    nodes = [*_within(node["function"].value)]
    row = sum(_WITHIN[entry.op].flops(entry, inner) for entry in nodes)
    sums = size(("i", "i", "g", "V"), extent)  # half of all pairs of rows, two operations each
    return sums + 2 * _inside(node, extent) * extent["g"] + extent["i"] * row


def _within(graph: Node) -> list[Node]:
    found: dict[Node, None] = {}
    stack = [graph]
    while stack:
        node = stack.pop()
        if node.op != "leaf" and node not in found:
            found[node] = None
            stack.extend(node.args)
    return list(found)

"""Errors that every row of a block predicts again, as statements: a loop over its rows.

The values of all rows stay in the registers, [rows, sources, V]; a step of the loop makes one row's of them
(see ir/operators/exact.py). Rows without a token, and sources outside a row's window, are zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from atlasgen.emit.axes import mask_name, walked_function
from atlasgen.ir.node import Node, walk
from atlasgen.ir.operators.exact import Parts

if TYPE_CHECKING:
    from atlasgen.emit.triton_kernel import KernelEmitter

STEP = "walked_row"
_OWN = "is_walked"


def walked_rows(emitter: KernelEmitter, node: Node, args: Sequence[str]) -> str:
    """The variable of a value of `WALKS`; writes the loop that makes it."""
    return RowWalk(emitter, node, args).write()


class RowWalk:
    """The loop of one value. args: the texts of the node's arguments."""

    def __init__(self, emitter: KernelEmitter, node: Node, args: Sequence[str]) -> None:
        self.emitter, self.writer, self.node = emitter, emitter.writer, node
        own = [self._named(text, argument) for text, argument in zip(args, node.args, strict=True)]
        self.texts = dict(zip(node.args, own, strict=True))

    def write(self) -> str:
        """All statements; the name of the value."""
        emitter, node = self.emitter, self.node
        forward = node.op == "exact_errors"
        start = emitter.zeros(node.dims)
        if not forward:
            gradient = node.args[1]
            start = f"{start} + {emitter.align(self.texts[gradient], gradient.dims, node.dims)}"
        if node in emitter.equations:
            self.writer.comment(emitter.equations[node])
        name = emitter.namer.name(node, node.op)
        self.writer.line(f"{name} = {start}")
        if forward:
            self._forward(name)
        else:
            self._backward(name)
        return name

    def _named(self, text: str, argument: Node) -> str:
        """A name for what every step of the loop reads."""
        if text.isidentifier() or argument.op == "const":
            return text
        return self.emitter.assign_text(text, argument.op)

    def _forward(self, name: str) -> None:
        parts, text, line = Parts.of(self.node), self.texts, self.writer.line
        written, predicted, error = map(self.emitter.namer.fresh, ("sums", "predicted", "error"))
        self.writer.push(f"for {STEP} in range(first, last):")
        line(f"{_OWN} = row == {STEP}")
        window = text[parts.window]
        weights = self._of_row(parts.links, "r")
        line(f"{written} = tl.sum(({weights}[:, None] * {window})[:, :, None] * {name}, 0)")
        terms = [self._term(*pair) for pair in zip(parts.factors, parts.rows, strict=True)]
        scores = f"{text[parts.scores]}.to(ROW_DOT)"
        product = f"tl.dot({scores}, {written}.to(ROW_DOT), input_precision=ROW_PRECISION)"
        line(f"{predicted} = {' + '.join(terms)} - {product}")
        value = self._applied([predicted, *(text[x] for x in parts.operands)])
        line(f"{error} = {self._in_window(value)}")
        line(f"{name} = tl.where({_OWN}[:, None, None], {error}[None, :, :], {name})")
        self.writer.pop()

    def _term(self, factor: Node, row: Node) -> str:
        given = self.emitter.align(self.texts[row], row.dims, ("p", "V"))
        if factor.op == "const" and factor["value"] == 1.0:
            return given
        return f"{self._of_row(factor, 'r')} * {given}"

    def _backward(self, name: str) -> None:
        predicted, _, scores, links, window, *operands = self.node.args
        text, line, emitter = self.texts, self.writer.line, self.emitter
        own, pulled, error, reached = map(
            emitter.namer.fresh, ("predicted", "pulled", "error", "d_predicted")
        )
        line(f"{pulled} = {emitter.zeros(self.node.dims)}  # of what each row's predictions take off")
        self.writer.push("for back in range(0, last - first):")
        line(f"{STEP} = last - 1 - back")
        line(f"{_OWN} = row == {STEP}")
        later = f"tl.sum({self._of_row(links, 'i')}[:, None, None] * {pulled}, 0)"
        given = f"tl.sum(tl.where({_OWN}[:, None, None], {name}, 0.0), 0)"
        whole = f"{given} - {self._of_row(window, 'i')}[:, None] * {later}"
        line(f"{error} = {self._in_window(whole)}")
        line(f"{name} = tl.where({_OWN}[:, None, None], {error}[None, :, :], {name})")
        line(f"{own} = {self._of_row(predicted, 'r')}")
        value = self._applied([own, *(text[x] for x in operands), error])
        line(f"{reached} = {self._in_window(value)}")
        product = f"tl.trans({text[scores]}).to(ROW_DOT), {reached}.to(ROW_DOT)"
        line(f"{reached} = tl.dot({product}, input_precision=ROW_PRECISION)")
        line(f"{pulled} = tl.where({_OWN}[:, None, None], {reached}[None, :, :], {pulled})")
        self.writer.pop()

    # -- rows ----------------------------------------------------------------------------------------
    def _of_row(self, node: Node, dim: str) -> str:
        """The row of the step of a value along `dim`; a value without it as it is."""
        if dim not in node.dims:
            return self.texts[node]
        own = self.emitter.align(_OWN, (dim,), node.dims)
        return f"tl.sum(tl.where({own}, {self.texts[node]}, 0.0), {node.dims.index(dim)})"

    def _in_window(self, text: str) -> str:
        """A value [sources, V] with zeros outside the step's window and in padding lanes."""
        inside = f"((reached <= {STEP}) & (reached > {STEP} - WINDOW))[:, None]"
        return f"tl.where({inside} & {mask_name('V')}[None, :], {text}, 0.0)"

    def _applied(self, given: Sequence[str]) -> str:
        """The node's function of values, given as texts, as text."""
        emitter, function = self.emitter, self.node["function"]
        graph = walked_function(self.node)
        leaves = (*function.arguments, function.gradient)
        outside = dict(emitter.text)
        emitter.text.update(dict(zip(leaves, given, strict=False)))
        for entry in walk([graph]):
            emitter.counts.update(entry.args)
        value = emitter.align(emitter.operand(graph), graph.dims, ("p", "V"))
        emitter.text.clear()
        emitter.text.update(outside)
        return value

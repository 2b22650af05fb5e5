"""Block programs as text: one value a line, arguments first.

    errors = predictions - v                    : [s, V]    # E = dl/dpred at the block's M*
    weights = dot<i>(decay, window)             : [r, s]    # P: source weights by read

The text of a program depends on the program alone, not on what the process built before: it is what
golden files hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import sympy
from sympy.printing.str import StrPrinter

from atlasgen.ir.node import Node, walk
from atlasgen.ir.program import BackwardProgram, BlockProgram

_WIDTH = 64  # column of the axes
_HIDDEN = ("dim", "row", "column", "name", "kind", "value", "expression", "signs", "function")


class ProgramText:
    """Names for the values of one program, given in the order in which its lines stand."""

    def __init__(self, roots: Iterable[Node], names: dict[Node, str], equations: dict[Node, str]) -> None:
        self.nodes = walk(roots)
        self.equations = equations
        self._names: dict[Node, str] = {}
        taken: set[str] = set()
        for node in self.nodes:
            if node.op == "const":
                continue
            base = _leaf_name(node) if node.op == "leaf" else names.get(node, "t1")
            name, number = base, 1
            if name in taken and node.op == "leaf":
                name = base = f"{base}.{''.join(node.dims)}"
            while name in taken:
                number += 1
                name = f"t{number}" if base == "t1" else f"{base}_{number}"
            taken.add(name)
            self._names[node] = name

    def name(self, node: Node) -> str:
        """The value's name, or the number itself."""
        if node.op == "const":
            return f"{node['value']:g}"
        return self._names[node]

    def inputs(self) -> list[str]:
        """One line for each leaf: name, axes and where it lives."""
        leaves = [node for node in self.nodes if node.op == "leaf"]
        width = max((len(self.name(node)) for node in leaves), default=0)
        axes = max((len(_axes(node)) for node in leaves), default=0)
        lines = []
        for node in leaves:
            place = node["kind"].replace("_", " ")
            segment = node.get("segment")
            if segment is not None:
                place += f", rows of the {segment}"
            lines.append(f"  {self.name(node):<{width}} : {_axes(node):<{axes}}  {place}")
        return lines

    def statements(self) -> list[str]:
        """One line for each computed value."""
        lines = []
        for node in self.nodes:
            if node.op in ("leaf", "const"):
                continue
            line = f"  {self.name(node)} = {self.value(node)}"
            line = f"{line:<{_WIDTH}} : {_axes(node)}"
            equation = self.equations.get(node)
            lines.append(f"{line:<{_WIDTH + 14}}  # {equation}" if equation else line)
        return lines

    def value(self, node: Node) -> str:
        """The right-hand side of a value's line."""
        arguments = [self.name(argument) for argument in node.args]
        if node.op == "map":
            return expression_text(node["expression"], arguments)
        if node.op == "add":
            text = ""
            for sign, argument in zip(node["signs"], arguments, strict=True):
                text += f" {'+' if sign > 0 else '-'} {argument}"
            return text.removeprefix(" + ").replace(" - ", "-", 1) if text[1] == "-" else text[3:]
        return f"{node.op}{_options(node)}({', '.join(arguments)})"


def program_text(program: BlockProgram) -> str:
    """The forward program: its inputs, its values, and what leaves the block."""
    text = ProgramText(program.roots(), program.names, program.equations)
    block = "any" if program.block is None else program.block
    lines = [
        f"program {program.name} (window {program.window}, halo {program.halo}, block {block})",
        "inputs",
        *text.inputs(),
        "for each block",
        *text.statements(),
        "results",
    ]
    rows = [(name, text.name(node), "output") for name, node in program.outputs.items()]
    rows += [(carry.name, text.name(carry.next), "to the next block") for carry in program.carries]
    rows += [
        (capture.name, text.name(capture.value), f"kept of an open block, else {capture.carry}")
        for capture in program.captures
    ]
    return "\n".join([*lines, *_results(rows)]) + "\n"


def backward_text(program: BackwardProgram) -> str:
    """The reversed program: gradients of carries, contributions to arguments, sums over blocks."""
    names = {**program.forward.names, **program.names}
    text = ProgramText(program.roots(), names, program.forward.equations)
    lines = [
        f"backward {program.forward.name}",
        "inputs",
        *text.inputs(),
        "for each block, from the last to the first",
        *text.statements(),
        "results",
    ]
    rows = []
    for part in program.contributions:
        segment = part.leaf.get("segment")
        place = f"added to rows of the {segment}" if segment else "summed over blocks and batch"
        rows.append((f"d {part.tensor}", text.name(part.node), place))
    rows += [(f"d {part.tensor}", text.name(part.node), "summed over blocks") for part in program.accumulate]
    rows += [
        (f"d {carry.leaf['carry']}", text.name(carry.next), "to the block before")
        for carry in program.carries
    ]
    return "\n".join([*lines, *_results(rows)]) + "\n"


class _ScalarPrinter(StrPrinter):
    """Scalar expressions with `where` for cases and floats without trailing digits."""

    def _print_Float(self, expr: sympy.Float) -> str:
        return f"{float(expr):g}"

    def _print_Piecewise(self, expr: sympy.Piecewise) -> str:
        *cases, (last, condition) = expr.args
        text = self._print(last)
        if condition != sympy.true:
            text = f"where({self._print(condition)}, {text}, 0)"
        for value, condition in reversed(cases):
            text = f"where({self._print(condition)}, {self._print(value)}, {text})"
        return text

    def _print_Relational(self, expr: sympy.Rel) -> str:
        return f"{self._print(expr.lhs)} {expr.rel_op} {self._print(expr.rhs)}"


def expression_text(expression: sympy.Expr, arguments: list[str]) -> str:
    """A scalar expression in x0, x1, ... with the names of its arguments."""
    text = _ScalarPrinter({"order": "none"}).doprint(expression)
    text = re.sub(r"(?<!\*)\*(?!\*)", " * ", text)
    return re.sub(r"\bx(\d+)\b", lambda found: arguments[int(found[1])], text)


def _results(rows: list[tuple[str, str, str]]) -> list[str]:
    left = max((len(row[0]) for row in rows), default=0)
    middle = max((len(row[1]) for row in rows), default=0)
    return [f"  {name:<{left}} = {value:<{middle}}  {place}" for name, value, place in rows]


def _leaf_name(node: Node) -> str:
    return node["name"] + ("_halo" if node.get("segment") == "halo" else "")


def _axes(node: Node) -> str:
    return f"[{', '.join(node.dims)}]"


def _options(node: Node) -> str:
    row, column = node.get("row"), node.get("column")
    if node.op == "mask":
        low, high = node["low"], node["high"]
        before = "" if low is None else f"{low} <= "
        after = "" if high is None else f" <= {high}"
        return f"<{before}{row} - {column}{after}>"
    parts = [part for part in (node.get("dim"), row, column) if part is not None]
    for key, value in node.attrs:
        if key in _HIDDEN or value is False or value is None:
            continue
        parts.append(key if value is True else f"{key} {value}")
    return f"<{', '.join(parts)}>" if parts else ""

"""Names and statements of emitted code, shared by the torch and the Triton emitter."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from atlasgen.ir.node import Node

LINE = 96  # longest emitted line
INLINE = 60  # longest expression that is put into the expression that uses it


class Namer:
    """Gives each node a readable, unique variable name; reserved words are never taken."""

    def __init__(self, preferred: dict[Node, str], reserved: Iterable[str] = ()) -> None:
        self.preferred = preferred
        self.taken: Counter[str] = Counter(reserved)

    def name(self, node: Node, fallback: str) -> str:
        """A fresh name: the node's own where it has one."""
        return self.fresh(self.preferred.get(node, fallback))

    def fresh(self, base: str) -> str:
        """`base`, with a number where it is taken."""
        base = re.sub(r"\W", "_", base)
        if base not in self.taken:
            self.taken[base] += 1
            return base
        while f"{base}_{self.taken[base] + 1}" in self.taken:
            self.taken[base] += 1
        self.taken[base] += 1
        name = f"{base}_{self.taken[base]}"
        self.taken[name] += 1
        return name


FALLBACK = {
    "dot": "product",
    "sum": "total",
    "map": "value",
    "add": "combined",
    "mask": "banded",
    "cumsum": "running",
    "decay": "decay",
    "decay_from_start": "since_start",
    "decay_to_end": "until_end",
    "decay_whole": "whole_decay",
    "when_start": "at_border",
    "expand_age": "by_age",
    "softmax": "softmax",
}


def fallback(node: Node) -> str:
    """A name for a node that the schedule did not name."""
    return FALLBACK.get(node.op, node.op)


def use_counts(nodes: Iterable[Node], roots: Iterable[Node]) -> Counter[Node]:
    """How often each node is an argument or a root."""
    counts: Counter[Node] = Counter(roots)
    for node in nodes:
        counts.update(node.args)
    return counts


class Writer:
    """Indented lines of Python; equal right-hand sides in one scope become one variable."""

    def __init__(self, indent: int = 1) -> None:
        self.lines: list[str] = []
        self.indent = indent
        self._known: list[dict[str, str]] = [{}]

    def line(self, text: str = "") -> None:
        """One line at the current indentation."""
        self.lines.append(("    " * self.indent + text).rstrip())

    def comment(self, text: str) -> None:
        """A comment, wrapped."""
        words, row = text.split(), "#"
        for word in words:
            if len(row) + len(word) + 1 + 4 * self.indent > LINE:
                self.line(row)
                row = "#"
            row += " " + word
        self.line(row)

    def push(self, text: str) -> None:
        """Open a block: `text` ends with a colon."""
        self.line(text)
        self.indent += 1
        self._known.append({})

    def pop(self) -> None:
        """Close the innermost block."""
        self.indent -= 1
        self._known.pop()

    def known(self, text: str) -> str | None:
        """The variable that already holds this expression, if any."""
        return next((scope[text] for scope in self._known if text in scope), None)

    def remember(self, text: str, name: str) -> None:
        """Record that `name` holds the expression from here to the end of the block."""
        self._known[-1][text] = name

    def text(self) -> str:
        """All lines."""
        return "\n".join(self.lines) + "\n"


def parenthesized(text: str) -> str:
    """The expression as an operand: calls, names and indexed names stay bare."""
    if re.fullmatch(r"[\w.]+(\[[^\[\]]*\])?", text) or _one_call(text):
        return text
    return f"({text})"


def _one_call(text: str) -> bool:
    match = re.match(r"[\w.]+\(", text)
    if not match or not text.endswith(")"):
        return False
    depth = 0
    for position, character in enumerate(text[match.end() - 1 :]):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return match.end() + position == len(text)
    return False

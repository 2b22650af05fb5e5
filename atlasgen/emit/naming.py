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
    "channel_scores": "decayed_scores",
    "channel_mix": "decayed_rows",
    "unit_inverse": "solved",
    "unit_solve": "solution",
    "cumsum": "running",
    "decay": "decay",
    "decay_from_start": "since_start",
    "decay_to_end": "until_end",
    "decay_whole": "whole_decay",
    "when_start": "at_border",
    "expand_age": "by_age",
    "softmax": "shares",
    "newton_schulz": "orthogonal",
    "newton_schulz_gradient": "d_orthogonal",
    "take": "factor",
    "exact_errors": "errors",
    "exact_errors_gradient": "d_errors",
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


def wrap(text: str, indent: int) -> list[str]:
    """A statement as lines of at most LINE characters, broken at brackets, then at operators."""
    prefix = " " * indent
    if len(text) + indent <= LINE:
        return [(prefix + text).rstrip()]
    span = _widest_call(text)
    if span is not None and len(text) - span[1] + indent > LINE:
        span = None  # what follows the call would not fit: break at operators
    if span is not None:
        opening, closing = span
        inner = [prefix + text[: opening + 1]]
        parts = _split(text[opening + 1 : closing], ", ")
        for part in parts:
            lines = wrap(part, indent + 4)
            lines[-1] += "," if len(parts) > 1 else ""
            inner += lines
        return inner + wrap(text[closing:], indent)
    left, equals, right = text.partition(" = ")
    if not equals or not left.isidentifier():
        terms = _split_operators(text)
        if len(terms) == 1:
            return [prefix + text]
        return [line for term in terms for line in wrap(term, indent)]
    lines = [f"{prefix}{left} = ("]
    for term in _split_operators(right):
        lines += wrap(term, indent + 4)
    return [*lines, f"{prefix})"]


def _widest_call(text: str) -> tuple[int, int] | None:
    """Positions of the outermost brackets with the most inside."""
    spans, stack = [], []
    for position, character in enumerate(text):
        if character in "([":
            stack.append(position)
        elif character in ")]" and stack:
            opening = stack.pop()
            if not stack and text[opening] == "(" and opening and text[opening - 1] not in " (":
                spans.append((opening, position))
    several = [span for span in spans if len(_split(text[span[0] + 1 : span[1]], ", ")) > 1]
    return max(several or spans, key=lambda span: span[1] - span[0], default=None)


def _split(text: str, separator: str) -> list[str]:
    """Split at separators outside brackets."""
    parts, depth, begin = [], 0, 0
    for position, character in enumerate(text):
        depth += (character in "([") - (character in ")]")
        if depth == 0 and text.startswith(separator, position) and position >= begin:
            parts.append(text[begin:position])
            begin = position + len(separator)
    return [*parts, text[begin:]]


def _split_operators(text: str) -> list[str]:
    """Split before + - & * outside brackets, the loosest operator that occurs."""
    for operator in (" & ", " + ", " - ", " * "):
        parts = _split(text, operator)
        if len(parts) > 1:
            return [parts[0], *(operator[1:] + part for part in parts[1:])]
    return [text]


class Writer:
    """Indented lines of Python; equal right-hand sides in one scope become one variable."""

    def __init__(self, indent: int = 1) -> None:
        self.lines: list[str] = []
        self.indent = indent
        self._known: list[dict[str, str]] = [{}]

    def line(self, text: str = "") -> None:
        """One statement at the current indentation, wrapped like a formatter would."""
        self.lines.extend(wrap(text, 4 * self.indent))

    def comment(self, text: str) -> None:
        """A comment, wrapped."""
        words, row = text.split(), "#"
        for word in words:
            if len(row) + len(word) + 1 + 4 * self.indent > LINE:
                self.lines.append("    " * self.indent + row)
                row = "#"
            row += " " + word
        self.lines.append("    " * self.indent + row)

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

"""Emitted Python in the project's format: layout, brackets, no assignment that nothing reads.

The emitters write right statements; this pass prints them as the project's formatter would, from their
syntax trees, so that shipped sources pass the same checks as all others. Comments stay where they are.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Sequence

WIDTH = 110
# Binary operators by how tightly they bind; operators of one level break together.
LEVELS: dict[type, int] = {
    ast.BitOr: 1,
    ast.BitXor: 2,
    ast.BitAnd: 3,
    ast.Add: 5,
    ast.Sub: 5,
    ast.Mult: 6,
    ast.Div: 6,
    ast.FloorDiv: 6,
    ast.Mod: 6,
}
SYMBOLS: dict[type, str] = {
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.BitAnd: "&",
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
}
UNARY, COMPARE, TERNARY = 8, 0, -1


def formatted(source: str) -> str:
    """The same program: laid out anew, without assignments that are never read."""
    tree = ast.parse(source)
    for function in tree.body:
        if isinstance(function, ast.FunctionDef):
            while _drop_unread(function):
                pass
    return _Printer(source).module(tree)


def _drop_unread(function: ast.FunctionDef) -> bool:
    """Remove assignments to names that the function never reads; True if there were any."""
    read = {
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    found = False
    for block in ast.walk(function):
        for field in ("body", "orelse"):
            body = getattr(block, field, None)
            if isinstance(body, list):
                kept = [statement for statement in body if not _is_unread(statement, read)]
                found |= len(kept) < len(body)
                setattr(block, field, kept or (body and _placeholder(block, field)))
    return found


def _placeholder(block: ast.AST, field: str) -> list[ast.stmt]:
    """The body of a block that lost all statements: none, unless another part of it has some."""
    needed = isinstance(block, ast.FunctionDef) or (field == "body" and bool(getattr(block, "orelse", None)))
    return [ast.Pass(lineno=0, end_lineno=0)] if needed else []


def _is_unread(statement: ast.stmt, read: set[str]) -> bool:
    if isinstance(statement, (ast.Assign, ast.AugAssign)):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        names = [name for target in targets for name in ast.walk(target)]
        if any(isinstance(name, (ast.Subscript, ast.Attribute)) for name in names):
            return False  # it changes an object
        return all(name.id not in read for name in names if isinstance(name, ast.Name))
    return isinstance(statement, (ast.If, ast.For)) and not (statement.body or statement.orelse)


def text(node: ast.AST) -> str:
    """A node on one line."""
    return ast.unparse(node).replace("'", '"')


class _Printer:
    """Prints a module statement by statement, with the comments of its source."""

    def __init__(self, source: str) -> None:
        self.source = source.splitlines()
        self.lines: list[str] = []
        self.own_line: dict[int, str] = {}
        self.trailing: dict[int, str] = {}
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                alone = not token.line[: token.start[1]].strip()
                (self.own_line if alone else self.trailing)[token.start[0]] = token.string

    def module(self, tree: ast.Module) -> str:
        """The whole module; two blank lines around functions."""
        before: ast.stmt | None = None
        for statement in tree.body:
            if isinstance(statement, ast.FunctionDef):
                self.lines += ["", ""]
            elif isinstance(before, ast.Expr):
                self.lines.append("")  # after the module's documentation
            self.statement(statement, 0)
            before = statement
        return "\n".join(self.lines) + "\n"

    # -- statements ----------------------------------------------------------------------------------
    def block(self, statements: Sequence[ast.stmt], indent: int) -> None:
        for statement in statements:
            self.statement(statement, indent)

    def statement(self, node: ast.stmt, indent: int) -> None:
        """One statement after the comments above it."""
        self._comments(node, indent)
        count = len(self.lines)
        if isinstance(node, ast.FunctionDef):
            self._function(node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            self.lines += self._documentation(node.value, indent)
        elif isinstance(node, ast.If):
            self._compound("if ", node.test, node.body, indent)
            if node.orelse:
                self.lines.append(" " * indent + "else:")
                self.block(node.orelse, indent + 4)
        elif isinstance(node, ast.For):
            self._compound(f"for {text(node.target)} in ", node.iter, node.body, indent)
        else:
            self.lines += self._simple(node, indent)
            comment = self.trailing.get(node.end_lineno or 0)
            if comment and len(self.lines) > count:
                self.lines[-1] += f"  {comment}"

    def _comments(self, node: ast.stmt, indent: int) -> None:
        line = node.lineno - 1
        above: list[str] = []
        while line in self.own_line:
            above.append(" " * indent + self.own_line[line])
            line -= 1
        self.lines += reversed(above)

    def _documentation(self, node: ast.Constant, indent: int) -> list[str]:
        """As it stands; a single line that is too long is broken between words."""
        lines = self.source[node.lineno - 1 : node.end_lineno]
        if len(lines) > 1 or len(lines[0]) <= WIDTH:
            return lines
        words, found, row = lines[0].split(), [], " " * indent
        for word in words:
            if len(row) + len(word) + 1 > WIDTH - 3:
                found.append(row)
                row = " " * indent
            row += word if row.endswith(" ") and not row.strip() else f" {word}"
        return [*found, row.removesuffix('"""'), " " * indent + '"""']

    def _compound(self, prefix: str, head: ast.expr, body: Sequence[ast.stmt], indent: int) -> None:
        self.lines += statement_lines(prefix, head, ":", indent)
        self.block(body, indent + 4)

    def _function(self, node: ast.FunctionDef) -> None:
        self.lines += [f"@{text(decorator)}" for decorator in node.decorator_list]
        arguments = text(node.args)
        head = f"def {node.name}({arguments}):"
        if len(head) <= WIDTH:
            self.lines.append(head)
        else:
            entries = [f"    {text(argument)}," for argument in node.args.args]
            self.lines += [f"def {node.name}(", *entries, "):"]
        self.block(node.body, 4)

    def _simple(self, node: ast.stmt, indent: int) -> list[str]:
        if isinstance(node, ast.Assign):
            targets = "".join(f"{text(target).strip('()')} = " for target in node.targets)
            (target, *others) = node.targets
            if isinstance(target, ast.Tuple) and not others and indent + len(targets) >= WIDTH:
                names = [f"{' ' * indent}    {text(element)}," for element in target.elts]
                return [" " * indent + "(", *names, *statement_lines(") = ", node.value, "", indent)]
            return statement_lines(targets, node.value, "", indent)
        if isinstance(node, ast.AugAssign):
            return statement_lines(f"{text(node.target)} {SYMBOLS[type(node.op)]}= ", node.value, "", indent)
        if isinstance(node, ast.Return) and node.value is not None:
            return statement_lines("return ", node.value, "", indent)
        if isinstance(node, ast.Expr):
            return statement_lines("", node.value, "", indent)
        return [" " * indent + text(node)]


# --------------------------------------------------------------------------------------------------
# expressions


def statement_lines(prefix: str, node: ast.expr, suffix: str, indent: int) -> list[str]:
    """`prefix node suffix` as a statement: what has no brackets of its own to break in gets some."""
    flat = " " * indent + prefix + text(node) + suffix
    if len(flat) <= WIDTH:
        return [flat]
    if _has_operators(node):
        hugging = _hugging(prefix, node, suffix, indent)
        return hugging or [
            " " * indent + prefix + "(",
            *lines_of("", node, "", indent + 4),
            " " * indent + ")" + suffix,
        ]
    return lines_of(prefix, node, suffix, indent)


def _has_operators(node: ast.expr) -> bool:
    return isinstance(node, (ast.BinOp, ast.Compare, ast.IfExp, ast.BoolOp))


def _hugging(prefix: str, node: ast.expr, suffix: str, indent: int) -> list[str] | None:
    """Where one operator is looser than all others, the operand in brackets at an end breaks inside them."""
    if not isinstance(node, ast.BinOp) or len(_operands(node)) > 2:
        return None
    flat = text(node)
    last, needed = _end(node, "right")
    words = _operand(last, needed)
    if isinstance(last, ast.Call) or words.startswith("("):
        head = prefix + flat.removesuffix(words)
        lines = _operand_lines(head, last, suffix, indent, needed)
        if len(lines) > 1 and len(lines[0]) <= WIDTH:
            return lines
        return _in_last_brackets(head, words + suffix, indent)
    first, needed = _end(node, "left")
    words = _operand(first, needed)
    if words.startswith("(") and _level(first) < needed:
        return _operand_lines(prefix, first, flat.removeprefix(words) + suffix, indent, needed)
    return None


def _in_last_brackets(head: str, rest: str, indent: int) -> list[str] | None:
    """`head rest` broken inside the last pair of brackets of `head` that opens on the line; None without."""
    space, depth, pairs = " " * indent, 0, list[list[int]]()
    for place, letter in enumerate(head):
        if letter in "([":
            pairs += [[place, place]] if depth == 0 else []
            depth += 1
        elif letter in ")]":
            depth -= 1
            pairs[-1][1] = place
    fitting = [pair for pair in pairs if indent + pair[0] < WIDTH]
    if not fitting:
        return None
    opening, closing = fitting[-1]
    lines = [space + head[: opening + 1], f"{space}    {head[opening + 1 : closing]}"]
    lines.append(space + head[closing:] + rest)
    return lines if all(len(line) <= WIDTH for line in lines) else None


def _end(node: ast.BinOp, side: str) -> tuple[ast.expr, int]:
    """The first or last operand of an operation that is no operation itself, and the level it needs."""
    level = _level(node) + (side == "right")
    operand: ast.expr = getattr(node, side)
    if isinstance(operand, ast.BinOp) and _level(operand) >= level:
        return _end(operand, side)
    return operand, level


def lines_of(prefix: str, node: ast.expr, suffix: str, indent: int) -> list[str]:
    """An expression inside brackets, or one that has brackets to break in."""
    flat = " " * indent + prefix + text(node) + suffix
    if len(flat) <= WIDTH:
        return [flat]
    if isinstance(node, ast.Call):
        return _call(prefix, node, suffix, indent)
    if isinstance(node, (ast.Tuple, ast.List, ast.Dict)):
        return _collection(prefix, node, suffix, indent)
    if isinstance(node, ast.Attribute):
        return lines_of(prefix, node.value, f".{node.attr}{suffix}", indent)
    if isinstance(node, ast.Subscript):
        index = text(node.slice).strip("()") if isinstance(node.slice, ast.Tuple) else text(node.slice)
        return _operand_lines(prefix, node.value, f"[{index}]{suffix}", indent, UNARY + 1)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return _operand_lines(f"{prefix}-", node.operand, suffix, indent, UNARY)
    if isinstance(node, ast.IfExp):
        return [
            *lines_of(prefix, node.body, "", indent),
            *lines_of("if ", node.test, "", indent),
            *lines_of("else ", node.orelse, suffix, indent),
        ]
    if isinstance(node, ast.BinOp):
        return _operation(prefix, node, suffix, indent)
    return [flat]


def _call(prefix: str, node: ast.Call, suffix: str, indent: int) -> list[str]:
    entries: list[tuple[str, ast.expr]] = [("", argument) for argument in node.args]
    entries += [(f"{keyword.arg}=", keyword.value) for keyword in node.keywords]
    if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call) and len(entries) < 2:
        # Break in the longer of two chained calls.
        last = ", ".join(name + text(value) for name, value in entries)
        return lines_of(prefix, node.func.value, f".{node.func.attr}({last}){suffix}", indent)
    head = " " * indent + prefix + text(node.func) + "("
    return [head, *_entries(entries, indent + 4), " " * indent + ")" + suffix]


def _entries(entries: Sequence[tuple[str, ast.expr]], indent: int) -> list[str]:
    """Arguments one a line; a single one has no comma."""
    comma = "," if len(entries) > 1 else ""
    return [line for name, value in entries for line in lines_of(name, value, comma, indent)]


def _collection(prefix: str, node: ast.Tuple | ast.List | ast.Dict, suffix: str, indent: int) -> list[str]:
    opening, closing = {ast.Tuple: "()", ast.List: "[]", ast.Dict: "{}"}[type(node)]
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        entries = [(f"{text(key)}: ", value) for key, value in pairs if key is not None]
    else:
        entries = [("", element) for element in node.elts]
    body = [line for name, value in entries for line in lines_of(name, value, ",", indent + 4)]
    return [" " * indent + prefix + opening, *body, " " * indent + closing + suffix]


def _level(node: ast.expr) -> int:
    """How tightly an expression's outermost operator binds."""
    if isinstance(node, ast.BinOp):
        return LEVELS[type(node.op)]
    if isinstance(node, ast.UnaryOp):
        return UNARY
    return {ast.Compare: COMPARE, ast.BoolOp: TERNARY, ast.IfExp: TERNARY}.get(type(node), UNARY + 1)


def _operands(node: ast.BinOp) -> list[tuple[str, ast.expr, int]]:
    """(operator, operand, level that it needs) of a chain of operators of one level."""
    level = _level(node)
    left = node.left
    chained = isinstance(left, ast.BinOp) and _level(left) == level
    first = _operands(left) if isinstance(left, ast.BinOp) and chained else [("", left, level)]
    return [*first, (f"{SYMBOLS[type(node.op)]} ", node.right, level + 1)]


def _operand(node: ast.expr, level: int) -> str:
    return f"({text(node)})" if _level(node) < level else text(node)


def _operation(prefix: str, node: ast.BinOp, suffix: str, indent: int) -> list[str]:
    """A chain of operators, each operand on a line of its own."""
    operands = _operands(node)
    lines: list[str] = []
    for number, (operator, operand, level) in enumerate(operands):
        before = prefix if number == 0 else operator
        after = suffix if number == len(operands) - 1 else ""
        lines += _operand_lines(before, operand, after, indent, level)
    return lines


def _operand_lines(prefix: str, node: ast.expr, suffix: str, indent: int, level: int) -> list[str]:
    """An operand, in brackets where it binds less tightly."""
    if _level(node) >= level:
        return lines_of(prefix, node, suffix, indent)
    flat = f"{' ' * indent}{prefix}({text(node)}){suffix}"
    if len(flat) <= WIDTH:
        return [flat]
    inside = lines_of("", node, "", indent + 4)
    return [" " * indent + prefix + "(", *inside, " " * indent + ")" + suffix]

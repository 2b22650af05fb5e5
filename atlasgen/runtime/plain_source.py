"""What a kernel's text says, without how it is written: comments, documentation and layout do not count."""

from __future__ import annotations

import ast


def plain_source(source: str, kernel: str | None = None) -> str:
    """The code of a module in one canonical layout; with `kernel`, only it and the functions that it calls.

    Texts that differ in comments, docstrings or layout give the same. Raises LookupError where the module has
    no function named `kernel`, SyntaxError where `source` is no Python.
    """
    tree = ast.parse(source)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    if kernel is not None and kernel not in functions:
        raise LookupError(f"kernel: got {kernel!r}, the source has {', '.join(functions) or 'none'}")
    wanted = set(functions) if kernel is None else _reached(kernel, functions)
    body: list[ast.stmt] = []
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Assign):
            body.append(node)
        elif isinstance(node, ast.FunctionDef) and node.name in wanted:
            if ast.get_docstring(node) is not None:
                node.body = node.body[1:] or [ast.Pass()]
            body.append(node)
    return ast.unparse(ast.Module(body, [])) + "\n"


def _reached(kernel: str, functions: dict[str, ast.FunctionDef]) -> set[str]:
    """The names of a function and of all that it calls, directly or not."""
    found, stack = set(), [kernel]
    while stack:
        name = stack.pop()
        if name not in found:
            found.add(name)
            names = {node.id for node in ast.walk(functions[name]) if isinstance(node, ast.Name)}
            stack.extend(names & set(functions))
    return found

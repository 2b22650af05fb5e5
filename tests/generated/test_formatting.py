"""The layout of emitted sources is the formatter's, and the program stays the same."""

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from atlasgen.emit.formatting import WIDTH, formatted

ROOT = Path(__file__).parents[2]
RUFF = [sys.executable, "-m", "ruff"]

# Statements that are too long for a line, each laid out by another rule of the formatter.
SHORT = (
    "x = FIRST(a, 0, reverse=True, more_words_here=1, another_word=2) + third_value_3",
    "x = third_value_3 + FIRST(a * b, 0, reverse=True, more_words_here=1, another_word=2)",
    "x = (FIRST + SECOND + THIRD + FOURTH) * fifth_",
    "x = fifth_ * (FIRST + SECOND + THIRD + FOURTH)",
    "x = (FIRST + SECOND + THIRD + w) * fifth_[:, None]",
    "x = FIRST[:, None] * SECOND[None, :] * THIRD[:]",
    "x = FIRST * SECOND - THIRD * FOURTH - q",
    "x = -(FIRST * SECOND * THIRD * FOURTH)",
    "x = -call(FIRST * SECOND * THIRD * FOURTH)",
    "x = call(FIRST * SECOND * THIRD * FOURTH)[:, None]",
    "x = call(FIRST, SECOND, THIRD).to(some.float32_t)",
    "x = call(FIRST, SECOND, THIRD) if CONDITION else 0.0",
    "x += call(FIRST * SECOND, THIRD, FOURTH)",
    "x = (FIRST >= SECOND) & (THIRD < FOURTH)",
    "call(FIRST + SECOND * THIRD, x, mask=is_feature_)",
    "x = call(call((FIRST + SECOND) * THIRD) - FOURTH)",
    "x = [FIRST, SECOND, THIRD, FOURTH]",
    "FIRST, SECOND, THIRD, x = (a, b, a, b)",
    "FIRST, SECOND, THIRD, x = (FIRST, SECOND, THIRD, b)",
)
LONG = [re.sub(r"\b([A-Z])[A-Z]+\b", r"value_\1_with_a_name_that_is_long", text) for text in SHORT]


def function(*statements: str) -> str:
    body = "\n".join(f"            {statement}" for statement in statements)
    return f"def f(a, b):\n    for block in range(a):\n        if b:\n{body}\n    return x\n"


def ruff_format(source: str) -> str:
    if not shutil.which("ruff") and subprocess.run([*RUFF, "--version"], capture_output=True).returncode:
        pytest.skip("ruff is not installed")
    finished = subprocess.run(
        [*RUFF, "format", "--config", str(ROOT / "pyproject.toml"), "-"],
        input=source,
        capture_output=True,
        text=True,
        check=True,
    )
    return finished.stdout


def test_the_formatter_changes_nothing():
    source = formatted(
        "\n\n".join(function(statement).replace("f(", f"f{n}(") for n, statement in enumerate(LONG))
    )
    assert ruff_format(source.lstrip("\n")) == source.lstrip("\n")


@pytest.mark.parametrize("statement", LONG, ids=range(len(LONG)))
def test_the_program_stays_the_same(statement):
    source = function(statement)
    text = formatted(source)
    assert ast.dump(ast.parse(text)) == ast.dump(ast.parse(source))
    assert formatted(text) == text
    assert len(text.splitlines()) > len(source.splitlines())
    assert max(map(len, text.splitlines())) <= WIDTH


def test_comments_and_documentation_stay():
    source = (
        '"""A module.\n\nMore.\n"""\nimport a\n\n@a.jit\ndef f(x):\n    """One function."""\n'
        "    # why this\n    # and that\n    y = (x)  # in words\n    return y\n"
    )
    assert formatted(source) == (
        '"""A module.\n\nMore.\n"""\n\nimport a\n\n\n@a.jit\ndef f(x):\n    """One function."""\n'
        "    # why this\n    # and that\n    y = x  # in words\n    return y\n"
    )


def test_a_long_documentation_line_is_broken_between_words():
    words = " ".join(f"word_{number}" for number in range(30))
    text = formatted(f'def f():\n    """{words}."""\n    return 1\n')
    assert max(map(len, text.splitlines())) <= WIDTH
    (found,) = (node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef))
    assert " ".join(str(ast.get_docstring(found)).split()) == f"{words}."


def test_what_nothing_reads_is_left_out():
    """Also what only such values read, sums that are only added to, and blocks that are then empty."""
    source = (
        "def f(pointer, flag):\n    a = 1\n    b = a + 1\n    c = 0\n    if flag:\n        c += b\n"
        "    d, e = pair(2)\n    g, h = pair(3)\n    pointer[0] = 4\n    for i in range(3):\n        j = i\n"
        "    store(pointer, g)\n"
    )
    assert formatted(source).strip() == (
        "def f(pointer, flag):\n    g, h = pair(3)\n    pointer[0] = 4\n    store(pointer, g)"
    )


def test_calls_stay_where_their_result_is_not_used():
    source = "def f(items):\n    items.append(1)\n    store(items)\n    return items\n"
    assert formatted(source).strip() == source.strip()


def test_shipped_packages_pass_the_linter():
    command = [*RUFF, "check", "--no-cache", str(ROOT / "generated")]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stdout

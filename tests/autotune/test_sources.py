"""A kernel's code alone: what changes its key and what does not."""

from __future__ import annotations

import pytest

from atlasgen.runtime.plain_source import plain_source

SOURCE = '''"""Two kernels."""

import triton
import triton.language as tl


@triton.jit
def twice(x):
    """2 x."""
    return 2 * x  # a comment


@triton.jit
def first(pointer, SIZE: tl.constexpr):
    tl.store(pointer, twice(tl.load(pointer)))


@triton.jit
def second(pointer):
    tl.store(pointer, 0)
'''


def test_a_kernel_comes_with_what_it_calls_and_without_its_siblings() -> None:
    alone = plain_source(SOURCE, "first")
    assert "def twice" in alone and "def second" not in alone and "import triton" in alone
    assert "def twice" not in plain_source(SOURCE, "second")


def test_comments_documentation_and_layout_do_not_count_but_code_does() -> None:
    other = SOURCE.replace("  # a comment", "").replace('    """2 x."""\n', "").replace("2 * x", "(2 * x)")
    assert plain_source(other) == plain_source(SOURCE)
    assert plain_source(SOURCE.replace("2 * x", "3 * x")) != plain_source(SOURCE)
    assert plain_source(SOURCE.replace("2 * x", "3 * x"), "second") == plain_source(SOURCE, "second")


def test_an_unknown_kernel_is_named_with_those_there_are() -> None:
    with pytest.raises(LookupError, match="'third'.* twice, first, second"):
        plain_source(SOURCE, "third")

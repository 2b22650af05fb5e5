"""Rules that every emitted kernel keeps, read off its text: each is a fault that somebody's kernels had."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from atlasgen.emit.plan import Structure
from atlasgen.emit.triton_module import emit_module
from atlasgen.runtime.configuration import forms
from atlasgen.schedules.serve import schedule
from atlasgen.spec import load_rule, shipped_specs

ROOT = Path(__file__).parents[2]
SHIPPED = sorted((ROOT / "generated").glob("*/kernels_*.py"))
# Forms that no package ships: what is computed inline, rows whole, kernels in other pieces.
OTHERS = (Structure(), Structure("split", "vectors", True, 2), Structure("split", "all", False, 3))
INT64 = ("memory_index", "start")
WIDE = {"slot", "batch", "head", *INT64}  # int64 because they are made of int64
OPTIONAL = (
    "atomic_add",
    "atomic_max",
    "atomic_xchg",
    "atomic_cas",
    "flip",
    "make_block_ptr",
    "device_assert",
)


def sources() -> Iterator[tuple[str, str]]:
    for path in SHIPPED:
        yield f"{path.parent.name}_{path.stem}", path.read_text("utf-8")
    for name in ("omeganet_linear", "titans_linear", "logcosh_omega"):
        for structure in OTHERS:
            yield f"{name}_{structure.label}", emit_module(schedule(load_rule(name)), structure).source


MODULES = dict(sources())


@pytest.fixture(params=MODULES, scope="module")
def source(request: pytest.FixtureRequest) -> str:
    return MODULES[request.param]


def kernels(text: str) -> Iterator[ast.FunctionDef]:
    """Functions that are launched: helpers are @triton.jit without arguments."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and isinstance(node.decorator_list[0], ast.Call):
            yield node


def calls(node: ast.AST, name: str) -> Iterator[ast.Call]:
    for entry in ast.walk(node):
        if isinstance(entry, ast.Call) and ast.unparse(entry.func) == name:
            yield entry


def assigned(function: ast.FunctionDef) -> dict[str, list[ast.expr]]:
    """Every right-hand side by the name that it is given."""
    table: dict[str, list[ast.expr]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            table.setdefault(node.targets[0].id, []).append(node.value)
    return table


def test_every_rule_with_kernels_ships_its_forms():
    names = {path.parent.name: set() for path in SHIPPED}
    for path in SHIPPED:
        names[path.parent.name].add(path.name)
    rules = {name: load_rule(name) for name in shipped_specs()}
    assert names == {name: {f"kernels_{form}.py" for form in forms(rule)} for name, rule in rules.items()}
    assert names["titans"] == {"kernels_split.py", "kernels_fused.py"}
    assert names["atlas"] == {"kernels_tokens.py", "kernels_token_grid.py"}


def test_every_product_names_its_precision(source):
    """Helpers iterate products (Newton-Schulz): rounding would grow with the steps."""
    launched = {kernel.name for kernel in kernels(source)}
    for function in ast.parse(source).body:
        for call in calls(function, "tl.dot"):
            given = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
            own = isinstance(function, ast.FunctionDef) and function.name in launched
            allowed = ("PRECISION", "ROW_PRECISION") if own else ("'ieee'", "precision")
            assert given.get("input_precision") in allowed


def test_exponents_of_decays_are_masked_before_exp(source):
    """exp of what is masked afterwards overflows, and infinity times zero is NaN."""
    for function in kernels(source):
        for call in calls(function, "tl.exp"):
            (exponent,) = call.args
            if re.search(r"\w+_(sum|clean|reset|resets)\b", ast.unparse(exponent)):
                assert isinstance(exponent, ast.Call) and ast.unparse(exponent.func) == "tl.where"
                assert ast.unparse(exponent.args[2]) == "float('-inf')"


def test_running_sums_are_of_gates_without_resets(source):
    """A gate of -inf, or -3e37 as people write it, would swallow all later ones."""
    for function in kernels(source):
        values = assigned(function)
        for name, (value, *_) in values.items():
            if name.endswith("_clean"):
                assert re.fullmatch(r"tl\.where\((.+) < -80\.0, 0\.0, \1\)", ast.unparse(value)), name


def test_offsets_are_int64_before_they_are_multiplied(source):
    """Bases of sequences, heads and blocks; a cast of a product comes too late."""
    for function in kernels(source):
        values = assigned(function)
        assert ast.unparse(values["memory_index"][0]).endswith(", tl.int64)")
        for name in ("start", "open_block"):
            for value in values.get(name, []):
                assert re.match(r"tl\.cast\([^*]*, tl\.int64\)", ast.unparse(value)), name
        for value in values.get("slot", []):
            assert ast.unparse(value) == "memory_index * blocks + block"
        for node in ast.walk(function):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
                factors = leaves_of_product(node)
                strides = {
                    f for f in factors if re.search(r"_(batch|head|row)$", f) and f not in ("halo_row",)
                }
                if strides and not {"row", "source", "feature", "token"} & factors and not rows_only(factors):
                    assert factors & WIDE, ast.unparse(node)


def leaves_of_product(node: ast.BinOp) -> set[str]:
    return {entry.id for entry in ast.walk(node) if isinstance(entry, ast.Name)}


def rows_only(factors: set[str]) -> bool:
    """Offsets inside one block stay int32: rows of the block or its halo times the row's stride."""
    return bool(factors & {"halo_row", "row", "source", "age", "age_lane"}) and not factors & {
        "tokens",
        "blocks",
    }


def test_sizes_that_change_from_call_to_call_key_nothing(source):
    for function in kernels(source):
        (decorator,) = function.decorator_list
        sizes = ["tokens", "blocks", *(entry.arg for entry in function.args.args if entry.arg == "block")]
        assert ast.unparse(decorator) == f"triton.jit(do_not_specialize={sizes})"
        given = {argument.arg: argument.annotation for argument in function.args.args}
        assert given["tokens"] is None and given["blocks"] is None


def test_no_atomics_and_nothing_that_versions_disagree_on(source):
    tree = ast.parse(source)
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not used & set(OPTIONAL)
    assert not list(calls(tree, "print"))


def test_one_flat_grid_axis(source):
    for call in calls(ast.parse(source), "tl.program_id"):
        assert ast.unparse(call) == "tl.program_id(0)"


def test_every_store_is_masked_unless_it_is_one_number(source):
    """A tile that is wider than its tensor must not write past it."""
    for function in kernels(source):
        for call in calls(function, "tl.store"):
            masked = any(keyword.arg == "mask" for keyword in call.keywords)
            lanes = {entry.id for entry in ast.walk(call.args[0]) if isinstance(entry, ast.Name)}
            assert masked or not lanes & {"row", "source", "halo_row", "feature", "value", "age_lane"}


def test_lines_fit(source):
    assert max(map(len, source.splitlines())) <= 110


def test_the_header_names_rule_and_generator(source):
    header = ast.get_docstring(ast.parse(source)) or ""
    assert re.search(r"Rule [0-9a-f]{12}, schedule [a-z]+, generator \d+\.", header)
    assert all(ast.get_docstring(function) for function in kernels(source))


@pytest.mark.parametrize("form", ["split", "fused"])
def test_linear_attention_has_no_part_of_richer_rules(form):
    text = (ROOT / "generated" / "linear_attention" / f"kernels_{form}.py").read_text("utf-8")
    names = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    names |= {node.arg for node in ast.walk(ast.parse(text)) if isinstance(node, ast.arg)}
    words = ("momentum", "window", "error", "halo", "held", "theta", "alpha", "gamma", "anchor", "age")
    assert not {name for name in names if any(word in name.lower().split("_") for word in words)}


def test_linear_attentions_state_kernel_is_one_product():
    text = (ROOT / "generated" / "linear_attention" / "kernels_split.py").read_text("utf-8")
    (state,) = (function for function in kernels(text) if function.name == "state")
    assert len(list(calls(state, "tl.dot"))) == 1


def test_kernels_of_simple_gla_do_not_know_momentum_or_windows():
    for form in ("split", "fused"):
        text = (ROOT / "generated" / "simple_gla" / f"kernels_{form}.py").read_text("utf-8")
        assert not re.search(r"momentum|window_|halo|HELD|theta|gamma", text)

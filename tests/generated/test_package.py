"""Packages of rules: what is in them, that equal specs give equal bytes, and that they are written whole."""

import ast
import hashlib
import importlib
import json
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import atlasgen
from atlasgen.cli import packages
from atlasgen.emit import package
from atlasgen.emit.triton_module import emit_module
from atlasgen.errors import ArgumentError, CompileError
from atlasgen.nn.classes import class_name
from atlasgen.runtime.configuration import DEFAULT, default_configuration
from atlasgen.runtime.launch import load_module, shipped_file
from atlasgen.runtime.torch_backend import program_source
from atlasgen.schedules.serve import schedule
from atlasgen.spec import load_rule, rule_from_table, shipped_specs

ROOT = Path(__file__).parents[2]
NAMES = [
    "__init__.py",
    "rule.toml",
    "kernels_split.py",
    "kernels_fused.py",
    "torch_program.py",
    "plan.md",
    "manifest.json",
]
WITH_KERNELS = ("simple_gla", "omeganet_linear", "titans_gd", "swla")
WITHOUT = rule_from_table({"rule": "long_block", "doc": "Blocks too long.", "loss": "l2", "block": 509})


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packages of some rules, the last of which no kernel computes."""
    folder = tmp_path_factory.mktemp("built")
    for rule in (*map(load_rule, WITH_KERNELS), WITHOUT):
        assert packages.write_package(rule, folder) == folder / rule.name
    return folder


def python(program: str, **environment: str) -> str:
    """Standard output of a fresh Python process in the checkout."""
    finished = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


# -- content ---------------------------------------------------------------------------------------
def test_the_shipped_packages_are_what_their_specs_give():
    assert packages.stale(ROOT / "generated") == []


def test_a_package_holds_the_rule_and_what_the_compiler_emits(built):
    for name in WITH_KERNELS:
        folder, rule = built / name, load_rule(name)
        assert sorted(path.name for path in folder.iterdir()) == sorted(NAMES)
        assert load_rule(folder / "rule.toml") == rule
        structures = packages.structures_of(schedule(rule))
        assert set(structures) == {"split", "fused"}
        assert structures["split"] == default_configuration(rule).structure
        for form, structure in structures.items():
            emitted = emit_module(schedule(rule), structure)
            assert (folder / f"kernels_{form}.py").read_text("utf-8") == emitted.source


def test_a_rule_without_kernels_has_a_package_that_says_why(built):
    folder, rule = built / WITHOUT.name, WITHOUT
    kernels = ("kernels_split.py", "kernels_fused.py")
    assert {path.name for path in folder.iterdir()} == set(NAMES) - set(kernels)
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    assert manifest["structures"] == {}
    (entry,) = manifest["without_kernels"]
    assert (entry["field"], entry["value"]) == ("block.size", 509)
    with pytest.raises(CompileError) as caught:
        emit_module(schedule(rule), default_configuration(rule).structure)
    error = caught.value
    assert entry == {name: getattr(error, name) for name in ("field", "value", "reason", "nearest")}
    plan = (folder / "plan.md").read_text("utf-8")
    assert 'There are no kernels: backend = "torch" runs `torch_program.py`' in plan
    assert error.reason in plan and error.nearest in plan
    text = (built / "titans_gd" / "manifest.json").read_text("utf-8")
    assert json.loads(text)["without_kernels"] == []


def test_the_readme_lists_every_package_and_whether_it_has_kernels():
    said = {}
    for line in (ROOT / "README.md").read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) == 5 and "`" in cells[2]:
            said |= dict.fromkeys(re.findall(r"`(\w+)`", cells[2]), cells[3].startswith("kernels"))
    assert said == {name: bool(packages.structures_of(schedule(load_rule(name)))) for name in shipped_specs()}


def test_packages_without_kernels_are_compared_like_others(tmp_path):
    folder = packages.write_package(WITHOUT, tmp_path)
    assert packages.stale(tmp_path, [WITHOUT]) == []
    (folder / "kernels_split.py").write_text("")
    assert packages.stale(tmp_path, [WITHOUT]) == ["long_block/kernels_split.py: no part of the package"]


def test_the_torch_program_is_the_one_that_runs(built):
    """Equal syntax trees, but for assignments that nothing reads."""
    text = (built / "omeganet_linear" / "torch_program.py").read_text("utf-8")
    shipped = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    source = program_source(schedule(load_rule("omeganet_linear")))
    for node in ast.parse(source).body:
        assert isinstance(node, ast.FunctionDef)
        kept = iter([ast.dump(statement) for statement in node.body])
        assert all(ast.dump(statement) in kept for statement in shipped[node.name].body)
        assert len(shipped[node.name].body) >= 0.9 * len(node.body)


def test_the_manifest_describes_every_file_and_kernel(built):
    folder, rule = built / "omeganet_linear", load_rule("omeganet_linear")
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    assert (manifest["rule"], manifest["hash"]) == (rule.name, rule.hash)
    assert manifest["layer"] == "OmegaNetLinear" and manifest["rows_per_block"] == 64
    for name in NAMES[:-1]:
        digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        assert manifest["files"].pop(name) == digest
    assert not manifest["files"]
    for form in ("split", "fused"):
        structure = manifest["structures"][form]
        functions = {
            node.name: node
            for node in ast.parse((folder / structure["file"]).read_text("utf-8")).body
            if isinstance(node, ast.FunctionDef)
        }
        assert set(structure["forward"]) | set(structure["backward"]) == set(structure["kernels"])
        for name, kernel in structure["kernels"].items():
            given = [argument.arg for argument in functions[name].args.args]
            sizes = ["tokens", "heads", "blocks"]
            listed = [argument["name"] for argument in kernel["arguments"]]
            assert given == listed + sizes + kernel["flags"] + kernel["constants"]
            tensors = {argument["tensor"] for argument in kernel["arguments"]}
            assert set(kernel["reads"]) | set(kernel["stores"]) == tensors
            assert not set(kernel["reads"]) & set(kernel["stores"])


def test_what_the_plan_says_is_stored_is_what_the_kernel_stores(built):
    """The tensors whose addresses reach tl.store, through the variables that hold them."""
    for name in WITH_KERNELS:
        manifest = json.loads((built / name / "manifest.json").read_text("utf-8"))
        for structure in manifest["structures"].values():
            text = (built / name / structure["file"]).read_text("utf-8")
            for node in ast.parse(text).body:
                if isinstance(node, ast.FunctionDef) and node.name in structure["kernels"]:
                    kernel = structure["kernels"][node.name]
                    assert stored_pointers(node) == {f"{tensor}_pointer" for tensor in kernel["stores"]}


def stored_pointers(function: ast.FunctionDef) -> set[str]:
    """Names of the pointers that a kernel writes through."""
    sources = {
        node.targets[0].id: node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    found = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "tl.store":
            names = {entry.id for entry in ast.walk(node.args[0]) if isinstance(entry, ast.Name)}
            bases = [sources[name] for name in names if name.endswith(("_block", "_base"))]
            names |= {e.id for base in bases for e in ast.walk(base) if isinstance(e, ast.Name)}
            found |= {name for name in names if name.endswith("_pointer")}
    return found


def test_the_launch_plan_names_kernels_in_order_and_buffers(built):
    text = (built / "omeganet_linear" / "plan.md").read_text("utf-8")
    emitted = emit_module(schedule(load_rule("omeganet_linear")), DEFAULT.structure)
    places = [text.index(f"**{kernel.name}**") for kernel in emitted.plan.forward]
    assert places == sorted(places)
    assert "| `memory_blocks` | [B, H, N, K, V] | state |" in text
    assert "| `q` | [B, T, H, K] | the caller |" in text
    assert "`d_k_halo`" in text and "(`add_halo`)" in text


# -- determinism -----------------------------------------------------------------------------------
def test_equal_specs_give_equal_bytes_in_every_process(built):
    program = (
        "import hashlib\n"
        "from atlasgen.cli.packages import files_of\n"
        "from atlasgen.spec import load_rule\n"
        "for name in ('omeganet_linear', 'simple_gla'):\n"
        "    for file, text in files_of(load_rule(name)).items():\n"
        "        print(name, file, hashlib.sha256(text.encode()).hexdigest())\n"
    )
    printed = {python(program, PYTHONHASHSEED=seed) for seed in ("0", "77")}
    assert len(printed) == 1
    for line in printed.pop().splitlines():
        name, file, digest = line.split()
        assert hashlib.sha256((built / name / file).read_bytes()).hexdigest() == digest


def test_the_docstring_imports_the_package_from_where_it_is(built):
    assert "    from atlasgen.generated.simple_gla import SimpleGLA, op\n" in (
        built / "simple_gla" / "__init__.py"
    ).read_text("utf-8")
    own = packages.files_of(rule_from_table({"rule": "my_rule", "extends": "retnet"}))
    assert "    from my_rule import MyRule, op\n" in own["__init__.py"]


# -- writing ---------------------------------------------------------------------------------------
def manifest(*names: str) -> str:
    return json.dumps({"generator": "test", "files": dict.fromkeys(names, "digest")}) + "\n"


FIRST = {"__init__.py": "first = 1\n", "manifest.json": manifest("__init__.py")}
SECOND = {
    "__init__.py": "second = 2\n",
    "more.py": "x = 1\n",
    "manifest.json": manifest("__init__.py", "more.py"),
}


def content(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text("utf-8") for path in folder.iterdir()}


@pytest.mark.parametrize("exchange", [True, False], ids=["exchange", "renames"])
def test_a_package_is_replaced_whole(tmp_path, monkeypatch, exchange):
    if not exchange:
        monkeypatch.setattr(package, "_exchange", lambda first, second: False)
    folder = tmp_path / "rule"
    package.write_files(FIRST, folder)
    (folder / "__pycache__").mkdir()
    assert package.stale_files(FIRST, folder) == []
    package.write_files(SECOND, folder)
    assert content(folder) == SECOND
    assert [path.name for path in tmp_path.iterdir()] == ["rule"]


def test_an_up_to_date_package_is_not_touched(tmp_path):
    folder = package.write_files(FIRST, tmp_path / "rule")
    before = (folder / "__init__.py").stat().st_mtime_ns, folder.stat().st_ino
    package.write_files(FIRST, folder)
    assert ((folder / "__init__.py").stat().st_mtime_ns, folder.stat().st_ino) == before


@pytest.mark.parametrize("moment", ["write", "swap"])
def test_a_killed_build_leaves_the_old_package(tmp_path, moment):
    """The process dies after its first file, or just before the swap; the next build cleans up."""
    folder = package.write_files(FIRST, tmp_path / "rule")
    victim = "package.Path.write_bytes" if moment == "write" else "package._replace_folder"
    program = (
        "import os\nfrom pathlib import Path\nfrom atlasgen.emit import package\n"
        f"{victim} = lambda *arguments: os._exit(9)\n"
        f"package.write_files({SECOND!r}, Path({str(folder)!r}))\n"
    )
    killed = subprocess.run([sys.executable, "-c", program], cwd=ROOT)
    assert killed.returncode == 9
    assert content(folder) == FIRST
    assert len(list(tmp_path.iterdir())) == 2
    package.write_files(SECOND, folder)
    assert content(folder) == SECOND and len(list(tmp_path.iterdir())) == 1


def test_an_error_while_writing_leaves_nothing_behind(tmp_path, monkeypatch):
    folder = package.write_files(FIRST, tmp_path / "rule")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(package, "_replace_folder", fail)
    with pytest.raises(OSError, match="disk full"):
        package.write_files(SECOND, folder)
    assert content(folder) == FIRST and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("other", [{}, {"manifest.json": "{}\n"}, {"manifest.json": "[" * 9}, FIRST])
def test_a_folder_with_files_of_the_user_is_refused(tmp_path, other):
    folder = tmp_path / "rule"
    folder.mkdir()
    mine = {**other, "notes.md": "mine\n"}
    for name, text in mine.items():
        (folder / name).write_text(text)
    with pytest.raises(ArgumentError, match=r"did not write: .*notes\.md.*another folder with --out"):
        package.write_files(SECOND, folder)
    assert content(folder) == mine and len(list(tmp_path.iterdir())) == 1


def test_an_own_init_alone_is_refused_and_an_empty_folder_is_filled(tmp_path):
    for name in ("own", "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "own" / "__init__.py").write_text("mine = 1\n")
    (tmp_path / "file").write_text("mine\n")
    for name in ("own", "file"):
        with pytest.raises(ArgumentError, match="nothing was changed"):
            package.write_files(SECOND, tmp_path / name)
    (tmp_path / "empty" / "__pycache__").mkdir()
    assert content(package.write_files(SECOND, tmp_path / "empty")) == SECOND
    assert content(tmp_path / "own") == {"__init__.py": "mine = 1\n"}
    assert (tmp_path / "file").read_text() == "mine\n"


# -- staleness -------------------------------------------------------------------------------------
def test_stale_packages_are_told_file_by_file(tmp_path):
    rule = load_rule("simple_gla")
    assert packages.stale(tmp_path, [rule]) == ["simple_gla: not built"]
    folder = packages.write_package(rule, tmp_path)
    assert packages.stale(tmp_path, [rule]) == []
    (folder / "plan.md").unlink()
    (folder / "kernels_fused.py").write_text("edited\n")
    (folder / "old.py").write_text("")
    assert packages.stale(tmp_path, [rule]) == [
        "simple_gla/kernels_fused.py: not what the spec gives now",
        "simple_gla/plan.md: missing",
        "simple_gla/old.py: no part of the package",
    ]


def test_a_package_without_a_spec_is_stale(tmp_path):
    (tmp_path / "forgotten_rule").mkdir()
    reasons = packages.stale(tmp_path)
    assert "forgotten_rule: no shipped rule has this package" in reasons
    assert {f"{name}: not built" for name in shipped_specs()} < set(reasons)


# -- use -------------------------------------------------------------------------------------------
def test_importing_a_package_loads_neither_torch_nor_triton():
    program = (
        "import sys, time\nstart = time.perf_counter()\n"
        "import atlasgen.generated.omeganet_linear as package\n"
        "print(time.perf_counter() - start)\n"
        "print([name for name in ('torch', 'triton', 'sympy') if name in sys.modules], package.__all__)\n"
    )
    seconds, names = python(program).splitlines()
    assert names == "[] ['RULE', 'OmegaNetLinear', 'op']"
    assert float(seconds) < 2.0


def test_a_package_offers_its_layer_and_operator():
    from atlasgen.generated import omeganet_linear
    from atlasgen.generated.omeganet_linear import RULE, OmegaNetLinear, op

    assert load_rule("omeganet_linear") == RULE
    torch.manual_seed(0)
    layer = OmegaNetLinear(hidden_size=16, num_heads=2, backend="torch")
    x = torch.randn(1, 70, 16, requires_grad=True)
    y = layer(x)
    y.sum().backward()
    assert y.shape == x.shape and x.grad is not None and x.grad.isfinite().all()
    assert all(parameter.grad is not None for parameter in layer.parameters())
    assert torch.equal(pickle.loads(pickle.dumps(layer))(x), y)
    assert type(layer).__module__ == "atlasgen.generated.omeganet_linear"
    q, k, v = (torch.randn(1, 9, 2, 8) for _ in range(3))
    gates = {"lr": torch.rand(1, 9, 2) / 99, "gamma": torch.rand(1, 9, 2), "log_alpha": -torch.rand(1, 9, 2)}
    own, _ = op("torch")(q, k, v, **gates)
    assert torch.equal(own, atlasgen.compile("omeganet_linear", "torch")(q, k, v, **gates)[0])
    with pytest.raises(AttributeError, match="no attribute 'OmegaNet'"):
        _ = omeganet_linear.OmegaNet


@pytest.mark.parametrize("name", ["TTTLinear", "AtlasChunk", "OmegaNet", "SWLA", "TitansGD"])
def test_a_layer_of_every_package_trains(name):
    """With kernels or without: packages offer their layer, which runs on the torch backend."""
    package = {layer: rule for rule in shipped_specs() for layer in [class_name(rule)]}[name]
    layer = getattr(importlib.import_module(f"atlasgen.generated.{package}"), name)(
        hidden_size=16, num_heads=2, backend="torch"
    )
    x = torch.randn(1, 19, 16, requires_grad=True)
    y = layer(x)
    y.square().sum().backward()
    assert y.shape == x.shape and x.grad is not None and x.grad.isfinite().all() and x.grad.any()


def test_kernels_run_from_the_shipped_file():
    emitted = emit_module(schedule(load_rule("simple_gla")), DEFAULT.structure)
    shipped = ROOT / "generated" / "simple_gla" / "kernels_split.py"
    assert shipped_file(emitted.source, "simple_gla_any") == shipped
    assert load_module(emitted.source, "simple_gla_any").__file__ == str(shipped)
    assert shipped_file(emitted.source, "retnet_any") is None
    changed = emitted.source + "\n# another text\n"
    assert shipped_file(changed, "simple_gla_any") is None
    assert "generated" not in str(load_module(changed, "simple_gla_any").__file__)

"""The commands from outside: output, exit codes, errors without tracebacks."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import typer
from typer.testing import CliRunner, Result

from atlasgen.cli.main import app
from atlasgen.demo import train
from atlasgen.runtime.compile import register_backend
from atlasgen.runtime.torch_backend import TorchProgram
from atlasgen.spec import load_rule, shipped_specs

NOT_SERVED = (
    'block = 16\nretention = "token"\nwindow = "all"\n'
    'optimizer = { kind = "momentum", theta = 0.5, lr = "token" }\n'
)


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert "Traceback" not in result.output
    return result


def written(folder: Path, text: str, name: str = "mine.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_help_lists_the_commands() -> None:
    output = run("--help").output
    for name in ("check", "explain", "build", "verify", "tune", "profile", "demo"):
        assert name in output


# -- check -----------------------------------------------------------------------------------------


def test_check_passes_the_shipped_rules() -> None:
    result = run("check", *shipped_specs())
    assert result.exit_code == 0
    assert result.output.count("ok ") == len(shipped_specs())


def test_check_says_what_is_wrong_and_what_to_write(tmp_path: Path) -> None:
    result = run("check", written(tmp_path, 'loss = "l3"\nwindw = 4\n'), "simple_gla")
    assert result.exit_code == 1
    assert "loss.kind" in result.output and '"l3"' in result.output
    assert "dot, l2, lp, huber, expr" in result.output and 'Did you mean "window"?' in result.output
    assert "ok " in result.output  # the other rule is still checked


def test_check_names_what_is_not_served(tmp_path: Path) -> None:
    path = written(tmp_path, NOT_SERVED)
    result = run("check", path)
    assert result.exit_code == 1
    assert "window.length" in result.output and "window = 16" in result.output
    assert run("check", "--valid-only", path).exit_code == 0


# -- explain ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", shipped_specs())
def test_explain_every_shipped_rule(name: str) -> None:
    result = run("explain", name, "--shape", "2,256,4,32,48")
    assert result.exit_code == 0
    for words in (
        "Update",
        "Mₜ = ",
        "Error",
        "Stability",
        "State of one head",
        "Schedule: ",
        "Other schedules",
        "forward",
    ):
        assert words in result.output
    assert "B=2 T=256 H=4 K=32 V=48" in result.output
    decays = load_rule(name).retention.alpha.is_argument
    assert ("log of the retention" in result.output) == decays


def test_explain_prints_the_largest_stable_step() -> None:
    assert "largest stable lr 0.00195" in run("explain", "omeganet_linear").output
    assert "any step" in run("explain", "swla").output


def test_explain_a_rule_that_is_not_served(tmp_path: Path) -> None:
    result = run("explain", written(tmp_path, NOT_SERVED))
    assert result.exit_code == 1
    assert "Mₜ = αₜ Mₜ₋₁ − ηₜ" in result.output and "window.length" in result.output


def test_explain_writes_graphs(tmp_path: Path) -> None:
    svg, text = tmp_path / "graph.svg", tmp_path / "graph.mmd"
    assert run("explain", "swla", "--svg", svg, "--mermaid", text).exit_code == 0
    assert svg.read_text().startswith("<svg") and text.read_text().startswith("flowchart")


def test_explain_dumps_a_stage_alone() -> None:
    result = run("explain", "swla", "--dump", "program")
    assert result.exit_code == 0 and result.output.startswith("program swla (window 16")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("explain", "swla", "--shape", "1,2,3"), "five positive numbers"),
        (("explain", "swla", "--dtype", "int8"), "float32"),
        (("explain", "swla", "--dump", "tokens"), "no stage"),
        (("explain", "swlaa"), "Did you mean"),
        (("verify", "swla", "--backend", "cuda"), "unknown"),
        (("verify", "swla", "--backend", "triton:whole"), "split_vectors"),
        (("verify", "swla", "--dtype", "float8", "--backend", "torch"), "float32, bfloat16, float16"),
        (("verify", "swla", "--against", "nowhere.py:fn"), "no such file"),
        (("verify", "--against", "mine.py:fn"), "name that rule"),
        (("verify", "swla", "--device", "nowhere"), "--device nowhere cannot be used"),
        (("tune", "swla", "--trials", "0"), "--trials"),
        (("tune", "swla", "--objective", "measured"), "needs a GPU and a later version"),
        (("build", "swla", "--out", __file__), "is a file"),
        (("build", "swla", "--out", f"{__file__}/deep"), "is a file"),
    ],
)
def test_wrong_arguments_are_one_message(arguments: tuple[str, ...], words: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert words in result.output


def test_debug_shows_the_traceback() -> None:
    result = CliRunner().invoke(app, ["--debug", "explain", "swlaa"])
    assert type(result.exception).__name__ == "SpecError"


# -- verify ----------------------------------------------------------------------------------------


def test_verify_passes_a_right_backend() -> None:
    result = run("verify", "simple_gla", "--backend", "torch", "--dtype", "float32", "--details")
    assert result.exit_code == 0
    assert "pass" in result.output and "FAIL" not in result.output
    for tensor in ("y", "state.memory.M", "d q", "d log_alpha", "d state.memory.M"):
        assert f" {tensor} " in result.output


class _WrongKeys(TorchProgram):
    """Gradients of keys that forget their last token."""

    def backward(self, tensors, saved, gradients):
        found = super().backward(tensors, saved, gradients)
        found["k"] = found["k"].clone()
        found["k"][:, -1:] = 0
        return found


def test_verify_fails_a_wrong_one_and_names_the_tensor_and_place() -> None:
    register_backend("wrong_keys", _WrongKeys)
    result = run("verify", "simple_gla", "--backend", "wrong_keys", "--dtype", "float32")
    assert result.exit_code == 1
    assert "FAIL" in result.output and "token 22" in result.output
    failing = [line for line in result.output.splitlines() if "FAIL" in line]
    assert all(" d k " in line for line in failing)


def test_verify_says_that_a_backend_is_absent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # A rule of this test alone: programs that this process has compiled need no import any more.
    rule = written(tmp_path, 'rule = "absent"\nretention = { kind = "constant", value = 0.8125 }\n')
    monkeypatch.setitem(__import__("sys").modules, "atlasgen.runtime.triton_backend", None)
    result = run("verify", rule, "--dtype", "float32")
    assert result.exit_code == 0
    assert "not part of this installation" in result.output and "torch" in result.output
    assert run("verify", rule, "--backend", "triton", "--dtype", "float32").exit_code == 2


def test_against_a_function_of_the_user(tmp_path: Path) -> None:
    code = (
        "import torch\n"
        "def read_before(q, k, v, log_alpha):\n"
        "    sizes = v.shape[0], v.shape[2], k.shape[3], v.shape[3]\n"
        "    memory, reads = torch.zeros(sizes, dtype=v.dtype), []\n"
        "    for t in range(v.shape[1]):\n"
        "        reads.append(torch.einsum('bhk,bhkv->bhv', q[:, t], memory))\n"
        "        memory = log_alpha[:, t].exp()[..., None, None] * memory\n"
        "        memory = memory + torch.einsum('bhk,bhv->bhkv', k[:, t], v[:, t])\n"
        "    return torch.stack(reads, 1)\n"
    )
    path = written(tmp_path, code, "mine.py")
    result = run("verify", "simple_gla", "--against", f"{path}:read_before")
    assert result.exit_code == 1
    assert "y first at batch 0, token 0, head 0" in result.output
    assert "yours equals this rule with read = pre" in result.output


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
def test_verify_on_a_device_that_is_not_there_is_one_message() -> None:
    result = run("verify", "swla", "--device", "cuda")
    assert result.exit_code == 2
    assert result.output.count("--device cuda cannot be used on this machine") == 1


@pytest.mark.parametrize(
    ("code", "words", "line"),
    [
        (
            "def fn(q, k, v, log_alpha):\n    return other(v)\ndef other(v):\n    assert v is None, 'no'\n",
            "your function raised AssertionError: no",
            4,
        ),
        ("x = 1\ny = x / 0\n", "your file raised ZeroDivisionError", 2),
        ("x = 1\ndef fn(:\n", "your file raised SyntaxError", 2),
    ],
)
def test_an_error_of_the_users_code_is_said_with_its_place(
    tmp_path: Path, code: str, words: str, line: int
) -> None:
    path = written(tmp_path, code, "mine.py")
    result = run("verify", "simple_gla", "--against", f"{path}:fn")
    assert result.exit_code == 2 and "internal error" not in result.output
    said = "".join(part.strip("│ ") for part in result.output.splitlines())
    assert words in said and f"mine.py, line {line})" in said


# -- profile, build, tune, demo --------------------------------------------------------------------


def test_profile_counts_the_kernels() -> None:
    result = run("profile", "simple_gla", "--shape", "1,32,1,16,16", "--json")
    assert result.exit_code == 0
    content = json.loads(result.stdout)
    assert set(content["forms"]) == {"fused", "split"}
    for form, passes in content["forms"].items():
        forward, whole = (
            passes["forward"]["kernels"]["total"],
            passes["forward + backward"]["kernels"]["total"],
        )
        assert forward["bytes"] >= passes["forward"]["least_bytes"] > 0, form
        assert whole["bytes"] > forward["bytes"] and whole["dot_flops"] > forward["dot_flops"] > 0
    assert content["forms"]["fused"]["forward"]["kernels"]["total"]["launches"] == 1


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("atlasgen.emit.package", ("build", "simple_gla", "--check")),
        ("atlasgen.autotune.cli", ("tune", "simple_gla")),
        ("atlasgen.demo.train", ("demo",)),
        ("atlasgen.emit.planner", ("explain", "simple_gla", "--dump", "plan")),
    ],
)
def test_a_part_that_is_not_installed_is_said_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, module: str, arguments: tuple[str, ...]
) -> None:
    monkeypatch.setitem(__import__("sys").modules, module, None)
    result = run(*arguments)
    assert result.exit_code == 2
    assert "not part of this installation" in result.output


def test_build_writes_packages_and_check_finds_stale_ones(tmp_path: Path) -> None:
    assert run("build", "simple_gla", "--check", "--out", tmp_path).exit_code == 1
    assert run("build", "simple_gla", "--out", tmp_path).exit_code == 0
    assert run("build", "simple_gla", "--check", "--out", tmp_path).exit_code == 0
    rule = tmp_path / "simple_gla" / "rule.toml"
    rule.write_text(rule.read_text() + "\n")
    result = run("build", "simple_gla", "--check", "--out", tmp_path)
    assert result.exit_code == 1
    assert "simple_gla/rule.toml" in result.output and "Run atlasgen build" in result.output


def test_demo_runs_its_stages_in_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls = []

    def trained(rule: str, **options: object) -> SimpleNamespace:
        calls.append(("train", rule, options["steps"], options["out"]))
        return SimpleNamespace(bits_per_byte=2.5, bigram_bits_per_byte=3.3, steps=7)

    monkeypatch.chdir(tmp_path)  # no checkout: nothing is built there
    monkeypatch.setattr(train, "run", trained)
    monkeypatch.setattr("atlasgen.cli.verify.verify", lambda specs, **_: calls.append(("verify", *specs)))
    monkeypatch.setattr("atlasgen.cli.tune.tune", lambda rule, **_: calls.append(("tune", rule)))
    result = run("demo", "swla", "--steps", "7", "--out", tmp_path / "out")
    assert result.exit_code == 0
    assert calls == [("verify", "swla"), ("tune", "swla"), ("train", "swla", 7, tmp_path / "out")]
    assert "build: left out" in result.output and "tune: done" in result.output
    assert "2.500 bits per byte" in result.output


def test_demo_stops_where_the_rule_is_not_verified(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:

    def failing(specs: list[str], **_: object) -> None:
        raise typer.Exit(1)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(train, "run", lambda *_, **__: pytest.fail("trained an unverified rule"))
    monkeypatch.setattr("atlasgen.cli.verify.verify", failing)
    assert run("demo", "swla").exit_code == 1


def test_demo_of_an_unknown_rule_ends_before_its_first_stage() -> None:
    result = run("demo", "swlaa")
    assert result.exit_code == 2
    assert "Did you mean" in result.output and "build" not in result.output

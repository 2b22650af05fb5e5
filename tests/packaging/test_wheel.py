"""What a user gets: a wheel that claims one name, and an editable install that works like it."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAPPED = {"generated": ROOT / "generated", "specs": ROOT / "specs", "autotune": ROOT / "autotune"}


def run_elsewhere(program: str, folder: Path, **environment: str) -> str:
    """Standard output of a Python program started in another folder than the checkout's."""
    finished = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin"} | environment,
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of the checkout's tracked and untracked sources, built beside it and not in it."""
    source = tmp_path_factory.mktemp("source")
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    for name in listed:
        if (ROOT / name).is_file():
            copy = source / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes((ROOT / name).read_bytes())
    target = tmp_path_factory.mktemp("wheel")
    options = ["--no-deps", "--no-build-isolation", "--quiet", "--wheel-dir", str(target)]
    built = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", *options, str(source)],
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    (path,) = target.glob("atlasgen-*.whl")
    return path


def files_in(wheel: Path) -> set[str]:
    return {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}


def test_the_wheel_claims_one_top_level_name(wheel):
    assert {name.split("/")[0] for name in files_in(wheel)} == {"atlasgen"}


@pytest.mark.parametrize("folder", MAPPED)
def test_the_wheel_holds_the_mapped_folders(wheel, folder):
    """Every module and data file of the folder, under atlasgen."""
    wanted = {
        f"atlasgen/{folder}/{path.relative_to(MAPPED[folder])}"
        for suffix in ("*.py", "*.toml", "*.json")
        for path in MAPPED[folder].rglob(suffix)
    }
    assert wanted <= files_in(wheel)


def test_the_wheel_holds_the_data_of_the_compiler(wheel):
    data = {f"{path.relative_to(ROOT)}" for path in (ROOT / "atlasgen").rglob("*.toml")}
    assert data and data <= files_in(wheel)


def test_an_unpacked_wheel_imports(wheel, tmp_path):
    installed = tmp_path / "installed"
    zipfile.ZipFile(wheel).extractall(installed)
    program = (
        "import atlasgen.generated, atlasgen.specs, atlasgen.autotune, atlasgen.spec.rule\n"
        "for module in (atlasgen.generated, atlasgen.specs, atlasgen.autotune): "
        "print(module.__file__)"
    )
    printed = run_elsewhere(program, tmp_path, PYTHONPATH=str(installed))
    expected = [str(installed / "atlasgen" / name / "__init__.py") for name in MAPPED]
    assert printed.split() == expected


def test_the_editable_install_imports_from_the_checkout(tmp_path):
    program = (
        "import atlasgen.generated, atlasgen.specs, atlasgen.autotune\n"
        "for module in (atlasgen.generated, atlasgen.specs, atlasgen.autotune): "
        "print(module.__file__)"
    )
    expected = [str(path / "__init__.py") for path in MAPPED.values()]
    assert run_elsewhere(program, tmp_path).split() == expected

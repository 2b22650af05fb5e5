"""Looking up configurations: always an answer, never a measurement, nothing stale."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from atlasgen.runtime import configuration, results
from atlasgen.runtime.configuration import DEFAULT, Configuration, source_key
from atlasgen.runtime.launch import KernelTiles, Tiles
from atlasgen.runtime.results import DEFAULTS, Entry, read_file, write_entries
from atlasgen.spec import load_rule

RULE = load_rule("retnet")
ALWAYS = ("0.0", "99.0")


def entry(number: int, **changes: object) -> Entry:
    """An entry whose configuration is told by its block_v."""
    tiles = Tiles({"state": KernelTiles(block_v=number)})
    table = Configuration(DEFAULT.structure, tiles).to_table()
    fields = {
        "source": source_key(RULE, DEFAULT.structure),
        "dtype": "bfloat16",
        "key": 64,
        "value": 64,
        "triton": ALWAYS,
        "shared_bytes": 1000,
        "configuration": table,
        "evidence": {},
    }
    return Entry(**(fields | changes))  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An empty folder of tuned results, and no shipped ones; yields a function that puts entries."""
    monkeypatch.setenv("ATLASGEN_TUNED_DIR", str(tmp_path))
    monkeypatch.setattr(results, "shipped_folder", lambda: tmp_path / "none")
    configuration.forget_results()

    def put(target: str, *entries: Entry, rule: str = RULE.name) -> None:
        write_entries(tmp_path / target / f"{rule}.json", rule, target, entries)
        configuration.forget_results()

    yield put
    configuration.forget_results()


def number(
    target: str, dtype: str = "bfloat16", key: int = 64, value: int = 64, shared: int = 1 << 30
) -> int:
    """Which entry is chosen; 0 for the built-in default."""
    found = configuration._chosen(RULE, target, shared, dtype, key, value)
    return 0 if found == DEFAULT else found.tiles.of("state").block_v


def test_exact_then_nearest_size_and_of_two_as_near_the_larger(folder) -> None:
    folder("sm_90", entry(16, key=32, value=32), entry(32, key=128, value=128))
    assert number("sm_90", key=64) == 32
    assert number("sm_90", key=16, value=16) == 16
    folder("sm_90", entry(64))
    assert number("sm_90") == 64


def test_dtypes_do_not_mix_while_there_is_a_choice(folder) -> None:
    folder("sm_90", entry(16, dtype="float32", key=256, value=256), entry(32))
    assert number("sm_90", "float32") == 16
    assert number("sm_90", "bfloat16", key=256, value=256) == 32
    assert number("sm_90", "float16") == 16, "float16's products are as large as float32's"


def test_stale_entries_are_no_answer(folder) -> None:
    folder("sm_90", entry(16, source="0" * 16))
    assert number("sm_90") == 0


def test_the_devices_defaults_serve_rules_without_results(folder) -> None:
    folder("sm_90", entry(128, source="of another rule"), rule=DEFAULTS)
    assert number("sm_90") == 128
    assert number("sm_100") == 128, "the nearest target's default"
    assert number("gfx942") == 0, "no result of another vendor"


def test_the_nearest_older_architecture_comes_before_newer_ones() -> None:
    assert configuration.nearest_targets("sm_100") == ("sm_100", "sm_90", "sm_89", "sm_80")
    assert configuration.nearest_targets("sm_89")[:2] == ("sm_89", "sm_80")
    assert configuration.target_of_capability(8, 6) == "sm_80"
    assert configuration.target_of_capability(12, 0) == "sm_100"
    assert configuration.target_of_capability(7, 5) == "sm_80"


def test_entries_beyond_the_devices_shared_memory_are_passed_over(folder) -> None:
    folder("sm_80", entry(64, shared_bytes=150_000), entry(32, key=32, value=32, shared_bytes=60_000))
    assert number("sm_80") == 64
    assert number("sm_89") == 32, "sm_89 has 99 KiB"
    assert number("sm_80", shared=65_536) == 32


def test_results_for_this_triton_come_first_but_others_still_serve(folder) -> None:
    folder("sm_90", entry(16, triton=("1.0", "2.0")))
    assert number("sm_90") == 16
    folder("sm_90", entry(32, key=32, value=32))
    assert number("sm_90") == 32


def test_damaged_files_are_misses(tmp_path: Path, folder) -> None:
    folder("sm_90", entry(16))
    path = tmp_path / "sm_90" / f"{RULE.name}.json"
    for damage in (
        "{",
        '{"entries": [{"source": 1}]}',
        "[]",
        path.read_text().replace("block_v", "no_field"),
    ):
        path.write_text(damage)
        configuration.forget_results()
        assert number("sm_90") == 0, damage


def test_writing_keeps_other_slots_and_replaces_its_own(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_entries(path, "x", "sm_90", [entry(16), entry(32, key=128, value=128)])
    write_entries(path, "x", "sm_90", [entry(64)])
    kept = {own.slot: Configuration.from_table(own.configuration) for own in read_file(path)}
    assert kept[("bfloat16", 64, 64)].tiles.of("state").block_v == 64
    assert kept[("bfloat16", 128, 128)].tiles.of("state").block_v == 32
    assert [file.name for file in tmp_path.iterdir()] == ["x.json"]


def test_a_processor_gets_the_default_and_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a look-up compiled something")

    monkeypatch.setattr("atlasgen.runtime.cross_compile.compile_many", refuse)
    monkeypatch.setattr("triton.compile", refuse)
    assert configuration.choose(RULE, torch.device("cpu"), torch.float32, 64, 64) == DEFAULT
    configuration.forget_results()
    for target in ("sm_80", "sm_89", "sm_90", "sm_100", "gfx942"):
        for size in (16, 64, 100, 128, 256):
            chosen = configuration._chosen(RULE, target, 1 << 30, "bfloat16", size, size)
            assert isinstance(chosen, Configuration)


def test_shipped_results_are_chosen_on_their_target() -> None:
    configuration.forget_results()
    for target in ("sm_80", "sm_90", "sm_100", "gfx942"):
        shipped = read_file(results.shipped_folder() / target / f"{RULE.name}.json")
        wanted = next(own for own in shipped if own.slot == ("bfloat16", 128, 128))
        found = configuration._chosen(RULE, target, 1 << 30, "bfloat16", 128, 128)
        assert found.to_table() == wanted.configuration

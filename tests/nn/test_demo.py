"""The demonstration: its text, the models to beat, its files, resumption, its figures."""

import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from atlasgen.demo import Settings, run
from atlasgen.demo.counting import bigram_bits, bigram_chances, unigram_bits, unigram_chances
from atlasgen.demo.files import load_checkpoint, replacing, save_checkpoint, write_text
from atlasgen.demo.pace import Plan, quickest_threads, threads
from atlasgen.demo.report import DemoResult, printable
from atlasgen.demo.text import Text, batch_of, load_text, streams_of
from atlasgen.demo.train import Training, generated_layer, held_out_bits
from atlasgen.nn import MemoryLanguageModel

TINY = Settings(
    hidden_size=16, num_layers=1, num_heads=2, context=32, batch=2, steps=40, warmup=5, held_out_streams=4
)
QUIET = Console(file=io.StringIO())


def tiny_text() -> Text:
    content = torch.frombuffer(bytearray(b"the cat sat on the mat. " * 200), dtype=torch.uint8)
    return Text(content[:4000], content[4000:4600])


def tiny_run(out: Path, **options: Any) -> dict:
    result = run(out=out, settings=TINY, thread_count=1, console=QUIET, text=tiny_text(), **options)
    return {**json.loads((out / "result.json").read_text()), "margin": result.margin}


def test_the_text_is_whole_and_its_parts_are_apart() -> None:
    text = load_text()
    assert len(text.train) > 300_000
    assert len(text.held_out) == pytest.approx(0.1 * (len(text.train) + len(text.held_out)), abs=2)
    words = bytes(text.train[:200_000].tolist()).decode("utf-8", errors="replace")
    assert words.count(" the ") > 1000


def test_batches_follow_the_seed() -> None:
    data = torch.arange(200, dtype=torch.uint8)
    inputs, targets = batch_of(data, 5, 16, 3)
    assert torch.equal(inputs + 1, targets) and inputs.shape == (5, 16)
    assert torch.equal(batch_of(data, 5, 16, 3)[0], inputs)
    assert not torch.equal(batch_of(data, 5, 16, 4)[0], inputs)
    assert torch.equal(streams_of(data, 3), torch.arange(198).reshape(3, 66))


def test_chances_add_up_and_bits_are_counted_by_hand() -> None:
    train = torch.tensor(list(b"abababac"), dtype=torch.uint8)
    assert float(unigram_chances(train).sum()) == pytest.approx(1)
    chances = bigram_chances(train, 0.5)
    torch.testing.assert_close(chances.sum(1), torch.ones(256, dtype=torch.float64))
    unigrams = unigram_chances(train)
    a, b = ord("a"), ord("b")
    assert float(chances[a, b]) == pytest.approx(2.5 / 4 + 2 * 0.5 / 4 * float(unigrams[b]))
    assert torch.equal(chances[ord("z")], unigrams)
    streams = torch.tensor([list(b"ab")])
    assert bigram_bits(train, streams) == pytest.approx(-math.log2(float(chances[a, b])))
    assert unigram_bits(train, streams) == pytest.approx(-math.log2(float(unigrams[b])))


def test_held_out_bits_are_those_of_one_long_call() -> None:
    torch.manual_seed(0)
    model = MemoryLanguageModel("omeganet_linear", 16, 1, 2, backend="torch")
    streams = torch.randint(256, (2, 90))
    logits = model(streams[:, :-1])
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), streams[:, 1:].flatten())
    assert held_out_bits(model, streams, 32) == pytest.approx(expected.item() / math.log(2), rel=1e-5)


def test_a_run_leaves_its_files_and_the_same_seed_gives_the_same(tmp_path: Path) -> None:
    first, second = tiny_run(tmp_path / "a"), tiny_run(tmp_path / "b")
    names = {path.name for path in (tmp_path / "a").iterdir()}
    assert names == {"loss.png", "sample.txt", "result.json", "model.pt"}
    assert (tmp_path / "a/loss.png").read_bytes()[:4] == b"\x89PNG"
    assert (tmp_path / "a/sample.txt").read_text() == first["sample"]
    assert first["steps"] == 40 and first["bits_per_byte"] < first["unigram_bits_per_byte"] + 3
    for changing in ("out", "seconds"):
        del first[changing], second[changing]
    assert first == second
    other = Settings(**{**TINY.__dict__, "seed": 1})
    changed = run(out=tmp_path / "c", settings=other, thread_count=1, console=QUIET, text=tiny_text())
    assert changed.bits_per_byte != first["bits_per_byte"]


def test_a_killed_run_goes_on_and_ends_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(**{**TINY.__dict__, "checkpoint_every": 8})
    options = {"settings": settings, "thread_count": 1, "console": QUIET, "text": tiny_text()}
    whole = run(out=tmp_path / "whole", **options)
    step = Training._step

    def killed(self: Training, model: object, optimizer: object, index: int) -> float:
        if index == 21:
            raise KeyboardInterrupt
        return step(self, model, optimizer, index)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Training, "_step", killed)
        with pytest.raises(KeyboardInterrupt):
            run(out=tmp_path / "killed", **options)
    assert [path.name for path in (tmp_path / "killed").iterdir()] == ["unfinished.pt"]
    seen = []

    def watched(self: Training, model: object, optimizer: object, index: int) -> float:
        seen.append(index)
        return step(self, model, optimizer, index)  # type: ignore[arg-type]

    monkeypatch.setattr(Training, "_step", watched)
    resumed = run(out=tmp_path / "killed", **options)
    assert seen == list(range(16, 40))
    assert resumed.bits_per_byte == whole.bits_per_byte and resumed.sample == whole.sample
    assert not (tmp_path / "killed/unfinished.pt").exists()


def test_a_checkpoint_of_other_settings_is_left_aside(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "x.pt", {"key": "a", "value": 3})
    assert load_checkpoint(tmp_path / "x.pt", "b") is None
    assert load_checkpoint(tmp_path / "none.pt", "a") is None
    found = load_checkpoint(tmp_path / "x.pt", "a")
    assert found is not None and found["value"] == 3


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.txt"
    write_text(path, "old")
    with pytest.raises(RuntimeError, match="half"), replacing(path) as beside:
        beside.write_text("new")
        raise RuntimeError("half written")
    assert path.read_text() == "old"
    assert [entry.name for entry in path.parent.iterdir()] == ["file.txt"]


def test_time_that_is_up_ends_the_run(tmp_path: Path) -> None:
    figures = tiny_run(tmp_path, seconds=0.0)
    assert figures["steps"] == 1 and figures["planned_steps"] == 40


def test_the_plan_shrinks_and_grows_with_the_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("atlasgen.demo.pace.time.monotonic", lambda: clock[0])

    def steps(first: int, count: int, seconds: float) -> int:
        planned = 0
        for done in range(first, first + count):
            clock[0] += seconds
            planned = plan.made(done)
        return planned

    plan = Plan(1000, 100.0)
    assert steps(1, 20, 0.05) == 1000
    assert steps(21, 20, 1.0) == 40 + int(79 / 1.0)
    assert steps(41, 20, 0.05) == 1000
    clock[0] = 101.0
    assert plan.made(61) == 61


def test_threads_are_set_back() -> None:
    before = torch.get_num_threads()
    with threads(1):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
    assert quickest_threads(lambda: None, most=1) == 1
    assert quickest_threads(lambda: None) in (1, 2)


def test_the_learning_rate_rises_and_falls() -> None:
    rates = [Settings().rate(step, 400) for step in range(400)]
    assert max(rates) <= Settings().learning_rate and rates[0] < 0.1 * max(rates)
    assert rates[-1] == pytest.approx(0.1 * Settings().learning_rate, rel=1e-2)
    assert rates[Settings().warmup :] == sorted(rates[Settings().warmup :], reverse=True)


def test_the_layer_is_the_generated_one_where_there_is_one() -> None:
    made = generated_layer("omeganet_linear")
    assert made.__name__ == "OmegaNetLinear"
    assert made(hidden_size=16, num_heads=2).rule.name == "omeganet_linear"  # type: ignore[call-arg]


def a_result(**figures: object) -> DemoResult:
    known = {"bits_per_byte": 2.5, "bigram_bits_per_byte": 3.25, "unigram_bits_per_byte": 4.5, "sample": "x"}
    more = {"rule": "swla", "steps": 1, "planned_steps": 1, "seconds": 1.0, "parameters": 1, "threads": 1}
    return DemoResult(**{**known, **more, "out": "", **figures})  # type: ignore[arg-type]


def test_the_comparison_says_on_which_side_of_the_bigrams() -> None:
    assert a_result().comparison == "0.75 bits per byte below the bigrams"
    assert a_result(bits_per_byte=4.0).comparison == "0.75 bits per byte above the bigrams"


def test_a_sample_cannot_steer_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert printable("a\tb\n[é] \x1b[31m\r\x07\x9b") == "a\tb\n[é] �[31m���"
    monkeypatch.setattr("atlasgen.demo.train.sample", lambda *_: "red \x1b[31m\n")
    shown = io.StringIO()
    console = Console(file=shown)
    settings = Settings(**{**TINY.__dict__, "steps": 2})
    run(out=tmp_path, settings=settings, thread_count=1, console=console, text=tiny_text())
    assert "red �[31m" in shown.getvalue() and "\x1b" not in shown.getvalue()
    assert (tmp_path / "sample.txt").read_text() == "red \x1b[31m\n"


@pytest.mark.slow
def test_it_beats_the_bigrams(tmp_path: Path) -> None:
    result = run(steps=300, seconds=900, out=tmp_path, console=QUIET)
    assert result.steps == 300 and result.margin > 0.3

"""Trains a small byte-level language model with a generated layer, and says how good it is."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import importlib
import importlib.util
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from torch import Tensor
from torch.nn import functional

from atlasgen.demo.counting import bigram_bits, unigram_bits
from atlasgen.demo.files import load_checkpoint, save_checkpoint
from atlasgen.demo.pace import Plan, quickest_threads, threads
from atlasgen.demo.report import DemoResult, printable, write_report
from atlasgen.demo.settings import Settings
from atlasgen.demo.text import Text, batch_of, load_text, streams_of
from atlasgen.nn import MemoryLanguageModel, MemoryLayer, ModelState, class_name, layer_class
from atlasgen.spec.load import load_rule, shipped_specs

PROMPT_BYTES, SAMPLE_BYTES, TEMPERATURE = 120, 400, 0.7


def run(
    rule: str = "omeganet_linear",
    steps: int | None = None,
    seconds: float = 200.0,
    out: str | os.PathLike[str] = "out/demo",
    *,
    settings: Settings | None = None,
    thread_count: int | None = None,
    console: Console | None = None,
    text: Text | None = None,
) -> DemoResult:
    """Trains, evaluates, and writes loss.png, sample.txt, result.json and model.pt into `out`.

    rule: the name of a shipped rule (its generated layer is trained) or the path of a spec file.
    steps: default the settings'. seconds: the longest that training may take; on a machine that is
    too slow for all steps fewer are made, the learning rate falling in time. thread_count: default
    the quicker of 1 and 2. text: default Python's help topics.

    A run that was killed goes on from its last checkpoint in `out`; after a finished one, a new one
    starts. The result depends on settings and thread_count alone unless seconds ran short.
    Raises SpecError or CompileError for a rule that cannot be used.
    """
    settings = settings or Settings.for_rule(load_rule(rule))
    if steps is not None:
        settings = dataclasses.replace(settings, steps=steps)
    training = Training(rule, settings, text or load_text(), Path(out), console or Console())
    training.resume()
    thread_count = thread_count or training.thread_count or training.quickest_threads()
    with threads(thread_count):
        training.fit(seconds, thread_count)
        return training.finish()


class Training:
    """One run: a model, its optimizer, how far it came, and the folder in which it leaves files."""

    def __init__(self, rule: str, settings: Settings, text: Text, out: Path, console: Console) -> None:
        self.rule, self.settings, self.text = rule, settings, text
        self.out, self.console = out, console
        layer = generated_layer(rule)
        with _seeded(settings.seed):
            self.model = MemoryLanguageModel(
                layer, settings.hidden_size, settings.num_layers, settings.num_heads, backend="torch"
            )
        self.optimizer = _optimizer(self.model, settings)
        self.done, self.planned, self.elapsed = 0, settings.steps, 0.0
        self.thread_count: int | None = None
        self.history: list[list[float]] = []
        self._recent: list[float] = []

    @property
    def _checkpoint(self) -> Path:
        return self.out / "unfinished.pt"

    def _key(self) -> str:
        content = load_rule(self.rule)
        return self.settings.key(rule=content.name, hash=content.hash, layer=str(content.layer))

    def resume(self) -> None:
        """Goes on from the checkpoint of an unfinished run with the same rule and settings."""
        saved = load_checkpoint(self._checkpoint, self._key())
        if saved is None:
            return
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.done, self.elapsed, self.thread_count = saved["done"], saved["elapsed"], saved["threads"]
        self.history, self._recent = saved["history"], saved["recent"]
        self.console.print(f"going on from step {self.done} of an unfinished run in {self.out}")

    def _save(self, elapsed: float) -> None:
        content = {
            "key": self._key(),
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "done": self.done,
            "elapsed": elapsed,
            "threads": self.thread_count,
            "history": self.history,
            "recent": self._recent,
        }
        save_checkpoint(self._checkpoint, content)

    def quickest_threads(self) -> int:
        """Measured on a copy of the model, so that the run itself is not moved."""
        model = copy.deepcopy(self.model)
        optimizer = _optimizer(model, self.settings)
        return quickest_threads(lambda: _discard(self._step(model, optimizer, 0)))

    def fit(self, seconds: float, thread_count: int) -> None:
        """Makes the steps that are left, as many as fit into the seconds."""
        self.thread_count = thread_count
        plan = Plan(self.settings.steps, seconds, self.elapsed)
        train, held_out = len(self.text.train), len(self.text.held_out)
        self.console.print(
            f"{train:,} bytes to train on, {held_out:,} held out; {_parameters(self.model):,} parameters, "
            f"{self.settings.steps} steps of {self.settings.batch} x {self.settings.context} bytes, "
            f"{thread_count} thread{'s' if thread_count > 1 else ''}"
        )
        with _progress(self.console, self.done, self.settings.steps) as show:
            while self.done < plan.planned:
                rate = self.settings.rate(self.done, plan.planned)
                for group in self.optimizer.param_groups:
                    group["lr"] = rate
                self._recent.append(self._step(self.model, self.optimizer, self.done))
                self.done += 1
                plan.made(self.done)
                if self.done % 10 == 0:
                    self.history.append([self.done, sum(self._recent) / len(self._recent)])
                    self._recent = []
                    show(self.done, plan.planned, self.history[-1][1])
                if self.done % self.settings.checkpoint_every == 0:
                    self._save(plan.elapsed)
        self.planned, self.elapsed = plan.planned, plan.elapsed

    def _step(self, model: MemoryLanguageModel, optimizer: torch.optim.Optimizer, index: int) -> float:
        """One step on the batch of that index; its loss in bits per byte."""
        settings = self.settings
        # Any two steps of any two seeds read different places.
        seed = settings.seed * 1_000_003 + index
        inputs, targets = batch_of(self.text.train, settings.batch, settings.context, seed)
        loss = functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item() / math.log(2)

    def finish(self) -> DemoResult:
        """Evaluates, draws a sample, writes everything, and removes the checkpoint."""
        streams = streams_of(self.text.held_out, self.settings.held_out_streams)
        result = DemoResult(
            rule=load_rule(self.rule).name,
            bits_per_byte=held_out_bits(self.model, streams, self.settings.context),
            bigram_bits_per_byte=bigram_bits(self.text.train, streams),
            unigram_bits_per_byte=unigram_bits(self.text.train, streams),
            steps=self.done,
            planned_steps=self.settings.steps,
            seconds=round(self.elapsed, 1),
            parameters=_parameters(self.model),
            threads=self.thread_count or torch.get_num_threads(),
            out=str(self.out),
            sample=sample(self.model, self.text.held_out[:PROMPT_BYTES], self.settings.seed),
        )
        save_checkpoint(self.out / "model.pt", {"key": self._key(), "model": self.model.state_dict()})
        write_report(result, self.history)
        self._checkpoint.unlink(missing_ok=True)
        self._print(result)
        return result

    def _print(self, result: DemoResult) -> None:
        if result.steps < result.planned_steps:
            self.console.print(
                f"the time was up after {result.steps} of {result.planned_steps} steps: "
                "a longer run (seconds=...) goes lower"
            )
        self.console.print(result.table())
        self.console.print(f"{result.comparison} after {result.seconds:.0f} s of training")
        self.console.print(printable(result.sample), markup=False, highlight=False, soft_wrap=True)
        self.console.print(f"loss.png, sample.txt, result.json and model.pt are in {self.out}")


def generated_layer(rule: str) -> type[MemoryLayer]:
    """The class of atlasgen.generated.<rule> for a shipped rule; else one made from the spec."""
    module = f"atlasgen.generated.{rule}"
    importlib.invalidate_caches()  # the package may have been built by this process
    if rule in shipped_specs() and importlib.util.find_spec(module) is not None:
        return getattr(importlib.import_module(module), class_name(rule))
    return layer_class(rule)


@torch.no_grad()
def held_out_bits(model: MemoryLanguageModel, streams: Tensor, context: int) -> float:
    """Bits per byte on streams int64 [count, length], read piece by piece with the state carried.

    The first byte of each stream is given, not predicted.
    """
    state: ModelState | None = None
    total = 0.0
    inputs, targets = streams[:, :-1], streams[:, 1:]
    for start in range(0, inputs.shape[1], context):
        piece = slice(start, start + context)
        logits, state = model(inputs[:, piece], state, output_state=True)
        loss = functional.cross_entropy(logits.flatten(0, 1), targets[:, piece].flatten(), reduction="sum")
        total += loss.item()
    return total / math.log(2) / targets.numel()


def sample(model: MemoryLanguageModel, prompt: Tensor, seed: int) -> str:
    """The prompt, uint8 [bytes], and what the model writes after it."""
    generator = torch.Generator().manual_seed(seed)
    tokens = prompt[None].to(torch.int64)
    drawn = model.generate(tokens, SAMPLE_BYTES, temperature=TEMPERATURE, generator=generator)
    content = bytes(torch.cat([tokens, drawn], 1)[0].tolist())
    return content.decode("utf-8", errors="replace") + "\n"


def _optimizer(model: MemoryLanguageModel, settings: Settings) -> torch.optim.Optimizer:
    """AdamW; matrices decay, vectors and gates' parameters do not."""
    matrices = [p for p in model.parameters() if p.dim() == 2]
    vectors = [p for p in model.parameters() if p.dim() != 2]
    groups = [
        {"params": matrices, "weight_decay": settings.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=settings.learning_rate, betas=(0.9, 0.95))


def _parameters(model: MemoryLanguageModel) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _discard(value: float) -> None:
    del value


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Random numbers from the seed inside, and the caller's untouched after."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


@contextlib.contextmanager
def _progress(console: Console, done: int, steps: int) -> Iterator[Callable[[int, int, float], None]]:
    """A bar on a terminal, a line every 100 steps elsewhere."""
    if not console.is_terminal:

        def line(done: int, planned: int, bits: float) -> None:
            if done % 100 == 0 or done == planned:
                console.print(f"step {done} of {planned}: {bits:.3f} bits per byte")

        yield line
        return
    columns = (
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[bits]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("training", total=steps, completed=done, bits="")

        def advance(done: int, planned: int, bits: float) -> None:
            bar.update(task, completed=done, total=planned, bits=f"{bits:.3f} bits per byte")

        yield advance

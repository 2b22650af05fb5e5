"""What a run leaves: figures, a plot of the loss, a sample of text."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from atlasgen.demo.files import replacing, write_text


@dataclass(frozen=True)
class DemoResult:
    """Figures of a finished run; bits per byte are of the held-out text.

    steps of planned_steps were made (fewer where the time was up); seconds are of training alone.
    """

    rule: str
    bits_per_byte: float
    bigram_bits_per_byte: float
    unigram_bits_per_byte: float
    steps: int
    planned_steps: int
    seconds: float
    parameters: int
    threads: int
    out: str
    sample: str

    @property
    def margin(self) -> float:
        """Bits per byte by which the model beats the bigrams."""
        return self.bigram_bits_per_byte - self.bits_per_byte

    @property
    def comparison(self) -> str:
        """The margin in words."""
        side = "below" if self.margin >= 0 else "above"
        return f"{abs(self.margin):.2f} bits per byte {side} the bigrams"

    def table(self) -> Table:
        """The figures for a terminal."""
        table = Table(title=f"held-out text, {self.rule}", title_justify="left")
        table.add_column("model")
        table.add_column("bits per byte", justify="right")
        table.add_row("unigrams", f"{self.unigram_bits_per_byte:.3f}")
        table.add_row("bigrams", f"{self.bigram_bits_per_byte:.3f}")
        table.add_row(f"{self.rule}, {self.parameters:,} parameters", f"{self.bits_per_byte:.3f}")
        return table


def printable(text: str) -> str:
    """The text for a terminal: what would move the cursor or change colours is a replacement character."""
    return "".join(c if c in "\n\t " or c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def write_report(result: DemoResult, history: Sequence[Sequence[float]]) -> None:
    """Writes loss.png, sample.txt and result.json into result.out.

    history: (step, bits per byte on training text) in order.
    """
    out = Path(result.out)
    plot_losses(out / "loss.png", result, history)
    write_text(out / "sample.txt", result.sample)
    write_text(out / "result.json", json.dumps(dataclasses.asdict(result), indent=2) + "\n")


def plot_losses(path: Path, result: DemoResult, history: Sequence[Sequence[float]]) -> None:
    """The training loss over steps, with the held-out figures as lines."""
    # Without a display, and without pyplot's global state.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    if history:
        axes.plot(*zip(*history), color="#1f5fa8", label="training text, mean of 10 steps")
    for name, bits, color in (
        ("unigrams, held out", result.unigram_bits_per_byte, "#999999"),
        ("bigrams, held out", result.bigram_bits_per_byte, "#c26a1a"),
        (f"{result.rule}, held out", result.bits_per_byte, "#1a7f3c"),
    ):
        axes.axhline(bits, color=color, linestyle="--", linewidth=1, label=f"{name}: {bits:.2f}")
    axes.set_xlabel("step")
    axes.set_ylabel("bits per byte")
    axes.set_ylim(0, 8)
    axes.legend()
    with replacing(path) as beside:
        figure.savefig(beside, dpi=120, metadata={"Software": None})

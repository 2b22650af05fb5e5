"""What the demonstration trains, and for how long."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from typing import Any

from atlasgen.spec.rule import MemoryRule


@dataclass(frozen=True)
class Settings:
    """Sizes and schedule; the defaults take about three minutes on two cores.

    context: tokens per training sequence. learning_rate: the highest, after warmup steps; it falls
    along a cosine to a tenth. held_out_streams: pieces of the held-out text read side by side.
    tuning_trials: points tried for each kernel, None for whole spaces.
    """

    hidden_size: int = 128
    num_layers: int = 2
    num_heads: int = 4
    context: int = 256
    batch: int = 8
    steps: int = 800
    learning_rate: float = 5e-3
    warmup: int = 40
    weight_decay: float = 0.1
    seed: int = 0
    held_out_streams: int = 16
    checkpoint_every: int = 50
    tuning_trials: int | None = None

    @classmethod
    def for_rule(cls, rule: MemoryRule) -> Settings:
        """The defaults; a smaller model where the rule keeps a matrix per token, whose maps take the time."""
        if any(entry.at == "token" for entry in rule.optimizer.transform):
            return cls(hidden_size=64, batch=4, steps=400, tuning_trials=2)
        return cls()

    def rate(self, step: int, planned: int) -> float:
        """The learning rate of a step (from 0) of `planned` ones."""
        rising = min(1.0, (step + 1) / self.warmup)
        falling = 0.55 + 0.45 * math.cos(math.pi * min(step / max(planned, 1), 1.0))
        return self.learning_rate * rising * falling

    def key(self, **more: Any) -> str:
        """A text that differs for runs that cannot go on from each other's checkpoints."""
        return json.dumps(dataclasses.asdict(self) | more, sort_keys=True)

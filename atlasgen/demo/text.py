"""The demonstration's text: the English of Python's own help topics, as bytes, in two parts."""

from __future__ import annotations

from pydoc_data.topics import topics  # type: ignore[import-untyped]
from typing import NamedTuple

import torch
from torch import Tensor

HELD_OUT = 0.1  # the last tenth


class Text(NamedTuple):
    """Bytes as uint8 tensors, [bytes] each."""

    train: Tensor
    held_out: Tensor


def load_text() -> Text:
    """All help topics in the order in which Python lists them; the last tenth is held out."""
    content = "\n\n".join(topics.values()).encode("utf-8")
    data = torch.frombuffer(bytearray(content), dtype=torch.uint8)
    border = int(len(data) * (1 - HELD_OUT))
    return Text(data[:border], data[border:])


def batch_of(data: Tensor, size: int, context: int, seed: int) -> tuple[Tensor, Tensor]:
    """Inputs and targets, int64 [size, context] each, at places that `seed` alone decides."""
    generator = torch.Generator().manual_seed(seed)
    starts = torch.randint(len(data) - context, (size,), generator=generator)
    rows = data[starts[:, None] + torch.arange(context + 1)].to(torch.int64)
    return rows[:, :-1], rows[:, 1:]


def streams_of(data: Tensor, count: int) -> Tensor:
    """The text as `count` equal pieces that follow each other, int64 [count, length]; the rest is left."""
    length = len(data) // count
    return data[: count * length].reshape(count, length).to(torch.int64)

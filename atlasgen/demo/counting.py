"""Counting models to beat: bits per byte of unigrams and bigrams."""

from __future__ import annotations

import torch
from torch import Tensor

# Taken from every pair that was seen and given to the unigrams; best of 0.1, 0.2 .. 0.9 here.
DISCOUNT = 0.5


def unigram_chances(train: Tensor) -> Tensor:
    """Chances of the 256 bytes, float64 [256], counted with one added to each."""
    counts = torch.bincount(train.to(torch.int64), minlength=256).to(torch.float64) + 1
    return counts / counts.sum()


def bigram_chances(train: Tensor, discount: float = DISCOUNT) -> Tensor:
    """Chances of each byte after each, float64 [256, 256]: absolute discounting over the unigrams."""
    pairs = train[:-1].to(torch.int64) * 256 + train[1:].to(torch.int64)
    counts = torch.bincount(pairs, minlength=256 * 256).reshape(256, 256).to(torch.float64)
    total = counts.sum(dim=1, keepdim=True)
    seen = (counts > 0).sum(dim=1, keepdim=True)
    unigrams = unigram_chances(train)
    kept = (counts - discount).clamp(min=0) / total.clamp(min=1)
    rest = torch.where(total > 0, discount * seen / total.clamp(min=1), 1.0)
    return kept + rest * unigrams


def unigram_bits(train: Tensor, streams: Tensor) -> float:
    """Bits per byte on streams int64 [count, length], the first byte of each not counted."""
    chances = unigram_chances(train)
    return float(-chances[streams[:, 1:]].log2().mean())


def bigram_bits(train: Tensor, streams: Tensor) -> float:
    """As unigram_bits, for the bigram model."""
    chances = bigram_chances(train)
    return float(-chances[streams[:, :-1], streams[:, 1:]].log2().mean())

"""Running sums of log decays, from which products of decays are made."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

RESET = -80.0  # log decays below this forget everything: exp(-80) is 2e-35
MILD = 8.0  # sums below this, and their exponentials' inverses, keep float32's digits


class Running(NamedTuple):
    """Running sums of log decays, and of the resets left out of them (None: there are none).

    A reset is a log decay below RESET: a product over a range with one in it is zero. mild: no sum of a
    block's log decays is as large as MILD, as far as that could be seen without waiting for a device;
    other sums are float64, so that their differences keep all digits of the decays.
    """

    total: Tensor
    resets: Tensor | None
    clean: Tensor
    flags: Tensor | None
    mild: bool

    def before(self) -> tuple[Tensor, Tensor | None]:
        """The sums without each row's own entry."""
        resets = None if self.resets is None or self.flags is None else self.resets - self.flags
        return self.total - self.clean, resets


def running(log: Tensor) -> Running:
    """Sums along the last axis [.., C]."""
    reset = log < RESET
    if log.device.type == "cpu" and not reset.any():  # elsewhere a look at the data would wait for it
        total = torch.cumsum(log, -1)
        if (total.abs() < MILD).all():
            return Running(total, None, log, None, True)
        return Running(torch.cumsum(log, -1, dtype=torch.float64), None, log, None, False)
    clean = torch.where(reset, torch.zeros_like(log), log)
    flags = reset.to(log.dtype)
    total = torch.cumsum(clean, -1, dtype=torch.float64)
    return Running(total, torch.cumsum(flags, -1), clean, flags, False)

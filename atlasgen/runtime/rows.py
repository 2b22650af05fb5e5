"""Between rows of a sequence and blocks of rows, also for calls that resume inside a block.

A call's tokens are laid out at the positions they have in their blocks: row `phase` of the first block holds
the call's first token, and rows before it hold the window's tokens of earlier calls. `Rows` does the layout
of any [B, T, H, ...] tensor and its transpose for gradients.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad


def block_count(tokens: int, rows: int, resumed: bool) -> int:
    """Blocks that a call of `tokens` covers.

    A call that resumes may start anywhere in its first block. Where is data on the device, so the count is
    the largest possible and no one waits for it; a block without tokens is the identity.
    """
    return (tokens + (rows - 1 if resumed else 0) + rows - 1) // rows


@dataclass(frozen=True)
class Rows:
    """The layout of one call: B sequences of T tokens in `count` blocks of `rows`.

    halo: rows before each block that its program reads. held: rows of a window tensor (c - 1).
    source: int64 [B, halo + count * rows] or None: for each laid-out row the index into
    [window rows, call rows, one zero row]; None where nothing is resumed (index = row).
    phase: int64 [B] or None. first: int64 [B] or None: tokens that the window really holds.
    """

    tokens: int
    count: int
    rows: int
    halo: int
    held: int
    source: Tensor | None
    first: Tensor | None
    length: Tensor | None
    open_block: Tensor  # int64 [B]: the block that holds the token after the call

    @classmethod
    def of(
        cls,
        batch: int,
        tokens: int,
        rows: int,
        halo: int,
        held: int,
        aligned: bool,
        position: Tensor | None,
        length: Tensor | None,
        device: torch.device,
    ) -> Rows:
        """The layout; `aligned` is False where blocks do not matter (then the phase is 0)."""
        total = torch.full((batch,), tokens, device=device) if length is None else length
        if position is None:
            count = block_count(tokens, rows, False)
            return cls(tokens, count, rows, halo, held, None, None, length, total // rows)
        phase = position % rows if aligned else torch.zeros_like(position)
        count = block_count(tokens, rows, aligned)
        laid = torch.arange(-halo, count * rows, device=device)
        token = laid[None, :] - phase[:, None]
        inside = (token >= -held) & (token < tokens)
        source = torch.where(inside, token + held, held + tokens)
        first = torch.clamp(position, max=held)
        return cls(tokens, count, rows, halo, held, source, first, length, (phase + total) // rows)

    def _laid_out(self, x: Tensor, window: Tensor | None) -> Tensor:
        """[B, T, H, ...] -> [B, halo + count * rows, H, ...]."""
        if self.source is None:
            tail = self.count * self.rows - self.tokens
            if self.halo == 0 and tail == 0:
                return x
            return pad(x, [0, 0] * (x.ndim - 2) + [self.halo, tail])
        if window is None:
            window = x.new_zeros(x.shape[0], self.held, *x.shape[2:])
        every = torch.cat([window.to(x.dtype), x, torch.zeros_like(x[:, :1])], 1)
        if self.tokens == 0:
            every = torch.cat([window.to(x.dtype), x.new_zeros(x.shape[0], 1, *x.shape[2:])], 1)
        return every[torch.arange(x.shape[0], device=x.device)[:, None], self.source]

    def blocks(self, x: Tensor, window: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Rows of the blocks [B, H, N, C, ...] and of their halos [B, H, N, h, ...] (None if h = 0)."""
        laid = self._laid_out(x, window)
        body = laid[:, self.halo :].unflatten(1, (self.count, self.rows))
        body = body.movedim(3, 1).contiguous()
        if not self.halo:
            return body, None
        halo = laid.unfold(1, self.halo, self.rows)[:, : self.count]  # [B, N, H, ..., h]
        return body, halo.movedim(-1, 2).movedim(3, 1).contiguous()

    def gradient(
        self, body: Tensor | None, halo: Tensor | None, has_window: bool
    ) -> tuple[Tensor, Tensor | None]:
        """The transpose of `blocks`: gradients of x [B, T, H, ...] and of the window."""
        some = body if body is not None else halo
        batch, heads = some.shape[:2]
        rest = some.shape[4:]
        total = some.new_zeros(batch, self.halo + self.count * self.rows, heads, *rest)
        if body is not None:
            total[:, self.halo :] = body.movedim(1, 3).flatten(1, 2)
        if halo is not None and self.count:
            reach = total.unfold(1, self.halo, self.rows)[:, : self.count]
            reach += halo.movedim(1, 3).movedim(2, -1)
        if self.source is None:
            return total[:, self.halo : self.halo + self.tokens], None
        every = some.new_zeros(batch, self.held + self.tokens + 1, heads, *rest)
        every[torch.arange(batch, device=some.device)[:, None], self.source] = total
        window = every[:, : self.held] if has_window else None
        return every[:, self.held : self.held + self.tokens], window

    def _token(self, device: torch.device) -> Tensor:
        """int64 [B or 1, halo + count * rows]: index of each laid-out row's token in the call."""
        if self.source is not None:
            return self.source - self.held
        return torch.arange(-self.halo, self.count * self.rows, device=device)[None]

    def live(self, like: Tensor) -> Tensor:
        """[B or 1, 1, N, C]: 1 where a row of a block holds a token of the call."""
        token = self._token(like.device)[:, self.halo :]
        return self._flags((token >= 0) & (token < self._end(like.device)), like)

    def exists(self, like: Tensor) -> tuple[Tensor, Tensor | None]:
        """1 where a source row holds a token of the sequence: blocks [.., N, C], halos [.., N, h]."""
        token = self._token(like.device)
        first = 0 if self.first is None else -self.first[:, None]
        flags = ((token >= first) & (token < self._end(like.device))).to(like.dtype)
        body = flags[:, self.halo :].unflatten(1, (self.count, self.rows))[:, None]
        if not self.halo:
            return body, None
        return body, flags.unfold(1, self.halo, self.rows)[:, None, : self.count]

    def _end(self, device: torch.device) -> Tensor | int:
        return self.tokens if self.length is None else self.length[:, None]

    def _flags(self, flags: Tensor, like: Tensor) -> Tensor:
        return flags.unflatten(1, (self.count, self.rows))[:, None].to(like.dtype)

    def mask_tail(self, x: Tensor) -> Tensor:
        """Zero the rows of [B, T, ...] past each sequence's length."""
        if self.length is None:
            return x
        keep = torch.arange(self.tokens, device=x.device)[None] < self.length[:, None]
        return torch.where(keep.reshape(*keep.shape, *[1] * (x.ndim - 2)), x, torch.zeros_like(x))

"""Between rows of a sequence and blocks of rows, also for calls that resume inside a block.

A call's tokens are laid out at the positions they have in their blocks: row `phase` of the first block holds
the call's first token, and rows before it hold the window's tokens of earlier calls. `Rows` does the layout
of any [B, T, H, ...] tensor and its transpose for gradients.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache

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
        """[B, T, H, ...] -> [B, H, halo + count * rows, ...], heads outside for blocks to be views."""
        if self.source is None:
            tail = self.count * self.rows - self.tokens
            x = x.transpose(1, 2)
            return pad(x, [0, 0] * (x.ndim - 3) + [self.halo, tail]) if self.halo or tail else x
        if window is None:
            window = x.new_zeros(x.shape[0], self.held, *x.shape[2:])
        every = torch.cat([window.to(x.dtype), x, x.new_zeros(x.shape[0], 1, *x.shape[2:])], 1)
        batch = torch.arange(x.shape[0], device=x.device)
        return every[batch[:, None], self.source].transpose(1, 2)

    def segments(self, x: Tensor, window: Tensor | None, wanted: Collection[str]) -> dict[str, Tensor]:
        """The wanted rows: block [B, H, N, C, ...], halo [.., h, ...], sources [.., h + C, ...].

        They may share memory with x, and their order in memory is any.
        """
        if self.source is None and self.tokens == self.count * self.rows and self.halo <= self.rows:
            return {name: self._whole_blocks(x, name) for name in wanted}
        laid = self._laid_out(x, window)
        starts = {"block": self.halo, "halo": 0, "sources": 0}
        sizes = {"block": self.rows, "halo": self.halo, "sources": self.halo + self.rows}
        found = {}
        for name in wanted:
            rows = laid[:, :, starts[name] :].unfold(2, sizes[name], self.rows)[:, :, : self.count]
            found[name] = rows.movedim(-1, 3)
        return found

    def _whole_blocks(self, x: Tensor, name: str) -> Tensor:
        """One segment of a call that starts a sequence and ends at a border: no row is copied twice."""
        blocks = x.unflatten(1, (self.count, self.rows)).movedim(3, 1)
        if name == "block":
            return blocks
        rows = self.halo + (self.rows if name == "sources" else 0)
        found = x.new_empty(*blocks.shape[:3], rows, *blocks.shape[4:])
        found[:, :, :1, : self.halo] = 0
        found[:, :, 1:, : self.halo] = blocks[:, :, :-1, self.rows - self.halo :]
        if name == "sources":
            found[:, :, :, self.halo :] = blocks
        return found

    def gradient(self, segments: Mapping[str, Tensor], has_window: bool) -> tuple[Tensor, Tensor | None]:
        """The transpose of `segments`: gradients of x [B, T, H, ...] and of the window."""
        some = next(iter(segments.values()))
        batch, heads = some.shape[:2]
        rest = some.shape[4:]
        parts = dict(segments)
        if "sources" in parts:
            sources = parts.pop("sources")
            body, halo = sources[:, :, :, self.halo :], sources[:, :, :, : self.halo]
            parts["block"] = body + parts["block"] if "block" in parts else body
            parts["halo"] = halo + parts["halo"] if "halo" in parts else halo
        if self.source is None and set(parts) == {"block"}:
            return parts["block"].movedim(1, 3).flatten(1, 2)[:, : self.tokens], None
        rows = self.halo + self.count * self.rows
        laid = some.new_empty(batch, rows, heads, *rest)
        total = laid.transpose(1, 2)
        total[:, :, : self.halo] = 0
        if "block" in parts:
            total[:, :, self.halo :].unflatten(2, (self.count, self.rows)).copy_(parts["block"])
        else:
            total.zero_()
        if "halo" in parts and self.count:
            self._add_halo(total, parts["halo"])
        if self.source is None:
            return laid[:, self.halo : self.halo + self.tokens], None
        every = some.new_zeros(batch, self.held + self.tokens + 1, heads, *rest)
        every[torch.arange(batch, device=some.device)[:, None], self.source] = laid
        window = every[:, : self.held] if has_window else None
        return every[:, self.held : self.held + self.tokens], window

    def _add_halo(self, total: Tensor, halo: Tensor) -> None:
        """Add gradients of halo rows to the rows they are; halos do not overlap where h <= C."""
        reach = total.unfold(2, self.halo, self.rows)[:, :, : self.count].movedim(-1, 3)
        if self.halo <= self.rows:
            reach += halo
            return
        for block in range(self.count):
            reach[:, :, block] += halo[:, :, block]

    def _token(self, device: torch.device) -> Tensor:
        """int64 [B or 1, halo + count * rows]: index of each laid-out row's token in the call."""
        if self.source is not None:
            return self.source - self.held
        return torch.arange(-self.halo, self.count * self.rows, device=device)[None]

    def live(self, like: Tensor) -> Tensor:
        """[B or 1, 1, N, C]: 1 where a row of a block holds a token of the call. Read only."""
        if self.source is None and self.length is None:
            return _flags(self, "live", like.dtype, like.device)
        return self._live(like.dtype, like.device)

    def exists(self, like: Tensor, segment: str) -> Tensor:
        """[B or 1, 1, N, rows]: 1 where a row of the segment holds a token of the sequence. Read only."""
        if self.source is None and self.length is None:
            return _flags(self, segment, like.dtype, like.device)
        return self._exists(segment, like.dtype, like.device)

    def _live(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        token = self._token(device)[:, self.halo :]
        flags = (token >= 0) & (token < self._end(device))
        return flags.unflatten(1, (self.count, self.rows))[:, None].to(dtype)

    def _exists(self, segment: str, dtype: torch.dtype, device: torch.device) -> Tensor:
        token = self._token(device)
        first = 0 if self.first is None else -self.first[:, None]
        flags = ((token >= first) & (token < self._end(device))).to(dtype)
        start = self.halo if segment == "block" else 0
        size = {"block": self.rows, "halo": self.halo, "sources": self.halo + self.rows}[segment]
        return flags[:, start:].unfold(1, size, self.rows)[:, None, : self.count].contiguous()

    def _end(self, device: torch.device) -> Tensor | int:
        return self.tokens if self.length is None else self.length[:, None]

    def mask_tail(self, x: Tensor) -> Tensor:
        """Zero the rows of [B, T, ...] past each sequence's length."""
        if self.length is None:
            return x
        keep = torch.arange(self.tokens, device=x.device)[None] < self.length[:, None]
        return torch.where(keep.reshape(*keep.shape, *[1] * (x.ndim - 2)), x, torch.zeros_like(x))


def _flags(rows: Rows, segment: str, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Flags that depend on the layout's sizes alone."""
    return _flags_of_sizes(rows.tokens, rows.count, rows.rows, rows.halo, rows.held, segment, dtype, device)


@lru_cache(maxsize=64)
def _flags_of_sizes(
    tokens: int,
    count: int,
    rows: int,
    halo: int,
    held: int,
    segment: str,
    dtype: torch.dtype,
    device: torch.device,
) -> Tensor:
    with torch.inference_mode(False):
        layout = Rows(tokens, count, rows, halo, held, None, None, None, torch.empty(0))
        if segment == "live":
            return layout._live(dtype, device)
        return layout._exists(segment, dtype, device)

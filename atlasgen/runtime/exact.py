"""Errors of tokens that every row predicts again, for emitted torch programs (see ir/operators/exact.py).

Arrays have any leading axes, which broadcast. Sources are the rows of the halo, then those of the block; the
window of row j ends with source halo + j.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

Function = Callable[..., Tensor | float]
Operand = tuple[Tensor | float, int]
"""A value and how many axes it has from that of the sources on, 0 for none."""


def errors(
    function: Function,
    scores: Tensor,
    links: Tensor,
    window: Tensor,
    terms: Sequence[tuple[Tensor | float, Tensor]],
    operands: Sequence[Operand],
    halo: int,
    length: int,
) -> Tensor:
    """E [.., rows, sources, V], 0 outside the windows.

    Args:
        function: of predictions [.., length, V] and the operands of the same sources.
        scores: G [.., sources, sources]. links: L [.., rows, rows], strictly lower. window: Gamma
            [.., rows, sources]. terms: a_m [.., rows] or a number, and x_m [.., sources, V].
        length: how many sources a window has.
    """
    rows, values = links.shape[-1], terms[0][1].shape[-1]
    shapes = [x.shape[:-2] for x in (scores, links, window, *(row for _, row in terms))]
    leading = torch.broadcast_shapes(*shapes, *_leading(operands))
    shape = (*leading, rows, window.shape[-1], values)
    found, written = scores.new_zeros(shape), scores.new_zeros(shape)
    for row, own in _windows(rows, halo, length):
        predicted = sum(_at(factor, row) * x[..., own, :] for factor, x in terms)
        assert isinstance(predicted, Tensor)
        if row:
            sums = _combined(links[..., row, :row], written[..., :row, :, :])
            predicted = predicted - scores[..., own, :] @ sums
        error = function(predicted, *_of_window(operands, own))
        found[..., row, own, :] = error
        written[..., row, own, :] = window[..., row, own, None] * error
    return found


def gradient(
    function: Function,
    predicted: Tensor,
    gradient: Tensor,
    scores: Tensor,
    links: Tensor,
    window: Tensor,
    operands: Sequence[Operand],
    halo: int,
    length: int,
) -> Tensor:
    """D [.., rows, sources, V], 0 outside the windows.

    Args:
        function: of predictions, operands and gradients of errors: the gradient of the predictions.
        predicted: [.., rows, sources, V] of all sources, as `gradient`.
    """
    rows = links.shape[-1]
    shapes = [x.shape[:-2] for x in (scores, links, window)]
    leading = torch.broadcast_shapes(*shapes, predicted.shape[:-3], gradient.shape[:-3], *_leading(operands))
    shape = (*leading, rows, window.shape[-1], predicted.shape[-1])
    found, pulled = scores.new_zeros(shape), scores.new_zeros(shape)
    for row, own in reversed(list(_windows(rows, halo, length))):
        error = gradient[..., row, own, :]
        if row < rows - 1:
            later = _combined(links[..., row + 1 :, row], pulled[..., row + 1 :, own, :])
            error = error - window[..., row, own, None] * later
        found[..., row, own, :] = error
        reached = function(predicted[..., row, own, :], *_of_window(operands, own), error)
        if isinstance(reached, Tensor):
            pulled[..., row, :, :] = scores[..., own, :].mT @ reached
    return found


def _windows(rows: int, halo: int, length: int) -> Iterator[tuple[int, slice]]:
    """Each row with the sources of its window."""
    return ((row, slice(halo + row + 1 - length, halo + row + 1)) for row in range(rows))


def _at(factor: Tensor | float, row: int) -> Tensor | float:
    return factor[..., row, None, None] if isinstance(factor, Tensor) else factor


def _combined(weights: Tensor, matrices: Tensor) -> Tensor:
    """sum over rows of weights [.., rows] times matrices [.., rows, sources, V]."""
    sources, values = matrices.shape[-2:]
    flat = matrices.reshape(*matrices.shape[:-2], sources * values)
    return (weights[..., None, :] @ flat).reshape(*flat.shape[:-2], sources, values)


def _of_window(operands: Sequence[Operand], own: slice) -> list[Tensor | float]:
    found: list[Tensor | float] = []
    for value, axes in operands:
        if not isinstance(value, Tensor) or not axes:
            found.append(value)
        else:
            found.append(value[..., own, :] if axes == 2 else value[..., own])
    return found


def _leading(operands: Sequence[Operand]) -> list[torch.Size]:
    """The leading axes of operands by source."""
    return [value.shape[:-axes] for value, axes in operands if isinstance(value, Tensor) and axes]

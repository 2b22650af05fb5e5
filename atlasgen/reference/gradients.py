"""Inner gradients by torch.func.grad: the windowed G_t of one token, never derived by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from atlasgen.reference.features import apply_features
from atlasgen.reference.losses import token_losses
from atlasgen.reference.memories import Norm, Weights, apply_link, read_memory
from atlasgen.spec.rule import LossTerm, MemoryRule


@dataclass(frozen=True)
class TermRows:
    """One loss term over the tokens of the window's history and of the call, N in all, head first.

    raw [B, H, N, K] and features [B, H, N, F] of the term's key; target [B, H, N, V]; values: the
    rule's scalar inputs [B, H, N]; scale: the term's own step, [B, H, N] or None; write: the
    features that the error is written along where they are not the key's, or None; channel_scale:
    the step per key channel [B, H, N, F, 1] or value channel [B, H, N, 1, V] of a gradient matrix,
    or None.
    """

    term: LossTerm
    raw: Tensor
    features: Tensor
    target: Tensor
    values: Mapping[str, Tensor]
    scale: Tensor | None
    write: Tensor | None
    channel_scale: Tensor | None

    @property
    def is_plain(self) -> bool:
        """True where the term's update is the gradient of a loss in M (no write key, no channel
        step).
        """
        return self.write is None and self.channel_scale is None


def _target(target: str, rows: Mapping[str, Tensor]) -> Tensor:
    if target == "0":
        return torch.zeros_like(rows["v"])
    if target.replace(" ", "") == "v-k":
        return rows["v"] - rows["k"]
    return rows[target]


def term_rows(
    rule: MemoryRule, term: LossTerm, rows: Mapping[str, Tensor], per_head: Mapping[str, Tensor]
) -> TermRows:
    """The data of one term.

    rows: "k", "v" and the per-token inputs, [B, H, N, ...]; per_head: inputs [H, ...].
    """
    coefficients = per_head.get("coefficients")
    raw = rows[term.key]
    lengths = raw.shape[:3]
    values = {}
    scale = channel_scale = None
    for entry in rule.inputs:
        if entry.shape == "token" and entry.name in rows:
            values[entry.name] = rows[entry.name]
        elif entry.shape == "head":
            values[entry.name] = per_head[entry.name][None, :, None].expand(lengths)
    if term.lr is not None:
        shape = getattr(rule.input_named(term.lr), "shape", "token")
        if shape == "key":
            channel_scale = rows[term.lr].unsqueeze(-1)
        elif shape == "value":
            channel_scale = rows[term.lr].unsqueeze(-2)
        else:
            scale = values[term.lr]
    return TermRows(
        term=term,
        raw=raw,
        features=apply_features(rule.features, raw, "k", coefficients),
        target=_target(term.target, rows),
        values=values,
        scale=scale,
        write=None
        if term.write in (None, term.key)
        else apply_features(rule.features, rows[term.write], "k", coefficients),
        channel_scale=channel_scale,
    )


def _weighted_loss(data: TermRows, span: slice, prediction: Tensor, weights: Tensor) -> Tensor:
    """sum over batch, heads and tokens of weight * loss: memories are independent, so one sum
    serves all.
    """
    values = {name: value[:, :, span] for name, value in data.values.items()}
    losses = token_losses(data.term, prediction, data.target[:, :, span], values)
    if data.scale is not None:
        losses = losses * data.scale[:, :, span]
    return (weights * losses).sum()


def _prediction(rule: MemoryRule, data: TermRows, linked: Weights, span: slice, norm: Norm) -> Tensor:
    return read_memory(rule.memory, linked, data.features[:, :, span], data.raw[:, :, span], norm)


def _written_along(
    rule: MemoryRule, data: TermRows, point: Weights, span: slice, weights: Tensor, norm: Norm
) -> Tensor:
    """sum_i weight_i step_i (write_i outer e_i): a matrix memory whose update is not its loss's
    gradient.
    """
    prediction = _prediction(rule, data, apply_link(rule.memory.link, point), span, norm)
    errors = torch.func.grad(lambda pred: _weighted_loss(data, span, pred, weights))(prediction)
    along = (data.features if data.write is None else data.write)[:, :, span]
    outer = along.unsqueeze(-1) * errors.unsqueeze(-2)
    if data.channel_scale is not None:
        outer = outer * data.channel_scale[:, :, span]
    return outer.sum(2)


def window_gradient(
    rule: MemoryRule, terms: tuple[TermRows, ...], point: Weights, span: slice, weights: Tensor, norm: Norm
) -> dict[str, Tensor]:
    """sum over the tokens of `span` of weight_i * g_i, all taken at `point`.

    point: the weights M* [B, H, in, out]; weights: [B, H, n] for the n tokens of the span, oldest
    first; norm: of the memory. Returns the gradient of each weight. Outer derivatives flow through
    everything.
    """
    plain = [data for data in terms if data.is_plain]

    def objective(candidate: Weights) -> Tensor:
        linked = apply_link(rule.memory.link, candidate)
        total = weights.new_zeros(())
        for data in plain:
            prediction = _prediction(rule, data, linked, span, norm)
            total = total + _weighted_loss(data, span, prediction, weights)
        return total

    gradient = dict(torch.func.grad(objective)(dict(point)))
    for data in terms:
        if not data.is_plain:
            gradient["M"] = gradient["M"] + _written_along(rule, data, point, span, weights, norm)
    return gradient

"""The recurrence itself: one token after the other, as the definition of a memory rule says.

    G_t = sum over the window of gamma_{t,i} grad_M l(f(M*, phi(k_i)), v_i)
    S_t = theta_t S_{t-1} + [lr_t] G_t
    M_t = alpha_t M_{t-1} (+ (1 - alpha_t) M_0) - [lr_t] U(S_t)
    y_t = scale f(link(M), phi(q_t)) / normaliser

M* is the memory before the token, or before its block.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from atlasgen.reference.arguments import Call
from atlasgen.reference.expressions import evaluate_read
from atlasgen.reference.features import apply_features
from atlasgen.reference.gates import Multiplier, multiplier, times
from atlasgen.reference.gradients import TermRows, term_rows, window_gradient
from atlasgen.reference.memories import Weights, apply_link, read_memory
from atlasgen.reference.state import Carry, State, close_carry, map_tensors, open_carry
from atlasgen.reference.transforms import apply_transforms, clipped, projected
from atlasgen.reference.windows import counted, normalised, window_weights
from atlasgen.spec.rule import MemoryRule


@dataclass(frozen=True)
class Sequence:
    """The tokens of one call, prepared: everything that no memory enters.

    terms: loss terms over history and call; ones: phi(k) the same way [B, H, N, F], for the
    normaliser; gate: the window's gate, head first; queries [B, H, T, R, F] and raw_queries [B, H,
    T, R, K], R reads of each memory; the multipliers of the rule; history: how many rows precede
    the call's first token.
    """

    terms: tuple[TermRows, ...]
    ones: Tensor
    gate: Tensor | None
    queries: Tensor
    raw_queries: Tensor
    lr: Multiplier
    alpha: Multiplier
    theta: Multiplier
    history: int
    length: int
    scale: float


def _streams(rule: MemoryRule, call: Call, carry: Carry) -> dict[str, Tensor]:
    """Per-token tensors with the window's history before the call's tokens: [B, N, H, ...]."""
    streams = {}
    for name in call.streams:
        rows = call.per_token[name]
        streams[name] = torch.cat([carry.window[name], rows], 1) if carry.window else rows
    return streams


def _prepare(rule: MemoryRule, call: Call, carry: Carry, streams: Mapping[str, Tensor]) -> Sequence:
    rows = {name: stream.transpose(1, 2) for name, stream in streams.items()}
    gate = None
    if rule.window.gate.kind == "token":
        gate = rows["gamma"]
    elif rule.window.gate.kind == "pair":
        gate = call.per_token["gamma"].transpose(1, 2)
    elif rule.window.gate.kind == "position":
        gate = call.per_head["gamma"][None]
    batch, length, heads = call.per_token["v"].shape[:3]
    queries = call.per_token["q"].unflatten(2, (heads, -1)).transpose(1, 2)
    coefficients = call.per_head.get("coefficients")

    def gate_of(name: str, gate: object, log: bool) -> Multiplier:
        argument = call.per_token.get(name, call.per_head.get(name))
        return multiplier(gate, argument, call.heads, log)  # type: ignore[arg-type]

    return Sequence(
        terms=tuple(term_rows(rule, term, rows, call.per_head) for term in rule.loss),
        ones=apply_features(rule.features, rows["k"], "k", coefficients),
        gate=gate,
        queries=apply_features(rule.features, queries, "q", coefficients),
        raw_queries=queries,
        lr=gate_of("lr", rule.optimizer.lr, False),
        alpha=gate_of("log_alpha", rule.retention.alpha, True),
        theta=gate_of("log_theta", rule.optimizer.theta, True),
        history=rows["k"].shape[2] - length,
        length=length,
        scale=call.scale,
    )


def _retained(alpha: Tensor | None, weights: Weights, origin: Weights) -> dict[str, Tensor]:
    """alpha M (+ (1 - alpha) M_0 where there is an origin)."""
    kept = {name: times(alpha, weight) for name, weight in weights.items()}
    if alpha is None:
        return kept
    return {
        name: weight + times(1 - alpha, origin[name]) if name in origin else weight
        for name, weight in kept.items()
    }


def _advance(
    rule: MemoryRule,
    weights: Weights,
    momentum: Weights,
    gradient: Weights,
    origin: Weights,
    factors: tuple[Tensor | None, Tensor | None, Tensor | None],
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """M_t and S_t from M_{t-1}, S_{t-1} and G_t; factors: lr, alpha, theta of the token."""
    lr, alpha, theta = factors
    optimizer = rule.optimizer
    if optimizer.lr_at == "gradient":
        gradient = {name: times(lr, weight) for name, weight in gradient.items()}
    accumulated = dict(gradient)
    if optimizer.kind == "momentum":
        for name, weight in gradient.items():
            accumulated[name] = times(theta, momentum[name]) + weight
    stepped = accumulated
    if optimizer.nesterov:
        stepped = {name: times(theta, accumulated[name]) + g for name, g in gradient.items()}
    straight_through = rule.gradient.newton_schulz == "straight_through"
    updates = apply_transforms(optimizer.transform, stepped, straight_through)
    if optimizer.lr_at == "update":
        updates = {name: times(lr, weight) for name, weight in updates.items()}
    kept = _retained(alpha, weights, origin)
    written = {name: kept[name] - updates[name] for name in kept}
    return written, accumulated if optimizer.kind == "momentum" else {}


def _gradient(
    rule: MemoryRule, sequence: Sequence, carry: Carry, point: Weights, token: int
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """G_t of the memory, and of the normaliser's sum: a dot loss to the target one, so e = -1."""
    counts = counted(rule, carry.position)
    stop = sequence.history + token + 1
    gate_token = stop - 1 if rule.window.gate.kind == "token" else token
    weights = window_weights(rule, sequence.gate, gate_token, counts.total)
    first = sequence.ones[:, :, stop - counts.total : stop]
    if weights is None:
        weights = torch.ones_like(first[..., 0])
    weights = normalised(rule, weights.expand(first.shape[:3]))
    parts = [(point, counts.inside, stop), (carry.previous, counts.before, stop - counts.inside)]
    gradient: dict[str, Tensor] = {}
    for at, count, end in parts:
        if count == 0:
            continue
        offset = end - stop + counts.total
        part = _part_gradient(
            rule, sequence, at, slice(end - count, end), weights[:, :, offset - count : offset]
        )
        gradient = {name: gradient[name] + g for name, g in part.items()} if gradient else part
    if rule.optimizer.clip is not None and rule.optimizer.clip.of == "window":
        gradient = clipped(gradient, rule.optimizer.clip.norm)
    sums = -(weights.unsqueeze(-1) * first).sum(2).unsqueeze(-1)
    return gradient, {"z": sums}


def _part_gradient(
    rule: MemoryRule, sequence: Sequence, point: Weights, span: slice, weights: Tensor
) -> dict[str, Tensor]:
    """The weighted gradient of the tokens of `span` at one point, each token's clipped if the rule
    says so.
    """
    clip = rule.optimizer.clip
    if clip is None or clip.of != "token":
        return window_gradient(rule, sequence.terms, point, span, weights)
    total: dict[str, Tensor] = {}
    for index in range(span.start, span.stop):
        one = slice(index, index + 1)
        gamma = weights[:, :, index - span.start, None, None]
        unit = torch.ones_like(weights[:, :, :1])
        single = clipped(window_gradient(rule, sequence.terms, point, one, unit), clip.norm)
        single = {name: times(gamma, weight) for name, weight in single.items()}
        total = {name: total[name] + g for name, g in single.items()} if total else single
    return total


def _implicit(lr: Tensor | None, x: Tensor) -> Tensor:
    """lr / (1 + lr x.x): the step that solves the proximal problem of one token's l2 loss."""
    square = x.square().sum(-1)[..., None, None]
    return 1 / (1 + square) if lr is None else lr / (1 + lr * square)


def _read(rule: MemoryRule, sequence: Sequence, weights: Weights, carry: Carry, t: int) -> Tensor:
    """y_t [B, H, R, V]."""
    x = sequence.queries[:, :, t]
    linked = apply_link(rule.memory.link, weights)
    raw = sequence.raw_queries[:, :, t]
    out = read_memory(rule.memory, linked, x, raw)
    if rule.read.f is not None:
        out = evaluate_read(rule.read.f, out, raw)
    out = sequence.scale * out
    if rule.read.normaliser == "sum":
        out = out / (x @ carry.normaliser["z"])
    return out


def _step(rule: MemoryRule, sequence: Sequence, carry: Carry, token: int) -> Tensor:
    """One token: updates `carry` and returns y_t [B, H, R, V]."""
    lr, alpha, theta = (gate.at(token) for gate in (sequence.lr, sequence.alpha, sequence.theta))
    if rule.optimizer.kind == "implicit":
        lr = _implicit(lr, sequence.ones[:, :, sequence.history + token])
    factors = lr, alpha, theta
    before, anchor = carry.memory, carry.anchor
    point = anchor if rule.block.size > 1 else before
    if rule.retention.order == "decay_first":
        point = _retained(alpha, before, carry.origin)
    gradient, sums = _gradient(rule, sequence, carry, point, token)
    carry.memory, carry.momentum = _advance(rule, before, carry.momentum, gradient, carry.origin, factors)
    carry.memory = projected(rule.retention.project, carry.memory)
    if carry.normaliser:
        carry.normaliser, carry.normaliser_momentum = _advance(
            rule, carry.normaliser, carry.normaliser_momentum, sums, {}, factors
        )
    carry.position += 1
    if carry.position % rule.block.size == 0:
        carry.previous, carry.anchor = anchor, carry.memory
    read_from = {"post": carry.memory, "pre": before, "block": anchor}[rule.read.at]
    return _read(rule, sequence, read_from, carry, token)


def run_rows(rule: MemoryRule, call: Call, state: State) -> tuple[Tensor, State]:
    """All tokens of rows that share one position. Returns y [B, T, R * H, V] and the state after
    them.
    """
    carry = open_carry(rule, state)
    streams = _streams(rule, call, carry)
    sequence = _prepare(rule, call, carry, streams)
    reads = [_step(rule, sequence, carry, token) for token in range(sequence.length)]
    values = call.per_token["v"]
    rows, length, heads, size = values.shape
    if reads:
        y = torch.stack(reads, 1).flatten(2, 3)
    else:
        per_memory = sequence.queries.shape[3]
        y = values.new_zeros(rows, 0, heads * per_memory, size)
    history = sequence.history
    carry.window = {name: streams[name][:, length : length + history] for name in carry.window}
    after = close_carry(rule, carry, rows, values.device)
    return (y, after) if reads and rows else connected(call, y, after)


def connected(call: Call, y: Tensor, state: State) -> tuple[Tensor, State]:
    """y and the state plus empty sums of the call's tensors: results of no tokens that take part in
    a backward pass like any other.
    """
    given = [*call.per_token.values(), *call.per_head.values()]
    nothing = torch.stack([tensor.flatten()[:0].sum() for tensor in given]).sum()

    def joined(tensor: Tensor) -> Tensor:
        return tensor + nothing if tensor.is_floating_point() else tensor

    return joined(y), map_tensors(joined, state)

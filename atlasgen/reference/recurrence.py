"""The recurrence itself: one token after the other, as the definition of a memory rule says.

    G_t = sum over the window of gamma_{t,i} grad_M l(f(M*, phi(k_i)), v_i)
    S_t = theta_t S_{t-1} + [lr_t] G_t
    M_t = alpha_t M_{t-1} (+ (1 - alpha_t) M_0) - [lr_t] U(S_t)
    y_t = scale f(link(M), phi(q_t)) / normaliser

M* is the memory before the token, or before its block; with micro_steps a token takes the step of G_t to M_t
n times, alpha_t at the first of them alone. Rules whose updates wait for the end of their
block are in held.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from atlasgen.reference.arguments import Call
from atlasgen.reference.expressions import evaluate_read
from atlasgen.reference.features import apply_features
from atlasgen.reference.gates import Factors, Multiplier, factors_at, multiplier, times
from atlasgen.reference.gradients import TermRows, term_rows, window_gradient
from atlasgen.reference.held import hold_block, hold_scaled, memory_of_row, row_factor
from atlasgen.reference.memories import Norm, Weights, apply_link, memory_output, read_memory
from atlasgen.reference.state import Carry, State, close_carry, map_tensors, open_carry
from atlasgen.reference.transforms import clipped
from atlasgen.reference.updates import advanced, pull, retained
from atlasgen.reference.windows import counted, normalised, window_weights
from atlasgen.spec.rule import MemoryRule


@dataclass(frozen=True)
class Sequence:
    """The tokens of one call, prepared: everything that no memory enters.

    terms: loss terms over history and call; ones: phi(k) the same way [B, H, N, F], for the
    normaliser; gate: the window's gate, head first; queries [B, H, T, R, F] and raw_queries [B, H,
    T, R, K], R reads of each memory; gates: multipliers by the names of their arguments; row: the
    row factor; norm: of the memory's output; history: how many rows precede the call's first token.
    """

    terms: tuple[TermRows, ...]
    ones: Tensor
    gate: Tensor | None
    queries: Tensor
    raw_queries: Tensor
    gates: Mapping[str, Multiplier]
    row: Multiplier
    norm: Norm
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

    gates = {
        name: multiplier(
            gate,
            call.per_token.get(name, call.per_head.get(name)),
            call.heads,
            log=name.startswith("log_"),
        )
        for name, gate in rule.gates.items()
        if name != "gamma"
    }
    return Sequence(
        terms=tuple(term_rows(rule, term, rows, call.per_head) for term in rule.loss),
        ones=apply_features(rule.features, rows["k"], "k", coefficients),
        gate=gate,
        queries=apply_features(rule.features, queries, "q", coefficients),
        raw_queries=queries,
        gates=gates,
        row=_row(rule, call),
        norm=Norm(rule.norm, call.per_head.get("norm_gain"), call.per_head.get("norm_bias")),
        history=rows["k"].shape[2] - length,
        length=length,
        scale=call.scale,
    )


def _row(rule: MemoryRule, call: Call) -> Multiplier:
    """The row factor: per token, or per position in the block [1, H, b, 1]."""
    if rule.block.row_scale == "token":
        return Multiplier(tokens=call.per_token["row_scale"][..., None, None])
    if rule.block.row_scale == "none":
        return Multiplier()
    counts = torch.arange(1, rule.block.size + 1, dtype=call.heads.dtype, device=call.heads.device)
    row = call.per_head.get("row_scale", (1 / counts).expand(len(call.heads), -1))
    return Multiplier(fixed=row[None, :, :, None])


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
        return window_gradient(rule, sequence.terms, point, span, weights, sequence.norm)
    total: dict[str, Tensor] = {}
    for index in range(span.start, span.stop):
        one = slice(index, index + 1)
        gamma = weights[:, :, index - span.start, None, None]
        unit = torch.ones_like(weights[:, :, :1])
        single = window_gradient(rule, sequence.terms, point, one, unit, sequence.norm)
        single = clipped(single, clip.norm)
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
    if rule.read.f is None:
        out = read_memory(rule.memory, linked, x, raw, sequence.norm)
    else:
        out = evaluate_read(rule.read.f, memory_output(rule.memory, linked, x), raw, sequence.norm)
    out = sequence.scale * out
    if rule.read.normaliser == "sum":
        out = out / (x @ carry.normaliser["z"])
    return out


def _factors(rule: MemoryRule, sequence: Sequence, token: int) -> dict[str, Factors]:
    """What multiplies each weight, and the normaliser's sum z, which moves as the matrix does."""
    factors = factors_at(rule, sequence.gates, token)
    if rule.optimizer.kind == "implicit":
        x = sequence.ones[:, :, sequence.history + token]
        factors = {name: replace(entry, lr=_implicit(entry.lr, x)) for name, entry in factors.items()}
    return {**factors, "z": factors["M"]} if "M" in factors else factors


def _point(rule: MemoryRule, carry: Carry, factors: Mapping[str, Factors]) -> Weights:
    """M*, at which this token's inner gradients are taken."""
    if rule.retention.order == "decay_first":
        return {
            name: retained(factors[name].alpha, weight, pull(rule, carry.origin, name))
            for name, weight in carry.memory.items()
        }
    return carry.anchor if rule.block.size > 1 else carry.memory


def _update(
    rule: MemoryRule, sequence: Sequence, carry: Carry, factors: Mapping[str, Factors], token: int
) -> tuple[Weights, Weights]:
    """One token's update of `carry` but for its position; returns M_{t-1} and M_t."""
    gradient, sums = _gradient(rule, sequence, carry, _point(rule, carry, factors), token)
    before: Weights = carry.memory
    if rule.block.row_scale != "none":
        if rule.read.at == "pre" and carry.position % rule.block.size:
            before = memory_of_row(carry, row_factor(rule, sequence.row, carry.position - 1, token - 1))
        row = row_factor(rule, sequence.row, carry.position, token)
        return before, hold_scaled(rule, carry, gradient, factors, row)
    if rule.held:
        return before, hold_block(rule, carry, gradient, factors, sequence.gates, token)
    carry.memory, carry.momentum = advanced(
        rule, carry.memory, carry.momentum, gradient, carry.origin, factors
    )
    if carry.normaliser:
        carry.normaliser, carry.normaliser_momentum = advanced(
            rule, carry.normaliser, carry.normaliser_momentum, sums, {}, factors
        )
    return before, carry.memory


def _step(rule: MemoryRule, steps: tuple[Sequence, ...], carry: Carry, token: int) -> Tensor:
    """One token: updates `carry` and returns y_t [B, H, R, V].

    steps: what each of its micro-steps reads. The first decays the memory, and each moves it from where
    the one before it left it.
    """
    first, anchor = steps[0], carry.anchor
    before, after = _update(rule, first, carry, _factors(rule, first, token), token)
    for sequence in steps[1:]:
        factors = _factors(rule, sequence, token)
        kept = {name: replace(entry, alpha=None) for name, entry in factors.items()}
        _, after = _update(rule, sequence, carry, kept, token)
    carry.position += 1
    if carry.position % rule.block.size == 0:
        carry.previous, carry.anchor = anchor, carry.memory
    read_from = {"post": after, "pre": before, "block": anchor}[rule.read.at]
    return _read(rule, first, read_from, carry, token)


def run_rows(rule: MemoryRule, call: Call, state: State) -> tuple[Tensor, State]:
    """All tokens of rows that share one position. Returns y [B, T, R * H, V] and the state after
    them.
    """
    carry = open_carry(rule, state)
    calls = [call.of_step(step) for step in range(rule.optimizer.micro_steps)]
    streams = _streams(rule, calls[0], carry)
    steps = tuple(_prepare(rule, own, carry, _streams(rule, own, carry)) for own in calls)
    sequence = steps[0]
    reads = [_step(rule, steps, carry, token) for token in range(sequence.length)]
    values = calls[0].per_token["v"]
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

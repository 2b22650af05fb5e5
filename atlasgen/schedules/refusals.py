"""What the dual form does not serve: each field with the reason and the nearest value that is served."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from atlasgen.spec.rule import MemoryRule

LINEAR_UPDATE = "the update must be linear in the gradient"


class Refusal(NamedTuple):
    """A field and value that are not served, why, and the nearest that is."""

    field: str
    value: object
    reason: str
    nearest: str


NO_SCALE = 'row_scale = "none"'

Case = tuple[bool, str, object, str, str]  # whether it applies, then the refusal


def refusals(rule: MemoryRule) -> list[Refusal]:
    """All refusals of a rule, empty where the dual form serves it."""
    cases = (_memory, _loss, _optimizer, _retention, _read, _window, _block)
    found = [entry for case in cases for entry in case(rule)]
    return [Refusal(field, value, why, nearest) for applies, field, value, why, nearest in found if applies]


def _memory(rule: MemoryRule) -> Iterator[Case]:
    memory, features = rule.memory, rule.features
    link = memory.link.kind
    reason = "a map of the whole state needs a schedule of its own"
    yield link != "none", "memory.link", link, reason, 'link = "none"'
    reason = "infinitely many features leave only the tokens themselves to keep"
    yield features.kind == "exp", "features.kind", "exp", reason, 'features = "elu1", or poly'
    projected = features.kind == "poly" and features.basis == "projected"
    reason = "no schedule draws a projection"
    yield projected, "features.basis", "projected", reason, 'basis = "symmetric"'


def _loss(rule: MemoryRule) -> Iterator[Case]:
    for term in rule.loss:
        plain = term.key == "k" and term.target in ("v", "v - k") and term.write in (None, "k")
        value = f"{term.kind} with key {term.key}, target {term.target}, write {term.write}"
        reason = "every term predicts v from k and writes at k"
        yield not plain or term.lr is not None, "loss", value, reason, f'loss = "{term.kind}"'
    for entry in rule.inputs:
        wrong = entry.shape not in ("token", "head")
        reason = "a loss parameter is one number per token or per head"
        yield wrong, f"inputs.{entry.name}", entry.shape, reason, f'{entry.name} = "token"'


def _optimizer(rule: MemoryRule) -> Iterator[Case]:
    optimizer = rule.optimizer
    kind, rate, steps = optimizer.kind, optimizer.lr.kind, optimizer.micro_steps
    reason = "the dual form sums gradients linearly"
    yield kind not in ("gd", "momentum"), "optimizer.kind", kind, reason, 'optimizer = "gd"'
    reason = "a step size per channel is not a row factor"
    yield rate in ("key", "value"), "optimizer.lr", rate, reason, 'lr = "token"'
    yield optimizer.nesterov, "optimizer.nesterov", True, LINEAR_UPDATE, "nesterov = false"
    second = optimizer.second.kind
    yield second != "none", "optimizer.second", "second moment", LINEAR_UPDATE, "no second"
    step = optimizer.step
    yield step is not None, "optimizer.step", step, LINEAR_UPDATE, "no step"
    clip = optimizer.clip is not None and optimizer.clip.of != "token"
    reason = "only the norm of one token's gradient is a number per row"
    yield clip, "optimizer.clip.of", optimizer.clip and optimizer.clip.of, reason, 'of = "token"'
    yield steps != 1, "optimizer.micro_steps", steps, LINEAR_UPDATE, "micro_steps = 1"
    detached = rule.gradient.state != "full" or rule.gradient.inner != "full"
    reason = "the derivative follows the whole recursion"
    yield detached, "gradient", "detach", reason, "no gradient section"


def _retention(rule: MemoryRule) -> Iterator[Case]:
    retention = rule.retention
    kind, order, project = retention.alpha.kind, retention.order, retention.project.kind
    reason = "the decay of the dual form is one number per head and token"
    yield kind in ("channel", "zero"), "retention.kind", kind, reason, 'retention = "token"'
    reason = "the dual form takes errors at the memory of the last border, before any decay"
    yield order == "decay_first", "retention.order", order, reason, 'order = "error_first"'
    reason = "a projection after each token leaves the linear recursion"
    served = project == "none" or project == "row_norm" and rule.block.write == "block"
    yield not served, "retention.project", project, reason, 'project = "none"'


def _read(rule: MemoryRule) -> Iterator[Case]:
    read = rule.read
    normaliser = read.normaliser in ("softmax", "max1")
    reason = "only the sum of weights is carried along"
    yield normaliser, "read.normaliser", read.normaliser, reason, 'normaliser = "sum"'


def _window(rule: MemoryRule) -> Iterator[Case]:
    window, block = rule.window.length, rule.block.size
    reason = "a window of all tokens needs the least squares schedule"
    yield window == "all", "window.length", window, reason, "window = 16"
    held = rule.block.write == "block" or rule.block.row_scale != "none"
    beyond = (rule.depends_on_memory or held) and window != "all" and int(window) > block
    reason = f"a window reaches over at most one border, and blocks have {block} tokens"
    yield beyond, "window.length", window, reason, f"window = {block}, or block = {window}"


def _block(rule: MemoryRule) -> Iterator[Case]:
    block, retention, optimizer, read = rule.block, rule.retention, rule.optimizer, rule.read
    scaled, written = block.row_scale != "none", block.write == "block"
    maps = [*optimizer.transform, *(t for entry in rule.weights for t in entry.transform or ())]
    reason = "a row factor scales the open block's update, which nothing decays"
    own = any(entry.retention is not None for entry in rule.weights)
    yield (
        scaled and (retention.alpha.kind != "none" or own),
        "block.row_scale",
        block.row_scale,
        reason,
        NO_SCALE,
    )
    reason = "a row factor scales a sum of gradients"
    yield scaled and bool(maps), "block.row_scale", block.row_scale, reason, NO_SCALE
    reason = "one update per block has no rows to scale"
    yield scaled and written, "block.row_scale", block.row_scale, reason, NO_SCALE
    reason = "the factor of the token before may lie in an earlier call"
    yield scaled and read.at == "pre", "read.at", read.at, reason, 'read = "post"'
    held = scaled or written
    reason = "a sum that is held until its block is full has no value at each token"
    yield (
        held and read.normaliser != "none",
        "read.normaliser",
        read.normaliser,
        reason,
        'normaliser = "none"',
    )
    skips = block.partial == "skip" and not written
    reason = "tokens write one by one"
    yield skips, "block.partial", "skip", reason, 'partial = "update", or write = "block"'
    for entry in maps:
        reason = "a map at borders needs one update per block"
        yield entry.at == "block" and not written, "optimizer.transform.at", "block", reason, 'at = "token"'
        reason = "one update per block has one map"
        yield entry.at == "token" and written, "optimizer.transform.at", "token", reason, 'at = "block"'

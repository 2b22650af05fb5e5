"""What the reference does not execute, refused by field."""

from __future__ import annotations

from collections.abc import Iterator

from atlasgen.errors import CompileError
from atlasgen.spec.rule import MemoryRule

Refusal = tuple[str, object, str, str]  # field, value, reason, nearest that is accepted


def _memory(rule: MemoryRule) -> Iterator[Refusal]:
    memory = rule.memory
    if memory.link.kind != "none" and memory.link.where == "block":
        yield "memory.link.where", "block", "a link acts on every read", 'where = "token"'
    if rule.features.kind == "exp":
        yield (
            "features.kind",
            "exp",
            "its memory keeps tokens, not weights",
            '"poly" with degree = 2',
        )
    if rule.features.kind == "poly" and rule.features.basis == "projected":
        yield "features.basis", "projected", "its projection is not an argument", '"symmetric"'
    if rule.weights:
        yield (
            "weights",
            rule.weights[0].name,
            "all weights share the rule's gates",
            "no weights section",
        )
    deep = memory.kind != "matrix" or memory.bias
    for term in rule.loss:
        own_lr = rule.input_named(term.lr) if term.lr else None
        if deep and term.write not in (None, term.key):
            yield "loss.write", term.write, "a write key needs a matrix memory", "no write"
        if deep and own_lr is not None and own_lr.shape in ("key", "value"):
            yield "loss.lr", term.lr, "a step per channel needs a matrix memory", '"token"'


def _update(rule: MemoryRule) -> Iterator[Refusal]:
    optimizer, block, window = rule.optimizer, rule.block, rule.window
    if optimizer.kind == "least_squares":
        yield "optimizer.kind", optimizer.kind, "it is no gradient step", '"gd" or "momentum"'
    one_token = block.size == window.length == 1 and len(rule.loss) == 1
    if optimizer.kind == "implicit" and not (one_token and rule.loss[0].key == "k"):
        yield "optimizer.kind", "implicit", "its step solves one l2 term of one token", '"gd"'
    if optimizer.kind == "momentum" and optimizer.theta.kind == "none":
        yield "optimizer.theta", "none", "momentum needs its factor", 'theta = "token"'
    for field, value, neutral in (
        ("second", optimizer.second.kind, "none"),
        ("step", optimizer.step, None),
        ("micro_steps", optimizer.micro_steps, 1),
    ):
        if value != neutral:
            yield f"optimizer.{field}", value, "the reference does not execute it", f"{neutral}"
    for transform in optimizer.transform:
        if transform.at == "block":
            yield "optimizer.transform.at", "block", "maps act on every token", '"token"'
    if optimizer.clip is not None and optimizer.clip.of == "block":
        yield "optimizer.clip.of", "block", "gradients are summed token by token", '"window"'
    for field, value, neutral in (
        ("write", block.write, "token"),
        ("momentum", block.momentum, "token"),
        ("row_scale", block.row_scale, "none"),
        ("partial", block.partial, "update"),
    ):
        if value != neutral:
            yield f"block.{field}", value, "updates happen at every token", f'"{neutral}"'
    if window.length == "all":
        yield "window.length", "all", "the window must have an end", "length = 16"
    elif window.boundary == "carry" and rule.depends_on_memory and window.length > max(rule.block.size, 1):
        yield (
            "window.boundary",
            "carry",
            f"a window of {window.length} reaches beyond the block before (size {rule.block.size})",
            f"length = {rule.block.size}",
        )


def _read(rule: MemoryRule) -> Iterator[Refusal]:
    retention, read = rule.retention, rule.read
    if retention.order == "decay_first" and rule.block.size > 1 and rule.depends_on_memory:
        yield "retention.order", "decay_first", "the border's memory is not decayed", "block = 1"
    if retention.project.kind == "row_norm":
        yield "retention.project", "row_norm", "which norms it restores is open", '"ball"'
    if read.normaliser not in ("none", "sum"):
        yield "read.normaliser", read.normaliser, "needs the tokens themselves", '"sum"'
    if read.normaliser == "sum":
        if read.at != "post":
            yield "read.at", read.at, "the first read would divide 0 by 0", '"post"'
        if rule.optimizer.transform or rule.optimizer.clip or retention.project.kind != "none":
            yield "read.normaliser", "sum", "a sum has no transform, clip or projection", '"none"'
        if rule.memory.kind != "matrix":
            yield "read.normaliser", "sum", "a deep memory has no total weight", '"none"'
        on_value = retention.alpha.kind == "channel" and retention.alpha.axis == "value"
        if on_value or rule.optimizer.lr.kind == "value":
            yield "read.normaliser", "sum", "gates per value channel do not fit it", '"none"'
    if rule.gradient.state != "full" or rule.gradient.inner != "full":
        yield "gradient", "detached", "the reference derives everything", 'state = inner = "full"'


def refusals(rule: MemoryRule) -> list[Refusal]:
    """Everything in the rule that the reference does not execute."""
    return [*_memory(rule), *_update(rule), *_read(rule)]


def refuse_unserved(rule: MemoryRule) -> None:
    """Raise CompileError for the first field that the reference does not execute."""
    for field, value, reason, nearest in refusals(rule):
        raise CompileError(field, value, f"{reason} (reference)", nearest, rule=rule.name)

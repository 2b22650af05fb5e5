"""What the reference does not execute, refused by field."""

from __future__ import annotations

from collections.abc import Iterator

from atlasgen.errors import CompileError
from atlasgen.spec.rule import MemoryRule

Refusal = tuple[str, object, str, str]  # field, value, reason, nearest that is accepted


def _memory(rule: MemoryRule) -> Iterator[Refusal]:
    memory = rule.memory
    if memory.kind == "graph":
        yield "memory.kind", "graph", "the reference runs named memories", 'kind = "mlp"'
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
        if deep and term.write not in (None, term.key):
            yield "loss.write", term.write, "a write key needs a matrix memory", "no write"


def _update(rule: MemoryRule) -> Iterator[Refusal]:
    optimizer, block, window = rule.optimizer, rule.block, rule.window
    if optimizer.kind not in ("gd", "momentum"):
        yield "optimizer.kind", optimizer.kind, "not a gradient step", '"gd" or "momentum"'
    if optimizer.kind == "momentum" and optimizer.theta.kind == "none":
        yield "optimizer.theta", "none", "momentum needs its factor", 'theta = "token"'
    for field, value, neutral in (
        ("nesterov", optimizer.nesterov, False),
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
    elif (
        window.boundary == "carry"
        and rule.depends_on_memory
        and window.length > max(rule.block.size, 1)
    ):
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
    if retention.project.kind != "none":
        yield "retention.project", retention.project.kind, "memories are not projected", '"none"'
    if read.normaliser not in ("none", "sum"):
        yield "read.normaliser", read.normaliser, "needs the tokens themselves", '"sum"'
    if read.f is not None:
        yield "read.f", read.f, "reads are the memory's own map", "no f"
    if read.normaliser == "sum":
        if read.at != "post":
            yield "read.at", read.at, "the first read would divide 0 by 0", '"post"'
        if rule.optimizer.transform or rule.optimizer.clip:
            yield "read.normaliser", "sum", "a sum has no transform or clip", '"none"'
        if rule.memory.kind != "matrix":
            yield "read.normaliser", "sum", "a deep memory has no total weight", '"none"'
        on_value = retention.alpha.kind == "channel" and retention.alpha.axis == "value"
        if on_value or rule.optimizer.lr.kind == "value":
            yield "read.normaliser", "sum", "gates per value channel do not fit it", '"none"'
    if rule.gradient.state != "full" or rule.gradient.inner != "full":
        yield "gradient", "detached", "the reference derives everything", 'state = inner = "full"'
    if rule.gradient.newton_schulz != "full":
        yield "gradient.newton_schulz", rule.gradient.newton_schulz, "derived in full", '"full"'


def refusals(rule: MemoryRule) -> list[Refusal]:
    """Everything in the rule that the reference does not execute."""
    return [*_memory(rule), *_update(rule), *_read(rule)]


def refuse_unserved(rule: MemoryRule) -> None:
    """Raise CompileError for the first field that the reference does not execute."""
    for field, value, reason, nearest in refusals(rule):
        raise CompileError(field, value, f"{reason} (reference)", nearest, rule=rule.name)

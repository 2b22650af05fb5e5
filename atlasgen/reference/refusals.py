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
    plain = memory.kind == "matrix" and not memory.bias and memory.is_linear
    for term in rule.loss:
        own_lr = rule.input_named(term.lr) if term.lr else None
        if not plain and term.write not in (None, term.key):
            yield "loss.write", term.write, "a write key needs a plain matrix memory", "no write"
        if not plain and own_lr is not None and own_lr.shape in ("key", "value"):
            yield "loss.lr", term.lr, "a step per channel needs a plain matrix memory", '"token"'


def _update(rule: MemoryRule) -> Iterator[Refusal]:
    optimizer, block, window = rule.optimizer, rule.block, rule.window
    if optimizer.kind == "least_squares":
        yield "optimizer.kind", optimizer.kind, "it is no gradient step", '"gd" or "momentum"'
    one_token = block.size == window.length == 1 and len(rule.loss) == 1 and not rule.held
    if optimizer.kind == "implicit" and not (one_token and rule.loss[0].key == "k"):
        yield "optimizer.kind", "implicit", "its step solves one l2 term of one token", '"gd"'
    thetas = [rule.gates_of(weight)["log_theta"][1].kind for weight in rule.memory.weight_names]
    if optimizer.kind == "momentum" and "none" in thetas:
        yield "optimizer.theta", "none", "momentum needs its factor", 'theta = "token"'
    for field, value, neutral in (
        ("second", optimizer.second.kind, "none"),
        ("step", optimizer.step, None),
    ):
        if value != neutral:
            yield f"optimizer.{field}", value, "the reference does not execute it", f"{neutral}"
    for weight in rule.memory.weight_names:
        if any(transform.at != block.write for transform in rule.transform_of(weight)):
            reason = "a transform maps what is written"
            yield "optimizer.transform.at", "not block.write", reason, f'at = "{block.write}"'
    if optimizer.clip is not None and optimizer.clip.of == "block":
        yield "optimizer.clip.of", "block", "gradients are summed token by token", '"window"'
    if window.length == "all":
        yield "window.length", "all", "the window must have an end", "length = 16"
    elif window.boundary == "carry" and rule.depends_on_memory and window.length > max(rule.block.size, 1):
        yield (
            "window.boundary",
            "carry",
            f"a window of {window.length} reaches beyond the block before (size {rule.block.size})",
            f"length = {rule.block.size}",
        )


def _held(rule: MemoryRule) -> Iterator[Refusal]:
    """What an update that waits for its block leaves no place for."""
    block, optimizer, retention = rule.block, rule.optimizer, rule.retention
    if block.momentum == "block" and block.write != "block":
        yield "block.momentum", "block", "momentum moves when the block is written", '"token"'
    if retention.project.kind == "row_norm" and block.write != "block":
        yield "retention.project", "row_norm", "norms are restored when a block is written", '"ball"'
    if not rule.held:
        return
    if optimizer.nesterov:
        yield "optimizer.nesterov", True, "a held update has no look-ahead", "false"
    if retention.order == "decay_first":
        yield "retention.order", "decay_first", "a held memory decays when it is written", '"error_first"'
    if rule.read.normaliser != "none":
        yield "read.normaliser", rule.read.normaliser, "a sum of weights is not held", '"none"'
    gates = [gate for weight in rule.memory.weight_names for _, gate in rule.gates_of(weight).values()]
    if block.gate_pool == "mean" and any(gate.kind in ("channel", "key", "value") for gate in gates):
        yield "block.gate_pool", "mean", "means are of one gate per head", '"last"'
    if block.row_scale == "none":
        return
    if block.write == "block":
        yield "block.row_scale", block.row_scale, "a block that is written once has no rows", '"none"'
    if block.row_scale == "token" and rule.read.at == "pre":
        reason = "the factor of the token before is not in the state"
        yield "read.at", "pre", reason, '"post", or row_scale = "position"'
    decays = [rule.gates_of(weight)["log_alpha"][1].kind for weight in rule.memory.weight_names]
    maps = any(rule.transform_of(weight) for weight in rule.memory.weight_names)
    if set(decays) != {"none"} or maps or retention.project.kind != "none":
        reason = "inside a block the memory is M* less a factor times a sum"
        yield "block.row_scale", block.row_scale, reason, "no retention, transform or projection"


def _read(rule: MemoryRule) -> Iterator[Refusal]:
    retention, read = rule.retention, rule.read
    if retention.order == "decay_first" and rule.block.size > 1 and rule.depends_on_memory:
        yield "retention.order", "decay_first", "the border's memory is not decayed", "block = 1"
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
    return [*_memory(rule), *_update(rule), *_held(rule), *_read(rule)]


def refuse_unserved(rule: MemoryRule) -> None:
    """Raise CompileError for the first field that the reference does not execute."""
    for field, value, reason, nearest in refusals(rule):
        raise CompileError(field, value, f"{reason} (reference)", nearest, rule=rule.name)

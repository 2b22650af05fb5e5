"""The differences that are usual between two people's code for one rule, as changes of the rule."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torch import Tensor

from atlasgen.errors import AtlasgenError
from atlasgen.reference import refusals
from atlasgen.runtime.signature import signature_of
from atlasgen.spec import load_rule
from atlasgen.spec.rule import Gate, MemoryRule, Read

Tensors = dict[str, Tensor]


class CombinationError(AtlasgenError):
    """Two differences that cannot both be made."""


@dataclass(frozen=True)
class Variant:
    """One difference: `label` as in 'yours equals this rule with LABEL'.

    field: what it changes; two variants of one field are never combined. change: the rule's other
    form. scaled: factors on arguments (a loss with a factor 2 is a doubled lr). adjust: what else
    becomes of the arguments, after the factors.
    """

    label: str
    field: str
    change: Callable[[MemoryRule], MemoryRule] = lambda rule: rule
    scaled: tuple[tuple[str, float], ...] = ()
    adjust: Callable[[Tensors], Tensors] | None = None

    def arguments(self, rule: MemoryRule, arguments: Tensors) -> Tensors:
        """The arguments that the changed rule reads: scaled, and without gates that it lacks."""
        found = dict(arguments)
        for scaled, factor in self.scaled:
            # A gate of one weight, lr_W1, is scaled with the gate of all.
            own = [name for name in found if name == scaled or name.startswith(f"{scaled}_")]
            found |= {name: found[name] * factor for name in own}
        if self.adjust is not None:
            found = self.adjust(found)
        length = rule.window.length
        if rule.window.gate.kind in ("pair", "position") and "gamma" in found:
            found["gamma"] = found["gamma"][..., :length]
        read = {"q", "k", "v", *(entry.name for entry in signature_of(rule).tensors)}
        needs_memory = rule.memory.initial != "zero"
        return {
            name: tensor
            for name, tensor in found.items()
            if name in read or (needs_memory and name.startswith("initial_memory"))
        }


def combined(first: Variant, second: Variant) -> Variant:
    """Both differences at once."""
    return Variant(
        f"{first.label} and {second.label}",
        f"{first.field}+{second.field}",
        lambda rule: second.change(first.change(rule)),
        (*first.scaled, *second.scaled),
        first.adjust or second.adjust,
    )


def changed(rule: MemoryRule, variant: Variant) -> MemoryRule | None:
    """The variant's rule, or None where it is no valid rule or the reference does not run it."""
    try:
        other = load_rule(dataclasses.replace(variant.change(rule), source=None))
    except AtlasgenError:
        return None
    return None if refusals(other) else other


def usual_differences(rule: MemoryRule) -> list[Variant]:
    """Every usual difference that changes this rule to another valid one."""
    found = []
    for variant in _candidates(rule):
        other = changed(rule, variant)
        if other is not None and (other.hash != rule.hash or variant.scaled or variant.adjust):
            found.append(variant)
    return found


def _replace(section: str, **values: object) -> Callable[[MemoryRule], MemoryRule]:
    def change(rule: MemoryRule) -> MemoryRule:
        part = dataclasses.replace(getattr(rule, section), **values)
        return dataclasses.replace(rule, **{section: part})

    return change


def _candidates(rule: MemoryRule) -> Iterator[Variant]:
    yield from _reads(rule)
    yield from _steps(rule)
    yield from _retentions(rule)
    yield from _windows(rule)
    yield from _losses(rule)
    yield from _memories(rule)


def _reads(rule: MemoryRule) -> Iterator[Variant]:
    for at in ("pre", "post", "block"):
        if at != rule.read.at:
            yield Variant(f"read = {at}", "read.at", _replace("read", at=at))
    scales = [scale for scale in ("1", "K**-0.5", "K**-1") if scale != rule.read.scale]
    for scale in scales:
        yield Variant(f"scale = {scale}", "read.scale", _replace("read", scale=scale))
    for normaliser in ("none", "sum"):
        if normaliser != rule.read.normaliser:
            change = _replace("read", normaliser=normaliser)
            yield Variant(f"normaliser = {normaliser}", "read.normaliser", change)
    if rule.read != Read():
        yield Variant("a plain read", "read", lambda rule: dataclasses.replace(rule, read=Read()))


def _steps(rule: MemoryRule) -> Iterator[Variant]:
    lr, theta = rule.optimizer.lr, rule.optimizer.theta
    for factor, words in (
        (2.0, "doubled (a loss without the factor 1/2)"),
        (0.5, "halved"),
        (-1.0, "negated"),
    ):
        label = f"lr {words}"
        if lr.is_argument:
            yield Variant(label, "optimizer.lr", scaled=(("lr", factor),))
        elif lr.kind in ("none", "constant") and lr.expression is None and factor > 0:
            value = factor * (1.0 if lr.value is None else lr.value)
            yield Variant(label, "optimizer.lr", _replace("optimizer", lr=Gate("constant", value)))
    if lr.kind != "none":
        yield Variant("lr = 1 (lr not used)", "optimizer.lr", _replace("optimizer", lr=Gate()))
    for lr_at in ("update", "gradient"):
        if lr_at != rule.optimizer.lr_at:
            yield Variant(f"lr_at = {lr_at}", "optimizer.lr_at", _replace("optimizer", lr_at=lr_at))
    if rule.optimizer.kind == "momentum":
        plain = _replace("optimizer", kind="gd", theta=Gate(), lr_at="update")
        yield Variant("no momentum", "optimizer.kind", plain)
        if theta.is_argument:
            yield Variant("theta squared", "optimizer.theta", scaled=(("log_theta", 2.0),))
    if rule.depends_on_memory:
        for size in dict.fromkeys((1, rule.block.size // 2, rule.block.size * 2, 2**30)):
            if size > 0 and size != rule.block.size:
                words = "the whole call" if size == 2**30 else str(size)
                yield Variant(f"block = {words}", "block.size", _replace("block", size=size))


def _retentions(rule: MemoryRule) -> Iterator[Variant]:
    for order in ("decay_first", "error_first"):
        if order != rule.retention.order:
            yield Variant(f"order = {order}", "retention.order", _replace("retention", order=order))
    yield from _decay_after(rule)
    if rule.retention.alpha.kind != "none":
        change = _replace("retention", alpha=Gate(), toward="zero")
        yield Variant("no decay", "retention.alpha", change)
    if rule.retention.alpha.is_argument:
        yield Variant("alpha squared", "retention.alpha", scaled=(("log_alpha", 2.0),))
    for toward in ("zero", "initial"):
        if toward != rule.retention.toward:
            yield Variant(f"toward = {toward}", "retention.toward", _replace("retention", toward=toward))
    if rule.memory.initial != "zero":
        yield Variant("a memory that starts at zero", "memory.initial", _replace("memory", initial="zero"))


def _decay_after(rule: MemoryRule) -> Iterator[Variant]:
    """M = alpha (M - lr G): the rule's own order with a step of alpha lr, token by token."""
    optimizer, alpha = rule.optimizer, rule.retention.alpha
    outside = optimizer.lr_at == "update" or (optimizer.kind == "gd" and not optimizer.transform)
    if optimizer.micro_steps > 1:
        return  # the later steps of a token see what the decay has left
    if not outside or optimizer.kind == "implicit" or alpha.kind not in ("head", "token"):
        return
    if optimizer.lr.kind not in ("none", "head", "token") and optimizer.lr.value is None:
        return
    constant = 1.0 if optimizer.lr.value is None else optimizer.lr.value

    def change(rule: MemoryRule) -> MemoryRule:
        if rule.optimizer.lr != optimizer.lr:
            raise CombinationError("the step is another one")
        return _replace("optimizer", lr=Gate("token"))(rule)

    def adjust(arguments: Tensors) -> Tensors:
        per_token = arguments["v"].new_ones(*arguments["v"].shape[:2], 1)
        decay = arguments["log_alpha"].exp()
        lr = arguments.get("lr", constant) * decay * per_token
        return {**arguments, "lr": lr}

    yield Variant("decay after the step, M = alpha (M - lr G)", "retention.order", change, adjust=adjust)


def _windows(rule: MemoryRule) -> Iterator[Variant]:
    window = rule.window
    if not isinstance(window.length, int):
        return
    for boundary in ("halo", "carry", "truncate"):
        if boundary != window.boundary:
            change = _replace("window", boundary=boundary)
            yield Variant(f"boundary = {boundary}", "window.boundary", change)
    for normalise in ("sum", "mean"):
        if normalise != window.normalise:
            yield Variant(
                f"normalise = {normalise}", "window.normalise", _replace("window", normalise=normalise)
            )
    lengths = dict.fromkeys((window.length + 1, window.length - 1, 1))
    if window.gate.kind in ("pair", "position"):
        lengths = dict.fromkeys((window.length - 1, 1))  # there are no gates for more
    for length in lengths:
        if length >= 1 and length != window.length:
            yield Variant(f"window = {length}", "window.length", _replace("window", length=length))
    if window.gate.kind != "none":
        yield Variant("no window gate (gamma not used)", "window.gate", _replace("window", gate=Gate()))


def _losses(rule: MemoryRule) -> Iterator[Variant]:
    if len(rule.loss) == 1:
        for kind in ("dot", "l2"):
            if kind != rule.loss[0].kind:
                terms = (dataclasses.replace(rule.loss[0], kind=kind, expression=None, per="element"),)
                yield Variant(
                    f"loss = {kind}", "loss", lambda rule, terms=terms: dataclasses.replace(rule, loss=terms)
                )
        if rule.loss[0].kind in ("huber", "lp", "expr"):
            per = "row" if rule.loss[0].per == "element" else "element"
            other = (dataclasses.replace(rule.loss[0], per=per),)
            yield Variant(
                f"per = {per}", "loss.per", lambda rule, other=other: dataclasses.replace(rule, loss=other)
            )
    for kind in ("identity", "l2norm", "elu1", "relu", "silu", "softmax"):
        if kind != rule.features.kind:
            yield Variant(f"features = {kind}", "features", _replace("features", kind=kind, expression=None))
    for side in ("qk", "q", "k"):
        if side != rule.features.on and rule.features.kind != "identity":
            yield Variant(f"features on {side}", "features.on", _replace("features", on=side))


def _memories(rule: MemoryRule) -> Iterator[Variant]:
    memory, optimizer = rule.memory, rule.optimizer
    for residual in ("none", "x", "key"):
        if residual != memory.residual:
            yield Variant(f"residual = {residual}", "memory.residual", _replace("memory", residual=residual))
    for norm in ("none", "layer", "rms"):
        if norm != memory.norm:
            yield Variant(f"norm = {norm}", "memory.norm", _replace("memory", norm=norm))
    for act in ("gelu", "silu", "relu"):
        if memory.kind in ("mlp", "gated_mlp") and act != memory.act:
            yield Variant(f"act = {act}", "memory.act", _replace("memory", act=act))
    if optimizer.transform:
        yield Variant("no transform", "optimizer.transform", _replace("optimizer", transform=()))
    for index, entry in enumerate(optimizer.transform):
        if entry.kind == "newton_schulz" and entry.steps > 1:
            shorter = dataclasses.replace(
                entry, steps=entry.steps - 1, coefficients=entry.coefficients[: entry.steps - 1]
            )
            others = (*optimizer.transform[:index], shorter, *optimizer.transform[index + 1 :])
            label = f"newton_schulz of {shorter.steps} steps"
            yield Variant(label, "optimizer.transform", _replace("optimizer", transform=others))

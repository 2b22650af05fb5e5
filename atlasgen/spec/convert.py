"""Between the file model and the frozen MemoryRule: one normal form for every value."""

from __future__ import annotations

import dataclasses
from typing import Any

from atlasgen.spec import file_model as model
from atlasgen.spec.rule import (
    Block,
    Clip,
    Features,
    Gate,
    Gradient,
    Input,
    Layer,
    LayerGate,
    Link,
    LossTerm,
    Memory,
    MemoryRule,
    Optimizer,
    Project,
    Read,
    Retention,
    Transform,
    WeightOverride,
    Window,
)

DEFAULT_TRIPLE = (3.4445, -4.7750, 2.0315)  # Muon's Newton-Schulz polynomial
DEFAULT_STEPS = 5


def to_rule(content: model.RuleFile, source: str | None) -> MemoryRule:
    """The rule that a validated file says; what its fields mean together is not checked here."""
    loss = content.loss if isinstance(content.loss, list) else [content.loss]
    return MemoryRule(
        name=content.rule,
        schema=content.schema_version,
        doc=content.doc,
        memory=_memory(content.memory),
        features=_features(content.features),
        loss=tuple(_loss_term(term) for term in loss),
        window=Window(
            length=content.window.length,
            gate=gate(content.window.gate),
            boundary=content.window.boundary,
            normalise=content.window.normalise,
        ),
        block=Block(**content.block.model_dump()),
        optimizer=_optimizer(content.optimizer),
        retention=Retention(
            alpha=_alpha(content.retention),
            order=content.retention.order,
            toward=content.retention.toward,
            project=Project(**content.retention.project.model_dump()),
        ),
        read=Read(
            at=content.read.at,
            normaliser=content.read.normaliser,
            scale=_formula(content.read.scale),
            f=content.read.f,
        ),
        weights=tuple(_weight(name, item) for name, item in content.weights.items()),
        gradient=Gradient(**content.gradient.model_dump()),
        inputs=tuple(
            Input(name=name, shape=item.shape, range=item.range) for name, item in content.inputs.items()
        ),
        layer=_layer(content.layer),
        source=source,
    )


def gate(value: str | float) -> Gate:
    """A gate word, or a number as a constant gate."""
    if isinstance(value, str):
        return Gate(kind=value)  # type: ignore[arg-type]  # the file model allows gate words only
    return Gate(kind="constant", value=float(value))


def _formula(value: str | float) -> str:
    if isinstance(value, str):
        return value.strip()
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _memory(section: model.MemorySection) -> Memory:
    content = section.model_dump()
    content["link"] = Link(**content["link"])
    content["hidden"] = _formula(section.hidden)
    content["weights"] = tuple((name, tuple(shape)) for name, shape in section.weights.items())
    return Memory(**content)


def _features(section: model.FeaturesSection) -> Features:
    content = section.model_dump()
    if isinstance(section.coefficients, list):
        content["coefficients"] = tuple(float(number) for number in section.coefficients)
    return Features(**content)


def _loss_term(section: model.LossSection) -> LossTerm:
    content = section.model_dump()
    content["target"] = "v - k" if "".join(section.target.split()) == "v-k" else section.target
    if section.write == section.key:
        content["write"] = None
    return LossTerm(**content)


def _optimizer(section: model.OptimizerSection) -> Optimizer:
    content = section.model_dump()
    for name in ("lr", "theta", "second"):
        content[name] = gate(content[name])
    content["transform"] = tuple(transform(item) for item in section.transform)
    content["clip"] = None if section.clip is None else Clip(**section.clip.model_dump())
    if section.kind == "least_squares":
        content["solver"] = section.solver or "cg"
        content["steps"] = section.steps or 30
    return Optimizer(**content)


def transform(section: model.TransformSection) -> Transform:
    """One transform; `steps` alone repeats Muon's triple, `coefficients` alone sets `steps`."""
    triples = section.coefficients
    steps = section.steps or (len(triples) if triples else DEFAULT_STEPS)
    if triples is None:
        coefficients = (DEFAULT_TRIPLE,) * steps
    else:
        rows = [tuple(float(number) for number in triple) for triple in triples]
        coefficients = tuple(rows * steps if len(rows) == 1 else rows)
    content = section.model_dump() | {"coefficients": coefficients, "steps": steps}
    return Transform(**content)


def _alpha(section: model.RetentionSection | model.WeightRetentionSection) -> Gate:
    value = section.value
    return Gate(
        kind=section.kind,
        value=None if value is None or isinstance(value, str) else float(value),
        expression=value if isinstance(value, str) else None,
        axis=section.axis,
    )


def _weight(name: str, section: model.WeightSection) -> WeightOverride:
    transforms = section.transform
    return WeightOverride(
        name=name,
        lr=None if section.lr is None else gate(section.lr),
        theta=None if section.theta is None else gate(section.theta),
        retention=None if section.retention is None else _alpha(section.retention),
        transform=None if transforms is None else tuple(transform(item) for item in transforms),
    )


def _layer(section: model.LayerSection) -> Layer:
    content = section.model_dump()
    content["gates"] = tuple(
        LayerGate(name=name, **item.model_dump()) for name, item in section.gates.items()
    )
    return Layer(**content)


# --------------------------------------------------------------------------------------------------
# MemoryRule -> table


def to_table(rule: MemoryRule) -> dict[str, Any]:
    """The rule as a table that `rule_from_table` reads back; defaults are left out."""
    terms = [_plain(term, LossTerm()) | {"kind": term.kind} for term in rule.loss]
    table: dict[str, Any] = {"rule": rule.name, "schema": rule.schema}
    if rule.doc:
        table["doc"] = rule.doc
    sections = {
        "memory": _memory_table(rule.memory),
        "features": _plain(rule.features, Features()),
        "loss": terms[0] if len(terms) == 1 else terms,
        "window": _plain(rule.window, Window()),
        "block": _plain(rule.block, Block()),
        "optimizer": _optimizer_table(rule.optimizer),
        "retention": _retention_table(rule.retention),
        "read": _plain(rule.read, Read()),
        "weights": {item.name: _weight_table(item) for item in rule.weights},
        "gradient": _plain(rule.gradient, Gradient()),
        "inputs": {
            item.name: _plain(item, Input(item.name, "token")) | {"shape": item.shape} for item in rule.inputs
        },
        "layer": _layer_table(rule.layer),
    }
    return table | {name: section for name, section in sections.items() if section}


def _plain(item: Any, default: Any, leave: tuple[str, ...] = ("name",)) -> dict[str, Any]:
    """The fields of a frozen section that differ from the default's."""
    table: dict[str, Any] = {}
    for entry in dataclasses.fields(item):
        value = getattr(item, entry.name)
        if entry.name in leave or value == getattr(default, entry.name):
            continue
        if isinstance(value, Gate):
            value = value.value if value.kind == "constant" else value.kind
        elif isinstance(value, tuple):
            value = list(value)
        elif dataclasses.is_dataclass(value):
            value = _plain(value, type(value)()) | {"kind": getattr(value, "kind", None)}
        table[entry.name] = value
    return table


def _memory_table(memory: Memory) -> dict[str, Any]:
    table = _plain(memory, Memory(), leave=("weights",))
    if memory.weights:
        table["weights"] = {name: list(shape) for name, shape in memory.weights}
    return table


def _optimizer_table(optimizer: Optimizer) -> dict[str, Any]:
    table = _plain(optimizer, Optimizer(), leave=("transform", "clip"))
    if optimizer.transform:
        table["transform"] = [_transform_table(item) for item in optimizer.transform]
    if optimizer.clip is not None:
        table["clip"] = {"norm": optimizer.clip.norm, "of": optimizer.clip.of}
    return table


def _transform_table(item: Transform) -> dict[str, Any]:
    table: dict[str, Any] = {"kind": item.kind}
    table |= _plain(item, Transform(item.kind), leave=("coefficients", "steps"))
    if item.kind == "newton_schulz":
        if item.coefficients == (DEFAULT_TRIPLE,) * item.steps:
            table["steps"] = item.steps
        else:
            table["coefficients"] = [list(triple) for triple in item.coefficients]
    return table


def _alpha_table(alpha: Gate) -> dict[str, Any]:
    table: dict[str, Any] = {"kind": alpha.kind}
    if alpha.kind == "constant":
        table["value"] = alpha.expression if alpha.value is None else alpha.value
    if alpha.kind == "channel" and alpha.axis != "key":
        table["axis"] = alpha.axis
    return table


def _retention_table(retention: Retention) -> dict[str, Any]:
    table = _plain(retention, Retention(), leave=("alpha",))
    return _alpha_table(retention.alpha) | table if retention != Retention() else {}


def _weight_table(item: WeightOverride) -> dict[str, Any]:
    table = _plain(item, WeightOverride(item.name), leave=("name", "retention", "transform"))
    if item.retention is not None:
        table["retention"] = _alpha_table(item.retention)
    if item.transform is not None:
        table["transform"] = [_transform_table(entry) for entry in item.transform]
    return table


def _layer_table(layer: Layer) -> dict[str, Any]:
    table = _plain(layer, Layer(), leave=("gates",))
    if layer.gates:
        table["gates"] = {
            item.name: _plain(item, LayerGate(item.name)) | {"activation": item.activation}
            for item in layer.gates
        }
    return table

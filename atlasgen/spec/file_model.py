"""The rule file as pydantic models: one class per section, strict types, no unknown fields.

These models hold what one file may say (GRAMMAR of the project); what fields mean together is
checked on the finished MemoryRule by checks.py. Each section class states its `main` key (the one
that a bare value sets) and, in `applies`, which of its keys belong to which value of `kind`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Discriminator, Field, Tag

from atlasgen.spec.names import NAME_PATTERN

Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1, le=2**31 - 1)]
INPUT_PATTERN = r"^[A-Za-z][A-Za-z0-9_]*$"
MAX_WINDOW = 65_536
MAX_BLOCK = 1_048_576


def _count(most: int) -> Any:
    """Bounds for editors; checks.py says why there is a largest."""
    return Field(ge=1, le=2**31 - 1, json_schema_extra={"maximum": most})


Name = Annotated[str, Field(pattern=INPUT_PATTERN, max_length=64)]
Text = Annotated[str, Field(max_length=20_000)]
Formula = Annotated[str, Field(min_length=1)]
StepGate = Literal["none", "head", "token"] | float
Triple = Annotated[list[float], Field(min_length=3, max_length=3)]


class Section(BaseModel):
    """Base of all sections: unknown fields refused, no conversion between types, no inf or nan."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    main: ClassVar[str | None] = None
    applies: ClassVar[dict[str, set[str]]] = {}

    @classmethod
    def keys(cls) -> set[str]:
        """The names that may stand in this section of a file."""
        return {str(item.alias or name) for name, item in cls.model_fields.items()}


def _split(words: str) -> set[str]:
    return set(words.split())


class LinkSection(Section):
    """memory.link: a map of the accumulated state before it is read; `expression` is in A."""

    main = "kind"
    applies = {
        "none": set(),
        "softmax": _split("axis total where"),
        "qnorm": _split("q where"),
        "expr": _split("expression where"),
    }
    kind: Literal["none", "softmax", "qnorm", "expr"] = "none"
    axis: Literal["row", "column"] = "row"
    total: Positive = 1.0
    q: Annotated[float, Field(gt=1)] = 4.0
    expression: Formula | None = None
    where: Literal["token", "block"] = "token"


class MemorySection(Section):
    """memory: the associative memory f(M, x)."""

    main = "kind"
    applies = {
        "matrix": _split("bias residual norm initial link"),
        "mlp": _split("depth hidden act bias residual norm initial link"),
        "gated_mlp": _split("hidden act bias residual norm initial link"),
        "swiglu": _split("hidden bias residual norm initial link"),
        "graph": _split("f weights norm initial link"),
    }
    kind: Literal["matrix", "mlp", "gated_mlp", "swiglu", "graph"] = "matrix"
    depth: Annotated[int, Field(ge=1, le=16)] = 2
    hidden: Formula | Count = "4*K"
    act: Literal["gelu", "relu", "silu", "tanh", "sigmoid", "softplus", "sin", "identity"] = "gelu"
    bias: bool = False
    residual: Literal["none", "x", "key"] = "none"
    norm: Literal["none", "layer", "rms"] = "none"
    initial: Literal["zero", "learned", "given", "normal"] = "zero"
    link: LinkSection = Field(default_factory=LinkSection)
    f: Formula | None = None
    weights: dict[Name, Annotated[list[Formula], Field(min_length=2, max_length=2)]] = Field(
        default_factory=dict
    )


class FeaturesSection(Section):
    """features: the feature map phi; `expression` is elementwise in x."""

    main = "kind"
    applies = {
        **dict.fromkeys(_split("identity relu silu elu1 l2norm softmax exp"), {"on"}),
        "poly": _split("degree basis out_dim coefficients on"),
        "expr": _split("expression on"),
    }
    kind: Literal["identity", "relu", "silu", "elu1", "l2norm", "softmax", "poly", "exp", "expr"] = "identity"
    degree: Annotated[int, Field(ge=1, le=16)] = 2
    basis: Literal["symmetric", "kronecker", "powers", "projected"] = "symmetric"
    out_dim: Count | None = None
    coefficients: Literal["taylor", "learned"] | list[float] = "taylor"
    on: Literal["qk", "q", "k"] = "qk"
    expression: Formula | None = None


class LossSection(Section):
    """loss, or one term of a list: the inner loss l(pred, v)."""

    main = "kind"
    applies = {
        "dot": _split("key target write lr"),
        "l2": _split("per key target write lr"),
        "lp": _split("p eps per key target write lr"),
        "huber": _split("delta per key target write lr"),
        "expr": _split("expression per key target write lr"),
    }
    kind: Literal["dot", "l2", "lp", "huber", "expr"] = "l2"
    p: Annotated[float, Field(ge=1, le=16)] = 3.0
    eps: Annotated[float, Field(ge=0)] = 0.0
    delta: Name | Positive = 1.0
    per: Literal["element", "row"] = "element"
    key: Name = "k"
    target: Annotated[str, Field(max_length=64)] = "v"
    write: Name | None = None
    lr: Name | None = None
    expression: Formula | None = None


def _loss_form(value: Any) -> str:
    return "list" if isinstance(value, list) else "term"


# Told apart before validation, so that a message speaks of the form that the file uses.
Loss = Annotated[
    Annotated[LossSection, Tag("term")]
    | Annotated[list[LossSection], Field(min_length=1, max_length=16), Tag("list")],
    Discriminator(_loss_form),
]


class WindowSection(Section):
    """window: how many of the last tokens count in each update, and with which weights."""

    main = "length"
    length: Literal["all"] | Annotated[int, _count(MAX_WINDOW)] = 1
    gate: Literal["none", "token", "pair", "position"] = "none"
    boundary: Literal["halo", "carry", "truncate"] = "halo"
    normalise: Literal["sum", "mean"] = "sum"


class BlockSection(Section):
    """block: inner gradients are taken at the memory of the last border of a block of `size`
    tokens."""

    main = "size"
    size: Annotated[int, _count(MAX_BLOCK)] = 1
    write: Literal["token", "block"] = "token"
    momentum: Literal["token", "block"] = "token"
    row_scale: Literal["none", "position", "token"] = "none"
    gate_pool: Literal["last", "mean"] = "last"
    partial: Literal["update", "skip"] = "update"


def _with_short_name(schema: dict[str, Any]) -> None:
    schema["properties"]["u"] = schema["properties"]["expression"]


class TransformSection(Section):
    """One entry of optimizer.transform; kind "expr" has `expression` (or, shorter, `u`) in S and
    N."""

    main = "kind"
    applies = {
        "newton_schulz": _split("coefficients steps at dtype"),
        "sign": {"at"},
        "frobenius": {"at"},
        "expr": _split("expression u at"),
    }
    kind: Literal["newton_schulz", "sign", "frobenius", "expr"]
    coefficients: Annotated[list[Triple], Field(min_length=1, max_length=64)] | None = None
    steps: Annotated[int, Field(ge=1, le=64)] | None = None
    at: Literal["token", "block"] = "token"
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    expression: Formula | None = Field(default=None, validation_alias=AliasChoices("expression", "u"))

    model_config = ConfigDict(json_schema_extra=_with_short_name)

    @classmethod
    def keys(cls) -> set[str]:
        return super().keys() | {"u"}


class ClipSection(Section):
    """optimizer.clip: clipping of a gradient's norm."""

    main = "norm"
    norm: Positive
    of: Literal["token", "window", "block"] = "token"


class OptimizerSection(Section):
    """optimizer: how gradients become updates; `eps` is a number that `step` may name."""

    main = "kind"
    applies = {
        "gd": _split("lr lr_at second transform step eps clip micro_steps"),
        "momentum": _split("lr lr_at theta nesterov second transform step eps clip micro_steps"),
        "implicit": _split("lr clip micro_steps"),
        "least_squares": _split("solver steps ridge"),
    }
    kind: Literal["gd", "momentum", "implicit", "least_squares"] = "gd"
    lr: Literal["none", "head", "token", "key", "value"] | float = "none"
    lr_at: Literal["update", "gradient"] = "update"
    theta: StepGate = "none"
    nesterov: bool = False
    second: StepGate = "none"
    transform: list[TransformSection] = Field(default_factory=list)
    step: Formula | None = None
    eps: Positive = 1e-6
    clip: ClipSection | None = None
    micro_steps: Annotated[int, Field(ge=1, le=64)] = 1
    solver: Literal["cg"] | None = None
    steps: Annotated[int, Field(ge=1, le=10_000)] | None = None
    ridge: Name | None = None


class ProjectSection(Section):
    """retention.project: a projection of the memory after the update."""

    main = "kind"
    applies = {"none": set(), "row_norm": {"to"}, "ball": {"radius"}, "clamp": {"radius"}}
    kind: Literal["none", "row_norm", "ball", "clamp"] = "none"
    to: Literal["initial"] | None = None
    radius: Positive | None = None


_DECAY = _split("order toward project")


class RetentionSection(Section):
    """retention: alpha; `value` is a number, or an expression in head (0, 1, ... H-1)."""

    main = "kind"
    applies = {
        "none": _DECAY,
        "constant": _DECAY | {"value"},
        "zero": _DECAY,
        "head": _DECAY,
        "token": _DECAY,
        "channel": _DECAY | {"axis"},
    }
    kind: Literal["none", "constant", "zero", "head", "token", "channel"] = "none"
    value: Formula | float | None = None
    axis: Literal["key", "value"] = "key"
    order: Literal["error_first", "decay_first"] = "error_first"
    toward: Literal["zero", "initial"] = "zero"
    project: ProjectSection = Field(default_factory=ProjectSection)


class WeightRetentionSection(Section):
    """weights.NAME.retention: the decay of one weight."""

    main = "kind"
    applies = {kind: keys - _DECAY for kind, keys in RetentionSection.applies.items()}
    kind: Literal["none", "constant", "zero", "head", "token", "channel"] = "none"
    value: Formula | float | None = None
    axis: Literal["key", "value"] = "key"


class ReadSection(Section):
    """read: y = scale * f(M, phi(q)) / normaliser."""

    main = "at"
    at: Literal["post", "pre", "block"] = "post"
    normaliser: Literal["none", "sum", "softmax", "max1"] = "none"
    scale: Formula | float = "1"
    f: Formula | None = None


class WeightSection(Section):
    """weights.NAME: what differs for one weight; a missing key means as the rule's own section
    says."""

    lr: StepGate | None = None
    theta: StepGate | None = None
    retention: WeightRetentionSection | None = None
    transform: list[TransformSection] | None = None


class GradientSection(Section):
    """gradient: which outer derivatives flow; `state` = n detaches the state every n blocks."""

    newton_schulz: Literal["full", "straight_through"] = "full"
    state: Literal["full"] | Count = "full"
    inner: Literal["full", "first_order"] = "full"


class InputSection(Section):
    """inputs.NAME: an extra tensor argument."""

    main = "shape"
    shape: Literal["token", "head", "head_key", "key", "value", "pair"]
    range: Literal["any", "positive", "unit", "log_decay"] = "any"


class LayerGateSection(Section):
    """layer.gates.NAME: activation(low-rank projection + bias) * max; `init` is the gate at
    projection 0."""

    main = "activation"
    activation: Literal["sigmoid", "softplus", "identity"] = "sigmoid"
    bias: bool = True
    init: float | None = None
    rank: Count | None = None
    max: Positive | None = None


class LayerSection(Section):
    """layer: the projections and norms around the memory; not part of the rule's hash."""

    conv: Annotated[int, Field(ge=0, le=64)] = 4
    qk_norm: Literal["l2", "rms", "none"] = "l2"
    activation: Literal["silu", "none"] = "silu"
    output_gate: bool = True
    key_size: Count | None = None
    value_size: Count | None = None
    gates: dict[Name, LayerGateSection] = Field(default_factory=dict)


class RuleFile(Section):
    """A whole rule file after `extends` and shorthand are resolved."""

    rule: Annotated[str, Field(pattern=NAME_PATTERN, max_length=64)]
    schema_version: Literal[1] = Field(default=1, alias="schema")
    doc: Text = ""
    memory: MemorySection = Field(default_factory=MemorySection)
    features: FeaturesSection = Field(default_factory=FeaturesSection)
    loss: Loss = Field(default_factory=LossSection)
    window: WindowSection = Field(default_factory=WindowSection)
    block: BlockSection = Field(default_factory=BlockSection)
    optimizer: OptimizerSection = Field(default_factory=OptimizerSection)
    retention: RetentionSection = Field(default_factory=RetentionSection)
    read: ReadSection = Field(default_factory=ReadSection)
    weights: dict[Name, WeightSection] = Field(default_factory=dict)
    gradient: GradientSection = Field(default_factory=GradientSection)
    inputs: dict[Name, InputSection] = Field(default_factory=dict)
    layer: LayerSection = Field(default_factory=LayerSection)


SECTIONS: dict[tuple[str, ...], type[Section]] = {
    (): RuleFile,
    ("memory",): MemorySection,
    ("memory", "link"): LinkSection,
    ("features",): FeaturesSection,
    ("loss",): LossSection,
    ("loss", "#"): LossSection,
    ("window",): WindowSection,
    ("block",): BlockSection,
    ("optimizer",): OptimizerSection,
    ("optimizer", "transform", "#"): TransformSection,
    ("optimizer", "clip"): ClipSection,
    ("retention",): RetentionSection,
    ("retention", "project"): ProjectSection,
    ("read",): ReadSection,
    ("weights", "*"): WeightSection,
    ("weights", "*", "retention"): WeightRetentionSection,
    ("weights", "*", "transform", "#"): TransformSection,
    ("gradient",): GradientSection,
    ("inputs", "*"): InputSection,
    ("layer",): LayerSection,
    ("layer", "gates", "*"): LayerGateSection,
}
"""Which model reads which place of a file; "*" is any name, "#" any index of a list."""


def section_at(path: Iterable[Any]) -> type[Section] | None:
    """The model of the section at a path of keys and list indices, or None."""
    wanted = tuple(path)
    for pattern, section in SECTIONS.items():
        if len(pattern) == len(wanted) and all(
            part == (("#" if isinstance(key, int) else "*") if part in ("#", "*") else key)
            for part, key in zip(pattern, wanted, strict=True)
        ):
            return section
    return None


def known_keys(path: Iterable[Any]) -> set[str]:
    """The keys that may stand in the section at a path; empty where there is no section."""
    path = tuple(path)
    section = section_at(path)
    keys = set() if section is None else section.keys()
    return keys | {"extends"} if path == () else keys

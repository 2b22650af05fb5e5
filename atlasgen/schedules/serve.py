"""From a rule to its block program, or to the sentence that says why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from atlasgen.errors import CompileError
from atlasgen.ir.differentiate import differentiate
from atlasgen.ir.program import BackwardProgram, BlockProgram
from atlasgen.schedules.dual import DualForm
from atlasgen.spec.rule import MemoryRule

DEFAULT_CHUNK = 64


@dataclass(frozen=True)
class Scheduled:
    """A rule with its loop over blocks and that loop's reverse."""

    rule: MemoryRule
    schedule: str
    forward: BlockProgram
    backward: BackwardProgram

    @property
    def chunk(self) -> int:
        """Rows per block: the rule's block where it matters, else a choice that holds a window."""
        if self.forward.block is not None:
            return self.forward.block
        chunk = DEFAULT_CHUNK
        while chunk < self.forward.window - 1:
            chunk *= 2
        return chunk

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the tensors that the programs read, in order."""
        program = self.forward
        rows = program.leaves("token", "head", "position", "invariant")
        names = dict.fromkeys(("q", "k", "v", *(leaf["name"] for leaf in rows)))
        names |= dict.fromkeys(carry.name for carry in program.carries)
        names.pop("anchor", None)
        resume = ["anchor"] if any(c.name == "anchor" for c in program.captures) else []
        resume += [f"window_{name}" for name in self.windowed]
        return (*names, *resume, "position", "length")

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of what a call returns: y, then the final states."""
        captured = [capture.name for capture in self.forward.captures]
        carried = [carry.name for carry in self.forward.carries]
        return ("y", *dict.fromkeys((*carried, *captured)))

    @property
    def windowed(self) -> tuple[str, ...]:
        """Row tensors whose last c - 1 rows the state keeps: those that sources are read from."""
        if self.forward.window == 1:
            return ()
        sources = [leaf for leaf in self.forward.leaves("token") if {"s", "h"} & set(leaf.dims)]
        found = dict.fromkeys(leaf["name"] for leaf in sources)
        # A log decay or a step stands on a source's axis only as a factor of a row of P.
        return tuple(name for name in found if not name.startswith("log_") and name != "lr")


def refusals(rule: MemoryRule) -> list[tuple[str, object, str, str]]:
    """(field, value, reason, nearest) for each field that the dual form does not serve."""
    found: list[tuple[str, object, str, str]] = []

    def refuse(bad: bool, field: str, value: object, reason: str, nearest: str) -> None:
        if bad:
            found.append((field, value, reason, nearest))

    memory, retention = rule.memory, rule.retention
    dual = "the dual form holds a linear map"
    refuse(memory.kind != "matrix", "memory.kind", memory.kind, dual, 'memory = "matrix"')
    refuse(memory.bias, "memory.bias", True, "the state is one matrix", "bias = false")
    refuse(memory.norm != "none", "memory.norm", memory.norm, dual, 'norm = "none"')
    refuse(memory.residual != "none", "memory.residual", memory.residual, dual, 'residual = "none"')
    refuse(memory.link.kind != "none", "memory.link", memory.link.kind, dual, 'link = "none"')
    refuse(
        memory.initial == "normal",
        "memory.initial",
        memory.initial,
        "no schedule draws an initial memory",
        'initial = "given", with the drawn memory as initial_memory',
    )
    refuse(
        rule.features.kind in ("poly", "exp"),
        "features.kind",
        rule.features.kind,
        "feature maps that change the number of features have no tiles yet",
        'features = "elu1"',
    )
    _refuse_loss(rule, refuse)
    _refuse_optimizer(rule, refuse)
    alpha = retention.alpha
    refuse(
        alpha.kind in ("channel", "zero"),
        "retention.kind",
        alpha.kind,
        "the decay of the dual form is one number per head and token",
        'retention = "token"',
    )
    refuse(
        retention.order == "decay_first",
        "retention.order",
        retention.order,
        "the dual form takes errors at the memory of the last border, before any decay",
        'order = "error_first"',
    )
    refuse(
        retention.project.kind != "none",
        "retention.project",
        retention.project.kind,
        "a projection after each token leaves the linear recursion",
        'project = "none"',
    )
    refuse(
        rule.read.at == "block",
        "read.at",
        "block",
        "the dual form reads each token's own memory",
        'read = "post"',
    )
    refuse(
        rule.read.normaliser in ("softmax", "max1"),
        "read.normaliser",
        rule.read.normaliser,
        "only the sum of weights is carried along",
        'normaliser = "sum"',
    )
    refuse(rule.read.f is not None, "read.f", rule.read.f, dual, "no read.f")
    window, block = rule.window.length, rule.block
    refuse(
        window == "all",
        "window.length",
        window,
        "a window of all tokens needs the least squares schedule",
        "window = 16",
    )
    refuse(
        rule.depends_on_memory and window != "all" and int(window) > block.size,
        "window.length",
        window,
        f"a window reaches over at most one border, and blocks have {block.size} tokens",
        f"window = {block.size}, or block = {window}",
    )
    refuse(block.write != "token", "block.write", block.write, dual, 'write = "token"')
    refuse(block.momentum != "token", "block.momentum", block.momentum, dual, 'momentum = "token"')
    refuse(block.row_scale != "none", "block.row_scale", block.row_scale, dual, 'row_scale = "none"')
    refuse(bool(rule.weights), "weights", "overrides", "a matrix memory has one weight", "no weights")
    refuse(
        rule.gradient.state != "full" or rule.gradient.inner != "full",
        "gradient",
        "detach",
        "the derivative follows the whole recursion",
        "no gradient section",
    )
    return found


def _refuse_loss(rule: MemoryRule, refuse) -> None:
    for term in rule.loss:
        plain = term.key == "k" and term.target == "v" and term.write in (None, "k")
        refuse(
            not plain or term.lr is not None,
            "loss",
            f"{term.kind} with key {term.key}, target {term.target}, write {term.write}",
            "every term predicts v from k and writes at k",
            f'loss = "{term.kind}"',
        )
    for entry in rule.inputs:
        refuse(
            entry.shape not in ("token", "head"),
            f"inputs.{entry.name}",
            entry.shape,
            "a loss parameter is one number per token or per head",
            f'{entry.name} = "token"',
        )


def _refuse_optimizer(rule: MemoryRule, refuse) -> None:
    optimizer = rule.optimizer
    refuse(
        optimizer.kind not in ("gd", "momentum"),
        "optimizer.kind",
        optimizer.kind,
        "the dual form sums gradients linearly",
        'optimizer = "gd"',
    )
    refuse(
        optimizer.lr.kind in ("key", "value"),
        "optimizer.lr",
        optimizer.lr.kind,
        "a step size per channel is not a row factor",
        'lr = "token"',
    )
    linear = "the update must be linear in the gradient"
    refuse(optimizer.nesterov, "optimizer.nesterov", True, linear, "nesterov = false")
    refuse(optimizer.second.kind != "none", "optimizer.second", "second moment", linear, "no second")
    refuse(bool(optimizer.transform), "optimizer.transform", "a list", linear, "transform = []")
    refuse(optimizer.step is not None, "optimizer.step", optimizer.step, linear, "no step")
    refuse(optimizer.clip is not None, "optimizer.clip", "a norm", linear, "no clip")
    refuse(optimizer.micro_steps != 1, "optimizer.micro_steps", optimizer.micro_steps, linear, "1")


@lru_cache(maxsize=512)
def schedule(rule: MemoryRule) -> Scheduled:
    """The rule's programs.

    Raises CompileError, naming the field and the nearest value that is served.
    """
    for field, value, reason, nearest in refusals(rule):
        raise CompileError(field, value, reason, nearest, rule=rule.name)
    forward = DualForm(rule).build()
    return Scheduled(rule, "dual", forward, differentiate(forward))

"""The Triton kernels of a rule, from the emitter's plan: what each reads, computes and stores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from atlasgen.cli.console import SentenceError
from atlasgen.cli.facts import WORD, extents
from atlasgen.ir.operators import OPERATORS
from atlasgen.ir.text import ProgramText
from atlasgen.schedules.serve import Scheduled


@dataclass(frozen=True)
class KernelCost:
    """One kernel: flops and bytes per token of one head, and how many programs run side by side."""

    name: str
    passes: str
    doc: str
    order: str
    flops: float
    bytes: float


def plan_of(scheduled: Scheduled, form: str) -> Any:
    """The kernel plan of one structure ("split", "fused", "split_all_rows_4").

    Raises SentenceError where the emitter is not installed, ArgumentError for an unknown structure.
    """
    try:
        from atlasgen.emit.planner import make_plan
    except ImportError as error:
        raise SentenceError(f"The Triton emitter is not part of this installation ({error}).") from None
    from atlasgen.verify.backends import structure_of

    return make_plan(scheduled.forward, scheduled.backward, structure_of(form, scheduled.rule))


def triton_source(scheduled: Scheduled, form: str) -> str:
    """The emitted Triton module under one form."""
    plan = plan_of(scheduled, form)
    try:
        from atlasgen.emit.triton_module import emit_module
    except ImportError as error:
        raise SentenceError(f"The Triton emitter is not part of this installation ({error}).") from None
    return emit_module(scheduled, plan.structure).source


def kernel_costs(scheduled: Scheduled, form: str, key: int, value: int, dtype: str) -> list[KernelCost]:
    """Every kernel of the plan, forward ones first; one that serves both passes stands in both."""
    plan = plan_of(scheduled, form)
    axes = extents(scheduled, key, value)
    found = []
    for passes, kernels in (("forward", plan.forward), ("backward", plan.backward)):
        for kernel in kernels:
            flops = sum(
                OPERATORS[node.op].flops(node, axes)
                for node in kernel.nodes()
                if node not in kernel.loaded and node.op not in ("leaf", "const")
            )
            order = "blocks in turn" if kernel.loop != "grid" else "blocks at once"
            tokens = scheduled.tokens
            size = _bytes(kernel, axes, dtype) / tokens
            found.append(KernelCost(kernel.name, passes, kernel.doc, order, flops / tokens, size))
    return found


def plan_text(scheduled: Scheduled, form: str) -> str:
    """The kernel plan as text: kernels in launch order, with what each loads and stores."""
    plan = plan_of(scheduled, form)
    lines = [f"plan {scheduled.rule.name} ({plan.structure.label})"]
    for passes, kernels in (("forward", plan.forward), ("backward", plan.backward)):
        lines.append(passes)
        for kernel in kernels:
            lines.append(f"  {kernel.name}  loop {kernel.loop}, values {kernel.values}  # {kernel.doc}")
            used = [node for node in kernel.nodes() if node.op == "leaf" or node in kernel.loaded]
            text = ProgramText(used, scheduled.forward.names, {})
            names = [kernel.loaded.get(node) or text.name(node) for node in used]
            lines.append(f"    loads  {', '.join(dict.fromkeys(names)) or 'nothing'}")
            stores = [f"{store.target} [{', '.join(store.axes)}]" for store in kernel.stores]
            stores += [f"{carry.name} at each border" for carry in kernel.carries if kernel.checkpoint]
            stores += [f"{carry.name} at the end" for carry in kernel.carries]
            lines.append(f"    stores {', '.join(stores) or 'nothing'}")
    return "\n".join(lines) + "\n"


def _bytes(kernel: Any, axes: dict[str, int], dtype: str) -> int:
    """Bytes of one block of one head: each value read once and written once, carries in registers."""
    word = WORD[dtype]
    read: dict[tuple[str, str], int] = {}
    for node in kernel.nodes():
        if node in kernel.loaded:
            read[(kernel.loaded[node], "")] = 4 * _size(node.dims, axes)
        elif node.op == "leaf" and node["kind"] in ("token", "token_gradient"):
            bytes_each = word if {"K", "V"} & set(node.dims) else 4
            read[(node["name"], node.get("segment", ""))] = bytes_each * _size(node.dims, axes)
    written = 0
    for store in kernel.stores:
        wide = store.place != "blocks" and bool({"K", "V"} & set(store.axes))
        written += (word if wide else 4) * _size(store.axes, axes)
    if kernel.checkpoint:
        written += sum(4 * _size(carry.leaf.dims, axes) for carry in kernel.carries)
    return sum(read.values()) + written


def _size(dims: tuple[str, ...], axes: dict[str, int]) -> int:
    total = 1
    for dim in dims:
        total *= axes[dim]
    return total


__all__ = ["KernelCost", "kernel_costs", "plan_of", "plan_text", "triton_source"]

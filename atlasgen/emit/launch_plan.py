"""The launch plan of a rule's kernels, for readers and for files: order, reads, stores, buffers."""

from __future__ import annotations

from typing import Any

from atlasgen.emit.plan import Kernel
from atlasgen.emit.triton_memory import Argument
from atlasgen.emit.triton_module import EmittedKernel, EmittedModule

# What each kind of argument is, as a shape.
SHAPES = {"head": "[H]", "table": "[H, c]", "sequence": "[B]", "number": "number"}
SHAPES |= {"codes": "[F]", "scales": "[F]"}  # of the feature map's monomials
LEADING = {
    "rows": ["B", "T", "H"],
    "window": ["B", "c - 1", "H"],
    "blocks": ["B", "H", "N"],
    "tokens": ["B", "H", "C"],
    "state": ["B", "H"],
}
LETTERS = {"r": "C", "j": "C", "i": "C", "s": "C"}  # rows of a block
PARALLEL = {
    "grid": "memory and block",
    "forward": "memory",
    "reverse": "memory",
    "block": "memory",
    "row": "memory and row",
}
WALKS = {
    "grid": "",
    "forward": ", which walks the blocks from first to last",
    "reverse": ", which walks the blocks from last to first",
    "block": ", for one block after another",
    "row": " of a block, for one block after another",
}


def stored_tensors(kernel: Kernel) -> tuple[str, ...]:
    """The names of the tensors that a kernel writes, in the order in which the plan lists them."""
    names = [store.target for store in kernel.stores]
    names += [f"d_window_{store.target.removeprefix('d_')}" for store in kernel.stores if store.window]
    reverse = kernel.backwards
    for carry in (*kernel.carries, *kernel.streams):
        if kernel.checkpoint or kernel.streams:
            names.append(f"{carry.leaf['name'] if reverse else carry.name}_blocks")
        names.append(carry.name if reverse else f"{carry.name}_final")
    names += [f"{name}_final" for name, _, _ in kernel.captures]
    names += [f"d_{part.tensor}" for part in kernel.accumulate]
    return tuple(dict.fromkeys(names))


def passed_tensors(kernel: EmittedKernel) -> dict[str, Argument]:
    """The tensors and numbers that a kernel is given, by name; strides are left out."""
    return {argument.tensor: argument for argument in kernel.arguments if argument.kind != "stride"}


def read_tensors(kernel: EmittedKernel) -> tuple[str, ...]:
    """The names of the tensors and numbers that a kernel reads."""
    stored = stored_tensors(kernel.kernel)
    return tuple(name for name in passed_tensors(kernel) if name not in stored)


def written_tensors(kernel: EmittedKernel) -> tuple[str, ...]:
    """The names of the tensors that a kernel writes, of those that it is given."""
    passed = passed_tensors(kernel)
    return tuple(name for name in stored_tensors(kernel.kernel) if name in passed)


def kernel_table(kernel: EmittedKernel) -> dict[str, Any]:
    """One kernel as JSON-able content."""
    plan = kernel.kernel
    return {
        "doc": plan.doc,
        "loop": plan.loop,
        "values": plan.values,
        "walk_rows": plan.walk_rows,
        **({"walk": plan.walk} if plan.walk else {}),
        "reads": list(read_tensors(kernel)),
        "stores": list(written_tensors(kernel)),
        "arguments": [
            {"name": argument.name, "kind": argument.kind, "tensor": argument.tensor}
            for argument in kernel.arguments
        ],
        "flags": list(kernel.flags),
        "constants": list(kernel.constants),
    }


def plan_lines(title: str, file: str, emitted: EmittedModule) -> list[str]:
    """Markdown: the launches of both passes in order, then the buffers between them."""
    lines = [f"## {title}", "", f"Structure `{emitted.plan.structure.label}`, kernels in `{file}`.", ""]
    for passes, kernels in (("Forward", emitted.plan.forward), ("Backward", emitted.plan.backward)):
        lines += [f"### {passes}", ""]
        for number, kernel in enumerate(kernels, 1):
            lines += _launch(number, emitted.kernels[kernel.name])
        lines += [*(_after(emitted) if passes == "Backward" else []), ""]
    return lines + _buffers(emitted)


def _launch(number: int, kernel: EmittedKernel) -> list[str]:
    plan = kernel.kernel
    each = PARALLEL[plan.loop] + (" and tile of V" if plan.values == "parallel" else "") + WALKS[plan.loop]
    each += "; tiles of V in turn" if plan.values == "walked" else ""
    each += "; rows of sources in tiles" if plan.walk_rows else ""
    each += f"; tiles of {plan.walk} in turn" if plan.walk else ""
    return [
        f"{number}. **{plan.name}**: {plan.doc}",
        f"   - runs: one program for each {each}",
        f"   - reads: {_names(read_tensors(kernel))}",
        f"   - stores: {_names(written_tensors(kernel))}",
    ]


def _after(emitted: EmittedModule) -> list[str]:
    """What the runtime does with the buffers of the backward's kernels."""
    stores = {store.target: store for kernel in emitted.plan.backward for store in kernel.stores}
    halos = [name for name, store in stores.items() if store.place == "halo"]
    sums = [
        name
        for name, store in stores.items()
        if store.place == "blocks" and not any(name in k.loaded.values() for k in emitted.plan.kernels)
    ]
    text = []
    if halos:
        text.append(f"Then the runtime adds {_names(tuple(halos))} to the rows they belong to (`add_halo`).")
    if sums:
        text.append(f"Then the runtime sums {_names(tuple(sums))} over sequences and blocks.")
    return ["", *text] if text else []


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "nothing"


def _buffers(emitted: EmittedModule) -> list[str]:
    """The tensors that one kernel leaves for others, with who writes and who reads them."""
    tensors: dict[str, Argument] = {}
    written: dict[str, list[str]] = {}
    read: dict[str, list[str]] = {}
    for name, kernel in emitted.kernels.items():
        tensors |= passed_tensors(kernel)
        for tensor in written_tensors(kernel):
            written.setdefault(tensor, []).append(name)
        for tensor in read_tensors(kernel):
            read.setdefault(tensor, []).append(name)
    lines = ["### Buffers", "", "| tensor | shape | written by | read by |", "|---|---|---|---|"]
    for tensor, argument in sorted(tensors.items()):
        shape = SHAPES.get(argument.kind) or f"[{', '.join(_shape(tensor, argument, emitted))}]"
        users = [", ".join(table.get(tensor, ["the caller"])) for table in (written, read)]
        lines.append(f"| `{tensor}` | {shape} | {users[0]} | {users[1]} |")
    return [*lines, ""]


def _shape(tensor: str, argument: Argument, emitted: EmittedModule) -> list[str]:
    """All axes of a tensor: rows of a block are C, those before it h, ages c."""
    axes = [LETTERS.get(dim, dim) for dim in _axes(tensor, emitted)]
    if argument.kind in ("rows", "window"):
        axes = axes[1:]  # the first one is the rows'
    return LEADING[argument.kind] + axes


def _axes(tensor: str, emitted: EmittedModule) -> tuple[str, ...]:
    """A tensor's own axes, from a store, a load, a leaf or a carry of that name."""
    for kernel in emitted.plan.kernels:
        for store in kernel.stores:
            if tensor in (store.target, f"d_window_{store.target.removeprefix('d_')}"):
                return store.axes
        for node, name in kernel.loaded.items():
            if name == tensor:
                return node.dims
        for carry in (*kernel.carries, *kernel.streams):
            names = (carry.name, f"{carry.name}_final", f"{carry.name}_blocks")
            if tensor in (*names, f"d_{carry.name}_final", f"{carry.leaf['name']}_blocks"):
                return carry.leaf.dims
        for node in kernel.nodes():
            if node.op == "leaf" and tensor in (node["name"], f"window_{node['name']}"):
                return node.dims
        captured = {f"{name}_final": node.dims for name, node, _ in kernel.captures}
        if tensor.removeprefix("d_") in captured:
            return captured[tensor.removeprefix("d_")]
    return ("K", "V")  # an anchor that is only handed on

"""Print one kernel of the plan as Triton source.

A kernel is straight-line code over tiles, inside at most two loops: over blocks (state and fused kernels) and
over tiles of one walked axis (V, or the rows s of sources). A value that has the walked axis is computed
inside the loop in which its sums are complete; a sum over the walked axis is an accumulator of that loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from atlasgen.emit.axes import (
    FEATURES,
    LANES,
    SOURCES,
    WALKS,
    WIDE,
    extent_name,
    lane_name,
    mask_name,
    tile_name,
)
from atlasgen.emit.naming import INLINE, Namer, Writer, fallback, parenthesized
from atlasgen.emit.plan import SINGLE, Kernel, Phase, Store
from atlasgen.emit.tile_products import MatrixProduct
from atlasgen.emit.triton_loads import Loads
from atlasgen.emit.triton_memory import Memory
from atlasgen.emit.triton_walk import walked_rows
from atlasgen.ir.node import ROWS, Node, ordered, walk
from atlasgen.ir.operators import OPERATORS

RESERVED = [
    "tl",
    "triton",
    "block",
    "blocks",
    "heads",
    "head",
    "batch",
    "start",
    "first",
    "last",
    "row",
    "source",
    "halo_row",
    "reached",
    "walked_row",
    "is_walked",
    "back",
    "live",
    "program",
    "memory_index",
    "slot",
    "tokens",
    "end",
    "phase",
    "open_block",
    "step",
    "turn",
    "part",
    "tile",
    "token",
    "age",
    "value_tile",
    *LANES,
]
SCANS = ("decay", "decay_from_start", "decay_to_end", "decay_whole")
ROW_DIMS = frozenset("rji")
SOLVING = ("unit_inverse", "unit_solve", *WALKS)


def dependents(nodes: list[Node], operators: Collection[str]) -> set[Node]:
    """The values under and among `nodes` that values of some operators enter."""
    found: set[Node] = set()
    for node in walk(nodes):
        if node.op in operators or any(argument in found for argument in node.args):
            found.add(node)
    return found


class KernelEmitter:
    """Emits the statements of one kernel; implements the operators' TileContext."""

    def __init__(self, kernel: Kernel, names: dict[Node, str], equations: dict[Node, str]) -> None:
        self.kernel, self.names, self.equations = kernel, names, equations
        self.writer = Writer()
        self.memory = Memory(self.writer)
        self.nodes = kernel.nodes()
        self.walked = kernel.walked
        self.counts = Counter(kernel.roots())
        for node in self.nodes:
            if node not in kernel.loaded:
                self.counts.update(node.args)
        self.namer = Namer(names, RESERVED)
        self.text: dict[Node, str] = {}
        self.loop_text: dict[Node, str] = {}
        self.level: dict[Node, int] = {}
        self.single_rows, self._varying = kernel.single_rows, kernel.varying()
        self.loads = Loads(self)
        self.systems = False  # True in a program whose rows solve a system
        self.solutions = dependents(self.nodes, SOLVING)
        self._levels()

    def of_phase(self, phase: Phase) -> KernelEmitter:
        """An emitter of one phase of the kernel, which goes on writing where this one is."""
        part = KernelEmitter(
            replace(self.kernel, stores=phase.stores, loaded=phase.loaded, phases=()),
            self.names,
            self.equations,
        )
        part.writer, part.memory, part.namer = self.writer, self.memory, self.namer
        part.systems = self.systems
        part.loads = Loads(part)
        part.loads.windowed, part.loads.streams.captured = self.loads.windowed, self.loads.streams.captured
        part.text = dict(self.text)
        return part

    # -- walked axis ---------------------------------------------------------------------------------
    def _levels(self) -> None:
        """level: how many loops over the walked axis must be complete before a value is."""
        for node in self.nodes:
            below = [] if node in self.kernel.loaded else list(node.args)
            level = max((self.level[argument] for argument in below), default=0)
            if self._contracts_walked(node):
                level += 1
            self.level[node] = level

    def _contracts_walked(self, node: Node) -> bool:
        if self.walked is None or node in self.kernel.loaded:
            return False
        return self.walked in (node.get("dim"), *node.get("summed", ()))

    def varies(self, node: Node) -> bool:
        """True if the value exists only inside a loop over the walked axis."""
        return node in self._varying

    # -- TileContext ---------------------------------------------------------------------------------
    def align(self, text: str, dims: tuple[str, ...], target: tuple[str, ...]) -> str:
        """Index a tile so that it broadcasts against `target`; a number does as it is."""
        if dims == target or set(dims).isdisjoint(target):
            return text
        entries = ", ".join(":" if dim in dims else "None" for dim in target)
        return f"{text}[{entries}]"

    def position(self, dim: str) -> str:
        """The vector of row positions of an axis; one number for rows that are walked one by one."""
        if self.single_rows and dim == SINGLE:
            return "token"
        if dim == "h":
            return "halo_row"
        if dim in SOURCES:
            return "reached"
        return "source" if dim == "s" and self.walked == "s" else "row"

    def lanes(self, dim: str) -> str | None:
        """The mask of real lanes."""
        return mask_name(dim) if dim in WIDE else None

    def extent(self, dim: str) -> str:
        """The compile-time constant that is the length of an axis."""
        return extent_name(dim)

    def _finer(self, node: Node) -> str:
        """The prefix of the constants that name the precision of a value's products.

        Products with errors that solve a system are finer: in sums over rows neighbours nearly cancel.
        """
        over_rows = node.get("dim") in ROWS or node.op in ("channel_mix", "unit_solve")
        solved = over_rows or any(argument in self.solutions for argument in node.args)
        return "ROW_" if self.systems and solved else ""

    def precision(self, node: Node) -> str:
        """The dtype and the input precision of a value's products, as two arguments."""
        finer = self._finer(node)
        return f"{finer}DOT, {finer}PRECISION"

    def product(self, node: Node, args: list[str]) -> str:
        """tl.dot where both arguments are matrices, a broadcast sum else."""
        left, right = node.args
        matrices = MatrixProduct.of(node)
        if matrices is not None:
            return matrices.text(args, self.loads.tile_size, self._finer(node))
        if node.op == "contract":
            return self._contraction(node, args)
        dim = node["dim"]
        free = [d for d in left.dims if d not in right.dims], [d for d in right.dims if d not in left.dims]
        if len(left.dims) == len(right.dims) == 2 and free[0] and free[1]:
            pairs = [(args[0], left), (args[1], right)]
            if node.dims != (free[0][0], free[1][0]):
                pairs.reverse()
            (a, first), (b, second) = pairs
            finer = self._finer(node)
            a, b = f"{a}.to({finer}DOT)", f"{b}.to({finer}DOT)"
            a = a if first.dims[1] == dim else f"tl.trans({a})"
            b = b if second.dims[0] == dim else f"tl.trans({b})"
            return f"tl.dot({a}, {b}, input_precision={finer}PRECISION)"
        every = ordered(left.dims + right.dims)
        a, b = (self.align(text, arg.dims, every) for text, arg in zip(args, node.args, strict=True))
        return f"tl.sum({a} * {b}, {every.index(dim)})"

    def walked_rows(self, node: Node, args: list[str]) -> str:
        """The variable of a value that a loop over the block's rows makes."""
        return walked_rows(self, node, args)

    def _contraction(self, node: Node, args: list[str]) -> str:
        """A broadcast sum over several axes."""
        left, right = node.args
        axes = ordered(left.dims + right.dims)
        a, b = (self.align(text, arg.dims, axes) for text, arg in zip(args, node.args, strict=True))
        text = f"{a} * {b}"
        for dim in reversed(node["summed"]):
            text = f"tl.sum({text}, {axes.index(dim)})"
        return text

    # -- statements ----------------------------------------------------------------------------------
    def operand(self, node: Node) -> str:
        """The text of a value, emitting what it needs; inside a loop, loop values come first."""
        if node.op == "const":
            return repr(node["value"])
        if node in self.loop_text:
            return self.loop_text[node]
        if node in self.text:
            return self.text[node]
        text = self.loads.load(node) if self._is_load(node) else self._compute(node)
        table = self.loop_text if self.varies(node) else self.text
        if text.isidentifier():  # a load that was written as statements, or a renaming
            table[node] = text
            return text
        if node.op != "leaf" and self._inlines(node, text):
            table[node] = parenthesized(text)
            return table[node]
        table[node] = self.assign(node, text)
        return table[node]

    def _is_load(self, node: Node) -> bool:
        return node.op in ("leaf", "expand_age") or node in self.kernel.loaded

    def _compute(self, node: Node) -> str:
        if node.op in SCANS:
            args = self._scan_arguments(node)
        else:
            args = [self.operand(argument) for argument in node.args]
        text = OPERATORS[node.op].triton(node, args, self)
        for dim in FEATURES:
            if dim in node.dims and not self._clean(node, dim):
                lanes = self.align(self.lanes(dim) or "", (dim,), node.dims)
                text = f"tl.where({lanes}, {text}, 0.0)"
        return text

    def _clean(self, node: Node, dim: str) -> bool:
        return dim in (node.get("row"), node.get("column")) or OPERATORS[node.op].keeps_zero(node, dim)

    def _scan_arguments(self, node: Node) -> list[str]:
        """A log decay's running sums (coarse part, fine part, resets), and the three before summing."""
        log = self.operand(node.args[0])
        if not log.isidentifier():
            log = self._shared(log, "log_decay")
        parts = [f"{log}_{part}" for part in ("coarse", "fine", "reset")]
        text = f"split_log({log})"
        if self.writer.known(text) is None:
            self.writer.line(f"{', '.join(parts)} = {text}")
            self.writer.remember(text, parts[0])
        sums = [self._shared(f"tl.cumsum({part}, 0)", f"{part}_sum") for part in parts]
        return [*sums, *parts]

    def _shared(self, text: str, name: str) -> str:
        known = self.writer.known(text)
        if known is None:
            known = self.namer.fresh(name)
            self.writer.line(f"{known} = {text}")
            self.writer.remember(text, known)
        return known

    def _inlines(self, node: Node, text: str) -> bool:
        if node in self.names or node.op in ("dot", *SCANS) or self._is_load(node):
            return False
        return self.counts[node] == 1 and len(text) <= INLINE

    def assign(self, node: Node, text: str) -> str:
        """A statement `name = text`, or the variable that already holds it."""
        known = self.writer.known(text)
        if known is not None:
            return known
        if node in self.equations:
            self.writer.comment(self.equations[node])
        name = self.namer.name(node, self._fallback(node))
        self.writer.line(f"{name} = {text}")
        self.writer.remember(text, name)
        return name

    def _fallback(self, node: Node) -> str:
        if node in self.kernel.loaded:
            return self.kernel.loaded[node].removesuffix("_blocks").removeprefix("gate_")
        if node.op == "leaf":
            return node["name"] + ("_halo" if node.get("segment") == "halo" else "")
        return fallback(node)

    def assign_text(self, text: str, name: str) -> str:
        """A statement that is not a node's own value, shared like one."""
        return self._shared(text, name)

    # -- body ----------------------------------------------------------------------------------------
    def emit_block(self) -> None:
        """All statements of one block: values, loops over the walked axis, stores."""
        last = max(self.level.values(), default=0)
        stores = [store for store in self.kernel.stores if not has_ages(store.node)]
        for level in range(last + 1):
            for store in stores:
                if not self.varies(store.node) and self.level[store.node] == level:
                    self.loads.store(store, self.operand(store.node))
            varying = [s for s in stores if self.varies(s.node) and self.level[s.node] == level]
            self._walk(level, [store for store in varying if not store.streams])
            for weight in dict.fromkeys(store.weight for store in varying if store.streams):
                # One loop for each weight: all at once would not fit the registers.
                self._walk(level, [s for s in varying if s.streams and s.weight == weight], False)
        for store in self.kernel.stores:
            if has_ages(store.node):
                self.loads.store_by_age(store)

    def _walk(self, level: int, stores: list[Store], summing: bool = True) -> None:
        """The loop after which sums of level + 1 are complete; it also stores what has the axis."""
        sums = (
            []
            if not summing
            else [n for n in self.nodes if self._contracts_walked(n) and self.level[n] == level + 1]
        )
        if not sums and not stores:
            return
        merged = self._merge_sums(sums, level)
        for node in merged:
            self.text[node] = self._start_sum(node, merged[node])
        self._prepare([part for parts in merged.values() for _, part in parts], stores)
        captures = not merged and all(store.place == "capture" for store in stores)
        if captures:  # blocks that are not open need not read what they would hold
            self.loads.streams.open_guard()
        self._open_loop()
        for node, parts in merged.items():
            for sign, part in parts:
                self._accumulate(self.text[node], sign, part)
        for store in stores:
            self.loads.store(store, self.operand(store.node))
        self._close_loop()
        if captures:
            self.loads.streams.close_guard()

    def _prepare(self, sums: list[Node], stores: list[Store]) -> None:
        """Emit, before the loop, what the loop needs and does not change in it."""
        stack = [argument for node in sums for argument in node.args]
        stack += [store.node for store in stores]
        seen: set[Node] = set()
        outside: list[Node] = []
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            if not self.varies(node):
                outside.append(node)
            elif node not in self.kernel.loaded:
                stack.extend(node.args)
        place = {node: index for index, node in enumerate(self.nodes)}
        for node in sorted(outside, key=place.__getitem__):
            self.operand(node)

    def _merge_sums(self, sums: list[Node], level: int) -> dict[Node, list[tuple[int, Node]]]:
        """Accumulators: a sum alone, or an `add` whose other terms are complete before the loop."""
        merged: dict[Node, list[tuple[int, Node]]] = {}
        taken: set[Node] = set()
        for node in self.nodes:
            if node.op != "add" or node in self.kernel.loaded or self.varies(node):
                continue
            signed = list(zip(node["signs"], node.args, strict=True))
            parts = [(s, a) for s, a in signed if a in sums and self.counts[a] == 1]
            others = [a for _, a in signed if (a not in sums or self.counts[a] != 1)]
            if parts and all(self.level[other] <= level for other in others):
                merged[node] = parts
                taken.update(part for _, part in parts)
        merged |= {node: [(1, node)] for node in sums if node not in taken}
        return merged

    def _start_sum(self, node: Node, parts: list[tuple[int, Node]]) -> str:
        inside = {part for _, part in parts}
        name = self.namer.name(node, fallback(node))
        zero = self.zeros(node.dims)
        text = zero
        if node.op == "add" and node not in inside:
            rest = [(s, a) for s, a in zip(node["signs"], node.args, strict=True) if a not in inside]
            terms = [(s, self.align(self.operand(a), a.dims, node.dims)) for s, a in rest]
            text = "".join((" + " if s > 0 else " - ") + t for s, t in terms)
            text = text[3:] if text.startswith(" + ") else f"-{text[3:]}" if text else zero
            if rest and not any(a.dims == node.dims for _, a in rest):
                text = f"{zero} + {text}"
        if node in self.equations:
            self.writer.comment(self.equations[node])
        self.writer.line(f"{name} = {text}")
        return name

    def zeros(self, dims: tuple[str, ...]) -> str:
        """A zero tile; a scalar for no axes."""
        if not dims:
            return "0.0"
        return f"tl.zeros([{', '.join(self.loads.tile_size(dim) for dim in dims)}], dtype=tl.float32)"

    def _accumulate(self, name: str, sign: int, node: Node) -> None:
        args = [self.operand(argument) for argument in node.args]
        if sign < 0 and node.op == "dot":
            args[0] = f"(-{args[0]})"
            sign = 1
        text = args[0] if self.single_rows else OPERATORS[node.op].triton(node, args, self)
        self.writer.line(f"{name} {'+' if sign > 0 else '-'}= {text}")

    def lanes_of(self, dim: str, start: str = "") -> None:
        """Write the lanes of an axis of FEATURES and which of them are real."""
        self.writer.line(f"{lane_name(dim)} = {start}tl.arange(0, {tile_name(dim)})")
        self.writer.line(f"{mask_name(dim)} = {lane_name(dim)} < {dim}")

    def _open_loop(self) -> None:
        if self.walked == "V":
            self.writer.push("for value_start in range(0, V, BLOCK_V):")
            self.writer.line("value = value_start + tl.arange(0, BLOCK_V)")
            self.writer.line("is_value = value < V")
        elif self.single_rows:
            self.writer.push("for token in range(first, last):")
        elif self.walked in WIDE:
            dim = self.walked
            start = f"{lane_name(dim)}_start"
            self.writer.push(f"for {start} in range(0, {dim}, {tile_name(dim)}):")
            self.lanes_of(dim, f"{start} + ")
        else:
            self.writer.push("for row_start in range(0, ROWS, TILE_ROWS):")
            self.writer.line("source = row_start + tl.arange(0, TILE_ROWS)")
            self.writer.line("is_source = (source >= first) & (source < last)")
            if self.loads.windowed:
                self.writer.line("is_held_source = (source < first) & (source >= first - HELD)")
        self._outer_bases = set(self.memory.bases)

    def _close_loop(self) -> None:
        self.writer.pop()
        self.loop_text.clear()
        self.memory.bases &= self._outer_bases


def has_ages(node: Node) -> bool:
    """True if a stored value is a function of the age inside the window."""
    if node.op == "collect_age":
        return True
    return node.op in ("add", "map", "rename", "sum") and any(
        "c" in argument.dims and has_ages(argument) for argument in node.args
    )

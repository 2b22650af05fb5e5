"""The kernel plan: which kernels a rule becomes, what each reads, computes and stores.

The block program is cut along three lines, each a property of its graph:

* what depends on gates alone (decay sums, P, its last row) may go to a *prologue*, one program per block;
* what the carries need stays in a *state* kernel, sequential over blocks;
* the rest is block-parallel, cut again by output so that a kernel fits the register file.

The fused form keeps everything in one kernel that walks the blocks. A `Structure` names these choices; tile
sizes and warps are launch constants (`Tiles`) and do not change the source.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from atlasgen.emit.row_scales import scales_inside
from atlasgen.ir import build
from atlasgen.ir.node import Node, walk
from atlasgen.ir.program import BackwardProgram, BlockProgram, Carry, Contribution

ValueMode = Literal["none", "whole", "parallel", "walked"]
ERROR_GRADIENT = "d_errors_rows"
GATE_KINDS = ("head", "position", "live", "exists")


@dataclass(frozen=True)
class Structure:
    """The choices that change the emitted source.

    form: "split" or "fused". gates: where gate-only values are computed: "inline" in every kernel that needs
    them, "vectors" (vectors by a prologue, matrices inline) or "all" (also P from memory). walk_rows: the
    state kernels walk the rows of a block in tiles instead of holding all of them. pieces: into how many
    kernels the block-parallel backward is cut (1: one kernel; 2: queries | keys and values; 3: queries |
    keys | values; 4: the halo's rows and what weighs rows and carries apart too). A gate's gradient
    goes where it shares most products.
    """

    form: Literal["split", "fused"] = "split"
    gates: Literal["inline", "vectors", "all"] = "inline"
    walk_rows: bool = False
    pieces: int = 1

    @property
    def label(self) -> str:
        """A short name, used in file names and result keys."""
        if self.form == "fused":
            return "fused"
        rows = "_rows" if self.walk_rows else ""
        return f"split_{self.gates}{rows}_{self.pieces}"


@dataclass(frozen=True)
class Store:
    """One value that a kernel writes.

    target: the buffer's name. node: the value. axes: the buffer's own axes (missing ones broadcast). place:
    "rows" ([B, T, H, ...], rows of the block that hold tokens), "halo" ([B*H, N, h, ...]), "blocks"
    ([B*H, N, ...]). window: True where rows of earlier calls have a gradient (d_window_<name>).
    """

    target: str
    node: Node
    axes: tuple[str, ...]
    place: Literal["rows", "halo", "blocks"]
    window: bool = False


@dataclass(frozen=True)
class Kernel:
    """One kernel.

    loop: "grid" (one program per block), "forward" or "reverse" (one program walks the blocks). values: how
    the axis V is covered: "none", "whole", "parallel" (one tile per program) or "walked". walk_rows: the axis
    s is walked in tiles. loaded: nodes that are read from [B*H, N, ...] buffers, by buffer name.
    """

    name: str
    doc: str
    loop: Literal["grid", "forward", "reverse"]
    values: ValueMode
    stores: tuple[Store, ...]
    loaded: dict[Node, str] = field(default_factory=dict)
    walk_rows: bool = False
    carries: tuple[Carry, ...] = ()
    checkpoint: bool = False
    captures: tuple[tuple[str, Node, str], ...] = ()
    accumulate: tuple[Contribution, ...] = ()

    def roots(self) -> list[Node]:
        """All nodes that the kernel computes for others."""
        return [
            *(store.node for store in self.stores),
            *(carry.next for carry in self.carries),
            *(node for _, node, _ in self.captures),
            *(part.node for part in self.accumulate),
        ]

    def nodes(self) -> list[Node]:
        """All nodes of the kernel; loaded ones are not entered."""
        return walk(self.roots(), set(self.loaded))


@dataclass(frozen=True)
class Plan:
    """All kernels of a rule under one structure, in launch order."""

    structure: Structure
    forward: tuple[Kernel, ...]
    backward: tuple[Kernel, ...]

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """Every distinct kernel (the prologue serves forward and backward)."""
        return tuple({kernel.name: kernel for kernel in (*self.forward, *self.backward)}.values())


def is_gate_only(node: Node, cache: dict[Node, bool]) -> bool:
    """True if a value depends on gates alone: no row tensor with features or values in it."""
    if node not in cache:
        if node.op == "leaf":
            gate = node["kind"] == "token" and not {"K", "V"} & set(node.dims)
            cache[node] = gate or node["kind"] in GATE_KINDS
        elif node.op == "const":
            cache[node] = True
        else:
            cache[node] = all(is_gate_only(argument, cache) for argument in node.args)
    return cache[node]


def gate_frontier(program: BlockProgram) -> list[Node]:
    """Gate-only values that are used by other values and are worth storing (more than elementwise)."""
    cache: dict[Node, bool] = {}
    found: dict[Node, None] = {}
    for node in program.nodes():
        if is_gate_only(node, cache):
            continue
        for argument in node.args:
            if is_gate_only(argument, cache) and _is_scan(argument):
                found[argument] = None
    return list(found)


def _is_scan(node: Node) -> bool:
    """True if a value needs more than its own row: it cannot be recomputed tile by tile."""
    return any(entry.op.startswith("decay") or entry.op in ("cumsum", "dot", "sum") for entry in walk([node]))


def is_matrix(node: Node) -> bool:
    """True for a value with two row axes, such as P."""
    return len(node.dims) > 1


class Planner:
    """Cuts one rule's programs into kernels."""

    def __init__(self, program: BlockProgram, backward: BackwardProgram, structure: Structure) -> None:
        self.program, self.backward, self.structure = program, backward, structure
        self.names = program.names
        fused = structure.form == "fused"
        self.frontier = [] if fused or structure.gates == "inline" else gate_frontier(program)
        self.stored = [node for node in self.frontier if structure.gates == "all" or not is_matrix(node)]
        self.buffers = {node: self._buffer_name(node) for node in self.stored}
        self.sums = {} if fused else self._value_sums()

    def _buffer_name(self, node: Node) -> str:
        index = self.frontier.index(node)
        return f"gate_{self.names.get(node, f'value_{index}')}"

    # -- forward -------------------------------------------------------------------------------------
    def plan(self) -> Plan:
        """All kernels."""
        if self.structure.form == "fused":
            return Plan(self.structure, (self._fused_forward(),), (self._fused_backward(),))
        prologue = self._prologue()
        forward = (*prologue, self._state(), self._output())
        backward = (*prologue, *self._sums(), self._state_gradient(), *self._output_gradients())
        return Plan(self.structure, forward, (*backward, *self._gate_gradients()))

    def _prologue(self) -> tuple[Kernel, ...]:
        if not self.stored:
            return ()
        stores = tuple(Store(name, node, node.dims, "blocks") for node, name in self.buffers.items())
        doc = "Decays and window weights of one block: what depends on the gates alone."
        return (Kernel("gates", doc, "grid", "none", stores),)

    def _captures(self) -> tuple[tuple[str, Node, str], ...]:
        return tuple((entry.name, entry.value, entry.carry) for entry in self.program.captures)

    def _state(self) -> Kernel:
        return self._sequential(
            "state",
            "The memory from block to block, saved at the start of each.",
            (),
            self.program.carries,
            self._captures(),
        )

    def _sequential(
        self,
        name: str,
        doc: str,
        stores: tuple[Store, ...],
        carries: tuple[Carry, ...],
        captures: tuple[tuple[str, Node, str], ...],
    ) -> Kernel:
        roots = [*(carry.next for carry in carries), *(node for _, node, _ in captures)]
        roots += [store.node for store in stores]
        walk_rows = self.structure.walk_rows and self._rows_can_walk(roots, set(self.buffers))
        return Kernel(
            name,
            doc,
            "forward",
            self._parallel_or(roots, set(self.buffers), "whole"),
            stores,
            dict(self.buffers),
            walk_rows,
            carries,
            True,
            captures,
        )

    def _output_store(self) -> tuple[Store, ...]:
        return tuple(Store(name, node, ("r", "V"), "rows") for name, node in self.program.outputs.items())

    def _carry_blocks(self) -> dict[Node, str]:
        return {carry.leaf: f"{carry.name}_blocks" for carry in self.program.carries}

    def _output(self) -> Kernel:
        roots = list(self.program.outputs.values())
        return Kernel(
            "output",
            "The reads of one block.",
            "grid",
            self._parallel_or(roots, set(self.buffers), "whole"),
            self._output_store(),
            {**self.buffers, **self._carry_blocks()},
        )

    def _fused_forward(self) -> Kernel:
        roots = self.program.roots()
        return Kernel(
            "forward",
            "The memory from block to block and the reads of each block.",
            "forward",
            self._parallel_or(roots, set(), "whole"),
            self._output_store(),
            {},
            False,
            self.program.carries,
            True,
            self._captures(),
        )

    # -- backward ------------------------------------------------------------------------------------
    def _next_blocks(self) -> dict[Node, str]:
        return {carry.leaf: f"{carry.leaf['name']}_blocks" for carry in self.backward.carries}

    def _state_gradient_roots(self) -> list[Node]:
        carried = [carry.next for carry in self.backward.carries]
        return carried + [part.node for part in self.backward.accumulate]

    def _value_sums(self) -> dict[Node, str]:
        """Vectors of rows that sum over V and do not need the gradients of carries, by buffer name.

        A kernel of their own makes them, where the state's gradient is then parallel over V.
        """
        stop = {*self.buffers, *self._carry_blocks()}
        roots = self._state_gradient_roots()
        if not self._contracts(roots, stop, "V"):
            return {}
        nodes, late = walk(roots, stop), {carry.leaf for carry in self.backward.carries}
        summed: set[Node] = set()
        for node in nodes:
            arguments = () if node in stop else node.args
            if node in late or any(argument in late for argument in arguments):
                late.add(node)
            elif self._contracts([node], {*stop, *arguments}, "V") or summed & set(arguments):
                summed.add(node)
        rows = [node for node in nodes if node in summed and node.dims in (("r",), ("s",), ("h",))]
        used = {a for node in nodes if node not in stop and node not in rows for a in node.args} | set(roots)
        cut = [node for node in rows if node in used]
        if not cut or self._contracts(roots, {*stop, *cut}, "V"):
            return {}
        names = self.backward.names
        return {node: f"sum_{index}_{names.get(node, 'of_values')}" for index, node in enumerate(cut)}

    def _sums(self) -> tuple[Kernel, ...]:
        if not self.sums:
            return ()
        stores = tuple(Store(name, node, node.dims, "blocks") for node, name in self.sums.items())
        doc = "Sums over V of one block that the gradient of the memory needs."
        loaded = {**self.buffers, **self._carry_blocks()}
        return (Kernel("value_sums", doc, "grid", "walked", stores, loaded),)

    def _state_gradient(self) -> Kernel:
        backward = self.backward
        roots = self._state_gradient_roots()
        loaded = {**self.buffers, **self._carry_blocks(), **self.sums}
        walk_rows = self.structure.walk_rows and self._rows_can_walk(roots, set(loaded))
        return Kernel(
            "state_gradient",
            "The gradient of the memory from the last block to the first, saved after each.",
            "reverse",
            self._parallel_or(roots, set(loaded), "whole"),
            (),
            loaded,
            walk_rows,
            backward.carries,
            True,
            (),
            backward.accumulate,
        )

    def contribution_store(self, part: Contribution) -> Store:
        """Where a contribution goes: the gradient of rows, a halo buffer, or one value per block."""
        leaf, windowed = part.leaf, False
        if leaf["kind"] == "token":
            halo = leaf["segment"] == "halo"
            windowed = "s" in leaf.dims and not halo and self.program.window > 1
            windowed = windowed and not part.tensor.startswith("log_") and part.tensor != "lr"
            place = "halo" if halo else "rows"
            suffix = "_halo" if halo else ""
            return Store(f"d_{part.tensor}{suffix}", part.node, leaf.dims, place, windowed)
        return Store(f"d_{part.tensor}_blocks", part.node, leaf.dims, "blocks")

    def merged(self) -> list[Store]:
        """Stores of all contributions; those to the same rows from several leaves are added."""
        table: dict[str, Store] = {}
        for part in self.backward.contributions:
            store = self.contribution_store(part)
            if store.target not in table:
                table[store.target] = store
                continue
            first = table[store.target]
            node = store.node
            if first.axes != store.axes:
                names = dict(zip(store.axes, first.axes, strict=True))
                node = build.rename(node, names)
            total = build.add(first.node, node)
            window = first.window or store.window
            table[store.target] = Store(first.target, total, first.axes, first.place, window)
        return list(table.values())

    def _split_gates(self) -> tuple[list[Store], list[Store], dict[Node, str]]:
        """Stores of the block-parallel kernels, of the gate kernel, and the cut between them."""
        gradients = self.backward.gradients
        cut: dict[Node, str] = {}
        for node in self.frontier:
            if node in gradients:
                # Signs move outwards while the derivative is built: the gates see the magnitude.
                cut[build.magnitude(gradients[node])] = f"d_{self._buffer_name(node)}"
        if not cut:
            return self.merged(), [], {}
        cache: dict[Node, bool] = {node: True for node in cut}
        late = [store for store in self.merged() if is_gate_only(store.node, cache)]
        early = [store for store in self.merged() if store not in late]
        early += [Store(name, node, node.dims, "blocks") for node, name in cut.items()]
        return early, late, cut

    def _output_gradients(self) -> tuple[Kernel, ...]:
        early, _, _ = self._split_gates()
        groups = self._pieces(early)
        loaded = {**self.buffers, **self._carry_blocks(), **self._next_blocks(), **self.sums}
        kernels = []
        for suffix, stores in groups.items():
            nodes = scales_inside([store.node for store in stores], set(loaded))
            stores = [replace(store, node=node) for store, node in zip(stores, nodes, strict=True)]
            values = self._parallel_or(nodes, set(loaded), "walked")
            name = f"output_gradient{suffix}"
            doc = "Gradients of one block: " + ", ".join(store.target for store in stores) + "."
            kernels.append(Kernel(name, doc, "grid", values, tuple(stores), dict(loaded)))
            # What a kernel leaves beside gradients, later ones read instead of making it again.
            loaded |= {store.node: store.target for store in groups[suffix] if store.target == ERROR_GRADIENT}
        return tuple(kernels)

    def _pieces(self, stores: list[Store]) -> dict[str, list[Store]]:
        """Stores by piece; what is not q, k or v goes where it shares most products."""
        if self.structure.pieces == 1:
            return {"": stores}
        halo = ["d_k_halo", "d_v_halo"]
        groups = {"_q": ["d_q"], "_k": ["d_k"], "_v": ["d_v"], "_halo": halo}
        if self.structure.pieces == 3:
            groups = {"_q": ["d_q"], "_k": ["d_k", halo[0]], "_v": ["d_v", halo[1]]}
        if self.structure.pieces == 2:
            groups = {"_q": ["d_q"], "_kv": ["d_k", "d_v", *halo]}
        if self.structure.pieces == 4:
            carried = self._carried(stores)
            # Without predictions there are few products: one kernel makes all gradients of weights.
            together = (("s",),) if self.program.block is not None else (("s",), ("r",), ())
            weights = [store.target for store in stores if store.axes == ("r", "s")]
            weights += [target for target, axes in carried.items() if axes in together]
            groups = {"_v": ["d_v", ERROR_GRADIENT], "_q": ["d_q"], "_k": ["d_k"], "_halo": halo}
            rest = [name for name in carried if name not in weights and self.program.block is not None]
            groups |= {"_weights": weights, "_carried": rest}
            stores = [*stores, *self._error_gradient(stores)]
        chosen = {
            suffix: [store for store in stores if store.target in targets]
            for suffix, targets in groups.items()
        }
        placed = {store.target for group in chosen.values() for store in group}
        products = {suffix: self._products(group) for suffix, group in chosen.items()}
        filled = [suffix for suffix in groups if chosen[suffix]]
        for store in stores:
            if store.target not in placed:
                own = self._products([store])
                halo_first = sorted(filled, key=lambda suffix: not store.target.endswith(suffix))
                chosen[max(halo_first, key=lambda suffix: len(own & products[suffix]))].append(store)
        return {suffix: group for suffix, group in chosen.items() if group}

    def _error_gradient(self, stores: list[Store]) -> list[Store]:
        """The gradient of the errors, [s, V], where both d_v and d_k are made from it."""
        nodes = {store.target: store.node for store in stores}
        if not {"d_k", "d_v"} <= set(nodes):
            return []
        stop = {*self.buffers, *self._carry_blocks(), *self._next_blocks(), *self.program.nodes()}
        shared = set(walk([nodes["d_k"]], stop)) - stop
        rows = [
            node
            for node in walk([nodes["d_v"]], stop)
            if node in shared and node.dims == ("s", "V") and node.op not in ("leaf", "const")
        ]
        return [Store(ERROR_GRADIENT, rows[-1], ("s", "V"), "blocks")] if rows else []

    def _carried(self, stores: list[Store]) -> dict[str, tuple[str, ...]]:
        """Gradients of what weighs the carries, with their axes: they read every carry."""
        leaves = {carry.leaf for carry in (*self.program.carries, *self.backward.carries)}
        weights = [store for store in stores if store.place == "blocks" and len(store.axes) < 2]
        stop = set(self.buffers)
        return {store.target: store.axes for store in weights if leaves & set(walk([store.node], stop))}

    def _products(self, stores: list[Store]) -> set[Node]:
        """Products with values: a kernel that walks V makes them in its loop, and others after it."""
        nodes = walk([store.node for store in stores], set(self.buffers))
        return {node for node in nodes if node.op == "dot" and "V" in (*node.dims, node["dim"])}

    def _gate_gradients(self) -> tuple[Kernel, ...]:
        _, late, cut = self._split_gates()
        loaded = {**{node: name for node, name in self.buffers.items()}, **cut}
        groups: dict[str, list[Store]] = {"gates_gradient": []}
        apart = {"d_gamma": "_window", "d_log_theta": "_momentum"} if self.structure.pieces == 4 else {}
        if apart and any(store.target.startswith("d_log_theta") for store in late):
            apart["d_lr"] = "_rate"
        for store in late:
            suffixes = [suffix for start, suffix in apart.items() if store.target.startswith(start)]
            groups.setdefault("".join(["gates_gradient", *suffixes]), []).append(store)
        kernels = []
        for name, stores in groups.items():
            doc = "Gradients of one block's gates, from those of decays and weights: "
            doc += ", ".join(store.target for store in stores) + "."
            if stores:
                kernels.append(Kernel(name, doc, "grid", "none", tuple(stores), loaded))
        return tuple(kernels)

    def _fused_backward(self) -> Kernel:
        return Kernel(
            "backward",
            "All gradients, from the last block to the first.",
            "reverse",
            "whole",
            tuple(self.merged()),
            self._carry_blocks(),
            False,
            self.backward.carries,
            False,
            (),
            self.backward.accumulate,
        )

    # -- axes ----------------------------------------------------------------------------------------
    def _contracts(self, roots: list[Node], stop: set[Node], dim: str) -> bool:
        nodes = walk(roots, stop)
        return any(
            node.op in ("dot", "sum", "softmax", "cumsum") and node["dim"] == dim
            for node in nodes
            if node not in stop
        )

    def _parallel_or(self, roots: list[Node], stop: set[Node], other: ValueMode) -> ValueMode:
        """V is parallel where nothing sums over it; values without V are then the same in all tiles."""
        return other if self._contracts(roots, stop, "V") else "parallel"

    def _rows_can_walk(self, roots: list[Node], stop: set[Node]) -> bool:
        """True if the rows of sources can be walked: no scan along s has to be made inside."""
        nodes = [node for node in walk(roots, stop) if node not in stop]
        return not any(
            node.op in ("cumsum", "decay", "decay_from_start", "decay_to_end", "decay_whole")
            for node in nodes
        )


def make_plan(program: BlockProgram, backward: BackwardProgram, structure: Structure) -> Plan:
    """The kernels of a rule under a structure."""
    return Planner(program, backward, structure).plan()

"""Questions about graphs that decide where a block program is cut into kernels."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from atlasgen.emit.axes import WALKS, WIDE, hidden_axis, walkable_axes, walked_function, whole_of
from atlasgen.emit.plan import SINGLE, Kernel, Store, Structure, ValueMode
from atlasgen.emit.row_scales import scales_inside
from atlasgen.emit.saved_rows import EARLY, RowStage, row_stages, split_stages
from atlasgen.emit.single_rows import TOKEN_FORMS
from atlasgen.ir.node import ROWS, Node, walk
from atlasgen.ir.program import BackwardProgram, BlockProgram, Carry

_OF_ROWS = tuple((dim,) for dim in ROWS)
GATE_KINDS = ("token", "head", "position", "live", "exists", "border")


def is_gate_only(node: Node, cache: dict[Node, bool]) -> bool:
    """True if a value depends on gates alone: no row tensor with features or values in it."""
    if node not in cache:
        if node.op == "leaf":
            cache[node] = node["kind"] in GATE_KINDS and not WIDE & set(node.dims)
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
            if is_gate_only(argument, cache) and (_is_scan(argument) or SINGLE in argument.dims):
                found[argument] = None
    return list(found)


def _is_scan(node: Node) -> bool:
    """True if a value needs more than its own row: it cannot be recomputed tile by tile."""
    return any(entry.op.startswith("decay") or entry.op in ("cumsum", "dot", "sum") for entry in walk([node]))


def is_matrix(node: Node) -> bool:
    """True for a value with two row axes, such as P."""
    return len(node.dims) > 1


def contracts(roots: list[Node], stop: set[Node], dim: str) -> bool:
    """True if something under `roots` sums over the axis; `stop` nodes are not entered."""
    return any(
        dim in (node.get("dim"), *node.get("summed", ())) for node in walk(roots, stop) if node not in stop
    )


def joins_axes(roots: list[Node], stop: set[Node]) -> bool:
    """True if a value takes another's lanes along a feature axis, so that tiles of both must be alike, or
    maps whole matrices of values."""
    if any("V" in whole_of(node) for node in walk(roots, stop) if node not in stop):
        return True
    renamed = [node for node in walk(roots, stop) if node.op == "rename" and node not in stop]
    return any(set(node.dims) & WIDE != set(node.args[0].dims) & WIDE for node in renamed)


def rows_can_walk(roots: list[Node], stop: set[Node]) -> bool:
    """True if there are rows of sources that can be walked: no scan or system along s is made inside."""
    nodes = [node for node in walk(roots, stop) if node not in stop]
    return any("s" in node.dims for node in nodes) and not any(
        node.op in ("cumsum", "decay", "decay_from_start", "decay_to_end", "decay_whole", "unit_solve")
        for node in nodes
    )


def _iterated(roots: list[Node], op: str, name: str) -> dict[Node, str]:
    """The values of an operator that iterates products of whole matrices, by buffer name."""
    found = [node for node in walk(roots) if node.op == op]
    return {node: f"{name}_{index}_blocks" for index, node in enumerate(found)}


def _systems(roots: list[Node]) -> dict[Node, str]:
    """What solves the systems between a block's rows, by buffer name: their inverse, or, where each channel
    is a system of its own, the matrix that all channels share and what their factors sum over long axes."""
    by_channel = [node for node in walk(roots) if node.op == "unit_solve"]
    shared = dict.fromkeys(node.args[0] for node in by_channel)
    named = {node: f"coupling_{index}_blocks" for index, node in enumerate(shared)}
    factors = walk([node.args[1] for node in by_channel])
    sums = [node for node in factors if node.op in ("sum", "dot") and node["dim"] in WIDE]
    named |= {node: f"row_sums_{index}_blocks" for index, node in enumerate(sums)}
    return _iterated(roots, "unit_inverse", "inverse") | named


def _solutions(
    nodes: Sequence[Node], systems: Collection[Node], names: Mapping[Node, str]
) -> dict[Node, str]:
    """What solving systems between a block's rows makes of rows, [rows, V], or walks over them, by buffer
    name."""
    inverses = {node for node in systems if node.op == "unit_inverse"}
    found = [
        node
        for node in nodes
        if node.op in WALKS
        or node.op == "unit_solve"
        and systems
        or node.op == "dot"
        and any(argument in inverses for argument in node.args)
    ]
    named = [names.get(node, node.op if node.op in WALKS else "solution") for node in found]
    alike = [named[:index].count(name) for index, name in enumerate(named)]
    return {
        node: f"{name}_{count + 1}_blocks" if count else f"{name}_blocks"
        for node, name, count in zip(found, named, alike, strict=True)
    }


def _predictions(nodes: Sequence[Node]) -> dict[Node, str]:
    """The predictions that gradients of walks need, [rows, sources, V], by buffer name: none where errors are
    affine in them."""
    found = [node for node in nodes if node.op == "exact_errors_gradient"]
    used = [n.args[0] for n in found if n["function"].arguments[0] in walk([walked_function(n)])]
    return {node: f"predictions_{index}_blocks" for index, node in enumerate(dict.fromkeys(used))}


def _given_sums(roots: list[Node], stop: set[Node], carries: Sequence[Carry]) -> dict[Node, str]:
    """Rows of V under `roots` that are sums over other rows and need no carry, by buffer name."""
    late = {carry.leaf for carry in carries}
    found: list[Node] = []
    for node in walk(roots, stop):
        if node not in stop and any(argument in late for argument in node.args):
            late.add(node)
        elif node not in stop and node.op == "dot" and node["dim"] in ROWS and _is_row_of_values(node):
            found.append(node)
    inside = {part for node in found for part in walk(list(node.args), stop)}
    top = [node for node in found if node not in inside]
    return {node: f"given_{index}_blocks" for index, node in enumerate(top)}


def _is_row_of_values(node: Node) -> bool:
    return node.dims[:1] in _OF_ROWS and node.dims[1:] in (("V",), ("p", "V"))


def _of_channels(program: BlockProgram) -> dict[Node, str]:
    """What decays by channel make of a block's rows alone, by buffer name: it needs no state."""
    found = [
        node
        for node in program.nodes()
        if node.op == "channel_scores" or node.op.startswith("decay_") and (WIDE - {"V"}) & set(node.dims)
    ]
    return {node: f"channels_{index}_blocks" for index, node in enumerate(found)}


def block_stores(values: Mapping[Node, str]) -> tuple[Store, ...]:
    """Stores of values that later kernels read, each in a buffer with an entry per block."""
    return tuple(Store(name, node, node.dims, "blocks") for node, name in values.items())


def weight_of(tensor: str) -> str:
    """The weight's part of a tensor's name: W1 of d_memory_W1."""
    return tensor.removeprefix("d_").partition("_")[2]


class Cuts:
    """One rule's programs under a structure, and the values that kernels leave in buffers for others.

    buffers: values that need no state: of gates alone, what decays by channel make of rows, and what
    solves the systems between a block's rows. solved, solved_gradients: what those make of rows: the errors,
    and the gradients of what the block's start gives for them. again: what the backward pass makes again of
    those, and predictions. given: rows of V that the gradient of the memory needs and that need none of it.
    sums: vectors of rows that sum over V, see `_value_sums`. maps, map_gradients: iterated maps of a block's
    whole matrices and their gradients, which one kernel makes for all.
    """

    def __init__(self, program: BlockProgram, backward: BackwardProgram, structure: Structure) -> None:
        self.program, self.backward, self.structure = program, backward, structure
        self.deep = hidden_axis(program) is not None
        self.walk = structure.walk if structure.walk in walkable_axes(program) else None
        fused = structure.form == "fused"
        self.tokens = structure.form in TOKEN_FORMS
        self.frontier = [] if fused or structure.gates == "inline" else gate_frontier(program)
        stored = [node for node in self.frontier if structure.gates == "all" or not is_matrix(node)]
        self.gates = {node: self.buffer_name(node) for node in stored}
        self.systems = {} if fused else _systems(program.roots())
        self.channels = {} if fused else _of_channels(program)
        self.buffers = {**self.gates, **self.channels, **self.systems}
        names = {**backward.names, **program.names}
        alone = fused or self.tokens or self.walk
        # Where the state streams, what systems make of rows is among the saved ones.
        systems = {} if self.walk else self.systems
        self.solved = {} if fused or self.tokens else _solutions(program.nodes(), systems, names)
        self.again = dict(self.solved)
        if self.solved:
            self.again |= _predictions(walk(backward.roots()))
        self.stages = self._row_stages() if self.walk and not fused else {}
        self.maps = {} if alone else _iterated(program.roots(), "newton_schulz", "update")
        self.map_gradients = (
            {} if alone else _iterated(backward.roots(), "newton_schulz_gradient", "d_update")
        )
        later = [node for node in walk(backward.roots(), set(self.again)) if node not in self.again]
        self.solved_gradients = {} if alone else _solutions(later, self.systems, names)
        known = {*self.buffers, *self.carry_blocks(), *self.again}
        self.given = {}
        if self.solved and not self.walk:
            self.given = _given_sums(self.state_gradient_roots(), known, backward.carries)
        self.sums = {} if fused or self.tokens or self.walk else self._value_sums()

    def _row_stages(self) -> dict[str, list[RowStage]]:
        written = {*self.program.outputs.values(), *self.again}
        names = {**self.backward.names, **self.program.names}
        stages = row_stages([*self.program.roots(), *self.backward.roots()], written, names)
        early = {node for kind in EARLY for stage in stages[kind] for node in stage.rows}
        stop = {*self.buffers, *self.carry_blocks(), *early, *self.again}
        within = set(walk(self.state_gradient_roots(), stop))
        late = split_stages(stages["late_gradients"], within)
        return stages | {"state_gradients": late[0], "late_gradients": late[1]}

    def saved_rows(self, *kinds: str) -> dict[Node, str]:
        """Buffers of the rows that kernels of these classes leave."""
        stages = [stage for kind in kinds for stage in self.stages.get(kind, ())]
        return {node: buffer for stage in stages for node, buffer in stage.rows.items()}

    def row_kernels(
        self, kind: str, loaded: dict[Node, str], roots: Sequence[Node] = ()
    ) -> tuple[Kernel, ...]:
        """The kernels of one class of saved rows; each adds its own to `loaded`.

        roots: what needs the rows, none: all of them are left.
        """
        kernels, stages = [], self.stages.get(kind, [])
        if roots:
            stages, _ = split_stages(stages, set(walk(roots, set(loaded))))
        for stage in stages:
            stores = self.row_stores(stage, loaded)
            doc = "Rows of one block that later kernels read: " + ", ".join(stage.rows.values()) + "."
            kernels.append(Kernel(stage.name, doc, "grid", "whole", stores, dict(loaded), walk=self.walk))
            loaded |= stage.rows
        return tuple(kernels)

    def row_stores(self, stage: RowStage, loaded: dict[Node, str]) -> tuple[Store, ...]:
        """The stores of one stage of saved rows."""
        nodes = list(stage.rows)
        inside = zip(nodes, scales_inside(nodes, set(loaded), self.walk or "V"), strict=True)
        return tuple(Store(stage.rows[node], value, node.dims, "blocks") for node, value in inside)

    def buffer_name(self, node: Node) -> str:
        """The buffer of a gate-only value."""
        index = self.frontier.index(node)
        name = self.program.names.get(node, f"value_{index}")
        # Weights with gates of their own have values of one name.
        alike = [other for other in self.frontier[:index] if self.program.names.get(other) == name]
        return f"gate_{name}_{len(alike) + 1}" if alike else f"gate_{name}"

    def carry_blocks(self) -> dict[Node, str]:
        """Buffers of the carries at the start of each block."""
        return {carry.leaf: f"{carry.name}_blocks" for carry in self.program.carries}

    def next_blocks(self) -> dict[Node, str]:
        """Buffers of the gradients of the carries after each block."""
        return {carry.leaf: f"{carry.leaf['name']}_blocks" for carry in self.backward.carries}

    def streamed(self, carries: tuple[Carry, ...], buffers: Mapping[Node, str]) -> list[Store]:
        """Stores that pass carries on through memory, by weight, each momentum before its memory."""
        stores = [
            Store(buffers[c.leaf], c.next, c.leaf.dims, "next", False, c.name, weight_of(c.name))
            for c in carries
        ]
        return sorted(stores, key=lambda store: (store.weight, "momentum" not in store.tensor))

    def streaming_stores(self) -> list[Store]:
        """What the loop passes on and captures, where that goes through memory."""
        stores = self.streamed(self.program.carries, self.carry_blocks())
        for entry in self.program.captures:
            target, dims, weight = f"{entry.name}_final", entry.value.dims, weight_of(entry.name)
            stores.append(Store(target, entry.value, dims, "capture", False, entry.name, weight))
        return stores

    def state_gradient_roots(self) -> list[Node]:
        """What the reversed loop passes on and adds up."""
        carried = [carry.next for carry in self.backward.carries]
        return carried + [part.node for part in self.backward.accumulate]

    def parallel_or(self, roots: list[Node], stop: set[Node], other: ValueMode) -> ValueMode:
        """V is parallel where nothing sums over it; values without V are then the same in all tiles.

        Else it is as `other` says, but whole where more than one axis is wide: a deep memory, or one that
        adds keys to values.
        """
        joined = joins_axes(roots, stop)
        if not joined and not contracts(roots, stop, "V"):
            return "parallel"
        return "whole" if joined or self.deep or self.walk else other

    def streamed_values(self, stores: Sequence[Store], stop: set[Node]) -> ValueMode:
        """How a kernel that streams the state covers V: in parallel only if all that it writes has V."""
        if any("V" not in store.axes for store in stores):
            return "whole"
        return self.parallel_or([store.node for store in stores], stop, "whole")

    def _value_sums(self) -> dict[Node, str]:
        """Vectors of rows that sum over V and do not need the gradients of carries, by buffer name.

        A kernel of their own makes them, where the state's gradient is then parallel over V.
        """
        stop = {*self.buffers, *self.carry_blocks()}
        roots = self.state_gradient_roots()
        if not contracts(roots, stop, "V"):
            return {}
        nodes, late = walk(roots, stop), {carry.leaf for carry in self.backward.carries}
        summed: set[Node] = set()
        for node in nodes:
            arguments = () if node in stop else node.args
            if node in late or any(argument in late for argument in arguments):
                late.add(node)
            elif contracts([node], {*stop, *arguments}, "V") or summed & set(arguments):
                summed.add(node)
        rows = [node for node in nodes if node in summed and node.dims in (("r",), ("s",), ("h",))]
        used = {a for node in nodes if node not in stop and node not in rows for a in node.args} | set(roots)
        cut = [node for node in rows if node in used]
        if not cut or contracts(roots, {*stop, *cut}, "V"):
            return {}
        names = self.backward.names
        return {node: f"sum_{index}_{names.get(node, 'of_values')}" for index, node in enumerate(cut)}

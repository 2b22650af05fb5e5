"""Kernels of the backward pass: the reversed loop over blocks, and block-parallel gradients by output."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from atlasgen.emit.cuts import Cuts, block_stores, is_gate_only, rows_can_walk, weight_of
from atlasgen.emit.pieces import ERROR_GRADIENT, pieces_of
from atlasgen.emit.plan import Kernel, Phase, Store, ValueMode
from atlasgen.emit.row_scales import scales_inside
from atlasgen.emit.saved_rows import EARLY
from atlasgen.emit.shared_sums import are_shared, shared_mixes, shared_sums, sums_of_matrices, walks_keys
from atlasgen.errors import CompileError
from atlasgen.ir import build
from atlasgen.ir.node import Node, walk
from atlasgen.ir.program import Contribution

PRODUCTS = 2  # of one store of the state's gradient: with more the registers do not suffice


def _parts(store: Store) -> list[Store]:
    """A store of a sum with many products as several, each adding to what the one before it wrote."""
    terms = _terms(store.node)
    if store.place != "next" or len(terms) == 1:
        return [store]
    products = [term for term in terms if term[1].op == "dot" or any(a.op == "dot" for a in term[1].args)]
    rest = [term for term in terms if term not in products]
    chunks = [products[start : start + PRODUCTS] for start in range(0, len(products), PRODUCTS)]
    sums = [[*rest, *chunk] if index == 0 else chunk for index, chunk in enumerate(chunks or [[]])]
    nodes = [build.add(*terms) for terms in sums] if len(sums) > 1 else [store.node]
    return [replace(store, node=part, adds=index > 0) for index, part in enumerate(nodes)]


def _terms(node: Node) -> list[tuple[int, Node]]:
    """The signed terms of a sum, also of one that only some blocks pass on."""
    if node.op == "add":
        pairs = zip(node["signs"], node.args, strict=True)
        return [(sign * own, term) for sign, argument in pairs for own, term in _terms(argument)]
    if node.op == "when_start":
        inner = _terms(node.args[0])
        return [(sign, Node("when_start", (term,), term.dims, **dict(node.attrs))) for sign, term in inner]
    return [(1, node)]


def _visible(gradient: Node, every: set[Node]) -> Node:
    """What the gates see of a gradient: signs and masks move outwards while the derivative is built."""
    found = build.magnitude(gradient)
    while found not in every and found.op == "mask":
        found = build.magnitude(found.args[0])
    return found


def head_gradient(leaf: Node) -> str:
    """The buffer of the gradient of a leaf per head: of a whole table, or of one of its columns."""
    column = leaf.get("index")
    return f"d_{leaf['name']}_blocks" if column is None else f"d_{leaf['name']}_{column}_blocks"


def _of_both(target: str, rule: str) -> CompileError:
    name = target.removeprefix("d_")
    reason = "a kernel adds up its gradient along the rows of a block, or along all that windows reach"
    return CompileError("inputs", name, reason, "an input for each of the two uses", rule=rule)


class BackwardPlanner:
    """Cuts one rule's reversed loop into kernels."""

    def __init__(self, cuts: Cuts) -> None:
        self.cuts = cuts

    def split(self) -> tuple[Kernel, ...]:
        """The kernels of the split form, without the prologue."""
        cuts = self.cuts
        loaded = {**cuts.buffers, **cuts.carry_blocks()}
        again = (*self._maps(loaded), *self._solutions(loaded), *self._given(loaded))
        early = [cuts.row_kernels(kind, loaded) for kind in EARLY]
        sequential = (*again, *early[0], *early[1], *early[2], *self._sums(), self._state_gradient(loaded))
        return (*sequential, *self._output_gradients(), *self.gate_gradients())

    def _maps(self, loaded: dict[Node, str]) -> tuple[Kernel, ...]:
        """The kernel that iterates a block's maps again; adds them to `loaded`."""
        maps = self.cuts.maps
        if not maps:
            return ()
        kernel = Kernel(
            "updates", "The maps of one block, again.", "grid", "whole", block_stores(maps), dict(loaded)
        )
        loaded |= maps
        return (kernel,)

    def _solutions(self, loaded: dict[Node, str]) -> tuple[Kernel, ...]:
        """The kernel that makes the errors of a block's rows again; adds them to `loaded`."""
        cuts, doc = self.cuts, "The errors of one block's rows, again."
        if not cuts.solved:
            return ()
        values = cuts.parallel_or(list(cuts.again), set(loaded), "whole")
        stores = block_stores(cuts.again)
        kernel = Kernel("errors", doc, "grid", values, stores, dict(loaded), walk=cuts.walk)
        loaded |= cuts.again
        return (kernel,)

    def _given(self, loaded: dict[Node, str]) -> tuple[Kernel, ...]:
        """The kernel of what the loop over blocks needs and can be had before it; adds it to `loaded`."""
        cuts, doc = self.cuts, "Gradients of one block's errors from its reads alone."
        if not cuts.given:
            return ()
        values = cuts.parallel_or(list(cuts.given), set(loaded), "whole")
        kernel = Kernel("read_gradients", doc, "grid", values, block_stores(cuts.given), dict(loaded))
        loaded |= cuts.given
        return (kernel,)

    def _sums(self) -> tuple[Kernel, ...]:
        if not self.cuts.sums:
            return ()
        stores = tuple(Store(name, node, node.dims, "blocks") for node, name in self.cuts.sums.items())
        doc = "Sums over V of one block that the gradient of the memory needs."
        loaded = {**self.cuts.buffers, **self.cuts.carry_blocks(), **self.cuts.maps}
        return (Kernel("value_sums", doc, "grid", "walked", stores, loaded),)

    def _state_gradient(self, known: dict[Node, str]) -> Kernel:
        backward = self.cuts.backward
        if self.cuts.walk:
            return self._streaming_state_gradient({**known, **self.cuts.next_blocks()})
        roots = self.cuts.state_gradient_roots()
        loaded = {**known, **self.cuts.sums}
        walk_rows = self.cuts.structure.walk_rows and rows_can_walk(roots, set(loaded))
        return Kernel(
            "state_gradient",
            "The gradient of the memory from the last block to the first, saved after each.",
            "reverse",
            self.cuts.parallel_or(roots, set(loaded), "whole"),
            block_stores({**self.cuts.map_gradients, **self.cuts.solved_gradients}),
            loaded,
            walk_rows,
            backward.carries,
            True,
            (),
            backward.accumulate,
        )

    def streaming_stores(self) -> list[Store]:
        """What the reversed loop passes on and adds up, where that goes through memory."""
        cuts = self.cuts
        stores = cuts.streamed(cuts.backward.carries, cuts.next_blocks())
        for part in cuts.backward.accumulate:
            place = "start" if part.node.op == "when_start" else "sum"
            node = part.node.args[0] if place == "start" else part.node
            weight = weight_of(part.tensor)
            stores.append(Store(f"d_{part.tensor}", node, part.leaf.dims, place, False, part.tensor, weight))
        return stores

    def _streaming_state_gradient(self, loaded: dict[Node, str]) -> Kernel:
        cuts, stores = self.cuts, self.streaming_stores()
        known, phases = dict(loaded), []
        for stage in cuts.stages["state_gradients"]:
            before = dict(known)
            phases += [Phase((store,), before) for store in cuts.row_stores(stage, known)]
            known |= stage.rows
        phases += [Phase((part,), known) for store in stores for part in _parts(store)]
        written = tuple(store for phase in phases for store in phase.stores)
        values = {cuts.streamed_values(phase.stores, set(phase.loaded)) for phase in phases}
        return Kernel(
            "state_gradient",
            "The gradient of the memory from the last block to the first, tile by tile.",
            "reverse",
            "parallel" if values == {"parallel"} else "whole",
            written,
            loaded,
            phases=tuple(phases),
            walk=cuts.walk,
            streams=cuts.backward.carries,
        )

    def contribution_store(self, part: Contribution) -> Store:
        """Where a contribution goes: the gradient of rows, a halo buffer, or one value per block."""
        leaf, windowed = part.leaf, False
        if leaf["kind"] == "token":
            if leaf["segment"] == "sources":
                return Store(f"d_{part.tensor}", part.node, leaf.dims, "sources")
            halo = leaf["segment"] == "halo"
            windowed = "s" in leaf.dims and not halo and self.cuts.program.window > 1
            windowed = windowed and not part.tensor.startswith("log_") and part.tensor != "lr"
            place = "halo" if halo else "rows"
            suffix = "_halo" if halo else ""
            return Store(f"d_{part.tensor}{suffix}", part.node, leaf.dims, place, windowed)
        return Store(head_gradient(leaf), part.node, leaf.dims, "blocks")

    def merged(self) -> list[Store]:
        """Stores of all contributions; those to the same rows from several leaves are added."""
        table: dict[str, Store] = {}
        for part in self.cuts.backward.contributions:
            store = self.contribution_store(part)
            if store.target not in table:
                table[store.target] = store
                continue
            first = table[store.target]
            node = store.node
            if first.axes != store.axes:
                names = dict(zip(store.axes, first.axes, strict=True))
                node = build.rename(node, names)
            if first.place != store.place:
                raise _of_both(store.target, self.cuts.program.name)
            total = build.add(first.node, node)
            window = first.window or store.window
            table[store.target] = Store(first.target, total, first.axes, first.place, window)
        return [part for store in table.values() for part in self._divided(store)]

    def _divided(self, store: Store) -> list[Store]:
        """The stores of a gradient along all rows that windows reach: of the block's, and of the halo's."""
        if store.place != "sources":
            return [store]
        rows = replace(store, place="rows")
        halo = replace(store, target=f"{store.target}_halo", place="halo")
        return [rows, halo] if self.cuts.program.halo else [rows]

    def gate_cut(self) -> tuple[list[Store], list[Store], dict[Node, str]]:
        """Stores of the block-parallel kernels, of the gate kernel, and the cut between them."""
        gradients = self.cuts.backward.gradients
        cut: dict[Node, str] = {}
        every = set(walk([store.node for store in self.merged()]))
        for node in self.cuts.frontier:
            if node in gradients:
                cut[_visible(gradients[node], every)] = f"d_{self.cuts.buffer_name(node)}"
        if not cut:
            return self.merged(), [], {}
        cache: dict[Node, bool] = {node: True for node in cut}
        late = [store for store in self.merged() if is_gate_only(store.node, cache)]
        early = [store for store in self.merged() if store not in late]
        early += [Store(name, node, node.dims, "blocks") for node, name in cut.items()]
        return early, late, cut

    def _output_gradients(self) -> tuple[Kernel, ...]:
        cuts, (early, _, _) = self.cuts, self.gate_cut()
        loaded = {**cuts.buffers, **cuts.carry_blocks(), **cuts.next_blocks(), **cuts.sums}
        loaded |= {**cuts.saved_rows(*EARLY, "state_gradients"), **cuts.maps, **cuts.map_gradients}
        loaded |= {**cuts.again, **cuts.given, **cuts.solved_gradients}
        kernels = list(cuts.row_kernels("late_gradients", loaded))
        known: dict[Node, str] = cuts.buffers
        if are_shared(cuts, early, set(loaded)):
            for make in (partial(shared_sums, cuts), shared_mixes):
                kernels += make(early, loaded)
                loaded |= {store.node: store.target for kernel in kernels for store in kernel.stores}
            known, early = loaded, [store for store in early if store.node not in loaded]
        for suffix, stores in pieces_of(cuts, early, known).items():
            kernels.append(self._output_gradient(suffix, stores, loaded))
            # What a kernel leaves beside gradients, later ones read instead of making it again.
            loaded |= {store.node: store.target for store in stores if store.target == ERROR_GRADIENT}
        return tuple(kernels)

    def _output_gradient(self, suffix: str, stores: list[Store], loaded: dict[Node, str]) -> Kernel:
        """The kernel of one piece of the gradients; of values without V it walks K where it can."""
        cuts, stop = self.cuts, set(loaded)
        nodes = [store.node for store in stores]
        values: ValueMode = "none"
        axis = cuts.walk or ("K" if walks_keys(nodes, stop) else None)
        if cuts.walk or any("V" in node.dims for node in walk(nodes, stop)):
            nodes = scales_inside(nodes, stop, cuts.walk or "V")
            values = cuts.parallel_or(nodes, stop, "walked")
        found = tuple(replace(store, node=node) for store, node in zip(stores, nodes, strict=True))
        doc = "Gradients of one block: " + ", ".join(store.target for store in stores) + "."
        return Kernel(f"output_gradient{suffix}", doc, "grid", values, found, dict(loaded), walk=axis)

    def gate_gradients(self) -> tuple[Kernel, ...]:
        """The kernels that take gradients of gate-only values to the gates."""
        _, late, cut = self.gate_cut()
        loaded = {**{node: name for node, name in self.cuts.buffers.items()}, **cut}
        groups: dict[str, list[Store]] = {"gates_gradient": []}
        apart = {"d_gamma": "_window", "d_log_theta": "_momentum"} if self.cuts.structure.pieces == 4 else {}
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
                parts = sums_of_matrices(name, stores, loaded)
                known = loaded | {part.node: part.target for kernel in parts for part in kernel.stores}
                kernels += [*parts, Kernel(name, doc, "grid", "none", tuple(stores), known)]
        return tuple(kernels)

    def fused(self) -> Kernel:
        """The one kernel of the fused form."""
        return Kernel(
            "backward",
            "All gradients, from the last block to the first.",
            "reverse",
            "whole",
            tuple(self.merged()),
            self.cuts.carry_blocks(),
            False,
            self.cuts.backward.carries,
            False,
            (),
            self.cuts.backward.accumulate,
        )

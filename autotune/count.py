"""What kernels move and compute, counted from the plan: no kernel is run or compiled.

A program reads every leaf and every stored value once, and again in each loop over tiles of V or of rows that
uses it; programs that share a block by tiles of V each read what has no V. Rows past the end and lanes past
K and V count nothing; products count the whole tiles that tl.dot multiplies.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from atlasgen.emit.axes import WIDE, is_anchor
from atlasgen.emit.plan import Kernel
from atlasgen.emit.triton_module import EmittedModule
from atlasgen.ir.node import DIMS, Node
from atlasgen.ir.operators import OPERATORS
from atlasgen.runtime.launch import CallSizes, KernelTiles, Tiles, padded

WORD = {"float32": 4, "bfloat16": 2, "float16": 2}
_ROW_TENSORS = ("token", "token_gradient")


@dataclass(frozen=True)
class Counts:
    """One launch of one kernel.

    programs: the grid. steps: blocks that a program walks, one after another. bytes_loaded, bytes_stored: of
    device memory. dot_flops: of tl.dot, padded tiles whole. other_flops: of everything else.
    """

    programs: int
    steps: int
    bytes_loaded: int
    bytes_stored: int
    dot_flops: int
    other_flops: int

    @property
    def bytes(self) -> int:
        """Loaded and stored."""
        return self.bytes_loaded + self.bytes_stored


def kernel_counts(
    module: EmittedModule, sizes: CallSizes, tiles: Tiles, dtype: str = "float32"
) -> dict[str, Counts]:
    """Counts of every kernel of a module for one training step of the given sizes.

    dtype: of q, k, v, y and their gradients ("float32", "bfloat16", "float16"); everything else is float32.
    """
    return {
        name: KernelCounter(emitted.kernel, sizes, tiles.of(name), dtype).counts()
        for name, emitted in module.kernels.items()
    }


class KernelCounter:
    """Counts one kernel; `loops` is how often a value is loaded or computed within a program's block."""

    def __init__(self, kernel: Kernel, sizes: CallSizes, tiles: KernelTiles, dtype: str) -> None:
        self.kernel, self.sizes, self.word = kernel, sizes, WORD[dtype]
        self.walked = kernel.walked
        self.value_tiles = 1
        if kernel.values == "parallel":
            self.value_tiles = -(-sizes.value // min(tiles.block_v, padded(sizes.value)))
        self.memories = sizes.batch * sizes.heads
        self.blocks = self.memories * sizes.blocks
        self.nodes = kernel.nodes()
        self._varying = kernel.varying()
        self.loops = self._loops()

    def counts(self) -> Counts:
        """Everything of one launch."""
        kernel = self.kernel
        per_block = {"grid": 1, "row": self.sizes.rows}.get(kernel.loop)
        loaded = sum(self._loaded().values())
        dot, other = self._flops()
        programs = (self.blocks * per_block if per_block else self.memories) * self.value_tiles
        return Counts(
            programs,
            1 if kernel.loop == "grid" else self.sizes.blocks,
            loaded,
            self._stored(),
            dot * self.blocks,
            other * self.blocks,
        )

    # -- loops over a walked axis --------------------------------------------------------------------
    def _contracts(self, node: Node) -> bool:
        axes = (node.get("dim"), *node.get("summed", ()))
        return self.walked is not None and node not in self.kernel.loaded and self.walked in axes

    def _varies(self, node: Node) -> bool:
        return node in self._varying

    def _loops(self) -> dict[Node, int]:
        """In how many loops over the walked axis a value is made; 1 for what is made outside of them."""
        level: dict[Node, int] = {}
        for node in self.nodes:
            below = () if node in self.kernel.loaded else node.args
            level[node] = max((level[argument] for argument in below), default=0) + self._contracts(node)
        table: Counter[Node] = Counter()
        for depth in range(max(level.values(), default=0) + 1):
            sums = [node for node in self.nodes if self._contracts(node) and level[node] == depth + 1]
            stack = [argument for node in sums for argument in node.args]
            stack += [store.node for store in self.kernel.stores if level[store.node] == depth]
            seen: set[Node] = set()
            while stack:
                node = stack.pop()
                if node not in seen and self._varies(node):
                    seen.add(node)
                    stack.extend(() if node in self.kernel.loaded else node.args)
            table.update(seen)
        rows = self.sizes.rows if self.kernel.single_rows else 1
        if self.kernel.loop == "row":
            return dict.fromkeys(self.nodes, rows)
        return {node: table[node] * rows if self._varies(node) else 1 for node in self.nodes}

    # -- bytes ---------------------------------------------------------------------------------------
    def _rows(self, dim: str) -> int:
        """Rows of all blocks of one head that hold tokens."""
        sizes = self.sizes
        if dim != "h":
            return sizes.tokens
        return sum(min(sizes.halo, block * sizes.rows) for block in range(sizes.blocks))

    def _extent(self, dim: str) -> int:
        sizes = self.sizes
        table = {"K": sizes.key, "V": sizes.value, "h": sizes.halo, "c": sizes.window, **dict(sizes.own)}
        return table.get(dim, sizes.rows)

    def _entries(self, dims: tuple[str, ...]) -> int:
        total = 1
        for dim in dims:
            total *= self._extent(dim)
        return total

    def _row_entries(self, dims: tuple[str, ...]) -> int:
        """Entries of a row tensor that hold tokens, in all blocks of all heads."""
        return self.memories * self._rows(dims[0]) * self._entries(dims[1:])

    def _repeats(self, node: Node) -> int:
        return self.loops[node] * (1 if "V" in node.dims else self.value_tiles)

    def _loaded(self) -> dict[tuple, int]:
        """Bytes by what is read; rows that two axes read at the same positions are read once."""
        found: dict[tuple, int] = {}
        aged = {node.args[0] for node in self.nodes if node.op == "expand_age"}
        for node in self.nodes:
            if node in self.kernel.loaded:
                entries = self.blocks * self._entries(node.dims)
                found[(self.kernel.loaded[node], node.dims)] = 4 * entries * self._repeats(node)
            elif node.op == "expand_age":
                found[("age", node)] = self._aged_bytes(node) * self._repeats(node)
            elif node.op == "leaf" and node not in aged:
                key, size = self._leaf_bytes(node)
                found[key] = max(found.get(key, 0), size * self._repeats(node))
        return found

    def _aged_bytes(self, node: Node) -> int:
        """A gate by age, read along the diagonals of a matrix."""
        return 4 * self._row_entries((node["row"],)) * min(self.sizes.window, self._extent(node["column"]))

    def _leaf_bytes(self, node: Node) -> tuple[tuple, int]:
        kind = node["kind"]
        if kind in _ROW_TENSORS:
            wide = bool(WIDE & set(node.dims))
            row = node.dims[0]
            place = row if row == "h" or row == self.walked else "row"
            return (node["name"], place, *node.dims[1:]), (self.word if wide else 4) * self._row_entries(
                node.dims
            )
        if kind in ("row_of", "row_matrix"):
            return (node["name"], node.dims), 4 * self.blocks * self._entries(node.dims)
        if kind in ("head", "position", "invariant") and not is_anchor(node["name"]):
            launches = self.blocks if self.kernel.loop == "grid" else self.memories
            return (node["name"],), 4 * launches * self._entries(node.dims)
        return (node["name"], kind), 0  # carries lie in registers, masks are made, anchors resume

    def _stored(self) -> int:
        kernel, total = self.kernel, 0
        for store in kernel.stores:
            if store.place == "rows":
                wide = bool(WIDE & set(store.axes))
                total += (self.word if wide else 4) * self._row_entries(store.axes)
            elif store.place in ("halo", "blocks", "next"):
                total += 4 * self.blocks * self._entries(store.axes)
            elif store.place == "token":
                total += 4 * self.blocks * self.sizes.rows * self._entries(store.axes)
            elif store.place != "start":
                total += 4 * self.memories * self._entries(store.axes)
        for carry in kernel.carries:
            if kernel.checkpoint:
                total += 4 * self.blocks * self._entries(carry.leaf.dims)
            if kernel.loop == "forward":
                total += 4 * self.memories * self._entries(carry.leaf.dims)
        parts = [node for _, node, _ in kernel.captures]
        parts += [part.leaf for part in kernel.accumulate if part.node.op != "when_start"]
        return total + sum(4 * self.memories * self._entries(part.dims) for part in parts)

    # -- flops ---------------------------------------------------------------------------------------
    def _flops(self) -> tuple[int, int]:
        """(products of tiles, everything else) of one block."""
        exact = {dim: self._extent(dim) for dim in DIMS}
        tiled = {dim: padded(extent) for dim, extent in exact.items()}
        dot = other = 0
        for node in self.nodes:
            if node in self.kernel.loaded or node.op in ("leaf", "const"):
                continue
            if _is_product(node):
                shares = "V" in (*node.dims, node["dim"])
                dot += (
                    OPERATORS["dot"].flops(node, tiled)
                    * self.loops[node]
                    * (1 if shares else self.value_tiles)
                )
            else:
                other += OPERATORS[node.op].flops(node, exact) * self._repeats(node)
        return dot, other


def _is_product(node: Node) -> bool:
    """True for what becomes tl.dot: both arguments are matrices that share the summed axis only."""
    if node.op != "dot":
        return False
    left, right = node.args
    shared = set(left.dims) & set(right.dims)
    return len(left.dims) == len(right.dims) == 2 and shared == {node["dim"]}

"""How an emitted kernel reads leaves and stored values, and how it writes its results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from atlasgen.emit.axes import SOURCES, WIDE, extent_name, is_anchor, lane_name, mask_name, tile_name
from atlasgen.emit.plan import SINGLE, Store
from atlasgen.emit.triton_memory import NUMBERS
from atlasgen.emit.triton_streams import Streams
from atlasgen.ir.node import EARLIER, ROWS, Node, ordered
from atlasgen.ir.operators import OPERATORS

if TYPE_CHECKING:
    from atlasgen.emit.triton_kernel import KernelEmitter


ROW_AXES = ROWS | EARLIER


class Loads:
    """Loads and stores of one kernel."""

    def __init__(self, emitter: KernelEmitter) -> None:
        self.emitter = emitter
        self.memory = emitter.memory
        self.writer = emitter.writer
        self.windowed: frozenset[str] = frozenset()
        self.streams = Streams(self)

    # -- axes ----------------------------------------------------------------------------------------
    def tile_size(self, dim: str) -> str:
        """The tile's extent along an axis."""
        if dim == "s":
            return "TILE_ROWS" if self.emitter.walked == "s" else "BLOCK_ROWS"
        return tile_name(dim)

    def lane(self, dim: str) -> str:
        """The index vector of an axis."""
        if dim == "h":
            return "(halo_row + HALO)"
        if dim in SOURCES:
            return "(reached + HALO)"
        if dim == "c":
            return "age_lane"
        if dim in WIDE:
            return lane_name(dim)
        return self.emitter.position(dim)

    def real(self, dim: str) -> str:
        """The condition under which a lane lies inside the extent."""
        if dim == "h":
            return "(halo_row < 0)"
        if dim in WIDE:
            return mask_name(dim)
        if dim == "c":
            return "(age_lane < WINDOW)"
        return f"({self.emitter.position(dim)} < ROWS)"

    def mask(self, dims: tuple[str, ...], first: str | None = None) -> str:
        """The mask of a tile of at least one axis; `first` replaces the condition of the first."""
        dims = tuple(dim for dim in dims if self.lane(dim) not in NUMBERS)
        conditions = [self.real(dim) for dim in dims]
        if first is not None:
            conditions[0] = first
        if len(dims) == 1:
            return conditions[0].strip("()") if " & " not in conditions[0] else conditions[0]
        parts = [
            f"{condition}[{', '.join(':' if own == place else 'None' for own in range(len(dims)))}]"
            for place, condition in enumerate(conditions)
        ]
        return " & ".join(parts)

    def masked(self, dims: tuple[str, ...], loads: bool = False) -> str:
        """The arguments of a load or store that leave lanes outside alone; none for a single number."""
        if not dims:
            return ""
        return f", mask={self.mask(dims)}{', other=0.0' if loads else ''}"

    def row_mask(self, dims: tuple[str, ...], held: bool = False) -> str:
        """The mask of rows of a token tensor, which hold tokens (held: of earlier calls)."""
        if dims and self.emitter.position(dims[0]) in NUMBERS:
            return self.mask(dims[1:]) if dims[1:] else "True"  # only rows that hold tokens are walked
        if dims and dims[0] in ROW_AXES:
            return self.mask(dims, self._row_mask(dims[0], held))
        return f"live & {self.mask(dims)}" if dims else "live"

    def row_address(self, tensor: str, dims: tuple[str, ...]) -> str:
        """Address text of rows of a token tensor; without a row axis: of the block's only row."""
        row = self.emitter.position(dims[0]) if dims and dims[0] in ROW_AXES else None
        lanes = dims if row is None else dims[1:]
        return self.memory.row_address(tensor, row, self.lane(lanes[0]) if lanes else None)

    def _row_mask(self, dim: str, held: bool = False) -> str:
        if dim in SOURCES:
            return "is_held_reached" if held else "is_reached"
        kind = "halo" if dim == "h" else "source" if self.emitter.position(dim) == "source" else "row"
        if held:
            return {"halo": "is_held_halo", "source": "is_held_source", "row": "is_held"}[kind]
        return {"halo": "is_halo", "source": "is_source", "row": "live"}[kind]

    # -- loads ---------------------------------------------------------------------------------------
    def load(self, node: Node) -> str:
        """The text that reads a node (statements that it needs are written)."""
        if node in self.emitter.kernel.loaded:
            buffer = self.emitter.kernel.loaded[node]
            lanes = [self.lane(dim) for dim in node.dims]
            address = self.memory.block_address(buffer, node.dims, lanes)
            return f"tl.load({address}{self.masked(node.dims, True)})"
        if node.op == "expand_age":
            return self._load_ages(node)
        kind = node["kind"]
        if kind in ("token", "token_gradient"):
            return self._load_rows(node)
        if kind in ("row_token", "row_token_gradient"):
            lane = self.lane(node.dims[0]) if node.dims else None
            address = self.memory.row_address(node["name"], self.emitter.position(SINGLE), lane)
            return f"tl.load({address}{self.masked(node.dims, True)}).to(tl.float32)"
        if kind == "row_of":
            axes = node["axes"]
            address = self.memory.block_address(node["name"], axes, [self.lane(dim) for dim in axes])
            mask = f", mask={self.mask(axes)}, other=0.0" if node.dims else ""
            return f"tl.load({address}{mask})"
        if kind == "row_matrix":
            address = self.memory.token_address(node["name"], node.dims, [self.lane(d) for d in node.dims])
            return f"tl.load({address}, mask={self.mask(node.dims)}, other=0.0)"
        if kind == "host":
            return self.memory.argument(node["name"], "number", node["name"])
        if kind == "lane":
            return f"({lane_name(node.dims[0])} + 1)"
        if kind == "monomial":
            address = self.memory.monomial_address(node)
            return f"tl.load({address}, mask={self.mask(node.dims)}, other=0)"
        if kind == "head":
            lanes = [self.lane(dim) for dim in node.dims]
            if node.get("index") is None:
                address = self.memory.head_address(node["name"], node.dims, lanes)
            else:
                address = self.memory.column_address(node["name"], node["index"])
            return f"tl.load({address}{self.masked(node.dims, True)}).to(tl.float32)"
        if kind == "position":
            pointer = self.memory.argument(f"{node['name']}_pointer", "table", node["name"])
            address = f"{pointer} + head * WINDOW + age_lane"
            return f"tl.load({address}, mask=age_lane < WINDOW, other=0.0).to(tl.float32)"
        if kind == "row_live":
            return "1.0"  # only rows that hold tokens are walked
        if kind == "live":
            return f"{self.row_mask(node.dims)}.to(tl.float32)"
        if kind == "border":
            return self._border(node)
        if kind == "exists":
            return f"{self._exists(node)}.to(tl.float32)"
        if kind in ("invariant", "capture_gradient"):
            return self._load_state(node, kind)
        raise ValueError(f"leaf {node} of kind {kind} is not loadable in {self.emitter.kernel.name}")

    def _border(self, node: Node) -> str:
        """1 in the last row of a full block; of no axis: where the block is full.

        Of the rule's own blocks where the program's are pieces of them: at their last row, or at their first.
        """
        dims = node.dims
        if node.get("place") == "first":
            return f"((first == 0) & (last > 0) & ({_place(node)} == 0)).to(tl.float32)"
        piece = f" & ({_place(node)} == {node['every']} - ROWS)" if node.get("every") is not None else ""
        if not dims:
            return f"((last == ROWS){piece}).to(tl.float32)" if piece else "(last == ROWS).to(tl.float32)"
        position, live = self.emitter.position(dims[0]), self._row_mask(dims[0])
        return f"({live} & ({position} == ROWS - 1){piece}).to(tl.float32)"

    def _exists(self, node: Node) -> str:
        dim = node.dims[0] if node.dims else "r"
        if dim == "h":
            text = "(halo_row >= earliest - seen) & (halo_row < tl.minimum(last, 0))"
            own = "" if node.get("every") is None else f" & ({_place(node)} + halo_row >= 0)"
            return f"({text}{own})"
        if dim in SOURCES:
            return "((reached >= earliest - seen) & (reached < last))"
        row = self.emitter.position(dim)
        return f"(({row} >= first - seen) & ({row} < last))"

    def _load_state(self, node: Node, kind: str) -> str:
        lanes = [self.lane(dim) for dim in node.dims]
        mask = self.mask(node.dims)
        if kind == "capture_gradient":
            self.memory.flag("GRAD_FINAL")
            address = self.memory.state_address(f"{node['name']}_final", node.dims, lanes)
            name = self.emitter.namer.name(node, node["name"])
            self.writer.line(f"{name} = {self.emitter.zeros(node.dims)}")
            self.writer.push("if GRAD_FINAL:")
            self.writer.push("if block == open_block:")
            self.writer.line(f"{name} += tl.load({address}, mask={mask}, other=0.0)")
            self.writer.pop()
            self.writer.pop()
            return name
        address = self.memory.state_address(node["name"], node.dims, lanes)
        text = f"tl.load({address}, mask={mask}, other=0.0)"
        if is_anchor(node["name"]):
            self.memory.flag("RESUME")
            return f"{text} if RESUME else 0.0"
        return text

    def _load_rows(self, node: Node) -> str:
        """Rows of a token tensor; in a resumed call the window's rows of earlier calls too."""
        if "g" in node.dims:  # the same rows as along p
            dims = ordered("p" if dim == "g" else dim for dim in node.dims)
            return self.emitter.operand(Node("leaf", (), dims, **dict(node.attrs)))
        address = self.row_address(node["name"], node.dims)
        text = f"tl.load({address}, mask={self.row_mask(node.dims)}, other=0.0).to(tl.float32)"
        if node["name"] not in self.windowed or node.dims[:1] not in (("s",), ("h",), ("p",)):
            return text
        row_dim = node.dims[0]
        lane = self.lane(node.dims[1]) if len(node.dims) > 1 else None
        position = self.emitter.position(row_dim)
        self.memory.flag("RESUME")
        name = self.emitter.namer.name(node, node["name"] + ("_halo" if row_dim == "h" else ""))
        self.writer.line(f"{name} = {text}")
        size = _width(node.dims)
        held = self.mask(node.dims, self._row_mask(row_dim, held=True))
        self.writer.push("if RESUME:")
        address = self.memory.window_address(f"window_{node['name']}", position, lane, size)
        self.writer.line(f"{name} += tl.load({address}, mask={held}, other=0.0)")
        self.writer.pop()
        self.memory.bases.discard(f"window_{node['name']}_base")
        return name

    def _load_ages(self, node: Node) -> str:
        """A gate by age, read at the age of each pair of reader and source."""
        (gate,) = node.args
        row, column = node["row"], node["column"]
        rows = self.emitter.align(self.emitter.position(row), (row,), node.dims)
        columns = self.emitter.align(self.emitter.position(column), (column,), node.dims)
        age = self.emitter.assign_text(f"{rows} - {columns}", "age_of")
        mask = f"({age} >= 0) & ({age} < WINDOW)"
        if gate["kind"] == "position":
            pointer = self.memory.argument(f"{gate['name']}_pointer", "table", gate["name"])
            return f"tl.load({pointer} + head * WINDOW + {age}, mask={mask}, other=0.0).to(tl.float32)"
        base = self.memory.rows_base(gate["name"])
        address = f"{base} + {rows} * {gate['name']}_row + {age}"
        live = self.emitter.align(self._row_mask(row), (row,), node.dims)
        return f"tl.load({address}, mask={live} & {mask}, other=0.0).to(tl.float32)"

    # -- stores --------------------------------------------------------------------------------------
    def store(self, store: Store, text: str) -> None:
        """Write a value to its buffer."""
        node, axes = store.node, store.axes
        if store.streams:
            self.streams.store(store, text)
            return
        if store.place == "halo" and {*axes[:1]} & {*SOURCES}:
            self._store_halo(store, text)
            return
        lanes = [self.lane(dim) for dim in axes]
        own = tuple(dim for dim in axes if self.lane(dim) not in NUMBERS)
        value = self.emitter.align(text, node.dims, own) if node.op != "const" else text
        opened = self._once(axes)
        if store.place == "rows":
            self._store_rows(store, value, lanes)
        else:
            place = self.memory.token_address if store.place == "token" else self.memory.block_address
            self.writer.line(f"tl.store({place(store.target, axes, lanes)}, {value}{self.masked(own)})")
        if opened:
            self.writer.pop()

    def _store_halo(self, store: Store, text: str) -> None:
        """Write the halo's part of a value of all rows that windows reach."""
        lanes = [self.lane(dim) for dim in store.axes]
        value = self.emitter.align(text, store.node.dims, store.axes)
        opened = self._once(store.axes)
        address = self.memory.block_address(store.target, store.buffer_axes, lanes)
        mask = self.mask(store.axes, "(reached < 0)")
        self.writer.line(f"tl.store({address}, {value}, mask={mask})")
        if opened:
            self.writer.pop()

    def _once(self, axes: tuple[str, ...]) -> bool:
        """Where programs share a block by tiles of V, only the first writes what has no V."""
        shared = self.emitter.kernel.values == "parallel" and "V" not in axes
        if shared:
            self.writer.push("if value_tile == 0:")
        return shared

    def _store_rows(self, store: Store, value: str, lanes: list[str]) -> None:
        address, mask = self.row_address(store.target, store.axes), self.row_mask(store.axes)
        if {*store.axes[:1]} & {*SOURCES}:
            mask = self.mask(store.axes, "(is_reached & (reached >= 0))")
        self.writer.line(f"tl.store({address}, {value}, mask={mask})")
        if store.window:
            lane = lanes[1] if len(lanes) > 1 else None
            self.memory.flag("RESUME")
            size = _width(store.axes)
            self.writer.push("if RESUME:")
            name = f"d_window_{store.target.removeprefix('d_')}"
            address = self.memory.window_address(name, lanes[0], lane, size)
            held = self.mask(store.axes, self._row_mask(store.axes[0], held=True))
            self.writer.line(f"tl.store({address}, {value}, mask={held})")
            self.writer.pop()
            self.memory.bases.discard(f"{name}_base")

    def store_by_age(self, store: Store) -> None:
        """Write a gradient [row, c] or [c] age by age: sums along the diagonals of matrices."""
        matrices = [n for n in self.emitter.nodes if n.op == "collect_age"]
        for node in matrices:
            self.emitter.operand(node.args[0])
        opened = self._once(store.axes)
        self.writer.push("for age in range(0, WINDOW):")
        value = self._at_age(store.node)
        if store.place == "rows":
            base = self.memory.rows_base(store.target)
            rows = store.axes[:1] if store.axes[0] in ROW_AXES else ()
            row = self.lane(rows[0]) if rows else "row"
            address = f"{base} + {row} * {store.target}_row + age"
            self.writer.line(f"tl.store({address}, {value}, mask={self.row_mask(rows)})")
        else:
            pointer = self.memory.argument(f"{store.target}_pointer", "blocks", store.target)
            self.writer.line(f"tl.store({pointer} + slot * WINDOW + age, {value})")
        self.writer.pop()
        if opened:
            self.writer.pop()

    def _at_age(self, node: Node) -> str:
        """The value of a gradient by age, for the loop's `age`."""
        emitter = self.emitter
        if node.op == "collect_age":
            (matrix,) = node.args
            row, column = node["row"], node["column"]
            rows = emitter.align(emitter.position(row), (row,), matrix.dims)
            columns = emitter.align(emitter.position(column), (column,), matrix.dims)
            text = f"tl.where({rows} - {columns} == age, {emitter.operand(matrix)}, 0.0)"
            return f"tl.sum({text}, {matrix.dims.index(column)})" if column in matrix.dims else text
        if "c" not in node.dims and node in emitter.text:
            return emitter.text[node]
        args = [self._at_age(a) if has_c(a) else emitter.operand(a) for a in node.args]
        if node.op == "sum":
            return f"tl.sum({args[0]}, 0)"
        return f"({OPERATORS[node.op].triton(node, args, emitter)})"


def _width(dims: tuple[str, ...]) -> str | None:
    """The extent of a row of a window tensor, None where a row is one number."""
    return extent_name(dims[1]) if dims[1:] and dims[1] in WIDE else None


def has_c(node: Node) -> bool:
    """True if the value has an entry per age."""
    return "c" in node.dims


def _place(node: Node) -> str:
    """The place of a piece's first row in the rule's own block."""
    return f"(position + start) % {node['every']}"

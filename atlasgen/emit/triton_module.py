"""Assemble emitted kernels into one readable Python module."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection
from dataclasses import dataclass, replace

from atlasgen.emit import channel_library, tile_library
from atlasgen.emit.axes import FEATURES, SOURCES
from atlasgen.emit.formatting import formatted
from atlasgen.emit.monomials import with_monomials
from atlasgen.emit.naming import LINE
from atlasgen.emit.plan import Kernel, Plan, Structure
from atlasgen.emit.planner import make_plan
from atlasgen.emit.triton_kernel import SOLVING, KernelEmitter
from atlasgen.emit.triton_memory import Argument
from atlasgen.ir.node import Node
from atlasgen.ir.program import Carry
from atlasgen.passes.unit_rows import unit_rows
from atlasgen.schedules.serve import Scheduled

GENERATOR = "1"
CONSTANTS = {
    "ROWS": "tokens per block",
    "HALO": "rows before a block that its windows reach",
    "SOURCES": "the halo's rows and the block's",
    "HELD": "rows that the state keeps of earlier calls",
    "WINDOW": "tokens per window",
}


@dataclass(frozen=True)
class EmittedKernel:
    """The text of a kernel and its parameters, in order; `flags` and `constants` are tl.constexpr."""

    kernel: Kernel
    text: str
    arguments: tuple[Argument, ...]
    flags: tuple[str, ...]
    constants: tuple[str, ...]


@dataclass(frozen=True)
class EmittedModule:
    """A module of kernels under one structure."""

    plan: Plan
    source: str
    kernels: dict[str, EmittedKernel]


class FunctionEmitter:
    """Writes the whole function of one kernel."""

    def __init__(self, scheduled: Scheduled, kernel: Kernel) -> None:
        self.scheduled, self.kernel = scheduled, kernel
        program, backward = scheduled.forward, scheduled.backward
        self.program = program
        self.unit = program.block == 1
        names = {**backward.names, **program.names}
        new = kernel.rewritten
        names |= {new[node]: name for node, name in names.items() if node in new}
        equations = program.equations | {
            new[node]: text for node, text in program.equations.items() if node in new
        }
        self.emitter = KernelEmitter(kernel, names, equations)
        self.emitter.systems = any(node.op in SOLVING for node in program.nodes())
        self.emitter.loads.windowed = frozenset(scheduled.windowed)
        for capture in () if kernel.backwards else program.captures:
            self.emitter.loads.streams.captured.setdefault(capture.carry, []).append(capture.name)
        self.writer, self.memory = self.emitter.writer, self.emitter.memory

    def emit(self) -> EmittedKernel:
        """The kernel's text."""
        self._preamble()
        if self.kernel.loop == "grid" or self.kernel.of_one_block:
            self._block_scalars()
            if self.kernel.loop == "row":
                self.writer.push("if (token >= first) & (token < last):")
            self.emitter.emit_block()
            if self.kernel.loop == "row":
                self.writer.pop()
        else:
            self._walk_blocks()
        body = self.writer.text()
        arguments = tuple(sorted(self.memory.arguments.values(), key=_argument_order))
        code = "\n".join(line.partition("#")[0] for line in body.splitlines())
        constants = tuple(sorted(set(re.findall(r"\b[A-Z][A-Z0-9_]*\b", code)) - set(self.memory.flags)))
        flags = tuple(sorted(self.memory.flags))
        text = self._signature(arguments, flags, constants) + self._documentation() + body
        return EmittedKernel(self.kernel, text, arguments, flags, constants)

    def _documentation(self) -> str:
        return f'    """{self.kernel.doc}"""\n'

    def _signature(
        self, arguments: tuple[Argument, ...], flags: tuple[str, ...], constants: tuple[str, ...]
    ) -> str:
        sizes = ("tokens", "heads", "blocks", *(["block"] if self.kernel.of_one_block else []))
        plain = ", ".join(f'"{name}"' for name in sizes if name != "heads")
        lines = [f"@triton.jit(do_not_specialize=[{plain}])", f"def {self.kernel.name}("]
        row = "   "
        plain = [argument.name for argument in arguments] + list(sizes)
        for name in plain:
            if len(row) + len(name) + 2 > LINE:
                lines.append(row)
                row = "   "
            row += f" {name},"
        lines.append(row)
        lines += [f"    {name}: tl.constexpr," for name in (*flags, *constants)]
        return "\n".join(lines) + "\n):\n"

    # -- program and axes ----------------------------------------------------------------------------
    def _preamble(self) -> None:
        write, values = self.writer.line, self.kernel.values
        write("program = tl.program_id(0)")
        if values == "parallel":
            write("value_tile = program % tl.cdiv(V, BLOCK_V)")
            write("program = program // tl.cdiv(V, BLOCK_V)")
        if self.kernel.loop == "row":
            write("token = program % ROWS")
            write("memory_index = tl.cast(program // ROWS, tl.int64)")
        elif self.kernel.loop == "grid":
            write("block = program % blocks")
            write("memory_index = tl.cast(program // blocks, tl.int64)")
        else:
            write("memory_index = tl.cast(program, tl.int64)")
        write("batch = memory_index // heads")
        write("head = memory_index % heads")
        write("row = 0  # the block's only one" if self.unit else "row = tl.arange(0, BLOCK_ROWS)")
        dims = self._dims()
        if "h" in dims:
            write("halo_row = tl.arange(0, BLOCK_HALO)")
            write("halo_row = tl.where(halo_row < HALO, halo_row - HALO, ROWS)  # negative: before the block")
        if dims & {*SOURCES}:
            write("reached = tl.arange(0, BLOCK_SOURCES) - HALO  # rows that windows reach")
        for dim in FEATURES[:-1]:  # V may be in tiles
            if dim in dims and dim != self.emitter.walked:
                self.emitter.lanes_of(dim)
        if "c" in dims:
            write("age_lane = tl.arange(0, BLOCK_AGES)")
        if values == "parallel":
            write("value = value_tile * BLOCK_V + tl.arange(0, BLOCK_V)")
            write("is_value = value < V")
        elif values == "whole":
            write("value = tl.arange(0, BLOCK_V)")
            write("is_value = value < V")
        self._sequence()

    def _dims(self) -> set[str]:
        dims = {dim for node in self.emitter.nodes for dim in node.dims}
        return dims | {dim for store in self.kernel.stores for dim in store.axes}

    def _sequence(self) -> None:
        """How many tokens this sequence has and where in its block the call begins."""
        write, memory = self.writer.line, self.memory
        memory.argument("length_pointer", "sequence", "length")
        memory.argument("position_pointer", "sequence", "position")
        memory.flag("HAS_LENGTH")
        memory.flag("RESUME")
        write("end = tl.load(length_pointer + batch) if HAS_LENGTH else tokens")
        write("position = tl.load(position_pointer + batch) if RESUME else 0")
        aligned = self.program.block is not None
        write("phase = position % ROWS" if aligned else "phase = 0")
        if self.program.window > 1:
            write("seen = tl.minimum(position, HELD)  # rows of the window that hold tokens")
        if self.program.captures and self.kernel.loop not in ("grid", "row"):
            write("# the block that is still open after the call")
            write("open_block = tl.cast((phase + end) // ROWS, tl.int64)")

    def _block_scalars(self) -> None:
        """Where this block lies in the sequence, and which of its rows hold tokens."""
        write, dims = self.writer.line, self._dims()
        if self.kernel.of_one_block and self.kernel.reverse:
            write("step = blocks - 1 - block")
        write("slot = memory_index * blocks + block")
        write("start = tl.cast(block, tl.int64) * ROWS - phase")
        write("first = tl.cast(tl.maximum(-start, 0), tl.int32)")
        write("last = tl.cast(tl.minimum(end - start, ROWS), tl.int32)")
        write("live = last > 0" if self.unit else "live = (row >= first) & (row < last)")
        held = bool(self.emitter.loads.windowed)
        if held and not self.unit:
            write("is_held = (row < first) & (row >= first - HELD)")
        if dims & {"h", *SOURCES}:
            write("earliest = tl.cast(tl.maximum(-start, -HALO), tl.int32)")
        if dims & {*SOURCES}:
            write("is_reached = (reached >= earliest) & (reached < last)")
            if held:
                write("is_held_reached = (reached < earliest) & (reached >= earliest - HELD)")
        if "h" in dims:
            write("is_halo = (halo_row >= earliest) & (halo_row < tl.minimum(last, 0))")
            if held:
                write("is_held_halo = (halo_row < earliest) & (halo_row >= earliest - HELD)")
        self.memory.bases.clear()
        for node in self.emitter.nodes:
            rows = node.op == "leaf" and node["kind"].removeprefix("row_") in ("token", "token_gradient")
            if rows and node not in self.kernel.loaded:
                self.memory.rows_base(node["name"])

    # -- the loop over blocks ------------------------------------------------------------------------
    def _walk_blocks(self) -> None:
        kernel, write = self.kernel, self.writer.line
        for node in self.emitter.nodes:
            same = node.op == "leaf" and node["kind"] in ("head", "invariant", "host")
            if same and not self.emitter.varies(node):
                self.emitter.operand(node)
        names = {carry: self._initial(carry) for carry in kernel.carries}
        sums = self._sums()
        parts = len(kernel.phases)
        if parts:
            # One part of one block a turn: between parts only buffers pass, no registers.
            self.writer.push(f"for turn in tl.range(0, blocks * {parts}, disable_licm=True):")
            write(f"step = turn // {parts}")
            write(f"part = turn % {parts}")
            write("block = blocks - 1 - step")
        elif kernel.loop == "forward":
            blocks = "tl.range(0, blocks, disable_licm=True)" if kernel.streams else "range(0, blocks)"
            self.writer.push(f"for block in {blocks}:")
        else:
            self.writer.push("for step in range(0, blocks):")
            write("block = blocks - 1 - step")
        self._block_scalars()
        for carry, name in names.items():
            self.emitter.text[carry.leaf] = name
            self._checkpoint(carry, name)
        if kernel.phases:
            self._phases()
        else:
            self.emitter.emit_block()
        self._capture()
        self._collect(sums)
        following = [self._next(carry) for carry in kernel.carries]
        following = self._before_assignment(list(names.values()), following)
        for name, value in zip(names.values(), following, strict=True):
            if name != value:
                write(f"{name} = {value}")
        if kernel.streams:
            write(f"tl.debug_barrier()  # the next {'turn' if parts else 'block'} reads what this one wrote")
        self.writer.pop()
        if names or sums:
            self._finish(names, sums)

    def _before_assignment(self, names: list[str], values: list[str]) -> list[str]:
        """The carries' next values; one that reads a carry assigned before it has a name of its own."""
        found = []
        for index, value in enumerate(values):
            if set(names[:index]) & set(re.findall(r"\w+", value)):
                name = self.emitter.namer.fresh(f"{names[index]}_after")
                self.writer.line(f"{name} = {value}")
                value = name
            found.append(value)
        return found

    def _phases(self) -> None:
        """The parts of one block; each may read what those before it wrote."""
        for number, phase in enumerate(self.kernel.phases):
            self.writer.push(f"if part == {number}:")
            self.emitter.of_phase(phase).emit_block()
            self.writer.pop()

    def _state(self, name: str, dims: tuple[str, ...], loaded: bool = False) -> tuple[str, str]:
        """The address of a state, and what masks a store to it or (loaded) a load of it."""
        loads = self.emitter.loads
        lanes = [loads.lane(dim) for dim in dims]
        return self.memory.state_address(name, dims, lanes), loads.masked(dims, loaded)

    def _initial(self, carry: Carry) -> str:
        """The carry before the first block of the loop."""
        reverse = self.kernel.loop == "reverse"
        name = self.emitter.namer.name(carry.leaf, carry.leaf["name"])
        flag = self.memory.flag("GRAD_FINAL" if reverse else "HAS_INITIAL")
        source = f"{carry.name}_final" if reverse else carry.name
        address, mask = self._state(source, carry.leaf.dims, True)
        self.writer.line(f"{name} = {self.emitter.zeros(carry.leaf.dims)}")
        self.writer.push(f"if {flag}:")
        if not (reverse and self._is_captured(carry.name.removeprefix("d_"))):
            self.writer.line(f"{name} += tl.load({address}{mask})")
        for capture in self.program.captures if reverse else ():
            if f"d_{capture.carry}" == carry.name:
                address, mask = self._state(f"d_{capture.name}_final", carry.leaf.dims, True)
                self.writer.push("if open_block >= blocks:")
                self.writer.line(f"{name} += tl.load({address}{mask})")
                self.writer.pop()
        self.writer.pop()
        return name

    def _is_captured(self, carry: str) -> bool:
        """True if the final value that callers see is a capture of the same name."""
        return any(capture.name == carry for capture in self.program.captures)

    def _checkpoint(self, carry: Carry, name: str) -> None:
        if not self.kernel.checkpoint:
            return
        reverse = self.kernel.loop == "reverse"
        buffer = f"{carry.leaf['name']}_blocks" if reverse else f"{carry.name}_blocks"
        loads, dims = self.emitter.loads, carry.leaf.dims
        address = self.memory.block_address(buffer, dims, [loads.lane(dim) for dim in dims])
        if not reverse:
            self.writer.push(f"if {self.memory.flag('SAVE')}:")
        opened = loads._once(dims)
        self.writer.line(f"tl.store({address}, {name}{loads.masked(dims)})")
        for _ in range(int(opened) + int(not reverse)):
            self.writer.pop()

    def _next(self, carry: Carry) -> str:
        if carry.next.op == "const":
            return self.emitter.zeros(carry.leaf.dims)
        text = self.emitter.operand(carry.next)
        return text

    def _capture(self) -> None:
        for name, node, _ in self.kernel.captures:
            text = self.emitter.operand(node)
            address, mask = self._state(f"{name}_final", node.dims)
            self.writer.push(f"if {self.memory.flag('STORE_FINAL')}:")
            self.writer.push("if block == open_block:")
            self.writer.line(f"tl.store({address}, {text}{mask})")
            self.writer.pop()
            self.writer.pop()

    # -- sums over blocks ----------------------------------------------------------------------------
    def _sums(self) -> dict[Node, str]:
        """Accumulators of gradients of what is the same in all blocks."""
        sums = {}
        for part in self.kernel.accumulate:
            if part.node.op != "when_start":
                name = self.emitter.namer.fresh(f"d_{part.tensor}")
                self.writer.line(f"{name} = {self.emitter.zeros(part.leaf.dims)}")
                sums[part.node] = name
        return sums

    def _collect(self, sums: dict[Node, str]) -> None:
        for part in self.kernel.accumulate:
            if part.node in sums:
                text = self.emitter.operand(part.node)
                text = self.emitter.align(text, part.node.dims, part.leaf.dims)
                self.writer.line(f"{sums[part.node]} += {text}")
                continue
            text = self.emitter.operand(part.node.args[0])
            address, mask = self._state(f"d_{part.tensor}", part.leaf.dims)
            self.writer.push(f"if {self.memory.flag('RESUME')}:")
            self.writer.push("if block == 0:")
            self.writer.line(f"tl.store({address}, {text}{mask})")
            self.writer.pop()
            self.writer.pop()

    def _finish(self, names: dict[Carry, str], sums: dict[Node, str]) -> None:
        reverse = self.kernel.loop == "reverse"
        flag = self.memory.flag("GRAD_INITIAL" if reverse else "STORE_FINAL")
        self.writer.push(f"if {flag}:")
        for carry, name in names.items():
            if not reverse and self._is_captured(carry.name):
                continue
            target = carry.name if reverse else f"{carry.name}_final"
            address, mask = self._state(target, carry.leaf.dims)
            opened = self.emitter.loads._once(carry.leaf.dims)
            self.writer.line(f"tl.store({address}, {name}{mask})")
            if opened:
                self.writer.pop()
        by_name = {carry.name: name for carry, name in names.items()}
        for name, node, carry in self.kernel.captures:
            address, mask = self._state(f"{name}_final", node.dims)
            self.writer.push("if open_block >= blocks:")
            self.writer.line(f"tl.store({address}, {by_name[carry]}{mask})")
            self.writer.pop()
        self.writer.pop()
        for part in self.kernel.accumulate:
            if part.node in sums:
                address, mask = self._state(f"d_{part.tensor}", part.leaf.dims)
                self.writer.line(f"tl.store({address}, {sums[part.node]}{mask})")


def _argument_order(argument: Argument) -> tuple[int, str]:
    order = {"stride": 1, "number": 2}
    return order.get(argument.kind, 0), argument.name


def for_kernels(scheduled: Scheduled) -> Scheduled:
    """The rule's programs as kernels compute them: polynomials expanded, a block's only row without axis."""
    scheduled = with_monomials(scheduled)
    forward, backward = unit_rows(scheduled.forward, scheduled.backward)
    return replace(scheduled, forward=forward, backward=backward)


def emit_module(scheduled: Scheduled, structure: Structure) -> EmittedModule:
    """All kernels of a rule under one structure, as one module's source."""
    scheduled = for_kernels(scheduled)
    plan = make_plan(scheduled.forward, scheduled.backward, structure)
    kernels = {kernel.name: FunctionEmitter(scheduled, kernel).emit() for kernel in plan.kernels}
    body = "\n\n".join(kernel.text for kernel in kernels.values())
    source = formatted(_header(scheduled, structure) + _helpers(body) + "\n\n" + body)
    return EmittedModule(plan, source, kernels)


def _header(scheduled: Scheduled, structure: Structure) -> str:
    rule = scheduled.rule
    return (
        f'"""Kernels of the memory rule {rule.name} ({structure.label}).\n\n'
        f"Rule {rule.hash}, schedule {scheduled.schedule}, generator {GENERATOR}. "
        "Written by `atlasgen build`; edit the spec, not this file.\n"
        '"""\n\nimport triton\nimport triton.language as tl\n'
    )


def _helpers(body: str) -> str:
    """The source of the helper functions that the kernels call, and of those that they call."""
    library = vars(tile_library) | vars(channel_library)
    functions = {name: getattr(function, "fn", None) for name, function in library.items()}
    sources = {name: inspect.getsource(own).rstrip() for name, own in functions.items() if own is not None}
    called, known = _calls(body, sources), set[str]()
    while called != known:
        known = called
        called = known | {name for caller in known for name in _calls(sources[caller], sources)}
    return "".join(f"\n\n{source}\n" for name, source in sources.items() if name in called)


def _calls(text: str, names: Collection[str]) -> set[str]:
    """Those of the named functions that a text calls."""
    return {name for name in names if re.search(rf"(?<![\w.]){name}\(", text)}

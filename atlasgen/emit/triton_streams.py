"""Stores of values that pass from block to block through memory, tile by tile.

Where a kernel walks an axis of the carries in tiles, they do not stay in registers: the buffer of the carries
at the blocks' starts is the stream. A block reads its own slot and writes its neighbour's; the last one
writes the final value, which callers see. The runtime fills the first slot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from atlasgen.emit.plan import Store

if TYPE_CHECKING:
    from atlasgen.emit.triton_loads import Loads


class Streams:
    """Stores of a sequential kernel; `captured`: by carry, the names of the final values it gives."""

    def __init__(self, loads: Loads) -> None:
        self.loads, self.memory, self.writer = loads, loads.memory, loads.writer
        self.reverse = loads.emitter.kernel.backwards
        self.captured: dict[str, list[str]] = {}
        self._guarded = False

    def store(self, store: Store, text: str) -> None:
        """Write a value to the place that its store names."""
        axes = store.axes
        value = self.loads.emitter.align(text, store.node.dims, axes) if store.node.dims else text
        {"next": self._next, "capture": self._capture, "start": self._start, "sum": self._sum}[store.place](
            store, value
        )

    def _state(self, name: str, axes: tuple[str, ...]) -> str:
        return self.memory.state_address(name, axes, [self.loads.lane(dim) for dim in axes])

    def _write(self, address: str, value: str, axes: tuple[str, ...], adds: bool = False) -> None:
        if adds:
            value = f"{value} + tl.load({address}{self.loads.masked(axes, True)})"
        self.writer.line(f"tl.store({address}, {value}{self.loads.masked(axes)})")

    def _next(self, store: Store, value: str) -> None:
        axes, write = store.axes, self.writer
        slot = "(slot - 1)" if self.reverse else "(slot + 1)"
        lanes = [self.loads.lane(dim) for dim in axes]
        value = self._named(value, axes)
        write.push("if block > 0:" if self.reverse else "if block + 1 < blocks:")
        self._write(self.memory.block_address(store.target, axes, lanes, slot), value, axes, store.adds)
        write.pop()
        names = self.captured.get(store.tensor, [])
        own = f"{store.tensor}" if self.reverse else f"{store.tensor}_final"
        write.push("else:")
        write.push(f"if {self.memory.flag('GRAD_INITIAL' if self.reverse else 'STORE_FINAL')}:")
        if f"{store.tensor}_final" not in [f"{name}_final" for name in names]:
            self._write(self._state(own, axes), value, axes, store.adds)
        for name in names:
            write.push("if open_block >= blocks:")
            self._write(self._state(f"{name}_final", axes), value, axes)
            write.pop()
        write.pop()
        write.pop()

    def _named(self, value: str, axes: tuple[str, ...]) -> str:
        """The value under a name: it is stored in one of several branches."""
        if value.isidentifier():
            return value
        return self.loads.emitter.assign_text(value if axes else f"0.0 + {value}", "following")

    def open_guard(self) -> None:
        """What follows runs in the block that stays open, where the call's final values are wanted."""
        self.writer.push(f"if {self.memory.flag('STORE_FINAL')}:")
        self.writer.push("if block == open_block:")
        self._guarded = True

    def close_guard(self) -> None:
        """The end of what `open_guard` began."""
        self.writer.pop()
        self.writer.pop()
        self._guarded = False

    def _capture(self, store: Store, value: str) -> None:
        inside = self._guarded
        if not inside:
            self.open_guard()
        self._write(self._state(store.target, store.axes), value, store.axes)
        if not inside:
            self.close_guard()

    def _start(self, store: Store, value: str) -> None:
        self.writer.push(f"if {self.memory.flag('RESUME')}:")
        self.writer.push("if block == 0:")
        self._write(self._state(store.target, store.axes), value, store.axes)
        self.writer.pop()
        self.writer.pop()

    def _sum(self, store: Store, value: str) -> None:
        axes = store.axes
        name = self.loads.emitter.namer.fresh(store.target)
        self.writer.line(f"{name} = {value}")
        address = self._state(store.target, axes)
        self.writer.push("if step > 0:")
        self.writer.line(f"{name} += tl.load({address}{self.loads.masked(axes, True)})")
        self.writer.pop()
        self._write(address, name, axes)

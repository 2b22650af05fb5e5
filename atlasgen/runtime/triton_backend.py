"""The Triton backend: runs a rule's launch plan on a GPU, or interpreted on a CPU."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from atlasgen.emit.axes import SOURCES, is_anchor
from atlasgen.emit.backward_plan import head_gradient
from atlasgen.emit.plan import SINGLE, Kernel
from atlasgen.emit.refusals import kernel_schedule, refuse_without_kernels
from atlasgen.emit.triton_module import for_kernels
from atlasgen.ir.node import ROWS, Node
from atlasgen.ir.program import Carry
from atlasgen.runtime import halo, interpreter, polynomial
from atlasgen.runtime.configuration import Configuration, choose, emitted_module
from atlasgen.runtime.executable import SavedShapes
from atlasgen.runtime.launch import CallSizes, Launcher, allocate, own_extents, padded
from atlasgen.runtime.rows import block_count
from atlasgen.schedules.serve import schedule
from atlasgen.spec.expression import evaluate_number
from atlasgen.spec.rule import MemoryRule
from atlasgen.spec.shapes import extent

DOT = {torch.float32: tl.float32, torch.bfloat16: tl.bfloat16, torch.float16: tl.float32}
# Products of float16 inputs run in tf32: the same mantissa, and states beyond 65504 stay finite.
PRECISION = {torch.float32: "ieee", torch.bfloat16: "ieee", torch.float16: "tf32"}


class TritonProgram:
    """Executable of one rule by emitted kernels.

    configuration: what to run; None looks it up for each kind of call (device, dtype, K, V). name: the
    schedule of the programs where there is no configuration, None: the first that serves the rule and has
    kernels.
    """

    def __init__(
        self, rule: MemoryRule, configuration: Configuration | None = None, name: str | None = None
    ) -> None:
        interpreter.install_shim()
        self.rule = rule
        if configuration is None:
            self.schedule = kernel_schedule(rule) if name is None else name
        else:
            self.schedule = configuration.structure.schedule
        self.scheduled = for_kernels(schedule(rule, self.schedule))
        self.program = self.scheduled.forward
        self.configuration = configuration
        self.windowed = self.scheduled.windowed
        self.inputs = self.scheduled.inputs
        self.outputs = self.scheduled.outputs
        self.chunk = self.scheduled.chunk
        refuse_without_kernels(self.program)
        self._launchers: dict[Configuration, Launcher] = {}

    def launcher(self, v: Tensor, key: int) -> Launcher:
        """The kernels for a call with values like `v` and keys of size `key`."""
        chosen = self.configuration
        if chosen is None:
            chosen = choose(self.rule, v.device, v.dtype, key, v.shape[-1], self.schedule)
        if chosen not in self._launchers:
            emitted = emitted_module(self.rule, chosen.structure)
            name = f"{self.rule.name}_{chosen.structure.label}"
            self._launchers[chosen] = Launcher(emitted, name, chosen.tiles)
        return self._launchers[chosen]

    def saved_shapes(self, sizes: dict[str, int]) -> SavedShapes:
        """Each carry at the start of each block."""
        aligned = bool(sizes["resume"]) and self.program.block is not None
        count = block_count(sizes["T"], self.chunk, aligned)
        table: SavedShapes = {}
        for carry in self.program.carries:
            own = tuple(self._length(dim, sizes) for dim in carry.leaf.dims)
            shape = (sizes["B"], sizes["H"], count, *own)
            table[f"{carry.name}_blocks"] = (shape, torch.float32)
        return table

    def _length(self, dim: str, sizes: dict[str, int]) -> int:
        return sizes[dim] if dim in sizes else extent(self.program.extents[dim]).value(sizes)

    def forward(
        self, tensors: Mapping[str, Tensor | None], save: bool
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Outputs (y in v's dtype, float32 states) and the carries at the start of each block."""
        call = Call(self, tensors)
        ragged = tensors.get("length") is not None
        v = call.v
        y = allocate(tuple(v.shape), v.dtype, v.device, ragged)
        call.tensors["y"] = y
        outputs = {"y": y}
        for name in self.outputs[1:]:
            dims = self._state_dims(name)
            outputs[name] = call.tensors[f"{name}_final"] = call.state(dims)
        keep = save or call.launcher.emitted.plan.structure.form in ("split", "token_grid")
        saved = call.checkpoints(self.program.carries) if keep else {}
        call.flags |= {"SAVE": keep, "STORE_FINAL": True}
        call.run(call.launcher.emitted.plan.forward)
        return outputs, saved if save else {}

    def _state_dims(self, name: str) -> tuple[str, ...]:
        found = {capture.name: capture.value.dims for capture in self.program.captures}
        return (found | {carry.name: carry.leaf.dims for carry in self.program.carries})[name]

    def backward(
        self,
        tensors: Mapping[str, Tensor | None],
        saved: Mapping[str, Tensor],
        gradients: Mapping[str, Tensor | None],
    ) -> dict[str, Tensor]:
        """Gradients by input name, each in its input's dtype."""
        call = Call(self, tensors)
        call.tensors.update(saved)
        finals = {name: gradients.get(name) for name in self.outputs[1:]}
        given = any(gradient is not None for gradient in finals.values())
        call.flags |= {"GRAD_FINAL": given, "GRAD_INITIAL": call.flags["HAS_INITIAL"]}
        for name, gradient in finals.items() if given else ():
            if gradient is None:
                gradient = torch.zeros(call.shape(self._state_dims(name)), device=call.v.device)
            call.tensors[f"d_{name}_final"] = gradient.contiguous()
        d_y = gradients.get("y")
        call.tensors["d_y"] = torch.zeros_like(call.v) if d_y is None else d_y
        found = call.gradient_buffers()
        call.run(call.launcher.emitted.plan.backward)
        call.add_halos(found)
        return call.collect(found)


class Call:
    """The named tensors, flags and sizes of one call of a program."""

    def __init__(self, owner: TritonProgram, tensors: Mapping[str, Tensor | None]) -> None:
        self.owner = owner
        self.tensors: dict[str, Any] = {k: t for k, t in tensors.items() if t is not None}
        self.given = tensors
        q, k, v = (self._contiguous_lanes(name) for name in ("q", "k", "v"))
        self.v = v
        if q.dtype not in DOT:
            raise TypeError(f"q has dtype {q.dtype}; the Triton backend takes {list(DOT)}")
        self.dot, self.precision = DOT[q.dtype], PRECISION[q.dtype]
        batch, tokens, heads, value = v.shape
        program = owner.program
        resume = tensors.get("position") is not None
        aligned = resume and program.block is not None
        count = block_count(tokens, owner.chunk, aligned)
        key = k.shape[-1]
        own = own_extents(owner.rule, program, key, value)
        self.sizes = CallSizes(
            batch,
            tokens,
            heads,
            key,
            value,
            owner.chunk,
            count,
            program.halo,
            program.window,
            tuple(own.items()),
        )
        self.extent = {"K": key, "V": value, "h": program.halo, "c": program.window, **own}
        self.extent |= dict.fromkeys("rjis", owner.chunk) | dict.fromkeys(SOURCES, owner.chunk + program.halo)
        initial = any(self.tensors.get(carry.name) is not None for carry in program.carries)
        self.flags = {
            "RESUME": resume,
            "HAS_INITIAL": initial,
            "HAS_LENGTH": tensors.get("length") is not None,
        }
        self._fill(initial, resume)
        self.launcher = owner.launcher(v, key)

    def _contiguous_lanes(self, name: str) -> Tensor:
        tensor = self.tensors[name]
        if tensor.stride(-1) != 1 or tensor.data_ptr() % 16:
            tensor = tensor.clone(memory_format=torch.contiguous_format)
            self.tensors[name] = tensor
        return tensor

    def _fill(self, initial: bool, resume: bool) -> None:
        """Zeros for states that one flag covers and the caller left out; scale and contiguous rest."""
        program = self.owner.program
        if initial:
            for carry in program.carries:
                if carry.name not in self.tensors:
                    self.tensors[carry.name] = self.state(carry.leaf.dims).zero_()
        for leaf in program.leaves("invariant"):
            if leaf["name"] not in self.tensors and (not is_anchor(leaf["name"]) or resume):
                self.tensors[leaf["name"]] = self.state(leaf.dims).zero_()
        for leaf in program.leaves("head"):
            if leaf["name"] not in self.tensors:  # an optional argument that was not given
                self.tensors[leaf["name"]] = self._default(leaf)
        for leaf in program.leaves("monomial"):
            self.tensors[leaf["name"]] = self._monomials(leaf)
        for name, tensor in self.tensors.items():
            if name not in ("q", "k", "v"):
                self.tensors[name] = tensor.contiguous()
        sizes = {"K": self.sizes.key, "F": self.sizes.key, "V": self.sizes.value, **dict(self.sizes.own)}
        for leaf in program.leaves("host"):
            expression = leaf.get("expression", self.owner.rule.read.scale)
            self.tensors[leaf["name"]] = evaluate_number(expression, sizes)

    def _default(self, leaf: Node) -> Tensor:
        """What an optional argument per head is where none is given: its `default`, in `row` by entry."""
        own = [self.sizes.rows if dim in ROWS else self.extent[dim] for dim in leaf.dims]
        if leaf.get("index") is not None:
            own = [self.sizes.rows]
        if not own or not (ROWS & set(leaf.dims) or leaf.get("index") is not None):
            value = evaluate_number(str(leaf["default"]), {"row": 0})
            return torch.full((self.sizes.heads, *own), value, device=self.v.device)
        entries = [evaluate_number(leaf["default"], {"row": row}) for row in range(own[0])]
        return torch.tensor(entries, device=self.v.device).expand(self.sizes.heads, -1)

    def _monomials(self, leaf: Node) -> Tensor:
        """A table [F] of the feature map: which entries make each monomial, or their orderings' roots."""
        form = (self.sizes.key, leaf["degrees"], leaf["basis"])
        if leaf.get("place") is not None:
            return polynomial.entry_codes(*form, leaf["place"], self.v.device)
        return polynomial.ordering_roots(*form, leaf["degree"], self.v.device)

    # -- buffers -------------------------------------------------------------------------------------
    def shape(self, dims: tuple[str, ...]) -> tuple[int, ...]:
        """[B, H, *dims]."""
        return (self.sizes.batch, self.sizes.heads, *(self.extent[dim] for dim in dims))

    def state(self, dims: tuple[str, ...]) -> Tensor:
        """An unwritten state [B, H, *dims], float32."""
        return allocate(self.shape(dims), torch.float32, self.v.device, False)

    def blocks(self, dims: tuple[str, ...], zero: bool = False) -> Tensor:
        """A buffer [B, H, N, *dims], float32; unwritten, or zero where only rows with tokens are written."""
        batch, heads, *own = self.shape(dims)
        shape = (batch, heads, self.sizes.blocks, *own)
        return allocate(shape, torch.float32, self.v.device, zero)

    def _per_row(self, dims: tuple[str, ...]) -> Tensor:
        """An unwritten scratch of one block [B, H, C, *dims], float32."""
        batch, heads, *own = self.shape(dims)
        return allocate((batch, heads, self.sizes.rows, *own), torch.float32, self.v.device, False)

    def checkpoints(self, carries: tuple[Carry, ...]) -> dict[str, Tensor]:
        """Buffers of the carries at the start of each block."""
        found = {f"{carry.name}_blocks": self.blocks(carry.leaf.dims) for carry in carries}
        self.tensors.update(found)
        return found

    def run(self, kernels: tuple[Kernel, ...]) -> None:
        """Launch kernels in order; scratch buffers live until the last one that reads them."""
        for of_one_block, group in groupby(kernels, key=lambda kernel: kernel.of_one_block):
            alike = list(group)
            for kernel in alike:
                self._scratch(kernel)
            blocks: list[int | None] = [*range(self.sizes.blocks)] if of_one_block else [None]
            if any(kernel.reverse for kernel in alike):
                blocks.reverse()
            for block in blocks:
                for kernel in alike:
                    self._launch(kernel, block)

    def _launch(self, kernel: Kernel, block: int | None) -> None:
        self.launcher.launch(
            kernel.name, self.tensors, self.flags, self.sizes, self.dot, self.precision, block
        )

    def _scratch(self, kernel: Kernel) -> None:
        for store in kernel.stores:
            if store.place in ("halo", "blocks") and store.target not in self.tensors:
                by_row = kernel.single_rows and SINGLE in store.axes
                self.tensors[store.target] = self.blocks(store.buffer_axes, by_row)
            elif store.place == "token":
                self.tensors[store.target] = self._per_row(store.axes)
        if kernel.checkpoint and kernel.loop == "reverse":
            for carry in kernel.carries:
                self.tensors[f"{carry.leaf['name']}_blocks"] = self.blocks(carry.leaf.dims)

        for carry in kernel.streams:
            name = carry.leaf["name"]
            if kernel.backwards:
                buffer = self.tensors[f"{name}_blocks"] = self.blocks(carry.leaf.dims)
                buffer[:, :, -1] = self._final_gradient(carry.name.removeprefix("d_"), carry.leaf.dims)
            else:
                initial = self.tensors.get(name) if self.flags["HAS_INITIAL"] else None
                self.tensors[f"{name}_blocks"][:, :, 0] = 0.0 if initial is None else initial

    def _final_gradient(self, name: str, dims: tuple[str, ...]) -> Tensor:
        """The gradient of a carry after the last block: of its final value, and of what it captures."""
        total = torch.zeros(self.shape(dims), device=self.v.device)
        if not self.flags["GRAD_FINAL"]:
            return total
        captures = self.owner.program.captures
        if all(capture.name != name for capture in captures):
            total += self.tensors[f"d_{name}_final"]
        for capture in captures:
            if capture.carry == name:
                inside = (self._open_block() < self.sizes.blocks).reshape(-1, *[1] * (total.ndim - 1))
                total += torch.where(inside, 0.0, self.tensors[f"d_{capture.name}_final"])
        return total

    def _open_block(self) -> Tensor:
        """int64 [B]: the block that is open after the call."""
        sizes, length, position = self.sizes, self.tensors.get("length"), self.tensors.get("position")
        total = torch.full((sizes.batch,), sizes.tokens, device=self.v.device) if length is None else length
        if position is not None and self.owner.program.block is not None:
            total = total + position % sizes.rows
        return total // sizes.rows

    # -- gradients -----------------------------------------------------------------------------------
    def gradient_buffers(self) -> dict[str, Tensor]:
        """Buffers of the gradients of all inputs, by input name; kernels fill them."""
        found: dict[str, Tensor] = {}
        resume, ragged = self.flags["RESUME"], self.flags["HAS_LENGTH"]
        backward = self.owner.scheduled.backward
        for part in backward.contributions:
            if part.leaf["kind"] != "token":
                continue
            found[part.tensor] = self._like(part.tensor, ragged)
            if resume and part.tensor in self.owner.windowed:
                found[f"window_{part.tensor}"] = self._like(f"window_{part.tensor}", True)
        for carry in self.owner.program.carries if self.flags["HAS_INITIAL"] else ():
            found[carry.name] = self.state(carry.leaf.dims)
        for part in backward.accumulate:
            if not is_anchor(part.tensor) or resume:
                found[part.tensor] = self.state(part.leaf.dims)
        self.tensors |= {f"d_{name}": tensor for name, tensor in found.items()}
        return found

    def _like(self, name: str, zero: bool) -> Tensor:
        like = self.tensors[name]
        return allocate(tuple(like.shape), like.dtype, like.device, zero)

    def add_halos(self, found: dict[str, Tensor]) -> None:
        """Add the gradients of halo rows to the rows they belong to."""
        if not self.sizes.halo:
            return
        parts = self.owner.scheduled.backward.contributions
        rows = [part for part in parts if part.leaf["kind"] == "token" and part.leaf["segment"] != "block"]
        for name in dict.fromkeys(part.tensor for part in rows):
            self._add_halo(name, found)

    def _add_halo(self, name: str, found: dict[str, Tensor]) -> None:
        sizes = self.sizes
        rows = found[name]
        size = rows.shape[-1] if rows.ndim == 4 else 1
        reach = -(-sizes.halo // sizes.rows)
        span = min(sizes.halo, sizes.rows)
        grid = sizes.batch * sizes.heads * (sizes.blocks - 1 + reach)
        kernel: Any = halo.add_halo
        kernel[(grid,)](
            self.tensors[f"d_{name}_halo"],
            rows,
            found.get(f"window_{name}"),
            self.tensors.get("length"),
            self.tensors.get("position"),
            sizes.tokens,
            sizes.heads,
            sizes.blocks,
            ALIGNED=self.owner.program.block is not None,
            RESUME=self.flags["RESUME"],
            HAS_LENGTH=self.flags["HAS_LENGTH"],
            ROWS=sizes.rows,
            HALO=sizes.halo,
            HELD=sizes.window - 1,
            SIZE=size,
            REACH=reach,
            SPAN=span,
            BLOCK_SPAN=triton.next_power_of_2(span),
            BLOCK_SIZE=padded(size),
        )

    def collect(self, found: dict[str, Tensor]) -> dict[str, Tensor]:
        """Sum what the kernels left per block, and keep what the caller can have gradients of."""
        given = {name: tensor for name, tensor in self.given.items() if tensor is not None}
        every = {**found, **self._over_blocks(given)}
        return {name: value.to(given[name].dtype) for name, value in every.items() if name in given}

    def _over_blocks(self, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Gradients of what is per head: sums over sequences and blocks of what the kernels left."""
        parts = self.owner.scheduled.backward.contributions
        per_head = [part.leaf for part in parts if part.leaf["kind"] in ("head", "position")]
        totals: dict[str, Tensor] = {}
        for buffer, leaf in {head_gradient(leaf): leaf for leaf in per_head}.items():
            name, column = leaf["name"], leaf.get("index")
            if name not in given:
                continue
            total = self.tensors[buffer].sum((0, 2))
            if column is None:
                totals[name] = totals.get(name, 0.0) + total.reshape(given[name].shape)
            else:
                table = torch.zeros(given[name].shape, device=total.device)
                table[:, column] = total
                totals[name] = totals.get(name, 0.0) + table
        return totals


def make_executable(rule: MemoryRule, name: str | None = None) -> TritonProgram:
    """The Triton executable of a rule by a schedule (None: the first that serves it).

    Raises CompileError where no schedule serves the rule, or no kernel computes a value of it.
    """
    return TritonProgram(rule, None, name)

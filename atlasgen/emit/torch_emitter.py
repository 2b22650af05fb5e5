"""Print a block program as a torch program: block-parallel parts batched, the loop only over the state.

Arrays carry leading axes [B, H, N] (N blocks) before a node's own axes. The program is cut at what depends
on the loop's carries: everything before is computed for all blocks at once, the loop computes the carries
(and keeps what the rest also needs), everything after is again computed for all blocks at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from atlasgen.emit.naming import INLINE, Namer, Writer, fallback, parenthesized, use_counts
from atlasgen.ir.node import Node, walk
from atlasgen.ir.operators import OPERATORS
from atlasgen.ir.operators.base import is_number
from atlasgen.ir.program import BackwardProgram, BlockProgram, Carry

RESERVED = (
    "torch",
    "blocks",
    "block",
    "rows",
    "halo",
    "window",
    "count",
    "resumed",
    "like",
    "row",
    "halo_row",
)
VARYING = (
    "token",
    "live",
    "exists",
    "token_gradient",
    "capture_gradient",
    "carry",
    "carry_gradient",
)


def leaf_name(leaf: Node) -> str:
    """The array that holds a leaf: rows of block and halo are different arrays."""
    return leaf["name"] + ("_halo" if leaf.get("segment") == "halo" else "")


@dataclass
class LoopText:
    """What one emitted function computes.

    sequential: carries in loop order. results: name -> node returned for all blocks. accumulated: name ->
    node summed over the blocks inside the loop. reverse: the loop's direction.
    """

    function: str
    doc: str
    sequential: tuple[Carry, ...]
    results: dict[str, Node]
    reverse: bool
    accumulated: dict[str, Node] = field(default_factory=dict)
    names: dict[Node, str] = field(default_factory=dict)
    equations: dict[Node, str] = field(default_factory=dict)


class TorchEmitter:
    """Emits one function of the program."""

    def __init__(self, loop: LoopText) -> None:
        self.loop = loop
        self.looped = [*(carry.next for carry in loop.sequential), *loop.accumulated.values()]
        self.roots = [*loop.results.values(), *self.looped]
        self.nodes = walk(self.roots)
        self.counts = use_counts(self.nodes, self.roots)
        self.leaves = [node for node in self.nodes if node.op == "leaf"]
        self.carried = {carry.leaf for carry in loop.sequential}
        self.dependent = self._dependent()
        self.inside = self._inside()
        self.boundary = {argument for node in self.inside for argument in node.args} - self.inside
        self.boundary |= set(self.looped) - self.inside
        self.varies = self._varies()
        self.arguments = list(dict.fromkeys(leaf_name(leaf) for leaf in self.leaves))
        self.namer = Namer(loop.names, [*RESERVED, *self.arguments])
        self.batch: dict[Node, str] = {leaf: leaf_name(leaf) for leaf in self.leaves}
        self.writer = Writer()

    def _dependent(self) -> set[Node]:
        found: set[Node] = set(self.carried)
        for node in self.nodes:
            if any(argument in found for argument in node.args):
                found.add(node)
        return found

    def _inside(self) -> set[Node]:
        """Nodes of the loop: what the carries need and depends on carries."""
        needed = walk(self.looped)
        return {node for node in needed if node in self.dependent and node not in self.carried}

    def _varies(self) -> set[Node]:
        found: set[Node] = set()
        for node in self.nodes:
            if (
                node.op == "leaf"
                and node["kind"] in VARYING
                or node.op == "mask"
                or any(argument in found for argument in node.args)
            ):
                found.add(node)
        return found

    def emit(self) -> str:
        """The function's source."""
        loop, writer = self.loop, self.writer
        keyword = "".join(f", {name}" for name in self.arguments)
        header = f"def {loop.function}(blocks, count, rows, halo, window, resumed{keyword}):"
        writer.indent = 0
        self._signature(header)
        writer.indent = 1
        writer.line(f'"""{loop.doc}"""')
        like = next(leaf_name(leaf) for leaf in self.leaves if leaf["kind"] in VARYING)
        writer.line(f"like = {like}")
        writer.line("row, halo_row = blocks.positions(rows, halo, like)")
        writer.line("block = None  # all blocks at once")
        before = [n for n in self.nodes if n not in self.dependent and self._needed_early(n)]
        self._statements(before, self.batch)
        if loop.sequential:
            self._loop()
        reached = walk(loop.results.values(), set(self.batch))
        rest = [n for n in reached if n not in self.batch]
        self._statements([n for n in rest if n.op != "leaf"], self.batch)
        entries = [f'"{name}": {self._value(node)}' for name, node in loop.results.items()]
        entries += [f'"{name}": {name}' for name in loop.accumulated]
        entries += [f'"{carry.name}": {leaf_name(carry.leaf)}_final' for carry in loop.sequential]
        entries += [f'"{carry.name}_blocks": {self.batch[carry.leaf]}' for carry in loop.sequential]
        writer.push("return {")
        for entry in entries:
            writer.line(entry + ",")
        writer.pop()
        writer.line("}")
        return writer.text()

    def _needed_early(self, node: Node) -> bool:
        return node.op != "leaf" and node in self._early

    @property
    def _early(self) -> set[Node]:
        if not hasattr(self, "_early_set"):
            self._early_set = set(walk(self.inside or self.roots))
        return self._early_set

    def _signature(self, header: str) -> None:
        if len(header) <= 96:
            self.writer.line(header)
            return
        opening, arguments = header[:-2].split("(", 1)
        self.writer.line(opening + "(")
        for argument in arguments.split(", "):
            self.writer.line(f"    {argument},")
        self.writer.line("):")

    def _value(self, node: Node) -> str:
        return repr(node["value"]) if node.op == "const" else self.batch[node]

    # -- statements ----------------------------------------------------------------------------------
    def _statements(self, nodes: list[Node], names: dict[Node, str]) -> None:
        pending: dict[Node, str] = {}
        for node in nodes:
            if node in names or node.op in ("leaf", "const"):
                continue
            text = self._text(node, names, pending)
            while len(text) > INLINE + 20 and any(argument in pending for argument in node.args):
                longest = max((a for a in node.args if a in pending), key=lambda a: len(pending[a]))
                self._assign(longest, pending.pop(longest), names)
                text = self._text(node, names, pending)
            if self._inline(node, text):
                pending[node] = text
            else:
                self._assign(node, text, names)

    def _text(self, node: Node, names: dict[Node, str], pending: dict[Node, str]) -> str:
        texts = [self._operand(argument, names, pending) for argument in node.args]
        return OPERATORS[node.op].torch(node, texts)

    def _inline(self, node: Node, text: str) -> bool:
        if node in self.loop.names or node.op in ("const", "dot", "decay") or node in self.roots:
            return False
        kept = node in self._outside or node in self.boundary
        return self.counts[node] == 1 and len(text) <= INLINE and not kept

    def _assign(self, node: Node, text: str, names: dict[Node, str]) -> None:
        known = self.writer.known(text)
        if known is not None:
            names[node] = known
            return
        equation = self.loop.equations.get(node)
        if equation:
            self.writer.comment(equation)
        names[node] = self.namer.name(node, fallback(node))
        self.writer.line(f"{names[node]} = {text}")
        self.writer.remember(text, names[node])

    def _operand(self, node: Node, names: dict[Node, str], pending: dict[Node, str]) -> str:
        if node.op == "const":
            return repr(node["value"])
        if node in pending:
            return parenthesized(pending[node])
        return names[node]

    # -- the loop ------------------------------------------------------------------------------------
    @property
    def _outside(self) -> set[Node]:
        """Nodes of the loop that are also needed outside it."""
        if not hasattr(self, "_outside_set"):
            stop = self.inside | self.carried
            # Only what the results reach without going through a node of the loop is outside.
            reached: set[Node] = set()
            stack = list(self.loop.results.values())
            while stack:
                node = stack.pop()
                if node in reached:
                    continue
                reached.add(node)
                if node not in stop or not self._is_product(node):
                    stack.extend(node.args)
            self._outside_set = {n for n in reached & self.inside if self._is_product(n)}
        return self._outside_set

    def _is_product(self, node: Node) -> bool:
        """True if computing a node of the loop again would repeat a matrix product."""
        return any(
            entry.op == "dot"
            for entry in walk([node], set(self.nodes) - self.inside)
            if entry in self.inside
        )

    def _loop(self) -> None:
        writer, loop = self.writer, self.loop
        kept = [node for node in self.nodes if node in self._outside]
        inner: dict[Node, str] = {}
        for carry in loop.sequential:
            writer.line(f"{leaf_name(carry.leaf)}_list = []")
        keeps = {
            node: self.namer.fresh(f"kept_{self.namer.preferred.get(node, 'value')}")
            for node in kept
        }
        for name in keeps.values():
            writer.line(f"{name} = []")
        for name in loop.accumulated:
            writer.line(f"{name} = 0.0")
        order = "reversed(range(count))" if loop.reverse else "range(count)"
        writer.push(f"for block in {order}:")
        for carry in loop.sequential:
            name = leaf_name(carry.leaf)
            writer.line(f"{name}_list.append({name})")
            inner[carry.leaf] = name
        ordered = [node for node in self.nodes if node in self.inside]
        for node in ordered:
            for argument in node.args:
                if argument not in self.inside and argument not in inner and argument.op != "const":
                    inner[argument] = self._slice(argument)
        self._statements(ordered, inner)
        for node, name in keeps.items():
            writer.line(f"{name}.append({inner[node]})")
        for carry in loop.sequential:
            if carry.next.op == "const":
                inner[carry.next] = f"torch.zeros_like({leaf_name(carry.leaf)})"
        for node in self.looped:
            if node not in inner:  # it does not depend on the loop: a slice
                inner[node] = self._slice(node)
        for name, node in loop.accumulated.items():
            writer.line(f"{name} = {name} + {inner[node]}")
        pairs = [(leaf_name(carry.leaf), inner[carry.next]) for carry in loop.sequential]
        left, right = zip(*pairs, strict=True)
        writer.line(f"{', '.join(left)} = {', '.join(right)}")
        writer.pop()
        writer.line("block = None")
        backwards = "[::-1]" if loop.reverse else ""
        for carry in loop.sequential:
            name = leaf_name(carry.leaf)
            writer.line(f"{name}_final = {name}")
            self.batch[carry.leaf] = f"{name}_blocks"
            writer.line(f"{name}_blocks = blocks.stack({name}_list{backwards}, {name})")
        for node, name in keeps.items():
            self.batch[node] = self.namer.name(node, f"{name}_all")
            writer.line(f"{self.batch[node]} = torch.stack({name}{backwards}, 2)")

    def _slice(self, node: Node) -> str:
        """The value of one block; what no block changes has one entry."""
        if is_number(node):
            return self._value(node)
        index = "block" if node in self.varies else "0"
        name = self.namer.fresh(f"{self.batch[node]}_n")
        self.writer.line(f"{name} = {self.batch[node]}[:, :, {index}]")
        return name


def forward_text(program: BlockProgram) -> str:
    """Source of `forward`: outputs, captures, final carries and the carries at each block's start."""
    captures = {f"{capture.name}_value": capture.value for capture in program.captures}
    loop = LoopText(
        "forward",
        "The loop over blocks, then the reads of all blocks.",
        program.carries,
        {**program.outputs, **captures},
        False,
        {},
        program.names,
        program.equations,
    )
    return TorchEmitter(loop).emit()


def backward_text(program: BackwardProgram) -> str:
    """Source of `backward`: contributions to each argument's gradient, by contribution index."""
    parts = {f"part_{index}": part.node for index, part in enumerate(program.contributions)}
    loop = LoopText(
        "backward",
        "The loop over blocks from the last to the first, then the gradients of all rows.",
        program.carries,
        parts,
        True,
        {f"sum_{index}": part.node for index, part in enumerate(program.accumulate)},
        {**program.names, **program.forward.names},
        program.forward.equations,
    )
    return TorchEmitter(loop).emit()

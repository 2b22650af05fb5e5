"""Print a block program as a torch program: block-parallel parts batched, the loop only over the state.

Arrays carry leading axes [B, H, N] (N blocks) before a node's own axes. The program is cut at what depends
on the loop's carries: everything before is computed for all blocks at once, the loop computes the carries
(and keeps what the rest also needs), everything after is again computed for all blocks at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from atlasgen.emit import torch_text
from atlasgen.emit.naming import INLINE, Namer, Writer, fallback, parenthesized, use_counts
from atlasgen.emit.torch_release import with_releases
from atlasgen.ir.node import Node, walk
from atlasgen.ir.operators import OPERATORS
from atlasgen.ir.operators.base import is_number, spread
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
ROWS = ("token", "token_gradient")  # leaves whose arrays have all of [B, H, N]
VARYING = (*ROWS, "live", "exists", "border", "capture_gradient", "carry", "carry_gradient")
SUFFIX = {"halo": "_halo", "sources": "_sources"}


def leaf_name(leaf: Node) -> str:
    """The array that holds a leaf: rows of the block, its halo and all its sources are different arrays."""
    index = leaf.get("index")
    column = "" if index is None else f"_{index}"
    axes = "_at_border" if leaf["kind"] == "border" and not leaf.dims else ""
    return leaf["name"] + SUFFIX.get(leaf.get("segment"), "") + column + axes


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
    saved: dict[Node, str] = field(default_factory=dict)  # values given, by argument name


class TorchEmitter:
    """Emits one function of the program."""

    def __init__(self, loop: LoopText) -> None:
        self.loop = loop
        self.looped = [*(carry.next for carry in loop.sequential), *loop.accumulated.values()]
        self.roots = [*loop.results.values(), *self.looped]
        self.saved = loop.saved
        self.nodes = walk(self.roots, set(self.saved))
        self.counts = use_counts([n for n in self.nodes if n not in self.saved], self.roots)
        self.leaves = [n for n in self.nodes if n.op == "leaf" and n not in self.saved]
        self.carried = {carry.leaf for carry in loop.sequential}
        self.leaves += [carry.leaf for carry in loop.sequential if carry.leaf not in self.leaves]
        self.dependent = self._reached(self.carried)
        self.inside = self._inside()
        self.boundary = {argument for node in self.inside for argument in node.args} - self.inside
        self.boundary |= set(self.looped) - self.inside
        self.complete = self._reached({n for n in self.leaves if self._is_complete(n)})
        self.fused = self._fused()
        self.overwritten = self._overwritten()
        self.absorbed = {product for products in self.fused.values() for product in products}
        given = dict.fromkeys(self.saved[node] for node in self.nodes if node in self.saved)
        self.arguments = list(dict.fromkeys([*map(leaf_name, self.leaves), *given]))
        self.namer = Namer(loop.names, [*RESERVED, *self.arguments])
        self.batch: dict[Node, str] = {leaf: leaf_name(leaf) for leaf in self.leaves}
        self.batch |= {node: self.saved[node] for node in self.nodes if node in self.saved}
        self.released: set[str] = set()
        self.writer = Writer()

    def _reached(self, start: set[Node]) -> set[Node]:
        """`start` and what depends on it."""
        found = start | (set(self.saved) if start is not self.carried else set())
        for node in self.nodes:
            if node not in self.saved and any(argument in found for argument in node.args):
                found.add(node)
        return found

    def _is_complete(self, leaf: Node) -> bool:
        return leaf["kind"] in (*ROWS, "carry", "carry_gradient")

    def _inside(self) -> set[Node]:
        """Nodes of the loop: what the carries need and depends on carries."""
        needed = walk(self.looped, set(self.saved))
        return {node for node in needed if node in self.dependent and node not in self.carried}

    def _fused(self) -> dict[Node, list[Node]]:
        """Matrix products by the sum that adds them: the product is added where it is computed."""
        found: dict[Node, list[Node]] = {}
        for node in self.nodes:
            if node.op != "add" or node in self.saved or len(node.dims) != 2:
                continue
            products = [a for a in node.args if self._can_be_absorbed(a, node)]
            others = [a for a in node.args if a not in products]
            if len(products) > 1 and not (others and self._has_memory_for_result(node, others)):
                others.append(products.pop(0))  # positive terms stand first
            if products and self._has_memory_for_result(node, others):
                found[node] = products
        return found

    def _can_be_absorbed(self, product: Node, total: Node) -> bool:
        return (
            torch_text.is_matrix_product(product)
            and product.dims == total.dims
            and product not in self.saved
            and self.counts[product] == 1
            and (product in self.inside) == (total in self.inside)
            and product not in self._outside | self.boundary
            and all(argument in self.complete for argument in product.args)
        )

    def _overwritten(self) -> set[Node]:
        """Values in whose memory a sum with products outside the loop is formed: nobody else reads them."""
        found = set()
        for total, products in self.fused.items():
            others = [argument for argument in total.args if argument not in products]
            if total not in self.inside and len(others) == 1:
                found.update(others)
        return found

    def _has_memory_for_result(self, total: Node, others: list[Node]) -> bool:
        """True if the other terms give an array of the result's shape (new memory outside the loop)."""
        if total in self.inside:
            return bool(others)
        complete = [o for o in others if o.dims == total.dims and o in self.complete]
        if len(others) > 1:
            return bool(complete)
        (base,) = others
        signs = dict(zip(total.args, total["signs"], strict=True))
        fresh = base.op in torch_text.NEW_MEMORY and base not in self.saved and self.counts[base] == 1
        kept = base in self.boundary or base in self._outside or base in self.inside
        return bool(complete) and fresh and not kept and signs[base] > 0

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
        writer.line(f"row, halo_row = blocks.positions(rows, halo, {self._merged()})")
        writer.line("block = None  # all blocks at once")
        before = [n for n in self.nodes if n not in self.dependent and self._needed_early(n)]
        self._statements(before, self.batch)
        if loop.sequential:
            self._loop()
        reached = walk(loop.results.values(), set(self.batch) | set(self.saved))
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
        return with_releases(writer.text(), self.released)

    def _merged(self) -> bool:
        return any(leaf.get("segment") == "sources" for leaf in self.leaves)

    def _needed_early(self, node: Node) -> bool:
        return node.op != "leaf" and node in self._early

    @property
    def _early(self) -> set[Node]:
        if not hasattr(self, "_early_set"):
            self._early_set = set(walk([*self.inside, *self.looped] or self.roots, set(self.saved)))
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
            if node in names or node.op in ("leaf", "const") or node in self.absorbed:
                continue
            text = self._text(node, names, pending)
            while len(text) > INLINE + 20 and any(a in pending for a in self._operands(node)):
                waiting = [argument for argument in self._operands(node) if argument in pending]
                longest = max(waiting, key=lambda a: len(pending[a]))
                self._assign(longest, pending.pop(longest), names)
                text = self._text(node, names, pending)
            if self._inline(node, text):
                pending[node] = text
            else:
                self._assign(node, text, names)

    def _operands(self, node: Node) -> list[Node]:
        """The arguments, those of products that the node adds in their place."""
        products = self.fused.get(node, [])
        plain = [argument for argument in node.args if argument not in products]
        return plain + [argument for product in products for argument in product.args]

    def _text(self, node: Node, names: dict[Node, str], pending: dict[Node, str]) -> str:
        def text(argument: Node) -> str:
            return self._operand(argument, names, pending)

        if node in self.fused:
            return self._sum_with_products(node, text)
        if node.op in torch_text.DECAYS:
            return torch_text.decay_text(node, self._running(node.args[0], text))
        if node.op in torch_text.CHANNELS:
            texts = [text(argument) for argument in node.args[:2]]
            return OPERATORS[node.op].torch(node, [*texts, self._running(node.args[2], text)])
        texts = [text(argument) for argument in node.args]
        if node.op == "mask":
            return torch_text.mask_text(node, texts[0])
        if node.op == "dot":
            wide = torch_text.uniform_product_text(node, texts)
            if wide is not None:
                return wide
        return OPERATORS[node.op].torch(node, texts)

    def _running(self, log: Node, text: Callable[[Node], str]) -> str:
        """The running sums of a log gate, computed once."""
        sums = f"blocks.running({torch_text.rows_last(log, text(log))})"
        known = self.writer.known(sums)
        if known is None:
            gate = next(node["name"] for node in walk([log]) if node.op == "leaf")
            known = self.namer.fresh(f"{gate}_sums")
            self.writer.line(f"{known} = {sums}")
            self.writer.remember(sums, known)
        return known

    def _sum_with_products(self, node: Node, text: Callable[[Node], str]) -> str:
        products = self.fused[node]
        signs = dict(zip(node.args, node["signs"], strict=True))
        terms = [(signs[a], spread(text(a), a, node.dims)) for a in node.args if a not in products]
        result, negated = torch_text.signed_sum(terms), False
        if node in self.inside and len(terms) == 1 and terms[0][0] < 0:
            result, negated = terms[0][1], True
        for product in products:
            left, right = torch_text.matrix_operands(product, [text(a) for a in product.args])
            if node in self.inside:
                scales = ", beta=-1" * negated + ", alpha=-1" * (signs[product] < 0)
                result, negated = f"torch.baddbmm({result}, {left}, {right}{scales})", False
            else:
                result = f"blocks.add_product({result}, {left}, {right}, {signs[product]})"
        return result

    def _inline(self, node: Node, text: str) -> bool:
        if node in self.loop.names or node.op in ("const", "dot", "decay") or node in self.roots:
            return False
        kept = node in self._outside or node in self.boundary
        return self.counts[node] == 1 and len(text) <= INLINE and not kept

    def _assign(self, node: Node, text: str, names: dict[Node, str]) -> None:
        known = self.writer.known(text)
        if known is not None and node not in self.overwritten:
            names[node] = known
            return
        equation = self.loop.equations.get(node)
        if equation:
            self.writer.comment(equation)
        names[node] = self.namer.name(node, fallback(node))
        if names is self.batch and len(node.dims) == 2 and not torch_text.is_uniform(node):
            self.released.add(names[node])
        self.writer.line(f"{names[node]} = {text}")
        if node not in self.overwritten:
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
        entries = walk([node], set(self.nodes) - self.inside)
        return any(entry.op in torch_text.PRODUCTS for entry in entries if entry in self.inside)

    def _loop(self) -> None:
        writer, loop = self.writer, self.loop
        kept = [node for node in self.nodes if node in self._outside]
        inner: dict[Node, str] = {}
        for carry in loop.sequential:
            name = leaf_name(carry.leaf)
            writer.line(f"{name}_like = {name}")
            writer.line(f"{name} = {name}.flatten(0, 1)")
            writer.line(f"{name}_list = []")
            self.released |= {f"{name}_list", f"{name}_blocks"}
        keeps = {node: self.namer.fresh(f"kept_{self.namer.preferred.get(node, 'value')}") for node in kept}
        for name in keeps.values():
            writer.line(f"{name} = []")
            self.released.add(name)
        for name in loop.accumulated:
            writer.line(f"{name} = 0.0")
        ordered = [node for node in self.nodes if node in self.inside]
        outer = {a for node in ordered for a in node.args if a not in self.inside}
        outer |= {node for node in self.looped if node not in self.inside}
        outer = [n for n in self.nodes if n in outer and n not in self.carried and n.op != "const"]
        sliced = [node for node in outer if not is_number(node) and not torch_text.is_uniform(node)]
        like = f"{leaf_name(loop.sequential[0].leaf)}_like"
        for node in sliced:
            name = self.batch[node]
            writer.line(f"{name}_each = blocks.each({name}, count, {like})")
            self.released |= {name, f"{name}_each"}
        order = "reversed(range(count))" if loop.reverse else "range(count)"
        writer.push(f"for block in {order}:")
        for carry in loop.sequential:
            name = leaf_name(carry.leaf)
            writer.line(f"{name}_list.append({name})")
            inner[carry.leaf] = name
        for node in outer:
            inner[node] = self._value(node)
        inner |= {node: f"{self.batch[node]}_each[block]" for node in sliced}
        self._statements(ordered, inner)
        for node, name in keeps.items():
            writer.line(f"{name}.append({inner[node]})")
        for carry in loop.sequential:
            if carry.next.op == "const":
                inner[carry.next] = f"torch.zeros_like({leaf_name(carry.leaf)})"
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
            writer.line(f"{name}_final = {name}.unflatten(0, {name}_like.shape[:2])")
            self.batch[carry.leaf] = f"{name}_blocks"
            writer.line(f"{name}_blocks = blocks.stack({name}_list{backwards}, {name}_like)")
        for node, name in keeps.items():
            self.batch[node] = self.namer.name(node, f"{name}_all")
            self.released.add(self.batch[node])
            writer.line(f"{self.batch[node]} = blocks.stack({name}{backwards}, {like})")


def forward_text(program: BlockProgram, saved: dict[Node, str] | None = None) -> str:
    """Source of `forward`: outputs, captures, final carries, the carries at each block's start.

    saved: values that are returned too, by name.
    """
    captures = {f"{capture.name}_value": capture.value for capture in program.captures}
    kept = {name: node for node, name in (saved or {}).items()}
    loop = LoopText(
        "forward",
        "The loop over blocks, then the reads of all blocks.",
        program.carries,
        {**program.outputs, **captures, **kept},
        False,
        {},
        program.names,
        program.equations,
    )
    return TorchEmitter(loop).emit()


def again_text(program: BlockProgram, saved: dict[Node, str]) -> str:
    """Source of `forward` that gives the values to save, by name, and the carries, but no outputs."""
    return forward_text(replace(program, outputs={}, captures=()), saved)


def advance_text(program: BlockProgram) -> str:
    """Source of `forward` that gives the carries alone."""
    return forward_text(replace(program, outputs={}, captures=()))


def backward_text(program: BackwardProgram, saved: dict[Node, str] | None = None) -> str:
    """Source of `backward`: contributions to each argument's gradient, by contribution index.

    saved: values of the forward that are given instead of computed again, by argument name.
    """
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
        saved or {},
    )
    return TorchEmitter(loop).emit()

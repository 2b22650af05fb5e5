"""Right-hand sides of an emitted torch program, where they are not the operator's own text.

Three forms depend on more than one operator: a product that is added to something (one call), a decay
(which shares the running sums of its log gate with other decays) and a mask (a multiplication by zeros and
ones that are kept from call to call).
"""

from __future__ import annotations

from collections.abc import Sequence

from atlasgen.emit.naming import parenthesized
from atlasgen.ir.node import EARLIER, Node
from atlasgen.ir.operators.base import spread

DECAYS = ("decay", "decay_from_start", "decay_to_end", "decay_whole")
CHANNELS = ("channel_scores", "channel_mix")
PRODUCTS = (  # operators that take as long as a matrix product
    "dot",
    "contract",
    "newton_schulz",
    "newton_schulz_gradient",
    "polynomial",
    "polynomial_gradient",
    "exact_errors",
    "exact_errors_gradient",
    *CHANNELS,
)
NEW_MEMORY = ("map", "dot")  # operators whose value is an array that nothing else holds


def is_matrix_product(node: Node) -> bool:
    """True for a sum over one axis of two matrices that share only that axis."""
    if node.op != "dot":
        return False
    left, right = node.args
    return len(left.dims) == len(right.dims) == 2 and set(left.dims) & set(right.dims) == {node["dim"]}


def matrix_operands(node: Node, texts: Sequence[str]) -> tuple[str, str]:
    """The two factors of a matrix product as the rows and columns of the result want them."""
    pairs = list(zip(texts, node.args, strict=True))
    if node.dims[0] not in node.args[0].dims:
        pairs.reverse()
    (left, first), (right, second) = pairs
    left = left if first.dims[1] == node["dim"] else f"{left}.mT"
    return left, right if second.dims[0] == node["dim"] else f"{right}.mT"


def positions(dim: str) -> str:
    """The emitted range of an axis' row positions."""
    return "halo_row" if dim in EARLIER else "row"


def mask_text(node: Node, argument: str) -> str:
    """The argument (an operand already) times the band of ones, or the band itself."""
    row, column = positions(node["row"]), positions(node["column"])
    band = f"blocks.band({row}, {column}, {node['low']}, {node['high']}, like)"
    band += ".mT" if node.dims[0] == node["column"] else ""
    value = node.args[0]
    if value.op == "const" and value["value"] == 1.0:
        return band
    return f"{spread(argument, value, node.dims)} * {band}"


def decay_text(node: Node, sums: str) -> str:
    """A product of decays from the running sums of its log gate."""
    exclusive = f", {node['exclusive']}" if node.op in ("decay", "decay_from_start") else ""
    text = f"blocks.{node.op}({sums}{exclusive})"
    transposed = node.op == "decay" and node.dims[0] != node["row"]
    by_channel = node.op != "decay" and len(node.dims) == 2
    return f"{text}.mT" if transposed or by_channel else text


def rows_last(log: Node, text: str) -> str:
    """A log gate with its axis of rows last, where it has one of channels beside it."""
    return f"{text}.mT" if len(log.dims) == 2 else text


def is_uniform(node: Node) -> bool:
    """True where the array has no axes but its own: a band of zeros and ones."""
    return node.op == "mask" and node.args[0].op == "const"


def uniform_product_text(node: Node, texts: Sequence[str]) -> str | None:
    """A vector of each block times one matrix for all blocks: a single wide product."""
    for index, matrix in enumerate(node.args):
        vector = node.args[1 - index]
        if is_uniform(matrix) and vector.dims == (node["dim"],):
            text = texts[index] if matrix.dims[0] == node["dim"] else f"{texts[index]}.mT"
            return f"torch.matmul({texts[1 - index]}, {text})"
    return None


def signed_sum(terms: Sequence[tuple[int, str]]) -> str:
    """The text of a sum of terms with signs."""
    text = "".join(f" {'+' if sign > 0 else '-'} {parenthesized(term)}" for sign, term in terms)
    return text[3:] if text.startswith(" + ") else "-" + text[3:]

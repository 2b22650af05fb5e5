"""The graph of a block program as SVG and as Mermaid text."""

from __future__ import annotations

from dataclasses import dataclass
from xml.sax.saxutils import escape

import networkx

from atlasgen.cli.facts import slices
from atlasgen.ir.node import Node
from atlasgen.ir.program import BlockProgram
from atlasgen.ir.text import ProgramText

COLOURS = {
    "argument": ("#e8eef7", "#4a6fa5"),
    "gates": ("#fdf1d6", "#b8860b"),
    "state": ("#fbe3e0", "#b5443a"),
    "output": ("#e3f3e6", "#3c8a50"),
}
LEGEND = {
    "argument": "argument or carry",
    "gates": "gates alone",
    "state": "sequential over blocks",
    "output": "parallel over blocks",
}
_BOX_HEIGHT, _ROW, _GAP, _CHARACTER = 40, 84, 18, 7.0


@dataclass
class Box:
    """One value's place in the drawing: centre, width, and its two lines of text."""

    node: Node
    title: str
    detail: str
    part: str
    x: float = 0.0
    y: float = 0.0

    @property
    def width(self) -> float:
        return max(len(self.title), len(self.detail)) * _CHARACTER + 20


def graph_of(program: BlockProgram) -> networkx.DiGraph:
    """The values of a program as a graph, edges from argument to user; numbers are left out."""
    graph = networkx.DiGraph()
    for node in ProgramText(program.roots(), program.names, program.equations).nodes:
        if node.op == "const":
            continue
        graph.add_node(node)
        graph.add_edges_from((argument, node) for argument in node.args if argument.op != "const")
    return graph


def boxes_of(program: BlockProgram) -> dict[Node, Box]:
    """Every value with its text, not yet placed."""
    text = ProgramText(program.roots(), program.names, program.equations)
    parts = slices(program)
    found = {}
    for node in text.nodes:
        if node.op == "const":
            continue
        name, axes = text.name(node), ", ".join(node.dims)
        if node.op == "leaf":
            found[node] = Box(node, f"{name} [{axes}]", node["kind"].replace("_", " "), "argument")
        else:
            value = text.value(node)
            value = value if len(value) <= 44 else value[:43] + "…"
            found[node] = Box(node, f"{name} [{axes}]", value, parts[node])
    return found


def svg(program: BlockProgram) -> str:
    """The program's graph as an SVG document: arguments at the top, results at the bottom."""
    graph, boxes = graph_of(program), boxes_of(program)
    width, height = _place(graph, boxes)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" font-family="monospace" font-size="11">',
        f"<title>{escape(program.name)}</title>",
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="6" markerHeight="6" '
        'orient="auto"><path d="M0 0L8 4L0 8z" fill="#777"/></marker></defs>',
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>',
        f'<text x="20" y="26" font-size="16" font-weight="bold">{escape(program.name)}: one block</text>',
    ]
    for index, (part, words) in enumerate(LEGEND.items()):
        fill, stroke = COLOURS[part]
        x = 20 + 190 * index
        lines.append(f'<rect x="{x}" y="38" width="14" height="14" rx="3" fill="{fill}" stroke="{stroke}"/>')
        lines.append(f'<text x="{x + 20}" y="49">{words}</text>')
    lines += [_edge(boxes[source], boxes[target]) for source, target in graph.edges]
    results = _results(program)
    lines += [_box(box, program.equations.get(node), results.get(node)) for node, box in boxes.items()]
    return "\n".join([*lines, "</svg>"]) + "\n"


def mermaid(program: BlockProgram) -> str:
    """The program's graph as the text of a Mermaid flowchart."""
    graph, boxes = graph_of(program), boxes_of(program)
    names = {node: f"n{index}" for index, node in enumerate(boxes)}
    lines = ["flowchart TD"]
    for node, box in boxes.items():
        text = f"{box.title}<br/>{box.detail}".replace('"', "'")
        shape = ('(["', '"])') if box.part == "argument" else ('["', '"]')
        lines.append(f"    {names[node]}{shape[0]}{_mermaid(text)}{shape[1]}:::{box.part}")
    lines += [f"    {names[source]} --> {names[target]}" for source, target in graph.edges]
    for node, result in _results(program).items():
        if node in names:
            lines.append(f'    {names[node]} ==> {names[node]}_out(("{result}"))')
    for part, (fill, stroke) in COLOURS.items():
        lines.append(f"    classDef {part} fill:{fill},stroke:{stroke}")
    return "\n".join(lines) + "\n"


def _mermaid(text: str) -> str:
    """Angle brackets would be read as tags, except those of the line break."""
    first, _, second = text.partition("<br/>")
    first, second = (part.replace("<", "&lt;").replace(">", "&gt;") for part in (first, second))
    return f"{first}<br/>{second}"


def _results(program: BlockProgram) -> dict[Node, str]:
    """What leaves the block, by value."""
    found = {carry.next: f"{carry.name} of the next block" for carry in program.carries}
    found.update({node: f"output {name}" for name, node in program.outputs.items()})
    return found


def _place(graph: networkx.DiGraph, boxes: dict[Node, Box]) -> tuple[float, float]:
    """Rows by topological layer, arguments beside their first user; order by the mean of neighbours."""
    layer = {node: index for index, row in enumerate(networkx.topological_generations(graph)) for node in row}
    for node in graph:
        if node.op == "leaf" and graph.out_degree(node):
            layer[node] = min(layer[user] for user in graph.successors(node)) - 1
    rows: list[list[Node]] = [[] for _ in range(max(layer.values(), default=0) + 1)]
    for node in boxes:
        rows[layer[node]].append(node)
    order = {node: float(index) for row in rows for index, node in enumerate(row)}
    for sweep in range(8):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            near = graph.predecessors if down else graph.successors
            means = {
                node: sum(order[other] for other in near(node)) / count
                if (count := len(list(near(node))))
                else order[node]
                for node in row
            }
            row.sort(key=means.__getitem__)
            spread = len(row) / 2
            order.update({node: index - spread for index, node in enumerate(row)})
    widest = max(sum(boxes[node].width + _GAP for node in row) for row in rows)
    width = max(widest + 40, 820)
    for index, row in enumerate(rows):
        x = (width - sum(boxes[node].width + _GAP for node in row)) / 2
        for node in row:
            boxes[node].x, boxes[node].y = x + boxes[node].width / 2, 96 + index * _ROW
            x += boxes[node].width + _GAP
    return width, 96 + len(rows) * _ROW


def _edge(source: Box, target: Box) -> str:
    top, bottom = source.y + _BOX_HEIGHT / 2, target.y - _BOX_HEIGHT / 2
    middle = (top + bottom) / 2
    path = f"M{source.x:.0f} {top:.0f}C{source.x:.0f} {middle:.0f} {target.x:.0f} {middle:.0f} "
    path += f"{target.x:.0f} {bottom:.0f}"
    return f'<path d="{path}" fill="none" stroke="#999" marker-end="url(#arrow)"/>'


def _box(box: Box, equation: str | None, result: str | None) -> str:
    fill, stroke = COLOURS[box.part]
    x, y = box.x - box.width / 2, box.y - _BOX_HEIGHT / 2
    weight = 2.5 if result else 1
    hover = "; ".join(part for part in (equation, result) if part)
    lines = [
        f"<g><title>{escape(hover or box.detail)}</title>",
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{box.width:.0f}" height="{_BOX_HEIGHT}" rx="6" '
        f'fill="{fill}" stroke="{stroke}" stroke-width="{weight}"/>',
        f'<text x="{box.x:.0f}" y="{box.y - 3:.0f}" text-anchor="middle" font-weight="bold">'
        f"{escape(box.title)}</text>",
        f'<text x="{box.x:.0f}" y="{box.y + 12:.0f}" text-anchor="middle" fill="#444">'
        f"{escape(box.detail)}</text></g>",
    ]
    return "".join(lines)

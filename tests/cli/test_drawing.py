"""Graphs: every value drawn once, nothing on top of anything else."""

import re
from xml.etree import ElementTree

import pytest

from atlasgen.cli.drawing import boxes_of, graph_of, mermaid, svg
from atlasgen.schedules.serve import schedule
from atlasgen.spec import load_rule, shipped_specs

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", shipped_specs())
def test_svg(name: str) -> None:
    program = schedule(load_rule(name)).forward
    drawing = ElementTree.fromstring(svg(program))
    boxes = [group.find(f"{SVG}rect") for group in drawing.iter(f"{SVG}g")]
    assert len(boxes) == len(boxes_of(program))
    edges = [path for path in drawing.iter(f"{SVG}path") if path.get("marker-end")]
    assert len(edges) == graph_of(program).number_of_edges()
    width = float(drawing.get("width", "0"))
    places = [
        tuple(float(box.get(key, "nan")) for key in ("y", "x", "width")) for box in boxes if box is not None
    ]
    rows: dict[float, list[tuple[float, float]]] = {}
    for y, x, size in places:
        assert x >= 0 and x + size <= width + 1
        rows.setdefault(y, []).append((x, x + size))
    for row in rows.values():
        row.sort()
        assert all(left[1] < right[0] for left, right in zip(row, row[1:]))


def test_arguments_stand_above_their_users() -> None:
    program = schedule(load_rule("omeganet_linear")).forward
    drawing = svg(program)
    found = {
        name: int(y)
        for y, name in re.findall(r'y="(\d+)" text-anchor="middle" font-weight="bold">([^<\[]+) \[', drawing)
    }
    assert found["predictions"] < found["errors"] < found["memory_next"]
    assert found["scores"] < found["attention"] < found["reads"]


@pytest.mark.parametrize("name", ["swla", "linear_attention"])
def test_mermaid(name: str) -> None:
    program = schedule(load_rule(name)).forward
    text = mermaid(program)
    assert text.startswith("flowchart TD\n")
    graph = graph_of(program)
    nodes = set(re.findall(r"^    (n\d+)[\[(]", text, re.MULTILINE))
    edges = re.findall(r"^    (n\d+) --> (n\d+)$", text, re.MULTILINE)
    assert len(nodes) == graph.number_of_nodes() and len(edges) == graph.number_of_edges()
    assert all(source in nodes and target in nodes for source, target in edges)
    assert "output y" in text and "memory of the next block" in text
    for line in text.splitlines():  # nothing that Mermaid would read as a tag but its line breaks
        assert "<" not in line.replace("<br/>", "")

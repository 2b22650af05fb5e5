"""Runs nodes through the emitted torch text, in float64, and differentiates by finite differences."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from atlasgen.emit.torch_emitter import LoopText, TorchEmitter, leaf_name
from atlasgen.ir import build
from atlasgen.ir.differentiate import NO_GRADIENT, backpropagate
from atlasgen.ir.node import Node, walk
from atlasgen.runtime import blocks

EXTENT = {"r": 4, "j": 4, "i": 4, "s": 4, "h": 3, "p": 7, "g": 7, "K": 5, "F": 21, "V": 2, "c": 4}
BATCH = (2, 1, 3)  # B, H and the number of blocks
HALO, WINDOW = EXTENT["h"], EXTENT["c"]
STEP = 1e-6

Arrays = dict[str, Tensor]


def token(name: str, dims: str, segment: str = "block") -> Node:
    """An argument with all axes of `dims`."""
    return build.leaf(name, dims, kind="token", segment=segment)


def array_of(leaf: Node, generator: torch.Generator, positive: bool = False) -> Tensor:
    """A random float64 array of a leaf; of whole numbers where it says which entries are meant."""
    if leaf["kind"] == "lane":
        return torch.arange(1, EXTENT[leaf.dims[0]] + 1)
    blocks_held = 1 if leaf["kind"] == "invariant" else BATCH[2]
    shape = (*BATCH[:2], blocks_held, *(EXTENT[dim] for dim in leaf.dims))
    if leaf["kind"] == "monomial":
        return torch.randint(-1, EXTENT["K"] + 1, shape, generator=generator)
    value = torch.randn(shape, generator=generator, dtype=torch.float64)
    return value.abs() + 0.1 if positive else value


def arrays_of(roots: list[Node], seed: int = 0, positive: bool = False) -> Arrays:
    """Random arrays of all leaves, by the emitted text's names."""
    generator = torch.Generator().manual_seed(seed)
    leaves = [node for node in walk(roots) if node.op == "leaf"]
    return {leaf_name(leaf): array_of(leaf, generator, positive) for leaf in leaves}


def compiled(source: str, name: str) -> Callable[..., dict[str, Any]]:
    """The function of that name in emitted source, called with what its signature asks for."""
    namespace: dict[str, Any] = {"torch": torch}
    exec(compile(source, "<emitted>", "exec"), namespace)
    function = namespace[name]
    frame = {
        "blocks": blocks,
        "count": BATCH[2],
        "rows": EXTENT["r"],
        "halo": HALO,
        "window": WINDOW,
        "resumed": True,
    }

    def call(arrays: Mapping[str, Tensor]) -> dict[str, Any]:
        known = {**frame, **arrays}
        wanted = inspect.signature(function).parameters
        given = {name: known[name] for name in wanted}
        return function(**{n: x.clone() if isinstance(x, Tensor) else x for n, x in given.items()})

    return call


def function_of(results: dict[str, Node]) -> Callable[[Mapping[str, Tensor]], dict[str, Any]]:
    """The emitted function of nodes that no loop separates."""
    # A program has an array to take its dtype from; a graph of bands alone has none.
    results = {**results, "unused": token("unused", "r")}
    function = compiled(TorchEmitter(LoopText("computed", "Nodes.", (), results, False)).emit(), "computed")
    unused = torch.zeros(*BATCH, EXTENT["r"], dtype=torch.float64)
    return lambda arrays: function({**arrays, "unused": unused})


def full(value: Any, node: Node, dims: tuple[str, ...] | None = None) -> Tensor:
    """A value with all of [B, H, N] and of `dims` (the node's own where None)."""
    dims = node.dims if dims is None else dims
    shape = (*BATCH, *(EXTENT[dim] for dim in dims))
    if not isinstance(value, Tensor):
        return torch.full(shape, float(value), dtype=torch.float64)
    for position, dim in enumerate(dims):
        if dim not in node.dims:
            value = value.unsqueeze(3 + position)
    return value.expand(shape)


def value_of(node: Node, arrays: Mapping[str, Tensor]) -> Tensor:
    """One node's value."""
    if node.op == "const":
        return full(node["value"], node)
    if node.op == "leaf":
        return arrays[leaf_name(node)]
    return full(function_of({"value": node})(arrays)["value"], node)


def check_derivatives(node: Node, arrays: Arrays, tolerance: float = 1e-6) -> None:
    """The node's derivative by its rules equals central differences, for each leaf that it reads."""
    seed = token("seed", "".join(node.dims))
    gradients = backpropagate({node: seed})
    generator = torch.Generator().manual_seed(99)
    cotangent = array_of(seed, generator)
    forward = function_of({"value": node})

    def loss(moved: Mapping[str, Tensor]) -> float:
        return float((full(forward(moved)["value"], node) * cotangent).sum())

    leaves: dict[str, list[Node]] = {}  # an argument may be read along several axes
    for entry in walk([node]):
        if entry.op == "leaf" and entry["kind"] not in NO_GRADIENT:
            leaves.setdefault(leaf_name(entry), []).append(entry)
    lanes = [entry for entry in walk(gradients.values()) if entry.op == "leaf" and entry["kind"] == "lane"]
    fixed = {leaf_name(lane): array_of(lane, generator) for lane in lanes}
    for name, readings in leaves.items():
        direction = torch.randn(arrays[name].shape, generator=generator, dtype=torch.float64)
        known, slope = {**arrays, **fixed, "seed": cotangent}, 0.0
        for leaf in readings:
            if leaf in gradients:
                value = full(value_of(gradients[leaf], known), gradients[leaf], leaf.dims)
                slope += float((value * direction).sum())
        up = loss({**arrays, name: arrays[name] + STEP * direction})
        down = loss({**arrays, name: arrays[name] - STEP * direction})
        expected = (up - down) / (2 * STEP)
        scale = max(1.0, abs(expected))
        assert abs(slope - expected) <= tolerance * scale, f"d {node} / d {name}: {slope}, not {expected}"

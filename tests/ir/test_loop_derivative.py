"""The reversed loop over blocks equals float64 finite differences, for random programs and rules."""

from __future__ import annotations

import random

import pytest
from torch import Tensor

from atlasgen.emit.torch_emitter import backward_text, forward_text, leaf_name
from atlasgen.ir import build
from atlasgen.ir.differentiate import differentiate
from atlasgen.ir.node import Node
from atlasgen.ir.program import BlockProgram, Carry
from atlasgen.ir.scalar import placeholder
from atlasgen.runtime.carries import carry_name
from atlasgen.runtime.torch_backend import make_executable
from atlasgen.spec import load_rule, rule_from_table, shipped_specs
from atlasgen.spec.expression import sigmoid
from atlasgen.spec.micro_steps import of_rows
from tests.ir.evaluate import BATCH, EXTENT, STEP, compiled, full, token
from tests.rules.compare import Numbers, Shape, make_case
from tests.rules.strategies import drawn_calls, table_of

x0, x1 = placeholder(0), placeholder(1)


class RandomBody:
    """Random nodes of given axes over tokens q, k, v, gates g, w and the carries M and z."""

    def __init__(self, seed: int) -> None:
        self.numbers = random.Random(seed)
        self.memory = build.leaf("memory", "KV", kind="carry")
        self.sums = build.leaf("sums", "K", kind="carry")
        self.origin = build.leaf("origin", "KV", kind="invariant")

    def node(self, dims: str, depth: int) -> Node:
        leaves = {
            "rK": [token("q", "rK")],
            "sK": [token("k", "sK")],
            "sV": [token("v", "sV")],
            "KV": [self.memory, self.origin],
            "K": [self.sums],
            "s": [token("w", "s"), build.decay_to_end(token("g", "s"), "s")],
            "r": [token("w", "r"), build.decay_from_start(token("g", "r"), "r")],
            "rs": [build.decay(token("g", "s"), "r", "s")],
            "rV": [token("u", "rV")],
        }
        products = {
            "rK": ["s"],
            "sV": ["K"],
            "rV": ["K", "s"],
            "KV": ["s"],
            "rs": ["K"],
            "sK": ["V"],
        }
        kinds = ["leaf"] if depth == 0 else ["map", "add", "weigh", *["dot"] * 4 * (dims in products)]
        kind = self.numbers.choice(kinds)
        if kind == "dot":
            dim = self.numbers.choice(products[dims])
            left, right = (self._sorted(dims[0] + dim), self._sorted(dim + dims[1]))
            node = build.dot(self.node(left, depth - 1), self.node(right, depth - 1), dim)
            return build.mask(node, "r", "s", 0, 2) if dims == "rs" else node
        if kind == "map":
            return build.map_(sigmoid(x0) - 0.3 * x0 * x1, self.node(dims, depth - 1), self.node(dims, 0))
        if kind == "weigh":
            return (
                build.mul(self.node(dims[0], 0), self.node(dims, depth - 1))
                if dims[0] in "rs"
                else (build.neg(self.node(dims, depth - 1)))
            )
        if kind == "add":
            return build.add(self.node(dims, depth - 1), (-1, self.node(dims, 0)))
        return self.numbers.choice(leaves[dims])

    def _sorted(self, dims: str) -> str:
        return "".join(sorted(dims, key="rjihsKVc".index))

    def program(self) -> BlockProgram:
        kept = build.mul(build.const(0.8), self.memory)
        written = build.add(kept, build.mul(build.const(0.1), self.node("KV", 3)))
        summed = build.add(build.mul(build.const(0.5), self.sums), build.sum_(self.node("sK", 1), "s"))
        y = build.add(self.node("rV", 3), build.dot(token("q", "rK"), build.mul(self.memory, self.sums), "K"))
        carries = (Carry("memory", self.memory, written), Carry("sums", self.sums, summed))
        return BlockProgram("random", {"y": y}, carries, (), 1, 0, None)


def _initial(program: BlockProgram, numbers: Numbers) -> dict[str, Tensor]:
    """Random arrays of all leaves: carries and invariants by sequence and head, the rest by block."""
    arrays = {}
    for leaf in program.leaves():
        own = [EXTENT[dim] for dim in leaf.dims]
        lead = {"carry": BATCH[:2], "invariant": (*BATCH[:2], 1)}.get(leaf["kind"], BATCH)
        arrays[leaf_name(leaf)] = 0.5 * numbers.normal(*lead, *own)
        if leaf["name"] == "g":
            arrays["g"] = -arrays["g"].abs()
    return arrays


@pytest.mark.parametrize("seed", range(24))
def test_random_programs(seed):
    program = RandomBody(seed).program()
    backward = differentiate(program)
    numbers = Numbers(seed)
    arrays = _initial(program, numbers)
    forward, reverse = (
        compiled(forward_text(program), "forward"),
        compiled(backward_text(backward), "backward"),
    )
    finals = {carry.name: carry.leaf for carry in program.carries}
    shapes = {"y": (*BATCH, EXTENT["r"], EXTENT["V"])}
    shapes |= {name: (*BATCH[:2], *(EXTENT[d] for d in leaf.dims)) for name, leaf in finals.items()}
    cotangents = {name: numbers.normal(*shape) for name, shape in shapes.items()}

    def loss(moved: dict[str, Tensor]) -> float:
        result = forward(moved)
        total = (full(result["y"], program.outputs["y"], ("r", "V")) * cotangents["y"]).sum()
        return float(total + sum((result[name] * cotangents[name]).sum() for name in finals))

    result = forward(arrays)
    given = {**arrays, **{name: result[f"{name}_blocks"] for name in finals}, "d_y": cotangents["y"]}
    given |= {carry.leaf["name"]: cotangents[carry.leaf["carry"]] for carry in backward.carries}
    found = reverse(given)
    slopes = {carry.leaf["carry"]: found[carry.name] for carry in backward.carries}
    pieces: dict[str, list[Tensor]] = {}
    for index, part in enumerate(backward.contributions):
        pieces.setdefault(part.tensor, []).append(full(found[f"part_{index}"], part.node, part.leaf.dims))
    for index, part in enumerate(backward.accumulate):
        pieces.setdefault(part.tensor, []).append(found[f"sum_{index}"])
    slopes |= {name: sum(parts[1:], parts[0]) for name, parts in pieces.items()}
    for name, value in arrays.items():
        direction = numbers.normal(*value.shape)
        up = loss({**arrays, name: value + STEP * direction})
        down = loss({**arrays, name: value - STEP * direction})
        expected = (up - down) / (2 * STEP)
        slope = slopes.get(name)
        if isinstance(slope, Tensor) and name == "origin":
            slope = slope.reshape(direction.shape)
        product = float((slope * direction).sum()) if isinstance(slope, Tensor) else 0.0
        assert product == pytest.approx(expected, rel=1e-5, abs=1e-6), name


def _check_rule(rule, shape: Shape, seed: int, start: str) -> None:
    """The backward of a rule's torch program in float64, along a random direction of each input."""
    case = make_case(rule, shape, seed=seed, start=start)
    program, numbers = make_executable(rule), Numbers(seed + 1, rule)
    tensors: dict[str, Tensor | None] = dict.fromkeys(program.inputs)
    for name, value in {**case.arguments, **case.state}.items():
        initial = name.startswith("initial_memory")
        own = carry_name(name.replace("initial_memory", "memory")) if "." in name or initial else name
        if own in tensors:
            tensors[own] = (value.expand(shape.B, *value.shape) if initial else value).contiguous()
    if "log_alpha" in tensors and tensors["log_alpha"] is None:
        tensors["log_alpha"] = -0.1 - numbers.uniform(shape.H)  # an expression in `head`
    if case.position is not None:
        tensors["position"] = case.position
    outputs, saved = program.forward(tensors, True)
    cotangents = {name: numbers.normal(*value.shape) for name, value in outputs.items()}

    def loss(moved: dict[str, Tensor | None]) -> float:
        found, _ = program.forward(moved, False)
        return float(sum((found[name] * cotangents[name]).sum() for name in cotangents))

    gradients = program.backward(tensors, saved, cotangents)
    for name, value in tensors.items():
        if value is None or not value.is_floating_point() or not value.numel():
            continue
        direction = numbers.normal(*value.shape)
        up, down = (loss({**tensors, name: value + sign * STEP * direction}) for sign in (1, -1))
        expected = (up - down) / (2 * STEP)
        slope = float((gradients[name] * direction).sum()) if name in gradients else 0.0
        assert slope == pytest.approx(expected, rel=1e-4, abs=1e-5), (name, rule.canonical())


@pytest.mark.parametrize("name", sorted(shipped_specs()))
@pytest.mark.parametrize("start", ["fresh", "state"])
def test_shipped_rules(name, start):
    """Programs are those of rules of rows, where tokens take several micro-steps."""
    _check_rule(of_rows(load_rule(name)), Shape(B=2, T=70, H=2, K=4, V=3), 3, start)


@pytest.mark.parametrize("chunk", range(2))
def test_random_rules(chunk):
    for drawn in drawn_calls(300, 65)[chunk:80:2]:
        if drawn.fields["window"] == "beyond" or not drawn.T:
            continue
        shape = Shape(B=drawn.B, T=drawn.T, H=drawn.H, K=drawn.K, V=drawn.V)
        _check_rule(rule_from_table(table_of(drawn.fields)), shape, drawn.seed, drawn.start)

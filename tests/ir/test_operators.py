"""Every operator of the block program: all rules are there, each means what it says, each derivative
equals finite differences in float64."""

from __future__ import annotations

import math

import pytest
import sympy
import torch

from atlasgen.emit.axes import WALKS
from atlasgen.ir import build
from atlasgen.ir.differentiate import backpropagate, row_function
from atlasgen.ir.node import Node, walk
from atlasgen.ir.operators import OPERATORS, Operator
from atlasgen.ir.printing import TorchPrinter, TritonPrinter
from atlasgen.ir.scalar import inverse_root, placeholder, power, root, signed_power
from atlasgen.spec.expression import gelu, gelu_slope, logcosh, sigmoid, softplus
from tests.ir.evaluate import (
    BATCH,
    EXTENT,
    array_of,
    arrays_of,
    check_derivatives,
    token,
    value_of,
)

x0, x1 = placeholder(0), placeholder(1)

# Scalar functions by the name under which printers know them, at arguments where they are smooth.
FUNCTIONS: dict[str, sympy.Expr] = {
    "exp": sympy.exp(x0 / 2),
    "log": sympy.log(1 + x0**2),
    "sqrt": sympy.sqrt(1 + x0**2),
    "rsqrt": (1 + x0**2) ** -sympy.S.Half,
    "pow": (1 + x0**2) ** sympy.Rational(5, 4),
    "tanh": sympy.tanh(x0),
    "sin": sympy.sin(x0),
    "cos": sympy.cos(x0),
    "sinh": sympy.sinh(x0),
    "cosh": sympy.cosh(x0),
    "erf": sympy.erf(x0),
    "Abs": sympy.Abs(x0) * x0,
    "sign": sympy.sign(x0) * x0**2,
    "root": root(x0**2 + x1**2),
    "inverse_root": x1 * inverse_root(1 + x0**2),
    "sigmoid": sigmoid(x0),
    "softplus": softplus(x0),
    "gelu": gelu(x0),
    "gelu_slope": gelu_slope(x0),
    "logcosh": logcosh(x0),
    "power": power(x0, sympy.Rational(5, 2)),
    "signed_power": signed_power(x0, sympy.Rational(3, 2)),
    "maximum": sympy.Max(x0, x1, 0),
    "minimum": sympy.Min(x0, x1),
    "where": sympy.Piecewise((x0**2, x0 > x1), (x0 * x1 - 1, True)),
    "division": x0 / (1 + x1**2) - 2 / (3 + x0**2) ** 3,
    "condition": sympy.Piecewise(
        (x0, sympy.And(x0 > -1, sympy.Not(x1 > 1))), (0, sympy.Or(x0 > 2, x1 < 0)), (x1, True)
    ),
}  # fmt: skip

a, b, c = token("a", "rK"), token("b", "K"), token("c", "r")
x, y = token("x", "sK"), token("y", "sV")
matrix, memory = token("matrix", "rs"), token("memory", "KV")
gate, last = token("gate", "j"), token("last", "s")
by_row, by_age = token("by_row", "ic"), token("by_age", "c")
halo_matrix = token("halo_matrix", "rh")

CASES: dict[str, Node] = {
    **{f"map {name}": build.map_(expression, a, b) for name, expression in FUNCTIONS.items()},
    "add": build.add((1, a), (-1, b), (1, c), (-1, build.const(2.0))),
    "softmax": build.softmax(a, "K"),
    "dot rows": build.dot(a, x, "K"),
    "dot rows transposed": build.dot(x, a, "K"),
    "dot sources": build.dot(matrix, y, "s"),
    "dot outer": build.dot(build.mul(c, a), token("z", "rV"), "r"),
    "dot memory": build.dot(a, memory, "K"),
    "dot vectors": build.dot(c, token("d", "r"), "r"),
    "dot vector and matrix": build.dot(token("weight", "s"), x, "s"),
    "dot batch": build.dot(a, token("e", "rK"), "K"),
    "sum": build.sum_(build.mul(a, b), "K"),
    "sum rows": build.sum_(a, "r"),
    "mask band": build.mask(matrix, "r", "s", 0, 2),
    "mask lower": build.mask(matrix, "r", "s", 1, None),
    "mask of a vector": build.mask(c, "r", "s", 0, 0),
    "mask halo": build.mask(halo_matrix, "r", "h", None, 3),
    "mask reversed": build.mask(matrix, "s", "r", 0, 1),
    "expand_age": build.expand_age(by_row, "i", "s"),
    "expand_age halo": build.expand_age(by_row, "i", "h"),
    "expand_age position": build.expand_age(by_age, "i", "s"),
    "collect_age": build.collect_age(token("pairs", "is"), "i", "s"),
    "collect_age halo": build.collect_age(token("pairs_before", "ih"), "i", "h"),
    "cumsum": build.cumsum(a, "r"),
    "cumsum exclusive": build.cumsum(a, "r", exclusive=True),
    "cumsum reverse": build.cumsum(matrix, "s", reverse=True),
    "cumsum reverse exclusive": build.cumsum(matrix, "s", reverse=True, exclusive=True),
    "decay": build.decay(gate, "r", "j"),
    "decay exclusive": build.decay(gate, "r", "j", exclusive=True),
    "decay transposed": build.decay(last, "j", "s"),
    "decay rows last": build.decay(token("first", "r"), "s", "r"),
    "decay_from_start": build.decay_from_start(gate, "j"),
    "decay_from_start exclusive": build.decay_from_start(gate, "j", exclusive=True),
    "decay_to_end": build.decay_to_end(gate, "j"),
    "decay_whole": build.decay_whole(gate, "j"),
    "at_start": build.at_start(build.leaf("initial", "KV", kind="invariant"), memory),
    "when_start first": Node("when_start", (memory,), memory.dims, first=True),
    "when_start rest": Node("when_start", (memory,), memory.dims, first=False),
}
CASES["rename"] = build.rename(x, {"s": "r"})

# Matrices of each row, and polynomial features of degrees 0, 1 and 2: 1 + 5 + 15 of five entries.
matrices, features = token("matrices", "rKV"), token("features", "rF")
TRIPLES = ((3.4445, -4.7750, 2.0315), (1.5, -0.5, 0.0))
degrees = (build.const(1.0), build.leaf("coefficient", "", kind="token", segment="block"), build.const(0.5))
phi = build.polynomial(a, degrees, (0, 1, 2), "symmetric")
CASES |= {
    "contract": build.contract(build.mul(matrix, x), build.mul(matrix, y), "rs"),
    "contract rows": build.contract(matrices, build.mul(a, token("e2", "rV")), "KV"),
    "dot matrices of rows": build.dot(a, matrices, "K"),
    "dot to matrices of rows": build.dot(build.mul(matrix, x), y, "s"),
    "newton_schulz": build.newton_schulz(matrices, "K", "V", TRIPLES, False),
    "newton_schulz one matrix": build.newton_schulz(memory, "K", "V", TRIPLES, False),
    "unit_inverse": build.unit_inverse(build.mask(matrix, "r", "s", 1, None), "r", "s"),
    "polynomial": phi,
    "take": build.take(a, build.leaf("codes", "F", kind="monomial", place=0)),
}
# Its derivative takes the narrow factors of a product over values.
CASES["unit_inverse of a solution"] = build.dot(CASES["unit_inverse"], build.rename(y, {"s": "r"}), "r")
slope, given_rows = token("slope", "rV"), token("given_rows", "rV")
lower = build.mask(matrix, "r", "s", 1, None)
CASES["unit_solve"] = build.unit_solve(lower, slope, given_rows, "r", "s")
CASES["unit_solve adjoint"] = build.unit_solve(lower, slope, y, "r", "s", adjoint=True)
logs = token("logs", "jK")
BETWEEN = {"row": "r", "column": "s", "axis": "K"}
for name, exclusive in (("", False), (" exclusive", True)):
    CASES[f"channel_scores decay{name}"] = build.channel_scores(a, x, logs, **BETWEEN, exclusive=exclusive)
    CASES[f"channel_mix decay{name}"] = build.channel_mix(
        matrix, x, logs, "r", **BETWEEN, exclusive=exclusive
    )
CASES["decay_from_start by channel"] = build.decay_from_start(logs, "j")
CASES["decay_to_end by channel"] = build.decay_to_end(logs, "j")
CASES["decay_whole by channel"] = build.decay_whole(logs, "j")
# Errors that see those of earlier rows: an element and a whole row enter, with a number per source beside.
prediction, threshold = token("prediction", "pV"), token("threshold", "p", "sources")
difference = build.sub(prediction, token("target", "pV", "sources"))
whole = build.sum_(build.mul(difference, difference), "V")
bent = build.mul(build.map_(sympy.tanh(x0) * x1, difference, threshold), build.map_((1 + x0) ** -1, whole))
function, others = row_function(bent, prediction)
CASES["exact_errors"] = build.exact_errors(
    function,
    build.mul(token("products", "pg"), build.const(0.2)),
    build.mask(token("links", "ri"), "r", "i", 1, None),
    build.mask(token("window_gates", "ip"), "i", "p", 0, EXTENT["c"] - 1),
    [(c, token("given", "pV", "sources")), (build.const(1.0), token("always", "pV", "sources"))],
    others,
)
ONCE = {
    "exact_errors_gradient": OPERATORS["exact_errors"].derivative(
        CASES["exact_errors"], token("d", "ipV"), 0
    ),
    "newton_schulz_gradient": OPERATORS["newton_schulz"].derivative(CASES["newton_schulz"], matrices, 0),
    "polynomial_gradient": OPERATORS["polynomial"].derivative(phi, features, 0),
    "degree_sum": Node("degree_sum", (a, features), ("r",), index=1, degrees=(0, 1, 2), basis="symmetric"),
}  # gradients that nothing differentiates again

each_case = pytest.mark.parametrize("name", CASES)


def arrays_for(name: str) -> dict[str, torch.Tensor]:
    """Random arrays; log decays are negative, and what resumes has one block."""
    arrays = arrays_of([CASES[name]], seed=len(name))
    if "polynomial" in name:
        arrays["coefficient"] = arrays["coefficient"].abs() + 0.5
    if "decay" in name:
        arrays = {key: -0.1 - value.abs() for key, value in arrays.items()}
    return arrays


# -- every rule is there -----------------------------------------------------------------------------


def test_every_operator_has_every_rule():
    for name, operator in OPERATORS.items():
        assert operator.name == name
        rules = ["derivative", "torch", "triton"]
        if name in ("leaf", "const"):  # loads, and numbers: they have no arguments
            rules = rules[1:] if name == "const" else []
        for rule in rules:
            assert getattr(type(operator), rule) is not getattr(Operator, rule), f"{name} has no {rule}"
        assert operator.flops is not None and operator.keeps_zero is not None


def test_every_operator_has_a_case():
    used = {node.op for root_ in (*CASES.values(), *ONCE.values()) for node in walk([root_])}
    assert used | {"leaf", "const"} >= set(OPERATORS)


def test_every_scalar_function_has_a_case():
    assert set(TorchPrinter.functions) == set(TritonPrinter.functions)
    assert set(FUNCTIONS) >= set(TorchPrinter.functions)


@each_case
def test_flops_are_counted(name):
    node = CASES[name]
    flops = OPERATORS[node.op].flops(node, EXTENT)
    free = ("at_start", "when_start", "rename")
    assert flops == 0 if node.op in free else flops >= math.prod(EXTENT[dim] for dim in node.dims)


# -- derivatives -------------------------------------------------------------------------------------


@pytest.fixture
def numbers_in_float64():
    """A value made of flags alone takes the default dtype."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@each_case
def test_derivative(name, numbers_in_float64):
    check_derivatives(CASES[name], arrays_for(name))


@pytest.mark.parametrize("name", ONCE)
def test_a_gradient_of_the_inner_map_is_not_differentiated_again(name):
    """What the outer derivative makes is its end: the text runs, and asking for more says so."""
    value_of(ONCE[name], arrays_of([ONCE[name]], positive=True))
    with pytest.raises(NotImplementedError, match="once"):
        OPERATORS[name].derivative(ONCE[name], features, 0)


def test_a_reset_has_a_zero_gradient_and_spoils_no_other():
    """A log decay of -inf: its own gradient is 0, and the others' are those of a tiny product."""
    generator = torch.Generator().manual_seed(5)
    for name in ("decay", "decay exclusive", "decay_from_start", "decay_to_end", "decay_whole"):
        node = CASES[name]
        seed = token("seed", "".join(node.dims))
        gradient = backpropagate({node: seed})[gate]
        base = {"gate": -array_of(gate, generator).abs(), "seed": array_of(seed, generator)}
        found, near = dict(base), dict(base)
        found["gate"] = base["gate"].clone()
        near["gate"] = base["gate"].clone()
        found["gate"][..., 2], near["gate"][..., 2] = -math.inf, -60.0
        value, expected = value_of(gradient, found), value_of(gradient, near)
        assert torch.isfinite(value).all(), name
        torch.testing.assert_close(value, expected, rtol=1e-12, atol=1e-20)
        assert not value[..., 2].any(), name
        torch.testing.assert_close(value_of(node, found), value_of(node, near), rtol=1e-12, atol=1e-20)


# -- meanings, written out ---------------------------------------------------------------------------


def test_decay_is_the_product_of_decays():
    generator = torch.Generator().manual_seed(1)
    log = -array_of(gate, generator).abs()
    for exclusive in (False, True):
        name = "decay exclusive" if exclusive else "decay"
        found = value_of(CASES[name], {"gate": log})  # axes r, j
        for t in range(EXTENT["r"]):
            for s in range(EXTENT["j"]):
                stop = t if exclusive else t + 1
                expected = log[..., s + 1 : stop].sum(-1).exp() if s < stop else torch.zeros(BATCH)
                torch.testing.assert_close(found[..., t, s], expected.double())
    start = value_of(CASES["decay_from_start"], {"gate": log})
    before = value_of(CASES["decay_from_start exclusive"], {"gate": log})
    end, whole = value_of(CASES["decay_to_end"], {"gate": log}), value_of(CASES["decay_whole"], {"gate": log})
    for t in range(EXTENT["j"]):
        torch.testing.assert_close(start[..., t], log[..., : t + 1].sum(-1).exp())
        torch.testing.assert_close(before[..., t], log[..., :t].sum(-1).exp())
        torch.testing.assert_close(end[..., t], log[..., t + 1 :].sum(-1).exp())
    torch.testing.assert_close(whole, log.sum(-1).exp())


def test_masks_and_ages_count_from_the_blocks_first_row():
    arrays = arrays_of([matrix, halo_matrix, by_row, by_age])
    band = value_of(CASES["mask band"], arrays)
    before = value_of(CASES["mask halo"], arrays)
    expanded = value_of(CASES["expand_age"], arrays)
    expanded_halo = value_of(CASES["expand_age halo"], arrays)
    by_position = value_of(CASES["expand_age position"], arrays)
    zero = torch.zeros(BATCH, dtype=torch.float64)
    for t in range(4):
        for s in range(4):
            age = t - s
            expected = arrays["matrix"][..., t, s] if 0 <= age <= 2 else zero
            assert torch.equal(band[..., t, s], expected)
            inside = 0 <= age < 4
            assert torch.equal(expanded[..., t, s], arrays["by_row"][..., t, age] if inside else zero)
            assert torch.equal(by_position[..., t, s], arrays["by_age"][..., age] if inside else zero)
        for h in range(3):
            age = t - (h - 3)
            kept = arrays["halo_matrix"][..., t, h] if age <= 3 else zero
            assert torch.equal(before[..., t, h], kept)
            assert torch.equal(expanded_halo[..., t, h], arrays["by_row"][..., t, age] if age < 4 else zero)


def test_cumsums_leave_out_what_they_say():
    arrays = arrays_of([a, matrix])
    rows, columns = arrays["a"], arrays["matrix"]
    torch.testing.assert_close(value_of(CASES["cumsum"], arrays), rows.cumsum(-2))
    torch.testing.assert_close(value_of(CASES["cumsum exclusive"], arrays), rows.cumsum(-2) - rows)
    backward = columns.flip(-1).cumsum(-1).flip(-1)
    torch.testing.assert_close(value_of(CASES["cumsum reverse"], arrays), backward)
    torch.testing.assert_close(value_of(CASES["cumsum reverse exclusive"], arrays), backward - columns)


@each_case
def test_lanes_that_are_zero_stay_zero_where_the_rule_says_so(name):
    node = CASES[name]
    operator = OPERATORS[node.op]
    for dim in node.dims:
        carried = [argument for argument in node.args if dim in argument.dims]
        if not carried or not operator.keeps_zero(node, dim):
            continue
        if any(not OPERATORS[argument.op].keeps_zero(argument, dim) for argument in carried):
            continue  # its argument is not zero there
        if node.op in ("cumsum", "decay", "decay_from_start", "decay_to_end"):
            continue  # along rows, whose padding is masked by `live`
        if node.op in ("softmax", *WALKS):
            continue  # masks its own padding lanes, which only a tile has
        arrays = arrays_for(name)
        for leaf in walk([node]):
            if leaf.op == "leaf" and dim in leaf.dims:
                arrays[leaf["name"]].select(3 + leaf.dims.index(dim), -1).zero_()
        padded = value_of(node, arrays).select(3 + node.dims.index(dim), -1)
        assert not padded.any(), dim


@pytest.mark.parametrize("name", ["root", "inverse_root", "power", "signed_power"])
def test_functions_with_a_kink_are_zero_at_zero_with_their_derivatives(name):
    scalars = {
        "root": root(x0),
        "inverse_root": inverse_root(x0),
        "power": power(x0, sympy.Rational(1, 4)),
        "signed_power": signed_power(x0, sympy.Rational(1, 2)),
    }
    node = build.map_(scalars[name], b)
    seed = token("seed", "K")
    gradient = backpropagate({node: seed})[b]
    zeros = torch.zeros(*BATCH, EXTENT["K"], dtype=torch.float64)
    assert not value_of(node, {"b": zeros}).any()
    assert not value_of(gradient, {"b": zeros, "seed": zeros + 1}).any()

"""Rules beyond the spine: deep memories, several terms, transforms, links, polynomial features."""

import dataclasses

import pytest
import torch
from torch.nn import functional

from atlasgen import reference
from atlasgen.reference.features import apply_features
from atlasgen.reference.transforms import newton_schulz
from atlasgen.spec.rule import (
    Block,
    Clip,
    Features,
    Gate,
    Gradient,
    Input,
    Link,
    LossTerm,
    Memory,
    MemoryRule,
    Optimizer,
    Project,
    Read,
    Retention,
    Transform,
    Window,
)
from tests.reference.support import (
    TOKEN,
    assert_same_state,
    error,
    make_arguments,
    run_in_pieces,
)

BAR = 1e-13


def normal(*shape):
    return torch.randn(*shape, dtype=torch.float64) / 2


def deep(kind, **fields):
    return Memory(kind, initial="learned", hidden="2*K", **fields)


def weights_of(name, heads=2, key=3, value=4, hidden=6):
    torch.manual_seed(3)
    gated = {
        "W1": normal(heads, hidden, value),
        "W2": normal(heads, key, hidden),
        "W3": normal(heads, key, hidden),
    }
    biases = {"b1": normal(heads, hidden), "b2": normal(heads, value)}
    return {
        "mlp": {"W1": normal(heads, key, hidden), "W2": normal(heads, hidden, value)} | biases,
        "gated_mlp": gated,
        "swiglu": gated,
        "graph": gated,
    }[name]


MEMORIES = {
    "mlp": deep("mlp", bias=True),
    "gated_mlp": deep("gated_mlp", act="tanh", norm="layer"),
    "swiglu": deep("swiglu"),
    "graph": deep(
        "graph",
        f="W1 @ (silu(W2 @ x) * (W3 @ x))",
        weights=(("W1", ("V", "2*K")), ("W2", ("2*K", "F")), ("W3", ("2*K", "F"))),
    ),
}


def omega(memory, **fields):
    return MemoryRule(
        "deep",
        memory=memory,
        loss=(LossTerm("l2"),),
        window=Window(3, TOKEN),
        block=Block(3),
        optimizer=Optimizer("momentum", lr=TOKEN, theta=TOKEN),
        retention=Retention(TOKEN, toward="initial"),
        **fields,
    )


@pytest.mark.parametrize("name", MEMORIES)
def test_pieces_of_deep_memories_equal_one_call(name):
    rule = omega(MEMORIES[name])
    arguments = make_arguments(rule, rows=2, length=8)
    initial = weights_of(name)
    y, state = reference.run(rule, **arguments, initial_memory=initial)
    pieces, last = run_in_pieces(rule, arguments, [0, 2, 3, 7, 8], initial_memory=initial)
    assert error(pieces, y) < BAR
    assert_same_state(last, state)
    assert set(state["memory"]) == set(initial)


def test_a_formula_equals_the_memory_that_it_spells():
    arguments = make_arguments(omega(MEMORIES["graph"]), length=6)
    initial = weights_of("graph")
    results = [
        reference.run(omega(MEMORIES[name]), **arguments, initial_memory=initial)[0]
        for name in ("graph", "swiglu")
    ]
    assert error(*results) < BAR


def test_deep_memory_by_its_layer_rule():
    """W1 and W2 move by outer products with E1 and E2 = the output error (l2, one token)."""
    rule = MemoryRule(
        "titans",
        memory=deep("mlp", act="tanh"),
        loss=(LossTerm("l2"),),
        optimizer=Optimizer(lr=TOKEN),
        retention=Retention(TOKEN),
    )
    arguments = make_arguments(rule, length=6, heads=1)
    initial = {name: normal(1, *shape) for name, shape in (("W1", (3, 6)), ("W2", (6, 4)))}
    y, _ = reference.run(rule, **arguments, initial_memory=initial)
    w1, w2 = initial["W1"][0], initial["W2"][0]
    q, k, v, lr, log_alpha = (arguments[name][0, :, 0] for name in ("q", "k", "v", "lr", "log_alpha"))
    for t in range(6):
        hidden = torch.tanh(k[t] @ w1)
        outer_error = hidden @ w2 - v[t]
        inner_error = (w2 @ outer_error) * (1 - hidden**2)
        alpha = log_alpha[t].exp()
        w1 = alpha * w1 - lr[t] * torch.outer(k[t], inner_error)
        w2 = alpha * w2 - lr[t] * torch.outer(hidden, outer_error)
        assert error(y[0, t, 0], torch.tanh(q[t] @ w1) @ w2) < BAR


def test_residuals():
    """Read of a memory that was never written: the residual itself."""
    for residual, side in (("x", True), ("key", False)):
        rule = MemoryRule(
            "residual",
            memory=Memory(residual=residual),
            features=Features("relu"),
            loss=(LossTerm("l2"),),
            read=Read("pre"),
        )
        arguments = make_arguments(rule, length=1, value_size=3)
        y, _ = reference.run(rule, **arguments)
        assert torch.equal(y, arguments["q"].relu() if side else arguments["q"])


def test_ttt_residual_and_moved_target_are_one_rule():
    """With norm: z = x + norm(W x) toward v equals norm(W x) toward v - k, in its memory."""
    memory = Memory(bias=True, norm="layer", residual="x")
    with_residual = MemoryRule(
        "ttt", memory=memory, loss=(LossTerm("l2"),), block=Block(4), optimizer=Optimizer(lr=TOKEN)
    )
    moved = dataclasses.replace(
        with_residual,
        memory=dataclasses.replace(memory, residual="none"),
        loss=(LossTerm("l2", target="v - k"),),
        read=Read(f="q + norm(z)"),
    )
    arguments = make_arguments(with_residual, length=7, value_size=3)
    initial = {"M": normal(2, 3, 3), "b": normal(2, 3)}
    left, right = (
        reference.run(rule, **arguments, initial_memory=initial) for rule in (with_residual, moved)
    )
    assert error(left[0], right[0]) < BAR
    assert_same_state(left[1], right[1])


def test_rwkv7_erases_and_writes_in_two_terms():
    rule = MemoryRule(
        "rwkv7",
        retention=Retention(Gate("channel")),
        loss=(LossTerm("l2", key="kk", target="0", lr="a"), LossTerm("dot")),
        inputs=(Input("kk", "key"), Input("a", "key")),
    )
    arguments = make_arguments(rule, length=6, heads=1)
    y, _ = reference.run(rule, **arguments)
    q, k, v, w = (arguments[name][0, :, 0] for name in ("q", "k", "v", "log_alpha"))
    kk, a = (arguments["inputs"][name][0, :, 0] for name in ("kk", "a"))
    memory = torch.zeros(4, 3, dtype=torch.float64)  # [V, K], as the paper writes it
    for t in range(6):
        erased = torch.diag(w[t].exp()) - torch.outer(kk[t], a[t] * kk[t])
        memory = memory @ erased + torch.outer(v[t], k[t])
        assert error(y[0, t, 0], memory @ q[t]) < BAR


def test_comba_predicts_at_one_key_and_writes_along_another():
    rule = MemoryRule(
        "comba",
        retention=Retention(TOKEN, "decay_first"),
        loss=(LossTerm("l2", key="p", write="k"),),
        optimizer=Optimizer(lr=TOKEN),
        inputs=(Input("p", "key"),),
    )
    arguments = make_arguments(rule, length=6, heads=1)
    y, _ = reference.run(rule, **arguments)
    q, k, v, lr, w = (arguments[n][0, :, 0] for n in ("q", "k", "v", "lr", "log_alpha"))
    p = arguments["inputs"]["p"][0, :, 0]
    memory = torch.zeros(3, 4, dtype=torch.float64)
    for t in range(6):
        memory = w[t].exp() * memory
        memory = memory + lr[t] * torch.outer(k[t], v[t] - p[t] @ memory)
        assert error(y[0, t, 0], q[t] @ memory) < BAR


def test_longhorn_steps_implicitly():
    """argmin |M - M'|^2 / 2 + beta |M k - v|^2 / 2, solved directly per value channel."""
    rule = MemoryRule("longhorn", loss=(LossTerm("l2"),), optimizer=Optimizer("implicit", lr=Gate("value")))
    arguments = make_arguments(rule, length=5, heads=1)
    y, _ = reference.run(rule, **arguments)
    q, k, v, beta = (arguments[n][0, :, 0] for n in ("q", "k", "v", "lr"))
    memory = torch.zeros(3, 4, dtype=torch.float64)
    for t in range(5):
        columns = []
        for j in range(4):
            system = torch.eye(3, dtype=torch.float64) + beta[t, j] * torch.outer(k[t], k[t])
            columns.append(torch.linalg.solve(system, memory[:, j] + beta[t, j] * v[t, j] * k[t]))
        memory = torch.stack(columns, 1)
        assert error(y[0, t, 0], q[t] @ memory) < 1e-12


def test_newton_schulz_of_one_tokens_gradient():
    """Public case 23: rank one gives 0.6964 u v^T, and the scale does not matter."""
    u, v = normal(64, 1), normal(1, 32)
    coefficients = Transform("newton_schulz").coefficients
    unit = (u / u.norm()) @ (v / v.norm())
    for scale in (1e-4, 1.0, 1e4):
        found = newton_schulz(scale * u @ v, coefficients)
        factor = (found * unit).sum()
        assert float(factor) == pytest.approx(0.6964, abs=5e-5)
        assert error(found, factor * unit) < 1e-12
    zero = torch.zeros(4, 4, dtype=torch.float64, requires_grad=True)
    out = newton_schulz(zero, coefficients)
    assert torch.equal(out, torch.zeros_like(out))
    assert torch.equal(torch.autograd.grad(out.sum(), zero)[0], torch.zeros_like(out))


def test_newton_schulz_acts_on_singular_values():
    matrix, triple = normal(5, 3), (3.4445, -4.7750, 2.0315)
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    values = values / values.norm()
    for _ in range(5):
        values = triple[0] * values + triple[1] * values**3 + triple[2] * values**5
    assert error(newton_schulz(matrix, (triple,) * 5), left @ values.diag() @ right) < 1e-12


def test_atlas_writes_the_transformed_momentum():
    transform = Transform("newton_schulz")
    optimizer = Optimizer("momentum", lr=TOKEN, theta=TOKEN, transform=(transform,))
    rule = dataclasses.replace(omega(Memory()), optimizer=optimizer)
    plain = dataclasses.replace(rule, optimizer=dataclasses.replace(optimizer, transform=()))
    arguments = make_arguments(rule, length=1, heads=1)
    _, state = reference.run(rule, **arguments)
    _, untransformed = reference.run(plain, **arguments)
    momentum = untransformed["momentum"]["M"]
    assert error(state["momentum"]["M"], momentum) < BAR
    expected = -arguments["lr"][0, 0, 0] * newton_schulz(momentum, transform.coefficients)
    assert error(state["memory"]["M"], expected) < BAR


def test_straight_through_newton_schulz_keeps_values_and_changes_gradients():
    optimizer = Optimizer("momentum", lr=TOKEN, theta=TOKEN, transform=(Transform("newton_schulz"),))
    gradients, values = [], []
    for kind in ("full", "straight_through"):
        rule = dataclasses.replace(
            omega(Memory(), gradient=Gradient(newton_schulz=kind)), optimizer=optimizer
        )
        arguments = make_arguments(rule, length=4)
        arguments["k"].requires_grad_()
        y, _ = reference.run(rule, **arguments)
        values.append(y.detach())
        gradients.append(torch.autograd.grad(y.sum(), arguments["k"])[0])
    assert error(*values) < 1e-12
    assert error(*gradients) > 1e-2


def test_nesterov_looks_ahead():
    optimizer = Optimizer("momentum", lr=TOKEN, theta=TOKEN, nesterov=True)
    rule = MemoryRule("nesterov", loss=(LossTerm("dot"),), optimizer=optimizer)
    arguments = make_arguments(rule, length=5, heads=1)
    _, state = reference.run(rule, **arguments)
    k, v, lr, log_theta = (arguments[n][0, :, 0] for n in ("k", "v", "lr", "log_theta"))
    memory = momentum = torch.zeros(3, 4, dtype=torch.float64)
    for t in range(5):
        gradient, theta = -torch.outer(k[t], v[t]), log_theta[t].exp()
        momentum = theta * momentum + gradient
        memory = memory - lr[t] * (theta * momentum + gradient)
    assert error(state["memory"]["M"][0, 0], memory) < BAR


@pytest.mark.parametrize("of", ["token", "window"])
def test_clipping(of):
    rule = MemoryRule(
        "clip",
        loss=(LossTerm("dot"),),
        window=Window(2, Gate("none")),
        optimizer=Optimizer(clip=Clip(0.5, of)),
    )
    arguments = make_arguments(rule, length=4, heads=1)
    arguments["k"][:, 1] = 0  # a zero norm
    _, state = reference.run(rule, **arguments)
    k, v = (arguments[n][0, :, 0] for n in "kv")

    def clip(gradient):
        norm = gradient.norm()
        return gradient * (0.5 / norm) if norm > 0.5 else gradient

    singles = [-torch.outer(k[t], v[t]) for t in range(4)]
    memory = torch.zeros(3, 4, dtype=torch.float64)
    for t in range(4):
        window = singles[max(0, t - 1) : t + 1]
        if of == "token":
            memory = memory - sum(clip(gradient) for gradient in window)
        else:
            memory = memory - clip(sum(window))
    assert error(state["memory"]["M"][0, 0], memory) < BAR


def test_projections():
    for kind in ("ball", "clamp"):
        rule = MemoryRule(
            "project",
            loss=(LossTerm("dot"),),
            retention=Retention(project=Project(kind, radius=0.3)),
        )
        _, state = reference.run(rule, **make_arguments(rule, length=6))
        memory = state["memory"]["M"]
        size = memory.flatten(2).norm(dim=-1) if kind == "ball" else memory.abs().amax((2, 3))
        assert torch.allclose(size, torch.full_like(size, 0.3), rtol=1e-12)


def test_memora_is_a_softmax_of_a_linear_state():
    """W_t = softmax(alpha log W_{t-1} - lr grad) over the input dimension, gradient through W."""
    rule = MemoryRule(
        "memora",
        memory=Memory(link=Link("softmax")),
        loss=(LossTerm("dot"),),
        optimizer=Optimizer(lr=TOKEN),
        retention=Retention(TOKEN),
    )
    arguments = make_arguments(rule, length=5, heads=1)
    y, _ = reference.run(rule, **arguments)
    q, k, v, lr, log_alpha = (arguments[n][0, :, 0] for n in ("q", "k", "v", "lr", "log_alpha"))
    weight = torch.full((3, 4), 1 / 3, dtype=torch.float64)
    for t in range(5):
        outer = -torch.outer(k[t], v[t])
        gradient = weight * (outer - (weight * outer).sum(0))  # of softmax columns
        weight = torch.softmax(log_alpha[t].exp() * weight.log() - lr[t] * gradient, 0)
        assert error(y[0, t, 0], q[t] @ weight) < 1e-12


def test_moneta_reads_through_a_norm():
    rule = MemoryRule(
        "moneta",
        memory=Memory(link=Link("qnorm", q=4.0), initial="given"),
        loss=(LossTerm("lp", p=3, eps=1e-6),),
        read=Read("pre"),
    )
    arguments = make_arguments(rule, length=1)
    initial = normal(2, 3, 4)
    y, _ = reference.run(rule, **arguments, initial_memory=initial)
    norm = initial.pow(4).sum((1, 2), keepdim=True) ** 0.25
    assert error(y[0, 0], torch.einsum("hk,hkv->hv", arguments["q"][0, 0], initial / norm**2)) < BAR


@pytest.mark.parametrize("basis", ["symmetric", "kronecker"])
def test_polynomial_features_are_a_polynomial_of_the_product(basis):
    q, k = normal(5, 4), normal(5, 4)
    features = Features("poly", degree=3, basis=basis, coefficients=(0.5, 0.0, 2.0, 0.25))
    found = apply_features(features, q, "q") @ apply_features(features, k, "k").T
    product = q @ k.T
    assert error(found, 0.5 + 2 * product**2 + 0.25 * product**3) < 1e-13


def test_sizes_of_polynomial_features():
    taylor = Features("poly", degree=2)
    assert apply_features(taylor, normal(1, 64), "k").shape[-1] == 2145
    learned = Features("poly", degree=2, coefficients="learned")
    coefficients = torch.tensor([0.3, 1.0, 2.0], dtype=torch.float64, requires_grad=True)
    x = normal(3, 4)
    mapped = apply_features(learned, x, "k", coefficients)
    assert error((mapped @ mapped.T).detach(), 0.3 + x @ x.T + 2 * (x @ x.T) ** 2) < 1e-13
    assert torch.autograd.grad(mapped.sum(), coefficients)[0].abs().min() > 0


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("relu", torch.relu),
        ("silu", functional.silu),
        ("elu1", lambda x: torch.where(x > 0, x + 1, x.exp())),
        ("l2norm", lambda x: x / x.norm(dim=-1, keepdim=True)),
        ("softmax", lambda x: x.exp() / x.exp().sum(-1, keepdim=True)),
        ("identity", lambda x: x),
    ],
)
def test_elementary_features_on_each_side(kind, expected):
    x = normal(6, 5)
    assert torch.allclose(apply_features(Features(kind), x, "k"), expected(x), rtol=1e-14)
    assert torch.equal(apply_features(Features(kind, on="q"), x, "k"), x)

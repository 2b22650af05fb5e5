"""Newton-Schulz and polynomial features: against their definitions, at sizes and scales that kernels meet."""

from __future__ import annotations

import math

import pytest
import torch

from atlasgen.derive.features import apply_features, similarity
from atlasgen.ir import build
from atlasgen.reference.features import apply_features as reference_features
from atlasgen.reference.transforms import newton_schulz as reference_newton_schulz
from atlasgen.runtime import newton_schulz, polynomial
from atlasgen.spec.rule import Features

MUON = ((3.4445, -4.7750, 2.0315),) * 5


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def deviation(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found.double() - expected).square().mean().sqrt() / expected.square().mean().sqrt())


@pytest.mark.parametrize("shape", [(4, 4), (8, 24), (24, 8), (1, 7), (64, 256)])
def test_newton_schulz_is_its_polynomial_of_singular_values(shape):
    matrices = draw(3, *shape, seed=1)
    u, s, v = torch.linalg.svd(matrices, full_matrices=False)
    s = s / matrices.square().sum((-2, -1)).sqrt()[:, None]
    for a, b, c in MUON:
        s = a * s + b * s**3 + c * s**5
    expected = u @ torch.diag_embed(s) @ v
    assert deviation(newton_schulz.forward(matrices, MUON), expected) < 1e-12
    assert deviation(newton_schulz.forward(matrices.float(), MUON), expected) < 1e-5
    assert deviation(reference_newton_schulz(matrices, MUON), expected) < 1e-12


@pytest.mark.parametrize("shape", [(5, 5), (4, 12), (12, 4)])
def test_newton_schulz_gradient_is_autograds(shape):
    matrices, outer = draw(2, 3, *shape, seed=2).requires_grad_(), draw(2, 3, *shape, seed=3)
    (expected,) = torch.autograd.grad((reference_newton_schulz(matrices, MUON) * outer).sum(), matrices)
    with torch.no_grad():
        found = newton_schulz.backward(matrices, outer, MUON)
        assert deviation(found, expected) < 1e-10
        single = newton_schulz.backward(matrices.float(), outer.float(), MUON)
    assert deviation(single, expected) < 1e-4


@pytest.mark.parametrize("scale", [1e-30, 1e-8, 1.0, 1e8, 1e30])
def test_newton_schulz_does_not_see_the_scale(scale):
    matrices = draw(4, 16, 48, seed=4).float()
    expected = newton_schulz.forward(matrices, MUON)
    found = newton_schulz.forward(matrices * scale, MUON)
    assert deviation(found, expected.double()) < 1e-3


def test_newton_schulz_of_zero_is_zero_with_a_zero_gradient():
    matrices = draw(3, 4, 6, seed=5).float()
    matrices[1] = 0
    value = newton_schulz.forward(matrices, MUON)
    gradient = newton_schulz.backward(matrices, torch.ones_like(matrices), MUON)
    assert torch.isfinite(value).all() and torch.isfinite(gradient).all()
    assert not value[1].any() and not gradient[1].any()
    assert value[0].any() and gradient[0].any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("degree", [2, 3])
@pytest.mark.parametrize("size", [4, 8, 16, 64])
def test_features_and_kernel_trick_agree(size, degree, dtype):
    """phi(q) . phi(k) is the same by features, by the polynomial in q . k and in the definition."""
    features = Features(kind="poly", degree=degree, basis="symmetric", coefficients="taylor")
    q, k = (draw(3, size, seed=seed).to(dtype).double() / math.sqrt(size) for seed in (6, 7))
    explicit = reference_features(features, q, "q") @ reference_features(features, k, "k").T
    numbers = [1 / math.factorial(p) for p in range(degree + 1)]
    expected = sum(number * (q @ k.T) ** p for p, number in enumerate(numbers))
    found = [polynomial.features(x.float(), numbers, range(degree + 1), "symmetric") for x in (q, k)]
    assert deviation(explicit, expected) < 1e-12
    assert deviation(found[0] @ found[1].T, expected) < 1e-5


@pytest.mark.parametrize("basis", ["symmetric", "kronecker"])
def test_gradients_of_features_are_autograds(basis):
    degrees, x = (0, 1, 3), draw(2, 1, 3, 4, 5, seed=8).requires_grad_()
    numbers = [(0.5 + draw(2, 1, 3, seed=9).abs()).requires_grad_() for _ in degrees]
    value = polynomial.features(x, numbers, degrees, basis)
    outer = draw(*value.shape, seed=10)
    expected, *expected_numbers = torch.autograd.grad((value * outer).sum(), [x, *numbers])
    with torch.no_grad():
        assert deviation(polynomial.gradient(x, numbers, outer, degrees, basis), expected) < 1e-12
        for index, (number, wanted) in enumerate(zip(numbers, expected_numbers)):
            part = polynomial.degree_sum(x, outer * value, index, degrees, basis).sum(-1)
            assert deviation(part / (2 * number), wanted) < 1e-12


def test_similarity_of_polynomial_features_needs_no_features():
    """Products between rows never make the features: the graph holds q . k and its powers alone."""
    features = Features(kind="poly", degree=3, basis="symmetric", coefficients="learned")
    rows = [
        build.leaf(name, (dim, "K"), kind="token", segment="block") for name, dim in (("q", "r"), ("k", "s"))
    ]
    left, right = (apply_features(features, x, side) for x, side in zip(rows, "qk"))
    score = similarity(left, right, "F")
    assert score.dims == ("r", "s")
    assert not any("F" in argument.dims for argument in score.args)

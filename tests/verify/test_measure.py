"""The measure itself: what passes, what fails, and where it points."""

import pytest
import torch

from atlasgen.verify.measure import index_words, measure, rms, scale_of

BAR = 1e-5


def test_rounding_passes_and_an_error_of_the_bar_fails() -> None:
    reference = torch.randn(2, 5, 3, 4, dtype=torch.float64)
    assert measure("y", reference.float(), reference, BAR, 1.0).passed
    wrong = measure("y", reference * (1 + 2 * BAR), reference, BAR, 1.0)
    assert not wrong.passed and wrong.error == pytest.approx(2 * BAR, rel=1e-6)


def test_small_entries_are_not_judged_by_their_own_size() -> None:
    reference = torch.ones(100, dtype=torch.float64)
    reference[7] = 1e-12  # an element-by-element relative error would be 1e4 here
    found = reference.clone()
    found[7] = 1e-8
    assert measure("lr", found, reference, BAR, 1.0).passed


def test_an_exact_zero_reference_passes_a_correct_kernel_and_fails_a_wrong_one() -> None:
    zero = torch.zeros(3, 4, dtype=torch.float64)
    assert measure("d lr", torch.zeros(3, 4), zero, BAR, 1.0).passed
    assert measure("d lr", torch.full((3, 4), 1e-7), zero, BAR, 1.0).passed  # rounding of its neighbours
    assert not measure("d lr", torch.full((3, 4), 1e-3), zero, BAR, 1.0).passed
    assert measure("d lr", torch.zeros(3, 4), zero, BAR, 0.0).passed  # everything is zero


def test_a_reference_of_pure_cancellation_is_judged_by_its_neighbours() -> None:
    reference = torch.full((4,), 1e-17, dtype=torch.float64)
    assert measure("d q", torch.full((4,), 1e-7), reference, BAR, 1.0).passed
    small = torch.full((4,), 1e-9, dtype=torch.float64)  # small, but not rounding
    assert not measure("d q", torch.full((4,), 1e-7), small, BAR, 1.0).passed


def test_the_worst_place_in_words() -> None:
    reference = torch.zeros(2, 7, 3, 4, dtype=torch.float64)
    found = reference.clone()
    found[1, 5, 2, 3] = 9.0
    result = measure("y", found, reference, BAR, 1.0)
    assert result.worst == "batch 1, token 5, head 2, position 3"
    assert result.max_error == 9.0 and result.max_reference == 0.0


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("d lr", (2, 7, 3), "batch 1, token 6, head 2"),
        ("d log_alpha", (3,), "head 2"),
        ("d gamma", (3, 4), "head 2, age 3"),
        ("d gamma", (2, 7, 3, 4), "batch 1, token 6, head 2, age 3"),
        ("state.memory.M", (2, 3, 4, 5), "batch 1, head 2, row 3, column 4"),
        ("d state.window.k", (2, 3, 4, 5), "batch 1, slot 2, head 3, position 4"),
        ("state.normaliser.z", (2, 3, 4), "batch 1, head 2, row 3"),
        ("d initial_memory", (3, 4, 5), "head 2, row 3, column 4"),
    ],
)
def test_the_last_index_in_words(name: str, shape: tuple[int, ...], words: str) -> None:
    assert index_words(name, torch.Size(shape).numel() - 1, shape) == words


def test_micro_steps_have_an_axis() -> None:
    shape = (2, 7, 2, 3, 4)
    words = "batch 1, token 6, step 1, head 2, position 3"
    assert index_words("d k", torch.Size(shape).numel() - 1, shape, by_step=True) == words
    assert index_words("d lr", 83, (2, 7, 2, 3), by_step=True) == "batch 1, token 6, step 1, head 2"


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_fails_and_is_found(value: float) -> None:
    reference = torch.ones(1, 3, 1, 2, dtype=torch.float64)
    found = reference.clone()
    found[0, 1, 0, 1] = value
    result = measure("y", found, reference, 1e9, 1.0)
    assert not result.passed and result.worst == "batch 0, token 1, head 0, position 1"
    assert "not finite" in (result.problem or "")


def test_equal_infinities_agree() -> None:
    reference = torch.tensor([1.0, float("inf"), float("nan")], dtype=torch.float64)
    assert measure("y", reference.clone(), reference, BAR, 1.0).passed


def test_wrong_shapes_fail_and_empty_tensors_pass() -> None:
    empty = torch.zeros(1, 0, 2, 4, dtype=torch.float64)
    assert measure("y", empty.float(), empty, BAR, 1.0).passed
    assert not measure("y", torch.zeros(1, 1, 2, 4), empty, BAR, 1.0).passed


def test_sizes() -> None:
    assert rms(torch.tensor([3.0, -4.0])) == pytest.approx((12.5) ** 0.5)
    assert scale_of({"a": torch.ones(3), "b": 2 * torch.ones(2), "position": torch.tensor([9])}) == 2.0

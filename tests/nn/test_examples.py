"""The examples run and do what they say."""

import importlib.util
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_own_rule() -> None:
    gradient = runpy.run_path(str(EXAMPLES / "own_rule.py"))["main"]()
    assert gradient.shape == (2, 100, 3, 16) and gradient.isfinite().all() and gradient.any()


@pytest.mark.skipif(
    importlib.util.find_spec("atlasgen.generated") is None
    or importlib.util.find_spec("atlasgen.generated.omeganet_linear") is None,
    reason="`atlasgen build` has not made the package yet",
)
def test_train_layer() -> None:
    assert runpy.run_path(str(EXAMPLES / "train_layer.py"))["main"]() > 0.5

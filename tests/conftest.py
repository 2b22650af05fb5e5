"""Settings of the test session that must be in place before triton or torch are imported."""

import os
import tempfile

import pytest

DEVICE = os.environ.get("ATLASGEN_TEST_DEVICE", "cpu")

# A kernel module decides at import whether its kernels are interpreted, so this comes first.
if DEVICE != "cuda":
    os.environ["TRITON_INTERPRET"] = "1"
# What the user has tuned is none of the tests' business.
TUNED = tempfile.TemporaryDirectory(prefix="atlasgen-tests-")
os.environ["ATLASGEN_TUNED_DIR"] = TUNED.name
# Triton 3.9 warns once per process while this is unset; 1 is what it does by default.
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
# Several test processes on few cores: their threads would only wait for each other.
UNDER_XDIST = "PYTEST_XDIST_WORKER" in os.environ
if UNDER_XDIST:
    os.environ["OMP_NUM_THREADS"] = "1"

import hypothesis  # noqa: E402
import torch  # noqa: E402

if UNDER_XDIST:
    torch.set_num_threads(1)

# "ci" draws the same examples in every run; "explore" looks for new ones.
hypothesis.settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True, database=None)
hypothesis.settings.register_profile("explore", deadline=None, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="also run the tests marked slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip slow tests unless --full is given, and device tests unless a device is asked for."""
    slow = pytest.mark.skip(reason="slow: run with --full")
    device = pytest.mark.skip(reason="needs a GPU: run with ATLASGEN_TEST_DEVICE=cuda")
    for item in items:
        if "slow" in item.keywords and not config.getoption("--full"):
            item.add_marker(slow)
        if "device" in item.keywords and DEVICE != "cuda":
            item.add_marker(device)


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    """Every test starts from the same random numbers, in whatever order the tests run."""
    torch.manual_seed(0)

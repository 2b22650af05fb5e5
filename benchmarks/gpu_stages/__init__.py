"""The stages of benchmarks/gpu.py: correctness on a device, speed beside a peer, candidates.

They run from a checkout that need not be installed: generated/, specs/ and autotune/ are then found beside
the package.
"""

import importlib.util
from pathlib import Path

import atlasgen

if importlib.util.find_spec("atlasgen.generated") is None:
    atlasgen.__path__.append(str(Path(__file__).resolve().parents[2]))

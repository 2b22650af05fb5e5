"""The demonstration: a small byte-level language model on text that Python itself ships."""

from atlasgen.demo.report import DemoResult
from atlasgen.demo.settings import Settings
from atlasgen.demo.train import run

__all__ = ["DemoResult", "Settings", "run"]

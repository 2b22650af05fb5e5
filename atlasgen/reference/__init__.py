"""The oracle: every memory rule executed token by token in float64, by its definition and nothing
else.

Inner gradients come from torch.func, outer ones from autograd; no line here is shared with the
compiler.
"""

from atlasgen.reference.refusals import refusals
from atlasgen.reference.run import run
from atlasgen.reference.state import STATE_PARTS, State

__all__ = ["STATE_PARTS", "State", "refusals", "run"]

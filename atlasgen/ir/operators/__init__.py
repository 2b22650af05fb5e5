"""The operators of the block program, by name."""

from __future__ import annotations

from atlasgen.ir.operators.base import Operator
from atlasgen.ir.operators.channel import ChannelMix, ChannelScores
from atlasgen.ir.operators.contraction import Contract, Dot, Sum
from atlasgen.ir.operators.elementwise import Add, Const, Leaf, Map, Rename, Softmax
from atlasgen.ir.operators.exact import ExactErrors, ExactErrorsGradient
from atlasgen.ir.operators.newton_schulz import NewtonSchulz, NewtonSchulzGradient
from atlasgen.ir.operators.polynomial import DegreeSum, Polynomial, PolynomialGradient, Take
from atlasgen.ir.operators.scan import (
    AtStart,
    Cumsum,
    Decay,
    DecayFromStart,
    DecayToEnd,
    DecayWhole,
    WhenStart,
)
from atlasgen.ir.operators.structure import CollectAge, ExpandAge, Mask
from atlasgen.ir.operators.triangular import UnitInverse, UnitSolve

OPERATORS: dict[str, Operator] = {
    operator.name: operator
    for operator in (
        Leaf(),
        Const(),
        Map(),
        Add(),
        Rename(),
        Softmax(),
        Dot(),
        Contract(),
        NewtonSchulz(),
        NewtonSchulzGradient(),
        Take(),
        Polynomial(),
        PolynomialGradient(),
        DegreeSum(),
        Sum(),
        Mask(),
        ExpandAge(),
        CollectAge(),
        Cumsum(),
        Decay(),
        DecayFromStart(),
        DecayToEnd(),
        DecayWhole(),
        AtStart(),
        WhenStart(),
        UnitInverse(),
        UnitSolve(),
        ChannelScores(),
        ChannelMix(),
        ExactErrors(),
        ExactErrorsGradient(),
    )
}

__all__ = ["OPERATORS", "Operator"]

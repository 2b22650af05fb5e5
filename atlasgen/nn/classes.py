"""A layer class for one rule, under the name that people know the rule by."""

from __future__ import annotations

import functools
import inspect
import os
from typing import Any

from atlasgen.nn.layer import MemoryLayer
from atlasgen.spec.load import load_rule
from atlasgen.spec.rule import MemoryRule

# Parts of rule names that are not written with one capital.
WORDS = {
    "omeganet": "OmegaNet",
    "retnet": "RetNet",
    "deltanet": "DeltaNet",
    "deltaproduct": "DeltaProduct",
    "logcosh": "LogCosh",
    "lact": "LaCT",
    **{
        acronym.lower(): acronym
        for acronym in (
            "GLA",
            "SWLA",
            "SWDT",
            "DLA",
            "TTT",
            "KDA",
            "MLP",
            "GSA",
            "GDN",
            "RWKV7",
            "LSTM",
            "PP",
            "FLA",
            "GD",
        )
    },
}


def class_name(rule: MemoryRule | str) -> str:
    """The class's name for a rule or a rule's name: omeganet_linear -> OmegaNetLinear."""
    name = rule if isinstance(rule, str) else rule.name
    return "".join(WORDS.get(word, word.capitalize()) for word in name.split("_") if word)


def layer_class(rule: MemoryRule | str | os.PathLike[str], module: str | None = None) -> type[MemoryLayer]:
    """MemoryLayer with its rule filled in, as a class: OmegaNetLinear(hidden_size, num_heads, ...).

    One class per rule and module: `module` is where the class says it lives, for a package that
    offers it (`OmegaNetLinear = layer_class(RULE, __name__)`). Its objects can be pickled wherever
    the class is kept. Raises SpecError for a wrong rule.
    """
    return _class_of(load_rule(rule), module or __name__)


@functools.cache
def _class_of(rule: MemoryRule, module: str) -> type[MemoryLayer]:
    def initialise(self: MemoryLayer, hidden_size: int, num_heads: int, **options: Any) -> None:
        MemoryLayer.__init__(self, rule, hidden_size, num_heads, **options)

    def reduce(self: MemoryLayer, protocol: Any) -> Any:
        if type(self) is made:
            return _blank, (rule, module), self.__dict__.copy()
        return MemoryLayer.__reduce_ex__(self, protocol)

    initialise.__name__ = "__init__"
    initialise.__doc__ = MemoryLayer.__doc__
    signature = inspect.signature(MemoryLayer.__init__)
    kept = [entry for name, entry in signature.parameters.items() if name != "rule"]
    initialise.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
    about = f"{rule.doc or rule.name}\n\nA MemoryLayer of the rule {rule.name}; arguments as MemoryLayer's."
    made: type[MemoryLayer] = type(
        class_name(rule),
        (MemoryLayer,),
        {"__init__": initialise, "__reduce_ex__": reduce, "__doc__": about, "__module__": module},
    )
    return made


def _blank(rule: MemoryRule, module: str) -> MemoryLayer:
    """An object without content, for pickle and copy to fill."""
    made = layer_class(rule, module)
    return made.__new__(made)

"""What the checks of a rule share: the refusal itself, and helpers of more than one ruling."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from atlasgen.spec.errors import SpecError, near_miss
from atlasgen.spec.expression import parse_expression
from atlasgen.spec.rule import MemoryRule

_FLOAT32 = (2.0**-126, (2 - 2.0**-23) * 2.0**127)  # its smallest normal number and its largest

SIZES_TO_TRY = ({"K": 64, "V": 64, "F": 64}, {"K": 48, "V": 80, "F": 48})
"""Sizes at which every size expression of a rule must have a value."""


def refuse(
    rule: MemoryRule,
    field: str,
    value: Any,
    reason: str,
    *,
    allowed: Iterable[str] = (),
    suggestion: str | None = None,
) -> NoReturn:
    """Raise the SpecError of one ruling; a value of None is not shown."""
    raise SpecError(
        field,
        reason,
        **({} if value is None else {"value": value}),
        allowed=tuple(allowed),
        suggestion=suggestion,
        file=rule.source or f"rule {rule.name}",
    )


def refuse_unfit(rule: MemoryRule, field: str, shown: Any, value: float) -> None:
    """Refuse a finite number, shown as the file has it, that is infinite or 0 as a float32."""
    if value and not _FLOAT32[0] <= abs(value) <= _FLOAT32[1]:
        low, high = _FLOAT32
        refuse(
            rule,
            field,
            shown,
            f"too {'large' if abs(value) > high else 'small'} for float32, in which rules are computed",
            allowed=[f"0, or a number between {low:.2g} and {high:.2g} in size"],
        )


def keeps_size(rule: MemoryRule) -> bool:
    """True where the feature map keeps F = K."""
    features = rule.features
    return features.kind != "exp" and (features.kind != "poly" or features.basis == "powers")


def check_input(rule: MemoryRule, field: str, name: str, shapes: tuple[str, ...], *words: str) -> None:
    """Refuse `name` unless the rule declares an input of that name and one of these shapes."""
    item = rule.input_named(name)
    if item is None:
        names = [*words, *(entry.name for entry in rule.inputs)]
        refuse(
            rule,
            field,
            name,
            "neither a word of this field nor an input of the rule",
            allowed=names or ["the name of an input"],
            suggestion=near_miss(name, names) or f'Declare it: inputs = {{ {name[:20]} = "{shapes[0]}" }}',
        )
    elif item.shape not in shapes:
        refuse(rule, f"inputs.{name}", item.shape, f"{field} needs another shape", allowed=shapes)


def elementwise(rule: MemoryRule, field: str, text: str | None, names: Iterable[str]) -> Any:
    if text is None:
        refuse(rule, field, None, 'kind = "expr" needs an expression')
    return parse_expression(text, names, field=field, file=rule.source)

"""Rule files to memory rules: TOML in, a validated and frozen :class:`MemoryRule` out."""

from atlasgen.errors import SpecError
from atlasgen.spec.checks import check_rule, gate_arguments
from atlasgen.spec.expression import (
    evaluate_number,
    evaluate_size,
    interpret,
    parse_expression,
    parse_tree,
    symbol,
)
from atlasgen.spec.load import (
    json_schema,
    load_rule,
    rule_from_table,
    schema_text,
    shipped_specs,
    spec_text,
)
from atlasgen.spec.printing import rule_to_toml
from atlasgen.spec.rule import MemoryRule

__all__ = [
    "MemoryRule",
    "SpecError",
    "check_rule",
    "evaluate_number",
    "evaluate_size",
    "gate_arguments",
    "interpret",
    "json_schema",
    "load_rule",
    "parse_expression",
    "parse_tree",
    "rule_from_table",
    "rule_to_toml",
    "schema_text",
    "shipped_specs",
    "spec_text",
    "symbol",
]

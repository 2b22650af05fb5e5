"""The shipped packages: what of all stages goes into the package of a rule, written and compared."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from atlasgen.cli.equations import update_equations
from atlasgen.emit.package import IGNORED, Parts, package_files, stale_files, write_files
from atlasgen.emit.plan import Structure
from atlasgen.emit.refusals import kernel_refusals, kernel_schedule
from atlasgen.nn.classes import class_name
from atlasgen.runtime.configuration import forms
from atlasgen.runtime.torch_backend import program_source
from atlasgen.schedules.serve import Scheduled, schedule
from atlasgen.spec import load_rule, shipped_specs
from atlasgen.spec.rule import MemoryRule


def structures_of(scheduled: Scheduled) -> dict[str, Structure]:
    """The structures that a rule's package holds, by the name in their file's name; none without kernels."""
    other = kernel_schedule(scheduled.rule)
    if other is None and kernel_refusals(scheduled.forward):
        return {}
    return forms(scheduled.rule)


def files_of(rule: MemoryRule) -> dict[str, str]:
    """The files of a rule's package, by name; no kernels where none compute the rule.

    Raises CompileError where no schedule serves the rule.
    """
    scheduled = schedule(rule)
    structures = structures_of(scheduled)
    program = program_source(scheduled)
    return package_files(Parts(scheduled, class_name(rule), update_equations(rule), structures, program))


def write_package(rule: MemoryRule, folder: Path) -> Path:
    """Write the package of a rule to `folder`/<name>, whole or not at all; returns that folder."""
    return write_files(files_of(rule), folder / rule.name)


def stale(folder: Path, rules: Iterable[MemoryRule] | None = None) -> list[str]:
    """Why the packages in `folder` are not those of the rules (default: all shipped ones), file by file."""
    chosen = [load_rule(name) for name in shipped_specs()] if rules is None else list(rules)
    reasons = [reason for rule in chosen for reason in stale_files(files_of(rule), folder / rule.name)]
    if {rule.name for rule in chosen} >= set(shipped_specs()) and folder.is_dir():
        known = {rule.name for rule in chosen} | {IGNORED, "__init__.py"}
        extra = sorted(
            path.name for path in folder.iterdir() if path.name not in known and path.name[0] != "."
        )
        reasons += [f"{name}: no shipped rule has this package" for name in extra]
    return reasons

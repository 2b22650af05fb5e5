"""The package of one rule: its kernels, torch program and launch plan as files, with a manifest.

The content is a function of the rule and the generator alone, so that equal rules give equal bytes and a
package that was not rebuilt can be told. A rule that no kernel computes has a package too: its torch program
runs, and the plan and the manifest say what is without kernels. What belongs to later stages (the name of the
layer class, the structures that the runtime chooses, the torch program) is handed in as `Parts`.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import shutil
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from atlasgen.emit.formatting import WIDTH, formatted
from atlasgen.emit.launch_plan import kernel_table, plan_lines
from atlasgen.emit.plan import Structure
from atlasgen.emit.refusals import kernel_refusals
from atlasgen.emit.triton_module import GENERATOR, EmittedModule, emit_module
from atlasgen.errors import ArgumentError, sentence, shown
from atlasgen.schedules.serve import Scheduled, schedule
from atlasgen.spec.load import shipped_specs
from atlasgen.spec.printing import rule_to_toml

MANIFEST = "manifest.json"
IGNORED = "__pycache__"
_NAMED = 8  # files that a refusal names
_EXCHANGE = 2  # RENAME_EXCHANGE of renameat2
_CURRENT_FOLDER = -100  # AT_FDCWD


@dataclass(frozen=True)
class Parts:
    """What a package is made of.

    class_name: of the layer, "OmegaNetLinear". equations: (formula, remark) a line. structures: by the name
    of the kernels' file ("split" -> kernels_split.py). torch_program: the text of `forward` and `backward`.
    """

    scheduled: Scheduled
    class_name: str
    equations: Sequence[tuple[str, str]]
    structures: Mapping[str, Structure]
    torch_program: str


def package_files(parts: Parts) -> dict[str, str]:
    """The text of every file of the package, by its name; the manifest last."""
    scheduled = parts.scheduled
    emitted = {
        name: emit_module(schedule(scheduled.rule, structure.schedule), structure)
        for name, structure in parts.structures.items()
    }
    files = {"__init__.py": _package_module(parts), "rule.toml": rule_to_toml(scheduled.rule)}
    files |= {kernels_file(name): module.source for name, module in emitted.items()}
    files["torch_program.py"] = _torch_module(parts)
    files["plan.md"] = _plan(parts, emitted)
    files[MANIFEST] = _manifest(parts, emitted, files)
    return files


def kernels_file(structure: str) -> str:
    """The file of the kernels under a structure's name."""
    return f"kernels_{structure}.py"


# --------------------------------------------------------------------------------------------------
# content


def _origin(scheduled: Scheduled) -> str:
    return (
        f"Rule {scheduled.rule.hash}, schedule {scheduled.schedule}, generator {GENERATOR}. "
        "Written by `atlasgen build`; edit the spec, not this file."
    )


def _equations(parts: Parts) -> list[str]:
    """The equations, a formula a line; a remark that is too long goes on below itself."""
    width = max((len(formula) for formula, _ in parts.equations), default=0)
    lines = []
    for formula, remark in parts.equations:
        head, *rest = textwrap.wrap(remark, WIDTH - width - 7) or [""]
        lines.append(f"    {formula:<{width}}   {head}".rstrip())
        lines += [" " * (width + 7) + line for line in rest]
    return lines


def _package_module(parts: Parts) -> str:
    rule, layer = parts.scheduled.rule, parts.class_name
    title = _sentence(rule.doc or f"The memory rule {rule.name}")
    exported = sorted(["RULE", layer, "op"], key=_export_order)
    module = f"atlasgen.generated.{rule.name}" if rule.name in shipped_specs() else rule.name
    return f'''"""{_literal(title)}

{_literal(chr(10).join(_equations(parts)))}

    from {module} import {layer}, op

    layer = {layer}(hidden_size=256, num_heads=4)
    y = layer(x)

{_origin(parts.scheduled)}
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from atlasgen.nn import MemoryLayer
    from atlasgen.runtime.operator import MemoryOperator
    from atlasgen.spec.rule import MemoryRule

    RULE: MemoryRule
    {layer}: type[MemoryLayer]

__all__ = [{", ".join(json.dumps(name) for name in exported)}]


def op(backend: str = "auto") -> MemoryOperator:
    """The rule as a function of tensors, on a backend of `atlasgen.compile`."""
    from atlasgen import compile

    return compile(__getattr__("RULE"), backend=backend)


def __getattr__(name: str) -> Any:
    """RULE and the layer class, made when first asked for: importing the package loads no torch."""
    if name == "RULE":
        from atlasgen import load_rule

        found: Any = load_rule(Path(__file__).with_name("rule.toml"))
    elif name == "{layer}":
        from atlasgen.nn import layer_class

        found = layer_class(__getattr__("RULE"), __name__)
    else:
        raise AttributeError(f"module {{__name__!r}} has no attribute {{name!r}}")
    globals()[name] = found
    return found
'''


def _export_order(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions, as linters sort them."""
    return (0 if name.isupper() else 1 if name[:1].isupper() else 2, name)


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _literal(text: str) -> str:
    """Text as it stands inside a triple-quoted string."""
    return text.replace("\\", "\\\\").replace('"""', '\\"""')


def _torch_module(parts: Parts) -> str:
    rule = parts.scheduled.rule
    return formatted(
        f'"""The memory rule {rule.name} as a torch program: `forward` and `backward` of all blocks.\n\n'
        "Arrays are [B, H, N, ...] over N blocks; `blocks` is atlasgen.runtime.blocks.\n"
        f'{_origin(parts.scheduled)}\n"""\n\nimport torch\n\n\n'
        f"{parts.torch_program.strip()}\n"
    )


def _plan(parts: Parts, emitted: Mapping[str, EmittedModule]) -> str:
    rule, scheduled = parts.scheduled.rule, parts.scheduled
    halo = f", {scheduled.forward.halo} rows of halo before each" if scheduled.forward.halo else ""
    lines = [
        f"# {rule.name}: launch plan",
        "",
        _sentence(rule.doc or f"The memory rule {rule.name}"),
        "",
        *_equations(parts),
        "",
        _origin(scheduled),
        "",
        f"Blocks of C = {scheduled.chunk} rows{halo}, N = blocks of a call. {_about_kernels(emitted)}",
        "",
        *_missing_kernels(parts),
    ]
    for name, module in emitted.items():
        lines += plan_lines(name.capitalize(), kernels_file(name), module)
    return "\n".join(lines).rstrip() + "\n"


def _about_kernels(emitted: Mapping[str, EmittedModule]) -> str:
    if not emitted:
        return 'There are no kernels: backend = "torch" runs `torch_program.py`, on CPUs and GPUs.'
    return (
        "Every structure computes the same rule; which one runs is a tuning choice. Strides and sizes are "
        "left out of what is read."
    )


def _missing_kernels(parts: Parts) -> list[str]:
    """The section that says what no kernel computes, and how the kernels that there are go around it."""
    entries = [
        f"- `{field} = {shown(value)}`: {sentence(reason)} Nearest that has kernels: {nearest}"
        for field, value, reason, nearest in kernel_refusals(parts.scheduled.forward)
    ]
    if not entries:
        return []
    names = {structure.schedule for structure in parts.structures.values()}
    around = [f"The kernels are those of the schedule `{name}`, which computes the same." for name in names]
    return ["## What has no kernels", "", *entries, "", *(line for text in around for line in (text, ""))]


def _manifest(parts: Parts, emitted: Mapping[str, EmittedModule], files: Mapping[str, str]) -> str:
    scheduled = parts.scheduled
    structures = {
        name: {
            "file": kernels_file(name),
            "label": module.plan.structure.label,
            "choices": module.plan.structure.to_table(),
            "forward": [kernel.name for kernel in module.plan.forward],
            "backward": [kernel.name for kernel in module.plan.backward],
            "kernels": {kernel: kernel_table(entry) for kernel, entry in module.kernels.items()},
        }
        for name, module in emitted.items()
    }
    content: dict[str, Any] = {
        "rule": scheduled.rule.name,
        "hash": scheduled.rule.hash,
        "schedule": scheduled.schedule,
        "generator": GENERATOR,
        "rows_per_block": scheduled.chunk,
        "layer": parts.class_name,
        "inputs": list(scheduled.inputs),
        "outputs": list(scheduled.outputs),
        "structures": structures,
        "without_kernels": [] if structures else _refused(scheduled),
        "files": {name: digest(text) for name, text in sorted(files.items())},
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _refused(scheduled: Scheduled) -> list[dict[str, Any]]:
    return [entry._asdict() for entry in kernel_refusals(scheduled.forward)]


def digest(text: str) -> str:
    """The sha256 of a file's content."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


# --------------------------------------------------------------------------------------------------
# files


def stale_files(files: Mapping[str, str], folder: Path) -> list[str]:
    """Why a folder is not the package of these files: one reason for each missing, other or extra file."""
    if not folder.is_dir():
        return [f"{folder.name}: not built"]
    reasons = []
    for name, text in files.items():
        path = folder / name
        if not path.is_file():
            reasons.append(f"{folder.name}/{name}: missing")
        elif path.read_bytes() != text.encode("utf-8"):
            reasons.append(f"{folder.name}/{name}: not what the spec gives now")
    extra = sorted(path.name for path in folder.iterdir() if path.name not in (*files, IGNORED))
    return reasons + [f"{folder.name}/{name}: no part of the package" for name in extra]


def write_files(files: Mapping[str, str], folder: Path) -> Path:
    """Make `folder` the package of these files; at no moment it is a part of a package.

    The files are written beside it and put in its place at once; an up-to-date folder is not touched.
    Raises ArgumentError, and changes nothing, where the folder holds what no build wrote.
    """
    if not stale_files(files, folder):
        return folder
    _refuse_foreign(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(folder)
    fresh = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.{os.getpid()}.", suffix=".new"))
    try:
        for name, text in files.items():
            (fresh / name).write_bytes(text.encode("utf-8"))
        fresh.chmod(0o755)  # temporary folders are for their owner alone
        _replace_folder(fresh, folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return folder


def _refuse_foreign(folder: Path) -> None:
    """ArgumentError where `folder` has files that the manifest in it does not list."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        found = [folder.name]
    elif folder.is_dir():
        listed = _listed_files(folder / MANIFEST)
        found = sorted(
            path.name + "/" * path.is_dir()
            for path in folder.iterdir()
            if path.name != IGNORED and (path.name not in listed or path.is_dir())
        )
    else:
        return
    if found:
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        raise ArgumentError(
            "out",
            f"the package would replace {folder}, which has files that atlasgen did not write: "
            f"{', '.join(found[:_NAMED])}{more}",
            value=str(folder.parent),
            suggestion="Move them, or choose another folder with --out; nothing was changed",
        )


def _listed_files(manifest: Path) -> set[str]:
    """The names of a package's files by its manifest, itself included; none where it is no manifest."""
    try:
        content = json.loads(manifest.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return set()
    files = content.get("files") if isinstance(content, dict) and "generator" in content else None
    return {MANIFEST, *files} if isinstance(files, dict) else set()


def _remove_leftovers(folder: Path) -> None:
    """Delete what builds left beside the folder that were killed: their processes are gone."""
    for path in folder.parent.glob(f".{folder.name}.*.*"):
        process = path.name.removeprefix(f".{folder.name}.").partition(".")[0]
        if process.isdigit() and not Path(f"/proc/{process}").exists():
            shutil.rmtree(path, ignore_errors=True)


def _replace_folder(fresh: Path, folder: Path) -> None:
    """Put `fresh` where `folder` is; the old content is left at `fresh`, or gone."""
    if not folder.exists():
        os.rename(fresh, folder)
        return
    if _exchange(fresh, folder):
        return
    old = fresh.with_suffix(".old")
    os.rename(folder, old)
    try:
        os.rename(fresh, folder)
    except OSError:
        os.rename(old, folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _exchange(first: Path, second: Path) -> bool:
    """Swap two folders in one step; False where the system has no such step."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    names = (os.fsencode(first), os.fsencode(second))
    return rename(_CURRENT_FOLDER, names[0], _CURRENT_FOLDER, names[1], _EXCHANGE) == 0

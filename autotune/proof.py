"""No configuration wins unchecked: its kernels, interpreted, against the float64 reference.

    python -m atlasgen.autotune.proof < request > answer

is the child process in which kernels are interpreted: a process whose kernels are compiled cannot do it.
"""

from __future__ import annotations

import os

if __name__ == "__main__":
    os.environ["TRITON_INTERPRET"] = "1"  # before triton is imported
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")

import hashlib
import json
import pickle
import subprocess
import sys
from dataclasses import asdict, dataclass

from atlasgen.runtime.cache import DiskCache, cache_key
from atlasgen.runtime.configuration import Configuration, source_key
from atlasgen.spec.rule import MemoryRule
from atlasgen.verify.cases import proof_case

DTYPE = "float32"
TIME_LIMIT = 600.0


@dataclass(frozen=True)
class Proof:
    """How a configuration was checked. worst: the largest error over its bar. problem: None if it passed."""

    case: str
    dtype: str
    worst: float
    problem: str | None = None


def prove(rule: MemoryRule, configuration: Configuration) -> Proof:
    """Compare y, the final state and every gradient at a small awkward shape; what passed is remembered."""
    cache = DiskCache("proofs")
    known = cache.load(_key(rule, configuration))
    if known is not None:
        return Proof(**known)
    proof = _run(rule, configuration) if _interpreting() else _run_in_child(rule, configuration)
    if proof.problem is None:
        cache.store(_key(rule, configuration), asdict(proof))
    return proof


def _interpreting() -> bool:
    """True if kernels of this process are interpreted: it had to be asked for before triton was imported."""
    from atlasgen.runtime import halo

    return type(halo.add_halo).__name__ == "InterpretedFunction"


def _key(rule: MemoryRule, configuration: Configuration) -> str:
    """Warps and stages do not exist for the interpreter."""
    every = sorted(({**configuration.tiles.kernels, "": configuration.tiles.others}).items())
    tiles = {name: [own.block_v, own.tile_rows, own.block_hidden] for name, own in every}
    return cache_key([1, source_key(rule, configuration.structure), str(proof_case(rule)), DTYPE, tiles])


def _run(rule: MemoryRule, configuration: Configuration) -> Proof:
    from atlasgen.runtime.compile import register_backend
    from atlasgen.runtime.triton_backend import TritonProgram
    from atlasgen.verify.check import verify_rule

    digest = hashlib.sha256(repr((configuration.to_table(), rule.hash)).encode()).hexdigest()[:16]
    name = f"tuned_{digest}_{id(configuration):x}"
    register_backend(name, lambda loaded: TritonProgram(loaded, configuration))
    case = proof_case(rule)
    (result,) = verify_rule(rule, [name], [DTYPE], [case])
    worst = result.worst
    ratio = worst.error / worst.bar if worst is not None else float("inf")
    problem = result.failure
    if problem is None and not result.passed and worst is not None:
        problem = f"{worst.name}: error {worst.error:.2e}, allowed {worst.bar:.0e}"
        problem += f" ({worst.problem})" if worst.problem else ""
    return Proof(str(case), DTYPE, float(f"{ratio:.3g}"), problem)


def _run_in_child(rule: MemoryRule, configuration: Configuration) -> Proof:
    case = str(proof_case(rule))
    request = pickle.dumps((rule, configuration.to_table()))
    try:
        finished = subprocess.run(
            [sys.executable, "-m", "atlasgen.autotune.proof"],
            input=request,
            capture_output=True,
            timeout=TIME_LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Proof(case, DTYPE, float("inf"), f"no answer within {TIME_LIMIT:g} s")
    if finished.returncode != 0:
        said = finished.stderr.decode("utf-8", "replace").strip().splitlines()
        return Proof(case, DTYPE, float("inf"), said[-1] if said else "the check's process ended")
    return Proof(**json.loads(finished.stdout.splitlines()[-1]))


def main() -> None:
    rule, table = pickle.loads(sys.stdin.buffer.read())
    print(json.dumps(asdict(_run(rule, Configuration.from_table(table)))))


if __name__ == "__main__":
    main()

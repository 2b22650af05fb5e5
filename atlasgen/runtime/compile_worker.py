"""The child process that compiles kernels: one JSON job per input line, one JSON answer per line.

It runs without TRITON_INTERPRET, because an interpreted function cannot be compiled, and it may
die on a job (LLVM aborts): :mod:`atlasgen.runtime.cross_compile` starts it and survives it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import sys
import tempfile
import time
from types import ModuleType
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from atlasgen.runtime.machine_code import read_kernel

_POINTER_ALIGNMENT = [["tt.divisibility", 16]]


def load_module(source: str, folder: str) -> ModuleType:
    """Import a kernel file given as text; triton reads the source again, so it lies in a file."""
    name = "kernels_" + hashlib.sha256(source.encode()).hexdigest()[:16]
    if name in sys.modules:
        return sys.modules[name]
    path = os.path.join(folder, name + ".py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def find_kernel(module: ModuleType, name: str) -> Any:
    """The @triton.jit function of that name, whatever heuristics are wrapped around it."""
    kernel = getattr(module, name, None)
    while kernel is not None and not isinstance(kernel, triton.JITFunction):
        kernel = getattr(kernel, "fn", None)
    if kernel is None:
        there = [key for key, value in vars(module).items() if hasattr(value, "arg_names")]
        raise LookupError(f"kernel: got {name!r}, the source has {', '.join(there) or 'none'}")
    return kernel


def full_signature(kernel: Any, job: dict[str, Any]) -> dict[str, str]:
    """The type of every parameter in the kernel's order; each must be given exactly once."""
    given, constants = job["signature"], job["constants"]
    names = list(kernel.arg_names)
    missing = [name for name in names if name not in given and name not in constants]
    unknown = [name for name in [*given, *constants] if name not in names]
    doubled = [name for name in given if name in constants]
    for problem, listed in (("missing", missing), ("unknown", unknown), ("given twice", doubled)):
        if listed:
            raise LookupError(f"parameters of {job['kernel']} {problem}: {', '.join(listed)}")
    return {name: given.get(name, "constexpr") for name in names}


def _constant(value: Any) -> Any:
    """A compile-time constant; "dtype:bf16" is the triton type of that name."""
    if isinstance(value, str) and value.startswith("dtype:"):
        return tl.dtype(value.removeprefix("dtype:"))
    return value


def compile_job(job: dict[str, Any], folder: str) -> dict[str, Any]:
    """Compile one job and read its figures."""
    started = time.perf_counter()
    kernel = find_kernel(load_module(job["source"], folder), job["kernel"])
    signature = full_signature(kernel, job)
    aligned = [index for index, kind in enumerate(signature.values()) if kind.startswith("*") or ":" in kind]
    source = ASTSource(
        fn=kernel,
        signature={name: kind.partition(":")[0] for name, kind in signature.items()},
        constexprs={name: _constant(value) for name, value in job["constants"].items()},
        # The launcher keeps this promise: it copies misaligned inputs. Of ints only those are divisible
        # by 16 whose type says so ("i32:16"), as strides of whole rows are.
        attrs={(index,): _POINTER_ALIGNMENT for index in aligned},
    )
    target = GPUTarget(job["backend"], job["arch"], job["warp_size"])
    options = {"num_warps": job["num_warps"], "num_stages": job["num_stages"]}
    compiled = triton.compile(source, target=target, options=options)
    figures = read_kernel(compiled, os.path.join(folder, "kernel.cubin"))
    return figures | {"seconds": round(time.perf_counter() - started, 3), "error": None}


def answer(job: dict[str, Any], folder: str) -> dict[str, Any]:
    """The figures, or the error and whether the compiler itself refused the kernel.

    What the compiler refuses it refuses again; anything else (a full disk) may pass.
    """
    try:
        return {"result": compile_job(job, folder), "lasting": True}
    except Exception as error:
        lasting = type(error).__module__.startswith("triton.")
        return {"result": {"error": f"{type(error).__name__}: {error}"}, "lasting": lasting}


def main() -> None:
    # Compilers print to standard output as they like: answers go to a copy of it, prints to stderr.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    with tempfile.TemporaryDirectory(prefix="atlasgen-compile-") as folder:
        # Results are cached by the parent; the compiler's own cache would only fill the disk.
        os.environ["TRITON_CACHE_DIR"] = os.path.join(folder, "cache")
        for line in sys.stdin:
            print(json.dumps(answer(json.loads(line), folder)), file=answers, flush=True)


if __name__ == "__main__":
    main()

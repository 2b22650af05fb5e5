"""A child process that answers JSON lines and may hang or die: the caller gets an error text."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from types import TracebackType
from typing import Any

_LONGEST_MESSAGE = 2000


class WorkerProcess:
    """`python -m module`, started when it is first asked, and again after it was lost.

    The module reads a JSON line and writes one back, an object with "result" and "lasting"; where
    it dies or exceeds the time limit, the answer is made here: {"result": {"error": why},
    "lasting": False}. The child runs in its own session, so that what it started ends with it.
    """

    def __init__(self, module: str) -> None:
        self.module = module
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: Any = None
        self._printed_before = 0

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def ask(self, request: dict[str, Any], time_limit: float) -> dict[str, Any]:
        """The answer to one request, within `time_limit` seconds, a process's start included."""
        process = self._started()
        assert process.stdin is not None
        self._printed_before = os.fstat(self._errors.fileno()).st_size
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            line = self._read_line(process, time_limit)
        except TimeoutError:
            self._stop()
            return _lost(f"TimeoutError: no answer within {time_limit:g} s")
        except (BrokenPipeError, EOFError):
            return _lost(self._cause_of_death())
        return json.loads(line)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            environment = dict(os.environ)
            environment.pop("TRITON_INTERPRET", None)
            environment.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed by _stop)
            self._process = subprocess.Popen(
                [sys.executable, "-m", self.module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=environment,
                start_new_session=True,
            )
        return self._process

    def _read_line(self, process: subprocess.Popen[bytes], time_limit: float) -> bytes:
        """One line of the answer stream; EOFError where the process closed it."""
        assert process.stdout is not None
        deadline = time.monotonic() + time_limit
        received = b""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while not received.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise TimeoutError
                # os.read takes what is there; a buffered read would wait for more.
                chunk = os.read(process.stdout.fileno(), 1 << 16)
                if not chunk:
                    raise EOFError
                received += chunk
        return received

    def _cause_of_death(self) -> str:
        assert self._process is not None
        code = self._process.wait()
        self._errors.seek(self._printed_before)
        printed = self._errors.read().decode("utf-8", "replace").strip()[-_LONGEST_MESSAGE:]
        self._stop()
        how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        return f"the compiler's process ended ({how}): {printed or 'it printed nothing'}"

    def _stop(self) -> None:
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()
        self._process = None


def _lost(error: str) -> dict[str, Any]:
    return {"result": {"error": error}, "lasting": False}

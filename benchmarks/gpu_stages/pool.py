"""Checks in several processes at once: compilers run side by side, and may die without harm."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from atlasgen.runtime.worker_process import WorkerProcess

Answered = Callable[[dict[str, Any], dict[str, Any]], None]


class Pool:
    """Worker processes that answer jobs of `benchmarks.gpu_stages.jobs`; a context manager."""

    def __init__(self, workers: int) -> None:
        self._workers = [WorkerProcess("benchmarks.gpu_stages.jobs") for _ in range(workers)]
        self._lock = threading.Lock()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: Any) -> None:
        for worker in self._workers:
            worker.__exit__(None, None, None)

    def run(self, jobs: Sequence[dict[str, Any]], answered: Answered, limit: float, deadline: float) -> int:
        """Ask all jobs, first ones first; `answered(job, answer)` runs for each, one at a time.

        A job gets `limit` seconds; a process that hangs or dies is an answer, too. Returns how many jobs
        were not reached, or not finished, by `deadline` (of time.monotonic).
        """
        waiting = list(reversed(jobs))
        cut: list[dict[str, Any]] = []

        def work(worker: WorkerProcess) -> None:
            while True:
                with self._lock:
                    left = deadline - time.monotonic()
                    if not waiting or left <= 0:
                        return
                    job = waiting.pop()
                answer = worker.ask(job, min(limit, left))["result"]
                with self._lock:
                    if "error" not in answer:
                        answered(job, answer)
                    elif time.monotonic() < deadline:
                        answered(job, {"passed": False, "failure": answer["error"]})
                    else:
                        cut.append(job)

        threads = [threading.Thread(target=work, args=(worker,), daemon=True) for worker in self._workers]
        for thread in threads[: len(jobs)]:
            thread.start()
        for thread in threads[: len(jobs)]:
            thread.join()
        return len(waiting) + len(cut)

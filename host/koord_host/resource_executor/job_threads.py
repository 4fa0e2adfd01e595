"""Jobs done in threads: one a kind, begun when there is a job, gone when there is none.

The threads are daemons: one that hangs in the kernel keeps no program from ending. Where the
system has no more threads, jobs wait until it has.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from koord_host.planning.jobs import Job, JobEnd, JobQueue, JobState


class JobThreads:
    """Implements ``koord_host.planning.jobs.Jobs``; ``on_defect`` hears of each job that raised.

    And once of a kind of jobs for which there is no thread.
    """

    def __init__(
        self,
        on_defect: Callable[[str, Exception], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._on_defect = on_defect
        self._queue = JobQueue(monotonic)
        self._changed = threading.Condition()
        self._kinds: set[str] = set()
        """Those that have a thread."""
        self._starved: set[str] = set()
        """Those that could get none."""

    def submit(self, job: Job) -> None:
        """Have a job done, instead of one with its key that waits."""
        with self._changed:
            self._queue.put(job)
            self._start_thread(job.key.kind)

    def retry(self) -> None:
        """Begin what waits since no thread could be started for it."""
        with self._changed:
            for kind in tuple(self._starved):
                self._start_thread(kind)

    def _start_thread(self, kind: str) -> None:
        if kind in self._kinds:
            return
        thread = threading.Thread(target=self._work, args=(kind,), name=kind, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            if kind not in self._starved:
                self._starved.add(kind)
                self._on_defect(kind, RuntimeError(f"{error}; the job waits"))
            return
        self._starved.discard(kind)
        self._kinds.add(kind)

    def cancel(self) -> None:
        """Drop what waits, and have stop what runs. What is submitted later is done."""
        with self._changed:
            self._queue.cancel()
            self._changed.notify_all()

    def wait(self, seconds: float) -> tuple[JobState, ...]:
        """Wait until all is done, for so long at most; what is left then."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue.idle, seconds)
            return self._queue.states()

    def states(self) -> tuple[JobState, ...]:
        """All that runs, then all that waits, in its turn."""
        with self._changed:
            return self._queue.states()

    def take_overdue(self) -> tuple[JobState, ...]:
        """Jobs that became overdue since the last call."""
        with self._changed:
            return self._queue.take_overdue()

    def ended(self) -> Mapping[tuple[str, JobEnd], int]:
        """Return the number of ended jobs by kind and end."""
        with self._changed:
            return dict(self._queue.ended)

    def _work(self, kind: str) -> None:
        """Do the jobs of a kind until none waits."""
        while True:
            with self._changed:
                running = self._queue.begin(kind)
                if running is None:
                    # Under the lock: whoever submits from now on starts another thread.
                    self._kinds.discard(kind)
                    self._changed.notify_all()
                    return
            defect: Exception | None = None
            try:
                running.job.work(running.token)
            except Exception as error:
                defect = error
            with self._changed:
                self._queue.end(running, failed=defect is not None)
                self._changed.notify_all()
            if defect is not None:
                self._on_defect(kind, defect)

"""Jobs that are done when a test says so, in the test's thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from koord_host.planning.jobs import Job, JobEnd, JobQueue, JobState


class HeldJobs:
    """Implements ``koord_host.planning.jobs.Jobs``: all waits until ``run`` is called."""

    def __init__(self, monotonic: Callable[[], float] = lambda: 0.0) -> None:
        self.queue = JobQueue(monotonic)
        self._kinds: dict[str, None] = {}

    def submit(self, job: Job) -> None:
        self._kinds[job.key.kind] = None
        self.queue.put(job)

    def retry(self) -> None:
        self.run()

    def run(self, *kinds: str) -> None:
        """Do all that waits, of some kinds if named."""
        for kind in kinds or tuple(self._kinds):
            while running := self.queue.begin(kind):
                running.job.work(running.token)
                self.queue.end(running)

    def cancel(self) -> None:
        self.queue.cancel()

    def wait(self, seconds: float) -> tuple[JobState, ...]:
        self.run()
        return self.queue.states()

    def states(self) -> tuple[JobState, ...]:
        return self.queue.states()

    def take_overdue(self) -> tuple[JobState, ...]:
        return self.queue.take_overdue()

    def ended(self) -> Mapping[tuple[str, JobEnd], int]:
        return dict(self.queue.ended)

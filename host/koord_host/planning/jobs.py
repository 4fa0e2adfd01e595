"""Slow effects as jobs: which one waits, which one runs and until when, how each ended. No IO.

At most one job of a kind runs at a time, so that what a kind works on needs no locks, and
a job that hangs holds up its own kind alone. A newer job replaces one that waits with
the same kind, target and owner; one that runs is left to end.

Nothing can stop a thread in the kernel. Work asks its token between two steps whether it
is to go on; a job that still runs some seconds after its deadline is overdue, which is reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

NEVER = float("inf")
OVERDUE_SECONDS = 5.0
"""Work that asks its token stops well within these."""


class JobEnd(StrEnum):
    """End of a job."""

    DONE = "done"
    FAILED = "failed"  # with an exception: a defect
    CANCELLED = "cancelled"  # stopped on request, or dropped before it began
    DEADLINE = "deadline"  # stopped because its time was over
    REPLACED = "replaced"  # a newer one took its place before it began
    EXPIRED = "expired"  # waited for longer than it is worth


class CancelToken:
    """Signal for work to stop; for any thread.

    ``seconds`` is how long it may take, from now on.
    """

    def __init__(self, monotonic: Callable[[], float], seconds: float) -> None:
        self.end = JobEnd.DONE
        """``CANCELLED`` or ``DEADLINE`` once the work has to stop."""
        self._monotonic = monotonic
        self._seconds = seconds
        self._deadline = monotonic() + seconds
        self._cancelled = False

    @property
    def reason(self) -> str:
        """Reason for which the work has to stop, in words; "" if it need not."""
        if self.end is JobEnd.DONE:
            return ""
        if self.end is JobEnd.CANCELLED:
            return "it was cancelled"
        return f"it took longer than {self._seconds:g} s"

    def remaining(self) -> float:
        """Seconds until the deadline; not below 0."""
        return max(self._deadline - self._monotonic(), 0.0)

    def overdue(self) -> bool:
        """True if the deadline is long over."""
        return self._monotonic() >= self._deadline + OVERDUE_SECONDS

    def cancel(self) -> None:
        """Have work stop."""
        self._cancelled = True

    def cancelled(self) -> bool:
        """True if work is to stop now; it checks between two steps."""
        if self._cancelled:
            self.end = JobEnd.CANCELLED
        elif self.end is JobEnd.DONE and not self.remaining():
            self.end = JobEnd.DEADLINE
        return self.end is not JobEnd.DONE


def uncancelled() -> CancelToken:
    """A token for work that cannot be cancelled."""
    return CancelToken(lambda: 0.0, NEVER)


class JobKey(NamedTuple):
    """Identity of a job; ``target`` is "" for the node, ``owner`` who wants it."""

    kind: str
    target: str = ""
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """Something slow to be done.

    ``seconds`` is how long it may take, ``wait`` how long it may wait before it begins: what
    waited longer is dropped.
    """

    key: JobKey
    seconds: float
    work: Callable[[CancelToken], None]
    wait: float = NEVER


class JobState(NamedTuple):
    """A job that waits or runs; ``state`` is "waiting", "running" or "overdue".

    ``age`` is seconds since it was wanted or since it began, ``seconds`` how many it may run.
    """

    key: JobKey
    state: str
    age: float
    seconds: float


class Jobs(Protocol):
    """Acceptance of slow effects; for any thread."""

    def submit(self, job: Job) -> None:
        """Have a job done, instead of one with its key that waits. Raises nothing."""
        ...

    def retry(self) -> None:
        """Begin what waits since it could not begin; to be called now and then."""
        ...

    def cancel(self) -> None:
        """Drop what waits, and have stop what runs. What is submitted later is done."""
        ...

    def wait(self, seconds: float) -> tuple[JobState, ...]:
        """Wait until all is done, for so long at most; what is left then."""
        ...

    def states(self) -> tuple[JobState, ...]:
        """All that runs, then all that waits, in its turn."""
        ...

    def take_overdue(self) -> tuple[JobState, ...]:
        """Jobs that became overdue since the last call."""
        ...

    def ended(self) -> Mapping[tuple[str, JobEnd], int]:
        """Return the number of ended jobs by kind and end."""
        ...


@dataclass(slots=True)
class RunningJob:
    """A job that runs."""

    job: Job
    token: CancelToken
    since: float
    reported: bool = False


class _Waiting(NamedTuple):
    job: Job
    since: float


class JobQueue:
    """Waiting and running jobs. Callers in several threads hold a lock."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.ended: Counter[tuple[str, JobEnd]] = Counter()
        self._monotonic = monotonic
        # A job that takes another's place keeps its turn.
        self._waiting: dict[JobKey, _Waiting] = {}
        self._running: dict[str, RunningJob] = {}

    @property
    def idle(self) -> bool:
        """True if nothing waits or runs."""
        return not self._waiting and not self._running

    def put(self, job: Job) -> None:
        """Have a job wait, in the place of one with its key."""
        if job.key in self._waiting:
            self.ended[job.key.kind, JobEnd.REPLACED] += 1
        self._waiting[job.key] = _Waiting(job, self._monotonic())

    def begin(self, kind: str) -> RunningJob | None:
        """The next job of a kind, which begins now; ``None`` where none waits or one runs."""
        if kind in self._running:
            return None
        now = self._monotonic()
        for key in [key for key in self._waiting if key.kind == kind]:
            job, since = self._waiting.pop(key)
            if now > since + job.wait:
                self.ended[kind, JobEnd.EXPIRED] += 1
                continue
            token = CancelToken(self._monotonic, job.seconds)
            self._running[kind] = RunningJob(job, token, now)
            return self._running[kind]
        return None

    def end(self, running: RunningJob, *, failed: bool = False) -> None:
        """A job has ended."""
        kind = running.job.key.kind
        del self._running[kind]
        self.ended[kind, JobEnd.FAILED if failed else running.token.end] += 1

    def cancel(self) -> None:
        """Drop what waits, and have stop what runs."""
        for key in self._waiting:
            self.ended[key.kind, JobEnd.CANCELLED] += 1
        self._waiting.clear()
        for running in self._running.values():
            running.token.cancel()

    def states(self) -> tuple[JobState, ...]:
        """All that runs, then all that waits, in its turn."""
        now = self._monotonic()
        running = [_state(job, now) for job in self._running.values()]
        waiting = [
            JobState(key, "waiting", now - queued.since, queued.job.seconds)
            for key, queued in self._waiting.items()
        ]
        return (*running, *waiting)

    def take_overdue(self) -> tuple[JobState, ...]:
        """Jobs that became overdue since the last call."""
        now = self._monotonic()
        found = [job for job in self._running.values() if job.token.overdue() and not job.reported]
        for job in found:
            job.reported = True
        return tuple(_state(job, now) for job in found)


def _state(job: RunningJob, now: float) -> JobState:
    word = "overdue" if job.token.overdue() else "running"
    return JobState(job.job.key, word, now - job.since, job.job.seconds)


class InlineJobs:
    """Does each job where it is submitted: for accelerated time, and for who can wait."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._queue = JobQueue(monotonic)

    def submit(self, job: Job) -> None:
        """Do it now.

        Raises:
            Exception: what the job raises.
        """
        self._queue.put(job)
        while running := self._queue.begin(job.key.kind):
            failed = True
            try:
                running.job.work(running.token)
                failed = False
            finally:
                self._queue.end(running, failed=failed)

    def retry(self) -> None:
        """Nothing waits."""

    def cancel(self) -> None:
        """Nothing waits."""
        self._queue.cancel()

    def wait(self, seconds: float) -> tuple[JobState, ...]:
        """Nothing is left."""
        return self._queue.states()

    def states(self) -> tuple[JobState, ...]:
        """None, but for who asks from within a job."""
        return self._queue.states()

    def take_overdue(self) -> tuple[JobState, ...]:
        """Jobs that became overdue since the last call."""
        return self._queue.take_overdue()

    def ended(self) -> Mapping[tuple[str, JobEnd], int]:
        """Return the number of ended jobs by kind and end."""
        return dict(self._queue.ended)

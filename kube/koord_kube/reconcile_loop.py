"""Reconciles keys, mostly names of objects, by several workers."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable

import anyio
from koord_service.log_deduplicator import LogDeduplicator

from koord_kube.core.warnings import OnWarning, ignore_warning
from koord_kube.protocol.api import ApiError, NotLeadingError
from koord_kube.shared_backoff import SharedBackoff
from koord_kube.work_queue import WorkQueue

DEADLINE_SECONDS = 120.0
"""For one reconciliation; far beyond what waiting for one's turn to write takes."""


class ReconcileLoop:
    """Calls ``reconcile`` for each key that is added, with so many ``workers`` at most.

    One key is never reconciled twice at the same time. A call may return in how many seconds the
    key is to be reconciled again, unless it is added earlier. A call that raises, or takes longer
    than ``deadline`` seconds, is repeated later; see ``WorkQueue``. If the API server asked for a
    longer pause, that counts. What failed without an answer is repeated once ``backoff`` hears of
    a success: whoever calls the API server passes its client's.

    ``on_warning`` gets a line for each kind of failure, once until no key fails any more.
    """

    def __init__(
        self,
        name: str,
        reconcile: Callable[[str], Awaitable[float | None]],
        *,
        workers: int = 4,
        deadline: float = DEADLINE_SECONDS,
        on_warning: OnWarning = ignore_warning,
        queue: WorkQueue | None = None,
        backoff: SharedBackoff | None = None,
        due: Callable[[], Iterable[str]] | None = None,
        every: float = 0.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """``name`` is for warnings and metrics. ``due`` returns keys to add ``every`` so often."""
        self.name = name
        self._reconcile = reconcile
        self._workers = workers
        self._deadline = deadline
        self._on_warning = on_warning
        self._queue = queue if queue is not None else WorkQueue(monotonic=monotonic)
        self._backoff = backoff if backoff is not None else SharedBackoff()
        self._due = due
        self._every = every
        self._warnings = LogDeduplicator()
        self._last_failure = ""
        self.handled = 0
        """Number of successful reconciliations."""
        self.failures = 0
        """Number of failed reconciliations."""

    def __len__(self) -> int:
        """Number of keys that wait or are being reconciled."""
        return len(self._queue)

    @property
    def problem(self) -> str:
        """Number of failing keys, and the reason of the last failure; "" if none fails."""
        failing = self._queue.failing
        return f"{self.name}: {failing} to be retried; {self._last_failure}" if failing else ""

    def add(self, key: str, after: float = 0.0) -> None:
        """Reconcile a key in ``after`` seconds, or earlier if it waits already."""
        self._queue.add(key, after)

    async def run(self) -> None:
        """Reconcile until cancelled; a key whose call is cancelled is due again."""
        with self._backoff.listening(self._queue.bring_forward):
            await self._run()

    async def _run(self) -> None:
        async with anyio.create_task_group() as group:
            if self._due is not None:
                group.start_soon(self._add_due, self._due)
            for _ in range(self._workers):
                group.start_soon(self._work)

    async def _add_due(self, due: Callable[[], Iterable[str]]) -> None:
        while True:
            for key in due():
                self._queue.add(key)
            await anyio.sleep(self._every)

    async def _work(self) -> None:
        while True:
            await self._handle(await self._queue.get())

    async def _handle(self, key: str) -> None:
        again = None
        try:
            with anyio.move_on_after(self._deadline) as scope:
                again = await self._reconcile(key)
            if scope.cancelled_caught:
                raise ApiError(f"not done within {self._deadline:g} s")
        except Exception as error:  # whatever it is, the other keys must be handled
            self._failed(key, error)
        except BaseException:
            self._queue.put_back(key)
            raise
        else:
            self._succeeded(key)
            if again is not None:
                self._queue.add(key, again)

    def _succeeded(self, key: str) -> None:
        self.handled += 1
        if self._queue.done(key) and not self._queue.failing:
            self._warnings.clear()
            self._on_warning(f"{self.name}: all that failed is done now")

    def _failed(self, key: str, error: Exception) -> None:
        self.failures += 1
        reason = " ".join(str(error).split()) or type(error).__name__
        if not isinstance(error, ApiError | ValueError | OSError):
            reason = f"{type(error).__name__}: {reason}"  # a defect: its type says more
        if isinstance(error, ApiError):
            self._queue.retry(key, error.retry_after, was_answered=not error.is_outage)
        else:
            self._queue.retry(key)
        self._last_failure = f"{key}: {reason}"
        # The same failure of thousands of nodes is one line.
        kind = reason.replace(key, "")
        if not isinstance(error, NotLeadingError) and self._warnings.is_new(kind):
            self._on_warning(f"{self.name}: {self._last_failure}; retried with growing waits")

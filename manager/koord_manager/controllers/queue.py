"""Work to be done for keys, mostly names of nodes: each once at a time, failures again later."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from koord_kube.api import ApiError, NotLeadingError
from koord_service.backoff import Backoff

from koord_manager.controllers.work_schedule import WorkSchedule

_RANDOM = random.SystemRandom()


def _untold(_line: str) -> None:
    pass


class WorkQueue:
    """Hands keys to a coroutine.

    A key that was added many times before its turn is handled once, and never twice at the
    same time. One whose handling raised is retried after a wait that grows from ``first`` to
    ``cap`` seconds, or after what the API server asked for if that is longer; adding it does
    not cut that wait short. ``tell`` gets a line for people for each kind of failure, once
    until all keys are well again.
    """

    def __init__(
        self,
        name: str,
        *,
        tell: Callable[[str], None] = _untold,
        first: float = 0.2,
        cap: float = 60.0,
        monotonic: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = _RANDOM.random,
    ) -> None:
        """``name`` says in lines whose queue it is; ``chance`` gives numbers from 0 to 1."""
        self.name = name
        self._tell = tell
        self._first, self._cap = first, cap
        self._monotonic = monotonic
        self._chance = chance
        self._schedule = WorkSchedule()
        self._news = asyncio.Event()
        self._failing: dict[str, Backoff] = {}
        self._told: set[str] = set()
        self._last_failure = ""
        self.handled = 0
        """How many times a key was handled well."""
        self.failures = 0
        """How many times one was not."""

    def __len__(self) -> int:
        """How many keys wait or are under way."""
        return len(self._schedule) + self._schedule.under_way

    @property
    def trouble(self) -> str:
        """How many keys could not be handled, and why the last of them; "" while fine."""
        if not self._failing:
            return ""
        return f"{self.name}: {len(self._failing)} to be retried; {self._last_failure}"

    def add(self, key: str, after: float = 0.0) -> None:
        """Have a key handled in ``after`` seconds, or earlier where it waits already."""
        self._schedule.add(key, self._monotonic() + after)
        self._news.set()

    async def run(self, handle: Callable[[str], Awaitable[None]], workers: int = 4) -> None:
        """For ever; cancelled, it cancels what is under way, which is then due again."""
        async with asyncio.TaskGroup() as group:
            while True:
                self._news.clear()
                while self._schedule.under_way < workers:
                    key = self._schedule.take(self._monotonic())
                    if key is None:
                        break
                    group.create_task(self._handle(handle, key))
                await self._wait(full=self._schedule.under_way >= workers)

    async def _wait(self, *, full: bool) -> None:
        """Until there may be something to do."""
        at = None if full else self._schedule.next_at()
        wait = None if at is None else max(0.0, at - self._monotonic())
        with suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await self._news.wait()

    async def _handle(self, handle: Callable[[str], Awaitable[None]], key: str) -> None:
        try:
            await handle(key)
        except Exception as error:  # whatever it is, the other keys are to be handled
            self._failed(key, error)
        except BaseException:
            self._schedule.failed(key, self._monotonic())
            raise
        else:
            self._well(key)
        finally:
            self._news.set()

    def _well(self, key: str) -> None:
        self.handled += 1
        self._schedule.done(key)
        if self._failing.pop(key, None) is not None and not self._failing:
            self._told.clear()
            self._tell(f"{self.name}: all that failed is done now")

    def _failed(self, key: str, error: Exception) -> None:
        self.failures += 1
        backoff = self._failing.get(key)
        if backoff is None:
            backoff = Backoff(self._first, self._cap, chance=self._chance)
            self._failing[key] = backoff
        wait = backoff.next()
        reason = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, ApiError):
            wait = max(wait, error.retry_after)
        elif not isinstance(error, ValueError | OSError):
            reason = f"{type(error).__name__}: {reason}"  # a defect: its type says more
        self._schedule.failed(key, self._monotonic() + wait)
        self._last_failure = f"{key}: {reason}"
        # The same trouble of thousands of nodes is one line.
        kind = reason.replace(key, "")
        if kind not in self._told and not isinstance(error, NotLeadingError):  # as it should be
            self._told.add(kind)
            self._tell(f"{self.name}: {self._last_failure}; retried, with longer and longer waits")

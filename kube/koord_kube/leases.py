"""Stands for a Lease: reads, takes, renews and gives it back as ``election`` says."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

from koord_kube.api import Api, ApiError, ConflictError, NotFoundError, Object
from koord_kube.election import Action, Election, Step, Timing, given_back, record_of, with_record
from koord_kube.resources import LEASES

_RANDOM = random.SystemRandom()
_TRIES = 3  # of giving it back


def steady() -> float:
    """Seconds that also pass while the machine sleeps: meanwhile others may have come to lead."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _untold(_line: str) -> None:
    pass


class Elector:
    """A candidate for the Lease ``name`` in ``namespace``; ``run`` it beside all else.

    ``api`` must not be one whose writes wait for others' turns: a renewal that queues behind
    them comes too late. ``identity`` has to be this run's alone. ``tell`` gets a line for
    people, once for each trouble.
    """

    def __init__(
        self,
        api: Api,
        identity: str,
        *,
        name: str,
        namespace: str,
        timing: Timing | None = None,
        tell: Callable[[str], None] = _untold,
        clock: Callable[[], float] = steady,
        wall: Callable[[], float] = time.time,
        chance: Callable[[], float] = _RANDOM.random,
    ) -> None:
        self._api = api
        self._name, self._namespace = name, namespace
        self._about = f"leases {namespace}/{name}"
        self._tell = tell
        self._clock = clock
        self._wall = wall
        self._election = Election(identity, timing or Timing(), chance)
        self._lease: Object = {}
        self._news = asyncio.Event()
        self.trouble = ""
        """Why the last request came to nothing, in a line; "" where it did not."""

    @property
    def identity(self) -> str:
        return self._election.identity

    @property
    def leads(self) -> bool:
        """Whether this program leads at this moment."""
        return self._election.leads(self._clock())

    @property
    def leader(self) -> str:
        """The identity of whoever holds the Lease, as last seen; "" is nobody."""
        return self._election.leader

    @property
    def term(self) -> int:
        """The Lease's resource version when this program last began to lead; 0 before.

        Each leader's is greater than those of all leaders before it.
        """
        return self._election.term

    async def wait_leads(self) -> None:
        """Until it leads."""
        while not self.leads:
            await self._news.wait()

    async def wait_lost(self) -> None:
        """Until the term that now runs is over; by its deadline, whatever else hangs."""
        term = self.term
        while self.leads and self.term == term:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._election.left(self._clock())):
                    await self._news.wait()

    async def run(self) -> None:
        """Stand for it until cancelled or ``release``d, whatever becomes of the API."""
        step = Step(Action.READ)
        while not self._election.stopped:
            before = self.leads, self.term
            step = await self._do(step.action)
            if (self.leads, self.term) != before:
                self._announce()
            await asyncio.sleep(step.wait)

    async def release(self) -> None:
        """Lead no more, from now on, and give the Lease back if it is held.

        What only a leader does has to have ended before: the next one may lead at once.
        """
        self._election.stop()
        self._announce()
        for _ in range(_TRIES):
            try:
                async with self._in_time():
                    await self._give_back()
            except ConflictError:  # a renewal of our own that was under way
                continue
            except NotFoundError:
                return
            except (ApiError, TimeoutError) as error:
                if self.leader == self.identity:
                    reason = str(error) or f"{self._about}: no answer in time"
                    more = "(the Lease is not given back, the next leader waits for it)"
                    self._tell(f"{reason} {more}")
            return

    async def _do(self, action: Action) -> Step:
        try:
            async with self._in_time():
                step = await (self._read() if action is Action.READ else self._write(action))
        except TimeoutError:
            return self._troubled(ApiError(f"{self._about}: no answer in time"))
        except ApiError as error:
            return self._troubled(error)
        self.trouble = ""
        return step

    async def _read(self) -> Step:
        try:
            self._lease = await self._api.get(LEASES, self._name, self._namespace)
        except NotFoundError:
            self._lease = {
                "apiVersion": f"{LEASES.group}/{LEASES.version}",
                "kind": LEASES.kind,
                "metadata": {"name": self._name, "namespace": self._namespace},
            }
            return self._election.absent(self._clock())
        return self._election.found(record_of(self._lease), self._clock())

    async def _write(self, action: Action) -> Step:
        asked_at = self._clock()
        record = self._election.wish(self._now())
        given = with_record(self._lease, record)
        if action is Action.CREATE:
            self._lease = await self._api.create(LEASES, given, self._namespace)
        else:
            self._lease = await self._api.replace(LEASES, self._name, given, self._namespace)
        version = _number(self._lease)
        return self._election.written(record, version, asked_at, self._clock())

    async def _give_back(self) -> None:
        lease = await self._api.get(LEASES, self._name, self._namespace)
        record = record_of(lease)
        if record.holder == self.identity:
            given = with_record(lease, given_back(record, self._now()))
            await self._api.replace(LEASES, self._name, given, self._namespace)

    def _troubled(self, error: ApiError) -> Step:
        if not self.trouble:
            self._tell(str(error))
        self.trouble = str(error)
        return self._election.failed(error.retry_after)

    def _announce(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _in_time(self) -> asyncio.Timeout:
        """Half the deadline: after a request that hangs there is time for another."""
        return asyncio.timeout(self._election.timing.deadline / 2)

    def _now(self) -> str:
        """As Kubernetes' MicroTime."""
        return datetime.fromtimestamp(self._wall(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _number(lease: Object) -> int:
    version = str(lease["metadata"]["resourceVersion"])
    if not (version.isascii() and version.isdigit()):
        raise ApiError(f'leases: the resource version is "{version}"; expected a number')
    return int(version)

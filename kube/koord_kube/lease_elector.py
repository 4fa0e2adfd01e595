"""Competes for a Lease: reads, takes, renews and releases it by ``core.election``."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import anyio
from koord_model.times import rfc3339_micro

from koord_kube.core.election import (
    Election,
    ElectionStep,
    ElectionTiming,
    LeaseAction,
    record_of,
    released_record,
    with_record,
)
from koord_kube.core.warnings import OnWarning, ignore_warning
from koord_kube.protocol.api import Api, ApiError, ConflictError, NotFoundError, Object
from koord_kube.protocol.resources import LEASES

_RANDOM = random.SystemRandom()
_TRIES = 3  # of releasing it


def steady() -> float:
    """Seconds that also pass while the machine sleeps, when others may become the leader."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class LeaseElector:
    """A candidate for the Lease ``name`` in ``namespace``; ``run`` it beside all else.

    The writes of ``api`` must not wait behind those of others: a late renewal loses the Lease.
    Only this run of the program may use ``identity``. ``on_warning`` gets a line for people,
    once for each failure.
    """

    def __init__(
        self,
        api: Api,
        identity: str,
        *,
        name: str,
        namespace: str,
        timing: ElectionTiming | None = None,
        on_warning: OnWarning = ignore_warning,
        clock: Callable[[], float] = steady,
        wall: Callable[[], float] = time.time,
        chance: Callable[[], float] = _RANDOM.random,
    ) -> None:
        self._api = api
        self._name, self._namespace = name, namespace
        self._about = f"leases {namespace}/{name}"
        self._on_warning = on_warning
        self._clock = clock
        self._wall = wall
        self._election = Election(identity, timing or ElectionTiming(), chance)
        self._lease: Object = {}
        self._changed = anyio.Event()
        self.trouble = ""
        """Why the last request failed, in a line; "" if it did not."""

    @property
    def identity(self) -> str:
        return self._election.identity

    @property
    def leads(self) -> bool:
        """Whether this program leads at this moment."""
        return self._election.leads(self._clock())

    @property
    def leader(self) -> str:
        """The identity of the holder of the Lease as last seen; "" without one."""
        return self._election.leader

    @property
    def term(self) -> int:
        """The Lease's resource version when this program last began to lead; 0 before.

        Each leader's is greater than those of all leaders before it.
        """
        return self._election.term

    async def wait_leads(self) -> None:
        """Wait until this program leads."""
        while not self.leads:
            await self._changed.wait()

    async def wait_lost(self) -> None:
        """Wait until the current term is over: at its deadline at the latest, whatever hangs."""
        term = self.term
        while self.leads and self.term == term:
            with anyio.move_on_after(self._election.seconds_left(self._clock())):
                await self._changed.wait()

    async def run(self) -> None:
        """Take part until cancelled or ``release``d, whatever becomes of the API."""
        step = ElectionStep(LeaseAction.READ)
        while not self._election.stopped:
            before = self.leads, self.term
            step = await self._do(step.action)
            if (self.leads, self.term) != before:
                self._wake()
            await anyio.sleep(step.wait)

    async def release(self) -> None:
        """Stop leading for good, and release the Lease if this program holds it.

        The leader's work has to have ended before: the next leader may start at once.
        """
        self._election.stop()
        self._wake()
        for _ in range(_TRIES):
            try:
                with self._in_time():
                    await self._release()
            except ConflictError:  # a renewal of its own was still in flight
                continue
            except NotFoundError:
                return
            except (ApiError, TimeoutError) as error:
                if self.leader == self.identity:
                    reason = str(error) or f"{self._about}: no answer in time"
                    more = "(the Lease is not released; the next leader waits until it expires)"
                    self._on_warning(f"{reason} {more}")
            return

    async def _do(self, action: LeaseAction) -> ElectionStep:
        try:
            with self._in_time():
                step = await (self._read() if action is LeaseAction.READ else self._write(action))
        except TimeoutError:
            return self._troubled(ApiError(f"{self._about}: no answer in time"))
        except ApiError as error:
            return self._troubled(error)
        self.trouble = ""
        return step

    async def _read(self) -> ElectionStep:
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

    async def _write(self, action: LeaseAction) -> ElectionStep:
        asked_at = self._clock()
        record = self._election.desired_record(self._now())
        given = with_record(self._lease, record)
        if action is LeaseAction.CREATE:
            self._lease = await self._api.create(LEASES, given, self._namespace)
        else:
            self._lease = await self._api.replace(LEASES, self._name, given, self._namespace)
        version = _number(self._lease)
        return self._election.written(record, version, asked_at, self._clock())

    async def _release(self) -> None:
        lease = await self._api.get(LEASES, self._name, self._namespace)
        record = record_of(lease)
        if record.holder == self.identity:
            given = with_record(lease, released_record(record, self._now()))
            await self._api.replace(LEASES, self._name, given, self._namespace)

    def _troubled(self, error: ApiError) -> ElectionStep:
        if not self.trouble:
            self._on_warning(str(error))
        self.trouble = str(error)
        return self._election.failed(error.retry_after)

    def _wake(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    def _in_time(self) -> AbstractContextManager[anyio.CancelScope]:
        """Half the deadline: after a request that hangs there is time for another."""
        return anyio.fail_after(self._election.timing.deadline / 2)

    def _now(self) -> str:
        """As Kubernetes' MicroTime."""
        return rfc3339_micro(self._wall())


def _number(lease: Object) -> int:
    version = str(lease["metadata"]["resourceVersion"])
    if not (version.isascii() and version.isdigit()):
        raise ApiError(f'leases: the resource version is "{version}"; expected a number')
    return int(version)

"""Competes for a Lease: follows, takes, renews and releases it by ``core.election``."""

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
from koord_kube.core.reflector import ReflectorTiming
from koord_kube.core.warnings import OnWarning, ignore_warning
from koord_kube.informer import Informer
from koord_kube.protocol.api import Api, ApiError, ConflictError, NotFoundError, Object
from koord_kube.protocol.request import OBJECT
from koord_kube.protocol.resources import LEASES

_RANDOM = random.SystemRandom()
_TRIES = 3  # of releasing it
_WATCH_TIMING = ReflectorTiming(cap=5.0)
"""A release while the watch is away is seen a retry period later; one object is cheap to list."""


def steady() -> float:
    """Seconds that also pass while the machine sleeps, when others may become the leader."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class LeaseElector:
    """A candidate for the Lease ``name`` in ``namespace``; ``run`` it beside all else.

    A watch shows it a renewal or a release at once. It still reads the Lease where nothing was
    shown for a retry period, so that all goes on, if later, where the watch is refused or away.
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
        self._absent: Object = {
            "apiVersion": f"{LEASES.group}/{LEASES.version}",
            "kind": LEASES.kind,
            "metadata": {"name": name, "namespace": namespace},
        }
        self._lease = self._absent
        self._shown = self._absent
        self._is_shown = anyio.Event()
        self._informer = Informer(
            api,
            LEASES,
            name=name,
            namespace=namespace,
            decode=OBJECT.decode,
            on_change=self._show,
            on_warning=self._warn_of_watch,
            chance=chance,
            timing=_WATCH_TIMING,
        )
        self._changed = anyio.Event()
        self._known = False, 0
        self.problem = ""
        """Reason for which the last request failed, in a line; "" if it did not."""

    @property
    def identity(self) -> str:
        return self._election.identity

    @property
    def leads(self) -> bool:
        """True if this program leads at this moment."""
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
        async with anyio.create_task_group() as group:
            group.start_soon(self._informer.run)
            await self._take_part()
            group.cancel_scope.cancel()

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

    async def _take_part(self) -> None:
        step = ElectionStep(LeaseAction.READ)
        while not self._election.stopped:
            step = await self._do(step.action)
            self._wake_on_change()
            step = await self._pause(step)

    async def _pause(self, step: ElectionStep) -> ElectionStep:
        """Wait until it is time for ``step``, or for another one if the watch shows a reason."""
        end = anyio.current_time() + step.wait
        while not self._election.stopped:
            with anyio.move_on_after(end - anyio.current_time()):
                await self._is_shown.wait()
            if not self._is_shown.is_set():
                break
            self._is_shown = anyio.Event()
            if (other := self._observe(self._shown)) is not None:
                step, end = other, anyio.current_time() + other.wait
                self._wake_on_change()
        return step

    def _show(self, _key: str, _before: Object | None, lease: Object | None) -> None:
        """Take what the watch shows; one that is deleted expires by itself."""
        if lease is not None:
            self._shown = lease
            self._is_shown.set()

    def _observe(self, lease: Object) -> ElectionStep | None:
        try:
            record, version = record_of(lease), _number(lease)
        except ApiError:
            return ElectionStep(LeaseAction.READ)  # which says what is wrong with it
        step = self._election.observed(record, version, self._clock())
        if step is not None:
            self._lease = self._absent | lease  # in a list it has no kind
        return step

    async def _do(self, action: LeaseAction) -> ElectionStep:
        try:
            with self._in_time():
                step = await (self._read() if action is LeaseAction.READ else self._write(action))
        except TimeoutError:
            return self._note_problem(ApiError(f"{self._about}: no answer in time"))
        except ConflictError:  # somebody else was faster
            step = self._election.failed()
        except ApiError as error:
            return self._note_problem(error)
        self.problem = ""
        return step

    async def _read(self) -> ElectionStep:
        try:
            found = await self._api.get(LEASES, self._name, self._namespace)
        except NotFoundError:
            self._lease = self._absent
            return self._election.absent(self._clock())
        self._lease = found
        return self._election.found(record_of(found), _number(found), self._clock())

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

    def _note_problem(self, error: ApiError) -> ElectionStep:
        if not self.problem:
            self._on_warning(str(error))
        self.problem = str(error)
        return self._election.failed(error.retry_after)

    def _warn_of_watch(self, line: str) -> None:
        """Only if it is the watch alone that fails."""
        if not self.problem:
            seconds = self._election.timing.retry
            self._on_warning(f"{line} (the Lease is read every {seconds:g} s instead)")

    def _wake_on_change(self) -> None:
        known, self._known = self._known, (self.leads, self.term)
        if known != self._known:
            self._wake()

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

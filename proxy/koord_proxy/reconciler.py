"""Bringing the records in line with what the runtime has."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

from koord_service.log_deduplicator import LogDeduplicator
from koord_service.logs import get_log

from koord_proxy.contract.runtime_client import (
    NotKubernetesError,
    RuntimeCallError,
    RuntimeClient,
    RuntimeListItem,
    RuntimeNotFoundError,
)
from koord_proxy.lookup_client import LookupClient
from koord_proxy.rules.merge import ContainerHookRequest
from koord_proxy.rules.records import (
    MissedHookCall,
    RecordKind,
    RuntimeRecord,
    identity,
    names_of,
    put_into_pod,
    with_limits_in_force,
)
from koord_proxy.store import RecordStore

log = get_log("koord_proxy.reconcile")

RETRY_SECONDS = 1.0
LEFT_OVER_SECONDS = 240.0
"""Time for the runtime to finish calls from before a crash: twice the kubelet's timeout."""
LOOK_SECONDS = 2.0
"""Interval at which such results are looked for."""
ADOPT_SECONDS = 2.0
"""Time for which a call waits while its pod or container is looked up."""


class RecordReconciler:
    """Compares the store with the runtime's lists, and looks up what is unknown.

    That is done at start, and whenever ``wake`` says so. At start, and when the runtime was away,
    the limits of containers that are known are looked up too: somebody may have changed them
    past the proxy. ``missed`` says which hooks something that is adopted went without.
    """

    def __init__(
        self,
        store: RecordStore,
        connect: Callable[[], RuntimeClient],
        missed: Callable[[RuntimeRecord], Iterable[MissedHookCall]] = lambda _: (),
    ) -> None:
        self._store = store
        self._connect = connect
        self._lookups = LookupClient(connect)
        self._missed = missed
        self._due = asyncio.Event()
        self._limits_due = True
        self.done = False

    def wake(self) -> None:
        """Compare again: something is unknown here."""
        self._due.set()

    def runtime_returned(self) -> None:
        """Compare all again: the runtime was away, and who knows who talked to it since."""
        self._limits_due = True
        self.wake()

    async def run_forever(self) -> None:
        """Reconcile whenever that is due, the first time now."""
        try:
            while True:
                await self.run()
                await self._due.wait()
                self._due.clear()
        finally:
            await self._lookups.close()

    async def run(self) -> None:
        """Reconcile, as soon as the runtime answers, and until nothing more is to come."""
        reasons, end, listed = LogDeduplicator(), time.monotonic() + LEFT_OVER_SECONDS, False
        while not listed or (self._store.left_over and time.monotonic() < end):
            if listed:
                await asyncio.sleep(LOOK_SECONDS)
            try:
                async with self._connect() as runtime:
                    await self._reconcile(runtime)
                listed = self.done = True
            except RuntimeCallError as error:
                if reasons.is_new(str(error)):
                    log.info("waiting for the runtime's lists", error=str(error))
                await asyncio.sleep(RETRY_SECONDS)
        self._store.forget_left_over()

    async def adopt(self, kind: RecordKind, id: str) -> RuntimeRecord | None:  # noqa: A002
        """Look up one pod or container a call is about; None if the runtime does not answer.

        It is found in the runtime's lists once they can be read.

        Raises:
            RuntimeNotFoundError: there is nothing of that id.
            NotKubernetesError: it is not a pod or container of Kubernetes.
        """
        try:
            async with asyncio.timeout(ADOPT_SECONDS), self._connect() as runtime:
                if kind is RecordKind.POD:
                    return await self._adopt_pod(runtime, id)
                return await self._adopt_container(runtime, id)
        except RuntimeNotFoundError:
            raise
        except (RuntimeCallError, TimeoutError) as error:
            log.warning("lookup failed", kind=kind, id=id, error=str(error) or "no answer")
            self.wake()
            return None

    async def refresh(self, record: RuntimeRecord) -> bool:
        """Look up the limits that a container has now; whether its record has them.

        While another call is changing them, that call's word is the newest.
        """
        if record.updates:
            return True
        try:
            async with asyncio.timeout(ADOPT_SECONDS):
                await self._refresh(self._lookups, record)
        except (RuntimeNotFoundError, NotKubernetesError):
            # The runtime will say so.
            return True
        except (RuntimeCallError, TimeoutError) as error:
            log.warning("limits not looked up", id=record.id, error=str(error) or "no answer")
            return False
        return True

    async def _refresh(self, runtime: RuntimeClient | LookupClient, record: RuntimeRecord) -> bool:
        """Take the limits in force over; whether they were others than the record's."""
        before = record.hook_request
        reported = (await runtime.container(record.id)).hook_request
        if not (
            isinstance(before, ContainerHookRequest) and isinstance(reported, ContainerHookRequest)
        ):
            return False
        hook_request = with_limits_in_force(before, reported)
        is_current = (
            self._store.get(record.kind, record.id) is record and record.hook_request is before
        )
        if hook_request == before or record.updates or not is_current:
            return False
        record.hook_request = hook_request
        self._store.put(record)
        log.info("limits were changed past the proxy", id=record.id, **names_of(hook_request))
        return True

    async def _reconcile(self, runtime: RuntimeClient) -> None:
        store = self._store
        # Only what was known before the lists were made can be missing in them.
        known = {kind: {record.id for record in store.records(kind)} for kind in RecordKind}
        pods, containers = await runtime.pods(), await runtime.containers()
        for item in (*pods, *containers):
            store.came(item.identity, item.id)
        gone = known[RecordKind.CONTAINER] - {container.id for container in containers}
        for id in gone:  # noqa: A001
            store.drop(RecordKind.CONTAINER, id)
        gone_pods = known[RecordKind.POD] - {pod.id for pod in pods}
        for id in gone_pods:  # noqa: A001
            store.drop(RecordKind.POD, id)
        adopted = 0
        for pod in pods:
            if self._is_unknown(RecordKind.POD, pod):
                adopted += await self._try(self._adopt_pod(runtime, pod.id))
        for container in containers:
            if self._is_unknown(RecordKind.CONTAINER, container):
                adoption = self._adopt_container(runtime, container.id, container.sandbox)
                adopted += await self._try(adoption)
        if self._limits_due:
            await self._refresh_all(runtime, containers)
        dropped = len(gone) + len(gone_pods)
        # Containers that are nothing of Kubernetes' make us look as well: no news.
        say = log.debug if self.done and not (adopted or dropped) else log.info
        say(
            "records match the runtime",
            pods=len(pods),
            containers=len(containers),
            dropped=dropped,
            adopted=adopted,
        )

    async def _refresh_all(
        self, runtime: RuntimeClient, containers: Iterable[RuntimeListItem]
    ) -> None:
        for container in containers:
            record = self._store.get(RecordKind.CONTAINER, container.id)
            if container.live and record is not None:
                await self._try(self._refresh(runtime, record))
        self._limits_due = False

    def _is_unknown(self, kind: RecordKind, item: RuntimeListItem) -> bool:
        """True if a live pod or container was created past the proxy."""
        made_here = self._store.expects(item.identity) or self._store.get(kind, item.id) is not None
        return item.live and not made_here

    async def _try(self, adoption: object) -> int:
        try:
            await adoption  # type: ignore[misc]
        except (RuntimeCallError, NotKubernetesError) as error:
            # Gone since the list was made, most likely.
            log.debug("cannot adopt the record", error=str(error))
            return 0
        return 1

    async def _adopt_pod(self, runtime: RuntimeClient, id: str) -> RuntimeRecord:  # noqa: A002
        return self._keep(await runtime.pod(id))

    async def _adopt_container(
        self,
        runtime: RuntimeClient,
        id: str,  # noqa: A002
        sandbox: str = "",
    ) -> RuntimeRecord:
        record = await runtime.container(id)
        record.sandbox = sandbox or record.sandbox
        if record.sandbox:
            pod = self._store.get(RecordKind.POD, record.sandbox)
            put_into_pod(record, pod or await self._adopt_pod(runtime, record.sandbox))
        return self._keep(record)

    def _keep(self, record: RuntimeRecord) -> RuntimeRecord:
        """Add the record, unless a call has made a better one meanwhile."""
        store = self._store
        store.came(identity(record.kind, record.hook_request, record.sandbox), record.id)
        known = store.get(record.kind, record.id)
        if known is None:
            record.note(self._missed(record))
            store.put(record)
        return known or record

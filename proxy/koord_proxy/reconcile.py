"""Bringing the records in line with what the runtime has."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from koord_service.logs import get_log

from koord_proxy.rules.records import Kind, Record, identity, put_into_pod
from koord_proxy.runtime import NotKubernetesError, Runtime, RuntimeCallError
from koord_proxy.store import Store

log = get_log("koord_proxy.reconcile")

RETRY_SECONDS = 1.0
LEFT_OVER_SECONDS = 240.0
"""How long the runtime may go on making what it was asked for before a crash: twice what the
kubelet waits for a call."""
LOOK_SECONDS = 2.0
"""How often it is looked whether that has come."""
ADOPT_SECONDS = 2.0
"""How long a call waits for its pod or container to be looked up."""


class Reconciler:
    """Compares the store with the runtime's lists, once at start, and looks up what is missed."""

    def __init__(self, store: Store, connect: Callable[[], Runtime]) -> None:
        self._store = store
        self._connect = connect
        self.done = False

    async def run(self) -> None:
        """Reconcile, as soon as the runtime answers, and until nothing more is to come."""
        said, end = "", time.monotonic() + LEFT_OVER_SECONDS
        while not self.done or (self._store.left_over and time.monotonic() < end):
            if self.done:
                await asyncio.sleep(LOOK_SECONDS)
            try:
                async with self._connect() as runtime:
                    await self._reconcile(runtime)
                self.done = True
            except RuntimeCallError as error:
                if str(error) != said:
                    log.info("waits for the runtime's lists", error=str(error))
                    said = str(error)
                await asyncio.sleep(RETRY_SECONDS)
        self._store.forget_left_over()

    async def adopt(self, kind: Kind, id: str) -> Record | None:  # noqa: A002
        """Look up one pod or container a call is about; None if the runtime cannot tell.

        Raises:
            NotKubernetesError: it is neither.
        """
        try:
            async with asyncio.timeout(ADOPT_SECONDS), self._connect() as runtime:
                if kind is Kind.POD:
                    return await self._adopt_pod(runtime, id)
                return await self._adopt_container(runtime, id)
        except (RuntimeCallError, TimeoutError) as error:
            log.warning("cannot be looked up", kind=kind, id=id, error=str(error) or "no answer")
            return None

    async def _reconcile(self, runtime: Runtime) -> None:
        store = self._store
        # Only what was known before the lists were made can be missing in them.
        known = {kind: {record.id for record in store.records(kind)} for kind in Kind}
        pods, containers = await runtime.pods(), await runtime.containers()
        for one in (*pods, *containers):
            store.came(one.identity, one.id)
        gone = known[Kind.CONTAINER] - {one.id for one in containers}
        for id in gone:  # noqa: A001
            store.drop(Kind.CONTAINER, id)
        gone_pods = known[Kind.POD] - {pod.id for pod in pods}
        for id in gone_pods:  # noqa: A001
            store.drop(Kind.POD, id)
        adopted = 0
        for pod in pods:
            if pod.live and store.get(Kind.POD, pod.id) is None:
                adopted += await self._try(self._adopt_pod(runtime, pod.id))
        for one in containers:
            if one.live and store.get(Kind.CONTAINER, one.id) is None:
                adoption = self._adopt_container(runtime, one.id, one.sandbox)
                adopted += await self._try(adoption)
        log.info(
            "records are in line with the runtime",
            pods=len(pods),
            containers=len(containers),
            dropped=len(gone) + len(gone_pods),
            adopted=adopted,
        )

    async def _try(self, adoption: object) -> int:
        try:
            await adoption  # type: ignore[misc]
        except (RuntimeCallError, NotKubernetesError) as error:
            # Gone since the list was made, most likely.
            log.debug("cannot be adopted", error=str(error))
            return 0
        return 1

    async def _adopt_pod(self, runtime: Runtime, id: str) -> Record:  # noqa: A002
        return self._keep(await runtime.pod(id))

    async def _adopt_container(
        self,
        runtime: Runtime,
        id: str,  # noqa: A002
        sandbox: str = "",
    ) -> Record:
        record = await runtime.container(id)
        record.sandbox = sandbox or record.sandbox
        if record.sandbox:
            pod = self._store.get(Kind.POD, record.sandbox)
            put_into_pod(record, pod or await self._adopt_pod(runtime, record.sandbox))
        return self._keep(record)

    def _keep(self, record: Record) -> Record:
        """Add the record, unless a call has made a better one meanwhile."""
        store = self._store
        store.came(identity(record.kind, record.facts, record.sandbox), record.id)
        known = store.get(record.kind, record.id)
        if known is None:
            store.put(record)
        return known or record

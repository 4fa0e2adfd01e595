"""Bringing the records in line with what the runtime has."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from koord_service.logs import get_log

from koord_proxy.rules.adoption import container_record, pod_record, sandbox_of
from koord_proxy.rules.records import (
    Kind,
    Record,
    container_identity,
    identity,
    pod_identity,
)
from koord_proxy.runtime_client import RuntimeCallError, RuntimeClient
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

_READY = 0
_LIVE = (0, 1)
"""Container states created and running."""


class Reconciler:
    """Compares the store with the runtime's lists, once at start, and looks up what is missed."""

    def __init__(self, store: Store, connect: Callable[[], RuntimeClient]) -> None:
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
        """Look up one pod or container a call is about; None if the runtime cannot tell."""
        try:
            async with asyncio.timeout(ADOPT_SECONDS), self._connect() as runtime:
                if kind is Kind.POD:
                    return await self._adopt_pod(runtime, id)
                return await self._adopt_container(runtime, id)
        except (RuntimeCallError, TimeoutError) as error:
            log.warning("cannot be looked up", kind=kind, id=id, error=str(error) or "no answer")
            return None

    async def _reconcile(self, runtime: RuntimeClient) -> None:
        store = self._store
        # Only what was known before the lists were made can be missing in them.
        known = {kind: {record.id for record in store.records(kind)} for kind in Kind}
        pods, containers = await runtime.pods(), await runtime.containers()
        for pod in pods:
            store.came(pod_identity(pod.metadata.uid, pod.metadata.attempt), pod.id)
        for one in containers:
            meta = one.metadata
            store.came(container_identity(one.pod_sandbox_id, meta.name, meta.attempt), one.id)
        gone = known[Kind.CONTAINER] - {one.id for one in containers}
        for id in gone:  # noqa: A001
            store.drop(Kind.CONTAINER, id)
        gone_pods = known[Kind.POD] - {pod.id for pod in pods}
        for id in gone_pods:  # noqa: A001
            store.drop(Kind.POD, id)
        adopted = 0
        for pod in pods:
            if pod.state == _READY and store.get(Kind.POD, pod.id) is None:
                adopted += await self._try(self._adopt_pod(runtime, pod.id))
        for one in containers:
            if one.state in _LIVE and store.get(Kind.CONTAINER, one.id) is None:
                adoption = self._adopt_container(runtime, one.id, one.pod_sandbox_id)
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
        except RuntimeCallError as error:
            # Gone since the list was made, most likely.
            log.debug("cannot be adopted", error=str(error))
            return 0
        return 1

    async def _adopt_pod(self, runtime: RuntimeClient, id: str) -> Record:  # noqa: A002
        record = pod_record(id, await runtime.pod(id))
        return self._keep(record)

    async def _adopt_container(
        self,
        runtime: RuntimeClient,
        id: str,  # noqa: A002
        sandbox: str = "",
    ) -> Record:
        response = await runtime.container(id)
        sandbox = sandbox or sandbox_of(response)
        pod = self._store.get(Kind.POD, sandbox) if sandbox else None
        if sandbox and pod is None:
            pod = await self._adopt_pod(runtime, sandbox)
        return self._keep(container_record(id, response, sandbox, pod))

    def _keep(self, record: Record) -> Record:
        """Add the record, unless a call has made a better one meanwhile."""
        store = self._store
        store.came(identity(record.kind, record.facts, record.sandbox), record.id)
        known = store.get(record.kind, record.id)
        if known is None:
            store.put(record)
        return known or record

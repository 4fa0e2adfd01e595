"""The proxy's status: /healthz for machines, /pods for people and koordctl."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from threading import Lock
from typing import Any

from koord_model.version import VERSION
from koord_service.program_start import STARTED_AT
from koord_service.status import Query, StatusPage, json_page

from koord_proxy.contract.runtime_client import RuntimeCallError, RuntimeClient
from koord_proxy.dispatcher import Dispatcher
from koord_proxy.reconciler import RecordReconciler
from koord_proxy.rules.merge import ContainerHookRequest
from koord_proxy.rules.records import RecordKind, RuntimeRecord
from koord_proxy.server import Relay
from koord_proxy.store import RecordStore

PROBE_SECONDS = 1.0
"""Time for the runtime to answer a probe; a caller of /healthz waits so long."""
_LOOP_SECONDS = 1.0
"""Additional time for our own event loop to send the probe."""


class Health:
    """Reads the state of the parts, and asks the runtime whether it is there; changes nothing.

    To be made on the event loop; the pages are made in other threads.
    """

    def __init__(
        self,
        *,
        relay: Relay,
        store: RecordStore,
        dispatcher: Dispatcher,
        reconciler: RecordReconciler,
        connect: Callable[[], RuntimeClient],
        registrations: Mapping[str, str],
    ) -> None:
        self._relay = relay
        self._store = store
        self._dispatcher = dispatcher
        self._reconciler = reconciler
        self._connect = connect
        self._loop = asyncio.get_running_loop()
        self._lock = Lock()
        self._probe: Future[str] | None = None
        self._registrations = registrations

    def healthz(self, _: Query) -> StatusPage:
        """Always 200 while calls are relayed; "degraded" says that not all is well."""
        backend, database = self._backend_error(), self._store.problem
        if not backend and not self._reconciler.done:
            backend = "waited for: its lists have not been read yet"
        servers = [
            {
                "name": target.name,
                "stages": sorted(target.stages),
                "policy": target.policy.value,
                "breaker": target.breaker.state.name.lower(),
            }
            for target in self._dispatcher.targets
        ]
        well = not (backend or database or self._registrations)
        well = well and all(server["breaker"] == "closed" for server in servers)
        return json_page(
            {
                "version": VERSION,
                "started_at": STARTED_AT,
                "status": "ok" if well else "degraded",
                "backend": backend or "ok",
                "database": database or "ok",
                "reconciled": self._reconciler.done,
                "connections": len(self._relay.connections),
                "pods": len(self._store.records(RecordKind.POD)),
                "containers": len(self._store.records(RecordKind.CONTAINER)),
                "unmanaged": self.unmanaged(),
                "hook_servers": servers,
                # Copied: this is another thread.
                "registrations": dict(self._registrations),
            }
        )

    def pods(self, _: Query) -> StatusPage:
        """The pods and containers known, and the hooks they went without. No environments."""
        containers: dict[str, list[dict[str, Any]]] = {}
        for record in self._store.records(RecordKind.CONTAINER):
            containers.setdefault(record.sandbox, []).append(_shown(record))
        pods = [
            {**_shown(record), "containers": containers.pop(record.id, [])}
            for record in self._store.records(RecordKind.POD)
        ]
        # Containers adopted alone, because their pod could not be looked up.
        unknown = {"name": "(unknown pod)", "managed": True, "missed": []}
        pods += [{"id": pod, **unknown, "containers": c} for pod, c in containers.items()]
        return json_page(pods)

    def records(self) -> dict[str, int]:
        """Number of records by kind."""
        return {kind.value: len(self._store.records(kind)) for kind in RecordKind}

    def unmanaged(self) -> int:
        """Number of pods and containers that went on without a hook that was due."""
        return sum(
            bool(record.missed) for kind in RecordKind for record in self._store.records(kind)
        )

    def _backend_error(self) -> str:
        """Probe the runtime and return its error, "" if it answers: without calls nobody notices.

        It is asked once at a time, for all who want to know meanwhile.
        """
        with self._lock:
            if self._probe is None or self._probe.done():
                self._probe = asyncio.run_coroutine_threadsafe(self._ask_backend(), self._loop)
            probe = self._probe
        try:
            return probe.result(PROBE_SECONDS + _LOOP_SECONDS)
        except TimeoutError:
            return "not known: the proxy is too busy to ask it"

    async def _ask_backend(self) -> str:
        path = self._relay.backend_path
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                # Says what is wrong in fewer words than the gRPC library does.
                _, writer = await asyncio.open_unix_connection(path)
                writer.close()
                async with self._connect() as runtime:
                    await runtime.ping()
        except TimeoutError:
            return f"{path}: no answer within {PROBE_SECONDS:g} s"
        except OSError as error:
            return f"{path}: {error.strerror or error}"
        except RuntimeCallError as error:
            return str(error)
        return ""


def _shown(record: RuntimeRecord) -> dict[str, Any]:
    meta = record.hook_request.pod_meta
    name = (
        record.hook_request.container_meta.name
        if isinstance(record.hook_request, ContainerHookRequest)
        else f"{meta.namespace}/{meta.name}"
    )
    return {
        "id": record.id,
        "name": name,
        "managed": not record.missed,
        "missed": [missed._asdict() for missed in record.missed],
    }

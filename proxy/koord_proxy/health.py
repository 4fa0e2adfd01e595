"""What the proxy says of itself: /healthz for machines, /pods for people and koordctl."""

from __future__ import annotations

from typing import Any

from koord_service.status import Page, Query, json_page

from koord_proxy.dispatch import Dispatcher
from koord_proxy.reconcile import Reconciler
from koord_proxy.rules.merge import ContainerFacts
from koord_proxy.rules.records import Kind, Record
from koord_proxy.server import Relay
from koord_proxy.store import Store


class Health:
    """Reads the state of the parts; changes nothing."""

    def __init__(
        self, *, relay: Relay, store: Store, dispatcher: Dispatcher, reconciler: Reconciler
    ) -> None:
        self._relay = relay
        self._store = store
        self._dispatcher = dispatcher
        self._reconciler = reconciler

    def healthz(self, _: Query) -> Page:
        """Always 200 while calls are relayed; "degraded" says that not all is well."""
        backend, database = self._relay.backend_trouble, self._store.trouble
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
        well = not backend and not database and all(one["breaker"] == "closed" for one in servers)
        return json_page(
            {
                "status": "ok" if well else "degraded",
                "backend": backend or "ok",
                "database": database or "ok",
                "reconciled": self._reconciler.done,
                "connections": len(self._relay.connections),
                "pods": len(self._store.records(Kind.POD)),
                "containers": len(self._store.records(Kind.CONTAINER)),
                "unmanaged": self.unmanaged(),
                "hook_servers": servers,
            }
        )

    def pods(self, _: Query) -> Page:
        """The pods and containers known, and the hooks they went without. No environments."""
        containers: dict[str, list[dict[str, Any]]] = {}
        for record in self._store.records(Kind.CONTAINER):
            containers.setdefault(record.sandbox, []).append(_shown(record))
        pods = [
            {**_shown(record), "containers": containers.pop(record.id, [])}
            for record in self._store.records(Kind.POD)
        ]
        # Containers adopted alone, because their pod could not be looked up.
        unknown = {"name": "(unknown pod)", "managed": True, "missed": []}
        pods += [{"id": one, **unknown, "containers": c} for one, c in containers.items()]
        return json_page(pods)

    def records(self) -> dict[str, int]:
        """How many records there are, by kind."""
        return {kind.value: len(self._store.records(kind)) for kind in Kind}

    def unmanaged(self) -> int:
        """How many pods and containers went on without a hook that was due."""
        return sum(bool(record.missed) for kind in Kind for record in self._store.records(kind))


def _shown(record: Record) -> dict[str, Any]:
    meta = record.facts.pod_meta
    name = (
        record.facts.container_meta.name
        if isinstance(record.facts, ContainerFacts)
        else f"{meta.namespace}/{meta.name}"
    )
    return {
        "id": record.id,
        "name": name,
        "managed": not record.missed,
        "missed": [missed._asdict() for missed in record.missed],
    }

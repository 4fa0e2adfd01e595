"""The scheduler, the migration controller and ReplicaSets, as far as a drain needs them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from koord_kube.client import Client
from koord_kube.protocol.api import NotFoundError, Object
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import POD_MIGRATION_JOBS, PODS, RESERVATIONS, Resource

BACKGROUND = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}


async def objects(client: Client, resource: Resource) -> list[Object]:
    """All objects of a kind; none where it is not installed."""
    found: list[Object] = []
    try:
        async for page in client.pages(resource):
            found = [*([] if page.first else found), *map(json.loads, page.items)]
    except NotFoundError:
        return []
    return found


class DrainPlayers:
    """Reservations get the node that they ask for; jobs evict pods, whose next ones start there."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.evicted: list[str] = []
        self.moves = True

    async def play(self) -> None:
        """Until cancelled."""
        while True:
            for reservation in await objects(self._client, RESERVATIONS):
                await self._schedule(reservation)
            for job in await objects(self._client, POD_MIGRATION_JOBS) if self.moves else []:
                if not (job.get("status") or {}).get("phase"):
                    await self._migrate(job)
            await asyncio.sleep(0.01)

    async def _schedule(self, reservation: Object) -> None:
        if (reservation.get("status") or {}).get("nodeName"):
            return
        affinity = reservation["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
        required = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
        (node,) = required["nodeSelectorTerms"][0]["matchFields"][-1]["values"]
        await self._status(RESERVATIONS, reservation, {"phase": "Available", "nodeName": node})

    async def _migrate(self, job: Object) -> None:
        reference = job["spec"]["podRef"]
        name, namespace = reference["name"], reference["namespace"]
        pod = await self._client.get(PODS, name, namespace)
        assert pod["metadata"]["uid"] == reference["uid"]
        reserved = job["spec"]["reservationOptions"]["reservationRef"]
        reservation = await self._client.get(RESERVATIONS, reserved["name"])
        assert reservation["metadata"]["uid"] == reserved["uid"]
        self.evicted.append(name)
        await self._client.write(Request("DELETE", PODS, name, namespace, body=BACKGROUND))
        await self._start(pod, f"{name}-next", reservation["status"]["nodeName"])
        await self._status(RESERVATIONS, reservation, {"phase": "Succeeded"})
        await self._status(POD_MIGRATION_JOBS, job, {"phase": "Succeeded"})

    async def _start(self, pod: Object, name: str, node: str) -> None:
        meta = pod["metadata"]
        kept = {key: meta[key] for key in ("namespace", "labels", "ownerReferences")}
        made = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, **kept},
            "spec": pod["spec"] | {"nodeName": node},
        }
        await self._client.create(PODS, made, meta["namespace"])

    async def _status(self, resource: Resource, given: Object, status: dict[str, Any]) -> None:
        name = given["metadata"]["name"]
        await self._client.patch(resource, name, {"status": status}, subresource="status")

"""The loop that follows resource plugins, beside pods that start."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from google.protobuf.message import Message
from koord_model.allocation import ResourceAllocation
from koord_proto import resource_plugin_pb2 as pb
from koord_service.backoff import exponential
from koord_service.error_text import describe_error
from koord_service.log_deduplicator import LogDeduplicator
from koord_service.logs import get_log

from koordlet.plugin_watcher.client import PluginCallError
from koordlet.resource_plugins.allocation_store import AllocationStore
from koordlet.resource_plugins.core import requests
from koordlet.resource_plugins.core.answers import parse_allocation
from koordlet.resource_plugins.plugins import ResourcePlugin, ResourcePlugins
from koordlet.resource_plugins.pod_allocator import PodAllocator
from koordlet.resource_plugins.registration_server import RegistrationServer
from koordlet.states_informer.pod_informer import PodInformer
from koordlet.states_informer.state.pod_inventory import PodRecord

TURN_SECONDS = 5.0
"""Katalyst's interval."""
_GONE_SECONDS = 60.0
"""Time after which a pod that is not known has gone: it may be about to start."""
_REMOVE_SECONDS = 300.0
"""Time for which the removal of a pod is reported; Katalyst's plugins then see it themselves."""
_CALL_SECONDS = 1.5
_GATHER_SECONDS = 0.2
_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 300.0
"""Seconds between two tries for a pod that runs."""

_NOTHING = ResourceAllocation()

M = TypeVar("M", bound=Message)

_log = get_log("koordlet.resources")


class ResourcePluginHost:
    """Serves registrations, follows what plugins change, repairs pods, and reports their removal.

    ``changed`` is called when there are other allocations than before.
    """

    def __init__(
        self,
        plugins: ResourcePlugins,
        store: AllocationStore,
        allocator: PodAllocator,
        server: RegistrationServer,
        pods: PodInformer,
        nodes: Callable[[], int],
        changed: Callable[[], None],
    ) -> None:
        self.prepare = allocator.prepare
        self._plugins = plugins
        plugins.changed = self.wake
        self._store = store
        self._allocator = allocator
        self._server = server
        self._pods = pods
        self._nodes = nodes
        self._changed = changed
        self._due = asyncio.Event()
        self._tries: dict[str, tuple[int, float]] = {}
        self._problems = LogDeduplicator()
        self._removals: dict[str, tuple[float, frozenset[str]]] = {}

    def wake(self) -> None:
        """Write down soon what has changed, and ask new plugins for their options."""
        self._due.set()

    async def run(self) -> None:
        """Serve until cancelled."""
        now = asyncio.get_running_loop().time()
        self._allocator.asked |= dict.fromkeys(self._store.current, now)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._keep())
                group.create_task(self._take_turns())
        finally:
            await self._server.stop()
            await self._store.save(self._plugins.saved)
            await self._plugins.close()

    async def _keep(self) -> None:
        """Write down what has changed, beside turns, which may take long; a burst of pods once."""
        while True:
            await self._due.wait()
            await asyncio.sleep(_GATHER_SECONDS)
            self._due.clear()
            await self._plugins.refresh(_CALL_SECONDS)
            await self._store.save(self._plugins.saved)

    async def _take_turns(self) -> None:
        while True:
            await self._serve()
            await self._turn(asyncio.get_running_loop().time())
            await asyncio.sleep(TURN_SECONDS)

    async def _serve(self) -> None:
        """Serve registrations, if that is possible by now; watched plugins need none."""
        try:
            await self._server.start()
        except (OSError, ValueError) as error:
            if self._problems.is_new(str(error)):
                _log.warning("resource plugins cannot register themselves", reason=str(error))

    async def _turn(self, now: float) -> None:
        before = self._store.current
        try:
            await self._plugins.refresh(_CALL_SECONDS)
            records = {record.pod.uid: record for record in self._pods.inventory.records()}
            await self._remove(records, now)
            for plugin in self._plugins.all():
                if plugin.is_reconciled:
                    await self._follow(plugin, records)
            for record in records.values():
                await self._repair(record, now)
        except Exception as error:
            # A defect of ours: pods that start are seen to all the same.
            _log.error("resource plugins not followed", reason=describe_error(error))
        if self._store.current is not before:
            self._changed()
        self.wake()

    async def _follow(self, plugin: ResourcePlugin, records: dict[str, PodRecord]) -> None:
        """Take what a plugin has allocated by now to the containers that request its resource."""
        answer = await self._call(
            plugin,
            "GetResourcesAllocation",
            pb.GetResourcesAllocationRequest(),
            pb.GetResourcesAllocationResponse,
        )
        if answer is None:
            return
        for uid in tuple(self._store.current):
            record = records.get(uid)
            if record is None or record.demand is None:
                continue
            for container in requests.containers(record.pod, record.demand):
                if plugin.resource in container.resources and container.kind != pb.INIT:
                    self._take(answer, plugin.resource, uid, container.name)

    def _take(
        self, answer: pb.GetResourcesAllocationResponse, resource: str, uid: str, container: str
    ) -> None:
        """Take a container's allocation; where a plugin has none any more, it is asked anew."""
        given = answer.pod_resources[uid].container_resources
        if container not in given:
            known = self._store.current[uid].get(container, {})
            if known.get(resource, _NOTHING) != _NOTHING:
                self._allocator.lost.add((uid, container, resource))
            return
        found, _ = parse_allocation(given[container], self._nodes())
        if found:
            self._store.put(uid, container, found)

    async def _repair(self, record: PodRecord, now: float) -> None:
        """Allocate for a pod that started without, or before koordlet."""
        if record.demand is None or record.demand.terminating:
            return
        uid = record.pod.uid
        failures, again_at = self._tries.get(uid, (0, now))
        if now < again_at:
            return
        if await self._allocator.repair(record):
            self._tries.pop(uid, None)
        else:
            pause = exponential(_FIRST_PAUSE, _LONGEST_PAUSE, failures + 1)
            self._tries[uid] = failures + 1, now + pause

    async def _remove(self, records: dict[str, PodRecord], now: float) -> None:
        """Forget pods that have gone, and report it to the plugins."""
        asked = self._allocator.asked
        asked |= dict.fromkeys(asked.keys() & records.keys(), now)
        self._tries = {uid: tried for uid, tried in self._tries.items() if uid in records}
        if self._pods.known:
            resources = frozenset(plugin.resource for plugin in self._plugins.all())
            for uid in [uid for uid, at in asked.items() if now - at > _GONE_SECONDS]:
                self._allocator.forget(uid)
                self._removals[uid] = now + _REMOVE_SECONDS, resources
        for uid, (until, resources) in tuple(self._removals.items()):
            left = {
                resource for resource in resources if not await self._report_removal(resource, uid)
            }
            if left and now < until:
                self._removals[uid] = until, frozenset(left)
            else:
                del self._removals[uid]

    async def _report_removal(self, resource: str, uid: str) -> bool:
        """Report to a plugin that a pod has gone; return whether it knows."""
        plugin = self._plugins.get(resource)
        if plugin is None:
            return False
        request = pb.RemovePodRequest(pod_uid=uid)
        return await self._call(plugin, "RemovePod", request, pb.RemovePodResponse) is not None

    async def _call(
        self, plugin: ResourcePlugin, method: str, request: Message, answer: type[M]
    ) -> M | None:
        try:
            return await self._plugins.call(plugin, method, request, answer, _CALL_SECONDS)
        except PluginCallError as error:
            _log.debug("resource plugin failed", resource=plugin.resource, reason=str(error))
            return None

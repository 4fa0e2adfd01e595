"""Keeps one object of a kind for each Node, as a pure reconciler wants it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import anyio
import msgspec
from koord_kube.core.reflector import ReflectorTiming
from koord_kube.informer import Informer
from koord_kube.protocol.api import Api, ConflictError, NotFoundError
from koord_kube.protocol.resources import Resource
from koord_kube.reconcile_loop import ReconcileLoop
from koord_kube.shared_backoff import backoff_of
from koord_kube.work_queue import WorkQueue

from koord_manager.node_objects.core.nodes import ClusterNode, Object
from koord_manager.node_objects.core.reconciler import (
    CreateObject,
    DeleteObject,
    ExistingObject,
    PatchObject,
    decode_object,
    write_for,
)
from koord_manager.slo_config.core.config import SLOConfig
from koord_manager.slo_config.informer import SLOConfigInformer

Desired = Callable[[SLOConfig, ClusterNode, ExistingObject | None], tuple[Object, list[str]]]
"""The spec that a Node's object should have, and a line for each bad value of its Node."""


class NodeInformer(Protocol):
    """The cluster's Nodes; an ``Informer`` of them is one."""

    @property
    def objects(self) -> Mapping[str, ClusterNode]:
        """By name, as they are now."""
        ...

    @property
    def synced(self) -> bool:
        """True if all are there."""
        ...

    async def wait_synced(self) -> None:
        """Until they are: whatever has no Node then is deleted."""
        ...


class NodeObjectController:
    """The objects of one kind.

    The owner of the Nodes' informer calls ``node_changed``. ``api`` must write only while this
    manager leads.
    """

    def __init__(
        self,
        api: Api,
        resource: Resource,
        desired: Desired,
        nodes: NodeInformer,
        configs: SLOConfigInformer,
        *,
        on_warning: Callable[[str], None],
        queue: WorkQueue | None = None,
        pace: ReflectorTiming | None = None,
    ) -> None:
        self._api = api
        self._resource = resource
        self._desired = desired
        self._nodes = nodes
        self._configs = configs
        self._on_warning = on_warning
        self.loop = ReconcileLoop(
            resource.plural,
            self._handle,
            queue=queue,
            on_warning=on_warning,
            backoff=backoff_of(api),
        )
        self._logged: dict[str, list[str]] = {}
        self._altered: dict[str, tuple[Object, Object]] = {}
        self._objects: Informer[ExistingObject] = Informer(
            api,
            resource,
            decode=decode_object,
            on_change=lambda name, _before, _now: self.loop.add(name),
            on_warning=on_warning,
            timing=pace,
        )

    @property
    def problem(self) -> str:
        """Reason why objects may not be as desired, in a line; "" while there is none."""
        return self._objects.problem or self.loop.problem

    def node_changed(self, name: str, before: ClusterNode | None, now: ClusterNode | None) -> None:
        """A Node was added, changed or deleted; ``before`` and ``now`` as of an informer."""
        self.loop.add(name)

    def resync(self) -> None:
        """Reconcile all of them again."""
        for name in self._nodes.objects.keys() | self._objects.objects.keys():
            self.loop.add(name)

    async def run(self) -> None:
        """For ever; nothing is written before all is known that decides."""
        with self._configs.listening(self.resync):
            await self._run()

    async def _run(self) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self._objects.run)
            await self._nodes.wait_synced()
            await self._configs.wait_synced()
            await self._objects.wait_synced()
            self.resync()
            await self.loop.run()

    async def _handle(self, name: str) -> None:
        try:
            await self._reconcile(name, self._objects.objects.get(name))
        except (ConflictError, NotFoundError):
            # What is known here is older than what the API has.
            await self._reconcile(name, await self._read(name))

    async def _read(self, name: str) -> ExistingObject | None:
        try:
            return decode_object(msgspec.json.encode(await self._api.get(self._resource, name)))
        except NotFoundError:
            return None

    async def _reconcile(self, name: str, there: ExistingObject | None) -> None:
        node = self._nodes.objects.get(name)
        spec: Object = {}
        if node is None:
            self._logged.pop(name, None)
            self._altered.pop(name, None)
        else:
            spec, lines = self._desired(self._configs.config, node, there)
            self._log_new(name, lines)
            if there and self._altered.get(name) == (spec, there.decoded()):
                spec = there.decoded()  # the spec as the API server defaulted it
        match write_for(self._resource, node, there, spec):
            case CreateObject(given):
                self._wrote(name, spec, await self._api.create(self._resource, given))
            case PatchObject(change):
                answer = await self._api.patch(self._resource, name, change)
                self._wrote(name, spec, answer)
            case DeleteObject(uid):
                await self._api.delete(self._resource, name, uid=uid)

    def _wrote(self, name: str, spec_written: Object, answer: Object) -> None:
        """An API server drops what the kind's schema does not know."""
        found = answer.get("spec") or {}
        if found == spec_written:
            self._altered.pop(name, None)
        else:
            self._altered[name] = spec_written, found

    def _log_new(self, name: str, lines: list[str]) -> None:
        if lines != self._logged.get(name, []):
            for line in lines:
                self._on_warning(line)
        if lines:
            self._logged[name] = lines
        else:
            self._logged.pop(name, None)

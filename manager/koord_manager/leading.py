"""What only the leader does: its controllers, for one term."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from koord_kube.api import Api
from koord_kube.informer import Informer
from koord_kube.resources import NODES
from koord_service import memory

from koord_manager.config import CALCULATIONS, CONTROLLERS, Settings, chosen
from koord_manager.controllers import node_metric, node_slo
from koord_manager.controllers.colocation_profile import ColocationProfiles, Pace
from koord_manager.controllers.node_objects import NodeObjects
from koord_manager.controllers.node_resource import NodeResources
from koord_manager.controllers.recommendation import Recommendations
from koord_manager.controllers.slo_config import SLOConfigs
from koord_manager.metrics import Figures
from koord_manager.metrics_api.service import NodeMetricService
from koord_manager.recommending.recommender import Policy, Recommender
from koord_manager.reconcilers.nodes import Node, gone, read_node
from koord_manager.webhooks.admission import ClusterView

Tell = Callable[[str], None]

SETTLE_SECONDS = 75.0
"""For which a new leader does not take a node for silent: a report interval, and some more."""


@dataclass(frozen=True)
class Shared:
    """What all managers have, leading or not; ``service`` where nodes report straight."""

    configs: SLOConfigs
    view: Callable[[], ClusterView]
    gates: Mapping[str, bool]
    service: NodeMetricService | None
    tell: Tell


class Term:
    """The controllers of one term; ``api`` writes only while the term lasts."""

    def __init__(self, settings: Settings, api: Api, shared: Shared) -> None:
        self._shared = shared
        names = chosen("controllers", settings.controllers, CONTROLLERS)
        self._nodes: Informer[Node] = Informer(
            api, NODES, decode=read_node, changed=self._node_changed, tell=shared.tell
        )
        self._objects = tuple(self._node_objects(api, names))
        self.resources = self._node_resources(settings, api) if "noderesource" in names else None
        self._profiles = _profiles(settings, api, shared) if "colocationprofile" in names else None
        self._recommendations = (
            self._recommending(settings, api) if "recommendation" in names else None
        )

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The cluster's nodes."""
        return self._nodes.objects

    def received(self, node: str, status: bytes, at: float) -> None:
        """A node has reported straight to this manager; ``at`` in monotonic seconds."""
        if self.resources is not None:
            self.resources.received(node, status, at)

    def troubles(self) -> Iterator[str]:
        """Why something may not be as it should, a line each."""
        followed = [self._nodes, *self._objects, self.resources, self._recommendations]
        for one in followed:
            if one is not None and one.trouble:
                yield one.trouble

    def figures(self, leads: bool, problems: int) -> Figures:
        """How the controllers stand."""
        queues = [(one.queue.name, one.queue) for one in self._objects]
        found = self.resources, self._recommendations
        queues += [(one.queue.name, one.queue) for one in found if one is not None]
        return Figures(
            leads,
            problems,
            nodes=len(self.nodes),
            passes=self.resources.passes if self.resources else 0,
            pass_seconds=self.resources.pass_seconds if self.resources else 0.0,
            queues=tuple(queues),
        )

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._nodes.run())
            for one in self._objects:
                group.create_task(one.run())
            for other in (self.resources, self._profiles, self._recommendations):
                if other is not None:
                    group.create_task(other.run())
            if self.resources is not None:
                await self.resources.known.wait()
                memory.settle()  # what was read of a large cluster stays, and lists were larger
                await asyncio.sleep(SETTLE_SECONDS)
                memory.settle()  # and so does what nodes have told by then

    def _node_objects(self, api: Api, names: Collection[str]) -> Iterator[NodeObjects]:
        for name, module in (("nodemetric", node_metric), ("nodeslo", node_slo)):
            if name in names:
                shared = self._shared
                yield module.controller(api, self._nodes, shared.configs, shared.tell)

    def _node_resources(self, settings: Settings, api: Api) -> NodeResources:
        shared = self._shared
        plugins = settings.noderesource_plugins
        return NodeResources(
            api,
            self._nodes,
            shared.configs,
            gates=shared.gates,
            calculations=chosen("noderesource-plugins", plugins, CALCULATIONS),
            tell=shared.tell,
            settle=SETTLE_SECONDS if shared.service is not None else 0.0,
            period=settings.noderesource_interval,
        )

    def _node_changed(self, name: str, before: Node | None, now: Node | None) -> None:
        if self._shared.service is not None and gone(before, now):
            self._shared.service.forget(name)
        for one in self._objects:
            one.node_changed(name)
        if self.resources is not None:
            self.resources.node_changed(name, before, now)

    def _recommending(self, settings: Settings, api: Api) -> Recommendations | None:
        if self.resources is None:
            self._shared.tell("recommendation needs the controller noderesource: left out")
            return None
        policy = Policy(
            margin=settings.recommendation_safety_margin_percent / 100,
            half_life=settings.recommendation_half_life,
        )
        return Recommendations(
            api,
            self._nodes,
            Recommender(policy),
            self.resources.status,
            tell=self._shared.tell,
            interval=settings.recommendation_interval,
        )


def _profiles(settings: Settings, api: Api, shared: Shared) -> ColocationProfiles | None:
    if not shared.gates["ColocationProfileController"]:
        return None
    return ColocationProfiles(
        api,
        shared.view,
        by_default=settings.colocation_profile_reconcile_by_default,
        pace=Pace(
            settings.colocation_profile_reconcile_interval,
            settings.colocation_profile_force_update_pod_duration,
            settings.colocation_profile_expire_pod_cache_duration,
            settings.colocation_profile_update_pod_qps,
            settings.colocation_profile_update_pod_qps_burst,
        ),
        tell=shared.tell,
    )

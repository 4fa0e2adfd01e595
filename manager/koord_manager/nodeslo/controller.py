"""Keeps a NodeSLO for each Node."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial

import anyio
from koord_kube.protocol.api import Api
from koord_kube.protocol.resources import NODE_SLOS

from koord_manager.node_objects.controller import NodeInformer, NodeObjectController
from koord_manager.node_objects.core.nodes import ClusterNode
from koord_manager.nodeslo.core.reconciler import ServicesOf, desired, no_services
from koord_manager.nodeslo.core.rollout import Rollout
from koord_manager.slo_config.informer import SLOConfigInformer

_REFRESH_SECONDS = 1.0


class NodeSLOController(NodeObjectController):
    """NodeSLOs; see ``NodeObjectController``. Looks each second who belongs to a canary."""

    def __init__(
        self,
        api: Api,
        nodes: NodeInformer,
        configs: SLOConfigInformer,
        on_warning: Callable[[str], None],
        clock: Callable[[], float] = time.time,
        services: ServicesOf = no_services,
    ) -> None:
        self.rollout = Rollout(
            lambda: {name: node.labels for name, node in nodes.objects.items()}, clock
        )
        choose = partial(desired, rollout=self.rollout, services=services)
        super().__init__(api, NODE_SLOS, choose, nodes, configs, on_warning=on_warning)

    def node_changed(self, name: str, before: ClusterNode | None, now: ClusterNode | None) -> None:
        """A Node was added, changed or deleted; ``before`` and ``now`` as of an informer."""
        if before is None or now is None or before.labels != now.labels:
            self.rollout.node_changed()
        super().node_changed(name, before, now)

    def services_changed(self, nodes: Iterable[str]) -> None:
        """Other profiles of services are for these nodes."""
        for name in nodes:
            self.loop.add(name)

    async def run(self) -> None:
        """For ever."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._refresh)
            await super().run()

    async def _refresh(self) -> None:
        while True:
            await anyio.sleep(_REFRESH_SECONDS)
            if self.rollout.refresh():
                self.resync()


def controller(
    api: Api,
    nodes: NodeInformer,
    configs: SLOConfigInformer,
    on_warning: Callable[[str], None],
    services: ServicesOf = no_services,
) -> NodeSLOController:
    """The controller; see ``NodeObjectController``."""
    return NodeSLOController(api, nodes, configs, on_warning, services=services)

"""Gives pods their volumes before they are bound: writes claims and volumes, and waits for them."""

from __future__ import annotations

import time
from collections.abc import Callable

import anyio
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import VOLUME_CLAIMS, VOLUMES
from koord_kube.views.metadata import read_resource_version

from koord_scheduler.extension_points.api_services import PreBinding
from koord_scheduler.framework.decisions import Placement
from koord_scheduler.io.limited_writer import Write
from koord_scheduler.plugins.volumes.binding import AssumedVolumes, VolumeWrite, check_bindings
from koord_scheduler.plugins.volumes.columns import VolumeColumns
from koord_scheduler.plugins.volumes.objects import PersistentVolume
from koord_scheduler.state.cluster_state import ClusterState

_LOOK_SECONDS = 0.5


class VolumeBinder(PreBinding):
    """Writes what a ``AssumedVolumes`` says, and waits until the claims are bound.

    Provisioners may take minutes, so pods that wait here wait for nobody and keep nobody waiting.
    """

    handles = (AssumedVolumes,)

    def __init__(
        self,
        write: Write,
        nodes: ClusterState,
        timeout: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """``timeout``: seconds for the claims of a pod to be bound."""
        self._write = write
        self._nodes = nodes
        self._timeout = timeout
        self._monotonic = monotonic

    async def write(self, reserved: AssumedVolumes, placement: Placement) -> str:
        return await self.bind(reserved, placement.node)

    async def bind(self, reservation: AssumedVolumes, node: str) -> str:
        """Have the claims of a pod bound for a node; returns why not, "" once they are.

        Raises:
            ApiError: something could not be written.
        """
        versions = {}
        for write in reservation.writes:
            answer = await self._write(_request(write))
            versions[write.assumed.key] = read_resource_version(answer)
        end = self._monotonic() + self._timeout
        while True:
            row = self._nodes.row(node)
            if row is None:
                return f"node {node} is gone"
            labels, objects = self._nodes.labels.of(row), self._nodes.use(VolumeColumns).objects
            progress = check_bindings(reservation.volumes, versions, node, labels, objects)
            if progress.is_complete or progress.failure:
                return progress.failure
            if self._monotonic() >= end:
                return f"claims were not bound within {self._timeout:.0f} s"
            await anyio.sleep(_LOOK_SECONDS)


def _request(write: VolumeWrite) -> Request:
    resource = VOLUMES if isinstance(write.assumed, PersistentVolume) else VOLUME_CLAIMS
    metadata = write.assumed.metadata
    return Request("PATCH", resource, metadata.name, metadata.namespace, body=write.patch)

"""Has written what device plugins of vendors need to give a pod its devices."""

from __future__ import annotations

import time
from collections.abc import Callable

from koord_kube.core.warnings import OnWarning, ignore_warning

from koord_scheduler.extension_points.api_services import PodChanges, PreBinding
from koord_scheduler.framework.decisions import Placement
from koord_scheduler.plugins.device_share.assumed_devices import AssumedDevices
from koord_scheduler.plugins.device_share.device_plugins import (
    NO_ADAPTION,
    Adaption,
    adaption,
    lock_of,
)
from koord_scheduler.plugins.device_share.node_locker import NodeLocker


class DevicePluginAdapter(PreBinding):
    """Locks the node if the vendor's device plugin needs it; the pod's own is for the caller."""

    handles = (AssumedDevices,)

    def __init__(
        self,
        locker: NodeLocker,
        *,
        on_warning: OnWarning = ignore_warning,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._locker = locker
        self._on_warning = on_warning
        self._wall = wall

    async def annotate(self, reserved: AssumedDevices, placement: Placement) -> PodChanges | str:
        found = await self.adapt(placement)
        if isinstance(found, str):
            return found
        return PodChanges(dict(found.annotations), dict(found.labels))

    async def adapt(self, placement: Placement) -> Adaption | str:
        """Return the annotations for the pod; or why it cannot get its devices at present.

        Raises:
            ApiError: the API server does not lock the node.
        """
        reservation = _devices(placement)
        if reservation is None:
            return NO_ADAPTION
        node, pod = placement.node, placement.pod.key
        now = int(self._wall() * 1e9)
        try:
            found = adaption(
                reservation.devices, reservation.gpu_model, reservation.isolation, node, now
            )
        except ValueError as error:
            return self._refused(f"pod {pod} on node {node}: {error}")
        if found.lock and (failure := await self._locker.lock(node, found.lock, pod)):
            return self._refused(f"pod {pod}: {failure}")
        return found

    async def take_back(self, reserved: AssumedDevices, placement: Placement) -> None:
        """The pod is not bound: the node is for others."""
        reservation = _devices(placement)
        if reservation is None:
            return
        lock = lock_of(reservation.devices, reservation.gpu_model)
        if lock:
            await self._locker.release(placement.node, lock, placement.pod.key)

    def _refused(self, failure: str) -> str:
        self._on_warning(failure)
        return failure


def _devices(placement: Placement) -> AssumedDevices | None:
    """Device plugins give devices to pods, and to nothing that stands for one."""
    if placement.pod.waiting.stands_for is not None:
        return None
    found = (taken for taken in placement.reserved if isinstance(taken, AssumedDevices))
    return next(found, None)

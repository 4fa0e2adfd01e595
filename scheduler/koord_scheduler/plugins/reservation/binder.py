"""Has pods that a reservation takes over say so, before it gets its node."""

from __future__ import annotations

from koord_kube.protocol.pod_requests import annotations_patch

from koord_scheduler.extension_points.api_services import PreBinding
from koord_scheduler.framework.decisions import Placement
from koord_scheduler.io.limited_writer import Write
from koord_scheduler.plugins.reservation.allocation import PreAllocatedOwners


class OwnerAnnotator(PreBinding):
    """Annotates the pods that are to own a reservation."""

    handles = (PreAllocatedOwners,)

    def __init__(self, write: Write) -> None:
        self._write = write

    async def write(self, reserved: PreAllocatedOwners, placement: Placement) -> str:
        for key, uid in reserved.pods:
            await self._write(annotations_patch(key, uid, reserved.written))
        return ""

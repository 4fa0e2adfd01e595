"""Has written what plugins reserved for a pod, before it is bound."""

from __future__ import annotations

from koord_kube.core.warnings import OnWarning, ignore_warning
from koord_kube.protocol.api import ApiError, NotFoundError

from koord_scheduler.framework.decisions import Placement
from koord_scheduler.io.limited_writer import Write
from koord_scheduler.io.placement_annotations import placement_annotations
from koord_scheduler.io.pod_requests import annotations_patch
from koord_scheduler.plugins.device_share.binder import DevicePluginAdapter
from koord_scheduler.plugins.device_share.device_plugins import NO_ADAPTION, Adaption
from koord_scheduler.plugins.dynamic_resources.assumed_claims import AssumedClaims
from koord_scheduler.plugins.dynamic_resources.availability import ClaimDeallocation, ClaimDeletion
from koord_scheduler.plugins.dynamic_resources.binder import ClaimBinder
from koord_scheduler.plugins.dynamic_resources.objects import Consumer
from koord_scheduler.plugins.reservation.allocation import PreAllocatedOwners
from koord_scheduler.plugins.volumes.binder import VolumeBinder
from koord_scheduler.plugins.volumes.binding import AssumedVolumes


class PreBinder:
    """What is reserved of volumes and claims goes to whoever writes it; the rest to the pod."""

    def __init__(
        self,
        volumes: VolumeBinder,
        claims: ClaimBinder,
        write: Write,
        device_plugins: DevicePluginAdapter | None = None,
        *,
        on_warning: OnWarning = ignore_warning,
    ) -> None:
        self._on_warning = on_warning
        self._write_request = write
        self._device_plugins = device_plugins
        self._volumes = volumes
        self._claims = claims

    async def run(self, placement: Placement) -> str:
        """Do what the reservations of a placement need; returns why not, "" once it is done."""
        try:
            failure = await self._write_all(placement)
            if failure:
                await self.take_back(placement)
            return failure
        finally:
            self._claims.release(placement.reservations)

    async def take_back(self, placement: Placement) -> None:
        """Annotations, claims and the lock of the node are not for the pod any more.

        Bound volumes stay so.
        """
        pod = placement.pod
        written = {name: None for name, text in placement_annotations(placement).items() if text}
        if written and pod.waiting.reserves is None:
            try:
                await self._write_request(annotations_patch(pod.key, pod.uid, written))
            except NotFoundError:
                pass  # with the pod
            except ApiError as error:
                self._on_warning(f"{error} (annotations of a failed binding of {pod.key} stay)")
        if self._device_plugins is not None:
            await self._device_plugins.take_back(placement)
        for one in placement.reservations:
            if isinstance(one, AssumedClaims):
                await self._claims.take_back(one, _consumer(placement))

    async def help(self, remedy: object) -> None:
        """Write what a plugin wants for a pod that fits nowhere."""
        if isinstance(remedy, ClaimDeallocation):
            await self._claims.deallocate(remedy.claim)
        elif isinstance(remedy, ClaimDeletion):
            await self._claims.delete(remedy.claim)

    async def _write_all(self, placement: Placement) -> str:
        try:
            for one in placement.reservations:
                if failure := await self._write(one, placement):
                    return failure
            return await self._annotate(placement)
        except ApiError as error:
            return str(error)

    async def _write(self, reservation: object, placement: Placement) -> str:
        match reservation:
            case AssumedVolumes():
                return await self._volumes.bind(reservation, placement.node)
            case AssumedClaims():
                return await self._claims.bind(reservation, _consumer(placement))
            case PreAllocatedOwners():
                for key, uid in reservation.pods:
                    request = annotations_patch(key, uid, reservation.annotations)
                    await self._write_request(request)
                return ""
            case _:
                return ""

    async def _annotate(self, placement: Placement) -> str:
        """Write all annotations of the pod at once, as Koordinator's DefaultPreBind does."""
        pod, annotations = placement.pod, placement_annotations(placement)
        if not annotations or pod.waiting.reserves is not None:
            return ""  # whoever writes the status of a reservation writes its annotations
        adapted = await self._adapt(placement)
        if isinstance(adapted, str):
            return adapted
        annotations |= adapted.annotations
        await self._write_request(annotations_patch(pod.key, pod.uid, annotations, adapted.labels))
        return ""

    async def _adapt(self, placement: Placement) -> Adaption | str:
        """What device plugins of vendors read, if somebody wants them to find pods."""
        if self._device_plugins is None:
            return NO_ADAPTION
        return await self._device_plugins.adapt(placement)


def _consumer(placement: Placement) -> Consumer:
    name = placement.pod.key.partition("/")[2]
    return Consumer(resource="pods", name=name, uid=placement.pod.uid)

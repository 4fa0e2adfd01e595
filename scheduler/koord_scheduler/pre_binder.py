"""Has written what plugins reserved for a pod, before it is bound."""

from __future__ import annotations

from koord_kube.protocol.api import ApiError

from koord_scheduler.claim_binder import ClaimBinder
from koord_scheduler.claims.availability import ClaimDeallocation
from koord_scheduler.claims.reservation import ClaimReservation
from koord_scheduler.framework.decisions import Placement
from koord_scheduler.volume_binder import VolumeBinder
from koord_scheduler.volumes.binding import VolumeReservation


class PreBinder:
    """What is reserved of volumes and of devices goes to whoever writes it."""

    def __init__(self, volumes: VolumeBinder, claims: ClaimBinder) -> None:
        self._volumes = volumes
        self._claims = claims

    async def run(self, placement: Placement) -> str:
        """Do what the reservations of a placement need; returns why not, "" once it is done."""
        try:
            for one in placement.reservations:
                if failure := await self._write(one, placement.node):
                    return failure
        except ApiError as error:
            return str(error)
        finally:
            self._claims.release(placement.reservations)
        return ""

    async def help(self, remedy: object) -> None:
        """Write what a plugin wants for a pod that fits nowhere."""
        if isinstance(remedy, ClaimDeallocation):
            await self._claims.deallocate(remedy.claim)

    async def _write(self, reservation: object, node: str) -> str:
        match reservation:
            case VolumeReservation():
                return await self._volumes.bind(reservation, node)
            case ClaimReservation():
                return await self._claims.bind(reservation)
            case _:
                return ""

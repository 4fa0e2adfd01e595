"""Writes the annotations of pods that a round's plugins ask for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from koord_kube.protocol.api import ApiError, ConflictError, NotFoundError, NotLeadingError
from koord_kube.protocol.pod_requests import annotations_patch
from koord_kube.protocol.request import Request

from koord_descheduler.planner.move import DesiredAnnotations


class PodAnnotator:
    """Patches pods one after the other; what fails is tried again in the next round."""

    def __init__(
        self, write: Callable[[Request], Awaitable[bytes]], on_warning: Callable[[str], None]
    ) -> None:
        self._write = write
        self._on_warning = on_warning

    async def write(self, desired: DesiredAnnotations) -> None:
        """Write annotations of a pod, and of none that has its name after it.

        Raises:
            NotLeadingError: this program may not write.
        """
        try:
            await self._write(annotations_patch(desired.pod.key, desired.pod.uid, desired.values))
        except NotLeadingError:
            raise
        except (NotFoundError, ConflictError):
            return  # it is gone, and another one has its name perhaps
        except ApiError as error:
            self._on_warning(f"{error} ({desired.plugin} tries again in the next round)")

"""Has written what plugins reserved for a pod, before it is bound."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from koord_kube.core.warnings import OnWarning, ignore_warning
from koord_kube.protocol.api import ApiError, NotFoundError
from koord_kube.protocol.pod_requests import annotations_patch

from koord_scheduler.extension_points.api_services import PreBinding
from koord_scheduler.framework.decisions import Placement
from koord_scheduler.io.limited_writer import Write
from koord_scheduler.io.placement_annotations import placement_annotations


class PreBinder:
    """Has each plugin of a pod's profile write what it reserved, and writes annotations itself.

    ``plugins`` are by scheduler name.
    """

    def __init__(
        self,
        plugins: Mapping[str, Iterable[PreBinding]],
        write: Write,
        *,
        on_warning: OnWarning = ignore_warning,
    ) -> None:
        self._on_warning = on_warning
        self._write_request = write
        self._plugins = {
            (name, kind): plugin
            for name, several in plugins.items()
            for plugin in several
            for kind in plugin.handles
        }

    async def run(self, placement: Placement) -> str:
        """Do what the placement needs; returns why it cannot be, "" once it is done."""
        try:
            failure = await self._write_all(placement)
            if failure:
                await self.take_back(placement)
            return failure
        finally:
            for plugin, reserved in self._reserved(placement):
                plugin.release(reserved)

    async def take_back(self, placement: Placement) -> None:
        """Annotations are not for the pod any more, nor is what plugins wrote."""
        pod = placement.pod
        written = {name: None for name, text in placement_annotations(placement).items() if text}
        if written and pod.waiting.stands_for is None:
            try:
                await self._write_request(annotations_patch(pod.key, pod.uid, written))
            except NotFoundError:
                pass  # with the pod
            except ApiError as error:
                self._on_warning(f"{error} (annotations of a failed binding of {pod.key} stay)")
        for plugin, reserved in self._reserved(placement):
            await plugin.take_back(reserved, placement)

    async def help(self, remedy: object) -> None:
        """Write what a plugin wants for a pod that fits nowhere."""
        plugin = next(
            (one for (_, kind), one in self._plugins.items() if isinstance(remedy, kind)), None
        )
        if plugin is not None:
            await plugin.help(remedy)

    def _reserved(self, placement: Placement) -> Iterator[tuple[PreBinding, object]]:
        name = placement.pod.waiting.scheduler_name
        for reserved in placement.reserved:
            plugin = self._plugins.get((name, type(reserved)))
            if plugin is not None:
                yield plugin, reserved

    async def _write_all(self, placement: Placement) -> str:
        try:
            for plugin, reserved in self._reserved(placement):
                if failure := await plugin.write(reserved, placement):
                    return failure
            return await self._annotate(placement)
        except ApiError as error:
            return str(error)

    async def _annotate(self, placement: Placement) -> str:
        """Write all annotations of the pod at once, as Koordinator's DefaultPreBind does."""
        pod, annotations = placement.pod, placement_annotations(placement)
        if not annotations or pod.waiting.stands_for is not None:
            return ""  # whoever gives an object its node writes its annotations
        labels: dict[str, str] = {}
        for plugin, reserved in self._reserved(placement):
            changes = await plugin.annotate(reserved, placement)
            if isinstance(changes, str):
                return changes
            annotations |= changes.annotations
            labels |= changes.labels
        await self._write_request(annotations_patch(pod.key, pod.uid, annotations, labels))
        return ""

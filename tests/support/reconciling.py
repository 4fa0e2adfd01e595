"""One look of a controller, without its loop."""

from __future__ import annotations

from koord_scheduler.extension_points.api_services import Controller


async def reconcile_due(controller: Controller) -> None:
    for key in list(controller.due()):
        await controller.reconcile(key)

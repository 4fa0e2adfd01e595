"""Runs a controller beside decisions."""

from __future__ import annotations

from koord_kube.core.warnings import OnWarning
from koord_kube.protocol.api import ConflictError, NotFoundError, NotLeadingError
from koord_kube.reconcile_loop import ReconcileLoop
from koord_kube.shared_backoff import SharedBackoff

from koord_scheduler.extension_points.api_services import Controller


async def run_controller(
    controller: Controller, backoff: SharedBackoff, on_warning: OnWarning
) -> None:
    """Reconcile until cancelled; ``backoff`` is that of the API server."""

    async def reconcile(key: str) -> None:
        try:
            await controller.reconcile(key)
        except (ConflictError, NotFoundError, NotLeadingError):
            pass  # it has changed meanwhile, which the watch will say, or another one leads

    loop = ReconcileLoop(
        controller.name,
        reconcile,
        on_warning=on_warning,
        backoff=backoff,
        due=controller.due,
        every=controller.every,
    )
    await loop.run()

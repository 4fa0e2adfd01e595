"""Keeps the webhook configurations, and other objects with our CA bundle, up to date.

Only the leader does, and only while this replica answers: API servers must not be
pointed at a server that is not there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from koord_kube.protocol.api import Api, ApiError, Object
from koord_service.logs import get_log

from koord_serving.admission.core.ca_bundle_targets import CABundleTarget
from koord_serving.create_or_update import create_or_update
from koord_serving.periodic import run_periodically, watch_object

log = get_log("manager.webhooks")

_SECONDS = 60.0
_SOON = 1.0


class WebhookConfigurationReconciler:
    """``ready`` says why this replica would not answer, "" if it would.

    ``bundle`` returns the CA bundle, PEM.
    """

    def __init__(
        self,
        api: Api,
        targets: Sequence[CABundleTarget],
        *,
        bundle: Callable[[], bytes],
        ready: Callable[[], Awaitable[str]],
        leads: Callable[[], bool],
    ) -> None:
        self._api = api
        self._targets = targets
        self._bundle = bundle
        self._ready = ready
        self._leads = leads
        self._wake = asyncio.Event()
        self._seen: set[str] = set()
        self._waiting_for = ""
        self._left: dict[str, Sequence[str]] = {}

    async def run(self) -> None:
        """For ever."""
        informers = [
            watch_object(self._api, one.resource, one.name, one.namespace, self._wake, log)
            for one in self._targets
        ]
        await run_periodically(self.once, self._wake, log, informers)

    def wake(self) -> None:
        """Reconcile at once: the bundle has changed, or this replica leads now."""
        self._wake.set()

    async def once(self) -> float:
        """Bring all targets to what they should be; seconds until the next look.

        Raises:
            ApiError: one cannot be read or written; the others were still tried.
        """
        if not self._leads():
            self._seen.clear()
            return _SECONDS
        if reason := await self._ready():
            if reason != self._waiting_for:
                log.warning("webhook configuration not updated yet", reason=reason)
            self._waiting_for = reason
            return _SOON
        self._waiting_for = ""
        failed: ApiError | None = None
        for target in self._targets:
            try:
                await self._ensure(target)
            except ApiError as error:
                failed = failed or error
        if failed is not None:
            raise failed
        return _SECONDS

    async def _ensure(self, target: CABundleTarget) -> None:
        def desired(found: Object | None) -> Object | None:
            self._name_others(target, found)
            made = target.desired(found, self._bundle())
            return None if made is None or self._was_deleted(target, found) else made

        if await create_or_update(
            self._api, target.resource, target.name, target.namespace, desired
        ):
            self._seen.add(_key(target))
            log.info("webhook configuration updated", kind=target.resource.kind, name=target.name)

    def _name_others(self, target: CABundleTarget, found: Object | None) -> None:
        names = target.others(found) if found is not None else ()
        if names and names != self._left.get(_key(target)):
            log.warning(
                "webhooks of other programs left as they are",
                kind=target.resource.kind,
                names=",".join(names),
            )
        self._left[_key(target)] = names

    def _was_deleted(self, target: CABundleTarget, found: Object | None) -> bool:
        """Whether somebody has deleted it meanwhile.

        It is not made again then: when all is being uninstalled, a configuration without its
        server would keep every pod from being created.
        """
        if found is not None:
            self._seen.add(_key(target))
            return False
        if _key(target) not in self._seen:
            return False
        log.warning(
            "deleted by somebody else; created again after a restart or a change of leader",
            kind=target.resource.kind,
            name=target.name,
        )
        return True


def _key(target: CABundleTarget) -> str:
    return f"{target.resource.plural}/{target.name}"

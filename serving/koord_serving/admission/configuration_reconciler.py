"""Keeps the webhook configurations, and other objects with our CA bundle, up to date.

Only the leader does, and only while this replica answers: API servers must not be
pointed at a server that is not there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import anyio
from koord_kube.core.warnings import OnWarning, ignore_warning
from koord_kube.protocol.api import Api, Object
from koord_kube.reconcile_loop import ReconcileLoop
from koord_kube.shared_backoff import backoff_of
from koord_kube.shared_informers import SharedInformers
from koord_kube.views.metadata import read_resource_version
from koord_kube.work_queue import WorkQueue
from koord_service.logs import get_log

from koord_serving.admission.core.ca_bundle_targets import CABundleTarget
from koord_serving.create_or_update import create_or_update

log = get_log("manager.webhooks")

_SECONDS = 60.0
_SOON = 1.0
_LONGEST_RETRY_SECONDS = 30.0


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
        on_warning: OnWarning = ignore_warning,
    ) -> None:
        self._api = api
        self._targets = {_key(target): target for target in targets}
        self._bundle = bundle
        self._ready = ready
        self._leads = leads
        self._on_warning = on_warning
        self._seen: set[str] = set()
        self._waiting_for = ""
        self._left: dict[str, Sequence[str]] = {}
        self._loop = ReconcileLoop(
            "webhook configurations",
            self.reconcile,
            queue=WorkQueue(cap=_LONGEST_RETRY_SECONDS),
            backoff=backoff_of(api),
            on_warning=on_warning,
        )

    async def run(self) -> None:
        """Until cancelled."""
        informers = SharedInformers(self._api, on_warning=self._on_warning)
        for key, target in self._targets.items():
            self._watch(informers, key, target)
        self.wake()
        async with anyio.create_task_group() as group:
            group.start_soon(informers.run)
            await self._loop.run()

    def lead(self) -> None:
        """This replica leads from now on: what was deleted before is made again."""
        self._seen.clear()
        self.wake()

    def wake(self) -> None:
        """Reconcile all at once: the bundle has changed."""
        for key in self._targets:
            self._loop.add(key)

    def _watch(self, informers: SharedInformers, key: str, target: CABundleTarget) -> None:
        informer = informers.get(
            target.resource, read_resource_version, name=target.name, namespace=target.namespace
        )
        informer.subscribe(lambda _name, _before, _now: self._loop.add(key))

    async def reconcile(self, key: str) -> float:
        """Bring a target to what it should be; seconds until the next look.

        Raises:
            ApiError: it cannot be read or written.
        """
        if not self._leads():
            self._seen.discard(key)
            return _SECONDS
        if not await self._is_ready():
            return _SOON
        await self._ensure(self._targets[key])
        return _SECONDS

    async def _is_ready(self) -> bool:
        reason = await self._ready()
        if reason and reason != self._waiting_for:
            log.warning("webhook configuration not updated yet", reason=reason)
        self._waiting_for = reason
        return not reason

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
        """True if somebody has deleted it meanwhile.

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

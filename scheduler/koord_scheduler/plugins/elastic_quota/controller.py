"""Writes how quotas stand, and evicts pods of those that use too much for too long."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from koord_kube.core.evictions import EvictedPod
from koord_kube.core.warnings import OnWarning, ignore_warning
from koord_kube.pod_evictor import PodEvictor
from koord_kube.protocol.api import Object
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import ELASTIC_QUOTAS
from koord_service.logs import get_log

from koord_scheduler.extension_points.api_services import ApiServices, Controller, Write
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.plugins.elastic_quota.columns import QuotaColumns
from koord_scheduler.plugins.elastic_quota.overuse import OveruseClock, RevokeRules
from koord_scheduler.plugins.elastic_quota.overused_quotas import overused_quotas, pods_over_quota
from koord_scheduler.plugins.elastic_quota.report import report_patch, reserved_quotas

log = get_log("scheduler")


class QuotaDuties(NamedTuple):
    """Duties: the ``namespace`` of created quotas, and rules for revoking; ``None``: never."""

    namespace: str
    revoke: RevokeRules | None = None


DEFAULT_DUTIES = QuotaDuties("koordinator-system")


class QuotaReporter:
    """Writes of each quota how it stands, if the API says something else.

    ``observe`` gets how many seconds each report took.
    """

    name = "reports of quotas"
    every = 1.0

    def __init__(
        self,
        quotas: QuotaColumns,
        write: Write,
        *,
        observe: Callable[[float], None] = lambda _: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._quotas = quotas
        self._write = write
        self._observe = observe
        self._monotonic = monotonic

    def due(self) -> Iterable[str]:
        """Return the namespaces and names of those that stand otherwise."""
        return [key for key in self._quotas.objects if self._request(key) is not None]

    async def reconcile(self, key: str) -> None:
        """Write how a quota stands."""
        request = self._request(key)
        if request is not None:
            began = self._monotonic()
            await self._write(request)
            self._observe(self._monotonic() - began)

    def _request(self, key: str) -> Request | None:
        read, trees = self._quotas.objects.get(key), self._quotas.trees
        found = trees.find(read.quota.name) if read is not None else None
        if read is None or found is None or found.node.quota.uid not in ("", read.quota.uid):
            return None
        body = report_patch(trees, found, read)
        namespace, _, name = key.partition("/")
        if body is None:
            return None
        return Request("PATCH", ELASTIC_QUOTAS, name, namespace, body=body)


class QuotaCreator:
    """Creates the quotas that Koordinator's users expect to see, if they are not there."""

    name = "quotas to create"
    every = 60.0
    """The API server may not have the kind."""

    def __init__(self, quotas: QuotaColumns, write: Write, namespace: str) -> None:
        self._quotas = quotas
        self._write = write
        self._namespace = namespace

    def due(self) -> Iterable[str]:
        """Return the names of those that are missing."""
        return self._missing()

    async def reconcile(self, key: str) -> None:
        """Create a quota."""
        body = self._missing().get(key)
        if body is not None:
            await self._write(Request("POST", ELASTIC_QUOTAS, "", self._namespace, body=body))

    def _missing(self) -> dict[str, Object]:
        present = {read.quota.name for read in self._quotas.objects.values()}
        found = reserved_quotas(self._namespace, self._quotas.rules)
        names = {body["metadata"]["name"]: body for body in found}
        return {name: body for name, body in names.items() if name not in present}


class QuotaRevoker:
    """Evicts pods of quotas that used too much for too long; budgets may forbid it."""

    name = "pods of quotas that use too much"

    def __init__(
        self,
        scheduler: Scheduler,
        evictor: PodEvictor,
        rules: RevokeRules,
        *,
        on_warning: OnWarning = ignore_warning,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.every = max(rules.interval, 0.1)
        self._scheduler = scheduler
        self._quotas = scheduler.nodes.use(QuotaColumns)
        self._evictor = evictor
        self._on_warning = on_warning
        self._monotonic = monotonic
        self._clock = OveruseClock(rules.delay)
        self._quota_of: dict[str, str] = {}
        """The quota for which each pod has to go, by the pod's namespace and name."""

    def due(self) -> Iterable[str]:
        """Return the pods that have to go."""
        over = {
            overused_quota.name: overused_quota for overused_quota in overused_quotas(self._quotas)
        }
        self._quota_of = {
            pod.key: name
            for name in self._clock.due(over, self._monotonic())
            for pod in pods_over_quota(self._quotas, self._scheduler.placed, over[name])
            if pod.key not in self._scheduler.assumed
        }
        return self._quota_of

    async def reconcile(self, key: str) -> None:
        """Evict a pod; after a refusal the next look decides anew."""
        pod, quota = self._scheduler.placed.by_key.get(key), self._quota_of.get(key)
        if pod is None or quota is None:
            return
        log.info("evicting a pod whose quota uses too much", pod=key, quota=quota)
        namespace, _, name = key.partition("/")
        outcome = await self._evictor.evict(EvictedPod(namespace, name, pod.uid))
        if outcome.pod_stays:
            self._on_warning(f"{outcome.reason} (quota {quota})")


def quota_controllers(
    api: ApiServices, duties: QuotaDuties, observe: Callable[[float], None]
) -> Iterator[Controller]:
    """The controllers of all quotas."""
    quotas = api.scheduler.nodes.use(QuotaColumns)
    yield QuotaReporter(quotas, api.write, observe=observe)
    yield QuotaCreator(quotas, api.write, duties.namespace)
    if duties.revoke is not None:
        yield QuotaRevoker(api.scheduler, api.evictor, duties.revoke, on_warning=api.on_warning)

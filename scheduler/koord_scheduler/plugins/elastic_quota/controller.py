"""Writes how quotas stand, and evicts pods of those that use too much for too long."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import anyio
from koord_kube.core.evictions import EvictedPod
from koord_kube.core.warnings import OnWarning, ignore_warning
from koord_kube.pod_evictor import PodEvictor
from koord_kube.protocol.api import ApiError, ConflictError, NotFoundError, NotLeadingError
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import ELASTIC_QUOTAS
from koord_service.logs import get_log

from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.io.limited_writer import Write
from koord_scheduler.plugins.elastic_quota.columns import QuotaColumns
from koord_scheduler.plugins.elastic_quota.overuse import OveruseClock, RevokeRules
from koord_scheduler.plugins.elastic_quota.overused_quotas import overused_quotas, pods_over_quota
from koord_scheduler.plugins.elastic_quota.report import report_patch, reserved_quotas
from koord_scheduler.state.pod_usage import PlacedPod

PASS_SECONDS = 1.0
"""Between two looks at all quotas; what is as the API has it is not written."""
_CREATE_SECONDS = 60.0
"""Between two attempts to create quotas; the API server may not have the kind."""

log = get_log("scheduler")


class QuotaDuties(NamedTuple):
    """In which ``namespace`` quotas are created, and when pods are revoked; ``None``: never."""

    namespace: str
    revoke: RevokeRules | None = None


DEFAULT_DUTIES = QuotaDuties("koordinator-system")


class QuotaController:
    """Runs while this scheduler leads; ``observe`` gets how many seconds each report took."""

    def __init__(
        self,
        scheduler: Scheduler,
        write: Write,
        evictor: PodEvictor,
        duties: QuotaDuties,
        *,
        observe: Callable[[float], None] = lambda _: None,
        on_warning: OnWarning = ignore_warning,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._scheduler = scheduler
        self._quotas = scheduler.nodes.use(QuotaColumns)
        self._write = write
        self._evictor = evictor
        self._duties = duties
        self._observe = observe
        self._on_warning = on_warning
        self._monotonic = monotonic
        self._tried_at = float("-inf")
        self._clock = OveruseClock(duties.revoke.delay) if duties.revoke is not None else None

    async def run(self) -> None:
        """Until cancelled."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._report_all)
            if self._duties.revoke is not None:
                group.start_soon(self._revoke_all, max(self._duties.revoke.interval, 0.1))

    async def _report_all(self) -> None:
        while True:
            await self.create_missing()
            await self.report()
            await anyio.sleep(PASS_SECONDS)

    async def _revoke_all(self, interval: float) -> None:
        while True:
            await self.revoke()
            await anyio.sleep(interval)

    async def create_missing(self) -> None:
        """Create the quotas that Koordinator's users expect to see, if they are not there."""
        now = self._monotonic()
        if now - self._tried_at < _CREATE_SECONDS:
            return
        self._tried_at = now
        present = {read.quota.name for read in self._quotas.objects.values()}
        for body in reserved_quotas(self._duties.namespace, self._quotas.rules):
            name = body["metadata"]["name"]
            if name not in present:
                namespace = self._duties.namespace
                await self._do(Request("POST", ELASTIC_QUOTAS, "", namespace, body=body), name)

    async def report(self) -> None:
        """Write of each quota how it stands, if the API says something else."""
        for key, read in list(self._quotas.objects.items()):
            trees = self._quotas.trees
            one = trees.find(read.quota.name)
            if one is None or one.node.quota.uid not in ("", read.quota.uid):
                continue
            body = report_patch(trees, one, read)
            if body is not None:
                began = self._monotonic()
                namespace, _, name = key.partition("/")
                request = Request("PATCH", ELASTIC_QUOTAS, name, namespace, body=body)
                await self._do(request, f"quota {key}")
                self._observe(self._monotonic() - began)

    async def revoke(self) -> None:
        """Evict pods of quotas that used too much for too long; budgets may forbid it."""
        if self._clock is None:
            return
        over = {one.name: one for one in overused_quotas(self._quotas)}
        for name in self._clock.due(over, self._monotonic()):
            for pod in pods_over_quota(self._quotas, self._scheduler.placed, over[name]):
                if pod.key not in self._scheduler.assumed:
                    log.info("evicting a pod whose quota uses too much", pod=pod.key, quota=name)
                    await self._evict(pod, name)

    async def _evict(self, pod: PlacedPod, quota: str) -> None:
        namespace, _, name = pod.key.partition("/")
        try:
            outcome = await self._evictor.evict(EvictedPod(namespace, name, pod.uid))
        except NotLeadingError:
            return
        if outcome.pod_stays:
            self._on_warning(f"{outcome.reason} (quota {quota})")

    async def _do(self, request: Request, about: str) -> None:
        try:
            await self._write(request)
        except (ConflictError, NotFoundError, NotLeadingError):
            pass  # it is gone or there already, or somebody else writes
        except ApiError as error:
            self._on_warning(f"{error} ({about})")

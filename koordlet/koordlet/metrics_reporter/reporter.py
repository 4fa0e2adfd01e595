"""Reports the node's usage to the cluster, at the policy's interval and by the shortest path.

That is the direct link to the manager's leader, where there is one and it works, and
the NodeMetric object otherwise. With the direct link at work the object's status is not
written: that it is not is what the link is for.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import msgspec
from koord_kube.core.retry_schedule import RequestRetry
from koord_kube.core.token_bucket import TokenBucket
from koord_kube.protocol.api import Api, ApiError, NotFoundError
from koord_kube.protocol.resources import NODE_METRICS
from koord_kube.shared_backoff import backoff_of
from koord_service.backoff import Backoff
from koord_service.error_text import describe_error
from koord_service.logs import get_log

from koordlet.metrics_reporter.direct_link import LinkError
from koordlet.metrics_reporter.documents.metric_policy import MetricCollectPolicy
from koordlet.metrics_reporter.documents.node_metric import Json, NodeMetricStatus, merge_patch

_log = get_log("koordlet.reporter")

_EARLY = 0.1
"""The share of the interval by which a report may be early, so that nodes do not report at once."""
_FIRST_WITHIN = 15.0
_NOT_YET_SECONDS = 5.0
_LOOK_SECONDS = 5.0
"""Between two looks at the policy."""
_FIRST_BACKOFF = 10.0
_LINK_SHARE = 0.5
"""The share of the interval after which a search for the leader is given up."""
_QPS, _BURST = 0.1, 2
"""Rate of writes of the object's status, as in Koordinator's koordlet."""

_RANDOM = random.SystemRandom()
_encode = msgspec.json.Encoder().encode


class ReportRoute(StrEnum):
    """The path of the last report; ``NONE``: none was sent, or none was accepted."""

    NONE = ""
    DIRECT = "direct"
    OBJECT = "object"


class ReportLink(Protocol):
    """The direct link, as ``koordlet.metrics_reporter.direct_link`` is one."""

    async def send(self, status: bytes, at: float, within: float) -> None:
        """Deliver a status, or raise ``LinkError``."""
        ...

    async def close(self) -> None:
        """Let go of the connection."""
        ...


@dataclass(slots=True)
class ReporterState:
    """The state of reporting, for ``/metrics`` and people.

    ``reported_at`` is when the last report arrived, seconds since the epoch, 0 for never.
    ``problem`` and ``link_problem`` say why there is none by the object, or by the direct
    link; "" while all is well.
    """

    route: ReportRoute = ReportRoute.NONE
    direct: int = 0
    objects: int = 0
    failures: int = 0
    link_failures: int = 0
    reported_at: float = 0.0
    problem: str = ""
    link_problem: str = ""


class NodeMetricReporter:
    """Reports until cancelled.

    ``build`` makes the status at a time, ``policy`` is what holds now. ``api`` and
    ``link`` are ``None`` where there is no such way.
    """

    def __init__(
        self,
        node: str,
        build: Callable[[float], NodeMetricStatus],
        policy: Callable[[], MetricCollectPolicy],
        api: Api | None,
        link: ReportLink | None = None,
        *,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = _RANDOM.random,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._node = node
        self._build = build
        self._policy = policy
        self._api = api
        self._link = link
        self._now = now
        self._monotonic = monotonic
        self._chance = chance
        self._sleep = sleep
        self._limit = TokenBucket(_QPS, _BURST)
        self._backoff = Backoff(_FIRST_BACKOFF, float("inf"), chance=chance)
        self._shared, self._retry = backoff_of(api), RequestRetry()
        self._outage: ApiError | None = None
        self._notes: tuple[str, ...] = ()
        self.state = ReporterState()

    async def run(self) -> None:
        """Report at the policy's interval, the first time soon."""
        try:
            await self._sleep(_FIRST_WITHIN * self._chance())
            while True:
                before = self._outage
                wait = await self.round()
                if self._outage is None:
                    await self._pause(wait)
                    continue
                if before is None:
                    self._retry = RequestRetry()
                await self._shared.pause(self._retry, wait, self._outage)
        finally:
            if self._link is not None:
                await self._link.close()

    async def _pause(self, wait: float) -> None:
        """Wait; an interval that becomes shorter meanwhile counts at once.

        The manager expects reports by the interval that it has set, not by the one before.
        """
        while wait > 0:
            step = min(wait, _LOOK_SECONDS)
            await self._sleep(step)
            wait = min(wait - step, float(self._policy().interval))

    async def round(self) -> float:
        """Report once; the seconds until the next time."""
        began = self._monotonic()
        self._outage = None
        interval = float(self._policy().interval)
        try:
            built = self._build(self._now())
        except Exception as error:
            # A defect of ours: the next one may be without it.
            self.state.failures += 1
            self._note_problem(describe_error(error))
            return interval
        self._say_notes(built.notes)
        if built.status is None:
            return _NOT_YET_SECONDS
        wait = await self._report(built.status, interval)
        if wait is None:
            self._backoff.reset()
            wait = interval * (1 - _EARLY * self._chance())
        return max(0.0, wait - (self._monotonic() - began))

    async def _report(self, status: Json, interval: float) -> float | None:
        """``None`` where it has arrived; else the seconds after which to try again."""
        encoded = _encode(status)
        if await self._by_link(encoded, interval):
            self._arrived(ReportRoute.DIRECT)
            self.state.direct += 1
            self._note_problem("")
            return None
        if self._api is None:
            self.state.route = ReportRoute.NONE
            return min(self._backoff.next(), interval)
        if not self._limit.allow(self._monotonic()):
            return min(1 / _QPS, interval)
        try:
            await self._api.patch(
                NODE_METRICS, self._node, merge_patch(status), subresource="status"
            )
        except ApiError as error:
            if error.is_outage:
                # It wrote nothing, and the next one must not wait once the server is back.
                self._outage, self._limit = error, TokenBucket(_QPS, _BURST)
            return self._failed(error, interval)
        self._arrived(ReportRoute.OBJECT)
        self.state.objects += 1
        self._note_problem("")
        return None

    async def _by_link(self, encoded: bytes, interval: float) -> bool:
        if self._link is None:
            return False
        try:
            await self._link.send(encoded, self._now(), interval * _LINK_SHARE)
        except LinkError as error:
            self.state.link_failures += 1
            if not self.state.link_problem:
                instead = "nothing" if self._api is None else "NodeMetric"
                _log.warning("direct link does not work", reason=str(error), instead=instead)
            self.state.link_problem = str(error)
            return False
        if self.state.link_problem or self.state.route is ReportRoute.NONE:
            _log.info("reports go by the direct link")
        self.state.link_problem = ""
        return True

    def _failed(self, error: ApiError, interval: float) -> float:
        self.state.route = ReportRoute.NONE
        self.state.failures += 1
        if isinstance(error, NotFoundError):
            self._note_problem(f"NodeMetric {self._node} is not there yet; the manager creates it")
        else:
            self._note_problem(str(error))
        return max(min(self._backoff.next(), interval), error.retry_after)

    def _arrived(self, route: ReportRoute) -> None:
        self.state.route = route
        self.state.reported_at = self._now()

    def _note_problem(self, reason: str) -> None:
        """Log an error once, and its end once."""
        if reason and not self.state.problem:
            _log.warning("cannot report node usage", reason=reason)
        elif not reason and self.state.problem:
            _log.info("reporting node usage again")
        self.state.problem = reason

    def _say_notes(self, notes: tuple[str, ...]) -> None:
        for note in notes:
            if note not in self._notes:
                _log.warning("memory policy not applied", reason=note)
        self._notes = notes

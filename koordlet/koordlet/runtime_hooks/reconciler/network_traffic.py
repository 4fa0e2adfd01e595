"""The shaping of the node's traffic as a job: netlink and the packet filter's programs block."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from koord_host.host_traffic import HostTraffic
from koord_host.planning.jobs import CancelToken, Job, JobKey, Jobs
from koord_model.traffic import Traffic

SECONDS = 30.0
KEY = JobKey("traffic")


class TrafficShaper:
    """Has traffic shaped when what is wanted changes, and at an interval.

    ``log`` is called in the job's thread with lines about what was not done.
    """

    def __init__(
        self,
        traffic: HostTraffic,
        jobs: Jobs,
        log: Callable[[str], None],
        monotonic: Callable[[], float],
        refresh_seconds: float,
    ) -> None:
        self._traffic = traffic
        self._jobs = jobs
        self._log = log
        self._monotonic = monotonic
        self._refresh_seconds = refresh_seconds
        self._last: Traffic | None = None
        self._at = float("-inf")

    def __call__(self, wanted: Traffic | None, why: str) -> None:
        """Have it shaped so, with the reason; nothing of ours for ``None``."""
        now = self._monotonic()
        if wanted == self._last and now < self._at + self._refresh_seconds:
            return
        self._last, self._at = wanted, now
        self._jobs.submit(Job(KEY, SECONDS, partial(self._shape, wanted, why)))

    def _shape(self, wanted: Traffic | None, why: str, cancel: CancelToken) -> None:
        report = self._traffic.reconcile(wanted, why, cancel)
        for line in (*report.errors, *report.ignored):
            self._log(line)

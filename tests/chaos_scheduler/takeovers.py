"""Times between holders of the Lease, as its watch says."""

from __future__ import annotations

import json

from tests.chaos_scheduler.report import ChurnReport

LEASE = "kube-scheduler"
LEASE_SECONDS = 5


class Takeovers:
    """Adds to a report what it learns of Leases."""

    def __init__(self, report: ChurnReport) -> None:
        self._report = report
        self._holder, self._renewed = "", 0.0

    def event(self, kind: str, raw: bytes, now: float) -> None:
        lease = json.loads(raw)
        if lease["metadata"]["name"] != LEASE:
            return
        holder = lease["spec"].get("holderIdentity") or ""
        if holder and holder != self._holder:
            if self._holder:
                self._report.after_expiry.append(now - self._renewed - LEASE_SECONDS)
            elif self._renewed:
                self._report.after_release.append(now - self._renewed)
        self._holder, self._renewed = holder, now

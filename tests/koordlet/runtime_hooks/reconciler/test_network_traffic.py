"""When the node's traffic is shaped; how is the affair of tests/host."""

from __future__ import annotations

from koord_host.host_traffic import TrafficReport
from koord_host.planning.jobs import CancelToken
from koord_model.traffic import Traffic
from koordlet.runtime_hooks.reconciler.network_traffic import TrafficShaper

from tests.support.held_jobs import HeldJobs

FAST, SLOW = Traffic(9, ()), Traffic(1, ())


class Bench:
    """A host whose traffic is shaped when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self.shaped: list[tuple[Traffic | None, str]] = []
        self.reported: list[str] = []
        self.jobs = HeldJobs()
        self.shape = TrafficShaper(self, self.jobs, self.reported.append, lambda: self.now, 60.0)  # type: ignore[arg-type]

    def reconcile(self, wanted: Traffic | None, why: str, cancel: CancelToken) -> TrafficReport:
        self.shaped.append((wanted, why))
        return TrafficReport(errors=["no module"], ignored=("a pod",))


def test_it_is_a_job_and_tells_what_was_not_done() -> None:
    bench = Bench()
    bench.shape(FAST, "a pod")
    assert bench.shaped == []
    bench.jobs.run()
    assert bench.shaped == [(FAST, "a pod")]
    assert bench.reported == ["no module", "a pod"]


def test_the_same_again_is_done_at_the_interval_and_another_at_once() -> None:
    bench = Bench()
    for at, wanted in ((0, FAST), (59, FAST), (61, FAST), (62, SLOW), (63, None)):
        bench.now = at
        bench.shape(wanted, str(at))
        bench.jobs.run()
    assert bench.shaped == [(FAST, "0"), (FAST, "61"), (SLOW, "62"), (None, "63")]


def test_while_one_waits_the_newest_is_done() -> None:
    bench = Bench()
    for wanted in (FAST, SLOW, None):
        bench.shape(wanted, "")
    bench.jobs.run()
    assert bench.shaped == [(None, "")]

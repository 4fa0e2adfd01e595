from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from koord_kube.client import Client
from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import NODE_METRICS
from koordlet.metrics_reporter.direct_link import LinkError
from koordlet.metrics_reporter.documents.metric_policy import MetricCollectPolicy
from koordlet.metrics_reporter.documents.node_metric import NodeMetricStatus
from koordlet.metrics_reporter.reporter import NodeMetricReporter, ReportRoute

from tests.support.kube_api import KubeApi
from tests.support.waiting import until

STATUS: Object = {
    "updateTime": "2026-11-20T10:00:00Z",
    "nodeMetric": {
        "nodeUsage": {"resources": {"cpu": "1", "memory": "1Gi"}},
        "systemUsage": {"resources": {"cpu": "1", "memory": "1Gi"}},
    },
    "prodReclaimableMetric": {"resource": {}},
}


class FakeLink:
    def __init__(self) -> None:
        self.works = True
        self.sent: list[tuple[Any, float, float]] = []
        self.closed = False

    async def send(self, status: bytes, at: float, within: float) -> None:
        if not self.works:
            raise LinkError("managers:1: nobody leads")
        self.sent.append((msgspec.json.decode(status), at, within))

    async def close(self) -> None:
        self.closed = True


class Clock:
    def __init__(self) -> None:
        self.at = 1000.0
        self.slept: list[float] = []
        self.rounds = 0

    def __call__(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at += seconds
        if len(self.slept) > self.rounds:
            await asyncio.Event().wait()
        await asyncio.sleep(0)


Make = Callable[..., NodeMetricReporter]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make(clock: Clock) -> Make:
    def reporter(
        api: Client | None, link: FakeLink | None = None, **more: Any
    ) -> NodeMetricReporter:
        return NodeMetricReporter(
            "n1",
            more.pop("build", lambda _: NodeMetricStatus(copy.deepcopy(STATUS))),
            more.pop("policy", MetricCollectPolicy),
            api,
            link,
            now=clock,
            monotonic=clock,
            chance=lambda: 0.5,
            sleep=clock.sleep,
            **more,
        )

    return reporter


async def test_the_object_holds_the_status_and_nothing_older(
    api: KubeApi, client: Client, make: Make
) -> None:
    older = {"status": {"podsMetric": [{"name": "gone"}], "nodeMetric": {"numaUsages": [1]}}}
    api.put(NODE_METRICS, {"metadata": {"name": "n1"}, "spec": {"x": 1}, **older})
    reporter = make(client)
    assert await reporter.round() == 57.0
    kept = api.get(NODE_METRICS, "n1")
    assert kept["status"] == STATUS
    assert kept["spec"] == {"x": 1}
    [asked] = api.asked
    assert (asked.verb, asked.path.rsplit("/", 1)[1]) == ("patch", "status")
    assert reporter.state.route is ReportRoute.OBJECT
    assert (reporter.state.objects, reporter.state.reported_at) == (1, 1000.0)


async def test_with_the_direct_link_the_object_is_not_written(
    api: KubeApi, client: Client, make: Make
) -> None:
    api.put(NODE_METRICS, {"metadata": {"name": "n1"}})
    link = FakeLink()
    reporter = make(client, link)
    for _ in range(3):
        await reporter.round()
    assert link.sent == [(STATUS, 1000.0, 30.0)] * 3
    assert api.asked == []
    assert (reporter.state.route, reporter.state.direct) == (ReportRoute.DIRECT, 3)


async def test_where_the_link_fails_the_object_stands_in_until_it_works_again(
    api: KubeApi, client: Client, make: Make, capture: list[str]
) -> None:
    api.put(NODE_METRICS, {"metadata": {"name": "n1"}})
    link = FakeLink()
    reporter = make(client, link)
    ways = []
    for works in (True, False, False, True):
        link.works = works
        assert await reporter.round() == 57.0
        ways.append(reporter.state.route)
    assert ways == [ReportRoute.DIRECT, ReportRoute.OBJECT, ReportRoute.OBJECT, ReportRoute.DIRECT]
    assert len(api.asked) == 2
    assert reporter.state.link_failures == 2
    assert reporter.state.link_problem == ""
    assert capture == [
        "reports go by the direct link",
        "direct link does not work",
        "reports go by the direct link",
    ]


async def test_a_missing_object_is_waited_for_and_said_once(
    api: KubeApi, client: Client, make: Make, clock: Clock, capture: list[str]
) -> None:
    reporter = make(client)
    waits = []
    for _ in range(5):
        waits.append(await reporter.round())
        clock.at += waits[-1] + 10
    assert waits == [7.5, 15.0, 30.0, 60.0, 60.0]
    assert reporter.state.problem == "NodeMetric n1 is not there yet; the manager creates it"
    assert reporter.state.failures == 5
    api.put(NODE_METRICS, {"metadata": {"name": "n1"}})
    assert await reporter.round() == 57.0
    assert reporter.state.problem == ""
    assert capture == ["cannot report node usage", "reporting node usage again"]


async def test_the_server_says_how_long_to_wait(api: KubeApi, client: Client, make: Make) -> None:
    api.put(NODE_METRICS, {"metadata": {"name": "n1"}})
    api.fail(status=429, retry_after=120)
    reporter = make(client)
    assert await reporter.round() == 120.0
    assert await reporter.round() == 57.0


async def test_the_object_is_not_written_oftener_than_koordinator_does(
    api: KubeApi, client: Client, make: Make, clock: Clock
) -> None:
    api.put(NODE_METRICS, {"metadata": {"name": "n1"}})
    reporter = make(client)
    waits = [await reporter.round() for _ in range(4)]
    assert waits == [57.0, 57.0, 10.0, 10.0]
    assert reporter.state.objects == 2
    clock.at += 10
    assert await reporter.round() == 57.0


async def test_without_any_way_but_a_link_that_fails(make: Make) -> None:
    link = FakeLink()
    link.works = False
    reporter = make(None, link)
    assert await reporter.round() == 7.5
    assert reporter.state.route is ReportRoute.NONE
    link.works = True
    await reporter.round()
    assert reporter.state.route is ReportRoute.DIRECT


async def test_before_the_first_sample_nothing_is_reported(make: Make) -> None:
    link = FakeLink()
    reporter = make(None, link, build=lambda _: NodeMetricStatus(None))
    assert await reporter.round() == 5.0
    assert link.sent == []


async def test_a_defect_costs_one_report(make: Make, capture: list[str]) -> None:
    link = FakeLink()
    builds = [ValueError("no such row"), ValueError("no such row"), NodeMetricStatus(STATUS)]

    def build(_: float) -> NodeMetricStatus:
        built = builds.pop(0)
        if isinstance(built, Exception):
            raise built
        return built

    reporter = make(None, link, build=build)
    assert [await reporter.round() for _ in range(2)] == [60.0, 60.0]
    assert "no such row" in reporter.state.problem
    assert reporter.state.failures == 2
    await reporter.round()
    assert reporter.state.problem == ""
    assert capture == [
        "cannot report node usage",
        "reports go by the direct link",
        "reporting node usage again",
    ]


async def test_notes_are_said_once(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    notes = [("a",), ("a", "b"), (), ("a",)]
    reporter = make(None, FakeLink(), build=lambda _: NodeMetricStatus(None, notes.pop(0)))
    for _ in range(4):
        await reporter.round()
    said = [one for one in caplog.records if one.getMessage() == "memory policy not applied"]
    assert [one.__dict__["fields"]["reason"] for one in said] == ["a", "b", "a"]


async def test_rounds_follow_each_other_at_the_policys_interval(make: Make, clock: Clock) -> None:
    """A shorter interval counts at once, and reports are not at the same time on all nodes."""
    changes = {1000.0: 30, 1040.0: 1200, 1100.0: 60}
    link = FakeLink()

    def policy() -> MetricCollectPolicy:
        return MetricCollectPolicy(
            interval=[value for at, value in changes.items() if at <= clock.at][-1]
        )

    reporter = make(None, link, policy=policy)
    clock.rounds = 1000
    task = asyncio.gather(reporter.run())
    while clock.at < 1400:
        await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    times = [at for _, at, _ in link.sent]
    assert times[:3] == [1007.5, 1036.0, 1064.5]  # by 30 s; the last one hears of 1200 s
    assert 1100 < times[3] <= 1100 + 60 + 5
    assert {later - earlier for earlier, later in pairwise(times[3:])} == {57.0}
    assert link.closed


@pytest.fixture
def capture(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The messages of the reporter, as they come."""
    caplog.set_level("INFO", "pykoord")
    return _Messages(caplog)


class _Messages(list[str]):
    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        super().__init__()
        self._caplog = caplog

    def __eq__(self, other: object) -> bool:
        said = [one.getMessage() for one in self._caplog.records if "reporter" in one.name]
        return said == other

    __hash__ = None  # type: ignore[assignment]


async def test_a_report_is_sent_right_after_an_outage(
    api: KubeApi, client: Client, make: Make, clock: Clock
) -> None:
    api.put(NODE_METRICS, {"metadata": {"name": "n1"}})
    await api.stop()
    clock.rounds = 1
    reporter = make(client)
    for _ in range(2):  # as often as may be written at once
        await reporter.round()
    task = asyncio.gather(reporter.run())
    await until(lambda: reporter.state.failures == 3)
    await api.start()
    client.backoff.succeeded()
    await until(lambda: reporter.state.objects == 1)
    task.cancel()

"""The web page in a real browser: of a scheduler, and of a large cluster.

To see it: ``python -m tools.screenshots``.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from koord_scheduler.config.scheduler_config import read_scheduler_config
from koord_scheduler.plugins.coscheduling.gangs_document import gangs_overview
from koord_scheduler.program.explanation import Document
from koord_scheduler.program.overview import nodes_overview, queue_overview
from koord_scheduler.program.pages import SchedulerPageSources, pages
from koord_scheduler.program.recent_rates import DecisionTotals, RecentRates
from koord_service.status import StatusServer

from tests.scheduler.program.test_explanation import NOW, Shop
from tests.scheduler.program.test_program import SETTINGS, Side
from tests.scheduler.program.test_program import side as side  # a fixture
from tests.support.browser import PHONE, Dom, needs_chromium, visit
from tests.support.gangs import GangCluster
from tests.support.ports import free_port
from tests.support.waiting import until

pytestmark = needs_chromium

_NASTY = "<img src=x onerror=alert(1)>\"'&<script>alert(2)</script>"
_REASON = (
    "0/600 nodes are available: 590 Insufficient cpu, 10 node(s) had untolerated taint(s). "
    "preemption: 0/600 nodes are available: 600 Preemption is not helpful for scheduling."
)


def rates() -> Document:
    """Ten minutes of a scheduler that was busy in the middle."""
    found, bound, decided = RecentRates(), 0, [0] * 16
    bounds = (*(0.00005 * 2**power for power in range(15)), math.inf)
    for step in range(121):
        number = int(4000 * math.exp(-(((step - 70) / 25) ** 2))) if step < 115 else 0
        bound += 5 * number
        for place in range(16):
            decided[place] += int(5 * number * min(1.0, 0.2 * place))
        totals = DecisionTotals(bound, bounds, tuple(decided))
        found.add(step * 5.0, 1_800_000_000 + step * 5.0, totals)
    return found.document()


def busy_overview() -> Document:
    """Many nodes that are not equally full, and many classes that wait."""
    random = Random(7)
    shop = Shop(**{f"node-{number:04}": "64" for number in range(600)})
    for number in range(600):
        cpu = f"{int(64000 * random.betavariate(5, 2))}m"
        memory = f"{int(16 * random.betavariate(3, 3))}Gi"
        container = {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
        shop.pod(f"used-{number}", nodeName=f"node-{number:04}", containers=[container])
    for number in range(30):
        for pod in range(random.randrange(1, 300)):
            shop.pod(f"train-{number}-{pod}", f"{65 + number}", priority=number)
    while shop.scheduler.decide(NOW.monotonic):
        pass
    for queued in shop.scheduler.queue.pods.values():
        queued.reported = _REASON
    for number in range(12):
        shop.pod(f"web-{number}", "2", labels={"app": str(number)})
    return {
        "identity": "koord-scheduler-7d9c5b_1a2b3c4d",
        "leads": True,
        "leader": "koord-scheduler-7d9c5b_1a2b3c4d",
        "paused": "",
        "problems": [],
        "pending": {**shop.scheduler.queue.counts(), "backoff": 3},
        "cached": {"nodes": 600, "pods": 600, "assumed_pods": 0},
        "unsent_bindings": 120,
        "dropped_reports": 0,
        "repaired_nodes": 0,
        "at": NOW.epoch,
        "rates": rates(),
        "classes": queue_overview(shop.scheduler.queue, NOW.monotonic),
        "gangs": waiting_gangs(),
        "nodes": nodes_overview(shop.scheduler.nodes),
    }


def waiting_gangs() -> Mapping[str, Any]:
    """Two gangs for which there are too few nodes."""
    cluster = GangCluster(*(f"n{number}" for number in range(8)))
    cluster.gang("llama", 16, 12, cpus=3)
    cluster.gang("bert", 4, cpus=64)
    for _ in cluster.decisions():
        pass
    return gangs_overview(cluster.scheduler)


@pytest.fixture(scope="module")
def busy() -> Document:
    return busy_overview()


@pytest.fixture
def served(busy: Document) -> Iterator[dict[str, Any]]:
    """What the page at ``url`` shows, to be changed."""
    shown: dict[str, Any] = dict(busy)
    sources = SchedulerPageSources(dict, lambda: shown, lambda _: {}, dict, dict)
    server = StatusServer("127.0.0.1:0", pages(sources))
    server.start()
    shown["url"] = f"http://{server.address}/"
    yield shown
    server.stop()


def rows_of(page: Dom, first: str) -> list[list[str]]:
    return [row for row in page.rows if row and row[0].startswith(first)]


def test_a_busy_scheduler(served: dict[str, Any]) -> None:
    page = Dom(visit(served["url"]))
    assert page.by_id("role")["class"] == "badge ok"
    assert page.by_id("problem").get("hidden") == ""
    parked = rows_of(page, "shop/train-")
    assert len(parked) == 8
    assert len(rows_of(page, _REASON)) == 8
    assert int(parked[0][1]) > int(parked[-1][1])
    assert len(rows_of(page, "shop/web-")) == 1, "one class, whatever the names of its pods"
    assert len(rows_of(page, "node-")) == 10
    [llama] = rows_of(page, "d/llama")
    assert llama[1:4] == ["16", "0", "12"]
    assert len(page.with_class("column")) == 20
    assert len(page.with_class("stroke")) >= 3
    assert "in 30 classes; the 8 largest" in page.text


@pytest.mark.parametrize(("dark", "width"), [(False, PHONE), (True, 800)])
def test_everybody_can_read_it_on_every_screen(
    served: dict[str, Any], dark: bool, width: int
) -> None:
    visit(served["url"], dark=dark, width=width, judged=True)


def test_problems_and_names_are_text(served: dict[str, Any]) -> None:
    [one, *_] = served["classes"]["parked"]["largest"]
    nasty = {**one, "like": _NASTY, "asks": _NASTY, "reason": _NASTY}
    parked = {**served["classes"]["parked"], "largest": [nasty]}
    served["classes"] = {**served["classes"], "parked": parked}
    node = {**served["nodes"]["fullest"][0], "node": _NASTY}
    served["nodes"] = {**served["nodes"], "fullest": [node]}
    served |= {"leads": False, "leader": _NASTY, "paused": _NASTY, "problems": [_NASTY]}
    page = Dom(visit(served["url"]))
    assert "hidden" not in page.by_id("problem")
    assert page.by_id("role")["class"] == "badge degraded"
    assert page.text.count(_NASTY) == 7
    assert not [tag for tag, _ in page.tags if tag == "img"]
    assert [one["src"] for tag, one in page.tags if tag == "script"] == ["app.js"]


def test_a_scheduler_that_cannot_answer(served: dict[str, Any]) -> None:
    served["nodes"] = object()  # is no JSON
    page = Dom(visit(served["url"]))
    assert "No news from the scheduler since" in page.text


EVERY_PLUGIN = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
    plugins:
      multiPoint:
        enabled: [{name: Coscheduling}, {name: GangScheduling}, {name: TopologyPlacementGenerator},
                  {name: ElasticQuota}, {name: Reservation}, {name: DeviceShare},
                  {name: LoadAwareScheduling}, {name: NodeNUMAResource},
                  {name: NodeResourcesFitPlus}, {name: ScarceResourceAvoidance},
                  {name: SchedulingHint}]
"""


async def test_with_every_plugin_from_the_first_second(side: Side) -> None:
    port = free_port()
    side.node("n1")
    await side.pod("small")
    pods = side.api.fail(status=503, times=1 << 30, plural="pods")
    settings = replace(SETTINGS, bind_address="127.0.0.1", port=port)
    async with side.scheduler(settings, read_scheduler_config(EVERY_PLUGIN)) as made:
        url = f"http://127.0.0.1:{port}/"
        early = Dom(await asyncio.to_thread(visit, url, judged=True))
        assert "no decisions: " in early.text, "it has not read the pods yet"
        pods.times = 0
        await side.bound("small")
        await side.pod("large", "64")
        await until(lambda: side.scheduled("large"), "it waits")
        page = Dom(await asyncio.to_thread(visit, url))
        assert made.status().pending["unschedulable"] == 1
    assert page.by_id("role")["class"] == "badge ok"
    [row] = rows_of(page, "shop/large")
    assert (row[1], row[4]) == ("1", "64 cpu")
    assert "Insufficient cpu" in page.text
    [node, _] = rows_of(page, "n1")
    assert node[1:3] == ["25 %", "3.00"]

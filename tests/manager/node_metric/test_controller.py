"""NodeMetrics end to end: what is asked of koordlet changes, its report does not."""

from __future__ import annotations

from koord_kube.protocol.resources import NODE_METRICS, NODES
from koord_manager.node_metric import controller

from tests.support.kube_api import Key


def started(bench):
    made: list = []
    nodes = bench.nodes(lambda *change: [controller.node_changed(*change) for controller in made])
    made.append(controller.controller(bench.client, nodes, bench.configs(), bench.reported.append))
    bench.run(made[0].run())
    return made[0]


def interval(bench) -> int:
    kept = bench.api.objects.get(Key(NODE_METRICS, "", "n1"))
    return kept["spec"]["metricCollectPolicy"]["reportIntervalSeconds"] if kept else 0


async def test_every_node_is_asked_to_report_as_the_configuration_says(bench):
    bench.api.put(NODES, {"metadata": {"name": "n1"}})
    bench.configure(colocation='{"metricReportIntervalSeconds": 30}')
    started(bench)
    await bench.until(lambda: interval(bench) == 30)
    await bench.client.patch(NODE_METRICS, "n1", {"status": {"a": 1}}, subresource="status")
    bench.configure(colocation='{"metricReportIntervalSeconds": 90}')
    await bench.until(lambda: interval(bench) == 90)
    assert bench.api.get(NODE_METRICS, "n1")["status"] == {"a": 1}
    bench.configure(colocation='{"metricReportIntervalSeconds": 0}')
    await bench.until(lambda: len(bench.events()) == 1)
    assert interval(bench) == 90


async def test_reports_are_no_reason_to_look_at_a_node_again(bench):
    bench.api.put(NODES, {"metadata": {"name": "n1"}})
    made = started(bench)
    await bench.until(lambda: interval(bench) == 60 and made.loop.handled == 2)
    for number in range(20):
        change = {"status": {"a": number}}
        await bench.client.patch(NODE_METRICS, "n1", change, subresource="status")
    bench.configure(colocation='{"metricReportIntervalSeconds": 90}')
    await bench.until(lambda: interval(bench) == 90)
    assert made.loop.handled <= 4

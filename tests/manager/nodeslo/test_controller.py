"""NodeSLOs end to end, down to what koordlet reads."""

from __future__ import annotations

from koord_kube.protocol.resources import NODE_SLOS, NODES
from koord_manager.nodeslo import controller
from koord_model.cpu_burst import BurstPolicy
from koord_model.node_slo import NodeSLO
from koord_model.node_slo_document import parse

from tests.support.kube_api import Key


async def test_a_node_reads_what_holds_for_it_and_follows_its_labels(bench):
    bench.api.put(NODES, {"metadata": {"name": "n1"}})
    bench.configure(
        cpu_burst='{"nodeStrategies": [{"nodeSelector": {"matchLabels": {"a": "b"}}, '
        '"policy": "auto"}]}',
        pykoord='{"clusterStrategy": {"strategies": {"cpu_suppress": {"mode": "shadow"}}}}',
    )
    made: list = []
    nodes = bench.nodes(lambda name, *_: [one.node_changed(name) for one in made])
    made.append(controller.controller(bench.client, nodes, bench.configs(), bench.told.append))
    bench.run(made[0].run())

    def read() -> NodeSLO:
        if Key(NODE_SLOS, "", "n1") not in bench.api.objects:
            return NodeSLO()
        slo, ignored = parse(bench.api.get(NODE_SLOS, "n1"))
        assert ignored == ()
        return slo

    await bench.until(lambda: read().strategies == {"cpu_suppress": {"mode": "shadow"}})
    assert read().burst.policy is BurstPolicy.NONE
    bench.api.put(NODES, {"metadata": {"name": "n1", "labels": {"a": "b"}}})
    await bench.until(lambda: read().burst.policy is BurstPolicy.AUTO)

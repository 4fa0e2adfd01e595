"""One object for each Node, through conflicts, refusals, and kinds that come and go."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import pytest
from koord_kube.protocol.api import Api
from koord_kube.protocol.resources import NODE_SLOS, NODES
from koord_kube.work_queue import WorkQueue
from koord_manager.node_objects.controller import NodeInformer, NodeObjectController
from koord_manager.node_objects.core.nodes import ClusterNode
from koord_manager.nodeslo.core.reconciler import desired
from koord_manager.nodeslo.core.rollout import Rollout

from tests.manager.conftest import PACE, Bench
from tests.support.kube_api import Key


def node(name: str, **labels: str) -> dict[str, object]:
    return {"metadata": {"name": name, "labels": labels}}


@dataclass
class GivenNodes:
    """A double of the Nodes' informer: what a test puts into it."""

    objects: dict[str, ClusterNode] = field(default_factory=dict)
    synced: bool = True

    async def wait_synced(self) -> None:
        pass


def started(
    bench: Bench, api: Api | None = None, given: NodeInformer | None = None
) -> NodeObjectController:
    nodes = given or bench.nodes(lambda *change: made.node_changed(*change))
    made = NodeObjectController(
        api or bench.client,
        NODE_SLOS,
        partial(desired, rollout=Rollout(dict, lambda: 0.0)),
        nodes,
        bench.configs(),
        on_warning=bench.reported.append,
        queue=WorkQueue(first=0.01, cap=0.05),
        pace=PACE,
    )
    bench.run(made.run())
    return made


def policy(bench: Bench, name: str) -> str:
    """Of the CPU burst that a node's NodeSLO has; "" without one."""
    kept = bench.api.objects.get(Key(NODE_SLOS, "", name))
    return str(kept["spec"].get("cpuBurstStrategy", {}).get("policy", "")) if kept else ""


def burst(word: str) -> str:
    return f'{{"clusterStrategy": {{"policy": "{word}"}}}}'


async def test_every_node_has_one_and_it_goes_with_its_node(bench):
    for number in range(5):
        bench.api.put(NODES, node(f"n{number}"))
    bench.api.put(NODE_SLOS, {"metadata": {"name": "gone"}, "spec": {}})
    made = started(bench)
    await bench.until(lambda: all(policy(bench, f"n{number}") == "none" for number in range(5)))
    await bench.until(lambda: Key(NODE_SLOS, "", "gone") not in bench.api.objects)
    [owner] = bench.api.get(NODE_SLOS, "n0")["metadata"]["ownerReferences"]
    assert owner["uid"] == bench.api.get(NODES, "n0")["metadata"]["uid"]
    bench.api.put(NODES, node("n5"))
    await bench.until(lambda: policy(bench, "n5") == "none")
    bench.api.delete(NODES, "n5")
    await bench.until(lambda: policy(bench, "n5") == "")
    assert made.problem == ""


async def test_of_a_node_that_is_made_again_unseen_it_gets_the_new_owner(bench):
    bench.api.put(NODES, node("n1"))
    started(bench)
    await bench.until(lambda: policy(bench, "n1") == "none")
    bench.api.expire_watches()
    bench.api.delete(NODES, "n1")
    bench.api.put(NODES, node("n1"))
    uid = bench.api.get(NODES, "n1")["metadata"]["uid"]

    def owners() -> list[str]:
        meta = bench.api.get(NODE_SLOS, "n1")["metadata"]
        return [one["uid"] for one in meta["ownerReferences"]]

    await bench.until(lambda: owners() == [uid])


async def test_what_is_changed_by_hand_or_by_the_configuration_is_written_again(bench):
    bench.api.put(NODES, node("n1"))
    started(bench)
    await bench.until(lambda: policy(bench, "n1") == "none")
    bench.configure(cpu_burst=burst("auto"))
    await bench.until(lambda: policy(bench, "n1") == "auto")
    kept = bench.api.get(NODE_SLOS, "n1")
    kept["spec"]["cpuBurstStrategy"]["policy"] = "none"
    bench.api.put(NODE_SLOS, kept)
    await bench.until(lambda: policy(bench, "n1") == "auto")
    bench.api.delete(NODE_SLOS, "n1")
    await bench.until(lambda: policy(bench, "n1") == "auto")


async def test_where_all_is_well_nothing_is_written(bench):
    for number in range(20):
        bench.api.put(NODES, node(f"n{number}"))
    made = started(bench)
    await bench.until(lambda: made.loop.handled >= 40)  # once each, and once for what was written
    writes = bench.api.count("create"), bench.api.count("patch")
    made.resync()
    await bench.until(lambda: made.loop.handled >= 60)
    assert (bench.api.count("create"), bench.api.count("patch")) == writes == (20, 0)


async def test_one_that_is_there_already_is_mended_and_not_made(bench):
    """As when it appears between the look and the write."""
    nodes = GivenNodes({"n1": ClusterNode("n1", "uid-n1")})
    made = started(bench, given=nodes)
    await bench.until(lambda: policy(bench, "n1") == "none" and bench.api.open_watches() == 2)
    bench.api.silence_watches()  # what comes now is not seen here
    bench.api.put(NODE_SLOS, {"metadata": {"name": "n2"}, "spec": {"later": 1}})
    nodes.objects["n2"] = ClusterNode("n2", "uid-n2")
    made.node_changed("n2", None, None)
    await bench.until(lambda: policy(bench, "n2") == "none")
    kept = bench.api.get(NODE_SLOS, "n2")
    assert kept["spec"]["later"] == 1
    assert kept["metadata"]["ownerReferences"][0]["uid"] == "uid-n2"
    assert made.loop.failures == 0


@pytest.mark.parametrize(
    ("verb", "status"), [("patch", 409), ("patch", 503), ("create", 409), ("create", 500)]
)
async def test_refusals_are_retried_until_it_is_done(bench, verb: str, status: int):
    bench.api.put(NODES, node("n1"))
    if verb == "patch":
        bench.api.put(NODE_SLOS, {"metadata": {"name": "n1"}, "spec": {}})
    bench.api.fail(times=3, verb=verb, plural="nodeslos", status=status)
    made = started(bench)
    await bench.until(lambda: policy(bench, "n1") == "none")
    assert made.loop.failures >= 1
    await bench.until(lambda: made.problem == "")
    assert "nodeslos: all that failed is done now" in bench.reported


async def test_what_the_api_drops_is_not_written_over_and_over(bench):
    bench.api.put(NODES, node("n1"))
    made = started(bench)
    await bench.until(lambda: policy(bench, "n1") == "none")
    patch = bench.client.patch

    async def pruning(resource, name, change, *args, **more):
        """As a structural schema does with a field that it does not know."""
        change["spec"].get("cpuBurstStrategy", {}).pop("policyy", None)
        return await patch(resource, name, change, *args, **more)

    bench.client.patch = pruning
    bench.configure(cpu_burst='{"clusterStrategy": {"policy": "auto", "policyy": "x"}}')
    await bench.until(lambda: policy(bench, "n1") == "auto")
    assert bench.api.count("patch") == 1
    await bench.until(lambda: b'"auto"' in made._objects.objects["n1"].spec)
    for _ in range(3):
        handled = made.loop.handled
        made.resync()
        await bench.until(lambda before=handled: made.loop.handled > before)
    assert bench.api.count("patch") == 1
    bench.configure(cpu_burst='{"clusterStrategy": {"policy": "none", "policyy": "x"}}')
    await bench.until(lambda: policy(bench, "n1") == "none")


async def test_bad_words_of_a_node_are_reported_once(bench):
    key = "node.koordinator.sh/network-bandwidth"
    bench.api.put(NODES, {"metadata": {"name": "n1", "annotations": {key: "fast"}}})
    made = started(bench)
    await bench.until(lambda: policy(bench, "n1") == "none")
    handled = made.loop.handled
    made.resync()
    await bench.until(lambda: made.loop.handled > handled)
    assert [line for line in bench.reported if key in line] == [
        f'node n1: annotation {key} is "fast"; expected bits a second like "10G" (ignored)'
    ]

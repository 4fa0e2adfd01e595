"""The room against the double of the API server: what is evicted, and what the manager says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from koord_kube.client import Client, Cluster, Limits
from koord_kube.informer import Informer
from koord_kube.pod_evictor import PodEvictor
from koord_kube.protocol.resources import EVENTS, NODES, PODS
from koord_manager.node_backstop.controller import BackstopInputs, NodeBackstopController
from koord_manager.node_backstop.core.backstop import EvictionGrant
from koord_manager.node_backstop.evictions import BackstopEvictor
from koord_manager.node_objects.core.nodes import read_node
from koord_manager.node_taints.controller import NodeTaintController
from koord_manager.node_taints.core.taints import NodeTaint
from koord_manager.slo_config.core.backstop import EvictScope
from koord_manager.slo_config.core.colocation import ColocationStrategy
from koord_manager.slo_config.core.config import UNREAD, advance

from tests.manager.conftest import event_recorder
from tests.support.kube_api import PDBS, KubeApi
from tests.support.waiting import until

TAINT = NodeTaint("node.koordinator.sh/KernelDeadlock", "NoSchedule")
ALL = EvictionGrant(EvictScope.ALL, frozenset({TAINT}), "condition KernelDeadlock")
CONFIG = '{"conditions": {"KernelDeadlock": {"afterSeconds": 0, "evict": "all"}}}'
BE, PROD = {"koordinator.sh/qosClass": "BE"}, {"app": "web"}
TOLERATION = {"key": TAINT.key, "operator": "Exists"}
BUDGET = {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1}


class Bench:
    """An API server, one leader's room, and a clock."""

    def __init__(self, api: KubeApi, client: Client) -> None:
        self.api, self.client, self.now = api, client, 1000.0
        self.warnings: list[str] = []
        self.recorder = event_recorder(client)
        more: Any = {"on_warning": self.warnings.append}
        self.nodes = Informer(client, NODES, decode=read_node, **more)
        more["monotonic"] = lambda: self.now
        evictor = PodEvictor(client.write, client.backoff)
        self.evictor = BackstopEvictor(client, evictor, self.recorder, **more)
        self.config, _ = advance(UNREAD, {"node-backstop-config": CONFIG})
        strategy, no_report = ColocationStrategy(), dict[str, bytes]().get
        inputs = BackstopInputs(
            self.nodes, lambda: True, lambda: self.config, lambda _: strategy, no_report
        )
        about = "slo-controller-config", "koordinator-system"
        self.backstop = NodeBackstopController(
            inputs, self.evictor, self.recorder, config_map=about, **more
        )
        self.taints = NodeTaintController(
            client, self.nodes, [self.backstop], self.recorder, known=self.nodes.wait_synced, **more
        )

    def node(self, name: str, deadlock: str) -> None:
        conditions = [{"type": "KernelDeadlock", "status": deadlock}]
        self.api.put(NODES, {"metadata": {"name": name}, "status": {"conditions": conditions}})

    def pod(self, name: str, labels: dict[str, str], kind: str = "Job", **spec: Any) -> None:
        owner = {"kind": kind, "name": "o", "uid": "o", "apiVersion": "v1", "controller": True}
        meta = {"name": name, "labels": labels, "ownerReferences": [owner] if kind else []}
        spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}], **spec}
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        self.api.put(PODS, {"metadata": meta, "spec": spec, "status": status}, "ns")

    async def look(self) -> None:
        self.now += 10
        await self.taints.look()

    def evicted(self) -> list[str]:
        paths = (request.path for request in self.api.asked if request.path.endswith("/eviction"))
        return [path.split("/")[-2] for path in paths]

    def events(self) -> dict[str, str]:
        found = [event for key, event in self.api.objects.items() if key.resource == EVENTS]
        return {event["reason"]: event["message"] for event in found}


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with (
        KubeApi() as api,
        Client(Cluster(api.url), Limits(qps=0)) as client,
        asyncio.TaskGroup() as group,
    ):
        made = Bench(api, client)
        running = (made.recorder.run(), made.nodes.run(), made.taints.loop.run())
        tasks = [group.create_task(each) for each in running]
        yield made
        for task in tasks:
            task.cancel()


async def test_pods_go_in_order_within_the_budget_and_not_those_that_stay(bench: Bench) -> None:
    for number in range(5):
        bench.pod(f"web-{number}", PROD | BE, priority=number)
    bench.pod("other", {}, priority=10)
    bench.pod("batch", BE, priority=5500)
    bench.pod("free", {}, priority=3500)
    bench.pod("stays", PROD, "DaemonSet")
    bench.pod("alone", BE, "")
    bench.pod("tolerant", BE, tolerations=[TOLERATION])
    bench.pod("critical", {}, priority=2_000_000_000)
    bench.pod("elsewhere", BE, nodeName="n2")
    selector = {"selector": {"matchLabels": PROD}}
    bench.api.put(PDBS, {"metadata": {"name": "b"}, "spec": selector, "status": BUDGET}, "ns")
    granted = {"n1": ALL}
    await bench.evictor.round(["n1"], granted.get)
    assert len(bench.evicted()) == 5, "refused, and enough for one round"
    del bench.api.asked[:]
    await bench.evictor.round(["n1"], granted.get)
    assert bench.evicted() == ["free"]
    await bench.evictor.round(["n1"], granted.get)
    assert bench.evicted() == ["free"], "one in six seconds"
    for _ in range(4):
        bench.now += 6
        await bench.evictor.round(["n1"], granted.get)
    assert bench.evicted() == ["free", "batch", "other"], "refusals are not repeated at once"
    assert bench.evictor.counts == {"evicted": 3, "refused": 5}
    await until(lambda: "NodeBackstopEvicted" in bench.events())
    bench.pod("late", BE)
    bench.now += 60
    await bench.evictor.round([], granted.get)
    await bench.evictor.round(["n1"], {"n1": ALL._replace(scope=EvictScope.BE)}.get)
    assert bench.evicted()[-1] == "late"


async def test_leave_that_ends_ends_evictions(bench: Bench) -> None:
    bench.pod("a", BE)
    answers = [ALL, None]
    await bench.evictor.round(["n1"], lambda _: answers.pop(0))
    assert bench.evicted() == []


async def test_one_unhealthy_node_is_tainted_and_two_of_five_stop_everything(
    bench: Bench,
) -> None:
    for number in range(5):
        bench.node(f"n{number}", "True" if number == 1 else "False")
    await bench.nodes.wait_synced()
    await bench.look()
    await until(lambda: bench.nodes.objects["n1"].annotations)
    assert bench.api.get(NODES, "n1")["spec"]["taints"] == [TAINT.document]
    assert bench.backstop.grant("n1") == ALL
    [decision] = bench.backstop.decisions("n1")
    assert decision.outcome == "condition KernelDeadlock; tainted NoSchedule, evicts pods"
    bench.node("n2", "True")
    await until(lambda: bench.nodes.objects["n2"].conditions["KernelDeadlock"] == "True")
    await bench.look()
    assert bench.taints.problem == (
        "nodebackstop: 2 of 5 nodes have KernelDeadlock, more than 20 %: "
        "no new taints, no evictions"
    )
    assert bench.backstop.grant("n1") is None
    assert bench.backstop.figures.is_stopped
    await until(lambda: len(bench.events()) == 2)
    assert bench.events() == {
        "NodeTaintSet": f"{TAINT.key}:NoSchedule is set: condition KernelDeadlock for 0 s",
        "NodeBackstopStopped": bench.taints.problem,
    }
    bench.node("n2", "False")
    await until(lambda: bench.nodes.objects["n2"].conditions["KernelDeadlock"] == "False")
    for _ in range(31):
        await bench.look()
    assert bench.taints.problem == ""
    assert bench.backstop.grant("n1") == ALL
    assert bench.nodes.objects["n2"].annotations == {}

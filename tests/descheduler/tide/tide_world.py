"""A cluster whose nodes change sides, step by step: a double of all that takes part in it.

The plan and the marks of nodes are the product's. Played are the scheduler's bindings (by its own
filters and scores), ReplicaSets, disruption budgets as the Eviction API has them, and drains: these
choose pods as the product does, and evict them as budgets allow.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from koord_descheduler.drain.drain_spec import read_drain_spec
from koord_descheduler.drain.drained_pods import drained_pods
from koord_descheduler.drain.other_drains import other_drains
from koord_descheduler.planner.virtual_cluster import VirtualCluster
from koord_descheduler.tide.core.node_marks import (
    LABEL_RESERVE,
    Side,
    cleaning_patch,
    marks_patch,
    side_of,
)
from koord_descheduler.tide.core.pod_sides import LABEL_POD_TYPE
from koord_descheduler.tide.core.pool_spec import PREFIX, TidePool, read_pool
from koord_descheduler.tide.core.pool_state import PoolState
from koord_descheduler.tide.core.tide_drain import drain_document, drains_of
from koord_descheduler.tide.core.tide_nodes import tide_nodes
from koord_descheduler.tide.core.tide_plan import (
    BeginMove,
    CleanNode,
    DropDrain,
    EndMove,
    MarkNode,
    TideAct,
    TidePlan,
    plan_pool,
)
from koord_model.times import from_rfc3339, rfc3339

from tests.descheduler.clusters import NOW, Document, TestCluster, node, pod
from tests.support.merge_patch import merged

BATCH = {
    "nodeSelector": {f"{PREFIX}/node-type": "offline"},
    "tolerations": [{"key": f"{PREFIX}/online-not-used", "operator": "Exists"}],
}
"""Fields of the pods of batch jobs."""


@dataclass
class App:
    """A ReplicaSet; ``disruptions`` of its pods may be missing by evictions, if it is a service."""

    cpu: str
    replicas: int
    side: Side = Side.ONLINE
    disruptions: int = 1
    names: list[str] = field(default_factory=list)


class TideWorld:
    """``changes`` are the nodes that changed sides, and when; ``refused`` counts evictions."""

    def __init__(self, nodes: int = 6, cpu: int = 8, config: Any = None, **spec: Any) -> None:
        self.now = NOW
        self.cluster = TestCluster(config)
        self.nodes: dict[str, Document] = {}
        self.pods: dict[str, Document] = {}
        self.drains: dict[str, Document] = {}
        self.apps: dict[str, App] = {}
        self.changes: list[tuple[float, str, Side]] = []
        self.missing: Counter[str] = Counter()
        self.refused = self.evicted = 0
        self._number = 0
        for number in range(nodes):
            self.put_node(node(f"n{number:02}", str(cpu), "64Gi"))
        self.document: Document = {
            "metadata": {"name": "p", "uid": "uid-of-p"},
            "spec": {"nodeConfigs": {}} | spec,
        }

    @property
    def pool(self) -> TidePool:
        return read_pool(self.document)

    def put_node(self, document: Document) -> None:
        self.nodes[document["metadata"]["name"]] = document
        self.cluster.put(document)

    def patch_node(self, name: str, change: Document | None) -> None:
        if change is not None:
            self.put_node(merged(self.nodes[name], change))

    def side(self, name: str) -> Side:
        return side_of(self.nodes[name]["metadata"]["labels"], self.pool)

    def on(self, side: Side) -> list[str]:
        return [node.name for node in self.state().on(side)]

    def waiting(self, side: Side = Side.ONLINE) -> list[str]:
        return [
            name
            for app in self.apps.values()
            for name in app.names
            if app.side is side and not self.pods[name]["spec"].get("nodeName")
        ]

    # ---- a step of all

    def step(self, seconds: float = 60.0) -> TidePlan:
        self.now = from_rfc3339(rfc3339(self.now + seconds))
        self._replica_sets()
        self._bind()
        for drain in list(self.drains.values()):
            self._drain(drain)
        plan = plan_pool(self.state())
        for act in plan.acts:
            self.perform(act)
        return plan

    def state(self) -> PoolState:
        pool, documents = self.pool, list(self.drains.values())
        drains = drains_of(pool, documents)
        foreign = {name: each for name, each in self.drains.items() if _is_foreign(each)}
        drained = other_drains("", foreign).nodes
        nodes = tide_nodes(self.cluster.cluster, pool, drains, drained=drained, pools={"p"})
        others = other_drains("", self.drains)
        return PoolState(self.cluster.cluster, pool, nodes, drains, others, self.now)

    def perform(self, act: TideAct) -> None:
        pool = self.pool
        match act:
            case MarkNode(name, side, reserved):
                self.patch_node(name, marks_patch(self.nodes[name], pool, side, reserved=reserved))
            case BeginMove(move):
                made = drain_document(pool, move.node, move.to, move.why)
                self._number += 1
                name = made["metadata"]["name"]
                assert name not in self.drains
                made["metadata"] |= {
                    "uid": f"drain-{self._number}",
                    "creationTimestamp": rfc3339(self.now),
                }
                self.drains[name] = made
            case EndMove(drain, last):
                document = self.nodes[drain.node]
                side = drain.to if last.is_done else self.side(drain.node)
                reserved = document["metadata"]["labels"].get(LABEL_RESERVE) == "true"
                reserved &= not last.is_done
                change = marks_patch(document, pool, side, reserved=reserved, move=last)
                self.patch_node(drain.node, change)
                if last.is_done:
                    self.changes.append((self.now, drain.node, drain.to))
            case DropDrain(drain):
                del self.drains[drain.name]
                self.patch_node(drain.node, {"spec": {"unschedulable": None}})
            case CleanNode(name):
                self.patch_node(name, cleaning_patch(self.nodes[name], pool))

    # ---- those who take part

    def _replica_sets(self) -> None:
        for owner, app in self.apps.items():
            while len(app.names) > app.replicas:
                self._end(app.names[-1])
            while len(app.names) < app.replicas:
                self._number += 1
                name = f"{owner}-{self._number}"
                more: dict[str, Any] = {}
                labels = {"app": owner, LABEL_POD_TYPE: app.side.value}
                if app.side is Side.OFFLINE:
                    more["spec"] = BATCH
                made = pod(name, cpu=app.cpu, owner=owner, labels=labels, **more)
                made["status"]["conditions"] = []
                self.pods[name] = made
                app.names.append(name)
                self.cluster.put(made)

    def _end(self, name: str) -> None:
        made = self.pods.pop(name)
        self.apps[made["metadata"]["labels"]["app"]].names.remove(name)
        self.cluster.remove("Pod", f"default/{name}")

    def _bind(self) -> None:
        virtual = VirtualCluster(self.cluster.cluster, self.now)
        found = virtual.let_pending_in()
        virtual.undo()
        for key, target in found.items():
            made = self.pods[key.removeprefix("default/")]
            made["spec"]["nodeName"] = target
            made["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
            self.cluster.put(made)

    def _drain(self, drain: Document) -> None:
        name = drain["spec"]["nodeName"]
        self.patch_node(name, {"spec": {"unschedulable": True}})
        left = drained_pods(self.cluster.cluster, read_drain_spec(drain["spec"]))
        for each in left:
            if not each.obstacle:
                self._evict(each.view.name)
        left = drained_pods(self.cluster.cluster, read_drain_spec(drain["spec"]))
        drain["status"] = {"phase": "Running" if left else "Drained"}

    def _evict(self, name: str) -> None:
        app = self.pods[name]["metadata"]["labels"]["app"]
        if self.apps[app].side is Side.OFFLINE:
            self.evicted += 1
            self._end(name)
            return
        placed = [each for each in self.apps[app].names if self.pods[each]["spec"].get("nodeName")]
        if len(placed) <= self.apps[app].replicas - self.apps[app].disruptions:
            self.refused += 1
            return
        self.evicted += 1
        self._end(name)
        self.missing[app] = max(self.missing[app], self.apps[app].replicas - len(placed) + 1)


def _is_foreign(drain: Document) -> bool:
    return not drain["metadata"].get("labels")

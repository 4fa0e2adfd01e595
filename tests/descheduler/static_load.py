"""A cluster whose pods use the same for ever, wherever they run; plans are carried out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st
from koord_descheduler.planner.move import Move, RoundPlan
from koord_descheduler.planner.usage import NodeUsages, RequestUsages, Usages
from koord_descheduler.planner.virtual_cluster import VirtualCluster
from koord_descheduler.plugin import DeschedulerPlugin

from tests.descheduler.clusters import NOW, Document, TestCluster, node, node_metric, pod

_GIB = 1 << 30


class StaticLoad:
    """Pods by name, each with its document and what it uses; ``nodes`` are documents by name."""

    def __init__(self, nodes: list[Document], pods: list[tuple[Document, dict[str, int]]]) -> None:
        self.config: Any = None
        self.nodes = {document["metadata"]["name"]: document for document in nodes}
        self.pods = {document["metadata"]["name"]: document for document, _ in pods}
        self._used = {document["metadata"]["name"]: used for document, used in pods}

    def cluster(self) -> TestCluster:
        """All of it as it is now, in a new cluster."""
        found = TestCluster(self.config)
        found.put(*self.nodes.values(), *self.pods.values(), *self._reports())
        return found

    def _reports(self) -> Iterator[Document]:
        for name in self.nodes:
            here = (key for key, one in self.pods.items() if one["spec"].get("nodeName") == name)
            usages = {
                f"default/{key}": {
                    "cpu": f"{self._used[key]['cpu']}m",
                    "memory": str(self._used[key]["memory"]),
                }
                for key in here
            }
            yield node_metric(name, {"cpu": "100m"}, usages)

    def carry_out(self, move: Move) -> None:
        """A pod is gone, and another one in its place runs where it was planned."""
        old = self.pods.pop(move.pod.name)
        used = self._used.pop(move.pod.name)
        name = move.pod.name + "x"
        metadata = old["metadata"] | {"name": name, "uid": f"uid-{name}"}
        self.pods[name] = old | {
            "metadata": metadata,
            "spec": old["spec"] | {"nodeName": move.target},
        }
        self._used[name] = used

    def imbalance(self, of: str = "used") -> float:
        """Standard deviation of the worse of the parts of CPU and memory of each node.

        ``of`` says which: those that all pods (``used``) or those of production use (``prod``), or
        those that all ``request``.
        """
        cluster = self.cluster().cluster
        requests = RequestUsages(cluster)
        usages: NodeUsages = requests if of == "request" else Usages(cluster, NOW, 180.0)
        loads = []
        for name, node_of_name in cluster.nodes.items():
            usage, capacity = usages.of(name), usages.capacity(node_of_name)
            assert usage is not None
            amounts = usage.prod if of == "prod" else usage.used
            loads.append(max(amounts.get(r, 0) / capacity[r] for r in ("cpu", "memory")))
        return float(np.std(loads))


def fits(load: StaticLoad, move: Move) -> bool:
    """True if the scheduler of a new cluster finds that the pod may run on its target."""
    cluster = load.cluster().cluster
    virtual, one = VirtualCluster(cluster, NOW), cluster.pods[move.pod.key]
    virtual.take(one)
    row = cluster.scheduler.nodes.row(move.target)
    return row in virtual.fitting(one)


def rounds(
    load: StaticLoad, *plugins: DeschedulerPlugin, most: int = 20, **more: Any
) -> Iterator[tuple[TestCluster, RoundPlan]]:
    """Rounds of plugins, each carried out after it was looked at, until nothing moves."""
    for _ in range(most):
        cluster = load.cluster()
        plan = cluster.round(*plugins, **more)
        yield cluster, plan
        if not plan.moves:
            return
        for move in plan.moves:
            load.carry_out(move)


def _constraints(spread: str) -> Mapping[str, Any]:
    selector = {"matchLabels": {"app": spread}}
    key = "kubernetes.io/hostname"
    match spread:
        case "apart":
            term = {"topologyKey": key, "labelSelector": selector}
            return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}  # fmt: skip # noqa: E501
        case "spread":
            return {
                "topologySpreadConstraints": [
                    {
                        "maxSkew": 1,
                        "topologyKey": key,
                        "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": selector,
                    }
                ]
            }
        case "zone":
            return {"nodeSelector": {"zone": "z0"}}
    return {}


@st.composite
def static_loads(draw: st.DrawFn) -> StaticLoad:
    """Small clusters, some nodes of which use too much."""
    nodes = []
    for number in range(draw(st.integers(2, 6))):
        cpu, memory = draw(st.sampled_from([(4, 8), (8, 16), (8, 64), (16, 32)]))
        taint = draw(st.sampled_from([[]] * 5 + [[{"key": "k", "effect": "NoSchedule"}]]))
        zone = draw(st.sampled_from(["z0", "z1"]))
        nodes.append(
            node(f"n{number}", str(cpu), f"{memory}Gi", labels={"zone": zone}, taints=taint)
        )
    pods = []
    for number in range(draw(st.integers(1, 16))):
        app = draw(st.sampled_from(["free", "free", "apart", "spread", "zone"]))
        priority = draw(st.sampled_from(["", "koord-batch", "koord-prod"]))
        labels = {"app": app} | ({"koordinator.sh/priority-class": priority} if priority else {})
        document = pod(
            f"p{number}",
            f"n{draw(st.integers(0, len(nodes) - 1))}",
            cpu=f"{draw(st.sampled_from([100, 500, 2000]))}m",
            memory=draw(st.sampled_from(["256Mi", "1Gi", "4Gi"])),
            owner=app,
            labels=labels,
            spec=_constraints(app),
        )
        used = {
            "cpu": draw(st.integers(0, 4000)),
            "memory": draw(st.integers(0, 6)) * _GIB // 2,
        }
        pods.append((document, used))
    return StaticLoad(nodes, pods)

"""A pod gets its CPUs, memory and devices from the same NUMA nodes of one node."""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model import cpuset
from koord_model.keys import (
    ANNOTATION_CPU_TOPOLOGY,
    ANNOTATION_DEVICE_ALLOCATED,
    ANNOTATION_NUMA_TOPOLOGY_SPEC,
    ANNOTATION_RESOURCE_STATUS,
    GPU,
    GPU_CORE,
    GPU_MEMORY_RATIO,
)
from koord_scheduler.extension_points.kept_room import NO_ROOM, KeptRoom
from koord_scheduler.extension_points.topology_hints import (
    NUMAHint,
    ProviderHints,
    TopologyHintProvider,
)
from koord_scheduler.framework.cluster_kinds import cluster_kinds, pod_kind
from koord_scheduler.framework.decisions import Placement, Refusal
from koord_scheduler.framework.profile import EnabledPlugin, Profile
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.objects.pod import read_pod
from koord_scheduler.plugin import Plugin
from koord_scheduler.plugins.device_share.plugin import DeviceShare, DeviceShareSettings
from koord_scheduler.plugins.node_numa_resource.plugin import NodeNUMAResource
from koord_scheduler.plugins.node_resources_fit import NodeResourcesFit
from koord_scheduler.state.arrays import Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass, pod_class

CARDS = {0: (0, 1), 1: (2, 3)}
"""GPUs by NUMA node; each has four CPUs, too."""


class Cluster:
    """Nodes of two NUMA nodes, of which some CPUs and GPUs are taken."""

    def __init__(self, *, is_aligned: bool = True) -> None:
        self.devices = DeviceShare(DeviceShareSettings(is_aligned=is_aligned))
        self.numa = NodeNUMAResource()
        plugins = [EnabledPlugin(one) for one in (NodeResourcesFit(), self.numa, self.devices)]
        self.scheduler = Scheduler([Profile("default-scheduler", tuple(plugins))])
        kinds = (*cluster_kinds(self.scheduler), pod_kind(self.scheduler, lambda: 0.0))
        self.kinds = {one.resource.kind: one for one in kinds}

    def put(self, kind: str, key: str, document: Mapping[str, Any]) -> None:
        self.kinds[kind].put(key, self.kinds[kind].read(json.dumps(document).encode()))

    def node(self, name: str) -> None:
        amounts = {"cpu": "8", "memory": "16Gi", "pods": "110", GPU: "400"}
        amounts |= {GPU_CORE: "400", GPU_MEMORY_RATIO: "400"}
        self.put("Node", name, {"metadata": {"name": name}, "status": {"allocatable": amounts}})
        self.put("NodeResourceTopology", name, topology(name))
        cards = [card(minor, numa) for numa, minors in CARDS.items() for minor in minors]
        self.put("Device", name, {"metadata": {"name": name}, "spec": {"devices": cards}})

    def taken(self, node: str, cpus: str, minors: tuple[int, ...]) -> None:
        """A pod has these CPUs and GPUs."""
        amounts = {GPU_CORE: "100", GPU_MEMORY_RATIO: "100"}
        devices = {"gpu": [{"minor": minor, "resources": amounts} for minor in minors]}
        own = [cpu // 4 for cpu in listed(cpus)]
        zones = [{"node": one, "resources": {"cpu": str(own.count(one))}} for one in set(own)]
        annotations = {
            ANNOTATION_RESOURCE_STATUS: json.dumps({"cpuset": cpus, "numaNodeResources": zones}),
            ANNOTATION_DEVICE_ALLOCATED: json.dumps(devices),
        }
        self.put("Pod", f"shop/on-{node}", pod(f"on-{node}", {}, annotations, node))

    def place(self, cpus: int, gpus: int, policy: str = "SingleNUMANode") -> Placement | Refusal:
        self.put("Pod", "shop/web", wanted(cpus, gpus, policy))
        self.scheduler.wake(0.0)
        decision = self.scheduler.decide(0.0)
        assert isinstance(decision, Placement | Refusal)
        return decision


def topology(name: str) -> dict[str, Any]:
    detail = [{"id": cpu, "core": cpu // 2, "node": cpu // 4, "socket": 0} for cpu in range(8)]
    has = [{"name": "cpu", "allocatable": "4"}, {"name": "memory", "allocatable": "8Gi"}]
    zones = [{"name": f"node-{zone}", "type": "Node", "resources": has} for zone in (0, 1)]
    annotations = {ANNOTATION_CPU_TOPOLOGY: json.dumps({"detail": detail})}
    return {"metadata": {"name": name, "annotations": annotations}, "zones": zones}


def card(minor: int, numa: int) -> dict[str, Any]:
    place = {"socketID": 0, "nodeID": numa, "pcieID": f"p{numa}", "busID": f"0000:{minor}:00.0"}
    resources = {GPU_CORE: "100", GPU_MEMORY_RATIO: "100", "koordinator.sh/gpu-memory": "80Gi"}
    named = {"type": "gpu", "id": f"GPU-{minor}", "minor": minor, "health": True}
    return {**named, "resources": resources, "topology": place}


def pod(
    name: str, requests: Mapping[str, str], annotations: Mapping[str, str], node: str = ""
) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": requests}}
    labels = {"koordinator.sh/qosClass": "LSR"}
    metadata = {"name": name, "namespace": "shop", "uid": name, "labels": labels}
    spec = {"containers": [container], "priority": 9500, "nodeName": node}
    return {"metadata": {**metadata, "annotations": annotations}, "spec": spec}


def wanted(cpus: int, gpus: int, policy: str) -> dict[str, Any]:
    requests = {"cpu": str(cpus), "memory": "1Gi", GPU: str(100 * gpus)}
    spec = {ANNOTATION_NUMA_TOPOLOGY_SPEC: json.dumps({"numaTopologyPolicy": policy})}
    return pod("web", requests, spec)


def given_to(decision: Placement) -> tuple[set[int], set[int]]:
    """The CPUs and GPUs that a pod gets."""
    annotations: dict[str, str | None] = {}
    for one in decision.reserved:
        annotations |= dict(one.annotations)  # type: ignore[attr-defined]
    status = json.loads(annotations[ANNOTATION_RESOURCE_STATUS] or "")
    devices = json.loads(annotations[ANNOTATION_DEVICE_ALLOCATED] or "")
    return listed(status["cpuset"]), {one["minor"] for one in devices["gpu"]}


@pytest.mark.parametrize("zone", [0, 1])
def test_cpus_follow_the_cards_that_are_left(zone: int) -> None:
    cluster = Cluster()
    cluster.node("n1")
    cluster.taken("n1", "", CARDS[1 - zone])
    decision = cluster.place(2, 1)
    assert isinstance(decision, Placement)
    cpus, cards = given_to(decision)
    assert {cpu // 4 for cpu in cpus} == {zone}
    assert cards <= set(CARDS[zone])


def test_cards_and_cpus_of_different_numa_nodes_are_no_place() -> None:
    cluster = Cluster()
    cluster.node("n1")
    cluster.taken("n1", "0-3", CARDS[1])
    assert isinstance(cluster.place(2, 1), Refusal)
    cluster.node("n2")
    decision = cluster.place(2, 1)
    assert isinstance(decision, Placement)
    assert decision.node == "n2"


def test_best_effort_takes_what_there_is() -> None:
    cluster = Cluster()
    cluster.node("n1")
    cluster.taken("n1", "0-3", CARDS[1])
    decision = cluster.place(2, 1, "BestEffort")
    assert isinstance(decision, Placement)
    cpus, cards = given_to(decision)
    assert cpus == {4, 5}
    assert cards <= set(CARDS[0])


def test_devices_are_not_aligned_where_nobody_wants_it() -> None:
    cluster = Cluster(is_aligned=False)
    cluster.node("n1")
    cluster.taken("n1", "0-3", CARDS[1])
    decision = cluster.place(2, 1)
    assert isinstance(decision, Placement)
    assert given_to(decision)[0] == {4, 5}


SOME_CPUS = ["", "0-1", "0-3", "4-5", "2-5", "0-3,6-7"]
SOME_CARDS = [(), (0,), (0, 1), (2, 3), (1, 2, 3)]


@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(1, 4))
def test_a_node_is_taken_if_and_only_if_one_numa_node_has_all(
    seed: int, cpus: int, gpus: int
) -> None:
    rng, cluster = Random(seed), Cluster()
    names = ("n1", "n2", "n3")
    fits = {}
    for name in names:
        cluster.node(name)
        taken, minors = rng.choice(SOME_CPUS), rng.choice(SOME_CARDS)
        cluster.taken(name, taken, minors)
        busy = listed(taken)
        fits[name] = {
            zone
            for zone in CARDS
            if len(set(range(4 * zone, 4 * zone + 4)) - busy) >= cpus
            and len(set(CARDS[zone]) - set(minors)) >= gpus
            and not keeps_apart(busy, zone)
        }
    waiting = pod_class(
        read_pod(json.dumps(wanted(cpus, gpus, "SingleNUMANode")).encode()),
        cluster.scheduler.nodes.features.values(),
    )
    rows: Rows = np.flatnonzero(cluster.scheduler.nodes.is_node)
    rejected = np.zeros(len(rows), np.bool_)
    for plugin in (cluster.numa, cluster.devices):
        for reason in plugin.reasons(waiting, cluster.scheduler.nodes, rows):
            rejected |= reason.rows
    found = {cluster.scheduler.nodes.name(row) for row in rows[~rejected].tolist()}
    assert found == {name for name in names if fits[name]}
    decision = cluster.place(cpus, gpus)
    assert isinstance(decision, Placement) is bool(found)
    if isinstance(decision, Placement):
        got, cards = given_to(decision)
        (zone,) = {cpu // 4 for cpu in got}
        assert zone in fits[decision.node]
        assert cards <= set(CARDS[zone])
        assert len(got) == cpus


def listed(cpus: str) -> set[int]:
    return set(cpuset.parse(cpus)) if cpus else set()


def keeps_apart(busy: set[int], zone: int) -> bool:
    """A pod with CPUs of both NUMA nodes keeps those that want one for themselves away."""
    return len({cpu // 4 for cpu in busy}) > 1


class BothOrNone(Plugin):
    """Gives something near both NUMA nodes together, though it says it could near the first."""

    name: ClassVar[str] = "BothOrNone"

    def topology_hints(self, pod: PodClass, nodes: ClusterState) -> TopologyHintProvider | None:
        return self

    def hints(self, row: int, kept: KeptRoom = NO_ROOM) -> ProviderHints:
        return (("example.com/pair", (NUMAHint(0b01, preferred=True),)),)

    def rejection(self, row: int, mask: int, kept: KeptRoom = NO_ROOM) -> str:
        return "" if mask == 0b11 else "no pair there"


@pytest.mark.parametrize("policy", ["Restricted", "SingleNUMANode", "BestEffort"])
def test_a_plugin_that_cannot_provide_near_the_chosen_nodes_rejects_the_node(policy: str) -> None:
    cluster, other = Cluster(), BothOrNone()
    cluster.node("n1")
    cluster.numa.join([cluster.numa, other])
    nodes = cluster.scheduler.nodes
    document = json.dumps(wanted(2, 1, policy)).encode()
    waiting = pod_class(read_pod(document), nodes.features.values())
    (row,) = rows = np.flatnonzero(nodes.is_node)
    texts = [reason.text for reason in cluster.numa.reasons(waiting, nodes, rows)]
    assert texts == ([] if policy == "BestEffort" else ["no pair there"])
    assert cluster.numa.topology_affinity(waiting, nodes, int(row)) is None
    other.rejection = lambda row, mask, kept=NO_ROOM: ""  # type: ignore[method-assign]
    assert cluster.numa.topology_affinity(waiting, nodes, int(row)) == 0b01

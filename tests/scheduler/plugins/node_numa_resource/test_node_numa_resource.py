"""Pods get CPUs of their own, and keep them for as long as they have their node."""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_kube.protocol.pod_requests import annotations_patch
from koord_kube.protocol.request import Request
from koord_model import cpuset
from koord_model.keys import (
    ANNOTATION_AMPLIFICATION_RATIO,
    ANNOTATION_CPU_TOPOLOGY,
    ANNOTATION_NUMA_TOPOLOGY_SPEC,
    ANNOTATION_RESOURCE_SPEC,
    ANNOTATION_RESOURCE_STATUS,
)
from koord_scheduler.config.scheduler_config import read_scheduler_config
from koord_scheduler.framework.cluster_kinds import cluster_kinds, pod_kind
from koord_scheduler.framework.decisions import Placement, PreemptionPlan, Refusal
from koord_scheduler.framework.diagnosis import diagnose
from koord_scheduler.framework.profile import EnabledPlugin, Profile
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.objects.pod import read_pod
from koord_scheduler.plugin import Plugin
from koord_scheduler.plugins.node_numa_resource.assumed_numa import AssumedNUMA
from koord_scheduler.plugins.node_numa_resource.columns import NUMAColumns
from koord_scheduler.plugins.node_numa_resource.placement import NodePlacement, NodeUse
from koord_scheduler.plugins.node_numa_resource.plugin import NodeNUMAResource
from koord_scheduler.plugins.node_numa_resource.pod_needs import NUMASettings, pod_needs
from koord_scheduler.plugins.node_numa_resource.pod_parts import NUMA_NEEDS
from koord_scheduler.plugins.node_numa_resource.scores import AmountScorer
from koord_scheduler.plugins.node_resources_fit import NodeResourcesFit
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import pod_class
from koord_scheduler.state.resource_scores import most_taken

LABEL_POLICY = "node.koordinator.sh/numa-topology-policy"
MOST = AmountScorer(most_taken)


LSR = {"koordinator.sh/qosClass": "LSR"}


class Cluster:
    """Nodes of two NUMA nodes with two cores of two CPUs each."""

    def __init__(self, *nodes: str, labels: Mapping[str, str] | None = None) -> None:
        plugin: Plugin = NodeNUMAResource(NUMASettings(scorer=MOST))
        plugins = EnabledPlugin(NodeResourcesFit()), EnabledPlugin(plugin, weight=100)
        self.scheduler = Scheduler([Profile("default-scheduler", plugins)])
        kinds = (*cluster_kinds(self.scheduler), pod_kind(self.scheduler, lambda: 0.0))
        self.kinds = {one.resource.kind: one for one in kinds}
        for name in nodes:
            self.node(name, labels or {})
            self.put("NodeResourceTopology", name, topology(name))

    def node(
        self, name: str, labels: Mapping[str, str], annotations: Mapping[str, str] | None = None
    ) -> None:
        amounts = {"cpu": "8", "memory": "16Gi", "pods": "110"}
        metadata = {"name": name, "labels": labels, "annotations": annotations or {}}
        self.put("Node", name, {"metadata": metadata, "status": {"allocatable": amounts}})

    def put(self, kind: str, key: str, document: Mapping[str, Any]) -> None:
        self.kinds[kind].put(key, self.kinds[kind].read(json.dumps(document).encode()))

    def pod(self, name: str, cpus: str, node: str = "", **annotations: str) -> None:
        document = pod_document(name, cpus, node, LSR)
        document["metadata"]["annotations"] = annotations
        self.put("Pod", f"shop/{name}", document)

    def place(self, name: str, cpus: str, **annotations: str) -> Placement:
        self.pod(name, cpus, **annotations)
        decision = self.scheduler.decide(0.0)
        assert isinstance(decision, Placement)
        return decision

    def taken(self, node: str) -> str:
        row = self.scheduler.nodes.row(node)
        assert row is not None
        return cpuset.render(self.scheduler.nodes.use(NUMAColumns).allocation(row).taken_cpus())


def pod_document(
    name: str, cpus: str, node: str = "", labels: Mapping[str, str] | None = None
) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": cpus, "memory": "1Gi"}}}
    metadata = {"name": name, "namespace": "shop", "uid": f"u-{name}", "labels": labels}
    spec = {"containers": [container], "priority": 9500, "nodeName": node}
    return {"metadata": metadata, "spec": spec}


def topology(name: str) -> dict[str, Any]:
    detail = [{"id": cpu, "core": cpu // 2, "node": cpu // 4, "socket": 0} for cpu in range(8)]
    has = [{"name": "cpu", "allocatable": "4"}, {"name": "memory", "allocatable": "8Gi"}]
    zones = [{"name": f"node-{zone}", "type": "Node", "resources": has} for zone in (0, 1)]
    annotations = {ANNOTATION_CPU_TOPOLOGY: json.dumps({"detail": detail})}
    return {"metadata": {"name": name, "annotations": annotations}, "zones": zones}


def request(placement: Placement) -> Request:
    (reservation,) = placement.reserved
    assert isinstance(reservation, AssumedNUMA)
    return annotations_patch(placement.pod.key, placement.pod.uid, dict(reservation.annotations))


def status(placement: Placement) -> dict[str, Any]:
    body = request(placement).body
    assert body is not None
    found: dict[str, Any] = json.loads(body["metadata"]["annotations"][ANNOTATION_RESOURCE_STATUS])
    return found


def test_cpus_are_taken_confirmed_and_given_back() -> None:
    cluster = Cluster("n1")
    first, second = cluster.place("a", "2"), cluster.place("b", "4")
    assert (status(first)["cpuset"], status(second)["cpuset"]) == ("0-1", "4-7")
    assert cluster.taken("n1") == "0-1,4-7"
    cluster.pod("a", "2", "n1", **{ANNOTATION_RESOURCE_STATUS: json.dumps(status(first))})
    assert cluster.taken("n1") == "0-1,4-7"
    cluster.scheduler.forget(second.pod, 0.0)
    assert cluster.taken("n1") == "0-1"
    cluster.scheduler.remove_pod("shop/a")
    assert cluster.taken("n1") == ""


def test_pods_that_run_already_keep_their_cpus_though_the_node_is_known_later() -> None:
    cluster = Cluster()
    cluster.pod("a", "6", "n1", **{ANNOTATION_RESOURCE_STATUS: '{"cpuset": "0-5"}'})
    amounts = {"cpu": "64", "memory": "16Gi", "pods": "110"}
    node = {"metadata": {"name": "n1"}, "status": {"allocatable": amounts}}
    cluster.put("Node", "n1", node)
    cluster.put("NodeResourceTopology", "n1", topology("n1"))
    assert status(cluster.place("b", "2"))["cpuset"] == "6-7"
    cluster.pod("c", "1")
    decision = cluster.scheduler.decide(0.0)
    assert isinstance(decision, Refusal)
    (one,) = diagnose(cluster.scheduler.scores(decision.pod)).reasons
    assert one == "not enough cpus available to satisfy request"


def test_pods_that_differ_in_annotations_alone_are_distinguished() -> None:
    cluster = Cluster("n1")
    for number in range(2):
        given = json.dumps({"cpuset": str(number)})
        cluster.pod(f"old-{number}", "1", "n1", **{ANNOTATION_RESOURCE_STATUS: given})
    assert cluster.taken("n1") == "0-1"
    spread = json.dumps({"requiredCPUBindPolicy": "SpreadByPCPUs"})
    assert status(cluster.place("a", "2"))["cpuset"] == "4-5"
    assert status(cluster.place("b", "2", **{ANNOTATION_RESOURCE_SPEC: spread}))["cpuset"] == "2,6"


def test_a_pod_says_of_whom_it_is() -> None:
    placement = Cluster("n1").place("a", "2")
    sent = request(placement)
    assert (sent.method, sent.name, sent.namespace) == ("PATCH", "a", "shop")
    assert sent.body is not None
    assert sent.body["metadata"]["uid"] == "u-a"


def test_a_node_with_a_policy_gives_amounts_of_one_numa_node() -> None:
    cluster = Cluster("n1", labels={LABEL_POLICY: "SingleNUMANode"})
    given = status(cluster.place("a", "3"))
    assert given["cpuset"] == "0-2"
    resources = {"cpu": "3", "memory": "1Gi"}
    assert given["numaNodeResources"] == [{"node": 0, "resources": resources}]
    cluster.pod("b", "5")
    assert isinstance(cluster.scheduler.decide(0.0), Refusal)


def test_what_was_written_for_a_node_that_the_pod_did_not_get_is_removed() -> None:
    cluster = Cluster("n1")
    requests = {"memory": "1Gi"}
    container = {"name": "c", "resources": {"requests": requests}}
    annotations = {ANNOTATION_RESOURCE_STATUS: '{"cpuset": "0-1"}'}
    metadata = {"name": "a", "namespace": "shop", "annotations": annotations}
    cluster.put("Pod", "shop/a", {"metadata": metadata, "spec": {"containers": [container]}})
    decision = cluster.scheduler.decide(0.0)
    assert isinstance(decision, Placement)
    body = request(decision).body
    assert body is not None
    assert body["metadata"]["annotations"] == {ANNOTATION_RESOURCE_STATUS: None}


def test_fuller_nodes_are_better_with_most_allocated() -> None:
    cluster = Cluster("n1", "n2")
    first = cluster.place("a", "2")
    assert {cluster.place(name, "2").node for name in "bcd"} == {first.node}


@pytest.mark.parametrize("label", ["LSR", "LS"])
def test_a_pod_takes_the_place_of_one_that_has_its_cpus(label: str) -> None:
    """Of another only if amounts say so: its CPUs are no concern of pods that share theirs."""
    cluster = Cluster("n1")
    cluster.pod("old", "6", "n1", **{ANNOTATION_RESOURCE_STATUS: '{"cpuset": "0-5"}'})
    labels = {"koordinator.sh/qosClass": label}
    container = {"name": "c", "resources": {"requests": {"cpu": "4"}}}
    metadata = {"name": "a", "namespace": "shop", "labels": labels}
    spec = {"containers": [container], "priority": 9999}
    cluster.put("Pod", "shop/a", {"metadata": metadata, "spec": spec})
    decision = cluster.scheduler.decide(0.0)
    assert isinstance(decision, PreemptionPlan)
    assert [one.key for one in decision.preemption.victims] == ["shop/old"]


def test_topologies_are_watched_only_where_they_count() -> None:
    profile = Profile("default-scheduler", (EnabledPlugin(NodeResourcesFit()),))
    needed = {one.resource.kind for one in cluster_kinds(Scheduler([profile])) if one.is_needed}
    assert "NodeResourceTopology" not in needed


def configured(args: str) -> str:
    return f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - plugins:
      multiPoint: {{enabled: [{{name: NodeNUMAResource, weight: 2}}]}}
    pluginConfig:
      - name: NodeNUMAResource
        args: {args}
"""


@pytest.mark.parametrize(
    ("args", "named"),
    [
        ("{defaultCPUBindPolicy: ConstrainedBurst}", "defaultCPUBindPolicy"),
        ("{scoringStrategy: {type: RequestedToCapacityRatio}}", "scoringStrategy.type"),
        ("{numaScoringStrategy: {type: Any}}", "numaScoringStrategy.type"),
        ("{numaPolicy: Any}", "numaPolicy"),
    ],
)
def test_arguments_that_koordinator_refuses_are_refused(args: str, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        read_scheduler_config(configured(args))


def test_a_configuration_enables_it() -> None:
    text = configured('{defaultCPUBindPolicy: "", numaScoringStrategy: {type: MostAllocated}}')
    config = read_scheduler_config(text)
    (profile,) = config.profiles
    assert "NodeNUMAResource" in {one.plugin.name for one in profile.profile.plugins}


LABEL_BIND = "node.koordinator.sh/cpu-bind-policy"
RATIO = {ANNOTATION_AMPLIFICATION_RATIO: '{"cpu": 1.5}'}
NODE_LABELS = [
    {},
    {},
    {LABEL_POLICY: "SingleNUMANode"},
    {LABEL_POLICY: "BestEffort"},
    {LABEL_BIND: "FullPCPUsOnly"},
]
SPECS = [
    {},
    {ANNOTATION_RESOURCE_SPEC: '{"requiredCPUBindPolicy": "FullPCPUs"}'},
    {ANNOTATION_NUMA_TOPOLOGY_SPEC: '{"numaTopologyPolicy": "Restricted"}'},
]


@given(st.integers(0, 2**32))
def test_nodes_that_share_an_answer_would_each_have_had_it(seed: int) -> None:
    """Nodes and pods come, go and change, and each node is asked about on its own, too."""
    rng, settings = Random(seed), NUMASettings()
    cluster, names = Cluster(), ["n1", "n2", "n3", "n4"]
    nodes, there = cluster.scheduler.nodes, set[str]()
    plugin = NodeNUMAResource(settings)
    for number in range(12):
        node = rng.choice(names)
        match rng.choice(["node", "topology", "no node", "pod", "pod", "no pod"]):
            case "node":
                cluster.node(node, rng.choice(NODE_LABELS), rng.choice([{}, RATIO]))
            case "topology":
                cluster.put("NodeResourceTopology", node, topology(node))
            case "no node" if nodes.row(node) is not None:
                cluster.kinds["Node"].remove(node)
            case "pod":
                has = rng.choice(['{"cpuset": "0-1"}', '{"cpuset": "2,5"}', "{}"])
                cluster.pod(f"p{number}", "2", node, **{ANNOTATION_RESOURCE_STATUS: has})
                there.add(f"shop/p{number}")
            case "no pod" if there:
                key = rng.choice(sorted(there))
                there.remove(key)
                cluster.kinds["Pod"].remove(key)
        annotations = rng.choice(SPECS)
        document = pod_document("a", rng.choice(["2", "3"]), labels=rng.choice([{}, LSR]))
        document["metadata"]["annotations"] = annotations
        waiting = pod_class(read_pod(json.dumps(document).encode()), nodes.features.values())
        rows = np.flatnonzero(nodes.is_node)
        needs = pod_needs(dict(waiting.amounts), waiting.of(NUMA_NEEDS), settings)
        if isinstance(needs, str) or not len(rows):
            continue
        reasons, score = plugin.reasons(waiting, nodes, rows), plugin.score(waiting, nodes)
        assert score is not None
        scores = score(rows)
        for place, row in enumerate(rows.tolist()):
            one = NodePlacement(
                needs,
                nodes.use(NUMAColumns).machine(row),
                nodes.use(NUMAColumns).allocation(row),
                settings,
            )
            use = node_use(nodes, row)
            expected = one.rejection(use) or one.shortage()
            found = {reason.text for reason in reasons if reason.rows[place]}
            assert found == set(expected.reasons if expected else ())
            if expected is None:
                assert scores[place] == one.score(use)


def node_use(nodes: ClusterState, row: int) -> NodeUse:
    resources = nodes.resources
    has, requested = (
        {name: int(amount) for name, amount in zip(resources.names, table[:, row], strict=False)}
        for table in (resources.allocatable, resources.requested)
    )
    return NodeUse(has, requested)


@pytest.mark.parametrize(
    ("taken", "cpus", "policy", "expected"),
    [
        ("0-2,4", "3", "SingleNUMANode", ""),
        ("0-2,4", "4", "SingleNUMANode", "NUMA node 1 lacks 1 cpu"),
        ("0-2,4-5", "4", "SingleNUMANode", "NUMA node 1 lacks 2 cpu"),
        ("0-2,4-5", "4", "", "3 of 4 CPUs are free"),
    ],
)
def test_the_nearest_numa_node_is_named(taken: str, cpus: str, policy: str, expected: str) -> None:
    cluster = Cluster("n1")
    written = json.dumps({"cpuset": taken})
    cluster.pod("old", "1", "n1", **{ANNOTATION_RESOURCE_STATUS: written})
    spec = json.dumps({"numaTopologyPolicy": policy, "singleNUMANodeExclusive": "Preferred"})
    cluster.pod("a", cpus, **{ANNOTATION_NUMA_TOPOLOGY_SPEC: spec})
    decision = cluster.scheduler.decide(0.0)
    if not expected:
        assert isinstance(decision, Placement)
        return
    assert isinstance(decision, Refusal)
    (near,) = diagnose(cluster.scheduler.scores(decision.pod)).nearest
    assert near.notes == (expected,)
    assert near.plugins == ()

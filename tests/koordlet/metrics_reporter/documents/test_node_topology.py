from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model import cpuset, keys
from koord_model.node import NamedPool
from koord_model.node_document import topology as read_topology
from koord_model.node_info import NodeCPUInfo, NodeMemoryInfo, NumaNode, Processor
from koord_model.pod import Pod
from koord_model.quantity import whole
from koordlet.metrics_reporter.documents.kubelet_config import KubeletConfig
from koordlet.metrics_reporter.documents.node_topology import build
from koordlet.metrics_reporter.documents.topology_annotations import TopologyInputs, set_aside
from koordlet.metrics_reporter.documents.topology_change import change
from koordlet.states_informer.kubelet_cpus import KubeletCPUs
from koordlet.states_informer.state import share_pools
from koordlet.states_informer.state.pod_inventory import PodRecord
from koordlet.states_informer.state.share_pools import ReservedCPUs

from tests.support.merge_patch import merged

GIB = 1 << 30


def machine(numa: int = 2, cores: int = 2, threads: int = 2) -> NodeCPUInfo:
    """NUMA nodes of so many cores; the second threads come after all first ones."""
    total = numa * cores
    return NodeCPUInfo(
        tuple(
            Processor(core + thread * total, core, core // cores, core // cores)
            for core in range(total)
            for thread in range(threads)
        ),
        model="Test CPU",
        vendor="GenuineTest",
        smt=True,
        turbo=False,
        cbm_mask="fff",
    )


def memory(numa: int = 2, each: int = 4 * GIB) -> NodeMemoryInfo:
    nodes = tuple(NumaNode(node, each, {2 << 20: 512, GIB: 1}) for node in range(numa))
    return NodeMemoryInfo(numa * each, nodes)


def node(
    annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None, **status: Any
) -> dict[str, Any]:
    metadata = {"name": "n1", "uid": "u-1", "annotations": annotations, "labels": labels}
    return {"metadata": metadata, "status": status}


def pod(uid: str, qos: str = "", cpus: str = "") -> PodRecord:
    annotations = {keys.ANNOTATION_RESOURCE_STATUS: json.dumps({"cpuset": cpus})} if cpus else {}
    labels = {keys.LABEL_QOS: qos} if qos else {}
    return PodRecord(Pod(f"pod-{uid}", "ns", uid, labels, annotations))


INPUTS = TopologyInputs(machine(), memory())


def built(given: dict[str, Any] | None = None, inputs: TopologyInputs = INPUTS) -> dict[str, Any]:
    document, problems = build(given or node(), inputs)
    assert problems == ()
    return document


def reported(document: dict[str, Any], key: str) -> Any:
    return json.loads(document["metadata"]["annotations"][key])


def zone(document: dict[str, Any], name: str, field: str = "capacity") -> dict[str, str]:
    [found] = [one for one in document["zones"] if one["name"] == name]
    return {one["name"]: one[field] for one in found["resources"]}


def test_the_object_as_koordinator_writes_it() -> None:
    document = built()
    annotations = document["metadata"].pop("annotations")
    assert document == {
        "apiVersion": "topology.node.k8s.io/v1alpha1",
        "kind": "NodeResourceTopology",
        "metadata": {
            "name": "n1",
            "labels": {"app.kubernetes.io/managed-by": "Koordinator"},
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "name": "n1",
                    "uid": "u-1",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "topologyPolicies": ["None"],
        "zones": [
            {
                "name": f"node-{number}",
                "type": "Node",
                "resources": [
                    {"name": name, "capacity": one, "allocatable": one, "available": one}
                    for name, one in (
                        ("cpu", "4"),
                        ("hugepages-1Gi", "0"),
                        ("hugepages-2Mi", "0"),
                        ("memory", "4Gi"),
                    )
                ],
            }
            for number in (0, 1)
        ],
    }
    assert annotations == {
        "node.koordinator.sh/cpu-basic-info": (
            '{"cpuModel":"Test CPU","hyperThreadEnabled":true,"catL3CbmMask":"fff",'
            '"vendorID":"GenuineTest"}'
        ),
        "node.koordinator.sh/cpu-topology": annotations[keys.ANNOTATION_CPU_TOPOLOGY],
        "node.koordinator.sh/cpu-shared-pools": (
            '[{"socket":0,"node":0,"cpuset":"0-1,4-5"},{"socket":1,"node":1,"cpuset":"2-3,6-7"}]'
        ),
        "node.koordinator.sh/be-cpu-shared-pools": (
            '[{"socket":0,"node":0,"cpuset":"0-1,4-5"},{"socket":1,"node":1,"cpuset":"2-3,6-7"}]'
        ),
        "kubelet.koordinator.sh/cpu-manager-policy": "{}",
        "node.koordinator.sh/pod-cpu-allocs": "null",
        "node.koordinator.sh/reservation": "{}",
        "node.koordinator.sh/system-qos-resource": "{}",
    }
    detail = json.loads(annotations[keys.ANNOTATION_CPU_TOPOLOGY])["detail"]
    assert [one["id"] for one in detail] == list(range(8))
    assert detail[5] == {"id": 5, "core": 1, "socket": 0, "node": 0}


def test_a_numa_node_without_cpus_has_a_zone_and_no_pool() -> None:
    info = NodeMemoryInfo(12 * GIB, (*memory().nodes, NumaNode(7, 4 * GIB)))
    document = built(inputs=replace(INPUTS, memory=info))
    assert [one["name"] for one in document["zones"]] == ["node-0", "node-1", "node-7"]
    assert zone(document, "node-7") == {
        "cpu": "0",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        "memory": "4Gi",
    }
    assert [one["node"] for one in reported(document, keys.ANNOTATION_CPU_SHARED_POOLS)] == [0, 1]


def test_cpus_that_are_offline_are_nowhere() -> None:
    processors = tuple(
        replace(one, online=one.id not in (1, 2, 3, 6, 7)) for one in machine().processors
    )
    document = built(inputs=replace(INPUTS, cpus=replace(INPUTS.cpus, processors=processors)))
    assert reported(document, keys.ANNOTATION_CPU_SHARED_POOLS) == [
        {"socket": 0, "node": 0, "cpuset": "0,4-5"}
    ]
    assert zone(document, "node-0")["cpu"] == "3"
    assert zone(document, "node-1")["cpu"] == "0"
    assert len(reported(document, keys.ANNOTATION_CPU_TOPOLOGY)["detail"]) == 3


def test_huge_pages_are_reported_apart_from_memory_with_the_gate() -> None:
    document = built(inputs=replace(INPUTS, huge_pages=True))
    assert zone(document, "node-0") == {
        "cpu": "4",
        "hugepages-1Gi": "1Gi",
        "hugepages-2Mi": "1Gi",
        "memory": "2Gi",
    }


@pytest.mark.parametrize(
    ("label", "allocatable", "sizes", "cpu", "free"),
    [
        ("true", ("6800m", "6Gi"), (4, 4), ("3400m", "3400m"), ("3Gi", "3Gi")),
        ("false", ("6800m", "6Gi"), (4, 4), ("4", "4"), ("4Gi", "4Gi")),
        ("true", ("7", "7Gi"), (8, 0, 0), ("3500m", "3500m", "0"), ("7Gi", "0", "0")),
    ],
    ids=["each", "not labelled", "nodes without CPUs or memory"],
)
def test_what_the_kubelet_keeps_is_taken_from_each_numa_node(
    label: str,
    allocatable: tuple[str, str],
    sizes: tuple[int, ...],
    cpu: tuple[str, ...],
    free: tuple[str, ...],
) -> None:
    given = node(
        labels={keys.LABEL_NUMA_RESERVATION: label},
        capacity={"cpu": "8", "memory": "8Gi"},
        allocatable=dict(zip(("cpu", "memory"), allocatable, strict=True)),
    )
    nodes = tuple(NumaNode(number, size * GIB) for number, size in enumerate(sizes))
    document = built(given, replace(INPUTS, memory=NodeMemoryInfo(8 * GIB, nodes)))
    assert document["metadata"]["labels"][keys.LABEL_NUMA_RESERVATION] == label
    for field in ("allocatable", "available"):
        zones = [zone(document, f"node-{number}", field) for number in range(len(sizes))]
        assert tuple(one["cpu"] for one in zones) == cpu
        assert tuple(one["memory"] for one in zones) == free
    assert zone(document, "node-1")["cpu"] == "4"


@pytest.mark.parametrize(
    ("policy", "scope", "level"),
    [
        ("single-numa-node", "pod", "SingleNUMANodePodLevel"),
        ("single-numa-node", "container", "SingleNUMANodeContainerLevel"),
        ("restricted", "pod", "RestrictedPodLevel"),
        ("best-effort", "container", "BestEffortContainerLevel"),
        ("none", "pod", "None"),
        ("unheard-of", "pod", "None"),
    ],
)
def test_the_kubelets_topology_policy(policy: str, scope: str, level: str) -> None:
    kubelet = KubeletConfig(topology_policy=policy, topology_scope=scope)
    assert built(inputs=replace(INPUTS, kubelet=kubelet))["topologyPolicies"] == [level]


def test_pods_with_cpus_of_their_own_leave_the_pools() -> None:
    pods = (pod("1", "LSE", "0,4"), pod("2", "LSR", "1"), pod("3", "LS", "2"), pod("4", "BE"))
    document = built(inputs=replace(INPUTS, pods=pods))
    pools = reported(document, keys.ANNOTATION_CPU_SHARED_POOLS)
    assert [one["cpuset"] for one in pools] == ["5", "2-3,6-7"]
    pools = reported(document, keys.ANNOTATION_BE_CPU_SHARED_POOLS)
    assert [one["cpuset"] for one in pools] == ["1,5", "2-3,6-7"]


def test_what_the_kubelets_static_policy_gave_away() -> None:
    kubelet = KubeletConfig(
        "static", {"full-pcpus-only": "true"}, reserved_millicores=1200, topology_scope="pod"
    )
    allocated = {
        "b": frozenset({1, 5}),
        "a": frozenset({2}),
        "ls": frozenset({3}),
        "bound": frozenset({6}),
    }
    inputs = replace(
        INPUTS,
        kubelet=kubelet,
        allocated=allocated,
        pods=(pod("a"), pod("ls", "LS"), pod("bound", "LSR", "6")),
    )
    document = built(inputs=inputs)
    assert reported(document, keys.ANNOTATION_POD_CPU_ALLOCS) == [
        {"namespace": "ns", "name": "pod-a", "uid": "a", "cpuset": "2", "managedByKubelet": True},
        {"uid": "b", "cpuset": "1,5", "managedByKubelet": True},
    ]
    for key in (keys.ANNOTATION_CPU_SHARED_POOLS, keys.ANNOTATION_BE_CPU_SHARED_POOLS):
        assert "1" not in [one["cpuset"] for one in reported(document, key)]
    pools = reported(document, keys.ANNOTATION_CPU_SHARED_POOLS)
    assert [one["cpuset"] for one in pools] == ["0,4", "3,7"]
    assert reported(document, keys.ANNOTATION_CPU_MANAGER_POLICY) == {
        "policy": "static",
        "options": {"full-pcpus-only": "true"},
        "reservedCPUs": "0,4",
    }
    none = replace(inputs, kubelet=replace(kubelet, cpu_policy="none"))
    assert reported(built(inputs=none), keys.ANNOTATION_POD_CPU_ALLOCS) is None


@pytest.mark.parametrize(
    ("reservation", "written", "pools"),
    [
        ({"reservedCPUs": "0-1"}, {"reservedCPUs": "0-1"}, ["4-5", "2-3,6-7"]),
        (
            {"resources": {"cpu": "1500m"}, "applyPolicy": "ReservedCPUsOnly"},
            {
                "resources": {"cpu": "1500m"},
                "reservedCPUs": "0,4",
                "applyPolicy": "ReservedCPUsOnly",
            },
            ["1,5", "2-3,6-7"],
        ),
        (
            {"resources": {"memory": "1Gi"}},
            {"resources": {"memory": "1Gi"}},
            ["0-1,4-5", "2-3,6-7"],
        ),
        ({"reservedCPUs": "0-1,4-5"}, {"reservedCPUs": "0-1,4-5"}, ["2-3,6-7"]),
    ],
)
def test_cpus_that_the_node_reserves(
    reservation: dict[str, Any], written: dict[str, Any], pools: list[str]
) -> None:
    document = built(node({keys.ANNOTATION_NODE_RESERVATION: json.dumps(reservation)}))
    assert reported(document, keys.ANNOTATION_NODE_RESERVATION) == written
    for key in (keys.ANNOTATION_CPU_SHARED_POOLS, keys.ANNOTATION_BE_CPU_SHARED_POOLS):
        assert [one["cpuset"] for one in reported(document, key)] == pools


@pytest.mark.parametrize(
    ("given", "pools"),
    [
        ({"cpuset": "7-6"}, None),
        ({"cpuset": "6-7"}, ["0-1,4-5", "2-3"]),
        ({"cpuset": "6-7", "cpusetExclusive": False}, ["0-1,4-5", "2-3,6-7"]),
    ],
)
def test_cpus_of_system_pods(given: dict[str, Any], pools: list[str] | None) -> None:
    document, problems = build(
        node({keys.ANNOTATION_SYSTEM_QOS_RESOURCE: json.dumps(given)}), INPUTS
    )
    if pools is None:
        assert "cpuset" in problems[0]
        assert reported(document, keys.ANNOTATION_SYSTEM_QOS_RESOURCE) == {}
        return
    assert reported(document, keys.ANNOTATION_SYSTEM_QOS_RESOURCE) == given
    found = reported(document, keys.ANNOTATION_BE_CPU_SHARED_POOLS)
    assert [one["cpuset"] for one in found] == pools


@pytest.mark.parametrize("text", ["{", "[]", '"x"', '{"reservedCPUs": 3}', '{"resources": []}'])
def test_annotations_of_the_node_that_cannot_be_read_are_said(text: str) -> None:
    given = node({keys.ANNOTATION_NODE_RESERVATION: text})
    document, problems = build(given, INPUTS)
    assert keys.ANNOTATION_NODE_RESERVATION in problems[0]
    assert len(reported(document, keys.ANNOTATION_CPU_SHARED_POOLS)) == 2


_cpus = st.frozensets(st.integers(0, 7), max_size=6).map(cpuset.render)


@given(
    st.lists(st.tuples(st.sampled_from(["LSE", "LSR", "LS", "BE", ""]), _cpus), max_size=4),
    _cpus,
    st.booleans(),
)
def test_what_is_written_is_read_back_the_same(
    given: list[tuple[str, str]], system: str, exclusive: bool
) -> None:
    pods = tuple(pod(str(number), *one) for number, one in enumerate(given))
    kubelet = KubeletConfig("static", reserved_cpus="0")
    inputs = replace(INPUTS, pods=pods, kubelet=kubelet)
    wanted = {"cpuset": system, "cpusetExclusive": exclusive}
    document = built(node({keys.ANNOTATION_SYSTEM_QOS_RESOURCE: json.dumps(wanted)}), inputs)
    read, problems = read_topology(document, "0-7", be_cpu_manager=True)
    assert problems == ()
    assert read.system_cpuset == system
    assert read.kubelet_policy == "static"
    out = cpuset.parse(system) if exclusive else frozenset()
    numa = {0: frozenset({0, 1, 4, 5}) - out, 1: frozenset({2, 3, 6, 7}) - out}
    ours = share_pools.topology(numa, [one.pod for one in pods], KubeletCPUs("static"))
    assert read.shared_pools == tuple(one for one in ours.shared_pools if one.cpuset)
    lse = share_pools.topology(
        numa,
        [one.pod for one in pods if one.pod.labels.get(keys.LABEL_QOS) == "LSE"],
        KubeletCPUs(),
    )
    assert read.be_shared_pools == tuple(one for one in lse.shared_pools if one.cpuset)


# Changing what is there.


def test_the_same_is_no_change_however_it_is_spelled() -> None:
    new = built()
    old = copy.deepcopy(new)
    assert change(old, new) is None
    annotations = old["metadata"]["annotations"]
    for key, value in annotations.items():
        annotations[key] = json.dumps(json.loads(value), indent=1, sort_keys=True)
    for one in old["zones"]:
        for resource in one["resources"]:
            if resource["name"] == "memory":
                for field in ("capacity", "allocatable", "available"):
                    resource[field] = str(whole(resource[field]))
    assert change(old, new) is None


def test_what_others_keep_in_it_stays() -> None:
    old = built()
    new = built(inputs=replace(INPUTS, memory=memory(each=8 * GIB)))
    batch = {"name": "kubernetes.io/batch-cpu", "capacity": "1", "allocatable": "1"}
    old["zones"][1]["resources"].append(batch)
    old["metadata"]["labels"]["theirs"] = "x"
    old["metadata"]["annotations"]["theirs"] = "{"
    assert change(old, built()) is None
    patch = change(old, new)
    assert patch is not None
    assert patch.keys() == {"zones"}
    after = merged(old, patch)
    assert batch in after["zones"][1]["resources"]
    assert zone(after, "node-1")["memory"] == "8Gi"
    assert after["metadata"]["labels"]["theirs"] == "x"
    assert change(after, new) is None


def test_claims_of_strategies_are_reported_as_long_as_there_are_any() -> None:
    pools = (NamedPool("spark", "1-2,4"), NamedPool("flink", "5"))
    claims = {"cpu_pools": frozenset({1, 2, 4, 5}), "irq_affinity": frozenset({7})}
    plugins = {"b": frozenset({6})}
    inputs = replace(
        INPUTS,
        pods=(pod("a", "LSR", "4"),),
        plugins=plugins,
        aside=ReservedCPUs(claims=claims, named=pools),
    )
    document = built(node({keys.ANNOTATION_NODE_RESERVATION: '{"reservedCPUs": "0"}'}), inputs)
    assert reported(document, keys.ANNOTATION_CPU_SHARED_POOLS) == [
        {"socket": 1, "node": 1, "cpuset": "3"}
    ]
    # Schedulers read this one: they give no CPU of a card to an LSR pod.
    assert reported(document, keys.ANNOTATION_NODE_RESERVATION) == {"reservedCPUs": "0,7"}
    assert reported(document, keys.ANNOTATION_CPU_NAMED_POOLS) == [
        {"name": "flink", "socket": 0, "node": 0, "cpuset": "5"},
        {"name": "spark", "socket": 0, "node": 0, "cpuset": "1"},
        {"name": "spark", "socket": 1, "node": 1, "cpuset": "2"},
    ]
    patch = change(document, built())
    assert patch is not None
    assert merged(document, patch) == built()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda old: old.pop("zones"),
        lambda old: old["zones"].pop(),
        lambda old: old["zones"].append({"name": "node-9", "type": "Node", "resources": []}),
        lambda old: old["zones"].reverse(),
        lambda old: old["zones"][0].update(type="Socket"),
        lambda old: old["zones"][0]["resources"].pop(),
        lambda old: old["zones"][0]["resources"][0].update(available="soon"),
        lambda old: old["zones"][0].update(resources=None),
        lambda old: old.update(topologyPolicies=["RestrictedPodLevel"]),
        lambda old: old["metadata"].pop("annotations"),
        lambda old: old["metadata"]["annotations"].update({keys.ANNOTATION_CPU_TOPOLOGY: "{"}),
        lambda old: old["metadata"].update(labels=None),
        lambda old: old["metadata"]["labels"].update({keys.LABEL_NUMA_RESERVATION: "true"}),
        lambda old: old.clear(),
    ],
)
def test_whatever_was_spoilt_is_put_right(spoil: Any) -> None:
    new = built()
    old = copy.deepcopy(new)
    spoil(old)
    patch = change(old, new)
    assert patch is not None
    assert change(merged(old, patch), new) is None


@pytest.mark.parametrize(
    ("key", "text", "cpus", "system"),
    [
        (keys.ANNOTATION_NODE_RESERVATION, '{"reservedCPUs": "0-1"}', "0-1", ""),
        (keys.ANNOTATION_NODE_RESERVATION, '{"resources": {"cpu": "2"}}', "0,4", ""),
        (keys.ANNOTATION_NODE_RESERVATION, "{", "", ""),
        (keys.ANNOTATION_SYSTEM_QOS_RESOURCE, '{"cpuset": "3"}', "3", "3"),
        (keys.ANNOTATION_SYSTEM_QOS_RESOURCE, '{"cpuset": "3", "cpusetExclusive": false}', "", "3"),
        ("other", "", "", ""),
    ],
)
def test_cpus_that_the_node_sets_aside(key: str, text: str, cpus: str, system: str) -> None:
    found = set_aside({"metadata": {"annotations": {key: text}}}, machine().online)
    assert (cpuset.render(found.cpus), found.system) == (cpus, system)

"""What is recorded of objects is enough to decide by, and no more."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from koord_model.keys import (
    ANNOTATION_AMPLIFICATION_RATIO,
    ANNOTATION_CPU_MANAGER_POLICY,
    ANNOTATION_CPU_TOPOLOGY,
    ANNOTATION_GPU_PARTITIONS,
    ANNOTATION_QUOTA_RUNTIME,
    ANNOTATION_SHARED_WEIGHT,
    LABEL_QUOTA_PARENT,
)
from koord_scheduler.config.scheduler_config import read_scheduler_config
from koord_scheduler.framework.cluster_kinds import cluster_kinds, pod_kind
from koord_scheduler.framework.recording import (
    PutInput,
    RecordedInput,
    RecordingHeader,
    read_header,
    read_inputs,
    recorded_kind,
    recording_line,
)
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.plugins.coscheduling.network.cluster_network import ClusterNetwork
from koord_scheduler.state.cluster_kind import ClusterKind

from tests.support.clusters import random_cluster
from tests.support.clusters.devices import random_device_cluster
from tests.support.clusters.loads import random_load_cluster
from tests.support.clusters.preemption import random_preemption
from tests.support.clusters.storage import random_storage_cluster
from tests.support.clusters.workloads import random_workloads
from tests.support.reservations import OF_WEB, reservation
from tests.support.storage_kinds import STORAGE_KINDS
from tests.support.workloads import READERS

LISTS = {
    "nodes": "Node",
    "pods": "Pod",
    "namespaces": "Namespace",
    "budgets": "PodDisruptionBudget",
    **{plural: kind for plural, (kind, _) in READERS.items()},
    **{plural: kind.__name__ for plural, kind in STORAGE_KINDS.items()},
    "claims": "ResourceClaim",
    "slices": "ResourceSlice",
    "classes": "DeviceClass",
    "metrics": "NodeMetric",
    "topologies": "NodeResourceTopology",
    "accelerators": "Device",
    "templates": "ConfigMap",
    "reservations": "Reservation",
    "podGroups": "PodGroup",
    "schedulingGroups": "PodGroup.scheduling.k8s.io",
    "composites": "CompositePodGroup.scheduling.k8s.io",
    "quotas": "ElasticQuota",
    "networkTopologies": "ClusterNetworkTopology",
}
ALL_PLUGINS = Path(__file__).parents[3] / "deploy" / "examples" / "scheduler-all-plugins.yaml"
HEADER = RecordingHeader(1, 0.0, 0.0)


def kinds() -> dict[str, ClusterKind]:
    [config] = yaml.safe_load(ALL_PLUGINS.read_text())["data"].values()
    scheduler = Scheduler([one.profile for one in read_scheduler_config(config).profiles])
    scheduler.nodes.use(ClusterNetwork)
    found = [*cluster_kinds(scheduler), pod_kind(scheduler, lambda: 0.0)]
    return {one.name: one for one in found}


def random_topologies(rng: Random) -> dict[str, Any]:
    """What koordlet reports of nodes, in small."""
    cpus = [
        {"id": cpu, "core": cpu // 2, "socket": 0, "node": 0} for cpu in range(rng.randrange(4))
    ]
    annotations = {
        ANNOTATION_CPU_TOPOLOGY: json.dumps({"detail": cpus}),
        ANNOTATION_CPU_MANAGER_POLICY: '{"policy": "static"}',
        ANNOTATION_AMPLIFICATION_RATIO: '{"cpu": 2}',
    }
    has = {"name": "cpu", "capacity": "4", "allocatable": str(rng.randrange(5)), "available": "1"}
    topology = {
        "metadata": {"name": "n1", "annotations": annotations},
        "topologyPolicies": [rng.choice(["None", "SingleNUMANodePodLevel"])],
        "zones": [{"name": "node-0", "type": "Node", "resources": [has]}],
    }
    return {"topologies": [topology]}


def random_accelerators(rng: Random) -> dict[str, Any]:
    """What koordlet reports of devices, in small."""
    device = {
        "type": rng.choice(["gpu", "rdma"]),
        "id": "u",
        "minor": rng.choice([0, 1, "x"]),
        "health": True,
        "resources": {"koordinator.sh/gpu-core": rng.choice(["100", 100])},
        "topology": {"socketID": 0, "nodeID": rng.randrange(2), "pcieID": "p"},
        "vfGroups": [{"labels": {"a": "b"}, "vfs": [{"minor": 0, "busID": "0000:00:01.0"}]}],
        "conditions": [{"type": "Healthy"}],
    }
    annotations = {ANNOTATION_GPU_PARTITIONS: '{"1": [{"minors": [0]}]}', "other": "text"}
    labels = {"node.koordinator.sh/gpu-partition-policy": "Honor"}
    metadata = {"name": "n1", "annotations": annotations, "labels": labels}
    data = {"data.yaml": f"huawei-A: {{vir: {{a: {rng.randrange(3)}}}}}", "other": "text"}
    found = [{"metadata": metadata, "spec": {"devices": [device] * 2}}]
    return {"accelerators": found, "templates": [{"metadata": {"name": "t"}, "data": data}]}


def random_reservations(rng: Random) -> dict[str, Any]:
    """Reservations in any phase."""
    order = {"scheduling.koordinator.sh/reservation-order": "2"}
    document = reservation(
        "r",
        str(rng.randrange(5)),
        rng.choice(["", "n1"]),
        owners=rng.choice([[], [OF_WEB], [{"object": {"name": "a"}, "controller": {"kind": "b"}}]]),
        labels=rng.choice([{}, order]),
        pod=rng.choice([{}, {"priority": 3, "nodeName": "n1"}]),
        allocateOnce=rng.random() < 0.5,
        allocatePolicy=rng.choice(["", "Restricted"]),
        taints=[{"key": "k", "effect": "NoSchedule"}],
        unschedulable=rng.random() < 0.5,
    )
    options = {"scheduling.koordinator.sh/reservation-restricted-options": '{"resources":["cpu"]}'}
    document["metadata"]["annotations"] = rng.choice([{}, options])
    return {"reservations": [document]}


def random_pod_groups(rng: Random) -> dict[str, Any]:
    """PodGroups, of which some say more than how many pods they need."""
    more = {"gang.scheduling.koordinator.sh/mode": "NonStrict", "other": "text"}
    metadata = {"name": "g", "namespace": "d", "uid": "u", "annotations": rng.choice([{}, more])}
    spec = {"minMember": rng.randrange(9), "scheduleTimeoutSeconds": rng.choice([None, 3])}
    status = {"phase": "Pending", "running": 2, "scheduleStartTime": None}
    return {"podGroups": [{"metadata": metadata, "spec": spec, "status": status}]}


def random_scheduling_groups(rng: Random) -> dict[str, Any]:
    """Groups of Kubernetes' own, with more than is read of them."""
    metadata = {"name": "g", "namespace": "d", "uid": "u", "generation": 2, "labels": {"a": "b"}}
    spec = {
        "parentCompositePodGroupName": rng.choice([None, "all"]),
        "workloadRef": {"workloadName": "w", "templateName": "t"},
        "schedulingConstraints": rng.choice([None, {"topology": [{"key": "rack"}]}]),
        "disruptionMode": rng.choice([{"all": {}}, {"single": {}}, "PodGroup"]),
        "priority": rng.choice([None, 5]),
    }
    gang = {"schedulingPolicy": rng.choice([{"basic": {}}, {"gang": {"minCount": 2}}])}
    condition = {"type": "PodGroupInitiallyScheduled", "status": "True", "message": "text"}
    status = {"conditions": rng.choice([None, [condition]])}
    whole = {"metadata": metadata, "spec": spec | gang, "status": status}
    policy = {"schedulingPolicy": {"gang": {"minGroupCount": rng.randrange(3)}}}
    composite = {"metadata": metadata, "spec": spec | policy}
    return {"schedulingGroups": [whole], "composites": [composite]}


def random_quotas(rng: Random) -> dict[str, Any]:
    """Quotas with and without what may be left out."""
    annotations = {
        ANNOTATION_SHARED_WEIGHT: rng.choice(['{"cpu": 2}', "much"]),
        ANNOTATION_QUOTA_RUNTIME: rng.choice(['{"cpu": "500m"}', "[]"]),
        "other": "text",
    }
    metadata = {"name": "q", "namespace": "a", "labels": {LABEL_QUOTA_PARENT: "p"}}
    spec = {"max": {"cpu": rng.choice(["4", 4, "x"])}}
    whole = {"metadata": metadata | {"annotations": annotations}, "spec": spec}
    return {"quotas": [rng.choice([whole, {"metadata": metadata}])]}


def random_network_topologies(rng: Random) -> dict[str, Any]:
    """ClusterNetworkTopologies with more than is read of them."""
    layer = {"topologyLayer": "rack", "labelKey": rng.choice([["r"], None]), "other": 1}
    details = [{"topologyInfo": {"topologyName": "r1"}, "nodeNum": rng.randrange(9)}]
    metadata = {"name": "default", "uid": "u", "resourceVersion": "1", "labels": {"a": "b"}}
    spec = {"networkTopologySpec": [layer, {"topologyLayer": "NodeTopologyLayer"}]}
    status = rng.choice([{}, {"detailStatus": details}])
    return {"networkTopologies": [{"metadata": metadata, "spec": spec, "status": status}]}


def recorded_put(kind: ClusterKind, raw: bytes) -> PutInput:
    inputs: list[RecordedInput] = []
    followed = recorded_kind(kind._replace(put=lambda *_: None), inputs.append, lambda: 1.5)
    followed.put("key", followed.read(raw))
    [one] = read_inputs([recording_line(one) for one in inputs])
    assert isinstance(one, PutInput)
    return one


@given(st.integers(0, 1 << 32))
def test_objects_read_the_same(seed: int) -> None:
    known, rng = kinds(), Random(seed)
    makers = (
        random_cluster,
        random_storage_cluster,
        random_workloads,
        random_preemption,
        random_device_cluster,
        random_load_cluster,
        random_topologies,
        random_accelerators,
        random_reservations,
        random_pod_groups,
        random_scheduling_groups,
        random_quotas,
        random_network_topologies,
    )
    for cluster in (make(rng) for make in makers):
        waiting = {"pods": [cluster[name] for name in ("pod", "next") if name in cluster]}
        for plural, listed in (*cluster.items(), *waiting.items()):
            for document in listed if plural in LISTS else ():
                kind, raw = known[LISTS[plural]], json.dumps(document).encode()
                one = recorded_put(kind, raw)
                assert (one.at, one.kind, one.key) == (1.5, LISTS[plural], "key")
                assert kind.read(bytes(one.object)) == kind.read(raw)


def test_secrets_are_left_out() -> None:
    secret: Any = "hidden"
    container = {
        "name": "c",
        "env": [{"name": secret, "value": secret}],
        "envFrom": [{"secretRef": {"name": secret}}],
        "command": [secret],
        "args": [secret],
        "livenessProbe": {"httpGet": {"httpHeaders": [{"name": "a", "value": secret}]}},
    }
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": secret}
    metadata = {"name": "p", "namespace": "d", "annotations": annotations}
    volumes = [{"name": secret, "secret": {"secretName": secret}}]
    spec = {name: [container] for name in ("containers", "initContainers", "ephemeralContainers")}
    pod = {"metadata": metadata, "spec": {**spec, "volumes": volumes}}
    template = {"metadata": metadata, "spec": {"template": {"spec": spec}, "selector": {}}}
    known = kinds()
    for kind, document in (("Pod", pod), ("ReplicaSet", template), ("StatefulSet", template)):
        one = recorded_put(known[kind], json.dumps(document).encode())
        assert b"hidden" not in bytes(one.object)


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b"\xff", b'["tick",1]'])
def test_another_file_is_no_recording(text: bytes) -> None:
    with pytest.raises(ValueError, match="not a recording"):
        read_header(iter([text]))


def test_a_newer_recording_is_refused() -> None:
    newer = RecordingHeader(2, 0.0, 0.0, version="9.9")
    with pytest.raises(ValueError, match=r"9\.9"):
        read_header(iter([recording_line(newer)]))


def test_only_the_last_line_may_be_torn() -> None:
    tick = b'["tick",1.0]'
    assert len(list(read_inputs([tick, tick, tick[:5]]))) == 2
    with pytest.raises(ValueError, match="line 3"):
        list(read_inputs([tick, tick[:5], tick]))


def test_all_kinds_are_tried_here() -> None:
    assert set(kinds()) == set(LISTS.values())

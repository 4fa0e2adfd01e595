"""Inputs for hooks: a request of the proxy, and what the node is told and knows."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

Object = dict[str, Any]

NUMBER = 4000
QOS = "koordinator.sh/qosClass"
EXTENDED = "node.koordinator.sh/extended-resource-spec"
STATUS = "scheduling.koordinator.sh/resource-status"
DEVICES = "scheduling.koordinator.sh/device-allocated"
CPU_QOS = "koordinator.sh/cpuQOS"
RATIO = "node.koordinator.sh/cpu-normalization-ratio"
_STAGES = (
    "PreRunPodSandbox",
    "PreCreateContainer",
    "PreCreateContainer",
    "PreUpdateContainerResources",
)
_PARENTS = (
    "/kubepods.slice/kubepods-pod1.slice",
    "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice",
    "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1.slice",
    "/kubepods/besteffort/pod1",
    "/kubepods/pod1",
)


def one(random: Random) -> Object:
    """One input."""
    stage = random.choice(_STAGES)
    node: Object = {"metadata": {"name": "n", "annotations": {}}}
    if random.random() < 0.3:
        node["metadata"]["annotations"][RATIO] = random.choice(
            ("1.00", "1.15", "1.5", "2.3", "0.9", "x", "-1", "3.37")
        )
    labels, annotations = _labels(random), _annotations(random)
    meta = {"name": "p", "namespace": "ns", "uid": "u"}
    found: Object = {"stage": stage, "slo": _slo(random), "node": node, "nrt": _topology(random)}
    parent = random.choice(_PARENTS)
    if stage == "PreRunPodSandbox":
        found["pod"] = {
            "pod_meta": meta,
            "labels": labels,
            "annotations": annotations,
            "cgroup_parent": parent,
        }
        if random.random() < 0.5:
            found["pod"]["resources"] = _resources(random)
    else:
        found["container"] = {
            "pod_meta": meta,
            "container_meta": {"name": random.choice(("c0", "c0", "c1", "other")), "id": "id"},
            "pod_labels": labels,
            "pod_annotations": annotations,
            "pod_cgroup_parent": parent,
            "container_annotations": {"a": "1"},
            "container_envs": random.choice(({}, {"A": "1"}, {"LD_PRELOAD": "/lib/own.so"})),
        }
        if random.random() < 0.8:
            found["container"]["container_resources"] = _resources(random)
    return found


def _resources(random: Random) -> Object:
    ways = {
        "cpu_period": (100000, 100000, 50000, 10000),
        "cpu_quota": (-1, 1000, 50000, 123456, 200000),
        "cpu_shares": (2, 102, 1024),
        "memory_limit_in_bytes": (1 << 30, 123456789),
        "oom_score_adj": (-997, 1000),
        "cpuset_cpus": ("0-3",),
    }
    return {name: random.choice(values) for name, values in ways.items() if random.random() < 0.6}


def _labels(random: Random) -> Object:
    labels = {}
    if random.random() < 0.85:
        labels[QOS] = random.choice(("BE", "BE", "LS", "LS", "LSR", "LSE", "SYSTEM", "", "other"))
    if random.random() < 0.1:
        labels["koordinator.sh/gpu-isolation-provider"] = "HAMi-core"
    return labels


def _annotations(random: Random) -> Object:
    annotations = {"a": "1"}
    if random.random() < 0.5:
        annotations[EXTENDED] = json.dumps(_extended(random))
        if random.random() < 0.1:
            annotations[EXTENDED] = random.choice(("{}", '{"containers":{}}', "x", "[]", ""))
    if random.random() < 0.35:
        annotations[STATUS] = json.dumps(_status(random))
        if random.random() < 0.05:
            annotations[STATUS] = random.choice(("{}", "x", "[]", "null", ""))
    if random.random() < 0.25:
        annotations[DEVICES] = json.dumps(_devices(random))
        if random.random() < 0.05:
            annotations[DEVICES] = random.choice(("{}", "x", "[]", "null", '{"gpu":[]}'))
    if random.random() < 0.25:
        ways = {"enable": (True, True, False), "groupIdentity": (-1, 0, 1, 2, 7)}
        own = {name: random.choice(each) for name, each in ways.items() if random.random() < 0.7}
        annotations[CPU_QOS] = json.dumps(own)
        if random.random() < 0.05:
            annotations[CPU_QOS] = random.choice(("x", "[]", "null"))
    return annotations


def _extended(random: Random) -> Object:
    def amounts() -> Object:
        ways = {
            "kubernetes.io/batch-cpu": ("0", "1", "3", "8", "500", "1000", "1500", "2k", "300000"),
            "kubernetes.io/batch-memory": ("0", "1Gi", "1G", "123456789", "1.5Gi"),
        }
        return {name: random.choice(each) for name, each in ways.items() if random.random() < 0.8}

    def container() -> Object:
        return {name: amounts() for name in ("requests", "limits") if random.random() < 0.85}

    return {"containers": {f"c{place}": container() for place in range(random.randint(1, 3))}}


def _status(random: Random) -> Object:
    found: Object = {}
    if random.random() < 0.5:
        found["cpuset"] = random.choice(("0-3", "2,1,0", "0-1,4-5", "5", "0,1,2,3", "", "7-6x"))
    if random.random() < 0.6:
        found["numaNodeResources"] = [
            {"node": place, **random.choice(({"resources": {"cpu": "2"}},) * 2 + _NO_CPU)}
            for place in random.sample((0, 1, 2), random.randint(1, 2))
        ]
    return found


_NO_CPU: tuple[Object, ...] = (
    {"resources": {"memory": "1Gi"}},
    {"resources": {"kubernetes.io/batch-cpu": "1000"}},
    {},
)


def _devices(random: Random) -> Object:
    def resources() -> Object:
        ways = {
            "koordinator.sh/gpu-core": ("50", "100"),
            "koordinator.sh/gpu-memory-ratio": ("50", "100", "30"),
            "koordinator.sh/gpu-memory": ("8Gi", "16Gi"),
        }
        return {name: random.choice(each) for name, each in ways.items() if random.random() < 0.9}

    found: Object = {
        "gpu": [
            {"minor": minor, "resources": resources()}
            for minor in random.sample(range(8), random.randint(0, 3))
        ]
    }
    if random.random() < 0.1:
        found = {"rdma": [{"minor": 0, "resources": {"koordinator.sh/rdma": "1"}}]}
    return found


def _slo(random: Random) -> Object:
    spec: Object = {}
    qos: Object = {}
    if random.random() < 0.4:
        qos["policies"] = {"cpuPolicy": random.choice(("groupIdentity", "coreSched", ""))}
    for name, identity in (("lsrClass", 2), ("lsClass", 2), ("beClass", -1)):
        if random.random() < 0.6:
            cpu: Object = {"enable": random.random() < 0.8}
            if random.random() < 0.5:
                cpu["groupIdentity"] = random.choice((identity, 0, 1))
            qos[name] = {"cpuQOS": cpu}
    if qos:
        spec["resourceQOSStrategy"] = qos
    if random.random() < 0.5:
        ways = {"enable": (True, False), "cpuSuppressPolicy": ("cpuset", "cfsQuota")}
        spec["resourceUsedThresholdWithBE"] = {
            name: random.choice(each) for name, each in ways.items() if random.random() < 0.7
        }
    return spec


def _topology(random: Random) -> Object | None:
    if random.random() < 0.15:
        return None
    pools = random.choice(
        (
            [{"node": 0, "cpuset": "0-3"}, {"node": 1, "cpuset": "8-11"}],
            [{"node": 0, "cpuset": "0-7"}],
            [{"node": 0, "cpuset": ""}, {"node": 1, "cpuset": "9"}],
            [{"node": 0, "cpuset": ""}],
        )
    )
    annotations = {"node.koordinator.sh/cpu-shared-pools": json.dumps(pools)}
    if random.random() < 0.5:
        policy = random.choice(("none", "static"))
        annotations["kubelet.koordinator.sh/cpu-manager-policy"] = json.dumps({"policy": policy})
    if random.random() < 0.3:
        annotations["node.koordinator.sh/system-qos-resource"] = json.dumps({"cpuset": "14-15"})
    return {"metadata": {"name": "n", "annotations": annotations}}


def _pod_annotations(given: Object) -> Object:
    pod: Object = given.get("pod") or {"annotations": given["container"]["pod_annotations"]}
    return pod["annotations"]


def own_cpu_strategy(given: Object) -> None:
    """It counts as enabled where it says nothing; what is out of range of it is passed over.

    One that cannot be read counts for nothing, and so does any where no class has identities.
    """
    annotations = _pod_annotations(given)
    try:
        own = json.loads(annotations.get(CPU_QOS, "x"))
        own.setdefault("enable", True)
    except (ValueError, AttributeError):
        annotations.pop(CPU_QOS, None)
        return
    if own.get("groupIdentity") == _OUT_OF_RANGE:
        del own["groupIdentity"]
    annotations[CPU_QOS] = json.dumps(own)
    if not _in_force(given["slo"].get("resourceQOSStrategy", {})):
        del annotations[CPU_QOS]


def _in_force(strategy: Object) -> bool:
    policy = strategy.get("policies", {}).get("cpuPolicy") or "groupIdentity"
    classes = [strategy.get(name, {}).get("cpuQOS", {}) for name in ("lsrClass", "lsClass")]
    classes.append(strategy.get("beClass", {}).get("cpuQOS", {}))
    return policy == "groupIdentity" and any(one.get("enable") for one in classes)


_OUT_OF_RANGE = 7


def no_containers(given: Object) -> None:
    """An annotation that names no container says nothing."""
    annotations = _pod_annotations(given)
    if annotations.get(EXTENDED) == '{"containers":{}}':
        del annotations[EXTENDED]


DECISIONS: dict[str, Callable[[Object], None]] = {
    "own CPU strategy": own_cpu_strategy,
    "no containers": no_containers,
}

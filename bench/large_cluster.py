"""The objects of a large cluster, as texts: Nodes, their pods, and what nodes report of them.

Sizes are those of real ones without ``managedFields``. Pods are made anew each time they are
asked for, as a quarter of a million would not be worth keeping; of each name there is one.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

from koord_kube.protocol import resources
from koord_kube.protocol.resources import Resource
from koord_manager.node_metric.core import reconciler as node_metric_reconciler
from koord_manager.node_objects.core.nodes import ClusterNode
from koord_manager.node_objects.core.reconciler import CreateObject, write_for
from koord_manager.nodeslo.core import reconciler as nodeslo_reconciler
from koord_manager.nodeslo.core.rollout import Rollout
from koord_manager.slo_config.core import config as slo_config
from koord_model.keys import BATCH_CPU, BATCH_MEMORY

from tests.support.kube_api import front_proxy_config_map

PODS, INTERVAL = 50, 10
NAMESPACE = "koordinator-system"
NAMESPACES = 250
WORKLOADS = 40  # of a namespace
_HASH = "7f9c8d5b6f"
_GIB = 1 << 30
_CPUS, _MEMORY = 64, 256
_SHAPES = 40
"""Of reports; nodes of the same one report the same of pods of other names."""

CONFIG = {
    "colocation-config": json.dumps({"enable": True, "metricReportIntervalSeconds": INTERVAL}),
    "resource-threshold-config": json.dumps({"clusterStrategy": {"enable": True}}),
    "cpu-burst-config": json.dumps({"clusterStrategy": {"policy": "auto"}}),
}

Object = dict[str, Any]


def node_name(number: int) -> str:
    return f"node-{number:05d}"


def uid(kind: str, number: int) -> str:
    return f"{kind}1c9a52-6b1e-4f0e-9d53-{number:012d}"


# ---- Nodes, and objects of their names


def node(number: int) -> Object:
    """With images, conditions and addresses, 8 KB."""
    name = node_name(number)
    amounts = {"cpu": str(_CPUS), "memory": f"{_MEMORY}Gi", "pods": "110"}
    free = {"cpu": f"{_CPUS - 2}", "memory": f"{_MEMORY - 6}Gi", "pods": "110"}
    image = "registry.example/shop/service-{0:03d}"
    digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f0{0:04d}"
    return {
        "metadata": {
            "name": name,
            "uid": uid("aa", number),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux",
                "topology.kubernetes.io/zone": f"zone-{number % 3}",
                "node.kubernetes.io/instance-type": "m.16xlarge",
                "node-pool": f"pool-{number % 20}",
            },
            "annotations": {"node.alpha.kubernetes.io/ttl": "0"},
        },
        "spec": {"podCIDR": "10.0.0.0/24", "providerID": f"cloud:///{name}"},
        "status": {
            "capacity": amounts,
            "allocatable": free,
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "conditions": [
                {
                    "type": kind,
                    "status": "True" if kind == "Ready" else "False",
                    "lastHeartbeatTime": "2026-11-20T10:00:00Z",
                    "lastTransitionTime": "2026-11-20T10:00:00Z",
                    "reason": f"KubeletHasNo{kind}",
                    "message": f"kubelet has no {kind}",
                }
                for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
            ],
            "images": [
                {
                    "names": [
                        f"{image.format(one)}@sha256:{digest.format(one)}",
                        f"{image.format(one)}:v1.{one}",
                    ],
                    "sizeBytes": 100_000_000 + one,
                }
                for one in range(40)
            ],
        },
    }


def topology(number: int) -> Object:
    """Two NUMA nodes."""
    amounts = {"cpu": str(_CPUS // 2), "memory": f"{_MEMORY // 2}Gi"}
    return {
        "metadata": {"name": node_name(number), "uid": uid("bb", number)},
        "topologyPolicies": ["None"],
        "zones": [
            {
                "name": f"node-{zone}",
                "type": "Node",
                "resources": [
                    {"name": name, "capacity": amount, "allocatable": amount, "available": amount}
                    for name, amount in amounts.items()
                ],
            }
            for zone in range(2)
        ],
    }


def objects(nodes: int) -> Iterator[tuple[Resource, str, Object]]:
    """All but pods, with namespaces; a manager has made what it makes of each Node before."""
    meta = {"name": "slo-controller-config"}
    yield resources.CONFIG_MAPS, NAMESPACE, {"metadata": meta, "data": CONFIG}
    yield resources.CONFIG_MAPS, "kube-system", front_proxy_config_map("none", "", "none")
    labels = {"koordinator.sh/enable-colocation": "true"}
    names = ["kube-system", NAMESPACE, *(f"team-{number}" for number in range(NAMESPACES))]
    for name in names:
        yield resources.NAMESPACES, "", {"metadata": {"name": name}}
    yield resources.NAMESPACES, "", {"metadata": {"name": "shop", "labels": labels}}
    for name, value in (("match", "true"), ("pass", "no")):
        yield resources.COLOCATION_PROFILES, "", profile(name, value)
    yield (
        resources.PRIORITY_CLASSES,
        "",
        {
            "metadata": {"name": "koord-batch"},
            "value": 5500,
            "preemptionPolicy": "PreemptLowerPriority",
        },
    )
    for number in range(5):
        yield resources.RECOMMENDATIONS, f"team-{number % 2}", recommendation(number)
    for number in range(nodes):
        yield resources.NODES, "", node(number)
        yield resources.NODE_TOPOLOGIES, "", topology(number)
    yield from ((kind, "", made_for_node) for kind, made_for_node in _made_for_nodes(nodes))


def profile(name: str, value: str) -> Object:
    """Return the profile that makes batch pods of pods with this label."""
    wanted = {"koordinator.sh/enable-colocation": value}
    spec = {
        "namespaceSelector": {"matchLabels": wanted},
        "selector": {"matchLabels": wanted},
        "qosClass": "BE",
        "priorityClassName": "koord-batch",
        "koordinatorPriority": 1000,
        "schedulerName": "koord-scheduler",
        "labels": {"koordinator.sh/mutated": "true"},
        "annotations": {"koordinator.sh/intercepted": "true"},
        "patch": {"spec": {"terminationGracePeriodSeconds": 60}},
    }
    return {"metadata": {"name": name}, "spec": spec}


def recommendation(number: int) -> Object:
    workload = {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"web-{number}"}
    target = {"type": "workload", "workload": workload}
    return {"metadata": {"name": f"web-{number}"}, "spec": {"target": target}}


def _made_for_nodes(nodes: int) -> Iterator[tuple[Resource, Object]]:
    config, problems = slo_config.advance(slo_config.UNREAD, CONFIG)
    assert not problems
    any_node, nobody = ClusterNode("any"), Rollout(dict, lambda: 0.0)
    for kind, (spec, _) in (
        (resources.NODE_METRICS, node_metric_reconciler.desired(config, any_node, None)),
        (resources.NODE_SLOS, nodeslo_reconciler.desired(config, any_node, None, nobody)),
    ):
        for number in range(nodes):
            wanted = write_for(kind, ClusterNode(node_name(number), uid("aa", number)), None, spec)
            assert isinstance(wanted, CreateObject)
            yield kind, wanted.object


# ---- pods


def pod_key(number: int) -> tuple[str, str]:
    """Namespace and name; those of a node follow each other."""
    at, place = divmod(number, PODS)
    workload = number // NAMESPACES % WORKLOADS
    return f"team-{number % NAMESPACES}", f"{owner_name(workload)}-{at:05d}{place:02d}"


def owner_name(workload: int) -> str:
    """The ReplicaSet of a Deployment; its pods have the label ``app`` of that value."""
    return f"web-{workload}-{_HASH}"


def pod(number: int, version: int) -> bytes:
    """Each fifth is a batch pod; 3.5 KB."""
    at, place = divmod(number, PODS)
    namespace, name = pod_key(number)
    template = _BATCH if place % 5 == 4 else _PROD[place % 8]
    owner = name.rpartition("-")[0]
    return template % {
        b"name": name.encode(),
        b"owner": owner.encode(),
        b"namespace": namespace.encode(),
        b"uid": uid("cc", number).encode(),
        b"node": node_name(at).encode(),
        b"version": b"%d" % version,
    }


def job(number: int, node: str, phase: str, version: int) -> bytes:
    """A batch pod that comes and goes."""
    text = _BATCH.replace(b'"phase":"Running"', f'"phase":"{phase}"'.encode())
    return text % {
        b"name": f"job-{number}".encode(),
        b"owner": b"job",
        b"namespace": b"team-0",
        b"uid": uid("dd", number).encode(),
        b"node": node.encode(),
        b"version": b"%d" % version,
    }


def _template(labels: dict[str, str], priority: int, amounts: Sequence[Object]) -> bytes:
    mounts = [
        {"name": "config", "mountPath": "/etc/web", "readOnly": True},
        {"name": "kube-api-access", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
    ]
    variables = ("DATABASE_HOST", "CACHE_HOST", "QUEUE_HOST", "TRACE_ENDPOINT", "LOG_LEVEL")
    probe = {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10}
    containers = [
        {
            "name": f"c-{number}",
            "image": "registry.example/shop/web:v1.2.3",
            "env": [
                {"name": variable, "value": f"{variable}.shop.svc.cluster.local"}
                for variable in variables
            ],
            "resources": {"requests": amount, "limits": amount},
            "volumeMounts": mounts,
            "livenessProbe": probe,
            "readinessProbe": probe,
            "terminationMessagePath": "/dev/termination-log",
            "imagePullPolicy": "IfNotPresent",
        }
        for number, amount in enumerate(amounts)
    ]
    statuses = [
        {
            "name": container["name"],
            "ready": True,
            "restartCount": 0,
            "image": container["image"],
            "containerID": "containerd://9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15",
            "state": {"running": {"startedAt": "2026-11-20T10:00:00Z"}},
        }
        for container in containers
    ]
    conditions = [
        {"type": one, "status": "True", "lastTransitionTime": "2026-11-20T10:00:00Z"}
        for one in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "%(owner)s",
        "uid": "%(uid)s",
        "controller": True,
    }
    made = {
        "metadata": {
            "name": "%(name)s",
            "namespace": "%(namespace)s",
            "uid": "%(uid)s",
            "resourceVersion": "%(version)s",
            "creationTimestamp": "2026-11-20T10:00:00Z",
            "labels": {"app": "%(owner)s", "pod-template-hash": _HASH, **labels},
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8080"},
            "ownerReferences": [owner],
        },
        "spec": {
            "nodeName": "%(node)s",
            "priority": priority,
            "containers": containers,
            "volumes": [{"name": "config", "configMap": {"name": "web"}}],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}],
        },
        "status": {
            "phase": "Running",
            "qosClass": "Burstable",
            "podIP": "10.0.0.7",
            "conditions": conditions,
            "containerStatuses": statuses,
        },
    }
    return json.dumps(made, separators=(",", ":")).encode()


_PROD = [
    _template(
        {"koordinator.sh/qosClass": "LS"}, 9000, [{"cpu": f"{100 * one}m", "memory": "512Mi"}] * 2
    )
    for one in range(1, 9)
]
_BATCH = _template(
    {"koordinator.sh/qosClass": "BE"}, 5500, [{BATCH_CPU: "500", BATCH_MEMORY: "1Gi"}] * 2
)


# ---- what a node reports


VARIANTS = 3
"""Of a node's reports: two that differ by some percent, and one of a third more load."""

_LOADS = (0.98, 1.02, 1.35)


def variant(node: int, turn: int) -> int:
    """Choose the variant of a node's ``turn``th report: the last twice an hour."""
    return 2 if (node * 37 + turn) % 60 == 0 else turn % 2


def status(node: int, which: int, extensions: Object | None = None) -> bytes:
    """As koordlet makes it; names of pods are the node's own."""
    keys = [pod_key(node * PODS + place) for place in range(PODS)]
    found = _status(node % _SHAPES, which) % tuple(part for key in keys for part in key)
    if extensions:
        found = f'{found[:-1]},"extensions":{json.dumps(extensions)}}}'
    return found.encode()


_made: dict[tuple[int, int], str] = {}


def _status(shape: int, which: int) -> str:
    if (shape, which) in _made:
        return _made[shape, which]
    chance, load = random.Random(shape), _LOADS[which]

    def usage(cores: float, gibibytes: float, *, moves: float = load) -> Object:
        cpu = f"{int(cores * 1000 * (0.5 + 0.5 * chance.random()) * moves)}m"
        memory = str(int(gibibytes * (0.5 + 0.5 * chance.random()) * _GIB))
        return {"resources": {"cpu": cpu, "memory": memory}}

    windows = [
        {
            "usage": {kind: usage(32, 128) for kind in ("avg", "p50", "p90", "p95", "p99")},
            "duration": duration,
        }
        for duration in ("5m0s", "10m0s", "30m0s")
    ]
    pods = []
    for place in range(PODS):
        batch = place % 5 == 4
        pods.append(
            {
                "namespace": "%s",
                "name": "%s",
                "podUsage": usage(0.5, 1.5),
                "priority": "koord-batch" if batch else "koord-prod",
                "qos": "BE" if batch else "LS",
            }
        )
    system = usage(2, 6, moves=1.0)
    numa = [{"numaNodeID": one, "systemUsage": usage(1, 3, moves=1.0)} for one in range(2)]
    found = {
        "updateTime": "2026-11-20T10:00:00Z",
        "nodeMetric": {
            "nodeUsage": usage(32, 80),
            "systemUsage": system,
            "numaUsages": numa,
            "aggregatedNodeUsages": windows,
            "aggregatedSystemUsages": windows,
        },
        "podsMetric": pods,
        "prodReclaimableMetric": {"resource": usage(8, 32)},
    }
    _made[shape, which] = json.dumps(found, separators=(",", ":"))
    return _made[shape, which]

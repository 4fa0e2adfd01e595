"""Pods and nodes as texts that cost next to nothing to make: for the API that answers at once.

Pods are as large as real ones, 3.5 KB with ``managedFields``, of 200 ReplicaSets that select
them: so the scheduler spreads them by its defaults, over zones and nodes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from koord_kube.protocol import resources
from koord_kube.protocol.resources import Resource

APPS = 200
_NAMESPACES = 20
_HASH = "5d8f7c9b6"
_TIME = "2026-11-22T22:44:00Z"

Object = dict[str, Any]


def pod_name(number: int) -> bytes:
    return b"web-%d-%s-%06x" % (number % APPS, _HASH.encode(), number)


def pod_number(name: bytes) -> int:
    """
    Raises:
        ValueError: no pod is named so.
    """
    number = int(name.rpartition(b"-")[2], 16)
    if pod_name(number) != name:
        raise ValueError(name)
    return number


def pod_namespace(number: int) -> bytes:
    return b"team-%d" % (number % APPS % _NAMESPACES)


def pod_uid(number: int) -> bytes:
    return b"cc1c9a52-6b1e-4f0e-9d53-%012d" % number


def pending(number: int, version: int) -> bytes:
    return _PENDING[number % APPS] % (pod_name(number), pod_uid(number), version)


def bound(number: int, version: int, node: bytes) -> bytes:
    """As it is after its Binding."""
    return _BOUND[number % APPS] % (pod_name(number), pod_uid(number), version, node)


def running(number: int, version: int, node: bytes) -> bytes:
    """As its kubelet says it is."""
    return _RUNNING[number % APPS] % (pod_name(number), pod_uid(number), version, node)


def others(nodes: int) -> Iterator[tuple[Resource, bytes]]:
    """All objects but pods."""
    for number in range(_NAMESPACES):
        yield resources.NAMESPACES, _text({"metadata": _metadata(f"team-{number}")})
    for app in range(APPS):
        labels = {"app": f"web-{app}", "pod-template-hash": _HASH}
        metadata = _metadata(f"web-{app}-{_HASH}") | {"namespace": pod_namespace(app).decode()}
        spec = {"replicas": 100, "selector": {"matchLabels": labels}}
        yield resources.REPLICA_SETS, _text({"metadata": metadata, "spec": spec})
    for number in range(nodes):
        yield resources.NODES, _text(_node(number))


def _node(number: int) -> Object:
    name = f"node-{number:05d}"
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "250", "ephemeral-storage": "100Gi"}
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/zone": f"zone-{number % 3}",
        "topology.kubernetes.io/region": "region-1",
        "node.kubernetes.io/instance-type": "m.16xlarge",
    }
    kinds = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    status = {
        "capacity": amounts,
        "allocatable": amounts,
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        "conditions": [_condition(kind, "True" if kind == "Ready" else "False") for kind in kinds],
        "images": [
            {"names": [f"registry.example/shop/service-{one:03d}:v1"], "sizeBytes": 10**8 + one}
            for one in range(10)
        ],
    }
    return {"metadata": _metadata(name) | {"labels": labels}, "spec": {}, "status": status}


def _metadata(name: str) -> Object:
    return {"name": name, "resourceVersion": "1", "creationTimestamp": _TIME}


def _condition(kind: str, status: str) -> Object:
    return {"type": kind, "status": status, "lastTransitionTime": _TIME}


def _text(given: Object) -> bytes:
    return json.dumps(given, separators=(",", ":")).encode()


# ---- templates of pods, one of each app


def _pod(app: int, status: Object, *, has_node: bool) -> bytes:
    spec: Object = {
        "schedulerName": "default-scheduler",
        "containers": [_container(app), _SIDECAR],
        "volumes": [_TOKEN],
        "tolerations": [
            {"key": f"node.kubernetes.io/{one}", "operator": "Exists", "effect": "NoExecute"}
            | {"tolerationSeconds": 300}
            for one in ("not-ready", "unreachable")
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "securityContext": {},
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    if has_node:
        spec["nodeName"] = "%s"
    owner = f"web-{app}-{_HASH}"
    metadata = {
        "name": "%s",
        "uid": "%s",
        "resourceVersion": "%d",
        "namespace": pod_namespace(app).decode(),
        "generateName": f"{owner}-",
        "creationTimestamp": _TIME,
        "labels": {"app": f"web-{app}", "pod-template-hash": _HASH, "tier": "web"},
        "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8080"},
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "controller": True}
            | {"uid": f"bb1c9a52-6b1e-4f0e-9d53-{app:012d}", "blockOwnerDeletion": True}
        ],
        "managedFields": [_MANAGED],
    }
    return _text({"metadata": metadata, "spec": spec, "status": status})


def _container(app: int) -> Object:
    amounts = {"cpu": f"{100 + app % 50 * 7}m", "memory": f"{128 + app}Mi"}
    probe = {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10}
    return {
        "name": "main",
        "image": "registry.example/shop/web:v1.2.3",
        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
        "env": [{"name": f"SETTING_{one}", "value": f"value-{one}"} for one in range(8)],
        "resources": {"limits": amounts, "requests": amounts},
        "volumeMounts": [{"name": "kube-api-access", "readOnly": True, "mountPath": "/var/run"}],
        "livenessProbe": probe,
        "readinessProbe": probe,
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }


_SIDECAR = {
    "name": "proxy",
    "image": "registry.example/mesh/proxy:1.0",
    "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
}
_TOKEN = {
    "name": "kube-api-access",
    "projected": {
        "defaultMode": 420,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca", "path": "ca"}]}},
        ],
    },
}
_FIELDS = ("env", "image", "imagePullPolicy", "livenessProbe", "name", "ports", "readinessProbe")
_MANAGED = {
    "manager": "kube-controller-manager",
    "operation": "Update",
    "apiVersion": "v1",
    "time": _TIME,
    "fieldsType": "FieldsV1",
    "fieldsV1": {
        "f:metadata": {"f:generateName": {}, "f:labels": {".": {}, "f:app": {}, "f:tier": {}}},
        "f:spec": {
            "f:containers": {'k:{"name":"main"}': {f"f:{one}": {} for one in _FIELDS}},
            "f:dnsPolicy": {},
            "f:enableServiceLinks": {},
            "f:restartPolicy": {},
            "f:schedulerName": {},
            "f:securityContext": {},
        },
    },
}
_SCHEDULED = [_condition("PodScheduled", "True")]
_READY = [_condition(one, "True") for one in ("PodScheduled", "Initialized", "Ready")]
_STATUSES = [
    {"name": one, "ready": True, "restartCount": 0, "started": True, "image": f"image-of-{one}"}
    | {"containerID": "containerd://9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15"}
    | {"state": {"running": {"startedAt": _TIME}}}
    for one in ("main", "proxy")
]
_PENDING = [_pod(app, {"phase": "Pending"}, has_node=False) for app in range(APPS)]
_BOUND = [
    _pod(app, {"phase": "Pending", "conditions": _SCHEDULED}, has_node=True) for app in range(APPS)
]
_RUNNING = [
    _pod(
        app,
        {"phase": "Running", "podIP": "10.0.0.7", "conditions": _READY}
        | {"containerStatuses": _STATUSES},
        has_node=True,
    )
    for app in range(APPS)
]

"""Pod mutation as API servers ask for it: HTTPS with kept connections, 200 pods a second.

An open loop: requests go out when they are due, whatever became of those before, and latency
is from then to when the whole answer is read: what the client takes, Python on the same
machine, is in it. Each pod is new, has three containers, and matches a colocation profile
which makes it a batch pod. Asked is koord-manager itself, as it is in a small cluster whose
nodes do not report; ``reports`` asks one that has much else to do.

``python -m bench.webhooks`` measures and writes bench/results/webhooks.md.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import uvloop

from bench import report
from bench.large_cluster import NAMESPACE
from bench.manager import Manager, running_manager
from bench.open_loop import arrivals, before_everything_else, percentile
from bench.programs import cpu_micros
from bench.report import Measure

RATE = 200.0
SECONDS = 20.0
_SETTLE = 2.0
_PATH = "/mutate-pod"
_NAMESPACE = "shop"
_PODS = 64
_NODES = 100
_SERVER = f"koordinator-webhook-service.{NAMESPACE}.svc"


class Turn(NamedTuple):
    """Milliseconds of each request's latency, in order of size; the server's cores."""

    latencies: list[float]
    cores: float


def pod(number: int) -> dict[str, Any]:
    """Return a pod as a Deployment's controller creates it: some 5 KB."""
    labels = {
        "app.kubernetes.io/name": "checkout",
        "app.kubernetes.io/instance": "checkout-eu-central",
        "app.kubernetes.io/managed-by": "Helm",
        "pod-template-hash": "6d5f7c9b8d",
        "koordinator.sh/enable-colocation": "true",
    }
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "checkout-6d5f7c9b8d",
        "uid": f"3f1c9a52-6b1e-4f0e-9d53-{number:012d}",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "checkout-6d5f7c9b8d-",
            "namespace": _NAMESPACE,
            "labels": labels,
            "annotations": {
                "checksum/config": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15",
                "prometheus.io/scrape": "true",
                "prometheus.io/port": "8080",
            },
            "ownerReferences": [owner],
        },
        "spec": {
            "containers": [_container(name, number) for name in ("checkout", "proxy", "logs")],
            "volumes": [
                {"name": "config", "configMap": {"name": "checkout", "defaultMode": 420}},
                {"name": "scratch", "emptyDir": {}},
            ],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "checkout",
            "schedulerName": "default-scheduler",
            "securityContext": {"runAsNonRoot": True, "fsGroup": 2000},
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
            ],
        },
    }


def _container(name: str, number: int) -> dict[str, Any]:
    probe = {
        "httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"},
        "periodSeconds": 10,
        "timeoutSeconds": 1,
        "failureThreshold": 3,
    }
    settings = ("DATABASE_HOST", "CACHE_HOST", "QUEUE_HOST", "TRACE_ENDPOINT", "LOG_LEVEL")
    return {
        "name": name,
        "image": f"registry.example/shop/{name}:v1.{number}.3",
        "imagePullPolicy": "IfNotPresent",
        "env": [
            *(
                {"name": setting, "value": f"{setting.lower()}.shop.svc.cluster.local"}
                for setting in settings
            ),
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        ],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "resources": {
            "requests": {"cpu": "250m", "memory": "512Mi"},
            "limits": {"cpu": "1", "memory": "1Gi"},
        },
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/checkout", "readOnly": True},
            {"name": "scratch", "mountPath": "/tmp"},
        ],
        "livenessProbe": probe,
        "readinessProbe": probe,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "terminationMessagePath": "/dev/termination-log",
    }


def _review(number: int) -> bytes:
    resource = {"group": "", "version": "v1", "resource": "pods"}
    request = {
        "uid": f"705ab4f5-6393-11e8-b7cc-{number:012d}",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": resource,
        "requestResource": resource,
        "namespace": _NAMESPACE,
        "operation": "CREATE",
        "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller"},
        "object": pod(number),
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    return json.dumps(review, separators=(",", ":")).encode()


async def _ask(manager: Manager, authority: str, seed: int) -> Turn:
    context = ssl.create_default_context(cadata=authority)
    url, pid = f"https://127.0.0.1:{manager.webhook_port}{_PATH}", manager.pid
    reviews = [_review(number) for number in range(_PODS)]
    due = arrivals(RATE, _SETTLE + SECONDS, seed)
    latencies: list[float] = []
    busy = 0.0
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=context, limit=0),
        headers={"Content-Type": "application/json"},
    ) as session:

        async def one(number: int, at: float, counts: bool) -> None:
            async with session.post(
                url, data=reviews[number % _PODS], server_hostname=_SERVER
            ) as response:
                answer = await response.read()
            if counts:
                latencies.append((time.perf_counter() - at) * 1e3)
            if number < _PODS:
                _check(response.status, answer)

        start = time.perf_counter() + 0.1
        async with asyncio.TaskGroup() as group:
            for number, at in enumerate(due):
                await asyncio.sleep(start + at - time.perf_counter())
                if at >= _SETTLE and not busy:
                    busy, since = cpu_micros(pid), time.perf_counter()
                group.create_task(one(number, start + at, at >= _SETTLE))
        cores = (cpu_micros(pid) - busy) / 1e6 / (time.perf_counter() - since)
    return Turn(sorted(latencies), cores)


def _check(status: int, answer: bytes) -> None:
    """Check that the pod has become a batch pod."""
    response = json.loads(answer)["response"] if status == 200 else {}
    patch = base64.b64decode(response.get("patch", ""))
    if b"kubernetes.io~1batch-cpu" not in patch and b"kubernetes.io/batch-cpu" not in patch:
        raise SystemExit(f"bench: the webhook answered {status}, {answer[:300]!r}")


def ask(manager: Manager, seed: int) -> Turn:
    """A turn of some 20 s."""
    authority = manager.until(manager.authority, "an authority", 30)
    manager.until(manager.ready, "webhooks", 30)
    with before_everything_else():
        return uvloop.run(_ask(manager, authority, seed))


def measure(rounds: int) -> list[Measure]:
    """The median of a few turns."""
    with (
        tempfile.TemporaryDirectory(prefix="koord-bench-") as folder,
        running_manager(Path(folder), _NODES) as manager,
    ):
        manager.until(lambda: manager.metrics()["koord_manager_nodes"], "leads", 60)
        time.sleep(_SETTLE)
        return measures([ask(manager, seed) for seed in range(min(rounds, 3))], "")


def measures(turns: Sequence[Turn], name: str) -> list[Measure]:
    """The medians of turns; CPU is all that the manager spent meanwhile, by pods."""
    p50, p99 = (
        statistics.median(percentile(turn.latencies, share) for turn in turns)
        for share in (0.5, 0.99)
    )
    cores = statistics.median(turn.cores for turn in turns)
    name += f"pod mutation over HTTPS, {RATE:g}/s of {len(json.dumps(pod(0))) / 1e3:.1f} KB"
    return [
        Measure(f"{name}, p50", "ms", p50, "", None, None),
        Measure(f"{name}, p99", "ms", p99, "", None, 10.0),
        Measure(f"{name}, CPU", "cores", cores, "", None, None),
    ]


def main(rounds: int = 3) -> None:
    """Measure, print, and put it where results are."""
    found = measure(rounds)
    print(report.table(found))
    settings = {
        "requests": f"{RATE:g}/s for {SECONDS:g} s",
        "manager": f"all its usual parts, {_NODES} nodes that do not report",
        "API server": "a lean double on the same machine",
    }
    report.write(found, "webhooks", settings)


if __name__ == "__main__":
    main()

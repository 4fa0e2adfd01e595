"""CPU and memory that profiles of 2,000 services cost the manager of 10,000 nodes.

Each service has 150 pods, so a node runs 30; ten services share a namespace. Measured is the index,
without the API: all of it at the start, pods that are replaced each second, one profile that
changes, and what NodeSLOs are given.

``python -m bench.service_profiles`` measures and writes bench/results/service_profiles.md.
"""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from resource import getpagesize

import msgspec
from koord_manager.service_profiles.core import document
from koord_manager.service_profiles.core.document import ProfileDocument, ProfileSource
from koord_manager.service_profiles.core.index import ServiceIndex, WorkloadLookup
from koord_manager.service_profiles.core.objects import (
    ProfiledWorkload,
    ServicePod,
    WorkloadKind,
    read_workload,
)

from bench import report
from bench.report import Measure

NODES, SERVICES, PODS = 10_000, 2_000, 150
SETTINGS = {"nodes": NODES, "services": SERVICES, "pods of each": PODS}
_IN_NAMESPACE = 10
_REPLACED = 100
_SECONDS = 60
_SOURCE = ProfileSource.DESCRIPTOR


def _namespace(service: int) -> str:
    return f"team-{service // _IN_NAMESPACE}"


def _profile(service: int, target: float = 460.0) -> ProfileDocument:
    bounds = [{"indicatorLevel": "UpperBound", "value": target}]
    spec = {
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"web-{service}"},
        "baselinePercent": 10,
        "systemIndicator": [{"name": "cpu_sched_wait", "indicators": bounds}],
    }
    meta = {"namespace": _namespace(service), "name": f"web-{service}"}
    return document.read({"metadata": meta, "spec": spec}, _SOURCE)


def _workload(_kind: WorkloadKind, _namespace: str, name: str) -> ProfiledWorkload:
    selector = {"spec": {"selector": {"matchLabels": {"app": name}}}}
    return read_workload(msgspec.json.encode(selector))


def _pod(service: int, number: int, node: int, created: str) -> ServicePod:
    namespace, labels = _namespace(service), {"app": f"web-{service}", "pod-template-hash": "7f9"}
    return ServicePod(namespace, f"web-{service}-{number}", f"node-{node}", created, labels)


def _put(index: ServiceIndex, pod: ServicePod, *, is_gone: bool = False) -> None:
    index.pod_changed(pod.namespace, f"{pod.namespace}/{pod.name}", None if is_gone else pod)


def _seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _resident() -> float:
    """Memory of this process in MiB."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * getpagesize() / 2**20


def measure() -> list[Measure]:
    """Fill an index, then replace pods and change a profile."""
    chance = random.Random(93)
    before = _resident()
    index = ServiceIndex(WorkloadLookup(_workload, lambda _kind, _namespace: ""))
    pods = [
        _pod(service, number, chance.randrange(NODES), f"2026-01-01T00:00:{number % 60:02}Z")
        for service in range(SERVICES)
        for number in range(PODS)
    ]

    def fill() -> None:
        for service in range(SERVICES):
            read = _profile(service)
            index.profile_changed((read.source.value, read.key), read)
        for pod in pods:
            _put(index, pod)
        assert len(index.refresh()) == NODES

    first = _seconds(fill)
    held = _resident() - before
    spent, rewritten = _replacements(index, pods, chance)
    names = [f"node-{number}" for number in range(NODES)]
    given = _seconds(lambda: [index.entries(name, ()) for name in names])
    sizes = [len(msgspec.json.encode(index.entries(name, ())[0])) for name in names]
    change = _profile(7, 500.0)
    index.profile_changed((change.source.value, change.key), change)
    changed: set[str] = set()
    one = _seconds(lambda: changed.update(index.refresh()))
    low, high = report.median_interval(spent)
    return [
        Measure("start: all profiles and pods", "CPU s", first, "", None, 15.0),
        Measure("memory, with its pods", "MiB", held, "", None, 512.0),
        Measure(
            f"{_REPLACED} pods replaced a second",
            *("CPU ms a second", 1000 * statistics.median(spent), "", None, 50.0),
            interval=(1000 * low, 1000 * high),
        ),
        Measure("nodes that they touch a second", "", rewritten, "", None, None),
        Measure("one profile changes", "CPU ms", 1000 * one, "", None, 50.0),
        Measure("nodes that get it", "", len(changed), "", None, None),
        Measure("entries of all NodeSLOs", "CPU s", given, "", None, 2.0),
        Measure("profiles of a NodeSLO, largest", "KiB", max(sizes) / 1024, "", None, 64.0),
    ]


def _replacements(
    index: ServiceIndex, pods: list[ServicePod], chance: random.Random
) -> tuple[list[float], float]:
    """CPU seconds of each second's replacements, and the mean number of nodes touched."""
    spent, touched = [], 0
    for second in range(_SECONDS):
        victims = [chance.randrange(len(pods)) for _ in range(_REPLACED)]

        began = time.process_time()
        for place in victims:
            _put(index, pods[place], is_gone=True)
            number = PODS + second * len(pods) + place
            node, service = chance.randrange(NODES), place // PODS
            pods[place] = _pod(service, number, node, "2026-01-02T00:00:00Z")
            _put(index, pods[place])
        touched += len(index.refresh())
        spent.append(time.process_time() - began)
    return spent, touched / _SECONDS


def main() -> None:
    measures = measure()
    print(report.table(measures))
    report.write(measures, "service_profiles", SETTINGS)


if __name__ == "__main__":
    main()

"""Speed of the scheduler's decisions without any API: pods a second of CPU.

``python -m bench.scheduler_core`` measures and writes bench/results/scheduler_core.*;
``--koordinator`` shows what Koordinator's plugins cost beside Kubernetes', ``--gangs`` how fast
gangs are placed, ``--quotas 1000`` what so many quotas cost, together with ``--gangs`` how fast
gangs are placed with them; these write nothing.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from koord_model.keys import ANNOTATION_QUOTA_NAMESPACES as QUOTA_NAMESPACES
from koord_model.keys import LABEL_QUOTA_PARENT as QUOTA_PARENT
from koord_scheduler.config.scheduler_config import default_scheduler_config, read_scheduler_config
from koord_scheduler.framework.cluster_kinds import cluster_kinds
from koord_scheduler.framework.decisions import Placement
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.objects.node import read_node
from koord_scheduler.plugins.load_aware.columns import NodeLoads
from koord_scheduler.plugins.load_aware.node_metric import NodeReport
from koord_scheduler.state.pod_reader import PodReader
from koord_service import memory

from bench import report, scheduler_waiting
from bench.report import Measure

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
ROUNDS = 3
NOW = 1_767_225_600.0
"""Seconds since the epoch."""
OF_KOORDINATOR = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled:
      - {name: LoadAwareScheduling}
      - {name: NodeNUMAResource}
      - {name: DeviceShare}
      - {name: Reservation, weight: 5000}
      - {name: SchedulingHint}
"""
OF_GANGS = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: Coscheduling}, {name: ElasticQuota}]}}}]
"""
OF_QUOTAS = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: ElasticQuota}]}}}]
"""
RESERVATIONS = 50
"""For other pods than those that are placed; each tenth node has GPUs, all have NUMA nodes."""
_WHY = (
    "A few changed rows cost plain numbers, more of them some forty numpy calls, each of a "
    "microsecond; spreading looks at all nodes, and so does a class that was never seen."
)
"""Reasons for missed targets."""


class Load(NamedTuple):
    """``classes`` 0: each pod is its own. ``target`` is pods a second, 0: none.

    ``shape`` says what pods want of others: "plain" (nothing), "spread" (over nodes and zones),
    "affinity" (to be in one zone), "anti-affinity" (a node each).
    """

    nodes: int
    classes: int
    shape: str
    pods: int
    target: float = 0

    def __str__(self) -> str:
        classes = f"{self.classes} classes" if self.classes else "unique"
        return f"{self.nodes:,} nodes, {classes}, {self.shape}"


LOADS = (
    Load(1_000, 1, "plain", 8_000),
    Load(1_000, 200, "spread", 6_000),
    Load(5_000, 1, "plain", 8_000),
    Load(5_000, 1, "spread", 6_000, 8_000),
    Load(5_000, 200, "spread", 6_000, 6_000),
    Load(5_000, 0, "spread", 1_500, 2_500),
    Load(5_000, 1, "affinity", 6_000, 10_000),
    Load(5_000, 1, "anti-affinity", 4_500, 10_000),
    Load(20_000, 1, "spread", 4_000),
    Load(20_000, 200, "spread", 3_000),
    Load(20_000, 0, "spread", 400, 2_500),
    Load(50_000, 200, "spread", 2_000),
)


def node(number: int) -> bytes:
    labels = {ZONE: f"zone-{number % 3}", HOST: f"node-{number}"}
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "250", "ephemeral-storage": "100Gi"}
    metadata = {"name": f"node-{number}", "labels": labels}
    return json.dumps({"metadata": metadata, "status": {"allocatable": amounts}}).encode()


def pod(number: int, kind: int, shape: str, space: str = "team") -> bytes:
    requests = {"cpu": f"{100 + kind % 50 * 7}m", "memory": f"{128 + kind}Mi"}
    labels = {"app": f"app-{kind}"}
    container = {"name": "c", "image": f"image-{kind % 40}", "resources": {"requests": requests}}
    spec: dict[str, Any] = {"containers": [container]}
    if shape.endswith("affinity"):
        selector = {"matchLabels": labels}
        key = "podAffinity" if shape == "affinity" else "podAntiAffinity"
        term = {"topologyKey": ZONE if shape == "affinity" else HOST, "labelSelector": selector}
        spec["affinity"] = {key: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    if shape == "spread":
        hard = "DoNotSchedule" if kind % 4 == 0 else "ScheduleAnyway"
        spec["topologySpreadConstraints"] = [
            _spread(HOST, 3, "ScheduleAnyway", labels),
            _spread(ZONE, 5, hard, labels),
        ]
    metadata = {"name": f"pod-{number}", "namespace": space, "uid": str(number), "labels": labels}
    return json.dumps({"metadata": metadata, "spec": spec}).encode()


def _spread(key: str, skew: int, otherwise: str, labels: dict[str, str]) -> dict[str, Any]:
    selector = {"matchLabels": labels}
    return {
        "topologyKey": key,
        "maxSkew": skew,
        "whenUnsatisfiable": otherwise,
        "labelSelector": selector,
    }


def pods_a_second(load: Load, *, koordinator: bool = False, quotas: int = 0) -> float:
    """Of CPU time; each pod is decided once, and all get a node."""
    config = read_scheduler_config(OF_KOORDINATOR) if koordinator else default_scheduler_config()
    if quotas:
        config = read_scheduler_config(OF_QUOTAS)
    scheduler, rng = Scheduler([profile.profile for profile in config.profiles]), random.Random(1)
    loads = scheduler.nodes.find(NodeLoads)
    for number in range(load.nodes):
        scheduler.nodes.set(read_node(node(number)))
        usage = {"cpu": 100 * (number % 200), "memory": (number % 100) << 30}
        if loads is not None:
            loads.set_report(f"node-{number}", NodeReport(NOW, usage=usage))
        if koordinator:
            add_hardware(scheduler, number)
    if koordinator:
        add_reservations(scheduler, load.nodes)
    add_quotas(scheduler, quotas)
    scheduler.tick(0.0, NOW)
    reader = PodReader(scheduler.nodes)
    for number in range(load.pods):
        kind = rng.randrange(load.classes) if load.classes else number
        space = f"team-{kind % quotas}" if quotas else "team"
        scheduler.set_pod(reader.read(pod(number, kind, load.shape, space)), 0.0)
    began, placed = time.process_time(), 0
    while (decision := scheduler.decide(0.0)) is not None:
        placed += isinstance(decision, Placement)
    assert placed == load.pods
    return placed / (time.process_time() - began)


def measure(loads: tuple[Load, ...], rounds: int = ROUNDS) -> Iterator[Measure]:
    taken: dict[Load, list[float]] = {load: [] for load in loads}
    for _ in range(rounds):
        for load in loads:
            taken[load].append(1e6 / pods_a_second(load))
    for load, values in taken.items():
        ours, target = statistics.median(values), 1e6 / load.target if load.target else None
        why = f"{1e6 / ours:,.0f} pods/s. {_WHY}"
        interval = report.median_interval(values)
        yield Measure(str(load), "µs a pod", ours, "", None, target, why, interval)


def add_hardware(scheduler: Scheduler, number: int) -> None:
    """NUMA nodes of a node, and GPUs of each tenth one."""
    name = f"node-{number}"
    has = [{"name": "cpu", "allocatable": "16"}, {"name": "memory", "allocatable": "64Gi"}]
    zones = [{"name": f"node-{zone}", "type": "Node", "resources": has} for zone in (0, 1)]
    topology = {"metadata": {"name": name}, "zones": zones}
    put(scheduler, "NodeResourceTopology", name, topology)
    if number % 10 == 0:
        amounts = {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100"}
        cards = [
            {"type": "gpu", "minor": minor, "health": True, "resources": amounts}
            for minor in range(8)
        ]
        device = {"metadata": {"name": name}, "spec": {"devices": cards}}
        put(scheduler, "Device", name, device)


def put(scheduler: Scheduler, kind: str, key: str, document: Any) -> None:
    """Have the scheduler read an object."""
    found = next(known for known in cluster_kinds(scheduler) if known.name == kind)
    found.put(key, found.read(json.dumps(document).encode()))


def add_reservations(scheduler: Scheduler, nodes: int) -> None:
    """Room that is kept for others, on some nodes."""
    for number in range(RESERVATIONS):
        containers = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
        owners = [{"labelSelector": {"matchLabels": {"app": "other"}}}]
        spec = {"template": {"spec": {"containers": containers}}, "owners": owners}
        place = f"node-{number * nodes // RESERVATIONS}"
        status = {"phase": "Available", "nodeName": place, "allocatable": {"cpu": "1"}}
        name = f"r{number}"
        document = {"metadata": {"name": name, "uid": name}, "spec": spec, "status": status}
        put(scheduler, "Reservation", name, document)


def gangs_a_second(quotas: int, gangs: int = 500, size: int = 32, nodes: int = 5_000) -> float:
    """Pods a second of CPU time, each in a gang by annotations whose pods come one by one."""
    config = read_scheduler_config(OF_GANGS)
    scheduler = Scheduler([profile.profile for profile in config.profiles])
    for number in range(nodes):
        scheduler.nodes.set(read_node(node(number)))
    reader = PodReader(scheduler.nodes)
    add_quotas(scheduler, quotas)
    spaces = [f"team-{gang % quotas}" if quotas else "team" for gang in range(gangs)]
    made = [
        _gang_pod(gang, number, size, space)
        for gang, space in enumerate(spaces)
        for number in range(size)
    ]
    pods = [reader.read(one) for one in made]
    began, placed = time.process_time(), 0
    for one in pods:
        scheduler.set_pod(one, 0.0)
    while (decision := scheduler.decide(0.0)) is not None:
        placed += isinstance(decision, Placement)
    assert placed == len(pods)
    return placed / (time.process_time() - began)


def _gang_pod(gang: int, number: int, size: int, space: str) -> bytes:
    document = json.loads(pod(gang * size + number, gang, "plain", space))
    prefix = "gang.scheduling.koordinator.sh"
    annotations = {f"{prefix}/name": f"gang-{gang}", f"{prefix}/min-available": str(size)}
    document["metadata"]["annotations"] = annotations
    return json.dumps(document).encode()


def add_quotas(scheduler: Scheduler, number: int) -> None:
    """Quotas that share more than their mins, by tens; pods are theirs by their namespaces."""
    for place in range(number):
        name, group = f"q{place}", f"g{place // 10}"
        team = {"namespace": "team", "annotations": {QUOTA_NAMESPACES: f'["team-{place}"]'}}
        add_quota(scheduler, {"name": name, "labels": {QUOTA_PARENT: group}, **team}, 400)
        if place % 10 == 0:
            add_quota(scheduler, {"name": group, "namespace": "team"}, 4_000)


def add_quota(scheduler: Scheduler, metadata: dict[str, Any], cpus: int) -> None:
    amounts = {"cpu": str(cpus), "memory": f"{4 * cpus}Gi"}
    least = {"cpu": str(cpus // 10), "memory": f"{cpus // 10}Gi"}
    document = {"metadata": metadata, "spec": {"max": amounts, "min": least}}
    put(scheduler, "ElasticQuota", f"team/{metadata['name']}", document)


def costs_of_quotas(number: int, rounds: int) -> Iterator[str]:
    """Cost of a decision with so many quotas, each with pods of a class; in turns."""
    load = Load(5_000, number, "plain", 12 * number)
    without, with_all = list[float](), list[float]()
    for _ in range(rounds):
        without.append(pods_a_second(load))
        with_all.append(pods_a_second(load, quotas=number))
    less, more = statistics.median(without), statistics.median(with_all)
    yield f"{load}: {less:,.0f} pods/s, with {number} quotas {more:,.0f}"


def costs_of_koordinator(loads: tuple[Load, ...], rounds: int) -> Iterator[str]:
    """Cost of a decision with Koordinator's plugins, over one without; in turns."""
    for load in loads:
        without, with_all = list[float](), list[float]()
        for _ in range(rounds):
            without.append(1e6 / pods_a_second(load))
            with_all.append(1e6 / pods_a_second(load, koordinator=True))
        less, more = statistics.median(without), statistics.median(with_all)
        yield f"{load}: {less:.0f} µs a pod, with all {more:.0f} µs, {more / less:.2f} times"


def main(
    rounds: int = ROUNDS, *, koordinator: bool = False, gangs: bool = False, quotas: int = 0
) -> None:
    memory.keep_freed()  # as the program does
    memory.collect_young_only()
    if koordinator:
        for line in costs_of_koordinator(tuple(one for one in LOADS if one.nodes == 5_000), rounds):
            print(line)
        return
    if gangs:
        rate = statistics.median(gangs_a_second(quotas) for _ in range(rounds))
        print(f"500 gangs of 32 pods at 5,000 nodes, {quotas} quotas: {rate:,.0f} pods/s")
    elif quotas:
        print(*costs_of_quotas(quotas, rounds))
    if gangs or quotas:
        return
    measures = list(measure(LOADS, rounds))
    print(report.table(measures))
    report.write(measures, "scheduler_core", {"rounds": rounds, "profile": "default"})
    scheduler_waiting.main()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.scheduler_core", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--koordinator", action="store_true")
    parser.add_argument("--gangs", action="store_true")
    parser.add_argument("--quotas", type=int, default=0)
    main(**vars(parser.parse_args()))

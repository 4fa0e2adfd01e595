"""Inputs for batch and mid resources: a Node, its NodeMetric, pods, zones, the ConfigMap."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from tests.conformance.inputs.node_resource_meant import DECISIONS as DECISIONS

Object = dict[str, Any]

NUMBER = 3000
NOW = datetime(2026, 11, 20, 10, 0, 0, tzinfo=UTC)
PRIORITIES = ("koord-prod", "koord-mid", "koord-batch", "koord-free", "", "other")
_ON_NODES = ({"resources": {"cpu": "1"}}, {"resources": {"memory": "1Gi"}}, {})
QOS = ("LSE", "LSR", "LS", "BE", "SYSTEM", "", "other")


def one(random: Random) -> Object:
    """One input."""
    cpus, memory = random.choice((1, 2, 4, 8, 16, 31, 64, 96, 128, 513)), _bytes(random, 40)
    zones = random.choice((0, 0, 0, 1, 2, 2, 2, 4))
    pods = [_pod(random, number, cpus, memory, zones) for number in range(random.randint(0, 7))]
    return {
        "now": _time(NOW),
        "config": json.dumps(_config(random)),
        "node": _node(random, cpus, memory),
        "metric": _metric(random, pods, cpus, memory),
        "pods": [pod for pod in pods if random.random() < 0.9],
        "nrt": _topology(random, zones, cpus, memory) if zones else None,
        "ratio": random.choice(("",) * 6 + ("1.00", "1.15", "1.33", "1.5", "0.9", "x", "2.07")),
    }


def _time(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _bytes(random: Random, bits: int) -> int:
    size = random.randint(1, 1 << random.randint(bits - 8, bits))
    return size & ~0xFFF if random.random() < 0.7 else size


def _cpu(random: Random, milli: int) -> str:
    """The same amount in one of the ways to write it."""
    ways = [f"{milli}m", str(milli / 1000)]
    if milli % 1000 == 0:
        ways += [str(milli // 1000)] * 2
    return random.choice(ways)


def _memory(random: Random, size: int) -> str:
    ways = [str(size)]
    for unit, factor in (("Ki", 1 << 10), ("Mi", 1 << 20), ("k", 1000)):
        if size and size % factor == 0:
            ways.append(f"{size // factor}{unit}")
    return random.choice(ways)


def _resources(random: Random, cpus: float, memory: float, *, complete: float = 0.93) -> Object:
    """Up to so much CPU (whole CPUs) and memory, now and then one of them missing or nothing."""
    found = {}
    if random.random() < complete:
        found["cpu"] = _cpu(random, random.choice((0, 1, random.randint(0, int(cpus * 1000)))))
    if random.random() < complete:
        found["memory"] = _memory(random, random.choice((0, random.randint(0, int(memory)))))
    return found


def _usage(random: Random, cpus: float, memory: float) -> Object:
    return {"resources": _resources(random, cpus, memory)}


def _config(random: Random) -> Object:
    percents = (0, 1, 29, 35, 50, 57, 60, 65, 70, 85, 99, 100)
    policies = ("usage", "maxUsageRequest", "request")

    def strategy(chance: float) -> Object:
        ways: dict[str, Any] = {
            "cpuReclaimThresholdPercent": random.choice((*percents,) * 3 + (120,)),
            "memoryReclaimThresholdPercent": random.choice((*percents,) * 3 + (120,)),
            "cpuCalculatePolicy": random.choice(policies),
            "memoryCalculatePolicy": random.choice(policies),
            "degradeTimeMinutes": random.choice((1, 5, 15, 60)),
            "midCPUThresholdPercent": random.choice(percents),
            "midMemoryThresholdPercent": random.choice(percents),
            "midUnallocatedPercent": random.choice(percents),
            "midStaticCPUReservedPercent": random.choice(percents),
            "midStaticMemoryReservedPercent": random.choice(percents),
            "midReclaimMode": random.choice(("", "static")),
            "batchCPUThresholdPercent": random.choice((*percents, 150)),
            "batchMemoryThresholdPercent": random.choice((*percents, 150)),
        }
        return {name: way for name, way in ways.items() if random.random() < chance}

    config = {"enable": True, **strategy(0.35)}
    if random.random() < 0.3:
        config["nodeConfigs"] = [
            {
                "name": f"some-{number}",
                "nodeSelector": {"matchLabels": {"pool": random.choice(("a", "b"))}},
                **strategy(0.3),
            }
            for number in range(random.randint(1, 2))
        ]
    return config


def _node(random: Random, cpus: int, memory: int) -> Object:
    kept = random.choice((0, 0, 100, 500, 1999))
    there = random.random() < 0.97
    capacity = {"cpu": str(cpus), "memory": _memory(random, memory)} if there else {}
    annotations, labels = {}, {"pool": random.choice("abc")}
    if random.random() < 0.25:
        resources = _resources(random, cpus * 0.3, memory * 0.3)
        reserved: Object = {"resources": resources} if random.random() < 0.7 else {}
        if random.random() < 0.4:
            reserved["reservedCPUs"] = random.choice(("0", "0-1", "0,2", "0-3,7"))
        if random.random() < 0.3:
            reserved["applyPolicy"] = random.choice(("Default", "ReservedCPUsOnly"))
        annotations["node.koordinator.sh/reservation"] = json.dumps(reserved)
    if random.random() < 0.15:
        annotations["node.koordinator.sh/thirdPartyAllocations"] = json.dumps(
            {
                "allocations": [
                    {
                        "name": f"other-{number}",
                        "priority": f"koord-{tier}",
                        "resources": {
                            f"kubernetes.io/{tier}-cpu": str(random.randint(0, cpus * 600)),
                            f"kubernetes.io/{tier}-memory": str(random.randint(0, memory // 2)),
                        },
                    }
                    for number, tier in enumerate(
                        random.choices(("batch", "batch", "mid"), k=random.randint(0, 2))
                    )
                ]
            }
        )
    if random.random() < 0.1:
        annotations["node.koordinator.sh/colocation-strategy"] = json.dumps(
            {"cpuReclaimThresholdPercent": random.choice((0, 40, 80))}
        )
    for label in ("cpu-reclaim-ratio", "memory-reclaim-ratio", "mid-static-cpu-reserved-ratio"):
        if random.random() < 0.05:
            labels[f"node.koordinator.sh/{label}"] = random.choice(
                ("0", "0.5", "0.29", "1", "0.57", "0.75", "1.2", "-1", "x")
            )
    allocatable = {
        "cpu": _cpu(random, max(0, cpus * 1000 - kept)),
        "memory": _memory(random, max(0, memory - kept * 1024)),
    }
    return {
        "metadata": {"name": "n", "labels": labels, "annotations": annotations},
        "status": {"capacity": capacity, "allocatable": allocatable if there else {}},
    }


def _pod(random: Random, number: int, cpus: int, memory: int, zones: int) -> Object:
    labels, spec = {}, {}
    if random.random() < 0.7:
        labels["koordinator.sh/priority-class"] = random.choice(PRIORITIES)
    elif random.random() < 0.7:
        spec["priority"] = random.choice((9500, 7500, 5500, 3500, 0, 9000, 9999, 6500, -10))
    if random.random() < 0.5:
        labels["koordinator.sh/qosClass"] = random.choice(QOS)
    annotations = {}
    if zones and random.random() < 0.4:
        nodes = random.sample(range(zones), random.randint(1, zones))
        annotations["scheduling.koordinator.sh/resource-status"] = json.dumps(
            {"numaNodeResources": [{"node": node, **random.choice(_ON_NODES)} for node in nodes]}
        )
    containers = [_container(random, cpus, memory, place) for place in range(random.randint(1, 2))]
    if random.random() < 0.15:
        init = _container(random, cpus, memory, 9)
        if random.random() < 0.5:
            init["restartPolicy"] = "Always"
        spec["initContainers"] = [init]
    if random.random() < 0.1:
        spec["overhead"] = {"cpu": "250m", "memory": "64Mi"}
    metadata = {"name": f"p{number}", "namespace": "ns"}
    return {
        "metadata": {**metadata, "labels": labels, "annotations": annotations},
        "spec": {"nodeName": "n", **spec, "containers": containers},
        "status": {
            "phase": random.choice(("Running",) * 6 + ("Pending", "Succeeded", "Failed", "")),
            "qosClass": random.choice(("Guaranteed", "Burstable", "BestEffort")),
        },
    }


def _container(random: Random, cpus: int, memory: int, place: int) -> Object:
    found: Object = {"name": f"c{place}"}
    if random.random() < 0.8:
        requests = _resources(random, cpus / 4, memory / 4)
        if random.random() < 0.1:
            requests |= {"kubernetes.io/batch-cpu": "1000", "kubernetes.io/mid-cpu": "500"}
        found["resources"] = {"requests": requests}
    return found


def _metric(random: Random, pods: list[Object], cpus: int, memory: int) -> Object:
    age = random.choice((0, 1, 30, 59, 60, 61, 120, 300, 899, 900, 901, 3600, 86400))
    if random.random() < 0.6:
        age = random.randint(0, 60)
    metric: Object = {"updateTime": _time(NOW - timedelta(seconds=age))}
    if random.random() < 0.02:
        del metric["updateTime"]
    system = _usage(random, cpus / 8, memory / 8)
    metric["nodeMetric"] = {"nodeUsage": _usage(random, cpus, memory), "systemUsage": system}
    if random.random() < 0.05:
        del metric["nodeMetric"]["nodeUsage"]
    measured = [pod for pod in pods if random.random() < 0.85]
    metric["podsMetric"] = [_measured(random, pod, cpus, memory) for pod in measured]
    if random.random() < 0.3:
        gone = {"metadata": {"name": "gone", "namespace": "ns"}}
        metric["podsMetric"].append(_measured(random, gone, cpus, memory))
    if random.random() < 0.2:
        metric["hostApplicationMetric"] = [
            {
                "name": "app",
                "usage": _usage(random, cpus / 8, memory / 8),
                "priority": random.choice(PRIORITIES),
                "qos": random.choice(QOS),
            }
        ]
    if random.random() < 0.85:
        reclaimable = {"resource": _usage(random, cpus, memory)}
        metric["prodReclaimableMetric"] = reclaimable
    if random.random() < 0.01 and metric["podsMetric"]:
        metric["podsMetric"][0]["podUsage"] = {"resources": {"cpu": "-1500m", "memory": "-4096"}}
    return metric


def _measured(random: Random, pod: Object, cpus: int, memory: int) -> Object:
    return {
        "name": pod["metadata"]["name"],
        "namespace": pod["metadata"]["namespace"],
        "podUsage": _usage(random, cpus / 6, memory / 6),
        "priority": random.choice(PRIORITIES[:5]),
    }


def _topology(random: Random, number: int, cpus: int, memory: int) -> Object:
    def resource(name: str, amount: str) -> Object:
        return {"name": name, "capacity": amount, "allocatable": amount, "available": amount}

    # Halves, quarters: what Koordinator divides equally, sizes divide equally then as well.
    size = memory // number
    zones = [
        {
            "name": f"node-{place}",
            "type": "Node",
            "resources": [
                resource("cpu", f"{cpus * 1000 // number}m"),
                resource("memory", str(size)),
            ],
        }
        for place in range(number)
    ]
    if random.random() < 0.1:
        zones[0]["resources"] = [resource("cpu", f"{cpus * 100}m"), resource("memory", str(size))]
    return {"metadata": {"name": "n"}, "topologyPolicies": ["None"], "zones": zones}

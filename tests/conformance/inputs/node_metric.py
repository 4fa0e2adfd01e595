"""Inputs for a NodeMetric's status: samples, and the pods, applications and GPUs they are about."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

Object = dict[str, Any]

NUMBER = 300
NOW = 1_795_168_800
GIB = 1 << 30
GPUS = ({"id": "GPU-0", "minor": 0}, {"id": "GPU-1", "minor": 1})
GPU_MEMORY = 16 * GIB
_CACHED = "usageWithPageCache"


def one(random: Random) -> Object:
    """One input; values are such that 32 bits hold them."""
    policy, pods, apps = _policy(random), _pods(random), _applications(random)
    gpus = list(GPUS[: random.choice((0, 0, 1, 2))])
    step = random.choice((20, 60, 60))
    names = [((), "node"), ((), "sys")]
    names += [((pod["metadata"]["uid"],), "pod") for pod in pods]
    names += [((app["name"],), "host_application") for app in apps]
    cached = random.random() < 0.85
    series = []
    for labels, who in names:
        span = random.choice((0, 100, 200, 600, 1000, 2000))
        series += _of(random, who, labels, span, step, cached)
        for gpu in gpus if who in ("node", "pod") else ():
            place = [*labels, str(gpu["minor"]), gpu["id"]]
            series += _of_gpu(random, who, place, span, step)
    found: Object = {
        "now": NOW,
        "metric": {"spec": {"metricCollectPolicy": policy}},
        "pods": pods,
        "slo": {"spec": {"hostApplications": apps}},
        "gpus": [{**gpu, "memory-total": GPU_MEMORY} for gpu in gpus],
        "series": [each for each in series if random.random() > 0.02],
    }
    if random.random() < 0.5:
        found["reclaimable"] = {"cpu": f"{random.randint(0, 9000)}m", "memory": "3Gi"}
    return found


def _policy(random: Random) -> Object:
    ways = {
        "aggregateDurationSeconds": (300, 60, 30, 600, 900),
        "reportIntervalSeconds": (60,),
        "nodeMemoryCollectPolicy": ("usageWithoutPageCache", _CACHED, _CACHED),
    }
    found: Object = {
        name: random.choice(each) for name, each in ways.items() if random.random() < 0.7
    }
    if random.random() < 0.6:
        windows = random.sample(("1m", "5m0s", "10m", "30m", "90s"), random.randint(0, 3))
        found["nodeAggregatePolicy"] = {"durations": windows}
    return found


def _pods(random: Random) -> list[Object]:
    found = []
    for place in range(random.randint(0, 3)):
        labels = {}
        if random.random() < 0.7:
            labels["koordinator.sh/qosClass"] = random.choice(("LSR", "LS", "BE", "SYSTEM", "no"))
        if random.random() < 0.2:
            labels["koordinator.sh/priority-class"] = random.choice(("koord-mid", "koord-batch"))
        spec: Object = {"containers": [{"name": "c"}]}
        if random.random() < 0.7:
            spec["priority"] = random.choice((9500, 7500, 5500, 3500, 0, 2_000_000_000))
        meta = {"name": f"p{place}", "namespace": random.choice("ab"), "uid": f"u{place}"}
        kube = random.choice(("Guaranteed", "Burstable", "BestEffort"))
        found.append(
            {"metadata": {**meta, "labels": labels}, "spec": spec, "status": {"qosClass": kube}}
        )
    return found


def _applications(random: Random) -> list[Object]:
    found = []
    for name in random.sample(("nginx", "cron", "agent"), random.choice((0, 0, 1, 2))):
        app = {"name": name, "qos": random.choice(("LS", "BE", "SYSTEM"))}
        if random.random() < 0.6:
            app["priority"] = random.choice(("koord-prod", "koord-batch"))
        found.append(app)
    return found


def _of(
    random: Random, who: str, labels: tuple[str, ...], span: int, step: int, cached: bool
) -> list[Object]:
    cpus = [random.randint(0, 4096) / 512 for _ in range(_VALUES)]
    sizes = [random.randint(0, 1 << 20) * random.choice((1, 4096)) for _ in range(_VALUES)]
    kinds = {"cpu_usage": cpus, "memory_usage": sizes}
    found = [
        {"kind": f"{who}_{kind}", "labels": list(labels), **_curve(random, span, step, values)}
        for kind, values in kinds.items()
    ]
    if cached and who != "sys":
        more = [one if one is None else one + 4096 for one in found[-1]["values"]]
        found.append({**found[-1], "kind": f"{who}_memory_usage_with_page_cache", "values": more})
    return found


def _of_gpu(random: Random, who: str, labels: list[str], span: int, step: int) -> list[Object]:
    cores = [random.randint(0, 100) for _ in range(_VALUES)]
    sizes = [random.randint(0, 1 << 14) << 20 for _ in range(_VALUES)]
    return [
        {"kind": f"{who}_gpu_{kind}", "labels": labels, **_curve(random, span, step, values)}
        for kind, values in (("core_usage", cores), ("memory_usage", sizes))
    ]


_VALUES = 8


def _curve(random: Random, span: int, step: int, values: list[Any]) -> Object:
    """So long up to now, with gaps."""
    gap = random.choice((0, 0, 0, 0.3))
    drawn = [random.choice(values) for _ in range(span // step + 1)]
    kept = [None if random.random() < gap else value for value in drawn]
    return {"from": NOW - span // step * step, "step": step, "values": kept}


def without_page_cache(given: Object) -> None:
    """Where memory with page cache is not measured, it is told without."""
    policy = given["metric"]["spec"]["metricCollectPolicy"]
    if policy.get("nodeMemoryCollectPolicy") != _CACHED:
        return
    there = [(one["kind"], one["labels"]) for one in given["series"]]
    for one in list(given["series"]):
        kind = f"{one['kind']}_with_page_cache"
        if one["kind"] in _MEASURED and (kind, one["labels"]) not in there:
            given["series"].append({**one, "kind": kind})


_MEASURED = ("node_memory_usage", "pod_memory_usage", "host_application_memory_usage")

DECISIONS: dict[str, Callable[[Object], None]] = {"without page cache": without_page_cache}

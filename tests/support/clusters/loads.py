"""Random clusters whose nodes report what they use, for LoadAwareScheduling."""

from __future__ import annotations

from random import Random
from typing import Any

from koord_model.times import rfc3339

NOW = 1_767_225_600
"""When all of it is, in seconds since the epoch."""
DOMAIN = "scheduling.koordinator.sh"
GIB = 1 << 30
AGGREGATIONS = ["avg", "p50", "p90", "p95", "p99"]
OTHER = "example.com/bandwidth"


WRONG: list[dict[str, Any]] = [
    {"nodeMetricExpirationSeconds": 0},
    {"resourceWeights": {"cpu": 0}},
    {"resourceWeights": {"cpu": 101}},
    {"resourceWeights": {"example.com/unknown": 1}},
    {"dominantResourceWeight": -1},
    {"dominantResourceWeight": 101},
    {"usageThresholds": {"cpu": 101}},
    {"usageThresholds": {"memory": -1}},
    {"prodUsageThresholds": {"cpu": 101}},
    {"prodUsageThresholds": {"cpu": -1}},
    {"estimatedScalingFactors": {"cpu": 0}},
    {"estimatedScalingFactors": {"cpu": 101}},
    {"estimator": "ownEstimator"},
    {"aggregated": {"usageThresholds": {"cpu": 101}}},
    {"aggregated": {"usageAggregationType": "p75"}},
    {"aggregated": {"scoreAggregationType": "max"}},
    {"aggregated": {"usageAggregatedDuration": "-5m"}},
    {"aggregated": {"scoreAggregatedDuration": "soon"}},
]


def random_load_cluster(rng: Random) -> dict[str, Any]:
    """``args``, ``nodes``, ``metrics``, ``assigned`` pods, and ``pods`` that wait."""
    names = [f"n{number}" for number in range(rng.randint(1, 3))]
    assigned = [
        random_assigned(rng, number, rng.choice(names)) for number in range(rng.randint(0, 5))
    ]
    return {
        "now": NOW,
        "args": random_load_args(rng),
        "nodes": [random_load_node(rng, name) for name in names],
        "metrics": [random_metric(rng, name, assigned) for name in names if rng.random() < 0.9],
        "assigned": assigned,
        "pods": [random_load_pod(rng, f"w{number}") for number in range(2)],
    }


def random_load_args(rng: Random) -> dict[str, Any]:
    """Arguments, a few of which are not valid."""
    found: dict[str, Any] = {}
    resources = ["cpu", "memory", *([OTHER] if rng.random() < 0.2 else [])]

    def maybe(name: str, value: Any, chance: float = 0.3) -> None:
        if rng.random() < chance:
            found[name] = value

    def per_cent(*choices: int) -> dict[str, int]:
        return {one: rng.choice(choices) for one in resources if rng.random() < 0.8}

    maybe("filterExpiredNodeMetrics", rng.random() < 0.5)
    maybe("nodeMetricExpirationSeconds", rng.choice([60, 180, 300]))
    maybe("enableScheduleWhenNodeMetricsExpired", rng.random() < 0.6)
    maybe("resourceWeights", {one: rng.randint(1, 100) for one in resources if rng.random() < 0.7})
    maybe("dominantResourceWeight", rng.choice([0, 1, 7, 100]))
    maybe("usageThresholds", per_cent(0, 30, 50, 65, 80, 100), 0.6)
    maybe("prodUsageThresholds", per_cent(0, 20, 40, 60))
    maybe("prodUsageIncludeSys", True)
    maybe("scoreAccordingProdUsage", rng.random() < 0.7)
    maybe("estimatedScalingFactors", {one: rng.choice([1, 33, 50, 100]) for one in resources})
    maybe("estimatedSecondsAfterPodScheduled", rng.choice([0, 30, 120, 600]))
    maybe("estimatedSecondsAfterInitialized", rng.choice([0, 30, 120, 600]))
    maybe("allowCustomizeEstimation", True, 0.5)
    maybe("supportedResources", [OTHER], 0.1)
    if rng.random() < 0.4:
        found["aggregated"] = _aggregated(rng, per_cent(0, 30, 50, 65, 80))
    if OTHER in found.get("resourceWeights", {}):
        found.setdefault("estimatedScalingFactors", {})[OTHER] = 50
    return found | rng.choice(WRONG) if rng.random() < 0.05 else found


def _aggregated(rng: Random, thresholds: dict[str, int]) -> dict[str, Any]:
    found: dict[str, Any] = {"usageThresholds": thresholds} if rng.random() < 0.8 else {}
    for what in ("usage", "score"):
        if rng.random() < 0.8:
            found[f"{what}AggregationType"] = rng.choice(AGGREGATIONS)
        if rng.random() < 0.6:
            found[f"{what}AggregatedDuration"] = rng.choice(["5m", "10m0s", "30m", "0s"])
    return found


def random_load_node(rng: Random, name: str) -> dict[str, Any]:
    """A Node; some are amplified, some have their own thresholds."""
    cpu, memory = rng.choice([4, 8, 10]), rng.choice([16, 32])
    allocatable = {"cpu": str(cpu), "memory": f"{memory}Gi", "pods": "110"}
    if rng.random() < 0.2:
        allocatable[OTHER] = rng.choice(["0", "100", "1k"])
    annotations = {}
    if rng.random() < 0.2:
        raw = rng.choice(['{"cpu":"3"}', '{"cpu":"2500m","memory":"8Gi"}', "{}", "null", "cpu"])
        annotations["node.koordinator.sh/raw-allocatable"] = raw
    if rng.random() < 0.3:
        annotations[f"{DOMAIN}/usage-thresholds"] = rng.choice(
            [
                '{"usageThresholds":{"cpu":40,"memory":50}}',
                '{"usageThresholds":{"cpu":0}}',
                '{"prodUsageThresholds":{"cpu":25}}',
                '{"prodUsageThresholds":{"memory":0}}',
                '{"aggregatedUsage":{"usageThresholds":{"cpu":45},"usageAggregationType":"p95"}}',
                (
                    '{"aggregatedUsage":{"usageThresholds":{"cpu":45,"memory":60},'
                    '"usageAggregationType":"p50","usageAggregatedDuration":"10m"}}'
                ),
                '{"aggregatedUsage":{"usageThresholds":{"cpu":1}},"usageThresholds":{"cpu":90}}',
                '{"usageThresholds":"none"}',
                "{}",
            ]
        )
    metadata = {"name": name, **({"annotations": annotations} if annotations else {})}
    return {"metadata": metadata, "status": {"allocatable": allocatable}}


def random_usage(rng: Random, cpu: int, memory: int) -> dict[str, Any]:
    """So many millicores and GiB at most."""
    found = {
        "cpu": rng.choice([f"{rng.randint(0, cpu)}m", str(rng.randint(0, cpu) / 1000)]),
        "memory": rng.choice([f"{rng.randint(0, memory * 10) * 100}Mi", str(rng.randint(0, GIB))]),
    }
    if rng.random() < 0.1:
        found[OTHER] = str(rng.randint(0, 100))
    return {"resources": found}


def random_metric(rng: Random, name: str, assigned: list[dict[str, Any]]) -> dict[str, Any]:
    """The NodeMetric of a node; it reports some of its pods."""
    status: dict[str, Any] = {}
    if rng.random() < 0.95:
        status["updateTime"] = rfc3339(NOW - rng.choice([1, 10, 59, 60, 61, 100, 180, 250, 400]))
    if rng.random() < 0.95:
        info = {"nodeUsage": random_usage(rng, 8000, 20)}
        if rng.random() < 0.7:
            info["systemUsage"] = random_usage(rng, 500, 2)
        if rng.random() < 0.6:
            windows = rng.sample(["5m0s", "10m0s", "30m0s", "0s"], rng.randint(1, 3))
            info["aggregatedNodeUsages"] = [_window(rng, one) for one in windows]  # type: ignore[assignment]
        status["nodeMetric"] = info
    pods = [one["metadata"]["name"] for one in assigned if one["spec"]["nodeName"] == name]
    reported = [one for one in [*pods, "gone"] if rng.random() < 0.6]
    status["podsMetric"] = [_pod_metric(rng, one) for one in reported]
    spec = {"metricCollectPolicy": {"reportIntervalSeconds": rng.choice([10, 30, 120])}}
    some = {"spec": spec} if rng.random() < 0.5 else {}
    return {"metadata": {"name": name}, **some, "status": status}


def _window(rng: Random, duration: str) -> dict[str, Any]:
    aggregations = rng.sample(AGGREGATIONS, rng.randint(0, 5))
    usage = {one: random_usage(rng, 8000, 20) if rng.random() < 0.9 else {} for one in aggregations}
    return {"duration": duration, "usage": usage}


def _pod_metric(rng: Random, name: str) -> dict[str, Any]:
    usage = random_usage(rng, 2000, 4) if rng.random() < 0.9 else {}
    priority = rng.choice(["koord-prod", "koord-prod", "koord-batch", ""])
    some = {"priority": priority} if priority else {}
    return {"namespace": "d", "name": name, "podUsage": usage, **some}


def random_load_pod(rng: Random, name: str) -> dict[str, Any]:
    """A pod that waits."""
    metadata: dict[str, Any] = {"name": name, "namespace": "d"}
    annotations = {}
    if rng.random() < 0.2:
        annotations[f"{DOMAIN}/load-estimated-scaling-factors"] = rng.choice(
            ['{"cpu":10}', '{"cpu":150,"memory":90}', '{"cpu":0}', '{"cpu":"1"}', "{}", "", "[]"]
        )
    for what in ("pod-scheduled", "initialized"):
        if rng.random() < 0.2:
            seconds = rng.choice(["0", "90", "500", "-1", "+7", "soon", ""])
            annotations[f"{DOMAIN}/load-estimated-seconds-after-{what}"] = seconds
    if annotations:
        metadata["annotations"] = annotations
    labels = {}
    if rng.random() < 0.3:
        labels["koordinator.sh/priority-class"] = rng.choice(
            ["koord-prod", "koord-mid", "koord-batch", "koord-free", "other"]
        )
    if rng.random() < 0.2:
        labels["koordinator.sh/qosClass"] = rng.choice(["LS", "LSR", "BE", "other"])
    if labels:
        metadata["labels"] = labels
    if rng.random() < 0.1:
        metadata["ownerReferences"] = [_owner(rng.choice(["DaemonSet", "ReplicaSet"]))]
    spec: dict[str, Any] = {"containers": [_container(rng) for _ in range(rng.choice([1, 1, 2]))]}
    if rng.random() < 0.2:
        always = {"restartPolicy": "Always"} if rng.random() < 0.5 else {}
        spec["initContainers"] = [{**_container(rng), **always}]
    if rng.random() < 0.1:
        spec["resources"] = {rng.choice(["requests", "limits"]): {"cpu": "700m", "memory": "1Gi"}}
    if rng.random() < 0.1:
        spec["overhead"] = {"cpu": "50m", "memory": "100Mi"}
    if rng.random() < 0.4:
        spec["priority"] = rng.choice([9500, 7000, 5999, 3000, 0])
    return {"metadata": metadata, "spec": spec}


def _owner(kind: str) -> dict[str, Any]:
    return {"apiVersion": "apps/v1", "kind": kind, "name": "a", "uid": "1", "controller": True}


def _container(rng: Random) -> dict[str, Any]:
    prefix = rng.choice(["", "", "", "kubernetes.io/batch-", "kubernetes.io/mid-"])
    cpu = ["100m", "1", "1500m", "3"] if not prefix else ["100", "1000", "2500"]
    choices = {f"{prefix}cpu": cpu, f"{prefix}memory": ["100Mi", "1Gi", "3G", "1.5Gi"]}
    if rng.random() < 0.1:
        choices[OTHER] = ["10", "70"]

    def some() -> dict[str, str]:
        return {name: rng.choice(values) for name, values in choices.items() if rng.random() < 0.7}

    asked = {one: some() for one in ("requests", "limits") if rng.random() < 0.7}
    return {"name": f"c{rng.randrange(1000)}", "resources": asked}


def random_assigned(rng: Random, number: int, node: str) -> dict[str, Any]:
    """A pod that has a node; its conditions say since when, or its creation does."""
    pod = random_load_pod(rng, f"p{number}")
    pod["spec"]["nodeName"] = node

    def ago() -> str:
        return rfc3339(NOW - rng.choice([0, 5, 30, 59, 60, 70, 119, 121, 200, 310, 3600]))

    conditions = [
        {"type": one, "status": rng.choice(["True", "True", "False"]), "lastTransitionTime": ago()}
        for one in ("PodScheduled", "Initialized")
        if rng.random() < 0.85
    ]
    pod["metadata"]["creationTimestamp"] = rfc3339(NOW)
    return {**pod, "status": {"conditions": conditions}}

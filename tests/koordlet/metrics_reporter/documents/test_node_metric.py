from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from koord_model.node_info import GPUs, NodeMemoryInfo, NumaNode, SchedulableDevice
from koord_model.node_slo import HostApplication
from koord_model.pod import Container, Pod
from koord_model.qos import QoSClass
from koordlet.metric_cache.core.interface import AggregatedSeries, Aggregation, TimeWindow
from koordlet.metric_cache.core.samples import Sample, Series
from koordlet.metric_cache.ring_cache import RingCache
from koordlet.metrics_reporter.documents.metric_policy import MemoryPolicy, MetricCollectPolicy
from koordlet.metrics_reporter.documents.node_metric import NodeMetricInputs, build, merge_patch
from koordlet.qos_manager.eviction.plugins.core.answers import PluginCondition
from koordlet.states_informer.state.pod_inventory import Demand, PodRecord

from tests.support.merge_patch import merged
from tests.support.observed import DictionaryCache

NOW = 1_795_168_800.0
GIB = 1 << 30
NOTHING = NodeMetricInputs()
USUAL = MetricCollectPolicy()
Labels = tuple[str, ...]


class Samples(DictionaryCache):
    """Counts what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def put(self, kind: str, value: float, *labels: str, span: float = 1800.0) -> None:
        """The value each ten seconds for so long."""
        series = Series(kind, labels)
        self.kept.pop(series, None)
        for at in np.arange(NOW - span, NOW + 1, 10.0):
            self.append(float(at), [Sample(series, value)])

    def curve(self, kind: str, values: Sequence[float]) -> None:
        points = {NOW - 10.0 * age: value for age, value in enumerate(reversed(values))}
        self.kept[Series(kind)] = points

    def aggregate(
        self,
        kind: str,
        window: TimeWindow,
        aggregations: Sequence[Aggregation],
        labels: Mapping[str, str] | None = None,
    ) -> AggregatedSeries:
        assert not labels
        self.asked += 1
        return super().aggregate(kind, window, aggregations, labels)


@pytest.fixture
def samples() -> Samples:
    kept = Samples()
    kept.put("node_cpu_usage", 1.5)
    kept.put("node_memory_usage", 2 * GIB)
    kept.put("sys_cpu_usage", 0.25)
    kept.put("sys_memory_usage", 512 << 20)
    return kept


def used(cpu: str, memory: str) -> dict[str, Any]:
    return {"resources": {"cpu": cpu, "memory": memory}}


def status_of(
    samples: Samples, known: NodeMetricInputs = NOTHING, policy: MetricCollectPolicy = USUAL
) -> Any:
    built = build(samples, NOW, policy, known)
    assert built.status is not None
    json.dumps(built.status)
    return built.status


def record(name: str, uid: str, namespace: str = "ns", **more: Any) -> PodRecord:
    labels = more.pop("labels", {})
    parent = more.pop("parent", "/kubepods/pod1")
    return PodRecord(
        Pod(name, namespace, uid, labels=labels, cgroup_parent=parent), demand=Demand(**more)
    )


def test_the_node_and_the_system(samples: Samples) -> None:
    status = status_of(samples)
    assert status["updateTime"] == "2026-11-20T10:00:00Z"
    node = status["nodeMetric"]
    assert node["nodeUsage"] == used("1500m", "2Gi")
    assert node["systemUsage"] == used("250m", "512Mi")
    assert [one["duration"] for one in node["aggregatedNodeUsages"]] == ["5m0s", "10m0s", "30m0s"]
    for one in node["aggregatedNodeUsages"]:
        names = {"avg", "p50", "p90", "p95", "p99"}
        assert one["usage"] == dict.fromkeys(names, used("1500m", "2Gi"))
    assert len(node["aggregatedSystemUsages"]) == 3
    assert status["prodReclaimableMetric"] == {"resource": {}}
    assert not {"podsMetric", "hostApplicationMetric", "prodPeakMetric"} & status.keys()
    assert "numaUsages" not in node


def test_each_aggregation_is_of_its_window(samples: Samples) -> None:
    samples.curve("node_cpu_usage", [9.0] * 30 + list(range(1, 31)))
    policy = MetricCollectPolicy(aggregate=60, durations=(290.0, 590.0))
    node = status_of(samples, policy=policy)["nodeMetric"]
    assert node["nodeUsage"]["resources"]["cpu"] == "27"
    five, ten = node["aggregatedNodeUsages"]
    cpu = {name: one["resources"]["cpu"] for name, one in five["usage"].items()}
    assert cpu == {"avg": "15500m", "p50": "15", "p90": "27", "p95": "28", "p99": "29"}
    assert five["duration"] == "4m50s"
    assert ten["usage"]["avg"]["resources"]["cpu"] == "12250m"


def test_what_has_not_run_for_half_of_a_window_is_blank(samples: Samples) -> None:
    for kind in ("node_cpu_usage", "node_memory_usage"):
        samples.put(kind, 1.0, span=300.0)
    node = status_of(samples)["nodeMetric"]
    five, ten, thirty = node["aggregatedNodeUsages"]
    assert five["usage"]["p95"]
    assert ten["usage"]["p95"]
    blank: Any = {name: {} for name in ("avg", "p50", "p90", "p95", "p99")}
    assert thirty == {"duration": "30m0s", "usage": blank}
    assert node["aggregatedSystemUsages"][2]["usage"]["p95"]


def test_no_status_before_the_first_samples_of_the_node_and_its_system() -> None:
    kept = Samples()
    kept.put("pod_cpu_usage", 1.0, "u")
    kinds = ("node_cpu_usage", "node_memory_usage", "sys_cpu_usage", "sys_memory_usage")
    for kind in kinds:
        assert build(kept, NOW, MetricCollectPolicy(), NodeMetricInputs()).status is None
        kept.put(kind, 1.0)
    assert build(kept, NOW, MetricCollectPolicy(), NodeMetricInputs()).status is not None


def test_pods_by_name_without_those_that_were_not_measured(samples: Samples) -> None:
    for uid, cpu in (("u1", 0.1), ("u2", 2.0), ("u3", 1.0), ("u5", 1.0)):
        samples.put("pod_cpu_usage", cpu, uid)
        samples.put("pod_memory_usage", 1000.0, uid)
    samples.put("pod_cpu_usage", 1.0, "u4")
    pods = (
        record("b", "u2", labels={"koordinator.sh/qosClass": "BE"}, priority=5500),
        record("a", "u1", parent="/kubepods/burstable/podu1"),
        record("c", "u3", "early", parent="/kubepods.slice/kubepods-besteffort.slice/x"),
        record("no-memory", "u4"),
        record("no-samples", "u6"),
        PodRecord(Pod("reported", "ns", "u5", {"koordinator.sh/priority-class": "koord-mid"})),
    )
    reported = status_of(samples, NodeMetricInputs(pods=pods))["podsMetric"]
    assert [
        (one["namespace"], one["name"], one.get("priority"), one["qos"]) for one in reported
    ] == [
        ("early", "c", "koord-batch", "BE"),
        ("ns", "a", "koord-prod", "LS"),
        ("ns", "b", "koord-batch", "BE"),
        ("ns", "reported", "koord-mid", "LSR"),
    ]
    assert reported[1]["podUsage"] == used("100m", "1k")


def test_conditions_of_plugins_come_and_go_with_the_report(samples: Samples) -> None:
    hot = ("numa", PluginCondition("Hot", ("NoSchedule",)))
    cold = ("numa", PluginCondition("Cold", ("reclaimed_cores/NoSchedule",), on_cnr=True))
    with_both = status_of(samples, NodeMetricInputs(conditions=(cold, hot)))
    assert with_both["extensions"] == {
        "pykoord": {
            "conditions": [
                {
                    "name": "Cold",
                    "plugin": "numa",
                    "effects": ["reclaimed_cores/NoSchedule"],
                    "on": "cnr",
                },
                {"name": "Hot", "plugin": "numa", "effects": ["NoSchedule"]},
            ]
        }
    }
    without = status_of(samples)
    assert merged({"status": with_both}, merge_patch(without)) == {"status": without}


def test_containers_of_a_pod_with_several(samples: Samples) -> None:
    for uid in ("u1", "u2"):
        samples.put("pod_cpu_usage", 1.0, uid)
        samples.put("pod_memory_usage", 3000.0, uid)
    for name, cpu in (("c1", 0.25), ("c2", 0.75), ("ended", 9.0)):
        samples.put("container_cpu_usage", cpu, "u1", name)
        samples.put("container_memory_usage", 1000.0, "u1", name)
    samples.put("container_cpu_usage", 1.0, "u1", "no-memory-yet")
    samples.put("container_cpu_sched_wait", 40.0, "u1", "c1")
    samples.put("container_cpu_sched_wait", 90.0, "u1", "ended")
    several = record("several", "u1")
    ids = {"c1": "web", "c2": "sidecar", "no-memory-yet": "late"}
    containers = {key: Container(several.pod, name, key) for key, name in ids.items()}
    alone = record("alone", "u2")
    pods = (
        replace(several, containers=containers),
        replace(alone, containers={"c3": Container(alone.pod, "web", "c3")}),
    )
    reported = {
        one["name"]: one for one in status_of(samples, NodeMetricInputs(pods=pods))["podsMetric"]
    }
    assert reported["several"]["extensions"] == {
        "pykoord": {
            "containers": {
                "sidecar": {"cpu": "750m", "memory": "1k"},
                "web": {"cpu": "250m", "memory": "1k"},
            },
            "delays": {"sched_wait": 90.0},
            "schedWaits": {"web": 40.0},
        }
    }
    # Its one container uses what the pod does.
    assert "extensions" not in reported["alone"]


def test_delays_are_those_of_the_worst_container(
    samples: Samples,
) -> None:
    samples.put("pod_cpu_usage", 1.0, "u1")
    samples.put("pod_memory_usage", 3000.0, "u1")
    samples.put("container_cpu_sched_wait", 40.0, "u1", "c1")
    samples.put("container_cpu_sched_wait", 90.0, "u1", "c2")
    samples.put("container_tcp_rtt", 0.25, "u1", "c2")
    samples.put("pod_cpu_throttled", 0.4, "u1")
    [reported] = status_of(samples, NodeMetricInputs(pods=(record("a", "u1"),)))["podsMetric"]
    delays = {"sched_wait": 90.0, "tcp_rtt": 0.25}
    assert reported["extensions"] == {"pykoord": {"delays": delays, "throttled": 0.4}}


def test_usage_of_the_last_minute_is_beside_that_of_the_window(samples: Samples) -> None:
    samples.put("pod_memory_usage", 3000.0, "u1")
    samples.put("container_memory_usage", 1000.0, "u1", "c1")
    samples.put("container_cpu_sched_wait", 40.0, "u1", "c1")
    for series in (Series("pod_cpu_usage", ("u1",)), Series("container_cpu_usage", ("u1", "c1"))):
        for age in range(0, 300, 10):
            samples.append(NOW - age, [Sample(series, 2.0 if age <= 60 else 0.5)])
    first = record("a", "u1")
    inside = {key: Container(first.pod, f"name-{key}", key) for key in ("c1", "c2")}
    pods = (replace(first, containers=inside),)
    status = status_of(samples, NodeMetricInputs(pods=pods, with_recent=True))
    assert status["extensions"] == {"pykoord": {"recentSeconds": 60.0}}
    [reported] = status["podsMetric"]
    recent = reported["extensions"]["pykoord"]["recent"]
    assert recent == {"": [2.0, 3000, 40.0], "name-c1": [2.0, 1000, 40.0]}
    assert reported["podUsage"]["resources"]["cpu"] != "2"


def test_numa_nodes_in_order_one_without_cpus_too(samples: Samples) -> None:
    for node in ("10", "2"):
        samples.put("node_numa_cpu_usage", 1.0, node)
    for node in ("10", "2", "3", "4"):
        samples.put("node_numa_memory_usage", GIB, node)
    samples.put("sys_numa_cpu_usage", 0.5, "2")
    samples.put("sys_numa_memory_usage", 0.0, "2")
    nodes = (NumaNode(2, GIB, cpus=(0,)), NumaNode(3, GIB), NumaNode(4, GIB, cpus=(1,)))
    numa = status_of(samples, NodeMetricInputs(memory=NodeMemoryInfo(GIB, nodes)))["nodeMetric"][
        "numaUsages"
    ]
    assert numa == [
        {"numaNodeID": 2, "nodeUsage": used("1", "1Gi"), "systemUsage": used("500m", "0")},
        {"numaNodeID": 3, "nodeUsage": used("0", "1Gi"), "systemUsage": {}},
        {"numaNodeID": 10, "nodeUsage": used("1", "1Gi"), "systemUsage": {}},
    ]


def test_host_applications_that_were_measured(samples: Samples) -> None:
    for name in ("nginx", "agent"):
        samples.put("host_application_cpu_usage", 0.5, name)
        samples.put("host_application_memory_usage", GIB, name)
    nginx = HostApplication("nginx", QoSClass.LS, "koord-prod")
    apps = (nginx, HostApplication("absent"), HostApplication("agent"))
    found = status_of(samples, NodeMetricInputs(host_applications=apps))["hostApplicationMetric"]
    usage = used("500m", "1Gi")
    assert found == [
        {"name": "agent", "usage": usage},
        {"name": "nginx", "usage": usage, "priority": "koord-prod", "qos": "LS"},
    ]


@pytest.mark.parametrize(
    ("policy", "kind"),
    [
        (MemoryPolicy.WITH_PAGE_CACHE, "_with_page_cache"),
        (MemoryPolicy.WITH_HOT_PAGE_CACHE, "_with_hot_page_usage"),
    ],
)
def test_memory_is_what_the_policy_wants_or_else_without_page_cache(
    samples: Samples, policy: MemoryPolicy, kind: str
) -> None:
    for uid in ("u1", "u2"):
        samples.put("pod_cpu_usage", 1.0, uid)
        samples.put("pod_memory_usage", GIB, uid)
    known = NodeMetricInputs(pods=(record("a", "u1"), record("b", "u2")))
    wanted = MetricCollectPolicy(memory=policy)
    built = build(samples, NOW, wanted, known)
    assert built.status is not None
    assert built.status["nodeMetric"]["nodeUsage"] == used("1500m", "2Gi")
    assert len(built.status["podsMetric"]) == 2
    [note] = built.notes
    assert note.startswith(f'NodeMetric nodeMemoryCollectPolicy is "{policy}", which is not')
    samples.put(f"node_memory_usage{kind}", 5 * GIB)
    samples.put(f"pod_memory_usage{kind}", 3 * GIB, "u2")
    built = build(samples, NOW, wanted, known)
    assert built.status is not None
    assert built.notes == ()
    node = built.status["nodeMetric"]
    assert node["nodeUsage"] == used("1500m", "5Gi")
    assert node["aggregatedNodeUsages"][0]["usage"]["p99"] == used("1500m", "5Gi")
    assert [one["podUsage"]["resources"]["memory"] for one in built.status["podsMetric"]] == [
        "1Gi",
        "3Gi",
    ]


def test_gpus_of_the_node_and_of_pods(samples: Samples) -> None:
    devices = tuple(
        SchedulableDevice(
            "gpu", f"GPU-{minor}", minor, {"koordinator.sh/gpu-memory": 8 * GIB}, minor == 0
        )
        for minor in (0, 1)
    )
    for minor in ("0", "1"):
        samples.put("node_gpu_core_usage", 60.0, minor, f"GPU-{minor}")
        samples.put("node_gpu_memory_usage", 2 * GIB, minor, f"GPU-{minor}")
    samples.put("pod_gpu_core_usage", 60.0, "u", "1", "GPU-1")
    samples.put("pod_gpu_memory_usage", 1 * GIB, "u", "1", "GPU-1")
    samples.put("pod_cpu_usage", 1.0, "u")
    samples.put("pod_memory_usage", 1.0, "u")
    known = NodeMetricInputs(pods=(record("a", "u"),), gpus=GPUs(devices))
    status = status_of(samples, known)
    resources = {
        "koordinator.sh/gpu-core": "60",
        "koordinator.sh/gpu-memory": "2Gi",
        "koordinator.sh/gpu-memory-ratio": "25",
    }
    reported = status["nodeMetric"]["nodeUsage"]["devices"]
    assert reported == [
        {"type": "gpu", "id": "GPU-0", "minor": 0, "health": True, "resources": resources},
        {"type": "gpu", "id": "GPU-1", "minor": 1, "health": False, "resources": resources},
    ]
    aggregated = status["nodeMetric"]["aggregatedNodeUsages"][0]["usage"]
    assert aggregated["p90"]["devices"] == reported
    [device] = status["podsMetric"][0]["podUsage"]["devices"]
    assert device["id"] == "GPU-1"
    assert device["resources"]["koordinator.sh/gpu-memory-ratio"] == "12"
    assert "devices" not in status["nodeMetric"]["systemUsage"]


def test_predictions(samples: Samples) -> None:
    known = NodeMetricInputs(
        reclaimable={"cpu": 1500, "memory": GIB}, peak={"cpu": 4000, "memory": 3 << 20}
    )
    status = status_of(samples, known)
    assert status["prodReclaimableMetric"] == {"resource": used("1500m", "1Gi")}
    assert status["prodPeakMetric"] == {"resource": used("4", "3Mi")}


def test_each_kind_is_asked_for_once_a_window(samples: Samples) -> None:
    pods = tuple(record(f"p{number}", f"u{number}") for number in range(110))
    for one in pods:
        samples.put("pod_cpu_usage", 1.0, one.pod.uid, span=20)
        samples.put("pod_memory_usage", 1.0, one.pod.uid, span=20)
    assert len(status_of(samples, NodeMetricInputs(pods=pods))["podsMetric"]) == 110
    assert samples.asked <= 30


def test_the_real_cache_gives_the_same(samples: Samples) -> None:
    samples.curve("node_cpu_usage", [float(value % 7) for value in range(60)])
    for uid, cpu in (("u1", 0.5), ("u2", 2.0)):
        samples.put("pod_cpu_usage", cpu, uid, span=200.0)
        samples.put("pod_memory_usage", 3 << 20, uid, span=200.0)
    real = RingCache(None, 0, print)
    by_time: dict[float, list[Sample]] = {}
    for series, points in samples.kept.items():
        for at, value in points.items():
            by_time.setdefault(at, []).append(Sample(series, value))
    for at, found_then in sorted(by_time.items()):
        real.append(at, found_then)
    known = NodeMetricInputs(pods=(record("a", "u1"), record("b", "u2"), record("c", "u3")))
    built = build(real, NOW, USUAL, known)
    assert built.status is not None
    assert built == build(samples, NOW, USUAL, known)


def test_a_patch_leaves_nothing_of_an_older_status(samples: Samples) -> None:
    samples.put("pod_cpu_usage", 1.0, "u")
    samples.put("pod_memory_usage", 1.0, "u")
    samples.put("node_numa_cpu_usage", 1.0, "0")
    samples.put("node_numa_memory_usage", 1.0, "0")
    known = NodeMetricInputs(pods=(record("a", "u"),), reclaimable={"cpu": 1}, peak={"cpu": 1})
    older = status_of(samples, known)
    older["nodeMetric"]["nodeUsage"]["devices"] = [{"id": "gone"}]
    older["hostApplicationMetric"] = [{"name": "gone"}]
    bare = Samples()
    kinds = ("node_cpu_usage", "node_memory_usage", "sys_cpu_usage", "sys_memory_usage")
    bare.kept = {Series(kind): samples.kept[Series(kind)] for kind in kinds}
    newer = status_of(bare, policy=MetricCollectPolicy(durations=()))
    assert merged({"status": older}, merge_patch(newer)) == {"status": newer}
    assert merged({"status": newer}, merge_patch(older)) == {"status": older}

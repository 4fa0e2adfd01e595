"""Rules, pods and measurements for a node in memory."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from koord_host.knobs.layout import Layout
from koord_model import cpuset
from koord_model.keys import BATCH_CPU, BATCH_MEMORY, CPU, MEMORY
from koord_model.node_info import LocalStorage
from koord_model.qos import KubeQoS, QoSClass
from koordlet.qos_manager.core.strategy import PodView

from tests.support.node.kernel import DISKS
from tests.support.views import (
    AT,
    GIB,
    FakeHistory,
    FakeLatest,
    cpu_info,
    memory_info,
    pod_view,
    stats,
)

# ---- rules


def everything_on(
    policy: str = "cpuset", cpu_policy: str = "groupIdentity", **strategies: Mapping[str, Any]
) -> dict[str, Any]:
    """A NodeSLO that asks every strategy to work; ``strategies`` are settings of ours."""
    return {
        "resourceUsedThresholdWithBE": {
            "enable": True,
            "cpuSuppressThresholdPercent": 65,
            "cpuSuppressPolicy": policy,
            "cpuEvictBESatisfactionLowerPercent": 40,
            "cpuEvictBESatisfactionUpperPercent": 60,
            "cpuEvictThresholdPercent": 80,
            "memoryEvictThresholdPercent": 70,
            "cpuAllocatableEvictThresholdPercent": 110,
            "cpuAllocatableEvictLowerPercent": 100,
            "memoryAllocatableEvictThresholdPercent": 110,
            "memoryAllocatableEvictLowerPercent": 100,
            "evictEnabledPriorityThreshold": 5999,
            "allocatableEvictPriorityThreshold": 5999,
        },
        "cpuBurstStrategy": {"policy": "auto", "cfsQuotaBurstPercent": 120},
        "resourceQOSStrategy": {
            "policies": {"cpuPolicy": cpu_policy},
            "cgroupRoot": {
                "blkioQOS": {"enable": True, "blocks": [{"name": name} for name in DISKS]}
            },
            **{name: _class(*numbers) for name, numbers in _CLASSES.items()},
        },
        "systemStrategy": {
            "minFreeKbytesFactor": 100,
            "watermarkScaleFactor": 150,
            "memcgReapBackGround": 1,
            "schedGroupIdentityEnabled": 1,
            "schedIdleSaverWmark": 4000,
            "pageCacheLimitEnabled": 1,
        },
        "extensions": {
            "pykoord": {
                "strategies": {
                    "cpu_weight": {"services": [{"name": "all", "cores": 3}]},
                    "memory_qos": {"high_for_watermarks": True},
                    "memory_offload": {"policy": "integrated", "target_percent": 10},
                    **strategies,
                }
            }
        },
    }


_CLASSES = {"lsrClass": (2, 60), "lsClass": (2, 40), "beClass": (-1, 20)}


def _class(identity: int, percent: int) -> dict[str, Any]:
    io = {"readBPS": percent << 20, "writeIOPS": percent * 10, "ioWeightPercent": percent}
    return {
        "cpuQOS": {"enable": True, "groupIdentity": identity},
        "memoryQOS": {
            "enable": True,
            "minLimitPercent": percent,
            "lowLimitPercent": percent + 20,
            "throttlingPercent": 80,
            "wmarkRatio": 90,
            "priorityEnable": 1,
            "priority": 3,
            "oomKillGroup": 1,
            "pageCacheLimitPercent": 50,
            "pageCacheEnable": True,
        },
        "resctrlQOS": {"enable": True, "catRangeEndPercent": percent, "mbaPercent": percent},
        "blkioQOS": {
            "enable": True,
            "blocks": [{"name": name, "ioCfg": {**io, "readLatency": 2000}} for name in DISKS],
        },
    }


# ---- pods


def some_pods(
    layout: Layout, *classes: QoSClass, sizes: Sequence[int] = (2, 1, 4)
) -> list[PodView]:
    """A pod of each of these classes, in turn with one container, two, and without limits.

    LSE and LSR pods get CPUs of their own, from 0 on and from 8 on.
    """
    pods, own = [], {QoSClass.LSE: 0, QoSClass.LSR: 8}
    for number, qos in enumerate(classes):
        cpus = sizes[number % len(sizes)]
        given = ""
        if qos in own:
            cpus, first = 1 + number % 2, own[qos]
            given = cpuset.render(frozenset(range(first, first + cpus)))
            own[qos] = first + cpus
        pods.append(a_pod(layout, f"{qos.value.lower() or 'plain'}-{number}", qos, cpus, given))
    return pods


def a_pod(layout: Layout, name: str, qos: QoSClass, cpus: int = 2, own: str = "") -> PodView:
    """A pod whose limits are twice what it requests, LSE and LSR's the same."""
    milli, size = cpus * 1000, cpus * GIB
    keys = (BATCH_CPU, BATCH_MEMORY) if qos is QoSClass.BE else (CPU, MEMORY)
    factor = 1 if own else 2
    limits = dict(zip(keys, (milli, size), strict=True))
    requests = {key: value // factor for key, value in limits.items()}
    names = ("main",) if len(name) % 2 or own else ("main", "side")
    half = lambda amounts: {k: v // len(names) for k, v in amounts.items()}  # noqa: E731
    return pod_view(
        name,
        qos=qos,
        priority={QoSClass.BE: 5500, QoSClass.NONE: 9000}.get(qos, 9100),
        containers={one: (half(requests), half(limits)) for one in names},
        cpuset=own,
        layout=layout,
        labels={"koordinator.sh/eviction-enabled": "true"},
    )


# ---- measurements


@dataclass
class Measured:
    """What is measured; ``missing`` are kinds of which nothing is."""

    latest: FakeLatest = field(default_factory=lambda: FakeLatest({}))
    history: FakeHistory = field(default_factory=FakeHistory)


def measured(
    pods: Iterable[PodView],
    load: float,
    seed: int = 0,
    missing: Iterable[str] = (),
    at: float = AT,
) -> Measured:
    """A node of 16 CPUs and 64 GiB of which so much is used, 1.0 being all of it.

    What each pod has of it follows from the seed. ``missing`` are kinds that nobody
    measures, or "infos".
    """
    pods, rng, gone = list(pods), random.Random(seed), frozenset(missing)
    memory = random.Random(seed)
    infos = (cpu_info(16, 2, smt=False), memory_info(64 * GIB, 2), LocalStorage(DISKS))
    values: dict[tuple[str, ...], float] = {
        ("node_cpu_usage",): 16 * load,
        ("node_memory_usage",): 64 * GIB * load,
        ("node_memory_usage_with_page_cache",): 64 * GIB * min(load * 1.2, 1),
    }
    shares = [rng.random() for _ in pods]
    whole = sum(shares) * 1.1 or 1.0
    best_effort = 0.0
    for pod, share in zip(pods, shares, strict=True):
        cores, size = 16 * load * share / whole, 64 * GIB * load * share / whole
        best_effort += cores if pod.kube is KubeQoS.BEST_EFFORT else 0
        values[("pod_cpu_usage", pod.uid)] = cores
        values[("pod_memory_usage", pod.uid)] = size
        values[("pod_memory_usage_with_page_cache", pod.uid)] = size * 1.2
        values[("pod_cpu_throttled", pod.uid)] = rng.choice([0.0, 0.3])
        values[("pod_psi", pod.uid, "cpu", "avg10", "some")] = rng.choice([0.0, 5.0, 60.0])
        values[("pod_psi", pod.uid, "mem", "avg10", "some")] = rng.choice([0.0, 1.0, 60.0])
        for name in ("inactive_anon", "inactive_file", "page_cache", "file_mapped", "swap_free"):
            values[("pod_memory_stat", pod.uid, name)] = size * memory.choice([0.0, 0.1, 0.3])
        for name, rate in (("pgscan", 9.0), ("pgsteal", 8.0), ("workingset_activate", 0.0)):
            values[("pod_memory_reclaim", pod.uid, name)] = rate
        for one in pod.containers:
            key = pod.uid, one.container.id
            with_cache = size * 1.2 / len(pod.containers)
            values[("container_memory_usage_with_page_cache", *key)] = with_cache
            values[("container_cpu_usage", *key)] = cores / len(pod.containers)
            values[("container_memory_usage", *key)] = size / len(pod.containers)
            values[("container_cpu_throttled", *key)] = rng.choice([0.0, 0.0, 0.4])
            values[("container_psi", *key, "cpu", "avg10", "some")] = rng.choice([0.0, 40.0])
            values[("container_cpi", *key, "cycle")] = rng.choice([1e9, 4e9])
            values[("container_cpi", *key, "instruction")] = 1e9
    values[("node_be", "cpu", "usage")] = best_effort * 1000
    values[("node_be", "cpu", "request")] = 4000.0
    values[("node_be", "cpu", "real-limit")] = 1000.0 * rng.choice([2, 16])
    values[("be_memory_current",)] = 8 * GIB * load
    values[("qos_dying_cgroups", "BestEffort")] = memory.choice([0.0, 3000.0])
    for node in ("0", "1"):
        values[("node_numa_memory_free", node)] = 32 * GIB * (1 - load)
        values[("node_numa_memory_low_watermark", node)] = GIB / 8
        values[("node_numa_memory_inactive_file", node)] = GIB * load
    values = {key: value for key, value in values.items() if key[0] not in gone}
    series = {key: stats(value, points=30, seconds=60, until=at) for key, value in values.items()}
    known = () if "infos" in gone else infos
    return Measured(FakeLatest(values, *known), FakeHistory(series))

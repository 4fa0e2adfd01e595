"""The pods that run on the node, and what the kernel must hold for each: the table to extend.

A row is what the API server says of a pod, and what is then expected in files of cgroup v2.
Files that a row does not name are read and shown, but not judged. The node has CPUs 0-1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from koord_model import keys
from koord_model.qos import KubeQoS

from tests.support.pod_cases import MIB, PodCase, batch, own_cpus, qos

READ = (
    *("cpu.max", "cpu.max.burst", "cpu.weight", "cpu.idle"),
    *("cpuset.cpus", "cpuset.cpus.effective"),
    *("memory.max", "memory.high", "memory.low", "memory.min"),
)
"""What is read of each container's and each pod's group, where the kernel has it."""


def those(expected: Mapping[str, object], read: Mapping[str, str]) -> dict[str, str | None]:
    """What was read of the files that are expected to hold something."""
    return {name: read.get(name) for name in expected}


# 1024 shares are weight 39 to runc, 512 are 20, 102 are 4, and 2 are 1.
LSE = PodCase(
    "lse",
    KubeQoS.GUARANTEED,
    labels=qos("LSE"),
    annotations=own_cpus("0"),
    cpu_request=1000,
    cpu_limit=1000,
    memory_limit=64 * MIB,
    container={
        "cpu.max": "max 100000",
        "cpu.weight": "39",
        "cpuset.cpus": "0",
        "cpuset.cpus.effective": "0",
        "memory.max": str(64 * MIB),
    },
    # Its own CPUs are its limit: a quota could only throttle it.
    pod={"cpu.max": "max 100000", "cpu.weight": "39", "memory.max": str(64 * MIB)},
)
LS = PodCase(
    "ls",
    KubeQoS.BURSTABLE,
    labels=qos("LS"),
    cpu_request=100,
    memory_limit=64 * MIB,
    container={
        "cpu.max": "max 100000",
        "cpu.weight": "4",
        # LSE and LSR pods have CPU 0 for themselves; the rest is shared.
        "cpuset.cpus": "1",
        "cpuset.cpus.effective": "1",
        "memory.max": str(64 * MIB),
    },
    pod={"cpu.max": "max 100000", "cpu.weight": "4", "memory.max": str(64 * MIB)},
)
BE = PodCase(
    "be",
    KubeQoS.BEST_EFFORT,
    labels=qos("BE"),
    annotations=batch(main=(500, 128 * MIB)),
    container={
        "cpu.max": "50000 100000",
        "cpu.weight": "20",
        "cpuset.cpus.effective": "0-1",
        "memory.max": str(128 * MIB),
    },
    pod={
        "cpu.max": "50000 100000",
        "cpu.weight": "20",
        "memory.max": str(128 * MIB),
    },
)
PLAIN = PodCase(
    "plain",
    KubeQoS.BEST_EFFORT,
    container={
        "cpu.max": "max 100000",
        "cpu.weight": "1",
        "cpuset.cpus.effective": "0-1",
        "memory.max": "max",
    },
    pod={"cpu.max": "max 100000", "cpu.weight": "1", "memory.max": "max"},
)

PODS = (LSE, LS, BE, PLAIN)
"""Pods of this node. The other classes are in tests/integration: systemd treats them alike."""

SCORED = dataclasses.replace(
    BE,
    name="scored",
    annotations={**batch(main=(250, 64 * MIB)), keys.ANNOTATION_OOM_SCORE_ADJ: "777"},
    container={
        **BE.container,
        "cpu.max": "25000 100000",
        "cpu.weight": "10",
        "memory.max": str(64 * MIB),
    },
    pod={"cpu.max": "25000 100000", "cpu.weight": "10", "memory.max": str(64 * MIB)},
)
"""A batch pod with an OOM score, for a koordlet with every plugin."""

DOCKED = dataclasses.replace(
    BE,
    name="docked",
    container={
        name: value for name, value in BE.container.items() if not name.startswith("cpuset")
    },
)
"""A batch pod that docker runs. The node has more CPUs by then: nothing is said of them."""

NODE_RULES = """
kind: NodeSLO
spec:
  resourceQOSStrategy:
    policies: {cpuPolicy: groupIdentity}
    lsClass: {cpuQOS: {enable: true, groupIdentity: 2}}
    beClass: {cpuQOS: {enable: true, groupIdentity: -1}}
"""

UNHOOKED_BE = PLAIN.container
"""What a batch pod has where koordlet could not be asked: what the kubelet knows."""


@dataclasses.dataclass(frozen=True)
class Burner:
    """A pod whose one process burns a CPU, with so many bytes in its hands."""

    pod: PodCase
    memory: int
    command: tuple[str, ...]


def _burner(pod: PodCase, mib: int, first: str = ":") -> Burner:
    # It zeroes one buffer for ever.
    script = f"{first}; exec dd if=/dev/zero of=/dev/null bs={mib}M"
    return Burner(pod, mib * MIB, ("/bin/sh", "-c", script))


LIMITED = _burner(
    dataclasses.replace(BE, name="limited", annotations=batch(main=(300, 128 * MIB))),
    64,
    "dd if=/dev/zero of=/file bs=1M count=16",
)
"""It wants a whole CPU and may have 0.3; it has 16 MiB of page cache."""
FREE = _burner(dataclasses.replace(LS, name="free"), 32)
"""It may have all of the CPU that LSE and LSR pods have left."""
BURNERS = (LIMITED, FREE)

AVERAGE, NOW = "avg", "last"
Figure = tuple[str, str, str]
"""A kind, how its points become one number, and where the kernel says the same."""
POD_FIGURES: tuple[Figure, ...] = (
    ("container_cpu_usage", AVERAGE, "cpu.stat container"),
    ("container_cpu_usage", AVERAGE, "/proc/PID/stat"),
    ("pod_cpu_usage", AVERAGE, "cpu.stat pod"),
    ("container_cpu_throttled", AVERAGE, "cpu.stat container throttled"),
    ("pod_cpu_throttled", AVERAGE, "cpu.stat pod throttled"),
    ("container_memory_usage", NOW, "memory.stat container"),
    ("container_memory_usage", NOW, "/proc/PID/status"),
    ("pod_memory_usage", NOW, "memory.stat pod"),
    ("container_memory_usage_with_page_cache", NOW, "memory.stat container with files"),
    ("pod_memory_usage_with_page_cache", NOW, "memory.stat pod with files"),
)
NODE_FIGURES: tuple[Figure, ...] = (
    ("node_cpu_usage", AVERAGE, "/proc/stat"),
    ("node_memory_usage", NOW, "MemTotal - MemAvailable"),
    ("node_memory_usage_with_page_cache", NOW, "MemTotal - MemFree"),
)
TOLERANCE = 0.05
"""Of a figure; of ratios, that much. An emulated machine is not looked at twice at one time."""


def agree(kind: str, reported: float | None, counted: float | None) -> bool:
    """Whether koordlet's figure of a kind is the kernel's, or neither has one."""
    if reported is None or counted is None:
        return reported is counted
    return abs(reported - counted) <= TOLERANCE * (1 if "throttled" in kind else counted)


def figures(use: Mapping[str, Any]) -> Iterator[tuple[str, str, float | None, float | None]]:
    """Who has a figure, its kind, koordlet's and the kernel's, of all that was measured."""
    for who, reported in use["koordlet"].items():
        for kind, _, source in NODE_FIGURES if who == "node" else POD_FIGURES:
            yield who, kind, reported[kind], use["kernel"][who][source]


UNAVAILABLE = {
    "coldmemory": "no kidled",
    "gpu": "NVML cannot be started",
    # The unit and its drop-in let it ask; an emulated processor has none.
    "performance": "counters of cycles and instructions are not there",
    "resctrl": "resctrl is not mounted",
    "xpu": "/var/run/koordlet/xpu-device-infos",
}
"""Collectors that are switched on here and find nothing to collect from, and what they say."""

HOOK_TIMEOUT = "KOORDLET_HOOK_TIMEOUT=10"
"""An emulated machine beside other tests may be late: nobody's hook may be missed for that."""

KOORDLET_ENVIRONMENT = f"""\
{HOOK_TIMEOUT}
KOORDLET_RESOURCE_FORCE_UPDATE_SECONDS=5
KOORDLET_FEATURE_GATES=PSICollector=true,CPICollector=true,ColdPageCollector=true,\
ResctrlCollector=true,Accelerators=true,RDMADevices=true
KOORDLET_PSI_COLLECTOR_INTERVAL=2
KOORDLET_ENABLE_PAGECACHE_COLLECTOR=true
KOORDLET_ENABLE_RESCTRL_COLLECTOR=true
"""
"""As an administrator would who wants foreign changes undone within seconds, and to see all."""

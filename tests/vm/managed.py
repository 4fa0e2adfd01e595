"""What the QoS manager is asked for on the node: its pods, NodeSLOs and settings.

It has eight CPUs then, as many so that those which pods share have room for a burst on a
slow emulator. 0 and 7 belong to LSE pods, so best-effort pods have six at most.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from koord_model import keys
from koord_model.qos import KubeQoS
from koordlet.agent.feature_gates import DEFAULTS

from tests.support.pod_cases import MIB, PodCase, batch, qos
from tests.vm.expectations import HOOK_TIMEOUT

RULES, LISTED = "/etc/koordlet/node.yaml", "/etc/koordlet/pods.json"
DISK = "/dev/vda"
CPUS, SHARED = "0-7", "1-6"
GATES = ",".join(f"{gate}=true" for gate in (*DEFAULTS, "NUMABind", "ResourcePlugins"))
MALACHITE = "127.0.0.1:9002"

ENVIRONMENT = f"""\
{HOOK_TIMEOUT}
KOORDLET_NODESLO_FILE={RULES}
KOORDLET_POD_LIST_SOURCE={LISTED}
KOORDLET_KUBELET_SYNC_INTERVAL=1
KOORDLET_RUNTIME_HOOKS_RECONCILE_INTERVAL=2
KOORDLET_FEATURE_GATES={GATES}
KOORDLET_MALACHITE_ADDR={MALACHITE}
KOORDLET_PSI_COLLECTOR_INTERVAL=2
KOORDLET_ENABLE_PAGECACHE_COLLECTOR=true
KOORDLET_RESTORE_ON_STOP=true
"""
"""What is read again is so by default a minute later: too late to hide what nobody tells."""
SOON = 45
"""Seconds within which what the node was asked is done, on the slowest machine."""

SCALE = 25

BURSTING = PodCase(
    "bursting",
    KubeQoS.BURSTABLE,
    labels=qos("LS"),
    cpu_request=100,
    cpu_limit=200,
    memory_limit=128 * MIB,
)
"""It wants a whole CPU and has a limit of 0.2. It requests half of its memory limit."""
BURN = ("/bin/sh", "-c", "exec dd if=/dev/zero of=/dev/null bs=4M")
BASE, CEILING = 20_000, 60_000
"""Its quota, and three times that."""

ALLOCATED_CPUS, ALLOCATED_RESOURCE = "7", "example.com/quiet-cpus"
PORT, NEAR, FAR = 9000, "192.0.2.1", "192.0.2.2"
ALLOCATED = PodCase(
    "allocated",
    KubeQoS.GUARANTEED,
    labels=qos("LSE"),
    cpu_request=1000,
    cpu_limit=1000,
    memory_limit=64 * MIB,
)
"""Its CPUs are a resource plugin's. It answers to what is sent to its port with the same."""
ECHO = ("/bin/sh", "-c", f"exec busybox nc -ll -p {PORT} -e /bin/cat")

CACHED_BYTES = 32 * MIB
CACHED = PodCase(
    "cached", KubeQoS.BEST_EFFORT, labels=qos("BE"), annotations=batch(main=(500, 128 * MIB))
)
CACHE = ("/bin/sh", "-c", "dd if=/dev/zero of=/file bs=1M count=32 conv=fsync; exec sleep 100000")
"""It has page cache that it does not miss."""

LATE = dataclasses.replace(CACHED, name="late")
HOLD = (
    "/bin/sh",
    "-c",
    r"trap exit TERM; held=$(head -c 16777216 /dev/zero | tr '\0' x); sleep 100000 & wait",
)
"""It uses memory: a pod that frees next to nothing is not evicted. It ends at once."""
_PRIORITIES = {"cached": 5500, "late": 3000}

_OFF: dict[str, Any] = {
    "extensions": {
        "pykoord": {
            "strategies": {
                "memory_offload": {
                    "share_percent": 20,
                    "target_percent": 100,
                    "floor_percent": 0,
                    "floor_bytes": MIB,
                },
                "threshold_evict": {"thresholds": [{"signal": "memory.pressure", "percent": 99}]},
            }
        }
    }
}
_STRATEGIES = _OFF["extensions"]["pykoord"]["strategies"]
_SERVICE = {"name": "bursting", "selector": {"matchLabels": dict(BURSTING.labels)}}
_ON: dict[str, Any] = {
    "resourceUsedThresholdWithBE": {
        "enable": True,
        # Whatever runs: what they have in any case, a quarter of all CPUs.
        "cpuSuppressThresholdPercent": 1,
        "cpuSuppressMinPercent": 25,
        "cpuSuppressPolicy": "cpuset",
    },
    "cpuBurstStrategy": {"policy": "auto", "sharePoolThresholdPercent": 100},
    "systemStrategy": {"watermarkScaleFactor": SCALE},
    "resourceQOSStrategy": {
        "lsClass": {
            "memoryQOS": {
                "enable": True,
                "minLimitPercent": 25,
                "lowLimitPercent": 50,
                "throttlingPercent": 50,
            }
        },
        "beClass": {
            "memoryQOS": {"enable": True, "lowLimitPercent": 10, "wmarkRatio": 95},
            "blkioQOS": {
                "enable": True,
                "blocks": [
                    {
                        "name": DISK,
                        "type": "device",
                        "ioCfg": {"readBPS": 100 * MIB, "writeIOPS": 5000, "ioWeightPercent": 40},
                    }
                ],
            },
        },
        "cgroupRoot": {
            "blkioQOS": {
                "enable": True,
                "blocks": [{"name": DISK, "type": "device", "ioCfg": {"readLatency": 4000}}],
            }
        },
    },
    "extensions": {
        "pykoord": {
            "strategies": {
                **_STRATEGIES,
                "cpu_weight": {"services": [_SERVICE | {"cores": 4}]},
                # Not so long: what it bounds is bounded by the threshold.
                "pressure_suppress": {"services": [_SERVICE | {"targets": {"sched_wait": 1e6}}]},
            }
        }
    },
}


def slo(*changes: tuple[str, object], on: bool = True) -> str:
    """The NodeSLO, with changes of it: ("cpuBurstStrategy.policy", "none"). JSON is YAML."""
    spec = copy.deepcopy(_ON if on else _OFF)
    for path, value in changes:
        *above, last = path.split(".")
        place = spec
        for name in above:
            place = place[name]
        place[last] = value
    return json.dumps({"kind": "NodeSLO", "spec": spec})


QUOTA = ("resourceUsedThresholdWithBE.cpuSuppressPolicy", "cfsQuota")
FULL = ("cpuBurstStrategy.sharePoolThresholdPercent", 0)
UNPROTECTED = ("resourceQOSStrategy.lsClass.memoryQOS.enable", False)
EVICT = (
    "extensions.pykoord.strategies.threshold_evict",
    {
        "priority": 3999,
        "thresholds": [{"signal": "memory.available", "percent": 100, "hard": True}],
    },
)
"""Nobody's node is empty: what has no higher priority must go."""

QUARTER = "200000 100000"
"""The quota that is a quarter of all CPUs."""
PROTECTED = {
    "memory.min": str(16 * MIB),
    "memory.low": str(32 * MIB),
}
"""A quarter and a half of what ``BURSTING`` requests."""
HELD_BACK = {**PROTECTED, "memory.high": str(96 * MIB)}
"""Its container, besides: half-way between request and limit."""
WEIGHT = "157"
"""Of a pod with four cores, where ``BURSTING`` requests a tenth."""
LIMITED_IO = {"rbps": str(100 * MIB), "wbps": "max", "riops": "max", "wiops": "5000"}


def spec(case: PodCase) -> dict[str, Any]:
    """A pod's specification, as the API server has it."""
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    if case.cpu_request:
        requests["cpu"] = f"{case.cpu_request}m"
    if case.cpu_limit:
        limits["cpu"] = f"{case.cpu_limit}m"
    if case.memory_limit:
        requests["memory"] = str(case.memory_limit // 2)
        limits["memory"] = str(case.memory_limit)
    asked = _batch(case.annotations)
    if case is ALLOCATED:
        asked = {ALLOCATED_RESOURCE: "1"}
    resources = {"requests": requests | asked, "limits": limits | asked}
    container = {"name": "main", "resources": resources}
    return {"priority": _PRIORITIES.get(case.name, 9500), "containers": [container]}


def _batch(annotations: Mapping[str, str]) -> dict[str, str]:
    text = annotations.get(keys.ANNOTATION_EXTENDED_RESOURCE_SPEC)
    asked: dict[str, str] = json.loads(text)["containers"]["main"]["limits"] if text else {}
    return asked


WARNED = (
    r"nri not available yet|collector=rdma|took more than 100 ms of CPU|has not come back for 10 s"
)
"""Messages that come all the same: no NRI, no RDMA here, and the machine is an emulated one."""

"""Inputs for NodeSLOs: the ConfigMap's keys, a Node, and what its NodeSLO said before."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

Object = dict[str, Any]

NUMBER = 2000
BANDWIDTH = "node.koordinator.sh/network-bandwidth"
WRONG = -777
"""Out of the range of every number."""

_THRESHOLDS = {
    "cpuSuppressThresholdPercent": (0, 50, 65, 100),
    "cpuSuppressMinPercent": (0, 10),
    "memoryEvictThresholdPercent": (70, 80, 100),
    "memoryEvictLowerPercent": (10, 60, 65),
    "memoryAllocatableEvictThresholdPercent": (70, 100, 150),
    "memoryAllocatableEvictLowerPercent": (0, 50),
    "cpuEvictBESatisfactionUpperPercent": (50, 80),
    "cpuEvictBESatisfactionLowerPercent": (10, 40),
    "cpuEvictBEUsageThresholdPercent": (80, 90),
    "cpuEvictTimeWindowSeconds": (60, 120),
    "cpuEvictThresholdPercent": (80, 95),
    "cpuEvictLowerPercent": (50, 70),
    "cpuAllocatableEvictThresholdPercent": (70, 100, 150),
    "cpuAllocatableEvictLowerPercent": (0, 50),
    "evictEnabledPriorityThreshold": (5999, 7999),
    "allocatableEvictPriorityThreshold": (5999, 7999),
    "enable": (True, False),
    "cpuSuppressPolicy": ("cpuset", "cfsQuota"),
    "cpuEvictPolicy": ("evictByRealLimit", "evictByAllocatable"),
}
_BURST = {
    "policy": ("none", "cpuBurstOnly", "cfsQuotaBurstOnly", "auto"),
    "cpuBurstPercent": (1, 100, 1000, 10000),
    "cfsQuotaBurstPercent": (100, 300),
    "cfsQuotaBurstPeriodSeconds": (-1, 0, 600),
    "sharePoolThresholdPercent": (0, 50, 100),
}
_SYSTEM = {
    "minFreeKbytesFactor": (1, 100, 200),
    "watermarkScaleFactor": (1, 150, 400),
    "memcgReapBackGround": (0, 1),
    "schedGroupIdentityEnabled": (0, 1),
    "schedIdleSaverWmark": (0, 1000),
    "totalNetworkBandwidth": ("0", "10G", "1000M", "25000000000"),
}
_MEMORY = {
    "enable": (True, False),
    "minLimitPercent": (0, 100),
    "lowLimitPercent": (0, 50),
    "throttlingPercent": (0, 80),
    "wmarkRatio": (0, 95),
    "wmarkScalePermill": (1, 20),
    "wmarkMinAdj": (-25, 0, 50),
    "priorityEnable": (0, 1),
    "priority": (0, 12),
    "oomKillGroup": (0, 1),
}
_CPU = {
    "enable": (True, False),
    "groupIdentity": (-1, 0, 2),
    "schedIdle": (0, 1),
    "coreExpeller": (True, False),
}
_RESCTRL = {
    "enable": (True, False),
    "catRangeStartPercent": (0, 10),
    "catRangeEndPercent": (30, 100),
    "mbaPercent": (50, 100),
}
_NETWORK = {
    "enable": (True, False),
    "ingressRequest": (10, 20),
    "ingressLimit": (90, "20M"),
    "egressRequest": (10, 20),
    "egressLimit": (90, "20M"),
}
_IO = {
    "readIOPS": (0, 1000),
    "writeIOPS": (2000,),
    "readBPS": (1 << 20,),
    "ioWeightPercent": (50, 100),
    "readLatency": (3000,),
    "enableUserModel": (False,),
}


def one(random: Random) -> Object:
    """One input."""
    data: dict[str, str] = {}
    keys: dict[str, Callable[[Random], Object]] = {
        "resource-threshold-config": lambda at: _some(at, _THRESHOLDS),
        "resource-qos-config": _qos,
        "cpu-burst-config": lambda at: _some(at, _BURST),
        "system-config": lambda at: _some(at, _SYSTEM),
    }
    for key, part in keys.items():
        if random.random() < 0.5:
            data[key] = json.dumps(_layers(random, part))
            if random.random() < 0.02:
                data[key] = random.choice(("{", "[]", '"x"', "{}", '{"clusterStrategy":[]}'))
    if random.random() < 0.4:
        data["host-application-config"] = json.dumps(_applications(random))
    annotations = {}
    if random.random() < 0.15:
        annotations[BANDWIDTH] = random.choice(("10G", "1000M", "0", "x", "-1", ""))
    labels = {name: random.choice("ab") for name in ("pool", "zone") if random.random() < 0.8}
    return {
        "data": data,
        "node": {"metadata": {"name": "n", "labels": labels, "annotations": annotations}},
        "old": random.choice((None, None, {"extensions": {"other": {"a": 1}}})),
    }


def _some(random: Random, ways: dict[str, tuple[Any, ...]], chance: float = 0.25) -> Object:
    found = {}
    for name, values in ways.items():
        if random.random() < chance:
            found[name] = random.choice(values)
            if isinstance(values[0], int) and "Priority" not in name and random.random() < 0.004:
                found[name] = WRONG
            if random.random() < 0.02:
                found[name] = None
    return found


def _qos(random: Random) -> Object:
    found: Object = {}
    if random.random() < 0.3:
        found["policies"] = _some(
            random, {"cpuPolicy": ("groupIdentity", "coreSched"), "netQOSPolicy": ("tc",)}, 0.6
        )
    parts = {
        "cpuQOS": _CPU,
        "memoryQOS": _MEMORY,
        "resctrlQOS": _RESCTRL,
        "networkQOS": _NETWORK,
    }
    for name in ("lsrClass", "lsClass", "beClass", "systemClass", "cgroupRoot"):
        if random.random() < 0.4:
            chosen = [part for part in parts if random.random() < 0.4]
            found[name] = {part: _some(random, parts[part]) for part in chosen}
            if random.random() < 0.2:
                found[name]["blkioQOS"] = {"enable": True, "blocks": _blocks(random)}
    # No node reads these limits, and NodeSLO's definition has no range for them.
    limits = found.get("cgroupRoot", {}).get("networkQOS", {})
    limits.update({name: 50 for name, value in limits.items() if value == WRONG})
    return found


def _blocks(random: Random) -> list[Object]:
    return [
        {
            "name": f"/dev/vd{place}",
            "type": random.choice(("device", "volumegroup")),
            "ioCfg": _some(random, _IO, 0.5),
        }
        for place in range(random.randint(0, 2))
    ]


def _layers(random: Random, part: Callable[[Random], Object]) -> Object:
    found: Object = {}
    if random.random() < 0.8:
        found["clusterStrategy"] = part(random)
    if random.random() < 0.6:
        found["nodeStrategies"] = [
            {"name": f"some-{place}", "nodeSelector": _selector(random), **part(random)}
            for place in range(random.randint(1, 3))
        ]
    return found


def _selector(random: Random) -> Object:
    name = random.choice(("pool", "zone"))
    operator = random.choice(("In", "NotIn", "Exists", "DoesNotExist"))
    values = {"values": [random.choice("abc")]} if operator in ("In", "NotIn") else {}
    return random.choice(
        (
            {"matchLabels": {name: random.choice("abc")}},
            {"matchExpressions": [{"key": name, "operator": operator, **values}]},
        )
    )


def _applications(random: Random) -> Object:
    def listed() -> list[Object]:
        return [
            {
                "name": f"app-{place}",
                "priority": random.choice(("koord-prod", "koord-batch")),
                "qos": random.choice(("LS", "BE")),
                "cgroupPath": random.choice(
                    (
                        {"base": "CgroupRoot", "parentDir": "a", "relativePath": f"b{place}"},
                        {"base": "Kubepods", "relativePath": "c"},
                    )
                ),
            }
            for place in range(random.randint(0, 2))
        ]

    found: Object = {}
    if random.random() < 0.8:
        found["applications"] = listed()
    if random.random() < 0.6:
        found["nodeConfigs"] = [
            {"name": "some", "nodeSelector": _selector(random), "applications": listed()}
        ]
    return found


def keys_out_of_range(given: Object) -> None:
    """A key with a value that no node would take holds nowhere."""
    for key in [key for key, text in given["data"].items() if str(WRONG) in text]:
        del given["data"][key]


def bad_bandwidth(given: Object) -> None:
    """An annotation that is no bandwidth is passed over."""
    annotations = given["node"]["metadata"]["annotations"]
    if annotations.get(BANDWIDTH) in ("x", "-1", ""):
        del annotations[BANDWIDTH]


def bandwidth_of_some_nodes(given: Object) -> None:
    """Where it is not said for some nodes, that of the cluster holds."""
    try:
        system = json.loads(given["data"]["system-config"])
        bandwidth = system["clusterStrategy"]["totalNetworkBandwidth"]
    except (KeyError, ValueError, TypeError):
        return
    for one in system.get("nodeStrategies", ()):
        if one.get("totalNetworkBandwidth") is None:
            one["totalNetworkBandwidth"] = bandwidth
    given["data"]["system-config"] = json.dumps(system)


DECISIONS: dict[str, Callable[[Object], None]] = {
    "keys out of range": keys_out_of_range,
    "bad bandwidth": bad_bandwidth,
    "bandwidth of some nodes": bandwidth_of_some_nodes,
}

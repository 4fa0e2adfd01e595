"""Objects as Koordinator's and our programs write them, and such as nobody may write."""

from __future__ import annotations

import copy
from typing import Any

Object = dict[str, Any]

SLO, DEVICE = "slo.koordinator.sh/v1alpha1", "scheduling.koordinator.sh/v1alpha1"
CONFIG, ANALYSIS = "config.koordinator.sh/v1alpha1", "analysis.koordinator.sh/v1alpha1"
SIGS, QUOTA = "scheduling.sigs.k8s.io/v1alpha1", "quota.koordinator.sh/v1alpha1"
TOPOLOGY, NEWER = "topology.node.k8s.io/v1alpha1", "topology.node.k8s.io/v1alpha2"

USED = {"resources": {"cpu": "1500m", "memory": "2Gi"}}
THEN = "2026-11-20T10:00:00Z"
GPU = {
    "type": "gpu",
    "id": "GPU-0",
    "minor": 0,
    "health": True,
    "resources": {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": "80Gi"},
    "topology": {"socketID": -1, "nodeID": 0, "pcieID": "pci0000:80", "busID": "0000:80:00.0"},
    "conditions": [
        {
            "type": "Healthy",
            "status": "True",
            "lastTransitionTime": THEN,
            "reason": "DeviceHealthy",
            "message": "",
        }
    ],
}
NIC = {
    "type": "rdma",
    "minor": 0,
    "moduleID": 1,
    "health": False,
    "labels": {"a": "b"},
    "vfGroups": [{"labels": {"type": "general"}, "vfs": [{"minor": -1, "busID": "0000:51:00.2"}]}],
}
ZONE = {
    "name": "node-0",
    "type": "Node",
    "parent": "",
    "costs": [{"name": "node-1", "value": 20}],
    "attributes": [{"name": "a", "value": "b"}],
    "resources": [{"name": "cpu", "capacity": "4", "allocatable": 4, "available": "3500m"}],
}
WINDOW = {"usage": {"avg": USED, "p50": {}, "p90": USED, "p95": USED, "p99": USED}}
CLASS = {
    "cpuQOS": {"enable": True, "groupIdentity": -1, "schedIdle": 0, "coreExpeller": False},
    "memoryQOS": {
        "enable": True,
        "minLimitPercent": 0,
        "lowLimitPercent": 100,
        "throttlingPercent": 80,
        "wmarkRatio": 95,
        "wmarkScalePermill": 20,
        "wmarkMinAdj": -25,
        "priorityEnable": 1,
        "priority": 12,
        "oomKillGroup": 1,
        "pageCacheEnable": True,
        "pageCacheLimitPercent": 50,
        "pageCacheLimitSize": 1 << 40,
        "pageCacheReclaimSync": False,
    },
    "blkioQOS": {
        "enable": True,
        "blocks": [
            {"name": "ackdistro-pool", "type": "volumegroup", "ioCfg": {"ioWeightPercent": 60}},
            {
                "name": "/dev/vdb",
                "type": "device",
                "ioCfg": {
                    "readIOPS": 0,
                    "writeIOPS": 2048,
                    "readBPS": 1 << 40,
                    "writeBPS": 1,
                    "readLatency": 3000,
                    "writeLatency": 3000,
                    "readLatencyPercent": 95,
                    "writeLatencyPercent": 95,
                    "enableUserModel": True,
                    "modelReadBPS": 1,
                    "modelWriteBPS": 1,
                    "modelReadSeqIOPS": 1,
                    "modelWriteSeqIOPS": 1,
                    "modelReadRandIOPS": 1,
                    "modelWriteRandIOPS": 1,
                },
            },
        ],
    },
    "resctrlQOS": {
        "enable": True,
        "catRangeStartPercent": 0,
        "catRangeEndPercent": 30,
        "mbaPercent": 100,
    },
    "networkQOS": {
        "enable": True,
        "ingressRequest": "50M",
        "ingressLimit": 100,
        "egressRequest": 0,
        "egressLimit": "100M",
    },
}

REFERENCE = {"apiVersion": "v1", "kind": "Pod", "name": "a", "namespace": "ns", "uid": "u"}
DRAIN: Object = {
    "reason": "kernel",
    "requestedBy": "ops",
    "dryRun": True,
    "deadline": {"duration": "1h", "then": "Delete"},
    "waves": [{"name": "plain"}, {"name": "critical", "priority": 2000000000}],
    "podRules": [
        {
            "namespaces": ["ns"],
            "selector": {
                "matchLabels": {"app": "web"},
                "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}],
            },
            "behavior": "WaitCompleted",
            "order": 2,
        }
    ],
    "migrationPolicy": {"jobMode": "EvictDirectly", "ttl": "5m"},
}
OBJECT = REFERENCE | {"fieldPath": "spec", "resourceVersion": "1"}

WHOLE: dict[str, tuple[str, str, Object]] = {
    "metric": (
        SLO,
        "NodeMetric",
        {
            "spec": {
                "metricCollectPolicy": {
                    "aggregateDurationSeconds": 300,
                    "reportIntervalSeconds": 60,
                    "nodeAggregatePolicy": {"durations": ["5m0s", "30m0s", "1.5s", "0s"]},
                    "nodeMemoryCollectPolicy": "usageWithoutPageCache",
                }
            },
            "status": {
                "updateTime": THEN,
                "nodeMetric": {
                    "nodeUsage": USED | {"devices": [GPU]},
                    "aggregatedNodeUsages": [WINDOW | {"duration": "5m0s"}, {"duration": "0s"}],
                    "systemUsage": USED,
                    "aggregatedSystemUsages": [WINDOW | {"duration": "5m0s"}],
                    "numaUsages": [{"numaNodeID": 0, "nodeUsage": USED, "systemUsage": {}}],
                },
                "podsMetric": [
                    {
                        "name": "a",
                        "namespace": "ns",
                        "podUsage": USED,
                        "priority": "koord-batch",
                        "qos": "BE",
                        "extensions": {"pykoord": {"containers": {"web": {"cpu": "1"}}}, "x": 1},
                    },
                    {"name": "b", "namespace": "ns", "podUsage": {}},
                ],
                "hostApplicationMetric": [
                    {"name": "nginx", "usage": USED, "priority": "koord-prod", "qos": "LS"}
                ],
                "prodReclaimableMetric": {"resource": USED},
                "prodPeakMetric": {"resource": {}},
                "extensions": {"pykoord": {"conditions": [{"name": "Hot", "effects": ["x"]}]}},
            },
        },
    ),
    "slo": (
        SLO,
        "NodeSLO",
        {
            "spec": {
                "resourceUsedThresholdWithBE": {
                    "enable": False,
                    "cpuSuppressThresholdPercent": 65,
                    "cpuSuppressMinPercent": 0,
                    "cpuSuppressPolicy": "cpuset",
                    "memoryEvictThresholdPercent": 70,
                    "memoryEvictLowerPercent": 65,
                    "memoryAllocatableEvictThresholdPercent": 120,
                    "memoryAllocatableEvictLowerPercent": 110,
                    "cpuEvictBESatisfactionUpperPercent": 60,
                    "cpuEvictBESatisfactionLowerPercent": 40,
                    "cpuEvictBEUsageThresholdPercent": 90,
                    "cpuEvictTimeWindowSeconds": 60,
                    "cpuEvictThresholdPercent": 90,
                    "cpuEvictLowerPercent": 80,
                    "cpuAllocatableEvictThresholdPercent": 150,
                    "cpuAllocatableEvictLowerPercent": 140,
                    "cpuEvictPolicy": "evictByRealLimit",
                    "evictEnabledPriorityThreshold": 5999,
                    "allocatableEvictPriorityThreshold": 7999,
                },
                "resourceQOSStrategy": {
                    "policies": {"cpuPolicy": "coreSched", "netQOSPolicy": "terway-qos"},
                    "lsrClass": CLASS,
                    "lsClass": CLASS,
                    "beClass": CLASS,
                    "systemClass": CLASS,
                    "cgroupRoot": CLASS,
                },
                "cpuBurstStrategy": {
                    "policy": "none",
                    "cpuBurstPercent": 1000,
                    "cfsQuotaBurstPercent": 300,
                    "cfsQuotaBurstPeriodSeconds": -1,
                    "sharePoolThresholdPercent": 50,
                },
                "systemStrategy": {
                    "minFreeKbytesFactor": 100,
                    "watermarkScaleFactor": 150,
                    "memcgReapBackGround": 0,
                    "schedGroupIdentityEnabled": 1,
                    "schedIdleSaverWmark": 0,
                    "schedFeatures": {"ID_EXPELLER_SHARE_CORE": False},
                    "pageCacheLimitEnabled": 1,
                    "totalNetworkBandwidth": "0",
                },
                "extensions": {"other": {"x": [1]}, "pykoord": {"strategies": {}}},
                "hostApplications": [
                    {
                        "name": "nginx",
                        "priority": "koord-prod",
                        "qos": "LS",
                        "cgroupPath": {
                            "base": "CgroupRoot",
                            "parentDir": "host-latency-sensitive/",
                            "relativePath": "nginx/",
                        },
                        "strategy": {},
                    }
                ],
            },
            "status": {},
        },
    ),
    "device": (
        DEVICE,
        "Device",
        {
            "spec": {"devices": [GPU, NIC]},
            "status": {
                "allocations": [
                    {
                        "type": "gpu",
                        "entries": [
                            {"name": "a", "namespace": "ns", "uuid": "u", "minors": [0, 1]}
                        ],
                    }
                ]
            },
        },
    ),
    "cluster network topology": (
        DEVICE,
        "ClusterNetworkTopology",
        {
            "spec": {
                "networkTopologySpec": [
                    {"topologyLayer": "rack", "labelKey": ["example.com/rack"]},
                    {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "rack"},
                ]
            },
            "status": {
                "detailStatus": [
                    {
                        "topologyInfo": {"topologyLayer": "rack", "topologyName": "r1"},
                        "parentTopologyInfo": {
                            "topologyLayer": "ClusterTopologyLayer",
                            "topologyName": "",
                        },
                        "childTopologyLayer": "NodeTopologyLayer",
                        "childTopologyNames": ["n1"],
                        "nodeNum": 1,
                    }
                ]
            },
        },
    ),
    "pod group": (
        "scheduling.sigs.k8s.io/v1alpha1",
        "PodGroup",
        {
            "spec": {
                "minMember": 3,
                "minResources": {"cpu": "4"},
                "scheduleTimeoutSeconds": 60,
            },
            "status": {
                "phase": "Running",
                "occupiedBy": "shop/job",
                "scheduled": 3,
                "running": 2,
                "succeeded": 1,
                "failed": 1,
                "scheduleStartTime": THEN,
            },
        },
    ),
    "reservation": (
        DEVICE,
        "Reservation",
        {
            "spec": {
                "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}},
                "owners": [
                    {
                        "object": OBJECT,
                        "controller": REFERENCE | {"controller": True, "blockOwnerDeletion": True},
                        "labelSelector": {"matchLabels": {"app": "web"}},
                    }
                ],
                "ttl": "1h",
                "expires": "2026-01-01T00:00:00Z",
                "preAllocation": False,
                "preAllocationPolicy": {"mode": "Cluster", "enableMultiple": True},
                "allocateOnce": False,
                "allocatePolicy": "Restricted",
                "unschedulable": True,
                "taints": [
                    {
                        "key": "k",
                        "value": "v",
                        "effect": "NoSchedule",
                        "timeAdded": "2026-01-01T00:00:00Z",
                    }
                ],
            },
            "status": {
                "phase": "Available",
                "nodeName": "n",
                "allocatable": {"cpu": "4"},
                "allocated": {"cpu": "500m"},
                "currentOwners": [OBJECT],
                "conditions": [
                    {
                        "type": "Ready",
                        "status": "True",
                        "reason": "Available",
                        "message": "m",
                        "lastProbeTime": "2026-01-01T00:00:00Z",
                        "lastTransitionTime": "2026-01-01T00:00:00Z",
                    }
                ],
            },
        },
    ),
    "drain": (
        DEVICE,
        "DrainNode",
        {
            "spec": {"nodeName": "n", "confirmState": "WaitForConfirm", **DRAIN},
            "status": {
                "phase": "Blocked",
                "message": "1 pod blocks",
                "nodeName": "n",
                "cordonedBefore": True,
                "confirmTime": THEN,
                "endTime": THEN,
                "counts": {
                    "total": 4,
                    "ready": 1,
                    "migrating": 1,
                    "blocked": 1,
                    "waiting": 1,
                    "drained": 2,
                },
                "pods": [
                    {
                        "namespace": "ns",
                        "name": "a",
                        "uid": "u",
                        "state": "Blocked",
                        "wave": 1,
                        "targetNode": "m",
                        "reservation": "r",
                        "job": "j",
                        "why": "it is bare",
                    }
                ],
                "unlistedPods": 3,
            },
        },
    ),
    "drain group": (
        DEVICE,
        "DrainNodeGroup",
        {
            "spec": {
                "nodeSelector": {"matchLabels": {"pool": "old"}},
                "confirmState": "Aborted",
                "executionPolicy": {"partition": 1, "paused": True},
                "terminationPolicy": {"maxNodeCount": 3, "percentageOfResourceReserved": 20},
                **DRAIN,
            },
            "status": {
                "phase": "Running",
                "message": "m",
                "endTime": THEN,
                "counts": {
                    "selected": 4,
                    "planned": 2,
                    "confirmed": 1,
                    "blocked": 1,
                    "drained": 0,
                    "failed": 0,
                },
                "nodes": [{"name": "n", "drainNode": "d", "phase": "Blocked", "why": "w"}],
                "unlistedNodes": 0,
            },
        },
    ),
    "tide": (
        "tide.katalyst.kubewharf.io/v1alpha1",
        "TideNodePool",
        {
            "spec": {
                "evictStrategy": {
                    "type": "watermark",
                    "watermark": {
                        "low": 50,
                        "high": 70,
                        "evictOnlinePodTaint": {"key": "a", "value": "b", "effect": "NoExecute"},
                        "evictOfflinePodTaint": {"key": "c", "value": "d", "effect": ""},
                    },
                },
                "nodeConfigs": {
                    "nodeSelector": {"pool": "tide"},
                    "onlineLabel": {"key": "side", "value": "on"},
                    "offlineLabel": {"key": "side", "value": "off"},
                    "tideLabel": {"key": "tide", "value": "true"},
                    "reserve": {"online": "20%", "offline": 1},
                },
                "coolDown": "30m",
                "deadline": "5m",
                "dryRun": True,
                "podRules": DRAIN["podRules"],
                "migrationPolicy": DRAIN["migrationPolicy"],
            },
            "status": {
                "reserveNodes": {"onlineNodes": ["a"], "offlineNodes": ["b"]},
                "tideNodes": {"nodes": ["c"]},
                "message": "m",
                "requestedPercent": 130,
                "counts": {
                    "online": 1,
                    "offline": 1,
                    "toOnline": 0,
                    "toOffline": 1,
                    "unusable": 0,
                },
                "nodes": [{"name": "c", "side": "online", "state": "Moving", "why": "w"}],
            },
        },
    ),
    "migration": (
        DEVICE,
        "PodMigrationJob",
        {
            "spec": {
                "podRef": OBJECT,
                "mode": "ReservationFirst",
                "paused": True,
                "ttl": "5m0s",
                "reservationOptions": {
                    "reservationRef": OBJECT,
                    "template": {"metadata": {"name": "r"}, "spec": {"allocateOnce": True}},
                    "preemptionOptions": {},
                },
                "deleteOptions": {
                    "apiVersion": "v1",
                    "kind": "DeleteOptions",
                    "dryRun": ["All"],
                    "gracePeriodSeconds": 30,
                    "ignoreStoreReadErrorWithClusterBreakingPotential": False,
                    "orphanDependents": False,
                    "preconditions": {"resourceVersion": "1", "uid": "u"},
                    "propagationPolicy": "Background",
                },
            },
            "status": {
                "phase": "Running",
                "status": "Eviction",
                "reason": "Evicting",
                "message": "m",
                "conditions": [
                    {
                        "type": "Eviction",
                        "status": "False",
                        "reason": "Evicting",
                        "message": "m",
                        "lastProbeTime": None,
                        "lastTransitionTime": "2026-01-01T00:00:00Z",
                    }
                ],
                "nodeName": "n",
                "podRef": OBJECT,
                "preemptedPodsRef": [OBJECT],
                "preemptedPodsReservation": [
                    {
                        "name": "r",
                        "namespace": "ns",
                        "nodeName": "n",
                        "phase": "Available",
                        "preemptedPodRef": OBJECT,
                        "podsRef": [OBJECT],
                    }
                ],
            },
        },
    ),
    "topology": (TOPOLOGY, "NodeResourceTopology", {"topologyPolicies": ["None"], "zones": [ZONE]}),
    "newer topology": (
        NEWER,
        "NodeResourceTopology",
        {"attributes": [{"name": "topologyManagerScope", "value": "pod"}], "zones": [ZONE]},
    ),
    "profile": (
        CONFIG,
        "ClusterColocationProfile",
        {
            "spec": {
                "namespaceSelector": {"matchLabels": {"colocated": "yes"}},
                "selector": {
                    "matchExpressions": [
                        {"key": "app", "operator": "In", "values": ["a"]},
                        {"key": "b", "operator": "DoesNotExist"},
                    ]
                },
                "probability": "30%",
                "qosClass": "BE",
                "priorityClassName": "koord-batch",
                "koordinatorPriority": 1000,
                "labels": {"a": "b"},
                "annotations": {"a": "b"},
                "labelKeysMapping": {"a": "b"},
                "annotationKeysMapping": {"a": "b"},
                "labelSuffixes": {"a": "-b"},
                "schedulerName": "koord-scheduler",
                "patch": {"spec": {"terminationGracePeriodSeconds": 30, "x": None, "y": [{}]}},
            },
            "status": {},
        },
    ),
    "quota": (
        SIGS,
        "ElasticQuota",
        {
            "spec": {"min": {"cpu": 1, "memory": "1Gi"}, "max": {"cpu": "4", "memory": "8Gi"}},
            "status": {"used": {"cpu": "500m"}},
        },
    ),
    "quota profile": (
        QUOTA,
        "ElasticQuotaProfile",
        {
            "spec": {
                "quotaName": "gpu-root",
                "quotaLabels": {"a": "b"},
                "resourceRatio": "0.9",
                "nodeSelector": {
                    "matchLabels": {"pool": "gpu"},
                    "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}],
                },
            },
            "status": {},
        },
    ),
    "recommendation": (
        ANALYSIS,
        "Recommendation",
        {
            "spec": {
                "target": {
                    "type": "workload",
                    "workload": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                    "podSelector": {"matchLabels": {"app": "web"}},
                }
            },
            "status": {
                "podStatus": {
                    "containerStatuses": [
                        {"containerName": "web", "resources": {"cpu": "250m", "limits.cpu": 1}}
                    ]
                },
                "updateTime": THEN,
                "conditions": GPU["conditions"],
            },
        },
    ),
}
"""Version, kind and fields, with all that may be said in one of that kind."""


def nested(path: str, value: Any) -> Object:
    """Fields with this value at a path."""
    for name in reversed(path.split(".")):
        value = {name: value}
    return dict(value)


_COLLECT, _THRESHOLD = "spec.metricCollectPolicy", "spec.resourceUsedThresholdWithBE"
_SELECTOR = [{"key": "a", "operator": "Is"}]
_TARGET = {"type": "workload", "workload": {"kind": "Deployment"}}
_RESERVED = {"template": {}, "owners": [{"object": {"name": "a"}}]}
_AT: list[tuple[str, str, Any, str]] = [
    ("metric", "status.updateTime", "today", ""),
    ("metric", "status.nodeMetric.nodeUsage.resources.cpu", "much", ""),
    ("metric", f"{_COLLECT}.reportIntervalSeconds", 0, ""),
    ("metric", f"{_COLLECT}.nodeAggregatePolicy.durations", ["5 minutes"], "[0]"),
    ("metric", "status.nodeMetric.numaUsages", [{"nodeUsage": USED}], "[0].numaNodeID"),
    ("slo", f"{_THRESHOLD}.cpuSuppressThresholdPercent", 101, ""),
    ("slo", "spec.cpuBurstStrategy.policy", "all", ""),
    ("slo", "spec.hostApplications", {}, ""),
    ("device", "spec.devices", [{"type": "disk"}], "[0].type"),
    ("profile", "spec.qosClass", "be", ""),
    ("profile", "spec.patch", "{}", ""),
    ("profile", "spec.labels.a", 1, ""),
    ("profile", "spec.selector.matchExpressions", _SELECTOR, "[0].operator"),
    ("quota", "spec.max.cpu", "much", ""),
    ("quota profile", "spec", {"nodeSelector": {}}, ".quotaName"),
    ("recommendation", "spec", {}, ".target"),
    ("reservation", "spec", {"template": {}}, ".owners"),
    ("reservation", "spec", _RESERVED | {"allocatePolicy": "Default"}, ".allocatePolicy"),
    ("migration", "spec", {"mode": "EvictDirectly"}, ".podRef"),
    ("drain", "spec", {}, ".nodeName"),
    ("drain", "spec", {"nodeName": "n", "confirmState": "Yes"}, ".confirmState"),
    ("drain", "spec", {"nodeName": "n", "podRules": [{"order": 1}]}, ".podRules[0].behavior"),
    ("drain group", "spec", {}, ".nodeSelector"),
    ("migration", "spec", {"podRef": {}, "mode": "Evict"}, ".mode"),
    ("recommendation", "spec.target.type", "pods", ""),
    ("recommendation", "spec.target", _TARGET, ".workload.name"),
]
"""Which of them with what instead where, and the field below that is refused."""

WRONG: list[tuple[str, Object, str]] = [
    *((name, nested(path, value), f"{path}{below}") for name, path, value, below in _AT),
    ("device", {"spec": {"devices": [{"minor": 1 << 31}]}}, "<nil>"),  # the server names none
    ("topology", {"zones": []}, "topologyPolicies"),
    ("newer topology", {}, "zones"),
    ("topology", {"topologyPolicies": [], "zones": [{"name": "a"}]}, "zones[0].type"),
]
"""The same, as fields, and the field that is refused."""

UNKNOWN: list[tuple[str, Object, str]] = [
    ("slo", {"spec": {"cpuBurst": {}}}, "spec.cpuBurst"),
    ("metric", {"status": {"podMetric": []}}, "status.podMetric"),
    ("topology", {"attributes": [], "topologyPolicies": [], "zones": []}, "attributes"),
]
"""The same, and the field that is not kept."""


def document(name: str, change: Object | None = None) -> Object:
    """The object of that name, or one of its kind with other fields."""
    version, kind, fields = WHOLE[name]
    head = {"apiVersion": version, "kind": kind, "metadata": {"name": "n"}}
    return head | copy.deepcopy(fields if change is None else change)

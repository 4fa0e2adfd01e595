"""What the loop is closed with: the configuration, a profile, and a pod as people write it."""

from __future__ import annotations

from datetime import UTC, datetime

from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import COLOCATION_PROFILES

QUOTA = "cpu.cfs_quota_us"
PERIOD = 100_000
MARGIN = {"cpu": 5, "memory": 20}
"""Percent of the node that batch pods never have."""
COLOCATION = {
    "enable": True,
    "cpuReclaimThresholdPercent": 100 - MARGIN["cpu"],
    "memoryReclaimThresholdPercent": 100 - MARGIN["memory"],
    "metricReportIntervalSeconds": 2,
    "metricAggregateDurationSeconds": 4,
    "metricAggregatePolicy": {"durations": ["4s"]},
    "updateTimeThresholdSeconds": 1,
    "resourceDiffThreshold": 0.001,
}
PROFILE = {
    "apiVersion": f"{COLOCATION_PROFILES.group}/{COLOCATION_PROFILES.version}",
    "kind": COLOCATION_PROFILES.kind,
    "metadata": {"name": "spare-time"},
    "spec": {
        "selector": {"matchLabels": {"team": "analytics"}},
        "qosClass": "BE",
        "priorityClassName": "koord-batch",
        "labels": {"colocated": "yes"},
    },
}


def plain(name: str, cpu: str = "300m") -> Object:
    """A pod as people write it who never heard of batch resources."""
    resources = {
        "requests": {"cpu": cpu, "memory": "64Mi"},
        "limits": {"cpu": "1500m", "memory": "128Mi"},
    }
    return {
        "metadata": {"name": name, "namespace": "default", "labels": {"team": "analytics"}},
        "spec": {"containers": [{"name": "main", "image": "stress", "resources": resources}]},
    }


def metric_status(namespace: str, pod: str, cores: float) -> Object:
    """What a koordlet says of a node whose only pod, a production one, uses so much."""
    usage = {"resources": {"cpu": f"{cores * 1000:.0f}m", "memory": "1Gi"}}
    measured = {"namespace": namespace, "name": pod, "podUsage": usage}
    return {
        "updateTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "nodeMetric": {
            "nodeUsage": usage,
            "systemUsage": {"resources": {"cpu": "0", "memory": "0"}},
        },
        "podsMetric": [{**measured, "priority": "koord-prod", "qos": "LS"}],
    }

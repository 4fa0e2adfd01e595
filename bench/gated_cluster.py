"""Work for the features behind the manager's gates, in a large cluster that has all of them.

Beside what ``large_cluster`` has: a rollout with a canary in each zone, profiles of services (one
for five nodes, with pods of a fifth of all workloads) and their Deployments, a Recommendation and
a quota in each namespace, quotas of nodes, and one node of a thousand that is sick. Reports echo
the rollout's versions, and sick nodes report a condition.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from koord_kube.protocol import resources
from koord_kube.protocol.resources import Resource
from koord_manager.nodeslo.core.rollout import Rollout
from koord_manager.program import gates
from koord_manager.service_profiles.core.objects import WorkloadKind
from koord_manager.slo_config.core import config as slo_config

from bench import large_cluster
from bench.large_cluster import NAMESPACES, WORKLOADS, Object

LEFT_OFF = frozenset(
    {
        # These take work away from others that are on here.
        "ColocationProfileSkipMutatingResources",
        "ColocationProfileSkipValidatingPriority",
        "DisableDefaultQuota",
        "DisableDeviceResourceSpec",
        "DisableExtendedResourceSpec",
    }
)
ALL_GATES = tuple(f"{name}=true" for name in gates.DEFAULTS if name not in LEFT_OFF)
"""Every gate that adds work, those of features to come, too."""

_ZONES = 3
_NODES_PER_PROFILE = 5
_NODES_PER_SICK = 1000
_PARENTS = 10
_TREES = 4
_DEPLOYMENTS = WorkloadKind("apps/v1", "Deployment")
_QUOTA = {"cpu": "4000", "memory": "8000Gi"}


def config() -> dict[str, str]:
    """Data of ``slo-controller-config``: each zone tries something on a tenth of its nodes."""
    entries = [
        {
            "name": f"offload-{zone}",
            "nodeSelector": {"matchLabels": {"topology.kubernetes.io/zone": f"zone-{zone}"}},
            "canary": "10%",
            "strategies": {"memory_offload": {"mode": "on", "pressure_percent": 1 + zone}},
        }
        for zone in range(_ZONES)
    ]
    return {**large_cluster.CONFIG, "pykoord-config": json.dumps({"nodeStrategies": entries})}


def objects(nodes: int) -> Iterator[tuple[Resource, str, Object]]:
    """All but pods; the later of one name counts."""
    yield from large_cluster.objects(nodes)
    meta = {"name": "slo-controller-config"}
    yield resources.CONFIG_MAPS, large_cluster.NAMESPACE, {"metadata": meta, "data": config()}
    for number in range(0, nodes, _NODES_PER_SICK):
        yield resources.NODES, "", _sick(number)
    for number in range(nodes // _NODES_PER_PROFILE):
        turn, team = divmod(number, NAMESPACES)
        yield from _service(f"team-{team}", (team + turn) % WORKLOADS)
    for number in range(NAMESPACES):
        yield (
            resources.RECOMMENDATIONS,
            f"team-{number}",
            large_cluster.recommendation(number % WORKLOADS),
        )
    yield from _quotas()


def _sick(number: int) -> Object:
    node = large_cluster.node(number)
    for condition in node["status"]["conditions"]:
        if condition["type"] == "Ready":
            condition |= {"status": "Unknown", "reason": "NodeStatusUnknown"}
    return node


def _service(namespace: str, workload: int) -> Iterator[tuple[Resource, str, Object]]:
    """A Deployment, and its profile."""
    meta = {"name": f"web-{workload}", "uid": large_cluster.uid("ff", workload)}
    selector = {"matchLabels": {"app": large_cluster.owner_name(workload)}}
    yield _DEPLOYMENTS.resource, namespace, {"metadata": meta, "spec": {"selector": selector}}
    kind = {"apiVersion": _DEPLOYMENTS.api_version, "kind": _DEPLOYMENTS.kind}
    bound = {"indicatorLevel": "UpperBound", "value": 460}
    spec = {
        "targetRef": {**kind, "name": meta["name"]},
        "baselinePercent": 10,
        "systemIndicator": [{"name": "cpu_sched_wait", "indicators": [bound]}],
    }
    yield resources.SERVICE_PROFILES, namespace, {"metadata": meta, "spec": spec}


def _quotas() -> Iterator[tuple[Resource, str, Object]]:
    """A quota in each namespace below a few, and trees of quotas of pools of nodes."""
    for number in range(_PARENTS):
        yield resources.ELASTIC_QUOTAS, "kube-system", _quota(f"parent-{number}", "", number)
    for number in range(NAMESPACES):
        parent = f"parent-{number % _PARENTS}"
        yield resources.ELASTIC_QUOTAS, f"team-{number}", _quota(f"quota-{number}", parent, number)
    for number in range(_TREES):
        spec = {
            "quotaName": f"pool-{number}",
            "nodeSelector": {"matchLabels": {"node-pool": f"pool-{number}"}},
        }
        meta = {"name": f"pool-{number}", "uid": large_cluster.uid("fa", number)}
        yield resources.QUOTA_PROFILES, "kube-system", {"metadata": meta, "spec": spec}


def _quota(name: str, parent: str, number: int) -> Object:
    labels = {"quota.scheduling.koordinator.sh/is-parent": str(not parent).lower()}
    if parent:
        labels["quota.scheduling.koordinator.sh/parent"] = parent
    meta = {"name": name, "uid": large_cluster.uid("fb", number), "labels": labels}
    return {"metadata": meta, "spec": {"min": _QUOTA, "max": _QUOTA}}


class ReportExtensions:
    """Extensions of the reports of so many nodes."""

    def __init__(self, nodes: int) -> None:
        labels = {
            large_cluster.node_name(number): large_cluster.node(number)["metadata"]["labels"]
            for number in range(nodes)
        }
        found, problems = slo_config.advance(slo_config.UNREAD, config())
        if problems or found.extension is None:
            raise SystemExit(f"bench: {problems}")
        layers, rollout = found.extension, Rollout(lambda: labels, lambda: 0.0)
        self._sections: dict[str, Any] = {}
        for name, given in labels.items():
            entry = rollout.entry_for(layers, name, given, is_new=False)
            section = rollout.section_of(layers, entry, is_compared=True)
            self._sections[name] = section["rollout"]

    def of(self, node: int, which: int) -> Object:
        """``extensions`` of a node's status; canaries fare as others do."""
        chance = random.Random(node * large_cluster.VARIANTS + which)
        found: Object = {
            "rollout": {
                **self._sections[large_cluster.node_name(node)],
                "evictions": 3,
                "restarts": 4,
                "psi": round(chance.gauss(10, 3), 2),
                "schedWait": round(chance.gauss(40, 9), 2),
                "batchCores": round(chance.gauss(8, 1), 2),
            }
        }
        if node % _NODES_PER_SICK == 0:
            found["conditions"] = [{"name": "DiskSlow", "effects": ["NoSchedule"]}]
        return {"pykoord": found}
